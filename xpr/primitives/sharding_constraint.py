"""sharding_constraint: the operand with a given sharding over devices; the compiler moves the data.

`sharded` is what functions do with their argument `out_sharding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.mesh import Mesh, MeshOfOneDevice
from xpr.backend.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding, sharding_by, typed
from xpr.backend.stablehlo import Builder, Value
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context, shardings_decided_later
from xpr.core.memory import space_of_kind
from xpr.core.primitive import Primitive, register
from xpr.core.specs import axes_of
from xpr.errors import MissingMesh, ShardingTypeError
from xpr.primitives.communication import of_reshard
from xpr.primitives.device_put import in_memory

__all__ = ["reshard_p", "sharding_constraint_p"]


def _constraint(name: str, lower: Callable[..., Any]) -> Primitive:
    """A primitive whose result is its operand, with a sharding."""

    def bind(x: Any, sharding: NamedSharding) -> Any:
        return primitive.bind(x, sharding=sharding)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, sharding: NamedSharding) -> Any:
        """Tangents have the sharding of their primals."""
        (x,), (t,) = primals, tangents
        return [bind(x, sharding)], [t if type(t) is Zero else bind(t, sharding)]

    def transpose(cts: Sequence[Any], operands: Sequence[Any], *, sharding: NamedSharding) -> list[Any]:
        """The cotangent; the caller gives it the sharding of an operand that is partitioned over Explicit axes."""
        return [cts[0] if _is_explicit(operands[0].aval, sharding) else bind(cts[0], sharding)]

    def batch(size: int, values: Sequence[Any], dims: Sequence[int], *, sharding: NamedSharding) -> Any:
        """The compiler chooses the sharding of the mapped axis, unless there are mesh axes for it."""
        (x,), (dim,) = values, dims
        rows, free = context.explicit_rows, PartitionSpec.UNCONSTRAINED if sharding.mesh.auto_axes else None
        along = (context.rows_along or free) if rows is None else rows.parts[0]
        return [bind(x, sharding.with_rows(dim, along))], [dim]

    primitive = register(
        Primitive(
            name,
            abstract=lambda avals, *, sharding: [typed(avals[0], sharding).in_memory(avals[0].memory_space)],
            decides_sharding=True,
            reference=lambda values, **params: list(values),
            lower=lower,
            jvp=jvp,
            transpose=transpose,
            batch=batch,
            mesh=lambda *, sharding: sharding.mesh,
            collectives=of_reshard,
            physical=lambda each, words, avals, *, sharding: [bind(words[0], sharding)],
        )
    )
    return primitive


def _is_explicit(aval: ShapedArray, sharding: NamedSharding) -> bool:
    return aval.explicit is not None or bool(sharding.mesh.explicit_axes)


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, sharding: NamedSharding) -> list[Value]:
    """Writes no constraint inside a manual region over the whole mesh, where each device has its shard already."""
    if all(name in b.module.manual for name in sharding.mesh.axis_names):
        return operands
    (x,) = operands
    text = b.module.sharding(sharding.mesh, sharding.spec, x.aval.ndim)
    return [b.op("sdy.sharding_constraint", operands, x.aval, f"sharding = #sdy.sharding{text}")]


def _reshard_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, sharding: NamedSharding
) -> list[Value]:
    """The compiler may partition it further along Auto axes."""
    (x,) = operands
    if all(name in b.module.manual for name in sharding.mesh.axis_names):
        return operands
    text = b.module.sharding(sharding.mesh, sharding.spec, x.aval.ndim, bool(sharding.mesh.auto_axes))
    return [b.op("sdy.sharding_constraint", operands, x.aval, f"sharding = #sdy.sharding{text}")]


# -- sharding_constraint: the operand has this sharding, which is no part of types where the axes of the mesh are Auto.

sharding_constraint_p = _constraint("sharding_constraint", _lower)

# -- reshard: the result has another type, partitioned over the Explicit axes of a mesh as the sharding says.

reshard_p = _constraint("reshard", _reshard_lower)


def constrain(x: Any, sharding: NamedSharding) -> Any:
    """One array with that sharding; unchanged where the sharding says nothing, over a mesh without devices.

    It stays in its memory, unless the sharding names that of the host.
    """
    mesh = sharding.mesh
    if sharding.memory_kind not in (None, "device"):
        return in_memory(constrain(x, sharding.with_memory_kind("device")), space_of_kind(sharding.memory_kind))
    if not isinstance(mesh, Mesh) and not mesh.has_explicit and not any(map(axes_of, sharding.spec)):
        return x  # as in the type of an array, which says nothing of Auto axes
    refuse_manual(sharding)
    if sharding.spec.unreduced:
        aval = aval_of(x)
        if aval.explicit is not None and aval.explicit.is_undecided:  # the compiler would not do it right in one step
            x = reshard_p.bind(x, sharding=sharding.with_spec(PartitionSpec(*sharding.spec)))
        elif typed(aval, sharding).explicit is aval.explicit:
            return x
    primitive = reshard_p if sharding.mesh.explicit_axes else sharding_constraint_p
    return primitive.bind(x, sharding=sharding)


def refuse_manual(sharding: NamedSharding) -> None:
    """Raises ValueError where a sharding is over an axis of a `shard_map` around."""
    current = settings.mesh
    if current is None or not current.manual_axes:
        return
    manual = [name for part in sharding.spec for name in axes_of(part) if name in current.manual_axes]
    if manual and sharding.mesh.shape_tuple == current.shape_tuple:
        raise ValueError(
            f"with_sharding_constraint: {sharding.spec!r} contains a manual axes {manual[0]!r} of mesh {current}: "
            "along it, by the shard_map around, each device has its shard already. Name other axes."
        )


def constrain_to(x: Any, aval: ShapedArray) -> Any:
    """An array partitioned over Explicit axes of a mesh, and in the memory, as a type says."""
    x = in_memory(x, aval.memory_space)
    explicit, current = aval.explicit, aval_of(x).explicit
    if explicit is current or (explicit is not None and explicit.is_undecided):
        return x
    if explicit is not None:
        return constrain(x, sharding_by(explicit))
    return x if current is None else constrain(x, sharding_by(current, [None] * aval.ndim))


def sharding_of(function: str, sharding: Any) -> NamedSharding:
    """A sharding over a mesh: a spec is one over the current mesh, and a single device is a mesh by itself.

    Raises:
      TypeError: it is neither.
      MissingMesh: no mesh is current.
    """
    if isinstance(sharding, NamedSharding):
        return sharding
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(MeshOfOneDevice(sharding.device), memory_kind=sharding.memory_kind)
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(f"{function}: {sharding!r} is no NamedSharding.")
    if settings.mesh is None:
        raise MissingMesh(
            f"{function} requires a non-empty mesh in context: {sharding!r} is no NamedSharding, and no mesh is "
            "current; write NamedSharding(mesh, spec), or call it in `with xpr.set_mesh(mesh)`."
        )
    return NamedSharding(settings.mesh, sharding)


def sharded(x: Any, out_sharding: Any, function: str) -> Any:
    """The result of a function as its argument `out_sharding` asks for it; None leaves it to the compiler.

    Raises:
      TypeError: it is no `NamedSharding`, nor a spec inside of `set_mesh(mesh)`.
      ValueError: an axis can't be split into equal shards, or it names another memory than the device's.
    """
    if out_sharding is None:
        return x
    aval, sharding = aval_of(x), sharding_of(function, out_sharding)
    if sharding.memory_kind not in (None, "device"):
        raise ValueError(
            f"{function}: out_sharding={sharding}, and a sharding with memory_kind is not allowed there: the result is "
            "computed on the device. Move it afterwards: xpr.device_put(result, sharding)."
        )
    parts = list(sharding.spec)
    while len(parts) > aval.ndim and parts[-1] is None:
        parts.pop()
    sharding = sharding.with_spec(sharding.spec.update([*parts, *[None] * (aval.ndim - len(parts))]))
    sharding.check(aval.shape, function, "the result")
    return constrain(x, sharding)


def decided(out_sharding: Any, function: str, compute: Any) -> Any:
    """The result of `compute()`, partitioned as `out_sharding` says, and ambiguous before; see `sharded`.

    Raises:
      ShardingTypeError: it is to be unreduced over axes over whose shards nothing is summed.
    """
    if out_sharding is None:
        return compute()
    unreduced = unreduced_axes(out_sharding)
    with shardings_decided_later(unreduced):
        result = compute()
        if unreduced:
            _check_sums(aval_of(result), sharding_of(function, out_sharding), function)
        return sharded(result, out_sharding, function)


def _check_sums(aval: ShapedArray, sharding: NamedSharding, function: str) -> None:
    explicit, asked = aval.explicit, typed(aval, sharding).explicit
    if asked is None or (explicit is not None and explicit.is_undecided):
        return
    summed = frozenset() if explicit is None else explicit.unreduced
    if not asked.unreduced <= summed:
        raise ShardingTypeError(
            f"{function}: out_sharding={sharding.spec!r} asks for sums over {_axes_text(asked.unreduced)} to be left "
            f"undone, and the axes of the mesh over whose shards it sums are {_axes_text(summed)}: its result would be "
            f"{aval.str_short()}. Partition all operands alike along the axes that are summed; or have a sum that is "
            "done made unreduced: xpr.sharding.reshard(result, P(unreduced=...))."
        )


def _axes_text(axes: frozenset[Any]) -> str:
    return ", ".join(sorted(map(repr, axes))) or "none"


def unreduced_axes(out_sharding: Any) -> frozenset[Any]:
    """The axes over which an argument `out_sharding` asks for an unreduced result."""
    return getattr(getattr(out_sharding, "spec", out_sharding), "unreduced", frozenset())

"""sharding_constraint: the operand with a given sharding over devices; the compiler moves the data.

`sharded` is what functions do with their argument `out_sharding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from xpr.backend.stablehlo import Builder, Value
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive, register

__all__ = ["sharding_constraint_p"]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, sharding: NamedSharding) -> list[Value]:
    """Nothing inside a manual region over the whole mesh, where each device has its shard already."""
    if all(name in b.module.manual for name in sharding.mesh.axis_names):
        return operands
    (x,) = operands
    text = b.module.sharding(sharding.mesh, sharding.spec, x.aval.ndim)
    return [b.op("sdy.sharding_constraint", operands, x.aval, f"sharding = #sdy.sharding{text}")]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, sharding: NamedSharding) -> Any:
    """Tangents have the sharding of their primals."""
    (x,), (t,) = primals, tangents
    return [constrain(x, sharding)], [t if type(t) is Zero else constrain(t, sharding)]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int], *, sharding: NamedSharding) -> Any:
    """The compiler chooses the sharding of the mapped axis, unless vmap has mesh axes for it."""
    (x,), (dim,) = values, dims
    ndim = aval_of(x).ndim - 1
    along = context.rows_along or PartitionSpec.UNCONSTRAINED
    return [constrain(x, sharding.with_rows(dim, ndim, along))], [dim]


def _mesh(*, sharding: NamedSharding) -> Mesh:
    return sharding.mesh


sharding_constraint_p = register(
    Primitive(
        "sharding_constraint",
        abstract=lambda avals, **params: list(avals),
        params=("sharding",),
        reference=lambda values, **params: list(values),
        lower=_lower,
        jvp=_jvp,
        transpose=lambda cts, operands, *, sharding: [constrain(cts[0], sharding)],
        batch=_batch,
        mesh=_mesh,
        physical=lambda each, words, avals, *, sharding: [constrain(words[0], sharding)],
    )
)


def constrain(x: Any, sharding: NamedSharding) -> Any:
    """One array with that sharding; as it is where the mesh has no axes, as in the sharding of an array's type where no
    mesh is current.
    """
    return x if sharding.mesh.empty else sharding_constraint_p.bind(x, sharding=sharding)


def sharding_of(function: str, sharding: Any) -> NamedSharding:
    """A sharding by a mesh as it is; that on one device by a mesh of it alone; a spec as one over the current mesh.

    Raises:
      TypeError: it is neither, or no mesh is current.
    """
    if isinstance(sharding, NamedSharding):
        return sharding
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(Mesh([sharding.device], "device"))
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(f"{function}: {sharding!r} is no NamedSharding.")
    if settings.mesh is None:
        raise TypeError(
            f"{function}: {sharding!r} is no NamedSharding, and no mesh is current; write NamedSharding(mesh, spec), "
            "or call it in `with xpr.set_mesh(mesh)`."
        )
    return NamedSharding(settings.mesh, sharding)


def sharded(x: Any, out_sharding: Any, function: str) -> Any:
    """The result of a function as its argument `out_sharding` asks for it; None leaves it to the compiler.

    Raises:
      TypeError: it is no `NamedSharding`, nor a spec inside of `set_mesh(mesh)`.
      ValueError: an axis can't be cut into equal parts.
    """
    if out_sharding is None:
        return x
    sharding = sharding_of(function, out_sharding)
    sharding.check(aval_of(x).shape, function, "the result")
    return constrain(x, sharding)

"""The types of an operation's results, besides shape and dtype: sharding over Explicit axes, manual axes, memory space.

Typing rules (`Primitive.abstract`) know nothing of these. They propagate from operands to results as the optional slots
`sharding`, `summed`, `sums` and `varying` of the primitive say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.avals import ShapedArray, types_of
from xpr.core.explicit import ExplicitSharding, explicit_sharding
from xpr.core.interpreter import context
from xpr.core.memory import MemorySpace
from xpr.core.specs import PartitionSpec, axes_of
from xpr.errors import ShardingTypeError

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[list[ShapedArray], bool]:
    """The types of the results, where an operand's type has more than shape and dtype.

    Returns:
      The types; and whether they depend on what the context allows, so that they can't be remembered.

    Raises:
      SumOverShards: the context asks for sums over shards to be left undone, and the parameters don't say so yet.
      TypeError: shapes or dtypes don't fit.
      ShardingTypeError: shardings don't fit, or the result's is ambiguous.
      NotImplementedError: an operand is unreduced over manual axes, and the operation is not linear.
      ValueError: operands are in different memories.
    """
    outs, depends_on_context = explicit_types(primitive, avals, params)
    outs = varying_types(primitive, avals, outs, params)
    return mesh_types(primitive, avals, memory_types(primitive, avals, outs)), depends_on_context


# -- Explicit axes


def explicit_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[list[ShapedArray], bool]:
    """The types of results where operands are partitioned over Explicit axes, and whether they depend on the context.

    Raises:
      SumOverShards: the context asks for sums over shards to be left undone, and the parameters don't say so yet.
      ShardingTypeError: the result is ambiguous or can't be partitioned so, and no other operation decides it.
    """
    outs = primitive.abstract(tuple([a.plain for a in avals]), **params)
    shardings = [a.explicit for a in avals if a.explicit is not None]
    if not shardings:
        return outs, False
    mesh = shardings[0].mesh
    undecided = [out.with_explicit(ExplicitSharding(mesh, None)) if out.ndim else out for out in outs]
    try:
        if any(sharding.mesh != mesh for sharding in shardings):
            meshes = ", ".join(map(repr, dict.fromkeys(sharding.mesh for sharding in shardings)))
            raise ShardingTypeError(f"operands are partitioned over several meshes: {meshes}. Put them on one.")
        if primitive.decides_sharding:
            return outs, False
        if any(sharding.is_undecided for sharding in shardings):
            raise ShardingTypeError("the sharding of an operand is undecided.")
        summed = _summed_axes(primitive, avals, params)
        if requested := tuple([name for name in summed if name in context.unreduced]):
            raise SumOverShards({**params, "unreduced": requested})
        unreduced, reduced = _sums(primitive, avals, params)
        if primitive.sharding is None:
            return outs, False
        why = "" if primitive.ambiguous is None else primitive.ambiguous(avals, **params)
        if why and not context.decides_later:
            raise ShardingTypeError(why)
        parts = primitive.sharding(avals, outs, **params)
        typed = [_partitioned(primitive, *pair, mesh, unreduced, reduced) for pair in zip(outs, parts)]
        return typed, bool(summed or why)
    except ShardingTypeError as error:
        if context.decides_later:
            return undecided, True
        raise ShardingTypeError(f"{primitive.name} of {types_of(avals)}: {error}") from None


class SumOverShards(Exception):
    """An operation that is not to sum over shards does so; with the parameters `params` it would not."""

    def __init__(self, params: dict[str, Any]):
        self.params = params


def with_unreduced(primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an operation, with the axes over which the context asks it not to sum its shards."""
    requested = tuple([name for name in _summed_axes(primitive, avals, params) if name in context.unreduced])
    return {**params, "unreduced": requested} if requested else params


def _summed_axes(primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> list[Any]:
    """The axes of the mesh whose shards an operation sums over; none if its parameters name unreduced axes already."""
    if primitive.summed is None or "unreduced" in params:
        return []
    return [name for part in primitive.summed(avals, **params) for name in axes_of(part)]


def _sums(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[frozenset[Any], frozenset[Any]]:
    """The Explicit axes over which results are unreduced, and those over which they are reduced unless partitioned.

    The former are those of operands, and of the parameter `unreduced` of operations that sum over shards.
    """
    of_operands = [a.explicit.unreduced if a.explicit is not None else frozenset() for a in avals]
    reduced: frozenset[Any] = frozenset().union(*[a.explicit.reduced for a in avals if a.explicit is not None])
    of_params = frozenset(params.get("unreduced", ()))
    if not any(of_operands):
        return of_params, reduced - of_params
    if primitive.sums is None:
        raise ShardingTypeError(
            f"an operand is unreduced, and the unreduced rule for {primitive.name} is not implemented. Have the sum "
            "done first: xpr.sharding.reshard(x, P(...))."
        )
    unreduced = primitive.sums(of_operands, avals, **params) | of_params
    return unreduced, reduced - unreduced


def _partitioned(
    primitive: Primitive, out: ShapedArray, parts: Sequence[Any], mesh: Any, unreduced: frozenset[Any],
    reduced: frozenset[Any],
) -> ShapedArray:  # fmt: skip
    """The type of a result with these parts, and with these unreduced axes, and reduced ones that don't partition it.

    Raises:
      ShardingTypeError: there is no such type.
    """
    names = [name for part in parts for name in axes_of(part)]
    if both := unreduced.intersection(names):
        raise ShardingTypeError(
            f"the result would be unreduced and partitioned over {min(map(str, both))!r}. Have the sum done first: "
            "xpr.sharding.reshard(x, P(...))."
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        aval = out.with_explicit(ExplicitSharding(mesh, tuple(parts)))
        raise ShardingTypeError(
            f"this {primitive.name} operation produces an illegally sharded result: {aval.str_short()} is partitioned "
            f"over {twice!r} along two axes. Reshard an operand first: "
            "xpr.sharding.reshard(x, P(...)); or say out_sharding=P(...), where the function takes it."
        )
    spec = PartitionSpec(*parts, unreduced=unreduced, reduced=reduced.difference(names))
    explicit = explicit_sharding(mesh, spec, out.ndim)
    if explicit is not None:
        explicit.check(out.shape)
    return out.with_explicit(explicit)


# -- Manual axes


def varying_types(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray], params: dict[str, Any]
) -> list[ShapedArray]:
    """The types of results with the manual axes over which they vary: those over which any operand does."""
    of_operands = [a.varying for a in avals]
    union: frozenset[Any] = frozenset().union(*of_operands)
    if primitive.varying is None:
        outs = [out.with_varying(union) for out in outs] if union else outs
    else:
        outs = [out.with_varying(axes) for out, axes in zip(outs, primitive.varying(of_operands, **params))]
    return _with_manual_sums(primitive, avals, outs, params) if any(a.sums is not None for a in avals) else outs


def _with_manual_sums(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray], params: dict[str, Any]
) -> list[ShapedArray]:
    """The types of results with the manual axes over which they are unreduced and reduced.

    Raises:
      NotImplementedError: an operand is unreduced, and the operation is not linear.
    """
    sums = [a.sums or (frozenset(), frozenset()) for a in avals]
    of_operands = [unreduced for unreduced, _ in sums]
    unreduced: frozenset[Any] = frozenset().union(*of_operands)
    reduced: frozenset[Any] = frozenset().union(*[axes for _, axes in sums])
    if primitive.batch_named is not None:  # a collective does the sum over the axes that it names
        names = params.get("axes", params.get("axis_name", ()))
        unreduced -= frozenset(names if isinstance(names, tuple) else (names,))
    elif unreduced and primitive.varying is None:
        if primitive.sums is not None:
            unreduced = primitive.sums(of_operands, avals, **params)
        elif context.decides_later:
            unreduced = frozenset()
        else:
            raise NotImplementedError(
                f"{primitive.name} of {types_of(avals)}: an operand is unreduced over {min(map(str, unreduced))!r}, "
                f"and the unreduced rule for {primitive.name} is not implemented. Have the sum done first: lax.psum."
            )
    typed = []
    for out in outs:
        ruled_unreduced, ruled_reduced = out.sums or (
            frozenset(),
            frozenset(),
        )  # by the typing rule, as that of `pcast`
        typed.append(out.with_sums(unreduced & out.varying | ruled_unreduced, reduced - out.varying | ruled_reduced))
    return typed


# -- Memory


def memory_types(primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray]) -> list[ShapedArray]:
    """The types of results with their memory space: that of the operands that have axes.

    Raises:
      ValueError: operands are in different memories.
    """
    arrays = [a for a in avals if a.ndim]
    spaces = {a.memory_space for a in arrays}
    if primitive.decides_memory or not spaces - {MemorySpace.Device}:
        return outs
    if len(spaces) > 1:
        raise ValueError(
            f"{primitive.name} of {types_of(avals)}: memory_space of all inputs, unless they are scalars, must be the "
            "same. Move one first: xpr.device_put(x, xpr.memory.Space.Device)."
        )
    return [out.in_memory(arrays[0].memory_space) for out in outs]


# -- Meshes of Auto axes


def mesh_types(primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray]) -> list[ShapedArray]:
    """The types of results with the mesh that they are on: that of the first operand that is on one."""
    mesh = next((a.mesh for a in avals if a.mesh is not None), None)
    if mesh is None or primitive.decides_sharding:
        return outs
    return [out.on_mesh(mesh) if out.explicit is None else out for out in outs]

"""Sharding rules: over which Explicit axes of a mesh the results of operations are partitioned.

`sharding(avals, outs, **params)` returns for each result its parts, see core/explicit.py, from the types of the
operands and those of the results without parts. It is asked only where an operand is partitioned. A result that could
be partitioned in several ways, or would need communication that nobody asked for, is a ShardingTypeError;
`Primitive.type_of` adds the operands to its message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes
from xpr.core.avals import ShapedArray
from xpr.core.explicit import Parts
from xpr.core.meshes import AbstractMesh
from xpr.core.specs import axes_of, normalized
from xpr.errors import ShardingTypeError

Axes = frozenset[Any]

RESHARD = "Reshard an operand first: xpr.sharding.reshard(x, P(...))."
OUT_SHARDING = "Say how the result is to be partitioned: out_sharding=P(...)."


def parts_of(aval: ShapedArray) -> Parts:
    """The parts of a type, None for each axis where it has none."""
    explicit = aval.explicit
    return (None,) * aval.ndim if explicit is None or explicit.parts is None else explicit.parts


def mesh_of_types(avals: Sequence[ShapedArray]) -> AbstractMesh:
    """The mesh that the types of operands name, of which one is partitioned."""
    return next(a.explicit.mesh for a in avals if a.explicit is not None)


def count(mesh: AbstractMesh, part: Any) -> int:
    """Into how many shards a part splits an axis."""
    return math.prod([mesh.shape[name] for name in axes_of(part)])


def common(parts: Sequence[Any], what: str, way_out: str = RESHARD) -> Any:
    """The part of an axis that operands have in common; one that is not partitioned follows the others.

    Raises:
      ShardingTypeError: two are partitioned differently.
    """
    found = None
    for part in parts:
        if part is not None and found is not None and part != found:
            raise ShardingTypeError(f"{what} is partitioned over {found!r} and over {part!r}. {way_out}")
        found = found if part is None else part
    return found


def joined(avals: Sequence[ShapedArray], ndim: int, clash: str = "axis") -> Parts:
    """The parts of operands of which axis i is that of the result; scalars aside."""
    every = [parts_of(a) for a in avals if a.ndim]
    return tuple([
        common([parts[i] for parts in every if i < len(parts)], f"{clash} {i} of the operands") for i in range(ndim)
    ])  # fmt: skip


class ElementwiseSharding:
    """The rule of elementwise operations: each axis is partitioned as in the operands.

    Args:
      clash: how the message about an axis begins that two operands partition differently, up to its number.
    """

    __slots__ = ("_clash",)

    def __init__(self, clash: str = "axis"):
        self._clash = clash

    def __call__(self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Parts]:
        return [joined(avals, outs[0].ndim, self._clash)] * len(outs)


elementwise_sharding = ElementwiseSharding()


def reduced_alike(avals: Sequence[ShapedArray], **_: Any) -> str:
    """Why operands are refused of which one is reduced or unreduced over an axis, and another replicated.

    The cotangent of the other one would be a sum over this axis, which nobody asked for. Scalars are exempt, and so are
    booleans and unsigned integers, which are computed with by bits. The text is empty where none is refused.
    """
    named = [a.explicit for a in avals if a.explicit is not None]
    reduced = frozenset().union(*[e.reduced for e in named])
    summed = reduced.union(*[e.unreduced for e in named])
    if not summed:
        return ""
    for aval in avals:
        counts = aval.ndim and aval.dtype not in _OF_BITS
        missing = summed.difference(_named(aval)) if counts else ()
        if missing:
            return (
                f"Inputs cannot be replicated on {', '.join(sorted(map(repr, missing)))} where, on the same axes, "
                f"another input is {'reduced' if reduced else 'unreduced'}: the cotangent of {aval.str_short()} would "
                "be a sum over devices that nobody asks for. Make it reduced, too: xpr.sharding.reshard(x, P(..., "
                "reduced=...))."
            )
    return ""


_OF_BITS = dtypes.UNSIGNED | {dtypes.bool_}


def _named(aval: ShapedArray) -> Axes:
    """The Explicit axes over which a type is not replicated, and the manual ones over which it varies."""
    explicit = aval.explicit
    if explicit is None:
        return aval.varying
    names = [name for part in parts_of(aval) for name in axes_of(part)]
    return aval.varying.union(names, explicit.unreduced, explicit.reduced)


def partitioned_alike(avals: Sequence[ShapedArray], **_: Any) -> str:
    """Why operands are refused of which two are partitioned differently; "" if none are. Replicated ones follow."""
    if len({a.explicit for a in avals if a.explicit is not None}) == 1:
        return ""
    return f"All operands should have the same sharding, or be replicated. {RESHARD}"


def unchanged(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Parts]:
    """Each result is partitioned as the operand at its position."""
    return list(map(parts_of, avals))


def without(parts: Sequence[Any], axes: Sequence[int]) -> Parts:
    """The parts of the other axes."""
    return tuple([part for i, part in enumerate(parts) if i not in axes])


def along_unsharded(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], axis: int, rule: str = ""
) -> list[Parts]:
    """Operands of one shape that are read whole along one axis, which must not be partitioned; `rule` says it, too."""
    parts = joined(avals, outs[0].ndim)
    if parts[axis] is not None:
        raise ShardingTypeError(
            f"axis {axis}, along which it goes, is partitioned over {parts[axis]!r}, and must not be. "
            f"{rule and f'{rule}. '}{RESHARD}"
        )
    return [parts] * len(outs)


def resized(
    mesh: AbstractMesh, aval: ShapedArray, out: ShapedArray, parts: Parts | None = None, rule: str = ""
) -> Parts:
    """The parts of an operand for a result of which axes have other sizes; `rule` says what else can't be partitioned.

    Raises:
      ShardingTypeError: one of these is partitioned, and can't be split into equal shards any more.
    """
    parts = parts_of(aval) if parts is None else parts
    for axis, (n, m, part) in enumerate(zip(aval.shape, out.shape, parts)):
        if part is not None and n != m and m % count(mesh, part):
            raise ShardingTypeError(
                f"axis {axis} is partitioned over {part!r}, {count(mesh, part)} shards, and has {m} elements in the "
                f"result {out.str_short()}. {rule and f'{rule}. '}{RESHARD}"
            )
    return parts


def resizing(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Parts]:
    """The results have the axes of the first operand, in other sizes."""
    mesh = mesh_of_types(avals)
    return [resized(mesh, avals[0], out) for out in outs]


def batched_sharding(core_ndim: int) -> Callable[..., list[Parts]]:
    """Operations on the last axes of operands, `core_ndim` of the first one: the leading axes keep their parts."""

    def sharding(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Parts]:
        rank = avals[0].ndim - core_ndim
        every = [parts_of(a) for a in avals if a.ndim >= rank]
        batch = [common([parts[i] for parts in every], f"axis {i} of the operands") for i in range(rank)]
        return [(*batch, *[None] * (out.ndim - rank)) for out in outs]

    return sharding


# -- Unreduced operands: `sums` returns the axes over which results are unreduced, from those of the operands


def sums_alike(every: Sequence[Axes], *_: Any, **__: Any) -> Axes:
    """Operations that are linear in all operands together, as `add`: all are unreduced over the same axes.

    Raises:
      ShardingTypeError: they are not.
    """
    if len(set(every)) > 1:
        each = ", ".join(str(set(axes) or "none") for axes in every)
        raise ShardingTypeError(
            f"operands must be unreduced along the same mesh axes, and they are over {each}. Have the sum of one done "
            "first: xpr.sharding.reshard(x, P(...))."
        )
    return every[0]


def sums_of_cases(every: Sequence[Axes], *_: Any, **__: Any) -> Axes:
    """Operations that are linear in all operands but the first, which chooses among them and is not unreduced."""
    return sums_alike(every if every[0] else every[1:])


def sums_of_first(every: Sequence[Axes], *_: Any, **__: Any) -> Axes:
    """Operations that are linear in the first operand, and of which no other one is unreduced.

    Raises:
      ShardingTypeError: another one is.
    """
    if any(every[1:]):
        raise ShardingTypeError(
            "an operand other than the first is unreduced. Have its sum done first: xpr.sharding.reshard(x, P(...))."
        )
    return every[0]


def sums_of_one(every: Sequence[Axes], *_: Any, **__: Any) -> Axes:
    """Operations that are linear in each operand, as `mul`, of which one may be unreduced.

    Raises:
      ShardingTypeError: two are.
    """
    unreduced = [axes for axes in every if axes]
    if len(unreduced) > 1:
        raise ShardingTypeError(
            "operands cannot both be unreduced, since the operation is bilinear. Have the sum of one done first: "
            "xpr.sharding.reshard(x, P(...))."
        )
    return unreduced[0]


def refuse_unreduced(aval: ShapedArray, what: str, why: str) -> None:
    """Raises ShardingTypeError where a type is unreduced, of operations that are linear for some operands only."""
    unreduced = aval.explicit.unreduced if aval.explicit is not None else frozenset()
    if unreduced or (aval.sums is not None and aval.sums[0]):
        raise not_linear(f"{what} of {aval.str_short()}: ", why)


def not_linear(what: str, why: str) -> ShardingTypeError:
    """The error about an unreduced operand of an operation that is not linear, and why it isn't."""
    return ShardingTypeError(
        f"{what}the operand is unreduced, the sum of what devices hold, and {why}. Have the sum done first: "
        "xpr.sharding.reshard(x, P(...)), or lax.psum inside of a shard_map."
    )


# -- Reshaping


def reshaped(mesh: AbstractMesh, aval: ShapedArray, new_sizes: Sequence[int]) -> Parts:
    """The parts of a reshaped operand, where axes are only split and merged.

    A part of an axis that is split goes to the first axes of it; axes that are merged must be partitioned from the
    first on.

    Raises:
      ShardingTypeError: it is another reshape of a partitioned axis, or shards would not be equal.
    """
    result: list[Any] = [None] * len(new_sizes)
    for old, new in _groups(aval.shape, new_sizes):
        parts = [parts_of(aval)[i] for i in old]
        while parts and parts[-1] is None:
            parts.pop()
        if not parts:
            continue
        if None in parts or len(old) > 1 < len(new):
            raise _no_reshape(aval, new_sizes)
        if len(old) == len(new):
            split = parts
        else:
            names = [name for part in parts for name in axes_of(part)]
            split = _distributed(mesh, names, [new_sizes[i] for i in new], aval, new_sizes)
        for i, part in zip(new, split):
            result[i] = part
    return tuple(result)


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes before and after, in the smallest groups of which the sizes have one product; those of size 1 aside."""
    befores, afters = [i for i, n in enumerate(old) if n != 1], [i for i, n in enumerate(new) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while befores and afters:
        before, after = [befores.pop(0)], [afters.pop(0)]
        m, n = old[before[0]], new[after[0]]
        while m != n and (befores if m < n else afters):
            if m < n:
                before.append(befores.pop(0))
                m *= old[before[-1]]
            else:
                after.append(afters.pop(0))
                n *= new[after[-1]]
        groups.append((before, after))
    return groups


def _distributed(
    mesh: AbstractMesh, names: list[Any], sizes: Sequence[int], aval: ShapedArray, new_sizes: Sequence[int]
) -> list[Any]:
    parts, remaining = [], list(names)
    for size in sizes:
        taken = []
        while remaining and size > 1:
            size, rest = divmod(size, mesh.shape[remaining[0]])
            if rest:
                raise _no_reshape(aval, new_sizes)
            taken.append(remaining.pop(0))
        parts.append(normalized(tuple(taken)))
    if remaining:
        raise _no_reshape(aval, new_sizes)
    return parts


def _no_reshape(aval: ShapedArray, new_sizes: Sequence[int]) -> ShardingTypeError:
    return ShardingTypeError(
        "This reshape is not supported: "
        f"the shards of {aval.str_short()} are not those of an array of shape {tuple(new_sizes)}. {OUT_SHARDING}"
    )

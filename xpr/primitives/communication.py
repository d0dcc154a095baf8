"""The communication between devices that operations need, for the `collectives` slots of primitives.

`collectives(operands, results, sizes, **params) -> [Collective]`, from the types of operands and results and the sizes
of the named axes around. Types that are partitioned over Explicit axes say what XLA has to send; over Auto axes it
decides by itself, and nothing is said here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xpr.backend.communication import Collective
from xpr.core.avals import ShapedArray
from xpr.core.specs import axes_of
from xpr.primitives.sharding_rules import parts_of

Avals = Sequence[ShapedArray]
Sizes = Mapping[Any, int]


def shard_bytes(aval: ShapedArray) -> int:
    """The bytes that a device holds of a value, by its type."""
    whole = aval.size * aval.dtype.itemsize
    return whole if aval.explicit is None else whole // _count(aval.explicit.mesh.shape, partitioning(aval))


def partitioning(aval: ShapedArray, axes: Iterable[int] | None = None) -> list[Any]:
    """The axes of the mesh that partition a type along some of its axes, or all."""
    parts = parts_of(aval)
    return [name for i in (range(aval.ndim) if axes is None else axes) for name in axes_of(parts[i])]


def _count(sizes: Sizes, names: Iterable[Any]) -> int:
    return math.prod([sizes[name] for name in names])


def _unreduced(aval: ShapedArray) -> frozenset[Any]:
    return frozenset() if aval.explicit is None else aval.explicit.unreduced


def _along(kind: str, size: int, names: Sequence[Any], sizes: Sizes, groups: Any = None) -> list[Collective]:
    """The collective along axes of devices; none along those of one device."""
    count = len(groups[0]) if groups else _count(sizes, names)
    return [Collective(kind, size, tuple(names), count, 1)] if count > 1 and size else []


# -- Collectives along named axes


def of_reduction(
    operands: Avals, results: Avals, sizes: Sizes, *, axes: Sequence[Any], axis_index_groups: Any
) -> list[Collective]:
    """The rule of a reduction over named axes; all devices have its results."""
    return _along("all-reduce", sum(map(shard_bytes, operands)), axes, sizes, axis_index_groups)


def of_exchange(kind: str) -> Any:
    """The rule of a collective along `axis_name`, of whose operand and result the larger one counts."""

    def rule(operands: Avals, results: Avals, sizes: Sizes, *, axis_name: Any, **params: Any) -> list[Collective]:
        names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
        size = max(shard_bytes(operands[0]), shard_bytes(results[0]))
        return _along(kind, size, names, sizes, params.get("axis_index_groups"))

    return rule


def of_permutation(
    operands: Avals, results: Avals, sizes: Sizes, *, axis_name: Any, perm: Sequence[tuple[int, int]]
) -> list[Collective]:
    """Each device sends its value to at most one other."""
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    moves = any(source != target for source, target in perm)
    return [Collective("collective-permute", shard_bytes(operands[0]), names, 2, 1)] if moves else []


# -- Types that are partitioned


def of_reshard(operands: Avals, results: Avals, sizes: Sizes, **params: Any) -> list[Collective]:
    """From one partitioned type to another: what is partitioned further is partitioned first, and gathered last."""
    before, after = operands[0], results[0]
    explicit = before.explicit
    if explicit is None or explicit.is_undecided:
        return []  # it is sharded, or its operand was computed so
    sizes, size = explicit.mesh.shape, shard_bytes(before)
    held, wanted = partitioning(before), partitioning(after)
    sums = [name for name in explicit.mesh.axis_names if name in explicit.unreduced - _unreduced(after)]
    scattered = [name for name in sums if name in wanted]
    collectives = _along("reduce-scatter", size, scattered, sizes)
    size //= _count(sizes, [name for name in wanted if name not in held])
    collectives += _along("all-reduce", size, [name for name in sums if name not in wanted], sizes)
    old, new = parts_of(before), parts_of(after)
    positions = {name: i for i, part in enumerate(new) for name in axes_of(part)}
    turned = [name for i, part in enumerate(old) for name in axes_of(part) if positions.get(name, i) != i]
    collectives += _along("all-to-all", size, turned, sizes)
    gathered = [name for name in held if name not in wanted]
    collectives += _along("all-gather", size * _count(sizes, gathered), gathered, sizes)
    return collectives


def of_contraction(operands: Sequence[tuple[ShapedArray, Sequence[int]]], result: ShapedArray) -> list[Collective]:
    """A sum, or another reduction, over the axes that stand beside each operand.

    Where these are partitioned each device reduces its part, and the parts are reduced along the axes of the mesh;
    unless the same axes partition the other operand elsewhere, so that the operand has to be gathered.
    """
    mesh = next((aval.explicit.mesh for aval, _ in operands if aval.explicit is not None), None)
    if mesh is None:
        return []
    sizes, wanted = mesh.shape, partitioning(result)
    collectives, sums = [], set[Any]()
    free = [partitioning(aval, [i for i in range(aval.ndim) if i not in axes]) for aval, axes in operands]
    for position, (aval, axes) in enumerate(operands):
        elsewhere = [name for other, names in enumerate(free) if other != position for name in names]
        contracted = partitioning(aval, axes)
        gathered = [name for name in contracted if name in elsewhere]
        collectives += _along("all-gather", shard_bytes(aval) * _count(sizes, gathered), gathered, sizes)
        sums |= {name for name in contracted if name not in gathered}
    names = [name for name in mesh.axis_names if name in sums and name not in _unreduced(result)]
    scattered = [name for name in names if name in wanted]
    kept = dict.fromkeys(name for each in free for name in each)
    size = result.size * result.dtype.itemsize // _count(sizes, {*kept, *wanted} - {*scattered})
    collectives += _along("reduce-scatter", size, scattered, sizes)
    size //= _count(sizes, scattered)
    collectives += _along("all-reduce", size, [name for name in names if name not in wanted], sizes)
    unwanted = [name for name in kept if name not in wanted]
    return collectives + _along("all-gather", size * _count(sizes, unwanted), unwanted, sizes)


def of_reduced_axes(
    operands: Avals, results: Avals, sizes: Sizes, *, axes: Sequence[int], **_: Any
) -> list[Collective]:
    """A reduction of one operand over `axes`."""
    return of_contraction([(operands[0], axes)], results[0])


def of_replicated(operands: Avals) -> list[Collective]:
    """An operation without a rule for partitioned operands, which are gathered."""
    collectives = []
    for aval in operands:
        if type(aval) is ShapedArray and aval.explicit is not None:
            collectives += _along(
                "all-gather", aval.size * aval.dtype.itemsize, partitioning(aval), aval.explicit.mesh.shape
            )
    return collectives

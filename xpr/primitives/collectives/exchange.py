"""Collectives that move elements between the rows of a named axis: all_gather, all_to_all, reduce_scatter, ppermute.

Where the rows are one array, along a mapped axis, they only move axes: all_gather makes the mapped axis one that every
row has, all_to_all exchanges it with one that they have, and reduce_scatter, which transposes all_gather, splits a sum.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

from xpr import tree
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.interpreter import axis_size as size_of_axis
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.collectives.lowering import (
    NEEDS_AN_AXIS,
    Groups,
    lower_all_gather,
    lower_all_to_all,
    lower_ppermute,
    lower_reduce_scatter,
)  # fmt: skip
from xpr.primitives.collectives.reduce import (
    axis_index,
    groups_of,
    inverse,
    names_of,
    one_name,
    pcast_p,
    psum,
    refuse_part_of,
    rows_at,
)  # fmt: skip
from xpr.primitives.collectives.varying import varying_along
from xpr.primitives.communication import of_exchange, of_permutation
from xpr.primitives.elementwise import convert_element_type, eq
from xpr.primitives.reductions import reduce_prod
from xpr.primitives.shapes import from_front, full, mapped_to, move_axis, reduce_sum, reshape, to_front
from xpr.primitives.sharding_rules import resizing
from xpr.primitives.slicing import select

__all__ = [
    "all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "pbroadcast", "ppermute", "ppermute_p", "pprod",
    "pshuffle", "psum_scatter", "pswapaxes", "reduce_scatter_p",
]  # fmt: skip

# -- What the family shares: one operand, and linear in it


def _exchanged_sharding(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **params: Any) -> list[Any]:
    """Axes of a part keep what partitions them further, unless there is another number of axes."""
    same = outs[0].ndim == avals[0].ndim
    return resizing(avals, outs) if same else [(None,) * outs[0].ndim]


def _linear(
    name: str, *, abstract: Any, lower: Any, transpose: Any, batch: Any, batch_named: Any, params: Sequence[str],
    collectives: Any, physical: Literal["moved"] | None = "moved",
) -> Primitive:  # fmt: skip
    """The rules take the operand alone: `abstract(aval)`, `transpose(ct)`, `batch(x, dim) -> (out, dim)`,
    `batch_named(size, x) -> (out, dim)`, whose `x` has its rows along axis 0, and all the parameters."""

    def along(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = primitive.bind(x, **params)
        zero = Zero.from_primal_value(out)
        return [out], [zero if type(t) is Zero else primitive.bind(t, **params)]

    def of_rows(size: int, values: Sequence[Any], dims: Sequence[int], **params: Any) -> Any:
        out, dim = batch(to_front(values[0], dims[0]), **params)
        return [out], [dim]

    def of_named_rows(name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> Any:
        refuse_part_of(primitive.name, params["axis_name"], name)
        x = mapped_to(values[0], dims[0], size)
        aval = aval_of(x)
        abstract(aval.update(shape=aval.shape[1:]), **params)  # a row of the wrong shape is refused here, too
        out, dim = batch_named(size, x, **params)
        return [out], [dim]

    primitive = register(
        Primitive(
            name,
            abstract=lambda avals, **params: [abstract(avals[0], **params)],
            params=params,
            reference=Unsupported(NEEDS_AN_AXIS),
            lower=lower,
            jvp=along,
            transpose=lambda cts, operands, **params: [transpose(cts[0], **params)],
            batch=of_rows,
            batch_named=of_named_rows,
            physical=physical,
            sharding=_exchanged_sharding,
            collectives=collectives,
            varying=lambda every, *, axis_name, **_: [
                each | set(axis_name if type(axis_name) is tuple else (axis_name,)) for each in every
            ],
        )
    )
    return primitive


def _inserted(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis:])


def _merged(x: Any, axis: int) -> Any:
    """Two neighbouring axes as one."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _parted(x: Any, axis: int, count: int) -> Any:
    """An axis as two, the first of size `count`."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def _check_axis(name: str, aval: ShapedArray, axis: int, extra: int = 0) -> None:
    if not 0 <= axis < aval.ndim + extra:
        raise ValueError(f"{name}: a row has the type {aval.str_short()}, and axis {axis} is out of its range.")


def _in_groups(x: Any, groups: Sequence[Sequence[int]]) -> Any:
    """Rows along axis 0 as an axis of groups and one of the members of each."""
    count, row = len(groups[0]), aval_of(x).shape[1:]
    return reshape(rows_at(x, [i for group in groups for i in group]), (len(groups), count, *row))


def _same_size(groups: Groups, size: int) -> int:
    """The number of rows that exchange elements.

    Raises:
      ValueError: groups are of different sizes.
    """
    if groups is None:
        return size
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        raise ValueError(f"axis_index_groups must be of one size here, and are {groups}.")
    return sizes.pop()


def _steps(names: tuple[Any, ...], groups: Groups) -> list[tuple[Any, ...]]:
    """The axes one after another; with groups of rows, which several axes may hold, all at once."""
    return [(name,) for name in names] if groups is None else [names]


# -- all_gather and reduce_scatter


def _gather_abstract(
    aval: ShapedArray, *, all_gather_dimension: int, axis_size: int, tiled: bool, **_: Any
) -> ShapedArray:
    _check_axis("all_gather", aval, all_gather_dimension, 0 if tiled else 1)
    shape = list(aval.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return aval.update(shape=tuple(shape))


def _gather_batch(x: Any, *, all_gather_dimension: int, **params: Any) -> Any:
    return all_gather_p.bind(x, all_gather_dimension=all_gather_dimension + 1, **params), 0


def _gather_batch_named(
    size: int, x: Any, *, all_gather_dimension: int, axis_index_groups: Groups, tiled: bool, **_: Any
) -> Any:
    axis, dim = all_gather_dimension, None
    if axis_index_groups is not None:
        members = _in_groups(x, axis_index_groups)
        group_of = {i: number for number, group in enumerate(axis_index_groups) for i in group}
        x = to_front(rows_at(members, [group_of[i] for i in range(size)]), 1)
        axis, dim = axis + 1, 0
    out = move_axis(x, 0, axis)
    return _merged(out, axis) if tiled else out, dim


def _gather_transpose(ct: Any, *, all_gather_dimension: int, **params: Any) -> Any:
    return reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)


all_gather_p = _linear(
    "all_gather", abstract=_gather_abstract, lower=lower_all_gather, transpose=_gather_transpose, batch=_gather_batch,
    batch_named=_gather_batch_named, collectives=of_exchange("all-gather"),
    params=("all_gather_dimension", "axis_index_groups", "axis_name", "axis_size", "tiled"),
)  # fmt: skip


def _scatter_abstract(
    aval: ShapedArray, *, scatter_dimension: int, axis_size: int, tiled: bool, **_: Any
) -> ShapedArray:
    _check_axis("psum_scatter", aval, scatter_dimension)
    shape = list(aval.shape)
    count = shape.pop(scatter_dimension)
    if count % axis_size or (not tiled and count != axis_size):
        raise ValueError(
            f"psum_scatter: axis {scatter_dimension} of {aval.str_short()} is dealt out to {axis_size} rows, so its "
            f"size must be {'a multiple of that' if tiled else 'that, or a multiple of it with tiled=True'}."
        )
    if tiled:
        shape.insert(scatter_dimension, count // axis_size)
    return aval.update(shape=tuple(shape))


def _scatter_batch(x: Any, *, scatter_dimension: int, **params: Any) -> Any:
    return reduce_scatter_p.bind(x, scatter_dimension=scatter_dimension + 1, **params), 0


def _scatter_batch_named(
    size: int, x: Any, *, scatter_dimension: int, axis_index_groups: Groups, axis_size: int, tiled: bool, **_: Any
) -> Any:
    if axis_index_groups is None:
        total = reduce_sum(x, (0,))
        return _parted(total, scatter_dimension, axis_size) if tiled else total, scatter_dimension
    totals = reduce_sum(_in_groups(x, axis_index_groups), (1,))
    axis = scatter_dimension + 1
    parts = move_axis(_parted(totals, axis, axis_size) if tiled else totals, axis, 1)
    return rows_at(_merged(parts, 0), inverse([i for group in axis_index_groups for i in group])), 0


def _scatter_transpose(ct: Any, *, scatter_dimension: int, **params: Any) -> Any:
    return all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)


reduce_scatter_p = _linear(
    "reduce_scatter", abstract=_scatter_abstract, lower=lower_reduce_scatter, transpose=_scatter_transpose,
    batch=_scatter_batch, batch_named=_scatter_batch_named, physical=None,
    collectives=of_exchange("reduce-scatter"),
    params=("scatter_dimension", "axis_index_groups", "axis_name", "axis_size", "tiled"),
)  # fmt: skip


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    """The rows of all indices along a mapped axis, in every row, along an axis of their own.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several, which are gathered as one, the last varying fastest.
      axis_index_groups: lists of indices of one size that hold every index once: each group gathers its own.
      axis: the position of the new axis.
      tiled: whether the rows are joined along their axis `axis`, instead of a new one.
      to: "varying", "reduced" or "invarying", as JAX's types have it; the result is the same for all.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: `to` is none of these, or the rows have no such axis.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([[1., 3.],
           [1., 3.]], dtype=float32)
    """
    if to not in ("varying", "reduced", "invarying"):
        raise ValueError(f"all_gather: to must be 'varying', 'reduced' or 'invarying', and is {to!r}.")
    names = names_of(axis_name)
    groups = groups_of(axis_index_groups, names)

    def gathered(leaf: Any) -> Any:
        leaf = varying_along(leaf, names)
        at = from_front(axis, aval_of(leaf).ndim + (not tiled))
        for number, step in enumerate(reversed(_steps(names, groups))):
            leaf = all_gather_p.bind(
                leaf,
                all_gather_dimension=at,
                axis_index_groups=groups,
                axis_name=step,
                axis_size=_same_size(groups, math.prod(map(size_of_axis, step))),
                tiled=bool(tiled) or number > 0,
            )
        varies = not aval_of(leaf).varying.isdisjoint(names)
        return pcast_p.bind(leaf, axes=names, to=to) if to == "reduced" or (to == "invarying" and varies) else leaf

    return tree.map(gathered, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over a mapped axis, of which row i gets the i-th slice along an axis.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several, which count as one, the last varying fastest.
      scatter_dimension: the axis to slice, whose size is the number of rows; the result lacks it.
      axis_index_groups: lists of indices of one size that hold every index once: each group by itself.
      tiled: whether the axis stays; its size is then a multiple of the number of rows, and each row gets a slice.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: the size of the axis doesn't fit the number of rows.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([4., 6.], dtype=float32)
    """
    names = names_of(axis_name)
    groups = groups_of(axis_index_groups, names)

    def scattered(leaf: Any) -> Any:
        leaf = varying_along(leaf, names)
        at = from_front(scatter_dimension, aval_of(leaf).ndim)
        steps = _steps(names, groups)
        for number, step in enumerate(steps):
            leaf = reduce_scatter_p.bind(
                leaf,
                axis_index_groups=groups,
                axis_name=step,
                axis_size=_same_size(groups, math.prod(map(size_of_axis, step))),
                scatter_dimension=at,
                tiled=bool(tiled) or number < len(steps) - 1,
            )
        return leaf

    return tree.map(scattered, x)


# -- ppermute


def _permute_batch_named(size: int, x: Any, *, axis_name: Any, perm: tuple[tuple[int, int], ...]) -> Any:
    sources: list[int | None] = [None] * size
    for source, target in perm:
        sources[target] = source
    return rows_at(x, sources), 0


ppermute_p = _linear(
    "ppermute",
    abstract=lambda aval, **params: aval,
    params=("axis_name", "perm"),
    lower=lower_ppermute,
    collectives=of_permutation,
    transpose=lambda ct, *, axis_name, perm: ppermute_p.bind(
        ct, axis_name=axis_name, perm=tuple((target, source) for source, target in perm)
    ),
    batch=lambda x, **params: (ppermute_p.bind(x, **params), 0),
    batch_named=_permute_batch_named,
)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Rows sent from index to index along a mapped axis; rows to which nothing is sent are zeros.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several of a `shard_map`, which count as one, the last varying fastest.
      perm: pairs (source, destination) of indices, in which no source and no destination is repeated.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      TypeError: an index is no integer.
      ValueError: an index is out of range, or is repeated.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(jnp.array([1., 2., 3.]))
    Array([0., 1., 2.], dtype=float32)
    """
    names = names_of(axis_name)
    pairs = tuple((operator.index(source), operator.index(target)) for source, target in perm)
    size = math.prod(map(size_of_axis, names))
    for indices in zip(*pairs):
        if len(set(indices)) != len(indices) or any(not 0 <= i < size for i in indices):
            raise ValueError(
                f"ppermute: perm must name indices along {axis_name!r}, from 0 to {size - 1}, none twice as source or "
                f"as target; it is {pairs}."
            )
    return tree.map(lambda leaf: ppermute_p.bind(varying_along(leaf, names), axis_name=names, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """The rows of a mapped axis permuted: row i becomes row `perm[i]`.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis.
      perm: a permutation of the indices along the axis.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: `perm` is not a permutation.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pshuffle(x, "i", [1, 2, 0]), axis_name="i")(jnp.arange(3))
    Array([1, 2, 0], dtype=int32)
    """
    name = one_name("pshuffle", axis_name)
    if sorted(perm) != list(range(size_of_axis(name))):
        raise ValueError(
            f"pshuffle: `perm` does not represent a permutation: {list(perm)}, for the {size_of_axis(name)} rows of "
            f"{name!r}."
        )
    return ppermute(x, name, list(zip(perm, range(len(perm)))))


def pprod(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The product over a mapped axis, of each leaf.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several.
      axis_index_groups: lists of indices of one size that hold every index along the axis once: each group by itself.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.pprod(x, "i"), axis_name="i")(jnp.array([2., 3.]))
    Array([6., 6.], dtype=float32)
    """
    rows = all_gather(x, axis_name, axis_index_groups=axis_index_groups)
    return tree.map(lambda leaf: reduce_prod(leaf, (0,)), rows)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The row of one index along a mapped axis, in every row.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis.
      source: the index, from 0.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: `source` is out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    name = one_name("pbroadcast", axis_name)
    if not isinstance(source, Tracer) and not 0 <= source < size_of_axis(name):
        raise ValueError(
            f"pbroadcast: source must be an index along {name!r}, from 0 to {size_of_axis(name) - 1}, and is {source}."
        )

    def sent(leaf: Any) -> Any:
        aval = aval_of(leaf)
        from_source = select(eq(axis_index(name), source), leaf, full(aval.shape, 0, aval.dtype))
        return convert_element_type(psum(from_source, name), aval.dtype)

    return tree.map(sent, x)


# -- all_to_all


def _exchange_abstract(aval: ShapedArray, *, split_axis: int, concat_axis: int, **_: Any) -> ShapedArray:
    _check_axis("all_to_all", aval, split_axis)
    _check_axis("all_to_all", aval, concat_axis)
    shape = list(aval.shape)
    count = shape.pop(split_axis)
    return aval.update(shape=_inserted(shape, concat_axis, count))


def _exchange_batch(x: Any, *, split_axis: int, concat_axis: int, **params: Any) -> Any:
    return all_to_all_p.bind(x, split_axis=split_axis + 1, concat_axis=concat_axis + 1, **params), 0


def _exchange_batch_named(
    size: int, x: Any, *, split_axis: int, concat_axis: int, axis_index_groups: Groups, **_: Any
) -> Any:
    """Row `to` gets from row `source` its element `to` along the split axis."""
    if axis_index_groups is None:
        return move_axis(move_axis(x, split_axis + 1, 0), 1, concat_axis + 1), 0
    members = _in_groups(x, axis_index_groups)  # group, source, the row's axes
    exchanged = move_axis(move_axis(members, split_axis + 2, 1), 2, concat_axis + 2)  # group, to, the result's axes
    return rows_at(_merged(exchanged, 0), inverse([i for group in axis_index_groups for i in group])), 0


def _exchange_transpose(ct: Any, *, split_axis: int, concat_axis: int, **params: Any) -> Any:
    return all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)


all_to_all_p = _linear(
    "all_to_all", abstract=_exchange_abstract, lower=lower_all_to_all, transpose=_exchange_transpose,
    batch=_exchange_batch, batch_named=_exchange_batch_named, collectives=of_exchange("all-to-all"),
    params=("axis_index_groups", "axis_name", "concat_axis", "split_axis"),
)  # fmt: skip


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Exchanges a mapped axis with an axis of the rows: row i gets the i-th slice of every row.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several names, whose rows are numbered with the last one fastest.
      split_axis: the axis to slice, whose size is the number of rows.
      concat_axis: the position of the axis of the slices' sources.
      axis_index_groups: lists of indices of one size that hold every index once: each group by itself.
      tiled: whether both axes stay: the first is split into as many slices as there are rows, which are joined along
        the second.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: the size of the split axis doesn't fit the number of rows.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    names = names_of(axis_name)
    groups = groups_of(axis_index_groups, names)
    count = _same_size(groups, math.prod(map(size_of_axis, names)))

    def exchanged(leaf: Any) -> Any:
        leaf = varying_along(leaf, names)
        aval = aval_of(leaf)
        split, concat = (from_front(axis, aval.ndim) for axis in (split_axis, concat_axis))
        _check_axis("all_to_all", aval, split)
        _check_axis("all_to_all", aval, concat)
        have = aval.shape[split]
        if have % count or (not tiled and have != count):
            raise ValueError(
                f"all_to_all: axis {split} of {aval.str_short()} is split among {count} rows, so its size must be "
                f"{'a multiple of that' if tiled else 'that, or a multiple of it with tiled=True'}."
            )
        if tiled:  # the axis within a block follows the split one
            leaf = _parted(leaf, split, count)
        out = _exchanged_along(leaf, names, split, concat, groups)
        return _merged(out, concat) if tiled else out

    return tree.map(exchanged, x)


def _exchanged_along(x: Any, names: Sequence[Any], split: int, concat: int, groups: Any) -> Any:
    """The exchange along one named axis after another, each with a part of the axis that is split."""
    if len(names) == 1 or groups is not None:  # which may hold rows of several axes
        return all_to_all_p.bind(
            x, axis_index_groups=groups, axis_name=tuple(names), concat_axis=concat, split_axis=split
        )
    shape = aval_of(x).shape
    x = reshape(x, (*shape[:split], *map(size_of_axis, names), *shape[split + 1 :]))
    for at, name in enumerate(names, split):
        x = all_to_all_p.bind(x, axis_index_groups=None, axis_name=(name,), concat_axis=at, split_axis=at)
    return move_axis(reshape(x, shape), split, concat)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchanges a mapped axis with an axis of the rows of the same size.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis.
      axis: the axis.
      axis_index_groups: lists of indices of one size that hold every index along the axis once: each group by itself.
        None for one group.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: the sizes differ.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(jnp.arange(4).reshape(2, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)

"""Collectives that reduce over a named axis that `vmap` maps (psum, pmax, pmin), and axis_index, the index along it.

Each is an operation between rows that do not see each other. `batch_named` is the same operation once the rows of the
axis it names are one array: a sum over that axis. Mapped over any other axis it is done row by row. The sum of a value
that is the same in all rows is the value times the number of rows. Collectives that move elements are in exchange.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import axis_size as size_of_axis
from xpr.core.interpreter import context
from xpr.core.jaxpr import split_each
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.dtypes import BOOL, NUMBERS, REAL, short_name
from xpr.primitives.collectives.lowering import NEEDS_AN_AXIS, Groups, lower_axis_index, lower_extreme, lower_reduction
from xpr.primitives.collectives.varying import pvary_p, varying_along
from xpr.primitives.communication import of_reduction
from xpr.primitives.elementwise import add, convert_element_type, div, eq, mul
from xpr.primitives.elementwise_rules import NOT_LINEAR, scalar
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.windows import FILL_OR_DROP, GatherDimensionNumbers
from xpr.primitives.reductions import reduce_max, reduce_min
from xpr.primitives.shapes import broadcast_in_dim, full, mapped_to, one_axis, reduce_sum
from xpr.primitives.sharding_rules import unchanged
from xpr.primitives.slicing import broadcasted_iota, concatenate, slice_in_dim

__all__ = [
    "axis_index", "axis_index_p", "axis_size", "pcast", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "psum", "psum_p",
]  # fmt: skip

# -- What the family shares


def names_of(axis_name: Any) -> tuple[Any, ...]:
    """The names in an `axis_name` argument, which may be one or several.

    Raises:
      AxisNameError: one of them is not mapped here.
    """
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        size_of_axis(name)
    return names


def one_name(function: str, axis_name: Any) -> Any:
    """The name, of a collective that runs along a single axis.

    Raises:
      ValueError: there are several names, or none.
      AxisNameError: it is not mapped here.
    """
    names = names_of(axis_name)
    if len(names) != 1:
        raise ValueError(f"{function}: runs along one named axis, and got {names}.")
    return names[0]


def groups_of(axis_index_groups: Any, names: tuple[Any, ...]) -> Groups:
    """Groups of rows that each communicate by themselves, as tuples; of several axes as one, the last varying fastest.

    Raises:
      TypeError: an index is no integer.
      ValueError: they don't hold every row exactly once.
    """
    if axis_index_groups is None:
        return None
    groups = tuple(tuple(map(operator.index, group)) for group in axis_index_groups)
    sizes = tuple(map(size_of_axis, names))
    if sorted(i for group in groups for i in group) != list(range(math.prod(sizes))):
        raise ValueError(
            f"axis_index_groups must hold every index of the named axis once; got {groups} for the axes {names} of "
            f"sizes {sizes}."
        )
    return groups


def refuse_part_of(function: str, axes: Sequence[Any], name: Any) -> None:
    """Raises NotImplementedError where an axis of `vmap` is one of several that a collective takes as one."""
    if len(axes) > 1:
        raise NotImplementedError(
            f"{function}: runs along the axes {tuple(axes)} as one, of which vmap maps {name!r}. That can be done "
            "along axes of a shard_map alone: name one axis at a time."
        )


def without(names: tuple[Any, ...], name: Any) -> tuple[Any, ...]:
    return tuple(n for n in names if n != name)


_FEW = 8


def rows_at(x: Any, indices: Sequence[int | None]) -> Any:
    """The rows of `x` along axis 0 at known indices, zeros where an index is None; in runs where they are few."""
    aval, runs = aval_of(x), _runs(indices)
    row = aval.shape[1:]
    if len(runs) <= _FEW:
        parts = [
            full((count, *row), 0, aval.dtype) if start is None else slice_in_dim(x, start, start + count)
            for start, count in runs
        ]
        return concatenate(parts, 0)
    count = aval.shape[0]
    starts = np.array([[count if index is None else index] for index in indices], np.int32)
    return gather_p.bind(
        x,
        starts,
        dimension_numbers=GatherDimensionNumbers(tuple(range(1, aval.ndim)), (0,), (0,)),
        slice_sizes=(1, *row),
        indices_are_sorted=False,
        unique_indices=False,
        mode=FILL_OR_DROP,
        fill_value=0,
    )


def _runs(indices: Sequence[int | None]) -> list[tuple[int | None, int]]:
    """Runs of consecutive indices, or of None, each with its length."""
    runs: list[tuple[int | None, int]] = []
    for index in indices:
        start, count = runs[-1] if runs else (-1, 0)
        if count and index == (None if start is None else start + count):
            runs[-1] = (start, count + 1)
        else:
            runs.append((index, 1))
    return runs


def inverse(indices: Sequence[int]) -> list[int]:
    """The inverse of a permutation."""
    return np.argsort(indices).tolist()


def batch_row_by_row(primitive: Primitive) -> Callable[..., Any]:
    """The batch rule of a collective that is elementwise in its rows, for axes that it does not name."""

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return primitive.bind(*values, **params), list(dims)

    return batch


# -- psum, pmax, pmin: reductions


def _reduction(
    name: str,
    *,
    over: frozenset[np.dtype],
    reduce: Callable[[Any, Sequence[int]], Any],
    repeated: Callable[[Any, int], Any],
    lower: Callable[..., Any],
    jvp: Callable[..., Any],
    transpose: Any,
) -> Primitive:
    """A reduction of each operand over named axes; `repeated(x, n)` is the reduction of n rows that are all `x`."""

    def abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
        for aval in avals:
            if aval.dtype not in over:
                allowed = ", ".join(sorted(map(short_name, over)))
                raise TypeError(f"{name}: takes {allowed}, and got {aval.str_short()}.")
        return list(avals)

    def by_group(x: Any, groups: Sequence[Sequence[int]]) -> Any:
        """Each row the reduction of its group's rows."""
        order = [i for group in groups for i in group]
        rows, row, start = rows_at(x, order), aval_of(x).shape[1:], 0
        parts = []
        for group in groups:
            reduced = reduce(slice_in_dim(rows, start, start + len(group)), (0,))
            parts.append(broadcast_in_dim(reduced, (len(group), *row), range(1, len(row) + 1)))
            start += len(group)
        return rows_at(concatenate(parts, 0), inverse(order))

    def batch_named(
        axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, axes: tuple[Any, ...],
        axis_index_groups: Groups,
    ) -> Any:  # fmt: skip
        if axis_index_groups is not None:
            refuse_part_of(name, axes, axis_name)
            rows = [mapped_to(x, d, size) for x, d in zip(values, dims)]
            return [by_group(x, axis_index_groups) for x in rows], [0] * len(rows)
        outs = [repeated(x, size) if d is None else reduce(x, (d,)) for x, d in zip(values, dims)]
        other_axes = without(axes, axis_name)
        if other_axes:
            outs = primitive.bind(*outs, axes=other_axes, axis_index_groups=None)
        return outs, [None] * len(outs)

    primitive = register(
        Primitive(
            name,
            abstract=abstract,
            params=("axes", "axis_index_groups"),
            reference=Unsupported(NEEDS_AN_AXIS),
            lower=lower,
            jvp=jvp,
            transpose=transpose,
            batch=Unsupported("it is set below"),
            batch_named=batch_named,
            split=split_each,
            multiple_results=True,
            sharding=unchanged,
            collectives=of_reduction,
            varying=lambda every, *, axes, axis_index_groups: (
                [each - set(axes) for each in every] if axis_index_groups is None else every
            ),
        )
    )
    primitive.batch = batch_row_by_row(primitive)
    return primitive


def _bind_nonzero(primitive: Primitive, values: Sequence[Any], **params: Any) -> list[Any]:
    """The primitive applied to the values that are no symbolic zeros; the others are unchanged."""
    nonzero = [x for x in values if x is not None and type(x) is not Zero]
    results = iter(primitive.bind(*nonzero, **params) if nonzero else ())
    return [x if x is None or type(x) is Zero else next(results) for x in values]


def _sum_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return psum_p.bind(*primals, **params), _bind_nonzero(psum_p, tangents, **params)


def _sum_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    """Each row's element is in the results of all, whose cotangents are therefore added up."""
    return _bind_nonzero(psum_p, [ct if is_linear(x) else None for ct, x in zip(cts, operands)], **params)


def _extreme_jvp(primals: Sequence[Any], tangents: Sequence[Any], name: str, **params: Any) -> Any:
    """The mean of the tangents of those rows that attain the maximum or minimum."""
    outs = _extremes[name].bind(*primals, **params)
    out_tangents = []
    for x, t, out in zip(primals, tangents, outs):
        if type(t) is Zero:
            out_tangents.append(t)
            continue
        attains = convert_element_type(eq(x, out), aval_of(t).dtype)
        (count,), (total,) = psum_p.bind(attains, **params), psum_p.bind(mul(t, attains), **params)
        out_tangents.append(div(total, count))
    return outs, out_tangents


psum_p = _reduction(
    "psum", over=NUMBERS, reduce=reduce_sum, repeated=lambda x, size: mul(x, scalar(size, x)),
    jvp=_sum_jvp, transpose=_sum_transpose, lower=lower_reduction("psum", "stablehlo.add"),
)  # fmt: skip
pmax_p = _reduction(
    "pmax", over=REAL | BOOL, reduce=reduce_max, repeated=lambda x, size: x, transpose=Unsupported(NOT_LINEAR),
    jvp=lambda primals, tangents, **params: _extreme_jvp(primals, tangents, "pmax", **params),
    lower=lower_extreme("pmax", "stablehlo.maximum", "stablehlo.or"),
)  # fmt: skip
pmin_p = _reduction(
    "pmin", over=REAL | BOOL, reduce=reduce_min, repeated=lambda x, size: x, transpose=Unsupported(NOT_LINEAR),
    jvp=lambda primals, tangents, **params: _extreme_jvp(primals, tangents, "pmin", **params),
    lower=lower_extreme("pmin", "stablehlo.minimum", "stablehlo.and"),
)  # fmt: skip
_extremes = {"pmax": pmax_p, "pmin": pmin_p}


def _over_axes(
    primitive: Primitive,
    reduce: Callable[[Any, Sequence[int]], Any],
    leaves: Sequence[Any],
    axis_name: Any,
    groups: Any,
) -> list[Any]:
    """Reduces leaves over named axes, and over those that are positional."""
    axes = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    numbers = [axis for axis in axes if type(axis) is int]
    names = names_of(tuple(axis for axis in axes if type(axis) is not int))
    if numbers:
        leaves = [reduce(x, sorted(one_axis(axis, aval_of(x).ndim) for axis in numbers)) for x in leaves]
    if not names or not leaves:
        return list(leaves)
    if primitive is not psum_p:  # a sum of what is the same on all devices is a multiple
        leaves = [varying_along(x, names) for x in leaves]
    return primitive.bind(*leaves, axes=names, axis_index_groups=groups_of(groups, names))


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over a mapped axis, of each leaf.

    Args:
      x: a pytree of arrays and numbers; booleans are counted, and a Python number is multiplied by the size of the
        axis.
      axis_name: the name of a mapped axis, or several.
      axis_index_groups: lists of indices that hold every index along the axis once: each group is summed by itself.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    leaves, structure = tree.flatten(x)
    arrays = [_counted(leaf) for leaf in leaves if type(leaf) not in _NUMBERS]
    sums = iter(_over_axes(psum_p, reduce_sum, arrays, axis_name, axis_index_groups))
    numbers = any(type(leaf) in _NUMBERS for leaf in leaves)
    size = _number_of_rows(axis_name, axis_index_groups) if numbers else 1
    results = [_repeated(leaf, size) if type(leaf) in _NUMBERS else next(sums) for leaf in leaves]
    return tree.unflatten(structure, results)


_NUMBERS = frozenset({bool, int, float, complex})


def _repeated(number: Any, size: int) -> Any:
    """The sum of a Python number over rows, as a Python number; of a boolean as a NumPy integer, which is not weak."""
    return dtypes.of_python(int).type(size if number else 0) if type(number) is bool else number * size


def _counted(x: Any) -> Any:
    return convert_element_type(x, dtypes.of_python(int)) if aval_of(x).dtype == dtypes.bool_ else x


def _number_of_rows(axis_name: Any, axis_index_groups: Any) -> int:
    names = names_of(axis_name)
    groups = groups_of(axis_index_groups, names)
    if groups is None:
        return math.prod(map(size_of_axis, names))
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        raise ValueError(f"The sum of a number over groups of different sizes, {groups}, differs from row to row.")
    return sizes.pop()


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over a mapped axis, of each leaf.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several.
      axis_index_groups: lists of indices that hold every index along the axis once: each group is reduced by itself.
        None for one group.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: groups are of different sizes.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    sums = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = _number_of_rows(axis_name, axis_index_groups)

    def divided(total: Any) -> Any:
        dtype = aval_of(total).dtype
        if type(total) in _NUMBERS:
            return total / size
        total = total if dtype in dtypes.INEXACT else convert_element_type(total, dtypes.to_inexact(dtype))
        return div(total, scalar(size, total))

    return tree.map(divided, sums)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The maximum over a mapped axis, of each leaf; rows that have it share its derivative equally.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several.
      axis_index_groups: lists of indices that hold every index along the axis once: each group is reduced by itself.
        None for one group.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([2., 2., 2.], dtype=float32)
    """
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, _over_axes(pmax_p, reduce_max, leaves, axis_name, axis_index_groups))


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The minimum over a mapped axis, of each leaf; rows that have it share its derivative equally.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or several.
      axis_index_groups: lists of indices that hold every index along the axis once: each group is reduced by itself.
        None for one group.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([0., 0., 0.], dtype=float32)
    """
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, _over_axes(pmin_p, reduce_min, leaves, axis_name, axis_index_groups))


# -- pcast: the value, unreduced over axes over which it varies, or reduced over axes over which it is the same

pcast_p = register(
    Primitive(
        "pcast",
        abstract=lambda avals, *, axes, to: [
            aval.with_sums(frozenset(axes if to == "unreduced" else ()), frozenset(axes if to == "reduced" else ()))
            for aval in avals
        ],
        reference=lambda values, **params: list(values),
        lower=lambda b, operands, avals, **params: list(operands),
        jvp=lambda primals, tangents, **params: (
            [pcast_p.bind(*primals, **params)],
            [t if type(t) is Zero else pcast_p.bind(t, **params) for t in tangents],
        ),
        transpose=lambda cts, operands, **params: list(cts),
        batch=lambda size, values, dims, **params: ([pcast_p.bind(*values, **params)], list(dims)),
        physical="moved",
        sharding=unchanged,
        varying=lambda every, *, axes, to: [
            each | set(axes) if to == "unreduced" else each - set(axes) for each in every
        ],
    )
)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """The value itself, marked as varying, unreduced or reduced over axes of a `shard_map`.

    The derivative of what varies is one for each device, instead of their sum. A result that is unreduced over axes by
    its spec is the sum of what the devices return.

    Args:
      x: a pytree of arrays.
      axis_name: the name of a mapped axis, or a tuple of several; of none, the value stays as it is.
      to: "varying"; "unreduced", of what varies; or "reduced", of what is the same on all devices.

    Returns:
      A pytree of arrays.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      ValueError: nothing is mapped here, `to` is something else, or a value that varies is to be reduced.
      TypeError: the names are in no order.

    >>> import xpr
    >>> from xpr import lax
    >>> from xpr.sharding import PartitionSpec as P
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> def gradient(w, x):
    ...     return xpr.grad(lambda w: (w * x).sum())(lax.pcast(w, "x", to="varying"))[None]
    >>> mapped = xpr.shard_map(gradient, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))
    >>> mapped(2.0, xpr.numpy.arange(3.0))
    Array([3.], dtype=float32, weak_type=True)
    """
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(
            f"pcast: to must be 'varying', 'unreduced' or 'reduced', and is {to!r}; what is the same on all devices "
            "comes of psum."
        )
    if isinstance(axis_name, (set, frozenset, list)):
        raise TypeError(f"pcast: axis_name must be a tuple or a str, since the order counts, and is {axis_name!r}.")
    if settings.remove_size_one_mesh_axis_from_type and settings.mesh is not None:
        names = axis_name if type(axis_name) is tuple else (axis_name,)
        axis_name = tuple([name for name in names if settings.mesh.shape.get(name) != 1])
    if axis_name == ():
        return x
    if not context.axes:
        raise ValueError(
            f"pcast: pvary should be called under jax.shard_map, where {axis_name!r} is an axis of the mesh, and "
            "nothing is mapped here."
        )
    names = names_of(axis_name)
    if to == "reduced":
        return tree.map(lambda leaf: pcast_p.bind(_refuse_varying(leaf, names), axes=names, to=to), x)
    varying = tree.map(lambda leaf: pvary_p.bind(leaf, axes=names), x)
    return varying if to == "varying" else tree.map(lambda leaf: pcast_p.bind(leaf, axes=names, to=to), varying)


def _refuse_varying(x: Any, names: Sequence[Any]) -> Any:
    varying = [name for name in names if name in aval_of(x).varying]
    if varying:
        raise ValueError(
            f"pcast: the value may vary over the axis {varying[0]!r}. To 'reduced' jax.lax.pcast can only accept "
            "axis_name which holds axes along which all devices have the same: lax.psum makes it."
        )
    return x


# -- axis_index: `checked` is whether the axis is of a shard_map that checks which values vary over it. The types of
# others, those that vmap and pmap map, don't say so.


def _index_batch_named(name: Any, size: int, values: Any, dims: Any, /, *, axis_name: Any, checked: bool = True) -> Any:
    return [broadcasted_iota(dtypes.int32, (size,), 0)], [0]


_NO_OPERANDS = "It has no operands."
axis_index_p = register(
    Primitive(
        "axis_index",
        abstract=lambda avals, *, axis_name, checked=True: [
            ShapedArray((), dtypes.int32).with_varying(
                frozenset(axis_name if isinstance(axis_name, tuple) else (axis_name,)) if checked else frozenset()
            )
        ],
        optional=["checked"],
        reference=Unsupported(NEEDS_AN_AXIS),
        lower=lower_axis_index,
        jvp=Unsupported(_NO_OPERANDS),
        transpose=Unsupported(_NO_OPERANDS),
        batch=Unsupported(_NO_OPERANDS),
        batch_named=_index_batch_named,
    )
)


def axis_index(axis_name: Any) -> Any:
    """The index of the row along a mapped axis; of several axes as one, the last varying fastest.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> xpr.vmap(lambda x: lax.axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    index = None
    checks = {axis.name: axis.checked for axis in context.axes}
    for name in names_of(axis_name):
        position = axis_index_p.bind(axis_name=name, **({} if checks.get(name, True) else {"checked": False}))
        index = position if index is None else add(mul(index, size_of_axis(name)), position)
    return 0 if index is None else index


def axis_size(axis_name: Any) -> int:
    """The size of a mapped axis; the product for several.

    Raises:
      AxisNameError: no axis of that name is mapped here.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(jnp.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    return math.prod(map(size_of_axis, names_of(axis_name)))

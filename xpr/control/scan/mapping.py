"""Composite loops: lax.map by scan, associative_scan by logarithmically many whole-array operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.scan.function import scan
from xpr.core.avals import ShapedArray, aval_of, describe, types_of
from xpr.core.source import describe_function
from xpr.primitives.random_keys import zeros_or_keys
from xpr.primitives.shapes import expand_dims, mapped_to, reshape, rev
from xpr.primitives.slicing import concatenate, pad, slice_in_dim
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction

__all__ = ["associative_scan", "map"]


@boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies a function to each row of arrays, one after another.

    Args:
      f: a function of a row of `xs`, a pytree, to a pytree.
      xs: a pytree of arrays whose first axes are equally long.
      batch_size: the number of rows that are computed together, as by `vmap`; None or 0 for 1.

    Returns:
      The results, stacked along a new first axis.

    Raises:
      ValueError: lengths differ, there is no array, or `batch_size` is negative.
      TypeError: `f` is not a function.

    >>> from xpr import lax, numpy as jnp
    >>> lax.map(lambda x: x * x, jnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"lax.map: f must be callable, a function of a row of `xs`, and is {describe(f)}.")
    if batch_size is None or batch_size == 0:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if batch_size < 1:
        raise ValueError(f"map: batch_size must not be negative, and is {batch_size!r}.")
    leaves, structure = tree.flatten(xs)
    if not leaves or any(not aval_of(x).shape for x in leaves):
        raise ValueError("map: it goes over the first axis of each array of `xs`, and there is none.")
    length = aval_of(leaves[0]).shape[0]
    if any(aval_of(x).shape[0] != length for x in leaves):
        lines = [f"  xs{tree.keystr(path)}   {aval_of(x).str_short()}" for path, x in tree.leaves_with_path(xs)]
        raise ValueError("\n".join(["map: the xs must have equally long first axes:", *lines]))
    whole = length - length % batch_size
    mapped = _Mapped(f, structure)
    parts = []
    if whole:
        blocks = [
            reshape(slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *aval_of(x).shape[1:])) for x in leaves
        ]
        _, outs = scan(lambda _, rows: ((), mapped(rows)), (), blocks)
        parts.append([reshape(y, (whole, *aval_of(y).shape[2:])) for y in outs])
    if whole < length or not length:
        parts.append(mapped([slice_in_dim(x, whole, length) for x in leaves]))
    results = parts[0] if len(parts) == 1 else [concatenate(pair, 0) for pair in zip(*parts)]
    return tree.unflatten(mapped.out_tree, results)


class _Mapped:
    """A function of one row, mapped over the rows of flat arrays; its `out_tree` is the structure of a result."""

    def __init__(self, fun: Callable[[Any], Any], structure: Any):
        blank = tree.unflatten(structure, [0] * structure.num_leaves)
        self.flat = FlatFunction(fun, tree.structure(((blank,), {})))

    @property
    def out_tree(self) -> Any:
        return self.flat.out_tree

    def __call__(self, rows: Sequence[Any]) -> list[Any]:
        size = aval_of(rows[0]).shape[0]
        outs, dims = batch_flat(self.flat, size, rows, [0] * len(rows))
        return [mapped_to(x, dim, size) for x, dim in zip(outs, dims)]


@boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The cumulative results of an associative operation, in logarithmic depth.

    Consecutive pairs are combined, the cumulative results of the pairs computed recursively, and the results between
    them filled in. Source: Blelloch, Prefix sums and their applications, 1990.

    Args:
      fn: a function of two pytrees like `elems`, with arrays of equal length, that combines them elementwise along
        `axis`. Its results count in the order of the leaves, so that it may return a tuple for a class of tuples.
      elems: a pytree of arrays of equal length along `axis`.
      reverse: whether to go from the last element to the first.
      axis: the axis to scan along.

    Returns:
      A pytree like `elems`.

    Raises:
      ValueError: lengths differ, or an array has no such axis.
      TypeError: `fn` is not a function, or returns another number of arrays.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.lax.associative_scan(jnp.maximum, jnp.array([1, 3, 2, 5, 4]))
    Array([1, 3, 3, 5, 5], dtype=int32)
    """
    if not callable(fn):
        raise TypeError(
            f"lax.associative_scan: fn must be callable, a function of two pytrees like `elems`, and is {fn!r}."
        )
    leaves, structure = tree.flatten(elems)
    if not leaves:
        return elems
    axes = [axis + aval_of(x).ndim if axis < 0 else axis for x in leaves]
    if any(not 0 <= a < aval_of(x).ndim for x, a in zip(leaves, axes)):
        raise ValueError(f"associative_scan: every array needs an axis {axis}; the arrays are {types_of(leaves)}.")
    if len({aval_of(x).shape[a] for x, a in zip(leaves, axes)}) > 1:
        raise ValueError(
            f"associative_scan: arrays must be equally long along axis {axis}, and are {types_of(leaves)}."
        )

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        outs, out_structure = tree.flatten(
            fn(tree.unflatten_sorted(structure, left), tree.unflatten_sorted(structure, right))
        )
        if len(outs) != len(left):
            raise TypeError(
                f"associative_scan: {describe_function(fn)} must give as many arrays as it takes twice, those of "
                f"{structure}; it gave {out_structure}."
            )
        return outs

    ordered = [rev(x, (a,)) for x, a in zip(leaves, axes)] if reverse else leaves
    outs = _cumulative(combine, ordered, axes)
    return tree.unflatten(structure, [rev(x, (a,)) for x, a in zip(outs, axes)] if reverse else outs)


def _cumulative(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], axes: list[int]) -> list[Any]:
    """The cumulative results along `axes`: those at odd positions are the cumulative results of the pairs."""
    length = aval_of(xs[0]).shape[axes[0]]
    if length < 2:
        return xs

    def part(values: list[Any], start: int, stop: int, stride: int = 1) -> list[Any]:
        return [slice_in_dim(x, start, stop, stride, a) for x, a in zip(values, axes)]

    even = length - length % 2
    pairs = combine(part(xs, 0, even, 2), part(xs, 1, even, 2))
    at_odd = _cumulative(combine, pairs, axes)
    first = part(xs, 0, 1)
    if length == 2:
        return [concatenate([x, y], a) for x, y, a in zip(first, at_odd, axes)]
    between = combine(part(at_odd, 0, (length - 1) // 2), part(xs, 2, length, 2))
    at_even = [concatenate([x, y], a) for x, y, a in zip(first, between, axes)]
    return [_interleaved(x, y, length, a) for x, y, a in zip(at_even, at_odd, axes)]


def _interleaved(even: Any, odd: Any, length: int, axis: int) -> Any:
    """The elements of two arrays in turn along an axis, beginning with the first."""
    shape = aval_of(even).shape
    if length % 2:
        padding = [(0, 0, 0)] * len(shape)
        padding[axis] = (0, 1, 0)
        odd = pad(odd, zeros_or_keys(ShapedArray((), aval_of(odd).dtype)), padding)
    turns = concatenate([expand_dims(even, (axis + 1,)), expand_dims(odd, (axis + 1,))], axis + 1)
    both = reshape(turns, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
    return slice_in_dim(both, 0, length, 1, axis)

"""reduce: arrays reduced over axes by any associative function.

Functions that have a primitive (primitives/reductions.py) are recognized by their jaxpr for two scalars. Any other
function is applied, as `vmap` would, to the first and the second half of the elements, then to the halves of the
result, and so on: each of log n steps is an operation on whole arrays, and all transformations apply to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, aval_of, types_of
from xpr.core.primitive import Primitive
from xpr.core.source import describe_function
from xpr.dtypes import greatest, least
from xpr.primitives import elementwise as e
from xpr.primitives import reductions as r
from xpr.primitives.shapes import as_array, broadcast_to, from_front, reduce_sum, reshape, transpose, tuple_of
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.stage import stage

__all__ = ["reduce"]

_SCALARS = frozenset({bool, int, float, complex})


@boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduces arrays over axes by an associative function of two scalars.

    Args:
      operands: an array, or a pytree of arrays of one shape that are reduced together.
      init_values: for each array a scalar of its dtype, which enters the reduction once.
      computation: takes two scalars, or two pytrees of them like `operands`, and returns one; associative.
      dimensions: the axes to reduce; none of them leaves the arrays as they are.
      out_sharding: a sharding for the results; None for the compiler's choice.

    Returns:
      A pytree like `operands`, without the axes.

    Raises:
      TypeError: initial values aren't of the arrays' dtypes, or `computation` returns other types than it takes.
      ValueError: shapes differ, initial values aren't scalars, or the axes aren't distinct axes of the arrays.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reduce(jnp.array([[1., 2.], [3., 4.]]), 1., lambda x, y: x * y, (1,))
    Array([ 2., 12.], dtype=float32)
    """
    leaves, structure = tree.flatten(operands)
    starts, start_structure = tree.flatten(init_values)
    if start_structure != structure:
        what = "reduce: Operands must have the same tree structure as init_values, and these differ"
        tree.check_same_structure(structure, start_structure, what)
    if not leaves or len({aval_of(x).shape for x in leaves}) != 1:
        raise ValueError(f"reduce: takes arrays of one shape, and was given ({types_of(leaves)}).")
    ndim = aval_of(leaves[0]).ndim
    axes = tuple(from_front(int(axis), ndim) for axis in tuple_of(dimensions, "reduce", "dimensions"))
    if len(set(axes)) != len(axes) or not all(0 <= axis < ndim for axis in axes):
        raise ValueError(
            f"reduce: duplicate value in 'axes' {tuple(dimensions)}, or one that is no axis of {types_of(leaves[:1])}."
        )
    if any(aval_of(start).ndim for start in starts):
        raise ValueError(f"reduce found non-scalar initial value: they are ({types_of(starts)}).")
    starts = [start_of("reduce", start, aval_of(x)) for start, x in zip(starts, leaves)]
    if not axes:
        return tree.map(as_array, operands)
    of_scalars = _on_leaves(computation, structure)
    if len(leaves) == 1:
        known = _known_reduction(of_scalars, aval_of(leaves[0]))
        if known is not None:
            return tree.unflatten(
                structure, [sharded(_reduce_by(known, leaves[0], starts[0], axes), out_sharding, "reduce")]
            )
    reduced = _reduce_in_pairs(of_scalars, leaves, starts, axes)
    return tree.unflatten(structure, [sharded(x, out_sharding, "reduce") for x in reduced])


def start_of(name: str, start: Any, aval: ShapedArray) -> Any:
    """The initial value in the operand's dtype: an infinity is the bound of an integer dtype.

    Raises:
      TypeError: it is not a scalar of that dtype, and conversion would change its value.
    """
    initial, number = aval_of(start), start if type(start) in _SCALARS else None
    if initial.ndim == 0 and initial.dtype == aval.dtype and number is None:
        return start
    if number is not None:
        if aval.dtype in dtypes.INTEGERS and type(number) is float:
            if math.isinf(number):
                return (least if number < 0 else greatest)(aval.dtype)
            if number.is_integer():
                return aval.dtype.type(int(number))
        elif dtypes.promote_pair(aval.dtype, False, initial.dtype, initial.weak_type)[0] == aval.dtype:
            return aval.dtype.type(number)
    if initial.ndim:
        raise TypeError(
            f"{name} expected init_values to be scalars but init_values have shapes [{initial.shape}]. The initial "
            f"value for {aval.str_short()} is {initial.str_short()}."
        )
    what = f"{start!r}, " if number is not None else ""
    raise TypeError(
        f"{name}: the initial value for {aval.str_short()} must be a scalar of its dtype, and is {what}"
        f"{initial.str_short()}. Convert one of them."
    )


def _on_leaves(computation: Callable[..., Any], structure: Any) -> Callable[..., list[Any]]:
    """The user's function on flat lists of scalars."""

    def on_leaves(*scalars: Any) -> list[Any]:
        halves = split_list(scalars, len(scalars) // 2)
        left, right = (tree.unflatten_sorted(structure, half) for half in halves)
        outs, out_tree = tree.flatten(computation(left, right))
        same = [aval_of(x).str_short() == aval_of(y).str_short() for x, y in zip(outs, scalars)]
        if out_tree != structure or not all(same):
            raise TypeError(
                f"reduce: {describe_function(computation)} must give what it takes twice, ({types_of(halves[0])}) "
                f"in {structure}; it gave ({types_of(outs)}) in {out_tree}."
            )
        return outs

    return on_leaves


# -- Operations with a primitive

# By the operation on two scalars: the reduction, the operation, and the neutral element, by dtype.
_KNOWN: dict[Primitive, tuple[Callable[..., Any], Callable[..., Any], Callable[[np.dtype], Any]]] = {
    e.add_p: (reduce_sum, e.add, lambda dtype: 0),
    e.mul_p: (r.reduce_prod, e.mul, lambda dtype: 1),
    e.max_p: (r.reduce_max, e.max, least),
    e.min_p: (r.reduce_min, e.min, greatest),
    e.and_p: (r.reduce_and, e.bitwise_and, r.all_bits),
    e.or_p: (r.reduce_or, e.bitwise_or, lambda dtype: 0),
    e.xor_p: (r.reduce_xor, e.bitwise_xor, lambda dtype: 0),
}


def operation_on_two(of_scalars: Callable[..., list[Any]], dtype: np.dtype) -> Primitive | None:
    """The primitive that a function applies to two scalars, if that is all it does; or None."""
    scalar = ShapedArray((), dtype)
    closed = stage(of_scalars, [scalar, scalar])
    eqns, jaxpr = closed.eqns, closed.jaxpr
    if len(eqns) != 1 or closed.consts or set(eqns[0].invars) != set(jaxpr.invars) or jaxpr.outvars != eqns[0].outvars:
        return None
    return eqns[0].primitive


def _known_reduction(of_scalars: Callable[..., list[Any]], aval: ShapedArray) -> Any:
    """The element of `_KNOWN` for a function that is one of these operations on two scalars, or None."""
    primitive = operation_on_two(of_scalars, aval.dtype)
    if primitive is None:
        return None
    if primitive in (e.add_p, e.mul_p) and aval.dtype == dtypes.bool_:
        return None
    if primitive in (e.max_p, e.min_p) and aval.dtype in dtypes.COMPLEX:
        return None
    return _KNOWN.get(primitive)


def _reduce_by(known: Any, x: Any, start: Any, axes: tuple[int, ...]) -> Any:
    reduction, operation, neutral = known
    result = reduction(x, axes)
    is_neutral = isinstance(start, np.generic) and start == np.asarray(neutral(start.dtype), start.dtype)
    return result if is_neutral else operation(start, result)


# -- Any other function


def _reduce_in_pairs(
    of_scalars: Callable[..., list[Any]], leaves: Sequence[Any], starts: Sequence[Any], axes: tuple[int, ...]
) -> list[Any]:
    shape = aval_of(leaves[0]).shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    result = tuple(shape[i] for i in kept)
    length, row = math.prod(shape[i] for i in axes), math.prod(result)
    values = [reshape(transpose(x, (*axes, *kept)), (length, row)) for x in leaves]

    def joined(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        flat = [reshape(x, (aval_of(x).size,)) for x in (*left, *right)]
        outs, dims = batch_flat(of_scalars, aval_of(flat[0]).size, flat, [0] * len(flat))
        shape = aval_of(left[0]).shape
        return [reshape(x, shape) if dim == 0 else broadcast_to(x, shape) for x, dim in zip(outs, dims)]

    while length > 1:
        even = length - length % 2
        pairs = joined(*([slice_in_dim(x, first, even, 2) for x in values] for first in (0, 1)))
        if length % 2:
            pairs = [concatenate([x, slice_in_dim(y, even, length)], 0) for x, y in zip(pairs, values)]
        values = pairs
        length -= even // 2
    firsts = [broadcast_to(np.asarray(x) if isinstance(x, np.generic) else x, (1, row)) for x in starts]
    values = joined(firsts, values) if length else firsts
    return [reshape(x, result) for x in values]

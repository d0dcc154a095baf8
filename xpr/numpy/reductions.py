"""Reductions: sums, products, extremes and truths over axes.

Every one is a primitive between conversions: operands are made strong (a reduction's result never is weak), small
integers are summed in 32 bits and half-precision floats in float32, `where` puts the neutral value in place of what is
left out, and `initial` joins at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.dtypes import greatest, least
from xpr.numpy.axes import no_out, reduced_axes
from xpr.numpy.promotion import as_operand, broadcast_shapes, convert, requested_dtype, truth
from xpr.primitives import elementwise as e
from xpr.primitives.reductions import reduce_and_p, reduce_max_p, reduce_min_p, reduce_or_p, reduce_prod_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, full, reduce_sum_p
from xpr.primitives.slicing import select

_HALF = frozenset({dtypes.float16, dtypes.bfloat16})
_PLAIN = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})

# -- What reductions share


class Fold(NamedTuple):
    """A reduction: its primitive, how two partial results join, and the value that changes nothing, by dtype."""

    name: str
    primitive: Primitive
    join: Callable[[Any, Any], Any]
    neutral: Callable[[np.dtype], Any]
    needs_entries: bool = False  # of no entries it has no value, unless `initial` gives one


SUM = Fold("sum", reduce_sum_p, e.add, lambda dtype: 0)
PROD = Fold("prod", reduce_prod_p, e.mul, lambda dtype: 1)
OR = Fold("any", reduce_or_p, e.bitwise_or, lambda dtype: False)
AND = Fold("all", reduce_and_p, e.bitwise_and, lambda dtype: True)
MAX = Fold("max", reduce_max_p, e.max, least, needs_entries=True)
MIN = Fold("min", reduce_min_p, e.min, greatest, needs_entries=True)


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums for results of `dtype` are accumulated: float32 for half-precision floats."""
    return dtypes.float32 if dtype in _HALF else dtype


def widened(dtype: np.dtype) -> np.dtype:
    """The dtype that sums and products of integers have: at least as wide as a Python int, and of their sign."""
    wide = dtypes.of_python(int)
    if dtype == dtypes.bool_ or (dtype in dtypes.SIGNED and dtype.itemsize < wide.itemsize):
        return wide
    if dtype in dtypes.UNSIGNED and dtype.itemsize < wide.itemsize:
        return np.dtype(f"u{wide.name}")
    return dtype


def boolean_mask(where: Any) -> Any:
    """A mask that the user gives.

    Raises:
      ValueError: it is not boolean.
    """
    where = as_operand(where)
    if aval_of(where).dtype != dtypes.bool_:
        raise ValueError(f"where must be boolean, and is {aval_of(where).str_short()}. Compare it with something.")
    return where


def masked(a: Any, where: Any, fill: Any) -> Any:
    """The array with `fill` where the mask does not hold.

    Raises:
      ValueError: the mask is not boolean.
    """
    where = boolean_mask(where)
    aval = aval_of(a)
    shape = broadcast_shapes(aval.shape, aval_of(where).shape)
    return select(broadcast_to(where, shape), broadcast_to(a, shape), full(shape, fill, aval.dtype))


def fold(
    what: Fold, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any, dtype: np.dtype, accumulated_in: np.dtype
) -> Any:
    """Applies a reduction, computing in one dtype and giving another."""
    shape = aval_of(a).shape
    axes = reduced_axes(axis, len(shape))
    a = convert(a, accumulated_in)
    if what.needs_entries:
        _needs_entries(what.name, [shape[i] for i in axes], initial, where)
    if where is not None:
        a = masked(a, where, what.neutral(accumulated_in))
    result = what.primitive.bind(a, axes=axes)
    if initial is not None:
        result = what.join(_initial(initial, accumulated_in), result)
    if keepdims:
        result = expand_dims(result, axes)
    return result if dtype is accumulated_in else convert(result, dtype)


def _needs_entries(name: str, sizes: list[int], initial: Any, where: Any) -> None:
    if initial is not None:
        return
    if 0 in sizes:
        raise ValueError(f"{name} of no entries has no value. Give one with initial=.")
    if where is not None:
        raise ValueError(f"{name} with where= needs initial=, for rows in which the mask holds nowhere.")


def _initial(initial: Any, dtype: np.dtype) -> Any:
    initial = as_operand(initial)
    if aval_of(initial).ndim:
        raise ValueError(f"initial must be a scalar, and is {aval_of(initial).str_short()}.")
    return convert(initial, dtype)


# -- Sums and products


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over some axes, of all entries where no axis is said.

    Booleans and small integers are summed in 32 bits (64 where 64-bit types are on); `promote_integers=False` keeps
    their dtype. Half-precision floats are summed in float32.

    Raises:
      ValueError: there is no such axis, `initial` is no scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.sum(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([4., 6.], dtype=float32)
    """
    aval = getattr(a, "aval", None)
    if (
        aval is not None
        and aval.dtype in _PLAIN
        and not dtypes.is_narrowed(aval.dtype)
        and dtype is None
        and initial is None
        and where is None
        and out is None
        and not (keepdims or aval.weak_type)
    ):
        return reduce_sum_p.bind(a, axes=reduced_axes(axis, aval.ndim))
    return _accumulate(SUM, OR, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over some axes, of all entries where no axis is said; dtypes as in `sum`.

    Raises:
      ValueError: there is no such axis, `initial` is no scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.prod(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([3., 8.], dtype=float32)
    """
    return _accumulate(PROD, AND, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def _accumulate(
    what: Fold,
    of_booleans: Fold,
    a: Any,
    axis: Any,
    dtype: Any,
    out: None,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Any:
    no_out(what.name, out)
    a = as_operand(a)
    if dtype is not None:
        dtype = requested_dtype(dtype)
    else:
        dtype = aval_of(a).dtype
        if promote_integers:
            dtype = widened(dtype)
    if dtype == dtypes.bool_:
        what = of_booleans
    return fold(what, a, axis, keepdims, initial, where, dtype, computed_in(dtype))


# -- Extremes


def max(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The greatest entry along some axes; nan where one is nan.

    Raises:
      ValueError: there is no such axis, or no entry, or `where` without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([5, 3], dtype=int32)
    """
    return _extreme(MAX, a, axis, out, keepdims, initial, where)


def min(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The least entry along some axes; nan where one is nan.

    Raises:
      ValueError: there is no such axis, or no entry, or `where` without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.min(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return _extreme(MIN, a, axis, out, keepdims, initial, where)


def _extreme(what: Fold, a: Any, axis: Any, out: None, keepdims: bool, initial: Any, where: Any) -> Any:
    no_out(what.name, out)
    a = as_operand(a)
    dtype = aval_of(a).dtype
    if dtype in dtypes.COMPLEX and initial is None and where is None:
        return _complex_extreme(what, a, reduced_axes(axis, aval_of(a).ndim), keepdims)
    return fold(what, a, axis, keepdims, initial, where, dtype, dtype)


def _complex_extreme(what: Fold, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """By real parts, and among equal ones by imaginary parts."""
    real, imag = e.real(a), e.imag(a)
    shape, dtype = aval_of(real).shape, aval_of(real).dtype
    first = fold(what, real, axes, False, None, None, dtype, dtype)
    among = select(e.eq(real, spread_back(first, shape, axes)), imag, full(shape, what.neutral(dtype), dtype))
    second = what.primitive.bind(among, axes=axes)
    result = e.complex_(first, select(e.eq(first, first), second, first))
    return expand_dims(result, axes) if keepdims else result


amax, amin = max, min

# -- Truths


def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether all entries along some axes are true; true of none.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return fold(AND, truth(a), axis, keepdims, None, where, dtypes.bool_, dtypes.bool_)


def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether any entry along some axes is true; false of none.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    no_out("any", out)
    return fold(OR, truth(a), axis, keepdims, None, where, dtypes.bool_, dtypes.bool_)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many entries along some axes are not zero.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.count_nonzero(jnp.array([[0, 5], [3, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    return sum(truth(a), axis, keepdims=keepdims)


def entries_along(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """How many entries each result of a reduction over `axes` is made of."""
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


def summed(x: Any, axes: tuple[int, ...]) -> Any:
    """The sum of floats over axes counted from the front; half-precision ones are accumulated in float32."""
    dtype = aval_of(x).dtype
    if dtype in _HALF:
        return convert(reduce_sum_p.bind(convert(x, dtypes.float32), axes=axes), dtype)
    return reduce_sum_p.bind(x, axes=axes)


def spread_back(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A result of a reduction over `axes`, repeated along them to `shape`; a scalar stays one, and broadcasts."""
    if len(axes) == len(shape):
        return x
    return broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i not in axes])

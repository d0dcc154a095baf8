"""Reductions over axes: sum, product, minimum, maximum, all, any.

Every one is a primitive between conversions: operands are made strong (a reduction's result never is weak), small
integers are summed in 32 bits and half-precision floats in float32, `where` puts the neutral value in place of what is
left out, and `initial` joins at the end. Axes that `vmap` or `shard_map` maps are reduced by their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.dtypes import greatest, least
from xpr.numpy.axes import broadcasts_to, names_in, no_out, reduced_axes, split_axes
from xpr.numpy.promotion import as_operand, convert, requested_dtype, truth
from xpr.numpy.ufunc_builders import alias
from xpr.primitives import elementwise as e
from xpr.primitives.collectives.reduce import axis_size, pmax, pmin, psum
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.reductions import reduce_and_p, reduce_max_p, reduce_min_p, reduce_or_p, reduce_prod_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, full, reduce_sum_p
from xpr.primitives.slicing import select

__all__ = ["all", "amax", "amin", "any", "count_nonzero", "max", "min", "prod", "sum"]

_HALF = frozenset({dtypes.float16, dtypes.bf16})
_PLAIN = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})

# -- What reductions share


class Reduction(NamedTuple):
    """A reduction: its primitive, the combination of two partial results, and the neutral element by dtype."""

    name: str
    primitive: Primitive
    join: Callable[[Any, Any], Any]
    neutral: Callable[[np.dtype], Any]
    over_mapped: Callable[[Any, Any], Any] | None = None  # the collective that reduces mapped axes, by their names
    needs_elements: bool = False  # for no elements it is an error without `initial`


SUM = Reduction("sum", reduce_sum_p, e.add, lambda dtype: 0, psum)
PROD = Reduction("prod", reduce_prod_p, e.mul, lambda dtype: 1)
OR = Reduction("any", reduce_or_p, e.bitwise_or, lambda dtype: False, pmax)
AND = Reduction("all", reduce_and_p, e.bitwise_and, lambda dtype: True, pmin)
MAX = Reduction("max", reduce_max_p, e.max, least, pmax, needs_elements=True)
MIN = Reduction("min", reduce_min_p, e.min, greatest, pmin, needs_elements=True)


def reduce_over(reduction: Reduction, a: Any, axes: tuple[int, ...], names: tuple[str, ...]) -> Any:
    """The reduction of an array over its axes, counted from the front, and over mapped axes.

    Raises:
      NotImplementedError: there are names, and mapped axes can't be reduced so.
      AxisNameError: no axis of a name is mapped here.
    """
    result = reduction.primitive.bind(a, axes=axes) if axes or not names else a
    if not names:
        return result
    if reduction.over_mapped is None:
        raise NotImplementedError(
            f"jnp.{reduction.name} does not reduce mapped axes, and axis names {', '.join(map(repr, names))}. Gather "
            f"the elements first, lax.all_gather(x, {names[0]!r}), and reduce axis 0."
        )
    return reduction.over_mapped(result, names)


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums for results of `dtype` are accumulated: float32 for half-precision floats."""
    return dtypes.float32 if dtype in _HALF else dtype


def widened(dtype: np.dtype) -> np.dtype:
    """The dtype of sums and products of integers: at least as wide as the default integer, and of their sign."""
    wide = dtypes.of_python(int)
    if dtype == dtypes.bool_ or (dtype in dtypes.SIGNED and dtype.itemsize < wide.itemsize):
        return wide
    if dtype in dtypes.UNSIGNED and dtype.itemsize < wide.itemsize:
        return np.dtype(f"u{wide.name}")
    return dtype


def boolean_mask(name: str, where: Any) -> Any:
    """The mask `where` of a function as an operand.

    Raises:
      ValueError: it is not boolean.
    """
    where = as_operand(where)
    if aval_of(where).dtype != dtypes.bool_:
        raise ValueError(
            f"{name}: where must be None or a boolean array, and is {aval_of(where).str_short()}. Compare it with "
            "something."
        )
    return where


def mask_of(name: str, where: Any, shape: Sequence[Any]) -> Any:
    """The mask `where` of a function, broadcast to the shape of its array.

    Raises:
      ValueError: it is not boolean, or does not broadcast to that shape.
    """
    where = boolean_mask(name, where)
    if not broadcasts_to(aval_of(where).shape, shape):
        raise ValueError(f"{name}: where has shape {aval_of(where).shape}, which does not broadcast to {tuple(shape)}.")
    return broadcast_to(where, shape)


def masked(name: str, a: Any, where: Any, fill_value: Any) -> Any:
    """The array with `fill_value` where the mask is false.

    Raises:
      ValueError: the mask is not boolean.
    """
    where = boolean_mask(name, where)
    aval = aval_of(a)
    shape = broadcast_shapes(aval.shape, aval_of(where).shape)
    return select(broadcast_to(where, shape), broadcast_to(a, shape), full(shape, fill_value, aval.dtype))


def fold(
    reduction: Reduction,
    a: Any,
    axis: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    dtype: np.dtype,
    accumulated_in: np.dtype,
) -> Any:
    """A reduction over axes, mapped ones by name, accumulated in one dtype and returned in another."""
    shape = aval_of(a).shape
    axes, names = split_axes(axis, len(shape))
    a = convert(a, accumulated_in)
    if reduction.needs_elements:
        _needs_elements(reduction.name, [shape[i] for i in axes], initial, where)
    if where is not None:
        a = masked(f"jnp.{reduction.name}", a, where, reduction.neutral(accumulated_in))
    result = reduce_over(reduction, a, axes, names)
    if initial is not None:
        result = reduction.join(_initial(initial, accumulated_in), result)
    if keepdims:
        result = expand_dims(result, axes)
    return result if dtype is accumulated_in else convert(result, dtype)


def _needs_elements(name: str, sizes: list[int], initial: Any, where: Any) -> None:
    if initial is not None:
        return
    if 0 in sizes:
        raise ValueError(f"{name} of no elements has no value. Give one with initial=.")
    if where is not None:
        raise ValueError(f"{name} with where= needs initial=, for rows in which the mask holds nowhere.")


def _initial(initial: Any, dtype: np.dtype) -> Any:
    initial = as_operand(initial)
    if aval_of(initial).ndim:
        aval = aval_of(initial)
        raise ValueError(
            f"initial value must be a scalar. Got array of shape {aval.shape}, of type {aval.str_short()}."
        )
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
    """The sum over axes.

    Booleans and small integers are summed in 32 bits (64 where 64-bit types are on), half-precision floats in float32.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, integers and booleans widened, and
        float16 and bfloat16 accumulated in float32.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.
      promote_integers: whether small integers are widened; False keeps their dtype.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`); 0 for the sum of no elements.

    Raises:
      ValueError: there is no such axis, `initial` is not a scalar, or `where` is not boolean.
      NotImplementedError: `out` is given.

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
        and not (keepdims or aval.weak_type or names_in(axis))
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
    """The product over axes.

    Dtypes are as in `sum`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, integers and booleans widened, and
        float16 and bfloat16 accumulated in float32.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.
      promote_integers: whether small integers are widened; False keeps their dtype.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`); 1 for the product of no elements.

    Raises:
      ValueError: there is no such axis, `initial` is not a scalar, or `where` is not boolean.
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.prod(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([3., 8.], dtype=float32)
    """
    return _accumulate(PROD, AND, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def _accumulate(
    reduction: Reduction,
    of_booleans: Reduction,
    a: Any,
    axis: Any,
    dtype: Any,
    out: None,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Any:
    no_out(reduction.name, out)
    a = as_operand(a)
    if dtype is not None:
        accumulated_in = dtype = requested_dtype(dtype)
    else:
        dtype = widened(aval_of(a).dtype) if promote_integers else aval_of(a).dtype
        accumulated_in = computed_in(dtype)
    if dtype == dtypes.bool_:
        reduction = of_booleans
    return fold(reduction, a, axis, keepdims, initial, where, dtype, accumulated_in)


# -- Extremes


def max(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The maximum over axes; nan where an element is nan.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array of the dtype of `a`, without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, there are no elements, or `where` is given without `initial`.
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([5, 3], dtype=int32)
    """
    return _max_or_min(MAX, a, axis, out, keepdims, initial, where)


def min(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The minimum over axes; nan where an element is nan.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array of the dtype of `a`, without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, there are no elements, or `where` is given without `initial`.
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.min(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return _max_or_min(MIN, a, axis, out, keepdims, initial, where)


def _max_or_min(reduction: Reduction, a: Any, axis: Any, out: None, keepdims: bool, initial: Any, where: Any) -> Any:
    no_out(reduction.name, out)
    a = as_operand(a)
    dtype = aval_of(a).dtype
    if dtype in dtypes.COMPLEX:
        return _complex_max_or_min(reduction, a, *split_axes(axis, aval_of(a).ndim), keepdims, initial, where)
    return fold(reduction, a, axis, keepdims, initial, where, dtype, dtype)


def _complex_max_or_min(
    reduction: Reduction,
    a: Any,
    axes: tuple[int, ...],
    names: tuple[str, ...],
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    """The maximum or minimum of complex numbers by real parts, and among equal ones by imaginary parts."""
    _needs_elements(reduction.name, [aval_of(a).shape[i] for i in axes], initial, where)
    dtype = dtypes.real_part_of(aval_of(a).dtype)
    if where is not None:
        a = masked(f"jnp.{reduction.name}", a, where, complex(reduction.neutral(dtype), reduction.neutral(dtype)))
    result = _complex_extreme(reduction, axes, names, a)
    if initial is not None:
        result = reduction.join(_initial(initial, aval_of(a).dtype), result)
    return expand_dims(result, axes) if keepdims else result


@partial(custom_jvp, nondiff_argnums=(0, 1, 2))
def _complex_extreme(reduction: Reduction, axes: tuple[int, ...], names: tuple[str, ...], a: Any) -> Any:
    real, imag = e.real(a), e.imag(a)
    shape, dtype = aval_of(real).shape, aval_of(real).dtype
    first = reduce_over(reduction, real, axes, names)
    among = select(e.eq(real, broadcast_back(first, shape, axes)), imag, full(shape, reduction.neutral(dtype), dtype))
    second = reduce_over(reduction, among, axes, names)
    return e.complex_(first, select(e.eq(first, first), second, first))


@_complex_extreme.defjvp
def _complex_extreme_jvp(
    reduction: Reduction, axes: tuple[int, ...], names: tuple[str, ...], primals: tuple[Any], tangents: tuple[Any]
) -> tuple[Any, Any]:
    """The mean of the tangents of the elements that attain the maximum or minimum."""
    (a,), (t,) = primals, tangents
    result = _complex_extreme(reduction, axes, names, a)
    attains = convert(e.eq(a, broadcast_back(result, aval_of(a).shape, axes)), aval_of(t).dtype)
    return result, e.div(reduce_over(SUM, e.mul(t, attains), axes, names), reduce_over(SUM, attains, axes, names))


amax, amin = alias(max, "amax"), alias(min, "amin")

# -- Truths


def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether all elements over axes are true (not 0).

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      Booleans without the reduced axes (of size 1 with `keepdims`); True where there are no elements.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return fold(AND, truth(a), axis, keepdims, None, where, dtypes.bool_, dtypes.bool_)


def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether any element over axes is true (not 0).

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      Booleans without the reduced axes (of size 1 with `keepdims`); False where there are no elements.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    no_out("any", out)
    return fold(OR, truth(a), axis, keepdims, None, where, dtypes.bool_, dtypes.bool_)


@compiled_eagerly("axis")
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The number of elements over axes that are not zero.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      Integers without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.count_nonzero(jnp.array([[0, 5], [3, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    return sum(truth(a), axis, keepdims=keepdims)


def elements_along(shape: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...] = ()) -> int:
    """The number of elements that a reduction over `axes`, and mapped axes, combines to each of its results."""
    count = math.prod(map(axis_size, names))
    for axis in axes:
        count *= shape[axis]
    return count


def summed(x: Any, axes: tuple[int, ...], names: tuple[str, ...] = ()) -> Any:
    """The sum of floats over axes and mapped axes; half-precision ones are accumulated in float32."""
    dtype = aval_of(x).dtype
    if dtype in _HALF:
        return convert(reduce_over(SUM, convert(x, dtypes.float32), axes, names), dtype)
    return reduce_over(SUM, x, axes, names)


def broadcast_back(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A result of a reduction over `axes`, repeated along them to `shape`; a scalar stays one, and broadcasts."""
    if len(axes) == len(shape):
        return x
    return broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i not in axes])

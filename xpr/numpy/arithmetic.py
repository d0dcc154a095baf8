"""Elementwise arithmetic: sums, products, quotients, signs, absolute values, maximum and minimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy.comparisons import greater, less
from xpr.numpy.promotion import (
    as_operand,
    asarray_like,
    promote_inexact,
    promote_shapes,
    promoted_pair,
    select_scalar,
    strong_unless_scalar,
)
from xpr.numpy.ufunc_builders import alias, binary, float_binary, or_logical
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full

__all__ = [
    "abs", "absolute", "copysign", "fabs", "fmax", "fmin", "heaviside",
    "positive", "reciprocal", "sign", "signbit",
]  # fmt: skip

# -- Sums, products and quotients

add = or_logical(
    "add",
    e.add_p,
    e.or_p,
    """The sum of two arrays, elementwise; logical or for booleans.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.add(jnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """,
)


def _masked(mask: Any, x: Any) -> Any:
    """The floats where the mask is true, and 0 elsewhere."""
    return select_scalar(as_operand(mask), as_operand(x), e.scalar(0, x))


multiply = or_logical(
    "multiply",
    e.mul_p,
    e.and_p,
    """The product of two arrays, elementwise; logical and for booleans.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.multiply(jnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """,
    _masked,
)
subtract = binary(
    "subtract",
    e.sub_p,
    """The difference of two arrays, elementwise.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.subtract(jnp.array([1, 2]), 10)
    Array([-9, -8], dtype=int32)
    """,
)
true_divide = float_binary(
    "true_divide",
    e.div_p,
    """The quotient of two arrays, elementwise, in floating point.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape; integers and booleans are converted to floats.

    >>> import xpr.numpy as jnp
    >>> jnp.true_divide(jnp.array([1, 2]), 4)
    Array([0.25, 0.5 ], dtype=float32)
    """,
)
divide = alias(true_divide, "divide")


def negative(x: Any, /) -> Any:
    """The negative of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return e.neg_p.bind(as_operand(x))


def positive(x: Any, /) -> Any:
    """The array itself.

    >>> import xpr.numpy as jnp
    >>> jnp.positive(jnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """
    return asarray_like(x)


def reciprocal(x: Any, /) -> Any:
    """1 / x for each element, in floating point.

    >>> import xpr.numpy as jnp
    >>> jnp.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return e.div_p.bind(e.scalar(1, x), x)


# -- Signs and sizes


def absolute(x: Any, /) -> Any:
    """The absolute value of each element; real for complex elements.

    >>> import xpr.numpy as jnp
    >>> jnp.absolute(jnp.array([1, -2]))
    Array([1, 2], dtype=int32)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    return asarray_like(x) if dtype == dtypes.bool_ or dtype in dtypes.UNSIGNED else e.abs_p.bind(x)


abs = alias(absolute, "abs")


def fabs(x: Any, /) -> Any:
    """The absolute value of each element, in floating point.

    Raises:
      ArgumentError: the numbers are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.fabs(jnp.array([1, -2]))
    Array([1., 2.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    if aval_of(x).dtype in dtypes.COMPLEX:
        raise ArgumentError(
            f"jnp.fabs: takes real numbers, and got {aval_of(x).str_short()}. jnp.abs takes complex ones."
        )
    return e.abs_p.bind(x)


@compiled_eagerly()
def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of each element; x / |x| for complex elements.

    >>> import xpr.numpy as jnp
    >>> jnp.sign(jnp.array([-3.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    x = as_operand(x)
    if aval_of(x).dtype not in dtypes.FLOATS:
        return e.sign_p.bind(x)
    zero = e.scalar(0, x)
    return select_scalar(e.eq(x, zero), zero, e.sign_p.bind(x))  # +0 for -0.0, where lax.sign gives -0.0


def signbit(x: Any, /) -> Any:
    """Whether the sign bit of each element is set, which it is for -0.0 too.

    Raises:
      ArgumentError: the numbers are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.signbit(jnp.array([1.0, -0.0]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    _refuse_complex("signbit", dtype)
    if dtype in dtypes.FLOATS:
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        return e.lt(e.bitcast_convert_type_p.bind(x, new_dtype=bits), bits.type(0))
    if dtype in dtypes.SIGNED:
        return e.lt(x, dtype.type(0))
    return asarray_like(full(aval_of(x).shape, False, dtypes.bool_))


def _refuse_complex(name: str, dtype: np.dtype) -> None:
    if dtype in dtypes.COMPLEX:
        raise ArgumentError(f"jnp.{name}: complex numbers have no sign, and {dtype.name} was given. Take x.real.")


def copysign(x: Any, y: Any, /) -> Any:
    """The absolute value of x with the sign of y, elementwise.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    Raises:
      ArgumentError: the numbers are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.copysign(jnp.array([1.0, -2.0]), -1)
    Array([-1., -2.], dtype=float32)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    _refuse_complex("copysign", aval_of(x).dtype)
    size = e.abs(x)
    return select_scalar(signbit(y), e.neg(size), size)


@compiled_eagerly()
def heaviside(x: Any, y: Any, /) -> Any:
    """The step function: 0 where x is negative, 1 where it is positive, and y where it is 0.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape; nan where x is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = promote_inexact(x, y)
    x, y = promote_shapes(strong_unless_scalar(x), y)
    zero, one = e.scalar(0, x), e.scalar(1, x)
    step = select_scalar(e.gt(x, zero), one, select_scalar(e.ne(x, x), x, zero))
    return select_scalar(e.eq(x, zero), y, step)


# -- The greater and the lesser
maximum = binary(
    "maximum",
    e.max_p,
    """The maximum of two arrays, elementwise; nan where either is nan.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.maximum(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """,
)
minimum = binary(
    "minimum",
    e.min_p,
    """The minimum of two arrays, elementwise; nan where either is nan.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.minimum(jnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """,
)


@compiled_eagerly()
def fmax(x1: Any, x2: Any) -> Any:
    """The maximum of two arrays, elementwise; where one is nan, the other.

    Args:
      x1: array or number.
      x2: array or number that broadcasts against `x1`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    x, y = promote_shapes(*promoted_pair(x1, x2))
    return select_scalar(e.bitwise_or(greater(x, y), e.ne(y, y)), x, y)


@compiled_eagerly()
def fmin(x1: Any, x2: Any) -> Any:
    """The minimum of two arrays, elementwise; where one is nan, the other.

    Args:
      x1: array or number.
      x2: array or number that broadcasts against `x1`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    x, y = promote_shapes(*promoted_pair(x1, x2))
    return select_scalar(e.bitwise_or(less(x, y), e.ne(y, y)), x, y)

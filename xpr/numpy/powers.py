"""Powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy.promotion import (
    arithmetic_operand,
    arithmetic_operands,
    as_operand,
    asarray_like,
    convert,
    promote_inexact,
    promote_ranks,
    promote_shapes,
    select_scalar,
    strong_unless_scalar,
)
from xpr.numpy.ufunc_builders import alias, float_unary
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full
from xpr.primitives.smooth import hypot_p

__all__ = ["cbrt", "float_power", "pow", "sqrt", "square"]


def square(x: Any, /) -> Any:
    """The square of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.square(jnp.array([3, -2]))
    Array([9, 4], dtype=int32)
    """
    return e.square_p.bind(arithmetic_operand(as_operand(x)))


def power(x: Any, y: Any, /) -> Any:
    """x to the power y, elementwise; an integer exponent that isn't traced is expanded to multiplications.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote; for an integer exponent that isn't traced,
      the dtype of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.power(jnp.array([1.0, 2.0, 3.0]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    if type(y) in (Array, np.ndarray) and not y.ndim and y.dtype in dtypes.INTEGERS:
        y = int(y)
    if type(y) in (int, bool) or isinstance(y, np.integer):
        x = as_operand(x)
        if aval_of(x).dtype == dtypes.bool_:
            x = convert(x, dtypes.int32, False)
        return e.integer_pow(x, int(y)) if int(y) != 1 else asarray_like(x)
    exponent = aval_of(as_operand(y))
    x, y = arithmetic_operands(x, y, "power")
    if aval_of(x).dtype in dtypes.INEXACT:
        result = e.pow_p.bind(x, y)
        of_integers = exponent.dtype in dtypes.INTEGERS and not exponent.weak_type
        return convert(result, aval_of(result).dtype, False) if of_integers else result
    return _integer_power(*promote_shapes(x, y))


pow = alias(power, "pow")


@compiled_eagerly()
def _integer_power(x: Any, y: Any) -> Any:
    """Integers to the power of integers, by repeated squaring; negative exponents give 0 except for bases 1 and -1."""
    dtype = aval_of(x).dtype
    one, zero = dtype.type(1), dtype.type(0)
    shape = aval_of(x).shape or aval_of(y).shape
    result, exponent = full(shape, 1, dtype), y
    base = x
    for _ in range(8 * dtype.itemsize):
        odd = e.ne(e.bitwise_and(exponent, one), zero)
        result = e.mul(result, select_scalar(odd, base, one))
        exponent = e.shift_right_logical(exponent, one)
        base = e.mul(base, base)
    if dtype in dtypes.UNSIGNED:
        return result
    unit = e.bitwise_or(e.eq(x, one), e.eq(x, dtype.type(-1)))
    vanishing = e.bitwise_and(e.lt(y, zero), e.bitwise_not(unit))
    return select_scalar(vanishing, zero, result)


@compiled_eagerly()
def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y, elementwise, in floating point.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.float_power(2, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return e.pow_p.bind(*promote_ranks(*promote_inexact(x, y), name="float_power"))


sqrt = float_unary(
    "sqrt",
    e.sqrt_p,
    """The square root of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """,
)
cbrt = float_unary(
    "cbrt",
    e.cbrt_p,
    """The cube root of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.cbrt(jnp.array([8.0]))
    Array([2.], dtype=float32)
    """,
)


@compiled_eagerly()
def hypot(x: Any, y: Any, /) -> Any:
    """sqrt(x^2 + y^2), elementwise, without overflow of the squares.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    Raises:
      ArgumentError: the numbers are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    x, y = promote_ranks(*promote_inexact(x, y), name="hypot")
    if aval_of(x).dtype in dtypes.COMPLEX:
        raise ArgumentError("jnp.hypot is not well defined for complex-valued inputs. Take hypot(abs(x), abs(y)).")
    return hypot_p.bind(strong_unless_scalar(x), strong_unless_scalar(y))

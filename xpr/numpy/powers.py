"""Powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
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
)
from xpr.numpy.ufunc_builders import float_unary
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full
from xpr.primitives.smooth import hypot_p


def square(x: Any, /) -> Any:
    """The square of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.square(jnp.array([3, -2]))
    Array([9, 4], dtype=int32)
    """
    return e.square_p.bind(arithmetic_operand(as_operand(x)))


def power(x: Any, y: Any, /) -> Any:
    """x to the power y, entry by entry; a static integer power is made of multiplications.

    >>> import xpr.numpy as jnp
    >>> jnp.power(jnp.array([1.0, 2.0, 3.0]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    if type(y) is int or isinstance(y, np.integer):
        x = as_operand(x)
        if aval_of(x).dtype == dtypes.bool_:
            x = convert(x, dtypes.int32, False)
        return e.integer_pow(x, int(y)) if int(y) != 1 else asarray_like(x)
    x, y = arithmetic_operands(x, y)
    if aval_of(x).dtype in dtypes.INEXACT:
        return e.pow_p.bind(x, y)
    return _integer_power(*promote_shapes(x, y))


def _integer_power(x: Any, y: Any) -> Any:
    """Repeated squaring, a bit of the exponent at a time; negative exponents give 0 but for the bases 1 and -1."""
    dtype = aval_of(x).dtype
    one, zero = dtype.type(1), dtype.type(0)
    shape = aval_of(x).shape or aval_of(y).shape
    result, rest = full(shape, 1, dtype), y
    base = x
    for _ in range(8 * dtype.itemsize):
        odd = e.ne(e.bitwise_and(rest, one), zero)
        result = e.mul(result, select_scalar(odd, base, one))
        rest = e.shift_right_logical(rest, one)
        base = e.mul(base, base)
    if dtype in dtypes.UNSIGNED:
        return result
    unit = e.bitwise_or(e.eq(x, one), e.eq(x, dtype.type(-1)))
    vanishing = e.bitwise_and(e.lt(y, zero), e.bitwise_not(unit))
    return select_scalar(vanishing, zero, result)


def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y in floating point.

    >>> import xpr.numpy as jnp
    >>> jnp.float_power(2, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return e.pow_p.bind(*promote_ranks(*promote_inexact(x, y)))


sqrt = float_unary(
    "sqrt",
    e.sqrt_p,
    """The square root of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """,
)
cbrt = float_unary(
    "cbrt",
    e.cbrt_p,
    """The cube root of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.cbrt(jnp.array([8.0]))
    Array([2.], dtype=float32)
    """,
)


def hypot(x: Any, y: Any, /) -> Any:
    """sqrt(x^2 + y^2) without overflow on the way.

    >>> import xpr.numpy as jnp
    >>> jnp.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    x, y = promote_ranks(*promote_inexact(x, y))
    if aval_of(x).dtype in dtypes.COMPLEX:
        x, y = e.abs(x), e.abs(y)
    return hypot_p.bind(x, y)

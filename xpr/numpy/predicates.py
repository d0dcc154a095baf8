"""Predicates of elements: finite, nan, infinite, real, complex."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, aval_of
from xpr.numpy.axes import no_out
from xpr.numpy.complex_numbers import imag
from xpr.numpy.promotion import as_operand, asarray_like, strong_unless_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full

__all__ = ["iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal"]


def _everywhere(answer: bool, aval: ShapedArray) -> Any:
    return asarray_like(full(aval.shape, answer, dtypes.bool_))


def _is_infinity(name: str, x: Any, infinity: float, out: None) -> Any:
    no_out(name, out)
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in dtypes.COMPLEX:
        raise ValueError(f"{name}: complex numbers have no sign, and got {aval.str_short()}. Take x.real or x.imag.")
    return e.eq(x, aval.dtype.type(infinity)) if aval.dtype in dtypes.FLOATS else _everywhere(False, aval)


def isnan(x: Any, /) -> Any:
    """Whether each element is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    return e.ne(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether each element is neither infinite nor nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in dtypes.COMPLEX:
        return e.bitwise_and(e.is_finite(e.real(x)), e.is_finite(e.imag(x)))
    return e.is_finite_p.bind(x) if aval.dtype in dtypes.FLOATS else _everywhere(True, aval)


def isinf(x: Any, /) -> Any:
    """Whether each element is infinite.

    >>> import xpr.numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in dtypes.COMPLEX:
        return e.bitwise_or(isinf(e.real(x)), isinf(e.imag(x)))
    return e.eq(e.abs(x), aval.dtype.type(np.inf)) if aval.dtype in dtypes.FLOATS else _everywhere(False, aval)


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether each element is positive infinity.

    Args:
      x: array or number.
      out: must be None; arrays are immutable.

    Returns:
      Booleans of the shape of `x`.

    Raises:
      ValueError: `x` is complex.
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return _is_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether each element is negative infinity.

    Args:
      x: array or number.
      out: must be None; arrays are immutable.

    Returns:
      Booleans of the shape of `x`.

    Raises:
      ValueError: `x` is complex.
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    return _is_infinity("isneginf", x, -np.inf, out)


def isreal(x: Any) -> Any:
    """Whether each element has no imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.isreal(jnp.array([1.0, 1j]))
    Array([ True, False], dtype=bool)
    """
    part = strong_unless_scalar(imag(x))
    return e.eq(part, e.scalar(0, part))


def iscomplex(x: Any) -> Any:
    """Whether each element has an imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1.0, 1j]))
    Array([False,  True], dtype=bool)
    """
    part = strong_unless_scalar(imag(x))
    return e.ne(part, e.scalar(0, part))

"""What entries are: finite or not, real or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.complex_numbers import imag
from xpr.numpy.promotion import as_operand, asarray_like
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full


def isnan(x: Any, /) -> Any:
    """Whether each entry is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    return e.ne(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether each entry is neither infinite nor nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in dtypes.COMPLEX:
        return e.bitwise_and(e.is_finite(e.real(x)), e.is_finite(e.imag(x)))
    return e.is_finite_p.bind(x) if aval.dtype in dtypes.FLOATS else asarray_like(full(aval.shape, True, dtypes.bool_))


def isinf(x: Any, /) -> Any:
    """Whether each entry is infinite.

    >>> import xpr.numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in dtypes.COMPLEX:
        return e.bitwise_or(isinf(e.real(x)), isinf(e.imag(x)))
    return (
        e.eq(e.abs(x), aval.dtype.type(np.inf))
        if aval.dtype in dtypes.FLOATS
        else full(aval.shape, False, dtypes.bool_)
    )


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether each entry is positive infinity.

    >>> import xpr.numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    return e.eq(x, aval.dtype.type(np.inf)) if aval.dtype in dtypes.FLOATS else full(aval.shape, False, dtypes.bool_)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether each entry is negative infinity.

    >>> import xpr.numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    return e.eq(x, aval.dtype.type(-np.inf)) if aval.dtype in dtypes.FLOATS else full(aval.shape, False, dtypes.bool_)


def isreal(x: Any) -> Any:
    """Whether each entry has no imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.isreal(jnp.array([1.0, 1j]))
    Array([ True, False], dtype=bool)
    """
    part = imag(x)
    return e.eq(part, aval_of(part).dtype.type(0))


def iscomplex(x: Any) -> Any:
    """Whether each entry has an imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1.0, 1j]))
    Array([False,  True], dtype=bool)
    """
    part = imag(x)
    return e.ne(part, aval_of(part).dtype.type(0))

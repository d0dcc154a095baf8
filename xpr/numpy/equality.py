"""Comparisons of whole arrays: equality, and closeness within a tolerance."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of, is_key
from xpr.numpy import arithmetic, comparisons, creation, predicates, reductions
from xpr.numpy.promotion import convert, promote_dtypes, promote_shapes
from xpr.primitives import elementwise as e
from xpr.primitives.composites import broadcast_shapes

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


@compiled_eagerly()
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol |b|, elementwise; infinities are close only to themselves.

    Args:
      a: array or number.
      b: array or number that broadcasts against `a`.
      rtol: the relative tolerance.
      atol: the absolute tolerance.
      equal_nan: whether nan is close to nan.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.isclose(jnp.array([1.0, jnp.inf]), jnp.array([1.000001, jnp.inf]))
    Array([ True,  True], dtype=bool)
    """
    a, b = promote_dtypes(a, b)
    dtype = aval_of(a).dtype
    if dtype == dtypes.bool_ or is_key(aval_of(a)):
        return comparisons.equal(a, b)
    if dtype not in dtypes.INEXACT:
        dtype = dtypes.to_inexact(dtype)
    a, b = promote_shapes(convert(a, dtype), convert(b, dtype))
    rtol, atol = (convert(v, dtypes.real_part_of(dtype)) for v in promote_dtypes(rtol, atol))
    return _isclose(a, b, rtol, atol, equal_nan=bool(equal_nan))


@compiled
def _isclose(a: Any, b: Any, rtol: Any, atol: Any, *, equal_nan: bool) -> Any:
    bound = arithmetic.add(atol, arithmetic.multiply(rtol, e.abs(b)))
    near = comparisons.less_equal(e.abs(e.sub(a, b)), bound)
    finite = e.bitwise_and(predicates.isfinite(a), predicates.isfinite(b))
    result = e.bitwise_or(e.bitwise_and(finite, near), e.eq(a, b))
    if equal_nan:
        result = e.bitwise_or(result, e.bitwise_and(e.ne(a, a), e.ne(b, b)))
    return result


@compiled_eagerly()
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements of two arrays are close, as `isclose` says.

    Args:
      a: array or number.
      b: array or number that broadcasts against `a`.
      rtol: the relative tolerance.
      atol: the absolute tolerance.
      equal_nan: whether nan is close to nan.

    Returns:
      A boolean scalar.

    >>> import xpr.numpy as jnp
    >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    return reductions.all(isclose(a, b, rtol, atol, equal_nan))


@compiled_eagerly()
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have the same shape and equal elements.

    Args:
      a1: arrays.
      a2: arrays.
      equal_nan: whether nan equals nan.

    Returns:
      A boolean scalar.

    >>> import xpr.numpy as jnp
    >>> jnp.array_equal(jnp.array([1, 2]), jnp.array([1.0, 2.0]))
    Array(True, dtype=bool)
    """
    a1, a2 = creation.asarray(a1), creation.asarray(a2)
    if aval_of(a1).shape != aval_of(a2).shape:
        return creation.array(False)
    same = comparisons.equal(a1, a2)
    if equal_nan:
        same = e.bitwise_or(same, e.bitwise_and(predicates.isnan(a1), predicates.isnan(a2)))
    return reductions.all(same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast to one shape and are then equal.

    Args:
      a1: arrays.
      a2: arrays.

    Returns:
      A boolean scalar.

    >>> import xpr.numpy as jnp
    >>> jnp.array_equiv(jnp.array([1, 1]), jnp.array(1))
    Array(True, dtype=bool)
    """
    a1, a2 = creation.asarray(a1), creation.asarray(a2)
    try:
        broadcast_shapes(aval_of(a1).shape, aval_of(a2).shape)
    except ValueError:
        return creation.array(False)
    return reductions.all(comparisons.equal(a1, a2))

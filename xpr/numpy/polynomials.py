"""Polynomials: vectors of coefficients, the highest power first."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy import creation
from xpr.numpy.concrete import concrete_value
from xpr.numpy.indexing.along_axis import added_at
from xpr.numpy.promotion import as_operand, convert, promote_dtypes, promote_inexact
from xpr.primitives import elementwise as e
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape
from xpr.primitives.slicing import broadcasted_iota, concatenate, slice_in_dim

__all__ = ["polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval"]


@compiled_eagerly("unroll")
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value of a polynomial at each element of `x`, by Horner's rule.

    Args:
      p: coefficients, the highest power first; [n, ...] for several polynomials that broadcast against `x`.
      x: array or number.
      unroll: has no effect; all steps are unrolled.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    Raises:
      ValueError: `p` is a scalar, or doesn't broadcast.

    >>> import xpr.numpy as jnp
    >>> jnp.polyval(jnp.array([1, 0, 2]), jnp.array([0, 3]))
    Array([ 2, 11], dtype=int32)
    """
    p, x = promote_dtypes(as_operand(p), x)
    p = p if aval_of(p).ndim else reshape(p, (1,))
    dtype, (n, *rows) = aval_of(p).dtype, aval_of(p).shape
    shape = broadcast_shapes(tuple(rows), aval_of(x).shape)
    p, x = convert(p, dtype), broadcast_to(convert(x, dtype), shape)
    y = creation.zeros(shape, dtype)
    for i in range(n):
        coefficient = broadcast_to(reshape(slice_in_dim(p, i, i + 1), rows), shape)
        y = coefficient if i == 0 else e.add(e.mul(y, x), coefficient)
    return y


@compiled_eagerly()
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials.

    Args:
      a1: coefficients, the highest power first; [n, ...] and [m, ...] for several polynomials.
      a2: coefficients, the highest power first; [n, ...] and [m, ...] for several polynomials.

    Returns:
      Coefficients [max(n, m), ...].

    Raises:
      ValueError: they don't broadcast, the shorter one to coefficients of the longer.

    >>> import xpr.numpy as jnp
    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([1, 0, 0]))
    Array([1, 1, 2], dtype=int32)
    """
    return e.add(*_one_length("polyadd", a1, a2))


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials.

    Args:
      a1: coefficients, the highest power first; [n, ...] and [m, ...] for several polynomials.
      a2: coefficients, the highest power first; [n, ...] and [m, ...] for several polynomials.

    Returns:
      Coefficients [max(n, m), ...].

    Raises:
      ValueError: they don't broadcast, the shorter one to coefficients of the longer.

    >>> import xpr.numpy as jnp
    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([1, 0, 0]))
    Array([-1,  1,  2], dtype=int32)
    """
    return e.sub(*_one_length("polysub", a1, a2))


@compiled_eagerly()
def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials.

    Args:
      a1: vectors of coefficients, the highest power first.
      a2: vectors of coefficients, the highest power first.
      trim_leading_zeros: whether to drop leading zeros of the result, for which values must be known.

    Returns:
      A vector of coefficients.

    Raises:
      ValueError: an operand is not a vector.
      ConcretizationTypeError: `trim_leading_zeros` is set and an operand is traced.

    >>> import xpr.numpy as jnp
    >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, -2]))
    Array([ 1.,  0., -4.], dtype=float32)
    """
    a1, a2 = promote_inexact(coefficients("polymul", a1), coefficients("polymul", a2))
    if trim_leading_zeros:
        a1, a2 = (_trimmed(a, "polymul") for a in (a1, a2))
    a1, a2 = (a if aval_of(a).size else full((1,), 0, aval_of(a).dtype) for a in (a1, a2))
    n, m = aval_of(a1).size, aval_of(a2).size
    products = e.mul(broadcast_in_dim(a1, (n, m), (0,)), broadcast_in_dim(a2, (n, m), (1,)))
    powers = e.add(*(broadcasted_iota(dtypes.int32, (n, m), i) for i in (0, 1)))
    result = added_at(n + m - 1, reshape(powers, (n * m,)), reshape(products, (n * m,)))
    return convert(result, aval_of(result).dtype, aval_of(products).weak_type)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials, by long division.

    Args:
      u: coefficients of the dividend, the highest power first.
      v: coefficients of the divisor.
      trim_leading_zeros: whether to drop leading zeros of the remainder, for which values must be known.

    Returns:
      `(quotient, remainder)`, vectors of coefficients.

    Raises:
      ValueError: an operand is not a vector, or the divisor is empty.
      ConcretizationTypeError: `trim_leading_zeros` is set and an operand is traced.

    >>> import xpr.numpy as jnp
    >>> jnp.polydiv(jnp.array([1.0, 0.0, -4.0]), jnp.array([1.0, 2.0]))
    (Array([ 1., -2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    u, v = promote_inexact(coefficients("polydiv", u), coefficients("polydiv", v))
    dtype = aval_of(u).dtype
    n, m = aval_of(u).size, aval_of(v).size
    if m == 0:
        raise ValueError("polydiv: the divisor has no coefficients.")
    if n < m:
        return creation.zeros(1, dtype), u
    lead = slice_in_dim(v, 0, 1)
    quotients = []
    for i in range(n - m + 1):
        quotients.append(convert(e.div(slice_in_dim(u, i, i + 1), lead), dtype))
        step = e.mul(broadcast_to(quotients[-1], (m,)), v)
        taken = convert(e.sub(slice_in_dim(u, i, i + m), step), dtype, aval_of(u).weak_type)
        u = concatenate([slice_in_dim(u, 0, i), taken, slice_in_dim(u, i + m, n)], 0)
    return concatenate(quotients, 0), _trimmed(u, "polydiv") if trim_leading_zeros else u


@compiled_eagerly("m")
def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial.

    Args:
      p: a vector of coefficients, the highest power first.
      m: the order.

    Returns:
      A vector of coefficients.

    Raises:
      ValueError: `p` is not a vector, or `m` is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.polyder(jnp.array([1.0, 0.0, 2.0, 5.0]))
    Array([3., 0., 2.], dtype=float32)
    """
    (p,) = promote_inexact(coefficients("polyder", p))
    m = _order("polyder", m)
    if m == 0:
        return p
    n = operator.index(aval_of(p).size)
    powers = np.arange(n - 1, m - 1, -1, dtype=np.float64)
    factors = np.prod([powers - i for i in np.arange(m)], axis=0) if n > m else powers
    kept = slice_in_dim(p, 0, max(n - m, 0))
    return e.mul(kept, creation.asarray(factors.astype(aval_of(p).dtype)))


@compiled_eagerly("m")
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th antiderivative of a polynomial.

    Args:
      p: a vector of coefficients, the highest power first.
      m: the order.
      k: the constants of integration, in order: m of them, or one for all; None for 0.

    Returns:
      A vector of coefficients.

    Raises:
      ValueError: `p` is not a vector, `m` is negative, or `k` doesn't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.polyint(jnp.array([3.0, 0.0, 2.0]))
    Array([1., 0., 2., 0.], dtype=float32)
    """
    m = _order("polyint", m)
    p, k = promote_inexact(coefficients("polyint", p), 0 if k is None else creation.asarray(k))
    if m == 0:
        return p
    dtype, n = aval_of(p).dtype, operator.index(aval_of(p).size)
    if aval_of(k).size == 1:
        k = broadcast_to(reshape(k, ()), (m,))
    if aval_of(k).shape != (m,):
        raise ValueError(f"polyint: k must be a scalar or a vector of {m}, and is {aval_of(k).str_short()}.")
    # The j-th constant is integrated m - 1 - j times more.
    powers = np.arange(n + m, dtype=np.float64)[::-1]
    factors = np.prod([np.maximum(powers - i, 1) for i in np.arange(m)], axis=0)
    every = concatenate([convert(p, dtype), convert(k, dtype)], 0)
    return e.div(every, creation.asarray(factors.astype(dtype)))


def coefficients(name: str, p: Any) -> Any:
    p = as_operand(p)
    if aval_of(p).ndim > 1:
        raise ValueError(f"{name}: takes vectors, and got {aval_of(p).str_short()}.")
    return reshape(p, (aval_of(p).size,))


def _order(name: str, m: Any) -> int:
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"{name}: can be taken 0 times or more, and m is {m}.")
    return m


def _one_length(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    """Coefficients of two polynomials in one dtype, padded with zeros to one length; further axes broadcast."""
    both = [a if aval_of(a).ndim else reshape(a, (1,)) for a in promote_dtypes(a1, a2)]
    (n, *rows), (m, *more) = (aval_of(a).shape for a in both)
    shape, dtype, weak = broadcast_shapes(tuple(rows), tuple(more)), aval_of(both[0]).dtype, aval_of(both[0]).weak_type
    longer = max(n, m)
    if len(rows) != len(more) and len(shape) != len(more if n < m else rows):
        types = " and ".join(aval_of(a).str_short() for a in both)
        raise ValueError(f"{name}: {types} don't fit: the shorter one, or else the second, has more axes.")
    padded = [
        concatenate([full((longer - k, *shape), 0, dtype), broadcast_to(convert(a, dtype), (k, *shape))], 0)
        for a, k in zip(both, (n, m))
    ]
    first, second = (convert(a, dtype, weak) for a in padded)
    return first, second


def _trimmed(a: Any, name: str) -> Any:
    value = concrete_value(a, name, "Leave trim_leading_zeros off.")
    kept = np.flatnonzero(value)
    return slice_in_dim(a, int(kept[0]) if kept.size else value.size - 1, value.size)

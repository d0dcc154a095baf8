"""The gamma and beta functions of real numbers, their derivatives, and what is counted with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.primitives import incomplete
from xpr.primitives import special as s
from xpr.scipy.special.arguments import dtype_of, one_shape, reals, strong_reals
from xpr.scipy.special.complex_gamma import complex_gamma


def gammaln(x: Any) -> Any:
    """log |Gamma(x)|.

    >>> from xpr.scipy import special
    >>> special.gammaln(3.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    return s.lgamma(*reals("gammaln", x))


def gammasgn(x: Any) -> Any:
    """The sign of Gamma(x): 1 or -1, nan at the negative integers and of nan; that of the zero at 0.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.gammasgn(jnp.array([-1.5, -0.5, 0.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    (x,) = reals("gammasgn", x)
    below = jnp.floor(x)
    negative = jnp.where(jnp.equal(x, below), math.nan, jnp.where(jnp.equal(jnp.remainder(below, 2), 0), 1.0, -1.0))
    sign = jnp.where(jnp.less(x, 0), negative, jnp.where(jnp.equal(x, 0), jnp.copysign(1.0, x), 1.0))
    return jnp.asarray(jnp.where(jnp.isnan(x), math.nan, sign), dtype_of(x))


def gamma(x: Any) -> Any:
    """Gamma(x), which is (x - 1)! for positive integers, of real or complex numbers.

    >>> from xpr.scipy import special
    >>> round(float(special.gamma(5.0)), 3)
    24.0
    """
    if jnp.issubdtype(jnp.result_type(x), jnp.complexfloating):
        return complex_gamma(jnp.asarray(x))
    (x,) = reals("gamma", x)
    return jnp.multiply(gammasgn(x), jnp.exp(s.lgamma(x)))


def factorial(n: Any, exact: bool = False) -> Any:
    """The factorial n! = Gamma(n + 1), elementwise; 0 for negative n.

    Args:
      n: array of real numbers.
      exact: must be False.

    Returns:
      Floats of the shape of `n`.

    Raises:
      NotImplementedError: `exact` is True.

    >>> from xpr.scipy import special
    >>> round(float(special.factorial(4.0)), 3)
    24.0
    """
    if exact:
        raise NotImplementedError("factorial: integers of any length are no arrays. Use math.factorial.")
    (n,) = reals("factorial", n, argument="n")
    return jnp.where(jnp.less(n, 0), 0.0, jnp.exp(s.lgamma(jnp.add(n, 1))))


def digamma(x: Any) -> Any:
    """The derivative of log Gamma(x).

    >>> from xpr.scipy import special
    >>> special.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return s.digamma(*reals("digamma", x))


def polygamma(n: Any, x: Any) -> Any:
    """The (n + 1)-th derivative of log Gamma(x), elementwise.

    Args:
      n: the order, array of integers of at least 0.
      x: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.polygamma(1, 1.0)), 4)
    1.6449
    """
    return s.polygamma(*reals("polygamma", n, x))


def betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)|, elementwise.

    Args:
      a: array of real numbers; arguments broadcast.
      b: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.betaln(1.0, 2.0)), 4)
    -0.6931
    """
    a, b = reals("betaln", a, b)
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    far = jnp.logical_and(jnp.greater(large, 10), jnp.greater(small, 0))
    near = jnp.subtract(s.lgamma(jnp.where(far, 1.0, large)), s.lgamma(jnp.where(far, 1.0, jnp.add(a, b))))
    apart = _log_quotient(jnp.where(far, small, 1.0), jnp.where(far, large, 11.0))
    return jnp.add(s.lgamma(small), jnp.where(far, apart, near))


def _log_quotient(p: Any, q: Any) -> Any:
    """log(Gamma(q) / Gamma(p + q)) for large q, whose parts would cancel, from Stirling's series.

    A. DiDonato and A. Morris, Significant digit computation of the incomplete beta function ratios, 1992.
    """

    def rest(x: Any) -> Any:
        square = 1 / (x * x)
        return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x

    total = p + q
    return p - p * jnp.log(q) - (total - 0.5) * jnp.log1p(p / q) + rest(q) - rest(total)


def beta(a: Any, b: Any) -> Any:
    """The beta function B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b), elementwise.

    Args:
      a: array of real numbers; arguments broadcast.
      b: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.beta(1.0, 2.0)), 4)
    0.5
    """
    a, b = reals("beta", a, b)
    sign = jnp.multiply(jnp.multiply(gammasgn(a), gammasgn(b)), gammasgn(jnp.add(a, b)))
    return jnp.multiply(sign, jnp.exp(betaln(a, b)))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function: the integral for B(a, b) from 0 to x, over B(a, b).

    Args:
      a: array of real numbers; arguments broadcast.
      b: array of real numbers; arguments broadcast.
      x: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.betainc(1.0, 2.0, 0.5)), 4)
    0.75
    """
    return incomplete.betainc(*one_shape(*reals("betainc", a, b, x)))


def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function: the integral for Gamma(a) from 0 to x, over Gamma(a).

    Args:
      a: array of real numbers; arguments broadcast.
      x: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.gammainc(1.0, 2.0)), 4)
    0.8647
    """
    return incomplete.igamma(*reals("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Any:
    """The regularized upper incomplete gamma function, 1 - gammainc(a, x).

    Args:
      a: array of real numbers; arguments broadcast.
      x: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.gammaincc(1.0, 2.0)), 4)
    0.1353
    """
    return incomplete.igammac(*reals("gammaincc", a, x))


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function of d dimensions, elementwise.

    Args:
      a: array of real numbers; arguments broadcast.
      d: a Python integer.

    Returns:
      Floats of the shape of `a`.

    Raises:
      TypeError: `d` is no integer.

    >>> from xpr.scipy import special
    >>> round(float(special.multigammaln(3.0, 2)), 4)
    1.5501
    """
    if not isinstance(d, (int, np.integer)):
        raise TypeError(f"multigammaln: the number of dimensions must be an integer, and is {d!r}.")
    (a,) = strong_reals("multigammaln", a, argument="a")
    terms = [s.lgamma(jnp.subtract(a, i / 2)) for i in range(d)]
    return sum(terms, jnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi)))


@compiled_eagerly()
def poch(z: Any, m: Any) -> Any:
    """The Pochhammer symbol Gamma(z + m) / Gamma(z), elementwise.

    Args:
      z: array of real numbers.
      m: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.poch(2.0, 3.0)), 3)
    24.0
    """
    z, m = reals("poch", z, m)
    infinite = jnp.logical_not(jnp.isfinite(s.lgamma(z)))
    one = jnp.logical_and(jnp.equal(m, 0), infinite)  # elsewhere the ratio is 1 by itself, with its derivatives
    z = jnp.where(one, 1.0, z)
    above = jnp.add(z, m)
    ratio = jnp.exp(jnp.subtract(s.lgamma(above), s.lgamma(z)))
    return jnp.where(one, 1.0, jnp.multiply(jnp.multiply(gammasgn(above), gammasgn(z)), ratio))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """The number of ways to choose k of N things, N! / (k! (N - k)!), elementwise.

    Args:
      N: array of real numbers.
      k: array of real numbers; both broadcast.
      repetition: whether things may be taken more than once.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> round(float(special.comb(5, 2)), 3)
    10.0
    """
    N, k = reals("comb", N, k)
    if repetition:
        N = jnp.where(jnp.logical_and(jnp.equal(N, 0), jnp.equal(k, 0)), 0.0, jnp.subtract(jnp.add(N, k), 1))
    inside = jnp.logical_and(jnp.less_equal(k, N), jnp.greater_equal(k, 0))
    remaining = jnp.where(inside, jnp.subtract(N, k), 0.0)
    logs = jnp.subtract(s.lgamma(jnp.add(N, 1)), jnp.add(s.lgamma(jnp.add(k, 1)), s.lgamma(jnp.add(remaining, 1))))
    return jnp.where(inside, jnp.exp(logs), 0.0)

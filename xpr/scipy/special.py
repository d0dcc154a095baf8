"""Special functions: `xpr.scipy.special`. Arguments broadcast; integers are converted to floats.

Definitions are those of Abramowitz and Stegun, Handbook of Mathematical Functions, and of SciPy where it goes beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.core.avals import aval_of
from xpr.nn import normalizing
from xpr.nn.normalizing import logsumexp as logsumexp
from xpr.numpy.promotion import convert, promote_inexact, promote_shapes
from xpr.primitives import elementwise as e
from xpr.primitives import incomplete
from xpr.primitives import special as s
from xpr.primitives.smooth import bessel_i0, expm1_quotient

__all__ = [
    "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "digamma", "entr", "erf", "erfc", "erfinv", "expit",
    "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "rel_entr",
    "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip


def _reals(name: str, *xs: Any) -> tuple[Any, ...]:
    """The arguments in the dtype of real numbers and the shape that they meet in.

    Raises:
      TypeError: they meet in complex numbers, or one is no array.
    """
    found = promote_shapes(*promote_inexact(*xs))
    if aval_of(found[0]).dtype in dtypes.COMPLEX:
        types = ", ".join(aval_of(x).str_short() for x in xs)
        raise TypeError(f"{name}: takes real numbers, and was given {types}.")
    return tuple(found)


def _strong_reals(name: str, *xs: Any) -> tuple[Any, ...]:
    """`_reals`, none of them weakly typed."""
    return tuple([convert(x, aval_of(x).dtype) for x in _reals(name, *xs)])


def _dtype(x: Any) -> np.dtype:
    return aval_of(x).dtype


# -- Gamma and beta functions


def gammaln(x: Any) -> Any:
    """log |Gamma(x)|.

    >>> from xpr.scipy import special
    >>> special.gammaln(3.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    return s.lgamma(*_reals("gammaln", x))


def gammasgn(x: Any) -> Any:
    """The sign of Gamma(x): 1 or -1, nan at the negative integers; that of the zero at 0.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.gammasgn(jnp.array([-1.5, -0.5, 0.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    (x,) = _reals("gammasgn", x)
    below = jnp.floor(x)
    negative = jnp.where(jnp.equal(x, below), math.nan, jnp.where(jnp.equal(jnp.remainder(below, 2), 0), 1.0, -1.0))
    sign = jnp.where(jnp.less(x, 0), negative, jnp.where(jnp.equal(x, 0), jnp.copysign(1.0, x), 1.0))
    return jnp.asarray(sign, _dtype(x))


def gamma(x: Any) -> Any:
    """Gamma(x), which is (x - 1)! for positive integers.

    >>> from xpr.scipy import special
    >>> round(float(special.gamma(5.0)), 3)
    24.0
    """
    (x,) = _reals("gamma", x)
    return jnp.multiply(gammasgn(x), jnp.exp(s.lgamma(x)))


def factorial(n: Any, exact: bool = False) -> Any:
    """n! = Gamma(n + 1), and 0 for negative n.

    Raises:
      NotImplementedError: `exact` is True.

    >>> from xpr.scipy import special
    >>> round(float(special.factorial(4.0)), 3)
    24.0
    """
    if exact:
        raise NotImplementedError("factorial: integers of any length are no arrays. Use math.factorial.")
    (n,) = _reals("factorial", n)
    return jnp.where(jnp.less(n, 0), 0.0, jnp.exp(s.lgamma(jnp.add(n, 1))))


def digamma(x: Any) -> Any:
    """The derivative of log Gamma(x).

    >>> from xpr.scipy import special
    >>> special.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return s.digamma(*_reals("digamma", x))


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of log Gamma(x) of order n + 1.

    >>> from xpr.scipy import special
    >>> round(float(special.polygamma(1, 1.0)), 4)
    1.6449
    """
    return s.polygamma(*_reals("polygamma", n, x))


def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1, ...

    Raises:
      NotImplementedError: `q` is not given.

    >>> from xpr.scipy import special
    >>> round(float(special.zeta(2.0, 1.0)), 4)
    1.6449
    """
    if q is None:
        raise NotImplementedError("zeta: give q; q=1 is Riemann's zeta function.")
    return s.zeta(*_reals("zeta", x, q))


def betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)|.

    >>> from xpr.scipy import special
    >>> round(float(special.betaln(1.0, 2.0)), 4)
    -0.6931
    """
    a, b = _reals("betaln", a, b)
    return jnp.subtract(jnp.add(s.lgamma(a), s.lgamma(b)), s.lgamma(jnp.add(a, b)))


def beta(a: Any, b: Any) -> Any:
    """B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b).

    >>> from xpr.scipy import special
    >>> round(float(special.beta(1.0, 2.0)), 4)
    0.5
    """
    a, b = _reals("beta", a, b)
    sign = jnp.multiply(jnp.multiply(gammasgn(a), gammasgn(b)), gammasgn(jnp.add(a, b)))
    return jnp.multiply(sign, jnp.exp(betaln(a, b)))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function: the part of B(a, b) below x.

    >>> from xpr.scipy import special
    >>> round(float(special.betainc(1.0, 2.0, 0.5)), 4)
    0.75
    """
    return incomplete.betainc(*_one_shape(*_reals("betainc", a, b, x)))


def gammainc(a: Any, x: Any) -> Any:
    """The regularized incomplete gamma function: the part of Gamma(a) below x.

    >>> from xpr.scipy import special
    >>> round(float(special.gammainc(1.0, 2.0)), 4)
    0.8647
    """
    return incomplete.igamma(*_reals("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Any:
    """1 - gammainc(a, x).

    >>> from xpr.scipy import special
    >>> round(float(special.gammaincc(1.0, 2.0)), 4)
    0.1353
    """
    return incomplete.igammac(*_reals("gammaincc", a, x))


def _one_shape(*xs: Any) -> list[Any]:
    return jnp.broadcast_arrays(*xs)


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the gamma function of d dimensions.

    Raises:
      TypeError: `d` is no integer.

    >>> from xpr.scipy import special
    >>> round(float(special.multigammaln(3.0, 2)), 4)
    1.5501
    """
    if not isinstance(d, (int, np.integer)):
        raise TypeError(f"multigammaln: the number of dimensions must be an integer, and is {d!r}.")
    (a,) = _strong_reals("multigammaln", a)
    terms = [s.lgamma(jnp.subtract(a, i / 2)) for i in range(d)]
    return sum(terms, jnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi)))


def poch(z: Any, m: Any) -> Any:
    """Gamma(z + m) / Gamma(z).

    >>> from xpr.scipy import special
    >>> round(float(special.poch(2.0, 3.0)), 3)
    24.0
    """
    z, m = _reals("poch", z, m)
    infinite = jnp.logical_not(jnp.isfinite(s.lgamma(z)))
    one = jnp.logical_and(jnp.equal(m, 0), infinite)  # elsewhere the ratio is 1 by itself, with its derivatives
    z = jnp.where(one, 1.0, z)
    above = jnp.add(z, m)
    ratio = jnp.exp(jnp.subtract(s.lgamma(above), s.lgamma(z)))
    return jnp.where(one, 1.0, jnp.multiply(jnp.multiply(gammasgn(above), gammasgn(z)), ratio))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """How many sets of k things there are among N, or with `repetition` multisets.

    >>> from xpr.scipy import special
    >>> round(float(special.comb(5, 2)), 3)
    10.0
    """
    N, k = _reals("comb", N, k)
    if repetition:
        N = jnp.subtract(jnp.add(N, k), 1)
    inside = jnp.logical_and(jnp.less_equal(k, N), jnp.greater_equal(k, 0))
    rest = jnp.where(inside, jnp.subtract(N, k), 0.0)
    logs = jnp.subtract(s.lgamma(jnp.add(N, 1)), jnp.add(s.lgamma(jnp.add(k, 1)), s.lgamma(jnp.add(rest, 1))))
    return jnp.where(inside, jnp.exp(logs), 0.0)


# -- The error function and the normal distribution


def erf(x: Any) -> Any:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    >>> from xpr.scipy import special
    >>> special.erf(1.0)
    Array(0.8427007, dtype=float32, weak_type=True)
    """
    return s.erf(*_reals("erf", x))


def erfc(x: Any) -> Any:
    """1 - erf(x), exact where that is small.

    >>> from xpr.scipy import special
    >>> special.erfc(1.0)
    Array(0.1572992, dtype=float32, weak_type=True)
    """
    return s.erfc(*_reals("erfc", x))


def erfinv(x: Any) -> Any:
    """The inverse of erf.

    >>> from xpr.scipy import special
    >>> round(float(special.erfinv(0.5)), 4)
    0.4769
    """
    return s.erf_inv(*_reals("erfinv", x))


def ndtr(x: Any) -> Any:
    """The probability of a standard normal number below x.

    >>> from xpr.scipy import special
    >>> special.ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    (x,) = _strong_reals("ndtr", x)
    return jnp.multiply(s.erfc(jnp.multiply(x, -math.sqrt(0.5))), 0.5)


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """log(ndtr(x)), exact far out on both sides.

    Below -10 (f32) or -20 (f64) it is the asymptotic series 26.2.12 of Abramowitz and Stegun, of `series_order` terms
    behind the first; above 5 or 8 it is -ndtr(-x).

    Raises:
      TypeError: half precision, or `series_order` is no integer.
      ValueError: `series_order` is not in 0, ..., 30.

    >>> from xpr.scipy import special
    >>> special.log_ndtr(-20.0)
    Array(-203.91716, dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError(f"log_ndtr: series_order must be an integer, and is {series_order!r}.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr: series_order must be from 0 to 30, and is {series_order}.")
    (x,) = _strong_reals("log_ndtr", x)
    if _dtype(x) not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"log_ndtr: takes f32 or f64, and was given {aval_of(x).str_short()}. Convert it.")
    return _log_ndtr(x, series_order)


def _log_ndtr_of(x: Any, series_order: int) -> Any:
    low, high = (-20.0, 8.0) if _dtype(x) == dtypes.float64 else (-10.0, 5.0)
    middle = jnp.log(ndtr(jnp.clip(x, low, high)))
    far = jnp.minimum(x, low)
    square = jnp.multiply(far, far)
    term = series = jnp.ones_like(far)
    for k in range(series_order):
        term = jnp.divide(jnp.multiply(term, -(2.0 * k + 1)), square)
        series = jnp.add(series, term)
    scale = jnp.add(jnp.log(jnp.negative(far)), 0.5 * math.log(2 * math.pi))
    tail = jnp.add(jnp.subtract(jnp.multiply(square, -0.5), scale), jnp.log(series))
    near_zero = jnp.negative(ndtr(jnp.negative(jnp.maximum(x, high))))
    return jnp.where(jnp.greater(x, high), near_zero, jnp.where(jnp.greater(x, low), middle, tail))


_log_ndtr = custom_jvp(_log_ndtr_of, nondiff_argnums=(1,))


@_log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The density over the probability. Far out on the left it is a continued fraction (DLMF 7.9.1): there the
    logarithm has lost the digits that further derivatives are made of.
    """
    (x,), (t,) = primals, tangents
    out = _log_ndtr(x, series_order)
    bound = -4.0
    far = jnp.less(x, bound)
    near = jnp.where(far, bound, x)
    log_density = jnp.subtract(jnp.multiply(jnp.multiply(near, near), -0.5), 0.5 * math.log(2 * math.pi))
    ratio = jnp.exp(jnp.subtract(log_density, jnp.where(far, 0.0, out)))
    size = jnp.negative(jnp.where(far, x, bound))
    fraction = size
    for k in range(24 if _dtype(x) == dtypes.float64 else 8, 0, -1):
        fraction = jnp.add(size, jnp.divide(float(k), fraction))
    return out, jnp.multiply(t, jnp.where(far, fraction, ratio))


def ndtri(p: Any) -> Any:
    """The inverse of ndtr, by Wichura's rational functions (algorithm AS 241, 1988).

    Raises:
      TypeError: half precision.

    >>> from xpr.scipy import special
    >>> round(float(special.ndtri(0.975)), 4)
    1.96
    """
    (p,) = _reals("ndtri", p)
    if _dtype(p) not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"ndtri: takes f32 or f64, and was given {aval_of(p).str_short()}. Convert it.")
    return _ndtri(p)


_CENTRAL = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(r: Any, pair: tuple[Sequence[float], Sequence[float]]) -> Any:
    top, bottom = (jnp.polyval(np.asarray(c, _dtype(r)), r) for c in pair)
    return jnp.divide(top, bottom)


def _ndtri_of(p: Any) -> Any:
    q = jnp.subtract(p, 0.5)
    is_central = jnp.less_equal(jnp.abs(q), 0.425)
    central = jnp.multiply(q, _ratio(jnp.subtract(0.180625, jnp.multiply(q, q)), _CENTRAL))
    tail = jnp.where(is_central, 0.5, jnp.minimum(p, jnp.subtract(1, p)))
    r = jnp.sqrt(jnp.negative(jnp.log(tail)))
    finite = jnp.where(jnp.isfinite(r), r, 1.0)
    out = jnp.where(
        jnp.less_equal(r, 5), _ratio(jnp.subtract(finite, 1.6), _NEAR), _ratio(jnp.subtract(finite, 5), _FAR)
    )
    out = jnp.where(jnp.equal(tail, 0), math.inf, jnp.where(jnp.less(tail, 0), math.nan, out))
    return jnp.where(is_central, central, jnp.multiply(jnp.sign(q), out))


_ndtri = custom_jvp(_ndtri_of)


@_ndtri.defjvp
def _ndtri_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """One over the density."""
    out = _ndtri(*primals)
    slope = jnp.multiply(jnp.exp(jnp.multiply(jnp.multiply(out, out), 0.5)), math.sqrt(2 * math.pi))
    return out, jnp.multiply(tangents[0], slope)


# -- Softmax


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """exp(x) over its sum along some axes, over all elements where none is said.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.softmax(jnp.zeros((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return normalizing.softmax(x, axis)


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """The logarithm of `softmax`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.log_softmax(jnp.zeros((2, 2)))
    Array([[-1.3862944, -1.3862944],
           [-1.3862944, -1.3862944]], dtype=float32)
    """
    return normalizing.log_softmax(x, axis)


# -- Entropies, and products with logarithms that are 0 where their first factor is


def _times_log(name: str, log: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """x log(y), 0 where x is and y is not nan, with derivatives log(y) and x / y wherever those exist."""

    @custom_jvp
    def product(x: Any, y: Any) -> Any:
        is_zero = jnp.logical_and(jnp.equal(x, 0), jnp.equal(y, y))
        return jnp.where(is_zero, 0.0, jnp.multiply(x, log(jnp.where(is_zero, 1.0, y))))

    @product.defjvp
    def product_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        return product(x, y), jnp.add(jnp.multiply(x_dot, log(y)), jnp.multiply(y_dot, slope(x, y)))

    def function(x: Any, y: Any) -> Any:
        return product(*_one_shape(*promote_inexact(x, y)))

    return function


def _quotient(x: Any, y: Any) -> Any:
    """x / y, and 0 where both are 0: 0 log(y) does not change."""
    corner = jnp.logical_and(jnp.equal(x, 0), jnp.equal(y, 0))
    return jnp.divide(x, jnp.where(corner, 1.0, y))


_xlogy = _times_log("xlogy", jnp.log, _quotient)
_xlog1py = _times_log("xlog1py", jnp.log1p, lambda x, y: _quotient(x, jnp.add(1, y)))


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), 0 where x is 0 and y is a number.

    >>> from xpr.scipy import special
    >>> special.xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(x, y)


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 where x is 0 and y is a number.

    >>> from xpr.scipy import special
    >>> special.xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(x, y)


def entr(x: Any) -> Any:
    """The entropy -x log(x): 0 at 0, and -inf below.

    >>> from xpr.scipy import special
    >>> special.entr(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _entr(*_reals("entr", x))


def _entr_of(x: Any) -> Any:
    inside = jnp.greater(x, 0)
    entropy = jnp.negative(jnp.multiply(x, jnp.log(jnp.where(inside, x, 1.0))))
    return jnp.where(inside, entropy, jnp.where(jnp.equal(x, 0), 0.0, -math.inf))


_entr = custom_jvp(_entr_of)
_entr.defjvps(lambda t, out, x: jnp.multiply(t, jnp.negative(jnp.add(jnp.log(x), 1))))


def rel_entr(p: Any, q: Any) -> Any:
    """The relative entropy p log(p / q): 0 where p is 0 and q isn't negative, inf where it isn't defined.

    >>> from xpr.scipy import special
    >>> special.rel_entr(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = _reals("rel_entr", p, q)
    both = jnp.logical_and(jnp.greater(p, 0), jnp.greater(q, 0))
    is_zero = jnp.logical_and(jnp.equal(p, 0), jnp.greater_equal(q, 0))
    safe_p, safe_q = jnp.where(both, p, 1.0), jnp.where(both, q, 1.0)
    entropy = jnp.subtract(xlogy(safe_p, safe_p), xlogy(safe_p, safe_q))
    return jnp.where(both, entropy, jnp.where(is_zero, 0.0, math.inf))


def kl_div(p: Any, q: Any) -> Any:
    """p log(p / q) - p + q.

    >>> from xpr.scipy import special
    >>> special.kl_div(1.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = _reals("kl_div", p, q)
    return jnp.add(jnp.subtract(rel_entr(p, q), p), q)


# -- Others


def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of expit.

    >>> from xpr.scipy import special
    >>> special.logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*promote_inexact(x))


_logit = custom_jvp(lambda x: jnp.log(jnp.divide(x, jnp.subtract(1, x))))
_logit.defjvps(lambda t, out, x: jnp.divide(t, jnp.multiply(x, jnp.subtract(1, x))))


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> from xpr.scipy import special
    >>> special.expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return e.logistic(x)


def boxcox(x: Any, lmbda: Any) -> Any:
    """The transformation of Box and Cox (1964): (x^lmbda - 1) / lmbda, log(x) where lmbda is 0.

    >>> from xpr.scipy import special
    >>> special.boxcox(3.0, 1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = _reals("boxcox", x, lmbda)
    return _power_transform(jnp.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """boxcox(1 + x, lmbda).

    >>> from xpr.scipy import special
    >>> special.boxcox1p(2.0, 1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = _reals("boxcox1p", x, lmbda)
    return _power_transform(jnp.log1p(x), lmbda)


def _power_transform(log: Any, lmbda: Any) -> Any:
    """expm1(lmbda log) / lmbda, whose limit at lmbda = 0 is the logarithm."""
    finite = jnp.isfinite(log)
    inner, outer = jnp.where(finite, log, 0.0), jnp.where(finite, 0.0, log)
    inside = jnp.multiply(inner, expm1_quotient(jnp.multiply(inner, lmbda)))
    is_zero = jnp.equal(lmbda, 0)
    divisor = jnp.where(is_zero, 1.0, lmbda)
    outside = jnp.where(is_zero, outer, jnp.divide(jnp.expm1(jnp.multiply(divisor, outer)), divisor))
    return jnp.where(finite, inside, outside)


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0.

    >>> from xpr.scipy import special
    >>> special.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bessel_i0(*_reals("i0", x))


def i0e(x: Any) -> Any:
    """exp(-|x|) i0(x).

    >>> from xpr.scipy import special
    >>> special.i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return s.bessel_i0e(*_reals("i0e", x))


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1.

    >>> from xpr.scipy import special
    >>> special.i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = _reals("i1", x)
    return bessel_i0(x, order=1)


def i1e(x: Any) -> Any:
    """exp(-|x|) i1(x).

    >>> from xpr.scipy import special
    >>> special.i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return s.bessel_i1e(*_reals("i1e", x))

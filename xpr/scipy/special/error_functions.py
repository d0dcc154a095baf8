"""The error function, and the normal distribution and its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.core.avals import aval_of
from xpr.primitives import special as s
from xpr.scipy.special.arguments import dtype_of, reals, strong_reals


def erf(x: Any) -> Any:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    >>> from xpr.scipy import special
    >>> special.erf(1.0)
    Array(0.8427007, dtype=float32, weak_type=True)
    """
    return s.erf(*reals("erf", x))


def erfc(x: Any) -> Any:
    """1 - erf(x), exact where that is small.

    >>> from xpr.scipy import special
    >>> special.erfc(1.0)
    Array(0.1572992, dtype=float32, weak_type=True)
    """
    return s.erfc(*reals("erfc", x))


def erfinv(x: Any) -> Any:
    """The inverse of erf.

    >>> from xpr.scipy import special
    >>> round(float(special.erfinv(0.5)), 4)
    0.4769
    """
    return s.erf_inv(*reals("erfinv", x))


def ndtr(x: Any) -> Any:
    """The probability of a standard normal number below x.

    >>> from xpr.scipy import special
    >>> special.ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    (x,) = strong_reals("ndtr", x)
    return jnp.multiply(s.erfc(jnp.multiply(x, -math.sqrt(0.5))), 0.5)


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The logarithm of the standard normal distribution function, exact in both tails.

    Below -10 (f32) or -20 (f64) it is the asymptotic series 26.2.12 of Abramowitz and Stegun, of `series_order` terms
    behind the first; above 5 or 8 it is -ndtr(-x).

    Args:
      x: array of float32 or float64.
      series_order: the number of terms of the asymptotic series.

    Returns:
      Floats of the shape of `x`.

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
    (x,) = strong_reals("log_ndtr", x)
    if dtype_of(x) not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"log_ndtr: takes f32 or f64, and was given {aval_of(x).str_short()}. Convert it.")
    return _log_ndtr(x, series_order)


def _log_ndtr_of(x: Any, series_order: int) -> Any:
    low, high = (-20.0, 8.0) if dtype_of(x) == dtypes.float64 else (-10.0, 5.0)
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
    """The derivative of log_ndtr, density over probability; on the far left a continued fraction (DLMF 7.9.1), as
    the logarithm has lost the digits that further derivatives need there.
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
    for k in range(24 if dtype_of(x) == dtypes.float64 else 8, 0, -1):
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
    (p,) = reals("ndtri", p, argument="p")
    if dtype_of(p) not in (dtypes.float32, dtypes.float64):
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
    top, bottom = (jnp.polyval(np.asarray(c, dtype_of(r)), r) for c in pair)
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
    """The derivative of ndtri, one over the density."""
    out = _ndtri(*primals)
    slope = jnp.multiply(jnp.exp(jnp.multiply(jnp.multiply(out, out), 0.5)), math.sqrt(2 * math.pi))
    return out, jnp.multiply(tangents[0], slope)

"""The Hurwitz zeta function."""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.primitives import special as s
from xpr.scipy.special.arguments import one_shape, reals, slope_in

__all__ = ["zeta"]

_TERMS = 12
# B_2j / (2j)!
_EULER_MACLAURIN = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600]


def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1, ...; elementwise.

    Args:
      x: the exponent, array of real numbers.
      q: the shift, array of real numbers; has to be given.

    Returns:
      Floats of the broadcast shape.

    Raises:
      NotImplementedError: `q` is not given.

    >>> from xpr.scipy import special
    >>> round(float(special.zeta(2.0, 1.0)), 4)
    1.6449
    """
    if q is None:
        raise NotImplementedError("zeta: give q; q=1 is Riemann's zeta function.")
    return _zeta(*reals("zeta", x, q))


@custom_jvp
def _zeta(x: Any, q: Any) -> Any:
    return s.zeta(x, q)


def _slope_in_exponent(t: Any, out: Any, x: Any, q: Any) -> Any:
    """The derivative by the exponent, of Euler and Maclaurin's formula; for exponents above 1 and positive shifts."""
    x, q = one_shape(x, q)
    inside = (x > 1) & (q > 0)
    safe, shift = jnp.where(inside, x, 2.0), jnp.where(inside, q, 1.0)
    return t * jnp.where(inside, slope_in(0, _euler_maclaurin, safe, shift), math.nan)


@compiled
def _euler_maclaurin(x: Any, q: Any) -> Any:
    """DLMF 25.11.5 at n = 12, with the terms of higher derivatives."""
    total = sum((q + k) ** -x for k in range(_TERMS))
    end = q + _TERMS
    power = end**-x
    term, rest = x / end, 0.5 + end / (x - 1)
    for j, coefficient in enumerate(_EULER_MACLAURIN):
        rest = rest + coefficient * term
        term = term * (x + 2 * j + 1) * (x + 2 * j + 2) / end**2
    return total + power * rest


_zeta.defjvps(_slope_in_exponent, lambda t, out, x, q: -t * x * _zeta(x + 1, q))

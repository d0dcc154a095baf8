"""Modified Bessel functions of the first kind, of orders 0 and 1."""

from __future__ import annotations

from typing import Any

from xpr.primitives import special as s
from xpr.primitives.smooth import bessel_i0
from xpr.scipy.special.arguments import reals


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0.

    >>> from xpr.scipy import special
    >>> special.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bessel_i0(*reals("i0", x))


def i0e(x: Any) -> Any:
    """exp(-|x|) i0(x).

    >>> from xpr.scipy import special
    >>> special.i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return s.bessel_i0e(*reals("i0e", x))


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1.

    >>> from xpr.scipy import special
    >>> special.i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = reals("i1", x)
    return bessel_i0(x, order=1)


def i1e(x: Any) -> Any:
    """exp(-|x|) i1(x).

    >>> from xpr.scipy import special
    >>> special.i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return s.bessel_i1e(*reals("i1e", x))

"""Trigonometric and hyperbolic functions, and their inverses; angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.numpy.arithmetic import multiply
from xpr.numpy.promotion import promote_inexact, strong_unless_scalar
from xpr.numpy.ufunc_builders import alias, float_binary, float_unary
from xpr.primitives import elementwise as e
from xpr.primitives.smooth import sine_quotient

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "rad2deg", "radians", "sin", "sinc", "sinh", "tan", "tanh",
]  # fmt: skip

sin = float_unary(
    "sin",
    e.sin_p,
    """The sine of each element, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cos = float_unary(
    "cos",
    e.cos_p,
    """The cosine of each element, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tan = float_unary(
    "tan",
    e.tan_p,
    """The tangent of each element, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
sinh = float_unary(
    "sinh",
    e.sinh_p,
    """The hyperbolic sine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cosh = float_unary(
    "cosh",
    e.cosh_p,
    """The hyperbolic cosine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tanh = float_unary(
    "tanh",
    e.tanh_p,
    """The hyperbolic tangent of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arcsin = float_unary(
    "arcsin",
    e.asin_p,
    """The arc sine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arcsin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arccos = float_unary(
    "arccos",
    e.acos_p,
    """The arc cosine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arccos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arctan = float_unary(
    "arctan",
    e.atan_p,
    """The arc tangent of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arctan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arctan2 = float_binary(
    "arctan2",
    e.atan2_p,
    """The angle of the point (y, x) from the positive x axis, in radians.

    Args:
      x: the ordinates, an array or number.
      y: the abscissas, which broadcast against `x`.

    Returns:
      Angles in radians from -pi to pi, of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.arctan2(0.0, -1.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """,
)
arcsinh = float_unary(
    "arcsinh",
    e.asinh_p,
    """The inverse hyperbolic sine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arcsinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arccosh = float_unary(
    "arccosh",
    e.acosh_p,
    """The inverse hyperbolic cosine of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arccosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arctanh = float_unary(
    "arctanh",
    e.atanh_p,
    """The inverse hyperbolic tangent of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.arctanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
asin = alias(arcsin, "asin")
acos = alias(arccos, "acos")
atan = alias(arctan, "atan")
asinh = alias(arcsinh, "asinh")
acosh = alias(arccosh, "acosh")
atanh = alias(arctanh, "atanh")
atan2 = alias(arctan2, "atan2")


@compiled_eagerly()
def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), and 1 at 0.

    >>> import xpr.numpy as jnp
    >>> jnp.sinc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    x = strong_unless_scalar(x)
    return sine_quotient(e.mul(x, e.scalar(np.pi, x)))


def deg2rad(x: Any, /) -> Any:
    """Degrees as radians.

    >>> import xpr.numpy as jnp
    >>> jnp.deg2rad(180.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return multiply(strong_unless_scalar(x), float(np.pi / 180))


def rad2deg(x: Any, /) -> Any:
    """Radians as degrees.

    >>> import xpr.numpy as jnp
    >>> jnp.rad2deg(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return multiply(strong_unless_scalar(x), float(180 / np.pi))


degrees, radians = alias(rad2deg, "degrees"), alias(deg2rad, "radians")

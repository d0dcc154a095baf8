"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import COMPLEX, INEXACT, finfo, float16, float32, float64
from xpr.primitives import complex_functions
from xpr.primitives.arithmetic import add, div, neg, sub
from xpr.primitives.comparisons import compared
from xpr.primitives.complex_functions import real_or_complex
from xpr.primitives.elementwise_rules import elementwise, function_of, mul, repeated, scalar, unary
from xpr.primitives.powers import rsqrt
from xpr.primitives.vectorized import circular, exponentials, inverse_circular, long_exponentials
from xpr.primitives.vectorized.rule import OnCpu

__all__ = [
    "acos", "acos_p", "acosh", "acosh_p", "asin", "asin_p", "asinh", "asinh_p", "atan", "atan2", "atan2_p", "atan_p",
    "atanh", "atanh_p", "cos", "cos_p", "cosh", "cosh_p", "sin", "sin_p", "sinh", "sinh_p", "tan", "tan_p", "tanh",
    "tanh_p",
]  # fmt: skip

sin_p = unary(
    "sin",
    lowers_to=real_or_complex(circular.lower_sine, complex_functions.sine),
    reference=np.sin,
    derivative=lambda x, y: cos(x),
)
sin = function_of(
    sin_p,
    """The sine of each element, in radians.

    >>> from xpr import lax
    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
cos_p = elementwise(
    "cos",
    over=INEXACT,
    lowers_to=real_or_complex(circular.lower_cosine, complex_functions.cosine),
    reference=np.cos,
    partials=[lambda t, x, y: neg(mul(t, sin(x)))],  # sin(x) is the residual, as in JAX
)
cos = function_of(
    cos_p,
    """The cosine of each element, in radians.

    >>> from xpr import lax
    >>> lax.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
tan_p = unary(
    "tan",
    fusion="expensive",
    lowers_to=real_or_complex(circular.lower_tangent, complex_functions.tangent),
    reference=np.tan,
    derivative=lambda x, y: add(mul(y, y), scalar(1, y)),
)
tan = function_of(
    tan_p,
    """The tangent of each element, in radians.

    >>> from xpr import lax
    >>> lax.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
sinh_p = unary(
    "sinh",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu(
            "sinh", "chlo.sinh", exponentials.hyperbolic_sine, long_exponentials.hyperbolic_sine, has_vector_code=True
        ),
        complex_functions.hyperbolic_sine,
    ),
    reference=np.sinh,
    derivative=lambda x, y: cosh(x),
)
sinh = function_of(
    sinh_p,
    """The hyperbolic sine of each element.

    >>> from xpr import lax
    >>> lax.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cosh_p = unary(
    "cosh",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu(
            "cosh",
            "chlo.cosh",
            exponentials.hyperbolic_cosine,
            long_exponentials.hyperbolic_cosine,
            has_vector_code=True,
        ),
        complex_functions.hyperbolic_cosine,
    ),
    reference=np.cosh,
    derivative=lambda x, y: sinh(x),
)
cosh = function_of(
    cosh_p,
    """The hyperbolic cosine of each element.

    >>> from xpr import lax
    >>> lax.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tanh_p = unary(
    "tanh",
    fusion="vectorized",
    lowers_to=real_or_complex("stablehlo.tanh", complex_functions.hyperbolic_tangent),
    reference=np.tanh,
    derivative=lambda x, y: sub(scalar(1, y), mul(y, y)),
)
tanh = function_of(
    tanh_p,
    """The hyperbolic tangent of each element.

    >>> from xpr import lax
    >>> lax.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)


def _one_minus_square(x: Any) -> Any:
    """(1 - x)(1 + x), which keeps the digits that 1 - x^2 loses near |x| = 1."""
    one = scalar(1, x)
    return mul(sub(one, x), add(one, x))


asin_p = unary(
    "asin",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu("asin", "chlo.asin", inverse_circular.arcsine, inverse_circular.long_arcsine),
        complex_functions.arcsine,
    ),
    reference=np.arcsin,
    derivative=lambda x, y: rsqrt(_one_minus_square(x)),
)
asin = function_of(
    asin_p,
    """The arc sine of each element.

    >>> from xpr import lax
    >>> lax.asin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
acos_p = unary(
    "acos",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu("acos", "chlo.acos", inverse_circular.arccosine, inverse_circular.long_arccosine),
        complex_functions.arccosine,
    ),
    reference=np.arccos,
    derivative=lambda x, y: neg(rsqrt(_one_minus_square(x))),
)
acos = function_of(
    acos_p,
    """The arc cosine of each element.

    >>> from xpr import lax
    >>> lax.acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
atan_p = unary(
    "atan",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu("atan", "chlo.atan", inverse_circular.arctangent, inverse_circular.long_arctangent),
        complex_functions.arctangent,
    ),
    reference=np.arctan,
    derivative=lambda x, y: div(scalar(1, x), add(mul(x, x), scalar(1, x))),
)
atan = function_of(
    atan_p,
    """The arc tangent of each element.

    >>> from xpr import lax
    >>> lax.atan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
asinh_p = unary(
    "asinh",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu(
            "asinh",
            "chlo.asinh",
            exponentials.inverse_hyperbolic_sine,
            long_exponentials.inverse_hyperbolic_sine,
            has_vector_code=True,
        ),
        complex_functions.inverse_hyperbolic_sine,
    ),
    reference=np.arcsinh,
    derivative=lambda x, y: rsqrt(add(mul(x, x), scalar(1, x))),
)
asinh = function_of(
    asinh_p,
    """The inverse hyperbolic sine of each element.

    >>> from xpr import lax
    >>> lax.asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
acosh_p = unary(
    "acosh", fusion="expensive", reference=np.arccosh,
    lowers_to=real_or_complex(OnCpu(
        "acosh", "chlo.acosh", exponentials.inverse_hyperbolic_cosine, long_exponentials.inverse_hyperbolic_cosine,
        has_vector_code=True,
    ), complex_functions.inverse_hyperbolic_cosine),
    derivative=lambda x, y: mul(rsqrt(sub(x, scalar(1, x))), rsqrt(add(x, scalar(1, x)))),
)  # fmt: skip
acosh = function_of(
    acosh_p,
    """The inverse hyperbolic cosine of each element.

    >>> from xpr import lax
    >>> lax.acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
atanh_p = unary(
    "atanh",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu(
            "atanh",
            "chlo.atanh",
            exponentials.inverse_hyperbolic_tangent,
            long_exponentials.inverse_hyperbolic_tangent,
            has_vector_code=True,
        ),
        complex_functions.inverse_hyperbolic_tangent,
    ),
    reference=np.arctanh,
    derivative=lambda x, y: div(scalar(1, x), _one_minus_square(x)),
)
atanh = function_of(
    atanh_p,
    """The inverse hyperbolic tangent of each element.

    >>> from xpr import lax
    >>> lax.atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)


def _atan2_reference(x: Any, y: Any) -> Any:
    """For complex numbers -i log((y + i x) / sqrt(x^2 + y^2))."""
    if np.asarray(x).dtype in COMPLEX:
        return (-1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))).astype(np.asarray(x).dtype)
    return np.arctan2(x, y)


def _atan2_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """XLA:CPU's angle of (0, 0) is nan where the code generator finds out that the operands are 0: there (0, +-1) is
    put for (0, +-0), which has the same angle. Subnormal numbers are zeros to it, but for those of float16, which are
    normal in float32.
    """
    (aval,) = avals
    x, y = repeated(b, operands, aval.shape)
    if b.platform == "cpu" and aval.dtype == float16:
        wide = _atan2_lower(b, [b.convert(v, float32) for v in (x, y)], [aval.update(dtype=float32)])
        return [b.convert(wide[0], float16)]
    if b.platform == "cpu" and aval.dtype not in COMPLEX:
        one = b.constant(1, aval)
        side = b.op("stablehlo.clamp", [b.constant(-1, aval), b.op("stablehlo.divide", [one, y], aval), one], aval)
        least = b.constant(finfo(aval.dtype).tiny, aval)
        sizes = [b.op("stablehlo.abs", [v], aval) for v in (x, y)]
        are_zero = [compared(b, [size, least], "LT") for size in sizes]
        at_origin = b.op("stablehlo.and", are_zero, are_zero[0].aval)
        y = b.op("stablehlo.select", [at_origin, side, y], aval)
    return [b.op("stablehlo.atan2", [x, y], aval)]


atan2_p = elementwise(
    "atan2", fusion="expensive", over=INEXACT, reference=_atan2_reference,
    lowers_to=OnCpu("atan2", _atan2_lower, inverse_circular.angle, inverse_circular.long_angle, in_c={float64}),
    partials=[
        lambda t, x, y, out: mul(t, div(y, add(mul(x, x), mul(y, y)))),
        lambda t, x, y, out: mul(t, div(neg(x), add(mul(x, x), mul(y, y)))),
    ],
)  # fmt: skip
atan2 = function_of(
    atan2_p,
    """The angle of the point (y, x) in the plane, from -pi to pi: the arc tangent of x / y, elementwise.

    Args:
      x: the ordinates, an array of floats.
      y: the abscissas, an array of the same shape and dtype, or a scalar.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.atan2(0.0, -1.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """,
    2,
)

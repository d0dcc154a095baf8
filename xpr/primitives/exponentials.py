"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.primitives import complex_functions
from xpr.primitives.arithmetic import add, div, sub
from xpr.primitives.complex_functions import real_or_complex
from xpr.primitives.elementwise_rules import function_of, mul, scalar, unary
from xpr.primitives.vectorized import exponentials, long_exponentials
from xpr.primitives.vectorized.rule import OnCpu

__all__ = [
    "exp", "exp2", "exp2_p", "exp_p", "expm1", "expm1_p", "log", "log1p", "log1p_p", "log_p", "logistic", "logistic_p",
]  # fmt: skip

exp_p = unary(
    "exp",
    fusion="vectorized",
    lowers_to=real_or_complex("stablehlo.exponential", complex_functions.exponential),
    reference=np.exp,
    derivative=lambda x, y: y,
)
exp = function_of(
    exp_p,
    """The exponential of each element.

    >>> from xpr import lax
    >>> lax.exp(1.0)
    Array(2.7182817, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)


def _exp2_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    (x,), (aval,) = operands, avals
    ln2 = b.constant(np.asarray(math.log(2), aval.dtype)[()], aval)
    return [b.op("stablehlo.exponential", [b.op("stablehlo.multiply", [x, ln2], aval)], aval)]


exp2_p = unary(
    "exp2", fusion="vectorized", reference=np.exp2, derivative=lambda x, y: mul(scalar(math.log(2), x), y),
    lowers_to=_exp2_lower,
)  # fmt: skip
exp2 = function_of(
    exp2_p,
    """2 to the power of each element.

    >>> from xpr import lax
    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)


log_p = unary(
    "log",
    fusion="vectorized",
    lowers_to=real_or_complex(
        OnCpu("log", "stablehlo.log", None, long_exponentials.logarithm), complex_functions.logarithm
    ),
    reference=np.log,
    derivative=lambda x, y: div(scalar(1, x), x),
)
log = function_of(
    log_p,
    """The natural logarithm of each element.

    >>> from xpr import lax
    >>> lax.log(2.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
expm1_p = unary(
    "expm1",
    fusion="expensive",
    lowers_to=real_or_complex(long_exponentials.lower_exponential_minus_one, complex_functions.exponential_minus_one),
    reference=np.expm1,
    derivative=lambda x, y: add(y, scalar(1, y)),
)
expm1 = function_of(
    expm1_p,
    """exp(x) - 1, accurate near 0.

    >>> from xpr import lax
    >>> lax.expm1(1e-6)
    Array(1.0000005e-06, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
log1p_p = unary(
    "log1p",
    fusion="expensive",
    lowers_to=real_or_complex(
        OnCpu(
            "log1p",
            "stablehlo.log_plus_one",
            exponentials.logarithm_plus_one,
            long_exponentials.logarithm_plus_one,
            has_vector_code=True,
        ),
        complex_functions.logarithm_plus_one,
    ),
    reference=np.log1p,
    derivative=lambda x, y: div(scalar(1, x), add(x, scalar(1, x))),
)
log1p = function_of(
    log1p_p,
    """log(1 + x), accurate near 0.

    >>> from xpr import lax
    >>> lax.log1p(1e-6)
    Array(9.999995e-07, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)


def _logistic_reference(x: Any) -> Any:
    x = np.asarray(x)
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


logistic_p = unary(
    "logistic",
    fusion="vectorized",
    lowers_to="stablehlo.logistic",
    reference=_logistic_reference,
    derivative=lambda x, y: mul(y, sub(scalar(1, y), y)),
)
logistic = function_of(
    logistic_p,
    """1 / (1 + exp(-x)).

    >>> from xpr import lax
    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)

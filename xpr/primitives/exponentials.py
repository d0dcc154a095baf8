"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.primitives.arithmetic import add, div, sub
from xpr.primitives.elementwise_rules import function_of, mul, scalar, unary

exp_p = unary(
    "exp", fusion="vectorized", lowers_to="stablehlo.exponential", reference=np.exp, derivative=lambda x, y: y
)
exp = function_of(exp_p, "e to the power of each entry.")


def _exp2_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    (x,), (aval,) = operands, avals
    ln2 = b.constant(np.asarray(math.log(2), aval.dtype)[()], aval)
    return [b.op("stablehlo.exponential", [b.op("stablehlo.multiply", [x, ln2], aval)], aval)]


exp2_p = unary(
    "exp2", fusion="vectorized", reference=np.exp2, derivative=lambda x, y: mul(scalar(math.log(2), x), y),
    lowers_to=_exp2_lower,
)  # fmt: skip
exp2 = function_of(exp2_p, "2 to the power of each entry.")
log_p = unary(
    "log",
    fusion="vectorized",
    lowers_to="stablehlo.log",
    reference=np.log,
    derivative=lambda x, y: div(scalar(1, x), x),
)
log = function_of(log_p, "The natural logarithm of each entry.")
expm1_p = unary(
    "expm1",
    fusion="expensive",
    lowers_to="stablehlo.exponential_minus_one",
    reference=np.expm1,
    derivative=lambda x, y: add(y, scalar(1, y)),
)
expm1 = function_of(expm1_p, "exp(x) - 1, accurate near 0.")
log1p_p = unary(
    "log1p",
    fusion="expensive",
    lowers_to="stablehlo.log_plus_one",
    reference=np.log1p,
    derivative=lambda x, y: div(scalar(1, x), add(x, scalar(1, x))),
)
log1p = function_of(log1p_p, "log(1 + x), accurate near 0.")


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
logistic = function_of(logistic_p, "1 / (1 + exp(-x)).")

"""Complex numbers and their parts; absolute values and signs, also of real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.primitive import is_linear
from xpr.dtypes import COMPLEX, NARROW_INTEGERS, NUMBERS, UNSIGNED
from xpr.primitives.arithmetic import div, neg
from xpr.primitives.comparisons import eq, ge
from xpr.primitives.elementwise_rules import (
    ZERO,
    are_real,
    chain_rule,
    elementwise,
    function_of,
    gathered,
    linear_unary,
    mul,
    scalar,
)
from xpr.primitives.shapes import full
from xpr.primitives.slicing import select

__all__ = ["abs", "abs_p", "complex_p", "conj", "conj_p", "imag", "imag_p", "real", "real_p", "sign", "sign_p"]

# -- Parts

real_p = linear_unary(
    "real", over=COMPLEX, gives=dtypes.real_part_of,
    back=lambda ct, aval: complex_(ct, full(aval_of(ct).shape, 0, aval_of(ct).dtype)),
    lowers_to="stablehlo.real", reference=np.real, exact=True,
)  # fmt: skip
real = function_of(
    real_p,
    """The real part of each element.

    >>> from xpr import lax
    >>> lax.real(1.0 + 2.0j)
    Array(1., dtype=float32, weak_type=True)
    """,
)
imag_p = linear_unary(
    "imag", over=COMPLEX, gives=dtypes.real_part_of,
    back=lambda ct, aval: complex_(full(aval_of(ct).shape, 0, aval_of(ct).dtype), neg(ct)),
    lowers_to="stablehlo.imag", reference=np.imag, exact=True,
)  # fmt: skip
imag = function_of(
    imag_p,
    """The imaginary part of each element.

    >>> from xpr import lax
    >>> lax.imag(1.0 + 2.0j)
    Array(2., dtype=float32, weak_type=True)
    """,
)
conj_p = linear_unary(
    "conj", over=COMPLEX, back=lambda ct, aval: conj(ct), lowers_to="chlo.conj", reference=np.conj, exact=True,
)  # fmt: skip


def conj(x: Any) -> Any:
    """The complex conjugate of each element; of real numbers, the same as complex ones.

    >>> from xpr import lax
    >>> lax.conj(1 + 2j), lax.conj(3.0)
    (Array(1.-2.j, dtype=complex64, weak_type=True), Array(3.+0.j, dtype=complex64, weak_type=True))
    """
    return complex_(x, scalar(0, x)) if aval_of(x).dtype in dtypes.FLOATS else conj_p.bind(x)


def _complex_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [
        gathered(real(ct), x.aval) if is_linear(x) else None,
        gathered(neg(imag(ct)), y.aval) if is_linear(y) else None,
    ]


def _complex_reference(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtypes.complex_of(np.asarray(x).dtype))
    out.real, out.imag = x, y
    return out


complex_p = elementwise(
    "complex", over=frozenset({dtypes.float32, dtypes.float64}), gives=dtypes.complex_of,
    lowers_to="stablehlo.complex", exact=True,
    reference=_complex_reference, transpose=_complex_transpose,
    partials=[
        lambda t, x, y, out: complex_(t, full(aval_of(t).shape, 0, aval_of(t).dtype)),
        lambda t, x, y, out: complex_(full(aval_of(t).shape, 0, aval_of(t).dtype), t),
    ],
)  # fmt: skip
complex_ = function_of(
    complex_p,
    """Complex numbers from their real and imaginary parts.

    Args:
      x: the real parts, an array of float32 or float64.
      y: the imaginary parts, an array of the same shape and dtype, or a scalar.

    Returns:
      Complex numbers of the same shape.

    >>> from xpr import lax
    >>> lax.complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """,
    2,
)

# -- Signs and sizes


def _sign_reference(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype in COMPLEX:
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size)).astype(x.dtype)
    return np.sign(x)


def _sign_partial(t: Any, x: Any, y: Any) -> Any:
    """Zero for real x. For complex x and y = x / |x|, the change of phase, i y Im(conj(y) t) / |x|; zero where y is."""
    size = abs(x)
    safe = select(eq(size, scalar(0, size)), full(aval_of(size).shape, 1, aval_of(size).dtype), size)
    turned = div(imag(mul(conj(y), t)), safe)
    return mul(complex_(full(aval_of(turned).shape, 0, aval_of(turned).dtype), turned), y)


def _sign_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """StableHLO has no sign of unsigned integers: the lesser of x and 1."""
    if avals[0].dtype in UNSIGNED:
        return [b.op("stablehlo.minimum", [operands[0], b.constant(1, avals[0])], avals[0])]
    return [b.op("stablehlo.sign", operands, avals[0])]


sign_p = elementwise("sign", lowers_to=_sign_lower, reference=_sign_reference, exact=False, partials=[ZERO])
_real_sign_jvp, _complex_sign_jvp = sign_p.jvp, chain_rule(sign_p, [_sign_partial])
sign_p.jvp = lambda primals, tangents: (_complex_sign_jvp if aval_of(primals[0]).dtype in COMPLEX else _real_sign_jvp)(
    primals, tangents
)
sign = function_of(
    sign_p,
    """-1, 0 or 1 by the sign of each element; x / |x| for complex elements.

    >>> from xpr import lax
    >>> lax.sign(-3.0)
    Array(-1., dtype=float32, weak_type=True)
    """,
)


def _abs_partial(t: Any, x: Any, y: Any) -> Any:
    if aval_of(x).dtype in COMPLEX:
        return real(mul(t, conj(sign(x))))
    return select(ge(x, scalar(0, x)), t, neg(t))


def _abs_reference(x: Any) -> Any:
    return np.abs(x).astype(dtypes.real_part_of(np.asarray(x).dtype))


def _abs_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    return operands if avals[0].dtype in UNSIGNED else [b.op("stablehlo.abs", operands, avals[0])]


abs_p = elementwise(
    "abs",
    over=NUMBERS - set(NARROW_INTEGERS),  # of which the least has no absolute value in so few bits
    lowers_to=_abs_lower,
    reference=_abs_reference,
    gives=dtypes.real_part_of,
    partials=[_abs_partial],
    exact=are_real,
)
abs = function_of(
    abs_p,
    """The absolute value of each element, real for complex ones; not of integers of fewer than 8 bits.

    >>> from xpr import lax
    >>> lax.abs(-3.0)
    Array(3., dtype=float32, weak_type=True)
    """,
)

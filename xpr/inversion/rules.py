"""Inverse rules of first-order operations, each with the logarithm of its slope, a term of log-determinants.

Even powers and periodic functions give the principal value: the root that is not negative, the angle of arcsine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.custom.custom_vmap import custom_vmap_call_p
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.remat.policies import name_p
from xpr.control.stop_gradient import stop_gradient_p
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Linear, Primitive
from xpr.inversion.solutions import (
    CALLS,
    INVERSES,
    READS,
    TWO_UNKNOWN,
    Answer,
    PartialSolution,
    Solution,
    is_unknown,
    times,
)
from xpr.primitives import dynamic_slices, shapes, slicing
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.elementwise import add, div, log, mul, neg, scalar, sub
from xpr.primitives.gather import gather_scatter
from xpr.primitives.recurrences import linear_recurrence_p, shifted
from xpr.primitives.shapes import broadcast_to, reshape
from xpr.primitives.slicing import slice_in_dim
from xpr.primitives.special import erf, erf_inv, erf_inv_p, erf_p

REPEATS = "It repeats the operand, so not every result has an inverse."


def _plus(x: Any, number: float) -> Any:
    return add(x, scalar(number, x))


def _log_abs(x: Any) -> Any:
    return log(e.abs(x))


# -- Functions of one operand: (inverse of y, logarithm of |dy/dx| given x and y)


def _log_cosh(x: Any) -> Any:
    size = e.abs(x)
    return _plus(add(size, e.log1p(e.exp(times(size, -2)))), -math.log(2))


def _log_one_minus_square(x: Any) -> Any:
    return add(e.log1p(neg(x)), e.log1p(x))


def _logit(y: Any) -> Any:
    return sub(log(y), e.log1p(neg(y)))


UNARY: dict[Primitive, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    e.exp_p: (log, lambda x, y: x),
    e.exp2_p: (
        lambda y: times(log(y), 1 / math.log(2)),
        lambda x, y: _plus(times(x, math.log(2)), math.log(math.log(2))),
    ),
    e.log_p: (e.exp, lambda x, y: neg(y)),
    e.expm1_p: (e.log1p, lambda x, y: x),
    e.log1p_p: (e.expm1, lambda x, y: neg(y)),
    e.tanh_p: (e.atanh, lambda x, y: _log_one_minus_square(y)),
    e.atanh_p: (e.tanh, lambda x, y: neg(_log_one_minus_square(x))),
    e.sinh_p: (e.asinh, lambda x, y: _log_cosh(x)),
    e.asinh_p: (e.sinh, lambda x, y: neg(_log_cosh(y))),
    e.cosh_p: (e.acosh, lambda x, y: _log_abs(e.sinh(x))),
    e.acosh_p: (e.cosh, lambda x, y: neg(_log_abs(e.sinh(y)))),
    e.sin_p: (e.asin, lambda x, y: _log_abs(e.cos(x))),
    e.asin_p: (e.sin, lambda x, y: neg(_log_abs(e.cos(y)))),
    e.cos_p: (e.acos, lambda x, y: _log_abs(e.sin(x))),
    e.acos_p: (e.cos, lambda x, y: neg(_log_abs(e.sin(y)))),
    e.tan_p: (e.atan, lambda x, y: e.log1p(mul(y, y))),
    e.atan_p: (e.tan, lambda x, y: neg(e.log1p(mul(x, x)))),
    e.logistic_p: (_logit, lambda x, y: add(log(y), e.log1p(neg(y)))),
    e.sqrt_p: (e.square, lambda x, y: neg(log(times(y, 2)))),
    e.square_p: (e.sqrt, lambda x, y: _log_abs(times(x, 2))),
    e.rsqrt_p: (lambda y: e.integer_pow(y, -2), lambda x, y: _plus(times(_log_abs(y), 3), -math.log(2))),
    e.cbrt_p: (lambda y: e.integer_pow(y, 3), lambda x, y: neg(_plus(times(_log_abs(y), 2), math.log(3)))),
    erf_p: (erf_inv, lambda x, y: _plus(neg(e.square(x)), math.log(2 / math.sqrt(math.pi)))),
    erf_inv_p: (erf, lambda x, y: _plus(e.square(y), math.log(math.sqrt(math.pi) / 2))),
}


def _inexact(x: Any) -> bool:
    return x.aval.dtype in dtypes.INEXACT


def _unary(inverse: Callable[[Any], Any], log_slope: Callable[[Any, Any], Any]) -> Callable[..., Answer]:
    def rule(results: Sequence[Any], operands: Sequence[Any], log_det: bool) -> Answer:
        if not _inexact(operands[0]):
            return "It has an inverse for floats alone."
        x = inverse(results[0])
        return Solution({0: x}, lambda: log_slope(x, results[0]))

    return rule


def _volume_preserving(inverse: Callable[..., Any]) -> Callable[..., Answer]:
    """The rule of operations that rearrange or shift elements: `inverse(y, aval, **params)`."""
    return lambda results, operands, log_det, **params: Solution({0: inverse(results[0], operands[0].aval, **params)})


def _integer_pow(results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, y: int) -> Answer:
    if not _inexact(operands[0]) or y == 0:
        return f"The power {y} of {operands[0].aval.str_short()} has no inverse."
    out = results[0]
    size = e.pow(e.abs(out), scalar(1 / y, out))
    x = mul(e.sign(out), size) if y % 2 else size
    return Solution({0: x}, lambda: _plus(times(_log_abs(x), y - 1), math.log(abs(y))))


# -- Functions of two operands, one of which is known


class _Side:
    """The inverse for one operand: from the result and the other operand, with the logarithm of the slope.

    `log_slope(x, y, other)` is None where it is zero.
    """

    __slots__ = ("inverse", "log_slope")

    def __init__(self, inverse: Callable[[Any, Any], Any], log_slope: Callable[[Any, Any, Any], Any] | None = None):
        self.inverse, self.log_slope = inverse, log_slope


class _Twice:
    """The inverse where both operands are the same variable: from the result alone."""

    __slots__ = ("inverse", "log_slope")

    def __init__(self, inverse: Callable[[Any], Any], log_slope: Callable[[Any, Any], Any]):
        self.inverse, self.log_slope = inverse, log_slope


def _broadcast_to_result(x: Any, y: Any) -> Any:
    return broadcast_to(x, aval_of(y).shape)


def _binary(left: _Side, right: _Side, twice: _Twice | None = None, integers: bool = False) -> Callable[..., Answer]:
    def rule(results: Sequence[Any], operands: Sequence[Any], log_det: bool) -> Answer:
        (y,), (a, b) = results, operands
        unknown = a if is_unknown(a) else b
        if not integers and not _inexact(unknown):
            return "It has an inverse for floats alone."
        if a is b and twice is not None:
            x = twice.inverse(y)
            return Solution({0: x}, lambda: twice.log_slope(x, y))
        if is_unknown(a) and is_unknown(b):
            return TWO_UNKNOWN
        if unknown.aval.shape != aval_of(y).shape:
            return REPEATS
        position = 0 if unknown is a else 1
        side, other = (left, b) if position == 0 else (right, a)
        x = side.inverse(y, other)
        log_slope = side.log_slope
        if log_slope is None:
            return Solution({position: x})
        return Solution({position: x}, lambda: _broadcast_to_result(log_slope(x, y, other), y))

    return rule


_add = _binary(
    _Side(lambda y, b: sub(y, b)),
    _Side(lambda y, a: sub(y, a)),
    _Twice(lambda y: times(y, 0.5), lambda x, y: _broadcast_to_result(scalar(math.log(2), y), y)),
    integers=True,
)
_sub = _binary(_Side(lambda y, b: add(y, b)), _Side(lambda y, a: sub(a, y)), integers=True)
_mul = _binary(
    _Side(lambda y, b: div(y, b), lambda x, y, b: _log_abs(b)),
    _Side(lambda y, a: div(y, a), lambda x, y, a: _log_abs(a)),
    _Twice(e.sqrt, lambda x, y: _log_abs(times(x, 2))),
)
_div = _binary(
    _Side(lambda y, b: mul(y, b), lambda x, y, b: neg(_log_abs(b))),
    _Side(lambda y, a: div(a, y), lambda x, y, a: sub(_log_abs(a), times(_log_abs(x), 2))),
)
_pow = _binary(
    _Side(
        lambda y, c: e.pow(y, div(scalar(1, c), c)),
        lambda x, y, c: add(_log_abs(c), mul(_plus(c, -1), log(x))),
    ),
    _Side(lambda y, a: div(log(y), log(a)), lambda x, y, a: add(log(y), _log_abs(log(a)))),
)
_xor = _binary(_Side(e.bitwise_xor), _Side(e.bitwise_xor), integers=True)


# -- Rearranging elements


def _broadcast(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Answer:
    aval = operands[0].aval
    return Solution({0: reshape(results[0], aval.shape)}) if aval.size == aval_of(results[0]).size else REPEATS


def _concatenate(results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, dimension: int) -> Answer:
    """Splits the result into its parts."""
    solved, start = {}, 0
    for i, x in enumerate(operands):
        stop = start + aval_of(x).shape[dimension]
        if is_unknown(x):
            solved[i] = slice_in_dim(results[0], start, stop, axis=dimension)
        start = stop
    return Solution(solved)


def _reads(primitive: Primitive) -> Callable[..., np.ndarray | str]:
    """The flat indices of the elements of its first operand that an operation reads."""

    def indices(operands: Sequence[Any], **params: Any) -> np.ndarray | str:
        first, *others = operands
        if not is_unknown(first) or any(map(is_unknown, others)):
            return "The indices that it reads depend on what is not known."
        if any(isinstance(x, Tracer) for x in others):
            return "The indices that it reads are traced, and have to be known."
        numbers = np.arange(first.aval.size, dtype=np.int32).reshape(first.aval.shape)
        (read,) = primitive.reference([numbers, *map(np.asarray, others)], **params)
        return np.asarray(read) if (np.asarray(read) >= 0).all() else "It reads an element that is not there."

    return indices


def _part_by(primitive: Primitive) -> Callable[..., Answer]:
    """The rule of operations that read elements of their first operand, at known indices."""

    def rule(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Answer:
        first, *others = operands
        if is_unknown(first) and not any(map(is_unknown, others)) and any(isinstance(x, Tracer) for x in others):
            if params.get("unique_indices") and aval_of(results[0]).size == first.aval.size:  # each is read once
                return Solution({0: primitive.transpose(results, [Linear(first.aval), *others], **params)[0]})
        indices = READS[primitive](operands, **params)
        if isinstance(indices, str):
            return indices
        return PartialSolution(indices) if np.unique(indices).size == indices.size else "It reads an element twice."

    return rule


# -- Recurrences along an axis


def _cumsum(results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, axis: int, reverse: bool) -> Answer:
    y = results[0]
    return Solution({0: sub(y, shifted(y, 0, axis, reverse))})


def _cumprod(results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, axis: int, reverse: bool) -> Answer:
    y = results[0]
    before = shifted(y, 1, axis, reverse)
    return Solution({0: div(y, before)}, lambda: _log_abs(before))


def _recurrence(results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, axis: int, reverse: bool) -> Answer:
    """h[k] = a[k] h[k-1] + b[k], for b."""
    if is_unknown(operands[0]):
        return TWO_UNKNOWN if is_unknown(operands[1]) else "Its first factor has no effect."
    h = results[0]
    return Solution({1: sub(h, mul(operands[0], shifted(h, 0, axis, reverse)))})


def _select(results: Sequence[Any], operands: Sequence[Any], log_det: bool) -> Answer:
    """A choice whose predicate is known is left to cases.py."""
    return "Which of its cases was selected is not known."


def _converted(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Answer:
    aval, y = operands[0].aval, results[0]
    if aval.dtype not in dtypes.FLOATS or aval_of(y).dtype not in dtypes.FLOATS:
        return f"It converts {aval.str_short()} to {aval_of(y).str_short()}, which loses information."
    return Solution({0: e.convert_element_type(y, aval.dtype, aval.weak_type)})


def _complex(results: Sequence[Any], operands: Sequence[Any], log_det: bool) -> Answer:
    parts = (e.real(results[0]), e.imag(results[0]))
    if any(x.aval.shape != aval_of(results[0]).shape for x in operands if is_unknown(x)):
        return REPEATS
    return Solution({i: part for i, part in enumerate(parts) if is_unknown(operands[i])})


INVERSES.update({primitive: _unary(*pair) for primitive, pair in UNARY.items()})
INVERSES.update(
    {
        e.add_p: _add, e.add_any_p: _add, e.sub_p: _sub, e.mul_p: _mul, e.div_p: _div, e.pow_p: _pow, e.xor_p: _xor,
        e.integer_pow_p: _integer_pow, e.convert_element_type_p: _converted, e.complex_p: _complex,
        e.neg_p: _volume_preserving(lambda y, aval: neg(y)),
        e.not_p: _volume_preserving(lambda y, aval: e.bitwise_not(y)),
        e.conj_p: _volume_preserving(lambda y, aval: e.conj(y)),
        e.copy_p: _volume_preserving(lambda y, aval: y),
        name_p: _volume_preserving(lambda y, aval, **params: y),
        stop_gradient_p: _volume_preserving(lambda y, aval: y),
        shapes.reshape_p: _volume_preserving(lambda y, aval, **params: reshape(y, aval.shape)),
        shapes.squeeze_p: _volume_preserving(lambda y, aval, **params: reshape(y, aval.shape)),
        shapes.rev_p: _volume_preserving(lambda y, aval, *, dimensions: shapes.rev(y, dimensions)),
        shapes.transpose_p: _volume_preserving(
            lambda y, aval, *, permutation: shapes.transpose(y, np.argsort(permutation).tolist())
        ),
        slicing.select_n_p: _select,
        shapes.broadcast_in_dim_p: _broadcast, slicing.concatenate_p: _concatenate,
        cumsum_p: _cumsum, cumprod_p: _cumprod, linear_recurrence_p: _recurrence,
    }
)  # fmt: skip
for _picker in (slicing.slice_p, gather_scatter.gather_p, dynamic_slices.dynamic_slice_p):
    INVERSES[_picker], READS[_picker] = _part_by(_picker), _reads(_picker)
CALLS.update(
    {
        p: lambda params: params["call_jaxpr"]
        for p in (xla_call_p, custom_jvp_call_p, custom_vjp_call_p, custom_vmap_call_p)
    }
)
CALLS[checkpoint_p] = lambda params: params["jaxpr"]

"""Taylor series of operations: rules for linear operations and those with recurrences, others by their jvp rules.

A rule takes `(primitive, values, rows, params)`. The rows of an operand are its coefficients of t, t^2, ..., None for
those known to be zero; they are None for an operand that does not vary. A rule returns the results and their rows.

Operations without a rule here go by their derivative (`TaylorTrace.by_derivative`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.control.activity import is_active
from xpr.control.groups import mask, split_list, unmask
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.dtypes import FLOATS, INEXACT
from xpr.primitives import cumulative, dynamic_slices, reductions, shapes, slicing
from xpr.primitives import elementwise as e
from xpr.primitives.barrier import optimization_barrier_p
from xpr.primitives.dot import dot_general_p
from xpr.primitives.fft import fft_p
from xpr.primitives.gather import gather_scatter, scatter
from xpr.primitives.shapes import broadcast_to, expand_dims, mapped_to, squeeze
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.primitives.smooth import bessel_i0_p, expm1_quotient_p, sine_quotient_p
from xpr.primitives.sorting import order_statistics_p, sort_p
from xpr.primitives.special import erf_p, erfc_p
from xpr.primitives.windows import window_reductions
from xpr.primitives.windows.convolution import conv_general_dilated_p
from xpr.series import power_series as s
from xpr.transforms.batch import batch_flat
from xpr.transforms.jvp import with_zeros

Rows = list[Any]
OperandRows = Sequence[Rows | None]  # for each operand
Result = tuple[list[Any], list[Rows | None]]


def unstack(array: Any) -> Rows:
    """The rows of an array."""
    return [squeeze(slice_in_dim(array, i, i + 1), (0,)) for i in range(aval_of(array).shape[0])]


def stack(rows: Sequence[Any]) -> Any:
    """An array of rows."""
    return concatenate([expand_dims(x, (0,)) for x in rows], 0)


def _order(rows: OperandRows) -> int:
    return next(len(r) for r in rows if r is not None)


# -- Linear in the varying operands, or piecewise so


def each_by_itself(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    """For operations linear in their first operand, if no other one varies: the same on every coefficient.

    A float that is converted to an integer is piecewise constant.
    """
    first, *others = values
    if rows[0] is None or any(r is not None for r in rows[1:]):
        return by_jvp(primitive, values, rows, params)
    out = primitive.bind(first, *others, **params)
    if aval_of(out).dtype not in INEXACT:
        return [out], [None]
    return [out], [[None if c is None else primitive.bind(c, *others, **params) for c in rows[0]]]


def by_jvp(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    """The jvp rule, mapped over the coefficients that are not zero for all operands; the values are computed once."""
    order = _order(rows)
    nonzero = [m for m in range(order) if any(r is not None and r[m] is not None for r in rows)]
    stacks = [
        None if r is None else stack([s.zeros(x) if r[m] is None else r[m] for m in nonzero])
        for x, r in zip(values, rows)
    ]
    outs, varying, tangents = mapped_jvp(primitive, values, stacks, len(nonzero), params)
    listed: list[Rows | None] = []
    for flag, array in zip(varying, tangents):
        by_order = dict(zip(nonzero, unstack(array))) if flag else {}
        listed.append([by_order.get(m) for m in range(order)] if flag else None)
    return outs, listed


def mapped_jvp(
    primitive: Primitive, values: Sequence[Any], stacks: Sequence[Any], count: int, params: dict[str, Any]
) -> tuple[list[Any], list[bool], list[Any]]:
    """The jvp rule for `count` tangents at once: the results, which of them vary, and their tangents.

    Args:
      stacks: for each operand its tangents along a first axis, None where it does not vary.
    """
    active = [c is not None for c in stacks]
    varying: list[bool] = []

    def pushforward(*tangents: Any) -> list[Any]:
        all_tangents = with_zeros(tangents, active, [aval_of(x) for x in values])
        outs, out_tangents = primitive.jvp(values, all_tangents, **params)
        varying[:] = is_active(out_tangents)
        return [*outs, *mask(out_tangents, varying)]

    arrays = mask(stacks, active)
    pairs = list(zip(*batch_flat(pushforward, count, arrays, [0] * len(arrays))))
    of_values, of_tangents = split_list(pairs, len(varying))
    outs = [x if d is None else unstack(mapped_to(x, d, count))[0] for x, d in of_values]
    return outs, varying, unmask((mapped_to(x, d, count) for x, d in of_tangents), varying)


# -- Elementwise


def _broadcast_series(values: Sequence[Any], rows: OperandRows, shape: tuple[int, ...]) -> list[s.Series]:
    """The series of varying operands, values included, all of one shape."""

    def of_shape(x: Any) -> Any:
        return None if x is None else broadcast_to(x, shape)

    return [list(map(of_shape, [x, *r])) for x, r in zip(values, rows) if r is not None]


def _function(recurrence: Callable[[s.Series, Any], s.Series]) -> Callable[..., Result]:
    """The rule of a function of one operand that has a recurrence."""

    def rule(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
        y = primitive.bind(*values, **params)
        (u,) = _broadcast_series(values, rows, aval_of(y).shape)
        y, *coefficients = recurrence(u, y)
        return [y], [coefficients]

    return rule


def _add(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    y = primitive.bind(*values)
    series = _broadcast_series(values, rows, aval_of(y).shape)
    return [y], [[s.total(terms) for terms in zip(*series)][1:]] if len(series) == 2 else [series[0][1:]]


def _sub(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    y = primitive.bind(*values)
    series = _broadcast_series(values, rows, aval_of(y).shape)
    if len(series) == 2:
        return [y], [[s.sub(a, b) for a, b in zip(*series)][1:]]
    return [y], [series[0][1:] if rows[1] is None else s.negated(series[0][1:])]


def _mul(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    y = primitive.bind(*values)
    series = _broadcast_series(values, rows, aval_of(y).shape)
    if len(series) == 2:
        x, w = series
        return [y], [[s.convolved(x, w, m) for m in range(1, len(x))]]
    other = values[0] if rows[0] is None else values[1]
    return [y], [[s.mul(c, other) for c in series[0][1:]]]


def _div(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    y = primitive.bind(*values)
    series = _broadcast_series(values, rows, aval_of(y).shape)
    if rows[1] is None:
        return [y], [[s.div(c, values[1]) for c in series[0][1:]]]
    x = series[0] if len(series) == 2 else [y, *[None] * _order(rows)]
    return [y], [s.quotient(x, series[-1], y)[1:]]


def _pow(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    """The recurrence of powers where the exponent is constant, else exp(exponent log(base)).

    A constant base of 0 has the logarithm 0, as in the jvp rule: 0^y does not change where y is positive.
    """
    y = primitive.bind(*values)
    series = _broadcast_series(values, rows, aval_of(y).shape)
    if rows[1] is None:
        exponent = values[1]
        if isinstance(exponent, (float, np.floating)) and not float(exponent).is_integer() and exponent < _order(rows):
            return [y], [s.power(series[0], y, float(exponent))[1:]]
        return [y], [_to_the(values[1], series[0], y)[1:]]
    base = values[0]
    if rows[0] is None:
        base = _select(e.eq(base, e.scalar(0, base)), e.scalar(1, base), base)
    logarithm = e.log(base)
    if len(series) == 1:
        inner = [s.mul(c, logarithm) for c in series[0]]
    else:
        inner = s.product(series[1], s.log(series[0], logarithm))
    y, *coefficients = s.exp(inner, y)
    return [y], [coefficients]


def _to_the(exponent: Any, u: s.Series, y: Any) -> s.Series:
    """`series.power` with an array as the exponent, which divides by the base; where that is 0, `_to_the_of_zero`."""
    order = len(u) - 1
    smooth = functools.reduce(e.bitwise_or, (e.eq(exponent, e.scalar(n, exponent)) for n in range(order + 1)))
    if aval_of(exponent).dtype in FLOATS:
        smooth = e.bitwise_or(smooth, e.gt(exponent, e.scalar(order, exponent)))
    corner = e.bitwise_and(e.eq(u[0], e.scalar(0, u[0])), smooth)
    safe = _select(corner, e.scalar(1, u[0]), u[0])
    out = [y]
    for m in range(1, order + 1):
        terms = []
        for j in range(1, m + 1):
            weight = e.sub(s.times(exponent, j / m), e.scalar((m - j) / m, exponent))
            terms.append(s.mul(s.mul(u[j], out[m - j]), weight))
        out.append(s.div(s.total(terms), safe))
    others = _to_the_of_zero(exponent, u, order)
    return [y, *(_chosen(corner, a, b) for a, b in zip(others, out[1:]))]


def _to_the_of_zero(exponent: Any, u: s.Series, order: int) -> Rows:
    """The coefficients of u^n where u starts with 0 and n is whole: those of u, u^2, ... up to the order."""
    total: Rows = [None] * order
    power = u = [None, *u[1:]]
    for n in range(1, order + 1):
        is_n = e.eq(exponent, e.scalar(n, exponent))
        for m in range(n, order + 1):
            if power[m] is not None:
                total[m - 1] = s.add(total[m - 1], _select(is_n, power[m], e.scalar(0, power[m])))
        power = s.product(power, u)
    return total


def _chosen(condition: Any, on_true: Any, on_false: Any) -> Any:
    if on_false is None:
        return None  # nothing of this order varies, wherever the base is
    return _select(condition, s.zeros(on_false) if on_true is None else on_true, on_false)


def _select(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`select` of operands that broadcast."""
    shape = np.broadcast_shapes(*[aval_of(x).shape for x in (condition, on_true, on_false)])
    return slicing.select(*[broadcast_to(x, shape) for x in (condition, on_true, on_false)])


def _integer_pow(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    y = primitive.bind(*values, **params)
    if not params["y"]:
        return [y], [None]
    (u,) = _broadcast_series(values, rows, aval_of(y).shape)
    return [y], [s.integer_power(u, params["y"])[1:]]


def _by_orders(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    """For a function with derivatives by its parameter `order`: its Taylor polynomial at u + w, w(0) = 0."""
    (x,), order = values, params["order"]
    y = primitive.bind(x, **params)
    change = [None, *(rows[0] or [])]
    series: s.Series = [None] * len(change)
    for k in range(len(change) - 1, 0, -1):
        series[0] = s.times(primitive.bind(x, order=order + k), 1 / math.factorial(k))
        series = s.product(series, change)
    return [y], [series[1:]]


# -- Products of matrices, and convolutions


def _bilinear(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    both = [[x, *r] for x, r in zip(values, rows) if r is not None]
    if len(both) == 2:

        def by(a: Any, b: Any) -> Any:
            return None if a is None or b is None else primitive.bind(a, b, **params)

        products = s.product(both[0], both[1], by)
        return [products[0]], [products[1:]]
    varying = next(i for i, r in enumerate(rows) if r is not None)
    (series,) = both
    nonzero = [m for m, c in enumerate(series) if c is not None]
    if _is_small(values[varying], values[1 - varying]):
        products_of = dict(zip(nonzero, _batched(primitive, values, varying, [series[m] for m in nonzero], params)))
    else:
        other = values[1 - varying]
        products_of = {m: primitive.bind(*([series[m], other][:: 1 - 2 * varying]), **params) for m in nonzero}
    return [products_of[0]], [[products_of.get(m) for m in range(1, len(series))]]


def _is_small(x: Any, other: Any) -> bool:
    """Whether products with all coefficients at once pay: a matrix is then read once for all of them."""
    return aval_of(x).size < aval_of(other).size


def _batched(
    primitive: Primitive, values: Sequence[Any], varying: int, coefficients: Rows, params: dict[str, Any]
) -> Rows:
    """One application to all coefficients of its one varying operand."""
    operands: list[Any] = list(values)
    dims: list[int | None] = [None] * len(values)
    operands[varying], dims[varying] = stack(coefficients), 0
    (out,), (dim,) = primitive.batch(len(coefficients), operands, dims, **params)
    return unstack(mapped_to(out, dim, len(coefficients)))


RULES: dict[Primitive, Callable[..., Result]] = {
    e.add_p: _add,
    e.add_any_p: _add,
    e.sub_p: _sub,
    e.mul_p: _mul,
    e.div_p: _div,
    e.pow_p: _pow,
    e.integer_pow_p: _integer_pow,
    e.square_p: _function(lambda u, y: [y, *(s.coefficient_of_square(u, m) for m in range(1, len(u)))]),
    e.exp_p: _function(s.exp),
    e.exp2_p: _function(s.exp2),
    e.expm1_p: _function(s.expm1),
    e.log_p: _function(s.log),
    e.log1p_p: _function(s.log1p),
    e.logistic_p: _function(s.logistic),
    e.sqrt_p: _function(s.sqrt),
    e.rsqrt_p: _function(s.rsqrt),
    e.cbrt_p: _function(s.cbrt),
    e.sin_p: _function(s.sin),
    e.cos_p: _function(s.cos),
    e.tan_p: _function(s.tan),
    e.sinh_p: _function(s.sinh),
    e.cosh_p: _function(s.cosh),
    e.tanh_p: _function(s.tanh),
    e.asin_p: _function(s.asin),
    e.acos_p: _function(s.acos),
    e.atan_p: _function(s.atan),
    e.asinh_p: _function(s.asinh),
    e.acosh_p: _function(s.acosh),
    e.atanh_p: _function(s.atanh),
    erf_p: _function(s.erf),
    erfc_p: _function(s.erfc),
    sine_quotient_p: _by_orders,
    expm1_quotient_p: _by_orders,
    bessel_i0_p: _by_orders,
    dot_general_p: _bilinear,
    conv_general_dilated_p: _bilinear,
}

RULES.update(
    dict.fromkeys(
        [
            shapes.broadcast_in_dim_p, shapes.reshape_p, shapes.squeeze_p, shapes.transpose_p, shapes.rev_p,
            shapes.reduce_sum_p, slicing.slice_p, e.neg_p, e.real_p, e.imag_p, e.conj_p, e.convert_element_type_p,
            e.reduce_precision_p, e.copy_p, cumulative.cumsum_p, window_reductions.reduce_window_sum_p,
            dynamic_slices.dynamic_slice_p, fft_p,
        ],
        each_by_itself,
    )
)  # fmt: skip

RULES.update(
    dict.fromkeys(
        [
            slicing.select_n_p, slicing.pad_p, slicing.concatenate_p, e.max_p, e.min_p, e.rem_p, e.complex_p,
            e.clamp_p, cumulative.cummax_p, cumulative.cummin_p, reductions.reduce_max_p,
            reductions.reduce_max_of_numbers_p, reductions.reduce_min_p, gather_scatter.gather_p,
            gather_scatter.scatter_add_p, gather_scatter.scatter_sub_p, scatter.scatter_p, scatter.scatter_min_p,
            scatter.scatter_max_p, dynamic_slices.dynamic_update_slice_p, sort_p, order_statistics_p,
            window_reductions.reduce_window_max_p, window_reductions.reduce_window_min_p, optimization_barrier_p,
        ],
        by_jvp,
    )
)  # fmt: skip

_ONE_OPERATION_A_COEFFICIENT = (_add, _sub, each_by_itself, by_jvp)
WORTH_COMPILING = frozenset(p for p, rule in RULES.items() if rule not in _ONE_OPERATION_A_COEFFICIENT)

"""The scatters that are not linear in operand and updates together: set, multiply, minimum, maximum.

Where windows overlap, setting leaves the value of one of them (the last, on CPU), and the cotangent goes to that one:
the winner is found by scattering the windows' numbers. Products of the other factors come from division, with zeros
counted separately. Equal candidates for a minimum or maximum share its tangent equally.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import Zero, aval_of
from xpr.core.primitive import Unsupported, is_linear
from xpr.primitives.elementwise import add, convert_element_type, div, eq, mul, scalar
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.gather.gather_scatter import ARGUMENTS, read_back, scatter_add_p, scatter_function, scattering
from xpr.primitives.gather.windows import ScatterDimensionNumbers
from xpr.primitives.shapes import broadcast_in_dim, full, instantiate, reshape, zeros_like_aval
from xpr.primitives.slicing import broadcasted_iota, select

__all__ = [
    "scatter", "scatter_max", "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p",
    "scatter_p",
]  # fmt: skip


def _zeros_like(x: Any) -> Any:
    return zeros_like_aval(aval_of(x))


def _chosen(condition: Any, x: Any) -> Any:
    """`x` where the condition holds, zero elsewhere."""
    return select(condition, x, _zeros_like(x))


def _no_tangent(out: Any) -> Any:
    return [out], [Zero.from_primal_value(out)]


# -- scatter: sets


def _scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = scatter_p.bind(*primals, **params)
    operand_dot, _, updates_dot = tangents
    if type(operand_dot) is Zero and type(updates_dot) is Zero:
        return _no_tangent(out)
    return [out], [scatter_p.bind(instantiate(operand_dot), primals[1], instantiate(updates_dot), **params)]


def _winners(
    operand: Any, indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, **params: Any
) -> Any:
    """For each element of the updates, whether it is the one that was written last at its position."""
    shape = aval_of(updates).shape
    across = [d for d in range(len(shape)) if d not in dimension_numbers.update_window_dims]
    count = math.prod(shape[d] for d in across)
    numbers = add(broadcasted_iota(np.int32, (count,), 0), np.int32(1))
    numbers = broadcast_in_dim(reshape(numbers, [shape[d] for d in across]), shape, across)
    nowhere = full(aval_of(operand).shape, 0, np.int32)
    written = scatter_p.bind(nowhere, indices, numbers, dimension_numbers=dimension_numbers, **params)
    return eq(read_back(written, indices, numbers, dimension_numbers, **params), numbers)


def _scatter_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (ct,), (operand, indices, updates) = cts, operands
    to_operand = to_updates = None
    if is_linear(operand):
        to_operand = scatter_p.bind(ct, indices, zeros_like_aval(aval_of(updates)), **params)
    if is_linear(updates):
        to_updates = read_back(ct, indices, updates, **params)
        if not params["unique_indices"]:
            to_updates = _chosen(_winners(operand, indices, updates, **params), to_updates)
    return [to_operand, None, to_updates]


scatter_p = scattering("scatter", None, None, _scatter_jvp, _scatter_transpose, over=dtypes.ANY, physical="moved")
scatter = scatter_function(
    scatter_p,
    f"""Sets windows of an array; where several overlap, one of their values remains.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> rows = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter(jnp.zeros((2, 2)), jnp.array([[1]]), jnp.ones((1, 2)), rows)
    Array([[0., 0.],
           [1., 1.]], dtype=float32)
    """,
)

# -- scatter_mul


def _scatter_mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = scatter_mul_p.bind(*primals, **params)
    operand, indices, updates = primals
    operand_dot, _, updates_dot = tangents
    total = None
    if type(operand_dot) is not Zero:
        total = scatter_mul_p.bind(operand_dot, indices, updates, **params)
    if type(updates_dot) is not Zero:
        term = mul(_other_factors(operand, indices, updates, **params), updates_dot)
        base = total if total is not None else zeros_like_aval(aval_of(out).to_tangent_aval())
        total = scatter_add_p.bind(base, indices, term, **params)
    return _no_tangent(out) if total is None else ([out], [total])


def _other_factors(operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """For each element of the updates, the product of all other factors at its position.

    It is the product of everything, with zeros left out, divided by the element; and it is zero where another element
    is. So it is right everywhere, and its own derivative where no element is zero.
    """
    if params["unique_indices"]:
        return read_back(operand, indices, updates, **params)
    is_zero = eq(updates, scalar(0, updates))
    factors = select(is_zero, full(aval_of(updates).shape, 1, aval_of(updates).dtype), updates)
    product = read_back(scatter_mul_p.bind(operand, indices, factors, **params), indices, updates, **params)
    one_each = convert_element_type(is_zero, np.int32)
    nothing = full(aval_of(operand).shape, 0, np.int32)
    zeros = read_back(scatter_add_p.bind(nothing, indices, one_each, **params), indices, updates, **params)
    others = eq(zeros, one_each)  # no zero but perhaps the element itself
    return _chosen(others, div(product, factors))


def _scatter_mul_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (ct,), (operand, indices, updates) = cts, operands
    if is_linear(operand) and not is_linear(updates):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    if is_linear(operand) or not params["unique_indices"]:
        return _IN_UPDATES(cts, operands)
    return [None, None, read_back(mul(ct, operand), indices, updates, **params)]


_IN_UPDATES = Unsupported(
    "It is linear in the operand, and in the updates only where windows don't overlap: pass unique_indices=True then."
).of("scatter-mul", "transpose")

scatter_mul_p = scattering("scatter-mul", "stablehlo.multiply", np.multiply, _scatter_mul_jvp, _scatter_mul_transpose)
scatter_mul = scatter_function(
    scatter_mul_p,
    f"""Multiplies windows of an array by updates; where several windows overlap, by all of them.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> dnums = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_mul(jnp.ones(3), jnp.array([[1], [1], [7]]), jnp.array([2.0, 3.0, 5.0]), dnums)
    Array([1., 6., 1.], dtype=float32)
    """,
)

# -- scatter_min, scatter_max


def _extremal_jvp(find: Callable[[], Any]) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = find().bind(*primals, **params)
        operand, indices, updates = primals
        operand_dot, _, updates_dot = tangents
        if type(operand_dot) is Zero and type(updates_dot) is Zero:
            return _no_tangent(out)
        operand_hits = eq(operand, out)
        updates_hit = eq(updates, read_back(out, indices, updates, **params))
        dtype = aval_of(out).dtype
        ties = scatter_add_p.bind(
            convert_element_type(operand_hits, dtype), indices, convert_element_type(updates_hit, dtype), **params
        )
        total = _zeros_like(out) if type(operand_dot) is Zero else _chosen(operand_hits, operand_dot)
        if type(updates_dot) is not Zero:
            total = scatter_add_p.bind(total, indices, _chosen(updates_hit, updates_dot), **params)
        return [out], [div(total, maximum(ties, scalar(1, ties)))]  # no candidate equals a nan

    return jvp


_EXTREMAL = Unsupported("It is not linear, so a linearized program never holds it on a tangent.")

scatter_min_p = scattering(
    "scatter-min", "stablehlo.minimum", np.minimum, _extremal_jvp(lambda: scatter_min_p), _EXTREMAL, over=dtypes.ANY
)
scatter_min = scatter_function(
    scatter_min_p,
    f"""Takes the minimum of windows of an array and updates.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> dnums = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_min(jnp.zeros(3), jnp.array([[1], [1]]), jnp.array([-2.0, 3.0]), dnums)
    Array([ 0., -2.,  0.], dtype=float32)
    """,
)

scatter_max_p = scattering(
    "scatter-max", "stablehlo.maximum", np.maximum, _extremal_jvp(lambda: scatter_max_p), _EXTREMAL, over=dtypes.ANY
)
scatter_max = scatter_function(
    scatter_max_p,
    f"""Takes the maximum of windows of an array and updates.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> dnums = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_max(jnp.zeros(3), jnp.array([[1], [1]]), jnp.array([-2.0, 3.0]), dnums)
    Array([0., 3., 0.], dtype=float32)
    """,
)

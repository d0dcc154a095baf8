"""JAX's tables of differentiation rules, `primitive_jvps` and `primitive_transposes`, and functions that fill them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr.api.grad import jvp as jvp
from xpr.api.grad import linearize as linearize
from xpr.core.avals import Zero as Zero
from xpr.core.primitive import Linear, Primitive, is_linear
from xpr.interpreters.tables import RuleTable, listed, unlisted
from xpr.primitives.elementwise_rules import add_any_p
from xpr.primitives.elementwise_rules import add_tangents as sum_of_tangents
from xpr.primitives.shapes import instantiate, zeros_like_aval
from xpr.transforms.jvp import JVPTrace as JVPTrace
from xpr.transforms.jvp import JVPTracer as JVPTracer

__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "defbilinear",
    "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose", "instantiate_zeros",
    "is_undefined_primal", "jvp", "linearize", "primitive_jvps", "primitive_transposes", "zeros_like_aval",
]  # fmt: skip

UndefinedPrimal = Linear  # a linear operand of a transposition, of which only the `aval` is known
is_undefined_primal = is_linear
add_jaxvals_p = add_any_p


def _jvp_to_slot(primitive: Primitive, rule: Any) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        outs, out_tangents = rule(tuple(primals), tuple(tangents), **params)
        outs, out_tangents = listed(primitive, outs), listed(primitive, out_tangents)
        zeros = [Zero.from_primal_value(x) if t is None else t for x, t in zip(outs, out_tangents)]
        return outs, zeros

    return jvp


def _jvp_from_slot(primitive: Primitive, rule: Any) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        outs, out_tangents = rule(primals, tangents, **params)
        return unlisted(primitive, outs), unlisted(primitive, out_tangents)

    return jvp


def _transpose_to_slot(primitive: Primitive, rule: Any) -> Any:
    def transpose(cotangents: Sequence[Any], operands: Sequence[Any], **params: Any) -> Any:
        ct = list(cotangents) if primitive.multiple_results else cotangents[0]
        outs = rule(ct, *operands, **params)
        return [None] * len(operands) if type(outs) is Zero or outs is None else list(outs)

    return transpose


def _transpose_from_slot(primitive: Primitive, rule: Any) -> Any:
    def transpose(ct: Any, *operands: Any, **params: Any) -> Any:
        return rule(listed(primitive, ct), list(operands), **params)

    return transpose


primitive_jvps = RuleTable("jvp", _jvp_to_slot, _jvp_from_slot)
primitive_transposes = RuleTable("transpose", _transpose_to_slot, _transpose_from_slot)


def get_primitive_transpose(p: Primitive) -> Any:
    """The transposition rule `(cotangent, *operands, **params)`.

    Raises:
      NotImplementedError: it has none.
    """
    try:
        return primitive_transposes[p]
    except KeyError:
        raise NotImplementedError(f"The primitive {p} has no transposition rule.") from None


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_jaxvals(x, y)


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents."""
    return sum_of_tangents(x, y)


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent as an array, also where it is a `Zero`."""
    return instantiate(tangent)


def defjvp(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """A JVP rule by its terms: for each operand `(tangent, *primals, **params) -> tangent`, or None for zero."""
    parts = [None if rule is None else partial(_without_result, rule) for rule in jvprules]
    defjvp2(primitive, *parts)


def _without_result(rule: Callable[..., Any], tangent: Any, result: Any, *primals: Any, **params: Any) -> Any:
    return rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """`defjvp` with terms that take the result, too: `(tangent, result, *primals, **params) -> tangent`."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        total: Any = Zero.from_primal_value(result)
        for part, tangent in zip(jvprules, tangents):
            if part is not None and type(tangent) is not Zero:
                total = add_tangents(total, part(tangent, result, *primals, **params))
        return result, total

    primitive_jvps[primitive] = rule


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Declares that a primitive is linear in all its operands.

    Args:
      transpose_rule: `(cotangent, *operands, **params)` returns a cotangent, or None, for each operand.
    """
    primitive_jvps[primitive] = partial(_linear_jvp, primitive)
    primitive_transposes[primitive] = partial(_linear_transpose, transpose_rule)


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """`deflinear2` with a rule that takes the cotangent alone."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def _linear_jvp(primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    outs = primitive.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        zeros = [Zero.from_primal_value(x) for x in listed(primitive, outs)]
        return outs, unlisted(primitive, zeros)
    return outs, primitive.bind(*map(instantiate, tangents), **params)


def _linear_transpose(rule: Callable[..., Any], ct: Any, *operands: Any, **params: Any) -> Any:
    if type(ct) is Zero:
        return [Zero(x.aval) if is_linear(x) else None for x in operands]
    return rule(ct, *operands, **params)


def defbilinear(prim: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """Declares that a primitive is linear in each of its two operands.

    Args:
      lhs_rule: the cotangent of the first operand, `(cotangent, first, second, **params)`.
      rhs_rule: that of the second operand, `(cotangent, first, second, **params)`.
    """
    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_linear(x) == is_linear(y):
            raise ValueError(f"{prim}: to be transposed it must be linear in one of its two operands.")
        if is_linear(x):
            return (Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params)), None
        return None, (Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params))

    primitive_transposes[prim] = transpose

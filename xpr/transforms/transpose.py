"""transpose : (T a -o T b) -> (T b -o T a). Reverse mode: propagates cotangents backwards through a linear jaxpr.

From the cotangents of the results, each equation's `transpose` rule computes those of its linear operands; where a
variable is read several times its cotangents are summed with `add_any`. Variables that no cotangent reaches cost
nothing. In `{ lambda a ; b. let c = mul b a in (c,) }` the cotangent of c becomes that of b by `mul ct a`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xpr.core.avals import Zero, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.primitive import Linear, NeedsLinear
from xpr.core.source import cotangent_of, summarize
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import add_any, convert_element_type_p
from xpr.primitives.shapes import instantiate
from xpr.primitives.sharding_constraint import constrain_to
from xpr.transforms.stage import stage


def backward_pass(
    jaxpr: Jaxpr,
    residuals: Sequence[Any],
    cotangents: Sequence[Any],
    is_linear: Sequence[bool] | None = None,
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    """The cotangents of a linear jaxpr's arguments.

    Args:
      jaxpr: linear in its invars, or in those marked by `is_linear`.
      residuals: values of the constvars and of the invars that are not linear, in order.
      cotangents: one for each result, `Zero` where there is none.
      wanted: for each linear invar whether its cotangent is computed; None for all.
    Returns:
      For each linear invar its cotangent, a `Zero` where no cotangent reaches it, or it is not wanted.
    """
    linear_flags = [True] * len(jaxpr.invars) if is_linear is None else is_linear
    linear_invars = [v for v, flag in zip(jaxpr.invars, linear_flags) if flag]
    known_vars = [*jaxpr.constvars, *(v for v, flag in zip(jaxpr.invars, linear_flags) if not flag)]
    known: dict[Any, Any] = dict(zip(known_vars, residuals))
    totals: dict[Var, Any] = {}  # the sum of the cotangents so far of each variable that one has reached
    before = context.source, context.decides_later, context.unreduced
    context.unreduced = frozenset()
    try:
        linear_eqns = _evaluate_known(jaxpr, known) if is_linear is not None else jaxpr.eqns
        needed = None if wanted is None else _needed(linear_eqns, [v for v, w in zip(linear_invars, wanted) if w])
        for atom, ct in zip(jaxpr.outvars, cotangents):
            if type(atom) is not Literal and atom not in known:
                _accumulate(totals, atom, ct)
        context.decides_later = True  # `_accumulate` gives a cotangent the sharding of its variable
        is_explicit = any(v.aval.explicit is not None for v in linear_invars)
        if_zero = _transposed_if_zero(jaxpr, linear_eqns)
        for eqn in reversed(linear_eqns):
            reached = eqn.outvars if eqn in if_zero else [v for v in eqn.outvars if v in totals]
            if reached and (needed is None or not needed.isdisjoint(reached)):
                context.source = cotangent_of(eqn.source, eqn.primitive.name)
                if is_explicit:
                    context.unreduced = _reduced(eqn)
                _transpose_eqn(eqn, known, totals)
    finally:
        context.source, context.decides_later, context.unreduced = before
    has_ct = [v in totals and (needed is None or v in needed) for v in linear_invars]
    return [_weak_as(v, totals[v]) if has else Zero(v.aval.dual) for v, has in zip(linear_invars, has_ct)]


def _transposed_if_zero(jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]) -> Collection[JaxprEqn]:
    """The equations that are transposed even if the cotangents of all their results are zero.

    A user's `bwd` may return what does not depend on the cotangent, as flax does with the statistics of 8-bit floats.
    """
    if not any(map(_is_transposed_if_zero, eqns)):
        return ()
    if_zero, used = set[JaxprEqn](), {v for v in jaxpr.outvars if type(v) is Var}
    for eqn in reversed(eqns):
        if not used.isdisjoint(eqn.outvars):
            used.update(v for v in eqn.invars if type(v) is Var)
            if _is_transposed_if_zero(eqn):
                if_zero.add(eqn)
    return if_zero


def _is_transposed_if_zero(eqn: JaxprEqn) -> bool:
    return eqn.primitive.transposes_zeros or (eqn.primitive.call and any(map(_has_transposed_if_zero, subjaxprs(eqn))))


def _has_transposed_if_zero(jaxpr: Jaxpr) -> bool:
    key = "transposes zeros"
    if key not in jaxpr.memo:
        jaxpr.memo[key] = any(map(_is_transposed_if_zero, jaxpr.eqns))
    return jaxpr.memo[key]


def _reduced(eqn: JaxprEqn) -> frozenset[Any]:
    """The mesh axes over which operands are reduced, so that their cotangents are unreduced."""
    return frozenset().union(*[v.aval.explicit.reduced for v in eqn.invars if v.aval.explicit is not None])


def _needed(eqns: Sequence[JaxprEqn], wanted: Sequence[Var]) -> set[Any]:
    """The variables that depend on those of `wanted`, whose cotangents therefore contribute to theirs."""
    needed: set[Any] = set(wanted)
    for eqn in eqns:
        if not needed.isdisjoint(v for v in eqn.invars if type(v) is not Literal):
            needed.update(eqn.outvars)
    return needed


def _weak_as(var: Var, ct: Any) -> Any:
    """A cotangent with the weakness of its variable's type, which a product with a strongly typed factor loses."""
    weak = var.aval.weak_type
    if aval_of(ct).weak_type == weak:
        return ct
    return convert_element_type_p.bind(ct, new_dtype=var.aval.dtype, weak_type=weak)


def _evaluate_known(jaxpr: Jaxpr, known: dict[Any, Any]) -> list[JaxprEqn]:
    """Evaluates the equations, or parts of them, that read no linear variables; returns the others."""
    linear: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        flags = [type(v) is Literal or v in known for v in eqn.invars]
        if all(flags):
            _run(eqn, known)
        elif eqn.primitive.split is not None and any(flags):
            known_eqns, linear_eqns = eqn.primitive.split(eqn, flags)
            if {v for known_eqn in known_eqns for v in known_eqn.outvars}.isdisjoint(eqn.outvars):
                linear.append(eqn)  # its known part computes residuals alone: nothing is gained by splitting it
                continue
            for known_eqn in known_eqns:
                _run(known_eqn, known)
            linear += linear_eqns
        else:
            linear.append(eqn)
    return linear


def _run(eqn: JaxprEqn, known: dict[Any, Any]) -> None:
    values = [v.val if type(v) is Literal else known[v] for v in eqn.invars]
    before, context.source = context.source, eqn.source
    try:
        outs = eqn.primitive.bind(*values, **eqn.params)
    finally:
        context.source = before
    known.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs]))


def _transpose_eqn(eqn: JaxprEqn, known: dict[Any, Any], totals: dict[Var, Any]) -> None:
    operands = [v.val if type(v) is Literal else known[v] if v in known else Linear(v.aval) for v in eqn.invars]
    if Linear not in map(type, operands):  # all operands are zeros of tangents
        return
    cts = [totals.pop(v) if v in totals else Zero(v.aval.dual) for v in eqn.outvars]
    try:
        in_cts = eqn.primitive.transpose(cts, operands, **eqn.params)
    except NeedsLinear:
        types = ", ".join(x.aval.str_short() for x in operands if type(x) is Linear)
        raise UnsupportedRule(
            f"{eqn.primitive.name}: it is not linear in all its operands that depend on what is transposed to "
            f"({types}), and only linear functions have a transpose.\n"
            f"  at {summarize(eqn.source)}\n"
            "To transpose the derivative of a function that is not linear, use xpr.vjp."
        ) from None
    except (UnsupportedRule, TypeError) as error:
        error.add_note(f"  at {summarize(eqn.source)}")
        raise
    for v, operand, ct in zip(eqn.invars, operands, in_cts):
        if ct is not None and type(operand) is Linear:
            _accumulate(totals, v, ct)


def _accumulate(totals: dict[Var, Any], var: Any, ct: Any) -> None:
    if type(ct) is Zero:
        return
    aval, target = aval_of(ct), var.aval
    if target.explicit is not None:
        target = target.dual
    if aval.explicit is not target.explicit or aval.memory_space is not target.memory_space:
        ct = constrain_to(ct, target)
    sofar = totals.get(var)
    if sofar is not None:
        ct = var.aval.vspace_add(sofar, ct) if var.aval.is_high else add_any(sofar, ct)
    totals[var] = ct


def transpose_jaxpr(
    jaxpr: Jaxpr, is_linear: tuple[bool, ...], has_ct: tuple[bool, ...], forced: tuple[bool, ...] = ()
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr from (residuals, cotangents) to cotangents, and which linear arguments have one.

    The linear arguments that `forced` marks have one even if it is zero. Remembered with the jaxpr, which has no
    constants.
    """
    key = ("transpose", is_linear, has_ct, forced)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _transpose_jaxpr(jaxpr, is_linear, has_ct, forced)
    return jaxpr.memo[key]


def _transpose_jaxpr(
    jaxpr: Jaxpr, is_linear: tuple[bool, ...], has_ct: tuple[bool, ...], forced: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool]]:
    residual_avals = [v.aval for v, linear in zip(jaxpr.invars, is_linear) if not linear]
    ct_avals = [v.aval.dual for v, has in zip(jaxpr.outvars, has_ct) if has]
    has_result_ct: list[bool] = []

    def run(*args: Any) -> list[Any]:
        residuals, out_cts = args[: len(residual_avals)], iter(args[len(residual_avals) :])
        cts = [next(out_cts) if has else Zero(v.aval.dual) for v, has in zip(jaxpr.outvars, has_ct)]
        results = backward_pass(jaxpr, residuals, cts, is_linear)
        if any(forced):
            results = [instantiate(ct) if must else ct for ct, must in zip(results, forced)]
        has_result_ct[:] = [type(ct) is not Zero for ct in results]
        return [ct for ct in results if type(ct) is not Zero]

    return stage(run, [*residual_avals, *ct_avals]), has_result_ct

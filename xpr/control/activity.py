"""Which parts of a loop's carry a transformation touches: those reached from what it touches at the start.

What is mapped, or has a tangent, spreads through the body from carry to carry until nothing changes. The spreading is
followed along the equations, which is cheap and may say too much (a result that reads a tangent can be flat); a trace
of the body then says exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr import dtypes
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal

Flags = tuple[bool, ...]
T = TypeVar("T")


def picked(values: Sequence[T], flags: Sequence[bool]) -> list[T]:
    """The values that are marked."""
    return [x for x, flag in zip(values, flags) if flag]


def reached_outputs(jaxpr: Jaxpr, touched: Sequence[bool], differentiable: bool) -> list[bool]:
    """Which results of a jaxpr read a touched argument, followed into the jaxprs that equations hold.

    With `differentiable`, through inexact values only.
    """
    live: set[Any] = {v for v, is_touched in zip(jaxpr.invars, touched) if is_touched}
    for eqn in jaxpr.eqns:
        flags = [type(v) is not Literal and v in live for v in eqn.invars]
        if any(flags):
            reached = zip(eqn.outvars, _reached_results(eqn, flags, differentiable))
            live.update(v for v, is_reached in reached if is_reached and _may_carry(v, differentiable))
    return [type(v) is not Literal and v in live for v in jaxpr.outvars]


def _may_carry(var: Any, differentiable: bool) -> bool:
    return not differentiable or var.aval.dtype in dtypes.INEXACT


def _reached_results(eqn: JaxprEqn, flags: list[bool], differentiable: bool) -> list[bool]:
    params = eqn.params
    if "policy" in params:  # of a checkpoint, which says what is kept and not what is computed
        return reached_outputs(params["jaxpr"], flags, differentiable)
    if any(callable(value) for value in params.values()):  # rules of users, which do as they like
        return [True] * len(eqn.outvars)
    if isinstance(params.get("call_jaxpr"), Jaxpr):
        return reached_outputs(params["call_jaxpr"], flags, differentiable)
    if "branches" in params and not flags[0]:
        found = [reached_outputs(branch, flags[1:], differentiable) for branch in params["branches"]]
        return [any(some) for some in zip(*found)]
    if "num_carry" in params and isinstance(params.get("jaxpr"), Jaxpr):
        body, n, k = params["jaxpr"], params["num_consts"], params["num_carry"]
        first = len(flags) - len(body.invars)  # of what a loop that ends early has in front
        if any(flags[:first]) or len(eqn.outvars) > len(body.outvars):
            return [True] * len(eqn.outvars)
        flags = flags[first:]
        consts, carry, xs = flags[:n], tuple(flags[n : n + k]), flags[n + k :]
        carry = spread(carry, lambda c: reached_outputs(body, [*consts, *c, *xs], differentiable)[:k])
        return [*carry, *reached_outputs(body, [*consts, *carry, *xs], differentiable)[k:]]
    if "body_jaxpr" in params:
        return _reached_of_while(eqn, flags, differentiable)
    if "forward" in params and not any(flags[:2]):
        return _reached_of_fold(eqn, flags[2:], differentiable)
    return [True] * len(eqn.outvars)


def _reached_of_while(eqn: JaxprEqn, flags: list[bool], differentiable: bool) -> list[bool]:
    """Of `while`, and of `while_saving`, which adds two counts and the stores of what is saved."""
    params = eqn.params
    n, k = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    first, consts = flags[:n], flags[n:k]
    carry = spread(tuple(flags[k:]), lambda c: reached_outputs(params["body_jaxpr"], [*consts, *c], differentiable))
    if any(reached_outputs(params["cond_jaxpr"], [*first, *carry], differentiable)):
        return [True] * len(eqn.outvars)
    stores = [reached for reached, is_saved in zip(carry, params.get("saved", ())) if is_saved]
    counts = [False] * (len(eqn.outvars) - len(carry) - len(stores))
    return [*carry, *counts, *stores]


def _reached_of_fold(eqn: JaxprEqn, flags: list[bool], differentiable: bool) -> list[bool]:
    """Of `while_fold`, after its two counts."""
    params = eqn.params
    n, k = params["num_consts"], params["num_consts"] + len(params["forward"].outvars)
    consts = [*flags[:n], False]
    carry = spread(tuple(flags[n:k]), lambda c: reached_outputs(params["forward"], [*consts, *c], differentiable))
    return list(
        spread(tuple(flags[k:]), lambda s: reached_outputs(params["step"], [*consts, *carry, *s], differentiable))
    )


def reached_inputs(jaxpr: Jaxpr, touched: Sequence[bool], linear: Sequence[bool]) -> list[bool]:
    """Which linear arguments of a jaxpr are read by a touched result."""
    live: set[Any] = {v for v, is_touched in zip(jaxpr.outvars, touched) if is_touched and type(v) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            live.update(v for v in eqn.invars if type(v) is not Literal)
    return [is_linear and v in live for v, is_linear in zip(jaxpr.invars, linear)]


def spread(start: Flags, step: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The smallest set of carries that holds `start` and is closed under `step`."""
    while True:
        grown = tuple([a or b for a, b in zip(start, step(start))])
        if grown == start:
            return start
        start = grown


def settle(start: Flags, bound: Flags, trace: Callable[[Flags, Flags], tuple[T, Sequence[bool]]]) -> tuple[T, Flags]:
    """Traces a loop's body with a set of carries touched that its results agree with.

    Args:
      start: the carries that are touched at the start.
      bound: a set that surely holds all that will be touched, from `spread`.
      trace: given the carries touched and those that must come out touched, gives what it made of the body and which
        carries came out touched.
    Returns:
      What `trace` made, and the set of carries.
    """
    none = (False,) * len(start)
    while True:
        made, found = trace(bound, none)
        needed = tuple([a or b for a, b in zip(start, found)])
        if needed == bound:
            return (made if tuple(found) == bound else trace(bound, bound)[0]), bound
        bound = needed

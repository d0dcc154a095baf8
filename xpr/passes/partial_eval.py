"""partial_eval : ((a, b) -> c) -> (a -> (c1, r), (r, b) -> c2). Splits a jaxpr by which of its arguments are known.

An equation is known where all its operands are, and where it has no effect. The known values that the others read are
the residuals, r. `{ lambda ; a b. let c = sin a; d = mul c b in (d,) }` with `a` known becomes `{ lambda ; a. let c =
sin a in (c,) }` and `{ lambda ; c b. let d = mul c b in (d,) }`.

An equation that holds jaxprs may be split inside. Its primitive's `split` rule, where it has one, takes the equation
and which operands are known, at least one and not all, and gives two lists of equations: the known ones read known
operands alone, the others may read their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from xpr.core.avals import ShapedArray, describe
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, constvars_to_invars, require_closed_jaxpr
from xpr.passes.dce import dce_jaxpr, has_effect

T = TypeVar("T")


class PartialJaxpr:
    """A jaxpr in two halves: `known` returns the known results and the residuals, `unknown` takes those and the
    unknown arguments.

    Some residuals are arguments; `computing` is the known half that returns only the others.
    """

    __slots__ = ("computing", "known", "num_residuals", "out_known", "residual_sources", "unknown")

    def __init__(self, known: Jaxpr, unknown: Jaxpr, out_known: list[bool], num_residuals: int):
        self.known, self.unknown = known, unknown
        self.out_known, self.num_residuals = out_known, num_residuals
        positions = {v: i for i, v in enumerate(known.invars)}
        self.residual_sources = [positions.get(v) for v in self.residuals]  # among the known arguments, or None
        results = known.outvars[: len(known.outvars) - num_residuals]
        self.computing = known.replace(outvars=results + [v for v in self.residuals if v not in positions])

    @property
    def residuals(self) -> list[Any]:
        """The residuals as variables of `known`."""
        return self.known.outvars[len(self.known.outvars) - self.num_residuals :]

    @property
    def residual_avals(self) -> list[ShapedArray]:
        return self.unknown.in_avals[: self.num_residuals]

    def known_results(self, values: Sequence[T]) -> list[T]:
        return _divided(values, self.out_known)[0]

    def unknown_results(self, values: Sequence[T]) -> list[T]:
        return _divided(values, self.out_known)[1]


def partial_eval_jaxpr(jaxpr: Jaxpr, is_known: Sequence[bool], deferred: Sequence[bool] = ()) -> PartialJaxpr:
    """Splits a jaxpr without constants.

    Args:
      jaxpr: the program.
      is_known: which of its arguments are known.
      deferred: which results the second half is to return, although they may be known.
    """
    known_invars, unknown_invars = _divided(jaxpr.invars, is_known)
    known: set[Any] = set(known_invars)
    known_eqns, unknown_eqns = _divided_equations(jaxpr.eqns, known)
    late = deferred or [False] * len(jaxpr.outvars)
    out_known = [not later and (type(v) is Literal or v in known) for v, later in zip(jaxpr.outvars, late)]
    known_outs, unknown_outs = _divided(jaxpr.outvars, out_known)
    read = [v for eqn in unknown_eqns for v in eqn.invars] + unknown_outs
    residuals: list[Any] = list(dict.fromkeys(v for v in read if type(v) is not Literal and v in known))
    return PartialJaxpr(
        Jaxpr([], known_invars, [*known_outs, *residuals], known_eqns),
        Jaxpr([], [*residuals, *unknown_invars], unknown_outs, unknown_eqns),
        out_known,
        len(residuals),
    )


def _divided(values: Sequence[T], is_known: Sequence[bool]) -> tuple[list[T], list[T]]:
    """The values that are known, and the others."""
    known = [x for x, flag in zip(values, is_known) if flag]
    return known, [x for x, flag in zip(values, is_known) if not flag]


def _divided_equations(eqns: Sequence[JaxprEqn], known: set[Any]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The known equations and the others; the variables that the former bind are added to the `known` ones."""
    known_eqns: list[JaxprEqn] = []
    unknown_eqns: list[JaxprEqn] = []
    for eqn in eqns:
        flags = [type(v) is Literal or v in known for v in eqn.invars]
        if has_effect(eqn):
            known_part, unknown_part = [], [eqn]
        elif all(flags):
            known_part, unknown_part = [eqn], []
        elif eqn.primitive.split is not None and any(flags):
            known_part, unknown_part = eqn.primitive.split(eqn, flags)
        else:
            known_part, unknown_part = [], [eqn]
        known.update([v for part in known_part for v in part.outvars])
        known_eqns += known_part
        unknown_eqns += unknown_part
    return known_eqns, unknown_eqns


class PartialProgram(NamedTuple):
    """A program in two halves.

    `known` takes the known arguments and returns the known results, then the residuals, whose types are `residuals`.
    `unknown` takes the residuals, then the other arguments, and returns the other results. `out_known` says of each
    result of the whole program whether it is known.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    residuals: list[ShapedArray]
    out_known: list[bool]


def partial_eval(closed: ClosedJaxpr, known: Sequence[bool]) -> PartialProgram:
    """Splits a program into what can be computed from some of its arguments, and what needs the others.

    Calls, branches and loops are split inside where that computes nothing that the whole would not: a cond whose
    predicate is known, a scan whose known part does not depend on the unknown one, and the same for a while loop, which
    then counts its steps twice. The second half of a scan computes again what a few cheap operations make of other
    residuals. Checkpoints, functions with custom rules and those mapped over devices compute their known results in the
    first half, and are called again for the others. Operations with an effect stay together, in the second half.

    Args:
      closed: the program; its constants are known.
      known: which of its arguments are known.

    Returns:
      A `PartialProgram`, with both halves.

    Raises:
      TypeError: `known` is no list.
      ValueError: the length of `known` is not the number of arguments.

    >>> import xpr, xpr.numpy as jnp
    >>> halves = xpr.jaxpr.partial_eval(xpr.make_jaxpr(lambda x, y: jnp.sin(x) * y)(1.0, 2.0), [True, False])
    >>> halves.known
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    >>> halves.unknown
    { lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }
    """
    closed = require_closed_jaxpr("partial_eval", closed)
    n, jaxpr = len(closed.consts), constvars_to_invars(closed)
    if not isinstance(known, Iterable):
        raise TypeError(f"partial_eval: `known` is a bool for each argument, in a list, and is {describe(known)}.")
    flags = list(map(bool, known))
    if len(flags) != len(closed.in_avals):
        raise ValueError(
            f"partial_eval: `known` must say of each of the {len(closed.in_avals)} arguments whether it is known, and "
            f"has {len(flags)} elements."
        )
    halves = partial_eval_jaxpr(jaxpr, [True] * n + flags)
    first = halves.known
    smaller, inputs = dce_jaxpr(first, [True] * len(first.outvars), [False] * n + [True] * (len(first.invars) - n))
    used_constvars = smaller.invars[: sum(inputs[:n])]
    consts = [x for x, used in zip(closed.consts, inputs) if used]
    return PartialProgram(
        ClosedJaxpr(smaller.replace(constvars=used_constvars, invars=smaller.invars[len(used_constvars) :]), consts),
        ClosedJaxpr(halves.unknown),
        halves.residual_avals,
        halves.out_known,
    )

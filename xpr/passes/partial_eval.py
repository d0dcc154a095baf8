"""partial_eval : ((a, b) -> c) -> (a -> (c1, r), (r, b) -> c2). Splits a jaxpr by which of its arguments are known.

An equation is known where all it reads is, and where it has no effect. What the rest reads of known values are the
residuals, r. `{ lambda ; a b. let c = sin a; d = mul c b in (d,) }` with `a` known becomes `{ lambda ; a. let c = sin a
in (c,) }` and `{ lambda ; c b. let d = mul c b in (d,) }`.

An equation that holds jaxprs may be split inside. Its primitive's `split` rule, where it has one, takes the equation
and which operands are known, at least one and not all, and gives two lists of equations: the known ones read known
operands alone, the others may read what those give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, constvars_to_invars, given_program
from xpr.passes.dce import dce_jaxpr, has_effect

T = TypeVar("T")


class Partial:
    """A jaxpr in two halves: `known` gives the known results and the residuals, `unknown` takes those and the rest.

    Some residuals are arguments; `computing` is the known half that gives only the others.
    """

    __slots__ = ("computing", "known", "num_residuals", "out_known", "residual_sources", "unknown")

    def __init__(self, known: Jaxpr, unknown: Jaxpr, out_known: list[bool], num_residuals: int):
        self.known, self.unknown = known, unknown
        self.out_known, self.num_residuals = out_known, num_residuals
        n = len(known.outvars) - num_residuals
        places = {v: i for i, v in enumerate(known.invars)}
        residuals: list[Any] = known.outvars[n:]
        self.residual_sources = [places.get(v) for v in residuals]  # which of the known arguments they are, or None
        self.computing = known.replace(outvars=known.outvars[:n] + [v for v in residuals if v not in places])

    @property
    def residual_avals(self) -> list[ShapedArray]:
        return self.unknown.in_avals[: self.num_residuals]

    def known_results(self, values: Sequence[T]) -> list[T]:
        return [x for x, flag in zip(values, self.out_known) if flag]

    def unknown_results(self, values: Sequence[T]) -> list[T]:
        return [x for x, flag in zip(values, self.out_known) if not flag]


def partial_eval_jaxpr(
    jaxpr: Jaxpr, is_known: Sequence[bool], deferred: Sequence[bool] = (), inside: bool = True
) -> Partial:
    """Splits a jaxpr without constants.

    Args:
      jaxpr: the program.
      is_known: which of its arguments are known.
      deferred: which results the second half is to give, although they may be known.
      inside: whether equations that hold jaxprs are split, too.
    """
    known: set[Any] = {v for v, flag in zip(jaxpr.invars, is_known) if flag}
    first: list[JaxprEqn] = []
    second: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        flags = [type(v) is Literal or v in known for v in eqn.invars]
        if has_effect(eqn):
            second.append(eqn)
        elif all(flags):
            first.append(eqn)
            known.update(eqn.outvars)
        elif inside and eqn.primitive.split is not None and any(flags):
            some, others = eqn.primitive.split(eqn, flags)
            first += some
            second += others
            known.update([v for each in some for v in each.outvars])
        else:
            second.append(eqn)
    late = deferred or [False] * len(jaxpr.outvars)
    out_known = [not later and (type(v) is Literal or v in known) for v, later in zip(jaxpr.outvars, late)]
    unknown_outs = [v for v, flag in zip(jaxpr.outvars, out_known) if not flag]
    needed = [v for eqn in second for v in eqn.invars] + unknown_outs
    read = dict.fromkeys(v for v in needed if type(v) is not Literal and v in known)
    residuals: list[Any] = list(read)
    known_outs = [v for v, flag in zip(jaxpr.outvars, out_known) if flag]
    known_ins = [v for v, flag in zip(jaxpr.invars, is_known) if flag]
    unknown_ins = [v for v, flag in zip(jaxpr.invars, is_known) if not flag]
    return Partial(
        Jaxpr([], known_ins, [*known_outs, *residuals], first),
        Jaxpr([], [*residuals, *unknown_ins], unknown_outs, second),
        out_known,
        len(residuals),
    )


class PartialProgram(NamedTuple):
    """A program in two halves.

    `known` takes the known arguments and gives the known results, then the residuals, whose types are `residuals`.
    `unknown` takes the residuals, then the other arguments, and gives the other results. `out_known` says of each
    result of the whole which half gives it.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    residuals: list[ShapedArray]
    out_known: list[bool]


def partial_eval(closed: ClosedJaxpr, known: Sequence[bool]) -> PartialProgram:
    """Splits a program into what can be computed from some of its arguments, and the rest.

    Calls, branches and loops are split inside where that computes nothing that the whole would not: a cond whose
    predicate is known, a scan whose known part does not depend on the rest, and the same for a while loop, which then
    counts its steps twice. Checkpoints, functions with rules of their own and those mapped over devices give their
    known results in the first half, and are called again for the others. Operations with an effect stay together, in
    the second half.

    Args:
      closed: the program; its constants are known.
      known: which of its arguments are known.
    Raises:
      ValueError: `known` is not as long as the arguments are many.

    >>> import xpr, xpr.numpy as jnp
    >>> halves = xpr.jaxpr.partial_eval(xpr.make_jaxpr(lambda x, y: jnp.sin(x) * y)(1.0, 2.0), [True, False])
    >>> halves.known
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    >>> halves.unknown
    { lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }
    """
    closed = given_program("partial_eval", closed)
    n, jaxpr = len(closed.consts), constvars_to_invars(closed)
    flags = list(map(bool, known))
    if len(flags) != len(closed.in_avals):
        raise ValueError(
            f"partial_eval: `known` must say of each of the {len(closed.in_avals)} arguments whether it is known, and "
            f"has {len(flags)} entries."
        )
    halves = partial_eval_jaxpr(jaxpr, [True] * n + flags)
    first = halves.known
    smaller, inputs = dce_jaxpr(first, [True] * len(first.outvars), [False] * n + [True] * (len(first.invars) - n))
    kept = smaller.invars[: sum(inputs[:n])]
    consts = [x for x, used in zip(closed.consts, inputs) if used]
    return PartialProgram(
        ClosedJaxpr(smaller.replace(constvars=kept, invars=smaller.invars[len(kept) :]), consts),
        ClosedJaxpr(halves.unknown),
        halves.residual_avals,
        halves.out_known,
    )

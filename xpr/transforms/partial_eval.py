"""partial_eval : ((a, b) -> c) -> (a -> (c1, r), (r, b) -> c2). Splits a jaxpr by which of its arguments are known.

An equation is known where all it reads is, and where it has no effect. What the rest reads of known values are the
residuals, r. `{ lambda ; a b. let c = sin a; d = mul c b in (d,) }` with `a` known becomes `{ lambda ; a. let c = sin a
in (c,) }` and `{ lambda ; c b. let d = mul c b in (d,) }`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, Literal
from xpr.transforms.dce import has_effect


class Partial:
    """A jaxpr in two halves: `known` gives the known results and the residuals, `unknown` takes those and the rest."""

    __slots__ = ("known", "num_residuals", "out_known", "unknown")

    def __init__(self, known: Jaxpr, unknown: Jaxpr, out_known: list[bool], num_residuals: int):
        self.known, self.unknown = known, unknown
        self.out_known, self.num_residuals = out_known, num_residuals


def partial_eval_jaxpr(jaxpr: Jaxpr, is_known: Sequence[bool]) -> Partial:
    """Splits a jaxpr without constants.

    Args:
      jaxpr: the program.
      is_known: which of its arguments are known.
    """
    known: set[Any] = {v for v, flag in zip(jaxpr.invars, is_known) if flag}
    first, second = [], []
    for eqn in jaxpr.eqns:
        if all(type(v) is Literal or v in known for v in eqn.invars) and not has_effect(eqn):
            first.append(eqn)
            known.update(eqn.outvars)
        else:
            second.append(eqn)
    out_known = [type(v) is Literal or v in known for v in jaxpr.outvars]
    unknown_outs = [v for v, flag in zip(jaxpr.outvars, out_known) if not flag]
    read = dict.fromkeys(v for eqn in second for v in eqn.invars if type(v) is not Literal and v in known)
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

"""discharge : jaxpr -> jaxpr. Turns a program on refs into one in which their values are arguments and results.

    { lambda ; a:Ref{f32[3]} b:f32[3]. let c:f32[3] = get a; d:f32[3] = add c b; _:f32[3] = swap a d in () }
    { lambda ; a:f32[3] b:f32[3]. let d:f32[3] = add a b in (d,) }

A ref that is only passed on, to a function whose derivative rule writes it, stays a ref.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.core.refs import AbstractRef
from xpr.primitives.refs import get_p, swap_p


class RefUses:
    """Which of a program's constants and arguments are refs that it reads, writes or passes on.

    Attributes:
      any: whether one of them is a ref.
      used: whether the program reads or writes one.
      valued: those that are read or written, whose values the discharged program takes.
      written: those that are written.
      passed: those that an equation other than a read or a write takes.
    """

    __slots__ = ("any", "passed", "used", "valued", "written")

    def __init__(self, jaxpr: Jaxpr):
        variables = [*jaxpr.constvars, *jaxpr.invars]
        refs = {v for v in variables if type(v.aval) is AbstractRef}
        read, written, passed = set[Any](), set[Any](), set[Any]()
        if refs:
            for eqn in jaxpr.eqns:
                if eqn.primitive is get_p or eqn.primitive is swap_p:
                    (read if eqn.primitive is get_p else written).add(eqn.invars[0])
                else:
                    passed.update(v for v in eqn.invars if v in refs)
        self.any, self.used = bool(refs), bool(read or written)
        self.valued = tuple([v in read or v in written for v in variables])
        self.written = tuple([v in written for v in variables])
        self.passed = tuple([v in passed for v in variables])


def uses_of_refs(jaxpr: Jaxpr) -> RefUses:
    """What a program does to its refs; cached with it."""
    if "refs" not in jaxpr.memo:
        jaxpr.memo["refs"] = RefUses(jaxpr)
    return jaxpr.memo["refs"]


def discharge(jaxpr: Jaxpr, valued: Sequence[bool], written: Sequence[bool], also: Sequence[bool]) -> Jaxpr:
    """The program on values; cached with the jaxpr, which has no constants.

    Args:
      jaxpr: the program on refs.
      valued: the arguments that are refs and are to be their values instead; all that it reads or writes.
      written: those of them whose last values are further results; all that it writes.
      also: those of them that are also passed on as refs, arguments after the others. Others are passed on as values.
    """
    key = ("discharged", tuple(valued), tuple(written), tuple(also))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _discharged(jaxpr, valued, written, also)
    return jaxpr.memo[key]


def _discharged(jaxpr: Jaxpr, valued: Sequence[bool], written: Sequence[bool], also: Sequence[bool]) -> Jaxpr:
    refs: list[Any] = [v for v, flag in zip(jaxpr.invars, valued) if flag]
    values: dict[Any, Any] = {v: Var(v.aval.inner_aval) for v in refs}
    invars = [values.get(v, v) for v in jaxpr.invars]
    passed = [v for v, flag in zip(jaxpr.invars, also) if flag]
    invars += passed
    renamed: dict[Any, Any] = {}  # the variables that replace the results of reads

    def atom(v: Any) -> Any:
        if v in values and v not in passed:
            return values[v]
        return v if type(v) is Literal else renamed.get(v, v)

    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        ref = eqn.invars[0] if eqn.invars else None
        if eqn.primitive is get_p and ref in values:
            renamed[eqn.outvars[0]] = values[ref]
        elif eqn.primitive is swap_p and ref in values:
            renamed[eqn.outvars[0]], values[ref] = values[ref], atom(eqn.invars[1])
        else:
            operands = list(map(atom, eqn.invars))
            eqns.append(eqn if operands == list(eqn.invars) else eqn.replace(invars=operands))
    results = [values[v] for v, flag in zip(jaxpr.invars, written) if flag]
    return Jaxpr([], invars, [*map(atom, jaxpr.outvars), *results], eqns)

"""inline : jaxpr -> jaxpr. Puts the equations of the calls that a jaxpr makes in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var


def called_jaxpr(eqn: JaxprEqn) -> Jaxpr | None:
    """The jaxpr that an equation calls on its operands as they are; None where it does something else."""
    called = eqn.params.get("call_jaxpr")
    return called if isinstance(called, Jaxpr) else None


def inline_calls(jaxpr: Jaxpr, called: Callable[[JaxprEqn], Jaxpr | None] = called_jaxpr) -> Jaxpr:
    """The same program without calls, at any depth; `called` says of an equation what it calls."""
    env: dict[Any, Atom] = {}
    eqns: list[JaxprEqn] = []

    def read(atom: Atom) -> Atom:
        return atom if type(atom) is Literal else env.get(atom, atom)

    def walk(inner: Jaxpr, renamed: bool) -> None:
        for eqn in inner.eqns:
            invars = [read(v) for v in eqn.invars]
            callee = called(eqn)
            if callee is not None:
                env.update(zip(callee.invars, invars))
                walk(callee, True)
                env.update(zip(eqn.outvars, [read(v) for v in callee.outvars]))
                continue
            outvars: Sequence[Var] = eqn.outvars
            if renamed:  # a jaxpr that is called twice binds its variables twice
                outvars = [Var(v.aval) for v in eqn.outvars]
                env.update(zip(eqn.outvars, outvars))
            eqns.append(eqn.replace(invars=invars, outvars=outvars))

    walk(jaxpr, False)
    return jaxpr.replace(outvars=[read(v) for v in jaxpr.outvars], eqns=eqns)

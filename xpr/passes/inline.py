"""inline : jaxpr -> jaxpr. Replaces calls by the equations of the jaxprs that they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, require_closed_jaxpr, with_subjaxprs
from xpr.core.regions import called_jaxpr, plainly_called_jaxpr
from xpr.core.source import Source, in_scopes, line_at_call, scopes_of


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with calls of jitted functions inlined, also within loops and branches.

    Functions with custom derivative rules, and rematerialized ones, remain calls.

    >>> import xpr, xpr.numpy as jnp
    >>> closed = xpr.make_jaxpr(xpr.jit(lambda x: jnp.sin(x) * 2))(1.0)
    >>> xpr.jaxpr.inline_calls(closed)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0 in (c,) }
    """
    closed = require_closed_jaxpr("inline_calls", closed)
    return closed.replace(jaxpr=_inlined(closed.jaxpr))


def _inlined(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without plain calls at any depth; cached with it."""
    if "inlined" not in jaxpr.memo:
        flat = inline_jaxpr(jaxpr, plainly_called_jaxpr)
        eqns = [with_subjaxprs(eqn, _inlined) if eqn.primitive.call else eqn for eqn in flat.eqns]
        flat = flat.replace(eqns=eqns)
        jaxpr.memo["inlined"] = flat
        flat.memo["inlined"] = None  # itself, which would be a reference cycle
    return jaxpr.memo["inlined"] or jaxpr


def inline_jaxpr(jaxpr: Jaxpr, called: Callable[[JaxprEqn], Jaxpr | None] = called_jaxpr) -> Jaxpr:
    """The same program without calls, but for those in inner jaxprs of other equations.

    `called` is the jaxpr that an equation calls.
    """
    inlining = _Inlining(called)
    inlining.walk(jaxpr, False, None)
    return jaxpr.replace(outvars=[inlining.read(v) for v in jaxpr.outvars], eqns=inlining.eqns)


class _Inlining:
    """The equations so far, and what stands for the variables of jaxprs that are called."""

    def __init__(self, called: Callable[[JaxprEqn], Jaxpr | None]) -> None:
        self.called = called
        self.env: dict[Any, Atom] = {}
        self.eqns: list[JaxprEqn] = []

    def read(self, atom: Atom) -> Atom:
        return atom if type(atom) is Literal else self.env.get(atom, atom)

    def walk(self, inner: Jaxpr, renamed: bool, call: Source | None) -> None:
        env, read, names = self.env, self.read, scopes_of(call)
        for eqn in inner.eqns:
            callee = self.called(eqn)
            if callee is None and not renamed and not env:
                self.eqns.append(eqn)
                continue
            invars = [read(v) for v in eqn.invars]
            source = in_scopes(names, line_at_call(eqn.source, call)) if renamed else eqn.source
            if callee is not None:
                env.update(zip(callee.invars, invars))
                self.walk(callee, True, source)
                env.update(zip(eqn.outvars, [read(v) for v in callee.outvars]))
                continue
            outvars: Sequence[Var] = eqn.outvars
            if renamed:  # a jaxpr that is called twice binds its variables twice
                outvars = [Var(v.aval) for v in eqn.outvars]
                env.update(zip(eqn.outvars, outvars))
            self.eqns.append(JaxprEqn(invars, outvars, eqn.primitive, eqn.params, source))

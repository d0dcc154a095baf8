"""Source lines of library functions, which are traced once for all calls: their equations get the line of the call."""

from __future__ import annotations

from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, with_subjaxprs
from xpr.core.source import Source, is_of_call, line_at_call


def with_lines(jaxpr: Jaxpr, call: Source | None = None) -> Jaxpr:
    """The same program, in which the equations of library functions have the lines of their calls.

    Args:
      jaxpr: a program; it is returned as it is if it has no such equation.
      call: the line of the call, if the program is that of a library function.
    """
    made: dict[Any, Jaxpr] = {}

    def located(inner: Jaxpr, call: Source | None) -> Jaxpr:
        of_call = any(is_of_call(eqn.source) for eqn in inner.eqns)
        key = id(inner), call if of_call else None
        if key not in made:
            eqns = [at_line(eqn, call) for eqn in inner.eqns]
            same = all(a is b for a, b in zip(eqns, inner.eqns))
            made[key] = inner if same else inner.replace(eqns=eqns)
        return made[key]

    def at_line(eqn: JaxprEqn, call: Source | None) -> JaxprEqn:
        source = line_at_call(eqn.source, call)
        eqn = with_subjaxprs(eqn, lambda inner: located(inner, source)) if eqn.primitive.call else eqn
        return eqn if source is eqn.source else eqn.replace(source=source)

    return located(jaxpr, call)

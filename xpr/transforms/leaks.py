"""Tracers that outlive the function that they were made for, found while the setting `check_tracer_leaks` is on."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from inspect import isframe
from typing import Any

from xpr.core.interpreter import Trace, Tracer
from xpr.core.jaxpr import ClosedJaxpr
from xpr.errors import LeakedTracerError


def refuse_leaks(trace: Trace, known: Sequence[Any]) -> None:
    """Raises LeakedTracerError if a tracer of a trace that has ended is still referred to.

    Args:
      trace: the trace.
      known: objects of the caller that refer to tracers, and are about to be dropped.
    """
    leaked, holders = _tracers_and_holders(trace, known)
    if holders:  # some of them may be unreachable, and not collected yet
        del leaked, holders
        gc.collect()
        leaked, holders = _tracers_and_holders(trace, known)
    for tracer in leaked if holders else ():
        kinds = {type(x).__name__ for x in holders if any(each is tracer for each in gc.get_referents(x))}
        if kinds:
            *others, last = sorted(kinds)
            raise LeakedTracerError(
                f"Leaked tracer of type {tracer.aval.str_short()}: it is still referred to after the function it was "
                f"made for has returned, by a {', a '.join(others)}{' and a ' if others else ''}{last}.\n"
                f"{trace.explain(tracer)}"
                "Return it from the function, or keep a value instead, which xpr.debug.callback gives."
            )


def _tracers_and_holders(trace: Trace, known: Sequence[Any]) -> tuple[list[Tracer], list[Any]]:
    """The tracers of a trace, and the objects that refer to them.

    Frames, and lists of constants of jaxprs, which the outer trace receives, are left out.
    """
    leaked = [x for x in gc.get_referrers(trace) if issubclass(type(x), Tracer)]
    passing = set(map(id, [leaked, *known]))
    holders = [x for x in gc.get_referrers(*leaked) if id(x) not in passing and not isframe(x)] if leaked else []
    lists = [x for x in holders if type(x) is list]
    consts = {id(x.consts) for x in gc.get_referrers(*lists) if type(x) is ClosedJaxpr} if lists else set()
    return leaked, [x for x in holders if id(x) not in consts]

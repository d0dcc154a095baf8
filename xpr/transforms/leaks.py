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
    leaked = _tracers(trace)
    if leaked:  # some of them may be garbage
        del leaked
        gc.collect()
        leaked = _tracers(trace)
    passing = set(map(id, [leaked, *known]))
    for tracer in leaked:
        holders = [x for x in gc.get_referrers(tracer) if id(x) not in passing and not isframe(x) and not _is_consts(x)]
        if holders:
            *others, last = sorted({type(x).__name__ for x in holders})
            raise LeakedTracerError(
                f"Leaked tracer of type {tracer.aval.str_short()}: it is still referred to after the function it was "
                f"made for has returned, by a {', a '.join(others)}{' and a ' if others else ''}{last}.\n"
                f"{trace.explain(tracer)}"
                "Return it from the function, or keep a value instead, which xpr.debug.callback gives."
            )


def _tracers(trace: Trace) -> list[Tracer]:
    return [x for x in gc.get_referrers(trace) if issubclass(type(x), Tracer)]


def _is_consts(holder: Any) -> bool:
    """Whether it is the list of constants of a jaxpr that is passed on to the enclosing trace."""
    return type(holder) is list and any(type(x) is ClosedJaxpr for x in gc.get_referrers(holder))

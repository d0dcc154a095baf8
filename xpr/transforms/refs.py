"""Reading and writing refs under any interpreter.

A ref holds a value of its owner. Where a program is staged above the owner, reads and writes become equations of that
program; the transformation that staged it discharges them (passes/discharge.py), and reads and writes the ref under the
interpreter below. Other interpreters above the owner pass reads and writes on: what is read depends on no value of
theirs, and what is written must not.
"""

from __future__ import annotations

from typing import Any

from xpr.core.interpreter import Trace, Tracer, context, transformation
from xpr.core.refs import Ref
from xpr.errors import RefError
from xpr.primitives.refs import get_p, swap_p
from xpr.transforms.batch import BatchTrace
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer
from xpr.transforms.stage import StageTrace


def current_owner() -> Trace | None:
    """The owner of a ref that is made now."""
    trace = transformation()
    return None if trace.parent is None else trace


def read(ref: Ref) -> Any:
    """The whole value of a ref.

    Raises:
      RefError: the ref was frozen, or the function it was made in has returned, or its rows are mapped now.
    """
    _check_not_lent(ref)
    trace = context.trace
    while trace is not ref.owner and trace.parent is not None:
        if isinstance(trace, StageTrace):
            return trace.process(get_p, (ref,), {})[0]
        trace = trace.parent
    _check_reached(ref, trace)
    if ref.variable is not None:
        return trace.process(get_p, (ref,), {})[0]
    ref.shared = True
    return ref.held()


def write(ref: Ref, value: Any) -> None:
    """Replaces the whole value of a ref by one of the same type.

    Raises:
      RefError: the ref was frozen, or its function has returned, or its rows are mapped now; or a function that
        `vmap` maps writes one that isn't mapped; or the value is one of an interpreter above its owner.
    """
    _check_not_lent(ref)
    trace = context.trace
    while trace is not ref.owner and trace.parent is not None:
        if isinstance(trace, StageTrace):
            trace.process(swap_p, (ref, value), {})
            return
        if isinstance(trace, BatchTrace):
            raise RefError(
                f"A Ref of type {ref.aval.str_short()}, an unbatched array reference, is written by a function that "
                "vmap maps: it was made outside of the function and isn't mapped itself, and each row would write it.\n"
                "Pass a ref with a row for each as an argument of the mapped function."
            )
        if isinstance(value, Tracer) and value._trace is trace:
            value = _below(value, ref)
        trace = trace.parent
    _check_reached(ref, trace)
    if ref.variable is not None:
        trace.process(swap_p, (ref, value), {})
        return
    ref.held()
    ref.value, ref.shared = value, True


def _check_not_lent(ref: Ref) -> None:
    if ref.lent is not None:
        raise RefError(ref.lent())


def _check_reached(ref: Ref, trace: Trace) -> None:
    if ref.owner is not None and trace is not ref.owner:
        raise RefError(
            f"A Ref of type {ref.aval.str_short()} is used outside of the function in which it was made or to which it "
            "was passed, which was transformed. Make it outside, or return what it holds: ref[...]."
        )


def _below(value: Tracer, ref: Ref) -> Any:
    """A value of one interpreter as one of its parent, for a ref that belongs there."""
    kind = ref.aval.str_short()
    if isinstance(value, (JVPTracer, LinearizeTracer)):
        if ref.aval.kind == "no_grad_no_remat":
            return value.primal
        raise RefError(
            f"A value that is being differentiated is written to a Ref of type {kind}, a non-differentiated array "
            "reference: it was made outside of the differentiated function, and has no tangent.\n"
            "Move the array reference into the function; or write lax.stop_gradient of the value; or make the ref with "
            'new_ref(x, kind="no_grad_no_remat").'
        )
    raise RefError(
        f"A Ref of type {kind} that was made outside of a function that is being {value._trace.verb} is "
        "written inside with a value that depends on its arguments. Make the ref inside, or return the value."
    )

"""Runs operations and refuses random keys that were used before: `debug_key_reuse`.

The bottom interpreter of a thread is replaced, so nothing is checked, and nothing costs time, while it is off. Which
keys of an array are consumed is kept beside the array, as long as it lives.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from xpr.backend.array import Array
from xpr.compile.evaluate import EvalTrace
from xpr.core.avals import aval_of, is_key
from xpr.core.interpreter import context
from xpr.core.jaxpr import JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.core.source import Source, here
from xpr.passes.key_reuse import overlap, reused, touches_keys, union, uses_of

State = tuple[Any, Source | None]  # which keys of an array are consumed, and where that was done
states: dict[int, tuple[Any, list[State]]] = {}  # by id: the array, weakly; arrays of the same keys share a list


def _state_of(x: Any) -> list[State]:
    known = states.get(id(x))
    return known[1] if known is not None and known[0]() is x else [(False, None)]


def _remember(x: Array, state: list[State]) -> None:
    number = id(x)
    states[number] = weakref.ref(x, lambda _: states.pop(number, None)), state


class KeyReuseTrace(EvalTrace):
    """Runs operations by another interpreter, and raises KeyReuseError where a key is used twice."""

    __slots__ = ("inner",)
    runs_programs = False
    runs_known_calls = False

    def __init__(self, inner: EvalTrace):
        super().__init__()
        self.inner = inner

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if not touches_keys(primitive, args, params):
            return self.inner.process(primitive, args, params)
        source = context.source or here(2)
        invars = [Var(aval_of(x)) for x in args]
        outvars = [Var(aval) for aval in primitive.type_of(tuple([v.aval for v in invars]), params)]
        uses = uses_of(JaxprEqn(invars, outvars, primitive, params, source))
        for i, (mask, at) in uses.consumed.items():
            state = _state_of(args[i])
            if overlap(state[0][0], mask):
                raise reused(str(params.get("name", primitive)), state[0][1], source or at)
        outs = self.inner.process(primitive, args, params)
        for i, (mask, _) in uses.consumed.items():
            if type(args[i]) is Array:
                state = _state_of(args[i])
                state[0] = union(state[0][0], mask), source
                _remember(args[i], state)
        for i, out in enumerate(outs):
            if type(out) is Array and is_key(out.aval):
                self.of_result(i, out, args, uses)
        return outs

    def of_result(self, i: int, out: Array, args: Sequence[Any], uses: Any) -> None:
        if i in uses.same and type(args[uses.same[i]]) is Array:
            state = _state_of(args[uses.same[i]])
            _remember(args[uses.same[i]], state)
            _remember(out, state)
        elif i in uses.used:
            _remember(out, [uses.used[i]])

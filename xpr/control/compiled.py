"""compiled: a decorator that runs a function of the library as one compiled program, not operation by operation.

`jit`, for users, is in a higher layer; this is for functions of flat arrays whose other arguments are static. The
function is traced once for each signature. Called eagerly it is one compiled program; during tracing it is one
`xla_call`, so a random draw is one equation of the jaxpr and one function of the lowered text. Its equations have the
line of the call (core/lines.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.array import Array
from xpr.compile.evaluate import EvalTrace, run_jaxpr
from xpr.config import settings
from xpr.control.xla_call import call
from xpr.core.avals import aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars
from xpr.core.primitive import cache_key
from xpr.core.source import OF_CALL
from xpr.transforms.stage import stage

# The functions of the library that are traced once for each signature; `programs` are their caches.
traced_functions: weakref.WeakSet[Any] = weakref.WeakSet()


def staged_for_calls(fun: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> ClosedJaxpr:
    """The jaxpr of a function of flat arguments, whose equations have the line of each of its calls."""
    before, context.source = context.source, OF_CALL
    try:
        return stage(fun, avals)
    finally:
        context.source = before


def clear_compiled() -> None:
    """Clears the caches of the library's functions."""
    for each in traced_functions:
        each.programs.clear()


class _Program:
    """A function traced for one signature."""

    __slots__ = ("closed", "one_result")

    def __init__(self, closed: ClosedJaxpr, one_result: bool):
        self.closed, self.one_result = closed, one_result


class CompiledFunction:
    """A function of flat arrays, and of static arguments given by keyword, that runs as one program."""

    __slots__ = ("fun", "name", "programs", "__weakref__")

    def __init__(self, fun: Callable[..., Any], name: str = ""):
        self.fun, self.name = fun, name or fun.__name__.lstrip("_")
        self.programs: dict[Any, _Program] = {}
        traced_functions.add(self)

    def __call__(self, *operands: Any, **static: Any) -> Any:
        if settings.disable_jit:
            return self.fun(*operands, **static)
        avals = tuple([x.aval if type(x) is Array else aval_of(x) for x in operands])
        key = (avals, settings.trace_key, context.decides_later, context.unreduced, *map(cache_key, static.values()))
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self.trace(avals, static)
        if type(context.trace) is EvalTrace:
            outs = run_jaxpr(constvars_to_invars(program.closed), [*program.closed.consts, *operands], self.name)
        else:
            outs = call(program.closed, operands, self.name)
        return outs[0] if program.one_result else outs

    def trace(self, avals: Sequence[Any], static: dict[str, Any]) -> _Program:
        kinds: list[bool] = []

        def flat(*xs: Any) -> Sequence[Any]:
            outs = self.fun(*xs, **static)
            kinds.append(not isinstance(outs, (tuple, list)))
            return [outs] if kinds[0] else outs

        return _Program(staged_for_calls(flat, avals), kinds[0])


def compiled(fun: Callable[..., Any]) -> CompiledFunction:
    """A decorator: runs a function of arrays as one program, traced once for each signature.

    Its positional arguments are arrays or scalars, its keyword arguments static and hashable, always in the same order;
    it returns one or several arrays. The program has the function's name, without a leading underscore.
    """
    return CompiledFunction(fun)

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

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.operands import operand_buffer
from xpr.compile.evaluate import EvalTrace, recent_program, run_jaxpr
from xpr.compile.known_calls import KnownCaller, KnownCalls
from xpr.config import settings
from xpr.control.xla_call import call as call_jaxpr
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars
from xpr.core.primitive import cache_key
from xpr.core.source import OF_CALL
from xpr.transforms.calls import Call
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
    for function in traced_functions:
        function.forget()


def remember_run(
    known: KnownCalls, call: Call, avals: Sequence[ShapedArray], jaxpr: Jaxpr, consts: Sequence[Any], out_tree: Any
) -> None:
    """Stores the program that has just run for a call, with its constants: calls of the same kind find it in `known`.

    Nothing is stored if the program did not run on the default device.

    Args:
      known: the stored calls.
      call: the call.
      avals: the types of its leaves.
      jaxpr: the jaxpr of the program.
      consts: the leading operands of the program, before the call's leaves.
      out_tree: the structure of the results.
    """
    executable = recent_program(jaxpr)
    if executable is None or any(type(x) is Array and x._device is not None for x in call.leaves):
        return
    call.typed(avals)
    buffers = [x.buffer if type(x) is Array else operand_buffer(x, aval_of(x)) for x in consts]
    known.remember(call, executable, buffers, out_tree)


class _Program:
    """A function traced for one signature."""

    __slots__ = ("closed", "one_result")

    def __init__(self, closed: ClosedJaxpr, one_result: bool):
        self.closed, self.one_result = closed, one_result


class CompiledFunction(KnownCaller):
    """A function of flat arrays, and of static arguments given by keyword, that runs as one program."""

    __slots__ = ("fun", "name", "programs", "__weakref__")

    def __init__(self, fun: Callable[..., Any], name: str = ""):
        self.fun, self.name = fun, name or fun.__name__.lstrip("_")
        self.programs: dict[Any, _Program] = {}
        self.known = KnownCalls(((), ()))
        traced_functions.add(self)

    def forget(self) -> None:
        """Clears the caches."""
        self.programs.clear()
        self.known.clear()

    def call(self, operands: tuple[Any, ...], static: dict[str, Any]) -> Any:
        """The general path, for every kind of call."""
        if settings.disable_jit:
            return self.fun(*operands, **static)
        avals = tuple([x.aval if type(x) is Array else aval_of(x) for x in operands])
        key = (avals, settings.trace_key, context.decides_later, context.unreduced, *map(cache_key, static.values()))
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self.trace(avals, static)
        if type(context.trace) is not EvalTrace:
            outs = call_jaxpr(program.closed, operands, self.name)
        else:
            jaxpr, consts = constvars_to_invars(program.closed), program.closed.consts
            outs = run_jaxpr(jaxpr, [*consts, *operands], self.name)
            self.known.static = (), tuple(static)  # always the same names
            out_tree = tree.structure(0 if program.one_result else outs)
            remember_run(self.known, Call(operands, static, static), avals, jaxpr, consts, out_tree)
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

"""compiled: a function of the library itself that runs as one program, not operation by operation.

`jit` is for users and stands above; this is its core for functions of flat arrays whose other arguments are static. The
function is traced once for each signature. Called eagerly it is one compiled program; while something is traced it is
one `xla_call`, so a random draw is a line of the jaxpr and a function of the program text, whatever it consists of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.array import Array
from xpr.config import settings
from xpr.control.xla_call import call
from xpr.core.avals import aval_of
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import told_apart
from xpr.transforms.stage import stage


class _Program:
    """A function traced for one signature."""

    __slots__ = ("closed", "one_result")

    def __init__(self, closed: ClosedJaxpr, one_result: bool):
        self.closed, self.one_result = closed, one_result


class Compiled:
    """A function of flat arrays, and of static arguments given by keyword, that runs as one program."""

    __slots__ = ("fun", "name", "programs", "__weakref__")

    def __init__(self, fun: Callable[..., Any], name: str = ""):
        self.fun, self.name = fun, name or fun.__name__.lstrip("_")
        self.programs: dict[Any, _Program] = {}
        _all.add(self)

    def __call__(self, *operands: Any, **static: Any) -> Any:
        if settings.disable_jit:
            return self.fun(*operands, **static)
        avals = tuple([x.aval if type(x) is Array else aval_of(x) for x in operands])
        key = (avals, settings.trace_key, *map(told_apart, static.values()))
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self.trace(avals, static)
        outs = call(program.closed, operands, self.name)
        return outs[0] if program.one_result else outs

    def trace(self, avals: Sequence[Any], static: dict[str, Any]) -> _Program:
        kinds: list[bool] = []

        def flat(*xs: Any) -> Sequence[Any]:
            outs = self.fun(*xs, **static)
            kinds.append(not isinstance(outs, (tuple, list)))
            return [outs] if kinds[0] else outs

        return _Program(stage(flat, avals), kinds[0])


_all: weakref.WeakSet[Compiled] = weakref.WeakSet()


def compiled(fun: Callable[..., Any]) -> Compiled:
    """A decorator: runs a function of arrays as one program, traced once for each signature.

    Its positional arguments are arrays or scalars, its keyword arguments static and hashable, given in one order; it
    gives an array, or several. The program has the function's name, less a leading underscore.
    """
    return Compiled(fun)


def clear_compiled() -> None:
    """Forgets every traced program of the library's own functions."""
    for each in _all:
        each.programs.clear()

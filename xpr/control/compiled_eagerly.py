"""compiled_eagerly: a decorator that has a function run as one program where it is called eagerly.

It is for functions with NumPy's signatures, which are a few equations while tracing. Called eagerly, operation by
operation, each would read and write all elements of large arrays; and for small ones, most of the time would go into
looking at arguments. So the function is traced once for each signature. If each of its operations would run in NumPy,
they do so, one after the other; else they are one compiled program. On small arrays that is called faster than NumPy's
functions, so it is compiled, too, once it has been called often enough; its results are the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from xpr import dtypes, tree
from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding
from xpr.compile.evaluate import EvalTrace, run_jaxpr
from xpr.compile.host import HostProgram, host_program, host_values
from xpr.compile.known_calls import KnownCalls, call_known, in_c
from xpr.config import settings
from xpr.control.compiled import remember_run, staged_for_calls, traced_functions
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, constvars_to_invars
from xpr.core.primitive import cache_key
from xpr.key_types import KeyType
from xpr.passes.inline import inline_calls
from xpr.transforms.calls import Call

_F = TypeVar("_F", bound=Callable[..., Any])
_FLOATS = frozenset({float, complex, *[kind for kind in np.sctypeDict.values() if issubclass(kind, np.inexact)]})
_NO_NUMBERS = "OSUMm"  # the kinds of NumPy's dtypes that are no numbers: objects, texts, dates
_INT32 = range(-(2**31), 2**31)
_STATIC = bool, int, float, complex, str, type, Enum, np.generic, np.dtype, type(None)


_WORTH_COMPILING = 5000  # operations: so many run in NumPy in the time that a program is compiled


@dataclass(slots=True)
class _Program:
    """A function traced for one signature, and how it runs: in NumPy, or compiled."""

    consts: list[Any]
    jaxpr: Jaxpr  # its operands are the constants and those of the function
    on_host: HostProgram | None
    out_tree: Any
    host_runs: float  # how often it is still to run in NumPy


class _Programs:
    """The programs of one function, by the types of its operands and the values of its other arguments.

    The program is None if the function needs the value of an operand. `static` has the positions and the names of
    parameters that are never operands. Calls of compiled programs are looked up in `known` first.
    """

    __slots__ = ("fun", "known", "programs", "static", "__weakref__")

    def __init__(self, fun: Callable[..., Any], static: Sequence[str]):
        code: Any = fun.__code__
        positions = [i for i, name in zip(range(code.co_argcount), code.co_varnames) if name in static]
        self.fun, self.static = fun, frozenset([*positions, *static])
        self.programs: dict[Any, _Program | None] = {}
        self.known = KnownCalls((tuple(positions), tuple(static)), by_value=True)
        traced_functions.add(self)

    def forget(self) -> None:
        """Clears the caches."""
        self.programs.clear()
        self.known.clear()

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The results of a call; NotImplemented where there is no program for it."""
        is_committed = False
        operands: list[int | str] = []  # by position or name
        where: Any
        aval: ShapedArray | None
        values, avals = [], []
        key: list[Any] = [settings.trace_key, context.decides_later, *kwargs]
        for where, x in chain(enumerate(args), kwargs.items()):
            if type(x) is Array:
                aval = x.aval
                if type(x._device) is NamedSharding or type(aval.dtype) is KeyType or aval is not aval.plain:
                    return NotImplemented
                is_committed = is_committed or x._device is not None
            else:
                aval = self.operand_type(where, x, args, kwargs)
            if aval is not None:
                operands.append(where)
                values.append(x)
                avals.append(aval)
                key.append(aval)
            elif _is_static(x):
                key.append(cache_key(x))
            else:
                return NotImplemented
        try:
            program = self.programs[tuple(key)]
        except KeyError:
            arguments: Any = {**dict(enumerate(args)), **kwargs}
            program = self.programs[tuple(key)] = self.traced(arguments, operands, avals)
        if program is None:
            return NotImplemented
        outs = None
        if program.on_host is not None and program.host_runs > 0 and not is_committed:
            program.host_runs -= 1
            host = host_values(values, avals)
            outs = None if host is None else program.on_host.run(host)
        if outs is None:
            outs = run_jaxpr(program.jaxpr, [*program.consts, *values], self.fun.__name__)
            if in_c and not is_committed:
                self.remember(program, args, kwargs, operands, avals)
        return tree.unflatten(program.out_tree, outs)

    def remember(
        self,
        program: _Program,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        operands: Sequence[int | str],
        avals: Sequence[ShapedArray],
    ) -> None:
        """Stores the program in `known` for calls of this kind, if its operands are in the order of a call's leaves."""
        by_name = [where for where in operands if isinstance(where, str)]
        if by_name == sorted(by_name):
            static: dict[int | str, Any] = {i: x for i, x in enumerate(args) if i not in operands}
            static.update((name, x) for name, x in kwargs.items() if name not in operands)
            call = Call(tuple(args), kwargs, static)
            remember_run(self.known, call, avals, program.jaxpr, program.consts, program.out_tree)

    def operand_type(self, where: int | str, x: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> ShapedArray | None:
        """The type of an operand that is no `Array`; None for an argument that is none.

        Beside arrays of integers a Python integer is static: it may not fit, which only its value tells.
        """
        kind = type(x)
        if kind is np.ndarray:
            return None if x.dtype.kind in _NO_NUMBERS else aval_of(x)
        is_number = kind in _FLOATS or (kind is int and x in _INT32 and not _has_integers(args, kwargs))
        return aval_of(x) if is_number and where not in self.static else None

    def traced(
        self, arguments: dict[int | str, Any], operands: Sequence[int | str], avals: Sequence[ShapedArray]
    ) -> _Program | None:
        """The program for operands of these types, which are at some positions or have some names."""
        out_trees = []

        def flat(*values: Any) -> list[Any]:
            chosen = {**arguments, **dict(zip(operands, values))}
            kwargs = {name: x for name, x in chosen.items() if isinstance(name, str)}
            outs, out_tree = tree.flatten(self.fun(*[chosen[i] for i in range(len(chosen) - len(kwargs))], **kwargs))
            out_trees.append(out_tree)
            return outs

        try:
            closed = staged_for_calls(flat, avals)
        except Exception:  # the function is then called as it is, and raises it again
            return None
        jaxpr = constvars_to_invars(inline_calls(closed))
        on_host = None if closed.consts else host_program(jaxpr)
        is_small = on_host is not None and on_host.is_small
        host_runs = _WORTH_COMPILING // max(len(jaxpr.eqns), 1) if is_small else math.inf
        return _Program(closed.consts, jaxpr, on_host, out_trees[0], host_runs)


def _has_integers(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an argument is an array that is not of floats or complex numbers."""
    return any(type(x) is Array and x.aval.dtype not in dtypes.INEXACT for x in (*args, *kwargs.values()))


def _is_static(x: Any) -> bool:
    """Whether a value never changes, and has a hash."""
    return all(map(_is_static, x)) if type(x) is tuple else isinstance(x, _STATIC)


def compiled_eagerly(*static: str) -> Callable[[_F], _F]:
    """A decorator: a function of any arguments runs as one program where it is called eagerly on an array.

    Its operands are arrays, and Python's floats; integers, too, where the arrays are of floats. Everything else is
    static, and so are the arguments that are named.

    Args:
      static: the names of parameters whose values may be numbers that the program depends on.

    >>> import xpr.numpy as jnp
    >>> @compiled_eagerly("n")
    ... def shifted(x, n, scale=1.0):
    ...     return jnp.roll(x, n) * scale
    >>> shifted(jnp.arange(3.0), 1, scale=2.0)
    Array([4., 0., 2.], dtype=float32)
    """

    def decorate(fun: _F) -> _F:
        programs = _Programs(fun, static)
        known = programs.known

        @functools.wraps(fun)
        def function(*args: Any, **kwargs: Any) -> Any:
            results = call_known(known, args, kwargs)
            if results is not NotImplemented:
                return results
            if type(context.trace) is EvalTrace and not settings.disable_jit:
                for x in args:
                    if type(x) is Array:
                        results = programs.run(args, kwargs)
                        if results is not NotImplemented:
                            return results
                        break
            return fun(*args, **kwargs)

        return function  # type: ignore[return-value]  # the same signature

    return decorate

"""compiled_eagerly: a decorator that has a function run as one program where it is called eagerly.

It is for functions with NumPy's signatures, which are a few equations while tracing. Called eagerly, operation by
operation, each would read and write all elements of large arrays; and for small ones, most of the time would go into
looking at arguments. So the function is traced once for each signature. Where all its operations are such that each
would run in NumPy, they do so, one after the other; else they are one compiled program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xpr import dtypes, tree
from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding
from xpr.compile.evaluate import EvalTrace, HostProgram, host_program, host_values, run_jaxpr
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, constvars_to_invars
from xpr.core.primitive import cache_key
from xpr.core.source import OF_CALL
from xpr.key_types import KeyType
from xpr.passes.inline import inline_calls
from xpr.transforms.stage import stage

_F = TypeVar("_F", bound=Callable[..., Any])
_FLOATS = frozenset({float, complex, *[kind for kind in np.sctypeDict.values() if issubclass(kind, np.inexact)]})
_NO_NUMBERS = "OSUMm"  # kinds of NumPy's dtypes
_INT32 = range(-(2**31), 2**31)
_STATIC = bool, int, float, complex, str, type, Enum, np.generic, np.dtype, type(None)
_OPERAND = object()  # stands in a key for an argument that is an operand


class _Program(NamedTuple):
    consts: list[Any]
    jaxpr: Jaxpr  # its operands are the constants and those of the function
    on_host: HostProgram | None
    unflatten: Callable[[list[Any]], Any] | None  # None for a single array


class _Arguments(NamedTuple):
    """The arguments of a call: which are operands, the types of those, and a key for the other ones."""

    at: list[int]
    operands: list[Any]
    avals: list[ShapedArray]
    static: list[Any]


class _Programs:
    """The programs of one function, by the types of its operands and the values of its other arguments.

    None stands for a function that needs the value of an operand.
    """

    __slots__ = ("fun", "known", "names", "static")

    def __init__(self, fun: Callable[..., Any], static: Sequence[str]):
        code: Any = fun.__code__
        self.fun, self.static = fun, frozenset(static)
        self.names = code.co_varnames[: code.co_argcount]
        self.known: dict[Any, _Program | None] = {}

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The results of a call; NotImplemented where there is no program for it."""
        values = [*args, *kwargs.values()]
        committed, integers = False, False
        for x in values:
            if type(x) is Array:
                aval = x.aval
                if type(x._device) is NamedSharding or type(aval.dtype) is KeyType or aval is not aval.plain:
                    return NotImplemented
                committed = committed or x._device is not None
                integers = integers or aval.dtype not in dtypes.INEXACT
        arguments = self.arguments(values, len(args), kwargs, integers)
        if arguments is None:
            return NotImplemented
        at, operands, avals, static = arguments
        key = (settings.trace_key, context.decides_later, *static, *kwargs, *avals)
        try:
            program = self.known[key]
        except KeyError:
            program = self.known[key] = self.traced(values, len(args), [*kwargs], at, avals)
        if program is None:
            return NotImplemented
        if program.on_host is not None and not committed:
            host = host_values(operands, avals)
            if host is not None:
                outs = program.on_host.run(host)
                return outs[0] if program.unflatten is None else program.unflatten(outs)
        outs = run_jaxpr(program.jaxpr, [*program.consts, *operands], self.fun.__name__)
        return outs[0] if program.unflatten is None else program.unflatten(outs)

    def arguments(self, values: Sequence[Any], n: int, kwargs: dict[str, Any], integers: bool) -> _Arguments | None:
        """The arguments, of which the first n are given by position; None where one is neither operand nor static.

        Beside arrays of integers a Python integer is static: it may not fit, which only its value tells.
        """
        found = _Arguments([], [], [], [])
        for i, x in enumerate(values):
            kind = type(x)
            if kind is Array:
                found.avals.append(x.aval)
            elif kind is np.ndarray and x.dtype.kind not in _NO_NUMBERS:
                found.avals.append(aval_of(x))
            elif (kind in _FLOATS or (kind is int and not integers and x in _INT32)) and self.name(
                i, n, kwargs
            ) not in self.static:
                found.avals.append(aval_of(x))
            elif _is_static(x):
                found.static.append(cache_key(x))
                continue
            else:
                return None
            found.static.append(_OPERAND)
            found.at.append(i)
            found.operands.append(x)
        return found

    def name(self, i: int, n: int, kwargs: dict[str, Any]) -> str:
        """The name of the parameter that takes the i-th value."""
        if i < n:
            return self.names[i] if i < len(self.names) else ""
        return [*kwargs][i - n]

    def traced(
        self, values: Sequence[Any], n: int, names: Sequence[str], at: Sequence[int], avals: Sequence[ShapedArray]
    ) -> _Program | None:
        """The program for the operands at some positions among the arguments."""
        out_trees = []

        def flat(*operands: Any) -> list[Any]:
            arguments = list(values)
            for i, x in zip(at, operands):
                arguments[i] = x
            outs, out_tree = tree.flatten(self.fun(*arguments[:n], **dict(zip(names, arguments[n:]))))
            out_trees.append(out_tree)
            return outs

        before, context.source = context.source, OF_CALL
        try:
            closed = stage(flat, tuple(avals))
        except Exception:  # which the function raises again when it is called as it is
            return None
        finally:
            context.source = before
        jaxpr = constvars_to_invars(inline_calls(closed))
        on_host = None if closed.consts else host_program(jaxpr)
        unflatten = None if out_trees[0] == _LEAF else out_trees[0].spec.unflatten
        return _Program(closed.consts, jaxpr, on_host, unflatten)


_LEAF = tree.structure(0)


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

        @functools.wraps(fun)
        def function(*args: Any, **kwargs: Any) -> Any:
            if type(context.trace) is EvalTrace and not settings.disable_jit:
                for x in args:
                    if type(x) is Array:
                        results = programs.run(args, kwargs)
                        if results is not NotImplemented:
                            return results
                        break
            return fun(*args, **kwargs)

        _all.append(programs)
        return function  # type: ignore[return-value]  # the same signature

    return decorate


_all: list[_Programs] = []


def clear_compiled_eagerly() -> None:
    """Clears the caches of traced programs."""
    for each in _all:
        each.known.clear()

"""What Python functions close over: the tracers among it, made arguments.

A function with a rule of its own is run by interpreters other than the one it is called under: its rule by the one
below, its batched form inside another, its jaxpr's derivative after all of them are gone. Tracers that it closes over
would be out of place there. So they become operands of the call, where every interpreter sees them, and the functions
are made anew around the values that arrive in their places.

What is looked through: cells of closures, `functools.partial`, methods, pytrees, and the library's own callable objects
(whose class says in `__closes_over__` which attributes). Attributes of other objects and globals are not.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array
from xpr.core.interpreter import Tracer, context

_OPAQUE = frozenset({type(None), bool, int, float, complex, str, bytes, Array, np.ndarray, type})


class Closures:
    """Things that may close over tracers: functions, and pytrees of functions and arrays.

    `tracers` holds each live tracer among it once; `around(values)` gives the things made anew around other values.
    """

    __slots__ = ("things", "tracers", "_touched")

    def __init__(self, *things: Any):
        self.things = things
        self.tracers: list[Tracer] = []
        if context.trace.parent is not None:  # at the bottom there are no live tracers
            walk = _Walk()
            walk.visit(things)
            self.tracers = list(walk.tracers.values())
            self._touched = walk.touched() if self.tracers else set()

    def around(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The things with `values` in the places of the tracers."""
        if not self.tracers:
            return self.things
        return _Rebuilding(self._touched, {id(t): v for t, v in zip(self.tracers, values)}).of(self.things)


def _contents(x: Any) -> list[Any]:
    """What a thing refers to, as far as it is looked through."""
    if isinstance(x, FunctionType):
        return [cell.cell_contents for cell in x.__closure__ or () if _is_full(cell)]
    if isinstance(x, MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, partial):
        return [x.func, *x.args, *x.keywords.values()]
    names = getattr(type(x), "__closes_over__", None)
    if names is not None:
        return [getattr(x, name) for name in names]
    leaves = tree.leaves(x)
    return [] if len(leaves) == 1 and leaves[0] is x else leaves


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # it raises where the variable has no value yet
    except ValueError:
        return False
    return True


class _Walk:
    """Visits all that is reachable, and remembers who refers to whom."""

    def __init__(self) -> None:
        self.tracers: dict[int, Tracer] = {}
        self.referrers: dict[int, list[int]] = {}
        self.visited: dict[int, Any] = {}  # keeps what is visited alive, so that no identity is used twice

    def visit(self, x: Any) -> None:
        self.visited[id(x)] = x
        if isinstance(x, Tracer):
            if x._trace.alive:
                self.tracers[id(x)] = x
            return
        for child in _contents(x):
            if type(child) in _OPAQUE:
                continue
            self.referrers.setdefault(id(child), []).append(id(x))
            if id(child) not in self.visited:
                self.visit(child)

    def touched(self) -> set[int]:
        """The identities of all that refers to a tracer, directly or through others."""
        found: set[int] = set()
        rest = list(self.tracers)
        while rest:
            identity = rest.pop()
            if identity not in found:
                found.add(identity)
                rest.extend(self.referrers.get(identity, ()))
        return found


class _Rebuilding:
    """Makes things anew around other values; what touches no tracer stays the very same object."""

    def __init__(self, touched: set[int], values: dict[int, Any]):
        self.touched, self.made = touched, dict(values)

    def of(self, x: Any) -> Any:
        if id(x) not in self.touched:
            return x
        if id(x) not in self.made:
            self.made[id(x)] = self.anew(x)
        return self.made[id(x)]

    def anew(self, x: Any) -> Any:
        if isinstance(x, FunctionType):
            return self.function(x)
        if isinstance(x, MethodType):
            return MethodType(self.of(x.__func__), self.of(x.__self__))
        if isinstance(x, partial):
            keywords = {key: self.of(value) for key, value in x.keywords.items()}
            return partial(self.of(x.func), *map(self.of, x.args), **keywords)
        names = getattr(type(x), "__closes_over__", None)
        if names is not None:
            clone = self.made[id(x)] = copy.copy(x)
            for name in names:
                setattr(clone, name, self.of(getattr(x, name)))
            return clone
        leaves, treedef = tree.flatten(x)
        return tree.unflatten(treedef, [self.of(leaf) for leaf in leaves])

    def function(self, fun: FunctionType) -> FunctionType:
        """The function with new cells for what is touched; its other variables are shared with the old one."""
        old = fun.__closure__ or ()
        is_new = [_is_full(cell) and id(cell.cell_contents) in self.touched for cell in old]
        cells = tuple([CellType() if new else cell for cell, new in zip(old, is_new)])
        made = FunctionType(fun.__code__, fun.__globals__, fun.__name__, fun.__defaults__, cells)
        made.__kwdefaults__ = fun.__kwdefaults__
        made.__dict__.update(fun.__dict__)
        made.__qualname__, made.__doc__, made.__module__ = fun.__qualname__, fun.__doc__, fun.__module__
        self.made[id(fun)] = made
        for cell, before, new in zip(cells, old, is_new):
            if new:
                cell.cell_contents = self.of(before.cell_contents)
        return made

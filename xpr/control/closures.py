"""Closure conversion: turns the tracers that Python functions close over into arguments.

A function with a user-defined rule is run by interpreters other than the one it is called under: its rule by the outer
one, its batched form inside another, its jaxpr's derivative after all of them have ended. Tracers that it closes over
would be invalid there. So they become operands of the call, which every interpreter sees, and the functions are rebuilt
around the operands' values.

The search covers cells of closures, `functools.partial`, methods, pytrees, and the library's callable objects
(whose class lists the attributes in `__closes_over__`), but not attributes of other objects and globals.
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
from xpr.core.refs import Ref

_OPAQUE = frozenset({type(None), bool, int, float, complex, str, bytes, Array, np.ndarray, type})


class Closures:
    """Things that may close over tracers: functions, and pytrees of functions and arrays.

    `tracers` holds each live tracer among them once; `rebuilt(values)` returns the things rebuilt with other values.
    """

    __slots__ = ("things", "tracers", "_dependent")

    def __init__(self, *things: Any):
        self.things = things
        self.tracers: list[Any] = []
        if context.trace.parent is not None:  # at the bottom there are no live tracers
            walk = _Walk()
            walk.visit(things)
            self.tracers = list(walk.tracers.values())
            self._dependent = walk.dependent() if self.tracers else set()

    def rebuilt(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The things with `values` instead of the tracers."""
        if not self.tracers:
            return self.things
        return _Rebuild(self._dependent, {id(t): v for t, v in zip(self.tracers, values)}).of(self.things)


def _contents(x: Any) -> list[Any]:
    """The objects to which a thing refers, as far as the search covers it."""
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
    """Visits all reachable objects, and records which refer to which."""

    def __init__(self) -> None:
        self.tracers: dict[int, Any] = {}
        self.referrers: dict[int, list[int]] = {}
        self.visited: dict[int, Any] = {}  # keeps visited objects alive, so that no identity is reused

    def visit(self, x: Any) -> None:
        self.visited[id(x)] = x
        if isinstance(x, Tracer):
            if x._trace.alive:
                self.tracers[id(x)] = x
            return
        if type(x) is Ref:
            if x.owner is not None and x.owner.alive:
                self.tracers[id(x)] = x
            return
        for child in _contents(x):
            if type(child) in _OPAQUE:
                continue
            self.referrers.setdefault(id(child), []).append(id(x))
            if id(child) not in self.visited:
                self.visit(child)

    def dependent(self) -> set[int]:
        """The identities of all objects that refer to a tracer, directly or through others."""
        dependent: set[int] = set()
        pending = list(self.tracers)
        while pending:
            identity = pending.pop()
            if identity not in dependent:
                dependent.add(identity)
                pending.extend(self.referrers.get(identity, ()))
        return dependent


class _Rebuild:
    """Rebuilds things with other values; an object that refers to no tracer stays the same object."""

    def __init__(self, dependent: set[int], values: dict[int, Any]):
        self.dependent, self.copies = dependent, dict(values)

    def of(self, x: Any) -> Any:
        if id(x) not in self.dependent:
            return x
        if id(x) not in self.copies:
            self.copies[id(x)] = self.rebuilt(x)
        return self.copies[id(x)]

    def rebuilt(self, x: Any) -> Any:
        if isinstance(x, FunctionType):
            return self.function(x)
        if isinstance(x, MethodType):
            return MethodType(self.of(x.__func__), self.of(x.__self__))
        if isinstance(x, partial):
            keywords = {key: self.of(value) for key, value in x.keywords.items()}
            return partial(self.of(x.func), *map(self.of, x.args), **keywords)
        names = getattr(type(x), "__closes_over__", None)
        if names is not None:
            clone = self.copies[id(x)] = copy.copy(x)
            for name in names:
                setattr(clone, name, self.of(getattr(x, name)))
            return clone
        leaves, treedef = tree.flatten(x)
        return tree.unflatten(treedef, [self.of(leaf) for leaf in leaves])

    def function(self, fun: FunctionType) -> FunctionType:
        """The function with new cells for variables that refer to tracers; the others are shared with the old one."""
        old = fun.__closure__ or ()
        is_new = [_is_full(cell) and id(cell.cell_contents) in self.dependent for cell in old]
        cells = tuple([CellType() if new else cell for cell, new in zip(old, is_new)])
        rebuilt = FunctionType(fun.__code__, fun.__globals__, fun.__name__, fun.__defaults__, cells)
        rebuilt.__kwdefaults__ = fun.__kwdefaults__
        rebuilt.__dict__.update(fun.__dict__)
        rebuilt.__qualname__, rebuilt.__doc__, rebuilt.__module__ = fun.__qualname__, fun.__doc__, fun.__module__
        self.copies[id(fun)] = rebuilt
        for cell, before, new in zip(cells, old, is_new):
            if new:
                cell.cell_contents = self.of(before.cell_contents)
        return rebuilt

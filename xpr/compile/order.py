"""order : jaxpr -> jaxpr. The same equations, each where the rest of the program wants it.

A trace lists equations as Python came to them. That is a good order for those that take long, which keep it; the cheap
ones between them, which XLA fuses into what reads them, move to where they save memory and keep alike things together:

    down   to right before the first that reads them: what only a backward pass reads is computed there
    up     to right after what they are made of, if they lead to results alone: a parameter's update to its gradient
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from xpr.compile.fusion import is_fused
from xpr.core.jaxpr import Jaxpr, JaxprEqn


class _Way(IntEnum):
    """How an equation moves; in this order they stand where they have moved to the same place."""

    DOWN = 0
    STAYS = 1
    UP = 2


def ordered(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr with its cheap equations where they are read, or where they can first be computed."""
    eqns = jaxpr.eqns
    producers = {v: index for index, eqn in enumerate(eqns) for v in eqn.outvars}
    makers = [[producers[v] for v in eqn.invars if v in producers] for eqn in eqns]
    ways, places = _down(eqns, makers, producers)
    for index, way in enumerate(ways):
        if way is _Way.UP:
            places[index] = max((places[maker] for maker in makers[index]), default=-1)
    return jaxpr.replace(eqns=[eqns[i] for i in sorted(range(len(eqns)), key=lambda i: (places[i], ways[i], i))])


def _down(
    eqns: Sequence[JaxprEqn], makers: Sequence[Sequence[int]], producers: dict[Any, int]
) -> tuple[list[_Way], list[int]]:
    """How each equation moves, and where to, of those that move down; the others stand where they are."""
    ways, places = [_Way.STAYS] * len(eqns), list(range(len(eqns)))
    first_reader: list[int | None] = [None] * len(eqns)  # where the first stands of those that do not move up
    for index in reversed(range(len(eqns))):
        eqn, first = eqns[index], first_reader[index]
        if is_fused(eqn):
            if first is None:
                ways[index] = _Way.UP
                continue
            read = [nbytes(v) for v in eqn.invars if v in producers]
            if sum(map(nbytes, eqn.outvars)) >= max(read, default=0):  # keeping what it reads takes no more memory
                ways[index], places[index] = _Way.DOWN, first
        for maker in makers[index]:
            known = first_reader[maker]
            first_reader[maker] = places[index] if known is None else min(known, places[index])
    return ways, places


def nbytes(atom: Any) -> int:
    """The bytes of a value; 0 for what is no array."""
    aval = atom.aval
    return aval.size * aval.dtype.itemsize if hasattr(aval, "size") else 0

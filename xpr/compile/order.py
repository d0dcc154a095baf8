"""order : jaxpr -> jaxpr. Moves cheap equations next to their readers or to their operands, which saves memory.

A trace lists equations in the order in which Python ran. Expensive equations stay where they are. The cheap ones
between them, which XLA fuses into their readers, move:

    down   to right before their first reader: values that only a backward pass reads are computed there
    up     to right after their operands, if only results depend on them: a parameter's update to its gradient
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from xpr.compile.fusion import is_fused
from xpr.core.jaxpr import Jaxpr, JaxprEqn


class _Move(IntEnum):
    """How an equation moves; the order of those that move to the same position."""

    DOWN = 0
    NONE = 1
    UP = 2


def ordered(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr with its cheap equations where they are read, or where they can first be computed."""
    eqns = jaxpr.eqns
    producers = {v: index for index, eqn in enumerate(eqns) for v in eqn.outvars}
    operands_from = [[producers[v] for v in eqn.invars if v in producers] for eqn in eqns]
    moves, positions = _down(eqns, operands_from, producers)
    for index, move in enumerate(moves):
        if move is _Move.UP:
            positions[index] = max((positions[producer] for producer in operands_from[index]), default=-1)
    return jaxpr.replace(eqns=[eqns[i] for i in sorted(range(len(eqns)), key=lambda i: (positions[i], moves[i], i))])


def _down(
    eqns: Sequence[JaxprEqn], operands_from: Sequence[Sequence[int]], producers: dict[Any, int]
) -> tuple[list[_Move], list[int]]:
    """How each equation moves, and the new position of those that move down; the others keep theirs."""
    moves, positions = [_Move.NONE] * len(eqns), list(range(len(eqns)))
    first_reader: list[int | None] = [None] * len(eqns)  # its position, of those that do not move up
    for index in reversed(range(len(eqns))):
        eqn, first = eqns[index], first_reader[index]
        if is_fused(eqn):
            if first is None:
                moves[index] = _Move.UP
                continue
            read = [nbytes(v) for v in eqn.invars if v in producers]
            if sum(map(nbytes, eqn.outvars)) >= max(read, default=0):  # storing its operands takes no more memory
                moves[index], positions[index] = _Move.DOWN, first
        for producer in operands_from[index]:
            known = first_reader[producer]
            first_reader[producer] = positions[index] if known is None else min(known, positions[index])
    return moves, positions


def nbytes(atom: Any) -> int:
    """The bytes of a value; 0 if it is no array."""
    aval = atom.aval
    return aval.size * aval.dtype.itemsize if hasattr(aval, "size") else 0

"""Numbers of bytes that operations read and write, for the `bytes_moved` slots of primitives.

An operation reads its operands and writes its results, as a whole unless it has such a rule: one that reads or writes
at computed indices touches only those elements, and the indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import JaxprEqn

Avals = Sequence[ShapedArray]


def bytes_moved(eqn: JaxprEqn) -> int:
    """The bytes that an equation reads and writes, without those of its inner jaxprs."""
    operands, results = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    rule = eqn.primitive.bytes_moved
    return whole(operands, results) if rule is None else rule(operands, results, **eqn.params)


def size_of(avals: Iterable[ShapedArray]) -> int:
    """The bytes of all these values together."""
    return sum([aval.size * aval.dtype.itemsize for aval in avals])


def whole(operands: Avals, results: Avals, **params: Any) -> int:
    """All operands and results."""
    return size_of(operands) + size_of(results)


def reading(operands: Avals, results: Avals, **params: Any) -> int:
    """The result, which is read and written, and the indices, the operands after the first."""
    return 2 * size_of(results) + size_of(operands[1:])


def updating(operands: Avals, results: Avals, **params: Any) -> int:
    """The update, which is the second operand, read and written into the first, and the indices after it."""
    return 2 * size_of(operands[1:2]) + size_of(operands[2:])


def updating_each(operands: Avals, results: Avals, **params: Any) -> int:
    """The updates, the last operand, each read and joined with an element that is read and written, and the indices."""
    return 3 * size_of(operands[2:]) + size_of(operands[1:2])

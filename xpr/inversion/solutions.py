"""What the rules of inverses take and give, and the tables that hold them.

A rule takes `(results, operands, log_det, **params)`, in which `Unknown(aval)` stands for what is not known, and gives
the solved operands by position, the results that were not known by position, and what the log-determinant gains; or a
text that says why it can't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray, aval_of
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.numpy.indexing.take import take
from xpr.primitives.shapes import reshape
from xpr.primitives.slicing import concatenate


class Unknown:
    """Stands for a value that is not known, in rules."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval


def is_unknown(x: Any) -> bool:
    return type(x) is Unknown


class Solution:
    """What a rule found: operands and results by position; `log_slope`, an array whose sum the log-determinant gains.

    `log_slope` is a function, or None where it is zero; it is asked for only if the log-determinant is.
    """

    __slots__ = ("log_slope", "operands", "results")

    def __init__(
        self,
        operands: dict[int, Any],
        log_slope: Callable[[], Any] | None = None,
        results: dict[int, Any] | None = None,
    ):
        self.operands, self.log_slope, self.results = operands, log_slope, results or {}


class Part:
    """A rule's answer where the result is a part of its first operand: the flat places of its entries there."""

    __slots__ = ("places",)

    def __init__(self, places: np.ndarray):
        self.places = places


class Parts:
    """What is known of a value that is found in parts: arrays of entries, and for each entry which of them has it."""

    __slots__ = ("arrays", "holder", "place")

    def __init__(self, size: int):
        self.arrays: list[Any] = []
        self.holder, self.place = np.full(size, -1), np.zeros(size, np.int32)

    def add(self, places: np.ndarray, value: Any) -> bool:
        """Takes the entries at flat places; gives whether one was new."""
        flat = places.reshape(-1)
        new = self.holder[flat] < 0
        self.holder[flat[new]], self.place[flat[new]] = len(self.arrays), np.flatnonzero(new)
        self.arrays.append(reshape(value, (flat.size,)))
        return bool(new.any()) or not flat.size

    def has(self, places: np.ndarray) -> bool:
        return bool((self.holder[places] >= 0).all())

    def at(self, places: np.ndarray) -> Any:
        """The array of the entries at flat places, in their shape."""
        flat = places.reshape(-1)
        used = np.unique(self.holder[flat]) if flat.size else np.array([0])
        arrays = [self.arrays[i] for i in used]
        joined = concatenate(arrays, 0) if len(arrays) > 1 else arrays[0]
        starts = np.cumsum([0, *(aval_of(x).size for x in arrays)])
        order = starts[np.searchsorted(used, self.holder[flat])] + self.place[flat]
        is_in_order = np.array_equal(order, np.arange(aval_of(joined).size))
        return reshape(joined if is_in_order else take(joined, order), places.shape)


class Equations(NamedTuple):
    """What an equation is the same as: others, with the values of some of their variables."""

    eqns: list[JaxprEqn]
    values: dict[Var, Any]


INVERSES: dict[Any, Callable[..., Solution | Part | str]] = {}
CALLS: dict[Any, Callable[[dict[str, Any]], Jaxpr]] = {}  # primitives that call a jaxpr on their operands
READS: dict[Any, Callable[..., np.ndarray | str]] = {}  # (operands, **params) -> the places of `Part`, or why not
WRITES: dict[Any, Callable[[JaxprEqn, Sequence[Any]], Equations | str]] = {}  # (eqn, operands); a text says why not

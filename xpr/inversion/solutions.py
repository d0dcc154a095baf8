"""The interface of inverse rules: unknown operands, solutions, and the tables of rules.

A rule takes `(results, operands, log_det, **params)`, in which `Unknown(aval)` is a value that is not known, and
returns the solved operands and unknown results by position, and its term of the log-determinant; or a text that says
why it can't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray, aval_of
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.numpy.indexing.take import take
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import reshape
from xpr.primitives.slicing import concatenate


class Unknown:
    """A value that is not known, in rules."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval


def is_unknown(x: Any) -> bool:
    return type(x) is Unknown


def times(x: Any, number: float) -> Any:
    return e.mul(x, e.scalar(number, x))


class Solution:
    """The result of a rule: operands and results by position; `log_slope`, whose sum is added to the log-determinant.

    `log_slope` is a function that returns an array, or None where it is zero; it is called only if the log-determinant
    is needed.
    """

    __slots__ = ("log_slope", "operands", "results")

    def __init__(
        self,
        operands: dict[int, Any],
        log_slope: Callable[[], Any] | None = None,
        results: dict[int, Any] | None = None,
    ):
        self.operands, self.log_slope, self.results = operands, log_slope, results or {}


class PartialSolution:
    """The result of a rule whose equation reads elements of its first operand: their flat indices there."""

    __slots__ = ("indices",)

    def __init__(self, indices: np.ndarray):
        self.indices = indices


class KnownElements:
    """The known elements of a value: arrays, and for each element the number of its array and its offset there."""

    __slots__ = ("arrays", "holder", "offset")

    def __init__(self, size: int):
        self.arrays: list[Any] = []
        self.holder, self.offset = np.full(size, -1), np.zeros(size, np.int32)

    def add(self, indices: np.ndarray, value: Any) -> bool:
        """Adds the elements at flat indices; returns whether one was new."""
        flat = indices.reshape(-1)
        new = self.holder[flat] < 0
        self.holder[flat[new]], self.offset[flat[new]] = len(self.arrays), np.flatnonzero(new)
        self.arrays.append(reshape(value, (flat.size,)))
        return bool(new.any()) or not flat.size

    def has(self, indices: np.ndarray) -> bool:
        return bool((self.holder[indices] >= 0).all())

    def at(self, indices: np.ndarray) -> Any:
        """The array of the elements at flat indices, in their shape."""
        flat = indices.reshape(-1)
        used = np.unique(self.holder[flat]) if flat.size else np.array([0])
        arrays = [self.arrays[i] for i in used]
        joined = concatenate(arrays, 0) if len(arrays) > 1 else arrays[0]
        starts = np.cumsum([0, *(aval_of(x).size for x in arrays)])
        order = starts[np.searchsorted(used, self.holder[flat])] + self.offset[flat]
        is_in_order = np.array_equal(order, np.arange(aval_of(joined).size))
        return reshape(joined if is_in_order else take(joined, order), indices.shape)


class EquivalentEquations(NamedTuple):
    """Equations that are equivalent to another one, with the values of some of their variables."""

    eqns: list[JaxprEqn]
    values: dict[Var, Any]


# What rules return; a text says why they can't.
Answer = Solution | PartialSolution | str

INVERSES: dict[Any, Callable[..., Answer]] = {}
# Primitives that call a jaxpr on their operands.
CALLS: dict[Any, Callable[[dict[str, Any]], Jaxpr]] = {}
# (operands, **params) -> the indices of `PartialSolution`.
READS: dict[Any, Callable[..., np.ndarray | str]] = {}
# (eqn, operands) -> equations that are equivalent to one that writes elements.
WRITES: dict[Any, Callable[[JaxprEqn, Sequence[Any]], EquivalentEquations | str]] = {}

TWO_UNKNOWN = "It has two operands that are not known."

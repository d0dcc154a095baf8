"""Dependence sets: for each element of an array the input elements it depends on, as a sparse boolean matrix in NumPy.

A row lists, in increasing order, the flat indices of the inputs that an element may depend on (compressed sparse rows).
Every function handles all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGEST = 1 << 29  # elements of all sets of an array, 4 GB


class IndexSets:
    """`indices[starts[i]:starts[i + 1]]` is the set of element i; `width` is the number of inputs."""

    __slots__ = ("indices", "starts", "width")

    def __init__(self, starts: np.ndarray, indices: np.ndarray, width: int):
        self.starts, self.indices, self.width = starts, indices, width

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.starts)

    def rows(self) -> np.ndarray:
        """The element that each of the indices belongs to."""
        return np.repeat(np.arange(self.count), self.sizes)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, IndexSets)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays


def identity(count: int) -> IndexSets:
    """The sets of the inputs: element i depends on input i."""
    return IndexSets(np.arange(count + 1), np.arange(count), count)


def empty(count: int, width: int) -> IndexSets:
    """Empty sets: no element depends on an input."""
    return IndexSets(np.zeros(count + 1, np.int64), np.zeros(0, np.int64), width)


def from_pairs(rows: np.ndarray, indices: np.ndarray, count: int, width: int) -> IndexSets:
    """The sets of pairs (element, input), in any order and repeated or not."""
    keys = rows.astype(np.int64) * width + indices
    keys.sort(kind="stable")  # a merge where the pairs are a few sorted runs one after another
    if keys.size:
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    elements, inputs = np.divmod(keys, max(width, 1))
    return IndexSets(_starts(np.bincount(elements, minlength=count)), inputs, width)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def union(sets: Sequence[IndexSets]) -> IndexSets:
    """The union of the sets of corresponding elements, of arrays of one size."""
    different: list[IndexSets] = []
    for each in sets:
        if not any(each is other for other in different):
            different.append(each)
    first = different[0]
    if len(different) == 1:
        return first
    rows = np.concatenate([each.rows() for each in different])
    return from_pairs(rows, np.concatenate([each.indices for each in different]), first.count, first.width)


def gathered(sets: IndexSets, positions: np.ndarray) -> IndexSets:
    """The sets of the elements at `positions`; empty ones where a position is negative."""
    positions = positions.reshape(-1)
    sizes = np.where(positions >= 0, sets.sizes[positions], 0) if sets.count else np.zeros(len(positions), np.int64)
    starts = _starts(sizes)
    shift = np.repeat(sets.starts[:-1][positions] - starts[:-1], sizes) if sets.count else np.zeros(0, np.int64)
    return IndexSets(starts, sets.indices[np.arange(starts[-1]) + shift], sets.width)


def grouped(sets: IndexSets, groups: np.ndarray, count: int) -> IndexSets:
    """For each g the union of the sets i with `groups[i] == g`; those of negative groups are dropped."""
    rows = groups.reshape(-1)[sets.rows()]
    valid = rows >= 0
    return from_pairs(rows[valid], sets.indices[valid], count, sets.width)


def dense_sets(sets: Sequence[IndexSets], count: int) -> IndexSets:
    """Dense dependence: every element depends on all inputs that the arrays depend on."""
    return gathered(merged(sets), np.zeros(count, np.int64))


def merged(sets: Sequence[IndexSets]) -> IndexSets:
    """One set: all inputs that the arrays depend on."""
    inputs: Any = np.unique(np.concatenate([each.indices for each in sets]))
    return IndexSets(np.array([0, len(inputs)]), inputs, sets[0].width)


def joined(parts: Sequence[IndexSets]) -> IndexSets:
    """The sets of one array after those of another."""
    sizes = np.concatenate([each.sizes for each in parts])
    return IndexSets(_starts(sizes), np.concatenate([each.indices for each in parts]), parts[0].width)


def components(parts: Sequence[IndexSets]) -> np.ndarray:
    """For each input the least of its connected component; elements that depend on several inputs connect them."""
    whole = joined(parts)
    label = np.arange(whole.width)
    filled = np.flatnonzero(whole.sizes)
    if not len(filled):
        return label
    rows = np.repeat(np.arange(len(filled)), whole.sizes[filled])
    while True:
        least = np.minimum.reduceat(label[whole.indices], whole.starts[filled])
        lower = label.copy()
        np.minimum.at(lower, label[whole.indices], least[rows])
        lower = np.minimum(lower, lower[label])
        while not np.array_equal(lower, lower[lower]):
            lower = lower[lower]
        if np.array_equal(lower, label):
            return label
        label = lower


def widened(sets: IndexSets, label: np.ndarray) -> IndexSets:
    """Each element depends on all inputs of the components of those that it depends on; these are one component.

    Raises:
      MemoryError: the sets are too large.
    """
    members = from_pairs(label, np.arange(sets.width), sets.width, sets.width)
    positions = np.full(sets.count, -1)
    filled = np.flatnonzero(sets.sizes)
    positions[filled] = label[sets.indices[sets.starts[filled]]]
    total = int(members.sizes[positions[filled]].sum())
    if total > LARGEST:
        raise MemoryError(
            f"sparse_jacobian: {sets.count} elements may depend on {total} of {sets.width} inputs in all, which is not "
            "sparse. They are results of a loop of unknown length: give it a known one, "
            "with fori_loop or scan; or use jacfwd or jvp."
        )
    return gathered(members, positions)

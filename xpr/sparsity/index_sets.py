"""Sets of input entries, one for each entry of an array, as the rows of a sparse boolean matrix in NumPy.

A row lists, in increasing order, the flat places of the inputs that an entry may depend on (compressed sparse rows).
Every function handles all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGEST = 1 << 29  # entries of all sets of an array, 4 GB


class IndexSets:
    """`indices[starts[i]:starts[i + 1]]` is the set of entry i; `width` is the number of inputs."""

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
        """The entry that each of the indices belongs to."""
        return np.repeat(np.arange(self.count), self.sizes)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, IndexSets)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays


def identity(count: int) -> IndexSets:
    """Entry i is input i."""
    return IndexSets(np.arange(count + 1), np.arange(count), count)


def empty(count: int, width: int) -> IndexSets:
    """Nothing depends on anything."""
    return IndexSets(np.zeros(count + 1, np.int64), np.zeros(0, np.int64), width)


def from_pairs(rows: np.ndarray, indices: np.ndarray, count: int, width: int) -> IndexSets:
    """The sets of pairs (entry, input), in any order and repeated or not."""
    keys = rows.astype(np.int64) * width + indices
    keys.sort(kind="stable")  # a merge where the pairs are a few sorted runs one after another
    if keys.size:
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    entries, places = np.divmod(keys, max(width, 1))
    return IndexSets(_starts(np.bincount(entries, minlength=count)), places, width)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def union(sets: Sequence[IndexSets]) -> IndexSets:
    """Entry by entry, of arrays of one size."""
    different: list[IndexSets] = []
    for each in sets:
        if not any(each is other for other in different):
            different.append(each)
    first = different[0]
    if len(different) == 1:
        return first
    rows = np.concatenate([each.rows() for each in different])
    return from_pairs(rows, np.concatenate([each.indices for each in different]), first.count, first.width)


def taken(sets: IndexSets, places: np.ndarray) -> IndexSets:
    """Entry i is entry `places[i]` of another array; where that is negative, it depends on nothing."""
    places = places.reshape(-1)
    sizes = np.where(places >= 0, sets.sizes[places], 0) if sets.count else np.zeros(len(places), np.int64)
    starts = _starts(sizes)
    shift = np.repeat(sets.starts[:-1][places] - starts[:-1], sizes) if sets.count else np.zeros(0, np.int64)
    return IndexSets(starts, sets.indices[np.arange(starts[-1]) + shift], sets.width)


def grouped(sets: IndexSets, groups: np.ndarray, count: int) -> IndexSets:
    """Entry g is the union of the entries i with `groups[i] == g`; negative groups belong nowhere."""
    rows = groups.reshape(-1)[sets.rows()]
    kept = rows >= 0
    return from_pairs(rows[kept], sets.indices[kept], count, sets.width)


def everything(sets: Sequence[IndexSets], count: int) -> IndexSets:
    """Every entry depends on all that the arrays depend on."""
    return taken(merged(sets), np.zeros(count, np.int64))


def merged(sets: Sequence[IndexSets]) -> IndexSets:
    """One entry: all that the arrays depend on."""
    found: Any = np.unique(np.concatenate([each.indices for each in sets]))
    return IndexSets(np.array([0, len(found)]), found, sets[0].width)


def joined(parts: Sequence[IndexSets]) -> IndexSets:
    """The entries of one array after those of another."""
    sizes = np.concatenate([each.sizes for each in parts])
    return IndexSets(_starts(sizes), np.concatenate([each.indices for each in parts]), parts[0].width)


def components(parts: Sequence[IndexSets]) -> np.ndarray:
    """For each input the least of those that it is joined with, by entries that depend on both, and so on."""
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
    """Each entry depends on all inputs of the components of those that it depends on; these are one component.

    Raises:
      MemoryError: the sets are too large.
    """
    members = from_pairs(label, np.arange(sets.width), sets.width, sets.width)
    places = np.full(sets.count, -1)
    filled = np.flatnonzero(sets.sizes)
    places[filled] = label[sets.indices[sets.starts[filled]]]
    total = int(members.sizes[places[filled]].sum())
    if total > LARGEST:
        raise MemoryError(
            f"sparse_jacobian: {sets.count} entries may depend on {total} of {sets.width} entries in all, which is not "
            "sparse. They come out of a loop that may run for any number of steps: give it a number that is known, "
            "with fori_loop or scan; or use jacfwd or jvp."
        )
    return taken(members, places)

"""Repetitions in a sequence: ranges in which every symbol equals the one a period before.

Two factors (consecutive symbols) of length 2^n are equal if their halves are, so that numbering the factors of each
length, from one symbol to half of the sequence, takes n log n steps; equal factors whose distance is at most their
length give the periods (Karp, Miller and Rosenberg, 1972; continued, it sorts the suffixes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_PERIODS = 64  # that are followed, those that cover most of the sequence first


class Repetition(NamedTuple):
    """`symbols[i] == symbols[i + period]` for all i from start to end - period."""

    start: int
    end: int
    period: int

    @property
    def repeats(self) -> int:
        """How many whole periods it has."""
        return (self.end - self.start) // self.period


def repetitions(symbols: np.ndarray, least: int) -> list[Repetition]:
    """The longest repetitions of at least `least` periods, 3 or more; those that repeat most symbols come first.

    >>> repetitions(np.array([9, 1, 2, 1, 2, 1, 2, 1, 7]), 3)
    [Repetition(start=1, end=8, period=2)]
    """
    repeated = []
    for period in _periods(symbols):
        same = np.zeros(len(symbols) - period + 2, bool)
        np.equal(symbols[:-period], symbols[period:], out=same[1:-1])
        starts, ends = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2).T
        long = ends - starts >= (least - 1) * period
        for start, end in zip(starts[long].tolist(), ends[long].tolist()):
            repeated.append(Repetition(start, end + period, period))
    return sorted(repeated, key=lambda each: (each.period - (each.end - each.start), each.period))


def _periods(symbols: np.ndarray) -> list[int]:
    """The distances at which equal factors of at least that length follow each other, the commonest first."""
    ranks, length = np.unique(symbols, return_inverse=True)[1].astype(np.int64), 1
    counts: dict[int, int] = {}
    while len(ranks) > 1:
        ordered = np.sort(ranks * len(ranks) + np.arange(len(ranks)))  # many times as fast as a stable argsort
        rank, position = np.divmod(ordered, len(ranks))
        distances = np.diff(position)[np.diff(rank) == 0]
        near = distances[(distances <= length) & (distances > length // 2)]
        for distance, times in zip(*np.unique(near, return_counts=True)):
            counts[int(distance)] = counts.get(int(distance), 0) + int(times)
        if len(near) == len(distances) == 0 or 2 * length >= len(symbols):
            break
        pairs = ranks[:-length] * (ranks.max() + 1) + ranks[length:]
        ranks, length = np.unique(pairs, return_inverse=True)[1].astype(np.int64), 2 * length
    return sorted(counts, key=lambda period: -counts[period])[:MOST_PERIODS]

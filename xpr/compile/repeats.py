"""Where a sequence repeats itself: stretches in which every symbol equals the one a period before.

Two stretches of 2^n symbols are equal if their halves are, so that numbering the stretches of each length, from one
symbol to half of the sequence, takes n log n steps; equal stretches that follow each other within their length give the
periods (the first half of the way to a suffix array, as Karp, Miller and Rosenberg found, 1972).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_PERIODS = 64  # that are followed, those that cover most of the sequence first


class Stretch(NamedTuple):
    """`symbols[i] == symbols[i + period]` for all i from start to end - period."""

    start: int
    end: int
    period: int

    @property
    def repeats(self) -> int:
        """How many whole periods it has."""
        return (self.end - self.start) // self.period


def stretches(symbols: np.ndarray, least: int) -> list[Stretch]:
    """The longest stretches of at least `least` periods, 3 or more; those come first that repeat most symbols.

    >>> stretches(np.array([9, 1, 2, 1, 2, 1, 2, 1, 7]), 3)
    [Stretch(start=1, end=8, period=2)]
    """
    found = []
    for period in _periods(symbols):
        same = np.zeros(len(symbols) - period + 2, bool)
        np.equal(symbols[:-period], symbols[period:], out=same[1:-1])
        starts, ends = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2).T
        long = ends - starts >= (least - 1) * period
        for start, end in zip(starts[long].tolist(), ends[long].tolist()):
            found.append(Stretch(start, end + period, period))
    return sorted(found, key=lambda each: (each.period - (each.end - each.start), each.period))


def _periods(symbols: np.ndarray) -> list[int]:
    """The distances at which equal stretches follow each other that are at least as long, the commonest first."""
    ranks, length = np.unique(symbols, return_inverse=True)[1].astype(np.int64), 1
    counts: dict[int, int] = {}
    while len(ranks) > 1:
        ordered = np.sort(ranks * len(ranks) + np.arange(len(ranks)))  # many times as fast as a stable argsort
        rank, place = np.divmod(ordered, len(ranks))
        distances = np.diff(place)[np.diff(rank) == 0]
        near = distances[(distances <= length) & (distances > length // 2)]
        for distance, times in zip(*np.unique(near, return_counts=True)):
            counts[int(distance)] = counts.get(int(distance), 0) + int(times)
        if len(near) == len(distances) == 0 or 2 * length >= len(symbols):
            break
        pairs = ranks[:-length] * (ranks.max() + 1) + ranks[length:]
        ranks, length = np.unique(pairs, return_inverse=True)[1].astype(np.int64), 2 * length
    return sorted(counts, key=lambda period: -counts[period])[:MOST_PERIODS]

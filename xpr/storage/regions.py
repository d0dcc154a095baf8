"""Regions of arrays: where one starts, and its shape. Arrays are kept in blocks, and read by region."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

BLOCK = 4 << 20  # bytes


class Box(NamedTuple):
    """A region of an array."""

    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def shared_with(self, other: Box) -> Box:
        """The intersection of both, which may have no elements."""
        start = tuple(map(max, self.start, other.start))
        ends = [min(a + n, b + m) for a, n, b, m in zip(*self, *other)]
        return Box(start, tuple([max(end - a, 0) for a, end in zip(start, ends)]))

    def within(self, outer: Box) -> tuple[slice, ...]:
        """The index of this region in the values of one around it."""
        return tuple([slice(a - b, a - b + n) for a, n, b in zip(*self, outer.start)])

    def blocks(self, itemsize: int) -> Iterator[Box]:
        """The blocks of at most BLOCK bytes in which the region is kept.

        The longest axes are halved first, so that whoever needs a part of the array, whatever part, reads little more.
        """
        sizes = list(self.shape)
        while math.prod(sizes) * itemsize > BLOCK:
            axis = max(range(len(sizes)), key=sizes.__getitem__)
            sizes[axis] = -(-sizes[axis] // 2)
        counts = [-(-n // size) if n else 1 for n, size in zip(self.shape, sizes)]
        for index in itertools.product(*[range(count) for count in counts]):
            offset = [i * size for i, size in zip(index, sizes)]
            shape = [min(size, n - a) for size, n, a in zip(sizes, self.shape, offset)]
            yield Box(tuple([a + b for a, b in zip(self.start, offset)]), tuple(shape))


def region_at(index: Sequence[slice], shape: Sequence[int]) -> Box:
    """The region at an index of slices into an array of that shape."""
    ends = [i.indices(n)[:2] for i, n in zip(index, shape)]
    return Box(tuple([a for a, _ in ends]), tuple([b - a for a, b in ends]))

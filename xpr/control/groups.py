"""Groups: the layout of a flat list of operands or results, so that no rule computes positions.

`Groups(consts=2, carry=1)` is the layout `consts | carry` of lists of three values. A transformation adds values to
some groups, such as tangents: `masked` is the layout of those, `interleave` inserts each group's after the group, and
`deinterleave` separates them again. `rearranged` does the same to the arguments and results of a jaxpr.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from operator import not_
from typing import Any, TypeVar

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr

T = TypeVar("T")


class Groups:
    """Names and sizes of consecutive groups of a list.

    >>> operands = Groups(consts=1, carry=2)
    >>> operands.split(["w", "h", "c"])
    [['w'], ['h', 'c']]
    >>> tangents = operands.masked([False, True, True])
    >>> tangents
    Groups(consts=0, carry=2)
    >>> operands.interleave(["w", "h", "c"], tangents, ["h_dot", "c_dot"])
    ['w', 'h', 'c', 'h_dot', 'c_dot']
    """

    __slots__ = ("_slices", "names", "sizes")

    def __init__(self, **sizes: int):
        self.names, self.sizes = tuple(sizes), tuple(sizes.values())
        self._slices = _slices(self.sizes)

    def __repr__(self) -> str:
        return f"Groups({', '.join(f'{name}={size}' for name, size in zip(self.names, self.sizes))})"

    def split(self, values: Sequence[T]) -> list[list[T]]:
        """One list for each group."""
        groups = []
        for span in self._slices:
            groups.append(list(values[span]))  # a comprehension would be another function call
        return groups

    def part(self, name: str, values: Sequence[T]) -> list[T]:
        """The values of one group."""
        return list(values[self._slices[self.names.index(name)]])

    def positions(self, name: str) -> range:
        """The positions of a group's values in the list."""
        span = self._slices[self.names.index(name)]
        return range(span.start, span.stop)

    def resized(self, sizes: Iterable[int]) -> Groups:
        """Groups of the same names with other sizes."""
        other = Groups.__new__(Groups)
        other.names, other.sizes = self.names, tuple(sizes)
        other._slices = _slices(other.sizes)
        return other

    def masked(self, flags: Sequence[int]) -> Groups:
        """The groups of the marked values; with numbers instead of flags, of that many values for each."""
        return self.resized([sum(flags[span]) for span in self._slices])

    def interleave(self, values: Sequence[T], others: Groups, added: Sequence[T]) -> list[T]:
        """One list in which each group of `values` is followed by the same group of `added`."""
        both: list[T] = []
        for span, span_added in zip(self._slices, others._slices):
            both += values[span]
            both += added[span_added]
        return both

    def deinterleave(self, values: Sequence[T], others: Groups) -> tuple[list[T], list[T]]:
        """The inverse of `interleave`: the values of these groups, and those of the others."""
        first: list[T] = []
        second: list[T] = []
        remaining: Sequence[T] = values
        for size, size_added in zip(self.sizes, others.sizes):
            group, group_added, remaining = split_list(remaining, size, size_added)
            first += group
            second += group_added
        return first, second


@lru_cache(4096)
def _slices(sizes: tuple[int, ...]) -> list[slice]:
    """The slices of groups of those sizes."""
    ends = list(accumulate(sizes))
    return list(map(slice, [0, *ends], ends))


def split_list(values: Sequence[T], *sizes: int) -> list[list[T]]:
    """Consecutive parts of a list with those sizes, and a last part with the remaining elements.

    >>> split_list([1, 2, 3, 4, 5], 2, 1)
    [[1, 2], [3], [4, 5]]
    """
    parts, start = [], 0
    for size in sizes:
        parts.append(list(values[start : start + size]))
        start += size
    parts.append(list(values[start:]))
    return parts


def mask(values: Iterable[T], flags: Iterable[bool]) -> list[T]:
    """The values that are marked.

    >>> mask("abc", [True, False, True])
    ['a', 'c']
    """
    return list(compress(values, flags))


def partition(values: Sequence[T], flags: Sequence[bool]) -> tuple[list[T], list[T]]:
    """The values that are marked, and the others.

    >>> partition("abc", [True, False, True])
    (['a', 'c'], ['b'])
    """
    return list(compress(values, flags)), list(compress(values, map(not_, flags)))


def unmask(values: Iterable[T], flags: Iterable[bool]) -> list[T | None]:
    """The inverse of `mask`: the values where flags are set, None elsewhere.

    >>> unmask("ac", [True, False, True])
    ['a', None, 'c']
    """
    remaining = iter(values)
    return [next(remaining) if flag else None for flag in flags]


def merge(values: Iterable[T], others: Iterable[T], flags: Iterable[bool]) -> list[T]:
    """The inverse of `partition`.

    >>> merge("ac", "b", [True, False, True])
    ['a', 'b', 'c']
    """
    marked, unmarked = iter(values), iter(others)
    return [next(marked if flag else unmarked) for flag in flags]


def any_of(flags: Iterable[Sequence[bool]]) -> tuple[bool, ...]:
    """The elementwise `or` of several lists of flags.

    >>> any_of([[True, False, False], [False, False, True]])
    (True, False, True)
    """
    return tuple(map(any, zip(*flags)))


# -- Jaxprs with their arguments and results in other orders


def rearranged(
    jaxpr: Jaxpr, operands: Groups, added: Groups, results: Groups | None = None, added_results: Groups | None = None
) -> Jaxpr:
    """A jaxpr of `operands | added -> results | added results` with each group's additions after the group.

    Without `results`, the results are unchanged. Cached with the jaxpr.
    """
    key = ("rearranged", operands.sizes, added.sizes, results and results.sizes, added_results and added_results.sizes)
    if key not in jaxpr.memo:
        changes: dict[str, Any] = {"invars": operands.interleave(*_with_additions(jaxpr.invars, operands, added))}
        if results is not None and added_results is not None:
            changes["outvars"] = results.interleave(*_with_additions(jaxpr.outvars, results, added_results))
        jaxpr.memo[key] = jaxpr.replace(**changes)
    return jaxpr.memo[key]


def _with_additions(variables: Sequence[Any], groups: Groups, added: Groups) -> tuple[list[Any], Groups, list[Any]]:
    first, second = split_list(variables, sum(groups.sizes))
    return first, added, second


def consts_after(closed: ClosedJaxpr, count: int) -> Jaxpr:
    """The same program with its constants as arguments, after the first `count`; cached with it."""
    jaxpr = closed.jaxpr
    if not jaxpr.constvars:
        return jaxpr
    key = ("constants after", count)
    if key not in jaxpr.memo:
        first, others = split_list(jaxpr.invars, count)
        jaxpr.memo[key] = jaxpr.replace(constvars=[], invars=[*first, *jaxpr.constvars, *others])
    return jaxpr.memo[key]


def with_unused_arguments(jaxpr: Jaxpr, before: Sequence[ShapedArray] = (), after: Sequence[ShapedArray] = ()) -> Jaxpr:
    """The same program with further arguments, which it does not read; cached with it."""
    if not before and not after:
        return jaxpr
    key = ("with unused arguments", *before, None, *after)
    if key not in jaxpr.memo:
        invars = [*map(FillerVar, before), *jaxpr.invars, *map(FillerVar, after)]
        jaxpr.memo[key] = jaxpr.replace(invars=invars)
    return jaxpr.memo[key]

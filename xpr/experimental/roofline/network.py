"""The links of a network that collectives use, by their kinds.

The devices of a mesh are a torus: along each axis a ring, whose neighbours are linked. Collectives along several axes
use all of them at once: the data is split into as many parts as there are axes, and each part takes them in another
order. Bytes in both directions of a link are counted together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xpr.backend.communication import Collective
from xpr.experimental.roofline.results import RooflineResult

Sizes = Mapping[Any, int]
Coordinates = tuple[int, ...]


def on_links(collective: Collective, sizes: Sizes, perm: Sequence[tuple[int, int]] = ()) -> RooflineResult:
    """The bytes and steps of a collective along axes of these sizes; `perm` says who sends to whom in a permutation."""
    lengths = [sizes[axis] for axis in collective.axes]
    if math.prod(lengths) != collective.group_size and collective.kind != "collective-permute":
        lengths = [collective.group_size]  # groups along a part of the axes, as one ring
    if collective.kind == "collective-permute":
        carried, steps = _permutation(collective.bytes, lengths, perm)
    elif "all-to-all" in collective.kind:
        carried, steps = _exchange(collective, lengths)
    else:
        carried, steps = _rings(collective, lengths)
    return RooflineResult(
        ici_bytes=dict.fromkeys(collective.axes, int(carried)), ici_latency=dict.fromkeys(collective.axes, int(steps))
    )


def _rings(collective: Collective, lengths: Sequence[int]) -> tuple[float, float]:
    """Reductions and gathers go around the ring of each axis, a reduction to all devices twice.

    What a device sends is shared by the axes. Each part goes around all rings, and waits for the longest one.
    """
    rounds = 2 if collective.kind == "all-reduce" else 1
    return collective.sent / len(lengths), rounds * max(lengths) * len(lengths)


def _exchange(collective: Collective, lengths: Sequence[int]) -> tuple[float, float]:
    """Half of all data crosses a cut through the middle of the longest axis, which few links cross.

    Of a ring that is cut in two the halves are linked at both ends, unless it is of two devices.
    """
    longest = max(lengths)
    links = math.prod(lengths) // longest * (2 if longest > 2 else 1)
    return collective.bytes * collective.group_size / 2 / links, sum([length / 2 for length in lengths])


def _permutation(size: int, lengths: Sequence[int], perm: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Values go along one axis after the other, the shorter way around: those on the busiest link, the longest way."""
    carried: Counter[frozenset[Coordinates]] = Counter()
    longest = 0
    for source, target in perm:
        links = list(_route(_coordinates(source, lengths), _coordinates(target, lengths), lengths))
        carried.update(links)
        longest = max(longest, len(links))
    return size * max(carried.values(), default=0), longest


def _coordinates(index: int, lengths: Sequence[int]) -> Coordinates:
    return tuple([int(i) for i in np.unravel_index(index, lengths)])


def _route(source: Coordinates, target: Coordinates, lengths: Sequence[int]) -> Iterator[frozenset[Coordinates]]:
    """The links between two devices, in order, each as the pair of devices that it connects."""
    here = list(source)
    for axis, length in enumerate(lengths):
        forwards = (target[axis] - here[axis]) % length
        step = 1 if forwards <= length - forwards else -1
        for _ in range(min(forwards, length - forwards)):
            before = tuple(here)
            here[axis] = (here[axis] + step) % length
            yield frozenset([before, tuple(here)])

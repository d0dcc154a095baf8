"""The collectives of a compiled program, by which its devices communicate, read from its HLO text.

A program is a list of computations, callees first; a line names a result, its type, the operation and its operands,
then attributes. Which devices communicate is written in one of four ways, see `_groups`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Collective", "collectives_of"]


class Collective(NamedTuple):
    """A communication between devices in a compiled program, as `jit(f).lower(...).compile().collectives()` lists it.

    `kind`: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute" or another of HLO's.
    `bytes`: the size on each device of what is reduced, gathered, scattered or exchanged, whole.
    `axes`: the axes of the mesh along which the devices of a group differ.
    `group_size`: how many devices communicate with each other; 2 for a permute, which sends from one to another.
    `times`: how often it runs in a call, more than once in a loop; None in a loop of unknown length. Each branch of a
    choice counts as if it ran.

    >>> Collective("all-reduce", 4096, ("data",), 8, 1).sent
    7168.0
    """

    kind: str
    bytes: int
    axes: tuple[Any, ...]
    group_size: int
    times: int | None

    @property
    def sent(self) -> float:
        """The bytes that each device must send at least, each time.

        A reduction to all is a scatter of sums and a gather, in each of which a device sends all but one of the
        group's parts (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
        """
        if self.kind == "collective-permute":
            return float(self.bytes)
        passes = 2 if self.kind == "all-reduce" else 1
        return passes * self.bytes * (self.group_size - 1) / self.group_size


_OPERATION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = (?P<type>.*?) (?P<kind>[a-z][a-z\-]*)\((?P<attributes>.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_CALLED = re.compile(
    r"\b(?:body|condition|to_apply|calls|called_computations|branch_computations|true_computation|false_computation)="
    r"(\{[^}]*\}|%?[\w.\-]+)"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")

_KINDS = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
}  # fmt: skip


def collectives_of(text: str, axes: Mapping[Any, int]) -> list[Collective]:
    """The collectives of a program in HLO for a mesh of such axes, in the order of its text."""
    named: list[tuple[str, Collective]] = []
    calls: dict[str, list[tuple[str, int | None]]] = {}
    name = ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            name = header["name"]
            calls[name] = []
        elif operation := _OPERATION.match(line):
            kind, attributes = operation["kind"], operation["attributes"]
            calls[name] += _calls(kind, attributes)
            if kind.removesuffix("-start") in _KINDS:
                named.append((name, _collective(kind, operation["type"], attributes, axes)))
    times = _times(calls)
    return [each._replace(times=times[name]) for name, each in named if times[name] != 0]


def _calls(kind: str, attributes: str) -> Iterator[tuple[str, int | None]]:
    """The computations that an operation calls, and how often."""
    trips = _TRIPS.search(attributes)
    often = 1 if kind != "while" else int(trips[1]) if trips else None
    for called in _CALLED.findall(attributes):
        for callee in called.strip("{}").split(","):
            yield callee.strip().lstrip("%"), often


def _times(calls: dict[str, list[tuple[str, int | None]]]) -> dict[str, int | None]:
    """How often each computation runs in a call of the last one, which is the program; None where that is unknown."""
    times: dict[str, int | None] = dict.fromkeys(calls, 0)
    if calls:
        times[list(calls)[-1]] = 1
    for caller in reversed(calls):
        outer = times[caller]
        for callee, often in calls[caller]:
            inner = times.get(callee)
            unknown = outer is None or inner is None or (often is None and outer)
            times[callee] = None if unknown else inner + outer * (often or 0)  # type: ignore[operator]  # both known
    return times


def _collective(kind: str, types: str, attributes: str, axes: Mapping[Any, int]) -> Collective:
    sizes = [_size(*array) for array in _ARRAY.findall(types)]
    kind, is_start = kind.removesuffix("-start"), kind.endswith("-start")
    if is_start and kind == "collective-permute":
        sizes = sizes[:1]  # operand, result, and what the device keeps to itself
    elif is_start and kind == "all-gather":
        sizes = sizes[len(sizes) // 2 :]  # operands, results
    groups = _groups(attributes, tuple(axes.values()))
    group_size = groups.shape[1]
    whole = sum(sizes) * (group_size if kind == "reduce-scatter" else 1)
    coordinates = np.stack(np.unravel_index(groups, tuple(axes.values())))
    differ = (coordinates != coordinates[:, :, :1]).any(axis=(1, 2))
    return Collective(kind, whole, tuple([name for name, yes in zip(axes, differ) if yes]), group_size, 1)


def _size(dtype: str, shape: str) -> int:
    """The bytes of `f32[8,2]`: the number in the name of a dtype is that of its bits, and `pred` has a byte."""
    bits = re.search(r"\d+", dtype)
    number = math.prod([int(n) for n in shape.split(",") if n])
    return (number * (int(bits[0]) if bits else 8) + 7) // 8


def _groups(attributes: str, sizes: tuple[int, ...]) -> np.ndarray:
    """int[groups, devices]: the devices that communicate, by their positions in the mesh, whose axes have these sizes.

    Either all are listed, `{{0,1},{2,3}}`, as groups or as pairs of source and target; or they are the numbers of a
    grid, `[2,4]<=[4,2]T(1,0)`; or they are along axes of a mesh, `mesh['a'=2,'b'=4] {'b'}`; or they are all devices.
    """
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{.*?\})\}", attributes):
        return _listed(listed[1])
    if grid := re.search(r"replica_groups=(\[\S+)", attributes):
        return _grid(grid[1])
    if named := re.search(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\((\S*)\))? \{(.*?)\}", attributes):
        return _along(*named.groups())
    return np.arange(math.prod(sizes))[None]


def _listed(text: str) -> np.ndarray:
    """The longest of the groups."""
    groups = [_numbers(group) for group in text.split("}")]
    longest = max(map(len, groups))
    return np.array([group for group in groups if len(group) == longest])


def _grid(text: str) -> np.ndarray:
    """The numbers of a grid, `[4,2]`, transposed where there is an order, `T(1,0)`, in another shape, `[2,4]<=`."""
    shape, _, source = text.rpartition("<=")
    grid, _, order = source.partition("T")
    numbers = np.arange(math.prod(_numbers(grid))).reshape(_numbers(grid))
    numbers = numbers.transpose(_numbers(order)) if order else numbers
    return numbers.reshape(_numbers(shape)) if shape else numbers


def _along(mesh: str, devices: str | None, axes: str) -> np.ndarray:
    """Groups along axes of a mesh. Of an axis `'b':(2)4` is the part of size 4 with 2 positions outside of it."""
    sizes = {name: int(size) for name, size in re.findall(r"('[^']*')=(\d+)", mesh)}
    matches = re.findall(r"('[^']*')(?::\((\d+)\)(\d+))?", axes)
    parts = {name: (int(before or 1), int(part or sizes[name])) for name, before, part in matches}
    shape: list[int] = []
    for name, size in sizes.items():
        before, part = parts.get(name, (size, 1))
        shape += [before, part, size // (before * part)]
    numbers = np.arange(math.prod(shape)) if devices is None else _ids(devices)
    grid = np.moveaxis(numbers.reshape(shape), range(1, len(shape), 3), range(-len(sizes), 0))
    return grid.reshape(-1, math.prod(shape[1::3]))


def _ids(text: str) -> np.ndarray:
    return _grid(text).reshape(-1) if text.startswith("[") else np.array(_numbers(text))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]

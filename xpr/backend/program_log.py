"""The programs that some processes have run together, and the hashes that identify them."""

from __future__ import annotations

import zlib
from collections import deque

Ranks = tuple[int, ...]

_REMEMBERED = 1000  # runs


def names(processes: list[int]) -> str:
    """`process 1`, `processes 1 and 3`."""
    if len(processes) == 1:
        return f"process {processes[0]}"
    *first, last = map(str, processes)
    return f"processes {', '.join(first)} and {last}"


class Program:
    """The identity of a program among the processes `ranks` that run it together.

    `ends` says whether it ends, with an error, when Gloo's connections are closed; what waits in NCCL does not.
    """

    __slots__ = ("name", "ranks", "line", "ends", "digest", "number", "has_run", "_compressed")

    def __init__(self, name: str, ranks: Ranks, text: str, line: str, ends: bool):
        self.name, self.ranks, self.line, self.ends = name, ranks, line, ends
        import hashlib  # 3 ms that a process by itself never needs

        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.number = int(self.digest[:15], 16)
        self.has_run = False
        self._compressed = zlib.compress(text.encode(), 1)

    @property
    def text(self) -> str:
        """The text of the program, and the shardings of its arguments and results."""
        return zlib.decompress(self._compressed).decode()

    def __str__(self) -> str:
        return f"{self.name}, called at {self.line}"


class Log:
    """The programs that some processes have run together."""

    __slots__ = ("count", "order", "last", "exchanges", "followers")

    def __init__(self) -> None:
        self.count = 0
        self.order = 0  # a hash of all, in order
        self.last: deque[Program] = deque(maxlen=_REMEMBERED)
        self.exchanges = 0
        self.followers: dict[int, set[int]] = {}  # by program, those that ran right after it

    def add(self, program: Program) -> None:
        if self.last:
            self.followers.setdefault(self.last[-1].number, set()).add(program.number)
        self.order = self.order_with(program)
        self.count += 1
        self.last.append(program)

    def order_with(self, program: Program) -> int:
        """The hash of all, and of a program after them."""
        return (self.order * 1_000_003 + program.number + self.count) % (1 << 61)

    def expects(self, program: Program) -> bool:
        """Whether the program before was always followed by this one, see NOTE [the same programs]."""
        return bool(self.last) and self.followers.get(self.last[-1].number) == {program.number}

    def at(self, number: int) -> Program | None:
        """The program that ran as this number, counted from 0, if it is remembered."""
        index = number - self.count + len(self.last)
        return self.last[index] if 0 <= index < len(self.last) else None

"""Programs that documentation shows: the examples of a docstring, or the cells of a page, which share their names."""

from __future__ import annotations

import dataclasses
import doctest
import json
from collections.abc import Iterable, Iterator
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Step:
    """Source that is run at once. `wanted` is what is shown to be printed, where that is known; `echo` whether the
    values of all expressions are printed, as by the interpreter, or that of the last one, as in a notebook; `details`
    whether the message of an exception is shown, and not only its type.
    """

    source: str
    wanted: str | None = None
    echo: bool = True
    details: bool = True


def step_of(example: doctest.Example) -> Step:
    return Step(example.source, example.want, details=doctest.IGNORE_EXCEPTION_DETAIL not in example.options)


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is compared as one, its number and line in what shows it, and its steps. `may_raise`: it is shown to."""

    number: int
    line: int
    steps: tuple[Step, ...]
    may_raise: bool = False

    @property
    def source(self) -> str:
        return "\n".join(step.source.rstrip() for step in self.steps)


@dataclasses.dataclass(frozen=True)
class Program:
    """The name of a docstring or page, and its cells."""

    name: str
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a step printed; of an exception that it raised, the names of the classes, its own first, and the text."""

    printed: str
    classes: tuple[str, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        return f"{self.printed}{'.'.join(self.classes[:1])}{': ' * bool(self.classes)}{self.text}"


def save(programs: Iterable[Program], path: Path) -> None:
    path.write_text("".join(json.dumps(dataclasses.asdict(each)) + "\n" for each in programs))


def load(path: Path) -> Iterator[Program]:
    for line in path.read_text().splitlines():
        read = json.loads(line)
        yield Program(
            read["name"],
            tuple(Cell(**{**cell, "steps": tuple(Step(**step) for step in cell["steps"])}) for cell in read["cells"]),
        )

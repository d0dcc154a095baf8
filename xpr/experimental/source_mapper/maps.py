"""Source maps: segments that lead from positions in generated text to lines of source files.

In files, mappings are text: lines are separated by `;`, segments by `,`, and a segment is a few numbers, each the
difference to the one before, in base 64: five bits a digit, the lowest first, where bit 0 of all is the sign.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Segment = tuple[int, ...]  # column, or column, source, line and column of it, or these and a name, as differences

_DIGITS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Where the lines of a text came from.

    Attributes:
      version: of the format, 3.
      sources: the names of source files.
      sources_content: their texts, or nothing.
      names: names that segments refer to.
      mappings: for each line of the text its segments, in the order of columns. Numbers are the differences to those of
        the segment before, columns to those in the same line; all begin with 0.

    >>> from xpr.experimental.source_mapper import SourceMap
    >>> source_map = SourceMap(3, ["train.py"], [], [], [[(4, 0, 16, 0)], []])
    >>> SourceMap.from_json(source_map.to_json()) == source_map
    True
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Sequence[Sequence[Segment]]

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """The map in a text that `to_json` or another tool has written."""
        data = json.loads(json_data)
        lines = data["mappings"].split(";")
        return cls(
            version=data["version"],
            sources=data["sources"],
            sources_content=data.get("sourcesContent", []),
            names=data.get("names", []),
            mappings=[[tuple(_numbers(segment)) for segment in line.split(",") if segment] for line in lines],
        )

    def to_json(self) -> str:
        """The map as text, as browsers read it."""
        lines = [",".join(["".join(map(_text, segment)) for segment in line]) for line in self.mappings]
        return json.dumps(
            {
                "version": self.version,
                "sources": list(self.sources),
                "sourcesContent": list(self.sources_content),
                "names": list(self.names),
                "mappings": ";".join(lines),
            }
        )


def _text(number: int) -> str:
    """A number in base 64: bit 0 is its sign, and bit 5 of a digit says that others follow."""
    rest = abs(number) << 1 | (number < 0)
    text = ""
    while True:
        digit, rest = rest & 31, rest >> 5
        text += _DIGITS[digit | (32 if rest else 0)]
        if not rest:
            return text


def _numbers(text: str) -> Iterator[int]:
    number = shift = 0
    for each in text:
        digit = _VALUES[each]
        number |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            yield -(number >> 1) if number & 1 else number >> 1
            number = shift = 0


class MappingsGenerator:
    """Makes the mappings of a `SourceMap` line by line, from columns, lines and indices rather than differences.

    >>> from xpr.experimental.source_mapper import MappingsGenerator
    >>> generator = MappingsGenerator()
    >>> generator.new_group()
    >>> generator.new_segment(2, 0, 10, 4)
    >>> generator.new_segment(7, 0, 9, 0)
    >>> generator.mappings()
    [[(2, 0, 10, 4), (5, 0, -1, -4)]]
    """

    def __init__(self) -> None:
        self._lines: list[list[Segment]] = []
        self._last = [0] * 5

    def new_group(self) -> None:
        """Begins the next line of the text."""
        self._lines.append([])
        self._last[0] = 0

    def new_segment(self, *seg: int) -> None:
        """Adds a segment to the line.

        Args:
          *seg: the column where it begins; if it came from a source then the number of it, the line and the column
            there; if it has a name then the number of that. All are counted from 0.

        Raises:
          ValueError: there are other than 1, 4 or 5 numbers.
          RuntimeError: no line was begun.
        """
        if len(seg) not in (1, 4, 5):
            raise ValueError(f"MappingsGenerator.new_segment: a segment is 1, 4 or 5 numbers, and is {seg}.")
        if not self._lines:
            raise RuntimeError("MappingsGenerator.new_segment: begin a line first, by new_group().")
        self._lines[-1].append(tuple([number - last for number, last in zip(seg, self._last)]))
        self._last[: len(seg)] = seg

    def mappings(self) -> list[list[Segment]]:
        """The segments of all lines."""
        return self._lines


Position = tuple[str, int, int]  # a file, a line and a column, counted from 0


def source_map(lines: Sequence[Sequence[tuple[int, Position]]]) -> SourceMap:
    """The map of a text, from the columns at which parts of each line begin and where these came from."""
    generator, sources = MappingsGenerator(), dict[str, int]()
    for line in lines:
        generator.new_group()
        for column, (file, source_line, source_column) in line:
            generator.new_segment(column, sources.setdefault(file, len(sources)), source_line, source_column)
    generator.new_group()
    return SourceMap(3, list(sources), [], [], generator.mappings())

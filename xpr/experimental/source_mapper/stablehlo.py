"""Source maps of StableHLO, and of other MLIR: of the locations behind its operations.

A location is a line of a file, or has a name around another one, or is that of a function with that of its call:

    #loc4 = loc("train.py":6:0)    #loc7 = loc("f"(#loc4))    #loc8 = loc(callsite(#loc7 at #loc4))
"""

from __future__ import annotations

import re

from xpr.experimental.source_mapper.maps import Position, SourceMap, source_map

_OF_OPERATION = re.compile(r"loc\((#loc\d+)\)")
_DEFINITION = re.compile(r"(#loc\d+) = loc\((.*)\)$")
_LINE = re.compile(r'"(?P<file>.*)":(?P<line>\d+):(?P<column>\d+)')
_AROUND = re.compile(r'"(?:[^"\\]|\\.)*"\((#loc\d+)\)|callsite\((#loc\d+) at #loc\d+\)')


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    """The source map of a text in MLIR with locations.

    Args:
      mlir_dump: the text, as `lower(...).as_text(debug_info=True)` gives it.

    Returns:
      A `SourceMap`, where lines with an operation lead to its innermost line of source.

    >>> from xpr.experimental import source_mapper
    >>> text = '%0 = stablehlo.sine %arg0 loc(#loc2)\\n#loc1 = loc("train.py":6:0)\\n#loc2 = loc("f"(#loc1))'
    >>> source_mapper.create_mlir_sourcemap(text).mappings[0]
    [(0, 0, 5, 0)]
    """
    lines = mlir_dump.split("\n")
    known = {match[1]: match[2] for line in lines if (match := _DEFINITION.match(line))}
    mapped: list[list[tuple[int, Position]]] = []
    for line in lines:
        match = None if line.startswith("#loc") else _OF_OPERATION.search(line)
        where = _position(match[1], known) if match else None
        mapped.append([] if where is None else [(len(line) - len(line.lstrip()), where)])
    return source_map(mapped)


def _position(name: str, known: dict[str, str]) -> Position | None:
    """The line of a location, by those that it refers to; None where it is of no file."""
    text = known.get(name, "")
    if match := _LINE.match(text):
        return match["file"], int(match["line"]) - 1, int(match["column"])
    if match := _AROUND.match(text):
        return _position(match[1] or match[2], known)
    return None

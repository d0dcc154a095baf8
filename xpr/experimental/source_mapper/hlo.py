"""Source maps of HLO, before and after XLA's passes, by the metadata of instructions; and the pass for StableHLO.

Metadata has a file and a line, or the number of a stack frame, which tables at the beginning lead to those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from xpr.api.jit import jit
from xpr.backend.compile_options import compile_options
from xpr.backend.compiler import compile_text
from xpr.backend.devices import default_device
from xpr.experimental.source_mapper.maps import Position, SourceMap, source_map
from xpr.experimental.source_mapper.passes import Pass, SourceMapDump, register_pass
from xpr.experimental.source_mapper.stablehlo import create_mlir_sourcemap

_METADATA = re.compile(r"metadata=\{(?P<fields>.*)\}")
_LINE = re.compile(r'source_file="(?P<file>[^"]*)" source_line=(?P<line>\d+)')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r'(\d+) (?:"(.*)"|\{(.*)\})$')


def parse_hlo_dump(text: str) -> SourceMap:
    """The source map of a program in HLO.

    Args:
      text: the program, as XLA writes it.

    Returns:
      A `SourceMap`, where lines with an instruction lead to its line of source.

    >>> from xpr.experimental import source_mapper
    >>> line = '  x = f32[] sine(y), metadata={op_name="sin" source_file="train.py" source_line=7}'
    >>> source_mapper.parse_hlo_dump(line).mappings[0]
    [(2, 0, 6, 0)]
    """
    lines = text.split("\n")
    tables = _tables(lines)
    mapped: list[list[tuple[int, Position]]] = []
    for line in lines:
        match = _METADATA.search(line)
        where = _position(match["fields"], tables) if match else None
        mapped.append([] if where is None else [(len(line) - len(line.lstrip()), where)])
    return source_map(mapped)


Tables = dict[str, dict[int, Any]]


def _tables(lines: Sequence[str]) -> Tables:
    """The tables of a program by their names: texts, or fields, by the number of the row."""
    tables: Tables = {name: {} for name in _TABLES}
    current: dict[int, Any] | None = None
    for line in lines:
        if line in tables:
            current = tables[line]
        elif not line:
            current = None
        elif current is not None and (row := _ROW.match(line)):
            fields = None if row[3] is None else dict(field.split("=") for field in row[3].split())
            current[int(row[1])] = row[2] if fields is None else {name: int(n) for name, n in fields.items()}
    return tables


def _position(fields: str, tables: Tables) -> Position | None:
    if match := _LINE.search(fields):
        return match["file"], int(match["line"]) - 1, 0
    match = _FRAME.search(fields)
    frame = tables["StackFrames"].get(int(match[1])) if match else None
    place = tables["FileLocations"].get(frame["file_location_id"]) if frame else None
    if place is None:
        return None
    return tables["FileNames"][place["file_name_id"]], place["line"] - 1, place["column"]


# -- Passes


def _lowered(folder: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], **options: Any) -> Any:
    return jit(f).lower(*args, **kwargs)


def _stablehlo(lowered: Any, **options: Any) -> SourceMapDump:
    text = lowered.as_text(debug_info=True)
    return SourceMapDump(create_mlir_sourcemap(text), text, "hlo:stable-hlo")


def _original(lowered: Any, **options: Any) -> SourceMapDump:
    text = lowered.as_text(dialect="hlo", debug_info=True)
    return SourceMapDump(parse_hlo_dump(text), text, "hlo:original")


def _optimized(lowered: Any, *, xla_compiler_flags: dict[str, Any] | None = None, **options: Any) -> SourceMapDump:
    """The program is compiled with its locations, which programs that are run are not."""
    device = default_device()
    located = lowered.as_text(debug_info=True)
    (module,) = compile_text(located, device, compile_options(device, xla_compiler_flags)).hlo_modules()
    text = module.to_string()
    return SourceMapDump(parse_hlo_dump(text), text, "hlo:optimized")


for _name, _generate in (("stable-hlo", _stablehlo), ("original", _original), ("optimized", _optimized)):
    register_pass(Pass(f"hlo:{_name}", _lowered, _generate))

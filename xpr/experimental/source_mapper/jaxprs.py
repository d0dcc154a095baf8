"""Source maps of jaxprs: each equation leads to the expression that it was traced from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.api.make_jaxpr import make_jaxpr
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.lines import with_lines
from xpr.core.source import is_of_call, position
from xpr.experimental.source_mapper.maps import Position, source_map
from xpr.experimental.source_mapper.passes import Pass, SourceMapDump, register_pass
from xpr.text.printer import text_and_positions


def canonicalize_filename(file_name: str) -> str:
    """The name of a source file in maps: the one that Python has for its code.

    Args:
      file_name: a name, as `__file__`.

    Returns:
      The same name. jax removes what the setting `hlo_source_file_canonicalization_regex` matches, which xpr has not.

    >>> from xpr.experimental import source_mapper
    >>> source_mapper.canonicalize_filename("train.py")
    'train.py'
    """
    return file_name


def _traced(
    folder: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], **options: Any
) -> ClosedJaxpr:
    return make_jaxpr(f)(*args, **kwargs)


def _dump(closed: ClosedJaxpr, **options: Any) -> SourceMapDump:
    text, equations = text_and_positions(with_lines(closed.jaxpr))
    lines: list[list[tuple[int, Position]]] = [[] for _ in text.split("\n")]
    for line, column, eqn in equations:
        if eqn.source is not None and not is_of_call(eqn.source):
            number, source_column = position(eqn.source)
            lines[line].append((column, (eqn.source[0].co_filename, number - 1, source_column or 0)))
    return SourceMapDump(source_map(lines), text, "jaxpr")


register_pass(Pass("jaxpr", _traced, _dump))

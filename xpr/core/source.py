"""The user's line: where in the user's own code an equation was made or an error arose.

While tracing, only a code object and an instruction offset are kept; the line is worked out when someone asks.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from functools import partial
from types import CodeType

import numpy as np

from xpr.optree_kept import optree


class SavedLine:
    """What stands for a code object in a program that was saved: the file, the line and the function's name."""

    __slots__ = ("co_filename", "co_firstlineno", "co_name")

    def __init__(self, filename: str, line: int, name: str):
        self.co_filename, self.co_firstlineno, self.co_name = filename, line, name

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return SavedLine, (self.co_filename, self.co_firstlineno, self.co_name)

    def co_positions(self) -> tuple[()]:
        """None: the line is known, and offsets are not."""
        return ()


Code = CodeType | SavedLine
Source = tuple[Code, int] | tuple[Code, int, str]  # see `cotangent_of` for the third

# Folders are told by where the packages lie, whatever folders above them are called.
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_DEMO = _PACKAGE + "demo" + os.sep  # a part of the package that is a user of it
_FOLDERS = [os.path.dirname(str(library.__file__)) + os.sep for library in (np, optree)]
_LIBRARIES = (_PACKAGE, functools.__file__, *_FOLDERS)
_is_internal: dict[str, bool] = {}


def is_internal(filename: str) -> bool:
    """Whether a file belongs to xpr (or to what it calls through), rather than to its user."""
    try:
        return _is_internal[filename]
    except KeyError:
        inside = filename.startswith(_LIBRARIES) and not filename.startswith(_DEMO)
        return _is_internal.setdefault(filename, inside)


def here(depth: int = 1) -> Source | None:
    """The innermost frame outside xpr, looking from `depth` frames above the caller."""
    frame = sys._getframe(depth)
    known = _is_internal
    while frame is not None:
        code = frame.f_code
        internal = known.get(code.co_filename)
        if internal is None:
            internal = is_internal(code.co_filename)
        if not internal:
            return code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return None


def cotangent_of(source: Source | None, operation: str) -> Source | None:
    """The line of a forward operation, for the equations that compute the cotangents of its operands."""
    return source and (source[0], source[1], operation)


def line_number(source: Source) -> int:
    code, offset = source[:2]
    for index, (start, _, _, _) in enumerate(code.co_positions()):
        if 2 * index == offset and start is not None:
            return start
    return code.co_firstlineno


def saved(source: Source | None) -> Source | None:
    """The same line as data, which can be written to a file and copied."""
    if source is None or isinstance(source[0], SavedLine):
        return source
    code = source[0]
    return (SavedLine(code.co_filename, line_number(source), code.co_name), 0, *source[2:])  # type: ignore[return-value]


def summarize(source: Source | None) -> str:
    """`train.py:41 (loss)`."""
    if source is None:
        return "an unknown place"
    code = source[0]
    return f"{os.path.basename(code.co_filename)}:{line_number(source)} ({code.co_name})"


def text_of(source: Source | None) -> str:
    """The line itself, stripped; empty where the file can't be read."""
    return linecache.getline(source[0].co_filename, line_number(source)).strip() if source else ""


def function_name(fun: object) -> str:
    """The name of a callable: its own, that of what a `functools.partial` calls, or that of its class."""
    while isinstance(fun, partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def describe_function(fun: object) -> str:
    """`loss at train.py:12`, or the best that can be said of a callable."""
    while hasattr(fun, "__wrapped__") or isinstance(fun, partial):
        fun = fun.func if isinstance(fun, partial) else fun.__wrapped__
    name = function_name(fun)
    code = getattr(fun, "__code__", None)
    if code is not None and is_internal(code.co_filename):
        return name
    return f"{name} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else name

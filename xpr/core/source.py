"""Source lines: where in the user's code an equation was traced or an error arose.

While tracing, only a code object and an instruction offset are stored; the line is computed when it is needed.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from xpr.optree_kept import optree


class SavedLine:
    """The code object of a program that was saved: the file, the line and the function's name."""

    __slots__ = ("co_filename", "co_firstlineno", "co_name")

    def __init__(self, filename: str, line: int, name: str):
        self.co_filename, self.co_firstlineno, self.co_name = filename, line, name

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return SavedLine, (self.co_filename, self.co_firstlineno, self.co_name)

    def co_positions(self) -> tuple[()]:
        """None: the line is known, and offsets are not."""
        return ()


Code = CodeType | SavedLine
# A code object and an offset into its instructions. Then, where needed: the forward operation that the equation
# computes a cotangent for, or "" (`cotangent_of`); and the names of the scopes around, outermost first, with the
# `Metadata` of blocks among them (`scopes_of`).
Source = tuple[Code, int] | tuple[Code, int, str] | tuple[Code, int, str, tuple[Any, ...]]

# Stands for the line of the call, in the equations of a library function that is traced once for all calls.
OF_CALL: Source = (SavedLine("", 0, "a function of xpr"), 0)

# Library files are recognized by the folder of their package, so user files may be in folders of the same names.
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_DEMO = _PACKAGE + "demo" + os.sep  # a part of the package that is a user of it
_FOLDERS = [os.path.dirname(str(library.__file__)) + os.sep for library in (np, optree)]
_LIBRARIES = (_PACKAGE, functools.__file__, *_FOLDERS)
_is_internal: dict[str, bool] = {}


def package_folder() -> str:
    """The folder of xpr."""
    return _PACKAGE


excluded: list[str] = []  # prefixes of the names of further files whose frames are left out of tracebacks


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


def depth_of_user() -> int:
    """The number of frames between the calling function and the user's line."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    return depth


def is_of_call(source: Source | None) -> bool:
    """Whether an equation with this line is one of a library function, see `OF_CALL`."""
    return source is not None and source[0] is OF_CALL[0]


def line_at_call(source: Source | None, call: Source | None) -> Source | None:
    """The line of an equation in a function that is called from the line `call`."""
    if source is None or source[0] is not OF_CALL[0]:
        return source
    return call and (*call[:2], *source[2:])  # type: ignore[return-value]  # the third is a cotangent's


def cotangent_of(source: Source | None, operation: str) -> Source | None:
    """The line of a forward operation, for the equations that compute the cotangents of its operands."""
    if source is None or len(source) < 4:
        return source and (source[0], source[1], operation)
    names = source[3]
    at = names.index(JVP) if JVP in names else None
    return (*source[:2], operation, names if at is None else (*names[:at], TRANSPOSE, *names[at:]))


def operation_of(source: Source) -> str:
    """The forward operation whose operands' cotangents an equation with this line computes; empty for others."""
    return source[2] if len(source) > 2 else ""


# -- Name scopes


class Transformation(str):
    """The name of a transformation among those of scopes: it is written around the name that follows."""

    __slots__ = ()


class Call(str):
    """The name of a call of a function among those of scopes: transformations of the call are written around it."""

    __slots__ = ()


JVP, TRANSPOSE = Transformation("jvp"), Transformation("transpose")
NOT_WRAPPED = ""  # comes before the name of an operation, around which transformations are not written: `jvp()/sin`


def scopes_of(source: Source | None) -> tuple[Any, ...]:
    """The names of the scopes in which an equation was traced, outermost first, and the `Metadata` of blocks."""
    return source[3] if source is not None and len(source) > 3 else ()


def in_scopes(names: tuple[Any, ...], source: Source | None) -> Source | None:
    """The line of an equation that is within further scopes, around those that it has."""
    if source is None or not names:
        return source
    return source[0], source[1], operation_of(source), (*names, *scopes_of(source))


def without_scopes(source: Source | None) -> Source | None:
    """The line without names of scopes, for the equations of an inner jaxpr: their names are those within it."""
    return source[:3] if source is not None and len(source) > 3 else source


def name_stack(source: Source | None) -> str:
    """The names of the scopes in which an equation was traced: `layer/jvp(loss)`; empty outside of all scopes."""
    return joined(scopes_of(source))


def joined(names: tuple[Any, ...]) -> str:
    """The names of scopes, outermost first, as one: transformations are written around the names that follow them."""
    parts: list[str] = []
    for name in reversed(names):
        if isinstance(name, Metadata):
            continue
        if isinstance(name, Transformation):
            parts.append(f"{name}({parts.pop() if parts else ''})")
        else:
            parts.append(name)
    return "/".join(filter(None, reversed(parts)))


class Metadata(tuple[tuple[str, Any], ...]):
    """The attributes of the operations of a block, names with values, among the names of scopes."""

    __slots__ = ()


def metadata_of(source: Source | None) -> Metadata | None:
    """The metadata of the innermost block in which an equation was traced, or that it is derived from."""
    if source is None or len(source) < 4:
        return None
    return next((name for name in reversed(source[3]) if type(name) is Metadata), None)


def with_metadata(metadata: tuple[tuple[str, Any], ...], source: Source | None) -> Source | None:
    """The line of an equation, with the metadata of the block around it, unless an inner block has given it some."""
    if metadata_of(source) is not None:
        return source
    return in_scopes((Metadata(metadata),), source)


def line_number(source: Source) -> int:
    return position(source)[0]


def position(source: Source) -> tuple[int, int | None]:
    """The line, counted from 1, and the column of its expression, from 0, where that is known."""
    code, offset = source[:2]
    for index, (start, _, column, _) in enumerate(code.co_positions()):
        if 2 * index == offset and start is not None:
            return start, column
    return code.co_firstlineno, None


def saved(source: Source | None) -> Source | None:
    """A source line as data, which can be written to a file and copied; None for that of a call."""
    source = line_at_call(source, None)
    if source is None or isinstance(source[0], SavedLine):
        return source
    code = source[0]
    return (SavedLine(code.co_filename, line_number(source), code.co_name), 0, *source[2:])  # type: ignore[return-value]


def summarize(source: Source | None) -> str:
    """The line in messages, `train.py:41 (loss)`."""
    if source is None or is_of_call(source):
        return "an unknown line"
    code = source[0]
    return f"{os.path.basename(code.co_filename)}:{line_number(source)} ({code.co_name})"


def summarize_position(source: Source | None) -> str:
    """`train.py:41:8 (Model.loss)`: also the column, and the whole name of the function."""
    if source is None or is_of_call(source):
        return "an unknown line"
    code, (line, column) = source[0], position(source)
    place = f"{os.path.basename(code.co_filename)}:{line}" + (f":{column}" if column is not None else "")
    return f"{place} ({getattr(code, 'co_qualname', code.co_name)})"


def text_of(source: Source | None) -> str:
    """The line itself, stripped; empty where the file can't be read."""
    return linecache.getline(source[0].co_filename, line_number(source)).strip() if source else ""


def line_with_text(source: Source | None) -> str:
    """The line in messages, with its text: `train.py:41 (loss): y = model(x)`."""
    return f"{summarize(source)}: {text_of(source)}"


def function_name(fun: object) -> str:
    """The name of a callable: its `__name__`, that of what a `functools.partial` calls, or that of its class."""
    while isinstance(fun, partial) and not hasattr(fun, "__name__"):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def check_function(fun: Any, verb: str) -> None:
    """Raises TypeError if `verb` can't transform `fun`: it is no function, or a generator, or a staticmethod object."""
    if isinstance(fun, staticmethod):
        raise TypeError(f"{verb}: staticmethod arguments are not supported. Write @staticmethod above @{verb}.")
    if not callable(fun):
        raise TypeError(f"{verb}: Expected a callable value, and got {fun!r} of type {type(fun).__qualname__}.")
    code = getattr(fun, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_GENERATOR:
        raise TypeError(
            f"{verb}: Expected a function, got a generator function: {describe_function(fun)}. Return a list of what "
            "it yields, or a tuple."
        )


def describe_function(fun: object) -> str:
    """`loss at train.py:12`, or the best that can be said of a callable."""
    while hasattr(fun, "__wrapped__") or isinstance(fun, partial):
        fun = fun.func if isinstance(fun, partial) else fun.__wrapped__
    name = function_name(fun)
    code = getattr(fun, "__code__", None)
    if code is not None and is_internal(code.co_filename):
        return name
    return f"{name} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else name

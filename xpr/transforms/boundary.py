"""Tracebacks of errors that reach users, without the library's frames.

What remains are the user's frames. `config.update("traceback_filtering", "off")`, or the
environment variable XPR_TRACEBACK_FILTERING=off, shows everything; the other modes are JAX's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from xpr.config import settings
from xpr.core.source import excluded, is_internal
from xpr.transforms.flat import named_like


def _is_of_library(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    return is_internal(filename) or filename.startswith(tuple(excluded))


def without_library_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback with only those frames of another that are outside of the library."""
    frames = []
    while traceback is not None:
        if not _is_of_library(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    trimmed = None
    for tb in reversed(frames):
        trimmed = TracebackType(trimmed, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return trimmed


def _note_nesting(error: RecursionError) -> None:
    """Adds a note to the error: how deeply transformations were nested, at the first boundary with stack to count."""
    limit, frame, depth, calls = sys.getrecursionlimit(), sys._getframe(1), 0, Counter[str]()
    if hasattr(error, "__notes__"):
        return
    traceback = error.__traceback__
    while traceback is not None:
        calls.update(_called_in(traceback.tb_frame))
        traceback = traceback.tb_next
    outer: FrameType | None = frame.f_back
    while outer is not None:
        calls.update(_called_in(outer))
        outer, depth = outer.f_back, depth + 1
    if depth > limit - 100:
        return
    counted = ", ".join(f"{name} {times} times" for name, times in calls.most_common(4))
    error.add_note(
        f"Python allows {limit} calls inside each other. Of xpr's functions there were, inside each other: {counted}. "
        "Where each level does the same, lax.scan or lax.fori_loop does it at any depth; otherwise raise the limit, "
        f"by sys.setrecursionlimit({20 * limit})."
    )


def _called_in(frame: FrameType) -> list[str]:
    if frame.f_code is not _WRAPPER_CODE:
        return []
    return [frame.f_locals["fun"].__qualname__.replace("JitFunction.call", "jit")]


class UnfilteredStackTrace(Exception):
    """The cause of an error in the mode "remove_frames": its traceback has the frames of the library, too."""


_REMOVED = """--------------------
For simplicity, the frames of xpr are not in the traceback of this exception. With XPR_TRACEBACK_FILTERING=off, or \
xpr.config.update("traceback_filtering", "off"), they are."""


def _filter_by_mode(error: Exception, mode: str) -> None:
    """Filters the traceback of an error in a mode other than "auto" and "off", at the outermost boundary."""
    whole = error.__traceback__
    if mode == "tracebackhide":
        traceback = whole
        while traceback is not None:
            if _is_of_library(traceback.tb_frame):
                traceback.tb_frame.f_locals["__tracebackhide__"] = True
            traceback = traceback.tb_next
        return
    error.__traceback__ = without_library_frames(whole)
    if mode == "quiet_remove_frames":
        error.add_note(_REMOVED)
        return
    cause = UnfilteredStackTrace(f"{type(error).__name__}: {error}").with_traceback(whole)
    cause.__cause__, cause.__context__ = error.__cause__, error.__context__
    error.__cause__ = cause


def _is_outermost(frame: FrameType) -> bool:
    """Whether the frame of a boundary is called by no other boundary."""
    outer = frame.f_back
    while outer is not None and outer.f_code is not _WRAPPER_CODE:
        outer = outer.f_back
    return outer is None


def drop_frame(error: Exception) -> None:
    """Removes the frame of a function that calls a boundary from the traceback, unless filtering is off."""
    traceback = error.__traceback__
    assert traceback is not None
    if settings.traceback_filtering == "tracebackhide":
        traceback.tb_frame.f_locals["__tracebackhide__"] = True
    elif settings.traceback_filtering != "off":
        error.__traceback__ = traceback.tb_next


F = TypeVar("F", bound=Callable[..., Any])


def boundary(fun: F) -> F:
    """A function that users call: errors that pass through it lose the library's frames."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            if isinstance(error, RecursionError):
                _note_nesting(error)
            mode = settings.traceback_filtering
            if mode != "auto":
                if mode != "off" and _is_outermost(sys._getframe()):
                    _filter_by_mode(error, mode)
                raise
            error.__traceback__ = without_library_frames(error.__traceback__)
            raise

    return named_like(wrapper, fun)


_WRAPPER_CODE = boundary(boundary).__code__  # shared by all functions that it returns

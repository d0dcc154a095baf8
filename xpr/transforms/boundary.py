"""Tracebacks of errors that reach users, without the library's frames.

What remains are the user's frames and one line of xpr. `config.update("traceback_filtering", False)`, or the
environment variable XPR_TRACEBACK_FILTERING=0, shows everything.
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


def without_library_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback with the frames of code outside the library only."""
    frames = []
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not is_internal(filename) and not filename.startswith(tuple(excluded)):
            frames.append(traceback)
        traceback = traceback.tb_next
    trimmed = None
    for tb in reversed(frames):
        trimmed = TracebackType(trimmed, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return trimmed


def _note_nesting(error: RecursionError) -> None:
    """Adds a note to the error: which functions of the library were called inside each other, if the stack is deep."""
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


F = TypeVar("F", bound=Callable[..., Any])


def boundary(fun: F) -> F:
    """A function that users call: errors that pass through it lose the library's frames."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            if isinstance(error, RecursionError):
                _note_nesting(error)
            if not settings.traceback_filtering:
                raise
            raise error.with_traceback(without_library_frames(error.__traceback__))  # noqa: B904  # the same error

    return named_like(wrapper, fun)


_WRAPPER_CODE = boundary(boundary).__code__  # shared by all functions that it returns

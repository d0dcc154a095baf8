"""Where errors leave the library: its own frames are cut out of their tracebacks.

What remains are the user's frames and one line of xpr. `config.update("traceback_filtering", False)`, or the
environment variable XPR_TRACEBACK_FILTERING=0, shows everything.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from xpr.config import settings
from xpr.core.source import is_internal
from xpr.transforms.flat import named_like


def without_library_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback with the frames of other people's code only."""
    frames = []
    while traceback is not None:
        if not is_internal(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for tb in reversed(frames):
        kept = TracebackType(kept, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return kept


F = TypeVar("F", bound=Callable[..., Any])


def boundary(fun: F) -> F:
    """A function that users call: errors that pass through it lose the library's frames."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            if not settings.traceback_filtering:
                raise
            raise error.with_traceback(without_library_frames(error.__traceback__))  # noqa: B904  # the same error

    return named_like(entry, fun)

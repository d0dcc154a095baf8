"""`jax.extend.source_info_util`: which files are left out of tracebacks."""

from __future__ import annotations

from typing import Any

from xpr.core.source import excluded, here
from xpr.core.source import summarize as summarize

__all__ = ["current", "register_exclusion", "summarize"]


def register_exclusion(path: str) -> None:
    """Leaves the frames of a file, or of all files in a folder, out of tracebacks, as those of xpr are.

    Args:
      path: what the file names begin with.
    """
    if path not in excluded:
        excluded.append(path)


def current() -> Any:
    """The line of the user's program that is running."""
    return here()

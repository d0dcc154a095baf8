"""`jax.extend.source_info_util`: lines of equations, and which files are left out of tracebacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xpr.core.interpreter import context
from xpr.core.source import excluded, here
from xpr.core.source import summarize as summarize

__all__ = ["current", "register_exclusion", "summarize", "user_context"]


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


@contextmanager
def user_context(traceback: Any, *, name_stack: Any = None) -> Iterator[None]:
    """Gives operations in the `with` block the line of an equation: the one that an interpreter of jaxprs evaluates.

    Args:
      traceback: `eqn.source_info.traceback`. With None operations have the line that calls them.
      name_stack: has no effect, since the names of scopes belong to the line.

    >>> import xpr
    >>> from xpr.extend import source_info_util
    >>> jaxpr = xpr.make_jaxpr(xpr.lax.sin)(1.0)
    >>> (eqn,) = jaxpr.jaxpr.eqns
    >>> with source_info_util.user_context(eqn.source_info.traceback):
    ...     again = xpr.make_jaxpr(eqn.primitive.bind)(1.0)
    >>> again.jaxpr.eqns[0].source_info == eqn.source_info
    True
    """
    before, context.source = context.source, traceback
    try:
        yield
    finally:
        context.source = before

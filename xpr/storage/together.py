"""Steps of several processes: one process works for all, or each for itself; where one fails, all raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xpr.backend.processes import group

R = TypeVar("R")


def process_index() -> int:
    """The number of this process."""
    processes = group()
    return 0 if processes is None else processes.index


def on_all(
    what: str, work: Callable[[], R], describe: Callable[[R], Any] = lambda result: result
) -> tuple[R, list[Any]]:
    """What `work` gives here, and what `describe` makes of it on each process, when it is done on all.

    Raises:
      Exception: what `work` raises here.
      RuntimeError: it failed on another process; the message says with what.
      ProcessLost: another process is gone.
    """
    processes = group()
    if processes is None:
        result = work()
        return result, [describe(result)]
    try:
        result = work()
    except Exception as error:
        processes.exchange(processes.everyone, what, {"failed": f"{type(error).__name__}: {error}"})
        raise
    replies = processes.exchange(processes.everyone, what, {"done": describe(result)})
    for index, reply in sorted(replies.items()):
        if "failed" in reply:
            raise RuntimeError(f"{what}: it failed on process {index}, and so on all of them.\n{reply['failed']}")
    return result, [reply["done"] for _, reply in sorted(replies.items())]


def on_first(what: str, work: Callable[[], R]) -> R:
    """What `work` gives on process 0, which alone does it."""
    return on_all(what, lambda: work() if process_index() == 0 else None)[1][0]

"""What several processes do together: one works for all, or each for itself, and all know how it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xpr.backend.processes import group

R = TypeVar("R")


def process_index() -> int:
    """The number of this process."""
    processes = group()
    return 0 if processes is None else processes.index


def on_all(what: str, work: Callable[[], R], tell: Callable[[R], Any] = lambda result: result) -> tuple[R, list[Any]]:
    """What `work` gives here, and what `tell` makes of it on each process, when it is done on all.

    Raises:
      Exception: what `work` raises here.
      RuntimeError: it failed on another process; the message says with what.
      ProcessLost: another process is gone.
    """
    processes = group()
    if processes is None:
        result = work()
        return result, [tell(result)]
    try:
        result = work()
    except Exception as error:
        processes.exchange(processes.everyone, what, {"failed": f"{type(error).__name__}: {error}"})
        raise
    answers = processes.exchange(processes.everyone, what, {"done": tell(result)})
    for index, answer in sorted(answers.items()):
        if "failed" in answer:
            raise RuntimeError(f"{what}: it failed on process {index}, and so on all of them.\n{answer['failed']}")
    return result, [answer["done"] for _, answer in sorted(answers.items())]


def on_first(what: str, work: Callable[[], R]) -> R:
    """What `work` gives on process 0, which alone does it."""
    return on_all(what, lambda: work() if process_index() == 0 else None)[1][0]

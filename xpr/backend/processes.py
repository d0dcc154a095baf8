"""The group of processes that this one runs programs with, and where their programs run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xpr.backend.program_log import Program, names
from xpr.errors import ProcessLost

if TYPE_CHECKING:
    from xpr.backend.process_group import ProcessGroup

R = TypeVar("R")

_group: ProcessGroup | None = None


def group() -> ProcessGroup | None:
    """The processes that this one runs programs with; None where it is alone."""
    return _group


def run(program: Program, execute: Callable[[], R]) -> R:
    """The result of `execute`, which runs a program that other processes run too; see `ProcessGroup.run`."""
    return group_of(str(program), program.ranks).run(program, execute)


def group_of(what: str, ranks: Sequence[int]) -> ProcessGroup:
    """The group, which something needs that runs on devices of these processes.

    Raises:
      ProcessLost: this process has left it.
    """
    if _group is None:
        raise ProcessLost(
            f"{what} runs on devices of {names(list(ranks))}, and distributed.shutdown() was called, after "
            "which this process is alone."
        )
    return _group


def join(*args: Any) -> None:
    """Makes this process one of a group; see `ProcessGroup`."""
    from xpr.backend.process_group import ProcessGroup  # 15 ms of imports that a process by itself never needs

    global _group
    _group = ProcessGroup(*args)


def leave() -> None:
    """Ends the group, in order or, where an exception ends the script, at once."""
    global _group
    if _group is not None:
        left, _group = _group, None
        left.leave(getattr(sys, "last_value", None))

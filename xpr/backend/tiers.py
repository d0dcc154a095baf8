"""Programs that are compiled quickly first, and optimized in the background if they run for long enough.

Most programs of a script run once or a few times, for microseconds. XLA:CPU compiles them in half of the time, or less,
if it doesn't optimize. When the quick program has run for some time, another thread compiles the optimized one, which
then takes its place. Its results may differ in the last bits.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Any

ENOUGH = 0.1  # the part of the time it took to compile for which a program is to have run
RUNS = 3  # how often instead, if XLA runs it in the background, where it is not known how long


class TieredProgram:
    """A program that an optimized one replaces, with the interface of jaxlib's.

    Attributes:
      raw: the program that is run.
      is_quick: whether it is the quick one still.
    """

    __slots__ = ("_each", "_left", "_optimize", "is_quick", "raw")

    def __init__(self, quick: Any, optimize: Callable[[], Any], seconds: float, in_background: bool):
        """`optimize` compiles the optimized program, and `seconds` is how long it took to compile the quick one."""
        self.raw, self.is_quick, self._optimize = quick, True, optimize
        self._each = 1.0 if in_background else 0.0
        self._left = RUNS if in_background else ENOUGH * seconds  # runs, or seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Any], with_tokens: bool = False) -> Any:
        if self._left <= 0:
            return self.raw.execute_sharded(buffers, with_tokens)
        start = perf_counter()
        results = self.raw.execute_sharded(buffers, with_tokens)
        self._left -= self._each or perf_counter() - start
        if self._left <= 0:
            _in_background(self.replace)
        return results

    def replace(self) -> None:
        """Compiles the optimized program, and has it run from now on."""
        try:
            self.raw = self._optimize()
        except RuntimeError:
            return  # the quick program gives the same results
        self.is_quick = False


_tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
_threads: list[threading.Thread] = []  # the one that compiles; a forked process has one of its own
_is_ending = False


def _in_background(task: Callable[[], None]) -> None:
    if not _threads or not _threads[0].is_alive():
        _threads[:] = [threading.Thread(target=_work, name="xpr-optimizer", daemon=True)]
        _threads[0].start()
    _tasks.put(task)


def _work() -> None:
    while (task := _tasks.get()) is not None:
        if not _is_ending:
            task()


@atexit.register
def _end() -> None:
    """Waits for the program that is being compiled: a thread in XLA must not be ended by Python."""
    global _is_ending
    _is_ending = True
    if _threads:
        _tasks.put(None)
        _threads[0].join()

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

# The quick program is replaced once its runs have taken this fraction of the time in which it was compiled. If XLA runs
# it in the background, where their time isn't known, it is replaced after so many runs.
ENOUGH = 0.1
RUNS = 3


class TieredProgram:
    """A quickly compiled program, and later the optimized one, with the interface of jaxlib's programs.

    Args:
      quick: the quick program.
      optimize: compiles the optimized one.
      seconds: how long it took to compile the quick one.
      in_background: whether XLA runs the program after the call that starts it has returned.

    Attributes:
      raw: the program that is run.
      is_quick: whether it is still the quick one.
    """

    __slots__ = ("_counts_runs", "_left", "_optimize", "is_quick", "raw")

    def __init__(self, quick: Any, optimize: Callable[[], Any], seconds: float, in_background: bool):
        self.raw, self.is_quick, self._optimize = quick, True, optimize
        self._counts_runs = in_background
        self._left = RUNS if in_background else ENOUGH * seconds  # runs, or seconds, until it is replaced

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Any], with_tokens: bool = False) -> Any:
        if self._left <= 0:
            return self.raw.execute_sharded(buffers, with_tokens)
        start = perf_counter()
        results = self.raw.execute_sharded(buffers, with_tokens)
        self._left -= 1 if self._counts_runs else perf_counter() - start
        if self._left <= 0:
            _schedule(self.replace)
        return results

    def replace(self) -> None:
        """Compiles the optimized program, which is run from now on."""
        try:
            self.raw = self._optimize()
        except RuntimeError:
            return  # it can't be compiled; the quick program goes on
        self.is_quick = False


_tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
_threads: list[threading.Thread] = []  # one at most, which compiles; a forked process starts its own
_is_ending = False


def _schedule(task: Callable[[], None]) -> None:
    """Queues a task for the thread that compiles, which is started if need be."""
    if not _threads or not _threads[0].is_alive():
        _threads[:] = [threading.Thread(target=_work, name="xpr-optimizer", daemon=True)]
        _threads[0].start()
    _tasks.put(task)


def _work() -> None:
    while (task := _tasks.get()) is not None:
        if not _is_ending:
            task()
        del task  # or its program would live until there is another


@atexit.register
def _end() -> None:
    """Waits for the program that is being compiled, and compiles no others: Python must not end a thread inside XLA."""
    global _is_ending
    _is_ending = True
    if _threads:
        _tasks.put(None)
        _threads[0].join()

"""Running and waiting for long programs so that an interrupt (Ctrl-C) gets through.

XLA holds off Python's signal handlers until a program has ended; a lock does not. So another thread runs the program,
or waits for it, and the main thread waits for that one. The hand-over takes some 20 microseconds, too much for short
programs. Therefore only programs that have loops or much to do are watched, and a program that was done soon when it
first ran is run directly from then on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from xpr.backend import runtime

LARGE = 2e8  # operations, or bytes read and written
SOON = 0.01  # seconds

_started = threading.local()  # `long`: whether this thread started a watched program that it has not waited for since


class WatchedProgram:
    """A program that may take long, with the interface of jaxlib's."""

    __slots__ = ("_is_large", "_is_long", "_raw")

    def __init__(self, raw: Any, is_large: bool):
        self._raw, self._is_large, self._is_long = raw, is_large, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute_sharded(self, *args: Any, **options: Any) -> Any:
        if not self._is_long:
            return self._raw.execute_sharded(*args, **options)
        _started.long = True
        start = perf_counter()
        results = _interruptible(lambda: self._raw.execute_sharded(*args, **options))
        self._is_long = self._is_large or perf_counter() - start > SOON
        return results


def watched(raw: Any, text: str) -> Any:
    """The program, watched if it has loops or much to do; `text` is its StableHLO."""
    costs = raw.cost_analysis()
    is_large = max(costs.get("flops", 0.0), costs.get("bytes accessed", 0.0)) > LARGE
    return WatchedProgram(raw, is_large) if is_large or "stablehlo.while" in text else raw


def block_until_ready(buffers: Sequence[Any]) -> None:
    """Waits for buffers.

    Raises:
      KeyboardInterrupt: the main thread waited for a long program, and was interrupted.
      RuntimeError: what the computation of one of them failed with.
    """
    if not getattr(_started, "long", False):
        runtime._jax.batched_block_until_ready(buffers)
        return
    _interruptible(lambda: runtime._jax.batched_block_until_ready(buffers))
    _started.long = False


def _interruptible(task: Callable[[], Any]) -> Any:
    """The result of a function of jaxlib that another thread runs, while the main thread handles interrupts."""
    if threading.current_thread() is not threading.main_thread():
        return task()
    outcome: list[tuple[Any, Exception | None]] = []
    done = threading.Lock()
    done.acquire()

    def run() -> None:
        try:
            outcome.append((task(), None))
        except (RuntimeError, ValueError) as error:
            outcome.append((None, error))
        done.release()

    tasks = _tasks()
    tasks.put(run)
    try:
        done.acquire()
    except KeyboardInterrupt as interrupt:
        _threads.clear()  # it is busy: what runs next is for another one
        tasks.put(None)
        interrupt.add_note(
            "Interrupted while a compiled program ran. XLA can't stop it: it goes on in the background, and Python "
            "ends only after it. Ctrl-\\ (SIGQUIT) ends the process at once."
        )
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


_threads: list[SimpleQueue[Any]] = []


def _tasks() -> SimpleQueue[Any]:
    """The queue of the other thread, which is started when it is first needed."""
    if not _threads:
        tasks: SimpleQueue[Any] = SimpleQueue()
        _threads.append(tasks)
        threading.Thread(target=_work, args=(tasks,), name="xpr programs", daemon=True).start()
    return _threads[0]


def _forget_threads() -> None:
    """In a fork, which has none of them; what it reads is there already."""
    _threads.clear()
    _started.long = False


os.register_at_fork(after_in_child=_forget_threads)


def _work(tasks: SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        task()

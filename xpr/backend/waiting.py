"""Running and waiting for programs so that an interrupt (Ctrl-C) gets through, and the process ends after them.

XLA holds off Python's signal handlers until a program has ended; a lock does not. So another thread runs the program,
or waits for it, and the main thread waits for that one. The hand-over takes some 20 microseconds, too much for short
programs. Therefore only programs that have loops or much to do are watched, and a program that was done soon when it
first ran is run directly from then on.

NOTE [end of the process]: XLA runs programs of 1000 operations or more in the background, and doesn't end its threads
when the process ends: libc then frees what a running program uses, and the process may crash. So of each program in
the background something is kept that tells when it has ended, and that is waited for when Python exits: its first
result, if that is small, or else a token, which takes XLA a microsecond more. To ask each result whether it is there
before it is dropped takes a microsecond, too. So of programs that run for microseconds only the latest results are
kept, as many as XLA runs at a time, and nobody asks: an older one that has not ended waits for another program, which
is kept itself, and then runs for microseconds, while Python takes milliseconds to end.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from xpr.backend import runtime
from xpr.backend.tiers import TieredProgram
from xpr.config import native_code_wanted
from xpr.core.avals import ShapedArray

try:
    from xpr.backend import _waiting
except ImportError:
    _waiting = None  # type: ignore[assignment]  # a module, where it is built

LARGE = 2e8  # operations, or bytes read and written
SOON = 0.01  # seconds
SYNCHRONOUS = 1000  # operations: XLA:CPU runs programs of fewer ones in the thread that calls them
SHORT = 1e5  # operations, or bytes read and written, that take microseconds
SMALL = 1 << 16  # bytes of a result that may be kept in place of a token
_AT_A_TIME = 32  # programs that XLA:CPU runs on each device

# How many programs may run in the background before the first is waited for; 0 once Python exits.
most_in_background = 2 * _AT_A_TIME


class Waiting(IntEnum):
    """When the results of a program's runs are waited for; compile/_known_calls.c knows the numbers."""

    NEVER = 0
    AT_EXIT = 1  # by a token that is kept, see NOTE [end of the process]
    AT_ONCE = 2  # since the run may fail, and another way is taken then
    AT_EXIT_BY_RESULT = 3  # by the first result
    AT_EXIT_IF_LATEST = 4  # by the first result, if it is among the latest then


class _ThreadState(threading.local):
    """Whether this thread has started programs that it may have to wait for."""

    has_started_long = False  # whether it has started a program that may take long, and not waited since


_this_thread = _ThreadState()


class BackgroundProgram:
    """A program that XLA runs in the background, with the interface of jaxlib's; see NOTE [end of the process]."""

    __slots__ = ("is_short", "raw")

    def __init__(self, raw: Any, is_short: bool):
        self.raw, self.is_short = raw, is_short

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Any], with_tokens: bool = False) -> Any:
        results = self.raw.execute_sharded(buffers, with_tokens=True)
        if not with_tokens:
            keep_until_done(results.consume_token())
        return results


class WatchedProgram:
    """A program that may take long, with the interface of jaxlib's.

    Another thread runs it. If it is not large and its first run was done soon, it is run directly from then on.
    """

    __slots__ = ("_is_large", "_is_long", "raw")

    def __init__(self, program: Any, is_large: bool):
        self.raw, self._is_large, self._is_long = program, is_large, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Any], with_tokens: bool = False) -> Any:
        if not self._is_long:
            return self.raw.execute_sharded(buffers, with_tokens)
        _this_thread.has_started_long = True
        start = perf_counter()
        results = _interruptible(lambda: self.raw.execute_sharded(buffers, with_tokens))
        self._is_long = self._is_large or perf_counter() - start > SOON
        return results


class DispatchedProgram:
    """A program that may take long, on a GPU, where the call that starts it returns at once."""

    __slots__ = ("raw",)

    def __init__(self, program: Any):
        self.raw = program

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Any], with_tokens: bool = False) -> Any:
        _this_thread.has_started_long = True
        return self.raw.execute_sharded(buffers, with_tokens)


def direct_execute(
    program: Any, out_avals: Sequence[ShapedArray]
) -> tuple[Callable[[list[Any], bool], Any], Waiting] | None:
    """The function that runs a program from now on, and when its caller has to see to it that it is waited for.

    The function is the `execute_sharded` of jaxlib's program where the wrappers of this file and of tiers.py have
    nothing more to do, and of the wrapper otherwise. Its second argument says whether to give a token: AT_EXIT.

    Returns:
      None as long as that may change: an optimized program is to replace this one, or it isn't known yet whether it
      takes long, since it hasn't run.
    """
    if type(program) is TieredProgram:
        if program.is_quick:
            return None
        program = program.raw
    if type(program) is WatchedProgram and not program._is_large:
        if program._is_long:
            return None
        program = program.raw
    if type(program) is not BackgroundProgram:
        return program.execute_sharded, Waiting.NEVER
    waiting, first = Waiting.AT_EXIT, out_avals[0].physical if out_avals else None
    if first is not None and 0 < first.size * first.dtype.itemsize <= SMALL:
        waiting = Waiting.AT_EXIT_IF_LATEST if program.is_short else Waiting.AT_EXIT_BY_RESULT
    return program.raw.execute_sharded, waiting


def runs_in_background(program: Any) -> bool:
    """Whether XLA may run the program after the call that starts it has returned."""
    return type(program.raw if type(program) is WatchedProgram else program) is BackgroundProgram


kept: deque[Any] = deque()  # tokens and results of programs that may be running in the background
latest: deque[Any] = deque(maxlen=_AT_A_TIME)  # the first results of short ones


def _keep_until_done(done: Any) -> None:
    """Keeps the token or a result of a program, for which the process waits: see NOTE [end of the process]."""
    kept.append(done)
    if len(kept) > most_in_background:
        _wait_for_the_first()


def _keep_if_latest(result: Any) -> None:
    """Keeps the first result of a short program until as many others have been started as XLA runs at a time."""
    latest.append(result)
    if not most_in_background:  # other threads may see that only now
        latest.clear()
        _keep_until_done(result)


keep_until_done: Callable[[Any], None] = _keep_until_done
keep_if_latest: Callable[[Any], None] = _keep_if_latest
if _waiting is not None and native_code_wanted():
    _waiting.bind(kept, latest, globals())
    keep_until_done, keep_if_latest = _waiting.keep_until_done, _waiting.keep_if_latest

# The functions that take the first result of a program.
KEEPERS = {Waiting.AT_EXIT_BY_RESULT: keep_until_done, Waiting.AT_EXIT_IF_LATEST: keep_if_latest}


def _wait_for_the_first() -> None:
    try:
        kept.popleft().block_until_ready()
    except (IndexError, RuntimeError):  # another thread took it; what it failed with comes up where a result is read
        pass


def forget_ended() -> None:
    """Drops the results that are kept of programs that have ended."""
    _move_latest_to_kept()
    for _ in range(len(kept)):
        try:
            first = kept.popleft()
        except IndexError:  # another thread took it
            return
        if not _has_ended(first):
            kept.append(first)


def _move_latest_to_kept() -> None:
    """Has results of short programs waited for like those of others."""
    while latest:
        try:
            kept.append(latest.popleft())
        except IndexError:  # another thread took it
            return


def _has_ended(done: Any) -> bool:
    """Whether a result tells that its program has ended; tokens can't tell."""
    return hasattr(done, "is_ready") and (done.is_deleted() or done.is_ready())


@atexit.register
def _wait_for_all() -> None:
    global most_in_background
    most_in_background = 0
    _move_latest_to_kept()
    while kept:
        _wait_for_the_first()
    for worker in [*interrupted, *_workers]:  # a thread that frees XLA's objects must not be ended by Python
        worker.tasks.put(None)
        worker.join()
    _workers.clear()


def watched(raw: Any, has_loops: bool, has_calls: bool, platform: str) -> Any:
    """The program, watched if it has loops or much to do. `has_calls`: of functions whose costs XLA doesn't know."""
    costs = raw.cost_analysis()
    flops = costs.get("flops", 0.0)
    work = max(flops, costs.get("bytes accessed", 0.0))
    is_large = work > LARGE
    takes_long = is_large or has_loops
    if platform != "cpu":
        return DispatchedProgram(raw) if takes_long else raw
    program = raw
    if flops >= SYNCHRONOUS:
        is_short = not (has_loops or has_calls) and work <= SHORT
        program = BackgroundProgram(raw, is_short and len(raw.local_devices()[0].client.local_devices()) == 1)
    return WatchedProgram(program, is_large) if takes_long else program


def block_until_ready(buffers: Sequence[Any]) -> None:
    """Waits for buffers.

    Raises:
      KeyboardInterrupt: the main thread waited for a long program, and was interrupted.
      RuntimeError: what the computation of one of them failed with.
    """
    if not _this_thread.has_started_long:
        runtime._jax.batched_block_until_ready(buffers)
        return
    _interruptible(lambda: runtime._jax.batched_block_until_ready(buffers))
    _this_thread.has_started_long = False


def _interruptible(task: Callable[[], Any]) -> Any:
    """The result of a function of jaxlib, which another thread runs while the main thread handles interrupts."""
    if threading.current_thread() is not threading.main_thread() or not most_in_background:
        return task()
    outcome: list[tuple[Any, BaseException | None]] = []
    done = threading.Lock()
    done.acquire()

    def run() -> None:
        try:
            outcome.append((task(), None))
        except BaseException as error:  # MemoryError, too: whatever it is, the main thread waits for it
            outcome.append((None, error))
        done.release()

    if not _workers:
        _workers.append(_Worker())
    _workers[0].tasks.put(run)
    try:
        done.acquire()
    except KeyboardInterrupt as interrupt:
        interrupted.append(_workers.pop())  # it is busy, and the next task gets a new one
        interrupted[-1].tasks.put(None)
        interrupt.add_note(
            "Interrupted while a compiled program ran. XLA can't stop it: it goes on in the background, and Python "
            "ends only after it. Ctrl-\\ (SIGQUIT) ends the process at once."
        )
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


class _Worker(threading.Thread):
    """The other thread, started when it is first needed; it ends when a task is None."""

    def __init__(self) -> None:
        super().__init__(name="xpr programs", daemon=True)
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while (task := self.tasks.get()) is not None:
            task()
            del task  # or the arrays of a task would live until there is another


_workers: list[_Worker] = []  # one at most
interrupted: list[_Worker] = []  # those whose program went on when the main thread was interrupted


def _forget_threads() -> None:
    """Forgets threads, and programs that run, in a forked process, which has no threads of its parent."""
    _workers.clear()
    interrupted.clear()
    kept.clear()
    latest.clear()
    _this_thread.has_started_long = False


os.register_at_fork(after_in_child=_forget_threads)

"""progress: a bar that shows how far a loop is.

The loop carries two more integers: the number of steps, and the one at which the host is called next. The host answers
with the next one, from the time that the steps since the last call took, so that calls are a tenth of a second apart
whatever a step takes: each step costs two operations on scalars (50 ns on CPU), each call some 20 us.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.control.callback.callback import debug_callback, io_callback
from xpr.control.cond.function import cond
from xpr.control.custom.custom_vmap import custom_vmap
from xpr.control.progress import bar
from xpr.control.tracing import Watched
from xpr.core.avals import ShapedArray
from xpr.core.source import function_name
from xpr.dtypes import int32
from xpr.primitives.elementwise import add, ge
from xpr.primitives.reductions import reduce_max

_NEVER = np.int32(2**31 - 1)
_LOGGER = logging.getLogger("xpr.debug")


def progress(
    body: Callable[..., Any], total: int | None = None, *, desc: str | None = None, leave: bool = True
) -> Callable[..., Any]:
    """Shows a progress bar while a loop runs: `lax.scan(debug.progress(body), init, xs)`, also inside `jit`.

    For `scan`, `fori_loop` and `while_loop`. The bar is on standard error, in a notebook in the cell; where standard
    error is no terminal it is a line every ten seconds. Under `vmap` there is one bar for all rows, under `grad` one
    for the primal computation. A step takes some 50 ns longer, and an update, ten times a second, 20 us.

    Args:
      body: the function of the loop: `f(carry, x)`, `f(i, carry)` or `f(carry)`.
      total: the number of steps; None for that of the loop, where it has one.
      desc: what stands before the bar; None for the name of the function, if it has one.
      leave: whether the bar stays when the loop has ended.

    Returns:
      A function that does the same, for one of those loops. Called by itself, or by anything else, it shows nothing.

    Raises:
      TypeError: `body` is not a function.

    >>> from xpr import debug, lax, numpy as jnp
    >>> def step(total, x):
    ...     return total + x, None
    >>> lax.scan(debug.progress(step, desc="adding"), 0.0, jnp.arange(1000.0))[0]
    Array(499500., dtype=float32)
    """
    if not callable(body):
        raise TypeError(f"debug.progress: takes the function of a loop, as in scan(progress(body), ...), not {body!r}.")
    if desc is None:
        name = function_name(body)
        desc = "" if name == "<lambda>" else name
    before, after = _watcher(desc, bool(leave))
    steps = None if total is None else np.int32(total)
    return Watched(body, (np.int32(0), np.int32(0)), before, after, steps)


@functools.lru_cache(maxsize=256)  # so that programs with equal bars are the same
def _watcher(desc: str, leave: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What is done before each step, and when a loop has ended."""
    bars = Bars(desc, leave)
    next_due = ShapedArray((), int32)

    @_of_furthest_row
    def report(step: Any, due: Any, total: Any) -> Any:
        return cond(ge(step, due), lambda: io_callback(bars.step, next_due, step, total), lambda: due)

    @_of_furthest_row
    def ended(step: Any, due: Any, total: Any) -> Any:
        debug_callback(bars.end, step, total, due)  # `due`: XLA may know the number of steps before the loop has run
        return due

    def before(state: Any, total: Any) -> Any:
        step, due = state
        due = report(step, due, total)
        return add(step, np.int32(1)), due

    def after(state: Any, total: Any) -> None:
        ended(*state, total)

    return before, after


def _of_furthest_row(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for all rows at once, which is called with the greatest of their step numbers."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def rule(size: int, is_mapped: Any, *numbers: Any) -> Any:
        return mapped(*[reduce_max(n, (0,)) if m else n for n, m in zip(numbers, is_mapped)]), False

    return mapped


class Bars:
    """The bars of one description, of which the last one is shown. XLA calls from any of its threads."""

    def __init__(self, desc: str, leave: bool):
        self.desc, self.leave = desc, leave
        self.running: BarOfRun | None = None

    def step(self, step: Any, total: Any) -> np.int32:
        """Shows the bar; returns the step of the next call. What fails is logged, and ends the bar, not the program."""
        try:
            number = int(step)
            if not number or self.running is None:
                self.running = BarOfRun(number)
            return np.int32(min(self.running.update(self, number, int(total)), int(_NEVER)))
        except Exception:
            _LOGGER.exception("debug.progress: the bar can't be shown")
            return _NEVER

    def end(self, step: Any, total: Any, due: Any) -> None:
        """Shows the bar for the last time."""
        try:
            run, self.running = self.running, None
            if run is not None:
                run.show(self, int(step), int(total), True)
        except Exception:
            _LOGGER.exception("debug.progress: the bar can't be shown")


class BarOfRun:
    """One run of a loop."""

    def __init__(self, step: int):
        self.output = bar.here()
        self.first = self.last = step
        self.started = self.called = time.perf_counter()
        self.shown = 0.0

    def update(self, bars: Bars, step: int, total: int) -> int:
        """Shows the bar if it is time, and returns the step of the next call."""
        now = time.perf_counter()
        taken, steps = now - self.called, step - self.last
        if now - self.shown >= self.output.seconds:
            self.show(bars, step, total, False)
            self.shown = now
        self.last, self.called = step, time.perf_counter()
        if not steps:
            return step + 1
        if taken < self.output.seconds / 10:  # too short to be measured; twice as many will tell
            return step + 2 * steps
        return step + max(int(steps * self.output.seconds / taken), 1)

    def show(self, bars: Bars, step: int, total: int, last: bool) -> None:
        seconds = time.perf_counter() - self.started
        self.output.show(bars.desc, step, total if total >= 0 else None, seconds, last, bars.leave)

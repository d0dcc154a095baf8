"""Programs that call Python functions: how XLA:CPU calls them, and what becomes of their errors.

NOTE [programs with callbacks]: such a program runs on a client of its own, in the thread that calls it, and is waited
for. So an exception in a callback reaches whoever called the program, as itself; effects have happened when the call
returns; and a callback may run programs, for which the threads of the main client are free. A program with callbacks
inside a callback runs on yet another client, one for each depth, so that no thread waits for one that waits for it.

An exception can't pass through XLA, which makes text of it. So it is kept here under a number, and the number is what
XLA passes on.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.config import same_settings, settings_of_thread
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import at_the_bottom

TARGET = "xla_ffi_python_cpu_callback"  # what jaxlib calls its door from XLA:CPU to Python

HostFunction = Callable[..., Sequence[np.ndarray]]  # takes and gives NumPy arrays of the types it was lowered for


class Callback:
    """A host function as XLA:CPU calls it: read-only views in, a tuple of arrays out, tokens standing as None."""

    __slots__ = ("avals", "function", "ordered", "settings")

    def __init__(self, function: HostFunction, ordered: bool, avals: Sequence[ShapedArray]):
        self.function, self.ordered, self.avals = function, ordered, tuple(avals)
        self.settings = settings_of_thread()  # the thread that XLA takes has none of its own

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        try:
            results = self.results(values[1:] if self.ordered else values, _depth.value)
        except BaseException as error:  # an interrupt, too, belongs to the caller
            raise RuntimeError(_keep(error)) from None
        return (None, *results) if self.ordered else results

    def results(self, values: Sequence[Any], depth: int) -> tuple[Any, ...]:
        """What the function gives, called by a program that was itself called at this depth."""
        copies = [np.array(x) for x in values]  # XLA takes its memory back
        before, _depth.value = _depth.value, depth + 1
        try:
            with at_the_bottom(), same_settings(self.settings):
                return tuple([np.ascontiguousarray(x).reshape(np.shape(x)) for x in self.function(*copies)])
        finally:
            _depth.value = before


class _Depth(threading.local):
    """What `callback_depth` gives."""

    value = 0


_depth = _Depth()


def callback_depth() -> int:
    """How many callbacks this thread is in the middle of."""
    return _depth.value


@functools.cache
def client_of_depth(depth: int, num_devices: int) -> Any:
    """The client that runs programs with callbacks, see NOTE [programs with callbacks]."""
    return runtime.xc.make_cpu_client(asynchronous=False, num_devices=num_devices)


# -- Exceptions

_kept: OrderedDict[int, BaseException] = OrderedDict()  # the latest last; a program may fail in several callbacks
_MOST_KEPT = 64
_numbers = itertools.count()
_MESSAGE = "xpr keeps the exception of this callback under number "


def _keep(error: BaseException) -> str:
    number = next(_numbers)
    _kept[number] = error
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return f"{_MESSAGE}{number}."


def kept_exception(failure: RuntimeError) -> BaseException | None:
    """The exception of the callback that made a program fail, if that is why it did."""
    found = re.search(_MESSAGE + r"(\d+)\.", str(failure))
    return _kept.pop(int(found[1]), None) if found else None


# -- Parsing: jaxlib takes callbacks with a module, not with its text.


def parse(text: str) -> Any:
    """The text as an MLIR module."""
    ir, context = _mlir()
    with context:
        return ir.Module.parse(text)


@functools.cache
def _mlir() -> tuple[Any, Any]:
    """MLIR's Python bindings and a context that knows XLA's dialects; 20 ms that programs without callbacks save."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("stablehlo", "chlo", "sdy"):
        importlib.import_module(f"jaxlib.mlir.dialects.{name}").register_dialect(context)
    return ir, context

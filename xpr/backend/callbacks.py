"""Programs that call Python functions: how XLA calls them, and how their exceptions are raised.

NOTE [programs with callbacks]: on CPU such a program runs on a separate client, in the thread that calls it, and is
waited for. So an exception in a callback reaches the caller of the program; effects have happened when the call
returns; and a callback may run programs, for which the threads of the main client are free. A program with callbacks
inside a callback runs on yet another client, one for each depth, so that no thread waits for one that waits for it.
Programs that seldom come to a callback first run without: NOTE [callbacks that are seldom called].

On a GPU such a program runs where others do, and is waited for. The GPU waits for its callbacks, so what they compute
runs on the CPU unless they name a device.

XLA turns an exception into text. So the exception is stored here under a number, and XLA passes on the number.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.devices import client_of
from xpr.config import same_settings, settings_of_thread
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import at_the_bottom
from xpr.errors import CallbackError

if TYPE_CHECKING:
    from xpr.backend.process_group import ProcessGroup

# jaxlib's FFI targets, by which XLA calls Python
TARGET = "xla_ffi_python_cpu_callback"
TARGETS = {"cpu": TARGET, "cuda": "xla_ffi_python_gpu_callback"}
# which each device calls with its parts of the operands
TARGETS_OF_PARTS = {
    "cpu": "xla_ffi_partitioned_python_cpu_callback", "cuda": "xla_ffi_partitioned_python_gpu_callback"
}  # fmt: skip

HostFunction = Callable[..., Sequence[np.ndarray]]  # takes and gives NumPy arrays of the types it was lowered for


class Callback:
    """A host function as XLA calls it: read-only views in, a tuple of arrays out, tokens are None."""

    __slots__ = ("avals", "function", "ordered", "settings")

    def __init__(self, function: HostFunction, ordered: bool, avals: Sequence[ShapedArray], platform: str):
        self.function, self.ordered, self.avals = function, ordered, tuple(avals)
        self.settings = settings_of_thread()  # the thread that XLA calls it in has none
        if platform != "cpu":
            self.settings["default_device"] = client_of("cpu").local_devices()[0]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        try:
            results = self.results(values[1:] if self.ordered else values, _depth.value)
        except BaseException as error:  # an interrupt, too, belongs to the caller
            raise RuntimeError(_store(error)) from None
        return (None, *results) if self.ordered else results

    def results(self, values: Sequence[Any], depth: int) -> tuple[Any, ...]:
        """The results of the function, called by a program that was itself called at this depth."""
        copies = [np.array(x) for x in values]  # XLA takes its memory back
        before, _depth.value = _depth.value, depth + 1
        try:
            with at_the_bottom(), same_settings(self.settings):
                return tuple([np.ascontiguousarray(x).reshape(np.shape(x)) for x in self.function(*copies)])
        finally:
            _depth.value = before


class _Depth(threading.local):
    """The value of `callback_depth`."""

    value = 0


_depth = _Depth()


def callback_depth() -> int:
    """The nesting depth of callbacks in this thread."""
    return _depth.value


@functools.cache
def client_of_depth(depth: int, num_devices: int) -> Any:
    """The client that runs programs with callbacks, see NOTE [programs with callbacks]."""
    return runtime.xc.make_cpu_client(asynchronous=False, num_devices=num_devices)


@functools.cache
def client_with_others(depth: int, group: ProcessGroup, num_devices: int) -> Any:
    """The client that runs programs with callbacks on devices of several processes, `num_devices` of this one."""
    make = functools.partial(runtime.xc.make_cpu_client, asynchronous=False, num_devices=num_devices)
    return group.make_another_cpu_client(make)


# -- Exceptions


def callback_error(error: Exception, text: str) -> Exception:
    """The exception of a callback as the caller of the program meets it, with a text: a `CallbackError` that is also of
    its class, and JAX's `JaxRuntimeError`. Itself where Python can't make that class, or it is one already.
    """
    if isinstance(error, CallbackError):
        return error
    try:
        made = _error_class(type(error))  # type: ignore[arg-type]  # mypy takes object's __hash__ for an instance's
        raised = made.__new__(made, *error.args)
    except TypeError:
        return error
    raised.args, raised.text = error.args, text
    raised.__dict__.update(vars(error))
    return raised


@functools.cache
def _error_class(kind: Any) -> Any:
    """The class of `CallbackError`s that are also `kind`. Raises TypeError for classes whose memory layouts differ."""
    bases = (CallbackError, runtime._jax.JaxRuntimeError, kind)
    described = {"__module__": CallbackError.__module__, "__str__": lambda self: self.text}
    return type("CallbackError", tuple(dict.fromkeys(bases)), described)


_exceptions: OrderedDict[int, BaseException] = OrderedDict()  # the latest last; a program may fail in several callbacks
_MOST_STORED = 64
_numbers = itertools.count()
_MESSAGE = "xpr keeps the exception of this callback under number "


def _store(error: BaseException) -> str:
    number = next(_numbers)
    _exceptions[number] = error
    while len(_exceptions) > _MOST_STORED:
        _exceptions.popitem(last=False)
    return f"{_MESSAGE}{number}."


def stored_exception(failure: RuntimeError) -> BaseException | None:
    """The exception of the callback that made a program fail, if one did."""
    match = re.search(_MESSAGE + r"(\d+)\.", str(failure))
    return _exceptions.pop(int(match[1]), None) if match else None

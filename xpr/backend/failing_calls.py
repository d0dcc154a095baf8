"""Programs whose calls of Python fail instead: see NOTE [callbacks that are seldom called] in calling_executable.py.

XLA has no operation that ends a program with an error. But a call through its foreign function interface fails if it
hasn't the attributes that the function takes. So the calls of Python become calls of LAPACK's `potrf`, which needs
an attribute that they don't have, and never runs; nor is SciPy loaded for it.

XLA:CPU runs a program in the thread that calls it if it has callbacks, and hands it over to another thread, which takes
some 20 microseconds longer to wait for, if it is of more than 1000 operations. So these programs are compiled with a
callback, which nothing calls.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from xpr.backend import runtime
from xpr.backend.callbacks import TARGET

FAILING = "xpr_call_of_python"
_EFFECT = "has_side_effect = true"
_DONATED = "jax.buffer_donor = true"  # the first attribute of an argument
STUBS: tuple[Callable[..., Any], ...] = (lambda *values: (),)
_lock = threading.Lock()  # several threads may compile at once, and the function is registered once


def of(text: str) -> str:
    """The text of a program that fails where it would call Python, and then has not taken its arguments' memory."""
    return text.replace(TARGET, FAILING).replace(f" {{{_DONATED}}}", "").replace(f"{_DONATED}, ", "")


def has_other_effects(text: str) -> bool:
    """Whether a program has effects besides calls of Python, so that it can't be run again after it has failed."""
    return any(_EFFECT in line and TARGET not in line for line in text.splitlines())


def is_called_by(text: str) -> bool:
    """Whether the text of a program has calls that fail."""
    return FAILING in text


def register() -> None:
    """Makes the function known to XLA."""
    with _lock:
        _register()


@cache
def _register() -> None:
    potrf = importlib.import_module("jaxlib.cpu._lapack").registrations()["lapack_spotrf_ffi"]
    runtime.xc.register_custom_call_target(FAILING, potrf, "cpu", api_version=1)

"""LAPACK: the routines that programs on CPU call, registered when a program that calls one is first compiled.

jaxlib brings the calls and finds the routines in SciPy, which it depends on. Loading both takes 0.1 to 0.3 s, so it is
left until it is needed.
"""

from __future__ import annotations

import importlib
import threading
from functools import cache

from xpr.backend import runtime

_MARK = '"lapack_'  # every target's name begins so
_lock = threading.Lock()  # several threads may compile at once, and each routine is registered once


def register_for(text: str) -> None:
    """Registers the routines, if the text of a program names one."""
    if _MARK in text:
        with _lock:
            _register()


@cache
def _register() -> None:
    for name, target, version in importlib.import_module("jaxlib.lapack").registrations()["cpu"]:
        runtime.xc.register_custom_call_target(name, target, "cpu", api_version=version)
        runtime.xc.register_custom_call_as_batch_partitionable(name)
    importlib.import_module("jaxlib.cpu._lapack").initialize()

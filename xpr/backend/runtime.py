"""The import of jaxlib: every other file of the backend uses `runtime._jax` and `runtime.xc`.

NOTE [jaxlib without jax]: some of jaxlib's calls look for the Python package jax and import it when it is installed,
which costs half a second and changes the process. `without_jax()` answers those look-ups with stand-ins. jaxlib keeps
the `ShapedArray` it finds for the life of the process, so ours returns jax's own type once the real jax is imported.
None of the process-wide states that jax owns (x64 mode, post hooks, the pytree registry) is ever written.

NOTE [stacks of arrays]: jaxlib can record the Python stack with each array that it makes, for profiles of memory, which
takes 0.3 us of a call, and 2 us where 50 functions have called each other. So it does only if the setting
`array_tracebacks` is on. The real jax gets the lines of its error messages from the same recorder: from its import on,
stacks are recorded.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

# Must precede the import of jaxlib. XLA prints what it also raises; only fatal messages, which don't raise, are shown.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from xpr.config import after_update, settings
from xpr.core.avals import ShapedArray

__all__ = [
    "_jax",
    "profile_data",
    "profiler",
    "without_jax",
    "xc",
]  # but for one function, they come from `__getattr__`

_jax: Any
profile_data: Any
profiler: Any
xc: Any


def __getattr__(name: str) -> Any:
    """Imports jaxlib when something of it is first used: a fifth of the time that `import xpr` would take."""
    if name in ("profiler", "profile_data"):
        globals()[name] = importlib.import_module(f"jaxlib._{name}")
        return globals()[name]
    if name not in ("_jax", "xc"):
        raise AttributeError(f"module 'xpr.backend.runtime' has no attribute {name!r}")
    globals()["_jax"] = importlib.import_module("jaxlib._jax")
    globals()["xc"] = importlib.import_module("jaxlib.xla_client")
    jax = sys.modules.get("jax")
    if jax is None or hasattr(jax, "__xpr__"):
        _expect_jax()
    return globals()[name]


def jaxlib_version() -> tuple[int, ...]:
    """The version of jaxlib, as three numbers."""
    return importlib.import_module("jaxlib.version").__version_info__


class _ImportOfJax:
    """A finder of modules that finds none, but notices the import of the real jax: NOTE [stacks of arrays]."""

    is_expected = False  # whether it has to be waited for

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "jax" and self.is_expected:
            self.is_expected = False
            globals()["_jax"].set_tracebacks_enabled(True)


_import_of_jax = _ImportOfJax()


def _expect_jax() -> None:
    """Has stacks recorded as the setting says, until the real jax is imported."""
    # After the finder that makes `import jax` import xpr, if there is one: see xpr/alias/finder.py.
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, _import_of_jax)
    _import_of_jax.is_expected = True
    _record_stacks_as_set()


def _record_stacks_as_set() -> None:
    if _import_of_jax.is_expected:
        globals()["_jax"].set_tracebacks_enabled(settings.array_tracebacks)


after_update["array_tracebacks"] = _record_stacks_as_set


_stand_in, _core_stand_in = ModuleType("jax"), ModuleType("jax.core")
_lock = threading.RLock()


def _shaped_array(shape: Any, dtype: Any, weak_type: bool = False) -> Any:
    """jax's own type where the real jax is loaded by now, so that its arrays stay whole; ours otherwise."""
    core = sys.modules.get("jax.core")
    real = None if core is _core_stand_in else getattr(core, "ShapedArray", None)
    return (real or ShapedArray)(shape, dtype, weak_type=weak_type)


_core_stand_in.ShapedArray = _shaped_array  # type: ignore[attr-defined]


@contextmanager
def without_jax() -> Iterator[None]:
    """Keeps a jaxlib call from importing jax (NOTE [jaxlib without jax])."""
    with _lock:
        if "jax" in sys.modules:
            yield
            return
        # None in sys.modules makes an import fail, which jaxlib expects and swallows for this module.
        stand_ins: dict[str, Any] = {"jax": _stand_in, "jax.core": _core_stand_in, "jax._src.sharding_impls": None}
        sys.modules.update(stand_ins)
        try:
            yield
        finally:
            for name in stand_ins:
                sys.modules.pop(name, None)

"""The few settings of xpr, each process-wide with a thread-local override.

`config.update("enable_x64", True)` changes a setting everywhere; `with enable_x64(True): ...` changes it for
this thread and block. JAX's spellings with a `jax_` in front are understood too.

Hot paths read `settings.enable_x64` and friends directly: a class attribute holds the process-wide value and an
instance attribute of this thread-local object shadows it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "config", "settings", "enable_x64", "disable_jit", "traceback_filtering", "default_device",
    "default_matmul_precision", "while_checkpoints",
]  # fmt: skip


def _flag(name: str, default: bool = False) -> bool:
    return os.environ.get(name, str(int(default))).strip().lower() in ("1", "true", "yes", "on")


class Settings(threading.local):
    """What this thread sees."""

    enable_x64: bool = _flag("XPR_ENABLE_X64")
    disable_jit: bool = _flag("XPR_DISABLE_JIT")
    traceback_filtering: bool = _flag("XPR_TRACEBACK_FILTERING", True)
    debug_nans: bool = _flag("XPR_DEBUG_NANS")
    debug_infs: bool = _flag("XPR_DEBUG_INFS")
    default_device: Any = None
    mesh: Any = None  # what partition specs without a mesh are of, see set_mesh
    default_matmul_precision: str | None = os.environ.get("XPR_DEFAULT_MATMUL_PRECISION")
    while_checkpoints: int = 64
    platforms: str | None = os.environ.get("XPR_PLATFORMS")
    compilation_cache_dir: str | None = os.environ.get("XPR_COMPILATION_CACHE_DIR")
    num_cpu_devices: int | None = int(os.environ.get("XPR_NUM_CPU_DEVICES") or 0) or None  # None: what XLA makes

    _keyed = (-1, None)  # the number of process-wide updates there had been, and what `trace_key` was then

    @property
    def trace_key(self) -> Any:
        """Stands for all that changes what tracing or calling a jitted function gives; every call asks for it."""
        updates, key = self._keyed
        return key if updates == _updates else self._make_key()

    def _make_key(self) -> Any:
        updates = _updates  # before the values, which another thread may change meanwhile
        values = (
            self.enable_x64, self.default_device, self.disable_jit, self.mesh, self.while_checkpoints,
            self.default_matmul_precision,
        )  # fmt: skip
        key = _trace_keys.setdefault(values, object())  # which is hashed in a third of the time
        self.__dict__["_keyed"] = updates, key
        return key

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_keyed", None)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__.pop("_keyed", None)

    @classmethod
    def names(cls) -> list[str]:
        return list(cls.__annotations__)


_updates = 0  # of the whole process
_trace_keys: dict[tuple[Any, ...], Any] = {}
settings = Settings()


def forget_trace_keys() -> None:
    """Makes every `trace_key` another one than before, so that nothing remembered under the old ones is found."""
    global _updates
    _trace_keys.clear()
    _updates += 1


before_update: dict[str, Callable[[Any], None]] = {}  # refuses a value that a setting can't have, or not any more
after_update: dict[str, Callable[[], None]] = {}  # what has to happen when a setting is changed for the whole process


def _nothing(*_: Any) -> None:
    """Most settings are looked at when they are needed."""


class Config:
    """Reads and changes settings by name; also an attribute each (`config.enable_x64`)."""

    def update(self, name: str, value: Any) -> None:
        """Sets a setting for the whole process.

        Raises:
          AttributeError: there is no setting of that name.
          RuntimeError: it is too late to change this one.

        >>> import xpr
        >>> xpr.config.update("enable_x64", False)
        """
        known = self._known(name)
        before_update.get(known, _nothing)(value)
        global _updates
        setattr(Settings, known, value)
        _updates += 1
        after_update.get(known, _nothing)()

    def __getattr__(self, name: str) -> Any:
        return getattr(settings, self._known(name))

    def _known(self, name: str) -> str:
        short = name.removeprefix("jax_")
        if short not in Settings.names():
            raise AttributeError(f"xpr has no setting {name!r}; the settings are {', '.join(Settings.names())}.")
        return short


config = Config()


@contextmanager
def override(name: str, value: Any) -> Iterator[None]:
    """A context manager in which this thread has another value of a setting."""
    shadowed = settings.__dict__.get(name, settings)  # `settings` itself stands for "not overridden in this thread"
    setattr(settings, name, value)
    try:
        yield
    finally:
        if shadowed is settings:
            delattr(settings, name)
        else:
            setattr(settings, name, shadowed)


def settings_of_thread() -> dict[str, Any]:
    """The overrides of this thread, to be handed to another one."""
    return dict(settings.__dict__)


@contextmanager
def same_settings(overrides: dict[str, Any]) -> Iterator[None]:
    """A context manager in which this thread has the overrides of another."""
    own = settings_of_thread()
    settings.__dict__.clear()
    settings.__dict__.update(overrides)
    try:
        yield
    finally:
        settings.__dict__.clear()
        settings.__dict__.update(own)


def enable_x64(new_val: bool = True) -> Any:
    """A context manager in which 64-bit dtypes are on (or off).

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.enable_x64(True):
    ...     jnp.zeros(3).dtype
    dtype('float64')
    """
    return override("enable_x64", new_val)


def disable_jit(disable: bool = True) -> Any:
    """A context manager in which jitted functions run op by op, so that prints and debuggers see values.

    >>> import xpr
    >>> with xpr.disable_jit():
    ...     _ = xpr.jit(lambda x: print("x is", x))(1)
    x is 1
    """
    return override("disable_jit", disable)


def traceback_filtering(on: bool = True) -> Any:
    """A context manager that hides (or shows) xpr's own frames in tracebacks."""
    return override("traceback_filtering", on)


def default_device(device: Any) -> Any:
    """A context manager that sets the device on which new arrays are put and programs run."""
    return override("default_device", device)


def default_matmul_precision(new_val: str | None = None) -> Any:
    """A context manager that sets how exactly accelerators multiply, where a product doesn't say it itself.

    Args:
      new_val: a name that `lax.Precision` takes: "default", "high", "highest", "tensorfloat32", "float32".

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.default_matmul_precision("float32"):
    ...     print(xpr.make_jaxpr(jnp.dot)(jnp.ones(2), jnp.ones(2)).eqns[0].params["precision"])
    (HIGHEST, HIGHEST)
    """
    return override("default_matmul_precision", new_val)


def while_checkpoints(number: int) -> Any:
    """A context manager that sets how many carries reverse mode through a `while_loop` keeps.

    Rounded down to a power of two. With fewer, steps are taken again more often.

    >>> import xpr
    >>> from xpr import lax
    >>> def f(x):
    ...     return lax.while_loop(lambda c: c < 100.0, lambda c: c * x, 1.0)
    >>> with xpr.while_checkpoints(2):
    ...     xpr.grad(f)(3.0)
    Array(405., dtype=float32, weak_type=True)
    """
    return override("while_checkpoints", number)

"""Caches that functions hold: what is traced and compiled of a function is freed with it.

The function holds them itself, as an attribute, so that a program that refers to its function (through a custom rule
that closes over it) is an ordinary cycle, which Python's collector frees. A dictionary with weak keys would keep both.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from xpr.core.source import is_internal

CACHES = "__xpr_caches__"  # the attribute


class _Caches:
    """The caches of one function, by their names. Copies by pickle hold nothing."""

    __slots__ = ("by_name", "owner", "__weakref__")

    def __init__(self, fun: FunctionType | None = None):
        self.owner, self.by_name = fun and weakref.ref(fun), dict[str, dict[Any, Any]]()
        _all.add(self)

    def __reduce__(self) -> Any:
        return _Caches, ()


_all: weakref.WeakSet[_Caches] = weakref.WeakSet()


def cache_of(fun: FunctionType, name: str) -> dict[Any, Any]:
    """A function's cache of that name, which is empty at first.

    `functools.wraps` copies the attribute to other functions, so it names the function whose caches it holds.
    """
    held = fun.__dict__.get(CACHES)
    if held is None or held.owner is None or held.owner() is not fun:
        held = fun.__dict__[CACHES] = _Caches(fun)
    return held.by_name.setdefault(name, {})


def clear_caches_of_functions(name: str) -> None:
    """Clears the cache of that name of every function."""
    for caches in list(_all):
        caches.by_name.pop(name, None)


class Recording:
    """Which traces are used again while a function is traced. What they read may have changed since they were made.

    Attributes:
      anew: whether all functions are traced again, and the caches are neither read nor written.
      reused: a function whose trace was made before; None if there was none.
    """

    def __init__(self, anew: bool = False):
        self.anew = anew
        self.reused: Callable[..., Any] | None = None
        self._made: dict[tuple[int, Any], tuple[Any, Any]] = {}  # the cache, kept alive, and the trace

    def get(self, cache: dict[Any, Any], key: Any, fun: Callable[..., Any]) -> Any:
        """The trace of a function under a key of its cache; None if there is none."""
        _, made = self._made.get((id(cache), key), (None, None))
        if made is not None or self.anew:
            return made
        trace = cache.get(key)
        if trace is not None and not _reads_only_library(fun):
            self.reused = fun
        return trace

    def keep(self, cache: dict[Any, Any], key: Any, trace: Any) -> None:
        """Puts a new trace into a cache."""
        self._made[id(cache), key] = cache, trace
        if not self.anew:
            cache[key] = trace


class _State(threading.local):
    recording: Recording | None = None


_state = _State()


@contextlib.contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """Records which traces are used again in its block."""
    before = _state.recording
    _state.recording = recording
    try:
        yield
    finally:
        _state.recording = before


def trace_of(cache: dict[Any, Any], key: Any, fun: Callable[..., Any]) -> Any:
    """The trace of a function under a key of its cache; None if there is none."""
    recording = _state.recording
    return cache.get(key) if recording is None else recording.get(cache, key, fun)


def keep_trace(cache: dict[Any, Any], key: Any, trace: Any) -> None:
    """Puts a trace into the cache of its function."""
    if _state.recording is None:
        cache[key] = trace
    else:
        _state.recording.keep(cache, key, trace)


def _reads_only_library(fun: Callable[..., Any]) -> bool:
    """Whether a function is one of the library's, and closes over nothing."""
    return type(fun) is FunctionType and fun.__closure__ is None and is_internal(fun.__code__.co_filename)

"""Caches that functions hold: what is traced and compiled of a function is freed with it.

The function holds them itself, as an attribute, so that a program that refers to its function (through a custom rule
that closes over it) is an ordinary cycle, which Python's collector frees. A dictionary with weak keys would keep both.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any

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

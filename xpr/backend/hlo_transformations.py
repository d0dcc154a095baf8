"""Python functions that XLA calls with the programs that it compiles, and that may change these.

What a function does to a program is not known from its text, so while there are such functions no program is read from
the cache on disk, or written to it.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

Transformation = Callable[[bytes], bytes | None]

active: Counter[tuple[str, int, str]] = Counter()  # how many are registered, by name, stage and platform


def register(name: str, stage: int, platform: str, client: Any, function: Transformation) -> None:
    """Has the compiler of a platform call a function; that of the CPU is jaxlib's own, others are the clients'.

    Raises:
      RuntimeError: the platform's compiler calls no functions.
    """
    if platform == "cpu":
        _xla().register_xla_transform(name, stage, function)
    else:
        _xla().register_xla_transform_c_api(client, name, stage, function)
    active[name, stage, platform] += 1


def clear(name: str, stage: int, platform: str, client: Any) -> bool:
    """Removes a function; whether there was one."""
    key = name, stage, platform
    if not active[key]:
        del active[key]
        return False
    if platform == "cpu":
        _xla().clear_xla_transform(name, stage)
    else:
        _xla().clear_xla_transform_c_api(client, name, stage)
    active[key] -= 1
    if not active[key]:
        del active[key]
    return True


def _xla() -> Any:
    return importlib.import_module("jaxlib._xla")

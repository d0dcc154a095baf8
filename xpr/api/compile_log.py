"""Logging of how long tracing and compiling take (log_compiles), and of why a function is traced again
(explain_cache_misses). Both are warnings of the logger "xpr".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from xpr.config import logger, settings
from xpr.core.avals import ShapedArray


def timed(what: str, name: str) -> Any:
    """A context manager that logs how long its block takes, while log_compiles is on."""
    return _timed(what, name) if settings.log_compiles else nullcontext()


@contextmanager
def _timed(what: str, name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    logger().warning("Finished %s of %s in %.6f s", what, name, time.perf_counter() - start)


def log_compile(name: str, avals: Iterable[ShapedArray]) -> None:
    """Logs that a program is compiled, and for which types, while log_compiles is on."""
    if settings.log_compiles:
        logger().warning("Compiling %s for arguments of types (%s)", name, ", ".join(a.str_short() for a in avals))


def explain_miss(described: str, key: Sequence[Any], before: Sequence[Sequence[Any]], names: Callable[[], Any]) -> None:
    """Logs how a call differs from the most similar one that was traced, while explain_cache_misses is on.

    Args:
      described: the function and its line.
      key: (settings, axes, structure, static arguments, *avals) of the call.
      before: those of the calls that were traced.
      names: returns the names of the flat arguments.
    """
    if not settings.explain_cache_misses:
        return
    if not before:
        logger().warning("%s is traced for the first time.", described)
        return
    nearest = min(before, key=lambda other: len(_differences(key, other, names)))
    lines = _differences(key, nearest, names)
    logger().warning("%s is traced again. Beside the nearest call before:\n  %s", described, "\n  ".join(lines))


def _differences(key: Sequence[Any], other: Sequence[Any], names: Callable[[], Any]) -> list[str]:
    own_settings, axes, structure, static, *avals = key
    settings_then, axes_then, structure_then, static_then, *then = other
    lines = []
    if own_settings is not settings_then:
        lines.append("settings of xpr.config have changed")
    if axes != axes_then:
        lines.append("other mapped axes are in scope")
    if structure != structure_then:
        lines.append(f"the arguments' structure is {structure}, and was {structure_then}")
    for (argument, value), (_, value_then) in zip(static, static_then):
        if value != value_then:
            lines.append(f"static argument {argument} is {_shown(value)}, and was {_shown(value_then)}")
    if len(avals) == len(then):
        for name, aval, aval_then in zip(names(), avals, then):
            if aval is not aval_then:
                lines.append(f"{name} is {_type(aval)}, and was {_type(aval_then)}")
    return lines


def _shown(key: Any) -> str:
    """A static argument from its cache key: the argument, or (its type, the argument)."""
    return repr(key[1] if type(key) is tuple and len(key) == 2 and isinstance(key[0], type) else key)


def _type(aval: ShapedArray) -> str:
    return aval.str_short() + (" (weakly typed)" if aval.weak_type else "")

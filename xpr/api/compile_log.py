"""Logging of how long tracing and compiling take (log_compiles), and of why a function is traced again
(explain_cache_misses), naming arguments and lines. Both are warnings of the logger "xpr".
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from xpr.config import changed_settings, logger, settings
from xpr.core import events, source
from xpr.core.avals import ShapedArray
from xpr.core.source import describe_function


def timed(what: str, name: str) -> Any:
    """A context manager that measures its block: for the log, while log_compiles is on, and for `xpr.monitoring`."""
    return _timed(what, name) if settings.log_compiles or events.durations else nullcontext()


_EVENTS = {"tracing": events.TRACE, "lowering": events.LOWER}  # that of compiling is the compiler's


@contextmanager
def _timed(what: str, name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    if what in _EVENTS:
        events.call(events.durations, _EVENTS[what], seconds, fun_name=name.removeprefix("jit(").removesuffix(")"))
    if settings.log_compiles:
        logger().warning("Finished %s of %s in %.6f s", what, name, seconds)


def log_compile(name: str, avals: Iterable[ShapedArray]) -> None:
    """Logs that a program is compiled, and for which types, while log_compiles is on."""
    if settings.log_compiles:
        logger().warning("Compiling %s for arguments of types (%s)", name, ", ".join(a.str_short() for a in avals))


_explained: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # code, and how many functions had it


def explain_miss(
    fun: Callable[..., Any], key: Sequence[Any], before: Sequence[Sequence[Any]], names: Callable[[], Any]
) -> None:
    """Logs how a call differs from the most similar one that was traced, while explain_cache_misses is on.

    Args:
      fun: the function.
      key: (settings, axes, structure, static arguments, *avals) of the call.
      before: those of the calls that were traced.
      names: returns the names of the flat arguments.
    """
    if not settings.explain_cache_misses:
        return
    described, line = describe_function(fun), source.here()
    called = f"It is called at {source.summarize(line)}: {source.text_of(line)}"
    if not before:
        logger().warning("%s is traced for the first time%s. %s", described, _made_anew(fun), called)
        return
    nearest = min(before, key=lambda other: len(_differences(key, other, names)))
    lines = _differences(key, nearest, names) or ["the arguments are sharded in another way"]
    logger().warning(
        "%s is traced again. %s\nBeside the nearest call before:\n  %s", described, called, "\n  ".join(lines)
    )


def _made_anew(fun: Callable[..., Any]) -> str:
    """What to say of a function whose code was traced before, under another function object."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is None:
        return ""
    count = _explained[code] = _explained.get(code, 0) + 1
    if count == 1:
        return ""
    number = {2: "second", 3: "third"}.get(count, f"{count}th")
    return (
        f", and is the {number} function made at that line: each has programs of its own. Make it once, outside of "
        "what is called again and again, and pass what it closes over as arguments"
    )


def _differences(key: Sequence[Any], other: Sequence[Any], names: Callable[[], Any]) -> list[str]:
    own_settings, axes, structure, static, *avals = key
    settings_then, axes_then, structure_then, static_then, *then = other
    lines = []
    if own_settings is not settings_then:
        lines += changed_settings(own_settings, settings_then)
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

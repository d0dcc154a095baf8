"""Logs how long tracing and compiling take (log_compiles), and why a function is traced again (explain_cache_misses).

Both are messages of the logger "xpr" at the level WARNING. While log_compiles is off, times are logged at the level
DEBUG.
"""

from __future__ import annotations

import inspect
import sys
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
    """A context manager that measures its block, for the log and for `xpr.monitoring`.

    Args:
      what: "tracing", "lowering" or "compiling".
      name: the function's.
    """
    level = _level()
    return _timed(what, name, level) if level or events.durations else nullcontext()


_EVENTS = {"tracing": events.TRACE, "lowering": events.LOWER}  # that of compiling is the compiler's
_FINISHED = {
    "tracing": "tracing %s for jit",
    "lowering": "lowering of jit(%s)",
    "compiling": "XLA compilation of jit(%s)",
}


@contextmanager
def _timed(what: str, name: str, level: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    if what in _EVENTS:
        events.call(events.durations, _EVENTS[what], seconds, fun_name=name)
    if level:
        logger().log(level, f"Finished {_FINISHED[what]} in %.6f s", name, seconds)


def _level() -> int:
    """The level of the log at which programs are compiled now; 0 where nobody reads it."""
    if settings.log_compiles:
        return _WARNING
    # Without the import, which takes 4 ms, nobody has asked for messages of this level.
    return _DEBUG if "logging" in sys.modules and logger().isEnabledFor(_DEBUG) else 0


_DEBUG, _WARNING = 10, 30  # the levels `logging.DEBUG` and `logging.WARNING`


def log_compile(name: str, avals: Iterable[ShapedArray]) -> None:
    """Logs that a program is compiled, and for which types."""
    if level := _level():
        types = ", ".join(a.str_short() for a in avals)
        logger().log(level, "Compiling jit(%s) for arguments of types (%s)", name, types)


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
    described, called = describe_function(fun), f"It is called at {source.line_with_text(source.here())}"
    if not before:
        message = "TRACING CACHE MISS: never seen function %s is traced for the first time%s. %s"
        logger().warning(message, described, _made_anew(fun), called)
        return
    nearest = min(before, key=lambda other: len(_differences(key, other, names)))
    lines = _differences(key, nearest, names) or [_OF_NO_TYPE]
    logger().warning(
        "TRACING CACHE MISS: %s is traced again. %s\nBeside the nearest call before:\n  %s",
        described,
        called,
        "\n  ".join(lines),
    )


_OF_NO_TYPE = "the arguments are sharded in another way, or a mutable value that it closes over has another type"


def explain_compilation(
    fun: Callable[..., Any], placement: Any, before: Sequence[Any], names: Callable[[], Any]
) -> None:
    """Logs that a function is compiled again for arguments of known types on other devices.

    Args:
      fun: the function.
      placement: the shardings of the arguments, None for what is on no devices by name; or one device.
      before: those of the programs for the same types.
      names: returns the names of the flat arguments.
    """
    if not before:
        return
    nearest = min(before, key=lambda other: len(_moves(placement, other, names)))
    logger().warning(
        "COMPILATION CACHE MISS: %s is compiled again. It is called at %s\nBeside the nearest program:\n  %s",
        describe_function(fun),
        source.line_with_text(source.here()),
        "\n  ".join(_moves(placement, nearest, names)),
    )


def _moves(placement: Any, before: Any, names: Callable[[], Any]) -> list[str]:
    if not isinstance(placement, tuple) or not isinstance(before, tuple):
        return [f"different devices: now {_placed(placement)} and before {_placed(before)}"]
    return [
        f"different shardings: at {name}, now {_placed(now)} and before {_placed(then)}"
        for name, now, then in zip(names(), placement, before)
        if now != then
    ]


def _placed(placement: Any) -> str:
    """A sharding or a device, or those that a tuple has."""
    if isinstance(placement, tuple):
        return ", ".join(dict.fromkeys(repr(each) for each in placement if each is not None)) or "those of the mesh"
    return "on no devices by name" if placement is None else repr(placement)


def _made_anew(fun: Callable[..., Any]) -> str:
    """A clause of the message about a function whose code was traced before, as another function object; or empty."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is None:
        return ""
    count = _explained[code] = _explained.get(code, 0) + 1
    if count == 1:
        return ""
    number = {2: "second", 3: "third"}.get(count, f"{count}th")
    return (
        f", and is another function defined on the same line, the {number}: each has programs of its own. Make it "
        "once, outside of what is called again and again, and pass what it closes over as arguments"
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
        lines.append(f"different input pytree: now {structure} and before {structure_then}")
    for (argument, value), (_, value_then) in zip(static, static_then):
        if value != value_then:
            lines.append(f"different static argument {argument}: now {_shown(value)} and before {_shown(value_then)}")
    if len(avals) == len(then):
        for name, aval, aval_then in zip(names(), avals, then):
            if aval is not aval_then:
                weak = aval.weak_type is not aval_then.weak_type
                now, before = _type(aval, weak), _type(aval_then, weak)
                lines.append(f"different input types: at {name}, now {now} and before {before}")
    return lines


def _shown(key: Any) -> str:
    """A static argument from its cache key: the argument, or (its type, the argument)."""
    return repr(key[1] if type(key) is tuple and len(key) == 2 and isinstance(key[0], type) else key)


def _type(aval: ShapedArray, with_weak: bool) -> str:
    mesh = "" if aval.mesh is None else f" on {aval.mesh.text}"
    weak = f"{{weak_type={aval.weak_type}}}" if with_weak else ""
    return f"{aval.str_short()}{weak}{mesh}"

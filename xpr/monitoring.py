"""Named events that programs record, and functions that are called with them: `jax.monitoring`.

A listener is called with the name of each event of its kind, what was measured, and the keyword arguments. xpr records,
under JAX's names,

| | |
|---|---|
| `/jax/core/compile/jaxpr_trace_duration` | a jitted function was traced, in so many seconds; `fun_name` is its name |
| `/jax/core/compile/jaxpr_to_mlir_module_duration` | its program was lowered |
| `/jax/core/compile/backend_compile_duration` | a program was compiled, that of one operation included |
| `/jax/compilation_cache/compile_requests_use_cache` | a program was looked up in the cache on disk |
| `/jax/compilation_cache/cache_hits`, `cache_misses` | and was there, or was not |
"""

from __future__ import annotations

from collections.abc import Callable

from xpr.core import events

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
    "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener",
    "register_scalar_listener", "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip

Listener = Callable[..., None]


def record_event(event: str, **kwargs: str | int) -> None:
    """Calls the listeners to events.

    Args:
      event: its name.
      **kwargs: passed on.

    Returns:
      None.

    >>> from xpr import monitoring
    >>> monitoring.register_event_listener(lambda event, **kwargs: print(event, kwargs))
    >>> monitoring.record_event("/my/step", number=3)
    /my/step {'number': 3}
    >>> monitoring.clear_event_listeners()
    """
    events.call(events.events, event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Calls the listeners to durations.

    Args:
      event: its name.
      duration: in seconds.
      **kwargs: passed on.

    Returns:
      None.

    >>> from xpr import monitoring
    >>> monitoring.register_event_duration_secs_listener(print)
    >>> monitoring.record_event_duration_secs("/my/step", 0.5)
    /my/step 0.5
    >>> monitoring.clear_event_listeners()
    """
    events.call(events.durations, event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Calls the listeners to time spans.

    Args:
      event: its name.
      start_time: in seconds.
      end_time: in seconds.
      **kwargs: passed on.

    Returns:
      None.

    >>> from xpr import monitoring
    >>> monitoring.register_event_time_span_listener(print)
    >>> monitoring.record_event_time_span("/my/step", 1.0, 2.5)
    /my/step 1.0 2.5
    >>> monitoring.clear_event_listeners()
    """
    events.call(events.spans, event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Calls the listeners to scalars.

    Args:
      event: its name.
      value: a number.
      **kwargs: passed on.

    Returns:
      None.

    >>> from xpr import monitoring
    >>> monitoring.register_scalar_listener(print)
    >>> monitoring.record_scalar("/my/loss", 3)
    /my/loss 3
    >>> monitoring.clear_event_listeners()
    """
    events.call(events.scalars, event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Adds a function that is called as `callback(event, **kwargs)` with each event.

    >>> from xpr import monitoring
    >>> monitoring.register_event_listener(print)
    >>> monitoring.record_event("/my/step")
    /my/step
    >>> monitoring.clear_event_listeners()
    """
    events.events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Adds a function that is called as `callback(event, duration, **kwargs)` with each duration.

    >>> from xpr import monitoring
    >>> monitoring.register_event_duration_secs_listener(print)
    >>> monitoring.record_event_duration_secs("/my/step", 0.5)
    /my/step 0.5
    >>> monitoring.clear_event_listeners()
    """
    events.durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Adds a function that is called as `callback(event, start_time, end_time, **kwargs)` with each time span.

    >>> from xpr import monitoring
    >>> monitoring.register_event_time_span_listener(print)
    >>> monitoring.record_event_time_span("/my/step", 1.0, 2.5)
    /my/step 1.0 2.5
    >>> monitoring.clear_event_listeners()
    """
    events.spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Adds a function that is called as `callback(event, value, **kwargs)` with each scalar.

    >>> from xpr import monitoring
    >>> monitoring.register_scalar_listener(print)
    >>> monitoring.record_scalar("/my/loss", 3)
    /my/loss 3
    >>> monitoring.clear_event_listeners()
    """
    events.scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Removes a function that `register_event_listener` has added.

    Raises:
      ValueError: it is not registered.

    >>> from xpr import monitoring
    >>> monitoring.register_event_listener(print)
    >>> monitoring.unregister_event_listener(print)
    """
    _remove(events.events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Removes a function that `register_event_duration_secs_listener` has added.

    Raises:
      ValueError: it is not registered.

    >>> from xpr import monitoring
    >>> monitoring.register_event_duration_secs_listener(print)
    >>> monitoring.unregister_event_duration_listener(print)
    """
    _remove(events.durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Removes a function that `register_event_time_span_listener` has added.

    Raises:
      ValueError: it is not registered.

    >>> from xpr import monitoring
    >>> monitoring.register_event_time_span_listener(print)
    >>> monitoring.unregister_event_time_span_listener(print)
    """
    _remove(events.spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Removes a function that `register_scalar_listener` has added.

    Raises:
      ValueError: it is not registered.

    >>> from xpr import monitoring
    >>> monitoring.register_scalar_listener(print)
    >>> monitoring.unregister_scalar_listener(print)
    """
    _remove(events.scalars, callback)


def _remove(listeners: list[Listener], callback: Listener) -> None:
    if callback not in listeners:
        raise ValueError(f"monitoring: {callback!r} is not registered as a listener of this kind.")
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Removes all listeners, of every kind.

    >>> from xpr import monitoring
    >>> monitoring.clear_event_listeners()
    """
    for listeners in (events.events, events.durations, events.spans, events.scalars):
        listeners.clear()

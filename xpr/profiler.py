"""Traces of what a program does over time, for TensorBoard and Perfetto: `jax.profiler`.

    with profiler.trace("logs"):
        step(params, batch)

writes what ran on the host and on devices into `logs/plugins/profile`.
"""

from __future__ import annotations

import functools
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xpr.backend import runtime
from xpr.backend.devices import client_of

__all__ = [
    "ProfileOptions", "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile",
    "save_device_memory_profile", "start_trace", "stop_trace", "trace",
]  # fmt: skip

ProfileOptions = runtime.profiler.ProfileOptions
TraceAnnotation = runtime.profiler.TraceMe

_running: list[tuple[Any, str]] = []  # the session that records, and its folder


class StepTraceAnnotation(TraceAnnotation):  # type: ignore[misc,valid-type]  # jaxlib's class has no types
    """`with StepTraceAnnotation("train", step_num=n): ...` marks one step of a loop in traces.

    Args:
      name: what the steps are called.
      **kwargs: what is shown with it, such as `step_num`.

    >>> from xpr import profiler
    >>> with profiler.StepTraceAnnotation("train", step_num=3):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any) -> Callable[..., Any]:
    """A function whose calls are events of traces.

    Args:
      func: any function.
      name: of the events; None for that of the function.
      **decorator_kwargs: what is shown with each event.

    Returns:
      A function that does the same.

    >>> from xpr import profiler
    >>> profiler.annotate_function(abs)(-3)
    3
    """
    label = name or getattr(func, "__qualname__", None) or func.__name__

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def start_trace(log_dir: os.PathLike[str] | str, *, profiler_options: Any = None) -> None:
    """Begins to record what the program does.

    Args:
      log_dir: the folder to write into, when the recording ends.
      profiler_options: `ProfileOptions`; None for the default.

    Returns:
      None.

    Raises:
      RuntimeError: a recording runs already.

    >>> import os, tempfile
    >>> from xpr import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.start_trace(folder)
    ...     profiler.stop_trace()
    ...     print(os.listdir(folder))
    ['plugins']
    """
    if _running:
        raise RuntimeError(f"profiler.start_trace: a trace to {_running[0][1]} is being recorded; end it first.")
    client_of()  # what is made while a session runs is not recorded
    session = runtime.profiler.ProfilerSession(ProfileOptions() if profiler_options is None else profiler_options)
    _running.append((session, str(log_dir)))


def stop_trace() -> None:
    """Ends the recording, and writes it to its folder.

    Raises:
      RuntimeError: none runs.

    >>> from xpr import profiler
    >>> profiler.stop_trace()
    Traceback (most recent call last):
        ...
    RuntimeError: profiler.stop_trace: no trace is being recorded; start_trace(folder) begins one.
    """
    if not _running:
        raise RuntimeError("profiler.stop_trace: no trace is being recorded; start_trace(folder) begins one.")
    session, folder = _running.pop()
    session.stop_and_export(folder)


@contextmanager
def trace(log_dir: os.PathLike[str] | str, *, profiler_options: Any = None) -> Iterator[None]:
    """`with trace(folder): ...` records what the program does in the block.

    Args:
      log_dir: the folder to write into.
      profiler_options: `ProfileOptions`; None for the default.

    Returns:
      A context manager.

    Raises:
      RuntimeError: a recording runs already.

    >>> import os, tempfile
    >>> import xpr.numpy as jnp
    >>> from xpr import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with profiler.trace(folder):
    ...         x = jnp.arange(3.0) * 2
    ...     print(os.listdir(folder))
    ['plugins']
    """
    start_trace(log_dir, profiler_options=profiler_options)
    try:
        yield
    finally:
        stop_trace()


def device_memory_profile(backend: str | None = None) -> bytes:
    """What occupies the memory of a platform's devices, in the format of `pprof`.

    Args:
      backend: the platform; None for the default one.

    Returns:
      Compressed bytes, that `pprof` reads from a file.

    >>> from xpr import profiler
    >>> profiler.device_memory_profile()[:2]
    b'\\x1f\\x8b'
    """
    return gzip.compress(client_of(backend).heap_profile())


def save_device_memory_profile(filename: os.PathLike[str] | str, backend: str | None = None) -> None:
    """Writes `device_memory_profile` to a file.

    Args:
      filename: the file.
      backend: the platform; None for the default one.

    Returns:
      None.

    >>> import os, tempfile
    >>> from xpr import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.save_device_memory_profile(os.path.join(folder, "memory.prof"))
    """
    Path(filename).write_bytes(device_memory_profile(backend))

"""Traces of what a program does over time, for TensorBoard and Perfetto: `jax.profiler`.

    with profiler.trace("logs"):
        step(params, batch)

writes what ran on the host and on devices into `logs/plugins/profile`. `table` measures what takes the time in a
function.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from xpr.backend import runtime
from xpr.backend.devices import client_of
from xpr.inspect.timing import Timings, table

__all__ = [
    "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "StepTraceAnnotation", "Timings",
    "TraceAnnotation", "annotate_function", "device_memory_profile", "register_subprocess",
    "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace", "table", "trace",
]  # fmt: skip

ProfileOptions = runtime.profiler.ProfileOptions
TraceAnnotation = runtime.profiler.TraceMe
ProfileData = runtime.profile_data.ProfileData
ProfileEvent = runtime.profile_data.ProfileEvent
ProfilePlane = runtime.profile_data.ProfilePlane


class _Recording(NamedTuple):
    """A trace that is being recorded: its session, its folder, and what is made of it for Perfetto."""

    session: Any
    folder: str
    perfetto_file: bool
    perfetto_link: bool


_running: list[_Recording] = []
_servers: list[Any] = []


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


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begins to record what the program does.

    Args:
      log_dir: the folder to write into, when the recording ends.
      create_perfetto_link: whether to print a link to Perfetto that opens the trace, and to wait until it is opened.
      create_perfetto_trace: whether to write `perfetto_trace.json.gz`, too, which https://ui.perfetto.dev opens.
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
        raise RuntimeError(f"profiler.start_trace: a trace to {_running[0].folder} is being recorded; end it first.")
    client_of()  # a client that is made while a session runs is not recorded
    session = runtime.profiler.ProfilerSession(ProfileOptions() if profiler_options is None else profiler_options)
    for_perfetto = bool(create_perfetto_trace or create_perfetto_link)
    _running.append(_Recording(session, str(log_dir), for_perfetto, bool(create_perfetto_link)))


def stop_trace() -> None:
    """Ends the recording, and writes it to its folder.

    Raises:
      RuntimeError: none runs.

    >>> from xpr import profiler
    >>> profiler.stop_trace()
    Traceback (most recent call last):
        ...
    RuntimeError: profiler.stop_trace: No profile started; start_trace(folder) begins to record.
    """
    if not _running:
        raise RuntimeError("profiler.stop_trace: No profile started; start_trace(folder) begins to record.")
    recording = _running.pop()
    recording.session.stop_and_export(recording.folder)
    if recording.perfetto_file:
        file = _for_perfetto(Path(recording.folder))
        if recording.perfetto_link:
            _serve_once(file)


def _for_perfetto(folder: Path) -> Path:
    """Writes the last trace of a folder as Perfetto reads it: without metadata."""
    (of_host,) = max((folder / "plugins" / "profile").iterdir(), key=os.path.getmtime).glob("*.trace.json.gz")
    events = json.loads(gzip.decompress(of_host.read_bytes()))
    events.pop("metadata", None)
    target = of_host.with_name("perfetto_trace.json.gz")
    target.write_bytes(gzip.compress(json.dumps(events).encode()))
    return target


_PERFETTO_PORT = 9001  # from which Perfetto's page may read


def _serve_once(file: Path) -> None:
    """Prints a link to Perfetto, which reads the file from this machine, and waits until it has done so."""
    from http.server import BaseHTTPRequestHandler, HTTPServer  # 15 ms, for links alone

    was_read: list[bool] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is that of the library's
            found = self.path.split("?")[0] == f"/{file.name}"
            self.send_response(200 if found else 404)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            if found:
                self.wfile.write(file.read_bytes())
                was_read.append(True)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", _PERFETTO_PORT), Handler) as server:
        print(f"The trace is shown at https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{_PERFETTO_PORT}/{file.name}")
        while not was_read:
            server.handle_request()


@contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Iterator[None]:
    """`with trace(folder): ...` records what the program does in the block.

    Args:
      log_dir: the folder to write into.
      create_perfetto_link: whether to print a link to Perfetto that opens the trace, and to wait until it is opened.
      create_perfetto_trace: whether to write `perfetto_trace.json.gz`, too, which https://ui.perfetto.dev opens.
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
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Starts a server from which TensorBoard records traces of this process.

    Args:
      port: where it listens.
      requires_backend: whether devices are set up first, so that what they do is recorded.

    Returns:
      The server, which `stop_server` ends.

    Raises:
      ValueError: one runs already.

    >>> from xpr import profiler
    >>> server = profiler.start_server(9417)
    >>> profiler.stop_server()
    """
    if _servers:
        raise ValueError("profiler.start_server: a server runs already; stop_server() ends it.")
    if requires_backend:
        client_of()
    _servers.append(runtime.profiler.start_server(port))
    return _servers[0]


def stop_server() -> None:
    """Ends the server.

    Raises:
      ValueError: none runs.

    >>> from xpr import profiler
    >>> profiler.stop_server()
    Traceback (most recent call last):
        ...
    ValueError: profiler.stop_server: No active profiler server. start_server(port) starts one.
    """
    if not _servers:
        raise ValueError("profiler.stop_server: No active profiler server. start_server(port) starts one.")
    _servers.clear()


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Registers another process, whose server traces of this one record, too.

    Args:
      pid: the number of the other process.
      port: where its server listens, see `start_server`.

    Returns:
      A function that ends the registration, which ends with the function's life at the latest.

    Raises:
      RuntimeError: there is no such server, or it is registered already.

    >>> from xpr import profiler
    >>> profiler.register_subprocess(4711, port=9419)  # doctest: +SKIP
    """
    return runtime.profiler.register_subprocess(pid, port)  # type: ignore[no-any-return]


def device_memory_profile(backend: str | None = None) -> bytes:
    """What occupies the memory of a platform's devices, in the format of `pprof`.

    Arrays stand under the functions that made them if the setting `array_tracebacks` was on then
    (XPR_ARRAY_TRACEBACKS=1 in the environment). Recording these takes some of the time of each call.

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

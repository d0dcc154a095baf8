"""A TCP relay: a local port whose connections lead to a remote port, and stay open when the remote side is gone.

NOTE [XLA ends the process]: XLA's distributed client polls the service for errors, and where the connection to it
breaks it ends the process without a Python exception. From Python neither the polling can be turned off, nor can its
callback be replaced. So its connection leads through a relay in the same process, which stays silent when the service
is gone; links.py notices the end of other processes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

_RETRY = 0.05  # seconds


class Relay:
    """Passes on what comes to a local port, and what is answered."""

    def __init__(self, target: tuple[str, int]):
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        _in_background(self._accept)

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:  # closed
                return
            _in_background(self._join, local)

    def _join(self, local: socket.socket) -> None:
        while True:
            try:
                remote = socket.create_connection(self._target)
                break
            except OSError:
                time.sleep(_RETRY)
        with local, remote:
            for each in (local, remote):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _in_background(_forward, remote, local)
            _forward(local, remote)
            with contextlib.suppress(OSError):
                remote.shutdown(socket.SHUT_RDWR)  # the local side has closed; ends the other thread, too

    def close(self) -> None:
        """Accepts no more connections."""
        self._listener.close()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    """Passes on all that comes until the source is closed; what the sink doesn't take any more is dropped."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            with contextlib.suppress(OSError):
                sink.sendall(data)


def _in_background(function: object, *args: object) -> None:
    threading.Thread(target=function, args=args, daemon=True, name="xpr relay").start()  # type: ignore[arg-type]

"""relay: a port of this machine that stands for a port of another, and stays open when that one is gone.

NOTE [XLA ends the process]: XLA's distributed client asks the service for errors all the time, and where the connection
to it breaks it ends the process, so that no Python sees why. It can't be told otherwise: from Python neither the asking
can be turned off, nor can its callback be given. So its connection leads through a relay in its own process, which goes
on saying nothing when the service is gone; what has become of other processes is known by links.py.
"""

from __future__ import annotations

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
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            _in_background(self._join, near)

    def _join(self, near: socket.socket) -> None:
        while True:
            try:
                far = socket.create_connection(self._target)
                break
            except OSError:
                time.sleep(_RETRY)
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _in_background(_pass_on, far, near)
        _pass_on(near, far)
        far.close()  # nobody asks any more

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass


def _in_background(function: object, *args: object) -> None:
    threading.Thread(target=function, args=args, daemon=True, name="xpr relay").start()  # type: ignore[arg-type]

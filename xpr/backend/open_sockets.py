"""The TCP sockets of this process, among them Gloo's, which jaxlib does not expose."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from typing import Any


class OpenSocket:
    """A TCP socket: its file descriptor, its address, and the address of the other side unless it listens."""

    __slots__ = ("number", "listens", "address", "peer")

    def __init__(self, number: int, listens: bool, address: Any, peer: Any):
        self.number, self.listens, self.address, self.peer = number, listens, address, peer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenSocket) and (self.number, self.address) == (other.number, other.address)

    def __hash__(self) -> int:
        return hash((self.number, self.address))

    def end(self) -> None:
        """Shuts the connection down, whichever library uses it."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)


def open_sockets() -> Iterator[OpenSocket]:
    """The TCP sockets of this process."""
    for name in os.listdir("/dev/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if copy.type != socket.SOCK_STREAM or copy.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                listens = bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
                peer = None if listens else copy.getpeername()[:2]
                yield OpenSocket(int(name), listens, copy.getsockname()[:2], peer)
        except OSError:  # closed since, or not connected
            pass

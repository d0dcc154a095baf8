"""TCP connections between all processes of a distributed program: they carry messages, and show when a process ends.

When a process dies, the operating system closes its connections. When its machine can't be reached any more, TCP
keepalive probes fail, which the system sends without help of a Python thread. Messages are lines of JSON.

Process 0 listens at the coordinator's address. All others connect to it and send the address at which they listen; when
all have connected, each receives the addresses of the others and connects to them. Errors name the processes that did
not connect.
"""

from __future__ import annotations

import json
import random
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from xpr.backend.program_log import names

Message = dict[str, Any]
Address = tuple[str, int]

_HELLO = 5.0  # seconds in which a new connection has to send its first message
_RETRY = 0.1
_TICK = 1.0
_LONGEST = 1 << 22  # bytes of a first message


class NotConnected(Exception):
    """The processes could not be connected; the message says why."""


class Watcher(Protocol):
    """Receives messages, and the news that a process has ended."""

    def received(self, index: int, message: Message) -> None:
        """A message of a process has arrived."""

    def ended(self, index: int, closed_by_peer: bool) -> None:
        """The connection of a process has ended; `closed_by_peer`: its system closed it, rather than not answering."""

    def tick(self) -> None:
        """Called at least every second."""


class Links:
    """The connections of one process to the others.

    Args:
      index, count: the number of this process, and of processes.
      coordinator: the address of process 0.
      bind: the address at which process 0 listens.
      timeout: seconds in which all have to connect.
      heartbeat: seconds without an answer after which a process counts as lost.
      offer: the message of process 0 to all others once they have connected.
    Raises:
      NotConnected: not all connected, or they do not agree on their number.
    """

    def __init__(
        self, index: int, count: int, coordinator: Address, bind: Address, timeout: float, heartbeat: float,
        offer: Callable[[], Message],
    ):  # fmt: skip
        self.index, self.count, self.own_host = index, count, _own_host(coordinator)
        self._heartbeat, self._until = heartbeat, time.monotonic() + timeout
        self._timeout, self._lock = timeout, threading.Lock()
        self._sockets: dict[int, socket.socket] = {}
        try:
            self.offered = self._accept_all(coordinator, bind, offer) if index == 0 else self._join(coordinator)
        except BaseException:
            for link in self._sockets.values():
                link.close()
            raise

    # -- Connecting

    def _accept_all(self, coordinator: Address, bind: Address, offer: Callable[[], Message]) -> Message:
        try:
            listener = socket.create_server(bind, family=_family(bind), backlog=self.count)
        except OSError as error:
            raise NotConnected(
                f"process 0 can't listen at {_text(bind)}: {error.strerror or error}. It has to run on the machine of "
                f"coordinator_address ({_text(coordinator)}), with a port that no other program uses, and only once"
            ) from error
        addresses: dict[int, Any] = {0: coordinator}
        with listener:
            while len(addresses) < self.count:
                accepted = self._accept(listener)
                if accepted is None:
                    missing = [i for i in range(self.count) if i not in addresses]
                    why = f"{names(missing)} did not come within {self._timeout:g} s"
                    self._refuse(why)
                    raise NotConnected(why)
                link, hello = accepted
                if not {"count", "address"} <= hello.keys():  # no process of this program
                    link.close()
                    continue
                wrong = self._disagreement(hello, addresses)
                if wrong:
                    with link:
                        _send(link, {"refused": wrong})
                    self._refuse(wrong)
                    raise NotConnected(wrong)
                addresses[hello["index"]] = tuple(hello["address"])
                self._sockets[hello["index"]] = link
        table = {**offer(), "addresses": [addresses[i] for i in range(self.count)], "token": secrets.token_hex(16)}
        for link in self._sockets.values():
            _send(link, table)
        return table

    def _disagreement(self, hello: Message, addresses: dict[int, Any]) -> str:
        index, count = hello["index"], hello["count"]
        if count != self.count:
            return (
                f"process {index} was told that there are {count} processes, and process 0 that there are {self.count}"
            )
        if index in addresses:
            return f"two processes were told that they are process {index}"
        return ""

    def _refuse(self, why: str) -> None:
        for link in self._sockets.values():
            _send(link, {"refused": why})

    def _join(self, coordinator: Address) -> Message:
        listener = socket.create_server((self.own_host, 0), family=_family((self.own_host, 0)), backlog=self.count)
        with listener:
            link = self._sockets[0] = self._connect(coordinator)
            _send(link, {"index": self.index, "count": self.count, "address": listener.getsockname()[:2]})
            table = _receive(link, self._until - time.monotonic() + _HELLO)
            if table is None:
                raise NotConnected(
                    f"process 0 at {_text(coordinator)} ended before all had come, or is no process of xpr"
                )
            if "refused" in table:
                raise NotConnected(table["refused"])
            for other in range(1, self.index):
                host, port = table["addresses"][other]
                self._sockets[other] = self._connect((host, port), other)
                _send(self._sockets[other], {"index": self.index, "token": table["token"]})
            while len(self._sockets) < self.count - 1:
                accepted = self._accept(listener)
                if accepted is None:
                    missing = [i for i in range(self.count) if i not in self._sockets and i != self.index]
                    raise NotConnected(f"{names(missing)} could not reach this one at {_text(listener.getsockname())}")
                link, hello = accepted
                if hello.get("token") == table["token"]:
                    self._sockets[hello["index"]] = link
        return table

    def _connect(self, address: Address, other: int = 0) -> socket.socket:
        while True:
            left = self._until - time.monotonic()
            try:
                link = socket.create_connection(address, timeout=max(left, _RETRY))
                link.settimeout(None)
                return link
            except OSError as error:
                if left <= 0:
                    raise NotConnected(
                        f"process {other} did not come within {self._timeout:g} s: nobody answers at {_text(address)} "
                        f"({error.strerror or error})"
                    ) from error
            time.sleep(_RETRY)

    def _accept(self, listener: socket.socket) -> tuple[socket.socket, Message] | None:
        """The next connection, with its first message; None after the timeout."""
        while True:
            left = self._until - time.monotonic()
            if left <= 0:
                return None
            listener.settimeout(left)
            try:
                link, _ = listener.accept()
            except TimeoutError:
                return None
            hello = _receive(link, _HELLO)
            if hello is not None and isinstance(hello.get("index"), int):
                return link, hello
            link.close()

    # -- Messages

    def watch(self, watcher: Watcher) -> None:
        """Starts a thread that passes messages, and ends of connections, to `watcher`."""
        for link in self._sockets.values():
            _keep_probing(link, self._heartbeat)
        threading.Thread(target=self._watch, args=(watcher,), daemon=True, name="xpr links").start()

    def _watch(self, watcher: Watcher) -> None:
        selector = selectors.DefaultSelector()
        partial_lines: dict[int, bytes] = {}
        for index, link in self._sockets.items():
            selector.register(link, selectors.EVENT_READ, index)
            partial_lines[index] = b""
        while selector.get_map():
            for key, _ in selector.select(_TICK):
                index, link = key.data, self._sockets[key.data]
                closed_by_peer = True
                try:
                    data = link.recv(1 << 16)
                except OSError as error:
                    data, closed_by_peer = b"", isinstance(error, ConnectionError)
                *lines, partial_lines[index] = (partial_lines[index] + data).split(b"\n")
                for line in lines:
                    watcher.received(index, json.loads(line))
                if not data:
                    selector.unregister(link)
                    link.close()
                    watcher.ended(index, closed_by_peer)
            watcher.tick()

    def send(self, index: int, message: Message) -> None:
        """Sends a message to another process; dropped if its connection has ended."""
        with self._lock:
            _send(self._sockets[index], message)

    def close(self) -> None:
        """Closes the connections, which the others notice."""
        for link in self._sockets.values():
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                pass


def _send(link: socket.socket, message: Message) -> None:
    try:
        link.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # its end is noticed by the thread that reads


def _receive(link: socket.socket, timeout: float) -> Message | None:
    """The first message; None where there is none, or it is no JSON object."""
    data = b""
    until = time.monotonic() + timeout
    try:
        while not data.endswith(b"\n") and len(data) < _LONGEST:
            link.settimeout(max(until - time.monotonic(), 0.01))
            data += (more := link.recv(1))
            if not more:
                return None
        link.settimeout(None)
        message = json.loads(data)
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _keep_probing(link: socket.socket, heartbeat: float) -> None:
    """Enables TCP keepalive: the system ends the connection when the other side has not answered for so long."""
    idle, between = max(1, int(heartbeat / 3)), max(1, int(heartbeat / 6))
    limit = max(1.0, heartbeat - between)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    values = {
        "TCP_KEEPIDLE": idle, "TCP_KEEPALIVE": idle, "TCP_KEEPINTVL": between,
        "TCP_KEEPCNT": max(1, int((heartbeat - idle) / between)), "TCP_USER_TIMEOUT": int(1000 * limit),
    }  # fmt: skip
    for name, value in values.items():
        if hasattr(socket, name):  # as far as the system has it
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# -- Addresses


def _text(address: Any) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _family(address: Address) -> socket.AddressFamily:
    return socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]


def free_port(host: str) -> int:
    """A port without a listener, below those that the system assigns to outgoing connections."""
    ports = range(20_000, 32_000)
    while True:
        port = random.choice(ports)
        try:
            with socket.create_server((host, port), family=_family((host, port))):
                return port
        except OSError:  # another one, then
            pass


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _own_host(coordinator: Address) -> str:
    """The address at which other processes reach this one: the source address of a route to the coordinator."""
    if is_loopback(coordinator[0]):
        return "127.0.0.1" if coordinator[0] == "localhost" else coordinator[0]
    for target in (coordinator, ("192.0.2.1", 9)):  # the second, which is nobody's, where the first is this machine
        try:
            with socket.socket(_family(target), socket.SOCK_DGRAM) as probe:
                probe.connect(target)
                if not is_loopback(probe.getsockname()[0]):
                    return probe.getsockname()[0]
        except OSError:
            pass
    return "127.0.0.1"

"""links : a connection from each process to every other, by which they talk, and by which each learns that one is gone.

A process that dies closes its connections, whatever it dies of: the system does it. One that can't be reached any more
does not answer the system's own probes, which the others' systems send while nobody talks, so that no thread of Python
has to find time for it. Messages are lines of JSON.

Process 0 is reached at the coordinator's address. All others come there and say where they can be reached; when all are
there, each is told where the others are. Who does not come is named by all who came.
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

Message = dict[str, Any]
Address = tuple[str, int]

_HELLO = 5.0  # seconds in which one who connects says who it is
_RETRY = 0.1
_TICK = 1.0
_LONGEST = 1 << 22  # bytes of a first message


class Refused(Exception):
    """The processes could not be brought together; the message says why."""


class Watcher(Protocol):
    """Who is told of what happens."""

    def heard(self, index: int, message: Message) -> None:
        """A process said something."""

    def ended(self, index: int, answers: bool) -> None:
        """A process is gone; where it still `answers`, its system does and has closed the connection."""

    def tick(self) -> None:
        """A second has passed, or less."""


class Links:
    """The connections of one process.

    Args:
      index, count: the number of this process, and of processes.
      coordinator: where process 0 is reached.
      bind: where process 0 listens.
      timeout: seconds in which all have to come.
      heartbeat: seconds after which a process that does not answer is taken for lost.
      offer: what process 0 tells all others when they are there.
    Raises:
      Refused: not all came, or they do not agree.
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
            self.offered = self._gather(coordinator, bind, offer) if index == 0 else self._come(coordinator)
        except BaseException:
            for link in self._sockets.values():
                link.close()
            raise

    # -- Coming together

    def _gather(self, coordinator: Address, bind: Address, offer: Callable[[], Message]) -> Message:
        try:
            listener = socket.create_server(bind, family=_family(bind), backlog=self.count)
        except OSError as error:
            raise Refused(
                f"process 0 can't listen at {_text(bind)}: {error.strerror or error}. It has to run on the machine of "
                f"coordinator_address ({_text(coordinator)}), with a port that no other program uses, and only once"
            ) from error
        doors: dict[int, Any] = {0: coordinator}
        with listener:
            while len(doors) < self.count:
                accepted = self._accept(listener)
                if accepted is None:
                    missing = [i for i in range(self.count) if i not in doors]
                    why = f"{names(missing)} did not come within {self._timeout:g} s"
                    self._refuse(why)
                    raise Refused(why)
                link, hello = accepted
                if not {"count", "door"} <= hello.keys():  # a stranger
                    link.close()
                    continue
                wrong = self._objection(hello, doors)
                if wrong:
                    with link:
                        _send(link, {"refused": wrong})
                    self._refuse(wrong)
                    raise Refused(wrong)
                doors[hello["index"]] = tuple(hello["door"])
                self._sockets[hello["index"]] = link
        table = {**offer(), "doors": [doors[i] for i in range(self.count)], "token": secrets.token_hex(16)}
        for link in self._sockets.values():
            _send(link, table)
        return table

    def _objection(self, hello: Message, doors: dict[int, Any]) -> str:
        index, count = hello["index"], hello["count"]
        if count != self.count:
            return (
                f"process {index} was told that there are {count} processes, and process 0 that there are {self.count}"
            )
        if index in doors:
            return f"two processes were told that they are process {index}"
        return ""

    def _refuse(self, why: str) -> None:
        for link in self._sockets.values():
            _send(link, {"refused": why})

    def _come(self, coordinator: Address) -> Message:
        door = socket.create_server((self.own_host, 0), family=_family((self.own_host, 0)), backlog=self.count)
        with door:
            link = self._sockets[0] = self._connect(coordinator)
            _send(link, {"index": self.index, "count": self.count, "door": door.getsockname()[:2]})
            told = _receive(link, self._until - time.monotonic() + _HELLO)
            if told is None:
                raise Refused(f"process 0 at {_text(coordinator)} ended before all had come, or is no process of xpr")
            if "refused" in told:
                raise Refused(told["refused"])
            for other in range(1, self.index):
                host, port = told["doors"][other]
                self._sockets[other] = self._connect((host, port), other)
                _send(self._sockets[other], {"index": self.index, "token": told["token"]})
            while len(self._sockets) < self.count - 1:
                accepted = self._accept(door)
                if accepted is None:
                    missing = [i for i in range(self.count) if i not in self._sockets and i != self.index]
                    raise Refused(f"{names(missing)} could not reach this one at {_text(door.getsockname())}")
                link, hello = accepted
                if hello.get("token") == told["token"]:
                    self._sockets[hello["index"]] = link
        return told

    def _connect(self, address: Address, other: int = 0) -> socket.socket:
        while True:
            left = self._until - time.monotonic()
            try:
                link = socket.create_connection(address, timeout=max(left, _RETRY))
                link.settimeout(None)
                return link
            except OSError as error:
                if left <= 0:
                    raise Refused(
                        f"process {other} did not come within {self._timeout:g} s: nobody answers at {_text(address)} "
                        f"({error.strerror or error})"
                    ) from error
            time.sleep(_RETRY)

    def _accept(self, listener: socket.socket) -> tuple[socket.socket, Message] | None:
        """The next one who says who it is; None where time is up."""
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

    # -- Talking

    def watch(self, watcher: Watcher) -> None:
        """From now on tells of what the others say, and of who is gone, in a thread of its own."""
        for link in self._sockets.values():
            _keep_probing(link, self._heartbeat)
        threading.Thread(target=self._watch, args=(watcher,), daemon=True, name="xpr links").start()

    def _watch(self, watcher: Watcher) -> None:
        selector = selectors.DefaultSelector()
        rest: dict[int, bytes] = {}
        for index, link in self._sockets.items():
            selector.register(link, selectors.EVENT_READ, index)
            rest[index] = b""
        while selector.get_map():
            for key, _ in selector.select(_TICK):
                index, link = key.data, self._sockets[key.data]
                answers = True
                try:
                    data = link.recv(1 << 16)
                except OSError as error:
                    data, answers = b"", isinstance(error, ConnectionError)
                *lines, rest[index] = (rest[index] + data).split(b"\n")
                for line in lines:
                    watcher.heard(index, json.loads(line))
                if not data:
                    selector.unregister(link)
                    link.close()
                    watcher.ended(index, answers)
            watcher.tick()

    def send(self, index: int, message: Message) -> None:
        """Says something to another process; what can't be sent any more is not."""
        with self._lock:
            _send(self._sockets[index], message)

    def close(self) -> None:
        """Leaves; the others learn of it."""
        for link in self._sockets.values():
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                pass


def names(processes: list[int]) -> str:
    """`process 1`, `processes 1 and 3`."""
    if len(processes) == 1:
        return f"process {processes[0]}"
    *first, last = map(str, processes)
    return f"processes {', '.join(first)} and {last}"


def _send(link: socket.socket, message: Message) -> None:
    try:
        link.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # it is gone, which comes up where it is listened to


def _receive(link: socket.socket, timeout: float) -> Message | None:
    """The first message; None where there is none, or it is no message of ours."""
    data = b""
    until = time.monotonic() + timeout
    try:
        while not data.endswith(b"\n") and len(data) < _LONGEST:
            link.settimeout(max(until - time.monotonic(), 0.01))
            data += (more := link.recv(1))
            if not more:
                return None
        link.settimeout(None)
        found = json.loads(data)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _keep_probing(link: socket.socket, heartbeat: float) -> None:
    """Has the system end the connection when the other side's system has not answered for so long."""
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
    """A port that nobody listens at, and that the system gives to no connection, as it does with ports above."""
    ports = range(20_000, 32_000)
    while True:
        port = random.choice(ports)
        try:
            with socket.create_server((host, port), family=_family((host, port))):
                return port
        except OSError:  # another one, then
            pass


def is_loopback(host: str) -> bool:
    """Whether an address is one that only this machine reaches by it."""
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _own_host(coordinator: Address) -> str:
    """The address by which other processes reach this one: that from which this machine reaches the coordinator."""
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

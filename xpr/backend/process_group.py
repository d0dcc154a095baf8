"""Multi-process execution: checks that all processes run the same programs, and ends waiting when one is gone.

Each process runs the same programs in the same order; XLA's collectives in them (Gloo on CPU, NCCL on GPU) find their
partners by that order alone. Programs that differ would deadlock, compute nonsense, or end the process.

NOTE [the same programs]: So before a program runs the processes compare what they are about to run, and what ran
before; but where the program before was always followed by this one, as in a loop that trains, this process goes on
without. The others have the same history: either they go on, too, or they compare and wait. A process that has waited
for long tells the others for which program, and these know which one they ran instead.

When a process is gone, Gloo's connections are closed: every wait of Gloo then fails, which is raised as `ProcessLost`
where the program was called.
"""

from __future__ import annotations

import ctypes
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr.backend import runtime
from xpr.backend.links import Address, Links, Message, free_port
from xpr.backend.open_sockets import open_sockets
from xpr.backend.program_log import Log, Program, Ranks, names
from xpr.backend.relay import Relay
from xpr.errors import MissingProcess, ProcessLost, ProgramMismatch

R = TypeVar("R")

_NEVER = 10**6  # seconds: XLA's own heartbeats, see NOTE [XLA ends the process]
_TELL_AFTER = 3.0  # seconds of waiting
_GRACE = 1.0

_ADVICE = (
    "Every process has to run the same programs in the same order: look for what differs between them, such as "
    "process_index(), random seeds, files, the order of a set, or an `if` on a value that only one of them has."
)


class _Waiting:
    """The program that this process waits for others in, and since when."""

    __slots__ = ("program", "number", "since", "reported")

    def __init__(self, program: Program, number: int):
        self.program, self.number, self.since, self.reported = program, number, time.monotonic(), False


class ProcessGroup:
    """The processes of a distributed program, from the point of view of one.

    Args:
      index, count: the number of this process, and of processes.
      coordinator, bind: the address of process 0, and that at which it listens.
      timeout, heartbeat, farewell: seconds to wait for all to connect, for an answer, and for all to end.
      local_device_ids: the GPUs that this process is to use; None for all.
    Raises:
      MissingProcess: not all connected.
    """

    def __init__(
        self, index: int, count: int, coordinator: Address, bind: Address, timeout: float, heartbeat: float,
        farewell: float, local_device_ids: Sequence[int] | None,
    ):  # fmt: skip
        self.index, self.count, self.local_device_ids = index, count, local_device_ids
        self.everyone: Ranks = tuple(range(count))
        self._timeout, self._heartbeat, self._farewell = timeout, heartbeat, farewell
        self._changed = threading.Condition()
        self._replies: dict[tuple[Ranks, int], dict[int, Message]] = {}
        self._logs: dict[Ranks, Log] = {}
        self._byes: dict[int, Message] = {}
        self._ended: dict[int, str] = {}  # the ended processes
        self._failure: Exception | None = None  # after which no program runs on several processes
        self._waiting: _Waiting | None = None
        self._leaving = False
        self._preemption: Any = None
        self._gloo: set[Address] = set()
        self._service: Any = None
        self._cpu_arguments: dict[str, Any] = {}  # the arguments with which a CPU client is made
        self.links = Links(index, count, coordinator, bind, timeout, heartbeat, lambda: self._serve(bind))
        self.links.watch(self)
        self._connect(coordinator)

    # -- XLA's runtime

    def _serve(self, bind: Address) -> Message:
        """Starts XLA's service; returns its port, for the others."""
        port = free_port(bind[0])
        host = f"[{bind[0]}]" if ":" in bind[0] else bind[0]
        self._service = runtime._jax.get_distributed_runtime_service(
            f"{host}:{port}", self.count, heartbeat_timeout=_NEVER, cluster_register_timeout=_NEVER, shutdown_timeout=10
        )
        return {"service": port}

    def _connect(self, coordinator: Address) -> None:
        self._relay = Relay((coordinator[0], self.links.offered["service"]))
        self.client = runtime._jax.get_distributed_runtime_client(
            self._relay.address, self.index, init_timeout=_NEVER, shutdown_timeout=10,
            heartbeat_timeout=_NEVER, shutdown_on_destruction=False, use_compression=True,
        )  # fmt: skip
        self.may_never_end(self.client.connect)

    def make_cpu_client(self, make: Callable[..., R]) -> R:
        """The CPU client that `make` creates with the arguments for several processes; all of them do it."""
        before = set(open_sockets())
        collectives = runtime._jax.make_gloo_tcp_collectives(
            distributed_client=self.client, hostname=self.links.own_host, interface=None
        )
        listening = next((s.address for s in set(open_sockets()) - before if s.listens), None)
        addresses = self.exchange(self.everyone, "use of the CPU", listening, self._timeout)
        self._gloo = {(host, port) for host, port in filter(None, addresses.values())}
        self._cpu_arguments = {
            "distributed_client": self.client, "node_id": self.index, "num_nodes": self.count,
            "collectives": collectives,
        }  # fmt: skip
        return self.may_never_end(lambda: make(**self._cpu_arguments))

    def make_another_cpu_client(self, make: Callable[..., R]) -> R:
        """One more CPU client of the same devices, which shares the connections of the first.

        A process makes it by itself. XLA takes the processes' own topologies, which are as they were, and has
        process 0 write the one of them all, once only: so that one is removed first.
        """
        if self.index == 0:
            self.client.key_value_delete("cpu:global_topology/cpu")
        return self.may_never_end(lambda: make(**self._cpu_arguments))

    def make_gpu_client(self, make: Callable[[dict[str, Any], Any], R]) -> R:
        """The GPU client that `make` creates from options and XLA's distributed client."""
        self.exchange(self.everyone, "use of the GPU", None, self._timeout)
        options: dict[str, Any] = {"node_id": self.index, "num_nodes": self.count}
        if self.local_device_ids is not None:
            options["visible_devices"] = list(self.local_device_ids)
        return self.may_never_end(lambda: make(options, self.client))

    def reached_sync_point(self, step: int) -> bool:
        """Whether the processes are to stop at this step, as they agreed after one got a notice (SIGTERM).

        The first call has XLA listen to the notices, which would end the process otherwise.
        """
        if self._preemption is None:
            self._preemption = runtime._jax.create_preemption_sync_manager()
            self._preemption.initialize(self.client)
        return self._preemption.reached_sync_point(step)

    # -- Exchanging

    def exchange(
        self, ranks: Ranks, what: str, value: Any, timeout: float | None = None, waiting: str = ""
    ) -> dict[int, Any]:
        """Sends a value to the processes `ranks`, and returns theirs, when all have come to the same point.

        Raises:
          ProcessLost: one of them is gone.
          MissingProcess: one did not come in time.
          ProgramMismatch: one came to something else.
        """
        log = self._log(ranks)
        key = ranks, log.exchanges
        log.exchanges += 1
        message = {"ranks": ranks, "number": key[1], "what": what, "value": value}
        for other in ranks:
            if other != self.index:
                self.links.send(other, message)
        with self._changed:
            self._replies.setdefault(key, {})[self.index] = message
            came = self._changed.wait_for(lambda: self._complete(key), timeout)
            replies = self._replies[key]
            if not came:
                late = [other for other in ranks if other not in replies]
                raise MissingProcess(
                    f"{what}: {names(late)} of {self.count} did not come to it within {timeout:g} s. "
                    "All processes have to; see what they are doing."
                )
            missing = [other for other in ranks if other not in replies]
            if missing:
                ended = [other for other in missing if other in self._ended or other in self._byes]
                raise (
                    self._lost_error(ended, waiting or what)
                    if self._failure is None
                    else self._failure_error(waiting or what)
                )
            del self._replies[key]
        for other in ranks:
            if replies[other]["what"] != what:
                raise ProgramMismatch(
                    f"The processes are at different points of their scripts: process {self.index} at {what}, process "
                    f"{other} at {replies[other]['what']}. {_ADVICE}"
                )
        return {other: replies[other]["value"] for other in ranks}

    def _complete(self, key: tuple[Ranks, int]) -> bool:
        """Whether an exchange has all replies, or will never have them."""
        missing = [other for other in key[0] if other not in self._replies[key]]
        if not missing or self._failure is not None:
            return True
        return any(other in self._ended or other in self._byes for other in missing)

    def _log(self, ranks: Ranks) -> Log:
        log = self._logs.get(ranks)
        if log is None:
            log = self._logs.setdefault(ranks, Log())
        return log

    # -- Running

    @property
    def failed(self) -> bool:
        """Whether something happened after which no program runs on several processes."""
        return self._failure is not None

    def run(self, program: Program, execute: Callable[[], R]) -> R:
        """The result of `execute`, which runs a program that the others run too.

        Raises:
          ProcessLost: one of them is gone.
          ProgramMismatch: one runs another program.
          RuntimeError: XLA raised it.
        """
        log = self._log(program.ranks)
        with self._changed:
            if self._failure is not None:
                raise self._failure_error(str(program))
            ended = [other for other in program.ranks if not self._takes_part(other, program.ranks, log.count)]
            if ended:
                raise self._lost_error(ended, str(program))
            self._waiting = _Waiting(program, log.count)
        try:
            if not log.expects(program):
                self._agree(program, log)
            with self._changed:
                log.add(program)
            if program.has_run and program.ends:
                return execute()
            program.has_run = True
            return self.may_never_end(execute)
        except ProgramMismatch:
            raise
        except RuntimeError as error:
            self._wait_for_failure(error)
            if self._failure is None:
                raise
            raise self._failure_error(str(program)) from None
        finally:
            self._waiting = None

    def _wait_for_failure(self, error: RuntimeError) -> None:
        """If the error is of Gloo, which fails because of another process, waits until that failure is known."""
        if "Gloo" in str(error):
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None, self._heartbeat)

    def may_never_end(self, function: Callable[[], R]) -> R:
        """The result of a function in which XLA connects to other processes, and does not give up when they are gone.

        It is called in a thread, which is abandoned then.

        Raises:
          ProcessLost, ProgramMismatch: it has not ended a second after a process was gone, or ran something else.
        """
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.extend((function(), None))
            except BaseException as error:  # it is the caller's
                outcome.extend((None, error))
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=work, daemon=True, name="xpr first run").start()
        with self._changed:
            self._changed.wait_for(lambda: outcome or self._failure is not None)
            self._changed.wait_for(lambda: outcome, _GRACE)
            if not outcome:
                raise self._failure_error()
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def _agree(self, program: Program, log: Log) -> None:
        """Compares a program with those of the others, and what ran before it."""
        ranks = program.ranks
        local_order = log.order_with(program)
        orders = self.exchange(ranks, "a program", local_order, waiting=str(program))
        if all(each == local_order for each in orders.values()):
            return
        pair = [ranks[0], next(i for i in ranks if orders[i] != orders[ranks[0]])]
        ran = [[str(each), each.digest] for each in (*log.last, program)]
        replies = self.exchange(ranks, "a program that differs", [log.count - len(log.last), ran])
        first = max(replies[i][0] for i in pair)  # that both remember
        history = [replies[i][1][first - replies[i][0] :] for i in pair]
        at = _first_difference(*[[digest for _, digest in each] for each in history])
        what = _aligned(pair, [each[at][0] if at < len(each) else "nothing more" for each in history])
        if all(len(each) == at + 1 for each in history):  # the program that is about to run, not one before
            texts = program.text.splitlines()
            sums = self.exchange(ranks, "the lines of a program", [zlib.crc32(each.encode()) for each in texts])
            line = _first_difference(*[sums[i] for i in pair])
            shown = self.exchange(ranks, "a line of a program", texts[line].strip() if line < len(texts) else "nothing")
            what += f"\n  line {line + 1} of their texts is the first to differ:\n"
            what += _aligned(pair, [shown[i] for i in pair])
        raise ProgramMismatch(
            f"The processes run different programs as number {first + at + 1} of those that they run together.\n"
            f"{what}\n{_ADVICE}"
        )

    def _takes_part(self, other: int, ranks: Ranks, number: int) -> bool:
        """Whether another process is there, or has run the program of that number before it came to its end."""
        if other not in self._byes:
            return other not in self._ended
        return any(count > number for each, count in self._byes[other]["runs"] if tuple(each) == ranks)

    # -- Callbacks of the links, in their thread

    def received(self, index: int, message: Message) -> None:
        with self._changed:
            if "bye" in message:
                self._byes[index] = message
                if message["bye"]:
                    self._ended[index] = f"it ended with {message['bye']}"
                    self._break(ProcessLost, self._lost_text([index]))
                else:
                    self._compare_with_end(index)
            elif "at" in message:
                self._compare_with(index, message)
            elif "differs" in message:
                self._break(ProgramMismatch, message["differs"])
            else:
                key = tuple(message["ranks"]), message["number"]
                self._replies.setdefault(key, {})[index] = message
            self._changed.notify_all()

    def ended(self, index: int, closed_by_peer: bool) -> None:
        with self._changed:
            if index not in self._ended:
                how = (
                    "it has left" if index in self._byes
                    else "it was killed or has crashed: its connections were closed without a message" if closed_by_peer
                    else f"it can't be reached any more: it has not answered for {self._heartbeat:g} s"
                )  # fmt: skip
                self._ended[index] = how
                if index not in self._byes and not self._leaving:
                    self._break(ProcessLost, self._lost_text([index]))
            self._changed.notify_all()

    def tick(self) -> None:
        """Tells the others what this process waits for, when it has waited for long."""
        waiting = self._waiting
        if waiting is None or waiting.reported or time.monotonic() - waiting.since < _TELL_AFTER:
            return
        waiting.reported = True
        program = waiting.program
        for other in program.ranks:
            if other != self.index:
                self.links.send(other, {
                    "at": waiting.number, "ranks": program.ranks, "program": str(program), "digest": program.digest,
                })  # fmt: skip

    def _compare_with(self, index: int, message: Message) -> None:
        """Records a failure where another process waits in a program in whose place this one ran, or runs, another."""
        ranks, number = tuple(message["ranks"]), message["at"]
        waiting = self._waiting
        local = self._log(ranks).at(number)
        if local is None and waiting is not None and waiting.program.ranks == ranks and waiting.number == number:
            local = waiting.program
        if local is None or local.digest == message["digest"]:
            return
        ran = sorted([(self.index, str(local)), (index, message["program"])])
        why = (
            f"The processes run different programs as number {number + 1} of those that they run together.\n"
            f"{_aligned(*zip(*ran))}\n{_ADVICE}"
        )
        self.links.send(index, {"differs": why})
        self._break(ProgramMismatch, why)

    def _compare_with_end(self, index: int) -> None:
        """Records a failure where this process is in a program that another, which came to its end, never began."""
        waiting = self._waiting
        if waiting is None or index not in waiting.program.ranks:
            return
        if not self._takes_part(index, waiting.program.ranks, waiting.number):
            self._break(ProgramMismatch, (
                f"Process {index} has come to the end of its script, and process {self.index} waits for it in number "
                f"{waiting.number + 1} of the programs that they run together: {waiting.program}. {_ADVICE}"
            ))  # fmt: skip

    def _break(self, kind: type[Exception], why: str) -> None:
        """Records a failure, and ends all waiting."""
        if self._failure is None:
            self._failure = kind(why)
        elif kind is ProcessLost and isinstance(self._failure, ProcessLost):
            self._failure = ProcessLost(self._lost_text(list(self._ended)))
        for each in open_sockets():
            if not each.listens and (each.address in self._gloo or each.peer in self._gloo):
                each.end()

    def check_connections(self, name: str) -> None:
        """Raises the failure after which Gloo's connections are closed, also those between devices of this process."""
        if self._failure is not None:
            raise self._failure_error(f"{name}, whose devices exchange data,")

    # -- Messages

    def _lost_text(self, ended: Sequence[int], needs: str = "") -> str:
        """The message about processes that have ended; `needs` is what can't be done without them."""
        at_end = "it has come to the end of its script"
        endings = "".join(f"\n  process {i}  {self._ended.get(i, at_end)}" for i in sorted(ended))
        are, them = ("is", "it") if len(ended) == 1 else ("are", "them")
        needed = f", and {needs} needs {them}" if needs else ""
        subject = names(sorted(ended))
        return (
            f"{subject[0].upper()}{subject[1:]} of {self.count} {are} gone{needed}.{endings}\n"
            "No program runs on several processes any more. What this process has by itself can still be computed with "
            "and saved; then start all processes again, from the last checkpoint."
        )

    def _lost_error(self, ended: Sequence[int], needs: str) -> ProcessLost:
        return ProcessLost(self._lost_text(ended, needs))

    def _failure_error(self, needs: str = "") -> Exception:
        """The failure as an exception; `needs` is what it is raised for."""
        if isinstance(self._failure, ProgramMismatch):
            return ProgramMismatch(str(self._failure))
        return self._lost_error(list(self._ended), needs)

    # -- Leaving

    def leave(self, error: BaseException | None = None) -> None:
        """Ends the connections; where there was no error, when all others do too, or time is up."""
        self._leaving = True
        why = f"{type(error).__name__}: {error}"[:2000] if error is not None else None
        runs = [[ranks, log.count] for ranks, log in self._logs.items()]
        for other in self.everyone:
            if other != self.index:
                self.links.send(other, {"bye": why, "runs": runs})
        others = [other for other in self.everyone if other != self.index]
        in_order = False
        if error is None:
            with self._changed:
                self._changed.wait_for(lambda: all(i in self._byes or i in self._ended for i in others), self._farewell)
                in_order = self._failure is None and not self._ended and all(i in self._byes for i in others)
        if not in_order:
            for each in (self._preemption, self.client, self._service):
                _keep_for_ever(each)  # they would wait for the others, or end the process
            self.links.close()
            return
        if self._preemption is not None:
            self._preemption.shutdown()  # it uses the client
        self.client.shutdown()
        if self._service is not None:  # which ends when nobody asks it any more
            with self._changed:
                self._changed.wait_for(lambda: all(i in self._ended for i in others), self._farewell)
            self._service.shutdown()
        self.links.close()
        self._relay.close()


def _aligned(ranks: Sequence[int], replies: Sequence[str]) -> str:
    """A line for each process."""
    return "\n".join(f"  process {i}  {text}" for i, text in zip(ranks, replies))


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> int:
    return next((i for i, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))


def _keep_for_ever(thing: Any) -> None:
    if thing is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))

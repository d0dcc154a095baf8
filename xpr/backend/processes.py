"""processes: those that run programs together, what they have run, and what becomes of it when one of them is gone.

Each process runs the same programs in the same order; XLA's collectives in them (Gloo on CPU, NCCL on GPU) find their
partners by that order alone. Programs that differ would wait for each other for ever, give nonsense, or end the
process.

NOTE [the same programs]: So before a program runs the processes compare what they are about to run, and what ran
before; but where the program before was always followed by this one, as in a loop that trains, this process goes on
without. The others have the same history: either they go on, too, or they compare and wait. Who has waited for long
tells the others what for, and these know what they ran in its place.

When a process is gone, what waits for it is ended by closing Gloo's connections: every wait of Gloo then fails, and
comes up as `ProcessLost` where the program was called.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr.backend import runtime
from xpr.backend.links import Address, Links, Message, free_port, names
from xpr.backend.open_sockets import open_sockets
from xpr.backend.program_log import Log, Program, Ranks
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
    """What this process is doing that needs others, and since when."""

    __slots__ = ("program", "number", "since", "told")

    def __init__(self, program: Program, number: int):
        self.program, self.number, self.since, self.told = program, number, time.monotonic(), False


class Group:
    """The processes, as one of them sees them.

    Args:
      index, count: the number of this process, and of processes.
      coordinator, bind: where process 0 is reached, and where it listens.
      timeout, heartbeat, farewell: seconds to wait for all to come, for an answer, and for all to end.
      local_device_ids: the GPUs that this process is to use; None for all.
    Raises:
      MissingProcess: not all came.
    """

    def __init__(
        self, index: int, count: int, coordinator: Address, bind: Address, timeout: float, heartbeat: float,
        farewell: float, local_device_ids: Sequence[int] | None,
    ):  # fmt: skip
        self.index, self.count, self.local_device_ids = index, count, local_device_ids
        self.everyone: Ranks = tuple(range(count))
        self._timeout, self._heartbeat, self._farewell = timeout, heartbeat, farewell
        self._changed = threading.Condition()
        self._said: dict[tuple[Ranks, int], dict[int, Message]] = {}
        self._logs: dict[Ranks, Log] = {}
        self._byes: dict[int, Message] = {}
        self._gone: dict[int, str] = {}  # and how each ended
        self._failure: Exception | None = None  # after which no program runs on several processes
        self._waiting: _Waiting | None = None
        self._leaving = False
        self._gloo: set[Address] = set()
        self._service: Any = None
        self.links = Links(index, count, coordinator, bind, timeout, heartbeat, lambda: self._serve(bind))
        self.links.watch(self)
        self._connect(coordinator)

    # -- XLA's runtime

    def _serve(self, bind: Address) -> Message:
        """Starts XLA's service, at a port that the others are told."""
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
        """What `make` gives for the arguments by which a CPU client is one of many; all processes make theirs."""
        before = set(open_sockets())
        collectives = runtime._jax.make_gloo_tcp_collectives(
            distributed_client=self.client, hostname=self.links.own_host, interface=None
        )
        own = next((s.address for s in set(open_sockets()) - before if s.listens), None)
        found = self.exchange(self.everyone, "use of the CPU", own, self._timeout)
        self._gloo = {(host, port) for host, port in filter(None, found.values())}
        return self.may_never_end(lambda: make(
            distributed_client=self.client, node_id=self.index, num_nodes=self.count, collectives=collectives
        ))  # fmt: skip

    def make_gpu_client(self, make: Callable[[dict[str, Any], Any], R]) -> R:
        """The same for a GPU client, which takes options and XLA's distributed client."""
        self.exchange(self.everyone, "use of the GPU", None, self._timeout)
        options: dict[str, Any] = {"node_id": self.index, "num_nodes": self.count}
        if self.local_device_ids is not None:
            options["visible_devices"] = list(self.local_device_ids)
        return self.may_never_end(lambda: make(options, self.client))

    # -- Exchanging

    def exchange(
        self, ranks: Ranks, what: str, value: Any, timeout: float | None = None, waiting: str = ""
    ) -> dict[int, Any]:
        """Tells the processes `ranks` a value, and gives theirs, when all have come to the same point.

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
            self._said.setdefault(key, {})[self.index] = message
            came = self._changed.wait_for(lambda: self._complete(key), timeout)
            said = self._said[key]
            if not came:
                late = [other for other in ranks if other not in said]
                raise MissingProcess(
                    f"{what}: {names(late)} of {self.count} did not come to it within {timeout:g} s. "
                    "All processes have to; see what they are doing."
                )
            missing = [other for other in ranks if other not in said]
            if missing:
                gone = [other for other in missing if other in self._gone or other in self._byes]
                raise self._lost(gone, waiting or what) if self._failure is None else self._why(waiting or what)
            del self._said[key]
        for other in ranks:
            if said[other]["what"] != what:
                raise ProgramMismatch(
                    f"The processes are at different points of their scripts: process {self.index} at {what}, process "
                    f"{other} at {said[other]['what']}. {_ADVICE}"
                )
        return {other: said[other]["value"] for other in ranks}

    def _complete(self, key: tuple[Ranks, int]) -> bool:
        missing = [other for other in key[0] if other not in self._said[key]]
        if not missing or self._failure is not None:
            return True
        return any(other in self._gone or other in self._byes for other in missing)

    def _log(self, ranks: Ranks) -> Log:
        found = self._logs.get(ranks)
        if found is None:
            found = self._logs.setdefault(ranks, Log())
        return found

    # -- Running

    @property
    def failed(self) -> bool:
        """Whether something happened after which no program runs on several processes."""
        return self._failure is not None

    def run(self, program: Program, execute: Callable[[], R]) -> R:
        """What `execute` gives, which runs a program that the others run too.

        Raises:
          ProcessLost: one of them is gone.
          ProgramMismatch: one runs another program.
          RuntimeError: what XLA has to say.
        """
        log = self._log(program.ranks)
        with self._changed:
            if self._failure is not None:
                raise self._why(str(program))
            gone = [other for other in program.ranks if not self._takes_part(other, program.ranks, log.count)]
            if gone:
                raise self._lost(gone, str(program))
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
            raise self._why(str(program)) from None
        finally:
            self._waiting = None

    def _wait_for_failure(self, error: RuntimeError) -> None:
        """Where Gloo has failed that is because of another process; waits until it is known."""
        if "Gloo" in str(error):
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None, self._heartbeat)

    def may_never_end(self, function: Callable[[], R]) -> R:
        """What a function gives that makes XLA look for other processes, which it goes on to do when they are gone.

        It is called in a thread, which is left behind then.

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
                raise self._why()
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def _agree(self, program: Program, log: Log) -> None:
        """Compares a program with those of the others, and what ran before it."""
        ranks = program.ranks
        mine = log.order_with(program)
        told = self.exchange(ranks, "a program", mine, waiting=str(program))
        if all(each == mine for each in told.values()):
            return
        pair = [ranks[0], next(i for i in ranks if told[i] != told[ranks[0]])]
        ran = [[str(each), each.digest] for each in (*log.last, program)]
        said = self.exchange(ranks, "a program that differs", [log.count - len(log.last), ran])
        first = max(said[i][0] for i in pair)  # that both remember
        history = [said[i][1][first - said[i][0] :] for i in pair]
        place = _first_difference(*[[digest for _, digest in each] for each in history])
        what = _aligned(pair, [each[place][0] if place < len(each) else "nothing more" for each in history])
        if all(len(each) == place + 1 for each in history):  # what is about to run, and not what ran before
            texts = program.text.splitlines()
            sums = self.exchange(ranks, "the lines of a program", [zlib.crc32(each.encode()) for each in texts])
            line = _first_difference(*[sums[i] for i in pair])
            shown = self.exchange(ranks, "a line of a program", texts[line].strip() if line < len(texts) else "nothing")
            what += f"\n  line {line + 1} of their texts is the first to differ:\n"
            what += _aligned(pair, [shown[i] for i in pair])
        raise ProgramMismatch(
            f"The processes run different programs as number {first + place + 1} of those that they run together.\n"
            f"{what}\n{_ADVICE}"
        )

    def _takes_part(self, other: int, ranks: Ranks, number: int) -> bool:
        """Whether another process is there, or has run the program of that number before it came to its end."""
        if other not in self._byes:
            return other not in self._gone
        return any(count > number for each, count in self._byes[other]["runs"] if tuple(each) == ranks)

    # -- What the links tell, in their thread

    def heard(self, index: int, message: Message) -> None:
        with self._changed:
            if "bye" in message:
                self._byes[index] = message
                if message["bye"]:
                    self._gone[index] = f"it ended with {message['bye']}"
                    self._break(ProcessLost, self._lost_text([index]))
                else:
                    self._compare_with_end(index)
            elif "at" in message:
                self._compare_with(index, message)
            elif "differs" in message:
                self._break(ProgramMismatch, message["differs"])
            else:
                key = tuple(message["ranks"]), message["number"]
                self._said.setdefault(key, {})[index] = message
            self._changed.notify_all()

    def ended(self, index: int, answers: bool) -> None:
        with self._changed:
            if index not in self._gone:
                how = (
                    "it has left" if index in self._byes
                    else "it was killed or has crashed: its connections were closed without a word" if answers
                    else f"it can't be reached any more: it has not answered for {self._heartbeat:g} s"
                )  # fmt: skip
                self._gone[index] = how
                if index not in self._byes and not self._leaving:
                    self._break(ProcessLost, self._lost_text([index]))
            self._changed.notify_all()

    def tick(self) -> None:
        """Tells the others what this process waits for, when it has waited for long."""
        waiting = self._waiting
        if waiting is None or waiting.told or time.monotonic() - waiting.since < _TELL_AFTER:
            return
        waiting.told = True
        program = waiting.program
        for other in program.ranks:
            if other != self.index:
                self.links.send(other, {
                    "at": waiting.number, "ranks": program.ranks, "program": str(program), "digest": program.digest,
                })  # fmt: skip

    def _compare_with(self, index: int, message: Message) -> None:
        """Whether another process waits in a program for which this one ran, or runs, another."""
        ranks, number = tuple(message["ranks"]), message["at"]
        waiting = self._waiting
        mine = self._log(ranks).at(number)
        if mine is None and waiting is not None and waiting.program.ranks == ranks and waiting.number == number:
            mine = waiting.program
        if mine is None or mine.digest == message["digest"]:
            return
        ran = sorted([(self.index, str(mine)), (index, message["program"])])
        why = (
            f"The processes run different programs as number {number + 1} of those that they run together.\n"
            f"{_aligned(*zip(*ran))}\n{_ADVICE}"
        )
        self.links.send(index, {"differs": why})
        self._break(ProgramMismatch, why)

    def _compare_with_end(self, index: int) -> None:
        """Whether this process is in a program that another, which came to its end, has never begun."""
        waiting = self._waiting
        if waiting is None or index not in waiting.program.ranks:
            return
        if not self._takes_part(index, waiting.program.ranks, waiting.number):
            self._break(ProgramMismatch, (
                f"Process {index} has come to the end of its script, and process {self.index} waits for it in number "
                f"{waiting.number + 1} of the programs that they run together: {waiting.program}. {_ADVICE}"
            ))  # fmt: skip

    def _break(self, kind: type[Exception], why: str) -> None:
        """Ends all waiting."""
        if self._failure is None:
            self._failure = kind(why)
        elif kind is ProcessLost and isinstance(self._failure, ProcessLost):
            self._failure = ProcessLost(self._lost_text(list(self._gone)))
        for each in open_sockets():
            if not each.listens and (each.address in self._gloo or each.peer in self._gloo):
                each.end()

    def check_connections(self, name: str) -> None:
        """Raises what happened, if after that Gloo's connections are closed, also those between devices here."""
        if self._failure is not None:
            raise self._why(f"{name}, whose devices exchange data,")

    # -- Words

    def _lost_text(self, gone: Sequence[int], needs: str = "") -> str:
        at_end = "it has come to the end of its script"
        hows = "".join(f"\n  process {i}  {self._gone.get(i, at_end)}" for i in sorted(gone))
        asked = f", and {needs} needs it" if needs and len(gone) == 1 else f", and {needs} needs them" if needs else ""
        number, are = names(sorted(gone)), "is" if len(gone) == 1 else "are"
        return (
            f"{number[0].upper()}{number[1:]} of {self.count} {are} gone{asked}.{hows}\n"
            "No program runs on several processes any more. What this process has by itself can still be computed with "
            "and saved; then start all processes again, from the last checkpoint."
        )

    def _lost(self, gone: Sequence[int], needs: str) -> ProcessLost:
        return ProcessLost(self._lost_text(gone, needs))

    def _why(self, needs: str = "") -> Exception:
        """The failure, in the words of what it is raised for."""
        if isinstance(self._failure, ProgramMismatch):
            return ProgramMismatch(str(self._failure))
        return self._lost(list(self._gone), needs)

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
                self._changed.wait_for(lambda: all(i in self._byes or i in self._gone for i in others), self._farewell)
                in_order = self._failure is None and not self._gone and all(i in self._byes for i in others)
        if not in_order:
            for each in (self.client, self._service):
                _keep_for_ever(each)  # they would wait for the others, or end the process
            self.links.close()
            return
        self.client.shutdown()
        if self._service is not None:  # which ends when nobody asks it any more
            with self._changed:
                self._changed.wait_for(lambda: all(i in self._gone for i in others), self._farewell)
            self._service.shutdown()
        self.links.close()
        self._relay.close()


def _aligned(ranks: Sequence[int], said: Sequence[str]) -> str:
    """A line for each process."""
    return "\n".join(f"  process {i}  {text}" for i, text in zip(ranks, said))


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> int:
    return next((i for i, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))


def _keep_for_ever(thing: Any) -> None:
    if thing is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


# -- The group of this process

_group: Group | None = None


def group() -> Group | None:
    """The processes that this one runs programs with; None where it is alone."""
    return _group


def run(program: Program, execute: Callable[[], R]) -> R:
    """What `execute` gives, which runs a program that other processes run too; see `Group.run`."""
    if _group is None:
        raise ProcessLost(
            f"{program} runs on devices of {names(list(program.ranks))}, and distributed.shutdown() was called, after "
            "which this process is alone."
        )
    return _group.run(program, execute)


def join(*args: Any) -> None:
    """Makes this process one of a group; see `Group`."""
    global _group
    _group = Group(*args)


def leave() -> None:
    """Ends the group, in order or, where an exception ends the script, at once."""
    global _group
    if _group is not None:
        left, _group = _group, None
        left.leave(getattr(sys, "last_value", None))

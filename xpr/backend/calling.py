"""Programs on several devices that call Python functions.

NOTE [callbacks on several devices]: as in NOTE [programs with callbacks], such a program runs on a separate client on
CPU, which has as many devices as the platform, and is waited for. One runs at a time on each client, see NOTE [one
program at a time]. A callback that fails must not end its device's part of the program, since the parts of the others
may wait for it, and XLA would end the process: it returns zeros, nothing is called any more, and when the program has
ended its results are dropped and the exception is raised. Where it runs on devices of several processes, each of them
calls the functions for its own devices, and they tell each other at the end whether one has failed.
"""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import processes
from xpr.backend.buffers import Buffer, block, get, raise_if_deleted
from xpr.backend.callbacks import Callback, callback_depth, client_of_depth, client_with_others
from xpr.backend.mesh import Mesh
from xpr.backend.sharding import NamedSharding
from xpr.backend.shards import PartitionedExecutable, assemble, sharded_handler, shards_of
from xpr.core.avals import ShapedArray
from xpr.errors import CallbackError

CompileFor = Callable[[Mesh, Sequence[Any]], Any]  # for the devices of a mesh, with the callbacks

# How a program with callbacks is compiled: XLA ends the process when a device waits for another one longer than this,
# 40 seconds by default, and a callback may take its time, as a debugger's prompt does.
NO_TIMEOUT = {"xla_cpu_collective_call_terminate_timeout_seconds": 2**31 - 1}


class SafeCallback:
    """A callback as XLA calls it on several devices; `failures` has those of this run of the program."""

    __slots__ = ("callback", "depth", "failures")

    def __init__(self, callback: Callback, failures: list[BaseException], depth: int):
        self.callback, self.failures, self.depth = callback, failures, depth

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        token = (np.int32(0),) * self.callback.ordered  # see Builder.token_type
        if not self.failures:
            try:
                return (*token, *self.callback.results(values[len(token) :], self.depth))
            except BaseException as error:  # an interrupt, too, belongs to the caller
                self.failures.append(error)
        return (*token, *[np.zeros(aval.shape, aval.dtype) for aval in self.callback.avals])


class Copy:
    """The program on the devices of one client, and the failures of its callbacks."""

    __slots__ = ("depth", "failures", "raw")

    def __init__(self, compile_for: CompileFor, mesh: Mesh, callbacks: Sequence[Callback], depth: int):
        self.depth, self.failures = depth, list[BaseException]()
        safe_callbacks = [SafeCallback(callback, self.failures, depth) for callback in callbacks]
        self.raw = compile_for(_on_client(mesh, depth), safe_callbacks)

    def on_client(self, sharding: NamedSharding) -> NamedSharding:
        """A sharding over the devices of this client, for one over the devices that they stand for."""
        return NamedSharding(_on_client(sharding.mesh, self.depth), sharding.spec)


class Copies:
    """The copies of a program with callbacks, one for each depth at which it was called.

    `kept` is what compiling it calls, which a later copy needs, too.
    """

    __slots__ = ("_at_depth", "_kept", "_make")

    def __init__(self, compile_for: CompileFor, mesh: Mesh, callbacks: Sequence[Callback], kept: Sequence[Any]):
        self._make, self._kept = functools.partial(Copy, compile_for, mesh, callbacks), kept
        self._at_depth: dict[int, Copy] = {}

    def current(self) -> Copy:
        """The one that this thread runs."""
        depth = callback_depth()
        if depth not in self._at_depth:
            self._at_depth[depth] = self._make(depth)
        return self._at_depth[depth]


@functools.lru_cache(256)
def _on_client(mesh: Mesh, depth: int) -> Mesh:
    """A mesh of the client for callbacks, whose devices stand for those of a mesh; on GPUs the mesh itself."""
    client = mesh.flat[0].client
    if client.platform != "cpu":
        return mesh
    if mesh.is_multi_process:
        group = processes.group_of("A program that calls Python functions", mesh.process_indices)
        known, devices = client.devices(), client_with_others(depth, group, client.local_device_count()).devices()
    else:
        known, devices = client.local_devices(), client_of_depth(depth, client.local_device_count()).local_devices()
    grid = np.array([devices[known.index(device)] for device in mesh.flat], object)
    return Mesh(grid.reshape(mesh.axis_sizes), mesh.axis_names)


class CallingPartitionedExecutable(PartitionedExecutable):
    """A program on several devices that calls Python functions, see NOTE [callbacks on several devices]."""

    __slots__ = ("copies",)

    def __init__(self, copies: Copies, *about: Any):
        super().__init__(copies.current().raw, *about)
        self.copies = copies

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program on buffers with the shardings `in_shardings`, and waits for it.

        Raises:
          CallbackError: a callback raised, maybe in another process.
          DeletedArrayError: one of the buffers was deleted or donated.
          ProcessLost: it runs on devices of another process, too, which is gone.
          ProgramMismatch: another process runs another program instead.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        copy = self.copies.current()
        ins, outs = (list(map(copy.on_client, each)) for each in (self.in_shardings, self.out_shardings))
        sent = list(map(_on_other_client, buffers, [b.aval for b in buffers], self.in_shardings, ins))
        with _one_at_a_time[copy.depth]:
            if self.shared is None:
                results, failures = self._run_on(copy, sent, outs)
            else:
                results, failures = processes.run(self.shared, lambda: self._run_on(copy, sent, outs))
                failures += _failures_of_others(self.shared, failures)
        if failures:
            raise failures[0]
        return list(map(_on_other_client, results, self.out_avals, outs, self.out_shardings))

    def _run_on(
        self, copy: Copy, buffers: list[Buffer], shardings: Sequence[NamedSharding]
    ) -> tuple[list[Buffer], list[BaseException]]:
        copy.failures.clear()
        try:
            results = copy.raw.execute_sharded(buffers, with_tokens=True)
            outs = results.consume_with_handlers(list(map(sharded_handler, self.out_avals, shardings)))
            results.consume_token().block_until_ready()  # effects that no result depends on
            block(outs)
        except RuntimeError as error:
            error.add_note(f"In the program {self.name}.")
            raise
        return outs, list(copy.failures)


def _failures_of_others(program: processes.Program, failures: Sequence[BaseException]) -> list[BaseException]:
    """An exception where callbacks of a program failed in other processes, which is told by each to all."""
    group = processes.group_of(str(program), program.ranks)
    own = [
        str(error) if isinstance(error, CallbackError) else f"{type(error).__name__}: {error}" for error in failures[:1]
    ]
    replies = group.exchange(program.ranks, f"the end of the callbacks of {program.name}", own)
    failed = {rank: reply[0] for rank, reply in replies.items() if reply and rank != group.index}
    if not failed:
        return []
    lines = "".join(f"\n  process {rank}  {text}" for rank, text in failed.items())
    return [CallbackError(
        f"A callback of {program} raised in {processes.names(list(failed))}, so that the program has no results in "
        f"any process.{lines}"
    )]  # fmt: skip


_one_at_a_time: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)  # by the depth that a client is for


def _on_other_client(buffer: Buffer, aval: ShapedArray, source: NamedSharding, target: NamedSharding) -> Buffer:
    """The buffer, copied to the devices of the target, where they are another client's."""
    if source.mesh is target.mesh:
        return buffer
    part = ShapedArray(source.shard_shape(aval.shape), aval.dtype)
    try:
        parts = shards_of(buffer)
    except RuntimeError as error:
        raise_if_deleted([buffer], error)
        raise
    return assemble([get(x, part) for x in parts], aval, target)

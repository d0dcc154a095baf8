"""Buffers on several devices: sharding of host values, reading, resharding; and the programs that run on them.

NOTE [one program at a time]: XLA:CPU runs the parts of a program on one pool of threads, of which those wait that
have reached a collective. Two programs under way may take all threads for parts that wait for parts which find none,
and XLA then ends the process. So the next program on several CPU devices starts when the last one has ended.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import processes, runtime
from xpr.backend.buffers import Buffer, Device, get, handler_for, put, raise_if_deleted, result_handler, unchecked
from xpr.backend.hlo_shardings import raw_sharding
from xpr.backend.runtime import without_jax
from xpr.backend.sharding import NamedSharding, placement, typed
from xpr.backend.waiting import keep_until_done
from xpr.core.avals import ShapedArray
from xpr.core.source import here, summarize
from xpr.errors import NotAddressableError, XprError


def put_shards(host: np.ndarray, aval: ShapedArray, sharding: NamedSharding) -> Buffer:
    """The values of `host`, which must then never change, split and put on the devices of this process."""
    if aval.dtype == dtypes.float0:
        host = np.zeros(aval.shape, bool)
    aval = aval.physical
    indices = sharding.indices(aval.shape)
    parts = [host[indices[i]] for i in sharding.local]
    if sharding.spec.unreduced:
        numbers = sharding.addend_numbers()  # the first is the value, and the others are zeros
        parts = [np.zeros_like(part) if numbers[i] else part for part, i in zip(parts, sharding.local)]
    return assemble(parts, aval, sharding)


def assemble(parts: Sequence[np.ndarray], aval: ShapedArray, sharding: NamedSharding) -> Buffer:
    """One buffer of several parts, one for each device of this process in their order; it may share the parts' memory.

    jaxlib 0.10 can copy to one device only: it fails with "bad_function_call" where it is to copy to several.

    Raises:
      ValueError: none of the devices belongs to this process.
    """
    check_has_local_devices(sharding)
    aval = aval.physical
    parts = [np.asarray(part, order="C") for part in parts]
    if aval.dtype == dtypes.string:
        return _assemble_strings(parts, aval, sharding)
    return runtime._jax.batched_device_put(
        aval, raw_sharding(sharding, aval.ndim), parts, [sharding.devices[i] for i in sharding.local], committed=True,
        force_copy=False,
        host_buffer_semantics=runtime._jax.HostBufferSemantics.ZERO_COPY, enable_x64=True,
    )  # fmt: skip


def _assemble_strings(parts: Sequence[np.ndarray], aval: ShapedArray, sharding: NamedSharding) -> Buffer:
    """One buffer of one on each device: of replicated strings `batched_device_put` makes one buffer alone."""
    shard = aval.plain.update(shape=sharding.shard_shape(aval.shape))
    buffers = [put(part, shard, sharding.devices[i]) for part, i in zip(parts, sharding.local)]
    make = runtime._jax.ArrayImpl
    return make(aval, raw_sharding(sharding, aval.ndim), buffers, committed=True, **unchecked(make.__init__))


def put_in_row_major_order(buffer: Buffer, aval: ShapedArray, target: Device | NamedSharding) -> Buffer:
    """A row-major copy of a buffer that has another layout, where that is: on a device, or with a sharding."""
    if not isinstance(target, NamedSharding):
        return put(np.asarray(get(buffer, aval), order="C"), aval, target)
    shard = ShapedArray(target.shard_shape(aval.physical.shape), aval.physical.dtype)
    return assemble([get(part, shard) for part in shards_of(buffer)], aval, target)


def check_has_local_devices(sharding: NamedSharding) -> None:
    """Raises ValueError where none of the devices belongs to this process."""
    if not sharding.local:
        ranks = processes.names(sharding.mesh.process_indices)
        raise ValueError(
            f"No device of {sharding.mesh.text} belongs to this process: they are those of {ranks}, which alone make "
            "arrays and run programs on them."
        )


def shards_of(buffer: Buffer) -> list[Buffer]:
    """The part on each device of this process, in the order of the devices."""
    with without_jax():
        return buffer._arrays


def get_shards(buffer: Buffer, aval: ShapedArray, sharding: NamedSharding) -> np.ndarray:
    """The values as one NumPy array, waiting for them.

    Raises:
      DeletedArrayError: the buffer was deleted or donated.
      NotAddressableError: a part of them is with other processes.
      RuntimeError: what the computation of the buffer failed with.
    """
    aval = aval.physical
    part_numbers = [] if sharding.is_fully_replicated else _local_part_numbers(aval, sharding)
    try:
        parts = shards_of(buffer)
    except RuntimeError as error:
        raise_if_deleted([buffer], error)
        raise
    shard = ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
    if sharding.is_fully_replicated:
        return get(parts[0], shard)
    is_sum = bool(sharding.spec.unreduced)
    host = (np.zeros if is_sum else np.empty)(aval.shape, aval.dtype)
    done: set[Any] = set()
    indices, addends = sharding.indices(aval.shape), sharding.addend_numbers()
    for part, part_number, number in zip(parts, part_numbers, sharding.local):
        key = (part_number, addends[number])
        if key not in done:
            done.add(key)
            here, value = indices[number], get(part, shard)
            host[here] = host[here] + value if is_sum else value
    host.flags.writeable = False
    return host


def _local_part_numbers(aval: ShapedArray, sharding: NamedSharding) -> list[tuple[int, ...]]:
    """The numbers of the parts on the devices of this process; NotAddressableError where these are not all."""
    numbers = [tuple(row) for row in sharding.part_numbers(aval.ndim)[list(sharding.local)].tolist()]
    if len(set(numbers)) < math.prod(sharding.shard_counts(aval.ndim)):
        raise NotAddressableError(_not_addressable_message(aval, sharding))
    return numbers


def _not_addressable_message(aval: ShapedArray, sharding: NamedSharding) -> str:
    ranks = processes.names(sharding.mesh.process_indices)
    return (
        f"The value of this array of type {aval.str_short()} is not all here: it is sharded by {sharding.spec!r} over "
        f"{sharding.mesh.text}, on devices of {ranks}. addressable_shards has what is on devices of this "
        "process; multihost_utils.process_allgather(x, tiled=True) gives every process the whole, where all call it; "
        "and so does a jitted function with out_shardings=NamedSharding(mesh, P())."
    )


@functools.lru_cache(4096)
def sharded_handler(aval: ShapedArray, sharding: NamedSharding) -> Any:
    """The jaxlib object that turns one result of an execution into a buffer on several devices."""
    aval = aval.physical
    return result_handler(aval, raw_sharding(sharding, aval.ndim))


class _Running:
    """The last program on several CPU devices, see NOTE [one program at a time]."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.token: Any = None

    def start(self, raw: Any, buffers: list[Buffer]) -> tuple[Any, Any]:
        """The results of a program that now runs, and the token that is ready when it has."""
        with self.lock:
            if self.token is not None:
                try:
                    self.token.block_until_ready()
                except RuntimeError:
                    pass  # comes up where its results are read
            results = raw.execute_sharded(buffers, with_tokens=True)
            self.token = results.consume_token()
            return results, self.token

    def forget(self) -> None:
        """Waits no more for the last program, which may never end when a process is gone that it needs."""
        self.lock, self.token = threading.Lock(), None


_running = _Running()


# As HLO writes them.
_COLLECTIVES = ("all-reduce(", "all-gather(", "all-to-all(", "reduce-scatter(", "collective-permute(")


class PartitionedExecutable:
    """A compiled program on several devices, and the shardings of its arguments and results.

    `placements` says where the arrays of its results are: on the device, where the program is constrained to one.
    """

    __slots__ = ("__weakref__", "devices", "handlers", "in_shardings", "name", "one_at_a_time", "out_avals",
                 "out_shardings", "placements", "raw", "shared")  # fmt: skip

    def __init__(
        self, raw: Any, out_avals: Sequence[ShapedArray], devices: Sequence[Device], name: str,
        in_shardings: Sequence[NamedSharding], out_shardings: Sequence[NamedSharding],
    ):  # fmt: skip
        self.raw, self.devices, self.name = raw, tuple(devices), name
        self.out_avals = tuple(map(typed, out_avals, out_shardings))
        self.in_shardings, self.out_shardings = tuple(in_shardings), tuple(out_shardings)
        self.placements = tuple(map(placement, out_shardings))
        self.handlers = [
            sharded_handler(aval, at) if isinstance(at, NamedSharding) else handler_for(aval, at)
            for aval, at in zip(out_avals, self.placements)
        ]
        self.one_at_a_time = len(self.devices) > 1 and self.devices[0].platform == "cpu"
        self.shared: processes.Program | None = None  # its identity among the processes that run it

    def __repr__(self) -> str:
        return f"<PartitionedExecutable {self.name} on {len(self.devices)} devices>"

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program on buffers with the shardings `in_shardings`.

        Raises:
          DeletedArrayError: one of the buffers was deleted or donated.
          ProcessLost: it runs on devices of another process, too, which is gone.
          ProgramMismatch: another process runs another program instead.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        try:
            raw = self.raw
            if self.shared is not None:
                results = processes.run(self.shared, lambda: self._run_with_others(raw, buffers))
            else:
                self._check_connections()
                results = self._run_in_background(raw, buffers)
            return results.consume_with_handlers(self.handlers)
        except XprError:
            _running.forget()
            raise
        except RuntimeError as error:
            raise_if_deleted(buffers, error)
            error.add_note(f"In the program {self.name}.")
            raise

    def _run_in_background(self, raw: Any, buffers: list[Buffer]) -> Any:
        if not self.one_at_a_time:
            return raw.execute_sharded(buffers)
        results, token = _running.start(raw, buffers)
        if processes.group() is None:  # a program may never end when a process is gone that it needs
            keep_until_done(token)
        return results

    def _check_connections(self) -> None:
        group = processes.group()
        if group is not None and group.failed and self.one_at_a_time:
            if any(operation in self.as_text() for operation in _COLLECTIVES):
                group.check_connections(self.name)

    def _run_with_others(self, raw: Any, buffers: list[Buffer]) -> Any:
        """Waits for the program, so that what it fails with comes up here."""
        if self.one_at_a_time:
            results, token = _running.start(raw, buffers)
        else:
            results = raw.execute_sharded(buffers, with_tokens=True)
            token = results.consume_token()
        token.block_until_ready()
        return results

    def register(self, text: str) -> None:
        """Registers the program for comparison with those of other processes, if it runs on devices of several."""
        ranks = tuple(sorted({device.process_index for device in self.devices}))
        if len(ranks) > 1:
            ids = [device.id for device in self.devices]
            layout = f"devices {ids}\narguments {self.in_shardings}\nresults {self.out_shardings}\n"
            self.shared = processes.Program(self.name, ranks, layout + text, summarize(here()), self.one_at_a_time)

    def as_text(self) -> str:
        """The optimized program of one device, in HLO."""
        return "\n\n".join(module.to_string() for module in self.raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates for the optimized program of one device: flops, bytes accessed, transcendentals."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """The sizes in bytes of arguments, outputs, temporaries, aliases, code and the peak, as attributes."""
        return self.raw.get_compiled_memory_stats()

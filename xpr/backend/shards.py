"""Buffers on several devices: cut and put there, read, and laid out anew; and the programs that run on them.

NOTE [one program at a time]: XLA:CPU runs the parts of a program on one pool of threads, of which those wait that
have reached a collective. Two programs under way may take all threads for parts that wait for parts which find none,
and XLA then ends the process. So the next program on several CPU devices starts when the last one has ended.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.buffers import Buffer, Device, get, raise_if_deleted
from xpr.backend.runtime import without_jax
from xpr.backend.sharding import NamedSharding, raw_sharding
from xpr.core.avals import ShapedArray


def put_shards(host: np.ndarray, aval: ShapedArray, sharding: NamedSharding) -> Buffer:
    """The values of `host`, which must then never change, cut and put on the devices."""
    return assemble([host[index] for index in sharding.indices(aval.shape)], aval, sharding)


def assemble(parts: Sequence[np.ndarray], aval: ShapedArray, sharding: NamedSharding) -> Buffer:
    """One buffer of the part for each device, in their order; it may share memory with the parts.

    jaxlib 0.10 can copy to one device only: it fails with "bad_function_call" where it is to copy to several.
    """
    parts = [np.asarray(part, order="C") for part in parts]
    return runtime._jax.batched_device_put(
        aval, raw_sharding(sharding, aval.ndim), parts, list(sharding.devices), committed=True, force_copy=False,
        host_buffer_semantics=runtime._jax.HostBufferSemantics.ZERO_COPY, enable_x64=True,
    )  # fmt: skip


def shards_of(buffer: Buffer) -> list[Buffer]:
    """The part on each device, in the order of the devices."""
    with without_jax():
        return buffer._arrays


def get_shards(buffer: Buffer, aval: ShapedArray, sharding: NamedSharding) -> np.ndarray:
    """The values as one NumPy array, waiting for them.

    Raises:
      DeletedArrayError: the buffer was deleted or donated.
      RuntimeError: what the computation of the buffer failed with.
    """
    try:
        parts = shards_of(buffer)
    except RuntimeError as error:
        raise_if_deleted([buffer], error)
        raise
    shard = ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
    if sharding.is_fully_replicated:
        return get(parts[0], shard)
    host = np.empty(aval.shape, aval.dtype)
    done = set()
    for part, place, index in zip(parts, map(tuple, sharding.places(aval.ndim)), sharding.indices(aval.shape)):
        if place not in done:
            done.add(place)
            host[index] = get(part, shard)
    host.flags.writeable = False
    return host


@functools.lru_cache(4096)
def sharded_handler(aval: ShapedArray, sharding: NamedSharding) -> Any:
    """What turns one result of an execution into a buffer on several devices."""
    make = runtime._jax.array_result_handler
    without_checks = {"_skip_checks": True} if "_skip_checks" in (make.__doc__ or "") else {}
    return make(aval, raw_sharding(sharding, aval.ndim), committed=True, **without_checks)


class _Running:
    """The last program on several CPU devices, see NOTE [one program at a time]."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.token: Any = None

    def run(self, raw: Any, buffers: list[Buffer]) -> Any:
        with self.lock:
            if self.token is not None:
                try:
                    self.token.block_until_ready()
                except RuntimeError:
                    pass  # comes up where its results are read
            results = raw.execute_sharded(buffers, with_tokens=True)
            self.token = results.consume_token()
        return results


_running = _Running()


class PartitionedExecutable:
    """A compiled program on several devices, and how its arguments and results lie on them."""

    __slots__ = ("__weakref__", "devices", "handlers", "in_shardings", "name", "one_at_a_time", "out_avals",
                 "out_shardings", "raw")  # fmt: skip

    has_callbacks = False

    def __init__(
        self, raw: Any, out_avals: Sequence[ShapedArray], devices: Sequence[Device], name: str,
        in_shardings: Sequence[NamedSharding], out_shardings: Sequence[NamedSharding],
    ):  # fmt: skip
        self.raw, self.out_avals, self.devices, self.name = raw, tuple(out_avals), tuple(devices), name
        self.in_shardings, self.out_shardings = tuple(in_shardings), tuple(out_shardings)
        self.handlers = [sharded_handler(aval, sharding) for aval, sharding in zip(out_avals, out_shardings)]
        self.one_at_a_time = len(self.devices) > 1 and self.devices[0].platform == "cpu"

    def __repr__(self) -> str:
        return f"<PartitionedExecutable {self.name} on {len(self.devices)} devices>"

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program on buffers that lie as `in_shardings` says.

        Raises:
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: what XLA has to say.
        """
        try:
            raw = self.raw
            results = _running.run(raw, buffers) if self.one_at_a_time else raw.execute_sharded(buffers)
            return results.consume_with_handlers(self.handlers)
        except RuntimeError as error:
            raise_if_deleted(buffers, error)
            error.add_note(f"In the program {self.name}.")
            raise

    def as_text(self) -> str:
        """The optimized program of one device, in HLO."""
        return "\n\n".join(module.to_string() for module in self.raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """What XLA estimates of the optimized program of one device: flops, bytes accessed, transcendentals."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """The sizes in bytes of arguments, outputs, temporaries, aliases, code and the peak, as attributes."""
        return self.raw.get_compiled_memory_stats()

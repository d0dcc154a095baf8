"""Calls and staging of functions on eight devices, which the CPU acts as in a process of its own for both libraries.

The number of devices is fixed when the CPU is first used, so that process is another one: it is started with the first
case, holds xpr and jax side by side, and takes a sample whenever it is asked to. Each call is waited for: jax, with
several collectives under way on a few cores, waits for itself and ends the process.
"""

import atexit
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import IO

import numpy as np

from benchmarks.case import Call, Case, Library, Sample, warm
from benchmarks.measure import load_libraries

DEVICES = 8
LENGTH = 200


def rows(library: Library):
    """The sharding of arrays along their first axis over a mesh of all devices in a line."""
    mesh = library.sharding.Mesh(np.array(library.devices()), ("rows",))
    return library.sharding.NamedSharding(mesh, library.sharding.PartitionSpec("rows"))


def table(library: Library):
    return library.device_put(np.ones((DEVICES, 8), np.float32), rows(library))


def pmap(library: Library) -> Call:
    increment = library.pmap(lambda x: x + 1)
    return partial(increment, table(library))


def pmap_psum(library: Library) -> Call:
    normalize = library.pmap(lambda x: x / library.lax.psum(x, "rows"), axis_name="rows")
    return partial(normalize, table(library))


def sharded_jit(library: Library) -> Call:
    sharding = rows(library)
    increment = library.jit(lambda x: x + 1, in_shardings=sharding, out_shardings=sharding)
    return partial(increment, table(library))


def sharded_pytree(library: Library) -> Call:
    """A jitted function of a dictionary of 20 arrays, which lie as they were put."""
    tree = {f"leaf{i}": table(library) for i in range(20)}
    return partial(library.jit(lambda tree: library.tree.map(lambda x: x + 1, tree)), tree)


def shard_map(library: Library) -> Call:
    total = mapped(library, lambda x: library.lax.psum(x, "rows"))
    return partial(library.jit(total), table(library))


def mapped(library: Library, function: Callable) -> Callable:
    """A function of a row on each device, whose result is the same on all."""
    sharding, whole = rows(library), library.sharding.PartitionSpec()
    return library.shard_map(function, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=whole)


def chain(library: Library) -> Callable:
    """A function of rows that is new each time, so that no cache can answer."""

    def function(x):
        for _ in range(LENGTH):
            x = library.numpy.sin(x) * 2 + x
        return library.lax.psum(x, "rows")

    return function


def stage_pmap(library: Library) -> Call:
    x = np.ones((DEVICES, 8), np.float32)
    return lambda: library.make_jaxpr(library.pmap(chain(library), axis_name="rows"))(x)


def stage_shard_map(library: Library) -> Call:
    x = np.ones((DEVICES, 8), np.float32)
    return lambda: library.make_jaxpr(mapped(library, chain(library)))(x)


def lower_sharded_jit(library: Library) -> Call:
    """Staging and lowering to text of as many sharding constraints."""
    sharding, x = rows(library), np.ones((DEVICES, 8), np.float32)

    def call():
        def function(x):
            for _ in range(LENGTH):
                x = library.lax.with_sharding_constraint(library.numpy.sin(x) * 2 + x, sharding)
            return x

        return library.jit(function, in_shardings=sharding).lower(x).as_text()

    return call


# By name: what is called, and how many times as fast as JAX it should be.
CALLS = {
    "a pmap call": (pmap, 1 / 1.2),
    "a pmap call with a psum": (pmap_psum, 1 / 1.2),
    "a call of jit with shardings": (sharded_jit, 1 / 1.2),
    "a jitted call of 20 sharded leaves": (sharded_pytree, 1 / 1.2),
    "a jitted shard_map call with a psum": (shard_map, 1 / 1.2),
    "make_jaxpr of a pmap of 200 sin(x)*2+x": (stage_pmap, 4),
    "make_jaxpr of a shard_map of them": (stage_shard_map, 4),
    "lowering jit of 200 sharding constraints": (lower_sharded_jit, 4),
}


@functools.cache
def on_eight_devices() -> subprocess.Popen:
    """The process that takes the samples, which ends with this one."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"  # jax's
    environment = {**os.environ, "XPR_NUM_CPU_DEVICES": str(DEVICES), "XLA_FLAGS": flags, "XPR_PLATFORMS": "cpu"}
    child = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        env={**environment, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    atexit.register(child.communicate)  # nobody can ask any more
    return child


def in_subprocess(name: str) -> Callable[[Library], Sample]:
    def sampler(library: Library) -> Sample:
        def sample() -> float:
            child = on_eight_devices()
            print(library.__name__, name, file=child.stdin)
            return float(child.stdout.readline())

        return sample

    return sampler


def waited_for(build: Callable[[Library], Call], library: Library) -> Call:
    call = build(library)
    return lambda: library.block_until_ready(call())


def serve(questions: IO[str]) -> None:
    """Answers each line, a library and the name of a case, with the seconds of one sample."""
    libraries = load_libraries()

    @functools.cache
    def sample_of(library: str, name: str) -> Sample:
        return warm(partial(waited_for, CALLS[name][0]))(libraries[library])

    for line in questions:
        print(sample_of(*line.strip().split(" ", 1))(), flush=True)


CASES = [Case(name, in_subprocess(name), target) for name, (_, target) in CALLS.items()]

if __name__ == "__main__":
    serve(sys.stdin)

"""A case: something to time, written once as a function of the library, which is xpr, jax, or (for some) numpy.

A *sampler* readies a case for one library and gives a function that returns the seconds of one sample. There are
three kinds, by what is timed: `warm`, `cold`, and startup.py's own.
"""

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Library = Any  # a module with `numpy`, `jit`, `block_until_ready` ...
Call = Callable[[], Any]
Sample = Callable[[], float]

SAMPLE_SECONDS = 0.1  # after a pause XLA's threads share a core for some milliseconds: a call alone measures that


@dataclass(frozen=True)
class Case:
    """`target`: how many times as fast as JAX xpr should be. `with_numpy`, `with_torch`: these can run the case too.

    `unit`: what a sample is a number of: "s", seconds; "B", bytes; "x", times. `with_jax`: JAX can run the case.
    """

    name: str
    sampler: Callable[[Library], Sample]
    target: float | None = None
    with_numpy: bool = False
    with_torch: bool = False
    with_jax: bool = True
    unit: str = "s"


def warm(build: Callable[[Library], Call]) -> Callable[[Library], Sample]:
    """Times the calls that follow the first: short ones many in a row, of which only the last is waited for."""

    def sampler(library: Library) -> Sample:
        call = build(library)
        seconds(library, call, 1)
        count = max(1, int(SAMPLE_SECONDS / seconds(library, call, 1)))
        return lambda: seconds(library, call, count)

    return sampler


def cold(build: Callable[[Library], Call]) -> Callable[[Library], Sample]:
    """Times the first call, with the library's caches empty. `build` must make a new program each time."""

    def sampler(library: Library) -> Sample:
        def sample() -> float:
            library.clear_caches()
            return seconds(library, build(library), 1)

        return sample

    return sampler


def submodule(library: Library, name: str) -> Any:
    """A module that `import jax` alone does not load, such as "scipy.optimize"."""
    return importlib.import_module(f"{library.__name__}.{name}")


def seconds(library: Library, call: Call, count: int) -> float:
    """The mean time of `count` calls in a row, until the result of the last is there."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(count - 1):
            call()
        library.block_until_ready(call())
        return (time.perf_counter() - start) / count
    finally:
        gc.enable()

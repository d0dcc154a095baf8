"""Runs a case on every library in turns, so that whatever slows the machine for a while slows all of them."""

import importlib
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import cpu
from benchmarks.case import Case, Library

MIN_ROUNDS, MAX_ROUNDS = 3, 50

NUMPY = SimpleNamespace(
    __name__="numpy", numpy=np, jit=lambda function: function, block_until_ready=lambda result: result
)


@dataclass(frozen=True)
class Row:
    """What a case takes, in `unit`, by the name of the library: the least over all samples."""

    group: str
    name: str
    figures: dict[str, float]
    target: float | None
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        """How many times as fast as JAX xpr is."""
        return self.figures["jax"] / self.figures["xpr"] if "jax" in self.figures else None

    @property
    def beside_best(self) -> float | None:
        """How many times as fast as the better one of NumPy and torch xpr is."""
        others = [figure for name, figure in self.figures.items() if name in ("numpy", "torch")]
        return min(others) / self.figures["xpr"] if others else None

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None or self.target is None else self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "ratio": self.ratio, "met": self.met}


def load_libraries() -> dict[str, Library]:
    """xpr, and jax where it is installed. jax comes first: imported later, it finds jaxlib's tables frozen."""
    libraries = {}
    try:
        import jax
    except ImportError:
        pass
    else:
        libraries["jax"] = jax

    import xpr

    libraries["xpr"] = xpr
    for library in libraries.values():
        library.config.update("jax_compilation_cache_dir", None)
    return libraries


def measure(group: str, case: Case, libraries: dict[str, Library], budget: float) -> Row:
    """Takes samples for about `budget` seconds, and at least `MIN_ROUNDS` from each library (one if there is none)."""
    if case.with_numpy:
        libraries = {**libraries, "numpy": NUMPY}
    if case.with_torch and (torch := cpu.torch()) is not None:
        libraries = {**libraries, "torch": torch}
    if not case.with_jax:
        libraries = {name: library for name, library in libraries.items() if name != "jax"}
    samples = {name: case.sampler(library) for name, library in libraries.items()}
    least = dict.fromkeys(samples, float("inf"))
    start = time.perf_counter()

    for done in range(1, MAX_ROUNDS + 1):
        for name, sample in samples.items():
            record_stacks(name == "jax")
            least[name] = min(least[name], sample())
        if time.perf_counter() - start > budget and (done >= MIN_ROUNDS or not budget):
            break
    return Row(group, case.name, least, case.target, case.unit)


def record_stacks(wanted: bool) -> None:
    """Has jaxlib record Python's stack for each array or not. In a process of its own jax has it, and xpr has not."""
    importlib.import_module("jaxlib._jax").set_tracebacks_enabled(wanted)

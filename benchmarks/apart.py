"""Samples that a library takes in a process of its own, as its users have it: in one process xpr and jax share jaxlib.

A process is started with the first sample that is asked for. The processes of two libraries are asked in turns.
"""

import atexit
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import IO

from benchmarks.case import Call, Library, Sample, cold, warm

SAMPLERS = {"first call": cold, "later calls": warm}
ALONE = {"xpr": "import xpr as library", "jax": "import jax as library"}  # how each process begins


def apart(
    build: Callable[[Library], Call], kind: str, imports: Mapping[str, str] = ALONE
) -> Callable[[Library], Sample]:
    """A sampler whose samples are taken in the process of each library.

    Args:
      build: a function of a module, which makes the call.
      kind: what is timed, of `SAMPLERS`.
      imports: for each library the statement by which a process gets it as `library`.
    """

    def sampler(library: Library) -> Sample:
        def sample() -> float:
            child = _process(imports[library.__name__])
            print(build.__module__, build.__name__, kind, file=child.stdin)
            return float(child.stdout.readline())  # type: ignore[union-attr]

        return sample

    return sampler


@functools.cache
def _process(statement: str) -> subprocess.Popen:
    """The process that begins with a statement; it ends with this one."""
    code = f"{statement}; import sys; from benchmarks.apart import serve; serve(library, sys.stdin)"
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    atexit.register(child.communicate)  # nobody can ask any more
    return child


def serve(library: Library, questions: IO[str]) -> None:
    """Answers each line, the names of a module, a function in it and a kind, with the seconds of one sample."""
    library.config.update("jax_compilation_cache_dir", None)

    @functools.cache
    def sample_of(module: str, name: str, kind: str) -> Sample:
        return SAMPLERS[kind](getattr(importlib.import_module(module), name))(library)

    for line in questions:
        print(sample_of(*line.strip().split(" ", 2))(), flush=True)

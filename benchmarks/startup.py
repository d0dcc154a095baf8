"""From a fresh interpreter to the library imported, and to the first result of `jit`. Each sample is a process.

The second start is that of a process whose programs were kept on disk by another one, in both libraries.

Modules come from bytecode, as they do once a package is installed; a first process sees to that.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

from benchmarks.case import Case, Library, Sample

IMPORT = """
import time
start = time.perf_counter()
import {library} as library
import {library}.numpy
"""
FIRST_RESULT = """
f = library.jit(lambda x: library.numpy.sin(x) * 2 + x)
f(library.numpy.arange(8.0)).block_until_ready()
"""
TRAINING_STEP = """
from benchmarks.models import transformer_step
transformer_step(library)()[0].block_until_ready()
"""
REPORT = """
print(time.perf_counter() - start)
"""


def process(program: str, keeps_programs: bool = False):
    """Times a program that has the name of the library in it and prints its own seconds."""

    def sampler(library: Library) -> Sample:
        command = [sys.executable, "-c", program.format(library=library.__name__)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        folder = tempfile.mkdtemp() if keeps_programs else ""  # jax keeps no programs by default
        environment |= {"XPR_COMPILATION_CACHE_DIR": folder, "JAX_COMPILATION_CACHE_DIR": folder}
        if keeps_programs:  # those of any size, however quickly they were compiled
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

        def sample() -> float:
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            return float(run.stdout)

        sample()
        return sample

    return sampler


CASES = [
    Case("import", process(IMPORT + REPORT), target=2.5),
    Case("import to the first result of jit", process(IMPORT + FIRST_RESULT + REPORT), target=1.3),
    Case("second start, to the first training step", process(IMPORT + TRAINING_STEP + REPORT, True), target=4),
]

"""What holds for all tests: how examples in docstrings are compared, how programs are compiled, and garbage collection.

XLA takes a third of the time to compile without optimizing. So programs of xpr and of jax are compiled quickly, except
in tests that are marked `optimized`: random programs, draws of random numbers that are jax's, bit for bit, only so,
users' programs, and what looks at compiled programs. They compile as users do. Of the laws of primitives the law
`value` has the programs of the common dtypes optimized, since it says what they compute; the others are about rules.
"""

import doctest
import gc
import os
import sys

import pytest

from tests.compiler_options import QUICK
from tests.same_text import OutputChecker

# Examples are compared as those of the documentation are; pytest's own checker, made later, is derived from this one.
doctest.OutputChecker = OutputChecker  # type: ignore[misc]

# Importing the first one makes `import jax` give xpr, also to the tests that compare both; the others need mpmath.
collect_ignore = ["xpr/as_jax.py", "tests/minimax.py", "tests/exact_values.py"]

os.environ.setdefault("XPR_COMPILATION_CACHE_DIR", "")  # tests, and processes that they start, compile their programs

# Tests start two hundred processes: the modules that these import are compiled once and kept, and there are no threads
# of NumPy's linear algebra, which wait for work in a loop, and take a fifth of the time in which a process starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

gc.disable()  # while tests are collected, which leaves little garbage


def pytest_collection_modifyitems(items) -> None:
    """Examples in docstrings belong to the quick tests.

    What is optimized comes first: what the library itself compiled is forgotten where the way of compiling changes.
    """
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker("quick")
    items.sort(key=_is_quickly_compiled)


def _is_quickly_compiled(item) -> bool:
    return not item.get_closest_marker("optimized")


def pytest_collection_finish() -> None:
    """Modules and collected tests live as long as the session: no collection of garbage need look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # what tests leave is garbage of their own, and little
    gc.enable()


def pytest_runtest_setup(item) -> None:
    import xpr
    from xpr.backend import compile_options

    wanted = QUICK if _is_quickly_compiled(item) else {}
    if compile_options.process_options != wanted:
        compile_options.process_options = wanted
        xpr.clear_caches()  # programs that were compiled in the other way
        if jax := sys.modules.get("jax"):
            jax.config.update("jax_disable_most_optimizations", wanted is QUICK)

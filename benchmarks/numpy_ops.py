"""Eager operations on a million elements where XLA's CPU backend is far behind NumPy, which is timed as well.

Such calls may be served by whatever is fastest; operations of compiled programs are in cpu.py.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.case import Call, Case, Library, warm

SIZE = 1_000_000

# name: (the operation on a namespace like NumPy's, the shapes of its operands)
OPERATIONS: dict[str, tuple[Callable, list[tuple[int, ...]]]] = {
    "sort": (lambda np, x: np.sort(x), [(SIZE,)]),
    "argsort": (lambda np, x: np.argsort(x), [(SIZE,)]),
    "median": (lambda np, x: np.median(x), [(SIZE,)]),
    "argmax": (lambda np, x: np.argmax(x), [(SIZE,)]),
    "max": (lambda np, x: np.max(x), [(SIZE,)]),
    "any(x > 9)": (lambda np, x: np.any(x > 9), [(SIZE,)]),
    "sin": (lambda np, x: np.sin(x), [(SIZE,)]),
    "cos": (lambda np, x: np.cos(x), [(SIZE,)]),
    "arctan2": (lambda np, x, y: np.arctan2(x, y), [(SIZE,), (SIZE,)]),
    "abs(x) ** 2.5": (lambda np, x: np.abs(x) ** 2.5, [(SIZE,)]),
    "4x4 matmul, batched": (lambda np, x, y: np.matmul(x, y), [(SIZE // 16, 4, 4)] * 2),
}


def eager(operation: Callable, shapes: list[tuple[int, ...]], library: Library) -> Call:
    return partial(operation, library.numpy, *operands(library, shapes))


def operands(library: Library, shapes: list[tuple[int, ...]]) -> Iterator:
    rng = np.random.default_rng(0)
    return (library.numpy.asarray(rng.normal(size=shape).astype(np.float32)) for shape in shapes)


CASES = [Case(name, warm(partial(eager, *operation)), with_numpy=True) for name, operation in OPERATIONS.items()]

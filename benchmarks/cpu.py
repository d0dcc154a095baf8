"""Jitted operations on the CPU at several sizes and precisions, beside NumPy, and torch where it is installed."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.case import Call, Case, Library, warm

SIZES = {"1e3": 10**3, "3e4": 3 * 10**4, "1e6": 10**6, "1e7": 10**7}
DTYPES = ("float32", "float64")

# name: (the operation on a namespace like NumPy's, how operands are made of standard normal numbers)
Operation = tuple[Callable, Callable[[Callable[..., np.ndarray], int], list[np.ndarray]]]


def one(normal: Callable[..., np.ndarray], n: int) -> list[np.ndarray]:
    return [normal(n)]


def within(low: float, high: float) -> Callable:
    return lambda normal, n: [np.clip(np.abs(normal(n)), low, high).astype(normal(1).dtype)]


def unary(name: str) -> Callable:
    return lambda np, x: getattr(np, name)(x)


def special(name: str, in_torch: str) -> Callable:
    """A function of `scipy.special`, which NumPy's column stands for here."""

    def operation(np: Any, x: Any) -> Any:
        if np.__name__ == "torch":
            return getattr(np, in_torch)(x)
        library = np.__name__.removesuffix("numpy")  # "xpr.", "jax.", or ""
        return getattr(importlib.import_module(f"{library}scipy.special"), name)(x)

    return operation


ELEMENTWISE: dict[str, Operation] = {
    **{name: (unary(name), one) for name in ("sin", "cos", "tan", "exp", "tanh", "sinh")},
    **{
        name: (unary(name), within(0.01, 0.99))
        for name in ("arcsin", "arccos", "arctan", "arctanh", "log", "log1p", "expm1", "arcsinh")
    },
    "gammaln": (special("gammaln", "lgamma"), one),
    "digamma": (special("digamma", "digamma"), one),
    "erfinv": (special("erfinv", "erfinv"), within(0.01, 0.99)),
    "arctan2": (lambda np, x, y: np.arctan2(x, y), lambda normal, n: [normal(n), normal(n)]),
    "abs(x) ** 2.5": (lambda np, x: np.abs(x) ** 2.5, one),
    "x % 0.7": (lambda np, x: np.remainder(x, 0.7), one),
    "floor_divide": (lambda np, x, y: np.floor_divide(x, y), lambda normal, n: [normal(n), normal(n)]),
    "exp(1j * x)": (lambda np, x: np.exp(1j * x), one),
}  # fmt: skip
ORDER: dict[str, Operation] = {
    "sort": (lambda np, x: np.sort(x), one),
    "argsort": (lambda np, x: np.argsort(x), one),
    "sort of rows of 1000": (lambda np, x: np.sort(x), lambda normal, n: [normal(n // 1000, 1000)]),
    "convolve with 100": (lambda np, x, w: np.convolve(x, w), lambda normal, n: [normal(n), normal(100)]),
    "median": (lambda np, x: np.median(x), one),
    "histogram, 50 bins": (lambda np, x: np.histogram(x, 50)[0], one),
    "searchsorted in 1000": (
        lambda np, x, edges: np.searchsorted(edges, x, side="right"),
        lambda normal, n: [normal(n), np.sort(normal(1000))],
    ),
    "argmax": (lambda np, x: np.argmax(x), one),
    "argmax of rows of 1000": (lambda np, x: np.argmax(x, 1), lambda normal, n: [normal(n // 1000, 1000)]),
    "cumsum": (lambda np, x: np.cumsum(x), one),
}
REDUCTIONS: dict[str, Operation] = {
    "sum": (lambda np, x: np.sum(x), one),
    "sum along axis 0, rows of 1000": (lambda np, x: np.sum(x, 0), lambda normal, n: [normal(n // 1000, 1000)]),
    "sum of rows of 3": (lambda np, x: np.sum(x, 1), lambda normal, n: [normal(n // 3, 3)]),
    "max of rows of 1000": (lambda np, x: np.max(x, 1), lambda normal, n: [normal(n // 1000, 1000)]),
    "max along axis 0, rows of 1000": (lambda np, x: np.max(x, 0), lambda normal, n: [normal(n // 1000, 1000)]),
    "norm": (lambda np, x: np.linalg.norm(x), one),
    "dot of two vectors": (lambda np, x, y: np.dot(x, y), lambda normal, n: [normal(n), normal(n)]),
    "matrix times vector, rows of 1000": (
        lambda np, a, x: np.matmul(a, x),
        lambda normal, n: [normal(n // 1000, 1000), normal(1000)],
    ),
    "product of square matrices": (
        lambda np, a, b: np.matmul(a, b),
        lambda normal, n: [normal(round(n**0.5), round(n**0.5)), normal(round(n**0.5), round(n**0.5))],
    ),
    "tile of three": (lambda np, x: np.tile(x, (3,)), one),
    "transpose, rows of 1000": (
        lambda np, x: np.reshape(np.transpose(x), (-1,)),  # NumPy's copy would stay transposed
        lambda normal, n: [normal(n // 1000, 1000)],
    ),
    "3x3 solve, batched": (
        lambda np, a, b: np.linalg.solve(a, b),
        lambda normal, n: [normal(n // 9, 3, 3) + 3 * np.eye(3, dtype=normal(1).dtype), normal(n // 9, 3, 1)],
    ),
}
OPERATIONS = {**ELEMENTWISE, **ORDER, **REDUCTIONS}


def jitted(operation: Operation, n: int, dtype: str, library: Library) -> Call:
    function, operands = operation
    rng = np.random.default_rng(0)
    arrays = operands(lambda *shape: rng.normal(size=shape).astype(dtype), n)
    if library.__name__ in ("xpr", "jax"):
        with library.enable_x64(dtype == "float64"):
            compiled = library.jit(partial(function, library.numpy)).lower(*arrays).compile()
            return partial(compiled, *map(library.numpy.asarray, arrays))
    return partial(function, library.numpy, *map(library.numpy.asarray, arrays))


def torch() -> Library | None:
    """torch with NumPy's names, None where it isn't installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    class Names(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    names = Names(
        asarray=torch.from_numpy,
        sort=lambda x: torch.sort(x).values,
        cumsum=lambda x: torch.cumsum(x, 0),
        max=torch.amax,
        convolve=lambda x, w: torch.conv1d(x[None, None], w.flip(0)[None, None], padding=len(w) - 1)[0, 0],
        histogram=lambda x, bins: (torch.histc(x, bins),),
        transpose=lambda x: x.T,
        sum=lambda x, *axes: torch.sum(x, *axes),
    )
    return SimpleNamespace(__name__="torch", numpy=names, block_until_ready=lambda result: result)


def cases() -> Iterator[Case]:
    for dtype in DTYPES:
        for size, n in SIZES.items():
            for name, operation in OPERATIONS.items():
                build = partial(jitted, operation, n, dtype)
                yield Case(f"{name}, {dtype} {size}", warm(build), target=1, with_numpy=True, with_torch=True)


CASES = list(cases())

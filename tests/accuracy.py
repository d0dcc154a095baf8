"""How far elementwise functions are from the exact results, in ulps: `python -m tests.accuracy [functions ...]`.

    python -m tests.accuracy sin tan          # these functions, of every float32
    python -m tests.accuracy --every 64 sin   # of every 64th float32
    python -m tests.accuracy --double         # float64, at random points and points that are hard
    python -m tests.accuracy --double --points 1e8
    python -m tests.accuracy --of jax         # JAX's functions, for comparison
    python -m tests.accuracy --of c           # those in C, xpr/backend/c/elementwise.c

Functions of one float32 are compared at all 2^32 of them with NumPy's or SciPy's in float64, which is exact to 2^-26
ulps of float32, and some digits less where lgamma and digamma are nearly 0. Those of two, and those of float64, are
compared at random points: numbers of all bits, and numbers whose results are neither 0 nor infinite; with NumPy's in
long double, of 64 bits (on x86). SciPy has none in long double: its functions are compared with values of mpmath's,
which `python -m tests.exact_values` writes. An error is counted in ulps of the exact result rounded; where that is
subnormal, 0 is right as well, for XLA flushes such results to 0.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from xpr.backend import native

CHUNK = 1 << 21
POINTS = 5_000_000  # random ones, of each kind
HARD_STEP = 1  # each such of the hard points
EXACT_VALUES = Path(__file__).parent / "exact_values.npz"
Draw = Callable[[np.random.Generator, int], np.ndarray]


def between(low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, n)


def powers_of_2(low: float, high: float) -> Draw:
    """Of either sign, their logarithms uniform."""
    return lambda rng, n: np.exp2(rng.uniform(low, high, n)) * rng.choice([-1.0, 1.0], n)


class Row(NamedTuple):
    """A function, by its name in xpr.lax and in NumPy, or another reference, with where its operands are drawn from."""

    name: str
    reference: str | Callable[[np.ndarray], np.ndarray]
    domain: Sequence[Draw]
    reach: float = np.inf  # the size of float64 numbers from which on XLA's function is used
    in_float32: bool = True  # whether there is a formula for float32

    def exact(self, *operands: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return (getattr(np, self.reference) if isinstance(self.reference, str) else self.reference)(*operands)


def lgamma(x: np.ndarray) -> np.ndarray:
    """C's value of -inf is inf, SciPy's -inf."""
    return scipy.special.gammaln(np.where(np.isinf(x), np.abs(x), x))


def digamma(x: np.ndarray) -> np.ndarray:
    """SciPy's has values for 0, next to which there are inf and -inf."""
    return np.where(x == 0, np.nan, scipy.special.psi(x))


def erf_inv(x: np.ndarray) -> np.ndarray:
    """SciPy's takes a microsecond, also where there is no result; of small numbers Taylor's series is faster."""
    square, size = x * x, np.abs(x)
    series = x * (math.sqrt(math.pi) / 2) * (1 + square * (math.pi / 12 + square * (7 * math.pi**2 / 480)))
    result = np.where(size <= 1, series, np.nan)
    is_other = (size >= 2.0**-10) & (size <= 1)
    result[is_other] = scipy.special.erfinv(x[is_other])
    return result


ROWS = [
    Row("sin", "sin", [powers_of_2(-30, 20)], 2.0**20),
    Row("cos", "cos", [powers_of_2(-30, 20)], 2.0**20),
    Row("tan", "tan", [powers_of_2(-30, 20)], 2.0**20),
    Row("asin", "arcsin", [between(-1, 1)]),
    Row("acos", "arccos", [between(-1, 1)]),
    Row("atan", "arctan", [powers_of_2(-30, 30)]),
    Row("sinh", "sinh", [powers_of_2(-30, 6.4)]),
    Row("cosh", "cosh", [powers_of_2(-30, 6.4)]),
    Row("asinh", "arcsinh", [powers_of_2(-30, 60)]),
    Row("acosh", "arccosh", [lambda rng, n: 1 + np.exp2(rng.uniform(-22, 60, n))]),
    Row("atanh", "arctanh", [between(-1, 1)]),
    Row("expm1", "expm1", [powers_of_2(-30, 6.4)]),
    Row("log", "log", [lambda rng, n: np.exp2(rng.uniform(-30, 30, n))], in_float32=False),
    Row("log1p", "log1p", [powers_of_2(-60, 60)]),
    Row("cbrt", "cbrt", [powers_of_2(-100, 100)]),
    Row("atan2", "arctan2", [powers_of_2(-30, 30), powers_of_2(-30, 30)]),
    Row("pow", "power", [lambda rng, n: np.exp2(rng.normal(size=n)), between(-60, 60)]),
    Row("lgamma", lgamma, [powers_of_2(-30, 60)]),
    Row("digamma", digamma, [powers_of_2(-30, 60)]),
    Row("erf_inv", erf_inv, [between(-1, 1)]),
]  # fmt: skip


def errors(found: np.ndarray, exact: np.ndarray, unit: Any = 0.0) -> np.ndarray:
    """The errors in ulps, of `unit` where that is larger; inf where one is nan, or infinite and the other far off."""
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        ulp = np.spacing(np.minimum(np.maximum(np.abs(rounded), unit), info.max)).astype(exact.dtype)
        bound = np.ldexp(exact.dtype.type(1), info.maxexp)  # what infinity stands for, where the exact result rounds up
        wide = np.where(np.isinf(found), np.copysign(bound, found), found.astype(exact.dtype))
        error = np.abs(wide - np.clip(exact, -bound, bound)) / ulp
    same = (np.isnan(found) & np.isnan(exact)) | (found == rounded) & np.isinf(rounded)
    flushed = (found == 0) & (np.abs(exact) < info.tiny)
    error[same | flushed] = 0
    return np.where(np.isnan(error), np.inf, error)


def every_float32(step: int) -> Iterator[np.ndarray]:
    """Each `step`-th of all float32 numbers, in chunks."""
    for start in range(0, 1 << 32, CHUNK * step):
        yield np.arange(start, min(start + CHUNK * step, 1 << 32), step, np.uint64).astype(np.uint32).view(np.float32)


def random_points(row: Row, dtype: Any, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """Operands of all bits, and of the row's domain."""
    bits = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    count = min(CHUNK, POINTS)
    for _ in range(0, POINTS, count):
        yield [rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype) for _ in row.domain]
        yield [draw(rng, count).astype(dtype) for draw in row.domain]


def hard_points(dtype: Any) -> np.ndarray:
    """Numbers near multiples of pi / 2, near 1, near powers of 2, the least and the greatest.

    6381956970095103 * 2^797 is the float64 nearest to a multiple of pi / 2 (W. Kahan, "Minimizing q*m - n", 1983),
    16367173 * 2^72 such a float32.
    """
    pi = np.arange(1, 200001) * (np.longdouble(np.pi) / 2 + np.longdouble(6.123233995736766e-17))
    near_one = 1 + np.arange(-2000, 2001) * np.finfo(dtype).eps
    scales = np.ldexp(1.0, np.arange(np.finfo(dtype).minexp, np.finfo(dtype).maxexp)).astype(dtype)
    kahan = [16367173.0 * 2.0**72] if dtype == np.float32 else [6381956970095103.0 * 2.0**797]
    edges = [0.0, np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, *kahan]
    with np.errstate(over="ignore"):
        points = np.concatenate([np.asarray(each).astype(dtype) for each in (pi, near_one, scales, edges)])
        around = np.concatenate([points, np.nextafter(points, dtype(0)), np.nextafter(points, dtype(np.inf))])
    return np.concatenate([around, -around])


def points_of(row: Row, dtype: Any, step: int) -> Iterator[list[np.ndarray]]:
    if dtype == np.float32 and len(row.domain) == 1:
        yield from ([chunk] for chunk in every_float32(step))
        return
    rng = np.random.default_rng(0)
    hard = hard_points(dtype)[::HARD_STEP]
    least = 0 if dtype == np.float32 else np.finfo(dtype).tiny  # XLA takes smaller ones for zeros
    for operands in (*random_points(row, dtype, rng), [hard, *[rng.permutation(hard) for _ in row.domain[1:]]]):
        numbers = [np.where(np.abs(x) < least, np.copysign(dtype(0), x), x) for x in operands]
        with np.errstate(invalid="ignore"):
            yield numbers if row.reach == np.inf else [np.fmod(x, row.reach) for x in numbers]


def exact_results(row: Row, dtype: Any, step: int) -> Iterator[tuple[list[np.ndarray], np.ndarray, Any]]:
    """Operands, the results that are right, and the numbers of whose ulps errors are, where larger than the results."""
    if callable(row.reference) and dtype == np.float64:
        x, high, low, unit = np.resize(np.load(EXACT_VALUES)[row.name].T, (1 << 14, 4)).T  # enough for formulas
        yield [x], high.astype(np.longdouble) + low, unit
        return
    wide = np.float64 if dtype == np.float32 and len(row.domain) == 1 else np.longdouble
    for operands in points_of(row, dtype, step):
        with np.errstate(invalid="ignore"):
            wide_operands = [x.astype(wide) for x in operands]
        yield operands, row.exact(*wide_operands), 0.0


class Worst(NamedTuple):
    """The largest error of a function, where it is, and of how many points."""

    error: float
    at: tuple[float, ...]
    over_one: int
    points: int


def worst_error(row: Row, function: Callable[..., Any], dtype: Any, step: int = 1) -> Worst:
    """The largest error of a compiled function among all points."""
    worst, at, over, count = -1.0, (), 0, 0
    for operands, exact, unit in exact_results(row, dtype, step):
        error = errors(np.asarray(function(*operands)), exact, unit)
        i = int(np.argmax(error))
        over += int((error > 1).sum())
        count += error.size
        if error[i] > worst:
            worst, at = float(error[i]), tuple(float(x[i]) for x in operands)
    return Worst(worst, at, over, count)


def function_in_c(library: ctypes.CDLL, name: str) -> Callable[..., np.ndarray]:
    """A function of c/elementwise.c, called without XLA, which has subnormal numbers count as zeros."""

    def function(*operands: np.ndarray) -> np.ndarray:
        operands = tuple(map(np.ascontiguousarray, operands))
        result, text = np.empty_like(operands[0]), b"%d" % operands[0].size
        addresses = (ctypes.c_void_p * len(operands))(*[x.ctypes.data for x in operands])
        call = getattr(library, native.elementwise_target(name, result.dtype))
        call(ctypes.c_void_p(result.ctypes.data), addresses, text, ctypes.c_size_t(len(text)), None)
        return result

    return function


def functions_of(library: str) -> Callable[[str], Callable[..., Any]]:
    """The functions of a library by their names: "xpr", "jax", or "c"."""
    if library == "c":
        return lambda name: function_in_c(native.load(), name)
    module, lax = importlib.import_module(library), importlib.import_module(f"{library}.lax")
    module.config.update("jax_enable_x64", True)
    return lambda name: module.jit(lambda *xs: getattr(lax, name)(*xs))


def main() -> None:
    global POINTS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--of", default="xpr")
    parser.add_argument("--points", type=float, default=2 * POINTS, help="random ones, half of each kind")
    arguments = parser.parse_args()
    POINTS = int(arguments.points / 2)
    function = functions_of(arguments.of)
    dtype = np.float64 if arguments.double else np.float32
    for row in ROWS:
        exists = row.in_float32 or arguments.double or arguments.of != "c"
        if exists and (row.name in arguments.functions if arguments.functions else row.in_float32 or arguments.double):
            start = time.perf_counter()
            worst = worst_error(row, function(row.name), dtype, arguments.every)
            took = time.perf_counter() - start
            print(
                f"{row.name:6} {worst.error:8.4f} ulp at {', '.join(map(repr, worst.at))}; {worst.over_one} over 1 "
                f"of {worst.points:.3g}, {took:.0f} s", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()

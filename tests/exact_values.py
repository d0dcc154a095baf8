"""Writes tests/exact_values.npz: lgamma, digamma and erf_inv of some float64 numbers, exact to 100 bits and more.

    pip install mpmath; python -m tests.exact_values

Of each function there are the numbers, the exact results in two parts, and the largest summand, of which an error is
counted in ulps: for negative numbers that of lgamma and digamma may be larger than the result, see vectorized/gamma.py.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

FILE = Path(__file__).parent / "exact_values.npz"
COUNT = 200


def of_gamma(rng: np.random.Generator, count: int) -> np.ndarray:
    """Of either sign; many are near the zeros of lgamma at 1 and 2, and that of digamma, and near poles."""
    near = np.array([1.0, 2.0, 1.4616321449683623]) + np.exp2(rng.uniform(-40, -2, (count, 3))) * rng.choice([-1, 1])
    size = np.concatenate([rng.uniform(0, 4, count), np.exp2(rng.uniform(-30, 30, count)), near.ravel()])
    return np.concatenate([size, -size])


def of_erf(rng: np.random.Generator, count: int) -> np.ndarray:
    small = np.exp2(rng.uniform(-50, 0, count))
    size = np.concatenate([rng.uniform(0, 1, count), small, 1 - small])
    return np.concatenate([size, -size])[np.tile(size < 1, 2)]


def lgamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.loggamma(-x)


def erf_inv(x: Any) -> Any:
    """By Newton's method on the logarithm of erfc, in which it converges from below."""
    size = abs(x)
    if not size:
        return x
    goal, y = mp.log1p(-size), mp.mpf(0)
    for _ in range(100):
        rest = mp.erfc(y)
        step = (mp.log(rest) - goal) * rest * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
        y += step
        if abs(step) < mp.mpf(10) ** -40 * y:
            return mp.sign(x) * y
    raise ValueError(x)


def summand(name: str, x: Any) -> Any:
    """The largest of those of which the result is the sum."""
    if x > 0 or name == "erf_inv":
        return mp.mpf(0)
    return max(1, abs(lgamma(-x))) if name == "lgamma" else max(abs(mp.digamma(-x)), abs(mp.pi * mp.cot(mp.pi * x)))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[..., np.ndarray]]] = {
    "lgamma": (lgamma, of_gamma), "digamma": (mp.digamma, of_gamma), "erf_inv": (erf_inv, of_erf),
}  # fmt: skip


def values(name: str, count: int) -> Iterator[tuple[float, float, float, float]]:
    function, draw = FUNCTIONS[name]
    for x in draw(np.random.default_rng(0), count).tolist():
        if x < 0 and x == np.floor(x):
            continue
        exact = function(mp.mpf(x))
        high = float(exact)
        yield x, high, float(exact - mp.mpf(high)), float(summand(name, mp.mpf(x)))


def main() -> None:
    mp.mp.prec = 250
    np.savez_compressed(FILE, **{name: np.array(list(values(name, COUNT))).T for name in FUNCTIONS})


if __name__ == "__main__":
    main()

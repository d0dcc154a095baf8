"""Writes the polynomials of xpr/primitives/vectorized/coefficients.py: `pip install mpmath; python -m tests.minimax`.

By Remez's exchange algorithm, in 250 bits: the polynomial of n coefficients whose relative error's largest value on an
interval is least has that error, with alternating signs, at n + 1 points; the points are moved to where the error of
the last polynomial is largest until they stay (E. Remez, 1934; J.-M. Muller, "Elementary Functions", 3rd ed. 2016,
chapter 3). Functions of x that are odd or even are polynomials in x^2 here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

FILE = Path(__file__).parent.parent / "xpr" / "primitives" / "vectorized" / "coefficients.py"  # whose tables xpr needs
ROUNDS, NEAR = 20, 1e-4
GRID = 24  # points between two extrema, among which the next ones are looked for

Function = Callable[[Any], Any]


def remez(fun: Function, low: Any, high: Any, count: int, weight: Function) -> tuple[list[Any], Any]:
    """The coefficients of the polynomial p whose largest weight |p - fun| on an interval is least, and that value."""
    middle, half, m = (low + high) / 2, (high - low) / 2, count + 1
    points = [middle - half * mp.cos(mp.pi * i / (m - 1)) for i in range(m)]
    grid = [middle - half * mp.cos(mp.pi * i / (GRID * m)) for i in range(GRID * m + 1)]
    coefficients: list[Any] = []
    for _ in range(ROUNDS):
        matrix, values = mp.matrix(m, m), mp.matrix([fun(x) for x in points])
        for i, x in enumerate(points):
            for j in range(count):
                matrix[i, j] = x**j
            matrix[i, count] = (-1) ** i / weight(x)
        solution = mp.lu_solve(matrix, values)
        coefficients, level = list(solution)[:count], abs(solution[count])
        points, worst = _extrema(lambda x, c=coefficients: (mp.polyval(c[::-1], x) - fun(x)) * weight(x), grid, m)
        if worst < level * (1 + NEAR):
            break
    return coefficients, worst


def remez_in_float32(fun: Function, low: Any, high: Any, count: int, weight: Function) -> tuple[list[Any], Any]:
    """The same with coefficients that float32 has: each is rounded, and those after it fit what is left.

    Those of the best polynomial, rounded one by one, would give an error several times as large.
    """
    low, coefficients, left, by = high / 1000, [], fun, weight
    for k in range(count):
        rounded = mp.mpf(float(np.float32(remez(left, low, high, count - k, by)[0][0])))
        coefficients.append(rounded)
        left = lambda x, fun=left, c=rounded: (fun(x) - c) / x
        by = lambda x, weight=by: weight(x) * x
    points = [low + (high - low) * i / 1000 for i in range(1001)]
    return coefficients, max(abs((mp.polyval(coefficients[::-1], x) - fun(x)) * weight(x)) for x in points)


def _extrema(error: Function, grid: list[Any], count: int) -> tuple[list[Any], Any]:
    """`count` points at which the error is extreme, with alternating signs; and the largest error."""
    errors = [error(x) for x in grid]
    found: list[tuple[Any, Any]] = []
    for i, x in enumerate(grid):
        if 0 < i < len(grid) - 1:
            if (errors[i] - errors[i - 1]) * (errors[i + 1] - errors[i]) > 0:
                continue
            x = _vertex(grid[i - 1 : i + 2], errors[i - 1 : i + 2])
        value = error(x)
        if found and found[-1][1] * value > 0:
            if abs(value) > abs(found[-1][1]):
                found[-1] = x, value
        else:
            found.append((x, value))
    while len(found) > count:
        found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
    assert len(found) == count, "the function has too few extrema: more bits or another interval are needed"
    return [x for x, _ in found], max(abs(value) for _, value in found)


def _vertex(xs: list[Any], ys: list[Any]) -> Any:
    """Where the parabola through three points has its vertex."""
    first, second = (ys[1] - ys[0]) / (xs[1] - xs[0]), (ys[2] - ys[1]) / (xs[2] - xs[1])
    bend = (second - first) / (xs[2] - xs[0])
    at = (xs[0] + xs[1]) / 2 - first / (2 * bend) if bend else xs[1]
    return at if xs[0] < at < xs[2] else xs[1]


# -- What is approximated


def weighted(whole: Function, power: int) -> Function:
    """The weight by which the error is one of the whole function, in t = x^2, where t^power was taken out."""
    return lambda t: t**power / whole(t)


def of_square(fun: Function, at_zero: Any, skipped: int = 0, power: int = 1) -> Function:
    """fun(x) / x^power as a function of t = x^2, less its first coefficients in t, which are exact."""
    taylor = [mp.mpf(c) for c in at_zero] if isinstance(at_zero, list) else [mp.mpf(at_zero)]

    def function(t: Any) -> Any:
        with mp.workprec(700):
            if not t:
                return taylor[skipped]
            x = mp.sqrt(t)
            return (fun(x) / x**power - sum(c * t**k for k, c in enumerate(taylor[:skipped]))) / t**skipped

    return function


def of(fun: Function, taylor: list[Any], skipped: int) -> Function:
    """fun(x) less its first Taylor coefficients, divided by the power of x that follows."""

    def function(x: Any) -> Any:
        with mp.workprec(700):
            if not x:
                return mp.mpf(taylor[skipped])
            return (fun(x) - sum(mp.mpf(c) * x**k for k, c in enumerate(taylor[:skipped]))) / x**skipped

    return function


def tables() -> dict[str, tuple[str, Function, Any, Any, int, Function | None]]:
    """By name: what it is, the function, the interval, the number of coefficients, the weight (None: relative)."""
    pi, ln2 = mp.pi, mp.log(2)
    small = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.0001")
    half_ln2 = ln2 / 2 * mp.mpf("1.0001")

    sine, cosine = of_square(mp.sin, 1), of_square(mp.cos, 1, power=0)
    arc, arcsine = of_square(mp.atan, 1), of_square(mp.asin, 1)
    return {
        "SINE_OF_HALF_TURNS": (
            "sin(pi x) / x in x^2, |x| <= 1/2", of_square(lambda x: mp.sin(pi * x), pi), 0, mp.mpf("0.2502"), 6, None),
        "TANGENT_OF_QUARTER_TURNS": (
            "tan(pi x / 2) / x in x^2, |x| <= 1/2", of_square(lambda x: mp.tan(pi * x / 2), pi / 2), 0,
            mp.mpf("0.2502"), 8, None),
        "ARCTANGENT_REST": (
            "(arctan(x) / x - 1) / x^2 in x^2, |x| <= 1", of_square(mp.atan, [1, mp.mpf(-1) / 3], 1), 0,
            mp.mpf("1.005"), 9, weighted(arc, 1)),  # of some intervals, that of the least error of the formula
        "ARCSINE_REST": (
            "(arcsin(x) / x - 1) / x^2 in x^2, |x| <= 1/2", of_square(mp.asin, [1, mp.mpf(1) / 6], 1), 0,
            mp.mpf("0.2501"), 5, weighted(arcsine, 1)),
        "EXPONENTIAL": ("exp(x), |x| <= log(2) / 2", mp.exp, -half_ln2, half_ln2, 8, None),
        "EXPONENTIAL_REST": (
            "(exp(x) - 1 - x) / x^2, -log(2) / 2 <= x <= 0.347", of(mp.exp, [1, 1, mp.mpf(1) / 2], 2), -half_ln2,
            mp.mpf("0.347"), 6, lambda x: x * x / mp.exp(x)),
        "POWER_OF_2": ("2^x, |x| <= 1/2", lambda x: mp.mpf(2) ** x, mp.mpf("-0.5001"), mp.mpf("0.5001"), 8, None),
        "HYPERBOLIC_SINE_REST": (
            "(sinh(x) / x - 1) / x^2 in x^2, |x| <= 1", of_square(mp.sinh, [1, mp.mpf(1) / 6], 1), 0,
            mp.mpf("1.0001"), 3, weighted(of_square(mp.sinh, 1), 1)),
        "HYPERBOLIC_ARCSINE_REST": (
            "(arcsinh(x) / x - 1) / x^2 in x^2, |x| <= 1.18", of_square(mp.asinh, [1, mp.mpf(-1) / 6], 1), 0,
            mp.mpf("1.18") ** 2, 10, weighted(of_square(mp.asinh, 1), 1)),
        "HYPERBOLIC_ARCTANGENT_REST": (
            "(arctanh(x) / x - 1) / x^2 in x^2, |x| <= 1/2", of_square(mp.atanh, [1, mp.mpf(1) / 3], 1), 0,
            mp.mpf("0.2501"), 6, weighted(of_square(mp.atanh, 1), 1)),
        "LOGARITHM": (
            "log((1 + x) / (1 - x)) / x in x^2, |x| <= 3 - 2 sqrt(2)",
            of_square(lambda x: 2 * mp.atanh(x), 2), 0, small**2, 5, None),
        "RECIPROCAL_CUBE_ROOT": (
            "(1 / cbrt(1 - x) - 1) / x, -0.108 <= x <= 0.105", of(lambda x: 1 / mp.cbrt(1 - x), [1, mp.mpf(1) / 3], 1),
            mp.mpf("-0.108"), mp.mpf("0.105"), 3, lambda x: abs(x) * mp.cbrt(1 - x)),
        "LONG_SINE": (
            "(sin(x) / x - 1) / x^2 in x^2, |x| <= pi / 4", of_square(mp.sin, [1, -mp.mpf(1) / 6], 1), 0,
            (pi / 4 * mp.mpf("1.0001")) ** 2, 6, weighted(sine, 1)),
        "LONG_COSINE": (
            "(cos(x) - 1 + x^2 / 2) / x^4 in x^2, |x| <= pi / 4",
            of_square(mp.cos, [1, mp.mpf(-1) / 2, mp.mpf(1) / 24], 2, power=0), 0,
            (pi / 4 * mp.mpf("1.0001")) ** 2, 6, weighted(cosine, 2)),
        "LONG_ARCTANGENT": (
            "(arctan(x) / x - 1) / x^2 in x^2, |x| <= 7/16", of_square(mp.atan, [1, mp.mpf(-1) / 3], 1), 0,
            mp.mpf("0.4376") ** 2, 12, weighted(arc, 1)),
        "LONG_ARCSINE": (
            "(arcsin(x) / x - 1) / x^2 in x^2, |x| <= 1/2", of_square(mp.asin, [1, mp.mpf(1) / 6], 1), 0,
            mp.mpf("0.2501"), 13, weighted(arcsine, 1)),
        "LONG_EXPONENTIAL": (
            "(exp(x) - 1 - x) / x^2, |x| <= log(2) / 2", of(mp.exp, [1, 1, mp.mpf(1) / 2], 2), -half_ln2, half_ln2, 11,
            lambda x: x * x / mp.exp(x) if x else mp.mpf(0) + mp.mpf(10) ** -30),
        "LONG_LOGARITHM": (
            "(log((1 + x) / (1 - x)) / x - 2) / x^2 in x^2, |x| <= 3 - 2 sqrt(2)",
            of_square(lambda x: 2 * mp.atanh(x), [2, mp.mpf(2) / 3], 1), 0, small**2, 8,
            weighted(of_square(lambda x: 2 * mp.atanh(x), 2), 1)),
        "LONG_LOGARITHM_TAIL": (
            "(3 log((1 + x) / (1 - x)) / (2 x) - 3 - x^2) / x^4 in x^2, |x| <= 3 - 2 sqrt(2)",
            of_square(lambda x: 3 * mp.atanh(x), [3, 1, mp.mpf(3) / 5], 2), 0, small**2, 8,
            weighted(of_square(lambda x: 3 * mp.atanh(x), 3), 2)),
        "LONG_HYPERBOLIC_SINE": (
            "(sinh(x) / x - 1) / x^2 in x^2, |x| <= 1", of_square(mp.sinh, [1, mp.mpf(1) / 6], 1), 0,
            mp.mpf("1.0001"), 8, weighted(of_square(mp.sinh, 1), 1)),
        **gamma_tables(),
        **erf_inv_tables(),
    }  # fmt: skip


# Polynomials that formulas for float32 compute in float32, all others in float64.
IN_FLOAT32 = (
    "ARCTANGENT_REST",
    "ARCSINE_REST",
    "HYPERBOLIC_SINE_REST",
    "HYPERBOLIC_ARCSINE_REST",
    "HYPERBOLIC_ARCTANGENT_REST",
)


def gamma_tables() -> dict[str, tuple[str, Function, Any, Any, int, Function | None]]:
    """For the logarithm of the gamma function and its derivative: near their zeros, and far out (DLMF 5.11)."""
    least = mp.findroot(mp.digamma, 1.46)  # where gamma is least, and digamma 0
    at_least = mp.loggamma(least)

    def far(fun: Function, power: int, at_zero: Any) -> Function:
        """Of t = 1 / x^2, what is left of a function of x, times a power of x."""

        def function(t: Any) -> Any:
            with mp.workprec(700):
                return fun(1 / mp.sqrt(t)) / t ** (mp.mpf(power) / 2) if t else at_zero

        return function

    def stirling(x: Any) -> Any:
        return mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2

    def digamma_from_zero(x: Any) -> Any:
        with mp.workprec(700):
            return mp.digamma(x + mp.mpf("1.75")) / (x + mp.mpf("1.75") - least)

    def lgamma_from_least(x: Any) -> Any:
        with mp.workprec(700):
            return (mp.loggamma(least + x) - at_least) / x**2 if x else mp.psi(1, least) / 2

    low, high = mp.mpf("0.23"), mp.mpf("0.73")
    long = {
        "LGAMMA_FROM_1": (
            "lgamma(1 + x) / x, -1/2 <= x <= 0.23", of(lambda x: mp.loggamma(1 + x), [0, -mp.euler], 1),
            mp.mpf("-0.5"), low, 25, None),
        "LGAMMA_FROM_2": (
            "lgamma(2 + x) / x, -0.27 <= x <= 1/2", of(lambda x: mp.loggamma(2 + x), [0, 1 - mp.euler], 1), high - 1,
            mp.mpf("0.5"), 16, None),
        "LGAMMA_FROM_LEAST": (
            "(lgamma(x0 + x) - lgamma(x0)) / x^2, 1.23 <= x0 + x <= 1.73, where lgamma(x0) is least", lgamma_from_least,
            1 + low - least, 1 + high - least, 15, None),
        "LGAMMA_FAR": (
            "x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) in 1 / x^2, x >= 3.5",
            far(stirling, 1, mp.mpf(1) / 12), 0, 1 / mp.mpf("3.5") ** 2, 10, None),
        "DIGAMMA_FROM_ZERO": (
            "digamma(1.75 + x) / (1.75 + x - x0), 1 <= 1.75 + x <= 2.75, where digamma(x0) is 0", digamma_from_zero,
            mp.mpf("-0.75"), 1, 28, None),
        "DIGAMMA_FAR": (
            "x^2 (log(x) - 1 / (2 x) - digamma(x)) in 1 / x^2, x >= 2.75",
            far(lambda x: mp.log(x) - 1 / (2 * x) - mp.digamma(x), 2, mp.mpf(1) / 12), 0, 1 / mp.mpf("2.75") ** 2, 12,
            None),
    }  # fmt: skip
    counts = {  # for float32, of positive numbers
        "LGAMMA_FROM_1": 14, "LGAMMA_FROM_2": 9, "LGAMMA_FROM_LEAST": 8, "LGAMMA_FAR": 4, "DIGAMMA_FROM_ZERO": 16,
        "DIGAMMA_FAR": 5,
    }  # fmt: skip
    return {
        **long,
        **{f"SHORT_{name}": (*long[name][:4], count, long[name][5]) for name, count in counts.items()},
        "RECIPROCAL_GAMMA": (
            "1 / gamma(1 + x), 0 <= x <= 1", lambda x: mp.rgamma(1 + x), 0, 1, 13, lambda x: mp.gamma(1 + x)),
        "LONG_SINE_OF_HALF_TURNS": (
            "(sin(pi x) / (pi x) - 1) / x^2 in x^2, |x| <= 1/2",
            of_square(lambda x: mp.sin(mp.pi * x) / mp.pi, [1, -(mp.pi**2) / 6], 1), 0, mp.mpf("0.2501"), 8,
            weighted(lambda t: mp.sinc(mp.pi * mp.sqrt(t)), 1)),
        "LONG_TANGENT_OF_HALF_TURNS": (
            "(tan(pi x) / (pi x) - 1) / x^2 in x^2, |x| <= 1/4",
            of_square(lambda x: mp.tan(mp.pi * x) / mp.pi, [1, mp.pi**2 / 3], 1), 0, mp.mpf("0.06253"), 14,
            weighted(of_square(lambda x: mp.tan(mp.pi * x) / mp.pi, 1), 1)),
    }  # fmt: skip


def erf_inv_tables() -> dict[str, tuple[str, Function, Any, Any, int, Function | None]]:
    """For the inverse error function, in w = -log(1 - x^2) or its inverse root, from the middle of the interval."""

    def near(top: str, shift: str, count: int) -> Any:
        """Of shift - w, which is the logarithm and a constant."""
        middle = mp.mpf(shift)
        what = f"erf_inv(x) / x - 1 in {shift} - w, where w = -log(1 - x^2) <= {top}"
        weight = lambda z: 1 / erf_inv_ratio(middle - z)
        return what, lambda z: erf_inv_ratio(middle - z) - 1, middle - mp.mpf(top), middle, count, weight

    def far(low: str, top: int, middle: str, count: int) -> Any:
        ends = [1 / mp.sqrt(mp.mpf(w)) - mp.mpf(middle) for w in (top, low)]
        what = f"erf_inv(x) / sqrt(w) - 1 in 1 / sqrt(w) - {middle}, where {low} <= w <= {top}"

        def function(s: Any) -> Any:
            inverse = s + mp.mpf(middle)
            return erf_inv_ratio(1 / inverse**2) * inverse * mp.sqrt(-mp.expm1(-1 / inverse**2)) - 1

        return what, function, *ends, count, lambda s: 1 / (1 + function(s))

    return {
        "ERF_INV": near("16", "7.5", 19),
        "LONG_ERF_INV": near("6.25", "1.5", 24),
        "LONG_ERF_INV_FAR": far("6.25", 37, "0.28125", 24),
    }


def erf_inv_ratio(w: Any) -> Any:
    """erf_inv(x) / x, where x = sqrt(1 - exp(-w)), by Newton's method on the logarithm of erfc."""
    with mp.workprec(400):
        if w < mp.mpf(10) ** -60:
            return mp.sqrt(mp.pi) / 2
        x = mp.sqrt(-mp.expm1(-w))
        goal, y = -w - mp.log1p(x), mp.sqrt(w) * mp.mpf("0.9")  # the logarithm of 1 - x
        for _ in range(60):
            rest = mp.erfc(y)
            step = (mp.log(rest) - goal) * rest * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
            y += step
            if abs(step) < mp.mpf(10) ** -100 * y:
                break
        return y / x


def bits_of(value: Any, top: int, widths: tuple[int, ...]) -> list[float]:
    """The bits of a positive number from that of 2^top down, split into parts of these widths."""
    rest, parts = mp.fmod(value, mp.mpf(2) ** (top + 1)), []
    for width in widths:
        unit = mp.mpf(2) ** (top - width + 1)
        part = mp.floor(rest / unit) * unit
        parts.append(float(part))
        rest, top = rest - part, top - width
    return parts


def main() -> None:
    mp.mp.prec = 250
    lines = [
        '"""Polynomials by which elementwise functions are computed. Written by `python -m tests.minimax`.',
        "",
        "Each is the one whose largest relative error, as of the whole function, is least on its interval.",
        '"""',
        "",
    ]
    for name, (what, fun, low, high, count, weight) in tables().items():
        low, high = mp.mpf(low), mp.mpf(high)
        relative = weight or (lambda x, fun=fun: 1 / fun(x))
        at = low if low or weight is None else high * mp.mpf(10) ** -12
        fitted = remez_in_float32 if name in IN_FLOAT32 else remez
        coefficients, worst = fitted(fun, at, high, count, relative)
        bits = mp.nstr(-mp.log(worst, 2), 4)
        print(f"{name}: {bits} bits")
        lines.append(f"# {what}, to {bits} bits\n{name} = (")
        lines += [f"    {float(c)!r}," for c in coefficients]
        lines.append(")\n")
    lines.append(
        "# 1 / pi in parts of 27, 27 and 53 bits, for float32 numbers below 2^51, 2^77, 2^103 and 2^128 and no\n"
        "# less than the one before: the bits before them give even numbers.\nINVERSE_PI = ("
    )
    lines += [f"    {tuple(bits_of(1 / mp.pi, 23 - power, (27, 27, 53)))!r}," for power in (25, 51, 77, 103)]
    lines.append(")\n")
    least = mp.findroot(mp.digamma, 1.46)
    for name, what, value, top, widths in (
        ("LN2_PARTS", "log(2), the first part of 32 bits", mp.log(2), -1, (32, 53)),
        ("SHORT_LN2_PARTS", "log(2), the first part of 21 bits", mp.log(2), -1, (21, 53)),
        ("CP_PARTS", "2 / (3 log(2)), the first part of 21 bits", 2 / (3 * mp.log(2)), -1, (21, 53)),
        ("DIGAMMA_ZERO_PARTS", "x0 - 1, where digamma(x0) is 0", least - 1, -2, (53, 53)),
        ("LEAST_LGAMMA_PARTS", "-lgamma(x0), which is the most", -mp.loggamma(least), -4, (53, 53)),
        ("HALF_PI_PARTS", "pi / 2, in parts of 33, 33, 33 and 53 bits", mp.pi / 2, 0, (33, 33, 33, 53)),
    ):
        lines.append(f"# {what}\n{name} = {tuple(bits_of(value, top, widths))!r}\n")
    FILE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()

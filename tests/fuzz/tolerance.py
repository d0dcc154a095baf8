"""How far results may differ: a program's own sensitivity to rounding, measured.

The jaxpr is evaluated by the NumPy reference rules several times, and each result of an operation that rounds is
changed by up to a unit in the last place, at random (stochastic arithmetic: Parker, Monte Carlo arithmetic, 1997). How
far the results spread is how far two right evaluations can be apart, cancellation, chaos, ties and jumps included. An
element that comes out as another integer, or nan in only some of the runs, is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xpr.backend.operands import host_value
from xpr.compile.reference import jaxprs_run_by
from xpr.core.jaxpr import Jaxpr, Literal

# What moves or chooses values, and rounds none; and what holds jaxprs, whose equations are changed themselves.
EXACT = frozenset(
    """broadcast_in_dim reshape squeeze transpose rev select_n slice pad concatenate iota floor ceil round neg max
    min clamp real imag conj complex sign abs bitcast_convert_type copy cummax cummin reduce_max
    reduce_max_of_numbers reduce_min gather scatter scatter-min scatter-max dynamic_slice dynamic_update_slice
    sort top_k order_statistics stop_gradient xla_call cond scan while custom_jvp_call custom_vjp_call custom_lin
    checkpoint linear_call optimization_barrier is_finite argmax argmin""".split()
)
SUMS = frozenset(
    """reduce_sum cumsum dot_general conv_general_dilated scatter-add linear_recurrence cumlogsumexp reduce_window fft
    """.split()
)
# Sums of large terms near their zeros: their errors are those of their operands.
CANCELLING = frozenset("lgamma digamma".split())


class Noisy:
    """Evaluates jaxprs by their reference rules, with changes of `amount` units in the last place; 0 for none."""

    def __init__(self, seed: int, amount: float):
        self.random, self.amount = np.random.default_rng(seed), amount

    def __call__(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[np.ndarray]:
        with jaxprs_run_by(self.run), np.errstate(all="ignore"):
            return self.run(jaxpr, args)

    def run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[np.ndarray]:
        env: dict[Any, Any] = {}
        for var, value in zip([*jaxpr.constvars, *jaxpr.invars], args, strict=True):
            env[var] = np.asarray(host_value(value, var.aval))

        def read(atom: Any) -> Any:
            return env[atom] if type(atom) is not Literal else np.asarray(atom.val, atom.aval.dtype)

        for eqn in jaxpr.eqns:
            values, name = [read(v) for v in eqn.invars], eqn.primitive.name
            if "call_jaxpr" in eqn.params:
                outs = self.run(eqn.params["call_jaxpr"], values)
            else:
                if self.amount and name in SUMS:  # whose order is open
                    values = [self.changed(x, max(1.0, x.size**0.5)) for x in values]
                if self.amount and name in ("reduce_sum", "reduce_prod"):
                    values = [self.shuffled(values[0], eqn.params["axes"])]
                if self.amount and name in CANCELLING:
                    values = [self.changed(x, 1.0) for x in values]
                outs = eqn.primitive.reference(values, **eqn.params)
            outs = [np.asarray(out, v.aval.dtype) for v, out in zip(eqn.outvars, outs, strict=True)]
            if self.amount and name not in EXACT:
                coarse = name == "reduce_precision"
                outs = [
                    self.changed(x, 0.5 ** eqn.params["mantissa_bits"] / eps(x.dtype) if coarse else 1.0) for x in outs
                ]
            env.update(zip(eqn.outvars, outs))
        return [read(v) for v in jaxpr.outvars]

    def shuffled(self, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        """The elements in another order along some axes: whether they overflow on the way depends on it."""
        for axis in axes:
            x = np.take(x, self.random.permutation(x.shape[axis]), axis)
        return x

    def changed(self, x: np.ndarray, factor: float) -> np.ndarray:
        if not is_inexact(x.dtype) or not x.size:
            return x
        step = factor * self.amount * eps(x.dtype)
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        noise = self.random.uniform(-step, step, x.shape)
        return np.asarray(x.astype(wide) * (1 + noise), x.dtype)


def is_inexact(dtype: Any) -> bool:
    return dtype.kind in "fc" or dtype == ml_dtypes.bfloat16


def eps(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


class Spread:
    """Results, with how far each element may be away from them.

    Attributes:
      center: what the references give.
      samples: what they give with noise.
    """

    def __init__(self, jaxpr: Jaxpr, args: Sequence[Any], runs: int = 2, amount: float = 1.0, center: bool = True):
        self.center = Noisy(0, 0.0)(jaxpr, args)
        self.samples = [Noisy(seed + 1, amount)(jaxpr, args) for seed in range(runs)]

    def differences(self, index: int, value: Any, others: Sequence[Spread] = (), factor: float = 32.0) -> str | None:
        """How a result differs from the center by more than it may; None where it doesn't. `others` are spreads of
        other programs of the same results."""
        center = self.center[index]
        found = np.asarray(value)
        if found.shape != center.shape:
            return f"shape {found.shape} instead of {center.shape}"
        samples = [s[index] for each in (self, *others) for s in (*each.samples, each.center)]
        return compare(found, center, samples, factor)


def compare(found: np.ndarray, center: np.ndarray, samples: Sequence[np.ndarray], factor: float) -> str | None:
    """How `found` differs from `center` by more than `factor` times what the samples do."""
    if not is_inexact(center.dtype):
        stable = np.all([s == center for s in samples], 0)
        wrong = (found != center) & stable
    else:
        wide = np.complex128 if center.dtype.kind == "c" else np.float64
        x, y = found.astype(wide), center.astype(wide)
        with np.errstate(all="ignore"):
            away = [np.abs(s.astype(wide) - y) for s in samples]
            spread = np.max(away, 0) if away else np.zeros_like(y, np.float64)
            finite = [np.isfinite(s.astype(wide)) for s in samples]
            stable = np.all([f == np.isfinite(y) for f in finite], 0) & np.all(
                [np.isnan(s.astype(wide)) == np.isnan(y) for s in samples], 0
            )
            typical = np.sqrt(np.mean(np.where(np.isfinite(spread), spread, 0) ** 2)) if spread.size else 0.0
            smallest = float(ml_dtypes.finfo(center.dtype).smallest_normal) * 4
            bound = factor * (spread + 0.25 * typical + 2 * eps(center.dtype) * np.abs(y)) + smallest
            near_largest = np.abs(y) + bound >= float(ml_dtypes.finfo(center.dtype).max)
            same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
        wrong = ~same & stable & ~near_largest | (~same & stable & np.isnan(x) & np.isfinite(y))
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f"at {at} of {found.dtype}{list(found.shape)}, {int(wrong.sum())} elements in all"
    return f"{found[at]} instead of {center[at]} {where}"

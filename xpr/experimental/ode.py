"""Ordinary differential equations: `odeint`, the Dormand-Prince method with adaptive steps.

The operation is solve(y0, ts, args) -> ys [T, n], the solution as a vector at T times. Its derivatives are equations
too, so steps are never differentiated:

* forward mode solves the equation of the sensitivities v, v' = (df/dy) v + (df/dargs) dargs, beside that of y;
* reverse mode solves the adjoint equation a' = -(df/dy)^T a backwards from each time to the one before, and y with it,
  so that memory does not grow with the number of steps. Chen et al., "Neural Ordinary Differential Equations" (2018),
  appendix C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr import numpy as jnp
from xpr.api.grad import jvp, vjp
from xpr.api.vmap import vmap
from xpr.control.custom.closure_convert import closure_convert
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.custom.linear_call import linear_call
from xpr.control.groups import merge, partition
from xpr.control.scan.function import scan
from xpr.control.while_.fori_loop import fori_loop
from xpr.control.while_.function import while_loop
from xpr.core.avals import aval_of
from xpr.core.source import describe_function
from xpr.flatten_util import ravel_pytree
from xpr.numpy.linalg import norm

__all__ = ["odeint"]

# Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980), table 2: the times of the stages, their
# weights in the later stages, and the weights of the results of order 5 and 4. The last stage is the slope at the end.
TIMES = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
STAGES = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
ORDER_5 = STAGES[6]
ORDER_4 = np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])
# The weights of the solution in the middle of a step. Shampine, "Some practical Runge-Kutta formulas" (1986).
MIDDLE = 0.5 * np.array(
    [
        6025192743 / 30085553152,
        0,
        51252292925 / 65400821598,
        -2691868925 / 45128329728,
        187940372067 / 1594534317056,
        -1776094331 / 19743644256,
        11237099 / 235043384,
    ]
)
# The quartic in s = (t - t0) / h, the highest power first, of y0, the middle, y1, h y0' and h y1'.
QUARTIC = np.array([[-8, 16, -8, -2, 2], [18, -32, 14, 5, -3], [-11, 16, -5, -4, 1], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])

Slope = Callable[[Any, Any], Any]


def _combined(weights: np.ndarray, vectors: Any) -> Any:
    """Sums of vectors [k, n] with weights [k] or [m, k]."""
    return jnp.matmul(jnp.asarray(weights, vectors.dtype), vectors, precision="highest")


def _root_mean_square(x: Any) -> Any:
    return jnp.sqrt(jnp.mean(jnp.real(x * jnp.conj(x))))


def _step(f: Slope, y: Any, slope: Any, t: Any, h: Any) -> tuple[Any, Any, Any, Any]:
    """One step: `(y, slope, error, quartic [5, n])` at its end."""
    width = h.astype(y.dtype)
    times, weights = jnp.asarray(TIMES, t.dtype), jnp.asarray(STAGES, y.dtype)

    def stage(i: Any, slopes: Any) -> Any:
        change = jnp.matmul(weights[i], slopes, precision="highest")
        return slopes.at[i].set(f(y + width * change, t + h * times[i]))

    slopes = fori_loop(1, 7, stage, jnp.zeros((7, *y.shape), y.dtype).at[0].set(slope))
    end, error, middle = width * _combined(np.stack([ORDER_5, ORDER_5 - ORDER_4, MIDDLE]), slopes)
    known = jnp.stack([y, y + middle, y + end, width * slope, width * slopes[6]])
    return y + end, slopes[6], error, _combined(QUARTIC, known)


def _first_width(f: Slope, y: Any, slope: Any, t: Any, rtol: float, atol: float) -> Any:
    """The width of the first step. Hairer, Nørsett and Wanner, "Solving Ordinary Differential Equations I", II.4."""
    scale = atol + jnp.abs(y) * rtol
    d0, d1 = norm(y / scale), norm(slope / scale)
    guess = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    beyond = f(y + guess.astype(y.dtype) * slope, t + guess.astype(t.dtype))
    d2 = norm((beyond - slope) / scale) / guess
    steepest = jnp.maximum(d1, d2)
    width = jnp.where(steepest <= 1e-15, jnp.maximum(1e-6, guess * 1e-3), (0.01 / steepest) ** (1 / 5))
    return jnp.minimum(100 * guess, width).astype(t.dtype)


def _next_width(h: Any, ratio: Any) -> Any:
    """The width for which the error is expected to be 0.9^5 of what is tolerated, where it was `ratio` of it."""
    factor = jnp.maximum(0.9 * ratio ** (-1 / 5), jnp.where(ratio < 1, 1.0, 0.2))
    return h * jnp.where(ratio == 0, 10.0, jnp.minimum(10.0, factor)).astype(h.dtype)


def _integrate(f: Slope, y0: Any, ts: Any, *, rtol: float, atol: float, mxstep: float, hmax: float) -> Any:
    """The solution at `ts`, [T, n], read off the quartics of the steps in which the times are."""

    def to_time(state: Any, target: Any) -> Any:
        def before(state: Any) -> Any:
            count, _, _, t, h, _, _ = state
            return (t < target) & (count < mxstep) & (h > 0)

        def step(state: Any) -> Any:
            count, y, slope, t, h, start, quartic = state
            end, end_slope, error, end_quartic = _step(f, y, slope, t, h)
            ratio = _root_mean_square(error / (atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(end))))
            width = jnp.clip(_next_width(h, ratio), 0, hmax)
            accepted = (end, end_slope, t + h, width, t, end_quartic)
            chosen = tree.map(lambda a, b: jnp.where(ratio <= 1, a, b), accepted, (y, slope, t, width, start, quartic))
            return count + 1, *chosen

        _, *state = while_loop(before, step, (0, *state))
        _, _, t, _, start, quartic = state
        return tuple(state), jnp.polyval(quartic, ((target - start) / (t - start)).astype(y0.dtype))

    slope = f(y0, ts[0])
    width = jnp.clip(_first_width(f, y0, slope, ts[0], rtol, atol), 0, hmax)
    state = (y0, slope, ts[0], width, ts[0], jnp.zeros((5, *y0.shape), y0.dtype).at[4].set(y0))
    _, ys = scan(to_time, state, ts[1:])
    return jnp.concatenate([y0[None], ys])


def _differentiable(f: Callable[..., Any], **limits: float) -> Callable[..., Any]:
    """`solve(y0, ts, varying, fixed)` for y' = f(y, t, varying, fixed): `varying` are arrays of inexact dtype."""

    @custom_jvp
    def solve(y0: Any, ts: Any, varying: Any, fixed: Any) -> Any:
        return _integrate(lambda y, t: f(y, t, varying, fixed), y0, ts, **limits)

    @solve.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        y0, ts, varying, fixed = primals
        ys = solve(y0, ts, varying, fixed)
        return ys, linear_call(sensitivities, adjoint, (ys, ts, varying, fixed), tangents[:3])

    def sensitivities(residuals: Any, tangents: Any) -> Any:
        """The tangent of `ys`. That of t[0] moves the solution back along its slope."""
        (ys, ts, varying, fixed), (y0_dot, ts_dot, varying_dot) = residuals, tangents

        def slope(state: Any, t: Any, varying: Any, fixed: Any, varying_dot: Any) -> Any:
            y, v = state
            return jvp(lambda y, varying: f(y, t, varying, fixed), (y, varying), (v, varying_dot))

        slopes = vmap(lambda y, t: f(y, t, varying, fixed))(ys, ts)
        moved = slopes * ts_dot[:, None].astype(ys.dtype)
        _, vs = odeint(slope, (ys[0], y0_dot - moved[0]), ts, varying, fixed, varying_dot, **limits)
        return vs + moved

    def adjoint(residuals: Any, ct: Any) -> Any:
        """The cotangents of `y0`, `ts` and `varying`, from that of `ys`."""
        ys, ts, varying, fixed = residuals

        def slope(state: Any, negative_t: Any, varying: Any, fixed: Any) -> Any:
            y, a, _ = state
            y_dot, pull = vjp(lambda y, varying: f(y, -negative_t, varying, fixed), y, varying)
            return -y_dot, *pull(a)

        def back(carry: Any, interval: Any) -> Any:
            a, varying_ct = carry
            y, ct, start, end = interval
            span = jnp.stack([-end, -start])
            _, a, varying_ct = tree.map(
                lambda x: x[1], odeint(slope, (y, a + ct, varying_ct), span, varying, fixed, **limits)
            )
            return (a, varying_ct), None

        slopes = vmap(lambda y, t: f(y, t, varying, fixed))(ys, ts)
        nothing = (jnp.zeros_like(ys[0]), tree.map(jnp.zeros_like, varying))
        (a, varying_ct), _ = scan(back, nothing, (ys[1:], ct[1:], ts[:-1], ts[1:]), reverse=True)
        ts_ct = jnp.sum(ct * slopes, 1).at[0].set(-jnp.sum(a * slopes[0]))
        return a + ct[0], jnp.real(ts_ct).astype(ts.dtype), varying_ct

    return solve


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: float = np.inf, hmax: float = np.inf,
) -> Any:  # fmt: skip
    """The solution of y' = func(y, t, *args), y(t[0]) = y0, by the Dormand-Prince method with adaptive steps.

    Derivatives are those of the solution, in forward and in reverse mode, to any order, each by an equation that is
    solved to the same tolerances. Hairer, Nørsett and Wanner, "Solving Ordinary Differential Equations I", ch. II.

    Args:
      func: `func(y, t, *args)`, the slope: of the structure of `y0`, or as many numbers in another. It may close over
        values that are differentiated.
      y0: a pytree of arrays, the solution at t[0].
      t: floats [T], increasing: where the solution is wanted.
      *args: pytrees of arrays and numbers.
      rtol: the relative tolerance of each step's error.
      atol: the absolute tolerance. A step is accepted if the root mean square of error / (atol + rtol |y|) is at most
        1.
      mxstep: the largest number of steps from one time to the next.
      hmax: the largest width of a step.

    Returns:
      The pytree `y0` with an axis of T in front of each array; the row of t[0] is `y0`.

    Raises:
      TypeError: `t` has other elements than floats, or `args` holds something else than arrays and numbers.
      ValueError: `t` is no vector, or `func` returns another number of elements than `y0` has.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.ode import odeint
    >>> def decay(y, t, rate):
    ...     return -rate * y
    >>> ys = odeint(decay, 1.0, jnp.array([0.0, 1.0, 2.0]), 0.5)
    >>> jnp.round(ys, 4)
    Array([1.    , 0.6065, 0.3679], dtype=float32)
    >>> slope = xpr.grad(lambda rate: odeint(decay, 1.0, jnp.array([0.0, 2.0]), rate)[-1])(0.5)
    >>> round(float(slope), 3)
    -0.736
    """
    _check_arguments(t, args)
    ts = jnp.asarray(t)
    vector, unravel = ravel_pytree(tree.map(_inexact, y0))
    leaves, args_tree = tree.flatten(args)
    leaves = [jnp.asarray(x) for x in leaves]
    varies = [x.dtype in dtypes.INEXACT for x in leaves]

    def slope(y: Any, t: Any, leaves: Sequence[Any]) -> Any:
        out, _ = ravel_pytree(func(unravel(y), t, *tree.unflatten(args_tree, leaves)))
        if out.shape != y.shape:
            raise ValueError(
                f"odeint: {describe_function(func)} must return the slope of y, of as many elements as y0, "
                f"{y.size}, and returned {out.size}."
            )
        return out.astype(y.dtype)

    converted, values = closure_convert(slope, vector, ts[0], leaves)

    def f(y: Any, t: Any, varying: Any, fixed: Any) -> Any:
        arguments, closed_over = varying
        return converted(y, t, merge(arguments, fixed, varies), *closed_over)

    solve = _differentiable(f, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax)
    varying, fixed = partition(leaves, varies)
    return vmap(unravel)(solve(vector, ts, (varying, values), fixed))


def _inexact(x: Any) -> Any:
    array = jnp.asarray(x)
    return array.astype(dtypes.to_inexact(array.dtype))


def _check_arguments(t: Any, args: Any) -> None:
    for x in tree.leaves(args):
        try:
            aval_of(x)
        except TypeError as error:
            raise TypeError(
                f"odeint: *args must be arrays or scalars, and one is {x!r}. Let func close over it."
            ) from error
    aval = aval_of(jnp.asarray(t))
    if aval.dtype not in dtypes.FLOATS:
        raise TypeError(
            f"odeint: t must be an array of floats, and is {aval.str_short()}. Convert it with .astype(float)."
        )
    if len(aval.shape) != 1 or not aval.shape[0]:
        raise ValueError(f"odeint: t must be a vector of at least one time, and is {aval.str_short()}.")

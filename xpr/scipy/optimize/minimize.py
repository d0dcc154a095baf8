"""minimize: a local minimum of a function of a vector, by quasi-Newton methods with a line search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xpr import numpy as jnp
from xpr import tree
from xpr.control.while_.function import while_loop
from xpr.core.avals import aval_of
from xpr.dtypes import FLOATS
from xpr.numpy.norms import norm
from xpr.primitives.elementwise import complex_
from xpr.primitives.shapes import instantiate
from xpr.scipy.optimize.line_search import Point, line_search
from xpr.scipy.optimize.quasi_newton import Dense, Limited
from xpr.transforms.linearize import linearize_flat
from xpr.transforms.transpose import backward_pass

__all__ = ["OptimizeResults", "minimize"]

_CONVERGED, _TOO_MANY_STEPS, _NO_STEP, _NO_DECREASE = 0, 1, 3, 4
_UNLIMITED = 2**31 - 1
_LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
_OPTIONS = {
    "bfgs": {"gtol", "maxiter", "norm", "line_search_maxiter"},
    _LIMITED: {"gtol", "maxiter", "norm", "maxls", "maxcor", "ftol", "maxfun", "maxgrad"},
}


class OptimizeResults(NamedTuple):
    """The outcome of a minimization.

    Attributes:
      x: the minimum that was found.
      success: whether the gradient is as small as was asked for.
      status: 0 for success, 1 after too many iterations or evaluations, 3 where no step lowers the function, 4 where
        one lowers it by less than was asked for.
      fun: the value there.
      jac: the gradient there.
      hess_inv: the estimated inverse of the Hessian; None where it is not a matrix.
      nfev: how often the function was evaluated.
      njev: how often its gradient was.
      nit: the number of iterations.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of a function of a vector, by a quasi-Newton method.

    It is the method of Broyden, Fletcher, Goldfarb and Shanno, or that of limited memory; steps satisfy the strong
    Wolfe conditions (Nocedal and Wright, Numerical Optimization, 2006). It may be compiled and mapped.

    Args:
      fun: `fun(x, *args)` returns a scalar.
      x0: where to start, [n], floating; for limited memory also complex.
      args: further arguments of `fun`.
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this" for limited memory.
      tol: the norm of the gradient at which to stop; 1e-5 where not given.
      options: `gtol` in place of `tol`; `norm`, the order of the norm (inf); `maxiter`, the most iterations (200 n);
        `line_search_maxiter`, or `maxls` with limited memory, the most steps of a line search; and with limited memory
        `maxcor`, the number of steps in memory (10), `ftol`, the decrease at which to stop (2.2e-9), `maxfun` and
        `maxgrad`, the most evaluations.

    Returns:
      An `OptimizeResults`.

    Raises:
      TypeError: `args` is not a tuple, `fun` does not return a scalar of real floats, or `x0` is complex with BFGS.
      ValueError: another method or option, or `x0` is not a vector.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.optimize import minimize
    >>> minimize(lambda x: jnp.sum((x - 1) ** 2), jnp.zeros(2), method="BFGS").x
    Array([1., 1.], dtype=float32)
    """
    name = method.lower()
    if name not in _OPTIONS:
        raise ValueError(f"minimize: the method is 'BFGS' or {_LIMITED!r}, and {method!r} was asked for.")
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args is a tuple of further arguments, it must be a tuple, and is {args!r}.")
    x0 = jnp.asarray(x0)
    x0 = x0.astype(jnp.result_type(x0, float))
    if x0.ndim != 1:
        raise ValueError(f"minimize: x0 is a vector, and has shape {x0.shape}.")
    if name == "bfgs" and jnp.iscomplexobj(x0):
        raise TypeError(
            f"minimize: BFGS takes real numbers, and x0 is {x0.aval.str_short()}. {_LIMITED!r} takes complex ones."
        )
    chosen = {key: value for key, value in dict(options or {}).items() if value is not None}
    unknown = chosen.keys() - _OPTIONS[name]
    if unknown:
        raise ValueError(f"minimize: there is no option {', '.join(sorted(unknown))}.")
    bounded = name == _LIMITED and chosen.keys() & {"maxfun", "maxgrad"}
    limits = _Limits(
        chosen.get("gtol", 1e-5 if tol is None else tol),
        chosen.get("ftol", 2.220446049250313e-09) if name == _LIMITED else -math.inf,
        chosen.get("norm", math.inf),
        int(chosen.get("maxiter", _UNLIMITED if bounded else 200 * x0.size)),
        int(min(chosen.get("maxfun", _UNLIMITED), chosen.get("maxgrad", _UNLIMITED))),
        chosen.get("maxls", chosen.get("line_search_maxiter", 20 if name == _LIMITED else 30)),
    )
    if name == "bfgs":
        return _minimum(lambda x: fun(x, *args), x0, Dense.start(x0), limits)
    memory = int(chosen.get("maxcor", 10))
    if not jnp.iscomplexobj(x0):
        return _minimum(lambda x: fun(x, *args), x0, Limited.start(x0, memory), limits)
    parts = jnp.concatenate([x0.real, x0.imag])
    results = _minimum(lambda x: fun(_joined(x), *args), parts, Limited.start(parts, memory), limits)
    return results._replace(x=_joined(results.x), jac=jnp.conj(_joined(results.jac)))


def _joined(parts: Any) -> Any:
    """A complex vector of its real parts, which are followed by the imaginary ones."""
    n = parts.size // 2
    return complex_(parts[:n], parts[n:])


class _Limits(NamedTuple):
    """When to stop: norm of the gradient and its order, decrease, iterations, evaluations, steps of a line search."""

    gradient: float
    decrease: float
    order: float
    iterations: int
    evaluations: int
    line_search: int


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    model: Any
    iterations: Any
    evaluations: Any
    status: Any
    decrease: Any  # of the value in the last iteration


def _minimum(fun: Callable[[Any], Any], x0: Any, model: Dense | Limited, limits: _Limits) -> OptimizeResults:
    value, gradient = _value_and_gradient(fun, x0)

    def size(gradient: Any) -> Any:
        return norm(gradient, ord=limits.order) if gradient.size else jnp.zeros((), gradient.dtype)

    def unfinished(state: _State) -> Any:
        running = (state.status == _CONVERGED) & (state.iterations < limits.iterations)
        return running & (state.evaluations < limits.evaluations) & (size(state.gradient) > limits.gradient)

    def iterate(state: _State) -> _State:
        direction = state.model.direction(state.gradient)

        def on_line(step: Any) -> Point:
            value, gradient = _value_and_gradient(fun, state.x + step * direction)
            return Point(step, value, gradient @ direction, gradient)

        zero = jnp.zeros_like(state.value)
        start = Point(zero, state.value, state.gradient @ direction, state.gradient)
        point, found, count = line_search(on_line, start, state.decrease, limits.line_search)
        step, change = point.step * direction, point.gradient - state.gradient
        decrease = state.value - point.value
        new = _State(
            state.x + step, point.value, point.gradient, state.model.updated(step, change), state.iterations + 1,
            state.evaluations + count, jnp.where(decrease < limits.decrease, _NO_DECREASE, _CONVERGED), decrease,
        )  # fmt: skip
        failed = state._replace(evaluations=state.evaluations + count, status=jnp.asarray(_NO_STEP))
        return tree.map(lambda x, y: jnp.where(found, x, y), new, failed)

    decrease = norm(gradient) / 2  # a step of length 1 to start with
    first = _State(x0, value, gradient, model, jnp.asarray(0), jnp.asarray(1), jnp.asarray(_CONVERGED), decrease)
    last = while_loop(unfinished, iterate, first)
    success = size(last.gradient) <= limits.gradient
    status = jnp.where(success, _CONVERGED, jnp.where(last.status == _CONVERGED, _TOO_MANY_STEPS, last.status))
    return OptimizeResults(
        last.x, success, status, last.value, last.gradient,
        last.model.inverse if isinstance(last.model, Dense) else None, last.evaluations, last.evaluations,
        last.iterations,
    )  # fmt: skip


def _value_and_gradient(fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    (value,), linear, (depends,) = linearize_flat(lambda x: [fun(x)], [x], [True])
    aval = aval_of(value)
    if aval.shape or aval.dtype not in FLOATS:
        raise TypeError(f"minimize: the function must return a scalar, a real float, and returned {aval.str_short()}.")
    if not depends:
        return value, jnp.zeros_like(x)
    return value, instantiate(backward_pass(linear.jaxpr, linear.consts, [aval.dtype.type(1)])[0])

"""Checks of derivatives against finite differences along random directions.

Forward mode: J v against (f(x + h v) - f(x - h v)) / 2h, whose error is of the order of h^2, plus the rounding of f
divided by h; h is the cube root of the dtype's epsilon, where the two are about equal. Reverse mode: <ct, J v> against
<J^T ct, v>, with J v the finite difference, and <a, b> the real part of sum(a * b), under which xpr transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.api.grad import jvp, linearize, vjp
from xpr.core.avals import aval_of

_SEED = 0  # as JAX's functions have, so that they go in the same directions
_VALUE = ": the value beside the derivative is not that of the function"


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: str | Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Checks the derivatives of a function, up to some order, against finite differences.

    Args:
      f: a function of pytrees of arrays, smooth around `args`.
      args: the point, a sequence of pytrees. Integers in it stay as they are.
      order: 1 for first derivatives; 2 also checks derivatives of derivatives, in every combination of the modes.
      modes: "fwd" for jvp, "rev" for vjp, "lin" for linearize, or several.
      atol: the absolute tolerance; None for that of the least precise dtype among the values and of the step.
        64-bit types (`xpr.enable_x64`) make checks stricter.
      rtol: the relative tolerance; None as for `atol`.
      eps: the step of the finite differences; None for the cube root of the dtype's epsilon.

    Returns:
      None.

    Raises:
      AssertionError: a derivative and its finite difference differ.
      ValueError: `modes` holds anything else, or `order` is less than 1.

    >>> import xpr.numpy as jnp
    >>> from xpr.testing import check_grads
    >>> check_grads(jnp.tanh, (jnp.array([0.5, -1.0]),), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if order < 1 or not set(modes) <= {"fwd", "rev", "lin"}:
        raise ValueError(
            f"check_grads: order is at least 1 and modes are 'fwd', 'rev' and 'lin'; got {order} and {modes}."
        )
    args = tuple(args)
    for mode, forward in (("fwd", partial(jvp, f)), ("lin", partial(_by_linearize, f))):
        if mode in modes:
            check_jvp(f, forward, args, atol, rtol, eps, f"{_NAMES[mode]}, {order} orders to go")
            if order > 1:
                directions = _random_like(args, np.random.RandomState(_SEED + order))
                derivative = partial(_derivative, forward, directions)
                check_grads(derivative, args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, atol, rtol, eps, f"vjp, {order} orders to go")
        if order > 1:
            cotangent = _random_like(f(*args), np.random.RandomState(_SEED + order))
            check_grads(lambda *xs: vjp(f, *xs)[1](cotangent), args, order - 1, modes, atol, rtol, eps)


_NAMES = {"fwd": "jvp", "lin": "linearize"}


def _by_linearize(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    value, derivative = linearize(f, *primals)
    return value, derivative(*tangents)


def _derivative(forward: Callable[..., Any], directions: Any, *args: Any) -> Any:
    return forward(args, directions)[1]


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "jvp",
) -> None:
    """Checks a function `f_jvp(primals, tangents) -> (value, tangent)` against the values and differences of `f`.

    Args:
      f: a function of pytrees of arrays, smooth around `args`.
      f_jvp: the function to check.
      args: the point, a sequence of pytrees; integers in it stay as they are.
      atol: the absolute tolerance; None for that of the least precise dtype among the values and of the step.
      rtol: the relative tolerance; None as for `atol`.
      eps: the step of the finite differences; None for the cube root of the dtype's epsilon.
      err_msg: begins the message of the error.

    Returns:
      None.

    Raises:
      AssertionError: they differ.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.testing import check_jvp
    >>> check_jvp(jnp.sin, lambda primals, tangents: xpr.jvp(jnp.sin, primals, tangents), (0.5,))
    """
    args = tuple(args)
    tangents = _random_like(args, np.random.RandomState(_SEED))
    value, tangent = f_jvp(args, tangents)
    _assert_close(value, f(*args), atol, rtol, err_msg + _VALUE)
    expected = _difference(f, args, tangents, eps)
    message = f"{err_msg}: the derivative is not the finite difference"
    _assert_close(_inexact(tangent), expected, atol, rtol, message, step=eps)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "vjp",
) -> None:
    """Checks a function `f_vjp(*primals) -> (value, pullback)` against the values and differences of `f`.

    Args:
      f: a function of pytrees of arrays, smooth around `args`.
      f_vjp: the function to check.
      args: the point, a sequence of pytrees; integers in it stay as they are.
      atol: the absolute tolerance; None for that of the least precise dtype among the values and of the step.
      rtol: the relative tolerance; None as for `atol`.
      eps: the step of the finite differences; None for the cube root of the dtype's epsilon.
      err_msg: begins the message of the error.

    Returns:
      None.

    Raises:
      AssertionError: they differ.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.testing import check_vjp
    >>> check_vjp(jnp.sin, lambda x: xpr.vjp(jnp.sin, x), (0.5,))
    """
    args = tuple(args)
    rng = np.random.RandomState(_SEED)
    value, pullback = f_vjp(*args)
    _assert_close(value, f(*args), atol, rtol, err_msg + _VALUE)
    tangents, cotangent = _random_like(args, rng), _random_like(value, rng)
    jvp = _difference(f, args, tangents, eps)
    vjp = _inexact(pullback(cotangent))
    forward, backward = _inner(_inexact(cotangent), jvp), _inner(vjp, _inexact(tangents))
    message = f"{err_msg}: <ct, J v> is not <J^T ct, v>"
    _assert_close(np.asarray(backward), np.asarray(forward), atol, rtol, message, _coarsest([value, args]), eps)


# -- Trees of arrays as NumPy


def _numpy(x: Any) -> np.ndarray:
    return np.asarray(x, aval_of(x).dtype)


def _is_inexact(x: Any) -> bool:
    return aval_of(x).dtype in dtypes.INEXACT


def _inexact(values: Any) -> list[np.ndarray]:
    """The leaves that have derivatives."""
    return [_numpy(x) for x in tree.leaves(values) if _is_inexact(x)]


def _random_like(values: Any, rng: np.random.RandomState) -> Any:
    """A random tangent for each leaf; float0 zeros for integers."""

    def draw(x: Any) -> np.ndarray:
        aval = aval_of(x)
        if aval.dtype not in dtypes.INEXACT:
            return np.zeros(aval.shape, dtypes.float0)
        drawn = rng.randn(*aval.shape)
        if aval.dtype in dtypes.COMPLEX:
            drawn = drawn + 1j * rng.randn(*aval.shape)
        return np.asarray(drawn, aval.dtype)

    return tree.map(draw, values)


def _coarsest(values: Any) -> np.dtype:
    """The real dtype of least precision among the leaves."""
    kinds = [dtypes.real_part_of(_numpy(x).dtype) for x in tree.leaves(values) if _is_inexact(x)]
    return max(kinds, key=lambda dtype: float(dtypes.finfo(dtype).eps), default=dtypes.float32)


def _difference(f: Callable[..., Any], args: Any, tangents: Any, eps: float | None) -> list[np.ndarray]:
    """The central difference of the inexact results of `f` along `tangents`."""
    step = float(dtypes.finfo(_coarsest(args)).eps) ** (1 / 3) if eps is None else eps

    def moved(sign: float) -> list[np.ndarray]:
        def move(x: Any, t: np.ndarray) -> Any:
            if t.dtype == dtypes.float0:
                return x
            return np.asarray(_numpy(x) + np.asarray(sign * step, t.dtype) * t, t.dtype)

        return _inexact(f(*tree.map(move, args, tangents)))

    pairs = zip(moved(1.0), moved(-1.0), strict=True)
    return [_wide(high) / (2 * step) - _wide(low) / (2 * step) for high, low in pairs]


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype in dtypes.COMPLEX else np.float64)


def _inner(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return float(sum(np.sum(_wide(x) * _wide(y)).real for x, y in zip(a, b, strict=True)))


# -- Comparing


def _assert_close(
    got: Any,
    expected: Any,
    atol: float | None,
    rtol: float | None,
    message: str,
    dtype: np.dtype | None = None,
    step: float | None = None,
) -> None:
    got, expected = tree.leaves(got), tree.leaves(expected)
    if len(got) != len(expected):
        raise AssertionError(f"{message}: {len(got)} results, and {len(expected)} expected.")
    coarse = float(dtypes.finfo(dtype or _coarsest(got)).eps)
    loose = 80 * coarse ** (2 / 3) if step is None else _error_of_difference(step, coarse)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(
            _comparable(x),
            _comparable(y),
            rtol=loose if rtol is None else rtol,
            atol=loose if atol is None else atol,
            err_msg=message,
        )


def _error_of_difference(step: float, epsilon: float) -> float:
    """What is allowed to a central difference with a step of the caller's: at 1e-4, which is JAX's, what JAX allows."""
    return 1000 * step**2 + 2 * epsilon / step


def _comparable(x: Any) -> np.ndarray:
    x = _numpy(x)
    if x.dtype == dtypes.float0:
        return np.zeros(x.shape)
    return _wide(x) if x.dtype in dtypes.INEXACT else x


__all__ = ["check_grads", "check_jvp", "check_vjp"]

"""Derivatives along a curve, to any order: `xpr.taylor` by its name in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, lax
from xpr.series.taylor import taylor

__all__ = ["fact", "jet"]


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """The derivatives of a function along a curve, to any order, at a polynomial cost; see `xpr.taylor`.

    Args:
      fun: takes pytrees of arrays by position, and gives one.
      primals: the arguments, x(0).
      series: for each argument the list of its derivatives [x'(0), x''(0), ...]; those of booleans are not read.
      factorial_scaled: whether series are derivatives; else they are coefficients of powers of t.
      **_: not used.

    Returns:
      `(value, series)`, where the series has a list of derivatives for each array of the value.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.jet import jet
    >>> value, derivatives = jet(jnp.sin, (0.0,), ((1.0, 0.0, 0.0),))
    >>> [float(x) for x in derivatives]
    [1.0, -0.0, -1.0]
    """
    constant = [[0] * len(rows) if _is_boolean(x) else rows for x, rows in zip(primals, series)]
    return taylor(fun, primals, constant, factorial_scaled)


def _is_boolean(x: Any) -> bool:
    return isinstance(x, bool) or getattr(x, "dtype", None) == dtypes.bool_


def fact(n: Any) -> Any:
    """The factorial of a number, as a float.

    >>> from xpr.experimental.jet import fact
    >>> round(float(fact(4)))
    24
    """
    return lax.exp(lax.lgamma(n + 1.0))

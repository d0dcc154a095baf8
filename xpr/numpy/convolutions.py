"""Convolution and correlation of sequences, as convolutions of one image with one channel."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.elementwise import conj
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.shapes import reshape, rev
from xpr.primitives.windows.convolution_functions import conv_general_dilated

__all__ = ["convolve", "correlate"]

_MODES = ("full", "same", "valid")


@compiled_eagerly()
def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: PrecisionLike = None, preferred_element_type: Any = None
) -> Any:
    """The convolution of two sequences, in floating point: the sums over m of a[m] v[n - m].

    Args:
      a: a vector of N elements.
      v: a vector of M elements.
      mode: "full" for all N + M - 1 sums, "same" for the middle max(N, M), "valid" for those of full overlap.
      precision: see `lax.Precision`.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.

    Returns:
      A vector of floats.

    Raises:
      ValueError: an operand is not a vector or is empty, or there is no such mode.

    >>> import xpr.numpy as jnp
    >>> jnp.convolve(jnp.array([1., 2., 3.]), jnp.array([0., 1.]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    a, v = _sequences("convolve", a, v, mode)
    if aval_of(a).size < aval_of(v).size:
        a, v = v, a
    return _slide(a, rev(v, (0,)), mode, precision, preferred_element_type)


@compiled_eagerly()
def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: PrecisionLike = None, preferred_element_type: Any = None
) -> Any:
    """The correlation of two sequences, in floating point: the sums over n of a[n + k] conj(v[n]).

    Args:
      a: a vector of N elements.
      v: a vector of M elements.
      mode: as for `convolve`.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.

    Returns:
      A vector of floats.

    Raises:
      ValueError: an operand is not a vector or is empty, or there is no such mode.

    >>> import xpr.numpy as jnp
    >>> jnp.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]))
    Array([2., 3.], dtype=float32)
    """
    a, v = _sequences("correlate", a, v, mode)
    if aval_of(v).dtype in dtypes.COMPLEX:
        v = conj(v)
    if aval_of(a).size < aval_of(v).size:  # then the shorter slides the other way
        return rev(_slide(v, a, mode, precision, preferred_element_type), (0,))
    return _slide(a, v, mode, precision, preferred_element_type)


def _sequences(name: str, a: Any, v: Any, mode: str) -> list[Any]:
    if mode not in _MODES:
        raise ValueError(f"{name}: mode={mode!r} must be one of {', '.join(map(repr, _MODES))}.")
    a, v = promote_inexact(a, v)
    x, y = aval_of(a), aval_of(v)
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise ValueError(
            f"{name}: takes two sequences with at least one element each, and got {x.str_short()} and {y.str_short()}."
        )
    return [a, v]


def _slide(longer: Any, window: Any, mode: str, precision: Any, preferred: Any) -> Any:
    """The sums of products with `window` at all its positions that `mode` includes."""
    n, m = aval_of(longer).size, aval_of(window).size
    pads = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    out = conv_general_dilated(
        reshape(longer, (1, 1, n)), reshape(window, (1, 1, m)), (1,), [pads], precision=precision,
        preferred_element_type=preferred,
    )  # fmt: skip
    return reshape(out, (n + sum(pads) - m + 1,))

"""Rounding and clipping, and the next representable float."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy.arithmetic import maximum, minimum
from xpr.numpy.axes import no_out
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_inexact
from xpr.numpy.ufunc_builders import alias, float_binary
from xpr.primitives import elementwise as e
from xpr.primitives.slicing import select

__all__ = ["around", "ceil", "clip", "floor", "modf", "nextafter", "rint", "round", "trunc"]


def _rounded(x: Any, primitive: Any) -> Any:
    """A rounding function of floats; integers and booleans are returned as they are."""
    x = as_operand(x)
    return (
        asarray_like(x)
        if aval_of(x).dtype in dtypes.INTEGERS or aval_of(x).dtype == dtypes.bool_
        else primitive.bind(x)
    )


def floor(x: Any, /) -> Any:
    """The greatest integer not above each element, in its dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.floor(jnp.array([1.5, -1.5]))
    Array([ 1., -2.], dtype=float32)
    """
    return _rounded(x, e.floor_p)


def ceil(x: Any, /) -> Any:
    """The least integer not below each element, in its dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.ceil(jnp.array([1.5, -1.5]))
    Array([ 2., -1.], dtype=float32)
    """
    return _rounded(x, e.ceil_p)


def trunc(x: Any) -> Any:
    """Each element without its fraction.

    Raises:
      ArgumentError: the numbers are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.trunc(jnp.array([1.5, -1.5]))
    Array([ 1., -1.], dtype=float32)
    """
    x = as_operand(x)
    if aval_of(x).dtype in dtypes.COMPLEX:
        raise ArgumentError(
            f"jnp.trunc: takes real numbers, and got {aval_of(x).str_short()}. Take trunc(x.real) + 1j * trunc(x.imag)."
        )
    if aval_of(x).dtype not in dtypes.FLOATS:
        return asarray_like(x)
    return select(e.lt(x, aval_of(x).dtype.type(0)), e.ceil(x), e.floor(x))


fix = trunc


def rint(x: Any, /) -> Any:
    """The nearest integer as a float, halves to even.

    >>> import xpr.numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    if dtype in dtypes.COMPLEX:
        return e.complex_(e.round(e.real(x), 1), e.round(e.imag(x), 1))
    return e.round(x if dtype in dtypes.FLOATS else convert(x, dtypes.of_python(float)), 1)


@compiled_eagerly("decimals")
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Each element rounded to a number of decimals, halves to even.

    Args:
      a: array or number.
      decimals: the number of decimals; negative ones round to tens, hundreds, ...
      out: must be None; arrays are immutable.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `decimals` is not an integer.
      NotImplementedError: integers are rounded to a negative number of decimals, or `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.round(jnp.array([1.25, 2.75]), 1)
    Array([1.2, 2.8], dtype=float32)
    """
    no_out("round", out)
    a, decimals = as_operand(a), operator.index(decimals)
    dtype = aval_of(a).dtype
    if dtype in dtypes.INTEGERS:
        if decimals < 0:
            raise NotImplementedError("round: integers to a negative number of decimals. Convert to float first.")
        return asarray_like(a)
    if decimals == 0:
        return rint(a)
    if decimals > np.log10(float(dtypes.finfo(dtypes.to_inexact(dtype)).max)):
        return asarray_like(a)  # no float has so many decimals
    if dtype in dtypes.COMPLEX:
        return e.complex_(round(e.real(a), decimals), round(e.imag(a), decimals))
    wide = convert(a, dtypes.float32) if dtype == dtypes.float16 else a  # whose products overflow soon
    factor = e.scalar(10.0**decimals, wide)
    rounded = e.div(e.round(e.mul(wide, factor), 1), factor)
    return convert(rounded, dtype, aval_of(a).weak_type and not aval_of(a).shape)


around = alias(round, "around")


@compiled_eagerly()
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """The fractional and the integral part of each element, both with its sign.

    Args:
      x: array of real numbers.
      out: must be None; arrays are immutable.

    Returns:
      `(fraction, integral part)`, floats of the shape of `x`.

    Raises:
      NotImplementedError: `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.modf(jnp.array([1.5]))
    (Array([0.5], dtype=float32), Array([1.], dtype=float32))
    """
    no_out("modf", out)
    (x,) = promote_inexact(x)
    whole = trunc(x)
    return e.sub(x, whole), whole


@compiled_eagerly()
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """Each element limited to the interval [min, max].

    Args:
      arr: array of real numbers, which has to be given.
      min: lower bound that broadcasts against `arr`; None for none.
      max: upper bound that broadcasts against `arr`; None for none.

    Returns:
      An array of the broadcast shape, of the dtype to which array and bounds promote.

    Raises:
      ValueError: an operand is complex, or there is no array.

    >>> import xpr.numpy as jnp
    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("clip: no array was given.")
    arr = asarray_like(arr)
    if any(x is not None and aval_of(x).dtype in dtypes.COMPLEX for x in (arr, min, max)):
        raise ValueError(
            "clip: Complex values have no ordering and cannot be clipped. Clip the real and imaginary parts."
        )
    if min is not None:
        arr = maximum(arr, min)
    return arr if max is None else minimum(arr, max)


nextafter = float_binary(
    "nextafter",
    e.nextafter_p,
    """The next float after x on the way to y.

    Args:
      x: array of floats.
      y: floats that broadcast against `x`.

    Returns:
      Floats of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.nextafter(jnp.float32(0), 1)
    Array(1.e-45, dtype=float32)
    """,
)

"""Discrete Fourier transforms: `xpr.numpy.fft`.

Axes are truncated to the lengths asked for, or padded with zeros. `norm` says which transform divides by the number of
elements n: "backward" (the default, also None) the inverse, "forward" the forward one, "ortho" both, by sqrt(n).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.errors import ArgumentError
from xpr.numpy.arithmetic import divide, multiply
from xpr.numpy.axes import listed_axes
from xpr.numpy.complex_numbers import conj
from xpr.numpy.creation import asarray, to_device
from xpr.numpy.flip_roll_tile import roll
from xpr.numpy.promotion import asarray_like, convert, requested_dtype
from xpr.numpy.reshaping import moveaxis
from xpr.primitives import fft as primitives
from xpr.primitives.shapes import one_axis
from xpr.primitives.slicing import pad, slice_

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_OTHER_NORM = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
_OF_OTHER_AXES = {"FFT": "FFT", "IFFT": "IFFT", "RFFT": "FFT", "IRFFT": "IFFT"}


def _transformed(name: str, kind: str, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    """The transform along several axes; real transforms halve the last one."""
    _check_norm(name, norm)
    a = _operand(name, a, kind == "RFFT")
    shape = aval_of(a).shape
    axes, lengths = _axes_and_lengths(name, shape, s, axes, kind)
    if not axes or not all(lengths):
        return a
    input_lengths = [*lengths[:-1], lengths[-1] // 2 + 1] if kind == "IRFFT" else lengths
    a = _sized(a, dict(zip(axes, input_lengths)))
    groups = [(axes[max(0, i - 3) : i], lengths[max(0, i - 3) : i]) for i in range(len(axes), 0, -3)]
    steps = [(kind if i == 0 else _OF_OTHER_AXES[kind], *group) for i, group in enumerate(groups)]
    for step, step_axes, step_lengths in reversed(steps) if kind == "IRFFT" else steps:
        last = list(range(len(shape) - len(step_axes), len(shape)))
        if step_axes == last:
            a = primitives.fft(a, step, step_lengths)
        else:
            a = moveaxis(primitives.fft(moveaxis(a, step_axes, last), step, step_lengths), last, step_axes)
    return _normalized(a, math.prod(lengths), norm, "I" not in kind)


def _check_norm(name: str, norm: str | None) -> None:
    if norm not in _OTHER_NORM:
        raise ValueError(f'{name}: norm is "backward", "ortho", "forward" or None, and is {norm!r}.')


def _operand(name: str, a: Any, is_real: bool) -> Any:
    """The array in a dtype that can be transformed."""
    a = asarray_like(a)
    aval = aval_of(a)
    if is_real and aval.dtype in dtypes.COMPLEX:
        raise ValueError(f"{name}: takes real numbers, and was given {aval.str_short()}. Use fft for complex ones.")
    dtype = dtypes.to_inexact(aval.dtype)
    dtype = dtypes.float32 if dtype.itemsize < 4 else dtype
    return convert(a, dtype if is_real else dtypes.complex_of(dtype))


def _axes_and_lengths(name: str, shape: tuple[int, ...], s: Any, axes: Any, kind: str) -> tuple[list[int], list[int]]:
    """The axes, counted from the front, and the length of the transform along each."""
    ndim = len(shape)
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    axes = [one_axis(axis, ndim) for axis in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"jax.numpy.fft.{name} does not support repeated axes. Got axes {axes}. Name each axis once.")
    if s is None:
        lengths = [shape[axis] for axis in axes]
        if kind == "IRFFT" and lengths:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        lengths = list(map(operator.index, s))
    if len(lengths) != len(axes):
        raise ValueError(f"{name}: a length for each axis is needed; there are {len(lengths)} and {len(axes)}.")
    is_empty = s is None and "R" not in kind  # complex transforms over no axes return the operand
    if min(lengths, default=1) < (0 if is_empty else 1):
        raise ValueError(f"{name}: lengths must be positive, and those of an array of shape {shape} are {lengths}.")
    return axes, lengths


def _sized(a: Any, lengths: dict[int, int]) -> Any:
    """The array with axes truncated to lengths, or padded with zeros."""
    shape = aval_of(a).shape
    expected = [lengths.get(axis, n) for axis, n in enumerate(shape)]
    truncated = tuple(map(min, shape, expected))
    if truncated != shape:
        a = slice_(a, [0] * len(shape), truncated)
    missing = [(0, n - m, 0) for n, m in zip(expected, truncated)]
    return pad(a, aval_of(a).dtype.type(0), missing) if any(map(any, missing)) else a


def _normalized(x: Any, n: int, norm: str | None, is_forward: bool) -> Any:
    """The result divided as `norm` asks; inverses come divided by n."""
    power = {"ortho": 0.5, "forward": 1.0}.get(norm or "backward", 0.0)
    return multiply(x, float(n) ** (-power if is_forward else power)) if power else x


def _length(n: int | None) -> list[int] | None:
    return None if n is None else [operator.index(n)]


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis: element k is the sum of a_j exp(-2 pi i j k / n).

    Args:
      a: array of real or complex numbers.
      n: the length to which the axis is truncated or padded with zeros; None for its size.
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of length n along the axis.

    Raises:
      ValueError: there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fft(jnp.array([1.0, 0, 0, 0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _transformed("fft", "FFT", a, _length(n), _one("fft", axis), norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`: element j is the sum of a_k exp(2 pi i j k / n), over n.

    Args:
      a: array of real or complex numbers.
      n: the length to which the axis is truncated or padded with zeros; None for its size.
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of length n along the axis.

    Raises:
      ValueError: there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifft(jnp.ones(4)).real
    Array([1., 0., 0., 0.], dtype=float32)
    """
    return _transformed("ifft", "IFFT", a, _length(n), _one("ifft", axis), norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The first n // 2 + 1 elements of the `fft` of real numbers, which determine the others.

    Args:
      a: array of real numbers.
      n: the length to which the axis is truncated or padded with zeros; None for its size.
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of length n // 2 + 1 along the axis.

    Raises:
      ValueError: `a` is complex, there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfft(jnp.ones(4))
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    return _transformed("rfft", "RFFT", a, _length(n), _one("rfft", axis), norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`.

    Args:
      a: array of complex numbers, of length m along the axis.
      n: the length of the result; None for 2 (m - 1).
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Real numbers, of length n along the axis.

    Raises:
      ValueError: there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfft(jnp.array([4.0, 0.0, 0.0]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _transformed("irfft", "IRFFT", a, _length(n), _one("irfft", axis), norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The `fft` of n numbers whose second half is the first half conjugated and reversed; it is real.

    Args:
      a: the first half, of length m along the axis.
      n: the length of the result; None for 2 (m - 1).
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Real numbers, of length n along the axis.

    Raises:
      ValueError: there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.hfft(jnp.ones(3))
    Array([4., 0., 0., 0.], dtype=float32)
    """
    _check_norm("hfft", norm)
    return _transformed("hfft", "IRFFT", conj(asarray_like(a)), _length(n), _one("hfft", axis), _OTHER_NORM[norm])


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`: the first half of the spectrum of real numbers.

    Args:
      a: array of real numbers.
      n: the length to which the axis is truncated or padded with zeros; None for its size.
      axis: the axis.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of length n // 2 + 1 along the axis.

    Raises:
      ValueError: `a` is complex, there is no such axis or norm, or the length is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ihfft(jnp.ones(4)).real
    Array([1., 0., 0.], dtype=float32)
    """
    _check_norm("ihfft", norm)
    return conj(_transformed("ihfft", "RFFT", a, _length(n), _one("ihfft", axis), _OTHER_NORM[norm]))


def fftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The discrete Fourier transform along several axes.

    Args:
      a: array of real or complex numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the axes; None for all, or the last ones if there are lengths `s`.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there is no such axis or norm, an axis is named twice, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transformed("fftn", "FFT", a, s, axes, norm)


def ifftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`.

    Args:
      a: array of real or complex numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the axes; None for all, or the last ones if there are lengths `s`.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there is no such axis or norm, an axis is named twice, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifftn(jnp.ones((1, 2))).real
    Array([[1., 0.]], dtype=float32)
    """
    return _transformed("ifftn", "IFFT", a, s, axes, norm)


def rfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The `fftn` of real numbers, of which the last axis has its first n // 2 + 1 elements.

    Args:
      a: array of real numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the axes; None for all, or the last ones if there are lengths `s`.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes, the last one being n // 2 + 1.

    Raises:
      ValueError: `a` is complex, there is no such axis or norm, an axis is named twice, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfftn(jnp.ones((2, 4))).shape
    (2, 3)
    """
    return _transformed("rfftn", "RFFT", a, s, axes, norm)


def irfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`.

    Args:
      a: array of real or complex numbers.
      s: the length of the result along each axis; None for its size, 2 (m - 1) for the last one.
      axes: the axes; None for all, or the last ones if there are lengths `s`.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Real numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there is no such axis or norm, an axis is named twice, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfftn(jnp.ones((1, 2)))
    Array([[1., 0.]], dtype=float32)
    """
    return _transformed("irfftn", "IRFFT", a, s, axes, norm)


def fft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The discrete Fourier transform along two axes; see `fftn`.

    Args:
      a: array of real or complex numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the two axes.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there are not two axes, there is no such axis or norm, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fft2(jnp.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return _transformed("fft2", "FFT", a, s, _two("fft2", axes), norm)


def ifft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft2`; see `ifftn`.

    Args:
      a: array of real or complex numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the two axes.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there are not two axes, there is no such axis or norm, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifft2(jnp.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return _transformed("ifft2", "IFFT", a, s, _two("ifft2", axes), norm)


def rfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The `fft2` of real numbers, of which the last axis has its first n // 2 + 1 elements; see `rfftn`.

    Args:
      a: array of real numbers.
      s: the length for each axis, to which it is truncated or padded with zeros; None for its size.
      axes: the two axes.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Complex numbers, of the lengths `s` along the axes, the last one being n // 2 + 1.

    Raises:
      ValueError: `a` is complex, there are not two axes, there is no such axis or norm, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfft2(jnp.ones((3, 2, 4))).shape
    (3, 2, 3)
    """
    return _transformed("rfft2", "RFFT", a, s, _two("rfft2", axes), norm)


def irfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `rfft2`; see `irfftn`.

    Args:
      a: array of real or complex numbers.
      s: the length of the result along each axis; None for its size, 2 (m - 1) for the last one.
      axes: the two axes.
      norm: which transform divides by n: "backward" (or None) the inverse, "forward" the forward one, "ortho" both, by
        sqrt(n).

    Returns:
      Real numbers, of the lengths `s` along the axes.

    Raises:
      ValueError: there are not two axes, there is no such axis or norm, or lengths don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfft2(jnp.ones((3, 2, 3))).shape
    (3, 2, 4)
    """
    return _transformed("irfft2", "IRFFT", a, s, _two("irfft2", axes), norm)


def _one(name: str, axis: int) -> Sequence[int]:
    if isinstance(axis, (list, tuple)):
        of_several = f"jax.numpy.fft.{name}n" if name in ("fft", "ifft", "rfft", "irfft") else "fftn and its relatives"
        raise ArgumentError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use {of_several}. Got axis = {axis}."
        )
    return (axis,)


def _two(name: str, axes: Sequence[int]) -> Sequence[int]:
    if len(axes) != 2:
        raise ValueError(
            f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}. For others there is {name[:-1]}n."
        )
    return axes


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the elements of an `fft` of n numbers, in cycles per unit of the sample spacing.

    Args:
      n: the number of samples.
      d: the sample spacing.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.

    Returns:
      A vector [n].

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftfreq(4, 0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    n = _samples("fftfreq", n)
    return _frequencies("fftfreq", np.roll(np.arange(-(n // 2), n - n // 2), -(n // 2)), n, d, dtype, device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the elements of an `rfft` of n numbers, in cycles per unit of the sample spacing.

    Args:
      n: the number of samples.
      d: the sample spacing.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.

    Returns:
      A vector [n // 2 + 1].

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = _samples("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device)


def _samples(name: str, n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError:
        if isinstance(n, Tracer):
            raise
        raise ArgumentError(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {n!r}. It is the number of samples."
        ) from None


def _frequencies(name: str, cycles: np.ndarray, n: int, d: Any, dtype: Any, device: Any) -> Any:
    dtype = dtypes.of_python(float) if dtype is None else requested_dtype(dtype)
    if isinstance(d, (list, tuple)):
        raise ArgumentError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {d}. It is the sample spacing."
        )
    if not isinstance(d, (int, float)):
        d = asarray_like(d)
    return to_device(divide(asarray(cycles, dtype), multiply(d, n or 1)), device)


@compiled_eagerly("axes")
def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """The elements shifted so that frequency 0 is in the middle of each axis.

    Args:
      x: an array.
      axes: the axis or axes; None for all.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted(x, axes, 1)


@compiled_eagerly("axes")
def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`.

    Args:
      x: an array.
      axes: the axis or axes; None for all.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifftshift(jnp.array([-1, 0, 1]))
    Array([ 0,  1, -1], dtype=int32)
    """
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: int | Sequence[int] | None, sign: int) -> Any:
    x = asarray_like(x)
    shape = aval_of(x).shape
    shifted_axes = range(len(shape)) if axes is None else [one_axis(i, len(shape)) for i in listed_axes(axes)]
    return roll(x, [sign * (shape[axis] // 2) for axis in shifted_axes], shifted_axes)

"""fft: discrete Fourier transforms along the last axes, one to three of them.

With N elements along an axis, FFT gives Y_k = sum_j X_j exp(-2 pi i j k / N), IFFT the inverse of it. RFFT is the FFT
of real numbers; along the last axis it gives the first N // 2 + 1 elements, which determine the others. IRFFT is its
inverse.

All are linear. The matrices of FFT and IFFT are symmetric, so each is its own transpose. That of RFFT fills up with
zeros what it omitted, and takes the real part of an FFT. That of IRFFT is an RFFT, conjugated and divided by N, in
which what represents two elements counts twice.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of
from xpr.errors import ArgumentError
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, structural, to_front
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import pad

__all__ = ["fft", "fft_p", "FftType"]


class FftType(enum.IntEnum):
    """The kinds of transforms that `lax.fft` knows."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _abstract(aval: ShapedArray, *, fft_type: str, fft_lengths: tuple[int, ...]) -> ShapedArray:
    k = len(fft_lengths)
    if k > aval.ndim:
        raise ArgumentError(
            f"fft: FFT input shape {aval.shape} must have at least as many input dimensions as fft_lengths "
            f"{fft_lengths}, which are the sizes of its last axes."
        )
    batch, last = aval.shape[: aval.ndim - k], aval.shape[aval.ndim - k :]
    if not 1 <= k <= 3 or min(fft_lengths) < 1:
        raise ArgumentError(
            f"fft: fft_lengths are the positive sizes of one to three last axes of the array, which is "
            f"{aval.str_short()}, and are {fft_lengths}."
        )
    wanted = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1) if fft_type == "IRFFT" else fft_lengths
    if last != wanted:
        raise ArgumentError(
            f"fft: {fft_type} of lengths {fft_lengths} takes last axes {wanted}, not {aval.str_short()}."
        )
    if aval.dtype not in ({dtypes.float32, dtypes.float64} if fft_type == "RFFT" else dtypes.COMPLEX):
        kind = "real numbers, f32 or f64" if fft_type == "RFFT" else "complex numbers"
        raise ArgumentError(f"fft: {fft_type} takes {kind}, not {aval.str_short()}. Convert them.")
    if fft_type == "RFFT":
        shape, dtype = (*batch, *fft_lengths[:-1], fft_lengths[-1] // 2 + 1), dtypes.complex_of(aval.dtype)
    elif fft_type == "IRFFT":
        shape, dtype = (*batch, *fft_lengths), dtypes.real_part_of(aval.dtype)
    else:
        shape, dtype = aval.shape, aval.dtype
    return ShapedArray(shape, dtype)


_IN_NUMPY = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}


def _reference(x: Any, *, fft_type: str, fft_lengths: tuple[int, ...]) -> Any:
    x = np.asarray(x)
    out = getattr(np.fft, _IN_NUMPY[fft_type])(x, fft_lengths, range(-len(fft_lengths), 0))
    wide = x.dtype in (dtypes.float64, dtypes.complex128)
    return out if wide else out.astype(np.float32 if fft_type == "IRFFT" else np.complex64)


def _lower(b: Builder, x: Value, aval: ShapedArray, *, fft_type: str, fft_lengths: tuple[int, ...]) -> Value:
    properties = f"fft_length = {int_array(fft_lengths)}, fft_type = #stablehlo<fft_type {fft_type}>"
    transformed = range(aval.ndim - len(fft_lengths), aval.ndim)
    return b.whole(b.op("stablehlo.fft", [b.whole(x, transformed)], aval, properties), transformed)


def _transpose(ct: Any, aval: ShapedArray, *, fft_type: str, fft_lengths: tuple[int, ...]) -> Any:
    if fft_type == "RFFT":
        missing = fft_lengths[-1] - aval_of(ct).shape[-1]
        zero = np.zeros((), aval_of(ct).dtype)[()]
        padded = pad(ct, zero, [(0, 0, 0)] * (aval.ndim - 1) + [(0, missing, 0)])
        return e.real(fft(padded, "FFT", fft_lengths))
    if fft_type == "IRFFT":
        spectrum = e.conj(fft(ct, "RFFT", fft_lengths))
        counted = np.full(aval.shape[-1], 2.0 / math.prod(fft_lengths))
        counted[0] /= 2
        if fft_lengths[-1] % 2 == 0:
            counted[-1] /= 2
        return e.mul(spectrum, broadcast_in_dim(counted.astype(aval.dtype), aval.shape, (aval.ndim - 1,)))
    return fft(ct, fft_type, fft_lengths)


def _flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, fft_lengths: Any, **params: Any) -> int:
    """5 n log2(n), the usual count for the algorithm of Cooley and Tukey (1965)."""
    size = max(operands[0].size, results[0].size)
    return math.ceil(5 * size * math.log2(max(2, math.prod(fft_lengths))))


fft_p = structural(
    "fft",
    abstract=_abstract,
    reference=_reference,
    lower=_lower,
    transpose=_transpose,
    batch=lambda size, x, dim, *, fft_type, fft_lengths: (fft(to_front(x, dim), fft_type, fft_lengths), 0),
    exact=False,
    flops=_flops,
    sharding=lambda aval, out, *, fft_lengths, **params: batched_sharding(len(fft_lengths))([aval], [out])[0],
)


def _in_dtype_of_transform(x: Any, fft_type: str) -> Any:
    """The operand in a dtype that the transform takes: integers as floats, real numbers as complex ones if need be."""
    dtype = dtypes.to_inexact(aval_of(x).dtype)
    dtype = dtype if fft_type == "RFFT" else dtypes.complex_of(dtype)
    return x if dtype == aval_of(x).dtype else e.convert_element_type(x, dtype)


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """The discrete Fourier transform along the last axes.

    Args:
      x: numbers, which are converted to complex ones; float32 or float64 for RFFT.
      fft_type: "FFT", "IFFT", "RFFT" or "IRFFT", or an `FftType`.
      fft_lengths: the sizes of the last one to three axes; of those of the result, for IRFFT. Of none, the operand is
        the result.

    Returns:
      Complex numbers; real ones for IRFFT.

    Raises:
      ArgumentError: shape or dtype don't fit.
      ValueError: there is no such transform.
      TypeError: `fft_type` is no text and no `FftType`.

    >>> from xpr import lax, numpy as jnp
    >>> lax.fft(jnp.array([1.0, 0, 0, 0]), "RFFT", (4,))
    Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    name = fft_type.name if isinstance(fft_type, FftType) else str(fft_type).upper()
    if name not in _IN_NUMPY:
        error = ValueError if isinstance(fft_type, str) else TypeError
        raise error(f"fft: fft_type is FFT, IFFT, RFFT or IRFFT, and is {fft_type!r}.")
    x = _in_dtype_of_transform(x, name)
    return fft_p.bind(x, fft_type=name, fft_lengths=tuple(map(int, fft_lengths))) if len(fft_lengths) else x

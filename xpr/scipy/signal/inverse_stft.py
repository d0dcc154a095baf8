"""The inverse of the short-time Fourier transform, by adding overlapping segments.

D. Griffin and J. Lim, Signal estimation from modified short-time Fourier transform, 1984.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.numpy.axes import one_axis
from xpr.scipy.signal.spectra import along_last, segments_of


def _overlapped(segments: Any, step: int) -> Any:
    """The sum of segments [..., count, size], each one `step` further than the one before.

    They are split into blocks of `step` elements, and what block b of segment t adds to is block t + b. With as many
    blocks of zeros behind each row of blocks b, splitting all of them into rows that are one shorter moves row b by b.
    """
    *stack, count, size = segments.shape
    blocks = -(-size // step)
    filled = jnp.pad(segments, [(0, 0)] * (len(stack) + 1) + [(0, blocks * step - size)])
    by_block = jnp.swapaxes(filled.reshape(*stack, count, blocks, step), -3, -2)
    rows = jnp.pad(by_block, [(0, 0)] * (len(stack) + 1) + [(0, blocks), (0, 0)]).reshape(*stack, -1, step)
    width = count + blocks - 1
    moved = rows[..., : blocks * width, :].reshape(*stack, blocks, width * step)
    return jnp.sum(moved, -2)[..., : (count - 1) * step + size]


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """The signal of a short-time Fourier transform.

    Where the windows of all segments are 0, so is the signal.

    Args:
      Zxx: transforms of segments.
      fs: the sampling frequency.
      window: that of `stft`.
      nperseg: the length of a segment; None for the one that the number of frequencies implies.
      noverlap: how many elements two segments share; None for half of one.
      nfft: the length of transforms; None for the one that the number of frequencies implies.
      input_onesided: whether negative frequencies are left out.
      boundary: whether the signal was continued by half a segment at both ends.
      time_axis: the axis of segments.
      freq_axis: the axis of frequencies.

    Returns:
      `(times, signal)`.

    Raises:
      ValueError: the arguments don't fit to each other.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> _, _, transforms = signal.stft(jnp.arange(32.0), nperseg=8)
    >>> signal.istft(transforms, nperseg=8)[1][:4].round(4)
    Array([0., 1., 2., 3.], dtype=float32)
    """
    Zxx = jnp.asarray(Zxx)
    if Zxx.ndim < 2:
        raise ValueError(f"istft: takes an axis of frequencies and one of segments, and got {Zxx.aval.str_short()}.")
    time_axis, freq_axis = one_axis(time_axis, Zxx.ndim), one_axis(freq_axis, Zxx.ndim)
    if time_axis == freq_axis:
        raise ValueError(f"istft: axis {time_axis} can't be that of frequencies and that of segments.")
    spectra = jnp.moveaxis(Zxx.astype(np.result_type(Zxx.dtype, np.complex64)), (time_axis, freq_axis), (-2, -1))
    count = spectra.shape[-1]
    implied = 2 * (count - 1) if input_onesided else count
    size = nperseg or implied
    if nfft is None:
        nfft = implied + 1 if input_onesided and size == implied + 1 else implied
    inverse = jnp.fft.irfft if input_onesided else jnp.fft.ifft
    segments = inverse(spectra, nfft)
    layout = segments_of("istft", window, size, noverlap or size // 2, nfft, size, segments.dtype)
    window = layout.window.astype(segments.dtype)
    segments = segments[..., : layout.size] * along_last(window * jnp.sum(window), segments.ndim)
    squares = jnp.broadcast_to(along_last(window * window, 2), segments.shape[-2:])
    x, norm = _overlapped(segments, layout.step), _overlapped(squares, layout.step)
    if boundary:
        half = layout.size // 2
        x, norm = x[..., half : x.shape[-1] - half], norm[..., half : norm.shape[-1] - half]
    x = x / along_last(jnp.where(jnp.abs(norm) > 1e-10, norm, 1), x.ndim)
    x = jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return jnp.arange(x.shape[0], dtype=dtypes.real_part_of(x.dtype)) / fs, x

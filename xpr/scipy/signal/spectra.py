"""Spectra of short segments of signals: the short-time Fourier transform, and power spectra by Welch's method.

P. Welch, The use of the fast Fourier transform for the estimation of power spectra, 1967.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.notices import warn
from xpr.numpy.axes import one_axis
from xpr.numpy.promotion import promote_inexact
from xpr.scipy.signal.detrending import detrend as without_trend
from xpr.scipy.signal.windows import window_of


class Segments(NamedTuple):
    """How a signal is split: the window, the length of a segment, the overlap of two, and the length of transforms."""

    window: Any
    size: int
    overlap: int
    transform: int

    @property
    def step(self) -> int:
        return self.size - self.overlap


def segments_of(
    name: str, window: Any, nperseg: int | None, noverlap: int | None, nfft: int | None, length: int, dtype: Any
) -> Segments:
    """The segments of a signal of so many elements and of a dtype, which is that of windows by name.

    Raises:
      ValueError: they don't fit to each other or to the signal.
    """
    size = None if nperseg is None else operator.index(nperseg)
    if size is not None and size < 1:
        raise ValueError(f"{name}: nperseg is 1 or more, and is {size}.")
    if isinstance(window, (str, tuple)):
        if size is not None and size > length:
            warn(f"{name}: nperseg={size} is reduced to the length of the signal, {length}.", stacklevel=4)
        size = min(256 if size is None else size, length)
        values = jnp.asarray(window_of(window, size).astype(dtype))
    else:
        values = jnp.asarray(window)
        size = values.size if size is None else size
        if values.ndim != 1 or values.size > length or values.size != size:
            raise ValueError(
                f"{name}: a window is a vector of nperseg elements, at most {length}, and {values.aval.str_short()} "
                f"was given for nperseg={nperseg}."
            )
    overlap = size // 2 if noverlap is None else operator.index(noverlap)
    transform = size if nfft is None else operator.index(nfft)
    if overlap >= size:
        raise ValueError(f"{name}: noverlap is less than nperseg, {size}, and is {overlap}.")
    if transform < size:
        raise ValueError(f"{name}: nfft is nperseg, {size}, or more, and is {transform}.")
    return Segments(values, size, overlap, transform)


def along_last(vector: Any, ndim: int) -> Any:
    """A vector as an array of so many axes, along the last one."""
    return vector.reshape(*[1] * (ndim - 1), -1)


_PADS: dict[str, dict[str, Any]] = {
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"},
}


def _extended(name: str, x: Any, boundary: str | None, padded: bool, layout: Segments) -> Any:
    """The signal with half a segment more at both ends, and filled with zeros for a whole number of segments."""
    if boundary is not None and boundary not in _PADS:
        raise ValueError(f"{name}: boundary is {', '.join(map(repr, _PADS))} or None, and not {boundary!r}.")
    none = [(0, 0)] * (x.ndim - 1)
    half = layout.size // 2
    if boundary is not None and half:
        if boundary in ("even", "odd") and half >= x.shape[-1]:
            raise ValueError(f"{name}: {x.shape[-1]} elements are too few to reflect {half} of them at the ends.")
        x = jnp.pad(x, [*none, (half, half)], **_PADS[boundary])
    if padded:
        x = jnp.pad(x, [*none, (0, -(x.shape[-1] - layout.size) % layout.step % layout.size)])
    return x


def _transformed(x: Any, layout: Segments, detrend: Any, onesided: bool) -> Any:
    """The Fourier transforms of the windowed segments, [..., segments, frequencies]."""
    starts = np.arange(0, x.shape[-1] - layout.size + 1, layout.step)
    segments = x[..., starts[:, None] + np.arange(layout.size)]
    if isinstance(detrend, str):
        segments = without_trend(segments, type=detrend)
    elif callable(detrend):
        segments = detrend(segments)
    elif detrend:
        raise ValueError(f"detrend is 'constant', 'linear', False or a function, and not {detrend!r}.")
    windowed = segments * along_last(layout.window, segments.ndim).astype(jnp.result_type(segments, layout.window))
    return jnp.fft.rfft(windowed.real, layout.transform) if onesided else jnp.fft.fft(windowed, layout.transform)


def _spectra(
    name: str,
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    power: bool,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Any, Any, Any]:
    """Frequencies, times, and transforms of segments or their products, with frequencies along `axis`, times last."""
    x, other = map(jnp.asarray, promote_inexact(x, x if y is None else y))
    axis = one_axis(axis, x.ndim)
    if x.ndim != other.ndim:
        types = f"{x.aval.str_short()} and {other.aval.str_short()}"
        raise ValueError(f"{name}: takes signals of the same number of axes, and got {types}.")
    result_dtype = np.result_type(x.dtype, np.complex64)
    real = dtypes.real_part_of(result_dtype)
    signals = [jnp.moveaxis(signal, axis, -1) for signal in ([x] if y is None else [x, other])]
    length = max(signal.shape[-1] for signal in signals)
    stack = jnp.broadcast_shapes(*[signal.shape[:-1] for signal in signals])
    if not all(signal.size for signal in signals):
        shape = (*stack[:axis], min(signal.shape[-1] for signal in signals), *stack[axis:])
        return jnp.zeros(shape, real), jnp.zeros(shape, real), jnp.zeros(shape, result_dtype)
    signals = [jnp.pad(signal, [(0, 0)] * len(stack) + [(0, length - signal.shape[-1])]) for signal in signals]
    layout = segments_of(name, window, nperseg, noverlap, nfft, length, x.dtype)
    onesided = return_onesided and not (jnp.iscomplexobj(x) or jnp.iscomplexobj(layout.window))
    if return_onesided and not onesided:
        warn(f"{name}: signals are complex, so spectra are two-sided.", stacklevel=3)
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"{name}: scaling is 'density' or 'spectrum', and not {scaling!r}.")
    total = jnp.sum(layout.window**2) * fs if scaling == "density" else jnp.sum(layout.window) ** 2

    signals = [_extended(name, signal, boundary, padded, layout) for signal in signals]
    spectra = [_transformed(signal, layout, detrend, onesided) for signal in signals]
    if power:
        out = _products(spectra[0], spectra[-1], total, layout.transform if onesided else None)
    else:
        out = spectra[0] / jnp.sqrt(total).astype(spectra[0].dtype)
    bins = np.fft.rfftfreq(layout.transform) if onesided else np.fft.fftfreq(layout.transform)
    half = layout.size / 2
    middles = np.arange(half, signals[0].shape[-1] - half + 1, layout.step) - (half if boundary is not None else 0)
    frequencies, times = jnp.asarray(bins.astype(real)) * fs, jnp.asarray(middles.astype(real)) / fs
    return frequencies, times, jnp.moveaxis(out.astype(result_dtype), -1, axis)


def _products(one: Any, two: Any, total: Any, length: int | None) -> Any:
    """The products of two signals' spectra by frequency over the power of the window, `total`.

    One-sided ones, of transforms of `length` elements, stand for the negative frequencies too, but for the first and
    that of half the rate; two-sided ones have no `length`.
    """
    out = jnp.conj(one) * two / jnp.asarray(total).astype(one.dtype)
    if length is None:
        return out
    weights = np.full(out.shape[-1], 2.0)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return out * along_last(weights.astype(out.dtype), out.ndim)


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """The Fourier transforms of overlapping segments of a signal.

    Args:
      x: the signal, along `axis`.
      fs: the sampling frequency.
      window: a name, a tuple of a name and parameters, or a vector.
      nperseg: the length of a segment.
      noverlap: how many elements two segments share; None for half of one.
      nfft: the length of transforms, for which segments are filled with zeros; None for that of a segment.
      detrend: "constant", "linear", or a function of segments along the last axis; False for none.
      return_onesided: whether to leave out negative frequencies, of real signals.
      boundary: how the signal is continued by half a segment at both ends: "zeros", "even", "odd" or "constant"; None
        for not at all.
      padded: whether zeros are put behind the signal for a whole number of segments.
      axis: the axis of time.

    Returns:
      `(frequencies, times of segments, transforms)`; these have frequencies along `axis`, and segments along a new last
      axis.

    Raises:
      ValueError: the arguments don't fit to each other or to the signal.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> frequencies, times, transforms = signal.stft(jnp.ones(32), nperseg=8)
    >>> transforms.shape
    (5, 9)
    """
    return _spectra(
        "stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, False,
        boundary, padded,
    )  # fmt: skip


def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The cross power spectral density of two signals, by Welch's method.

    Args:
      x: the first signal, along `axis`.
      y: the second signal, of which other axes broadcast; the shorter one is filled with zeros. None for `x`.
      fs: the sampling frequency.
      window: a name, a tuple of a name and parameters, or a vector.
      nperseg: the length of a segment; None for that of the window, or 256.
      noverlap: how many elements two segments share; None for half of one.
      nfft: the length of transforms, for which segments are filled with zeros; None for that of a segment.
      detrend: "constant", "linear", or a function of segments along the last axis; False for none.
      return_onesided: whether to leave out negative frequencies, of real signals.
      scaling: "density" for power by frequency, "spectrum" for power.
      axis: the axis of time.
      average: "mean" or "median", of segments.

    Returns:
      `(frequencies, spectrum)`, with frequencies along `axis`.

    Raises:
      ValueError: the arguments don't fit to each other or to the signals.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> x = jnp.sin(jnp.arange(64.0))
    >>> frequencies, spectrum = signal.csd(x, 2 * x, nperseg=16)
    >>> float(frequencies[jnp.argmax(jnp.abs(spectrum))])
    0.1875
    """
    if average not in ("mean", "median"):
        raise ValueError(f"csd: average is 'mean' or 'median', and not {average!r}.")
    frequencies, _, products = _spectra(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, True
    )
    if y is None:
        products = products.real
    if products.ndim >= 2 and products.size:
        products = _median(products) if average == "median" else jnp.mean(products, -1)
    return frequencies, products


def _median(x: Any) -> Any:
    """The median along the last axis over its bias to the mean (B. Allen et al., FINDCHIRP, 2012, appendix B)."""
    even = np.arange(2.0, x.shape[-1], 2)
    bias = 1 + np.sum(1 / (even + 1) - 1 / even)
    if jnp.iscomplexobj(x):
        return (jnp.median(x.real, -1) + 1j * jnp.median(x.imag, -1)) / bias
    return jnp.median(x, -1) / bias


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The power spectral density of a signal, by Welch's method: the mean over overlapping segments.

    Args:
      x: the signal, along `axis`.
      fs: the sampling frequency.
      window: a name, a tuple of a name and parameters, or a vector.
      nperseg: the length of a segment; None for that of the window, or 256.
      noverlap: how many elements two segments share; None for half of one.
      nfft: the length of transforms, for which segments are filled with zeros; None for that of a segment.
      detrend: "constant", "linear", or a function of segments along the last axis; False for none.
      return_onesided: whether to leave out negative frequencies, of real signals.
      scaling: "density" for power by frequency, "spectrum" for power.
      axis: the axis of time.
      average: "mean" or "median", of segments.

    Returns:
      `(frequencies, spectrum)`, with frequencies along `axis`.

    Raises:
      ValueError: the arguments don't fit to each other or to the signal.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> frequencies, spectrum = signal.welch(jnp.sin(jnp.arange(64.0)), nperseg=16)
    >>> float(frequencies[jnp.argmax(spectrum)])
    0.1875
    """
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )  # fmt: skip

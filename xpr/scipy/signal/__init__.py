"""Signals: convolution and correlation in any number of dimensions, trends, and spectra of short segments."""

from xpr.scipy.signal.convolutions import convolve, convolve2d, correlate, correlate2d, fftconvolve
from xpr.scipy.signal.detrending import detrend
from xpr.scipy.signal.inverse_stft import istft
from xpr.scipy.signal.spectra import csd, stft, welch

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip

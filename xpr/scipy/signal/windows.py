"""Windows of segments by SciPy's names, periodic: the last element of a symmetric window of one more is left out.

Sums of cosines: A. Nuttall, Some windows with very good sidelobe behavior, 1981; F. Harris, On the use of windows for
harmonic analysis with the discrete Fourier transform, 1978.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _triang(n: int) -> np.ndarray:
    below = np.arange(1, (n + 1) // 2 + 1)
    half = (2 * below - 1) / n if n % 2 == 0 else 2 * below / (n + 1)
    return np.concatenate([half, half[: n // 2][::-1]])


def _bartlett(n: int) -> np.ndarray:
    return 1 - np.abs(np.linspace(-1, 1, n))


def _cosine(n: int) -> np.ndarray:
    return np.sin(math.pi / n * (np.arange(n) + 0.5))


def _bohman(n: int) -> np.ndarray:
    x = np.abs(np.linspace(-1, 1, n))
    out = (1 - x) * np.cos(math.pi * x) + np.sin(math.pi * x) / math.pi
    out[[0, -1]] = 0
    return out


def _parzen(n: int) -> np.ndarray:
    x = np.abs(np.arange(n) - (n - 1) / 2) / (n / 2)
    return np.where(x <= 0.5, 1 - 6 * x**2 + 6 * x**3, 2 * (1 - x) ** 3)


def _gaussian(n: int, std: float) -> np.ndarray:
    return np.exp(-0.5 * ((np.arange(n) - (n - 1) / 2) / std) ** 2)


def _general_gaussian(n: int, power: float, width: float) -> np.ndarray:
    return np.exp(-0.5 * np.abs((np.arange(n) - (n - 1) / 2) / width) ** (2 * power))


def _general_hamming(n: int, alpha: float) -> np.ndarray:
    return alpha - (1 - alpha) * np.cos(np.linspace(0, 2 * math.pi, n))


def _tukey(n: int, alpha: float = 0.5) -> np.ndarray:
    if alpha <= 0:
        return np.ones(n)
    distance = np.minimum(np.arange(n), np.arange(n)[::-1]) / (min(alpha, 1.0) * (n - 1) / 2)
    return np.where(distance < 1, 0.5 * (1 - np.cos(math.pi * distance)), 1.0)


_WINDOWS: dict[str, Callable[..., np.ndarray]] = {
    "triang": _triang, "bartlett": _bartlett, "cosine": _cosine, "bohman": _bohman, "parzen": _parzen,
    "gaussian": _gaussian, "general_gaussian": _general_gaussian, "general_hamming": _general_hamming,
    "kaiser": np.kaiser, "tukey": _tukey,
}  # fmt: skip


def _of_cosines(name: str) -> Callable[[int], np.ndarray]:
    def window(n: int) -> np.ndarray:
        turns = np.linspace(-math.pi, math.pi, n)
        return np.asarray(sum(a * np.cos(k * turns) for k, a in enumerate(_COSINES[name])))

    return window


_WINDOWS |= {name: _of_cosines(name) for name in _COSINES}


def window_of(window: Any, size: int) -> np.ndarray:
    """The periodic window of a name, or of a name with parameters, in float64.

    Raises:
      ValueError: there is no such window, or it needs other parameters.
    """
    name, *parameters = window if isinstance(window, tuple) else (window,)
    if name not in _WINDOWS:
        raise ValueError(f"The windows are {', '.join(sorted(_WINDOWS))}, or an array, and {name!r} is none of them.")
    if size == 1:
        return np.ones(1)
    try:
        return _WINDOWS[name](size + 1, *parameters)[:-1]
    except TypeError:
        raise ValueError(
            f"The window {name!r} is given as a tuple of its name and its parameters, and was given as {window!r}."
        ) from None

"""Window functions for spectral analysis, and the Bessel function i0, which the Kaiser window needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy import arithmetic, creation
from xpr.numpy.promotion import promote_dtypes, promote_inexact
from xpr.primitives.smooth import bessel_i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]


def _window(function: Callable[[int], np.ndarray], M: int) -> Any:
    """A window computed on the host by NumPy, as it depends on static arguments only."""
    return creation.asarray(function(int(M)).astype(dtypes.of_python(float)))


def hamming(M: int) -> Any:
    """The Hamming window of M points, 0.54 - 0.46 cos(2 pi n / (M - 1)).

    >>> import xpr.numpy as jnp
    >>> jnp.hamming(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window(np.hamming, M)


def hanning(M: int) -> Any:
    """The Hann window of M points, 0.5 - 0.5 cos(2 pi n / (M - 1)).

    >>> import xpr.numpy as jnp
    >>> jnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window(np.hanning, M)


def bartlett(M: int) -> Any:
    """The triangular window of M points, 0 at the ends.

    >>> import xpr.numpy as jnp
    >>> jnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window(np.bartlett, M)


def blackman(M: int) -> Any:
    """The Blackman window of M points, 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).

    >>> import xpr.numpy as jnp
    >>> jnp.blackman(3)[1]
    Array(1., dtype=float32)
    """
    return _window(np.blackman, M)


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of M points, I0(beta sqrt(1 - (2n / (M - 1) - 1)^2)) / I0(beta).

    Args:
      M: the number of points.
      beta: the shape parameter.

    Returns:
      A vector [M] of floats.

    >>> import xpr.numpy as jnp
    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    M = int(M)
    dtype = dtypes.of_python(float)
    if M <= 1:
        return creation.ones(max(M, 0), dtype)
    height = np.sqrt(1 - np.linspace(-1, 1, M) ** 2).astype(dtype)
    beta, height = promote_dtypes(beta, creation.asarray(height))
    return arithmetic.true_divide(i0(arithmetic.multiply(beta, height)), i0(beta))


@compiled_eagerly()
def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0.

    Raises:
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    if aval_of(x).dtype not in dtypes.FLOATS:
        raise ArgumentError(f"i0: takes real numbers, and got {aval_of(x).str_short()}.")
    return bessel_i0(x)

"""Cosine transforms: `xpr.scipy.fft`, with SciPy's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.numpy.axes import reduced_axes
from xpr.primitives.elementwise import complex_
from xpr.primitives.shapes import shape_of

__all__ = ["dct", "dctn", "idct", "idctn"]


def _check(name: str, kind: int, norm: str | None) -> None:
    if kind != 2:
        raise NotImplementedError(f"{name}: only the transform of type 2 is there, and type={kind} was asked for.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{name}: norm must be None, 'backward' or 'ortho', and is {norm!r}.")


def _resized(x: Any, n: int | None, axis: int) -> Any:
    """The array truncated, or padded with zeros, to a size along an axis."""
    if n is None or n == x.shape[axis]:
        return x
    if n < x.shape[axis]:
        return jnp.take(x, jnp.arange(n), axis=axis)
    return jnp.pad(x, [(0, n - x.shape[axis] if i == axis % x.ndim else 0) for i in range(x.ndim)])


def _orthonormal(size: int, dtype: Any) -> np.ndarray:
    """The factor by which the transform becomes orthonormal."""
    factors = np.full(size, math.sqrt(1 / (2 * size)))
    factors[:1] = math.sqrt(1 / (4 * size))
    return factors.astype(dtype)


@compiled_eagerly("type", "n", "axis")
def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete cosine transform of type 2: y_k = 2 sum_j x_j cos(pi k (2 j + 1) / (2 n)).

    Computed by one complex Fourier transform of the same size (J. Makhoul, 1980).

    Args:
      x: array of real or complex numbers, whose parts are transformed alike.
      type: 2.
      n: the size along the axis; the array is truncated, or padded with zeros.
      axis: the axis.
      norm: None or "backward" as above; "ortho" for the orthonormal transform.

    Returns:
      An array of the same shape, but for `n`.

    Raises:
      NotImplementedError: another type.
      ValueError: no such norm.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import fft
    >>> fft.dct(jnp.array([1.0, 2.0, 3.0]))
    Array([12.       , -3.4641016,  0.       ], dtype=float32)
    """
    _check("dct", type, norm)
    x = jnp.asarray(x)
    if jnp.iscomplexobj(x):
        return complex_(*(dct(part, type, n, axis, norm) for part in (x.real, x.imag)))
    x = jnp.moveaxis(_resized(x, n, axis), axis, -1)
    x = x.astype(dtypes.to_inexact(x.dtype))
    size = x.shape[-1]
    order = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)[::-1]])
    turned = jnp.fft.fft(x[..., order]) * np.exp(-0.5j * np.pi * np.arange(size) / size).astype(_complex(x))
    y = 2 * turned.real
    if norm == "ortho":
        y = y * _orthonormal(size, y.dtype)
    return jnp.moveaxis(y, -1, axis)


def _complex(x: Any) -> Any:
    return np.complex128 if x.dtype == np.float64 else np.complex64


@compiled_eagerly("type", "n", "axis")
def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `dct`, of the same arguments.

    Args:
      x: array of real or complex numbers, whose parts are transformed alike.
      type: 2.
      n: the size along the axis; the array is truncated, or padded with zeros.
      axis: the axis.
      norm: as for `dct`.

    Returns:
      An array of the same shape, but for `n`.

    Raises:
      NotImplementedError: another type.
      ValueError: no such norm.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import fft
    >>> fft.idct(jnp.array([12.0, -3.4641016, 0.0])).round(4)
    Array([1., 2., 3.], dtype=float32)
    """
    _check("idct", type, norm)
    y = jnp.asarray(x)
    if jnp.iscomplexobj(y):
        return complex_(*(idct(part, type, n, axis, norm) for part in (y.real, y.imag)))
    y = jnp.moveaxis(_resized(y, n, axis), axis, -1)
    y = y.astype(dtypes.to_inexact(y.dtype))
    size = y.shape[-1]
    if norm == "ortho":
        y = y / _orthonormal(size, y.dtype)
    mirrored = jnp.concatenate([jnp.zeros_like(y[..., :1]), y[..., :0:-1]], -1)
    turned = 0.5 * (y - 1j * mirrored) * np.exp(0.5j * np.pi * np.arange(size) / size).astype(_complex(y))
    ordered = jnp.fft.ifft(turned).real
    half = (size + 1) // 2
    order = np.empty(size, int)
    order[0::2], order[1::2] = np.arange(half), np.arange(half, size)[::-1]
    return jnp.moveaxis(ordered[..., order], -1, axis)


def _along(transform: Any, name: str, x: Any, s: Any, axes: Any, kind: int, norm: str | None) -> Any:
    x = jnp.asarray(x)
    sizes = None if s is None else shape_of(s)
    if sizes is not None and axes is None:
        if len(sizes) > x.ndim:
            raise ValueError(f"{name}: s must have at most x.ndim ({x.ndim}) elements, and has {len(sizes)}: {sizes}.")
        axes = range(x.ndim - len(sizes), x.ndim)
    axes = reduced_axes(axes, x.ndim)
    if sizes is not None and len(sizes) != len(axes):
        raise ValueError(f"{name}: a size for each axis is needed; s is {sizes}, and axes are {axes}.")
    for i, axis in enumerate(axes):
        x = transform(x, kind, None if sizes is None else sizes[i], axis, norm)
    return x


@compiled_eagerly("type", "s", "axes")
def dctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Any = None, norm: str | None = None
) -> Any:  # fmt: skip
    """`dct` along several axes.

    Args:
      x: array of real or complex numbers, whose parts are transformed alike.
      type: 2.
      s: the size along each axis.
      axes: the axes; all, or the last ones of `s`, where not given.
      norm: as for `dct`.

    Returns:
      An array of the same shape, but for `s`.

    Raises:
      NotImplementedError: another type.
      ValueError: no such norm, or `s` and the axes don't fit each other.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import fft
    >>> fft.dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _along(dct, "dctn", x, s, axes, type, norm)


@compiled_eagerly("type", "s", "axes")
def idctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Any = None, norm: str | None = None
) -> Any:  # fmt: skip
    """`idct` along several axes, of the arguments of `dctn`.

    Args:
      x: array of real or complex numbers, whose parts are transformed alike.
      type: 2.
      s: the size along each axis.
      axes: the axes; all, or the last ones of `s`, where not given.
      norm: as for `dct`.

    Returns:
      An array of the same shape, but for `s`.

    Raises:
      NotImplementedError: another type.
      ValueError: no such norm, or `s` and the axes don't fit each other.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import fft
    >>> fft.idctn(fft.dctn(jnp.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _along(idct, "idctn", x, s, axes, type, norm)

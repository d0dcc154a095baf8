"""Images resampled: each axis is a product with a matrix of weights, which a kernel gives."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes
from xpr import numpy as jnp
from xpr.primitives.precision import Precision

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How entries between entries are made up: of the nearest, or of several, weighted by a kernel."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name, such as "bilinear"."""
        names = {
            "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
            "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
            "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
            "tricubic": ResizeMethod.CUBIC,
        }  # fmt: skip
        if s not in names:
            raise ValueError(f"The methods of resampling are {', '.join(names)}, and {s!r} is none.")
        return names[s]


def _triangle(x: Any) -> Any:
    return jnp.maximum(1 - jnp.abs(x), 0)


def _cubic(x: Any) -> Any:
    """Keys's cubic convolution with a = -1/2 (1981)."""
    x = jnp.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return jnp.where(x >= 2, 0.0, jnp.where(x >= 1, far, near))


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return jnp.where(jnp.abs(x) >= radius, 0.0, jnp.sinc(x) * jnp.sinc(x / radius))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _cubic,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _weights(size: int, new_size: int, scale: Any, translation: Any, kernel: Any, antialias: bool, dtype: Any) -> Any:
    """The matrix [size, new_size] of weights of the old entries in the new ones, whose columns add up to 1.

    An old entry i is at i + 1/2, a new one j where (j + 1/2 - translation) / scale is. Where an image shrinks, kernels
    widen with `antialias`, so that all old entries have weight.
    """
    inverse = 1.0 / scale
    width = jnp.maximum(inverse, 1.0) if antialias else 1.0
    places = (jnp.arange(new_size, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    weights = kernel(jnp.abs(places - jnp.arange(size, dtype=dtype)[:, None]) / width)
    total = jnp.sum(weights, axis=0, keepdims=True)
    is_some = jnp.abs(total) > 1000.0 * float(dtypes.finfo(jnp.float32).eps)
    weights = jnp.where(is_some, weights / jnp.where(total != 0, total, 1), 0)
    inside = (places >= -0.5) & (places <= size - 0.5)
    return jnp.where(inside, weights, 0).astype(dtype)


def _resampled(image: Any, axes: Sequence[int], weights: Sequence[Any], precision: Any) -> Any:
    for axis, matrix in zip(axes, weights):
        moved = jnp.moveaxis(image, axis, -1)
        image = jnp.moveaxis(jnp.matmul(moved, matrix, precision=precision), -1, axis)
    return image


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else method


def _in_floats(image: Any) -> Any:
    image = jnp.asarray(image)
    return image if jnp.issubdtype(image.dtype, jnp.inexact) else image.astype(dtypes.to_inexact(image.dtype))


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Any:
    """An image in another size.

    Args:
      image: an array; its axes are those of the image, of batches and of colours, the latter keeping their sizes.
      shape: the shape of the result, of as many axes.
      method: "nearest", "linear" (also "bilinear", "trilinear", "triangle"), "cubic", "lanczos3", "lanczos5".
      antialias: widen kernels where the image shrinks.
      precision: of the products, see `lax.Precision`.
    Returns:
      An array of the image's dtype, of floats if that is of integers and the method isn't "nearest".
    Raises:
      ValueError: the shape has another number of axes, or there is no such method.

    >>> import xpr.numpy as jnp
    >>> from xpr import image
    >>> image.resize(jnp.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    image, shape = jnp.asarray(image), tuple(map(int, shape))
    if len(shape) != image.ndim:
        raise ValueError(f"resize: the shape needs {image.ndim} sizes, as many as the image has axes, and is {shape}.")
    axes = [i for i, (n, m) in enumerate(zip(image.shape, shape)) if n != m]
    how = _method(method)
    if how is ResizeMethod.NEAREST:
        for axis in axes:
            places = jnp.floor((jnp.arange(shape[axis]) + 0.5) * (image.shape[axis] / shape[axis]))
            image = jnp.take(image, places.astype(int), axis=axis)
        return image
    image = _in_floats(image)
    sizes = [(image.shape[axis], shape[axis]) for axis in axes]
    dtype = image.dtype if image.dtype in dtypes.FLOATS else dtypes.real_part_of(image.dtype)
    matrices = [_weights(n, m, m / n, 0.0, _KERNELS[how], antialias, dtype) for n, m in sizes]
    return _resampled(image, axes, matrices, precision)


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Any:
    """An image stretched by `scale` and then moved by `translation` along some axes; what comes from outside is 0.

    Args:
      image: an array.
      shape: the shape of the result; other axes keep their sizes.
      spatial_dims: the axes to go along.
      scale, translation: a number for each of these; they may be traced, and gradients go to them.
      method: as of `resize`, but not "nearest".
      antialias, precision: as of `resize`.
    Raises:
      ValueError: a shape or a method doesn't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr import image
    >>> x = jnp.array([1.0, 2.0, 3.0])
    >>> image.scale_and_translate(x, (3,), (0,), jnp.ones(1), jnp.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    image, shape = _in_floats(image), tuple(map(int, shape))
    how = _method(method)
    if how is ResizeMethod.NEAREST:
        raise ValueError('scale_and_translate: "nearest" has no kernel. Use resize, or another method.')
    axes = [axis % image.ndim for axis in spatial_dims]
    if len(shape) != image.ndim or any(shape[i] != n for i, n in enumerate(image.shape) if i not in axes):
        raise ValueError(f"scale_and_translate: {image.aval.str_short()} can't become {shape} along axes {axes} alone.")
    scale, translation = jnp.asarray(scale), jnp.asarray(translation)
    if scale.shape != (len(axes),) or translation.shape != (len(axes),):
        raise ValueError(
            f"scale_and_translate: scale and translation are a number for each of {len(axes)} axes, and are "
            f"{scale.aval.str_short()} and {translation.aval.str_short()}."
        )
    dtype = image.dtype if image.dtype in dtypes.FLOATS else dtypes.real_part_of(image.dtype)
    matrices = [
        _weights(image.shape[axis], shape[axis], scale[i], translation[i], _KERNELS[how], antialias, dtype)
        for i, axis in enumerate(axes)
    ]
    return _resampled(image, axes, matrices, precision)

"""Resizing of images: each axis is multiplied by a matrix of interpolation weights."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import describe
from xpr.dimensions.expressions import as_size, is_symbolic_dim
from xpr.primitives.precision import Precision
from xpr.primitives.shapes import one_axis, tuple_of

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """The kernel with which elements are interpolated: the nearest one, or several, weighted."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name, such as "bilinear"."""
        names = {
            "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
            "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
            "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
            "tricubic": ResizeMethod.CUBIC, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
            "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "area": ResizeMethod.AREA,
        }  # fmt: skip
        if s not in names:
            raise ValueError(f"The methods of resampling are {', '.join(names)}, and {s!r} is none.")
        return names[s]


def _triangle(x: Any) -> Any:
    return jnp.maximum(1 - jnp.abs(x), 0)


def _cubic(a: float) -> Callable[[Any], Any]:
    """The kernel of cubic convolution, Keys (1981), whose slope at 1 is `a`."""

    def kernel(x: Any) -> Any:
        x = jnp.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0.0, jnp.where(x >= 1, far, near))

    return kernel


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return jnp.where(jnp.abs(x) >= radius, 0.0, jnp.sinc(x) * jnp.sinc(x / radius))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _weights(
    size: int, new_size: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool, dtype: Any
) -> Any:
    """The matrix [size, new_size] of weights of the input's elements in the output's; its columns add up to 1.

    Input element i is at i + 1/2, output element j at (j + 1/2 - translation) / scale. Where an image shrinks,
    `antialias` widens the kernels, so that all input elements have weight. Elements outside of the image have no
    weight, or, for CUBIC_PYTORCH without `antialias`, the values of the edges. Weights of 16 bits are computed in
    float32, since positions beyond 256 are no numbers of bfloat16.
    """
    wide = dtypes.float32 if dtype.itemsize < 4 else dtype
    inverse = 1.0 / scale
    width = jnp.maximum(inverse, 1.0) if antialias else 1.0
    positions = (jnp.arange(new_size, dtype=wide) + 0.5) * inverse - translation * inverse - 0.5
    repeats_edges = method is ResizeMethod.CUBIC_PYTORCH and not antialias
    if method is ResizeMethod.AREA:
        ends = positions[None, :] + 0.5 * (1 + inverse * jnp.array([-1.0, 1.0], wide)[:, None])
        starts = jnp.arange(size, dtype=wide)[:, None]
        weights = jnp.maximum(0, jnp.minimum(ends[1:], starts + 1) - jnp.maximum(ends[:1], starts))
    else:
        kernel = _KERNELS[ResizeMethod.CUBIC if method is ResizeMethod.CUBIC_PYTORCH and antialias else method]
        beyond = 2 if repeats_edges else 0
        elements = jnp.arange(-beyond, size + beyond, dtype=wide)[:, None]
        weights = kernel(jnp.abs(positions[None, :] - elements) / width)
        if repeats_edges:
            weights = (
                jnp.zeros((size, new_size), wide).at[jnp.clip(elements[:, 0], 0, size - 1).astype(int)].add(weights)
            )
    total = jnp.sum(weights, axis=0, keepdims=True)
    is_some = jnp.abs(total) > 1000.0 * float(dtypes.finfo(jnp.float32).eps)
    weights = jnp.where(is_some, weights / jnp.where(total != 0, total, 1), 0)
    if not repeats_edges:
        weights = jnp.where(((positions >= -0.5) & (positions <= size - 0.5))[None, :], weights, 0)
    return weights.astype(dtype)


def _nearest(size: Any, new_size: Any) -> Any:
    """For each output element the index of the input element at its center.

    The product is computed before the quotient, since it is exact (below 2**23). So a center on the boundary of two
    elements belongs to the second.
    """
    centers = (jnp.arange(new_size, dtype=jnp.float32) + 0.5) * size / new_size
    return jnp.floor(centers).astype(int)


def _resampled(image: Any, axes: Sequence[int], weights: Sequence[Any], precision: Any) -> Any:
    for axis, matrix in sorted(zip(axes, weights), key=lambda pair: _cost(*pair[1].shape)):
        moved = jnp.moveaxis(image, axis, -1)
        image = jnp.moveaxis(jnp.matmul(moved, matrix, precision=precision), -1, axis)
    return image


def _cost(size: Any, new_size: Any) -> float:
    """The key by which axes are resampled in order, for the fewest multiplications; shrinking axes come first."""
    if is_symbolic_dim(size) or is_symbolic_dim(new_size) or not size or not new_size:
        return 0.0
    return 1 / size - 1 / new_size


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise TypeError(f"The method of resampling is a name, such as 'linear', or a ResizeMethod: {describe(method)}.")
    return ResizeMethod.from_string(method)


def _sizes(function: str, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes of a result.

    Raises:
      TypeError: one is no integer.
      ValueError: one is negative.
    """
    sizes = tuple(map(as_size, tuple_of(shape, function, "shape")))
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise ValueError(f"{function}: sizes can't be negative, and the shape is {sizes}.")
    return sizes


def _in_floats(image: Any) -> Any:
    image = jnp.asarray(image)
    return image if jnp.issubdtype(image.dtype, jnp.inexact) else image.astype(dtypes.to_inexact(image.dtype))


@compiled_eagerly("shape")
def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Any:
    """An image resampled to another size.

    Args:
      image: an array; its axes are those of the image, and of batches and channels, whose sizes stay.
      shape: the shape of the result, with as many axes.
      method: "nearest", "linear" (also "bilinear", "trilinear", "triangle"), "cubic" (also "bicubic", "tricubic"),
        "cubic-pytorch" (PyTorch's, which without `antialias` is OpenCV's: a steeper kernel, and edges are repeated),
        "lanczos3", "lanczos5", or "area" (the mean over the area that an element covers).
      antialias: whether kernels are widened where the image shrinks.
      precision: of products, see `lax.Precision`.

    Returns:
      An array of the dtype of `image`; of floats for integers, unless the method is "nearest".

    Raises:
      TypeError: a size is no integer.
      ValueError: the shape has another number of axes, a size is negative, or there is no such method.

    >>> import xpr.numpy as jnp
    >>> from xpr import image
    >>> image.resize(jnp.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    image, shape = jnp.asarray(image), _sizes("resize", shape)
    if len(shape) != image.ndim:
        raise ValueError(f"resize: the shape needs {image.ndim} sizes, as many as the image has axes, and is {shape}.")
    axes = [i for i, (n, m) in enumerate(zip(image.shape, shape)) if n != m]
    resize_method = _method(method)
    if resize_method is ResizeMethod.NEAREST:
        for axis in axes:
            image = jnp.take(image, _nearest(image.shape[axis], shape[axis]), axis=axis)
        return image
    image = _in_floats(image)
    sizes = [(image.shape[axis], shape[axis]) for axis in axes]
    dtype = image.dtype if image.dtype in dtypes.FLOATS else dtypes.real_part_of(image.dtype)
    matrices = [_weights(n, m, m / n if n and m else 1.0, 0.0, resize_method, antialias, dtype) for n, m in sizes]
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
    """An image scaled by `scale` and then shifted by `translation` along axes; pixels from outside of it are 0.

    Args:
      image: an array.
      shape: the shape of the result; other axes keep their sizes.
      spatial_dims: the axes.
      scale: a number for each of these axes; may be traced, and are differentiable.
      translation: a number for each of these axes; may be traced, and are differentiable.
      method: as for `resize`, but not "nearest".
      antialias: as for `resize`.
      precision: as for `resize`.

    Returns:
      An array of the shape.

    Raises:
      TypeError: a size is no integer.
      ValueError: a shape or a method doesn't fit, or `spatial_dims` are not distinct axes of the image.

    >>> import xpr.numpy as jnp
    >>> from xpr import image
    >>> x = jnp.array([1.0, 2.0, 3.0])
    >>> image.scale_and_translate(x, (3,), (0,), jnp.ones(1), jnp.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    image, shape = _in_floats(image), _sizes("scale_and_translate", tuple(map(operator.index, shape)))
    resize_method = _method(method)
    if resize_method is ResizeMethod.NEAREST:
        raise ValueError('scale_and_translate: "nearest" has no kernel. Use resize, or another method.')
    axes = [one_axis(axis, image.ndim) for axis in spatial_dims]
    if len(set(axes)) != len(axes):
        raise ValueError(f"scale_and_translate: spatial_dims names an axis twice: {tuple(spatial_dims)}.")
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
        _weights(image.shape[axis], shape[axis], scale[i], translation[i], resize_method, antialias, dtype)
        for i, axis in enumerate(axes)
    ]
    return _resampled(image, axes, matrices, precision)

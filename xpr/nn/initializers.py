"""Initializers: functions `(key, shape, dtype) -> array` that draw the first weights of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from xpr import dtypes, random
from xpr.numpy import arithmetic, creation, exponentials, powers, reshaping
from xpr.numpy.promotion import requested_dtype
from xpr.primitives.sharding_constraint import sharded

__all__ = [
    "constant", "delta_orthogonal", "fans", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "Initializer", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "zeros",
]  # fmt: skip

Axes = int | Sequence[int]


class Initializer(Protocol):
    """The type of initializers: `initializer(key, shape, dtype, out_sharding)` returns an array."""

    def __call__(self, key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Any:
        """An array of that shape and dtype (float where not said), drawn with the key."""
        raise NotImplementedError


def _initializer(draw: Callable[[Any, tuple[int, ...], np.dtype], Any], dtype: Any) -> Initializer:
    """The initializer that draws arrays by `draw(key, shape, dtype)`, with a default dtype; None for that of floats."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = dtypes.of_python(float) if dtype is None else requested_dtype(dtype)
        return sharded(draw(key, creation.shape_of(shape), dtype), out_sharding, "initializer")

    return init


# -- Constants


def zeros(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer that returns zeros.

    Args:
      key: not used.
      shape: the shape of the array.
      dtype: of the array; None for the default float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of zeros.

    >>> import xpr
    >>> xpr.nn.initializers.zeros(xpr.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return constant(0)(key, shape, dtype, out_sharding)


def ones(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer that returns ones.

    Args:
      key: not used.
      shape: the shape of the array.
      dtype: of the array; None for the default float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of ones.

    >>> import xpr
    >>> xpr.nn.initializers.ones(xpr.random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return constant(1)(key, shape, dtype, out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Makes an initializer that returns one value, or an array, broadcast to the shape.

    Args:
      value: a number, or an array that broadcasts to the shape.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.constant(7)(xpr.random.key(0), (2,))
    Array([7., 7.], dtype=float32)
    """

    return _initializer(lambda key, shape, dtype: creation.full(shape, value, dtype), dtype)


# -- Distributions


def uniform(scale: float = 1e-2, dtype: Any = None) -> Initializer:
    """Makes an initializer that draws uniformly from 0 up to `scale`.

    Args:
      scale: the upper bound.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.uniform(10.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return arithmetic.multiply(random.uniform(key, shape, dtype), creation.array(scale, dtype))

    return _initializer(draw, dtype)


def normal(stddev: float = 1e-2, dtype: Any = None) -> Initializer:
    """Makes an initializer that draws from the normal distribution of mean 0.

    Args:
      stddev: the standard deviation.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.normal(5.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return arithmetic.multiply(random.normal(key, shape, dtype), creation.array(stddev, dtype))

    return _initializer(draw, dtype)


def truncated_normal(stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """Makes an initializer that draws from the standard normal distribution truncated to an interval, times `stddev`.

    Args:
      stddev: the factor.
      dtype: the default dtype of the initializer; None for the default float dtype.
      lower: the lower bound of the interval.
      upper: the upper bound of the interval.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.truncated_normal(5.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        drawn = random.truncated_normal(key, lower, upper, shape, dtype)
        return arithmetic.multiply(drawn, creation.array(stddev, dtype))

    return _initializer(draw, dtype)


# -- Variance scaling: draws so that the variance of a layer's results, or of its gradients, is that of its inputs.

_FANS = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}


def _size(shape: Sequence[int], axes: Axes) -> int:
    return math.prod(shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))


def fans(shape: Sequence[int], in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()) -> tuple[float, float]:
    """The fan-in and fan-out of weights: the numbers of inputs of each output, and of outputs of each input.

    Axes that are along neither inputs, outputs nor a batch are positions of a kernel, and count for both.

    Args:
      shape: the shape of the weights.
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.

    Returns:
      `(fan_in, fan_out)`.

    Raises:
      ValueError: the shape has no such axes.

    >>> import xpr
    >>> xpr.nn.initializers.fans((3, 3, 8, 16))
    (72.0, 144.0)
    """
    for name, axes in (("in_axis", in_axis), ("out_axis", out_axis)):
        if not all(-len(shape) <= axis < len(shape) for axis in ((axes,) if isinstance(axes, int) else axes)):
            raise ValueError(
                f"Scaling variance needs an input and an output axis, and shape {tuple(shape)} has no {name} {axes!r}. "
                "Say which axes are along inputs and outputs, by in_axis and out_axis; () for none."
            )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    kernel = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * kernel, outputs * kernel


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Makes an initializer whose variance is `scale` over the number of inputs or outputs.

    Args:
      scale: the numerator of the variance.
      mode: the denominator: "fan_in", "fan_out", "fan_avg" (their mean) or "fan_geo_avg" (their geometric mean).
      distribution: "truncated_normal" (at two standard deviations), "normal" or "uniform".
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    Raises:
      ValueError: there is no such mode or distribution, or the shape of weights has no such axes.

    >>> import xpr
    >>> initializer = xpr.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> initializer(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    if mode not in _FANS:
        raise ValueError(f"variance_scaling: mode must be one of {', '.join(_FANS)}, and is {mode!r}.")
    if distribution not in _DRAWN:
        raise ValueError(f"variance_scaling: distribution must be one of {', '.join(_DRAWN)}, and is {distribution!r}.")

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        count = _FANS[mode](*fans(shape, in_axis, out_axis, batch_axis))
        return _DRAWN[distribution](key, shape, dtype, dtype.type(scale / count))

    return _initializer(draw, dtype)


NORMAL_TRUNCATED_AT_TWO = 0.87962566103423978  # its standard deviation, for reals
COMPLEX_NORMAL_TRUNCATED_AT_TWO = 0.95311164380491208  # the same for complex numbers, whose modulus is truncated


def _draw_truncated_normal(key: Any, shape: tuple[int, ...], dtype: np.dtype, variance: Any) -> Any:
    if dtype in dtypes.COMPLEX:
        deviation = np.sqrt(variance) / dtype.type(COMPLEX_NORMAL_TRUNCATED_AT_TWO)
        return arithmetic.multiply(_complex_truncated_normal(key, 2.0, shape, dtype), deviation)
    deviation = np.sqrt(variance) / dtype.type(NORMAL_TRUNCATED_AT_TWO)
    return arithmetic.multiply(random.truncated_normal(key, -2, 2, shape, dtype), dtype.type(deviation))


def _draw_normal(key: Any, shape: tuple[int, ...], dtype: np.dtype, variance: Any) -> Any:
    return arithmetic.multiply(random.normal(key, shape, dtype), dtype.type(np.sqrt(variance)))


def _draw_uniform(key: Any, shape: tuple[int, ...], dtype: np.dtype, variance: Any) -> Any:
    if dtype in dtypes.COMPLEX:
        # The mean squared size in the unit disk is 1/2; from -1 to 1 it is 1/3.
        return arithmetic.multiply(_complex_uniform(key, shape, dtype), dtype.type(np.sqrt(dtype.type(2) * variance)))
    return arithmetic.multiply(random.uniform(key, shape, dtype, -1), dtype.type(np.sqrt(dtype.type(3) * variance)))


_DRAWN = {"truncated_normal": _draw_truncated_normal, "normal": _draw_normal, "uniform": _draw_uniform}


def _complex_uniform(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Complex numbers uniform in the unit disk: the squared absolute value is uniform, and so is the angle."""
    size_key, angle_key = random.split(key)
    real = dtypes.real_part_of(dtype)
    return _polar(powers.sqrt(random.uniform(size_key, shape, real)), angle_key, shape, dtype)


def _complex_truncated_normal(key: Any, upper: float, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A complex normal variable with absolute value truncated at `upper`, by inverse transform of its square."""
    size_key, angle_key = random.split(key)
    real = dtypes.real_part_of(dtype)
    share = arithmetic.multiply(1 - math.exp(-(upper**2)), random.uniform(size_key, shape, real))
    return _polar(
        powers.sqrt(arithmetic.negative(exponentials.log(arithmetic.subtract(1, share)))), angle_key, shape, dtype
    )


def _polar(size: Any, angle_key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    angle = arithmetic.multiply(2 * math.pi, random.uniform(angle_key, shape, dtypes.real_part_of(dtype)))
    return arithmetic.multiply(size, exponentials.exp(arithmetic.multiply(1j, angle)))


# -- The usual ones


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 2 / (fan_in + fan_out), uniform (Glorot and Bengio, 2010).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.glorot_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 2 / (fan_in + fan_out), truncated normal (Glorot and Bengio, 2010).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.glorot_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 1 / fan_in, uniform (LeCun et al., 1998).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.lecun_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 1 / fan_in, truncated normal (LeCun et al., 1998).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.lecun_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 2 / fan_in, uniform (He et al., 2015).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.he_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Makes an initializer of variance 2 / fan_in, truncated normal (He et al., 2015).

    Args:
      in_axis: the axis or axes of the weights along the inputs of a layer.
      out_axis: the axis or axes along its outputs.
      batch_axis: the axis or axes along neither.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    >>> import xpr
    >>> xpr.nn.initializers.he_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


# -- Orthogonal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Makes an initializer that draws uniformly from orthogonal matrices, times `scale`.

    Args:
      scale: the factor.
      column_axis: the axis of the matrix's columns; the others are its rows.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    Raises:
      ValueError: the shape of weights has fewer than two axes.

    >>> import xpr
    >>> xpr.nn.initializers.orthogonal()(xpr.random.key(0), (3, 2)).shape
    (3, 2)
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        if len(shape) < 2:
            raise ValueError(f"orthogonal: takes a shape of at least two axes, and got {shape}.")
        if not all(shape):
            return creation.zeros(shape, dtype)
        columns = shape[column_axis]
        drawn = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        rows = reshaping.reshape(drawn, (*np.delete(shape, column_axis).tolist(), columns))
        return arithmetic.multiply(creation.array(scale, dtype), reshaping.moveaxis(rows, -1, column_axis))

    return _initializer(draw, dtype)


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Makes an initializer of convolutions: an orthogonal matrix at the center of the kernel (Xiao et al., 2018).

    Args:
      scale: the factor of the matrix.
      column_axis: the axis of the matrix's columns.
      dtype: the default dtype of the initializer; None for the default float dtype.

    Returns:
      An initializer `(key, shape, dtype) -> array`.

    Raises:
      ValueError: the shape of weights has not 3 to 5 axes, or its last size is less than the one before.

    >>> import xpr
    >>> xpr.nn.initializers.delta_orthogonal()(xpr.random.key(0), (3, 2, 2)).shape
    (3, 2, 2)
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ValueError(
                "delta_orthogonal: takes a shape of 3 to 5 axes, the last not shorter than the one before, and got "
                f"{shape}."
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return creation.zeros(shape, dtype).at[middle].set(matrix)

    return _initializer(draw, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal

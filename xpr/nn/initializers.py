"""Initializers: functions `(key, shape, dtype) -> array` that draw the first weights of a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from xpr import dtypes, random
from xpr.numpy import arithmetic, creation, exponentials, powers, reshaping
from xpr.numpy.promotion import requested_dtype

Axes = int | Sequence[int]


class Initializer(Protocol):
    """What this module's functions are, or give."""

    def __call__(self, key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        """An array of that shape and dtype (float where not said), drawn with the key."""
        raise NotImplementedError


def _dtype(dtype: Any, default: Any) -> np.dtype:
    """The dtype of an array to be drawn: that of the call, else that of the initializer, else float."""
    chosen = default if dtype is None else dtype
    return dtypes.of_python(float) if chosen is None else requested_dtype(chosen)


# -- Constants


def zeros(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
    """Zeros; the key is not used.

    >>> import xpr
    >>> xpr.nn.initializers.zeros(xpr.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return creation.zeros(shape, _dtype(dtype, None))


def ones(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
    """Ones; the key is not used.

    >>> import xpr
    >>> xpr.nn.initializers.ones(xpr.random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return creation.ones(shape, _dtype(dtype, None))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that repeats one value, or broadcasts an array.

    >>> import xpr
    >>> xpr.nn.initializers.constant(7)(xpr.random.key(0), (2,))
    Array([7., 7.], dtype=float32)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return creation.full(shape, value, _dtype(dtype, None))

    return init


# -- Distributions


def uniform(scale: float = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws uniformly from 0 up to `scale`.

    >>> import xpr
    >>> xpr.nn.initializers.uniform(10.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype = _dtype(dtype, None)
        return arithmetic.multiply(random.uniform(key, shape, dtype), creation.array(scale, dtype))

    return init


def normal(stddev: float = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws from a normal distribution of mean 0.

    >>> import xpr
    >>> xpr.nn.initializers.normal(5.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype = _dtype(dtype, None)
        return arithmetic.multiply(random.normal(key, shape, dtype), creation.array(stddev, dtype))

    return init


def truncated_normal(stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """An initializer that draws from a normal distribution cut at `lower` and `upper`, then multiplied by `stddev`.

    >>> import xpr
    >>> xpr.nn.initializers.truncated_normal(5.0)(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype = _dtype(dtype, None)
        return arithmetic.multiply(
            random.truncated_normal(key, lower, upper, shape, dtype), creation.array(stddev, dtype)
        )

    return init


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
    """How many inputs each result of a layer is made of, and how many results each input goes into.

    Axes that are none of inputs, outputs and batch are places of a kernel, and count for both.

    Raises:
      ValueError: the shape has less than two axes.
    """
    if len(shape) < 2:
        raise ValueError(f"Scaling variance needs an input and an output axis, which shape {tuple(shape)} hasn't.")
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
    """An initializer whose variance is `scale` over a number of inputs or outputs.

    Args:
      mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg": which number.
      distribution: "truncated_normal" (cut at two standard deviations), "normal" or "uniform".
      in_axis, out_axis, batch_axis: which axes of the weights go along inputs, outputs, and neither.
    Raises:
      ValueError: there is no such mode or distribution, or the shape to be drawn has less than two axes.

    >>> import xpr
    >>> initializer = xpr.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> initializer(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    if mode not in _FANS:
        raise ValueError(f"variance_scaling: mode must be one of {', '.join(_FANS)}, and is {mode!r}.")
    if distribution not in _DRAWN:
        raise ValueError(f"variance_scaling: distribution must be one of {', '.join(_DRAWN)}, and is {distribution!r}.")

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype = _dtype(dtype, None)
        shape = creation.shape_of(shape)
        count = _FANS[mode](*fans(shape, in_axis, out_axis, batch_axis))
        variance = dtype.type(scale / count)
        return _DRAWN[distribution](key, shape, dtype, variance)

    return init


NORMAL_CUT_AT_TWO = 0.87962566103423978  # its standard deviation, for reals
COMPLEX_NORMAL_CUT_AT_TWO = 0.95311164380491208  # the same for complex numbers, whose size is cut


def _draw_truncated_normal(key: Any, shape: tuple[int, ...], dtype: np.dtype, variance: Any) -> Any:
    if dtype in dtypes.COMPLEX:
        deviation = np.sqrt(variance) / dtype.type(COMPLEX_NORMAL_CUT_AT_TWO)
        return arithmetic.multiply(_complex_truncated_normal(key, 2.0, shape, dtype), deviation)
    deviation = np.sqrt(variance) / dtype.type(NORMAL_CUT_AT_TWO)
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
    """Uniform in the unit disk: the square of the size is uniform, and so is the angle."""
    size_key, angle_key = random.split(key)
    real = dtypes.real_part_of(dtype)
    return _polar(powers.sqrt(random.uniform(size_key, shape, real)), angle_key, shape, dtype)


def _complex_truncated_normal(key: Any, upper: float, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A complex normal variable whose size is cut at `upper`: its squared size is exponential, found by inversion."""
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
    """An initializer of variance 2 / (fan_in + fan_out), uniform (Glorot and Bengio, 2010).

    >>> import xpr
    >>> xpr.nn.initializers.glorot_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """An initializer of variance 2 / (fan_in + fan_out), normal cut at two deviations (Glorot and Bengio, 2010).

    >>> import xpr
    >>> xpr.nn.initializers.glorot_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """An initializer of variance 1 / fan_in, uniform (LeCun et al., 1998).

    >>> import xpr
    >>> xpr.nn.initializers.lecun_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """An initializer of variance 1 / fan_in, normal cut at two standard deviations (LeCun et al., 1998).

    >>> import xpr
    >>> xpr.nn.initializers.lecun_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """An initializer of variance 2 / fan_in, uniform (He et al., 2015).

    >>> import xpr
    >>> xpr.nn.initializers.he_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """An initializer of variance 2 / fan_in, normal cut at two standard deviations (He et al., 2015).

    >>> import xpr
    >>> xpr.nn.initializers.he_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


# -- Orthogonal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer that draws evenly from orthogonal matrices; the other axes than `column_axis` make up the rows.

    Raises:
      ValueError: the shape has fewer than two axes.

    >>> import xpr
    >>> xpr.nn.initializers.orthogonal()(xpr.random.key(0), (3, 2)).shape
    (3, 2)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype, shape = _dtype(dtype, None), tuple(shape)
        if len(shape) < 2:
            raise ValueError(f"orthogonal: takes a shape of at least two axes, and got {shape}.")
        if not all(shape):
            return creation.zeros(shape, dtype)
        columns = shape[column_axis]
        drawn = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        rows = reshaping.reshape(drawn, (*np.delete(shape, column_axis).tolist(), columns))
        return arithmetic.multiply(creation.array(scale, dtype), reshaping.moveaxis(rows, -1, column_axis))

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolutions: an orthogonal matrix amid the window, zeros elsewhere (Xiao et al., 2018).

    Raises:
      ValueError: the shape has not 3 to 5 axes, or the last is shorter than the one before.

    >>> import xpr
    >>> xpr.nn.initializers.delta_orthogonal()(xpr.random.key(0), (3, 2, 2)).shape
    (3, 2, 2)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        dtype, shape = _dtype(dtype, None), tuple(shape)
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ValueError(
                "delta_orthogonal: takes a shape of 3 to 5 axes, the last not shorter than the one before, and got "
                f"{shape}."
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return creation.zeros(shape, dtype).at[middle].set(matrix)

    return init


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal

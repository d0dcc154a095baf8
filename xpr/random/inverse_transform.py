"""Distributions drawn by inverse transform sampling: the inverse distribution function of uniform numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import (
    abs,
    bitcast_convert_type,
    bitwise_not,
    bitwise_or,
    clz,
    convert_element_type,
    exp,
    floor,
    log,
    log1p,
    pow,
    shift_left,
    shift_right_logical,
    sign,
    sqrt,
    tan,
)
from xpr.primitives.random_bits import just_above_minus_one, scaled
from xpr.primitives.random_keys import random_bits, random_floats
from xpr.primitives.shapes import shape_of
from xpr.primitives.sharding_constraint import sharded
from xpr.random.independent_draws import independent_draws
from xpr.random.keys import one_key
from xpr.random.parameters import broadcast, float_dtype, integer_dtype, parameter, shape_for
from xpr.random.uniforms import GUMBEL_MODES, _check_mode

__all__ = [
    "cauchy", "exponential", "geometric", "gumbel", "laplace", "logistic", "pareto", "rayleigh", "triangular",
    "weibull_min",
]  # fmt: skip


def _from(key: Any, low: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Uniform floats from [low, 1)."""
    return scaled(random_floats(key, shape, dtype), dtype.type(low), dtype.type(1))


# -- Exponential, and distributions computed from it


@independent_draws
def _exponential(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exponentials(key, shape, dtype)


def exponentials(key: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Exponential numbers from a key."""
    return -log1p(-random_floats(key, shape, dtype))


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the exponential distribution of mean 1.

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype.

    >>> from xpr import random
    >>> random.exponential(random.key(0), (2,))
    Array([2.950128 , 3.8434246], dtype=float32)
    """
    return sharded(
        _exponential(one_key(key, "exponential"), shape=shape_of(shape), dtype=float_dtype(dtype, "exponential")),
        out_sharding,
        "exponential",
    )


@independent_draws
def _pareto(key: Any, b: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exp(exponentials(key, shape, dtype) / broadcast(b, shape))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Pareto distribution with exponent `b` and minimum 1.

    Args:
      key: a random key.
      b: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of `b`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `b` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.pareto(random.key(0), 2.0, (2,))
    Array([4.371316, 6.832648], dtype=float32)
    """
    key, dtype = one_key(key, "pareto"), float_dtype(dtype, "pareto")
    b = parameter(b, dtype)
    return sharded(_pareto(key, b, shape=shape_for("pareto", shape, b=b), dtype=dtype), out_sharding, "pareto")


@independent_draws
def _weibull_min(key: Any, scale: Any, concentration: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    drawn = exponentials(key, shape, dtype)
    return pow(drawn, broadcast(dtype.type(1) / concentration, shape)) * broadcast(scale, shape)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random numbers from the Weibull distribution.

    Args:
      key: a random key.
      scale: the scale, floats that broadcast to the shape.
      concentration: the shape parameter, floats that broadcast to the shape.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast to the shape.

    >>> from xpr import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (2,))
    Array([1.7175937, 1.9604654], dtype=float32)
    """
    key, dtype = one_key(key, "weibull_min"), float_dtype(dtype, "weibull_min")
    scale, concentration = parameter(scale, dtype), parameter(concentration, dtype)
    shape = shape_for("weibull_min", shape, scale=scale, concentration=concentration)
    return _weibull_min(key, scale, concentration, shape=shape, dtype=dtype)


@independent_draws
def _rayleigh(key: Any, scale: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = random_floats(key, shape, dtype)
    return broadcast(scale, shape) * sqrt(log(unit) * dtype.type(-2))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Rayleigh distribution.

    Args:
      key: a random key.
      scale: the scale, floats that broadcast to the shape.
      shape: the shape of the result; None for that of `scale`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `scale` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.rayleigh(random.key(0), 1.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "rayleigh"), float_dtype(dtype, "rayleigh")
    scale = parameter(scale, dtype)
    return sharded(
        _rayleigh(key, scale, shape=shape_for("rayleigh", shape, scale=scale), dtype=dtype), out_sharding, "rayleigh"
    )


# -- Two-sided


@independent_draws
def _gumbel(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return gumbels(key, shape, dtype, "low")


@compiled
def _finer_gumbel(key: Any, *, shape: Shape, dtype: np.dtype, mode: str) -> Any:
    return gumbels(key, shape, dtype, mode)


_finer_gumbel.name = "gumbel"


def gumbels(key: Any, shape: Shape, dtype: np.dtype, mode: str) -> Any:
    """-log(-log u) from a key.

    In the mode "high" a second number gives u below 1/2 more digits, and the first logarithm is that of 1 - u, so that
    large values are as finely spread as small ones.
    """
    if mode == "highest" and dtype == dtypes.float32:
        return _gumbels_of_two_words(key, shape)
    info = dtypes.finfo(dtype)
    tiny = dtype.type(info.tiny)
    if mode == "low":
        return -log(-log(scaled(random_floats(key, shape, dtype), tiny, dtype.type(1))))
    pair = random_floats(key, (2, *shape), dtype)
    coarse, fine = pair[0], pair[1]
    u = where(coarse >= dtype.type(0.5), coarse, coarse + dtype.type(info.eps) * fine + tiny)
    return -log(-log1p(-u))


def _gumbels_of_two_words(key: Any, shape: Shape) -> Any:
    """-log(-log(1 - u)) of a u of 64 bits: the smaller one of u and 1 - u becomes a float of 24 significant bits."""
    words = random_bits(key, 32, (2, *shape))
    high, low = words[0], words[1]
    is_small = high < np.uint32(2**31)
    negative_high = bitwise_not(high) + convert_element_type(low == np.uint32(0), dtypes.uint32)
    negative_low = bitwise_not(low) + np.uint32(1)
    x = _leading_bits(where(is_small, high, negative_high), where(is_small, low, negative_low))
    return -log(-where(is_small, log1p(-x), log(x)))


def _leading_bits(high: Any, low: Any) -> Any:
    """(2^32 high + low) / 2^64, rounded towards zero to a float32, of two words; 2^-65 where both are zero."""
    zeros = where(high == np.uint32(0), np.uint32(32) + clz(low), clz(high))
    shifted = where(
        high == np.uint32(0),
        shift_left(low, clz(low)),
        bitwise_or(shift_left(high, clz(high)), shift_right_logical(low, np.uint32(32) - clz(high))),
    )
    significant = convert_element_type(shift_right_logical(shifted, np.uint32(8)), dtypes.float32)
    unit = bitcast_convert_type(shift_left(np.uint32(127 - 24) - zeros, np.uint32(23)), dtypes.float32)
    return where(zeros == np.uint32(64), np.float32(2.0**-65), significant * unit)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Gumbel distribution, whose distribution function is exp(-exp(-x)).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype.
      mode: "low", "high" or "highest"; "high" resolves large values more finely and draws twice as many bits, of which
        "highest" uses all for float32. None for "low".
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or there is no such mode.

    >>> from xpr import random
    >>> random.gumbel(random.key(0), (2,))
    Array([2.9233725, 3.8326178], dtype=float32)
    """
    key, dtype = one_key(key, "gumbel"), float_dtype(dtype, "gumbel")
    mode = mode or "low"
    _check_mode("gumbel", mode, GUMBEL_MODES)
    shape = shape_of(shape)
    if mode == "low":
        drawn = _gumbel(key, shape=shape, dtype=dtype)
    else:
        drawn = _finer_gumbel(key, shape=shape, dtype=dtype, mode=mode)
    return sharded(drawn, out_sharding, "gumbel")


@independent_draws
def _laplace(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(key, just_above_minus_one(dtype), shape, dtype)
    return sign(u) * log1p(-abs(u))


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Laplace distribution, whose density is exp(-|x|) / 2.

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype.

    >>> from xpr import random
    >>> random.laplace(random.key(0), (2,))
    Array([-2.2569816, -3.1502788], dtype=float32)
    """
    return sharded(
        _laplace(one_key(key, "laplace"), shape=shape_of(shape), dtype=float_dtype(dtype, "laplace")),
        out_sharding,
        "laplace",
    )


@independent_draws
def _logistic(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(key, dtypes.finfo(dtype).tiny, shape, dtype)
    return log(u) - log1p(-u)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the logistic distribution, whose distribution function is 1 / (1 + exp(-x)).

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype.

    >>> from xpr import random
    >>> random.logistic(random.key(0), (2,))
    Array([2.896376 , 3.8217716], dtype=float32)
    """
    return sharded(
        _logistic(one_key(key, "logistic"), shape=shape_of(shape), dtype=float_dtype(dtype, "logistic")),
        out_sharding,
        "logistic",
    )


@independent_draws
def _cauchy(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(key, dtypes.finfo(dtype).eps, shape, dtype)
    return tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the standard Cauchy distribution.

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype.

    >>> from xpr import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    return sharded(
        _cauchy(one_key(key, "cauchy"), shape=shape_of(shape), dtype=float_dtype(dtype, "cauchy")),
        out_sharding,
        "cauchy",
    )


# -- Bounded, and whole


@independent_draws
def _triangular(key: Any, left: Any, mode: Any, right: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = random_floats(key, shape, dtype)
    left, mode, right = (broadcast(x, shape) for x in (left, mode, right))
    rising = left + sqrt(u * (right - left) * (mode - left))
    falling = right - sqrt((dtype.type(1) - u) * (right - left) * (right - mode))
    return where(u < (mode - left) / (right - left), rising, falling)


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Random numbers from the triangular distribution, whose density rises from `left` to `mode` and falls to `right`.

    Args:
      key: a random key.
      left: the minimum, floats that broadcast to the shape.
      mode: the most likely value, floats that broadcast to the shape.
      right: the maximum, floats that broadcast to the shape.
      shape: the shape of the result; None for that of the parameters, broadcast.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast to the shape.

    >>> from xpr import random
    >>> random.triangular(random.key(0), 0.0, 0.5, 1.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "triangular"), float_dtype(dtype, "triangular")
    left, mode, right = (parameter(x, dtype) for x in (left, mode, right))
    shape = shape_for("triangular", shape, left=left, mode=mode, right=right)
    return sharded(_triangular(key, left, mode, right, shape=shape, dtype=dtype), out_sharding, "triangular")


@independent_draws
def _geometric(key: Any, p: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = aval_of(p).dtype
    u = random_floats(key, shape, unit)
    tries = floor(log(where(u == unit.type(0), unit.type(1), u)) / broadcast(log1p(-p), shape)) + unit.type(1)
    return convert_element_type(tries, dtype)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers of trials until the first success, each of which has probability `p`.

    Args:
      key: a random key.
      p: probabilities, floats that broadcast to the shape.
      shape: the shape of the result; None for that of `p`.
      dtype: an integer dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Integers of the shape, at least 1.

    Raises:
      ValueError: `dtype` is not an integer dtype, or `p` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.geometric(random.key(0), 0.5, (3,))
    Array([1, 1, 2], dtype=int32)
    """
    key, dtype = one_key(key, "geometric"), integer_dtype(dtype, "geometric")
    p_dtype = aval_of(p).dtype
    p = parameter(p, p_dtype if p_dtype in dtypes.FLOATS else dtypes.canonical(float))
    return sharded(_geometric(key, p, shape=shape_for("geometric", shape, p=p), dtype=dtype), out_sharding, "geometric")

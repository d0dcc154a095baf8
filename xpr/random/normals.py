"""The normal distribution, and those computed from normal numbers without rejection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import Shape, aval_of
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import convert_element_type, exp, integer_pow, nextafter, sqrt
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.elementwise import min as minimum
from xpr.primitives.random_bits import scaled
from xpr.primitives.random_keys import children, random_floats, random_normals
from xpr.primitives.shapes import shape_of
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.special import erf, erf_inv
from xpr.random.independent_draws import independent_draws
from xpr.random.keys import one_key
from xpr.random.parameters import broadcast, float_dtype, float_or_complex_dtype, parameter, shape_for
from xpr.random.uniforms import signs

__all__ = ["double_sided_maxwell", "lognormal", "maxwell", "normal", "truncated_normal", "wald"]


@independent_draws
def _normal(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return normals(key, shape, dtype)


def normals(key: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Standard normal numbers from a key; complex ones have half the variance in each part."""
    if dtype not in dtypes.COMPLEX:
        return random_normals(key, shape, dtype)
    parts = (random_normals(each, shape, dtypes.real_part_of(dtype)) for each in children(key, 2))
    real, imaginary = (convert_element_type(x, dtype) for x in parts)
    return (real + dtype.type(1j) * imaginary) / dtype.type(math.sqrt(2))


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the normal distribution of mean 0 and variance 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float or complex dtype; None for the default float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    Raises:
      ValueError: `dtype` is neither.

    >>> from xpr import random
    >>> random.normal(random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    key = one_key(key, "normal")
    return sharded(
        _normal(key, shape=shape_of(shape), dtype=float_or_complex_dtype(dtype, "normal")), out_sharding, "normal"
    )


@independent_draws
def _truncated_normal(key: Any, lower: Any, upper: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    """sqrt(2) erf_inv(u), for u uniform between the values of erf at the bounds over sqrt(2)."""
    root = dtype.type(math.sqrt(2))
    low, high = erf(lower / root), erf(upper / root)
    unit = random_floats(key, shape, dtype)
    out = root * erf_inv(scaled(unit, broadcast(low, shape), broadcast(high, shape)))
    first = nextafter(stop_gradient(lower), broadcast(dtype.type(np.inf), aval_of(lower).shape))
    last = nextafter(stop_gradient(upper), broadcast(dtype.type(-np.inf), aval_of(upper).shape))
    return minimum(broadcast(last, shape), maximum(broadcast(first, shape), out))


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Random numbers from the standard normal distribution, conditioned to lie between `lower` and `upper`.

    Args:
      key: a key.
      lower: the lower bound, floats that broadcast to the shape; it is excluded.
      upper: the upper bound, floats that broadcast to the shape; it is excluded.
      shape: the shape of the result; None for that of the bounds, broadcast.
      dtype: a float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the bounds don't broadcast to the shape.

    >>> from xpr import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0, (2,))
    Array([0.8618594, 0.9412883], dtype=float32)
    """
    key, dtype = one_key(key, "truncated_normal"), float_dtype(dtype, "truncated_normal")
    lower, upper = parameter(lower, dtype), parameter(upper, dtype)
    shape = shape_for("truncated_normal", shape, lower=lower, upper=upper)
    return sharded(_truncated_normal(key, lower, upper, shape=shape, dtype=dtype), out_sharding, "truncated_normal")


@independent_draws
def _lognormal(key: Any, sigma: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exp(random_normals(key, shape, dtype) * broadcast(sigma, shape))


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers whose logarithms are normal of mean 0 and standard deviation `sigma`.

    Args:
      key: a random key.
      sigma: the standard deviation, floats that broadcast to the shape.
      shape: the shape of the result; None for that of `sigma`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `sigma` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.lognormal(random.key(0), 0.5, (2,))
    Array([2.2508795, 2.752838 ], dtype=float32)
    """
    key, dtype = one_key(key, "lognormal"), float_dtype(dtype, "lognormal")
    sigma = parameter(sigma, dtype)
    return sharded(
        _lognormal(key, sigma, shape=shape_for("lognormal", shape, sigma=sigma), dtype=dtype),
        out_sharding,
        "lognormal",
    )


@independent_draws
def _maxwell(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return _lengths(key, shape, dtype)


def _lengths(key: Any, shape: Shape, dtype: np.dtype) -> Any:
    """The lengths of normal vectors in three dimensions."""
    vectors = random_normals(key, (*shape, 3), dtype)
    x, y, z = (_square(vectors[..., i]) for i in range(3))
    return sqrt(convert_element_type(x + y + z, dtype))


def _square(x: Any) -> Any:
    """The square, of a half-precision number in float32."""
    return convert_element_type(x * x, dtypes.float32) if aval_of(x).dtype.itemsize < 4 else x * x


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Maxwell distribution: the lengths of vectors of three standard normal numbers.

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
    >>> random.maxwell(random.key(0), (2,)).shape
    (2,)
    """
    return sharded(
        _maxwell(one_key(key, "maxwell"), shape=shape_of(shape), dtype=float_dtype(dtype, "maxwell")),
        out_sharding,
        "maxwell",
    )


@independent_draws
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    for_sizes, for_signs = children(key, 2)
    sizes = _lengths(for_sizes, shape, dtype)
    return signs(for_signs, shape, dtype) * sizes * broadcast(scale, shape) + broadcast(loc, shape)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random numbers from the Maxwell distribution with random signs, times `scale`, plus `loc`.

    Args:
      key: a random key.
      loc: the location, floats.
      scale: the scale, floats that broadcast against `loc`.
      shape: leading axes of the result.
      dtype: a float dtype; None for the default one.

    Returns:
      Floats of the shape `shape` followed by the shape to which the parameters broadcast.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast.

    >>> from xpr import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "double_sided_maxwell"), float_dtype(dtype, "double_sided_maxwell")
    loc, scale = parameter(loc, dtype), parameter(scale, dtype)
    broadcast = shape_for("double_sided_maxwell", None, loc=loc, scale=scale)
    return _double_sided_maxwell(key, loc, scale, shape=(shape_of(shape) or broadcast) + broadcast, dtype=dtype)


@independent_draws
def _wald(key: Any, mean: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    """Wald numbers: of the roots x and mean^2 / x of a quadratic in a squared normal number, the first with probability
    mean / (mean + x). Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots" (The American Statistician 30, 1976).
    """
    for_y, for_u = children(key, 2)
    y = integer_pow(random_normals(for_y, shape, dtype), 2)
    u = random_floats(for_u, shape, dtype)
    two = dtype.type(2)
    mean = broadcast(mean, shape)
    square = integer_pow(mean, 2)
    root = sqrt(dtype.type(4) * mean * y + square * integer_pow(y, 2))
    x = mean + square * y / two - mean / two * root
    return where(u <= mean / (mean + x), x, square / x)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Wald (inverse Gaussian) distribution with a mean and scale 1.

    Args:
      key: a random key.
      mean: the mean, floats that broadcast to the shape.
      shape: the shape of the result; None for that of `mean`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `mean` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.wald(random.key(0), 1.5, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "wald"), float_dtype(dtype, "wald")
    mean = parameter(mean, dtype)
    return sharded(_wald(key, mean, shape=shape_for("wald", shape, mean=mean), dtype=dtype), out_sharding, "wald")

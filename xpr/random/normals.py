"""Normal numbers, and what is made of them without rejection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import Shape, aval_of
from xpr.numpy.creation import shape_of
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import convert_element_type, exp, integer_pow, nextafter, sqrt
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.elementwise import min as minimum
from xpr.primitives.random_bits import child, key_words, random_floats, random_normals, stretched
from xpr.primitives.special import erf, erf_inv
from xpr.random.keys import one_key
from xpr.random.parameters import float_dtype, float_or_complex_dtype, parameter, shape_for, spread
from xpr.random.uniforms import signs


@compiled
def _normal(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return normals(key_words(words), shape, dtype)


def normals(words: tuple[Any, Any], shape: Shape, dtype: np.dtype) -> Any:
    """Standard normal numbers from the words of a key; complex ones have half the variance in each part."""
    if dtype not in dtypes.COMPLEX:
        return random_normals(*words, shape, dtype)
    parts = (random_normals(*child(*words, i), shape, dtypes.real_part_of(dtype)) for i in (0, 1))
    real, imaginary = (convert_element_type(x, dtype) for x in parts)
    return (real + dtype.type(1j) * imaginary) / dtype.type(math.sqrt(2))


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the normal distribution of mean 0 and variance 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype, or a complex one.
    Raises:
      ValueError: `dtype` is neither.

    >>> from xpr import random
    >>> random.normal(random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    words = one_key(key, "normal")
    return _normal(words, shape=shape_of(shape), dtype=float_or_complex_dtype(dtype, "normal"))


@compiled
def _truncated_normal(words: Any, lower: Any, upper: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    """sqrt(2) erf_inv(u), for u evenly between the values of erf at the bounds over sqrt(2)."""
    root = dtype.type(math.sqrt(2))
    low, high = erf(lower / root), erf(upper / root)
    unit = random_floats(*key_words(words), shape, dtype)
    out = root * erf_inv(stretched(unit, spread(low, shape), spread(high, shape)))
    first = nextafter(stop_gradient(lower), spread(dtype.type(np.inf), aval_of(lower).shape))
    last = nextafter(stop_gradient(upper), spread(dtype.type(-np.inf), aval_of(upper).shape))
    return minimum(spread(last, shape), maximum(spread(first, shape), out))


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the standard normal distribution, given that they lie in the open interval (lower, upper).

    Args:
      key: a key.
      lower, upper: floats, or arrays of them, that broadcast to the shape.
      shape: of the result; what the bounds broadcast to where not given.
      dtype: a float dtype.
    Raises:
      ValueError: `dtype` is not a float dtype, or the bounds don't broadcast to the shape.

    >>> from xpr import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0, (2,))
    Array([0.8618594, 0.9412883], dtype=float32)
    """
    words, dtype = one_key(key, "truncated_normal"), float_dtype(dtype, "truncated_normal")
    lower, upper = parameter(lower, dtype), parameter(upper, dtype)
    shape = shape_for("truncated_normal", shape, lower=lower, upper=upper)
    return _truncated_normal(words, lower, upper, shape=shape, dtype=dtype)


@compiled
def _lognormal(words: Any, sigma: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exp(random_normals(*key_words(words), shape, dtype) * spread(sigma, shape))


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """exp of normal numbers of mean 0 and standard deviation `sigma`.

    >>> from xpr import random
    >>> random.lognormal(random.key(0), 0.5, (2,))
    Array([2.2508795, 2.752838 ], dtype=float32)
    """
    words, dtype = one_key(key, "lognormal"), float_dtype(dtype, "lognormal")
    sigma = parameter(sigma, dtype)
    return _lognormal(words, sigma, shape=shape_for("lognormal", shape, sigma=sigma), dtype=dtype)


@compiled
def _maxwell(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return _lengths(key_words(words), shape, dtype)


def _lengths(words: tuple[Any, Any], shape: Shape, dtype: np.dtype) -> Any:
    """The lengths of normal vectors in three dimensions."""
    vectors = random_normals(*words, (*shape, 3), dtype)
    x, y, z = (_square(vectors[..., i]) for i in range(3))
    return sqrt(convert_element_type(x + y + z, dtype))


def _square(x: Any) -> Any:
    """The square, of a half-precision number in float32."""
    return convert_element_type(x * x, dtypes.float32) if aval_of(x).dtype.itemsize < 4 else x * x


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the Maxwell distribution: lengths of vectors of three standard normal numbers.

    >>> from xpr import random
    >>> random.maxwell(random.key(0), (2,)).shape
    (2,)
    """
    return _maxwell(one_key(key, "maxwell"), shape=shape_of(shape), dtype=float_dtype(dtype, "maxwell"))


@compiled
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    words = key_words(key)
    sizes = _lengths(child(*words, 0), shape, dtype)
    return signs(child(*words, 1), shape, dtype) * sizes * spread(scale, shape) + spread(loc, shape)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers with a random sign, times `scale`, plus `loc`.

    The result has the shape `shape`, followed by what the parameters broadcast to.

    >>> from xpr import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "double_sided_maxwell"), float_dtype(dtype, "double_sided_maxwell")
    loc, scale = parameter(loc, dtype), parameter(scale, dtype)
    own = shape_for("double_sided_maxwell", None, loc=loc, scale=scale)
    return _double_sided_maxwell(words, loc, scale, shape=(shape_of(shape) or own) + own, dtype=dtype)


@compiled
def _wald(key: Any, mean: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    """The roots x and mean^2 / x of a quadratic in a squared normal number, the first taken with chance
    mean / (mean + x). Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots" (The American Statistician 30, 1976).
    """
    words = key_words(key)
    y = integer_pow(random_normals(*child(*words, 0), shape, dtype), 2)
    u = random_floats(*child(*words, 1), shape, dtype)
    two = dtype.type(2)
    mean = spread(mean, shape)
    square = integer_pow(mean, 2)
    root = sqrt(dtype.type(4) * mean * y + square * integer_pow(y, 2))
    x = mean + square * y / two - mean / two * root
    return where(u <= mean / (mean + x), x, square / x)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Wald, or inverse Gaussian, distribution of the given mean and of scale 1.

    >>> from xpr import random
    >>> random.wald(random.key(0), 1.5, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "wald"), float_dtype(dtype, "wald")
    mean = parameter(mean, dtype)
    return _wald(words, mean, shape=shape_for("wald", shape, mean=mean), dtype=dtype)

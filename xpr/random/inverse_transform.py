"""Numbers made from even ones by the inverse of a distribution function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of
from xpr.numpy.creation import shape_of
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import abs, convert_element_type, exp, floor, log, log1p, pow, sign, sqrt, tan
from xpr.primitives.random_bits import just_above_minus_one, key_words, random_floats, stretched
from xpr.random.keys import one_key
from xpr.random.parameters import float_dtype, integer_dtype, parameter, shape_for, spread
from xpr.random.uniforms import _check_mode


def _from(words: Any, low: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Floats evenly from [low, 1)."""
    return stretched(random_floats(*key_words(words), shape, dtype), dtype.type(low), dtype.type(1))


# -- Exponential and what is made of it


@compiled
def _exponential(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exponentials(key_words(words), shape, dtype)


def exponentials(words: tuple[Any, Any], shape: Shape, dtype: np.dtype) -> Any:
    """Exponential numbers from the words of a key."""
    return -log1p(-random_floats(*words, shape, dtype))


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the exponential distribution of mean 1.

    >>> from xpr import random
    >>> random.exponential(random.key(0), (2,))
    Array([2.950128 , 3.8434246], dtype=float32)
    """
    return _exponential(one_key(key, "exponential"), shape=shape_of(shape), dtype=float_dtype(dtype, "exponential"))


@compiled
def _pareto(words: Any, b: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return exp(exponentials(key_words(words), shape, dtype) / spread(b, shape))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Pareto distribution of exponent `b` and least value 1.

    >>> from xpr import random
    >>> random.pareto(random.key(0), 2.0, (2,))
    Array([4.371316, 6.832648], dtype=float32)
    """
    words, dtype = one_key(key, "pareto"), float_dtype(dtype, "pareto")
    b = parameter(b, dtype)
    return _pareto(words, b, shape=shape_for("pareto", shape, b=b), dtype=dtype)


@compiled
def _weibull_min(words: Any, scale: Any, concentration: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    drawn = exponentials(key_words(words), shape, dtype)
    return pow(drawn, spread(dtype.type(1) / concentration, shape)) * spread(scale, shape)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the Weibull distribution.

    >>> from xpr import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (2,))
    Array([1.7175937, 1.9604654], dtype=float32)
    """
    words, dtype = one_key(key, "weibull_min"), float_dtype(dtype, "weibull_min")
    scale, concentration = parameter(scale, dtype), parameter(concentration, dtype)
    shape = shape_for("weibull_min", shape, scale=scale, concentration=concentration)
    return _weibull_min(words, scale, concentration, shape=shape, dtype=dtype)


@compiled
def _rayleigh(words: Any, scale: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = random_floats(*key_words(words), shape, dtype)
    return spread(scale, shape) * sqrt(log(unit) * dtype.type(-2))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Rayleigh distribution.

    >>> from xpr import random
    >>> random.rayleigh(random.key(0), 1.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "rayleigh"), float_dtype(dtype, "rayleigh")
    scale = parameter(scale, dtype)
    return _rayleigh(words, scale, shape=shape_for("rayleigh", shape, scale=scale), dtype=dtype)


# -- Two-sided


@compiled
def _gumbel(words: Any, *, shape: Shape, dtype: np.dtype, mode: str) -> Any:
    return gumbels(key_words(words), shape, dtype, mode)


def gumbels(words: tuple[Any, Any], shape: Shape, dtype: np.dtype, mode: str) -> Any:
    """-log(-log u) from the words of a key.

    In the mode "high" a second number gives u below 1/2 more digits, and the first logarithm is that of 1 - u, so that
    large values are as finely spread as small ones.
    """
    info = dtypes.finfo(dtype)
    tiny = dtype.type(info.tiny)
    if mode == "low":
        return -log(-log(stretched(random_floats(*words, shape, dtype), tiny, dtype.type(1))))
    pair = random_floats(*words, (2, *shape), dtype)
    coarse, fine = pair[0], pair[1]
    u = where(coarse >= dtype.type(0.5), coarse, coarse + dtype.type(info.eps) * fine + tiny)
    return -log(-log1p(-u))


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Numbers from the Gumbel distribution, exp(-exp(-x)).

    Args:
      key: a key.
      shape: of the result.
      dtype: a float dtype.
      mode: "low" (as None), or "high" for large values in finer steps, from twice as many bits.

    >>> from xpr import random
    >>> random.gumbel(random.key(0), (2,))
    Array([2.9233725, 3.8326178], dtype=float32)
    """
    words, dtype = one_key(key, "gumbel"), float_dtype(dtype, "gumbel")
    mode = mode or "low"
    _check_mode("gumbel", mode)
    return _gumbel(words, shape=shape_of(shape), dtype=dtype, mode=mode)


@compiled
def _laplace(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(words, just_above_minus_one(dtype), shape, dtype)
    return sign(u) * log1p(-abs(u))


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the Laplace distribution, exp(-|x|) / 2.

    >>> from xpr import random
    >>> random.laplace(random.key(0), (2,))
    Array([-2.2569816, -3.1502788], dtype=float32)
    """
    return _laplace(one_key(key, "laplace"), shape=shape_of(shape), dtype=float_dtype(dtype, "laplace"))


@compiled
def _logistic(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(words, dtypes.finfo(dtype).tiny, shape, dtype)
    return log(u) - log1p(-u)


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the logistic distribution, 1 / (1 + exp(-x)).

    >>> from xpr import random
    >>> random.logistic(random.key(0), (2,))
    Array([2.896376 , 3.8217716], dtype=float32)
    """
    return _logistic(one_key(key, "logistic"), shape=shape_of(shape), dtype=float_dtype(dtype, "logistic"))


@compiled
def _cauchy(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = _from(words, dtypes.finfo(dtype).eps, shape, dtype)
    return tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the Cauchy distribution.

    >>> from xpr import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    return _cauchy(one_key(key, "cauchy"), shape=shape_of(shape), dtype=float_dtype(dtype, "cauchy"))


# -- Bounded, and whole


@compiled
def _triangular(words: Any, left: Any, mode: Any, right: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    u = random_floats(*key_words(words), shape, dtype)
    left, mode, right = (spread(x, shape) for x in (left, mode, right))
    rising = left + sqrt(u * (right - left) * (mode - left))
    falling = right - sqrt((dtype.type(1) - u) * (right - left) * (right - mode))
    return where(u < (mode - left) / (right - left), rising, falling)


def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the triangular distribution, whose density rises from `left` to `mode` and falls to `right`.

    >>> from xpr import random
    >>> random.triangular(random.key(0), 0.0, 0.5, 1.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "triangular"), float_dtype(dtype, "triangular")
    left, mode, right = (parameter(x, dtype) for x in (left, mode, right))
    shape = shape_for("triangular", shape, left=left, mode=mode, right=right)
    return _triangular(words, left, mode, right, shape=shape, dtype=dtype)


@compiled
def _geometric(words: Any, p: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = aval_of(p).dtype
    u = random_floats(*key_words(words), shape, unit)
    tries = floor(log(where(u == unit.type(0), unit.type(1), u)) / spread(log1p(-p), shape)) + unit.type(1)
    return convert_element_type(tries, dtype)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many tries it takes until one succeeds, each with chance `p`; 1 or more.

    >>> from xpr import random
    >>> random.geometric(random.key(0), 0.5, (3,))
    Array([1, 1, 2], dtype=int32)
    """
    words, dtype = one_key(key, "geometric"), integer_dtype(dtype, "geometric")
    own = aval_of(p).dtype
    p = parameter(p, own if own in dtypes.FLOATS else dtypes.canonical(float))
    return _geometric(words, p, shape=shape_for("geometric", shape, p=p), dtype=dtype)

"""Numbers drawn by rejection: gamma numbers and what is made of them; Poisson numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import Shape, aval_of
from xpr.numpy.creation import shape_of
from xpr.numpy.reductions import summed
from xpr.primitives.elementwise import abs, convert_element_type, exp, pow, sqrt
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.random_bits import child, entry_counts, key_words, threefry2x32
from xpr.primitives.random_gamma import random_gamma
from xpr.primitives.random_poisson import random_poisson
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import broadcast_to, expand_dims, reshape
from xpr.random.inverse_transform import exponentials
from xpr.random.keys import one_key
from xpr.random.normals import normals
from xpr.random.parameters import float_dtype, integer_dtype, parameter, shape_for, spread
from xpr.random.uniforms import signs

Words = tuple[Any, Any]


def gammas(words: Words, a: Any, shape: Shape, log_space: bool) -> Any:
    """Gamma numbers of shape parameter `a`, or their logarithms: each from a key of its own."""
    a = broadcast_to(a, shape)
    high, low = threefry2x32(*words, *entry_counts((aval_of(a).size,)))
    return random_gamma(reshape(high, shape), reshape(low, shape), a, log_space)


@compiled
def _gamma(words: Any, a: Any, *, shape: Shape) -> Any:
    return gammas(key_words(words), a, shape, log_space=False)


@compiled
def _loggamma(words: Any, a: Any, *, shape: Shape) -> Any:
    return gammas(key_words(words), a, shape, log_space=True)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the gamma distribution of shape parameter `a` and scale 1; differentiable in `a`.

    Args:
      key: a key.
      a: positive floats that broadcast to the shape.
      shape: of the result; that of `a` where not given.
      dtype: a float dtype.
    Raises:
      ValueError: `dtype` is not a float dtype, or `a` does not broadcast to the shape.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000).

    >>> from xpr import random
    >>> random.gamma(random.key(0), 2.0, (2,))
    Array([1.5897877, 1.7599413], dtype=float32)
    """
    words, dtype = one_key(key, "gamma"), float_dtype(dtype, "gamma")
    a = parameter(a, dtype)
    return _gamma(words, a, shape=shape_for("gamma", shape, a=a))


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of gamma numbers, finite also where those of a small `a` would be 0; see `gamma`.

    >>> from xpr import random
    >>> random.loggamma(random.key(0), 0.001, (2,))
    Array([-110.61791,  -95.54807], dtype=float32)
    """
    words, dtype = one_key(key, "loggamma"), float_dtype(dtype, "loggamma")
    a = parameter(a, dtype)
    return _loggamma(words, a, shape=shape_for("loggamma", shape, a=a))


@compiled
def _beta(key: Any, a: Any, b: Any, *, shape: Shape) -> Any:
    """x / (x + y) of two gamma numbers, from their logarithms."""
    words = key_words(key)
    x, y = (gammas(child(*words, i), v, shape, log_space=True) for i, v in ((0, a), (1, b)))
    greater = maximum(x, y)
    x, y = exp(x - greater), exp(y - greater)
    return x / (x + y)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the beta distribution of positive parameters `a` and `b`; differentiable in both.

    >>> from xpr import random
    >>> random.beta(random.key(0), 2.0, 3.0, (2,))
    Array([0.23627362, 0.49045965], dtype=float32)
    """
    words, dtype = one_key(key, "beta"), float_dtype(dtype, "beta")
    a, b = parameter(a, dtype), parameter(b, dtype)
    return _beta(words, a, b, shape=shape_for("beta", shape, a=a, b=b))


@compiled
def _dirichlet(words: Any, alpha: Any, *, shape: Shape) -> Any:
    """Gamma numbers over their sum, from their logarithms."""
    axis = len(shape) - 1
    logs = gammas(key_words(words), alpha, shape, log_space=True)
    greatest = maximum(aval_of(logs).dtype.type(-np.inf), reduce_max(logs, (axis,)))
    shares = exp(logs - stop_gradient(expand_dims(greatest, (axis,))))
    return shares / expand_dims(summed(shares, (axis,)), (axis,))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Vectors of positive numbers with sum 1, from the Dirichlet distribution; differentiable in `alpha`.

    Args:
      key: a key.
      alpha: positive floats; the last axis is that of the vectors.
      shape: of the result without that axis; that of `alpha` without it where not given.
      dtype: a float dtype.
    Raises:
      ValueError: `alpha` is a scalar, or does not broadcast to the shape.

    >>> from xpr import random, numpy as jnp
    >>> random.dirichlet(random.key(0), jnp.ones(3), (2,)).shape
    (2, 3)
    """
    words, dtype = one_key(key, "dirichlet"), float_dtype(dtype, "dirichlet")
    alpha = parameter(alpha, dtype)
    own = aval_of(alpha).shape
    if not own:
        raise ValueError("random.dirichlet: alpha must have an axis, that of the vectors, and is a scalar.")
    shape = own if shape is None else shape_for("dirichlet", (*shape_of(shape), own[-1]), alpha=alpha)
    return _dirichlet(words, alpha, shape=shape)


# -- Of normal numbers: Student's t, chi-square and F


@compiled
def _chisquare(words: Any, df: Any, *, shape: Shape) -> Any:
    return _chisquares(key_words(words), df, shape)


def _chisquares(words: Words, df: Any, shape: Shape) -> Any:
    two = aval_of(df).dtype.type(2)
    return exp(gammas(words, df / two, shape, log_space=True)) * two


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the chi-square distribution of `df` degrees of freedom.

    >>> from xpr import random
    >>> random.chisquare(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "chisquare"), float_dtype(dtype, "chisquare")
    df = parameter(df, dtype)
    return _chisquare(words, df, shape=shape_for("chisquare", shape, df=df))


@compiled
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: Shape) -> Any:
    words = key_words(key)
    above = _chisquares(child(*words, 1), dfnum, shape) / spread(dfnum, shape)
    return above / (_chisquares(child(*words, 0), dfden, shape) / spread(dfden, shape))


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from Fisher's F distribution of `dfnum` and `dfden` degrees of freedom.

    >>> from xpr import random
    >>> random.f(random.key(0), 3.0, 4.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "f"), float_dtype(dtype, "f")
    dfnum, dfden = parameter(dfnum, dtype), parameter(dfden, dtype)
    return _f(words, dfnum, dfden, shape=shape_for("f", shape, dfnum=dfnum, dfden=dfden))


@compiled
def _t(key: Any, df: Any, *, shape: Shape) -> Any:
    words, dtype = key_words(key), aval_of(df).dtype
    half = df / dtype.type(2)
    scale = sqrt(spread(half, shape) / gammas(child(*words, 1), half, shape, log_space=False))
    return normals(child(*words, 0), shape, dtype) * scale


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from Student's t distribution of `df` degrees of freedom.

    >>> from xpr import random
    >>> random.t(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "t"), float_dtype(dtype, "t")
    df = parameter(df, dtype)
    return _t(words, df, shape=shape_for("t", shape, df=df))


# -- Counts


@compiled
def _poisson(words: Any, lam: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return convert_element_type(random_poisson(*key_words(words), broadcast_to(lam, shape)), dtype)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Poisson distribution of rate `lam`: how many events there are, of so many on the average.

    Args:
      key: a key.
      lam: floats, 0 or more, that broadcast to the shape; the result is -1 where one is negative or nan.
      shape: of the result; that of `lam` where not given.
      dtype: an integer dtype.
    Raises:
      ValueError: `dtype` is not an integer dtype, or `lam` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.poisson(random.key(0), 3.0, (4,))
    Array([0, 0, 4, 4], dtype=int32)
    """
    words, dtype = one_key(key, "poisson"), integer_dtype(dtype, "poisson")
    lam = parameter(lam, dtypes.canonical(float))
    return _poisson(words, lam, shape=shape_for("poisson", shape, lam=lam), dtype=dtype)


# -- Densities like exp(-|x|^p)


@compiled
def _generalized_normal(words: Any, p: Any, *, shape: Shape) -> Any:
    return _generalized_normals(key_words(words), p, shape)


def _generalized_normals(words: Words, p: Any, shape: Shape) -> Any:
    dtype = aval_of(p).dtype
    inverse = dtype.type(1) / p
    sizes = pow(gammas(child(*words, 0), inverse, shape, log_space=False), spread(inverse, shape))
    return signs(child(*words, 1), shape, dtype) * sizes


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the density exp(-|x|^p), but for its constant.

    >>> from xpr import random
    >>> random.generalized_normal(random.key(0), 1.5, (2,)).shape
    (2,)
    """
    words, dtype = one_key(key, "generalized_normal"), float_dtype(dtype, "generalized_normal")
    p = parameter(p, dtype)
    return _generalized_normal(words, p, shape=shape_for("generalized_normal", shape, p=p))


@compiled
def _ball(key: Any, p: Any, *, d: int, shape: Shape) -> Any:
    words, dtype = key_words(key), aval_of(p).dtype
    vectors = _generalized_normals(child(*words, 0), p, (*shape, d))
    radius = summed(pow(abs(vectors), p), (len(shape),)) + exponentials(child(*words, 1), shape, dtype)
    return vectors / expand_dims(pow(radius, dtype.type(1) / p), (len(shape),))


def ball(key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points evenly from the unit ball of `d` dimensions, in the norm of exponent `p`; the last axis is of size `d`.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n-ball" (Annals of
    Probability 33, 2005).

    >>> from xpr import random
    >>> random.ball(random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    words, dtype = one_key(key, "ball"), float_dtype(dtype, "ball")
    (d,) = shape_of(d)
    return _ball(words, parameter(p, dtype), d=d, shape=shape_of(shape))

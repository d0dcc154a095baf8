"""Distributions drawn by rejection: gamma and those computed from it, and Poisson."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import Shape, aval_of
from xpr.numpy.reductions import summed
from xpr.primitives.elementwise import abs, convert_element_type, exp, pow, sqrt
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.random_gamma import random_gamma
from xpr.primitives.random_keys import children
from xpr.primitives.random_poisson import random_poisson, rates_of
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import broadcast_to, expand_dims, shape_of
from xpr.primitives.sharding_constraint import sharded
from xpr.random.independent_draws import independent_draws
from xpr.random.inverse_transform import exponentials
from xpr.random.keys import one_key
from xpr.random.normals import normals
from xpr.random.parameters import broadcast, float_dtype, integer_dtype, parameter, shape_for
from xpr.random.uniforms import signs

__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "poisson", "t"]


def gammas(key: Any, a: Any, shape: Shape, log_space: bool) -> Any:
    """Gamma numbers of shape parameter `a`, or their logarithms: each from a key of its own."""
    return random_gamma(key, broadcast_to(a, shape), log_space)


@independent_draws
def _gamma(key: Any, a: Any, *, shape: Shape) -> Any:
    return gammas(key, a, shape, log_space=False)


@independent_draws
def _loggamma(key: Any, a: Any, *, shape: Shape) -> Any:
    return gammas(key, a, shape, log_space=True)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the gamma distribution with shape parameter `a` and scale 1; differentiable in `a`.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000).

    Args:
      key: a key.
      a: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of `a`.
      dtype: a float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `a` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.gamma(random.key(0), 2.0, (2,))
    Array([1.5897877, 1.7599413], dtype=float32)
    """
    key, dtype = one_key(key, "gamma"), float_dtype(dtype, "gamma")
    a = parameter(a, dtype)
    return sharded(_gamma(key, a, shape=shape_for("gamma", shape, a=a)), out_sharding, "gamma")


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """The logarithms of numbers from the gamma distribution, finite also where those of a small `a` underflow.

    Args:
      key: a random key.
      a: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of `a`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `a` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.loggamma(random.key(0), 0.001, (2,))
    Array([-110.61791,  -95.54807], dtype=float32)
    """
    key, dtype = one_key(key, "loggamma"), float_dtype(dtype, "loggamma")
    a = parameter(a, dtype)
    return sharded(_loggamma(key, a, shape=shape_for("loggamma", shape, a=a)), out_sharding, "loggamma")


@independent_draws
def _beta(key: Any, a: Any, b: Any, *, shape: Shape) -> Any:
    """x / (x + y) of two gamma numbers, from their logarithms."""
    x, y = (gammas(each, v, shape, log_space=True) for each, v in zip(children(key, 2), (a, b)))
    greater = maximum(x, y)
    x, y = exp(x - greater), exp(y - greater)
    return x / (x + y)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the beta distribution with parameters `a` and `b`; differentiable in both.

    Args:
      key: a random key.
      a: positive floats that broadcast to the shape.
      b: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of the parameters, broadcast.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast to the shape.

    >>> from xpr import random
    >>> random.beta(random.key(0), 2.0, 3.0, (2,))
    Array([0.23627362, 0.49045965], dtype=float32)
    """
    key, dtype = one_key(key, "beta"), float_dtype(dtype, "beta")
    a, b = parameter(a, dtype), parameter(b, dtype)
    return sharded(_beta(key, a, b, shape=shape_for("beta", shape, a=a, b=b)), out_sharding, "beta")


@compiled
def _dirichlet(key: Any, alpha: Any, *, shape: Shape) -> Any:
    """Gamma numbers over their sum, from their logarithms."""
    axis = len(shape) - 1
    logs = gammas(key, alpha, shape, log_space=True)
    greatest = maximum(aval_of(logs).dtype.type(-np.inf), reduce_max(logs, (axis,)))
    proportions = exp(logs - stop_gradient(expand_dims(greatest, (axis,))))
    return proportions / expand_dims(summed(proportions, (axis,)), (axis,))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random vectors of positive numbers with sum 1 from the Dirichlet distribution; differentiable in `alpha`.

    Args:
      key: a key.
      alpha: positive floats [..., n].
      shape: the shape of the result without its last axis; None for that of `alpha`.
      dtype: a float dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [*shape, n].

    Raises:
      ValueError: `alpha` is a scalar, or does not broadcast to the shape.

    >>> from xpr import random, numpy as jnp
    >>> random.dirichlet(random.key(0), jnp.ones(3), (2,)).shape
    (2, 3)
    """
    key, dtype = one_key(key, "dirichlet"), float_dtype(dtype, "dirichlet")
    alpha = parameter(alpha, dtype)
    alpha_shape = aval_of(alpha).shape
    if not alpha_shape:
        raise ValueError("random.dirichlet: alpha must have an axis, that of the vectors, and is a scalar.")
    shape = alpha_shape if shape is None else shape_for("dirichlet", (*shape_of(shape), alpha_shape[-1]), alpha=alpha)
    return sharded(_dirichlet(key, alpha, shape=shape), out_sharding, "dirichlet")


# -- Of normal numbers: Student's t, chi-square and F


@independent_draws
def _chisquare(key: Any, df: Any, *, shape: Shape) -> Any:
    return _chisquares(key, df, shape)


def _chisquares(key: Any, df: Any, shape: Shape) -> Any:
    two = aval_of(df).dtype.type(2)
    return exp(gammas(key, df / two, shape, log_space=True)) * two


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the chi-square distribution with `df` degrees of freedom.

    Args:
      key: a random key.
      df: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of `df`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `df` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.chisquare(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "chisquare"), float_dtype(dtype, "chisquare")
    df = parameter(df, dtype)
    return sharded(_chisquare(key, df, shape=shape_for("chisquare", shape, df=df)), out_sharding, "chisquare")


@independent_draws
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: Shape) -> Any:
    for_below, for_above = children(key, 2)
    above = _chisquares(for_above, dfnum, shape) / broadcast(dfnum, shape)
    return above / (_chisquares(for_below, dfden, shape) / broadcast(dfden, shape))


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the F distribution with `dfnum` and `dfden` degrees of freedom.

    Args:
      key: a random key.
      dfnum: degrees of freedom of the numerator, positive floats that broadcast to the shape.
      dfden: degrees of freedom of the denominator, positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of the parameters, broadcast.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast to the shape.

    >>> from xpr import random
    >>> random.f(random.key(0), 3.0, 4.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "f"), float_dtype(dtype, "f")
    dfnum, dfden = parameter(dfnum, dtype), parameter(dfden, dtype)
    return sharded(_f(key, dfnum, dfden, shape=shape_for("f", shape, dfnum=dfnum, dfden=dfden)), out_sharding, "f")


@independent_draws
def _t(key: Any, df: Any, *, shape: Shape) -> Any:
    for_normal, for_scale = children(key, 2)
    dtype = aval_of(df).dtype
    half = df / dtype.type(2)
    scale = sqrt(broadcast(half, shape) / gammas(for_scale, half, shape, log_space=False))
    return normals(for_normal, shape, dtype) * scale


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from Student's t distribution with `df` degrees of freedom.

    Args:
      key: a random key.
      df: positive floats that broadcast to the shape.
      shape: the shape of the result; None for that of `df`.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `df` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.t(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "t"), float_dtype(dtype, "t")
    df = parameter(df, dtype)
    return sharded(_t(key, df, shape=shape_for("t", shape, df=df)), out_sharding, "t")


# -- Counts


@compiled
def _poisson(key: Any, lam: Any, *, shape: Shape, dtype: np.dtype, rates: str) -> Any:
    """All elements are drawn again until the last one is accepted, so each number depends on the whole shape."""
    return convert_element_type(random_poisson(key, broadcast_to(lam, shape), rates), dtype)


@independent_draws
def _poisson_of_small_rate(key: Any, lam: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return convert_element_type(random_poisson(key, broadcast_to(lam, shape), "small"), dtype)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the Poisson distribution of rate `lam`.

    Args:
      key: a key.
      lam: rates, floats of at least 0 that broadcast to the shape; the result is -1 where one is negative or nan.
      shape: the shape of the result; None for that of `lam`.
      dtype: an integer dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Integers of the shape.

    Raises:
      ValueError: `dtype` is not an integer dtype, or `lam` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.poisson(random.key(0), 3.0, (4,))
    Array([0, 0, 4, 4], dtype=int32)
    """
    key, dtype = one_key(key, "poisson"), integer_dtype(dtype, "poisson")
    rates, lam = rates_of(lam), parameter(lam, dtypes.float32)  # of any dtype, as in JAX, so that numbers are the same
    shape = shape_for("poisson", shape, lam=lam)
    if rates == "small":
        numbers = _poisson_of_small_rate(key, lam, shape=shape, dtype=dtype)
    else:
        numbers = _poisson(key, lam, shape=shape, dtype=dtype, rates=rates)
    return sharded(numbers, out_sharding, "poisson")


# -- Densities like exp(-|x|^p)


@independent_draws
def _generalized_normal(key: Any, p: Any, *, shape: Shape) -> Any:
    return _generalized_normals(key, p, shape)


def _generalized_normals(key: Any, p: Any, shape: Shape) -> Any:
    for_sizes, for_signs = children(key, 2)
    dtype = aval_of(p).dtype
    inverse = dtype.type(1) / p
    sizes = pow(gammas(for_sizes, inverse, shape, log_space=False), broadcast(inverse, shape))
    return signs(for_signs, shape, dtype) * sizes


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random numbers from the generalized normal distribution, whose density is proportional to exp(-|x|^p).

    Args:
      key: a random key.
      p: exponents, positive floats that broadcast to the shape.
      shape: the shape of the result.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or `p` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.generalized_normal(random.key(0), 1.5, (2,)).shape
    (2,)
    """
    key, dtype = one_key(key, "generalized_normal"), float_dtype(dtype, "generalized_normal")
    p = parameter(p, dtype)
    return sharded(
        _generalized_normal(key, p, shape=shape_for("generalized_normal", shape, p=p)),
        out_sharding,
        "generalized_normal",
    )


@compiled
def _ball(key: Any, p: Any, *, d: int, shape: Shape) -> Any:
    for_vectors, for_radius = children(key, 2)
    dtype = aval_of(p).dtype
    vectors = _generalized_normals(for_vectors, p, (*shape, d))
    radius = summed(pow(abs(vectors), p), (len(shape),)) + exponentials(for_radius, shape, dtype)
    return vectors / expand_dims(pow(radius, dtype.type(1) / p), (len(shape),))


def ball(key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random points, uniform in the unit ball of `d` dimensions in the p-norm.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n-ball" (Annals of
    Probability 33, 2005).

    Args:
      key: a random key.
      d: the number of dimensions.
      p: the exponent of the norm.
      shape: the shape of the result without its last axis.
      dtype: a float dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [*shape, d].

    Raises:
      TypeError: `d` is not an integer.
      ValueError: `dtype` is not a float dtype.

    >>> from xpr import random
    >>> random.ball(random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    key, dtype = one_key(key, "ball"), float_dtype(dtype, "ball")
    (d,) = shape_of([d])
    return sharded(_ball(key, parameter(p, dtype), d=d, shape=shape_of(shape)), out_sharding, "ball")

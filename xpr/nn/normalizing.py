"""Functions over whole axes: softmax and its logarithm, logsumexp, standardize, one_hot.

The greatest element is subtracted before exponentials are taken, so they never overflow. Differentiation treats it as
a constant: the result is invariant to shifts, so its contribution would be zero.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.compiled import CompiledFunction, compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import as_size, is_symbolic_dim
from xpr.numpy import arithmetic, exponentials, powers, reductions, statistics
from xpr.numpy.axes import names_in, reduced_axes, split_axes
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_inexact, promote_shapes, requested_dtype
from xpr.numpy.reductions import broadcast_back, elements_along, mask_of, summed
from xpr.primitives import elementwise as e
from xpr.primitives.collectives.reduce import pmax
from xpr.primitives.dimension_values import size_as
from xpr.primitives.reductions import reduce_max_of_numbers_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, full, one_axis
from xpr.primitives.slicing import broadcasted_iota, select

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]


def _prepared(name: str, x: Any, axis: Any, where: Any) -> tuple[Any, ...]:
    """The operand as strong floats; the axes; the names of mapped axes; and the mask, if there is one."""
    (x,) = promote_inexact(x)
    x = convert(x, aval_of(x).dtype)
    axes, names = split_axes(axis, aval_of(x).ndim)
    if where is None:
        return x, axes, names
    return x, axes, names, mask_of(name, where, aval_of(x).shape)


def _over_mapped(program: CompiledFunction, names: tuple[str, ...]) -> Any:
    """The program, or where mapped axes are named its function: their sizes are not part of the program's cache key."""
    return partial(program.fun, names=names) if names else program


def _masked(x: Any, where: Any) -> Any:
    """The operand with -inf where `where` is False."""
    return x if where is None else select(where, x, full(aval_of(x).shape, -np.inf, aval_of(x).dtype))


def _greatest(x: Any, shape: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...]) -> Any:
    """The maximum (by real part) over the axes, without a derivative; -inf of no elements.

    It is subtracted from all elements, so a nan propagates even if it is left out here.
    """
    if aval_of(x).dtype in dtypes.COMPLEX:
        x = e.real(x)
    if elements_along(shape, axes):
        constant = x if type(x) is Array else stop_gradient(x)  # an array in memory has no derivative to stop
        greatest = reduce_max_of_numbers_p.bind(constant, axes=axes)
        return pmax(greatest, names) if names else greatest
    return full([n for i, n in enumerate(shape) if i not in axes], -np.inf, aval_of(x).dtype)


def _finite_or_zero(x: Any) -> Any:
    return select(e.is_finite(x), x, full(aval_of(x).shape, 0, aval_of(x).dtype))


def _shifted(x: Any, shape: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...], is_masked: bool) -> Any:
    """x less its maximum over the axes, so that no exponential overflows."""
    top = _greatest(x, shape, axes, names)
    if is_masked:
        top = _finite_or_zero(top)  # it is -inf in a row that is masked everywhere
    top = convert(top, aval_of(x).dtype)
    return e.sub(x, broadcast_back(top, shape, axes))


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) over its sum along axes; elements that `where` leaves out are 0.

    Args:
      x: array of numbers.
      axis: the axis or axes, those of the array by number, mapped ones by name; None for all of the array.
      where: booleans that broadcast against `x`, which elements to include; None for all.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.softmax(jnp.array([1000.0, 1000.0, 0.0]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    x, axes, names, *mask = _prepared("nn.softmax", x, axis, where)
    return _over_mapped(_softmax, names)(x, *mask, axes=axes)


@compiled
def _softmax(x: Any, where: Any = None, *, axes: tuple[int, ...], names: tuple[str, ...] = ()) -> Any:
    return _weights(axes, names, where is not None, _masked(x, where))


@partial(custom_jvp, nondiff_argnums=(0, 1, 2))
def _weights(axes: tuple[int, ...], names: tuple[str, ...], is_masked: bool, x: Any) -> Any:
    shape = aval_of(x).shape
    weights = e.exp(_shifted(x, shape, axes, names, is_masked))
    total = summed(weights, axes, names)
    if is_masked:
        total = select(e.eq(total, e.scalar(0, total)), full(aval_of(total).shape, 1, aval_of(total).dtype), total)
    return e.div(weights, broadcast_back(total, shape, axes))


@_weights.defjvp
def _weights_jvp(axes: tuple[int, ...], names: tuple[str, ...], is_masked: bool, primals: Any, tangents: Any) -> Any:
    """Of y the tangent is y (t - sum(y t)), so that the result is the only residual."""
    (x,), (t,) = primals, tangents
    y = _weights(axes, names, is_masked, x)
    moved = e.mul(y, t)
    return y, e.sub(moved, e.mul(y, broadcast_back(summed(moved, axes, names), aval_of(x).shape, axes)))


@compiled_eagerly("axis")
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """The logarithm of `softmax`, x - logsumexp(x); elements that `where` leaves out are -inf.

    Args:
      x: array of numbers.
      axis: the axis or axes, those of the array by number, mapped ones by name; None for all of the array.
      where: booleans that broadcast against `x`, which elements to include; None for all.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log_softmax(jnp.array([0.0, 1000.0]))
    Array([-1000.,     0.], dtype=float32)
    """
    x, axes, names, *mask = _prepared("nn.log_softmax", x, axis, where)
    return _over_mapped(_log_softmax, names)(x, *mask, axes=axes)


@compiled
def _log_softmax(x: Any, where: Any = None, *, axes: tuple[int, ...], names: tuple[str, ...] = ()) -> Any:
    x, shape = _masked(x, where), aval_of(x).shape
    shifted = _shifted(x, shape, axes, names, where is not None)
    total = summed(e.exp(shifted), axes, names)
    return _masked(e.sub(shifted, broadcast_back(e.log(total), shape, axes)), where)


@compiled_eagerly("axis")
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b exp(a))) over axes, without overflow.

    Args:
      a: array of numbers.
      axis: the axis or axes, those of the array by number, mapped ones by name; None for all of the array.
      b: factors that broadcast against `a`; None for 1.
      keepdims: whether the reduced axes stay, with size 1.
      return_sign: whether to return the logarithm of the sum's absolute value, and its sign; without it the logarithm
        of a negative sum is nan.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`); with `return_sign` `(logarithm, sign)`.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.logsumexp(jnp.array([1000.0, 1000.0]))
    Array(1000.6931, dtype=float32)
    """
    if b is None:
        a, axes, names, *mask = _prepared("nn.logsumexp", a, axis, where)
        outs = _over_mapped(_logsumexp, names)(a, *mask, axes=axes, return_sign=return_sign)
    else:
        a, b = promote_shapes(*promote_inexact(a, b))
        (a, axes, names, *mask), shape = _prepared("nn.logsumexp", a, axis, where), aval_of(a).shape
        b = broadcast_to(convert(b, aval_of(a).dtype), shape)
        program = _over_mapped(_logsumexp_with_factors, names)
        outs = program(broadcast_to(a, shape), b, *mask, axes=axes, return_sign=return_sign)
    if keepdims:
        outs = [expand_dims(x, axes) for x in outs]
    return tuple(outs) if return_sign else outs[0]


@compiled
def _logsumexp(
    a: Any, where: Any = None, *, axes: tuple[int, ...], names: tuple[str, ...] = (), return_sign: bool
) -> Any:
    return _log_of_sum(_masked(a, where), None, axes, names, return_sign)


@compiled
def _logsumexp_with_factors(
    a: Any, b: Any, where: Any = None, *, axes: tuple[int, ...], names: tuple[str, ...] = (), return_sign: bool
) -> Any:
    zero = e.eq(b, e.scalar(0, b))
    return _log_of_sum(_masked(a, where), b, axes, names, return_sign, zero)


def _log_of_sum(
    a: Any, b: Any, axes: tuple[int, ...], names: tuple[str, ...], return_sign: bool, zero: Any = None
) -> list[Any]:
    """The logarithm of the sum; or of its absolute value, with its sign.

    Elements whose factor is `zero` have no part in the greatest one. Their exponentials are the slopes of the sum in
    those factors, and are left out where they overflow, since infinity times 0 is nan.
    """
    shape, dtype = aval_of(a).shape, aval_of(a).dtype
    top = _finite_or_zero(_greatest(a if zero is None else _masked(a, e.bitwise_not(zero)), shape, axes, names))
    shift = convert(top, dtype)
    exponents = e.sub(a, broadcast_back(shift, shape, axes))
    if b is not None:
        size = e.real(exponents) if dtype in dtypes.COMPLEX else exponents
        limit = e.scalar(np.log(float(dtypes.finfo(dtype).max)) - 1, size)  # a compiled `exp` may overflow before
        exponents = _masked(exponents, e.bitwise_not(e.bitwise_and(zero, e.bitwise_not(e.lt(size, limit)))))
    weights = e.exp(exponents)
    if b is not None:
        weights = e.mul(weights, b)
    total = summed(weights, axes, names)
    if not return_sign:
        return [e.add(e.log(total), shift)]
    return [e.add(e.log(e.abs(total)), top), e.sign(total)]


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) over axes, without overflow.

    Args:
      x: array of numbers.
      axis: the axis or axes, those of the array by number, mapped ones by name; None for all of the array.
      where: booleans that broadcast against `x`, which elements to include; None for all.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.logmeanexp(jnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = aval_of(as_operand(x)).shape
    axes, names = split_axes(axis, len(shape))
    real = dtypes.real_part_of(aval_of(total).dtype)
    if where is not None:
        count = convert(reductions.sum(broadcast_to(where, shape), (*axes, *names), keepdims=keepdims), real)
    elif is_symbolic_dim(size := elements_along(shape, axes, names)):
        count = size_as(size, real)
    else:
        return arithmetic.subtract(total, float(np.log(size)) if size else -math.inf)
    return arithmetic.subtract(total, exponentials.log(count))


@compiled_eagerly("axis")
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon), with mean and variance along axes.

    Args:
      x: array of numbers.
      axis: the axis or axes, those of the array by number, mapped ones by name; None for all of the array.
      mean: the mean; None to compute it.
      variance: the variance; None to compute it.
      epsilon: added to the variance.
      where: booleans that broadcast against `x`, which elements the mean and variance include; None for all.
      algorithm: of the variance: "fast" for mean(x^2) - mean(x)^2; "stable" for mean((x - mean)^2), which keeps its
        digits where the mean is large.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: there is no such axis, `where` is not boolean, or there is no such algorithm.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.standardize(jnp.array([-1.0, 1.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f'standardize: algorithm must be "fast" or "stable", and is {algorithm!r}.')
    (x,) = promote_inexact(x)
    if mean is variance is where is None and isinstance(epsilon, (int, float)) and not names_in(axis):
        return _standardize(x, axes=reduced_axes(axis, aval_of(x).ndim), epsilon=epsilon, algorithm=algorithm)
    return _standardized(x, axis, mean, variance, epsilon, where, algorithm)


def _standardized(x: Any, axis: Any, mean: Any, variance: Any, epsilon: Any, where: Any, algorithm: str) -> Any:
    if mean is None:
        mean = statistics.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = _variance(x, axis, mean, where, algorithm)
    return arithmetic.multiply(arithmetic.subtract(x, mean), e.rsqrt(asarray_like(arithmetic.add(variance, epsilon))))


@compiled
def _standardize(x: Any, *, axes: tuple[int, ...], epsilon: float, algorithm: str) -> Any:
    return _standardized(x, axes, None, None, epsilon, None, algorithm)


def _variance(x: Any, axis: Any, mean: Any, where: Any, algorithm: str) -> Any:
    if algorithm == "stable":
        return statistics.mean(powers.square(arithmetic.subtract(x, mean)), axis, keepdims=True, where=where)
    of_squares = statistics.mean(powers.square(x), axis, keepdims=True, where=where)
    return arithmetic.maximum(arithmetic.subtract(of_squares, powers.square(mean)), 0)


@compiled_eagerly("num_classes", "axis")
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """For each index a vector that is 1 at the index and 0 elsewhere; all zeros if the index is out of bounds.

    Args:
      x: indices, of any shape; also nested lists of them.
      num_classes: the length of the vectors.
      dtype: of the result; None for the default float dtype.
      axis: the axis of the vectors in the result.

    Returns:
      An array with one more axis than `x`.

    Raises:
      ValueError: the result has no such axis.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.one_hot(jnp.array([0, 2, 5]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    x = asarray(x)
    aval = aval_of(x)
    if isinstance(num_classes, Tracer):
        num_classes.static_integer("The length of vectors, in jax.nn.one_hot argument `num_classes`,")
    num_classes = as_size(num_classes)
    at = one_axis(axis, aval.ndim + 1)
    wide = dtypes.float32 if aval.dtype in dtypes.FLOATS else dtypes.int32
    index_type = aval.dtype if aval.dtype.itemsize >= 4 else wide
    shape = (*aval.shape[:at], num_classes, *aval.shape[at:])
    kept = [i for i in range(len(shape)) if i != at]
    indices = broadcast_in_dim(convert(x, index_type), shape, kept)
    hot = e.eq(indices, broadcasted_iota(index_type, shape, at))
    return convert(hot, dtypes.of_python(float) if dtype is None else requested_dtype(dtype))

"""Means, variances, averages, covariances.

They are computed in floating point, float32 for half-precision operands; integers are converted first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import aval_of
from xpr.numpy import complex_numbers, creation, reductions, rounding
from xpr.numpy.axes import no_out, reduced_axes
from xpr.numpy.creation import is_eager
from xpr.numpy.promotion import as_operand, convert, promote_inexact, requested_dtype, select_scalar
from xpr.numpy.reductions import computed_in, entries_along, masked, spread_back
from xpr.primitives import elementwise as e
from xpr.primitives.dot import dot_general
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, full, reduce_sum_p, reshape, transpose
from xpr.primitives.slicing import broadcasted_iota, concatenate, select

_PLAIN = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """The mean over some axes, of all entries where no axis is said; nan of none.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.mean(jnp.array([[1, 2], [3, 5]]), axis=0)
    Array([2. , 3.5], dtype=float32)
    """
    aval: Any = getattr(a, "aval", None)
    simple = aval is not None and dtype is where is out is None
    if simple and aval.dtype in _PLAIN and not aval.weak_type and not dtypes.is_narrowed(aval.dtype):
        return (_mean_program if is_eager() else _mean)(a, axes=reduced_axes(axis, aval.ndim), keepdims=keepdims)
    no_out("mean", out)
    a = as_operand(a)
    given = dtypes.to_inexact(aval_of(a).dtype) if dtype is None else requested_dtype(dtype)
    a = convert(a, computed_in(dtypes.to_inexact(given)))
    axes = reduced_axes(axis, aval_of(a).ndim)
    if where is None and is_eager():
        return convert(_mean_program(a, axes=axes, keepdims=keepdims), given)
    return convert(_mean(a, where, axes=axes, keepdims=keepdims), given)


def _mean(a: Any, where: Any = None, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The mean of strong floats over axes counted from the front."""
    aval = aval_of(a)
    count = entries_along(aval.shape, axes) if where is None else count_where(where, aval.shape, axes, aval.dtype)
    total = reduce_sum_p.bind(a if where is None else masked(a, where, 0), axes=axes)
    result = e.div(total, aval.dtype.type(count) if where is None else convert(count, aval.dtype))
    return expand_dims(result, axes) if keepdims else result


_mean_program = compiled(_mean)  # it is short enough to stand in a jaxpr as it is


def count_where(where: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: np.dtype) -> Any:
    """How many entries a mask leaves in each row, in floating point."""
    return convert(reductions.sum(broadcast_to(as_operand(where), shape), axes), dtypes.real_part_of(dtype))


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """The mean squared distance from the mean over some axes; real also for complex entries.

    Args:
      dtype: to compute in, and of the result.
      ddof: subtracted from the number of entries before dividing by it (`correction` is the same); where nothing is
        left, the result is nan.
      where: which entries to take.
      mean: the means, with the reduced axes kept, if they are known already.
    Raises:
      ValueError: there is no such axis, `where` is not boolean, or both `ddof` and `correction` are given.

    >>> import xpr.numpy as jnp
    >>> jnp.var(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array(1.25, dtype=float32)
    """
    no_out("var", out)
    ddof = _one_correction("var", ddof, correction)
    return _spread(as_operand(a), axis, dtype, ddof, keepdims, where, mean, False)


def _one_correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if isinstance(ddof, (int, float)) and not ddof:
        return correction
    raise ValueError(f"{name}: ddof and correction are two names of one thing; give one of them.")


def _spread(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean: Any, root: bool) -> Any:
    """`var` or, with `root`, `std`."""
    computed, given = _dtypes_of_variance(aval_of(a).dtype, dtype)
    axes = reduced_axes(axis, aval_of(a).ndim)
    options = {"axes": axes, "computed": computed, "given": given, "keepdims": keepdims, "root": root}
    if where is None and mean is None and isinstance(ddof, (int, float)):
        return _variance(a, ddof=ddof, **options)
    return _variance.fun(a, where, mean, ddof=ddof, **options)


@compiled
def _variance(
    a: Any,
    where: Any = None,
    mean: Any = None,
    *,
    ddof: Any,
    axes: tuple[int, ...],
    computed: np.dtype,
    given: np.dtype,
    keepdims: bool,
    root: bool,
) -> Any:
    a = convert(a, computed)
    shape = aval_of(a).shape
    if mean is None:
        center = spread_back(_mean(a, where, axes=axes, keepdims=False), shape, axes)
    else:
        center = broadcast_to(convert(as_operand(mean), computed), shape)
    deviations = e.sub(a, center)
    if where is not None:
        deviations = masked(deviations, where, 0)
    total = reduce_sum_p.bind(_squared_size(deviations), axes=axes)
    result = convert(_divided(total, shape, axes, where, ddof), given)
    if root:
        result = _root_of_variance(result, mean is None and _is_single(shape, axes, where))
    return expand_dims(result, axes) if keepdims else result


def _is_single(shape: tuple[int, ...], axes: tuple[int, ...], where: Any) -> Any:
    """Whether one entry is left in each row."""
    if where is None:
        return entries_along(shape, axes) == 1
    return e.eq(reductions.sum(broadcast_to(where, shape), axes, dtypes.int32), np.int32(1))


def _root_of_variance(variance: Any, single: Any) -> Any:
    """The square root. The variance of a single entry is 0 whatever that is, and is its own root, so derivatives are 0.

    Elsewhere a root of 0 has infinite derivatives.
    """
    if isinstance(single, bool):
        return variance if single else e.sqrt(variance)
    safe = select(single, full(aval_of(variance).shape, 1, aval_of(variance).dtype), variance)
    return select(single, variance, e.sqrt(safe))


def _dtypes_of_variance(own: np.dtype, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """The dtype to compute in, and that of the result."""
    own = dtypes.to_inexact(own)
    wanted = own if dtype is None else dtypes.to_inexact(requested_dtype(dtype))
    if own in dtypes.COMPLEX and wanted not in dtypes.COMPLEX:
        raise ValueError(f"var: dtype={wanted.name} is real, and the entries are complex. Give a complex one, or none.")
    return computed_in(wanted), dtypes.real_part_of(wanted)


def _squared_size(x: Any) -> Any:
    if aval_of(x).dtype in dtypes.COMPLEX:
        return e.add(e.square(e.real(x)), e.square(e.imag(x)))
    return e.square(x)


def _divided(total: Any, shape: tuple[int, ...], axes: tuple[int, ...], where: Any, ddof: Any) -> Any:
    """Sums over their number of entries less `ddof`; nan where that is not positive."""
    dtype = aval_of(total).dtype
    if where is None and not hasattr(ddof, "aval"):
        count = entries_along(shape, axes) - ddof
        return e.div(total, dtype.type(count if count > 0 else np.nan))
    count = dtype.type(entries_along(shape, axes)) if where is None else count_where(where, shape, axes, dtype)
    count = e.sub(count, convert(as_operand(ddof), dtype))
    enough = e.gt(count, dtype.type(0))
    return e.div(total, select_scalar(enough, count, dtype.type(np.nan)))


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """The square root of `var`, which takes the same arguments.

    Raises:
      ValueError: there is no such axis, `where` is not boolean, or both `ddof` and `correction` are given.

    >>> import xpr.numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("std", out)
    ddof = _one_correction("std", ddof, correction)
    return _spread(as_operand(a), axis, dtype, ddof, keepdims, where, mean, True)


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The distance from the least to the greatest entry along some axes.

    Raises:
      ValueError: there is no such axis, or no entry.

    >>> import xpr.numpy as jnp
    >>> jnp.ptp(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([2, 3], dtype=int32)
    """
    no_out("ptp", out)
    return e.sub(reductions.max(a, axis, None, keepdims), reductions.min(a, axis, None, keepdims))


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The mean over some axes, each entry counting as much as its weight says.

    Args:
      weights: of the shape of `a`, or with the axes in `axis` alone.
      returned: give the sum of the weights besides.
    Raises:
      ValueError: there is no such axis, or the weights don't fit it.

    >>> import xpr.numpy as jnp
    >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        aval, shape = aval_of(result), aval_of(as_operand(a)).shape
        if not returned:
            return result
        return result, creation.full(aval.shape, entries_along(shape, reduced_axes(axis, len(shape))), aval.dtype)
    a, weights = promote_inexact(a, weights)
    shape, dtype = aval_of(a).shape, aval_of(a).dtype
    axes = reduced_axes(axis, len(shape))
    a, weights = convert(a, computed_in(dtype)), convert(weights, computed_in(dtype))
    weights = broadcast_to(_weights_like(weights, shape, axis, axes), shape)
    scale = reduce_sum_p.bind(weights, axes=axes)
    result = e.div(reduce_sum_p.bind(e.mul(a, weights), axes=axes), scale)
    pair = [convert(expand_dims(x, axes) if keepdims else x, dtype) for x in (result, scale)]
    return tuple(pair) if returned else pair[0]


def _weights_like(weights: Any, shape: tuple[int, ...], axis: Any, axes: tuple[int, ...]) -> Any:
    own = aval_of(weights).shape
    if own == shape:
        return weights
    if axis is None:
        raise ValueError(f"average: weights have shape {own} and the array {shape}; say which axes they go along.")
    if own != tuple(shape[i] for i in axes):
        sizes = tuple(shape[i] for i in axes)
        raise ValueError(f"average: weights have shape {own}, and axes {axes} of the array are {sizes}.")
    ordered = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, ordered), shape, sorted(axes))


# -- Covariances


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of variables, each a row of `m` (a column with `rowvar=False`).

    Args:
      y: more variables.
      bias: divide by the number of observations instead of one less.
      ddof: what to subtract from the number of observations instead.
      fweights: how often each observation counts, integers.
      aweights: how much each observation counts.
    Raises:
      ValueError: `m` has more than two axes, or weights more than one.

    >>> import xpr.numpy as jnp
    >>> jnp.cov(jnp.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    observations = _as_rows(m, rowvar, dtype)
    if y is not None:
        more = _as_rows(y, rowvar, dtype)
        observations, more = promote_inexact(observations, more)
        observations = concatenate([observations, more], 0)
    aval = aval_of(observations)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = _observation_weights(fweights, aweights, aval.shape[1], aval.dtype)
    if weights is None:
        center = mean(observations, 1, keepdims=True)
        scale: Any = aval.dtype.type(aval.shape[1] - ddof)
    else:
        center, total = average(observations, 1, weights, returned=True, keepdims=True)
        total = reductions.sum(weights)
        scale = total if not ddof else _corrected(total, weights, aweights, ddof, aval.dtype)
    centered = e.sub(observations, broadcast_to(center, aval.shape))
    weighted = centered if weights is None else e.mul(centered, broadcast_to(weights, aval.shape))
    product = dot_general(weighted, complex_numbers.conjugate(centered), (((1,), (1,)), ((), ())))
    size = aval.shape[0]
    return e.div(reshape(product, () if size == 1 else (size, size)), scale)


def _as_rows(m: Any, rowvar: bool, dtype: Any) -> Any:
    (m,) = promote_inexact(m)
    aval = aval_of(m)
    m = convert(m, aval.dtype if dtype is None else requested_dtype(dtype))
    if aval.ndim > 2:
        raise ValueError(f"cov: takes one or two axes, and got {aval.str_short()}.")
    if aval.ndim < 2:
        return reshape(m, (1, aval.size))
    return m if rowvar else transpose(m, (1, 0))


def _observation_weights(fweights: Any, aweights: Any, count: int, dtype: np.dtype) -> Any:
    result = None
    for weights, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weights is None:
            continue
        weights = as_operand(weights)
        if aval_of(weights).shape != (count,):
            raise ValueError(
                f"cov: {name} needs an entry for each of {count} observations, and is {aval_of(weights).str_short()}."
            )
        if name == "fweights" and aval_of(weights).dtype not in dtypes.INTEGERS:
            raise TypeError(f"cov: fweights are integers, and are {aval_of(weights).str_short()}. See aweights.")
        weights = convert(weights, dtype)
        result = weights if result is None else e.mul(result, weights)
    return result


def _corrected(total: Any, weights: Any, aweights: Any, ddof: int, dtype: np.dtype) -> Any:
    """The sum of the weights less `ddof` observations, each counted by its share of the `aweights`."""
    if aweights is None:
        return e.sub(total, dtype.type(ddof))
    squares = reductions.sum(e.mul(weights, convert(as_operand(aweights), dtype)))
    return e.sub(total, e.div(e.mul(dtype.type(ddof), squares), total))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """The matrix of Pearson's correlations of variables, each a row of `x` (a column with `rowvar=False`).

    Raises:
      ValueError: `x` has more than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.corrcoef(jnp.array([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    return _correlations(cov(x, y, rowvar, dtype=dtype))


@compiled
def _correlations(c: Any) -> Any:
    shape, dtype = aval_of(c).shape, aval_of(c).dtype
    if not shape:
        return e.div(c, c)
    diagonal = e.eq(*(broadcasted_iota(dtypes.int32, shape, i) for i in (0, 1)))
    deviations = e.sqrt(complex_numbers.real(reductions.sum(select(diagonal, c, full(shape, 0, dtype)), 1)))
    deviations = convert(deviations, dtype)
    c = e.div(e.div(c, broadcast_in_dim(deviations, shape, (0,))), broadcast_in_dim(deviations, shape, (1,)))
    if dtype in dtypes.COMPLEX:
        return e.complex_(rounding.clip(e.real(c), -1, 1), rounding.clip(e.imag(c), -1, 1))
    return rounding.clip(c, -1, 1)

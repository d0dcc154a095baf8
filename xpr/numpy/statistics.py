"""Means, variances, averages, covariances.

They are computed in floating point, float32 for half-precision operands; integers are converted first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim, surely_at_least
from xpr.numpy import complex_numbers, creation, reductions, rounding
from xpr.numpy.axes import names_in, no_out, reduced_axes, split_axes
from xpr.numpy.creation import is_eager
from xpr.numpy.promotion import as_operand, convert, promote_inexact, requested_dtype, select_scalar
from xpr.numpy.reductions import SUM, broadcast_back, computed_in, elements_along, mask_of, masked, reduce_over
from xpr.primitives import elementwise as e
from xpr.primitives.dimension_values import size_as
from xpr.primitives.dot import dot_general
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, full, reduce_sum_p, reshape, transpose
from xpr.primitives.slicing import broadcasted_iota, concatenate, select

__all__ = ["average", "corrcoef", "cov", "mean", "ptp", "std", "var"]

_PLAIN = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """The mean over axes; nan for the mean of no elements.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.mean(jnp.array([[1, 2], [3, 5]]), axis=0)
    Array([2. , 3.5], dtype=float32)
    """
    aval: Any = getattr(a, "aval", None)
    simple = aval is not None and dtype is where is out is None
    simple = simple and not names_in(axis)
    if simple and aval.dtype in _PLAIN and not aval.weak_type and not dtypes.is_narrowed(aval.dtype):
        return (_mean_program if is_eager() else _mean)(a, axes=reduced_axes(axis, aval.ndim), keepdims=keepdims)
    no_out("mean", out)
    a = as_operand(a)
    if dtype is None:
        result_dtype = dtypes.to_inexact(aval_of(a).dtype)
        a = convert(a, computed_in(result_dtype))
    else:
        result_dtype = requested_dtype(dtype)
        a = convert(a, dtypes.to_inexact(result_dtype))
    axes, names = split_axes(axis, aval_of(a).ndim)
    if where is None and not names and is_eager():
        return convert(_mean_program(a, axes=axes, keepdims=keepdims), result_dtype)
    return convert(_mean(a, where, axes=axes, names=names, keepdims=keepdims), result_dtype)


def _mean(a: Any, where: Any = None, *, axes: tuple[int, ...], names: tuple[str, ...] = (), keepdims: bool) -> Any:
    """The mean of strong floats over axes counted from the front, and over mapped axes."""
    aval = aval_of(a)
    where = None if where is None else mask_of("jnp.mean", where, aval.shape)
    count = elements_along(aval.shape, axes, names) if where is None else count_where(where, axes, aval.dtype, names)
    total = reduce_over(SUM, a if where is None else masked("jnp.mean", a, where, 0), axes, names)
    result = e.div(total, size_as(count, aval.dtype) if where is None else convert(count, aval.dtype))
    return expand_dims(result, axes) if keepdims else result


_mean_program = compiled(_mean)  # for eager calls; traced ones are a few equations, which need no call


def count_where(where: Any, axes: tuple[int, ...], dtype: np.dtype, names: tuple[str, ...] = ()) -> Any:
    """The number of elements that a mask of an array's shape includes in each row, as floats."""
    return convert(reductions.sum(where, (*axes, *names)), dtypes.real_part_of(dtype))


@compiled_eagerly("axis", "ddof", "correction")
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
    """The variance over axes: the mean of |a - mean(a)|^2, which is real for complex elements too.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      ddof: subtracted from the number of elements before dividing by it; nan where nothing is left.
      keepdims: whether the reduced axes stay, with size 1.
      where: which elements to take.
      mean: the means, with the reduced axes kept, if they are known; None to compute them.
      correction: another name for `ddof`.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, `where` is not boolean, or both `ddof` and `correction` are given.

    >>> import xpr.numpy as jnp
    >>> jnp.var(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array(1.25, dtype=float32)
    """
    no_out("var", out)
    ddof = _one_correction("var", ddof, correction)
    return _variance_of(as_operand(a), axis, dtype, ddof, keepdims, where, mean, False)


def _one_correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if isinstance(ddof, (int, float)) and not ddof:
        return correction
    raise ValueError(f"{name}: ddof and correction are two names of one thing; give one of them.")


def _variance_of(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean: Any, root: bool) -> Any:
    """The variance or, with `root`, the standard deviation."""
    computed, result_dtype = _dtypes_of_variance(aval_of(a).dtype, dtype)
    axes, names = split_axes(axis, aval_of(a).ndim)
    options = {"axes": axes, "computed": computed, "result_dtype": result_dtype, "keepdims": keepdims, "root": root}
    if where is None and mean is None and not names and isinstance(ddof, (int, float)):
        return _variance(a, ddof=ddof, **options)
    return _variance.fun(a, where, mean, ddof=ddof, names=names, **options)


@compiled
def _variance(
    a: Any,
    where: Any = None,
    mean: Any = None,
    *,
    ddof: Any,
    axes: tuple[int, ...],
    names: tuple[str, ...] = (),
    computed: np.dtype,
    result_dtype: np.dtype,
    keepdims: bool,
    root: bool,
) -> Any:
    a = convert(a, computed)
    shape = aval_of(a).shape
    if where is not None:
        where = mask_of("jnp.std" if root else "jnp.var", where, shape)
    if mean is None:
        center = broadcast_back(_mean(a, where, axes=axes, names=names, keepdims=False), shape, axes)
    else:
        center = broadcast_to(convert(as_operand(mean), computed), shape)
    deviations = e.sub(a, center)
    if where is not None:
        deviations = masked("jnp.var", deviations, where, 0)
    total = reduce_over(SUM, _squared_size(deviations), axes, names)
    result = convert(_divided(total, shape, axes, names, where, ddof), result_dtype)
    if root:
        result = _root_of_variance(result, mean is None and _is_single(shape, axes, names, where))
    return expand_dims(result, axes) if keepdims else result


def _is_single(shape: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...], where: Any) -> Any:
    """Whether each row has a single element."""
    if where is None:
        return elements_along(shape, axes, names) == 1
    return e.eq(reductions.sum(where, (*axes, *names), dtypes.int32), np.int32(1))


def _root_of_variance(variance: Any, single: Any) -> Any:
    """The square root of a variance; that of a single element is always 0, and so are its derivatives.
    Elsewhere a root of 0 has infinite derivatives.
    """
    if isinstance(single, bool):
        return variance if single else e.sqrt(variance)
    safe = select(single, full(aval_of(variance).shape, 1, aval_of(variance).dtype), variance)
    return select(single, variance, e.sqrt(safe))


def _dtypes_of_variance(operand_dtype: np.dtype, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """The dtype to compute in, and that of the result."""
    operand_dtype = dtypes.to_inexact(operand_dtype)
    requested = operand_dtype if dtype is None else dtypes.to_inexact(requested_dtype(dtype))
    if operand_dtype in dtypes.COMPLEX and requested not in dtypes.COMPLEX:
        raise ValueError(f"var: dtype={requested.name} is real, and the array is complex. Give a complex one, or none.")
    return computed_in(requested), requested if dtype is not None else dtypes.real_part_of(requested)


def _squared_size(x: Any) -> Any:
    if aval_of(x).dtype in dtypes.COMPLEX:
        return e.add(e.square(e.real(x)), e.square(e.imag(x)))
    return e.square(x)


def _divided(
    total: Any, shape: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...], where: Any, ddof: Any
) -> Any:
    """Sums over their number of elements less `ddof`; nan where that is not positive."""
    dtype = aval_of(total).dtype
    if where is None and not hasattr(ddof, "aval"):
        count = elements_along(shape, axes, names) - ddof
        if not is_symbolic_dim(count):
            return e.div(total, dtype.type(count if count > 0 else np.nan))
        if surely_at_least(count, 1):
            return e.div(total, size_as(count, dtype))
    if where is None:
        count = size_as(elements_along(shape, axes, names), dtype)
    else:
        count = count_where(where, axes, dtype, names)
    count = e.sub(count, convert(as_operand(ddof), dtype))
    enough = e.gt(count, dtype.type(0))
    quotient = e.div(total, select_scalar(enough, count, dtype.type(1)))
    return select_scalar(enough, quotient, dtype.type(np.nan))  # so that what is not used of it has derivative 0


@compiled_eagerly("axis", "ddof", "correction")
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
    """The standard deviation over axes: the square root of `var`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      ddof: subtracted from the number of elements before dividing by it; nan where nothing is left.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.
      mean: the means, with the reduced axes kept, if they are known; None to compute them.
      correction: another name for `ddof`.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, `where` is not boolean, or both `ddof` and `correction` are given.

    >>> import xpr.numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("std", out)
    ddof = _one_correction("std", ddof, correction)
    return _variance_of(as_operand(a), axis, dtype, ddof, keepdims, where, mean, True)


@compiled_eagerly("axis")
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The maximum minus the minimum over axes.

    Args:
      a: array or number.
      axis: the axis or axes to reduce, those of the array by number, mapped ones by name; None for all of the array.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      An array of the dtype of `a`, without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or there are no elements.

    >>> import xpr.numpy as jnp
    >>> jnp.ptp(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([2, 3], dtype=int32)
    """
    no_out("ptp", out)
    return e.sub(reductions.max(a, axis, None, keepdims), reductions.min(a, axis, None, keepdims))


@compiled_eagerly("axis")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The weighted mean over axes: sum(weights * a) / sum(weights).

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      weights: of the shape of `a`, or of its axes in `axis` alone; None for the plain mean.
      returned: whether to return the sums of the weights too.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      The averages, without the reduced axes; with `returned`, `(averages, sums of the weights)`.

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
        return result, creation.full(aval.shape, elements_along(shape, reduced_axes(axis, len(shape))), aval.dtype)
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
    weights_shape = aval_of(weights).shape
    if weights_shape == shape:
        return weights
    if axis is None:
        raise ValueError(f"average: weights have shape {weights_shape} and the array {shape}; give axis= for them.")
    if weights_shape != tuple(shape[i] for i in axes):
        sizes = tuple(shape[i] for i in axes)
        raise ValueError(f"average: weights have shape {weights_shape}, and axes {axes} of the array are {sizes}.")
    ordered = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, ordered), shape, sorted(axes))


# -- Covariances


@compiled_eagerly("ddof")
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
      m: an array of observations, [variables, observations], or a vector of one variable.
      y: more variables, in the layout of `m`.
      rowvar: whether each row is a variable; otherwise each column.
      bias: whether to divide by the number of observations instead of one less.
      ddof: subtracted from the number of observations before dividing by it, instead of what `bias` says.
      fweights: integers, how often each observation is counted.
      aweights: the weight of each observation.
      dtype: of the result; None for that of the operands, integers as floats.

    Returns:
      [variables, variables]; a scalar for one variable.

    Raises:
      ValueError: `m` has more than two axes, or weights more than one, or the dtype is not one of floats.

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
        count = aval.shape[1] - ddof
        scale: Any = size_as(count if is_symbolic_dim(count) else max(count, 0), aval.dtype)  # 0 gives nan, as in NumPy
    else:
        center, total = average(observations, 1, weights, returned=True, keepdims=True)
        total = reductions.sum(weights)
        scale = total if not ddof else _corrected(total, weights, aweights, ddof, aval.dtype)
    centered = e.sub(observations, broadcast_to(center, aval.shape))
    weighted = centered if weights is None else e.mul(centered, broadcast_to(weights, aval.shape))
    product = dot_general(weighted, complex_numbers.conjugate(centered), (((1,), (1,)), ((), ())))
    size = aval.shape[0]
    return e.div(reshape(product, () if size == 1 else (size, size)), scale)


def _check_dtype(name: str, dtype: Any) -> None:
    if dtype is not None and requested_dtype(dtype) not in dtypes.INEXACT:
        raise ValueError(
            f"{name}: dtype must be a subclass of float or complex, as its results are, and is "
            f"{requested_dtype(dtype)}."
        )


def _as_rows(m: Any, rowvar: bool, dtype: Any) -> Any:
    (m,) = promote_inexact(m)
    aval = aval_of(m)
    _check_dtype("cov", dtype)
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
                f"cov: {name} needs an element for each of {count} observations, and is {aval_of(weights).str_short()}."
            )
        if name == "fweights" and aval_of(weights).dtype not in dtypes.INTEGERS:
            raise TypeError(f"cov: fweights are integers, and are {aval_of(weights).str_short()}. See aweights.")
        weights = convert(weights, dtype)
        result = weights if result is None else e.mul(result, weights)
    return result


def _corrected(total: Any, weights: Any, aweights: Any, ddof: int, dtype: np.dtype) -> Any:
    """The sum of the weights minus `ddof` observations, weighted by `aweights`."""
    if aweights is None:
        return e.sub(total, dtype.type(ddof))
    squares = reductions.sum(e.mul(weights, convert(as_operand(aweights), dtype)))
    return e.sub(total, e.div(e.mul(dtype.type(ddof), squares), total))


@compiled_eagerly()
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """The matrix of Pearson correlation coefficients of variables, each a row of `x` (a column with `rowvar=False`).

    Args:
      x: an array of observations, [variables, observations], or a vector of one variable.
      y: more variables, in the layout of `x`.
      rowvar: whether each row is a variable; otherwise each column.
      dtype: of the result; None for that of the operands, integers as floats.

    Returns:
      [variables, variables]; a scalar for one variable.

    Raises:
      ValueError: `x` has more than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.corrcoef(jnp.array([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    _check_dtype("corrcoef", dtype)
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

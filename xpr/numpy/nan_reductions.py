"""Reductions that ignore nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dtypes import greatest, least
from xpr.numpy import comparisons, predicates, reductions
from xpr.numpy.promotion import as_operand, convert
from xpr.numpy.statistics import mean, std, var
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full
from xpr.primitives.slicing import select

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _without_nan(a: Any, fill: Any) -> tuple[Any, bool]:
    """The operand with nan replaced by `fill(dtype)`, and whether its dtype has nan."""
    a = as_operand(a)
    aval = aval_of(a)
    if aval.dtype not in dtypes.INEXACT:
        return a, False
    a = convert(a, aval.dtype)
    return select(e.ne(a, a), full(aval.shape, fill(aval.dtype), aval.dtype), a), True


@compiled_eagerly("axis")
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over axes, with nan counted as 0; see `sum`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, integers and booleans widened.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, `initial` is not a scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
    Array(3., dtype=float32)
    """
    where = None if where is None else reductions.boolean_mask("jnp.nansum", where)
    return reductions.sum(_without_nan(a, lambda dtype: 0)[0], axis, dtype, out, keepdims, initial, where)


@compiled_eagerly("axis")
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product over axes, with nan counted as 1; see `prod`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, integers and booleans widened.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, `initial` is not a scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
    Array(6., dtype=float32)
    """
    where = None if where is None else reductions.boolean_mask("jnp.nanprod", where)
    return reductions.prod(_without_nan(a, lambda dtype: 1)[0], axis, dtype, out, keepdims, initial, where)


@compiled_eagerly("axis")
def nanmax(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The maximum over axes of the elements that are not nan; nan where all are.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, there are no elements, or `where` is given without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 2.0]))
    Array(2., dtype=float32)
    """
    return _nan_max_or_min(reductions.max, "jnp.nanmax", least, a, axis, out, keepdims, initial, where)


@compiled_eagerly("axis")
def nanmin(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The minimum over axes of the elements that are not nan; nan where all are.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      initial: a scalar that is combined with the result; None for none.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, there are no elements, or `where` is given without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 2.0]))
    Array(1., dtype=float32)
    """
    return _nan_max_or_min(reductions.min, "jnp.nanmin", greatest, a, axis, out, keepdims, initial, where)


def _nan_max_or_min(
    reduction: Any, name: str, fill: Any, a: Any, axis: Any, out: None, keepdims: bool, initial: Any, where: Any
) -> Any:
    filled, may_be_nan = _without_nan(a, fill)
    where = None if where is None else reductions.boolean_mask(name, where)
    result = reduction(filled, axis, out, keepdims, initial, where)
    if not may_be_nan or initial is not None:
        return result
    aval = aval_of(result)
    all_nan = reductions.all(predicates.isnan(a), axis, keepdims=keepdims)
    return select(all_nan, full(aval.shape, np.nan, aval.dtype), result)


@compiled_eagerly("axis")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Any:
    """The mean over axes of the elements that are not nan; nan where all are.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 2.0]))
    Array(1.5, dtype=float32)
    """
    return mean(a, axis, dtype, out, keepdims, where=_present(a, where))


@compiled_eagerly("axis", "ddof")
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The variance over axes of the elements that are not nan; see `var`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      ddof: subtracted from the number of elements before dividing by it.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.
      mean: the means, with the reduced axes kept, if they are known; None to compute them.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    return var(a, axis, dtype, out, ddof, keepdims, where=_present(a, where), mean=mean)


@compiled_eagerly("axis", "ddof")
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The standard deviation over axes of the elements that are not nan; see `std`.

    Args:
      a: array or number.
      axis: the axis or axes to reduce; None for all.
      dtype: of the result; None for that of `a`, integers as floats.
      out: must be None; arrays are immutable.
      ddof: subtracted from the number of elements before dividing by it.
      keepdims: whether the reduced axes stay, with size 1.
      where: booleans that broadcast against `a`, which elements to include; None for all.
      mean: the means, with the reduced axes kept, if they are known; None to compute them.

    Returns:
      An array without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    return std(a, axis, dtype, out, ddof, keepdims, where=_present(a, where), mean=mean)


def _present(a: Any, where: Any) -> Any:
    """The mask of elements to include, those of `where` that are not nan; None for all."""
    a = as_operand(a)
    if aval_of(a).dtype not in dtypes.INEXACT:
        return where
    present = e.eq(a, a)
    return present if where is None else comparisons.logical_and(present, where)

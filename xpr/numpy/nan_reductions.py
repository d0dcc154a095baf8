"""Reductions that pass over nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dtypes import greatest, least
from xpr.numpy import comparisons, predicates, reductions
from xpr.numpy.promotion import as_operand, convert
from xpr.numpy.statistics import mean, std, var
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full
from xpr.primitives.slicing import select


def _without_nan(a: Any, fill: Any) -> tuple[Any, bool]:
    """The operand with `fill(dtype)` in place of nan, and whether its dtype has nan at all."""
    a = as_operand(a)
    aval = aval_of(a)
    if aval.dtype not in dtypes.INEXACT:
        return a, False
    a = convert(a, aval.dtype)
    return select(e.ne(a, a), full(aval.shape, fill(aval.dtype), aval.dtype), a), True


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`sum`, with nan counting as 0.

    Raises:
      ValueError: there is no such axis, `initial` is no scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
    Array(3., dtype=float32)
    """
    return reductions.sum(_without_nan(a, lambda dtype: 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`prod`, with nan counting as 1.

    Raises:
      ValueError: there is no such axis, `initial` is no scalar, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
    Array(6., dtype=float32)
    """
    return reductions.prod(_without_nan(a, lambda dtype: 1)[0], axis, dtype, out, keepdims, initial, where)


def nanmax(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The greatest entry that is not nan; nan where all are.

    Raises:
      ValueError: there is no such axis, or no entry, or `where` without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 2.0]))
    Array(2., dtype=float32)
    """
    return _nan_extreme(reductions.max, least, a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The least entry that is not nan; nan where all are.

    Raises:
      ValueError: there is no such axis, or no entry, or `where` without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 2.0]))
    Array(1., dtype=float32)
    """
    return _nan_extreme(reductions.min, greatest, a, axis, out, keepdims, initial, where)


def _nan_extreme(
    extreme: Any, fill: Any, a: Any, axis: Any, out: None, keepdims: bool, initial: Any, where: Any
) -> Any:
    filled, may_be_nan = _without_nan(a, fill)
    result = extreme(filled, axis, out, keepdims, initial, where)
    if not may_be_nan or initial is not None:
        return result
    aval = aval_of(result)
    nothing = reductions.all(predicates.isnan(a), axis, keepdims=keepdims)
    return select(nothing, full(aval.shape, np.nan, aval.dtype), result)


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Any:
    """The mean of the entries that are not nan; nan of none.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 2.0]))
    Array(1.5, dtype=float32)
    """
    return mean(a, axis, dtype, out, keepdims, where=_present(a, where))


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
    """`var` of the entries that are not nan.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    return var(a, axis, dtype, out, ddof, keepdims, where=_present(a, where), mean=mean)


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
    """`std` of the entries that are not nan.

    Raises:
      ValueError: there is no such axis, or `where` is not boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    return std(a, axis, dtype, out, ddof, keepdims, where=_present(a, where), mean=mean)


def _present(a: Any, where: Any) -> Any:
    """Which entries take part: those of the mask that are not nan. None for all."""
    a = as_operand(a)
    if aval_of(a).dtype not in dtypes.INEXACT:
        return where
    present = e.eq(a, a)
    return present if where is None else comparisons.logical_and(present, where)

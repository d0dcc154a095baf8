"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.numpy.axes import no_out, one_axis
from xpr.numpy.promotion import as_operand, convert, requested_dtype
from xpr.numpy.reductions import widened
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.shapes import full, reshape
from xpr.primitives.slicing import concatenate, select


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The sums of the first entry, of the first two, and so on along an axis, of all entries where no axis is said.

    Booleans are summed in 32 bits (64 where 64-bit types are on); other dtypes are kept.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumsum", cumsum_p, a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The products of the first entry, of the first two, and so on along an axis; dtypes as in `cumsum`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumprod", cumprod_p, a, axis, dtype, out)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """`cumsum`, with nan counting as 0.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 3.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _cumulative("nancumsum", cumsum_p, a, axis, dtype, out, nan_as=0)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """`cumprod`, with nan counting as 1.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _cumulative("nancumprod", cumprod_p, a, axis, dtype, out, nan_as=1)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """`cumsum` along an axis, which only a vector may leave unsaid; with `include_initial` it starts with 0.

    Dtypes are as in `sum`: small integers become 32-bit ones.

    Raises:
      ValueError: there is no such axis, or it has to be said.

    >>> import xpr.numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _with_initial("cumulative_sum", cumsum_p, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """`cumprod` along an axis, which only a vector may leave unsaid; with `include_initial` it starts with 1.

    Dtypes are as in `prod`: small integers become 32-bit ones.

    Raises:
      ValueError: there is no such axis, or it has to be said.

    >>> import xpr.numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _with_initial("cumulative_prod", cumprod_p, 1, x, axis, dtype, include_initial)


def _cumulative(
    name: str, primitive: Primitive, a: Any, axis: int | None, dtype: Any, out: None, nan_as: int | None = None
) -> Any:
    no_out(name, out)
    a = as_operand(a)
    aval = aval_of(a)
    if axis is None:
        a, axis = reshape(a, (aval.size,)), 0
    else:
        axis = one_axis(axis, aval.ndim)
    if nan_as is not None and aval.dtype in dtypes.INEXACT:
        a = convert(a, aval.dtype)
        a = select(e.ne(a, a), full(aval_of(a).shape, nan_as, aval.dtype), a)
    given = requested_dtype(dtype) if dtype is not None else aval.dtype
    computed = dtypes.of_python(int) if given == dtypes.bool_ else given
    result = primitive.bind(convert(a, computed), axis=axis, reverse=False)
    return result if dtype is None else convert(result, given)


def _with_initial(
    name: str, primitive: Primitive, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    x = as_operand(x)
    aval = aval_of(x)
    if aval.ndim == 0 or (axis is None and aval.ndim > 1):
        raise ValueError(f"{name}: the array is {aval.str_short()}. It needs an axis, and, if it has several, axis=.")
    axis = one_axis(0 if axis is None else axis, aval.ndim)
    result = _cumulative(name, primitive, x, axis, widened(aval.dtype) if dtype is None else dtype, None)
    if not include_initial:
        return result
    shape = tuple(1 if i == axis else n for i, n in enumerate(aval.shape))
    return concatenate([full(shape, start, aval_of(result).dtype), result], axis)

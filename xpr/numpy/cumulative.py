"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.errors import ShardingTypeError
from xpr.numpy.axes import no_out
from xpr.numpy.promotion import as_operand, convert, requested_dtype, truth
from xpr.numpy.reductions import widened
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.shapes import full, one_axis, reshape
from xpr.primitives.sharding_rules import RESHARD, parts_of
from xpr.primitives.slicing import concatenate, select

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The cumulative sum along an axis: the first element, the sum of the first two, and so on.

    Booleans are summed in 32 bits (64 where 64-bit types are on); other dtypes are kept.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, booleans as integers.
      out: must be None; arrays are immutable.

    Returns:
      An array of the shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumsum", cumsum_p, a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The cumulative product along an axis: the first element, the product of the first two, and so on.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, booleans as integers.
      out: must be None; arrays are immutable.

    Returns:
      An array of the shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumprod", cumprod_p, a, axis, dtype, out)


@compiled_eagerly("axis")
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The cumulative sum along an axis, with nan counted as 0.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, booleans as integers.
      out: must be None; arrays are immutable.

    Returns:
      An array of the shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 3.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _cumulative("nancumsum", cumsum_p, a, axis, dtype, out, nan_as=0)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The cumulative product along an axis, with nan counted as 1.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, booleans as integers.
      out: must be None; arrays are immutable.

    Returns:
      An array of the shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _cumulative("nancumprod", cumprod_p, a, axis, dtype, out, nan_as=1)


@compiled_eagerly("axis")
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The cumulative sum along an axis, optionally beginning with 0.

    Dtypes are as in `sum`: small integers become 32-bit ones.

    Args:
      x: array with at least one axis.
      axis: the axis; may be None for a vector only.
      dtype: the dtype to accumulate in and of the result; None for that of `x`, small integers widened.
      include_initial: whether the result begins with 0, and is longer by one.

    Returns:
      An array of the shape of `x`, but for the longer axis with `include_initial`.

    Raises:
      ValueError: there is no such axis, `x` is a scalar, or `axis` is None and `x` has several axes.

    >>> import xpr.numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _with_initial("cumulative_sum", cumsum_p, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The cumulative product along an axis, optionally beginning with 1.

    Dtypes are as in `prod`: small integers become 32-bit ones.

    Args:
      x: array with at least one axis.
      axis: the axis; may be None for a vector only.
      dtype: the dtype to accumulate in and of the result; None for that of `x`, small integers widened.
      include_initial: whether the result begins with 1, and is longer by one.

    Returns:
      An array of the shape of `x`, but for the longer axis with `include_initial`.

    Raises:
      ValueError: there is no such axis, `x` is a scalar, or `axis` is None and `x` has several axes.

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
        if aval.ndim > 1 and any(parts_of(aval)):
            raise ShardingTypeError(
                f"{name} of {aval.str_short()}: The input should be fully replicated where no axis is given, since it "
                f"is flattened first, and goes along the whole. Give an axis. {RESHARD}"
            )
        a, axis = reshape(a, (aval.size,)), 0
    else:
        axis = one_axis(axis, aval.ndim)
    if nan_as is not None and aval.dtype in dtypes.INEXACT:
        a = convert(a, aval.dtype)
        a = select(e.ne(a, a), full(aval_of(a).shape, nan_as, aval.dtype), a)
    result_dtype = requested_dtype(dtype) if dtype is not None else aval.dtype
    computed = dtypes.of_python(int) if result_dtype == dtypes.bool_ else result_dtype
    a = truth(a) if result_dtype == dtypes.bool_ else a
    result = primitive.bind(convert(a, computed), axis=axis, reverse=False)
    return result if dtype is None else convert(result, result_dtype)


def _with_initial(
    name: str, primitive: Primitive, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    x = as_operand(x)
    aval = aval_of(x)
    if aval.ndim == 0 or (axis is None and aval.ndim > 1):
        raise ValueError(
            f"{name}: The input array has rank {aval.ndim}, however it must have one axis, or several and axis= given. "
            f"It is {aval.str_short()}."
        )
    axis = one_axis(0 if axis is None else axis, aval.ndim)
    result = _cumulative(name, primitive, x, axis, widened(aval.dtype) if dtype is None else dtype, None)
    if not include_initial:
        return result
    shape = tuple(1 if i == axis else n for i, n in enumerate(aval.shape))
    return concatenate([full(shape, start, aval_of(result).dtype), result], axis)

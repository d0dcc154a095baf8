"""The ufuncs: functions of `xpr.numpy` that come with the methods of NumPy's, such as `jnp.add.at`.

The library itself calls the functions that they are made of, in their own files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.numpy import (
    arithmetic,
    bitwise,
    comparisons,
    cumulative,
    division,
    exponentials,
    powers,
    reductions,
    trigonometric,
)
from xpr.numpy.axes import reduced_axes
from xpr.numpy.indexing.at import at as indexed_at
from xpr.numpy.predicates import isfinite
from xpr.numpy.promotion import asarray_like, convert, promote_dtypes, promote_inexact, requested_dtype, truth
from xpr.numpy.reductions import AND, OR, Reduction, fold
from xpr.numpy.types import iscomplexobj
from xpr.numpy.ufunc_class import ufunc
from xpr.numpy.where_select import where as choose
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cummax, cummin
from xpr.primitives.reductions import all_bits, reduce_and_p, reduce_or_p, reduce_xor_p
from xpr.primitives.shapes import squeeze

__all__ = [
    "add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "greater",
    "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "power", "remainder", "subtract",
    "true_divide",
]  # fmt: skip


def _at(method: str) -> Callable[..., Any]:
    """One scatter, by the method of `x.at[indices]`."""
    return lambda a, indices, b: getattr(indexed_at(a)[indices], method)(b)


def _promoted_at(method: str) -> Callable[..., Any]:
    """The same of operands in the dtype to which they promote, which is that of the result."""

    def at(a: Any, indices: Any, b: Any) -> Any:
        a, b = promote_dtypes(a, b)
        return getattr(indexed_at(a)[indices], method)(b)

    return at


def _cumulative_of(primitive: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Any, axis: int, dtype: Any) -> Any:
        a = asarray_like(a)
        return primitive(a if dtype is None else a.astype(dtype), axis)

    return accumulate


def _of_axes(reduction: Reduction, of: Callable[[Any, Any], Any] = convert) -> Callable[..., Any]:
    """`reduce` over any axes, of the elements that `of(a, dtype)` gives."""

    def reduce(a: Any, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = None, where: Any = None) -> Any:
        elements = of(a, aval_of(a).dtype if dtype is None else requested_dtype(dtype))
        dtype = aval_of(elements).dtype
        return fold(reduction, elements, axis, keepdims, initial, where, dtype, dtype)

    return reduce


def _truth(a: Any, dtype: np.dtype) -> Any:
    return truth(a)


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(a: Any, dtype: Any = None, **options: Any) -> Any:
        return function(a if dtype is None else convert(a, requested_dtype(dtype)), **options)

    return reduce


def _log_of_sum(exp: Callable[..., Any], log: Callable[..., Any], join: Callable[..., Any]) -> Callable[..., Any]:
    """`reduce` of logaddexp or logaddexp2: the logarithm of a sum of powers, relative to the greatest exponent."""

    def reduce(a: Any, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = None, where: Any = None) -> Any:
        (a,) = promote_inexact(a)
        if dtype is not None:
            a = convert(a, requested_dtype(dtype))
        largest = reductions.max(e.real(a) if iscomplexobj(a) else a, axis, None, True, -np.inf, where)
        largest = stop_gradient(choose(isfinite(largest), largest, 0))
        terms = exp(arithmetic.subtract(a, largest))
        total = arithmetic.add(log(reductions.sum(terms, axis, keepdims=True, where=where)), largest)
        total = total if keepdims else squeeze(total, reduced_axes(axis, aval_of(a).ndim))
        return total if initial is None else join(total, initial)

    return reduce


_BITS_OF_ALL = Reduction("bitwise_and", reduce_and_p, e.bitwise_and, all_bits)
_BITS_OF_ANY = Reduction("bitwise_or", reduce_or_p, e.bitwise_or, lambda dtype: 0)
_BITS_OF_ODDLY_MANY = Reduction("bitwise_xor", reduce_xor_p, e.bitwise_xor, lambda dtype: 0)


def _ufunc(function: Callable[..., Any], nin: int = 2, identity: Any = None, **special: Any) -> Any:
    made = ufunc(function, nin, 1, identity=identity, call=function, **special)
    made.__module__ = __name__
    return made


add = _ufunc(arithmetic.add, identity=0, reduce=reductions.sum, accumulate=cumulative.cumsum, at=_at("add"))
multiply = _ufunc(
    arithmetic.multiply, identity=1, reduce=reductions.prod, accumulate=cumulative.cumprod, at=_at("multiply")
)
subtract = _ufunc(arithmetic.subtract, at=_at("subtract"))
divide, true_divide = _ufunc(arithmetic.divide), _ufunc(arithmetic.true_divide)
floor_divide = _ufunc(division.floor_divide)
mod, remainder = _ufunc(division.mod), _ufunc(division.remainder)
power = _ufunc(powers.power)
negative = _ufunc(arithmetic.negative, nin=1)
maximum = _ufunc(
    arithmetic.maximum, reduce=_extreme(reductions.max), accumulate=_cumulative_of(cummax), at=_promoted_at("max")
)
minimum = _ufunc(
    arithmetic.minimum, reduce=_extreme(reductions.min), accumulate=_cumulative_of(cummin), at=_promoted_at("min")
)
logaddexp = _ufunc(
    exponentials.logaddexp, identity=-np.inf,
    reduce=_log_of_sum(exponentials.exp, exponentials.log, exponentials.logaddexp),
)  # fmt: skip
logaddexp2 = _ufunc(
    exponentials.logaddexp2, identity=-np.inf,
    reduce=_log_of_sum(exponentials.exp2, exponentials.log2, exponentials.logaddexp2),
)  # fmt: skip
hypot = _ufunc(powers.hypot)
arctan2 = _ufunc(trigonometric.arctan2)

equal, not_equal = _ufunc(comparisons.equal), _ufunc(comparisons.not_equal)
less, less_equal = _ufunc(comparisons.less), _ufunc(comparisons.less_equal)
greater, greater_equal = _ufunc(comparisons.greater), _ufunc(comparisons.greater_equal)

logical_and = _ufunc(comparisons.logical_and, identity=True, reduce=_of_axes(AND, _truth))
logical_or = _ufunc(comparisons.logical_or, identity=False, reduce=_of_axes(OR, _truth))
logical_xor = _ufunc(comparisons.logical_xor, identity=False, reduce=_of_axes(_BITS_OF_ODDLY_MANY, _truth))
bitwise_and = _ufunc(bitwise.bitwise_and, identity=-1, reduce=_of_axes(_BITS_OF_ALL))
bitwise_or = _ufunc(bitwise.bitwise_or, identity=0, reduce=_of_axes(_BITS_OF_ANY))
bitwise_xor = _ufunc(bitwise.bitwise_xor, identity=0, reduce=_of_axes(_BITS_OF_ODDLY_MANY))

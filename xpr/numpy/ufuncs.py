"""The ufuncs: functions of `xpr.numpy` that come with the methods of NumPy's, such as `jnp.add.at`.

The library itself calls the functions that they are made of, in their own files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
from xpr.numpy.indexing.at import at as indexed_at
from xpr.numpy.promotion import asarray_like
from xpr.numpy.ufunc_class import ufunc
from xpr.primitives.cumulative import cummax, cummin

__all__ = [
    "add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "greater",
    "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "power", "remainder", "subtract",
    "true_divide",
]  # fmt: skip


def _at(method: str) -> Callable[..., Any]:
    """One scatter, by the method of `x.at[indices]`."""
    return lambda a, indices, b: getattr(indexed_at(a)[indices], method)(b)


def _cumulative_of(primitive: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Any, axis: int, dtype: Any) -> Any:
        a = asarray_like(a)
        return primitive(a if dtype is None else a.astype(dtype), axis)

    return accumulate


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
power = _ufunc(powers.power, at=_at("power"))
negative = _ufunc(arithmetic.negative, nin=1)
maximum = _ufunc(arithmetic.maximum, reduce=reductions.max, accumulate=_cumulative_of(cummax), at=_at("max"))
minimum = _ufunc(arithmetic.minimum, reduce=reductions.min, accumulate=_cumulative_of(cummin), at=_at("min"))
logaddexp = _ufunc(exponentials.logaddexp, identity=-np.inf)
logaddexp2 = _ufunc(exponentials.logaddexp2, identity=-np.inf)
hypot = _ufunc(powers.hypot)
arctan2 = _ufunc(trigonometric.arctan2)

equal, not_equal = _ufunc(comparisons.equal), _ufunc(comparisons.not_equal)
less, less_equal = _ufunc(comparisons.less), _ufunc(comparisons.less_equal)
greater, greater_equal = _ufunc(comparisons.greater), _ufunc(comparisons.greater_equal)

logical_and = _ufunc(comparisons.logical_and, identity=True, reduce=reductions.all)
logical_or = _ufunc(comparisons.logical_or, identity=False, reduce=reductions.any)
logical_xor = _ufunc(comparisons.logical_xor, identity=False)
bitwise_and = _ufunc(bitwise.bitwise_and, identity=-1)
bitwise_or = _ufunc(bitwise.bitwise_or, identity=0)
bitwise_xor = _ufunc(bitwise.bitwise_xor, identity=0)

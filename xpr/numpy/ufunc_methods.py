"""What functions of two arrays have beside being called, in NumPy: `jnp.add.outer`, `reduce`, `accumulate`, `at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.avals import aval_of
from xpr.core.source import describe_function
from xpr.numpy import cumulative, reductions
from xpr.numpy.arithmetic import add, divide, maximum, minimum, multiply, subtract
from xpr.numpy.axes import no_out, one_axis
from xpr.numpy.bitwise import bitwise_and, bitwise_or, bitwise_xor
from xpr.numpy.comparisons import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
)
from xpr.numpy.division import floor_divide, remainder
from xpr.numpy.exponentials import logaddexp
from xpr.numpy.indexing.at import at as places_of
from xpr.numpy.powers import hypot, power
from xpr.numpy.promotion import asarray_like
from xpr.numpy.reshaping import reshape
from xpr.numpy.trigonometric import arctan2
from xpr.primitives.cumulative import cummax, cummin


def _outer(fun: Callable[..., Any]) -> Callable[..., Any]:
    def outer(A: Any, B: Any, /) -> Any:
        """The function of every pair of entries: result[i, j] = fun(A[i], B[j])."""
        A, B = asarray_like(A), asarray_like(B)
        return fun(reshape(A, (*aval_of(A).shape, *[1] * aval_of(B).ndim)), B)

    return outer


def _reduce(reduction: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The function of all entries along an axis, taken together."""
        no_out("reduce", out)
        given = {"dtype": dtype, "initial": initial, "where": where}
        return reduction(a, axis=axis, keepdims=keepdims, **{k: v for k, v in given.items() if v is not None})

    return reduce


def _accumulate(running: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The function of the entries up to each, along an axis."""
        no_out("accumulate", out)
        return running(a, axis, dtype)

    return accumulate


def _running_extreme(primitive: Callable[..., Any]) -> Callable[..., Any]:
    def running(a: Any, axis: int, dtype: Any) -> Any:
        a = asarray_like(a)
        a = a if dtype is None else a.astype(dtype)
        return primitive(a, one_axis(axis, aval_of(a).ndim))

    return running


def _at(fun: Callable[..., Any], method: str) -> Callable[..., Any]:
    def at(a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of `a` with the function of its entries and those of `b` in their places.

        Raises:
          NotImplementedError: `inplace` is not False: arrays are immutable.
        """
        if inplace:
            raise NotImplementedError(
                f"{describe_function(fun)}.at: arrays are immutable. Say inplace=False, and use the result."
            )
        return getattr(places_of(asarray_like(a))[indices], method)(b)

    return at


_REDUCTIONS: dict[Any, Any] = {
    add: reductions.sum, multiply: reductions.prod, maximum: reductions.max, minimum: reductions.min,
    logical_and: reductions.all, logical_or: reductions.any,
}  # fmt: skip
_RUNNING: dict[Any, Any] = {
    add: cumulative.cumsum, multiply: cumulative.cumprod, maximum: _running_extreme(cummax),
    minimum: _running_extreme(cummin),
}  # fmt: skip
_AT: dict[Any, str] = {
    add: "add", subtract: "subtract", multiply: "multiply", divide: "divide", power: "power", maximum: "max",
    minimum: "min",
}  # fmt: skip
_OF_PAIRS: tuple[Any, ...] = (
    add, subtract, multiply, divide, floor_divide, remainder, power, maximum, minimum, equal, not_equal, less,
    less_equal, greater, greater_equal, logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor,
    arctan2, hypot, logaddexp,
)  # fmt: skip


def install() -> None:
    """Gives the functions their methods."""
    for fun in _OF_PAIRS:
        methods = {"outer": _outer(fun), "nin": 2, "nout": 1, "nargs": 3}
        if fun in _REDUCTIONS:
            methods["reduce"] = _reduce(_REDUCTIONS[fun])
        if fun in _RUNNING:
            methods["accumulate"] = _accumulate(_RUNNING[fun])
        if fun in _AT:
            methods["at"] = _at(fun, _AT[fun])
        for key, value in methods.items():
            setattr(fun, key, value)


install()

"""lax.fori_loop: a scan if the number of steps is known while tracing, else a while_loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.config import settings
from xpr.control.scan.function import scan
from xpr.control.tracing import Step, Watched, types_of_leaves
from xpr.control.while_.function import while_loop
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import CarryMismatch
from xpr.primitives.elementwise import add, convert_element_type, lt, sub
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array

__all__ = ["fori_loop"]


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """A loop over the numbers from `lower` to below `upper`, in steps of 1, which carries state.

        carry = init_val
        for i in range(lower, upper):
            carry = body_fun(i, carry)

    Args:
      lower: an integer, which may be traced; or a float.
      upper: a number of the same type, which may be traced.
      body_fun: `body_fun(i, carry) -> carry`, with the carry of the same types.
      init_val: the initial carry, a pytree.
      unroll: the number of steps in an iteration of the compiled loop, True for all; only where both bounds are known.

    Returns:
      The last carry.

    Raises:
      CarryMismatch: the carry that `body_fun` returns differs from the one it takes.
      TypeError: a bound is no scalar, is complex or a boolean, or they are of different types.
      ValueError: `unroll` is True or more than one, and a bound is traced.

    >>> from xpr import lax
    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun) and type(body_fun) is not Watched:
        raise TypeError(f"lax.fori_loop: body_fun must be callable, and is {body_fun!r}.")
    bounds = _static_bound("lower", lower), _static_bound("upper", upper)
    if settings.disable_jit and None not in bounds:
        init_val = tree.map(as_array, init_val)  # so that no step changes a NumPy array in place
        for i in range(*bounds):  # type: ignore[arg-type]  # neither is None
            init_val = body_fun(i, init_val)
        return init_val
    lower, upper = _of_one_type(lower, upper)
    if None in bounds and (unroll is True or (unroll or 1) != 1):
        which = "lower" if bounds[0] is None else "upper"
        raise ValueError(
            f"fori_loop: Can only use `unroll` with bounds that are known while tracing, and the {which} one is "
            "traced. Leave it out, or make the argument it comes from static."
        )
    leaves, structure = tree.flatten(init_val)
    types_of_leaves("fori_loop", "init_val", structure, leaves)  # the path is another in the carry of the loop
    try:
        if None in bounds:
            return _as_while(lower, upper, body_fun, init_val)
        return _as_scan(*bounds, body_fun, init_val, unroll)  # type: ignore[arg-type]  # neither is None
    except CarryMismatch as error:
        message = str(error).replace("carry[1]" if None not in bounds else "carry[2]", "carry")
        raise CarryMismatch(message) from None


def _as_scan(lower: int, upper: int, body_fun: Callable[..., Any], init_val: Any, unroll: int | bool | None) -> Any:
    """A scan that carries `i, carry`. The integer is weakly typed, as a Python integer is."""

    def step(carry: Any, _: None) -> Any:
        i, x = carry
        return (add(i, 1), body_fun(i, x)), None

    named: Any = Step("fori_loop", _unwatched(body_fun), step, lambda carry, _: carry)
    if type(body_fun) is Watched:
        named = body_fun.of(named, max(upper - lower, 0))
    return scan(named, (lower, init_val), None, max(upper - lower, 0), unroll=unroll or 1)[0][1]


def _as_while(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """A while that carries `i, upper, carry`."""
    one = 1 if aval_of(lower).dtype in dtypes.INTEGERS else 1.0

    def step(carry: Any) -> Any:
        i, upper, x = carry
        return add(i, one), upper, body_fun(i, x)

    named: Any = Step("fori_loop", _unwatched(body_fun), step, lambda carry: (carry[0], carry[2]))
    if type(body_fun) is Watched:
        named = body_fun.of(named, convert_element_type(sub(upper, lower), np.int32))
    return while_loop(_is_before, named, (lower, upper, init_val))[2]


def _unwatched(body_fun: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function."""
    return body_fun.__wrapped__ if type(body_fun) is Watched else body_fun


def _is_before(carry: Any) -> Any:
    return lt(carry[0], carry[1])


def _static_bound(name: str, bound: Any) -> int | None:
    """A bound as a Python integer; None if it is traced, or a float.

    Raises:
      TypeError: it is no integer or float scalar.
    """
    if type(bound) is int:
        return bound
    aval = _type_of_bound(name, bound)
    if is_symbolic_dim(bound) or aval.dtype not in dtypes.INTEGERS:
        return None
    value = bound.concrete() if isinstance(bound, Tracer) else bound
    return None if value is None else int(value)


def _of_one_type(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The bounds with a weakly typed integer in the dtype of the other bound, if that is an integer.

    Raises:
      TypeError: their types differ.
    """
    low, high = aval_of(lower), aval_of(upper)
    if low.dtype == high.dtype:
        return lower, upper
    if low.dtype in dtypes.INTEGERS and high.dtype in dtypes.INTEGERS:
        if low.weak_type:
            return _of_dtype(lower, high.dtype), upper
        if high.weak_type:
            return lower, _of_dtype(upper, low.dtype)
    raise TypeError(
        f"fori_loop: the bounds among the arguments to fori_loop must have equal types, and are {low.str_short()} and "
        f"{high.str_short()}. Convert one."
    )


def _type_of_bound(name: str, bound: Any) -> ShapedArray:
    """The type of a bound; raises TypeError unless it is an integer or float scalar."""
    try:
        aval = aval_of(bound)
    except TypeError:
        kind = describe(bound)
    else:
        if not aval.ndim and aval.dtype in dtypes.INTEGERS | dtypes.FLOATS:
            return aval
        kind = aval.str_short()
    raise TypeError(f"fori_loop: the bounds must be scalars, integers or floats, and `{name}` is {kind}.")


def _of_dtype(bound: Any, dtype: np.dtype) -> Any:
    """A weakly typed integer, converted to a dtype.

    Raises:
      OverflowError: it is known, and the dtype can't hold it.
    """
    return np.asarray(bound, dtype)[()] if type(bound) is int else convert_element_type(bound, dtype)

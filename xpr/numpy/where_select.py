"""Elementwise selection between arrays: where, select, choose, piecewise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.config import settings
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.errors import ArgumentError, ConcretizationTypeError
from xpr.numpy.axes import no_out
from xpr.numpy.concrete import is_known
from xpr.numpy.creation import asarray, zeros_like
from xpr.numpy.division import remainder
from xpr.numpy.indexing.nonzero import nonzero
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_dtypes, promoted_pair, select_scalar, truth
from xpr.numpy.reshaping import broadcast_arrays
from xpr.numpy.rounding import clip
from xpr.primitives.shapes import broadcast_to
from xpr.primitives.slicing import select_n

__all__ = ["choose", "piecewise", "select", "where"]


@compiled_eagerly("size", "fill_value")
def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Elements of x where a condition is true, and of y elsewhere.

    With the condition alone, it returns the indices where that is true, as `nonzero` does.

    Args:
      condition: booleans; other numbers count as true where they are not 0.
      x: array or number; broadcasts against the others.
      y: array or number; broadcasts against the others.
      size: for the condition alone: the number of indices, see `nonzero`.
      fill_value: for the condition alone: pads the indices, see `nonzero`.

    Returns:
      An array of the broadcast shape and the dtype to which x and y promote; a tuple of indices for the condition
      alone.

    Raises:
      ValueError: only one of x and y is given, or the shapes don't broadcast.

    >>> import xpr.numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1.0, jnp.array([5.0, 6.0]))
    Array([1., 6.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where: takes either the condition alone, or both x and y.")
    if settings.numpy_rank_promotion != "allow":  # which the choices are not asked about, as in JAX
        x, y = broadcast_arrays(*promote_dtypes(x, y))
    which = as_operand(condition)
    if aval_of(which).dtype != dtypes.bool_:
        which = truth(which)
    return select_scalar(which, *promoted_pair(x, y))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """At each position, the element of the choice whose condition is the first to be true.

    Args:
      condlist: booleans for each choice.
      choicelist: arrays, as many.
      default: what is taken where no condition is true.

    Returns:
      An array of the broadcast shape and the dtype to which choices and default promote.

    Raises:
      ValueError: there are no conditions, or not as many as choices.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.select([x > 2, x > 0], [x, 10 * x], -1)
    Array([-1, 10, 20,  3], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(f"select: needs a choice for each condition; there are {len(condlist)} and {len(choicelist)}.")
    *choices, result = broadcast_arrays(*promote_dtypes(*choicelist, default))
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        result = where(condition, choice, result)
    return result


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """At each position, the element of the choice with the number that `a` holds there.

    Args:
      a: integers.
      choices: arrays that broadcast together and with `a`, or one array of them.
      out: must be None.
      mode: for numbers out of bounds: "raise" needs known values, "wrap" counts modulo the number of choices, "clip"
        clips them.

    Returns:
      An array of the broadcast shape and the dtype to which the choices promote.

    Raises:
      TypeError: `a` is not of integers.
      ValueError: a number is out of bounds, for "raise", or there is no such mode.
      ConcretizationTypeError: `a` is traced, for "raise".

    >>> import xpr.numpy as jnp
    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), 10])
    Array([ 1, 10,  3], dtype=int32)
    """
    no_out("choose", out)
    a = as_operand(a)
    if aval_of(a).dtype not in dtypes.INTEGERS:
        raise ArgumentError(f"choose: the numbers of the choices are integers, and are {aval_of(a).str_short()}.")
    if not isinstance(choices, (list, tuple)) and not getattr(choices, "ndim", 0):
        raise TypeError(f"choose: choices must be a sequence of arrays, or an array of them, and {choices!r} is none.")
    count = len(choices)
    match mode:
        case "wrap":
            a = remainder(a, count)
        case "clip":
            a = clip(a, 0, count - 1)
        case "raise":
            if not is_known(a):
                raise ConcretizationTypeError(
                    "choose: the values of the indices are traced. The error occurred because jnp.choose was "
                    "jit-compiled with mode='raise'. Use mode='wrap' or mode='clip' instead."
                )
            numbers = np.asarray(a.concrete() if isinstance(a, Tracer) else a)
            if ((numbers < 0) | (numbers >= count)).any():
                span = f"{numbers.min()} to {numbers.max()}"
                raise ValueError(
                    f"invalid entry in choice array: choose has {count} choices, numbered from 0, and the numbers are "
                    f"from {span}."
                )
        case _:
            raise ValueError(f'choose: mode is "raise", "wrap" or "clip", and {mode!r} was given.')
    selector, *cases = broadcast_arrays(a, *promote_dtypes(*choices))
    return select_n(convert(selector, dtypes.int32), *(convert(case, case.aval.dtype) for case in cases))


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """A function defined piecewise: at each position the function whose condition is the last to be true.

    Every function is computed everywhere, and elements are selected.

    Args:
      x: an array.
      condlist: booleans for each function, or an array of them; those of shape `()` choose for all of `x`.
      funclist: a function of `x` or a value for each condition; one more is used where none is true, by default 0.
      *args: further arguments of the functions.
      **kw: keyword arguments of the functions.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: there are not as many functions as conditions, or one more.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([-2.0, 3.0])
    >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, 1.0])
    Array([2., 1.], dtype=float32)
    """
    x = asarray_like(x)
    several = isinstance(condlist, (list, tuple)) or np.ndim(condlist) > x.aval.ndim
    if not several and np.ndim(condlist):  # scalars for the whole range, where as many functions are given
        several = len(funclist) in (len(condlist), len(condlist) + 1)
    conditions = list(condlist) if several else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        counts = f"{len(conditions)} conditions and {len(funclist)} functions"
        raise ValueError(f"piecewise: there are {counts}; there must be as many functions, or one more.")

    def values_of(f: Callable[..., Any] | Any) -> Any:
        value = f(x, *args, **kw) if callable(f) else f
        return convert(asarray(value), x.aval.dtype)

    result = values_of(funclist[-1]) if len(funclist) > len(conditions) else zeros_like(x)
    for condition, f in zip(conditions, funclist):
        result = where(condition, values_of(f), result)
    return broadcast_to(result, x.aval.shape)

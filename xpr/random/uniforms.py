"""Uniform distributions: bits, floats in an interval, integers in a range; Bernoulli and Rademacher."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of
from xpr.dtypes import INTEGERS, iinfo
from xpr.numpy.creation import asarray
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import clamp, convert_element_type, rem
from xpr.primitives.random_bits import scaled
from xpr.primitives.random_keys import children, random_bits, random_floats
from xpr.primitives.shapes import shape_of
from xpr.primitives.sharding_constraint import sharded
from xpr.random.independent_draws import independent_draws
from xpr.random.keys import one_key
from xpr.random.parameters import broadcast, float_dtype, integer_dtype, parameter, shape_for

__all__ = ["bernoulli", "bits", "rademacher", "randint", "uniform"]


@independent_draws
def _bits(key: Any, *, shape: Shape, bit_width: int) -> Any:
    return random_bits(key, bit_width, shape)


_UNSIGNED = frozenset({dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64})


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random bits, as uniform unsigned integers.

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: uint8, uint16, uint32 or uint64; None for the default unsigned dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Unsigned integers of the shape.

    Raises:
      ValueError: `dtype` is not uint8, uint16, uint32 or uint64.

    >>> from xpr import random
    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    key = one_key(key, "bits")
    dtype = integer_dtype(np.uint64 if dtype is None else dtype, "bits", _UNSIGNED)
    return sharded(_bits(key, shape=shape_of(shape), bit_width=8 * dtype.itemsize), out_sharding, "bits")


@independent_draws
def _unit(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return random_floats(key, shape, dtype)


@independent_draws
def _uniform(key: Any, minval: Any, maxval: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = random_floats(key, shape, dtype)
    return scaled(unit, broadcast(minval, shape), broadcast(maxval, shape))


_unit.name = "uniform"


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding: Any = None
) -> Any:
    """Random floats, uniform in the half-open interval [minval, maxval).

    Args:
      key: a key.
      shape: the shape of the result, to which the bounds broadcast; where it is (), bounds of one element may have
        axes, which the result then has, too.
      dtype: a float dtype.
      minval: the lower bound, which is included.
      maxval: the upper bound, which is excluded.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats of the shape.

    Raises:
      ValueError: `dtype` is not a float dtype, or the bounds don't broadcast to the shape.

    >>> from xpr import random
    >>> random.uniform(random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    key = one_key(key, "uniform")
    shape, dtype = shape_of(shape), float_dtype(dtype, "uniform")
    if type(minval) in (int, float) and type(maxval) in (int, float) and minval == 0 and maxval == 1:
        return sharded(_unit(key, shape=shape, dtype=dtype), out_sharding, "uniform")
    low, high = parameter(minval, dtype), parameter(maxval, dtype)
    if shape == () and aval_of(low).size == aval_of(high).size == 1:
        shape = None  # as in JAX, bounds of one element give their axes to a scalar
    shape = shape_for("uniform", shape, minval=low, maxval=high)
    return sharded(_uniform(key, low, high, shape=shape, dtype=dtype), out_sharding, "uniform")


# -- Integers


@independent_draws
def _randint(key: Any, minval: Any, maxval: Any, *beyond: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Two draws make a number of twice the bits, so that its remainder by the span is very nearly uniform.

    `maxval` is exclusive; where it is `beyond` the dtype, if that can be, it has been replaced by the greatest number,
    which then is not excluded. The remainder is that of first * 2^width + second, with 2^width reduced first. A span of
    all numbers of the dtype overflows to 0, and the remainder by 0 is the number itself.
    """
    width = 8 * dtype.itemsize
    first, second = (random_bits(each, width, shape) for each in children(key, 2))
    number = first.dtype.type
    span = where(maxval > minval, convert_element_type(maxval - minval, first.dtype), number(1))
    for is_beyond in beyond:
        span = where(is_beyond & (maxval > minval), span + number(1), span)
    half = rem(number(2 ** (width // 2)), span)
    base, span = broadcast(rem(half * half, span), shape), broadcast(span, shape)
    offset = rem(rem(first, span) * base + rem(second, span), span)
    return broadcast(minval, shape) + convert_element_type(offset, dtype)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random integers, uniform from `minval` up to but not including `maxval`.

    Args:
      key: a key.
      shape: the shape of the result, to which the bounds broadcast.
      minval: integers; arrays, and all bounds of dtypes narrower than the default one, are clipped to the dtype's
        range. It is the result where `maxval` is not greater.
      maxval: integers; one more than the dtype's greatest number includes that number.
      dtype: an integer dtype; None for the default one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Integers of the shape.

    Raises:
      ValueError: `dtype` is not an integer dtype, or the bounds don't broadcast to the shape.
      OverflowError: a bound is a Python integer that does not fit in the dtype.

    >>> from xpr import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    key = one_key(key, "randint")
    shape, dtype = shape_of(shape), integer_dtype(dtype, "randint")
    info = iinfo(dtype)
    working = dtype if dtype.itemsize >= 4 else dtypes.int32
    if dtype.itemsize >= dtypes.canonical(int).itemsize:
        _check_bounds(minval, maxval, dtype)
    low = _bound(minval, working, info.min, info.max)[0]
    # The bound just above a narrow dtype's numbers is one of the wider dtype's.
    high, *beyond = _bound(maxval, working, info.min, info.max + (working != dtype))
    shape_for("randint", shape, minval=low, maxval=high)
    drawn = _randint(key, low, high, *(beyond if working == dtype else ()), shape=shape, dtype=working)
    return sharded(drawn if working == dtype else convert_element_type(drawn, dtype), out_sharding, "randint")


def _check_bounds(minval: Any, maxval: Any, dtype: np.dtype) -> None:
    info = iinfo(dtype)
    for name, bound, greatest in (("minval", minval, info.max), ("maxval", maxval, info.max + 1)):
        if type(bound) is int and not info.min <= bound <= greatest:
            raise OverflowError(
                f"random.randint: {name} is {bound}, and {dtype.name} has numbers from {info.min} to {info.max}."
            )


def _bound(x: Any, dtype: np.dtype, least: int, greatest: int) -> list[Any]:
    """A bound clipped to the dtype's range; and, if the bound's dtype is wider, whether it was above it."""
    if type(x) in (int, bool):
        kept = parameter(min(max(int(x), least), greatest), dtype)
        return [kept, parameter(True, dtypes.bool_)] if x > greatest else [kept]
    x = asarray(x)
    x_dtype = aval_of(x).dtype
    if x_dtype not in INTEGERS:
        return [convert_element_type(x, dtype)]
    kept = convert_element_type(clamp(max(least, iinfo(x_dtype).min), x, min(greatest, iinfo(x_dtype).max)), dtype)
    return [kept, x > greatest] if iinfo(x_dtype).max > greatest else [kept]


# -- Coins


@independent_draws
def _bernoulli(key: Any, p: Any, *, shape: Shape) -> Any:
    return random_floats(key, shape, aval_of(p).dtype) < broadcast(p, shape)


@compiled
def _finer_bernoulli(key: Any, p: Any, *, shape: Shape) -> Any:
    """Whether u < p, where a second number gives u more digits than a float between 1/2 and 1 has."""
    dtype = aval_of(p).dtype
    pair = random_floats(key, (2, *shape), dtype)
    coarse, fine = pair[0], pair[1]
    return fine * dtypes.finfo(dtype).eps < broadcast(p, shape) - coarse


_finer_bernoulli.name = "bernoulli"


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None) -> Any:
    """Random booleans that are True with probability `p`.

    Args:
      key: a key.
      p: probabilities, floats.
      shape: the shape of the result, to which `p` broadcasts; None for the shape of `p`.
      mode: "low" is exact to the precision of the dtype of `p`; "high" is exact for tiny `p`, and draws twice as many
        bits.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Booleans of the shape.

    Raises:
      TypeError: `p` is not of a float dtype.
      ValueError: there is no such mode, or `p` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.bernoulli(random.key(0), 0.3, (3,))
    Array([False, False, False], dtype=bool)
    """
    key = one_key(key, "bernoulli")
    _check_mode("bernoulli", mode)
    p_dtype = aval_of(p).dtype
    if p_dtype not in dtypes.FLOATS:
        raise TypeError(f"random.bernoulli: p must be of a float dtype, and is {dtypes.short_name(p_dtype)}.")
    p = parameter(p, dtypes.canonical(p_dtype))
    draw = _bernoulli if mode == "low" else _finer_bernoulli
    return sharded(draw(key, p, shape=shape_for("bernoulli", shape, p=p)), out_sharding, "bernoulli")


GUMBEL_MODES = "low", "high", "highest"


def _check_mode(name: str, mode: str, modes: tuple[str, ...] = ("low", "high")) -> None:
    if mode not in modes:
        raise ValueError(f"random.{name}: the mode is one of {', '.join(modes)}, and {mode!r} was given.")


@independent_draws
def _rademacher(key: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return signs(key, shape, dtype)


def signs(key: Any, shape: Shape, dtype: np.dtype) -> Any:
    """1 or -1, from a key."""
    unit = dtypes.canonical(float)
    heads = random_floats(key, shape, unit) < unit.type(0.5)
    return dtype.type(2) * convert_element_type(heads, dtype) - dtype.type(1)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Random signs, 1 or -1 with equal probability.

    Args:
      key: a random key.
      shape: the shape of the result.
      dtype: its dtype; None for the default integer dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    >>> from xpr import random
    >>> random.rademacher(random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    key = one_key(key, "rademacher")
    dtype = dtypes.requested(int if dtype is None else dtype)
    return sharded(_rademacher(key, shape=shape_of(shape), dtype=dtype), out_sharding, "rademacher")

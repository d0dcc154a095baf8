"""Numbers that are all equally likely, in an interval or a range; and coins."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of
from xpr.dtypes import INTEGERS, iinfo
from xpr.numpy.creation import asarray, shape_of
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import clamp, convert_element_type
from xpr.primitives.random_bits import child, key_words, random_bits, random_floats, stretched
from xpr.random.keys import one_key
from xpr.random.parameters import float_dtype, integer_dtype, parameter, shape_for, spread


@compiled
def _bits(words: Any, *, shape: Shape, bit_width: int) -> Any:
    return random_bits(*key_words(words), bit_width, shape)


_UNSIGNED = frozenset({dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64})


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random bits, as unsigned integers all equally likely.

    Raises:
      ValueError: `dtype` is not uint8, uint16, uint32 or uint64.

    >>> from xpr import random
    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    words = one_key(key, "bits")
    dtype = integer_dtype(np.uint64 if dtype is None else dtype, "bits", _UNSIGNED)
    return _bits(words, shape=shape_of(shape), bit_width=8 * dtype.itemsize)


@compiled
def _unit(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return random_floats(*key_words(words), shape, dtype)


@compiled
def _uniform(words: Any, minval: Any, maxval: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    unit = random_floats(*key_words(words), shape, dtype)
    return stretched(unit, spread(minval, shape), spread(maxval, shape))


_unit.name = "uniform"


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Floats evenly from the half-open interval [minval, maxval).

    Args:
      key: a key.
      shape: of the result; the bounds must broadcast to it.
      dtype: a float dtype.
    Raises:
      ValueError: `dtype` is not a float dtype, or the bounds don't broadcast to the shape.

    >>> from xpr import random
    >>> random.uniform(random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    words = one_key(key, "uniform")
    shape, dtype = shape_of(shape), float_dtype(dtype, "uniform")
    if type(minval) in (int, float) and type(maxval) in (int, float) and minval == 0 and maxval == 1:
        return _unit(words, shape=shape, dtype=dtype)
    low, high = parameter(minval, dtype), parameter(maxval, dtype)
    shape_for("uniform", shape, minval=low, maxval=high)
    return _uniform(words, low, high, shape=shape, dtype=dtype)


# -- Integers


@compiled
def _randint(key: Any, minval: Any, maxval: Any, *beyond: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Two draws make a number of twice the bits, so that its remainder by the span is all but evenly spread.

    `maxval` is exclusive; where it is `beyond` the dtype, if that can be, it has been replaced by the greatest number,
    which then is not excluded. The remainder is that of first * 2^width + second, with 2^width reduced first.
    """
    words = key_words(key)
    width = 8 * dtype.itemsize
    first, second = (random_bits(*child(*words, i), width, shape) for i in (0, 1))
    number = first.dtype.type
    span = where(maxval > minval, convert_element_type(maxval - minval, first.dtype), number(1))
    for is_beyond in beyond:
        span = where(is_beyond & (maxval > minval), span + number(1), span)
    half = number(2 ** (width // 2)) % span
    base = half * half % span
    first, second, base, span = first, second, spread(base, shape), spread(span, shape)
    offset = (first % span * base + second % span) % span
    return spread(minval, shape) + convert_element_type(offset, dtype)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers from minval up to but not including maxval; minval where that is not below maxval.

    Args:
      key: a key.
      shape: of the result; the bounds must broadcast to it.
      minval: integers, or arrays of them. What lies outside the dtype is taken as its nearest number.
      maxval: the same; one more than the dtype's greatest number makes that one possible.
      dtype: an integer dtype.
    Raises:
      ValueError: `dtype` is not an integer dtype, or the bounds don't broadcast to the shape.

    >>> from xpr import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    words = one_key(key, "randint")
    shape, dtype = shape_of(shape), integer_dtype(dtype, "randint")
    info = iinfo(dtype)
    working = dtype if dtype.itemsize >= 4 else dtypes.int32
    low = _bound(minval, working, info.min, info.max)[0]
    # The bound just above a narrow dtype's numbers is one of the wider dtype's.
    high, *beyond = _bound(maxval, working, info.min, info.max + (working != dtype))
    shape_for("randint", shape, minval=low, maxval=high)
    drawn = _randint(words, low, high, *(beyond if working == dtype else ()), shape=shape, dtype=working)
    return drawn if working == dtype else convert_element_type(drawn, dtype)


def _bound(x: Any, dtype: np.dtype, least: int, greatest: int) -> list[Any]:
    """A bound moved into the dtype's range; then, if it can be above it, whether it was."""
    if type(x) in (int, bool):
        kept = parameter(min(max(int(x), least), greatest), dtype)
        return [kept, parameter(True, dtypes.bool_)] if x > greatest else [kept]
    x = asarray(x)
    own = aval_of(x).dtype
    if own not in INTEGERS:
        return [convert_element_type(x, dtype)]
    kept = convert_element_type(clamp(max(least, iinfo(own).min), x, min(greatest, iinfo(own).max)), dtype)
    return [kept, x > greatest] if iinfo(own).max > greatest else [kept]


# -- Coins


@compiled
def _bernoulli(key: Any, p: Any, *, shape: Shape, mode: str) -> Any:
    """Whether u < p. In the mode "high" a second number gives u more digits than a float between 1/2 and 1 has."""
    words, dtype = key_words(key), aval_of(p).dtype
    if mode == "low":
        return random_floats(*words, shape, dtype) < spread(p, shape)
    pair = random_floats(*words, (2, *shape), dtype)
    coarse, fine = pair[0], pair[1]
    return fine * dtypes.finfo(dtype).eps < spread(p, shape) - coarse


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """Booleans that are True with probability `p`.

    Args:
      key: a key.
      p: a float, or an array of them.
      shape: of the result, which `p` must broadcast to; the shape of `p` where not given.
      mode: "high" is exact for tiny `p`, and draws twice as many bits; "low" is right to the precision of `p`'s dtype.
    Raises:
      TypeError: `p` is not of a float dtype.
      ValueError: the mode is neither, or `p` does not broadcast to the shape.

    >>> from xpr import random
    >>> random.bernoulli(random.key(0), 0.3, (3,))
    Array([False, False, False], dtype=bool)
    """
    words = one_key(key, "bernoulli")
    _check_mode("bernoulli", mode)
    own = aval_of(p).dtype
    if own not in dtypes.FLOATS:
        raise TypeError(f"random.bernoulli: the chance p must be of a float dtype, and is {dtypes.short_name(own)}.")
    p = parameter(p, dtypes.canonical(own))
    return _bernoulli(words, p, shape=shape_for("bernoulli", shape, p=p), mode=mode)


def _check_mode(name: str, mode: str) -> None:
    if mode not in ("low", "high"):
        raise ValueError(f'random.{name}: the mode is "low" or "high", and {mode!r} was given.')


@compiled
def _rademacher(words: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    return signs(key_words(words), shape, dtype)


def signs(words: tuple[Any, Any], shape: Shape, dtype: np.dtype) -> Any:
    """1 or -1, from the words of a key."""
    unit = dtypes.canonical(float)
    heads = random_floats(*words, shape, unit) < unit.type(0.5)
    return dtype.type(2) * convert_element_type(heads, dtype) - dtype.type(1)


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """1 or -1, each half of the time.

    >>> from xpr import random
    >>> random.rademacher(random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    words = one_key(key, "rademacher")
    dtype = dtypes.canonical(int if dtype is None else dtype)
    return _rademacher(words, shape=shape_of(shape), dtype=dtype)

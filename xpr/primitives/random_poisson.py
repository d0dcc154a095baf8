"""random_poisson: Poisson numbers, all from one key, by products of uniform numbers or by rejection.

Below a rate of 10 uniform numbers are counted as long as their product stays above exp(-rate) (Knuth, "The art of
computer programming", volume 2, 3.4.1). From there on candidates are computed from two uniform numbers and accepted or
rejected: algorithm PTRS of Hormann, "The transformed rejection method for generating Poisson random variables"
(Insurance: Mathematics and Economics 12, 1993). Every round draws for all elements, from the next key; which, and that
all go on until the last is done, is JAX's choice, so that the numbers are the same. Where all rates are known to be
"small" or "large", there is one loop instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.core.avals import ShapedArray, aval_of, is_key
from xpr.dtypes import float32, float64, int32
from xpr.primitives.draws import Draws, Words, drawn
from xpr.primitives.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    convert_element_type,
    div,
    eq,
    floor,
    ge,
    gt,
    le,
    log,
    lt,
    mul,
    ne,
    neg,
    scalar,
    sqrt,
    sub,
)
from xpr.primitives.random_keys import draw, impl_of, of_keys
from xpr.primitives.shapes import full
from xpr.primitives.slicing import select
from xpr.primitives.special import constant_like, lgamma

_REJECTED_FROM = 10.0


def rates_of(rate: Any) -> str:
    """What is known while tracing: a Python number is a "small" or a "large" rate; anything else may be "any"."""
    if type(rate) not in (int, float) or 0 < _REJECTED_FROM - rate < 1e-5:  # which float32 may round to the bound
        return "any"
    return "large" if rate >= _REJECTED_FROM else "small"


def _abstract(avals: Sequence[ShapedArray], *, rates: str) -> list[ShapedArray]:
    keys, rate = avals
    if rates not in ("any", "small", "large"):
        raise ValueError(f'random_poisson: rates are "any", "small" or "large", and not {rates!r}.')
    if not is_key(keys) or rate.dtype not in (float32, float64) or rate.shape[: keys.ndim] != keys.shape:
        raise TypeError(
            "random_poisson: takes random keys, and rates, f32 or f64; each block of rates, which the keys' axes "
            f"number, has one key. It got {', '.join(aval.str_short() for aval in avals)}."
        )
    return [ShapedArray(rate.shape, int32)]


def _by_products(draws: Draws, words: Words, rate: Any) -> Any:
    """The number of factors of the product, which is stored as its logarithm."""
    aval = aval_of(rate)

    def condition(*state: Any) -> Any:
        *_, rate, _, log_product = state
        return gt(log_product, neg(rate))

    def step(*state: Any) -> list[Any]:
        *words, rate, count, log_product = state
        following, drawn_from = draws.split(words, 2)
        count = select(gt(log_product, neg(rate)), add(count, np.int32(1)), count)
        u = draws.floats(drawn_from, aval.shape, aval.dtype)
        return [*following, rate, count, add(log_product, log(u))]

    count = full(aval.shape, 0, int32)
    *_, count, _ = draws.repeat_blocks(condition, step, words, rate, count, constant_like(0, rate))
    return sub(count, np.int32(1))


def _by_rejection(draws: Draws, words: Words, rate: Any) -> Any:
    """The candidate floor((2 a / h + b) u + rate + 0.43), where h = 1/2 - |u|; most are accepted by a squeeze test."""
    aval = aval_of(rate)

    def number(value: float) -> Any:
        return scalar(value, rate)

    log_rate = log(rate)
    b = add(number(0.931), mul(number(2.53), sqrt(rate)))
    a = add(number(-0.059), mul(number(0.02483), b))
    inverse_alpha = add(number(1.1239), div(number(1.1328), sub(b, number(3.4))))
    limit = sub(number(0.9277), div(number(3.6224), sub(b, number(2))))

    def condition(*state: Any) -> Any:
        return bitwise_not(state[-1])

    def step(*state: Any) -> list[Any]:
        *words, rate, log_rate, a, b, inverse_alpha, limit, last, done = state
        following, for_u, for_v = draws.split(words, 3)
        u = sub(draws.floats(for_u, aval.shape, aval.dtype), number(0.5))
        v = draws.floats(for_v, aval.shape, aval.dtype)
        h = sub(number(0.5), abs(u))
        k = floor(add(add(mul(add(div(mul(number(2), a), h), b), u), rate), number(0.43)))
        density = log(div(mul(v, inverse_alpha), add(div(a, mul(h, h)), b)))
        bound = sub(add(neg(rate), mul(k, log_rate)), lgamma(add(k, number(1))))
        squeezed = bitwise_and(ge(h, number(0.07)), le(v, limit))
        hopeless = bitwise_or(lt(k, number(0)), bitwise_and(lt(h, number(0.013)), gt(v, h)))
        taken = bitwise_or(squeezed, bitwise_and(bitwise_not(hopeless), le(density, bound)))
        last, done = select(taken, k, last), bitwise_or(done, taken)
        return [*following, rate, log_rate, a, b, inverse_alpha, limit, last, done]

    last, done = constant_like(-1, rate), full(aval.shape, False, bool)
    constants = (rate, log_rate, a, b, inverse_alpha, limit)
    *_, last, _ = draws.repeat_blocks(condition, step, words, *constants, last, done)
    return convert_element_type(last, int32)


def _random_poisson(draws: Draws, words: Words, rate: Any, *, rates: str) -> Any:
    if rates == "large":
        return _by_rejection(draws, words, rate)
    if rates == "small":
        numbers = _by_products(draws, words, rate)
    else:
        by_products = bitwise_or(ne(rate, rate), lt(rate, scalar(_REJECTED_FROM, rate)))
        small = select(by_products, rate, constant_like(0, rate))
        large = select(by_products, constant_like(1e5, rate), rate)
        numbers = select(by_products, _by_products(draws, words, small), _by_rejection(draws, words, large))
    return select(eq(rate, scalar(0, rate)), full(aval_of(rate).shape, 0, int32), numbers)


def _physical(
    each: Callable[..., Any], values: Sequence[Any], avals: Sequence[ShapedArray], *, rates: str
) -> list[Any]:
    (words, rate), (keys, _) = values, avals
    return [drawn(partial(_random_poisson, rates=rates), impl_of(keys), words, rate, keys.ndim, int32)]


random_poisson_p = of_keys("random_poisson", abstract=_abstract, physical=_physical)


def random_poisson(keys: Any, rate: Any, rates: str) -> Any:
    """Poisson numbers of the given rates, int32; the first axes of the rates number the keys."""
    return draw(random_poisson_p, keys, rate, rates=rates)

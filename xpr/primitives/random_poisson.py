"""random_poisson: Poisson numbers, all from one key, by multiplying even numbers or by rejection.

Below a rate of 10 the even numbers are counted whose product stays above exp(-rate) (Knuth, "The art of computer
programming", volume 2, 3.4.1). From there on candidates are made of two even numbers and taken or refused: algorithm
PTRS of Hormann, "The transformed rejection method for generating Poisson random variables" (Insurance: Mathematics and
Economics 12, 1993). Every round draws for all entries, from the next key; which, and that all go on until the last is
done, is JAX's choice, so that the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.avals import Shape, ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import float32, float64, int32, uint32
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
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.elementwise_while import in_numpy, iterate_blocks
from xpr.primitives.random_bits import child, entry_counts, joined, threefry2x32, unit_floats
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, mapped_to
from xpr.primitives.slicing import select
from xpr.primitives.special import constant_like, lgamma

_REJECTED_FROM = 10.0


def _abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    k0, k1, rate = avals
    wrong = k0.dtype != uint32 or k1.dtype != uint32 or rate.dtype not in (float32, float64)
    if wrong or k0.shape != k1.shape or rate.shape[: k0.ndim] != k0.shape:
        raise TypeError(
            "random_poisson: takes the two words of a key, u32, and rates, f32 or f64; each block of rates, which the "
            f"keys' axes number, has one key. It got {', '.join(aval.str_short() for aval in avals)}."
        )
    return [ShapedArray(rate.shape, int32)]


def _evens(k0: Any, k1: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Numbers evenly from [0, 1) for each block's entries, from the words of its key."""
    keys = range(aval_of(k0).ndim)
    k0, k1 = (broadcast_in_dim(k, shape, keys) for k in (k0, k1))
    high, low = entry_counts(shape[len(keys) :])
    words = threefry2x32(k0, k1, high, broadcast_to(low, shape))
    return unit_floats(joined(*words, 8 * dtype.itemsize), dtype)


def _by_products(k0: Any, k1: Any, rate: Any) -> Any:
    """How many numbers stay in the product, which is kept as its logarithm."""
    aval = aval_of(rate)

    def going(k0: Any, k1: Any, rate: Any, count: Any, log_product: Any) -> Any:
        return gt(log_product, neg(rate))

    def step(k0: Any, k1: Any, rate: Any, count: Any, log_product: Any) -> list[Any]:
        count = select(gt(log_product, neg(rate)), add(count, np.int32(1)), count)
        u = _evens(*child(k0, k1, 1), aval.shape, aval.dtype)
        return [*child(k0, k1, 0), rate, count, add(log_product, log(u))]

    count = full(aval.shape, 0, int32)
    state = iterate_blocks(going, step, aval_of(k0).ndim, k0, k1, rate, count, constant_like(0, rate))
    return sub(state[3], np.int32(1))


def _by_rejection(k0: Any, k1: Any, rate: Any) -> Any:
    """The candidate floor((2 a / h + b) u + rate + 0.43), where h = 1/2 - |u|; most are taken by a squeeze test."""
    aval = aval_of(rate)

    def number(value: float) -> Any:
        return scalar(value, rate)

    log_rate = log(rate)
    b = add(number(0.931), mul(number(2.53), sqrt(rate)))
    a = add(number(-0.059), mul(number(0.02483), b))
    inverse_alpha = add(number(1.1239), div(number(1.1328), sub(b, number(3.4))))
    limit = sub(number(0.9277), div(number(3.6224), sub(b, number(2))))

    def going(k0: Any, k1: Any, rate: Any, *state: Any) -> Any:
        return bitwise_not(state[-1])

    def step(k0: Any, k1: Any, *state: Any) -> list[Any]:
        rate, log_rate, a, b, inverse_alpha, limit, last, done = state
        u = sub(_evens(*child(k0, k1, 1), aval.shape, aval.dtype), number(0.5))
        v = _evens(*child(k0, k1, 2), aval.shape, aval.dtype)
        h = sub(number(0.5), abs(u))
        k = floor(add(add(mul(add(div(mul(number(2), a), h), b), u), rate), number(0.43)))
        density = log(div(mul(v, inverse_alpha), add(div(a, mul(h, h)), b)))
        bound = sub(add(neg(rate), mul(k, log_rate)), lgamma(add(k, number(1))))
        squeezed = bitwise_and(ge(h, number(0.07)), le(v, limit))
        hopeless = bitwise_or(lt(k, number(0)), bitwise_and(lt(h, number(0.013)), gt(v, h)))
        taken = bitwise_or(squeezed, bitwise_and(bitwise_not(hopeless), le(density, bound)))
        last, done = select(taken, k, last), bitwise_or(done, taken)
        return [*child(k0, k1, 0), *state[:6], last, done]

    last, done = constant_like(-1, rate), full(aval.shape, False, bool)
    constants = (rate, log_rate, a, b, inverse_alpha, limit)
    state = iterate_blocks(going, step, aval_of(k0).ndim, k0, k1, *constants, last, done)
    return convert_element_type(state[-2], int32)


def _random_poisson(k0: Any, k1: Any, rate: Any) -> Any:
    by_products = bitwise_or(ne(rate, rate), lt(rate, scalar(_REJECTED_FROM, rate)))
    small = select(by_products, rate, constant_like(0, rate))
    great = select(by_products, constant_like(1e5, rate), rate)
    drawn = select(by_products, _by_products(k0, k1, small), _by_rejection(k0, k1, great))
    return select(eq(rate, scalar(0, rate)), full(aval_of(rate).shape, 0, int32), drawn)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    out = random_poisson_p.bind(*primals)
    return [out], [Zero(aval_of(out).to_tangent_aval())]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], list[int]]:
    return [random_poisson_p.bind(*(mapped_to(x, d, size) for x, d in zip(values, dims)))], [0]


random_poisson_p = register(
    Primitive(
        "random_poisson",
        abstract=_abstract,
        reference=lambda values: in_numpy(lambda *v: [_random_poisson(*v)], *values),
        lower=Unsupported("It is lowered as a function of others."),
        lower_as=lambda *operands: [_random_poisson(*operands)],
        jvp=_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_batch,
    )
)


def random_poisson(k0: Any, k1: Any, rate: Any) -> Any:
    """Poisson numbers of the given rates, int32, from the two words of a key."""
    return random_poisson_p.bind(k0, k1, rate)

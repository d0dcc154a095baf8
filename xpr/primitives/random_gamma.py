"""random_gamma: gamma variates by rejection, each element from its own key.

A normal proposal cubed, v = (1 + c x)^3, is taken or refused by a uniform number u; the method is Marsaglia and
Tsang's, "A simple method for generating gamma variables" (ACM TOMS 26, 2000). For a shape below 1 a variate of shape
a + 1 is multiplied by u^(1/a). Which key each number is drawn from is JAX's choice, so that the variates are the same.
The derivative in the shape holds the chance of being below the variate fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr.core.avals import ShapedArray, Zero, aval_of, is_key
from xpr.dtypes import finfo, short_name
from xpr.primitives.barrier import optimization_barrier_p
from xpr.primitives.draws import Draws, Words, drawn
from xpr.primitives.elementwise import (
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    exp,
    ge,
    le,
    log,
    log1p,
    mul,
    neg,
    pow,
    scalar,
    sqrt,
    sub,
)
from xpr.primitives.incomplete import random_gamma_grad
from xpr.primitives.random_bits import normal_quantiles
from xpr.primitives.random_keys import draw, impl_of, of_keys
from xpr.primitives.shapes import reshape
from xpr.primitives.slicing import select
from xpr.primitives.special import OVER, constant_like

__all__ = ["random_gamma_p"]


def _random_gamma_abstract(avals: Sequence[ShapedArray], *, log_space: bool) -> list[ShapedArray]:
    keys, a = avals
    if not is_key(keys) or a.dtype not in OVER or a.shape[: keys.ndim] != keys.shape:
        allowed = ", ".join(sorted(map(short_name, OVER)))
        raise TypeError(
            f"random_gamma: takes random keys, and shapes of one of {allowed}, whose first axes number the keys; got "
            f"{', '.join(aval.str_short() for aval in avals)}."
        )
    return [a.strip_weak_type()]


def _positive_proposal(draws: Draws, words: Words, c: Any) -> tuple[Any, Any]:
    """A normal number x and v = 1 + c x, drawn again until v is positive."""
    shape, dtype = aval_of(c).shape, aval_of(c).dtype

    def condition(*state: Any) -> Any:
        v = state[-1]
        return le(v, scalar(0, v))

    def step(*state: Any) -> list[Any]:
        *words, c, _, _ = state
        following, drawn_from = draws.split(words, 2)
        x = normal_quantiles(draws.floats(drawn_from, shape, dtype))
        return [*following, c, x, add(scalar(1, x), mul(x, c))]

    *_, x, v = draws.repeat(condition, step, *words, c, scalar(0, c), scalar(-1, c))
    return x, v


def _accepted(draws: Draws, words: Words, d: Any, c: Any) -> Any:
    """v^3 of the first proposal that is taken: the squeeze test first, in which no logarithm is needed."""
    shape, dtype = aval_of(c).shape, aval_of(c).dtype

    def condition(*state: Any) -> Any:
        *_, d, _, x_squared, v_cubed, u = state
        one = scalar(1, u)
        squeezed = sub(one, mul(scalar(0.0331, u), mul(x_squared, x_squared)))
        bound = add(mul(x_squared, scalar(0.5, u)), mul(d, add(sub(one, v_cubed), log(v_cubed))))
        return bitwise_and(ge(u, squeezed), ge(log(u), bound))

    def step(*state: Any) -> list[Any]:
        *words, d, c, _, _, _ = state
        following, for_proposal, for_u = draws.split(words, 3)
        x, v = _positive_proposal(draws, for_proposal, c)
        u = draws.floats(for_u, shape, dtype)
        return [*following, d, c, mul(x, x), mul(mul(v, v), v), u]

    *_, v_cubed, _ = draws.repeat(condition, step, *words, d, c, *(scalar(n, d) for n in (0, 1, 2)))
    return v_cubed


def _random_gamma(draws: Draws, words: Words, a: Any, *, log_space: bool) -> Any:
    """A variate for each element of `a`, from the element's key."""
    shape, dtype = aval_of(a).shape, aval_of(a).dtype
    zero, one, third = scalar(0, a), scalar(1, a), scalar(1 / 3, a)
    large = ge(a, one)
    d = sub(select(large, a, add(a, one)), third)
    c = div(third, sqrt(d))
    for_variate, for_boost = draws.split(words, 2)
    v_cubed = _accepted(draws, for_variate, d, c)
    u = draws.floats(for_boost, shape, dtype)
    if not log_space:
        # Fused with the power, the bits of `u` take XLA:CPU of jaxlib 0.11 minutes to compile.
        (u,) = optimization_barrier_p.bind(u)
        boost = pow(sub(one, u), div(one, a))
        return mul(mul(d, v_cubed), select(large, constant_like(1, a), boost))
    log_u = log1p(neg(u))
    boost = mul(log_u, div(one, a))
    boost = select(bitwise_or(large, eq(log_u, zero)), constant_like(0, a), boost)
    return add(add(log(d), log(v_cubed)), boost)


def _physical(
    each: Callable[..., Any], values: Sequence[Any], avals: Sequence[ShapedArray], *, log_space: bool
) -> list[Any]:
    """Each key is split into one for each of its elements."""
    (words, a), (keys, a_type) = values, avals
    impl, rank = impl_of(keys), a_type.ndim
    number = math.prod(a_type.shape[keys.ndim :])
    words = each(lambda key: impl.split(key, (number,)), keys.ndim, words)
    words = reshape(words, (*a_type.shape, *impl.key_shape))
    return [drawn(partial(_random_gamma, log_space=log_space), impl, words, a, rank, a_type.dtype)]


def _random_gamma_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, log_space: bool, **params: Any) -> Any:
    out = random_gamma_p.bind(*primals, log_space=log_space, **params)
    *_, a = primals
    *_, t = tangents
    if type(t) is Zero:
        return [out], [Zero.from_primal_value(out)]
    if not log_space:
        return [out], [mul(t, random_gamma_grad(a, out))]
    sample = exp(out)  # it underflows for small shapes; the slope of the logarithm then has its limit 1 / a^2
    sample = select(eq(sample, scalar(0, sample)), constant_like(finfo(aval_of(sample).dtype).tiny, sample), sample)
    return [out], [mul(t, div(random_gamma_grad(a, sample), sample))]


random_gamma_p = of_keys("random_gamma", abstract=_random_gamma_abstract, physical=_physical, jvp=_random_gamma_jvp)


def random_gamma(keys: Any, a: Any, log_space: bool = False) -> Any:
    """A gamma variate of shape `a` for each element, or its logarithm; the first axes of `a` number the keys."""
    return draw(random_gamma_p, keys, a, log_space=log_space)

"""random_gamma: gamma variates by rejection, each entry from a key of its own.

A normal proposal cubed, v = (1 + c x)^3, is taken or refused by a uniform number u; the method is Marsaglia and
Tsang's, "A simple method for generating gamma variables" (ACM TOMS 26, 2000). For a shape below 1 a variate of shape
a + 1 is multiplied by u^(1/a). Which key each number is drawn from is JAX's choice, so that the variates are the same.
The derivative in the shape holds the chance of being below the variate fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import finfo, short_name, uint32
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
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.elementwise_while import in_numpy, iterate
from xpr.primitives.incomplete import random_gamma_grad
from xpr.primitives.random_bits import child, random_floats, random_normals
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import select
from xpr.primitives.special import OVER, constant_like


def _random_gamma_abstract(avals: Sequence[ShapedArray], *, log_space: bool) -> list[ShapedArray]:
    k0, k1, a = avals
    if k0.dtype != uint32 or k1.dtype != uint32 or a.dtype not in OVER or not k0.shape == k1.shape == a.shape:
        allowed = ", ".join(sorted(map(short_name, OVER)))
        raise TypeError(
            f"random_gamma: takes the two words of a key for each entry, u32, and shapes of one of {allowed}, all "
            f"three arrays of one shape; got {', '.join(aval.str_short() for aval in avals)}."
        )
    return [a.strip_weak_type()]


def _positive_proposal(k0: Any, k1: Any, c: Any) -> tuple[Any, Any]:
    """A normal number x and v = 1 + c x, drawn again until v is positive."""
    dtype = aval_of(c).dtype

    def going(k0: Any, k1: Any, c: Any, x: Any, v: Any) -> Any:
        return le(v, scalar(0, v))

    def step(k0: Any, k1: Any, c: Any, x: Any, v: Any) -> list[Any]:
        x = random_normals(*child(k0, k1, 1), (), dtype)
        return [*child(k0, k1, 0), c, x, add(scalar(1, x), mul(x, c))]

    *_, x, v = iterate(going, step, k0, k1, c, scalar(0, c), scalar(-1, c))
    return x, v


def _accepted(k0: Any, k1: Any, d: Any, c: Any) -> Any:
    """v^3 of the first proposal that is taken: the squeeze test first, in which no logarithm is needed."""

    def going(k0: Any, k1: Any, d: Any, c: Any, x_squared: Any, v_cubed: Any, u: Any) -> Any:
        one = scalar(1, u)
        squeezed = sub(one, mul(scalar(0.0331, u), mul(x_squared, x_squared)))
        bound = add(mul(x_squared, scalar(0.5, u)), mul(d, add(sub(one, v_cubed), log(v_cubed))))
        return bitwise_and(ge(u, squeezed), ge(log(u), bound))

    def step(k0: Any, k1: Any, d: Any, c: Any, x_squared: Any, v_cubed: Any, u: Any) -> list[Any]:
        x, v = _positive_proposal(*child(k0, k1, 1), c)
        u = random_floats(*child(k0, k1, 2), (), aval_of(u).dtype)
        return [*child(k0, k1, 0), d, c, mul(x, x), mul(mul(v, v), v), u]

    return iterate(going, step, k0, k1, d, c, *(scalar(n, d) for n in (0, 1, 2)))[5]


def _random_gamma(k0: Any, k1: Any, a: Any, *, log_space: bool) -> Any:
    dtype = aval_of(a).dtype
    zero, one, third = scalar(0, a), scalar(1, a), scalar(1 / 3, a)
    large = ge(a, one)
    d = sub(select(large, a, add(a, one)), third)
    c = div(third, sqrt(d))
    v_cubed = _accepted(*child(k0, k1, 0), d, c)
    u = random_floats(*child(k0, k1, 1), (), dtype)
    if not log_space:
        boost = pow(sub(one, u), div(one, a))
        return mul(mul(d, v_cubed), select(large, constant_like(1, a), boost))
    log_u = log1p(neg(u))
    boost = mul(log_u, div(one, a))
    boost = select(bitwise_or(large, eq(log_u, zero)), constant_like(0, a), boost)
    return add(add(log(d), log(v_cubed)), boost)


def _random_gamma_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, log_space: bool) -> Any:
    out = random_gamma_p.bind(*primals, log_space=log_space)
    *_, a = primals
    *_, t = tangents
    if type(t) is Zero:
        return [out], [Zero(aval_of(out).to_tangent_aval())]
    if not log_space:
        return [out], [mul(t, random_gamma_grad(a, out))]
    sample = exp(out)  # it underflows for small shapes; the slope of the logarithm then has its limit 1 / a^2
    sample = select(eq(sample, scalar(0, sample)), constant_like(finfo(aval_of(sample).dtype).tiny, sample), sample)
    return [out], [mul(t, div(random_gamma_grad(a, sample), sample))]


def _random_gamma_batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any
) -> tuple[list[Any], list[int]]:
    """All operands are mapped: they have one shape."""
    return [random_gamma_p.bind(*[mapped_to(x, d, size) for x, d in zip(values, dims)], **params)], [0]


random_gamma_p = register(
    Primitive(
        "random_gamma",
        abstract=_random_gamma_abstract,
        reference=lambda values, **params: in_numpy(lambda *v: [_random_gamma(*v, **params)], *values),
        lower=Unsupported("It is lowered as a function of others."),
        lower_as=lambda *operands, **params: [_random_gamma(*operands, **params)],
        jvp=_random_gamma_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_random_gamma_batch,
    )
)


def random_gamma(k0: Any, k1: Any, a: Any, log_space: bool = False) -> Any:
    """A gamma variate of shape `a` for each entry, or its logarithm, from the two words of the entry's key."""
    return random_gamma_p.bind(k0, k1, a, log_space=log_space)

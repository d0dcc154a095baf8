"""Uniform random numbers by XLA's generator with a state of its own, which gives others at each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import bf16, float16, float32, float64, int32, int64, short_name, uint32, uint64
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.shapes import shape_of

__all__ = ["rng_uniform", "rng_uniform_p"]


_DRAWN = frozenset({bf16, float16, float32, float64, int32, int64, uint32, uint64})  # others end XLA's process


def _abstract(avals: Sequence[ShapedArray], *, shape: tuple[int, ...]) -> list[ShapedArray]:
    a, b = avals
    if a.ndim or b.ndim:
        raise ValueError(f"rng_uniform: the bounds must be scalars, and are {a.str_short()} and {b.str_short()}.")
    if a.dtype != b.dtype or a.dtype not in _DRAWN:
        raise ValueError(
            f"rng_uniform: the bounds are {a.str_short()} and {b.str_short()}. They must be of one dtype, and "
            f"that one of {', '.join(sorted(map(short_name, _DRAWN)))}."
        )
    return [ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, shape: tuple[int, ...]) -> list[Value]:
    how = "rng_distribution = #stablehlo<rng_distribution UNIFORM>"
    sizes = b.constant(np.asarray(shape, np.int64), ShapedArray((len(shape),), int64))
    return [b.op("stablehlo.rng", [*operands, sizes], avals[0], how)]


_UNKEYED = "Its numbers come from a state of the program's, and not from a key. See random.uniform."
rng_uniform_p = register(
    Primitive(
        "rng_uniform",
        abstract=_abstract,
        reference=Unsupported(_UNKEYED),
        lower=_lower,
        jvp=Unsupported(_UNKEYED),
        transpose=Unsupported(NOT_LINEAR),
        batch=Unsupported(_UNKEYED),
        flops=lambda operands, results, **params: 15 * results[0].size,
    )
)


def rng_uniform(a: Any, b: Any, shape: Any) -> Any:
    """Uniform random numbers, others at each call, by a state of the program's. `random.uniform` takes a key instead.

    Args:
      a: the lower bound, a scalar, which may be drawn.
      b: the upper bound, a scalar of the same dtype, which is not drawn.
      shape: the shape of the result.

    Returns:
      An array of the shape and of the bounds' dtype.

    Raises:
      ValueError: the bounds are no scalars, or not of one dtype of floats of 16 bits and more, or integers of 32.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> x = lax.rng_uniform(0.0, 1.0, (1000,))
    >>> bool(jnp.all((x >= 0) & (x < 1)))
    True
    """
    return rng_uniform_p.bind(a, b, shape=shape_of(shape))

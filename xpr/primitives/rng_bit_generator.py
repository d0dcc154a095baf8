"""rng_bit_generator: XLA's own generator of random bits, from a key of four 32-bit words or two 64-bit ones.

XLA chooses the algorithm for the platform: Philox-4x32 on CPU and GPU. Source: Salmon, Moraes, Dror and Shaw, "Parallel
random numbers: as easy as 1, 2, 3" (SC 2011), with 10 rounds.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import UNSIGNED, requested, short_name, uint8, uint16, uint32, uint64
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.shapes import reshape, shape_of, to_front
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.text.parameters import register_parameter

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_bit_generator_p"]


@register_parameter
class RandomAlgorithm(enum.IntEnum):
    """The algorithms of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    @classmethod
    def from_any(cls, algorithm: Any) -> RandomAlgorithm:
        """The algorithm, also from its name in lower case: "default", "threefry", "philox"; None is the default.

        Raises:
          ValueError: there is none of that name.
        """
        if not isinstance(algorithm, str):
            return cls(0 if algorithm is None else algorithm)
        names = {"default": cls.RNG_DEFAULT, "threefry": cls.RNG_THREE_FRY, "philox": cls.RNG_PHILOX}
        name = algorithm.lower().removeprefix("rng_").replace("_", "")
        if name not in names:
            raise ValueError(f"rng_bit_generator: the algorithms are {', '.join(names)}, and {algorithm!r} is none.")
        return names[name]

    def __str__(self) -> str:
        return self.name


def _abstract(
    avals: Sequence[ShapedArray], *, shape: tuple[int, ...], dtype: np.dtype, algorithm: RandomAlgorithm
) -> list[ShapedArray]:
    (key,) = avals
    if (key.shape, key.dtype) not in (((4,), uint32), ((2,), uint64)):
        raise TypeError(f"rng_bit_generator: the key must be u32[4] or u64[2], and is {key.str_short()}.")
    if dtype not in UNSIGNED:
        raise TypeError(f"rng_bit_generator: bits are unsigned integers, and {short_name(dtype)} was asked for.")
    return [key, ShapedArray(shape, dtype)]


_NAMES = {"RNG_DEFAULT": "DEFAULT", "RNG_THREE_FRY": "THREE_FRY", "RNG_PHILOX": "PHILOX"}
_DRAWN = frozenset({uint8, uint16, uint32, uint64})  # the others are parts of words of 32 bits


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, shape: tuple[int, ...], dtype: np.dtype,
    algorithm: RandomAlgorithm,
) -> list[Value]:  # fmt: skip
    (key,) = operands
    state, bits = avals
    wide = ShapedArray((2,), uint64)
    halves = ShapedArray((2, 2), uint32)
    if state.dtype == uint32:
        key = b.op("stablehlo.bitcast_convert", [b.reshape(key, (2, 2))], wide)
    drawn = bits if dtype in _DRAWN else bits.update(dtype=uint32)
    attribute = f"rng_algorithm = #stablehlo<rng_algorithm {_NAMES[algorithm.name]}>"
    if drawn.is_symbolic:  # the operation of known shapes takes its place when it is compiled
        target, size = 'call_target_name = "stablehlo.dynamic_rng_bit_generator"', b.shape(drawn.shape)
        key, out = b.ops("stablehlo.custom_call", [key, size], [wide, drawn], target, attributes=attribute)
    else:
        key, out = b.ops("stablehlo.rng_bit_generator", [key], [wide, drawn], attribute)
    if state.dtype == uint32:
        key = b.reshape(b.op("stablehlo.bitcast_convert", [key], halves), (4,))
    return [key, out if drawn is bits else b.convert(out, dtype)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    outs = rng_bit_generator_p.bind(*primals, **params)
    return outs, [Zero.from_primal_value(x) for x in outs]


def _batch(
    size: int, values: Sequence[Any], dims: Sequence[int], *, shape: tuple[int, ...], **params: Any
) -> tuple[list[Any], list[int]]:
    """The bits of all rows come from the first key, as in JAX: the generator takes one key."""
    keys = to_front(values[0], dims[0])
    first = reshape(slice_in_dim(keys, 0, 1), aval_of(keys).shape[1:])
    state, bits = rng_bit_generator_p.bind(first, shape=(size, *shape), **params)
    others = slice_in_dim(keys, 1, None)
    return [concatenate([reshape(state, (1, *aval_of(state).shape)), others], 0), bits], [0, 0]


_UNSTABLE = "Its bits are XLA's, and differ between platforms."
rng_bit_generator_p = register(
    Primitive(
        "rng_bit_generator",
        abstract=_abstract,
        reference=Unsupported(_UNSTABLE),
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_batch,
        multiple_results=True,
        flops=lambda operands, results, **params: 50 * results[1].size,  # 10 rounds of 20 for four words
    )
)


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> list[Any]:
    """Random bits by XLA's own generator, and the key for the next ones.

    Args:
      key: uint32[4], or uint64[2].
      shape: the shape of the bits.
      dtype: the dtype of the bits, an unsigned integer.
      algorithm: "default", "threefry", "philox" or a `RandomAlgorithm`; the default is the platform's.
      out_sharding: a sharding for the bits; None for the compiler's choice.

    Returns:
      `[new key, bits]`.

    Raises:
      TypeError: the key or the dtype is another.

    >>> from xpr import lax, numpy as jnp
    >>> key, bits = lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), (2, 3))
    >>> bits.shape
    (2, 3)
    """
    sizes = shape_of(shape)
    state, bits = rng_bit_generator_p.bind(
        key, shape=sizes, dtype=requested(dtype), algorithm=RandomAlgorithm.from_any(algorithm)
    )
    return [state, sharded(bits, out_sharding, "rng_bit_generator")]

"""Random keys: made from seeds and from words, split, combined with integers, and drawn from.

Each is a function of one key, which the generator of the keys' dtype has on words; arrays of keys are mapped over. So
an operation has no reference and no lowering of its own: both are those of its words, see passes/physical.py. None has
a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.config import override, settings
from xpr.core.avals import ShapedArray, Zero, aval_of, is_key
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Primitive, Unsupported, params_of, register
from xpr.dtypes import INTEGERS, uint32
from xpr.key_types import KeyType, PRNGImpl
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.random_bits import BITS_FOR, UNSIGNED_OF_WIDTH, normal_quantiles, unit_floats
from xpr.primitives.shapes import broadcast_in_dim, mapped_to, reshape, zeros_like_aval
from xpr.primitives.sharding_rules import joined
from xpr.primitives.slicing import slice_in_dim

__all__ = [
    "random_bits_p", "random_fold_in_p", "random_seed_p", "random_split_p", "random_unwrap_p", "random_wrap_p",
]  # fmt: skip

# -- What the family shares

ON_WORDS = "It is done on the words of keys, of which it is a function (passes/physical.py)."


def impl_of(aval: ShapedArray) -> PRNGImpl:
    """The generator that keys are for."""
    dtype: Any = aval.dtype
    return dtype._impl


def _require_keys(name: str, aval: ShapedArray) -> None:
    if not is_key(aval):
        raise TypeError(f"{name}: takes random keys, and got {aval.str_short()}.")


def _batch_first(primitive: Primitive) -> Callable[..., Any]:
    """Mapped operands have their mapped axis in front, and so have the results."""

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return [primitive.bind(*[mapped_to(x, d, size) for x, d in zip(values, dims)], **params)], [0]

    return batch


def _keys_sharding(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Any]:
    """The axes of keys come first; axes of words and of what is drawn from one key are not partitioned."""
    ndim = max(a.ndim for a in avals)
    parts = joined(avals, ndim)
    return [(*parts, *[None] * out.ndim)[: out.ndim] for out in outs]


def of_keys(
    name: str, *, abstract: Any, physical: Any, jvp: Any = None, flops: Any = None, evaluate: Any = None
) -> Primitive:
    """A primitive of random keys; without a derivative, unless there is a rule.

    Its rule on words is `physical(map_keys, words, avals, **params)`: `map_keys(fun, ndim, *values)` maps a function of
    one key's words over the first `ndim` axes. The setting threefry_partitionable is a parameter where it was off when
    the operation was applied, and the rule runs with it.
    """

    def typed(avals: Sequence[ShapedArray], *, partitionable: bool = True, **params: Any) -> list[ShapedArray]:
        return list(abstract(avals, **params))

    def on_words(
        map_keys: Any, words: Sequence[Any], avals: Sequence[ShapedArray], *, partitionable: bool = True, **params: Any
    ) -> list[Any]:
        with override("threefry_partitionable", partitionable):
            return list(physical(map_keys, words, avals, **params))

    def no_tangents(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return [out], [Zero.from_primal_value(out)]

    primitive = register(
        Primitive(
            name,
            abstract=typed,
            params=(*(params_of(abstract) or ()), "partitionable"),
            optional=("partitionable",),
            reference=Unsupported(ON_WORDS),
            lower=Unsupported(ON_WORDS),
            jvp=jvp or no_tangents,
            transpose=Unsupported(NOT_LINEAR),
            batch=Unsupported("it is set below"),
            physical=on_words,
            flops=flops,
            evaluate=evaluate,
            sharding=_keys_sharding,
        )
    )
    primitive.batch = _batch_first(primitive)
    return primitive


def draw(primitive: Primitive, *operands: Any, **params: Any) -> Any:
    """The result of a primitive of random keys, with the setting threefry_partitionable as it is now."""
    if not settings.threefry_partitionable:
        params["partitionable"] = False
    return primitive.bind(*operands, **params)


# -- random_seed: a key for each integer


def _seed_abstract(avals: Sequence[ShapedArray], *, impl: PRNGImpl) -> list[ShapedArray]:
    (seeds,) = avals
    if seeds.dtype not in INTEGERS:
        raise TypeError(f"random_seed: seeds are integers, and are {seeds.str_short()}.")
    return [ShapedArray(seeds.shape, KeyType(impl))]


random_seed_p = of_keys(
    "random_seed",
    abstract=_seed_abstract,
    physical=lambda map_keys, words, avals, *, impl: [map_keys(impl.seed, avals[0].ndim, *words)],
)


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """A key for each element of an array of integers."""
    return random_seed_p.bind(seeds, impl=impl)


# -- random_split: an array of keys for each key


def _split_abstract(avals: Sequence[ShapedArray], *, shape: tuple[int, ...]) -> list[ShapedArray]:
    (keys,) = avals
    _require_keys("random_split", keys)
    return [keys.update(shape=(*keys.shape, *shape))]


random_split_p = of_keys(
    "random_split",
    abstract=_split_abstract,
    physical=lambda map_keys, words, avals, *, shape: [
        map_keys(lambda key: impl_of(avals[0]).split(key, shape), avals[0].ndim, *words)
    ],
)


def random_split(keys: Any, shape: Sequence[int]) -> Any:
    """For each key an array of new ones, whose axes follow those of the keys."""
    return draw(random_split_p, keys, shape=tuple(shape))


def children(key: Any, number: int) -> list[Any]:
    """The keys that one key splits into."""
    keys = random_split(key, (number,))
    return [reshape(slice_in_dim(keys, i, i + 1), ()) for i in range(number)]


# -- random_fold_in: a key for each key and integer, one of which may be a scalar


def _fold_in_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    keys, data = avals
    _require_keys("random_fold_in", keys)
    if data.dtype not in INTEGERS or (keys.shape and data.shape and keys.shape != data.shape):
        raise TypeError(
            "random_fold_in: takes keys and integers of one shape, or a scalar of either, and got "
            f"{keys.str_short()} and {data.str_short()}."
        )
    return [keys.update(shape=keys.shape or data.shape)]


def _fold_in_physical(map_keys: Any, words: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    (keys, data), (key_words, numbers) = avals, words
    shape = keys.shape or data.shape
    if keys.shape != shape:
        inside = keys.physical.shape
        key_words = broadcast_in_dim(key_words, (*shape, *inside), range(len(shape), len(shape) + len(inside)))
    if data.shape != shape:
        numbers = broadcast_in_dim(numbers, shape, ())
    return [map_keys(impl_of(keys).fold_in, len(shape), key_words, numbers)]


def _fold_in_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The operands in one shape; a scalar that is not mapped stays one."""
    rows = [s if d is None else (*s[:d], *s[d + 1 :]) for s, d in zip((aval_of(x).shape for x in values), dims)]
    shape = rows[0] or rows[1]
    operands = []
    for x, d, row in zip(values, dims, rows):
        if d is not None or row:
            x = mapped_to(x, d, size)
            x = x if row == shape else broadcast_in_dim(x, (size, *shape), (0,))
        operands.append(x)
    return [random_fold_in_p.bind(*operands, **params)], [0]


random_fold_in_p = of_keys("random_fold_in", abstract=_fold_in_abstract, physical=_fold_in_physical)
random_fold_in_p.batch = _fold_in_batch


def random_fold_in(keys: Any, data: Any) -> Any:
    """A new key for each key and integer."""
    return draw(random_fold_in_p, keys, data)


# -- random_bits: an array of bits for each key


def _bits_abstract(avals: Sequence[ShapedArray], *, bit_width: int, shape: tuple[int, ...]) -> list[ShapedArray]:
    (keys,) = avals
    _require_keys("random_bits", keys)
    if bit_width not in UNSIGNED_OF_WIDTH:
        raise TypeError(f"random_bits: draws words of 8, 16, 32 or 64 bits, and {bit_width} were asked for.")
    return [ShapedArray((*keys.shape, *shape), UNSIGNED_OF_WIDTH[bit_width])]


random_bits_p = of_keys(
    "random_bits",
    abstract=_bits_abstract,
    physical=lambda map_keys, words, avals, *, bit_width, shape: [
        map_keys(lambda key: impl_of(avals[0]).random_bits(key, bit_width, shape), avals[0].ndim, *words)
    ],
    flops=lambda operands, results, **params: 115 * results[0].size,  # as threefry2x32
)


def random_bits(keys: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Random unsigned integers of 8, 16, 32 or 64 bits, whose axes follow those of the keys."""
    return draw(random_bits_p, keys, bit_width=bit_width, shape=tuple(shape))


def random_floats(keys: Any, shape: Sequence[int], dtype: np.dtype) -> Any:
    """Uniform random numbers in [0, 1), whose axes follow those of the keys."""
    return unit_floats(random_bits(keys, BITS_FOR[dtype], shape), dtype)


def random_normals(keys: Any, shape: Sequence[int], dtype: np.dtype) -> Any:
    """Numbers from the standard normal distribution."""
    return normal_quantiles(random_floats(keys, shape, dtype))


# -- random_wrap and random_unwrap: keys of words, and words of keys


def _wrap_abstract(avals: Sequence[ShapedArray], *, impl: PRNGImpl) -> list[ShapedArray]:
    (words,) = avals
    ndim = words.ndim - len(impl.key_shape)
    if words.dtype != uint32 or ndim < 0 or words.shape[ndim:] != impl.key_shape:
        raise TypeError(
            f"random_wrap: the words of keys of {impl.name} are u32, their last axes have the shape {impl.key_shape}; "
            f"these are {words.str_short()}."
        )
    return [ShapedArray(words.shape[:ndim], KeyType(impl))]


def _wrap_evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The keys share the buffer of the words."""
    (words,) = args
    (aval,) = random_wrap_p.type_of((aval_of(words),), params)
    return [_same_memory(aval, words) if type(words) is Array else Array(aval, np.array(words))]


def _same_memory(aval: ShapedArray, x: Array) -> Array:
    return Array(aval, x._host, x.buffer if x._host is None else x._buffer, x._device)


random_wrap_p = of_keys(
    "random_wrap",
    abstract=_wrap_abstract,
    physical=lambda map_keys, words, avals, *, impl: list(words),
    evaluate=_wrap_evaluate,
)


def random_wrap(words: Any, impl: PRNGImpl) -> Any:
    """Keys from their words."""
    return random_wrap_p.bind(words, impl=impl)


def zeros_or_keys(aval: ShapedArray) -> Any:
    """An array of any type whose values are not used: zeros, or keys whose words are zero."""
    return random_wrap(zeros_like_aval(aval.physical), impl_of(aval)) if is_key(aval) else zeros_like_aval(aval)


def _unwrap_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    (keys,) = avals
    _require_keys("random_unwrap", keys)
    return [keys.physical]


def _unwrap_evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (keys,) = args
    if isinstance(keys, Tracer):
        raise keys.misused()
    (aval,) = random_unwrap_p.type_of((aval_of(keys),), params)
    return [_same_memory(aval, keys)]


random_unwrap_p = of_keys(
    "random_unwrap",
    abstract=_unwrap_abstract,
    physical=lambda map_keys, words, avals: list(words),
    evaluate=_unwrap_evaluate,
)


def random_unwrap(keys: Any) -> Any:
    """The words of keys, uint32."""
    return random_unwrap_p.bind(keys)

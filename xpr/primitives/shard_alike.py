"""shard_alike: two operands of one shape, for which the compiler is to choose the same sharding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero
from xpr.core.primitive import Primitive, is_linear, register
from xpr.primitives.shapes import mapped_to

__all__ = ["shard_alike_p"]


def _abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    x, y = avals
    if x.shape != y.shape:
        raise TypeError(f"shard_alike: the shapes must be equal, and are those of {x.str_short()} and {y.str_short()}.")
    return [x, y]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """Puts both operands into one Shardy sharding group; writes nothing on one device and inside manual regions."""
    if b.module.mesh is not None and not b.module.manual:
        number = b.module.sharding_group()
        for x in operands:
            b.ops("sdy.sharding_group", [x], [], f"group_id = {number} : i64")
    return operands


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    outs = shard_alike_p.bind(*primals)
    if any(type(t) is Zero for t in tangents):
        return outs, list(tangents)
    return outs, shard_alike_p.bind(*tangents)


def _transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    if any(type(ct) is Zero for ct in cts):
        return [ct if is_linear(x) else None for ct, x in zip(cts, operands)]
    return [ct if is_linear(x) else None for ct, x in zip(shard_alike_p.bind(*cts), operands)]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    return shard_alike_p.bind(*[mapped_to(x, dim, size) for x, dim in zip(values, dims)]), [0, 0]


shard_alike_p = register(
    Primitive(
        "shard_alike",
        abstract=_abstract,
        reference=lambda values: list(values),
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        multiple_results=True,
    )
)

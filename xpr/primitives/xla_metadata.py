"""xla_metadata_value: the operand itself; the operation that computes it gets attributes, which XLA reads."""

from __future__ import annotations

from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.primitives.shapes import structural

__all__ = ["xla_metadata_value_p"]

Metadata = tuple[tuple[str, Any], ...]  # names, in order, with their values


def _abstract(aval: ShapedArray, *, xla_metadata_kvs: Metadata) -> ShapedArray:
    return aval


def _lower(b: Builder, x: Value, aval: ShapedArray, *, xla_metadata_kvs: Metadata) -> Value:
    b.annotate(x, dict(xla_metadata_kvs))
    return x


xla_metadata_value_p = structural(
    "xla_metadata_value",
    abstract=_abstract,
    reference=lambda x, **params: x,
    lower=_lower,
    transpose=lambda ct, aval, *, xla_metadata_kvs: xla_metadata_value(ct, xla_metadata_kvs),
    batch=lambda size, x, dim, *, xla_metadata_kvs: (xla_metadata_value(x, xla_metadata_kvs), dim),
    fusion="view",
    physical="moved",
)


def xla_metadata_value(x: Any, metadata: Metadata) -> Any:
    """The array; the operation that computes it has the metadata as attributes."""
    return xla_metadata_value_p.bind(x, xla_metadata_kvs=metadata)

"""pvary: a value, marked as varying over axes of a `shard_map`, over which it may be the same on all devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive, register
from xpr.primitives.sharding_rules import unchanged


def _mark_batch_named(
    name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], /, *, axes: tuple[Any, ...]
) -> Any:
    other_axes = tuple([axis for axis in axes if axis != name])
    return [pvary_p.bind(*values, axes=other_axes) if other_axes else values[0]], list(dims)


pvary_p = register(
    Primitive(
        "pvary",
        abstract=lambda avals, *, axes: [aval.with_varying(aval.varying | set(axes)) for aval in avals],
        reference=lambda values, **params: list(values),
        lower=lambda b, operands, avals, **params: list(operands),
        jvp=lambda primals, tangents, **params: (
            [pvary_p.bind(*primals, **params)],
            [t if type(t) is Zero else pvary_p.bind(t, **params) for t in tangents],
        ),
        transpose=lambda cts, operands, **params: list(cts),
        batch=lambda size, values, dims, **params: ([pvary_p.bind(*values, **params)], list(dims)),
        batch_named=_mark_batch_named,
        physical="moved",
        sharding=unchanged,
        varying=lambda every, *, axes: [each | set(axes) for each in every],
    )
)


def varying_as(x: Any, aval: ShapedArray) -> Any:
    """A value that is marked as varying over the axes of a `shard_map` over which values of a type do."""
    return pvary_p.bind(x, axes=tuple(sorted(aval.varying, key=str)))


def varying_along(x: Any, names: Sequence[Any]) -> Any:
    """The operand of a collective along axes, marked as varying over those of them whose `shard_map` checks that."""
    innermost = {axis.name: axis.checked for axis in context.axes}
    varying = aval_of(x).varying
    same = tuple([name for name in names if innermost[name] and name not in varying])
    return pvary_p.bind(x, axes=same) if same else x

"""batch (vmap) : (a -> b) -> [a] -> [b]. Vectorization: each operation runs once, on arrays with an additional axis.

The carried value is a pair (array, dim). `sin` of ([3, 4] array, dim 0) calls `sin`'s batch rule, which gives the sine
of the whole array, dim 0. Values that are not mapped are not wrapped, so operations on them go straight to the trace
below. A collective that names this trace's axis becomes an operation along the mapped axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.explicit import ExplicitSharding
from xpr.core.interpreter import (
    NamedAxis,
    Trace,
    Tracer,
    axes_in_scope,
    context,
    current_type,
    line_of_rule,
    names_of_equations,
)
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, jaxprs_in_params, subjaxprs
from xpr.core.primitive import Primitive
from xpr.primitives.shapes import mapped_to, with_rows_along
from xpr.primitives.sharding_rules import parts_of
from xpr.transforms.leaks import refuse_leaks
from xpr.transforms.stage import Signature, stage


class AxisData(NamedTuple):
    """The mapped axis, as batching rules of users' classes get it: its name (None if it has none) and its size."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class BatchTracer(Tracer):
    """An array with a mapped axis `dim`; its type is that of a row, one slice along that axis.

    `origin` is the position of an argument that the value depends on, or -1.
    """

    __slots__ = ("value", "dim", "origin")

    def __init__(self, trace: Trace, value: Any, dim: int, origin: int = -1):
        self._trace, self.value, self.dim, self.origin = trace, value, dim, origin
        self.aval = row_aval(aval_of(value), dim)

    def current_type(self) -> Any:
        return row_aval(current_type(self.value), self.dim)

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval.named()}, batched={aval_of(self.value).named()})"


def row_aval(aval: ShapedArray, dim: int) -> ShapedArray:
    """The type of one row."""
    return aval.without_axis(dim)


class BatchTrace(Trace):
    """Runs batch rules on mapped values."""

    __slots__ = ("size", "axis_name", "signature", "rows_along", "explicit_rows", "names")
    verb: ClassVar[str] = "vectorized with vmap"
    scope: ClassVar[str] = "vmap"

    def __init__(
        self,
        parent: Trace,
        size: int,
        axis_name: Any = None,
        signature: Signature | None = None,
        rows_along: Any = None,
        explicit_rows: ExplicitSharding | None = None,
    ):
        super().__init__(parent)
        self.explicit_rows = explicit_rows  # the sharding of the mapped axis over Explicit axes of a mesh
        self.size, self.axis_name, self.signature, self.rows_along = size, axis_name, signature, rows_along
        self.names = names_of_equations(self)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        dims: list[int | None] = []
        origin = None
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                if origin is None:
                    origin = x.origin
                values.append(x.value)
                dims.append(x.dim)
            else:
                values.append(x)
                dims.append(None)
        rule: Callable[..., Any] = primitive.batch
        if self.axis_name is not None and self.names_axis(primitive, params):
            rule = partial(primitive.batch_named, self.axis_name)  # type: ignore[arg-type, misc]  # not None
        elif origin is None:
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom
        before, rows_before, line = context.trace, (context.rows_along, context.explicit_rows), context.source
        if line is None and self.names:
            context.source = line_of_rule(self.names, primitive, params)
        context.trace = self.parent  # type: ignore[assignment]
        context.rows_along, context.explicit_rows = self.rows_along, self.explicit_rows
        try:
            outs, out_dims = rule(self.size, values, dims, **params)
            if self.explicit_rows is not None:
                outs = [x if d is None else with_rows_along(x, self.explicit_rows, d) for x, d in zip(outs, out_dims)]
        finally:
            context.trace, context.source = before, line
            context.rows_along, context.explicit_rows = rows_before
        if origin is None:
            origin = -1
        return [x if d is None else BatchTracer(self, x, d, origin) for x, d in zip(outs, out_dims)]

    def names_axis(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Whether an operation is a collective over the mapped axis, or holds a jaxpr with one, or a function."""
        if primitive.batch_named is None:
            return False
        if any(map(callable, params.values())) or self.axis_name in named_axes(params):
            return True
        return any(self.axis_name in names_in(inner) for inner in jaxprs_in_params(params))

    def explain(self, tracer: Tracer) -> str:
        return self.signature.explain([tracer.origin]) if self.signature and isinstance(tracer, BatchTracer) else ""


def named_axes(params: dict[str, Any]) -> tuple[Any, ...]:
    """The axis names among a collective's parameters."""
    names = params.get("axes", params.get("axis_name", ()))
    return names if isinstance(names, tuple) else (names,)


def names_in(jaxpr: Jaxpr) -> frozenset[Any]:
    """The axes that the collectives of a jaxpr name, cached with it."""
    if "axes" not in jaxpr.memo:
        names: set[Any] = set()
        for eqn in jaxpr.eqns:
            if eqn.primitive.batch_named is not None:
                names.update(named_axes(eqn.params))
            for sub in subjaxprs(eqn):
                names |= names_in(sub)
        jaxpr.memo["axes"] = frozenset(names)
    return jaxpr.memo["axes"]


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    size: int,
    values: Sequence[Any],
    dims: Sequence[int | None],
    axis_name: Any = None,
    signature: Signature | None = None,
    rows_along: Any = None,
    explicit_rows: ExplicitSharding | None = None,
) -> tuple[list[Any], list[int | None]]:
    """Runs `fun`, which takes flat rows and gives a list, on arrays mapped along `dims`."""
    trace = BatchTrace(context.trace, size, axis_name, signature, rows_along, explicit_rows)
    arguments = [x if d is None else BatchTracer(trace, x, d, i) for i, (x, d) in enumerate(zip(values, dims))]
    before = context.trace
    context.trace = trace
    try:
        if axis_name is None:
            results = fun(*arguments)
        else:
            with axes_in_scope(NamedAxis(axis_name, size)):
                results = fun(*arguments)
    finally:
        context.trace = before
        trace.alive = False
    if settings.check_tracer_leaks:
        refuse_leaks(trace, [arguments, results])
    is_mapped = [type(x) is BatchTracer and x._trace is trace for x in results]
    return (
        [x.value if mapped else x for x, mapped in zip(results, is_mapped)],
        [x.dim if mapped else None for x, mapped in zip(results, is_mapped)],
    )


def _with_rows(aval: ShapedArray, dim: int, size: int, explicit_rows: ExplicitSharding | None) -> ShapedArray:
    """A type with a mapped axis at `dim`, which is partitioned as `explicit_rows` says, if that is given."""
    if explicit_rows is None:
        return aval.with_axis(dim, size)
    part = explicit_rows.parts[0]  # type: ignore[index]  # it is decided
    parts = list(parts_of(aval))
    return aval.plain.with_axis(dim, size).with_explicit(explicit_rows.with_parts([*parts[:dim], part, *parts[dim:]]))


def batch_jaxpr(
    jaxpr: Jaxpr,
    size: int,
    dims: tuple[int | None, ...],
    axis_name: Any = None,
    rows_first: tuple[bool, ...] | None = None,
) -> tuple[ClosedJaxpr, list[int | None]]:
    """A jaxpr without constants, mapped along `dims` of its arguments; cached with the jaxpr.

    With `rows_first`, the mapped axis of every mapped result is axis 0, and the results that it marks are mapped even
    if they depend on no mapped argument.
    """
    rows_along, explicit_rows = context.rows_along, context.explicit_rows
    key = ("batch", size, dims, axis_name, rows_first, context.axes, rows_along, explicit_rows)
    if key not in jaxpr.memo:
        avals = [
            v.aval if d is None else _with_rows(v.aval, d, size, explicit_rows) for v, d in zip(jaxpr.invars, dims)
        ]
        out_dims: list[int | None] = []

        def run(*args: Any) -> list[Any]:
            outs, dims_of_outs = batch_flat(
                lambda *xs: eval_jaxpr(jaxpr, (), *xs), size, args, dims, axis_name, None, rows_along, explicit_rows
            )
            out_dims[:] = dims_of_outs
            if rows_first is None:
                return outs
            out_dims[:] = [0 if forced or d is not None else None for d, forced in zip(dims_of_outs, rows_first)]
            return [x if to is None else mapped_to(x, d, size) for x, d, to in zip(outs, dims_of_outs, out_dims)]

        jaxpr.memo[key] = (stage(run, avals), out_dims)
    return jaxpr.memo[key]

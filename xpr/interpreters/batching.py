"""JAX's tables of `vmap` rules, `primitive_batchers` and `axis_primitive_batchers`, and functions to fill them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.interpreters.tables import RuleTable, listed, unlisted
from xpr.primitives.shapes import expand_dims, mapped_to, move_axis
from xpr.transforms.batch import AxisData as AxisData
from xpr.transforms.batch import BatchTrace as BatchTrace
from xpr.transforms.batch import BatchTracer as BatchTracer
from xpr.transforms.vmappable import Handlers, handlers

__all__ = [
    "AxisData", "BatchTrace", "BatchTracer", "axis_primitive_batchers", "bdim_at_front", "broadcast",
    "defbroadcasting", "defreducer", "defvectorized", "fancy_primitive_batchers", "moveaxis", "not_mapped",
    "primitive_batchers", "register_vmappable", "unregister_vmappable",
]  # fmt: skip

not_mapped = None


def _dims(primitive: Primitive, outs: list[Any], dims: Any) -> list[Any]:
    """A dim for each result, from a sequence or a single dim."""
    return list(dims) if isinstance(dims, list | tuple) else [dims] * len(outs)


def _batch_to_slot(primitive: Primitive, rule: Any) -> Any:
    def batch(size: int, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        outs, out_dims = rule(tuple(values), tuple(dims), **params)
        outs = listed(primitive, outs)
        return outs, _dims(primitive, outs, out_dims)

    return batch


def _batch_from_slot(primitive: Primitive, rule: Any) -> Any:
    def batch(values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size = next(aval_of(x).shape[d] for x, d in zip(values, dims) if d is not None)
        outs, out_dims = rule(size, values, dims, **params)
        return unlisted(primitive, outs), unlisted(primitive, out_dims)

    return batch


class _AxisTable(RuleTable):
    """Rules that take the mapped axis, and so also apply to operations that name it."""

    def __setitem__(self, primitive: Primitive, rule: Any) -> None:
        super().__setitem__(primitive, rule)
        slot_rule = self.rules[primitive][0]
        primitive.batch_named = lambda name, *args, **params: slot_rule(*args, axis_name=name, **params)


def _with_axis_data(call: Callable[..., Any]) -> Callable[[Primitive, Any], Any]:
    """Converts a rule, called as `call(rule, axis, values, dims, params)`, to one for the slot."""

    def to_slot(primitive: Primitive, rule: Any) -> Any:
        def batch(size: int, values: Any, dims: Any, *, axis_name: Any = None, **params: Any) -> Any:
            outs, out_dims = call(rule, AxisData(axis_name, size), tuple(values), tuple(dims), params)
            outs = listed(primitive, outs)
            return outs, _dims(primitive, outs, out_dims)

        return batch

    return to_slot


def _by_slot(primitive: Primitive, rule: Any, axis: AxisData, values: Any, dims: Any, params: dict[str, Any]) -> Any:
    named = primitive.batch_named if axis.name is not None else None
    batch = rule if named is None else partial(named, axis.name)
    outs, out_dims = batch(axis.size, values, dims, **params)
    return unlisted(primitive, outs), unlisted(primitive, out_dims)


primitive_batchers = RuleTable("batch", _batch_to_slot, _batch_from_slot)
fancy_primitive_batchers = _AxisTable(  # rule(axis, values, dims, **params)
    "batch",
    _with_axis_data(lambda rule, axis, values, dims, params: rule(axis, values, dims, **params)),
    lambda primitive, rule: lambda axis, values, dims, **params: _by_slot(primitive, rule, axis, values, dims, params),
)
axis_primitive_batchers = _AxisTable(  # rule(size, name, None, values, dims, **params)
    "batch",
    _with_axis_data(lambda rule, axis, values, dims, params: rule(axis.size, axis.name, None, values, dims, **params)),
    lambda primitive, rule: (
        lambda size, name, _, values, dims, **params: _by_slot(
            primitive, rule, AxisData(name, size), values, dims, params
        )
    ),
)


def defvectorized(prim: Primitive) -> None:
    """Declares that an operation is elementwise, whose operands are all mapped along one axis: it passes through."""

    def rule(values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        if any(d != dims[0] for d in dims):
            raise ValueError(
                f"{prim}: its operands are mapped along the axes {', '.join(map(str, dims))}, and by defvectorized all "
                "are to be mapped along one. Declare it by defbroadcasting, which moves and adds axes."
            )
        outs = prim.bind(*values, **params)
        return outs, [dims[0]] * len(outs) if prim.multiple_results else dims[0]

    primitive_batchers[prim] = rule


def defbroadcasting(prim: Primitive) -> None:
    """Declares that an operation of several operands, which are broadcast, is elementwise."""

    def rule(values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        if len({(aval_of(x).shape, d) for x, d in zip(values, dims)}) == 1:
            outs, dim = prim.bind(*values, **params), dims[0]
        else:
            ndim = max(aval_of(x).ndim - (d is not None) for x, d in zip(values, dims))
            outs, dim = prim.bind(*[_in_front(x, d, ndim) for x, d in zip(values, dims)], **params), 0
        return outs, [dim] * len(outs) if prim.multiple_results else dim

    primitive_batchers[prim] = rule


def _in_front(x: Any, dim: int | None, ndim: int) -> Any:
    """The rows along axis 0, each with `ndim` axes; an unmapped operand has a first axis of size 1."""
    if dim is None:
        return expand_dims(x, tuple(range(ndim + 1 - aval_of(x).ndim)))
    x = move_axis(x, dim, 0)
    return expand_dims(x, tuple(range(1, ndim + 2 - aval_of(x).ndim)))


def defreducer(prim: Primitive, ident: Any = None) -> None:
    """Declares that an operation reduces its operand along the axes of its parameter `axes`."""

    def rule(values: Sequence[Any], dims: Sequence[Any], *, axes: Sequence[int], **params: Any) -> Any:
        (x,), (dim,) = values, dims
        axes = tuple([axis + (axis >= dim) for axis in axes])
        return prim.bind(x, axes=axes, **params), dim - sum(axis < dim for axis in axes)

    primitive_batchers[prim] = rule


def register_vmappable(
    data_type: type, spec_type: type, axis_size_type: type, to_elt: Any, from_elt: Any, make_iota: Any = None
) -> None:
    """Registers functions by which `vmap` maps values of a type.

    Args:
      data_type: the type.
      spec_type: the type of what stands in `in_axes` and `out_axes` for a value.
      axis_size_type: the type of the size of such an axis: int.
      to_elt: `(cont, get_index, value, spec)` returns a row, with `cont(array, axis)` for each array in the value.
      from_elt: `(cont, size, row, spec)` returns a value, with `cont(size, row of an array, axis)` for each array.
      make_iota: not used: indices are integers.
    """
    handlers[data_type] = Handlers(spec_type, to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Makes a type again one that `vmap` maps as it maps others."""
    del handlers[data_type]


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """`sz` copies of an array along a new axis; that of a mesh is left to the compiler."""
    return mapped_to(x, None, sz, axis)


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """The rows along axis 0; an unmapped array is broadcast."""
    return mapped_to(x, bdim, size)


def moveaxis(x: Any, source: int, target: int) -> Any:
    """The array with an axis moved."""
    return move_axis(x, source, target)

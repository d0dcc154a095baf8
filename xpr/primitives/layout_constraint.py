"""layout_constraint: the operand, with its elements in a given order in memory while the program runs."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.backend.layout import Layout
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of
from xpr.primitives.shapes import structural

__all__ = ["layout_constraint_p"]


def _abstract(aval: ShapedArray, *, layout: Layout) -> ShapedArray:
    layout.check_compatible_aval(aval.shape)
    return aval


def _lower(b: Builder, x: Value, aval: ShapedArray, *, layout: Layout) -> Value:
    minor_to_major = ", ".join(map(str, reversed(layout.major_to_minor)))
    order = f"[dense<[{minor_to_major}]> : tensor<{aval.ndim}xindex>]"
    properties = f'call_target_name = "LayoutConstraint", operand_layouts = {order}, result_layouts = {order}'
    return b.op("stablehlo.custom_call", [x], aval, properties)


def _batch(size: int, x: Any, dim: int, *, layout: Layout) -> tuple[Any, int]:
    """The mapped axis is the slowest."""
    axes = [axis + (axis >= dim) for axis in layout.major_to_minor]
    return layout_constraint_p.bind(x, layout=layout.update(major_to_minor=(dim, *axes))), dim


layout_constraint_p = structural(
    "layout_constraint",
    abstract=_abstract,
    reference=lambda x, *, layout: x,
    lower=_lower,
    transpose=lambda ct, aval, *, layout: layout_constraint_p.bind(ct, layout=layout),
    batch=_batch,
)


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Arrays whose elements are in a given order in memory, also inside of a compiled program.

    Results of the program are row-major, but for those that are what this function gives.

    Args:
      x: a pytree of arrays.
      layouts: a `Layout`, the axes from the slowest to the fastest; or a pytree prefix of those.

    Returns:
      The pytree.

    Raises:
      ValueError: the layout has another number of axes.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.layout import Layout, with_layout_constraint
    >>> by_columns = xpr.jit(lambda x: with_layout_constraint(x + 1, Layout((1, 0))))(jnp.zeros((2, 2)))
    >>> by_columns.format.layout.major_to_minor
    (1, 0)
    """

    def constrained(layout: Layout, part: Any) -> Any:
        return tree.map(lambda leaf: _constrained(leaf, layout), part)

    return tree.map(constrained, layouts, x, is_leaf=lambda each: isinstance(each, Layout))


def _constrained(x: Any, layout: Layout) -> Any:
    layout.check_compatible_aval(aval_of(x).shape)
    return layout_constraint_p.bind(x, layout=layout)

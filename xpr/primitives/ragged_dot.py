"""Ragged contractions: groups of rows are multiplied by matrices of their own, as by the experts of a network.

One axis of the left operand is split into groups, whose sizes are an array. It is free (each group of rows has a matrix
in the right operand), contracted (each group has a result), or batched. Each is one `dot_general` of an operand that is
repeated for each group, with zeros where an element is of another group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpr import dtypes
from xpr.core.avals import ShapedArray, aval_of
from xpr.errors import ArgumentError
from xpr.primitives import composites
from xpr.primitives.cumulative import cumsum
from xpr.primitives.dot import DotDimensionNumbers, dot_general
from xpr.primitives.elementwise import bitwise_and, ge, lt, sub
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.shapes import full
from xpr.primitives.slicing import broadcasted_iota, select

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]

Axes = tuple[int, ...]


@dataclass(frozen=True, init=False)
class RaggedDotDimensionNumbers:
    """Which axes of a ragged contraction go together, which is split into groups, and which numbers the groups."""

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __init__(
        self,
        dot_dimension_numbers: DotDimensionNumbers,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ):
        """The axes of a ragged contraction.

        Args:
          dot_dimension_numbers: `((lhs contracted, rhs contracted), (lhs batched, rhs batched))`.
          lhs_ragged_dimensions: the one axis of the left operand that is split into groups.
          rhs_group_dimensions: the axis of the right operand that numbers the groups, where the other is free.
        """
        numbers = tuple(tuple(map(tuple, pair)) for pair in dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", numbers)
        object.__setattr__(self, "lhs_ragged_dimensions", tuple(lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", tuple(rhs_group_dimensions))


_ROWS_BY_MATRICES = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """Groups of consecutive rows of a matrix, each multiplied by a matrix of its own.

    Args:
      lhs: [m, k].
      rhs: [g, k, n], a matrix for each group.
      group_sizes: integers [g], how many rows each group has; rows beyond the last group give 0.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to sum in, and of the result; None for that of the operands.
      group_offset: None.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [m, n].

    Raises:
      TypeError: the shapes don't fit.
      NotImplementedError: a group offset is given.

    >>> from xpr import lax, numpy as jnp
    >>> matrices = jnp.stack([jnp.eye(2), 2 * jnp.eye(2)])
    >>> lax.ragged_dot(jnp.ones((3, 2)), matrices, jnp.array([1, 2]))
    Array([[1., 1.],
           [2., 2.],
           [2., 2.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS_BY_MATRICES, precision, preferred_element_type, group_offset, out_sharding
    )


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """A contraction in which one axis of the left operand is split into groups.

    Args:
      lhs: an array.
      rhs: an array; where the ragged axis is free it has an axis that numbers the groups.
      group_sizes: integers [g], or [..., g] for axes of `lhs` before the ragged one: the batched ones, then those of
        its kind.
      ragged_dot_dimension_numbers: the axes.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to sum in, and of the result; None for that of the operands.
      group_offset: None.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      What `dot_general` gives, without the axis of groups; where the ragged axis is contracted with one in front.

    Raises:
      TypeError: the axes or the shapes don't fit.
      NotImplementedError: a group offset is given.

    >>> from xpr import lax, numpy as jnp
    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> lax.ragged_dot_general(jnp.ones(3), jnp.arange(3.0), jnp.array([1, 2]), numbers)
    Array([0., 3.], dtype=float32)
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot_general: group_offset is None: groups begin with the first row.")
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = (tuple(map(tuple, pair)) for pair in numbers.dot_dimension_numbers)
    left, right, sizes = aval_of(lhs), aval_of(rhs), aval_of(group_sizes)
    axis = _ragged_axis(numbers, left)
    groups = tuple(numbers.rhs_group_dimensions)
    free = axis not in lc and axis not in lb
    _check_groups(groups, free, right, sizes, (*rc, *rb))
    others = [a for a in range(left.ndim) if a not in lc and a not in lb]
    before = others[: others.index(axis)] if free else [] if axis in lb else list(lc[: lc.index(axis)])
    prefix = (*lb[: lb.index(axis)],) if axis in lb else (*lb, *before)
    expected = (*(left.shape[a] for a in prefix), sizes.shape[-1])
    if sizes.shape not in (expected, expected[-1:]):
        raise TypeError(
            f"ragged_dot_general: expected group_sizes to have shape {expected}, got {sizes.shape}: the left operand "
            f"is {left.str_short()}, of which axis {axis} is split into groups. Sizes that are the same in all rows "
            f"may have shape {expected[-1:]}."
        )
    options = {"precision": precision, "preferred_element_type": preferred_element_type, "out_sharding": out_sharding}
    if axis in lb:
        return dot_general(lhs, rhs, ((lc, rc), (lb, rb)), **options)
    apart = _by_group(lhs, group_sizes, axis, prefix)
    if free:
        contracted, batched = ((*_after(lc), 0), (*rc, *groups)), (_after(lb), rb)
        return dot_general(apart, rhs, (contracted, batched), **options)
    ragged = rc[lc.index(axis)]
    other = _by_group(rhs, group_sizes, ragged, (*rb, *rc[: lc.index(axis)]))
    return dot_general(apart, other, ((_after(lc), _after(rc)), ((0, *_after(lb)), (0, *_after(rb)))), **options)


def _after(axes: Sequence[int]) -> Axes:
    """The numbers of the same axes after a new axis has been added in front."""
    return tuple(a + 1 for a in axes)


def _ragged_axis(numbers: RaggedDotDimensionNumbers, lhs: ShapedArray) -> int:
    axes = tuple(numbers.lhs_ragged_dimensions)
    if len(axes) == 1 and not 0 <= axes[0] < lhs.ndim:
        raise TypeError(
            f"ragged_dot_general: lhs_ragged_dimensions is {axes}, which is no axis of the left operand, "
            f"{lhs.str_short()}."
        )
    if len(axes) != 1:
        raise TypeError(
            f"ragged_dot_general expects exactly one lhs ragged dimension, the axis of {lhs.str_short()} that is split "
            f"into groups, and lhs_ragged_dimensions is {axes}."
        )
    return axes[0]


def _check_groups(groups: Axes, free: bool, rhs: ShapedArray, sizes: ShapedArray, used: Axes) -> None:
    if sizes.dtype not in dtypes.INTEGERS or not sizes.ndim:
        raise ArgumentError(f"ragged_dot_general: group sizes are integers [g] or [..., g], not {sizes.str_short()}.")
    if not free and groups:
        raise TypeError(
            "ragged_dot_general: where the lhs ragged dimension is contracting or batch, it distinguishes the "
            f"groups itself, and the rhs has no group dimensions: rhs_group_dimensions={groups}."
        )
    if not free:
        return
    if len(groups) != 1 or not 0 <= groups[0] < rhs.ndim:
        raise TypeError(
            "ragged_dot_general requires exactly one rhs group dimension when lhs ragged dimension is noncontracting: "
            f"the axis of {rhs.str_short()} that numbers the groups. Given is rhs_group_dimensions={groups}."
        )
    if groups[0] in used:
        raise TypeError(
            "ragged_dot_general: an rhs group dimension is distinct from contracting and batch dimensions: "
            f"rhs_group_dimensions={groups}, and {used} of {rhs.str_short()} are contracted or batched."
        )
    if rhs.shape[groups[0]] != sizes.shape[-1]:
        raise TypeError(
            f"ragged_dot_general: expected rhs group dimension size to be {sizes.shape[-1]}, got "
            f"{rhs.shape[groups[0]]}: axis {groups[0]} of {rhs.str_short()} numbers the groups, of which group_sizes "
            f"has {sizes.shape[-1]}."
        )


def _by_group(x: Any, sizes: Any, axis: int, prefix: Axes) -> Any:
    """x for each group, zeros where an element is of another group; the groups are the first axis."""
    aval, size_aval = aval_of(x), aval_of(sizes)
    shape = (size_aval.shape[-1], *aval.shape)
    ends = cumsum(sizes, size_aval.ndim - 1)
    at = (0,) if size_aval.ndim == 1 else (*_after(prefix), 0)
    starts, ends = (composites.broadcast_in_dim(bounds, shape, at) for bounds in (sub(ends, sizes), ends))
    position = broadcasted_iota(size_aval.dtype, shape, axis + 1)
    is_in_group = bitwise_and(ge(position, starts), lt(position, ends))
    return select(is_in_group, composites.broadcast_in_dim(x, shape, range(1, len(shape))), full(shape, 0, aval.dtype))

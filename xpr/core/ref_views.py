"""Views of refs, `ref.at[index]` and `ref.reshape(sizes)`: pytree nodes of a ref and the arrays of the index.

So a view is an argument wherever a ref is. Integers and slices are part of the structure of a view. What would be split
into rows or shards is the whole ref, before the index is applied, which is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree
from xpr.core.refs import Ref
from xpr.errors import ArgumentError
from xpr.tree_nodes import FlattenedIndexKey, GetAttrKey, register_pytree_with_keys


@dataclass(frozen=True, slots=True)
class NewShape:
    """What stands in the index of a view that has all elements of its ref in another shape."""

    sizes: tuple[int, ...]


class RefView:
    """`ref.at[index]`: the elements of a ref at an index, read and written like a ref of their own.

    The index of `ref.reshape(2, 3)` is `(NewShape((2, 3)),)`.
    """

    __slots__ = ("index", "ref")

    def __init__(self, ref: Ref | RefView, index: Any):
        self.ref, self.index = ref, index

    dtype = property(lambda self: self.ref.dtype)

    @property
    def new_shape(self) -> tuple[int, ...] | None:
        """The shape that all elements of the ref are in; None for those at an index."""
        first = self.index[0] if type(self.index) is tuple and self.index else None
        return first.sizes if type(first) is NewShape else None

    @property
    def step(self) -> str:
        """The text of what makes the view of its ref."""
        return f"at[{self.index!r}]" if self.new_shape is None else f"reshape({', '.join(map(str, self.new_shape))})"

    def __repr__(self) -> str:
        return f"{self.ref!r}.{self.step}"


_STATIC = (int, bool, np.integer, type(None), type(Ellipsis), NewShape)


def _flatten(view: RefView) -> tuple[list[tuple[Any, Any]], Any]:
    """The ref and the arrays of the index; its structure is the parts of each element, with types for static ones."""
    arrays: list[Any] = []

    def part(x: Any) -> Any:
        if isinstance(x, _STATIC):
            return type(x), x
        arrays.append(x)
        return None

    def element(x: Any) -> Any:
        return (part(x.start), part(x.stop), part(x.step)) if type(x) is slice else [part(x)]

    index = view.index if type(view.index) is tuple else (view.index,)
    structure = tuple(tuple(element(x)) for x in index)
    children = [(FlattenedIndexKey(i), x) for i, x in enumerate(arrays)]
    return [(GetAttrKey("ref"), view.ref), *children], structure


def _unflatten(structure: Any, children: Sequence[Any]) -> RefView:
    ref, *rest = children
    arrays = iter(rest)
    index = []
    for parts in structure:
        values = [next(arrays) if part is None else part[1] for part in parts]
        index.append(values[0] if len(values) == 1 else slice(*values))
    return RefView(ref, tuple(index))


register_pytree_with_keys(RefView, _flatten, _unflatten)


def _is_view(x: Any) -> bool:
    return type(x) is RefView


def refuse_split_views(what: str, arguments: Any, is_split: Sequence[bool]) -> None:
    """Checks that no view is among what is split into rows or shards.

    Raises:
      ArgumentError: a leaf of a view is split.
    """
    position = 0
    for x in tree.leaves(arguments, is_leaf=_is_view):
        count = len(tree.leaves(x)) if _is_view(x) else 1
        if _is_view(x) and any(is_split[position : position + count]):
            raise ArgumentError(
                f"{what}: TransformedRefs are not allowed where arguments are split into rows or shards, and a view of "
                f"a Ref, {x.step}, is one. Pass the Ref, and take the view inside of the function."
            )
        position += count

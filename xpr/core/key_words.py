"""Arrays of entries that are rows of words: what random keys look like to those who need not know them.

To transformations such an array is the array of its words; to its users it has the axes of its entries alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xpr import tree
from xpr.core.avals import Shape, aval_of
from xpr.dtypes import uint32


class Words:
    """An array of entries around an array of words, whose last axis it hides; a pytree node with that one child."""

    __slots__ = ("words",)
    dtype: ClassVar[Any]

    def __init__(self, words: Any):
        self.words = words

    @property
    def shape(self) -> Shape:
        """The shape of the array of entries."""
        return aval_of(self.words).shape[:-1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def str_short(self) -> str:
        """The type, as messages write it: `key<fry>[3]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def is_words(x: Any) -> bool:
    """Whether something is such an array."""
    return isinstance(x, Words)


def leaves_of_users(pytree: Any) -> list[Any]:
    """The leaves of a pytree with such arrays as they are: as many as it has, in the same order."""
    return tree.leaves(pytree, is_leaf=is_words)


def ndims_of_users(make_pytree: Callable[[], Any], leaves: Sequence[Any]) -> list[int]:
    """How many axes each leaf of a pytree has to users."""
    avals = [aval_of(x) for x in leaves]
    ndims = [aval.ndim for aval in avals]
    if uint32 not in [aval.dtype for aval in avals]:  # it has no words, and is not looked at
        return ndims
    return [n - is_words(x) for n, x in zip(ndims, leaves_of_users(make_pytree()))]

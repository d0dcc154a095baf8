"""The structures and types of a program's arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.core.avals import ShapedArray


class Interface(NamedTuple):
    """The structures and the flat types of a program's arguments and results.

    Attributes:
      name: of the function.
      in_tree: the structure of `(args, kwargs)`, without static arguments.
      names: of the arguments, flat, for messages.
      donated: the flat positions of donated arguments whose memory results take.
      asked: the flat positions of all that were to be donated; None for those.
    """

    name: str
    in_tree: Any
    out_tree: Any
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]
    names: Sequence[str]
    donated: Sequence[int]
    asked: Sequence[int] | None = None

    def given(self) -> tuple[int, ...]:
        """The flat positions of all arguments that were to be donated."""
        return tuple(self.donated if self.asked is None else self.asked)

"""The structures and types of a program's arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.core.avals import ShapedArray


class Interface(NamedTuple):
    """The structures and the flat types of a program's arguments and results.

    Attributes:
      name: the name of the function.
      in_tree, out_tree: the structures of `(args, kwargs)`, without static arguments, and of the result.
      in_avals, out_avals: their flat types.
      names: the names of the arguments, flat, for messages.
      donated: the flat positions of donated arguments whose memory results take.
      requested: the flat positions of all arguments that the user donates; None if they are `donated`.
    """

    name: str
    in_tree: Any
    out_tree: Any
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]
    names: Sequence[str]
    donated: Sequence[int]
    requested: Sequence[int] | None = None

    def requested_donations(self) -> tuple[int, ...]:
        """The flat positions of all arguments that the user donates."""
        return tuple(self.donated if self.requested is None else self.requested)

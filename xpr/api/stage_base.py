"""Stage, the base class of the stages of compiling a function: structures and types of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.artifacts.interface import Interface
from xpr.core.avals import ShapedArray


@dataclass(frozen=True, slots=True)
class ArgInfo:
    """An argument of a staged function: its type, and whether it is donated.

    >>> import xpr
    >>> xpr.jit(lambda x: x + 1).lower(1.0).args_info
    ((ArgInfo(_aval=ShapedArray(float32[], weak_type=True), donated=False),), {})
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the argument."""
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the argument."""
        return self._aval.dtype


class Stage:
    """A stage of compiling a function: traced, lowered or compiled."""

    __slots__ = ("interface",)

    interface: Interface

    in_tree = property(lambda self: self.interface.in_tree, doc="The structure of `(args, kwargs)`.")
    out_tree = property(lambda self: self.interface.out_tree, doc="The structure of the result.")

    @property
    def args_info(self) -> Any:
        """The arguments, as `(args, kwargs)` with an `ArgInfo` at each leaf."""
        donated = frozenset(self.interface.requested_donations())
        infos = [ArgInfo(aval, i in donated) for i, aval in enumerate(self.interface.in_avals)]
        return tree.unflatten(self.in_tree, infos)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as `(args, kwargs)` with a `ShapedArray` at each leaf."""
        return tree.unflatten(self.in_tree, self.interface.in_avals)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The flat positions of the donated arguments."""
        return self.interface.requested_donations()

    @property
    def out_info(self) -> Any:
        """The structure of the result, a `ShapeDtypeStruct` at each leaf."""
        avals, shardings = self.interface.out_avals, self.out_shardings()
        structs = [
            ShapeDtypeStruct.of_type(a)
            if a.is_high
            else ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=s)
            for a, s in zip(avals, shardings)
        ]
        return tree.unflatten(self.out_tree, structs)

    def out_shardings(self) -> Sequence[Any]:
        """The shardings of the results, flat, as far as they are known."""
        return [None] * len(self.interface.out_avals)

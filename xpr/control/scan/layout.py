"""How the operands and results of loops over rows are laid out, shared by all their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr.control.activity import Flags
from xpr.core.avals import Zero

T = TypeVar("T")
Bind = Callable[..., list[Any]]  # (body, consts, carry, xs, params, linear, **changes) -> results


class Layout:
    """Cuts lists that are laid out `consts | carry | xs` (operands), or `carry | ys` (results)."""

    __slots__ = ("num_carry", "num_consts")

    def __init__(self, num_consts: int, num_carry: int):
        self.num_consts, self.num_carry = num_consts, num_carry

    def operands(self, values: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        first, second = self.num_consts, self.num_consts + self.num_carry
        return list(values[:first]), list(values[first:second]), list(values[second:])

    def results(self, values: Sequence[T]) -> tuple[list[T], list[T]]:
        return list(values[: self.num_carry]), list(values[self.num_carry :])


def layout_of(params: dict[str, Any]) -> Layout:
    return Layout(params["num_consts"], params["num_carry"])


def is_active(tangents: Sequence[Any]) -> Flags:
    return tuple([type(t) is not Zero for t in tangents])

"""Mappings from primitives to rules in JAX's form, which store the rules in the primitives' slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from xpr.core.primitive import Primitive, Unsupported, all_primitives

Rule = Callable[..., Any]


class RuleTable(MutableMapping[Primitive, Rule]):
    """`table[primitive] = rule` sets a primitive's rule in JAX's form; reading returns it in that form.

    Args:
      slot: the slot of the primitive.
      to_slot: `(primitive, rule) -> slot's rule`.
      from_slot: `(primitive, slot's rule) -> rule`, for rules that were not set by the table.
    """

    def __init__(
        self, slot: str, to_slot: Callable[[Primitive, Rule], Any], from_slot: Callable[[Primitive, Any], Rule]
    ):
        self.slot, self.to_slot, self.from_slot = slot, to_slot, from_slot
        self.rules: dict[Primitive, tuple[Any, Rule]] = {}  # the slot's rule, and the rule it wraps

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        slot_rule = self.to_slot(primitive, rule)
        setattr(primitive, self.slot, slot_rule)
        self.rules[primitive] = slot_rule, rule

    def __getitem__(self, primitive: Primitive) -> Rule:
        current = getattr(primitive, self.slot, None)
        if current is None or isinstance(current, Unsupported):
            raise KeyError(primitive)
        slot_rule, rule = self.rules.get(primitive, (None, None))
        return rule if slot_rule is current and rule is not None else self.from_slot(primitive, current)

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]
        removed = Unsupported(f"Its rule was removed from the table of {self.slot} rules.")
        setattr(primitive, self.slot, removed.of(primitive.name, self.slot))

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and not isinstance(getattr(primitive, self.slot), Unsupported | None)

    def __iter__(self) -> Iterator[Primitive]:
        return (p for p in all_primitives() if p in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def listed(primitive: Primitive, out: Any) -> list[Any]:
    """Results in a list, also a single one."""
    return list(out) if primitive.multiple_results else [out]


def unlisted(primitive: Primitive, outs: Any) -> Any:
    """The single result, or the list where the primitive has several."""
    return list(outs) if primitive.multiple_results else outs[0]

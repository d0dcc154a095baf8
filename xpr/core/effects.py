"""The effects that primitives of users declare: what a program does besides computing its results.

The effects of the library's own primitives are "ordered" and "unordered", which are allowed everywhere. Those of users'
primitives are instances of subclasses of `Effect`. Which of these are ordered, and what may hold them, is declared by
class: `lowerable_effects.add_type(Sends)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OWN = frozenset({"ordered", "unordered"})
no_effects: frozenset[Any] = frozenset()


class Effect:
    """An effect of a primitive, to derive classes from: `def_effectful_abstract_eval` declares effects.

    >>> import xpr
    >>> from xpr.extend import Primitive
    >>> class Sends(xpr.core.Effect):
    ...     __repr__ = lambda self: "Sends"
    >>> send_p = Primitive("send", multiple_results=True)
    >>> _ = send_p.def_effectful_abstract_eval(lambda aval: ([], {Sends()}))
    >>> xpr.make_jaxpr(send_p.bind)(1.0).effects
    frozenset({Sends})
    """


class EffectTypes:
    """A set of classes of effects.

    >>> import xpr
    >>> class Sends(xpr.core.Effect):
    ...     __repr__ = lambda self: "Sends"
    >>> xpr.core.ordered_effects.add_type(Sends)
    >>> xpr.core.ordered_effects.contains(Sends()), xpr.core.ordered_effects.filter_not_in([Sends()])
    (True, [])
    """

    def __init__(self, name: str):
        self._name, self._types = name, ()  # type: tuple[str, tuple[type, ...]]

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(each.__name__ for each in self._types)})"

    def add_type(self, effect_type: type) -> None:
        """Adds a class of effects, and with it those derived from it."""
        self._types = (*self._types, effect_type)

    def contains(self, eff: Any) -> bool:
        """Whether an effect is an instance of one of the classes."""
        return isinstance(eff, self._types)

    def filter_in(self, effects: Iterable[Any]) -> list[Any]:
        """The effects that are instances of one of the classes."""
        return list(filter(self.contains, effects))

    def filter_not_in(self, effects: Iterable[Any]) -> list[Any]:
        """The effects that are instances of none of the classes."""
        return [each for each in effects if not self.contains(each)]

    def refused(self, effects: Iterable[Any]) -> list[Any]:
        """The effects of users' primitives that are instances of none of the classes."""
        return [each for each in self.filter_not_in(effects) if not _is_own(each)]

    def advice(self, effects: Iterable[Any]) -> str:
        """What to do where effects are refused: the calls that add their classes."""
        names = sorted({type(each).__name__ for each in effects})
        return f"Where they are safe there, say so: {', '.join(f'xpr.core.{self._name}.add_type({n})' for n in names)}."


# Effects that happen in the order of the program. All other effects happen in any order.
ordered_effects = EffectTypes("ordered_effects")
# Effects that programs may have that are compiled.
lowerable_effects = EffectTypes("lowerable_effects")
# Effects that the functions of loops and branches may have.
control_flow_allowed_effects = EffectTypes("control_flow_allowed_effects")
# Effects that functions with derivative rules of their own may have.
custom_derivatives_allowed_effects = EffectTypes("custom_derivatives_allowed_effects")


def kind_of(effect: Any) -> str:
    """Whether an effect is "ordered" or "unordered"."""
    if _is_own(effect):
        return effect
    return "ordered" if ordered_effects.contains(effect) else "unordered"


def _is_own(effect: Any) -> bool:
    return type(effect) is str and effect in OWN

"""`jax.experimental.hijax`, as far as libraries need its names to be imported: types and primitives over other types.

xpr has no such types. Classes can be derived from these and instantiated; running them raises an error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from xpr.core import ShapedArray as AbstractValue
from xpr.core import Zero as Zero
from xpr.core import control_flow_allowed_effects as control_flow_allowed_effects
from xpr.core.primitive import is_linear as is_undefined_primal
from xpr.primitives.shapes import instantiate as instantiate_zeros

__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiType", "MutableHiType", "Zero", "aval_method",
    "aval_property", "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal", "register_hitype",
]  # fmt: skip


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: xpr has no types besides arrays (jax.experimental.hijax). Use pytrees of arrays."
    )


class HiType:
    """A type whose values are made of arrays."""


class MutableHiType(HiType):
    """A type of mutable values made of arrays."""


class AvalQDD:
    """A type with its part that depends on the current value."""

    def __init__(self, aval: Any, qdd: Any):
        self.aval, self.qdd = aval, qdd


AvalMutableQDD = AvalQDD


class HiPrimitive:
    """A primitive over such types, which can be instantiated but not bound."""

    def __init__(self, name: str):
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Raises an error: it can't be run."""
        _refuse(f"The primitive {self.name}")


class aval_method:
    """Marks a function of a type as a method of its values."""

    def __init__(self, fun: Any):
        self.fun = fun


class aval_property:
    """Marks a function of a type as a property of its values."""

    def __init__(self, fget: Any):
        self.fget = fget


def register_hitype(value_class: type, aval_of_value: Any) -> None:
    """Notes the type of a class of values; none is ever traced."""

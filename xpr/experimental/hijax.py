"""The names of `jax.experimental.hijax`: types and operations of one's own beside those of arrays."""

from __future__ import annotations

from xpr.control.hi_types.accumulators import GradAccum, NullAccum
from xpr.control.hi_types.box import Box, box_get, box_set, new_box
from xpr.control.hi_types.hi_primitive import HiPrimitive
from xpr.control.hi_types.vjp_primitive import VJPHiPrimitive
from xpr.core import ShapedArray, Zero, control_flow_allowed_effects
from xpr.core.hi_types import (
    AbstractValue,
    AvalQDD,
    HiPspec,
    HiType,
    MappingSpec,
    MutableHiType,
    aval_method,
    aval_property,
    register_hitype,
)
from xpr.core.primitive import is_linear as is_undefined_primal
from xpr.core.ref_views import RefView as TransformedRef
from xpr.core.refs import AbstractRef
from xpr.primitives.shapes import instantiate as instantiate_zeros

__all__ = [
    "AbstractRef", "AbstractValue", "AvalMutableQDD", "AvalQDD", "Box", "GradAccum", "HiPrimitive", "HiPspec", "HiType",
    "MappingSpec", "MutableHiType", "NullAccum", "ShapedArray", "TransformedRef", "VJPHiPrimitive", "Zero",
    "aval_method", "aval_property", "box_get", "box_set", "control_flow_allowed_effects", "instantiate_zeros",
    "is_undefined_primal", "new_box", "register_hitype",
]  # fmt: skip

AvalMutableQDD = AvalQDD  # JAX's name of the type of an operand, whose state an operation may change

"""The core: abstract values, primitives, interpreters, jaxprs and their type checker. No numerics and no XLA."""

from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.check import check_jaxpr
from xpr.core.effects import (
    Effect,
    EffectTypes,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    lowerable_effects,
    ordered_effects,
)
from xpr.core.interpreter import Trace, Tracer, at_the_bottom, context, current
from xpr.core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    jaxpr_as_fun,
    subjaxprs,
    unit,
    unitvar,
)
from xpr.core.primitive import Linear, Unsupported
from xpr.dimensions.expressions import is_constant_dim, is_constant_shape, max_dim, min_dim
from xpr.errors import InconclusiveDimensionOperation

eval_context = at_the_bottom  # JAX's name

__all__ = [
    "aval_of", "check_jaxpr", "ClosedJaxpr", "context", "control_flow_allowed_effects", "current",
    "custom_derivatives_allowed_effects", "DropVar", "Effect", "EffectTypes", "eval_context", "eval_jaxpr",
    "InconclusiveDimensionOperation", "is_constant_dim", "is_constant_shape", "Jaxpr", "jaxpr_as_fun", "JaxprEqn",
    "Linear", "Literal", "lowerable_effects", "max_dim", "min_dim",
    "ordered_effects", "ShapedArray", "subjaxprs", "Trace", "Tracer", "unit", "unitvar", "Unsupported", "Var", "Zero",
]  # fmt: skip

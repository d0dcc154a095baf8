"""Counts of single equations: by the slots of their primitives, or by rules of the user.

A primitive says how many operations it takes (`flops`), how many bytes it reads and writes (`bytes_moved`), whether it
is fused with others (`fusion`) and what it sends (`collectives`). One without the first two only moves elements, which
is done where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.config import logger
from xpr.core.avals import describe
from xpr.core.jaxpr import JaxprEqn
from xpr.core.primitive import FUSED, Primitive
from xpr.core.source import summarize
from xpr.experimental.roofline.network import on_links
from xpr.experimental.roofline.results import RooflineResult, RooflineShape
from xpr.primitives.bytes_moved import bytes_moved, size_of
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise import convert_element_type_p
from xpr.primitives.flops import operations

Rule = Callable[..., RooflineResult]

registered: dict[Primitive, Rule] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """What a rule is told about an equation, besides the shapes of its operands and its parameters.

    Attributes:
      name_stack: the names of the scopes around it, as text.
      primitive: its primitive.
      avals_in: the types of its operands.
      avals_out: the types of its results.
      jaxpr_eqn_ctx: the settings under which it was traced.
      mesh: the mesh of devices, None for none.
      pin_lhs_in_vmem: whether the first operand of products is not in memory.
      pin_rhs_in_vmem: whether the second one is not.
    """

    name_stack: str
    primitive: Any
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    jaxpr_eqn_ctx: Any
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


def register_roofline(prim: Primitive) -> Callable[[Rule], Rule]:
    """A decorator for the rule of a primitive, which replaces the one that it had.

    Args:
      prim: the primitive.

    Returns:
      A function that takes the rule and returns it. `rule(context, *shapes, **params)` gets a `RooflineRuleContext`,
      the `RooflineShape`s of operands and the equation's parameters, and returns a `RooflineResult`.

    Raises:
      TypeError: it is no primitive.

    >>> import xpr.numpy as jnp
    >>> from xpr.extend import Primitive
    >>> from xpr.experimental.roofline import RooflineResult, register_roofline, roofline
    >>> sparse_sum_p = Primitive("sparse_sum")
    >>> _ = sparse_sum_p.def_abstract_eval(lambda x, *, density: x)
    >>> @register_roofline(sparse_sum_p)
    ... def sparse_sum_roofline(context, x, *, density):
    ...     return RooflineResult(unfused_flops=int(density * x.size), unfused_hbm_bytes=int(density * x.bytes))
    >>> _, result = roofline(lambda x: sparse_sum_p.bind(x, density=0.25))(jnp.zeros(1000))
    >>> result.unfused_flops, result.unfused_hbm_bytes
    (250, 1000)
    """
    if not isinstance(prim, Primitive):
        raise TypeError(f"register_roofline takes the primitive whose rule it is, and got {describe(prim)}.")

    def register(rule: Rule) -> Rule:
        registered[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Primitive) -> None:
    """Makes a primitive one that counts nothing.

    Args:
      prim: the primitive.

    Raises:
      TypeError: it is no primitive.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.extend import Primitive
    >>> from xpr.experimental.roofline import register_standard_roofline, roofline
    >>> note_p = Primitive("note")
    >>> _ = note_p.def_abstract_eval(lambda x: x)
    >>> register_standard_roofline(note_p)
    >>> roofline(note_p.bind)(jnp.zeros(1000))[1].unfused_flops
    0
    """
    register_roofline(prim)(lambda context, *shapes, **params: RooflineResult.zeros())


def result_of(eqn: JaxprEqn, context: RooflineRuleContext, sizes: Any) -> RooflineResult:
    """The counts of an equation, without those of jaxprs that it holds; axes around it have these sizes."""
    rule = registered.get(eqn.primitive)
    if rule is not None:
        return rule(context, *map(RooflineShape.from_aval, context.avals_in), **eqn.params)
    return _computing(eqn) + _communicating(eqn, context, sizes)


# -- Operations and memory


def _computing(eqn: JaxprEqn) -> RooflineResult:
    primitive = eqn.primitive
    if primitive.flops is None and primitive.bytes_moved is None:
        if type(primitive) is not Primitive and primitive.regions is None:
            logger().warning(
                "roofline: no rule for the primitive %r, at %s, which counts nothing. Give it one by "
                "register_roofline, or register_standard_roofline.",
                primitive.name,
                summarize(eqn.source),
            )
        return RooflineResult.zeros()
    flops, moved = operations(eqn), bytes_moved(eqn)
    result = RooflineResult(unfused_flops=flops, unfused_hbm_bytes=moved)
    if primitive.fusion in FUSED or primitive.fusion == "reduction":
        return result
    return result + RooflineResult(flops=flops, hbm_bytes=moved)


@register_roofline(dot_general_p)
def _dot_general_roofline(
    context: RooflineRuleContext, lhs: RooflineShape, rhs: RooflineShape, **params: Any
) -> RooflineResult:
    """The left operand and the result are in memory, unless they are pinned, and the right one is unless it is."""
    flops = dot_general_p.flops(context.avals_in, context.avals_out, **params)  # type: ignore[misc]  # it has the slot
    moved = 0 if context.pin_lhs_in_vmem else lhs.bytes + size_of(context.avals_out)
    moved += 0 if context.pin_rhs_in_vmem else rhs.bytes
    return RooflineResult(flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved)


register_standard_roofline(convert_element_type_p)  # values are converted where they are read or written

# -- Communication


def _communicating(eqn: JaxprEqn, context: RooflineRuleContext, sizes: Any) -> RooflineResult:
    """What an equation that names axes sends along them; 0 for those of one device."""
    rule = eqn.primitive.collectives
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    names = [axis for axis in (axes if isinstance(axes, tuple) else (axes,)) if axis in sizes]
    if rule is None or not names:
        return RooflineResult.zeros()
    result = RooflineResult(ici_bytes=dict.fromkeys(names, 0), ici_latency=dict.fromkeys(names, 0))
    for collective in rule(context.avals_in, context.avals_out, sizes, **eqn.params):
        result += on_links(collective, sizes, eqn.params.get("perm", ()))
    return result

"""Calls of a jaxpr that run on several devices, with a sharding spec for each operand and result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import not_
from typing import Any, ClassVar, TypeVar

from xpr.control.call_family import InOutSpecs, JaxprCall, Specs
from xpr.control.groups import mask
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars
from xpr.core.primitive import Primitive
from xpr.errors import UnsupportedRule
from xpr.transforms.linearize import Linearized
from xpr.transforms.on_arrays import OnArrays

T = TypeVar("T")


class MultiDeviceCall(JaxprCall):
    """A call on several devices, with a *spec* for the sharding of each operand and each result.

    Attributes:
      in_specs, out_specs: those of the operands and of the results, which are parameters of the operation.
      replicated: the spec of an operand that every device gets whole.
      stacked: the spec of a result with a separate value on each device.
    """

    spec_parameters: ClassVar[tuple[str, str]]
    replicated: Any = None
    stacked: Any

    def __init__(self, primitive: Primitive, params: dict[str, Any]):
        super().__init__(primitive, params)
        self.in_specs, self.out_specs = [params[name] for name in self.spec_parameters]

    def in_scope(self) -> axes_in_scope:
        """Lets the collectives of the jaxpr name the axes over which the call runs."""
        raise NotImplementedError

    def replaced(self, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
        """The parameters of a call of another jaxpr."""
        raise NotImplementedError

    def dual(self, spec: Any) -> Any:
        """The spec of cotangents of values that have one."""
        return spec

    def called_transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], in_specs: Specs, out_specs: Specs
    ) -> Sequence[Any]:
        """Calls the transposed jaxpr: each device gets its share of the cotangent of a replicated result.

        The cotangent of a replicated operand is the sum of what the devices compute.
        """
        raise NotImplementedError

    def derived(self, transformation: Callable[..., T], *args: Any) -> T:
        with self.in_scope():
            return transformation(self.jaxpr, *args)

    def operation(
        self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs = (), out_specs: Specs = ()
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        specs = [*[self.replicated] * len(closed.consts), *in_specs]
        return [*closed.consts, *operands], self.replaced(constvars_to_invars(closed), specs, out_specs)

    def types(self, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
        self.check(avals)
        return self.result_avals()

    def takes(self, avals: Sequence[ShapedArray]) -> bool:
        return len(avals) == len(self.in_specs) and super().takes(avals)

    def jvp_specs(self, is_active: Sequence[bool], out_active: Sequence[bool]) -> InOutSpecs:
        """Tangents have the specs of their primals."""
        ins, outs = self.in_specs, self.out_specs
        return [*ins, *mask(ins, is_active)], [*outs, *mask(outs, out_active)]

    def halves(self, split: Linearized, is_active: Sequence[bool]) -> tuple[ClosedJaxpr, InOutSpecs, Jaxpr, InOutSpecs]:
        """Residuals, unless they are operands, stay on their devices."""
        ins, outs, sources = self.in_specs, self.out_specs, split.residual_sources
        residuals = [self.stacked if source is None else ins[source] for source in sources]
        primal_specs = ins, [*outs, *[self.stacked] * sources.count(None)]
        return split.primal, primal_specs, split.linear, (
            [*residuals, *mask(ins, is_active)], mask(outs, split.active_outs),
        )  # fmt: skip

    def transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], is_linear: Sequence[bool],
        has_ct: Sequence[bool], affected: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        ct_specs = list(map(self.dual, mask(self.out_specs, has_ct)))
        in_specs = [*mask(self.in_specs, map(not_, is_linear)), *ct_specs]
        out_specs = list(map(self.dual, mask(mask(self.in_specs, is_linear), affected)))
        return self.called_transposed(closed, known, cts, in_specs, out_specs)

    def array_specs(self, program: OnArrays) -> InOutSpecs:
        if any(aval.is_high for aval in (*program.in_avals, *program.out_avals)):
            raise UnsupportedRule(
                f"{self.primitive}: it maps a function of values of users' types, which shard_map alone provides for. "
                "Pass the arrays that they consist of."
            )
        return self.in_specs, self.out_specs

    def smaller(self, jaxpr: Jaxpr, inputs: Sequence[bool], used: Sequence[bool]) -> dict[str, Any]:
        return self.replaced(jaxpr, mask(self.in_specs, inputs), mask(self.out_specs, used))

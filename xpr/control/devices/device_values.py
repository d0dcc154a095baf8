"""Values inside an eager shard_map: a function that asks for one, by `if`, `int` or `print`, gets it.

The function is staged all the same. Where it asks, the equations that the value is computed by run on the devices, and
what they give is kept; a program that was staged so holds for these values alone, and is staged anew by the next call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.config import override, settings
from xpr.control.devices.replication import resolve_of_copies
from xpr.control.devices.shard_map import ManualMesh, with_leading_axes
from xpr.core.interpreter import DependentTrace, Trace, Tracer, at_the_bottom, context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, effects
from xpr.core.primitive import Primitive
from xpr.core.specs import PartitionSpec
from xpr.transforms.stage import Signature, StageTrace, StageTracer


def value_outside(x: Any) -> Any:
    """An operand with its value; None for one that has none, since it is traced."""
    return x.concrete() if isinstance(x, Tracer) else x


def staged_by() -> StageTrace | None:
    """The innermost trace that records a program; None where what runs here is evaluated at once."""
    trace: Any = context.trace
    while trace is not None and not isinstance(trace, StageTrace):
        trace = trace.parent
    return trace


class CastsTrace(DependentTrace):
    """Passes operations on, and refuses those whose operands don't vary alike, with the setting `auto_pcast` off."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        traced = [x.aval for x in args if isinstance(x, Tracer)]
        if not primitive.call and len({aval.varying for aval in traced}) > 1:
            over = ", ".join([f"{aval.str_short()} over {sorted(aval.varying, key=str)}" for aval in traced])
            raise ValueError(
                f"{primitive} requires varying manual axes to match, as the setting auto_pcast is off, and its "
                f"operands vary otherwise: {over}. Cast them: lax.pcast(x, axes, to='varying')."
            )
        return self.parent.process(primitive, args, params)


class DeviceTrace(StageTrace):
    """Records operations as equations, and runs those that a value depends on when it is asked for."""

    __slots__ = ("manual", "operands", "specs", "mesh_outside", "was_asked", "known")

    def __init__(
        self,
        parent: Trace | None,
        signature: Signature,
        manual: ManualMesh,
        operands: Sequence[Any],
        specs: Sequence[PartitionSpec],
    ):
        super().__init__(parent, signature)
        self.manual, self.operands, self.specs = manual, operands, specs
        self.mesh_outside = settings.mesh
        self.was_asked = False  # whether the program depends on values of the operands
        self.known: dict[Var, np.ndarray | None] = {}

    def value_of(self, tracer: Tracer) -> Any:
        """The value, where it is the same on all devices."""
        if not self.alive or not isinstance(tracer, StageTracer) or tracer._trace is not self:
            return None
        if self.manual.check and tracer.aval.varying.intersection(self.manual.axes):
            return None
        rows = self.on_devices(tracer.variable)
        if rows is None or any(row.tobytes() != rows[0].tobytes() for row in rows):
            return None
        return rows[0]

    def shown(self, tracer: Tracer) -> str:
        """The value on each device, with the device's position on the mesh."""
        if not self.alive or not isinstance(tracer, StageTracer) or tracer._trace is not self:
            return ""
        rows = self.on_devices(tracer.variable)
        if rows is None:
            return ""
        axes, mesh = self.manual.axes, self.manual.mesh
        names = f"({', '.join(map(str, axes))},)"
        texts = []
        for at, row in zip(np.ndindex(*[mesh.shape[name] for name in axes]), rows):
            index = dict(zip(axes, at))
            devices = np.ravel(mesh.devices[tuple([index.get(name, slice(None)) for name in mesh.axis_names])])
            texts.append(f"On {', '.join(map(str, devices))} at mesh coordinates {names} = {at}:\n{row}\n")
        return "\n".join(texts)

    def explain(self, tracer: Tracer) -> str:
        text = super().explain(tracer)
        if self.value_is_there(tracer):
            text += (
                f"  It may differ between the devices of {self.manual.mesh.text}; print(x) shows the value on each.\n"
            )
        return text

    def value_is_there(self, tracer: Tracer) -> bool:
        return isinstance(tracer, StageTracer) and self.on_devices(tracer.variable) is not None

    def constant_of(self, value: Any) -> Any:
        return Trace.constant_of(self, value)  # it is known, where nothing around is staged

    def on_devices(self, variable: Var) -> np.ndarray | None:
        """The values on all devices, along a leading axis; None where they can't be computed yet."""
        self.was_asked = True
        if variable not in self.known:
            self.known[variable] = self.computed(variable)
        return self.known[variable]

    def computed(self, variable: Var) -> np.ndarray | None:
        constants = self.values_of_constants()
        held = list(map(value_outside, constants.values()))
        eqns = self.equations_of(variable)
        program = Jaxpr([], [*constants, *self.arguments], [variable], eqns)
        if any(x is None for x in held) or effects(program) or len(self.arguments) != len(self.operands):
            return None
        manual, specs = self.manual, [*[PartitionSpec()] * len(held), *self.specs]
        if manual.check:
            program = resolve_of_copies(program, list(map(manual.varying_axes, specs)), manual.sizes)
        with at_the_bottom(), override("mesh", self.mesh_outside):
            with manual.in_scope():
                closed = ClosedJaxpr(with_leading_axes(program, outs_from=0))
            (rows,) = manual.bind(closed, [*held, *self.operands], specs, [manual.stacked_spec()])
        return np.asarray(rows.host)

    def equations_of(self, variable: Var) -> list[JaxprEqn]:
        """The equations that a variable depends on, in their order."""
        needed: set[Any] = {variable}
        eqns = []
        for eqn in reversed(self.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed.update(v for v in eqn.invars if type(v) is Var)
                eqns.append(eqn)
        return eqns[::-1]

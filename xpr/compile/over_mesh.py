"""evaluate over the devices of a mesh: arrays -> arrays, the bottom interpreter of a thread inside of `set_mesh(mesh)`.

New arrays, and results of operands that are on no device by name, are replicated or sharded over the mesh as types say.
An operation whose operands were put somewhere is done there, as without a mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.array import Array
from xpr.backend.mesh import Mesh
from xpr.backend.sharding import NamedSharding
from xpr.compile.evaluate import EvalTrace, run_on_several
from xpr.compile.placement import to_device
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive

in_use = False  # whether this process ever had such an interpreter; tested where arrays are made on the host


class MeshTrace(EvalTrace):
    """Runs operations on the devices of a mesh."""

    __slots__ = ("replicated",)

    def __init__(self, mesh: Mesh):
        global in_use
        super().__init__()
        self.replicated = NamedSharding(mesh)
        in_use = True

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive.evaluate is not None or any(type(x) is Array and x._device is not None for x in args):
            return super().process(primitive, args, params)
        return run_on_several(primitive, args, params, self.replicated)


def replicated(x: Any) -> Any:
    """An array that was made on the host, replicated over the current mesh.

    Without a mesh it is returned as it is, and so are tracers, and arrays that were put on a device.
    """
    trace = context.trace
    if type(trace) is not MeshTrace or type(x) is not Array or x._device is not None:
        return x
    return to_device(x, trace.replicated)

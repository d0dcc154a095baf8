"""Programs of several processes whose arguments and results are those of each process: see `MeshOfProcesses`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.buffers import Buffer, raise_if_deleted
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.sharding import NamedSharding
from xpr.backend.shards import PartitionedExecutable, sharded_handler, shards_of
from xpr.core.avals import ShapedArray

Shardings = Sequence[NamedSharding | None]


def on_this_process(mesh: MeshOfProcesses, sharding: NamedSharding) -> NamedSharding:
    """The sharding over this process's devices of what is sharded so over those of each process."""
    if sharding.mesh is mesh:
        return sharding.update(mesh=mesh.line.local_mesh)
    return sharding.update(mesh=sharding.mesh.local_mesh)  # the compiler partitions by factors of the axes


def on_each_process(mesh: MeshOfProcesses, shardings: Shardings) -> list[NamedSharding | None]:
    """The shardings over the devices of all processes, for those over the devices of this one; None remains."""
    return [None if each is None else each.update(mesh=mesh) for each in shardings]


class ProgramOfEachProcess(PartitionedExecutable):
    """A program on a `MeshOfProcesses`, for arrays on the devices of this process."""

    __slots__ = ("in_avals", "program")

    def __init__(self, program: PartitionedExecutable, in_avals: Sequence[ShapedArray], mesh: MeshOfProcesses):
        self.program, self.in_avals = program, in_avals
        ins, outs = ([on_this_process(mesh, s) for s in each] for each in (program.in_shardings, program.out_shardings))
        super().__init__(program.raw, program.out_avals, program.devices, program.name, ins, outs)

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program together with the other processes, and waits for it.

        Raises:
          CallbackError: a callback raised, maybe in another process.
          DeletedArrayError: one of the buffers was deleted or donated.
          ProcessLost: another process is gone.
          ProgramMismatch: another process runs another program instead.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        program = self.program
        try:
            parts = list(map(shards_of, buffers))
        except RuntimeError as error:
            raise_if_deleted(buffers, error)
            raise
        results = program.run(_joined(parts, self.in_avals, program.in_shardings))
        return _joined(map(shards_of, results), self.out_avals, self.out_shardings)

    def register(self, text: str) -> None:
        self.program.register(text)


def _joined(parts: Any, avals: Sequence[ShapedArray], shardings: Sequence[NamedSharding]) -> list[Buffer]:
    """A buffer of the parts on this process's devices of each array."""
    return [sharded_handler(aval, sharding)(each) for each, aval, sharding in zip(parts, avals, shardings)]

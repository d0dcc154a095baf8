"""Executables that run a sequence of compiled programs, some of them several times. See compile/segments.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr.backend.buffers import Buffer, Device, moved
from xpr.backend.compiler import Executable
from xpr.backend.waiting import Waiting
from xpr.core.avals import ShapedArray


class Run(NamedTuple):
    """A program that runs on values that have a number each.

    Attributes:
      operands, results: the values that it reads and makes.
      dead: those that nothing needs after it.
    """

    program: Executable
    operands: Sequence[int]
    results: Sequence[int]
    dead: Sequence[int]


class Memory(NamedTuple):
    """The sizes in bytes of a program's arguments, results and so on, by the names that XLA gives them."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    generated_code_size_in_bytes: int
    peak_memory_in_bytes: int


class SequenceExecutable:
    """A sequence of compiled programs, which is called as one.

    Attributes:
      numbers: the buffers of numbers that runs of one program differ in; their values come after the arguments.
      size: how many values there are.
      outs: the values that are the results.
    """

    __slots__ = ("__weakref__", "_plan", "device", "in_avals", "name", "numbers", "out_avals", "outs", "runs", "size")

    def __init__(
        self, runs: Sequence[Run], numbers: list[Buffer], size: int, outs: Sequence[int],
        in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], device: Device, name: str,
    ):  # fmt: skip
        self.in_avals = tuple(in_avals)
        self.runs, self.numbers, self.size, self.outs = tuple(runs), numbers, size, tuple(outs)
        self.out_avals, self.device, self.name = tuple(out_avals), device, name
        self._plan = [(r.program.raw.execute_sharded, r.program.handlers, *r[1:]) for r in runs]

    def __repr__(self) -> str:
        return (
            f"<SequenceExecutable {self.name} on {self.device}: {len(self.runs)} runs of {len(self.times())} programs>"
        )

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the programs. They go on in the background, and their errors come up where a result is read.

        Raises:
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        values: list[Any] = buffers + self.numbers
        values += [None] * (self.size - len(values))
        try:
            for execute, handlers, operands, results, dead in self._plan:
                outs = execute([values[i] for i in operands]).consume_with_handlers(handlers)
                for i, buffer in zip(results, outs):
                    values[i] = buffer
                for i in dead:
                    values[i] = None
        except RuntimeError as error:
            on_device = moved(buffers, self.device, error)
            if on_device is None:
                error.add_note(f"In the program {self.name}.")
                raise
            return self.run(on_device)
        return [values[i] for i in self.outs]

    def hot_path(self) -> tuple[Callable[[list[Buffer]], list[Buffer]], None, Waiting]:
        """The function that runs it, and no handlers: it returns buffers, and keeps the tokens itself."""
        return self.run, None, Waiting.NEVER

    def times(self) -> Counter[Executable]:
        """How often each program runs, in the order in which they first do."""
        return Counter(run.program for run in self.runs)

    def as_text(self) -> str:
        """The optimized programs, in HLO, each after a line that says how often it runs."""
        return "\n\n".join(f"// runs {times} times\n{program.as_text()}" for program, times in self.times().items())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates for the optimized programs together: flops, bytes accessed, transcendentals."""
        total: Counter[str] = Counter()
        for program, times in self.times().items():
            total.update({name: times * cost for name, cost in program.cost_analysis().items()})
        return dict(total)

    def memory_analysis(self) -> Memory:
        """The sizes in bytes of arguments, results, temporaries, code, and the peak, as attributes."""
        stats = {program: program.memory_analysis() for program in self.times()}
        code = sum(each.generated_code_size_in_bytes for each in stats.values())
        arguments, outs = sum(map(_nbytes, self.in_avals)), sum(map(_nbytes, self.out_avals))
        sizes: dict[int, int] = {}
        alive = peak = reused = 0
        for run in self.runs:
            sizes.update(zip(run.results, map(_nbytes, run.program.out_avals)))
            donated = stats[run.program].alias_size_in_bytes
            reused += donated
            alive += sum(sizes[i] for i in run.results) - donated
            peak = max(peak, alive + stats[run.program].temp_size_in_bytes)
            alive -= sum(sizes.get(i, 0) for i in run.dead)
        return Memory(arguments, outs, peak - (outs - reused), reused, code, arguments + peak)


def _nbytes(aval: ShapedArray) -> int:
    return aval.size * aval.dtype.itemsize

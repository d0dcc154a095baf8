"""segmented : [Segment] -> executable. Lowers and compiles the segments of a program, structurally equal ones once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr.backend import compiler
from xpr.backend.buffers import put
from xpr.backend.sequence import Run, SequenceExecutable
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import MainAttributes, lower_jaxpr
from xpr.compile.segments import Segment, split_into_segments
from xpr.compile.tiering import is_tiered
from xpr.config import same_settings, settings_of_thread
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Atom, Jaxpr, Literal, Var
from xpr.passes.physical import physical


class SegmentedProgram:
    """A program that is split into segments, lowered.

    Attributes:
      jaxpr: the whole; random keys are words in it, and in its segments.
      out_avals: the types of its results, some of which may be keys.
      modules: by the jaxprs of segments, their lowered modules. A module may overwrite those of the program's donated
        arguments that are dead after it. (Live-out values are not donated: XLA then copies more.)
    """

    def __init__(
        self, jaxpr: Jaxpr, out_avals: Sequence[ShapedArray], segments: Sequence[Segment], outvars: Sequence[Atom],
        donated: Sequence[int], device: Any,
    ):  # fmt: skip
        self.jaxpr, self.out_avals, self.segments, self.outvars = jaxpr, out_avals, segments, outvars
        self.donated, self.device = donated, device
        self.inputs = [*jaxpr.constvars, *jaxpr.invars]
        self.dead = self.dead_after()
        donated_vars = {self.inputs[i] for i in donated}
        donors: dict[Jaxpr, set[int]] = {}
        for segment, dead in zip(segments, self.dead):
            free = {v for v in dead & donated_vars if segment.operands.count(v) == 1}
            positions = {i for i, v in enumerate(segment.operands) if v in free}
            donors[segment.jaxpr] = donors.get(segment.jaxpr, positions) & positions
        self.modules = {
            each: lower_jaxpr(each, device.platform, MainAttributes(sorted(positions)))
            for each, positions in donors.items()
        }

    def whole(self) -> Module:
        """The module of the whole program, for its text; it is not what runs."""
        return lower_jaxpr(self.jaxpr, self.device.platform, MainAttributes(self.donated))

    def dead_after(self) -> list[set[Atom]]:
        """For each segment the values that are dead after it, but for arguments that are not donated."""
        last: dict[Any, int] = {
            v: i for i, segment in enumerate(self.segments) for v in (*segment.operands, *segment.results)
        }
        for v in {*self.inputs} - {self.inputs[i] for i in self.donated} | {*self.outvars}:
            last.pop(v, None)
        dead: list[set[Atom]] = [set() for _ in self.segments]
        for v, i in last.items():
            if type(v) is Var:
                dead[i].add(v)
        return dead

    def compile(self, name: str, options: dict[str, Any] | None, may_be_tiered: bool) -> SequenceExecutable:
        """Compiles each of the programs once, all at the same time."""
        tiered = may_be_tiered and is_tiered(self.jaxpr)

        def compiled(program: tuple[Jaxpr, Module]) -> compiler.Executable:
            jaxpr, module = program
            return compiler.compile(
                module.text(name), jaxpr.out_avals, self.device, name=name, options=options,
                codegen=module.codegen._replace(unrolled=module.work.has_hot_loops), is_tiered=tiered,
            )  # fmt: skip

        programs = dict(zip(self.modules, in_parallel(compiled, list(self.modules.items()))))
        numbers = list({v: None for segment in self.segments for v in segment.operands if type(v) is Literal})
        results = [v for segment in self.segments for v in segment.results]
        slots: dict[Any, int] = {v: i for i, v in enumerate([*self.inputs, *numbers, *results])}

        def at(variables: Iterable[Any]) -> list[int]:
            return [slots[v] for v in variables]

        runs = [
            Run(programs[segment.jaxpr], at(segment.operands), at(segment.results), at(dead))
            for segment, dead in zip(self.segments, self.dead)
        ]
        buffers = [put(np.asarray(v.val).astype(v.aval.dtype), v.aval, self.device) for v in numbers]
        in_avals = [v.aval for v in self.inputs]
        return SequenceExecutable(
            runs, buffers, len(slots), at(self.outvars), in_avals, self.out_avals, self.device, name
        )


def in_parallel(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """The results for all values, each computed in another thread, with the settings of this one.

    Raises:
      Exception: the first that the function raised.
    """
    overrides = settings_of_thread()
    results: list[Any] = [None] * len(values)
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            with same_settings(overrides):
                results[i] = function(values[i])
        except BaseException as error:  # an interrupt, too, belongs to the caller
            errors.append(error)

    threads = []
    for i in range(1, len(values)):
        thread = threading.Thread(target=work, args=(i,), name="xpr compiler")
        try:
            thread.start()
            threads.append(thread)
        except RuntimeError:  # no thread can be started: at the system's limit, or when the process ends
            work(i)
    work(0)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def lower_segmented(jaxpr: Jaxpr, donated: Sequence[int], device: Any) -> SegmentedProgram | None:
    """The program in segments; None where it does not repeat itself, or calls Python functions."""
    if device.platform != "cpu":
        return None
    on_words = physical(jaxpr)
    segments = split_into_segments(on_words)
    program = segments and SegmentedProgram(on_words, jaxpr.out_avals, *segments, donated, device)
    return program if program and not any(module.callbacks for module in program.modules.values()) else None

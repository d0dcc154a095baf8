"""stepwise : [Step] -> a program that runs them. Lowers and compiles each of them that is like no earlier one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr.backend import compiler
from xpr.backend.sequence import Run, SequenceExecutable
from xpr.backend.stablehlo import Module
from xpr.compile.lower import lower_jaxpr
from xpr.compile.segments import Step, cut
from xpr.config import same_settings, settings_of_thread
from xpr.core.jaxpr import Atom, Jaxpr, Literal, Var


class Stepwise:
    """A program that is cut into steps, lowered.

    Attributes:
      modules: of each jaxpr that steps share, what it is lowered to. It may overwrite those of the program's donated
        arguments that nothing needs after it. (What steps hand to each other is not donated: XLA then copies more.)
    """

    def __init__(
        self, jaxpr: Jaxpr, steps: Sequence[Step], outvars: Sequence[Atom], donated: Sequence[int], device: Any
    ):
        self.jaxpr, self.steps, self.outvars = jaxpr, steps, outvars
        self.donated, self.device = donated, device
        self.inputs = [*jaxpr.constvars, *jaxpr.invars]
        self.dead = self.dying()
        given_up = {self.inputs[i] for i in donated}
        donors: dict[Jaxpr, set[int]] = {}
        for step, dead in zip(steps, self.dead):
            free = {v for v in dead & given_up if step.operands.count(v) == 1}
            own = {i for i, v in enumerate(step.operands) if v in free}
            donors[step.jaxpr] = donors.get(step.jaxpr, own) & own
        self.modules = {each: lower_jaxpr(each, device.platform, sorted(own)) for each, own in donors.items()}

    def whole(self) -> Module:
        """The program as one, which is not what runs."""
        return lower_jaxpr(self.jaxpr, self.device.platform, self.donated)

    def dying(self) -> list[set[Atom]]:
        """Of each step the values that nothing needs after it, but for arguments that are not donated."""
        last: dict[Any, int] = {v: i for i, step in enumerate(self.steps) for v in (*step.operands, *step.results)}
        for v in {*self.inputs} - {self.inputs[i] for i in self.donated} | {*self.outvars}:
            last.pop(v, None)
        dead: list[set[Atom]] = [set() for _ in self.steps]
        for v, i in last.items():
            if type(v) is Var:
                dead[i].add(v)
        return dead

    def compile(self, name: str, options: dict[str, Any] | None) -> SequenceExecutable:
        """Compiles each of the programs once, all at the same time."""
        overrides = settings_of_thread()

        def compiled(program: tuple[Jaxpr, Module]) -> compiler.Executable:
            jaxpr, module = program
            with same_settings(overrides):
                return compiler.compile(
                    module.text(name), jaxpr.out_avals, self.device, name=name, options=options,
                    unrolled=module.has_hot_loops,
                )  # fmt: skip

        programs = dict(zip(self.modules, _at_once(compiled, list(self.modules.items()))))
        numbers = list({v: None for step in self.steps for v in step.operands if type(v) is Literal})
        made = [v for step in self.steps for v in step.results]
        places: dict[Any, int] = {v: i for i, v in enumerate([*self.inputs, *numbers, *made])}

        def at(variables: Iterable[Any]) -> list[int]:
            return [places[v] for v in variables]

        runs = [
            Run(programs[step.jaxpr], at(step.operands), at(step.results), at(dead))
            for step, dead in zip(self.steps, self.dead)
        ]
        buffers = [compiler.put(np.asarray(v.val).astype(v.aval.dtype), v.aval, self.device) for v in numbers]
        in_avals = [v.aval for v in self.inputs]
        return SequenceExecutable(
            runs, buffers, len(places), at(self.outvars), in_avals, self.jaxpr.out_avals, self.device, name
        )


def _at_once(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """The results for all values, each in a thread of its own.

    Raises:
      Exception: the first that the function raised.
    """
    results: list[Any] = [None] * len(values)
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            results[i] = function(values[i])
        except BaseException as error:  # an interrupt, too, belongs to the caller
            errors.append(error)

    threads = []
    for i in range(1, len(values)):
        thread = threading.Thread(target=work, args=(i,), name="xpr compiler")
        try:
            thread.start()
            threads.append(thread)
        except RuntimeError:  # there are no more threads to be had: at the system's limit, or when the process ends
            work(i)
    work(0)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def stepwise(jaxpr: Jaxpr, donated: Sequence[int], device: Any) -> Stepwise | None:
    """The program in steps, where it is one that repeats itself and calls no Python functions."""
    found = cut(jaxpr) if device.platform == "cpu" else None
    made = found and Stepwise(jaxpr, *found, donated, device)
    return made if made and not any(module.callbacks for module in made.modules.values()) else None

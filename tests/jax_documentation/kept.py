"""What jax gives for examples whose docstrings show something else, or an exception: it need not run for a comparison.

`python -m tests.jax_documentation --write` writes it anew. Of exceptions only the types are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.jax_documentation.compare import Outcomes, normal, same_text
from tests.jax_documentation.programs import Cell, Outcome, Program

RELEASE = "0.10.2"
PATH = Path(__file__).parent / "docstrings.txt"


def write(programs: Sequence[Program], outcomes: Outcomes) -> None:
    lines = []
    for program in programs:
        for cell in program.cells:
            given = outcomes[program.name, cell.number]
            if not _is_as_shown(cell, given):
                short = [(normal(each.printed), each.classes[:1]) for each in given]
                lines.append(f"{program.name} {cell.number}\t{json.dumps(short)}\n")
    PATH.write_text(f"jax {RELEASE}\n{''.join(lines)}")


def _is_as_shown(cell: Cell, outcomes: Sequence[Outcome]) -> bool:
    return all(
        not each.classes and step.wanted is not None and same_text(step.wanted, each.printed)
        for step, each in zip(cell.steps, outcomes, strict=True)
    )


def outcomes(programs: Sequence[Program]) -> Outcomes:
    """What jax gives for the examples: what is kept, or else what is shown."""
    release, *lines = PATH.read_text().splitlines()
    assert release == f"jax {RELEASE}"
    given = {name: json.loads(line) for name, line in (each.split("\t") for each in lines)}
    found = {}
    for program in programs:
        for cell in program.cells:
            short = given.get(f"{program.name} {cell.number}", [(step.wanted, ()) for step in cell.steps])
            found[program.name, cell.number] = [Outcome(printed, tuple(classes)) for printed, classes in short]
    return found

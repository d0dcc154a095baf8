"""What counts of documentation, and where xpr prints something else than jax does."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.jax_documentation.programs import Cell, Outcome, Program
from tests.same_text import OutputChecker

Outcomes = Mapping[tuple[str, int], Sequence[Outcome]]  # of the steps, by the program and the number of the cell


@dataclass(frozen=True)
class Difference:
    """A cell in which xpr gives something else: `jax.numpy.sum 3` or `page.md 5`, its source, and what both give.

    In a `sentence` only messages of exceptions differ, whose types are the same, or xpr's is a subclass.
    """

    name: str
    source: str
    theirs: str
    ours: str
    sentence: bool

    def __str__(self) -> str:
        parts = (("", self.source), ("jax:", self.theirs), ("xpr:", self.ours))
        return f"== {self.name}\n" + "\n".join(f"{title}\n{text.rstrip()}".strip() for title, text in parts)


def differences(programs: Iterable[Program], theirs: Outcomes, ours: Outcomes) -> tuple[int, list[Difference]]:
    """How many cells count, which are those that jax runs to their end, and those of them that differ."""
    count, found = 0, []
    for program in programs:
        for cell in program.cells:
            place = program.name, cell.number
            reference = theirs.get(place)
            if reference is None or not counts(cell, reference):
                continue
            count += 1
            given = ours.get(place, [Outcome("", ("TimeoutError",), "it did not end in time")])
            if not all(_same_steps(cell, reference, given, details=True)):
                sentence = all(_same_steps(cell, reference, given, details=False))
                texts = ("".join(map(str, outcomes)) for outcomes in (reference, given))
                found.append(Difference(f"{program.name} {cell.number}", cell.source, *texts, sentence))
    return count, found


def counts(cell: Cell, reference: Sequence[Outcome]) -> bool:
    """Whether jax runs the cell: exceptions are raised only where they are shown to be."""
    return cell.may_raise or not any(outcome.classes for outcome in reference)


def _same_steps(cell: Cell, theirs: Sequence[Outcome], ours: Sequence[Outcome], details: bool) -> Iterator[bool]:
    yield len(theirs) == len(ours)
    for step, expected, given in zip(cell.steps, theirs, ours, strict=False):
        if expected.classes:
            yield same_text(expected.printed, given.printed) and expected.classes[0] in given.classes
            yield not (details and step.details) or same_text(expected.text, given.text)
        else:
            shown = [step.wanted] if step.wanted is not None else []
            yield not given.classes and any(same_text(each, given.printed) for each in [*shown, expected.printed])


def same_text(expected: str, printed: str) -> bool:
    """Whether two texts are the same, but for space, last digits of numbers, and what no run has twice."""
    expected, printed = (" ".join(normal(text).split()) for text in (expected, printed))
    return _CHECKER.check_output(expected, printed, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)


_CHECKER = OutputChecker()


def normal(text: str) -> str:
    """Text without what differs from run to run, and with one name for both libraries."""
    for pattern, replacement in _NORMAL:
        text = pattern.sub(replacement, text)
    return text


_NORMAL = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\bxpr\b", "jax"),
        (r"\b0x[0-9a-f]+\b", "0x"),
        (r"\bjax\._src(\.\w+)+\.", "jax."),
        (r"[^\s\"']*/(?=[^\s/]+:\d)", ""),  # the folders of files, before their lines
    )
]

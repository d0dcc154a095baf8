"""Why xpr gives something else than jax in an example or a cell: their names, or patterns of names, grouped by reason.

`page.md 3` is the cell of that number, from 0, `jax.numpy.sum 3` the example; `*` stands for any text. Where only the
message of an exception differs, and its type is jax's or a subclass of that, no entry is needed.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jax_documentation.compare import Difference

SENTENCES = "Another sentence: the exception is of jax's type, or a subclass of it."


@dataclass(frozen=True)
class Explained:
    """Differences that no entry stands for, how many there are of each reason, and entries that stand for none."""

    without: list[Difference]
    counts: Counter[str]
    stale: list[str]


def explain(found: Sequence[Difference], all_pages: bool) -> Explained:
    """Finds the reason of each difference. Entries of pages are stale only where all pages were run."""
    counts, used, without = Counter[str](), set[str](), list[Difference]()
    for difference in found:
        entry = next((entry for entry in _WHY if fnmatch.fnmatchcase(difference.name, entry)), None)
        if entry is not None:
            used.add(entry)
            counts[_WHY[entry]] += 1
        elif difference.sentence:
            counts[SENTENCES] += 1
        else:
            without.append(difference)
    entries = [entry for entry in _WHY if all_pages or entry.startswith("jax.")]
    return Explained(without, counts, [entry for entry in entries if entry not in used])


REASONS: dict[str, tuple[str, ...]] = {}

_WHY = {entry: why for why, entries in REASONS.items() for entry in entries}

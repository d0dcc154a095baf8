"""The examples of jax's docstrings, and the pages of its documentation, give on xpr what they give on jax."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.jax_documentation import kept, pages, reasons
from tests.jax_documentation.compare import Difference, differences, same_text
from tests.jax_documentation.programs import Cell, Outcome, Program, Step, load, save
from tests.jax_documentation.start import SECONDS, outcomes_of, save_docstrings
from tests.peer import JAX

needs_release = pytest.mark.skipif(
    getattr(JAX, "__version__", "") != kept.RELEASE, reason=f"runs the documentation of jax {kept.RELEASE}"
)
GIT = os.environ.get("PEER_JAX_GIT")  # a git directory of jax's repository


@needs_release
def test_examples_of_docstrings(tmp_path):
    """jax runs for none of them: what it gives is shown, or kept."""
    save_docstrings(tmp_path / "docstrings.jsonl")
    programs = list(load(tmp_path / "docstrings.jsonl"))
    ours = outcomes_of("xpr", tmp_path, "docstrings", None)
    count, found = differences(programs, kept.outcomes(programs), ours)
    assert count > 3600
    _explained(found, all_pages=False)


@needs_release
@pytest.mark.skipif(GIT is None, reason="PEER_JAX_GIT names no git directory of jax's repository")
def test_pages(tmp_path):
    save(pages.pages(pages.from_git(Path(GIT))), tmp_path / "pages.jsonl")
    theirs, ours = (outcomes_of(library, tmp_path, "pages", SECONDS) for library in ("jax", "xpr"))
    count, found = differences(list(load(tmp_path / "pages.jsonl")), theirs, ours)
    assert count > 1000
    _explained([each for each in found if each.name.endswith(".md")], all_pages=False)


def _explained(found: list[Difference], all_pages: bool) -> None:
    explained = reasons.explain(found, all_pages)
    assert not explained.without, "\n".join(map(str, explained.without))
    assert not explained.stale, f"the same now, take them from the list: {explained.stale}"


def test_entries_are_given_once():
    entries = [entry for group in reasons.REASONS.values() for entry in group]
    assert len(entries) == len(set(entries))


# -- Cells of pages

NOTEBOOK = """# A page

```{code-cell} ipython3
:tags: [raises-exception]

1 / 0
```

```{code-cell}
---
id: one
---
%timeit x = 1
!pip install something
%%time
x
```

```python
>>> x + 1
3
>>> x.y
Traceback (most recent call last):
AttributeError
```

```bash
ls
```
"""

RESTRUCTURED = """Title
=====

.. code-block:: python
   :linenos:

   x = 1
   x

Text.

>>> x
1

.. code-block:: bash

   ls
"""


def test_cells_of_pages():
    found = {page.name: page.cells for page in pages.pages({"a.md": NOTEBOOK, "a.ipynb": "{}", "b.rst": RESTRUCTURED})}
    first, second, third = found["a.md"]
    assert first.source.strip() == "1 / 0" and first.may_raise and not first.steps[0].echo
    assert second.source == "x = 1;\npass\n\nx" and not second.may_raise
    assert [step.wanted for step in third.steps] == ["3\n", "Traceback (most recent call last):\nAttributeError\n"]
    assert third.may_raise and third.steps[0].echo
    assert [cell.source.strip() for cell in found["b.rst"]] == ["x = 1\nx", "x"]


def test_cells_of_a_notebook():
    text = '{"cells": [{"cell_type": "code", "metadata": {}, "source": ["x = 1\\n", "x"]}, {"cell_type": "markdown"}]}'
    (page,) = pages.pages({"a.ipynb": text})
    assert [cell.source for cell in page.cells] == ["x = 1\nx"]


# -- What is the same


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("Array([1., 2.],      dtype=float32)", "Array([1., 2.],\n      dtype=float32)"),
        ("1.2345678", "1.2345679"),
        ("<function f at 0x7f01>", "<function f at 0x8f02>"),
        ("jax.Array", "xpr.Array"),
        ("at /usr/lib/python/page.md-1.0:3", "at page.md-1.0:3"),
    ],
)
def test_the_same_text(expected, printed):
    assert same_text(expected, printed)


@pytest.mark.parametrize(("expected", "printed"), [("1", "2"), ("1.23", "1.24"), ("0.+0.j", "0.-0.j"), ("a", "")])
def test_another_text(expected, printed):
    assert not same_text(expected, printed)


def _difference(theirs, ours, details=True, may_raise=True):
    cell = Cell(0, 1, (Step("f()", details=details),), may_raise)
    count, found = differences([Program("jax.f", (cell,))], {("jax.f", 0): [theirs]}, {("jax.f", 0): [ours]})
    return count, [each.sentence for each in found]


def test_exceptions_are_compared_by_type_and_message():
    theirs = Outcome("", ("ValueError", "Exception"), "no")
    assert _difference(theirs, Outcome("", ("ShapeError", "ValueError"), "no")) == (1, [])
    assert _difference(theirs, Outcome("", ("ValueError",), "never")) == (1, [True])
    assert _difference(theirs, Outcome("", ("ValueError",), "never"), details=False) == (1, [])
    assert _difference(theirs, Outcome("", ("TypeError",), "no")) == (1, [False])
    assert _difference(theirs, Outcome("1\n")) == (1, [False])
    assert _difference(Outcome("1\n"), theirs) == (1, [False])


def test_cells_that_jax_does_not_run_do_not_count():
    assert _difference(Outcome("", ("NameError",), "x"), Outcome("1\n"), may_raise=False) == (0, [])


def test_what_has_no_reason_is_found():
    entry = next(
        entry for group in reasons.REASONS.values() for entry in group if "*" not in entry and "[" not in entry
    )
    known, unknown, sentence = (
        Difference(name, "", "", "", is_sentence)
        for name, is_sentence in ((entry, False), ("jax.f 0", False), ("jax.f 1", True))
    )
    explained = reasons.explain([known, unknown, sentence], all_pages=True)
    assert explained.without == [unknown] and sorted(explained.counts.values()) == [1, 1]
    assert entry not in explained.stale and len(explained.stale) > 10

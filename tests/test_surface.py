"""The public surface is jax's: what is missing or has other parameters has a reason in tests/surface/reasons.py."""

from __future__ import annotations

import pytest

from tests.peer import JAX
from tests.surface import compare
from tests.surface.compare import Gap
from tests.surface.reasons import NOT_BUILT_YET, REASONS, explain


@pytest.mark.skipif(getattr(JAX, "__version__", "") != "0.10.2", reason="compares with jax 0.10.2")
def test_what_is_missing_has_a_reason():
    explained = explain(compare.gaps())
    assert not explained.without, "neither there nor explained:\n" + "\n".join(map(str, explained.without))
    assert not explained.stale, f"there now, take them from the list: {explained.stale}"


def test_entries_are_given_once():
    entries = [*NOT_BUILT_YET, *(entry for group in REASONS.values() for entry in group)]
    assert len(entries) == len(set(entries))


def _theirs(a, b, /, c=1, *, key=None):
    raise NotImplementedError


PLACEHOLDER = object()


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (lambda x, *, y=1: 0, lambda x, *, y=1, more=2: 0, []),
        (lambda x, *, y=1: 0, lambda x: 0, ["f(y): is missing"]),
        (lambda x, y=1: 0, lambda x, y=2: 0, ["f(y): is 2 by default, and 1 in jax"]),
        (lambda x, y=1: 0, lambda x, y=1.0: 0, []),
        (lambda x, y=1: 0, lambda x, y: 0, ["f(y): has no default, and 1 in jax"]),
        (lambda x, y=1: 0, lambda x, *, y=1: 0, ["f(y): can't be given by position"]),
        (lambda x, y: 0, lambda x, y, /: 0, ["f(x): can't be given by name", "f(y): can't be given by name"]),
        (lambda x, y: 0, lambda y, x: 0, ["f(x): stands where 'y' stands in xpr"]),
        (lambda x, y: 0, lambda x, z=0, y=0: 0, ["f: has 'z' at a position of another parameter"]),
        (lambda x, y=PLACEHOLDER: 0, lambda x, y=None: 0, []),
        (lambda x, y, /: 0, lambda a, b: 0, []),
        (lambda *args: 0, lambda x: 0, []),
        (lambda x: 0, 3, ["f: is no function"]),
    ],
)
def test_parameters_that_differ(theirs, ours, expected):
    assert [str(gap) for gap in compare._compare("f", theirs, ours)] == expected


def test_members_and_methods_that_differ():
    theirs = type("C", (), {"__module__": "jax.c", "f": lambda self, x: 0, "g": 1, "_h": 2})
    ours = type("C", (), {"f": lambda self: 0})
    assert [str(gap) for gap in compare._compare("C", theirs, ours)] == ["C.f(x): is missing", "C.g: is missing"]


def test_an_entry_stands_for_what_is_in_it():
    names = ["jax.lib", "jax.lib.xla", "jax.libs", "jax.extend.mlir(x)"]
    found = explain([Gap(name, "is missing") for name in names])
    assert [gap.name for gap in found.without] == ["jax.libs"]
    assert found.counts == {"jax.lib": 2, "jax.extend.mlir": 1}
    assert len(found.stale) == sum(map(len, REASONS.values())) - 2 and len(found.built) == len(NOT_BUILT_YET)

"""Deprecated names warn where they are used, and are gone in the version that was announced."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

import pytest

import xpr
from docs.hooks.public_names import FACES, public_names
from xpr.deprecation import deprecated

ROOT = Path(__file__).parent.parent


@deprecated("new(x)", removed_in="9.0")
def old(x, *, scale=1):
    """The scaled number."""
    return x * scale


def test_it_works_and_warns_at_the_users_line():
    with pytest.warns(DeprecationWarning) as caught:
        line = inspect.currentframe().f_lineno + 1
        assert old(2, scale=3) == 6
    (warning,) = caught
    assert str(warning.message) == "old is deprecated, and will be removed in xpr 9.0. Use new(x) instead."
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_it_keeps_name_docstring_and_signature():
    assert (old.__name__, old.__doc__) == ("old", "The scaled number.")
    assert str(inspect.signature(old)) == "(x, *, scale=1)"
    assert "Use new(x)" in old.__deprecated__


def test_errors_pass():
    with warnings.catch_warnings(), pytest.raises(TypeError):
        warnings.simplefilter("ignore")
        old()


def version(text):
    return tuple(int(number) for number in text.split("."))


@pytest.mark.parametrize("face", FACES)
def test_what_was_to_be_removed_is(face):
    module = importlib.import_module(face)
    removed_in = {name: getattr(getattr(module, name), "__removed_in__", None) for name in public_names(module)}
    late = [name for name, text in removed_in.items() if text and version(text) <= version(xpr.__version__)]
    assert not late, "remove them, or announce another version"


def test_the_changelog_has_this_version():
    """`## [Unreleased]` or `## [0.1.0] - 2026-01-31`, newest first, and this version among them."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    pattern = r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)"
    assert headings and all(re.fullmatch(pattern, heading) for heading in headings)
    assert any(heading.startswith(f"[{xpr.__version__}]") for heading in headings)

"""The examples in the docstrings of jax's public modules, found by importing them.

`python -m tests.jax_documentation.docstrings FILE` saves them, so that a process in which jax is xpr can run them.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.jax_documentation.programs import Cell, Program, save, step_of
from tests.surface.compare import _members, _public_names, public_modules


def docstrings() -> Iterator[Program]:
    """The docstrings with examples, each once, by the shortest public name of what they are of."""
    names: dict[str, str] = {}
    for name, docstring in _docstrings():
        if ">>>" in docstring and (docstring not in names or _order(name) < _order(names[docstring])):
            names[docstring] = name
    parser = doctest.DocTestParser()
    for docstring, name in sorted(names.items(), key=lambda item: item[1]):
        cells = [
            Cell(number, example.lineno + 1, (step_of(example),), example.exc_msg is not None)
            for number, example in enumerate(parser.get_examples(docstring))
            if doctest.SKIP not in example.options
        ]
        if cells:
            yield Program(name, tuple(cells))


def _order(name: str) -> tuple[int, str]:
    return name.count("."), name


def _docstrings() -> Iterator[tuple[str, str]]:
    for module_name in public_modules():
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # of a package that is optional
            continue
        if module.__doc__:
            yield module_name, module.__doc__
        for name in _public_names(module):
            value = getattr(module, name, None)
            if isinstance(value, types.ModuleType):
                continue
            yield from _docstrings_of(f"{module_name}.{name}", value)


def _docstrings_of(path: str, value: Any) -> Iterator[tuple[str, str]]:
    docstring = getattr(value, "__doc__", None)
    if isinstance(docstring, str) and docstring != type(value).__doc__:
        yield path, inspect.cleandoc(docstring)
    if isinstance(value, type):
        for name in _members(value):
            member = inspect.getattr_static(value, name)
            docstring = getattr(getattr(member, "__func__", member), "__doc__", None)
            if isinstance(docstring, str) and docstring != type(member).__doc__:
                yield f"{path}.{name}", inspect.cleandoc(docstring)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(docstrings(), Path(sys.argv[1]))

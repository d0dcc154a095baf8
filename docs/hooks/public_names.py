"""The public names of a module, and the first sentences of their docstrings, as the API reference lists them."""

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

# The modules that have a page: those that the table of contents lists.
FACES = re.findall(r"reference/(\S+)\.md", (Path(__file__).parents[2] / "mkdocs.yml").read_text())


def public_names(module: ModuleType) -> list[str]:
    """What `__all__` lists; without it, what has no leading underscore and is no module.

    A name that is imported without `as` is private to the file, which is also how type checkers read it.
    """
    if hasattr(module, "__all__"):
        names = list(module.__all__)
    else:
        private = set(_imported_for_the_file(module))
        names = [name for name in dir(module) if not name.startswith("_") and name not in private]
    return sorted((n for n in names if not isinstance(getattr(module, n), ModuleType)), key=lambda n: (n.lower(), n))


def _imported_for_the_file(module: ModuleType) -> list[str]:
    statements = ast.walk(ast.parse(inspect.getsource(module)))
    aliases = [a for s in statements if isinstance(s, ast.Import | ast.ImportFrom) for a in s.names]
    return [alias.name.split(".")[0] for alias in aliases if alias.asname is None]


def is_documented_alone(value: Any) -> bool:
    """Whether a name has an entry with a signature: functions and classes, but neither dtypes nor primitives."""
    return inspect.isclass(value) or inspect.isroutine(value)


def first_sentence(value: Any) -> str:
    """The first sentence of a docstring, on one line; empty without one."""
    paragraph = (inspect.getdoc(value) or "").split("\n\n")[0]
    sentence, stop, _ = " ".join(paragraph.split()).partition(". ")
    return sentence + stop.strip()


def as_markdown(text: str) -> str:
    """A docstring for Markdown: doctests, which would be quotations, as blocks of Python; sections set apart."""
    text = re.sub(r"(?m)^>>> (?:.+\n?)+", lambda doctest: f"```python\n{doctest[0].rstrip()}\n```\n", text)
    return re.sub(r"(?m)(?<=\S)\n(?=(?:Args|Returns|Raises|Yields|Attributes):$)", "\n\n", text)

"""The pages of the API reference: `reference/<module>.md` for each module that mkdocs.yml lists, made when the site is.

A page has the module's docstring, a table of its functions and classes, an entry for each of them (by mkdocstrings),
and tables of what needs no entry: primitives, dtypes, constants.
"""

import importlib
import inspect
import logging
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs runs this file from its path

from public_names import FACES, as_markdown, first_sentence, is_documented_alone, public_names

log = logging.getLogger("mkdocs.hooks.reference")  # a warning fails a build with --strict


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for face in FACES:
        files.append(File.generated(config, f"reference/{face}.md", content=page(face)))
    return files


def page(face: str) -> str:
    """The page of one module, as Markdown."""
    module = importlib.import_module(face)
    values = {name: getattr(module, name) for name in public_names(module)}
    entries = {name: value for name, value in values.items() if is_documented_alone(value)}
    for name, value in entries.items():
        if value.__module__.startswith("xpr") and not inspect.getdoc(value):
            log.warning("%s.%s has no docstring", face, name)
    parts = [f"# {face}", as_markdown(inspect.getdoc(module) or "")]
    if below := [name for name in FACES if name.startswith(f"{face}.")]:
        parts.append("Modules: " + ", ".join(f"[{name}]({name}.md)" for name in below) + ".")
    if entries:
        rows = [f"| [`{name}`](#{face}.{name}) | {_cell(first_sentence(value))} |" for name, value in entries.items()]
        parts.append("\n".join(["| name | |", "|---|---|", *rows]))
    parts += _tables(face, {name: value for name, value in values.items() if name not in entries})
    parts += [f"::: {face}.{name}" for name in entries]
    return "\n\n".join(parts) + "\n"


def _tables(face: str, values: dict[str, Any]) -> list[str]:
    """Names without entries; each has an anchor, as entries have."""
    primitives = {name: value for name, value in values.items() if type(value).__name__ == "Primitive"}
    parts = []
    if primitives:
        names = ", ".join(_anchored(face, name) for name in primitives)
        parts.append(f"Primitives ([their types and parameters](../primitives.md)): {names}.")
    if others := sorted(values.keys() - primitives.keys()):
        rows = [f"| {_anchored(face, name)} | {_cell(_described(values[name]))} |" for name in others]
        parts.append("\n".join(["| constant | |", "|---|---|", *rows]))
    return parts


def _anchored(face: str, name: str) -> str:
    return f'<code id="{face}.{name}">{name}</code>'


def _described(value: Any) -> str:
    """The value, and the docstring of its type where that is the library's."""
    text = first_sentence(value) if type(value).__module__.startswith("xpr") else ""
    shown = ", ".join(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
    return ". ".join(filter(None, ["" if " at 0x" in shown else f"`{shown}`", text]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

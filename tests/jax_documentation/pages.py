"""The cells of the pages of jax's documentation: Markdown, notebooks, and reStructuredText.

A cell of a page is a cell of a notebook, or a block of Python. In a block that shows a session of the interpreter
(`>>>`) each example is a step. Of a page that exists as Markdown and as a notebook the former is read.
"""

from __future__ import annotations

import doctest
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.jax_documentation.programs import Cell, Program, Step, step_of

TAG = "jax-v0.10.2"


def from_folder(folder: Path) -> dict[str, str]:
    """The texts of the pages in a folder, by their paths in it."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _READERS)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def from_git(directory: Path) -> dict[str, str]:
    """The texts of the pages in a git directory of jax's repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "--git-dir", str(directory), *arguments], check=True, capture_output=True, text=True
        ).stdout

    paths = [
        path for path in git("ls-tree", "-r", "--name-only", TAG, "docs/").splitlines() if path.startswith("docs/")
    ]
    return {
        path.removeprefix("docs/"): git("show", f"{TAG}:{path}")
        for path in paths
        if PurePosixPath(path).suffix in _READERS
    }


def pages(texts: Mapping[str, str]) -> Iterator[Program]:
    """The pages that have cells."""
    for path, text in texts.items():
        pure = PurePosixPath(path)
        if pure.suffix == ".ipynb" and pure.with_suffix(".md").as_posix() in texts:
            continue
        found = ((line, _steps(block), may_raise) for line, block, may_raise in _READERS[pure.suffix](text))
        cells = [Cell(number, *each) for number, each in enumerate(each for each in found if each[1])]
        if cells:
            yield Program(path, tuple(cells))


def _steps(block: str) -> tuple[Step, ...]:
    if re.search(r"^\s*>>> ", block, re.MULTILINE):
        examples = doctest.DocTestParser().get_examples(block)
        return tuple(step_of(each) for each in examples if doctest.SKIP not in each.options)
    source = "\n".join(_without_magic(line) for line in block.splitlines())
    return (Step(source, echo=False),) if source.strip() else ()


def _without_magic(line: str) -> str:
    """A line of a notebook as Python: a timed statement is run once, commands of the shell are not run."""
    timed = re.match(r"(\s*)%%?time(?:it)?\b(?:\s+-\w+\s*\d*)*\s*(.*)", line)
    if timed:
        return f"{timed[1]}{timed[2]};" if timed[2] else ""
    return re.sub(r"^(\s*)[!%].*", r"\1pass", line)


_Block = tuple[int, str, bool]  # its line, its text, and whether it is shown to raise an exception


def _markdown(text: str) -> Iterator[_Block]:
    """Fenced blocks of Python, without the options at the beginning of a notebook's cell."""
    for found in _FENCED.finditer(text):
        line = text.count("\n", 0, found.start(3)) + 1
        block = _dedented(found[3], found[1])
        options = _OPTIONS.match(block)
        yield line, block.removeprefix(options[0] if options else ""), "raises-exception" in block or _RAISES in block


_FENCED = re.compile(
    r"^([ \t]*)(`{3,}) *(?:\{code-cell\}|\{code-block\} python|(?:python3?|py)\b)[^\n]*\n(.*?)^\1\2 *$", re.M | re.S
)
_RAISES = "Traceback (most recent call last)"
_OPTIONS = re.compile(r"\A(?:---\n.*?\n---\n|(?::[\w-]+:[^\n]*\n)+)", re.S)


def _dedented(block: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", block, flags=re.M) if indent else block


def _notebook(text: str) -> Iterator[_Block]:
    for number, cell in enumerate(json.loads(text)["cells"]):
        if cell["cell_type"] == "code":
            yield number, "".join(cell["source"]), "raises-exception" in cell["metadata"].get("tags", ())


def _restructured(text: str) -> Iterator[_Block]:
    """Blocks of directives for Python, and sessions of the interpreter, which need none."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        directive = re.match(r"(\s*)\.\. (?:code-block|code|testcode)::\s*(?:python3?)?\s*$", lines[number])
        if directive:
            end = _end_of_block(lines, number + 1, len(directive[1]))
            inner = [line for line in lines[number + 1 : end] if not re.match(r"\s*:[\w-]+:", line)]
            indent = min((len(line) - len(line.lstrip()) for line in inner if line.strip()), default=0)
            yield number + 1, "\n".join(line[indent:] for line in inner) + "\n", _RAISES in "\n".join(inner)
            number = end
        elif re.match(r"\s*>>> ", lines[number]):
            end = number
            while end < len(lines) and lines[end].strip():
                end += 1
            yield number + 1, "\n".join(lines[number:end]) + "\n", _RAISES in "\n".join(lines[number:end])
            number = end
        else:
            number += 1


def _end_of_block(lines: list[str], start: int, indent: int) -> int:
    for number in range(start, len(lines)):
        if lines[number].strip() and len(lines[number]) - len(lines[number].lstrip()) <= indent:
            return number
    return len(lines)


_READERS = {".md": _markdown, ".ipynb": _notebook, ".rst": _restructured}

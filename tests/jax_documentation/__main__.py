"""`python -m tests.jax_documentation [--git DIRECTORY | --docs FOLDER] [--keep FOLDER] [--write]`

Runs the examples of the docstrings of the installed jax, and the pages of its documentation where they are given: by
a git directory of its repository, or as a folder. Prints how many cells count and how many give the same, and each that
differs without a reason (`reasons.py`). Exits with 1 where there is one, and where a reason stands for nothing now.

With `--keep` a folder holds programs and what both libraries gave; what jax gave is taken from there if it is there.
`--write` writes anew what jax gives where its docstrings show something else (`kept.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.jax_documentation import kept, pages, reasons
from tests.jax_documentation.compare import Difference, differences
from tests.jax_documentation.programs import Program, load, save
from tests.jax_documentation.start import SECONDS, outcomes_of, save_docstrings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--git", type=Path, help="a git directory of jax's repository")
    parser.add_argument("--docs", type=Path, help="the folder docs/ of jax's repository")
    parser.add_argument("--keep", type=Path, help="a folder for programs and outcomes")
    parser.add_argument("--write", action="store_true", help="write what jax gives for docstrings anew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = _docstrings(folder, arguments.write)
        if arguments.git or arguments.docs:
            texts = pages.from_git(arguments.git) if arguments.git else pages.from_folder(arguments.docs)
            save(pages.pages(texts), folder / "pages.jsonl")
            found += _compared("cells of pages", folder, "pages", list(load(folder / "pages.jsonl")), SECONDS)
    return _report(found, all_pages=bool(arguments.git or arguments.docs))


def _docstrings(folder: Path, write: bool) -> list[Difference]:
    save_docstrings(folder / "docstrings.jsonl")
    programs = list(load(folder / "docstrings.jsonl"))
    found = _compared("examples of docstrings", folder, "docstrings", programs, None)
    if write:
        kept.write(programs, outcomes_of("jax", folder, "docstrings", None))
    return found


def _compared(what: str, folder: Path, name: str, programs: list[Program], seconds: float | None) -> list[Difference]:
    theirs = outcomes_of("jax", folder, name, seconds)
    count, found = differences(programs, theirs, outcomes_of("xpr", folder, name, seconds))
    everything = sum(len(program.cells) for program in programs)
    print(f"{everything} {what}, of which jax runs {count}; xpr gives the same for {count - len(found)}.")
    return found


def _report(found: list[Difference], all_pages: bool) -> int:
    explained = reasons.explain(found, all_pages)
    for difference in explained.without:
        print(difference)
    print(f"{len(explained.without)} without a reason; with one:")
    for why, count in explained.counts.items():
        print(f"{count:6} {why}")
    if explained.stale:
        print("Take from the list what is the same by now:", *explained.stale, sep="\n  ")
    return 1 if explained.without or explained.stale else 0


if __name__ == "__main__":
    sys.exit(main())

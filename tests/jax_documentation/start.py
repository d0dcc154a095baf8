"""Starts the processes in which docstrings are found, and programs run on jax and on xpr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.jax_documentation.compare import Outcomes
from tests.jax_documentation.programs import Outcome

SECONDS = 120.0  # for each page
ROOT = Path(__file__).parents[2]


def save_docstrings(path: Path) -> None:
    _start(["tests.jax_documentation.docstrings", str(path.resolve())])


def outcomes_of(library: str, folder: Path, name: str, seconds: float | None) -> Outcomes:
    """What a library gives for the programs in `folder/name.jsonl`; what jax gave is read if it is there already."""
    folder = folder.resolve()
    path = folder / f"{name}-{library}.jsonl"
    if library == "xpr" or not path.exists():
        limit = [] if seconds is None else [str(seconds)]
        written = path.with_suffix(".part")
        _start(["tests.jax_documentation.run", library, str(folder / f"{name}.jsonl"), str(written), *limit])
        written.rename(path)
    read = map(json.loads, path.read_text().splitlines())
    return {
        (program, number): [Outcome(printed, tuple(classes), text) for printed, classes, text in outcomes]
        for program, number, outcomes in read
    }


def _start(arguments: Sequence[str]) -> None:
    """Runs a module in an empty folder, to which examples write files.

    What it writes on its standard error, as libraries do, is shown only where it fails.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", *arguments], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE,
            text=True, cwd=folder,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:2])} ended with {done.returncode}:\n{done.stderr[-4000:]}")

"""Folders of checkpoints by step: `step_100` is the checkpoint of step 100."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from xpr.checkpoint import manifest
from xpr.core.avals import describe

_NAME = re.compile("step_(0|[1-9][0-9]*)")


def check_path(verb: str, path: Any) -> None:
    """Raises TypeError where a path is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{verb}: the first argument is the path of a folder, and is {describe(path)}.")


def folder_of(folder: str | os.PathLike[str], step: int) -> Path:
    """Where the checkpoint of a step is."""
    return Path(folder) / f"step_{step}"


def latest(folder: str | os.PathLike[str]) -> int | None:
    """The last step of which there is a whole checkpoint in the folder; None where there is none, or no folder.

    Raises:
      TypeError: `folder` is no path.

    >>> import tempfile, xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(xpr.checkpoint.latest(folder))
    ...     path = xpr.checkpoint.save(folder, {"w": 1.0}, step=100)
    ...     print(xpr.checkpoint.latest(folder))
    None
    100
    """
    check_path("latest", folder)
    return max(steps(folder), default=None)


def steps(folder: str | os.PathLike[str]) -> list[int]:
    """The steps of which there is a whole checkpoint in the folder, in order; none where there is no folder.

    Raises:
      TypeError: `folder` is no path.

    >>> import tempfile, xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for step in range(0, 500, 100):
    ...         path = xpr.checkpoint.save(folder, {"w": 1.0}, step=step, keep=3)
    ...     print(xpr.checkpoint.steps(folder))
    [200, 300, 400]
    """
    check_path("steps", folder)
    there = begun(folder)
    while True:
        found = [step for step, path in sorted(there.items()) if manifest.exists(path)]
        if found:
            return found
        # One is removed when a later one is whole: if all of them went while they were looked at, others have come.
        before, there = there, begun(folder)
        if there.keys() == before.keys():
            return []


def begun(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """The folders by step, those included of which a save was stopped, or which were being removed.

    Links are left out, since they may lead anywhere.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    found = {name: match for name in names if (match := _NAME.fullmatch(name))}
    paths = {int(match[1]): Path(folder) / name for name, match in found.items()}
    return {step: path for step, path in paths.items() if not path.is_symlink()}

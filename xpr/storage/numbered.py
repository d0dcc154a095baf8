"""Folders of checkpoints by step: `step_100` is the checkpoint of step 100."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from xpr.core.avals import describe
from xpr.storage import manifest

_NAME = re.compile("step_(0|[1-9][0-9]*)")


def check_path(verb: str, path: Any) -> None:
    """Raises TypeError where a path is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{verb}: the first argument is the path of a folder, and is {describe(path)}.")


def folder_of(folder: str | os.PathLike[str], step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return Path(folder) / f"step_{step}"


def latest(folder: str | os.PathLike[str]) -> int | None:
    """The last step of which there is a whole checkpoint in the folder; None where there is none, or no folder.

    Raises:
      TypeError: `folder` is no path.

    >>> import tempfile, xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(xpr.storage.latest(folder))
    ...     path = xpr.storage.save(folder, {"w": 1.0}, step=100)
    ...     print(xpr.storage.latest(folder))
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
    ...         path = xpr.storage.save(folder, {"w": 1.0}, step=step, keep=3)
    ...     print(xpr.storage.steps(folder))
    [200, 300, 400]
    """
    check_path("steps", folder)
    folders = begun(folder)
    while True:
        whole = [step for step, path in sorted(folders.items()) if manifest.exists(path)]
        if whole:
            return whole
        # One is removed when a later one is whole: if all of them went while they were looked at, others have come.
        before, folders = folders, begun(folder)
        if folders.keys() == before.keys():
            return []


def begun(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """The folders by step, those included of which a save was stopped, or which were being removed.

    Links are left out, since they may lead anywhere.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    matches = {name: match for name in names if (match := _NAME.fullmatch(name))}
    paths = {int(match[1]): Path(folder) / name for name, match in matches.items()}
    return {step: path for step, path in paths.items() if not path.is_symlink()}

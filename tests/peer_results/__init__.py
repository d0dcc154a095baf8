"""Results of jax that are kept beside the tests, since its release is fixed: most comparisons need not run it.

A comparison is known by its text, the arrays that it reads, and whether 64 bits are enabled. jax itself is asked where
nothing is kept, and where the kept results differ, since another processor may round otherwise.
`python -m tests.peer_results [FILE...]` runs the tests of files with jax alone, and keeps what it was asked for.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows dtypes such as bfloat16 by their names then
import numpy as np

from xpr.config import settings

RELEASE = "0.10.2"
HERE = Path(__file__).parent
LARGEST = 1 << 15  # bytes; larger results are not kept

# Of each file of tests, while results are written: its comparisons and what jax gave.
written: dict[str, dict[str, str]] | None = None


@dataclass(frozen=True)
class Result:
    """An array that jax gave."""

    value: np.ndarray
    weak_type: bool

    dtype = property(lambda self: self.value.dtype)
    shape = property(lambda self: self.value.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype)


def find(call: str, arrays: Mapping[str, Any]) -> list[Any] | None:
    """What jax gives for a call that reads arrays, if that is kept: a list of `Result`s and Python's own values."""
    if written is not None:
        return None
    line = read(_file_of_tests()).get(_key(call, arrays))
    return None if line is None else [_decoded(entry) for entry in json.loads(line)]


def keep(call: str, arrays: Mapping[str, Any], results: Iterable[Any]) -> None:
    """Has a call's results written, if results are being written and these are plain arrays and values."""
    if written is not None:
        entries = [_encoded(x) for x in results]
        if None not in entries:
            written.setdefault(_file_of_tests(), {})[_key(call, arrays)] = json.dumps(entries)


def path_of(file: str) -> Path:
    return HERE / f"{file}.txt"


def path_of_tests(file: str) -> Path:
    """The file of tests whose results a file of that name keeps."""
    return HERE.parent / ("eight_devices" if file.endswith("_cases") else "") / f"{file}.py"


def write(file: str, lines: Mapping[str, str]) -> None:
    text = "".join(f"{key}\t{line}\n" for key, line in sorted(lines.items()))
    path_of(file).write_text(f"jax {RELEASE}\n{text}")


@functools.cache
def read(file: str) -> dict[str, str]:
    """What is kept for a file of tests: of each comparison what jax gave."""
    path = path_of(file)
    if not path.exists():
        return {}
    release, *lines = path.read_text().split("\n")[:-1]
    return dict(line.rsplit("\t", 1) for line in lines) if release == f"jax {RELEASE}" else {}


def _file_of_tests() -> str:
    return re.split(r"[/:]", os.environ["PYTEST_CURRENT_TEST"].split(".py", 1)[0])[-1]


def _key(call: str, arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(repr(settings.enable_x64).encode())
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        digest.update(f"{name} {array.dtype} {array.shape} {type(value) is np.ndarray}".encode())
        digest.update(array.tobytes())
    return f"{' '.join(call.split())}\t{digest.hexdigest()[:16]}"


def _encoded(result: Any) -> list[Any] | None:
    if isinstance(result, np.ndarray) or hasattr(result, "weak_type"):
        try:
            value = np.asarray(result)
        except TypeError:  # random keys
            return None
        if value.dtype.kind == "O" or value.nbytes > LARGEST:
            return None
        weak_type = getattr(result, "weak_type", False)
        return [value.dtype.name, value.shape, weak_type, base64.b64encode(value.tobytes()).decode()]
    return [result] if type(result) in (bool, int, float, str) else None


def _decoded(entry: list[Any]) -> Any:
    if len(entry) == 1:
        return entry[0]
    name, shape, weak_type, data = entry
    return Result(np.frombuffer(base64.b64decode(data), np.dtype(name)).reshape(shape), weak_type)

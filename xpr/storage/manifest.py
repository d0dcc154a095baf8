"""A checkpoint on disk: a folder with a manifest, beside the folder of data that the manifest names.

    checkpoint.json                              what was saved, and where its pieces are
    xpr-data-0a1b2c3d4e5f6071/0-0.safetensors    pieces of arrays: files <process>-<number>
    checkpoint.lock                              empty, and locked by whoever saves

NOTE [one step]: a save writes a data folder of a new name, and then its manifest replaces the one before by a
rename, which happens as a whole or not at all. Until then the folder holds what it held, afterwards the new; whatever a
manifest names was on the disk before the manifest was. A data folder that no manifest names is what is left of a save
that was stopped, or replaced, and the next save removes it.

The manifest is JSON:

    {"format": "xpr.checkpoint", "version": [1, 0], "sha256": hash of the content, "content": {
     "data": folder, "files": {name: size in bytes}, "tree": node, "leaves": [leaf...]}}

    node     the number of a leaf; null for None; {"kind": kind, "children": [node...]}, with more for some kinds:
             "list"  "tuple";  "deque" with "maxlen";  "dict" and "OrderedDict" with "keys": [key...];
             "class", namedtuples too, with "name", and "steps": what leads to its children, such as ".weight"
    key      "text", 3, true, null; {"float": number}; {"tuple": [key...]}; {"text": text} for any other
    leaf     {"int": 3}  {"bool": true}  {"float": number}  {"complex": [number, number]}  {"str": "text"};
             {"array": kind, "dtype": name, "shape": [...], "pieces": [piece...]}, with kind "Array", "ndarray" or
             "scalar" (NumPy's), and "weak": true where the dtype is weak; of random keys it is that of their words,
             with "keys": the name of their generator
    number   0.5, "nan", "inf", "-inf"
    piece    [file, [start...], [shape...], crc32 of its bytes]; in the file it is called "leaf@start". The pieces of an
             array are the cells of a grid
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import stat
from pathlib import Path
from typing import Any

from xpr.errors import CheckpointError
from xpr.storage import contents

FORMAT = "xpr.checkpoint"
VERSION = (1, 0)  # a reader of 1.n reads every 1.m with m <= n
MANIFEST = "checkpoint.json"
NEW = "checkpoint.json.new"
LOCK = "checkpoint.lock"
LARGEST = 1 << 30  # bytes of a manifest, which is that of some 50 TB of arrays


def write(folder: Path, content: dict[str, Any]) -> None:
    """Makes the content what the folder holds, see NOTE [one step]."""
    text = _text({"format": FORMAT, "version": list(VERSION), "sha256": _hash(content), "content": content})
    if len(text) > LARGEST:
        raise CheckpointError(
            f"save: the manifest of {folder} would have {len(text):,} bytes, and {LARGEST:,} at most are read. "
            "Save parts of the tree to folders of their own."
        )
    with open(folder / NEW, "x") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / NEW, folder / MANIFEST)
    sync(folder)


def read(folder: Path) -> dict[str, Any]:
    """The content that the folder holds.

    Raises:
      FileNotFoundError: there is no folder, or no manifest in it.
      CheckpointError: it is damaged, or of a newer format.
    """
    text = _bytes(folder / MANIFEST)
    try:
        whole = json.loads(text)
        if whole["format"] != FORMAT:
            raise ValueError
        major, minor = map(operator.index, whole["version"])
    except (ValueError, KeyError, TypeError, RecursionError):  # text or JSON of another kind
        raise CheckpointError(
            f"{folder / MANIFEST} is damaged, or was not written by xpr.storage.save: its format is not {FORMAT!r}."
        ) from None
    if (major, minor) > VERSION or major != VERSION[0]:
        raise CheckpointError(
            f"{folder} is of format {major}.{minor}, and this xpr reads {VERSION[0]}.0 to {VERSION[0]}.{VERSION[1]}. "
            "Install the version of xpr that wrote it, or a later one."
        )
    try:
        if _hash(whole.get("content")) != whole.get("sha256"):
            raise contents.Damage("its content does not have the hash that it gives")
        contents.check(whole["content"])
    except (ValueError, RecursionError) as error:  # ValueError also for numbers that JSON can't hold
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise CheckpointError(f"{folder / MANIFEST} is damaged: {why}.") from None
    return whole["content"]


def _bytes(path: Path) -> bytes:
    """What a file holds that is no link, and nothing else than a file."""
    check_no_link(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise CheckpointError(f"{path} is damaged: it has {size:,} bytes, and {LARGEST:,} at most are read.")
        return file.read(size)


def check_no_link(path: Path, folder: bool = False) -> os.stat_result:
    """What is known of a file of a checkpoint, or of a folder in it.

    Raises:
      FileNotFoundError: it is missing.
      CheckpointError: it is something else, such as a link, which may lead anywhere.
    """
    status = path.lstat()
    expected, is_that = ("folder", stat.S_ISDIR) if folder else ("file", stat.S_ISREG)
    if not is_that(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "something else"
        raise CheckpointError(f"{path} is damaged: it is {kind}, where save wrote a {expected}.")
    return status


def exists(folder: Path) -> bool:
    """Whether the folder holds a checkpoint."""
    return (folder / MANIFEST).is_file()


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _hash(content: Any) -> str:
    return hashlib.sha256(_text(content).encode()).hexdigest()


def sync(path: Path) -> None:
    """Waits until a file, or the list of files of a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

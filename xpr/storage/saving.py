"""save : pytree -> a folder on disk."""

from __future__ import annotations

import contextlib
import fcntl
import math
import operator
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding
from xpr.core.avals import describe, is_key
from xpr.errors import CheckpointError, DeletedArrayError, TreeMismatch
from xpr.primitives.random_keys import random_unwrap
from xpr.storage import files, manifest
from xpr.storage.contents import DATA, DATA_NAME
from xpr.storage.files import Part
from xpr.storage.leaves import record_of, text_of, why_not
from xpr.storage.numbered import begun, check_path, folder_of, steps
from xpr.storage.regions import Box, region_at
from xpr.storage.structure import leaves_of, node_of
from xpr.storage.together import on_all, on_first, process_index
from xpr.transforms.boundary import boundary


@boundary
def save(path: str | os.PathLike[str], tree: Any, *, step: int | None = None, keep: int | None = None) -> Path:
    """Writes a pytree to a folder, from which `restore` reads it.

    When the call returns all is on the disk. Until then the folder holds what it held before: a process that is killed
    while it saves loses nothing that had been saved, be it in the same folder. Arrays that are sharded over devices are
    written with the shardings they have, and read back onto any others. Where several processes run together all have
    to call it with the same folder, which all can reach, and with the same tree; each writes what is on its devices.

    Args:
      path: the folder, which is made if it doesn't exist; a checkpoint in it is replaced.
      tree: a pytree of arrays, NumPy arrays, random keys, Python numbers and texts.
      step: the step, for a folder in `path` that `steps` and `latest` list; None to save to `path` itself.
      keep: the number of steps to keep, with this one; older ones are removed. None for all.

    Returns:
      The folder of the checkpoint.

    Raises:
      TypeError: a leaf is something else, or traced.
      ValueError: `step` is negative, or `keep` is given without `step` or less than 1.
      CheckpointError: another process saves to the folder, or what is in it is of another kind.
      DeletedArrayError: an array was deleted or donated.
      OSError: the files can't be written.
      TreeMismatch: several processes have different trees.
      RuntimeError: another process failed.
      ProcessLost: another process is gone.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = xpr.storage.save(folder + "/model", {"w": jnp.ones(2), "epoch": 3})
    ...     xpr.storage.restore(path)
    {'w': Array([1., 1.], dtype=float32), 'epoch': 3}
    """
    check_path("save", path)
    what = f"save to {path}" if step is None else f"save to {path}, step {step}"
    request, replies = on_all(
        what, lambda: _request(Path(path), tree, step, keep), describe=lambda request: request.types
    )
    _check_same(what, replies)
    with contextlib.ExitStack() as stack:
        data = on_first(what, lambda: stack.enter_context(_new_data(request.folder)))
        parts = _parts(request.leaves)
        _, written = on_all(what, lambda: files.write(parts, request.folder / data, process_index()))
        on_first(what, lambda: _commit(request, data, written))
    if keep is not None:
        on_first(what, lambda: _remove_others(Path(path), int(step), keep))  # type: ignore[arg-type]  # as was checked
    return request.folder


class _Request(NamedTuple):
    """A request to save a pytree in a folder."""

    folder: Path
    node: Any
    leaves: list[Any]
    records: list[dict[str, Any]]
    paths: dict[int, str]  # of the leaves

    @property
    def types(self) -> list[tuple[str, str]]:
        """Path and type of each leaf."""
        return [(self.paths[number], text_of(record)) for number, record in enumerate(self.records)]


def _request(path: Path, tree: Any, step: Any, keep: int | None) -> _Request:
    folder = path if step is None else folder_of(path, _checked(step))
    _check_keep(step, keep)
    if step is None and steps(path):
        raise CheckpointError(
            f"save: {path} holds checkpoints by step. Give step=..., or choose another folder for one without."
        )
    if step is not None and manifest.exists(path):
        raise CheckpointError(f"save: {path} is a checkpoint saved without a step. Choose another folder for steps.")
    leaves: list[Any] = []
    node = node_of(tree, lambda leaf: leaves.append(leaf) or len(leaves) - 1)  # type: ignore[func-returns-value]
    paths = dict(leaves_of(node))
    return _Request(folder, node, leaves, _records(leaves, paths), paths)


def _checked(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"save: step must be an integer from 0 on, not {step!r}.")
    return number


def _check_keep(step: Any, keep: int | None) -> None:
    if keep is None:
        return
    if step is None:
        raise ValueError("save: keep says how many steps to keep, and no step is given. Give step=..., or no keep.")
    try:
        operator.index(keep)
    except TypeError:
        raise ValueError(f"save: keep is the number of steps to keep, an integer, and is {describe(keep)}.") from None
    if keep < 1:
        raise ValueError(f"save: keep={keep!r} would leave nothing; it must be 1 at least.")


def _check_same(what: str, replies: Sequence[Any]) -> None:
    """Raises TreeMismatch, on all processes, where they have different trees."""
    for index, types in enumerate(replies):
        if list(map(tuple, types)) != list(map(tuple, replies[0])):
            first, other = dict(replies[0]), dict(types)
            lines = [
                f"  {path or 'the tree itself'}   {first.get(path, 'nothing')} on process 0, "
                f"{other.get(path, 'nothing')} on process {index}"
                for path in {**first, **other}
                if first.get(path) != other.get(path)
            ]
            raise TreeMismatch("\n".join([f"{what}: the processes have different trees:", *lines]))


# -- What is written


def _records(leaves: Sequence[Any], path_of: dict[int, str]) -> list[dict[str, Any]]:
    records = [record_of(leaf) for leaf in leaves]
    wrong = [number for number, record in enumerate(records) if record is None]
    if wrong:
        lines = "\n".join(f"  {path_of[number] or 'the tree itself'}   {why_not(leaves[number])}" for number in wrong)
        raise TypeError(
            f"save: leaves are arrays, Python numbers and texts, and these are something else:\n{lines}\n"
            "Take them out of the tree, or save what they are made from."
        )
    deleted = [n for n, leaf in enumerate(leaves) if type(leaf) is Array and leaf.is_deleted()]
    if deleted:
        raise DeletedArrayError(
            f"save: these arrays were deleted, or donated to a jitted call: {', '.join(path_of[n] for n in deleted)}. "
            "Save what that call gave."
        )
    return records  # type: ignore[return-value]  # none is None


def _parts(leaves: Sequence[Any]) -> Iterator[Part]:
    """What this process writes of the arrays: of each region the first of those who have it."""
    for number, leaf in enumerate(leaves):
        if type(leaf) is Array and is_key(leaf.aval):
            leaf = random_unwrap(leaf)
        if type(leaf) is Array and isinstance(leaf._device, NamedSharding):
            for shard in leaf.addressable_shards:
                if shard.replica_id == 0:
                    yield Part(number, region_at(shard.index, leaf.aval.shape), np.asarray(shard.data))
        elif process_index() == 0 and isinstance(leaf, (Array, np.ndarray, np.generic)):
            values = _values(leaf)
            yield Part(number, Box((0,) * values.ndim, values.shape), values)


def _values(leaf: Any) -> np.ndarray:
    """The values of an array, of which it keeps no copy."""
    if type(leaf) is Array and leaf._buffer is not None:
        leaf = Array(leaf.aval, leaf._host, leaf._buffer, leaf._device)
    return np.asarray(leaf)


# -- Where it is written


@contextlib.contextmanager
def _new_data(folder: Path) -> Iterator[str]:
    """The name of a new folder of data.

    In the end every folder of data that the manifest does not name is removed: the one before, or, if the save did not
    come to its end, the new one; see NOTE [one step] in manifest.py.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in created:
        manifest.sync(path.parent)
    with _locked(folder):
        _remove_leftovers(folder)
        data = DATA + secrets.token_hex(8)
        (folder / data).mkdir()
        try:
            yield data
        finally:
            _remove_leftovers(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from saving to the folder; the lock of one that is killed is gone with it."""
    with os.fdopen(os.open(folder / manifest.LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(f"save: another process, or thread, is saving to {folder} now.") from None
        except OSError:  # a file system without locks
            pass
        yield


def _remove_leftovers(folder: Path) -> None:
    """Removes what an unfinished save has left, and data that the manifest does not name."""
    named = manifest.read(folder)["data"] if manifest.exists(folder) else None
    (folder / manifest.NEW).unlink(missing_ok=True)
    for path in folder.iterdir():
        if DATA_NAME.fullmatch(path.name) and path.name != named:
            shutil.rmtree(path)


def _commit(request: _Request, data: str, written: Sequence[Any]) -> None:
    """Makes what was written what the folder holds."""
    pieces = {(leaf, *map(tuple, piece[1:3])): piece for _, listed in reversed(written) for leaf, piece in listed}
    for (leaf, *_), piece in pieces.items():  # where several processes have the same, that of the first one
        request.records[leaf]["pieces"].append(piece)
    for number, record in enumerate(request.records):
        if sum(math.prod(shape) for _, _, shape, _ in record.get("pieces", [])) != math.prod(record.get("shape", [0])):
            raise CheckpointError(
                f"save: {request.paths[number] or 'the array'} is not all here: a part is on devices of a process that "
                "does not save."
            )
    manifest.sync(request.folder / data)
    manifest.sync(request.folder)
    sizes = {name: size for of_process, _ in written for name, size in of_process.items()}
    manifest.write(request.folder, {"data": data, "tree": request.node, "leaves": request.records, "files": sizes})


def _remove_others(path: Path, step: int, keep: int) -> None:
    """Removes the checkpoints of the first steps, and what is left of those whose save or removal was stopped."""
    others = [number for number in steps(path) if number != step]
    kept = {step, *others[max(len(others) - keep + 1, 0) :]}
    for number, folder in begun(path).items():
        if number in kept:
            continue
        if (folder / manifest.LOCK).exists():
            with contextlib.suppress(CheckpointError), _locked(folder):
                (folder / manifest.MANIFEST).unlink(missing_ok=True)
                _remove_leftovers(folder)
                (folder / manifest.LOCK).unlink()
        with contextlib.suppress(OSError):  # there is something else in it
            folder.rmdir()

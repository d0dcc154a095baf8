"""restore : a folder on disk -> pytree, each array assembled on the devices that it is wanted on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes, tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.api.transfer import devices_or_shardings
from xpr.backend.array import Array
from xpr.backend.devices import Device
from xpr.backend.sharding import NamedSharding, Sharding, SingleDeviceSharding, typed
from xpr.backend.shards import assemble
from xpr.core.avals import ShapedArray
from xpr.errors import CheckpointError, TreeMismatch
from xpr.key_types import implementations
from xpr.numpy.creation import asarray
from xpr.primitives.random_keys import random_wrap
from xpr.storage import leaves, manifest
from xpr.storage.files import Files, threads
from xpr.storage.numbered import check_path, folder_of, latest, steps
from xpr.storage.regions import Box, region_at
from xpr.storage.structure import leaves_of, match_nodes, node_of, tree_of
from xpr.transforms.boundary import boundary

DeviceOrSharding = Device | Sharding | None


@boundary
def restore(path: str | os.PathLike[str], like: Any = None, shardings: Any = None, *, step: int | None = None) -> Any:
    """The pytree that `save` wrote to a folder.

    Of each array only the parts are read that go to devices of this process, from however many devices or processes
    they were saved. Nothing in a checkpoint is run, or looked up by name, and nothing is opened outside of its folder:
    a link in it is an error. Without `like` the containers are dicts, lists, tuples and deques (and random keys), and
    namedtuples and registered classes come back as dicts of their fields, or lists where these have no names; a
    defaultdict as a dict.

    Args:
      path: the folder of a checkpoint, or one with checkpoints by step.
      like: a pytree of the same structure, with arrays of the same types, or `ShapeDtypeStruct`s as from `eval_shape`.
        The result has its containers, and leaves of the same kinds: arrays, NumPy arrays or Python numbers; arrays have
        the shardings of those in `like`, if the user chose these. None for dicts, lists and tuples of arrays.
      shardings: a device or a sharding, or a pytree prefix of those and None, for arrays; they take precedence over
        those of `like`.
      step: the step to read in a folder of steps; None for the last one.

    Returns:
      A pytree.

    Raises:
      FileNotFoundError: there is no checkpoint.
      CheckpointError: the folder holds something else, is damaged (the message names the array), or is of a newer
        format.
      TreeMismatch: it does not fit `like`; all differences are listed, by path.
      ValueError: an array can't be split into equal shards as its sharding says.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = xpr.storage.save(folder, {"w": jnp.ones(2), "epoch": 3})
    ...     restored = xpr.storage.restore(folder, shardings={"w": rows, "epoch": None})
    >>> restored["w"].sharding, restored["epoch"]
    (NamedSharding(mesh=Mesh('x': 1), spec=P('x',)), 3)
    """
    check_path("restore", path)
    while True:
        folder, content = _folder(Path(path), step), None
        try:
            content = manifest.read(folder)
            return _restored(folder, content, like, shardings)
        except RecursionError:
            raise CheckpointError(f"restore: the tree in {folder} is nested too deeply to be read.") from None
        except FileNotFoundError as error:
            if content is not None and manifest.exists(folder) and manifest.read(folder)["data"] == content["data"]:
                raise CheckpointError(f"{folder} is damaged: {error.filename} is missing.") from None
        # it was saved to, or removed, meanwhile: what is there now is read


def _folder(path: Path, step: int | None) -> Path:
    """The folder that holds the checkpoint."""
    if path.is_file():
        raise CheckpointError(f"restore: {path} is a file, and a checkpoint is a folder with a {manifest.MANIFEST}.")
    if step is None and manifest.exists(path):
        return path
    last = latest(path) if step is None else None
    if last is not None:
        return folder_of(path, last)
    if step is not None and manifest.exists(folder_of(path, step)):
        if folder_of(path, step).is_symlink():
            raise CheckpointError(
                f"restore: {folder_of(path, step)} is a link, and nothing outside of {path} is opened. "
                f"Give the folder it leads to: restore({str(folder_of(path, step).resolve())!r})."
            )
        return folder_of(path, step)
    if not path.exists():
        raise FileNotFoundError(f"restore: there is no folder {path}.")
    existing = steps(path)
    missing = f"no checkpoint of step {step} in {path}" if step is not None else f"no checkpoint in {path}"
    instead = (
        f"it has those of {existing}" if existing
        else "it is one saved without a step" if manifest.exists(path)
        else f"it has no {manifest.MANIFEST}, which is written when all else has been"
    )  # fmt: skip
    raise FileNotFoundError(f"restore: there is {missing}: {instead}.")


class _Leaf(NamedTuple):
    """A leaf of the result."""

    number: int  # of the saved leaf
    path: str
    record: dict[str, Any]
    kind: type  # Array, np.ndarray or np.generic; object for Python's numbers and texts, which are on no device
    target: DeviceOrSharding
    dtype: Any  # for a saved number that is wanted as an array


def _restored(folder: Path, content: dict[str, Any], like: Any, shardings: Any) -> Any:
    treedef, selected = _as_saved(content) if like is None else _as_in_like(folder, content, like)
    for i, target in enumerate(devices_or_shardings(shardings, treedef, "restore", "shardings")):
        if target is not None and selected[i].kind is not object:
            selected[i] = selected[i]._replace(target=target)
    _check_shardings(selected)
    files = Files(folder / content["data"], content["files"])
    with threads() as pool:
        return tree.unflatten(treedef, [_read_leaf(leaf, files, pool) for leaf in selected])


_KINDS: dict[str, type] = {"Array": Array, "ndarray": np.ndarray, "scalar": np.generic}


def _as_saved(content: dict[str, Any]) -> tuple[tree.PyTreeDef, list[_Leaf]]:
    numbers, treedef = tree.flatten(tree_of(content["tree"], lambda number: number))
    path_of = dict(leaves_of(content["tree"]))
    records = [content["leaves"][number] for number in numbers]
    kinds = [_KINDS.get(record.get("array", ""), object) for record in records]
    return treedef, [_Leaf(n, path_of[n], r, kind, None, None) for n, r, kind in zip(numbers, records, kinds)]


def _as_in_like(folder: Path, content: dict[str, Any], like: Any) -> tuple[tree.PyTreeDef, list[_Leaf]]:
    """The structure of `like`, and its leaves with the saved ones that match them.

    Raises:
      TreeMismatch: a saved leaf or node is missing in `like`, or the other way round, or they don't fit each other.
    """
    like_leaves, treedef = tree.flatten(like)
    numbers = iter(range(len(like_leaves)))
    matched: dict[int, _Leaf] = {}
    differences: list[tuple[str, str, str]] = []
    # Of a pair of nodes that match, both are numbers of leaves; otherwise each may be a number or a description.
    for path, saved, wanted in match_nodes(content["tree"], node_of(like, lambda leaf: next(numbers))):
        record = content["leaves"][saved] if isinstance(saved, int) else None
        leaf = like_leaves[wanted] if isinstance(wanted, int) else None
        if record is not None and isinstance(wanted, int) and leaves.fits(record, leaf):
            dtype = getattr(leaf, "dtype", None)
            matched[wanted] = _Leaf(saved, path, record, _kind_like(leaf), _target_like(leaf), dtype)
        else:
            saved_text = saved if record is None else leaves.text_of(record)
            wanted_text = leaves.text_of_like(leaf) if isinstance(wanted, int) else wanted
            differences.append((path, saved_text, wanted_text))
    if differences:
        raise TreeMismatch(_mismatch_text(folder, differences))
    return treedef, [matched[i] for i in range(len(like_leaves))]


def _mismatch_text(folder: Path, differences: Sequence[tuple[str, str, str]]) -> str:
    """The message that lists differences: of each the path, and what is saved and wanted there, empty for nothing."""
    width = max(len(path or "the tree itself") for path, _, _ in differences)
    lines = [
        f"  {path or 'the tree itself':{width}}   "
        + (f"{saved} in the checkpoint, {wanted} in `like`" if saved and wanted
           else f"only in the checkpoint: {saved}" if saved else f"only in `like`: {wanted}")
        for path, saved, wanted in differences
    ]  # fmt: skip
    return "\n".join([
        f"restore: the checkpoint {folder} does not fit `like`:", *lines,
        "Give a `like` of what was saved; or none, and convert what comes.",
    ])  # fmt: skip


def _kind_like(leaf: Any) -> type:
    if isinstance(leaf, (np.ndarray, np.generic)):
        return np.ndarray if isinstance(leaf, np.ndarray) else np.generic
    return Array if leaves.has_type(leaf) else object


def _target_like(leaf: Any) -> DeviceOrSharding:
    if type(leaf) is Array:
        return leaf.device if leaf.committed else None
    return leaf.sharding if type(leaf) is ShapeDtypeStruct else None


def _check_shardings(selected: Sequence[_Leaf]) -> None:
    """Raises ValueError, which lists all arrays that can't be sharded as they are to be."""
    problems = []
    for leaf in selected:
        if isinstance(leaf.target, NamedSharding):
            try:
                leaf.target.check(leaf.record.get("shape", ()), "restore", leaf.path or "the array")
            except ValueError as error:
                problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))


# -- Leaves


def _read_leaf(leaf: _Leaf, files: Files, pool: ThreadPoolExecutor) -> Any:
    value = _read_value(leaf, files, pool)
    return random_wrap(value, implementations[leaf.record["keys"]]) if "keys" in leaf.record else value


def _read_value(leaf: _Leaf, files: Files, pool: ThreadPoolExecutor) -> Any:
    if "array" not in leaf.record:
        value = leaves.value_of(leaf.record)
        return value if leaf.kind is object else _of_kind(np.asarray(value, leaf.dtype), leaf)
    if isinstance(leaf.target, NamedSharding):
        return _sharded(leaf, leaf.target, files, pool)
    shape = tuple(leaf.record["shape"])
    (values,) = files.read(leaf.number, leaf.record, leaf.path, [Box((0,) * len(shape), shape)], pool)
    return _of_kind(values, leaf)


def _sharded(leaf: _Leaf, sharding: NamedSharding, files: Files, pool: ThreadPoolExecutor) -> Array:
    """A sharded array, of which the parts are read that go to devices of this process, each region once."""
    shape = tuple(leaf.record["shape"])
    regions = [region_at(index, shape) for index in sharding.addressable_devices_indices_map(shape).values()]
    distinct = list(dict.fromkeys(regions))
    values = files.read(leaf.number, leaf.record, leaf.path, distinct, pool)
    parts = dict(zip(distinct, map(_narrowed, values)))
    dtype = dtypes.canonical(leaves.DTYPES[leaf.record["dtype"]])
    aval = ShapedArray(shape, dtype, leaf.record.get("weak", False))
    return Array(typed(aval, sharding), None, assemble([parts[region] for region in regions], aval, sharding), sharding)


def _of_kind(values: np.ndarray, leaf: _Leaf) -> Any:
    """The values of a whole array as what is wanted."""
    if leaf.kind is object:
        return values.item()
    if leaf.target is None and leaf.kind is not Array:
        return values if leaf.kind is np.ndarray else values[()]
    values = _narrowed(values)
    aval = ShapedArray(values.shape, values.dtype, leaf.record.get("weak", False))
    target = leaf.target
    return Array(aval, values, None, target.device if isinstance(target, SingleDeviceSharding) else target)


def _narrowed(values: np.ndarray) -> np.ndarray:
    """The values in 32 bits, with a warning where that changes one, if they have 64 and such types are off now."""
    return np.asarray(asarray(values)) if dtypes.is_narrowed(values.dtype) else values

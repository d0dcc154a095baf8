"""`jax.experimental.array_serialization.pytree_serialization`: pytrees of arrays in folders, in xpr's own format.

The arrays are a checkpoint of `xpr.storage`, beside the structure of the pytree. JAX's folders are TensorStore's, and
neither reads the other's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.experimental.array_serialization.pytree_serialization_utils import (
    PyTreeFuture,
    deserialize_pytreedef,
    serialize_pytreedef,
)
from xpr.storage import restore
from xpr.storage import save as save_arrays

__all__ = ["load", "load_pytreedef", "nonblocking_load", "nonblocking_save", "save"]

_STRUCTURE, _ARRAYS = "pytreedef.json", "array_store"


def save(data: Any, directory: str | os.PathLike[str], *, overwrite: bool = True, ts_specs: Any = None) -> None:
    """Writes a pytree of arrays to a folder.

    Args:
      data: the pytree; its classes of nodes are registered for serialization.
      directory: the folder.
      overwrite: whether a folder with a pytree is replaced.
      ts_specs: must be None: there is no TensorStore.

    Returns:
      None.

    Raises:
      FileExistsError: there is one, and it is not to be replaced.
      NotImplementedError: there are `ts_specs`.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> from xpr.experimental.array_serialization import pytree_serialization as io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save({"w": jnp.ones(2)}, folder)
    ...     io.load(folder, xpr.devices()[0])
    {'w': Array([1., 1.], dtype=float32)}
    """
    _no_specs(ts_specs)
    root = Path(directory)
    if not overwrite and (root / _STRUCTURE).exists():
        raise FileExistsError(f"save: {root} holds a pytree, and overwrite is False.")
    leaves, structure = tree.flatten(data)
    types = [{"shape": list(x.shape), "dtype": x.dtype.name} for x in leaves]
    root.mkdir(parents=True, exist_ok=True)
    if leaves:
        save_arrays(root / _ARRAYS, leaves)
    (root / _STRUCTURE).write_text(json.dumps({**serialize_pytreedef(structure), "types": types}))


def load_pytreedef(directory: str | os.PathLike[str]) -> Any:
    """The structure of the pytree in a folder, with a type for each array.

    Args:
      directory: the folder.

    Returns:
      A pytree of `ShapeDtypeStruct`s.

    Raises:
      FileNotFoundError: there is none.

    >>> import tempfile, xpr.numpy as jnp
    >>> from xpr.experimental.array_serialization import pytree_serialization as io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save({"w": jnp.ones(2)}, folder)
    ...     io.load_pytreedef(folder)
    {'w': ShapeDtypeStruct(shape=(2,), dtype=float32)}
    """
    content = json.loads((Path(directory) / _STRUCTURE).read_text())
    types = [ShapeDtypeStruct(tuple(each["shape"]), each["dtype"]) for each in content["types"]]
    return tree.unflatten(deserialize_pytreedef(content), types)


def load(directory: str | os.PathLike[str], shardings: Any, *, mask: Any = None, ts_specs: Any = None) -> Any:
    """The pytree of arrays in a folder.

    Args:
      directory: the folder.
      shardings: a device or a sharding, or a pytree prefix of those, or of `ShapeDtypeStruct`s with a sharding.
      mask: a pytree prefix of booleans: None stands where it is False. None for all.
      ts_specs: must be None: there is no TensorStore.

    Returns:
      The pytree.

    Raises:
      FileNotFoundError: there is none.
      NotImplementedError: there are `ts_specs`.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> from xpr.experimental.array_serialization import pytree_serialization as io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save([jnp.ones(2), jnp.zeros(2)], folder)
    ...     io.load(folder, xpr.devices()[0], mask=[True, False])
    [Array([1., 1.], dtype=float32), None]
    """
    _no_specs(ts_specs)
    types = load_pytreedef(directory)
    structure = tree.structure(types)
    count = structure.num_leaves
    placed = _broadcast(shardings, types, lambda x: None if x is None else getattr(x, "sharding", x))
    wanted = [True] * count if mask is None else _broadcast(mask, types, bool)
    leaves = restore(Path(directory) / _ARRAYS, shardings=placed) if count else []
    return tree.unflatten(structure, [x if keep else None for x, keep in zip(leaves, wanted)])


def _broadcast(prefix: Any, whole: Any, of: Callable[[Any], Any]) -> list[Any]:
    """`of` the leaves of a pytree prefix, one for each leaf of the whole."""
    leaves: list[Any] = []

    def add(leaf: Any, part: Any) -> None:
        leaves.extend([of(leaf)] * len(tree.leaves(part)))

    tree.map(add, prefix, whole, is_leaf=lambda x: x is None)
    return leaves


def _no_specs(ts_specs: Any) -> None:
    if ts_specs is not None:
        raise NotImplementedError("array_serialization: there is no TensorStore, and `ts_specs` must be None.")


_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="xpr-serialization")


def nonblocking_save(
    data: Any, directory: str | os.PathLike[str], *, overwrite: bool = True, ts_specs: Any = None
) -> PyTreeFuture:
    """`save` in another thread.

    Args:
      data: the pytree.
      directory: the folder.
      overwrite: whether a folder with a pytree is replaced.
      ts_specs: must be None.

    Returns:
      A future; its `pytree` is `data` with types for arrays.

    >>> import tempfile, xpr.numpy as jnp
    >>> from xpr.experimental.array_serialization import pytree_serialization as io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.nonblocking_save({"w": jnp.ones(2)}, folder).result()
    ...     io.load_pytreedef(folder)
    {'w': ShapeDtypeStruct(shape=(2,), dtype=float32)}
    """
    future = PyTreeFuture(_threads.submit(save, data, directory, overwrite=overwrite, ts_specs=ts_specs))
    future.pytree = tree.map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), data)
    return future


def nonblocking_load(
    directory: str | os.PathLike[str], shardings: Any, *, mask: Any = None, ts_specs: Any = None
) -> PyTreeFuture:
    """`load` in another thread.

    Args:
      directory: the folder.
      shardings: as for `load`.
      mask: as for `load`.
      ts_specs: must be None.

    Returns:
      A future; its `pytree` has types for arrays.

    Raises:
      FileNotFoundError: there is no pytree in the folder.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> from xpr.experimental.array_serialization import pytree_serialization as io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save({"w": jnp.ones(2)}, folder)
    ...     io.nonblocking_load(folder, xpr.devices()[0]).result()
    {'w': Array([1., 1.], dtype=float32)}
    """
    future = PyTreeFuture(_threads.submit(load, directory, shardings, mask=mask, ts_specs=ts_specs))
    future.pytree = load_pytreedef(directory)
    return future

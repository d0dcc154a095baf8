"""Moving pytrees of arrays between devices and the host."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend import compiler, processes
from xpr.backend.array import Array
from xpr.backend.devices import Device
from xpr.backend.sharding import NamedSharding, PartitionSpec, Sharding
from xpr.backend.shards import check_here
from xpr.control.devices.sharding_constraint import constrain, sharding_of
from xpr.core.interpreter import Tracer
from xpr.core.key_words import leaves_of_users
from xpr.numpy.creation import asarray, placed


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The leaves of a pytree as arrays on a device.

    Args:
      x: a pytree of arrays, NumPy arrays and numbers; what is traced is left as it is.
      device: a device or a sharding, or a pytree prefix of `x` of those and None; None for the default device, to which
        nothing is then bound. What is traced is constrained to lie as a `NamedSharding` says. To devices of several
        processes each of these gives the same values.
      src: where `x` is now; not needed.
      donate: whether the arrays given may be used up; makes no difference here.
      may_alias: whether results may share memory with the arrays given; those on the right device are given back.
    Returns:
      a pytree like `x`.
    Raises:
      TypeError: a leaf is no array and no number, or `device` is no device.
      ValueError: an axis can't be cut into equal parts; the device is another process's; or processes give different
        values. The message names the array.

    >>> import numpy as np, xpr
    >>> xpr.device_put({"w": np.ones(2, np.float32)}, xpr.devices()[0])
    {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, structure = tree.flatten(x)
    where = places(device, structure, "device_put", "device")
    if any(isinstance(d, NamedSharding) for d in where):
        _check_cuts(x, where)
    group = processes.group()
    if group is not None:
        _check_same(group, x, where)
    return tree.unflatten(structure, [_put(leaf, d) for leaf, d in zip(leaves, where)])


def places(prefix: Any, structure: tree.PyTreeDef, function: str, name: str) -> list[Device | Sharding | None]:
    """The place of each leaf of a pytree, from a prefix of it that is given to `function` as its argument `name`.

    Raises:
      TypeError: an entry is no device and no sharding.
      TreeMismatch: it is no prefix.
    """
    if isinstance(prefix, PartitionSpec):
        prefix = sharding_of(function, prefix)
    if prefix is None or _is_place(prefix):
        return [prefix] * structure.num_leaves
    found = tree.flatten_prefix(prefix, structure, name, lambda place: place is None or _is_place(place), function)
    found = [sharding_of(function, place) if isinstance(place, PartitionSpec) else place for place in found]
    for place in found:
        if place is not None and not _is_place(place):
            raise TypeError(
                f"{function}: {place!r} is not a device and no sharding. Devices are listed by xpr.devices()."
            )
    return found


def _is_place(x: Any) -> bool:
    return isinstance(x, (Sharding, PartitionSpec)) or (hasattr(x, "platform") and hasattr(x, "client"))


def _check_cuts(x: Any, where: Sequence[Any]) -> None:
    for (path, _), own, sharding in zip(tree.leaves_with_path(x), leaves_of_users(x), where):
        if isinstance(sharding, NamedSharding):
            sharding.check(np.shape(own), "device_put", f"x{tree.keystr(path)}")
            sharding.mesh.flat  # noqa: B018  # it raises where there are none


def _check_same(group: processes.Group, x: Any, where: Sequence[Any]) -> None:
    """Raises ValueError where processes give different values for an array that lies on devices of all of them."""
    given: dict[tuple[int, ...], dict[str, int]] = {}
    for (path, leaf), place in zip(tree.leaves_with_path(x), where):
        if place is None or isinstance(leaf, Tracer) or (type(leaf) is Array and not leaf.is_fully_addressable):
            continue
        held = place.devices if isinstance(place, Sharding) else (place,)
        ranks = tuple(sorted({device.process_index for device in held}))
        if ranks == (group.index,):
            continue
        if not isinstance(place, NamedSharding):
            raise ValueError(
                f"device_put: {held[0]} is a device of process {ranks[0]}, and this is process "
                f"{group.index}. Arrays come to devices of several processes by a NamedSharding."
            )
        check_here(place)
        given.setdefault(ranks, {})[f"x{tree.keystr(path)}"] = zlib.crc32(np.asarray(asarray(leaf)).tobytes())
    for ranks, sums in given.items():
        said = group.exchange(ranks, "device_put", sums)
        for name in sums:
            different = [i for i in ranks if said[i].get(name) != said[ranks[0]].get(name)]
            if different:
                raise ValueError(
                    f"device_put: {name} is not the same in {processes.names(different)} as in process {ranks[0]}, and "
                    "each gives the whole of an array that lies on devices of all. Where each has a part of it, use "
                    "make_array_from_process_local_data; multihost_utils.broadcast_one_to_all makes it the same."
                )


def _put(leaf: Any, device: Device | Sharding | None) -> Any:
    value = asarray(leaf)
    if not isinstance(value, Tracer):
        return placed(value, device)
    return constrain(value, device) if isinstance(device, NamedSharding) else value


def device_get(x: Any) -> Any:
    """The leaves of a pytree as NumPy arrays; numbers are left as they are.

    Raises:
      TracerArrayConversionError: a leaf is traced.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.device_get((jnp.arange(2), 1.0))
    (array([0, 1], dtype=int32), 1.0)
    """
    copy_to_host_async(x)
    return tree.map(lambda leaf: np.asarray(leaf) if hasattr(leaf, "aval") else leaf, x)


def copy_to_host_async(x: Any) -> Any:
    """Starts fetching every array of a pytree, and gives the pytree back; reading them later is quicker.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.copy_to_host_async(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    for leaf in tree.leaves(x):
        if type(leaf) is Array:
            leaf.copy_to_host_async()
    return x


def block_until_ready(x: Any) -> Any:
    """Waits until every array of a pytree has been computed, and gives the pytree back.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.block_until_ready([jnp.ones(2)])
    [Array([1., 1.], dtype=float32)]
    """
    leaves = tree.leaves(x)
    buffers = [leaf._buffer for leaf in leaves if type(leaf) is Array and leaf._buffer is not None]
    if buffers:
        compiler.block(buffers)
    for leaf in leaves:
        if type(leaf) is not Array and hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x

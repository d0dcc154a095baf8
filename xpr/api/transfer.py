"""Moving pytrees of arrays between devices and the host."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend import devices, processes
from xpr.backend.array import Array
from xpr.backend.buffers import block, device_of
from xpr.backend.devices import Device, is_device
from xpr.backend.layout import Format
from xpr.backend.sharding import NamedSharding, PartitionSpec, Sharding
from xpr.backend.shards import check_has_local_devices
from xpr.backend.waiting import forget_ended
from xpr.compile import transfer_guard
from xpr.compile.argument_shardings import known_device
from xpr.compile.placement import to_device
from xpr.compile.relayout import relaid
from xpr.control.devices.device_values import DeviceTrace, staged_by
from xpr.control.devices.sharding_constraint import layouts_of
from xpr.core.avals import ShapedArray, aval_of, is_key
from xpr.core.interpreter import Tracer
from xpr.core.memory import MemorySpace, space_of_kind
from xpr.errors import ArgumentError
from xpr.numpy.creation import copied, on_no_device
from xpr.primitives.device_put import device_put_p, in_memory, space_of
from xpr.primitives.sharding_constraint import constrain, sharding_of

__all__ = ["block_until_ready", "copy_to_host_async", "device_get", "device_put", "live_arrays"]


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The leaves of a pytree as arrays on a device, with a sharding, or in a memory space.

    Args:
      x: a pytree of arrays, NumPy arrays and numbers. A program that is compiled runs on the devices of its arguments,
        and tracers of one are left there.
      device: a device, a sharding, a `Format` or a memory space (`xpr.memory.Space.Host`), or a pytree prefix of `x` of
        those and None; None for the default device, to which they are then not committed. A `NamedSharding` is a
        sharding constraint on tracers, of which the compiler chooses the layouts. For devices of several processes,
        each process passes the same values.
      src: has no effect.
      donate: whether the arrays that were passed may be deleted, a bool or a pytree prefix of `x` of those. They are
        where the result is another array.
      may_alias: whether a result may share memory with its argument, a bool, None or a pytree prefix of `x` of those:
        unless it is False, an array that is on the device already is returned itself.

    Returns:
      A pytree like `x`.

    Raises:
      TypeError: a leaf is neither an array nor a number, or `device` is not a device.
      ValueError: `donate` and `may_alias` are both True; an axis can't be split into equal shards; the layout of a
        `Format` is AUTO, or none of such an array; the device is another process's; processes pass different values; or
        a device is named inside of a `shard_map` that runs at once. The message names the array.

    >>> import numpy as np, xpr
    >>> xpr.device_put({"w": np.ones(2, np.float32)}, xpr.devices()[0])
    {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, structure = tree.flatten(x)
    targets = devices_or_shardings(device, structure, "device_put", "device")
    layouts = layouts_of(device)
    donated = tree.flatten_prefix(donate, structure, "donate", lambda x: x is None, "device_put")
    aliases = tree.flatten_prefix(may_alias, structure, "may_alias", lambda x: x is None, "device_put")
    if any(d and a for d, a in zip(donated, aliases)):
        raise ValueError(
            "device_put: may_alias and donate cannot be True at the same time, for one array: what is donated is "
            "deleted. Give one of the two."
        )
    with transfer_guard.explicit("host-to-device", leaves, targets):
        results = _put_all(x, leaves, targets)
    if layouts is not None:
        results = _with_layouts(x, results, tree.flatten_prefix(layouts, structure, "device", verb="device_put"))
    for i, (leaf, result) in enumerate(zip(leaves, results)):
        if result is leaf and aliases[i] is False and not isinstance(leaf, Tracer):
            results[i] = copied(leaf)
        elif donated[i] and type(leaf) is Array and result is not leaf:
            if leaf._buffer is not result._buffer:
                leaf.delete()
            elif type(result._device) is NamedSharding:
                leaf.forget()  # the result has its value, in the same memory
    return tree.unflatten(structure, results)


def _put_all(x: Any, leaves: Sequence[Any], targets: Sequence[Device | Sharding | None]) -> list[Any]:
    if any(isinstance(d, NamedSharding) for d in targets):
        _check_shardings(x, targets)
    group = processes.group()
    if group is not None:
        _check_same(group, x, targets)
    return [_put(leaf, d) for leaf, d in zip(leaves, targets)]


def _with_layouts(x: Any, leaves: Sequence[Any], layouts: Sequence[Any]) -> list[Any]:
    """The leaves of `x` on their devices, with their layouts there; the compiler chooses those of tracers."""
    paths = [path for path, _ in tree.leaves_with_path(x)]
    return [
        relaid(leaf, layout, "device_put", f"x{tree.keystr(path)}") if type(leaf) is Array else leaf
        for path, leaf, layout in zip(paths, leaves, layouts)
    ]


def devices_or_shardings(
    prefix: Any, structure: tree.PyTreeDef, function: str, name: str
) -> list[Device | Sharding | None]:
    """The device or sharding of each leaf of a pytree, from a prefix of it, the argument `name` of `function`.

    Raises:
      TypeError: a leaf is neither a device nor a sharding.
      TreeMismatch: it is not a prefix.
    """
    if isinstance(prefix, Format):
        prefix = prefix.sharding
    if isinstance(prefix, PartitionSpec):
        prefix = sharding_of(function, prefix)
    if prefix is None or _is_device_or_sharding(prefix):
        return [prefix] * structure.num_leaves
    targets = tree.flatten_prefix(
        prefix, structure, name, lambda target: target is None or _is_device_or_sharding(target), function
    )
    targets = [target.sharding if isinstance(target, Format) else target for target in targets]
    targets = [sharding_of(function, target) if isinstance(target, PartitionSpec) else target for target in targets]
    for target in targets:
        if target is not None and not _is_device_or_sharding(target):
            raise ArgumentError(
                f"{function}: Received invalid value {target!r}, which is neither a device nor a sharding. Devices are "
                "listed by xpr.devices()."
            )
    return targets


def _is_device_or_sharding(x: Any) -> bool:
    known = (Sharding, PartitionSpec, Format, MemorySpace)
    return isinstance(x, known) or is_device(x)


def _check_shardings(x: Any, targets: Sequence[Any]) -> None:
    for (path, leaf), sharding in zip(tree.leaves_with_path(x), targets):
        if isinstance(sharding, NamedSharding):
            sharding.check(np.shape(leaf), "device_put", f"x{tree.keystr(path)}")
            if PartitionSpec.UNCONSTRAINED in sharding.spec and not isinstance(leaf, Tracer):
                raise ValueError(
                    f"device_put: {sharding.spec!r} of x{tree.keystr(path)} leaves an axis to the compiler, and there "
                    "is no program. Name the axes of the mesh that partition it, or None."
                )
            sharding.mesh.flat  # noqa: B018  # raises if the mesh has no devices


def _check_same(group: processes.ProcessGroup, x: Any, targets: Sequence[Any]) -> None:
    """Raises ValueError if processes pass different values for an array on devices of all of them."""
    checksums: dict[tuple[int, ...], dict[str, int]] = {}
    for (path, leaf), target in zip(tree.leaves_with_path(x), targets):
        if (
            target is None
            or type(target) is MemorySpace
            or isinstance(leaf, Tracer)
            or (type(leaf) is Array and not leaf.is_fully_addressable)
        ):
            continue
        target_devices = target.devices if isinstance(target, Sharding) else (target,)
        ranks = tuple(sorted({device.process_index for device in target_devices}))
        if ranks == (group.index,):
            continue
        if not isinstance(target, NamedSharding):
            raise ValueError(
                f"device_put: {target_devices[0]} is a device of process {ranks[0]}, and this is process "
                f"{group.index}. Arrays come to devices of several processes by a NamedSharding."
            )
        check_has_local_devices(target)
        checksums.setdefault(ranks, {})[f"x{tree.keystr(path)}"] = zlib.crc32(_content(leaf))
    for ranks, sums in checksums.items():
        replies = group.exchange(ranks, "device_put", sums)
        for name in sums:
            different = [i for i in ranks if replies[i].get(name) != replies[ranks[0]].get(name)]
            if different:
                raise ValueError(
                    f"device_put: {name} is not the same in {processes.names(different)} as in process {ranks[0]}, and "
                    "each gives the whole of an array on devices of all. Where each has a part of it, use "
                    "make_array_from_process_local_data; multihost_utils.broadcast_one_to_all makes it the same."
                )


def _content(leaf: Any) -> bytes:
    host = np.asarray(on_no_device(leaf).host)
    return repr(host.tolist()).encode() if host.dtype == dtypes.string else host.tobytes()


def _put(leaf: Any, device: Device | Sharding | None) -> Any:
    value = on_no_device(leaf)
    if device is not None and type(device) not in (NamedSharding, MemorySpace) and type(staged_by()) is DeviceTrace:
        raise ValueError(
            f"device_put: inside of a shard_map each device has its own part of a value, and got device {device!r}. "
            "Leave the device out, or move the value before or after the shard_map."
        )
    if not isinstance(value, Tracer):
        value._check_if_deleted()
        return to_device(value, device)
    return value if device is None else _put_traced(value, device)


def _put_traced(x: Any, device: Any) -> Any:
    source = None if staged_by() else known_device(x)
    if isinstance(device, NamedSharding) and (
        source is None or source.device_set == device.device_set or device.mesh.has_explicit or aval_of(x).explicit
    ):
        if isinstance(source, NamedSharding) and not aval_of(x).explicit and not device.mesh.has_explicit:
            x = constrain(x, source)  # whose transpose moves cotangents back
        return in_memory(constrain(x, device), space_of_kind(device.memory_kind))
    if type(device) is not MemorySpace and not staged_by():
        return device_put_p.bind(x, device=device, **({} if source is None else {"source": source}))
    return in_memory(x, space_of(device))


def device_get(x: Any) -> Any:
    """The leaves of a pytree as NumPy arrays; numbers, random keys and traced arrays are left as they are.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.device_get((jnp.arange(2), 1.0))
    (array([0, 1], dtype=int32), 1.0)
    """
    copy_to_host_async(x)
    arrays = [leaf for leaf in tree.leaves(x) if type(leaf) is Array]
    with transfer_guard.explicit("device-to-host", arrays):
        return tree.map(lambda leaf: np.asarray(leaf) if type(leaf) is Array and not is_key(leaf.aval) else leaf, x)


def copy_to_host_async(x: Any) -> Any:
    """Starts fetching every array of a pytree, and returns the pytree; reading them later is faster.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.copy_to_host_async(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    for leaf in tree.leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def live_arrays(platform: str | None = None) -> list[Array]:
    """The arrays on one device that hold its memory, those of compiled programs included.

    An array that was only made on the host, and was not needed on a device yet, is not among them.

    Args:
      platform: "cpu" or "gpu"; None for the default platform.

    Returns:
      A list of arrays, which share their memory with those that are alive.

    Raises:
      DeviceNotFound: there is no such platform.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.device_put(jnp.ones((3, 5)), xpr.devices()[0]).block_until_ready()
    >>> isinstance(xpr.live_arrays(), list)
    True
    """
    found = []
    forget_ended()
    for buffer in devices.devices(platform)[0].client.live_arrays():
        aval = ShapedArray(tuple(buffer.aval.shape), np.dtype(buffer.aval.dtype))
        device = device_of(buffer)
        if not buffer.is_deleted() and len(buffer._sharding._internal_device_list) == 1:
            found.append(Array(aval, None, buffer, device))
    return found


def block_until_ready(x: Any) -> Any:
    """Waits until every array of a pytree has been computed, and returns the pytree.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.block_until_ready([jnp.ones(2)])
    [Array([1., 1.], dtype=float32)]
    """
    if type(x) is Array:
        return x.block_until_ready()
    leaves = tree.leaves(x)
    buffers = [leaf._buffer for leaf in leaves if type(leaf) is Array and leaf._buffer is not None]
    if buffers:
        block(buffers)
    for leaf in leaves:
        if (type(leaf) is not Array or leaf._buffer is None) and hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x

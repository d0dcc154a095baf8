"""Communication between processes outside of the user's programs. All processes call these functions together."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import tree
from xpr.api.jit import jit
from xpr.api.meshes import make_array_from_process_local_data, make_array_from_single_device_arrays
from xpr.api.transfer import device_put
from xpr.backend import devices, processes
from xpr.backend.array import Array
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec
from xpr.core.avals import aval_of
from xpr.numpy.creation import asarray
from xpr.numpy.reductions import sum as total

_SHOWN = 8  # elements of a leaf, and leaves, in messages


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Gathers the values of all processes in each of them.

    Args:
      in_tree: a pytree of arrays and numbers, of the same types in all processes; or of arrays on devices of
        several processes, which each process gets as a whole.
      tiled: whether values are concatenated along their first axis, in the order of the processes, rather than
        stacked along a new one. Arrays on several processes need `tiled=True`.

    Returns:
      A pytree of NumPy arrays, of shape `(process_count(), *shape)`, or with the first axis so many times as long.

    Raises:
      ValueError: an array is on several processes, and `tiled` is false.
      ProgramMismatch: the types differ between processes.

    >>> import numpy as np, xpr
    >>> xpr.multihost_utils.process_allgather(np.ones(2, np.float32)).shape
    (1, 2)
    """
    return tree.map(lambda leaf: _gathered(leaf, tiled), in_tree)


def _gathered(leaf: Any, tiled: bool) -> np.ndarray:
    value = asarray(leaf)
    if not value.is_fully_addressable:
        if not tiled:
            raise ValueError(
                f"process_allgather: an array of type {value.aval.str_short()} is on devices of several processes, "
                "and is whole only with tiled=True."
            )
        return np.asarray(value) if value.is_fully_replicated else np.asarray(_whole(value.sharding.mesh)(value))
    local = np.asarray(value) if tiled and value.ndim else np.asarray(value)[None]
    if processes.group() is None:
        return local
    mesh = _one_device_each()
    rows = make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("process")), local)
    return np.asarray(_whole(mesh)(rows))


@functools.cache
def _one_device_each() -> Mesh:
    """The first device of each process."""
    first: dict[int, Any] = {}
    for device in devices.devices():
        first.setdefault(device.process_index, device)
    return Mesh([first[i] for i in sorted(first)], "process")


@functools.cache
def _whole(mesh: Mesh) -> Any:
    def process_allgather(x: Any) -> Any:
        return x

    return jit(process_allgather, out_shardings=NamedSharding(mesh))


@functools.cache
def _sum_of_all(mesh: Mesh) -> Any:
    def broadcast_one_to_all(rows: Any) -> Any:
        return total(rows, axis=0)

    return jit(broadcast_one_to_all, out_shardings=NamedSharding(mesh))


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Sends the values of one process to all processes.

    Args:
      in_tree: a pytree of arrays and numbers, of the same types in all processes.
      is_source: whether this is the process whose values are sent, true in exactly one; None for process 0.

    Returns:
      A pytree of NumPy arrays.

    Raises:
      ValueError: not exactly one process is the source, or the types differ.

    >>> import numpy as np, xpr
    >>> xpr.multihost_utils.broadcast_one_to_all({"seed": np.int32(7)})
    {'seed': array(7, dtype=int32)}
    """
    group = processes.group()
    values = tree.map(lambda leaf: np.asarray(asarray(leaf)), in_tree)
    if group is None:
        return values
    chosen = group.index == 0 if is_source is None else bool(is_source)
    leaves, structure = tree.flatten(values)
    types = [f"x{tree.keystr(path)}: {_type(leaf)}" for path, leaf in tree.leaves_with_path(values)]
    replies = group.exchange(group.everyone, "broadcast_one_to_all", [chosen, types])
    sources = [i for i in group.everyone if replies[i][0]]
    if len(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all: one process is the source, and is_source is true in "
            f"{processes.names(sources) if sources else 'none'}."
        )
    other = next((i for i in group.everyone if replies[i][1] != replies[sources[0]][1]), None)
    if other is not None:
        raise ValueError(
            "broadcast_one_to_all: the types differ between processes.\n"
            + _listed({i: ", ".join(replies[i][1]) for i in (sources[0], other)})
        )
    data = b"".join(leaf.tobytes() for leaf in leaves)
    words = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
    mesh = _one_device_each()
    rows = make_array_from_process_local_data(
        NamedSharding(mesh, PartitionSpec("process")), (words if chosen else np.zeros_like(words))[None]
    )
    received = np.asarray(_sum_of_all(mesh)(rows)).tobytes()
    results, start = [], 0
    for leaf in leaves:
        end = start + leaf.nbytes
        results.append(np.frombuffer(received[start:end], leaf.dtype).reshape(leaf.shape))
        start = end
    return tree.unflatten(structure, results)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays on the devices of all processes, from the part of each that this process has.

    Args:
      local_inputs: a pytree of arrays; those that are on devices of several processes are returned as they are.
      global_mesh: the mesh; the devices of a process fill a grid in it.
      pspecs: a `PartitionSpec` for each, over the mesh, or a prefix of the pytree of these.

    Returns:
      A pytree of arrays, along the axes of the mesh so many times as large as it has more devices than the process.

    Raises:
      ValueError: a spec is None, or the parts of the process fill no grid.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import PartitionSpec as P
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> xpr.multihost_utils.host_local_array_to_global_array(np.arange(3), mesh, P("x")).sharding
    NamedSharding(mesh=Mesh('x': 1), spec=P('x',))
    """
    return _by_specs("host_local_array_to_global_array", local_inputs, global_mesh, pspecs, _to_global)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of arrays on the devices of all processes that this process has, as arrays on its devices.

    Args:
      global_inputs: a pytree of arrays; those that are on devices of this process alone are returned as they are.
      global_mesh: the mesh; the devices of a process fill a grid in it.
      pspecs: a `PartitionSpec` for each, over the mesh, or a prefix of the pytree of these.

    Returns:
      A pytree of arrays over the process's part of the mesh, `global_mesh.local_mesh`.

    Raises:
      ValueError: a spec is None, or the parts of the process fill no grid.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import PartitionSpec as P
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> xpr.multihost_utils.global_array_to_host_local_array(np.arange(3), mesh, P("x"))
    Array([0, 1, 2], dtype=int32)
    """
    return _by_specs("global_array_to_host_local_array", global_inputs, global_mesh, pspecs, _to_local)


def _by_specs(function: str, inputs: Any, mesh: Mesh, pspecs: Any, convert: Callable[[Any, NamedSharding], Any]) -> Any:
    leaves, structure = tree.flatten(inputs)
    specs = tree.flatten_prefix(pspecs, structure, "pspecs", lambda x: isinstance(x, PartitionSpec), function)
    if None in specs:
        raise ValueError(f"{function}: pspecs has None for an array; one that is replicated has PartitionSpec().")
    return tree.unflatten(structure, [convert(asarray(x), NamedSharding(mesh, spec)) for x, spec in zip(leaves, specs)])


def _to_global(x: Any, sharding: NamedSharding) -> Any:
    return make_array_from_process_local_data(sharding, x) if x.is_fully_addressable else x


def _to_local(x: Any, sharding: NamedSharding) -> Any:
    if x.is_fully_addressable:
        return x
    parts = {shard.device: shard.data for shard in device_put(x, sharding).addressable_shards}
    local = NamedSharding(sharding.mesh.local_mesh, sharding.spec)
    sizes = [n * count for n, count in zip(next(iter(parts.values())).shape, local.shard_counts(x.ndim))]
    return make_array_from_single_device_arrays(sizes, local, [parts[device] for device in local.devices])


def sync_global_devices(name: str) -> None:
    """Waits until all processes have called it with the same name.

    Args:
      name: of the point.

    Returns:
      None.

    Raises:
      ProgramMismatch: another process called it with another name.
      ProcessLost: one has ended.

    >>> import xpr
    >>> xpr.multihost_utils.sync_global_devices("before the checkpoint")
    """
    group = processes.group()
    if group is not None:
        group.exchange(group.everyone, f"sync_global_devices({name!r})", None)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether this is the step at which all processes save what they have, since one of them is to be ended.

    A scheduler says so by SIGTERM. The process that gets it tells the others, and all agree on the next step that none
    of them has begun. So all call this at every step, from the same one on. The first call has SIGTERM be such a
    notice, after which it does not end the process any more.

    Args:
      step_id: the number of the step that is about to begin.

    Returns:
      True at the step that was agreed on; False at all others, and where there is one process.

    >>> import xpr
    >>> xpr.multihost_utils.reached_preemption_sync_point(3)
    False
    """
    group = processes.group()
    return group is not None and group.reached_sync_point(step_id)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raises an error if processes hold different values.

    Values are compared bit by bit.

    Args:
      in_tree: a pytree of arrays and numbers.
      fail_message: begins the message.

    Returns:
      None.

    Raises:
      AssertionError: the message names the leaves by their paths, and the processes that differ from process 0.

    >>> import numpy as np, xpr
    >>> xpr.multihost_utils.assert_equal({"seed": 7})
    """
    group = processes.group()
    if group is None:
        return
    mine = {f"x{tree.keystr(path)}": _digest(leaf) for path, leaf in tree.leaves_with_path(in_tree)}
    replies = group.exchange(group.everyone, "assert_equal", mine)
    lines = []
    for path in dict.fromkeys(path for each in replies.values() for path in each):
        different = [i for i in group.everyone if replies[i].get(path, [""])[0] != replies[0].get(path, [""])[0]]
        if different:
            shown = {i: replies[i][path][1] if path in replies[i] else "not there" for i in (0, *different)}
            lines.append(f"  {path} differs in {processes.names(different)}\n{_listed(shown, 4)}")
    if lines:
        more = f"\n  and {len(lines) - _SHOWN} leaves more" if len(lines) > _SHOWN else ""
        start = f"{fail_message}\n" if fail_message else ""
        raise AssertionError(
            f"{start}assert_equal: the processes have different values.\n" + "\n".join(lines[:_SHOWN]) + more
        )


def _digest(leaf: Any) -> list[str]:
    """The hash by which values are compared, and how messages show them."""
    value = asarray(leaf)
    if isinstance(value, Array) and not (value.is_fully_addressable or value.is_fully_replicated):
        return [_type(value), f"{_type(value)} on several processes"]
    host = np.asarray(value)
    shown = f"{_type(host)} {host.tolist()}" if host.size <= _SHOWN else _type(host)
    return [f"{_type(host)} {hashlib.blake2b(host.tobytes(), digest_size=16).hexdigest()}", shown]


def _type(value: Any) -> str:
    return aval_of(value).str_short()


def _listed(shown: dict[int, str], indent: int = 2) -> str:
    return "\n".join(f"{' ' * indent}process {i}  {text}" for i, text in shown.items())

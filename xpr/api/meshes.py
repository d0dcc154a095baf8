"""Meshes of the devices that are there, and arrays made part by part on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import devices as platforms
from xpr.backend.array import Array
from xpr.backend.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.backend.shards import assemble, check_here, sharded_handler, shards_of
from xpr.core.avals import ShapedArray, aval_of
from xpr.numpy.creation import asarray, requested_dtype


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Any,
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the devices that are there.

    Args:
      axis_shapes: the size of each axis.
      axis_names: the name of each axis; one name for a single axis.
      axis_types: an `AxisType` for each axis; all are `Auto` in what they do.
      devices: those to use, in order; all of the default platform if not given, of which the first ones are taken.
    Raises:
      ValueError: there are not enough devices, or the numbers of sizes and names differ.

    >>> import xpr
    >>> xpr.make_mesh((1, 1), ("x", "y"))
    Mesh('x': 1, 'y': 1)
    """
    found = list(platforms.devices() if devices is None else devices)
    number = math.prod(axis_shapes)
    if number > len(found):
        more = (
            f" On CPU, set their number before first use: config.update('num_cpu_devices', {number}), or "
            f"XPR_NUM_CPU_DEVICES={number}."
            if devices is None and found[0].platform == "cpu"
            else ""
        )
        raise ValueError(
            f"make_mesh: a mesh of shape {tuple(axis_shapes)} has {number} devices, and there "
            f"{'is' if len(found) == 1 else 'are'} {len(found)}.{more}"
        )
    grid = np.empty(number, object)
    grid[:] = found[:number]
    return Mesh(grid.reshape(tuple(axis_shapes)), axis_names, axis_types)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: NamedSharding | SingleDeviceSharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    *,
    dtype: Any = None,
) -> Array:
    """An array on several devices whose parts a function makes; each process makes those of its own devices.

    Args:
      shape: of the whole array.
      sharding: how it lies.
      data_callback: gives the part at an index, which is a tuple of slices; called once for each different part.
      dtype: of the array; that of the first part if not given.
    Raises:
      ValueError: the shape can't be cut so, a part has another shape than its index, or no device is this process's.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_callback((3,), rows, lambda index: np.arange(3.0)[index])
    Array([0., 1., 2.], dtype=float32)
    """
    whole = tuple(shape)
    if isinstance(sharding, NamedSharding):
        sharding.check(whole, "make_array_from_callback", "an array")
        check_here(sharding)
    wanted = sharding.shard_shape(whole)
    made: dict[str, np.ndarray] = {}
    indices = [sharding.indices(whole)[i] for i in sharding.local]
    for index in indices:
        if str(index) not in made:
            made[str(index)] = _part(data_callback(index), index, wanted, dtype)
    parts = [made[str(index)] for index in indices]
    aval = ShapedArray(whole, parts[0].dtype)
    return _of_parts(aval, parts, sharding)


def _of_parts(aval: ShapedArray, parts: Sequence[np.ndarray], sharding: NamedSharding | SingleDeviceSharding) -> Array:
    if isinstance(sharding, SingleDeviceSharding):
        return Array(aval, parts[0], None, sharding.device)
    return Array(aval, None, assemble(parts, aval, sharding), sharding)


def _part(value: Any, index: tuple[slice, ...], wanted: tuple[int, ...], dtype: Any) -> np.ndarray:
    part = np.array(asarray(value, None if dtype is None else requested_dtype(dtype)))
    if part.shape != wanted:
        raise ValueError(f"make_array_from_callback: the part at {index} has shape {part.shape} and not {wanted}.")
    return part


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: NamedSharding | SingleDeviceSharding,
    arrays: Sequence[Any],
    *,
    dtype: Any = None,
) -> Array:
    """An array on several devices, or on one, of the parts that lie on each.

    Args:
      shape: of the whole array.
      sharding: how it lies.
      arrays: the part for each device of this process, in the order of the sharding's devices.
      dtype: of the array; that of the parts if not given.
    Raises:
      ValueError: the number or the shapes of the parts are not those of the sharding.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_single_device_arrays((2,), rows, [jnp.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    whole, wanted = tuple(shape), sharding.shard_shape(tuple(shape))
    shapes = [aval_of(x).shape for x in arrays]
    if shapes != [wanted] * len(sharding.local):
        raise ValueError(
            f"make_array_from_single_device_arrays: {len(sharding.local)} parts of shape {wanted} are needed, and "
            f"the shapes given are {shapes}."
        )
    parts = [np.asarray(asarray(x, dtype)) for x in arrays]
    return _of_parts(ShapedArray(whole, parts[0].dtype), parts, sharding)


def make_array_from_process_local_data(
    sharding: NamedSharding | SingleDeviceSharding, local_data: Any, global_shape: Sequence[int | None] | None = None
) -> Array:
    """An array on the devices of several processes, of the part that each has: a batch of which each loads some.

    Args:
      sharding: how the whole lies.
      local_data: what the devices of this process are to hold, put together; along an axis it may also be the whole.
      global_shape: of the whole; if not given, or None for an axis, it is as many times as long as `local_data` as the
        devices of all processes hold parts for each that those of this process hold.
    Raises:
      ValueError: `local_data` is neither the part of this process nor the whole along an axis.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_process_local_data(rows, np.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    data = np.array(asarray(local_data))
    if isinstance(sharding, SingleDeviceSharding):
        if global_shape is not None and tuple(global_shape) != data.shape:
            raise ValueError(
                f"make_array_from_process_local_data: global_shape={tuple(global_shape)}, of which {sharding.device} "
                f"is to have all, and local_data has shape {data.shape}."
            )
        return _of_parts(ShapedArray(data.shape, data.dtype), [data], sharding)
    check_here(sharding)
    ndim, cuts = data.ndim, sharding.cuts(data.ndim)
    here = sharding.places(ndim)[list(sharding.local)]
    mine = [np.unique(here[:, axis]).tolist() for axis in range(ndim)]  # which parts, along each axis
    asked = [None] * ndim if global_shape is None else list(global_shape)
    if len(asked) != ndim:
        raise ValueError(
            f"make_array_from_process_local_data: global_shape={tuple(asked)} has {len(asked)} axes, and local_data "
            f"{ndim}: its shape is {data.shape}."
        )
    whole = tuple([
        n * count // len(parts) if size is None else size
        for n, count, parts, size in zip(data.shape, cuts, mine, asked)
    ])  # fmt: skip
    sharding.check(whole, "make_array_from_process_local_data", "an array")
    part = sharding.shard_shape(whole)
    expected = tuple([len(parts) * n for parts, n in zip(mine, part)])
    if any(n not in sizes for n, *sizes in zip(data.shape, expected, whole)):
        raise ValueError(
            f"make_array_from_process_local_data: local_data has shape {data.shape}, and of an array of shape {whole}, "
            f"cut by {sharding.spec!r} over {sharding.mesh!r}, the devices of this process hold {expected}. Give that, "
            "or the whole along an axis."
        )

    def part_at(place: Sequence[int]) -> np.ndarray:
        starts = [
            (number if have == size else parts.index(number)) * n
            for number, have, size, parts, n in zip(place, data.shape, whole, mine, part)
        ]
        return data[tuple([slice(start, start + n) for start, n in zip(starts, part)])]

    aval = ShapedArray(whole, data.dtype)
    return Array(aval, None, assemble([part_at(place) for place in here.tolist()], aval, sharding), sharding)


def joined(local: Any, sharding: NamedSharding) -> Array:
    """An array on devices of several processes, of the parts that this process has; on its devices, where they are."""
    mine = NamedSharding(sharding.mesh.local_mesh, sharding.spec)
    if type(local) is not Array or local._device != mine:
        return make_array_from_process_local_data(sharding, local)
    aval = local.aval
    cuts, parts = sharding.cuts(aval.ndim), mine.cuts(aval.ndim)
    aval = aval.update(shape=tuple([n * count // part for n, count, part in zip(aval.shape, cuts, parts)]))
    return Array(aval, None, sharded_handler(aval, sharding)(shards_of(local.buffer)), sharding)


def own_part(x: Array) -> Array:
    """What the devices of this process hold of an array, put together, as an array on them alone."""
    place, aval = x._device, x.aval
    mine = NamedSharding(place.mesh.local_mesh, place.spec)
    cuts, parts = place.cuts(aval.ndim), mine.cuts(aval.ndim)
    aval = aval.update(shape=tuple([n * part // count for n, count, part in zip(aval.shape, cuts, parts)]))
    return Array(aval, None, sharded_handler(aval, mine)(shards_of(x.buffer)), mine)

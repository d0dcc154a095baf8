"""Meshes of the available devices, and arrays built on them from one part for each device."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.api.transfer import devices_or_shardings
from xpr.backend import devices as platforms
from xpr.backend.array import Array
from xpr.backend.layout import Layout
from xpr.backend.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding, typed
from xpr.backend.shards import assemble, check_has_local_devices
from xpr.compile.relayout import relaid
from xpr.control.devices.sharding_constraint import layouts_of, without_layouts
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import Tracer
from xpr.errors import ArgumentError, UnexpectedTracerError
from xpr.numpy.creation import array, asarray, on_no_device, requested_dtype


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Any,
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the available devices.

    Args:
      axis_shapes: the size of each axis.
      axis_names: the name of each axis; one name for a single axis.
      axis_types: an `AxisType` for each axis; None for `Auto` axes.
      devices: the devices, in order; None for the first ones of the default platform.

    Returns:
      A `Mesh`.

    Raises:
      ValueError: there are not enough devices, the numbers of sizes and names differ, or a size is no integer.

    >>> import xpr
    >>> xpr.make_mesh((1, 1), ("x", "y"))
    Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Auto, Auto))
    """
    try:
        axis_shapes = tuple(map(operator.index, axis_shapes))
    except TypeError:
        raise ValueError(
            f"`axis_shapes` passed to `make_mesh` should be a sequence of ints, one for each axis: {axis_shapes!r}."
        ) from None
    available = list(platforms.devices() if devices is None else devices)
    number = math.prod(axis_shapes)
    if number > len(available):
        more = (
            f" On CPU, set their number before first use: config.update('num_cpu_devices', {number}), or "
            f"XPR_NUM_CPU_DEVICES={number}."
            if devices is None and available[0].platform == "cpu"
            else ""
        )
        raise ValueError(
            f"make_mesh: a mesh of shape {axis_shapes} has {number} devices, and there "
            f"{'is' if len(available) == 1 else 'are'} {len(available)}.{more}"
        )
    grid = np.empty(number, object)
    grid[:] = available[:number]
    return Mesh(grid.reshape(axis_shapes), axis_names, axis_types)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: NamedSharding | SingleDeviceSharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> Array:
    """An array on several devices whose parts are the results of a function.

    Each process calls it for the parts on its own devices.

    Args:
      shape: the shape of the whole array.
      sharding: the sharding of the array, or a `Format`.
      data_callback: a function from the index of a part, a tuple of slices, to the part; called once for each different
        part.
      dtype: of the array; None for that of the first part.

    Returns:
      An array.

    Raises:
      TypeError: `sharding` is none, or leaves the layout to a compiler.
      UnexpectedTracerError: a part is traced.
      ValueError: the sharding doesn't fit the shape, a part has another shape than its index, or no device is this
        process's.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_callback((3,), rows, lambda index: np.arange(3.0)[index])
    Array([0., 1., 2.], dtype=float32)
    """
    whole, layout, sharding = tuple(shape), layouts_of(sharding), without_layouts(sharding)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "make_array_from_callback: sharding should be an instance of `jax.sharding`, such as a NamedSharding, or a "
            f"Format with one: {describe(sharding)} was given."
        )
    if layout is Layout.AUTO:
        raise TypeError(
            "make_array_from_callback: `Layout.AUTO` cannot be used in place of a device-local layout, for there is no "
            "program whose compiler could choose one. Give a Layout, or leave it out."
        )
    if isinstance(sharding, NamedSharding):
        sharding.check(whole, "make_array_from_callback", "an array")
        check_has_local_devices(sharding)
    shard_shape = sharding.shard_shape(whole)
    values: dict[str, Array] = {}
    indices = [sharding.indices(whole)[i] for i in sharding.local]
    for index in indices:
        if str(index) not in values:
            values[str(index)] = _part(data_callback(index), index, shard_shape, dtype)
    made = _of_parts(whole, [values[str(index)] for index in indices], sharding)
    return relaid(made, layout, "make_array_from_callback", "the array")


def _of_parts(shape: tuple[int, ...], arrays: Sequence[Array], sharding: NamedSharding | SingleDeviceSharding) -> Array:
    aval, parts = ShapedArray(shape, arrays[0].aval.dtype), [np.asarray(x.host) for x in arrays]
    if isinstance(sharding, SingleDeviceSharding):
        return Array(aval, parts[0], None, sharding.device)
    return Array(typed(aval, sharding), None, assemble(parts, aval, sharding), sharding)


def _part(value: Any, index: tuple[slice, ...], shard_shape: tuple[int, ...], dtype: Any) -> Array:
    if isinstance(value, Tracer):
        raise UnexpectedTracerError(
            "jax.make_array_from_callback cannot be called within a traced context, with traced parts: that at "
            f"{index} is of type {value.aval.str_short()}, and on no device. Call it outside of transformed functions, "
            "or shard a traced array by device_put or lax.with_sharding_constraint."
        )
    part = on_no_device(value) if dtype is None else array(value, requested_dtype(dtype))
    if part.aval.shape != shard_shape:
        raise ValueError(
            f"make_array_from_callback: Expected shard shape {shard_shape} doesn't match the single device array shape "
            f"{part.aval.shape}: that of the part at {index}."
        )
    return part


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: NamedSharding | SingleDeviceSharding,
    arrays: Sequence[Any],
    *,
    dtype: Any = None,
) -> Array:
    """An array on one or several devices, from the part on each of them.

    Args:
      shape: the shape of the whole array.
      sharding: the sharding of the array.
      arrays: the part for each device of this process. Those that were put on a device are that one's part, in any
        order; the others follow the order of the sharding's devices.
      dtype: of the array; None for that of the parts.

    Returns:
      An array.

    Raises:
      TypeError: `arrays` is no list, or `sharding` is none.
      ValueError: the number or the shapes of the parts are not those of the sharding, their dtype is not `dtype`, two
        are on one device or one on a device that the sharding hasn't, or a part is traced.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_single_device_arrays((2,), rows, [jnp.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(
            "jax.make_array_from_single_device_arrays `arrays` argument must be a list of the part for each device, "
            f"and {describe(arrays)} was given."
        )
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "make_array_from_single_device_arrays: sharding should be an instance of `jax.sharding`, such as a "
            f"NamedSharding: {describe(sharding)} was given."
        )
    traced = next((x for x in arrays if isinstance(x, Tracer)), None)
    if traced is not None:
        raise ArgumentError(
            "jax.make_array_from_single_device_arrays requires a list of concrete arrays, and a part is a traced array "
            f"of type {traced.aval.str_short()}, which is on no device. Call it outside of transformed functions."
        )
    for number, x in enumerate(arrays):
        if type(x) is Array and (count := x.sharding.num_devices) > 1:
            raise ValueError(
                f"make_array_from_single_device_arrays: arrays must have one shard each, and that at {number} has "
                f"{count}, with {x.sharding}. Pass its x.addressable_shards."
            )
    whole, shard_shape = tuple(shape), sharding.shard_shape(tuple(shape))
    shapes = [aval_of(x).shape for x in arrays]
    if shapes != [shard_shape] * len(sharding.local):
        raise ValueError(
            f"make_array_from_single_device_arrays: {len(sharding.local)} parts of shape {shard_shape} are needed, and "
            f"the shapes given are {shapes}."
        )
    parts = list(map(asarray, arrays))
    found = parts[0].aval.dtype if parts else None
    if dtype is not None and found is not None and found != requested_dtype(dtype):
        raise ValueError(
            f"make_array_from_single_device_arrays: the parts have dtype {found}, and dtype={np.dtype(dtype).name} is "
            "asked for. Convert them, or leave dtype out."
        )
    return _of_parts(whole, _in_order(parts, sharding), sharding)


def _in_order(parts: Sequence[Array], sharding: NamedSharding | SingleDeviceSharding) -> list[Array]:
    """The parts in the order of this process's devices: those that were put on one there, the others as they come.

    Raises:
      ValueError: two parts are on one device, or one is on a device that the sharding hasn't.
    """
    function, advice = "make_array_from_single_device_arrays", "Put each part on its device, by xpr.device_put."
    order = [sharding.devices[i] for i in sharding.local]
    devices = [next(iter(x.devices())) if x.committed else None for x in parts]
    of_device = {device: x for device, x in zip(devices, parts) if device is not None}
    ids = [device.id for device in devices if device is not None]
    if len(of_device) < len(ids):
        raise ValueError(f"{function}: parts must be from distinct devices, but got device IDs {ids}. {advice}")
    if others := of_device.keys() - set(order):
        raise ValueError(
            f"{function}: Addressable devices and per-device arrays devices do not match. The sharding has device IDs "
            f"{[device.id for device in order]}, and there are parts on {sorted(each.id for each in others)}. {advice}"
        )
    unplaced = iter([x for x, device in zip(parts, devices) if device is None])
    return [of_device[device] if device in of_device else next(unplaced) for device in order]


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """An array on the devices of several processes, from the part that each process has, such as its part of a batch.

    Args:
      sharding: the sharding of the whole array; a device; or a `PartitionSpec` over the current mesh. Of a pytree also
        a prefix of it of those.
      local_data: the parts of this process's devices together; along an axis it may also be the whole. A pytree of
        arrays makes one of arrays.
      global_shape: the shape of the whole array, of a pytree a prefix of it of shapes; None, or None for an axis, to
        compute it from `local_data` and the sharding.

    Returns:
      An array, or a pytree of arrays.

    Raises:
      ValueError: `local_data` is neither the part of this process nor the whole along an axis, or a prefix doesn't fit.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_process_local_data(rows, np.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    function = "make_array_from_process_local_data"
    leaves, structure = tree.flatten(local_data)
    shardings = devices_or_shardings(sharding, structure, function, "sharding")
    shapes = tree.flatten_prefix(global_shape, structure, "global_shape", _is_shape, function)
    return tree.unflatten(structure, list(map(_from_local_data, shardings, leaves, shapes)))


def _is_shape(x: Any) -> bool:
    return x is None or (isinstance(x, (tuple, list)) and all(n is None or isinstance(n, (int, np.integer)) for n in x))


def _from_local_data(sharding: Any, local_data: Any, global_shape: Sequence[int | None] | None) -> Array:
    if not isinstance(sharding, Sharding):
        sharding = SingleDeviceSharding(platforms.default_device() if sharding is None else sharding)
    local = on_no_device(local_data)
    data, shape = np.asarray(local.host), local.aval.shape
    if isinstance(sharding, SingleDeviceSharding):
        if global_shape is not None and tuple(global_shape) != shape:
            raise ValueError(
                f"make_array_from_process_local_data: global_shape={tuple(global_shape)}, of which {sharding.device} "
                f"is to have all, and local_data has shape {shape}."
            )
        return _of_parts(shape, [local], sharding)
    whole, local_parts = _global_shape(sharding, shape, global_shape)
    part = sharding.shard_shape(whole)

    def part_at(numbers: Sequence[int]) -> np.ndarray:
        starts = [
            (number if local_size == size else parts.index(number)) * n
            for number, local_size, size, parts, n in zip(numbers, shape, whole, local_parts, part)
        ]
        return data[tuple([slice(start, start + n) for start, n in zip(starts, part)])]

    aval = ShapedArray(whole, local.aval.dtype)
    numbers = sharding.part_numbers(aval.ndim)[list(sharding.local)].tolist()
    return Array(typed(aval, sharding), None, assemble(list(map(part_at, numbers)), aval, sharding), sharding)


def _global_shape(
    sharding: NamedSharding, shape: tuple[int, ...], global_shape: Sequence[int | None] | None
) -> tuple[tuple[int, ...], list[list[int]]]:
    """The shape of the whole array, from that of this process's data; and which parts the data has along each axis.

    Raises:
      ValueError: the data has neither the size of this process's parts nor the whole along an axis, the numbers of axes
        differ, the whole can't be sharded so, or no device is this process's.
    """
    check_has_local_devices(sharding)
    ndim, counts = len(shape), sharding.shard_counts(len(shape))
    local_numbers = sharding.part_numbers(ndim)[list(sharding.local)]
    local_parts = [np.unique(local_numbers[:, axis]).tolist() for axis in range(ndim)]
    global_sizes = [None] * ndim if global_shape is None else list(global_shape)
    if len(global_sizes) != ndim:
        raise ValueError(
            f"make_array_from_process_local_data: global_shape={tuple(global_sizes)} has "
            f"{len(global_sizes)} axes, and local_data "
            f"{ndim}: its shape is {shape}."
        )
    whole = tuple([
        n * count // len(parts) if size is None else size
        for n, count, parts, size in zip(shape, counts, local_parts, global_sizes)
    ])  # fmt: skip
    sharding.check(whole, "make_array_from_process_local_data", "an array")
    expected = tuple([len(parts) * n for parts, n in zip(local_parts, sharding.shard_shape(whole))])
    if any(n not in sizes for n, *sizes in zip(shape, expected, whole)):
        raise ValueError(
            f"make_array_from_process_local_data: local_data has shape {shape}, and of an array of shape {whole}, "
            f"sharded by {sharding.spec!r} over {sharding.mesh.text}, the devices of this process hold {expected}. "
            "Give that, or the whole along an axis."
        )
    return whole, local_parts

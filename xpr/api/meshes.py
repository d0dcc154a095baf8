"""Meshes of the devices that are there, and arrays made part by part on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import devices as platforms
from xpr.backend.array import Array
from xpr.backend.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.backend.shards import assemble
from xpr.core.avals import ShapedArray, aval_of
from xpr.numpy.creation import asarray, requested_dtype


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Any], *, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of the devices that are there.

    Args:
      axis_shapes: the size of each axis.
      axis_names: the name of each axis.
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
    return Mesh(grid.reshape(tuple(axis_shapes)), tuple(axis_names))


def make_array_from_callback(
    shape: Sequence[int],
    sharding: NamedSharding | SingleDeviceSharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    *,
    dtype: Any = None,
) -> Array:
    """An array on several devices whose parts a function makes.

    Args:
      shape: of the whole array.
      sharding: how it lies.
      data_callback: gives the part at an index, which is a tuple of slices; called once for each different part.
      dtype: of the array; that of the first part if not given.
    Raises:
      ValueError: the shape can't be cut so, or a part has another shape than its index.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.make_array_from_callback((3,), rows, lambda index: np.arange(3.0)[index])
    Array([0., 1., 2.], dtype=float32)
    """
    whole = tuple(shape)
    wanted = sharding.shard_shape(whole)
    made: dict[str, np.ndarray] = {}
    for index in sharding.indices(whole):
        if str(index) not in made:
            made[str(index)] = _part(data_callback(index), index, wanted, dtype)
    parts = [made[str(index)] for index in sharding.indices(whole)]
    aval = ShapedArray(whole, parts[0].dtype)
    if isinstance(sharding, SingleDeviceSharding):
        return Array(aval, parts[0], None, sharding.device)
    return Array(aval, None, assemble(parts, aval, sharding), sharding)


def _part(value: Any, index: tuple[slice, ...], wanted: tuple[int, ...], dtype: Any) -> np.ndarray:
    part = np.array(asarray(value, None if dtype is None else requested_dtype(dtype)))
    if part.shape != wanted:
        raise ValueError(f"make_array_from_callback: the part at {index} has shape {part.shape} and not {wanted}.")
    return part


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: NamedSharding, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """An array on several devices of the parts that lie on each.

    Args:
      shape: of the whole array.
      sharding: how it lies.
      arrays: the part for each device, in the order of the sharding's devices.
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
    if shapes != [wanted] * len(sharding.devices):
        raise ValueError(
            f"make_array_from_single_device_arrays: {len(sharding.devices)} parts of shape {wanted} are needed, and "
            f"the shapes given are {shapes}."
        )
    parts = [np.asarray(asarray(x, dtype)) for x in arrays]
    aval = ShapedArray(whole, parts[0].dtype)
    return Array(aval, None, assemble(parts, aval, sharding), sharding)

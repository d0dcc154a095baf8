"""Moving pytrees of arrays between devices and the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend import compiler
from xpr.backend.array import Array
from xpr.backend.devices import Device
from xpr.backend.sharding import NamedSharding, Sharding, SingleDeviceSharding
from xpr.control.sharding_constraint import constrain
from xpr.core.interpreter import Tracer
from xpr.numpy.creation import asarray, placed


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The leaves of a pytree as arrays on a device.

    Args:
      x: a pytree of arrays, NumPy arrays and numbers; what is traced is left as it is.
      device: a device or a sharding, or a pytree prefix of `x` of those and None; None for the default device, to which
        nothing is then bound. What is traced is constrained to lie as a `NamedSharding` says.
      src: where `x` is now; not needed.
      donate: whether the arrays given may be used up; makes no difference here.
      may_alias: whether results may share memory with the arrays given; those on the right device are given back.
    Returns:
      a pytree like `x`.
    Raises:
      TypeError: a leaf is no array and no number, or `device` is no device.
      ValueError: an axis can't be cut into equal parts; the message names the array and the spec.

    >>> import numpy as np, xpr
    >>> xpr.device_put({"w": np.ones(2, np.float32)}, xpr.devices()[0])
    {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, structure = tree.flatten(x)
    if device is None or _is_place(device):
        where = [device] * len(leaves)
    else:
        where = tree.flatten_prefix(device, structure, "device", is_leaf=lambda d: d is None or _is_place(d))
    if any(isinstance(d, NamedSharding) for d in where):
        _check_cuts(x, where)
    return tree.unflatten(structure, [_put(leaf, d) for leaf, d in zip(leaves, where)])


def _is_place(x: Any) -> bool:
    return isinstance(x, Sharding) or (hasattr(x, "platform") and hasattr(x, "client"))


def _check_cuts(x: Any, where: Sequence[Any]) -> None:
    for (path, leaf), sharding in zip(tree.leaves_with_path(x), where):
        if isinstance(sharding, NamedSharding):
            sharding.check(np.shape(leaf), "device_put", f"x{tree.keystr(path)}")


def _put(leaf: Any, device: Device | Sharding | None) -> Any:
    if device is not None and not _is_place(device):
        raise TypeError(f"device_put: {device!r} is not a device and no sharding. Devices are listed by xpr.devices().")
    value = asarray(leaf)
    if isinstance(device, SingleDeviceSharding):
        device = device.device
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
    return tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, (Array, Tracer)) else leaf, x)


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

"""Moving pytrees of arrays between devices and the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import tree
from xpr.backend import compiler
from xpr.backend.array import Array
from xpr.backend.devices import Device
from xpr.core.interpreter import Tracer
from xpr.numpy.creation import asarray, placed


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The leaves of a pytree as arrays on a device.

    Args:
      x: a pytree of arrays, NumPy arrays and numbers; what is traced is left as it is.
      device: a device, or a pytree prefix of `x` of devices and None; None for the default device, to which nothing
        is then bound.
      src: where `x` is now; not needed.
      donate: whether the arrays given may be used up; makes no difference here.
      may_alias: whether results may share memory with the arrays given; those on the right device are given back.
    Returns:
      a pytree like `x`.
    Raises:
      TypeError: a leaf is no array and no number, or `device` is no device.

    >>> import numpy as np, xpr
    >>> xpr.device_put({"w": np.ones(2, np.float32)}, xpr.devices()[0])
    {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, structure = tree.flatten(x)
    if device is None or _is_device(device):
        where = [device] * len(leaves)
    else:
        where = tree.flatten_prefix(device, structure, "device", is_leaf=lambda d: d is None or _is_device(d))
    return tree.unflatten(structure, [_put(leaf, d) for leaf, d in zip(leaves, where)])


def _is_device(x: Any) -> bool:
    return hasattr(x, "platform") and hasattr(x, "client")


def _put(leaf: Any, device: Device | None) -> Any:
    if device is not None and not _is_device(device):
        raise TypeError(f"device_put: {device!r} is not a device. Devices are listed by xpr.devices().")
    value = asarray(leaf)
    return value if isinstance(value, Tracer) else placed(value, device)


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

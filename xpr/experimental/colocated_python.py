"""Python functions run on the host of the devices of their arguments: `jax.experimental.colocated_python`.

Here they run in this process, whose devices are all on its host; those of other processes are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.devices import devices, process_index
from xpr.backend.mesh import Mesh

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of devices.

    Args:
      devices_or_mesh: a sequence of devices, or a `Mesh`.

    Returns:
      A list with a CPU device for each device; or a mesh of them with the same axes.

    Raises:
      ValueError: a process has fewer CPU devices than there are devices of it.

    >>> import xpr
    >>> from xpr.experimental.colocated_python import colocated_cpu_devices
    >>> [d.platform for d in colocated_cpu_devices(xpr.devices("cpu"))]
    ['cpu']
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        flat = colocated_cpu_devices(mesh.devices.flat)
        return Mesh(np.array(flat, object).reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    given = tuple(devices_or_mesh)
    if all(device.platform == "cpu" for device in given):
        return list(given)
    remaining: dict[int, list[Any]] = {}
    for device in devices("cpu"):
        remaining.setdefault(device.process_index, []).append(device)
    for device in given:
        if len(remaining.get(device.process_index, ())) < sum(d.process_index == device.process_index for d in given):
            raise ValueError(f"colocated_cpu_devices: process {device.process_index} has too few CPU devices.")
    return [remaining[device.process_index].pop(0) for device in given]


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on the host of the devices of its arguments.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.

    Returns:
      A function with a method `specialize`, which takes `devices`, where to run if there are no arguments, and promises
      about arguments and results (`in_specs`, `out_specs_fn`, `out_specs_treedef`, `out_specs_leaves`), and returns
      such a function.

    Raises:
      NotImplementedError: when called, a device is of another process.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.colocated_python import colocated_python
    >>> colocated_python(lambda x: x + 1)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    return _specialized(fun, ())


def _specialized(fun: Callable[..., Any], where: Sequence[Any]) -> Callable[..., Any]:
    @functools.wraps(fun)
    def on_host(*args: Any, **kwargs: Any) -> Any:
        used = {d for x in tree.leaves((args, kwargs)) if type(x) is Array for d in x.devices()}
        far = {device for device in used | set(where) if device.process_index != process_index()}
        if far:
            raise NotImplementedError(f"colocated_python: {fun.__name__} would run on other hosts, those of {far}.")
        return fun(*args, **kwargs)

    def specialize(*, devices: Sequence[Any] | None = None, **promises: Any) -> Callable[..., Any]:
        return _specialized(fun, where if devices is None else tuple(devices))

    on_host.specialize = specialize  # type: ignore[attr-defined]  # as in JAX
    return on_host


def colocated_python_class(cls: type) -> type:
    """A class whose methods run on the host of the devices of their arguments: here, the class itself.

    Args:
      cls: any class.
    """
    return cls

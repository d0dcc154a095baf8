"""Python functions, and what they hold, as bytes: cloudpickle's, in which devices have their names.

Functions that can be imported are written by name, others whole, with the values of the variables that they read. As in
JAX, arrays lose the device that they are on, and of devices, meshes and shardings those of CPUs can be written.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xpr.backend.device_class import Device
from xpr.backend.mesh import Mesh, devices_of_names, names_of_devices
from xpr.backend.sharding import SingleDeviceSharding

try:
    import cloudpickle
except ImportError:
    cloudpickle = None


def serialize(obj: Any) -> bytes:
    """A function, or anything else, as bytes.

    Args:
      obj: the object.

    Returns:
      Bytes, for `deserialize` with the same version of Python and of cloudpickle.

    Raises:
      ModuleNotFoundError: cloudpickle is not installed.
      TypeError: something in it can't be written, such as a lock or a file.
      ValueError: a device in it is none of a CPU.

    >>> from xpr.experimental.colocated_python import serialization
    >>> serialization.deserialize(serialization.serialize(lambda x: x + 1))(2)
    3
    """
    _check_installed()
    file = io.BytesIO()
    _Pickler(file).dump(obj)
    return file.getvalue()


def deserialize(serialized: bytes) -> Any:
    """A copy of what `serialize` wrote.

    Args:
      serialized: its bytes. They are trusted: reading them runs what they say.

    Returns:
      The object.

    Raises:
      ModuleNotFoundError: cloudpickle is not installed.
      DeviceNotFound: a device is not there.
    """
    _check_installed()
    return pickle.loads(serialized)


_serialize, _deserialize = serialize, deserialize  # JAX's names


def _check_installed() -> None:
    if cloudpickle is None:
        raise ModuleNotFoundError(
            'No module named "cloudpickle", which colocated functions are sent to the hosts of devices by. '
            "pip install cloudpickle.",
            name="cloudpickle",
        )


class _Pickler(object if cloudpickle is None else cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, for devices, and for modules of classes of their own, too."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Device):
            _check_cpu([obj])
            return _device, (names_of_devices([obj]),)
        if isinstance(obj, Mesh | SingleDeviceSharding):
            _check_cpu(obj.flat if isinstance(obj, Mesh) else obj.devices)
        if isinstance(obj, ModuleType) and type(obj) is not ModuleType and sys.modules.get(obj.__name__) is obj:
            return importlib.import_module, (obj.__name__,)
        return super().reducer_override(obj)


def _check_cpu(devices: Sequence[Any]) -> None:
    for device in devices:
        if device.platform != "cpu":
            raise ValueError(
                f"Invalid device ID {device.id}, of {device}: colocated functions run on a host, and hold meshes and "
                "shardings of CPU devices alone. colocated_cpu_devices(mesh) gives those of another mesh."
            )


def _device(name: str) -> Any:
    return devices_of_names(name)[0]

"""Functions on the host of their arguments' devices, which here is this process."""

from collections import namedtuple
from types import SimpleNamespace

import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental.colocated_python import colocated_cpu_devices, colocated_python, colocated_python_class

Far = namedtuple("Far", ["process_index"])


def test_functions():
    double = colocated_python(lambda tree: xpr.tree.map(lambda x: x * 2, tree))
    assert double({"a": jnp.float32(3)})["a"] == 6
    assert double.specialize(devices=xpr.devices(), in_specs=None)([jnp.float32(2)]) == [4]


def test_devices_and_meshes():
    mesh = xpr.make_mesh((1,), ("x",))
    assert colocated_cpu_devices(mesh) == mesh and colocated_cpu_devices(xpr.devices()) == xpr.devices()
    (device,) = colocated_cpu_devices([SimpleNamespace(platform="gpu", process_index=0)])
    assert device == xpr.devices("cpu")[0]
    with pytest.raises(ValueError, match="process 3 has too few CPU devices"):
        colocated_cpu_devices([SimpleNamespace(platform="gpu", process_index=3)])


def test_other_processes():
    far = colocated_python(abs).specialize(devices=[Far(process_index=7)])
    with pytest.raises(NotImplementedError, match="abs would run on other hosts"):
        far(jnp.ones(3))


def test_classes():
    assert colocated_python_class(dict) is dict

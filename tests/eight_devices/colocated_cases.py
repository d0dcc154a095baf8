"""Colocated functions of arrays on several devices, beside jax's documentation of them."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental.colocated_python import colocated_cpu_devices, colocated_python, serialization
from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

pytest.importorskip("cloudpickle")


@pytest.fixture
def devices():
    return colocated_cpu_devices(xpr.devices())


def test_parts_of_sharded_strings(devices):
    @colocated_python
    def upper(x):
        parts = [xpr.device_put(np.strings.upper(xpr.device_get(s.data)), s.device) for s in x.addressable_shards]
        return xpr.make_array_from_single_device_arrays(x.shape, x.sharding, parts)

    sharding = NamedSharding(Mesh(np.array(devices[:2]), ("x",)), P("x"))
    words = xpr.device_put(np.array([["one", "two"], ["three", "four"]], np.dtypes.StringDType()), sharding)
    result = upper(words)
    assert result.sharding == sharding and result.tolist() == [["ONE", "TWO"], ["THREE", "FOUR"]]


def test_arguments_on_different_devices(devices):
    x, y = xpr.device_put(1.0, devices[0]), xpr.device_put(2.0, devices[1])
    add = colocated_python(lambda x, y: xpr.device_put(x, y.sharding) + y)
    with pytest.raises(ValueError, match="All arguments must use the same device list, but got multiple"):
        add(x, y)
    result = add.specialize(devices=devices[:2])(x, y)
    assert result == 3 and result.sharding == SingleDeviceSharding(devices[1])


def test_orders_of_devices(devices):
    one, other = [NamedSharding(Mesh(np.array(order), ("x",)), P("x")) for order in (devices[:2], devices[1::-1])]
    x, y = xpr.device_put(jnp.arange(2), one), xpr.device_put(jnp.arange(2), other)
    first = colocated_python(lambda x, y: x)
    with pytest.raises(ValueError, match="multiple device lists"):
        first(x, y)
    assert first.specialize(devices=devices[:2])(x, y).sharding == one


def test_a_copy_for_each_sharding(devices):
    number = [1]
    read = colocated_python(lambda x: x + number[0])
    assert read(xpr.device_put(1.0, devices[0])) == 2
    number[0] = 5
    assert read(xpr.device_put(1.0, devices[0])) == 2 and read(xpr.device_put(1.0, devices[3])) == 6


def test_meshes_that_are_held(devices):
    mesh = Mesh(np.array(devices).reshape(4, 2), ("x", "y"))
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    move = colocated_python(
        lambda x: (xpr.device_put(x, rows), xpr.device_put(x, columns), xpr.device_put(x, devices[5]))
    )
    results = move(jnp.ones((4, 2)))
    assert [x.sharding for x in results] == [rows, columns, SingleDeviceSharding(devices[5])]
    sizes = [len(serialization.serialize(held)) for held in ([rows], [rows, columns], [rows, rows])]
    assert sizes[1] < 2 * sizes[0] and sizes[2] < sizes[1]  # the mesh is written once

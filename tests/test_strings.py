"""Arrays of strings: they are put on CPU devices, moved and read, and no operation takes them."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import dtypes
from xpr.compile.placement import to_device
from xpr.errors import TypePromotionError
from xpr.sharding import SingleDeviceSharding

pytestmark = pytest.mark.quick

WORDS = np.array([["one", "two"], ["", "one of more than fifteen bytes: é"]], np.dtypes.StringDType())


def same(x):
    host = xpr.device_get(x)
    assert host.dtype == np.dtypes.StringDType() and x.dtype == host.dtype and x.shape == host.shape
    np.testing.assert_array_equal(host, WORDS)
    return x


def test_put_and_read():
    cpu = xpr.devices("cpu")[0]
    for device in (None, cpu, SingleDeviceSharding(cpu), xpr.memory.Space.Device):
        same(xpr.device_put(WORDS, device))
        same(jnp.asarray(WORDS, device=None if device is xpr.memory.Space.Device else device))
    x = same(xpr.device_put(WORDS, cpu))
    assert x.sharding == SingleDeviceSharding(cpu) and x.committed and x.device == cpu
    assert str(xpr.typeof(x)) == "StringDType128[2,2]" and x.tolist() == WORDS.tolist()
    same(xpr.block_until_ready(xpr.Array(x.aval, None, x.buffer, cpu)))  # from its buffer alone
    same(jnp.asarray(WORDS, np.dtypes.StringDType()))
    assert xpr.device_put(np.array("hi", np.dtypes.StringDType())).item() == "hi"


def test_it_is_a_copy():
    words = WORDS.copy()
    x = xpr.device_put(words, xpr.devices("cpu")[0])
    words[0, 0] = "changed"
    same(x)
    assert xpr.device_put(x, x.sharding) is x
    assert same(xpr.device_put(x, may_alias=False)) is not x
    same(pickle.loads(pickle.dumps(x)))


def test_made_of_parts():
    sharding = SingleDeviceSharding(xpr.devices("cpu")[0])
    same(xpr.make_array_from_callback((2, 2), sharding, lambda index: WORDS[index]))
    same(xpr.make_array_from_single_device_arrays((2, 2), sharding, [xpr.device_put(WORDS, sharding)]))
    same(xpr.make_array_from_process_local_data(sharding, WORDS))
    (shard,) = xpr.device_put(WORDS, sharding).addressable_shards
    same(shard.data)


def test_transformations_that_leave_them_alone():
    same(xpr.vmap(lambda x: x)(xpr.device_put(WORDS)))
    assert xpr.eval_shape(lambda x: x, xpr.device_put(WORDS)).dtype == dtypes.string
    assert xpr.ShapeDtypeStruct((2,), np.dtypes.StringDType()).dtype == dtypes.string


def test_no_operation_takes_them():
    x = xpr.device_put(WORDS)
    with pytest.raises(TypeError, match=r"Argument of type StringDType128\[2,2\] is not a valid JAX type"):
        xpr.jit(lambda x: x)(x)
    with pytest.raises(TypeError, match="only booleans and numbers promote"):
        jnp.add(x, np.int32(1))
    with xpr.numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError, match="is not a valid dtype"):
        x + jnp.arange(2)
    with pytest.raises(TypeError, match="eq does not accept dtype StringDType128"):
        x == x  # noqa: B015


def test_they_are_not_converted():
    with pytest.raises(TypeError, match="with dtype bfloat16 from an object with dtype StringDType128: strings"):
        jnp.asarray(WORDS, jnp.bfloat16)
    with pytest.raises(TypeError, match="complex numbers; strings where a NumPy array has them"):
        jnp.asarray(np.arange(2), np.dtypes.StringDType())
    for other in (np.array(["a"]), np.array(["a", None], np.dtypes.StringDType(na_object=None))):
        with pytest.raises(TypeError, match="is not numeric"):
            xpr.device_put(other)


def test_they_are_on_cpus_alone():
    with pytest.raises(TypeError, match="String arrays can only be sharded to CPU devices"):
        to_device(xpr.device_put(WORDS), SimpleNamespace(platform="gpu"))

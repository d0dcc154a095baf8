"""`default_device`: programs run there, and arrays that were put nowhere by name follow."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

DOUBLE = xpr.jit(lambda x: x * 2)
SLOPE = xpr.grad(lambda x: (x * x).sum())


def test_arrays_that_were_made_before_follow():
    small, large = jnp.arange(4.0) + 1, jnp.ones((500, 500)) @ jnp.ones((500, 500))
    DOUBLE(small), DOUBLE(large)
    there = xpr.devices()[1]
    with xpr.default_device(there):
        assert large.devices() == {xpr.devices()[0]}
        for f in (
            lambda x: x + x,
            lambda x: jnp.sin(x) * x,
            lambda x: x @ x,
            DOUBLE,
            xpr.grad(lambda x: (x * x).sum()),
        ):
            for x in small, large:
                found = f(x)
                assert found.devices() == {there}
                np.testing.assert_allclose(found, f(np.asarray(x)), rtol=1e-5)
        new = jnp.ones((500, 500)) @ large
    for f in (lambda x: x + x, lambda x: x @ x, DOUBLE, lambda x: x + large):
        assert f(new).devices() == {xpr.devices()[0]}


def test_arrays_that_were_put_somewhere_stay():
    x = xpr.device_put(jnp.ones(3), xpr.devices()[2])
    with xpr.default_device(xpr.devices()[1]):
        assert (x + 1).devices() == DOUBLE(x).devices() == {xpr.devices()[2]}


def test_donated_arrays_follow():
    x = jnp.ones((500, 500)) @ jnp.ones((500, 500))
    with xpr.default_device(xpr.devices()[1]):
        found = xpr.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(found, np.full((500, 500), 501.0))
    assert x.is_deleted()


def test_use_of_a_deleted_array_is_an_error():
    x = jnp.ones((500, 500)) @ jnp.ones((500, 500))
    x.delete()
    with xpr.default_device(xpr.devices()[1]), pytest.raises(xpr.errors.DeletedArrayError):
        DOUBLE(x)


def test_transfer_guard_between_devices():
    first, other = xpr.devices()[:2]
    x, uncommitted = xpr.device_put(np.ones(3), other), xpr.jit(lambda x: x * 2)(xpr.device_put(np.ones(3)))
    assert uncommitted.devices() == {first}
    with xpr.transfer_guard("disallow"):
        x + x
        with pytest.raises(
            xpr.errors.TransferError, match=r"Implicit device-to-device transfer of an array of .*f32\[3\]"
        ):
            x + uncommitted
        with pytest.raises(xpr.errors.TransferError, match="Implicit device-to-device"):
            xpr.jit(lambda x: x + 1, device=first)(x)
        xpr.device_put(uncommitted, other) + x
        with xpr.transfer_guard_device_to_device("allow"):
            xpr.jit(lambda x, y: x + y)(x, uncommitted)


def test_arrays_that_are_made_like_another_are_where_that_is():
    device, mesh = xpr.devices()[3], xpr.make_mesh((8,), ("x",))
    kinds = (
        lambda x, **k: lax.full_like(x, 1.0, **k),
        jnp.zeros_like,
        jnp.empty_like,
        lambda x, **k: jnp.full_like(x, 2, **k),
    )
    for placement in (device, NamedSharding(mesh, P("x")), NamedSharding(mesh, P())):
        x = xpr.device_put(np.ones((8, 2), np.float32), placement)
        for like in kinds:
            assert like(x).sharding.is_equivalent_to(x.sharding, 2) and like(x).committed
            other = like(x, shape=(3,))
            assert other.committed == x.sharding.is_fully_replicated and other.shape == (3,)
            assert not other.committed or other.sharding.is_equivalent_to(x.sharding, 1)


def test_debug_nans_keeps_what_is_donated():
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in div"):
        xpr.pmap(lambda x: 0.0 / x, donate_argnums=0)(jnp.zeros((8,)))

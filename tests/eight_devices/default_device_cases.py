"""`default_device`: programs run there, and arrays that were put nowhere by name follow."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import AxisType, NamedSharding, SingleDeviceSharding
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


def test_programs_are_compiled_for_the_device_of_their_arguments():
    there = SingleDeviceSharding(xpr.devices()[2])
    x = xpr.device_put(jnp.ones(3), there)
    for argument in (x, xpr.ShapeDtypeStruct(x.shape, x.dtype, sharding=there)):
        compiled = DOUBLE.lower(argument).compile()
        assert compiled.output_shardings == compiled.input_shardings[0][0] == there
        assert compiled(np.ones(3, np.float32)).devices() == compiled(x).devices() == {xpr.devices()[2]}
    beside = xpr.jit(lambda x, y: x + y).lower(1.0, x).compile()
    assert beside.output_shardings == there
    assert xpr.jit(lambda x: x, device=xpr.devices()[1]).lower(x).compile()(x).devices() == {xpr.devices()[1]}
    assert DOUBLE.eval_shape(x).sharding is None


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


def test_traced_values_that_are_put_on_a_device():
    first, second = xpr.devices()[:2]
    x, seen = jnp.arange(4.0), []

    def there_and_back(x):
        y = xpr.device_put(jnp.sin(x), second)
        seen.append(y)
        return (xpr.device_put(y * y, first) * x).sum()

    expected = SLOPE(x) * 0 + xpr.grad(lambda x: (jnp.sin(x) ** 2 * x).sum())(x)
    for operand in (x, xpr.device_put(x, first)):
        gradient = xpr.grad(there_and_back)(operand)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)
        assert gradient.devices() == {first} and seen[-1].primal.devices() == {second}
    assert xpr.grad(lambda x: (xpr.device_put(x, second) ** 2).sum())(x).devices() == {first}
    assert xpr.vmap(lambda x: xpr.device_put(x, second) + 1)(x).devices() == {second}
    np.testing.assert_allclose(xpr.jit(xpr.grad(there_and_back))(x), expected, rtol=1e-6)
    assert xpr.jit(lambda x: xpr.device_put(x, second))(x).devices() == {
        first
    }  # a program runs where its arguments are
    np.testing.assert_allclose(xpr.hessian(there_and_back)(x).shape, (4, 4))


def test_memories_of_several_devices():
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    host = NamedSharding(mesh, P("x", "y"), memory_kind="pinned_host")
    x = xpr.device_put(np.ones((8, 4), np.float32), host)
    assert x.sharding == host and x.addressable_shards[3].data.sharding.memory_kind == "pinned_host"
    y = xpr.jit(lambda x: x + 1)(x)
    assert y.sharding == host and y.aval is x.aval
    for target in (host.with_memory_kind("device"), xpr.memory.Space.Device):
        moved = xpr.device_put(x, target)
        assert moved.sharding == host.with_memory_kind("device") and moved.aval.str_short() == "f32[8,4]"
        inside = xpr.jit(lambda x, target=target: xpr.device_put(x, target) * 2)(x)
        assert inside.sharding == moved.sharding and inside[0, 0] == 2
    assert xpr.device_put(moved, xpr.memory.Space.Host).sharding == host
    out = xpr.jit(lambda x: (x, x * 2), out_shardings=(host, host.with_memory_kind("device")))(moved)
    assert [each.sharding.memory_kind for each in out] == ["pinned_host", "device"]
    assert xpr.jit(lambda x: x, out_shardings=host.with_memory_kind("device"))(x).sharding == moved.sharding
    gradient = xpr.grad(lambda x: jnp.sin(xpr.device_put(x, xpr.memory.Space.Device)).sum())(x)
    assert str(gradient.aval) == "float32<host>[8,4]"
    explicit = NamedSharding(mesh.update(axis_types=(AxisType.Explicit,) * 2), P("x"), memory_kind="pinned_host")
    z = xpr.device_put(np.ones((8, 4), np.float32), explicit)
    assert str(z.aval) == str((z + 1).aval) == "float32<host>[8@x,4]" and z.sharding == explicit
    assert xpr.typeof(z).sharding.memory_kind == "pinned_host"
    text = str(xpr.make_jaxpr(lambda z: xpr.device_put(z, xpr.memory.Space.Device))(z))
    assert str(xpr.jaxpr.parse(text)) == text and "b:f32[8@x,4] = device_put" in text


@pytest.mark.parametrize("made", [
    lambda x: jnp.linspace(x, 2.0, 3), lambda x: jnp.logspace(0.0, x, 3), lambda x: jnp.geomspace(x + 1, 4.0, 3),
    lambda x: jnp.nonzero(x)[0], lambda x: jnp.nonzero(x, size=2)[0], jnp.argwhere, lambda x: jnp.where(x > 1)[0],
    jnp.histogram_bin_edges,
])  # fmt: skip
def test_what_is_made_of_the_values_of_an_array_is_where_that_is(made):
    values, mesh = np.arange(4.0, dtype=np.float32), xpr.make_mesh((4,), ("x",))
    there, sharded = xpr.device_put(values, xpr.devices()[3]), xpr.device_put(values, NamedSharding(mesh, P("x")))
    assert made(there).devices() == {xpr.devices()[3]} and made(sharded).sharding == NamedSharding(mesh, P())
    assert not made(jnp.asarray(values)).committed
    with xpr.set_mesh(mesh):
        assert made(jnp.asarray(values)).sharding == NamedSharding(mesh, P())

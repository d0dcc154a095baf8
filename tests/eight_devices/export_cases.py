"""Functions that are exported for several devices, on eight."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from xpr import export, lax
from xpr.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

X = np.linspace(0, 2, 16, dtype=np.float32).reshape(4, 4)


def product(x, y):
    return jnp.sin(x) @ y


def exported_on(mesh):
    rows = NamedSharding(mesh, P("i"))
    f = xpr.jit(product, in_shardings=(rows, None), out_shardings=NamedSharding(mesh, P(None, "i")))
    return export.export(f)(X, X)


def test_programs_run_on_any_mesh_of_their_shape():
    mesh, other = xpr.make_mesh((2,), "i"), Mesh(xpr.devices()[5:3:-1], "i")
    exported = exported_on(mesh)
    assert exported.nr_devices == 2
    assert exported.in_shardings_jax(mesh) == (NamedSharding(mesh, P("i")), None)
    for each in (exported, export.deserialize(exported.serialize(vjp_order=1))):
        x_sharding, _ = each.in_shardings_jax(other)
        (out_sharding,) = each.out_shardings_jax(other)
        x = xpr.device_put(X, x_sharding)
        for call in (each.call, xpr.jit(each.call)):
            out = call(x, X)
            close(out, np.sin(X) @ X)
            assert out.sharding == out_sharding
        by_x, by_y = xpr.grad(lambda x, y, each=each: each.call(x, y).sum(), (0, 1))(x, X)
        assert by_x.sharding == x_sharding
        close((by_x, by_y), xpr.grad(lambda x, y: product(x, y).sum(), (0, 1))(X, X))
        close(xpr.jit(lambda x, y, each=each: each.call(each.call(x, y), y))(x, X), np.sin(np.sin(X) @ X) @ X)


@pytest.mark.parametrize("number", [1, 2])
def test_programs_over_a_mesh_for_several_platforms(number):
    mesh = xpr.make_mesh((number,), "i")
    total = xpr.shard_map(lambda x: lax.psum(x.sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    mapped = xpr.pmap(lambda x: lax.psum(x.sum(), "i"), "i", devices=xpr.devices()[:number], out_axes=None)
    for f, shape in ((total, (4, 4)), (mapped, (number, 16 // number))):
        exported = export.export(xpr.jit(f), platforms=("cpu", "cuda", "tpu"))(X.reshape(shape))
        assert (exported.nr_devices, exported.platforms) == (number, ("cpu", "cuda", "tpu"))
        x = xpr.device_put(X.reshape(shape), NamedSharding(mesh, P("i")))
        close(exported.call(x), X.sum())


def test_another_number_of_devices_is_refused():
    exported = exported_on(xpr.make_mesh((2,), "i"))
    eight = NamedSharding(xpr.make_mesh((8,), "i"), P(None))
    for x, number in ((X, 1), (xpr.device_put(X, eight), 8)):
        with pytest.raises(ValueError, match=f"was exported for 2 devices, and is called on {number}. Put"):
            exported.call(x, X)


def test_programs_for_one_device_run_on_several():
    one = NamedSharding(Mesh(xpr.devices()[:1], "i"), P("i"))
    exported = export.export(xpr.jit(lambda x: lax.with_sharding_constraint(x * 2, one).sum(0), in_shardings=one))(X)
    assert exported.nr_devices == 1
    close(exported.call(xpr.device_put(X, NamedSharding(xpr.make_mesh((4,), "i"), P("i")))), 2 * X.sum(0))


def test_meshes_without_devices():
    mesh = AbstractMesh((2,), "i")

    @xpr.jit
    def f(x):
        return lax.with_sharding_constraint(x @ x.T, NamedSharding(mesh, P(None, "i")))

    exported = export.export(f)(xpr.ShapeDtypeStruct((4, 4), "float32", sharding=NamedSharding(mesh, P("i"))))
    assert exported.nr_devices == 2
    x = xpr.device_put(X, NamedSharding(Mesh(xpr.devices()[2:4], "i"), P("i")))
    out = exported.call(x)
    close(out, X @ X.T)
    assert out.sharding == NamedSharding(x.sharding.mesh, P(None, "i"))


def test_jax_reads_them_and_they_read_jax_s():
    jax, jax_export = pytest.importorskip("jax"), pytest.importorskip("jax.export")
    pytest.importorskip("flatbuffers")

    def sharding(lib, spec):
        devices = np.array(lib.devices()[:2])
        return lib.sharding.NamedSharding(lib.sharding.Mesh(devices, "i"), lib.sharding.PartitionSpec(*spec))

    ours = jax_export.deserialize(bytearray(exported_on(xpr.make_mesh((2,), "i")).serialize()))
    x = jax.device_put(X, sharding(jax, ("i",)))
    out = ours.call(x, X)
    assert ours.nr_devices == 2 and out.sharding.spec == jax.P(None, "i")
    close(np.asarray(out), np.sin(X) @ X)

    f = jax.jit(lambda x, y: jax.numpy.sin(x) @ y, in_shardings=(sharding(jax, ("i",)), None))
    theirs = export.deserialize(jax_export.export(f)(X, X).serialize(vjp_order=1))
    assert theirs.nr_devices == 2
    x = xpr.device_put(X, sharding(xpr, ("i",)))
    close(theirs.call(x, X), np.sin(X) @ X)
    close(xpr.grad(lambda x: theirs.call(x, X).sum())(x), xpr.grad(lambda x: product(x, X).sum())(X))


def test_parts_that_run_on_each_device():
    mesh = xpr.make_mesh((4,), "i")
    f = xpr.jit(xpr.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    exported = export.export(f)(X)
    assert exported.nr_devices == 4
    close(exported.call(xpr.device_put(X, NamedSharding(mesh, P("i")))), X.sum(0, keepdims=True))
    with pytest.raises(ValueError, match="was exported for 4 devices, and is called on 1"):
        exported.call(xpr.device_put(X, SingleDeviceSharding(xpr.devices()[1])))


def test_types_over_explicit_axes_are_read_back():
    mesh = xpr.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with xpr.set_mesh(mesh):
        a = xpr.device_put(np.arange(16.0, dtype=np.float32).reshape(8, 2), NamedSharding(mesh, P("x", None)))
        exported = export.export(xpr.jit(lambda x: x * 2))(a)
        again = export.deserialize(exported.serialize())
        assert again.in_avals == exported.in_avals and again.out_avals == exported.out_avals
        assert again.call(a).sharding.spec == P("x", None)
        np.testing.assert_array_equal(again.call(a), 2 * np.asarray(a))

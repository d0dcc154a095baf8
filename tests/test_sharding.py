"""Meshes, specs and shardings on one device; on eight: test_eight_devices.py. The number of CPU devices."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.sharding import AbstractDevice, AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P


def line():
    return Mesh(xpr.devices()[:1], "x")


def test_one_device():
    mesh = xpr.make_mesh((1, 1), ("x", "y"))
    x = xpr.device_put(np.ones((3, 2), np.float32), NamedSharding(mesh, P("x")))
    assert x.sharding == NamedSharding(mesh, P("x")) and x.device == x.sharding
    np.testing.assert_array_equal(xpr.jit(lambda x: x + 1)(x) + x, np.full((3, 2), 3))
    np.testing.assert_array_equal(xpr.shard_map(jnp.abs, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(-x), x)
    assert jnp.ones(2).sharding == SingleDeviceSharding(xpr.devices()[0])
    assert jnp.ones(2).addressable_data(0).shape == (2,)


def test_an_array_is_made_again_of_its_own_sharding_and_parts():
    for x in (jnp.arange(3.0), xpr.device_put(jnp.arange(3.0), NamedSharding(line(), P("x")))):
        parts = [shard.data for shard in x.addressable_shards]
        again = xpr.make_array_from_single_device_arrays(x.shape, x.sharding, parts)
        local = xpr.make_array_from_process_local_data(x.sharding, np.asarray(x))
        assert again.sharding == local.sharding == x.sharding
        np.testing.assert_array_equal(again + local, 2 * np.arange(3.0))
    single = SingleDeviceSharding(xpr.devices()[0])
    with pytest.raises(ValueError, match=r"global_shape=\(4,\), of which .* is to have all, and local_data has shape"):
        xpr.make_array_from_process_local_data(single, np.ones(3), (4,))
    with pytest.raises(ValueError, match="1 parts of shape"):
        xpr.make_array_from_single_device_arrays((3,), single, [np.ones(3)] * 2)


def test_arrays_are_made_on_the_device_that_a_sharding_names():
    device = xpr.devices()[0]
    single = SingleDeviceSharding(device)
    makers = (
        lambda: jnp.arange(3, device=single), lambda: jnp.arange(0.0, 1.0, 0.5, device=single),
        lambda: jnp.ones(3, device=single), lambda: jnp.eye(2, device=single), lambda: jnp.array([1.0], device=single),
        lambda: jnp.linspace(0, 1, 3, device=single),
    )  # fmt: skip
    for made in (*makers, *map(xpr.jit, makers)):
        x = made()
        assert x.sharding == single and x.device is device and (x + 1).sharding == single
    with pytest.raises(ValueError, match="can't be sharded"):
        jnp.arange(3, device=NamedSharding(line(), P(None, "x")))


def test_one_axis_name_may_stand_alone():
    assert xpr.make_mesh((1,), "batch") == xpr.make_mesh((1,), ("batch",))
    with pytest.raises(ValueError, match=r"the ndim of its first argument: .* the names are \('xy',\)"):
        xpr.make_mesh((1, 1), "xy")


def test_the_mesh_of_each_thread():
    mesh = line()
    with xpr.set_mesh(mesh), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: xpr.sharding.get_mesh().empty).result()
        assert xpr.sharding.get_mesh() is mesh
    assert xpr.sharding.get_mesh().empty and xpr.P is P


def test_specs_alone_know_the_mesh_of_a_with_block():
    """As in JAX, where haliax looks for the one of these first."""
    mesh, seen = line(), []

    def axes_of(x):
        seen.append(xpr.sharding.get_abstract_mesh())
        return x

    with mesh:
        assert xpr.sharding.get_mesh().empty and xpr.sharding.get_abstract_mesh().empty
        xpr.jit(axes_of)(1.0)
        with xpr.sharding.use_abstract_mesh(mesh.abstract_mesh):
            assert xpr.sharding.get_abstract_mesh() == mesh.abstract_mesh
            xpr.jit(axes_of)(1.0)
        xpr.shard_map(axes_of, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(jnp.ones(2))
    with xpr.set_mesh(mesh), mesh:
        assert xpr.sharding.get_mesh() is mesh and xpr.sharding.get_abstract_mesh() == mesh.abstract_mesh
    assert [each.axis_names for each in seen] == [(), ("x",), ("x",)]


def test_texts():
    assert repr(P("x", None, ("y", "z"))) == "P('x', None, ('y', 'z'))" and repr(P("x")) == "P('x',)"
    mesh = line()
    assert repr(NamedSharding(mesh, P("x"))) == "NamedSharding(mesh=Mesh('x': 1), spec=P('x',))"
    assert mesh == Mesh(np.array(xpr.devices()[:1]), ("x",)) and hash(mesh) == hash(line())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Mesh(xpr.devices()[:1], ("x", "y")), ValueError, "needs as many axis names as the ndim"),
        (lambda: Mesh(xpr.devices()[:1] * 2, "x"), ValueError, "a device occurs twice"),
        (lambda: Mesh([xpr.devices()[:1]], ("x", "x")), ValueError, "an axis name occurs twice"),
        (lambda: NamedSharding(line(), P("y")), ValueError, "is not found in mesh"),
        (lambda: NamedSharding(line(), "x"), TypeError, "is no PartitionSpec"),
        (lambda: NamedSharding(3, P()), TypeError, "3 is no Mesh"),
        (lambda: xpr.sharding.use_abstract_mesh(3), ValueError, "Expected an AbstractMesh, and got 3 of type"),
        (lambda: xpr.make_array_from_single_device_arrays((2,), 3, []), TypeError, "NamedSharding: 3 of type"),
        (lambda: xpr.jit(jnp.sin, in_shardings=P("x"))(1.0), TypeError, "write NamedSharding(mesh, spec)"),
        (lambda: xpr.shard_map(jnp.sin, mesh=line(), in_specs=P(), out_specs=None)(1.0), TypeError,
         "shard_map: out_specs of sin holds None, which is no PartitionSpec"),
        (lambda: xpr.shard_map(jnp.sin, mesh=line(), in_specs=P(), out_specs=P(), axis_names={"y"}),
         ValueError, "axis_names has 'y'"),
        (lambda: xpr.shard_map(jnp.sin, mesh=3, in_specs=P(), out_specs=P()), TypeError, "mesh is to be a Mesh"),
        (lambda: AbstractMesh((2,), ("x", "y")), ValueError, "AbstractMesh needs as many axis names as the ndim"),
        (lambda: AbstractMesh((2,), "x", (1,)), TypeError, "axis_types must be of type AxisType"),
        (lambda: AbstractMesh((2.5,), "x"), TypeError, "axis_sizes has an integer for each axis of the mesh, and is ("),
        (lambda: AbstractMesh(2, "x"), TypeError, "AbstractMesh: axis_sizes has an integer for each axis of the mesh"),
        (lambda: AbstractMesh((-2,), "x"), ValueError, "the number of devices along each axis, and is (-2,)"),
        (lambda: xpr.sharding.reshard(jnp.ones(2), 3), TypeError, "reshard: 3 is no NamedSharding"),
        (lambda: xpr.config.update("num_cpu_devices", 0), ValueError, "num_cpu_devices is a positive integer"),
    ],
)  # fmt: skip
def test_messages(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def printed(code, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("XPR_NUM_CPU_DEVICES", "XLA_FLAGS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**kept, **environment},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_number_of_cpu_devices():
    code = """
import xpr
xpr.config.update("num_cpu_devices", 3)
print(xpr.device_count("cpu"))
xpr.config.update("num_cpu_devices", 3)
try:
    xpr.config.update("num_cpu_devices", 4)
except RuntimeError as error:
    print(error, xpr.config.num_cpu_devices)
"""
    assert printed(code) == (
        "3\nnum_cpu_devices can't become 4: jax_num_cpu_devices config should be updated before backends are "
        "initialized, and the CPU is in use already, with 3 devices. Set it before anything is computed, right after "
        "`import xpr`, or with XPR_NUM_CPU_DEVICES. 3"
    )
    assert printed("import xpr; print(xpr.device_count('cpu'))", XPR_NUM_CPU_DEVICES="5") == "5"
    assert printed("import xpr; print(xpr.device_count('cpu'))") == "1"


def test_doctor(capsys):
    xpr.doctor()
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == [
        "xpr", "packages", "cpu", "gpu", "default", "settings", "environ", "trial",
    ]  # fmt: skip
    assert "a compiled program gave 16, as it should" in text
    done = subprocess.run([sys.executable, "-m", "xpr.doctor"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[0] == text.splitlines()[0] and not done.stderr


def test_prefixes_that_do_not_fit_name_the_call():
    whole = NamedSharding(line(), P())
    with pytest.raises(xpr.errors.TreeMismatch, match=r"^jit of \S+ at test_sharding.py:\d+ in_shardings "):
        xpr.jit(lambda x: x, in_shardings=({"a": whole},))({"b": 1.0})
    with pytest.raises(xpr.errors.TreeMismatch, match=r"^jit of \S+ at test_sharding.py:\d+ out_shardings "):
        xpr.jit(lambda x: x, out_shardings={"a": whole})({"b": 1.0})
    with pytest.raises(xpr.errors.TreeMismatch, match=r"(?s)^device_put device specification .*\n  device\['a'\]"):
        xpr.device_put({"b": 1.0}, {"a": whole})


@pytest.mark.parametrize("specs, error, part", [
    (P("z"), ValueError, "has P('z',): in_specs refers to 'z', which is none of the axes ('x',)"),
    (P("x", "x"), ValueError, "has P('x', 'x'), which names an axis twice"),
    ("x", TypeError, "holds 'x', which is no PartitionSpec; P() partitions no axis"),
    (("x",), TypeError, "holds 'x', which is no PartitionSpec; P() partitions no axis"),
])  # fmt: skip
def test_specs_that_do_not_fit_name_the_function(specs, error, part):
    with pytest.raises(error) as caught:
        xpr.shard_map(lambda x: x, mesh=line(), in_specs=specs, out_specs=P())(jnp.ones((4, 4)))
    assert str(caught.value).startswith("shard_map: in_specs of <lambda> at test_sharding.py:")
    assert part in str(caught.value)


def test_an_array_of_parts_with_too_many_axes_partitioned():
    with pytest.raises(ValueError, match=r"^make_array_from_callback: an array of shape \(7,\) can't be sharded"):
        xpr.make_array_from_callback((7,), NamedSharding(line(), P(None, "x")), lambda index: np.ones(7)[index])


def test_the_sharding_of_a_type_without_a_mesh_constrains_nothing():
    def f(x):
        return xpr.random.normal(xpr.random.key(0), x.shape, x.dtype, out_sharding=xpr.typeof(x).sharding)

    assert np.array_equal(xpr.jit(f)(np.zeros(3, np.float32)), f(np.zeros(3, np.float32)))


def test_meshes_and_specs_refuse_what_they_can_not_be():
    with pytest.raises(ValueError, match="cannot contain a nested tuple"):
        P("x", ("y", ("z",)))
    with pytest.raises(TypeError, match="Subclassing `jax.P` is prohibited"):
        type("Q", (P,), {})
    with pytest.raises(ValueError, match="Number of axis names should match .*, an AxisType for each of .* is Auto"):
        AbstractMesh((2, 2), ("x", "y"), axis_types=xpr.sharding.AxisType.Auto)
    for types in ("explicit", ("explicit", xpr.sharding.AxisType.Auto)):
        with pytest.raises(TypeError, match="axis_types must be of type AxisType, one for each of"):
            AbstractMesh((2, 2), ("x", "y"), axis_types=types)
    assert AbstractMesh((), ()).size == 0 and AbstractMesh((), ()).empty
    assert str(AbstractMesh((), ())) == "AbstractMesh((), axis_types=())"
    assert repr(AbstractMesh((2,), ("x",)).axis_types) == "(Auto,)"
    with pytest.raises(ValueError, match="Received invalid value 'cpu'"):
        xpr.device_put(jnp.ones(2), "cpu")


def test_structs_like_arrays():
    like = xpr.ShapeDtypeStruct.like
    assert like(1.0).weak_type and like(jnp.ones((2, 3))).shape == (2, 3) and like(np.int8(3)).dtype == np.int8
    assert like(jnp.ones(2)).sharding is None
    x = xpr.device_put(jnp.ones(2), NamedSharding(line(), P("x")))
    assert like(x).sharding == x.sharding


def test_structs_keep_64_bits_and_stand_for_arrays_of_32():
    """As in JAX, so that what a file holds can be said while 64-bit types are off."""
    wide, narrow = xpr.ShapeDtypeStruct((2,), float), xpr.ShapeDtypeStruct((2,), "float32")
    assert wide.dtype == wide.update(shape=(3,)).dtype == np.float64 and wide != narrow
    assert xpr.eval_shape(lambda x: x, wide) == narrow and jnp.zeros_like(wide).dtype == np.float32
    assert repr(wide) == "ShapeDtypeStruct(shape=(2,), dtype=float64)"


def test_the_mesh_is_set_outside_of_traced_functions():
    def fun(x):
        with xpr.set_mesh(line()):
            return 2 * x

    assert fun(1.0) == 2 and xpr.grad(fun)(1.0) == 2
    for call in (xpr.jit(fun), xpr.make_jaxpr(fun), lambda x: xpr.lax.map(fun, jnp.ones(2) * x)):
        with pytest.raises(ValueError) as error:
            call(1.0)
        assert str(error.value) == (
            "`set_mesh` can only be used outside of `jax.jit`: a function is being traced here, whose program runs "
            "where its arguments are, and is to run on Mesh('x': 1). Set the mesh around the call; or name its axes "
            "alone here: sharding.use_abstract_mesh(mesh.abstract_mesh)."
        )
    assert xpr.sharding.get_mesh().empty


def test_structs_differ_by_their_shardings():
    def struct(sharding):
        return xpr.ShapeDtypeStruct((4,), "float32", sharding=sharding)

    rows, whole = (NamedSharding(line(), spec) for spec in (P("x"), P()))
    assert struct(rows) == struct(NamedSharding(line(), P("x"))) and hash(struct(rows)) == hash(struct(rows))
    assert len({struct(rows), struct(whole), struct(None), struct(P("x"))}) == 4
    assert repr(struct(rows)) == (
        "ShapeDtypeStruct(shape=(4,), dtype=float32, sharding=NamedSharding(mesh=Mesh('x': 1), spec=P('x',)))"
    )
    assert repr(struct(P("x"))) == "ShapeDtypeStruct(shape=(4,), dtype=float32, sharding=P('x',))"


def test_types_of_results_have_their_shardings():
    sharding = NamedSharding(line(), P("x"))
    f = xpr.jit(lambda x: {"y": 2 * x, "n": 3}, out_shardings={"y": sharding, "n": None})
    info = f.eval_shape(jnp.ones(2))
    assert info["y"].sharding == sharding and info["n"].sharding is None
    assert info["n"].weak_type and xpr.jit(jnp.sin).eval_shape(1.0).sharding is None


def test_results_keep_axes_of_size_1():
    """As in JAX: a result that is sharded as an argument is has the argument's spec."""
    mesh = xpr.make_mesh((1, 1), ("x", "y"))
    x = xpr.device_put(np.ones((3, 2), np.float32), NamedSharding(mesh, P("x", "y")))
    w = xpr.device_put(np.ones((2, 3), np.float32), NamedSharding(mesh, P()))
    for f in (
        lambda x, w: x + 1,
        xpr.jit(lambda x, w: x),
        xpr.jit(lambda x, w: x * 2),
        xpr.jit(lambda x, w: x @ w @ x),
    ):
        assert f(x, w).sharding == NamedSharding(mesh, P("x", "y"))
    assert xpr.jit(lambda x: x.sum())(x).sharding.spec == xpr.jit(lambda x: x.sum(0))(x).sharding.spec == P()
    assert xpr.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))(x).sharding.spec == P()
    ref = xpr.new_ref(x)
    assert ref.sharding == ref[...].sharding == xpr.jit(lambda: ref[...])().sharding == x.sharding


def test_shardings_over_axes_alone_are_on_the_devices_of_the_current_mesh():
    doubled = xpr.jit(lambda x: 2 * x, out_shardings=NamedSharding(AbstractMesh((1,), ("x",)), P("x")))
    with xpr.set_mesh(line()):
        assert doubled(np.arange(4.0)).sharding == NamedSharding(line(), P("x"))
        given = NamedSharding(xpr.sharding.get_abstract_mesh(), P("x"))
        assert xpr.jit(lambda x: 2 * x, in_shardings=given)(jnp.arange(4.0)).tolist() == [0, 2, 4, 6]
    with pytest.raises(xpr.errors.DeviceNotFound, match=r"AbstractMesh\('x': 1\), which has no devices"):
        doubled(np.arange(4.0))


def test_a_mesh_without_devices_says_of_what_kind_they_are():
    device = AbstractDevice("TPU v6 lite", 1, "tpu")
    mesh = AbstractMesh((2,), ("x",), abstract_device=device)
    assert mesh.abstract_device == device and mesh.abstract_device.num_cores == 1
    for same in (mesh.update(axis_names="y"), pickle.loads(pickle.dumps(mesh)), mesh.update_axis_types({})):
        assert same.abstract_device == device
    assert mesh.update(abstract_device=None).abstract_device is None
    assert mesh == AbstractMesh((2,), ("x",)) and AbstractMesh((2,), "x").abstract_device is None
    of_devices = xpr.make_mesh((1,), ("x",)).abstract_mesh
    assert type(of_devices) is AbstractMesh
    assert of_devices.abstract_device == AbstractDevice("cpu", None, "cpu")
    assert xpr.sharding.Mesh(np.empty((), object), ()).abstract_device is None
    with pytest.raises(
        TypeError, match="AbstractMesh: abstract_device must be an AbstractDevice, or None, and is 'tpu'"
    ):
        AbstractMesh((2,), ("x",), abstract_device="tpu")


def test_programs_are_lowered_for_the_kind_of_devices_of_the_current_mesh():
    factor, x = xpr.jit(xpr.numpy.linalg.cholesky), xpr.numpy.eye(2)
    device = AbstractDevice("NVIDIA H200", 132, "cuda")
    with xpr.sharding.use_abstract_mesh(AbstractMesh((2,), ("x",), abstract_device=device)):
        assert "cusolver_potrf" in factor.lower(x).as_text()
        assert "cusolver_potrf" not in factor.trace(x).lower(lowering_platforms=("cpu",)).as_text()
    assert "cusolver_potrf" not in factor.lower(x).as_text()

"""Sharded arrays, and jit of them, on eight devices; beside NumPy, and beside jax."""

import copy
import pickle
import sys
from typing import NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from xpr import lax
from xpr.experimental.layout import Format, Layout
from xpr.experimental.mesh_utils import create_hybrid_device_mesh
from xpr.sharding import AbstractMesh, AxisType, ManualAxisType, Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

X, W = floats(8, 8), floats(8, 6, salt=1)


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


SPECS = [P(), P("x"), P("x", "y"), P("y", "x"), P(None, "x"), P(("x", "y")), P(("y", "x"), None), P(None, ("y", "x"))]


def test_strings(mesh):
    words = np.array([["one", "two"]] * 4, np.dtypes.StringDType())
    words[3, 1] = "one of more than fifteen bytes"
    x = xpr.device_put(words, NamedSharding(mesh, P("x", "y")))
    assert [shard.data.tolist() for shard in x.addressable_shards][-2:] == [[["one"]], [[words[3, 1]]]]
    for moved in (x, xpr.device_put(x, NamedSharding(mesh, P())), xpr.device_put(x, xpr.devices()[3])):
        np.testing.assert_array_equal(xpr.device_get(moved), words)
        np.testing.assert_array_equal(xpr.device_get(xpr.Array(moved.aval, None, moved.buffer, moved.device)), words)
    parts = [xpr.device_put(shard.data, shard.device) for shard in x.addressable_shards]
    made = xpr.make_array_from_single_device_arrays((4, 2), x.sharding, parts)
    assert made.sharding == x.sharding
    np.testing.assert_array_equal(xpr.device_get(made), words)
    np.testing.assert_array_equal(
        xpr.device_get(xpr.make_array_from_process_local_data(x.sharding, words)),
        xpr.device_get(xpr.make_array_from_callback((4, 2), x.sharding, lambda index: words[index])),
    )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_device_put_and_back(mesh, spec):
    sharding = NamedSharding(mesh, spec)
    x = xpr.device_put(X, sharding)
    assert x.sharding == sharding and x.committed and x.is_fully_addressable
    assert x.is_fully_replicated == (spec == P())
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, X[shard.index])
        assert shard.data.devices() == {shard.device}
    same = [str(shard.index) for shard in x.addressable_shards if shard.replica_id == 0]
    assert len(set(same)) == len(same) == np.prod(sharding.shard_counts(2))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(x + 0, X)  # from the devices
    np.testing.assert_array_equal(x[1:3, 2], X[1:3, 2])
    np.testing.assert_array_equal(list(x)[3], X[3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), X)
    as_jax_has_it(x, spec)


def test_partitioned_operations_beside_those_of_jax(mesh):
    """One library was asked for those of the other."""
    jax, of_jax = pytest.importorskip("jax"), pytest.importorskip("jax.experimental.custom_partitioning")
    x = xpr.device_put(X[None, None], NamedSharding(mesh, P(None, None, "x")))
    for size in (1, 3):
        conv = xpr.jit(lambda x, size=size: lax.conv(x, np.ones((1, 1, size, size), np.float32), (1, 1), "SAME"))
        assert conv(x).sharding.spec == P(None, None, "x")
        doubled = of_jax.custom_partitioning(lambda x: 2 * x)
        doubled.def_partition(
            lambda mesh, arguments, result: (mesh, lambda x: 2 * x, result.sharding, (arguments[0].sharding,)),
            sharding_rule="i j -> i j",
        )
        rows = jax.sharding.NamedSharding(jax.make_mesh((8,), ("x",)), jax.sharding.PartitionSpec("x"))
        np.testing.assert_array_equal(jax.jit(doubled)(jax.device_put(X, rows)), 2 * X)


def as_jax_has_it(x, spec):
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    theirs = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
    mine = [(s.device.id, s.index, s.replica_id) for s in x.addressable_shards]
    assert mine == [(s.device.id, s.index, s.replica_id) for s in theirs.addressable_shards]


@pytest.mark.parametrize("target", SPECS, ids=str)
def test_moving(mesh, target):
    for spec in SPECS:
        x = xpr.device_put(xpr.device_put(X, NamedSharding(mesh, spec)) + 0, NamedSharding(mesh, target))
        assert x.sharding.spec == target
        np.testing.assert_array_equal(x, X)
    for target in (xpr.devices()[5], SingleDeviceSharding(xpr.devices()[5])):
        moved = xpr.device_put(x, target)
        assert moved.sharding == SingleDeviceSharding(xpr.devices()[5])
        np.testing.assert_array_equal(moved, X)


def test_operations_one_by_one(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
    w = xpr.device_put(W, NamedSharding(mesh, P("y")))
    close(x @ w, X @ W)
    assert (x + 1).sharding.spec == (x + np.ones((8, 8), np.float32)).sharding.spec == P("x", "y")
    assert x.T.sharding.spec == P("y", "x")
    close(jnp.sort(x, axis=0).sum(1), np.sort(X, axis=0).sum(1))
    close(xpr.grad(lambda x: jnp.sum(jnp.sin(x @ w)))(x), np.cos(X @ W) @ W.T)
    close(xpr.vmap(jnp.dot, (0, None))(x, X[0]), X @ X[0])


def test_jit_takes_what_it_is_given(mesh):
    sums = xpr.jit(lambda x: {"rows": x.sum(1), "whole": x * 2})
    for spec in SPECS:
        x = xpr.device_put(X, NamedSharding(mesh, spec))
        found = sums(x)
        close(found, {"rows": X.sum(1), "whole": X * 2})
        assert found["whole"].sharding.is_equivalent_to(x.sharding, 2)
    close(sums(X), {"rows": X.sum(1), "whole": X * 2})
    assert len(sums(X)["whole"].devices()) == 1


def test_jit_with_shardings(mesh):
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    dense = xpr.jit(
        lambda x, p: {"out": x @ p["w"], "w": p["w"]}, in_shardings=(rows, {"w": columns}),
        out_shardings={"out": NamedSharding(mesh, P("x", "y")), "w": None},
    )  # fmt: skip
    found = dense(X, {"w": W})
    close(found, {"out": X @ W, "w": W})
    assert found["out"].sharding.spec == P("x", "y") and found["w"].sharding.spec == P(None, "y")
    inside = xpr.jit(lambda x: xpr.jit(jnp.sin, out_shardings=columns)(x))(X)
    assert inside.sharding.spec == P(None, "y")
    text = dense.lower(X, {"w": W}).as_text()
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text and 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>' in text
    assert "all-gather" not in dense.lower(X, {"w": W}).compile().as_text()


def test_closed_over_arrays_and_random_numbers(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    close(xpr.jit(lambda w: x @ w)(W), X @ W)
    key = xpr.random.key(0)
    close(xpr.jit(lambda x: x + xpr.random.normal(key, x.shape))(x), X + np.asarray(xpr.random.normal(key, X.shape)))


def test_programs_that_are_compiled_ahead(mesh):
    """They are for the devices on which arguments lie, or would."""
    rows = NamedSharding(mesh, P("x"))
    x = xpr.device_put(X, rows)
    fun = xpr.jit(lambda x, *, k: {"sum": x.sum(1), "t": x.T * k["w"]})
    for given in (x, xpr.ShapeDtypeStruct(X.shape, X.dtype, sharding=rows)):
        lowered = fun.lower(given, k={"w": 2.0})
        assert 'sdy.sharding<@mesh, [{"x"}, {}]>' in lowered.as_text()
        compiled = lowered.compile()
        assert compiled.input_shardings == ((rows,), {"k": {"w": NamedSharding(mesh)}})
        assert compiled.output_shardings["t"].spec == P(None, "x")
        close(compiled(x, k={"w": 2.0}), {"sum": X.sum(1), "t": 2 * X.T})
    alone = SingleDeviceSharding(xpr.devices()[0])
    assert xpr.jit(jnp.sin).lower(X).compile().output_shardings == alone


def test_small_programs_with_the_same_text_are_compiled_once(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))

    def program(argument, **options):
        fun = xpr.jit(lambda x: jnp.cos(x) * 17, **options)
        close(fun(argument), np.cos(X) * 17)
        return fun.lower(argument).compile().runtime_executable()

    first = program(x)
    assert program(x) is first
    assert program(xpr.device_put(X, NamedSharding(mesh, P("y")))) is not first
    assert program(x, out_shardings=NamedSharding(mesh, P())) is not first


def test_constraints(mesh):
    rows = NamedSharding(mesh, P("x"))
    constrained = xpr.jit(lambda x: lax.with_sharding_constraint({"a": jnp.sin(x), "b": x}, {"a": rows, "b": None}))
    assert constrained(X)["a"].sharding.spec == P("x")
    assert xpr.jit(lambda x: xpr.device_put(x, rows))(X).sharding.spec == P("x")
    assert lax.with_sharding_constraint(X, rows).sharding.spec == P("x")
    close(xpr.grad(lambda x: jnp.sum(constrained(x)["a"]))(X), np.cos(X))
    close(xpr.vmap(constrained)(np.stack([X, X]))["a"], np.sin(np.stack([X, X])))
    open_axis = NamedSharding(mesh, P("x", P.UNCONSTRAINED))
    x = xpr.device_put(X, NamedSharding(mesh, P(None, "y")))
    assert xpr.jit(lambda x: lax.with_sharding_constraint(x, open_axis))(x).sharding.spec == P("x", "y")


def test_donation(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
    double = xpr.jit(lambda x: x * 2, donate_argnums=0)
    x = x + 0
    before = {shard.data._buffer.unsafe_buffer_pointer() for shard in x.addressable_shards}
    y = double(x)
    assert x.is_deleted()
    assert {shard.data._buffer.unsafe_buffer_pointer() for shard in y.addressable_shards} == before
    close(y, 2 * X)
    with pytest.raises(xpr.errors.DeletedArrayError):
        double(x)


def test_arrays_from_their_parts(mesh):
    sharding = NamedSharding(mesh, P("x"))
    asked = []

    def part(index):
        asked.append(index)
        return X[index]

    x = xpr.make_array_from_callback((8, 8), sharding, part)
    assert len(asked) == 4
    np.testing.assert_array_equal(x, X)
    parts = [shard.data for shard in x.addressable_shards]
    np.testing.assert_array_equal(xpr.make_array_from_single_device_arrays((8, 8), sharding, parts), X)
    says = r"Expected shard shape \(2, 8\) doesn't match the single device array shape \(1, 8\): that of the part at"
    with pytest.raises(ValueError, match=says):
        xpr.make_array_from_callback((8, 8), sharding, lambda index: X[:1])


def test_devices_in_another_order():
    turned = Mesh(np.array(xpr.devices())[[3, 0, 6, 2, 1, 7, 5, 4]].reshape(2, 4), ("a", "b"))
    x = xpr.device_put(X, NamedSharding(turned, P("b", "a")))
    np.testing.assert_array_equal(x, X)
    close(xpr.jit(lambda x: x @ W)(x), X @ W)
    rings = xpr.shard_map(
        lambda v: v + lax.axis_index("b") * 10 + lax.axis_index("a"),
        mesh=turned,
        in_specs=P("b", "a"),
        out_specs=P("b", "a"),
    )
    positions = np.repeat(10 * np.arange(4), 2)[:, None] + np.repeat(np.arange(2), 4)[None]
    close(rings(x), X + positions.astype(np.float32))


INCOMPATIBLE = "Received incompatible devices for jitted computation. Got "


def test_arguments_on_different_devices_are_refused():
    """Arrays that were put on devices are not moved by a jitted function; all others are."""
    mesh = xpr.make_mesh((2, 2), ("x", "y"))
    a, b = (xpr.device_put(np.arange(3), xpr.devices()[i]) for i in (0, 1))
    c = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
    first = (
        INCOMPATIBLE
        + r"argument {} of .* with shape int32\[3\] and on device ids \[0\], and argument {} of .* with shape {}"
    )
    with pytest.raises(ValueError, match=first.format("x", "y", r"int32\[3\] and on device ids \[1\]")):
        xpr.jit(lambda x, y: (x, y))(a, b)
    several = r"float32\[8,8\] and on device ids \[0, 1, 2, 3\]"
    with pytest.raises(ValueError, match=first.format(r"rows\[0\]", r"rows\[1\]\[0\]", several)) as caught:
        xpr.jit(lambda rows: rows)((a, (c, b)))
    assert "\n  rows[1][1]   int32[3]   on cpu:1\n" in str(caught.value) and "xpr.device_put" in str(caught.value)
    rows = NamedSharding(mesh, P("x"))
    constrained = xpr.jit(lambda x: lax.with_sharding_constraint(x, rows))
    asked = xpr.jit(lambda x: x * 2, in_shardings=rows)
    for fun in (constrained, asked):
        for there in (X, jnp.asarray(X), xpr.device_put(X, rows)):
            assert fun(there).sharding.is_equivalent_to(rows, 2)
        with pytest.raises(
            ValueError, match=INCOMPATIBLE + r"argument x of .* and a sharding or a sharding_constraint"
        ):
            fun(xpr.device_put(X, xpr.devices()[0]))
    assert constrained(c).sharding.is_equivalent_to(rows, 2)
    with pytest.raises(
        ValueError, match="argument x of .* is not sharded as in_shardings say, and arrays that were put"
    ):
        asked(c)
    compiled = asked.lower(X).compile()
    close([compiled(X), compiled(xpr.device_put(X, rows))], [2 * X] * 2)
    with pytest.raises(
        ValueError, match=r"that disagree with the shardings \(1 of 1\) of arguments passed to it. Here"
    ):
        compiled(c)
    assert xpr.jit(lambda x: x, device=xpr.devices()[2])(a).device == xpr.devices()[2]
    with pytest.raises(
        ValueError, match=r"is to run on cpu:2, with device ids \[2\], and there is a sharding_constraint"
    ):
        xpr.jit(lambda x: lax.with_sharding_constraint(x, rows), device=xpr.devices()[2])(X)


def test_devices_in_two_orders_are_refused():
    forth, back = (Mesh(np.array(xpr.devices())[::step], ("x",)) for step in (1, -1))
    x, y = (xpr.device_put(X, NamedSharding(each, P("x"))) for each in (forth, back))
    with pytest.raises(ValueError, match=r"ids \[0, 1, .*ids \[7, 6, .*\], the same ones in another order."):
        x + y
    wanted = NamedSharding(back, P("x"))
    for fun in (
        xpr.jit(jnp.sin, out_shardings=wanted),
        xpr.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), wanted)),
        xpr.shard_map(jnp.sin, mesh=back, in_specs=P("x"), out_specs=P("x")),
    ):
        with pytest.raises(ValueError, match=r"over Mesh\('x': 8\), on .*: they must be in the same order"):
            fun(x)
    for fun in (xpr.jit(lambda x: jnp.sin(x), in_shardings=wanted), lambda x: lax.with_sharding_constraint(x, wanted)):
        with pytest.raises(ValueError, match=r"argument x of .* with shape float32\[8,8\] and on device ids \[0, 1"):
            fun(x)
    close(xpr.device_put(x, wanted) + y, 2 * X)


def test_derivatives_through_a_transfer_to_other_devices():
    first, second = (Mesh(np.array(xpr.devices())[part], ("x",)) for part in (slice(4), slice(4, 8)))
    x = xpr.device_put(X, NamedSharding(first, P("x")))
    for target in (NamedSharding(second, P("x")), xpr.devices()[6]):

        def loss(x, target=target):
            return (3 * xpr.jit(jnp.sin)(xpr.device_put(xpr.jit(jnp.square)(x), target))).sum()

        close(loss(x), 3 * np.sin(X**2).sum(), 1e-3)
        expected = 6 * X * np.cos(X**2)
        gradient = xpr.grad(loss)(x)
        close(gradient, expected)
        assert gradient.sharding.device_set == x.sharding.device_set
        close(xpr.jvp(loss, (x,), (x,))[1], (expected * X).sum(), 1e-3)
        close(
            xpr.grad(lambda x, loss=loss: (xpr.grad(loss)(x) * x).sum())(x).sum(),
            12 * (X * np.cos(X**2)).sum() - 12 * (X**3 * np.sin(X**2)).sum(),
            1e-3,
        )


def test_what_is_donated_is_deleted_where_the_parts_stay_on_their_devices():
    devices = np.array(xpr.devices())
    x = xpr.device_put(X, NamedSharding(Mesh(devices.reshape(4, 2), ("x", "y")), P("x")))
    y = xpr.device_put(x, NamedSharding(Mesh(devices.reshape(4, 2), ("a", "b")), P("a")), donate=True)
    assert x.is_deleted() and not y.is_deleted()
    close(y, X)


def test_specs_and_meshes_without_devices_are_over_the_mesh_around():
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    struct = xpr.ShapeDtypeStruct((8, 8), "float32", sharding=P("x"))
    with pytest.raises(TypeError, match="ShapeDtypeStruct requires .* no mesh is current"):
        struct.sharding  # noqa: B018  # it raises
    assert struct.update(shape=(4, 8)).shape == (4, 8)

    @mesh
    def compiled():
        assert struct.sharding == NamedSharding(mesh, P("x"))
        return xpr.jit(lambda x: x * 2).lower(struct).compile()

    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    close(compiled()(x), 2 * X)
    turned = lax.with_sharding_constraint(x, NamedSharding(mesh.abstract_mesh, P("y")))
    assert turned.sharding == NamedSharding(mesh, P("y"))


def test_fewer_devices_than_there_are():
    half = xpr.make_mesh((4,), ("x",))
    x = xpr.device_put(X, NamedSharding(half, P("x")))
    close(jnp.sin(x) @ W, np.sin(X) @ W)
    everywhere = xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("x",)), P("x")))
    with pytest.raises(ValueError, match=INCOMPATIBLE + "argument 0 of add with shape"):
        x + everywhere


# -- out_sharding

KEY = xpr.random.key(3)
SHARDED = [
    lambda s: jnp.zeros((8, 2), out_sharding=s), lambda s: jnp.ones_like(X, out_sharding=s),
    lambda s: jnp.full((8,), 3, out_sharding=s), lambda s: jnp.arange(8, out_sharding=s),
    lambda s: jnp.array(X, out_sharding=s), lambda s: jnp.asarray(X, out_sharding=s),
    lambda s: jnp.reshape(X, (16, 4), out_sharding=s), lambda s: jnp.asarray(X).reshape(16, 4, out_sharding=s),
    lambda s: jnp.ravel(X, out_sharding=s), lambda s: jnp.asarray(X).flatten(out_sharding=s),
    lambda s: jnp.broadcast_to(X[0], (8, 8), out_sharding=s), lambda s: jnp.repeat(X[0], 2, out_sharding=s),
    lambda s: jnp.dot(X, W, out_sharding=s), lambda s: jnp.matmul(X, W, out_sharding=s),
    lambda s: jnp.einsum("ij,jk->ik", X, W, out_sharding=s), lambda s: jnp.tensordot(X, W, 1, out_sharding=s),
    lambda s: jnp.linalg.tensordot(X, W, axes=1, out_sharding=s),
    lambda s: jnp.bincount(jnp.arange(8), length=8, out_sharding=s),
    lambda s: jnp.percentile(X, 30.0, axis=1, out_sharding=s),
    lambda s: lax.dot(X, W, out_sharding=s), lambda s: lax.broadcast(X[0], (8,), out_sharding=s),
    lambda s: lax.dot_general(X, W, (((1,), (0,)), ((), ())), out_sharding=s),
    lambda s: lax.broadcast_in_dim(X[0], (8, 8), (1,), out_sharding=s), lambda s: lax.full((8,), 1, sharding=s),
    lambda s: lax.full_like(X, 1, sharding=s), lambda s: lax.broadcasted_iota("int32", (8, 2), 0, out_sharding=s),
    lambda s: lax.reduce_sum(X, (1,), out_sharding=s), lambda s: lax.reduce(X, 0.0, lax.add, (1,), s),
    lambda s: lax.reshape(X, (64,), (1, 0), out_sharding=s), lambda s: lax.empty((8,), "float32", out_sharding=s),
    lambda s: lax.conv_general_dilated(X[:, None], W[:1, None, :3], (1,), "SAME", out_sharding=s),
    lambda s: xpr.ops.segment_sum(X, jnp.arange(8), 8, out_sharding=s),
    lambda s: xpr.random.normal(KEY, (8,), out_sharding=s), lambda s: xpr.random.gamma(KEY, 2.0, (8,), out_sharding=s),
    lambda s: xpr.random.permutation(KEY, 8, out_sharding=s), lambda s: xpr.random.bits(KEY, (8,), out_sharding=s),
    lambda s: xpr.nn.initializers.zeros(KEY, (8, 2), "float32", s),
    lambda s: xpr.nn.initializers.orthogonal()(KEY, (8, 2), "float32", s),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SHARDED)))
def test_results_are_sharded_as_out_sharding_asks(mesh, number):
    call = SHARDED[number]
    with xpr.set_mesh(mesh):
        for run in (call, lambda s: xpr.jit(lambda: call(s))()):
            out = run(P("x"))
            assert out.sharding.spec[0] == "x"
            np.testing.assert_allclose(out, call(None), rtol=1e-5, atol=1e-6)


def test_out_sharding_of_traced_operands_and_their_derivatives(mesh):
    rows = NamedSharding(mesh, P("x"))
    fun = lambda x, w: jnp.sin(jnp.dot(x, w, out_sharding=rows)).sum()
    for own, other in zip(
        xpr.jit(xpr.grad(fun, (0, 1)))(X, W), xpr.grad(lambda x, w: jnp.sin(x @ w).sum(), (0, 1))(X, W)
    ):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="zeros requires .* no mesh is current"):
        jnp.zeros(8, out_sharding=P("x"))
    with pytest.raises(ValueError, match="zeros: the result"):
        jnp.zeros(6, out_sharding=rows)


# -- The current mesh


def test_specs_of_the_current_mesh(mesh):
    """JAX's spelling, `with set_mesh(mesh)`, and `with mesh`; a jitted function is traced for each mesh."""
    other = xpr.make_mesh((2, 4), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    constrained = xpr.jit(lambda x: lax.with_sharding_constraint(2 * x, P("x")))
    given = xpr.jit(lambda x, p: x @ p["w"], in_shardings=(P("x"), {"w": P(None, "y")}), out_shardings=P("x", "y"))
    summed = xpr.shard_map(lambda x: lax.psum(x, "x"), in_specs=P("x"), out_specs=P())
    for current, context in ((mesh, xpr.set_mesh(mesh)), (other, other), (mesh, mesh)):
        with context:
            if context is not current:
                axes = AbstractMesh(current.axis_sizes, ("x", "y"), current.axis_types)
                assert xpr.sharding.get_mesh() is current and xpr.sharding.get_abstract_mesh() == axes
            assert constrained(X).sharding == NamedSharding(current, P("x"))
            assert given(X, {"w": W[:, :4]}).sharding == NamedSharding(current, P("x", "y"))
            assert xpr.device_put({"a": X}, P("y"))["a"].sharding == NamedSharding(current, P("y"))
            assert xpr.sharding.reshard(X, P("y")).sharding.is_equivalent_to(NamedSharding(current, P("y")), 2)
            close(summed(X), X.reshape(current.shape["x"], -1, 8).sum(0))
        if context is not current:
            xpr.set_mesh(None)
        assert xpr.sharding.get_mesh().empty and xpr.sharding.get_abstract_mesh().empty
    for call, error, message in (
        (lambda: constrained(X), RuntimeError, "no mesh is current; write NamedSharding(mesh, spec), or call it in"),
        (lambda: xpr.device_put(X, P("x")), TypeError, "device_put requires a non-empty mesh in context: P('x',) is"),
        (lambda: summed(X), ValueError, "was given no mesh, and none is current"),
        (lambda: xpr.set_mesh(3), TypeError, "set_mesh: 3 is no Mesh"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert message in str(raised.value)


def test_meshes_without_devices_have_as_many_as_the_others(mesh):
    """Those of arguments are on the devices of the first mesh that has some, in whatever order they come."""
    on_devices = xpr.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(mesh, P("x")))

    def like(sizes):
        axes = AbstractMesh(sizes, ("a", "b"))
        return xpr.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(axes, P("a")))

    total = xpr.jit(lambda x, y: x + y)
    for given in ((on_devices, like((2, 4))), (like((2, 4)), on_devices)):
        assert total.lower(*given).compile()(X[:, :2], X[:, :2]).sharding.device_set == set(mesh.devices.flat)
    for given in ((on_devices, like((2, 1))), (like((2, 1)), on_devices)):
        with pytest.raises(ValueError) as error:
            total.lower(*given)
        assert str(error.value) == (
            "AbstractMesh size: 2 does not match the device assignment size: 8. The program is for Mesh('x': 4, 'y': "
            "2), and a part of it, or an argument, for AbstractMesh('a': 2, 'b': 1): they must have as many devices. "
            "Make one mesh of them."
        )


def test_constraints_of_arrays_over_meshes_without_devices(mesh):
    """They are on the devices of the mesh that the array is on, which must have the same axes."""
    x = xpr.device_put(X, NamedSharding(mesh, P()))
    assert lax.with_sharding_constraint(x, NamedSharding(mesh.abstract_mesh, P("x"))).sharding.spec == P("x")
    others = NamedSharding(AbstractMesh((2, 4), ("a", "b")), P("a"))
    for given, where in ((x, "Mesh('x': 4, 'y': 2)"), (jnp.asarray(X), "no mesh"), (X, "no mesh")):
        with pytest.raises(xpr.errors.ArgumentError) as error:
            lax.with_sharding_constraint(given, others)
        assert str(error.value) == (
            f"Mesh shape of the input does not match the mesh shape of the target sharding: {others!r} is over a mesh "
            "without devices, and the array, f32[8,8], which would have to be on those of a mesh with these axes, is "
            f"on {where}. Put it there before, by xpr.device_put(x, NamedSharding(mesh, spec)) with a Mesh; or give "
            "the Mesh."
        )


def test_meshes_without_devices(mesh):
    """Programs are traced for them, and not run."""
    large = AbstractMesh((64, 16), ("x", "y"))
    with xpr.sharding.use_abstract_mesh(large):
        traced = xpr.jit(lambda x: lax.with_sharding_constraint(x, P("x"))).trace(np.ones((64, 2), np.float32))
    assert "AbstractMesh(axes=(('x', 64), ('y', 16)))" in str(traced.jaxpr)
    with pytest.raises(xpr.errors.ArgumentError, match=r"over a mesh without devices, .* f32\[64,2\], .* on no mesh"):
        xpr.core.jaxpr_as_fun(traced.jaxpr)(np.ones((64, 2), np.float32))
    with pytest.raises(xpr.errors.DeviceNotFound):
        xpr.device_put(np.ones((64, 16)), NamedSharding(large, P("x")))
    with pytest.raises(xpr.errors.DeviceNotFound):
        xpr.jit(lambda x: x, in_shardings=NamedSharding(large, P("x")))(np.ones((64, 16)))
    assert NamedSharding(large, P("x")).shard_shape((128, 2)) == (2, 2) and mesh.abstract_mesh.shape == mesh.shape


def test_attributes_of_meshes_and_shardings(mesh):
    sharding = NamedSharding(mesh, P("x"))
    assert sharding.with_spec(P("y")).spec == sharding.update(spec=P("y")).spec == P("y")
    assert sharding.replicated_axes == {"y"} and sharding.has_addressable_devices
    assert sharding.with_memory_kind("device") is sharding
    assert mesh.shape_tuple == (("x", 4), ("y", 2)) and mesh.axis_types == (AxisType.Auto,) * 2
    assert mesh.device_ids.tolist() == np.arange(8).reshape(4, 2).tolist() and mesh.local_devices == xpr.devices()
    assert mesh.update(axis_names=("a", "b")).shape == {"a": 4, "b": 2} and not mesh.is_multi_process
    assert not mesh.is_scalar and Mesh(np.array(xpr.devices()[0]), ()).is_scalar
    assert P("x", ("y",)).count(value="y") == 1 and P("x", ("y",)).index(value=("y",)) == 1
    with pytest.raises(NotImplementedError):
        _ = xpr.sharding.Sharding().memory_kind
    assert P("x", None).partitions == ("x", None) and P().update(("y",)) == P("y")
    with pytest.raises(ValueError, match="3, the size of its axis 0, is not divisible by 2 \\(y\\)"):
        sharding.with_spec(P("y")).check_compatible_aval((3,))
    with pytest.raises(ValueError, match="Could not find memory addressable by device"):
        sharding.with_memory_kind("hbm")


def test_rows_of_vmap_along_an_axis_of_the_mesh(mesh):
    rows = np.stack([X, X + 1, X + 2, X + 3])

    def constrained(x):
        return xpr.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, P("y"))))(x)

    y = xpr.jit(xpr.vmap(constrained, spmd_axis_name="x"))(rows)
    assert y.sharding.spec == P("x", "y")
    close(y, np.sin(rows))
    shapes = []

    def part(x):
        shapes.append(x.shape)
        return x / lax.psum(x, "y")

    mapped = xpr.shard_map(part, mesh=mesh, in_specs=P("y"), out_specs=P("y"))
    y = xpr.vmap(mapped, spmd_axis_name="x")(rows)
    assert y.sharding.spec == P("x", "y") and shapes == [(4, 8)]
    close(y, xpr.vmap(mapped)(rows))


# -- Programs in files


def programs(mesh):
    rows = NamedSharding(mesh, P("x", P.UNCONSTRAINED))
    yield xpr.shard_map(lambda a: a / lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    yield lambda x: lax.with_sharding_constraint(2 * x, rows)
    yield xpr.jit(jnp.sin, in_shardings=NamedSharding(mesh, P(("x", "y"))))
    yield xpr.pmap(lambda a: a / lax.psum(a, "i"), axis_name="i")
    yield xpr.pmap(jnp.sin, devices=xpr.devices()[::-1])


def test_programs_are_read_back(mesh):
    for fun in programs(mesh):
        closed = xpr.make_jaxpr(fun)(X)
        copies = [
            xpr.jaxpr.parse(str(closed)), pickle.loads(pickle.dumps(closed)), xpr.jaxpr.loads(xpr.jaxpr.dumps(closed)),
        ]  # fmt: skip
        for each in copies:
            assert xpr.jaxpr.equal(each, closed) and str(each) == str(closed)
            close(xpr.core.jaxpr_as_fun(each)(X)[0], fun(X))
    for value in (mesh, NamedSharding(mesh, P("x")), SingleDeviceSharding(xpr.devices()[3]), P(P.UNCONSTRAINED)):
        assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)


def test_programs_of_devices_that_are_missing(mesh):
    """They are read, printed and changed, and only not run."""
    for fun in programs(mesh):
        text = str(xpr.make_jaxpr(fun)(X)).replace("cpu:0-7", "cpu:4-11").replace("cpu:7,6,", "cpu:8,7,")
        read = xpr.jaxpr.parse(text)
        if "cpu:" in text:
            with pytest.raises(xpr.errors.DeviceNotFound, match="There is no device cpu:8; there are cpu:0-7"):
                xpr.core.jaxpr_as_fun(read)(X)


def test_a_step_of_training_data_and_model_parallel(mesh):
    """The same numbers on one device, on rows, and on rows and columns."""
    params = {"w": floats(8, 16, salt=3), "v": floats(16, 4, salt=4)}
    target = floats(8, 4, salt=5)

    def step(p, x):
        grads = xpr.grad(lambda p: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - target) ** 2))(p)
        return xpr.tree.map(lambda a, g: a - 0.1 * g, p, grads)

    found = []
    for w, v, rows in ((P(), P(), P()), (P(), P(), P(("x", "y"))), (P(None, "y"), P("y"), P("x"))):
        layout = {"w": NamedSharding(mesh, w), "v": NamedSharding(mesh, v)}
        p, x = xpr.device_put(params, layout), xpr.device_put(X, NamedSharding(mesh, rows))
        jitted = xpr.jit(step, in_shardings=(layout, None), out_shardings=layout, donate_argnums=0)
        for _ in range(3):
            p = jitted(p, x)
        assert p["w"].sharding == layout["w"]
        found.append(p)
    p = params
    for _ in range(3):
        p = step(p, X)
    for each in found:
        close(each, p)


def test_pictures(mesh, capsys):
    xpr.debug.visualize_sharding((8, 4), NamedSharding(mesh, P("y")))
    high = ["│           │"] * 2  # the array is 10 lines high
    assert capsys.readouterr().out.splitlines() == [
        "┌───────────┐", high[0], "│CPU 0,2,4,6│", *high, "├───────────┤",
        high[0], "│CPU 1,3,5,7│", *high, "└───────────┘",
    ]  # fmt: skip
    xpr.debug.visualize_array_sharding(xpr.device_put(X[0], NamedSharding(mesh, P("y"))))
    assert capsys.readouterr().out.splitlines()[1] == "│CPU 0,2,4,6│CPU 1,3,5,7│"
    xpr.debug.visualize_sharding((4,), NamedSharding(mesh, P("y")), min_width=16, scale=16, max_width=120)
    rule, text, _ = capsys.readouterr().out.splitlines()
    assert rule == "┌" + "─" * 48 + "┬" + "─" * 48 + "┐" and text == f"│{'CPU 0,2,4,6':^48}│{'CPU 1,3,5,7':^48}│"
    xpr.debug.visualize_sharding((1, 32), NamedSharding(mesh, P(None, "y")))  # all of it is 80 wide, not each part
    assert capsys.readouterr().out.splitlines()[0] == "┌" + "─" * 38 + "┬" + "─" * 39 + "┐"
    xpr.debug.visualize_sharding((1, 32), NamedSharding(mesh, P(None, "y")), max_width=10)  # as far as texts allow
    assert capsys.readouterr().out.splitlines()[0] == "┌" + "─" * 11 + "┬" + "─" * 11 + "┐"
    with pytest.raises(ValueError, match="one or two axes"):
        xpr.debug.visualize_array_sharding(jnp.ones(()))


def test_pictures_are_colored_in_a_terminal(mesh, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    sharding = NamedSharding(mesh, P("y"))
    xpr.debug.visualize_sharding((4, 2), sharding, color_map=lambda fraction: (fraction, fraction, fraction, 1.0))
    dark, light = (line for line in capsys.readouterr().out.splitlines() if "CPU" in line)
    assert dark == "│\x1b[97;48;2;0;0;0mCPU 0,2,4,6\x1b[0m│"
    assert light == "│\x1b[30;48;2;255;255;255mCPU 1,3,5,7\x1b[0m│"
    xpr.debug.visualize_sharding((4, 2), sharding)
    assert "48;2;64;64;64m" in capsys.readouterr().out
    xpr.debug.visualize_sharding((4, 2), sharding, use_color=False)
    assert "\x1b" not in capsys.readouterr().out


class OfGroups(NamedTuple):
    """What is read of a device."""

    process_index: int
    slice_index: int | None
    id: int


def test_hybrid_meshes():
    devices = np.empty(8, object)
    devices[:] = [OfGroups(i // 4, i // 2, i) for i in (4, 5, 6, 7, 0, 1, 2, 3)]
    found = create_hybrid_device_mesh((2, 1), (1, 4), devices)
    assert [[device.id for device in row] for row in found] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    for is_sorted, first in ((True, 0), (False, 4)):
        found = create_hybrid_device_mesh(
            (2, 2), (2, 1), devices, process_is_granule=True, should_sort_granules_by_key=is_sorted
        )
        assert found.shape == (4, 2) and found[0, 0].id == first
    with pytest.raises(ValueError, match="is a mesh of 3 groups, and by process_index there are 2"):
        create_hybrid_device_mesh((2, 2), (3, 1), devices, process_is_granule=True)
    with pytest.raises(ValueError, match="has no slice_index, which says its group. With process_is_granule=True"):
        create_hybrid_device_mesh((2, 2), (2, 1), [OfGroups(0, None, 0)])


def test_structs_have_manual_axes(mesh):
    def f(x):
        struct = xpr.ShapeDtypeStruct(x.shape, x.dtype, manual_axis_type=x.mat)
        assert struct.aval.varying == x.aval.varying == struct.manual_axis_type.varying == {"x"}
        assert struct.update(dtype="int32").manual_axis_type == x.mat
        return xpr.pure_callback(np.sin, struct, x)

    y = xpr.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    assert xpr.ShapeDtypeStruct((2,), float).manual_axis_type is None
    mat = ManualAxisType(varying=frozenset("x"), reduced=frozenset("y"))
    assert mat.vur == {"x", "y"} and not mat.empty and mat.to_ct_mat().unreduced == {"y"}
    assert mat.update(reduced=frozenset()).vur == {"x"} and ManualAxisType().empty


def test_what_the_compiler_chose(mesh, capsys):
    """It is told when a program compiles, in loops and maps too; a value on each device by itself has one shard."""
    found = {}

    def look(name, x):
        xpr.debug.inspect_array_sharding(x, callback=lambda sharding: found.update({name: sharding}))
        return x

    def by_hand(axis_names):
        name = f"along {sorted(axis_names)}"
        spec = P(*sorted(axis_names))
        return xpr.shard_map(
            lambda a: look(name, a), mesh=mesh, in_specs=spec, out_specs=spec, axis_names=axis_names, check_vma=False
        )

    def fun(x):
        look("turned", (x + x).T)
        carry, _ = lax.scan(lambda c, _: (look("carry", c) * 2, None), x, None, length=3)
        xpr.vmap(lambda row: look("row", row))(x)
        by_hand({"x"})(x)
        by_hand({"x", "y"})(x)
        xpr.debug.visualize_array_sharding(x.sum(1))
        return carry.sum()

    x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
    for wrap in (lambda f: f, xpr.grad):
        found.clear()
        for _ in range(2):
            xpr.jit(wrap(fun))(x)
        assert {name: sharding.spec for name, sharding in found.items()} == {
            "turned": P("y", "x"), "carry": P("x", "y"), "row": P("y"), "along ['x']": P(None, "y"),
            "along ['x', 'y']": P(),
        }  # fmt: skip
    assert {sharding.mesh for sharding in found.values()} == {mesh}
    assert capsys.readouterr().out.splitlines()[1] == "│CPU 0,1│CPU 2,3│CPU 4,5│CPU 6,7│"
    xpr.jit(lambda x: look("alone", x) + 1)(X)
    assert found["alone"] == SingleDeviceSharding(xpr.devices()[0])
    with pytest.raises(ZeroDivisionError):  # an exception of the callback arrives
        xpr.jit(lambda x: (xpr.debug.inspect_array_sharding(x, callback=lambda s: 1 // 0), x)[1])(x)
    holder = type("Holder", (), {"__jax_array__": lambda self: x})()
    look("held", holder)
    xpr.debug.visualize_array_sharding(holder)
    assert found["held"] == x.sharding and "CPU" in capsys.readouterr().out
    for value, callback in ((3, print), (x, None)):
        with pytest.raises(TypeError, match="inspect_array_sharding: "):
            xpr.debug.inspect_array_sharding(value, callback=callback)


def test_a_contraction_over_heads_gathers_nothing(mesh):
    """Merged with its neighbours, which is better on one device, the partitioned axis would be gathered."""
    sharding = NamedSharding(mesh, P(None, None, "x"))
    x, weights = floats(2, 3, 8, 4), floats(3, 8, 4, 16)
    compiled = xpr.jit(
        lambda x, w: jnp.einsum("bthd,thdw->bw", x, w), in_shardings=(sharding, NamedSharding(mesh, P(None, "x")))
    )
    (found,) = compiled.lower(x, weights).compile().collectives()
    assert found == ("all-reduce", 2 * 16 * 4, ("x",), 4, 1)
    close(compiled(x, weights), np.einsum("bthd,thdw->bw", x, weights), 1e-4)


@pytest.mark.parametrize("axes", [0, 1, (0, 1), (0, 2), None], ids=str)
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_reductions_along_partitioned_axes(mesh, name, axes):
    for shape in ((8, 6, 3), (4, 2, 10000)):  # rows so long that one device has another program for them
        x = floats(*shape)
        for value in (0.5, np.nan):
            x[3, 1, 2] = value
            sharded = xpr.device_put(x, NamedSharding(mesh, P("x", "y")))
            found = xpr.jit(lambda x: getattr(jnp, name)(x, axes))(sharded)
            close(found, getattr(np, name)(x, axes).astype(found.dtype), 1e-3)


def test_jit_on_one_device(mesh):
    third = xpr.devices()[2]
    arguments = [X, jnp.asarray(X), xpr.device_put(X, xpr.devices()[1]), xpr.device_put(X, NamedSharding(mesh, P("x")))]
    here = SingleDeviceSharding(third)
    ways = [{"device": third}, {"out_shardings": here}, {"in_shardings": (here, None)}, {"out_shardings": {"a": here}}]
    closed_over = jnp.ones(8) + 0
    for options in ways:
        double = xpr.jit(lambda x, y: {"a": x * 2 + closed_over}, **options)
        for x in arguments:
            y = double(x, 1.0)["a"]
            assert y.sharding == here
            close(y, X * 2 + 1)
    close(xpr.jit(lambda x, y: x + y, device=third, donate_argnums=0)(arguments[2], X), 2 * X)
    assert arguments[2].is_deleted()
    with pytest.raises(ValueError) as error:
        xpr.jit(jnp.sin, in_shardings=here, out_shardings=NamedSharding(mesh, P("x")))
    assert str(error.value).startswith(
        "jit: in_shardings and out_shardings hold SingleDeviceSharding(device=CpuDevice("
    )
    assert "A program runs on one device, or on those of one mesh" in str(error.value)


def test_constraints_to_one_device(mesh):
    """What they give is on the device, and not on a mesh of it."""
    third = xpr.devices()[2]
    here, x = SingleDeviceSharding(third), jnp.asarray(X)

    def constrained(x):
        return lax.with_sharding_constraint(jnp.sin(x), here)

    beside = xpr.device_put(X, third)
    for fun in (constrained, xpr.jit(constrained), xpr.vmap(constrained), xpr.jit(constrained).lower(X).compile()):
        for given in (x, beside) if not isinstance(fun, xpr.stages.Compiled) else (X, beside):
            for _ in range(2):  # the second time by the path of known calls
                y = fun(given)
                assert y.sharding == here and y.committed and y.aval.sharding.mesh.empty
                close(y + beside, np.sin(X) + X)
    assert xpr.grad(lambda x: constrained(x).sum())(x).sharding == here
    compiled = xpr.jit(constrained).lower(X).compile()
    assert compiled.input_shardings == ((here,), {}) and compiled.output_shardings == here
    called = xpr.jit(lambda x: xpr.pure_callback(lambda x: np.asarray(x) + 1, x, constrained(x)))
    assert called(x).sharding == here
    key = xpr.jit(lambda key: lax.with_sharding_constraint(key, here))(xpr.random.key(0))
    assert key.sharding == here
    with pytest.raises(ValueError, match=r"Got argument x .* on device ids \[1\], and .* ids \[2\], those of cpu:2"):
        lax.with_sharding_constraint(xpr.device_put(X, xpr.devices()[1]), here)
    closed = xpr.make_jaxpr(constrained)(X)
    assert "mesh=MeshOfOneDevice(device='cpu:2')" in str(closed)
    for copied in (xpr.jaxpr.parse(str(closed)), pickle.loads(pickle.dumps(closed))):
        assert xpr.jaxpr.equal(copied, closed)
        assert xpr.core.jaxpr_as_fun(copied)(X)[0].sharding == here
    missing = xpr.jaxpr.parse(str(closed).replace("cpu:2", "cpu:9"))
    with pytest.raises(xpr.errors.DeviceNotFound, match="There is no device cpu:9"):
        xpr.core.jaxpr_as_fun(missing)(X)
    there = here.with_memory_kind("pinned_host")
    assert lax.with_sharding_constraint(x, there).sharding == there


def test_constraints_of_arrays_that_are_on_no_device_to_the_memory_of_the_host(mesh):
    rows = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    for fun in (
        lambda x: lax.with_sharding_constraint(x, rows),
        xpr.jit(lambda x: lax.with_sharding_constraint(x, rows)),
    ):
        assert fun(jnp.asarray(X)).sharding == rows


def test_a_mesh_of_one_device_beside_the_device():
    """Arrays on both are on the same devices, and are computed with together."""
    fourth = xpr.devices()[3]
    rows = NamedSharding(Mesh(np.array([fourth]), "x"), P("x"))
    on_mesh, on_device = xpr.device_put(X, rows), xpr.device_put(X, fourth)
    assert (on_mesh + on_device).sharding == rows
    both = xpr.jit(lambda a, b: (a @ b, a, b))
    for _ in range(2):  # the second time by the path of known calls
        for a, b in ((on_mesh, on_device), (on_device, on_mesh), (on_device, on_device), (on_mesh, on_mesh)):
            product, *others = both(a, b)
            close(product, X @ X)
            assert product.devices() == {fourth}
            assert [y.sharding.device_set for y in others] == [{fourth}] * 2
            assert jnp.stack([a, b]).devices() == {fourth}
    assert both(on_device, on_device)[0].sharding == SingleDeviceSharding(fourth)
    for a, b in ((on_mesh, xpr.device_put(X, xpr.devices()[0])), (xpr.device_put(X, xpr.devices()[0]), on_mesh)):
        with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
            both(a, b)


def test_dlpack_hands_over_one_device(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    for ask in (np.from_dlpack, jnp.from_dlpack, lambda x: x.__dlpack__(), lambda x: x.__dlpack_device__()):
        with pytest.raises(
            BufferError, match=r"of type f32\[8,8\] is on 8, as NamedSharding.* xpr\.device_put\(x, device\)"
        ):
            ask(x)
    np.testing.assert_array_equal(np.from_dlpack(x.addressable_shards[2].data), X[2:4])


def test_shardings_of_keys(mesh):
    keys = xpr.device_put(xpr.random.split(xpr.random.key(0), 8), NamedSharding(mesh, P("x")))
    assert keys.sharding == keys.device == NamedSharding(mesh, P("x"))
    assert keys.committed and keys.is_fully_addressable and not keys.is_fully_replicated
    shard = keys.addressable_shards[2]
    assert (shard.index, shard.replica_id, shard.device) == ((slice(2, 4),), 0, xpr.devices()[2])
    np.testing.assert_array_equal(xpr.random.key_data(shard.data), xpr.random.key_data(keys)[2:4])
    words = NamedSharding(mesh, P(None, "y"))  # keys are not split into their words
    for put in (xpr.device_put, lax.with_sharding_constraint, xpr.jit(lax.with_sharding_constraint, static_argnums=1)):
        assert put(keys, NamedSharding(mesh, P("y"))).sharding.spec == P("y")
        with pytest.raises(
            ValueError, match=r"\(8,\) can't be sharded by P\(None, 'y'\).*: the spec has 2 elements, and .* 1 axes"
        ):
            put(keys, words)
    alone = xpr.random.key(0)
    assert alone.sharding == SingleDeviceSharding(xpr.devices()[0]) and alone.device is xpr.devices()[0]
    assert alone.is_fully_replicated and not alone.committed


def test_arrays_like_others_have_their_sharding(mesh):
    sharding = NamedSharding(mesh, P("x"))
    for x in (xpr.device_put(X, sharding), xpr.device_put(np.ones((8, 9000), np.float32), sharding)):
        for y in (jnp.zeros_like(x), jnp.ones_like(x, dtype=int), jnp.full_like(x, 2), jnp.empty_like(x)):
            assert y.sharding == sharding and y.shape == x.shape
        assert jnp.zeros_like(x, shape=(3,)).sharding == SingleDeviceSharding(xpr.devices()[0])
        assert jnp.zeros_like(x, device=xpr.devices()[1]).sharding == SingleDeviceSharding(xpr.devices()[1])
    for n in (7, 70001):
        with pytest.raises(ValueError, match=rf"device: an array of shape \({n},\) can't be sharded by P\('x',\)"):
            jnp.zeros(n, device=sharding)


def test_specs_are_equal_where_they_say_the_same():
    assert P(("x",)) == P(["x"]) == P("x") and P(()) == P(None) and hash(P(("x",))) == hash(P("x"))
    assert P(("x", "y")) == P(["x", "y"]) != P("x", "y")


def test_series_of_sharded_arrays(mesh):
    x = floats(80, 80)
    sharded = xpr.device_put(x, NamedSharding(mesh, P("x", "y")))

    def fun(x):
        return jnp.tanh(x @ x.T / 80) * x

    (value, rows), (expected, others) = (xpr.taylor(fun, (a,), ([a, 0.0, 0.0],)) for a in (sharded, jnp.asarray(x)))
    close([value, *rows], [expected, *others])


def test_arrays_show_libraries_what_jax_s_arrays_do():
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    sharding = NamedSharding(mesh, P("y", "x"))
    x = xpr.device_put(jnp.arange(32.0).reshape(8, 4), sharding)
    assert x._committed and not jnp.ones(2)._committed
    np.testing.assert_array_equal(x._value, np.arange(32.0).reshape(8, 4))
    assert sharding._device_assignment == tuple(mesh.devices.flat)
    assert sharding._to_xla_hlo_sharding(2).tile_assignment_devices() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert SingleDeviceSharding(xpr.devices()[1])._to_xla_hlo_sharding(1).is_replicated()
    assert x.on_device_size_in_bytes() == 8 * x.addressable_data(0).on_device_size_in_bytes() == 128
    whole = xpr.device_put(jnp.arange(3), NamedSharding(mesh, P()))
    assert whole._fully_replicated_shard().sharding.num_devices == 1
    assert whole.on_device_size_in_bytes() == 8 * 3 * 4
    copy = jnp.array(x, copy=True)
    assert copy.sharding == sharding
    pointers = [each.addressable_data(0).unsafe_buffer_pointer() for each in (copy, x)]
    assert pointers[0] != pointers[1]
    one = xpr.device_put(np.ones((2, 3)), NamedSharding(Mesh(xpr.devices()[3:4], "x"), P("x")))
    assert [row.devices() for row in one] == [{xpr.devices()[3]}] * 2


def test_local_data_of_pytrees():
    data = {"a": np.arange(10.0).reshape(2, 5), "b": np.ones(4)}
    mesh = xpr.make_mesh((2,), "x")
    with xpr.set_mesh(mesh):
        made = xpr.make_array_from_process_local_data(P("x"), data, {"a": (2, 5), "b": None})
    assert made["a"].sharding == made["b"].sharding == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(made["a"], data["a"])
    on_one = xpr.make_array_from_process_local_data(xpr.devices()[2], data)
    assert on_one["b"].devices() == {xpr.devices()[2]}
    for shape in ({"a": (2, 6), "b": None}, {"a": (2, 5)}, (2, 5)):
        with pytest.raises(ValueError, match=r"make_array_from_process_local_data|global_shape"):
            xpr.make_array_from_process_local_data(xpr.devices()[0], data, shape)


def test_arrays_of_parts_say_what_they_can_not_be_made_of():
    sharding = NamedSharding(xpr.make_mesh((2,), "x"), P("x"))
    parts = [jnp.ones(1), jnp.ones(1)]
    with pytest.raises(TypeError, match="`arrays` argument must be a list of the part for each device"):
        xpr.make_array_from_single_device_arrays((2,), sharding, jnp.ones(2))
    with pytest.raises(ValueError, match="arrays must have one shard each, and that at 0 has 2, with NamedSharding"):
        xpr.make_array_from_single_device_arrays((2,), sharding, [xpr.device_put(jnp.ones(2), sharding)])
    with pytest.raises(ValueError, match=r"the array 0 axes. For scalars the PartitionSpec should be P\(\)"):
        xpr.device_put(1.0, sharding)
    with pytest.raises(ValueError, match="a list of concrete arrays, and a part is a traced array of type f32"):
        xpr.jit(lambda x: xpr.make_array_from_single_device_arrays((2,), sharding, [x, x]))(parts[0])
    with pytest.raises(ValueError, match="the parts have dtype float32, and dtype=int32 is asked for"):
        xpr.make_array_from_single_device_arrays((2,), sharding, parts, dtype="int32")
    with pytest.raises(xpr.errors.UnexpectedTracerError, match=r"cannot be called within a traced context.*f32"):
        xpr.jit(lambda x: xpr.make_array_from_callback((2,), sharding, lambda i: x))(parts[0])


def test_parts_are_those_of_their_devices_in_any_order(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    parts = [shard.data for shard in x.addressable_shards]

    def whole(parts, sharding=x.sharding):
        return xpr.make_array_from_single_device_arrays((8, 8), sharding, parts)

    np.testing.assert_array_equal(whole(parts[::-1]), X)
    np.testing.assert_array_equal(whole([2 * part for part in parts[3:] + parts[:3]]), 2 * X)
    np.testing.assert_array_equal(whole([*parts[4:], *map(np.asarray, parts[:4])]), X)
    with pytest.raises(ValueError, match=r"must be from distinct devices, but got device IDs \[0, 1, 2, 3, 4, 5, 6, 0"):
        whole([*parts[:7], parts[0]])
    half = NamedSharding(Mesh(mesh.devices.flat[:4], ("x",)), P("x"))
    with pytest.raises(ValueError, match=r"do not match. The sharding has device IDs \[0.*3\], .*parts on \[4, 5\]"):
        whole(parts[2:6], half)


def test_gradients_are_sharded_as_what_device_put_moved(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P(None, "x")))
    for target in (P(), P("x"), P("y", "x")):
        gradient = xpr.grad(lambda x, target=target: (xpr.device_put(x, NamedSharding(mesh, target)) ** 2).sum())(x)
        assert gradient.sharding == x.sharding
        np.testing.assert_array_equal(gradient, 2 * X)


def test_equal_meshes_and_specs_are_the_same_object(mesh):
    assert xpr.make_mesh((4, 2), ("x", "y")) is mesh and Mesh(mesh.devices, ("x", "y")) is mesh
    assert copy.deepcopy(mesh) is mesh and pickle.loads(pickle.dumps(mesh)) is mesh
    assert Mesh(mesh.devices, ("x", "z")) is not mesh and Mesh(mesh.devices[::-1], ("x", "y")) != mesh
    assert P((), "x") is P(None, "x") and copy.deepcopy(P("x")) is P("x") and P("x") + P("y") is P("x", "y")


def test_a_sharding_without_devices_has_no_kind_of_memory(mesh):
    without = NamedSharding(mesh.abstract_mesh, P("x"))
    assert without.memory_kind is None and NamedSharding(mesh, P("x")).memory_kind == "device"
    assert NamedSharding(mesh.abstract_mesh, P("x"), memory_kind="device") == without
    assert NamedSharding(mesh.abstract_mesh, P(), memory_kind="pinned_host").memory_kind == "pinned_host"
    with pytest.raises(ValueError, match="Got invalid memory kind: fast"):
        NamedSharding(mesh.abstract_mesh, P(), memory_kind="fast")


def test_the_parts_of_an_array_by_jax_s_private_name(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    assert [part.shape for part in x._arrays] == [(2, 8)] * 8
    x.delete()
    assert x._arrays is None


def test_what_is_read_of_an_array_stays_on_its_devices():
    """Whether or not the array has been fetched before."""
    mesh, values = xpr.make_mesh((4, 2), ("x", "y")), np.arange(64.0, dtype=np.float32).reshape(8, 2, 4)
    x = xpr.device_put(values, NamedSharding(mesh, P("x", None, "y")))
    for fetched in (False, True):
        assert not fetched or np.asarray(x).size == 64
        for part, expected, spec in [
            (x[:, -1, :], values[:, -1], P("x", "y")),
            (x[:, ::-1], values[:, ::-1], P("x", None, "y")),
            (x[0], values[0], P(None, "y")),
            (jnp.take(x, 1, axis=1), values[:, 1], P("x", "y")),
        ]:
            assert part.sharding == NamedSharding(mesh, spec)
            np.testing.assert_array_equal(part, expected)
    whole = xpr.device_put(values, NamedSharding(mesh, P()))
    for row, expected in zip(whole, values):
        assert row.sharding == NamedSharding(mesh, P()) and len(row.addressable_shards) == 8
        np.testing.assert_array_equal(row.addressable_shards[7].data, expected)


MADE_IN_PROGRAMS = {
    "array": lambda x, s: jnp.array(x, np.int32, device=s),
    "asarray": lambda x, s: jnp.asarray(x, device=s),
    "zeros": lambda x, s: jnp.zeros(x.shape, device=s),
    "full": lambda x, s: jnp.full(x.shape, x[0, 0], device=s),
    "ones_like": lambda x, s: jnp.ones_like(x, device=s),
    "eye": lambda x, s: jnp.eye(8, device=s),
    "like one outside": lambda x, s: jnp.zeros_like(xpr.device_put(X, s)),
    "like a type": lambda x, s: jnp.zeros_like(xpr.ShapeDtypeStruct((8, 8), "float32", sharding=s)),
}


@pytest.mark.parametrize("name", MADE_IN_PROGRAMS)
def test_arrays_that_programs_make_have_the_sharding_asked_for(mesh, name):
    sharding = NamedSharding(mesh, P("x", "y"))
    found = xpr.jit(lambda x: MADE_IN_PROGRAMS[name](x, sharding))(X)
    assert found.sharding == sharding
    close(found, xpr.jit(lambda x: MADE_IN_PROGRAMS[name](x, None))(X) if "like " not in name else np.zeros_like(X))
    with pytest.raises(ValueError, match="3, the size of its axis 0, is not divisible by 4"):
        xpr.jit(lambda: jnp.arange(3, device=NamedSharding(mesh, P("x"))))()


def test_structs_with_shardings(mesh):
    rows = NamedSharding(mesh, P("x"))
    struct = xpr.ShapeDtypeStruct((8, 2), "int32", sharding=rows)
    assert jnp.ones_like(struct).sharding == rows and jnp.ones_like(struct, shape=(3,)).sharding.num_devices == 1
    without = NamedSharding(mesh.abstract_mesh, P("x"))
    assert jnp.ones_like(xpr.ShapeDtypeStruct((8, 2), "int32", sharding=without)).sharding.num_devices == 1
    form = Format(Layout((0, 1)), rows)
    formatted = struct.update(sharding=form)
    assert formatted.sharding == rows and formatted.format == form == formatted.update(shape=(4, 2)).format
    with pytest.raises(ValueError, match="updating ShapeDtypeStruct: it has the format"):
        formatted.update(sharding=rows)
    for sharding in (P(None, "x", None), NamedSharding(mesh, P(None, "x", None))):
        with pytest.raises(ValueError, match=r"has 2 axes, and can't be sharded by P\(None, 'x', None\), which has 3"):
            xpr.ShapeDtypeStruct((8, 2), "int32", sharding=sharding)


def test_parts_of_arrays_have_their_layout(mesh):
    values = np.arange(64, dtype=np.float32).reshape(16, 4)
    form = Format(Layout((1, 0), ()), NamedSharding(mesh, P("x", "y")))
    x = xpr.device_put(values, form)
    assert x.format == form and x.tolist() == values.tolist() and (x + 1).tolist() == (values + 1).tolist()
    assert {shard.data.format.layout for shard in x.addressable_shards} == {form.layout}
    f = xpr.jit(lambda x: 2 * x, in_shardings=form, out_shardings=form)
    assert f(f(x)).format == form and f(f(x)).tolist() == (4 * values).tolist()
    compiled = (
        xpr.jit(jnp.transpose, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
        .lower(xpr.ShapeDtypeStruct(values.shape, values.dtype, sharding=form.sharding))
        .compile()
    )
    (taken,), given = compiled.input_formats[0], compiled.output_formats
    assert taken.layout.major_to_minor == given.layout.major_to_minor[::-1]
    assert compiled(xpr.device_put(values, taken)).tolist() == values.T.tolist()


def test_jit_is_told_once_where_to_run(mesh):
    rows, device = NamedSharding(mesh, P("x")), xpr.devices()[1]
    with pytest.raises(ValueError, match=r"both a device and a backend for jit: device=.*1\), backend='cpu'"):
        xpr.jit(lambda x: x, device=device, backend="cpu")
    for name in ("in_shardings", "out_shardings"):
        with pytest.raises(ValueError, match=f"device=.* says where to run, and so does {name}=NamedSharding"):
            xpr.jit(lambda x: x, device=device, **{name: rows})
        with pytest.raises(ValueError, match=f"Unconstrained dims are not allowed in {name}"):
            xpr.jit(lambda x: x, **{name: (NamedSharding(mesh, P(P.UNCONSTRAINED, "x")),)})
    with pytest.raises(
        ValueError, match="in_shardings are those of the positional arguments, and x was passed by name"
    ):
        xpr.jit(lambda x: x, in_shardings=rows)(x=X)
    with pytest.raises(ValueError, match=r"should be a sequence of ints, one for each axis: \(4.0, 2\)"):
        xpr.make_mesh((4.0, 2), ("x", "y"))


def test_programs_for_a_mesh_without_devices_are_compiled_for_some(mesh):
    without = mesh.abstract_mesh
    struct = xpr.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(without, P("x")))

    def product(x):
        return lax.with_sharding_constraint(x @ x.T, NamedSharding(without, P("x", "y")))

    lowered = xpr.jit(product).trace(struct).lower(lowering_platforms=("tpu",))
    found = lowered.compile(device_assignment=xpr.devices())(X)
    assert found.sharding == NamedSharding(mesh, P("x", "y"))
    close(found, X @ X.T)
    with pytest.raises(ValueError, match=r"of abstract mesh 8, .*, must match the length of device assignment: 1\."):
        lowered.compile(device_assignment=xpr.devices()[:1])
    with pytest.raises(
        RuntimeError, match="compile: device_assignment cannot be `None` during compilation, as product"
    ):
        lowered.compile()
    with pytest.raises(TypeError, match="NamedSharding: Unexpected None, which is no PartitionSpec"):
        NamedSharding(mesh, None)
    with pytest.raises(
        ValueError, match="zeros: out_sharding=.*, and a sharding with memory_kind is not allowed there"
    ):
        jnp.zeros(8, out_sharding=NamedSharding(without, P("x"), memory_kind="pinned_host"))


def test_what_stays_on_its_devices_is_not_transferred(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    others = NamedSharding(Mesh(mesh.devices[::-1], ("x", "y")), P("y"))
    with xpr.transfer_guard_device_to_device("disallow_explicit"):
        assert xpr.device_put(x, others).sharding == others
        with pytest.raises(xpr.errors.TransferError, match="Explicit device-to-device transfer"):
            xpr.device_put(x, xpr.devices()[0])


def test_why_a_function_is_compiled_again(mesh, caplog):
    double, rows = xpr.jit(lambda x, y: x + y), NamedSharding(mesh, P("x"))
    with xpr.explain_cache_misses():
        double(X, xpr.device_put(X, rows)), double(xpr.device_put(X, rows), xpr.device_put(X, rows)), double(X, X)
    _, again, on_one = [record.getMessage() for record in caplog.records]
    assert "TRACING CACHE MISS" in again and "called at sharding_cases.py:" in again
    assert again.endswith("at x, now f32[8,8] on AbstractMesh('x': 4, 'y': 2) and before f32[8,8]")
    assert on_one.endswith("at y, now f32[8,8] and before f32[8,8] on AbstractMesh('x': 4, 'y': 2)")
    columns = NamedSharding(mesh, P(None, "y"))
    with xpr.explain_cache_misses():
        double(xpr.device_put(X, rows), xpr.device_put(X, columns))
    assert caplog.records[-1].getMessage().endswith(f"different shardings: at y, now {columns} and before {rows}")


def test_rows_and_what_is_in_them_are_along_different_axes_of_the_mesh(mesh):
    rows = NamedSharding(mesh, P("x"))
    within = xpr.vmap(lambda x: lax.with_sharding_constraint(x, rows), 1, 1)
    assert within(jnp.ones((8, 2, 3))).sharding.spec == P("x", None)
    assert xpr.vmap(lambda x: lax.with_sharding_constraint(x, rows))(jnp.ones((2, 8, 3))).sharding.spec == P(None, "x")
    with pytest.raises(ValueError, match=r"vmap: the mapped axis .* over 'x', by .* or by spmd_axis_name, and P\('x"):
        xpr.vmap(lambda x: lax.with_sharding_constraint(x, rows), spmd_axis_name="x")(jnp.ones((8, 8)))


def test_an_array_that_is_rolled_stays_partitioned(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
    for shift, axis in ((1, 0), ((1, -3), (0, 1)), (0, 1)):
        rolled = jnp.roll(x, shift, axis)
        assert rolled.sharding == x.sharding
        np.testing.assert_array_equal(rolled, np.roll(X, shift, axis))


# -- Types of arrays over Auto axes


def mesh_of_type(x):
    return xpr.typeof(x).sharding.mesh


def test_types_have_the_mesh_of_auto_axes(mesh):
    """What is computed from an array on a mesh of Auto axes has the mesh in its type, and nothing of its parts."""
    x, axes = xpr.device_put(X, NamedSharding(mesh, P("x"))), mesh.abstract_mesh

    def f(x):
        assert x.aval.sharding == NamedSharding(axes, P(*[None] * x.ndim))
        assert x.aval.str_short() == f"f32[{len(X)},{len(X[0])}]"
        for y in (x * 2, x.sum(), x.T, x[0], jnp.where(x > 1, x, 0), xpr.vmap(jnp.sin)(x), xpr.grad(jnp.sum)(x)):
            assert mesh_of_type(y) == axes
        scanned, rows = lax.scan(
            lambda c, row: (c + row, c), jnp.zeros(len(X[0])), x
        )  # of which the carry starts on none
        chosen = lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: jnp.zeros_like(x), x)
        return scanned, rows, chosen

    assert mesh_of_type(x) == mesh_of_type(x + 1) == mesh_of_type(xpr.random.split(xpr.device_put(
        xpr.random.key(0), NamedSharding(mesh)))) == axes  # fmt: skip
    eager, jitted = f(x), xpr.jit(f)(x)
    for a, b in zip(eager, jitted):
        assert mesh_of_type(a) == mesh_of_type(b) == axes
        np.testing.assert_allclose(a, b, rtol=1e-5)
    closed = xpr.make_jaxpr(f)(x)
    xpr.core.check_jaxpr(closed)
    assert xpr.jaxpr.equal(xpr.jaxpr.parse(str(closed)), closed)
    aval = x.aval
    assert pickle.loads(pickle.dumps(aval)) is aval and aval.plain is not aval and aval.update(dtype=int).mesh == axes
    assert mesh_of_type(X).empty and mesh_of_type(xpr.device_put(X, xpr.devices()[0])).empty
    assert xpr.jit(lambda x: x * 2)(x).aval is (x * 2).aval
    rows = xpr.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert xpr.make_jaxpr(rows)(x).out_avals == [rows(x).aval] == [aval]
    double = xpr.jit(lambda x: x * 2)
    assert double(x).aval is double(x).aval is aval  # of the first call, and of a known one


def test_results_are_on_the_meshes_of_their_types(mesh):
    explicit = Mesh(mesh.devices, mesh.axis_names, (xpr.sharding.AxisType.Explicit,) * 2)
    x, y = (xpr.device_put(X, NamedSharding(each, P("x"))) for each in (explicit, mesh))
    a, b = xpr.jit(lambda x, y: (x * 2, y * 2))(x, y)
    assert (a.sharding.mesh, b.sharding) == (explicit, NamedSharding(mesh, P("x")))
    axes = xpr.sharding.AbstractMesh((4, 2), ("a", "b"))

    @xpr.jit
    def along_others(x):
        with xpr.sharding.use_abstract_mesh(axes):
            x = lax.with_sharding_constraint(jnp.sin(x), P(("a", "b")))
        assert x.aval.sharding.mesh == axes
        return x * 2

    with xpr.set_mesh(mesh):
        assert along_others(xpr.device_put(X, P("x", "y"))).sharding == NamedSharding(mesh.along(axes), P(("a", "b")))

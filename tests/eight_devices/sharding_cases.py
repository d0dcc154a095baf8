"""Sharded arrays, jit of them, and shard_map, on eight devices; beside NumPy, and beside jax."""

import copy
import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import random_programs
from tests.eight_devices.pmap_cases import all_close, close, jax_module
from tests.ops.table import floats
from xpr import checkify, lax
from xpr.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

X, W = floats(8, 8), floats(8, 6, salt=1)


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


SPECS = [P(), P("x"), P("x", "y"), P("y", "x"), P(None, "x"), P(("x", "y")), P(("y", "x"), None), P(None, ("y", "x"))]


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
    assert len(set(same)) == len(same) == np.prod(sharding.cuts(2))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(x + 0, X)  # from the devices
    np.testing.assert_array_equal(x[1:3, 2], X[1:3, 2])
    np.testing.assert_array_equal(list(x)[3], X[3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), X)
    as_jax_has_it(x, spec)


def as_jax_has_it(x, spec):
    jax = jax_module()
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
    for place in (xpr.devices()[5], SingleDeviceSharding(xpr.devices()[5])):
        moved = xpr.device_put(x, place)
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
        all_close(found, {"rows": X.sum(1), "whole": X * 2})
        assert found["whole"].sharding.is_equivalent_to(x.sharding, 2)
    all_close(sums(X), {"rows": X.sum(1), "whole": X * 2})
    assert len(sums(X)["whole"].devices()) == 1


def test_jit_with_shardings(mesh):
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    dense = xpr.jit(
        lambda x, p: {"out": x @ p["w"], "w": p["w"]}, in_shardings=(rows, {"w": columns}),
        out_shardings={"out": NamedSharding(mesh, P("x", "y")), "w": None},
    )  # fmt: skip
    found = dense(X, {"w": W})
    all_close(found, {"out": X @ W, "w": W})
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
        all_close(compiled(x, k={"w": 2.0}), {"sum": X.sum(1), "t": 2 * X.T})
    alone = SingleDeviceSharding(xpr.devices()[0])
    assert xpr.jit(jnp.sin).lower(X).compile().output_shardings == alone


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
    with pytest.raises(ValueError, match="has shape \\(1, 8\\) and not \\(2, 8\\)"):
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
    places = np.repeat(10 * np.arange(4), 2)[:, None] + np.repeat(np.arange(2), 4)[None]
    close(rings(x), X + places.astype(np.float32))


def test_fewer_devices_than_there_are():
    half = xpr.make_mesh((4,), ("x",))
    x = xpr.device_put(X, NamedSharding(half, P("x")))
    close(jnp.sin(x) @ W, np.sin(X) @ W)
    everywhere = xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("x",)), P("x")))
    with pytest.raises(ValueError, match="Operands are on different devices"):
        x + everywhere


# -- The current mesh


def test_specs_of_the_current_mesh(mesh):
    """JAX's spelling, `with set_mesh(mesh)`, and `with mesh`; a jitted function is traced for each mesh."""
    other = xpr.make_mesh((2, 4), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    constrained = xpr.jit(lambda x: lax.with_sharding_constraint(2 * x, P("x")))
    given = xpr.jit(lambda x, p: x @ p["w"], in_shardings=(P("x"), {"w": P(None, "y")}), out_shardings=P("x", "y"))
    summed = xpr.shard_map(lambda x: lax.psum(x, "x"), in_specs=P("x"), out_specs=P())
    for current, context in ((mesh, xpr.set_mesh(mesh)), (other, other), (mesh, mesh)):
        with context:
            assert xpr.sharding.get_mesh() is current
            assert xpr.sharding.get_abstract_mesh() == AbstractMesh(current.axis_sizes, ("x", "y"))
            assert constrained(X).sharding == NamedSharding(current, P("x"))
            assert given(X, {"w": W[:, :4]}).sharding == NamedSharding(current, P("x", "y"))
            assert xpr.device_put({"a": X}, P("y"))["a"].sharding == NamedSharding(current, P("y"))
            assert xpr.sharding.reshard(X, {"a": P("y")}["a"]).sharding.spec == P("y")
            close(summed(X), X.reshape(current.shape["x"], -1, 8).sum(0))
        if context is not current:
            xpr.set_mesh(None)
        assert xpr.sharding.get_mesh().empty and xpr.sharding.get_abstract_mesh().empty
    for call, error, message in (
        (lambda: constrained(X), TypeError, "no mesh is current; write NamedSharding(mesh, spec), or call it in"),
        (lambda: xpr.device_put(X, P("x")), TypeError, "device_put: P('x',) is no NamedSharding, and no mesh is"),
        (lambda: summed(X), ValueError, "was given no mesh, and none is current"),
        (lambda: xpr.set_mesh(3), TypeError, "set_mesh: 3 is no Mesh"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert message in str(raised.value)


def test_meshes_without_devices(mesh):
    """Programs are traced for them, and not run."""
    large = AbstractMesh((64, 16), ("x", "y"))
    with xpr.sharding.use_abstract_mesh(large):
        traced = xpr.jit(lambda x: lax.with_sharding_constraint(x, P("x"))).trace(np.ones((64, 2), np.float32))
    assert "AbstractMesh(axes=(('x', 64), ('y', 16)))" in str(traced.jaxpr)
    with pytest.raises(xpr.errors.DeviceNotFound, match=r"can't run on AbstractMesh\('x': 64, 'y': 16\)"):
        xpr.core.jaxpr_as_fun(traced.jaxpr)(np.ones((64, 2), np.float32))
    with pytest.raises(xpr.errors.DeviceNotFound):
        xpr.device_put(np.ones((64, 16)), NamedSharding(large, P("x")))
    with pytest.raises(xpr.errors.DeviceNotFound):
        xpr.jit(lambda x: x, in_shardings=NamedSharding(large, P("x")))(np.ones((64, 16)))
    assert NamedSharding(large, P("x")).shard_shape((128, 2)) == (2, 2) and mesh.abstract_mesh.shape == mesh.shape


def test_what_meshes_and_shardings_tell(mesh):
    sharding = NamedSharding(mesh, P("x"))
    assert sharding.with_spec(P("y")).spec == sharding.update(spec=P("y")).spec == P("y")
    assert sharding.replicated_axes == {"y"} and sharding.has_addressable_devices
    assert sharding.with_memory_kind("device") is sharding
    assert mesh.shape_tuple == (("x", 4), ("y", 2)) and mesh.axis_types == (AxisType.Auto,) * 2
    assert mesh.device_ids.tolist() == np.arange(8).reshape(4, 2).tolist() and mesh.local_devices == xpr.devices()
    assert mesh.update(axis_names=("a", "b")).shape == {"a": 4, "b": 2} and not mesh.is_multi_process
    assert P("x", None).partitions == ("x", None) and P().update(("y",)) == P("y")
    with pytest.raises(ValueError, match="2 \\(y\\) does not divide 3"):
        sharding.with_spec(P("y")).check_compatible_aval((3,))
    with pytest.raises(ValueError, match="pinned_host"):
        sharding.with_memory_kind("pinned_host")


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


# -- shard_map


def product(a, b):
    return lax.psum(a @ b, "y")


def sharded_product(mesh):
    return xpr.shard_map(product, mesh=mesh, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))


def loss(fun):
    return lambda *args: jnp.sum(jnp.sin(fun(*args)) ** 2)


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_shard_map_of_a_product(mesh, wrap):
    fun = sharded_product(mesh)
    close(wrap(fun)(X, W), X @ W)
    all_close(wrap(xpr.grad(loss(fun), (0, 1)))(X, W), xpr.grad(loss(jnp.matmul), (0, 1))(X, W))
    one, other = (wrap(lambda x, w, f=f: xpr.jvp(loss(f), (x, w), (x, w)))(X, W) for f in (fun, jnp.matmul))
    all_close(one, other)
    stacked = np.stack([X, X + 1], 1)
    close(wrap(xpr.vmap(fun, (1, None)))(stacked, W), np.stack([X @ W, (X + 1) @ W]))


def layer(w, x):
    return lax.pmean(jnp.sum(jnp.sin(x * w) ** 2), ("x", "y"))


def test_scalars_and_what_all_devices_get(mesh):
    fun = xpr.shard_map(layer, mesh=mesh, in_specs=(P(), P("x", "y")), out_specs=P())
    all_close(
        xpr.grad(fun, (0, 1))(np.float32(2), X),
        xpr.grad(lambda w, x: jnp.sum(jnp.sin(x * w) ** 2) / 8, (0, 1))(np.float32(2), X),
    )


def test_some_axes_by_hand(mesh):
    partly = xpr.jit(
        xpr.shard_map(
            lambda a: lax.psum(jnp.sin(a) @ a.T, "x"), mesh=mesh, in_specs=P(None, "x"), out_specs=P(), axis_names={"x"}
        )
    )
    for spec in (P("y", "x"), P(None, "x"), P()):
        close(partly(xpr.device_put(X, NamedSharding(mesh, spec))), np.sin(X) @ X.T)
    places = xpr.shard_map(
        lambda a: a + lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
    )
    close(xpr.jit(places)(X), X + np.repeat(np.arange(4, dtype=np.float32), 2)[:, None])

    def inner(a):
        return xpr.shard_map(
            lambda b: b + lax.axis_index("y"),
            mesh=mesh,
            in_specs=P(None, "y"),
            out_specs=P(None, "y"),
            axis_names={"y"},
        )(a)

    nested = xpr.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    close(xpr.jit(nested)(X), X + np.repeat(np.arange(2, dtype=np.float32), 4)[None])


def test_loops_and_branches_inside(mesh):
    def ring(a):
        turned = [(i, (i + 1) % 4) for i in range(4)]
        total, _ = lax.scan(lambda c, _: (lax.ppermute(c, "x", turned) * 2, None), a, None, length=4)
        return lax.cond(lax.axis_index("x") >= 0, lambda v: v + 1, lambda v: v, total)

    fun = xpr.shard_map(ring, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    close(fun(X), 16 * X + 1)
    close(xpr.grad(loss(fun))(X), xpr.grad(loss(lambda x: 16 * x + 1))(X), 1e-3)


def by_rows(fun, mesh, out_specs):
    return xpr.shard_map(fun, mesh=mesh, in_specs=P("x"), out_specs=out_specs)


def test_messages(mesh):
    rows = NamedSharding(mesh, P("x", "y"))
    cases = [
        (lambda: xpr.device_put({"w": X[:6]}, rows),
         "device_put: x['w'] of shape (6, 8) can't be cut by P('x', 'y') over Mesh('x': 4, 'y': 2): 4 (x) does not "
         "divide 6, the size of its axis 0."),
        (lambda: xpr.jit(lambda a: a["k"], in_shardings=(rows,))({"k": X[:, :3]}),
         "jit: argument a['k'] of <lambda> at "),
        (lambda: xpr.jit(lambda a: [a[1:]], out_shardings=rows)(X), "jit: result[0] of <lambda> at "),
        (lambda: lax.with_sharding_constraint([X[0]], rows), "with_sharding_constraint: x[0] of shape (8,)"),
        (lambda: by_rows(jnp.sum, mesh, P())(X),
         "shard_map: result of sum may differ between the devices along 'x', and by P() of out_specs"),
        (lambda: by_rows(lambda a: a["k"], mesh, P("x"))({"k": X[:6]}),
         "shard_map: argument a['k'] of <lambda> at "),
        (lambda: by_rows(jnp.sum, mesh, P("x"))(X), "with fewer axes than P('x',)"),
        (lambda: xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("z"), out_specs=P())(X), "in_specs of sin has P('z',)"),
        (lambda: NamedSharding(mesh, P("x", "x")), "names an axis of the mesh twice"),
        (lambda: xpr.make_mesh((16,), ("x",)), "a mesh of shape (16,) has 16 devices, and there are 8."),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)


def test_shard_map_as_jax(mesh):
    jax = jax_module()
    their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))

    def fun(library, P):
        def each(a, b):
            h = library.numpy.tanh(library.lax.psum(a @ b, "y"))
            gathered = library.lax.all_gather(h, "x", tiled=True)
            dealt = library.lax.psum_scatter(h, "y", scatter_dimension=1, tiled=True)
            return gathered.sum(0) * h, dealt * library.lax.axis_index("x")

        chosen = mesh if library is xpr else their_mesh
        specs = {"in_specs": (P("x", "y"), P("y")), "out_specs": (P("x"), P("x", "y"))}
        return library.shard_map(each, mesh=chosen, check_vma=False, **specs)

    def loss(library, P):
        return lambda a, b: sum((y**2).sum() for y in fun(library, P)(a, b))

    theirs = jax.block_until_ready(jax.jit(fun(jax, jax.sharding.PartitionSpec))(X, W))
    all_close(fun(xpr, P)(X, W), list(map(np.asarray, theirs)))
    gradient = jax.block_until_ready(jax.jit(jax.grad(loss(jax, jax.sharding.PartitionSpec), (0, 1)))(X, W))
    all_close(xpr.grad(loss(xpr, P), (0, 1))(X, W), list(map(np.asarray, gradient)))


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_as_jax(mesh, seed):
    """The first of them; a program that jax refuses is none."""
    jax = jax_module()
    program, (x, w) = random_programs.Program(seed), random_programs.operands()
    their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    theirs = program.function(jax, their_mesh, jax.sharding.PartitionSpec, jax.sharding.NamedSharding)
    try:
        expected = jax.block_until_ready(theirs(x, w))
    except ValueError as error:
        pytest.skip(f"jax refuses {program}: {error}")
    all_close(program.function(xpr, mesh, P, NamedSharding)(x, w), list(map(np.asarray, jax.tree.leaves(expected))))


# -- Derivatives inside a shard_map, where what all devices have in common counts once


def looped(L, w, x):
    def one(w, _):
        g = L.grad(lambda w: L.lax.pmean((x * w * w).sum(), "x"))(w)
        return w - 0.01 * g, g

    return L.lax.scan(one, w, None, length=3)


def pulled(L, w, x):
    outs, pull = L.vjp(lambda w, x: (w * w, x * w, L.lax.psum(x, "x") * w), w, x)
    return pull((2 * w, x, L.lax.psum(x, "x")))


ROWS, ALL = ("x",), ()
INSIDE = {  # the function, and how its results are cut
    "what all have": (lambda L, w, x: L.grad(lambda w: (x * w * w).sum())(w), ALL),
    "of a mean": (lambda L, w, x: L.grad(lambda w: L.lax.pmean((x * w * w).sum(), "x"))(w), ALL),
    "of a sum, by what differs": (lambda L, w, x: L.grad(lambda x: L.lax.psum((x * x * w).sum(), "x"))(x), ROWS),
    "of a mean, by both": (
        lambda L, w, x: L.grad(lambda w, x: L.lax.pmean((x * x * w).sum(), "x"), (0, 1))(w, x), (ALL, ROWS),
    ),
    "in jit": (lambda L, w, x: L.jit(L.value_and_grad(lambda w: L.lax.pmean((x * w).sum() ** 2, "x")))(w), ALL),
    "in a loop": (looped, ALL),
    "summed once more": (lambda L, w, x: L.lax.psum(L.grad(lambda w: (x * w * w).sum())(w), "x"), ALL),
    "products of both kinds": (lambda L, w, x: L.grad(lambda w: L.lax.psum((x * w).sum(), "x") * w * w)(w), ALL),
    "vjp": (pulled, (ALL, ROWS)),
    "jacrev": (lambda L, w, x: L.jacrev(lambda w: L.lax.psum(x * w, "x"))(w), ALL),
    "hessian": (lambda L, w, x: L.hessian(lambda w: L.lax.psum((x * w**3).sum(), "x"))(w), ALL),
    "twice": (lambda L, w, x: L.grad(lambda w: L.grad(lambda w: (x * w**3).sum())(w) * w)(w), ALL),
    "along another axis": (
        lambda L, w, x: L.grad(lambda w: (x * w * w).sum() * L.lax.axis_index("y"))(w), ALL,
    ),
    "rows": (lambda L, w, x: L.vmap(L.grad(lambda w, x: (x * w * w).sum()), (None, 0))(w, x), ROWS),
    "rows of what all have": (
        lambda L, w, x: L.vmap(lambda w: L.grad(lambda w: (x * w * w).sum())(w))(L.numpy.stack([w, 2 * w])), ALL,
    ),
    "linear_transpose": (lambda L, w, x: L.linear_transpose(lambda w: x * w, w)(x)[0], ALL),
    "branches": (
        lambda L, w, x: L.grad(lambda w: L.lax.cond(w > 0, lambda: (x * w).sum(), lambda: (x * w * w).sum()))(w), ALL,
    ),
    "checkpoint": (lambda L, w, x: L.grad(L.checkpoint(lambda w: L.numpy.sin(x * w).sum()))(w), ALL),
    "a gathered value": (lambda L, w, x: L.grad(lambda x: (L.lax.all_gather(x * w, "x") ** 2).sum())(x), ROWS),
    "marked": (lambda L, w, x: L.grad(lambda w: (w * x).sum())(L.lax.pcast(w, "x", to="varying"))[None], ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_derivatives_inside_as_jax(mesh, name):
    jax = jax_module()
    fun, cut = INSIDE[name]
    their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))

    def results(library, mesh, spec):
        outs = tuple(spec(*each) for each in cut) if cut and isinstance(cut[0], tuple) else spec(*cut)
        mapped = library.shard_map(
            lambda w, x: fun(library, w, x), mesh=mesh, in_specs=(spec(), spec("x")), out_specs=outs
        )
        return library.block_until_ready(library.jit(mapped)(np.float32(3), X[0] + 1))

    theirs = results(jax, their_mesh, jax.sharding.PartitionSpec)
    all_close(results(xpr, mesh, P), list(map(np.asarray, jax.tree.leaves(theirs))))


def test_derivatives_through_what_has_derivatives_inside(mesh):
    """A step of gradient descent inside is a function like any other, and so is its gradient."""

    def steps(w, x):
        return looped(xpr, w, x)[0]

    inside = xpr.shard_map(steps, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())

    def alone(w, x):
        for _ in range(3):
            w = w - 0.01 * xpr.grad(lambda w: (x * w * w).sum() / 4)(w)
        return w

    one, other = (xpr.value_and_grad(f, (0, 1))(np.float32(3), X[0] + 1) for f in (inside, alone))
    all_close(one, other)
    all_close(
        xpr.jvp(inside, (np.float32(3), X[0]), (np.float32(1), X[1])),
        xpr.jvp(alone, (np.float32(3), X[0]), (np.float32(1), X[1])),
    )


def test_derivatives_of_copies_where_nothing_is_checked(mesh):
    """With check_vma=False a device's copy is its own, as under pmap."""
    fun = xpr.shard_map(
        lambda w, x: xpr.grad(lambda w: (x * w * w).sum())(w)[None], mesh=mesh, in_specs=(P(), P("x")),
        out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    close(fun(np.float32(3), X[0]), 6 * X[0].reshape(4, 2).sum(1))


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
        all_close(each, p)


def test_checks_and_dead_results(mesh):
    def halves(x):
        checkify.check(jnp.all(x < 6), "{} is too large", x[0])
        return x / 2, jnp.cos(x)

    fun = xpr.shard_map(halves, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P("x")))
    for wrap in (lambda f: f, xpr.jit):
        error, outs = wrap(checkify.checkify(fun))(np.arange(8, dtype=np.float32))
        assert error.get().startswith("6.0 is too large (`check` failed) (sharding_cases.py:")
        close(outs[0], np.arange(8, dtype=np.float32) / 2)
        assert wrap(checkify.checkify(fun))(np.zeros(8, np.float32))[0].get() is None
    inverse = xpr.shard_map(lambda x: 1 / x, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    errors = checkify.checkify(inverse, errors=checkify.div_checks)
    assert errors(X)[0].get() is None and errors(X - X[7, 5])[0].get().startswith("division by zero")
    two = xpr.shard_map(lambda x, y: (x + 1, y * 2), mesh=mesh, in_specs=(P("x"), P("y")), out_specs=(P("x"), P("y")))
    (eqn,) = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x, y: two(x, y)[1])(X, X)).jaxpr.eqns
    assert len(eqn.invars) == len(eqn.outvars) == 1 and eqn.params["in_specs"] == (("y",),)


def test_pictures(mesh, capsys):
    xpr.debug.visualize_array_sharding(xpr.device_put(X, NamedSharding(mesh, P("y"))))
    line = "+-------------+"
    assert capsys.readouterr().out.splitlines() == [line, "| CPU 0,2,4,6 |", line, "| CPU 1,3,5,7 |", line]
    xpr.debug.visualize_array_sharding(xpr.device_put(X[0], NamedSharding(mesh, P("y"))))
    assert capsys.readouterr().out.splitlines()[1] == "| CPU 0,2,4,6 | CPU 1,3,5,7 |"
    with pytest.raises(ValueError, match="one or two axes"):
        xpr.debug.visualize_array_sharding(jnp.ones(()))


def test_what_the_compiler_chose(mesh, capsys):
    """It is told when a program is compiled, in loops and maps too; a value on each device by itself is not cut."""
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
    assert capsys.readouterr().out.splitlines()[1] == "| CPU 0,1 | CPU 2,3 | CPU 4,5 | CPU 6,7 |"
    xpr.jit(lambda x: look("alone", x) + 1)(X)
    assert found["alone"] == SingleDeviceSharding(xpr.devices()[0])
    with pytest.raises(ZeroDivisionError):  # an exception of the callback arrives as itself
        xpr.jit(lambda x: (xpr.debug.inspect_array_sharding(x, callback=lambda s: 1 // 0), x)[1])(x)
    for value, callback in ((3, print), (x, None)):
        with pytest.raises(TypeError, match="inspect_array_sharding: "):
            xpr.debug.inspect_array_sharding(value, callback=callback)


def test_collectives_of_a_compiled_program(mesh):
    def local(z):
        return lax.psum(z, "x") / 4 + lax.ppermute(z, "x", [(0, 1), (1, 2)]) + lax.all_to_all(z, "y", 0, 0, tiled=True)

    mapped = xpr.shard_map(local, mesh=mesh, in_specs=P("y"), out_specs=P("y"), check_vma=False)
    compiled = xpr.jit(lambda x: lax.scan(lambda c, _: (mapped(c), None), x, None, length=10)[0]).lower(X).compile()
    assert sorted(compiled.collectives()) == [
        ("all-reduce", 128, ("x",), 4, 10),
        ("all-to-all", 128, ("y",), 2, 10),
        ("collective-permute", 128, ("x",), 2, 10),
    ]


def test_a_contraction_over_heads_gathers_nothing(mesh):
    """Merged with its neighbours, which is better on one device, the axis that is cut would be gathered."""
    cut = NamedSharding(mesh, P(None, None, "x"))
    x, weights = floats(2, 3, 8, 4), floats(3, 8, 4, 16)
    compiled = xpr.jit(
        lambda x, w: jnp.einsum("bthd,thdw->bw", x, w), in_shardings=(cut, NamedSharding(mesh, P(None, "x")))
    )
    (found,) = compiled.lower(x, weights).compile().collectives()
    assert found == ("all-reduce", 2 * 16 * 4, ("x",), 4, 1)
    close(compiled(x, weights), np.einsum("bthd,thdw->bw", x, weights), 1e-4)


@pytest.mark.parametrize("axes", [0, 1, (0, 1), (0, 2), None], ids=str)
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_reductions_along_cut_axes(mesh, name, axes):
    for shape in ((8, 6, 3), (4, 2, 10000)):  # rows so long that one device has another program for them
        x = floats(*shape)
        for value in (0.5, np.nan):
            x[3, 1, 2] = value
            cut = xpr.device_put(x, NamedSharding(mesh, P("x", "y")))
            found = xpr.jit(lambda x: getattr(jnp, name)(x, axes))(cut)
            close(found, getattr(np, name)(x, axes).astype(found.dtype), 1e-3)


class TestInSpecs:
    """What shard_map makes of arguments that have no spec."""

    def test_left_out(self, mesh):
        def parts(x, y):
            seen.append((x.shape, y["a"].shape))
            return lax.psum(x.sum(), ("x", "y")) + 0 * lax.psum(y["a"].sum(), ("x", "y"))

        seen = []
        x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
        for call in (xpr.shard_map(parts, mesh=mesh, out_specs=P()), xpr.shard_map(mesh=mesh, out_specs=P())(parts)):
            close(call(x, {"a": W}), X.sum())
        with xpr.set_mesh(mesh):
            close(xpr.shard_map(parts, out_specs=P())(x, {"a": W}), X.sum())
        assert seen == [((2, 4), (8, 6))] * 3

    def test_left_out_of_some_axes(self, mesh):
        x = xpr.device_put(X, NamedSharding(mesh, P("y", "x")))
        y = xpr.shard_map(lambda x: x + lax.axis_index("x"), mesh=mesh, out_specs=P(None, "x"), axis_names={"x"})(x)
        close(y, X + np.repeat(np.arange(4, dtype=np.float32), 2))

    def test_unknown(self, mesh):
        call = xpr.shard_map(jnp.sin, mesh=mesh, out_specs=P("x"))
        with pytest.raises(ValueError) as error:
            xpr.jit(call)(X)
        assert str(error.value) == (
            "shard_map: in_specs was left out, and argument x of sin is traced, so that it is not known how it lies. "
            "Say how arguments are to be cut over Mesh('x': 4, 'y': 2): shard_map(..., in_specs=...), with a "
            "PartitionSpec for each."
        )
        elsewhere = xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("z",)), P("z")))
        with pytest.raises(ValueError, match=r"argument x of sin lies as NamedSharding\(mesh=Mesh\('z': 8\)"):
            call(elsewhere)

    def test_none(self, mesh):
        traced = []

        def times(x, n, y=None, *rest):
            traced.append(n)
            return x * n + sum(range(n)) + (0 if y is None else y.sum())

        call = xpr.shard_map(times, mesh=mesh, in_specs=(P("x"), None), out_specs=P("x"))
        for n in (3, 3, 4):
            close(call(X, n), X * n + sum(range(n)))
        assert traced == [3, 4]
        close(xpr.jit(lambda x: call(x, 3))(X), X * 3 + 3)
        close(xpr.shard_map(times, mesh=mesh, in_specs=None, out_specs=P())(X, 2, W), X * 2 + 1 + W.sum())
        unhashable = xpr.shard_map(
            lambda x, keys: x * len(keys["a"]), mesh=mesh, in_specs=(P("x"), None), out_specs=P("x")
        )
        close(unhashable(X, {"a": "text"}), X * 4)
        one = xpr.shard_map(lambda x, y: x, mesh=mesh, in_specs=(P("x"), None), out_specs=P("x"))
        close(one(X, None), X)
        with pytest.raises(TypeError, match="out_specs of .* holds None, which is no PartitionSpec"):
            xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=None)(X)

    def test_as_jax(self):
        jax = jax_module()
        found = []
        for lib in (xpr, jax):
            spec, kind = lib.sharding.PartitionSpec, lib.sharding.AxisType.Explicit
            mesh = lib.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))
            x = lib.device_put(X, lib.sharding.NamedSharding(mesh, spec("x")))
            total = lib.shard_map(lambda x, lib=lib: lib.lax.psum(x.sum(0), "x"), mesh=mesh, out_specs=spec())
            scaled = lib.shard_map(lambda x, n: x * len(n), mesh=mesh, in_specs=(spec("x"), None), out_specs=spec("x"))
            found.append([np.asarray(total(x)), np.asarray(scaled(x, "abc"))])
        for mine, theirs in zip(*found):
            close(mine, theirs)


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


def test_dlpack_hands_over_one_device(mesh):
    x = xpr.device_put(X, NamedSharding(mesh, P("x")))
    for ask in (np.from_dlpack, jnp.from_dlpack, lambda x: x.__dlpack__(), lambda x: x.__dlpack_device__()):
        with pytest.raises(
            BufferError, match=r"of type f32\[8,8\] lies on 8, as NamedSharding.* xpr\.device_put\(x, device\)"
        ):
            ask(x)
    np.testing.assert_array_equal(np.from_dlpack(x.addressable_shards[2].data), X[2:4])


def test_keys_say_how_they_lie(mesh):
    keys = xpr.device_put(xpr.random.split(xpr.random.key(0), 8), NamedSharding(mesh, P("x")))
    assert keys.sharding == keys.device == NamedSharding(mesh, P("x"))
    assert keys.committed and keys.is_fully_addressable and not keys.is_fully_replicated
    shard = keys.addressable_shards[2]
    assert (shard.index, shard.replica_id, shard.device) == ((slice(2, 4),), 0, xpr.devices()[2])
    np.testing.assert_array_equal(xpr.random.key_data(shard.data), xpr.random.key_data(keys)[2:4])
    words = NamedSharding(mesh, P(None, "y"))  # keys are not cut into their words
    for put in (xpr.device_put, lax.with_sharding_constraint, xpr.jit(lax.with_sharding_constraint, static_argnums=1)):
        assert put(keys, NamedSharding(mesh, P("y"))).sharding.spec == P("y")
        with pytest.raises(ValueError, match=r"\(8,\) can't be cut by P\(None, 'y'\) .* has 2 entries, for 1 axes"):
            put(keys, words)
    alone = xpr.random.key(0)
    assert alone.sharding == SingleDeviceSharding(xpr.devices()[0]) and alone.device is xpr.devices()[0]
    assert alone.is_fully_replicated and not alone.committed


def test_arrays_like_others_lie_as_they_do(mesh):
    cut = NamedSharding(mesh, P("x"))
    for x in (xpr.device_put(X, cut), xpr.device_put(np.ones((8, 9000), np.float32), cut)):
        for y in (jnp.zeros_like(x), jnp.ones_like(x, dtype=int), jnp.full_like(x, 2), jnp.empty_like(x)):
            assert y.sharding == cut and y.shape == x.shape
        assert jnp.zeros_like(x, shape=(3,)).sharding == SingleDeviceSharding(xpr.devices()[0])
        assert jnp.zeros_like(x, device=xpr.devices()[1]).sharding == SingleDeviceSharding(xpr.devices()[1])
    for n in (7, 70001):
        with pytest.raises(ValueError, match=rf"device: an array of shape \({n},\) can't be cut by P\('x',\)"):
            jnp.zeros(n, device=cut)


def test_specs_are_equal_where_they_say_the_same():
    assert P(("x",)) == P(["x"]) == P("x") and P(()) == P(None) and hash(P(("x",))) == hash(P("x"))
    assert P(("x", "y")) == P(["x", "y"]) != P("x", "y")


RING = [(i, (i + 1) % 4) for i in range(4)]
PARTING = {
    "while": lambda x: lax.while_loop(lambda c: (c < 20).all(), lambda c: c + lax.psum(c, "x") + 1, x),
    "cond": lambda x: lax.cond(lax.axis_index("x") > 1, lambda c: lax.psum(c, "x") + c, lambda c: c, x),
    "inside of scan": lambda x: lax.scan(
        lambda c, y: (lax.cond(y[0] > 2, lambda c: lax.all_gather(c, "x").sum(0), lambda c: c, c), y), x[0], x
    )[1],
    "number of steps": lambda x: lax.fori_loop(0, lax.axis_index("x"), lambda i, c: lax.ppermute(c, "x", RING), x),
}


@pytest.mark.parametrize("name", PARTING)
def test_devices_that_would_wait_forever(mesh, name):
    with pytest.raises(ValueError) as error:
        xpr.shard_map(PARTING[name], mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    text = str(error.value)
    assert "communicates along 'x', and what it does may differ between the devices along 'x'" in text
    assert " at sharding_cases.py:" in text and "check_vma=False" in text


def test_devices_that_decide_together(mesh):
    def steps(x):
        y = lax.while_loop(lambda c: lax.pmax(c.max(), "x") < 20, lambda c: c + lax.psum(abs(c), "x") + 1, x)
        z = lax.while_loop(
            lambda c: (c < 20).all(), lambda c: c + lax.pmean(abs(c), "y") + 1, x
        )  # all along y do alike
        return y, lax.cond(lax.psum(x.sum(), "x") > -99, lambda z: z + lax.pmean(z, "x"), lambda z: z, z)

    y, z = xpr.shard_map(steps, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    assert float(y.max()) >= 20 and np.isfinite(z).all()


def test_arguments_by_name(mesh):
    with pytest.raises(
        TypeError, match="shard_map: <lambda> at .* was given 'y' by name, and arguments have their specs"
    ):
        xpr.shard_map(lambda x, y: x + y, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X, y=X)

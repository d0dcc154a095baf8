"""Sharded arrays, jit of them, and shard_map, on eight devices; beside NumPy, and beside jax."""

import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices.pmap_cases import all_close, close, jax_module
from tests.ops.table import floats
from xpr import lax
from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
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
        (lambda: xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("z"), out_specs=P())(X), "in_specs has P('z',), and 'z'"),
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


def test_pictures(mesh, capsys):
    xpr.debug.visualize_array_sharding(xpr.device_put(X, NamedSharding(mesh, P("y"))))
    line = "+-------------+"
    assert capsys.readouterr().out.splitlines() == [line, "| CPU 0,2,4,6 |", line, "| CPU 1,3,5,7 |", line]
    xpr.debug.visualize_array_sharding(xpr.device_put(X[0], NamedSharding(mesh, P("y"))))
    assert capsys.readouterr().out.splitlines()[1] == "| CPU 0,2,4,6 | CPU 1,3,5,7 |"
    with pytest.raises(TypeError, match="traced"):
        xpr.jit(lambda x: xpr.debug.visualize_array_sharding(x))(X)
    with pytest.raises(ValueError, match="one or two axes"):
        xpr.debug.visualize_array_sharding(jnp.ones(()))

"""Unreduced and reduced values over axes of a mesh: sums over devices that are done where `reshard` asks for it."""

import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from xpr import export, lax
from xpr.config import override
from xpr.errors import ShardingTypeError
from xpr.jaxpr import dumps, equal, loads, parse
from xpr.sharding import AxisType, NamedSharding, auto_axes, reshard
from xpr.sharding import PartitionSpec as P

X = np.arange(32.0, dtype=np.float32).reshape(4, 8) / 10
W = np.arange(48.0, dtype=np.float32).reshape(8, 6) / 10 - 1


@pytest.fixture(autouse=True)
def mesh():
    mesh = xpr.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    with xpr.set_mesh(mesh), override("enable_checks", True):
        yield mesh


U, R = P(unreduced={"x"}), P(reduced={"x"})


def put(x, *spec, **sums):
    return xpr.device_put(np.asarray(x), P(*spec, **sums))


def product(x, w, **sums):
    return jnp.dot(x, w, out_sharding=P(unreduced={"x"}))


def type_of(x):
    return xpr.typeof(x).str_short()


# -- Types


def unreduced():
    return product(put(X, None, "x"), put(W, "x"))


TYPES = {
    "sum of two": (lambda u: u + u, "f32[4,6]{U:x}"),
    "difference": (lambda u: u - u, "f32[4,6]{U:x}"),
    "negative": (lambda u: -u, "f32[4,6]{U:x}"),
    "product with a number": (lambda u: u * 2, "f32[4,6]{U:x}"),
    "product with a reduced array": (
        lambda u: u * put(X[:, :6], reduced=xpr.typeof(u).sharding.spec.unreduced),
        "f32[4,6]{U:x}",
    ),
    "conversion": (lambda u: u.astype(jnp.bfloat16).astype(jnp.float32), "f32[4,6]{U:x}"),
    "transpose": (jnp.transpose, "f32[6,4]{U:x}"),
    "reshape": (lambda u: u.reshape(2, 12), "f32[2,12]{U:x}"),
    "slice": (lambda u: u[1:, ::2], "f32[3,3]{U:x}"),
    "sum of all": (jnp.sum, "f32[]{U:x}"),
    "concatenation": (lambda u: jnp.concatenate([u, u]), "f32[8,6]{U:x}"),
    "row": (lambda u: u[1], "f32[6]{U:x}"),
    "dynamic slice": (lambda u: lax.dynamic_slice(u, (jnp.argmax(W[:, 0]) - 6, 0), (2, 6)), "f32[2,6]{U:x}"),
    "select": (lambda u: lax.select(np.ones((4, 6), bool), u, u), "f32[4,6]{U:x}"),
    "broadcast": (lambda u: jnp.broadcast_to(u, (2, 4, 6)), "f32[2,4,6]{U:x}"),
    "pad": (lambda u: jnp.pad(u, 1), "f32[6,8]{U:x}"),
    "a jitted function": (xpr.jit(lambda u: u + u), "f32[4,6]{U:x}"),
    "scan": (lambda u: lax.scan(lambda c, _: (c + u, None), u, None, length=2)[0], "f32[4,6]{U:x}"),
    "checkpoint": (xpr.checkpoint(lambda u: u + u), "f32[4,6]{U:x}"),
    "rows": (xpr.vmap(lambda u: u + u), "f32[4,6]{U:x}"),
    "stop_gradient": (lambda u: lax.stop_gradient(u) * 2, "f32[4,6]{U:x}"),
    "resharded to rows": (lambda u: reshard(u, P("x")), "f32[4@x,6]"),
    "resharded further": (lambda u: reshard(u, P(None, "y", unreduced={"x"})), "f32[4,6@y]{U:x}"),
    "resharded": (lambda u: reshard(u, P()), "f32[4,6]"),
    "resharded to reduced": (lambda u: reshard(u, P(reduced={"x"})), "f32[4,6]{R:x}"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_and_values(name):
    fun, expected = TYPES[name]
    u = unreduced()
    eager, jitted = fun(u), xpr.jit(fun)(u)
    assert type_of(u) == "f32[4,6]{U:x}" and type_of(eager) == type_of(jitted) == expected
    close([eager, jitted], [fun(jnp.asarray(X @ W))] * 2, 1e-2 if "bfloat16" in name or name == "conversion" else 1e-4)
    close(reshard(jitted, P()), eager)
    closed = xpr.make_jaxpr(fun)(u)
    xpr.core.check_jaxpr(closed)
    assert str(parse(str(closed))) == str(closed) and equal(loads(dumps(closed)), closed)


def test_shards_are_addends(mesh):
    u = unreduced()
    assert u.sharding == NamedSharding(mesh, P(None, None, unreduced={"x"})) and not u.is_fully_replicated
    parts = [X[:, i : i + 2] @ W[i : i + 2] for i in (0, 0, 2, 2, 4, 4, 6, 6)]  # of pairs along y the same
    close([shard.data for shard in u.addressable_shards], parts)
    assert "all-reduce" not in xpr.jit(product).lower(put(X, None, "x"), put(W, "x")).compile().as_text()
    rows = reshard(put(X, "x"), P(unreduced={"x"}))
    close([shard.data for shard in rows.addressable_shards][2], np.where(np.arange(4)[:, None] == 1, X, 0))
    for whole in (xpr.device_put(X, P(unreduced={"x"})), xpr.jit(lambda x: x, out_shardings=P(unreduced={"x"}))(X)):
        assert [float(shard.data[0, 1]) > 0 for shard in whole.addressable_shards] == [True] * 2 + [False] * 6
        close(whole, X)
    several = jnp.einsum(
        "ab,bc->ac", put(X, None, ("x", "y")), put(W, ("x", "y")), out_sharding=P(unreduced={"x", "y"})
    )
    assert type_of(several) == "f32[4,6]{U:(x,y)}"
    close(reshard(several, P("x")), X @ W)
    turned = jnp.einsum("ab,bc->ca", put(X, None, "x"), put(W, "x"), out_sharding=P(unreduced={"x"}))
    close(turned, (X @ W).T)
    added = xpr.jit(lambda x: lax.reduce_sum(x, (1,), out_sharding=P(unreduced={"x"})))(put(X, None, "x"))
    assert type_of(added) == "f32[4]{U:x}"
    close([added, added.addressable_shards[0].data], [X.sum(1), X[:, :2].sum(1)])


IDS = np.array([0, 0, 1, 1, 1, 2, 2, 3])
SEGMENTS = {  # the shardings of the data, of the ids and of the result, and the type of the result
    "rows": (P("x", "y"), P("x"), P(None, "y", unreduced={"x"}), "f32[4,6@y]{U:x}"),
    "rows, features gathered": (P("x", "y"), P("x"), P(unreduced={"x"}), "f32[4,6]{U:x}"),
    "rows over two axes": (P(("x", "y")), P(("x", "y")), P(unreduced={"x", "y"}), "f32[4,6]{U:(x,y)}"),
    "rows over two axes, one of them summed": (P(("x", "y")), P(("x", "y")), P(unreduced={"x"}), "f32[4,6]{U:x}"),
    "only the data": (P("x"), P(), P(unreduced={"x"}), "f32[4,6]{U:x}"),
    "only the ids": (P(), P("x"), P(unreduced={"x"}), "f32[4,6]{U:x}"),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_scatters_leave_sums_over_shards_undone(name):
    of_data, of_ids, out, expected = SEGMENTS[name]
    data, ids, base = xpr.device_put(W, of_data), xpr.device_put(IDS, of_ids), put(W[:4])
    added = xpr.jit(lambda data, ids: xpr.ops.segment_sum(data, ids, 4, out_sharding=out))(data, ids)
    onto = xpr.jit(lambda base, data, ids: base.at[ids].add(data, out_sharding=out))(base, data, ids)
    assert type_of(added) == type_of(onto) == expected
    whole = xpr.ops.segment_sum(W, IDS, 4)
    close([reshard(added, P()), reshard(onto, P())], [whole, W[:4] + whole])


def test_counts_and_segments_of_each_shard():
    ids = put(IDS, "x")
    counts = jnp.bincount(ids, length=4, out_sharding=P(unreduced={"x"}))
    assert type_of(counts) == "i32[4]{U:x}"
    close(
        np.stack([shard.data for shard in counts.addressable_shards][::2]),
        np.int32([[2, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]),
    )
    count = xpr.jit(lambda ids: jnp.bincount(ids, length=4, out_sharding=P(unreduced={"x"})))
    assert "all-reduce" not in count.lower(ids).compile().as_text()
    for each in (xpr.ops.segment_prod, xpr.ops.segment_max, xpr.ops.segment_min):
        with pytest.raises(NotImplementedError, match="unreduced axes, over which devices hold the addends of a sum"):
            each(put(W, "x"), ids, 4, out_sharding=P(unreduced={"x"}))


def test_gradients_of_segments_and_of_rows_of_a_reduced_table():
    ids, weights = put(IDS, "x"), jnp.arange(1.0, 5)[:, None]

    def loss(data):
        sums = xpr.ops.segment_sum(data, ids, 4, out_sharding=P(unreduced={"x"}))
        return (reshard(sums, P()) * weights).sum()

    gradient = xpr.jit(xpr.grad(loss))(put(W, "x"))
    assert type_of(gradient) == "f32[8@x,6]"
    close(gradient, np.broadcast_to(np.float32(IDS[:, None] + 1), W.shape))

    def of_table(table):
        return (table.at[ids].get(out_sharding=P("x")) * put(W, "x")).sum()

    gradient = xpr.jit(xpr.grad(of_table))(put(X[:, :6], reduced={"x"}))
    assert type_of(gradient) == "f32[4,6]{U:x}"
    close(reshard(gradient, P()), xpr.ops.segment_sum(W, IDS, 4))


# -- Derivatives


def loss(w, x):
    return jnp.sum(jnp.tanh(jnp.dot(x, jnp.sin(w), out_sharding=P("x"))) ** 2)


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit, xpr.checkpoint])
def test_gradients_of_reduced_weights_are_unreduced(transform):
    w, x = put(X, reduced={"x"}), put(W.T[:4], "x")
    x = put(np.concatenate([W, W]).reshape(24, 4), "x")
    gradient = xpr.jit(xpr.grad(transform(loss)))(w, x)
    assert type_of(w) == "f32[4,8]{R:x}" and type_of(gradient) == "f32[4,8]{U:x}"
    expected = xpr.grad(loss)(put(X), x)
    assert type_of(expected) == "f32[4,8]"
    close([gradient, reshard(gradient, P())], [expected] * 2)
    close(xpr.grad(loss)(w, x), expected)  # operation by operation
    assert xpr.jit(xpr.grad(loss)).lower(w, x).compile().as_text().count("all-reduce(") == 0


def test_gradients_are_added_before_the_sum_over_devices():
    w, batches = put(X, reduced={"x"}), put(np.ones((3, 8, 4), np.float32), None, "x")

    @xpr.jit
    def step(w, batches):
        start = reshard(jnp.zeros_like(w), P(unreduced={"x"}))
        total, _ = lax.scan(lambda total, x: (total + xpr.grad(loss)(w, x), None), start, batches)
        return reshard(w, P()) - reshard(total, P())

    expected = X - 3 * np.asarray(xpr.grad(loss)(put(X), put(np.ones((8, 4), np.float32), "x")))
    close(step(w, batches), expected)
    assert step.lower(w, batches).compile().as_text().count("all-reduce(") == 1


def test_cotangents_of_unreduced_values_are_reduced():
    x, w = put(X, None, "x"), put(W, "x")
    y, back = xpr.vjp(product, x, w)
    ct = reshard(jnp.ones((4, 6)), P(reduced={"x"}))
    for got, expected in zip(back(ct), (np.ones((4, 6)) @ W.T, X.T @ np.ones((4, 6)))):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert [type_of(each) for each in back(jnp.ones((4, 6)))] == ["f32[4,8@x]", "f32[8@x,6]"]
    total = xpr.grad(lambda u: reshard(u, P()).sum())(y)
    assert type_of(total) == "f32[4,6]{R:x}"
    unused = xpr.vjp(lambda a, b: b, put(X, reduced={"x"}), x)[1](x)[0]
    assert type_of(unused) == "f32[4,8]{U:x}"
    bias = xpr.grad(lambda b, x: jnp.tanh(x + b).sum())(put(W[0], reduced={"x"}), put(W, "x"))
    assert type_of(bias) == "f32[6]{U:x}" and float(bias.addressable_shards[0].data[0]) != float(bias[0])


def test_a_carry_whose_tangent_starts_as_zero_has_its_sharding():
    def model(w, x):
        return jnp.sum(lax.scan(lambda c, w: (jnp.tanh(jnp.dot(c, w)), None), x, w)[0])

    w, x = np.stack([X[:, :4], X[:, 4:]]), np.ones((8, 4), np.float32)
    for sums in ({}, {"reduced": {"x"}}):
        close(xpr.jit(xpr.grad(model))(put(w, **sums), put(x, "x")), xpr.grad(model)(w, x))
    branch = xpr.grad(lambda x: lax.cond(x.sum() > 0, lambda x: x * x, lambda x: x, x).sum())
    close(xpr.jit(branch)(put(x, "x")), 2 * x)


# -- Errors and specs

ERRORS = {
    "reduced and replicated": (
        lambda u: reshard(u, R) * put(X[:, :6]),
        "Inputs cannot be replicated on 'x' where, on the same axes, another",
    ),
    "unreduced and replicated": (
        lambda u: u * put(X[:, :6]),
        "on 'x' where, on the same axes, another input is unreduced",
    ),
    "not linear": (lambda u: jnp.sin(u), "the unreduced rule for sin is not implemented"),
    "sum with another": (lambda u: u + put(X[:, :6]), "operands must be unreduced along the same mesh axes"),
    "product of two": (lambda u: u * u, "operands cannot both be unreduced, since the operation is bilinear"),
    "product with rows": (lambda u: u * put(X[:, :6], "x"), "the result would be unreduced and partitioned over '?x"),
    "updated": (
        lambda u: lax.pad(put(X), jnp.sum(u), ((0, 0, 0),) * 2),
        "an operand other than the first is unreduced",
    ),
    "truth values": (lambda u: u.astype(bool), "to convert it to bool is not to add up what its addends are"),
    "integers": (lambda u: lax.convert_element_type(u, "int32"), "to convert it to int32 is not to add up"),
    "counted": (jnp.count_nonzero, "to convert it to bool is not to add up"),
    "padded": (lambda u: jnp.pad(u, 1, constant_values=3.0), "a padding other than 0 would be added once by each"),
    "padded with a value": (lambda u: lax.pad(u, jnp.sum(put(X)), ((1, 1, 0),) * 2), "a padding other than 0"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    fun, message = ERRORS[name]
    for each in (fun, xpr.jit(fun)):
        with pytest.raises(ShardingTypeError, match=message):
            each(unreduced())


def test_specs(mesh):
    spec = P("x", unreduced={"y"})
    assert spec != P("x") and P("x") != spec and spec == P("x", unreduced=frozenset({"y"})) and hash(spec) == hash(spec)
    assert (
        spec.unreduced == {"y"}
        and spec.reduced == P().unreduced == frozenset()
        and pickle.loads(pickle.dumps(spec)) == spec
    )
    assert repr(spec) == "P('x', unreduced={'y'})" and repr(P(reduced={"y"})) == "P(reduced={'y'})"
    assert spec.update(reduced={"z"}) == P("x", unreduced={"y"}, reduced={"z"}) and spec.update(("z",)).unreduced == {
        "y"
    }
    assert (
        P("x") + P("z", reduced={"y"}) == P("x", "z", reduced={"y"})
        and P(None).__radd__(("z", "x")) == P("z", "x", None)
        and P(None) + spec == P(None, "x", unreduced={"y"})
    )
    aval = unreduced().aval
    assert pickle.loads(pickle.dumps(aval)) is aval and aval.dual.dual is aval and aval.sharding.spec.unreduced == {"x"}
    for wrong, error, message in (
        (lambda: P(unreduced="x"), TypeError, "PartitionSpec: unreduced must be a set or frozenset .*, and is 'x'"),
        (lambda: P(reduced={None}), ValueError, "reduced cannot contain None"),
        (lambda: P("x", unreduced={"x"}), ValueError, "partitions cannot overlap with unreduced axes"),
        (
            lambda: P(unreduced={"x"}, reduced={"x"}),
            ValueError,
            "`unreduced` and `reduced` cannot overlap, and are {'x'} and {'x'}",
        ),
        (lambda: NamedSharding(mesh, P(unreduced={"z"})), ValueError, "Unreduced axes of .* not found in mesh: 'z'"),
        (
            lambda: NamedSharding(xpr.make_mesh((8,), "x"), P(reduced={"x"})),
            ValueError,
            "Reduced axes can only refer to mesh axes of type `Explicit`, and 'x'",
        ),
    ):
        with pytest.raises(error, match=message):
            wrong()


# -- Inside of shard_map


def test_addends_of_a_shard_map(mesh):
    x, w = put(X, None, "x"), put(W, "x")
    dot = xpr.shard_map(jnp.dot, in_specs=(P(None, "x"), P("x")), out_specs=P(unreduced={"x"}))
    for fun in (dot, xpr.jit(dot), xpr.shard_map(jnp.dot, out_specs=P(unreduced={"x"}))):
        u = fun(x, w)
        assert type_of(u) == "f32[4,6]{U:x}"
        close([u, u.addressable_shards[2].data], [X @ W, X[:, 2:4] @ W[2:4]])
    added = xpr.shard_map(lambda u: lax.psum(u, "x"), out_specs=P())
    scattered = xpr.shard_map(lambda u: lax.psum_scatter(u, "x", tiled=True), out_specs=P("x"))
    assert [type_of(fun(u)) for fun in (added, xpr.jit(scattered))] == ["f32[4,6]", "f32[4@x,6]"]
    close([added(u), scattered(u)], [X @ W] * 2)
    whole = xpr.shard_map(lambda u: lax.psum(u, "x"), in_specs=P(unreduced={"x"}), out_specs=P())(put(X))
    close(whole, X)  # resharded as the spec says
    weights = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    gradients = xpr.jit(xpr.grad(lambda x, w: (added(dot(x, w)) * weights).sum(), (0, 1)))(x, w)
    assert list(map(type_of, gradients)) == ["f32[4,8@x]", "f32[8@x,6]"]
    close(list(gradients), [weights @ W.T, X.T @ weights])
    of_u = xpr.grad(lambda u: (scattered(u) * weights).sum())(u)
    assert type_of(of_u) == "f32[4,6]{R:x}"
    close(of_u, weights)


def test_reduced_values_of_a_shard_map():
    w, x = put(W, reduced={"x"}), put(np.concatenate([X, X]), "x")
    fun = xpr.shard_map(lambda x, w: jnp.tanh(x @ w), out_specs=P("x"))
    gradient = xpr.jit(xpr.grad(lambda w: fun(x, w).sum()))(w)
    assert type_of(gradient) == "f32[8,6]{U:x}"
    close(gradient, xpr.grad(lambda w: jnp.tanh(np.concatenate([X, X]) @ w).sum())(jnp.asarray(W)))
    cast = xpr.shard_map(lambda w: lax.pcast(w, "x", to="reduced"), in_specs=P(), out_specs=P(reduced={"x"}))
    gathered = xpr.shard_map(
        lambda x: lax.all_gather(x, "x", tiled=True, to="reduced"), in_specs=P("x"), out_specs=P(reduced={"x"})
    )
    assert type_of(cast(put(W))) == "f32[8,6]{R:x}" and type_of(gathered(x)) == "f32[8,8]{R:x}"
    total = xpr.jit(xpr.grad(lambda w: fun(x, cast(w)).sum()))(put(W))
    assert type_of(total) == "f32[8,6]"
    close(total, gradient)
    assert type_of(xpr.jit(xpr.grad(lambda x: jnp.sin(gathered(x)).sum()))(x)) == "f32[8@x,8]"
    close(xpr.jit(xpr.grad(lambda x: jnp.sin(gathered(x)).sum()))(x), np.cos(x))


def test_errors_of_shard_map(mesh):
    for fun, message in (
        (lambda: xpr.shard_map(lambda x: x, out_specs=P(reduced={"x"}))(put(X, "x")), "may differ between the devices"),
        (lambda: xpr.shard_map(lambda x: lax.pcast(x, "x", to="reduced"), out_specs=P())(put(X, "x")), "may vary"),
        (lambda: xpr.shard_map(lambda x: lax.pcast(x, "x", to="odd"), out_specs=P())(put(X, "x")), "is 'odd'"),
        (lambda: xpr.shard_map(lambda x: lax.all_gather(x, "x", to="odd"), out_specs=P())(put(X, "x")), "is 'odd'"),
        (lambda: xpr.shard_map(lambda x: x, in_specs=P(), out_specs=P(unreduced={"z"}))(put(X)), "refers to 'z'"),
    ):
        with pytest.raises(ValueError, match=message):
            fun()
    auto = xpr.make_mesh((8,), ("x",))
    with pytest.raises(ValueError, match="unreduced axes are axes of type Explicit"):
        xpr.shard_map(lambda x: x, mesh=auto, in_specs=P("x"), out_specs=P(unreduced={"x"}))(W)


def test_exported_functions():
    f = xpr.jit(product)
    exported = export.deserialize(export.export(f)(put(X, None, "x"), put(W, "x")).serialize())
    assert [aval.str_short() for aval in exported.out_avals] == ["f32[4,6]{U:x}"]
    u = xpr.jit(exported.call)(put(X, None, "x"), put(W, "x"))
    assert u.sharding == unreduced().sharding
    close(u, X @ W)
    whole = export.deserialize(export.export(xpr.jit(lambda u: reshard(u + u, P())))(u).serialize())
    close(xpr.jit(whole.call)(u), 2 * X @ W)


def test_types_inside_of_a_shard_map(mesh):
    def mat(x):
        state = xpr.typeof(x).mat
        return set(state.varying), set(state.unreduced), set(state.reduced), set(state.invarying(mesh.abstract_mesh))

    def fun(u, w):
        assert mat(u) == ({"y"}, {"x"}, set(), set()) and mat(w) == (set(), set(), {"x"}, set())
        assert mat(u * 2) == mat(u + u) == mat(u) and mat(jnp.sin(w)) == mat(w)
        assert mat(lax.psum(u, "x"))[:3] == ({"y"}, set(), set())
        assert mat(lax.psum_scatter(u.T[:4], "x", tiled=True))[1] == mat(lax.pcast(w, "x", to="varying"))[2] == set()
        assert mat(lax.pcast(lax.axis_index("y"), "x", to="reduced"))[:3] == ({"y"}, set(), {"x"})
        assert mat(lax.pcast(lax.axis_index("x"), "x", to="unreduced"))[:3] == (set(), {"x"}, set())
        with pytest.raises(NotImplementedError, match="sin of .*: an operand is unreduced over 'x', and the unreduced"):
            jnp.sin(u)
        with pytest.raises(ShardingTypeError, match="must be unreduced along the same mesh axes"):
            u + lax.psum(u, "x")
        return u

    u = put(np.ones((4, 6), np.float32), "y", unreduced={"x"})
    xpr.shard_map(fun, out_specs=P("y", unreduced={"x"}))(u, put(W, reduced={"x"}))


def test_specs_are_not_joined_with_tuples():
    with pytest.raises(TypeError, match="unreduced in `__add__` of PartitionSpec.*is a tuple"):
        P("x", unreduced={"y"}) + (None,)  # noqa: RUF005  # what is tested
    with pytest.raises(TypeError, match="reduced in `__radd__` of PartitionSpec.*is a tuple"):
        (None,) + P("x", reduced={"y"})  # noqa: RUF005
    assert P("x") + P(None) == P("x", None) and P("x", unreduced={"y"}) + P() == P("x", unreduced={"y"})


def test_an_array_of_addends_prints_as_such():
    total = lax.reduce_sum(put(X, "x"), (0, 1), out_sharding=P(unreduced={"x"}))
    assert str(total) == repr(total)
    assert repr(total).startswith("Array(shape=(), dtype=float32, sharding=NamedSharding(")
    close(reshard(total, P()), X.sum())


def addends(b, w):
    return jnp.dot(b, w, out_sharding=P(unreduced={"x"}))


UNREDUCED_IN_LOOPS = {
    "carry": lambda b, w: lax.fori_loop(0, 3, lambda i, c: c + c, addends(b, w)) * 0.125,
    "stacked": lambda b, w: lax.scan(lambda c, _: (c, addends(b, w)), 0.0, None, length=3)[1][1],
    "rows": lambda b, w: lax.scan(lambda c, row: (c, row + row), 0.0, addends(b, w))[1] * 0.5,
    "nested": lambda b, w: lax.scan(
        lambda c, row: (c, lax.scan(lambda d, x: (d, x + x), 0.0, row)[1]), 0.0, addends(b, w)
    )[1] * 0.5,
    "sum of rows": lambda b, w: lax.scan(
        lambda c, x: (c + x, None), reshard(jnp.zeros((4, 4)), P(unreduced={"x"})), jnp.stack([addends(b, w)] * 2)
    )[0] * 0.5,
    "branch": lambda b, w: lax.cond(b.sum() > 0, lambda u: u + u, lambda u: u, addends(b, w)) * 0.5,
    "inside a branch": lambda b, w: lax.cond(b.sum() > 0, addends, lambda b, w: addends(b, w) * 2.0, b, w),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREDUCED_IN_LOOPS)
def test_addends_in_loops_and_branches_are_summed_once(name):
    values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    with xpr.set_mesh(xpr.make_mesh((2,), "x", (AxisType.Explicit,))):
        b, w = xpr.device_put(values, P(None, "x")), xpr.device_put(values / 8, P("x", None))
        fun = UNREDUCED_IN_LOOPS[name]
        summed = xpr.jit(lambda b, w: reshard(fun(b, w), P()))
        np.testing.assert_allclose(summed(b, w), values @ values / 8, rtol=1e-6)
        np.testing.assert_allclose(reshard(xpr.jit(fun)(b, w), P()), values @ values / 8, rtol=1e-6)
        if "row" not in name and name != "nested":  # rows are summed before the loop, and divided again
            assert [each.times for each in summed.lower(b, w).compile().collectives() if each.bytes > 4] == [1]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_to_weights_of_layers_in_a_loop_are_accumulated_and_summed_once(dtype, shared):
    with xpr.set_mesh(xpr.make_mesh((2,), "x", (AxisType.Explicit,))):
        weights = xpr.device_put(jnp.ones((4, 4) if shared else (4, 4, 4)), P(reduced={"x"}))
        batches = xpr.device_put(jnp.ones((2, 4, 4), dtype), P(None, "x", None))

        def model(weights, x):
            def layer(x, w):
                return jnp.dot(x, (weights if shared else w).astype(dtype)), None

            return jnp.sum(lax.scan(layer, x, None if shared else weights, length=4)[0])

        @xpr.jit
        def gradient(weights, batches):
            total = reshard(jnp.zeros_like(weights), P(unreduced={"x"}))
            total, _ = lax.scan(lambda g, x: (g + xpr.grad(model)(weights, x), None), total, batches)
            return reshard(total, P())

        assert set(np.ravel(gradient(weights, batches))) == {2 * 4.0**4 * (4 if shared else 1)}
        assert [each.times for each in gradient.lower(weights, batches).compile().collectives()] == [1]


UNSUMMED = {
    "einsum": lambda: jnp.einsum("ab,bc->ac", put(X, "x"), put(W, "y"), out_sharding=P("x", unreduced={"y"})),
    "dot": lambda: jnp.dot(put(X, "x"), put(W), out_sharding=P("x", unreduced={"y"})),
    "reduce_sum": lambda: lax.reduce_sum(put(X, "x"), (0,), out_sharding=P(unreduced={"y"})),
    "reshape": lambda: jnp.reshape(put(X), (2, 16), out_sharding=P(unreduced={"y"})),
}


@pytest.mark.parametrize("name", UNSUMMED)
def test_only_sums_over_shards_are_left_undone(name):
    with pytest.raises(ShardingTypeError) as caught:
        UNSUMMED[name]()
    assert f"{name}: out_sharding=" in str(caught.value) and "over whose shards it sums are none" in str(caught.value)


# -- Values that become unreduced: their sum over the devices is the value, however it was computed

A = np.arange(16, dtype=np.float32).reshape(4, 4) / 8
MADE = {
    "as it is": (lambda x: reshard(x, U), A),
    "computed": (lambda x: reshard(jnp.sin(x) * 2, U), 2 * np.sin(A)),
    "made": (lambda x: jnp.full((4, 4), 3.0, out_sharding=U), np.full_like(A, 3)),
    "reshaped": (lambda x: reshard(jnp.reshape(x * 3, (2, 8)), U), 3 * A.reshape(2, 8)),
    "an outer product": (lambda x: reshard(jnp.einsum("a,b->ab", x[0], x[1]), U), np.outer(A[0], A[1])),
    "by the compiler": (auto_axes(lambda x: jnp.cumsum(x, 0), axes="x", out_sharding=U), np.cumsum(A, 0)),
    "in a scan": (
        lambda x: lax.scan(lambda c, _: (c + reshard(jnp.cos(x), U), None), reshard(x, U), None, length=3)[0],
        A + 3 * np.cos(A),
    ),
    "in a branch": (lambda x: lax.cond(True, lambda x: reshard(x * 2, U), lambda x: reshard(x, U), x), 2 * A),
    "a gradient": (lambda x: xpr.grad(lambda w: (jnp.sin(w) * reshard(x, R)).sum())(reshard(x * 1, R)), np.cos(A) * A),
}


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize("name", MADE)
def test_values_become_unreduced(name, kind, wrap):
    """Also beside an Auto axis, along which values may be partitioned."""
    make, expected = MADE[name]
    with xpr.set_mesh(xpr.make_mesh((2, 4), ("x", "y"), (AxisType.Explicit, kind))):
        for spec in (P(), P("x"), P(None, "y")):
            if spec and name in ("reshaped", "an outer product", "by the compiler"):
                continue
            total = wrap(make)(xpr.device_put(A, spec))
            assert xpr.typeof(total).sharding.spec.unreduced == {"x"}
            close(reshard(total, P()), expected)

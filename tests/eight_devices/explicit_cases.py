"""Explicit axes of a mesh, on eight devices: types, the rules of operations, transformations, text and errors."""

import pickle
import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close, law_cases
from xpr import lax
from xpr.config import override
from xpr.errors import ShardingTypeError
from xpr.jaxpr import parse
from xpr.sharding import AbstractMesh, AxisType, NamedSharding, auto_axes, explicit_axes, reshard
from xpr.sharding import PartitionSpec as P

X = np.arange(32.0, dtype=np.float32).reshape(8, 4) / 10
W = np.arange(24.0, dtype=np.float32).reshape(4, 6) / 10 - 1


@pytest.fixture(autouse=True)
def mesh():
    mesh = xpr.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    with xpr.set_mesh(mesh), override("enable_checks", True):
        yield mesh


def put(x, *spec):
    return xpr.device_put(np.asarray(x), P(*spec))


def type_of(x):
    return xpr.typeof(x).str_short()


def f(x):
    return x * 2


# -- Types


def rows():
    return put(X, "x", None)


TYPES = {
    "rows": (lambda x: x, "f32[8@x,4]"),
    "elementwise": (lambda x: jnp.tanh(x) * 2 + x, "f32[8@x,4]"),
    "with a vector": (lambda x: x + np.ones(4, np.float32), "f32[8@x,4]"),
    "select": (lambda x: jnp.where(x > 1, x, 0), "f32[8@x,4]"),
    "convert": (lambda x: x.astype(int), "i32[8@x,4]"),
    "sum over it": (lambda x: x.sum(0), "f32[4]"),
    "sum over another axis": (lambda x: x.sum(1), "f32[8@x]"),
    "max": (lambda x: x.max(1, keepdims=True), "f32[8@x,1]"),
    "argmax": (lambda x: x.argmax(1), "i32[8@x]"),
    "softmax": (xpr.nn.softmax, "f32[8@x,4]"),
    "transpose": (lambda x: x.T, "f32[4,8@x]"),
    "new axis": (lambda x: x[:, None, :], "f32[8@x,1,4]"),
    "split an axis": (lambda x: x.reshape(4, 2, 4), "f32[4@x,2,4]"),
    "merge axes": (lambda x: x.reshape(-1), "f32[32@x]"),
    "broadcast": (lambda x: jnp.broadcast_to(x, (3, 8, 4)), "f32[3,8@x,4]"),
    "squeeze": (lambda x: x[:, None].squeeze(1), "f32[8@x,4]"),
    "flip": (lambda x: jnp.flip(x, 1), "f32[8@x,4]"),
    "slice": (lambda x: x[:, 1:3], "f32[8@x,2]"),
    "index": (lambda x: x[:, 1], "f32[8@x]"),
    "a traced index": (lambda x: x[:, x.argmax() % 4], "f32[8@x]"),
    "indices": (lambda x: x[:, np.array([0, 3])], "f32[8@x,2]"),
    "take": (lambda x: jnp.take(x, np.array([1, 1, 0]), axis=1), "f32[8@x,3]"),
    "set": (lambda x: x.at[:, 0].set(7.0), "f32[8@x,4]"),
    "concatenate": (lambda x: jnp.concatenate([x, x], 1), "f32[8@x,8]"),
    "concatenate with a replicated array": (lambda x: jnp.insert(x, 1, 0.0, axis=1), "f32[8@x,5]"),
    "pad": (lambda x: jnp.pad(x, ((0, 0), (1, 0))), "f32[8@x,5]"),
    "cumsum": (lambda x: jnp.cumsum(x, 1), "f32[8@x,4]"),
    "sort": (lambda x: jnp.sort(x, 1), "f32[8@x,4]"),
    "top_k": (lambda x: lax.top_k(x, 2)[0], "f32[8@x,2]"),
    "product": (lambda x: x @ W, "f32[8@x,6]"),
    "product of both": (lambda x: x @ put(W, None, "y"), "f32[8@x,6@y]"),
    "batched product": (lambda x: jnp.einsum("bi,bi->b", x, x), "f32[8@x]"),
    "contraction, decided": (lambda x: jnp.dot(x.T, x, out_sharding=P("x")), "f32[4@x,4]"),
    "einsum, decided": (lambda x: jnp.einsum("bi,bj->ij", x, x, out_sharding=P(None, "y")), "f32[4,4@y]"),
    "reshape, decided": (lambda x: jnp.reshape(x.T, (32,), out_sharding=P("y")), "f32[32@y]"),
    "gather, decided": (lambda x: x.at[np.array([7, 0])].get(out_sharding=P(None, "y")), "f32[2,4@y]"),
    "convolution": (
        lambda x: lax.conv(x[:, None, :, None], np.ones((2, 1, 1, 1), np.float32), (1, 1), "SAME"), "f32[8@x,2,4,1]",
    ),
    "fft": (lambda x: jnp.fft.fft(x).real, "f32[8@x,4]"),
    "cholesky": (lambda x: jnp.linalg.cholesky(jnp.eye(4) + 0 * x[:, :, None]), "f32[8@x,4,4]"),
    "ones": (lambda x: jnp.ones((8, 2), out_sharding=P("x", "y")), "f32[8@x,2@y]"),
    "arange": (lambda x: jnp.arange(8, out_sharding=P(("x", "y"))), "i32[8@(x,y)]"),
    "zeros_like": (lambda x: jnp.zeros_like(x), "f32[8@x,4]"),
    "random": (lambda x: xpr.random.normal(xpr.random.key(0), (8, 4), out_sharding=P("x")), "f32[8@x,4]"),
    "reshard": (lambda x: reshard(x, P("y")), "f32[8@y,4]"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + i, x), "f32[8@x,4]"),
    "rows of a vmap": (xpr.vmap(lambda row: jnp.outer(row, row).sum(0)), "f32[8@x,4]"),
    "constant rows of a vmap": (xpr.vmap(lambda row: jnp.ones(3) + row[0]), "f32[8@x,3]"),
    "vmap of cond": (xpr.vmap(lambda r: lax.cond(r.sum() > 1, jnp.sin, lambda r: jnp.zeros(4), r)), "f32[8@x,4]"),
    "vmap of scan": (
        xpr.vmap(lambda r: lax.scan(lambda c, _: (c * r[0], c), jnp.ones(2), None, length=3)[1]), "f32[8@x,3,2]",
    ),
    "vmap along another axis": (xpr.vmap(lambda column: column * 2, in_axes=1, out_axes=1), "f32[8@x,4]"),
    "scan": (lambda x: lax.scan(lambda c, row: (c + row, c.sum(0)), x, np.ones((3, 8, 4), np.float32))[1], "f32[3,4]"),
    "grad": (xpr.grad(lambda x: (jnp.tanh(x @ W) ** 2).sum()), "f32[8@x,4]"),
    "grad through decided": (
        xpr.grad(lambda x: (jnp.dot(x.T, x, out_sharding=P()) ** 2).sum()), "f32[8@x,4]",
    ),
    "grad of remat": (xpr.grad(xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x @ W)).sum())), "f32[8@x,4]"),
    "grad of scan": (
        xpr.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c @ W[:, :4]), None), x, None, length=3)[0].sum()),
        "f32[8@x,4]",
    ),
    "grad of max": (xpr.grad(lambda x: x.max(1).sum()), "f32[8@x,4]"),
    "grad of reshape": (xpr.grad(lambda x: (x.reshape(-1) ** 3).sum()), "f32[8@x,4]"),
    "grad of jit": (xpr.grad(lambda x: xpr.jit(lambda x: jnp.cos(x) @ W)(x).sum()), "f32[8@x,4]"),
    "grad of vmap": (xpr.grad(lambda x: xpr.vmap(lambda r: jnp.tanh(r @ W).sum())(x).sum()), "f32[8@x,4]"),
    "vmap of grad": (xpr.vmap(xpr.grad(lambda r: jnp.tanh(r @ W).sum())), "f32[8@x,4]"),
    "jvp": (lambda x: xpr.jvp(lambda x: x.mean() - x, (x,), (jnp.ones_like(x),))[1], "f32[8@x,4]"),
    "custom_jvp": (xpr.grad(lambda x: xpr.nn.relu(x).sum()), "f32[8@x,4]"),
    "jacfwd": (lambda x: xpr.jacfwd(jnp.sin)(x[:, 0]), "f32[8@x,8]"),
    "hessian": (lambda x: xpr.hessian(lambda v: (jnp.sin(v) ** 2).sum())(x[:, 0]), "f32[8@x,8]"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    """Eager, jitted and staged programs have one type, and the values that they have over Auto axes."""
    fun, expected = TYPES[name]
    x = rows()
    eager, jitted, staged = fun(x), xpr.jit(fun)(x), xpr.eval_shape(fun, x)
    assert [type_of(eager), type_of(jitted), staged.aval.str_short()] == [expected] * 3
    for result in (eager, jitted):
        assert result.sharding.is_equivalent_to(
            NamedSharding(result.sharding.mesh, xpr.typeof(result).sharding.spec), 2
        )
    with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"))):
        auto = xpr.jit(fun)(rows())
    close(eager, auto)
    close(jitted, auto)
    jaxpr = xpr.make_jaxpr(fun)(x)
    xpr.core.check_jaxpr(jaxpr)
    if "<" not in str(jaxpr):  # no holes for functions
        assert str(parse(str(jaxpr))) == str(jaxpr)


def one_of_each_primitive():
    """The sample with most operands that are sharded; not of those that hold jaxprs, which are of other types."""
    best = {}
    for case, specs in law_cases.CASES:
        axes = sum(entry is not None for spec in specs for entry in spec)
        if not case.primitive.call and axes > best.get(case.primitive, (0, None))[0]:
            best[case.primitive] = axes, pytest.param(case, specs, id=case.primitive.name)
    return [parameters for _, parameters in best.values()]


@pytest.mark.parametrize("case, specs", one_of_each_primitive())
def test_operands_over_explicit_axes(case, specs):
    """Whatever is partitioned: the result has its type and the values of the reference rule, or it is ambiguous."""
    with xpr.set_mesh(None):
        try:
            law_cases.compare([(case, specs, case)], (AxisType.Explicit,) * 2)
        except ShardingTypeError as error:
            assert re.search(r"reshard|out_sharding", str(error))


ERRORS = {
    "conflict": (
        lambda x: x + put(X, "y"),
        "add of f32[8@x,4], f32[8@y,4]: add got incompatible shardings for broadcasting: axis 0 of the operands is "
        "partitioned over 'x' and over 'y'. Reshard an",
    ),
    "twice": (
        lambda x: x[:, :1] + x[:, 0],
        "this add operation produces an illegally sharded result: f32[8@x,8@x] is partitioned over 'x' along two axes",
    ),
    "contraction": (
        lambda x: x.T @ x,
        "both operands are partitioned over 'x' along the axes that are contracted, 1 and 0, so that the result may be "
        "replicated over 'x' or partitioned. Say how the result is to be partitioned: out_sharding=P(...).",
    ),
    "contraction, conflict": (
        lambda x: x.T @ put(X, "y"),
        "what is contracted, axis 1 of one operand and axis 0 of the other, is partitioned over 'x' and over 'y'",
    ),
    "batch": (
        lambda x: jnp.einsum("bi,bi->b", x, put(X, "y")),
        "the batch, axes 0 and 0, is partitioned over 'x' and over 'y'",
    ),
    "reshape": (
        lambda x: x.T.reshape(-1), "the shards of f32[4,8@x] are not those of an array of shape (32,). Say how"
    ),
    "slice": (lambda x: x[:3], "axis 0 is partitioned over 'x', 4 shards, and has 3 elements in the result f32[3,4]"),
    "gather": (lambda x: x[np.array([1, 2])], "axis 0, which is indexed, is partitioned over 'x'. Say how"),
    "indices": (lambda x: jnp.arange(4.0)[put(np.arange(8), "x")], "axis 0 of the indices is partitioned over 'x'"),
    "scatter": (
        lambda x: x.at[np.array([1, 2])].set(1.0), "axis 0, which is indexed, is partitioned over 'x'. Say how"
    ),
    "scatter of parts": (
        lambda x: jnp.zeros((8, 4)).at[:, np.array([0, 1])].set(put(np.ones((8, 2)), None, "y")),
        "axis 0 of the indices is partitioned over 'y'",
    ),
    "sort": (lambda x: jnp.sort(x, 0), "axis 0, along which it goes, is partitioned over 'x', and must not be."),
    "cumsum": (lambda x: jnp.cumsum(x, 0), "axis 0, along which it goes, is partitioned over 'x'"),
    "convolution": (
        lambda x: lax.conv(x[None, :, :, None], np.ones((2, 8, 1, 1), np.float32), (1, 1), "SAME"),
        "the kernels, or the features of the images, are partitioned",
    ),
    "sizes": (
        lambda x: xpr.ShapeDtypeStruct((6, 2), float, sharding=NamedSharding(xpr.sharding.get_mesh(), P("x"))),
        "4 does not evenly divide the dimension size 6",
    ),
    "scan": (
        lambda x: lax.scan(lambda c, row: (c, row), 0, {"a": x}),
        "scan: the first axis of the xs must not be partitioned over a mesh, since each step takes a row: the "
        "0th dimension of all xs should be replicated:\n"
        "  xs['a']   f32[8@x,4]",
    ),
    "concatenate": (
        lambda x: jnp.concatenate([x, put(X, "x", "y")], 1),
        "concatenate of f32[8@x,4], f32[8@x,4@y]: All operands should have the same sharding, or be replicated.",
    ),
    "select": (
        lambda x: jnp.where(True, x, put(X, "y")), "select cases must have the same shardings, and axis 0 of the opera"
    ),
    "split": (
        lambda x: lax.split(x, (1,) * 8), "split of f32[8@x,4]: split on sharded dims leaves equal shards, 4 along axis"
    ),
    "unstack": (
        lambda x: jnp.unstack(x), "unstack of f32[8@x,4]: an unstack operand cannot be sharded on the unstacking axis"
    ),
    "tile": (
        lambda x: jnp.tile(x, (2, 1)), "tile of f32[8@x,4]: axis 0 cannot be sharded where its tiling is non-trivial, 2"
    ),
    "cumsum of all": (lambda x: jnp.cumsum(x), "cumsum of f32[8@x,4]: The input should be fully replicated where no"),
    "bincount": (
        lambda x: jnp.bincount(x[:, 0].astype(int), length=8, out_sharding=P("x")),
        "out_sharding=P('x',), and counts can only be fully replicated or fully unreduced",
    ),
    "vmap": (lambda x: xpr.vmap(lambda a, b: a)(x, put(X, "y")), "and can be partitioned over the same axes only"),
    "vmap of a replicated array": (
        lambda x: xpr.vmap(lambda a, b: a)(x, np.ones(8)),
        "are partitioned differently over the mesh, and can be partitioned over the same axes only:\n"
        "  a   f32[8@x,4]   mapped over axis 0\n  b   f32[8]   mapped over axis 0\nReshard one",
    ),
    "vmap along another axis": (
        lambda x: xpr.vmap(f, spmd_axis_name="y")(x), "vmap: Only one of spmd_axis_name or arrays sharded on the mapped"
    ),
    "manual": (
        lambda x: xpr.shard_map(
            lambda x: reshard(x, P(None, "x")), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )(x),
        "P(None, 'x') contains a manual axes 'x' of mesh",
    ),
    "pcast": (
        lambda x: xpr.shard_map(lambda x: lax.pcast(x, {"x"}, to="varying"), in_specs=P("x"), out_specs=P("x"))(x),
        "pcast: axis_name must be a tuple or a str",
    ),
    "vmap of shard_map": (
        lambda x: xpr.vmap(xpr.shard_map(f, in_specs=P("x"), out_specs=P("x")))(x),
        "vmap spmd_axis_name cannot appear in in_specs or out_specs of what vmap maps, and 'x' is in P('x',)",
    ),
    "meshes": (
        lambda x: x + xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("z",), (AxisType.Explicit,)), P("z"))),
        "operands are partitioned over several meshes",
    ),
    "carry": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, jnp.zeros((8, 4))), "f32[8@x,4]"),
    "closure": (
        lambda x: xpr.shard_map(lambda: x, in_specs=(), out_specs=P("x"))(),
        "closes over f32[8@x,4], of which it would see whole arrays and not shards. Pass them as arguments.",
    ),
    "set_mesh": (
        lambda x: xpr.set_mesh(xpr.make_mesh((8,), ("x",), (AxisType.Manual,))), "contains manual axes"
    ),
    "auto_axes": (lambda x: auto_axes(lambda x: x)(x), "needs out_sharding, the sharding of its results"),
    "explicit_axes": (lambda x: explicit_axes(lambda x: x)(x), "needs in_sharding, the sharding of its arguments"),
    "unknown axes": (
        lambda x: auto_axes(lambda x: x, axes="z", out_sharding=P())(x),
        "axes has 'z', and the axes of the current mesh",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    fun, message = ERRORS[name]
    for call in (fun, xpr.jit(fun)):
        with pytest.raises((TypeError, ValueError, NotImplementedError), match=re.escape(message)):
            call(rows())


def test_structs_of_traced_arrays_have_their_sharding():
    def ones_like(x):
        struct = xpr.ShapeDtypeStruct.like(x)
        return jnp.ones(struct.shape, struct.dtype, out_sharding=struct.sharding)

    assert type_of(xpr.jit(ones_like)(rows())) == "f32[8@x,4]"


def test_no_mesh_is_current():
    with xpr.set_mesh(None):
        with pytest.raises(ValueError, match="explicit_axes: f at .* is called where no mesh is current"):
            explicit_axes(f, in_sharding=P("x"))(X)
        with pytest.raises(ValueError, match="no mesh is current; write NamedSharding"):
            reshard(X, P("x"))
        assert auto_axes(f, out_sharding=P("x"))(X) is not None


# -- Meshes


def test_axes_of_other_types_in_a_function():
    @xpr.sharding.auto_axes(out_sharding=P("y"))
    def gram(x):
        assert type_of(x) == "f32[8,4]" and xpr.sharding.get_abstract_mesh().auto_axes == ("x", "y")
        return x.T @ x

    for call in (gram, xpr.jit(gram)):
        assert type_of(call(rows())) == "f32[4@y,4]"
        close(call(rows()), X.T @ X)
    gradient = xpr.jit(xpr.grad(lambda x: (gram(x) ** 2).sum()))(rows())
    assert type_of(gradient) == "f32[8@x,4]"

    @explicit_axes(axes="x")
    def inside(x):
        assert type_of(x) == "f32[8@x,4]"
        return jnp.sin(x)

    with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"))):
        for call in (inside, lambda x, **specs: xpr.jit(lambda x: inside(x, **specs))(x)):
            close(call(X, in_sharding=P("x")), np.sin(X))


def test_from_explicit_axes_to_auto_ones():
    """An array that leaves Explicit axes is partitioned as the compiler likes, which leaves it as it is here."""
    axes = AbstractMesh((4, 2), ("x", "y"))

    def there_and_back(x):
        with xpr.sharding.use_abstract_mesh(axes.update(axis_types=(AxisType.Explicit,) * 2)):
            x = jnp.sin(reshard(x, P("x")))
            assert type_of(x) == "f32[8@x,4]"
        x = reshard(x, P())
        assert type_of(x) == "f32[8,4]" and xpr.typeof(x).sharding.mesh == axes
        return x

    with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"))):
        for call in (there_and_back, xpr.jit(there_and_back)):
            assert call(jnp.asarray(X)).sharding.spec[0] == "x"
            close(call(jnp.asarray(X)), np.sin(X))
        close(xpr.jit(xpr.grad(lambda x: there_and_back(x).sum()))(jnp.asarray(X)), np.cos(X))


def test_auto_and_explicit_axes_of_one_mesh():
    """The type names the Explicit axis; along the other the compiler decides."""
    mixed = xpr.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    x = xpr.device_put(X, NamedSharding(mixed, P("x", "y")))
    result = xpr.jit(lambda x: jnp.sin(x) * 2)(x)
    assert type_of(x) == type_of(result) == "f32[8@x,4]" and result.sharding.spec == P("x", "y")
    assert str(xpr.make_jaxpr(f)(x)).startswith("{ lambda[x=4 y=2:Auto] ; a:f32[8@x,4]. let")


def test_meshes_by_axes():
    mesh = AbstractMesh((4, 2), ("x", "y"))
    explicit = mesh.update_axis_types({"x": AxisType.Explicit})
    assert (explicit.explicit_axes, explicit.auto_axes, explicit.manual_axes) == (("x",), ("y",), ())
    assert explicit != mesh and explicit.update(axis_types=mesh.axis_types) == mesh
    assert mesh.are_all_axes_auto and not explicit.are_all_axes_explicit and not explicit.are_all_axes_manual
    assert pickle.loads(pickle.dumps(explicit)) == explicit
    concrete = xpr.sharding.get_mesh()
    assert pickle.loads(pickle.dumps(concrete)) == concrete and concrete.abstract_mesh is concrete.abstract_mesh
    assert concrete != xpr.make_mesh((4, 2), ("x", "y"))


def test_other_axes_of_the_same_devices():
    """`use_abstract_mesh` inside of `set_mesh` has its devices, along other axes, in programs and at once."""
    axes = AbstractMesh((2, 4), ("a", "b"), (AxisType.Explicit,) * 2)

    def doubled(x):
        x = jnp.sin(x)
        with xpr.sharding.use_abstract_mesh(axes):
            return reshard(x, P(("b", "a"))) * 2

    for call in (doubled, xpr.jit(doubled)):
        result = call(rows())
        assert result.sharding.mesh.shape == {"a": 2, "b": 4} and result.sharding.spec == P(("b", "a"), None)
        close(result, 2 * np.sin(X))
        gradient = xpr.grad(lambda x, call=call: call(x).sum())(rows())
        assert type_of(gradient) == "f32[8@x,4]"
        close(gradient, 2 * np.cos(X))
    current = xpr.sharding.get_mesh()
    with xpr.sharding.use_abstract_mesh(axes):
        assert jnp.arange(4).sharding == NamedSharding(current.along(axes), P(None))
        assert xpr.sharding.get_abstract_mesh() == axes
    assert jnp.arange(4).sharding == NamedSharding(current, P(None))
    with pytest.raises(
        ValueError, match=r"use_abstract_mesh cannot change the size of .*, of 8 devices: that of .* is 2"
    ):
        xpr.sharding.use_abstract_mesh(AbstractMesh((2,), ("a",)))


def test_programs_for_a_mesh_without_devices():
    axes = AbstractMesh((16,), ("a",), (AxisType.Explicit,))
    with xpr.set_mesh(None), xpr.sharding.use_abstract_mesh(axes):
        traced = xpr.jit(f).trace(xpr.ShapeDtypeStruct((8, 4), jnp.float32))
        for options in ({}, {"lowering_platforms": ("cuda",)}):
            assert "num_partitions = 16" in traced.lower(**options).as_text()
        with pytest.raises(
            xpr.errors.DeviceNotFound,
            match="device_assignment cannot be `None`.* for AbstractMesh.*, which has no devices",
        ):
            traced.lower().compile()
        assert not xpr.jit(f)(X).committed


# -- Loops and rows


def test_carries_are_partitioned_alike():
    """The message shows both types, and says which kind of change is needed."""
    cases = {
        "scan": lambda x: lax.scan(lambda c, _: (reshard(c, P()), None), x, None, length=2),
        "while_loop": lambda x: lax.while_loop(lambda c: c.sum() < 0, lambda c: reshard(c, P()), x),
        "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: reshard(c, P()), x),
    }
    for name, call in cases.items():
        with pytest.raises(xpr.errors.CarryMismatch) as error:
            call(rows())
        lines = str(error.value).splitlines()
        assert lines[0] == f"{name}: the carry input and carry output must have equal types, and differ."
        assert lines[1] == "  carry   in f32[8@x,4]   out f32[8,4]"
        assert lines[-1] == "  Reshard, or move, inside the body, or change the initial carry."


def test_rows_of_what_is_the_same_in_all():
    """A result that depends on no row is repeated, and partitioned as the rows are."""
    for axis, type in ((0, "f32[8@x,4]"), (-1, "f32[4,8@x]"), (1, "f32[4,8@x]")):
        result = xpr.vmap(lambda x: jnp.zeros(4), out_axes=axis)(put(np.arange(8), "x"))
        assert type_of(result) == type


def test_broadcast_like():
    result = lax.broadcast_like(np.arange(4.0, dtype=np.float32), rows())
    assert type_of(result) == "f32[8@x,4]"
    close(result, np.tile(np.arange(4, dtype=np.float32), (8, 1)))
    assert type_of(lax.broadcast_like(rows(), rows())) == "f32[8@x,4]"
    assert type_of(lax.broadcast_like(1.0, X)) == "f32[8,4]"
    with pytest.raises(
        ShardingTypeError, match=r"broadcast_like: Incompatible shardings for broadcasting: .* f32\[4@y\] has"
    ):
        lax.broadcast_like(put(np.ones(4, np.float32), "y"), rows())


# -- Types elsewhere


def test_types_are_values():
    aval = xpr.typeof(rows())
    assert pickle.loads(pickle.dumps(aval)) is aval and repr(aval) == "ShapedArray(float32[8@x,4])"
    assert xpr.core.ShapedArray((8, 4), "float32", sharding=aval.sharding) is aval
    assert aval.update(dtype="int32").str_short() == "i32[8@x,4]" and aval.update(shape=(2,)).str_short() == "f32[2]"
    assert aval.sharding == NamedSharding(xpr.sharding.get_abstract_mesh(), P("x", None))
    assert xpr.typeof(jnp.ones(3)).sharding == NamedSharding(xpr.sharding.get_abstract_mesh(), P(None))
    with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"))):  # over Auto axes a type says nothing
        jaxpr = xpr.make_jaxpr(lambda x: lax.with_sharding_constraint(x, xpr.typeof(x).sharding))(X)
        assert not jaxpr.eqns
    struct = xpr.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(xpr.sharding.get_mesh(), P("x")))
    assert struct.aval is aval and xpr.eval_shape(f, struct).sharding == aval.sharding
    assert xpr.jit(f).lower(struct).compile()(rows()).aval is aval
    jaxpr = xpr.make_jaxpr(f)(rows())
    loaded = xpr.jaxpr.loads(xpr.jaxpr.dumps(jaxpr))
    assert str(loaded) == str(jaxpr) == "{ lambda[x=4 y=2] ; a:f32[8@x,4]. let b:f32[8@x,4] = mul a 2.0 in (b,) }"
    keys = xpr.device_put(xpr.random.split(xpr.random.key(0), 8), P("x"))
    assert type_of(keys) == "key<fry>[8@x]"
    assert type_of(xpr.vmap(lambda key: xpr.random.uniform(key, (3,)))(keys)) == "f32[8@x,3]"


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "{ lambda ; a:f32[8@x]. let  in (a,) }",
            "names axes of a mesh, and no { lambda[x=4 ...] around it says which",
        ),
        ("{ lambda[x=4] ; a:f32[8@y]. let  in (a,) }", "a type names the axis 'y', and the mesh is [x=4]"),
        ("{ lambda[x] ; a:f32[8]. let  in (a,) }", "'x' is no axis of a mesh, such as x=4 or y=2:Auto"),
    ],
)
def test_text_that_is_no_jaxpr(text, message):
    with pytest.raises(xpr.errors.JaxprSyntaxError, match=re.escape(message)):
        parse(text)


def test_in_shardings_are_in_the_types_of_arguments():
    seen = []
    program = xpr.jit(lambda x: seen.append(type_of(x)) or x + 1, in_shardings=P("x"), out_shardings=P("y"))
    assert type_of(program(X)) == "f32[8@y,4]" and seen == ["f32[8@x,4]"]


# -- shard_map


def test_manual_axes_inside_a_shard_map(mesh):
    """Inside, the mesh says which axes are Manual, and types name the others."""

    def inner(x):
        current = xpr.sharding.get_abstract_mesh()
        assert (current.manual_axes, current.explicit_axes) == (("x",), ("y",))
        assert type_of(x) == "f32[2,4@y]" and xpr.typeof(x).vma == {"x"}
        assert xpr.typeof(lax.psum(x, "x")).vma == set() and xpr.typeof(lax.axis_index("x")).vma == {"x"}
        return jnp.sin(x)

    x = put(X, "x", "y")
    mapped = xpr.shard_map(inner, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    inferred = xpr.shard_map(inner, out_specs=P("x"), axis_names={"x"})
    for call in (mapped, xpr.jit(mapped), inferred):
        assert type_of(call(x)) == "f32[8@x,4@y]"
        close(call(x), np.sin(X))
    gradient = xpr.grad(lambda x: mapped(x).sum())(x)
    assert type_of(gradient) == "f32[8@x,4@y]"
    close(gradient, np.cos(X))
    rows_of_it = xpr.vmap(xpr.smap(jnp.sin, in_axes=0, out_axes=0, axis_name="y"))(put(X, "x"))
    assert type_of(rows_of_it) == "f32[8@x,4@y]"


def test_nested_shard_maps():
    """The inner one is over further axes of the mesh of the outer one."""
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    inner = xpr.shard_map(lambda x: x * lax.psum(1, ("x", "y")), in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    outer = xpr.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    with xpr.set_mesh(mesh):
        for call in (outer, xpr.jit(outer)):
            close(call(X), X * 8)
        close(xpr.grad(lambda x: outer(x).sum())(X), np.full_like(X, 8))
        twice = xpr.shard_map(
            lambda x: xpr.shard_map(f, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(x),
            mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"},
        )  # fmt: skip
        with pytest.raises(
            ValueError, match="'x' is an axis of a shard_map around, inside of which there is one device"
        ):
            twice(X)


def test_smap():
    with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"))), pytest.raises(TypeError, match="in_axes was not specified"):
        xpr.smap(f, out_axes=0, axis_name="x")
    for specs in ({"in_axes": 0}, {}):
        doubled = xpr.smap(lambda x: x * lax.axis_size("x"), out_axes=0, axis_name="x", **specs)
        close(xpr.jit(doubled)(rows()), X * 4)
    with pytest.raises(TypeError, match=r"smap: axis_name is the name of one axis, and is \('x', 'y'\)"):
        xpr.smap(f, in_axes=0, out_axes=0, axis_name=("x", "y"))
    with pytest.raises(TypeError, match="smap: in_axes is an integer, None"):
        xpr.smap(f, in_axes="x", out_axes=0, axis_name="x")
    with pytest.raises(TypeError, match="smap: out_axes holds 'x', and each is to be an integer or None"):
        xpr.smap(f, in_axes=0, out_axes="x", axis_name="x")


def test_collectives_along_several_axes_as_one():
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    both, spec = ("x", "y"), P(("x", "y"))

    def over(fun):
        return xpr.jit(xpr.shard_map(fun, mesh=mesh, in_specs=spec, out_specs=spec))

    x = np.arange(8.0, dtype=np.float32)
    shifted = over(lambda x: lax.ppermute(x, both, [(i, (i + 1) % 8) for i in range(8)]))
    np.testing.assert_array_equal(shifted(x), np.roll(x, 1))
    square = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    exchanged = over(lambda x: lax.all_to_all(x, both, 1, 0, tiled=True))
    np.testing.assert_array_equal(exchanged(square).reshape(8, 8), square.T)
    groups = [[0, 2, 4, 6], [1, 3, 5, 7]]
    summed = over(lambda x: lax.psum(x, both, axis_index_groups=groups))
    np.testing.assert_array_equal(summed(x), np.where(np.arange(8) % 2, 16, 12))
    with pytest.raises(NotImplementedError, match="runs along the axes .* as one, of which vmap maps 'v'"):
        xpr.vmap(
            xpr.shard_map(
                lambda x: lax.ppermute(x, ("v", "x"), [(0, 1)]), mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False
            ),
            axis_name="v",
        )(x)


def test_plain_values_where_specs_are_none(mesh):
    seen = []
    mapped = xpr.shard_map(
        lambda options, x: seen.append(options["name"]) or jnp.sin(x),
        mesh=mesh, in_specs=({"name": None}, P("x")), out_specs=P("x"),
    )  # fmt: skip
    close(mapped({"name": "text"}, rows()), np.sin(X))
    assert seen == ["text"]


def test_spmd_axis_name_may_name_axes_of_size_one():
    mesh = xpr.make_mesh((2, 1), ("x", "one"), (AxisType.Explicit,) * 2)
    with override("remove_size_one_mesh_axis_from_type", True), xpr.set_mesh(mesh):
        x = xpr.device_put(np.arange(8.0, dtype=np.float32).reshape(4, 2), P(("x", "one")))
        y = xpr.vmap(lambda row: row * 2, spmd_axis_name=("x", "one"))(x)
        assert xpr.typeof(y).str_short() == "f32[4@x,2]" and xpr.typeof(xpr.reshard(y, P(None, "x"))).shape == (4, 2)


def test_types_and_shardings_agree_beside_auto_axes():
    mesh = xpr.make_mesh((1, 2, 4), ("one", "x", "y"), (AxisType.Explicit, AxisType.Explicit, AxisType.Auto))
    with xpr.set_mesh(mesh):
        x = xpr.device_put(np.arange(16.0).reshape(8, 2), P("x", "one"))
        made = xpr.jit(lambda: jnp.ones((8, 2), out_sharding=P("x", "one")))()
        for result in (made, x + 1, xpr.jit(lambda x: x * 2)(x)):
            assert xpr.typeof(result).str_short() == "f32[8@x,2@one]"
            assert result.sharding.shard_shape((8, 2))[0] in (1, 4) and "one" in result.sharding.spec
        constrained = xpr.jit(lambda x: lax.with_sharding_constraint(x, P("y")))(x)
        assert constrained.sharding == NamedSharding(mesh, P(("x", "y"), "one"))
        assert xpr.typeof(constrained).str_short() == "f32[8@x,2@one]"
        gathered = xpr.jit(lambda x: xpr.reshard(x, P("one")))(x)
        assert xpr.typeof(gathered).str_short() == "f32[8@one,2]"


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_derivatives_of_products_over_axes_that_are_partitioned(axis):
    x = put(X + 1, "x", "y")
    gradient = xpr.jit(xpr.grad(lambda x: jnp.prod(x, axis).sum()))
    assert type_of(gradient(x)) == "f32[8@x,4@y]"
    close(gradient(x), gradient(X + 1))


def test_axes_that_are_left_to_the_compiler(mesh):
    free = P(P.UNCONSTRAINED, None)
    for fun in (lambda: NamedSharding(mesh, free), lambda: lax.with_sharding_constraint(rows(), free)):
        with pytest.raises(
            ValueError,
            match=r"cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`: .* no axis of Mesh\('x': 4",
        ):
            fun()
    for types in ((AxisType.Explicit, AxisType.Auto), (AxisType.Auto, AxisType.Auto)):
        with xpr.set_mesh(xpr.make_mesh((4, 2), ("x", "y"), types)) as current:
            x = xpr.device_put(X, P("x", "y"))
            for wrap in (lambda f: f, xpr.jit):
                kept = wrap(lambda x: lax.with_sharding_constraint(x, free))(x)
                assert kept.sharding.spec[0] == "x" and xpr.typeof(kept) is xpr.typeof(x)
                kept = wrap(lambda x: lax.with_sharding_constraint(x, P(P.UNCONSTRAINED, "y")))(x)
                assert kept.sharding == NamedSharding(current, P("x", "y"))
            with pytest.raises(ValueError, match="leaves an axis to the compiler, and there is no program"):
                xpr.device_put(X, free)
    doubled = xpr.vmap(lambda x: reshard(2 * x, P("x")))
    assert type_of(doubled(jnp.ones((2, 8)))) == "f32[2,8@x]"


@pytest.mark.parametrize("spec_a", [("x",), (None, "x"), (None, None, "y"), ()])
@pytest.mark.parametrize("spec_b", [("x",), (None, "x", "y"), ("y",), ()])
def test_equations_are_solved_by_whole_matrices(spec_a, spec_b):
    a, b = (np.random.default_rng(i).normal(size=(4, 8, 8)).astype(np.float32) for i in (0, 1))
    a = a + 8 * np.eye(8, dtype=np.float32)

    def loss(a, b):
        return (jnp.linalg.solve(a, b) ** 2).sum() + jnp.linalg.inv(a).sum() + jnp.log(jnp.linalg.det(a)).sum()

    operands = put(a, *spec_a), put(b, *spec_b)
    x, gradients = jnp.linalg.solve(*operands), xpr.grad(loss, (0, 1))(*operands)
    assert xpr.typeof(x).explicit is None or xpr.typeof(x).explicit.parts[1:] == (None, None)
    assert [xpr.typeof(each) for each in gradients] == [xpr.typeof(each) for each in operands]
    close([x, *gradients], [np.linalg.solve(a, b), *_whole_gradients(loss, a, b)], 1e-4)


def _whole_gradients(loss, a, b):
    with xpr.set_mesh(None):
        return xpr.grad(loss, (0, 1))(a, b)


def test_results_that_differ_by_their_shardings_alone_are_named():
    x = rows()
    with pytest.raises(TypeError, match=r"b   is f32\[8,4\]   matvec f32\[8@x,4\]"):
        lax.custom_linear_solve(lambda y: x * y, X, lambda matvec, b: b)
    convert = xpr.closure_convert(lambda y: y * 2, X)[0]
    with pytest.raises(TypeError, match=r"args\[0\]   example f32\[8,4\]   given f32\[8@x,4\]"):
        convert(x)

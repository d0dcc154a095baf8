"""Small modules of `experimental`: marks of operations, programs as bytes, files of pytrees, callbacks, networks."""

import asyncio
import importlib
import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close
from tests.peer import JAX
from xpr import lax
from xpr.experimental import rnn, serialize_executable, topologies
from xpr.experimental.array_serialization import pytree_serialization, pytree_serialization_utils
from xpr.experimental.buffer_callback import ExecutionStage, buffer_callback
from xpr.experimental.compilation_cache import compilation_cache
from xpr.experimental.compute_on import compute_on, compute_on2
from xpr.experimental.layout import Layout, with_layout_constraint
from xpr.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from xpr.experimental.shard_alike import shard_alike
from xpr.experimental.shard_map import shard_map
from xpr.experimental.xla_metadata import set_xla_metadata

# -- Marks of operations


def marked(text):
    """The operations with attributes, and these."""
    return [
        (line.split(" = ")[1].split()[0], line.split("frontend_attributes = {")[1].split("}")[0])
        for line in text.splitlines()
        if "frontend_attributes" in line
    ]


def lowered(f, *args):
    return xpr.jit(f).lower(*args).as_text()


def test_metadata_of_a_block():
    def function(x):
        y = jnp.sin(x)
        with set_xla_metadata(a="b", n=3):
            y = jnp.cos(y)
            with set_xla_metadata(a=None, flag=True):
                y = jnp.tanh(y)
        return jnp.exp(y)

    assert marked(lowered(function, 1.0)) == [
        ("stablehlo.cosine", 'a = "b", n = "3"'), ("stablehlo.tanh", 'flag = "true", n = "3"'),
    ]  # fmt: skip
    close(xpr.jit(xpr.grad(function))(1.0), xpr.grad(function)(1.0))
    close(xpr.vmap(function)(jnp.ones(2)), jnp.stack([function(1.0)] * 2))


@pytest.mark.parametrize("name, text", [("a.b", "a.b"), ("a-b", '"a-b"'), ("1", '"1"'), ("é", '"\\C3\\A9"')])
def test_metadata_of_any_name(name, text):
    function = lambda x: set_xla_metadata(set_xla_metadata(jnp.sin(x), **{name: 'a"b'}), c=1)
    [(operation, attributes)] = marked(lowered(function, 1.0))
    assert operation == "stablehlo.sine"
    assert sorted(attributes.split(", ")) == sorted([f'{text} = "a\\22b"', 'c = "1"'])
    close(xpr.jit(function)(1.0), jnp.sin(1.0))


def test_metadata_around_a_trace():
    f = lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x), x)
    plain = lowered(f, 1.0)
    with set_xla_metadata(a="b"):
        text = lowered(f, 1.0)
    assert "frontend_attributes" not in plain
    assert ("stablehlo.sine", 'a = "b"') in marked(text)
    assert lowered(f, 1.0) == plain
    g = set_xla_metadata(a="c")(xpr.jit(lambda x: jnp.sin(x) * 2))
    assert marked(g.lower(1.0).as_text())[0] == ("stablehlo.sine", 'a = "c"')
    close(g(1.0), jnp.sin(1.0) * 2)
    assert 'a="c"' in g.lower(1.0).compile().as_text()


def block(x):
    with set_xla_metadata(a="b"):
        return x**3 + x**2 + jnp.sin(x)


def test_metadata_of_derivatives():
    """Operations that are derived from those of a block are marked, too, wherever they are."""
    for transformed in (xpr.grad(block), xpr.jacfwd(block), xpr.grad(xpr.jit(block)), xpr.grad(xpr.checkpoint(block))):
        text = lowered(transformed, 1.0)
        assert ("stablehlo.cosine", 'a = "b"') in marked(text)
        plain = [line.split()[2] for line in text.splitlines() if " = stablehlo." in line and "frontend_" not in line]
        assert {name.removeprefix("stablehlo.") for name in plain} <= {
            "constant", "optimization_barrier", "broadcast_in_dim", "reshape"
        }  # fmt: skip
    text = lowered(lambda x: lax.fori_loop(0, 3, lambda i, x: block(x), x), 1.0)
    assert [name for name, _ in marked(text)].count("stablehlo.sine") == 1


def test_metadata_of_equations():
    closed = xpr.make_jaxpr(lambda x: jnp.exp(block(x)))(1.0)
    assert str(closed) == str(xpr.make_jaxpr(lambda x: jnp.exp(x**3 + x**2 + jnp.sin(x)))(1.0))
    metadata = [{"a": "b"}] * 5 + [None]
    assert [eqn.ctx.xla_metadata for eqn in closed.eqns] == metadata
    assert [eqn.ctx.xla_metadata for eqn in pickle.loads(pickle.dumps(closed)).eqns] == metadata
    again = xpr.make_jaxpr(lambda x: xpr.core.eval_jaxpr(closed.jaxpr, closed.consts, x))(1.0)
    assert [eqn.ctx.xla_metadata for eqn in again.eqns] == metadata
    with set_xla_metadata(c=1):
        mapped = xpr.make_jaxpr(xpr.vmap(xpr.jit(block)))(jnp.ones(2))
    assert [eqn.ctx.xla_metadata for eqn in mapped.eqns] == [{"c": 1}]
    assert mapped.eqns[0].params["call_jaxpr"].eqns[0].ctx.xla_metadata == {"a": "b", "c": 1}


def test_metadata_that_is_taken_away_in_a_call():
    def function(x):
        with set_xla_metadata(a="b"):
            y = jnp.sin(x)
            with set_xla_metadata(a=None):
                return xpr.jit(jnp.cos, inline=True)(y) + xpr.checkpoint(jnp.tanh)(y)

    assert marked(lowered(function, 1.0)) == [("stablehlo.sine", 'a = "b"')]


def test_operations_with_other_metadata_are_others():
    def function(x):
        y = jnp.sin(x)
        with set_xla_metadata(a="b"):
            return y + jnp.sin(x) + jnp.sin(x)

    closed = xpr.make_jaxpr(function)(1.0)
    assert [eqn.primitive.name for eqn in xpr.jaxpr.cse(closed).eqns].count("sin") == 2
    text = lowered(function, 1.0)
    assert text.count("stablehlo.sine") == 2 and marked(text).count(("stablehlo.sine", 'a = "b"')) == 1
    with set_xla_metadata(a="b"):
        other = xpr.make_jaxpr(jnp.sin)(1.0)
    assert not xpr.jaxpr.equal(other, xpr.make_jaxpr(jnp.sin)(1.0))


def test_metadata_beside_scopes():
    def function(x):
        with xpr.named_scope("outer"), set_xla_metadata(a="b"), xpr.named_scope("inner"):
            return jnp.sin(x)

    for transformed, names in ((function, "outer/inner"), (xpr.grad(function), "jvp(outer)/inner")):
        (first, *_) = xpr.make_jaxpr(transformed)(1.0).eqns
        assert first.source_info.name_stack == names and first.ctx.xla_metadata == {"a": "b"}


def test_metadata_of_a_value():
    text = lowered(lambda x: {"y": jnp.cos(set_xla_metadata({"s": jnp.sin(x)}, a="b")["s"])}, 1.0)
    assert marked(text) == [("stablehlo.sine", 'a = "b"')]
    assert marked(lowered(lambda x: set_xla_metadata(x, a="b") + 1, 1.0)) == []  # an argument


def test_metadata_of_a_call():
    f = scheduling_group("first")(lambda x, *, y: jnp.sin(x) + y)
    text = lowered(lambda x: f(x, y=x), 1.0)
    assert 'scheduling_group = "first"' in text
    close(xpr.jit(lambda x: f(x, y=x))(1.0), jnp.sin(1.0) + 1)
    close(xpr.grad(xla_metadata_call(jnp.sin, kind="wave"))(1.0), jnp.cos(1.0))


def test_units_of_a_device():
    def function(x):
        with compute_on("device_host"):
            y = jnp.sin(x)
        with compute_on("gpu_stream:2"):
            return jnp.cos(y)

    sine, cosine = marked(lowered(function, 1.0))
    assert sine == ("stablehlo.sine", '_xla_compute_type = "host"')
    assert '_xla_stream_annotation = "2"' in cosine[1]
    close(xpr.jit(function)(1.0), jnp.cos(jnp.sin(1.0)))
    part = compute_on2(compute_type="device_host", out_memory_spaces=None)(jnp.sin)
    assert '_xla_compute_type = "host"' in lowered(lambda x: part(x) + 1, 1.0)
    with pytest.raises(ValueError, match="invalid compute type 'elsewhere'"):
        compute_on("elsewhere")
    with pytest.raises(TypeError, match="is a text"):
        compute_on(3)
    with pytest.raises(NotImplementedError, match="compiler_options"):
        compute_on2(jnp.sin, compute_type="device", out_memory_spaces=None, compiler_options={"a": 1})
    with pytest.raises(NotImplementedError, match="device's memory alone"):
        compute_on2(jnp.sin, compute_type="device", out_memory_spaces="pinned_host")


def test_layouts_inside_of_programs():
    f = lambda x: with_layout_constraint(x * 2, Layout((1, 0))) + 1
    assert "LayoutConstraint" in lowered(f, jnp.ones((2, 3)))
    close(xpr.jit(f)(jnp.ones((2, 3))), jnp.full((2, 3), 3.0))
    close(xpr.jit(xpr.vmap(f, 1))(jnp.ones((2, 4, 3))), jnp.full((4, 2, 3), 3.0))
    with pytest.raises(ValueError, match=r"\(1, 0\) are not the axes of an array of shape \(3,\)"):
        with_layout_constraint(jnp.ones(3), Layout((1, 0)))


def test_shardings_alike():
    mesh = xpr.make_mesh((1,), ("x",))
    x = xpr.device_put(jnp.arange(4.0), xpr.NamedSharding(mesh, xpr.P("x")))
    f = lambda x: shard_alike({"a": x}, {"a": x * 2})[1]["a"].sum()
    close(xpr.jit(f)(x), 12.0 + jnp.zeros(()))
    close(xpr.grad(f)(jnp.arange(4.0)), jnp.full(4, 2.0))
    with pytest.raises(ValueError, match="structures must be equal"):
        shard_alike([1.0], (1.0,))
    with pytest.raises(ValueError, match=r"f32\[2\] and f32\[3\]"):
        shard_alike(jnp.ones(2), jnp.ones(3))


# -- Programs and pytrees as bytes


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


xpr.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))


def test_programs_as_bytes():
    compiled = xpr.jit(lambda p: Pair(p.a + 1, p.b * 2)).lower(Pair(1.0, jnp.ones(3))).compile()
    data, in_tree, out_tree = serialize_executable.serialize(compiled)
    assert isinstance(data, bytes)
    result = serialize_executable.deserialize_and_load(data, in_tree, out_tree, "cpu")(Pair(2.0, jnp.ones(3)))
    close([result.a, result.b], [xpr.numpy.float32(3.0), jnp.full(3, 2.0)])
    with pytest.raises(ValueError, match="is for one device, and execution_devices has 0"):
        serialize_executable.deserialize_and_load(data, in_tree, out_tree, execution_devices=[])


def test_pytrees_in_folders(tmp_path):
    data = {"w": jnp.arange(3.0), "parts": [jnp.ones((2, 2), "int8"), ()]}
    pytree_serialization.save(data, tmp_path)
    types = pytree_serialization.load_pytreedef(tmp_path)
    assert types["parts"][0].dtype == "int8" and types["w"].shape == (3,)
    back = pytree_serialization.load(tmp_path, {"w": xpr.devices()[0], "parts": None})
    assert xpr.tree.structure(back) == xpr.tree.structure(data)
    close(back, data)
    with pytest.raises(FileExistsError, match="overwrite is False"):
        pytree_serialization.save(data, tmp_path, overwrite=False)
    with pytest.raises(NotImplementedError, match="TensorStore"):
        pytree_serialization.load(tmp_path, None, ts_specs={})

    async def in_the_background():
        await pytree_serialization.nonblocking_save({"x": jnp.zeros(2)}, tmp_path / "other")
        future = pytree_serialization.nonblocking_load(tmp_path / "other", xpr.devices()[0])
        assert "ShapeDtypeStruct" in repr(future)
        return await future

    close(asyncio.run(in_the_background()), {"x": jnp.zeros(2)})
    structure = xpr.tree.structure({"a": (1, None)})
    as_data = pytree_serialization_utils.serialize_pytreedef(structure)
    assert pytree_serialization_utils.deserialize_pytreedef(as_data) == structure


def test_the_folder_of_compiled_programs(tmp_path):
    before = xpr.config.compilation_cache_dir
    try:
        compilation_cache.set_cache_dir(tmp_path)
        assert xpr.config.compilation_cache_dir == str(tmp_path)
        compilation_cache.reset_cache()
        assert xpr.config.compilation_cache_dir.endswith("programs")
    finally:
        xpr.config.update("compilation_cache_dir", before)


def test_attached_devices():
    attached = topologies.get_attached_topology()
    assert topologies.make_mesh(attached, (1,), ("x",)).shape == {"x": 1}
    with pytest.raises(NotImplementedError, match="attached devices"):
        topologies.get_topology_desc("v4:2x2", "tpu")


# -- Callbacks that write into buffers


def test_callbacks_that_write_into_buffers():
    stages = []

    def callback(context, out, x, *, by):
        stages.append(context.stage)
        assert out["sum"].writeable and not x.writeable and x.shape == (3,) and x.ndim == 1 and x.dtype == "float32"
        np.asarray(out["sum"])[...] = np.from_dlpack(out["copy"]).sum() + np.asarray(x) + np.asarray(by)
        np.asarray(out["copy"])[...] = x

    types = {"copy": xpr.ShapeDtypeStruct((3,), "float32"), "sum": xpr.ShapeDtypeStruct((3,), "float32")}
    f = buffer_callback(callback, types, input_output_aliases={1: 0})
    out = xpr.jit(lambda x: f(x, by=x))(jnp.arange(3.0))
    close(out, {"copy": jnp.arange(3.0), "sum": jnp.array([3.0, 5.0, 7.0])})
    assert stages == [ExecutionStage.EXECUTE]


def test_rows_of_callbacks_that_write_into_buffers():
    def callback(context, out, x):
        np.asarray(out)[...] = np.asarray(x).sum(-1)

    f = buffer_callback(callback, xpr.ShapeDtypeStruct((), "float32"), vmap_method="broadcast_all")
    close(xpr.vmap(f)(jnp.ones((2, 3))), jnp.full(2, 3.0))


@pytest.mark.parametrize(
    ("aliases", "message"),
    [({2: 0}, "arguments are those from 0 to 1"), ({0: 1}, "results are those from 0 to 0"), ({1: 0}, r"is i32\[3\]")],
)
def test_aliases_that_do_not_fit(aliases, message):
    f = buffer_callback(lambda *_: None, xpr.ShapeDtypeStruct((3,), "float32"), input_output_aliases=aliases)
    with pytest.raises(ValueError, match=message):
        f(jnp.zeros(3), jnp.zeros(3, int))


def test_callbacks_that_return_something():
    f = buffer_callback(lambda *_: 3, xpr.ShapeDtypeStruct((), "float32"), has_side_effect=True)
    with pytest.raises(ValueError, match="must return None; .* It returned 3 of type"):
        f(1.0)
    for returned in (0, np.ones(3)):
        f = buffer_callback(lambda *_, value=returned: value, xpr.ShapeDtypeStruct((), "float32"), has_side_effect=True)
        with pytest.raises(ValueError, match="must return None"):
            f(1.0)
    context = []
    buffer_callback(lambda c, *_: context.append(c), xpr.ShapeDtypeStruct((), "float32"), has_side_effect=True)(1.0)
    with pytest.raises(xpr.errors.JaxRuntimeError, match="has no streams"):
        context[0].stream  # noqa: B018  # it raises


# -- LSTM


@pytest.mark.skipif(JAX is None, reason="compares with jax")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm_is_that_of_jax(bidirectional):
    theirs = importlib.import_module("jax.experimental.rnn")
    size = rnn.get_num_params_in_lstm(3, 5, 2, bidirectional)
    assert size == theirs.get_num_params_in_lstm(3, 5, 2, bidirectional)
    rng = np.random.default_rng(0)
    layers = 4 if bidirectional else 2
    w, x, h, c = (rng.normal(size=s).astype("f") for s in ((size,), (4, 6, 3), (layers, 4, 5), (layers, 4, 5)))
    lengths = np.array([6, 3, 1, 4], np.int32)
    of_network = 3, 5, 2, bidirectional
    ours = rnn.lstm(x, h, c, jnp.asarray(w), lengths, 3, 5, 2, 0.0, bidirectional)
    of_theirs = theirs.unpack_lstm_weights(w, *of_network)
    close(ours, theirs.lstm_ref(x, h, c, *of_theirs, lengths, 3, 5, 2, 0.0, bidirectional))
    parts = rnn.unpack_lstm_weights(jnp.asarray(w), *of_network)
    close(rnn.lstm_ref(x, h, c, *parts, lengths, 3, 5, 2, 0.0, bidirectional), ours)
    close(rnn.swap_lstm_gates(w, *of_network), theirs.swap_lstm_gates(w, *of_network))


def test_lstm_differentiates_and_refuses():
    w = rnn.init_lstm_weight(xpr.random.key(0), 3, 5, 1, False)
    state, x, lengths = jnp.zeros((1, 2, 5)), jnp.ones((2, 4, 3)), jnp.array([4, 2], dtype="int32")
    loss = lambda w: rnn.lstm(x, state, state, w, lengths, 3, 5, 1, 0.0, False)[0].sum()
    xpr.testing.check_grads(loss, (w,), order=1, modes=["rev"])
    with pytest.raises(NotImplementedError, match="must be int32"):
        rnn.lstm(x, state, state, w, jnp.ones(2), 3, 5, 1, 0.0, False)
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm(x, state, state, w, lengths, 3, 5, 1, 0.5, False)


def test_shard_map_with_its_old_parameters():
    mesh, P = xpr.make_mesh((1,), ("x",)), xpr.sharding.PartitionSpec
    total = shard_map(lambda x: lax.psum(x.sum(), "x"), mesh, P("x"), P(), check_rep=False)
    close(total(jnp.arange(4.0)), jnp.float32(6))
    close(xpr.grad(lambda x: total(x) ** 2)(jnp.ones(4)), jnp.full(4, 8.0))

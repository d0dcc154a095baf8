"""What `cost` says that devices hold and send, beside closed forms and beside the collectives of compiled programs."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.ops.table import floats
from xpr import lax
from xpr.inspect.tables import Tables
from xpr.jaxpr import cost
from xpr.primitives.recurrences import linear_recurrence
from xpr.sharding import AxisType, NamedSharding, reshard
from xpr.sharding import PartitionSpec as P


def mesh(axis_type=AxisType.Auto):
    return xpr.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)


def explicit():
    return mesh(AxisType.Explicit)


def mapped(f, in_specs, out_specs):
    return xpr.shard_map(f, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False)


def put(shape, *spec):
    return xpr.device_put(floats(*shape), NamedSharding(explicit(), P(*spec)))


def sums(collectives):
    """Bytes by kind, axes and number of devices."""
    found = {}
    for kind, size, axes, count, times in collectives:
        key = kind, axes, count
        found[key] = found.get(key, 0) + size * times
    return found


def of_xla(fun, *args):
    return xpr.jit(fun).lower(*args).compile()


def images(kernel, x):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jnp.sum(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers) ** 2)


def embedded(table, tokens):
    return jnp.sum(table.at[tokens].get(out_sharding=P("x")) ** 2)


def cross_entropy(w, x, right):
    scores = x @ w
    return jnp.mean(xpr.nn.logsumexp(scores, axis=-1) - jnp.sum(scores * right, -1))


def tokens():
    return xpr.device_put(np.arange(32, dtype=np.int32).reshape(8, 4) % 16, NamedSharding(explicit(), P("x")))


X = floats(32, 16)  # 8 x 8 on each device, 256 bytes
PERMUTED = [(0, 1), (1, 2), (2, 0)]


@pytest.mark.parametrize(
    ("fun", "out_spec", "collective", "sent"),
    [
        (lambda a: lax.psum(a, "x"), P(None, "y"), ("all-reduce", 256, ("x",), 4, 1), 2 * 256 * 3 / 4),
        (lambda a: lax.psum(a, ("x", "y")), P(), ("all-reduce", 256, ("x", "y"), 8, 1), 2 * 256 * 7 / 8),
        (lambda a: lax.all_gather(a, "y"), P(None, "x"), ("all-gather", 512, ("y",), 2, 1), 256),
        (lambda a: lax.psum_scatter(a, "x", tiled=True), P("x", "y"), ("reduce-scatter", 256, ("x",), 4, 1), 192),
        (lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x", "y"), ("all-to-all", 256, ("x",), 4, 1), 192),
        (lambda a: lax.ppermute(a, "x", PERMUTED), P("x", "y"), ("collective-permute", 256, ("x",), 2, 1), 256),
        (lambda a: lax.scan(lambda c, _: (lax.psum(c, "x"), None), a, None, 5)[0], P(None, "y"),
         ("all-reduce", 256, ("x",), 4, 5), 5 * 2 * 256 * 3 / 4),
        (lambda a: lax.psum(a, "y", axis_index_groups=[[0, 1]]), P("x"), ("all-reduce", 256, ("y",), 2, 1), 256),
    ],
)  # fmt: skip
def test_collectives_of_shard_map(fun, out_spec, collective, sent):
    f = mapped(fun, P("x", "y"), out_spec)
    found = cost(f)(X)
    assert found.collectives == [collective] == of_xla(f, X).collectives()
    assert found.sent == sent and found.held.arguments == 256


def test_operations_are_those_of_all_devices_and_memory_that_of_each():
    f = mapped(lambda a: lax.psum(a @ a, "x"), P("x", "y"), P(None, "y"))
    found = cost(f)(X)
    sizes = of_xla(f, X).memory_analysis()
    assert found.flops == 8 * 2 * 8**3
    assert found.held[:2] == (sizes.argument_size_in_bytes, sizes.output_size_in_bytes) == (256, 256)
    assert found.peak_memory == found.held.peak == 256 + 256 + 256
    through_jit = cost(xpr.jit(lambda x: xpr.jit(f)(x)))(X)
    assert (through_jit.held, through_jit.sent) == (found.held, found.sent)
    in_loop = cost(lambda xs: lax.map(f, xs))(np.stack([X] * 3))
    assert in_loop.sent == 3 * found.sent and in_loop.held.arguments == 3 * 256


def test_pmap():
    f = xpr.pmap(lambda a, w: lax.psum(a * w, "rows"), "rows", in_axes=(0, None))
    found = cost(f)(floats(8, 5), floats(5))
    assert found.collectives == [("all-reduce", 20, ("rows",), 8, 1)] and found.sent == 35
    assert found.held[:2] == (40, 20) and found.flops == 8 * 5


@pytest.mark.parametrize(
    ("fun", "arguments", "expected"),
    [
        (lambda a: reshard(a, P()), lambda: [put((8, 4), "x", "y")], {("all-gather", ("x", "y"), 8): 128}),
        (lambda a: reshard(a, P("x")), lambda: [put((8, 4), "x", "y")], {("all-gather", ("y",), 2): 32}),
        (lambda a: reshard(a, P("x", "y")), lambda: [put((8, 4))], {}),
        (lambda a: reshard(a, P(None, "x")), lambda: [put((8, 8), "x")], {("all-to-all", ("x",), 4): 64}),
        (lambda a: a * a + 1, lambda: [put((8, 8), "x")], {}),
        (lambda a: jnp.sum(a, 1), lambda: [put((8, 16), "x", "y")], {("all-reduce", ("y",), 2): 8}),
        (lambda a: jnp.sum(a), lambda: [put((8, 16), "x")], {("all-reduce", ("x",), 4): 4}),
        (lambda a, b: a @ b, lambda: [put((8, 16), "x"), put((16, 12), None, "y")], {}),
        (lambda a, b: jnp.dot(a, b, out_sharding=P("x")), lambda: [put((8, 16), "x", "y"), put((16, 12), "y")],
         {("all-reduce", ("y",), 2): 96}),
        (lambda a, b: jnp.dot(a, b, out_sharding=P("x", unreduced={"y"})),
         lambda: [put((8, 16), "x", "y"), put((16, 12), "y")],
         {}),
        (lambda w, x: jnp.dot(x, w, out_sharding=P("x")), lambda: [put((16, 12), "x"), put((8, 16), "x")],
         {("all-gather", ("x",), 4): 768}),
        (xpr.value_and_grad(lambda w, x: jnp.sum((x @ w) ** 2)), lambda: [put((16, 12)), put((8, 16), "x")],
         {("all-reduce", ("x",), 4): 772}),
        (xpr.value_and_grad(images), lambda: [put((3, 3, 4, 8)), put((8, 8, 8, 4), "x")],
         {("all-reduce", ("x",), 4): 4 + 1152}),
        (xpr.value_and_grad(images), lambda: [put((3, 3, 4, 8)), put((8, 8, 8, 4), None, "x")],
         {("collective-permute", ("x",), 2): 2 * 2 * 1024, ("all-reduce", ("x",), 4): 4 + 1152}),
        (xpr.value_and_grad(embedded), lambda: [put((16, 8)), tokens()], {("all-reduce", ("x",), 4): 4 + 512}),
        (lambda table, tokens: table.at[tokens].get(out_sharding=P("x")), lambda: [put((16, 8), "y"), tokens()],
         {("all-reduce", ("y",), 2): 256}),
        (xpr.value_and_grad(cross_entropy),
         lambda: [put((16, 32), None, "y"), put((8, 16), "x"), put((8, 32), "x", "y")],
         {("all-reduce", ("y",), 2): 24, ("all-reduce", ("x",), 4): 4 + 1024}),
    ],
)  # fmt: skip
def test_what_types_imply(fun, arguments, expected):
    args = arguments()
    with xpr.set_mesh(explicit()):
        found, compiled = cost(fun)(*args), of_xla(fun, *args)
    assert sums(found.collectives) == expected
    if ("all-gather", ("x", "y"), 8) not in expected:  # XLA gathers along one axis after the other
        assert sums(found.collectives) == sums(compiled.collectives())
    assert found.sent == sum(each.sent * each.times for each in compiled.collectives())
    sizes = compiled.memory_analysis()
    assert found.held.arguments == sizes.argument_size_in_bytes


def test_the_index_of_the_largest():
    """XLA gathers the candidates of two devices, which takes as much as a reduction."""
    with xpr.set_mesh(explicit()):
        args = [put((8, 32), "x", "y")]
        found, compiled = cost(lambda a: jnp.argmax(a, 1))(*args), of_xla(lambda a: jnp.argmax(a, 1), *args)
    assert found.collectives == [("all-reduce", 8, ("y",), 2, 1)] * 2
    assert found.sent == sum(each.sent for each in compiled.collectives())


def test_sums_that_are_scattered():
    """XLA:CPU reduces to all devices and slices; others send half as much."""
    args = [put((8, 16), "x", "y"), put((16, 12), "y")]
    with xpr.set_mesh(explicit()):
        found = cost(lambda a, b: jnp.dot(a, b, out_sharding=P("x", "y")))(*args)
        step = cost(xpr.grad(lambda w, x: jnp.sum(jnp.dot(x, w, out_sharding=P("x")) ** 2)))
        sharded = step(put((16, 12), "x"), put((8, 16), "x"))
    assert found.collectives == [("reduce-scatter", 96, ("y",), 2, 1)]
    assert sums(sharded.collectives) == {("all-gather", ("x",), 4): 768, ("reduce-scatter", ("x",), 4): 768}
    assert sharded.sent == 2 * 768 * 3 / 4


def test_operations_without_a_rule_gather_their_operands():
    with xpr.set_mesh(explicit()):
        found = cost(lambda a: linear_recurrence(a, 2 * a, 1, False))(put((8, 8), "x"))
    assert found.collectives == [("all-gather", 256, ("x",), 4, 1)] * 2


def test_gradients_in_a_loop():
    """Of a replicated weight; what nothing reads is not sent."""
    loss = lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, 3)[0].sum()
    with xpr.set_mesh(explicit()):
        found = cost(xpr.grad(loss))(put((16, 16)), put((8, 16), "x"))
    assert found.collectives == [("all-reduce", 1024, ("x",), 4, 3)]


def test_the_table():
    def f(a):
        b = a @ a
        return lax.psum(b, "x")

    text = str(cost(mapped(f, P("x", "y"), P(None, "y")))(X)).splitlines()
    assert "(each device holds arguments 256 B, results 256 B, temporaries 256 B, and sends 384 B)" in text[1]
    assert text[2].split() == ["operations", "share", "bytes", "sent", "equations", "line"]
    (row,) = [line for line in text if "lax.psum" in line]
    assert "384 B" in row
    product = lambda x: x @ x.T
    assert "each device" not in str(cost(product)(X))


def test_cotangents_of_products_with_an_out_sharding_stay_where_they_are():
    """They were gathered, and each device computed with the rows of all."""

    def loss(w, x):
        return jnp.sum(jnp.dot(x, w, out_sharding=P("x")) ** 2)

    args = put((16, 12), "y"), put((8, 16), "x", "y")
    with xpr.set_mesh(explicit()):
        found, compiled = cost(xpr.value_and_grad(loss))(*args), of_xla(xpr.value_and_grad(loss), *args)
    assert sums(found.collectives) == {("all-reduce", ("y",), 2): 96, ("all-reduce", ("x",), 4): 4 + 384}
    assert sums(found.collectives) == sums(compiled.collectives())


def test_the_page_has_what_is_held_and_sent():
    f = mapped(lambda a: lax.scan(lambda c, _: (lax.psum(c @ c, "x"), None), a, None, 5)[0], P("x", "y"), P(None, "y"))
    tables = Tables(xpr.make_jaxpr(f)(X))
    sent = {tables.primitives.items[eqn[0]]: eqn[8] for eqn in tables.eqns}
    assert sent == {"shard_map": 5 * 384, "scan": 5 * 384, "psum": 384, "dot_general": 0}
    alive = {tables.primitives.items[eqn[0]]: eqn[7] for eqn in tables.eqns}
    assert alive["shard_map"] == 256 + 256
    assert "const COSTS" in xpr.jaxpr.show(f)(X).html
    with xpr.set_mesh(explicit()):
        tables = Tables(xpr.make_jaxpr(lambda a: reshard(a * 2, P()))(put((8, 4), "x", "y")))
    assert dict(zip(tables.types.items, tables.type_bytes)) == {"f32[8@x,4@y]": 16, "f32[8,4]": 128}
    assert [eqn[8] for eqn in tables.eqns] == [0, 112]

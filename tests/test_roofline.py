"""xpr.experimental.roofline: counts of programs that are worked out by hand beside them."""

import logging

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.backend.communication import Collective
from xpr.experimental.roofline import (
    RooflineResult,
    RooflineShape,
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)
from xpr.experimental.roofline.network import on_links
from xpr.extend import Primitive
from xpr.sharding import AbstractMesh, NamedSharding
from xpr.sharding import PartitionSpec as P

pytestmark = pytest.mark.quick

MESH = AbstractMesh((2, 2, 2), ("x", "y", "z"))
X = np.ones((8, 16), np.float32)  # 128 elements, 512 bytes


def struct(*shape, dtype="float32"):
    return xpr.ShapeDtypeStruct(shape, dtype)


def rows(x, mode):
    """The first three."""
    numbers = lax.GatherDimensionNumbers((1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, np.arange(3)[:, None].astype(np.int32), numbers, (1, 16), mode=mode)


def counted(f, *args, **options):
    return roofline(f, **options)(*args)[1]


# -- Operations and memory


def test_a_layer():
    shapes, result = roofline(lambda x, w, b: jnp.maximum(x @ w + b, 0.0))(struct(8, 16), struct(16, 32), struct(32))
    assert (shapes.shape, shapes.dtype) == ((8, 32), np.float32)
    assert result.flops == 2 * 8 * 16 * 32
    assert result.hbm_bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert result.unfused_flops == result.flops + 2 * 8 * 32  # the sum and the maximum
    sums, maxima = 4 * 3 * 8 * 32, 4 * (2 * 8 * 32 + 1)  # the bias is broadcast first
    assert result.unfused_hbm_bytes == result.hbm_bytes + sums + maxima


def test_operands_of_products_in_faster_memory():
    lhs, rhs, out = 4 * 8 * 16, 4 * 16 * 32, 4 * 8 * 32
    product = lambda **pins: counted(lambda x, w: x @ w, X, struct(16, 32), **pins).hbm_bytes
    assert product() == lhs + rhs + out
    assert product(pin_lhs_in_vmem=True) == rhs
    assert product(pin_rhs_in_vmem=True) == lhs + out
    assert product(pin_lhs_in_vmem=True, pin_rhs_in_vmem=True) == 0


@pytest.mark.parametrize(
    ("f", "flops", "moved"),
    [
        (jnp.sin, 128, 2 * 512),
        (lambda x: x > 1, 128, 512 + 4 + 128),  # booleans have a byte
        (lambda x: jnp.sum(x, 0), 7 * 16, 512 + 64),
        (lambda x: jnp.max(x), 127, 512 + 4),
        (lambda x: lax.cumsum(x, axis=0), 128, 2 * 512),
        (lambda x: x.T.reshape(4, 32)[None], 0, 0),  # elements are moved where they are read
        (lambda x: x.astype(np.float16), 0, 0),
        (lambda x: lax.dynamic_slice(x, (0, 3), (8, 4)), 0, 2 * 128 + 2 * 4),
        (lambda x: lax.dynamic_update_slice(x, np.zeros((1, 16), np.float32), (2, 0)), 0, 2 * 64 + 2 * 4),
        (lambda x: rows(x, "clip"), 0, 2 * 3 * 64 + 3 * 4),
        (lambda x: rows(x, "fill"), 4 * 3 + 3 * 16, 2 * 3 * 64 + 3 * 4),
    ],
)
def test_operations(f, flops, moved):
    result = counted(f, X)
    assert (result.unfused_flops, result.unfused_hbm_bytes) == (flops, moved)
    if result.hbm_bytes:
        assert (result.flops, result.hbm_bytes) == (flops, moved)


def test_what_is_fused_and_what_is_not():
    assert counted(lambda x: jnp.sum(jnp.exp(x) * 2), X).hbm_bytes == 0
    assert counted(lambda x: lax.sort(x), X).hbm_bytes == 2 * 512


def test_scatters():
    rows = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    indices, updates = np.zeros((2, 1), np.int32), np.ones((2, 16), np.float32)
    result = counted(lambda x: lax.scatter_add(x, indices, updates, rows), X)
    assert (result.unfused_flops, result.unfused_hbm_bytes) == (2 * 16, 3 * 2 * 64 + 2 * 4)
    result = counted(lambda x: lax.scatter_apply(x, indices, lambda e: e * e + 1, rows, update_shape=(2, 16)), X)
    assert (result.unfused_flops, result.unfused_hbm_bytes) == (2 * 2 * 16, 3 * 2 * 64 + 2 * 4)


def test_convolutions_multiply_no_padding():
    image, kernel = struct(1, 1, 3, 3), struct(1, 1, 3, 3)
    result = counted(lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME"), image, kernel)
    assert result.flops == 2 * (4 * 4 + 4 * 6 + 9)  # products at corners, edges, the middle
    assert result.hbm_bytes == 3 * 4 * 9


def test_callbacks_move_their_values():
    like = xpr.ShapeDtypeStruct.like(X)
    assert counted(lambda x: xpr.pure_callback(np.sin, like, x), X).unfused_hbm_bytes == 2 * 512
    assert counted(lambda x: xpr.io_callback(np.sin, like, x), X).unfused_hbm_bytes == 2 * 512

    def printing(x):
        xpr.debug.print("{}", x)
        return x

    assert counted(printing, X).unfused_hbm_bytes == 512


# -- Functions inside


def test_functions_count_as_often_as_they_run():
    double = xpr.jit(lambda x: x + x)
    assert counted(lambda x: double(double(x)), X).unfused_flops == 2 * 128
    assert (
        counted(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=7)[0], X).unfused_flops == 7 * 128
    )
    assert counted(lambda x: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c * 2, x), X).unfused_flops == 1 + 128
    choice = lambda p, x: lax.cond(p, lambda: jnp.sin(x) * 2, lambda: x)
    assert counted(choice, True, X).unfused_flops == 2 * 128


def test_functions_with_rules_count_as_without():
    @xpr.custom_jvp
    def function(x):
        return jnp.sin(x) + x

    function.defjvp(lambda primals, tangents: (function(*primals), tangents[0]))
    assert counted(lambda x: -function(x), X) == counted(lambda x: -(jnp.sin(x) + x), X)


def test_programs_that_are_not_traced_twice():
    f = jnp.sin
    for _ in range(40):  # 2 ** 40 calls
        f = xpr.jit(lambda x, f=f: f(f(x)))
    assert counted(f, X).unfused_flops == 2**40 * 128


# -- Memory in use


SQUARE = np.ones((16, 16), np.float32)  # 1024 bytes


def test_memory_in_use():
    assert counted(jnp.sin, SQUARE).peak_hbm_bytes == 1024  # the result is written over the operand
    assert counted(lambda x: jnp.sin(x) @ x, SQUARE).peak_hbm_bytes == 2 * 1024
    assert counted(lambda x, y: x, SQUARE, SQUARE).peak_hbm_bytes == 1024  # an argument that is not read is none
    assert counted(lambda x: (x @ x).sum(), SQUARE).peak_hbm_bytes == 1024
    assert counted(lambda x: (x @ x).sum() + x, SQUARE).peak_hbm_bytes == 2 * 1024


def test_memory_of_functions_inside():
    inner = xpr.jit(lambda x: jnp.exp(x) @ x)  # has `x` and its exponential
    assert counted(inner, SQUARE).peak_hbm_bytes == 2 * 1024
    assert counted(lambda x: jnp.sin(inner(x)), SQUARE).peak_hbm_bytes == 2 * 1024
    assert counted(lambda x: (inner(x), x), SQUARE).peak_hbm_bytes == 2 * 1024
    assert counted(lambda x, y: (inner(x), y), SQUARE, SQUARE).peak_hbm_bytes == 3 * 1024
    chain = xpr.jit(lambda x: jnp.sin(jnp.sin(x)))  # writes over `x`, where nothing else reads it
    assert counted(lambda x: chain(x) + 1, SQUARE).peak_hbm_bytes == 1024
    assert counted(lambda x: chain(x) + x, SQUARE).peak_hbm_bytes == 2 * 1024
    stacked = lambda x: lax.scan(lambda c, row: (c, jnp.sin(row)), 0.0, x)[1]
    assert counted(stacked, SQUARE).peak_hbm_bytes == 2 * 1024 + 64  # both, and the sines of a row


# -- Communication


@pytest.mark.parametrize(
    ("kind", "axes", "carried", "steps"),
    [
        ("all-gather", ("a",), 960 * 3 // 4, 4),
        ("reduce-scatter", ("a",), 960 * 3 // 4, 4),
        ("all-reduce", ("a",), 2 * 960 * 3 // 4, 2 * 4),
        ("all-gather", ("a", "b"), 960 * 7 // 8 // 2, 2 * 4),
        ("all-to-all", ("a",), 960 * 4 // 2 // 2, 2),  # two links join the halves of a ring of four
        ("all-to-all", ("b",), 960 * 2 // 2, 1),
        ("all-to-all", ("a", "b"), 960 * 8 // 2 // 4, 3),
    ],
)
def test_links(kind, axes, carried, steps):
    sizes = {"a": 4, "b": 2}
    result = on_links(Collective(kind, 960, axes, int(np.prod([sizes[a] for a in axes])), 1), sizes)
    assert result == RooflineResult(ici_bytes=dict.fromkeys(axes, carried), ici_latency=dict.fromkeys(axes, steps))


@pytest.mark.parametrize(
    ("perm", "most", "steps"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 0)], 1, 1),  # a ring, each link in one direction
        ([(0, 1), (1, 0)], 2, 1),
        ([(0, 2)], 1, 2),
        ([(0, 3)], 1, 1),  # the other way around
        ([(0, 2), (1, 2)], 2, 2),
        ([(1, 1)], 0, 0),
    ],
)
def test_permutations(perm, most, steps):
    result = on_links(Collective("collective-permute", 100, ("a",), 2, 1), {"a": 4}, perm)
    assert (result.ici_bytes, result.ici_latency) == ({"a": 100 * most}, {"a": steps})


def test_permutations_along_two_axes():
    turned = [(0, 3), (3, 0), (1, 2), (2, 1)]  # of 2 by 2: all corners to the opposite one, over four links
    result = on_links(Collective("collective-permute", 100, ("x", "y"), 2, 1), MESH.shape, turned)
    assert (result.ici_bytes, result.ici_latency) == ({"x": 200, "y": 200}, {"x": 2, "y": 2})


def test_groups_along_a_part_of_an_axis():
    result = on_links(Collective("all-reduce", 960, ("a",), 2, 1), {"a": 4})
    assert (result.ici_bytes, result.ici_latency) == ({"a": 960}, {"a": 4})


def test_a_product_on_eight_devices():
    """Each device has f32[4,4] and f32[4,8] of them, and half of a sum of two f32[4,8], which is 128 bytes."""
    specs = (P("z", ("x", "y")), P(("x", "y"), None))
    f = roofline(lambda a, b: lax.psum(a @ b, ("x", "y")), MESH, specs, P("z", None))
    shapes, result = f(struct(8, 16), struct(16, 8))
    assert (shapes.shape, shapes.sharding) == ((8, 8), NamedSharding(MESH, P("z", None)))
    sent = 2 * 128 * 3 // 4 // 2  # around and around, by half on each axis
    assert result == RooflineResult(
        flops=2 * 4 * 4 * 8,
        unfused_flops=2 * 4 * 4 * 8,
        ici_bytes={"x": sent, "y": sent},
        ici_latency={"x": 8, "y": 8},
        hbm_bytes=4 * (16 + 32 + 32),
        unfused_hbm_bytes=4 * (16 + 32 + 32),
        peak_hbm_bytes=4 * (16 + 32),
    )


def test_one_device_sends_nothing():
    mesh = AbstractMesh((1, 2), ("x", "y"))
    result = counted(lambda a: lax.psum(a, "x"), X, mesh=mesh, in_specs=P("x"), out_specs=P())
    assert (result.ici_bytes, result.ici_latency) == ({"x": 0}, {"x": 0})


def test_forward_and_backward():
    """The gathered operand is a residual, so that the backward pass sends only the cotangents of both."""
    specs = (P(None, "x"), P(None, None))

    def f(a, b):
        return lax.psum(lax.all_gather(a, "x", axis=1, tiled=True) @ b, "x")

    a, b = struct(8, 8, dtype="int8"), struct(8, 8, dtype="int8")
    shapes, forward, backward = roofline_and_grad(f, MESH, specs, P())(a, b)
    assert shapes.dtype == np.int8
    assert (forward.flops, backward.flops) == (2 * 8**3, 2 * 2 * 8**3)
    assert forward.ici_bytes == {"x": 64 // 2 + 2 * 64 // 2}
    assert backward.hbm_bytes == 2 * 2 * (3 * 64)  # bfloat16, two products


def test_the_backward_pass_alone():
    shapes, result = roofline(lambda x, w: jnp.sin(x @ w), vjp=True)(X, struct(16, 32))
    assert [(each.shape, each.dtype) for each in shapes] == [((8, 16), np.float32), ((16, 32), np.float32)]
    assert result.flops == 2 * 2 * 8 * 16 * 32
    assert result.unfused_flops == result.flops + 8 * 32  # the cosine is a residual
    _, _, backward = roofline_and_grad(lambda x, i: x[i], None, None, None)(X, np.arange(3))
    assert backward.unfused_hbm_bytes == 3 * 3 * 32 + 3 * 4  # rows of bfloat16 by indices of int32


# -- Rules


def test_rules_of_the_user():
    primitive = Primitive("solve_twice")
    primitive.def_abstract_eval(lambda x, *, times: x)
    seen = []

    @register_roofline(primitive)
    def rule(context, x, *, times):
        seen.append((context, x))
        return RooflineResult(flops=times * x.size)

    with xpr.named_scope("part"):
        result = counted(lambda x: primitive.bind(x, times=3), X, mesh=MESH, pin_rhs_in_vmem=True)
    assert result == RooflineResult(flops=3 * 128, peak_hbm_bytes=512)
    ((context, x),) = seen
    assert x == RooflineShape(shape=(8, 16), dtype=np.dtype("float32")) and x.bytes == 512
    assert context.primitive is primitive and context.mesh is MESH
    assert (context.pin_lhs_in_vmem, context.pin_rhs_in_vmem) == (False, True)
    assert context.avals_in == context.avals_out == [xpr.core.ShapedArray((8, 16), "float32")]


def test_primitives_without_rules(caplog):
    primitive = Primitive("unheard_of")
    primitive.def_abstract_eval(lambda x: x)
    with caplog.at_level(logging.WARNING, "xpr"):
        assert counted(lambda x: jnp.sin(primitive.bind(x)), X) == counted(jnp.sin, X)
    (record,) = caplog.records
    assert "roofline: no rule for the primitive 'unheard_of', at test_roofline.py:" in record.getMessage()
    register_standard_roofline(primitive)
    caplog.clear()
    counted(primitive.bind, X)
    assert not caplog.records


def test_results_are_added_and_multiplied():
    one = RooflineResult(flops=3, ici_bytes={"x": 8}, ici_latency={"x": 1}, peak_hbm_bytes=5)
    other = RooflineResult(flops=4, ici_bytes={"y": 2}, peak_hbm_bytes=7, hbm_bytes=6)
    both = RooflineResult(flops=7, ici_bytes={"x": 8, "y": 2}, ici_latency={"x": 1}, peak_hbm_bytes=7, hbm_bytes=6)
    assert one + other == both and one + RooflineResult.zeros() == one
    assert 2 * one == one * 2 == RooflineResult(flops=6, ici_bytes={"x": 16}, ici_latency={"x": 2}, peak_hbm_bytes=10)


def test_shapes_of_keys_and_of_no_arrays():
    key = xpr.core.aval_of(xpr.random.key(0))
    assert RooflineShape.from_aval(key).bytes == 8
    assert RooflineShape.total_bytes([key, key]) == 16
    with pytest.raises(TypeError, match=r"takes the type of an array, a ShapedArray, and got Ref\{f32\[3\]\}"):
        RooflineShape.from_aval(xpr.new_ref(jnp.zeros(3)).aval)


def test_the_program_is_printed(capsys):
    counted(jnp.sin, X, print_jaxpr=True)
    assert "b:f32[8,16] = sin a" in capsys.readouterr().out


def test_what_is_refused():
    with pytest.raises(TypeError, match="roofline"):
        roofline(3)
    with pytest.raises(ValueError, match="in_specs, out_specs and mesh are given together, or mesh alone. They are"):
        roofline(jnp.sin, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(TypeError, match="register_roofline takes the primitive whose rule it is, and got"):
        register_roofline("sin")

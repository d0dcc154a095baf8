"""Convolutions of images partitioned along spatial axes: results are those on one device, and no image is gathered."""

import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from xpr import lax
from xpr.config_contexts import enable_x64
from xpr.jaxpr import cost
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P


def mesh(axis_type=AxisType.Auto):
    return xpr.make_mesh((4, 2), ("x", "y"), (axis_type,) * 2)


def put(x, *spec):
    return xpr.device_put(x, NamedSharding(mesh(), P(*spec)))


def with_gradients(conv):
    """The convolution, and cotangents of images and kernel."""

    def fun(images, kernel):
        out, pull = xpr.vjp(conv, images, kernel)
        return (out, *pull(0.5 * out + 1))

    return fun


def compared(fun, args, at, tolerance=1e-4):
    """The results on several devices, which are those of NumPy's rules, and what kinds of collectives there are."""
    program = xpr.jit(fun).lower(*at).compile()
    found = program(*at)
    close(found, xpr.jit(fun, backend="reference")(*args), tolerance)
    return found, {each.kind for each in program.collectives()}


EDGES = {"collective-permute", "all-reduce"}

CASES = {  # shapes and specs of images and kernel, and the parameters
    "a row of each neighbour": ((2, 3, 16, 6), P(None, None, "x"), (4, 3, 3, 3), P(), {}),
    "two axes, and corners": ((2, 3, 16, 8), P(None, None, "x", "y"), (4, 3, 5, 3), P(), {}),
    "one axis along both of the mesh": ((1, 2, 16, 5), P(None, None, ("x", "y")), (2, 2, 2, 2), P(), {}),
    "strides": ((2, 3, 16, 16), P(None, None, "x", "y"), (4, 3, 3, 3), P(), {"window_strides": (2, 4)}),
    "a window with holes": ((2, 3, 32, 4), P(None, None, "x"), (4, 3, 3, 3), P(), {"rhs_dilation": (3, 2)}),
    "images with holes": (
        (2, 3, 16, 4), P(None, None, "x"), (4, 3, 4, 3), P(), {"lhs_dilation": (2, 1), "padding": ((2, 2), (1, 1))},
    ),
    "windows that start later": ((2, 3, 16, 4), P(None, None, "x"), (4, 3, 3, 3), P(), {"padding": ((-1, 3), (0, 0))}),
    "each device starts elsewhere": ((2, 3, 16, 6), P(None, None, "y"), (4, 3, 3, 3), P(), {"padding": "VALID"}),
    "elsewhere, with holes": (
        (2, 3, 12, 4), P(None, None, "y"), (4, 3, 3, 3), P(),
        {"lhs_dilation": (3, 1), "window_strides": (2, 1), "padding": ((4, 3), (0, 0))},
    ),
    "the batch": ((4, 3, 16, 4), P("y", None, "x"), (4, 3, 3, 3), P(), {}),
    "features in": ((2, 4, 16, 4), P(None, "y", "x"), (4, 4, 3, 3), P(None, "y"), {}),
    "features out": ((2, 4, 16, 4), P(None, None, "x"), (4, 4, 3, 3), P("y"), {}),
    "groups": ((2, 4, 16, 4), P(None, "y", "x"), (8, 1, 3, 3), P("y"), {"feature_group_count": 4}),
    "groups of the batch": ((4, 3, 16, 4), P(None, None, "x"), (4, 3, 3, 3), P(), {"batch_group_count": 2}),
    "one axis": ((2, 3, 32), P(None, None, "x"), (4, 3, 7), P(), {}),
    "three axes": ((1, 2, 8, 4, 4), P(None, None, "x", None, "y"), (2, 2, 3, 3, 3), P(), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    shape, image_spec, window, kernel_spec, params = CASES[case]
    params = {"window_strides": (1,) * (len(shape) - 2), "padding": "SAME", **params}
    fun = with_gradients(lambda x, w: lax.conv_general_dilated(x, w, **params))
    images, kernel = floats(*shape), floats(*window, salt=1)
    found, sent = compared(fun, (images, kernel), (put(images, *image_spec), put(kernel, *kernel_spec)))
    assert sent == EDGES
    assert found[1].sharding.spec == image_spec


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("bfloat16", 3e-2), ("complex64", 1e-4)])
def test_dtypes(dtype, tolerance):
    fun = with_gradients(lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME"))
    with enable_x64(dtype == "float64"):
        images, kernel = jnp.asarray(floats(2, 3, 16), dtype), jnp.asarray(floats(2, 3, 3), dtype)
        _, sent = compared(fun, (images, kernel), (put(images, None, None, "x"), kernel), tolerance)
    assert sent == EDGES


@pytest.mark.parametrize("window, padding", [(11, "SAME"), (4, "VALID")])
def test_what_neighbours_do_not_have_is_gathered(window, padding):
    """5 elements of parts of 4; 13 windows for 4 devices."""
    fun = lambda x, w: lax.conv_general_dilated(x, w, (1,), padding)
    images, kernel = floats(2, 3, 16), floats(4, 3, window)
    _, sent = compared(fun, (images, kernel), (put(images, None, None, "x"), kernel))
    assert sent == {"all-gather"}


def test_parts_that_the_axes_of_the_mesh_cannot_express_are_gathered():
    """Of a mesh of the same devices in another shape."""
    other = Mesh(mesh().devices.reshape(2, 4), ("u", "v"))

    def fun(images, kernel):
        images = lax.with_sharding_constraint(images, NamedSharding(other, P(None, None, "u")))
        return lax.with_sharding_constraint(lax.conv(images, kernel, (1, 1), "SAME"), NamedSharding(mesh(), P()))

    images, kernel = floats(2, 3, 16, 4), floats(4, 3, 3, 3)
    _, sent = compared(fun, (images, kernel), (put(images, None, None, "x"), kernel))
    assert "all-gather" in sent


def test_layers_one_after_the_other():
    """The compiler knows that the second layer's images are partitioned, and those between convolution and pooling."""

    def loss(kernels, images):
        images = lax.with_sharding_constraint(images, NamedSharding(mesh(), P(None, None, "x", "y")))
        for kernel in kernels:
            images = jnp.tanh(lax.conv(images, kernel, (1, 1), "SAME"))
            images = lax.reduce_window(images, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.sum(images**2)

    args = [floats(4, 2, 3, 3), floats(2, 4, 3, 3)], floats(2, 2, 16, 16)
    _, sent = compared(xpr.value_and_grad(loss), args, args)
    assert sent == EDGES


def test_rows():
    """Under vmap of images, of kernels, and of both, which makes groups."""
    fun = lambda x, w: lax.conv(x, w, (1, 1), "SAME")
    images, kernels = floats(2, 2, 3, 16, 4), floats(2, 4, 3, 3, 3)
    for in_axes, args, spec in (
        ((0, None), (images, kernels[0]), [None, None, None, "x"]),
        ((None, 0), (images[0], kernels), [None, None, "x"]),
        ((0, 0), (images, kernels), [None, None, None, "x"]),
    ):
        _, sent = compared(xpr.vmap(fun, in_axes), args, (put(args[0], *spec), args[1]))
        assert sent == {"collective-permute"}


def test_explicit_axes():
    """Types are as before, and costs are those of the compiled program."""
    images, kernel = floats(2, 3, 16, 8), floats(4, 3, 3, 3)
    fun = with_gradients(lambda x, w: lax.conv(x, w, (1, 1), "SAME"))
    explicit = mesh(AxisType.Explicit)
    with xpr.set_mesh(explicit):
        at = xpr.device_put(images, P(None, None, "x", "y")), xpr.device_put(kernel, P())
        found, sent = compared(fun, (images, kernel), at)
        assert [xpr.typeof(each).str_short() for each in found] == [
            "f32[2,4,16@x,8@y]", "f32[2,3,16@x,8@y]", "f32[4,3,3,3]",
        ]  # fmt: skip
        compiled = xpr.jit(fun).lower(*at).compile().collectives()
        assert sent == EDGES and sorted(cost(fun)(*at).collectives) == sorted(compiled)


def test_fusion_barriers_stay():
    """XLA would have inlined them, and fused the loops of depthwise convolutions."""
    fun = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=3) + 1
    compiled = xpr.jit(fun).lower(put(floats(2, 3, 16, 8), None, None, "x"), floats(3, 1, 3, 3)).compile()
    assert "fusion_barrier" in compiled.as_text()


def test_programs_of_one_device_and_of_a_shard_map_have_plain_convolutions():
    fun = lambda x, w: lax.conv(x, w, (1, 1), "SAME")
    images, kernel = floats(2, 3, 16, 8), floats(4, 3, 3, 3)
    mapped = xpr.shard_map(
        fun, mesh=mesh(), in_specs=(P(None, None, ("x", "y")), P()), out_specs=P(None, None, ("x", "y"))
    )
    for each in (fun, mapped):
        text = xpr.jit(each).lower(images, kernel).as_text()
        assert "stablehlo.convolution" in text and "custom_call" not in text
    along_some = xpr.shard_map(fun, mesh=mesh(), in_specs=(P("y"), P()), out_specs=P("y"), axis_names={"y"})
    close(xpr.jit(along_some)(put(images, "y", None, "x"), kernel), fun(images, kernel))

"""Convolutions and pooling: as jax, for many layouts, strides and groups; derivatives, vmap, lowering, errors."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, lowered
from tests.peer import JAX, agree, beside_jax
from xpr import lax
from xpr.backend import native
from xpr.primitives.windows.convolution import conv_general_dilated_p

SEEDS = range(8)


def check_transformations(name: str, function: Callable[..., Any], arrays: list[np.ndarray]) -> None:
    """Values, jvp, vjp and vmap over some axes of `function(library, *arrays)`, which has the name, beside jax."""
    ours = transformed(xpr, function, arrays)
    named = {str(i): x for i, x in enumerate(arrays)}
    beside_jax(name, named, lambda: transformed(JAX, function, arrays), lambda theirs: close(ours, theirs))


def transformed(library: Any, function: Callable[..., Any], arrays: list[np.ndarray]) -> list[Any]:
    f = functools.partial(function, library)
    rng = np.random.default_rng(1)
    tangents = tuple(rng.normal(size=x.shape).astype(x.dtype) for x in arrays)
    out, tangent = library.jvp(f, tuple(arrays), tangents)
    ct = rng.normal(size=out.shape).astype(out.dtype)
    results = [f(*arrays), out, tangent, *library.vjp(f, *arrays)[1](ct)]
    for choice in ([0] * len(arrays), [-1] + [None] * (len(arrays) - 1), [None] * (len(arrays) - 1) + [1]):
        stacked = [x if d is None else np.stack([x, 2 * x, x - 1], d) for x, d in zip(arrays, choice)]
        results.append(library.vmap(f, tuple(choice))(*stacked))
    return results


# -- Convolutions


def random_convolution(seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Operands in random layouts, and the other arguments."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    space = "HWD"[: draw.choice([1, 1, 2, 2, 3])]
    groups, batches = draw.choice([(1, 1), (2, 1), (3, 1), (1, 2)])
    members, out = draw.choice([1, 2]), draw.choice([1, 2])
    sizes = {"N": 2 * batches, "C": members * groups, "O": out * groups * batches, "I": members}
    image = {c: draw.choice([3, 4, 6]) for c in space}
    window = {c: draw.choice([1, 2, 3]) for c in space}
    spread = [draw.choice([1, 1, 2]) for _ in space]
    padding: Any = draw.choice(["SAME", "VALID", "SAME_LOWER", None])
    if padding is None or spread != [1] * len(space):
        padding = [(draw.choice([-1, 0, 2]), draw.choice([0, 1, -1])) for _ in space]
    layouts = tuple("".join(draw.sample(ends + space, len(space) + 2)) for ends in ("NC", "OI", "NC"))
    operands = [
        rng.normal(size=[{**sizes, **space_sizes}[c] for c in layout]).astype(np.float32)
        for layout, space_sizes in zip(layouts, (image, window))
    ]
    arguments = {
        "window_strides": [draw.choice([1, 2, 3]) for _ in space], "padding": padding, "lhs_dilation": spread,
        "rhs_dilation": [draw.choice([1, 1, 2]) for _ in space], "dimension_numbers": layouts,
        "feature_group_count": groups, "batch_group_count": batches,
    }  # fmt: skip
    return operands, arguments


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution_as_jax(seed: int) -> None:
    operands, arguments = random_convolution(seed)
    convolution = lambda library, x, y: library.lax.conv_general_dilated(x, y, **arguments)
    check_transformations(f"conv_general_dilated {arguments}", convolution, operands)


@pytest.mark.parametrize("dtype", ["int32", "complex64", "float16"])
def test_other_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = ((3 * rng.normal(size=shape)).astype(dtype) for shape in ((2, 3, 6), (4, 3, 2)))
    if dtype == "complex64":
        x = x + 1j * x[::-1]
    agree(lambda library: library.lax.conv(x, y, (2,), "SAME"), 1e-2 if dtype == "float16" else 1e-5)


def test_by_hand() -> None:
    images = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    kernel = np.array([[[1, 10, 100]]], np.float32)
    assert np.asarray(lax.conv(images, kernel, (1,), "VALID")).ravel().tolist() == [210, 321, 432, 543]
    assert np.asarray(lax.conv(images, kernel, (2,), "SAME")).ravel().tolist() == [210, 432, 54]


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2), (0, 1)]])
@pytest.mark.parametrize("size, stride", [(1, 2), (2, 1), (3, 2), (4, 3)])
def test_transposed_convolution_as_jax(size: int, stride: int, padding: Any) -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(2, 5, 4, 3)).astype(np.float32)
    for turned in (False, True):
        kernel = rng.normal(size=(size, size, *((2, 3) if turned else (3, 2)))).astype(np.float32)
        for consistent in (False, True):
            arguments = {"strides": (stride, stride), "padding": padding, "rhs_dilation": (2, 1),
                         "transpose_kernel": turned, "use_consistent_padding": consistent}  # fmt: skip
            agree(lambda library: library.lax.conv_transpose(images, kernel, **arguments), 2e-5)  # noqa: B023


def test_the_transposed_convolution_is_the_gradient() -> None:
    rng = np.random.default_rng(0)
    images, kernel = rng.normal(size=(2, 8, 8, 3)).astype(np.float32), rng.normal(size=(4, 4, 3, 5)).astype(np.float32)
    layouts = ("NHWC", "HWIO", "NHWC")

    def forward(x: Any) -> Any:
        return lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=layouts)

    out, pull = xpr.vjp(forward, images)
    close(lax.conv_transpose(out, kernel, (2, 2), "SAME", transpose_kernel=True), pull(out)[0])


def test_patches_as_jax() -> None:
    images = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)
    for layouts in (None, ("NHWC", "HWIO", "NCHW"), ("NHWC", "OIHW", "NHWC")):
        arguments = {"filter_shape": (2, 3), "window_strides": (1, 2), "padding": "SAME", "dimension_numbers": layouts}
        agree(lambda library: library.lax.conv_general_dilated_patches(images, **arguments), 2e-5)  # noqa: B023


def test_general_padding_as_jax() -> None:
    images, kernel = np.ones((1, 2, 7), np.float32), np.ones((3, 2, 2), np.float32)
    arguments = ((2,), [(1, 3)], (2,), (3,))
    agree(lambda library: library.lax.conv_with_general_padding(images, kernel, *arguments), 2e-5)


def convolutions(platform: str, lhs: tuple[int, ...], rhs: tuple[int, ...], **changes: Any) -> str:
    numbers = lax.conv_dimension_numbers(lhs, rhs, None)
    ones = (1,) * (len(lhs) - 2)
    params = {"window_strides": ones, "padding": ((0, 0),) * len(ones), "lhs_dilation": ones, "rhs_dilation": ones,
              "dimension_numbers": numbers, "feature_group_count": 1, "batch_group_count": 1, "precision": None,
              "preferred_element_type": None} | changes  # fmt: skip
    avals = [xpr.core.ShapedArray(shape, np.float32) for shape in (lhs, rhs)]
    return lowered(conv_general_dilated_p, avals, platform, **params)


def test_lowering() -> None:
    plain = convolutions("cpu", (2, 3, 8), (4, 3, 3))
    assert plain.count('"stablehlo.convolution"') == 1
    assert "#stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>" in plain
    depthwise = {"lhs": (2, 3, 9000), "rhs": (300, 1, 3), "feature_group_count": 3}
    assert convolutions("cpu", **depthwise).count('"stablehlo.multiply"') == 3
    assert '"stablehlo.convolution"' in convolutions("cuda", **depthwise)
    grouped = {"lhs": (2, 4, 8), "rhs": (4, 2, 3), "feature_group_count": 2}
    assert convolutions("cpu", **grouped).count('"stablehlo.convolution"') == 2
    assert convolutions("cuda", **grouped).count('"stablehlo.convolution"') == 1
    assert '"stablehlo.dot_general"' in convolutions("cpu", (200, 200, 8), (200, 200, 8))
    assert '"stablehlo.dot_general"' in convolutions("cpu", (20, 300, 80), (400, 300, 1))


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_of_features_by_themselves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few features and many, with short rows and long ones; their gradients, by functions in C and without them."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    space = "HW"[: draw.choice([1, 2])]
    features = draw.choice([1, 1, 2, 3, 17, 40])
    channels_last, channels_first = ("N" + space + "C", space + "IO"), ("NC" + space, "OI" + space)
    image_layout, window_layout = draw.choice([channels_last, channels_first])
    sizes = {"N": draw.choice([1, 3]), "C": features, "O": features, "I": 1}
    dtype = draw.choice([np.float32, np.float64])

    def array(layout: str, lengths: list[int]) -> np.ndarray:
        shape = [sizes[c] if c in sizes else draw.choice(lengths) for c in layout]
        return rng.normal(size=shape).astype(dtype)

    x, w = array(image_layout, [7, 20, 90]), array(window_layout, [1, 4, 7])
    arguments = {
        "window_strides": [draw.choice([1, 1, 2]) for _ in space],
        "padding": [(draw.choice([-1, 0, 3]), 2) for _ in space],
        "lhs_dilation": [draw.choice([1, 2]) for _ in space],
        "rhs_dilation": [draw.choice([1, 1, 2]) for _ in space],
        "dimension_numbers": (image_layout, window_layout, image_layout),
        "feature_group_count": features,
    }

    def results() -> list[Any]:
        convolve = functools.partial(lax.conv_general_dilated, **arguments)
        return [convolve(x, w), *xpr.grad(lambda x, w: (convolve(x, w) ** 2).sum(), (0, 1))(x, w)]

    with xpr.enable_x64():
        found = results()
        monkeypatch.setattr("xpr.primitives.native_calls.are_possible", lambda b, aval: False)
        xpr.clear_caches()
        for result, expected in zip(found, results()):
            largest = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(result, expected, 0, largest * (1e-4 if dtype == np.float32 else 1e-12))
    xpr.clear_caches()


@pytest.mark.skipif(not native.available(), reason="the functions in C are not there")
def test_which_convolutions_are_computed_in_c() -> None:
    """Large windows and small arrays of single features, and gradients to windows; not those of strides along rows."""

    def is_called(f: Callable[..., Any], *shapes: tuple[int, ...]) -> bool:
        return "xpr_convolution" in xpr.jit(f).lower(*[np.ones(shape, np.float32) for shape in shapes]).as_text()

    def depthwise(x: Any, w: Any, strides: Any = (1, 1)) -> Any:
        layouts = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, w, strides, "SAME", dimension_numbers=layouts, feature_group_count=x.shape[-1]
        )

    gradient = xpr.grad(lambda w, x: depthwise(x, w).sum())
    assert is_called(depthwise, (2, 56, 56, 64), (7, 7, 1, 64)) and is_called(depthwise, (1, 9, 9, 2), (3, 3, 1, 2))
    assert is_called(gradient, (3, 3, 1, 64), (2, 56, 56, 64)) and is_called(jnp.convolve, (1000,), (500,))
    assert not is_called(depthwise, (2, 99, 99, 64), (3, 3, 1, 64))
    assert not is_called(lambda x, w: depthwise(x, w, (1, 2)), (2, 56, 56, 64), (7, 7, 1, 64))
    assert not is_called(depthwise, (2, 56, 56, 64), (7, 7, 1, 128))


@pytest.mark.parametrize("call, error, words", [
    ("lax.conv(x, x[:, :2], (1, 1), 'SAME')", TypeError, ["3 features", "takes 2", "dimension_numbers"]),
    ("lax.conv(x, x, (1, 1), 'SOME')", ValueError, ["'SOME'", "SAME_LOWER"]),
    ("lax.conv(x, x, (1,), 'SAME')", ValueError, ["window and window_strides must have the same number", "is (1,)"]),
    ("lax.conv(x, x, (1, 0), 'SAME')", ValueError, ["window_strides must have every element be positive", "(1, 0)"]),
    ("lax.conv(x, x, (1.5, 1), 'SAME')", TypeError, ["integer"]),
    ("lax.conv_general_dilated(x, x, (1, 1), [(0.7, 0), (0, 0)])", TypeError, ["integer"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', feature_group_count=1.5)", TypeError, ["integer"]),
    ("lax.conv_general_dilated(x[0, 0, 0], x[0, 0, 0], (), 'SAME')", ValueError, ["an axis for the batch", "(4,)"]),
    ("lax.conv(x, x[0], (1, 1), 'SAME')", ValueError, ["(2, 3, 5, 4)", "(3, 5, 4)"]),
    ("lax.conv(x > 0, x, (1, 1), 'SAME')", TypeError, ["bool[2,3,5,4]", "with booleans alone"]),
    ("lax.conv_general_dilated(x, x, (1, 1), [(0, 0)])", ValueError, ["padding argument must be", "got [(0, 0)]"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', (2, 2))", ValueError, ["'SAME'", "conv_transpose"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', feature_group_count=2)", TypeError, ["=2 groups: 6"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', batch_group_count=3)", TypeError, ["batch of 2"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', None, None, None, 2, 2)", ValueError, ["one of them 1"]),
    ("lax.conv_general_dilated(x, x, (1, 1), 'SAME', None, None, ('NHWC', 'HWIO', 'NHWD'))", ValueError, ["'NHWD'"]),
    ("lax.conv_transpose(x, x, (1, 1), 'SAME_LOWER')", ValueError, ["'SAME_LOWER'", "conv_transpose"]),
])  # fmt: skip
def test_errors(call: str, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        eval(call, {"lax": lax, "x": jnp.ones((2, 3, 5, 4))})
    assert all(word in str(caught.value) for word in words), caught.value


# -- Pooling


def random_window(seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    shape = [draw.choice([5, 8, 20]) for _ in range(draw.choice([1, 2, 3]))]
    sizes = [draw.choice([1, 2, 3, 5]) for _ in shape]
    pads = [(draw.choice([0, 1, 2]), draw.choice([0, 1, 2])) for _ in shape]
    arguments = {
        "window_dimensions": sizes, "window_strides": [draw.choice([1, 1, 2, 3]) for _ in shape],
        "padding": draw.choice(["SAME", "VALID", pads]), "base_dilation": [1] * len(shape),
        "window_dilation": [1] * len(shape),
    }  # fmt: skip
    x = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    return x, arguments


@pytest.mark.parametrize("name, start", [("add", 0.0), ("max", -np.inf), ("min", np.inf)])
@pytest.mark.parametrize("seed", range(4))
def test_pooling_as_jax(seed: int, name: str, start: float) -> None:
    x, arguments = random_window(seed)
    pooling = lambda library, x: library.lax.reduce_window(x, start, getattr(library.lax, name), **arguments)
    check_transformations(f"reduce_window {name} {arguments}", pooling, [x])


@pytest.mark.parametrize("name, start", [("add", 0.0), ("max", -np.inf)])
@pytest.mark.parametrize("changes", [{"base_dilation": (2,)}, {"window_dilation": (3,)}, {"window_dimensions": (70,)}])
def test_dilated_and_long_windows(changes: dict[str, Any], name: str, start: float) -> None:
    """Also where jax has no derivative: <ct, J v> = <J^T ct, v>."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=90).astype(np.float32), rng.normal(size=90).astype(np.float32)
    window = {"window_dimensions": (3,), "window_strides": (2,), "padding": ((1, 2),)} | changes

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, start, getattr(lax, name), **window)

    out, tangent = xpr.jvp(pool, (x,), (v,))
    ct = rng.normal(size=out.shape).astype(np.float32)
    (back,) = xpr.vjp(pool, x)[1](ct)
    np.testing.assert_allclose(np.vdot(ct, tangent), np.vdot(back, v), rtol=1e-4)
    np.testing.assert_allclose((pool(x + 1e-3 * v) - out) / 1e-3, tangent, atol=2e-2)


def test_second_derivatives_as_jax() -> None:
    x = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)

    def results(library: Any) -> list[Any]:
        def f(x: Any) -> Any:
            pooled = library.lax.reduce_window(x, -np.inf, library.lax.max, (2, 3), (1, 2), "SAME")
            return (pooled**3).sum()

        def slope(x: Any) -> Any:
            return (library.grad(f)(x) ** 2).sum()

        return [library.grad(slope)(x), library.jvp(library.grad(f), (x,), (x,))[1], library.hessian(f)(x)]

    agree(results, 1e-3)


def test_ties_go_to_the_first() -> None:
    x = jnp.array([1.0, 1.0, 2.0, 2.0, 0.0])

    def total(name: str, start: float) -> list[float]:
        return xpr.grad(lambda x: lax.reduce_window(x, start, getattr(lax, name), (2,)).sum())(x).tolist()

    assert total("max", -np.inf) == [1, 0, 2, 1, 0]
    assert total("min", np.inf) == [1, 1, 1, 0, 1]


def test_integers_and_booleans() -> None:
    x = jnp.array([3, 1, 2])
    assert lax.reduce_window(x, 0, lax.add, (2,)).tolist() == [4, 3]
    assert lax.reduce_window(x, -(2**31), lax.max, (2,)).tolist() == [3, 2]
    assert lax.reduce_window(x > 1, False, lax.bitwise_or, (2,)).tolist() == [True, True]


def test_a_function_that_drops_a_sum_is_no_sum() -> None:
    def last(a: Any, b: Any) -> Any:
        a + b
        return b

    x = jnp.arange(1.0, 5.0)
    assert lax.reduce_window(x, 0.0, last, (2,)).tolist() == [2, 3, 4]
    assert lax.reduce(x, 0.0, last, (0,)) == 4


def operations(f: Any, *args: Any) -> list[str]:
    return [eqn.primitive.name for eqn in xpr.make_jaxpr(f)(*args).eqns]


def test_functions_are_recognized_by_what_they_do() -> None:
    x = np.arange(4, dtype=np.float32)
    for computation, name in ((lambda a, b: a + b, "sum"), (lambda a, b: jnp.maximum(b, a), "max"), (lax.min, "min")):
        start = {"sum": 0.0, "max": -np.inf, "min": np.inf}[name]
        assert operations(lambda x: lax.reduce_window(x, start, computation, (2,)), x) == [f"reduce_window_{name}"]  # noqa: B023  # called at once
    assert operations(lambda x: lax.reduce_window(x, 1.0, lax.add, (2,)), x) == ["reduce_window_sum", "add"]


def test_any_function_as_jax() -> None:
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    arguments = ((2, 3), (1, 2), "SAME")

    def results(library: Any) -> list[Any]:
        def product(x: Any) -> Any:
            return library.lax.reduce_window(x, 1.0, lambda a, b: a * b, *arguments)

        return [product(x), library.jvp(product, (x,), (x,))[1], library.vmap(product)(np.stack([x, 2 * x]))]

    agree(results, 2e-5)


def test_several_arrays_together() -> None:
    x, place = jnp.array([3.0, 1.0, 2.0, 5.0]), jnp.arange(4)

    def greater(a: Any, b: Any) -> Any:
        keep = a["x"] >= b["x"]
        return {"x": jnp.where(keep, a["x"], b["x"]), "at": jnp.where(keep, a["at"], b["at"])}

    found = xpr.jit(lambda x: lax.reduce_window({"x": x, "at": place}, {"x": -np.inf, "at": -1}, greater, (2,), (2,)))(
        x
    )
    assert found["x"].tolist() == [3, 5] and found["at"].tolist() == [0, 3]


@pytest.mark.parametrize("call, error, words", [
    ("lax.reduce_window(x, 0.0, lax.add, (2,))", ValueError, ["window_dimensions must have 2 elements, and is (2,)"]),
    ("lax.reduce_window(x, np.int32(0), lax.add, (2, 2))", TypeError, ["i32[]", "f32[4,4]"]),
    ("lax.reduce_window(x, np.zeros(1, 'f4'), lax.add, (2, 2))", TypeError, ["init_values to be scalars", "[(1,)]."]),
    ("lax.reduce_window(x, 0.0, lambda a, b: a > b, (2, 2))", TypeError, ["(f32[])", "(bool[])"]),
    ("lax.reduce_window((x, i), (0.0, 0), lambda a, b: a, (2, 2))", TypeError, ["f32[4,4]", "i32[4]"]),
    ("lax.reduce_window(x, 0.0, lax.add, (2, 2), padding='SOME')", ValueError, ["'SOME'"]),
])  # fmt: skip
def test_pooling_errors(call: str, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        eval(call, {"lax": lax, "np": np, "x": jnp.ones((4, 4)), "i": jnp.arange(4)})
    assert all(word in str(caught.value) for word in words), caught.value


# -- Shapes

SHAPES = [
    lambda lax: lax.conv_general_permutations(("NHWC", "HWIO", "NHWC")),
    lambda lax: lax.conv_general_permutations(("HWNC", "OHIW", "CHWN")),
    lambda lax: lax.conv_shape_tuple((4, 3, 10, 11), (8, 3, 4, 2), (2, 1), "SAME"),
    lambda lax: lax.conv_shape_tuple((4, 3, 10, 11), (8, 3, 4, 2), (2, 1), [(1, 2), (-1, 0)], 2),
    lambda lax: lax.conv_general_shape_tuple((2, 10, 10, 3), (4, 4, 3, 8), (2, 3), "VALID", ("NHWC", "HWIO", "NHWC")),
    lambda lax: lax.conv_transpose_shape_tuple((2, 9, 9, 3), (4, 4, 3, 8), (2, 3), "SAME", ("NHWC", "HWIO", "NHWC")),
    lambda lax: lax.conv_transpose_shape_tuple((2, 9, 3), (4, 3, 8), (2,), [(1, 2)], ("NHC", "HIO", "NHC")),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_shapes_of_results(number):
    agree(lambda jax: jax.tree.map(int, SHAPES[number](jax.lax)))


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="conv_shape_tuple: .* have not as many spatial axes"):
        lax.conv_shape_tuple((4, 3, 10), (8, 3, 4, 2), (2,), [(0, 0)])
    with pytest.raises(ValueError, match="take more than the images"):
        lax.conv_shape_tuple((4, 3, 10), (8, 3, 4), (2,), [(-9, -9)])
    with pytest.raises(ValueError, match="they are three strings"):
        lax.conv_general_permutations(("NHWC", "HWIO", "NHC"))


@pytest.mark.parametrize("wide", [False, True])
def test_booleans_are_convolved_by_or_and_counted_by_integers(wide: bool) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.random((2, 3, 9, 8)) > 0.5, rng.random((4, 3, 3, 2)) > 0.8
    preferred = np.int32 if wide else None

    def convolved(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", preferred_element_type=preferred)

    counts = lax.conv_general_dilated(x.astype(np.float32), k.astype(np.float32), (1, 1), "SAME")
    expected = np.asarray(counts).astype(np.int32 if wide else bool)
    for got in (convolved(x, k), xpr.jit(convolved)(x, k), xpr.vmap(convolved, (0, None))(x[None], k)[0]):
        assert got.dtype == expected.dtype and np.array_equal(got, expected)
    params = xpr.make_jaxpr(convolved)(x, k).eqns[0].params
    assert np.array_equal(conv_general_dilated_p.reference([x, k], **params)[0], expected)


@pytest.mark.optimized
@pytest.mark.parametrize("seed", SEEDS)
def test_negative_padding(seed: int) -> None:
    """XLA:CPU reads what is beyond the end of images that are cut at the start and padded at the end."""
    rng = np.random.default_rng(seed)
    n, k, spread = map(int, (rng.integers(3, 30), rng.integers(1, 5), rng.integers(1, 4)))
    low, high = int(rng.integers(-9, 0)), int(rng.integers(k + 9, k + 12))
    images, kernel = (rng.normal(size=shape).astype(np.float32) for shape in ((2, n, 4), (k, 4, 3)))
    dilated = np.zeros((2, (n - 1) * spread + 1 + high, 4), np.float32)
    dilated[:, : (n - 1) * spread + 1 : spread] = images
    padded = dilated[:, -low:]
    expected = sum(padded[:, i : padded.shape[1] - k + 1 + i] @ kernel[i] for i in range(k))
    numbers = ("NHC", "HIO", "NHC")
    convolve = xpr.jit(lambda x, w: lax.conv_general_dilated(x, w, (1,), [(low, high)], (spread,), None, numbers))
    assert not re.search(r"pad = \[\[-", convolve.lower(images, kernel).as_text())
    np.testing.assert_allclose(convolve(images, kernel), expected, rtol=1e-4, atol=1e-4)


def test_padding_that_removes_all() -> None:
    convolve = xpr.jit(lambda x, w: lax.conv_general_dilated(x, w, (1,), [(-3, 5)]))
    x, w = np.ones((1, 2, 2), np.float32), np.ones((3, 2, 2), np.float32)
    for result in (convolve(x, w), *xpr.grad(lambda x, w: convolve(x, w).sum(), (0, 1))(x, w)):
        assert result.size and not result.any()

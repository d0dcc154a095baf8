"""xpr.image: values beside jax where it is installed, derivatives, messages."""

import importlib

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import peer
from xpr import image
from xpr.testing import check_grads

X = np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32)
METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")


def agree(name, x, *args, **options):
    ours = getattr(image, name)(x, *args, **options)

    def compare(theirs):
        assert ours.dtype == theirs[0].dtype
        np.testing.assert_allclose(ours, theirs[0], rtol=1e-5, atol=1e-5)

    ask = lambda: [getattr(peer.JAX.image, name)(x, *args, **options)]
    peer.beside_jax(f"{name}{(*args, options)}", {"x": x}, ask, compare)


@pytest.mark.parametrize("method", METHODS)
def test_sizes(method):
    for shape in [(2, 3, 4, 3), (2, 14, 13, 3), (2, 5, 12, 3), (1, 7, 6, 3)]:
        agree("resize", X, shape, method)
    agree("resize", X, (2, 3, 4, 3), method, antialias=False)
    agree("resize", np.arange(20, dtype=np.uint8).reshape(5, 4), (3, 9), method)
    assert image.resize(X, (2, 0, 12, 3), method).shape == (2, 0, 12, 3)


@pytest.mark.parametrize("method", METHODS[1:])
def test_scales_and_translations(method):
    for scale, translation in [([1.3, 0.7], [0.5, -1.0]), ([0.4, 2.0], [0, 0])]:
        moved = np.array(scale, np.float32), np.array(translation, np.float32)
        for antialias in (True, False):
            agree("scale_and_translate", X, (2, 8, 5, 3), (1, 2), *moved, method, antialias=antialias)


def test_transformations():
    scaled = lambda x, s, t: image.scale_and_translate(x, (5, 4), (0, 1), s, t, "cubic")
    check_grads(scaled, (X[0, :, :, 0], jnp.array([1.3, 0.7]), jnp.array([0.37, -0.21])), order=1, rtol=2e-2, atol=2e-2)
    rows = xpr.jit(xpr.vmap(lambda x: image.resize(x, (3, 4, 3), "bilinear")))(X)
    np.testing.assert_allclose(rows, image.resize(X, (2, 3, 4, 3), "linear"), rtol=1e-5, atol=1e-6)


def test_methods_by_name():
    assert image.ResizeMethod.from_string("bicubic") is image.ResizeMethod.CUBIC
    same = image.resize(X, (2, 3, 4, 3), image.ResizeMethod.LINEAR), image.resize(X, (2, 3, 4, 3), "triangle")
    np.testing.assert_array_equal(*same)
    assert importlib.import_module("xpr.image") is xpr.image


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: image.resize(X, (2, 3), "linear"), r"resize: the shape needs 4 sizes, .* and is \(2, 3\)"),
        (lambda: image.resize(X, (2, 3, 4, 3), "best"), "methods of resampling are nearest, .* and 'best' is none"),
        (lambda: image.scale_and_translate(X, X.shape, (1,), jnp.ones(1), jnp.ones(1), "nearest"), "has no kernel"),
        (lambda: image.scale_and_translate(X, (2, 8, 6, 4), (1,), jnp.ones(1), jnp.ones(1), "cubic"), "can't become"),
        (lambda: image.scale_and_translate(X, X.shape, (1,), jnp.ones(2), jnp.ones(1), "cubic"), r"f32\[2\] and f32"),
        (lambda: image.scale_and_translate(X, X.shape, (7,), jnp.ones(1), jnp.ones(1), "cubic"), "axis 7 is out of"),
        (
            lambda: image.scale_and_translate(X, X.shape, (1, 1), jnp.ones(2), jnp.ones(2), "cubic"),
            "names an axis twice",
        ),
        (lambda: image.resize(X, (2, 3, 4, -1), "linear"), r"resize: sizes can't be negative, and .* \(2, 3, 4, -1\)"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sizes_are_integers():
    assert image.resize(X, jnp.array(X.shape), "linear").shape == X.shape
    for call in (
        lambda: image.resize(X, (2.5, *X.shape[1:]), "linear"),
        lambda: image.scale_and_translate(X, (2.5, *X.shape[1:]), (0,), jnp.ones(1), jnp.ones(1), "cubic"),
    ):
        with pytest.raises(TypeError, match="integer"):
            call()
    with pytest.raises(TypeError, match="resize: shape is a sequence"):
        image.resize(X, 4, "linear")


def test_methods_are_names():
    assert image.resize(X, X.shape, image.ResizeMethod.LINEAR).shape == X.shape
    with pytest.raises(
        TypeError, match="The method of resampling is a name, such as 'linear', or a ResizeMethod: 3 of"
    ):
        image.resize(X, X.shape, 3)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (9, 11), (5, 2)])
@pytest.mark.parametrize("method", [image.ResizeMethod.AREA, image.ResizeMethod.CUBIC_PYTORCH])
def test_means_over_areas_and_kernels_of_pytorch(method, shape, antialias):
    x = X[0, :, :, 0]
    ours = image.resize(x, shape, method, antialias=antialias)
    ask = lambda: [peer.JAX.image.resize(x, shape, peer.JAX.image.ResizeMethod[method.name], antialias=antialias)]
    compare = lambda theirs: np.testing.assert_allclose(ours, theirs[0], atol=1e-5)
    peer.beside_jax(f"{method.name}{shape} {antialias}", {"x": x}, ask, compare)


@pytest.mark.parametrize("method", [*METHODS[1:], "area", "cubic-pytorch"])
def test_weights_of_half_precision_images_are_those_of_32_bits(method):
    x = np.random.RandomState(0).rand(700, 1).astype("bfloat16")
    for options in ({"antialias": True}, {"antialias": False}):
        exact = image.resize(x.astype("f"), (1500, 1), method, **options)
        np.testing.assert_allclose(image.resize(x, (1500, 1), method, **options).astype("f"), exact, atol=0.02)
        moved = (1500, 1), (0,), np.array([2.0], "f"), np.array([7.0], "f"), method
        exact = image.scale_and_translate(x.astype("f"), *moved, **options)
        np.testing.assert_allclose(image.scale_and_translate(x, *moved, **options).astype("f"), exact, atol=0.02)


def test_of_two_elements_beside_a_center_the_second_is_the_nearest():
    for size, new_size in [(124, 7), (78, 33), (24, 74), (10, 3), (3, 10)]:
        expected = (2 * np.arange(new_size) + 1) * size // (2 * new_size)
        np.testing.assert_array_equal(image.resize(jnp.arange(size), (new_size,), "nearest"), expected)


def test_images_without_elements():
    assert image.resize(np.ones((2, 3)), (0, 5), "nearest").shape == (0, 5)
    for shape, new_shape in (((0, 3), (0, 5)), ((2, 3), (0, 5)), ((0, 3), (2, 3))):
        np.testing.assert_array_equal(image.resize(np.ones(shape), new_shape, "linear"), np.zeros(new_shape))


def test_axes_to_scale_must_be_there():
    with pytest.raises(ValueError, match="axis 5 is out of bounds for an array of 2 axes"):
        image.scale_and_translate(jnp.ones((2, 3)), (4, 6), (0, 5), jnp.ones(2), jnp.ones(2), "linear")

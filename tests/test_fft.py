"""xpr.numpy.fft beside NumPy, and beside jax where it is installed; what it says of wrong arguments."""

import itertools

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import peer
from xpr import lax
from xpr.errors import ArgumentError
from xpr.testing import check_grads

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5, 6)).astype(np.float32)
ARRAYS = {
    "x": X,
    "z": (X + 1j * X[::-1]).astype(np.complex64),
    "w": RNG.normal(size=(2, 3, 2, 3, 4)).astype(np.float32),
    "i": RNG.integers(0, 9, 6).astype(np.int32),
}
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


def agree(call, **arrays):
    peer.check(call, arrays, tolerance=2e-5, staged=False)
    peer.check_with_numpy(call, arrays, tolerance=2e-5)


@pytest.mark.parametrize("name", ONE_AXIS)
def test_along_one_axis(name):
    arrays = "xi" if name in ("rfft", "ihfft") else "xzi"
    ways = [
        (None, -1, None),
        (None, 0, "ortho"),
        (3, 0, "backward"),
        (3, -1, "forward"),
        (8, -1, "ortho"),
        (8, 0, None),
    ]
    for array, (n, axis, norm) in itertools.product(arrays, ways):
        agree(f"jnp.fft.{name}({array}, n={n}, axis={axis}, norm={norm!r})", **{array: ARRAYS[array]})


@pytest.mark.parametrize("name", SEVERAL)
def test_along_several_axes(name):
    for array in "xw" if name == "rfftn" else "zw":
        for s, axes, norm in [
            (None, None, None),
            ((3, 4), (0, 2), "ortho"),
            (None, (1,), "forward"),
            (None, (2, 0, 1), None),
        ]:
            agree(f"jnp.fft.{name}({array}, s={s}, axes={axes}, norm={norm!r})", **{array: ARRAYS[array]})


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_along_two_axes(name):
    agree(f"jnp.fft.{name}(x)", x=X)
    agree(f"jnp.fft.{name}(x, s=(3, 8), axes=(0, 1))", x=X)


def test_transforms_of_nothing():
    """NumPy refuses them."""
    for name in ("fft", "ifft", "fft2"):
        peer.check(f"jnp.fft.{name}(x)", {"x": np.zeros((3, 0), np.float32)}, tolerance=0, staged=False)
    with pytest.raises(ValueError, match="rfft: lengths must be positive"):
        jnp.fft.rfft(np.zeros((3, 0), np.float32))


def test_frequencies_and_shifts():
    for n, d in itertools.product((1, 2, 5, 8), (1.0, 0.3, 2)):
        agree(f"jnp.fft.fftfreq({n}, {d})")
        agree(f"jnp.fft.rfftfreq({n}, d={d})")
    for axes in (None, 0, (1, 2), -1):
        agree(f"jnp.fft.fftshift(x, {axes})", x=X)
        agree(f"jnp.fft.ifftshift(x, {axes})", x=X)
    assert xpr.jit(lambda d: jnp.fft.fftfreq(4, d))(2.0).tolist() == [0, 0.125, -0.25, -0.125]
    assert jnp.fft.fftfreq(4, dtype="bfloat16").dtype == jnp.bfloat16


@pytest.mark.parametrize("name", ONE_AXIS)
def test_transformations(name):
    transform = getattr(jnp.fft, name)
    check_grads(lambda x: jnp.abs(transform(x, n=5, norm="ortho")) ** 2, (X[0],), order=2, rtol=2e-2, atol=2e-2)
    mapped = xpr.jit(xpr.vmap(transform, in_axes=1))(X)
    np.testing.assert_allclose(mapped, np.stack([transform(X[:, i]) for i in range(5)]), rtol=1e-5, atol=1e-5)


def test_a_convolution_by_its_theorem():
    x, y = X[0, 0], X[1, 0]
    product = jnp.fft.irfft(jnp.fft.rfft(x, 11) * jnp.fft.rfft(y, 11), 11)
    np.testing.assert_allclose(product, np.convolve(x, y), rtol=1e-4, atol=1e-5)


def test_half_precision_is_computed_in_single():
    assert jnp.fft.fft(jnp.ones(4, jnp.bfloat16)).dtype == jnp.complex64
    assert jnp.fft.irfft(jnp.ones(4, jnp.float16)).dtype == jnp.float32
    with xpr.enable_x64(True):
        assert jnp.fft.rfft(np.ones(4)).dtype == jnp.complex128


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: jnp.fft.fft(X, norm="none"), ValueError, 'fft: norm is "backward"'),
        (lambda: jnp.fft.hfft(X, norm="none"), ValueError, 'hfft: norm is "backward"'),
        (lambda: jnp.fft.rfft(ARRAYS["z"]), ValueError, r"rfft: takes real numbers, and was given c64\[4,5,6\]"),
        (lambda: jnp.fft.fft(X, n=0), ValueError, "fft: lengths must be positive"),
        (lambda: jnp.fft.irfft(jnp.ones(1)), ValueError, "irfft: lengths must be positive"),
        (lambda: jnp.fft.fft(2.0), ValueError, "axis -1 is out of bounds for an array of 0 axes"),
        (lambda: jnp.fft.fftn(X, axes=(0, 0)), ValueError, r"fftn does not support repeated axes. Got axes \[0, 0\]"),
        (lambda: jnp.fft.fftn(X, s=(3,), axes=(0, 1)), ValueError, "a length for each axis is needed"),
        (
            lambda: jnp.fft.fft2(X, axes=(0,)),
            ValueError,
            r"fft2 only supports 2 axes. Got axes = \(0,\). For others there is fftn",
        ),
        (
            lambda: jnp.fft.hfft(X, axis=[0, 1]),
            ValueError,
            r"hfft does not support multiple axes. Please use fftn and its relatives. Got axis = \[0, 1\]",
        ),
        (lambda: jnp.fft.fft([1.0]), TypeError, "Expected an array"),
        (
            lambda: jnp.fft.fftfreq(2.5),
            TypeError,
            "The n argument of jax.numpy.fft.fftfreq only takes an int. Got n = 2.5",
        ),
        (
            lambda: jnp.fft.rfftfreq([4]),
            ValueError,
            r"fft.rfftfreq only takes an int. Got n = \[4\]. It is the number of samples",
        ),
        (lambda: xpr.jit(jnp.fft.fftfreq)(4), TypeError, "static"),
        (lambda: lax.fft(X, "DCT", (6,)), ValueError, "fft_type is FFT, IFFT, RFFT or IRFFT, and is 'DCT'"),
        (lambda: lax.fft(X, 1, (6,)), TypeError, "fft_type is FFT, IFFT, RFFT or IRFFT, and is 1"),
        (
            lambda: lax.fft(X.astype("float16"), "RFFT", (6,)),
            ValueError,
            "takes real numbers, f32 or f64, not f16",
        ),
        (lambda: lax.fft(X, lax.FftType.RFFT, (5,)), ValueError, r"takes last axes \(5,\), not f32\[4,5,6\]"),
        (lambda: lax.fft(X, "RFFT", (4, 4, 5, 6)), ArgumentError, "must have at least as many input dimensions as"),
        (lambda: lax.fft(X[None], "RFFT", (1, 4, 5, 6)), ArgumentError, "one to three last axes"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_operands_are_converted():
    for dtype in ("float32", "int8", "bool", "float16"):
        for kind in ("fft", "IFFT", "irfft"):
            lengths = (10,) if kind == "irfft" else (6,)
            transformed = lax.fft(jnp.ones(6, dtype), kind, lengths)
            np.testing.assert_allclose(transformed, lax.fft(jnp.ones(6, "complex64"), kind, lengths))
    assert lax.fft(jnp.arange(4), "rfft", (4,)).dtype == jnp.complex64
    assert lax.fft(X, "fft", ()).dtype == jnp.complex64 and lax.fft(X, "rfft", ()) is X


def test_shifts_along_an_axis_twice_add_up():
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(jnp.fft.fftshift(x, (1, -1)), np.fft.fftshift(x, (1, -1)))
    np.testing.assert_array_equal(jnp.fft.ifftshift(x, (1, 1)), np.fft.ifftshift(x, (1, 1)))

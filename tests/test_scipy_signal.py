"""`xpr.scipy.signal` beside SciPy."""

import warnings

import numpy as np
import pytest
import scipy.signal

import xpr
import xpr.numpy as jnp
from xpr.scipy import signal

rng = np.random.default_rng(0)


def numbers(shape, kind="f"):
    x = rng.integers(-5, 6, shape)
    return {"i": x, "f": x.astype(float), "c": x + 1j * rng.integers(-5, 6, shape)}[kind]


def same(found, wanted, tolerance=1e-10):
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


PAIRS = [((1,), (1,)), ((7,), (3,)), ((3,), (8,)), ((4, 5), (3, 2)), ((2, 2), (4, 3)), ((3, 4, 5), (3, 2, 5))]
PAIRS += [((15,), (9,))]  # of 23 elements, transformed as 24


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", PAIRS)
@pytest.mark.parametrize("kind", "ifc")
def test_convolution_and_correlation(shapes, mode, kind):
    x, y = (numbers(shape, kind) for shape in shapes)
    with xpr.enable_x64(True):
        for name in ("convolve", "correlate"):
            wanted = getattr(scipy.signal, name)(x, y, mode)
            for method in ("auto", "direct", "fft"):
                same(getattr(signal, name)(x, y, mode, method), wanted)
        same(signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
        if x.ndim == 2:
            for name in ("convolve2d", "correlate2d"):
                same(getattr(signal, name)(x, y, mode), getattr(scipy.signal, name)(x, y, mode))


@pytest.mark.parametrize("mode", ["full", "same"])
def test_arrays_of_which_none_is_larger(mode):
    x, y = numbers((5, 2)), numbers((3, 4))
    same(signal.convolve(x, y, mode), scipy.signal.convolve(x, y, mode), 1e-5)
    with pytest.raises(ValueError, match=r"mode='valid' needs one array .* shapes are \(5, 2\) and \(3, 4\)"):
        signal.convolve(x, y, "valid")
    with pytest.raises(ValueError, match="^correlate: mode='valid' needs one array"):
        signal.correlate(x, y, "valid")


def test_convolution_along_some_axes():
    x, y = numbers((3, 5)), numbers((3, 2))
    for mode in ("full", "same", "valid"):
        same(signal.fftconvolve(x, y, mode, axes=1), scipy.signal.fftconvolve(x, y, mode, axes=1), 1e-4)
        same(signal.fftconvolve(x, y[:1], mode, axes=[-1]), scipy.signal.fftconvolve(x, y[:1], mode, axes=-1), 1e-4)


def test_convolution_is_mapped_and_differentiated():
    x, y = numbers((2, 6)).astype("f"), numbers((2, 3)).astype("f")
    for fun in (signal.convolve, signal.fftconvolve, signal.correlate):
        rows = xpr.jit(xpr.vmap(fun))(x, y)
        same(rows[1], fun(x[1], y[1]), 1e-4)
        jacobian = xpr.jacobian(lambda y, f=fun: f(x[0], y))(y[0])
        same(jacobian @ y[0], fun(x[0], y[0]), 1e-3)  # it is linear


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: signal.convolve(jnp.ones(3), jnp.ones((3, 1))),
            ValueError,
            r"same number of axes, and got f32\[3\] and f32",
        ),
        (
            lambda: signal.convolve(jnp.ones(3), jnp.ones(0)),
            ValueError,
            r"at least one element each, and got f32\[3\] and f32\[0\]",
        ),
        (
            lambda: signal.convolve(jnp.ones(3), jnp.ones(3), "fill"),
            ValueError,
            "mode is 'full', 'same' or 'valid', and not 'fill'",
        ),
        (
            lambda: signal.convolve(jnp.ones(3), jnp.ones(3), method="ft"),
            ValueError,
            "method is 'auto', 'direct' or 'fft', and not 'ft'",
        ),
        (
            lambda: signal.convolve2d(jnp.ones(3), jnp.ones(3)),
            ValueError,
            r"convolve2d: takes matrices, and got f32\[3\]",
        ),
        (
            lambda: signal.correlate2d(jnp.eye(3), jnp.eye(3), boundary="wrap"),
            NotImplementedError,
            "beyond the edges there are zeros",
        ),
    ],
)
def test_errors_of_convolution(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", "ifc")
@pytest.mark.parametrize("axis", [0, -1])
def test_trends(kind, axis):
    x = numbers((6, 9), kind)
    with xpr.enable_x64(True):
        for options in ({"type": "constant"}, {}, {"bp": [2, 5]}, {"bp": 3}):
            same(signal.detrend(x, axis, **options), scipy.signal.detrend(x, axis, **options))
    same(xpr.jacobian(signal.detrend)(jnp.ones(4)) @ np.arange(4.0), np.zeros(4), 1e-5)


def test_errors_of_trends():
    with pytest.raises(ValueError, match="type is 'linear' or 'constant', and not 'square'"):
        signal.detrend(jnp.ones(3), type="square")
    with pytest.raises(ValueError, match="positions are from 0 to 3, and bp is 4"):
        signal.detrend(jnp.ones(3), bp=4)


WINDOWS = [
    "boxcar", "triang", "bartlett", "cosine", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop",
    "parzen", "bohman", ("kaiser", 5.0), ("gaussian", 2.0), ("general_gaussian", 1.5, 3.0),
    ("general_hamming", 0.7), ("tukey", 0.4), "tukey", ("tukey", 0.0),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window):
    x = numbers(40)
    for size in (1, 7, 8):
        with xpr.enable_x64(True):
            found = signal.welch(x, window=window, nperseg=size, detrend=False)[1]
        same(found, scipy.signal.welch(x, window=window, nperseg=size, detrend=False)[1])


SHAPES = [((50,), 17, 5, -1), ((2, 13), 7, 0, -1), ((3, 17, 2), 9, 3, 1), ((3, 7), 1, 0, 1), ((3, 40), 8, 4, 1)]


@pytest.mark.parametrize("shape, nperseg, noverlap, axis", SHAPES)
@pytest.mark.parametrize("kind", "ifc")
def test_spectra(shape, nperseg, noverlap, axis, kind):
    x, y = numbers(shape, kind), numbers(shape, kind)
    common = {"fs": 3.0, "nperseg": nperseg, "noverlap": noverlap, "axis": axis, "return_onesided": kind != "c"}
    with xpr.enable_x64(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "noverlap > 0 with nperseg=1|nperseg|invalid value|Mean of empty")
        for options in ({}, {"nfft": 2 * nperseg}, {"detrend": "linear"}, {"scaling": "spectrum", "detrend": False}):
            for average in ("mean", "median"):
                for one, two in zip(signal.welch(x, **common, **options, average=average),
                                    scipy.signal.welch(x, **common, **options, average=average)):  # fmt: skip
                    same(one, two)
            for one, two in zip(signal.csd(x, y, **common, **options), scipy.signal.csd(x, y, **common, **options)):
                same(one, two)
        for boundary in ("zeros", "even", "odd", "constant", None):
            for padded in (True, False):
                options = {"boundary": boundary, "padded": padded}
                wanted = scipy.signal.stft(x, **common, **options)
                for one, two in zip(signal.stft(x, **common, **options), wanted):
                    same(one, two)


def test_signals_of_different_lengths():
    x, y = numbers((50,)), numbers((13,))
    for one, two in zip(signal.csd(x, y, nperseg=17), scipy.signal.csd(x, y, nperseg=17)):
        same(one, two, 1e-4)
    wanted = scipy.signal.welch(numbers((3, 300)))[1].shape
    assert signal.welch(jnp.ones((3, 300)))[1].shape == wanted
    assert signal.welch(jnp.ones((3, 0)))[1].shape == (3, 0)


@pytest.mark.parametrize(
    "shape, nperseg, noverlap, times, frequencies",
    [
        ((3, 2, 64, 31), 100, 75, -1, -2),
        ((17, 8, 5), 13, 7, 0, 1),
        ((65, 24), 24, 7, -2, -1),
        ((9, 12), 16, 8, -1, -2),
    ],
)
@pytest.mark.parametrize("onesided", [True, False])
def test_inverse_against_scipy(shape, nperseg, noverlap, times, frequencies, onesided):
    z = numbers(shape, "c")
    if not onesided:
        z = np.concatenate([z, np.flip(np.take(z, range(1, z.shape[frequencies] - 1), frequencies))], frequencies)
    options = dict(fs=2.0, nperseg=nperseg, noverlap=noverlap, input_onesided=onesided, time_axis=times,
                   freq_axis=frequencies)  # fmt: skip
    for boundary in (True, False):
        for window in ("hann", "boxcar", np.ones(nperseg)):
            with warnings.catch_warnings(), xpr.enable_x64(True):
                warnings.filterwarnings("ignore", "NOLA condition failed")
                wanted = scipy.signal.istft(z, window=window, boundary=boundary, **options)
                for one, two in zip(signal.istft(z, window=window, boundary=boundary, **options), wanted):
                    same(one, two)


def test_inverse_gives_the_signal_back():
    x = numbers((2, 64)).astype("f")

    def there_and_back(x):
        return signal.istft(signal.stft(x, nperseg=16, noverlap=12)[2], nperseg=16, noverlap=12)[1]

    same(there_and_back(x), x, 1e-5)
    same(xpr.jit(xpr.vmap(there_and_back))(x), x, 1e-5)
    same(xpr.grad(lambda x: (there_and_back(x) ** 2).sum())(x), 2 * x, 1e-4)


def test_power_is_differentiated():
    x, direction = rng.normal(size=(2, 40))
    with xpr.enable_x64(True):
        fun = lambda x: signal.welch(x, nperseg=8)[1]
        difference = (fun(x + 1e-6 * direction) - fun(x - 1e-6 * direction)) / 2e-6
        same(xpr.jvp(fun, (x,), (direction,))[1], difference, 1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: signal.stft(x, nperseg=0), "stft: nperseg is 1 or more, and is 0"),
        (lambda x: signal.stft(x, nperseg=4, noverlap=4), "noverlap is less than nperseg, 4, and is 4"),
        (lambda x: signal.stft(x, nperseg=4, nfft=3), "nfft is nperseg, 4, or more, and is 3"),
        (
            lambda x: signal.stft(x, nperseg=4, boundary="wrap"),
            "boundary is 'even', 'odd', 'constant', 'zeros' or None",
        ),
        (
            lambda x: signal.stft(x, nperseg=4, detrend=2),
            "detrend is 'constant', 'linear', False or a function, and not 2",
        ),
        (lambda x: signal.welch(x, window="box"), "The windows are .*, or an array, and 'box' is none of them"),
        (lambda x: signal.welch(x, window="kaiser"), "given as a tuple of its name and its parameters"),
        (
            lambda x: signal.welch(x, window=jnp.ones(3), nperseg=4),
            r"a vector of nperseg elements, at most 9, and f32\[3\]",
        ),
        (lambda x: signal.welch(x, scaling="power"), "scaling is 'density' or 'spectrum', and not 'power'"),
        (lambda x: signal.welch(x, average="mode"), "average is 'mean' or 'median', and not 'mode'"),
        (
            lambda x: signal.csd(x, x[None]),
            r"csd: takes signals of the same number of axes, and got f32\[9\] and f32\[1,9\]",
        ),
        (lambda x: signal.istft(x), r"takes an axis of frequencies and one of segments, and got f32\[9\]"),
        (lambda x: signal.istft(x[None], time_axis=0, freq_axis=0), "axis 0 can't be that of frequencies and"),
        (lambda x: signal.stft(x[:3], nperseg=3, boundary="odd", axis=0, window="box"), "'box' is none"),
    ],
)
def test_errors_of_spectra(call, message):
    with pytest.raises(ValueError, match=message):
        call(jnp.ones(9))


def test_warnings_of_spectra():
    with pytest.warns(UserWarning, match="nperseg=20 is reduced to the length of the signal, 9"):
        signal.welch(jnp.ones(9), nperseg=20)
    with pytest.warns(UserWarning, match="csd: signals are complex, so spectra are two-sided"):
        signal.welch(jnp.ones(9) * 1j, nperseg=4)


def test_numbers_of_points_are_rounded_down():
    for made in (jnp.bartlett, jnp.hamming, lambda number: jnp.kaiser(number, 1.0)):
        np.testing.assert_array_equal(made(3.7), made(3))
        np.testing.assert_array_equal(made(jnp.array(3.0)), made(3))

"""`ndimage`, `interpolate`, `integrate` and `cluster` of `xpr.scipy` beside SciPy, and lazily imported modules."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest
import scipy.cluster
import scipy.interpolate
import scipy.ndimage

import xpr
import xpr.numpy as jnp
import xpr.scipy
from tests.peer import JAX, needs_jax
from xpr.scipy import integrate, ndimage
from xpr.scipy.cluster import vq
from xpr.scipy.interpolate import RegularGridInterpolator

rng = np.random.default_rng(0)


class TestMapCoordinates:
    @pytest.mark.parametrize("order", [0, 1])
    @pytest.mark.parametrize("dtype", ["f4", "i4"])
    @pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (1, 3)])
    def test_values(self, shape, dtype, order):
        """In every mode, at once and row by row: as one program."""
        pads = {"constant": "constant", "nearest": "edge", "wrap": "wrap", "mirror": "reflect", "reflect": "symmetric"}
        x = rng.integers(-9, 9, shape).astype(dtype)
        wanted, coordinates = {}, {}
        for mode, pad in pads.items():
            low, high = (-1.4, 0.4) if mode != "wrap" else (0, -1)  # SciPy's "wrap" is another
            coordinates[mode] = at = [rng.uniform(low, n + high, (3, 4)).astype("f4") for n in shape]
            wanted[mode] = scipy.ndimage.map_coordinates(np.pad(x, 2, pad), [c + 2 for c in at], order=order)

        def both(mode, at):
            rows = xpr.vmap(lambda c: ndimage.map_coordinates(x, [*c], order, mode))(jnp.stack(at, 1))
            return ndimage.map_coordinates(x, at, order, mode), rows

        found = xpr.jit(lambda all: {mode: both(mode, at) for mode, at in all.items()})(coordinates)
        for mode, results in found.items():
            for result in results:
                assert result.dtype == dtype
                np.testing.assert_allclose(result, wanted[mode], rtol=1e-4, atol=1e-5, err_msg=mode)

    def test_beyond_is_a_value(self):
        found = ndimage.map_coordinates(jnp.ones(3), [jnp.array([-2.0, -0.5, 1.0])], order=1, cval=5.0)
        np.testing.assert_allclose(found, [5, 3, 1])
        halves = np.float32([0.5, 1.5, -0.5])
        np.testing.assert_array_equal(
            ndimage.map_coordinates(np.arange(4), [halves], order=0, mode="nearest"), [1, 2, 0]
        )

    def test_derivatives(self):
        x, at = rng.normal(size=(4, 5)), rng.uniform(0.1, 2.9, (2, 6))
        with xpr.enable_x64(True):
            for argument, value in ((0, x), (1, at)):
                fun = lambda v, argument=argument: ndimage.map_coordinates(
                    *((v, [*at]) if argument == 0 else (x, [*v])), order=1
                )
                direction = rng.normal(size=value.shape)
                difference = (fun(value + 1e-6 * direction) - fun(value - 1e-6 * direction)) / 2e-6
                np.testing.assert_allclose(xpr.jvp(fun, (value,), (direction,))[1], difference, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize(
        "call, error, message",
        [
            (lambda x: ndimage.map_coordinates(x, [x], 2), NotImplementedError, "requires order<=1, and order=2 was"),
            (
                lambda x: ndimage.map_coordinates(x, [x], 1, "grid-wrap"),
                NotImplementedError,
                "not yet support mode 'grid-wrap'",
            ),
            (
                lambda x: ndimage.map_coordinates(x, [x, x], 1),
                ValueError,
                r"a sequence of length 1, .* and 2 are given",
            ),
        ],
    )
    def test_errors(self, call, error, message):
        with pytest.raises(error, match=message):
            call(jnp.ones(3))


class TestGrid:
    POINTS = (np.array([0.0, 1, 4]), np.array([-1.0, 0, 2, 2.5]))
    VALUES = rng.normal(size=(3, 4, 2))
    AT = np.stack([rng.uniform(-0.5, 4.5, 30), rng.uniform(-1.5, 3, 30)], -1)

    @pytest.mark.parametrize("method", ["linear", "nearest"])
    @pytest.mark.parametrize("fill_value", [np.nan, None, 3.0])
    def test_values(self, method, fill_value):
        with xpr.enable_x64(True):
            args = (self.POINTS, self.VALUES, method, False, fill_value)
            ours, theirs = RegularGridInterpolator(*args), scipy.interpolate.RegularGridInterpolator(*args)
            np.testing.assert_allclose(ours(self.AT), theirs(self.AT), rtol=1e-12)
            np.testing.assert_allclose(
                ours(self.AT.reshape(5, 6, 2), "nearest"), theirs(self.AT.reshape(5, 6, 2), "nearest")
            )
            np.testing.assert_allclose(ours((1.5, self.AT[:, 1])), theirs((1.5, self.AT[:, 1])), rtol=1e-12)
            np.testing.assert_allclose(xpr.jit(lambda f, x: f(x))(ours, self.AT), theirs(self.AT), rtol=1e-12)
            np.testing.assert_allclose(ours(self.AT[0]), theirs(self.AT[0]), rtol=1e-12)

    def test_derivatives(self):
        with xpr.enable_x64(True):
            at = np.array([[0.3, 1.0], [2.0, 2.2]])
            fun = lambda values, at: RegularGridInterpolator(self.POINTS, values)(at)
            for along in (lambda t: fun(self.VALUES + t, at), lambda t: fun(self.VALUES, at + t)):
                np.testing.assert_allclose(xpr.jacfwd(along)(0.0), (along(1e-6) - along(-1e-6)) / 2e-6, rtol=1e-7)

    @pytest.mark.parametrize(
        "call, error, message",
        [
            (
                lambda p, v: RegularGridInterpolator(p, v, "cubic"),
                ValueError,
                "method is 'linear' or 'nearest', and not 'cubic'",
            ),
            (
                lambda p, v: RegularGridInterpolator(p, v, bounds_error=True),
                NotImplementedError,
                "Give a fill_value, or check",
            ),
            (lambda p, v: RegularGridInterpolator(p, v[1:]), ValueError, r"They are f32\[3\] and f32\[2\]"),
            (lambda p, v: RegularGridInterpolator(p, v, fill_value=1j), ValueError, "They are complex64 and float32"),
            (
                lambda p, v: RegularGridInterpolator(p, v)(jnp.ones((4, 2))),
                ValueError,
                "1 dimensions have 1 coordinates, and 2",
            ),
        ],
    )
    def test_errors(self, call, error, message):
        with pytest.raises(error, match=message):
            call((jnp.arange(3.0),), jnp.ones(3))


def test_nearest_codes():
    points, codes = rng.normal(size=(20, 3)).astype("f"), rng.normal(size=(4, 3)).astype("f")
    for x, y in zip(vq.vq(points, codes), scipy.cluster.vq.vq(points, codes)):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    for x, y in zip(xpr.jit(vq.vq)(points[:, 0], codes[:, 0]), scipy.cluster.vq.vq(points[:, 0], codes[:, 0])):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    slope = xpr.grad(lambda p: vq.vq(p, codes)[1].sum())(points)
    nearest = codes[np.asarray(vq.vq(points, codes)[0])]
    np.testing.assert_allclose(slope, (points - nearest) / np.linalg.norm(points - nearest, axis=1)[:, None], rtol=1e-4)
    with pytest.raises(ValueError, match=r"vectors of numbers, and got f32\[20,3\] and f32\[4\]"):
        vq.vq(points, codes[:, 0])


def test_trapezoidal_rule():
    y, x = rng.normal(size=(3, 5)).astype("f"), np.sort(rng.normal(size=5)).astype("f")
    np.testing.assert_allclose(integrate.trapezoid(y, x), np.trapezoid(y, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(integrate.trapezoid(y, dx=0.5, axis=0), np.trapezoid(y, dx=0.5, axis=0), rtol=1e-4)


def test_modules_are_imported_when_asked_for():
    code = """
import sys, xpr.scipy
assert not [m for m in sys.modules if m.startswith("xpr.scipy.")]
assert xpr.scipy.signal.convolve and "xpr.scipy.linalg" not in sys.modules, "signal"
print(*xpr.scipy.__all__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == xpr.scipy.__all__, done.stderr
    with pytest.raises(AttributeError, match="module 'xpr.scipy' has no attribute 'odr'"):
        xpr.scipy.odr  # noqa: B018
    assert {*xpr.scipy.__all__} <= {*dir(xpr.scipy)}


@needs_jax
@pytest.mark.parametrize("name", [*xpr.scipy.__all__, "cluster.vq", "sparse.linalg", "spatial.transform"])
def test_names_and_signatures_are_those_of_jax(name):
    ours, theirs = importlib.import_module(f"xpr.scipy.{name}"), importlib.import_module(f"{JAX.__name__}.scipy.{name}")
    for each, value in vars(theirs).items():
        if each.startswith("_") or inspect.ismodule(value):
            continue
        mine = getattr(ours, each)
        if inspect.isfunction(inspect.unwrap(value)):
            wanted = [(p.name, p.kind) for p in inspect.signature(value).parameters.values()]
            found = [(p.name, p.kind) for p in inspect.signature(mine).parameters.values()]
            assert found == wanted, each

"""Special functions beyond the gamma and error functions beside SciPy's: values, edges, derivatives, batches."""

import warnings

import numpy as np
import pytest
import scipy.special

import xpr
import xpr.numpy as jnp
from tests.helpers import in_numpy
from xpr.scipy import special

rng = np.random.default_rng(0)

EDGES = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-300, 1e-8])
LINE = np.concatenate([rng.uniform(-6, 6, 300), 10 ** rng.uniform(-6, 4, 200) * rng.choice([-1, 1], 200), EDGES])
POSITIVE = np.concatenate([10 ** rng.uniform(-6, 2, 400), [0, np.inf, np.nan, -1]])
PLANE = 10 ** rng.uniform(-2, 1.3, 400) * np.exp(2j * np.pi * rng.random(400))
UPPER = PLANE.real + 1j * abs(PLANE.imag)
ORDERS = rng.integers(0, 30, POSITIVE.size).astype(float)
A, B, C, SHARE = rng.uniform(0.1, 5, 60), rng.uniform(0.1, 5, 60), rng.uniform(0.1, 8, 60), rng.uniform(-3, 0.99, 60)

# Operands, and the errors allowed in float64 and float32, relative to the value and to what comes third.
CASES = {
    "erfcx": ([LINE[LINE > -6]], 5e-15, 5e-6, 0),
    "dawsn": ([LINE], 2e-14, 1e-6, 0),
    "fresnel": ([LINE], 1e-12, 1e-6, 0),
    "wofz": ([UPPER], 5e-14, 2e-6, 0),
    "loggamma": ([PLANE], 1e-13, 1e-5, 0.1),
    "gamma": ([PLANE], 1e-13, 2e-5, 1e-30),
    "spence": ([POSITIVE[np.isfinite(POSITIVE)]], 1e-14, 1e-6, 1e-3),
    "owens_t": ([rng.uniform(-6, 6, 300), 10 ** rng.uniform(-3, 3, 300) * rng.choice([-1, 1], 300)], 1e-13, 1e-5, 0),
    "expn": ([ORDERS, np.minimum(POSITIVE, 50)], 1e-14, 2e-5, 0),
    "sici": ([LINE], 1e-14, 1e-6, 1),
    "hyp1f1": ([A, B, rng.uniform(-20, 30, 60)], 1e-12, 1e-5, 1e-6),
    "hyp2f1": ([A, B, C, SHARE], 1e-11, 1e-4, 1e-6),
}


def scipys(name, *xs):
    fun = getattr(scipy.special, name)
    xs = [x.astype(np.complex128 if np.iscomplexobj(x) else float) for x in xs]
    xs = [xs[0].astype(int), *xs[1:]] if name == "expn" else xs
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fun(*xs)


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.optimized)])
@pytest.mark.parametrize("name", CASES)
def test_values(name, dtype):
    """In float64 inside jit, too: alone each is one compiled program, which takes a second to optimize."""
    operands, wide, narrow, scale = CASES[name]
    complex_dtype = np.result_type(dtype, np.complex64)
    operands = [x.astype(complex_dtype if np.iscomplexobj(x) else dtype) for x in operands]
    with xpr.enable_x64(dtype == np.float64):
        found = getattr(special, name)(*operands)
        compiled = xpr.jit(getattr(special, name))(*operands) if dtype == np.float64 else found
    wanted = scipys(name, *operands)
    for one, two, three in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, compiled, wanted)]):
        assert one.dtype == np.result_type(*operands)
        one, two = np.asarray(one), np.asarray(two)
        bound = wide if dtype == np.float64 else narrow
        # A value below the smallest normal number, or above the largest one, is 0 or infinite in float32.
        limits = np.finfo(dtype)
        beyond = (abs(three) > 0.1 * limits.max) | (abs(three) < 100 * limits.tiny)
        ok = np.isclose(one, three, rtol=bound, atol=bound * scale, equal_nan=True) | beyond
        assert ok.all(), (name, [x[~ok][:4] for x in operands], one[~ok][:4], three[~ok][:4])
        np.testing.assert_allclose(one, two, rtol=10 * bound, atol=bound * scale + 1e-300)


def test_the_lower_half_plane():
    """There wofz grows as exp(y^2), and its digits are those of the exponent."""
    z = np.conj(UPPER[np.abs(UPPER) < 4])
    with xpr.enable_x64(True):
        np.testing.assert_allclose(special.wofz(z), scipys("wofz", z), rtol=1e-12)
        np.testing.assert_allclose(special.erfcx(-1j * z), scipys("wofz", z), rtol=1e-12)


@pytest.mark.parametrize(
    "name, operands, wanted",
    [
        ("spence", [np.inf, -1, np.nan], [-np.inf, np.nan, np.nan]),
        ("loggamma", [0, -1, np.inf, np.nan], [np.inf, np.nan, np.inf, np.nan]),
        ("gamma", [-2 + 0j, 0j], [complex(np.nan, np.nan)] * 2),
        ("wofz", [0j, complex(np.nan, 0)], [1, complex(np.nan, np.nan)]),
    ],
)
def test_edges_of_one(name, operands, wanted):
    with xpr.enable_x64(True):
        np.testing.assert_allclose(getattr(special, name)(np.array(operands)).real, np.real(wanted))


@pytest.mark.parametrize(
    "name, args, wanted",
    [
        ("owens_t", (0, np.inf), 0.25),
        ("owens_t", (1, -np.inf), -0.5 * scipy.special.ndtr(-1)),
        ("owens_t", (np.nan, 1), np.nan),
        ("owens_t", (np.inf, 2), 0),
        ("owens_t", (2, 0), 0),
        ("expn", (5000, 1.0), scipy.special.expn(5000, 1.0)),
        ("expn", (0, 2.0), np.exp(-2) / 2),
        ("expn", (1, 0.0), np.inf),
        ("expn", (3, 0.0), 0.5),
        ("expn", (-1, 1.0), np.nan),
        ("hyp1f1", (-2, -3, 2.0), 1 + 4 / 3 + 2 / 3),
        ("hyp1f1", (1, -2, 1.0), np.inf),
        ("hyp1f1", (2, 3, 0), 1),
        ("hyp1f1", (0, 1, 9), 1),
        ("hyp1f1", (0.5, 0.7, 400), scipy.special.hyp1f1(0.5, 0.7, 400)),
        ("hyp1f1", (0.5, 0.7, -1e3), scipy.special.hyp1f1(0.5, 0.7, -1e3)),
        ("hyp2f1", (1, 1, 2, 1), np.inf),
        ("hyp2f1", (0.5, 0.5, 2.5, 1), scipy.special.hyp2f1(0.5, 0.5, 2.5, 1)),
        ("hyp2f1", (-2, 3, 1.5, 4.0), scipy.special.hyp2f1(-2, 3, 1.5, 4.0)),
        ("hyp2f1", (1, 1, 2, 1.5), np.inf),
        ("hyp2f1", (1, 2, -3, 0.5), np.inf),
        ("hyp2f1", (1, 1, np.nan, 0.5), np.nan),
        ("hyp2f1", (1, 1, 2, 1 - 1e-12), scipy.special.hyp2f1(1, 1, 2, 1 - 1e-12)),
    ],
)
def test_edges_of_several(name, args, wanted):
    with xpr.enable_x64(True):
        np.testing.assert_allclose(getattr(special, name)(*args), wanted, rtol=1e-11)


# Points at which derivatives are compared with difference quotients, in each argument that is not an order.
POINTS = {
    "erfcx": [(-1.0,), (0.0,), (3.0,), (2e3,)], "dawsn": [(-1.0,), (0.0,), (0.3,), (3.3,), (2e3,)],
    "fresnel": [(0.0,), (-1.0,), (5.0,)], "sici": [(1e-3,), (-2.0,), (9.0,)], "spence": [(0.3,), (1.0,), (5.0,)],
    "owens_t": [(0.5, 0.3), (-1.0, 3.0), (0.0, 0.5)], "hyp1f1": [(1.5, 2.5, 3.0), (0.5, 1.7, -4.0), (0.5, 0.7, 200.0)],
    "hyp2f1": [(0.5, 1.2, 2.3, 0.3), (1.5, 1.2, 2.3, 0.8), (0.5, 1.2, 2.3, -3.0)], "loggamma": [(3.0,)],
    "zeta": [(1.5, 0.3), (2.5, 4.0), (9.0, 20.0)], "betaln": [(2.5, 0.3), (0.5, 30.0), (20.0, 1e3)],
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS)
def test_derivatives(name):
    fun = getattr(special, name)
    with xpr.enable_x64(True):
        for args in POINTS[name]:
            for i, x in enumerate(args):
                moved = lambda x, i=i, args=args: jnp.ravel(jnp.asarray(fun(*args[:i], x, *args[i + 1 :])))
                step = 1e-5 * max(abs(x), 0.1)
                difference = (moved(x + step) - moved(x - step)) / (2 * step)
                slope = xpr.jacfwd(moved)(x)
                np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)
                np.testing.assert_allclose(xpr.jacrev(moved)(x), slope, rtol=1e-10)
                if not name.startswith("hyp") or i == len(args) - 1:
                    twice = xpr.jacfwd(xpr.jacrev(moved))(x)
                    second = (xpr.jacrev(moved)(x + step) - xpr.jacrev(moved)(x - step)) / (2 * step)
                    np.testing.assert_allclose(twice, second, rtol=1e-4, atol=1e-6)


def test_derivatives_in_the_plane_and_of_orders():
    with xpr.enable_x64(True):
        for fun in map(in_numpy, (special.wofz, special.loggamma, special.gamma)):
            slopes = in_numpy(xpr.grad(fun, holomorphic=True))
            for z in (0.7 + 0.4j, -1.3 + 2.0j, 3.0 - 0.5j, 1.0 + 0.01j):
                np.testing.assert_allclose(slopes(z), (fun(z + 1e-5) - fun(z - 1e-5)) / 2e-5, rtol=1e-7)
        for n in (0, 1, 4):
            np.testing.assert_allclose(
                xpr.grad(special.expn, 1)(n, 0.7),
                (special.expn(n, 0.7 + 1e-6) - special.expn(n, 0.7 - 1e-6)) / 2e-6,
                rtol=1e-7,
            )


def test_functions_are_mapped():
    x = rng.uniform(0.2, 0.8, (3, 4)).astype("f")
    for name, count in (
        ("wofz", 1),
        ("fresnel", 1),
        ("expn", 2),
        ("owens_t", 2),
        ("hyp1f1", 3),
        ("hyp2f1", 4),
        ("sici", 1),
    ):
        args = [x] * count if name != "expn" else [jnp.ones((3, 4), int), x]
        fun = getattr(special, name)
        for one, two in zip(*(xpr.tree.leaves(in_numpy(f)(*args)) for f in (xpr.vmap(fun), fun))):
            np.testing.assert_allclose(one, two, rtol=1e-5)


def test_bessel_functions_of_integer_orders():
    z = np.concatenate([rng.uniform(-30, 30, 100), 10 ** rng.uniform(-8, 3, 100), [0, np.inf, np.nan, 49.9, 50.1, 100]])
    wanted = np.stack([scipy.special.jv(k, z) for k in range(41)])
    wanted[:, np.isinf(z)] = 0
    with xpr.enable_x64(True):
        np.testing.assert_allclose(special.bessel_jn(z, v=40), wanted, atol=3e-14)
        slope = xpr.jacfwd(lambda z: special.bessel_jn(z, v=3))(2.0)
        np.testing.assert_allclose(slope, [scipy.special.jvp(k, 2.0) for k in range(4)], rtol=1e-13)
        twice = xpr.jacfwd(xpr.jacrev(lambda z: special.bessel_jn(z, v=1)))(2.0)
        np.testing.assert_allclose(twice, [scipy.special.jvp(k, 2.0, 2) for k in range(2)], rtol=1e-12)
    np.testing.assert_allclose(special.bessel_jn(z.astype("f"), v=40), wanted, atol=1e-5)
    rows = xpr.jit(xpr.vmap(lambda z: special.bessel_jn(z, v=2)))(np.float32([[1, 2], [3, 4]]))
    assert rows.shape == (2, 3, 2)
    np.testing.assert_allclose(rows[1, 2], scipy.special.jv(2, [3, 4]), rtol=1e-5)


def test_spherical_harmonics():
    n, m = rng.integers(0, 41, 300), rng.integers(-40, 41, 300)
    theta, phi = rng.random(300) * np.pi, rng.random(300) * 7
    with xpr.enable_x64(True):
        np.testing.assert_allclose(
            special.sph_harm_y(n, m, theta, phi), scipy.special.sph_harm_y(n, m, theta, phi), atol=1e-12
        )
        compiled = xpr.jit(special.sph_harm_y, static_argnames="n_max")(n, m, theta, phi, n_max=40)
        np.testing.assert_allclose(compiled, special.sph_harm_y(n, m, theta, phi), atol=1e-12)
        reduced = special.sph_harm_y(np.array([9]), np.array([2]), 0.3, 0.4, n_max=6)
        np.testing.assert_allclose(reduced, [scipy.special.sph_harm_y(6, 2, 0.3, 0.4)], rtol=1e-12)
        slope = lambda t: special.sph_harm_y(np.array([5]), np.array([-3]), t, 0.4)
        np.testing.assert_allclose(
            xpr.jvp(slope, (0.5,), (1.0,))[1], (slope(0.5 + 1e-6) - slope(0.5 - 1e-6)) / 2e-6, rtol=1e-7
        )
        assert np.isfinite(xpr.jvp(slope, (0.0,), (1.0,))[1]).all()
    with pytest.raises(TypeError, match=r"n is traced, i32\[1\], .* Pass it as n_max"):
        xpr.jit(special.sph_harm_y)(np.array([1]), np.array([1]), 0.1, 0.2)
    with pytest.raises(NotImplementedError, match="for which there are xpr.jvp and xpr.grad"):
        special.sph_harm_y(1, 1, 0.1, 0.2, 1)


def test_associated_legendre_functions():
    x = np.array([-0.9, 0.0, 0.3, 1.0])
    degree, order = np.arange(13), np.arange(13)[:, None]
    with xpr.enable_x64(True):
        wanted = scipy.special.assoc_legendre_p(degree[:, None], order[..., None], x)[0]
        values, derivatives = special.lpmn(12, 12, x)
        np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(special.lpmn_values(12, 12, x, False), wanted, rtol=1e-12, atol=1e-9)
        inside = scipy.special.assoc_legendre_p(degree[:, None], order[..., None], x[:3], diff_n=1)[1]
        np.testing.assert_allclose(derivatives[..., :3], inside, rtol=1e-11, atol=1e-8)
        np.testing.assert_array_equal(derivatives[1, :3, 3], [0, np.inf, np.inf])  # that of sqrt(1 - x^2)
        np.testing.assert_allclose(derivatives[2, :4, 3], [0, 0, -6, -30], atol=1e-12)
        harmonics = special.sph_harm_y(degree, order, np.arccos(0.3), 0.0).real * (order <= degree)
        np.testing.assert_allclose(special.lpmn_values(12, 12, x, True)[..., 2], harmonics, rtol=1e-12, atol=1e-14)
        for m, n in [(2, 5), (4, 1)]:
            few = special.lpmn_values(m, n, x, True), *special.lpmn(m, n, x)
            for part, whole in zip(few, (special.lpmn_values(12, 12, x, True), values, derivatives)):
                np.testing.assert_allclose(part, whole[: m + 1, : n + 1], rtol=1e-12)
        assert xpr.jit(special.lpmn, static_argnums=(0, 1))(0, 0, x)[0].tolist() == [[[1.0] * 4]]
    for arguments, error, message in [
        ((2, 2, np.arange(3)), TypeError, r"lpmn: z is float32 or float64, and i32\[3\] was given"),
        ((2, 2, np.ones((2, 2), "f")), ValueError, r"lpmn: z is a vector of points, and f32\[2,2\] was given"),
        ((-1, 2, np.ones(2, "f")), ValueError, "the greatest order and degree are at least 0, and are -1 and 2"),
    ]:
        with pytest.raises(error, match=message):
            special.lpmn(*arguments)


def test_numbers_of_bernoulli():
    with xpr.enable_x64(True):
        for n in (0, 1, 2, 3, 30, 150):
            np.testing.assert_allclose(
                special.bernoulli(n), scipy.special.bernoulli(n)[: n + 1], rtol=1e-11, atol=1e-15
            )
        assert np.isinf(special.bernoulli(262)[-1])
    with pytest.raises(ValueError, match="the last index is 0 or more, and n is -1"):
        special.bernoulli(-1)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: special.dawsn(1j), TypeError, r"Argument `x` to dawsn must be real-valued: c64\[\]"),
        (lambda: special.bessel_jn(1j, v=1), TypeError, "bessel_jn must be real-valued"),
        (lambda: special.bessel_jn(1.0, v=-1), ValueError, "the highest order is 0 or more, and v is -1"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_beta_functions_of_large_numbers():
    a, b = 10 ** rng.uniform(-3, 8, (2, 500))
    with xpr.enable_x64(True):
        np.testing.assert_allclose(
            special.betaln(a, b), scipy.special.betaln(a, b), rtol=1e-7
        )  # SciPy subtracts logarithms
    large = np.geomspace(1, 1e30, 50).astype("f")
    np.testing.assert_allclose(special.betaln(large, 1.0), -np.log(large), rtol=1e-6, atol=1e-5)


def test_combinations_of_nothing():
    np.testing.assert_allclose(special.comb(np.float32([0, 0]), np.float32([0, 4]), repetition=True), [1, 0], rtol=1e-6)


ORDERS = (0.0, 0.3, 1.0, 2.5, 7.0, 12.7, -0.5, -2.0, -3.3)
OF_ORDERS = ("jv", "yv", "iv", "ive", "kv", "kve")


@pytest.mark.parametrize("name", OF_ORDERS)
def test_bessel_functions_of_real_orders(name):
    v, z = np.meshgrid(ORDERS, np.geomspace(0.01, 200, 40))
    expected = getattr(scipy.special, name)(v, z)
    other = {"jv": "yv", "yv": "jv"}.get(name)  # beside a zero of one the other says how great the error may be
    beside = 0 if other is None else np.where(z > abs(v), getattr(scipy.special, other)(v, z), 0)
    size = np.hypot(expected, beside)
    with xpr.enable_x64():
        assert (abs(getattr(special, name)(v, z) - expected) / size).max() < 3e-13
    narrow = np.asarray(getattr(special, name)(v.astype("f"), z.astype("f")))
    held = (abs(expected) < 1e37) & (abs(expected) > 1e-36)
    assert np.all(abs(narrow - expected)[held] < 1e-4 * size[held] + (1e-6 if name == "jv" else 0))


@pytest.mark.parametrize("name", OF_ORDERS)
def test_bessel_functions_at_the_edges(name):
    function, reference = getattr(special, name), getattr(scipy.special, name)
    v = np.array([0.0, 1.0, 2.0, -1.0, 0.5])
    for z in (0.0, np.nan):
        np.testing.assert_allclose(function(v, z), reference(v, z))
    np.testing.assert_array_equal(function(v, np.inf), np.full(5, np.inf if name == "iv" else 0.0))  # SciPy has nan
    if name in ("jv", "iv", "ive"):
        np.testing.assert_allclose(function(3.0, -2.0), reference(3.0, -2.0), rtol=1e-5)
    assert np.isnan(function(0.5, -2.0))


@pytest.mark.parametrize("name", OF_ORDERS)
def test_bessel_functions_near_0(name):
    v, z = np.meshgrid([0.0, 0.3, 1.0, 5.0, 50.0], [1.5e-37, 1e-30, 1e-20, 1e-9, 1e-6, 1e-3, 1.0])
    function, expected = getattr(special, name), getattr(scipy.special, name)(v, z.astype("f"))
    values = np.asarray(function(v.astype("f"), z.astype("f")))
    held = (abs(expected) < 1e37) & (abs(expected) > 1e-36)
    np.testing.assert_allclose(values[held], expected[held], rtol=1e-4)
    assert not np.isnan(values).any()
    if name in ("jv", "iv", "ive"):
        with xpr.enable_x64():
            np.testing.assert_allclose(function(v, z), getattr(scipy.special, name)(v, z), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", OF_ORDERS)
def test_derivatives_of_bessel_functions(name):
    function = getattr(special, name)
    with xpr.enable_x64():
        v, z = np.array([0.4, 2.0, -1.3, 1.0]), np.array([1.3, 8.0, 5.0, 60.0])
        xpr.testing.check_grads(function, (v, z), order=1, modes=["rev"], rtol=1e-6, eps=1e-5)
        again = (function(0.5, 2.0) - 2 * function(1.5 + 1.0, 2.0) + function(3.5 + 1.0, 2.0)) / 4
        if name == "jv":  # J'' is a difference of orders, too
            twice = xpr.grad(xpr.grad(lambda z: function(2.5, z)))(2.0)
            np.testing.assert_allclose(twice, again, rtol=1e-10)


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1", "k0", "k1", "k0e", "k1e", "jn"])
def test_bessel_functions_of_orders_0_and_1(name):
    z = np.float32([0.5, 2.0, 20.0])
    arguments = (2, z) if name == "jn" else (z,)
    wanted = getattr(scipy.special, name)(*arguments)
    np.testing.assert_allclose(getattr(special, name)(*arguments), wanted, rtol=3e-5, atol=1e-6)
    with pytest.raises(TypeError, match="must be real-valued"):
        getattr(special, name)(*arguments[:-1], z + 1j)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv"])
def test_bessel_functions_beside_those_of_large_orders_and_arguments(name):
    """Elements whose number of terms would be astronomical don't change, or delay, those of others."""
    v, x = np.float32([0, 1e30, 1e10, 2]), np.float32([0.5, 1e30, 5, 30])
    results, wanted = getattr(special, name)(v, x), getattr(scipy.special, name)(v.astype(float), x.astype(float))
    np.testing.assert_allclose(results[0], wanted[0], rtol=1e-5)
    np.testing.assert_allclose(results[3], wanted[3], rtol=1e-3)


def test_infinite_constants_of_a_function_are_no_results():
    with xpr.debug_infs(True), xpr.numpy_rank_promotion("raise"):
        assert float(special.ndtri(0.5)) == 0
        with pytest.raises(FloatingPointError, match=r"invalid value \(inf\)"):
            special.ndtri(1.0)


def test_entropies_of_nan_are_nan():
    x = np.array([-1, 0, -0.0, 1, np.inf, np.nan, 0.5], np.float32)
    np.testing.assert_allclose(special.entr(x), scipy.special.entr(x), rtol=1e-6)
    assert np.isnan(xpr.grad(special.entr)(jnp.nan))
    p, q = (
        each.ravel() for each in np.meshgrid(np.array([np.nan, 0, 1, -1], np.float32), [1, 0, -1, np.float32(np.nan)])
    )
    for name in ("rel_entr", "kl_div"):
        np.testing.assert_array_equal(getattr(special, name)(p, q), getattr(scipy.special, name)(p, q))


@pytest.mark.parametrize("name, count", [
    ("exp1", 1), ("expi", 1), ("expn", 2), ("sici", 1), ("fresnel", 1), ("erfcx", 1), ("dawsn", 1), ("spence", 1),
    ("owens_t", 2), ("hyp1f1", 3), ("hyp2f1", 4), ("gammaln", 1), ("betainc", 3),
])  # fmt: skip
def test_of_integers_are_floats_of_as_many_bits(name, count):
    with xpr.enable_x64(True):
        for kind in ("32", "64"):
            out = getattr(xpr.scipy.special, name)(*[jnp.ones(2, f"int{kind}")] * count)
            assert {x.dtype for x in xpr.tree.leaves(out)} == {np.dtype(f"float{kind}")}

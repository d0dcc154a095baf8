"""Functions at zeros, infinities and nans, where the Python array API standard says what they are."""

import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

COMPLEX_FUNCTIONS = (
    "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
    "arcsinh", "arccosh", "arctanh",
)  # fmt: skip
PARTS = np.array([0, -0.0, 1, -1, 0.5, 2, -2.5, 30, np.inf, -np.inf, np.nan])


def complex_grid(dtype):
    grid = np.empty(PARTS.size**2, dtype)
    grid.real, grid.imag = np.repeat(PARTS, PARTS.size), np.tile(PARTS, PARTS.size)
    return grid


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_complex_functions_at_zeros_infinities_and_nans(name, dtype):
    """As in NumPy, on both sides of branch cuts. The signs of infinities beside nans are not specified."""
    with xpr.enable_x64():
        z = complex_grid(dtype)
        got = np.asarray(xpr.jit(getattr(jnp, name))(z))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    for part, other in (("real", "imag"), ("imag", "real")):
        unsigned = np.isnan(getattr(expected, other)) & np.isinf(getattr(expected, part))
        of_both = [np.where(unsigned, np.abs(getattr(v, part)), getattr(v, part)) for v in (got, expected)]
        np.testing.assert_allclose(*of_both, rtol=1e-5, atol=1e-6)


def test_complex_functions_of_subnormal_numbers_and_nan_are_nan():
    """They are zeros to XLA, of which the functions have limits."""
    z = np.array([complex(1e-40, np.nan), complex(-1e-40, np.nan)], np.complex64)
    for name in ("sinh", "tanh", "arccos", "arccosh", "arctanh"):
        got = np.asarray(xpr.jit(getattr(jnp, name))(z))
        assert np.all(np.isnan([got.real, got.imag])), name


def test_complex_functions_keep_the_signs_of_zeros():
    z = np.array([complex(-1, 0.0), complex(-1, -0.0), complex(-0.0, 0.0), complex(0.0, -0.0)], np.complex64)
    for function, expected in {
        jnp.exp: [(0, 0), (0, 1), (0, 0), (0, 1)],
        jnp.sqrt: [(0, 0), (0, 1), (0, 0), (0, 1)],
        jnp.arctanh: [(1, 0), (1, 1), (1, 0), (0, 1)],
        jnp.sinh: [(1, 0), (1, 1), (1, 0), (0, 1)],
    }.items():
        got = np.asarray(xpr.jit(function)(z))
        np.testing.assert_array_equal(np.signbit([got.real, got.imag]).T, np.array(expected, bool), function.__name__)


@pytest.mark.optimized
@pytest.mark.parametrize("count", [100, 5000])
@pytest.mark.parametrize("name", ["exp", "sin", "cos", "tan", "sinh", "cosh", "tanh"])
def test_parts_of_complex_functions_have_all_digits(name, count):
    """Few numbers are computed by XLA's real functions, and many by formulas (docs/design/elementwise-functions.md)."""
    rng = np.random.default_rng(0)
    parts = 10 ** rng.uniform(-6, 1.2, (2, count)) * rng.choice([-1, 1], (2, count))
    z = (parts[0] + 1j * parts[1]).astype(np.complex64)
    got = np.asarray(xpr.jit(getattr(jnp, name))(z))
    expected = getattr(np, name)(z.astype(np.complex128))
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(got, part), getattr(expected, part), rtol=1e-6)


def test_a_complex_exponential_is_finite_where_that_of_the_real_part_is_not():
    z = np.array([complex(90, 1e-6), complex(100, np.pi / 2)], np.complex64)
    got, expected = np.asarray(xpr.jit(jnp.exp)(z)), np.exp(z.astype(np.complex128))
    np.testing.assert_allclose(got.imag[0], expected.imag[0], rtol=1e-5)
    np.testing.assert_allclose(got.real[1], expected.real[1], rtol=1e-5)


def test_exponential_minus_one_of_complex_infinities():
    inf, nan = np.inf, np.nan
    z = np.array([complex(-inf, inf), complex(-inf, nan), complex(inf, inf), complex(inf, nan), complex(inf, 0)])
    got = np.asarray(xpr.jit(jnp.expm1)(z.astype(np.complex64)))
    np.testing.assert_array_equal(got.real, [-1, -1, inf, inf, inf])
    np.testing.assert_array_equal(got.imag, [0, 0, nan, nan, 0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_floor_division_of_zeros_and_by_infinities(dtype):
    """The floor of the quotient, where NumPy gives nan for infinite numbers."""
    inf, nan = np.inf, np.nan
    cases = [
        (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf), (-inf, -2, inf), (inf, inf, nan), (inf, 0, inf),
        (3, inf, 0), (3, -inf, -0.0), (-3, inf, -0.0), (-3, -inf, 0), (3, 0, inf), (3, -0.0, -inf), (-3, 0, -inf),
        (0, 2, 0), (0, -2, -0.0), (-0.0, 2, -0.0), (-0.0, -2, 0), (0, 0, nan), (nan, 2, nan), (2, nan, nan),
        (7, 2, 3), (-7, 2, -4), (7, -2, -4), (1, 3, 0), (-1, 3, -1),
    ]  # fmt: skip
    with xpr.enable_x64():
        x, y, expected = (np.array(column) for column in zip(*cases))
        got = np.asarray(jnp.floor_divide(jnp.asarray(x, dtype), jnp.asarray(y, dtype)), "float64")
    np.testing.assert_array_equal(got, expected)
    seen = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[seen], np.signbit(expected)[seen])


@pytest.mark.parametrize("remainder", [jnp.remainder, lambda x, y: jnp.divmod(x, y)[1]])
def test_remainders_have_the_sign_of_the_divisor(remainder):
    x, y = (each.ravel().astype(np.float32) for each in np.meshgrid([0, -0.0, 6, -6, 7, -7], [2, -2, np.inf, -np.inf]))
    got, expected = np.asarray(remainder(x, y)), np.remainder(x, y)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("divide", [jnp.remainder, jnp.floor_divide, lambda x, y: jnp.divmod(x, y)[1], jnp.fmod])
@pytest.mark.parametrize("shapes", [((3,), ()), ((), (3,)), ((3,), (1,)), ((1,), (3,)), ((2, 1), (1, 3)), ((0,), (1,))])
def test_operands_of_divisions_are_broadcast(divide, shapes):
    x, y = (np.linspace(-5, 7, math.prod(shape) or 1)[: math.prod(shape)].reshape(shape) for shape in shapes)
    got, expected = divide(x, y), divide(*np.broadcast_arrays(x, y))
    np.testing.assert_array_equal(got, expected)
    assert got.shape == np.broadcast_shapes(*shapes)


def test_the_derivative_of_a_remainder_where_there_is_none():
    for x, y in ((4.0, 2.0), (4.0, -2.0), (-4.0, 2.0), (0.0, -2.0), (5.0, -2.0)):
        by_x, by_y = xpr.grad(jnp.remainder, (0, 1))(x, y)
        assert (by_x, by_y) == (1, -np.floor(x / y))


def test_the_sign_of_a_negative_zero_is_zero():
    for dtype in ("float32", "float16"):
        zeros = jnp.array([0.0, -0.0], dtype)
        for sign in (jnp.sign, xpr.jit(jnp.sign)):
            assert not np.any(np.signbit(np.asarray(sign(zeros), "float32")))


def test_an_axis_that_is_not_there_is_an_index_error_too():
    for error in (IndexError, ValueError):
        with pytest.raises(error, match="axis 3 is out of bounds for an array of 3 axes"):
            jnp.expand_dims(jnp.zeros((2, 2)), 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [-0.5, 0.5, 1.5])
def test_powers_by_square_roots_are_powers(exponent, dtype):
    """Also of zeros, infinities and negative numbers; their derivatives are those by a traced exponent."""
    with xpr.enable_x64():
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -7.5]
        x = jnp.array([*special, *np.geomspace(1e-3, 1e3, 5000)], dtype)
        power, traced = xpr.jit(lambda x: x**exponent), xpr.jit(lambda x, y: x**y)
        with np.errstate(all="ignore"):
            expected = np.power(np.abs(np.asarray(x, np.float64)), exponent)
        expected[[i for i, n in enumerate(special) if -np.inf < n < 0]] = np.nan
        units = 1.5 * float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(np.asarray(power(x), np.float64), expected, units)
        assert not np.signbit(np.asarray(power(x))[:2]).any()
        positive = x[len(special) :]
        slope = xpr.grad(lambda x: power(x).sum())(positive)
        expected = xpr.grad(lambda x: traced(x, jnp.array(exponent, dtype)).sum())(positive)
        np.testing.assert_allclose(np.asarray(slope, np.float64), np.asarray(expected, np.float64), 4 * units)

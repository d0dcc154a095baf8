"""Arithmetic on booleans, rounding of integers, division by zero: values and types are jax's where it is installed."""

import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import check
from xpr import lax

ARRAYS = {
    "b": np.array([True, False, True]),
    "c": np.array([True, True, False]),
    "i": np.array([3, -7, 0], np.int8),
    "u": np.array([3, 7, 0], np.uint8),
    "x": np.array([1.5, -2.5, 0.0], np.float32),
    "z": np.array([1 + 2j, np.nan, 3], np.complex64),
}
CALLS = [
    *(f"jnp.{f}(b, c)" for f in ("remainder", "power", "left_shift", "right_shift", "mod")),
    *(f"jnp.{f}(b, True)" for f in ("remainder", "fmod", "power", "left_shift", "right_shift", "floor_divide")),
    "jnp.square(b)", "jnp.divmod(b, True)[0]", "b % True", "b // True", "b << c",
    *(f"jnp.{f}({x})" for f in ("floor", "ceil", "trunc") for x in ("b", "i", "u", "x", "3", "True", "2.5")),
    "jnp.floor_divide(x, b)", "jnp.floor_divide(x, 0)", "x // jnp.zeros(3)", "jnp.divmod(x, 0)[0]",
    "i % 0", "jnp.fmod(i, 0)", "jnp.remainder(u, b)", "i % i", "jnp.divmod(x, 2)[1]",
    *(f"jnp.{f}({x})" for f in ("imag", "isfinite", "signbit") for x in ("True", "3", "b", "i", "x")),
    "x ** jnp.int32(3)", "jnp.power(i, np.array(2))", "jnp.nanmean(z)", "jnp.nanvar(z)", "jnp.mean(z, where=b)",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_as_in_jax(call):
    if "isfinite(3)" in call:
        assert jnp.isfinite(3).dtype == bool  # jax says that it is weakly typed
        return
    check(call, ARRAYS, tolerance=1e-6)


@pytest.mark.parametrize("zero", [lambda p: p > p, lambda p: p & ~p], ids=["compared", "and not"])
def test_the_angle_of_zeros_that_the_compiler_knows_is_0(zero):
    p = np.ones(2, bool)
    assert not np.any(xpr.jit(lambda p: jnp.arctan2(zero(p).astype("float32"), zero(p).astype("float32")))(p))
    assert not np.any(xpr.jit(lambda p: jnp.angle(zero(p).astype("complex64")))(p))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_angle_of_subnormal_numbers_that_the_compiler_knows(dtype):
    """They are zeros to the compiled code, as arguments and not as constants, but for those of float16."""
    tiny = jnp.finfo(dtype).smallest_subnormal
    angles = xpr.jit(
        lambda: [lax.atan2(jnp.full((), y), jnp.full((), x)) for y in (tiny, -tiny) for x in (tiny, -tiny)]
    )
    expected = [0.25, 0.75, -0.25, -0.75] if dtype == "float16" else [0, 1, 0, -1]
    np.testing.assert_allclose(np.asarray(angles(), "float32") / np.pi, expected, atol=1e-4, rtol=1e-2)


def test_arctan2_at_zeros_and_infinities():
    corners = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)
    y, x = (each.reshape(-1) for each in np.meshgrid(corners, corners))
    got, expected = np.asarray(xpr.jit(jnp.arctan2)(y, x)), np.arctan2(y, x)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    seen = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[seen], np.signbit(expected)[seen])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_logarithm_of_a_power_of_a_negative_number(dtype):
    """XLA takes it for y log |x|."""
    with xpr.enable_x64():
        x, y = np.array([-2, -2, -1.5, 2, -2], dtype), np.array([3, 2, 0.5, 3, -2], dtype)
        log_of_power = xpr.jit(lambda x, y: jnp.log(x**y))(x, y)
    np.testing.assert_allclose(log_of_power, np.log([np.nan, 4, np.nan, 8, 0.25]), rtol=1e-6)


@pytest.mark.optimized
@pytest.mark.parametrize(
    "code",
    [
        lambda x, y: jnp.log(xpr.jit(jnp.power)(x, y)),
        lambda x, y: xpr.jit(jnp.log)(jnp.power(x, y)),
        lambda x, y: jnp.log(xpr.jit(jnp.power)(x, 2.5)),
        lambda x, y: jnp.log(jnp.power(x, 0.5)),
        lambda x, y: jnp.log(jnp.power(x, y).reshape(2, 1)).ravel(),
        lambda x, y: lax.cond(True, jnp.log, jnp.sin, jnp.power(x, y)),
    ],
)
def test_the_logarithm_of_a_power_that_another_function_computes(code):
    x = np.float32([-2, -1.5])
    np.testing.assert_array_equal(xpr.jit(code)(x, np.float32([3, 0.5])), [np.nan, np.nan])


@pytest.mark.parametrize("x", ["b", "u", "2.5"])
@pytest.mark.parametrize("exponent", ["jnp.int32(3)", "jnp.uint8(1)"])
def test_powers_with_integers_that_are_no_constants_while_tracing(x, exponent):
    """Where a function is traced, so are the arrays that it makes, and their dtypes count."""
    check(f"{x} ** {exponent}", ARRAYS, staged=False)


def test_an_integer_exponent_that_is_known_is_expanded():
    for exponent in (2, np.int8(2), np.array(2), jnp.int32(2)):
        [eqn] = xpr.make_jaxpr(lambda x, y=exponent: jnp.power(x, y))(1.0).eqns
        assert eqn.primitive is lax.integer_pow_p


def test_a_power_with_a_strong_exponent_is_strong():
    for exponent in (np.ones((), np.uint8), np.ones(2, np.int32), np.float32(1)):
        assert not xpr.eval_shape(lambda n: 0.5**n, exponent).weak_type
    assert xpr.eval_shape(lambda n: 0.5**n, 2).weak_type


@pytest.mark.parametrize("dtype", ["int4", "int8", "int32", "uint4", "uint32"])
def test_integers_that_the_compiler_knows_are_divided_as_arguments_are(dtype):
    """XLA ends the process where it divides such integers by zero, and the smallest one by -1."""
    low = int(jnp.iinfo(dtype).min)
    pairs = [(0, 0), (5, 0), (low, 0), (low, -1 if low else 1), (7, 2)]
    arguments = [jnp.array(each, dtype) for each in zip(*pairs)]
    for divide in (lax.div, lax.rem, jnp.floor_divide, jnp.remainder):
        known = xpr.jit(lambda: [divide(jnp.full(3, x, dtype), jnp.full(3, y, dtype)) for x, y in pairs])()  # noqa: B023
        assert [int(each[0]) for each in known] == [int(each) for each in xpr.jit(divide)(*arguments)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_many_integers_are_divided_as_few_are(dtype):
    """Many of up to 32 bits are divided as floats, several at a time."""
    with xpr.enable_x64(True):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        edges = [0, 1, 2, 3, 7, high, high - 1, low, low + 1, high // 2, high // 3]
        edges += [-1, -2, -7, low // 3] if low else []
        x, y = (each.ravel() for each in np.meshgrid(np.array(edges, dtype), np.array(edges, dtype)))
        rng = np.random.default_rng(0)
        x, y = (np.concatenate([z, rng.integers(low, high, 2000, dtype)]) for z in (x, y))
        y[-1000:] %= 100
        for divide in (lax.div, lax.rem):
            few = [xpr.jit(divide)(x[i : i + 500], y[i : i + 500]) for i in range(0, x.size, 500)]
            np.testing.assert_array_equal(xpr.jit(divide)(x, y), np.concatenate(few))
            text = xpr.jit(divide).lower(x, y).as_text()
            assert ("xf64>" in text) is (x.itemsize <= 4)
            assert "xf64>" not in xpr.jit(lambda x: divide(x, x.dtype.type(3))).lower(x).as_text()  # noqa: B023


@pytest.mark.parametrize(
    "by_49",
    [
        lambda divide, x: divide(x, jnp.full_like(x, 40) + jnp.full_like(x, 9)),
        lambda divide, x: divide(x, jnp.maximum(x * 0, 49)),
        lambda divide, x: xpr.jit(divide)(x, jnp.full_like(x, 49)),
        lambda divide, x: lax.cond(x[0] > x[1], divide, lambda x, y: x, x, jnp.full_like(x, 49)),
        lambda divide, x: lax.while_loop(
            lambda state: state[2] < 1, lambda state: (divide(*state[:2]), state[1], 1), (x, jnp.full_like(x, 49), 0)
        )[0],
    ],
    ids=["sum", "maximum", "jit", "cond", "while"],
)
@pytest.mark.parametrize("dtype", ["uint16", "int32", "uint32"])
def test_many_integers_are_divided_exactly_by_what_the_compiler_knows(dtype, by_49):
    """XLA multiplies floats by the reciprocal of a constant, and 49 * (1 / 49) is less than 1."""
    x = (np.arange(1300) * 49).astype(dtype)
    x[:4] = 49, 48, np.iinfo(dtype).max, np.iinfo(dtype).min
    np.testing.assert_array_equal(xpr.jit(lambda x: by_49(lax.rem, x))(x), np.fmod(x, x.dtype.type(49)))
    np.testing.assert_array_equal(xpr.jit(lambda x: by_49(lax.div, x))(x), np.trunc(x / 49).astype(dtype))


@pytest.mark.optimized
@pytest.mark.parametrize("shape", [(), (16,), (32, 1), (4, 1, 16)])
def test_divisors_that_are_broadcast_are_inverted_once(shape):
    """The compiler multiplies by the inverses of the few numbers, also where several operations share them."""

    def quotients(x, few):
        divisors = jnp.broadcast_to(few, x.shape)
        return x / divisors, 2 * x / divisors, divisors + 1

    x, few = np.ones((4, 32, 16), np.float32), np.full(shape, 3, np.float32)
    program = xpr.jit(quotients).lower(x, few).compile()
    assert not re.search(r"= f32\[4,32,16\]\S* divide", program.as_text())
    for result, value in zip(program(x, few), (1 / 3, 2 / 3, 4)):
        np.testing.assert_allclose(result, np.full_like(x, value), 1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8])
def test_bits_of_constants_are_counted_as_those_of_arguments(dtype):
    """XLA counts -32 leading zeros in a negative constant of int32."""
    x = np.array([-2, 5]).astype(dtype)
    counted = xpr.jit(lambda: (lax.clz(jnp.full(2, x[0])), lax.population_count(jnp.full(2, x[0]))))()
    for count, function in zip(counted, (lax.clz, lax.population_count)):
        np.testing.assert_array_equal(count, np.repeat(function(x)[:1], 2))


def test_a_product_with_a_bool_keeps_nan():
    """XLA would take it for a choice between the number and 0."""
    x = np.array([np.nan, 1, np.inf, -np.inf], np.float32)
    for product in (lambda x: x * (x > 0), lambda x: (x > 0).astype("float32") * x):
        np.testing.assert_array_equal(xpr.jit(product)(x), [np.nan, 1, np.inf, np.nan])


def test_logarithms_of_sums_of_complex_exponentials_are_principal():
    rng = np.random.default_rng(0)
    x, y = (3 * (rng.normal(size=50) + 1j * rng.normal(size=50)).astype(np.complex64) for _ in range(2))
    np.testing.assert_allclose(jnp.logaddexp(x, y), np.log(np.exp(x) + np.exp(y)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jnp.logaddexp2(x, y), np.log2(np.exp2(x) + np.exp2(y)), rtol=1e-5, atol=1e-5)
    tangent = xpr.jvp(jnp.logaddexp, (x, y), (np.ones_like(x), np.zeros_like(y)))[1]
    np.testing.assert_allclose(tangent, np.exp(x) / (np.exp(x) + np.exp(y)), rtol=1e-4, atol=1e-5)


def test_hypot_refuses_complex_numbers():
    with pytest.raises(ValueError, match="jnp.hypot is not well defined for complex-valued inputs"):
        jnp.hypot(1j, 2.0)


def test_complex_numbers_have_an_order_in_numpy_alone():
    """By their real, then by their imaginary parts, also beside real numbers; the operations compare real numbers."""
    x, y = np.complex64([1 + 2j, 3, 1, 1j]), np.complex64([1 + 1j, 3 + 1j, 1, 2])
    for name in ("less", "less_equal", "greater", "greater_equal"):
        by_parts, function = getattr(np, name), getattr(jnp, name)
        for fun in (function, xpr.jit(function), xpr.vmap(function)):
            np.testing.assert_array_equal(fun(x, y), by_parts(x, y))
        np.testing.assert_array_equal(function(x, 1.0), by_parts(x, 1.0))
        np.testing.assert_array_equal(function(2, jnp.asarray(x)), by_parts(2, x))
    np.testing.assert_array_equal(jnp.asarray(x) < y, x < y)
    for compare in (lax.lt, lax.le, lax.gt, lax.ge):
        with pytest.raises(TypeError, match="does not accept dtype complex64. It takes real numbers and booleans"):
            compare(2 + 3j, 4 + 5j)
    (_, by_max), (_, by_min) = (xpr.jvp(fun, (x[:3], y[:3]), (x[:3], 2 * y[:3])) for fun in (jnp.maximum, jnp.minimum))
    np.testing.assert_array_equal(by_max, [1 + 2j, 6 + 2j, 1.5])
    np.testing.assert_array_equal(by_min, [2 + 2j, 3, 1.5])


@pytest.mark.parametrize("function", [jnp.hypot, jnp.logaddexp, jnp.nextafter, jnp.arctan2])
def test_a_number_and_an_array_of_float32_where_float64_is_on(function):
    """The number has the array's dtype in the rules that write the program."""
    x = np.array([1, 2], np.float32)
    with xpr.enable_x64():
        for got, expected in ((function(0, x), function(0 * x, x)), (function(x, 2.5), function(x, 0 * x + 2.5))):
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("function", ["log2", "log10"])
def test_logarithms_of_the_complex_zero_have_no_nan(function):
    z = np.array([0, -1, 8j, 3 + 4j, np.inf], np.complex64)
    with np.errstate(divide="ignore"):
        expected = getattr(np, function)(z)
    for f in (getattr(jnp, function), xpr.jit(getattr(jnp, function))):
        np.testing.assert_allclose(f(z), expected, rtol=1e-6)


def test_a_boolean_exponent_keeps_a_weak_type():
    for power in (jnp.power(1, False), jnp.power(jnp.asarray(3), True), jnp.asarray(3) ** True):
        assert power.dtype == np.int32 and power.weak_type


def test_powers_of_numbers_to_arrays_of_integers():
    power = lax.pow(3.5, np.array([1, 2], np.int16))
    assert power.dtype == np.float32 and power.tolist() == [3.5, 12.25]
    assert lax.pow(2.0, 3).weak_type and lax.pow(2.0, 3) == 8
    np.testing.assert_allclose(lax.pow(1j, 2), -1, atol=1e-6)


def test_the_exponent_of_integer_pow_is_a_python_integer_in_jaxprs():
    (eqn,) = xpr.make_jaxpr(lambda x: lax.integer_pow(x, np.int64(3)))(2.0).eqns
    assert type(eqn.params["y"]) is int
    assert xpr.jaxpr.cost(lambda x: lax.integer_pow(x, np.int64(3)))(2.0).flops == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jnp.gcd(1.5, 2), "gcd: takes integers, and got f32"),
        (lambda: jnp.trunc(1j), "jnp.trunc: takes real numbers, and got c64"),
        (lambda: jnp.fabs(1j), r"jnp.fabs: takes real numbers, and got c64\[\]. jnp.abs takes complex ones"),
        (lambda: jnp.signbit(1j), "jnp.signbit: complex numbers have no sign, and complex64 was given"),
        (lambda: jnp.copysign(1.0, 1j), "jnp.copysign: complex numbers have no sign, and complex64 was given"),
        (lambda: jnp.i0(1j), "i0: takes real numbers, and got c64"),
        (lambda: jnp.choose(jnp.ones(2), [1]), "the numbers of the choices are integers, and are f32"),
    ],
)
def test_wrong_dtypes_are_errors_of_both_types(call, message):
    for error in (TypeError, ValueError):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("decimals", [1.5, None])
def test_decimals_are_integers(decimals):
    for x in (jnp.ones(2), jnp.ones(2, int)):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            jnp.round(x, decimals)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_divisors_of_numbers_that_take_most_steps(dtype: str) -> None:
    fibonacci = [1, 2]
    while fibonacci[-1] + fibonacci[-2] <= np.iinfo(dtype).max:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    x, y = np.array(fibonacci[1:], dtype), np.array(fibonacci[:-1], dtype)
    np.testing.assert_array_equal(jnp.gcd(x, y), np.gcd(x, y))
    np.testing.assert_array_equal(xpr.vmap(lambda x: jnp.gcd(x, y))(x), np.gcd(x[:, None], y))
    numbers = np.random.default_rng(0).integers(np.iinfo(dtype).min + 1, np.iinfo(dtype).max, (2, 500)).astype(dtype)
    np.testing.assert_array_equal(jnp.gcd(*numbers), np.gcd(*numbers))
    np.testing.assert_array_equal(jnp.gcd(numbers[0], np.zeros_like(x[0])), np.abs(numbers[0]))

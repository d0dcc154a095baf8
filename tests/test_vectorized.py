"""Elementwise functions that are arithmetic on CPU: their accuracy, special values, and where they are used."""

import ast
import ctypes
import platform
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xpr
from tests import accuracy, formulas_in_c
from tests.accuracy import ROWS, worst_error
from tests.helpers import run_python
from xpr import lax
from xpr import numpy as jnp
from xpr.backend import native
from xpr.compile.lower import lower_jaxpr
from xpr.compile.platforms import lower_for_platforms
from xpr.config_contexts import enable_x64

SOME, MANY = 512, 4096  # elements, from which on C computes them, and XLA by a formula
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -3.0, 0.5, -0.5, 1e30, -1e30, 88.0, -88.0]
NAMES = [row.name for row in ROWS]
NAMES_IN_FLOAT32 = [row.name for row in ROWS if row.in_float32]
ROW = {row.name: row for row in ROWS}
# Computed in float32, where JAX's errors are above one, too; those of quotients are only corrected where XLA contracts.
OVER_ONE = {"asin": 1.2, "acos": 1.2, "sinh": 1.7, "cosh": 1.5, "asinh": 1.5, "atanh": 1.5}
OVER_ONE_IN_FLOAT64 = "asin acos sinh cosh asinh acosh atanh expm1 lgamma digamma erf_inv".split()  # as JAX's errors
OVER_ONE_IF_NOT_CONTRACTED = {**OVER_ONE, "atan": 1.4, "atan2": 1.5}


needs_c = pytest.mark.skipif(not native.available(), reason="the functions in C are not built (hatch_build.py)")


def function(name):
    return xpr.jit(lambda *xs: getattr(lax, name)(*xs))


@pytest.fixture
def without_c(monkeypatch):
    """Has XLA compute what C would."""
    monkeypatch.setattr(native, "available", lambda: False)


def text(fun, *args, platform="cpu"):
    return lower_jaxpr(xpr.make_jaxpr(fun)(*args).jaxpr, platform).text()


@pytest.mark.parametrize("contracted", [pytest.param(True, marks=pytest.mark.optimized), False])
@pytest.mark.parametrize("name", NAMES_IN_FLOAT32)
def test_errors_in_float32(name, contracted, monkeypatch, without_c):
    """At every 32768th of all numbers, whether or not XLA contracts a product and a sum; and at the hard points."""
    monkeypatch.setattr(accuracy, "POINTS", 1 << 16)
    monkeypatch.setattr(accuracy, "HARD_STEP", 15)
    worst = worst_error(ROW[name], function(name), np.float32, 32768)
    limit = (OVER_ONE if contracted else OVER_ONE_IF_NOT_CONTRACTED).get(name, 1)
    assert worst.error < limit, worst
    if len(ROW[name].domain) == 1:
        hard = accuracy.hard_points(np.float32)
        exact = ROW[name].exact(hard.astype(np.float64))
        assert accuracy.errors(np.asarray(function(name)(hard)), exact).max() < limit


WITHOUT_FUSED_OPERATIONS = """
import numpy as np
from tests import accuracy
from tests.test_vectorized import NAMES_IN_FLOAT32, OVER_ONE_IF_NOT_CONTRACTED, ROW, function
accuracy.POINTS, accuracy.HARD_STEP = 1 << 16, 15
for name in NAMES_IN_FLOAT32:
    worst = accuracy.worst_error(ROW[name], function(name), np.float32, 32768)
    if not worst.error < OVER_ONE_IF_NOT_CONTRACTED.get(name, 1):
        print(name, worst)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other machines multiply and add at once")
def test_errors_in_float32_on_machines_without_fused_operations():
    assert run_python(WITHOUT_FUSED_OPERATIONS, XLA_FLAGS="--xla_cpu_max_isa=AVX", XPR_NATIVE="0") == ""


@pytest.mark.optimized
@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_fewer_elements_than_xla_has_formulas_for(name, dtype, in_c, request):
    """In C or by XLA's functions, as users compile: its arc tangents of 640 elements and more were memory as it was."""
    if not in_c:
        request.getfixturevalue("without_c")
    rng = np.random.default_rng(0)
    with enable_x64(True):
        for n in 700, 1000, MANY - 1:
            operands = [draw(rng, n).clip(-60, 60).astype(dtype) for draw in ROW[name].domain]
            exact = ROW[name].exact(*(x.astype(np.float64) for x in operands))
            tolerance = {"float16": 4e-3, "float32": 1e-4, "float64": 1e-8}[dtype]
            fun = xpr.jit(lambda *xs: (2 * getattr(lax, name)(*xs), getattr(lax, name)(*xs)))
            for factor, result in zip((2, 1), fun(*operands)):
                fits = np.abs(factor * exact) < np.finfo(dtype).max
                np.testing.assert_allclose(result[fits], factor * exact[fits], tolerance, tolerance)


@pytest.mark.parametrize("contracted", [pytest.param(True, marks=pytest.mark.optimized), False])
@pytest.mark.parametrize("name", NAMES)
def test_errors_in_float64(name, contracted, monkeypatch, without_c):
    monkeypatch.setattr(accuracy, "POINTS", 1 << 14)
    monkeypatch.setattr(accuracy, "HARD_STEP", 15)
    with enable_x64(True):
        worst = worst_error(ROW[name], function(name), np.float64)
    assert worst.error < (2 if name in OVER_ONE_IN_FLOAT64 else 1.3 if name == "tan" and not contracted else 1), worst


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_relative_errors_near_zeros_of_gamma_functions(name, in_c, request):
    """In float64; of negative numbers, whose errors are as those of the largest summand, the test above is.

    C has other formulas for positive numbers.
    """
    if not in_c:
        request.getfixturevalue("without_c")
    x, high, low, _ = np.load(accuracy.EXACT_VALUES)[name]
    is_positive = x > 0
    x, exact = x[is_positive], (high.astype(np.longdouble) + low)[is_positive]
    with enable_x64(True):
        found = np.asarray(function(name)(np.resize(x, MANY)))[: x.size]
    assert accuracy.errors(found, exact).max() < 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions_of_numbers_that_are_mostly_positive(name, dtype):
    """C computes blocks of positive numbers by a formula for these."""
    x = np.linspace(0.01, 20, 1000).astype(dtype)
    x[[0, 130, 400, 900, 999]] = [np.inf, -0.5, 0, np.nan, -1]
    with enable_x64():
        found = np.asarray(function(name)(x))
    exact = ROW[name].exact(x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-14)


def test_gamma_functions_of_small_numbers():
    """C has a formula for blocks of numbers below 8 in size, but for those with a result near zero."""
    x = np.random.default_rng(0).uniform(-8, 8, 10**6).astype(np.float32)
    edges = np.float32(
        [0, -0.0, 1e-40, -1e-40, 1e-38, -1e-38, 1, 2, -1, -7, 3, 7, np.nextafter(8, 0, dtype=np.float32)]
    )
    zeros = np.float32([-2.457024738, -2.747682647, -3.143580888, -3.955294285, -7.999876])
    near_zeros = [zeros, np.nextafter(zeros, np.float32(0)), np.nextafter(zeros, np.float32(-9))]
    for points in (x, np.resize(edges, 1024), np.resize(near_zeros, 1024), np.repeat(edges, 128)):
        exact = ROW["lgamma"].exact(points.astype(np.float64))
        assert accuracy.errors(np.asarray(function("lgamma")(points)), exact).max() < 0.6


def test_remainders_of_small_and_of_large_quotients():
    """C takes one step where all quotients of a block have few bits."""
    rng = np.random.default_rng(0)
    for power in (1, 27, 28, 29, 60, 250):
        x, y = (np.exp2(rng.uniform(-power / 2, power / 2, 100_000)).astype(np.float32) for _ in "xy")
        x[::7] *= -1
        x[1::64], y[2::640] = rng.integers(1, 1 << 20, x[1::64].size, np.int32).view(np.float32), np.inf
        np.testing.assert_array_equal(function("rem")(x, y), np.fmod(x, y))


@pytest.mark.parametrize("size", [SOME - 1, SOME, 1000, MANY, 100_000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
def test_powers_of_halves(exponent, dtype, size):
    reach = {"float16": 8, "float32": 100, "float64": 1022}[dtype]
    x = np.exp2(np.random.default_rng(0).uniform(-reach, reach, size)).astype(dtype)
    with enable_x64(), np.errstate(all="ignore"):
        x[: len(SPECIAL) + 2] = [*SPECIAL, np.finfo(dtype).tiny, np.finfo(dtype).max]
        found = np.asarray(xpr.jit(lambda x: lax.pow(abs(x) if size % 2 else x, exponent))(x))
        exact = np.power(x.astype(np.longdouble), exponent)
        exact[x == -np.inf] = np.inf if exponent > 0 else 0  # of halves NumPy has roots, which have no value there
        exact = np.power(abs(x).astype(np.longdouble), exponent) if size % 2 else exact
    fits = np.isnan(exact) | ~((0 < abs(exact)) & (abs(exact) < np.finfo(dtype).tiny))
    assert accuracy.errors(found[fits], exact[fits]).max() < (2 if size < SOME else 0.8)


@pytest.mark.optimized
@pytest.mark.parametrize("size", [SOME, MANY])
@pytest.mark.parametrize("exponent", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
def test_powers_of_halves_of_subnormal_numbers(exponent, size):
    """They count as 0, or as what they are."""
    for dtype in ("float32", "float64"):
        x = np.full(size, np.finfo(dtype).tiny, dtype) / np.geomspace(1.5, 1e6, size).astype(dtype)
        with enable_x64(), np.errstate(all="ignore"):
            found, exact = np.asarray(xpr.jit(lambda x: lax.pow(x, exponent))(x)), np.power(x, exponent)
            gradient = np.asarray(xpr.jit(xpr.grad(lambda x: jnp.sum(lax.pow(x, exponent))))(x))
        at_zero = 0 if exponent > 0 else np.inf
        assert (np.isclose(found, exact, rtol=1e-5, atol=np.finfo(dtype).tiny) | (found == at_zero)).all()
        assert not np.isnan(gradient).any()


@pytest.mark.parametrize("ratio", [1 / 16, 1 / 8, 1 / 4])
def test_angles_of_points_next_to_where_they_are_scaled(ratio):
    """C brings both coordinates nearer where both are small."""
    rng = np.random.default_rng(0)
    for power in range(-1022, -760, 4):
        x = np.exp2(rng.uniform(power, power + 4, MANY))
        y = x * ratio * rng.uniform(0.9, 1.1, MANY)
        y = np.where(y < np.finfo("d").tiny, 0, y)
        with enable_x64():
            found = np.asarray(function("atan2")(y, x))
        assert accuracy.errors(found, np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))).max() < 1


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [10, SOME, 1000, 100_003])
def test_sines_and_cosines_of_complex_numbers_are_one_call(size, dtype, in_c, request):
    if not in_c:
        request.getfixturevalue("without_c")
    rng = np.random.default_rng(0)
    with enable_x64():
        real = np.zeros((), dtype).real.dtype
        z = (rng.normal(size=size) + 1j * rng.uniform(-100, 100, size)).astype(dtype)
        z[-3:] = 1e30j, -2e6j, complex(0.5, np.inf)
        for fun, exact in ((jnp.exp, np.exp), (jnp.sinh, np.sinh)):
            with np.errstate(all="ignore"):
                expected = exact(z.astype(np.complex128))
            np.testing.assert_allclose(xpr.jit(fun)(z), expected, 50 * np.finfo(real).eps, 50 * np.finfo(real).eps)
        calls = in_c and native.available() and SOME <= size and (size < MANY or real == np.float64)
        assert text(jnp.exp, z).count("xpr_elementwise") == calls


SHAPES = [((1000,), ()), ((), (1000,)), ((1000,), (1,)), ((30, 40), (30, 1)), ((30, 1), (1, 40)), ((30, 40), (1, 1))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["pow", "rem", "atan2"])
def test_one_of_two_operands_is_repeated(name, dtype, shapes):
    rng = np.random.default_rng(0)
    operands = [rng.uniform(0.5, 3, shape).astype(dtype) for shape in shapes]
    exact = {"pow": np.power, "rem": np.fmod, "atan2": np.arctan2}[name](*operands)
    tolerance = 4 * np.finfo(dtype).eps
    with enable_x64():
        for fun in (function(name), getattr(lax, name)):
            np.testing.assert_allclose(fun(*operands), exact, tolerance, np.finfo(dtype).tiny)
        expanded = xpr.jit(lambda x, y: getattr(lax, name)(*jnp.broadcast_arrays(x, y)))
        np.testing.assert_allclose(expanded(*operands), exact, tolerance, np.finfo(dtype).tiny)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_equal_elements_have_equal_results(name, dtype):
    """Wherever they are in an array, and whichever thread computes them."""
    with enable_x64():
        for n in 575, 700, 100_003:
            operands = [np.full(n, number, dtype) for number in ([1.3, 0.7] if len(ROW[name].domain) == 2 else [0.93])]
            if name == "acosh":
                operands = [operands[0] + 1]
            assert np.unique(function(name)(*operands)).size == 1, n


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erf_inv"])
def test_results_do_not_depend_on_threads(name):
    """Of two threads that call at once one has no workers."""
    x = np.random.default_rng(0).uniform(-0.9, 0.9, 100_003).astype(np.float32)
    fun = function(name)
    expected = np.asarray(fun(x))
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(lambda _: np.asarray(fun(x)), range(20)):
            np.testing.assert_array_equal(found, expected)


def test_one_number_that_is_repeated_is_computed_once():
    for fun in (lambda x: lax.lgamma(jnp.full(1000, x)), lambda x: lax.pow(jnp.full((30, 40), x), jnp.ones((30, 40)))):
        assert "xpr_" not in text(fun, np.float32(3))


@needs_c
def test_calls_that_take_long_run_in_the_background():
    """XLA has the thread of Python run programs of fewer than 1,000 operations, and counts none in calls."""
    for n, in_background in ((MANY, False), (1 << 16, True)):
        x = np.ones(n, np.float32)
        assert ("tensor<1024xf32>" in text(lax.lgamma, x)) is in_background
        assert (xpr.jit(lax.lgamma).lower(x).compile().cost_analysis()["flops"] >= 20 * n + 1000) is in_background


@needs_c
def test_flops_of_functions_in_c_are_counted():
    x = np.ones(1000, np.float32)
    assert xpr.jit(lax.lgamma).lower(x).compile().cost_analysis()["flops"] == 20_000
    assert xpr.jit(lax.lgamma).lower(x).cost_analysis()["flops"] == 20_000
    assert xpr.jit(lambda x: lax.pow(x, 2.7) + 1).lower(x).compile().cost_analysis()["flops"] > 20_000


def test_remainders_of_16_bits_have_no_fusion_barrier():
    x = np.ones(1000, np.float16)
    assert "fusion_barrier" not in text(lax.rem, x, x)


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, "float64") for name in NAMES] + [(name, "float32") for name in NAMES_IN_FLOAT32]
)
def test_special_values_are_numpys(name, dtype, in_c, request):
    if not in_c:
        request.getfixturevalue("without_c")
    points = np.array(SPECIAL, dtype)
    if len(ROW[name].domain) == 2:
        operands = [x.ravel() for x in np.meshgrid(points, points)]
    else:
        operands = [np.concatenate([points, *np.array([[1e-40, -1e-40, 1e-38]], dtype)])]
    exact = ROW[name].exact(*operands)
    many = [np.tile(x, (SOME if in_c else MANY) // x.size + 1) for x in operands]
    with enable_x64(True):
        found = np.asarray(function(name)(*many))[: exact.size]
    with np.errstate(all="ignore"):
        exact = np.where(np.abs(exact) < np.finfo(dtype).tiny, np.where(found == 0, 0 * exact, exact), exact)
    np.testing.assert_allclose(found, exact, rtol=4 * np.finfo(dtype).eps, atol=0)
    numbers = ~np.isnan(exact)
    assert (np.signbit(found) == np.signbit(exact))[numbers].all()


def sizes(low, high):
    """Numbers of either sign, their logarithms uniform, that may be subnormal."""
    return lambda rng, x: (np.exp2(rng.uniform(low, high, x.size)) * rng.choice([-1, 1], x.size)).astype(x.dtype)


TINY, LARGEST = np.finfo(np.float32).tiny, np.finfo(np.float32).max
EDGES = np.float32([0, 2.0**-149, 2.0**-148, TINY - 2.0**-149, TINY, 2 * TINY, 1e-30, 1, 7, 1e30, LARGEST / 2, LARGEST])
INFINITIES = np.float32([np.inf, -np.inf])
EDGES = np.concatenate([EDGES, -EDGES, INFINITIES, np.float32([np.nan])])
ANGLES = {
    "subnormal": (sizes(-149, -126), sizes(-149, -126)),
    "subnormal abscissas": (sizes(-149, -126), sizes(-130, -110)),
    "subnormal ordinates": (sizes(-130, -110), sizes(-149, -126)),
    "large": (sizes(120, 127.99), sizes(120, 127.99)),
    "far apart": (sizes(0, 127.99), sizes(-126, 0)),
    "near the diagonal": (sizes(-126, 127), lambda rng, x: x * rng.uniform(0.97, 1.03, x.size).astype(x.dtype)),
    "next to the diagonal": (sizes(-126, 127), lambda rng, x: np.nextafter(x, rng.choice(INFINITIES, x.size))),
    "edges": (lambda rng, x: np.repeat(EDGES, EDGES.size), lambda rng, x: np.tile(EDGES, EDGES.size)),
}


@pytest.mark.optimized
@pytest.mark.parametrize("kind", ANGLES)
def test_angles_of_points_of_all_sizes(kind):
    draw_x, draw_y = ANGLES[kind]
    rng = np.random.default_rng(0)
    x = draw_x(rng, np.zeros(1 << 16, np.float32))
    y = draw_y(rng, x)
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    found = np.asarray(function("atan2")(np.resize(y, 1 << 16), np.resize(x, 1 << 16)))[: x.size]
    assert accuracy.errors(found, exact).max() < 0.9
    seen = ~np.isnan(exact)
    assert (np.signbit(found) == np.signbit(exact))[seen].all()


def test_angles_of_subnormal_float16():
    """XLA takes subnormal float32 numbers for zeros, among which there are none of float16."""
    y, x = np.float16([6e-8, -3e-6, -1.2e-5, 4e-5]), np.float16([0, 2e-6, -0.0, -6e-8])
    np.testing.assert_allclose(function("atan2")(y, x), np.arctan2(y, x), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_computed_in_float32(dtype):
    x = lax.convert_element_type(np.linspace(-3, 3, MANY, dtype=np.float32), dtype)
    assert lax.sin(x).dtype == x.dtype
    wanted = np.sin(np.asarray(x, np.float32)).astype(x.dtype)
    assert (np.asarray(lax.sin(x)) == wanted).all()


def test_far_numbers_in_float64():
    """Kahan's number, the nearest to a multiple of pi / 2 of all, makes a program compute all by XLA's functions."""
    far = 6381956970095103.0 * 2.0**797
    x = np.where(np.arange(MANY) == 7, far, np.linspace(-50, 50, MANY))
    with enable_x64(True):
        for name in ("sin", "cos", "tan"):
            np.testing.assert_allclose(function(name)(x), getattr(np, name)(x), rtol=1e-14, atol=1e-15)
        assert abs(float(function("cos")(x)[7]) / -4.687165924254624e-19 - 1) < 1e-15


@needs_c
def test_where_formulas_are_used(request):
    few, some, many = (np.ones(n, np.float32) for n in (SOME - 1, MANY - 1, MANY))
    assert "@sin" in text(lax.sin, many) and "stablehlo.sine" not in text(lax.sin, many)
    assert "xpr_elementwise_sin_float32" in text(lax.sin, some) and "stablehlo.sine" not in text(lax.sin, some)
    assert "stablehlo.sine" in text(lax.sin, few)
    assert "stablehlo.sine" in text(lax.sin, some, platform="cuda")
    assert "stablehlo.sine" in text(lax.sin, many, platform="cuda")
    assert "@sin" in text(lax.sin, many.astype(np.complex64))
    assert text(lambda x: lax.sin(lax.sin(x)), many).count("func.func private @sin") == 1
    assert text(lambda x: (lax.sin(x), x - lax.sin(x)), some).count("xpr_elementwise_sin_float32") == 1
    assert "xpr_elementwise_log1p_float32" in text(lax.log1p, some)
    assert "stablehlo.log_plus_one" in text(lambda x: lax.log1p(x * x), some)  # XLA computes both in one loop
    assert "xpr_elementwise_asin_float32" in text(lambda x: lax.asin(x * x), some)
    assert "xpr_elementwise_rem_float32" in text(lax.rem, many, many) and "stablehlo.remainder" in text(
        lax.rem, few, few
    )
    request.getfixturevalue("without_c")
    assert "stablehlo.sine" in text(lax.sin, some) and "stablehlo.remainder" in text(lax.rem, some, some)
    assert "@rem" in text(lax.rem, many, many) and "@lgamma" in text(lax.lgamma, many)
    with enable_x64():
        assert "@rem" not in text(lax.rem, *np.ones((2, 16_383))) and "@rem" in text(lax.rem, *np.ones((2, 16_384)))


@needs_c
def test_where_c_computes_many():
    """Functions whose formulas XLA takes longest to compile."""
    for name, dtype in [("lgamma", "float32"), ("digamma", "float64"), ("erf_inv", "float32"), ("sin", "float64")]:
        with enable_x64():
            assert f"xpr_elementwise_{name}_{dtype}" in text(getattr(lax, name), np.ones(1 << 20, dtype))
    assert "xpr_" not in text(lax.sin, np.ones(1 << 20, np.float32))


@needs_c
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, "float64") for name in NAMES] + [(name, "float32") for name in NAMES_IN_FLOAT32]
)
def test_errors_in_c(name, dtype, monkeypatch):
    monkeypatch.setattr(accuracy, "POINTS", 1 << 14)
    monkeypatch.setattr(accuracy, "HARD_STEP", 15)
    worst = worst_error(ROW[name], accuracy.function_in_c(native.load(), name), np.dtype(dtype).type, 32768)
    assert worst.error < (2 if dtype == "float64" else OVER_ONE.get(name, 1)), worst


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the options are for x86")
@needs_c
@pytest.mark.parametrize("processor", ["x86-64", "haswell"])
def test_errors_in_c_on_other_processors(processor, tmp_path, monkeypatch):
    """Without fused operations, and with vectors of 256 bits. GCC takes the macro for it not to be GCC, which would
    compile for each processor."""
    compiler, folder = shutil.which("cc"), Path(native.LIBRARY).parent
    if compiler is None:
        pytest.skip("there is no compiler")
    sources = [folder / "elementwise.c", folder / "threads.c"]
    build = (
        Path(__file__).parent.parent.joinpath("hatch_build.py").read_text()
    )  # what it imports is only there in builds
    options = ast.literal_eval(re.search(r"^OPTIONS = (.*)$", build, re.MULTILINE)[1])
    command = [compiler, *options, "-shared", "-D__clang__", f"-march={processor}", *sources, "-lm"]
    subprocess.run([*command, "-o", tmp_path / "library.so"], check=True, capture_output=True)
    library = ctypes.CDLL(tmp_path / "library.so")
    monkeypatch.setattr(accuracy, "POINTS", 1 << 14)
    monkeypatch.setattr(accuracy, "HARD_STEP", 15)
    for name in NAMES:
        worst = worst_error(ROW[name], accuracy.function_in_c(library, name), np.float64)
        assert worst.error < 2, (name, worst)
    for name in NAMES_IN_FLOAT32:
        worst = worst_error(ROW[name], accuracy.function_in_c(library, name), np.float32, 1 << 20)
        assert worst.error < OVER_ONE_IF_NOT_CONTRACTED.get(name, 1), (name, worst)


def test_formulas_in_c_are_those_of_programs():
    assert formulas_in_c.FILE.read_text() == formulas_in_c.text(), "it is out of date: python -m tests.formulas_in_c"


def test_functions_that_draw_have_none():
    key = xpr.random.key(0)
    assert "stablehlo.tan" in text(lambda key: xpr.random.cauchy(key, (MANY,)), key)
    both = text(lambda key, x: xpr.random.cauchy(key, (MANY,)) + lax.tan(x), key, np.ones(MANY, np.float32))
    assert "stablehlo.tan" in both and ("xpr_elementwise_tan_float32" in both or "@tan" in both)


def test_derivatives_and_rows():
    x = np.linspace(-2, 2, MANY, dtype=np.float32)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(lax.sin))(x), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(xpr.vmap(lax.sin)(x.reshape(64, 64)), np.sin(x).reshape(64, 64), rtol=1e-6)
    assert lower_for_platforms(xpr.make_jaxpr(lax.sin)(x).jaxpr, ["cpu", "cuda"]).text().count("stablehlo.sine") == 1


@pytest.mark.parametrize("native_code", ["0", "1"])
def test_one_large_number_among_nans_is_seen(native_code):
    """Formulas for float64 hold below 2^20; a program looks for larger numbers, in C or in XLA."""
    source = """
        import numpy as np, xpr
        from xpr import lax
        xpr.config.update("enable_x64", True)
        for place in (0, 1, 3000, 4095):
            x = np.linspace(-2, 2, 4096)
            x[::7], x[-3:], x[place] = np.nan, np.nan, -1e15
            for name in ("sin", "cos", "tan"):
                np.testing.assert_allclose(xpr.jit(getattr(lax, name))(x), getattr(np, name)(x), rtol=4e-16)
            np.testing.assert_array_equal(lax.sin(np.full(4096, np.nan)), np.nan)
    """
    run_python(source, XPR_NATIVE=native_code)


# -- Remainders


def random_bits(dtype, count):
    unsigned = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    return np.random.default_rng(0).integers(0, np.iinfo(unsigned).max, (2, count), unsigned, endpoint=True).view(dtype)


def multiples(dtype, count):
    """And the numbers next to them, whose quotient may be rounded to a whole number."""
    rng = np.random.default_rng(1)
    y = rng.uniform(0.01, 3, count).astype(dtype)
    x = (rng.integers(0, 1 << 24, count) * y).astype(dtype)
    return np.nextafter(x, rng.choice([x * 0, x, x * 2])), y


def corners(dtype, count):
    info = np.finfo(dtype)
    numbers = [0, -0.0, 1, -2, np.inf, -np.inf, np.nan, info.tiny, info.max, 7, -7, 0.1]
    x, y = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    return np.resize(x, count), np.resize(y, count)


def few_beyond(dtype, count):
    """One whose quotient has more bits than a step of the formula takes."""
    x, y = np.linspace(-9, 9, count).astype(dtype), np.full(count, 0.7, dtype)
    x[17] = 1e30
    return x, y


def far_quotients(dtype, count):
    """Of finite numbers, larger than the largest float."""
    return np.full(count, np.finfo(dtype).max), np.full(count, 0.3, dtype)


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("operands", [random_bits, multiples, corners, few_beyond, far_quotients])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_remainders_are_exact(operands, dtype, in_c, request):
    """From 4,096 float32 and 16,384 float64 numbers on they are arithmetic of our own, in C or in XLA."""
    if not in_c:
        request.getfixturevalue("without_c")
    x, y = operands(dtype, 70_000)
    if dtype == "float64":  # subnormal divisors are zeros to XLA
        x, y = x[(y == 0) | ~(abs(y) < np.finfo(y.dtype).tiny)], y[(y == 0) | ~(abs(y) < np.finfo(y.dtype).tiny)]
    assert y.size > 16_384
    with enable_x64(), np.errstate(all="ignore"):
        got, expected = np.asarray(function("rem")(x, y)), np.fmod(x, y)
    np.testing.assert_array_equal(got, expected)
    seen = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[seen], np.signbit(expected)[seen])

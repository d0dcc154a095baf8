"""Code in C: with and without it results are the same, and programs that leave this installation call none of it."""

import functools
import gc
import itertools
import re
import weakref

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import run_python
from xpr import dtypes, lax, tree, tree_util
from xpr.backend import native
from xpr.backend.processor import CORES
from xpr.compile import evaluate, known_calls
from xpr.config_contexts import enable_x64
from xpr.primitives.random_bits import scrambled, threefry2x32
from xpr.primitives.recurrences import linear_recurrence_p

BUILT = pytest.mark.skipif(not native.available(), reason="the functions in C are not built (hatch_build.py)")
DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool", "complex64"]


def numbers(shape, dtype):
    drawn = np.random.default_rng(0).normal(size=shape) * 2.0**20
    drawn.flat[::7] = drawn.flat[0]
    drawn = drawn if np.dtype(dtype).kind in "fc" else np.abs(drawn) if np.dtype(dtype).kind == "u" else np.rint(drawn)
    return np.float32(drawn).astype(dtype) if dtype != "float16" else (drawn / 2.0**10).astype(dtype)


@BUILT
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, axis", [((3, 5), 1), ((5, 3), 0), ((2, 5000), 1), ((5000, 2), 0), ((1,), 0)])
def test_sorts_are_numpys(dtype, shape, axis):
    """Rows of few numbers and of many are sorted differently."""
    with enable_x64():
        x = numbers(shape, dtype)
        ordered, order = xpr.jit(lambda x: (jnp.sort(x, axis), jnp.argsort(x, axis)))(x)
        np.testing.assert_array_equal(ordered, np.sort(x, axis))
        np.testing.assert_array_equal(order, np.argsort(x, axis, kind="stable"))


@BUILT
def test_sorts_in_place_leave_what_is_read_later():
    x = np.random.default_rng(0).integers(0, 999, 5000).astype(np.int32)
    for ordered, kept in (xpr.jit(lambda x: (jnp.sort(x), x + 1))(x), xpr.jit(lambda x: (jnp.sort(x + 1), x))(x)):
        shift = int(kept[0] == x[0])
        np.testing.assert_array_equal(ordered, np.sort(x) + shift)
        np.testing.assert_array_equal(kept, x + 1 - shift)


WITHOUT_AVX2 = """
import numpy as np, xpr.numpy as jnp, xpr
for dtype in ("int32", "int64"):
    for shape in (2, 5000), (400_001,):
        x = np.random.default_rng(0).integers(-(2**30), 2**30, shape).astype(dtype)
        with xpr.enable_x64():
            np.testing.assert_array_equal(xpr.jit(jnp.sort)(x), np.sort(x))
"""


@BUILT
@pytest.mark.parametrize("without", ["AVX2", "X86_V3", "AVX512_ICL X86_V4"])
def test_sorts_where_those_of_numpy_are_slow_or_fast(without):
    """NumPy warns where it has no such features to disable."""
    run_python("import warnings; warnings.simplefilter('ignore')" + WITHOUT_AVX2, NPY_DISABLE_CPU_FEATURES=without)


@BUILT
def test_equal_keys_stay_in_order_by_several_keys():
    keys = [np.random.default_rng(i).integers(0, 9, 10_000) for i in range(3)]
    with enable_x64():
        np.testing.assert_array_equal(xpr.jit(jnp.lexsort)(keys), np.lexsort(keys))


@BUILT
def test_empty_rows_and_nan():
    assert xpr.jit(jnp.sort)(jnp.zeros((0, 3))).shape == (0, 3)
    x = np.float32([np.nan, 1, -np.inf, -np.nan, np.inf, -0.0] * 1000)
    np.testing.assert_array_equal(xpr.jit(jnp.sort)(x), np.sort(x))
    np.testing.assert_array_equal(xpr.jit(jnp.argsort)(x), np.argsort(x, kind="stable"))


INDEXED = [*DTYPES[:-1], "int16", "uint16", "bfloat16", "int4", "uint4"]


@BUILT
@pytest.mark.parametrize("dtype", INDEXED)
@pytest.mark.parametrize("shape", [(3, 300), (5000,), (2, 1, 300)])
def test_argmax_and_argmin_are_numpys(dtype, shape):
    """The first of equal elements, and the first nan before all."""
    kind, lowest = np.dtype(getattr(ml_dtypes, dtype, dtype)), 0 if dtype.startswith("u") else -7
    x = np.random.default_rng(0).integers(lowest, 8, shape)
    samples = [x.astype(kind), np.zeros(shape, kind)]
    if dtypes.issubdtype(kind, np.floating):
        with_nan = samples[0].copy()
        with_nan[..., [40, 41, 250]] = np.nan
        samples.append(np.where(x > 5, np.inf, with_nan).astype(kind))
    with enable_x64():
        for each in samples:
            for index in (np.int32, np.int64, np.uint8):
                find = xpr.jit(lambda x, index=index: [f(x, x.ndim - 1, index) for f in (lax.argmax, lax.argmin)])
                assert "xpr_index" in find.lower(each).as_text()
                wide = each.astype(np.float64)
                for found, f in zip(find(each), (np.argmax, np.argmin)):
                    np.testing.assert_array_equal(found, f(wide, -1).astype(index), strict=True)


@BUILT
def test_short_rows_and_other_axes_are_left_to_xla():
    for shape, axis in [((100, 10), 1), ((5000, 2), 0), ((0, 300), 1)]:
        find = xpr.jit(lambda x, axis=axis: jnp.argmax(x, axis))
        assert "xpr_index" not in find.lower(np.zeros(shape, np.float32)).as_text()
        assert not np.any(find(np.zeros(shape, np.float32)))


@BUILT
@pytest.mark.parametrize("size", [1, 63, 64, 200])
def test_words_of_threefry(size):
    """The words of keys and counters are arrays, or one for all elements."""
    several = np.random.default_rng(0).integers(0, 2**32, (4, size), np.uint32)
    scramble = xpr.jit(threefry2x32)
    for which in itertools.product((True, False), repeat=4):
        words = [x if is_array else x[0] for x, is_array in zip(several, which)]
        assert "xpr_threefry" in scramble.lower(*words).as_text()
        for found, expected in zip(scramble(*words), scrambled(*map(np.atleast_1d, words))):
            np.testing.assert_array_equal(np.atleast_1d(found), np.broadcast_to(expected, np.atleast_1d(found).shape))


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, columns", [(8, 8), (9, 8), (1, 100), (100, 9), (67, 45), (301, 203)])
def test_products_of_matrices_and_vectors(dtype, rows, columns):
    rng = np.random.default_rng(0)
    with enable_x64():
        a, x, y = (rng.normal(size=shape).astype(dtype) for shape in ((rows, columns), (columns,), (rows,)))
        for product, operands, factors in (
            (lambda a, x: a @ x, (a, x), (a, x)),
            (lambda a, x: a @ x[:, None], (a, x), (a, x[:, None])),
            (lambda a, x: x @ a.T, (a, x), (x, a.T)),
            (lambda a, y: y @ a, (a, y), (y, a)),
            (lambda a, y: jnp.einsum("ij,i->j", a.reshape(rows, -1), y), (a, y), (y, a)),
        ):
            program = xpr.jit(product).lower(*operands)
            assert ("xpr_matvec" in program.as_text()) == (len(operands[1]) >= 2)
            found = program.compile()(*operands)
            np.testing.assert_allclose(found, np.matmul(*factors), 1e-4 if dtype == "float32" else 1e-12, 1e-5)


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 7, 65, 1000, (1 << 15) + 1, 100_001])
def test_products_of_vectors(dtype, n):
    """Long vectors are added in blocks, and those that the program computes are left to XLA, which adds as it does."""
    rng = np.random.default_rng(0)
    with enable_x64():
        x, y = (rng.random(n).astype(dtype) for _ in range(2))
        program = xpr.jit(jnp.dot).lower(x, y)
        assert "xpr_matvec" in program.as_text()
        exact = np.dot(x.astype("longdouble"), y.astype("longdouble"))
        np.testing.assert_allclose(program.compile()(x, y), exact.astype(dtype), 1e-6 if dtype == "float32" else 1e-15)
        computed = xpr.jit(lambda x, y: jnp.dot(x + 1, y)).lower(x, y)
        assert ("xpr_matvec" in computed.as_text()) == (n <= 1 << 14)
        np.testing.assert_allclose(computed.compile()(x, y), np.dot(x + 1, y), 1e-5 if dtype == "float32" else 1e-13)


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms, m, n", [(1, 2, 3), (16, 64, 64), (64, 5, 33), (65, 4, 32), (130, 31, 70), (7, 3, 300)])
def test_products_along_rows(terms, m, n, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(terms, m)).astype(dtype), rng.normal(size=(terms, n)).astype(dtype)
    y[0, -1] = np.nan
    with enable_x64():
        for product in (
            lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))),
            lambda x, y: x.T @ y,
            lambda x, y: jnp.einsum("abi,abj->ij", x[None], y[None]),
            lambda x, y: xpr.vjp(lambda w: x @ w, jnp.zeros((m, n), dtype))[1](y)[0],
        ):
            program = xpr.jit(product).lower(x, y)
            assert ("xpr_matmul" in program.as_text()) is (x.nbytes * n <= (3 << 24 if m >= 96 else (1 << 24) // CORES))
            np.testing.assert_allclose(program.compile()(x, y), x.T @ y, 1e-4 if dtype == "float32" else 1e-11, 1e-5)


@BUILT
def test_large_products_of_computed_matrices_are_xlas():
    x, w = np.ones((128, 256), np.float32), np.ones((256, 256), np.float32)
    for product, count in (
        (lambda x, w: x @ w.T, 1), (lambda x, w: (x + 1) @ w, 0),
        (lambda x, w: x @ jnp.sin(w), 0), (lambda x, w: (x @ w) @ w, 1),
    ):  # fmt: skip
        assert xpr.jit(product).lower(x, w).as_text().count("@xpr_matmul") == count


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms, m, n", [(2, 2, 2), (5, 7, 6), (3, 2, 40), (3, 40, 2), (100, 2, 2)])
def test_products_of_few_numbers(terms, m, n, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(m, terms)).astype(dtype), rng.normal(size=(terms, n)).astype(dtype)
    with enable_x64():
        for product, left, right in (
            (lambda x, y: x @ y, x, y),
            (lambda x, y: x @ y.T, x, y.T),
            (lambda x, y: x.T @ y, x.T, y),
            (lambda x, y: x.T @ y.T, x.T, y.T),
        ):
            program = xpr.jit(product).lower(left, right)
            assert ("xpr_matmul" in program.as_text()) is (x.nbytes * n <= (3 << 24 if m >= 96 else (1 << 24) // CORES))
            np.testing.assert_allclose(
                program.compile()(left, right), x @ y, 1e-4 if dtype == "float32" else 1e-11, 1e-6
            )


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    "shape, axes",
    [((32,), 0), ((4097,), 0), ((3, 77), 1), ((77, 3), 0), ((4, 50, 7), 1), ((2, 9, 7, 3), (1, 2)), ((40, 100), 0)],
)
def test_reductions_are_numpys(shape, axes, dtype):
    rng = np.random.default_rng(0)
    exact = {"float32": 1e-5, "float64": 1e-13, "int32": 0}[dtype]
    with enable_x64():
        for with_nan in (False, True):
            x = rng.integers(-(2**31), 2**31, shape).astype(dtype)
            if dtype != "int32":
                x = np.sign(x) * 2 ** (x * 2.0**-33)  # no product overflows
                x.flat[-1] = np.nan if with_nan else 1
            for name, options in (("sum", {"dtype": dtype}), ("prod", {"dtype": dtype}), ("max", {}), ("min", {})):
                reduced = functools.partial(getattr(jnp, name), axis=axes, **options)
                program = xpr.jit(reduced).lower(x)
                assert "xpr_reduce" in program.as_text()
                rounding = exact if options else 0
                expected = getattr(np, name)(x, axes, **options)
                np.testing.assert_allclose(program.compile()(x), expected, rounding, 10 * rounding)


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [9, 15, 16, 17, 32, 63, 64, 65, 257, 4099])
def test_sums_and_maxima_of_many_rows_are_numpys(n, dtype):
    with enable_x64():
        x = np.random.default_rng(0).integers(-1000, 1000, (20_000 // n + 2, n)).astype(dtype)
        sums, maxima = xpr.jit(lambda x: (jnp.sum(x, 1), jnp.max(x, 1)))(x)
        np.testing.assert_array_equal(sums, x.sum(1))
        np.testing.assert_array_equal(maxima, x.max(1))


@BUILT
def test_long_sums_are_as_accurate_as_numpys():
    x = np.random.default_rng(0).uniform(size=100_000).astype(np.float32)
    exact = x.astype(np.float64).sum()
    assert abs(xpr.jit(jnp.sum)(x) - exact) <= 2 * np.spacing(np.float32(exact))


@BUILT
@pytest.mark.parametrize(
    "shape, axes",
    [((2, 100_000, 80), 1), ((400_000, 80), 0), ((400_000, 5), 0), ((2, 30_000, 500), 1), ((8, 256, 256, 9), (1, 2))],
)
def test_sums_of_many_rows_are_exact(shape, axes):
    x = np.full(shape, 0.1, np.float32)
    np.testing.assert_allclose(xpr.jit(lambda x: x.sum(axes))(x), x.astype("f8").sum(axes), 5e-7)


@BUILT
@pytest.mark.parametrize("shape", [(2, 2_000_000), (5, 300_000), (400_000, 3), (20_000, 200), (20_000, 700)])
def test_long_products_are_exact(shape):
    x, ones = np.full(shape, 0.1, np.float32), [np.ones(n, np.float32) for n in shape]
    along_rows, along_columns = xpr.jit(lambda x, v, w: (x @ w, v @ x))(x, *ones)
    np.testing.assert_allclose(along_rows, x.astype("f8").sum(1), 5e-6)
    np.testing.assert_allclose(along_columns, x.astype("f8").sum(0), 5e-6)


@BUILT
def test_long_programs_before_a_sum():
    """What is summed is not looked through to its beginning."""

    def doubled(x):
        for _ in range(60):
            x = x + x
        return jnp.sum(x)

    def added(x):
        total = x
        for i in range(1200):
            total = total + x * float(i)
        return jnp.sum(total)

    for f in doubled, added:
        assert "xpr_reduce" in xpr.jit(f).lower(np.ones(40, np.float32)).as_text()


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(32,), (50, 101), (3, 4, 5)])
def test_sums_of_products_do_not_write_the_products(shape, dtype):
    with enable_x64():
        x, y = np.random.default_rng(0).normal(size=(2, *shape)).astype(dtype)
        for f, expected in (
            (lambda x, y: jnp.sum(x * y), np.sum(x * y)),
            (lambda x, y: jnp.linalg.norm(x.ravel()), np.linalg.norm(x)),
            (lambda x, y: jnp.mean((x - y) ** 2), np.mean((x - y) ** 2)),
            (lambda x, y: jnp.square(x).sum(), np.sum(x * x)),
            (lambda x, y: jnp.sum(x.real**2 + x.imag**2), np.sum(x * x)),
        ):
            program = xpr.jit(f).lower(x, y)
            assert "xpr_matvec" in program.as_text()
            np.testing.assert_allclose(program.compile()(x, y), expected, 1e-5 if dtype == "float32" else 1e-12)
    most = (1 << 18) // CORES
    unbounded = xpr.jit(lambda x, y: jnp.sum(x * x + 0 * y))
    assert np.isnan(unbounded(np.ones(40, np.float32), np.full(40, np.inf, np.float32)))
    squares, of_computed = (lambda x: jnp.sum(x * x)), (lambda x: jnp.sum((x + 1) ** 2))
    for f, size, dtype, is_called in (
        (squares, 10 * most, "float32", True),
        (squares, 40, "int32", False),
        (of_computed, most, "float32", True),
        (of_computed, most + 1, "float32", False),
    ):
        program = xpr.jit(f).lower(xpr.ShapeDtypeStruct((size,), dtype))
        assert ("xpr_matvec" in program.as_text()) is is_called


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [9, 12, 16, 31])
def test_maxima_along_many_columns_of_few_rows_are_numpys(n, dtype):
    x = np.random.default_rng(0).integers(-1000, 1000, (n, 20_000 // n)).astype(dtype)
    if dtype != "int32":
        x[3, ::7], x[:, 5], x[2, ::11] = np.nan, -np.inf, np.inf
    for name in ("max", "min"):
        with enable_x64():
            program = xpr.jit(lambda x, name=name: getattr(jnp, name)(x, 0)).lower(x)
            assert "xpr_reduce" in program.as_text()
            np.testing.assert_array_equal(program.compile()(x), getattr(x, name)(0))


@BUILT
def test_maxima_along_columns_are_the_first_of_equal_numbers():
    x = np.full((64, 1024), -1, np.float32)
    x[1], x[2], x[9:13] = -0.0, 0.0, 0.0
    assert np.signbit(xpr.jit(lambda x: x.max(0))(x)).all() and not np.signbit(xpr.jit(lambda x: x.min(0))(-x)).any()


@pytest.mark.parametrize("n", [33, 64, 1000])
def test_maxima_of_rows_with_both_infinities_and_nan(n):
    x = np.random.default_rng(0).normal(size=(4, n)).astype(np.float32)
    x[1, 3], x[1, n - 1], x[2, 5], x[3] = np.inf, -np.inf, np.nan, -np.inf
    for name in ("max", "min"):
        np.testing.assert_array_equal(xpr.jit(lambda x, name=name: getattr(jnp, name)(x, 1))(x), getattr(x, name)(1))


@BUILT
def test_reductions_that_xla_computes():
    """Of few numbers to one, of other types, of large arrays that are computed, over axes that are apart, in loops."""
    for shape, axes, dtype in (((8,), 0, "f"), ((99,), 0, "u4"), ((1000, 8), 1, "f"), ((6, 2, 7), (0, 2), "f")):
        total = xpr.jit(lambda x, axes=axes: jnp.sum(x, axes))
        assert "xpr_" not in total.lower(np.ones(shape, dtype)).as_text()
    for f, n in (lambda x: jnp.sum(x + 1, 1), 9), (lambda x: jnp.max(x, 1), 32), (lambda x: jnp.prod(x, 1), 32):
        assert "xpr_" not in xpr.jit(f).lower(np.ones((9, 31), np.float32)).as_text()
        for size, is_called in ((n - 1, False), (n, True)):
            text = xpr.jit(f).lower(np.ones((9, size, 2), np.float32)).as_text()
            assert ("xpr_reduce" in text) is is_called
    for reduction, most in (jnp.sum, 1 << 26), (jnp.max, 1 << 26), (lambda x: jnp.sum(x + 1), (1 << 18) // CORES):
        for size, is_called in ((most, True), (most + 1, False)):
            x = xpr.ShapeDtypeStruct((size,), np.float32)
            assert ("xpr_reduce" in xpr.jit(reduction).lower(x).as_text()) is is_called
    assert "xpr_" not in xpr.jit(lambda x: lax.map(jnp.sum, x)).lower(np.ones((5, 40), np.float32)).as_text()


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape, axis", [((1,), 0), ((1001,), 0), ((7, 33), 1), ((33, 7), 0), ((3, 9, 600), 1)])
def test_cumulative_functions_are_numpys(shape, axis, dtype):
    rng = np.random.default_rng(0)
    with enable_x64():
        x = rng.integers(-(2**31), 2**31, shape).astype(dtype)
        if dtype.startswith("float"):
            x = np.sign(x) * 2 ** (x * 2.0**-36)  # no product overflows
            x.flat[x.size * 2 // 3] = np.nan
            x = x.astype(dtype)
        for name, ufunc in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)):
            for reverse in (False, True):
                program = xpr.jit(functools.partial(getattr(lax, f"cum{name}"), axis=axis, reverse=reverse)).lower(x)
                assert "xpr_cumulative" in program.as_text()
                ordered = np.flip(x, axis) if reverse else x
                wide = np.float64 if (name, dtype) == ("sum", "float32") else dtype
                expected = ufunc.accumulate(ordered.astype(wide), axis).astype(dtype)
                np.testing.assert_array_equal(program.compile()(x), np.flip(expected, axis) if reverse else expected)


@BUILT
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape, axis", [((1,), 0), ((1001,), 0), ((7, 33), 1), ((33, 7), 0), ((3, 9, 600), 1)])
def test_linear_recurrences(shape, axis, dtype):
    a, b = np.random.default_rng(0).normal(0, 0.5, (2, *shape)).astype(dtype)
    with enable_x64():
        for reverse in (False, True):
            params = {"axis": axis, "reverse": reverse}
            program = xpr.jit(functools.partial(linear_recurrence_p.bind, **params)).lower(a, b)
            assert "xpr_cumulative" in program.as_text()
            (expected,) = linear_recurrence_p.reference([a, b], **params)
            np.testing.assert_allclose(program.compile()(a, b), expected, 1e-5, 1e-6)


@BUILT
def test_cumulative_functions_that_xla_computes():
    """Of other types, of no elements, of few elements in loops."""
    for shape, dtype in (((9,), np.float16), ((9,), np.uint32), ((0, 9), np.float32)):
        assert "xpr_" not in xpr.jit(lax.cumsum).lower(np.ones(shape, dtype)).as_text()
    for n, is_called in ((31, False), (32, True)):
        loop = xpr.jit(lambda x: lax.map(lax.cumsum, x)).lower(np.ones((5, n), np.float32))
        assert ("xpr_cumulative" in loop.as_text()) is is_called


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "m, terms, n",
    [(33, 65, 34), (100, 100, 100), (7, 300, 16), (64, 64, 200), (1000, 9, 8), (1000, 9, 4), (50, 70, 31)],
)
def test_products_of_matrices_of_any_layout(m, terms, n, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(m, terms)).astype(dtype), rng.normal(size=(terms, n)).astype(dtype)
    x[0, 0] = x[-1, 0] = np.nan  # they are not to reach other rows
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-11}
    with enable_x64():
        for product, left, right in (
            (lambda x, y: x @ y, x, y),
            (lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), x, y.T.copy()),
            (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), x.T.copy(), y),
            (lambda x, y: lax.dot_general(x, y, (((0,), (1,)), ((), ()))), x.T.copy(), y.T.copy()),
            (lambda x, y: (x[None] @ y)[0], x, y),
            (lambda x, y: jnp.einsum("ab,bcd->acd", x, y.reshape(terms, n, 1))[..., 0], x, y),
        ):
            program = xpr.jit(product).lower(left, right)
            assert ("xpr_matmul" in program.as_text()) is (x.nbytes * n <= (3 << 24 if m >= 96 else (1 << 24) // CORES))
            np.testing.assert_allclose(program.compile()(left, right), x @ y, **close)


@BUILT
def test_products_that_xla_computes():
    """Of other types, of large matrices that the program computes, of several matrices, in loops."""
    f32, f16, i32 = (lambda *shape, dtype=dtype: np.ones(shape, dtype) for dtype in (np.float32, np.float16, np.int32))
    matmul = lambda a, x: a @ x
    for product, a, x in (
        (matmul, f16(9, 9), f16(9)),
        (matmul, i32(9, 9), i32(9)),
        (lambda a, x: (a + 1) @ x, f32(200, 200), f32(200)),
        (matmul, f32(9, 9), f32(9, 2)),
        (matmul, f32(5, 9, 9), f32(9)[:, None].repeat(2, 1)),
        (lambda a, x: jnp.einsum("ijk,jl->ikl", a, x), f32(3, 9, 3), f32(9, 1)),
        (lambda a, x: lax.scan(lambda x, _: (a @ x, None), x, None, 5)[0], f32(9, 9), f32(9)),
    ):
        assert "xpr_matvec" not in xpr.jit(product).lower(a, x).as_text()
        assert np.all(np.asarray(xpr.jit(product)(a, x)) >= 3)
    along_rows = lambda x, y: x.T @ y
    for product, x, y in (
        (along_rows, f16(9, 9), f16(9, 9)),
        (along_rows, f32(300, 300), f32(300, 300)),
        (lambda x, y: x @ y.T, f32(31, 100), f32(200, 100)),
        (lambda x, y: jnp.einsum("bij,bik->bjk", x, y), f32(3, 9, 9), f32(3, 9, 9)),
        (lambda x, y: jnp.einsum("i,ijk->jk", x, y), f32(3), f32(3, 4, 5)),
        (lambda x, y: lax.scan(lambda y, _: (x.T @ y, None), y, None, 5)[0], f32(9, 9), f32(9, 9)),
    ):
        assert "xpr_matmul" not in xpr.jit(product).lower(x, y).as_text()


def test_small_loops_and_large_arrays_draw_without_calls():
    """A loop with a call is not one kernel; large arrays are drawn by several threads, with their readers."""
    draw = lambda n: lambda key: xpr.random.bits(key, (n,))
    assert "xpr_" not in xpr.jit(draw(20_000)).lower(xpr.random.key(0)).as_text()
    steps = xpr.jit(lambda keys: lax.map(draw(3), keys)).lower(xpr.random.split(xpr.random.key(0), 5))
    assert "xpr_" not in steps.as_text()
    assert "xpr_threefry" not in xpr.export.export(xpr.jit(draw(3)))(xpr.random.key(0)).mlir_module()


SORTED = """
import numpy as np, xpr, xpr.numpy as jnp
x = np.random.default_rng(0).normal(size=(3, 5000)).astype("f")
draw = lambda key: (*map(xpr.random.normal, xpr.random.split(key)), xpr.random.bits(key, (500,)))
program = xpr.jit(lambda x: (jnp.sort(x), jnp.argsort(x, 0), jnp.lexsort((x[0], jnp.rint(x[1]))), jnp.argmax(x, 1),
                             *draw(xpr.random.key(7))))
print("xpr_sort" in program.lower(x).as_text(), *[hash(np.asarray(y).tobytes()) for y in program(x)])
"""


@BUILT
def test_without_the_functions_results_are_the_same():
    with_them, without = (run_python(SORTED, PYTHONHASHSEED="0", XPR_NATIVE=on).split() for on in ("1", "0"))
    assert with_them[0] == "True" and without[0] == "False"
    assert with_them[1:] == without[1:]


def test_exported_programs_do_not_call_them():
    exported = xpr.export.export(xpr.jit(lambda x: (jnp.sort(x), jnp.argmax(x))))(np.arange(300.0))
    assert "xpr_" not in exported.mlir_module()


@BUILT
def test_saved_programs_call_them(tmp_path):
    x = jnp.arange(5.0)[::-1]
    xpr.jit(jnp.sort).lower(x).compile().save(tmp_path / "sort")
    load = f"""
    import sys, xpr
    print(xpr.load_compiled({str(tmp_path / "sort")!r})(xpr.numpy.ones(5) * 3))
    """
    assert run_python(load) == "[3. 3. 3. 3. 3.]\n"


def test_what_an_installation_without_them_says(monkeypatch, tmp_path):
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "native.so")
    with pytest.raises(ValueError, match="calls functions in C, such as xpr_sort, which this installation of xpr"):
        native.register()


THREADS = """
import ctypes, re, numpy as np, xpr, xpr.numpy as jnp
from pathlib import Path
a = np.random.default_rng(0).normal(size=(600, 600))
x = jnp.asarray((a @ a.T).astype(np.float32))
for part in (x[:50, :50], x):
    factor = xpr.jit(jnp.linalg.cholesky)(part)
    np.testing.assert_allclose(factor @ factor.T, part, atol=0.1)
path = next(p for p in re.findall(r"/\\S*openblas\\S*", Path("/proc/self/maps").read_text()) if "numpy" not in p)
library = ctypes.CDLL(path)
print(library.scipy_openblas_get_num_threads())
"""


@BUILT
def test_lapack_leaves_the_number_of_threads_as_it_is():
    assert run_python(THREADS, OPENBLAS_NUM_THREADS="2") == "2\n"


CALLS = """
import collections, dataclasses, gc, sys
import numpy as np, xpr, xpr.numpy as jnp
from xpr.compile import evaluate, known_calls
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
print(known_calls.call_known.__module__)
x, n, c = jnp.arange(4.0), np.arange(4, dtype=np.float32), jnp.ones(4)
double = xpr.jit(lambda x: x + x)
tree = xpr.jit(lambda d, y=0.0, *, k=None: {"a": d["a"] * 2 + y, "b": (d["b"] + c, [d["a"]], k)})
large = xpr.jit(lambda x: (x @ x, x.sum()))
put = xpr.device_put(x, xpr.devices()[0])
State = collections.namedtuple("State", "count moments")
step = xpr.jit(lambda state, g: State(state.count + 1, {k: v + g for k, v in state.moments.items()}))
@xpr.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = dataclasses.field(default="a", metadata={"static": True})
class Box:
    def __init__(self, *content):
        self.content = content
xpr.tree_util.register_pytree_node(Box, lambda box: (iter(box.content), [len(box.content)]), lambda _, xs: Box(*xs))
layer = xpr.jit(lambda layer, g: Layer(layer.w * 2 + g, {"b": layer.b}, layer.name + "!"))
boxed = xpr.jit(lambda box: [x + 1 for x in box.content])
ordered = xpr.jit(lambda tree: tree)
power = xpr.jit(lambda x, n, *, shift=0: x**n + shift, static_argnums=(1,), static_argnames=("n", "shift"))
donating = xpr.jit(lambda x, y: (x + y["a"], y["a"] * 2), donate_argnums=0)
@compiled_eagerly("n")
def eager(x, y=1.0, n=0, scale=2, mode="a", dtype=None):
    return {"y": (jnp.sin(x) * y + jnp.sin(scale) * n).astype(dtype or jnp.sin(x).dtype), "ones": jnp.ones(len(mode))}
@compiled
def drawn(x, y, *, shape, dtype, mode):
    return jnp.broadcast_to(jnp.sin(x) + y, shape).astype(dtype) + len(mode)
made = xpr.jit(lambda x: {
    "z": x, "a": [x + 1, (x, None)], "s": State(x, {"q": x * 3, "b": x * 4}), "l": Layer(x * 5, {"x": x}, "n"), "t": (),
    "b": Box(x + 7, [x])})
halves, whole = jnp.asarray([0.5, 1.5]), jnp.arange(2)
calls = [
    lambda i: double(x), lambda i: double(n + i), lambda i: double(3.0 + i), lambda i: double(i), lambda i: double(put),
    lambda i: double(True), lambda i: xpr.jit(lambda: 1.0)(), lambda i: large(jnp.ones((100, 100))),
    lambda i: tree({"b": x, "a": n + i}, 2.0), lambda i: tree({"a": x, "b": x}, k=None), lambda i: double(n[::2] + i),
    lambda i: tree({"a": i, "b": n}, y=x, k=[None, {}, (x,)]), lambda i: tree({"a": put, "b": 1}),
    lambda i: tree({"b": x, "a": i}), lambda i: step(State(i, {"v": x, "m": n}), x), lambda i: double(np.float32(i)),
    lambda i: tree({"a": np.int8(i), "b": np.bool_(i)}), lambda i: double(np.float64(i)),
    lambda i: double(np.complex64(complex(1, -0.0 if i % 2 else 0.0))),
    lambda i: double(np.arange(3) * 2**31 + i), lambda i: double(np.linspace(0, i, 2000)),
    lambda i: double(np.full(2, 1j * i)), lambda i: layer(Layer(x, [n + i, None]), 1.0), lambda i: boxed(Box(x, i, c)),
    lambda i: layer(Layer(x, Layer(n, put, "b"), "c"), i), lambda i: ordered(collections.OrderedDict(b=x, a=n + i)),
    lambda i: power(x, i % 2), lambda i: power(n + i, n=2.0, shift=1), lambda i: power(x, -1, shift=0.5),
    lambda i: made(x * i)["z"], lambda i: list(made(whole)), lambda i: xpr.tree.leaves_with_path(made(halves + i)),
    lambda i: xpr.tree.structure(made(whole)),
    lambda i: eager(halves), lambda i: eager(halves, 1.5 * i), lambda i: eager(halves, i), lambda i: eager(whole, i),
    lambda i: eager(halves, n=i % 2), lambda i: eager(halves, 1.0, i % 2), lambda i: eager(halves, scale=0.5 * i),
    lambda i: eager(halves, i % 2 == 0), lambda i: eager(whole, scale=i % 2 == 0), lambda i: eager(halves, mode="bb"),
    lambda i: eager(halves, y=whole, scale=i), lambda i: eager(halves, scale=i, y=whole), lambda i: eager(put[:2], i),
    lambda i: eager(halves, whole, 1, 2.0, "ab", jnp.float16), lambda i: eager(halves, np.float32(i)),
    lambda i: eager(halves, np.int32(i)), lambda i: eager(halves, n[:2] + i), lambda i: eager(halves, 1.0, whole),
    lambda i: eager(halves, 2.0**i, dtype=int), lambda i: eager(halves, mode=("a", 1, (None, 2.5))),
    lambda i: eager(i, halves),
    lambda i: drawn(halves, i, shape=(2, 2), dtype=np.dtype("float16"), mode="a"),
    lambda i: drawn(halves, 1.0 * i, shape=(i % 2 + 1, 2), dtype=np.dtype("float32"), mode="ab"),
    lambda i: donating(x + i, {"a": n}), lambda i: donating(n + i, {"a": x}), lambda i: donating(1.0 * i, {"a": 2.0}),
]
results = [[call(i) for i in range(4)] for call in calls]
print(results)
for call in calls:
    call(1)
gc.collect()
shared = x, n, x.aval, dict, tuple, ...
kept = []
for _ in range(3):  # where the machine is busy, a program is taken for a long one, and its call known later
    before = [*map(sys.getrefcount, shared), len(gc.get_objects())]
    for _ in range(100):
        for call in calls[:6] + calls[8:]:
            call(1)
    gc.collect()
    after = [*map(sys.getrefcount, shared), len(gc.get_objects())]
    kept.append(max(abs(n - m) for n, m in zip(after, before)))
print("nothing is kept", min(kept) < 50)
class NoOrder:
    def __lt__(self, other):
        raise ZeroDivisionError("no order")
class NoHash:
    def __hash__(self):
        raise ZeroDivisionError("no hash")
deep = {}
for _ in range(100_000):
    deep = {"x": deep}
donated = xpr.jit(lambda x: x * 2, donate_argnums=0)
gone = double(x)
donated(gone)
for bad in ({NoOrder(): x, NoOrder(): x}, {"a": x, 1: x}, deep, gone, [gone], "x", object()):
    try:
        double(bad)
    except Exception as error:
        print(type(error).__name__, str(error)[:40])
again = double(x)
for bad in (
    lambda: power(x, []), lambda: power(x), lambda: power(x, 1, 2), lambda: power(x, 1, n=2),
    lambda: power(x, NoHash()), lambda: donating(again, {"a": again}), lambda: donating(gone, {"a": x}),
    lambda: boxed(Box()), lambda: boxed(Box("x")), lambda: layer(Layer(x, [x], NoHash()), 1.0),
    lambda: layer(Layer(x, [x], []), 1.0), lambda: eager(halves, []), lambda: eager(halves, halves, z=1),
    lambda: eager(halves, 1, 2, 3, 4, 5, 6), lambda: eager(gone), lambda: eager(halves, mode=(halves, NoHash())),
    lambda: eager(halves, n=NoHash()), lambda: drawn(halves, 1, shape=[2], dtype=np.dtype("float16"), mode="a"),
    lambda: drawn("x", 1, shape=(2,), dtype=np.dtype("float16"), mode="a"), lambda: drawn(halves, 1, shape=(2,)),
):
    try:
        print(bad())
    except Exception as error:
        print(type(error).__name__, str(error)[:40])
print(again, gone.is_deleted())
"""


@pytest.mark.skipif(not known_calls.in_c, reason="the fast path in C is not built (hatch_build.py)")
def test_calls_are_the_same_without_c():
    in_c, in_python = (run_python(CALLS, XPR_NATIVE=on).split("\n", 1) for on in ("1", "0"))
    assert (in_c[0], in_python[0]) == ("xpr.compile._known_calls", "xpr.compile.known_calls")
    assert in_c[1] == in_python[1] and "nothing is kept True" in in_c[1]


OPERATIONS = """
import gc, sys
import numpy as np, xpr, xpr.numpy as jnp
from xpr import lax
from xpr.compile import evaluate
print(evaluate.run_known is not None)
x, y, i = jnp.asarray([[0.5, -1.5], [2.0, 0.0]]), jnp.ones((2, 2)), jnp.arange(2)
n, key, put = np.full((2, 2), 3.0, np.float32), xpr.random.key(1), xpr.device_put(jnp.ones(2), xpr.devices()[0])
sines = lax.sin(x)
class NoHash:
    __hash__ = None
class Odd:
    def __eq__(self, other):
        raise ZeroDivisionError("no equality")
    def __hash__(self):
        return 1
calls = [
    lambda: lax.add(x, y), lambda: lax.add_p.bind(x, n), lambda: lax.mul(x, np.float32(2)), lambda: x * 2.0,
    lambda: lax.sin(x), lambda: lax.sin(sines), lambda: lax.sin(n), lambda: lax.add(sines, n), lambda: 1 / x,
    lambda: lax.transpose(x, (1, 0)), lambda: lax.reduce_sum(x, (0,)), lambda: lax.sort(x, dimension=0), lambda: x @ x,
    lambda: lax.top_k(x, 1), lambda: jnp.linalg.qr(x)[1], lambda: lax.convert_element_type(x, np.int8), lambda: x[i, i],
    lambda: xpr.random.split(key), lambda: xpr.random.uniform(key, (2,)), lambda: key == key, lambda: lax.sin(put),
    lambda: lax.add(put, jnp.ones(2)), lambda: lax.sin_p.bind(x, accuracy=None), lambda: jnp.take(x, 5, fill_value=1),
    lambda: jnp.take(x, 5, fill_value=1.0), lambda: jnp.take(x, 5, mode="fill", fill_value=True), lambda: lax.neg(i),
    lambda: lax.div(1.0, jnp.zeros(2)), lambda: jnp.zeros((0, 2)) + 1, lambda: lax.sin(jnp.ones((200, 100))).sum() > 0,
    lambda: xpr.vmap(lax.sin)(x), lambda: xpr.grad(lambda z: lax.sin(z).sum())(x), lambda: xpr.jit(lax.cos)(x),
]
print([[call() for call in calls] for _ in range(3)])
shared = x, n, x.aval, dict, tuple
kept = []
for _ in range(3):
    before = [*map(sys.getrefcount, shared), len(gc.get_objects())]
    for _ in range(100):
        for call in calls[:18]:
            call()
    gc.collect()
    after = [*map(sys.getrefcount, shared), len(gc.get_objects())]
    kept.append(max(abs(n - m) for n, m in zip(after, before)))
print("nothing is kept", min(kept) < 50)
with xpr.default_device(xpr.devices()[0]):
    print(lax.sin(x).device, lax.add(x, y).committed)
impl = lax.cos_p.impl
lax.cos_p.def_impl(lambda x: x)
print(lax.cos(x), lax.cos_p.def_impl(impl), lax.cos(x))
with xpr.enable_x64(True):
    print(lax.sin(2.0).dtype, lax.add(x, y).dtype)
with xpr.debug_nans(True):
    try:
        lax.log(-x)
    except FloatingPointError as error:
        print(type(error).__name__)
leaked = []
xpr.jit(lambda x: leaked.append(x) or x)(x)
gone = lax.sin(x)
gone.delete()
half = lax.sin(x)
xpr.jit(lambda x: x * 2, donate_argnums=0)(half)
for bad in (
    lambda: lax.sin(leaked[0]), lambda: lax.sin(gone), lambda: lax.add(gone, x), lambda: lax.add(half, half),
    lambda: lax.sin("x"), lambda: lax.sin(object()), lambda: lax.sin(None), lambda: lax.add(x, jnp.ones(3)),
    lambda: lax.sin_p.bind(x, n=NoHash()), lambda: lax.sin_p.bind(x, accuracy=Odd()), lambda: lax.sin_p.bind(x, x),
    lambda: lax.sin(key), lambda: lax.add_p.bind(x), lambda: lax.sin(np.ma.ones(2)),
):
    for _ in range(2):
        try:
            print(bad())
        except Exception as error:
            print(type(error).__name__, str(error)[:60])
"""


@pytest.mark.skipif(evaluate.run_known is None, reason="the fast path in C is not built (hatch_build.py)")
def test_operations_are_the_same_without_c():
    in_c, in_python = (run_python(OPERATIONS, XPR_NATIVE=on).split("\n", 1) for on in ("1", "0"))
    assert (in_c[0], in_python[0]) == ("True", "False")
    assert in_c[1] == in_python[1] and "nothing is kept True" in in_c[1]


TREES = """
import collections, time
from typing import NamedTuple
from xpr import dtypes, lax, tree, tree_util

class Pair(NamedTuple):
    left: object
    right: object

class Node:  # of two children, and static data
    def __init__(self, children, data): self.children, self.data = children, data

class Named(Node): pass
class Broken(Node): pass
class Sentinel: pass
class Listed(list): pass

class Odd(tuple):
    _fields = ("x",)

sentinel, full = Sentinel(), Sentinel()
full.attribute = 1
key = tree_util.GetAttrKey
tree_util.register_pytree_node(Node, lambda x: (x.children, x.data), lambda data, children: Node(children, data))
tree_util.register_pytree_with_keys(
    Named, lambda x: ([(key(name), child) for name, child in zip("ab", x.children)], x.data),
    lambda data, children: Named(children, data))
tree_util.register_pytree_node(Broken, lambda x: x.children, lambda data, children: None)
deep = []
for _ in range(5000):
    deep = [deep]
data = [1, True, 1.0, 0.0, -0.0, 1j, "a", b"a", None, (), (1,), (True,), ((int, 1),), int, len, frozenset(),
        frozenset({1}), sentinel, full, lambda: 0, [1], {}]
trees = [
    1, None, (), [], {}, (1, [2, (3,)], {"b": 4, "a": 5}), {"a": 4, "b": 5}, {1: 2}, {True: 2}, {1.0: 2}, {-0.0: 2},
    {0.0: 2}, {"a": 1, 2: 3}, Pair(1, [2]), collections.deque([1, 2], 5), collections.OrderedDict(b=1, a=2),
    collections.defaultdict(int, b=1, a=2), time.gmtime(0), Listed([1]), Odd((1,)), Odd((1, 2)), deep, Broken(1, 2),
    [collections.deque([1])], {"c": {"b": {"a": 1}}}, *[cls((1, [2]), d) for d in data for cls in (Node, Named)],
]
structures = []
for _ in range(2):
    for each in trees:
        asked = []
        some = lambda node: asked.append(type(node).__name__) or len(asked) % 3 == 0
        some_are_leaves = lambda each: tree.flatten(each, some)
        some_with_paths = lambda each: tree.flatten_with_path(each, some)
        for function in (tree.flatten, tree.leaves, tree.structure, some_are_leaves, some_with_paths):
            asked.clear()
            try:
                result = function(each)
            except (RuntimeError, TypeError, ValueError) as error:
                print(type(error).__name__, str(error)[:60])
            else:
                print(type(result[-1] if isinstance(result, tuple) else result).__name__, asked)
                if asked:
                    print(result[-1], [str(x[0]) if function is some_with_paths else type(x) for x in result[0]])
                if function is tree.flatten:
                    leaves, structure = result
                    structures.append(structure)
                    again = structure.unflatten(leaves)
                    print(leaves, structure, type(again).__name__, list(again) if isinstance(again, dict) else "")
                    if isinstance(again, Node):
                        print(type(again.data).__name__, again.data is each.data, again.data == each.data)
print([[i for i, b in enumerate(structures) if a == b] for a in structures])
"""


@BUILT
@pytest.mark.parametrize("stack", [(), (3,), (2, 2)])
def test_permutations_of_pivots(stack):
    rng = np.random.default_rng(0)
    for count, size in (1, 1), (3, 3), (2, 5), (40, 100):
        pivots = np.stack([rng.integers(i, size, stack) for i in range(count)], -1).astype(np.int32)
        permutation = xpr.jit(lambda pivots, size=size: lax.linalg.lu_pivots_to_permutation(pivots, size))
        assert native.PERMUTATION in permutation.lower(pivots).as_text()
        (expected,) = lax.linalg.lu_pivots_to_permutation_p.reference([pivots], permutation_size=size)
        np.testing.assert_array_equal(permutation(pivots), expected)
        beyond = np.where(rng.random(pivots.shape) < 0.5, pivots - 2 * size, pivots + 2 * size)
        order = np.asarray(permutation(beyond))  # each is the nearest one within
        np.testing.assert_array_equal(order, permutation(np.clip(beyond, 0, size - 1)))
        np.testing.assert_array_equal(np.sort(order), np.broadcast_to(np.arange(size), order.shape))


@pytest.mark.skipif(tree.flatten_natively is None, reason="trees are not flattened in C (hatch_build.py)")
def test_trees_are_the_same_without_c():
    in_c, in_python = (re.sub(r" at 0x\w+", "", run_python(TREES, XPR_NATIVE=on)) for on in ("1", "0"))
    assert in_c == in_python and "Broken was registered" not in in_c


def _closing_over(value):
    return lambda: value


def _with_default(value):
    def function(x=value):
        return x

    return function


def _with_attribute(value):
    def function():
        return 0

    function.attribute = value
    return function


@pytest.mark.parametrize("holder", [lambda x: x, lambda x: (x,), _closing_over, _with_default, _with_attribute])
def test_structures_that_are_kept_hold_no_objects(holder):
    class Node:
        def __init__(self, data):
            self.data = data

    class Held:
        def __init__(self):
            self.attribute = np.zeros(3)

    tree_util.register_pytree_node(Node, lambda x: ((1,), x.data), lambda data, children: Node(data))
    held = Held()
    alive, data = weakref.ref(held), holder(held)
    assert tree.leaves(Node(data)) == [1] and tree.flatten(Node(data))[0] == [1]
    del held, data
    gc.collect()
    assert alive() is None


def test_numpy_arguments_that_a_running_program_reads_are_not_written_to():
    """The second call starts while the first one waits for its operand."""
    slow, add = xpr.jit(lambda x: x @ x), xpr.jit(lambda x, y: x[0, :4] + y)
    x = jnp.ones((1000, 1000))
    add(x, np.zeros(4, np.float32))
    results = [add(slow(x), np.full(4, i, np.float32)) for i in range(8)]
    np.testing.assert_array_equal(np.stack(results), 1000 + np.arange(8)[:, None] + np.zeros(4))


def test_results_are_no_part_of_the_memory_that_numpy_arguments_are_written_to():
    same = xpr.jit(lambda x: (x, x.reshape(2, 2), x[1:]))
    results = [same(np.arange(4, dtype=np.float32) + i) for i in range(5)]
    assert [float(y.ravel()[-1]) for each in results for y in each] == [3.0 + i for i in range(5) for _ in range(3)]

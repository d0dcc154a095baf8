"""Reductions, cumulative functions and sorting: beside jax, in every lowering, and in their messages."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import lowered, same, values_close
from tests.ops.table import distinct, floats, integers
from tests.peer import agree
from xpr import lax
from xpr.backend import buffers, compiler, devices, native
from xpr.compile.lower import lower_jaxpr
from xpr.core.avals import aval_of
from xpr.core.primitive import registered
from xpr.primitives import argminmax, cumulative, recurrences, reductions, sorting
from xpr.primitives.sorting import order_statistics
from xpr.primitives.true_indices import true_indices, true_indices_p

REAL = ("float32", "float16", ml_dtypes.bfloat16, "int32", "uint8", "int16", "uint32", "bool")
SHAPES = [((7,), 0), ((3, 50), 1), ((5, 3, 4), 1)]


def few_values(shape, dtype, special=False):
    """Many ties, the extreme integers, and where there are any, nan, infinities and both zeros."""
    dtype = np.dtype(dtype)
    x = integers(*shape, low=-5, below=6).astype(np.float32)
    x = (x + 1j * integers(*shape, low=-1, below=2, salt=1)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)
    if dtype.kind in "ui":
        x.flat[0], x.flat[1] = np.iinfo(dtype).max, np.iinfo(dtype).min
    elif special and dtype.kind in "fcV":
        x.flat[1], x.flat[2], x.flat[3], x.flat[4], x.flat[5] = 0.0, np.nan, -0.0, -np.inf, np.inf
        x.flat[6] = -np.nan
    return x


def run_lowered(primitive, *operands, platform="cpu", **params):
    """What a primitive's lowering for some platform computes here."""
    avals = [aval_of(x) for x in operands]
    outs, device = primitive.abstract(avals, **params), devices.default_device()
    program = compiler.compile(lowered(primitive, avals, platform, **params), outs, device)
    results = program.run([buffers.put(np.asarray(x), a, device) for x, a in zip(operands, avals)])
    return [buffers.get(x, a) for x, a in zip(results, outs)]


# -- Sorting


@pytest.mark.parametrize("dtype", [*REAL, "complex64"], ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_sort(dtype, special):
    def results(library):
        for shape, axis in SHAPES:
            x, y, z = few_values(shape, dtype, special), few_values(shape, dtype), floats(*shape)
            yield library.lax.sort(x, axis)
            for operands, num_keys in (((x, z), 1), ((x, y[::-1], z), 2), ((z, x), 1)):
                yield library.lax.sort(operands, axis, num_keys=num_keys)

    agree(lambda library: list(results(library)), 0)


@pytest.mark.parametrize("dtype", [*REAL, "int64", "uint64", "float64", "complex64", "complex128"], ids=str)
def test_every_lowering_of_sort(dtype):
    """One array, one key and more, on CPU and elsewhere: all give what NumPy gives."""
    x, z = few_values((3, 30), dtype, special=True), floats(3, 30)
    samples = [([x], 1, 1), ([x, z], 1, 1), ([x, x[::-1], z], 1, 2), ([x.T.copy(), z.T.copy()], 0, 1)]
    with xpr.enable_x64():
        for operands, dimension, num_keys in samples:
            params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
            expected = sorting.sort_p.reference(operands, **params)
            for platform in ("cpu", "cuda"):
                results = run_lowered(sorting.sort_p, *operands, platform=platform, **params)
                for got, wanted in zip(results, expected, strict=True):
                    same(got, wanted)


def test_sort_is_stable():
    keys = np.array([1, 0, 1, 0, -0.0, np.nan, 1, np.nan], np.float32)
    indices = np.arange(8, dtype=np.int32)
    for sort in (lax.sort_key_val, xpr.jit(lax.sort_key_val)):
        assert sort(keys, indices)[1].tolist() == [1, 3, 4, 0, 2, 6, 5, 7]
        assert np.signbit(sort(keys, indices)[0])[:3].tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("shape", "dtype", "axes", "name", "unrolled"),
    [
        ((64, 64), "uint32", (0,), "reduce_sum", True),  # rows are combined
        ((64, 64), "uint32", (1,), "reduce_sum", False),
        ((64, 64), "int32", (0, 1), "reduce_max", False),
        ((64, 64), "float32", (0,), "reduce_sum", False),  # the library's
        ((64, 64), "float32", (1,), "reduce_max", not native.available()),  # a call of C
        ((3, 64, 400), "float32", (0, 2), "reduce_max", True),  # one that keeps nan, which the library does not
        ((8, 100_000), "float32", (0,), "reduce_sum", False),  # rows that are added one by one
        ((9, 100_000), "float32", (0,), "reduce_sum", not native.available()),
        ((100, 100, 2), "float32", (2,), "reduce_sum", True),  # few elements each, which the library is slow for
        ((100, 100, 9), "float32", (2,), "reduce_sum", False),
        ((8, 10), "float32", (1,), "argmax", True),  # pairs
        ((8, 100), "float32", (1,), "argmax", False),
    ],
)
def test_which_reductions_want_their_loops_unrolled(shape, dtype, axes, name, unrolled):
    more = {"index_dtype": np.dtype("int32")} if name == "argmax" else {}
    jaxpr = xpr.make_jaxpr(lambda x: registered[name].bind(x, axes=axes, **more))(np.zeros(shape, dtype)).jaxpr
    assert lower_jaxpr(jaxpr).work.has_hot_loops is unrolled


@pytest.mark.parametrize("shape", [(4, 9000), (2, 3, 8200), (8, 2, 8192)])
def test_sums_of_few_long_rows(shape):
    x = floats(*shape)
    x[0] = -0.0
    for axis in range(len(shape) - 1):
        got = xpr.jit(lambda x: lax.reduce_sum(x, (axis,)))(x)  # noqa: B023  # called at once
        values_close(got, x.sum(axis))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((100, 100, 2), (2,)), ((3000, 8), (1,)), ((60, 3, 100), (1,)), ((4000, 2, 3), (1, 2))]
)
def test_sums_of_few_elements_each_are_not_the_librarys(shape, axes, dtype):
    with xpr.enable_x64(True):
        x = floats(*shape).astype(dtype)
        for fun in (lambda x: x, lambda x: x * x, lambda x: jnp.exp(x) * jnp.sin(x) + lax.lgamma(x + 9)):
            total = xpr.jit(lambda x: fun(x).sum(axes))  # noqa: B023  # called at once
            assert "ynn" not in total.lower(x).compile().as_text()
            values_close(total(x), np.asarray(fun(jnp.asarray(x))).sum(axes))


def test_operands_of_sums_of_few_elements_are_computed_inside_where_they_are_cheap():
    def barriers(fun, *shape):
        return xpr.jit(fun).lower(np.ones(shape, np.float32)).as_text().count("call @fusion_barrier")

    assert barriers(lambda y: ((y[:, None] - y) ** 2).sum(-1), 200, 2) == 0
    assert barriers(lambda x: jnp.linalg.norm(x, axis=-1), 100, 100, 3) == 0
    for fun in (jnp.sin, jnp.exp, lax.cbrt):
        assert barriers(lambda x: fun(x).sum(-1), 100, 100, 3) == 1  # noqa: B023  # called at once


@pytest.mark.parametrize("size", [3000, 5000])
def test_large_eager_sorts_run_in_numpy(size):
    x = integers(size, below=size // 4).astype(np.float32)
    same(lax.sort(x), np.sort(x))
    indices = np.arange(size, dtype=np.int32)
    same(lax.sort_key_val(jnp.asarray(x), indices)[1], np.argsort(x, kind="stable").astype(np.int32))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_top_k(dtype):
    def results(library):
        for shape, axis in SHAPES:
            for k in (0, 1, 3, shape[axis]):
                yield library.lax.top_k(few_values(shape, dtype), k, axis=axis)

    found = iter(agree(lambda library: list(results(library)), 0))
    staged = xpr.jit(lax.top_k, static_argnums=1, static_argnames="axis")
    for shape, axis in SHAPES:
        for k in (0, 1, 3, shape[axis]):
            for got, wanted in zip(staged(few_values(shape, dtype), k, axis=axis), next(found), strict=True):
                same(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
def test_the_least_elements_of_every_dtype(dtype):
    x = few_values((3, 7), dtype)
    values, indices = lax.approx_min_k(x, 2)
    assert values.dtype == x.dtype
    np.testing.assert_array_equal(values, np.sort(x, -1)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(indices), -1), values)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_top_k_of_wide_numbers(dtype):
    with xpr.enable_x64():
        x = few_values((2, 9), dtype, special=True)
        params = {"k": 4, "axis": 1}
        expected = sorting.top_k_p.reference([x], **params)
        for got, wanted in zip(run_lowered(sorting.top_k_p, x, **params), expected, strict=True):
            same(got, wanted)


@pytest.mark.parametrize("dtype", [*REAL, "int64", "uint64", "float64"], ids=str)
@pytest.mark.parametrize("n", [70, 1000])
def test_every_lowering_of_top_k(dtype, n):
    """Few elements are found in C on CPU, others by a sort, and elsewhere by XLA; all give what NumPy gives."""
    with xpr.enable_x64():
        some = floats(2, n).astype(dtype)
        for x in (few_values((2, n), dtype, special=True), some, np.sort(some), np.sort(some)[:, ::-1], some * 0):
            for k in (1, 4, n // 16, n // 2):
                wanted = sorting.top_k_p.reference([x], k=k, axis=1)
                for platform in ("cpu", "cuda"):
                    for result, expected in zip(
                        run_lowered(sorting.top_k_p, x, platform=platform, k=k, axis=1), wanted
                    ):
                        same(result, expected)


@pytest.mark.parametrize("dtype", [*REAL, "int64", "uint64", "float64"], ids=str)
@pytest.mark.parametrize("n", [30, 3000])
def test_every_lowering_of_order_statistics(dtype, n):
    """Short rows are sorted and long ones are not, on CPU with functions in C; all give what NumPy gives."""
    with xpr.enable_x64():
        for x in (few_values((2, n), dtype, special=True), floats(2, n).astype(dtype), np.zeros((2, n), dtype)):
            for ranks in ((0,), (n - 1,), (3, n // 2, n // 2 + 1, n - 1), tuple(range(n))):
                wanted = sorting.sort_p.reference([x], dimension=1, is_stable=True, num_keys=1)[0][:, ranks]
                for platform in ("cpu", "cuda"):
                    (got,) = run_lowered(sorting.order_statistics_p, x, platform=platform, ranks=ranks, axis=1)
                    same(got, wanted)
                same(order_statistics(jnp.asarray(x), ranks), wanted)
                same(xpr.jit(lambda x, ranks=ranks: order_statistics(x, ranks, 0))(x.T), wanted.T)


@pytest.mark.parametrize("shape", [(1000,), (3, 77), (2, 3, 50), (5, 8), (2, 0)])
def test_every_lowering_of_true_indices(shape):
    """On CPU in C, but for negative fill values; elsewhere each index is scattered to its rank."""
    rng = np.random.default_rng(0)
    for share in (0, 0.1, 0.5, 1):
        mask = rng.random(shape) < share
        for size in (1, 5, shape[-1] + 9):
            for fill_value in (0, 7, -1):
                params = {"size": size, "fill_value": fill_value}
                wanted = true_indices_p.reference([mask], **params)
                for platform in ("cpu", "cuda"):
                    same(run_lowered(true_indices_p, mask, platform=platform, **params), wanted)
    with pytest.raises(TypeError, match=r"true_indices: takes booleans with at least one axis, and got f32\[3\]"):
        true_indices(floats(3), 1, 0)


@pytest.mark.parametrize("method", ["linear", "higher", "midpoint", "lower"])
def test_quantiles_of_many_numbers(method):
    x = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    q = [0.9, 0.1, 0.5, 1.0]
    quantile = xpr.jit(lambda x: jnp.quantile(x, np.array(q), 1, method=method))
    np.testing.assert_allclose(quantile(x), np.quantile(x, q, 1, method=method), 1e-5)
    assert np.isnan(quantile(np.where(x == x[1].max(), np.nan, x))).sum() == len(q)
    slopes = xpr.grad(lambda x: xpr.jit(jnp.median)(x).sum())(x)
    assert np.sort(np.asarray(slopes).ravel())[-2:].tolist() == [0.5, 0.5] and np.sum(slopes) == 1


def test_nan_is_the_greatest_whatever_its_sign():
    """0 and -0 are equal where all is sorted, and not where the greatest are selected, as in JAX."""
    x = np.array([1, -np.nan, np.inf, np.nan], np.float32)
    for find in (lax.top_k, xpr.jit(lax.top_k, static_argnums=1)):
        assert find(x, 3)[1].tolist() == [1, 3, 2]
        assert find(np.array([-0.0, -0.0, 0.0, -0.0], np.float32), 2)[1].tolist() == [2, 0]
    for sort in (lax.sort, xpr.jit(lax.sort)):
        np.testing.assert_array_equal(sort(x), [1, np.inf, np.nan, np.nan])


def test_a_nan_that_is_computed_in_the_same_program():
    """The square root of a negative number is a negative nan on CPU."""
    values, indices = xpr.jit(lambda x: lax.top_k(jnp.sqrt(x), 2))(np.array([1, 2, -1], np.float32))
    np.testing.assert_array_equal(values, np.array([np.nan, np.sqrt(2)], np.float32))
    assert indices.tolist() == [2, 1]


def test_derivatives_of_sorting():
    x, y, s, t, weights = (floats(4, 5, salt=salt) for salt in range(5))

    def results(library):
        sort = library.lax.sort
        slope = library.grad(lambda x: (weights * sort(x)).sum())(x)
        return library.jvp(lambda x, y: sort((x, y), 0), (x, y), (s, t)), slope

    agree(results, 0)


# -- argmax and argmin


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin(name, dtype):
    cases = [(few_values(shape, dtype, special), axis) for shape, axis in SHAPES for special in (False, True)]
    find = lambda library, x, axis: getattr(library.lax, name)(x, axis, np.int32)
    found = agree(lambda library: [find(library, *case) for case in cases], 0)
    for (x, axis), expected in zip(cases, found, strict=True):
        same(xpr.jit(lambda x, axis=axis: find(xpr, x, axis))(x), expected)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_every_lowering_of_argmax(platform):
    for shape, axis in SHAPES:
        x = few_values(shape, "float32", special=True)
        params = {"axes": (axis,), "index_dtype": np.dtype(np.int32)}
        same(run_lowered(argminmax.argmax_p, x, platform=platform, **params)[0], np.argmax(x, axis).astype(np.int32))


@pytest.mark.parametrize("axes", [(0,), (0, 1), (0, 2), (2,), (1, 2), (0, 1, 2)])
def test_large_reductions(axes):
    """Long rows are read row by row, and a nan is seen, neither of which XLA's library does on CPU."""
    x = floats(3, 4, 9000)
    x[0, 1, 5], x[1, 2, 7] = np.nan, -np.inf
    for primitive, in_numpy in (
        (lax.reduce_sum_p, np.sum), (reductions.reduce_max_p, np.max), (reductions.reduce_min_p, np.min),
    ):  # fmt: skip
        values_close(run_lowered(primitive, x, axes=axes)[0], in_numpy(x, axes), 1e-3)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        same(run_lowered(reductions.reduce_max_p, x.astype(dtype), axes=axes)[0], np.max(x, axes).astype(dtype))


@pytest.mark.parametrize(
    "shape",
    [
        (127,),
        (128,),
        (1001,),
        (12, 13, 14),
        (3, 1025),
        (1025, 3),
        (2, 3, 700),
        (0, 600),
        (63, 65),
        (64, 64),
        (1, 4096),
        (1001, 263),
        (2, 1400, 99),
    ],
)
def test_reductions_that_are_halved(shape, monkeypatch):
    """Bools, and long maxima and minima: of odd lengths, over several axes, with a nan anywhere, and by the library."""
    monkeypatch.setattr("xpr.primitives.native_calls.are_possible", lambda b, aval: False)
    rng = np.random.default_rng(0)
    cases = [axes for n in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), n)]
    for axes in cases:
        for share in (0, 0.001, 0.999, 1):
            flags = rng.random(shape) < share
            same(run_lowered(lax.reduce_or_p, flags, axes=axes)[0], flags.any(axes))
            same(run_lowered(lax.reduce_and_p, flags, axes=axes)[0], flags.all(axes))
        x = floats(*shape)
        for place in (0, x.size // 3, -1) if x.size else ():
            x.reshape(-1)[place] = np.nan
            same(run_lowered(reductions.reduce_max_p, x, axes=axes)[0], x.max(axes))
            same(run_lowered(reductions.reduce_min_p, x, axes=axes)[0], x.min(axes))
            x = floats(*shape)


def test_places_of_extremes_in_large_arrays():
    x = floats(3, 4000)
    x[1, 3000] = x[1, 3500] = np.nan
    x[2] = np.nan
    for axis in (0, 1):
        many = np.concatenate([x] * 20, axis)
        params = {"axes": (axis,), "index_dtype": np.dtype(np.int32)}
        same(run_lowered(argminmax.argmin_p, many, **params)[0], np.argmin(many, axis).astype(np.int32))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_ties_of_extremes_share_the_derivative(name, axes):
    x = np.array([[1, 3, 3], [2, 2, 2]], np.float32)
    agree(lambda library: library.grad(lambda x: getattr(library.lax, name)(x, axes).sum())(x), 0)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_derivatives_of_products_with_zeros(zeros):
    x = np.array([2, 3, 5, 7], np.float64)
    x[:zeros] = 0
    others = np.array([np.prod(np.delete(x, i)) for i in range(4)])
    pairs = np.array([[0 if i == j else np.prod(np.delete(x, [i, j])) for i in range(4)] for j in range(4)])
    with xpr.enable_x64():
        product = lambda x: lax.reduce_prod(x, (0,))
        values_close(xpr.grad(product)(x), others, 1e-12)
        values_close(xpr.hessian(product)(x), pairs, 1e-12)
        values_close(xpr.grad(lambda x: lax.cumprod(x)[-1])(x), others, 1e-12)
        values_close(xpr.hessian(lambda x: lax.cumprod(x)[-1])(x), pairs, 1e-12)


# -- Cumulative functions


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "x, expected",
    [
        ([-np.inf, 0.0, 0.0], [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]),
        ([-np.inf, -np.inf, 0.0], [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]),
        ([0.0, np.inf, 1.0], [[1, 0, 0], [0, 1, 0], [0, 1, 0]]),
        ([-np.inf], [[1]]),
    ],
)
def test_shares_in_a_cumulative_log_sum_of_infinities(x, expected, reverse):
    """Limits of the shares of finite numbers; of equal infinities, half of each."""
    step = -1 if reverse else 1
    found = xpr.jacobian(lambda x: lax.cumlogsumexp(x, reverse=reverse))(jnp.array(x[::step]))
    np.testing.assert_allclose(found, np.array(expected)[::step, ::step])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("first", [[], [complex(-np.inf, 1)], [complex(-np.inf, 1), complex(-np.inf, 2)]])
def test_logarithms_of_complex_zeros_add_nothing_to_a_cumulative_log_sum(first, reverse):
    """exp(-inf + iy) is 0 for every y."""
    step = -1 if reverse else 1
    numbers = np.array([1 + 2j, 1 + 3j, complex(-np.inf, 2)], np.complex64)
    x = np.array([*first, *numbers], np.complex64)[::step].copy()
    expected = np.log(np.cumsum(np.exp(numbers)))
    for function in (lax.cumlogsumexp, xpr.jit(lax.cumlogsumexp, static_argnames="reverse")):
        found = np.asarray(function(x, reverse=reverse))[::step]
        assert np.all(found.real[: len(first)] == -np.inf)
        values_close(found[len(first) :], expected)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_cumulative_functions(name):
    tied = np.array([1, 1, 1, 2, 2, 0], np.float32)
    for x, axis, reverse in ((distinct(4, 5), 0, True), (floats(3, 4), 1, False), (tied, 0, False)):
        weights = floats(*x.shape, salt=1)

        def results(library, x=x, axis=axis, reverse=reverse, weights=weights):
            scan = lambda x: getattr(library.lax, name)(x, axis, reverse)
            return scan(x), library.grad(lambda x: (weights * scan(x)).sum())(x)

        agree(results, 1e-4)


@pytest.mark.parametrize("platform, in_c", [("cpu", True), ("cpu", False), ("cuda", False)])
def test_every_lowering_of_scans(platform, in_c, monkeypatch):
    if not in_c:
        monkeypatch.setattr("xpr.primitives.native_calls.are_possible", lambda b, aval: False)
    for length in (1, 2, 5, 8):
        operands = [floats(2, length), floats(2, length, salt=1)]
        params = {"axis": 1, "reverse": length == 5}
        for p in (cumulative.cumsum_p, cumulative.cumlogsumexp_p):
            got = run_lowered(p, operands[0], platform=platform, **params)
            values_close(got[0], p.reference(operands[:1], **params)[0])
        got = run_lowered(recurrences.linear_recurrence_p, *operands, platform=platform, **params)
        values_close(got[0], recurrences.linear_recurrence_p.reference(operands, **params)[0])


def test_running_sums_of_many_numbers_are_accurate():
    """One after the other in float32, a million tenths come to 100958."""
    sums = xpr.jit(lax.cumsum)(np.full(10**6, 0.1, np.float32))
    assert abs(float(sums[-1]) - 1e5) < 0.1
    halves = lax.cumsum(jnp.ones(1000, jnp.bfloat16))
    assert float(halves[-1]) == 1000


# -- reduce


def test_reduce_recognizes_operations():
    x = integers(2, 3, low=1, below=9)
    for fun, name in (
        (lambda a, b: a + b, "reduce_sum"), (lambda a, b: b * a, "reduce_prod"), (jnp.maximum, "reduce_max"),
        (lax.min, "reduce_min"), (lambda a, b: a & b, "reduce_and"), (lambda a, b: a | b, "reduce_or"),
        (lambda a, b: a ^ b, "reduce_xor"),
    ):  # fmt: skip
        jaxpr = xpr.make_jaxpr(lambda x, fun=fun: lax.reduce(x, 7, fun, (1,)))(x)
        assert jaxpr.eqns[0].primitive.name == name and len(jaxpr.eqns) == 2
        rows = [xpr.core.jaxpr_as_fun(jaxpr)(x)[0].tolist()]
        expected = []
        for row in x:
            total = jnp.int32(7)
            for entry in row:
                total = fun(total, jnp.int32(entry))
            expected.append(int(total))
        assert rows == [expected]
    assert str(xpr.make_jaxpr(lambda x: lax.reduce(x, 0, lax.add, (0, 1)))(x)).count("=") == 2  # the parameter's, too


def test_reduce_by_any_function():
    x = floats(3, 5, 2)
    step = lambda a, b: a + b + a * b
    for axes in ((0,), (1,), (0, 2), (0, 1, 2), ()):
        expected = agree(lambda library, axes=axes: library.lax.reduce(x, np.float32(0), step, axes), 2e-5)
        values_close(xpr.jit(lambda x, axes=axes: lax.reduce(x, 0.0, step, axes))(x), expected)
        xpr.vmap(lambda x, axes=axes: lax.reduce(x, 0.0, step, axes), 1, 0)(np.stack([x, x], 1))
    slope = xpr.grad(lambda x: lax.reduce(x, 0.0, step, (0,)))(x[0, :, 0])
    values_close(slope, [np.prod(np.delete(1 + x[0, :, 0], i)) for i in range(5)])


def test_reduce_of_several_arrays():
    """The greatest entry and its place; neighbours stay neighbours, as a function that doesn't commute needs."""

    def better(a, b):
        keep = a["x"] >= b["x"]
        return {"x": jnp.where(keep, a["x"], b["x"]), "at": jnp.where(keep, a["at"], b["at"])}

    x = distinct(4, 7)
    at = np.broadcast_to(np.arange(7, dtype=np.int32), x.shape)
    out = lax.reduce({"x": x, "at": at}, {"x": np.float32(-np.inf), "at": np.int32(-1)}, better, (1,))
    same(out["x"], x.max(1))
    same(out["at"], x.argmax(1).astype(np.int32))
    last = lax.reduce(x, np.float32(0), lambda a, b: b, (1,))
    same(last, x[:, -1])


def test_reduce_checks_its_arguments():
    x = floats(2, 3)
    for error, message, call in (
        (ValueError, "same tree structure", lambda: lax.reduce(x, (0.0, 0.0), lax.add, (0,))),
        (
            TypeError,
            r"initial value for f32\[2,3\] must be a scalar",
            lambda: lax.reduce(x, np.int32(0), lax.add, (0,)),
        ),
        (
            TypeError,
            r"must give what it takes .* gave \(bool\[\]\)",
            lambda: lax.reduce(x, 0.0, lambda a, b: a > b, (0,)),
        ),
        (ValueError, r"duplicate value in 'axes' \(0, 0\)", lambda: lax.reduce(x, 0.0, lax.add, (0, 0))),
    ):
        with pytest.raises(error, match=message):
            call()


# -- Messages


@pytest.mark.parametrize(
    "error, message, call",
    [
        (ValueError, r"require non-empty reduced dimension, one", lambda: lax.argmax(floats(0, 2), 0, "int32")),
        (TypeError, "index_dtype must be an integer type, and is f32", lambda: lax.argmin(floats(3), 0, np.float32)),
        (TypeError, "argmax: takes real numbers .* c64", lambda: lax.argmax(floats(3) * np.complex64(1j), 0, "int32")),
        (TypeError, "reduce_max: takes .* c64", lambda: lax.reduce_max(floats(3) * np.complex64(1j), (0,))),
        (TypeError, r"different axes of it", lambda: lax.reduce_max(floats(3), (1,))),
        (TypeError, "reduce_and: takes .* f32", lambda: lax.reduce_and(floats(3), (0,))),
        (ValueError, r"cumsum: f32\[3\] has no axis 1", lambda: lax.cumsum(floats(3), 1)),
        (TypeError, "cumsum: takes .* bool", lambda: lax.cumsum(np.ones(3, bool))),
        (TypeError, r"one shape, and are f32\[3\], f32\[2\]", lambda: lax.sort((floats(3), floats(2)))),
        (ValueError, r"sort: f32\[3\] has no axis 2", lambda: lax.sort(floats(3), 2)),
        (ValueError, "num_keys must be from 1", lambda: lax.sort(floats(3), num_keys=2)),
        (TypeError, "at least one", lambda: lax.sort(())),
        (ValueError, r"k must be from 0 to the size of axis 0 of f32\[3\], and is 4", lambda: lax.top_k(floats(3), 4)),
        (TypeError, "order_statistics: takes real", lambda: order_statistics(floats(3) * np.complex64(1j), (1,))),
        (ValueError, r"order_statistics: f32\[3\] has no axis 1", lambda: order_statistics(floats(3), (1,), 1)),
        (ValueError, r"ranks must ascend, .* they are \(2, 1\)", lambda: order_statistics(floats(3), (2, 1))),
        (ValueError, r"indices along axis 0 of f32\[3\]; they are \(3,\)", lambda: order_statistics(floats(3), (3,))),
        (TypeError, "top_k: takes real numbers", lambda: lax.top_k(floats(3) * np.complex64(1j), 1)),
    ],
)  # fmt: skip
def test_messages(error, message, call):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_gradient_of_an_extreme_that_is_nan_is_nan(name, axis):
    x = np.array([[0, 1, 1], [0.6, np.nan, -0.6]], np.float32)
    slope = xpr.grad(lambda x: getattr(jnp, name)(x, axis).sum())
    expected = np.asarray(slope(jnp.array(x)))
    assert np.isnan(expected).sum() == {None: 6, 0: 2, 1: 3}[axis]
    np.testing.assert_array_equal(xpr.jit(slope)(x), expected)


@pytest.mark.parametrize("function", [lax.cumsum, lax.cumprod, lax.cummax, lax.cumlogsumexp], ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [None, (0,), 0.5], ids=str)
def test_axes_are_integers(function, axis):
    with pytest.raises(TypeError, match="An axis is given by its number, and .* cannot be interpreted as an integer"):
        function(jnp.ones(3), axis)
    with pytest.raises(TypeError, match="An axis is given by its number"):
        lax.argmax(jnp.ones(3), axis, np.int32)

"""Functions in C whose work threads divide: large arrays, any number of cores, several callers, forked processes."""

import concurrent.futures

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import run_python
from tests.test_native import BUILT, numbers
from xpr import lax
from xpr.backend.processor import CORES
from xpr.config_contexts import enable_x64

LARGE = [(1_000_003,), (1001, 1003), (2, 700_001), (300_007, 5), (3, 2003, 300), (100, 20_001), (1, 50_000, 33)]


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", LARGE)
def test_reductions_of_large_arrays(shape, dtype):
    """Threads divide rows, columns, or what is reduced to one number."""
    x = np.random.default_rng(0).integers(-999, 999, shape).astype(dtype)
    if dtype != "int32":
        x.flat[[7, -5]] = np.nan, np.inf
    axes = range(x.ndim)
    with enable_x64():
        for axis in [*axes, tuple(axes), *([(0, 1), (1, 2)] if x.ndim == 3 else [])]:
            for name in ("max", "min", "sum"):
                result = xpr.jit(lambda x, name=name, axis=axis: getattr(jnp, name)(x, axis))(x)
                expected = getattr(np, name)(x.astype("f8"), axis)
                np.testing.assert_allclose(
                    result, expected, 3e-7 * 999 if name == "sum" else 0, 1 if name == "sum" else 0
                )


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1003, 1001), (7, 200_003), (300_007, 5), (1, 1_000_003), (1_000_003, 1)])
def test_products_of_large_matrices_and_vectors(shape, dtype):
    rng = np.random.default_rng(0)
    matrix, left, right = (rng.integers(-9, 9, size).astype(dtype) for size in (shape, shape[:1], shape[1:]))
    with enable_x64():
        for name, operands in ("matrix", (matrix, right)), ("vector", (left, matrix)), ("dot", (matrix.ravel(),) * 2):
            product = xpr.jit(jnp.dot).lower(*operands)
            assert min(shape) < 6 or "xpr_matvec" in product.as_text()
            np.testing.assert_allclose(product.compile()(*operands), np.dot(*operands), 3e-7, err_msg=name)


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(50_001, 40), (3, 30), (300, 7), (20, 33), (129, 64)])
def test_convolutions_of_long_vectors(shape, dtype):
    """Threads divide the positions; the last blocks of a row overlap."""
    x, window = (np.random.default_rng(0).integers(-9, 9, n).astype(dtype) for n in shape)
    with enable_x64():
        convolve = xpr.jit(jnp.convolve).lower(x, window)
        assert "xpr_convolution" in convolve.as_text()
        np.testing.assert_array_equal(convolve.compile()(x, window), np.convolve(x, window))


@BUILT
@pytest.mark.parametrize("features", [1, 3, 32, 100])
def test_convolutions_of_each_feature_of_images(features):
    rng = np.random.default_rng(0)
    images = rng.integers(-9, 9, (3, 70, 61, features)).astype("f")
    windows = rng.integers(-9, 9, (7, 9, 1, features)).astype("f")
    numbers = ("NHWC", "HWIO", "NHWC")
    convolve = xpr.jit(
        lambda x, w: lax.conv_general_dilated(
            x, w, (2, 1), "VALID", (1, 1), (2, 1), numbers, feature_group_count=features
        )
    ).lower(images, windows)
    assert "xpr_convolution" in convolve.as_text()
    parts = np.lib.stride_tricks.sliding_window_view(images, (13, 9), (1, 2))[:, ::2, :, :, ::2]
    expected = np.einsum("nijfhw,hwf->nijf", parts, windows[:, :, 0])
    np.testing.assert_array_equal(convolve.compile()(images, windows), expected)


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape", [(1001, 1003), (3, 400_001), (1, 1_000_003), (9, 140_000), (40_009, 30)])
def test_rows_of_large_arrays(shape, dtype):
    with enable_x64():
        x = numbers(shape, dtype)
        functions = {
            "sort": (jnp.sort, np.sort),
            "argsort": (jnp.argsort, lambda x: np.argsort(x, kind="stable")),
            "median": (lambda x: jnp.median(x, axis=-1), lambda x: np.median(x, axis=-1)),
            "top_k": (lambda x: lax.top_k(x, 3)[0], lambda x: np.sort(x)[:, :-4:-1]),
            "argmax": (lambda x: jnp.argmax(x, -1), lambda x: np.argmax(x, -1)),
            "cummax": (lambda x: lax.cummax(x, 1), lambda x: np.maximum.accumulate(x, 1)),
            "columns": (lambda x: lax.cummax(x, 0, reverse=True), lambda x: np.maximum.accumulate(x[::-1], 0)[::-1]),
        }
        for name, (f, of_numpy) in functions.items():
            np.testing.assert_array_equal(xpr.jit(f)(x), of_numpy(x), err_msg=name)


@BUILT
@pytest.mark.parametrize("name", ["ascending", "descending", "equal", "one less"])
def test_long_rows_in_order(name):
    """Threads sort pieces of them, and merge these from both ends."""
    x = np.arange(1_000_003, dtype=np.int32)
    x = {"ascending": x, "descending": x[::-1].copy(), "equal": x * 0, "one less": np.append(x[:-1] * 0, np.int32(-1))}[
        name
    ]
    ordered, order = xpr.jit(lambda x: (jnp.sort(x), jnp.argsort(x)))(x)
    np.testing.assert_array_equal(ordered, np.sort(x))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


@BUILT
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_the_first_of_many_equal_elements(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.zeros(5_000_011, kind)
    find = xpr.jit(lambda x: (jnp.argmax(x), jnp.argmin(x)))
    assert [int(i) for i in find(x)] == [0, 0]
    x[[3_000_001, 4_000_000]], x[[2_000_000, 4_999_999]] = 1, -1
    assert [int(i) for i in find(x)] == [3_000_001, 2_000_000]
    if kind.kind == "f":
        x[[3_500_000, 4_500_000]] = np.nan
        assert [int(i) for i in find(x)] == [3_500_000, 3_500_000]


SUMS = """
import os, sys
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[: int(sys.argv[1])])
import hashlib, numpy as np, xpr, xpr.numpy as jnp
x = np.random.default_rng(0).normal(size=(3000, 1003)).astype(np.float32)
vector = x.ravel()
def reductions(x, v):
    sums = jnp.sum(x), jnp.sum(x, 0), jnp.sum(x, 1), jnp.sum(v * v), jnp.cumsum(x, 1)
    return *sums, jnp.prod(v), x.T @ v[:3000], x @ v[:1003]
results = xpr.jit(reductions)(x, vector)
print(hashlib.sha256(b"".join(np.asarray(result).tobytes() for result in results)).hexdigest())
"""


@BUILT
@pytest.mark.skipif(CORES < 2, reason="several threads need several cores")
def test_results_do_not_depend_on_how_many_threads_compute():
    assert run_python(SUMS, "1") == run_python(SUMS, "64")


@BUILT
def test_threads_that_call_at_once():
    """One of them is helped, the others compute by themselves."""
    x = np.random.default_rng(0).normal(size=(16, 1_000_003)).astype(np.float32)
    sums = xpr.jit(jnp.max).lower(x[0]).compile()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            np.testing.assert_array_equal([float(m) for m in pool.map(sums, x)], x.max(1))


AFTER_FORK = """
import ctypes, os, warnings
import numpy as np
from xpr.backend import native

warnings.simplefilter("ignore", DeprecationWarning)  # of os.fork, since there are threads
native._register()
x, text = np.arange(3_000_000, dtype=np.float32), b"1 0 1 3000000 1"
def greatest():
    result, operands = np.zeros(1, np.float32), (ctypes.c_void_p * 1)(x.ctypes.data)
    for _ in range(20):
        native.load().xpr_reduce(ctypes.c_void_p(result.ctypes.data), operands, text, ctypes.c_size_t(len(text)), None)
    return result[0]
assert greatest() == 2_999_999
child = os.fork()
if not child:
    os._exit(int(greatest() != 2_999_999))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert greatest() == 2_999_999
"""


@BUILT
def test_a_forked_process_has_threads_of_its_own():
    run_python(AFTER_FORK)

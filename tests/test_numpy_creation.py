"""New arrays: values, shapes, dtypes and weak types as jax has them, values as NumPy has them; errors; staging."""

from __future__ import annotations

import decimal
import enum
import fractions
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX, check, check_with_numpy, needs_jax
from xpr import lax
from xpr.errors import ConcretizationTypeError, NarrowingWarning, TracerIntegerConversionError

ARRAYS = {
    "i": np.arange(3, dtype=np.int32),
    "f": np.arange(3, dtype=np.float32),
    "m": np.arange(6, dtype=np.float32).reshape(2, 3),
    "t": np.arange(24, dtype=np.int32).reshape(2, 3, 4),
    "b": np.array([True, False, True]),
    "h": np.arange(3, dtype=np.float16),
}

BOTH = """
jnp.array([1.0, 2]) | jnp.array([[1, 2], [3, 4]]) | jnp.array([True, False]) | jnp.array([True, 1.5, 1j])
jnp.array([]) | jnp.array([[], []]) | jnp.array((1, 2)) | jnp.array([[True], [2]]) | jnp.array(range(3))
jnp.array([i, i]) | jnp.array([i, f]) | jnp.array([[f, f], [i, i]]) | jnp.array([f[0], 2])
jnp.array([[f[0], 1], [2, 3]]) | jnp.array(m, ndmin=4) | jnp.array([m, m])
jnp.asarray([1, 2]) | jnp.asarray(m) | jnp.copy(m)
jnp.zeros(3) | jnp.zeros((2, 3)) | jnp.zeros([2, 3]) | jnp.zeros((2,), int) | jnp.zeros(0) | jnp.zeros((2, 0, 3))
jnp.zeros((2,), bool) | jnp.zeros((2,), complex) | jnp.zeros(np.array([2, 3])) | jnp.zeros(np.int64(3))
jnp.ones((2, 3)) | jnp.ones(2, bool) | jnp.ones(2, "int8") | jnp.ones((), float)
jnp.full(3, 2) | jnp.full(3, 2.0) | jnp.full(3, True) | jnp.full((2, 3), f) | jnp.full((2,), 2.5, int)
jnp.full((), 3)
jnp.zeros_like(m) | jnp.ones_like(m, int) | jnp.full_like(m, 2) | jnp.full_like(i, 2.5)
jnp.zeros_like(m, shape=(2,))
jnp.zeros_like(b) | jnp.ones_like(i, dtype=float) | jnp.full_like(m, f) | jnp.empty_like(i).shape
jnp.eye(3) | jnp.eye(2, 3) | jnp.eye(3, 2, 1) | jnp.eye(3, k=-1, dtype=int) | jnp.eye(0) | jnp.identity(2, bool)
jnp.arange(3) | jnp.arange(3.0) | jnp.arange(2.5) | jnp.arange(1, 3) | jnp.arange(10, 0, -3) | jnp.arange(0)
jnp.arange(-3)
jnp.arange(1, 10, 2) | jnp.arange(5, step=2) | jnp.arange(3, dtype="float32") | jnp.arange(3, dtype="int8")
jnp.arange(0.0, 3, 0.5) | jnp.arange(1, 3, 0.5) | jnp.arange(0, 5, 2, dtype=float)
jnp.arange(0.0, 3, 0.5, dtype=int)
jnp.tri(3) | jnp.tri(2, 3, 1, int) | jnp.tri(3, k=-1) | jnp.tril(m) | jnp.tril(m, 1) | jnp.triu(m) | jnp.triu(m, -1)
jnp.tril(t) | jnp.triu(t, 1) | jnp.triu(b.reshape(1, 3)) | jnp.tril(m, -5) | jnp.triu(m, 5)
jnp.diag(f) | jnp.diag(f, 1) | jnp.diag(f, -2) | jnp.diag(m) | jnp.diag(m, 1) | jnp.diag(m, -1) | jnp.diag(m, 3)
jnp.diag(m, -7)
jnp.diag(f[:0]) | jnp.diag(f[:0], 2) | jnp.diagflat(m, 1) | jnp.diagflat(i)
jnp.diag(f, jnp.asarray(-1)) | jnp.diagflat(m, jnp.asarray(1))
jnp.diagonal(m) | jnp.diagonal(t, 1, 1, 2) | jnp.diagonal(t, -1, 2, 0) | jnp.diagonal(t, axis1=-1, axis2=0)
jnp.meshgrid(i, f) | jnp.meshgrid(i, f, indexing="ij") | jnp.meshgrid(i, f, b, sparse=True) | jnp.meshgrid(i)
jnp.meshgrid()
jnp.indices((2, 3)) | jnp.indices((2, 3), sparse=True) | jnp.indices((2,), dtype=float)
jnp.fromfunction(lambda a, b: a + b, (2, 3)) | jnp.fromfunction(lambda a, b: a == b, (3, 3), dtype=int)
jnp.frombuffer(b"abcd", dtype="uint8") | jnp.frombuffer(b"abcd", "uint8", 2, 1)
jnp.fromstring("1 2", dtype=int, sep=" ")
jnp.mgrid[0:2, 0:3:2] | jnp.mgrid[0:3] | jnp.mgrid[0:1:3j] | jnp.mgrid[0:3, 0:1:3j] | jnp.ogrid[0:2, 0:3]
jnp.ogrid[0:2] | jnp.mgrid[()]
jnp.r_[0:3, 5, i] | jnp.r_["-1,2", i, i] | jnp.r_["0,2,0", i, i] | jnp.r_[0:1:3j] | jnp.c_[i, f] | jnp.r_["0,3", i, i]
"""

# Rounding differs: jax computes these in float32, and NumPy and xpr in float64.
CLOSE = """
jnp.linspace(0, 1, 5) | jnp.linspace(0, 1, 3, endpoint=False) | jnp.linspace(0, 10, 5, dtype=int)
jnp.linspace(0, 1j, 5)
jnp.linspace(f, f + 1, 4) | jnp.linspace(f, 1, 4, axis=1) | jnp.linspace(0, m, 3, axis=-1) | jnp.linspace(0, 1, 0)
jnp.linspace(0, 1, 1) | jnp.linspace(0, 1, 3, retstep=True) | jnp.linspace(0, 1, 4, False, True)
jnp.linspace(3, -2, 7)
jnp.logspace(0, 2, 5) | jnp.logspace(0, 2, 3, base=2) | jnp.logspace(0, 2, 3, endpoint=False) | jnp.logspace(f, 2, 3)
jnp.geomspace(1, 100, 5) | jnp.geomspace(-1, -100, 3) | jnp.geomspace(f + 1, 100, 3)
jnp.geomspace(1, 100, 3, endpoint=False)
jnp.vander(f) | jnp.vander(f, 2, increasing=True) | jnp.vander(i, 5) | jnp.vander(f, 1) | jnp.vander(f, 0)
jnp.arange(0, 1, 0.1) | jnp.arange(-1.0, 1, 0.3)
"""

# Weak types, and dtypes that NumPy promotes otherwise or does not have.
JAX_ONLY = """
jnp.fill_diagonal(m, 7, inplace=False) | jnp.fill_diagonal(t[:2, :2, :2], 7, inplace=False)
jnp.fill_diagonal(m.T, i[:1], inplace=False) | jnp.fill_diagonal(m, m, inplace=False)
jnp.fill_diagonal(m[:0], 1, inplace=False)
jnp.array(1.0) | jnp.array(1) | jnp.array(True) | jnp.array(1j) | jnp.asarray(1.0) | jnp.array(1.0, ndmin=2)
jnp.array(1.0, dtype=float) | jnp.array([jnp.asarray(1.0), 2]) | jnp.array([np.float16(1), 2.0])
jnp.array(np.int8(3))
jnp.array([h, f]) | jnp.array([h[0], 2.0]) | jnp.array([np.int8(3), 2]) | jnp.array(3.7, dtype=int)
jnp.array([3.7], dtype=int)
jnp.array(np.array([300]), dtype="int8") | jnp.array([1, 2], dtype="bfloat16") | jnp.array(np.float16(2))
jnp.array(jnp.asarray(2.0)) | jnp.array(jnp.asarray(2.0), dtype="float32") | jnp.array([[h, h], [1.0 * h, h]])
jnp.zeros_like(3.0) | jnp.zeros_like(jnp.asarray(3.0)) | jnp.full_like(3.0, 2)
jnp.zeros_like(jnp.asarray(3.0), shape=(2,))
jnp.full(2, jnp.asarray(2.0)) | jnp.full(2, np.float32(2)) | jnp.ones(2, "bfloat16") | jnp.eye(2, dtype="bfloat16")
jnp.arange(np.int8(3)) | jnp.arange(np.float16(3)) | jnp.arange(3, dtype="bfloat16") | jnp.arange(np.uint8(1), 7, 2)
jnp.linspace(h, 2, 3) | jnp.copy(1.0) | jnp.copy(jnp.asarray(2)) | jnp.fromfunction(lambda a: 1.0, (3,))
jnp.fromfunction(lambda a: jnp.ones(2), (3,)) | jnp.empty((2,)) | jnp.empty_like(3.0)
jnp.diag(b) | jnp.eye(2, 3, dtype=bool) | jnp.array(1, dtype="int4") | jnp.zeros(2, jnp.float8_e4m3fn)
"""


def calls(text: str) -> list[str]:
    return [call.strip() for line in text.strip().splitlines() for call in line.split(" | ")]


@pytest.mark.parametrize("call", calls(BOTH) + calls(JAX_ONLY))
def test_as_jax(call: str) -> None:
    check(call, ARRAYS, 0.0)


@pytest.mark.parametrize("call", calls(CLOSE))
def test_close_to_jax(call: str) -> None:
    check(call, ARRAYS, 1e-5)


@pytest.mark.parametrize("call", calls(BOTH) + calls(CLOSE))
def test_as_numpy(call: str) -> None:
    check_with_numpy(call, ARRAYS)


def test_empty_is_zeros_and_like_takes_anything_with_a_shape_and_a_dtype() -> None:
    assert not np.asarray(jnp.empty((2, 3))).any()
    made = jnp.ones_like(xpr.ShapeDtypeStruct((2,), jnp.bfloat16))
    assert (made.shape, made.dtype) == ((2,), jnp.bfloat16)


def test_sizes_shifts_and_indices_are_those_of_the_array_that_an_object_gives() -> None:
    class Wrapped:
        def __init__(self, value: Any):
            self.value = jnp.asarray(value)

        def __jax_array__(self) -> Any:
            return self.value

    x, i = jnp.arange(12).reshape(4, 3), Wrapped([1, 2])
    assert jnp.shape(Wrapped(x)) == (4, 3) and jnp.ndim(Wrapped(x)) == 2 and jnp.size(Wrapped(x)) == 12
    for fun in (
        lambda i: jnp.roll(x, i, (0, 1)), lambda i: jnp.delete(x, i, 0), lambda i: jnp.insert(x, i, 7, 0),
    ):  # fmt: skip
        np.testing.assert_array_equal(fun(i), fun(np.array([1, 2])))
    square = Wrapped(jnp.ones((2, 2)))
    for fun in (jnp.diag_indices_from, jnp.tril_indices_from, jnp.triu_indices_from):
        np.testing.assert_array_equal(fun(square), fun(np.ones((2, 2))))


def test_objects_of_other_libraries() -> None:
    class Wrapped:
        def __init__(self, value: Any):
            self.value = value

        def __jax_array__(self) -> Any:
            return self.value

    class Host:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(2, np.int8)

    class Picture:  # as those of Pillow are
        pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
        __array_interface__ = pixels.__array_interface__

    class Speaker:
        def __init__(self) -> None:
            self.value = np.arange(3, dtype=np.float32)

        def __dlpack__(self, **options: Any) -> Any:
            return self.value.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.value.__dlpack_device__()

    class Color(enum.IntEnum):
        RED = 3

    class Pair(tuple):
        pass

    assert jnp.array(Wrapped(jnp.arange(2))).tolist() == [0, 1]
    assert jnp.array([Wrapped(jnp.float32(2)), 1.0]).tolist() == [2.0, 1.0]
    assert jnp.array(Host()).dtype == jnp.int8
    assert jnp.asarray(Picture()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert jnp.array([Picture(), Picture()]).shape == (2, 2, 3)
    assert jnp.array(Speaker()).tolist() == [0.0, 1.0, 2.0]
    assert jnp.array(memoryview(b"ab")).tolist() == [97, 98]
    assert jnp.array(Color.RED).weak_type and jnp.array(Color.RED).item() == 3
    assert jnp.array([Pair((1, 2)), [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert jnp.array(np.arange(3, dtype=">f4")).tolist() == [0.0, 1.0, 2.0]


def test_copies() -> None:
    host = np.ones(3, np.float32)
    made, shared = jnp.asarray(host), jnp.asarray(host, copy=False)
    host[0] = 5
    assert made.tolist() == [1, 1, 1] and shared.tolist() == [5, 1, 1]
    x = jnp.arange(3)
    assert jnp.asarray(x) is x and jnp.array(x) is not x
    y = jnp.array(x)
    x.delete()
    assert y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("copied", [jnp.array, jnp.copy, lambda x: jnp.astype(x, x.dtype, copy=True)])
def test_copies_in_transformed_functions(copied: Any) -> None:
    def as_auxiliary(x: Any) -> Any:
        return xpr.grad(lambda x: (x.sum(), copied(x)), has_aux=True)(x)[1]

    def in_the_backward_pass(x: Any) -> Any:
        return xpr.vjp(copied, x)[1](x)[0]

    def in_a_loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (copied(c), None), x, None, 1)[0]

    for f in (xpr.vmap(copied), as_auxiliary, in_the_backward_pass, in_a_loop, xpr.jit(copied)):
        x = jnp.arange(3.0)
        y = f(x)
        x.delete()
        assert y.tolist() == [0, 1, 2]


def test_a_copy_of_a_result_outlives_it() -> None:
    x = xpr.jit(lambda x: x + 1)(jnp.arange(40_000.0))
    y = x.copy()
    x.delete()
    assert y[3].item() == 4.0


# -- 64 bits


def test_narrowing_warns_where_values_change() -> None:
    with pytest.warns(NarrowingWarning, match=r"float64 .* float32"):
        jnp.array(np.array([1.1]))
    with pytest.warns(NarrowingWarning, match="dtype float64 was asked for"):
        jnp.zeros(2, "float64")
    for quiet in (np.array([1.5]), np.array([3]), [1.1], 1.1, np.float64(1.1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jnp.array(quiet)


def test_wide_dtypes() -> None:
    with xpr.enable_x64(True):
        assert jnp.array([1.0]).dtype == jnp.float64
        assert jnp.array(2**40).item() == 2**40
        assert jnp.array([2**40]).dtype == jnp.int64
        assert jnp.arange(3).dtype == jnp.int64
        assert jnp.linspace(0, 1, 3).dtype == jnp.float64
        assert jnp.zeros(2).dtype == jnp.float64
    assert jnp.array([1.0]).dtype == jnp.float32


# -- Staging


def test_filling_is_an_operation_and_host_values_are_constants() -> None:
    assert str(xpr.make_jaxpr(lambda: jnp.zeros((16,)))()) == (
        "{ lambda ; . let\n    a:f32[16] = broadcast_in_dim[broadcast_dimensions=() shape=(16,)] 0.0\n  in (a,) }"
    )
    staged = xpr.make_jaxpr(lambda: jnp.array([1.0, 2.0]))()
    assert not staged.eqns and len(staged.consts) == 1
    assert [eqn.primitive.name for eqn in xpr.make_jaxpr(lambda: jnp.arange(5))().eqns] == ["iota"]
    assert [eqn.primitive.name for eqn in xpr.make_jaxpr(lambda: jnp.arange(1, 9, 2))().eqns] == ["iota", "mul", "add"]
    assert not xpr.make_jaxpr(lambda: jnp.linspace(0, 1, 5))().eqns
    assert not xpr.make_jaxpr(lambda x: jnp.asarray(x))(1.0).eqns


def test_lists_of_traced_values() -> None:
    f = lambda x, y: jnp.array([[x, 1], [y, x * y]])  # used twice
    np.testing.assert_array_equal(xpr.jit(f)(2.0, 3.0), [[2, 1], [3, 6]])
    np.testing.assert_array_equal(xpr.jacfwd(f)(2.0, 3.0), [[1, 0], [0, 3]])
    np.testing.assert_array_equal(xpr.vmap(f)(jnp.arange(2.0), jnp.arange(2.0))[1], [[1, 1], [1, 1]])
    assert xpr.eval_shape(lambda x: jnp.array([x, 1]), jnp.bfloat16(1)).dtype == jnp.bfloat16


def test_large_arrays_are_made_too() -> None:
    assert jnp.zeros((1200, 1000)).shape == (1200, 1000)
    assert float(np.asarray(jnp.arange(1_200_000))[-1]) == 1_199_999
    np.testing.assert_array_equal(np.asarray(jnp.eye(1030))[5, 4:7], [0, 1, 0])


def test_derivatives_of_what_is_made_of_traced_bounds() -> None:
    slope = xpr.jacfwd(lambda a, b: jnp.linspace(a, b, 5), (0, 1))(1.0, 3.0)
    np.testing.assert_allclose(slope, ([1, 0.75, 0.5, 0.25, 0], [0, 0.25, 0.5, 0.75, 1]))
    samples, step = xpr.jit(lambda a: jnp.linspace(a, 2, 3, retstep=True))(0.0)
    np.testing.assert_allclose(samples, [0, 1, 2])
    assert step.item() == 1.0
    np.testing.assert_allclose(xpr.jit(lambda a: jnp.geomspace(a, 100, 3))(1.0), [1, 10, 100], rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(lambda a: jnp.logspace(a, 2, 3))(0.0), [1, 10, 100], rtol=1e-5)
    with xpr.enable_x64(True):
        for of in (jnp.logspace, xpr.jit(lambda *bounds: jnp.logspace(*bounds, 3))):
            assert of(np.int32(0), np.float32(2)).dtype == of(0, jnp.int32(2)).dtype == "float32"
    columns = xpr.jit(lambda a: jnp.linspace(a, 2, 4, axis=1))(jnp.zeros((2, 3)))
    np.testing.assert_allclose(columns[1], np.linspace(np.zeros(3), 2, 4), rtol=1e-6)
    for bounds in (
        (1.0, np.array([2.0, 3.0, 4.0])),
        (np.ones((3, 1)), np.array([2.0, 3.0])),
        (np.array([2.0, 3.0]), 9.0),
    ):
        for axis in range(-1, 2):
            samples = xpr.jit(lambda a, b, axis=axis: jnp.geomspace(a, b, 5, axis=axis))(*bounds)
            np.testing.assert_allclose(samples, np.geomspace(*bounds, 5, axis=axis), rtol=1e-5)
    for function in (jnp.linspace, jnp.geomspace, jnp.logspace):
        with pytest.raises(ValueError, match="axis 2 is out of bounds"):
            xpr.jit(lambda a, function=function: function(a, 2.0, 5, axis=2))(jnp.ones(3))
    np.testing.assert_allclose(xpr.jacrev(lambda v: jnp.vander(v, 3))(jnp.array([2.0])).reshape(-1), [4, 1, 0])


@pytest.mark.parametrize("f", [jnp.diag, jnp.tril, lambda x: jnp.diagonal(x, 1), lambda x: jnp.diag(x.reshape(-1))])
def test_linear_functions_transpose_and_batch(f: Any) -> None:
    x = jnp.arange(9.0).reshape(3, 3) + 1
    ct = np.random.RandomState(0).rand(*f(x).shape).astype(np.float32)
    (back,) = xpr.vjp(f, x)[1](ct)
    np.testing.assert_allclose(np.vdot(ct, f(x)), np.vdot(back, x), rtol=1e-5)
    rows = jnp.stack([x, 2 * x])
    np.testing.assert_array_equal(xpr.vmap(f)(rows), np.stack([f(x), f(2 * x)]))


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        ("7", "int32", 7), (["1", "2.5"], "float32", [1, 2.5]), ([["1"], [2]], "float32", [[1], [2]]),
        (np.array(["1", "2"]), "int8", [1, 2]), ([np.array("1"), np.float32(2)], "float32", [1, 2]),
        (np.array([1, 2.5], object), "float32", [1, 2.5]), (decimal.Decimal("1.5"), "float32", 1.5),
        ([fractions.Fraction(1, 2), 1], "float32", [0.5, 1]), ("1+2j", "complex64", 1 + 2j), ("nan", "float32", np.nan),
    ],
)  # fmt: skip
def test_text_and_objects_are_read_in_a_dtype_that_is_asked_for(value, dtype, want):
    """As NumPy reads them, which is an error without a dtype."""
    for result in (jnp.array(value, dtype), jnp.asarray(value, dtype), xpr.jit(lambda: jnp.asarray(value, dtype))()):
        np.testing.assert_array_equal(result, want)
        assert result.dtype == dtype and not result.weak_type
    with pytest.raises(TypeError, match="not numeric"):
        jnp.array(value)


def test_text_is_read_beside_traced_values():
    out = xpr.jit(lambda x: jnp.array([x, "2"], jnp.float32))(1.0)
    np.testing.assert_array_equal(out, [1, 2])


# -- Errors

ERRORS = [
    ('jnp.array("abc")', TypeError, "not numeric"),
    ('jnp.array(["abc"])', TypeError, "not numeric"),
    ("jnp.array({1: 2})", TypeError, "not numeric"),
    ("jnp.array(np.array([None, 1]))", TypeError, "not numeric"),
    ('jnp.array(np.array("2020-01-01", "datetime64"), "int32")', TypeError, "not numeric"),
    ("jnp.array('0.5', 'int32')", ValueError, "'0.5' .*can't be read as int32: .*0.5.*. Make numbers of it first"),
    ("jnp.array(['1', 'a'], 'float32')", ValueError, "'a' .*can't be read as float32"),
    ("jnp.array('300', 'int8')", OverflowError, "can't be read as int8: .*300"),
    ("jnp.array(object(), 'int32')", TypeError, "can't be read as int32"),
    ("jnp.array(None)", ValueError, "None"),
    ("jnp.array([1, None])", ValueError, "None"),
    ("jnp.array([[1, 2], [3]])", ValueError, "equal lengths"),
    ("jnp.array([i, i[:2]])", ValueError, "equal lengths"),
    ("jnp.array(2**40)", OverflowError, "too large to convert to int32.*enable_x64"),
    ("jnp.array([1, 2**40])", OverflowError, "1099511627776 too large to convert to int32.*enable_x64"),
    ("jnp.array(2**70)", OverflowError, "int32"),
    ("jnp.array([2**70])", OverflowError, "int32"),
    ('jnp.array(300, "int8")', OverflowError, "300 too large to convert to int8"),
    ('jnp.array([300], "int8")', OverflowError, "int8"),
    ('jnp.array(1j, "float32")', TypeError, "complex"),
    ('jnp.array([1], order="F")', NotImplementedError, "memory order"),
    ("jnp.array(np.ma.array([1, 2]))", ValueError, r"the mask would be lost. Take x.filled\(0\)"),
    ("jnp.zeros(2.5)", TypeError, "concrete values of integer type, and .* is none"),
    ("jnp.zeros((2, 1.0))", TypeError, "concrete values of integer type, and .* is none"),
    ("jnp.zeros(-1)", ValueError, "negative"),
    ("jnp.zeros_like([1, 2])", TypeError, "jnp.array"),
    ("jnp.full(2, [1, 2])", TypeError, "jnp.array"),
    ("jnp.full((2, 2), i)", ValueError, "broadcast"),
    ("jnp.arange(3j)", ValueError, "complex"),
    ("jnp.arange(3, dtype=bool)", TypeError, "booleans"),
    ("jnp.zeros(2, 3)", TypeError, r"jax.numpy.zeros\(2, 3\)` when you meant `jax.numpy.zeros\(\(2, 3\)\)`"),
    ("jnp.full(2, 1, 3)", TypeError, r"3 .* data type. Sizes are given as one tuple, as in zeros\(\(2, 3\)\)"),
    ("jnp.ones(2, dtype=f)", ValueError, "cannot be interpreted as a data type. Give its name or x.dtype"),
    ("jnp.array(3, [('a', '<i4')])", TypeError, "cannot be interpreted as a data type"),
    ("jnp.arange(1, 3, 0)", ZeroDivisionError, "step"),
    ("jnp.arange(i)", ValueError, "numbers"),
    ("jnp.linspace(0, 1, -1)", ValueError, "negative"),
    ("jnp.eye(-1)", ValueError, "negative"),
    ("jnp.tril(i)", ValueError, "two axes"),
    ("jnp.diag(t)", ValueError, "vector or a matrix"),
    ("jnp.diagonal(i)", ValueError, "two axes"),
    ("jnp.diagonal(m, 0, 1, 1)", ValueError, "both 1"),
    ("jnp.meshgrid(m)", ValueError, "vectors"),
    ('jnp.meshgrid(i, indexing="ji")', ValueError, "indexing"),
    ("jnp.vander(m)", ValueError, "vector"),
    ("jnp.fill_diagonal(m, 1)", NotImplementedError, "inplace=False"),
    ("jnp.fill_diagonal(i, 1, inplace=False)", ValueError, "takes a matrix"),
    ("jnp.from_dlpack(3)", TypeError, "__dlpack__"),
    ('jnp.r_["x", i]', ValueError, "directive"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[0] for row in ERRORS])
def test_errors(call: str, error: type[Exception], message: str) -> None:
    arrays = {name: jnp.asarray(value) for name, value in ARRAYS.items()}
    with pytest.raises(error, match=message):
        eval(call, {"jnp": jnp, "np": np, **arrays})


def test_lists_of_unequal_lengths_are_refused_under_a_transfer_guard() -> None:
    with xpr.transfer_guard("log"), pytest.raises(ValueError, match="equal lengths"):
        jnp.array([[1, 2], [3]])


def test_traced_sizes_are_refused() -> None:
    with pytest.raises(TracerIntegerConversionError, match="static_argnums"):
        xpr.jit(lambda n: jnp.zeros(n))(3)
    with pytest.raises(TracerIntegerConversionError):
        xpr.jit(lambda n: jnp.zeros((2, n)))(3)
    with pytest.raises(ConcretizationTypeError):
        xpr.jit(lambda n: jnp.arange(n))(3)


# -- dtypes by name

NAMES = "bool_ int4 int8 int16 int32 int64 uint8 uint32 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_by_name(name: str) -> None:
    scalar_type = getattr(jnp, name)
    dtype = np.dtype(scalar_type)
    assert dtype == scalar_type and scalar_type == dtype and scalar_type == dtype.type
    assert dtype.name == name.strip("_")
    assert {scalar_type: 1}[scalar_type] == 1 and hash(scalar_type) == hash(dtype.type)
    with xpr.enable_x64(True):
        made = scalar_type(1)
        assert made.dtype == scalar_type and not made.weak_type
        assert jnp.zeros(2, scalar_type).dtype == dtype
        assert xpr.jit(scalar_type)(jnp.int8(1)).dtype == dtype


def test_scalar_types_make_arrays() -> None:
    assert jnp.float32([1, 2]).shape == (2,)
    assert jnp.float32 != jnp.float64 and jnp.float32 is not float and jnp.single is jnp.float32
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating) and jnp.issubdtype(jnp.int4, jnp.integer)
    assert jnp.issubdtype(np.float32, jnp.inexact) and not jnp.issubdtype(jnp.float32, jnp.integer)
    assert jnp.finfo(jnp.bfloat16).bits == 16 and jnp.iinfo(jnp.int8).max == 127
    assert repr(jnp.float32) == "<class 'xpr.numpy.float32'>"  # as of NumPy's, whose name JAX-GalSim takes out of it


PROMOTIONS = [
    "jnp.promote_types(jnp.float32, int)", 'jnp.promote_types("int64", "float64")', "jnp.result_type(1.0, jnp.int8(2))",
    "jnp.result_type(1.0)", 'jnp.result_type("int8")', "jnp.result_type(int, jnp.float16)", "jnp.result_type(i, 2.5)",
    "jnp.promote_types(jnp.int32, jnp.bfloat16)", "jnp.result_type(h, jnp.bfloat16)", "jnp.result_type(True, 1)",
    'jnp.promote_types("int32", "uint32")', "jnp.promote_types(int, float)", 'jnp.result_type("int32", "uint32")',
    'jnp.promote_types("float64", "complex64")', 'jnp.promote_types("int4", int)', "jnp.result_type(None)",
    'jnp.promote_types("float6_e2m3fn", "int32")', 'jnp.promote_types("float4_e2m1fn", float)',
    "jnp.can_cast(int, jnp.float32)", "jnp.can_cast('float64', 'float32')", "jnp.can_cast(jnp.bfloat16, 'float32')",
    "jnp.isscalar(1.0), jnp.isscalar(i[0]), jnp.isscalar(i), jnp.isscalar('a'), jnp.isscalar(np.array(1))",
    "jnp.iscomplexobj(None), jnp.iscomplexobj([1j]), jnp.iscomplexobj(True)", "jnp.iscomplexobj([f[0], 1j])",
    "jnp.iscomplexobj(f * 1j), jnp.iscomplexobj(f), jnp.iscomplexobj(1j), jnp.isrealobj(f)",
]  # fmt: skip


@needs_jax
@pytest.mark.parametrize("call", PROMOTIONS)
def test_promotion_of_dtypes(call: str) -> None:
    check(call, ARRAYS, 0.0)


def test_dtypes_of_few_bits_are_not_converted_implicitly() -> None:
    few = jnp.ones(2, "int4")
    assert (few + 1).dtype == (few + True).dtype == "int4"
    for other, name in [(0.5, "a Python float"), (jnp.ones(2, "int8"), "int8"), (jnp.ones(2), "float32")]:
        with pytest.raises(xpr.errors.TypePromotionError, match=f"int4 and {name} .*: 4-bit integers do not .*astype"):
            few * other
    with pytest.raises(xpr.errors.TypePromotionError, match="float8_e5m2 and float32 .*8-bit floats do not"):
        jnp.promote_types("float8_e5m2", "float32")


def test_arrays_of_libraries_have_the_dtype_that_they_say() -> None:
    class Named:
        shape, dtype = (2,), np.dtype("float16")

    assert jnp.result_type(Named(), 1.0) == jnp.result_type(jnp.int8(1), Named()) == np.float16


def test_the_type_that_values_promote_to() -> None:
    result_type = xpr.dtypes.result_type
    assert result_type(None) == result_type(1.0, jnp.int8(2)) == result_type("float32", np.float16) == np.float32
    assert result_type(1, return_weak_type_flag=True) == (np.int32, True)
    assert result_type(jnp.ones(2), 1, return_weak_type_flag=True) == (np.float32, False)
    for promoted in (result_type, jnp.result_type):  # dtypes are narrowed before they meet, as arrays of them are
        assert promoted("uint64", "int32") == promoted(np.uint64(1), np.int64) == np.int32
        assert promoted(xpr.random.key(0).dtype) == xpr.random.key(0).dtype
    with pytest.raises(ValueError, match="at least one array or dtype"):
        result_type()
    with xpr.numpy_dtype_promotion("strict"), pytest.raises(xpr.errors.TypePromotionError, match="not converted"):
        result_type("float32", "int8")


@needs_jax
def test_kinds_of_dtypes() -> None:
    jax = JAX.numpy
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
             float, ("integral", "bool"), "float32"]  # fmt: skip
    for kind in [*kinds, "jnp.float32"]:
        for name in (*NAMES, "float", "int"):
            ours = jnp.isdtype(getattr(jnp, name, name), jnp.float32 if kind == "jnp.float32" else kind)
            theirs = jax.isdtype(getattr(jax, name, name), jax.float32 if kind == "jnp.float32" else kind)
            assert ours == theirs, (name, kind)
    with pytest.raises(ValueError, match="real floating"):
        jnp.isdtype(jnp.float32, "foo")


def test_bfloat16_values_are_exact() -> None:
    np.testing.assert_array_equal(
        np.asarray(jnp.arange(5, dtype=jnp.bfloat16)), np.arange(5).astype(ml_dtypes.bfloat16)
    )


@needs_jax
def test_the_namespace_describes_itself() -> None:
    for x64 in (False, True):
        with xpr.enable_x64(x64), JAX.enable_x64(x64):
            ours, theirs = (library.numpy.__array_namespace_info__() for library in (xpr, JAX))
            assert ours.capabilities() == theirs.capabilities() and ours.default_device() is None
            assert ours.default_dtypes() == theirs.default_dtypes() and len(ours.devices()) == len(theirs.devices())
            for kind in (None, "bool", "integral", "signed integer", "real floating", "numeric", ("bool", "integral")):
                assert ours.dtypes(kind=kind) == theirs.dtypes(kind=kind)
            with pytest.raises(ValueError, match="imaginary"):
                ours.dtypes(kind="imaginary")


def test_uniform_numbers_without_a_key() -> None:
    draw = xpr.jit(lambda: lax.rng_uniform(2.0, 3.0, (1000,)))
    x, y = draw(), draw()
    assert (x != y).any() and ((x >= 2) & (x < 3)).all() and abs(x.mean() - 2.5) < 0.1
    assert set(np.asarray(lax.rng_uniform(1, 3, (50,))).tolist()) == {1, 2}
    for a, b, message in [
        (jnp.ones(2), 1.0, "must be scalars"),
        (1, 2.0, "of one dtype"),
        (np.int8(1), np.int8(2), "one of bf16"),
    ]:
        with pytest.raises(ValueError, match=message):
            lax.rng_uniform(a, b, (2,))
    with pytest.raises(xpr.errors.UnsupportedRule, match="random.uniform"):
        xpr.vmap(lambda a: lax.rng_uniform(a, 3.0, ()))(jnp.ones(2))


@pytest.mark.parametrize("num", [0, 1, 2])
@pytest.mark.parametrize("endpoint", [True, False])
def test_distances_of_traced_samples(num: int, endpoint: bool) -> None:
    start, stop = np.float32([1, 2]), np.float32(0)

    def samples(start: Any, stop: Any) -> Any:
        return jnp.linspace(start, stop, num, endpoint, retstep=True)

    for traced, known in zip(xpr.jit(samples)(start, stop), samples(start, stop), strict=True):
        assert traced.shape == known.shape and traced.dtype == known.dtype
        np.testing.assert_allclose(traced, known)


def test_grids_of_integers_and_floats_where_promotion_is_strict():
    with xpr.numpy_dtype_promotion("strict"):
        assert jnp.mgrid[1:6:8j, 2:4].dtype == np.float32 and jnp.ogrid[0:1:3j, :2][1].dtype == np.float32


def test_arrays_are_no_dtypes() -> None:
    for call in (
        lambda x: lax.convert_element_type(jnp.ones(3), x),
        lambda x: lax.iota(x, 3),
        lambda x: lax.argmax(jnp.ones(3), 0, x),
        lambda x: jnp.zeros(3, x),
    ):
        for array in (jnp.ones(3), np.ones(3)):
            for error in (TypeError, ValueError):
                with pytest.raises(error, match="cannot be interpreted as a data type. Give its name or x.dtype"):
                    call(array)


def test_casts_from_numpy_arrays() -> None:
    assert jnp.can_cast(np.zeros(2, np.int8), "int16") and not jnp.can_cast(np.float32(2), "int16")


@pytest.mark.parametrize(
    ("value", "dtype", "error", "message"),
    [
        (np.nan, int, ValueError, "^cannot convert float NaN to integer$"),
        ([1, np.nan], int, ValueError, "^cannot convert float NaN to integer$"),
        (np.inf, "int8", OverflowError, "cannot convert float infinity to integer"),
        (300.5, "uint8", OverflowError, "Python int 300 too large to convert to uint8"),
    ],
)
def test_floats_that_are_no_integers(value: Any, dtype: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jnp.array(value, dtype)
    assert jnp.array(-1.7, "int8") == -1

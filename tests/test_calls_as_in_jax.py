"""Calls that jax takes, with batches, scalars, complex numbers and buffers: values and types are jax's."""

from __future__ import annotations

import array
from collections import UserDict, UserList, deque

import numpy as np
import pytest

import xpr
import xpr.nn
import xpr.numpy as jnp
from tests.peer import agree, check
from xpr import dtypes, lax

ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3) + 1,
    "n": np.arange(6, dtype=np.int32),
    "u": np.arange(6, dtype=np.uint8),
    "z": np.array([1 + 1j, 2, 1, -3 + 1j], np.complex64),
    "w": np.array([1 + 2j, 2, 5j, -3], np.complex64),
    "a": np.array([1.5, 2.0, -0.25], np.float32),
    "none": np.zeros(3, bool),
}
CALLS = [
    "jnp.c_['r', [1, 2, 3], [4, 5, 6]]", "jnp.c_['c', [1, 2, 3], [4, 5, 6]]", "jnp.r_['r', x, x]", "jnp.r_['c', x, x]",
    "jnp.r_['c', [1, 2], [3, 4]]", "jnp.c_['c', x, x]",
    "jnp.fromfunction(lambda i, j: (i, j * 2), (2, 3))",
    "jnp.setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 4]), size=5)",
    "jnp.setxor1d(jnp.array([1]), jnp.array([1]), size=2)",
    "jnp.cumulative_sum(n, dtype=bool)", "jnp.cumulative_sum(n, dtype=bool, include_initial=True)",
    "nn.log_softmax(a, where=none)", "nn.log_softmax(a, where=a > 0)", "nn.softmax(a, where=none)",
    "jnp.round(a, 500)", "jnp.round(a, 40)", "jnp.round(a, -50)", "jnp.round(1.5, 500)",
    "jnp.round(jnp.array([1000.0], jnp.float16), 3)", "jnp.round(z, 500)",
    *(f"jnp.{f}(z, w)" for f in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")),
    "z < 2", "2.0 >= z", "jnp.minimum(jnp.maximum(z, 0), 2)", "jnp.where(z > w, z, w)",
    "jnp.polyval(x, jnp.ones(3))", "jnp.polyval(x, 2.0)", "jnp.polyval(x, jnp.ones((4, 3)))", "jnp.polyval(x, x)",
    "jnp.polyadd(x, x[:1])", "jnp.polysub(x[:1], x)", "jnp.polyadd(x[..., None], x[..., None])",
    "lax.reduce_window(n, -inf, lax.max, (2,), (1,), 'VALID')",
    "lax.reduce_window(u, inf, lax.min, (2,), (1,), 'VALID')",
    "lax.reduce_window(n, 0.0, lax.add, (2,), (1,), 'VALID')", "lax.reduce(n, -inf, lax.max, (0,))",
    "jnp.einsum('a1->1a', x)", "jnp.einsum('a1,1b->ab', x, x.T)",
    "jnp.piecewise(jnp.array(2.0), [True, False], [1.0, 2.0])",
    "jnp.piecewise(a, [True, False], [lambda v: v + 1, 2.0])",
    "jnp.piecewise(a, [jnp.array(False), False], [1, 2, 3])",
    "jnp.piecewise(a, jnp.array([False, True, False]), [lambda v: v * 0, lambda v: v * 10, 7])",
    "jnp.polyadd(x, jnp.ones(1))", "jnp.polysub(jnp.ones(1), x)", "jnp.polysub(x[None], x[:1])",
    "jnp.equal(1, 1.0)", "jnp.array(1.0) < 2", "jnp.isnan(6)", "jnp.equal(jnp.array(5), 5) != 1", "jnp.isin(1.0, 2.0)",
    "jnp.logical_or(jnp.equal(1, 1), jnp.equal(1, 2))", "jnp.logical_not(jnp.equal(1, 1))",
    "jnp.stack([jnp.equal(1, 1), jnp.less(1, 2)])", "jnp.any(jnp.equal(1, 1))", "lax.ge(1.0, 2.0)",
    "jnp.logical_and(jnp.equal(1, 1), 2)", "jnp.logical_xor(1, 2)", "jnp.logical_and(True, True)", "jnp.logical_not(1)",
    "jnp.logical_or(x, 1)", "jnp.iscomplex(1.0)", "jnp.isreal(1.0)",
    "lax.broadcast_in_dim(x, (3, 2), (1, 0))",
    "lax.broadcast_in_dim(x[:, :1], (4, 2), (1, 0))",
    "lax.full(3, 1.0)", "lax.full(3, 1)", "lax.full((2, 1), 7.0)", "lax.full_like(a, 1, shape=2)", "lax.reshape(x, 6)",
    "lax.igamma(a=a[:2], x=2.0)", "lax.igammac(a=a[:2], x=a[:2])", "lax.polygamma(m=1.0, x=a[0])",
    "lax.zeta(x=2.0, q=a[0])", "jnp.trunc(x=a)",
    "lax.nextafter(x1=a, x2=1.0)", "jnp.fmax(x1=a, x2=1.0)", "jnp.fmin(x1=a, x2=1.0)", "jnp.gcd(x1=n, x2=4)",
    "lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN)", "lax.mulhi(n * 10**9, n * 2)", "lax.mulhi(u * 30, u * 40)",
    "lax.exp(a, accuracy=lax.AccuracyMode.HIGHEST)", "lax.log1p(a, accuracy=lax.Tolerance(rtol=1e-3))",
    "a.astype(int, True)", "lax.reshape(x, (6,), (1, 0))",
    "lax.empty(3, 'float32') * 0", "jnp.setdiff1d(a, a)",
    "lax.mul(u * 50, u, out_dtype='int32')", "lax.squeeze(2.0, ())", "lax.bitcast_convert_type(a, 'int4')",
    "lax.bitcast_convert_type(lax.iota('uint4', 8).reshape(4, 2), 'int8')",
    "lax.dot(a.astype('float8_e5m2'), a.astype('float8_e4m3fn'), preferred_element_type='float32')",
    "lax.gather(n[:0], n[:0, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,))",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_call_is_as_in_jax(call):
    concrete = any(name in call for name in ("setdiff1d", "_['"))
    check(call, ARRAYS, staged=not concrete)


def test_broadcast_in_dim_transposes_squares_too():
    """Where jax gives the operand as it is."""
    x = jnp.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(lax.broadcast_in_dim(x, (2, 2), (1, 0)), x.T)


def test_piecewise_takes_a_condition_alone():
    np.testing.assert_array_equal(jnp.piecewise(jnp.arange(3.0), True, [lambda x: x + 1]), [1, 2, 3])
    assert jnp.piecewise(2.0, 2.0 > 1, [5, 6]) == 5


def test_fromfunction_of_a_function_that_gives_a_tree():
    found = agree(lambda jax: jax.numpy.fromfunction(lambda i, j: {"sum": i + j, "both": (i, j)}, (2, 3)))
    assert found["sum"].shape == (2, 3) and found["both"][1].shape == (2, 3)


def test_extremes_and_orders_of_complex_numbers_have_derivatives_and_rows():
    """XLA ends the process over a maximum of complex numbers."""
    z, w = jnp.asarray(ARRAYS["z"]), jnp.asarray(ARRAYS["w"])
    np.testing.assert_array_equal(xpr.jit(jnp.maximum)(z, w), np.maximum(z, w))
    assert np.isnan(xpr.jit(jnp.minimum)(jnp.array([1j]), jnp.array([complex(0, np.nan)]))).all()
    np.testing.assert_array_equal(xpr.vmap(jnp.less, in_axes=(0, None))(z, w[0]), np.less(z, w[0]))
    slope = xpr.grad(lambda z: jnp.maximum(z, w).real.sum(), holomorphic=False)(z)
    np.testing.assert_array_equal(slope, [0, 0.5, 1, 1])
    np.testing.assert_array_equal(jnp.searchsorted(jnp.array([1j, 1, 1 + 1j]), jnp.array([0.5, 1])), [1, 1])


def test_arrays_of_buffers():
    numbers = array.array("i", [1, 2, 3])
    assert jnp.array(numbers).dtype == jnp.int32 and jnp.asarray(array.array("d", [0.5])).dtype == jnp.float32
    np.testing.assert_array_equal(jnp.array([numbers, numbers]), [[1, 2, 3]] * 2)
    with pytest.raises(TypeError, match="not numeric"):
        jnp.array(object())


class Squares:
    """A sequence by the methods that NumPy asks for, as iminuit's views of values are."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return range(3)[index] ** 2


def test_arrays_of_sequences_that_are_no_lists():
    def uses(jax):
        given = [Squares(), deque([1, 2.5]), UserList([1, 2]), [Squares(), Squares()], [deque([True, False])]]
        return [(jax.numpy.array(x), jax.numpy.asarray(x, dtype=float)) for x in given]

    agree(uses)
    traced = xpr.jit(lambda x: jnp.array(deque([x, x * 2])))(1.0)
    np.testing.assert_array_equal(traced, [1, 2])
    with pytest.raises(TypeError, match="not numeric"):
        jnp.array(UserDict({0: 1.0}))


def test_eval_shape_of_a_function_that_gives_types():
    given = xpr.ShapeDtypeStruct((2,), jnp.float32)
    assert xpr.eval_shape(lambda: given) == given
    found = xpr.eval_shape(lambda x: {"x": x, "given": given}, 1.0)
    assert found["given"] == given and found["x"].weak_type


SMALL = ["float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float8_e5m2", "int4", "uint4"]


@pytest.mark.parametrize("dtype", SMALL)
def test_dtypes_of_few_bits(dtype):
    """Made of numbers, multiplied, compared, ordered, converted: beside jax."""

    def uses(jax):
        np_, own = jax.numpy, getattr(jax.numpy, dtype)
        x = np_.array([1, 2, 0.5, 1], own)
        outs = [x, x + x, jax.jit(lambda x: x * x)(x), np_.where(x > x[3], x, x[0]), np_.sort(x)]
        return [each.astype("float32") for each in outs]

    agree(uses)
    info = (jnp.iinfo if "int" in dtype else jnp.finfo)(dtype)
    assert xpr.dtypes.itemsize_bits(np.float32) == 32 and {info: 1}[info]
    assert xpr.dtypes.itemsize_bits(dtype) == int("".join(c for c in dtype[:6] if c.isdigit()))
    assert xpr.dtypes.scalar_type_of(jnp.ones(1, dtype)) is (int if "int" in dtype else float)


@pytest.mark.parametrize("dtype", ["int4", "uint8", "int16", "uint32", "int64", "uint64"])
def test_selectors_of_any_integers(dtype):
    """The number of a case may not be one of the dtype's; numbers beyond the last case select it."""
    with xpr.enable_x64():
        which = np.array([0, 1, 2, 6, 7]).astype(dtype)
        cases = [np.full(5, i, np.float32) for i in range(20)]
        for f in (lax.select_n, xpr.jit(lax.select_n), lambda w, *xs: xpr.vmap(lax.select_n)(w, *xs)):
            np.testing.assert_array_equal(f(which, *cases), [0, 1, 2, 6, 7])
            np.testing.assert_array_equal(f(which, *cases[:3]), [0, 1, 2, 2, 2])
        if dtype.startswith("u"):
            np.testing.assert_array_equal(xpr.jit(lax.select_n)(which - which.dtype.type(1), *cases[:3])[:2], [2, 0])
    with pytest.raises(TypeError, match=r"the selector must be bool \(up to two cases\) or of integers, and the"):
        lax.select_n(np.ones(5, np.float32), *cases[:2])


def test_paddings_are_python_integers():
    assert type(lax.padtype_to_pads(np.array([9, 9]), np.array([3, 2]), np.array([1, 2]), "SAME")[0][0]) is int


def test_contractions_of_two_dtypes_that_are_given_a_third():
    with xpr.numpy_dtype_promotion("strict"):
        out = lax.dot(jnp.ones(2, "complex64"), jnp.ones(2, "int16"), preferred_element_type="complex64")
    assert out == 2


def test_isinstance_of_dtypes():
    """As in jax, where `jnp.float32` stands for NumPy's scalar type."""
    assert isinstance(np.float32(1), jnp.float32) and not isinstance(np.float64(1), jnp.float32)
    assert not isinstance(jnp.float32(1), jnp.float32) and not isinstance(1.0, jnp.float32)
    assert isinstance(jnp.bfloat16(1).item(), float) and not isinstance(3, jnp.int_)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_spacing_of_negative_and_subnormal_numbers(dtype):
    """By bits, since XLA flushes subnormal numbers to zero on CPU; NumPy and jax count float16 towards infinity."""
    info = jnp.finfo(dtype)
    tiny, small = info.smallest_subnormal, info.smallest_normal
    x = jnp.array([1, -1, 0, tiny, -tiny, small, -3, info.max, np.inf, np.nan], dtype)
    found = np.asarray(xpr.jit(jnp.spacing)(x))
    np.testing.assert_array_equal(found.astype(float), np.asarray(jnp.spacing(x)).astype(float))
    if dtype != "bfloat16":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, np.spacing(np.asarray(x)))


# -- Objects that hold an array


class Held:
    """Gives its array by `__jax_array__`, and hands on all else to it, as parameters of networks are made."""

    def __init__(self, value):
        self.__dict__["value"] = value

    def __jax_array__(self):
        return self.value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)


USES = [
    lambda p, x: jnp.sin(p) * x, lambda p, x: x + p, lambda p, x: x @ p, lambda p, x: jnp.add(1, p), lambda p, x: x < p,
    lambda p, x: jnp.sum(p), lambda p, x: lax.mul(p, x), lambda p, x: lax.sin(p), lambda p, x: jnp.where(x > 1, p, x),
    lambda p, x: x.at[0].set(jnp.max(p)), lambda p, x: x.at[:].add(p), lambda p, x: jnp.array([p, x]),
    lambda p, x: jnp.concatenate([p, x]), lambda p, x: lax.scan(lambda c, v: (c + v, v), 0.0, p),
    lambda p, x: lax.cond(True, lambda v: v + 1, lambda v: v, p),
    lambda p, x: xpr.grad(lambda v: (v * p).sum())(x), lambda p, x: xpr.vmap(lambda v: v * 2)(p),
    lambda p, x: jnp.linspace(jnp.max(p), Held(x[0]), 3), lambda p, x: Held(x * 2) if isinstance(p, Held) else x * 2,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(USES)))
def test_objects_with_an_array(number):
    """In every entry point, under every transformation: nothing of them is taken for a constant."""
    use, x = USES[number], jnp.array([1.0, 2.0, 3.0])

    def run(hold):
        fun = lambda w: xpr.tree.map(jnp.asarray, use(hold(w), x * w))
        return [fun(x), xpr.jit(fun)(x), xpr.jvp(fun, (x,), (x,)), xpr.vmap(fun)(x[None]), xpr.linearize(fun, x)[1](x),
                xpr.jit(lambda x: xpr.jvp(fun, (x,), (x,)))(x)]  # fmt: skip

    for held, plain in zip(xpr.tree.leaves(run(Held)), xpr.tree.leaves(run(lambda w: w)), strict=True):
        if held.dtype != dtypes.float0:
            np.testing.assert_allclose(held, plain, rtol=1e-6)


def test_objects_with_an_array_index_and_are_results():
    x = jnp.array([1.0, 2.0, 3.0])
    places = Held(jnp.array([0, 2]))
    np.testing.assert_array_equal(x[places], [1, 3])
    np.testing.assert_array_equal(xpr.jit(lambda i: x.at[Held(i)].set(0.0))(jnp.array([1])), [1, 0, 3])
    assert xpr.grad(lambda x: Held(x * x))(3.0) == 6
    assert xpr.jit(lambda x: Held(x + 1))(jnp.float32(1)) == 2


@pytest.mark.parametrize("around", [lambda f: f, xpr.jit])
def test_objects_with_an_array_are_no_arguments_of_jit(around):
    with pytest.raises(ValueError, match=r"argument v of .* is of type .*Held, which is no array.*Pass .*asarray\(v\)"):
        around(lambda x: xpr.jit(lambda v: v * 2)(Held(x)))(jnp.ones(3))


# -- Messages


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: xpr.eval_shape(lambda x: lax.top_k(x, 2), xpr.ShapeDtypeStruct((2**31 + 1,), "int8")), ValueError,
         "top_k returns int32 indices, which will overflow"),
        (lambda: lax.scatter(jnp.ones((2, 3)), jnp.zeros((4, 1), int), jnp.ones(4),
                             lax.ScatterDimensionNumbers((), (0, 0), (0,))), TypeError, "must not repeat"),
        (lambda: lax.scatter(jnp.ones((2, 3)), jnp.zeros((4, 1), int), jnp.ones((4, 3)),
                             lax.ScatterDimensionNumbers((7,), (0,), (0,))), TypeError, "Invalid update_window_dims"),
        (lambda: lax.mulhi(1.0, 2.0), TypeError, "mulhi: takes integers of one dtype, and got f32.. and f32"),
        (lambda: lax.Tolerance(), ValueError, "must be positive, or 0 and not all"),
        (lambda: jnp.clip(max=3), ValueError, "no array was given"),
        (lambda: lax.scan(lambda c, _: (c, c), 0.0, None, length=-1), ValueError, "scan: `length` is the number"),
        (lambda: lax.scan(lambda c, _: (c, None), 0.0, None, length=1 << 40), OverflowError, "counted in 32 bits"),
        (lambda: lax.broadcasted_iota(bool, (2,), 0), TypeError, "iota: counts numbers, and was asked for bool"),
        (lambda: lax.broadcasted_iota("int32", (2,), 3), ValueError, "there is no axis 3"),
        (lambda: lax.bitcast_convert_type(jnp.ones(2, "complex64"), "int32"), TypeError, "c64.2. to i32: the bits of"),
        (lambda: lax.bitcast_convert_type(jnp.ones(2, bool), "int8"), TypeError, "booleans and complex"),
        (lambda: lax.reduce_precision(jnp.ones(2), -1, 2), ValueError, "at least 1 exponent bit"),
        (lambda: lax.select_n(jnp.ones(2, bool)), TypeError, "at least one case"),
        (lambda: lax.pad(jnp.ones(2), 0.0, [(0, 0, -1)]), ValueError, "interior padding in padding_config must be"),
        (lambda: lax.pad(jnp.ones(2), jnp.ones(2), [(0, 0, 0)]), ValueError, "padding_value must be a scalar"),
        (lambda: lax.pad(jnp.ones(2), 0.0, [(-4, 0, 1)]), ValueError, "size after padding is not at least 0"),
        (lambda: lax.pad(jnp.ones(2), jnp.int32(0), [(0, 0, 0)]), TypeError, "must have the array"),
        (lambda: lax.argmax(jnp.ones((2, 3)), -1, "int32"), ValueError, "argmax: Invalid axis -1 for operand f32.2,3."),
        (lambda: lax.reduce({"x": jnp.ones(3)}, {"y": 0.0}, lambda x, y: x, (0,)), ValueError, "init_values"),
        (lambda: lax.reduce(jnp.ones(3), jnp.ones(3), lax.add, (0,)), ValueError, "non-scalar initial value"),
        (lambda: lax.reduce(jnp.ones(3), 0.0, lax.add, (0, 0)), ValueError, r"duplicate value in 'axes' \(0, 0\)"),
        (lambda: lax.conv_general_dilated_patches(jnp.ones((1, 1, 4, 4)), (2, 2), (1, 1), (3, 3)), ValueError,
         r"padding argument must be .*, got \(3, 3\)"),
        (lambda: lax.conv_general_dilated_patches(1.0, (1,), (1,), "SAME"), ValueError, "slides over 1 axes"),
        (lambda: lax.gather(jnp.ones(2), jnp.ones((1, 1), int), None, (1,)), TypeError, "dimension_numbers are"),
        (lambda: lax.stack([jnp.ones(2)], 7), ValueError, "axis 7 is out of bounds"),
        (lambda: lax.slice_in_dim(jnp.ones(2), 0, 1, axis=3), ValueError, "axis 3 is out of bounds"),
        (lambda: lax.expand_dims(jnp.ones(2), (5,)), ValueError, "axis 5 is out of bounds"),
        (lambda: lax.squeeze(jnp.ones((2, 1)), (4,)), ValueError, "axis 4 is out of bounds"),
        (lambda: lax.approx_max_k(1.0, 1), ValueError, "axis -1 is out of bounds"),
        (lambda: lax.pad(jnp.arange(3), 1.5, [(1, 0, 0)]), TypeError, "the padding value must have the array's dtype"),
        (lambda: lax.dynamic_update_index_in_dim(jnp.arange(3), 1.5, 0, 0), TypeError, "must have one dtype"),
        (lambda: lax.concatenate([], 0), TypeError, "concatenate: there is nothing to join"),
        (lambda: lax.round(1.5, 2), ValueError, "2 is not a valid RoundingMethod"),
        (lambda: lax.integer_pow(2.0, 0.5), TypeError, "integer_pow: the power must be a static integer, and is 0.5"),
        (lambda: lax.full(2.5, 1.0), TypeError, "concrete values of integer type, and 2.5"),
        (lambda: lax.full(-1, 1.0), TypeError, "no negative sizes"),
        (lambda: jnp.zeros(-1), ValueError, "no negative sizes"),
        (lambda: lax.reduce_window(jnp.arange(3), 0.5, lax.add, (2,), (1,)), TypeError, "initial value for i32.3."),
        (lambda: jnp.sum(jnp.ones(2), axis=1.5), TypeError, "1.5 cannot be interpreted as an integer"),
        (lambda: xpr.jit(lambda a: jnp.sum(jnp.ones((2, 3)), a))(0), xpr.errors.TracerIntegerConversionError,
         "The number of an axis needs the value"),
        (lambda: jnp.polyadd(jnp.ones((2, 2)), jnp.ones(3)), ValueError, "polyadd: .* has more axes"),
        (lambda: jnp.isposinf(1j), ValueError, "isposinf: complex numbers have no sign"),
        (lambda: jnp.isposinf(1.0, jnp.ones(())), NotImplementedError, "isposinf: out= is not supported"),
        (lambda: jnp.isneginf(1.0, jnp.ones(())), NotImplementedError, "isneginf: out= is not supported"),
        (lambda: jnp.round(1.0, out=jnp.ones(())), NotImplementedError, "round: out= is not supported"),
        (lambda: jnp.modf(1.0, jnp.ones(())), NotImplementedError, "modf: out= is not supported"),
        (lambda: jnp.linspace(0, 1, 5.0), TypeError, "cannot be interpreted as an integer"),
        (lambda: jnp.linalg.cross(jnp.ones(3), jnp.ones(3), axis=1), ValueError, "axis 1 is out of bounds"),
        (lambda: jnp.percentile(jnp.ones(3), 150), ValueError, "q must lie between 0 and 100, and is 150"),
        (lambda: lax.broadcast_in_dim(jnp.ones((2, 3)), (3, 2), (0, 0)), TypeError, "does not broadcast"),
        (lambda: lax.broadcast_in_dim(jnp.ones((2, 2)), (2, 2), (0, 0)), TypeError, "does not broadcast"),
    ],
)  # fmt: skip
def test_message(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert "stablehlo" not in str(raised.value).lower()


MADE = [
    "jnp.array(0)", "jnp.asarray([1, 2])", "jnp.array(np.arange(3))", "jnp.float32(3)", "jnp.zeros(())", "jnp.zeros(3)",
    "jnp.full((), 3)", "jnp.linspace(0, 1, 3)", "jnp.arange(3)", "jnp.eye(2)", "lax.full((), 1)", "lax.reshape(1, ())",
]  # fmt: skip


@pytest.mark.parametrize("call", MADE)
def test_what_a_function_makes_while_it_is_staged_is_a_tracer(call):
    """Also under transformations in a staged function; what is made elsewhere is a value."""

    def kind(_=0.0):
        kinds.append(isinstance(eval(call, {"jnp": jnp, "np": np, "lax": xpr.lax}), xpr.core.Tracer))
        return 0.0

    kinds = []
    kind()
    xpr.grad(kind)(1.0)
    xpr.vmap(kind)(jnp.ones(2))
    xpr.jit(kind)(1.0)
    xpr.jit(xpr.grad(kind))(1.0)
    xpr.lax.scan(lambda carry, _: (carry, kind()), 0, None, length=1)
    assert kinds == [False, False, False, True, True, True]


def test_a_constant_of_a_staged_function_is_no_equation():
    assert str(xpr.make_jaxpr(lambda x: x + jnp.array(2.0))(1.0)).split() == (
        "{ lambda ; a:f32[]. let b:f32[] = add a 2.0 in (b,) }".split()
    )
    closed = xpr.make_jaxpr(lambda: jnp.array([1, 2]))()
    assert not closed.jaxpr.eqns and closed.consts[0].tolist() == [1, 2]
    assert not xpr.make_jaxpr(lambda x: [x, jnp.array([1, 2])][0])(1.0).consts


def test_the_value_of_a_constant_is_known():
    """Where only a value will do it has one, as it would have if NumPy had made it."""

    @xpr.jit
    def f(x):
        n = int(jnp.array(2))
        assert bool(jnp.array(True)) and jnp.zeros(jnp.array(3)).shape == (3,)
        masked = x[jnp.array([True, False, True, False])]
        gathered = xpr.make_jaxpr(lambda x: x[jnp.array([2, -1])])(x)
        assert [str(eqn.primitive) for eqn in gathered.eqns] == ["gather"]
        return masked[:n]

    assert f(jnp.arange(4)).tolist() == [0, 2]


def test_a_constant_that_outlives_its_function_is_an_error():
    kept = []
    xpr.jit(lambda: kept.append(jnp.array(0)))()
    with pytest.raises(xpr.errors.UnexpectedTracerError):
        jnp.sin(kept[0])


UNCHANGED = [
    "full((), 1)", "broadcast(1.0, ())", "broadcast(x, ())", "broadcast_in_dim(x, (2, 3), (0, 1))", "reshape(1, ())",
    "reshape(x, (2, 3))", "transpose(x, (0, 1))", "expand_dims(x, ())", "concatenate([x], 0)", "collapse(x, 0, 1)",
    "reduce_sum(x, ())", "reduce_max(x, ())", "reduce(x, np.float32(0), lax.add, ())",
]  # fmt: skip


@pytest.mark.parametrize("call", UNCHANGED)
def test_what_is_returned_as_it_is_is_an_array(call):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = eval(f"lax.{call}", {"lax": xpr.lax, "np": np, "x": x})
    assert isinstance(result, xpr.Array)
    copy = np.array(result)
    x[:] = 7
    np.testing.assert_array_equal(result, copy)

"""Results of functions of Python numbers and weakly typed arrays: dtype and weak type are jax's, derivatives included.

Booleans are an exception: jax marks those weak that come of Python numbers alone, and here only those of logical
functions are. They promote as all others do.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX, agree, beside_jax
from xpr import dtypes, lax
from xpr.config_contexts import enable_x64

ARRAYS = {
    "I": np.array([2, 1], np.int32), "U": np.array([2, 1], np.uint8), "B": np.array([True, False]),
    "F": np.array([0.5, 0.25], np.float32), "H": np.array([0.5, 0.25], np.float16),
}  # fmt: skip
ONE = ("True", "2", "0.5", "0.5+0.25j", "jnp.asarray(0.5)", "I", "B")
TWO = ("2", "0.5", "jnp.asarray(0.5)", "I", "B", "H")
UNARY = (
    "abs", "negative", "square", "sqrt", "exp", "log", "log2", "log10", "sin", "sinc", "floor", "sign", "reciprocal",
    "angle", "real", "isposinf", "isneginf", "isfinite", "isinf", "isnan", "spacing", "cumulative_sum",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "maximum", "minimum", "arctan2",
    "copysign", "heaviside", "where", "less", "equal", "nextafter", "logaddexp",
)  # fmt: skip
NN = ("relu", "relu6", "elu", "celu", "selu", "hard_sigmoid", "hard_silu", "softplus", "mish", "soft_sign",
      "sparse_plus", "sigmoid", "silu", "gelu", "hard_tanh", "leaky_relu")  # fmt: skip
SPECIAL = ("ndtr", "log_ndtr", "gammaln", "erf", "expit", "entr", "xlogy", "xlog1py", "log_softmax", "softmax")
COMPLEX_TOO = {"abs", "angle", "negative", "square", "exp", "log", "log2", "log10", "sin", "real"}


def calls():
    for name in UNARY:
        for x in ONE:
            if "j" not in x.replace("jnp", "") or name in COMPLEX_TOO:
                yield f"jnp.{name}({x})"
    for name in BINARY:
        for x in TWO:
            for y in TWO:
                given = f"B, {x}, {y}" if name == "where" else f"{x}, {y}"
                yield f"jnp.{name}({given})"
    for name in NN:
        yield from (f"nn.{name}({x})" for x in ONE if x != "0.5+0.25j")
    for name in SPECIAL:
        for x in ("2", "0.5", "jnp.asarray(0.5)", "I", "F"):
            yield f"special.{name}({x}{', 0.5' * name.startswith('xlo')})"


WEAK = "jnp.bitwise_or(jnp.full(3, True), 1)"  # a vector of weak integers
FULL = "jnp.full(2, 0.5)"  # and of weak floats

MORE = [
    "special.multigammaln(0.5, 1)", "special.multigammaln(F, 1)",
    "grad(jnp.sinc)(0.3)", "grad(jnp.sinc)(np.float32(0.3))", "grad(lambda x: x * F.sum())(0.3)",
    "grad(jnp.sin, holomorphic=True)(0.3 + 1j)", "grad(lambda x: x**2, holomorphic=True)(0.3 + 1j)",
    "grad(grad(lambda x: x * x * F.sum()))(0.3)", "jit(grad(lambda x: jnp.sin(x) * F.sum()))(0.3)",
    "jvp(jnp.sinc, (0.3,), (1.0,))", "grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(2.0, F)",
    "jnp.polyfit(jnp.arange(4.0), jnp.arange(4.0), 1)", "jnp.polyfit(jnp.full(4, 1.0), jnp.arange(4.0), 0)",
    *(f"jnp.{f}({xs})" for f in ("gcd", "lcm") for xs in ("4, 6", "4, jnp.asarray(6)", "4, I", "I, U", "U, 4")),
    *(f"jnp.{f}({xs})" for f in ("gcd", "lcm") for xs in ("WEAK, WEAK", "WEAK, 4", "WEAK, I")),
    "0.5 ** I", "0.5 ** U", "jnp.power(0.5, WEAK)", "jnp.power(WEAK, 0.5)", "jnp.power(0.5, jnp.asarray(2))",
    "jnp.setdiff1d(F, F)", "jnp.setxor1d(I, I)", "jnp.intersect1d(I, I)", "lax.full_like(2, 1)", "lax.full_like(F, 1)",
    "lax.reciprocal(0.5 + 1j)", "lax.reciprocal(F)", "lax.integer_pow(0.5, 1)", "jnp.lexsort(I)",
    *(f"jnp.{f}(jnp.broadcast_to(jnp.asarray(0.5), (2, 2)))" for f in ("triu", "tril")),
    *(f"jnp.{f}(FULL)" for f in ("diag", "diagflat", "diff", "ediff1d", "gradient")), "jnp.ediff1d(FULL, 1.0)",
    "jnp.gradient(FULL, F)", "jnp.gradient(FULL, 2)", "jnp.insert(FULL, 1, 1)", "jnp.insert(FULL, 1, F)",
    "jnp.insert(F, 1, 0.5)", "jnp.interp(FULL, FULL, FULL)", "jnp.interp(F, F, FULL)", "jnp.interp(FULL, F, FULL)",
    "lax.reshape(I, 2)", "lax.stack(jnp.asarray(F))",
]  # fmt: skip
MORE = [call.replace("WEAK", WEAK).replace("FULL", FULL) for call in MORE]


def kind(x):
    weak = getattr(x, "weak_type", False) and x.dtype != bool
    return f"{type(x).__name__ if not hasattr(x, 'aval') else ''}{x.dtype}{list(x.shape)}{'*' * weak}"


def kinds_of(library, call, arrays):
    """The types of the results; None where the call is refused. Jax is asked without computing."""
    names = {
        "jnp": library.numpy, "lax": library.lax, "nn": library.nn, "special": library.scipy.special, "np": np,
        "grad": library.grad, "jit": library.jit, "jvp": library.jvp, **arrays,
    }  # fmt: skip
    code = compile(call, "<call>", "eval")
    try:
        result = eval(code, names) if library is xpr or "1d" in call else library.eval_shape(lambda: eval(code, names))
    except (TypeError, ValueError, OverflowError):
        return None
    if library is xpr:
        assert all(isinstance(x, xpr.Array) for x in xpr.tree.leaves(result)), call
    return [kind(x) if hasattr(x, "dtype") else type(x).__name__ for x in xpr.tree.leaves(result)]


def test_dtypes_and_weak_types_are_those_of_jax():
    every = [*calls(), *MORE]

    def kinds(library):
        arrays = {name: library.numpy.asarray(value) for name, value in ARRAYS.items()}
        with np.errstate(all="ignore"):
            return [", ".join(kinds_of(library, call, arrays) or []) for call in every]

    def compare(theirs):
        plain = [each.replace("ArrayImpl", "").replace("ShapeDtypeStruct", "") for each in theirs]
        differ = zip(every, ours, plain, strict=True)
        differ = [f"{call}: {have} here, {want} in jax" for call, have, want in differ if want not in ("", have)]
        assert not differ, "\n".join(differ)

    ours = kinds(xpr)
    beside_jax("kinds of results", {**ARRAYS, "calls": np.array(every)}, lambda: kinds(JAX), compare)


def test_types_of_ml_dtypes_are_in_the_hierarchy():
    for a, b in ((ml_dtypes.bfloat16, np.floating), (ml_dtypes.int4, np.signedinteger), (ml_dtypes.uint4, np.integer)):
        assert jnp.issubdtype(a, b) and jnp.issubdtype(np.dtype(a), b) and jnp.issubdtype(a, a)
    assert not jnp.issubdtype(ml_dtypes.int4, np.floating) and not jnp.issubdtype(ml_dtypes.bfloat16, np.float32)


@pytest.mark.skipif(jnp.int1 is None, reason="older releases of ml_dtypes don't have it")
def test_integers_of_one_bit_have_names():
    assert jnp.issubdtype(jnp.int1, np.signedinteger) and jnp.issubdtype(jnp.uint1, np.unsignedinteger)
    assert not jnp.issubdtype(jnp.int1, np.int64) and dtypes.itemsize_bits(jnp.uint1) == 1
    with pytest.raises(TypeError, match="dtype int1 was asked for"):
        jnp.zeros(3, jnp.int1)


def test_types_of_scalars_without_a_peer():
    """Some of the above, written down."""
    assert jnp.gcd(4, 6).weak_type and jnp.lcm(4, 6).weak_type
    assert not jnp.heaviside(jnp.arange(3), 0.5).weak_type
    assert isinstance(jnp.isposinf(5), xpr.Array) and isinstance(jnp.isneginf(True), xpr.Array)
    assert xpr.grad(jnp.sinc)(0.3).weak_type and not xpr.grad(jnp.sinc)(np.float32(0.3)).weak_type
    assert xpr.grad(jnp.sin, holomorphic=True)(1j).weak_type


def test_limits_are_of_the_dtype_that_is_named():
    def limits(library: Any) -> list[Any]:
        jnp = library.numpy
        floats = [float, "float64", np.ones(2), jnp.ones(2), jnp.float16, np.float32(1)]
        integers = [int, np.arange(2), jnp.arange(2), 3, np.int8(3)]
        return [jnp.finfo(x).bits for x in floats] + [jnp.iinfo(x).bits for x in integers]

    agree(limits)


def test_dtypes_of_types_and_names():
    kinds = (np.float32, ml_dtypes.bfloat16, jnp.bfloat16, np.dtype("int8"), "int8", float, 1.0, np.ones(2, np.float16))
    names = "float32", "bfloat16", "bfloat16", "int8", "int8", "float32", "float32", "float16"
    assert [lax.dtype(kind).name for kind in kinds] == list(names)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("name", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
def test_shifts_of_four_bits(name: str, dtype: str) -> None:
    """As the peer's, eagerly, compiled and in NumPy; what is shifted by the width or more is gone."""
    low = -8 if dtype == "int4" else 0
    x = np.arange(low, low + 16).astype(dtype)
    shifts = [np.full(16, n).astype(dtype) for n in (0, 1, 3, 5, 7, -1)]

    def shifted(library: Any) -> list[Any]:
        shift = getattr(library.lax, name)
        arrays = [(library.numpy.asarray(x), library.numpy.asarray(y)) for y in shifts]
        return [g(*each).astype(np.int32) for each in arrays for g in (shift, library.jit(shift))]

    results = agree(shifted)
    for y, result in zip(shifts, results[::2]):
        assert np.array_equal(getattr(lax, f"{name}_p").reference([x, y])[0].astype(np.int32), result)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("other", ["int4", "uint4"])
def test_small_integers_are_converted_to_each_other(dtype, other):
    x = jnp.arange(-2, 14).astype(dtype)
    expected = np.arange(-2, 14) & 15
    if other == "int4":
        expected = expected - 16 * (expected > 7)
    for converted in (x.astype(other), xpr.jit(lambda x: x.astype(other))(x)):
        assert converted.dtype == other and np.array_equal(np.asarray(converted).astype(int), expected)


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz, jnp.float8_e4m3b11fnuz])
def test_small_negative_numbers_are_converted_to_floats_without_a_negative_zero(dtype):
    """In these -0 has the bits of nan."""
    half = float(jnp.finfo(dtype).smallest_subnormal) / 2
    small = np.float32([-1e-9, -half, -half * 1.01, -0.0, half, half * 1.01, np.nan])
    for x in (small, small.astype(np.float16), small.astype(jnp.float8_e5m2)):
        converted = xpr.jit(lambda x: x.astype(dtype))(x)
        np.testing.assert_array_equal(converted.astype(np.float32), x.astype(converted.dtype).astype(np.float32))


def test_bfloat16_of_the_module_dtypes_is_the_class_of_scalars():
    assert isinstance(dtypes.bfloat16(1.5), dtypes.bfloat16) and np.dtype(dtypes.bfloat16) == dtypes.bf16
    assert jnp.ones(2, dtypes.bfloat16).dtype == dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_few_bits_have_no_absolute_values(dtype):
    with pytest.raises(TypeError, match=f"abs does not accept dtype {dtype}"):
        lax.abs(lax.iota(dtype, 2))


@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_integers_of_2_bits_are_joined_padded_and_multiplied(dtype):
    """XLA:CPU ends the process where it joins or pads them, and multiplies none."""
    x = jnp.array([0, 1, 1, 0]).astype(dtype)
    joined = xpr.jit(lambda x: jnp.concatenate([x, x * x]))(x)
    padded = xpr.jit(lambda x: jnp.pad(x, 1, constant_values=1))(x)
    assert joined.dtype == padded.dtype == dtype
    assert joined.astype(int).tolist() == [0, 1, 1, 0] * 2 and padded.astype(int).tolist() == [1, 0, 1, 1, 0, 1]
    ones = jnp.ones((300, 2), dtype)
    assert lax.dot(ones[:1].T, ones[:1]).astype(int).tolist() == [[1, 1], [1, 1]]
    wide = lax.dot(ones.T, ones, preferred_element_type=jnp.int32)
    assert wide.dtype == np.int32 and wide.tolist() == [[300, 300], [300, 300]]


def test_floats_of_4_bits_are_multiplied_exactly():
    """XLA:CPU multiplies none."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, shape).astype("float4_e2m1fn") for shape in ((5, 40), (40, 6)))
    product = lax.dot(jnp.asarray(x), jnp.asarray(y), preferred_element_type=jnp.float32)
    np.testing.assert_array_equal(product, x.astype("f") @ y.astype("f"))
    few = xpr.jit(jnp.matmul)(jnp.asarray(x[:2, :2]), jnp.asarray(y[:2]))
    assert few.dtype == x.dtype
    np.testing.assert_array_equal(few, (x[:2, :2].astype("f") @ y[:2].astype("f")).astype(x.dtype))


# By functions of a weakly typed array: whether the results are weak of a scalar, and of an array with axes (None: it
# takes none). JAX's constants are weak beside weak scalars alone.
WEAK_RESULTS = {
    "jnp.hypot(x, x)": (True, False),
    "jnp.logaddexp2(x, x)": (True, False),
    "jnp.logical_and(x, x)": (True, False),
    "jnp.logical_and(x, True)": (True, False),
    "jnp.logical_or(x, x)": (True, False),
    "jnp.logical_xor(x, x)": (True, False),
    "jnp.logical_not(x)": (True, False),
    "jnp.isreal(x)": (True, False),
    "jnp.iscomplex(x)": (True, False),
    "jnp.deg2rad(x)": (True, False),
    "jnp.degrees(x)": (True, False),
    "jnp.sinc(x)": (True, False),
    "jnp.heaviside(x, x)": (True, False),
    "jnp.rint(x)": (True, True),
    "jnp.round(x)": (True, True),
    "jnp.round(x, 1)": (True, False),
    "jnp.rint(x.astype(bool))": (False, False),
    "jnp.full_like(x, 2)": (True, True),
    "jnp.full_like(x, x)": (True, False),
    "jnp.cross(x, x)": (None, False),
    "jnp.cross(x[:2], x[:2])": (None, True),
    "jnp.diag(x[:, None] * x)": (None, False),
    "jnp.polyadd(x, x[:2])": (None, True),
    "jnp.polysub(x, x)": (None, True),
    "jnp.polymul(x, x)": (None, True),
    "jnp.polydiv(x, x[:2])[0]": (None, False),
    "jnp.polydiv(x, x[:2])[1]": (None, True),
    "jnp.intersect1d(x, x, size=2)": (False, False),
    "jnp.setdiff1d(x, 3.5, size=2)": (True, True),
    "jnp.setdiff1d(jnp.arange(2.0), x, size=2)": (False, False),
    "jnp.setxor1d(x, x[:1] + 1, size=2)": (None, False),
    "xpr.lax.pow(x, 2)": (True, True),
    "xpr.lax.pow(x, xpr.lax.full_like(x, 2, int))": (False, False),
    "xpr.lax.mulhi(n, n)": (True, True),
    "jnp.unravel_index(n, (3, 2))[0]": (True, True),
    "xpr.scipy.linalg.polar(x[None])[0]": (None, False),
    "xpr.lax.top_k(x, 1)[1]": (None, True),
    "xpr.lax.pad(x, 0.0, [(0, 1, 0)])": (None, True),
    "xpr.lax.pad(x, jnp.float32(0), [(0, 1, 0)])": (None, False),
    "xpr.scipy.special.logit(x)": (True, False),
    "xpr.scipy.special.rel_entr(x, x)": (True, False),
    "xpr.scipy.special.kl_div(x, x)": (True, False),
    "xpr.scipy.linalg.toeplitz(x)": (False, False),
    "jnp.linalg.cholesky(jnp.eye(3) * x)": (False, False),
    "jnp.linalg.cholesky(xpr.lax.broadcast(x[0], (1, 1)))": (None, True),
    "jnp.linalg.svd(x[None])[1]": (None, True),
    "jnp.linalg.qr(x[None])[0]": (None, True),
    "jnp.linalg.solve(xpr.lax.broadcast(x[0], (1, 1)), x[:1])": (None, True),
}  # fmt: skip


@pytest.mark.parametrize("call", WEAK_RESULTS)
def test_weak_types_of_scalars_and_of_arrays(call):
    of_scalars, of_arrays = WEAK_RESULTS[call]
    vector = lax.broadcast(0.5, (3,)), lax.broadcast(2, (3,))
    for (x, n), expected in (((jnp.asarray(0.5), jnp.asarray(2)), of_scalars), (vector, of_arrays)):
        if expected is not None:
            result = xpr.eval_shape(lambda x, n: eval(call, {"xpr": xpr, "jnp": jnp, "x": x, "n": n}), x, n)
            assert result.weak_type is expected
            assert eval(call, {"xpr": xpr, "jnp": jnp, "x": x, "n": n}).weak_type is expected


def test_sets_of_weakly_typed_elements_are_weak_where_their_size_is_not_given():
    x = lax.broadcast(0.5, (3,))
    assert jnp.intersect1d(x, x).weak_type and jnp.setxor1d(x, x[:1] + 1).weak_type
    assert not jnp.intersect1d(x, jnp.ones(2)).weak_type


def test_rint_of_integers_has_the_default_dtype():
    with enable_x64():
        assert jnp.rint(jnp.arange(2, dtype=np.int8)).dtype == np.float64
        assert jnp.rint(jnp.ones(2, np.float32)).dtype == np.float32
    assert jnp.rint(jnp.arange(2, dtype=np.int8)).dtype == np.float32


def test_a_power_of_a_weakly_typed_array_by_an_integer():
    power = lax.pow(jnp.asarray(1.5), 2)
    assert power == 2.25 and power.weak_type

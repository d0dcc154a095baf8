"""Ufuncs and their methods, beside jax's where it is installed, and beside NumPy's."""

import operator
import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import agree, check
from xpr.testing import check_grads

ARRAYS = {"x": np.float32([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]]), "y": np.array([1, 2]), "b": np.array([True, False])}
CALLS = [
    *(f"jnp.{f}.outer(x, y)" for f in ("add", "subtract", "multiply", "maximum")),
    "jnp.subtract.outer(y, 2.5)", "jnp.logical_and.outer(b, b)", "jnp.bitwise_or.outer(y, y)",
    *(f"jnp.{f}.reduce(x)" for f in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")),
    "jnp.add.reduce(x, axis=None)", "jnp.add.reduce(x, 1, keepdims=True)", "jnp.add.reduce(x, initial=2.0)",
    "jnp.maximum.reduce(x, axis=1, where=x > 0, initial=-5.0)", "jnp.logical_or.reduce(b)", "jnp.add.reduce(b)",
    *(f"jnp.{f}.accumulate(x)" for f in ("add", "multiply")), "jnp.add.accumulate(x, 1)",
    *(f"jnp.{f}.at(x, (0, y), 2.0, inplace=False)" for f in ("add", "subtract", "multiply", "maximum", "minimum")),
    *(f"jnp.{f}.reduce(y, keepdims=True)" for f in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_xor")),
    *(f"jnp.{f}.accumulate(x, axis=1)" for f in ("subtract", "logaddexp", "maximum", "logical_or")),
    *(f"jnp.{f}.reduceat(x, y - 1, axis=0)" for f in ("add", "multiply", "subtract")),
    "jnp.bitwise_or.reduceat(y, y - 1)", "jnp.add.reduceat(x, jnp.array([0, 2, 1]), axis=1)",
    "jnp.logaddexp.reduce(x, axis=None)", "jnp.logaddexp.reduce(x, 1, where=x > 0)", "jnp.subtract.reduce(x, 1)",
    "jnp.bitwise_or.reduce(y, initial=4, where=y > 1)", "jnp.bitwise_xor.at(y, (y - 1,), 3, inplace=False)",
    "jnp.negative.at(x, 0, inplace=False)",
    *(f"jnp.{f}.reduce(x > 0, axis=(0, 1), keepdims=True)" for f in ("logical_and", "logical_or", "logical_xor")),
    *(f"jnp.{f}.reduce(y, axis=(0,), initial=3)" for f in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and")),
    *(f"jnp.{f}.reduce(x, axis=(0, 1))" for f in ("logaddexp", "logaddexp2")),
    "jnp.logaddexp2.reduce(x, axis=1, keepdims=True)", "jnp.bitwise_and.reduce(y.astype('uint8'), where=y > 1)",
    "jnp.logical_or.reduce(x, axis=1, where=x > 3, initial=False)", "jnp.minimum.reduce(y, dtype=float)",
    "jnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1)(x, x[0])", "jnp.frompyfunc(lambda a: (a, -a), 1, 2)(x)",
    *(f"jnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1, identity=0).{f}(x)" for f in ("reduce", "accumulate")),
    "jnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1).outer(y, x)",
    "jnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1).at(x, (0, y), 2.0, inplace=False)",
    "jnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1).reduceat(x, y - 1, axis=1)",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_as_in_jax(call):
    check(call, ARRAYS, tolerance=1e-6)


def test_logarithms_of_sums():
    x = np.array([[-np.inf, 1000.0, 1001.0], [-np.inf, -np.inf, -np.inf], [np.inf, 1.0, 2.0]])
    found, start = jnp.logaddexp.reduce(x, axis=1), jnp.logaddexp2.reduce(x, axis=1, initial=1001.0, where=x < 2000)
    np.testing.assert_allclose(found, np.logaddexp.reduce(x, axis=1), rtol=1e-6)
    np.testing.assert_allclose(start, np.logaddexp2.reduce(x, axis=1, initial=1001.0, where=x < 2000), rtol=1e-6)
    assert jnp.logaddexp.reduce(jnp.ones((2, 0)), axis=1).tolist() == [-np.inf, -np.inf]
    check_grads(lambda x: jnp.logaddexp.reduce(x, axis=(0, 1)), (jnp.array([[1.5, 2.0], [3.0, -1.0]]),), order=2)
    z = np.array([1 + 2j, 0.5 - 1j, 2.0])
    np.testing.assert_allclose(jnp.exp(jnp.logaddexp.reduce(z)), np.exp(z).sum(), rtol=1e-6)
    assert jnp.maximum.reduce(jnp.array([1, 2]), dtype="float32").dtype == np.float32


def test_attributes():
    names = "add multiply subtract maximum minimum negative logaddexp logaddexp2 logical_and bitwise_or".split()
    found = agree(
        lambda jax: [getattr(getattr(jax.numpy, f), key) for f in names for key in ("nin", "nout", "identity")]
    )
    assert len(found) > 20 and repr(jnp.add) == "<jnp.ufunc 'add'>" and isinstance(jnp.add, jnp.ufunc)
    assert pickle.loads(pickle.dumps(jnp.add)) is jnp.add
    made = jnp.frompyfunc(operator.sub, 2, 1)
    assert made == pickle.loads(pickle.dumps(made)) and hash(made) == hash(jnp.frompyfunc(operator.sub, 2, 1))
    with pytest.raises(AttributeError):
        made.identity = 0
    assert made != jnp.frompyfunc(operator.sub, 2, 1, identity=0) and repr(made) == "<jnp.ufunc 'sub'>"


def test_segments_of_reduceat():
    x = np.arange(1.0, 9.0, dtype=np.float32)
    for indices in ([0, 2, 5], [3, 1, 7], [4]):
        for name in ("add", "multiply", "divide", "minimum"):
            found = xpr.jit(getattr(jnp, name).reduceat)(x, jnp.array(indices))
            np.testing.assert_allclose(found, getattr(np, name).reduceat(x, indices), rtol=1e-6)


def test_updates_of_slices():
    expected = ARRAYS["x"].copy()
    np.hypot.at(expected, (slice(None), [0, 1, 1]), 2.0)
    found = xpr.jit(lambda x: jnp.hypot.at(x, (slice(None), jnp.array([0, 1, 1])), 2.0, inplace=False))(ARRAYS["x"])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(jnp.bitwise_or.at(jnp.arange(4), slice(1, 3), 4, inplace=False), [0, 5, 6, 3])


def test_running_extremes():
    x = ARRAYS["x"]
    np.testing.assert_array_equal(jnp.maximum.accumulate(x, axis=1), np.maximum.accumulate(x, axis=1))
    np.testing.assert_array_equal(jnp.minimum.accumulate(x), np.minimum.accumulate(x))
    assert jnp.add.nin == 2 and jnp.add.nargs == 2


def test_outer_takes_no_broadcasting_of_ranks():
    with xpr.numpy_rank_promotion("raise"):
        assert jnp.add.outer(jnp.ones((2, 3)), jnp.ones(4)).shape == (2, 3, 4)


def test_under_transformations():
    slopes = xpr.jit(xpr.grad(lambda x: jnp.multiply.outer(x, x).sum()))(jnp.arange(3.0))
    assert slopes.tolist() == [6, 6, 6]
    times = jnp.frompyfunc(operator.mul, 2, 1)
    check_grads(lambda x: times.accumulate(x).sum() + times.reduce(x), (jnp.array([1.5, 2.0, 3.0]),), order=2)
    check_grads(
        lambda x: times.at(x, (jnp.array([0, 0, 2]),), x, inplace=False), (jnp.array([1.5, 2.0, 3.0]),), order=1
    )
    rows = xpr.vmap(jnp.subtract.reduce)(jnp.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(rows, np.subtract.reduce(np.arange(6.0).reshape(2, 3), axis=1))


def test_errors():
    with pytest.raises(NotImplementedError, match="add.at: arrays are immutable. Say inplace=False"):
        jnp.add.at(jnp.ones(3), 0, 1.0)
    with pytest.raises(NotImplementedError, match="out= is not supported"):
        jnp.add.reduce(jnp.ones(3), out=jnp.ones(3))
    with pytest.raises(ValueError, match="negative.reduce: combines two elements to one, and negative takes 1"):
        jnp.negative.reduce(jnp.ones(3))
    with pytest.raises(ValueError, match="subtract.reduce: has no identity; with `where` give `initial`"):
        jnp.subtract.reduce(jnp.ones(3), where=jnp.ones(3, bool))
    with pytest.raises(ValueError, match="`where` must have dtype bool, and has float32"):
        jnp.add.reduce(jnp.ones(3), where=jnp.ones(3))
    with pytest.raises(ValueError, match="subtract.reduce: an axis without elements"):
        jnp.subtract.reduce(jnp.ones(0))
    with pytest.raises(ValueError, match="add.accumulate: goes along one axis, and axis=None"):
        jnp.add.accumulate(jnp.ones(3), None)
    with pytest.raises(ValueError, match="add.reduceat: goes along one axis"):
        jnp.add.reduceat(jnp.ones(3), jnp.array([1]), axis=(0,))
    with pytest.raises(ValueError, match=r"add.reduceat: takes an array with an axis.* f32\[\] and i32\[1\]"):
        jnp.add.reduceat(1.0, jnp.array([1]))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        jnp.maximum.accumulate(jnp.ones(3), 2)


def test_second_names_are_functions_of_their_own():
    """Tables of tests name their rows by them."""
    for name in (
        "abs", "acos", "acosh", "amax", "amin", "around", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_invert",
        "bitwise_left_shift", "bitwise_not", "bitwise_right_shift", "conj", "degrees", "divide", "mod", "pow",
        "radians",
    ):  # fmt: skip
        function = getattr(jnp, name)
        assert function.__name__ == name and "Alias of" in function.__doc__
        assert pickle.loads(pickle.dumps(function)) is function


def test_maxima_and_powers_at_indices_have_the_dtype_to_which_operands_promote():
    x = jnp.array([1, 2, 3])
    for ufunc, expected in ((jnp.maximum, [2.5, 2.0, 3.0]), (jnp.minimum, [1.0, 2.0, 3.0])):
        found = ufunc.at(x, 0, 2.5, inplace=False)
        assert found.dtype == np.float32 and found.tolist() == expected
    assert jnp.maximum.at(x, (jnp.array([0, 0]),), 5, inplace=False).dtype == np.int32
    assert jnp.power.at(x, 1, 0.5, inplace=False).dtype == np.float32
    np.testing.assert_array_equal(jnp.power.at(x, (jnp.array([1, 1]),), 2, inplace=False), [1, 16, 3])

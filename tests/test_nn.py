"""xpr.nn against the peer: values, types, derivatives at kinks and extremes."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy
from tests.peer import JAX, beside_jax, check, close, evaluate
from xpr import ad_checkpoint, export, nn

rng = np.random.default_rng(0)
NAMES = {
    "e": np.array([-np.inf, -100, -6, -3, -1, -0.7, -0.0, 0.0, 0.3, 1, 3, 6, 100, np.inf, np.nan], np.float32),
    "x": np.array([[0.5, -1.0, 3.0], [200.0, 0.0, -50.0]], np.float32),
    "i": np.array([[0, 1, 2], [3, -1, 7]], np.int32),
    "f": np.array([[0.5, -1.0, 3.0], [2.0, 0.0, -5.0]], bfloat16),
    "c": np.array([1 + 2j, 0.5 - 1j, 3.0], np.complex64),
    "mask": np.array([[True, False, True], [True, True, False]]),
    "none": np.zeros((2, 3), bool),
    "rows": np.array([True, False])[:, None],
    "empty": np.zeros((3, 0), np.float32),
    "query": rng.normal(size=(2, 4, 4, 8)).astype(np.float32),
    "key": rng.normal(size=(2, 5, 2, 8)).astype(np.float32),
    "value": rng.normal(size=(2, 5, 2, 8)).astype(np.float32),
    "bias": rng.normal(size=(1, 4, 4, 5)).astype(np.float32),
    "seen": rng.random((2, 1, 4, 5)) < 0.7,
}

ELEMENTWISE = """
relu relu6 sigmoid softplus soft_sign silu swish mish log_sigmoid leaky_relu hard_sigmoid hard_silu hard_swish
hard_tanh elu celu selu gelu squareplus identity tanh sparse_plus sparse_sigmoid
""".split()

# Derivatives where jax's is another one: where only one of the two is finite.
OWN_SLOPES = {("sparse_plus", 1): {-np.inf: 0.0, np.inf: 1.0}, ("celu", 2): {0.0: 1.0}}


def derivative(library, name, order):
    function = getattr(library.nn, name)
    for _ in range(order):
        function = library.grad(function)
    return library.vmap(function)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_activations_and_their_derivatives(name):
    points = NAMES["e"]
    orders = xpr.jit(lambda x: [derivative(xpr, name, order)(x) for order in range(3)])(jnp.asarray(points))
    for order, have in enumerate(orders):

        def compare(theirs, order=order, have=have):
            want = np.array(theirs[0])
            for point, slope in OWN_SLOPES.get((name, order), {}).items():
                want[points == point] = slope
            assert have.dtype == want.dtype
            close(have, want)

        ask = lambda order=order: [derivative(JAX, name, order)(points)]
        beside_jax(f"{name}: {order}", {"e": points}, ask, compare)


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if name not in {"soft_sign", "sparse_sigmoid"}])
def test_derivatives_are_finite_at_finite_points(name):
    points = jnp.array([-1e4, -100.0, -6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0, 100.0, 1e4])
    orders = xpr.jit(lambda x: [derivative(xpr, name, order)(x) for order in (1, 2, 3)])(points)
    assert np.isfinite(np.stack(orders)).all(axis=1).tolist() == [True] * 3


def test_soft_sign_of_complex_numbers():
    z = np.array([3 + 4j, -1j, 0], np.complex64)
    np.testing.assert_allclose(nn.soft_sign(jnp.array(z)), z / (np.abs(z) + 1), rtol=1e-6)
    assert nn.soft_sign(1 + 2j).dtype == np.complex64


def test_piecewise_functions_of_complex_numbers_choose_by_the_real_part():
    z = jnp.array([0.2 + 2j, 3 + 4j, -2 + 1j])
    np.testing.assert_allclose(nn.sparse_plus(z), [(1.2 + 2j) ** 2 / 4, 3 + 4j, 0], rtol=1e-6)
    np.testing.assert_allclose(nn.log1mexp(z), np.log(1 - np.exp(-np.asarray(z))), rtol=2e-6)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_derivatives_away_from_kinks(name):
    check_grads_in_numpy(getattr(nn, name), (np.array([-3.7, -0.6, 0.4, 2.2], np.float32),), order=2)


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("argument", ["1.5", "x", "f"])
def test_types_of_activations(name, argument):
    check(f"nn.{name}({argument})", NAMES)


CALLS = """
nn.relu(i)
nn.hard_tanh(i)
nn.identity(i)
nn.gelu(x, approximate=False)
nn.gelu(i)
nn.leaky_relu(x, 0.2)
nn.leaky_relu(i, 1)
nn.elu(x, alpha=jnp.array([1, 2, 3.0]))
nn.celu(x, 2)
nn.squareplus(x, b=0)
nn.glu(f[:, :2])
nn.glu(jnp.arange(8.0).reshape(4, 2), axis=0)
nn.log1mexp(jnp.array([0.1, 0.69, 0.7, 5.0, 100.0]))
nn.softmax(x)
nn.softmax(x, axis=0)
nn.softmax(x, axis=None)
nn.softmax(x, axis=(0, 1))
nn.softmax(i)
nn.softmax(f)
nn.softmax(empty)
nn.softmax(x, where=mask)
nn.softmax(x, where=none)
nn.softmax(jnp.array([-inf, -inf]))
nn.softmax(jnp.array([-inf, 0]))
nn.log_softmax(x)
nn.log_softmax(x, axis=0)
nn.log_softmax(f, axis=None)
nn.log_softmax(x, where=mask)
nn.log_softmax(jnp.array([-inf, 0]))
nn.logsumexp(x)
nn.logsumexp(x, axis=1, keepdims=True)
nn.logsumexp(i)
nn.logsumexp(2.0)
nn.logsumexp(f, axis=0)
nn.logsumexp(c)
nn.logsumexp(x, b=jnp.array([1, -1, 0]))
nn.logsumexp(x, b=jnp.array([1, -1, 0]), return_sign=True)
nn.logsumexp(x, axis=0, b=jnp.array([1, -1, 0]), return_sign=True)
nn.logsumexp(x, axis=0, return_sign=True, keepdims=True)
nn.logsumexp(jnp.array([-inf, -inf]))
nn.logsumexp(jnp.array([inf, 1]))
nn.logsumexp(jnp.array([inf, 1]), b=jnp.array([0, 1]))
nn.logsumexp(empty, axis=1)
nn.logsumexp(x, where=none)
nn.logsumexp(x, where=mask, axis=1)
nn.logmeanexp(x)
nn.logmeanexp(x, axis=1, where=mask, keepdims=True)
nn.logmeanexp(x, where=rows, axis=0)
nn.standardize(x)
nn.standardize(i)
nn.standardize(x, axis=0, mean=1.0)
nn.standardize(x, axis=0, variance=jnp.array([1.0, 2, 3]))
nn.standardize(f, axis=None)
nn.standardize(x, where=mask)
nn.standardize(x, algorithm='stable', epsilon=0.1)
nn.one_hot(i, 3)
nn.one_hot(i, 3, axis=0)
nn.one_hot(i, 3, axis=1, dtype=int)
nn.one_hot(jnp.array([0.0, 1]), 3)
nn.one_hot(1, 3)
nn.one_hot([[0, 2], [1, 5]], 3)
lax.pow(x, jnp.int32(2))
jit(lax.pow)(x, 3)
grad(lambda x: jit(lax.pow)(x, 3).sum())(x)
grad(nn.logsumexp)(jnp.array([-inf, 1000]))
grad(lambda x: nn.softmax(x)[0, 0])(x)
grad(lambda x: nn.log_softmax(x, axis=0)[1, 0])(x)
grad(lambda x: nn.softmax(x, where=mask)[0, 0])(x)
nn.dot_product_attention(query, key, value)
nn.dot_product_attention(query[0], key[0], value[0])
nn.dot_product_attention(query, key, value, scale=0.5, bias=bias)
nn.dot_product_attention(query, key, value, mask=seen)
nn.dot_product_attention(query, key, value, is_causal=True)
nn.dot_product_attention(query, key, value, local_window_size=1)
nn.dot_product_attention(query, key, value, local_window_size=(2, 0), mask=seen, bias=bias)
nn.dot_product_attention(query, key, value, key_value_seq_lengths=jnp.array([3, 5]))
nn.dot_product_attention(query, key, value, query_seq_lengths=jnp.array([2, 4]), is_causal=True)
nn.dot_product_attention(query, key, value, return_residual=True)
nn.dot_product_attention(query.astype(bfloat16), key.astype(bfloat16), value.astype(bfloat16))
nn.dot_product_attention(query.astype(bfloat16), key.astype(bfloat16), value.astype(bfloat16), return_residual=True)
grad(lambda q: nn.dot_product_attention(q, key, value, is_causal=True).sum())(query)
"""


@pytest.mark.parametrize("call", [line for line in CALLS.splitlines() if line])
def test_like_the_peer(call):
    check(call, NAMES, tolerance=2e-2 if "bfloat16" in call else None)


def test_no_nan_from_rows_that_are_masked_everywhere():
    x, none = jnp.array([1.0, 2.0]), jnp.array([False, False])
    close(xpr.grad(lambda x: nn.softmax(x, where=none)[0])(x), [0.0, 0.0])
    close(nn.logsumexp(x, where=none), -np.inf)


def test_the_mean_of_no_exponentials_is_nan():
    assert np.isnan(nn.logmeanexp(jnp.zeros(0)))
    assert np.isnan(nn.logmeanexp(jnp.ones(2), where=jnp.zeros(2, bool)))
    assert np.isnan(nn.logmeanexp(jnp.zeros((0, 2)), axis=0)).tolist() == [True, True]


def test_logmeanexp_of_sizes_that_are_not_known():
    x = jnp.array([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]])
    symbolic = xpr.ShapeDtypeStruct(export.symbolic_shape("n, 3"), jnp.float32)
    exported = export.export(xpr.jit(lambda x: nn.logmeanexp(x, axis=0)))(symbolic)
    close(exported.call(x), nn.logmeanexp(x, axis=0))
    close(xpr.jit(lambda x: nn.logmeanexp(x[x > 0]))(x), nn.logmeanexp(x[x > 0]))


def test_one_hot_of_more_classes_than_the_indices_dtype_holds():
    close(nn.one_hot(jnp.array([1, 2], jnp.uint8), 300).sum(), 2.0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "standardize", "logmeanexp"])
def test_derivatives_over_axes(name):
    check_grads_in_numpy(getattr(nn, name), (rng.normal(size=(3, 4)).astype(np.float32),), order=2)


ERRORS = [
    ("nn.glu(x)", ValueError, "odd size"),
    ("nn.softmax(2.0)", ValueError, "out of bounds"),
    ("nn.softmax(x, where=x)", ValueError, "boolean"),
    ("nn.one_hot(i, 3, axis=3)", ValueError, "out of bounds"),
    ("nn.standardize(x, algorithm='quick')", ValueError, "stable"),
    ("nn.dot_product_attention(query, key, value[:, :, :1])", ValueError, "do not fit"),
    ("nn.dot_product_attention(query[:, :, :3], key[:, :, :2], value[:, :, :2])", ValueError, "must be a multiple"),
    ("nn.dot_product_attention(query, key, value, mask=bias)", ValueError, "bias"),
    ("nn.dot_product_attention(query, key, value, implementation='cudnn')", ValueError, "implementation"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        evaluate(call, xpr, NAMES)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_logaddexp_with_zero_is_softplus_to_every_order(order):
    both = [lambda x: jnp.logaddexp(x, 0.0), lambda x: jnp.logaddexp(0.0, x), nn.softplus]
    for _ in range(order):
        both = [xpr.grad(function) for function in both]
    for point in (-2.0, 0.0, 3.0):
        first, second, want = (float(function(point)) for function in both)
        close(first, want)
        close(second, want)


def test_gelu_keeps_its_digits_where_tanh_is_near_minus_one():
    x = np.linspace(-6, -3, 31, dtype=np.float32)
    wide = x.astype(np.float64)
    expected = wide / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(nn.gelu(x), expected, rtol=2e-5)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_products_of_quantized_arrays(mode):
    """Within what elements of 4 and of 4 or 2 bits of precision allow; exact where elements and scales are exact."""
    x, y = np.random.default_rng(3).normal(size=(2, 5, 64, 3, 32)).astype(np.float32)[:, :2]
    configs = [xpr.nn.get_scaled_dot_general_config(mode)] * 3
    numbers = (((1, 3), (1, 3)), ((0,), (0,)))

    def product(x, y, **options):
        return xpr.nn.scaled_dot_general(x, y, numbers, configs=configs, **options)

    exact = np.einsum("bjik,bjlk->bil", x, y)
    size = {"mxfp8": 2e-2, "nvfp4": 0.1}
    got = xpr.jit(product)(x, y)
    assert got.shape == exact.shape == (2, 3, 3)
    assert np.abs(got - exact).max() < size[mode] * np.abs(exact).max() * 3
    gradients = xpr.grad(lambda x, y: (product(x, y) * 0.5).sum(), (0, 1))(x, np.ones_like(y))
    assert product(x, y, preferred_element_type="bfloat16").dtype == jnp.bfloat16 and gradients[0].shape == x.shape
    wanted = 0.5 * np.broadcast_to(np.ones_like(y).sum(2, keepdims=True), x.shape)
    np.testing.assert_allclose(gradients[0], wanted, rtol=0.1)
    powers = 2.0 ** np.arange(-16, 16, dtype=np.float32)[:, None] * np.ones(64, np.float32)
    powers[0] = 0
    if mode == "mxfp8":
        rows = (((1,), (1,)), ((), ()))
        got = xpr.nn.scaled_dot_general(powers, powers, rows, configs=configs)
        np.testing.assert_array_equal(got, powers @ powers.T)
        square = xpr.grad(lambda x: xpr.nn.scaled_dot_general(x, powers, rows, configs=configs).sum())(powers)
        np.testing.assert_allclose(square, np.broadcast_to(powers.sum(0), powers.shape), rtol=0.1)


def test_products_of_quantized_arrays_say_what_they_take():
    general, x = xpr.nn.scaled_dot_general, jnp.ones((2, 33))
    numbers = (((1,), (1,)), ((), ()))
    assert general(x, x, numbers).tolist() == [[33, 33]] * 2
    with pytest.warns(DeprecationWarning, match="implementation is not read"):
        general(x, x, numbers, implementation="cudnn")
    configs = [xpr.nn.get_scaled_dot_general_config("mxfp8")] * 3
    with pytest.raises(ValueError, match="33 elements are contracted, and mxfp8 has blocks of 32"):
        general(x, x, numbers, configs=configs)
    with pytest.raises(TypeError, match="of float32, bfloat16 or float16, and not of int32"):
        general(x, x, numbers, preferred_element_type="int32", configs=configs)
    with pytest.raises(ValueError, match="'mxfp8' and 'nvfp4', and 'fp2'"):
        xpr.nn.get_scaled_dot_general_config("fp2")


def test_the_result_of_softmax_is_its_only_residual():
    residuals = ad_checkpoint.saved_residuals(nn.softmax, jnp.arange(4.0))
    assert [(aval.str_short(), "div" in about) for aval, about in residuals] == [("f32[4]", True)]
    check_grads_in_numpy(
        lambda x: nn.softmax(x, where=np.array([True, True, False, True])), (jnp.arange(4.0),), order=2
    )


@pytest.mark.optimized
def test_exponentials_that_nearly_overflow_have_no_part_where_their_factor_is_zero():
    large = jnp.linspace(86, 90, 4001)
    terms, factors = jnp.stack([large, jnp.zeros(4001)]), jnp.array([[0.0], [1.0]])
    for logsumexp in (nn.logsumexp, xpr.jit(nn.logsumexp, static_argnames="axis")):
        np.testing.assert_array_equal(logsumexp(terms, axis=0, b=factors), np.zeros(4001))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_one_hot_of_a_number_between_integers_is_zero(dtype):
    x = jnp.array([0.5, -0.5, 1, 300], dtype)
    expected = np.zeros((4, 301), np.float32)
    expected[[2, 3], [1, 300]] = 1
    np.testing.assert_array_equal(nn.one_hot(x, 301), expected)


def test_squareplus_of_integers_has_the_dtype_to_which_they_promote_with_the_constant():
    x = jnp.arange(3, dtype="int32")
    with xpr.enable_x64(True):
        assert nn.squareplus(x).dtype == nn.squareplus(x, 2).dtype == "float32" != nn.squareplus(x, 2.0).dtype
        assert not nn.squareplus(x).weak_type

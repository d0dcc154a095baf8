"""Random numbers: known answers, jax's own draws, distributions, transformations, keys, and errors."""

from __future__ import annotations

import contextlib
import math
from functools import partial

import numpy as np
import pytest
from scipy import special, stats

import xpr
import xpr.numpy as jnp
from tests.helpers import in_numpy
from tests.peer import JAX, beside_jax
from xpr import random
from xpr.backend import compiler
from xpr.config import override
from xpr.config_contexts import enable_x64
from xpr.primitives.random_bits import threefry2x32
from xpr.primitives.random_keys import random_bits
from xpr.primitives.random_poisson import random_poisson, rates_of
from xpr.random.independent_draws import independent_draws

u32 = np.uint32

# From Random123's kat_vectors, threefry2x32 with 20 rounds: key, counter, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("key, counter, result", KNOWN)
@pytest.mark.parametrize("size", [1, 20])  # in Python integers, and in NumPy's arrays
def test_known_answers(key, counter, result, size):
    words = [np.full(size, word, u32) for word in (*key, *counter)]
    for run in (threefry2x32, xpr.jit(threefry2x32)):
        for words_out, word in zip(run(*words), result):
            assert np.asarray(words_out).tolist() == [word] * size


def test_known_draws():
    """What jax 0.10.2 draws, for where it is not installed."""
    key = random.key(0)
    assert random.bits(key, (2,)).tolist() == [4070199207, 4202968722]
    assert random.key_data(random.split(key)).tolist() == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert random.normal(key, (2,)).tolist() == [np.float32(1.6226422), np.float32(2.0252647)]
    assert random.gamma(key, 2.0, (2,)).tolist() == [np.float32(1.5897877), np.float32(1.7599413)]
    assert random.permutation(key, 5).tolist() == [0, 1, 4, 3, 2]


@pytest.mark.parametrize("dim", [None, 0])
def test_gammas_of_one_shape_for_many_keys_and_of_many_shapes_for_one_key(dim):
    keys = random.split(random.key(0), 3)
    shapes = 2.0 if dim is None else jnp.array([0.5, 1.0, 4.0])
    own = [2.0] * 3 if dim is None else shapes
    for draw in (random.gamma, random.loggamma, lambda key, a, shape: random.beta(key, a, a, shape)):
        alone = in_numpy(lambda k, a, draw=draw: draw(k, a, ()))
        rows = in_numpy(xpr.vmap(lambda k, a, draw=draw: draw(k, a, ()), in_axes=(0, dim)))(keys, shapes)
        np.testing.assert_allclose(rows, [alone(k, a) for k, a in zip(keys, own)], rtol=1e-5)
        if dim == 0:
            rows = in_numpy(xpr.vmap(lambda a, draw=draw: draw(keys[0], a, ())))(shapes)
            np.testing.assert_allclose(rows, [alone(keys[0], a) for a in own], rtol=1e-5)


def test_counts_beyond_32_bits():
    """Entries are counted in 64 bits; so many can't be drawn here, but typed."""
    aval = xpr.eval_shape(lambda: random_bits(random.key(1), 8, (1 << 17, 1 << 16)))
    assert aval.shape == (1 << 17, 1 << 16) and aval.dtype == np.uint8


# -- The peer's draws: `random` is each library's in turn, `A` its arrays

DRAWS = """
random.bits(key)
random.bits(key, (3, 2), "uint8")
random.bits(key, (17,), "uint16")
random.bits(key, (100,), "uint32")
random.uniform(key, 3)
random.uniform(key, (100,))
random.uniform(key, (0, 2))
random.uniform(key, (50,), "float16")
random.uniform(key, (50,), "bfloat16")
random.uniform(key, (2, 3), minval=A([1.0, 2.0, 3.0]), maxval=A([[5.0], [7.0]]))
random.normal(key)
random.normal(key, (50,), "bfloat16")
random.normal(key, (50,), "float16")
random.normal(key, (50,), "complex64")
random.randint(key, (50,), 0, 10)
random.randint(key, (50,), -7, 100000)
random.randint(key, (50,), 5, 5)
random.randint(key, (50,), 0, 256, "uint8")
random.randint(key, (50,), -200, 300, "int8")
random.randint(key, (50,), 0, 10, "uint32")
random.randint(key, (50,), -2**31, 2**31 - 1)
random.randint(key, (3,), A([1, -5, 7]), 9)
random.bernoulli(key, 0.3, (50,))
random.bernoulli(key, A([0.1, 0.9]))
random.bernoulli(key, 1e-3, (50,), mode="high")
random.rademacher(key, (50,))
random.rademacher(key, (50,), "float32")
random.permutation(key, 100)
random.permutation(key, 2000)
random.permutation(key, A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
random.permutation(key, A([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]), axis=1, independent=True)
random.choice(key, 10, (5,))
random.choice(key, A([10.0, 20.0, 30.0]), (2, 2))
random.choice(key, 10, (5,), replace=False)
random.choice(key, A([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]), (2,), replace=False, axis=1)
random.choice(key, 4, (50,), p=A([0.1, 0.2, 0.3, 0.4]))
random.choice(key, 4, (2, 2), False, A([0.1, 0.2, 0.3, 0.4]))
random.categorical(key, A([0.0, 1.0, 2.0]), shape=(50,))
random.categorical(key, A([[0.0, 1.0, 2.0], [2.0, 0.0, 0.0]]))
random.categorical(key, A([[0.0, 1.0, 2.0], [2.0, 0.0, 0.0]]), axis=0)
random.categorical(key, A([[0.0, 1.0, 2.0], [2.0, 0.0, 0.0]]), shape=(3, 2), replace=False)
random.binomial(key, 20, 0.3, (50,))
random.binomial(key, A([1000, 200000]), A([[0.7], [0.5]]))
random.binomial(key, A([3.7, float("inf"), 30.0, 5.0]), A([0.9, 0.2, 0.0, 1.0]))
random.binomial(key, 90, A([0.7, 0.2]), dtype="bfloat16")
random.multinomial(key, A([100, 20]), A([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]), unroll=True)
random.multinomial(key, 100, A([0.1, 0.0, 0.9]), shape=(4, 3), dtype="int32")
random.exponential(key, (50,), "bfloat16")
random.gumbel(key, (50,))
random.gumbel(key, (50,), mode="high")
random.gumbel(key, (50,), mode="highest")
random.gumbel(key, (50,), "bfloat16", mode="highest")
random.categorical(key, A([0.0, 1.0, 2.0]), shape=(50,), mode="highest")
random.lognormal(key, 0.5, (50,))
random.pareto(key, 2.0, (50,))
random.rayleigh(key, 2.0, (50,))
random.triangular(key, 0.0, 0.3, 1.0, (50,))
random.geometric(key, 0.3, (50,))
random.gamma(key, 0.7, (20,), "bfloat16")
random.beta(key, 0.5, 3.0, (20,))
random.poisson(key, A([0.0, 0.5, 3.0, 9.9, 10.0, 1e3]), (20, 6))
random.poisson(key, 30.0, (20,), "int16")
"""

# Those of functions that round otherwise where they are compiled quickly, in jax or here.
ROUNDED_DRAWS = """
random.truncated_normal(key, A([0.0, 3.0]), 4.0)
random.uniform(key, (50,), minval=-2.5, maxval=7.3)
random.normal(key, (1000,))
random.truncated_normal(key, -1.0, 1.0, (50,))
random.exponential(key, (50,))
random.laplace(key, (50,))
random.logistic(key, (50,))
random.cauchy(key, (50,))
random.cauchy(key, (5000,))
random.maxwell(key, (50,))
random.double_sided_maxwell(key, 1.0, 2.0, (50,))
random.weibull_min(key, 1.0, 2.0, (50,))
random.weibull_min(key, 1.0, 2.5, (5000,))
random.wald(key, 1.5, (50,))
random.gamma(key, A([0.3, 1.0, 2.0, 30.0]), (50, 4))
random.gamma(key, 0.7, (2000,))
random.loggamma(key, A([1e-3, 0.3, 2.0]), (20, 3))
random.dirichlet(key, A([0.5, 1.0, 2.0]), (20,))
random.chisquare(key, 3.0, shape=(20,))
random.t(key, 3.0, (20,))
random.generalized_normal(key, 1.5, (20,))
"""


# They are one compiled program outside jit, too, and take seconds to compile.
COMPILED_ALREADY = frozenset(
    "beta binomial chisquare dirichlet f gamma generalized_normal loggamma multinomial poisson t".split()
)


def drawn(call, library, in_jit=False):
    """What a library draws from the same key."""

    def array(rows):
        return library.numpy.asarray(np.asarray(rows, np.float32 if "." in repr(rows) else np.int32))

    draw = lambda key: eval(call, {"random": library.random, "A": array, "key": key})
    return (library.jit(draw) if in_jit else draw)(library.random.key(7))


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert a.tobytes() == b.tobytes(), f"{(a != b).sum()} of {a.size} differ: {a.ravel()[:4]} and {b.ravel()[:4]}"


def same_as_jax(ours, theirs):
    """Bit for bit, where jax itself can be asked: the last bits that are kept are of one release of XLA."""
    if JAX is not None or theirs.dtype.kind not in "fcV":
        return same_bits(ours, theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    tolerance = 1e-2 if ours.dtype.itemsize < 4 else 1e-4
    return np.testing.assert_allclose(*(np.asarray(x).astype(np.complex128) for x in (ours, theirs)), rtol=tolerance)


def check_draws(call, in_jit=False, compare=same_as_jax):
    """What is drawn is what jax draws."""
    ours = drawn(call, xpr, in_jit)
    ask = lambda: [drawn(call, JAX, in_jit)]
    beside_jax(f"{call}{' in jit' * in_jit}", {}, ask, lambda theirs: compare(ours, theirs[0]))
    return ours


@contextlib.contextmanager
def in_64_bits():
    with enable_x64(), JAX.enable_x64(True) if JAX else contextlib.nullcontext():
        yield


@pytest.mark.optimized
def test_points_in_balls_are_the_peers_to_a_rounding():
    """Powers are lowered with a guard that jax has not, around which XLA rounds otherwise."""
    check_draws("random.ball(key, 3, 2, (20,))", compare=partial(np.testing.assert_allclose, rtol=3e-7))


def is_compiled_already(call):
    return call[len("random.") : call.index("(")] in COMPILED_ALREADY


@pytest.mark.parametrize("call", DRAWS.split("\n")[1:-1])
def test_draws_are_the_peers(call):
    """Outside jit and inside they are one, and those of jax."""
    if is_compiled_already(call):
        check_draws(call)
    else:
        same_bits(check_draws(call, in_jit=True), drawn(call, xpr))


@pytest.mark.optimized
@pytest.mark.parametrize("call", ROUNDED_DRAWS.split("\n")[1:-1])
def test_rounded_draws_are_the_peers(call):
    check_draws(call)
    if not is_compiled_already(call):
        check_draws(call, in_jit=True)


# Draws number by number, of which one program serves many shapes.
INDEPENDENT = """
random.bits(key, shape)
random.bits(key, shape, "uint8")
random.uniform(key, shape)
random.uniform(key, shape, "bfloat16", -1.0, 2.0)
random.randint(key, shape, -5, 1000)
random.bernoulli(key, 0.3, shape)
random.normal(key, shape)
random.normal(key, shape, "complex64")
random.truncated_normal(key, -1.0, 2.0, shape)
random.maxwell(key, shape)
random.gumbel(key, shape)
random.exponential(key, shape)
random.gamma(key, 0.7, shape)
random.t(key, 3.0, shape)
random.poisson(key, 3.0, shape)
"""


def compiled_by(f, monkeypatch):
    """The result of a function, and how many programs it compiled."""
    texts = []
    compile_text = compiler.compile_text
    monkeypatch.setattr(compiler, "compile_text", lambda text, *args: texts.append(text) or compile_text(text, *args))
    out = f()
    monkeypatch.undo()
    return out, len(texts)


@pytest.mark.parametrize("call", INDEPENDENT.split("\n")[1:-1])
def test_one_program_draws_arrays_of_many_shapes(call, monkeypatch):
    draw = eval("lambda key, shape: " + call, {"random": random})
    key = random.key(7)
    drawn = {shape: draw(key, shape) for shape in [(40,), (9,)]}
    for shape in [(), (1,), (2, 3), (3, 2), (64,), (4, 0)]:
        drawn[shape], programs = compiled_by(lambda shape=shape: draw(key, shape), monkeypatch)
        assert programs == (shape == (4, 0))  # of which there is nothing to begin with
    for shape, numbers in drawn.items():
        assert numbers.shape == shape and not numbers.weak_type
        inside = xpr.jit(draw, static_argnums=1)(key, shape)
        numbers, inside = (np.asarray(x).astype(np.complex128) for x in (numbers, inside))
        np.testing.assert_allclose(numbers, inside, rtol=1e-6)
    np.testing.assert_array_equal(drawn[2, 3], drawn[64,][:6].reshape(2, 3))


@pytest.mark.optimized  # the bits of programs that are not depend on how they are divided into modules
@pytest.mark.parametrize("rate", [1e4, np.float32(50), jnp.float32(3)])
@pytest.mark.parametrize("size", [5, 300])
def test_poisson_numbers_of_large_rates_depend_on_the_shape(rate, size):
    """Those that are done are drawn again as long as one is not, as in JAX."""
    key = random.key(3)
    inside = xpr.jit(lambda key: random.poisson(key, rate, (size,)))(key)
    np.testing.assert_array_equal(random.poisson(key, rate, (size,)), inside)


@pytest.mark.parametrize("rate", [3.0, np.float64(3), np.array([0.5, 9.75, 40.0]), np.int64(30)], ids=str)
def test_poisson_numbers_are_the_same_where_64_bits_are_on(rate):
    expected = random.poisson(random.key(0), rate, (20, 3))
    with xpr.enable_x64(True):
        drawn = random.poisson(random.key(0), rate, (20, 3))
        assert drawn.dtype == "int64"
        np.testing.assert_array_equal(drawn, expected)


def test_what_is_known_of_poisson_rates():
    assert [rates_of(rate) for rate in (0, 9.9, 9.9999999, 10, 1e9, np.float32(3))] == [
        "small", "small", "any", "large", "large", "any",
    ]  # fmt: skip
    with pytest.raises(ValueError, match='rates are "any", "small" or "large", and not \'few\''):
        random_poisson(random.key(0), jnp.ones(3), "few")


def test_draws_that_need_a_program_for_their_shape(monkeypatch):
    """Parameters that are no scalars, other generators, many numbers, and modes whose bits depend on the shape."""
    key, scales = random.key(0), jnp.array([1.0, 2.0, 3.0])
    random.rayleigh(key, 1.0, (3,))
    whole = random.rayleigh(key, scales, (2, 3))
    np.testing.assert_allclose(whole, random.rayleigh(key, 1.0, (2, 3)) * scales, rtol=1e-6)
    many = random.bits(key, (70_000,))
    np.testing.assert_array_equal(many[:5], random.bits(key, (5,)))
    by_rows, programs = compiled_by(lambda: random.bits(key, (700, 100)), monkeypatch)
    np.testing.assert_array_equal(by_rows.ravel(), many)
    assert programs == 0
    rbg = random.key(0, impl="rbg")
    np.testing.assert_array_equal(random.bits(rbg, (3,)), xpr.jit(lambda key: random.bits(key, (3,)))(rbg))
    for mode in ("high", "low"):
        inside = xpr.jit(lambda key, mode=mode: random.gumbel(key, (3,), mode=mode))(key)
        np.testing.assert_allclose(random.gumbel(key, (3,), mode=mode), inside, rtol=1e-6)
        inside = xpr.jit(lambda key, mode=mode: random.bernoulli(key, 0.5, (9,), mode=mode))(key)
        np.testing.assert_array_equal(random.bernoulli(key, 0.5, (9,), mode=mode), inside)
    with override("threefry_partitionable", False):
        of_five = random.bits(key, (5,))
        np.testing.assert_array_equal(of_five, xpr.jit(lambda key: random.bits(key, (5,)))(key))
    assert not np.array_equal(of_five, random.bits(key, (5,)))
    there = xpr.device_put(key, xpr.devices("cpu")[0])
    np.testing.assert_array_equal(random.bits(there, (5,)), random.bits(key, (5,)))
    assert random.bits(key, (5,)).unsafe_buffer_pointer()


MATRICES = """
random.multivariate_normal(key, A([0.0, 1.0]), A([[2.0, 0.5], [0.5, 1.0]]), (5,))
random.multivariate_normal(key, A([[0.0, 1.0], [2.0, 3.0]]), A([[2.0, 0.5], [0.5, 1.0]]), method="eigh")
random.multivariate_normal(key, A([0.0, 1.0]), A([[1.0, 1.0], [1.0, 1.0]]), (2, 3), method="svd")
random.multivariate_normal(key, A([0, 1]), A([[2, 1], [1, 3]]), dtype="float16")
random.orthogonal(key, 3)
random.orthogonal(key, 3, (2,), m=5)
random.orthogonal(key, 4, m=2)
random.orthogonal(key, 3, dtype="complex64")
"""


@pytest.mark.parametrize("call", MATRICES.split("\n")[1:-1])
def test_matrices_are_the_peers(call):
    def compare(ours, theirs):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-2 if ours.dtype == np.float16 else 1e-5, atol=1e-3)

    check_draws(call, compare=compare)


def test_covariance():
    cov = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    drawn = np.asarray(random.multivariate_normal(random.key(0), np.ones(2, np.float32), cov, (40_000,)))
    np.testing.assert_allclose(drawn.mean(0), 1, atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.05)
    with pytest.raises(ValueError, match="the method is 'cholesky', 'eigh' or 'svd', and not 'lu'"):
        random.multivariate_normal(random.key(0), np.ones(2, np.float32), cov, method="lu")
    with pytest.raises(ValueError, match=r"a mean \[..., n\] and a covariance .* f32\[3\] and f32\[2,2\]"):
        random.multivariate_normal(random.key(0), np.ones(3, np.float32), cov)
    with pytest.raises(ValueError, match=r"have shape \(4,\), not that of \(3,\)"):
        random.multivariate_normal(random.key(0), np.ones((4, 2), np.float32), cov, (3,))


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**32 + 5, 2**40, -(2**33), 2**63 - 1, True])
def test_seeds_are_the_peers(seed):
    check_draws(f"random.PRNGKey({seed})")
    with in_64_bits():
        check_draws(f"random.PRNGKey({seed})")


@pytest.mark.parametrize("num", [0, 1, 2, 17, 100, (2, 3), ()])
def test_splits_are_the_peers(num):
    check_draws(f"random.split(random.PRNGKey(1), {num})")
    same_bits(xpr.jit(lambda key: random.split(key, num))(random.PRNGKey(1)), random.split(random.PRNGKey(1), num))


@pytest.mark.parametrize("data", [0, 7, 2**32 - 1])
def test_folds_are_the_peers(data):
    check_draws(f"random.fold_in(random.PRNGKey(1), {data})")
    same_bits(xpr.jit(random.fold_in)(random.PRNGKey(1), u32(data)), random.fold_in(random.PRNGKey(1), data))


@pytest.mark.parametrize("call", [
    "random.bits(key, (20,))", "random.uniform(key, (20,))", "random.randint(key, (20,), 0, 9)",
    "random.randint(key, (20,), -2**63, 2**63 - 1)", "random.choice(key, 9, (5,))",
    "random.choice(key, 3, (5,), p=A([0.2, 0.3, 0.5]))",
    *(pytest.param(f"random.{call}", marks=pytest.mark.optimized)
      for call in ("normal(key, (20,))", "gamma(key, 0.5, (20,))", "exponential(key, (20,), 'float32')")),
])  # fmt: skip
def test_draws_in_64_bits_are_the_peers(call):
    with in_64_bits():
        check_draws(call)


# -- Distributions

NORMAL = stats.norm.cdf
CONTINUOUS = {
    "uniform": (lambda key, n: random.uniform(key, (n,), minval=-1.0, maxval=3.0), stats.uniform(-1, 4).cdf),
    "normal": (lambda key, n: random.normal(key, (n,)), NORMAL),
    "truncated_normal": (
        lambda key, n: random.truncated_normal(key, -1.0, 2.0, (n,)),
        lambda x: (NORMAL(x) - NORMAL(-1)) / (NORMAL(2) - NORMAL(-1)),
    ),
    "exponential": (lambda key, n: random.exponential(key, (n,)), stats.expon.cdf),
    "gumbel": (lambda key, n: random.gumbel(key, (n,)), stats.gumbel_r.cdf),
    "laplace": (lambda key, n: random.laplace(key, (n,)), stats.laplace.cdf),
    "logistic": (lambda key, n: random.logistic(key, (n,)), stats.logistic.cdf),
    "cauchy": (lambda key, n: random.cauchy(key, (n,)), stats.cauchy.cdf),
    "maxwell": (lambda key, n: random.maxwell(key, (n,)), stats.maxwell.cdf),
    "lognormal": (lambda key, n: random.lognormal(key, 0.5, (n,)), stats.lognorm(0.5).cdf),
    "pareto": (lambda key, n: random.pareto(key, 2.0, (n,)), stats.pareto(2).cdf),
    "rayleigh": (lambda key, n: random.rayleigh(key, 2.0, (n,)), stats.rayleigh(scale=2).cdf),
    "weibull_min": (lambda key, n: random.weibull_min(key, 3.0, 2.0, (n,)), stats.weibull_min(2, scale=3).cdf),
    "wald": (lambda key, n: random.wald(key, 1.5, (n,)), stats.invgauss(1.5).cdf),
    "triangular": (lambda key, n: random.triangular(key, 0.0, 0.5, 2.0, (n,)), stats.triang(0.25, scale=2).cdf),
    "gamma": (lambda key, n: random.gamma(key, 0.4, (n,)), stats.gamma(0.4).cdf),
    "loggamma": (lambda key, n: random.loggamma(key, 2.5, (n,)), stats.loggamma(2.5).cdf),
    "beta": (lambda key, n: random.beta(key, 0.5, 3.0, (n,)), stats.beta(0.5, 3).cdf),
    "dirichlet": (lambda key, n: random.dirichlet(key, jnp.array([1.0, 2.0, 3.0]), (n,))[:, 1], stats.beta(2, 4).cdf),
    "chisquare": (lambda key, n: random.chisquare(key, 3.0, (n,)), stats.chi2(3).cdf),
    "f": (lambda key, n: random.f(key, 3.0, 5.0, (n,)), stats.f(3, 5).cdf),
    "t": (lambda key, n: random.t(key, 4.0, (n,)), stats.t(4).cdf),
    "generalized_normal": (lambda key, n: random.generalized_normal(key, 1.5, (n,)), stats.gennorm(1.5).cdf),
    "ball": (lambda key, n: jnp.sqrt((random.ball(key, 3, shape=(n,)) ** 2).sum(1)), lambda r: r**3),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name):
    draw, cdf = CONTINUOUS[name]
    found = stats.kstest(np.asarray(in_numpy(lambda key: draw(key, 3000))(random.key(11)), np.float64), cdf)
    assert found.pvalue > 1e-3, found


DISCRETE = {
    "randint": (lambda key, n: random.randint(key, (n,), 0, 5), [0.2] * 5),
    "bernoulli": (lambda key, n: random.bernoulli(key, 0.3, (n,)), [0.7, 0.3]),
    "bernoulli, high": (lambda key, n: random.bernoulli(key, 0.3, (n,), mode="high"), [0.7, 0.3]),
    "choice": (lambda key, n: random.choice(key, 3, (n,), p=jnp.array([0.2, 0.5, 0.3])), [0.2, 0.5, 0.3]),
    "categorical": (
        lambda key, n: random.categorical(key, jnp.log(jnp.array([2.0, 5.0, 3.0])), shape=(n,)),
        [0.2, 0.5, 0.3],
    ),
    "binomial": (lambda key, n: random.binomial(key, 3, 0.3, (n,)), stats.binom(3, 0.3).pmf(range(4))),
    "binomial, large": (
        lambda key, n: jnp.clip(random.binomial(key, 100.0, 0.6, (n,)) - 54, 0, 12) // 4,
        np.diff([0, *stats.binom(100, 0.6).cdf([57, 61, 65]), 1]),
    ),
    "geometric": (lambda key, n: random.geometric(key, 0.6, (n,)), [0.0, 0.6, 0.24, 0.096, 0.064]),
    "poisson": (
        lambda key, n: random.poisson(key, 1.5, (n,)),
        [*stats.poisson(1.5).pmf(range(4)), stats.poisson(1.5).sf(3)],
    ),
    "poisson, large": (
        lambda key, n: jnp.clip(random.poisson(key, 40.0, (n,)) - 34, 0, 12) // 4,
        np.diff([0, *stats.poisson(40).cdf([37, 41, 45]), 1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_chances(name):
    draw, chances = DISCRETE[name]
    last = len(chances) - 1
    drawn = np.asarray(in_numpy(lambda key: draw(key, 3000))(random.key(11))).astype(int)
    counts = np.bincount(np.minimum(drawn, last), minlength=last + 1)
    wanted = np.asarray(chances) * 3000
    assert not counts[wanted == 0].any()
    found = stats.chisquare(counts[wanted > 0], wanted[wanted > 0])
    assert found.pvalue > 1e-3, (counts, wanted)


def test_permutations_are_all_alike():
    keys = random.split(random.key(3), 1200)
    orders = np.asarray(xpr.vmap(lambda key: random.permutation(key, 3))(keys))
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-3


def test_choice_without_replacement_has_no_doubles():
    drawn = random.choice(random.key(0), 100, (100,), replace=False)
    assert sorted(drawn.tolist()) == list(range(100))
    weighted = random.choice(random.key(0), 10, (10,), replace=False, p=jnp.arange(1.0, 11.0))
    assert sorted(weighted.tolist()) == list(range(10))


# -- Transformations

MAPPED = {
    "uniform": lambda key: random.uniform(key, (3,)),
    "normal": lambda key: random.normal(key),
    "randint": lambda key: random.randint(key, (3,), 0, 100),
    "gamma": lambda key: random.gamma(key, 0.7, (3,)),
    "poisson": lambda key: random.poisson(key, 20.0, (3,)),
    "binomial": lambda key: random.binomial(key, jnp.array([9.0, 90.0]), 0.4),
    "multinomial": lambda key: random.multinomial(key, 9, jnp.array([0.2, 0.3, 0.5])),
    "permutation": lambda key: random.permutation(key, 6),
    "choice": lambda key: random.choice(key, 9, (2,), p=jnp.arange(1.0, 10.0)),
    "categorical": lambda key: random.categorical(key, jnp.zeros(4)),
    "split": lambda key: random.key_data(random.split(key)),
    "fold_in": lambda key: random.key_data(random.fold_in(key, 3)),
}


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_over_keys(name):
    keys = random.split(random.key(5), 4)
    run = in_numpy if name in COMPILED_ALREADY else lambda draw: draw  # what takes a second to compile
    alone = run(MAPPED[name])
    same_bits(run(xpr.vmap(MAPPED[name]))(keys), np.stack([np.asarray(alone(key)) for key in keys]))


def test_mapped_over_parameters():
    """One key and many rates: every row draws as it would alone, and goes on as long as it would alone."""
    key, rates = random.key(5), jnp.array([0.5, 5.0, 50.0])
    for draw in (random.gamma, random.poisson):
        alone = in_numpy(lambda a, draw=draw: draw(key, a, (2,)))
        rows = in_numpy(xpr.vmap(lambda a, draw=draw: draw(key, a, (2,))))(rates)
        same_bits(rows, np.stack([np.asarray(alone(a)) for a in rates]))


def test_gamma_slope_holds_the_chance_fixed():
    for draw, slope in ((random.gamma, lambda x: 1.0), (random.loggamma, lambda x: 1 / x)):
        a = jnp.array([0.05, 0.5, 1.0, 3.0, 30.0])
        drawn, tangent = in_numpy(lambda a: xpr.jvp(lambda a: draw(random.key(2), a), (a,), (jnp.ones(5),)))(a)  # noqa: B023
        x = np.asarray(drawn if draw is random.gamma else np.exp(drawn), np.float64)
        chance, step = special.gammainc(a, x), 1e-4
        moved = [special.gammaincinv(np.asarray(a, np.float64) + s, chance) for s in (-step, step)]
        np.testing.assert_allclose(tangent, slope(x) * (moved[1] - moved[0]) / (2 * step), rtol=2e-3)


def test_slopes_of_means():
    key = random.key(1)
    mean_of_beta = lambda a, b: random.beta(key, a, b, (4000,)).mean()
    da, db = in_numpy(xpr.grad(mean_of_beta, (0, 1)))(2.0, 3.0)
    np.testing.assert_allclose((da, db), (3 / 25, -2 / 25), atol=4e-3)
    mean_of_share = lambda alpha: random.dirichlet(key, alpha, (4000,))[:, 0].mean()
    found = in_numpy(xpr.grad(mean_of_share))(jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, (5 / 36, -1 / 36, -1 / 36), atol=6e-3)


def test_slopes_in_loc_and_scale():
    key = random.key(0)
    loc, scale = xpr.jacrev(lambda loc, scale: loc + scale * random.normal(key, (3,)), (0, 1))(1.0, 2.0)
    np.testing.assert_array_equal(loc, np.ones(3))
    same_bits(scale, random.normal(key, (3,)))
    low, high = xpr.jacfwd(lambda a, b: random.uniform(key, (3,), minval=a, maxval=b), (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(low + high, np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(high, random.uniform(key, (3,)), rtol=1e-6)


def test_one_call_in_the_jaxpr():
    closed = xpr.make_jaxpr(lambda key: random.uniform(key, (3,)) + random.uniform(key, (3,)))(random.key(0))
    first, second, _ = closed.eqns
    assert (first.primitive.name, first.params["name"]) == ("xla_call", "uniform")
    assert first.params["call_jaxpr"] is second.params["call_jaxpr"]
    both = xpr.jit(lambda key: random.normal(key, (3,)) + random.normal(random.clone(key), (3,)))
    assert both.lower(random.key(0)).as_text().count("func.func private @normal(") == 1


def test_small_keys_are_made_without_compiling(monkeypatch):
    monkeypatch.setattr("xpr.backend.compiler.compile", None)
    key = random.fold_in(random.split(random.key(123))[0], 5)
    assert key.shape == ()


# -- Keys


def test_typed_keys():
    key = random.key(0)
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[0 0]"
    assert (key.shape, key.ndim, key.size, key.nbytes, str(key.dtype)) == ((), 0, 1, 8, "key<fry>")
    assert random.key_impl(key) == "threefry2x32" == random.key_impl(random.PRNGKey(0))
    keys = random.split(key, (2, 3))
    assert keys.shape == (2, 3) == keys.T.T.shape and keys.T.shape == (3, 2) and len(keys) == 2
    assert keys[1].shape == (3,) and keys[..., 0].shape == (2,) and keys[None].shape == (1, 2, 3)
    assert keys[:, 1:].shape == (2, 2) and keys.reshape(6).shape == (6,) == keys.ravel().shape
    assert keys.reshape(3, -1).shape == (3, 2) and keys[:1].squeeze().shape == (3,)
    assert [k.shape for k in keys] == [(3,), (3,)]
    same_bits(random.key_data(keys[1, 2]), random.key_data(keys)[1, 2])
    same_bits(random.key_data(keys.transpose(1, 0)), np.asarray(random.key_data(keys)).transpose(1, 0, 2))
    assert bool(key == random.clone(key)) and not (keys == key).any() and (keys != key).all()
    assert (random.wrap_key_data(random.key_data(keys)) == keys).all()
    with pytest.raises(TypeError):
        hash(key)
    with pytest.raises(TypeError, match="without axes"):
        len(key)


def test_both_forms_of_keys():
    old, new = random.PRNGKey(3), random.key(3)
    for draw in (random.bits, random.normal):
        same_bits(draw(old), draw(new))
    for fun in (random.split, random.clone, lambda key: random.fold_in(key, 1)):
        assert (fun(old).dtype, fun(new).dtype) == (u32, random.key_dtype())
    same_bits(random.normal(np.array([0, 3], u32)), random.normal(new))


def test_keys_are_leaves():
    key = random.key(4)
    (leaf,), structure = xpr.tree.flatten({"key": key})
    assert leaf is key and xpr.tree.unflatten(structure, [leaf]) == {"key": key}
    assert xpr.tree.map(lambda k: k.dtype, key) == random.key_dtype()
    again, drawn = xpr.jit(lambda state: (random.split(state["key"])[0], random.normal(state["key"])))({"key": key})
    assert again.dtype == key.dtype and (again == random.split(key)[0])
    same_bits(drawn, random.normal(key))
    assert xpr.vmap(random.split)(random.split(key, 3)).shape == (3, 2)
    slope = xpr.grad(lambda w, key: w * random.normal(key))(2.0, key)
    same_bits(slope, random.normal(key))
    seen = []
    xpr.jit(lambda key: seen.append(repr(key)) or key)(key)
    assert "key<fry>[]" in seen[0]


def test_traced_seeds():
    same_bits(xpr.jit(random.PRNGKey)(-5), random.PRNGKey(-5))
    same_bits(xpr.vmap(random.PRNGKey)(jnp.arange(3)), np.stack([random.PRNGKey(i) for i in range(3)]))


def test_binomial_numbers_of_parameters_out_of_range():
    """Also of an infinite number of trials without a chance, where jax's loop does not end."""
    n = jnp.array([-1.0, jnp.nan, 5, 5, 5, jnp.inf])
    drawn = random.binomial(KEY, n, jnp.array([0.2, 0.2, -1, 2, jnp.nan, 0]))
    np.testing.assert_array_equal(drawn, [np.nan] * 5 + [np.inf])


def test_binomial_numbers_are_constants_of_their_parameters():
    for n in (9.0, 90.0):
        assert xpr.grad(lambda p, n=n: random.binomial(KEY, n, p))(0.3) == 0
    slope = xpr.grad(lambda p: random.multinomial(KEY, 9, p).max())(jnp.array([0.2, 0.8]))
    np.testing.assert_array_equal(slope, [0, 0])


# -- Errors

KEY = random.key(0)
WRONG = [
    (lambda: random.normal(3), TypeError, "invalid PRNG key data: expected a random key, and got 3"),
    (lambda: random.normal(jnp.ones(2)), TypeError, r"got f32\[2\]"),
    (lambda: random.normal(jnp.ones(3, jnp.uint32)), TypeError, r"got u32\[3\]"),
    (lambda: random.normal(random.split(KEY, 3)), ValueError, r"random.normal: takes a single key.*shape \(3,\).*vmap"),
    (lambda: random.split(random.split(KEY)), ValueError, "single key"),
    (lambda: random.normal(KEY, (2, -1)), ValueError, "negative"),
    (lambda: random.uniform(KEY, (1.5,)), TypeError, "1.5"),
    (lambda: random.normal(KEY, (2,), "int32"), ValueError, "must be a complex dtype, or a float.*, and is int32"),
    (lambda: random.uniform(KEY, (2,), "complex64"), ValueError, "to random.uniform must be .*, and is complex64"),
    (lambda: random.bits(KEY, (2,), "int32"), ValueError, "uint16, uint32, uint64, uint8"),
    (lambda: random.randint(KEY, (2,), 0, 3, "float32"), ValueError, "an integer dtype"),
    (lambda: random.uniform(KEY, (2,), minval=jnp.zeros(3)), ValueError, r"minval \(3,\)"),
    (lambda: random.gamma(KEY, jnp.ones(3), (4,)), ValueError, r"the shape \(4,\) asked for. Their shapes: a \(3,\)"),
    (lambda: random.ball(KEY, (2, 3)), TypeError, r"integer type, and \(2, 3\) is none"),
    (lambda: random.dirichlet(KEY, 1.0), ValueError, "alpha must have an axis"),
    (lambda: random.multinomial(KEY, 3, 0.5), ValueError, "p must have an axis"),
    (lambda: random.bernoulli(KEY, 1, (3,)), TypeError, "float dtype"),
    (lambda: random.bernoulli(KEY, 0.5, mode="x"), ValueError, "one of low, high, and 'x' was given"),
    (lambda: random.permutation(KEY, 3.5), TypeError, "an integer or an array with an axis"),
    (lambda: random.permutation(KEY, jnp.ones(3), axis=1), ValueError, "no axis 1"),
    (lambda: random.choice(KEY, jnp.ones(3), axis=1), ValueError, "no axis 1"),
    (lambda: random.choice(KEY, 0), ValueError, "nothing to draw from"),
    (lambda: random.choice(KEY, 5, (6,), replace=False), ValueError, "6 elements.*there are 5"),
    (lambda: random.choice(KEY, 5, (2,), p=jnp.ones(4)), ValueError, "the 5 elements"),
    (lambda: random.categorical(KEY, jnp.zeros((3, 4)), shape=()), ValueError, r"must end with.*\(3,\)"),
    (lambda: random.categorical(KEY, jnp.zeros(4), shape=(5,), replace=False), ValueError, "5. is greater"),
    (lambda: random.permutation(KEY, 10, axis=3), ValueError, "there is no axis 3 in an array of 1 axes"),
    (lambda: random.gumbel(KEY, (3,), mode="higher"), ValueError, "one of low, high, highest, and 'higher' was given"),
    (lambda: random.randint(KEY, (3,), 0, 2**31 + 1), OverflowError, "maxval is 2147483649, and int32 has"),
    (lambda: random.randint(KEY, (3,), -1, 5, "uint32"), OverflowError, "minval is -1, and uint32 has numbers from 0"),
    (lambda: random.randint(KEY, (3,), 0, 5, float), TypeError, "randint must be an integer dtype, and is float32"),
    (lambda: random.key(1.5), TypeError, "the PRNG key seed must be an integer"),
    (lambda: random.key(jnp.arange(3)), TypeError, "accepts a scalar seed.*vmap"),
    (lambda: random.key(2**63), OverflowError, r"the seed 9223372036854775808 is out of int64's range, -2\*\*63"),
    (lambda: random.PRNGKey(-(2**63) - 1), OverflowError, "out of int64's range"),
    (lambda: random.key(0, impl="pcg"), ValueError, "unrecognized PRNG implementation 'pcg'; .* 'rbg'"),
    (lambda: random.key(0, impl="rbg", dtype="rbg"), ValueError, "Cannot specify both `impl` and `dtype`"),
    (lambda: random.key(0, impl=3), TypeError, "unrecognized type of a PRNG implementation: 3"),
    (lambda: random.fold_in(KEY, -1), OverflowError, "32-bit"),
    (lambda: random.fold_in(KEY, jnp.arange(3)), TypeError, r"i32\[3\]"),
    (lambda: random.wrap_key_data(jnp.zeros(3, jnp.uint32)), TypeError, "the words of keys of threefry2x32 are u32"),
    (lambda: np.asarray(KEY), TypeError, "key_data"),
    (lambda: bool(KEY), TypeError, "key_data"),
]  # fmt: skip


def test_a_permutation_of_the_numbers_below_a_negative_one_is_empty():
    assert random.permutation(KEY, -3).shape == xpr.jit(lambda key: random.permutation(key, -3))(KEY).shape == (0,)


@pytest.mark.parametrize("wrong, error, message", WRONG)
def test_errors(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_bounds_beyond_the_dtype():
    """One past the greatest number makes that one possible; anything further is taken as that in narrow dtypes."""
    drawn = np.asarray(random.randint(random.key(0), (2000,), 2**31 - 4, 2**31))
    assert set(drawn.tolist()) == {2**31 - 4, 2**31 - 3, 2**31 - 2, 2**31 - 1}
    # Of all numbers of a dtype: what JAX draws where 64-bit types make it take 2**31 for the bound.
    whole = random.randint(random.key(3), (3,), -(2**31), 2**31)
    assert whole.tolist() == [-2035837365, 179268211, -81511011]
    unsigned = random.randint(random.key(3), (3,), 0, 2**32, "uint32")
    same_bits(unsigned, (whole.astype("uint32") + np.uint32(2**31)))
    narrow = random.randint(random.key(0), (50,), -12345, 12345, "int8")
    same_bits(narrow, random.randint(random.key(0), (50,), -128, 128, "int8"))
    assert math.isclose(np.asarray(random.randint(random.key(0), (5000,), 0, 300, "uint8")).max(), 255)


def test_an_axis_may_be_an_array():
    logits = jnp.array([[0.0, 1.0, 2.0], [2.0, 0.0, 0.0]])
    for replace in (True, False):
        drawn = [random.categorical(KEY, logits, axis, replace=replace) for axis in (0, jnp.array(0), np.int8(-2))]
        same_bits(drawn[1], drawn[0])
        same_bits(drawn[2], drawn[0])


def test_bounds_of_one_element_give_a_scalar_their_axes():
    """As in JAX: flashbax draws from the strata of its replay buffers this way."""
    key, low = random.key(0), jnp.array([2.0])
    drawn = random.uniform(key, (), minval=low, maxval=low + 1)
    assert drawn.shape == (1,) and drawn[0] == random.uniform(key, minval=2.0, maxval=3.0)
    with pytest.raises(ValueError, match=r"broadcast to each other, and to the shape \(\) asked for"):
        random.uniform(key, (), minval=jnp.zeros(2), maxval=1.0)


def test_the_words_of_keys_are_in_the_same_memory():
    keys = random.split(random.key(0), 3)
    words = keys._base_array
    assert (np.asarray(words) == np.asarray(random.key_data(keys))).all() and words.nbytes == keys.nbytes
    assert words.unsafe_buffer_pointer() == keys.unsafe_buffer_pointer() and words.device == keys.device
    keys.delete()
    assert keys._base_array.is_deleted()
    assert not hasattr(jnp.ones(2), "_base_array")


@pytest.mark.parametrize("draw", [random.t, random.chisquare, random.pareto, random.gamma])
def test_complex_parameters_are_refused(draw):
    for parameter in (1j, jnp.ones(2) + 1j):
        with pytest.raises(ValueError, match="its imaginary part would be lost. Take x.real"):
            draw(random.key(0), parameter)


def test_clear_caches_forgets_the_shapes_that_were_drawn():
    @independent_draws
    def bits(key, *, shape):
        return random_bits(key, 32, shape)

    assert bits(KEY, shape=(3,)).shape == (3,)
    assert bits.longer and bits.avals
    xpr.clear_caches()
    assert not bits.longer and not bits.avals and not bits.programs
    assert bits(KEY, shape=(3,)).shape == (3,)

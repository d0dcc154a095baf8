"""inverse and inverse_and_log_det: f(inverse(f)(y)) is y, and the log-determinant is slogdet's of the Jacobian."""

import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy, in_numpy
from xpr import lax
from xpr.errors import NotInvertible

X = np.array([0.3, 0.5, 0.7, 0.2])
RNG = np.random.default_rng(0)
triangular_solve = lax.linalg.triangular_solve


def coupling(x):
    for _ in range(3):
        a, b = jnp.split(x, 2)
        b = b * jnp.exp(xpr.jit(jnp.sin)(a)) + jnp.sum(xpr.nn.softplus(a))
        x = jnp.concatenate([b, a])
    return x


def autoregressive(x):
    def step(carry, row):
        y = row * jnp.exp(carry) + carry
        return 0.5 * carry + y, y

    return lax.scan(step, 0.1, x)[1]


def recurrent(x):
    def step(state, factor):
        n, c = state
        return (n + 1, jnp.sinh(c) * factor + n), None

    return lax.scan(step, (0, x), jnp.arange(1.0, 4.0))[0][1]


M4, M2 = (RNG.normal(size=(n, n)) + 3 * np.eye(n) for n in (4, 2))
STACK = RNG.normal(size=(2, 2, 2)) + 2 * np.eye(2)


def solves(x):
    """The solution with M4, by Gauss's elimination."""
    factors, _, order = lax.linalg.lu(jnp.asarray(M4))

    def solve(_, b):
        z = triangular_solve(factors, b[order], left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, z, left_side=True)

    return lax.custom_linear_solve(lambda x: jnp.asarray(M4) @ x, x, solve)


def triangular(x, **how):
    return triangular_solve(jnp.asarray(M4), x, **how)


LINEAR = {
    "a product from the left": lambda x: jnp.asarray(M4) @ x + 1,
    "a product from the right": lambda x: jnp.tanh(x @ jnp.asarray(M4) / 10),
    "a dense network": lambda x: jnp.asarray(M4) @ jnp.tanh(jnp.asarray(M4).T @ jnp.sinh(x) / 10),
    "products of several rows": lambda x: x.reshape(2, 2) @ jnp.asarray(M2),
    "products of several columns": lambda x: jnp.asarray(M2) @ x.reshape(2, 2),
    "stacks of products": lambda x: jnp.einsum("bij,bj->bi", jnp.asarray(STACK), x.reshape(2, 2)),
    "products over several axes": lambda x: jnp.tensordot(jnp.asarray(M4).reshape(2, 2, 2, 2), x.reshape(2, 2), 2),
    "mapped products": lambda x: xpr.vmap(lambda m, r: m @ r)(jnp.asarray(STACK), x.reshape(2, 2)),
    "triangular solves": lambda x: triangular(x, left_side=True, lower=True),
    "triangular solves from the right": lambda x: triangular(x[None], transpose_a=True)[0],
    "unit triangular solves": lambda x: triangular(x[:, None], left_side=True, unit_diagonal=True, transpose_a=True),
    "tridiagonal solves": lambda x: lax.linalg.tridiagonal_solve(
        *map(jnp.asarray, (X, X + 2, X * 2)), jnp.sinh(x)[:, None]
    ),
    "solves": solves,
    "solves by NumPy's name": lambda x: jnp.linalg.solve(jnp.asarray(STACK), x.reshape(2, 2, 1)),
    "whitening": lambda x: triangular_solve(jnp.linalg.cholesky(jnp.asarray(M4 @ M4.T)), x, left_side=True, lower=True),
    "solves by any means": lambda x: lax.custom_linear_solve(
        lambda x: jnp.asarray(M4) @ x, x, lambda _, b: jnp.asarray(np.linalg.inv(M4)) @ b
    ),
    "solves that go where there is no way back": lambda x: lax.custom_linear_solve(
        lambda x: (2 * x[0], jnp.asarray(M2) @ x[1]), tuple(jnp.split(x, 2)), lambda _, b: (b[0] / 2, roundabout(b[1]))
    ),
}  # fmt: skip


def roundabout(b):
    x = jnp.asarray(np.linalg.inv(M2)) @ b
    return x / 3 + x * 2 / 3


def doubling(x):
    """A loop whose steps are known by a number that is doubled."""

    def step(state):
        n, c, trace = state
        return n * 2, jnp.arctan(c) * n / 9 + trace / 99, trace + n

    return lax.while_loop(lambda state: state[0] < 30.0, step, (jnp.asarray(X).sum(), x, 1.0))[1]


MASK = np.array([True, False, True, False])


def masked_coupling(x):
    for mask in (MASK, ~MASK, MASK):
        seen = jnp.where(mask, x, 0)
        scale, shift = jnp.sin(seen.sum() + 2 * seen), jnp.cos(seen).sum()
        x = jnp.where(mask, x, x * jnp.exp(scale) + shift)
    return x


NAMES = """exp exp2 log expm1 log1p tanh atanh sinh asinh cosh sin asin cos acos tan atan sqrt square cbrt rsqrt
logistic erf erf_inv cumsum cumprod neg"""

FIRST = np.array([0, 2])


def angles(a):
    return jnp.sin(jnp.asarray(M2) @ a)


def written_coupling(x):
    for _ in range(2):
        x = x.at[:2].set(x[:2] * jnp.exp(xpr.jit(angles)(x[2:])) + jnp.cos(x[2:]))
        x = jnp.tanh(x.at[2:].multiply(jnp.exp(angles(x[:2]))))
    return x


def one_by_one(x, indices):
    for i in indices:
        x = x.at[i].set(x[i] * jnp.exp(x[:i].sum()) + x[0])
    return x


WRITTEN = {
    "an element that is written": lambda x: x.at[1].set(x[1] * x[0]),
    "an element from the end": lambda x: x.at[-1].multiply(jnp.exp(x[0])),
    "slices that are written": lambda x: x.at[:2].set(x[:2] * jnp.exp(angles(x[2:])) + x[2:]),
    "slices that are multiplied": lambda x: x.at[:2].multiply(jnp.exp(angles(x[2:]))),
    "slices that are added to": lambda x: x.at[:2].add(angles(x[2:])),
    "slices that are subtracted from": lambda x: x.at[:2].subtract(angles(x[2:])),
    "strides that are multiplied": lambda x: x.at[::2].multiply(jnp.exp(x[1::2])),
    "indices that are written": lambda x: x.at[FIRST].set(x[FIRST] * jnp.exp(x[FIRST + 1])),
    "indices that are added to": lambda x: x.at[FIRST].add(jnp.exp(x[FIRST + 1])),
    "indices that are subtracted from": lambda x: x.at[FIRST].subtract(jnp.exp(x[FIRST + 1])),
    "indices that are multiplied": lambda x: x.at[FIRST].multiply(jnp.exp(x[FIRST + 1])),
    "rows that are written": lambda x: (lambda m: m.at[:, 1].set(m[:, 1] * jnp.exp(m[:, 0])))(x.reshape(2, 2)),
    "coupling layers that write": written_coupling,
    "compiled coupling layers that write": xpr.jit(written_coupling),
    "elements one by one": lambda x: one_by_one(x, (1, 2, 3)),
    "elements one by one, from the end": lambda x: one_by_one(x, (3, 2, 1)),
    "a padded factor": lambda x: jnp.sinh(x) * jnp.pad(jnp.exp(jnp.sinh(x)[2:]), (0, 2), constant_values=3.0),
    "elements of what is computed of all": lambda x: x.at[:2].multiply(jnp.exp(jnp.tanh(x)[2:])),
    "scans that write": lambda x: lax.scan(lambda c, r: (c.at[1].multiply(c[0] * r), None), x, jnp.arange(1.0, 4.0))[0],
    "all that is written": lambda x: x.at[:].set(x * 2),
    "indices that occur twice": lambda x: x.at[np.array([0, 0, 3])].add(jnp.arange(3.0)),
    "factors for an index that occurs twice": lambda x: x.at[np.array([0, 0, 3])].multiply(jnp.asarray(X[:3])),
}

FUNCTIONS = {
    **WRITTEN,
    **{name: getattr(lax, name) for name in NAMES.split()},
    **LINEAR,
    "acosh": lambda x: lax.acosh(1 + x),
    "backwards sums": lambda x: lax.cumsum(x, reverse=True),
    "one known operand": lambda x: 1 - 3 / jnp.exp(2 * x - 1),
    "vectors of known operands": lambda x: (jnp.asarray(X) - x * jnp.asarray(X + 1)) / jnp.asarray(X),
    "powers": lambda x: 2.0 * (x**3 + 1) ** -2,
    "the exponent": lambda x: 2.5**x,
    "a fraction": lambda x: x**2.5,
    "twice": lambda x: x + x,
    "a product with itself": lambda x: x * x,
    "shapes": lambda x: jnp.squeeze(x.reshape(2, 2).T[::-1].reshape(1, 4))[None],
    "axes that broadcast": lambda x: (
        (x.reshape(2, 2) * jnp.array([[2.0], [3.0]]) + jnp.array([[1.0, 4.0]])) ** jnp.array([[0.5], [3.0]])
    ),
    "elements": lambda x: jnp.stack([x[1], jnp.tanh(x[0]), x[3], x[2]]),
    "indices": lambda x: x[jnp.array([2, 0, 3, 1])] * 2,
    "strides": lambda x: jnp.concatenate([x[::2] * 2, jnp.exp(x[1::2])]),
    "coupling layers": coupling,
    "compiled coupling layers": xpr.jit(coupling),
    "checkpoint": lambda x: xpr.checkpoint(jnp.sinh)(x),
    "branches": lambda x: lax.cond(jnp.asarray(X).sum() > 0, jnp.exp, lambda x: x * 2, x),
    "compiled branches": xpr.jit(lambda x: lax.cond(jnp.asarray(X).sum() > 0, jnp.exp, lambda x: x * 2, x)),
    "choices": lambda x: jnp.where(MASK, jnp.exp(2 * x), 2 * jnp.sin(x)),
    "choices of three": lambda x: lax.select_n(jnp.array([0, 1, 2, 1], "int32"), jnp.exp(2 * x), x, 3 * x),
    "a choice of all": lambda x: lax.select_n(jnp.asarray(X).sum() > 1, jnp.exp(x), 2 * jnp.cumsum(x)),
    "choices of the rest": lambda x: jnp.where(MASK, 2 * x, jnp.where(~MASK, 3 * x + jnp.where(MASK, x, 0).sum(), x)),
    "masked coupling layers": masked_coupling,
    "compiled masked coupling layers": xpr.jit(masked_coupling),
    "numbers of steps": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sinh(c) * (i + 1) + i, x),
    "numbers of steps that are computed": lambda x: lax.fori_loop(
        0, jnp.asarray(X).size // jnp.asarray(2), lambda i, c: jnp.sinh(c) * (i + 1) + i, x
    ),
    "loops": doubling,
    "scans": lambda x: lax.scan(lambda c, r: (c * jnp.exp(r), None), x, jnp.arange(3.0))[0],
    "scans backwards": lambda x: lax.scan(lambda c, r: (c, jnp.tanh(r)), 0.0, x, reverse=True)[1],
    "recurrent": recurrent,
    "autoregressive": autoregressive,
    "rows on devices": lambda x: xpr.pmap(lambda r: jnp.exp(r * 2) + 1)(x[None])[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gives_the_argument_and_the_log_determinant(name):
    fun = FUNCTIONS[name]
    with xpr.enable_x64(True):
        x = jnp.asarray(X)
        y = fun(x) if name == "rows on devices" else in_numpy(fun)(x)
        jacobian = np.asarray(in_numpy(xpr.jacfwd(fun))(x)).reshape(x.size, x.size)
        _, log_det = np.linalg.slogdet(jacobian)
        back = xpr.inverse_and_log_det(fun, like=x)
        for way in (back, xpr.jit(back)):
            found, total = way(y)
            np.testing.assert_allclose(found, X, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(total, -log_det, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(xpr.inverse(fun, like=x)(y), X, rtol=1e-8, atol=1e-9)


def test_the_example_of_jaxs_page():
    """custom-interpreters.md, with the values that it prints."""
    back = xpr.inverse(lambda x: jnp.exp(jnp.tanh(x)))
    assert str(xpr.make_jaxpr(back)(1.0)) == "{ lambda ; a:f32[]. let b:f32[] = log a; c:f32[] = atanh b in (c,) }"
    values = xpr.jit(xpr.vmap(xpr.grad(back)))((jnp.arange(5) + 1.0) / 5.0)
    np.testing.assert_allclose(values, [-3.1440797, 15.584931, 2.2551253, 1.3155028, 1.0], rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda fun: fun, xpr.jit])
def test_the_same_element_is_picked_twice(wrap):
    def fun(x):
        return jnp.stack([x[0], x[1] * jnp.exp(x[0]), x[2] + x[1] * x[0]])

    x = jnp.array([0.3, 0.7, 2.0])
    found, log_det = xpr.inverse_and_log_det(wrap(fun))(fun(x))
    np.testing.assert_allclose(found, x, rtol=1e-6)
    assert float(log_det) == pytest.approx(-0.3, rel=1e-5)


PARTLY_KNOWN = {
    "inside a call": lambda x: jnp.stack([x[0], xpr.jit(lambda x: x[1] * jnp.exp(x[0]))(x), x[2] * 2, -x[3]]),
    "an element of a slice": lambda x: jnp.concatenate([x[:2], x[2:] * jnp.exp(x[0])]),
    "elements of two slices": lambda x: jnp.concatenate([x[:2], x[3:] * 2, x[2:3] * jnp.sum(x[jnp.array([3, 0])])]),
    "an element twice": lambda x: jnp.concatenate([x[:2], x[2:] * x[jnp.array([0, 0])]]),
    "one after another": lambda x: jnp.stack([x[0], *(x[i] * jnp.exp(jnp.sum(x[:i])) for i in range(1, 4))]),
    "backwards": lambda x: jnp.stack([*(x[i] + jnp.prod(x[i + 1 :]) for i in range(3)), x[3]]),
}


@pytest.mark.parametrize("name", PARTLY_KNOWN)
def test_known_elements_can_be_read(name):
    fun = PARTLY_KNOWN[name]
    with xpr.enable_x64(True):
        x = jnp.asarray(X)
        want = -np.linalg.slogdet(np.asarray(xpr.jacfwd(fun)(x)))[1]
        for run in (xpr.inverse_and_log_det(fun), xpr.jit(xpr.inverse_and_log_det(xpr.jit(fun)))):
            found, log_det = run(fun(x))
            np.testing.assert_allclose(found, X, rtol=1e-12)
            assert float(log_det) == pytest.approx(want, rel=1e-12)


class TestArguments:
    def test_some_are_known(self):
        assert float(xpr.inverse(lambda x, y: x * y + 1, argnums=0, known={1: 4.0})(9.0)) == 2.0
        assert float(xpr.inverse(lambda x, y: x * y + 1, argnums=1, known={0: 4.0})(9.0)) == 2.0
        assert float(xpr.inverse(lambda x, *, scale: x * scale, known={"scale": 4.0})(8.0)) == 2.0

    def test_several_are_found(self):
        both = xpr.inverse(lambda x, y: (x + y, 2 * y), argnums=(0, 1))((3.0, 2.0))
        assert list(map(float, both)) == [2.0, 1.0]

    def test_pytrees(self):
        def fun(p):
            return {"u": p["a"] + p["b"], "v": p["b"] * 2}

        like = {"a": jnp.zeros(2), "b": jnp.zeros(2)}
        found, log_det = xpr.inverse_and_log_det(fun, like=like)(fun({"a": jnp.ones(2), "b": jnp.arange(2.0)}))
        np.testing.assert_allclose(found["a"], [1, 1])
        np.testing.assert_allclose(found["b"], [0, 1])
        assert float(log_det) == pytest.approx(-2 * math.log(2))

    def test_integers(self):
        found = xpr.inverse(lambda x: ~((3 - x) ^ 5))(jnp.array([1, 2]))
        np.testing.assert_array_equal(found, [3 - (~1 ^ 5), 3 - (~2 ^ 5)])
        assert found.dtype == jnp.int32


def test_known_operands_can_be_differentiated():
    def solution(a):
        return xpr.inverse(lambda x: jnp.exp(a * x))(2.0)

    assert float(xpr.grad(solution)(4.0)) == pytest.approx(-math.log(2) / 16)
    np.testing.assert_allclose(xpr.vmap(solution)(jnp.array([1.0, 2.0])), [math.log(2), math.log(2) / 2], rtol=1e-6)


def test_weights_can_be_trained():
    """The logarithm of a density by a dense flow, differentiated by weights that the inverse solves with."""

    def log_density(weights, y):
        x, log_det = xpr.inverse_and_log_det(lambda x: jnp.sinh(weights @ jnp.arctan(x)))(y)
        return log_det - (x**2).sum() / 2

    with xpr.enable_x64(True):
        weights, ys = np.eye(4) + RNG.normal(size=(4, 4)) / 20, RNG.uniform(-0.3, 0.3, size=(3, 4))
        check_grads_in_numpy(log_density, (weights, ys[0]), order=2)
        mapped = xpr.jit(xpr.vmap(log_density, (None, 0)))(weights, ys)
        np.testing.assert_allclose(mapped, [log_density(weights, y) for y in ys], rtol=1e-10)
        rows = xpr.jit(lambda y: xpr.inverse(lambda x: x @ weights.T)(y))(ys)
        np.testing.assert_allclose(rows, np.linalg.solve(weights, ys.T).T, rtol=1e-9)


def test_density_of_a_transformed_variable():
    """The density that the log-determinant gives integrates to one."""

    def density(y):
        x, log_det = xpr.inverse_and_log_det(lambda x: jnp.sinh(x) * 2 + 1)(y)
        return jnp.exp(-x * x / 2 + log_det) / math.sqrt(2 * math.pi)

    y = jnp.linspace(-400.0, 400.0, 200_001)
    assert float(xpr.jit(xpr.vmap(density))(y).sum() * (y[1] - y[0])) == pytest.approx(1, abs=1e-3)


def test_walks_in_linear_time():
    def fun(x):
        for _ in range(2000):
            x = jnp.tanh(x) * 2
        return x

    closed = xpr.make_jaxpr(xpr.inverse(fun))(0.5)
    assert len(closed.eqns) == 4000


def refused(fun, y=X, **options):
    with pytest.raises(NotInvertible) as caught:
        xpr.inverse(fun, **options)(jnp.asarray(y, "float32"))
    return str(caught.value)


class TestRefusals:
    @pytest.mark.parametrize(
        "fun, why",
        [
            (lambda x: x.at[1].set(3.0), "What it writes, or what it writes over, does not follow from what is known."),
            (lambda x: x.at[0].set(x[1]), "What it writes, or what it writes over, does not follow"),
            (lambda x: x.at[:2].add(x[:2] ** 3), "What it writes, or what it writes over, does not follow"),
            (lambda x: x.at[np.array([0, 0])].add(x[2:]), "It writes an element twice, or one that is not there."),
            (
                lambda x: x.at[np.array([0, 9])].add(x[2:], mode="drop"),
                "It writes an element twice, or one that is not",
            ),
            (
                lambda x: x.at[(x[0] > 0).astype(int)].set(x[2]),
                "The indices that it writes to depend on what is not known",
            ),
            (
                lambda x: lax.fori_loop(1, 4, lambda i, x: x.at[i].set(x[i] * x[0]), x),
                "The indices that it writes to are traced, and have to be known.",
            ),
        ],
    )
    def test_elements_that_are_written(self, fun, why):
        message = refused(fun)
        assert why in message and "at test_inversion.py" in message and "select_n" not in message

    def test_no_inverse(self):
        message = refused(lambda x: jnp.exp(jnp.sort(x)))
        assert "inverse: <lambda> at test_inversion.py" in message
        assert "x can't be found from what is known" in message
        assert "b:f32[4] = sort[dimension=0 is_stable=True num_keys=1] a" in message
        assert "message = refused(lambda x: jnp.exp(jnp.sort(x)))" in message
        assert message.endswith("It has no inverse.")

    def test_read_twice(self):
        assert "= add a b" in (message := refused(lambda x: x + jnp.tanh(x))) and "two operands" in message

    def test_inside_calls(self):
        assert "= max a" in refused(xpr.jit(lambda x: xpr.jit(lambda y: jnp.maximum(y, 1))(x)))

    def test_inside_loops(self):
        message = refused(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.maximum(c, 1), x))
        assert "the body of a scan" in message and "= max a 1.0" in message

    def test_an_unknown_predicate(self):
        message = refused(lambda x: lax.cond(x[0] > 0, jnp.exp, jnp.sin, x))
        assert "= cond" in message and "Which branch was taken is not known." in message

    def test_an_unknown_number_of_steps(self):
        message = refused(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: 2 * c, x))
        assert "= while" in message and "How many steps it takes depends on what is not known." in message
        message = refused(
            lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.floor(c[1])), (0.0, x))[1]
        )
        assert "the body of a while" in message and "= floor" in message

    def test_choices(self):
        message = refused(lambda x: jnp.where(x > 0, x, 2 * x))
        assert "= select_n" in message and "Which of its cases was selected is not known." in message
        message = refused(lambda x: jnp.where(MASK, x, 0))
        assert "not all that is needed follows from the elements that it selects" in message
        assert "= select_n" in refused(lambda x: jnp.where(MASK, jnp.sort(x), x))

    def test_not_used(self):
        assert "The result does not determine it" in refused(lambda x: jnp.zeros(4))

    def test_no_square_matrix(self):
        message = refused(lambda x: x @ jnp.ones((4, 3)), np.ones(3), like=jnp.ones(4))
        assert "= dot_general" in message and "takes 4 numbers to 3: only a square matrix has an inverse" in message
        assert "two operands" in refused(lambda x: x @ x.T, np.ones((2, 2)))

    def test_indices(self):
        assert "It reads an element twice." in refused(lambda x: jnp.exp(x)[jnp.array([0, 0, 1, 2])])
        message = refused(lambda x: x.at[jnp.array([0, 1, 2, 9])].get(mode="fill"))
        assert "It reads an element that is not there." in message

    def test_an_unknown_matrix(self):
        def fun(x):
            return triangular_solve(x, jnp.ones((2, 2)))

        assert "Its matrix is not known." in refused(fun, np.ones((2, 2)))

    def test_repeated(self):
        for fun, y, like in (
            (lambda x: x + jnp.zeros(4), np.ones(4), 1.0),
            (lambda x: x * jnp.ones((2, 3)), np.ones((2, 3)), jnp.ones((2, 1))),
        ):
            assert "repeats the operand" in refused(fun, y, like=like)

    def test_no_determinant(self):
        with pytest.raises(NotInvertible, match=r"no determinant: it maps 4 numbers to 8\."):
            xpr.inverse_and_log_det(lambda x: (x, 2 * x), like=jnp.ones(4))((jnp.ones(4), jnp.ones(4)))

    def test_other_types(self):
        with pytest.raises(ValueError, match=r"gives f32\[\], and the result is f32\[4\].*like="):
            xpr.inverse(lambda x: x[0])(jnp.ones(4))

    def test_arguments_left_out(self):
        with pytest.raises(ValueError, match="argument 1 is neither"):
            xpr.inverse(lambda x, y, z: x + y + z, known={2: 1.0})
        with pytest.raises(ValueError, match=r"\[0\] are both"):
            xpr.inverse(lambda x: x, known={0: 1.0})

        with pytest.raises(
            ValueError, match=r"takes \(x, y\), and can't be called .* and known \(\[\]\): missing .* 'y'"
        ):
            xpr.inverse(lambda x, y: x * y)
        with pytest.raises(
            ValueError, match=r"takes \(x\), .* known \(\['z'\]\): got an unexpected keyword argument 'z'"
        ):
            xpr.inverse(lambda x: x, known={"z": 1.0})

    def test_known_is_no_dictionary(self):
        with pytest.raises(TypeError, match="`known` must be a dictionary of values by position or by name.* and is 3"):
            xpr.inverse(lambda x, y: x * y, known=3)

    def test_positions_are_integers(self):
        with pytest.raises(TypeError, match=r"by integers, their positions.*; got argnums='x' and \[1\.5\] in `known`"):
            xpr.inverse(lambda x, y: x * y, argnums="x", known={1.5: 3.0})

    def test_no_function(self):
        with pytest.raises(TypeError, match="inverse inverts functions, and got 3"):
            xpr.inverse(3)

"""inverse and inverse_and_log_det: f(inverse(f)(y)) is y, and the log-determinant is slogdet's of the Jacobian."""

import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.errors import NotInvertible

X = np.array([0.3, 0.5, 0.7, 0.2])
RNG = np.random.default_rng(0)


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


FUNCTIONS = {
    name: getattr(lax, name)
    for name in """exp exp2 log expm1 log1p tanh atanh sinh asinh cosh sin asin cos acos tan atan sqrt square cbrt rsqrt
    logistic erf erf_inv cumsum cumprod neg""".split()
} | {
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
    "places": lambda x: jnp.stack([x[1], jnp.tanh(x[0]), x[3], x[2]]),
    "indices": lambda x: x[jnp.array([2, 0, 3, 1])] * 2,
    "strides": lambda x: jnp.concatenate([x[::2] * 2, jnp.exp(x[1::2])]),
    "coupling layers": coupling,
    "compiled coupling layers": xpr.jit(coupling),
    "checkpoint": lambda x: xpr.checkpoint(jnp.sinh)(x),
    "branches": lambda x: lax.cond(jnp.asarray(X).sum() > 0, jnp.exp, lambda x: x * 2, x),
    "compiled branches": xpr.jit(lambda x: lax.cond(jnp.asarray(X).sum() > 0, jnp.exp, lambda x: x * 2, x)),
    "numbers of steps": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sinh(c) * (i + 1) + i, x),
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
        y = fun(x)
        jacobian = np.asarray(xpr.jacfwd(fun)(x)).reshape(x.size, x.size)
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


def test_density_of_a_transformed_variable():
    """The density that the log-determinant gives integrates to one."""

    def density(y):
        x, log_det = xpr.inverse_and_log_det(lambda x: jnp.sinh(x) * 2 + 1)(y)
        return jnp.exp(-x * x / 2 + log_det) / math.sqrt(2 * math.pi)

    y = jnp.linspace(-400.0, 400.0, 200_001)
    assert float(xpr.jit(xpr.vmap(density))(y).sum() * (y[1] - y[0])) == pytest.approx(1, abs=1e-3)


def test_linear_solves():
    a = jnp.asarray(np.eye(3) * 2 + 0.1 * RNG.normal(size=(3, 3)), "float32")

    def fun(b):
        return lax.custom_linear_solve(lambda x: a @ x, b, lambda matvec, b: jnp.asarray(np.linalg.inv(a)) @ b)

    np.testing.assert_allclose(xpr.inverse(fun)(fun(jnp.arange(3.0))), np.arange(3.0), atol=1e-5)
    with pytest.raises(NotInvertible, match="log-determinant of its matrix is not known"):
        xpr.inverse_and_log_det(fun)(jnp.ones(3))


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
    def test_no_inverse(self):
        message = refused(lambda x: jnp.exp(jnp.sort(x)))
        assert "inverse: <lambda> at test_inverse.py" in message
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

    def test_not_used(self):
        assert "The result does not determine it" in refused(lambda x: jnp.zeros(4))

    def test_repeated(self):
        message = refused(lambda x: x + jnp.zeros(4), like=1.0)
        assert "repeats the operand" in message

    def test_no_determinant(self):
        with pytest.raises(NotInvertible, match=r"no determinant: it makes 8 numbers of 4\."):
            xpr.inverse_and_log_det(lambda x: (x, 2 * x), like=jnp.ones(4))((jnp.ones(4), jnp.ones(4)))

    def test_other_types(self):
        with pytest.raises(ValueError, match=r"gives f32\[\], and the result is f32\[4\].*like="):
            xpr.inverse(lambda x: x[0])(jnp.ones(4))

    def test_arguments_left_out(self):
        with pytest.raises(ValueError, match="argument 1 is neither"):
            xpr.inverse(lambda x, y, z: x + y + z, known={2: 1.0})
        with pytest.raises(ValueError, match=r"\[0\] are both"):
            xpr.inverse(lambda x: x, known={0: 1.0})

    def test_no_function(self):
        with pytest.raises(TypeError, match="inverse inverts functions, and got 3"):
            xpr.inverse(3)

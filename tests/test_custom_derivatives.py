"""custom_jvp and custom_vjp under every transformation, and what they say of wrong rules."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.errors import UnsupportedRule

X = np.array([1.0, 100.0], np.float32)


@xpr.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), t * (1 - 1 / (1 + jnp.exp(x)))


@pytest.mark.parametrize(
    "nest",
    [
        lambda f: xpr.grad(f),
        lambda f: xpr.jit(xpr.grad(f)),
        lambda f: xpr.grad(xpr.jit(f)),
        lambda f: lambda x: xpr.jvp(f, (x,), (1.0,))[1],
        lambda f: lambda x: xpr.linearize(f, x)[1](1.0),
        lambda f: lambda x: xpr.vmap(xpr.grad(f))(x * np.ones(1, np.float32))[0],
        lambda f: lambda x: xpr.grad(lambda x: xpr.vmap(f)(x * np.ones(1, np.float32))[0])(x),
        lambda f: lambda x: xpr.grad(lambda x: xpr.jit(xpr.vmap(xpr.jit(f)))(x * np.ones(1, np.float32))[0])(x),
    ],
)
def test_the_rule_is_used_wherever_the_function_is(nest):
    assert float(nest(log1pexp)(100.0)) == 1.0


def test_second_order_goes_through_the_rule():
    expected = float(xpr.grad(lambda x: 1 - 1 / (1 + jnp.exp(x)))(1.5))
    assert float(xpr.grad(xpr.grad(log1pexp))(1.5)) == pytest.approx(expected, rel=1e-6)


def test_python_control_flow_inside():
    @xpr.custom_jvp
    def half(x):
        return x / 2 if x > 0 else x

    half.defjvp(lambda p, t: (half(*p), 7.0 * t[0]))
    assert float(xpr.grad(half)(3.0)) == 7 and float(half(3.0)) == 1.5


def test_staged_calls_print_with_their_jaxpr():
    text = str(xpr.make_jaxpr(log1pexp)(1.0))
    assert "custom_jvp_call[" in text and "call_jaxpr={ lambda ; c:f32[]. let" in text and "name=log1pexp" in text


def test_nondiff_argnums_and_pytrees():
    def fun(power, p, x):
        return {"y": p["a"] * x**power}

    fun = xpr.custom_jvp(fun, nondiff_argnums=(0,))

    @fun.defjvp
    def rule(power, primals, tangents):
        p, x = primals
        return fun(power, p, x), {"y": 1000.0 * tangents[0]["a"] + power * tangents[1]}

    grads = xpr.grad(lambda p, x: fun(3, p, x)["y"], argnums=(0, 1))({"a": 2.0}, 5.0)
    assert float(grads[0]["a"]) == 1000 and float(grads[1]) == 3


def test_defjvps():
    @xpr.custom_jvp
    def mul(x, y):
        return x * y

    mul.defjvps(lambda t, out, x, y: 2 * t, None)
    assert [float(g) for g in xpr.grad(mul, (0, 1))(3.0, 4.0)] == [2, 0]


def test_symbolic_zeros():
    seen = []

    @xpr.custom_jvp
    def mul(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append([type(t) is xpr.core.Zero for t in tangents])
        return mul(*primals), tangents[0] * primals[1]

    mul.defjvp(rule, symbolic_zeros=True)
    xpr.jvp(lambda x: mul(x, 2.0), (3.0,), (1.0,))
    assert seen == [[False, True]]


@xpr.custom_vjp
def scaled(x, y):
    return x * y


scaled.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (10 * ct * res[1], 100 * ct * res[0]))


@pytest.mark.parametrize(
    "nest",
    [
        lambda f: xpr.grad(f, (0, 1)),
        lambda f: xpr.jit(xpr.grad(f, (0, 1))),
        lambda f: xpr.grad(xpr.jit(f), (0, 1)),
        lambda f: lambda x, y: xpr.vjp(f, x, y)[1](1.0),
    ],
)
def test_vjp_rule(nest):
    assert [float(g) for g in nest(scaled)(2.0, 3.0)] == [30, 200]


def test_vjp_rule_under_vmap():
    gx, gy = xpr.vmap(xpr.grad(scaled, (0, 1)), in_axes=(0, None))(X, 3.0)
    np.testing.assert_array_equal(gx, [30, 30])
    np.testing.assert_array_equal(gy, 100 * X)
    total = lambda x, y: jnp.sum(xpr.vmap(scaled, in_axes=(0, None))(x, y))
    for fun in (total, xpr.jit(total), lambda x, y: jnp.sum(xpr.vmap(xpr.jit(scaled), in_axes=(0, None))(x, y))):
        gx, gy = xpr.grad(fun, (0, 1))(X, 3.0)
        np.testing.assert_array_equal(gx, [30, 30])
        assert float(gy) == 100 * X.sum()


def test_vjp_without_cotangents_and_nondiff():
    fun = xpr.custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
    fun.defvjp(lambda n, x: (x * n, None), lambda n, res, ct: (ct * n * 5,))
    assert float(xpr.grad(lambda x: fun(3, x))(2.0)) == 15
    quiet = xpr.custom_vjp(lambda x: x)
    quiet.defvjp(lambda x: (x, None), lambda res, ct: (None,))
    assert float(xpr.grad(quiet)(2.0)) == 0


def test_forward_mode_of_a_vjp_rule_transposes_its_second_half():
    assert [float(x) for x in xpr.jvp(scaled, (2.0, 3.0), (1.0, 1.0))] == [6, 230]
    assert float(xpr.jit(lambda x: xpr.jvp(scaled, (x, 3.0), (1.0, 0.0))[1])(2.0)) == 30
    assert float(xpr.linearize(scaled, 2.0, 3.0)[1](0.0, 1.0)) == 200


def test_closing_over_a_differentiated_value_is_refused():
    def outer(x):
        @xpr.custom_jvp
        def inner(y):
            return x * y

        inner.defjvp(lambda p, t: (inner(*p), t[0]))
        return xpr.jit(inner)(2.0)

    with pytest.raises(UnsupportedRule, match="inner: .* closes over a value that is being differentiated"):
        xpr.grad(outer)(3.0)


@pytest.mark.parametrize(
    "rule, part",
    [
        (lambda p, t: p[0], "must return (result, tangent)"),
        (lambda p, t: (p[0], X), "a tangent of type f32[2]; it must be f32[]"),
        (lambda p, t: (p[0], (t[0],)), "must give a tangent of the result's structure"),
    ],
)
def test_wrong_jvp_rules(rule, part):
    fun = xpr.custom_jvp(lambda x: x)
    fun.defjvp(rule)
    with pytest.raises((TypeError, ValueError)) as caught:
        xpr.grad(fun)(1.0)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "fwd, bwd, part",
    [
        (lambda x: x, lambda r, ct: (ct,), "must return (result, residuals)"),
        (lambda x: (x, None), lambda r, ct: ct, "must return a tuple with a cotangent for each"),
        (lambda x: (x, None), lambda r, ct: (ct, ct), "it returned 2"),
        (lambda x: (x, None), lambda r, ct: (X,), "a cotangent of type f32[2] for an argument of type f32[]"),
    ],
)
def test_wrong_vjp_rules(fwd, bwd, part):
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(fwd, bwd)
    with pytest.raises(TypeError) as caught:
        xpr.grad(fun)(1.0)
    assert part in str(caught.value)


def test_functions_without_rules_and_keyword_only_arguments():
    for kind in (xpr.custom_jvp, xpr.custom_vjp):
        with pytest.raises(AttributeError, match="has no rule yet"):
            kind(lambda x: x)(1.0)

    keyword = xpr.custom_jvp(lambda x, *, n: x)
    keyword.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(TypeError, match=r"keyword-only arguments \(n\)"):
        keyword(1.0, n=2)

"""custom_jvp, custom_vjp and their relatives under every transformation, and what they say of wrong rules."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import xpr
import xpr.custom_batching
import xpr.numpy as jnp
from tests.peer import agree
from xpr import lax
from xpr.config import override
from xpr.custom_derivatives import CustomVJPPrimal, SymbolicZero, linear_call, zero_from_primal
from xpr.errors import UnsupportedRule
from xpr.interpreters.ad import JVPTracer

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
        (
            lambda x: (x, None),
            lambda r, ct: ct,
            "must produce a tuple with a cotangent for each",
        ),
        (lambda x: (x, None), lambda r, ct: (ct, ct), "it returned 2"),
        (
            lambda x: (x, None),
            lambda r, ct: (X,),
            "output[0] the bwd rule produced an output of type f32[2], and the cotangent of that argument is of",
        ),
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
        with pytest.raises(
            AttributeError, match=r"No [JV]+P defined for custom_[jv]+p function .* using def[jv]+p\. Give"
        ):
            kind(lambda x: x)(1.0)

    keyword = xpr.custom_jvp(lambda x, *, n: x)
    keyword.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(
        TypeError, match=r"by position\.\nThe following .* resolved to positions: n\. They can .* only: make"
    ):
        keyword(1.0, n=2)
    default = xpr.custom_jvp(lambda x, *, n=2: n * x)
    default.defjvp(lambda p, t: (2 * p[0], 2 * t[0]))
    assert xpr.grad(default)(1.0) == 2.0


def test_a_keyword_argument_after_parameters_that_have_none():
    for kind in (xpr.custom_jvp, xpr.custom_vjp):
        scaled = kind(lambda x, y=2.0, z=3.0: x * y + z)
        if kind is xpr.custom_jvp:
            scaled.defjvp(lambda p, t: (p[0] * p[1] + p[2], 5 * t[0]))
        else:
            scaled.defvjp(lambda x, y, z: (x * y + z, None), lambda _, ct: (5 * ct, None, None))
        assert scaled(1.0, z=4.0) == 6.0
        assert xpr.grad(partial(scaled, z=4.0))(1.0) == 5.0


# -- What rules are given


def test_symbolic_zeros_in_a_jvp_rule():
    def run(library):
        seen = []
        mul = library.custom_jvp(lambda x, n, y: x * n * y)

        def rule(primals, tangents):
            zero = library.custom_derivatives.SymbolicZero
            seen.append([type(t) is zero for t in tangents])
            x, n, y = primals
            return mul(x, n, y), n * y * tangents[0]

        mul.defjvp(rule, symbolic_zeros=True)
        out = library.jvp(lambda x: mul(x, 2, 5.0), (3.0,), (1.0,))
        rows = library.jvp(lambda x: library.vmap(lambda x: mul(x, 2, 5.0))(x), (X,), (X,))
        assert seen == [[False, True, True]] * 2
        return out, rows

    agree(run)


def test_symbolic_zeros_have_a_type_and_no_entries():
    zero = zero_from_primal(X, symbolic_zeros=True)
    assert isinstance(zero, SymbolicZero) and (zero.shape, zero.dtype, zero.ndim, zero.size) == ((2,), X.dtype, 1, 2)
    assert zero_from_primal(3, symbolic_zeros=True).dtype == xpr.dtypes.float0
    np.testing.assert_array_equal(zero_from_primal(X), np.zeros(2))
    assert SymbolicZero.from_primal_value(1.0).aval == xpr.typeof(1.0)
    for use in (jnp.sin, lambda z: xpr.jit(lambda: jnp.sin(z))()):
        with pytest.raises(TypeError, match=r"A symbolic zero of type f32\[2\] is no array.*isinstance"):
            use(zero)


def test_a_rule_may_give_symbolic_zeros():
    flat = xpr.custom_jvp(lambda x: x * x)
    flat.defjvp(lambda p, t: (flat(*p), SymbolicZero.from_primal_value(p[0])))
    assert float(xpr.grad(flat)(3.0)) == 0 and float(xpr.jvp(flat, (3.0,), (1.0,))[1]) == 0


def test_zeros_are_arrays_by_default_and_float0_for_integers():
    def run(library):
        seen = []
        fun = library.custom_jvp(lambda x, n, y: x * n)
        fun.defjvp(lambda p, t: (seen.append(t), (fun(*p), t[0] * p[1]))[1])
        library.grad(lambda x: fun(x, 2, 5.0))(3.0)
        _, integer, zero = seen[0]
        assert np.asarray(integer).dtype == [("float0", "V")] and float(zero) == 0
        return zero

    agree(run)


def test_rules_get_arrays():
    shapes = []
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(lambda x: (x, x.shape), lambda res, ct: (shapes.append((ct.shape, ct.dtype)), (ct,))[1])
    xpr.grad(fun)(1.0)
    assert shapes == [((), np.float32)]
    fun.defvjp(lambda x: (x, "text"), lambda res, ct: (ct,))
    with pytest.raises(TypeError, match="returned a value of type .* which is not a valid JAX type"):
        xpr.grad(fun)(1.0)


def test_symbolic_zeros_in_a_vjp_rule():
    def run(library):
        seen = []
        custom = library.custom_derivatives

        def fwd(x, n):
            seen.append([isinstance(v, custom.CustomVJPPrimal) and v.perturbed for v in (x, n)])
            return (x.value * n.value, x.value + 1), n.value

        def bwd(n, cts):
            seen.append([isinstance(ct, custom.SymbolicZero) for ct in cts])
            return cts[0] * n, None

        fun = library.custom_vjp(lambda x, n: (x * n, x + 1))
        fun.defvjp(fwd, bwd, symbolic_zeros=True)
        first = library.grad(first_of(fun))
        rows = library.grad(lambda x: library.vmap(first_of(fun))(x).sum())
        found = (
            first(3.0),
            library.jit(first)(3.0),
            rows(X),
            library.vmap(first)(X),
            library.grad(library.jit(first_of(fun)))(3.0),
        )
        assert seen == [[True, False], [False, True]] * 5
        return found

    def first_of(fun):
        return lambda x: fun(x, 2)[0]

    agree(run)
    assert repr(CustomVJPPrimal(1.0, True)) == "CustomVJPPrimal(value=1.0, perturbed=True)"


def test_optimize_remat_changes_nothing():
    def run(library):
        fun = library.custom_vjp(library.numpy.sin)
        fun.defvjp(lambda x: (fun(x), x), lambda x, ct: (ct * 2 * library.numpy.cos(x),), optimize_remat=True)
        return library.grad(fun)(1.0), library.jit(library.grad(fun))(1.0), library.vmap(library.grad(fun))(X)

    agree(run)


def test_fwd_is_not_run_where_no_residuals_are_wanted():
    calls = []
    fun = xpr.custom_vjp(lambda x: 2 * x)
    fun.defvjp(lambda x: (calls.append(1), (2 * x, None))[1], lambda res, ct: (2 * ct,))
    xpr.jit(fun)(1.0), xpr.vmap(fun)(X), fun(1.0)
    assert not calls
    assert float(xpr.grad(xpr.checkpoint(lambda x: fun(fun(x))))(1.0)) == 4 and calls


# -- Arguments


def test_keywords_and_defaults_find_their_places():
    def run(library):
        fun = library.custom_jvp(lambda x, y=3.0: x * y)
        fun.defjvp(lambda p, t: (p[0] * p[1], 10 * t[0] * p[1] + 100 * t[1] * p[0]))
        both = library.custom_vjp(lambda x, y=3.0: x * y)
        both.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (10 * ct * res[1], 100 * ct * res[0]))
        return [gradients(library, fun), gradients(library, both)]

    def gradients(library, f):
        return [library.grad(g)(2.0) for g in (f, lambda y: f(y=y, x=5.0), lambda x: f(x, y=4.0))]

    agree(run)


def test_static_arguments_by_position_and_name_come_in_order():
    def run(library):
        seen = []
        fun = library.custom_jvp(lambda a, b, x: x * a, nondiff_argnums=(1,), nondiff_argnames=("a",))
        fun.defjvp(lambda *args: (seen.append(args[:2]), (fun(*args[:2], *args[2]), args[0] * args[3][0]))[1])
        both = library.custom_vjp(lambda x, a, b: x * a, nondiff_argnums=(2, 1))
        both.defvjp(lambda x, a, b: (x * a, None), lambda a, b, res, ct: (seen.append((a, b)), (ct * a,))[1])
        found = [
            library.grad(lambda x: fun(7, "text", x))(2.0),
            library.grad(lambda x: fun(x=x, b="text", a=7))(2.0),
            library.grad(lambda x: both(x, 7, "text"))(2.0),
            library.jit(library.grad(lambda x: both(x, a=7, b="text")))(2.0),
        ]
        assert seen == [(7, "text")] * 4
        return found

    agree(run)


def test_wrong_static_arguments():
    with pytest.raises(ValueError, match=r"nondiff_argnames names 'm', and .* takes \(n, x\)"):
        xpr.custom_jvp(lambda n, x: x, nondiff_argnames=["m"])
    fun = xpr.custom_vjp(lambda n, x: x, nondiff_argnums=2)
    fun.defvjp(lambda n, x: (x, None), lambda res, ct: (ct,))
    with pytest.raises(ValueError, match=r"nondiff_argnums=\(2,\) is out of range .* called with 2 arguments"):
        xpr.grad(fun, 1)(1.0, 2.0)
    with pytest.raises(TypeError, match="custom_vjp takes a function, and got 3"):
        xpr.custom_vjp(3)
    power = xpr.custom_jvp(lambda n, x: x, nondiff_argnums=0)
    with pytest.raises(TypeError, match="defjvps: use defjvp"):
        power.defjvps(None)


def test_functions_as_static_arguments_may_close_over_tracers():
    apply = xpr.custom_vjp(lambda f, x: f(x), nondiff_argnums=0)
    apply.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (100 * ct * f(x),))
    at = lambda y: xpr.grad(lambda x: apply(lambda x: x * y, x))(2.0)
    assert float(xpr.jit(at)(3.0)) == 600
    np.testing.assert_array_equal(xpr.vmap(at)(X), 200 * X)


def test_static_arguments_of_vjp_rules_are_not_traced():
    fun = xpr.custom_vjp(lambda n, x: x * xpr.tree.leaves(n)[0], nondiff_argnums=(0,))
    fun.defvjp(lambda n, x: (fun(n, x), None), lambda n, res, ct: (ct,))
    in_a_list, two = (lambda n, x: fun([n], x)), jnp.float32(2)
    for call in (
        xpr.jit(fun),
        xpr.grad(xpr.jit(fun), 1),
        xpr.jit(in_a_list),
        lambda n, x: xpr.jvp(fun, (n, x), (n, x)),
    ):
        with pytest.raises(xpr.errors.UnexpectedTracerError, match="that nondiff_argnums names is traced, of type f32"):
            call(two, 3.0)
    assert fun(two, 3.0) == 6


def test_methods():
    class Scale:
        factor = 3.0

        @partial(xpr.custom_jvp, nondiff_argnums=(0,))
        def plain(self, x):
            return x * self.factor

        @plain.defjvp
        def plain_jvp(self, primals, tangents):
            return self.plain(*primals), 7 * tangents[0]

    scale = Scale()
    assert float(scale.plain(2.0)) == 6 and float(xpr.grad(scale.plain)(2.0)) == 7
    assert float(xpr.jit(xpr.grad(scale.plain))(2.0)) == 7


def test_pytrees_in_all_places():
    def run(library):
        fun = library.custom_vjp(lambda p, x: {"out": p["w"] * x[0], "rest": (x[1],)})

        def fwd(p, x):
            return fun(p, x), {"w": p["w"], "x": x}

        def bwd(res, ct):
            return {"w": ct["out"] * res["x"][0], "b": None}, (ct["out"] * res["w"], ct["rest"][0])

        fun.defvjp(fwd, bwd)
        loss = lambda p, x: fun(p, x)["out"] * 2 + fun(p, x)["rest"][0]
        return library.grad(loss, (0, 1))({"w": 2.0, "b": 1.0}, (3.0, 4.0))

    agree(run)


@pytest.mark.parametrize(
    "ct, expected",
    [
        ({"a": None, "d": 1.0}, [0, 0, 1]),
        ({"a": 2.0, "d": None}, [2, 2, 0]),
        ({"a": {"b": 2.0, "c": None}, "d": 1.0}, [2, 0, 1]),
        (3.0, [3, 3, 3]),
    ],
)
def test_a_cotangent_in_the_place_of_a_subtree_holds_for_its_leaves(ct, expected):
    def run(library):
        fun = library.custom_vjp(lambda x: x["d"])
        fun.defvjp(lambda x: (x["d"], None), lambda res, _: (ct,))
        return library.grad(fun)({"a": {"b": 1.0, "c": 1.0}, "d": 1.0})

    assert [float(x) for x in xpr.tree.leaves(agree(run))] == expected


def test_cotangents_of_another_structure():
    fun = xpr.custom_vjp(lambda x: x["d"])
    fun.defvjp(lambda x: (x["d"], None), lambda res, ct: ({"a": {"b": ct}, "d": None},))
    with pytest.raises(TypeError, match="the cotangents that .* returned: (.|\\n)*expected a leaf, missing"):
        xpr.grad(fun)({"a": {"b": 1.0, "c": 1.0}, "d": 1.0})


# -- What rules close over


def closing(kind):
    """A function of (x, y) with a custom rule for y that closes over x, 10 times the derivative by y."""

    def outer(x, y):
        if kind == "jvp":
            inner = xpr.custom_jvp(lambda z: x * z)
            inner.defjvp(lambda p, t: (inner(*p), 10 * x * t[0]))
        else:
            inner = xpr.custom_vjp(lambda z: x * z)
            inner.defvjp(lambda z: (x * z, None), lambda res, ct: (10 * x * ct,))
        return inner(y)

    return outer


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
def test_closing_over_tracers(kind, dims):
    f = closing(kind)
    args = [X if d == 0 else 3.0 for d in dims]
    x, _ = np.broadcast_arrays(*args)
    for by_y in (xpr.grad(f, 1), xpr.jit(xpr.grad(f, 1)), xpr.grad(xpr.jit(f), 1), xpr.jacfwd(xpr.jit(f), 1)):
        assert float(by_y(3.0, 2.0)) == 30
        np.testing.assert_array_equal(xpr.vmap(by_y, dims)(*args), 10 * x)
    for mapped in (xpr.vmap(f, dims), xpr.jit(xpr.vmap(f, dims)), xpr.vmap(xpr.jit(f), dims)):
        total = xpr.grad(lambda x, y: mapped(x, y).sum(), 1)(*args)  # noqa: B023  # called at once
        np.testing.assert_array_equal(total, 10 * x if dims[1] == 0 else 10 * x.sum())


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_closing_over_a_differentiated_value_is_refused(kind, argnums):
    f = closing(kind)
    for nest in (f, xpr.jit(f), lambda x, y: xpr.jit(lambda y: f(x, y))(y)):
        for differentiate in (xpr.grad, lambda g, n: xpr.jit(xpr.grad(g, n)), xpr.jacfwd):
            with pytest.raises(UnsupportedRule) as caught:
                differentiate(nest, argnums)(3.0, 2.0)
            assert "<lambda>: a function with a custom derivative rule closes over a value" in str(caught.value)
            assert "that is being differentiated (f32[])" in str(caught.value)
            assert "Pass the value as an argument" in str(caught.value)
    assert float(xpr.grad(lambda x: f(lax.stop_gradient(x), 2.0) * x)(3.0)) == 6


def test_a_differentiated_value_that_only_the_rule_uses_is_a_constant():
    def outer(x, y):
        inner = xpr.custom_jvp(lambda z: 2 * z)
        inner.defjvp(lambda p, t: (inner(*p), x * t[0]))
        return inner(y)

    assert [float(g) for g in xpr.grad(outer, (0, 1))(3.0, 2.0)] == [0, 3]
    assert float(xpr.grad(xpr.grad(outer, 1), 0)(3.0, 2.0)) == 1


@pytest.mark.parametrize(
    "wrap",
    [
        xpr.jit,
        xpr.checkpoint,
        partial,
        lambda f: xpr.custom_batching.sequential_vmap(f),
        lambda f: (lambda rows: lambda z: rows(z[None])[0])(xpr.vmap(f)),
        lambda f: (lambda with_value: lambda z: with_value(z)[0])(xpr.value_and_grad(f)),
        lambda f: {"f": (f,)}["f"][0],
    ],
)
def test_closing_over_tracers_through_other_functions(wrap):
    def outer(x, y):
        inner = xpr.custom_jvp(wrap(lambda z: x * z))
        inner.defjvp(lambda p, t: (inner(*p), 10 * x * t[0]))
        return inner(y)

    np.testing.assert_array_equal(xpr.vmap(outer)(X, X), X * X)
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(outer, 1))(X, X), 10 * X)
    np.testing.assert_array_equal(xpr.grad(xpr.jit(lambda y, x: xpr.vmap(outer)(x, y).sum()))(X, X), 10 * X)
    with pytest.raises(UnsupportedRule, match="closes over a value that is being differentiated"):
        xpr.grad(outer)(1.0, 2.0)


def test_a_tracer_in_an_attribute_is_out_of_reach():
    class Model:
        pass

    def outer(x, y):
        model = Model()
        model.x = x
        inner = xpr.custom_jvp(lambda z: model.x * z)
        inner.defjvp(lambda p, t: (inner(*p), t[0]))
        return inner(y)

    with pytest.raises(xpr.errors.UnexpectedTracerError) as caught:
        xpr.vmap(outer)(X, X)
    for part in ("out of reach", "still being vectorized with vmap", "the argument x of outer", "pass the value as an"):
        assert part in str(caught.value)


def test_closures_keep_their_variables():
    """Functions are made anew around values, and share their other variables with those that the user made."""

    def outer(x):
        count, kept = 0, [x]

        def fun(z):
            nonlocal count
            count += 1
            return kept[0] * z

        custom = xpr.custom_jvp(fun)
        custom.defjvp(lambda p, t: (custom(*p), 5 * kept[0] * t[0]))
        out = custom(2.0)
        return out, count

    assert xpr.vmap(outer, out_axes=(0, None))(X)[1] == 1


def test_a_result_that_no_mapped_argument_reaches_needs_no_axis():
    @xpr.custom_jvp
    def with_jvp(x, y):
        return 2 * x, jnp.sin(y)

    with_jvp.defjvp(lambda p, t: (with_jvp(*p), (2 * t[0], jnp.cos(p[1]) * t[1])))

    @xpr.custom_vjp
    def with_vjp(x, y):
        return 2 * x, jnp.sin(y)

    with_vjp.defvjp(lambda x, y: (with_vjp(x, y), y), lambda y, ct: (2 * ct[0], jnp.cos(y) * ct[1]))
    for fun in (with_jvp, with_vjp):
        mapped = xpr.vmap(fun, in_axes=(0, None), out_axes=(0, None))
        for each in (mapped, xpr.jit(mapped)):
            doubled, sine = each(X, 2.0)
            assert doubled.tolist() == [2, 200] and float(sine) == pytest.approx(np.sin(2.0))
            assert float(xpr.grad(lambda y, f=each: f(X, y)[1])(2.0)) == pytest.approx(np.cos(2.0))
        with pytest.raises(ValueError, match="differs from row to row"):
            xpr.vmap(fun, out_axes=(0, None))(X, X)


def test_a_result_of_an_axis_index_differs_from_row_to_row():
    fun = xpr.custom_jvp(lambda x: (x, xpr.lax.axis_index("rows")))
    fun.defjvp(lambda p, t: (fun(*p), (t[0], np.zeros((), xpr.dtypes.float0))))
    with pytest.raises(ValueError, match="differs from row to row"):
        xpr.vmap(fun, out_axes=(0, None), axis_name="rows")(X)


# -- Forward mode of custom_vjp


@pytest.mark.parametrize(
    "bwd, slope",
    [
        (lambda r, ct: (ct * jnp.sin(r),), np.sin(3.0)),
        (lambda r, ct: (xpr.jit(lambda c: c * jnp.cos(r))(ct),), np.cos(3.0)),
        (lambda r, ct: (lax.cond(r > 0, lambda c: 2 * c, lambda c: 5 * c, ct),), 2),
        (lambda r, ct: (lax.scan(lambda c, x: (c * jnp.sin(x), None), ct, jnp.stack([r, r]))[0],), np.sin(3.0) ** 2),
        (lambda r, ct: (lax.fori_loop(0, 3, lambda i, c: c * r, ct),), 27),
        (lambda r, ct: (None,), 0),
    ],
)
def test_forward_mode_of_a_vjp_rule(bwd, slope):
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(lambda x: (x, x), bwd)
    for forward in (
        lambda x: xpr.jvp(fun, (x,), (1.0,))[1],
        xpr.jacfwd(fun),
        lambda x: xpr.jvp(xpr.jit(fun), (x,), (1.0,))[1],
        xpr.jit(xpr.jacfwd(fun)),
        lambda x: xpr.jacfwd(xpr.vmap(fun))(x * jnp.ones(1))[0, 0],
        lambda x: xpr.vmap(xpr.jacfwd(fun))(x * jnp.ones(1))[0],
        lambda x: xpr.linear_transpose(lambda t: xpr.jvp(fun, (x,), (t,))[1], x)(1.0)[0],
    ):
        assert float(forward(3.0)) == pytest.approx(slope, rel=1e-5)


def test_second_derivatives_of_a_vjp_rule_in_all_modes():
    fun = xpr.custom_vjp(lambda x, y: x * y)
    fun.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (jnp.sin(res[0]) * ct, ct * res[0] * res[1]))
    modes = [xpr.jacrev, xpr.jacfwd]
    found = [outer(inner(fun, (0, 1)), (0, 1))(0.5, 2.0) for outer in modes for inner in modes]
    for each in found[1:]:
        np.testing.assert_allclose(xpr.tree.leaves(each), xpr.tree.leaves(found[0]), rtol=1e-6)
    np.testing.assert_allclose(xpr.tree.leaves(found[0]), [np.cos(0.5), 0, 2, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    "bwd",
    [
        lambda r, ct: (jnp.clip(ct, -1, 1),),
        lambda r, ct: (jnp.where(ct > 0, ct, 2 * ct),),
        lambda r, ct: (ct * ct,),
        lambda r, ct: (xpr.jit(lambda c: 1 / c)(ct),),
        lambda r, ct: (jnp.floor(ct),),
        lambda r, ct: (lax.cond(ct > 0, lambda c: c, lambda c: 2 * c, ct),),
        lambda r, ct: (ct + r,),
        lambda r, ct: (2 * (r - ct),),
        lambda r, ct: (ct - 1.0,),
        lambda r, ct: (r,),
        lambda r, ct: (jnp.where(r > 0, ct, 1.0),),
        lambda r, ct: (xpr.jit(lambda c: c + 1)(ct),),
        lambda r, ct: (jnp.ones(2).at[0].add(ct).sum(),),
        lambda r, ct: (jnp.stack([ct, r]).sum(),),
    ],
)
def test_forward_mode_of_a_rule_that_is_not_linear_is_refused(bwd):
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(lambda x: (x, x), bwd)
    assert np.isfinite(float(xpr.grad(fun)(3.0)))
    with pytest.raises(UnsupportedRule) as caught:
        xpr.jvp(fun, (3.0,), (1.0,))
    for part in ("<lambda>: forward mode", "not linear", "grad, vjp, jacrev", "custom_jvp rule"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "bwd",
    [
        lambda r, ct: (jnp.where(r > 0, ct, 0.0),),
        lambda r, ct: (ct + jnp.zeros_like(r) * r,),
        lambda r, ct: (jnp.zeros(2).at[0].add(ct).sum(),),
        lambda r, ct: (jnp.stack([ct, jnp.zeros_like(ct)]).sum(),),
        lambda r, ct: (jnp.pad(jnp.ones(2) * ct, 1)[1],),
        lambda r, ct: (jnp.dot(jnp.arange(2.0), jnp.array([1.0, 1.0]) * ct),),
    ],
)
def test_zeros_that_a_rule_adds_leave_it_linear(bwd):
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(lambda x: (x, x), bwd)
    for forward in (xpr.jacfwd(fun), xpr.jit(xpr.jacfwd(fun))):
        assert float(forward(3.0)) == 1


@pytest.mark.parametrize("index", [np.array([1, 0, 1]), np.array([True, False, True])])
def test_indices_of_what_a_rule_adds_are_no_terms(index):
    def rows(x):
        return x[index]

    ruled = xpr.custom_vjp(rows)
    ruled.defvjp(lambda x: (rows(x), x), lambda x, ct: xpr.vjp(rows, x)[1](ct))
    x, t = jnp.arange(3.0), jnp.array([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(xpr.jvp(ruled, (x,), (t,))[1], np.asarray(t)[index])


def test_forward_mode_of_a_rule_with_python_branches_on_the_cotangent():
    fun = xpr.custom_vjp(lambda x: x)
    fun.defvjp(lambda x: (x, None), lambda r, ct: (ct if ct > 0 else -ct,))
    assert float(xpr.grad(fun)(3.0)) == 1
    with pytest.raises(xpr.errors.TracerBoolConversionError) as caught:
        xpr.jvp(fun, (3.0,), (1.0,))
    assert "forward mode of <lambda>, which traces its bwd" in caught.value.__notes__[-1]


# -- In other programs


def test_rules_inside_loops_branches_and_named_axes():
    for fun in (log1pexp, scaled_once):
        slope = float(xpr.grad(fun)(0.5))
        looped = lambda x: lax.scan(lambda c, _: (c + fun(x), None), 0.0, None, length=3)[0]  # noqa: B023
        chosen = lambda x: lax.cond(x > 0, fun, lambda x: 0 * x, x)  # noqa: B023
        summed = lambda x: xpr.vmap(lambda x: lax.psum(fun(x), "i"), axis_name="i")(x * jnp.ones(2))[0]  # noqa: B023
        assert float(xpr.grad(looped)(0.5)) == pytest.approx(3 * slope)
        assert float(xpr.jit(xpr.jacfwd(looped))(0.5)) == pytest.approx(3 * slope)
        assert float(xpr.grad(chosen)(0.5)) == pytest.approx(slope)
        assert float(xpr.grad(summed)(0.5)) == pytest.approx(2 * slope)


@xpr.custom_vjp
def scaled_once(x):
    return 2 * x


scaled_once.defvjp(lambda x: (2 * x, None), lambda res, ct: (20 * ct,))


def test_collectives_inside_rules():
    fun = xpr.custom_jvp(lambda x: x - lax.pmean(x, "i"))
    fun.defjvp(lambda p, t: (fun(*p), 10 * (t[0] - lax.pmean(t[0], "i"))))
    mapped = xpr.vmap(fun, axis_name="i")
    np.testing.assert_allclose(mapped(X), X - X.mean())
    np.testing.assert_allclose(xpr.jacrev(mapped)(X), [[5, -5], [-5, 5]], rtol=1e-6)
    np.testing.assert_allclose(xpr.jit(xpr.jacfwd(xpr.vmap(xpr.jit(fun), axis_name="i")))(X), [[5, -5], [-5, 5]])


def test_collectives_make_all_rows_of_a_function_with_rules_the_same():
    jvp = xpr.custom_jvp(lambda x: lax.psum(x, "i"))
    jvp.defjvp(lambda p, t: (lax.psum(p[0], "i"), t[0]))
    vjp = xpr.custom_vjp(lambda x: lax.psum(x, "i"))
    vjp.defvjp(lambda x: (lax.psum(x, "i"), None), lambda res, ct: (ct,))
    for fun in (jvp, vjp, xpr.jit(jvp), xpr.jit(vjp)):
        one = lambda x: xpr.vmap(lambda _, x: fun(x), (0, None), None, axis_name="i")(jnp.arange(4.0), x)  # noqa: B023
        assert float(one(2.0)) == 8 and float(xpr.grad(one)(2.0)) == 1
        assert float(xpr.vmap(fun, out_axes=None, axis_name="i")(jnp.arange(4.0))) == 6


def test_rules_that_give_other_results_than_the_function():
    jvp = xpr.custom_jvp(lambda x: x)
    jvp.defjvp(lambda p, t: (jnp.ones(3), jnp.ones(3)))
    vjp = xpr.custom_vjp(lambda x: x)
    vjp.defvjp(lambda x: (jnp.ones(3), None), lambda res, ct: (ct,))
    for fun, what in ((jvp, "jvp"), (vjp, "fwd")):
        message = rf"got {what} output type float32\[3\] which doesn't match what the function gives: float32\[\]"
        with pytest.raises(TypeError, match=message):
            xpr.grad(xpr.jit(fun))(1.0)
    jvp, vjp = xpr.custom_jvp(lambda x: x), xpr.custom_vjp(lambda x: x)
    jvp.defjvp(lambda p, t: ((p[0],), (t[0],)))
    vjp.defvjp(lambda x: ((x,), None), lambda res, ct: ct)
    for fun in (jvp, vjp):
        with pytest.raises(
            xpr.errors.TreeMismatch, match="result of the function's s|Custom VJP fwd rule .* for function"
        ):
            xpr.grad(xpr.jit(fun))(1.0)


def test_tangents_of_integers():
    fun = xpr.custom_jvp(lambda x: (x, 3))
    fun.defjvp(lambda p, t: ((p[0], 3), (t[0], 0)))
    with pytest.raises(TypeError, match=r"must be float0\[\]. The tangents of integers have dtype float0"):
        xpr.jvp(fun, (1.0,), (1.0,))


# -- linear_call, closure_convert, custom_gradient


def test_linear_call_of_numbers_gives_arrays():
    result = linear_call(lambda r, x: x, lambda r, ct: 7.0, (), 1.0)
    assert isinstance(result, xpr.Array) and result.weak_type and result == 1


def divide(library):
    def call(y, x):
        fun = lambda y, x: {"out": x[0] / y}
        return library.custom_derivatives.linear_call(fun, lambda y, ct: [ct["out"] / y], y, [x])["out"]

    return call


def test_linear_call():
    def run(library):
        call = divide(library)
        transposed = library.linear_transpose(lambda x: call(2.0, x), 3.0)
        twice = library.linear_transpose(lambda ct: transposed(ct)[0], 1.0)
        return (
            call(2.0, 3.0), library.grad(call, 1)(2.0, 3.0), library.jit(call)(2.0, 3.0), transposed(5.0), twice(5.0),
            library.jvp(lambda x: call(2.0, x), (3.0,), (1.0,)),
        )  # fmt: skip

    agree(run)


def test_linear_call_beyond_jax():
    call = divide(xpr)
    np.testing.assert_allclose(xpr.vmap(call, (0, None))(X, 3.0), 3 / X, rtol=1e-6)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(call, (0, 1)), (None, 0))(2.0, X), [-X / 4, [0.5, 0.5]], rtol=1e-6)
    total = lambda y, x: xpr.vmap(call, (0, None))(y, x).sum()
    np.testing.assert_allclose(xpr.grad(total, 1)(X, 3.0), (1 / X).sum(), rtol=1e-6)
    np.testing.assert_allclose(xpr.tree.leaves(xpr.hessian(call, (0, 1))(2.0, 3.0)), [0.75, -0.25, -0.25, 0])

    def closing(y):
        return xpr.grad(lambda x: linear_call(lambda _, x: x / y, lambda _, ct: 10 * ct / y, (), x))(3.0)

    assert float(xpr.jit(closing)(2.0)) == 5
    np.testing.assert_allclose(xpr.vmap(closing)(X), 10 / X, rtol=1e-6)


def test_linear_call_messages():
    wrong = lambda x: linear_call(lambda _, x: x * jnp.ones(3), lambda _, ct: ct, (), x).sum()
    with pytest.raises(
        TypeError, match=r"must give a cotangent of linear_args:\n  linear_args   is f32\[\]   cotangent"
    ):
        xpr.grad(wrong)(3.0)
    with pytest.raises(UnsupportedRule, match="not in its residual_args"):
        xpr.linear_transpose(lambda y: divide(xpr)(y, 3.0), 2.0)(1.0)


def test_closure_convert():
    def run(library):
        def outer(y, n):
            convert = library.custom_derivatives.closure_convert
            converted, values = convert(lambda x: {"out": x["x"] * y * n}, {"x": 1.0})
            return converted({"x": 2.0}, *[10 * value for value in values])["out"]

        return library.grad(outer)(3.0, 2), library.jit(library.grad(outer))(3.0, 2), outer(3.0, 2)

    assert float(agree(run)[0]) == 40


def test_closure_convert_messages():
    converted, values = xpr.closure_convert(lambda x: x * X, 1.0)
    assert values == []
    with pytest.raises(TypeError, match=r"like the examples:\n  args\[0\]   example f32\[\]   given f32\[2\]"):
        converted(X)
    with pytest.raises(xpr.errors.TreeMismatch, match=r"args\[0\]   expected a leaf, got tuple of 1"):
        converted((1.0,))
    with pytest.raises(TypeError, match="The inputs to the closure produced by closure_convert are the 1 arguments of"):
        converted(1.0, 2.0)


def test_custom_gradient():
    def run(library):
        @library.custom_gradient
        def square(x):
            return {"out": x**2, "n": 3}, lambda ct: (ct["out"] * x,)

        @library.custom_gradient
        def product(x, y):
            return x * y, lambda ct: (ct * y, 5.0)

        out = lambda x: square(x)["out"]
        return (
            library.grad(out)(3.0), library.jit(library.grad(out))(3.0), library.vmap(library.grad(out))(X),
            square(3.0), library.grad(product, (0, 1))(3.0, 4.0), library.grad(library.grad(out))(3.0),
        )  # fmt: skip

    agree(run)
    with pytest.raises(TypeError, match=r"must return \(result, function of a cotangent\); it returned 3.0"):
        xpr.custom_gradient(lambda x: x)(3.0)


# -- Every kind of rule, inside every kind of loop


def doubled(x):
    """2 x, whose transpose is given apart."""
    return linear_call(lambda _, x: 2 * x, lambda _, ct: 2 * ct, (), x)


def halved(x):
    return lax.custom_linear_solve(lambda z: 2 * z, x, lambda _, b: b / 2, symmetric=True)


def cube_root(y):
    def newton(f, x):
        return lax.while_loop(lambda s: jnp.abs(f(s)) > 1e-5, lambda s: s - f(s) / (3 * s * s), x)

    return lax.custom_root(lambda x: x**3 - y, 1.0, newton, lambda g, b: b / g(1.0))


row_by_row = xpr.custom_batching.sequential_vmap(lambda x: jnp.sin(x))


@pytest.mark.parametrize("fun", [log1pexp, scaled_once, row_by_row, doubled, halved, cube_root])
def test_inside_loops(fun):
    rows = np.float32([0.5, 1.0, 2.0])
    twice = lambda x: fun(fun(x))
    loops = [
        lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, fun(s[1])), (0, x))[1],
        lambda x: lax.fori_loop(0, 2, lambda _, s: fun(s), x),
        xpr.checkpoint(lambda x: lax.scan(lambda s, _: (fun(s), None), x, None, length=2)[0]),
    ]
    values, slopes = ([float(f(x)) for x in rows] for f in (twice, xpr.grad(twice)))
    for loop in loops:
        np.testing.assert_allclose(xpr.vmap(loop)(rows), values, rtol=1e-4)
        np.testing.assert_allclose(xpr.jit(xpr.vmap(xpr.grad(loop)))(rows), slopes, rtol=1e-4)
        assert float(xpr.jacfwd(loop)(0.5)) == pytest.approx(slopes[0], rel=1e-4)


WITH_CALLS = {
    "jit": xpr.jit(jnp.sin),
    "cond": lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x),
    "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=1)[0],
    "checkpoint": xpr.checkpoint(jnp.sin),
}


@pytest.mark.parametrize("name", WITH_CALLS)
def test_rules_that_push_calls_forward(name):
    """Such a call takes primals and tangents together, and gives values beside tangents."""
    fun = xpr.custom_jvp(jnp.sin)

    @fun.defjvp
    def rule(primals, tangents):
        value, tangent = xpr.jvp(WITH_CALLS[name], primals, tangents)
        return value, tangent * value

    want = np.sin(0.6) * np.cos(0.6)
    value, slope = xpr.value_and_grad(fun)(0.6)
    assert_allclose([value, slope], [np.sin(0.6), want], rtol=1e-6)
    assert_allclose(xpr.grad(xpr.jit(fun))(0.6), want, rtol=1e-6)
    assert_allclose(xpr.grad(lambda x: jnp.sum(xpr.vmap(fun)(x * jnp.ones(2))))(0.6), 2 * want, rtol=1e-6)
    assert_allclose(xpr.grad(xpr.grad(fun))(0.6), np.cos(1.2), rtol=1e-6)


def test_stop_gradient_of_linear_values():
    (ct,) = xpr.linear_transpose(lambda x: 2 * lax.stop_gradient(x), 1.0)(1.0)
    assert float(ct) == 2


def test_residuals_that_are_numbers_arrive_as_they_are():
    seen = []

    @xpr.custom_vjp
    def double(x):
        return 2.0 * x

    def bwd(residuals, ct):
        seen.append(residuals)
        return (2.0 * ct,)

    double.defvjp(lambda x: (double(x), (True, 3, None, 2.5, np.float32(4), x)), bwd)
    rows = jnp.ones((2, 2))
    for fun in (
        double,
        xpr.vmap(double),
        xpr.vmap(xpr.vmap(double)),
        xpr.jit(xpr.vmap(double)),
        xpr.checkpoint(double),
    ):
        (gradient,) = xpr.vjp(fun, rows)[1](rows)
        assert_allclose(gradient, 2 * rows)
        flag, integer, nothing, number, scalar, _ = seen[-1]
        assert flag is True and type(integer) is int and nothing is None and type(number) is float
        assert not isinstance(scalar, xpr.core.Tracer) and scalar == 4
    xpr.vmap(xpr.grad(lambda x: jnp.sum(xpr.vmap(double)(x))))(rows)
    assert seen[-1][0] is True


def test_rules_get_arguments_that_are_numbers_as_they_are():
    """So a rule may use them as sizes, or as static arguments of compiled functions, as s2fft does."""
    power = xpr.jit(lambda x, n: x**n, static_argnums=1)
    by_vjp, by_jvp = xpr.custom_vjp(power), xpr.custom_jvp(power)
    by_vjp.defvjp(
        lambda x, n: (power(x, n), (x, n)), lambda kept, ct: (ct * kept[1] * power(kept[0], kept[1] - 1), None)
    )

    @by_jvp.defjvp
    def rule(primals, tangents):
        x, n = primals
        return power(x, n), tangents[0] * n * power(x, n - 1)

    for cube in (partial(by_vjp, n=3), partial(by_jvp, n=3)):
        assert float(xpr.grad(cube)(2.0)) == 12
        assert float(xpr.jit(xpr.grad(cube))(2.0)) == 12
        assert xpr.vmap(xpr.grad(cube))(2 * jnp.ones(2)).tolist() == [12, 12]
        assert xpr.vjp(xpr.vmap(cube), 2 * jnp.ones(2))[1](jnp.ones(2))[0].tolist() == [12, 12]


def test_rules_get_other_arguments_as_arrays():
    """A scalar array stays one, also where the program that calls the function holds its value as a number."""
    f = xpr.custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, n + jnp.zeros(n.shape, n.dtype)), lambda n, ct: (ct * n, None))
    outer = xpr.custom_vjp(lambda x: f(x, jnp.asarray(3)))
    outer.defvjp(lambda x: xpr.vjp(xpr.jit(lambda x: f(x, jnp.asarray(3))), x), lambda pullback, ct: pullback(ct))
    for function in (lambda x: f(x, jnp.asarray(3)), xpr.jit(lambda x: f(x, jnp.asarray(3))), outer):
        assert float(xpr.grad(function)(2.0)) == float(xpr.jit(xpr.grad(function))(2.0)) == 3


def test_zeros_of_pytrees():
    primal = {"x": jnp.ones(3), "n": (1, None)}
    zeros = zero_from_primal(primal)
    assert_allclose(zeros["x"], np.zeros(3))
    assert zeros["n"][0].dtype == xpr.dtypes.float0 and zeros["n"][1] is None
    assert repr(zero_from_primal(primal, symbolic_zeros=True)["x"]) == "Zero(f32[3])"


def test_rules_of_functions_that_have_other_rules():
    """A rule for derivatives of a function with a rule for vmap, and the reverse: each is found, and used."""

    @xpr.custom_vjp
    @xpr.custom_batching.custom_vmap
    def inner(x):
        return jnp.sin(x)

    inner.defvjp(lambda x: (inner(x), x), lambda x, ct: (100.0 * ct,))
    inner.def_vmap(lambda size, batched, x: (10 * jnp.sin(x), batched[0]))

    @xpr.custom_batching.custom_vmap
    @xpr.custom_vjp
    def outer(x):
        return jnp.sin(x)

    outer.def_vmap(lambda size, batched, x: (10 * outer(x), batched[0]))
    outer.defvjp(lambda x: (outer(x), x), lambda x, ct: (100.0 * ct,))
    x = jnp.array([1.0, 2.0])
    for fun, slope in ((inner, 100), (outer, 1000)):
        assert_allclose(xpr.vmap(fun)(x), 10 * np.sin(x), rtol=1e-6)
        assert_allclose(xpr.jit(xpr.vmap(xpr.grad(fun)))(x), [slope] * 2)
        (by_rows,) = xpr.vjp(xpr.vmap(fun), x)[1](jnp.ones(2))
        assert_allclose(by_rows, [slope] * 2)
        assert float(xpr.grad(fun)(1.0)) == 100
    assert not hasattr(xpr.custom_vjp(jnp.sin), "def_vmap")
    assert not hasattr(inner, "no_such_rule")


def test_cotangents_of_other_floats_are_converted_and_of_other_shapes_refused():
    @xpr.custom_vjp
    def f(x, y):
        return x * 2

    f.defvjp(lambda x, y: (x * 2, None), lambda _, g: (g.astype(np.float32), None))
    assert xpr.grad(lambda x: f(x, x).sum().astype(np.float32))(jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    f.defvjp(lambda x, y: (x.value, None), lambda _, g: (g, g), symbolic_zeros=True)
    for error in (TypeError, ValueError):
        with pytest.raises(
            error,
            match=r"output\[1\] the bwd rule produced an output of type f32\[2\], and the .* f32\[3\]. .* Consider",
        ):
            xpr.grad(lambda x, y: f(x, y).sum(), 1)(jnp.ones(2), jnp.ones(3))
        with pytest.raises(error, match=r"output of type f32\[2\], and the .* is of type f32\[3\]"):
            xpr.grad(lambda x, y: (0 * f(x, y)).sum() + y.sum(), 1)(jnp.ones(2), jnp.ones(3))


def test_one_array_may_be_the_cotangent_of_a_container():
    f = xpr.custom_vjp(lambda pair, y: pair["x"] * y)
    f.defvjp(lambda pair, y: (pair["x"] * y, (pair["x"], y)), lambda res, g: (res[1] * g, res[0] * g))
    assert xpr.grad(f)({"x": 3.0}, 5.0) == {"x": 5.0}


def test_jacobians_by_integers_with_symbolic_zeros():
    f = xpr.custom_vjp(lambda x, y: (x, x))
    f.defvjp(lambda x, y: ((x.value, x.value), None), lambda _, g: (g[0], g[1]), symbolic_zeros=True)
    rows = xpr.jacrev(xpr.jit(f), argnums=(0, 1), allow_int=True)(4.0, np.ones(3, np.int32))
    assert rows[0][1].tolist() == [0, 0, 0] and rows[0][1].dtype == np.int32 and rows[1][0] == 0.0


@pytest.mark.parametrize(
    "ct, by", [(1, 2.0), (True, 2.0), (np.int32(3), np.float16(2)), (3.0, 2j), (np.ones(2, int), X)]
)
def test_a_cotangent_of_a_narrower_kind_is_converted(ct, by):
    f = xpr.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (ct,))
    gradient = xpr.vjp(f, by)[1](jnp.ones_like(by))[0]
    assert gradient.dtype == jnp.asarray(by).dtype and (gradient == ct).all()
    f.defvjp(lambda x: (x, None), lambda _, g: (1j,))
    with pytest.raises(TypeError, match=r"an output of type c64\[\], and the cotangent .* is of type f32"):
        xpr.grad(f)(2.0)


def test_disable_bwd_checks_takes_cotangents_of_any_shape():
    @xpr.custom_vjp
    def first(x, y):
        return x

    first.defvjp(lambda x, y: (x, None), lambda _, ct: (jnp.zeros(3), jnp.zeros(3)))

    def gradient():
        return xpr.grad(lambda x, y: first(x, y).sum(), 1)(jnp.ones(3), jnp.ones(4))

    with pytest.raises(ValueError, match=r"output of type f32\[3\], and the .* is of type f32\[4\]"):
        gradient()
    with override("disable_bwd_checks", True):
        assert gradient().shape == (3,)


def statistics(library):
    """A function of a number that its rule replaces, and one whose rule has no cotangent."""

    @library.custom_vjp
    def counted(x, count):
        return x * 2

    counted.defvjp(lambda x, count: (x * 2, count), lambda count, ct: (None, count + 1))

    @library.custom_vjp
    def blocked(y):
        return y

    blocked.defvjp(lambda y: (y, None), lambda _, ct: (None,))
    return counted, blocked


CONTAINERS = {
    "none": lambda lib, f: f,
    "jit": lambda lib, f: lib.jit(f),
    "checkpoint": lambda lib, f: lib.checkpoint(f),
    "cond": lambda lib, f: lambda s: lib.lax.cond(s > 0, f, lambda s: 0 * s, s),
    "scan": lambda lib, f: lambda s: lib.lax.scan(lambda c, _: (c + f(s), None), 0.0, None, length=3)[0],
    "carry": lambda lib, f: lambda s: lib.lax.scan(lambda c, _: (f(c), None), s, None, length=3)[0],
    "vmap": lambda lib, f: lambda s: lib.vmap(f)(lib.numpy.stack([s, s])).sum(),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_rules_are_called_where_all_cotangents_are_zero(container):
    """What `bwd` returns need not depend on them: flax passes statistics of 8-bit floats so."""

    def slopes(library):
        counted, blocked = statistics(library)
        grad = library.grad(container(library, lambda s: blocked(counted(1.0, s))))
        return grad(3.0), library.jit(grad)(3.0)

    agree(slopes)


def test_rules_of_results_that_nothing_reads_are_not_called():
    counted, blocked = statistics(xpr)

    def unused(s):
        counted(1.0, s)
        return 2 * s + lax.stop_gradient(counted(1.0, s))

    assert xpr.grad(unused)(3.0) == 2
    inside = xpr.jit(lambda s: counted(1.0, s))
    assert xpr.grad(lambda s: blocked(inside(s)))(3.0) == 4
    _, pull = xpr.vjp(lambda x, s: blocked(counted(x, s)), 1.0, 3.0)
    assert [float(ct) for ct in pull(1.0)] == [0, 4]


def test_rules_that_call_jvp_see_its_tracers_in_reverse_mode():
    """equinox tells by their class which results have tangents."""
    kinds = []

    @xpr.custom_jvp
    def square(x):
        return x * x

    @square.defjvp
    def _(primals, tangents):
        return xpr.jvp(lambda x: kinds.append(type(x)) or x * x, primals, tangents)

    assert xpr.grad(square)(3.0) == xpr.jit(xpr.grad(square))(3.0) == 6
    assert kinds and set(kinds) == {JVPTracer}

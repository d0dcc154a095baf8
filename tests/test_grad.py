"""Differentiation: values, structures, kinds of arguments, and messages."""

import gc
import math
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

import xpr
import xpr.custom_batching
import xpr.numpy as jnp
from tests.peer import agree
from xpr import dtypes, lax, nn
from xpr.errors import ArgumentError
from xpr.testing import check_grads


def f(x):
    return jnp.sin(x) * x


def test_grad_and_value():
    value, gradient = xpr.value_and_grad(f)(2.0)
    assert float(value) == pytest.approx(np.sin(2) * 2, rel=1e-6)
    assert float(gradient) == pytest.approx(np.cos(2) * 2 + np.sin(2), rel=1e-6)


def test_any_depth():
    d = f
    for _ in range(4):
        d = xpr.grad(d)
    expected = np.sin(1.3) * 1.3 - 4 * np.cos(1.3)
    assert float(d(1.3)) == pytest.approx(expected, rel=1e-5)
    assert float(xpr.jit(d)(1.3)) == pytest.approx(expected, rel=1e-5)


def test_argnums_and_pytrees():
    fun = lambda a, b, c: a["x"] * b[0] + c
    grads = xpr.grad(fun, argnums=(0, 1))({"x": 2.0, "unused": 5.0}, (3.0,), 4.0)
    assert float(grads[0]["x"]) == 3 and float(grads[0]["unused"]) == 0 and float(grads[1][0]) == 2
    assert float(xpr.grad(fun, argnums=-1)({"x": 2.0}, (3.0,), 4.0)) == 1


def test_has_aux():
    fun = lambda x: (x**2, {"twice": 2 * x, "text": None})
    gradient, aux = xpr.grad(fun, has_aux=True)(3.0)
    assert float(gradient) == 6 and float(aux["twice"]) == 6
    (value, aux), gradient = xpr.value_and_grad(fun, has_aux=True)(3.0)
    assert float(value) == 9
    value, pull, aux = xpr.vjp(fun, 3.0, has_aux=True)
    assert float(pull(1.0)[0]) == 6
    value, tangent, aux = xpr.jvp(fun, (3.0,), (1.0,), has_aux=True)
    assert float(tangent) == 6 and float(aux["twice"]) == 6
    value, push, aux = xpr.linearize(fun, 3.0, has_aux=True)
    assert float(push(2.0)) == 12


def test_lax_conj_of_real_numbers():
    out, slope = xpr.value_and_grad(lambda x: jnp.real(lax.conj(x) * 2j + lax.conj(x)))(3.0)
    assert float(out) == 3 and float(slope) == 1 and lax.conj(jnp.ones(2)).dtype == np.complex64


def test_the_cotangent_of_an_integer_may_be_an_integer():
    _, pull = xpr.vjp(lambda x: (x * 2, 3), 1.0)
    assert pull((1.0, 7)) == (2,) and pull((1.0, np.zeros((), dtypes.float0))) == (2,)
    for wrong in (2.5, np.zeros(3, np.int32)):
        with pytest.raises(ArgumentError, match="The cotangent of a result of type float0"):
            pull((1.0, wrong))


def test_float0_takes_part_in_no_operation():
    nothing = xpr.grad(lambda x: x + 0.0, allow_int=True)(1)
    for call in (lambda: nothing + jnp.zeros(()), lambda: jnp.sin(nothing), lambda: xpr.jit(lambda x: x * 2)(nothing)):
        with pytest.raises(TypeError, match="float0s do not support any operations by design"):
            call()


def test_linear_functions_keep_no_more_than_residuals():
    for made in (
        lambda x: xpr.linearize(lambda x: 2.0 * x, x)[1],
        lambda x: xpr.vjp(lambda x: 2.0 * x, x)[1],
        lambda x: xpr.linear_transpose(lambda x: 2.0 * x, x),
    ):
        x = jnp.ones(3)
        reference = weakref.ref(x)
        kept = made(x)
        del x
        gc.collect()
        assert reference() is None and xpr.tree.leaves(kept(jnp.ones(3)))[0].tolist() == [2, 2, 2]
        with xpr.checking_leaks():
            assert xpr.tree.leaves(xpr.jit(made)(1.0)(3.0)) == [6]


def test_linear_transpose_of_integers():
    assert xpr.linear_transpose(lambda x: 2 * x, 1)(3)[0] == 6
    (sums,) = xpr.linear_transpose(jnp.sum, jnp.arange(3))(jnp.int32(3))
    assert sums.tolist() == [3, 3, 3] and sums.dtype == np.int32
    with pytest.raises(
        TypeError,
        match=r"linear_transpose: cotangent type .* The cotangent of a result of type i32\[\] must have that type",
    ):
        xpr.linear_transpose(lambda x: 2 * x, 1)(3.0)


def test_a_transposed_function_passes_through_jit():
    def transposed(x, y):
        return xpr.linear_transpose(lambda x: y * x, x)

    made = xpr.jit(transposed)(1.0, 2.0)
    assert float(xpr.jit(lambda f, ct: f(ct))(made, 3.0)[0]) == float(made(3.0)[0]) == 6


def test_integers_have_float0_tangents():
    gradient = xpr.grad(lambda n, x: n * x, argnums=0, allow_int=True)(2, 3.0)
    assert gradient.dtype == dtypes.float0 and gradient.shape == ()
    out, tangent = xpr.jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, np.zeros((), dtypes.float0)))
    assert float(tangent[0]) == 3 and tangent[1].dtype == dtypes.float0
    _, pull = xpr.vjp(lambda x, n: x * n, 2.0, 3)
    gradients = pull(1.0)
    assert float(gradients[0]) == 3 and gradients[1].dtype == dtypes.float0


def test_complex_numbers():
    z = 1.0 + 2.0j
    assert complex(xpr.grad(lambda z: z**3, holomorphic=True)(z)) == pytest.approx(3 * z**2)
    # The gradient of a real function of z is the conjugate of JAX's direction of steepest descent: df/dx - i df/dy.
    assert complex(xpr.grad(lambda z: jnp.real(z * jnp.conj(z)))(z)) == pytest.approx(2 * np.conj(z))
    check_grads(lambda z: jnp.abs(jnp.exp(z) * z), (np.complex64(z),), order=1)


def test_linearize_runs_the_function_once():
    calls = []

    def counted(x):
        calls.append(1)
        return jnp.sin(x)

    y, push = xpr.linearize(counted, 0.5)
    assert float(push(2.0)) == pytest.approx(2 * np.cos(0.5), rel=1e-6)
    assert float(xpr.vmap(push)(jnp.arange(3.0))[2]) == pytest.approx(2 * np.cos(0.5), rel=1e-6)
    assert len(calls) == 1


def test_linear_transpose():
    transposed = xpr.linear_transpose(lambda x, y: 2 * x - y, 1.0, xpr.ShapeDtypeStruct((), np.float32))
    assert [float(v) for v in transposed(3.0)] == [6, -3]


def _of_tangents(fun, x):
    """The gradient of a function of x, as the transpose of its derivative at x."""
    return xpr.linear_transpose(lambda t: xpr.jvp(fun, (x,), (t,))[1], x)(1.0)[0]


def _stops_early(x):
    carry, rows = lax.scan(lambda c, _: (jnp.sin(c) * x, jnp.cos(c)), x, None, length=3, until=lambda c: jnp.sum(c) > 5)
    return jnp.sum(rows**2 * carry * x)


@xpr.custom_batching.custom_vmap
def _with_rows(x):
    return jnp.sin(x) * x, jnp.cos(x)


@_with_rows.def_vmap
def _with_rows_of(size, batched, x):
    return (jnp.sin(x) * x, jnp.cos(x)), batched * 2


# Their derivatives are calls, branches and loops that give values and tangents together.
VALUES_BESIDE_TANGENTS = {
    "minimum": lambda x: jnp.sum(jnp.minimum(x, nn.softplus(x))),
    "maximum of a call": lambda x: jnp.sum(lax.max(xpr.jit(jnp.cos)(x), x)),
    "custom_jvp": lambda x: jnp.sum(nn.relu(x) * x),
    "cond": lambda x: jnp.sum(lax.cond(jnp.sum(x) > 0, jnp.sin, lambda x: x, x) * x),
    "scan": lambda x: jnp.sum(math.prod(lax.scan(lambda c, _: (jnp.sin(c) * x, jnp.cos(c)), x, None, length=3))),
    "until": _stops_early,
    "checkpoint": lambda x: jnp.sum(xpr.checkpoint(lambda x: jnp.sin(x) * x)(x) * x),
    "custom_vmap": lambda x: jnp.sum(math.prod(_with_rows(x)) * x),
    "nested": lambda x: jnp.sum(xpr.jit(lambda x: xpr.jit(jnp.sin)(x) * xpr.checkpoint(nn.silu)(x))(x) * x),
    "optimization_barrier": lambda x: jnp.sum(math.prod(lax.optimization_barrier((x, jnp.sin(x))))),
}


@pytest.mark.parametrize("name", VALUES_BESIDE_TANGENTS)
def test_transposed_derivatives_of_calls_that_give_values_too(name):
    fun, x = VALUES_BESIDE_TANGENTS[name], jnp.array([0.6, -0.3, 1.2])
    want = xpr.grad(fun)(x)
    assert_allclose(_of_tangents(fun, x), want, rtol=1e-5)
    assert_allclose(xpr.jit(lambda x: _of_tangents(fun, x))(x), want, rtol=1e-5)


def test_transposed_derivatives_of_scalars():
    smaller = lambda scale: lambda x: jnp.minimum(scale * x, nn.softplus(x))
    assert_allclose(xpr.jit(lambda x: _of_tangents(smaller(1), x))(0.6), 1.0)
    assert_allclose(xpr.jit(lambda x: _of_tangents(smaller(2), x))(0.6), 0.64565635, rtol=1e-6)


@pytest.mark.parametrize("wrap", [xpr.custom_jvp, xpr.custom_vjp, xpr.custom_batching.custom_vmap])
def test_linear_functions_with_rules_that_give_known_values_too(wrap):
    call = wrap(lambda x, t: (jnp.sin(x), jnp.cos(x) * t))
    x = jnp.array([0.6, -0.3])
    rules = {"custom_jvp": ["defjvp"], "custom_vjp": ["defvjp"] * 2, "custom_vmap": ["def_vmap"]}[wrap.__name__]
    getattr(call, rules[0])(*[lambda *args: None] * len(rules))  # never asked
    (ct,) = xpr.linear_transpose(lambda t: jnp.sum(math.prod(call(x, t))), x)(1.0)
    assert_allclose(ct, np.sin(x) * np.cos(x), rtol=1e-6)


def test_reductions_over_devices_of_known_and_linear_values():
    x, spec = jnp.array([0.6, -0.3]), xpr.sharding.PartitionSpec("i")
    sums = lambda x, t: math.prod(lax.psum((jnp.sin(x), t), "i"))
    mapped = xpr.shard_map(
        lambda x, t: (jnp.sin(x), sums(x, t)), mesh=xpr.make_mesh((1,), ("i",)), in_specs=(spec, spec), out_specs=spec
    )
    (ct,) = xpr.linear_transpose(lambda t: jnp.sum(math.prod(mapped(x, t))), x)(1.0)
    assert_allclose(ct, np.sin(x) ** 2, rtol=1e-6)
    rows = xpr.pmap(lambda x, t: (jnp.sin(x), t * jnp.cos(x)))
    (ct,) = xpr.linear_transpose(lambda t: jnp.sum(math.prod(rows(x[None], t[None]))), x)(1.0)
    assert_allclose(ct, np.sin(x) * np.cos(x), rtol=1e-6)


@pytest.mark.parametrize("x", [3.0, np.ones(3, np.float32)], ids=["scalar", "vector"])
@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
def test_functions_that_are_not_linear_have_no_transpose(staged, x):
    def transpose_of(fun):
        run = lambda ct: xpr.linear_transpose(fun, x)(ct)[0]
        return (xpr.jit(run) if staged else run)(x)

    with pytest.raises(NotImplementedError, match=r"mul: it is not .*\(f32\[3?\], f32\[3?\]\)(.|\n)*test_grad.py"):
        transpose_of(lambda t: t * t)
    for fun in (lambda t: 1 / t, lambda t: lax.select_n(lax.convert_element_type(t, bool), t, t)):
        with pytest.raises(NotImplementedError, match="is not linear(.|\n)*xpr.vjp"):
            transpose_of(fun)


def test_jacobians_and_hessian():
    fun = lambda x, y: {"a": x**2 * y, "b": jnp.sum(x)}
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    for jac in (xpr.jacfwd, xpr.jacrev):
        out = jac(fun, argnums=(0, 1))(x, y)
        np.testing.assert_allclose(out["a"][0], np.diag([6.0, 16.0]))
        np.testing.assert_allclose(out["a"][1], np.diag([1.0, 4.0]))
        np.testing.assert_allclose(out["b"][0], [1, 1])
    h = xpr.hessian(lambda x: x[0] ** 2 * x[1])(jnp.array([1.0, 3.0]))
    np.testing.assert_allclose(h, [[6, 2], [2, 0]])
    jac, aux = xpr.jacfwd(lambda x: (x**2, x + 1), has_aux=True)(x)
    np.testing.assert_allclose(aux, [2, 3])
    jac, aux = xpr.jacrev(lambda x: (x**2, x + 1), has_aux=True)(x)
    np.testing.assert_allclose(jac, np.diag([2.0, 4.0]))


def test_jacobians_of_and_by_integers_are_zeros_of_their_dtype():
    agree(lambda lib: lib.jacfwd(lambda x: (x * x, np.arange(3)))(np.ones(2, np.float32)))
    agree(lambda lib: lib.jit(lib.jacfwd(lambda x: {"y": x * x, "count": 3}))(2.0))
    agree(lambda lib: lib.jacfwd(lambda x, y: x.sum().astype(int), argnums=(0, 1))(np.ones((2, 1), np.float32), 3.0))
    agree(lambda lib: lib.jacrev(lambda x, y: 2.0 * x * y, argnums=(0, 1), allow_int=True)(np.arange(3), 2.0))


def test_symbolic_zeros_make_no_equations():
    closed = xpr.make_jaxpr(xpr.grad(lambda x, y: jnp.sum(x) + jnp.sum(jnp.sin(y)) * 0.5))(jnp.ones(3), jnp.ones(4))
    assert not any(eqn.primitive.name in ("cos", "add_any") for eqn in closed.eqns)
    plain = xpr.make_jaxpr(lambda x: xpr.jvp(lambda x, y: x * jnp.exp(y), (x, 2.0), (1.0, 1.0))[0])(1.0)
    assert len(plain.eqns) == 6  # exp, its product, the primal, two terms and their sum


def test_stop_gradient():
    assert float(xpr.grad(lambda x: x * lax.stop_gradient(x))(3.0)) == 3
    assert float(xpr.grad(lambda x: lax.stop_gradient({"a": x})["a"])(3.0)) == 0


def test_grad_of_a_constant_function():
    assert float(xpr.grad(lambda x: 1.0)(2.0)) == 0


def test_nested_perturbations_stay_apart():
    inner = lambda x: xpr.grad(lambda y: x + y)(1.0)
    assert float(xpr.grad(lambda x: x * inner(x))(2.0)) == 1


@pytest.mark.parametrize(
    "call, part",
    [
        (lambda: xpr.grad(lambda x: x)(1), "complex-valued inputs, and an argument is i32[]. Pass floats"),
        (lambda: xpr.grad(f)(jnp.ones(3)), "returned an array of type f32[3]"),
        (lambda: xpr.grad(lambda x: (x, x))(1.0), "has_aux=True"),
        (lambda: xpr.grad(lambda x: 1j * x)(1.0), "grad requires real-valued outputs"),
        (
            lambda: xpr.grad(f, holomorphic=True)(1.0),
            "grad with holomorphic=True requires inputs with complex dtype, but got float32: an argument is f32[]. ",
        ),
        (lambda: xpr.grad(lambda x: jnp.real(x), holomorphic=True)(1j), "needs a complex result"),
        (
            lambda: xpr.jacfwd(f)(1j),
            "jacfwd requires real-valued inputs, and an argument is c64[]. Pass floats, choose",
        ),
        (lambda: xpr.jacrev(f)(1), "jacrev requires real- or complex-valued inputs, and an argument is i32[]. Pass"),
        (lambda: xpr.grad(3), "grad: Expected a callable value, and got 3"),
        (lambda: xpr.jvp(3, (1.0,), (1.0,)), "jvp: Expected a callable value, and got 3"),
        (lambda: xpr.linearize(3, 1.0), "linearize: Expected a callable value, and got 3"),
        (lambda: xpr.vjp(3, 1.0), "vjp: Expected a callable value, and got 3"),
        (lambda: xpr.linear_transpose(3, 1.0), "linear_transpose: Expected a callable value, and got 3"),
        (lambda: xpr.jacfwd(3), "jacfwd: Expected a callable value, and got 3"),
        (lambda: xpr.jacrev(3), "jacrev: Expected a callable value, and got 3"),
        (lambda: xpr.hessian(3), "hessian: Expected a callable value, and got 3"),
        (lambda: xpr.grad(f, argnums=None)(1.0), "argnums must be an integer or a sequence of integers, and is None"),
        (lambda: xpr.jvp(f, 1.0, 1.0), "given as tuples"),
        (lambda: xpr.jvp(f, (1.0,), (jnp.ones(2),)), "has type f32[], and f32[2] was given"),
        (lambda: xpr.jvp(f, (1,), (1,)), "Tangents of integers have dtype float0"),
        (
            lambda: xpr.vjp(f, 1.0)[1](jnp.ones(2)),
            "unexpected JAX type f32[2]. The cotangent of a result of type f32[]",
        ),
        (lambda: xpr.value_and_grad(f, has_aux=True)(1.0), "must return a two-element tuple (scalar, auxiliary data)"),
    ],
)
def test_type_errors(call, part):
    with pytest.raises(TypeError) as caught:
        call()
    assert part in str(caught.value)


def test_value_errors():
    with pytest.raises(ValueError, match="argnums=2 is out of range"):
        xpr.grad(f, argnums=2)(1.0)
    with pytest.raises(ValueError, match="arguments to jax.jvp must have the same tree structure:"):
        xpr.jvp(f, (1.0,), ({"a": 1.0},))
    with pytest.raises(NotImplementedError, match="reduce_axes"):
        xpr.grad(f, reduce_axes=("i",))


def test_a_missing_rule_names_the_users_line():
    from xpr.extend import Primitive

    odd_p = Primitive("odd")
    odd_p.def_lowering_as(lambda x: x + 1)
    with pytest.raises(
        xpr.errors.UnsupportedRule,
        match="Differentiation rule for 'odd' not implemented. Give odd one with odd_p.def_jvp",
    ):
        xpr.grad(lambda x: odd_p.bind(x))(1.0)


def test_missing_rules_name_their_own_primitive():
    x, indices = jnp.ones(3), jnp.array([0, 2])
    for name in ("min", "max"):
        with pytest.raises(
            xpr.errors.UnsupportedRule, match=rf"Transpose rule .* for 'scatter-{name}' not implemented"
        ):
            xpr.linear_transpose(lambda x, name=name: getattr(x.at[indices], name)(1.0), x)(x)


def test_a_transposition_rule_that_calls_numpy_on_what_it_solves_for():
    from xpr.extend import Primitive

    rooted_p = Primitive("rooted")
    rooted_p.def_lowering_as(lambda x: x)
    rooted_p.def_jvp(lambda primals, tangents: (rooted_p.bind(*primals), rooted_p.bind(*tangents)))
    rooted_p.def_transpose(lambda ct, x: [np.sqrt(x)])
    with pytest.raises(xpr.errors.UnsupportedRule, match="rooted: it is not linear in all its operands"):
        xpr.grad(lambda x: rooted_p.bind(x))(1.0)


def test_values_of_transformations_are_arrays():
    assert isinstance(xpr.vmap(lambda x: x)(np.ones(2, np.float32)), xpr.Array)
    assert isinstance(xpr.vjp(lambda x: 3.0, 1.0)[0], xpr.Array)
    assert isinstance(xpr.linearize(lambda x: x, 1.0)[0], xpr.Array)
    assert all(isinstance(v, xpr.Array) for v in xpr.jvp(lambda x: x, (1.0,), (1.0,)))
    assert isinstance(xpr.jacrev(lambda t: t["a"])({"a": jnp.arange(2.0)})["a"], xpr.Array)
    assert xpr.value_and_grad(lambda x: x)(1.0)[0].weak_type


def test_a_constant_tangent_from_a_custom_rule():
    double = xpr.custom_jvp(lambda x: x * 2)
    double.defjvp(lambda primals, tangents: (primals[0] * 2, 0.0))
    assert float(xpr.grad(double)(1.0)) == 0


def test_item_of_a_value_that_is_a_python_scalar():
    assert float(xpr.grad(lambda x: x * x.item())(2.0)) == 2


def test_what_vjp_and_linearize_give_are_pytrees_of_residuals():
    value, f_vjp = xpr.jit(lambda x: xpr.vjp(jnp.sin, x))(2.0)
    assert float(f_vjp(3.0)[0]) == pytest.approx(3 * np.cos(2.0)) and len(xpr.tree.leaves(f_vjp)) == 1
    value, f_jvp = xpr.vmap(lambda x: xpr.linearize(jnp.sin, x))(jnp.arange(3.0))
    np.testing.assert_allclose(xpr.vmap(lambda f: f(2.0))(f_jvp), 2 * np.cos(np.arange(3)), rtol=1e-6)


AUXILIARY = ["text", None, print, ("text", 1, None), {"key": object()}]


@pytest.mark.parametrize("aux", AUXILIARY, ids=lambda aux: type(aux).__name__)
def test_auxiliary_data_may_be_any_objects(aux):
    fun = lambda x: (jnp.sin(x), (aux, 2 * x))
    value, pull, found = xpr.vjp(fun, 0.5, has_aux=True)
    assert found[0] is aux or (found[0] == aux and float(found[1]) == 1)
    assert_allclose(pull(1.0)[0], np.cos(0.5), rtol=1e-6)
    for found in (
        xpr.jvp(fun, (0.5,), (1.0,), has_aux=True)[2],
        xpr.linearize(fun, 0.5, has_aux=True)[2],
        xpr.grad(fun, has_aux=True)(0.5)[1],
        xpr.jacrev(fun, has_aux=True)(0.5)[1],
    ):
        assert found[0] == aux and float(found[1]) == 1
    assert_allclose(xpr.jit(lambda x: xpr.jvp(fun, (x,), (1.0,), has_aux=True)[2][1])(0.5), 1)
    with pytest.raises(TypeError, match=r"test_grad.py:\d+ returned a value of type \w+, at output component \[0"):
        xpr.vjp(lambda x: ("text", x), 0.5, has_aux=True)
    assert float(xpr.grad(lambda x: xpr.jvp(fun, (x,), (1.0,), has_aux=True)[2][1])(0.5)) == 2


def test_arguments_among_the_residuals_can_be_taken_out_and_put_back():
    x, w = jnp.ones((3, 4)), {"w": 2.0 * jnp.ones((4, 4)), "unused": jnp.ones(2)}
    y, f_vjp = xpr.vjp(lambda x, w: 2.0 * (3.0 * x @ w["w"]), x, w)
    expected = f_vjp(y)
    unused, kept = f_vjp.args_res[1]
    assert isinstance(f_vjp.args_res[0], xpr.ad.NotNeeded) and kept is w["w"]
    assert isinstance(unused, xpr.ad.NotNeeded) and len(f_vjp.opaque_residuals) == 1
    f_vjp.args_res[1] = None
    with pytest.raises(ValueError, match=r"depend on argument 1, which was taken out.*args_res\[1\] = value"):
        f_vjp(y)
    f_vjp = xpr.jit(lambda f: f)(f_vjp)
    for put_back in (w, (unused, kept)):
        f_vjp.args_res[1] = put_back
        xpr.tree.map(assert_allclose, f_vjp(y), expected)
    f_vjp.args_res[1] = {"w": kept}
    with pytest.raises(ValueError, match="unused"):
        f_vjp(y)
    f_vjp.args_res[1] = w
    with pytest.raises(TypeError, match="was called with 2 arguments, and takes one: the cotangent"):
        f_vjp(y, y)


def test_vjp_makes_no_nodes_of_classes_whose_constructors_want_arrays():
    class Blocks:
        def __init__(self, blocks):
            self.blocks = [jnp.asarray(x) for x in blocks]

    xpr.tree_util.register_pytree_node(Blocks, lambda node: (node.blocks, None), lambda _, blocks: Blocks(blocks))
    y, f_vjp = xpr.vjp(lambda x: x.blocks[0] * 2 + x.blocks[1] * x.blocks[1], Blocks([1.0, 3.0]))
    assert float(y) == 11 and isinstance(f_vjp.args_res[0][0], xpr.ad.NotNeeded)
    assert_allclose(f_vjp(1.0)[0].blocks, [2, 6])


def test_linear_functions_are_of_one_kind_of_numbers():
    with pytest.raises(TypeError, match=r"linear_transpose only supports .* takes \(i32\[\]\) and returns \(f32\[\]\)"):
        xpr.linear_transpose(lambda x: 2.0 * x, 1)
    assert xpr.linear_transpose(lambda x: 2 * x, 1)(3) == (6,)


def test_jacobians_are_weakly_typed_where_results_are():
    for transform in (xpr.grad, xpr.jacfwd, xpr.jacrev):
        assert transform(lambda x: x)(1.0).weak_type
        assert not transform(lambda x: x)(np.float32(1.0)).weak_type


@pytest.mark.parametrize("x", [0.5, np.float64(0.5), np.array(0.5), np.float32(0.5)])
def test_64_bit_types_inside_of_a_function_that_is_differentiated(x):
    def inside(x):
        with xpr.enable_x64(True):
            return jnp.sin(x) + jnp.square(jnp.asarray(x, "float64")).astype("float32")

    def outside(x):
        with xpr.enable_x64(True):
            return jnp.sin(jnp.asarray(x, "float64"))

    for fun, slope in ((inside, math.cos(0.5) + 1), (outside, math.cos(0.5))):
        for transform in (xpr.grad, xpr.jacfwd):
            found = transform(fun)(x)
            assert_allclose(found, slope, 1e-6)
            assert found.dtype == jnp.float32 or transform is xpr.jacfwd
        assert_allclose(xpr.jvp(fun, (x,), (x,))[1], slope / 2, 1e-6)


@pytest.mark.parametrize("transform", [xpr.grad, xpr.value_and_grad, xpr.jacfwd, xpr.jacrev])
def test_argnums_are_integers_of_any_kind(transform):
    f = lambda x, y: x * y
    for argnums in (np.int32(1), np.array(1), jnp.int32(1)):
        assert xpr.tree.leaves(transform(f, argnums)(2.0, 3.0))[-1] == 2
    derivative = transform(f, iter([1, np.int64(0)]))  # which is read once, for all calls
    for _ in range(2):
        assert xpr.tree.leaves(derivative(2.0, 3.0))[-2:] == [2, 3]


@pytest.mark.parametrize("transform", [xpr.grad, xpr.value_and_grad, xpr.jacfwd, xpr.jacrev, xpr.hessian])
@pytest.mark.parametrize("argnums", [(0, 0), (1, -1)])
def test_argnums_name_each_argument_once(transform, argnums):
    with pytest.raises(TypeError, match="names an argument twice"):
        transform(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)

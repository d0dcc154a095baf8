"""The smoke test: every public transformation once, in well under a minute."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import values_close
from xpr import core, lax, nn, random
from xpr.extend import Primitive
from xpr.testing import check_grads

pytestmark = [pytest.mark.quick, pytest.mark.optimized]

X = np.float32([0.5, -1.0, 2.0])
COS = np.cos(X)


def f(x):
    return jnp.sum(jnp.sin(x) * 2.0)


def test_make_jaxpr_prints_checks_and_runs():
    closed = xpr.make_jaxpr(f)(X)
    core.check_jaxpr(closed)
    assert str(closed) == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = sin a\n"
        "    c:f32[3] = mul b 2.0\n"
        "    d:f32[] = reduce_sum[axes=(0,)] c\n"
        "  in (d,) }"
    )
    values_close(core.eval_jaxpr(closed.jaxpr, closed.consts, X)[0], f(X))
    values_close(core.jaxpr_as_fun(closed)(X)[0], f(X))


def test_eval_shape():
    assert xpr.eval_shape(f, X) == xpr.ShapeDtypeStruct((), "float32")


def test_jit():
    values_close(xpr.jit(f)(X), f(X))
    values_close(xpr.jit(lambda x, power: x**power, static_argnums=1)(X, 3), X**3)
    assert "stablehlo.sine" in xpr.jit(f).lower(X).as_text()
    values_close(xpr.jit(f).lower(X).compile()(X), f(X))
    with xpr.disable_jit():
        values_close(xpr.jit(f)(X), f(X))
    values_close(xpr.jit(f, backend="reference")(X), f(X))


def test_jvp_and_linearize():
    value, slope = xpr.jvp(f, (X,), (np.ones_like(X),))
    values_close(value, f(X))
    values_close(slope, 2 * COS.sum())
    value, f_jvp = xpr.linearize(f, X)
    values_close(f_jvp(np.ones_like(X)), slope)


def test_vjp_and_linear_transpose():
    value, f_vjp = xpr.vjp(f, X)
    values_close(value, f(X))
    values_close(f_vjp(jnp.float32(3.0))[0], 6 * COS)
    values_close(xpr.linear_transpose(lambda x: 3.0 * x, X)(X)[0], 3 * X)


def test_grad_and_value_and_grad():
    values_close(xpr.grad(f)(X), 2 * COS)
    value, gradient = xpr.value_and_grad(f)(X)
    values_close(value, f(X))
    values_close(gradient, 2 * COS)
    tree = xpr.grad(lambda p: f(p["x"]) * p["scale"])({"x": X, "scale": 2.0})
    values_close(tree["x"], 4 * COS)
    values_close(tree["scale"], f(X))


def test_jacobians_and_hessian():
    values_close(xpr.jacfwd(jnp.sin)(X), np.diag(COS))
    values_close(xpr.jacrev(jnp.sin)(X), np.diag(COS))
    values_close(xpr.hessian(f)(X), np.diag(-2 * np.sin(X)))


def test_vmap_with_a_collective():
    values_close(xpr.vmap(lambda x, y: x * y, in_axes=(0, None), out_axes=1)(X, X), np.outer(X, X))
    values_close(xpr.vmap(lambda x: x - lax.pmean(x, "rows"), axis_name="rows")(X), X - X.mean())


def test_transformations_nest():
    nested = xpr.jit(xpr.vmap(xpr.grad(xpr.jit(xpr.grad(jnp.sin)))))
    values_close(nested(X), -np.sin(X))
    core.check_jaxpr(xpr.make_jaxpr(nested)(X))


def test_custom_derivatives_and_stop_gradient():
    @xpr.custom_jvp
    def triple(x):
        return 3 * x

    triple.defjvp(lambda primals, tangents: (triple(*primals), 5 * tangents[0]))
    values_close(xpr.grad(triple)(1.0), 5)

    @xpr.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double(x), None), lambda _, ct: (7 * ct,))
    values_close(xpr.grad(double)(1.0), 7)
    values_close(xpr.grad(lambda x: x * lax.stop_gradient(x))(3.0), 3)


def test_python_control_flow():
    def kinked(x):
        return x if x > 0 else 3 * x

    values_close(xpr.grad(kinked)(-1.0), 3)
    with pytest.raises(xpr.errors.TracerBoolConversionError, match="kinked"):
        xpr.jit(kinked)(-1.0)


def test_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    values_close(x[1, ::-1].at[0].add(10.0), [15.0, 4.0, 3.0])
    values_close(x @ x.T, np.arange(6.0).reshape(2, 3) @ np.arange(6.0).reshape(2, 3).T)
    assert repr(x[0]) == "Array([0., 1., 2.], dtype=float32)"
    with xpr.enable_x64():
        assert jnp.zeros(1).dtype == np.float64


def test_random_and_nn():
    key, other = random.split(random.key(0))
    assert random.normal(key, (4,)).shape == (4,)
    assert not np.array_equal(random.bits(key, (4,)), random.bits(other, (4,)))
    values_close(nn.softmax(X).sum(), 1)
    values_close(nn.relu(X), np.maximum(X, 0))


def test_trees():
    assert xpr.tree.map(lambda x: x + 1, {"a": [1, (2,)]}) == {"a": [2, (3,)]}


def test_a_primitive_from_outside():
    halve_p = Primitive("halve")
    halve_p.def_lowering_as(lambda x: x / 2)
    halve_p.def_jvp(lambda primals, tangents: (halve_p.bind(*primals), halve_p.bind(*tangents)))
    halve_p.def_transpose(lambda ct, x: [halve_p.bind(ct)])
    halve_p.def_batching(lambda size, values, dims: (halve_p.bind(*values), dims[0]))
    values_close(xpr.jit(xpr.vmap(xpr.grad(halve_p.bind)))(X), np.full(3, 0.5))


def test_check_grads():
    check_grads(f, (X,), order=2)

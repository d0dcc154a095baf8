"""custom_vmap and sequential_vmap: rules for being mapped, in every order with differentiation and compilation."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import agree
from xpr import lax
from xpr.custom_batching import custom_vmap, sequential_vmap
from xpr.errors import TreeMismatch

X = np.array([0.5, 2.0, 3.0], np.float32)


def marked(library=xpr):
    """x * y, which is 100 times that where it is mapped."""
    calls = []
    fun = library.custom_batching.custom_vmap(lambda x, y: x * y)

    @fun.def_vmap
    def rule(axis_size, in_batched, x, y):
        calls.append((axis_size, in_batched))
        return 100 * x * y, any(in_batched)

    return fun, calls


def test_the_rule_runs_where_the_function_is_mapped():
    def run(library):
        fun, calls = marked(library)
        x = library.numpy.asarray(X)
        found = [
            fun(2.0, 3.0),
            library.jit(fun)(2.0, 3.0),
            library.vmap(fun, (0, None))(x, 3.0),
            library.jit(library.vmap(fun, (None, 0)))(3.0, x),
            library.vmap(library.jit(fun))(x, x),
            library.vmap(lambda x: fun(x, 2.0), 1)(x[:, None] * x),
        ]
        assert calls == [(3, flags) for flags in ([True, False], [False, True], [True, True], [True, False])]
        return found

    agree(run)


def test_two_mapped_axes():
    fun, _ = marked()
    grid = np.outer(X, X)
    np.testing.assert_allclose(xpr.vmap(xpr.vmap(fun, (0, None)), (0, None))(grid, 2.0), 200 * grid, rtol=1e-6)
    np.testing.assert_allclose(xpr.vmap(xpr.vmap(fun, (0, None)), (None, 0))(X, X), 100 * grid.T, rtol=1e-6)


def test_the_derivative_follows_the_rule_where_it_is_mapped():
    fun, _ = marked()
    total = lambda x, y: xpr.vmap(fun, (0, None))(x, y).sum()
    for gradient in (xpr.grad(total, (0, 1)), xpr.jit(xpr.grad(total, (0, 1))), xpr.jacfwd(xpr.jit(total), (0, 1))):
        by_x, by_y = gradient(X, 2.0)
        np.testing.assert_allclose(by_x, [200] * 3, rtol=1e-6)
        assert float(by_y) == pytest.approx(100 * X.sum())
    for gradient in (xpr.grad(fun, (0, 1)), xpr.jit(xpr.grad(xpr.jit(fun), (0, 1)))):
        assert [float(g) for g in gradient(2.0, 3.0)] == [3, 2]
        by_x, by_y = xpr.vmap(gradient, (0, None))(X, 2.0)
        np.testing.assert_allclose(by_x, [200] * 3, rtol=1e-6)
        np.testing.assert_allclose(by_y, 100 * X, rtol=1e-6)


def test_second_derivatives():
    fun, _ = marked()
    squared = lambda x, y: fun(x, y) * fun(x, x)
    second = xpr.grad(lambda x, y: xpr.grad(squared)(x, y) + 10 * xpr.grad(squared, 1)(x, y), (0, 1))
    plain = second(2.0, 3.0)  # of x**3 y, which has the second derivatives 6 x y, 3 x**2 and 0
    np.testing.assert_allclose(plain, [36 + 120, 12], rtol=1e-6)
    for mapped in (xpr.vmap(second), xpr.jit(xpr.vmap(xpr.jit(second)))):
        found = mapped(np.float32([2.0]), np.float32([3.0]))
        np.testing.assert_allclose(np.ravel(found), 1e4 * np.array(plain), rtol=1e-6)


def test_jvp_is_jaxs():
    def run(library):
        fun, _ = marked(library)
        return library.jvp(fun, (2.0, 3.0), (1.0, 1.0)), library.vmap(lambda x: library.jvp(fun, (x, x), (x, x)))(X)

    agree(run)


def test_results_that_are_not_batched_and_pytrees():
    def run(library):
        fun = library.custom_batching.custom_vmap(lambda p, n: {"x": p["x"] * n, "n": n})

        @fun.def_vmap
        def rule(axis_size, in_batched, p, n):
            assert in_batched == [{"x": True, "b": False}, False]
            return {"x": p["x"] * n, "n": n}, {"x": True, "n": False}

        mapped = library.vmap(lambda x: fun({"x": x, "b": 1.0}, n=3), out_axes={"x": 0, "n": None})
        return mapped(library.numpy.asarray(X)), library.jit(mapped)(X)

    agree(run)
    fun = custom_vmap(lambda x: (x, 2.0 * x))
    fun.def_vmap(lambda n, batched, x: ((x, jnp.sum(x)), (True, False)))
    total = lambda x: sum(out.sum() for out in xpr.vmap(fun)(x))
    np.testing.assert_allclose(xpr.grad(total)(X), [4, 4, 4])  # the sum stands for three rows
    np.testing.assert_allclose(xpr.vmap(xpr.grad(lambda x: fun(x)[0]))(X), [1, 1, 1])


def test_closures():
    def outer(x, y):
        fun = custom_vmap(lambda z: z * y)
        fun.def_vmap(lambda n, batched, z: (10 * z * y, True))
        return fun(x)

    np.testing.assert_allclose(xpr.vmap(outer, (0, None))(X, 2.0), 20 * X)
    np.testing.assert_allclose(xpr.jit(xpr.vmap(outer, (0, None)))(X, 2.0), 20 * X)
    by_y = lambda y: xpr.vmap(outer, (0, None))(X, y).sum()
    assert float(xpr.grad(by_y)(2.0)) == pytest.approx(10 * X.sum())
    with pytest.raises(TypeError, match=r"closes over a value that is mapped \(f32\[3\], all rows\).*as an argument"):
        xpr.vmap(outer)(X, X)


def test_inside_loops_and_with_named_axes():
    fun, _ = marked()
    looped = lambda x: lax.scan(lambda c, _: (fun(c, 2.0), None), x, None, length=2)[0]
    np.testing.assert_allclose(xpr.vmap(looped)(X), 4e4 * X, rtol=1e-6)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(looped))(X), [4e4] * 3, rtol=1e-6)
    np.testing.assert_allclose(
        xpr.vmap(lambda x: fun(x, 1.0) + fun(1.0, 1.0), axis_name="i")(X), 100 * X + 1, rtol=1e-6
    )


@pytest.mark.parametrize(
    "rule, error, part",
    [
        (lambda n, b, x: x, TypeError, "must return (result, which leaves of it are batched)"),
        (lambda n, b, x: (x, True), TreeMismatch, "must give a result of the function's structure"),
        (lambda n, b, x: ((x, x), True), TreeMismatch, "must say of each leaf of its result whether it is batched"),
        (lambda n, b, x: ((x, x[0]), (True, True)), TypeError, "expected (f32[3], f32[3])\n  got (f32[3], f32[])"),
        (lambda n, b, x: ((x, x > 0), (True, True)), TypeError, "got (f32[3], bool[3])"),
    ],
)
def test_wrong_rules(rule, error, part):
    fun = custom_vmap(lambda x: (x, x))
    fun.def_vmap(rule)
    with pytest.raises(error) as caught:
        xpr.vmap(fun)(X)
    assert part in str(caught.value)


def test_functions_without_a_rule():
    with pytest.raises(AttributeError, match="No batching rule defined for custom_vmap function .*def_vmap"):
        custom_vmap(lambda x: x)(1.0)


def test_printed():
    fun, _ = marked()
    text = str(xpr.make_jaxpr(fun)(1.0, 2.0))
    assert "custom_vmap_call[" in text and "rule=<function rule>" in text


# -- sequential_vmap


def test_rows_run_one_after_another():
    def run(library):
        row = library.custom_batching.sequential_vmap(lambda x, y: {"out": library.numpy.sin(x) * y})
        return (
            row(2.0, 3.0), library.vmap(row, (0, None))(X, 3.0), library.jit(library.vmap(row))(X, X),
            library.vmap(library.vmap(row, (0, None)), (None, 0))(X, X),
        )  # fmt: skip

    agree(run)
    row = sequential_vmap(lambda x: jnp.sin(x))
    assert "scan[" in str(xpr.make_jaxpr(xpr.vmap(row))(X)) and "scan" not in str(xpr.make_jaxpr(row)(1.0))


def test_rows_differentiate_and_close_over_mapped_values():
    def outer(x, y):
        return sequential_vmap(lambda z: jnp.sin(z) * y)(x)

    np.testing.assert_allclose(xpr.vmap(outer)(X, X), np.sin(X) * X, rtol=1e-6)
    total = lambda x, y: xpr.vmap(outer, (0, None))(x, y).sum()
    by_x, by_y = xpr.grad(total, (0, 1))(X, 2.0)
    np.testing.assert_allclose(by_x, 2 * np.cos(X), rtol=1e-5)
    assert float(by_y) == pytest.approx(np.sin(X).sum(), rel=1e-5)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(outer, 1))(X, X), np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(xpr.jacrev(xpr.grad(total))(X, 2.0), np.diag(-2 * np.sin(X)), rtol=1e-5, atol=1e-6)
    second = xpr.tree.leaves(xpr.hessian(total, (0, 1))(X, 2.0))
    np.testing.assert_allclose(second[0], np.diag(-2 * np.sin(X)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second[1:3], [np.cos(X)] * 2, rtol=1e-5)


@pytest.mark.parametrize("sequential", [False, True])
def test_reverse_mode_of_a_loop_of_unknown_length(sequential):
    def power(x):
        return lax.while_loop(lambda c: c < 10.0, lambda c: c * x, x)

    if sequential:
        f = sequential_vmap(power)
    else:
        f = custom_vmap(power)
        f.def_vmap(lambda axis_size, in_batched, xs: (xpr.vmap(power)(xs), True))
    xs = jnp.array([2.0, 3.0])
    assert xpr.grad(f)(2.0) == xpr.jit(xpr.grad(f))(2.0) == 32
    assert xpr.vmap(xpr.grad(f))(xs).tolist() == [32, 27]
    assert xpr.grad(lambda xs: xpr.vmap(f)(xs).sum())(xs).tolist() == [32, 27]
    assert xpr.vmap(xpr.vmap(xpr.grad(f)))(xs[None]).tolist() == [[32, 27]]
    assert xpr.hessian(f)(2.0) == xpr.jacrev(xpr.jacrev(f))(2.0) == 48
    assert xpr.jvp(xpr.vmap(f), (xs,), (xs,))[1].tolist() == [64, 81]

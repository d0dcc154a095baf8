"""custom_linear_solve and custom_root: solutions differentiated as such, under every transformation."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import agree
from xpr import lax
from xpr.errors import TreeMismatch, UnsupportedRule

A = np.float32([[2.0, 1.0], [0.5, 3.0]])
B = np.float32([1.0, 2.0])
ROWS = np.stack([A, A + 1, A * 2])


def direct(library, a, b):
    """The solution of two equations, by a formula that has no derivative, so that none of it can be used."""
    jnp = library.numpy
    inverse = jnp.stack([jnp.stack([a[1, 1], -a[0, 1]]), jnp.stack([-a[1, 0], a[0, 0]])])
    return library.lax.stop_gradient((inverse / (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0])) @ b)


def solution(library, **more):
    def solve(a, b):
        return library.lax.custom_linear_solve(
            lambda x: a @ x, b, lambda _, b: direct(library, a, b), lambda _, b: direct(library, a.T, b), **more
        )

    return solve


def test_values_and_derivatives():
    def run(library):
        solve = solution(library)
        total = lambda a, b: library.numpy.sin(solve(a, b)).sum()
        by_both = library.grad(total, (0, 1))
        return (
            solve(A, B), library.jit(solve)(A, B), by_both(A, B), library.jit(by_both)(A, B),
            library.grad(library.jit(total))(A, B), library.jacfwd(solve, (0, 1))(A, B), library.jacrev(solve)(A, B),
            library.hessian(total)(A, B), library.jacrev(library.grad(total, 1))(A, B),
        )  # fmt: skip

    agree(run, 2e-5)


def test_mapped():
    def run(library):
        solve = solution(library)
        total = lambda a, b: library.numpy.sin(solve(a, b)).sum()
        return (
            library.vmap(solve, (0, None))(ROWS, B), library.vmap(solve, (None, 0))(A, ROWS[0]),
            library.vmap(library.grad(total, (0, 1)), (0, None))(ROWS, B),
            library.grad(lambda b: library.vmap(total, (0, None))(ROWS, b).sum())(B),
            library.jit(library.vmap(library.jacfwd(solve), (2, None)))(ROWS.transpose(1, 2, 0), B),
        )  # fmt: skip

    agree(run, 2e-5)


def test_results_of_eager_calls_are_arrays():
    solution = lax.custom_linear_solve(lambda x: 2 * x, 4.0, lambda matvec, b: b / 2)
    root = lax.custom_root(lambda x: x - 2.0, 1.0, lambda f, x: 2.0, lambda g, y: y / g(1.0))
    assert isinstance(solution, xpr.Array) and isinstance(root, xpr.Array) and solution == root == 2


def test_symmetric_equations_and_pytrees():
    def run(library):
        def solve(scale, b):
            return library.lax.custom_linear_solve(
                lambda x: {"u": scale * x["u"], "v": 2 * x["v"]},
                b,
                lambda matvec, b: {"u": b["u"] / scale, "v": b["v"] / 2},
                symmetric=True,
            )

        total = lambda scale, b: (solve(scale, b)["u"] ** 2).sum() + solve(scale, b)["v"]
        return library.grad(total, (0, 1))(3.0, {"u": B, "v": 1.0}), solve(3.0, {"u": B, "v": 1.0})

    agree(run)


def test_auxiliary_data():
    def run(library):
        def solve(a, b):
            pair = lambda _, b: (b / a, {"steps": 3, "norm": 2.0 * a})
            return library.lax.custom_linear_solve(lambda x: a * x, b, pair, pair, has_aux=True)

        total = lambda a, b: solve(a, b)[0].sum()
        found, aux = solve(2.0, B)
        tangent = library.jvp(lambda a: solve(a, B), (2.0,), (1.0,))
        return found, aux["steps"], library.grad(total, (0, 1))(2.0, B), tangent, library.vmap(solve, (0, None))(B, B)

    agree(run)


def test_forward_mode_needs_no_transposed_solver_and_reverse_mode_says_so():
    def solve(b):
        return lax.custom_linear_solve(lambda x: A @ x, b, lambda _, b: direct(xpr, A, b)).sum()

    np.testing.assert_allclose(xpr.jvp(solve, (B,), (B,))[1], direct(xpr, A, B).sum(), rtol=1e-6)
    with pytest.raises(TypeError, match=r"transpose_solve required for reverse mode.* say symmetric=True") as caught:
        xpr.grad(solve)(B)
    assert "test_linear_solve.py" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "matvec, solve, more, error, part",
    [
        (lambda x: x[:1], lambda _, b: b, {}, TypeError, "`matvec` must give something like b:\n  b   is f32[2]"),
        (lambda x: (x,), lambda _, b: b, {}, TreeMismatch, "`matvec` must give something like b"),
        (
            lambda x: x,
            lambda _, b: b[:1],
            {},
            TypeError,
            "`solve` must give x, which is something like b:\n  b   is f32",
        ),
        (lambda x: x, lambda _, b: (b, 1), {}, TreeMismatch, "`solve` must give x, which is something like b"),
        (lambda x: x, lambda _, b: b, {"has_aux": True}, TypeError, "with has_aux=True `solve` must return (x, aux"),
    ],
)
def test_wrong_solvers(matvec, solve, more, error, part):
    with pytest.raises(error) as caught:
        xpr.jit(lambda b: lax.custom_linear_solve(matvec, b, solve, **more))(B)
    assert part in str(caught.value)


def test_a_matvec_that_is_not_linear():
    with pytest.raises(UnsupportedRule):
        xpr.jit(lambda b: lax.custom_linear_solve(lambda x: x**2, b, lambda _, b: b, lambda _, b: b))(B)


def conjugate_gradients(matvec, b):
    """Solves a positive definite equation in a loop of unknown length."""

    def step(state):
        x, r, p, rr, n = state
        ap = matvec(p)
        alpha = rr / (p @ ap)
        r = r - alpha * ap
        return x + alpha * p, r, r + (r @ r) / rr * p, r @ r, n + 1

    start = (jnp.zeros_like(b), b, b, b @ b, 0)
    return lax.while_loop(lambda s: (s[3] > 1e-12) & (s[4] < 20), step, start)[0]


def test_a_solver_with_a_loop_of_unknown_length():
    s = np.float32([[2.0, 0.5], [0.5, 3.0]])

    def solve(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, conjugate_gradients, symmetric=True)

    def total(a, b):
        return solve(a, b)[0]

    inverse = np.linalg.inv(s)
    by_a, by_b = -np.outer(inverse[0], inverse @ B), inverse[0]
    for gradient in (xpr.grad(total, (0, 1)), xpr.jit(xpr.grad(total, (0, 1))), xpr.jacfwd(xpr.jit(total), (0, 1))):
        for found, expected in zip(gradient(s, B), (by_a, by_b), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)
    rows = np.stack([s, 2 * s])
    mapped = xpr.vmap(xpr.grad(total, 1), (0, None))(rows, B)
    np.testing.assert_allclose(mapped, [by_b, by_b / 2], atol=1e-5)
    looped = lambda b: lax.scan(lambda c, _: (solve(s, c), None), b, None, length=2)[0][0]
    np.testing.assert_allclose(xpr.grad(looped)(B), inverse @ inverse[0], atol=1e-5)
    chosen = lambda b: lax.cond(b[0] > 0, lambda b: total(s, b), lambda b: 0 * b[0], b)
    np.testing.assert_allclose(xpr.grad(chosen)(B), by_b, atol=1e-5)


# -- custom_root


def root(library):
    def of(y):
        def newton(f, x):
            return library.lax.fori_loop(0, 12, lambda _, x: x - f(x) / (2 * x), x)

        return library.lax.custom_root(lambda x: x**2 - y, 1.0, newton, lambda g, y: y / g(1.0))

    return of


def test_roots():
    def run(library):
        of = root(library)
        rows = np.float32([4.0, 9.0])
        return (
            of(4.0), library.jit(of)(4.0), library.value_and_grad(of)(4.0), library.jvp(of, (4.0,), (1.0,)),
            library.grad(library.grad(of))(4.0), library.jacfwd(library.jacfwd(of))(4.0),
            library.vmap(of)(rows), library.vmap(library.grad(of))(rows), library.jit(library.hessian(of))(4.0),
            library.grad(lambda y: library.vmap(of)(y).sum())(rows),
        )  # fmt: skip

    agree(run, 2e-5)


def test_roots_of_several_unknowns_found_in_a_loop_of_unknown_length():
    """u + v = s, u v = p: the derivatives are those of the roots of a quadratic equation."""

    def newton(f, x):
        def step(state):
            x, n = state
            u, v = x["u"], x["v"]
            r = f(x)
            dv = (r["v"] - v * r["u"]) / (u - v)
            return {"u": u - (r["u"] - dv), "v": v - dv}, n + 1

        return lax.while_loop(lambda s: s[1] < 12, step, (x, 0))[0]

    def tangent_solve(g, y):
        e = {"u": jnp.ones(()), "v": jnp.zeros(())}
        first, second = g(e), g({"u": e["v"], "v": e["u"]})
        det = first["u"] * second["v"] - second["u"] * first["v"]
        return {
            "u": (second["v"] * y["u"] - second["u"] * y["v"]) / det,
            "v": (first["u"] * y["v"] - first["v"] * y["u"]) / det,
        }

    def smaller(s, p):
        equations = lambda x: {"u": x["u"] + x["v"] - s, "v": x["u"] * x["v"] - p}
        start = {"u": jnp.array(0.1), "v": jnp.array(5.0)}
        return lax.custom_root(equations, start, newton, tangent_solve)["u"]

    by_formula = lambda s, p: (s - jnp.sqrt(s * s - 4 * p)) / 2
    for f in (smaller, xpr.jit(smaller)):
        np.testing.assert_allclose(f(5.0, 6.0), 2.0, rtol=1e-5)
        for derivative in (xpr.grad, xpr.jacfwd):
            found, expected = (derivative(g, (0, 1))(5.0, 6.0) for g in (f, by_formula))
            np.testing.assert_allclose(found, expected, rtol=1e-4)
    second, expected = (xpr.tree.leaves(xpr.hessian(g, (0, 1))(5.0, 6.0)) for g in (smaller, by_formula))
    np.testing.assert_allclose(second, expected, rtol=1e-3)


divided = lambda g, y: y / g(1.0)


def growth(library, c, x):
    """1.331 x + 0.331 c, by a loop of which the number of steps is not known."""
    return library.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 1.1 + c * 0.1), (0, x))[1]


def test_equations_with_loops_of_unknown_length():
    def root(library, c):
        def solve(f, x):
            return library.lax.fori_loop(0, 30, lambda _, x: x - f(x) * 0.3, x)

        return library.lax.custom_root(lambda x: growth(library, c, x) - 5 * c, 1.0, solve, lambda g, y: y / g(1.0))

    agree(lambda library: root(library, 2.0))
    agree(lambda library: library.jvp(lambda c: root(library, c), (2.0,), (1.0,)))
    slope, f = (5 - 0.331) / 1.331, lambda c: root(xpr, c)
    for gradient in (xpr.grad(f)(2.0), xpr.jit(xpr.grad(f))(2.0), xpr.vmap(xpr.grad(f))(jnp.array([2.0, 3.0]))):
        np.testing.assert_allclose(gradient, slope, rtol=1e-5)

    def solution(c, b):
        def solve(matvec, b):
            return b / matvec(1.0)

        return lax.custom_linear_solve(lambda x: x * growth(xpr, c, 1.0), b, solve, solve)

    by_c, by_b = xpr.grad(solution, (0, 1))(2.0, 3.0)
    np.testing.assert_allclose([by_c, by_b], [-3 * 0.331 / 1.993**2, 1 / 1.993], rtol=1e-5)


def test_a_tangent_solve_that_knows_the_jacobian():
    """b = a / 2 and a = c, whose Jacobian is not symmetric: in reverse mode its transpose is solved."""

    def root(library):
        def tangent_solve(g, y):
            return {"a": y["a"], "b": (y["b"] + y["a"]) / 2}

        def of(c):
            return library.lax.custom_root(
                lambda x: {"a": x["a"] - c, "b": 2 * x["b"] - x["a"]},
                {"a": 1.0, "b": 1.0},
                lambda f, x: {"a": c, "b": c / 2},
                tangent_solve,
            )

        return library.jacfwd(of)(3.0), library.jacrev(of)(3.0), library.jit(library.jacrev(of))(3.0)

    for jacobian in agree(root):
        assert jacobian == {"a": 1, "b": 0.5}


def test_roots_with_auxiliary_data_and_closures():
    def of(y, scale):
        solve = lambda f, x: (jnp.sqrt(y), {"steps": 3, "residual": f(x)})
        return lax.custom_root(lambda x: x**2 - y, 1.0, solve, lambda g, b: scale * b / g(scale), has_aux=True)

    (value, aux), by_y = xpr.value_and_grad(of, has_aux=True)(4.0, 5.0)
    assert float(value) == 2 and float(by_y) == 0.25 and int(aux["steps"]) == 3
    np.testing.assert_allclose(xpr.vmap(xpr.grad(lambda y, s: of(y, s)[0]), (None, 0))(4.0, B), [0.25, 0.25])
    assert float(xpr.grad(lambda x: lax.custom_root(lambda x: x - 1, x, lambda f, x: 1.0 + 0 * x, divided))(3.0)) == 0


@pytest.mark.parametrize(
    "f, solve, tangent_solve, error, part",
    [
        (lambda x: (x,), lambda f, x: x, divided, TreeMismatch, "`f` must give something like the initial guess"),
        (lambda x: x * B, lambda f, x: x, divided, TypeError, "initial_guess   is f32[]   f f32[2]"),
        (lambda x: x, lambda f, x: (x,), divided, TreeMismatch, "`solve` must give something like the initial guess"),
        (lambda x: x, lambda f, x: x * B, divided, TypeError, "initial_guess   is f32[]   solve f32[2]"),
        (lambda x: x, lambda f, x: x, lambda g, y: B * y, TypeError, "`solve` must give x"),
    ],
)
def test_wrong_roots(f, solve, tangent_solve, error, part):
    with pytest.raises(error) as caught:
        xpr.grad(lambda y: lax.custom_root(lambda x: xpr.tree.map(lambda r: r - y, f(x)), 1.0, solve, tangent_solve))(
            2.0
        )
    assert part in str(caught.value)
    with pytest.raises(TypeError, match=r"with has_aux=True `solve` must return \(root, auxiliary data\)"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, divided, has_aux=True)


@pytest.mark.parametrize("f, part", [
    (lambda x: (x, x), "expected a leaf, got tuple of 2"), (lambda x: x * B, "initial_guess   is f32[]   f f32[2]"),
])  # fmt: skip
def test_wrong_equations_outside_of_transformations(f, part):
    with pytest.raises(TypeError, match="`f` must give something like the initial guess") as caught:
        lax.custom_root(f, 1.0, lambda f, x: xpr.tree.leaves(f(x))[0].sum(), divided)
    assert part in str(caught.value)
    wide = lax.custom_root(
        lambda x: x, 1.0, lambda f, x: f(B)[0], divided
    )  # of another argument f gives something else
    assert wide == B[0]


@pytest.mark.parametrize("around", [lambda f: f, xpr.jit])
def test_errors_of_functions_that_only_derivatives_run_are_seen_at_once(around):
    def fails(*args):
        raise AssertionError("mine")

    identity, take = (lambda x: x), (lambda f, x: x)
    for call in (
        lambda: lax.custom_linear_solve(fails, 1.0, take), lambda: lax.custom_root(fails, 1.0, take, divided),
        lambda: lax.custom_root(identity, 1.0, take, fails),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="mine"):
            around(call)()
    assert int(lax.custom_root(identity, 1, take, fails)) == 1  # integers have no derivative

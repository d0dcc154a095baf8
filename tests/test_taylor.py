"""taylor: its series are derivatives along a curve, as nested forward mode and jax's jet find them."""

import importlib
import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import in_numpy
from xpr import lax
from xpr.core.jaxpr import subjaxprs
from xpr.experimental.jet import jet
from xpr.series.augmented import _operation

ORDER = 3
X = np.array([0.3, 0.5, 0.7])


def series_for(x, order=ORDER):
    rng = np.random.default_rng(0)
    return [0.5 * rng.normal(size=np.shape(x)) for _ in range(order)]


def nested(fun, x, series):
    """The same by forward mode inside forward mode, along the curve with these derivatives; evaluated in NumPy."""

    def along(t):
        return fun(sum((jnp.asarray(c) * t**m / math.factorial(m) for m, c in enumerate(series, 1)), jnp.asarray(x)))

    def derivative(g):
        return lambda t: xpr.jvp(g, (t,), (jnp.ones_like(t),))[1]

    outs = []
    for _ in range(len(series) + 1):
        outs.append(np.asarray(in_numpy(along)(jnp.zeros(()))))
        along = derivative(along)
    return outs


def check(fun, x=X, order=ORDER):
    with xpr.enable_x64(True):
        series = series_for(x, order)
        value, rows = xpr.taylor(fun, (jnp.asarray(x),), (series,))
        expected = nested(fun, x, series)
        assert len(rows) == order
        for got, want in zip([value, *rows], expected):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-7, atol=1e-7)
        compiled = xpr.jit(lambda x: xpr.taylor(fun, (x,), (series,)))(jnp.asarray(x))
        for got, want in zip([compiled[0], *compiled[1]], expected):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-7, atol=1e-7)


def broadcasting(a, b):
    """A column and a row, in every operation that has a rule for itself."""
    table = a + b - a * b / (1 + a) + (b - a) ** 2 + a**b + jnp.ones((3, 1)) ** a + b ** jnp.full((3, 1), 1.5)
    return table + jnp.ones((1, 3)) / a + b * jnp.ones((3, 1)) + jnp.maximum(a, jnp.sin(b)) + jnp.arctan2(a, b)


FUNCTIONS = {
    name: getattr(lax, name)
    for name in """sin cos tan sinh cosh tanh exp exp2 expm1 log log1p sqrt rsqrt cbrt asin acos atan asinh atanh
    logistic erf erfc erf_inv square abs neg lgamma""".split()
} | {
    "acosh": lambda x: lax.acosh(1 + x),
    "cumulative": lambda x: lax.cumsum(x) * lax.cumprod(x) + lax.cumlogsumexp(x),
    "powers": lambda x: x**3 + x**-2 + x**2.5 + 2.0**x + x**x + x**0,
    "quotients": lambda x: 1 / x + x / (1 + x) + x / 3,
    "differences": lambda x: (x - jnp.sin(x)) * (1 - x) + jnp.add(x, x[0]),
    "axes that broadcast": lambda x: broadcasting(x[:, None], x[None]),
    "products": lambda x: jnp.outer(x, jnp.sin(x)) @ x + jnp.ones((3, 3)) @ x,
    "rows": lambda x: jnp.tanh(jnp.outer(x, x)) @ jnp.ones((3, 2)),
    "choices": lambda x: jnp.where(x > 0.4, x * x, jnp.sin(x)) + jnp.maximum(x, 0.4) + jnp.clip(x * x, 0.1, 0.4),
    "moving": lambda x: jnp.concatenate([x[::-1], jnp.sin(x)])[jnp.array([0, 4, 1])].reshape(3, 1).T.sum(0),
    "reductions": lambda x: jnp.max(x * x) + jnp.min(x) + jnp.prod(x) + jnp.sort(-x),
    "updates": lambda x: x.at[jnp.array([0, 0])].add(x[1:] ** 2).at[2].set(x[0]).at[1].multiply(x[2]),
    "slices": lambda x: lax.dynamic_slice(jnp.pad(x * x, 1), (1,), (2,)),
    "convolutions": lambda x: jnp.convolve(x, jnp.sin(x)) + jnp.convolve(x, jnp.ones(3)),
    "calls": lambda x: xpr.jit(lambda y: jnp.sin(y) * 2)(x) + xpr.checkpoint(jnp.exp)(x),
    "functions with rules": lambda x: xpr.nn.softplus(x) + xpr.nn.relu(x),
    "Fourier transforms": lambda x: jnp.real(jnp.fft.fft(jnp.sin(x) * jnp.arange(3.0))),
    "numbers of steps": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * (i + 1) + c, x),
    "scans": lambda x: lax.scan(lambda c, r: (c * r + 1, (jnp.exp(c), r, 1.0)), x[0], x)[1][0],
    "scans backwards": lambda x: lax.scan(lambda c, r: (c * r, c * jnp.ones(3)), x, x[:2], reverse=True)[1],
    "while loops": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1]) + x), (0, x))[1],
    "branches": lambda x: lax.cond(x[0] > 0, lambda x: x * x, lambda x: jnp.ones_like(x), x),
    "rows on devices": lambda x: xpr.pmap(lambda r: jnp.exp(r * 2) + x, out_axes=1)(x[None]),
    "constant": lambda x: jnp.ones(2),
    "integers in between": lambda x: (9 * x).astype(int) * x + (9 * x).astype("int8").astype(x.dtype),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_the_derivative_along_the_curve(name):
    check(FUNCTIONS[name])


@xpr.custom_jvp
def pushed_sine(x):
    return lax.stop_gradient(jnp.sin(x))


@pushed_sine.defjvp
def _(primals, tangents):
    return pushed_sine(primals[0]), jnp.cos(primals[0]) * tangents[0]


@xpr.custom_vjp
def pulled_sine(x):
    return lax.stop_gradient(jnp.sin(x))


pulled_sine.defvjp(lambda x: (pulled_sine(x), x), lambda x, ct: (jnp.cos(x) * ct,))


def stopped_root(y):
    def newton(f, x):
        return lax.stop_gradient(lax.fori_loop(0, 10, lambda _, x: x - f(x) / (2 * x), x))

    return lax.custom_root(lambda x: x * x - y, jnp.ones_like(y), newton, lambda g, y: y / g(jnp.ones_like(y)))


def stopped_quotient(y):
    def solve(matvec, b):
        return lax.stop_gradient(b / matvec(jnp.ones_like(b)))

    return lax.custom_linear_solve(lambda x: x * y, jnp.exp(y), solve, solve)


def matrix(x):
    return jnp.outer(x, x) + jnp.diag(1 + jnp.sin(x))


def determinant(a):
    return jnp.cross(a[0], a[1]) @ a[2]


# Functions whose rule is all that tells their derivatives, with what they are.
OF_THEIR_RULE = {
    "custom_jvp": (pushed_sine, jnp.sin),
    "custom_vjp": (pulled_sine, jnp.sin),
    "inside others": (lambda x: jnp.exp(pushed_sine(pulled_sine(x * x))), lambda x: jnp.exp(jnp.sin(jnp.sin(x * x)))),
    "in calls": (xpr.jit(lambda x: pushed_sine(x) * pulled_sine(x)), lambda x: jnp.sin(x) ** 2),
    "in loops": (lambda x: lax.fori_loop(0, 3, lambda i, c: pushed_sine(c) + pulled_sine(x), x),
                 lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + jnp.sin(x), x)),
    "mapped": (xpr.vmap(lambda x: pushed_sine(x) * pulled_sine(x)), lambda x: jnp.sin(x) ** 2),
    "custom_root": (stopped_root, jnp.sqrt),
    "custom_linear_solve": (stopped_quotient, lambda y: jnp.exp(y) / y),
    "solutions": (lambda x: jnp.linalg.solve(matrix(x), jnp.sin(x)), lambda x: jnp.linalg.inv(matrix(x)) @ jnp.sin(x)),
    "solutions for x alone": (lambda x: jnp.linalg.solve(matrix(X), x * x), lambda x: jnp.linalg.inv(matrix(X)) @ x**2),
    "matrices alone": (lambda x: jnp.linalg.solve(matrix(x), X), lambda x: jnp.linalg.inv(matrix(x)) @ X),
    "determinants": (lambda x: jnp.linalg.slogdet(matrix(x))[1] + jnp.linalg.det(matrix(x)),
                     lambda x: jnp.log(determinant(matrix(x))) + determinant(matrix(x))),
    "pseudoinverses": (lambda x: jnp.linalg.pinv(matrix(x)), lambda x: jnp.linalg.inv(matrix(x))),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_THEIR_RULE)
def test_derivatives_are_those_of_the_rule(name):
    fun, same = OF_THEIR_RULE[name]
    check(fun)
    with xpr.enable_x64(True):
        x, series = jnp.asarray(X), series_for(X)
        rows, hessian = in_numpy(lambda x: (xpr.taylor(same, (x,), (series,)), xpr.hessian(same)(x)))(x)
        for a, b in zip(xpr.tree.leaves(xpr.taylor(fun, (x,), (series,))), xpr.tree.leaves(rows)):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
        got, want = xpr.laplacian(fun)(x), np.trace(hessian, axis1=-2, axis2=-1)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(xpr.jit(xpr.laplacian(fun))(x), want, rtol=1e-8, atol=1e-8)


def test_rules_that_are_no_derivatives():
    clipped = xpr.custom_jvp(lambda x: x * x)
    clipped.defjvp(lambda primals, tangents: (clipped(*primals), 7 * primals[0] * tangents[0]))
    assert [float(c) for c in xpr.taylor(clipped, (2.0,), ([1.0, 0.0, 0.0],))[1]] == [14.0, 7.0, 0.0]
    assert float(xpr.laplacian(clipped)(2.0)) == 7.0


def test_first_order():
    check(lambda x: jnp.sin(x) * lax.digamma(x), order=1)


def test_no_order_at_all():
    value, rows = xpr.taylor(jnp.sin, (0.5,), ([],))
    assert rows == [] and float(value) == pytest.approx(math.sin(0.5))


@pytest.mark.parametrize("scaled", [True, False])
def test_is_jets(scaled):
    pytest.importorskip("jax")
    jet, theirs = (importlib.import_module(name) for name in ("jax.experimental.jet", "jax.numpy"))

    def fun(n):
        return lambda x, y: {"a": n.sin(x * y) / (1 + y), "b": [n.exp(x) @ n.tanh(y), 3.0]}

    x, y = np.float32([0.3, 0.4]), np.float32([0.5, 0.1])
    series = [[np.float32(c) for c in series_for(x)], [np.float32(c) for c in series_for(y)[::-1]]]
    ours = xpr.taylor(fun(jnp), (x, y), series, factorial_scaled=scaled)
    want = jet.jet(fun(theirs), (x, y), series, factorial_scaled=scaled)
    for name in ("a", "b"):
        pairs = zip(xpr.tree.leaves([ours[0][name], ours[1][name]]), xpr.tree.leaves([want[0][name], want[1][name]]))
        for got, other in pairs:
            np.testing.assert_allclose(np.asarray(got), np.asarray(other), rtol=2e-4, atol=1e-5)


def test_jets_of_booleans_are_not_read_and_acosh_is_nan_outside_of_its_domain():
    """jet takes series of booleans, as jax's does; the sign of sqrt(x^2 - 1) would be wrong below -1."""
    take = np.array([True, False])
    x, y = np.float32([1, 2]), np.float32([3, 4])
    series = ([np.ones(2), np.ones(2)], [x, y], [y, x])
    value, rows = jet(lax.select, (take, x, y), series)
    np.testing.assert_array_equal([value, *rows], [[1, 4], [1, 4], [3, 2]])
    for at in (-3.0, 0.5):
        assert np.isnan(xpr.taylor(lax.acosh, (at,), ([1.0, 0.0],))[1]).all() and np.isnan(xpr.grad(lax.acosh)(at))


def test_several_arguments_and_pytrees():
    value, rows = xpr.taylor(
        lambda p, n: {"v": p["w"] * p["b"] * n}, ({"w": 2.0, "b": 3.0}, 4), ({"w": [1.0, 0], "b": [1.0, 0]}, [0, 0])
    )
    assert float(value["v"]) == 24
    assert [float(c) for c in rows["v"]] == [20.0, 8.0]


def test_integers():
    value, rows = xpr.taylor(jnp.sin, (3,), ([1.0, 0.0],))
    np.testing.assert_allclose([value, *rows], [math.sin(3), math.cos(3), -math.sin(3)], rtol=1e-6)
    no_tangent = np.zeros((), xpr.dtypes.float0)
    for rows in ([0, 0], [no_tangent] * 2):
        value, found = xpr.taylor(lambda x, n: x * jnp.arange(n), (2.0, 3), ([1.0, 0.0], rows))
        np.testing.assert_allclose([value, *found], [[0, 2, 4], [0, 1, 2], [0, 0, 0]])


def test_composes():
    def second(x):
        return xpr.taylor(lambda y: jnp.tanh(y) * y, (x,), ([1.0, 0.0],))[1][1]

    x = jnp.linspace(0.1, 1.0, 4)
    expected = xpr.vmap(xpr.grad(xpr.grad(lambda y: jnp.tanh(y) * y)))(x)
    np.testing.assert_allclose(xpr.vmap(second)(x), expected, rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(xpr.vmap(second))(x), expected, rtol=1e-5)
    third = xpr.vmap(xpr.grad(xpr.grad(xpr.grad(lambda y: jnp.tanh(y) * y))))(x)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(second))(x), third, rtol=1e-4)
    np.testing.assert_allclose(xpr.vmap(xpr.jacrev(second))(x), third, rtol=1e-4)
    inside = xpr.taylor(lambda y: xpr.grad(jnp.sin)(y), (0.3,), ([1.0, 0.0],))[1]
    np.testing.assert_allclose(inside, [-math.sin(0.3), -math.cos(0.3)], rtol=1e-5)
    rows = xpr.taylor(lambda y: xpr.vmap(lambda a: a * jnp.sum(y))(y), (jnp.ones(2),), ([jnp.ones(2), 0.0],))[1]
    np.testing.assert_allclose(rows[1], [4.0, 4.0])


def test_of_itself():
    def first(x):
        return xpr.taylor(jnp.sin, (x,), ([1.0],))[1][0]

    np.testing.assert_allclose(xpr.taylor(first, (0.3,), ([1.0, 0.0],))[1], [-math.sin(0.3), -math.cos(0.3)], rtol=1e-6)


def test_python_control_flow_sees_values():
    def fun(x):
        return x * x if x > 0 else -x

    assert [float(c) for c in xpr.taylor(fun, (3.0,), ([1.0, 0.0],))[1]] == [6.0, 2.0]


def test_every_order_costs_a_polynomial():
    """Nested forward mode doubles with each order, as do programs of loops."""

    def size(fun, order):
        x = jnp.ones(3)
        closed = xpr.make_jaxpr(lambda x: xpr.taylor(fun, (x,), ([x] * order,)))(x)
        return count(closed.jaxpr)

    def count(jaxpr):
        return sum(1 + sum(map(count, subjaxprs(eqn))) for eqn in jaxpr.eqns)

    for fun in (jnp.tanh, lax.erf_inv, lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), x)):
        assert size(fun, 16) < 8 * size(fun, 8)
    for fun in (stopped_quotient, stopped_root, pushed_sine, pulled_sine):
        assert size(fun, 8) < 8 * size(fun, 4)


def test_zeros_cost_nothing():
    text = str(
        xpr.make_jaxpr(lambda x: xpr.taylor(lambda y: y @ jnp.ones((3, 3)), (x,), ([x, 0.0, 0.0],)))(jnp.ones(3))
    )
    assert text.count("dot_general") == 1 and "2,3" in text


def test_zeros_stay_zeros_in_calls():
    call = xpr.jit(lambda x: (jnp.ones((3, 3)) @ x, x * x))
    closed = xpr.make_jaxpr(lambda x: xpr.taylor(call, (x,), ([x, 0.0, 0.0, 0.0, 0.0],)))(jnp.ones(3))
    (eqn,) = [eqn for eqn in closed.eqns if eqn.primitive.name == "xla_call"]
    assert [v.aval.str_short() for v in eqn.outvars] == ["f32[3]"] * 5  # two values; one coefficient, and two


def test_a_function_that_all_coefficients_read_is_computed_once():
    closed = xpr.make_jaxpr(lambda x: xpr.taylor(jnp.tanh, (x,), ([x, x, x],)))(jnp.ones(3))
    assert [eqn.primitive.name for eqn in closed.eqns].count("optimization_barrier") == 1


class TestMessages:
    def test_lengths_differ(self):
        with pytest.raises(ValueError, match=r"equally long, and have lengths x: 2, y: 1\."):
            xpr.taylor(lambda x, y: x * y, (1.0, 2.0), ([1.0, 0.0], [1.0]))

    def test_a_series_is_missing(self):
        with pytest.raises(ValueError, match=r"2 primals and 1 series. Give a series for each"):
            xpr.taylor(lambda x, y: x * y, (1.0, 2.0), ([1.0, 0.0],))

    def test_shapes_differ(self):
        with pytest.raises(ValueError, match=r"element of the series of x must have its type, f32\[2\], and element 0"):
            xpr.taylor(lambda x: x, (jnp.ones(2),), ([jnp.ones(3)],))

    def test_no_list(self):
        with pytest.raises(
            ValueError, match=r"series\[0\] must be a list of derivatives for each leaf of primals\[0\]"
        ):
            xpr.taylor(lambda p: p["a"] * p["b"], ({"a": 1.0, "b": 2.0},), ([1.0],))

    def test_no_derivative(self):
        def fun(x):
            return xpr.pure_callback(np.sin, xpr.ShapeDtypeStruct((), "float32"), x)

        with pytest.raises(xpr.errors.UnsupportedRule, match="pure_callback"):
            xpr.taylor(fun, (1.0,), ([1.0, 0.0],))

    def test_an_array_of_integers(self):
        with pytest.raises(
            TypeError, match=r"taylor: x is i32\[2\], which can't vary.*or, to keep it constant, pass the"
        ):
            xpr.taylor(lambda x: jnp.sin(x), (jnp.arange(2),), ([jnp.ones(2), 0.0],))

    def test_no_tuples(self):
        with pytest.raises(TypeError, match=r"`primals` must be a tuple with one value for .*, and is 1\.0\. For a"):
            xpr.taylor(jnp.sin, 1.0, [1.0])
        with pytest.raises(
            TypeError, match=r"`series` must be a tuple with one list of derivatives for .*, and is 1\.0"
        ):
            xpr.taylor(jnp.sin, (1.0,), 1.0)

    def test_no_function(self):
        with pytest.raises(TypeError, match="taylor: Expected a callable value, and got 3"):
            xpr.taylor(3, (1.0,), ([1.0],))


def test_the_rules_of_large_arrays_run_as_programs_of_their_own():
    """What is evaluated at once gives what it gives under jit, in one program for an operation."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(80, 80)), rng.normal(size=(80, 80)) / 9
    weights = weights.astype(np.float32)

    def fun(x):
        y, order = lax.sort((jnp.tanh(x @ weights), lax.broadcasted_iota(np.int32, x.shape, 0)), num_keys=1)
        return jnp.cumsum(y[:, order[0] % 80], 1) * jnp.where(y > 0, jnp.exp(y), 1 / (2 - y))

    series = [jnp.asarray(c, np.float32) for c in series_for(x)]
    xpr.clear_caches()
    here = xpr.taylor(fun, (jnp.asarray(x, np.float32),), (series,))
    assert len(_operation.programs) >= 5
    jitted = xpr.jit(lambda x: xpr.taylor(fun, (x,), (series,)))(jnp.asarray(x, np.float32))
    with xpr.disable_jit():
        apart = xpr.taylor(fun, (jnp.asarray(x, np.float32),), (series,))
    for got, want in zip([here[0], *here[1], apart[0], *apart[1]], 2 * [jitted[0], *jitted[1]]):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_large_arrays_go_through_a_product_with_lists_for_parameters():
    x = jnp.ones((70, 70))
    axes = [[1], [0]], [[], []]
    params = {"dimension_numbers": axes, "precision": None, "preferred_element_type": None}
    value, (slope,) = xpr.taylor(lambda x: lax.dot_general_p.bind(x, x, **params), (x,), ([x],))
    assert float(value[0, 0]) == 70 and float(slope[0, 0]) == 140


def test_what_is_one_operation_for_each_coefficient_is_not_compiled():
    """Rows of a large array are taken out by NumPy, where each would be another program."""
    xpr.clear_caches()
    x = jnp.ones((80, 80))
    value, (slope,) = xpr.taylor(lambda x: sum(x[i] for i in range(80)), (x,), ([x],))
    assert float(value[0]) == float(slope[0]) == 80 and not _operation.programs

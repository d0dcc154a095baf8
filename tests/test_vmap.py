"""vmap: axes, sizes, structures, nesting, and messages."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

pytestmark = pytest.mark.quick

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_axes_of_arguments_and_results():
    double = lambda x: 2 * x
    np.testing.assert_array_equal(xpr.vmap(double)(X), 2 * X)
    np.testing.assert_array_equal(xpr.vmap(double, in_axes=1, out_axes=0)(X), 2 * X.T)
    np.testing.assert_array_equal(xpr.vmap(double, in_axes=-1, out_axes=-1)(X), 2 * X)
    np.testing.assert_array_equal(xpr.vmap(lambda x, y: x + y, in_axes=(0, None))(X, X[0]), X + X[0])
    np.testing.assert_array_equal(xpr.vmap(lambda x, y: x + y, in_axes=[0, None])(X, X[0]), X + X[0])


def test_axes_are_pytree_prefixes():
    fun = lambda p, x: {"s": p["w"] * x, "b": p["b"]}
    out = xpr.vmap(fun, in_axes=({"w": 0, "b": None}, 1), out_axes={"s": 1, "b": None})({"w": X[:, 0], "b": 2.0}, X.T)
    np.testing.assert_array_equal(out["s"], (X[:, :1] * X).T)
    assert float(out["b"]) == 2


def test_keyword_arguments_are_mapped_over_axis_0():
    np.testing.assert_array_equal(xpr.vmap(lambda x, *, y: x + y)(X, y=X), 2 * X)


def test_unmapped_results_are_repeated():
    np.testing.assert_array_equal(xpr.vmap(lambda x: 1.0)(X), np.ones(3))
    np.testing.assert_array_equal(xpr.vmap(lambda: jnp.ones(2), axis_size=3)(), np.ones((3, 2)))


def test_axis_size_without_mapped_arguments():
    assert xpr.vmap(lambda x: x, in_axes=None, axis_size=5)(X).shape == (5, 3, 4)


def test_nesting_with_grad_and_jit():
    loss = lambda w, x: jnp.sum(jnp.sin(x * w))
    w = np.ones(4, np.float32)
    per_example = xpr.vmap(xpr.grad(loss), in_axes=(None, 0))
    expected = np.cos(X) * X
    np.testing.assert_allclose(per_example(w, X), expected, rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(per_example)(w, X), expected, rtol=1e-5)
    np.testing.assert_allclose(xpr.vmap(xpr.jit(xpr.grad(loss)), in_axes=(None, 0))(w, X), expected, rtol=1e-5)
    total = xpr.grad(lambda w: jnp.sum(xpr.vmap(loss, in_axes=(None, 0))(w, X)))(w)
    np.testing.assert_allclose(total, expected.sum(0), rtol=1e-5)


def test_vmap_of_vmap():
    outer = xpr.vmap(xpr.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(outer(X[0], X[1]), np.outer(X[0], X[1]))


def test_closed_over_mapped_values():
    np.testing.assert_array_equal(
        xpr.vmap(lambda x: xpr.vmap(lambda y: x * y)(jnp.ones(2)))(X[:, 1]), X[:, 1:2] * np.ones(2)
    )


@pytest.mark.parametrize(
    "call, error, part",
    [
        (
            lambda: xpr.vmap(lambda x, y: x)(np.ones(3, "f4"), np.ones(4, "f4")),
            ValueError,
            "y   f32[4]   4 rows along axis 0",
        ),
        (lambda: xpr.vmap(lambda x: x)(1.0), ValueError, "argument x of <lambda> at test_vmap.py"),
        (lambda: xpr.vmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "in_axes has 2 entries"),
        (lambda: xpr.vmap(lambda x: x, in_axes=None)(X), ValueError, "axis_size=n"),
        (lambda: xpr.vmap(lambda x: x, out_axes=None)(X), ValueError, "out_axes is None for a result"),
        (lambda: xpr.vmap(lambda x: (x, {"a": x}), out_axes=(0, None))(X), ValueError, "at vmap out_axes[1]['a']"),
        (lambda: xpr.vmap(lambda x: x, out_axes=5)(X), ValueError, "out_axes=5 is out of range"),
        (lambda: xpr.vmap(lambda x: x, in_axes=({"a": 0},))({"b": X}), ValueError, "vmap in_axes"),
        (
            lambda: xpr.vmap(lambda x: x, in_axes=1.5),
            TypeError,
            "vmap in_axes must be an int or None for all arguments, or a tuple",
        ),
        (
            lambda: xpr.vmap(lambda x: x, in_axes=(1.0,)),
            TypeError,
            "vmap in_axes must be an int, None, or a tree of these",
        ),
        (
            lambda: xpr.vmap(lambda x: x, in_axes=({"a": True},)),
            TypeError,
            "vmap in_axes must be an int, None, or a tree",
        ),
        (lambda: xpr.vmap(lambda x: x, out_axes=(0, "b")), TypeError, "vmap out_axes must be an int, None, or a tree"),
        (lambda: xpr.vmap(3), TypeError, "vmap: Expected a callable value, and got 3"),
        (lambda: xpr.vmap(lambda x: x, axis_size=2)(X), ValueError, "axis_size=2"),
        (lambda: xpr.vmap(lambda x: x, None, axis_size="a")(X), TypeError, "vmap: axis_size is the number of rows, an"),
        (lambda: xpr.vmap(lambda x: x, None, axis_size=jnp.int32(2))(X), TypeError, "and is Array(2, dtype=int32) of"),
        (
            lambda: xpr.vmap(lambda x: x, None, axis_size=-1)(X),
            ValueError,
            "axis_size is the number of rows, and is -1",
        ),
    ],
)
def test_messages(call, error, part):
    with pytest.raises(error) as caught:
        call()
    assert part in str(caught.value)


def test_arguments_that_are_not_mapped_may_be_any_objects():
    x = jnp.array([1.0, 2.0])
    apply = lambda fun, x, options: fun(x) * options["scale"] if options["name"] else x
    options = {"scale": 2.0, "name": "sin"}
    mapped = xpr.vmap(apply, in_axes=(None, 0, None))
    np.testing.assert_allclose(mapped(jnp.sin, x, options), 2 * np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(xpr.jit(lambda x: mapped(jnp.sin, x, options))(x), 2 * np.sin(x), rtol=1e-6)
    by_leaf = xpr.vmap(lambda d: d["x"] * len(d["name"]), in_axes=({"x": 0, "name": None},))
    np.testing.assert_array_equal(by_leaf({"x": x, "name": "abc"}), 3 * x)
    same = xpr.vmap(lambda x, name, y: (x, len(name) * y), in_axes=(0, None, None), out_axes=(0, None))
    assert float(same(x, "abc", 2.0)[1]) == 6
    with pytest.raises(TypeError, match=r"argument name of <lambda> .* has no rows(.|\n)*'abc'(.|\n)*in_axes=None"):
        xpr.vmap(lambda x, name: x)(x, "abc")


def test_the_documentation_says_that_the_function_is_vectorized():
    def f(x):
        """Adds one."""
        return x + 1

    text = "Vectorized version of f, whose mapped arguments and results have an additional axis each."
    assert xpr.vmap(f).__doc__ == f"{text}\n\nOriginal documentation:\n\nAdds one."
    assert xpr.vmap(lambda x: x).__doc__ == text.replace(" f,", " <lambda>,")


def test_the_index_of_a_row_in_loops_and_branches():
    def f(x):
        total, _ = lax.scan(lambda c, n: (c + n + lax.axis_index("i"), None), 0, jnp.arange(4))
        steps = lax.while_loop(lambda c: c < lax.axis_index("i") + 3, lambda c: c + 1, 0)
        return total, steps, lax.cond(x > 1, lambda: 7, lambda: lax.axis_index("i"))

    total, steps, either = xpr.vmap(f, axis_name="i")(jnp.arange(3.0))
    assert total.tolist() == [6, 10, 14] and steps.tolist() == [3, 4, 5] and either.tolist() == [0, 1, 7]


def test_scalars_selected_by_a_vector():
    """As in JAX, whose rule takes what its unmapped operation refuses; jaxmarl's environments rely on it."""
    select = lambda x: lax.select(x <= 2, 1.0, -1.0)
    assert xpr.vmap(select)(jnp.array([[1.0, 3.0], [4.0, 2.0]])).tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    assert xpr.vmap(select, in_axes=1, out_axes=1)(jnp.array([[1.0, 3.0, 2.0]])).tolist() == [[1.0, -1.0, 1.0]]
    with pytest.raises(TypeError, match="the selector must be a scalar or have the cases' shape"):
        select(jnp.ones(2))


def test_what_is_not_mapped_is_given_as_it_is():
    def f(x, y):
        return x + y, y * 2.0

    mapped, same = xpr.vmap(f, in_axes=(0, None), out_axes=(0, None))(jnp.arange(2.0), 4.0)
    assert type(same) is float and same == 8
    np.testing.assert_array_equal(mapped, [4, 5])

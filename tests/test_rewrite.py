"""Pattern rewriting: what matches, what it is replaced by, and what is wrong with a rule."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import primitive_names
from tests.jaxpr_rows import random_program
from tests.test_passes import assert_same
from xpr import core, lax
from xpr.jaxpr import Rule, rewrite

pytestmark = pytest.mark.quick

LOG_EXP = (lambda x: jnp.log(jnp.exp(x)), lambda x: x)


def rewritten(rules, fun, *args):
    """The rewritten program, checked; rewriting it again changes nothing."""
    closed = xpr.make_jaxpr(fun)(*args)
    smaller = rewrite(rules)(closed)
    assert_same(closed, smaller, *xpr.tree.leaves(args))
    assert str(rewrite(rules)(smaller)) == str(smaller)
    return smaller


@pytest.fixture(autouse=True)
def in_64_bits():
    with xpr.enable_x64(True):
        yield


def test_everywhere_and_for_every_type():
    def f(x, y):
        return jnp.log(jnp.exp(x)) + jnp.log(jnp.exp(jnp.log(jnp.exp(y))))

    closed = rewritten([LOG_EXP], f, np.ones(3), 2.0)
    assert primitive_names(closed) == ["convert_element_type", "add"] or primitive_names(closed) == ["add"]


def test_in_a_program_of_many_types():
    """Too many for all combinations: those are tried that operands near each other have."""

    def f(xs):
        return [jnp.log(jnp.exp(x)) * 2.0 + x * x[:1] for x in xs]

    rules = [LOG_EXP, (lambda x, y: x * y, lambda x, y: y / (1 / x))]
    closed = rewritten(rules, f, [np.arange(1.0, n) for n in range(3, 15)])
    assert not {"exp", "log", "mul"} & set(primitive_names(closed))


def test_in_either_order():
    rule = (lambda x, y, z: x * y + x * z, lambda x, y, z: x * (y + z))
    for f in (
        lambda x, y, z: x * y + x * z,
        lambda x, y, z: y * x + x * z,
        lambda x, y, z: z * x + x * y,
        lambda x, y, z: y * x + z * x,
    ):
        new = rewritten([rule], f, np.ones(3), np.full(3, 2.0), np.full(3, 4.0))
        assert sorted(primitive_names(new)) == ["add", "mul"]


def test_an_argument_that_occurs_twice_is_one_thing():
    rule = (lambda x: x * x, jnp.square)
    assert primitive_names(rewritten([rule], lambda x, y: (x * x, x * y), np.ones(3), np.ones(3))) == ["square", "mul"]
    nothing = (lambda x: x - x, jnp.zeros_like)
    assert primitive_names(rewritten([nothing], lambda x: (x + 1.0) - (x + 1.0), np.ones(3))) == ["add", "add", "sub"]
    assert primitive_names(rewritten([nothing], lambda x: x - x, np.ones(3))) == ["broadcast_in_dim"]


def test_literals():
    rules = [(lambda x: x * 1.0, lambda x: x), (lambda x: x + 0.0, lambda x: x)]
    assert primitive_names(rewritten(rules, lambda x: (1.0 * x + 0.0) * 2.0, np.ones(3))) == ["mul"]
    assert len(rewritten(rules, lambda x: x * -1.0 + -0.0, np.ones(3)).eqns) == 2


def test_constants():
    mask = np.array([1.0, 0.0, 1.0])
    rule = (lambda x: x * jnp.asarray(mask), lambda x: x + jnp.asarray(mask) - 1.0)
    closed = xpr.make_jaxpr(lambda x: (x * jnp.asarray(mask), x * jnp.ones(3)))(np.ones(3))
    assert primitive_names(rewrite([rule])(closed)).count("mul") == 1
    other = xpr.make_jaxpr(lambda x: x * jnp.asarray(mask + 1))(np.ones(3))
    assert primitive_names(rewrite([rule])(other)) == ["mul"]


def test_parameters_and_shapes():
    rule = (lambda a, b: a.T @ b.T, lambda a, b: (b @ a).T)
    closed = rewritten([rule], lambda a, b: jnp.sin(a.T @ b.T), np.ones((3, 2)), np.ones((4, 3)))
    assert primitive_names(closed) == ["dot_general", "transpose", "sin"]
    sums = (lambda x: jnp.sum(x, 0), lambda x: jnp.ones(x.shape[0], x.dtype) @ x)
    closed = rewritten([sums], lambda x: (jnp.sum(x, 0), jnp.sum(x, 1)), np.ones((3, 2)))
    assert "dot_general" in primitive_names(closed) and primitive_names(closed).count("reduce_sum") == 1


def test_to_a_fixpoint():
    """What a rule gives is rewritten again, and so is what reads it."""
    rules = [
        (lambda x: jnp.sinh(x), lambda x: (jnp.exp(x) - jnp.exp(-x)) / 2),
        (lambda x: jnp.exp(-x), lambda x: 1 / jnp.exp(x)),
        (lambda x: jnp.log(jnp.exp(x)), lambda x: x),
        (lambda x: 1 / (1 / x), lambda x: x),
    ]
    closed = rewritten(rules, lambda x: (jnp.sinh(x), jnp.log(1 / jnp.exp(-x))), np.full(3, 0.5))
    assert not {"sinh", "neg", "log"} & set(primitive_names(closed))


def test_the_first_rule_wins():
    rules = [(lambda x: jnp.sin(x), lambda x: jnp.cos(x)), (lambda x: jnp.sin(x), lambda x: jnp.tan(x))]
    assert primitive_names(rewrite(rules)(xpr.make_jaxpr(jnp.sin)(1.0))) == ["cos"]


def test_guards():
    by_literal = Rule(lambda x, y: x * y, lambda x, y: y + x, lambda x, y: isinstance(y, core.Literal) and y.val == 3)
    closed = rewrite([by_literal])(xpr.make_jaxpr(lambda x: x * 3.0 + x * 2.0 + x * x)(1.0))
    assert primitive_names(closed) == ["add", "mul", "add", "mul", "add"]
    small = Rule(jnp.sin, lambda x: x, lambda x: x.aval.ndim == 0)
    assert primitive_names(
        rewrite([small])(xpr.make_jaxpr(lambda x, y: (jnp.sin(x), jnp.sin(y)))(1.0, np.ones(2)))
    ) == ["sin"]


def test_inside_loops_branches_and_calls():
    def f(x):
        x = lax.fori_loop(0, 3, lambda i, y: jnp.log(jnp.exp(y)) * 0.5, x)
        x = lax.cond(x > 0, lambda: jnp.log(jnp.exp(x)), lambda: x)
        return xpr.jit(lambda y: jnp.log(jnp.exp(y)))(x)

    assert not {"log", "exp"} & set(primitive_names(rewritten([LOG_EXP], f, np.asarray(1.0))))


def test_control_flow_in_patterns():
    rule = (lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2.0, x), lambda x: x * 8.0)
    assert primitive_names(rewritten([rule], lambda x: lax.fori_loop(0, 3, lambda i, z: z * 2.0, x), np.ones(3))) == [
        "mul"
    ]
    assert "mul" in primitive_names(
        rewrite([rule])(xpr.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, z: z * 3.0, x))(1.0))
    )


def test_one_of_several_results():
    rule = (lambda x: lax.top_k(x, 1)[0], lambda x: jnp.max(x, -1, keepdims=True))
    closed = rewritten([rule], lambda x: lax.top_k(x, 1)[0], np.arange(3.0))
    assert "top_k" not in primitive_names(closed)
    both = rewritten([rule], lambda x: lax.top_k(x, 1), np.arange(3.0))
    assert "top_k" in primitive_names(both)


def test_effects_and_lines():
    def f(x):
        y = jnp.log(jnp.exp(x))
        xpr.debug.print("{}", y)
        return y + 1.0

    closed = rewrite([(lambda x: jnp.log(jnp.exp(x)), lambda x: x * 1.0)])(xpr.make_jaxpr(f)(1.0))
    assert len(closed.eqns) == 3
    assert all(eqn.source is not None and eqn.source[0].co_name == "f" for eqn in closed.eqns)


def test_weak_types_stay():
    closed = rewrite([(lambda x: jnp.sin(x), lambda x: jnp.asarray(2.0, x.dtype))])(xpr.make_jaxpr(jnp.sin)(1.0))
    assert closed.out_avals[0].weak_type


class TestMessages:
    def test_types(self):
        rule = (lambda x: jnp.sin(x), lambda x: jnp.sum(x))
        with pytest.raises(TypeError) as error:
            rewrite([rule])(xpr.make_jaxpr(jnp.sin)(np.ones(3)))
        assert "pattern       f64[3]" in str(error.value)
        assert "replacement   f64[]" in str(error.value)
        assert "test_rewrite.py" in str(error.value)

    def test_no_rule(self):
        with pytest.raises(TypeError, match="a rule is a pattern and a replacement, two functions; got 3"):
            rewrite([3])
        with pytest.raises(TypeError, match="take the same arguments; .* takes 1, .* takes 2"):
            rewrite([(lambda x: x, lambda x, y: x)])
        with pytest.raises(TypeError, match="the guard of a rule is a function of the matched atoms; got 3"):
            rewrite([(jnp.sin, jnp.cos, 3)])
        with pytest.raises(TypeError, match="Python has no signature of min, which says how many arguments a pattern"):
            rewrite([(min, jnp.cos)])

    def test_patterns_that_say_nothing(self):
        with pytest.raises(ValueError, match="computes nothing to look for"):
            rewrite([(lambda x: x, lambda x: x)])(xpr.make_jaxpr(jnp.sin)(1.0))
        with pytest.raises(ValueError, match="does not use its argument unused"):
            rewrite([(lambda x, unused: jnp.sin(x), lambda x, y: x)])(xpr.make_jaxpr(jnp.sin)(1.0))

    def test_rules_without_end(self):
        rules = [(lambda x, y: x + y, lambda x, y: y + x)]
        with pytest.raises(ValueError, match="Rules must not undo each other"):
            rewrite(rules)(xpr.make_jaxpr(jnp.add)(1.0, 2.0))

    def test_arrays_inside_loops(self):
        rule = (lambda x: jnp.sin(x), lambda x: x * jnp.asarray(np.arange(3.0)))
        closed = xpr.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y), x))(np.ones(3))
        with pytest.raises(ValueError, match="has no constants"):
            rewrite([rule])(closed)


RULES = [
    (lambda x, y: x * y, lambda x, y: lax.neg(lax.mul(lax.neg(x), y)), lambda x, y: False),
    (lambda x: jnp.tanh(x), lambda x: jnp.sinh(x) / jnp.cosh(x)),
    (lambda x: lax.neg(lax.neg(x)), lambda x: x),
    (lambda x, y: x - y, lambda x, y: x + lax.neg(y)),
    (lambda x: lax.sin(x), lambda x: lax.cos(x - 0.5 * np.pi)),
]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    closed, arrays = random_program(seed)
    smaller = rewrite(RULES)(closed)
    assert_same(closed, smaller, *arrays)
    assert not {"tanh", "sub", "sin"} & set(primitive_names(smaller))
    assert str(rewrite(RULES)(smaller)) == str(smaller)

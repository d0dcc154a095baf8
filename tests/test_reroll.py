"""Rerolling: layers written out become loops, exactly."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import primitive_names
from tests.jaxpr_rows import random_program
from tests.test_passes import assert_same
from xpr import lax
from xpr.compile.repeats import repetitions
from xpr.passes.structure import EquationNumbers

LAYERS = 12
RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(4, 4)) / 3 for _ in range(LAYERS)]
BIASES = [RNG.normal(size=4) for _ in range(LAYERS)]
X = np.ones((2, 4))


@pytest.fixture(autouse=True)
def in_64_bits():
    with xpr.enable_x64(True):
        yield


def rolled(fun, *args, least=4):
    """The rerolled program, checked."""
    closed = xpr.make_jaxpr(fun)(*args)
    smaller = xpr.jaxpr.reroll(closed, least)
    assert_same(closed, smaller, *xpr.tree.leaves(args))
    assert str(xpr.jaxpr.reroll(smaller.replace(jaxpr=smaller.jaxpr.replace()), least)) == str(smaller)
    return smaller


def loops(closed):
    return [eqn for eqn in closed.eqns if eqn.primitive.name == "scan"]


def network(weights, biases, x):
    for w, b in zip(weights, biases, strict=True):
        x = x + jnp.tanh(x @ w + b)
    return jnp.sum(x**2)


def test_layers_with_parameters_of_their_own():
    (loop,) = loops(rolled(network, WEIGHTS, BIASES, X))
    assert loop.params["length"] == LAYERS
    assert (loop.params["num_consts"], loop.params["num_carry"], len(loop.invars)) == (0, 1, 3)


def test_layers_that_are_rows_of_arrays_need_no_copies():
    def f(weights, biases, x):
        return network(list(weights), [biases[i] for i in range(LAYERS)], x)

    smaller = rolled(f, np.stack(WEIGHTS), np.stack(BIASES), X)
    assert [eqn.primitive.name for eqn in smaller.eqns] == ["scan", "integer_pow", "reduce_sum"]


def test_part_of_the_rows_backwards():
    def f(weights, x):
        for i in range(LAYERS - 2, 1, -1):
            x = jnp.tanh(x @ weights[i])
        return x

    smaller = rolled(f, np.stack(WEIGHTS), X)
    assert [eqn.primitive.name for eqn in smaller.eqns] == ["slice", "rev", "scan"]


def test_both_passes_of_a_gradient():
    smaller = rolled(xpr.grad(network, (0, 1, 2)), WEIGHTS, BIASES, X)
    assert len(loops(smaller)) == 2
    assert primitive_names(smaller).count("dot_general") <= 4


def test_the_gradient_of_a_rerolled_function():
    expected = xpr.grad(network, (0, 1, 2))(WEIGHTS, BIASES, X)
    found = xpr.jit(xpr.grad(xpr.reroll(network), (0, 1, 2)))(WEIGHTS, BIASES, X)
    for a, b in zip(xpr.tree.leaves(expected), xpr.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_shared_parameters_are_constants():
    def f(w, x):
        for i in range(LAYERS):
            x = jnp.tanh(x @ w) * (0.5 + i)
        return x

    (loop,) = loops(rolled(f, WEIGHTS[0], X))
    assert (loop.params["num_consts"], loop.params["num_carry"], len(loop.invars)) == (1, 1, 3)


def test_intermediate_results_are_stacked():
    def f(x):
        kept = []
        for _ in range(LAYERS):
            x = jnp.sin(x) * 0.5 + x * x
            kept.append(x)
        return x, kept[2], kept[5]

    (loop,) = loops(rolled(f, X))
    assert len(loop.outvars) == 2


def test_state_of_several_parts():
    def f(x, y):
        for _ in range(LAYERS):
            x, y = jnp.sin(x) + y, x * 0.5
        return x, y

    (loop,) = loops(rolled(f, X, X))
    assert loop.params["num_carry"] == 2


@pytest.mark.parametrize("steps", [LAYERS, LAYERS + 1])
def test_state_from_two_steps_before(steps):
    """A group is then two steps, and what is left of an odd number stays."""

    def f(x, y):
        for _ in range(steps):
            x, y = jnp.sin(x) + y, x
        return x, y

    (loop,) = loops(rolled(f, X, 2 * X))
    assert (loop.params["length"], loop.params["num_carry"]) == (LAYERS // 2, 2)


def test_state_that_the_next_layer_alone_reads():
    """Groups begin where little passes between them, which what reads it in the next group says."""

    def f(x, ws):
        r = jnp.cos(ws[0])
        for i in range(1, LAYERS):
            x = x + r
            r = jnp.sin(ws[i])
        return x * r

    assert len(loops(rolled(f, np.ones(3), np.ones((LAYERS, 3))))) == 1

    def g(x, y):
        for _ in range(10):
            x = x + x
            y = jnp.exp(-y * y)
        return x, y

    assert primitive_names(rolled(g, np.ones(3), np.ones(3))) == ["scan", "add", "neg", "mul", "exp"]


def test_more_periods_than_are_followed_at_once():
    def f(x):
        for period in range(2, 90):
            for _ in range(6):
                for _ in range(period - 1):
                    x = jnp.sin(x)
                x = jnp.cos(x + 1.0)
            x = jnp.tanh(jnp.exp(jnp.tanh(jnp.tanh(x))))
        return x

    closed = xpr.make_jaxpr(f)(np.ones(2))
    smaller = xpr.jaxpr.reroll(closed)
    assert len(smaller.eqns) == 440
    assert len(xpr.jaxpr.reroll(smaller.replace(jaxpr=smaller.jaxpr.replace())).eqns) == 440


def test_calls_of_many_results():
    many = xpr.jit(lambda *xs: [jnp.sin(x) for x in (*xs[1:], xs[0])])

    def f(*xs):
        for _ in range(10):
            xs = many(*xs)
        return xs

    (loop,) = loops(rolled(f, *map(float, range(40))))
    assert loop.params["num_carry"] == 40


def test_layers_that_differ_end_a_loop():
    def f(x):
        for i in range(3 * LAYERS):
            x = jnp.sin(x) * x + 1.0
            if i % LAYERS == LAYERS - 1:
                x = jnp.cosh(x * 0.1)
        return x

    smaller = rolled(f, X)
    assert len(loops(smaller)) == 3 and len(smaller.eqns) == 9


def test_wiring_counts():
    """Equal equations on other operands are no loop."""

    def f(x, y):
        for i in range(LAYERS):
            x, y = (jnp.sin(x) + y, x) if i % 3 else (jnp.sin(y) + x, y)
        return x, y

    assert len(rolled(f, X, X).eqns) <= 2 * LAYERS


def test_layers_inside_layers():
    def f(x):
        for _ in range(LAYERS):
            for _ in range(5):
                x = jnp.sin(x) + x * 0.5
            x = jnp.cosh(x * 0.1)
        return x

    (loop,) = loops(rolled(f, X))
    assert primitive_names(rolled(f, X)).count("sin") == 1
    assert loop.params["length"] == LAYERS


def test_inside_calls_and_with_calls():
    layer = xpr.jit(lambda x: jnp.sin(x) * x + 1.0)

    @xpr.jit
    def f(x):
        for _ in range(LAYERS):
            x = layer(x) - 0.5
        return x

    smaller = rolled(f, X)
    assert [eqn.primitive.name for eqn in smaller.eqns] == ["xla_call"]
    assert primitive_names(smaller).count("sin") == 1


def test_layers_that_hold_loops_of_their_own():
    def f(x):
        for _ in range(LAYERS):
            x = lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + 1.0, x) * x
        return x

    smaller = rolled(f, X)
    assert primitive_names(smaller).count("sin") == 1


def test_effects_are_left_alone():
    def f(x):
        for _ in range(LAYERS):
            x = jnp.sin(x) * x
            xpr.debug.print("{}", x[0, 0])
        return x

    assert not loops(xpr.jaxpr.reroll(xpr.make_jaxpr(f)(X)))


def test_what_is_no_chain_is_left_alone():
    f = lambda *xs: [jnp.sin(x) * x + 1.0 for x in xs]
    assert not loops(rolled(f, *[X] * LAYERS))


def test_few_repetitions_are_left_alone():
    def f(x):
        for _ in range(3):
            x = jnp.sin(x) * x
        return x

    assert not loops(rolled(f, X))
    assert len(loops(rolled(f, X, least=3))) == 1
    with pytest.raises(ValueError, match="`least` must be 3 or more"):
        xpr.jaxpr.reroll(xpr.make_jaxpr(f)(X), 2)
    with pytest.raises(TypeError, match="reroll: Expected a callable value, and got 3"):
        xpr.reroll(3)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_in_a_row(seed):
    """A random program five times, each time on what it gave before."""
    closed, arrays = random_program(seed)

    def f(*xs):
        for _ in range(5):
            xs = [jnp.tanh(x) for x in xpr.core.eval_jaxpr(closed.jaxpr, closed.consts, *xs)]
        return xs

    smaller = rolled(f, *arrays)
    assert loops(smaller), "it repeats"


def test_numbers_of_calls():
    """Equal functions have one number, whether they are one object or two, and those with an effect are like none."""
    sine = lambda: xpr.jit(lambda x: jnp.sin(x))
    same, prints = sine(), xpr.jit(lambda x: (xpr.debug.print("{}", x), x)[1])
    eqns = xpr.make_jaxpr(lambda x: prints(prints(same(same(sine()(jnp.sin(x)))))))(1.0).eqns
    numbers = EquationNumbers()
    first, a, b, c, d, e = numbers.of(eqns)
    assert a == b == c and len({first, a, d, e}) == 4
    assert list(numbers.of(eqns[::-1])) == [e, d, c, b, a, first]
    assert len(set(numbers.of(xpr.make_jaxpr(lambda x: xpr.jit(lambda y: jnp.cos(y))(x))(1.0).eqns)) & {a}) == 0


def test_stretches():
    symbols = np.array([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 9, 4, 4, 4, 4])
    assert repetitions(symbols, 3) == [(1, 11, 3), (12, 16, 1)]
    assert repetitions(np.arange(10), 3) == []
    assert repetitions(np.zeros(0, int), 3) == []


class TestAsACompilerOption:
    """`reroll` beside XLA's own options."""

    def test_the_program_is_a_loop(self):
        step = xpr.jit(xpr.grad(network, argnums=2), compiler_options={"reroll": True})
        assert len(loops(step.trace(WEIGHTS, BIASES, X).jaxpr)) == 2
        np.testing.assert_allclose(step(WEIGHTS, BIASES, X), xpr.grad(network, argnums=2)(WEIGHTS, BIASES, X))
        outer = xpr.make_jaxpr(lambda x: step(WEIGHTS, BIASES, x))(X)
        assert len(loops(outer.eqns[-1].params["call_jaxpr"])) == 2

    def test_donated_and_static_arguments(self):
        step = xpr.jit(
            lambda weights, n, x: network(weights, BIASES[:n], x) * x,
            compiler_options={"reroll": True}, static_argnums=1, donate_argnums=2,
        )  # fmt: skip
        x = jnp.array(X)
        np.testing.assert_allclose(step(WEIGHTS[:6], 6, x), network(WEIGHTS[:6], BIASES[:6], X) * X)
        assert x.is_deleted()

    def test_it_is_no_other_function_s(self):
        plain, loop = xpr.jit(network), xpr.jit(network, compiler_options={"reroll": True})
        off = xpr.jit(network, compiler_options={"reroll": False})
        for fun, count in ((plain, 0), (loop, 1), (off, 0)):
            assert len(loops(fun.trace(WEIGHTS, BIASES, X).jaxpr)) == count

    def test_other_options_pass_on(self):
        both = xpr.jit(network, compiler_options={"reroll": True, "xla_embed_ir_in_executable": True})
        np.testing.assert_allclose(both(WEIGHTS, BIASES, X), network(WEIGHTS, BIASES, X))
        with pytest.raises(ValueError, match="xla_no_such_option"):
            xpr.jit(network, compiler_options={"reroll": True, "xla_no_such_option": 1})(WEIGHTS, BIASES, X)

    def test_what_it_may_be(self):
        with pytest.raises(ValueError, match="the compiler option 'reroll' must be True or False, and is 3"):
            xpr.jit(network, compiler_options={"reroll": 3})
        with pytest.raises(
            ValueError, match="the program is lowered already; give the compiler option 'reroll' to jit"
        ):
            xpr.jit(network).lower(WEIGHTS, BIASES, X).compile({"reroll": True})

"""Passes over jaxprs: what they make of small programs, and that they keep the meaning of random ones."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, primitive_names
from tests.ops import table
from tests.ops.case import Case, has_numpy_rules
from xpr import core, lax
from xpr.compile.reference import reference_eval
from xpr.passes.disjoint_sums import disjoint_sums

pytestmark = pytest.mark.quick


def value(closed, *args):
    return reference_eval(closed.jaxpr, closed.consts, *args)


def assert_same(before, after, *args):
    """The pass gave a well typed program of the same type and meaning."""
    core.check_jaxpr(after)
    assert [a.str_short() for a in after.in_avals] == [a.str_short() for a in before.in_avals]
    assert [a.str_short() for a in after.out_avals] == [a.str_short() for a in before.out_avals]
    for x, y in zip(value(before, *args), value(after, *args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


class TestDeadCode:
    def test_what_nothing_reads_goes(self):
        closed = xpr.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x) * jnp.array([1.0, 2.0]))[0])(1.0)
        assert str(xpr.jaxpr.dce(closed)) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"

    def test_arguments_stay(self):
        assert str(xpr.jaxpr.dce(xpr.make_jaxpr(lambda x, y: y)(1.0, 2))) == "{ lambda ; a:f32[] b:i32[]. let in (b,) }"

    def test_inside_calls_loops_and_branches(self):
        @xpr.jit
        def called(x):
            return jnp.sin(x), jnp.cos(x)

        def loop(x):
            body = lambda c, row: ((c[0] + row, c[1] * 2.0), (jnp.tan(row), jnp.exp(row)))
            (a, b), (c, d) = lax.scan(body, (0.0, 1.0), x)
            return lax.cond(a > 0, lambda: (a, jnp.sinh(b)), lambda: (c[0], jnp.cosh(b)))[0]

        closed = xpr.make_jaxpr(lambda x: called(x)[0] + loop(x))(jnp.arange(3.0))
        smaller = xpr.jaxpr.dce(closed)
        assert_same(closed, smaller, np.arange(3.0, dtype=np.float32))
        assert not {"cos", "exp", "sinh", "cosh"} & set(primitive_names(smaller))
        assert {"sin", "tan"} <= set(primitive_names(smaller))

    def test_a_function_that_is_called_twice_stays_one(self):
        called = xpr.jit(lambda x: (jnp.sin(x), jnp.cos(x)))
        smaller = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x: called(called(x)[0])[0])(1.0))
        first, second = (eqn.params["call_jaxpr"] for eqn in smaller.eqns)
        assert first is second and len(first.outvars) == 1

    def test_what_is_all_read_stays_what_it_is(self):
        called = xpr.jit(lambda x, y: jnp.sin(x) * y)
        closed = xpr.make_jaxpr(lambda x: called(called(x, 2.0), x))(1.0)
        assert xpr.jaxpr.dce(closed).jaxpr is closed.jaxpr
        ignores = xpr.jit(lambda x, y: jnp.sin(x))
        (eqn,) = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x: ignores(x, jnp.cos(x)))(1.0)).eqns
        assert len(eqn.invars) == 1, "what a called function does not read is not computed"

    def test_effects_stay(self):
        def f(x):
            xpr.debug.print("{}", jnp.sin(x))
            xpr.jit(lambda y: xpr.debug.print("{}", y))(jnp.cos(x))
            return x

        closed = xpr.make_jaxpr(f)(1.0)
        assert primitive_names(xpr.jaxpr.dce(closed)) == primitive_names(closed)


class TestCommonSubexpressions:
    def test_in_either_order(self):
        closed = xpr.make_jaxpr(lambda x, y: (x + y) * (y + x) - (x - y) * (y - x))(1.0, 2.0)
        assert primitive_names(xpr.jaxpr.cse(closed)) == ["add", "mul", "sub", "sub", "mul", "sub"]

    def test_literals_are_distinguished(self):
        closed = xpr.make_jaxpr(lambda x: (x * 1.0, x * 1.0, x * -0.0, x * 0.0, x * np.float32(1)))(1.0)
        assert len(xpr.jaxpr.cse(closed).eqns) == len(closed.eqns) - 1

    def test_parameters_are_distinguished(self):
        closed = xpr.make_jaxpr(lambda x: (jnp.sum(x, 0), jnp.sum(x, 1), jnp.sum(x, 0)))(np.ones((2, 2)))
        assert len(xpr.jaxpr.cse(closed).eqns) == 2

    def test_results_may_be_the_same_variable(self):
        closed = xpr.jaxpr.cse(xpr.make_jaxpr(lambda x: (jnp.sin(x), jnp.sin(x)))(1.0))
        assert str(closed) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b, b) }"

    def test_effects_are_all_done(self):
        def f(x):
            xpr.debug.print("{}", x)
            xpr.debug.print("{}", x)
            return x

        assert len(xpr.jaxpr.cse(xpr.make_jaxpr(f)(1.0)).eqns) == 2

    def test_inside_loops_and_calls(self):
        called = xpr.jit(lambda x: jnp.sin(x) + jnp.sin(x))
        closed = xpr.make_jaxpr(lambda x: called(x) + called(x) + lax.fori_loop(0, 3, lambda i, y: y * y + y * y, x))(
            1.0
        )
        assert primitive_names(xpr.jaxpr.cse(closed)).count("sin") == 1
        assert primitive_names(xpr.jaxpr.cse(closed)).count("mul") == 1


class TestConstantFolding:
    def test_the_program_of_the_documentation(self):
        """func6 of JAX's page on jaxprs, as it was in 2020: two constants."""

        def func5(first, second):
            return first + jnp.sin(second) * 3.0 - jnp.ones(8)

        folded = xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda first: func5(first, jnp.ones(8)))(jnp.ones(8)))
        assert str(folded) == (
            "{ lambda a:f32[8] b:f32[8]; c:f32[8]. let\n    d:f32[8] = add c a\n    e:f32[8] = sub d b\n  in (e,) }"
        )
        np.testing.assert_allclose(folded.consts[0], np.full(8, np.sin(1.0) * 3), rtol=1e-6)
        np.testing.assert_array_equal(folded.consts[1], np.ones(8))

    def test_scalars_become_literals(self):
        folded = xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda x: x * (jnp.sqrt(4.0) + 1))(1.0))
        assert str(folded) == "{ lambda ; a:f32[]. let b:f32[] = mul a 3.0 in (b,) }"

    def test_results_that_are_known(self):
        folded = xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda x: (x, jnp.zeros(2), jnp.sqrt(4.0)))(1.0))
        assert str(folded) == "{ lambda a:f32[2]; b:f32[]. let in (b, a, 2.0) }"

    def test_large_results_are_left_to_compute(self):
        closed = xpr.make_jaxpr(lambda x: x + jnp.zeros((100, 100)))(np.float32(1))
        assert len(xpr.jaxpr.fold_constants(closed, largest=1000).eqns) == len(closed.eqns)

    def test_scalars_inside_loops(self):
        closed = xpr.make_jaxpr(
            lambda x: lax.fori_loop(0, 3, lambda i, y: y * (jnp.sqrt(4.0) + jnp.sum(jnp.ones(3))), x)
        )(1.0)
        folded = xpr.jaxpr.fold_constants(closed)
        assert_same(closed, folded, np.float32(2))
        assert "sqrt" in primitive_names(closed) and "sqrt" not in primitive_names(folded)

    def test_effects_stay(self):
        def f(x):
            xpr.debug.print("{}", jnp.sin(1.0))
            return x

        assert "sin" not in primitive_names(xpr.jaxpr.fold_constants(xpr.make_jaxpr(f)(1.0)))
        assert len(xpr.jaxpr.fold_constants(xpr.make_jaxpr(f)(1.0)).eqns) == 1

    def test_arrays_in_calls_lead_their_operands(self):
        inner = xpr.jit(lambda x: x * jnp.square(jnp.arange(3.0)))
        outer = xpr.jit(lambda x: inner(x) + inner(x * jnp.ones(3)))
        closed = xpr.make_jaxpr(lambda x: outer(x) * outer(2 * x))(np.ones(3))
        folded = xpr.jaxpr.fold_constants(closed)
        assert_same(closed, folded, np.linspace(0, 1, 3))
        first, _, second, _ = folded.eqns
        assert first.params["call_jaxpr"] is second.params["call_jaxpr"]
        assert len(folded.consts) == 2 and len(first.invars) == 3
        assert not {"square", "iota", "broadcast_in_dim"} & set(primitive_names(folded))

    def test_arrays_in_loops_stay(self):
        scaled = xpr.jit(lambda c: c * jnp.sin(jnp.ones(3) * jnp.sqrt(4.0)))
        closed = xpr.make_jaxpr(lambda x: lax.scan(lambda c, _: (scaled(c), None), x, None, 3))(np.ones(3))
        folded = xpr.jaxpr.fold_constants(closed)
        assert_same(closed, folded, np.ones(3))
        names = primitive_names(folded)
        assert not folded.consts and "sin" in names and "sqrt" not in names

    def test_under_a_transformation(self):
        """Constants that are traced values are no constants."""

        def f(y):
            closed = xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda x: x * jnp.sin(y))(jnp.ones(2)))
            return jnp.sum(core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.ones(2))[0])

        np.testing.assert_allclose(xpr.grad(f)(1.0), 2 * np.cos(1.0), rtol=1e-6)


class TestInlining:
    def test_calls_at_any_depth(self):
        inner = xpr.jit(lambda x: jnp.sin(x) * 2)
        outer = xpr.jit(lambda x: inner(inner(x)) + 1)
        closed = xpr.make_jaxpr(lambda x: lax.fori_loop(0, 2, lambda i, y: outer(y), x))(1.0)
        flat = xpr.jaxpr.inline_calls(closed)
        assert_same(closed, flat, np.float32(0.5))
        assert "xla_call" in primitive_names(closed) and "xla_call" not in primitive_names(flat)

    def test_rules_stay(self):
        @xpr.custom_jvp
        def f(x):
            return jnp.sin(x)

        f.defjvp(lambda primals, tangents: (f(*primals), 7 * tangents[0]))
        flat = xpr.jaxpr.inline_calls(xpr.make_jaxpr(xpr.jit(lambda x: f(x)))(1.0))
        assert primitive_names(flat) == ["custom_jvp_call", "sin"]
        assert xpr.grad(lambda x: core.jaxpr_as_fun(flat)(x)[0])(1.0) == 7


def joined(halves, known, args):
    """Runs both halves, one after the other."""
    core.check_jaxpr(halves.known)
    core.check_jaxpr(halves.unknown)
    first = value(halves.known, *(x for x, flag in zip(args, known, strict=True) if flag))
    n = sum(halves.out_known)
    assert [(x.shape, x.dtype) for x in first[n:]] == [(a.physical.shape, a.physical.dtype) for a in halves.residuals]
    others = (x for x, flag in zip(args, known, strict=True) if not flag)
    second = value(halves.unknown, *first[n:], *others)
    known_outs, unknown_outs = iter(first[:n]), iter(second)
    return [next(known_outs) if flag else next(unknown_outs) for flag in halves.out_known]


class TestPartialEvaluation:
    def check(self, fun, known, *args):
        closed = xpr.make_jaxpr(fun)(*args)
        halves = xpr.jaxpr.partial_eval(closed, known)
        for x, y in zip(value(closed, *args), joined(halves, known, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)
        return halves

    def test_equations(self):
        halves = self.check(lambda x, y: (jnp.sin(x) * y, jnp.cos(x)), [True, False], np.float32(1), np.float32(2))
        assert str(halves.known) == "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = cos a in (c, b) }"
        assert str(halves.unknown) == "{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }"
        assert halves.out_known == [False, True]

    def test_constants_are_known(self):
        array = jnp.arange(3.0)
        halves = self.check(lambda x: x * jnp.sin(array), [False], np.float32(1))
        assert primitive_names(halves.known) == ["sin"] and len(halves.known.consts) == 1

    def test_calls(self):
        halves = self.check(xpr.jit(lambda x, y: (jnp.sin(x) * y, jnp.cos(x))), [True, False], np.ones(2), np.ones(2))
        assert primitive_names(halves.known) == ["xla_call", "sin", "cos"]
        assert primitive_names(halves.unknown) == ["xla_call", "mul"]

    @pytest.mark.parametrize("index", [0, 1])
    def test_branches(self, index):
        def f(i, x, y):
            return lax.cond(
                i > 0, lambda: (jnp.sin(x) * y, jnp.cos(x), y), lambda: (jnp.exp(jnp.sum(x)) * y, x, jnp.zeros(2))
            )

        args = np.int32(index), np.ones(2, np.float32), np.full(2, 2, np.float32)
        halves = self.check(f, [True, True, False], *args)
        assert {"sin", "exp", "cos"} <= set(primitive_names(halves.known))
        assert not {"sin", "exp", "cos"} & set(primitive_names(halves.unknown))
        assert halves.out_known == [False, True, False]

    def test_a_residual_that_is_a_result_takes_no_slot(self):
        def f(i, x, y):
            return lax.cond(i > 0, lambda: (lambda s: (s, s * y))(jnp.sin(x)), lambda: (x, y))

        halves = self.check(f, [True, True, False], np.int32(1), np.float32(0.3), np.float32(2))
        (choice,) = [eqn for eqn in halves.known.jaxpr.eqns if eqn.primitive.name == "cond"]
        assert len(choice.outvars) == 1
        halves = self.check(lambda *args: f(*args)[1], [True, True, False], np.int32(1), np.float32(0.3), np.float32(2))
        assert "sin" not in primitive_names(halves.unknown)

    def test_branches_by_an_unknown_index_are_not_split(self):
        f = lambda i, x: lax.cond(i > 0, lambda: jnp.sin(x), lambda: x)
        halves = self.check(f, [False, True], np.int32(1), np.float32(2))
        assert primitive_names(halves.known) == []

    @pytest.mark.parametrize("reverse", [False, True])
    def test_scans(self, reverse):
        def f(x, y, rows, others, scale):
            def body(carry, row):
                a, b, c = carry
                known = jnp.sin(a) * scale + row[0]
                return (known, b + c * known * row[1] * row[0] + a, c), (jnp.exp(known), b * row[0] * scale)

            return lax.scan(body, (x, y, 1.0), (rows, others), reverse=reverse)

        args = [np.float32(0.3), np.float32(2), np.arange(3, dtype=np.float32), np.ones(3, np.float32), np.float32(0.5)]
        halves = self.check(f, [True, False, True, False, True], *args)
        assert {"sin", "exp"} <= set(primitive_names(halves.known))
        assert not {"sin", "exp"} & set(primitive_names(halves.unknown))
        assert halves.out_known == [True, False, True, True, False]

    def test_what_does_not_change_from_step_to_step_is_computed_once(self):
        def f(w, x):
            return lax.scan(lambda c, _: (jnp.tanh(jnp.sin(w) * c), jnp.cos(w)), x, None, length=4)

        halves = self.check(f, [True, False], np.ones(3, np.float32), np.ones(3, np.float32))
        assert [a.str_short() for a in halves.residuals] == ["f32[3]"]
        assert halves.out_known == [False, True]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("length", [0, 4])
    def test_the_second_loop_reads_as_few_stacks_as_will_do(self, reverse, length):
        """A result in every step is no further stack; what is cheap to compute from it is computed again."""

        def f(h, n, rows):
            def body(carry, x):
                h, n = carry
                after = jnp.sin(n) + x
                return (h * (after * 2 + 1) + n, after), (h, after)

            return lax.scan(body, (h, n), rows, reverse=reverse)

        halves = self.check(f, [False, True, True], np.float32(2), np.float32(0.5), np.ones(length, np.float32))
        loop = next(eqn for eqn in halves.known.jaxpr.eqns if eqn.primitive.name == "scan")
        assert [v.aval.shape for v in loop.outvars] == [(), (length,), (length,)]
        assert primitive_names(halves.unknown) == ["scan", "mul", "add", "mul", "add"]

    def test_a_result_that_nothing_reads_can_be_a_residual(self):
        def f(x, n, rows):
            def body(n, row):
                after = jnp.sin(n) + row
                return after, after

            return lax.scan(lambda c, row: ((c[0] * body(c[1], row)[0], body(c[1], row)[0]), c[1]), (x, n), rows)[0][0]

        halves = self.check(f, [False, True, True], np.float32(2), np.float32(0.5), np.ones(4, np.float32))
        assert "sin" not in primitive_names(halves.unknown)

    def test_a_loop_that_ends_early(self):
        def f(x, n, rows):
            def body(carry, row):
                x, n = carry
                after = jnp.sin(n) + row
                return (x * (after * 2 + n), after), x

            return lax.scan(body, (x, n), rows, until=lambda carry: carry[1] > 3)

        args = np.float32(2), np.float32(0.5), np.array([0.1, 0.2, 3, 4], np.float32)
        assert "sin" in primitive_names(xpr.make_jaxpr(f)(*args))
        halves = self.check(f, [False, True, True], *args)
        assert "scan_until" not in primitive_names(halves.known)  # it looks at the first carries, of which x is one

    def test_a_carry_that_becomes_unknown(self):
        def f(x, y):
            return lax.scan(lambda c, _: ((c[1], c[2], c[2]), c[0]), (x, x, y), None, length=4)

        halves = self.check(f, [True, False], np.float32(1), np.float32(2))
        assert halves.out_known == [False, False, False, False]

    def test_a_carry_that_is_known_after_a_step_but_not_before(self):
        f = lambda x, y: lax.scan(lambda c, r: (jnp.sin(r), c * 2), y, x)
        self.check(f, [True, False], np.arange(3, dtype=np.float32), np.float32(2))

    def test_while_loops(self):
        def f(n, x):
            return lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], c[2] * 2, c[3] + 1.0), (0, n, x, n))

        halves = self.check(lambda n, x: f(n, x)[:3], [True, False], np.float32(3), np.float32(2))
        assert primitive_names(halves.known).count("while") == 1
        assert halves.out_known == [True, True, False]
        halves = self.check(f, [False, True], np.float32(3), np.float32(2))
        assert primitive_names(halves.known) == []

    def test_a_predicate_that_hands_on_what_it_does_not_use(self):
        def f(n, x):
            constant = xpr.jit(lambda x: 1.0)
            more = lambda c: (constant(c[1]) > 0.25) & (c[0] < 3)
            return lax.while_loop(more, lambda c: (c[0] + 1, jnp.full(3, n)), (0, x))

        halves = xpr.jaxpr.partial_eval(xpr.make_jaxpr(f)(1.0, jnp.zeros(3)), [True, False])
        core.check_jaxpr(halves.known)
        core.check_jaxpr(halves.unknown)

    def test_effects_come_second(self):
        def f(x, y):
            xpr.debug.print("{}", x)
            return jnp.sin(x) * y

        halves = xpr.jaxpr.partial_eval(xpr.make_jaxpr(f)(1.0, 2.0), [True, False])
        assert primitive_names(halves.known) == ["sin"]

    def test_message(self):
        with pytest.raises(ValueError, match="`known` must say of each of the 2 arguments .* has 1 elements"):
            xpr.jaxpr.partial_eval(xpr.make_jaxpr(jnp.add)(1.0, 2.0), [True])
        with pytest.raises(TypeError, match="`known` is a bool for each argument, in a list, and is True of type"):
            xpr.jaxpr.partial_eval(xpr.make_jaxpr(jnp.add)(1.0, 2.0), True)


# -- Laws over random programs

PASSES = {
    "dce": lambda closed: xpr.jaxpr.dce(closed),
    "cse": lambda closed: xpr.jaxpr.cse(closed),
    "fold_constants": lambda closed: xpr.jaxpr.fold_constants(closed),
    "inline_calls": lambda closed: xpr.jaxpr.inline_calls(closed),
    "all": lambda closed: xpr.jaxpr.dce(
        xpr.jaxpr.cse(xpr.jaxpr.fold_constants(xpr.jaxpr.inline_calls(closed)))
    ),
}  # fmt: skip


# -- Laws over the op table


@pytest.mark.parametrize("row", table.ROWS, ids=lambda row: str(row.primitive))
def test_passes_know_every_primitive(row):
    """Each pass gives a well typed program of the same meaning, of each primitive at each sample of its row."""
    for number, sample in enumerate(row.samples):
        try:
            check_passes(Case(row, sample))
        except Exception as error:
            error.add_note(f"{row.primitive}, sample {number}")
            raise


def check_passes(case):
    closed = xpr.make_jaxpr(case.__call__)(*case.operands)
    can_run = has_numpy_rules(closed.jaxpr) and not xpr.jaxpr.effects(closed)
    for made in (PASSES["all"](closed), xpr.jaxpr.reroll(closed), xpr.jaxpr.rewrite(RULES)(closed)):
        core.check_jaxpr(made)
        if can_run:
            close(value(made, *case.operands), value(closed, *case.operands), 1e-6)
    known = [i % 2 == 0 for i in range(len(case.operands))]
    halves = xpr.jaxpr.partial_eval(closed, known)
    if can_run:
        close(joined(halves, known, case.operands), value(closed, *case.operands), 1e-6)
    assert xpr.jaxpr.cost(case.__call__)(*case.operands).flops >= 0


RULES = [(lambda x: jnp.log(jnp.exp(x)), lambda x: x), (lambda x, y: x * y, lambda x, y: y * x, lambda x, y: False)]


class TestWhatIsGiven:
    OF_JAXPRS = (
        "cse dce fold_constants inline_calls reroll equal hash pformat dumps used_variables unused_variables effects "
        "substitute partial_eval to_dot to_svg jaxpr_as_fun"
    ).split()

    @staticmethod
    def applied(name, given):
        more = {"equal": (given,), "substitute": ({},), "partial_eval": ([True],)}.get(name, ())
        return getattr(xpr.jaxpr, name)(given, *more)

    @pytest.mark.parametrize("name", OF_JAXPRS)
    def test_what_is_no_jaxpr(self, name):
        with pytest.raises(TypeError, match=rf"{name} takes a jaxpr, and got the function <lambda> at test_passes.py"):
            self.applied(name, lambda x: x)
        with pytest.raises(TypeError, match=rf"{name} takes a jaxpr, and got 3 of type builtins.int. xpr.make_jaxpr"):
            self.applied(name, 3)

    @pytest.mark.parametrize("name", OF_JAXPRS)
    def test_a_jaxpr_without_constants_is_taken(self, name):
        closed = xpr.make_jaxpr(jnp.sin)(1.0)
        given, wanted = self.applied(name, closed.jaxpr), self.applied(name, closed)
        if not callable(given) and name != "partial_eval":
            assert str(given) == str(wanted)

    @pytest.mark.parametrize("name", "cse dce fold_constants inline_calls reroll partial_eval jaxpr_as_fun".split())
    def test_a_jaxpr_whose_constants_are_left_out(self, name):
        jaxpr = xpr.make_jaxpr(lambda x: x + jnp.array([1.0, 2.0]))(1.0).jaxpr
        with pytest.raises(TypeError, match=rf"{name} takes .* needs values of types f32\[2\]. Close it"):
            self.applied(name, jaxpr)

    def test_of_a_pass_made_by_rewrite_and_of_others(self):
        with pytest.raises(TypeError, match="A pass made by rewrite takes a jaxpr, and got 3"):
            xpr.jaxpr.rewrite([(lambda x: jnp.sin(x), lambda x: x)])(3)
        with pytest.raises(TypeError, match="check_jaxpr takes a jaxpr, and got 3"):
            core.check_jaxpr(3)
        with pytest.raises(TypeError, match="cost takes a function, which it traces, and got 3 of type"):
            xpr.jaxpr.cost(3)


class TestJaxprAsFun:
    def test_all_differences_of_arguments_are_named(self):
        run = xpr.jaxpr.jaxpr_as_fun(xpr.make_jaxpr(lambda x, y, z: (x * 2, y, z))(jnp.ones(3), 1, 2.0))
        with pytest.raises(TypeError, match="the arguments differ from those of the program") as caught:
            run(jnp.ones(4), 1, "a")
        assert str(caught.value).splitlines()[1:-1] == [
            "  argument 0   takes f32[3]       given f32[4]",
            "  argument 2   takes f32[]        given 'a' of type builtins.str",
        ]

    def test_the_number_of_arguments(self):
        run = xpr.jaxpr.jaxpr_as_fun(xpr.make_jaxpr(lambda x, y: x + y)(1.0, 2.0))
        with pytest.raises(TypeError, match=r"argument 1   takes f32\[\]        given nothing"):
            run(1.0)
        with pytest.raises(TypeError, match=r"argument 2   takes nothing      given i32\[\]"):
            run(1.0, 2.0, 3)

    def test_under_transformations(self):
        run = xpr.jaxpr.jaxpr_as_fun(xpr.make_jaxpr(lambda x: x * x)(2.0))
        assert xpr.grad(lambda x: run(x)[0])(3.0) == 6.0
        assert xpr.vmap(run)(jnp.ones(3))[0].shape == (3,)
        with pytest.raises(TypeError, match=r"takes f32\[\]        given f32\[3\]"):
            xpr.jit(run)(jnp.ones(3))


def test_arguments_of_other_kinds():
    closed = xpr.make_jaxpr(jnp.sin)(1.0)
    with pytest.raises(TypeError, match="rewrite takes a list of rules, .* and got 3 of type"):
        xpr.jaxpr.rewrite(3)
    with pytest.raises(TypeError, match="pformat: width is a number of columns, and is 'a'"):
        closed.pformat(width="a")
    with pytest.raises(TypeError, match="parse: constants is a list of values, and is 3"):
        xpr.jaxpr.parse(str(closed), constants=3)
    with pytest.raises(TypeError, match="parse: functions is a dict of functions by name, and is 3"):
        xpr.jaxpr.parse(str(closed), functions=3)
    with pytest.raises(TypeError, match="loads: functions is a dict of functions by name, and is 3"):
        xpr.jaxpr.loads(xpr.jaxpr.dumps(closed), functions=3)
    with pytest.raises(TypeError, match="loads reads what dumps wrote, and got {} of type builtins.dict"):
        xpr.jaxpr.loads({})
    with pytest.raises(IndexError, match="substitute: there is no argument 5; the program takes 1."):
        xpr.jaxpr.substitute(closed, {5: 1.0})


class TestDisjointSums:
    """Cotangents of an array that is read slice by slice."""

    X = np.arange(40000, dtype=np.float32).reshape(8, 5, 1000) / 7000

    def counts(self, f):
        """How many concatenations and paddings the derivative of a sum of functions of slices has after the pass."""
        closed = xpr.make_jaxpr(xpr.grad(lambda x: sum((i + 1) * (a**2).sum() for i, a in enumerate(f(x)))))(self.X)
        smaller = closed.replace(jaxpr=disjoint_sums(closed.jaxpr))
        assert_same(closed, smaller, self.X)
        assert disjoint_sums(closed.jaxpr) is disjoint_sums(closed.jaxpr)
        names = [eqn.primitive.name for eqn in smaller.jaxpr.eqns]
        return names.count("concatenate"), names.count("pad")

    def test_slices_that_are_all_of_it_are_concatenated(self):
        assert self.counts(jnp.unstack) == self.counts(lambda x: jnp.split(x, 4, axis=0)) == (1, 0)
        assert self.counts(lambda x: [x[:, i] for i in (3, 0, 4, 1, 2)]) == (1, 0)

    def test_gaps_are_zero(self):
        assert self.counts(lambda x: [x[1:2], x[5], x[2:4]]) == (1, 3)
        assert self.counts(lambda x: [x[0], x[5], x[7]]) == (1, 2)

    def test_slices_that_overlap_are_in_several_rows(self):
        assert self.counts(lambda x: [x[i : i + 2] for i in range(7)]) == (2, 2)
        assert self.counts(lambda x: [*(x[i : i + 1] for i in range(8)), x[2:4], x]) == (1, 1)

    def test_sums_of_thousands_of_slices(self):
        x = np.ones((3000, 11), np.float32)
        gradient = xpr.make_jaxpr(xpr.grad(lambda x: sum((a**2).sum() for a in (*x, *[x[:1]] * 2000))))(x)
        smaller = disjoint_sums(gradient.jaxpr)
        assert [eqn.primitive.name for eqn in smaller.eqns].count("concatenate") == 375 + 47 + 6 + 1
        core.check_jaxpr(smaller)

    def test_slices_along_two_axes_are_separate(self):
        assert self.counts(lambda x: [*x, *x.swapaxes(0, 1)]) == (2, 0)

    def test_others_stay(self):
        assert self.counts(lambda x: [x[:3], x[3:]]) == (0, 2)
        assert self.counts(lambda x: [x[::2], x[1::2], x[::3]]) == (0, 3)
        assert self.counts(lambda x: [x[:2, :2], x[2:4, 2:], x[4:, 1:]]) == (0, 3)
        assert self.counts(lambda x: [*x[:, 0, :500]])[0] == 0  # 8 of 4000 elements

    def test_what_is_read_elsewhere_stays(self):
        def f(x):
            padded = [jnp.pad(row[None], ((i, 7 - i), (0, 0), (0, 0))) for i, row in enumerate(x)]
            return sum(padded[1:], padded[0]), padded

        closed = xpr.make_jaxpr(f)(self.X)
        assert disjoint_sums(closed.jaxpr) is closed.jaxpr

    def test_programs_are_lowered_so(self):
        gradient = xpr.grad(lambda x: sum(i * jnp.sin(a).sum() for i, a in enumerate(x)))
        looped = lambda x: lax.fori_loop(0, 2, lambda _, c: gradient(c), x)
        for f in (gradient, looped):
            text = xpr.jit(f).lower(self.X).as_text()
            assert text.count("stablehlo.concatenate") == 1 and "stablehlo.pad" not in text
        weights = np.arange(8, dtype=np.float32)[:, None, None]
        close(xpr.jit(gradient)(self.X), weights * np.cos(self.X))
        close(xpr.jit(xpr.vmap(gradient))(self.X[None]), (weights * np.cos(self.X))[None])


def test_what_the_compiler_does_not_remove():
    def f(x, prevent):
        lax.dce_sink({"a": x + 1}, prevent_mlir_dce=prevent)
        return x

    for prevent in (True, False):
        program = xpr.jit(f, static_argnums=1).lower(jnp.arange(3), prevent).compile()
        assert ("add" in program.as_text()) is prevent is ("dce_sink" in program.as_text())
        np.testing.assert_array_equal(program(jnp.arange(3)), np.arange(3))
    prevented = lambda x: f(x, True)
    assert xpr.grad(prevented)(2.0) == 1 and xpr.vmap(prevented)(jnp.ones(3)).shape == (3,)

"""checkify: what is found, through every transformation; messages beside jax's where it is installed."""

import importlib

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import checkify, lax, nn
from xpr.errors import UnsupportedRule


def log(x):
    checkify.check(x > 0, "must be positive: {x}", x=x)
    return jnp.log(x)


def found(f, *args, errors=checkify.user_checks):
    """The message, compiled and not, without the line."""
    checked = checkify.checkify(f, errors=errors)
    one, two = (way(*args)[0].get() for way in (checked, xpr.jit(checked)))
    assert one == two
    return one and one.rsplit(" (test_checkify.py:", 1)[0]


FAILED = "must be positive: -1.0 (`check` failed)"


class TestCheck:
    def test_eager(self):
        assert log(1.0) == 0
        with pytest.raises(checkify.FailedCheckError, match=r"must be positive: -1\.0 \(`check` failed\) \(test_check"):
            log(-1.0)
        with pytest.raises(ValueError, match="must be positive: -1"):
            xpr.vmap(log)(jnp.array([1.0, -1.0, -2.0]))

    def test_compiled_without_checkify(self):
        with pytest.raises(ValueError, match="Cannot abstractly evaluate a .* nobody would see it") as caught:
            xpr.jit(log)(1.0)
        assert "'must be positive: {x}' at test_checkify.py:" in str(caught.value)

    def test_debug_checks_are_left_out(self):
        def f(x):
            checkify.debug_check(x > 0, "debug")
            return x

        assert xpr.jit(f)(-1.0) == -1
        assert f(-1.0) == -1
        assert found(f, -1.0) == "debug (`check` failed)"

    def test_result_and_message(self):
        error, out = checkify.checkify(log)(2.0)
        assert error.get() is None and error.get_exception() is None
        error.throw()
        np.testing.assert_allclose(out, np.log(2), rtol=1e-6)
        assert found(log, -1.0) == FAILED

    def test_the_line(self):
        error, _ = checkify.checkify(log)(-1.0)
        assert "(test_checkify.py:" in error.get() and "(log))" in error.get()

    def test_formats(self):
        def f(x):
            checkify.check(x < 0, "{} {y:.2f} {n} {z}", x, y=x / 3, n=2, z=jnp.ones(2) * x)

        assert found(f, 1.0) == "1.0 0.33 2 [1. 1.] (`check` failed)"
        for fun in (lambda: checkify.check(False, "{}", "a"), lambda: checkify.check(False, "{name}", name="a")):
            with pytest.raises(TypeError, match="Formatting arguments .* 'a' of type str is neither"):
                checkify.checkify(fun)()

    def test_the_first_error_counts(self):
        def f(x):
            checkify.check(x > -5, "a")
            checkify.check(x > 0, "b {}", jnp.ones(2) * x)
            checkify.check(x > 1, "c {}", x)

        assert found(f, -1.0) == "b [-1. -1.] (`check` failed)"
        assert found(f, 0.5) == "c 0.5 (`check` failed)"
        assert found(f, -9.0) == "a (`check` failed)"

    def test_mistakes(self):
        with pytest.raises(TypeError, match="check takes a scalar pred, a bool, and got"):
            checkify.check(jnp.ones(2) > 0, "a")
        with pytest.raises(TypeError, match="check takes a scalar pred, a bool, and got"):
            checkify.check(1, "a")
        with pytest.raises(TypeError, match="checkify: Expected a callable value, and got 3"):
            checkify.checkify(3)
        for errors in ({"nan"}, checkify.FailedCheckError, None):
            with pytest.raises(TypeError, match="checkify: errors must be a set such as user_checks"):
                checkify.checkify(jnp.log, errors=errors)


class TestError:
    def test_throw(self):
        error, _ = xpr.jit(checkify.checkify(log))(-1.0)
        with pytest.raises(checkify.JaxRuntimeError):
            error.throw()
        assert type(error.get_exception()) is checkify.FailedCheckError
        assert repr(error).startswith("Error(must be positive")

    def test_kinds_are_builtin_exceptions(self):
        cases = [
            (checkify.nan_checks, lambda x: jnp.log(-x), FloatingPointError),
            (checkify.div_checks, lambda x: 1 / (x - x), ZeroDivisionError),
            (checkify.index_checks, lambda x: jnp.arange(3)[x.astype(int) + 8], IndexError),
        ]
        for errors, f, kind in cases:
            with pytest.raises(kind):
                checkify.checkify(f, errors=errors)(1.0)[0].throw()

    def test_check_error(self):
        error, _ = checkify.checkify(log)(-1.0)
        fine, _ = checkify.checkify(log)(1.0)
        checkify.check_error(fine)
        checkify.check_error(checkify.init_error)
        assert found(xpr.jit(lambda x: (checkify.check_error(checkify.init_error), x)[1]), 1.0) is None
        with pytest.raises(checkify.FailedCheckError):
            checkify.check_error(error)
        with pytest.raises(TypeError, match="takes the Error"):
            checkify.check_error("error")

    def test_an_error_of_another_function(self):
        def f(x):
            error, out = checkify.checkify(log)(x)
            checkify.check_error(error)
            return out

        assert found(f, -1.0) == FAILED
        assert found(f, 1.0) is None
        rows, _ = xpr.vmap(checkify.checkify(log))(jnp.array([1.0, -1.0, -2.0]))
        assert found(lambda: checkify.check_error(rows)) == FAILED

    def test_traced(self):
        def f(x):
            error, _ = checkify.checkify(log)(x)
            assert repr(error) == "Error(traced)"
            error.get()

        with pytest.raises(TypeError, match="has no value yet"):
            xpr.jit(f)(1.0)


A = jnp.ones((3, 2))
INDEX = "out-of-bounds indexing of f32[3,2]: index {} is out of bounds for axis {} with size {}."


class TestAutomaticChecks:
    def test_nan(self):
        assert found(log, -1.0, errors=checkify.nan_checks) == "nan generated by primitive: log."
        assert found(lambda x: jnp.sum(jnp.log(x)), jnp.array([1.0, -1.0]), errors=checkify.float_checks).endswith(
            "log."
        )
        assert found(jnp.exp, 1.0, errors=checkify.all_checks) is None

    def test_division(self):
        for x in (0.0, jnp.array([1.0, 0.0]), 0):
            assert found(lambda x: jnp.ones_like(x) / x, x, errors=checkify.div_checks) == "division by zero"
        assert found(lambda x: 6 // x, 0, errors=checkify.all_checks) == "division by zero"
        assert found(lambda x: 1 / x, 2.0, errors=checkify.all_checks) is None

    def test_a_function_of_the_library_has_the_line_of_its_call(self):
        def quotient(x):
            return 6 // x

        def softmax(x):
            one = nn.softmax(jnp.ones(2))
            return one + nn.softmax(x)

        xpr.jit(lambda x: 6 // x)(2)  # it is traced here
        line = quotient.__code__.co_firstlineno + 1
        error, _ = checkify.checkify(quotient, errors=checkify.div_checks)(0)
        assert error.get().endswith(f"(test_checkify.py:{line} (quotient))")
        line = softmax.__code__.co_firstlineno + 2
        for f in (softmax, xpr.jit(softmax), xpr.vmap(softmax), xpr.jacobian(softmax)):
            error, _ = checkify.checkify(f, errors=checkify.nan_checks)(jnp.full((2, 2), jnp.inf))
            assert error.get().endswith(f"(test_checkify.py:{line} (softmax))")

    @pytest.mark.parametrize(
        ("f", "i", "message"),
        [
            (lambda i: A[i], 5, INDEX.format(5, 0, 3)),
            (lambda i: A[i], -3, None),
            (lambda i: A[:, i], 2, INDEX.format(2, 1, 2)),
            (lambda i: A[i], np.array([1, -9]), INDEX.format(-6, 0, 3)),
            (lambda i: A.at[i].set(1.0), 3, INDEX.format(3, 0, 3)),
            (lambda i: A.at[i].add(1.0), np.array([0, 4]), INDEX.format(4, 0, 3)),
            (lambda i: A.at[i].add(1.0), np.array([0, 2]), None),
            (lambda i: lax.dynamic_slice(A, (i, 0), (2, 2)), 2, INDEX.format(2, 0, 3)),
            (lambda i: lax.dynamic_slice(A, (i, 0), (2, 2)), 1, None),
            (lambda i: lax.dynamic_update_slice(A, A[:2], (0, i)), 1, INDEX.format(1, 1, 2)),
            (lambda i: xpr.vmap(lambda r: r[i], 1)(A), 7, None),
        ],
    )
    def test_index(self, f, i, message):
        said = found(f, jnp.asarray(i), errors=checkify.index_checks)
        assert said == message if message else said is None or "axis 0" in said

    def test_what_was_not_asked_for(self):
        assert found(log, -1.0, errors=checkify.index_checks) is None
        assert found(lambda x: 1 / x, 0.0, errors=checkify.nan_checks) is None


def scanned(x):
    return lax.scan(lambda c, x: (c + log(x), x), 0.0, x)


def counting(x, message, where):
    def going(c):
        if where == "cond":
            checkify.check(c < 5, message, c)
        return c < 9

    def step(c):
        if where == "body":
            checkify.check(c < 5, message, c)
        return c + 1

    return lax.while_loop(going, step, x)


ROWS = jnp.array([1.0, -1.0, -2.0])


class TestThroughOperations:
    @pytest.mark.parametrize(
        ("f", "x"),
        [
            (xpr.jit(log), -1.0),
            (lambda x: xpr.jit(lambda x: xpr.jit(log)(x) * 2)(x), -1.0),
            (scanned, ROWS),
            (lambda x: lax.cond(x > 0, lambda x: x, log, x), -1.0),
            (lambda x: lax.switch(2, [jnp.sin, jnp.cos, log], x), -1.0),
            (lambda x: lax.fori_loop(0, 3, lambda i, c: c + log(x + i), 0.0), -1.0),
            (xpr.vmap(log), ROWS),
            (xpr.vmap(lambda x: lax.cond(x > 0, lambda x: x, log, x)), ROWS),
            (xpr.checkpoint(log), -1.0),
            (xpr.grad(log), -1.0),
            (xpr.grad(xpr.jit(log)), -1.0),
            (xpr.grad(xpr.checkpoint(log)), -1.0),
            (lambda x: xpr.jvp(log, (x,), (x,)), -1.0),
            (lambda x: lax.map(log, x), ROWS),
        ],
    )
    def test_checks(self, f, x):
        assert found(f, x) == FAILED
        assert found(f, jnp.abs(x) + 0.5) is None

    @pytest.mark.parametrize("where", ["cond", "body"])
    def test_while(self, where):
        assert found(lambda x: counting(x, "at {}", where), 1.0) == "at 5.0 (`check` failed)"
        assert found(lambda x: counting(x, "at {}", where), 9.5) == (
            "at 9.5 (`check` failed)" if where == "cond" else None
        )
        assert checkify.checkify(lambda x: counting(x, "at {}", where))(1.0)[1] == 9

    def test_mapped_while(self):
        f = xpr.vmap(lambda x: counting(x, "at {}", "body"))
        assert found(f, jnp.array([0.0, 0.5])) in ("at 5.0 (`check` failed)", "at 5.5 (`check` failed)")
        error, out = xpr.vmap(checkify.checkify(lambda x: counting(x, "at {}", "body")))(jnp.array([0.5, 10.0]))
        assert error.get().startswith("at mapped index 0: at 5.5 (`check` failed)") and "\n" not in error.get()
        np.testing.assert_array_equal(out, [9.5, 10.0])

    def test_rows(self):
        for way in (xpr.vmap(checkify.checkify(log)), xpr.jit(xpr.vmap(checkify.checkify(log)))):
            error, _ = way(ROWS)
            first, second = error.get().splitlines()
            assert first.startswith("at mapped index 1: must be positive: -1.0")
            assert second.startswith("at mapped index 2: must be positive: -2.0")
            with pytest.raises(checkify.FailedCheckError, match="at mapped index 1"):
                error.throw()

    def test_automatic_checks_inside(self):
        assert found(lambda x: lax.scan(lambda c, x: (jnp.log(x), c), 0.0, x), ROWS, errors=checkify.nan_checks)
        assert found(
            lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1 / (c - 1), x), 1.0, errors=checkify.all_checks
        )
        assert found(xpr.grad(log), -1.0, errors=checkify.all_checks) == FAILED

    def test_results_are_those_without_checks(self):
        x = jnp.arange(1.0, 4.0)
        for errors in (checkify.user_checks, checkify.all_checks):
            error, out = xpr.jit(checkify.checkify(scanned, errors=errors))(x)
            assert error.get() is None
            np.testing.assert_allclose(out[0], np.log([1, 2, 3]).sum(), rtol=1e-6)
            np.testing.assert_array_equal(out[1], x)

    def test_gradients_of_checked_functions(self):
        def loss(x):
            return checkify.checkify(lambda y: scanned(y * jnp.arange(1.0, 4.0))[0])(x)[1]

        def plain(x):
            return jnp.sum(jnp.log(x * jnp.arange(1.0, 4.0)))

        for way in (lambda f: f, xpr.jit):
            np.testing.assert_allclose(xpr.grad(way(loss))(2.0), xpr.grad(plain)(2.0), rtol=1e-6)

    def test_custom_rules_are_kept(self):
        @xpr.custom_jvp
        def f(x):
            return log(x) * x

        f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0]))
        assert found(f, -1.0) == FAILED
        assert xpr.grad(lambda x: checkify.checkify(f)(x)[1])(3.0) == 10

    def test_closures_and_pytrees(self):
        def outer(y):
            error, out = checkify.checkify(lambda d: {"z": log(d["x"] * y)})({"x": 2.0})
            checkify.check_error(error)
            return out["z"]

        assert found(outer, -0.5) == FAILED

    def test_scan_that_ends_early(self):
        def until(x):
            return lax.scan(lambda c, x: (c + log(x), x), 0.0, x, until=lambda c: c > 5)[0]

        assert found(until, ROWS) == FAILED
        assert found(until, jnp.exp(jnp.array([6.0, 1.0]))) is None
        assert found(xpr.grad(until), ROWS) == FAILED
        assert found(xpr.vmap(until), jnp.stack([jnp.exp(ROWS), ROWS])) == FAILED

    def test_what_ends_a_scan_early(self):
        def until(x, limit):
            def stop(c):
                checkify.check(c < limit, "too much: {}", c)
                return c > 9

            return lax.scan(lambda c, x: (c + x, c), 0.0, x, until=stop)

        x = jnp.arange(1.0, 6.0)  # the carries are 0 1 3 6 10, and `until` is not asked after that
        for way in (lambda f: f, xpr.jit, lambda f: lambda x, y: xpr.vmap(f, in_axes=(0, None))(x[None], y)):
            assert found(way(until), x, 6.0) == "too much: 6.0 (`check` failed)"
            assert found(way(until), x, 10.0) == "too much: 10.0 (`check` failed)"
            assert found(way(until), x, 11.0) is None
            assert found(way(until), x[:4], 10.0) is None
        np.testing.assert_array_equal(checkify.checkify(until)(x, 6.0)[1][1], [0, 1, 3, 6, 0])
        indexed = lambda x: lax.scan(lambda c, x: (c + 1, x), 0, x, until=lambda i: x[i + 3] < 0)
        assert found(indexed, x, errors=checkify.index_checks).startswith("out-of-bounds indexing")
        assert found(indexed, x[:1], errors=checkify.user_checks) is None

    def test_solves_and_linear_calls(self):
        def solve(b, a=2.0):
            def matvec(x):
                return a * x

            def solved(matvec, b):
                checkify.check(b > 0, "no positive right side: {}", b)
                return b / a

            return lax.custom_linear_solve(matvec, b, solved, symmetric=True)

        def root(x):
            def step(f, x):
                checkify.check(x > 0, "no positive guess: {}", x)
                return 1.0

            return lax.custom_root(lambda x: x - 1.0, x, step, lambda g, y: y / g(1.0))

        def called(x):
            return xpr.custom_derivatives.linear_call(lambda r, x: r * log(x), lambda r, ct: r * ct, 2.0, x)

        for f, message in (
            (solve, "no positive right side: -1.0 (`check` failed)"),
            (root, "no positive guess: -1.0 (`check` failed)"),
            (called, FAILED),
        ):
            for way in (lambda f: f, xpr.jit, lambda f: lambda x: xpr.vmap(f)(jnp.stack([x, x]))):
                assert found(way(f), -1.0) == message
                assert found(way(f), 1.0) is None
        assert xpr.grad(lambda b: checkify.checkify(solve)(b)[1])(1.0) == 0.5

    @pytest.mark.parametrize("nested", [False, True])
    def test_gradients_of_while_loops(self, nested):
        def step(x):
            checkify.check(x < 5, "at {}", x)
            return x * 2

        def f(x, limit):
            body = (lambda c: lax.cond(c > 0, step, lambda c: c, c)) if nested else step
            return lax.while_loop(lambda c: c < limit, body, x)

        def forward(f):
            return lambda x, limit: xpr.jvp(lambda x: f(x, limit), [x], [x])

        for way in (xpr.grad, lambda f: xpr.jit(xpr.grad(f)), forward):
            assert found(way(f), 1.0, 10.0) == "at 8.0 (`check` failed)"
            assert found(way(f), 1.0, 5.0) is None
        assert checkify.checkify(xpr.grad(f))(1.0, 10.0)[1] == 16
        assert checkify.checkify(xpr.grad(f), errors=checkify.all_checks)(1.0, 5.0)[1] == 8
        rows = xpr.vmap(checkify.checkify(xpr.grad(f)), in_axes=(0, None))(jnp.array([1.0, 0.5]), 5.0)
        assert rows[0].get() is None and rows[1].tolist() == [8, 16]

    def test_a_check_where_there_is_no_way_out(self):
        def applied(x):
            return x.at[jnp.array([0, 0])].apply(log)

        with pytest.raises(UnsupportedRule, match="a check in scatter_apply can't become an error"):
            checkify.checkify(applied)(ROWS)
        assert found(applied, ROWS, errors=checkify.index_checks) is None


def test_beside_jax():
    """The same functions, the same messages but for the lines."""
    jax = pytest.importorskip("jax")
    theirs = importlib.import_module("jax.experimental.checkify")

    def cases(library, checks, numpy):
        def log(x):
            checks.check(x > 0, "must be positive: {x}", x=x)
            return numpy.log(x)

        rows = numpy.array([1.0, -1.0, 3.0])
        one, array = numpy.float32(-1.0), numpy.ones(3)
        yield checks.user_checks, log, (one,)
        yield checks.all_checks, log, (one,)
        yield checks.nan_checks, log, (one,)
        yield checks.all_checks, library.jit(library.grad(log)), (one,)
        yield checks.div_checks, lambda x: 1 / (x + 1), (one,)
        yield checks.index_checks, lambda x, i: x[i], (array, numpy.int32(5))
        yield checks.index_checks, lambda x, i: x[i], (array, numpy.int32(-9))
        yield checks.index_checks, lambda x, i: x.at[i].set(0.0), (array, numpy.int32(5))
        yield checks.user_checks, library.vmap(log), (rows,)
        yield checks.user_checks, lambda x: library.lax.scan(lambda c, x: (c + log(x), x), 0.0, x), (rows,)
        yield checks.all_checks, lambda x: library.lax.cond(x[0] > 0, library.vmap(log), lambda x: x, x), (rows,)

    ours = list(cases(xpr, checkify, jnp))
    for (errors, f, args), (their_errors, their_f, their_args) in zip(ours, cases(jax, theirs, jax.numpy), strict=True):
        said = theirs.checkify(their_f, errors=their_errors)(*their_args)[0].get()
        assert found(f, *args, errors=errors) == said.strip().replace("for array of shape (3,)", "of f32[3]")


def test_the_first_index_that_is_outside_is_named():
    x = jnp.ones((2, 3, 7))
    checked = xpr.jit(checkify.checkify(lambda x, i: x.at[i].add(1.0), errors=checkify.index_checks))
    for index, named in [
        (([1, 20], [1, 4]), "index 20 is out of bounds for axis 0 with size 2"),
        (([1, 20], [3, 4]), "index 3 is out of bounds for axis 1 with size 3"),
        (([[1, 1], [1, 20]], 3), "index 3 is out of bounds for axis 1 with size 3"),
        (([[1, 1], [1, 20]], 0), "index 20 is out of bounds for axis 0 with size 2"),
        ((0, 5, 100), "index 5 is out of bounds for axis 1 with size 3"),
    ]:
        error, _ = checked(x, tuple(np.array(i) for i in index))
        assert named in error.get()
    error, _ = xpr.vmap(checked, in_axes=(None, 0))(x, np.array([[0, 1], [1, 7]]))
    assert "index 7 is out of bounds for axis 0 with size 2" in error.get()
    assert checked(x, np.zeros((0,), int))[0].get() is None


def test_what_is_no_number_is_passed_on():
    @checkify.checkify
    def f(negate, x, *, mode, options=()):
        checkify.check(x > 0, mode)
        return -x if negate else x, options

    error, (y, options) = f(True, 2.0, mode="positive", options=[3])
    assert error.get() is None and y == -2.0 and options[0] == 3
    assert xpr.jit(f, static_argnums=0, static_argnames="mode")(False, -2.0, mode="above")[0].get().startswith("above")


def test_a_static_index_out_of_range_is_an_error_that_is_returned():
    def f(x):
        return x[7] + xpr.jit(lambda y: y[-9])(x), x.at[8].set(3.0)

    x = jnp.arange(3.0)
    error, (value, updated) = checkify.checkify(f, errors=checkify.index_checks)(x)
    assert "index 7 is out of bounds for axis 0 with size 3" in error.get() and value == 2.0
    np.testing.assert_array_equal(updated, x)
    assert checkify.checkify(f)(x)[0].get() is None
    with pytest.raises(IndexError):
        f(x)


def test_messages_about_a_predicate_name_the_function_that_was_called():
    for name in ("check", "debug_check"):
        with pytest.raises(TypeError, match=f"^{name} takes a scalar pred"):
            getattr(checkify, name)(jnp.ones(3) > 0, "never")


def test_a_function_that_is_made_anew_is_the_same_program():
    def made(limit):
        def f(x, i):
            for name in ("first", "second"):
                checkify.check(x[i] < limit, f"{name} {{}}", x[i])
            return jnp.log(x)

        return xpr.jit(checkify.checkify(f, errors=checkify.all_checks))

    texts = [made(limit).lower(jnp.ones(3), 1).as_text() for limit in (2.0, 2.0, 3.0)]
    assert texts[0] == texts[1] != texts[2]
    (one, _), (two, _) = (made(limit)(jnp.ones(3), i) for limit, i in ((2.0, 1), (0.5, 1)))
    assert xpr.tree.structure(one) == xpr.tree.structure(two)
    assert one.get() is None and two.get().startswith("first 1.0 (`check` failed) (test_checkify.py:")


def test_checks_on_one_line_have_messages_of_their_own():
    def f(x, least):
        for limit, what in ((1, [x]), (2, x)):
            checkify.check(least >= limit, "{}", what)
        return x

    def of_two_sizes(i):
        return [x[i] for x in (jnp.ones(3), jnp.ones(2))]

    assert found(f, 1.0, 1) == "1.0 (`check` failed)"
    assert found(lambda x: f(x, 2), 1.0) is None
    assert "of f32[2]: index 2" in found(of_two_sizes, 2, errors=checkify.index_checks)
    assert "of f32[3]: index 3" in found(of_two_sizes, 3, errors=checkify.index_checks)

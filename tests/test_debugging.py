"""debug_nans and debug_infs: which equation is blamed, and where it is said to be."""

import threading

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.compile.evaluate import EvalTrace
from xpr.core.interpreter import context

MIXED = jnp.array([1.0, -1.0, 4.0])


def blamed(f, *args, context=xpr.debug_nans):
    """The lines of the message."""
    with context(True), pytest.raises(FloatingPointError) as caught:
        f(*args)
    return str(caught.value).splitlines()


class TestEager:
    def test_the_equation_and_the_line(self):
        lines = blamed(lambda: jnp.log(MIXED))
        assert lines[:3] == [
            "invalid value (nan) encountered in log, in 1 of 3 elements.",
            "  b:f32[3] = log a",
            "  a: f32[3], from -1 to 4",
        ]
        assert lines[3].startswith("  at test_debugging.py:") and "jnp.log(MIXED)" in lines[3]

    def test_scalars(self):
        assert blamed(lambda: 0.0 / jnp.zeros(()))[:3] == [
            "invalid value (nan) encountered in div.",
            "  b:f32[] = div 0.0 a",
            "  a: f32[], 0",
        ]

    def test_operands_that_are_not_finite(self):
        nan = jnp.array([np.nan, 1.0])
        assert "  a: f32[2], holds nan already" in blamed(lambda: nan + 1)

    def test_moved_elements_come_from_elsewhere(self):
        x = jnp.arange(1.0, 4.0)
        with xpr.debug_nans(True), xpr.debug_infs(True):
            np.testing.assert_array_equal(jnp.where(x > 0, x, jnp.nan), x)
            np.testing.assert_array_equal(xpr.jit(lambda x: jnp.where(x > 0, x, jnp.nan))(x), x)
            np.testing.assert_array_equal(jnp.max(x, initial=-jnp.inf), 3)
            np.testing.assert_array_equal(xpr.scipy.linalg.expm(jnp.zeros((2, 2))), np.eye(2))
            np.testing.assert_array_equal(xpr.vmap(xpr.scipy.linalg.expm)(jnp.zeros((1, 2, 2))), [np.eye(2)])
        there = jnp.where(x > 2, x, jnp.nan)
        assert blamed(lambda: there * 2)[0] == "invalid value (nan) encountered in mul, in 2 of 3 elements."
        lines = blamed(xpr.jit(lambda x: jnp.where(x > 2, x, jnp.nan)), x)
        assert lines[0] == "invalid value (nan) encountered in select_n, in 2 of 3 elements."

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64"])
    def test_dtypes(self, dtype):
        assert (
            blamed(lambda: jnp.zeros(2, dtype) / jnp.zeros(2, dtype))[0]
            == "invalid value (nan) encountered in div, in 2 of 2 elements."
        )

    def test_large_arrays(self):
        assert (
            blamed(lambda: jnp.sqrt(-jnp.ones(100_000)))[0]
            == "invalid value (nan) encountered in sqrt, in 100000 of 100000 elements."
        )

    def test_integers_and_finite_numbers_pass(self):
        with xpr.debug_nans(True), xpr.debug_infs(True):
            assert jnp.arange(3).sum() == 3
            assert jnp.exp(jnp.zeros(3)).sum() == 3
            assert xpr.jit(lambda x: x * 2)(2.0) == 4


class TestInfinities:
    def test_infs(self):
        assert (
            blamed(lambda: 1.0 / jnp.zeros(3), context=xpr.debug_infs)[0]
            == "invalid value (inf) encountered in div, in 3 of 3 elements."
        )

    def test_each_looks_for_its_own(self):
        with xpr.debug_nans(True):
            assert np.isinf(1.0 / jnp.zeros(()))
        with xpr.debug_infs(True):
            assert np.isnan(jnp.log(-jnp.ones(())))


class TestInside:
    """Compiled programs are run again, equation by equation."""

    def test_jit(self):
        @xpr.jit
        def inner(x):
            return jnp.sum(jnp.exp(x) + jnp.sqrt(x))

        lines = blamed(lambda: xpr.jit(lambda x: inner(x) * 2)(MIXED))
        assert lines[0] == "invalid value (nan) encountered in sqrt, in 1 of 3 elements."
        assert "return jnp.sum(jnp.exp(x) + jnp.sqrt(x))" in lines[3]
        assert [line.split(",")[0] for line in lines[4:]] == ["  in inner", "  in <lambda>"]

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_scan(self, way):
        def body(c, x):
            return c + jnp.sqrt(x), x

        lines = blamed(way(lambda xs: lax.scan(body, 0.0, xs)), jnp.array([1.0, 2.0, 3.0, -1.0, 1.0]))
        assert lines[0] == "invalid value (nan) encountered in sqrt."
        assert lines[3].startswith("  in iteration 3 of scan, at test_debugging.py:") or "iteration 3" in lines[-2]

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_while(self, way):
        def loop(x):
            return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] + jnp.log(3.0 - c[0])), (0, x))

        text = "\n".join(blamed(way(loop), 1.0))
        assert text.startswith("invalid value (nan) encountered in log.") and "in iteration 4 of while" in text

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_cond(self, way):
        text = "\n".join(blamed(way(lambda p, x: lax.cond(p, jnp.log, lambda x: x, x)), True, -1.0))
        assert text.startswith("invalid value (nan) encountered in log.") and "in branch 1 of cond" in text

    def test_loops_in_loops(self):
        def inner(c, x):
            return c + jnp.sqrt(x), None

        def outer(c, row):
            return lax.scan(inner, c, row)[0], None

        rows = jnp.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
        text = "\n".join(blamed(xpr.jit(lambda rows: lax.scan(outer, 0.0, rows)), rows))
        assert text.index("iteration 1 of scan") < text.index("iteration 2 of scan")

    def test_custom_rules_and_checkpoint(self):
        @xpr.custom_jvp
        def f(x):
            return jnp.log(x)

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        assert blamed(xpr.jit(f), -1.0)[0] == "invalid value (nan) encountered in log."
        assert blamed(xpr.checkpoint(lambda x: jnp.log(x) * 2), -1.0)[0] == "invalid value (nan) encountered in log."
        assert (
            blamed(lambda: xpr.nn.relu(MIXED * np.nan))[0]
            == "invalid value (nan) encountered in mul, in 3 of 3 elements."
        )

    def test_vmap(self):
        assert (
            blamed(xpr.vmap(lambda x: jnp.log(x) + 1), MIXED)[0]
            == "invalid value (nan) encountered in log, in 1 of 3 elements."
        )

    def test_values_that_come_and_go_are_no_matter(self):
        with xpr.debug_nans(True):
            assert xpr.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))(-1.0) == 0

    def test_donated_arguments_are_there_to_be_looked_at(self):
        f = xpr.jit(lambda x: jnp.log(x), donate_argnums=0)
        assert blamed(f, -jnp.ones(3))[0] == "invalid value (nan) encountered in log, in 3 of 3 elements."


def norm(x):
    return jnp.sqrt(jnp.sum(x * x)) * 0.5


class TestGradients:
    """The gradient of a norm at zero: 0 times infinity."""

    @pytest.mark.parametrize(
        "way",
        [
            xpr.grad, lambda f: xpr.grad(xpr.jit(f)), lambda f: xpr.jit(xpr.grad(f)),
            lambda f: xpr.jit(lambda x: xpr.vjp(f, x)[1](jnp.float32(1))), lambda f: xpr.vmap(xpr.grad(f), 1, 1),
        ],
    )  # fmt: skip
    def test_the_forward_line(self, way):
        x = jnp.zeros((3, 2)) if way(norm).__name__ == "mapped" else jnp.zeros((3, 1))
        text = "\n".join(blamed(way(norm), x))
        assert text.startswith("invalid value (nan) encountered in mul")
        assert "return jnp.sqrt(jnp.sum(x * x)) * 0.5" in text
        assert "in the backward pass: a cotangent of that line" in text

    def test_in_a_loop(self):
        def loss(z):
            return lax.scan(lambda c, x: (c + norm(x * z), None), 0.0, jnp.array([1.0, 2.0, 0.0]))[0]

        text = "\n".join(blamed(xpr.grad(loss), 2.0))
        assert "in the backward pass" in text and "in iteration 0 of scan" in text

    def test_forward_lines_are_not_called_backward(self):
        assert "backward" not in "\n".join(blamed(xpr.jit(jnp.log), -1.0))

    def test_finite_gradients_pass(self):
        with xpr.debug_nans(True), xpr.debug_infs(True):
            assert xpr.grad(norm)(jnp.ones(())) == 0.5


class TestSettings:
    def test_off_again_afterwards(self):
        with xpr.debug_nans(True):
            pass
        assert type(context.trace) is EvalTrace
        assert np.isnan(jnp.log(-jnp.ones(())))

    def test_off_inside_of_on(self):
        with xpr.debug_nans(True), xpr.debug_nans(False):
            assert np.isnan(jnp.log(-jnp.ones(())))

    def test_both(self):
        with xpr.debug_nans(True):
            assert (
                blamed(lambda: 1 / jnp.zeros(()), context=xpr.debug_infs)[0]
                == "invalid value (inf) encountered in div."
            )
            assert (
                blamed(lambda: jnp.log(-jnp.ones(())), context=xpr.debug_infs)[0]
                == "invalid value (nan) encountered in log."
            )

    def test_for_the_process(self):
        found = []

        def other_thread():
            try:
                jnp.log(-jnp.ones(()))
            except FloatingPointError as error:
                found.append(error)

        xpr.config.update("debug_nans", True)
        try:
            with pytest.raises(FloatingPointError):
                jnp.log(-jnp.ones(()))
            thread = threading.Thread(target=other_thread)
            thread.start()
            thread.join()
        finally:
            xpr.config.update("debug_nans", False)
        assert len(found) == 1
        assert np.isnan(jnp.log(-jnp.ones(())))

    def test_jitted_functions_made_before(self):
        f = xpr.jit(lambda x: jnp.log(x))
        assert np.isnan(f(-jnp.ones(())))
        assert blamed(f, -jnp.ones(()))[0] == "invalid value (nan) encountered in log."
        assert np.isnan(f(-jnp.ones(())))

    def test_while_tracing_nothing_is_looked_at(self):
        def f(x):
            with xpr.debug_nans(True):
                return jnp.log(x)

        assert np.isnan(xpr.jit(f)(-1.0))

    def test_disable_jit(self):
        with xpr.disable_jit():
            assert blamed(xpr.jit(lambda x: jnp.log(x) + 1), -1.0)[0] == "invalid value (nan) encountered in log."

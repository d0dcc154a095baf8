"""The interpreters of docs/writing-interpreters.md, as they stand there: short, and composing with everything."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.test_docs import blocks_of
from xpr import lax

PAGE = Path(__file__).parent.parent / "docs" / "writing-interpreters.md"
SCRIPTS = [b.text for b in blocks_of(PAGE.read_text()) if b.language == "python" and ">>>" not in b.text]


@pytest.fixture(scope="module")
def page():
    names = {}
    for script in SCRIPTS:
        exec(script, names)
    return SimpleNamespace(**{key: value for key, value in names.items() if not key.startswith("__")})


def test_each_is_under_sixty_lines():
    """Imports and blank lines aside; interval arithmetic is in two blocks."""
    lengths = [len([line for line in script.splitlines() if line.strip()]) for script in SCRIPTS[1:]]
    counting, walking, table, forward = lengths
    assert max(counting, walking + table, forward) < 60


def loops(x):
    y = lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x + i, x)
    y = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.tanh(c[1]) - x), (0, y))[1]
    return lax.cond(x > 0.1, lambda y: y * x, jnp.exp, y) + xpr.jit(jnp.sin)(x)


class TestCounting:
    def test_control_flow(self, page):
        counts = page.count_operations(loops)(0.5)
        assert counts["sin"] == 4 and counts["tanh"] == 1
        assert counts["exp"] == 0 or counts["mul"] == 3

    def test_longest_branch(self, page):
        def fun(x):
            return lax.cond(x > 0, lambda x: jnp.sin(jnp.sin(x)), jnp.cos, x)

        counts = page.count_operations(fun)(0.5)
        assert counts["sin"] == 2 and counts["cos"] == 0

    def test_composes(self, page):
        assert page.count_operations(xpr.jit(loops))(0.5) == page.count_operations(loops)(0.5)
        assert page.count_operations(xpr.grad(loops))(0.5)["cos"] >= 4
        assert page.count_operations(xpr.vmap(jnp.sin))(jnp.ones(3)) == {"sin": 1}


class TestIntervals:
    FUNCTIONS = (
        loops,
        lambda x: x**3 - 2 * x**2 + x,
        lambda x: 1 / (1 + jnp.exp(-x)) - jnp.cos(3 * x),
        lambda x: lax.switch(lax.convert_element_type(x * 3, "int32"), [jnp.sin, lambda x: x + 5, lambda x: -x], x),
        lambda x: lax.scan(lambda c, r: (c * r + x, c), x, jnp.arange(3.0))[0],
        xpr.grad(lambda x: jnp.tanh(x) * x),
    )

    @pytest.mark.parametrize("fun", FUNCTIONS)
    @pytest.mark.parametrize("box", [(0.3, 0.5), (-0.4, 0.6), (0.2, 0.2)])
    def test_holds_all_values(self, page, fun, box):
        plain, compiled = (make(page.on_intervals(fun))(page.Interval(*box)) for make in (lambda f: f, xpr.jit))
        np.testing.assert_allclose(plain, compiled, rtol=1e-5, atol=1e-6)
        values = np.array([fun(np.float32(x)) for x in np.linspace(*box, 11)])
        assert np.all(values >= np.asarray(plain.low) - 1e-5) and np.all(values <= np.asarray(plain.high) + 1e-5)

    def test_is_a_point_on_points(self, page):
        low, high = page.on_intervals(loops)(page.Interval(0.3, 0.3))
        assert float(low) == pytest.approx(float(high), abs=1e-5) == pytest.approx(float(loops(0.3)), abs=1e-5)

    def test_composes(self, page):
        rows = page.Interval(jnp.array([0.1, 0.2]), jnp.array([0.3, 0.2]))
        low, high = xpr.vmap(page.on_intervals(lambda x: x * x - x))(rows)
        np.testing.assert_allclose(low, [0.01 - 0.3, 0.04 - 0.2], rtol=1e-5)
        inside = page.on_intervals(xpr.vmap(lambda x: x * x - x))(rows)
        np.testing.assert_allclose(inside, (low, high))
        width = xpr.grad(lambda r: page.on_intervals(lambda x: x * 3)(page.Interval(-r, r)).high)(1.0)
        assert float(width) == 3

    def test_says_what_is_not_known(self, page):
        with pytest.raises(KeyError, match="sort"):
            page.on_intervals(jnp.sort)(page.Interval(jnp.ones(2), jnp.ones(2)))


class TestForwardMode:
    @pytest.mark.parametrize("fun", [loops, jnp.tanh, lambda x: lax.scan(lambda c, _: (c * x, c), x, None, 3)[0]])
    def test_is_jvp(self, page, fun):
        want = xpr.jvp(fun, (0.5,), (1.0,))[1]
        along = page.derivative(fun)
        for way in (along, xpr.jit(along)):
            assert float(way(0.5, 1.0)) == pytest.approx(float(want), rel=1e-5)
        rows = xpr.vmap(along)(jnp.full(2, 0.5), jnp.ones(2))
        np.testing.assert_allclose(rows, [want, want], rtol=1e-5)
        second = xpr.grad(xpr.grad(fun))(0.5)
        assert float(xpr.grad(lambda x: along(x, 1.0))(0.5)) == pytest.approx(float(second), rel=1e-4)
        assert float(page.derivative(lambda x: along(x, 1.0))(0.5, 1.0)) == pytest.approx(float(second), rel=1e-4)
        assert float(page.derivative(xpr.grad(fun))(0.5, 1.0)) == pytest.approx(float(second), rel=1e-4)

    def test_of_the_mapped(self, page):
        out = page.derivative(lambda x: xpr.vmap(jnp.sin)(x))(jnp.zeros(2), jnp.ones(2))
        np.testing.assert_allclose(out, [1, 1])

    def test_constants(self, page):
        assert float(page.derivative(lambda x: jnp.ones(()))(1.0, 1.0)) == 0

    def test_python_control_flow(self, page):
        assert float(page.derivative(lambda x: x * x if x > 0 else -x)(-3.0, 1.0)) == -1

    def test_leaked_tracers(self, page):
        kept = []
        page.derivative(lambda x: kept.append(x) or x)(1.0, 1.0)
        with pytest.raises(xpr.errors.UnexpectedTracerError):
            kept[0] + 1


def test_extend_has_what_the_page_uses():
    (line,) = re.findall(r"^from xpr\.extend import (.*)$", SCRIPTS[0], re.M)
    assert set(line.split(", ")) <= set(xpr.extend.__all__)

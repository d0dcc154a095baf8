"""debug.progress: what a bar shows, when the host is called, and that the loops compute what they did."""

import re
import sys
import types

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, primitive_names
from xpr import debug, lax
from xpr.control.progress import bar, progress
from xpr.errors import CarryMismatch


def wave(c, x):
    return jnp.sin(c) + x, c


XS = jnp.linspace(0.0, 1.0, 50)


@pytest.fixture
def shown(monkeypatch):
    """What bars showed: (description, step, total, last)."""
    seen = []

    class Shown:
        seconds = 0.0

        def show(self, title, step, total, seconds, last, leave):
            seen.append((title, step, total, last))

    monkeypatch.setattr(bar, "here", Shown)
    return seen


LOOPS = {
    "scan": (lambda wrap, n: lax.scan(wrap(wave), 0.5, XS[:n]), "wave"),
    "scan backwards": (lambda wrap, n: lax.scan(wrap(wave), 0.5, XS[:n], reverse=True, unroll=3), "wave"),
    "fori_loop": (lambda wrap, n: lax.fori_loop(2, n + 2, wrap(lambda i, c: c + i), 0), ""),
    "fori_loop of traced bounds": (
        lambda wrap, n: xpr.jit(lambda n: lax.fori_loop(0, n, wrap(lambda i, c: c + i), 0))(n), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_with_a_number_of_steps(name, jit, shown):
    loop, title = LOOPS[name]
    stage = xpr.jit if jit else lambda f: f
    close(stage(lambda: loop(debug.progress, 20))(), loop(lambda f: f, 20))
    assert shown[0] == (title, 0, 20, False)
    assert shown[-1] == (title, 20, 20, True)
    assert [step for _, step, _, _ in shown] == sorted(step for _, step, _, _ in shown)


def test_while_loops(shown):
    out = lax.while_loop(lambda c: c < 100, debug.progress(lambda c: c * 3, desc="growing"), 1)
    assert out == 243
    assert shown[0] == ("growing", 0, None, False) and shown[-1] == ("growing", 5, None, True)
    lax.while_loop(lambda c: c < 100, debug.progress(lambda c: c * 3, 5), 1)
    assert shown[-1] == ("", 5, 5, True)


def test_scans_that_end_early(shown):
    c, _ = lax.scan(debug.progress(lambda c, x: (c + 1, None)), 0.0, XS, until=lambda c: c >= 7)
    assert c == 7 and shown[-1][1:] == (7, 50, True)


def test_one_bar_for_all_rows(shown):
    starts = jnp.arange(4.0)
    scan = lambda c: lax.scan(debug.progress(wave), c, XS)[0]
    close(xpr.jit(xpr.vmap(scan))(starts), xpr.vmap(lambda c: lax.scan(wave, c, XS)[0])(starts))
    assert [s for s in shown if s[-1]] == [("wave", 50, 50, True)]
    shown.clear()
    ends = jnp.array([3, 30, 7])
    loop = lambda n: lax.while_loop(lambda c: c < n, debug.progress(lambda c: c + 1), 0)
    assert xpr.vmap(loop)(ends).tolist() == ends.tolist()
    assert [s for s in shown if s[-1]] == [("", 30, None, True)]
    shown.clear()
    loop = lambda n: lax.fori_loop(0, n, debug.progress(lambda i, c: c + 1), 0)
    assert xpr.jit(xpr.vmap(xpr.vmap(loop)))(ends[None]).tolist() == [ends.tolist()]
    assert [s for s in shown if s[-1]] == [("", 30, 30, True)]


def test_derivatives_show_the_primal_loop(shown):
    scan = lambda wrap: lambda c: lax.scan(wrap(wave), c, XS)[0]
    for transform in (xpr.grad, lambda f: xpr.jit(xpr.grad(f)), lambda f: lambda c: xpr.jvp(f, (c,), (1.0,))):
        close(transform(scan(debug.progress))(0.3), transform(scan(lambda f: f))(0.3))
        assert [s for s in shown if s[-1]] == [("wave", 50, 50, True)]
        shown.clear()
    loop = lambda c: lax.while_loop(lambda c: c < 100, debug.progress(lambda c: c * 2), c)
    assert xpr.grad(loop)(1.0) == 128 and shown


def test_without_jit(shown):
    with xpr.disable_jit():
        close(lax.scan(debug.progress(wave), 0.5, XS), lax.scan(wave, 0.5, XS))
        assert lax.while_loop(lambda c: c < 5, debug.progress(lambda c: c + 1), 0) == 5
    assert shown[-1] == ("", 5, None, True)


def test_by_itself_it_is_the_function(shown):
    close(debug.progress(wave)(1.0, 2.0), wave(1.0, 2.0))
    close(lax.map(debug.progress(jnp.sin), XS), jnp.sin(XS))
    assert not shown
    with pytest.raises(TypeError, match="takes the function of a loop"):
        debug.progress(range(10))


def test_errors_are_those_of_the_loop():
    with pytest.raises(CarryMismatch, match=r"(?s)carry +in f32\[\].*out f32\[2\].*test_progress.py"):
        lax.scan(debug.progress(lambda c, x: (jnp.stack([c, c]), x)), 0.0, XS)
    with pytest.raises(TypeError, match="scan body output must be a pair"):
        lax.scan(debug.progress(lambda c, x: c), 0.0, XS)
    with pytest.raises(CarryMismatch, match=r"carry\['a'\]"):
        lax.while_loop(lambda c: True, debug.progress(lambda c: {"a": c["a"][None]}), {"a": jnp.ones(2)})


def test_bars_of_other_descriptions_are_other_programs(shown):
    for desc in ("one", "two", "one"):
        lax.scan(debug.progress(wave, desc=desc), 0.5, XS)
    assert [s[0] for s in shown if s[-1]] == ["one", "two", "one"]


@pytest.mark.parametrize("where", ["show", "here"])
def test_a_bar_that_fails_does_not_end_the_program(where, monkeypatch, caplog):
    def fails(*args):
        raise OSError("no terminal")

    monkeypatch.setattr(*((bar.LogLines, "show") if where == "show" else (bar, "here")), fails)
    close(xpr.jit(lambda: lax.scan(debug.progress(wave), 0.5, XS))(), lax.scan(wave, 0.5, XS))
    assert "no terminal" in caplog.text


# -- What it costs


def test_calls_of_the_host_are_few(monkeypatch):
    calls = []
    real = progress.BarOfRun.update
    monkeypatch.setattr(progress.BarOfRun, "update", lambda self, *args: calls.append(args) or real(self, *args))
    lax.fori_loop(0, 100_000, debug.progress(lambda i, c: c + i), 0)
    assert 2 <= len(calls) <= 40  # twice as far each time, until a call takes a hundredth of a second


def test_calls_are_as_far_apart_as_updates(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(bar, "here", bar.Terminal)
    bars, run, step, calls = progress.Bars("", True), progress.BarOfRun(0), 0, 0
    while step < 1_000_000:  # of 10 microseconds each: 10 seconds
        now[0], calls = step * 1e-5, calls + 1
        step = run.update(bars, step, 1_000_000)
    assert calls < 120  # of 20 microseconds each: 0.03 %


def test_a_step_has_few_more_operations():
    programs = (
        xpr.make_jaxpr(lambda: lax.scan(wave, 0.5, XS)),
        xpr.make_jaxpr(lambda: lax.scan(debug.progress(wave), 0.5, XS)),
    )
    plain, watched = (primitive_names(program()) for program in programs)
    assert len(watched) - len(plain) < 12 and watched.count("io_callback") == 1


# -- What is shown


def test_terminals(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    lax.scan(debug.progress(wave, desc="fit"), 0.5, XS)
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert re.fullmatch(r"fit: +0%\| +\| 0/50 \[00:00<\?, \? steps/s\]", lines[1])
    assert re.fullmatch(r"fit: 100%\|█+\| 50/50 \[00:00<00:00, [\d.]+ steps/s\]\n", lines[-1])
    assert all(len(line.rstrip("\n")) < 70 for line in lines)
    lax.scan(debug.progress(wave, desc="fit", leave=False), 0.5, XS)
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_files(capsys):
    lax.scan(debug.progress(wave), 0.5, XS)
    assert re.fullmatch(r"wave: 100%\|█+\| 50/50 .*\n", capsys.readouterr().err)


def test_notebooks(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    ipython = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    lax.scan(debug.progress(wave, desc="<fit>"), 0.5, XS)
    assert '<progress value="50" max="50">' in shown[-1]["text/html"] and "&lt;fit&gt;" in shown[-1]["text/html"]
    assert shown[-1]["text/plain"].startswith("<fit>: 100%")
    lax.while_loop(lambda c: c < 5, debug.progress(lambda c: c + 1, leave=False), 0)
    assert shown[-1] == {"text/plain": ""}
    assert "0 steps" in shown[-2]["text/html"] and "<progress" not in shown[-2]["text/html"]


def test_numbers_of_hours():
    assert bar.line("", 10, 40, 3600.0, 70).endswith("| 10/40 [1:00:00<3:00:00, 360.00 s/step]")
    assert np.char.str_len(bar.line("x", 1, 3, 1.0, 50)) == 49

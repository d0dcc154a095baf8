"""Traces of programs: what is recorded, and when there is nothing to record; and what takes the time in a function."""

import gzip
import json
import pathlib
import re
import threading
import time
import urllib.request

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, run_python
from xpr import lax, profiler


def test_events_are_recorded(tmp_path):
    @profiler.annotate_function
    def squared(x):
        return (x @ x).block_until_ready()

    with profiler.trace(tmp_path):
        with profiler.TraceAnnotation("outer"), profiler.StepTraceAnnotation("train", step_num=3):
            xpr.jit(squared)
            squared(jnp.ones((3, 3)))
    (file,) = pathlib.Path(tmp_path).rglob("*.xplane.pb")
    recorded = file.read_bytes()
    assert all(name in recorded for name in (b"outer", b"train", b"squared"))


def test_one_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match="a trace to .* is being recorded"):
        profiler.start_trace(tmp_path / "other")


def test_memory(tmp_path):
    profiler.save_device_memory_profile(tmp_path / "memory.prof", "cpu")
    assert (tmp_path / "memory.prof").stat().st_size > 0


_MEMORY_BY_FUNCTIONS = """
import gzip
import xpr, xpr.numpy as jnp
from xpr import profiler

def make_weights():
    return xpr.jit(lambda: jnp.ones((1000, 1000)))()

def is_named():
    weights = make_weights().block_until_ready()
    return b"make_weights" in gzip.decompress(profiler.device_memory_profile())

results = [is_named()]
xpr.config.update("array_tracebacks", True)
results.append(is_named())
xpr.config.update("array_tracebacks", False)
results.append(is_named())
try:
    import jax  # whose own errors need the stacks, so that they are recorded from its import on
except ImportError:
    results.append(True)
else:
    results.append(is_named())
print(*results)
"""


def test_memory_by_functions():
    assert run_python(_MEMORY_BY_FUNCTIONS).split() == ["False", "True", "False", "True"]


def test_a_file_for_perfetto(tmp_path):
    with profiler.trace(tmp_path, create_perfetto_trace=True), profiler.TraceAnnotation("outer"):
        jnp.sin(1.0)
    (file,) = tmp_path.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))
    assert "metadata" not in events and any(event.get("name") == "outer" for event in events["traceEvents"])
    (data,) = tmp_path.rglob("*.xplane.pb")
    planes = profiler.ProfileData.from_file(str(data)).planes
    assert any(event.name == "outer" for plane in planes for line in plane.lines for event in line.events)


def test_a_link_for_perfetto(tmp_path, capsys):
    def ended():
        with profiler.trace(tmp_path, create_perfetto_link=True):
            jnp.sin(1.0)

    thread = threading.Thread(target=ended)
    thread.start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(200):
        try:
            answer = opener.open("http://127.0.0.1:9001/perfetto_trace.json.gz")
            break
        except OSError:
            time.sleep(0.05)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert json.loads(gzip.decompress(answer.read()))["traceEvents"]
    thread.join()
    assert "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/perfetto_trace.json.gz" in capsys.readouterr().out


def test_servers():
    profiler.start_server(9418)
    with pytest.raises(ValueError, match="a server runs already"):
        profiler.start_server(9419)
    profiler.stop_server()
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()


# -- Tables


def layer(w, h):
    return jnp.tanh(h @ w)


def steps(weights, x):
    return lax.scan(lambda h, w: (layer(w, h), None), x, weights)[0].sum()


WEIGHTS, X = jnp.ones((6, 128, 128)), jnp.ones((512, 128))


def test_a_table_says_which_line_takes_the_time():
    def function(a):
        big = a @ a @ a @ a
        return (big[0] * 2).sum()

    times = profiler.table(function)(jnp.ones((400, 400)))
    line, most = max(times.by_line.items(), key=lambda item: item[1].seconds)
    assert re.fullmatch(r"test_profiler.py:\d+ \(function\)", line) and most.text == "big = a @ a @ a @ a"
    assert most.equations == 3 and most.seconds > 0.5 * times.alone
    assert times.alone == pytest.approx(sum(each.seconds for each in times.by_equation))
    assert 0 < times.seconds < 10 * times.alone


def test_loops_are_measured_as_a_whole_and_shared_out():
    times = profiler.table(steps)(WEIGHTS, X)
    names = {each.equation.primitive.name: each for each in times.by_equation}
    assert "scan" not in names and names["dot_general"].times == names["tanh"].times == 6
    assert names["dot_general"].line.endswith("(layer)")
    assert times.alone == pytest.approx(sum(each.seconds for each in times.by_equation))
    loop = lambda x: lax.while_loop(lambda x: x.sum() < 1e4, lambda x: x * 2, x)
    (doubled,) = (e for e in profiler.table(loop)(X).by_equation if e.equation.primitive.name == "mul")
    assert doubled.times is None and doubled.seconds > 0


def test_of_branches_the_one_that_is_taken_counts():
    function = lambda n, x: lax.switch(n, [jnp.sin, lambda x: x @ x.T @ x, jnp.cos], x)
    for n, name in enumerate(["sin", "dot_general", "cos"]):
        names = {each.equation.primitive.name for each in profiler.table(function)(n, X).by_equation}
        assert names & {"sin", "dot_general", "cos"} == {name}


def test_calls_and_derivatives_are_looked_into():
    times = profiler.table(xpr.grad(lambda w: xpr.jit(steps)(w, X)))(WEIGHTS)
    products = [each for each in times.by_equation if each.equation.primitive.name == "dot_general"]
    assert len(products) >= 3 and {each.line.rsplit(" ")[-1] for each in products} == {"(layer)"}


def test_arguments_are_pytrees_and_callbacks_are_called():
    seen = []

    def function(d, *, scale):
        xpr.debug.callback(lambda x: seen.append(float(x)), d["a"].sum())
        return d["a"] * scale + xpr.random.normal(xpr.random.key(0), (3,))

    times = profiler.table(function)({"a": jnp.ones(3)}, scale=2.0)
    assert set(seen) == {3.0}
    assert {"mul", "debug_callback"} <= {each.equation.primitive.name for each in times.by_equation}


def test_equations_of_one_type_are_measured_once(monkeypatch):
    from xpr.inspect import timing

    measured = []
    real = timing._Clock.time
    monkeypatch.setattr(timing._Clock, "time", lambda *args: measured.append(1) or real(*args))
    x = np.ones(3, np.float32)
    times = profiler.table(lambda x: jnp.sin(jnp.sin(jnp.sin(jnp.cos(x)))))(x)
    assert len(times.by_equation) == 4 and len(measured) == 4  # nothing, the whole, sin, cos


def test_the_text_of_a_table():
    text = str(profiler.table(steps)(WEIGHTS, X))
    first, head, *rows = text.splitlines()
    assert re.fullmatch(
        r"steps at test_profiler.py:\d+: [\d.]+ \w+ as one program, [\d.]+ \w+ as \d equations .*", first
    )
    assert head.split() == ["time", "share", "runs", "line"]
    assert any(re.search(r"%          test_profiler.py:\d+ \(layer\)  return jnp.tanh\(h @ w\)", row) for row in rows)
    assert any(re.search(r"% +6    dot_general f32\[512,128\] f32\[128,128\]$", row) for row in rows)


def test_long_tables_are_shortened():
    text = str(profiler.table(lambda x: [x + i for i in range(8)])(X))
    assert "and 4 equations more" in text


def test_the_page_has_the_times():
    page = profiler.table(steps)(WEIGHTS, X).show()
    rows = page.data()["programs"][0]["eqns"]
    assert all(len(row) == 10 for row in rows) and max(row[-1] for row in rows) > 0
    assert len(xpr.jaxpr.show(steps)(WEIGHTS, X).data()["programs"][0]["eqns"][0]) == 9


def test_what_is_no_function_has_no_table():
    with pytest.raises(TypeError, match="takes a function"):
        profiler.table(X)


def test_the_results_are_those_of_the_program():
    from xpr.inspect.timing import _Clock

    closed = xpr.make_jaxpr(steps)(WEIGHTS, X)
    outs, _ = _Clock().run(closed.jaxpr, [WEIGHTS, X])
    close(outs, [steps(WEIGHTS, X)])

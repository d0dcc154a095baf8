"""Callbacks: values, errors, order, and every transformation; beside jax where it is installed."""

import bdb
import gc
import io
import threading
import traceback
import weakref

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import eight_devices
from xpr import errors, lax
from xpr.backend import compiler
from xpr.backend.buffers import put
from xpr.config import Settings
from xpr.errors import TreeMismatch, UnsupportedRule

F32 = xpr.ShapeDtypeStruct((), np.float32)


def test_on_eight_devices():
    eight_devices.run("callback_cases.py")


def host_sin(x):
    return np.sin(np.asarray(x))


def sine(x, **options):
    return xpr.pure_callback(host_sin, xpr.ShapeDtypeStruct(x.shape, x.dtype), x, **options)


X = jnp.arange(3.0)


@pytest.mark.parametrize("way", [lambda f: f, xpr.jit, lambda f: xpr.jit(xpr.jit(f))])
class TestValues:
    def test_arrays(self, way):
        np.testing.assert_allclose(way(sine)(X), np.sin(np.arange(3.0)), rtol=1e-6)

    def test_pytrees_and_keywords(self, way):
        def host(pair, *, scale):
            return {"sum": pair[0] + pair[1], "n": np.int32(pair[0].shape[0] * float(scale))}

        types = {"sum": xpr.ShapeDtypeStruct((3,), "float32"), "n": xpr.ShapeDtypeStruct((), "int32")}
        out = way(lambda x, y: xpr.pure_callback(host, types, (x, y), scale=jnp.float32(2)))(X, X)
        np.testing.assert_array_equal(out["sum"], [0, 2, 4])
        assert int(out["n"]) == 6

    def test_callbacks_are_given_arrays(self, way):
        seen = []
        way(lambda x: xpr.pure_callback(lambda y: (seen.append(y), y)[1], x, x))(X)
        way(lambda x: xpr.debug.callback(lambda y: seen.append(y), x))(X)
        for y in seen:
            assert type(y) is xpr.Array
            np.testing.assert_array_equal(y, [0, 1, 2])

    def test_what_a_callback_keeps_stays_as_it_was(self, way):
        kept = []
        f = way(lambda x: xpr.io_callback(lambda y: kept.append(np.asarray(y)), None, x * 2))
        for i in range(3):
            f(jnp.full(1000, float(i)))
        assert [k[0] for k in kept] == [0, 2, 4]

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.uint32, np.float16, ml_dtypes.bfloat16, np.complex64])
    def test_dtypes(self, way, dtype):
        x = jnp.ones((2, 3), dtype)
        out = way(lambda x: xpr.pure_callback(lambda y: y, x, x))(x)
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(out).astype(complex), np.ones((2, 3)))

    def test_no_entries(self, way):
        assert way(sine)(jnp.zeros((0, 2))).shape == (0, 2)

    def test_wide_results_are_narrowed_as_arrays_are(self, way):
        out = way(lambda x: xpr.pure_callback(lambda y: np.float64(2.5), F32, x))(1.0)
        assert (out.dtype, float(out)) == (np.float32, 2.5)
        with xpr.enable_x64(True):
            wide = xpr.ShapeDtypeStruct((), np.float64)
            assert way(lambda x: xpr.pure_callback(lambda y: np.float64(0.1), wide, x))(1.0) == np.float64(0.1)

    def test_python_numbers(self, way):
        assert way(lambda x: xpr.pure_callback(lambda y: 3, F32, x))(1.0) == 3


class TestErrors:
    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_an_exception_reaches_the_caller(self, way):
        error = KeyError("mine")

        def fails(x):
            raise error

        with pytest.raises(KeyError) as caught:
            way(lambda x: xpr.pure_callback(fails, F32, x) + 1)(1.0)
        assert isinstance(caught.value, (errors.CallbackError, errors.JaxRuntimeError))
        assert (str(caught.value), caught.value.args) == ("KeyError: 'mine'", ("mine",))
        assert caught.value.__cause__ is error
        assert "fails" in "".join(traceback.format_tb(error.__traceback__))

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_exceptions_of_every_class(self, way):
        class Mine(errors.XprError, ValueError):
            def __init__(self, name, size):
                super().__init__(f"{name}: {size}")
                self.size = size

        kinds = [RuntimeError("x"), OSError(2, "x"), errors.JaxRuntimeError("x"), Mine("x", 3), UnicodeError("x")]
        for error in kinds:

            def fails(x, error=error):
                raise error

            with pytest.raises(type(error)) as caught:
                way(lambda x: xpr.pure_callback(fails, F32, x))(1.0)
            assert caught.value is error or caught.value.__cause__ is error
            assert isinstance(error, OSError) or str(caught.value) == f"{type(error).__name__}: {error}"
        assert caught.type.__name__ == "CallbackError" and kinds[3].size == 3

    def test_callbacks_inside_callbacks(self):
        def fails(x):
            raise ValueError("inner")

        def calls(x):
            return xpr.jit(lambda x: xpr.pure_callback(fails, F32, x))(x)

        with pytest.raises(ValueError) as caught:
            xpr.jit(lambda x: xpr.pure_callback(calls, F32, x))(1.0)
        assert str(caught.value) == "ValueError: inner"

    def test_in_loops_and_side_effects(self):
        def fails(i):
            if i == 3:
                raise StopIteration("at 3")

        def body(i, c):
            xpr.debug.callback(fails, i)
            return c + 1

        with pytest.raises(StopIteration, match="at 3"):
            xpr.jit(lambda n: lax.fori_loop(0, n, body, 0))(10)

    def test_the_program_works_again_afterwards(self):
        def fails(x):
            if x < 0:
                raise ValueError("negative")
            return x

        f = xpr.jit(lambda x: xpr.pure_callback(fails, F32, x))
        for _ in range(100):
            with pytest.raises(ValueError, match="negative"):
                f(-1.0)
        assert f(2.0) == 2

    def test_interrupts_pass(self):
        def interrupt(x):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            xpr.jit(lambda x: xpr.pure_callback(interrupt, F32, x))(1.0)

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_results_of_other_types(self, way):
        with pytest.raises(TypeError) as caught:
            way(lambda x: xpr.pure_callback(lambda y: np.ones(3, np.int32), F32, x))(1.0)
        assert str(caught.value).splitlines()[:2] == [
            "pure_callback: the callback must give a result of the types that were declared.",
            "  result   declared f32[]   given i32[3]",
        ]
        assert "<lambda> at test_callbacks.py" in str(caught.value)

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_results_of_another_structure(self, way):
        with pytest.raises(TreeMismatch, match="as many arrays as were declared"):
            way(lambda x: xpr.pure_callback(lambda y: (y, y), F32, x))(1.0)

    def test_arguments(self):
        with pytest.raises(TypeError, match="calls a function"):
            xpr.pure_callback(3, F32)
        with pytest.raises(TypeError, match="result_shape_dtypes must be"):
            xpr.pure_callback(host_sin, "f32", 1.0)
        with pytest.raises(ValueError, match="vmap_method is one of"):
            xpr.pure_callback(host_sin, F32, 1.0, vmap_method="fast")

    def test_other_platforms(self):
        jaxpr = xpr.make_jaxpr(sine)(X).jaxpr
        with pytest.raises(UnsupportedRule, match="work on CPU"):
            xpr.compile.lower.lower_jaxpr(jaxpr, "gpu")


class TestXprInCallbacks:
    def test_operations_and_programs(self):
        """Large ones too, which need XLA's threads, and programs that call back again."""
        a = jnp.ones((600, 600))
        product = xpr.jit(lambda a: a @ a)

        def inner(x):
            return product(a)[0, 0] + jnp.sum(jnp.ones(20_000)) * 0 + x

        def outer(x):
            nested = xpr.jit(lambda z: xpr.pure_callback(inner, F32, z) * 2)
            return nested(jnp.float32(1)) + product(x)[0, 0]

        out = xpr.jit(lambda x: xpr.pure_callback(outer, F32, x @ x))(a)
        np.testing.assert_allclose(out, 601 * 2 + 600.0**3)

    def test_many_threads(self):
        a = jnp.ones((300, 300))
        f = xpr.jit(lambda x: xpr.pure_callback(lambda y: jnp.sum(y @ a), F32, x @ x))
        found = []
        threads = [threading.Thread(target=lambda: found.append(float(f(a)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_allclose(found, [300.0**4] * 8)

    def test_settings_are_those_of_the_caller(self):
        seen = []
        with xpr.enable_x64(True):
            xpr.jit(lambda x: xpr.debug.callback(lambda y: seen.append(jnp.zeros(1).dtype), x))(1.0)
        assert seen == [np.float64]

    def test_a_callback_is_outside_of_what_is_traced(self):
        """While a jvp is on its way the callback still computes with plain arrays."""
        seen = []

        def f(x):
            xpr.debug.callback(lambda y: seen.append(type(jnp.sin(y))), 1.0)
            return x * x

        xpr.grad(f)(2.0)
        assert seen == [xpr.Array]


class TestPrograms:
    def test_ahead_of_time(self):
        compiled = xpr.jit(sine).lower(X).compile()
        np.testing.assert_allclose(compiled(X), np.sin(np.arange(3.0)), rtol=1e-6)
        assert "xla_ffi_python_cpu_callback" in xpr.jit(sine).lower(X).as_text()

    def test_equal_texts_are_different_programs(self):
        def make(n):
            return xpr.jit(lambda x: xpr.pure_callback(lambda y: np.float32(n), F32, x))

        assert [float(make(n)(1.0)) for n in range(3)] == [0, 1, 2]
        for n in range(3):
            call = make(n)
            assert lax.scan(lambda c, _: (call(c), None), 0.0, length=2)[0] == n  # noqa: B023  # called at once

    def test_not_kept_on_disk(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Settings, "compilation_cache_dir", str(tmp_path / "cache"))
        xpr.jit(lambda x: sine(x) + 1)(X)
        assert not list(tmp_path.rglob("*"))

    def test_functions_are_let_go(self):
        def run():
            def host(x):
                return np.asarray(x)

            xpr.jit(lambda x: xpr.pure_callback(host, x, x))(X)
            return weakref.ref(host)

        alive = run()
        gc.collect()
        xpr.jit(lambda x: x @ x)(X).block_until_ready()  # jaxlib lets go of what programs held when it next works
        assert alive() is None

    def test_donated_arguments(self):
        x = jnp.arange(3.0)
        out = xpr.jit(lambda x: sine(x) + x, donate_argnums=0)(x)
        np.testing.assert_allclose(out, np.sin(np.arange(3.0)) + np.arange(3.0), rtol=1e-6)
        assert x.is_deleted()

    def test_what_nothing_reads_need_not_run(self):
        calls = []
        xpr.jit(lambda x: (xpr.pure_callback(lambda y: (calls.append(1), y)[1], F32, x), x + 1)[1])(1.0)
        assert calls == []

    def test_reference_backend(self):
        np.testing.assert_allclose(xpr.jit(sine, backend="reference")(X), np.sin(np.arange(3.0)), rtol=1e-6)

    def test_effects_barrier(self):
        seen = []
        xpr.jit(lambda x: xpr.debug.callback(seen.append, x @ x))(jnp.ones((500, 500)))
        xpr.effects_barrier()
        assert len(seen) == 1


SHAPES = {
    "sequential": [((), ()), ((), ())],
    "sequential_unrolled": [((), ()), ((), ())],
    "expand_dims": [((2,), (1,))],
    "broadcast_all": [((2,), (2,))],
    "legacy_vectorized": [((2,), ())],
}


class TestVmap:
    @pytest.mark.parametrize("method", SHAPES)
    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit])
    def test_methods(self, method, way):
        shapes = []

        def host(x, y):
            shapes.append((x.shape, y.shape))
            return np.asarray(x) + np.asarray(y)

        f = xpr.vmap(lambda x, y: xpr.pure_callback(host, F32, x, y, vmap_method=method), (0, None))
        np.testing.assert_array_equal(way(f)(jnp.arange(2.0), 1.0), [1, 2])
        assert shapes == SHAPES[method]

    @pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
    def test_mapped_twice(self, method):
        def f(x, y):
            return xpr.pure_callback(lambda a, b: np.asarray(a) * np.asarray(b), F32, x, y, vmap_method=method)

        grid = xpr.vmap(xpr.vmap(f, (0, None)), (None, 0))
        np.testing.assert_array_equal(grid(jnp.arange(3.0), jnp.arange(2.0)), [[0, 0, 0], [0, 1, 2]])

    def test_other_axes(self):
        x = jnp.arange(6.0).reshape(2, 3)
        rows = xpr.vmap(lambda r: sine(r, vmap_method="sequential"), 1, 1)(x)
        np.testing.assert_allclose(rows, np.sin(np.arange(6.0).reshape(2, 3)), rtol=1e-6)

    def test_no_method(self):
        with pytest.raises(UnsupportedRule, match="vmap_method='sequential'"):
            xpr.vmap(sine)(X)

    def test_io_callbacks(self):
        seen = []

        def host(x):
            seen.append(float(x))
            return x * 2

        out = xpr.jit(xpr.vmap(lambda x: xpr.io_callback(host, F32, x)))(X)
        np.testing.assert_array_equal(out, [0, 2, 4])
        assert seen == [0, 1, 2]
        with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callbacks"):
            xpr.vmap(lambda x: xpr.io_callback(host, F32, x, ordered=True))(X)


class TestDerivatives:
    def test_none_by_itself(self):
        for way in (lambda f: f, xpr.jit):
            with pytest.raises(UnsupportedRule, match="custom_jvp"):
                xpr.grad(way(lambda x: sine(x)))(jnp.float32(1))
            with pytest.raises(UnsupportedRule, match="custom_jvp"):
                xpr.grad(way(lambda x: xpr.io_callback(host_sin, F32, x)))(1.0)

    def test_with_a_rule(self):
        @xpr.custom_jvp
        def f(x):
            return sine(x, vmap_method="expand_dims")

        f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
        x = jnp.float32(0.5)
        np.testing.assert_allclose(xpr.grad(f)(x), np.cos(0.5), rtol=1e-6)
        np.testing.assert_allclose(xpr.jit(xpr.vmap(xpr.grad(f)))(X), np.cos(np.arange(3.0)), rtol=1e-6)

    def test_outside_of_the_derivative(self):
        assert xpr.grad(lambda x: x * sine(lax.stop_gradient(x)))(jnp.float32(0.0)) == 0


class TestOrder:
    def test_ordered_callbacks_keep_their_order(self):
        seen = []

        def f(x):
            for i in range(8):
                xpr.io_callback(lambda _, i=i: seen.append(i), None, x, ordered=True)
            x = lax.fori_loop(0, 3, step, x)
            xpr.io_callback(lambda _: seen.append("end"), None, x, ordered=True)
            return lax.cond(x[0, 0] > 0, branch, lambda x: x, x)

        def step(i, x):
            xpr.debug.callback(lambda i: seen.append(f"step {i}"), i, ordered=True)
            return x @ x / 300

        def branch(x):
            xpr.debug.callback(lambda: seen.append("branch"), ordered=True)
            return x

        xpr.jit(f)(jnp.ones((300, 300)))
        assert seen == [*range(8), "step 0", "step 1", "step 2", "end", "branch"]

    def test_called_functions(self):
        seen = []
        inner = xpr.jit(lambda x: (xpr.debug.callback(lambda y: seen.append(float(y)), x, ordered=True), x + 1)[1])
        xpr.jit(lambda x: inner(inner(inner(x))))(0.0)
        assert seen == [0, 1, 2]


def body(c, x):
    xpr.debug.print("c {} x {x:.1f}", c, x=x, ordered=True)
    return c + x * jnp.sin(c), x


class TestPrint:
    def printed(self, capsys):
        return capsys.readouterr().out.splitlines()

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit, lambda f: xpr.grad(f), lambda f: xpr.jit(xpr.grad(f))])
    def test_formats(self, way, capsys):
        def f(x):
            xpr.debug.print("x is {}, {y:.2f} {s} {d[k]}", x, y=x * x, s="text", d={"k": x})
            return x * 1.0

        way(f)(1.5)
        assert self.printed(capsys) == ["x is 1.5, 2.25 text 1.5"]

    def test_in_loops_and_branches(self, capsys):
        start = jnp.float32(1)
        xpr.jit(lambda c: lax.scan(body, c, jnp.arange(2.0)))(start)
        lines = ["c 1.0 x 0.0", "c 1.0 x 1.0"]
        assert self.printed(capsys) == lines
        xpr.grad(lambda c: lax.scan(body, c, jnp.arange(2.0))[0])(start)
        assert self.printed(capsys) == lines
        xpr.jit(xpr.grad(lambda c: lax.scan(body, c, jnp.arange(2.0))[0]))(start)
        assert self.printed(capsys) == lines
        lax.while_loop(lambda c: c < 2, lambda c: (xpr.debug.print("{}", c), c + 1)[1], 0)
        lax.cond(True, lambda: xpr.debug.print("yes"), lambda: xpr.debug.print("no"))
        assert self.printed(capsys) == ["0", "1", "yes"]

    def test_residuals_that_are_hoisted_print_once(self, capsys):
        def loss(w):
            def body(c, x):
                xpr.debug.print("step")
                return c * jnp.sin(w) + x, None

            return lax.scan(body, 1.0, jnp.arange(3.0))[0]

        xpr.grad(loss)(2.0)
        assert self.printed(capsys) == ["step"] * 3

    def test_rows(self, capsys):
        f = xpr.vmap(lambda x, y: xpr.debug.print("{} {}", x, y), (0, None))
        f(X, 5.0)
        xpr.jit(f)(X, 5.0)
        assert self.printed(capsys) == ["0.0 5.0", "1.0 5.0", "2.0 5.0"] * 2
        xpr.jit(xpr.vmap(lambda x: xpr.debug.print("{}", x, ordered=True)))(X)
        assert self.printed(capsys) == ["0.0", "1.0", "2.0"]

    def test_checkpoint(self, capsys):
        xpr.grad(xpr.checkpoint(lambda x: (xpr.debug.print("{}", x), jnp.sin(jnp.sin(x)))[1]))(1.0)
        assert set(self.printed(capsys)) == {"1.0"}

    def test_print_options_are_those_of_the_caller(self, capsys):
        f = xpr.jit(lambda x: xpr.debug.print("{}", x))
        with np.printoptions(precision=2):
            f(jnp.array([1 / 3]))
        assert self.printed(capsys) == ["[0.33]"]

    def test_in_two_calls(self, capsys):
        xpr.debug.print(ordered=True)("{ordered}", ordered=1)
        xpr.debug.callback(ordered=True)(lambda ordered: print(ordered), ordered=2)
        assert self.printed(capsys) == ["1", "2"]

    @pytest.mark.parametrize(
        ("error", "call", "message"),
        [
            (IndexError, lambda: xpr.debug.print("{} {}", 1), "does not fit 1 arguments"),
            (KeyError, lambda: xpr.debug.print("{x}", y=1), "argument 'x' is missing"),
            (ValueError, lambda: xpr.debug.print("{}", 1, 2, z=3), "arguments 1, z are not used"),
            (ValueError, lambda: xpr.jit(lambda x: xpr.debug.print(f"{x}"))(1.0), "it was an f-string"),
            (TypeError, lambda: xpr.debug.print(3), "takes a format string first"),
        ],
    )
    def test_formats_that_do_not_fit(self, error, call, message):
        with pytest.raises(error, match=message):
            call()

    def test_unchecked(self, capsys):
        xpr.debug.print("{}", 1, 2, skip_format_check=True)
        assert self.printed(capsys) == ["1"]

    def test_beside_jax(self, capsys):
        jax = pytest.importorskip("jax")

        def ours_and_theirs(library):
            def f(x):
                library.debug.print("{} {y:.2f}", x, y=x * 2, ordered=True)
                return x * x

            np_ = jnp if library is xpr else jax.numpy
            library.jit(f)(1.0)
            library.jit(library.vmap(f))(np_.arange(3.0))
            library.grad(f)(3.0)
            library.lax.fori_loop(0, 2, lambda i, x: f(x), 2.0)
            library.effects_barrier()
            return self.printed(capsys)

        assert ours_and_theirs(xpr) == ours_and_theirs(jax)


def session(f, *args, commands):
    """What the debugger answers to commands."""
    answers = io.StringIO()
    f(io.StringIO("\n".join([*commands, ""])), answers)(*args)
    return answers.getvalue()


class TestBreakpoint:
    @staticmethod
    def stop(stdin, stdout):
        def f(x):
            y = {"double": x * 2}
            xpr.debug.breakpoint(stdin=stdin, stdout=stdout, num_frames=2)
            return y["double"]

        return f

    @pytest.mark.parametrize("way", [lambda f: f, xpr.jit, xpr.grad])
    def test_values(self, way):
        text = session(lambda *files: way(self.stop(*files)), 3.0, commands=["p x", "y", "pp y['double'] + 1", "c"])
        assert "3." in text
        assert "{'double': " in text
        assert "7." in text

    def test_where_it_stands(self):
        text = session(lambda *files: xpr.jit(self.stop(*files)), 3.0, commands=["l", "bt", "u", "p type(f)", "d", "d"])
        assert text.startswith("> ") and "test_callbacks.py" in text.splitlines()[0]
        assert "-> xpr.debug.breakpoint" in text or "->             xpr.debug.breakpoint" in text
        assert "function" in text
        assert "*** This is the newest frame." in text

    def test_end_of_input_goes_on(self):
        assert session(lambda *files: xpr.jit(self.stop(*files)), 3.0, commands=[])

    def test_mistakes(self):
        text = session(lambda *files: xpr.jit(self.stop(*files)), 3.0, commands=["p nothing", "", "1 +", "c"])
        assert "*** NameError: name 'nothing' is not defined" in text
        assert "*** SyntaxError" in text

    def test_quit(self):
        with pytest.raises(bdb.BdbQuit):
            session(lambda *files: xpr.jit(self.stop(*files)), 3.0, commands=["q"])

    def test_rows_stop_one_after_another(self):
        commands = ["p float(x)", "c", "p float(x)", "c"]
        text = session(lambda *files: xpr.jit(xpr.vmap(self.stop(*files))), jnp.arange(2.0), commands=commands)
        assert text.index("(xpr) 0.0") < text.index("(xpr) 1.0")

    def test_other_debuggers(self):
        with pytest.raises(ValueError, match="there is one debugger"):
            xpr.debug.breakpoint(backend="web")


def test_rows_that_have_ended_call_no_more():
    seen = []

    def count(start, limit):
        def step(i):
            return i + xpr.experimental.io_callback(lambda i: seen.append(int(i)) or np.int32(1), np.int32(0), i)

        return lax.while_loop(lambda i: i < limit, step, start)

    for f in (count, xpr.jit(count)):
        seen.clear()
        assert xpr.vmap(f, in_axes=(0, None))(np.array([0, 3]), 5).tolist() == [5, 5]
        assert seen == [0, 1, 2, 3, 4, 3, 4]
    seen.clear()
    assert xpr.vmap(count)(np.array([3, 9]), np.array([5, 7])).tolist() == [5, 9] and seen == [3, 4]


def test_results_are_arranged_as_declared():
    f = xpr.jit(lambda x: xpr.pure_callback(lambda x: {"y": [[x]]}, {"y": [x]}, x))
    assert f(2.0) == {"y": [2.0]}
    for wrong in (lambda x: (x, x), lambda x: np.ones(3)):
        with pytest.raises(RuntimeError, match="the callback must give") as caught:
            xpr.jit(lambda x, wrong=wrong: xpr.pure_callback(wrong, x, x))(2.0)
        assert isinstance(caught.value, TypeError | ValueError)
    with pytest.raises(ValueError, match="no transpose rule"):
        xpr.linear_transpose(lambda x: xpr.pure_callback(lambda x: x, x, x), 1.0)(1.0)


@pytest.mark.parametrize("verb", ["pure_callback", "io_callback"])
def test_declared_types_of_64_bits_are_refused_while_those_are_off(verb):
    f = xpr.jit(lambda x: getattr(xpr, verb)(lambda x: {"a": x}, {"a": np.zeros(2)}, x))
    with pytest.raises(ValueError, match=f"{verb}: result_shape_dtypes cannot specify 64-bit types .* Declare float32"):
        f(np.ones(2))
    with xpr.enable_x64(True):
        assert f(np.ones(2))["a"].dtype == np.float64


def test_constants_are_sent_to_the_client_of_callbacks_once(monkeypatch):
    constants = [jnp.arange(6.0) + i for i in range(3)]
    f = xpr.jit(lambda x: lax.cond(x[0] > 9, lambda: xpr.pure_callback(host_sin, x, x), lambda: x + sum(constants)))
    x = jnp.ones(6)
    first = f(x)
    sent = []
    monkeypatch.setattr(compiler, "put", lambda host, *rest, **how: sent.append(host) or put(host, *rest, **how))
    np.testing.assert_array_equal(f(x), first)
    assert len(sent) == 2  # the argument and the result
    np.testing.assert_allclose(f(10 * x), np.sin(10.0) * np.ones(6), rtol=1e-5)

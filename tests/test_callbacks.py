"""Callbacks: values, errors, order, and every transformation; beside jax where it is installed."""

import bdb
import gc
import io
import threading
import traceback
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import errors, lax
from xpr.backend import calling_executable, compiler
from xpr.backend.buffers import put
from xpr.config import Settings
from xpr.errors import TreeMismatch, UnsupportedRule

F32 = xpr.ShapeDtypeStruct((), np.float32)


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

    def test_no_elements(self, way):
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
        with pytest.raises(TypeError, match="takes a callable"):
            xpr.pure_callback(3, F32)
        with pytest.raises(TypeError, match="result_shape_dtypes must be"):
            xpr.pure_callback(host_sin, "f32", 1.0)
        with pytest.raises(ValueError, match="vmap_method is one of"):
            xpr.pure_callback(host_sin, F32, 1.0, vmap_method="fast")

    def test_other_platforms(self):
        jaxpr = xpr.make_jaxpr(sine)(X).jaxpr
        with pytest.raises(UnsupportedRule, match=r"work on CPU and CUDA.*is for tpu.*backend='cpu'"):
            xpr.compile.lower.lower_jaxpr(jaxpr, "tpu")
        module = xpr.compile.lower.lower_jaxpr(jaxpr, "gpu")
        assert module.platform == "cuda" and '"xla_ffi_python_gpu_callback"' in module.text()
        assert module.callbacks[0].settings["default_device"] == xpr.devices("cpu")[0]


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
        for call, message in (
            (
                lambda: xpr.debug.print(x=1),
                r"debug_print received unexpected arguments in the two-call form, .* no format .*: x\.",
            ),
            (lambda: xpr.debug.log(x=1), "debug_log received unexpected"),
            (
                lambda: xpr.debug.callback(None, 5),
                "debug_callback received unexpected arguments in the two-call form, .*: 5. Give them in the second",
            ),
        ):
            with pytest.raises(TypeError, match=message):
                call()
        assert self.printed(capsys) == ["1", "2"]

    @pytest.mark.parametrize(
        ("error", "call", "message"),
        [
            (IndexError, lambda: xpr.debug.print("{} {}", 1), "does not fit 1 arguments"),
            (KeyError, lambda: xpr.debug.print("{x}", y=1), "argument 'x' is missing"),
            (
                ValueError,
                lambda: xpr.debug.print("{}", 1, 2, z=3),
                r"positional arguments to `jax.debug.print`: \['1'\]; Unused keyword.*: \['z'\]",
            ),
            (ValueError, lambda: xpr.jit(lambda x: xpr.debug.print(f"{x}"))(1.0), "You may be passing an f-string"),
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
    with pytest.raises(ValueError, match="Transpose rule .* for 'pure_callback' not implemented"):
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
    f = xpr.jit(lambda x: sine(x) + sum(constants))
    x = jnp.ones(6)
    first = f(x)
    sent = []
    monkeypatch.setattr(
        calling_executable, "put", lambda host, *rest, **how: sent.append(host) or put(host, *rest, **how)
    )
    np.testing.assert_array_equal(f(x), first)
    assert len(sent) == 2  # the argument and the result


class Program:
    """A compiled function, and how often it ran without and with its callbacks."""

    def __init__(self, f, *args, **options):
        self.compiled = xpr.jit(f, **options).lower(*args).compile()
        self.tried = self.called = 0
        executable = self.executable = self.compiled.executable
        self.is_tried = executable.without_calls is not None
        execute, run = executable.execute, executable.compile_for

        def counted_execute(buffers, *with_tokens):
            self.tried += 1
            return execute(buffers, *with_tokens)

        def counted_compile(device):
            self.called += 1
            return run(device)

        if self.is_tried:
            executable.execute = counted_execute
            executable.without_calls = SimpleNamespace(execute_sharded=counted_execute)
        executable.compile_for = counted_compile

    def __call__(self, *args):
        return self.compiled(*args)


class TestInBranches:
    """NOTE [callbacks that are seldom called]."""

    def test_calls_in_any_order_of_a_jitted_function(self):
        seen = []

        def host(x):
            seen.append(float(x[0]))
            return np.asarray(x) * 10

        f = xpr.jit(lambda x: lax.cond(x[0] > 5, lambda x: xpr.pure_callback(host, x, x), lambda x: x, x))
        firsts = [1, 2, 3, 7, 1, 2, 8, 9, 7, 8, 9, 1, 2, 3, 4, 1, 2, 3, 4, 7, 1, 1, 1]
        results = [float(f(X * 0 + first)[0]) for first in firsts]
        assert results == [first * 10 if first > 5 else first for first in firsts]
        assert seen == [first for first in firsts if first > 5]

    def test_nothing_is_compiled_for_callbacks_before_one_is_called(self):
        seen = []

        def host(x):
            seen.append(np.asarray(x).tolist())
            return np.asarray(x) * 10

        def f(x):
            y = lax.cond(x.sum() > 5, lambda x: xpr.pure_callback(host, x, x), lambda x: x, x + 1)
            return y, y * 2

        program = Program(f, X)
        for _ in range(2):
            np.testing.assert_array_equal(program(X), [[1, 2, 3], [2, 4, 6]])
        assert (program.tried, program.called, seen) == (2, 0, [])
        np.testing.assert_array_equal(program(X + 2), [[30, 40, 50], [60, 80, 100]])
        assert (program.tried, program.called, seen) == (3, 1, [[3, 4, 5]])

    def test_exceptions(self):
        error = KeyError("mine")

        def fails(x):
            raise error

        f = xpr.jit(lambda x: lax.cond(x < 0, lambda x: xpr.pure_callback(fails, x, x), lambda x: x, x))
        for _ in range(3):
            assert f(2.0) == 2
            with pytest.raises(KeyError) as caught:
                f(-1.0)
            assert isinstance(caught.value, errors.CallbackError) and caught.value.__cause__ is error

    def test_effects_happen_once_and_in_order(self):
        seen = []

        def show(name):
            return lambda x: xpr.experimental.io_callback(
                lambda y: seen.append((name, float(y))), None, x, ordered=True
            )

        def f(x):
            lax.cond(x > 0, show("a"), lambda x: None, x)
            lax.cond(x > 1, lambda x: lax.cond(x > 2, show("e"), show("c"), x), lambda x: None, x)
            return x * 2

        program = Program(f, 0.0)
        assert [program(x) for x in (0.0, 1.0, 2.0, 0.0, 3.0)] == [0, 2, 4, 0, 6]
        assert seen == [("a", 1), ("a", 2), ("c", 2), ("a", 3), ("e", 3)]

    def test_calls_that_turn_out_to_be_frequent_are_not_tried_without(self):
        seen = []

        def f(x):
            lax.cond(x > 0, lambda x: xpr.debug.callback(lambda y: seen.append(float(y)), x), lambda x: None, x)
            return x + 1

        program = Program(f, 1.0)
        for i in range(1, 40):
            assert program(float(i)) == i + 1
        assert seen == list(range(1, 40)) and program.called == 1
        assert program.tried <= 6
        for _ in range(70):
            program(-1.0)
        tried = program.tried
        for _ in range(10):
            program(-1.0)
        assert program.tried == tried + 10  # now they are rare

    def test_donated_arguments(self):
        def f(x, y):
            z = lax.cond(x[0] > 5, lambda x: xpr.pure_callback(lambda x: np.asarray(x) * 10, x, x), lambda x: x, x * 2)
            return z + y, y * 3

        for start, expected in ((0.0, [1, 3, 5]), (6.0, [121, 141, 161])):
            program = Program(f, X, jnp.ones(3), donate_argnums=(0, 1))
            x, y = X + start, jnp.ones(3)
            out = program(x, y)
            np.testing.assert_array_equal(out, [expected, [3, 3, 3]])
            assert x.is_deleted() and y.is_deleted() and program.called == (start > 5)
            with pytest.raises(errors.DeletedArrayError):
                program(x, jnp.ones(3))

    @pytest.mark.parametrize("size", [3, 300])
    def test_arguments_that_are_still_computed(self, size):
        slow = xpr.jit(lambda x, a: lax.fori_loop(0, 300, lambda i, x: x @ x / size, x) + a)
        seen = []

        def host(x):
            seen.append(np.asarray(x)[0, 0])
            return np.asarray(x) * 2

        f = xpr.jit(lambda x: lax.cond(x[0, 0] > 2, lambda x: xpr.pure_callback(host, x, x), lambda x: x, x))
        ones = jnp.ones((size, size))
        for _ in range(3):
            assert float(f(slow(ones, 0.0))[0, 0]) == 1
            assert float(f(slow(ones, 2.0))[0, 0]) == 6
        assert seen == [3, 3, 3]

    def test_derivatives(self):
        seen = []

        def f(x):
            lax.cond(x > 0, lambda x: xpr.debug.callback(lambda y: seen.append(float(y)), x), lambda x: None, x)
            return lax.cond(x > 3, sine_with_a_rule, jnp.cos, x)

        def by_vjp(f):
            return lambda x: xpr.vjp(f, x)[1](1.0)[0]

        for way in (xpr.grad, xpr.jacfwd, by_vjp):
            seen.clear()
            derivative = xpr.jit(way(f))
            for x, expected in ((-1.0, -np.sin(-1)), (2.0, -np.sin(2)), (4.0, np.cos(4))):
                np.testing.assert_allclose(derivative(x), expected, rtol=1e-5)
            assert seen == [2, 4]

    def test_rows(self):
        seen = []

        def f(x):
            lax.cond(x > 2, lambda x: xpr.debug.callback(lambda y: seen.append(float(y)), x), lambda x: None, x)
            return x * 2

        program = Program(xpr.vmap(f), X)
        np.testing.assert_array_equal(program(X), 2 * X)
        assert seen == []
        np.testing.assert_array_equal(program(X + 2), 2 * X + 4)
        assert seen == [3, 4]

    def test_inside_of_a_callback(self):
        inner = xpr.jit(lambda x: lax.cond(x > 1, lambda x: xpr.pure_callback(host_sin, x, x), lambda x: x, x))
        outer = xpr.jit(
            lambda x: lax.cond(x < 9, lambda x: xpr.pure_callback(lambda y: inner(y) + 1, x, x), lambda x: x, x)
        )
        for x, expected in ((0.5, 1.5), (2.0, np.sin(2) + 1), (10.0, 10.0), (2.0, np.sin(2) + 1)):
            np.testing.assert_allclose(outer(x), expected, rtol=1e-6)

    def test_many_threads(self):
        seen = []

        def host(x):
            seen.append(float(x))
            return np.asarray(x) * 10

        f = xpr.jit(lambda x: lax.cond(x % 3 == 0, lambda x: xpr.pure_callback(host, x, x), lambda x: x, x))

        def work(start):
            for x in range(start, start + 20):
                results.append(float(f(float(x))) == (x * 10 if x % 3 == 0 else x))

        results = []
        threads = [threading.Thread(target=work, args=(20 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 80 and sorted(seen) == list(range(0, 80, 3))

    def test_random_keys(self):
        seen = []

        def f(key):
            a, b = xpr.random.split(key)
            return lax.cond(
                xpr.random.key_data(key)[-1] > 5, lambda k: (xpr.debug.callback(seen.append, k), k)[1], lambda k: k, a
            )

        program = Program(f, xpr.random.key(0))
        program(xpr.random.key(0))
        assert program.is_tried and seen == []
        program(xpr.random.key(7))
        assert len(seen) == 1 and xpr.random.key_data(seen[0]).shape == (2,)

    def test_kept_on_disk_without_its_callbacks(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Settings, "compilation_cache_dir", str(tmp_path / "cache"))
        calls = []

        def make(scale):
            def host(x):
                calls.append(scale)
                return np.asarray(x) * scale

            return Program(lambda x: lax.cond(x[0] > 5, lambda x: xpr.pure_callback(host, x, x), lambda x: x - 1, x), X)

        def hits(program):
            np.testing.assert_array_equal(program(X), X - 1)
            return program(X + 6).tolist()

        assert hits(make(2)) == [12, 14, 16]
        stored = list(tmp_path.rglob("*"))
        assert len(stored) == 2  # the folder, and one program
        compiler.forget_recent()
        monkeypatch.setattr(compiler, "compile_text", _only_with_callbacks(compiler.compile_text))
        assert hits(make(3)) == [18, 21, 24] and calls == [2, 3]  # another function, of which the text says nothing

    def test_what_is_said_of_the_program_is_said_of_it_with_callbacks(self):
        program = Program(lambda x: lax.cond(x[0] > 5, sine, lambda x: x - 1, x), X)
        assert "xla_ffi_python_cpu_callback" in program.compiled.as_text()
        assert program.compiled.cost_analysis() and program.compiled.memory_analysis().argument_size_in_bytes == 12
        assert program.called == 1

    def test_interrupted(self):
        def f(x):
            return lax.cond(x > 0, lambda x: xpr.pure_callback(interrupted, x, x), lambda x: x, x)

        def interrupted(x):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            xpr.jit(f)(1.0)

    def test_which_are_expected_to_be_called(self):
        def call(x):
            return xpr.pure_callback(host_sin, x, x)

        def show(x):
            xpr.debug.callback(print, x)
            return x

        def rarely(f):
            return lambda x: lax.cond(x > 5, f, lambda x: x, x)

        def twenty_times(f):
            return lambda x: lax.fori_loop(0, 20, lambda i, x: f(x) * 0.5, x)

        def while_small(f):
            return lambda x: lax.while_loop(lambda x: x < 5, lambda x: f(x) + 1, x)

        def with_effect(x):
            types = [xpr.ShapeDtypeStruct((1, 1), "float32"), xpr.ShapeDtypeStruct((1,), "int32"), x_int]
            return xpr.ffi.ffi_call("lapack_sgetrf_ffi", types, has_side_effect=True)(x.reshape(1, 1))

        x_int = xpr.ShapeDtypeStruct((), "int32")
        jnp.linalg.det(jnp.eye(2))  # makes the function known
        tried = [
            rarely(call), rarely(show), xpr.jit(rarely(show)), rarely(rarely(call)), rarely(xpr.jit(call)),
            rarely(twenty_times(call)), twenty_times(rarely(call)), while_small(rarely(call)),
            lambda x: lax.cond(x > 5, rarely(call), call, x), xpr.checkpoint(rarely(call)),
            lambda x: lax.map(rarely(call), jnp.ones(3)),
        ]  # fmt: skip
        not_tried = [
            call, show, xpr.jit(call), twenty_times(call), while_small(call), twenty_times(rarely(show)),
            lambda x: lax.cond(x > 5, call, show, x), lambda x: rarely(call)(call(x)),
            lambda x: (rarely(show)(x), None)[1], lambda x: (with_effect(x), rarely(call)(x))[1],
        ]  # fmt: skip
        assert [Program(f, 1.0).is_tried for f in tried] == [True] * len(tried)
        assert [_has_a_program_without(f) for f in not_tried] == [False] * len(not_tried)
        for f in tried:
            np.testing.assert_allclose(xpr.jit(f)(1.0), f(1.0), rtol=1e-6)


def _has_a_program_without(f):
    return xpr.jit(f).lower(1.0).compile().executable.without_calls is not None


def _only_with_callbacks(compile_text):
    def compile_only(text, device, options, callbacks=()):
        assert "xla_ffi_python_cpu_callback" in text
        return compile_text(text, device, options, callbacks)

    return compile_only


@xpr.custom_jvp
def sine_with_a_rule(x):
    return sine(x)


sine_with_a_rule.defjvp(lambda primals, tangents: (sine(primals[0]), jnp.cos(primals[0]) * tangents[0]))

"""Settings that warn, refuse, check and log: each does what it says, as a setting, a context and a decorator."""

import gc
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import dtypes, lax
from xpr.config import override, settings
from xpr.experimental.hijax import Box


@pytest.mark.parametrize(
    "name", ["numpy_rank_promotion", "numpy_dtype_promotion", "legacy_prng_key", "explicit_x64_dtypes"]
)
def test_a_setting_has_its_values_alone(name):
    with pytest.raises(ValueError, match=f"The setting {name} is .* or .*, and 'perhaps' was given."):
        xpr.config.update(name, "perhaps")
    with pytest.raises(ValueError, match="and 'perhaps' was given"), override(name, "perhaps"):
        pass


@pytest.mark.parametrize("variable, text, message", [
    ("XPR_ENABLE_X64", "maybe", "is 1 or 0, true or false, and 'maybe' was given"),
    ("XPR_RANDOM_SEED_OFFSET", "1.5", "is an integer, and '1.5' was given"),
    ("XPR_NUMPY_RANK_PROMOTION", "rais", "is wrong. The setting numpy_rank_promotion is 'allow', 'warn' or 'raise'"),
    ("XPR_NUM_CPU_DEVICES", "-1", "num_cpu_devices is a positive integer, and -1 is none"),
])  # fmt: skip
def test_an_environment_variable_that_says_no_value_of_its_setting(variable, text, message):
    command = [sys.executable, "-c", "import xpr; xpr.devices()"]
    done = subprocess.run(command, env={**os.environ, variable: text}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert variable in done.stderr or variable == "XPR_NUM_CPU_DEVICES"


@pytest.mark.parametrize(
    "caches, folder", [("/tmp/of-user", "/tmp/of-user"), ("relative", "~/.cache"), ("", "~/.cache")]
)
def test_the_folder_of_compiled_programs_is_in_that_of_caches(caches, folder):
    environment = {**os.environ, "XDG_CACHE_HOME": caches}
    environment.pop("XPR_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", "import xpr; print(xpr.config.compilation_cache_dir)"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == os.path.join(folder, "xpr", "programs")


class TestRanks:
    def test_raise(self):
        for operation in (jnp.add, lambda x, y: x * y, jnp.arctan2):
            with xpr.numpy_rank_promotion("raise"):
                with pytest.raises(ValueError, match=r"shapes .*\(2, 3\).* and .* require rank promotion"):
                    operation(jnp.ones((2, 3)), jnp.ones(3))
                operation(jnp.ones((2, 3)), jnp.ones((1, 3)))
                operation(jnp.ones((2, 3)), 1.0)
            operation(jnp.ones((2, 3)), jnp.ones(3))

    def test_warn(self):
        with xpr.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="require rank promotion"):
            jnp.ones((2, 3)) + jnp.ones(3)

    def test_jitted_functions_are_traced_again(self):
        f = xpr.jit(lambda x, y: x + y)
        f(jnp.ones((2, 3)), jnp.ones(3))
        with xpr.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="require rank promotion"):
            f(jnp.ones((2, 3)), jnp.ones(3))

    def test_as_decorator(self):
        @xpr.numpy_rank_promotion("raise")
        def f():
            return jnp.ones((2, 3)) + jnp.ones(3)

        for _ in range(2):
            with pytest.raises(ValueError, match="require rank promotion"):
                f()


@pytest.mark.parametrize("setting, value", [(xpr.numpy_rank_promotion, "raise"), (xpr.debug_nans, True)])
def test_the_value_of_the_process(setting, value):
    before = setting.get_global()
    with setting(value):
        assert setting.get_global() == before != value


def test_sums_of_short_floats():
    x = jnp.ones((1, 3), "bfloat16")
    lax.reduce_sum(x, (1,))
    with xpr.allow_f16_reductions(False):
        for f in (lax.reduce_sum, xpr.jit(lax.reduce_sum, static_argnums=1)):
            with pytest.raises(ValueError, match=r"sums of bf16\[1,3\] are not allowed"):
                f(x, (1,))
            f(x, (0,)), f(x.astype(float), (1,))
        jnp.sum(x)


@pytest.mark.parametrize("operation", [jnp.add, jnp.arctan2, jnp.logical_or, jnp.bitwise_or])
def test_shapes_that_do_not_broadcast_name_the_operation(operation):
    x = jnp.ones(3, int if operation is jnp.bitwise_or else float)
    name = {"logical_or": "or", "arctan2": "atan2", "bitwise_or": "or"}.get(operation.__name__, operation.__name__)
    for f in (operation, xpr.jit(operation)):
        with pytest.raises(TypeError, match=rf"{name} got incompatible shapes for broadcasting: \(3,\), \(4,\)\."):
            f(x, jnp.ones(4, x.dtype))


def test_keys_and_numbers():
    with pytest.raises(TypeError, match="add does not accept dtypes key<fry>, int32. Random keys are no numbers"):
        xpr.random.key(0) + 1


ALLOWED = [(jnp.ones(3), 1), (jnp.ones(3), 1.0), (jnp.arange(3), 1), (jnp.ones(3), jnp.asarray(1)), (1, 2.0),
           (jnp.ones(3, complex), 1.0), (jnp.ones(3), jnp.ones(3))]  # fmt: skip
REFUSED = [(jnp.ones(3), 1j), (jnp.arange(3), 1.0), (jnp.arange(3), True), (jnp.ones(3), True), (True, 1),
           (jnp.ones(3), jnp.arange(3)), (jnp.ones(3) > 0, 1), (jnp.ones(3), jnp.ones(3, "bfloat16"))]  # fmt: skip


class TestDtypes:
    @pytest.mark.parametrize("pair", ALLOWED)
    def test_allowed(self, pair):
        expected = jnp.add(*pair).dtype
        with xpr.numpy_dtype_promotion("strict"):
            assert jnp.add(*pair).dtype == expected

    @pytest.mark.parametrize("pair", REFUSED)
    def test_refused(self, pair):
        with (
            xpr.numpy_dtype_promotion("strict"),
            pytest.raises(xpr.errors.TypePromotionError, match="are not converted implicitly while numpy_dtype_prom"),
        ):
            jnp.add(*pair)
        jnp.add(*pair)


def test_legacy_keys():
    key = xpr.random.PRNGKey(0)
    with xpr.legacy_prng_key("error"):
        with pytest.raises(ValueError, match="Legacy uint32 key array passed as key"):
            xpr.random.normal(key)
        xpr.random.normal(xpr.random.key(0))
        with pytest.raises(TypeError, match="invalid PRNG key data: expected a random key"):
            xpr.random.normal(jnp.zeros(1))
    with xpr.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32 key array passed as key"):
        xpr.random.split(key)


class TestLeaks:
    @pytest.fixture(autouse=True)
    def frozen(self):
        """Each trace that ends looks through all objects of the process: not through those of earlier tests."""
        gc.collect()
        gc.freeze()

    def test_a_kept_tracer(self):
        kept = []
        with (
            xpr.checking_leaks(),
            pytest.raises(
                xpr.errors.LeakedTracerError, match=r"(?s)f32\[3\]: it is still referred to .* a list.*argument x"
            ),
        ):
            xpr.jit(lambda x: kept.append(x * 2))(jnp.ones(3))

    @pytest.mark.parametrize(
        "transformed",
        [
            xpr.vmap,
            xpr.grad,
            lambda f: lambda x: xpr.jvp(f, (x,), (x,)),
            lambda f: lambda x: xpr.linearize(f, x),
            lambda f: xpr.grad(lambda x: xpr.vmap(f)(x).sum()),
        ],
    )
    def test_a_tracer_kept_under_other_transformations(self, transformed):
        kept = []
        with xpr.check_tracer_leaks(), pytest.raises(xpr.errors.LeakedTracerError, match="by a list"):
            transformed(lambda x: kept.append(x) or x.sum())(jnp.ones(3))

    def test_nothing_kept_under_other_transformations(self):
        with xpr.check_tracer_leaks():
            xpr.vmap(xpr.value_and_grad(lambda x: jnp.sin(x) * x))(jnp.ones(3))

    def test_nothing_kept(self):
        with xpr.check_tracer_leaks():
            f = xpr.jit(lambda x: lax.cond(x.sum() > 0, lambda x: x, jnp.sin, x))
            np.testing.assert_array_equal(xpr.grad(lambda x: f(x).sum())(jnp.ones(3)), np.ones(3))

    def test_functions_with_rules_keep_nothing(self):
        with_jvp, with_vjp = xpr.custom_jvp(lambda x: x), xpr.custom_vjp(lambda x: x)
        with_jvp.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
        with_vjp.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
        with_rows = xpr.custom_batching.custom_vmap(lambda x: x)
        with_rows.def_vmap(lambda size, batched, x: (x, batched[0]))
        for f in (with_jvp, with_vjp, with_rows):
            with xpr.check_tracer_leaks():
                assert xpr.jit(lambda x, f=f: f(x))(3.0) == 3


def test_checks_of_each_jaxpr():
    def wrong(x):
        context = xpr.core.context.trace
        outs = context.process(lax.add_p, [x, x], {})
        context.eqns.reverse()
        return outs[0]

    with xpr.enable_checks(), pytest.raises(xpr.errors.JaxprTypeError, match="used before it is bound"):
        xpr.make_jaxpr(lambda x: wrong(x * 2))(1.0)


class TestLogs:
    @pytest.fixture
    def lines(self, caplog):
        caplog.set_level(logging.WARNING, logger="xpr")
        return lambda: [record.getMessage() for record in caplog.records]

    def test_compiles(self, lines):
        def squared(x):
            return x * x

        with xpr.log_compiles():
            f = xpr.jit(squared)
            f(jnp.ones(3)), f(jnp.ones(3))
        steps = [line.split(" in ")[0] for line in lines()]
        assert steps == [
            "Finished tracing squared for jit",
            "Finished lowering of jit(squared)",
            "Compiling jit(squared) for arguments of types (f32[3])",
            "Finished XLA compilation of jit(squared)",
        ]

    def test_cache_misses(self, lines):
        f = xpr.jit(lambda x, *, n: x * n, static_argnames="n")
        with xpr.explain_cache_misses():
            f(jnp.ones(3), n=2), f(jnp.ones(3), n=2), f(jnp.ones(3), n=3), f(jnp.ones(4), n=2)
        first, second, third = lines()
        assert "is traced for the first time. It is called at test_settings.py:" in first
        assert "TRACING CACHE MISS: never seen function" in first and "TRACING CACHE MISS" in second
        assert "different static argument n: now" in second and second.endswith("and before 2")
        assert third.endswith("different input types: at x, now f32[4] and before f32[3]")
        assert "f(jnp.ones(3), n=2), f(jnp.ones(3), n=2)" in third.splitlines()[0]

    def test_cache_misses_by_settings_and_functions_made_anew(self, lines):
        def made():
            return xpr.jit(lambda x: x + 1)

        with xpr.explain_cache_misses():
            f = made()
            f(1.0)
            with xpr.default_matmul_precision("highest"):
                f(1.0)
            made()(1.0)
        first, second, third = lines()
        assert "another function" not in first
        assert second.endswith(
            "different tracing context: setting default_matmul_precision, now highest and before None"
        )
        assert "another function defined on the same line, the second" in third and "Make it once" in third

    def test_cache_misses_of_functions_that_close_over_mutable_values(self, lines):
        box = Box(1.0)
        f = xpr.jit(lambda x: box.get() * x)
        with xpr.explain_cache_misses():
            f(2.0), box.set(jnp.ones(3)), f(2.0), f(2)
        _, second, third = lines()
        assert second.endswith("or a mutable value that it closes over has another type")
        assert third.endswith("different input types: at x, now i32[] and before f32[]")

    def test_programs_are_logged_for_debugging_where_the_setting_is_off(self, lines, caplog):
        caplog.set_level(logging.DEBUG, logger="xpr")
        xpr.jit(lambda x: x * 3)(jnp.ones(3))
        assert [record.levelname for record in caplog.records] == ["DEBUG"] * 4
        assert lines()[0].startswith("Finished tracing <lambda> for jit in")


HOST = np.ones(10, np.float32)
IMPLICIT = {
    "jit": lambda: xpr.jit(lambda x: x + 1)(HOST),
    "jit of a number": lambda: xpr.jit(lambda x: x + 1)(2.0),
    "operand": lambda: lax.sin(HOST),
    "number": lambda: jnp.ones(3) + 1,
    "ones": lambda: jnp.ones(1),
    "asarray": lambda: jnp.asarray(HOST),
    "list": lambda: jnp.array([1, 2]),
    "scalar": lambda: jnp.array(1.0),
    "NumPy scalar": lambda: jnp.array(np.int32(1)),
}


def test_no_tracing():
    f = xpr.jit(lambda x: x + 1)
    f(1.0)
    with xpr.no_tracing():
        assert f(2.0) == 3
        with pytest.raises(RuntimeError, match="<lambda> at .* would be traced for a new signature, and no_tracing"):
            f(HOST)
    f(HOST)


def test_no_execution():
    f = xpr.jit(lambda x: x + 1)
    f(1.0)
    with xpr.no_execution():
        assert xpr.make_jaxpr(f)(1.0).out_avals[0].str_short() == "f32[]"
        with pytest.raises(RuntimeError, match="<lambda> would be run, and no_execution is set"):
            f(1.0)
        with pytest.raises(RuntimeError, match="mul would be run"):
            lax.mul(2.0, 3.0)
    assert f(1.0) == 2


class TestUserContext:
    def test_functions_are_traced_for_each_value(self):
        scale, traced = xpr.make_user_context(1.0), []
        f = xpr.jit(lambda x: traced.append(scale.value) or x * scale.value)
        assert f(2.0) == 2
        with scale(3.0):
            assert f(2.0) == 6
            with scale(4.0):
                assert f(2.0) == 8
            assert f(2.0) == 6
        assert f(2.0) == 2 and traced == [1.0, 3.0, 4.0]

    def test_for_all_threads(self):
        context = xpr.make_user_context()
        assert context.get_global() is None and context.value is None
        context.set_global("a")
        with context("b"):
            assert (context.value, context.get_global()) == ("b", "a")
        assert context.value == "a" and repr(context) == "<user context with the value 'a'>"
        context.set_global(None)

    def test_values_are_keys(self):
        with pytest.raises(TypeError, match="unhashable"):
            xpr.make_user_context([])
        with pytest.raises(TypeError, match="unhashable"):
            xpr.make_user_context()([])


class TestTransferGuard:
    @pytest.mark.parametrize("name", IMPLICIT)
    def test_implicit_transfers_from_the_host(self, name, caplog):
        IMPLICIT[name]()
        with xpr.transfer_guard("disallow"):
            with pytest.raises(xpr.errors.TransferError, match="Implicit host-to-device transfer of .*device_put"):
                IMPLICIT[name]()
            with xpr.transfer_guard_host_to_device("allow"):
                IMPLICIT[name]()
        with xpr.transfer_guard("log"), caplog.at_level(logging.WARNING, "xpr"):
            IMPLICIT[name]()
        assert "Implicit host-to-device transfer" in caplog.text
        IMPLICIT[name]()

    def test_explicit_transfers(self, caplog):
        with xpr.transfer_guard("disallow"):
            x = xpr.device_put({"w": HOST, "n": 1})["w"]
            np.testing.assert_array_equal(xpr.device_get(xpr.jit(jnp.negative)(x)), -HOST)
        with xpr.transfer_guard("log_explicit"), caplog.at_level(logging.WARNING, "xpr"):
            xpr.device_put(HOST)
        assert caplog.messages == ["Explicit host-to-device transfer of an array of type f32[10]."]
        with xpr.transfer_guard("disallow_explicit"):
            with pytest.raises(xpr.errors.TransferError, match=r'"disallow_explicit". Allow it: with xpr.transfer'):
                xpr.device_put(HOST)
            with pytest.raises(xpr.errors.TransferError, match=r"Explicit device-to-device .* f32\[10\]"):
                xpr.device_put(x)

    def test_programs_are_not_compiled_again(self):
        traced = []
        f = xpr.jit(lambda x: traced.append(x) or x * 2)
        x = xpr.device_put(HOST)
        f(x)
        with xpr.transfer_guard("disallow"):
            f(x)
        assert len(traced) == 1 and len(f.caches.compiled) == 1

    def test_donation(self):
        f = xpr.jit(lambda x: x * 2, donate_argnums=0)
        with xpr.transfer_guard("disallow"):
            x = xpr.device_put(HOST)
            f(x)
        assert x.is_deleted()

    def test_what_is_traced_has_constants(self):
        with xpr.transfer_guard("disallow"):
            xpr.jit(lambda x: x + HOST + jnp.arange(10))(xpr.device_put(HOST))

    def test_with_debug_nans(self):
        x = xpr.device_put(-HOST)
        with xpr.transfer_guard("disallow"), xpr.debug_nans(True):
            with pytest.raises(FloatingPointError):
                xpr.jit(jnp.log)(x)
            with pytest.raises(xpr.errors.TransferError):
                jnp.log(HOST)
        with xpr.debug_nans(True), xpr.transfer_guard("disallow"), pytest.raises(FloatingPointError):
            xpr.jit(jnp.log)(x)

    def test_reading_on_the_cpu_is_no_transfer(self):
        x = xpr.jit(jnp.sin)(HOST)
        with xpr.transfer_guard("disallow"):
            np.asarray(x), float(x[0].sum()), str(x)

    def test_for_the_process(self):
        try:
            xpr.config.update("jax_transfer_guard", "disallow")
            with pytest.raises(xpr.errors.TransferError):
                jnp.asarray(HOST)
            with xpr.transfer_guard("allow"):
                jnp.asarray(HOST)
        finally:
            xpr.config.update("transfer_guard", "allow")
        jnp.asarray(HOST)

    def test_values(self):
        with (
            pytest.raises(ValueError, match="transfer_guard is 'allow', .* and 'no' was given"),
            xpr.transfer_guard("no"),
        ):
            pass


class TestExplicit64Bits:
    """While 64-bit types are off, those that are asked for by name are narrowed, refused or made."""

    def test_allow(self):
        with override("explicit_x64_dtypes", "allow"):
            x = jnp.zeros(3, "float64")
            wide = [x, x + 1, 2.0 * x, x + jnp.ones(3), jnp.sin(x), x.mean(), x @ x,
                    xpr.grad(lambda x: (x**2).sum())(x),
                    xpr.jit(lambda x: jnp.where(x > 0, x, 0.0))(x), jnp.linspace(0, 1, 3, dtype="float64"),
                    jnp.asarray(np.ones(3), "float64"), xpr.random.normal(xpr.random.key(0), (3,), "float64"),
                    lax.convert_element_type(1, np.float64), jnp.sin(jnp.zeros(3, "int64"))]  # fmt: skip
            assert {y.dtype.name for y in wide} == {"float64"}
            narrow = [jnp.zeros(3), jnp.zeros(3, float), jnp.asarray(np.ones(3)), jnp.asarray(1.0), jnp.sin(1)]
            assert {y.dtype.name for y in narrow} == {"float32"}
            assert (jnp.ones(3, "int32") + jnp.ones(3, "uint32")).dtype == np.int32
            assert xpr.ShapeDtypeStruct((), "int64").dtype == jnp.result_type("int64", "int32") == np.int64
            assert dtypes.canonicalize_dtype("float64") == np.float32

    def test_error(self):
        with override("explicit_x64_dtypes", "error"):
            for call in (jnp.zeros, jnp.ones, xpr.ShapeDtypeStruct):
                with pytest.raises(ValueError, match="Explicitly requested dtype float64 is not .* ask for float32"):
                    call((2,), "float64")
            assert jnp.zeros(2, float).dtype == jnp.asarray(np.ones(2)).dtype == np.float32

    def test_jitted_functions_are_traced_again(self):
        f = xpr.jit(lambda x: x.astype("float64"))
        dtype_of = lambda: f(jnp.ones(2)).dtype
        with pytest.warns(xpr.errors.NarrowingWarning):
            assert dtype_of() == np.float32
        with override("explicit_x64_dtypes", "allow"):
            assert dtype_of() == np.float64


A, B = jnp.ones((2, 3)), jnp.ones(3)
OF_THE_LIBRARY = {
    "resize": lambda: xpr.image.resize(jnp.ones((4, 4, 3)), (2, 3, 3), "linear"),
    "resize of integers": lambda: xpr.image.resize(jnp.ones((4, 4), int), (2, 3), "linear"),
    "var": lambda: jnp.var(A, 0),
    "cov": lambda: jnp.cov(A),
    "interp": lambda: jnp.interp(A, B, B),
    "lstsq": lambda: jnp.linalg.lstsq(jnp.ones((3, 2)), B),
    "logpdf": lambda: xpr.scipy.stats.multivariate_normal.logpdf(B, B, jnp.eye(3)),
    "softmax": lambda: xpr.nn.softmax(A),
    "dirichlet": lambda: xpr.random.dirichlet(xpr.random.key(0), B, (2,)),
}


@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_promotions_inside_of_functions_of_the_library_are_allowed(name):
    with xpr.numpy_rank_promotion("raise"), xpr.numpy_dtype_promotion("strict"):
        OF_THE_LIBRARY[name]()


def test_static_indices_out_of_range_are_clipped_where_they_are_not_checked():
    x = jnp.arange(6.0).reshape(2, 3)
    reads = (lambda x: x[5], lambda x: x[-5], lambda x: x[:, 7], lambda x: x[1:, -9], lambda x: x[np.arange(2), 3])
    for read in reads:
        with pytest.raises(IndexError, match="out of bounds for axis"):
            xpr.jit(read)(x)
    f = xpr.jit(lambda x: [read(x) for read in reads])
    with override("check_static_indices", False):
        for rows in ([read(x) for read in reads], f(x)):
            assert [r.tolist() for r in rows] == [[3, 4, 5], [0, 1, 2], [2, 5], [3], [2, 5]]
        np.testing.assert_array_equal(x.at[5].set(1.0), x)
        np.testing.assert_array_equal(x.at[1, -1].add(1.0)[1], [3, 4, 6])
        assert x[1, 2] == 5 and x.at[0].get().shape == (3,)
        with pytest.raises(IndexError, match="Too many indices"):
            x[0, 0, 0]


def test_python_integers_out_of_range_wrap_around_where_they_are_not_checked():
    x = jnp.array([1, 2], jnp.uint8)
    products = (lambda x: x * -1, lambda x: 300 + x, lambda x: jnp.where(x > 1, x, -2), lambda x: x.at[1].add(-3))
    for product in (*products, *map(xpr.jit, products)):
        with pytest.raises(OverflowError, match=r"Python int.* (out of bounds|too large|too small) "):
            product(x)
    with override("check_python_integers", False):
        for product in (*products, *map(xpr.jit, products)):
            assert product(x).dtype == jnp.uint8
        assert [product(x).tolist() for product in products] == [[255, 254], [45, 46], [254, 2], [1, 255]]
        with pytest.raises(OverflowError, match="too large to convert to int32"):
            x + 2**40


def test_products_with_masks_are_choices_where_those_are_not_exact():
    x, mask = jnp.array([jnp.inf, 2.0, jnp.nan]), jnp.array([False, True, False])
    products = (
        lambda x: x * mask, lambda x: mask * x, lambda x: x[None, ::2] * mask[:1, None], lambda x: x[2] * mask[:1],
        lambda x: xpr.jit(lambda x: x * mask.astype(x.dtype))(x), xpr.grad(lambda x: jnp.sum(x * mask * x)),
    )  # fmt: skip
    for product in (*products, *map(xpr.jit, products)):
        assert jnp.isnan(product(x)).any()
    with override("exact_masks", False):
        for product in (*products, *map(xpr.jit, products)):
            result = product(x)
            assert result.dtype == jnp.float32 and not jnp.isnan(result).any()
        assert (x * mask).tolist() == [0, 2, 0] and (2.5 * mask).tolist() == [0, 2.5, 0]
        assert (mask * mask).dtype == bool and (jnp.arange(3) * mask).tolist() == [0, 1, 0]


def test_seeds_are_offset():
    with override("random_seed_offset", 3):
        offset = [
            xpr.random.key(17),
            xpr.jit(xpr.random.key)(17),
            xpr.random.key(17, impl="rbg"),
            xpr.random.PRNGKey(17),
        ]
    plain = [xpr.random.key(20), xpr.random.key(20), xpr.random.key(20, impl="rbg"), xpr.random.PRNGKey(20)]
    for one, other in zip(offset, plain):
        np.testing.assert_array_equal(*(xpr.random.key_data(k) if k.ndim == 0 else k for k in (one, other)))


def test_types_like_arrays():
    x = jnp.asarray(1.0)
    assert xpr.ShapeDtypeStruct.like(x) == xpr.ShapeDtypeStruct((), "float32", weak_type=True)
    key = xpr.random.key(0)
    assert xpr.eval_shape(lambda k: k, xpr.ShapeDtypeStruct.like(key)) == xpr.ShapeDtypeStruct((), key.dtype)
    assert xpr.ShapeDtypeStruct.like(np.ones((2, 3))).shape == (2, 3)


def test_flags_of_jax_that_change_no_result():
    """They are taken and read back; what is kept on disk has a switch of its own."""
    before = xpr.config.read("jax_persistent_cache_min_compile_time_secs")
    xpr.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    assert xpr.config.jax_persistent_cache_min_compile_time_secs == 0
    xpr.config.update("persistent_cache_min_compile_time_secs", before)
    assert xpr.config.jax_disable_most_optimizations is False  # which tests of libraries set
    with override("compilation_cache_dir", "somewhere"):
        assert settings.programs_folder == "somewhere"
        with override("enable_compilation_cache", False):
            assert settings.programs_folder is None
    with pytest.raises(AttributeError, match="xpr has no setting 'jax_no_such_flag'"):
        xpr.config.update("jax_no_such_flag", 0)

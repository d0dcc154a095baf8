"""The options that programs are compiled with: those the library chooses by what a program holds, and the user's."""

import functools

import jaxlib.version
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import one_operation
from xpr import lax
from xpr.backend import compiler, devices, native
from xpr.backend.codegen import Codegen, codegen_of_text
from xpr.backend.compile_options import compile_options
from xpr.backend.processor import CORES
from xpr.compile.lower import lower_jaxpr
from xpr.core.avals import ShapedArray
from xpr.extend import core
from xpr.interpreters import mlir
from xpr.scipy import special

pytestmark = pytest.mark.optimized

F32_8 = ShapedArray((8,), "float32")
TWICE = one_operation("add", F32_8)


@pytest.fixture
def device():
    return devices.local_devices(backend="cpu")[0]


def test_options_reach_the_compiler(device):
    for options in ({"xla_backend_optimization_level": 0}, {"xla_cpu_small_while_loop_byte_threshold": 1024}):
        compiler.compile(TWICE, [F32_8], device, options=options)


def flags_of(options):
    return dict(options.env_option_overrides), options.SerializeAsString()


def test_small_loops_are_larger_by_default(device):
    _, default = flags_of(compile_options(device, None))
    assert b"xla_cpu_small_while_loop_byte_threshold\x12\x0565536" in default
    _, chosen = flags_of(compile_options(device, {"xla_cpu_small_while_loop_byte_threshold": 7}))
    assert b"xla_cpu_small_while_loop_byte_threshold\x12\x017" in chosen and b"65536" not in chosen


def test_loops_are_unrolled_where_that_is_faster(device):
    option = b"xla_cpu_disable_loop_unrolling"
    assert option not in flags_of(compile_options(device, None))[1]
    assert option + b"\x12\x04true" in flags_of(compile_options(device, None, codegen=Codegen(unrolled=False)))[1]


def test_large_transposes_are_written_in_tiles(device):
    def tiled(f, n):
        return lower_jaxpr(xpr.make_jaxpr(f)(np.ones((n, n), np.float32)).jaxpr).codegen.tiled

    assert tiled(lambda x: x.T + 1, 512) and not tiled(lambda x: x.T + 1, 500)
    assert not tiled(lambda x: jnp.swapaxes(x[None], 0, 1), 512)
    assert tiled(lambda x: x.T.reshape(-1), 200) and not tiled(lambda x: x.T.reshape(-1), 100)
    assert not tiled(lambda x: x.T + 1, 200), "loops are as fast where something is computed"
    option = b"xla_cpu_disable_tiled_emitter"
    assert option in flags_of(compile_options(device, None))[1]
    assert option not in flags_of(compile_options(device, None, codegen=Codegen(tiled=True)))[1]


def test_lone_functions_are_written_in_tiles_for_short_vectors(device, monkeypatch):
    def lone(f):
        return lower_jaxpr(xpr.make_jaxpr(f)(np.ones(9, np.float32)).jaxpr).codegen.lone

    assert lone(jnp.exp) and lone(jnp.tanh)
    assert not lone(jnp.sqrt) and not lone(lambda x: jnp.exp(-x))
    for has_avx512 in (True, False):
        monkeypatch.setattr("xpr.backend.compile_options.HAS_AVX512", has_avx512)
        written = flags_of(compile_options(device, None, codegen=Codegen(lone=True)))[1]
        assert (b"xla_cpu_disable_tiled_emitter" in written) is has_avx512


def test_programs_that_run_for_microseconds_are_compiled_quickly():
    def quick(f, n):
        return lower_jaxpr(xpr.make_jaxpr(f)(np.ones(n, np.float32)).jaxpr).codegen.quick

    assert quick(lambda x: jnp.sum(jnp.exp(x) * x), 1000) and not quick(lambda x: jnp.sum(jnp.exp(x) * x), 100_000)
    assert quick(xpr.lax.erf, 500) and not quick(xpr.lax.erf, 1000), "XLA expands it to some hundred operations"
    centered = lambda x, n: functools.reduce(lambda x, _: x - jnp.sum(x), range(n), x)
    assert quick(lambda x: centered(x, 3), 100) and not quick(lambda x: centered(x, 4), 100)
    assert quick(lambda x: centered(x, 4), 8), "short loops are compiled quickly"
    loop = lambda x: xpr.lax.fori_loop(0, 10, lambda i, c: c * x, x)
    assert quick(loop, 1000) and not quick(loop, 100_000)
    assert not quick(lambda x: x.at[jnp.arange(3)].add(1.0), 8)
    assert quick(lambda x: [x * i for i in range(8)], 8) and not quick(lambda x: [x * i for i in range(2, 20)], 8)
    assert not quick(lambda x: jnp.concatenate([x * i for i in range(2, 20)]), 8), "each is a kernel"
    assert quick(lambda x: sum(jnp.tanh(x * i) for i in range(2, 20)), 8), "all of them are one"
    layer = lambda x: jnp.tanh(jnp.outer(x, x) @ jnp.outer(x, x))
    assert quick(layer, 20) and not quick(layer, 30), "each element of the product is computed by itself"
    rectified = lambda x: jnp.maximum(jnp.outer(x, x) @ jnp.outer(x, x), 0)
    assert quick(rectified, 60) and not quick(rectified, 70), "which takes a part of a nanosecond"
    layers = lambda x: xpr.lax.fori_loop(0, 10, lambda i, x: layer(x)[0], x)
    assert quick(layers, 5) and not quick(layers, 10), "in each step"
    of_results_of_c = lambda x: jnp.exp(x) * jnp.arcsin(x)
    assert quick(of_results_of_c, 500) and quick(jnp.arcsin, 1000)
    assert quick(of_results_of_c, 1000) is not native.available(), "exp may overwrite what C has written"
    states = lambda x: xpr.lax.scan(lambda c, x: (c + x, c * x), x, jnp.outer(x, x))[1]
    assert quick(lambda x: jnp.tanh(states(x)), 20) and not quick(lambda x: jnp.tanh(states(x)), 30)
    assert quick(states, 30) and quick(lambda x: states(x)[0], 30)
    draw = lambda x: x + xpr.random.normal(xpr.random.key(0), x.shape)
    assert not quick(draw, 8), "the last bits are those of JAX"
    assert quick(lambda x: jnp.sum(draw(x)), 8) and quick(lambda x: jnp.sum(draw(x)), 33), "which a sum's are not"
    assert quick(lambda x: jnp.outer(x, x) @ draw(x), 8) and quick(lambda x: [jnp.vdot(x, x), draw(x)], 100)
    cauchy = lambda x: [x + xpr.random.cauchy(xpr.random.key(0), x.shape), jnp.sum(x)]
    assert not quick(cauchy, 8), "tangents are computed by formulas of their own"
    half = lambda x: [xpr.random.exponential(xpr.random.key(0), x.shape, "float16"), jnp.sum(x)]
    assert not quick(half, 8), "and so are logarithms of float16"
    assert quick(lambda x: xpr.lax.fori_loop(0, 10, lambda i, x: draw(x), x), 8), "loops are compiled in one way"
    assert quick(lambda x: [jnp.exp(x), xpr.random.split(xpr.random.key(0))], 8), "keys are the same in any case"


def test_what_is_done_before_another_thread_is_awake_runs_on_one(device, monkeypatch):
    def serial(f, n):
        return lower_jaxpr(xpr.make_jaxpr(f)(np.ones(n, np.float32)).jaxpr).codegen.serial

    assert serial(jnp.sin, 8000) and not serial(jnp.sin, 1_000_000)
    assert serial(lambda x: x + 1, 250_000) and not serial(lambda x: x + 1, 300_000), "memory has room for several"
    assert serial(lambda x: x.reshape(100, -1).T + 1, 30_000) and not serial(lambda x: x.reshape(100, -1).T, 100_000)
    repeated = lambda x: functools.reduce(lambda x, _: jnp.sin(x), range(100), x)
    assert not serial(repeated, 8000), "a function counts as often as it is called"
    loop = lambda x: lax.fori_loop(0, 10, lambda i, x: x * x + 1, x)
    assert serial(loop, 100_000) and not serial(loop, 1_000_000)
    assert not serial(lambda x: jnp.sum(x.reshape(-1, 100), 1), 10_000_000), "of a reduction, what is read"
    windows = lambda x: lax.reduce_window(x, 0.0, lax.add, (100,), (100,), "VALID")
    assert "reduce_window" in xpr.jit(windows).lower(np.ones(10_000, np.float32)).as_text()
    assert not serial(windows, 10_000), "windows may read many elements for each that they write"
    option = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
    assert option.items() <= flags_of(compile_options(device, None, codegen=Codegen(serial=True)))[0].items()
    assert not option.keys() & flags_of(compile_options(device, None))[0].keys()
    chosen = {"xla_disable_hlo_passes": "dce"}
    assert chosen.items() <= flags_of(compile_options(device, chosen, codegen=Codegen(serial=True)))[0].items()
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=dce")
    assert not option.keys() & flags_of(compile_options(device, None, codegen=Codegen(serial=True)))[0].keys()


def test_what_is_not_counted_may_run_on_several_threads():
    x = np.ones(8, np.float32)
    exported = xpr.export.export(xpr.jit(jnp.sin))(x)
    sine_p = core.Primitive("sine")
    sine_p.def_abstract_eval(lambda x: x)
    sine = lambda ctx, x: mlir.ir.Operation.create("stablehlo.sine", results=[x.type], operands=[x]).results
    mlir.register_lowering(sine_p, sine)
    for f in exported.call, sine_p.bind, xpr.jit(lambda x: exported.call(x) + 1):
        assert not lower_jaxpr(xpr.make_jaxpr(f)(x).jaxpr).codegen.serial


def test_passes_that_do_nothing_for_a_program_are_left_out(device, monkeypatch):
    def without(codegen):
        passes = flags_of(compile_options(device, None, codegen=codegen))[0].get("xla_disable_hlo_passes", "")
        return set(passes.split(",")) - {""}

    def of(f, dtype="float32"):
        module = lower_jaxpr(xpr.make_jaxpr(f)(np.ones(8, dtype)).jaxpr)
        return without(codegen_of_text(module.codegen._replace(serial=False), module.text()))

    verifier, bfloat16 = "hlo-verifier", "float-normalization-bf16"
    assert {verifier, bfloat16, "float-normalization-s4"} < of(jnp.sin)
    for small in "bfloat16", "float16", "float8_e4m3fn", "int4", "uint4":
        assert of(lambda x, small=small: x.astype(small).astype(x.dtype) + 1) == {verifier}, small
    exported = xpr.export.export(xpr.jit(jnp.sin))(np.ones(8, np.float32))
    assert not of(exported.call), "others wrote it"
    partitioned = lower_jaxpr(xpr.make_jaxpr(jnp.sin)(np.ones(8)).jaxpr, mesh=xpr.make_mesh((1,), ("x",))).codegen
    assert partitioned.verified and not without(Codegen())
    assert not without(codegen_of_text(partitioned, "")._replace(serial=False)), (
        "its text may become another one when it is partitioned"
    )
    enabled = compile_options(device, {"xla_enable_hlo_passes_only": "dce"}, codegen=Codegen(serial=True))
    assert "xla_disable_hlo_passes" not in flags_of(enabled)[0], "XLA takes one of them alone"
    for flag in "--xla_disable_hlo_passes=dce", "--xla_enable_hlo_passes_only=dce":
        monkeypatch.setenv("XLA_FLAGS", flag)
        assert not of(jnp.sin)


@pytest.mark.parametrize("small", ["bfloat16", "float16", "float8_e5m2", "int4", "uint4"])
def test_small_types_are_computed_with(small):
    """By passes of XLA that programs without them do without."""
    x = np.arange(8).astype(small)
    doubled = xpr.jit(lambda x: x + x)(x)
    np.testing.assert_array_equal(np.asarray(doubled).astype(np.float32), (x + x).astype(np.float32))
    assert doubled.dtype == x.dtype


def test_kernels_of_serial_programs_are_not_divided():
    def divided(n):
        return "outer_dimension_partitions" in xpr.jit(jnp.sin).lower(np.ones(n, np.float32)).compile().as_text()

    assert not divided(8000)
    assert divided(1_000_000) or CORES == 1


def test_deep_networks_and_small_programs_are_not_unrolled():
    def network(x, depth):
        for _ in range(depth):
            x = xpr.numpy.tanh(x @ x)
        return x

    def codegen(f, *shape):
        return lower_jaxpr(xpr.make_jaxpr(f)(np.ones(shape, np.float32)).jaxpr).codegen

    large, small, short_rows = (300, 300), (20, 30), (300, 10)
    assert codegen(lambda x: x + 1, *large).unrolled and not codegen(lambda x: x + 1, *small).unrolled
    assert codegen(lambda x: network(x, 3), *large).unrolled and not codegen(lambda x: network(x, 8), *large).unrolled
    assert codegen(jnp.tanh, *short_rows)[:2] == (True, True) and not codegen(jnp.tanh, *large).narrow
    assert not codegen(lambda x: network(x @ x.T, 2), 60, 10).unrolled
    sums = lambda x: jnp.sum(x, 0) + jnp.sum(x, 1)
    assert codegen(sums, 150, 150).unrolled and not codegen(sums, 50, 50).unrolled


def test_loops_over_rows_are_not_unrolled():
    def codegen(step, *shape):
        loop = lambda x: xpr.lax.fori_loop(0, 9, lambda i, x: step(x), x)
        return lower_jaxpr(xpr.make_jaxpr(loop)(np.ones(shape, np.float32)).jaxpr).codegen[:2]

    rolled, unrolled_and_narrow = (False, False), (True, True)
    for step in (jnp.tanh, xpr.nn.softmax, lambda x: x @ x):
        assert codegen(step, 30, 30) == rolled
    for step in (lambda x: x.T @ x, lambda x: jnp.roll(x, 1, 0), lambda x: x[:, :8].sum() + x):
        assert codegen(step, 30, 30) == unrolled_and_narrow
    assert codegen(jnp.tanh, 30, 3) == unrolled_and_narrow and codegen(jnp.tanh, 600, 600) == (True, False)


def test_vectors_of_short_rows_are_narrow(device):
    option = "xla_cpu_prefer_vector_width"
    assert flags_of(compile_options(device, None))[0][option] == 512
    assert option not in flags_of(compile_options(device, None, codegen=Codegen(narrow=True)))[0]


@pytest.mark.parametrize("size", [600, 2000])
def test_loops_that_xla_cannot_make_one_kernel(size):
    """In which it divides an operation among threads, on a machine with a few of them."""
    key = xpr.random.key(3)
    draws = xpr.jit(lambda key: xpr.random.poisson(key, 3.0, (size,)))(key)
    np.testing.assert_array_equal(draws, xpr.random.poisson(key, 3.0, (5000,))[:size])
    grown = xpr.jit(
        lambda x: lax.while_loop(
            lambda x: jnp.any(x < 100), lambda x: special.gammaln(x + 1) + special.gammaln(x + 2.5) + 10, x
        )
    )(jnp.ones(size))
    np.testing.assert_allclose(grown, np.full(size, grown[0]), rtol=1e-6)


def test_a_loop_with_a_larger_state_is_one_kernel(device):
    """4 KB of state: above XLA's own threshold and below ours."""
    t = "tensor<1024xf32>"
    text = f"""module {{ func.func public @main(%arg0: {t}) -> ({t}) {{
      %n = stablehlo.constant dense<5> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %x = %arg0) : tensor<i32>, {t}
      cond {{ %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %go : tensor<i1> }}
      do {{ %next = stablehlo.add %i, %one : tensor<i32>
           %y = stablehlo.cosine %x : {t}
           stablehlo.return %next, %y : tensor<i32>, {t} }}
      return %r#1 : {t} }} }}"""
    aval = ShapedArray((1024,), "float32")
    small = "small_call"
    assert small in compiler.compile(text, [aval], device).as_text()
    own = {"xla_cpu_small_while_loop_byte_threshold": 1024}
    assert small not in compiler.compile(text, [aval], device, options=own).as_text()


EMITTERS_ARE_A_CHOICE = pytest.mark.skipif(
    jaxlib.version.__version_info__ >= (0, 11), reason="jaxlib 0.11 has no option xla_cpu_use_fusion_emitters"
)


@EMITTERS_ARE_A_CHOICE
def test_quick_options_and_the_users(device):
    emitters = "xla_cpu_use_fusion_emitters"
    assert emitters not in flags_of(compile_options(device, None))[0]
    quick = Codegen(quick=True)
    assert flags_of(compile_options(device, None, codegen=quick))[0][emitters] is False
    assert flags_of(compile_options(device, {emitters: True}, codegen=quick))[0][emitters] is True
    assert 1 <= flags_of(compile_options(device, None, codegen=quick))[0]["xla_cpu_parallel_codegen_split_count"] <= 32


def test_vectors_are_wide_unless_the_user_says_otherwise(device):
    width = "xla_cpu_prefer_vector_width"
    assert flags_of(compile_options(device, None))[0] == {width: 512}
    assert flags_of(compile_options(device, {width: 256}))[0] == {width: 256}


def test_unknown_option(device):
    with pytest.raises(ValueError, match="No such compile option: 'xla_nope'"):
        compiler.compile(TWICE, [F32_8], device, options={"xla_nope": 1})


@pytest.mark.parametrize("value", ["banana", [1], None], ids=str)
def test_option_with_a_wrong_value(value, device):
    with pytest.raises(ValueError, match="'xla_cpu_use_fusion_emitters'"):
        compiler.compile(TWICE, [F32_8], device, options={"xla_cpu_use_fusion_emitters": value})


@EMITTERS_ARE_A_CHOICE
def test_a_failure_of_the_fusion_emitters_is_tried_without_them(device):
    seen = []

    class Client:
        def compile_and_load(self, text, targets, options):
            seen.append(dict(options.env_option_overrides))
            if len(seen) == 1:
                raise RuntimeError("UNKNOWN: Unknown MLIR failure")
            return device.client.compile_and_load(text, [device], options)

    class Device:
        platform, client = "cpu", Client()

    options = compile_options(device, {"xla_backend_optimization_level": 2})
    assert compiler.compile_text(TWICE, Device, options) is not None
    first = {"xla_cpu_prefer_vector_width": 512, "xla_backend_optimization_level": 2}
    assert seen == [first, {**first, "xla_cpu_use_fusion_emitters": False}]

"""The stages of compiling a function: what `jit(f).trace(...)`, `.lower(...)` and `.compile()` say of it."""

import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX, needs_jax
from xpr.backend.layout import Format, Layout
from xpr.sharding import SingleDeviceSharding

X = xpr.ShapeDtypeStruct((4, 4), np.float32)


def scaled(x, *, k=1.0):
    return {"y": jnp.maximum(jnp.sin(x), k) @ x}


@pytest.fixture
def jitted():
    return xpr.jit(scaled, donate_argnums=0)


def test_each_stage_describes_arguments_and_results(jitted):
    traced = jitted.trace(X, k=2.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    for stage in (traced, lowered, compiled):
        ((x,), kwargs) = stage.args_info
        assert (x.shape, x.dtype, x.donated, kwargs["k"].donated) == ((4, 4), np.float32, True, False)
        assert stage.in_tree == xpr.tree.structure(((0,), {"k": 0}))
        assert stage.out_tree == xpr.tree.structure({"y": 0})
        assert str(stage.in_avals) == "((ShapedArray(float32[4,4]),), {'k': ShapedArray(float32[], weak_type=True)})"
        assert stage.donate_argnums == (0,)
        assert stage.out_info["y"].update(sharding=None) == X
    assert traced.fun_name == "scaled" and str(traced.out_avals["y"]) == "float32[4,4]"


def test_arguments_whose_memory_no_result_can_take_were_donated_too():
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        lowered = xpr.jit(lambda x, y: x.sum() + y, donate_argnums=0).lower(X, 1.0)
    for stage in (lowered, lowered.compile()):
        assert stage.donate_argnums == (0,) and [x.donated for x in stage.args_info[0]] == [True, False]


def test_a_traced_function_is_called(jitted):
    traced = jitted.trace(X, k=2.0)
    x = jnp.eye(4)
    np.testing.assert_array_equal(traced(x, k=2.0)["y"], scaled(x, k=2.0)["y"])
    with pytest.raises(TypeError, match="scaled: it was traced for arguments of the structure"):
        traced(x)


def test_text_in_both_dialects(jitted):
    lowered = jitted.lower(X, k=2.0)
    text = lowered.as_text()
    assert text == lowered.as_text("stablehlo") and "%0 = stablehlo.sine %arg0 : tensor<4x4xf32>\n" in text
    assert "jax.buffer_donor = true" in text and "loc(" not in text
    assert lowered.as_text("hlo").startswith("HloModule scaled") and "sine(" in lowered.as_text("hlo")
    with pytest.raises(ValueError, match="no dialect 'mhlo'"):
        lowered.as_text("mhlo")


def test_debug_info_is_the_users_line(jitted):
    lowered = jitted.lower(X, k=2.0)
    line = scaled.__code__.co_firstlineno + 1
    assert f'test_stages.py":{line}:0)' in lowered.as_text(debug_info=True)
    assert 'loc("jit(scaled)/sin"(' in lowered.as_text(debug_info=True)
    assert 'op_name="jit(scaled)/sin"' in lowered.as_text("hlo", debug_info=True)
    assert "test_stages.py" in lowered.as_text("hlo", debug_info=True)
    assert "test_stages.py" not in lowered.as_text("hlo")
    assert 'loc("jit(scaled)/sin"(' in printed_with_locations(lowered.compiler_ir())


def printed_with_locations(module):
    """The text of an object of MLIR."""
    return module.operation.get_asm(enable_debug_info=True)


def operation_names(fun, *args):
    """The `op_name` of each operation of a program, as profilers show it."""
    text = xpr.jit(xpr.named_scope("foo")(fun)).lower(*args).as_text("hlo", debug_info=True)
    assert "source_file=" not in text  # the position of the operation in the text, if it had no location
    return set(re.findall(r'op_name="([^"]*)"', text))


def test_operations_are_named_by_scopes_loops_and_branches():
    named = xpr.named_scope

    def f(x):
        x = xpr.lax.while_loop(named("small")(lambda x: x < 5.0), named("grow")(lambda x: x * 2.0), x)
        x = xpr.lax.scan(named("row")(lambda c, y: (jnp.sin(c), y + c)), x, jnp.arange(9.0))[0]
        return xpr.lax.cond(x > 0, named("positive")(jnp.cos), named("other")(jnp.tan), x)

    names = operation_names(f, 1.0)
    assert "x" in names  # the argument
    assert names >= {
        "jit(f)/foo/while/cond/small/lt", "jit(f)/foo/while/body/grow/mul", "jit(f)/foo/while/body/row/sin",
        "jit(f)/foo/while", "jit(f)/foo/gt", "jit(f)/foo/cond", "jit(f)/foo/cond/branch_0_fun/other/tan",
        "jit(f)/foo/cond/branch_1_fun/positive/cos",
    }  # fmt: skip


def test_functions_that_are_called_have_names_of_their_own():
    """They may be called from several scopes, and XLA puts the names of the call before theirs when it inlines it."""
    called = xpr.jit(xpr.named_scope("layer")(lambda x: jnp.sin(x) * 2.0))
    again = xpr.checkpoint(lambda x: jnp.cos(x))
    names = operation_names(lambda x: called(called(x)) + again(x), 1.0)
    assert names >= {"layer/sin", "layer/mul", "cos", "jit(<lambda>)/foo/jit(<lambda>)", "jit(<lambda>)/foo/checkpoint"}
    rows = xpr.pmap(jnp.sin)
    assert "jit(<lambda>)/foo/pmap(sin)/sin" in operation_names(lambda x: rows(x), jnp.ones((1, 2)))


def test_names_where_sizes_or_platforms_are_known_later():
    rows = xpr.ShapeDtypeStruct(xpr.export.symbolic_shape("a, b"), jnp.float32)
    lowered = xpr.jit(lambda x: jnp.sin(x).reshape(-1)).trace(rows).lower()
    assert 'loc("jit(<lambda>)/sin"(' in printed_with_locations(lowered.compiler_ir())
    assert 'loc("x")' in lowered.as_text(debug_info=True)
    lowered = xpr.jit(jnp.sin).trace(1.0).lower(lowering_platforms=("cpu", "cuda"))
    assert 'loc("jit(sin)/sin"(' in lowered.as_text(debug_info=True)


def test_names_of_the_equations_of_derivatives():
    inner = xpr.named_scope("loss")
    names = operation_names(lambda x: xpr.grad(inner(lambda x: jnp.sin(x) * x))(x), 1.0)
    assert {name.partition("/foo/")[2] for name in names} >= {"jvp(loss)/cos", "transpose(jvp(loss))/mul"}


def test_transformations_are_in_names_without_a_scope_within():
    """They are written around the names of scopes and calls, and not around those of operations."""

    def f(x):
        y = xpr.jit(lambda x: jnp.sin(x) * x)(x)
        return xpr.lax.scan(lambda c, _: (jnp.cos(c), None), y, length=30)[0] * jnp.exp(x)

    def within(fun, x):
        return {name.partition("/foo/")[2] for name in operation_names(fun, x)}

    forward = {"jvp()/exp", "jvp()/while", "jvp()/while/body/cos", "jvp(jit(<lambda>))"}
    backward = {"transpose(jvp())/mul", "transpose(jvp())/while/body/mul", "transpose(jvp(jit(<lambda>)))"}
    assert within(lambda x: xpr.grad(f)(x), 1.0) >= forward | backward
    assert within(lambda x: xpr.vmap(f)(x), jnp.ones(3)) >= {
        "vmap()/exp",
        "vmap()/while/body/cos",
        "vmap(jit(<lambda>))",
    }
    assert within(lambda x: xpr.vmap(xpr.grad(jnp.sin))(x), jnp.ones(3)) >= {"vmap(jvp())/cos"}


def test_compiler_ir(jitted):
    lowered = jitted.lower(X, k=2.0)
    assert lowered.compiler_ir().operation.name == "builtin.module"
    assert lowered.compiler_ir("hlo").get_hlo_module().name == "scaled"
    with pytest.raises(ValueError, match="no dialect"):
        lowered.compiler_ir("tf")


def test_costs_before_and_after_optimization():
    lowered = xpr.jit(lambda x: (x + 1) * 0 + jnp.sin(x)).lower(X)
    assert lowered.cost_analysis()["transcendentals"] == 16
    assert lowered.cost_analysis()["flops"] >= lowered.compile().cost_analysis()["flops"]


def test_results_of_eval_shape_have_the_device_that_was_asked_for():
    here = SingleDeviceSharding(xpr.devices()[0])
    asked = xpr.jit(lambda x: 2 * x, out_shardings=here)
    assert asked.eval_shape(X).sharding == asked.lower(X).out_info.sharding == here
    assert xpr.jit(lambda x: 2 * x).eval_shape(X).sharding is None


def test_formats_are_row_major_and_on_the_device(jitted):
    compiled = jitted.lower(X, k=2.0).compile()
    here = SingleDeviceSharding(xpr.devices()[0])
    assert compiled.input_formats == (
        (Format(Layout((0, 1), ()), here),),
        {"k": Format(Layout((), ()), here)},
    )
    assert compiled.output_formats == {"y": Format(Layout((0, 1), ()), here)}
    assert compiled.out_info["y"].sharding == here
    large = xpr.jit(lambda x: x @ x).lower(xpr.ShapeDtypeStruct((600, 600), np.float32)).compile()
    for program in (compiled, large):
        assert type(program.runtime_executable()).__name__ == "LoadedExecutable"


def test_lowering_for_other_platforms(jitted):
    traced = jitted.trace(X, k=2.0)
    assert "stablehlo.maximum" in traced.lower(lowering_platforms=("tpu",)).as_text()
    both = traced.lower(lowering_platforms=("cpu", "gpu")).as_text()
    assert "@main_cpu(" in both and "@main_cuda(" in both and "stablehlo.case" in both
    assert '%arg0: tensor<i32> {jax.global_constant = "_platform_index"}' in both
    assert "%arg1: tensor<4x4xf32> {jax.buffer_donor = true}" in both
    alike = traced.lower(lowering_platforms=("cuda", "tpu")).as_text()
    assert "stablehlo.case" not in alike and "_platform_index" in alike
    with pytest.raises(ValueError, match="scaled was lowered for cuda, tpu, and is to run on cpu:0"):
        traced.lower(lowering_platforms=("cuda", "tpu")).compile()
    for wrong in ((), "cpu", ("cpu", "cpu"), ("gpu", "cuda")):
        with pytest.raises(ValueError, match="Platforms are a sequence of different names"):
            traced.lower(lowering_platforms=wrong)


def test_compiling_for_a_given_device(jitted):
    device = xpr.devices()[0]
    compiled = jitted.lower(X, k=2.0).compile(device_assignment=(device,))
    np.testing.assert_array_equal(compiled(jnp.eye(4), k=2.0)["y"], scaled(jnp.eye(4), k=2.0)["y"])
    with pytest.raises(ValueError, match="lowered for 1 devices, and device_assignment has 2"):
        jitted.lower(X, k=2.0).compile(device_assignment=(device, device))


@needs_jax
def test_the_stages_have_the_names_of_jax():
    for name in ("Traced", "Lowered", "Compiled", "ArgInfo"):
        theirs = {each for each in dir(getattr(JAX.stages, name)) if not each.startswith("_")}
        # `lojax` is the program of a function of types of its own, and `call` what `__call__` is made of.
        assert theirs - set(dir(getattr(xpr.stages, name))) <= {"lojax", "call"}, name


def test_dead_code_is_not_lowered():
    @xpr.jit
    def unused(y):
        ref = xpr.new_ref(y)
        ref[...] += 1
        return xpr.freeze(ref)

    def f(x, y):
        unused(jnp.cos(y))
        xpr.debug.callback(lambda y: None, jnp.sin(y))
        return x

    text = xpr.jit(f).lower(1.0, 2.0).as_text()
    assert "cosine" not in text and "stablehlo.add" not in text and "@unused" not in text
    assert "stablehlo.sine" in text and "callback" in text

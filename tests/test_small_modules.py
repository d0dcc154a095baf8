"""ops, flatten_util, scopes, groups of operands, and functions of lax that arrange: as jax's where it is installed."""

import importlib
import logging

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import agree
from xpr import checkify, core, lax, ops
from xpr.ad_checkpoint import Recompute, Saveable
from xpr.control.groups import (
    Groups,
    consts_after,
    mask,
    merge,
    partition,
    rearranged,
    unmask,
    with_unused_arguments,
)
from xpr.errors import ConcretizationTypeError
from xpr.flatten_util import ravel_pytree
from xpr.tools.jax_to_ir import jax_to_ir, main, parse_shape_str

CALLS = """
rp({'a': jnp.ones(2, int), 'b': 2.5})[0]
rp({'a': jnp.ones(2, int), 'b': 2.5})[1](jnp.arange(3.0))['a']
rp({'a': jnp.ones(2, complex), 'b': 2.5})[1](jnp.arange(3.0) + 0j)['b']
rp([])[0]
rp(3.0)[0]
rp({'a': True, 'b': jnp.array([1, 2], jnp.int8)})[0]
rp(jnp.ones((2, 2)))[1](jnp.ones(4, int))
lib.grad(lambda v: rp({'a': v, 'b': v * 2})[0].sum())(jnp.ones(2))
lib.jit(lambda t: rp(t)[1](rp(t)[0] * 2))({'a': jnp.ones(2), 'b': 1})['b']
ops.segment_sum(d, ids)
ops.segment_sum(d, ids, 2)
ops.segment_sum(d, np.array([0, 2, 2, 1], np.uint8))
ops.segment_sum(2.0, ids, 3)
ops.segment_max(d[:1], ids, 3)
ops.segment_prod(d, ids, 4)
ops.segment_max(d, ids, 4)
ops.segment_min(d, ids, 4)
ops.segment_max(jnp.arange(4), ids, 5)
ops.segment_min(jnp.array([True, False]), jnp.array([0, 0]), 2)
ops.segment_sum(np.arange(3), np.array([0, 1, 1]), num_segments=2, indices_are_sorted=True)
lib.jit(lambda d, i: ops.segment_sum(d, i, 3))(d, ids)
lib.grad(lambda d: (ops.segment_sum(d, ids, 3) ** 2).sum())(d)
lib.grad(lambda d: ops.segment_max(d, ids, 3)[0].sum())(d)
lib.vmap(lambda d: ops.segment_sum(d, ids, 3), 1)(d)
lax.split(d, (1, 3))
lax.split(d, (1, 1), 1)
lax.stack([d, d], 1)
lax.unstack(d, 1)
lax.tile(d, (2, 3))
lax.broadcast_like(jnp.ones(2), d)
lax.empty((2,), jnp.int32)
lax.approx_max_k(d, 2, 0)
lax.approx_min_k(d, 2, -1)
lax.platform_dependent(d, cpu=lambda x: x + 1, tpu=lambda x: x, default=lambda x: x - 1)
"""


def names(lib):
    modules = {name: importlib.import_module(f"{lib.__name__}.{name}") for name in ("lax", "ops", "numpy")}
    array = modules["numpy"].asarray
    data = {"d": array(np.arange(8, dtype=np.float32).reshape(4, 2)), "ids": array(np.array([0, 2, 2, -1]))}
    flat = importlib.import_module(f"{lib.__name__}.flatten_util")
    return {"lib": lib, "np": np, "jnp": modules.pop("numpy"), "rp": flat.ravel_pytree, **modules, **data}


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_beside_jax(call):
    agree(lambda lib: eval(call, names(lib)), 0.0)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: ravel_pytree(jnp.ones((2, 2)))[1](jnp.ones(3)), ValueError, r"shape \(4,\), and got shape \(3,\)"),
        (lambda: ravel_pytree([1, 2.0])[1](jnp.arange(2)), TypeError, "dtype int32, but expected dtype float32"),
        (lambda: xpr.jit(ops.segment_sum)(jnp.ones(2), jnp.arange(2)), ConcretizationTypeError, "Say num_segments"),
        (lambda: ops.segment_sum(jnp.ones(2), jnp.ones(2)), TypeError, "segment_sum: the numbers of segments are int"),
        (lambda: ops.segment_max(jnp.ones(3), jnp.arange(2)), ValueError, r"data is f32\[3\], the numbers i32\[2\]"),
        (lambda: ops.segment_sum(jnp.ones(2), jnp.arange(2), -1), ValueError, "must not be negative"),
        (
            lambda: lax.split(jnp.ones(3), (1, 1)),
            ValueError,
            r"Sum of sizes 2 must be equal to .* f32\[3\]",
        ),
        (lambda: lax.unstack(jnp.ones(3), 1), ValueError, "axis 1 is out of bounds"),
        (lambda: lax.stack([]), ValueError, "at least one array"),
        (lambda: lax.tile(jnp.ones(3), (1, 2)), TypeError, "a count for each axis"),
        (
            lambda: lax.platform_dependent(1, tpu=abs),
            NotImplementedError,
            r"among the functions for tpu was not found for platform cpu\. Give one for it",
        ),
        (lambda: xpr.named_scope(3), TypeError, "the name must be a string"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_names_of_parts():
    @xpr.named_scope("outer")
    def f(x):
        with xpr.named_scope("inner"):
            return jnp.sin(x)

    assert float(xpr.jit(xpr.grad(f))(0.0)) == 1
    assert _names(xpr.make_jaxpr(f)(1.0)) == ["outer/inner"] and f.__name__ == "f"
    named = xpr.named_call(f, name="layer")
    closed = xpr.make_jaxpr(xpr.jit(named))(1.0)
    assert "name=layer" in str(closed)
    assert _names(closed) == [""] and _names(*core.subjaxprs(closed)) == ["layer/outer/inner"]
    assert _names(xpr.make_jaxpr(xpr.named_call(f))(1.0)) == ["f/outer/inner"]


def _names(jaxpr):
    return [eqn.source_info.name_stack for eqn in jaxpr.eqns]


def test_transformations_are_written_around_the_names_within_them():
    @xpr.named_scope("inner")
    def f(x):
        return jnp.sin(x) * 2.0

    outer = xpr.named_scope("outer")
    x, forward, back = jnp.ones(3), "outer/jvp(inner)", "outer/transpose(jvp(inner))"
    assert _names(xpr.make_jaxpr(outer(xpr.grad(f)))(1.0)) == [*[forward] * 3, *[back] * 2]
    assert _names(xpr.make_jaxpr(outer(xpr.vmap(f)))(x)) == ["outer/vmap(inner)"] * 2
    of_rows = set(_names(xpr.make_jaxpr(xpr.vmap(xpr.grad(f)))(x)))
    assert of_rows == {"vmap(jvp(inner))", "vmap(transpose(jvp(inner)))"}
    assert set(_names(xpr.make_jaxpr(lambda x: xpr.jvp(outer(xpr.vmap(f)), (x,), (x,)))(x))) == {
        "jvp(outer)/vmap(inner)"
    }


def test_names_of_inner_jaxprs_and_of_inlined_calls():
    @xpr.named_scope("outer")
    def f(x):
        called = xpr.jit(xpr.named_scope("called")(jnp.sin))(x)
        return lax.scan(xpr.named_scope("body")(lambda c, _: (c * 2.0, None)), called, None, 3)[0]

    closed = xpr.make_jaxpr(f)(1.0)
    called, body = core.subjaxprs(closed)
    assert (_names(closed), _names(called), _names(body)) == (["outer", "outer"], ["called"], ["body"])
    assert _names(xpr.jaxpr.inline_calls(closed)) == ["outer/called", "outer"]
    inline = xpr.named_scope("again")(core.jaxpr_as_fun(closed))
    assert _names(xpr.make_jaxpr(inline)(1.0)) == ["again/outer"] * 2


def test_a_scope_in_a_rule_is_within_that_of_the_operation():
    @xpr.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    @xpr.named_scope("rule")
    def f_jvp(primals, tangents):
        return jnp.sin(*primals), jnp.cos(*primals) * tangents[0]

    called = xpr.named_scope("outer")(lambda x: xpr.jvp(xpr.named_scope("inner")(f), (x,), (1.0,)))
    assert set(_names(xpr.make_jaxpr(called)(1.0))) == {"outer/jvp(inner)/rule"}
    of_rows = xpr.vmap(xpr.value_and_grad(xpr.named_scope("inner")(f)))
    names = {"vmap(jvp(inner))/rule", "vmap(transpose(jvp(inner)))/rule"}
    assert set(_names(xpr.make_jaxpr(of_rows)(jnp.ones(3)))) - {""} == names


def test_transformations_without_names_within_them():
    def f(x):
        return xpr.jit(lambda x: jnp.sin(x) * 2.0)(x)

    assert _names(xpr.make_jaxpr(xpr.named_scope("outer")(xpr.vmap(f)))(jnp.ones(3))) == ["outer/vmap()"]
    closed = xpr.make_jaxpr(xpr.grad(f))(1.0)
    assert set(_names(closed)) == {"jvp()", "transpose(jvp())"}
    assert {name for inner in core.subjaxprs(closed) for name in _names(inner)} == {""}


def test_operations_in_rules_of_the_user_have_their_own_lines():
    @xpr.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        return jnp.sin(*primals), jnp.cos(*primals) * tangents[0]

    closed = xpr.make_jaxpr(lambda x: xpr.jvp(f, (x,), (1.0,)))(1.0)
    assert [eqn.source[0].co_name for eqn in closed.eqns] == ["rule"] * 3


def test_masks_outlive_the_scope_in_which_they_are_used():
    def f(x, mask):
        with xpr.named_scope("select"):
            y = x[mask]
        with xpr.named_scope("again"):
            z = x[mask] * y
        return y.sum() + z.sum()

    assert float(xpr.jit(f)(jnp.arange(4.0), jnp.array([True, False, True, True]))) == 18


def test_a_scope_ends_where_an_error_leaves_it():
    def f(x):
        with pytest.raises(ZeroDivisionError), xpr.named_scope("left"):
            raise ZeroDivisionError
        return jnp.sin(x)

    assert _names(xpr.make_jaxpr(f)(1.0)) == [""]
    with xpr.named_scope("eager"):  # where nothing is traced there are no equations to name
        assert _names(xpr.make_jaxpr(f)(1.0)) == [""]


def test_composites():
    """Programs hold the operation, its attributes and its decomposition; derivatives and batches are plain calls."""
    scaled = lax.composite(lambda x, *, by, **_: {"y": x * by}, "my.scale", version=2)
    x, by = jnp.arange(3.0), np.float32([2, 3, 4])
    options = {"how": ("a", {"deep": True}), "dtype": np.dtype("float32"), "eps": 0.5, "none": None}
    text = xpr.jit(lambda x: scaled(x, by=by, **options)).lower(x).as_text()
    assert 'stablehlo.composite "my.scale" ' in text and "version = 2 : i32" in text and "@my.scale(" in text
    for attribute in ("by = dense<", 'how = ["a", {deep = true}]', "dtype = f32", "eps = 5.000000e-01 : f64"):
        assert attribute in text
    assert "none" not in text
    for way in (lambda f: f, xpr.jit):
        np.testing.assert_array_equal(way(lambda x: scaled(x, by=by))(x)["y"], [0, 3, 8])
        np.testing.assert_array_equal(way(xpr.vmap(lambda x: scaled(x, by=2.0)["y"]))(x), [0, 2, 4])
        np.testing.assert_array_equal(way(xpr.grad(lambda x: scaled(x, by=by)["y"].sum()))(x), by)
        np.testing.assert_array_equal(way(lambda x, c: lax.composite(lambda x: x + c, "my.shift")(x))(x, 2.0), x + 2)
    assert lax.composite(lambda: jnp.ones(2), "my.ones")().shape == (2,)
    with pytest.raises(xpr.errors.UnexpectedTracerError, match="attribute by of my.scale is traced.*by position"):
        xpr.jit(lambda x: scaled(x, by=x))(x)
    with pytest.raises(TypeError, match="attribute by of my.scale: .* of type object is no attribute"):
        scaled(x, by=object())


def test_evaluation_while_tracing():
    seen = []

    @xpr.jit
    def f(x):
        with xpr.ensure_compile_time_eval():
            seen.append(float(jnp.sum(jnp.ones(3))))
            seen.append(jnp.linspace(0.0, 1.0, 3)[1].item() + jnp.array([1, 2]).sum().item())
        return x

    f(1.0)
    assert seen == [3, 3.5]

    def mixed(x):
        with xpr.ensure_compile_time_eval():
            assert not isinstance(jnp.sin(jnp.ones(3)), xpr.core.Tracer)
            scale = float(xpr.jit(jnp.sum)(jnp.arange(3.0)))
            return jnp.where(x > 0, x, 2.0) * lax.cond(jnp.sum(x) > 9, jnp.sin, lambda x: x, x) * scale

    x = jnp.array([1.0, -2.0])
    np.testing.assert_array_equal(mixed(x), [3, -12])
    total = lambda fun: lambda x: jnp.sum(fun(x))
    for way in (xpr.jit(mixed), xpr.vmap(mixed), xpr.jit(xpr.vmap(mixed)), lambda x: xpr.jvp(mixed, (x,), (x,))[0]):
        np.testing.assert_array_equal(way(x), [3, -12])
    for way in (xpr.grad(total(mixed)), xpr.vmap(xpr.grad(mixed)), xpr.jit(xpr.grad(total(xpr.checkpoint(mixed))))):
        np.testing.assert_array_equal(way(x), [6, 6])
    closing = lambda x: xpr.jit(lambda y: mixed(x) + y)(x)
    np.testing.assert_array_equal(xpr.jit(closing)(x), [4, -14])


def test_names_under_experimental():
    assert xpr.experimental.io_callback is xpr.io_callback
    assert xpr.experimental.checkify.checkify is checkify.checkify


def test_logs(caplog):
    with caplog.at_level(logging.INFO, "xpr.debug"):
        xpr.jit(lambda x: xpr.debug.log("x is {}", x))(1.5)
        xpr.debug.log(ordered=True)("y is {y}", y=2)
    assert caplog.messages == ["x is 1.5", "y is 2"]


def test_verdicts_of_policies():
    assert Saveable and not Recompute and repr(Saveable) == "Saveable"

    def residuals(verdict):
        f = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=lambda *_, **__: verdict)
        return len(xpr.make_jaxpr(lambda x: xpr.linearize(f, x)[1])(1.0).jaxpr.outvars)

    assert residuals(Saveable) == residuals(True) and residuals(Recompute) == residuals(False)
    assert issubclass(checkify.FailedCheckError, checkify.ErrorCategory.__args__[0])


def test_the_default_precision_of_products():
    def precision(fun=jnp.dot):
        return str(xpr.make_jaxpr(fun)(jnp.ones(2), jnp.ones(2)).eqns[0].params["precision"])

    assert precision() == "None"
    with xpr.default_matmul_precision("high"):
        assert precision() == "(Precision.HIGH, Precision.HIGH)" == precision(lax.dot)
        assert precision(lambda x, y: jnp.dot(x, y, precision="highest")) == "(Precision.HIGHEST, Precision.HIGHEST)"
        with pytest.raises(ValueError, match="precision is None, one of"), xpr.default_matmul_precision("exact"):
            precision()
    xpr.config.update("jax_default_matmul_precision", "float32")
    try:
        assert precision() == "(Precision.HIGHEST, Precision.HIGHEST)"
    finally:
        xpr.config.update("default_matmul_precision", None)
    jitted = xpr.jit(jnp.dot)
    matrices = [xpr.ShapeDtypeStruct((300, 300), "float32")] * 2
    assert "HIGHEST" not in jitted.lower(*matrices).as_text()
    with xpr.default_matmul_precision("float32"):
        assert "HIGHEST" in jitted.lower(*matrices).as_text()


class TestGroups:
    """Layouts of lists of operands, xpr/control/groups.py."""

    @pytest.mark.parametrize("flags", [[1, 0, 1, 1, 0, 1], [0] * 6, [1] * 6])
    def test_what_is_put_beside_is_taken_apart(self, flags):
        operands, flags = Groups(consts=2, carry=1, xs=3), list(map(bool, flags))
        values, tangents = list(range(6)), mask("abcdef", flags)
        both = operands.interleave(values, operands.masked(flags), tangents)
        assert operands.deinterleave(both, operands.masked(flags)) == (values, tangents)
        assert len(both) == 6 + sum(flags)

    def test_positions(self):
        operands = Groups(consts=2, carry=0, xs=3)
        assert list(map(operands.positions, operands.names)) == [range(2), range(2, 2), range(2, 5)]
        assert operands.part("xs", "abcde") == ["c", "d", "e"]

    def test_masks_have_inverses(self):
        flags = [True, False, False, True]
        marked, others = partition("abcd", flags)
        assert merge(marked, others, flags) == list("abcd")
        assert unmask(marked, flags) == ["a", None, None, "d"]

    def test_arguments_and_results_of_jaxprs_in_another_order(self):
        jaxpr = xpr.make_jaxpr(lambda w, x, dw, dx: (w, x, dw, dx))(1.0, 2, 3.0, 4).jaxpr
        groups = Groups(consts=1, carry=1)
        moved = rearranged(jaxpr, groups, groups, groups, groups)
        assert moved is rearranged(jaxpr, groups, groups, groups, groups)
        assert core.eval_jaxpr(moved, (), "w", "dw", "x", "dx") == ["w", "dw", "x", "dx"]
        assert rearranged(jaxpr, groups, groups).outvars == jaxpr.outvars

    def test_constants_and_arguments_that_are_not_read(self):
        closed = xpr.make_jaxpr(lambda x, y: x * np.ones(3, np.float32) + y)(1.0, 2.0)
        opened = consts_after(closed, 1)
        assert [v.aval.shape for v in opened.invars] == [(), (3,), ()] and not opened.constvars
        wider = with_unused_arguments(opened, before=[core.ShapedArray((2,), np.int32)])
        assert [v.aval.shape for v in wider.invars] == [(2,), (), (3,), ()]
        assert with_unused_arguments(opened) is opened


def test_processes_by_their_older_names():
    assert xpr.host_count() == xpr.process_count() == len(xpr.process_indices()) == len(xpr.host_ids())
    assert xpr.host_id() == xpr.process_index()


def test_one_level_with_keys():
    flat = xpr.tree_util.flatten_one_level_with_keys((1, None, [2]))
    assert flat == ([(xpr.tree_util.SequenceKey(i), x) for i, x in enumerate((1, None, [2]))], None)
    with pytest.raises(ValueError, match="flatten_one_level can't tree-flatten type int, which is a leaf"):
        xpr.tree_util.flatten_one_level_with_keys(1)


def test_sharding_of_one_device():
    sharding = xpr.sharding.make_single_device_sharding(xpr.devices()[0])
    assert xpr.device_put(1.0, sharding).sharding == sharding
    with pytest.raises(ValueError, match="Could not find memory addressable by device .*, and 'hbm' was asked for"):
        xpr.sharding.make_single_device_sharding(xpr.devices()[0], memory_kind="hbm")


def test_evaluation_while_a_function_is_traced():
    @xpr.jit
    def f(x):
        with core.eval_context():
            assert jnp.add(1, 1) == 2
        return x + 1

    assert f(1) == 2


# -- tools.jax_to_ir


def test_types_as_xla_writes_them():
    assert parse_shape_str("f32[1, 2,3]") == core.ShapedArray((1, 2, 3), "float32")
    assert parse_shape_str("pred[]") == core.ShapedArray((), "bool")
    assert parse_shape_str("u4[7]").dtype == jnp.uint4 and parse_shape_str("bf16[0]").dtype == jnp.bfloat16
    for text in ("foo[]", "f32", "f32[-1]", "f32[1,]"):
        with pytest.raises(ValueError, match=r'Invalid shape .*: it is a dtype and sizes, as "f32\[1,2,3\]".*pred'):
            parse_shape_str(text)


def scaled(x, by, offset):
    return x * by + offset


SCALED = [("offset", parse_shape_str("f32[]")), ("x", parse_shape_str("f32[8]"))]


def test_functions_as_programs_of_xla():
    program, text = jax_to_ir(scaled, SCALED, constants={"by": 30864.0}, format="HLO")
    assert "f32[] parameter(0)" in text and "f32[8]{0} parameter(1)" in text and "constant(30864)" in text
    assert isinstance(program, bytes) and len(program) > 100
    with pytest.raises(ValueError, match="Arguments appear in both `input_shapes` and `constants`: x. Give each"):
        jax_to_ir(scaled, SCALED, constants={"by": 1.0, "x": 2.0}, format="HLO")
    with pytest.raises(ValueError, match="""format is to be "HLO", and is 'TF'. There are no graphs of TensorFlow"""):
        jax_to_ir(scaled, SCALED, format="TF")


def test_the_command_that_writes_programs(tmp_path, capsys):
    program, text = tmp_path / "program.pb", tmp_path / "program.txt"
    what = ["--fn", f"{__name__}.scaled", "--input_shapes", '[("x", "f32[2]"), ("offset", "f32[]")]']
    assert main([*what, "--evaled_constants", "{'by': '[1, 2]'}", "--ir_dest", str(program)]) == 0
    assert main([*what, "--constants", "{'by': 2.5}", "--ir_human_dest", str(text)]) == 0
    assert program.stat().st_size > 100 and "constant(2.5)" in text.read_text()
    for wrong, message in (
        ([], "say where to write it"),
        (["--ir_dest", str(program), "--constants", "{'by': 1}", "--evaled_constants", "{'by': '1'}"], "by"),
    ):
        with pytest.raises(SystemExit):
            main([*what, *wrong])
        assert message in capsys.readouterr().err

"""Primitives from outside compose with everything they have a rule for."""

import numpy as np
import pytest
from jaxlib import _hlo

import xpr
import xpr.numpy as jnp
from xpr.backend import hlo_transformations
from xpr.errors import UnsupportedRule
from xpr.extend import Primitive, is_linear, xla
from xpr.extend.core import primitives

pytestmark = pytest.mark.quick

multiply_add_p = Primitive("multiply_add")


@multiply_add_p.def_impl
def multiply_add_impl(x, y, z, *, scale):
    return scale * np.asarray(x) * np.asarray(y) + np.asarray(z)


@multiply_add_p.def_abstract_eval
def multiply_add_abstract(x, y, z, *, scale):
    if not x.shape == y.shape == z.shape:
        raise TypeError(f"multiply_add: shapes differ: {x}, {y}, {z}")
    return x


@multiply_add_p.def_jvp
def multiply_add_jvp(primals, tangents, *, scale):
    x, y, z = primals
    dx, dy, dz = tangents
    out = multiply_add(x, y, z, scale)
    return out, multiply_add(dx, y, multiply_add(x, dy, dz, scale), scale)


@multiply_add_p.def_transpose
def multiply_add_transpose(ct, x, y, z, *, scale):
    other = y if is_linear(x) else x
    product = None if is_linear(x) is is_linear(y) else multiply_add(ct, other, jnp.zeros_like(ct), scale)
    return [product if is_linear(x) else None, product if is_linear(y) else None, ct if is_linear(z) else None]


@multiply_add_p.def_batching
def multiply_add_batch(size, vals, dims, *, scale):
    rows = [jnp.broadcast_to(v, (size, *v.shape)) if d is None else jnp.moveaxis(v, d, 0) for v, d in zip(vals, dims)]
    return multiply_add(*rows, scale), 0


@multiply_add_p.def_lowering
def multiply_add_lowering(builder, operands, avals, *, scale):
    x, y, z = operands
    product = builder.op("stablehlo.multiply", [x, y], avals[0])
    scaled = builder.op("stablehlo.multiply", [product, builder.constant(scale, avals[0])], avals[0])
    return builder.op("stablehlo.add", [scaled, z], avals[0])


def multiply_add(x, y, z, scale):
    return multiply_add_p.bind(x, y, z, scale=scale)


A, B, C = (np.array(v, np.float32) for v in ([1, 2], [3, 4], [5, 6]))


def test_all_primitives_are_instances():
    class Own(Primitive):
        pass

    assert isinstance(xpr.lax.add_p, Primitive) and isinstance(multiply_add_p, Primitive)
    assert isinstance(Own("own"), Own) and not isinstance(multiply_add_p, Own)


def test_primitives_that_jax_names_otherwise():
    """A table of rules by primitives of jax's names finds those of programs."""
    matrix = jnp.array([[2.0, 0.0], [0.0, 4.0]])
    solve = lambda b: xpr.lax.custom_linear_solve(lambda x: matrix @ x, b, lambda mv, b: b / 3, symmetric=True)
    (eqn,) = xpr.make_jaxpr(solve)(jnp.ones(2)).eqns
    assert eqn.primitive is xpr.lax.linear_solve_p is primitives.linear_solve_p
    (eqn,) = xpr.make_jaxpr(lambda x: xpr.device_put(x, xpr.memory.Space.Host))(1.0).eqns
    assert eqn.primitive is xpr.lax.device_put_p is primitives.device_put_p


def test_every_transformation():
    fun = lambda x, y, z: multiply_add(x, y, z, 2.0)
    np.testing.assert_array_equal(fun(A, B, C), 2 * A * B + C)
    np.testing.assert_array_equal(xpr.jit(fun)(A, B, C), 2 * A * B + C)
    assert "multiply_add[scale=2.0] a b c" in str(xpr.make_jaxpr(fun)(A, B, C))
    loss = lambda x, y, z: jnp.sum(fun(x, y, z))
    for grad in (xpr.grad(loss, (0, 1, 2)), xpr.jit(xpr.grad(loss, (0, 1, 2))), xpr.grad(xpr.jit(loss), (0, 1, 2))):
        for got, want in zip(grad(A, B, C), (2 * B, 2 * A, np.ones(2))):
            np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(xpr.vmap(fun, in_axes=(0, None, 0))(A, B[0], C), 2 * A * B[0] + C)
    np.testing.assert_array_equal(xpr.hessian(lambda x: loss(x, x, C))(A), 4 * np.eye(2))
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(xpr.jit(lambda x: fun(x, x, x))))(A), 4 * A + 1)


def test_typing_errors_are_the_users():
    with pytest.raises(TypeError, match="multiply_add: shapes differ"):
        multiply_add(A, B, C[:1], 2.0)


def test_several_results():
    divmod_p = Primitive("divmod2", multiple_results=True)

    @divmod_p.def_lowering_as
    def _(x, *, by):
        return [x // by, x % by]

    divmod_p.def_batching(lambda size, vals, dims, *, by: (divmod_p.bind(*vals, by=by), [dims[0], dims[0]]))
    x = np.array([7, 9], np.int32)
    for fun in (lambda x: divmod_p.bind(x, by=4), xpr.jit(lambda x: divmod_p.bind(x, by=4))):
        quotient, rest = fun(x)
        np.testing.assert_array_equal(quotient, [1, 2])
        np.testing.assert_array_equal(rest, [3, 1])
    np.testing.assert_array_equal(xpr.vmap(lambda x: divmod_p.bind(x, by=4))(x)[1], [3, 1])


@pytest.mark.parametrize("multiple_results", [False, True])
def test_types_are_a_list_where_there_are_several_results(multiple_results):
    one = Primitive("one_or_more", multiple_results=multiple_results)
    one.def_abstract_eval(lambda x: x if multiple_results else [x])
    with pytest.raises(ValueError, match=r"one_or_more.abstract_eval\(\) method should return .* was returned"):
        xpr.jit(one.bind)(1.0)


def test_lowering_rules_agree_with_the_types():
    rows = Primitive("rows")
    rows.def_abstract_eval(lambda x: x)
    rows.def_lowering_as(lambda x: jnp.stack([x, x]))
    with pytest.raises(TypeError, match=r"rows: its lowering rule returns .* types f32\[2\], and .* says f32"):
        xpr.jit(rows.bind)(1.0)
    rows.def_lowering(lambda builder, operands, avals: builder.broadcast(operands[0], (2,)))
    with pytest.raises(TypeError, match=r"rows: its lowering rule returns results of the types f32\[2\]"):
        xpr.jit(lambda x: rows.bind(x))(1.0)
    rows.def_lowering(lambda builder, operands, avals: 3)
    with pytest.raises(TypeError, match=r"rows: its rule of def_lowering must return Values, and returned \[3\]"):
        xpr.jit(lambda x: rows.bind(x))(1.0)


@pytest.mark.parametrize(
    "define, use, message",
    [
        (lambda p: p.def_abstract_eval(lambda x: "a"), lambda p: xpr.jit(p.bind)(1.0),
         "ill: its rule of def_abstract_eval must return ShapedArrays, .* and returned 'a' of type builtins.str"),
        (lambda p: p.def_jvp(lambda primals, tangents: 3), lambda p: xpr.jvp(p.bind, (1.0,), (1.0,)),
         r"ill: its rule of def_jvp must return \(result, tangent\), and returned 3"),
        (lambda p: p.def_batching(lambda size, vals, dims: (1, 2, 3)), lambda p: xpr.vmap(p.bind)(A),
         r"ill: its rule of def_batching must return \(result, dim\), and returned \(1, 2, 3\)"),
    ],
)  # fmt: skip
def test_rules_that_return_something_else(define, use, message):
    ill = Primitive("ill")
    ill.def_abstract_eval(lambda x: x)
    define(ill)
    with pytest.raises(TypeError, match=message):
        use(ill)


@pytest.mark.parametrize(
    "use, part",
    [
        (
            lambda p: xpr.grad(p.bind)(1.0),
            "Differentiation rule for 'bare' not implemented. Give bare one with bare_p.def",
        ),
        (
            lambda p: xpr.vmap(p.bind)(A),
            "Batching rule for 'bare' not implemented. Give bare one with bare_p.def_batching",
        ),
        (
            lambda p: xpr.jit(p.bind)(1.0),
            "Lowering rule for primitive 'bare' not found. Give bare one with bare_p.def_low",
        ),
        (
            lambda p: xpr.linear_transpose(p.bind, 1.0)(1.0),
            "Transpose rule (for reverse-mode differentiation) for 'bare'",
        ),
    ],
)
def test_missing_rules_are_named(use, part):
    bare_p = Primitive("bare")
    bare_p.def_abstract_eval(lambda x: x)
    bare_p.def_impl(lambda x: x)
    with pytest.raises(UnsupportedRule) as caught:
        use(bare_p)
    assert part in str(caught.value)
    nothing_p = Primitive("nothing")
    with pytest.raises(UnsupportedRule, match="^Evaluation rule for 'nothing' not implemented.*def_abstract_eval"):
        nothing_p.bind(1.0)
    with pytest.raises(UnsupportedRule, match="^Abstract evaluation for 'nothing' not implemented.*def_abstract_eval"):
        xpr.jit(nothing_p.bind)(1.0)


def test_parameters_of_equal_value_and_other_type_or_sign_differ():
    times_p = Primitive("times_by")
    times_p.def_abstract_eval(lambda x, *, by: x.update(dtype=np.result_type(x.dtype, type(by)).name))
    times_p.def_lowering_as(lambda x, *, by: x * by)
    ones = jnp.ones(2, jnp.int32)
    with xpr.enable_x64(True):
        assert times_p.bind(ones, by=2).dtype == np.int64
        assert times_p.bind(ones, by=2.0).dtype == np.float64
    sign_p = Primitive("sign_of_parameter")
    sign_p.def_abstract_eval(lambda x, *, by: x)
    sign_p.def_lowering_as(lambda x, *, by: x * jnp.copysign(1.0, by))
    assert float(sign_p.bind(1.0, by=0.0)) == 1
    assert float(sign_p.bind(1.0, by=-0.0)) == -1


def test_parameters_that_cannot_be_hashed():
    scaled_p = Primitive("scaled_by_first")
    scaled_p.def_abstract_eval(lambda x, *, by: x)
    scaled_p.def_lowering_as(lambda x, *, by: x * by[0])
    on_mesh = xpr.device_put(jnp.ones(2), xpr.NamedSharding(xpr.make_mesh((1,), ("i",)), xpr.P("i")))
    for x in (jnp.ones(2), on_mesh):
        np.testing.assert_array_equal(scaled_p.bind(x, by=[3.0]), [3, 3])
        np.testing.assert_array_equal(scaled_p.bind(x, by=[4.0]), [4, 4])


def test_rules_that_are_methods_of_a_subclass():
    class Tag(Primitive):
        multiple_results = True

        def impl(self, *args, kept):
            return args[:kept]

        def abstract_eval(self, *avals, kept):
            return avals[:kept], frozenset()

    tag_p = Tag("tag")
    assert [float(x) for x in tag_p.bind(1.0, 2.0, 3.0, kept=2)] == [1.0, 2.0]
    assert len(xpr.make_jaxpr(lambda x: tag_p.bind(x, x, kept=1))(1.0).out_avals) == 1


def test_the_evaluation_as_it_was_defined():
    p = Primitive("with_impl")
    assert p.impl == p.bind
    rule = p.def_impl(lambda x: x)
    assert p.impl is rule


# -- Passes in XLA's compiler


def sines_to_cosines(program):
    module = _hlo.HloModule.from_serialized_hlo_module_proto(program)
    for computation in module.computations():
        for instruction in computation.instructions():
            if instruction.opcode == _hlo.HloOpcode.kSin:
                (x,) = instruction.operands()
                cosine = computation.create_unary_instruction(_hlo.HloOpcode.kCos, x)
                computation.replace_instruction(instruction, cosine)
    return module.as_serialized_hlo_module_proto()


@pytest.fixture
def passes():
    """Adds passes, which are removed after the test."""
    names = []

    def add(callback, name="of_a_test", **options):
        xla.register_hlo_module_transformation(callback, name=name, **options)
        names.append((name, options.get("stage", xla.PipelineStage.PRE_SCHEDULER)))

    yield add
    for name, stage in names:
        xla.clear_hlo_module_transformation(name, stage)
    assert not hlo_transformations.active


def test_a_pass_changes_programs_until_it_is_removed(passes):
    f = xpr.jit(jnp.sin)
    np.testing.assert_allclose(f(A), np.sin(A), rtol=1e-6)
    passes(sines_to_cosines)
    np.testing.assert_allclose(f(A), np.cos(A), rtol=1e-6)  # though it was compiled before
    assert xla.clear_hlo_module_transformation("of_a_test")
    np.testing.assert_allclose(f(A), np.sin(A), rtol=1e-6)
    assert not xla.clear_hlo_module_transformation("of_a_test")


def test_passes_of_both_stages_in_order(passes):
    seen = []
    passes(lambda program: seen.append("last"), stage=xla.PipelineStage.POST_SCHEDULER)
    passes(lambda program: seen.append("first"))
    passes(lambda program: seen.append("second"), "another")
    passes(lambda program: seen.append("never"), "of_others", platforms=["tpu", "rocm"])
    xpr.jit(lambda x: jnp.sin(x) + 5)(A)
    assert seen == ["first", "second", "last"]


def test_programs_that_passes_change_are_not_on_disk(passes, tmp_path):
    f = lambda x: jnp.sin(x) * 7
    config = xpr.config.compilation_cache_dir
    xpr.config.update("compilation_cache_dir", str(tmp_path))
    try:
        passes(sines_to_cosines)
        np.testing.assert_allclose(xpr.jit(f)(A), 7 * np.cos(A), rtol=1e-6)
        assert not list(tmp_path.rglob("*"))
        xla.clear_hlo_module_transformation("of_a_test")
        np.testing.assert_allclose(xpr.jit(f)(A), 7 * np.sin(A), rtol=1e-6)
        assert list(tmp_path.rglob("*"))
        passes(sines_to_cosines)
        np.testing.assert_allclose(xpr.jit(f)(A), 7 * np.cos(A), rtol=1e-6)
    finally:
        xpr.config.update("compilation_cache_dir", config)


def test_what_passes_must_be(passes):
    with pytest.raises(TypeError, match="takes a function from bytes to bytes or None, and got"):
        xla.register_hlo_module_transformation(b"", name="none")
    with pytest.raises(TypeError, match="stage must be a PipelineStage, and is"):
        xla.register_hlo_module_transformation(len, name="none", stage=0)
    with pytest.raises(TypeError, match="clear_hlo_module_transformation: stage must be a PipelineStage"):
        xla.clear_hlo_module_transformation("none", 1)

    def failing(program):
        raise KeyError("no such thing")

    passes(failing)
    with pytest.raises(Exception, match="no such thing"):
        xpr.jit(lambda x: jnp.sin(x) * 11)(A)

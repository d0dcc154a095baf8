"""The tester, tested: each law must catch the slip in a rule that it is there for, and name itself."""

import numpy as np
import pytest

import xpr
from tests.ops import laws, table
from tests.ops.table import Row, Sample, floats
from xpr.config import settings
from xpr.config_contexts import enable_x64
from xpr.core.avals import Zero, aval_of
from xpr.core.primitive import SLOTS, Primitive
from xpr.primitives.elementwise import (
    add_p,
    convert_element_type,
    cos,
    cos_p,
    floor_p,
    mul,
    mul_p,
    neg,
    neg_p,
    sin,
    sin_p,
)
from xpr.primitives.shapes import broadcast_in_dim_p, full, instantiate, mapped_to, reduce_sum_p, zeros_like_aval
from xpr.testing import check_grads, check_jvp, check_vjp

ONE, TWO = [Sample(floats(2, 3))], [Sample(floats(2, 3), floats(2, 3, salt=1))]
WITH_SCALAR = [Sample(floats(3), floats(salt=1))]
SUMS = [Sample(floats(2, 3), axes=(0,))]


def altered(primitive, **changes):
    """A throw-away primitive, like another save for some of its rules."""
    rules = {slot: changes.get(slot, getattr(primitive, slot)) for slot in SLOTS}
    exact = changes.get("exact", primitive.exact)
    return Primitive(f"altered_{primitive}", exact=exact, linearize=changes.get("linearize"), **rules)


def found_by(law, primitive, samples, **row):
    """Asserts that the law fails on a row, and says which law it is."""
    with pytest.raises(AssertionError, match=law):
        for sample in samples:
            laws.check(law, Row(primitive, samples, **row), sample)


def passes(law, primitive, samples, **row):
    for sample in samples:
        laws.check(law, Row(primitive, samples, **row), sample)


@pytest.mark.parametrize("law", laws.LAWS)
def test_unaltered_rules_pass(law):
    for primitive, samples in ((sin_p, ONE), (mul_p, TWO), (mul_p, WITH_SCALAR), (reduce_sum_p, SUMS)):
        passes(law, altered(primitive), samples)


# -- Values and types


def test_another_operation_in_the_lowering():
    found_by("value", altered(sin_p, lower=cos_p.lower), ONE)


def test_another_function_in_the_reference():
    found_by("value", altered(sin_p, reference=lambda values: [np.sin(values[0]) + np.float32(1e-4)]), ONE)


def test_a_dtype_that_the_reference_gets_wrong():
    narrow = altered(sin_p, reference=lambda values: [np.sin(values[0].astype(np.float32)).astype(values[0].dtype)])
    passes("value", narrow, ONE)
    found_by("value", narrow, ONE, dtypes=[np.float32, np.float64])


def test_bits_said_to_be_exact():
    wrong = altered(sin_p, exact=True, reference=lambda values: [np.sin(values[0]) * np.float32(1 + 3e-7)])
    found_by("value", wrong, ONE)


def test_a_sign_of_zero():
    wrong = altered(floor_p, reference=lambda values: [np.floor(values[0]) + np.float32(0)])
    found_by("value", wrong, [Sample(np.float32([-0.0, 1.5]))])
    passes("value", wrong, [Sample(np.float32([-0.0, 1.5]))], signed_zeros=False)


def test_an_eager_value_that_is_not_the_compiled_one():
    found_by("eager", altered(sin_p, exact=True, reference=cos_p.reference), ONE)


def test_a_shape_in_the_typing_rule():
    found_by("typing", altered(sin_p, abstract=lambda avals: [avals[0].update(shape=(6,))]), ONE)


def test_a_dtype_in_the_typing_rule():
    found_by("typing", altered(sin_p, abstract=lambda avals: [avals[0].update(dtype=np.dtype(np.int32))]), ONE)


def test_a_result_that_is_weak_without_reason():
    found_by("typing", altered(sin_p, abstract=lambda avals: [avals[0].update(weak_type=True)]), ONE)


def test_a_typing_rule_that_is_right_in_32_bits_only():
    found_by("typing", altered(sin_p, abstract=lambda avals: [avals[0].update(dtype=np.dtype(np.float32))]), ONE)


def test_a_constant_of_another_dtype_in_a_derivative():
    """It is right in float64, where the laws of differentiation compute, and in float32."""

    def derivative(x):
        return mul(cos(x), np.float64(1) if settings.enable_x64 else np.float32(1))

    wrong = altered(sin_p, jvp=_jvp_of(derivative))
    passes("jvp", wrong, ONE)
    passes("typing", wrong, ONE)
    with pytest.raises(TypeError, match="requires arguments to have the same dtypes"):
        passes("typing", wrong, ONE, dtypes=[np.float32, np.float16])


def test_a_cotangent_of_another_dtype():
    wrong = altered(neg_p, transpose=lambda cts, operands: [neg(convert_element_type(cts[0], np.float32))])
    wrong.jvp = lambda primals, tangents: ([wrong.bind(*primals)], [wrong.bind(*tangents)])
    passes("typing", wrong, ONE, dtypes=[np.float32])
    found_by("typing", wrong, ONE, dtypes=[np.float16])


# -- Derivatives


def _jvp_of(derivative):
    """The jvp rule of a function with some (wrong) derivative."""

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        out = sin(x)
        return [out], [Zero(aval_of(out)) if type(t) is Zero else mul(t, derivative(x))]

    return jvp


def test_a_wrong_derivative():
    found_by("jvp", altered(sin_p, jvp=_jvp_of(lambda x: neg(cos(x)))), ONE)


def test_a_slightly_wrong_derivative():
    wrong = altered(sin_p, jvp=_jvp_of(lambda x: mul(cos(x), aval_of(x).dtype.type(1 + 1e-4))))
    found_by("jvp", wrong, ONE)
    passes("linearize", wrong, ONE)
    passes("vjp", wrong, ONE)


flat_cos_p = altered(cos_p)  # its derivative is lost
flat_cos_p.jvp = lambda primals, tangents: ([flat_cos_p.bind(*primals)], [Zero(aval_of(primals[0]))])


def test_one_mode_may_be_given_by_its_name():
    doubled = xpr.custom_jvp(lambda x: x)
    doubled.defjvp(lambda primals, tangents: (primals[0], 2 * tangents[0]))
    for modes in ("fwd", iter(["fwd"])):
        with pytest.raises(AssertionError, match="the derivative is not the finite difference"):
            check_grads(doubled, (0.5,), order=1, modes=modes)
    with pytest.raises(ValueError, match="modes are 'fwd', 'rev' and 'lin'; got 1 and .'forward'"):
        check_grads(doubled, (0.5,), order=1, modes="forward")


def test_a_wrong_second_derivative():
    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return [sin(x)], [Zero(aval_of(x)) if type(t) is Zero else mul(t, flat_cos_p.bind(x))]

    passes("jvp", altered(sin_p, jvp=jvp), ONE)
    found_by("order2", altered(sin_p, jvp=jvp), ONE)


def test_a_tangent_lost_beside_a_symbolic_zero():
    def jvp(primals, tangents):
        if any(type(t) is Zero for t in tangents):
            return add_p.jvp(primals, [Zero(aval_of(x)) for x in primals])
        return add_p.jvp(primals, tangents)

    found_by("zeros", altered(add_p, jvp=jvp), TWO)
    passes("jvp", altered(add_p, jvp=jvp), TWO)


def test_a_symbolic_zero_made_into_an_array():
    def jvp(primals, tangents):
        outs, out_tangents = sin_p.jvp(primals, tangents)
        return outs, [instantiate(t) for t in out_tangents]

    found_by("zeros", altered(sin_p, jvp=jvp), ONE)


def test_a_tangent_of_another_type():
    def jvp(primals, tangents):
        outs, out_tangents = mul_p.jvp(primals, [instantiate(t) for t in tangents])
        return outs, [Zero(aval_of(outs[0]).update(shape=()))] if type(tangents[0]) is Zero else out_tangents

    found_by("zeros", altered(mul_p, jvp=jvp), TWO)


def test_tangents_of_what_is_said_to_have_none():
    found_by("zeros", altered(sin_p), ONE, differentiable=False)
    passes("zeros", altered(floor_p), ONE, differentiable=False)


def test_a_linear_program_that_differs_from_jvp():
    def linearize(trace, primals, tangents, params):
        outs = trace.parent.process(sin_p, primals, params)
        return outs, [mul(tangents[0], 2.0 * np.cos(np.asarray(floats(2, 3), np.float64)))]

    found_by("linearize", altered(sin_p, linearize=linearize), ONE)


def test_a_wrong_transpose():
    wrong = altered(reduce_sum_p, transpose=lambda cts, operands, axes: [full(operands[0].aval.shape, 1, np.float64)])
    wrong.jvp = lambda primals, tangents, axes: ([wrong.bind(*primals, axes=axes)], [wrong.bind(*tangents, axes=axes)])
    for law in ("vjp", "transpose"):
        found_by(law, wrong, SUMS)
    passes("jvp", wrong, SUMS)


def test_a_cotangent_that_is_not_summed_over_what_was_broadcast():
    def transpose(cts, operands):
        return [cts[0], None] if type(operands[1]) is not type(operands[0]) else [cts[0], cts[0]]

    wrong = altered(add_p, transpose=transpose)
    found_by("transpose", wrong, [Sample(floats(), floats(3, salt=1))])


def test_a_transposition_rule_of_what_is_not_linear():
    found_by("transpose", altered(sin_p, transpose=lambda cts, operands: [cts[0]]), ONE)


# -- Batches


def test_a_batch_rule_that_does_not_align_axes():
    def batch(size, values, dims):
        return [mul_p.bind(*values)], [next(d for d in dims if d is not None)]

    square = [Sample(floats(3, 3), floats(3, 3, salt=1))]
    with pytest.raises((AssertionError, TypeError)):
        passes("vmap", altered(mul_p, batch=batch), square)


def test_a_batch_rule_that_reports_another_axis():
    def batch(size, values, dims):
        return [sin(values[0])], [0]

    found_by("vmap", altered(sin_p, batch=batch), [Sample(floats(3, 3))])


def test_a_batch_rule_that_takes_the_mapped_axis_for_a_row_axis():
    def batch(size, values, dims, axes):
        return [reduce_sum_p.bind(mapped_to(values[0], dims[0], size), axes=(1,))], [0]

    passes("vmap", altered(reduce_sum_p, batch=batch), SUMS)
    found_by("vmap", altered(reduce_sum_p, batch=batch), [Sample(floats(3, 3), axes=(1,))])


def test_a_batch_rule_that_fails_for_no_rows():
    def batch(size, values, dims):
        outs, out_dims = sin_p.batch(size, values, dims)
        return outs if size else [zeros_like_aval(aval_of(outs[0]).update(shape=(1, 2, 3)))], out_dims

    found_by("vmap", altered(sin_p, batch=batch), ONE)


def test_a_batch_rule_that_mixes_rows():
    def batch(size, values, dims):
        outs, out_dims = sin_p.batch(size, [mapped_to(values[0], dims[0], size)], [0])
        first = reduce_sum_p.bind(outs[0], axes=(0,))
        shape = aval_of(outs[0]).shape
        return [broadcast_in_dim_p.bind(first, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))], out_dims

    found_by("vmap", altered(sin_p, batch=batch), ONE)


# -- Pairs


def test_a_lowering_that_is_wrong_in_64_bits():
    def lower(builder, operands, avals):
        rule = cos_p.lower if avals[0].dtype == np.float64 else sin_p.lower
        return rule(builder, operands, avals)

    passes("value", altered(sin_p, lower=lower), ONE)
    found_by("commute", altered(sin_p, lower=lower), ONE)


def test_a_batch_rule_without_derivative():
    """The rows are right, and their derivatives, taken after batching, are not."""

    def batch(size, values, dims):
        return [flat_cos_p.bind(*values)], list(dims)

    wrong = altered(cos_p, batch=batch)
    wrong.jvp = lambda primals, tangents: (
        [wrong.bind(*primals)], [t if type(t) is Zero else neg(mul(t, sin(primals[0]))) for t in tangents],
    )  # fmt: skip
    passes("vmap", wrong, ONE)
    found_by("commute", wrong, ONE)


# -- The table


def test_a_row_names_only_laws():
    with pytest.raises(ValueError, match="jpv"):
        Row(sin_p, ONE, skip={"jpv": "a slip of the pen"})


def test_samples_are_the_same_each_time():
    np.testing.assert_array_equal(table.floats(3, salt=2), table.floats(3, salt=2))
    assert not np.array_equal(table.floats(3), table.floats(3, salt=2))


# -- check_grads


def test_check_grads_finds_a_wrong_derivative():
    wrong = altered(sin_p, jvp=_jvp_of(lambda x: neg(cos(x))))
    for mode, name in (("fwd", "jvp,"), ("rev", "vjp,"), ("lin", "linearize,")):
        with pytest.raises(AssertionError, match=name):
            check_grads(wrong.bind, (floats(3),), 1, modes=(mode,))


def test_check_grads_finds_a_wrong_second_derivative():
    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return [sin(x)], [mul(t, flat_cos_p.bind(x))]

    wrong = altered(sin_p, jvp=jvp)
    with enable_x64():
        point = (floats(3, dtype=np.float64),)
        check_grads(wrong.bind, point, 1)
        for mode in ("fwd", "rev", "lin"):
            with pytest.raises(AssertionError, match="1 orders to go"):
                check_grads(wrong.bind, point, 2, modes=(mode,))


def test_check_grads_passes_pytrees_integers_and_complex_numbers():
    def f(tree, n):
        return {"product": mul(sin(tree["x"]), tree["y"]), "n": n}

    check_grads(f, ({"x": floats(3), "y": floats(3, salt=1)}, 4), 2)
    with enable_x64():
        check_grads(lambda z: sin(mul(z, z)), (np.array([0.5 + 0.25j, -1j]),), 2)


def test_tolerances_of_check_grads_are_those_of_its_step():
    """A step of 1e-4, as jax.test_util has it, is coarse in 64 bits: what differs by 1e-7 there is no fault."""

    def steep(x):
        return sin(mul(20.0, x))

    slightly_wrong = altered(sin_p, jvp=_jvp_of(lambda x: mul(1.001, cos(x))))
    with enable_x64():
        check_grads(steep, (np.float64(0.3),), 2, eps=1e-4)
        with pytest.raises(AssertionError, match="finite difference"):
            check_grads(steep, (np.float64(0.3),), 1, eps=1e-4, atol=1e-9, rtol=1e-9)
        with pytest.raises(AssertionError, match="finite difference"):
            check_grads(slightly_wrong.bind, (np.array([0.25]),), 1, eps=1e-4)


def test_check_jvp_and_check_vjp_compare_values():
    doubled = mul(2.0, floats(3))
    with pytest.raises(AssertionError, match="the value beside the derivative"):
        check_jvp(sin, lambda ps, ts: (doubled, ts[0]), (floats(3),))
    with pytest.raises(AssertionError, match="the value beside the derivative"):
        check_vjp(sin, lambda *ps: (doubled, lambda ct: (ct,)), (floats(3),))


def test_check_grads_refuses_unknown_modes():
    with pytest.raises(ValueError, match="modes"):
        check_grads(sin, (1.0,), 1, modes=("forward",))
    with pytest.raises(ValueError, match="order"):
        check_grads(sin, (1.0,), 0)

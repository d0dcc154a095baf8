"""Staging: what jaxprs look like, what they hold, and what the checker refuses."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import core, lax
from xpr.errors import JaxprTypeError
from xpr.extend.core import primitives

pytestmark = pytest.mark.quick


def text(fun, *args, **options):
    return str(xpr.make_jaxpr(fun, **options)(*args))


FUNC1 = """\
{ lambda ; a:f32[8] b:f32[8]. let
    c:f32[8] = sin b
    d:f32[8] = mul c 3.0
    e:f32[8] = add a d
    f:f32[] = reduce_sum[axes=(0,)] e
  in (f,) }"""


def test_first_order_program():
    def func1(first, second):
        temp = first + jnp.sin(second) * 3.0
        return jnp.sum(temp)

    assert text(func1, jnp.zeros(8), jnp.ones(8)) == FUNC1


def test_python_functions_and_control_flow_are_inlined():
    def func2(inner, first, second):
        return jnp.sum(first + inner(second) * 3.0)

    def inner(second):
        if second.shape[0] > 4:
            return jnp.sin(second)
        raise AssertionError

    assert text(lambda first, second: func2(inner, first, second), jnp.zeros(8), jnp.ones(8)) == FUNC1


def test_pytrees_are_flattened():
    def func4(arg):
        return jnp.sum(arg[0] + jnp.sin(arg[1]) * 3.0)

    assert text(func4, (jnp.zeros(8), jnp.ones(8))) == FUNC1


def test_nested_jit_prints_as_xla_call_with_names_running_on():
    def func12(arg):
        @xpr.jit
        def inner(x):
            return x + arg * jnp.ones(1)

        return arg + inner(arg - 2.0)

    assert (
        text(func12, 1.0)
        == """\
{ lambda ; a:f32[]. let
    b:f32[] = sub a 2.0
    c:f32[1] = xla_call[
      call_jaxpr={ lambda ; d:f32[] e:f32[]. let
          f:f32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1.0
          g:f32[] = convert_element_type[new_dtype=float32 weak_type=False] d
          h:f32[1] = mul g f
          i:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e
          j:f32[1] = add i h
        in (j,) }
      name=inner
    ] a b
    k:f32[] = convert_element_type[new_dtype=float32 weak_type=False] a
    l:f32[1] = add k c
  in (l,) }"""
    )


def test_scalars_are_literals_and_arrays_constvars():
    table = np.arange(3, dtype=np.float32)
    closed = xpr.make_jaxpr(lambda x: x * table + np.float32(2))(table)
    assert (
        str(closed)
        == """\
{ lambda a:f32[3]; b:f32[3]. let
    c:f32[3] = mul b a
    d:f32[3] = add c 2.0
  in (d,) }"""
    )
    assert len(closed.consts) == 1 and closed.literals is closed.consts
    assert type(closed.eqns[1].invars[1]) is core.Literal


def test_every_operation_is_staged():
    assert text(lambda x: jnp.sin(1.0), 2.0) == "{ lambda ; a:f32[]. let b:f32[] = sin 1.0 in (b,) }"


def test_unused_results_print_as_underscore():
    def fun(x):
        jnp.sin(x)
        return x

    assert text(fun, 1.0) == "{ lambda ; a:f32[]. let _:f32[] = sin a in (a,) }"


def test_closed_over_tracers_become_operands():
    def outer(x):
        return xpr.jit(lambda y: y * x)(2.0)

    closed = xpr.make_jaxpr(outer)(3.0)
    (eqn,) = closed.eqns
    assert eqn.invars[0] is closed.jaxpr.invars[0]
    assert eqn.params["call_jaxpr"].constvars == []


def test_jaxprs_of_equations_are_read_like_closed_ones():
    (eqn,) = xpr.make_jaxpr(xpr.jit(lambda x: x * 2.0))(3.0).eqns
    inner = eqn.params["call_jaxpr"]
    assert inner.jaxpr is inner and inner.consts == []
    assert core.jaxpr_as_fun(inner)(1.0)[0] == 2
    closed = xpr.make_jaxpr(lambda x: x + np.arange(3.0))(2.0)
    assert (closed.constvars, closed.invars, closed.outvars) == (
        closed.jaxpr.constvars, closed.jaxpr.invars, closed.jaxpr.outvars,
    )  # fmt: skip
    np.testing.assert_array_equal(core.eval_jaxpr(closed, closed.consts, 1.0)[0], np.arange(1.0, 4.0))
    with pytest.raises(ValueError, match="This jaxpr has constvars, whose values only its ClosedJaxpr has"):
        _ = xpr.make_jaxpr(lambda x: x + np.arange(3.0))(2.0).jaxpr.consts


def test_calls_of_jitted_functions_answer_to_the_names_of_jax():
    for staged, x in (
        (xpr.jit(jnp.sin), 1.0),
        (xpr.grad(xpr.jit(jnp.sin)), 1.0),
        (xpr.vmap(xpr.jit(jnp.sin)), np.ones(3)),
    ):
        eqn = next(eqn for eqn in xpr.make_jaxpr(staged)(x).eqns if eqn.primitive.name == "xla_call")
        assert eqn.params["jaxpr"] is eqn.params["call_jaxpr"] is eqn.params.get("jaxpr")
        assert eqn.params["inline"] is False and sorted(eqn.params) == ["call_jaxpr", "name"]
        with pytest.raises(KeyError, match="in_shardings"):
            _ = eqn.params["in_shardings"]


def test_calls_are_bound_anew_with_parameters_of_jax():
    (eqn,) = xpr.make_jaxpr(xpr.jit(jnp.sin))(1.0).eqns
    params = eqn.params.copy()
    assert params.pop("jaxpr") is eqn.params["call_jaxpr"]
    assert params.pop("inline") is False and params.pop("jaxpr", None) is None
    with pytest.raises(KeyError, match="jaxpr"):
        params.pop("jaxpr")
    params["jaxpr"] = xpr.make_jaxpr(lambda x: x * np.float32([2.0, 3.0]))(1.0)
    for run in (
        eqn.primitive.bind,
        xpr.jit(lambda x, **params: eqn.primitive.bind(x, **params), static_argnames=params),
    ):
        np.testing.assert_array_equal(run(5.0, **params)[0], [10.0, 15.0])


def test_primitives_say_whether_they_call_a_function():
    flags = [(p.call_primitive, p.map_primitive) for p in (primitives.call_p, primitives.jit_p, primitives.sin_p)]
    assert flags == [(True, False), (False, False), (False, False)]


def test_names_go_on_after_z():
    def many(x):
        for _ in range(30):
            x = jnp.sin(x)
        return x

    lines = text(many, 1.0).splitlines()
    assert lines[26].strip().startswith("ba:f32[] = sin z")


def test_static_argnums_and_return_shape_and_axis_env():
    closed, shape = xpr.make_jaxpr(lambda x, n: {"y": x[:n]}, static_argnums=1, return_shape=True)(jnp.ones(4), 2)
    assert shape == {"y": xpr.ShapeDtypeStruct((2,), jnp.float32)}
    assert len(closed.jaxpr.invars) == 1
    staged = xpr.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(1.0)
    assert "psum[axes=('i',) axis_index_groups=None]" in str(staged)


def test_make_jaxpr_takes_shapes():
    closed = xpr.make_jaxpr(jnp.sin)(xpr.ShapeDtypeStruct((2,), np.float32))
    assert closed.in_avals == [core.ShapedArray((2,), np.float32)] == closed.out_avals


def test_eval_shape():
    out = xpr.eval_shape(lambda a, b: (a @ b, a.sum()), jnp.ones((2, 3)), jnp.ones((3, 4)))
    assert [x.shape for x in out] == [(2, 4), ()]
    assert str(out[0]) == "ShapeDtypeStruct(shape=(2, 4), dtype=float32)"


def test_eval_jaxpr_and_jaxpr_as_fun():
    closed = xpr.make_jaxpr(lambda x, y: (x + y, x * y))(1.0, 2.0)
    assert [float(v) for v in core.eval_jaxpr(closed.jaxpr, closed.consts, 3.0, 4.0)] == [7, 12]
    assert [float(v) for v in core.jaxpr_as_fun(closed)(3.0, 4.0)] == [7, 12]
    with pytest.raises(TypeError, match="takes 0 constants and 2 arguments"):
        core.eval_jaxpr(closed.jaxpr, closed.consts, 3.0)


def test_replace():
    closed = xpr.make_jaxpr(lambda x: jnp.sin(x))(1.0)
    eqn = closed.eqns[0].replace(primitive=lax.cos_p)
    changed = core.ClosedJaxpr(closed.jaxpr.replace(eqns=[eqn]), [])
    assert "cos" in str(changed) and "sin" in str(closed)
    with pytest.raises(TypeError, match="has no equations"):
        closed.jaxpr.replace(equations=[])


def test_equations_know_the_users_line():
    from xpr.core.source import summarize

    eqn = xpr.make_jaxpr(lambda x: jnp.sin(x))(1.0).eqns[0]
    assert summarize(eqn.source).startswith("test_jaxprs.py:")


# -- The checker


def broken(change):
    closed = xpr.make_jaxpr(lambda x: jnp.cos(jnp.sin(x)) * 2)(1.0)
    return change(closed.jaxpr)


def test_checker_accepts_what_is_traced():
    core.check_jaxpr(xpr.make_jaxpr(xpr.grad(lambda x: jnp.sin(x) ** 2))(1.0))


def test_checker_looks_once_at_a_function_that_is_called_often():
    f = jnp.sin
    for _ in range(40):  # each calls the one before twice
        f = xpr.jit(lambda x, f=f: f(x) + f(2 * x))
    core.check_jaxpr(xpr.make_jaxpr(f)(1.0))


def test_checker_refuses_unbound_variables():
    stray = core.Var(core.ShapedArray((), np.float32))
    bad = broken(lambda j: j.replace(eqns=[j.eqns[0], j.eqns[1].replace(invars=[stray]), j.eqns[2]]))
    with pytest.raises(JaxprTypeError, match="used before it is bound") as error:
        core.check_jaxpr(bad)
    message = str(error.value)
    assert "-> c:f32[] = cos" in message and "sin a" in message and "test_jaxprs.py:" in message


def test_checker_refuses_variables_bound_twice():
    bad = broken(lambda j: j.replace(eqns=[j.eqns[0], j.eqns[1].replace(outvars=j.eqns[0].outvars)]))
    with pytest.raises(JaxprTypeError, match="bound a second time"):
        core.check_jaxpr(bad)


def test_checker_refuses_wrong_types():
    wrong = core.Var(core.ShapedArray((2,), np.float32))
    bad = broken(lambda j: j.replace(eqns=[j.eqns[0].replace(outvars=[wrong])], outvars=[wrong]))
    with pytest.raises(JaxprTypeError, match=r"result 0 is bound as f32\[2\] and sin gives f32\[\]"):
        core.check_jaxpr(bad)


def test_checker_refuses_parameters_that_are_no_jaxprs():
    jaxpr = xpr.make_jaxpr(lambda i: lax.switch(i, [jnp.sin, jnp.cos], 1.0))(1).jaxpr
    eqn = jaxpr.eqns[-1]
    bad = jaxpr.replace(eqns=[*jaxpr.eqns[:-1], eqn.replace(params={**eqn.params, "branches": (4, 2)})])
    with pytest.raises(JaxprTypeError, match=r"'int' object has no attribute(.|\n)*branches=\(4, 2\)"):
        core.check_jaxpr(bad)


def test_checker_refuses_operands_that_do_not_fit():
    integer = core.Literal(np.int32(1))
    bad = broken(lambda j: j.replace(eqns=[j.eqns[0].replace(invars=[integer])], outvars=[]))
    with pytest.raises(JaxprTypeError, match="operands don't fit the primitive: sin does not accept dtype int32"):
        core.check_jaxpr(bad)


def test_checker_refuses_wrong_number_of_results():
    bad = broken(lambda j: j.replace(eqns=[j.eqns[0].replace(outvars=[])], outvars=[]))
    with pytest.raises(JaxprTypeError, match="gives 1 results, and 0 are bound"):
        core.check_jaxpr(bad)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda j: j.replace(invars=[[3]]), "a binder must be a variable, and this one is [3].\n  in the binders"),
        (lambda j: j.replace(outvars=[3.0]), "an operand must be a variable or a literal, and this one is 3.0.\n  in"),
        (lambda j: j.replace(eqns=[j.eqns[0].replace(outvars=[3])]), "this one is 3.\n  in an equation of sin\n  from"),
        (lambda j: j.replace(eqns=[j.eqns[0].replace(invars=[[3]])]), "this one is [3].\n  in an equation of sin\n"),
    ],
)
def test_checker_refuses_what_is_no_variable(change, message):
    with pytest.raises(JaxprTypeError) as error:
        core.check_jaxpr(broken(change))
    assert message in str(error.value)


def test_shaped_arrays_are_interned_and_immutable():
    aval = core.ShapedArray([2, 3], "float32")
    assert aval is core.ShapedArray((2, 3), np.float32)
    assert aval.update(shape=()) is core.ShapedArray((), np.float32)
    with pytest.raises(AttributeError, match="immutable"):
        aval.shape = ()
    for make in (core.ShapedArray, xpr.ShapeDtypeStruct):
        with pytest.raises(TypeError, match="values of integer type, and 2.5 is none. Convert it with int"):
            make((3, 2.5), np.float32)


def test_effects():
    closed = xpr.make_jaxpr(lambda x: xpr.jit(lambda x: xpr.debug.print("{}", x, ordered=True))(x) or x + 1)(1.0)
    assert closed.effects == closed.jaxpr.effects == closed.eqns[0].effects == {"ordered"}
    assert closed.eqns[1].effects == frozenset()


def test_equal_copies_of_numpy_arrays_are_one_constant():
    table, other = np.arange(3, dtype=np.float32), np.array([0, 1, 3], np.float32)
    closed = xpr.make_jaxpr(lambda: (jnp.array(table), jnp.sum(table), table, jnp.sum(other), np.arange(3)))()
    assert [x.dtype.name for x in closed.consts] == ["float32", "float32", "int32"]
    core.check_jaxpr(closed)

    def changes():
        before = jnp.sum(table)
        table[0] = 5
        return before, jnp.sum(table)

    assert list(map(float, xpr.jit(changes)())) == [3, 8]


def test_conversions_of_numbers_are_known_while_tracing():
    convert = lambda x, dtype: xpr.make_jaxpr(lambda: lax.convert_element_type(x, dtype))()
    assert str(convert(3.0, jnp.float16)) == "{ lambda ; . let in (3.0:f16,) }"
    assert not convert(np.arange(3, dtype=np.int32), jnp.int32).eqns and convert(np.arange(3), jnp.float32).eqns
    assert float(lax.convert_element_type(2**100, jnp.float32)) == 2.0**100
    assert int(lax.convert_element_type(np.nan, jnp.int32)) == 0 and int(lax.convert_element_type(300, jnp.uint8)) == 44
    with pytest.raises(OverflowError, match="Python int 4294967296 too large to convert to int32"):
        lax.neg(2**32)
    assert int(lax.convert_element_type(2**32 + 7, jnp.int32)) == 7
    assert int(lax.convert_element_type(2**64 - 1, jnp.int8)) == -1
    with pytest.raises(OverflowError, match="Python int 18446744073709551616 too large to convert to int32"):
        lax.convert_element_type(2**64, jnp.int32)

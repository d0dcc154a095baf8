"""Effects that primitives of users declare: what holds them, where they are allowed, and their order."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import core, lax
from xpr.extend import Primitive
from xpr.extend.core import Effect, Effects, no_effects
from xpr.interpreters import ad, mlir
from xpr.jaxpr import cse, dce


class Named(Effect):
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Unordered(Named):
    pass


class Ordered(Named):
    pass


class AllowedInLoops(Named):
    pass


core.lowerable_effects.add_type(Unordered)
core.lowerable_effects.add_type(Ordered)
core.ordered_effects.add_type(Ordered)
core.lowerable_effects.add_type(AllowedInLoops)
core.ordered_effects.add_type(AllowedInLoops)
core.control_flow_allowed_effects.add_type(AllowedInLoops)

UNLOWERABLE, UNORDERED, FIRST, SECOND = (
    Named("unlowerable"),
    Unordered("unordered"),
    Ordered("first"),
    Ordered("second"),
)
IN_LOOPS = AllowedInLoops("in loops")


@pytest.fixture
def acts_p():
    """Returns its operands, and has the effects that its parameter says."""
    acts_p = Primitive("acts", multiple_results=True)
    acts_p.def_effectful_abstract_eval(lambda *avals, effects: (avals, set(effects)))

    def lower(ctx, *operands, effects):
        assert ctx.tokens_in.effects() == set(core.ordered_effects.filter_in(effects))
        ctx.set_tokens_out(ctx.tokens_in)
        return operands

    mlir.register_lowering(acts_p, lower)
    ad.primitive_jvps[acts_p] = lambda primals, tangents, effects: (acts_p.bind(*primals, effects=effects), tangents)
    return acts_p


@pytest.fixture
def notes_p():
    """Calls its parameter with its operand, in order."""
    notes_p = Primitive("notes", multiple_results=True)
    notes_p.def_effectful_abstract_eval(lambda aval, *, note: ([], {IN_LOOPS}))

    def lower(ctx, x, *, note):
        _, token, _ = mlir.emit_python_callback(
            ctx,
            lambda x: note(float(x)) or (),
            ctx.tokens_in.get(IN_LOOPS),
            [x],
            ctx.avals_in,
            [],
            has_side_effect=True,
        )
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({IN_LOOPS: token})))
        return []

    mlir.register_lowering(notes_p, lower)
    return notes_p


def acting(acts_p, *effects):
    """A function that returns its argument, and has effects."""

    def act(x):
        acts_p.bind(effects=effects)
        return x

    return act


def test_jaxprs_and_equations_have_them(acts_p):
    f = acting(acts_p, FIRST, UNORDERED)
    closed = xpr.make_jaxpr(lambda x: f(x) + 1)(2.0)
    assert closed.effects == closed.jaxpr.effects == closed.eqns[0].effects == {FIRST, UNORDERED}
    assert closed.eqns[1].effects == no_effects
    assert isinstance(closed.effects, Effects)
    assert xpr.jaxpr.effects(closed) == {"ordered", "unordered"}
    core.check_jaxpr(closed)


def test_they_may_be_given_again_to_jaxprs_and_equations(acts_p):
    jaxpr = xpr.make_jaxpr(acting(acts_p, FIRST))(2.0).jaxpr
    copy = core.Jaxpr(
        jaxpr.constvars, jaxpr.invars, jaxpr.outvars, jaxpr.eqns, effects=jaxpr.effects, debug_info=jaxpr.debug_info
    )
    eqns = [eqn.replace(effects=eqn.effects) for eqn in jaxpr.eqns]
    for same in (copy, jaxpr.replace(eqns=eqns, effects=jaxpr.effects, debug_info=None)):
        assert str(same) == str(jaxpr) and same.effects == {FIRST}
    with pytest.raises(TypeError, match="Jaxpr has no name; it has constvars, invars, outvars, eqns"):
        jaxpr.replace(name="f", effects=jaxpr.effects)


def test_they_depend_on_types():
    large_p = Primitive("large")
    large_p.def_effectful_abstract_eval(lambda aval: (aval, {UNORDERED} if aval.size > 2 else set()))
    assert xpr.make_jaxpr(large_p.bind)(jnp.ones(3)).effects == {UNORDERED}
    assert xpr.make_jaxpr(large_p.bind)(jnp.ones(2)).effects == no_effects
    assert not xpr.jaxpr.dce(xpr.make_jaxpr(lambda x: (large_p.bind(x), x)[1])(1.0)).eqns


def test_types_and_effects_of_a_call(acts_p):
    aval = xpr.typeof(1.0)
    assert acts_p.abstract_eval(aval, effects=(FIRST,)) == ([aval], {FIRST})
    assert lax.neg_p.abstract_eval(aval) == (aval, no_effects)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'untyped' not implemented"):
        Primitive("untyped").abstract_eval(aval)


def test_a_subclass_declares_them():
    class Acts(Primitive):
        def abstract_eval(self, aval, *, effect):
            return aval, {effect}

    assert xpr.make_jaxpr(lambda x: Acts("acts").bind(x, effect=FIRST))(1.0).effects == {FIRST}


def test_a_later_rule_without_effects_has_none(acts_p):
    acts_p.def_abstract_eval(lambda *avals, effects: list(avals))
    assert xpr.make_jaxpr(acting(acts_p, FIRST))(1.0).effects == no_effects


@pytest.mark.parametrize(
    "transform",
    [
        xpr.jit, xpr.checkpoint, lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, length=2)[0],
        lambda f: lambda x: lax.while_loop(lambda x: x < 3, lambda x: f(x) + 1, x),
        lambda f: lambda x: lax.while_loop(lambda x: f(x) > 3, lambda x: x, x),
        lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
        lambda f: xpr.vmap(lambda i: f(i), axis_size=2, in_axes=None, out_axes=None),
        lambda f: lambda x: xpr.jvp(f, (x,), (x,))[1],
    ],
)  # fmt: skip
def test_what_holds_one_has_it(acts_p, transform):
    closed = xpr.make_jaxpr(transform(acting(acts_p, IN_LOOPS)))(2.0)
    assert closed.effects == {IN_LOOPS}
    assert "acts" in str(dce(closed))


def test_equations_with_them_are_neither_removed_nor_shared(acts_p):
    closed = xpr.make_jaxpr(lambda x: acting(acts_p, UNORDERED)(acting(acts_p, UNORDERED)(x)))(1.0)
    assert len(cse(dce(closed)).eqns) == 2


@pytest.mark.parametrize(
    "what, run",
    [
        ("scan", lambda f: lax.scan(lambda c, x: (f(c), x), 1.0, jnp.arange(3))),
        ("scan", lambda f: lax.map(f, jnp.arange(3))),
        ("while_loop", lambda f: lax.while_loop(lambda x: x < 0, f, 1.0)),
        ("while_loop", lambda f: lax.while_loop(lambda x: f(x) < 0, lambda x: x, 1.0)),
        ("cond", lambda f: lax.cond(True, f, lambda x: x, 1.0)),
        ("switch", lambda f: lax.switch(0, [f, lambda x: x], 1.0)),
    ],
)
def test_control_flow_refuses_what_is_not_declared_to_be_allowed(acts_p, what, run):
    with pytest.raises(
        NotImplementedError, match=rf"Effects not supported in `{what}`: \[first\]. Where they are safe"
    ):
        run(acting(acts_p, FIRST))
    with pytest.raises(NotImplementedError, match=r"xpr\.core\.control_flow_allowed_effects\.add_type\(Ordered\)"):
        xpr.make_jaxpr(lambda: run(acting(acts_p, FIRST)))()


def test_functions_with_derivative_rules_refuse_what_is_not_declared_to_be_allowed(acts_p):
    f = xpr.custom_jvp(acting(acts_p, FIRST))
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    with pytest.raises(NotImplementedError, match=r"Effects not supported in `act`: \[first\]"):
        xpr.make_jaxpr(f)(2.0)
    g = xpr.custom_vjp(acting(acts_p, FIRST))
    g.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(NotImplementedError, match="custom_derivatives_allowed_effects"):
        xpr.jit(g)(2.0)


def test_programs_refuse_what_is_not_declared_to_be_lowerable(acts_p):
    for call in (xpr.jit(acting(acts_p, UNLOWERABLE)), xpr.jit(acting(acts_p, UNLOWERABLE)).lower):
        with pytest.raises(ValueError, match=r"Cannot lower jaxpr with effects: {unlowerable}. .*add_type\(Named\)"):
            call(1.0)
    with pytest.raises(ValueError, match="Cannot lower jaxpr with effects"):
        acts_p.bind(1.0, effects=(UNLOWERABLE,))


def test_tokens_of_ordered_effects(acts_p):
    f = acting(acts_p, FIRST, SECOND)
    assert xpr.jit(lambda x: f(f(x) + 1))(1.0) == 2
    assert "stablehlo.token" in xpr.jit(f).lower(1.0).as_text()
    assert "stablehlo.token" not in xpr.jit(acting(acts_p, UNORDERED)).lower(1.0).as_text()
    np.testing.assert_array_equal(acts_p.bind(jnp.ones(2), effects=(FIRST,))[0], [1, 1])


def test_a_rule_must_give_the_tokens_of_all_its_effects(acts_p):
    mlir.register_lowering(acts_p, lambda ctx, effects: [])
    with pytest.raises(ValueError, match=r"Lowering rule for `acts` needs to set `tokens_out`.*\['first'\]"):
        xpr.jit(acting(acts_p, FIRST)).lower(1.0)

    def lower(ctx, effects):
        ctx.set_tokens_out(mlir.TokenSet({SECOND: ctx.tokens_in.get(FIRST)}))
        return []

    mlir.register_lowering(acts_p, lower)
    with pytest.raises(
        ValueError, match=r"incorrect set of output tokens. Expected: \['first'\] vs. actual: \['second"
    ):
        xpr.jit(acting(acts_p, FIRST)).lower(1.0)


def test_new_tokens_of_several_effects_are_joined(acts_p):
    def lower(ctx, effects):
        ctx.set_tokens_out(mlir.TokenSet.create(ctx.tokens_in.effects()))
        return []

    mlir.register_lowering(acts_p, lower)
    f = acting(acts_p, FIRST, SECOND)
    assert xpr.jit(lambda x: f(f(x)) + 1)(1.0) == 2


def test_ordered_effects_need_one_device(acts_p):
    mesh = xpr.sharding.AbstractMesh((2,), ("x",))
    f = xpr.jit(xpr.shard_map(acting(acts_p, FIRST), mesh=mesh, in_specs=xpr.P("x"), out_specs=xpr.P("x")))
    with pytest.raises(ValueError, match=r"ordered effects are not supported for more than 1 device: \[first\]"):
        f.trace(jnp.ones(2)).lower(lowering_platforms=("cpu",))


def test_callbacks_are_called_in_order(notes_p):
    notes = []

    def note(x):
        return notes_p.bind(x, note=notes.append)

    def f(x):
        note(x)
        note(x + 1)
        return lax.fori_loop(0, 3, lambda i, x: (note(x), 2 * x)[1], x)

    assert xpr.jit(f)(1.0) == 8
    assert notes == [1, 2, 1, 2, 4]
    notes.clear()
    note(5.0)
    note(5.0)
    f(1.0)
    assert notes == [5, 5, 1, 2, 1, 2, 4]
    notes.clear()
    xpr.jit(lambda x: lax.cond(x > 0, note, lambda x: [], x))(3.0)
    xpr.jit(lambda x: lax.cond(x > 0, note, lambda x: [], x))(-3.0)
    assert notes == [3]


def test_an_eager_call_of_a_primitive_that_calls_python():
    calls_p = Primitive("calls_python_when_lowered")
    calls_p.def_abstract_eval(lambda aval: aval)
    calls_p.def_lowering(lambda b, operands, avals: b.callback(lambda x: [2 * x], operands, avals, None)[0])
    assert [calls_p.bind(jnp.float32(x)).item() for x in (1, 2)] == [2, 4]


def test_recomputation_does_not_repeat_an_effect(notes_p):
    notes = []

    @xpr.checkpoint
    def f(x):
        notes_p.bind(lax.stop_gradient(x), note=notes.append)
        return jnp.sin(jnp.sin(x))

    xpr.jit(xpr.grad(f))(1.0)
    assert notes == [1]


def test_sets_of_classes():
    types = core.EffectTypes("some")
    types.add_type(Ordered)
    assert types.contains(FIRST) and not types.contains(UNORDERED)
    assert types.filter_in([FIRST, UNORDERED]) == [FIRST] and types.filter_not_in([FIRST, UNORDERED]) == [UNORDERED]
    assert str(types) == "some(Ordered)"


def test_new_tokens_have_the_type_of_tokens():
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        assert str(mlir.token_type()) == "!stablehlo.token"
        module = mlir.ir.Module.create()
        with mlir.ir.InsertionPoint(module.body):
            tokens = mlir.TokenSet.create([FIRST, SECOND])
        assert all(token.type == mlir.token_type() for _, token in tokens.items())


def test_token_sets():
    tokens = mlir.TokenSet({FIRST: 1, SECOND: 2})
    assert len(tokens) == 2 and len(mlir.TokenSet()) == 0
    assert tokens.get(SECOND) == 2 and tokens.effects() == {FIRST, SECOND}
    assert tokens.subset([SECOND]).items() == ((SECOND, 2),)
    assert tokens.update_tokens(mlir.TokenSet()) is tokens
    assert tokens.update_tokens(mlir.TokenSet({FIRST: 3})).items() == ((FIRST, 3), (SECOND, 2))
    assert repr(tokens.subset([FIRST])) == "TokenSet({first: 1})"
    with pytest.raises(KeyError):
        tokens.get(UNORDERED)

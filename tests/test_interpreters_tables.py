"""Primitives whose rules are given by JAX's tables and calls go through every transformation, as they do in JAX."""

import importlib
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import api_util, lax
from xpr.extend import core, linear_util
from xpr.interpreters import ad, batching, mlir, partial_eval, xla


def close(x, y):
    np.testing.assert_allclose(x, y, rtol=1e-5)


@pytest.fixture
def square_p():
    """x^2 by JAX's tables, lowered by building operations."""
    square_p = core.Primitive("square_by_tables")
    square_p.def_impl(lambda x: np.asarray(x) ** 2)
    square_p.def_abstract_eval(lambda x: core.mapped_aval(0, None, x))
    ad.defjvp(square_p, lambda t, x: 2 * x * t)
    batching.defvectorized(square_p)

    def lower(ctx, x):
        assert ctx.avals_in == ctx.avals_out
        (aval,) = ctx.avals_out
        operation = mlir.ir.Operation.create(
            "stablehlo.multiply", results=[mlir.aval_to_ir_type(aval)], operands=[x, x]
        )
        return operation.results

    mlir.register_lowering(square_p, lower)
    return square_p


def test_a_rule_that_builds_operations(square_p):
    f = square_p.bind
    close(xpr.jit(lambda x: f(x) + f(x + 1))(jnp.arange(3.0)), [1, 5, 13])
    close(xpr.jit(f)(3.0), 9)
    close(f(jnp.arange(3.0)), [0, 1, 4])
    close(xpr.grad(f)(3.0), 6)
    close(xpr.jit(xpr.grad(xpr.grad(f)))(3.0), 2)
    close(xpr.jit(xpr.vmap(f, in_axes=1, out_axes=1))(jnp.ones((2, 3))), np.ones((2, 3)))


def test_random_keys_are_operands_of_primitives_that_are_functions():
    """As equinox's loops select among carries; a primitive with a rule for numbers refuses them."""
    chosen_p = core.Primitive("chosen")
    chosen_p.def_impl(lax.select)
    chosen_p.def_abstract_eval(lambda pred, x, y: x)
    mlir.register_lowering(chosen_p, mlir.lower_fun(lax.select, multiple_results=False))
    batching.axis_primitive_batchers[chosen_p] = lambda size, name, trace, args, dims: (
        xpr.vmap(lax.select, in_axes=dims)(*args),
        0,
    )
    a, b = xpr.random.key(0), xpr.random.key(1)
    assert chosen_p.bind(False, a, b) == xpr.jit(chosen_p.bind)(False, a, b) == b
    rows = xpr.jit(xpr.vmap(lambda pred, key: chosen_p.bind(pred, key, b)))(
        np.array([True, False]), xpr.random.split(a)
    )
    assert rows[0] == xpr.random.split(a)[0] and rows[1] == b

    def body(key, pred):
        return chosen_p.bind(pred, xpr.random.split(key)[0], key), xpr.random.uniform(key)

    last, _ = lax.scan(body, a, np.array([True, False]))
    assert last == xpr.random.split(a)[0]


def test_a_rule_for_another_platform():
    only_p = core.Primitive("only_elsewhere")
    only_p.def_abstract_eval(lambda x: x)
    with pytest.raises(
        NotImplementedError, match="of only_elsewhere for an unknown platform abacus; known are cpu, cuda"
    ):
        mlir.register_lowering(only_p, lambda ctx, x: [x], platform="abacus")
    mlir.register_lowering(only_p, mlir.lower_fun(lambda x: x, multiple_results=False), platform="tpu")
    with pytest.raises(NotImplementedError, match="only_elsewhere has no lowering rule for cpu, only for tpu"):
        xpr.jit(lambda x: only_p.bind(x))(1.0)
    mlir.register_lowering(only_p, lambda ctx, x: [x], platform="cuda")
    with pytest.raises(NotImplementedError, match="only_elsewhere has no lowering rule for cpu, only for tpu, cuda"):
        xpr.jit(only_p.bind)(1.0)


def test_constants_and_functions_in_a_rule():
    shifted_p = core.Primitive("shifted")
    shifted_p.def_abstract_eval(lambda x: x)

    def lower(ctx, x):
        (doubled,) = mlir.lower_fun(lambda x: 2 * x, multiple_results=False)(ctx, x)
        shift = mlir.ir_constant(np.array([1.0, 2.0, 3.0], np.float32))
        return mlir.ir.Operation.create("stablehlo.add", results=[x.type], operands=[doubled, shift]).results

    mlir.register_lowering(shifted_p, lower)
    close(xpr.jit(shifted_p.bind)(jnp.ones(3)), [3, 4, 5])
    close(xla.apply_primitive(shifted_p, jnp.ones(3)), [3, 4, 5])


def test_a_callback_in_a_rule():
    seen = []
    noted_p = core.Primitive("noted")
    noted_p.multiple_results = True
    noted_p.def_abstract_eval(lambda x: [x])

    def note(x):
        seen.append(x)
        return (x + 1,)

    def lower(ctx, x):
        results, _, kept = mlir.emit_python_callback(ctx, note, None, [x], ctx.avals_in, ctx.avals_out)
        ctx.module_context.add_keepalive(kept)
        return results

    mlir.register_lowering(noted_p, lower)
    close(xpr.jit(lambda x: noted_p.bind(x)[0] * 2)(1.0), 4)
    assert len(seen) == 1


def test_calls_of_wrapped_functions():
    """`call_p.bind(x, subfuns=(function,))` is a call of the function's jaxpr."""

    def f(x):
        return core.primitives.call_p.bind(x, subfuns=(linear_util.wrap_init(lambda x: [jnp.sin(x)]),))[0]

    (eqn,) = xpr.make_jaxpr(f)(1.0).eqns
    assert eqn.primitive is core.primitives.jit_p
    close(xpr.grad(f)(1.0), np.cos(1.0))
    close(xpr.vmap(f)(jnp.arange(2.0)), np.sin([0.0, 1.0]))
    assert isinstance(core.primitives.closed_call_p, core.CallPrimitive)


def test_linear_and_bilinear():
    double_p, times_p = core.Primitive("double_linear"), core.Primitive("times_bilinear")
    for p, f in ((double_p, lambda x: 2 * x), (times_p, lambda x, y: x * y)):
        mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=False))
        p.def_abstract_eval(lambda x, *_: x)
    ad.deflinear2(double_p, lambda ct, x: [2 * ct])
    ad.defbilinear(times_p, lambda ct, x, y: times_p.bind(ct, y), lambda ct, x, y: times_p.bind(x, ct))
    batching.defbroadcasting(times_p)
    close(xpr.grad(lambda x: double_p.bind(x) * x)(3.0), 12)
    close(xpr.grad(times_p.bind, argnums=(0, 1))(2.0, 3.0), (3, 2))
    close(xpr.vmap(times_p.bind, in_axes=(0, None))(jnp.arange(3.0), 2.0), [0, 2, 4])
    close(xpr.vmap(times_p.bind, in_axes=(0, 1))(jnp.ones((3, 2)), jnp.ones((2, 3))), np.ones((3, 2)))
    assert ad.get_primitive_transpose(double_p)(1.0, ad.UndefinedPrimal(core.mapped_aval(0, None, xpr.typeof(1.0))))
    with pytest.raises(NotImplementedError, match="floor has no transposition rule"):
        ad.get_primitive_transpose(lax.floor_p)


def test_rules_that_take_axis_data():
    sizes_p, named_p = core.Primitive("sizes"), core.Primitive("named_sizes")
    for p in (sizes_p, named_p):
        p.def_abstract_eval(lambda x: x)
        mlir.register_lowering(p, mlir.lower_fun(lambda x: x, multiple_results=False))
    batching.fancy_primitive_batchers[sizes_p] = lambda axis, xs, dims: (xs[0] * axis.size, dims[0])
    batching.axis_primitive_batchers[named_p] = lambda size, name, _, xs, dims: (xs[0] * size, dims[0])
    for p in (sizes_p, named_p):
        close(xpr.vmap(p.bind)(jnp.ones(3)), [3, 3, 3])
        assert p in batching.primitive_batchers


def test_a_reducer():
    total_p = core.Primitive("total")
    total_p.def_abstract_eval(
        lambda x, *, axes: x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))
    )
    mlir.register_lowering(total_p, mlir.lower_fun(lambda x, *, axes: jnp.sum(x, axes), multiple_results=False))
    batching.defreducer(total_p)
    for axis in (0, 1, 2):
        total = xpr.vmap(partial(total_p.bind, axes=(1,)), in_axes=axis)(jnp.ones((2, 2, 2)))
        close(total, np.full((2, 2), 2))


def test_a_predicate_that_combines_rows_of_a_loop_with_effects():
    """The loop ends for all rows at once, and so is one loop, whose counter has no rows."""
    any_p = core.Primitive("any_of_rows")
    any_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(any_p, mlir.lower_fun(lambda x: x, multiple_results=False))
    batching.primitive_batchers[any_p] = lambda xs, dims: (jnp.any(xs[0], axis=dims[0]), None)
    seen = []

    def count(start):
        def body(carry):
            xpr.debug.callback(seen.append, carry[1])
            return carry[0] + 1, carry[1] + 1

        return lax.while_loop(lambda carry: any_p.bind(carry[1] < 3), body, (0, start))

    numbers, ends = xpr.vmap(count, out_axes=(None, 0))(jnp.array([0, 2]))
    assert numbers == 3 and ends.tolist() == [3, 5] and len(seen) == 6


def test_tables_have_the_rules_of_the_library():
    close(ad.primitive_jvps[lax.sin_p]([1.0], [2.0])[1], 2 * np.cos(1))
    out, dim = batching.primitive_batchers[lax.sin_p]([jnp.ones((2, 3))], [1])
    assert (out.shape, dim) == ((2, 3), 1)
    assert lax.sin_p in ad.primitive_jvps and lax.sin_p not in ad.primitive_transposes
    assert ad.primitive_transposes.get(lax.sin_p) is None
    assert len(list(ad.primitive_jvps)) == len(ad.primitive_jvps) > 100
    own_p = core.Primitive("own_rules")
    assert own_p not in ad.primitive_jvps
    rule = lambda primals, tangents: (primals[0], tangents[0])
    ad.primitive_jvps[own_p] = rule
    assert ad.primitive_jvps[own_p] is rule
    del ad.primitive_jvps[own_p]
    with pytest.raises(KeyError):
        ad.primitive_jvps[own_p]
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'own_rules' not implemented. .* removed"):
        xpr.jvp(own_p.bind, (1.0,), (1.0,))


def test_vectorized_primitives_are_mapped_along_one_axis():
    sum_p = core.Primitive("sum_by_tables")
    sum_p.def_impl(lambda x, y: np.asarray(x) + np.asarray(y))
    sum_p.def_abstract_eval(lambda x, y: core.mapped_aval(0, None, x))
    batching.defvectorized(sum_p)
    close(xpr.vmap(sum_p.bind)(jnp.ones(3), jnp.arange(3.0)), [1, 2, 3])
    for axes in ((None, 0), (0, None), (0, 1)):
        with pytest.raises(
            ValueError, match="sum_by_tables: its operands are mapped along the axes .* by defbroadcast"
        ):
            xpr.vmap(sum_p.bind, axes)(jnp.ones((3, 3)), jnp.ones((3, 3)))


def test_tangents():
    zero = ad.Zero.from_primal_value(1.0)
    rows = xpr.vmap(lambda x: [x, zero, ad.Zero.from_primal_value(1)], out_axes=[0, None, 0])(jnp.ones(3))
    assert [type(x) for x in rows] == [xpr.Array, ad.Zero, ad.Zero]
    assert [x.aval.str_short() for x in rows] == ["f32[3]", "f32[]", "float0[3]"]
    assert ad.add_tangents(zero, 3.0) == 3 and ad.add_tangents(3.0, zero) == 3
    close(ad.add_tangents(jnp.ones(2), jnp.ones(2)), [2, 2])
    close(ad.instantiate_zeros(zero), 0)


class TestFunctions:
    def test_flattening(self):
        args = {"a": 1.0, "b": (2.0, 3.0)}
        leaves, structure = xpr.tree.flatten(((args,), {}))
        flat, out_tree = api_util.flatten_fun(linear_util.wrap_init(lambda d: [d["a"], d["b"]]), structure)
        assert flat.call_wrapped(*leaves) == [1.0, 2.0, 3.0]
        assert xpr.tree.unflatten(out_tree(), [1, 2, 3]) == [1, (2, 3)]
        leaves, structure = xpr.tree.flatten((args,))
        flat, _ = api_util.flatten_fun_nokwargs(linear_util.wrap_init(lambda d: d["b"]), structure)
        assert flat.call_wrapped(*leaves) == [2.0, 3.0]

    def test_transformations(self):
        @linear_util.transformation
        def shifted(by, *args):
            out = yield [x + by for x in args], {}
            yield out * 10

        @linear_util.transformation_with_aux
        def counted(*args):
            out = yield args, {}
            yield out, len(args)

        @linear_util.transformation2
        def scaled(f, by, *args):
            return f(*args) * by

        fun, count = counted(scaled(shifted(linear_util.wrap_init(lambda x, y: x + y), 1), 2))
        with pytest.raises(linear_util.StoreException, match="The store is empty"):
            count()
        assert (fun.call_wrapped(1, 2), count()) == (100, 2)
        assert linear_util.merge_linear_aux(count, lambda: 5) == (True, 2)
        assert linear_util.wrap_init(len) == linear_util.wrap_init(len)

    def test_some_arguments(self):
        fun, dynamic = api_util.argnums_partial(linear_util.wrap_init(lambda x, y, z: (x, y, z)), (0, 2), [1, 2, 3])
        assert (fun.call_wrapped(*dynamic), dynamic) == ((1, 2, 3), [1, 3])
        with pytest.raises(ValueError, match="Argument 1 is held fixed and is a list"):
            api_util.argnums_partial(linear_util.wrap_init(max), 0, [1, []])

    def test_arguments(self):
        structure = xpr.tree.structure(((1, (2, 3)), {"k": 4}))
        assert api_util.donation_vector((1,), ("k",), structure) == (False, True, True, True)
        assert api_util.rebase_donate_argnums((1, 3), (0, 2)) == (0, 1)
        assert api_util.rebase_donate_argnums((3, 1, 3), (0, 2)) == (0, 1)
        assert api_util.rebase_donate_argnums(iter((3, 1)), iter((0, 2))) == (0, 1)
        with pytest.raises(ValueError, match="Arguments can't be static and donated"):
            api_util.rebase_donate_argnums((1,), (1,))
        assert api_util.flatten_axes("axes", xpr.tree.structure({"a": 1, "b": (2, 3)}), {"a": 0, "b": None}) == [
            0,
            None,
            None,
        ]
        with pytest.raises(ValueError, match="axes must be a pytree prefix"):
            api_util.flatten_axes("axes", xpr.tree.structure((1, 2)), [0])
        signature = api_util.fun_signature(lambda a, b=2: a)
        assert api_util.infer_argnums_and_argnames(signature, 1, None) == ((1,), ("b",))
        assert api_util.infer_argnums_and_argnames(signature, None, "a") == ((0,), ("a",))
        with pytest.raises(ValueError, match=r"safe_map: the arguments have different lengths: \[1, 2\]"):
            api_util.safe_map(max, [1], [1, 2])

    def test_jaxprs(self):
        fun = linear_util.wrap_init(lambda x, y: [x * 2, jnp.sin(y)])
        jaxpr, avals, consts = partial_eval.trace_to_jaxpr_dynamic(fun, [xpr.typeof(1.0)] * 2)
        assert [e.primitive.name for e in jaxpr.eqns] == ["mul", "sin"] and len(avals) == 2 and not consts
        smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True])
        assert [e.primitive.name for e in smaller.eqns] == ["sin"] and used == [False, True]


def test_traces():
    def f(x):
        state = core.get_opaque_trace_state()
        with core.take_current_trace() as trace:
            assert core.get_opaque_trace_state() != state
            assert float(jnp.sin(0.0)) == 0
            with core.set_current_trace(trace):
                assert core.get_opaque_trace_state() == state
                assert core.unsafe_am_i_under_a_jit_DO_NOT_USE()
                return x + 1

    assert str(xpr.make_jaxpr(f)(1.0)) == "{ lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }"
    assert not core.unsafe_am_i_under_a_jit_DO_NOT_USE() and not core.nonempty_axis_env_DO_NOT_USE()


def test_scopes_leave_the_state_of_the_trace_as_it_is():
    """Libraries (haiku, flax) refuse to make parameters where the state is another than it was."""

    def f(x):
        state = core.get_opaque_trace_state()
        with xpr.named_scope("outer"), xpr.named_scope("inner"):
            assert core.get_opaque_trace_state() == state
            xpr.vmap(lambda y: states.append(core.get_opaque_trace_state()) or y)(x)
        assert states.pop() != state
        return x[x > 1].sum() + (core.get_opaque_trace_state() == state)

    states = []
    x = jnp.arange(3.0)
    assert xpr.jit(f)(x) == 3 == xpr.vmap(f)(x[None])[0] == xpr.jvp(f, (x,), (x,))[0]


def test_meshes_and_settings_leave_the_state_of_the_trace_as_it_is():
    state, states = core.get_opaque_trace_state(), []
    mesh = xpr.make_mesh((1,), ("x",), axis_types=(xpr.sharding.AxisType.Auto,))
    for scope in (xpr.set_mesh(mesh), xpr.debug_nans(True), xpr.ensure_compile_time_eval()):
        with scope:
            assert core.get_opaque_trace_state() == state
            xpr.vmap(lambda x: states.append(core.get_opaque_trace_state()) or x)(jnp.arange(3.0))
        assert states.pop() != state


def test_primitives_by_their_names():
    assert core.primitives.sin_p is lax.sin_p
    assert core.primitives.jit_p.name == "xla_call"
    assert "add_p" in dir(core.primitives)
    with pytest.raises(AttributeError, match="has no attribute 'nothing_p'"):
        _ = core.primitives.nothing_p


def test_rules_take_tuples():
    """As in JAX, so that they may be mapped by `in_axes` that are tuples."""
    given = []
    p = core.Primitive("of_tuples")
    p.def_impl(lambda x: x)

    def rule(primals, tangents):
        given.append((type(primals), type(tangents)))
        return primals[0], tangents[0]

    ad.primitive_jvps[p] = rule
    assert xpr.jvp(p.bind, (1.0,), (2.0,))[1] == 2
    assert given == [(tuple, tuple)]


class Ragged:
    """Rows of a matrix, of which so many elements count; the unit is the same for all."""

    def __init__(self, rows, counts, unit):
        assert rows.ndim == 1 + counts.ndim
        self.rows, self.counts, self.unit = rows, counts, unit


class Along:
    def __init__(self, axis):
        self.axis = axis


@pytest.mark.parametrize("name", ["xpr", "jax"])
def test_types_that_map_themselves(name):
    lib = xpr if name == "xpr" else pytest.importorskip("jax")
    tables = importlib.import_module(
        f"{name}.interpreters.batching" if lib is xpr else "jax._src.interpreters.batching"
    )
    tables.register_vmappable(
        Ragged, Along, int,
        lambda cont, _, x, along: Ragged(cont(x.rows, along.axis), cont(x.counts, 0), x.unit),
        lambda cont, size, x, along: Ragged(cont(size, x.rows, along.axis), cont(size, x.counts, 0), x.unit),
        None,
    )  # fmt: skip
    array = lib.numpy.asarray
    x = Ragged(array(np.arange(6.0).reshape(3, 2)), array([1, 2]), "m")

    def f(x, y):
        assert x.rows.shape == (3,) and x.counts.shape == () and x.unit == "m"
        return Ragged(x.rows * y, x.counts + 1, x.unit), x.rows.sum() + y

    g = lib.vmap(f, in_axes=(Along(1), 0), out_axes=(Along(0), 0))
    out, sums = g(x, array([10.0, 100.0]))
    close(out.rows, np.arange(6.0).reshape(3, 2).T * [[10], [100]])
    close(out.counts, [2, 3])
    close(sums, [16, 109])
    assert out.unit == "m"
    tables.unregister_vmappable(Ragged)
    if lib is xpr:
        with pytest.raises((TypeError, ValueError)):
            g(x, array([10.0, 100.0]))


class Wrapped:
    def __init__(self, data):
        self.data = data


@pytest.mark.parametrize(
    "from_elt",
    [
        lambda cont, size, x, axis: Wrapped(cont(size, x.data + size, axis)),
        lambda cont, size, x, axis: Wrapped(cont(size, x.data, axis) + size),
    ],
)
def test_types_that_compute_while_they_map_themselves(from_elt):
    batching.register_vmappable(Wrapped, int, int, lambda cont, _, x, axis: Wrapped(cont(x.data, axis)), from_elt, None)
    try:
        f = lambda: xpr.vmap(lambda x: Wrapped(x.data * 2), axis_size=3)(Wrapped(jnp.arange(3.0))).data
        for run in (f, xpr.jit(f)):
            close(run(), [3, 5, 7])
    finally:
        batching.unregister_vmappable(Wrapped)

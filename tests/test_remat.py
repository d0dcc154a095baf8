"""checkpoint (remat): gradients as without it, what is kept under each policy, what the compiler says of memory."""

import importlib
import re
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close
from tests.peer import JAX, needs_jax
from xpr import ad_checkpoint, lax
from xpr import checkpoint_policies as policies
from xpr.compile.lower import lower_jaxpr
from xpr.core.check import check_jaxpr
from xpr.core.jaxpr import subjaxprs
from xpr.extend import Primitive

X = np.linspace(-1, 1, 4, dtype=np.float32)
W = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)

POLICIES = [
    None,
    policies.everything_saveable,
    policies.nothing_saveable,
    policies.dots_saveable,
    policies.dots_with_no_batch_dims_saveable,
    policies.save_only_these_names("sine"),
    policies.save_any_names_but_these("sine"),
    policies.save_anything_except_these_names("sine"),
    policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("sine")),
]


def layer(w, x):
    y = ad_checkpoint.checkpoint_name(jnp.sin(w @ x), "sine")
    return jnp.sum(jnp.cos(y) * jnp.exp(y)), y


def loss(f, w, x):
    total, y = f(w, x)
    return total * jnp.sum(jnp.tanh(y))


NESTS = {
    "value": lambda f: f,
    "jit": lambda f: xpr.jit(f),
    "grad": lambda f: xpr.value_and_grad(f, (0, 1)),
    "jit of grad": lambda f: xpr.jit(xpr.value_and_grad(f, (0, 1))),
    "grad of jit": lambda f: xpr.grad(xpr.jit(f), (0, 1)),
    "jvp": lambda f: lambda w, x: xpr.jvp(f, (w, x), (w, x)),
    "linearize": lambda f: lambda w, x: xpr.linearize(f, w, x)[1](w, x),
    "hessian": lambda f: lambda w, x: xpr.hessian(f, 1)(w, x),
    "grad of grad": lambda f: xpr.grad(lambda w, x: jnp.sum(xpr.grad(f, 1)(w, x) ** 2), (0, 1)),
    "jit of jvp of grad": lambda f: xpr.jit(lambda w, x: xpr.jvp(xpr.grad(f), (w, x), (w, x))),
    "vmap of grad": lambda f: lambda w, x: xpr.vmap(xpr.grad(f), (None, 0))(w, jnp.stack([x, 2 * x])),
    "grad of vmap": lambda f: xpr.grad(lambda w, x: jnp.sum(xpr.vmap(f, (None, 0))(w, jnp.stack([x, 2 * x]))), (0, 1)),
}


@pytest.mark.parametrize("name", NESTS)
def test_transformed_it_gives_what_the_function_gives(name):
    plain = NESTS[name](partial(loss, layer))(W, X)
    close(NESTS[name](partial(loss, xpr.checkpoint(layer)))(W, X), plain)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: getattr(p, "__name__", "none"))
@pytest.mark.parametrize("name", ["jit of grad", "hessian", "vmap of grad"])
def test_every_policy_gives_the_same(policy, name):
    plain = NESTS[name](partial(loss, layer))(W, X)
    close(NESTS[name](partial(loss, xpr.remat(layer, policy=policy)))(W, X), plain)
    inside = xpr.checkpoint(xpr.jit(layer), policy=policy)
    close(NESTS[name](partial(loss, inside))(W, X), plain)


def test_nested_and_closing_over_tracers():
    def outer(mark):
        def f(a, x):
            inner = mark(lambda y: jnp.sin(y * a))
            return mark(lambda x: inner(jnp.cos(inner(x))) * a)(x)

        return f

    for nest in (xpr.grad, xpr.hessian, lambda f, argnums: xpr.jit(xpr.grad(f, argnums))):
        close(nest(outer(xpr.checkpoint), (0, 1))(1.3, 0.7), nest(outer(lambda f: f), (0, 1))(1.3, 0.7))


def test_collectives_inside():
    def rows(mark):
        return lambda x: xpr.vmap(mark(lambda x: jnp.sin(x) * lax.psum(jnp.cos(x), "i")), axis_name="i")(x).sum()

    close(xpr.grad(rows(xpr.checkpoint))(X), xpr.grad(rows(lambda f: f))(X))


def test_integers_and_results_without_derivative():
    f = xpr.checkpoint(lambda x, n: (x * n, n + 1, jnp.ones(2)))
    value, pull = xpr.vjp(lambda x: f(x, 3)[0], 2.0)
    assert value == 6 and pull(1.0)[0] == 3
    assert xpr.grad(lambda x: f(x, 3)[2].sum() + x)(2.0) == 1


def test_what_it_gives_is_mapped_or_not_each_for_itself():
    """A loop whose body it marks has the same values for all directions of a jacfwd, which asks for them once."""

    def loop(mark):
        return lambda w: lax.scan(mark(lambda c, x: (jnp.sin(c * w) + x, c)), 0.4, jnp.arange(3.0))[0]

    for nest in (xpr.jacfwd, xpr.hessian):
        close(nest(loop(xpr.checkpoint))(0.3), nest(loop(lambda f: f))(0.3))
        saved = partial(xpr.checkpoint, policy=policies.dots_saveable)
        close(nest(loop(saved))(0.3), nest(loop(lambda f: f))(0.3))


def test_branches_and_loops_inside_and_around():
    def branch(mark):
        return lambda x: lax.cond(x > 0, mark(lambda x: jnp.sin(jnp.sin(x))), jnp.cos, x)

    def both(mark):
        return mark(lambda x: lax.cond(x > 0, lambda x: jnp.sin(jnp.sin(x)), jnp.cos, x))

    for make in (branch, both):
        for x in (0.5, -0.5):
            close(xpr.grad(make(xpr.checkpoint))(x), xpr.grad(make(lambda f: f))(x))
            close(xpr.jit(xpr.hessian(make(xpr.checkpoint)))(x), xpr.hessian(make(lambda f: f))(x))


# -- What is computed again


def count(jaxpr, name):
    """How many equations of that name there are, and how many of those stand in rematerialized calls."""
    own = sum(eqn.primitive.name == name for eqn in jaxpr.eqns)
    total, again = own, 0
    for eqn in jaxpr.eqns:
        for inner in subjaxprs(eqn):
            more, deeper = count(inner, name)
            total += more
            again += more if eqn.primitive.name == "checkpoint" and eqn.params["differentiated"] else deeper
    return total, again


def gradient(f, *args):
    return xpr.make_jaxpr(xpr.grad(lambda *xs: loss(f, *xs), (0, 1)))(*args).jaxpr


@pytest.mark.parametrize(
    "policy, dots, sines",
    [
        (None, 1, 1),
        (policies.nothing_saveable, 1, 1),
        (policies.everything_saveable, 0, 0),
        (policies.dots_saveable, 0, 1),
        (policies.dots_with_no_batch_dims_saveable, 0, 1),
        (policies.checkpoint_dots_with_no_batch_dims, 0, 1),
        (policies.save_only_these_names("sine"), 1, 0),
        (policies.save_only_these_names("other"), 1, 1),
        (policies.save_any_names_but_these("other"), 1, 0),
    ],
)
def test_what_may_not_be_saved_is_computed_again(policy, dots, sines):
    """Two products are the backward pass itself; the cosine of the product, which it needs, needs the product."""
    jaxpr = gradient(xpr.checkpoint(layer, policy=policy), W, X)
    backward = 2
    assert count(jaxpr, "dot_general") == (1 + backward + dots, backward + dots)
    assert count(jaxpr, "sin")[0] - count(gradient(layer, W, X), "sin")[0] == sines


def test_the_forward_pass_keeps_nothing_else():
    """Only arguments go from the forward pass to the rematerialized call."""
    f = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    expected = """\
{ lambda ; a:f32[]. let
    b:f32[] = sin a
    _:f32[] = sin b
    c:f32[] = checkpoint[
      differentiated=True
      jaxpr={ lambda ; d:f32[] e:f32[]. let
          f:f32[] = sin d
          g:f32[] = cos d
          h:f32[] = cos f
          i:f32[] = mul e h
          j:f32[] = mul i g
        in (j,) }
      policy=None
      prevent_cse=True
    ] a 1.0
  in (c,) }"""
    assert str(xpr.make_jaxpr(xpr.grad(f))(1.0)) == expected


def test_scans_stack_only_what_their_body_keeps():
    def run(mark):
        return lambda w, x: lax.scan(lambda x, w: (mark(lambda w, x: jnp.sin(jnp.cos(w @ x)))(w, x), None), x, w)[
            0
        ].sum()

    def stacked(mark):
        jaxpr = xpr.make_jaxpr(xpr.grad(run(mark)))(np.ones((5, 4, 4), np.float32), X).jaxpr
        forward = next(eqn for eqn in jaxpr.eqns if eqn.primitive is lax.scan_p)
        return [v.aval.shape for v in forward.outvars[1:]]

    assert stacked(xpr.checkpoint) == [(5, 4)]  # the carry
    assert len(stacked(lambda f: f)) > 1
    assert len(stacked(partial(xpr.checkpoint, policy=policies.dots_saveable))) == 2
    w = np.ones((5, 4, 4), np.float32) / 3
    close(xpr.jit(xpr.grad(run(xpr.checkpoint)))(w, X), xpr.grad(run(lambda f: f))(w, X))


@pytest.mark.parametrize(
    "policy, rows",
    [
        (policies.nothing_saveable, []),
        (policies.dots_saveable, [(5, 4)]),
        (policies.save_only_these_names("sine"), [(5, 4)]),
        (
            policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("sine")),
            [(5, 4)] * 2,
        ),
    ],
)
def test_policies_reach_into_loops(policy, rows):
    def run(w, x):
        def step(c, scale):
            z = ad_checkpoint.checkpoint_name(jnp.sin(w @ c) * scale, "sine")
            return jnp.tanh(z), jnp.cos(z)

        c, ys = lax.scan(step, x, jnp.arange(5.0))
        return c.sum() + (ys**2).sum()

    w = W.repeat(2, 0)[:4] / 3
    f = xpr.checkpoint(run, policy=policy)
    saved = ad_checkpoint.saved_residuals(f, w, X)
    assert [aval.shape for aval, origin in saved if "argument" not in origin] == rows
    close(xpr.jit(xpr.grad(f, (0, 1)))(w, X), xpr.grad(run, (0, 1))(w, X))
    close(xpr.hessian(f, 1)(w, X), xpr.hessian(run, 1)(w, X))


def counts_in_linear_program(f, *args):
    text = str(xpr.make_jaxpr(xpr.linearize(f, *args)[1])(*args))
    return text.count(" sin "), text.count(" cos ")


@pytest.mark.parametrize(
    "policy, expected",
    [(policies.nothing_saveable, (2, 3)), (policies.dots_saveable, (2, 3)), (policies.everything_saveable, (0, 0))],
)  # fmt: skip
def test_policies_reach_into_branches(policy, expected):
    def layers(x):
        for _ in range(3):
            x = jnp.sin(x @ x)
        return x

    branching = lambda x: lax.cond(x.sum() > 0, layers, lambda x: 2 * x, x)
    f = xpr.checkpoint(branching, policy=policy)
    x = 0.2 * np.ones((2, 2), np.float32)
    assert counts_in_linear_program(f, x) == expected
    for sign in (1, -1):
        close(xpr.vjp(f, sign * x)[1](x)[0], xpr.vjp(branching, sign * x)[1](x)[0])
        close(xpr.jit(xpr.jacfwd(xpr.jacrev(f)))(sign * x), xpr.jacfwd(xpr.jacrev(branching))(sign * x))


def test_what_a_branch_returns_may_be_saved_itself():
    """A result of the cond that the policy saves is no result of the cond that runs again."""
    f = lambda x: lax.cond(x > 0, lambda x: (jnp.cos(x), jnp.sin(x)), lambda x: (x, x), x)
    g = xpr.checkpoint(lambda x: jnp.multiply(*f(x)), policy=lambda p, *_, **__: p is lax.cos_p)
    for x in (0.5, -0.5):
        close(xpr.grad(g)(x), xpr.grad(lambda x: jnp.multiply(*f(x)))(x))
    assert counts_in_linear_program(g, 0.5)[1] == 0


def test_results_that_no_residual_needs_are_not_computed_again():
    f = xpr.checkpoint(lambda x: lax.cond(x > 0, lambda c: (jnp.sin(c), jnp.sin(c)), lambda c: (c, c), x))
    assert counts_in_linear_program(f, 4.0) == (0, 2)


def test_effects_happen_once():
    seen = []
    f = xpr.checkpoint(lambda x: (xpr.debug.callback(seen.append, x, ordered=True), jnp.sin(jnp.sin(x)))[1])
    close(xpr.grad(f)(1.0), xpr.grad(lambda x: jnp.sin(jnp.sin(x)))(1.0))
    xpr.effects_barrier()
    assert seen == [1]
    xpr.jit(xpr.grad(f))(2.0)
    xpr.effects_barrier()
    assert seen == [1, 2]


def test_functions_are_traced_once():
    traces = []

    @xpr.checkpoint
    def f(x):
        traces.append(x)
        return jnp.sin(x)

    xpr.make_jaxpr(xpr.grad(lambda x: f(f(f(x)))))(1.0)
    xpr.grad(f)(2.0)
    assert len(traces) == 1
    f(X)
    assert len(traces) == 2
    xpr.clear_caches()
    f(X)
    assert len(traces) == 3


def test_a_function_that_counts_its_traces_counts_one():
    count, scale = 0, 2.0

    @xpr.checkpoint
    def f(x):
        nonlocal count
        count += 1
        return x * scale

    for _ in range(3):
        assert float(f(1.0)) == 2.0
    assert count == 1
    scale = 3.0
    assert float(f(1.0)) == 3.0 and count == 2


# -- Arguments


def test_static_arguments():
    def f(x, flag, *, shift=0.0):
        return x * 2 + shift if flag else jnp.sin(x)

    numbered = xpr.checkpoint(f, static_argnums=(1,))
    assert xpr.grad(numbered)(1.0, True) == 2
    assert xpr.grad(numbered)(1.0, flag=True) == 2
    assert xpr.grad(numbered)(1.0, [1]) == 2, "one that can't be hashed"
    assert xpr.grad(xpr.checkpoint(f, static_argnames="flag"))(1.0, flag=True, shift=1.0) == 2
    assert xpr.grad(xpr.checkpoint(f, static_argnums=-1))(1.0, True) == 2
    with pytest.raises(ValueError, match=r"static_argnums=\(-3,\) is out of range for f at .*with 2 positional"):
        xpr.checkpoint(f, static_argnums=-3)(1.0, True)
    for numbers in (1.5, "x", (0, None)):
        with pytest.raises(TypeError, match="checkpoint: static_argnums are integers, and are"):
            xpr.checkpoint(f, static_argnums=numbers)
    for function in (f, lambda *args: args[0]):
        with pytest.raises(ValueError, match=r"static_argnums=\(3,\) is out of range for .* with 1 positional"):
            xpr.checkpoint(function, static_argnums=3)(1.0)


def test_values_are_seen_only_where_jit_is_off():
    f = xpr.checkpoint(lambda x: x if x > 0 else -x)
    with pytest.raises(xpr.errors.TracerBoolConversionError, match="while a function is staged as rematerialized"):
        xpr.grad(f)(1.0)
    with xpr.disable_jit():
        assert xpr.grad(f)(-1.0) == -1


def test_wrong_calls():
    with pytest.raises(TypeError, match="checkpoint: Expected a callable value, and got 3"):
        xpr.checkpoint(3)
    with pytest.raises(TypeError, match="saved_residuals: Expected a callable value, and got 3"):
        xpr.ad_checkpoint.saved_residuals(3, 1.0)
    with pytest.raises(TypeError, match="predicted_memory: Expected a callable value, and got 3"):
        xpr.ad_checkpoint.predicted_memory(3, 1.0)
    with pytest.raises(TypeError, match="the policy must be a function such as those of xpr.checkpoint_policies"):
        xpr.checkpoint(layer, policy="dots_saveable")
    with pytest.raises(NotImplementedError, match="concrete=True is gone, as in JAX. Mark the arguments"):
        xpr.checkpoint(layer, concrete=True)
    with pytest.raises(TypeError, match="the name must be a string, and is 3"):
        ad_checkpoint.checkpoint_name(1.0, 3)
    with pytest.raises(TypeError, match=r"names are strings, each an argument of its own; \['a'\] is none"):
        policies.save_only_these_names(["a"])
    with pytest.raises(TypeError, match=r"checkpoint: the jaxpr takes \(f32\[\]\) and was given \(f32\[4\]\)"):
        call = xpr.make_jaxpr(xpr.checkpoint(jnp.sin))(1.0).eqns[0]
        xpr.make_jaxpr(lambda x: lax.checkpoint_p.bind(x, **call.params))(X)


def test_names_are_the_identity():
    value = {"a": X, "b": 2}
    named = ad_checkpoint.checkpoint_name(value, "both")
    np.testing.assert_array_equal(named["a"], X)
    assert named["b"] == 2
    assert xpr.grad(lambda x: ad_checkpoint.checkpoint_name(x, "x") ** 2)(3.0) == 6


# -- What is saved, as said


def test_saved_residuals_say_where_they_come_from(capsys):
    def f(params, x):
        return jnp.sum(xpr.jit(lambda y: jnp.sin(y))(params["w"] @ x) * TABLE)

    ad_checkpoint.print_saved_residuals(f, {"w": W}, X)
    lines = capsys.readouterr().out.splitlines()
    line = f.__code__.co_firstlineno + 1
    assert lines == [
        "f32[3] from a constant",
        "f32[3,4] from the argument params['w']",
        "f32[4] from the argument x",
        f"f32[3] output of cos from test_remat.py:{line}:41 ({f.__qualname__}.<locals>.<lambda>)",
    ]
    named = xpr.checkpoint(layer, policy=policies.save_only_these_names("sine"))
    assert ad_checkpoint.saved_residuals(named, W, X)[2][1].startswith("named 'sine' from test_remat.py")


TABLE = jnp.arange(3.0)


def in_jax(policy):
    """jax's layer, under jax's policy of that name."""
    ad = importlib.import_module("jax.ad_checkpoint")

    def theirs(w, x):
        y = ad.checkpoint_name(JAX.numpy.sin(w @ x), "sine")
        return JAX.numpy.sum(JAX.numpy.cos(y) * JAX.numpy.exp(y)), y

    chosen = getattr(JAX.checkpoint_policies, policy)
    return JAX.checkpoint(theirs, policy=chosen("sine") if policy == "save_only_these_names" else chosen), ad


@needs_jax
@pytest.mark.parametrize(
    "name",
    ["everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable",
     "save_only_these_names"],
)  # fmt: skip
def test_as_much_is_saved_as_by_jax(name, capsys):
    theirs, ad = in_jax(name)
    ad.print_saved_residuals(theirs, W, X)
    expected = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    policy = getattr(policies, name)
    policy = policy("sine") if name == "save_only_these_names" else policy
    ours = [aval.str_short() for aval, _ in ad_checkpoint.saved_residuals(xpr.checkpoint(layer, policy=policy), W, X)]
    if name == "everything_saveable":
        assert len(ours) <= len(expected), "which intermediate values are kept is a matter of derivative rules"
    else:
        assert sorted(ours) == sorted(expected)


# -- Memory


LAYERS, WIDTH, BATCH = 16, 64, 256


def network(library, block, mark, layers=LAYERS):
    """The gradient of a network of equal blocks, and its arguments."""
    rng = np.random.default_rng(0)
    params = [
        {name: rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5 for name in ("a", "b")}
        for _ in range(layers)
    ]
    x = rng.normal(size=(BATCH, WIDTH)).astype(np.float32)
    marked = mark(partial(block, library))

    def loss(params, x):
        for p in params:
            x = marked(p, x)
        return (x**2).mean()

    return library.grad(loss), (params, x)


def residual_block(library, p, x):
    return x + library.numpy.tanh(library.nn.gelu(x @ p["a"]) @ p["b"])


def normalized_block(library, p, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred / library.numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return x + library.nn.relu(normal @ p["a"]) @ p["b"]


def reported(f, args):
    """The compiler's account: all memory, and that of temporaries."""
    sizes = xpr.jit(f).lower(*args).compile().memory_analysis()
    temporaries = sizes.temp_size_in_bytes
    return sizes.argument_size_in_bytes + sizes.output_size_in_bytes + temporaries, temporaries


MARKS = {
    "remat": xpr.checkpoint,
    "dots": partial(xpr.checkpoint, policy=policies.dots_saveable),
}


@pytest.mark.parametrize("block", [residual_block, normalized_block])
def test_the_compilers_peak_falls_by_the_predicted_factor(block):
    plain, args = network(xpr, block, lambda f: f)
    before, predicted = reported(plain, args), ad_checkpoint.predicted_memory(plain, *args)
    for mark in MARKS.values():
        marked, args = network(xpr, block, mark)
        after, predicted_after = reported(marked, args), ad_checkpoint.predicted_memory(marked, *args)
        assert after[0] < 0.85 * before[0]
        assert predicted.peak / predicted_after.peak == pytest.approx(before[0] / after[0], rel=0.2)
        assert predicted.temporaries / predicted_after.temporaries == pytest.approx(before[1] / after[1], rel=0.25)


def test_the_prediction_is_near_what_the_compiler_says():
    for mark in (lambda f: f, *MARKS.values()):
        gradient, args = network(xpr, residual_block, mark, layers=8)
        predicted, (_, temporaries) = ad_checkpoint.predicted_memory(gradient, *args), reported(gradient, args)
        assert predicted.temporaries == pytest.approx(temporaries, rel=0.1)
        assert predicted.arguments == sum(x.nbytes for x in xpr.tree.leaves(args))


def test_the_prediction_sees_through_loops():
    def scanned(mark):
        def loss(params, x):
            def step(x, p):
                return mark(partial(residual_block, xpr))(p, x), None

            return (lax.scan(step, x, params)[0] ** 2).mean()

        return xpr.grad(loss)

    params = {name: np.ones((LAYERS, WIDTH, WIDTH), np.float32) for name in ("a", "b")}
    args = (params, np.ones((BATCH, WIDTH), np.float32))
    predicted = [ad_checkpoint.predicted_memory(scanned(mark), *args).peak for mark in (lambda f: f, xpr.checkpoint)]
    compiled = [reported(scanned(mark), args)[0] for mark in (lambda f: f, xpr.checkpoint)]
    assert predicted[0] / predicted[1] == pytest.approx(compiled[0] / compiled[1], rel=0.2)


def test_a_barrier_keeps_the_computations_apart_and_on_cpu_a_call_that_is_not_inlined():
    jaxpr = xpr.make_jaxpr(xpr.grad(xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(1.0).jaxpr
    for platform in ("cuda", "cpu"):
        text = lower_jaxpr(jaxpr, platform=platform).text()
        assert "stablehlo.optimization_barrier" in text
        assert ('inlineable = "false"' in text) is (platform == "cpu")


def test_without_prevent_cse_the_compiler_merges_both_computations():
    plain, args = network(xpr, residual_block, lambda f: f, layers=8)
    merged, _ = network(xpr, residual_block, partial(xpr.checkpoint, prevent_cse=False), layers=8)
    assert reported(merged, args) == pytest.approx(reported(plain, args), rel=0.05)
    assert ad_checkpoint.predicted_memory(merged, *args) == ad_checkpoint.predicted_memory(plain, *args)
    apart, _ = network(xpr, residual_block, partial(xpr.checkpoint, prevent_cse=(False, True)), layers=8)
    assert reported(apart, args)[1] < 0.5 * reported(plain, args)[1]


def test_predictions_print_in_megabytes():
    predicted = ad_checkpoint.predicted_memory(lambda x: jnp.sin(x) @ x, np.zeros((1000, 1000), np.float32))
    assert tuple(predicted) == (4_000_000, 4_000_000, 4_000_000) and predicted.peak == 12_000_000
    assert str(predicted) == "12 MB (arguments 4 MB, results 4 MB, temporaries 4 MB)"


def test_evaluations_of_primitives_that_users_give_are_called():
    called = {lax.sin_p: 0, lax.cos_p: 0}
    impls = {p: p.impl for p in called}

    def counting(p):
        def impl(x, **params):
            called[p] += 1
            return impls[p](x, **params)

        return impl

    f = xpr.checkpoint(lambda x: lax.sin(lax.sin(x)))
    _, linear = xpr.linearize(f, 2.0)
    try:
        for p in called:
            p.def_impl(counting(p))
        close(linear(3.0), np.float32(np.cos(np.sin(2.0)) * np.cos(2.0) * 3.0))
        close(f(2.0), np.float32(np.sin(np.sin(2.0))))
        assert called == {lax.sin_p: 3, lax.cos_p: 2}
        assert xpr.jit(lax.sin)(1.0) == impls[lax.sin_p](1.0) and called[lax.sin_p] == 3
    finally:
        for p, impl in impls.items():
            p.def_impl(impl)
    close(lax.sin(1.0), np.sin(np.float32(1.0)))
    assert called[lax.sin_p] == 3


def test_operations_that_can_only_be_evaluated():
    add_one_p = Primitive("add_one_evaluated")
    evaluations = []
    add_one_p.def_impl(lambda x: evaluations.append(1) or x + 1)
    add_one_p.def_abstract_eval(lambda x: x)
    add_one_p.def_jvp(lambda primals, tangents: (add_one_p.bind(*primals), 2.0 * tangents[0]))
    f = xpr.checkpoint(add_one_p.bind)
    y, pull = xpr.vjp(lambda x: add_one_p.bind(f(x)), np.zeros(1, np.float32))
    assert y == 2 and len(evaluations) == 2 and pull(np.ones(1, np.float32))[0] == 4


@pytest.mark.parametrize("optimize", [False, True])
def test_the_first_pass_runs_functions_and_no_forward_halves_of_their_rules(optimize: bool) -> None:
    """`fwd` computes another value here, so that the result tells which of the two has run."""
    fun = xpr.custom_vjp(jnp.tan)
    fun.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.cos(x) * ct,), optimize_remat=optimize)
    value, slope = xpr.value_and_grad(lambda x: xpr.checkpoint(fun)(x) ** 2)(3.2)
    np.testing.assert_allclose([value, slope], [np.tan(3.2) ** 2, 2 * np.tan(3.2) * np.cos(3.2)], rtol=1e-4)


def test_what_is_saved_is_logged(caplog):
    def f(x):
        return jnp.cos(jnp.sin(x).sum())

    only_cos = lambda primitive, *_, **__: primitive is lax.cos_p
    everything = lambda *_, **__: True
    for policy, inputs, intermediates in ((None, True, False), (everything, False, True), (only_cos, True, True)):
        xpr.config.update("log_checkpoint_residuals", True)
        try:
            caplog.clear()
            xpr.grad(xpr.checkpoint(f, policy=policy))(jnp.arange(3.0))
        finally:
            xpr.config.update("log_checkpoint_residuals", False)
        (record,) = caplog.records
        text = record.getMessage()
        assert record.levelname == "WARNING" and text.startswith("remat-decorated function saving ")
        assert ("saving inputs with shapes:\n  f32[3]" in text) is inputs
        assert ("saving these intermediates:\n  f32[3] output of cos from test_remat.py:" in text) is intermediates
        assert ("\nand saving" in text) is (inputs and intermediates)
    caplog.clear()
    with caplog.at_level("DEBUG", "xpr"):
        xpr.grad(xpr.checkpoint(f))(jnp.arange(3.0))
    assert [each.levelname for each in caplog.records if "saving inputs" in each.getMessage()] == ["DEBUG"]
    caplog.clear()
    xpr.grad(xpr.checkpoint(f))(jnp.arange(3.0))
    assert not caplog.records


def test_operands_that_need_no_barrier():
    @partial(xpr.checkpoint, prevent_cse=({"w": False, "x": True}, True), static_argnums=2)
    def layer(tree, b, n):
        return jnp.sin(tree["x"] @ tree["w"]) * n + b + jnp.arange(3.0)

    def loss(w, x, b):
        return layer({"w": w, "x": layer({"w": w, "x": x}, b, 2)}, b=b, n=2).sum()

    args = jnp.ones((3, 3)) / 3, jnp.arange(3.0), jnp.ones(3)
    plain = lambda w, x, b: (jnp.sin((jnp.sin(x @ w) * 2 + b + jnp.arange(3.0)) @ w) * 2 + b + jnp.arange(3.0)).sum()

    for f in (xpr.grad(loss, (0, 1, 2)), xpr.jit(xpr.grad(loss, (0, 1, 2))), xpr.jacfwd(loss, (0, 1, 2))):
        for found, expected in zip(f(*args), xpr.grad(plain, (0, 1, 2))(*args)):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    rows = jnp.stack([args[1], args[1] + 1])
    per_row = xpr.vmap(xpr.grad(loss), in_axes=(None, 0, None))(args[0], rows, args[2])
    np.testing.assert_allclose(per_row[0], xpr.grad(plain)(*args), rtol=1e-5)
    second = xpr.grad(lambda w: xpr.grad(loss)(w, *args[1:]).sum())(args[0])
    np.testing.assert_allclose(second, xpr.grad(lambda w: xpr.grad(plain)(w, *args[1:]).sum())(args[0]), rtol=1e-4)
    jaxpr = xpr.make_jaxpr(xpr.grad(loss))(*args)
    check_jaxpr(jaxpr.jaxpr)
    barriers = re.findall(r'optimization_barrier"\(([^)]*)\)', lower_jaxpr(jaxpr.jaxpr, platform="cpu").text())
    flags = [eqn.params["prevent_cse"] for eqn in jaxpr.eqns if eqn.primitive.name == "checkpoint"]
    assert all(len(eqn.invars) == len(eqn.params["prevent_cse"]) for eqn in jaxpr.eqns if "prevent_cse" in eqn.params)
    assert [len(each.split(",")) for each in barriers] == [sum(each) for each in flags] and not all(map(all, flags))
    with pytest.raises(ValueError, match="prevent_cse"):
        xpr.checkpoint(lambda x, y: x * y, prevent_cse=(False, True, True))(1.0, 2.0)


def test_what_is_computed_again_is_in_a_name_scope():
    @xpr.checkpoint
    def f(x):
        return xpr.named_call(xpr.jit(lambda x: jnp.sin(jnp.sin(x))), name="layer")(x)

    text = xpr.make_jaxpr(xpr.grad(f))(1.0).pretty_print(name_stack=True)
    assert text.count("[rematted_computation/layer]") == text.count("rematted_computation") == 1
    assert "[layer]" in text and "rematted" not in xpr.make_jaxpr(f)(1.0).pretty_print(name_stack=True)
    saving = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=policies.everything_saveable)
    assert "rematted" not in xpr.make_jaxpr(xpr.grad(saving))(1.0).pretty_print(name_stack=True)
    hlo = xpr.jit(xpr.grad(f)).lower(1.0).as_text("hlo", debug_info=True)
    assert 'op_name="rematted_computation/layer/' in hlo

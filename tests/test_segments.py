"""Programs that are split where they repeat themselves: which are, what the steps share, and that they do the same."""

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests.helpers import close
from xpr import core, lax, nn, random
from xpr.backend.sequence import SequenceExecutable
from xpr.compile import segments
from xpr.compile.order import ordered
from xpr.compile.segments import Thresholds
from xpr.core.jaxpr import Literal

WIDTH, BATCH = 64, 128


SMALL = Thresholds(equations=100, shorter=1.5, work=10_000, live_out=0, periods=1)


@pytest.fixture(autouse=True)
def small_programs_are_split(monkeypatch):
    """Also short ones, a layer in each step."""
    monkeypatch.setattr(segments, "thresholds", SMALL)


def parameters(layers, width=WIDTH):
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape) / shape[0] ** 0.5, np.float32)
    return [{"in": draw(width, width), "bias": draw(width), "out": draw(width, width)} for _ in range(layers)]


def batch(width=WIDTH):
    return jnp.asarray(np.random.default_rng(1).normal(size=(BATCH, width)), np.float32)


def network(layers, x):
    for layer in layers:
        centred = x - x.mean(axis=-1, keepdims=True)
        normal = centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        x = x + nn.gelu(normal @ layer["in"] + layer["bias"]) @ layer["out"]
    return x


def loss(layers, x):
    return (network(layers, x) ** 2).mean()


def step(layers, x):
    value, gradient = xpr.value_and_grad(loss)(layers, x)
    return value, xpr.tree.map(lambda p, g: p - 0.1 * g, layers, gradient)


def split_of(fun, *args):
    return segments.split_into_segments(xpr.make_jaxpr(fun)(*args).jaxpr)


def distinct(steps):
    return len({id(each.jaxpr) for each in steps})


def run_steps(steps, outvars, jaxpr, args):
    """What the steps give, each evaluated by itself."""
    values = dict(zip(jaxpr.invars, args))
    for each in steps:
        core.check_jaxpr(each.jaxpr)
        operands = [v.val if type(v) is Literal else values[v] for v in each.operands]
        values.update(zip(each.results, core.eval_jaxpr(each.jaxpr, [], *operands), strict=True))
    return [values[v] for v in outvars]


@pytest.mark.parametrize("fun", [network, loss, xpr.grad(loss), step])
def test_programs_do_not_grow_in_number_with_depth(fun):
    found = {}
    for layers in 8, 16:
        steps, _ = split_of(fun, parameters(layers), batch())
        found[layers] = len(steps), distinct(steps)
    assert found[16][1] == found[8][1] <= 6
    assert found[16][0] == found[8][0] + (8 if fun in (network, loss) else 16)


def test_each_layer_is_one_step_of_the_gradient():
    steps, _ = split_of(step, parameters(12), batch())
    times = sorted([sum(other.jaxpr is each for other in steps) for each in {s.jaxpr: s.jaxpr for s in steps}])
    assert times == [1, 12, 12]  # the first layer's gradient does what the others do


@pytest.mark.parametrize("fun", [network, xpr.value_and_grad(loss), step])
def test_steps_do_the_same(fun):
    args = parameters(6), batch()
    close(xpr.jit(fun)(*args), fun(*args), 1e-4)
    closed = xpr.make_jaxpr(fun)(*args)
    close(run_steps(*segments.split_into_segments(closed.jaxpr), closed.jaxpr, xpr.tree.leaves(args)), fun(*args), 1e-4)


def test_only_what_is_in_memory_or_dear_goes_from_step_to_step():
    """Between the layers of the forward and of the backward pass: the residual stream and six values of a layer."""
    steps, _ = split_of(step, parameters(12), batch())
    forward = steps[5]
    whole = [v for v in forward.results if v.aval.shape == (BATCH, WIDTH)]
    assert len(whole) <= 6
    assert sum(v.aval.size for v in forward.results) <= 6.1 * BATCH * WIDTH


def test_numbers_that_differ_are_operands():
    """A key folded in for each layer, and a scale that grows with depth."""

    def noisy(key, x):
        for i in range(8):
            noise = random.normal(random.fold_in(key, i), x.shape)
            x = jnp.tanh(x @ x.T @ x / (i + 1)) + 0.5 * noise
            for _ in range(12):
                x = jnp.sin(x)
        return x

    args = random.key(0), batch()
    steps, _ = split_of(noisy, *args)
    assert distinct(steps) <= 4 < len(steps)
    assert any(type(v) is Literal for each in steps for v in each.operands)
    close(xpr.jit(noisy)(*args), noisy(*args), 1e-3)


@pytest.fixture
def any_program_is_split(monkeypatch):
    monkeypatch.setattr(segments, "thresholds", SMALL._replace(equations=1, shorter=1, work=0))


@xpr.jit
def doubled(x):
    return jnp.tanh(x @ x * 2.0)


@xpr.jit
def tripled(x):
    return jnp.tanh(x @ x * 3.0)


def numbers_in_shared_functions(x, rate):
    for i in range(8):
        x = (doubled, tripled)[i % 2](x)
    return x


def number_first_then_a_value_of_the_layer(x, rate):
    for i in range(8):
        total = x.sum()
        x = jnp.tanh(x @ x.T / 8) * (np.float32(1.0) if i == 0 else total) + total / 16
    return x


def number_first_then_a_value_of_the_layer_before(x, rate):
    before = np.float32(1.0)
    for i in range(8):
        here = rate * i
        x = jnp.tanh(x @ x / 8) * lax.add(here, before)
        before = here
    return x, before


def chain_from_layer_to_layer(x, rate):
    decay = np.float32(1.0)
    for _ in range(12):
        x = x + jnp.tanh(x @ x / 8) * decay
        decay = lax.mul(rate, decay)
    return x, decay


def numbers_that_the_gradient_reads(x, rate):
    for i in range(8):
        x = x + jnp.sin(x @ x / (i + 8)) / (i + 8)
    return x


@pytest.mark.parametrize(
    "fun",
    [
        numbers_in_shared_functions,
        number_first_then_a_value_of_the_layer,
        number_first_then_a_value_of_the_layer_before,
        chain_from_layer_to_layer,
        numbers_that_the_gradient_reads,
    ],
)
def test_numbers_of_layers(any_program_is_split, fun):
    def loss(x, rate):
        return sum(each.sum() for each in xpr.tree.leaves(fun(x, rate)))

    args = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)) / 2, np.float32), jnp.float32(0.9)
    for program in fun, xpr.grad(loss):
        steps, _ = split_of(program, *args)
        assert distinct(steps) <= 7 < len(steps)
        close(xpr.jit(program)(*args), program(*args))


def test_programs_that_call_python_stay_whole(any_program_is_split):
    @xpr.jit
    def layer(x):
        halved = xpr.pure_callback(lambda x: np.asarray(x) / 2, xpr.ShapeDtypeStruct(x.shape, x.dtype), x)
        return jnp.tanh(halved @ x)

    def f(x):
        for _ in range(8):
            x = layer(x)
        return x

    x = batch()[:4, :4]
    assert not isinstance(xpr.jit(f).lower(x).compile().executable, SequenceExecutable)
    close(xpr.jit(f)(x), f(x))


def test_what_is_split_and_what_is_not(monkeypatch):
    monkeypatch.setattr(segments, "thresholds", Thresholds())
    layers, x = parameters(48, 256), jnp.ones((1024, 256))
    steps, _ = split_of(step, layers, x)
    assert distinct(steps) == 3 and len(steps) == 9
    in_a_step = {(48, 1e6): 12, (48, 5e4): None, (47, 1e6): 9, (8, 3e6): 2, (4, 1e7): 1, (3, 1e9): None, (48, 0): None}
    assert {case: segments.periods_per_segment(*case) for case in in_a_step} == in_a_step
    assert split_of(step, layers[:6], x) is None  # too few layers
    assert split_of(step, layers, x[:8]) is None  # steps would take hardly longer than their start
    assert split_of(step, layers, x[:32]) is None  # they would hand on much for what they work
    monkeypatch.setattr(segments, "thresholds", Thresholds(work=500_000))
    assert split_of(step, layers, x[:32]) is None
    monkeypatch.setattr(segments, "thresholds", Thresholds(work=500_000, live_out=0))
    assert split_of(step, layers, x[:32])


def test_what_is_never_split():
    layers, x = parameters(8), batch()
    assert split_of(lambda x: jnp.sin(x) @ x.T, x) is None

    def printing(layers, x):
        xpr.debug.print("{}", x[0, 0])
        return network(layers, x)

    assert split_of(printing, layers, x) is None
    unlike = [{**each, "out": each["out"][:, : WIDTH - i]} for i, each in enumerate(layers)]
    assert split_of(lambda layers, x: [x @ each["in"] @ each["out"] for each in layers], unlike, x) is None


def test_results_are_arrays_of_their_own():
    layers, x = parameters(6), batch()

    @xpr.jit
    def f(layers, x):
        out = network(layers, x)
        return out, out, x, 1.0, layers[0]["in"]

    same, again, given, one, weights = f(layers, x)
    pointers = {np.asarray(each).ctypes.data for each in (same, again, given, weights, x, layers[0]["in"])}
    assert len(pointers) == 6
    np.testing.assert_array_equal(same, again)
    np.testing.assert_array_equal(given, x)
    assert one == 1.0 and isinstance(one, xpr.Array)


def test_donated_arguments():
    layers, x = parameters(6), batch()
    wanted = step(layers, x)
    donated = xpr.jit(step, donate_argnums=0)
    for _ in range(2):
        mine = xpr.tree.map(jnp.copy, layers)
        close(donated(mine, x), wanted, 1e-4)
        assert all(leaf.is_deleted() for leaf in xpr.tree.leaves(mine)) and not x.is_deleted()
    assert not any(leaf.is_deleted() for leaf in xpr.tree.leaves(layers))
    with pytest.raises(xpr.errors.DeletedArrayError):
        donated(mine, x)


def test_donated_arguments_that_layers_share(monkeypatch):
    """What the first layer's gradient does for nothing may be done with an array that it donates itself."""
    monkeypatch.setattr(segments, "thresholds", SMALL._replace(unused_share=1))

    def shared(weights, x):
        for first, second in itertools.pairwise(weights):
            x = x + jnp.tanh(x @ first) @ second
        return (x**2).mean()

    def trained(weights, x):
        return [w - 0.1 * g for w, g in zip(weights, xpr.grad(shared)(weights, x))]

    weights, x = [each["in"] / 4 for each in parameters(9)], batch()
    steps, _ = split_of(trained, weights, x)
    assert distinct(steps) < len(steps)
    wanted = trained(weights, x)
    donated = xpr.jit(trained, donate_argnums=0)
    for _ in range(2):
        close(donated(xpr.tree.map(jnp.copy, weights), x), wanted, 1e-4)


def test_steps_that_call_lapack_compile_at_the_same_time():
    def f(x):
        for _ in range(6):
            x = jnp.linalg.cholesky(x @ x.T + jnp.eye(len(x)))
        return (x**2).sum()

    x = batch()[:32, :32]
    assert distinct(split_of(xpr.grad(f), x)[0]) > 1
    close(xpr.jit(xpr.grad(f))(x), xpr.grad(f)(x), 1e-2)


def test_threads_that_cannot_be_had(monkeypatch):
    """As at the system's limit, and when the process ends."""

    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    args = parameters(6), batch()
    close(xpr.jit(network)(*args), network(*args), 1e-4)


def test_nothing_that_might_go_on_for_ever_is_done_for_nothing():
    @xpr.jit
    def halved(x):
        return lax.while_loop(lambda x: (x > 1).any(), lambda x: x / 2, x)

    loops, ends = (
        xpr.make_jaxpr(f)(jnp.ones(3)).jaxpr.eqns
        for f in (halved, lambda x: lax.fori_loop(0, 3, xpr.jit(lambda i, x: x * i), x))
    )
    assert list(map(segments.may_not_terminate, loops)) == [True]
    assert not any(map(segments.may_not_terminate, ends))


def test_the_memory_of_donated_arguments_is_reused():
    layers, x = parameters(8), batch()
    memory, donating = (
        xpr.jit(step, donate_argnums=donated).lower(layers, x).compile().memory_analysis() for donated in ((), 0)
    )
    given = sum(leaf.nbytes for leaf in xpr.tree.leaves(layers))
    assert memory.alias_size_in_bytes == 0
    assert donating.alias_size_in_bytes > 0.9 * given
    for each in memory, donating:
        new = each.output_size_in_bytes - each.alias_size_in_bytes
        assert each.peak_memory_in_bytes == each.argument_size_in_bytes + new + each.temp_size_in_bytes


def test_arguments_stay():
    """What steps hand to each other may be overwritten; arguments and constants may not."""
    layers, x = parameters(6), batch()
    before = xpr.tree.map(np.array, (layers, x))
    jitted = xpr.jit(lambda scale: xpr.value_and_grad(loss)(layers, scale * x))
    first = jitted(2.0)
    close(jitted(2.0), first, 0)
    close((layers, x), before, 0)


def test_deleted_arguments_are_named():
    layers, x = parameters(6), batch()
    f = xpr.jit(network)
    f(layers, x)
    x.delete()
    with pytest.raises(xpr.errors.DeletedArrayError):
        f(layers, x)


def test_ahead_of_time():
    layers, x = parameters(8), batch()
    lowered = xpr.jit(step).lower(layers, x)
    text = lowered.as_text()
    assert text.count("stablehlo.dot_general") + text.count("xpr_matmul") == 8 * 6 - 1
    compiled = lowered.compile()
    assert isinstance(compiled.executable, SequenceExecutable)
    assert repr(compiled.executable).startswith("<SequenceExecutable step on ")
    close(compiled(layers, x), step(layers, x), 1e-4)
    assert "// runs 8 times\nHloModule" in compiled.as_text()
    flops = 2 * BATCH * WIDTH * WIDTH * (8 * 6 - 1)
    assert flops < compiled.cost_analysis()["flops"] < 1.3 * flops
    memory = compiled.memory_analysis()
    given = sum(leaf.nbytes for leaf in xpr.tree.leaves((layers, x)))
    assert memory.argument_size_in_bytes == given
    assert memory.output_size_in_bytes == given - x.nbytes + 4
    assert given < memory.peak_memory_in_bytes < 3 * given + 8 * 8 * x.nbytes


def test_compiler_options_are_for_all_steps():
    layers, x = parameters(6), batch()
    options = {"xla_cpu_enable_fast_math": True}
    close(xpr.jit(network, compiler_options=options)(layers, x), network(layers, x), 1e-3)
    with pytest.raises(xpr.errors.JaxRuntimeError, match="No such compile option: 'xla_no'"):
        xpr.jit(jnp.sin, compiler_options={"xla_no": True})(jnp.ones(3))
    with pytest.raises(ValueError, match="No such compile option: 'xla_no'"):
        xpr.jit(network, compiler_options={"xla_no": 1})(layers, x)


def test_a_program_can_be_kept_whole():
    layers, x = parameters(6), batch()
    whole = xpr.jit(network, compiler_options={"steps": False})
    compiled = whole.lower(layers, x).compile()
    assert not isinstance(compiled.executable, SequenceExecutable)
    close(whole(layers, x), xpr.jit(network)(layers, x))
    with pytest.raises(ValueError, match="the compiler option 'steps' must be True or False, and is 0"):
        xpr.jit(network, compiler_options={"steps": 0})
    with pytest.raises(ValueError, match="lowered already; give the compiler option 'steps' to jit"):
        xpr.jit(network).lower(layers, x).compile({"steps": False})


def test_nothing_is_kept_alive():
    layers, x = parameters(6), batch()
    f = xpr.jit(lambda layers, x: network(layers, x))
    out = weakref.ref(f(layers, x))
    program = weakref.ref(next(iter(f.caches.compiled.values())).executable)
    xpr.clear_caches()
    gc.collect()
    assert out() is None and program() is None


def test_loops_and_rematerialized_layers():
    def layer(x, weights):
        x, _ = lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)
        return jnp.sin(x) * jnp.cos(x) + x

    def f(stacks, x):
        for weights in stacks:
            x = x + xpr.checkpoint(layer)(x, weights)
        return (x**2).sum()

    stacks = [jnp.stack([each["in"], each["out"]]) for each in parameters(8)]
    args = stacks, batch()
    steps, _ = split_of(xpr.grad(f), *args)
    assert distinct(steps) <= 6 < len(steps)
    close(xpr.jit(xpr.grad(f))(*args), xpr.grad(f)(*args), 1e-3)


OPERATIONS = {
    "sin": (1, jnp.sin),
    "add": (2, jnp.add),
    "mul": (2, jnp.multiply),
    "sum": (1, lambda x: x - x.mean(axis=-1, keepdims=True)),
    "product": (2, lambda x, y: x @ y / 4),
    "half": (1, lambda x: jnp.concatenate([x[2:], x[:2]])),
    "mask": (1, lambda x: jnp.where(x > 0, x, 0.1 * x)),
    "round": (1, lambda x: x.astype(np.float16).astype(np.float32)),
}


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_random_programs_in_random_order(data):
    """A random body, repeated; its values go on to the next repetition, and some are results."""
    names = data.draw(st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=3, max_size=10))
    choices = [[data.draw(st.integers(1, 4)) for _ in range(OPERATIONS[name][0])] for name in names]
    repeats = data.draw(st.integers(4, 7))
    differs = data.draw(st.booleans())

    def f(x, y):
        values = [x, y, x + y, x - y]
        for i in range(repeats):
            for name, operands in zip(names, choices):
                values.append(OPERATIONS[name][1](*[values[-back] for back in operands]))
            if differs:
                values[-1] = values[-1] * (i + 1.5)
        return values[-1], values[-2], values[len(values) // 2], x

    rng = np.random.default_rng(0)
    args = [jnp.asarray(rng.normal(size=(4, 4)), np.float32) for _ in range(2)]
    programs = [f, xpr.grad(lambda *args: sum(each.sum() for each in f(*args)), argnums=(0, 1))]
    with pytest.MonkeyPatch.context() as patch:
        share = data.draw(st.sampled_from([0, 1]))
        patch.setattr(segments, "thresholds", SMALL._replace(equations=1, shorter=1, work=0, unused_share=share))
        for program in programs:
            closed = xpr.make_jaxpr(program)(*args)
            core.check_jaxpr(ordered(closed.jaxpr))
            found = segments.split_into_segments(closed.jaxpr)
            if found is not None:
                close(run_steps(*found, closed.jaxpr, args), program(*args), 1e-5)

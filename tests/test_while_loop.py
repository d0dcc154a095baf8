"""while_loop and fori_loop: jaxprs, values, types, messages, rows that end apart, reverse mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests import peer
from tests.helpers import values_close
from xpr import core, lax, nn
from xpr.control.while_.checkpoints import number_of_slots
from xpr.errors import CarryMismatch, UnsupportedRule
from xpr.passes.dce import dce_jaxpr
from xpr.testing import check_grads

FUNC10 = """\
{ lambda ; a:f32[16] b:i32[]. let
    c:f32[16] = broadcast_in_dim[broadcast_dimensions=() shape=(16,)] 1.0
    d:f32[16] = add a c
    _:i32[] _:i32[] e:f32[16] = while[
      body_jaxpr={ lambda ; f:f32[16] g:f32[16] h:i32[] i:i32[] j:f32[16]. let
          k:i32[] = add h 1
          l:f32[16] = mul f 3.0
          m:f32[16] = add j l
          n:f32[16] = add m g
        in (k, i, n) }
      body_nconsts=2
      cond_jaxpr={ lambda ; o:i32[] p:i32[] q:f32[16]. let
          r:bool[] = lt o p
        in (r,) }
      cond_nconsts=0
    ] c a 0 b d
  in (e,) }"""


def func10(arg, n):
    ones = jnp.ones(arg.shape)
    return lax.fori_loop(0, n, lambda i, carry: carry + ones * 3.0 + arg, arg + ones)


def python_loop(cond, body, carry):
    while bool(cond(carry)):
        carry = body(carry)
    return carry


def waves(x, n, a=0.7, loop=lax.while_loop):
    """A loop that ends by a count or by its value, with a constant and an integer in its carry."""
    steps = loop(lambda c: (c[0] < n) & (c[1] < 30.0), lambda c: (c[0] + 1, jnp.sin(c[1]) * a + x * 1.5), (0, x))
    return steps[1]


def unrolled(x, n, a=0.7):
    return waves(x, n, a, python_loop)


COUNTS = np.array([0, 1, 2, 3, 7, 4, 20])
STARTS = np.linspace(0.1, 1, 7, dtype=np.float32)

# -- Jaxprs and values


def test_fori_loop_prints_as_a_while():
    closed = xpr.make_jaxpr(func10)(np.ones(16), 5)
    assert str(closed) == FUNC10
    core.check_jaxpr(closed)
    values_close(xpr.jit(func10)(np.ones(16), 5), np.full(16, 22.0))


def test_fori_loop_of_a_known_number_of_steps_is_a_scan():
    text = str(xpr.make_jaxpr(lambda x: lax.fori_loop(2, np.int32(6), lambda i, c: c * i, x))(1.0))
    assert "scan[" in text and "length=4" in text and "while" not in text
    assert lax.fori_loop(2, 6, lambda i, c: c * i, 1) == 120
    assert lax.fori_loop(6, 2, lambda i, c: c * i, 1) == 1
    assert lax.fori_loop(0, 7, lambda i, c: c + i, 0, unroll=3) == 21
    assert lax.fori_loop(0, 7, lambda i, c: c + i, 0, unroll=True) == 21
    assert xpr.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0, unroll=False))(7) == 21
    assert xpr.jit(lambda n: lax.fori_loop(-3, n, lambda i, c: c + i, 0))(3) == -3


@pytest.mark.parametrize("one", [1, np.int32(1), np.int8(1), jnp.int32(1)])
def test_the_integer_of_a_fori_loop_of_known_bounds_is_weakly_typed(one):
    seen = []
    lax.fori_loop(one, 3 * one, lambda i, c: seen.append(i.aval) or c, 0.0)
    assert {(aval.dtype.name, aval.weak_type) for aval in seen} == {("int32", True)}


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit])
def test_messages_speak_of_the_fori_loop_and_of_its_arguments(wrap):
    def body(i, state):
        return {"x": state["x"] if state["x"] > 0 else state["x"] + 1}

    with pytest.raises(TypeError, match=r"(?s)the body of a fori_loop.*argument state\['x'\] of body at test_while"):
        wrap(lambda n: lax.fori_loop(0, n, body, {"x": 1.0}))(3)
    with pytest.raises(TypeError, match=r"(?s)the body of a fori_loop.*argument k of <lambda> at test_while"):
        wrap(lambda n: lax.fori_loop(0, n, lambda k, x: x + [1, 2][k], 0))(2)
    with pytest.raises(CarryMismatch, match=r"(?s)fori_loop: .*  carry\['x'\] +in f32\[\] +out f32\[2\]"):
        wrap(lambda n: lax.fori_loop(0, n, lambda i, s: {"x": jnp.ones(2)}, {"x": jnp.float32(1)}))(2)


def test_a_fori_loop_is_traced_once_for_each_signature():
    seen = []

    def body(i, x):
        seen.append(i)
        return x * 2.0

    for _ in range(3):
        lax.fori_loop(0, 3, body, 1.0)
    assert len(seen) == 1


def test_pytrees_and_closures():
    def collatz(n):
        def step(c):
            n = c["n"]
            return {"n": jnp.where(n % 2 == 0, n // 2, 3 * n + 1), "steps": c["steps"] + 1, "none": None}

        return lax.while_loop(lambda c: c["n"] != 1, step, {"n": n, "steps": 0, "none": None})["steps"]

    assert collatz(27) == 111
    assert xpr.jit(collatz)(27) == 111
    assert list(xpr.vmap(collatz)(jnp.arange(1, 8))) == [0, 1, 7, 2, 5, 8, 16]


def test_loops_in_loops():
    def f(n):
        def row(c):
            i, total = c
            inner = lax.while_loop(lambda d: d[0] < i, lambda d: (d[0] + 1, d[1] + d[0]), (0, total))
            return i + 1, inner[1]

        return lax.while_loop(lambda c: c[0] < n, row, (0, 0))[1]

    wanted = [sum(j for i in range(n) for j in range(i)) for n in range(7)]
    assert [int(f(n)) for n in range(7)] == wanted
    assert list(xpr.jit(xpr.vmap(f))(jnp.arange(7))) == wanted


def test_disable_jit_runs_in_python():
    seen = []
    with xpr.disable_jit():
        assert lax.while_loop(lambda x: x < 3, lambda x: seen.append(x) or x + 1, 0) == 3
        assert lax.fori_loop(0, 3, lambda i, x: x + i, 0) == 3
    assert [int(x) for x in seen] == [0, 1, 2]


def test_unread_carries_are_dropped():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * 2, c[2] + c[1]), (0, x, x))[1]

    jaxpr = xpr.make_jaxpr(f)(1.0).jaxpr
    smaller, _ = dce_jaxpr(jaxpr, [True])
    core.check_jaxpr(smaller)
    assert len(smaller.eqns[-1].outvars) == 2
    values_close(core.eval_jaxpr(smaller, (), 1.0), [512.0])


# -- Types


@pytest.mark.parametrize("init, body", [
    ("0.", "lambda c: c + np.float32(1)"), ("0", "lambda c: c + np.float32(1)"), ("0", "lambda c: c + 1.5"),
    ("0.", "lambda c: c + np.float16(1)"), ("0", "lambda c: c + np.int8(1)"), ("np.float32(0)", "lambda c: 4."),
    ("(0, 0.)", "lambda c: (c[0] + 1, c[1] + jnp.ones(()))"), ("0", "lambda c: c + np.uint8(1)"),
])  # fmt: skip
def test_weak_types_are_promoted_as_in_jax(init, body):
    jax = pytest.importorskip("jax")

    def run(jnp, lax):
        names = {"np": np, "jnp": jnp}
        first = (lambda c: c[0] < 3) if init.startswith("(") else (lambda c: c < 3)
        return lax.while_loop(first, eval(body, names), eval(init, names))

    peer.compare(body, peer.leaves(run(jnp, lax)), peer.leaves(run(jax.numpy, jax.lax)), 1e-6)


def test_carries_that_differ_are_named():
    def body(c):
        return {"h": c["h"][:, None], "n": c["n"] * 1.5, "same": c["same"]}

    with pytest.raises(CarryMismatch) as error:
        lax.while_loop(lambda c: c["n"] < 3, body, {"h": jnp.ones(8), "n": np.int32(0), "same": 1.0})
    lines = str(error.value).split("\n")
    assert lines[0] == "while_loop: the carry input and carry output must have equal types, and differ."
    assert lines[1] == "  carry['h']   in f32[8]   out f32[8,1]"
    assert lines[2] == "  carry['n']   in i32[]    out f32[]"
    assert lines[3].startswith("  the body is body at test_while_loop.py:") and "change the initial carry" in lines[4]
    with pytest.raises(CarryMismatch, match="fori_loop: the carry input and carry output must .*\n  carry   in i32"):
        lax.fori_loop(0, 3, lambda i, c: c * 1.5, np.int32(0))
    with pytest.raises(
        CarryMismatch, match=r"fori_loop: the carry input and carry output must .*\n  carry\[1\]   in i32"
    ):
        xpr.jit(lambda n: lax.fori_loop(0, n, lambda i, c: (c[0], c[1] * 1.5), (1, np.int32(0))))(3)
    with pytest.raises(CarryMismatch, match="structure"):
        lax.while_loop(lambda c: c < 3, lambda c: (c, 1), 0)


def test_predicates_are_boolean_scalars():
    with pytest.raises(
        TypeError, match=r"(?s)the predicate must give a boolean scalar.*It gives i32\[\].*test_while_l"
    ):
        lax.while_loop(lambda c: c, lambda c: c + 1, 0)
    with pytest.raises(TypeError, match=r"It gives bool\[3\]"):
        lax.while_loop(lambda c: c < 0, lambda c: c + 1, jnp.ones(3))
    with pytest.raises(TypeError, match="lax.while_loop: the predicate of a while_loop must be callable"):
        lax.while_loop(True, lambda c: c, 0)
    with pytest.raises(TypeError, match="the body of a while_loop must be callable"):
        lax.while_loop(lambda c: c < 1, None, 0)
    with pytest.raises(TypeError, match=r"while_loop: at init_val\['x'\]: Expected an array"):
        lax.while_loop(lambda c: False, lambda c: c, {"x": "a"})


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit])
def test_an_initial_carry_of_a_fori_loop_that_is_no_array_is_named(wrap):
    with pytest.raises(TypeError, match=r"fori_loop: at init_val\['x'\]: Expected an array"):
        wrap(lambda n: lax.fori_loop(0, n, lambda i, c: c, {"x": "a"}))(3)


def test_bounds_are_integers_of_one_type():
    with pytest.raises(TypeError, match=r"must have equal types, and are i32\[\] and f32\[\]"):
        lax.fori_loop(0, 3.0, lambda i, c: c, 0)
    with pytest.raises(TypeError, match=r"bounds must be scalars, integers or floats, and `lower` is bool\[\]"):
        lax.fori_loop(False, 3, lambda i, c: c, 0)
    with pytest.raises(TypeError, match=r"bounds must be scalars, integers or floats, and `upper` is None"):
        lax.fori_loop(0, None, lambda i, c: c, 0)
    with pytest.raises(TypeError, match=r"must have equal types, and are i8\[\] and i16\[\]"):
        lax.fori_loop(np.int8(0), np.int16(3), lambda i, c: c, 0)
    with pytest.raises(ValueError, match="Can only use `unroll` with bounds that are known"):
        xpr.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 0, unroll=2))(3)
    counted = xpr.jit(lambda n: lax.fori_loop(0, n, lambda i, c: i, np.int8(0)))(np.int8(3))
    assert counted.dtype == np.int8
    counted = xpr.jit(lambda n: lax.fori_loop(np.int8(0), n, lambda i, c: i, np.int8(0)))(3)
    assert counted.dtype == np.int8 and counted == 2


def test_bounds_may_be_floats():
    total = lambda low, high: lax.fori_loop(low, high, lambda i, c: c + i, jnp.float32(0))
    for f in (total, xpr.jit(total)):
        assert f(0.5, 3.5) == 4.5 and f(2.0, 1.0) == 0
    assert xpr.grad(lambda x: lax.fori_loop(x, x + 2.0, lambda i, c: c * i, 1.0))(3.0) == 7.0


def test_without_jit_no_step_changes_the_initial_carry_in_place():
    def step(carry):
        x, y = carry
        x += 1
        return x, y + x

    loops = [
        lambda init: lax.while_loop(lambda carry: carry[0] < 10, step, init),
        lambda init: lax.fori_loop(0, 9, lambda _, carry: step(carry), init),
        lambda init: lax.scan(lambda carry, _: (step(carry), None), init, None, 9)[0],
    ]
    for loop in loops:
        value = np.array(1.0, np.float32)
        with xpr.disable_jit():
            assert loop((value, value))[1] == 55 and value == 1


def test_a_while_is_not_transposed():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]

    with pytest.raises(UnsupportedRule, match="Transpose rule .* for 'while' not implemented.*vjp and"):
        xpr.linear_transpose(f, 1.0)(1.0)


# -- Rows that end apart


def test_rows_stop_where_they_are_done():
    x, n = STARTS, COUNTS
    wanted = [unrolled(float(a), int(b)) for a, b in zip(x, n)]
    values_close(xpr.vmap(waves)(x, n), wanted)
    values_close(xpr.jit(xpr.vmap(waves, (None, 0)))(0.5, n), [unrolled(0.5, int(b)) for b in n])
    values_close(xpr.vmap(waves, (0, None))(x, 5), [unrolled(float(a), 5) for a in x])
    grid = xpr.jit(xpr.vmap(xpr.vmap(waves, (0, None)), (None, 0)))(x, n)
    values_close(grid, [[unrolled(float(a), int(b)) for a in x] for b in n])
    assert xpr.vmap(waves)(x[:0], n[:0]).shape == (0,)


def test_a_mapped_loop_is_as_long_as_its_slowest_row():
    """The predicate is worked out once for each step; what all rows share is carried once."""
    text = str(xpr.make_jaxpr(xpr.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0)))(COUNTS))
    assert text.count(" lt ") == 2 and text.count("while[") == 1
    steps = xpr.jit(xpr.vmap(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 1), (0, 0))))
    assert [list(x) for x in steps(COUNTS)] == [list(COUNTS)] * 2


def test_rows_at_the_edge_of_their_predicate_end():
    """`y * y - x * x` is 0, or a rounding error when XLA contracts one of the products and not the other."""
    x = np.linspace(1, 3, 1000, dtype=np.float32)
    halved = xpr.vmap(lambda x: lax.while_loop(lambda y: y * y - x * x >= 0, lambda y: y * 0.5, x))
    got = np.asarray(xpr.jit(halved)(x))
    assert set(got / x) <= {0.5, 1.0}


def test_loops_over_a_named_axis():
    def f(x, n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + lax.psum(x, "rows")), (0, x))[1]

    x = np.arange(3, dtype=np.float32)
    values_close(xpr.vmap(f, (0, None), axis_name="rows")(x, 4), x + 12)
    values_close(xpr.vmap(f, (0, 0), axis_name="rows")(x, np.array([0, 1, 4])), x + np.array([0, 3, 12]))
    total = xpr.vmap(lambda x: lax.while_loop(lambda c: lax.psum(c, "rows") < 20, lambda c: c + 1, x), axis_name="rows")
    values_close(total(x), x + 6)


def shrinking(x, n, loop=lax.while_loop):
    """After the last step of some rows the next derivative would be infinite."""
    return loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sqrt(c[1]) - 1.0), (0, x))[1]


def test_finished_rows_do_not_spoil_gradients():
    x, n = np.float32([1, 100, 0]), np.array([1, 2, 0])

    def sum_of_rows(x):
        return xpr.vmap(shrinking)(x, n).sum()

    first = [xpr.grad(shrinking, 0)(a, int(b)) for a, b in zip(x, n)]
    second = [xpr.grad(xpr.grad(lambda a, b: shrinking(a, b, python_loop)))(a, int(b)) for a, b in zip(x, n)]
    values_close(xpr.vmap(xpr.grad(shrinking))(x, n), first)
    values_close(xpr.grad(sum_of_rows)(x), first)
    values_close(xpr.vmap(xpr.grad(xpr.grad(shrinking)))(x, n), second)
    values_close(xpr.grad(lambda x: xpr.vmap(xpr.grad(shrinking))(x, n).sum())(x), second)


def test_a_shared_constant_is_not_spoilt():
    def f(a, x, n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sqrt(c[1] * a) - 1.0), (0, x))[1]

    x, n = np.float32([1, 100, 0]), np.array([1, 2, 0])
    found = xpr.grad(lambda a: xpr.vmap(f, (None, 0, 0))(a, x, n).sum())(1.0)
    values_close(found, sum(xpr.grad(f)(1.0, b, int(c)) for b, c in zip(x, n)))


# -- Forward mode


@pytest.mark.parametrize("n", [0, 1, 5])
def test_jvp_and_linearize(n):
    wanted = xpr.jvp(lambda x, a: unrolled(x, n, a), (0.3, 0.7), (1.0, 2.0))
    values_close(xpr.jvp(lambda x, a: waves(x, n, a), (0.3, 0.7), (1.0, 2.0)), wanted)
    out, linear = xpr.linearize(lambda x, a: waves(x, n, a), 0.3, 0.7)
    values_close((out, linear(1.0, 2.0)), wanted)


def test_symbolic_zeros_stay_symbolic():
    """What has no tangent is not carried twice."""

    def f(x):
        def step(c):
            i, y, z = c
            return i + 1, y * 2.0, z + x

        return lax.while_loop(lambda c: c[0] < 3, step, (0, 1.0, 1.0))[2]

    eqn = xpr.make_jaxpr(lambda x: xpr.jvp(f, (x,), (x,)))(1.0).eqns[0]
    assert [v.aval.str_short() for v in eqn.outvars] == ["i32[]", "f32[]", "f32[]", "f32[]"]
    values_close(xpr.jvp(f, (2.0,), (1.0,)), [7.0, 3.0])


# -- Reverse mode


@pytest.mark.parametrize("slots", [2, 4, 64])
def test_gradients_are_those_of_the_unrolled_loop(slots):
    with xpr.while_checkpoints(slots):
        assert number_of_slots() == slots
        gradient = xpr.jit(xpr.grad(waves, (0, 2)))
        for n in (0, 1, 2, 3, 5, 8, 33, 130):
            values_close(gradient(0.3, n, 0.7), xpr.grad(unrolled, (0, 2))(0.3, n, 0.7))


def test_checkpoints_are_a_power_of_two():
    with xpr.while_checkpoints(7):
        assert number_of_slots() == 4
        values_close(xpr.grad(waves)(0.3, 20), xpr.grad(unrolled)(0.3, 20))
    with xpr.while_checkpoints(0):
        assert number_of_slots() == 2


def test_the_setting_counts_under_jit():
    f = xpr.jit(xpr.grad(waves))
    assert "f32[65]" in str(f.trace(0.3, 4).jaxpr)
    with xpr.while_checkpoints(8):
        assert "f32[9]" in str(f.trace(0.3, 4).jaxpr)


def test_second_derivatives():
    with xpr.while_checkpoints(4):
        for n in (0, 1, 3, 9):
            wanted = xpr.grad(xpr.grad(unrolled))(0.3, n)
            values_close(xpr.jit(xpr.hessian(waves))(0.3, n), wanted)
            values_close(xpr.jit(xpr.grad(xpr.grad(waves)))(0.3, n), wanted)
        mapped = [xpr.grad(xpr.grad(unrolled))(float(x), int(n)) for x, n in zip(STARTS, COUNTS)]
        values_close(xpr.jit(xpr.vmap(xpr.hessian(waves)))(STARTS, COUNTS), mapped)
        values_close(xpr.jit(xpr.vmap(xpr.grad(xpr.grad(waves))))(STARTS, COUNTS), mapped)
        values_close(xpr.jit(xpr.grad(lambda x: xpr.vmap(xpr.grad(waves))(x, COUNTS).sum()))(STARTS), mapped)


@pytest.mark.parametrize("slots", [2, 64])
def test_gradients_of_rows(slots):
    with xpr.while_checkpoints(slots):
        wanted = [xpr.grad(unrolled)(float(x), int(n)) for x, n in zip(STARTS, COUNTS)]
        values_close(xpr.jit(xpr.vmap(xpr.grad(waves)))(STARTS, COUNTS), wanted)
        values_close(xpr.jit(xpr.grad(lambda x: xpr.vmap(waves)(x, COUNTS).sum()))(STARTS), wanted)
        values_close(xpr.jit(xpr.jacrev(lambda x: xpr.vmap(waves)(x, COUNTS)))(STARTS), np.diag(wanted))
        twice = xpr.vmap(xpr.vmap(xpr.grad(waves), (0, None)), (None, 0))(STARTS, COUNTS)
        values_close(twice, [[xpr.grad(unrolled)(float(x), int(n)) for x in STARTS] for n in COUNTS])


def test_pullbacks_of_rows_mapped_apart():
    """Loops that were run in one program, or in several, and are gone back over in another."""
    wanted = [xpr.grad(unrolled)(float(x), int(n)) for x, n in zip(STARTS, COUNTS)]
    _, pulls = xpr.vmap(lambda x, n: xpr.vjp(lambda x: waves(x, n), x))(STARTS, COUNTS)
    values_close(xpr.vmap(lambda pull: pull(1.0)[0])(pulls), wanted)
    with xpr.while_checkpoints(2):
        own = [xpr.vjp(lambda x, n=n: waves(x, n), jnp.asarray(x))[1] for x, n in zip(STARTS, COUNTS)]
        rows = [jnp.stack(xs) for xs in zip(*map(xpr.tree.leaves, own))]
        stacked = xpr.tree.unflatten(xpr.tree.structure(own[0]), rows)
        values_close(xpr.vmap(lambda pull: pull(1.0)[0])(stacked), wanted)
        values_close(xpr.jit(xpr.vmap(lambda pull: pull(1.0)[0]))(stacked), wanted)


def test_fori_loop_with_traced_bounds():
    w = np.float32([[0.3, -0.8], [0.5, 0.2]])

    def f(w, x, n, loop=lax.fori_loop):
        return loop(0, n, lambda i, h: jnp.tanh(w @ h + x / (1 + i)), x).sum()

    def by_hand(w, x, n):
        h = x
        for i in range(n):
            h = jnp.tanh(w @ h + x / (1 + i))
        return h.sum()

    x = np.float32([0.5, -1.0])
    values_close(xpr.jit(xpr.grad(f, (0, 1)))(w, x, 6), xpr.grad(by_hand, (0, 1))(w, x, 6))
    check_grads(lambda w, x: xpr.jit(f)(w, x, 4), (w, x), order=2, rtol=2e-2, atol=2e-2)


def test_loops_within_loops_in_reverse():
    def f(x, n, loop):
        def row(c):
            i, y = c
            inner = loop(lambda d: d[0] < i, lambda d: (d[0] + 1, jnp.sin(d[1]) + x), (0, y))
            return i + 1, inner[1] * x

        return loop(lambda c: c[0] < n, row, (0, x))[1]

    def by_hand(x, n):
        return f(x, n, python_loop)

    wanted = [xpr.grad(by_hand)(0.7, n) for n in range(5)]
    gradient = xpr.grad(lambda x, n: f(x, n, lax.while_loop))
    with xpr.while_checkpoints(2):
        values_close([xpr.jit(gradient)(0.7, n) for n in range(5)], wanted)
        values_close(xpr.vmap(gradient, (None, 0))(0.7, np.arange(5)), wanted)
        values_close(xpr.jit(xpr.hessian(lambda x: f(x, 3, lax.while_loop)))(0.7), xpr.hessian(by_hand)(0.7, 3), 1e-4)


def test_rows_of_loops_within_loops_in_reverse():
    def inner(x):
        return lax.while_loop(lambda c: c < 3.0, lambda c: jnp.sin(c) * 0.1 + c + 1, x)

    def nested(x):
        return lax.while_loop(lambda c: c < 30.0, lambda c: xpr.jit(inner)(c) * 1.3 + 0.2, x)

    x = jnp.array([1.0, 1.3, 2.2])
    each = xpr.vmap(xpr.grad(nested))(x)
    for mapped in (xpr.vmap(nested), xpr.jit(xpr.vmap(nested)), lambda x: xpr.vmap(xpr.vmap(nested))(x[None])):
        values_close(xpr.grad(lambda x, mapped=mapped: mapped(x).sum())(x), each)
    values_close(xpr.jacrev(xpr.jacrev(xpr.vmap(nested)))(x), xpr.jacfwd(xpr.jacfwd(xpr.vmap(nested)))(x))


def test_loops_around_other_control_flow():
    def f(x, n):
        def step(c):
            i, y = c
            y = lax.cond(i % 2 == 0, jnp.sin, lambda y: y * x, y)
            return i + 1, lax.scan(lambda c, _: (c * 0.9 + x, None), y, None, length=2)[0]

        return lax.while_loop(lambda c: c[0] < n, step, (0, x))[1]

    def by_hand(x, n):
        y = x
        for i in range(n):
            y = jnp.sin(y) if i % 2 == 0 else y * x
            y = (y * 0.9 + x) * 0.9 + x
        return y

    wanted = [xpr.grad(by_hand)(0.3, n) for n in range(4)]
    values_close(xpr.jit(xpr.vmap(xpr.grad(f), (None, 0)))(0.3, np.arange(4)), wanted)
    summed = xpr.grad(lambda x: lax.scan(lambda total, n: (total + f(x, n), None), 0.0, jnp.arange(4))[0])
    values_close(xpr.jit(summed)(0.3), sum(map(float, wanted)))


def test_complex_carries():
    def f(z, loop):
        return jnp.abs(loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * c[1] + 0.1j), (0, z))[1])

    z = np.complex64(0.4 + 0.3j)
    values_close(xpr.grad(lambda z: f(z, lax.while_loop))(z), xpr.grad(lambda z: f(z, python_loop))(z))


def test_what_is_constant_is_computed_outside():
    def f(w, n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * jnp.sin(w)), (0, 1.0))[1]

    jaxpr = xpr.make_jaxpr(xpr.grad(f))(0.5, 3).jaxpr
    assert any(eqn.primitive.name == "cos" for eqn in jaxpr.eqns)
    values_close(xpr.grad(f)(0.5, 3), 3 * np.sin(0.5) ** 2 * np.cos(0.5))


def test_only_what_derivatives_need_is_saved():
    """Not a sum, nor what the carry only passes on; what the steps depend on is."""

    def f(x, n):
        def step(c):
            i, big, y, total = c
            return i + 1, big, jnp.sin(y) * big.sum(), total + y

        return lax.while_loop(lambda c: c[0] < n, step, (0, x * jnp.ones(7), x, 0.0))[3]

    (eqn,) = [e for e in xpr.make_jaxpr(xpr.grad(f))(0.1, 3).eqns if e.primitive.name == "while_saving"]
    assert [v.aval.str_short() for v in eqn.outvars[5:]] == ["f32[65]"]

    def by_hand(x):
        y, total = x, 0.0
        for _ in range(3):
            y, total = jnp.sin(y) * 7 * x, total + y
        return total

    values_close(xpr.grad(f)(0.1, 3), xpr.grad(by_hand)(0.1))
    values_close(xpr.grad(xpr.grad(f))(0.1, 3), xpr.grad(xpr.grad(by_hand))(0.1))
    values_close(xpr.vmap(xpr.grad(f), (None, 0))(0.1, np.array([3, 0])), [xpr.grad(by_hand)(0.1), 0.0])


def test_a_linear_loop_saves_nothing():
    def f(x, n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))[1]

    assert "f32[65" not in str(xpr.make_jaxpr(xpr.grad(f))(1.0, 3))
    values_close(xpr.vmap(xpr.grad(f), (None, 0))(1.0, np.arange(4)), [1, 0.5, 0.25, 0.125])


def test_effects_happen_once():
    seen = []

    def f(x):
        def step(y):
            xpr.debug.callback(lambda v: seen.append(float(v)), y)
            return y * x

        return lax.while_loop(lambda y: y < 10.0, step, x)

    with xpr.while_checkpoints(2):
        values_close(xpr.jit(xpr.grad(f))(2.0), 32.0)
    xpr.effects_barrier()
    assert sorted(seen) == [2.0, 4.0, 8.0]


def test_integer_results_have_no_cotangents():
    def f(x):
        return lax.while_loop(lambda c: c[1] < 10.0, lambda c: (c[0] + 1, c[1] * x), (0, x))

    (count, value), pull = xpr.vjp(f, 1.5)
    assert count == 5
    (ct,) = pull((np.zeros((), xpr.dtypes.float0), 1.0))
    values_close(ct, 6 * 1.5**5)


def test_memory_is_bounded():
    def f(x, n):
        return lax.fori_loop(0, n, lambda i, x: jnp.sin(x) * 1.1, x).sum()

    with xpr.while_checkpoints(4):
        compiled = xpr.jit(xpr.grad(f)).lower(jnp.ones(1000), 10_000).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < 20 * 4 * 1000
        values_close(compiled(jnp.ones(1000), 10_000)[:2], xpr.jit(xpr.grad(lambda x: f(x, 10_000)))(jnp.ones(2)), 1e-4)


OPERATIONS = [jnp.sin, jnp.tanh, lambda y: y * 0.9, lambda y: y + 0.3, lambda y: jnp.cos(y) * y]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(range(len(OPERATIONS))), min_size=1, max_size=3),
    st.integers(0, 12),
    st.sampled_from([2, 8]),
)
def test_random_bodies(chosen, n, slots):
    def body(x):
        def step(c):
            i, y, z = c
            for k in chosen:
                y = OPERATIONS[k](y)
            return i + 1, y + x * z, z * 0.5 + y

        return step

    def f(x, loop):
        _, y, z = loop(lambda c: c[0] < n, body(x), (0, x, 1.0))
        return y * z

    with xpr.while_checkpoints(slots):
        found = xpr.value_and_grad(lambda x: f(x, lax.while_loop))(0.4)
    values_close(found, xpr.value_and_grad(lambda x: f(x, python_loop))(0.4), 1e-4)


@pytest.mark.parametrize("use", [True, False], ids=["used", "unused"])
def test_gradients_of_rows_that_end_apart_with_calls_in_the_body(use):
    def loop(w, x):
        step = lambda c: (nn.relu(c) * w + 1.0) if use else (w * c, nn.relu(c) + 1.0)[1]
        return lax.while_loop(lambda c: c < 3, step, x)

    def total(w):
        return jnp.sum(xpr.vmap(lambda x: loop(w, x))(jnp.array([0.5, 1.0])))

    want = sum(float(xpr.grad(loop)(2.0, x)) for x in (0.5, 1.0))
    assert float(xpr.grad(total)(2.0)) == float(xpr.jit(xpr.grad(total))(2.0)) == want


@pytest.mark.parametrize("result", [0, 1])
def test_what_passes_through_unchanged_is_transposed(result):
    def f(x, y):
        count, same, other = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1], c[1]), (0, x, y))
        return (same, x + same)[result]

    x = jnp.arange(3.0)
    transposed = xpr.linear_transpose(lambda t, u: xpr.jvp(f, (x, x), (t, u))[1], x, x)
    of_x, of_y = transposed(jnp.ones(3))
    np.testing.assert_array_equal(of_x, np.full(3, 1.0 + result))
    np.testing.assert_array_equal(of_y, np.zeros(3))

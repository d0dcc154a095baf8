"""lax.scan, lax.map, associative_scan, and loops that end early."""

import gc
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.errors import CarryMismatch

WEIGHTS = np.float32([[0.3, -0.2, 0.1], [0.5, 0.4, -0.3], [-0.1, 0.2, 0.6]])
ROWS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)


def golden(text):
    return "\n".join(line for line in text.strip("\n").split("\n"))


def test_the_jaxpr_of_the_documents():
    def func11(arr, extra):
        ones = jnp.ones(arr.shape)

        def body(carry, aelems):
            ae1, ae2 = aelems
            return (carry + ae1 * ae2 + extra, carry)

        return lax.scan(body, 0.0, (arr, ones))

    assert str(xpr.make_jaxpr(func11)(np.ones(16), 5.0)) == golden(
        """
{ lambda ; a:f32[16] b:f32[]. let
    c:f32[16] = broadcast_in_dim[broadcast_dimensions=() shape=(16,)] 1.0
    d:f32[] e:f32[16] = scan[
      jaxpr={ lambda ; f:f32[] g:f32[] h:f32[] i:f32[]. let
          j:f32[] = mul h i
          k:f32[] = convert_element_type[new_dtype=float32 weak_type=False] g
          l:f32[] = add k j
          m:f32[] = convert_element_type[new_dtype=float32 weak_type=False] f
          n:f32[] = add l m
        in (n, g) }
      length=16
      linear=(False, False, False, False)
      num_carry=1
      num_consts=1
      reverse=False
      unroll=1
    ] b 0.0 a c
  in (d, e) }"""
    )


def recurrent(np_, scan):
    """A recurrent network written for xpr or jax."""

    def loss(weights, bias, h, xs):
        def cell(h, x):
            h = np_.tanh(weights @ h + x + bias)
            return h, {"y": h * 2, "s": np_.sum(x)}

        h, ys = scan(cell, h, xs)
        return np_.sum(h) + np_.sum(ys["y"] ** 2) + np_.sum(ys["s"])

    return loss


def unrolled(f, init, xs):
    carry, ys = init, []
    for x in xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, xpr.tree.map(lambda *parts: jnp.stack(parts), *ys)


ARGUMENTS = (WEIGHTS, ROWS[0], ROWS[1], ROWS)
LOOP, PLAIN = recurrent(jnp, lax.scan), recurrent(jnp, unrolled)


@pytest.mark.parametrize("argnum", range(4))
def test_derivatives_are_those_of_the_unrolled_loop(argnum):
    expected = xpr.grad(PLAIN, argnum)(*ARGUMENTS)
    for derivative in (xpr.grad, xpr.jacfwd, lambda f, n: xpr.jit(xpr.grad(f, n)), xpr.jacrev):
        np.testing.assert_allclose(derivative(LOOP, argnum)(*ARGUMENTS), expected, rtol=2e-5, atol=1e-6)
    hessian = xpr.hessian(PLAIN, argnum)(*ARGUMENTS)
    np.testing.assert_allclose(xpr.hessian(LOOP, argnum)(*ARGUMENTS), hessian, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("argnum", range(4))
def test_mapped_it_is_the_loop_of_each_row(argnum):
    axes = [None] * 4
    axes[argnum] = 0
    rows = np.stack([ARGUMENTS[argnum] * k for k in (0.5, 1, 1.5)])
    arguments = [rows if i == argnum else x for i, x in enumerate(ARGUMENTS)]
    for f in (LOOP, xpr.grad(LOOP, argnum)):
        each = [f(*(rows[k] if i == argnum else x for i, x in enumerate(ARGUMENTS))) for k in range(3)]
        np.testing.assert_allclose(xpr.vmap(f, axes)(*arguments), np.stack(each), rtol=2e-5, atol=1e-6)


def test_as_jax():
    jax = pytest.importorskip("jax")
    theirs = recurrent(jax.numpy, jax.lax.scan)
    for argnum in range(4):
        mine, expected = xpr.grad(LOOP, argnum)(*ARGUMENTS), jax.grad(theirs, argnum)(*ARGUMENTS)
        np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=1e-6)


def test_residuals_that_are_the_same_in_every_step_are_computed_once():
    def loss(w, h, xs):
        return jnp.sum(lax.scan(lambda h, x: (h * jnp.sin(w) + x, None), h, xs)[0])

    closed = xpr.make_jaxpr(xpr.grad(loss, 0))(WEIGHTS[0], ROWS[0], ROWS)
    forward, backward = (eqn for eqn in closed.eqns if eqn.primitive.name == "scan")
    stacked = [v for v in forward.outvars if v.aval.shape == ROWS.shape]
    assert len(stacked) == 1  # h; sin(w) and cos(w) are found once, outside
    assert any(eqn.primitive.name == "cos" for eqn in closed.eqns)
    assert backward.params["reverse"] and backward.params["num_consts"] >= 1


def test_the_gradient_of_a_weight_is_one_product_of_stacks():
    closed = xpr.make_jaxpr(xpr.grad(LOOP, 0))(*ARGUMENTS)
    backward = [eqn for eqn in closed.eqns if eqn.primitive.name == "scan"][1]
    assert backward.params["num_carry"] == 1  # the cotangent of h; none of the loop's results is a sum of matrices
    assert [v.aval.shape for v in backward.outvars] == [(3,), (5, 3)]  # and the stack of a factor
    assert closed.eqns[-1].primitive.name == "dot_general"


def test_what_carries_no_tangent_has_none_in_the_loop():
    def loss(w, xs):
        def body(carry, x):
            n, h, fixed = carry
            return (n + 1, h * w + fixed, fixed), n

        (n, h, _), ns = lax.scan(body, (0, 1.0, 2.0), xs)
        return h

    closed = xpr.make_jaxpr(lambda w, t: xpr.jvp(lambda w: loss(w, ROWS[:, 0]), (w,), (t,)))(1.5, 1.0)
    (eqn,) = (eqn for eqn in closed.eqns if eqn.primitive.name == "scan")
    assert eqn.params["num_carry"] == 3  # n, h, and the tangent of h
    np.testing.assert_allclose(
        xpr.grad(loss)(1.5, ROWS[:, 0]), xpr.jvp(lambda w: loss(w, ROWS[:, 0]), (1.5,), (1.0,))[1]
    )


def test_integers_and_counters_pass_through_gradients():
    def loss(x, n):
        (x, n), counts = lax.scan(lambda c, _: ((c[0] * 1.5, c[1] + 1), c[1]), (x, n), None, length=4)
        return x * n + counts.sum()

    np.testing.assert_allclose(xpr.grad(loss)(2.0, 3), 1.5**4 * 7, rtol=1e-6)
    np.testing.assert_allclose(xpr.jit(xpr.grad(loss))(2.0, 3), 1.5**4 * 7, rtol=1e-6)


def test_linear_loops_with_counters_are_transposed():
    def linear(x):
        return lax.scan(lambda c, _: ((c[0] * (1.0 + c[1]), c[1] + 1), None), (x, 0), None, length=4)[0][0]

    (back,) = xpr.linear_transpose(linear, 1.0)(1.0)
    assert float(back) == float(linear(1.0)) == 24.0


@xpr.custom_jvp
def level(x):
    """Its tangent is no symbolic zero, but an array of zeros."""
    return x


level.defjvp(lambda primals, tangents: (primals[0], 0 * primals[0]))


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize(
    "step",
    [
        lambda x, y: (y, jnp.ones(2)),
        lambda x, y: xpr.jit(lambda x, y: (x * y, y + y))(x, y),
        lambda x, y: (jnp.sin(x) * y, jnp.cos(y)),
    ],
)
def test_tangents_that_are_known_pass_through_carries_that_are_linear(step, length):
    x = jnp.array([0.5, 2.0])

    def loop(x):
        return lax.scan(lambda c, _: (step(*c), c[0] * c[1]), (x, level(x)), None, length=length)

    outs, back = xpr.vjp(loop, x)
    tangents = xpr.jvp(loop, (x,), (jnp.array([1.0, -1.0]),))[1]
    (gradient,) = back(xpr.tree.map(jnp.ones_like, outs))
    expected = sum(jnp.sum(t) for t in xpr.tree.leaves(tangents))
    np.testing.assert_allclose(jnp.vdot(gradient, jnp.array([1.0, -1.0])), expected, rtol=1e-5)


def test_split_transpose_is_understood():
    """It changes how JAX goes back through a loop, and nothing here."""

    def slope(**how):
        return xpr.grad(lambda x: lax.scan(lambda c, x: (jnp.sin(c) * x, c), 1.0, x, **how)[0])(jnp.arange(1.0, 5.0))

    np.testing.assert_array_equal(slope(_split_transpose=True), slope())


@pytest.mark.parametrize("unroll", [0, 1, 2, 3, 7, 20, True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolled_rounds_change_nothing(unroll, reverse):
    f = xpr.jit(lambda h: lax.scan(lambda h, x: (h * 0.5 + x, h), h, ROWS[:, 0], reverse=reverse, unroll=unroll))
    expected = lax.scan(lambda h, x: (h * 0.5 + x, h), 1.0, ROWS[:, 0], reverse=reverse)
    for x, y in zip(f(1.0), expected):
        np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_long_loops_of_few_operations_take_several_steps_a_round(reverse):
    xs = np.linspace(-1, 1, 1003, dtype=np.float32)
    f = xpr.jit(lambda xs: lax.scan(lambda c, x: (c * 0.5 + x, c), 0.0, xs, reverse=reverse))
    assert f.lower(xs).as_text().count("stablehlo.dynamic_slice") == 3 + 4  # what is left over, and a round
    carry, ys = 0.0, []
    for x in xs[::-1] if reverse else xs:
        carry, y = carry * 0.5 + x, carry
        ys.append(y)
    got = f(xs)
    np.testing.assert_allclose(got[0], carry, rtol=1e-6)
    np.testing.assert_allclose(got[1], ys[::-1] if reverse else ys, rtol=1e-5, atol=1e-6)


def test_no_steps():
    carry, ys = lax.scan(lambda c, x: (c + x, c * 2), 3.0, np.zeros(0, np.float32))
    assert float(carry) == 3.0 and ys.shape == (0,)
    assert float(xpr.grad(lambda c: lax.scan(lambda c, x: (c * x, c), c, np.zeros(0, np.float32))[0])(2.0)) == 1.0


def test_weak_carries_are_promoted():
    carry, ys = lax.scan(lambda c, x: (c + x, c), 0, np.float32([1.5, 2.5]))
    assert carry.dtype == np.float32 and float(carry) == 4.0 and ys.dtype == np.float32


def test_python_runs_the_loop_where_jit_is_disabled():
    seen = []

    def body(c, x):
        seen.append(float(x))
        return c + x, c

    with xpr.disable_jit():
        carry, ys = lax.scan(body, 0.0, np.float32([1, 2, 3]), reverse=True)
    assert seen == [3, 2, 1] and float(carry) == 6 and ys.tolist() == [5, 3, 0]


def test_a_body_made_anew_is_not_compiled_anew():
    from xpr.backend import compiler

    def loop(k):
        return lax.scan(lambda c, x: (c + x * 2, c), jnp.float32(k), ROWS[:, 0])

    loop(1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "compile_text", None)
        loop(2.0)


def test_a_body_is_traced_once_for_its_closure():
    traced = []
    scale = 2.0

    def body(c, x):
        traced.append(x)
        return c + x * scale, None

    for _ in range(3):
        assert float(lax.scan(body, jnp.float32(0), jnp.ones(3))[0]) == 6.0
    assert len(traced) == 1
    scale = 3.0
    assert float(lax.scan(body, jnp.float32(0), jnp.ones(3))[0]) == 9.0
    xpr.jit(lambda y: lax.scan(lambda c, x: (c + y, None), 0.0, None, length=2))(1.0)  # closes over a tracer
    xpr.clear_caches()
    lax.scan(body, jnp.float32(0), jnp.ones(3))
    assert len(traced) == 3


def test_what_was_traced_keeps_nothing_alive():
    def loop():
        weight = jnp.ones(3)

        def body(c, x):
            return c + x * weight, None

        lax.scan(body, jnp.zeros(3), jnp.ones((2, 3)))
        return weakref.ref(body), weakref.ref(weight)

    references = loop()
    gc.collect()
    assert [ref() for ref in references] == [None, None]


def test_a_body_whose_own_rule_closes_over_it_is_not_kept_alive():
    def loop():
        @xpr.custom_jvp
        def doubled(x):
            return 2 * x

        def body(c, x):
            return doubled(c) + x, None

        doubled.defjvp(lambda primals, tangents: (doubled(*primals), body(*tangents, 0.0)[0]))
        lax.scan(body, 0.0, jnp.ones(2))
        return weakref.ref(body)

    reference = loop()
    gc.collect()
    assert reference() is None


# -- Messages


def test_a_carry_of_other_types_is_refused_with_all_the_differences():
    def body(carry, x):
        return {"h": carry["h"][:, None], "n": carry["n"] * 1.5, "s": carry["s"]}, None

    init = {"h": jnp.zeros(8), "n": jnp.int32(0), "s": 1.0}
    with pytest.raises(CarryMismatch) as caught:
        lax.scan(body, init, None, length=2)
    text = str(caught.value)
    assert "scan: the carry input and carry output must have equal types, and differ." in text
    assert "  carry['h']   in f32[8]   out f32[8,1]\n" in text and "  carry['n']   in i32[]    out f32[]\n" in text
    assert "body at test_scan.py" in text and "change the initial carry" in text and "carry['s']" not in text
    assert isinstance(caught.value, TypeError)


def test_a_carry_of_another_structure_is_refused():
    with pytest.raises(CarryMismatch, match=r"(?s)structure it takes.*carry.*expected tuple of 2.*body"):
        lax.scan(lambda c, x: ([c[0], c[1]], None), (1.0, 2.0), None, length=2)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: lax.scan(lambda c, x: c, 0.0, ROWS), r"scan body output must be a pair, got float32\[\]\. "),
        (lambda: lax.scan(3, 0.0, ROWS), "lax.scan: the body of a scan must be callable, and is 3"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0), "`length` has to say"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, {"a": ROWS, "b": ROWS[:2]}), r"(?s)equally long.*xs\['b'\]"),
        (
            lambda: lax.scan(lambda c, x: (c, x), 0.0, ROWS, length=3),
            "argument of 3 which disagrees with leading axis sizes",
        ),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, 3.0), "no leading axis to scan over: xs. It goes"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, ROWS, unroll=-1), "`unroll` must be"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, ROWS, unroll=2.5), "`unroll` must be .* integer .*, and is 2.5"),
        (lambda: xpr.jit(lambda n: lax.scan(lambda c, x: (c, x), 0.0, length=n))(3), "expects a concrete `int`"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, ROWS, until=lambda c: c), "scalar bool"),
        (lambda: lax.map(lambda x: x, ROWS, batch_size=-1), "batch_size must"),
        (lambda: lax.map(lambda x: x, 1.0, batch_size=2), "first axis"),
        (lambda: lax.map(3, ROWS), "lax.map: f must be callable, .* and is 3"),
        (
            lambda: lax.map(lambda x: x, {"a": ROWS[:2], "b": ROWS}, batch_size=2),
            r"(?s)map: the xs must have equally long first axes.*xs\['a'\].*xs\['b'\]",
        ),
        (lambda: lax.scan(lambda c, x: (c, x), {"h": "a"}, ROWS), r"scan: at init\['h'\]: Expected an array"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, (ROWS, None, "a")), r"scan: at xs\[2\]: Expected an array"),
        (lambda: lax.associative_scan(3, ROWS), "function of two pytrees"),
        (lambda: lax.associative_scan(jnp.add, (ROWS, ROWS[:2])), "equally long"),
        (lambda: lax.associative_scan(jnp.add, ROWS, axis=2), "needs an axis"),
        (lambda: lax.associative_scan(lambda a, b: (a, b), ROWS), "as many arrays as it takes twice"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# -- Ending early


def early(w, xs, limit):
    c, ys = lax.scan(lambda c, x: (c * w + x, jnp.sin(c)), 0.1, xs, until=lambda c: c > limit)
    return c + jnp.sum(ys**2)


def early_in_python(w, xs, limit):
    c, out = 0.1, 0.0
    for x in xs:
        if float(c) > limit:
            break
        c, out = c * w + x, out + jnp.sin(c) ** 2
    return c + out


XS = np.linspace(0.1, 1, 8, dtype=np.float32)


@pytest.mark.parametrize("limit", [0.0, 1.0, 3.0, 100.0])
def test_a_loop_that_ends_early_differentiates(limit):
    np.testing.assert_allclose(early(1.3, XS, limit), early_in_python(1.3, XS, limit), rtol=1e-6)
    for argnum in (0, 1):
        expected = xpr.grad(early_in_python, argnum)(1.3, XS, limit)
        for derivative in (xpr.grad, xpr.jacfwd, lambda f, n: xpr.jit(xpr.grad(f, n))):
            np.testing.assert_allclose(derivative(early, argnum)(1.3, XS, limit), expected, rtol=1e-5)
    second = xpr.hessian(early_in_python)(1.3, XS, limit)
    np.testing.assert_allclose(xpr.hessian(early)(1.3, XS, limit), second, rtol=1e-4)


def test_rows_end_early_each_at_its_own_step():
    limits, ws = np.float32([0, 1, 3, 100]), np.float32([1.1, 1.2, 1.5, 2.0])
    pairs = list(zip(ws, limits))
    mapped = xpr.vmap(early, (0, None, 0))
    np.testing.assert_allclose(mapped(ws, XS, limits), [early_in_python(w, XS, m) for w, m in pairs], rtol=1e-5)
    expected = [xpr.grad(early_in_python)(w, XS, m) for w, m in pairs]
    np.testing.assert_allclose(xpr.vmap(xpr.grad(early), (0, None, 0))(ws, XS, limits), expected, rtol=1e-5)
    np.testing.assert_allclose(xpr.grad(lambda ws: mapped(ws, XS, limits).sum())(ws), expected, rtol=1e-5)


def test_rows_that_were_not_reached_are_zeros_also_backwards():
    carry, ys = lax.scan(lambda c, x: (c + x, c + 1), 0.0, jnp.arange(1.0, 6.0), reverse=True, until=lambda c: c > 8)
    assert float(carry) == 9 and ys.tolist() == [0, 0, 0, 6, 1]


# -- map and associative_scan


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 9])
def test_map_is_a_loop(batch_size):
    got = lax.map(lambda row: {"s": row["a"].sum(), "t": row["b"] * 2}, {"a": ROWS, "b": XS[:5]}, batch_size=batch_size)
    np.testing.assert_allclose(got["s"], ROWS.sum(1), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got["t"], XS[:5] * 2)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_results(length, reverse):
    x = np.linspace(0.5, 1.5, 2 * length, dtype=np.float32).reshape(2, length)
    got = lax.associative_scan(jnp.multiply, x, reverse=reverse, axis=-1)
    expected = np.cumprod(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumprod(x, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


class Line(NamedTuple):
    slope: xpr.Array
    offset: xpr.Array


def test_cumulative_results_may_come_in_another_class_of_tuples():
    lines = Line(jnp.array([2.0, 3.0, 4.0, 5.0]), jnp.arange(4.0))
    got = lax.associative_scan(lambda f, g: (g.slope * f.slope, g.slope * f.offset + g.offset), lines)
    assert type(got) is Line and got.slope.tolist() == [2, 6, 24, 120] and got.offset.tolist() == [0, 1, 6, 33]


def test_cumulative_results_of_random_keys():
    keys = xpr.random.split(xpr.random.key(0), 5)
    firsts = lax.associative_scan(lambda a, b: a, keys)
    np.testing.assert_array_equal(xpr.random.key_data(firsts), xpr.random.key_data(keys[:1].repeat(5)))


def test_running_products_of_matrices_differentiate():
    def last(ms):
        return lax.associative_scan(lambda a, b: jnp.einsum("nij,njk->nik", a, b), ms)[-1].sum()

    ms = np.random.default_rng(0).normal(size=(5, 2, 2)).astype(np.float32)
    np.testing.assert_allclose(last(ms), np.linalg.multi_dot(ms).sum(), rtol=1e-4)
    direct = xpr.grad(lambda ms: (ms[0] @ ms[1] @ ms[2] @ ms[3] @ ms[4]).sum())(ms)
    np.testing.assert_allclose(xpr.grad(last)(ms), direct, rtol=1e-3, atol=1e-5)


# -- Random bodies

STEPS = st.sampled_from(
    [
        lambda c, x: (c * x, c),
        lambda c, x: (jnp.sin(c) + x, x * 2),
        lambda c, x: (jnp.where(x > 0, c, -c) * 0.9, c * c),
        lambda c, x: (lax.stop_gradient(c) + x, c),
        lambda c, x: (jnp.tanh(c - x), jnp.cos(x)),
        lambda c, x: (lax.scan(lambda d, _: (d * 0.5 + x, d), c, None, length=2)[0], c),
    ]
)


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=3), st.booleans(), st.integers(1, 3))
def test_random_bodies(parts, reverse, unroll):
    def body(c, x):
        y = x
        for part in parts:
            c, y = part(c, y)
        return c, y

    def loss(scan):
        def run(c, xs):
            carry, ys = scan(body, c, xs)
            return (carry * carry + jnp.sum(ys, 0)).sum()

        return run

    def plain(f, c, xs):
        carry, ys = unrolled(f, c, xs[::-1] if reverse else xs)
        return carry, ys

    looped = loss(lambda f, c, xs: lax.scan(f, c, xs, reverse=reverse, unroll=unroll))
    c, xs = ROWS[1] * 0.7 + 0.1, ROWS[:4] * 0.8 + 0.05
    np.testing.assert_allclose(looped(c, xs), loss(plain)(c, xs), rtol=1e-4, atol=1e-5)
    for argnum in (0, 1):
        expected = xpr.grad(loss(plain), argnum)(c, xs)
        np.testing.assert_allclose(xpr.grad(looped, argnum)(c, xs), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
def test_gradients_of_loops_without_rows_that_may_end_early(staged):
    def total(x, rows):
        carry, ys = lax.scan(lambda c, row: (c * x + row, c), x, rows, until=lambda c: c > 3)
        return carry + jnp.sum(ys)

    none = jnp.ones((0,))
    over = (lambda f: xpr.jit(f)) if staged else (lambda f: f)
    by_x, by_rows = over(xpr.grad(total, argnums=(0, 1)))(2.0, none)
    assert float(by_x) == 1 and by_rows.shape == (0,)
    assert float(over(xpr.grad(xpr.grad(total)))(2.0, none)) == 0
    assert float(over(lambda x: xpr.jvp(lambda x: total(x, none), (x,), (1.0,))[1])(2.0)) == 1
    rows_of = over(xpr.vmap(xpr.grad(total), (0, None)))(jnp.array([1.0, 2.0]), none)
    np.testing.assert_array_equal(rows_of, [1, 1])


# -- Sums of cotangents, in place


def _reads_a_slice(x, i):
    return jnp.sin(lax.dynamic_slice(x, (2 * i, 0), (2, 3))).sum()


def _reads_rows(x, i):
    return (x[jnp.array([0, 3]) + i] ** 2).sum()


def _reads_several(x, i):
    return x[i, 1] * x[i + 1, 2] + (x[jnp.array([1, 1]) * i] ** 3).sum() + jnp.cos(x).sum()


def _reads_everything(x, i):
    return (x * i).sum()


@pytest.mark.parametrize("reads", [_reads_a_slice, _reads_rows, _reads_several, _reads_everything])
def test_cotangents_of_what_a_loop_reads_in_parts(reads):
    x = jnp.arange(24.0).reshape(8, 3) / 10

    def looped(x):
        return lax.fori_loop(0, 4, lambda i, total: total + reads(x, i), 0.0)

    expected = xpr.grad(lambda x: sum(reads(x, i) for i in range(4)))(x)
    for gradient in (xpr.grad(looped), xpr.jit(xpr.grad(looped))):
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-5, atol=1e-6)
    rows = xpr.vmap(xpr.grad(looped))(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(rows[0], expected, rtol=1e-5, atol=1e-6)
    xpr.core.check_jaxpr(xpr.make_jaxpr(xpr.grad(looped))(x))


def test_only_the_slices_that_a_loop_reads_are_summed():
    def looped(x):
        return lax.fori_loop(0, 4, lambda i, total: total + _reads_a_slice(x, i), 0.0)

    text = str(xpr.make_jaxpr(xpr.grad(looped))(jnp.ones((8, 3))))
    assert "f32[2,3] = add_any" in text and "f32[8,3] = add_any" not in text


def test_what_a_loop_only_passes_on_is_not_copied():
    """Carries that stay what they are are constants of the loop, and ys that are rows of the xs are those."""

    def loop(w, h, xs, reverse=False):
        def step(carry, x):
            w, h, n = carry
            return (w, jnp.tanh(w * h + x), n), (x, h, w)

        return lax.scan(step, (w, h, 3), xs, reverse=reverse)

    (eqn,) = xpr.make_jaxpr(loop)(2.0, 0.5, ROWS[:, 0]).eqns
    assert eqn.params["num_carry"] == 1 and len(eqn.outvars) == 3
    for reverse in (False, True):
        (w, h, n), (rows, hs, ws) = loop(2.0, 0.5, ROWS[:, 0], reverse)
        assert isinstance(w, xpr.Array) and w == 2 and n == 3 and n.dtype == np.int32
        np.testing.assert_array_equal(rows, ROWS[:, 0])
        np.testing.assert_array_equal(ws, np.full(len(ROWS), 2.0))
        expected = [0.5]
        for x in ROWS[::-1, 0] if reverse else ROWS[:, 0]:
            expected.append(np.tanh(2 * expected[-1] + x))
        np.testing.assert_allclose(h, expected[-1], rtol=1e-5)
        np.testing.assert_allclose(hs, expected[-2::-1] if reverse else expected[:-1], rtol=1e-5)
    total = lambda w: sum(x.sum() for x in xpr.tree.leaves(loop(w, 0.5, ROWS[:, 0])))
    slope = (total(2.01) - total(1.99)) / 0.02
    for derivative in (xpr.grad(total)(2.0), xpr.jacfwd(total)(2.0)):
        np.testing.assert_allclose(derivative, slope, rtol=1e-2)
    kept = lax.scan(lambda c, x: (c, x), X := jnp.arange(3.0), np.ones((0, 2), np.float32))
    assert kept[0] is X and kept[1].shape == (0, 2)
    # A carry that a branch passes on unchanged isn't mapped with the predicate.
    f = lambda x, y: lax.cond(x < 0, *[lambda y: lax.scan(lambda y, _: (y, None), y, None, length=1)[0]] * 2, y)
    assert xpr.vmap(f, (0, None), None)(X, 3.0) == 3.0


def test_operations_without_derivatives_on_carries_without_tangents():
    """The second carry depends on the first one, but through `stop_gradient` and `floor`: it has no tangent."""

    def body(carry, _):
        x, steps = carry
        seen = xpr.pure_callback(np.sin, xpr.typeof(steps), steps)
        return (x * 1.5, steps + lax.stop_gradient(x) + jnp.floor(x)), seen

    def loss(x):
        (x, steps), seen = lax.scan(body, (x, x.dtype.type(0.0)), length=3)
        return x + steps + seen.sum()

    assert xpr.grad(loss)(jnp.float32(2.0)) == 1.5**3
    assert xpr.jvp(loss, (jnp.float32(2.0),), (jnp.float32(1.0),))[1] == 1.5**3

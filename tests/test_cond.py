"""lax.cond and lax.switch: printed, run, differentiated, mapped, and what they say where something is wrong."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests.helpers import close, jaxpr_text, primitive_names
from tests.peer import JAX, agree
from xpr import core, lax
from xpr.compile.lower import lower_jaxpr
from xpr.compile.reference import reference_eval
from xpr.control.cond import batching, platforms
from xpr.errors import BranchMismatch
from xpr.passes.dce import dce_jaxpr

X = np.float32([0.5, -1.0, 2.0])


# -- As the documentation of jaxprs prints them

FUNC_ONE_OF_THREE = """\
{ lambda ; a:i32[] b:f32[]. let
    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a
    d:i32[] = clamp 0 c 2
    e:f32[] = cond[
      branches=(
        { lambda ; f:f32[]. let g:f32[] = add f 1.0 in (g,) }
        { lambda ; h:f32[]. let i:f32[] = sub h 2.0 in (i,) }
        { lambda ; j:f32[]. let k:f32[] = add j 3.0 in (k,) }
      )
      linear=(False,)
    ] d b
  in (e,) }"""


def one_of_three(index, arg):
    return lax.switch(index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0], arg)


def test_switch_prints_its_branches_and_clamps_the_index():
    assert jaxpr_text(one_of_three, 1, 5.0) == FUNC_ONE_OF_THREE


FUNC7 = """\
{ lambda ; a:f32[]. let
    b:bool[] = ge a 0.0
    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] b
    d:f32[] = cond[
      branches=(
        { lambda ; e:f32[]. let f:f32[] = sub e 3.0 in (f,) }
        { lambda ; g:f32[]. let h:f32[] = add g 3.0 in (h,) }
      )
      linear=(False,)
    ] c a
  in (d,) }"""


def test_cond_prints_the_false_branch_first():
    def func7(arg):
        return lax.cond(arg >= 0.0, lambda xtrue: xtrue + 3.0, lambda xfalse: xfalse - 3.0, arg)

    assert jaxpr_text(func7, 5.0) == FUNC7


FUNC8 = """\
{ lambda a:i32[1]; b:f32[] c:f32[1] d:f32[]. let
    e:bool[] = ge b 0.0
    f:i32[] = convert_element_type[new_dtype=int32 weak_type=False] e
    g:f32[1] = cond[
      branches=(
        { lambda ; h:i32[1] i:f32[1] j:f32[]. let
            k:f32[1] = convert_element_type[new_dtype=float32 weak_type=True] h
            l:f32[1] = add k j
          in (l,) }
        { lambda ; m_:i32[1] n:f32[1] o:f32[]. let in (n,) }
      )
      linear=(False, False, False)
    ] f a c d
  in (g,) }"""


def test_constants_of_branches_are_hoisted():
    def func8(arg1, arg2):
        return lax.cond(
            arg1 >= 0.0, lambda xtrue: xtrue[0], lambda xfalse: jnp.array([1]) + xfalse[1], arg2
        )  # fmt: skip

    assert jaxpr_text(func8, 5.0, (jnp.zeros(1), 2.0)) == FUNC8


# -- What they give


@pytest.mark.parametrize(
    "pred", [True, False, 2, 0, 0.5, 0.0, np.bool_(True), np.uint8(0), jnp.array(3), jnp.array(False)]
)
def test_predicates(pred):
    for run in (xpr.jit, lambda f: f):
        assert run(lambda p: lax.cond(p, lambda: 1, lambda: 2))(pred) == (1 if pred else 2)


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 100, np.uint8(200), np.int8(-1), jnp.array(1)])
def test_an_index_is_clamped(index):
    expected = min(max(int(index), 0), 2)
    for run in (xpr.jit, lambda f: f):
        assert run(lambda i: lax.switch(i, [lambda: 0, lambda: 1, lambda: 2]))(index) == expected


def test_forms_of_operands():
    assert lax.cond(True, lambda x, y: x + y["a"], lambda x, y: x, 1, {"a": 2}) == 3
    assert lax.cond(True, lambda x: x, lambda x: 2 * x, operand=4) == 4
    assert lax.cond(False, lambda x: 0, lambda x: 1, operand=None) == 1
    assert lax.cond(False, 3.0, lambda x: x, 2.0, lambda x: 10 * x) == 20.0
    assert lax.switch(1, [lambda x: x, lambda x: 2 * x], operand=3) == 6
    y = jnp.arange(3.0)
    close(lax.cond(True, lambda: y + 1, lambda: y), np.float32([1.0, 2.0, 3.0]))
    assert lax.cond(True, lambda: None, lambda: None) is None


def test_a_single_branch_is_called():
    assert primitive_names(xpr.make_jaxpr(lambda i, x: lax.switch(i, [lambda x: 2 * x], x))(4, 1.0))[-1] == "mul"
    assert "cond" not in primitive_names(xpr.make_jaxpr(lambda i, x: lax.switch(i, [lambda x: 2 * x], x))(4, 1.0))


@pytest.mark.parametrize("way", ["eager", "jit", "jvp"])
def test_results_are_weakly_typed_where_the_first_branch_gives_them_so(way):
    def weak(library, pred):
        lax, i32, f32 = library.lax, library.numpy.int32, library.numpy.float32

        def f(x):
            chosen = lax.cond(pred, lambda: (1, 2, x, i32(5)), lambda: (3, i32(4), f32(1), 6))
            return chosen, lax.switch(library.numpy.int32(pred), [lambda: x, lambda: f32(2), lambda: 3.0])

        run = {"eager": f, "jit": library.jit(f), "jvp": lambda x: library.jvp(f, (x,), (1.0,))[0]}[way]
        return [x.weak_type for x in library.tree.leaves(run(2.0))]

    for pred in (True, False):
        assert agree(lambda library, pred=pred: weak(library, pred)) == [True, False, False, True, True]


def test_only_the_branch_that_is_picked_runs_eagerly():
    def big(x):
        return lax.scan(lambda c, _: (jnp.sin(c), None), x, length=2**31 - 1)[0]

    assert lax.cond(False, big, lambda x: x + 1, 1.0) == 2.0
    assert xpr.grad(lambda x: lax.cond(x > 2, big, lambda x: x * x, x))(1.0) == 2.0
    assert xpr.jit(lambda x: lax.cond(x > 2, big, lambda x: x + 1, x))(1.0) == 2.0


def test_disable_jit_calls_the_branch():
    seen = []
    with xpr.disable_jit():
        lax.cond(True, lambda x: seen.append(x) or x, lambda x: 1 // 0, 5)
        lax.switch(9, [lambda x: 1 // 0, lambda x: seen.append(x) or x], 6)
    assert seen == [5, 6]


def test_reference_evaluation():
    closed = xpr.make_jaxpr(one_of_three)(1, 5.0)
    assert [float(reference_eval(closed.jaxpr, (), i, 5.0)[0]) for i in (-3, 1, 9)] == [6.0, 3.0, 8.0]


# -- Derivatives


def test_residuals_share_slots_and_operands_are_handed_on():
    def f(x, i):
        def one(x):
            return jnp.sin(jnp.sin(jnp.sin(x)))  # three cosines

        return lax.switch(i, [one, lambda x: jnp.sin(x) * x, lambda x: jnp.exp(x), lambda x: x], x)

    closed = xpr.make_jaxpr(lambda x, i: xpr.linearize(lambda x: f(x, i), x)[1](x))(X, 1)
    core.check_jaxpr(closed)
    primal, linear = (eqn for eqn in closed.eqns if eqn.primitive.name == "cond")
    assert len(primal.outvars) == 1 + 3  # as many residuals as the branch that has most
    assert len(linear.invars) == 1 + 1 + 1 + 3 + 1  # the index, x, the result, three slots, the tangent
    assert linear.params["linear"] == (False,) * 5 + (True,)
    for i in range(4):
        xpr.testing.check_grads(lambda x, i=i: f(x, i), (X,), order=2)


def test_symbolic_zeros():
    """A result without a tangent in any branch has none; integers and float0 go through."""

    def f(x, n, p):
        return lax.cond(p, lambda x, n: (x * n, n, jnp.ones(2)), lambda x, n: (2 * x, n + 1, jnp.zeros(2)), x, n)

    def both(x, n, p):
        return xpr.jvp(lambda x: f(x, n, p), (x,), (x,))

    closed = xpr.make_jaxpr(both)(X, 3, True)
    (eqn,) = (eqn for eqn in closed.eqns if eqn.primitive.name == "cond")
    assert len(eqn.outvars) == 3 + 1
    (y, n, c), (dy, dn, dc) = both(X, 3, True)
    assert dn.dtype == xpr.dtypes.float0 and not np.asarray(dc).any()
    close(dy, 3 * X)
    assert (
        np.asarray(xpr.grad(lambda x, n: f(x, n, False)[0].sum(), argnums=1, allow_int=True)(X, 3)).dtype
        == xpr.dtypes.float0
    )


def test_dead_results_are_given_up():
    def f(x, y, p):
        return lax.cond(p, lambda x, y: (jnp.sin(x), jnp.cos(y)), lambda x, y: (x, y), x, y)[0]

    closed = xpr.make_jaxpr(f)(X, X, True)
    smaller, used = dce_jaxpr(closed.jaxpr, [True])
    core.check_jaxpr(smaller)
    assert used == [True, False, True]
    eqn = smaller.eqns[-1]
    assert len(eqn.outvars) == 1 and len(eqn.invars) == 2 and len(eqn.params["linear"]) == 1


# -- Mapped


def costly(x):
    w = jnp.full((x.shape[0], x.shape[0]), 1e-3)
    for _ in range(3):
        x = jnp.tanh(w @ x)
    return x


def test_a_cheap_cond_becomes_a_selection_and_a_costly_one_a_loop_over_rows():
    def cheap(p, x):
        return lax.cond(p, jnp.sin, jnp.cos, x)

    def expensive(p, x):
        return lax.cond(p, costly, jnp.cos, x)

    preds, rows = np.array([True, False, True]), np.ones((3, 300), np.float32)
    assert "scan" not in primitive_names(xpr.make_jaxpr(xpr.vmap(cheap))(preds, rows))
    assert "cond" not in primitive_names(xpr.make_jaxpr(xpr.vmap(cheap))(preds, rows))
    assert "scan" in primitive_names(xpr.make_jaxpr(xpr.vmap(expensive))(preds, rows))
    assert "scan" not in primitive_names(xpr.make_jaxpr(xpr.vmap(expensive, in_axes=(None, 0)))(True, rows))
    for f in (cheap, expensive):
        expected = [f(p, x) for p, x in zip(preds, rows)]
        close(xpr.vmap(f)(preds, rows), np.stack(expected))
        close(xpr.jit(xpr.vmap(f))(preds, rows), np.stack(expected))


@pytest.mark.parametrize("way", ["select", "branch"])
def test_either_can_be_asked_for(way):
    def f(p, x):
        return lax.cond(p, lambda x: jnp.sin(x), lambda x: jnp.exp(x) * 2, x, vmap=way)

    preds = np.array([True, False, True])
    assert ("scan" in primitive_names(xpr.make_jaxpr(xpr.vmap(f))(preds, X))) == (way == "branch")
    assert f"vmap={way}" in jaxpr_text(f, True, X)
    expected = np.where(preds, np.cos(X), np.exp(X) * 2)
    total = lambda x: xpr.vmap(f)(preds, x).sum()
    close(xpr.vmap(xpr.grad(f, 1))(preds, X), expected)
    close(xpr.grad(total)(X), expected)
    close(xpr.jit(xpr.grad(total))(X), expected)
    close(xpr.hessian(total)(X), np.diag(np.where(preds, -np.sin(X), np.exp(X) * 2)))
    close(
        xpr.vmap(lambda x: xpr.vmap(f)(preds, x))(X[:, None] * X),
        np.where(preds, np.sin(X[:, None] * X), np.exp(X[:, None] * X) * 2),
    )


@pytest.mark.parametrize("way", ["select", "branch"])
def test_infinities_of_other_branches_stay_out_of_gradients(way):
    """Where x is 0 the derivative of the root is infinite; that row doesn't take it."""

    def f(x):
        return lax.cond(x > 0, jnp.sqrt, lambda x: 2 * x, x, vmap=way)

    def closed_over(w):
        return xpr.vmap(lambda p: lax.cond(p, lambda: jnp.sqrt(w), lambda: 2 * w, vmap=way))(
            np.array([False, False])
        ).sum()

    x = np.float32([0.0, 4.0])
    close(xpr.vmap(xpr.grad(f))(x), np.float32([2.0, 0.25]))
    close(xpr.grad(lambda x: xpr.vmap(f)(x).sum())(x), np.float32([2.0, 0.25]))
    close(xpr.grad(closed_over)(np.float32(0.0)), np.float32(4.0))


@pytest.mark.parametrize("way", [None, "select", "branch"])
def test_a_loop_that_does_not_end_on_rows_that_are_not_its_own(way):
    def countdown(x):
        return lax.while_loop(lambda s: s[0] != 0, lambda s: (s[0] - 1, s[1] * s[1]), (jnp.round(x), x))[1]

    def f(x):
        return lax.cond(x > 0, countdown, lambda x: 2 * x, x, vmap=way)

    x = np.float32([3.0, -1.0, 2.0, -0.5])
    assert ("scan" in primitive_names(xpr.make_jaxpr(xpr.vmap(f))(x))) == (way != "select")
    close(xpr.vmap(f)(x), np.float32([3.0**8, -2.0, 16.0, -1.0]))
    close(xpr.jit(xpr.vmap(f))(-np.abs(x)), -2 * np.abs(x))  # no row takes it
    close(xpr.vmap(xpr.grad(f))(x), np.float32([8 * 3.0**7, 2.0, 32.0, 2.0]))
    close(xpr.grad(lambda x: xpr.vmap(f)(x).sum())(x), np.float32([8 * 3.0**7, 2.0, 32.0, 2.0]))


def test_a_selection_keeps_products_with_shared_operands_whole():
    w = jnp.ones((3, 3))
    f = xpr.vmap(lambda p, x: lax.cond(p, lambda x: w @ x, lambda x: x, x))
    closed = xpr.make_jaxpr(f)(np.array([True, False]), np.ones((2, 3), np.float32))
    assert "f32[2,3,3]" not in str(closed)


def test_effects_are_those_of_the_branch_that_is_taken():
    seen = []

    def noisy(x):
        xpr.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)
        return 2 * x

    def f(p, x):
        return lax.cond(p, noisy, lambda x: x, x)

    def after(fun, *args):
        seen.clear()
        fun(*args)
        xpr.effects_barrier()
        return list(seen)

    preds = np.array([True, False, True])
    assert after(f, True, 4.0) == after(xpr.jit(f), True, 4.0) == [4.0]
    assert after(f, False, 4.0) == after(xpr.jit(f), False, 4.0) == []
    assert after(xpr.vmap(f), preds, X) == after(xpr.jit(xpr.vmap(f)), preds, X) == [0.5, 2.0]
    assert after(xpr.jit(xpr.grad(lambda x: xpr.vmap(f)(preds, x).sum())), X) == [0.5, 2.0]
    assert after(xpr.jit(lambda x: (f(x > 0, x), 1)[1]), 3.0) == [3.0]  # also where nothing reads the result


def test_a_collective_in_a_branch_needs_all_rows():
    def f(p, x, way=None):
        return lax.cond(p, lambda x: x - lax.pmean(x, "i"), lambda x: lax.psum(x, "i"), x, vmap=way)

    preds = np.array([True, False, True])
    close(xpr.vmap(f, axis_name="i")(preds, X), np.where(preds, X - X.mean(), X.sum()))
    close(xpr.vmap(f, in_axes=(None, 0), axis_name="i")(True, X), X - X.mean())
    with pytest.raises(ValueError, match="needs all rows at once"):
        xpr.vmap(lambda p, x: f(p, x, "branch"), axis_name="i")(preds, X)


def test_an_unmapped_result_of_a_mapped_choice():
    close(xpr.vmap(lambda i: lax.switch(i, [lambda: 1.5, lambda: 2.5, lambda: 4.0]))(np.arange(-1, 5)),
          np.float32([1.5, 1.5, 2.5, 4.0, 4.0, 4.0]))  # fmt: skip
    empty = np.zeros((0,), bool)
    assert xpr.vmap(lambda p: lax.cond(p, lambda: 1, lambda: 2, vmap="select"))(empty).shape == (0,)
    assert xpr.vmap(lambda p: lax.cond(p, lambda: 1, lambda: 2, vmap="branch"))(empty).shape == (0,)


def test_work():
    def of(f, *args):
        return batching.work(xpr.make_jaxpr(f)(*args).jaxpr)

    assert of(jnp.sin, X) == 6
    assert of(lambda a: a @ a, np.ones((10, 10))) == 1000
    step = lambda c, x: (jnp.sin(c), None)
    assert of(lambda x: lax.scan(step, x, None, length=7)[0], X) == 42
    assert of(lambda x: lax.cond(x[0] > 0, lambda x: x, jnp.sin, x), X) >= 6


# -- Beside jax


SHAPES = [(3,), ()]
UNARY = ["sin", "cos", "tanh", "logistic", "neg", "exp"]


def branch_of(steps, lib):
    """A function of (x: f32[3], s: f32[]) from a list of numbers."""
    lax = lib.lax

    def branch(x, s):
        for kind, name in steps:
            if kind == 0:
                x = getattr(lax, name)(x)
            elif kind == 1:
                s = lax.mul(getattr(lax, name)(s), np.float32(0.5))
            elif kind == 2:
                x = lax.mul(x, lax.broadcast(lax.tanh(s), (3,)))
            elif kind == 3:
                s = lax.sub(s, lax.tanh(lax.dot(x, x)))
            else:
                x = lib.lax.cond(lax.gt(s, np.float32(0)), getattr(lax, name), lambda x: x, x)
        return x, s

    return branch


STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(UNARY)), min_size=0, max_size=4)


def transformed(kind, f, lib):
    """A function of (index: i32[4], x: f32[4,3], s: f32[4]) made from f(index: i32[], x: f32[3], s: f32[])."""

    def total(i, x, s):
        y, t = f(i, x, s)
        return y.sum() + t

    grads = lib.grad(total, argnums=(1, 2))
    if kind == "vmap":
        return lib.vmap(f)
    if kind == "vmap operands":
        return lambda i, x, s: lib.vmap(lambda x, s: f(i[0], x, s))(x, s)
    if kind == "vmap index":
        return lambda i, x, s: lib.vmap(lambda i: f(i, x[0], s[0]))(i)
    if kind == "vmap grad":
        return lib.vmap(grads)
    if kind == "grad vmap":
        return lambda i, x, s: lib.grad(lambda x, s: lib.vmap(total)(i, x, s).sum(), argnums=(0, 1))(x, s)
    if kind == "grad":
        return lambda i, x, s: grads(i[0], x[0], s[0])
    if kind == "jvp":
        return lambda i, x, s: lib.jvp(lambda x, s: f(i[0], x, s), (x[0], s[0]), (x[1], s[1]))
    if kind == "vmap jvp":
        return lambda i, x, s: lib.jvp(lambda x, s: lib.vmap(f)(i, x, s), (x, s), (x, s))
    assert kind == "hessian"
    return lambda i, x, s: lib.hessian(lambda x: total(i[0], x, s[0]))(x[0])


KINDS = ["vmap", "vmap operands", "vmap index", "vmap grad", "grad vmap", "grad", "jvp", "vmap jvp", "hessian"]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    programs=st.lists(STEPS, min_size=2, max_size=3),
    kind=st.sampled_from(KINDS),
    way=st.sampled_from([None, "branch"]),
    staged=st.booleans(),
)
def test_random_branches_agree_with_jax(programs, kind, way, staged):
    i = np.int32([1, 0, 2, -1])
    x, s = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), np.float32([0.3, -0.2, 1.0, -1.0])

    def switched(lib):
        options = {"vmap": way} if lib is xpr and way else {}
        branches = [branch_of(steps, lib) for steps in programs]
        run = transformed(kind, lambda i, x, s: lib.lax.switch(i, branches, x, s, **options), lib)
        return (lib.jit(run) if staged or lib is JAX else run)(i, x, s)

    agree(switched, 1e-4)


def in_a_loop(lib):
    """A switch in a scan, a loop in a branch, with what is differentiated in a closure."""
    lax, jnp = lib.lax, lib.numpy

    def f(i, x, s):
        def body(c, k):
            c = lax.switch(
                i + k, [jnp.sin, lambda c: lax.fori_loop(0, 3, lambda j, c: c * s + j, c), lib.jit(jnp.cos)], c
            )
            return c, lax.cond(k < 2, lambda: c, lambda: c * x)

        return lax.scan(body, x, jnp.arange(4))

    return f


@pytest.mark.parametrize("kind", KINDS)
def test_nested_in_loops_agrees_with_jax(kind):
    i, s = np.int32([1, 0, 2, -1]), np.float32([0.3, -0.2, 1.0, -1.0])
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    agree(lambda lib: transformed(kind, summed(in_a_loop(lib)), lib)(i, x, s), 1e-4)


def summed(f):
    def of_two_results(i, x, s):
        carry, rows = f(i, x, s)
        return carry, rows.sum()

    return of_two_results


# -- What they say


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_branches_of_different_types():
    def wide():
        return {"h": jnp.ones((8, 1)), "n": 1.0, "same": 1}

    said = message(BranchMismatch, lambda: lax.cond(True, lambda: {"h": jnp.ones(8), "n": 1, "same": 2}, wide))
    here = test_branches_of_different_types.__code__.co_firstlineno
    assert said == (
        "cond: the branches must give results of the same types.\n"
        "  result['h']   true_fun f32[8]   false_fun f32[8,1]\n"
        "  result['n']   true_fun i32[]    false_fun f32[]\n"
        f"  true_fun is <lambda> at test_cond.py:{here + 4}\n"
        f"  false_fun is wide at test_cond.py:{here + 1}\n"
        "  Reshape, convert or regroup inside the branches until they agree."
    )
    assert issubclass(BranchMismatch, TypeError)


def test_all_branches_of_a_switch_are_compared():
    said = message(BranchMismatch, lambda: lax.switch(0, [lambda x: x, lambda x: x[0], lambda x: x, lambda x: 1], X))
    assert "result   branches[0] f32[3]   branches[1] f32[]" in said
    assert "result   branches[0] f32[3]   branches[3] i32[]" in said
    assert "branches[2]" not in said


def test_branches_of_different_structures():
    said = message(BranchMismatch, lambda: lax.cond(True, lambda: {"a": 1, "b": (1, 2)}, lambda: {"a": 1, "b": 3}))
    assert "results of the same structure" in said
    assert "false_fun, where that of true_fun is expected:\n  result['b']   expected tuple of 2, got a leaf" in said
    assert "true_fun is <lambda> at test_cond.py" in said


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: lax.cond("a", jnp.sin, jnp.cos, 1.0), "the predicate must be a scalar, and is 'a'"),
        (lambda: lax.cond(None, jnp.sin, jnp.cos, 1.0), "cond predicate is None. It must be a scalar"),
        (
            lambda: lax.cond(X > 0, jnp.sin, jnp.cos, 1.0),
            r"the predicate must be a scalar, and is bool\[3\].*jnp.where",
        ),
        (lambda: xpr.jit(lambda p: lax.cond(p, jnp.sin, jnp.cos, 1.0))(X), r"must be a scalar, and is f32\[3\]"),
        (lambda: lax.cond(2j, jnp.sin, jnp.cos, 1.0), r"a boolean or a real number, and is c64\[\]"),
        (lambda: lax.cond(len, jnp.sin, jnp.cos, 1.0), "a function was given, len.*mind the order of the arguments"),
        (lambda: lax.cond(True, 3, jnp.cos, 1.0), "lax.cond: true_fun must be callable, and is 3"),
        (lambda: lax.cond(True, jnp.sin, None, 1.0), "false_fun must be callable, and is None"),
        (lambda: lax.cond(True, jnp.sin, jnp.cos, 1.0, operand=2.0), "both by position"),
        (lambda: lax.cond(True, lambda x: 0, lambda x: 0, {"a": "s"}), r"at operands\[0\]\['a'\]: Expected an array"),
        (lambda: lax.switch(1.0, [jnp.sin, jnp.cos], 1.0), r"the index must be an integer, and is f32\[\]"),
        (lambda: lax.switch(True, [jnp.sin, jnp.cos], 1.0), r"the index must be an integer, and is bool\[\]"),
        (lambda: lax.switch([1], [jnp.sin, jnp.cos], 1.0), r"the index must be a scalar, and is \[1\]"),
        (lambda: lax.switch(1, [jnp.sin, 4], 1.0), r"lax.switch: branches\[1\] must be callable, and is 4"),
    ],
)
def test_messages(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_values_that_are_not_among_those_known():
    with pytest.raises(ValueError, match="at least one branch"):
        lax.switch(0, [], 1.0)
    with pytest.raises(ValueError, match='vmap must be "select", "branch" or None, and is \'rows\''):
        lax.cond(True, jnp.sin, jnp.cos, 1.0, vmap="rows")


def test_typing_of_the_primitive():
    branch = xpr.make_jaxpr(jnp.sin)(X).jaxpr
    other = xpr.make_jaxpr(jnp.sum)(X).jaxpr
    with pytest.raises(TypeError, match=r"the index must be an i32 scalar, and is f32\[\]"):
        xpr.make_jaxpr(lambda i, x: lax.cond_p.bind(i, x, branches=(branch, branch), linear=(False,)))(0.5, X)
    with pytest.raises(TypeError, match=r"branch 0 takes \(f32\[3\]\), the operands are \(f32\[\]\)"):
        xpr.make_jaxpr(lambda i, x: lax.cond_p.bind(i, x, branches=(branch, branch), linear=(False,)))(0, 1.0)
    with pytest.raises(TypeError, match=r"branch 0 gives \(f32\[3\]\), branch 1 \(f32\[\]\)"):
        xpr.make_jaxpr(lambda i, x: lax.cond_p.bind(i, x, branches=(branch, other), linear=(False,)))(0, X)


def test_results_that_are_operands_in_all_branches_stay_unmapped():
    def f(x, y, vmap):
        grown = lambda x, y: (x * 2, y, {"z": jnp.sin(x)})
        return lax.cond(x < 3, grown, lambda x, y: (x * 3, y, {"z": x}), x, y, vmap=vmap)

    x, y = jnp.arange(5.0), jnp.array(3.0)
    for vmap in ("select", "branch"):
        doubled, same, other = xpr.vmap(partial(f, vmap=vmap), (0, None), (0, None, 0))(x, y)
        close(doubled, np.float32([0, 2, 4, 9, 12]))
        close(other["z"], jnp.where(x < 3, jnp.sin(x), x))
        assert same is y
    swapped = xpr.vmap(lambda x, y: lax.cond(x < 3, lambda a, b: (a, b), lambda a, b: (b, a), y, y + 1), (0, None))(
        x, y
    )
    close(swapped[0], np.float32([3, 3, 3, 4, 4]))


class TestPlatformDependent:
    @staticmethod
    def of(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tanh)

    def test_the_program_holds_the_function_for_its_platform(self):
        jaxpr = xpr.make_jaxpr(self.of)(1.0)
        for platform, operation in (("cpu", "sine"), ("gpu", "cosine"), ("cuda", "cosine"), ("tpu", "tanh")):
            text = lower_jaxpr(jaxpr.jaxpr, platform).text()
            assert f"stablehlo.{operation}" in text and "stablehlo.case" not in text
        assert xpr.jit(self.of)(1.0) == self.of(1.0) == jnp.sin(1.0)

    def test_one_function_for_all_gpus(self):
        jaxpr = xpr.make_jaxpr(lambda x: lax.platform_dependent(x, gpu=jnp.cos, default=jnp.tanh))(1.0)
        for platform, operation in (("cuda", "cosine"), ("rocm", "cosine"), ("cpu", "tanh")):
            assert f"stablehlo.{operation}" in lower_jaxpr(jaxpr.jaxpr, platform).text()

    def test_other_platforms_need_not_have_the_operations(self):
        """Neither the function for another platform, nor its derivatives, are lowered."""

        def f(x):
            return lax.platform_dependent(x, cuda=lambda x: -x, cpu=lambda x: lax.linalg.hessenberg(x)[0])

        jaxpr = xpr.make_jaxpr(f)(jnp.ones((3, 3)))
        assert "hessenberg" not in lower_jaxpr(jaxpr.jaxpr, "cuda").text()
        with pytest.raises(
            NotImplementedError, match=r"among the functions for cuda, cpu was not found for platform tpu"
        ):
            lower_jaxpr(jaxpr.jaxpr, "tpu")

    def test_transformations(self):
        x = jnp.linspace(0, 1, 3)
        for way in (lambda f: f, xpr.jit):
            np.testing.assert_allclose(way(xpr.vmap(self.of))(x), np.sin(x), rtol=1e-6)
            np.testing.assert_allclose(way(xpr.vmap(xpr.grad(self.of)))(x), np.cos(x), rtol=1e-6)
            np.testing.assert_allclose(way(xpr.hessian(lambda x: self.of(x).sum()))(x), -np.diag(np.sin(x)), atol=1e-6)

    def test_outside_of_jit_it_is_that_of_the_arguments(self, monkeypatch):
        """Not that of the default backend, under transformations either."""
        monkeypatch.setattr(platforms, "default_backend", lambda: "tpu")
        x = jnp.linspace(0, 1, 3)
        np.testing.assert_allclose(self.of(x), np.sin(x), rtol=1e-6)
        np.testing.assert_allclose(xpr.grad(lambda x: self.of(x).sum())(x), np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(xpr.jvp(self.of, (x,), (x,))[0], np.sin(x), rtol=1e-6)
        np.testing.assert_allclose(xpr.vmap(xpr.grad(self.of))(x), np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(self.of(0.5), np.tanh(0.5), rtol=1e-6)  # a Python number is nowhere

    def test_programs_for_several_platforms(self):
        exported = xpr.export.export(xpr.jit(self.of), platforms=("cpu", "cuda"))(1.0)
        text = exported.mlir_module()
        assert "stablehlo.sine" in text and "stablehlo.cosine" in text and "stablehlo.tanh" not in text
        assert exported.call(1.0) == jnp.sin(1.0)

    def test_errors(self):
        with pytest.raises(TypeError, match="platform_dependent: cuda must be a function, and is 3"):
            lax.platform_dependent(1.0, cpu=jnp.sin, cuda=3)
        with pytest.raises(BranchMismatch, match="cuda"):
            xpr.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=lambda x: (x, x)))(1.0)

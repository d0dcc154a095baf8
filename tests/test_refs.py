"""Mutable arrays: made, read, written, under every transformation; printed and discharged; and what is refused."""

import copy
import importlib
import pickle
import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, primitive_names, same
from tests.peer import JAX, agree, needs_jax
from xpr import core, lax, tree, tree_util
from xpr.errors import ArgumentError, RefError
from xpr.experimental import random
from xpr.passes.discharge import discharge, uses_of_refs

X = np.float32([0.5, -1.0, 2.0])


def holds(ref, expected):
    same(ref[...], jnp.asarray(expected))


# -- Made, read and written


def test_refs_of_random_keys():
    ref = xpr.new_ref(xpr.random.key(0))

    @xpr.jit
    def draw():
        ref[...], key = xpr.random.split(ref[...])
        return xpr.random.uniform(key)

    key, first = xpr.random.split(xpr.random.key(0))
    same(draw(), xpr.random.uniform(first))
    assert ref[...] == key


def test_a_ref_is_a_reference():
    ref = xpr.new_ref(jnp.zeros(3))
    assert isinstance(ref, xpr.Ref) and not isinstance(ref, xpr.Array) and not isinstance(jnp.zeros(3), xpr.Ref)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3,), np.float32, 1, 3, 3)
    assert str(ref.aval) == str(xpr.typeof(ref)) == "Ref{float32[3]}"
    assert ref.aval is xpr.ref.AbstractRef(core.ShapedArray((3,), np.float32)) and xpr.ref.new_ref is xpr.new_ref
    assert repr(ref) == "Ref([0., 0., 0.], dtype=float32)"
    assert ref.sharding == jnp.zeros(3).sharding and not ref.committed


def test_what_was_read_stays():
    x = jnp.zeros(3)
    ref = xpr.new_ref(x)
    before = ref[...]
    ref[0] = 5.0
    holds(ref, np.float32([5, 0, 0]))
    same((before, x), (jnp.zeros(3), jnp.zeros(3)))


INDICES = [1, -1, slice(1, 4), np.index_exp[..., 0], np.index_exp[:, 1], np.index_exp[::2, ::-1], None, ...,
           np.index_exp[np.arange(2), np.arange(2)], np.index_exp[np.arange(2), ..., np.arange(2)]]  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_numpys(index, jit):
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    index = 0 if index == -1 else index

    def work(ref):
        before = ref[index]
        ref[index] = before + 1
        xpr.ref.addupdate(ref, index, 2.0)
        return before, ref.swap(7.0, 0)

    ref, expected = xpr.new_ref(x), x.copy()
    out = (xpr.jit(work) if jit else work)(ref)
    expected[index] += 3
    same(out, (jnp.asarray(x[index]), jnp.asarray(expected[0])))
    expected[0] = 7
    holds(ref, expected)


def test_views_are_refs_to_a_part():
    ref = xpr.new_ref(jnp.arange(12).reshape(3, 4))
    view = ref.at[1].at[1:3]
    assert view.shape == (2,) and view.dtype == np.int32
    view[0] = 50
    view.addupdate(1)
    same(view[...], jnp.array([51, 7]))
    holds(ref, [[0, 1, 2, 3], [4, 51, 7, 7], [8, 9, 10, 11]])


def test_views_in_another_shape():
    ref = xpr.new_ref(jnp.arange(12).reshape(3, 4))
    view = ref.reshape(2, -1)
    assert view.shape == (2, 6) and view.reshape((12,)).shape == (12,) and str(view).endswith(".reshape(2, 6)")
    view[1, 0] += 100
    ref.at[1].reshape(2, 2)[...] = jnp.array([[1, 2], [3, 4]])
    view.reshape(-1)[-1] = 7
    holds(ref, [[0, 1, 2, 3], [1, 2, 3, 4], [8, 9, 10, 7]])
    for sizes in ((5, -1), (5,), (2, 3)):
        with pytest.raises(TypeError, match="reshape: "):
            ref.reshape(*sizes)
    with pytest.raises(ArgumentError, match=r"vmap: TransformedRefs are not allowed .* reshape\(12\), is one"):
        xpr.vmap(lambda x: x[...])(ref.reshape(12))


VIEWS = {
    "slice": lambda ref: ref.at[2:7],
    "integer": lambda ref: ref.at[3],
    "array": lambda ref: ref.at[jnp.array([4, 1])],
    "of a view": lambda ref: ref.at[::2].at[jnp.array(1)],
    "whole": lambda ref: ref.at[...],
    "reshaped": lambda ref: ref.reshape(5, -1).at[1:3, 0],
}
MESH = xpr.make_mesh((1,), ("x",))
OPERATIONS = {
    "jit": xpr.jit,
    "jit of a tree": lambda f: lambda view: xpr.jit(lambda views, _: f(views["x"]))({"x": view}, 3),
    "checkpoint": xpr.checkpoint,
    "cond": lambda f: lambda view: xpr.jit(lambda p: lax.cond(p, f, lambda x: -x[...].sum(), view))(True),
    "shard_map": lambda f: xpr.shard_map(f, mesh=MESH, in_specs=xpr.P(), out_specs=xpr.P()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("outer", [lambda f: f, xpr.jit])
def test_views_are_arguments(view, operation, outer):
    def double(x):
        x[...] *= 2.0
        return x[...].sum()

    def run(ref, doubled=double):
        return doubled(VIEWS[view](ref))

    ref, expected = xpr.new_ref(jnp.arange(10.0)), xpr.new_ref(jnp.arange(10.0))
    same(outer(lambda ref: run(ref, OPERATIONS[operation](double)))(ref), run(expected))
    holds(ref, expected[...])


def test_equal_views_are_one_signature():
    traced = []

    @xpr.jit
    def read(view):
        traced.append(view)
        return view[...].sum()

    ref = xpr.new_ref(jnp.arange(10.0))
    assert [read(ref.at[2:7]), read(ref.at[2:7]), read(ref.at[jnp.array(3)]), read(ref.at[jnp.array(4)])] == [
        20,
        20,
        3,
        4,
    ]
    assert len(traced) == 2
    assert read(ref.at[True]) == 45 and read(ref.at[1]) == 1  # True is a mask, and 1 an index
    assert tree.leaves_with_path({"a": ref.at[1]}) == [((tree_util.DictKey("a"), tree_util.GetAttrKey("ref")), ref)]


def test_views_are_not_split():
    view = xpr.new_ref(jnp.arange(6.0).reshape(3, 2)).at[:, 0]
    for what, call in {
        "vmap": lambda: xpr.vmap(lambda x: x[...])(view),
        "scan": lambda: lax.scan(lambda c, x: (c, x[...]), 0.0, view),
        "shard_map": lambda: xpr.shard_map(
            lambda x: x[...], mesh=MESH, in_specs=xpr.P("x"), out_specs=xpr.P("x")
        )(view),
    }.items():  # fmt: skip
        with pytest.raises(TypeError, match=rf"{what}: TransformedRefs are not allowed where .*, at.*, is one"):
            call()


def test_values_broadcast_and_take_the_dtype_of_the_ref():
    ref = xpr.new_ref(jnp.zeros((2, 3), jnp.bfloat16))
    ref[...] = 1.5
    ref[0] = jnp.array([1.0], jnp.bfloat16)
    assert ref[...].dtype == jnp.bfloat16 and ref[...].tolist() == [[1.0] * 3, [1.5] * 3]
    count = xpr.new_ref(np.int8(1))
    count[...] = np.int32(7)
    assert count[...].dtype == np.int8 and int(count[...]) == 7


def test_frozen_and_freed_refs_are_gone():
    ref = xpr.new_ref(jnp.arange(3))
    same(xpr.freeze(ref), jnp.arange(3))
    other = xpr.empty_ref(xpr.ShapeDtypeStruct((2,), "float32"))
    assert xpr.free_ref(other) == ()
    for gone in (ref, other):
        for use in (lambda r: r[...], lambda r: r.set(r.dtype.type(0)), xpr.freeze, xpr.free_ref):
            text = f"{gone.aval.str_short()} is used after it was frozen or freed"
            with pytest.raises(RefError, match=re.escape(text)):
                use(gone)


def test_refs_that_are_traced_hold_no_array():
    for use in (copy.copy, lambda ref: ref.committed, lambda ref: ref.unsafe_buffer_pointer()):
        with pytest.raises(RefError, match=r"Ref\{f32\[2\]\} is an argument of a function that is being traced"):
            xpr.jit(use)(xpr.new_ref(jnp.ones(2)))


# -- Under transformations. The functions make the same in JAX.


def stores_the_sine(lib, x):
    ref = lib.new_ref(lib.numpy.zeros_like(x))
    ref[...] = lib.numpy.sin(x)
    ref[...] += ref[...]
    return lib.freeze(ref)


def in_a_call(lib, x):
    ref = lib.new_ref(x)

    @lib.jit
    def twice():
        ref[...] = lib.numpy.sin(ref[...]) + lib.numpy.sin(ref[...])

    twice()
    return ref[...]


def in_a_loop(lib, x):
    ref = lib.new_ref(lib.numpy.stack([x, x]))

    def body(c, i):
        ref[i % 2] = ref[(i + 1) % 2] * c
        return c + 1.0, ref[0]

    return lib.lax.scan(body, 1.0, lib.numpy.arange(4)), ref[...]


def over_rows(lib, x):
    ref = lib.new_ref(lib.numpy.stack([x, 2 * x, 3 * x]))

    def body(c, row):
        row[...] = row[...] * c
        return c + lib.numpy.sum(row[...]), row[...]

    return lib.lax.scan(body, 1.0, ref, reverse=True), ref[...]


def in_branches(lib, x):
    ref, other = lib.new_ref(x), lib.new_ref(2.0)

    def double():
        ref[...] = ref[...] * other[...]

    def keep():
        other[...] = 5.0

    for flag in (True, False):
        lib.lax.cond(lib.numpy.sum(x) > -9 if flag else lib.numpy.sum(x) < -9, double, keep)
    return ref[...], other[...]


def in_a_while(lib, x):
    ref, bound, steps = lib.new_ref(x), lib.new_ref(50.0), lib.new_ref(0)

    def body(i):
        ref[...] = ref[...] * 2.0
        steps[...] += 1
        return i + 1

    last = lib.lax.while_loop(lambda i: lib.numpy.sum(lib.numpy.abs(ref[...])) < bound[...], body, 0)
    return last, ref[...], steps[...]


def in_a_fori(lib, x):
    ref = lib.new_ref(x)

    def body(i, c):
        ref[...] = lib.numpy.sin(ref[...]) * (i + 1.0)
        return c

    lib.lax.fori_loop(0, 3, body, None)
    return ref[...]


def rematerialized(lib, x):
    @lib.checkpoint
    def f(x):
        ref = lib.new_ref(x)
        ref[...] = lib.numpy.sin(ref[...])
        return ref[...] * x

    return f(x)


SHARED = [stores_the_sine, in_a_call, in_a_loop, over_rows, in_branches, in_a_fori, rematerialized]
PROGRAMS = [*SHARED, in_a_while]


def plain(tree):
    return [np.asarray(x) for x in xpr.tree.leaves(tree)]


@needs_jax
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("program", SHARED, ids=lambda p: p.__name__)
def test_values_are_jaxs(program, jit):
    def of(lib):
        f = lambda x: program(lib, x)
        return lib.jit(f) if jit else f

    close(plain(of(xpr)(X)), [np.asarray(x) for x in JAX.tree.leaves(of(JAX)(X))])


@needs_jax
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("program", [p for p in SHARED if p is not in_branches], ids=lambda p: p.__name__)
def test_derivatives_are_jaxs(program, jit):
    def gradient(lib):
        def total(x):
            leaves = lib.tree.leaves(program(lib, x))
            return sum(lib.numpy.sum(y * (i + 1.0)) for i, y in enumerate(leaves) if y.dtype == np.float32)

        f = lib.jit(total) if jit else total
        return [lib.grad(f)(X), lib.jvp(f, (X,), (X,))[1]]

    close(plain(gradient(xpr)), list(map(np.asarray, gradient(JAX))))


@pytest.mark.parametrize("jit", [False, True])
def test_a_while_whose_predicate_reads_what_its_body_writes(jit):
    f = lambda x: in_a_while(xpr, x)
    close((xpr.jit(f) if jit else f)(X), (jnp.int32(4), jnp.asarray(16 * X), jnp.int32(4)))
    close(xpr.grad(lambda x: f(x)[1].sum())(X), jnp.full(3, 16.0))


@pytest.mark.parametrize("jit", [False, True])
def test_derivatives_of_branches(jit):
    """In JAX 0.10.2 this is an AttributeError."""
    f = lambda x: in_branches(xpr, x)[0].sum()
    close(xpr.grad(xpr.jit(f) if jit else f)(X), jnp.full(3, 2.0))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_rows_are_those_of_a_loop(program):
    rows = np.stack([X, 2 * X])
    expected = [plain(program(xpr, x)) for x in rows]
    close(plain(xpr.vmap(lambda x: program(xpr, x))(rows)), [np.stack(each) for each in zip(*expected)])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_traced_is_well_typed(program):
    closed = xpr.make_jaxpr(lambda x: xpr.tree.leaves(program(xpr, x)))(X)
    core.check_jaxpr(closed)
    assert not set(primitive_names(closed.jaxpr)) & {"get", "swap"}  # refs that are made inside are gone


# -- Passed in, and closed over


def test_jit_of_arguments_and_closures():
    outer = xpr.new_ref(jnp.zeros(3))

    @xpr.jit
    def f(ref, x):
        outer[0] += x
        ref[...] = outer[...] * x
        return outer[0]

    first, second = xpr.new_ref(X), xpr.new_ref(jnp.ones(3))
    assert [float(f(first, 1.0)), float(f(first, 2.0)), float(f(second, 3.0))] == [1.0, 3.0, 6.0]
    holds(outer, np.float32([6, 0, 0]))
    holds(first, np.float32([6, 0, 0]))
    holds(second, np.float32([18, 0, 0]))


def test_a_function_is_traced_once_for_all_refs_of_a_type():
    traced = []

    @xpr.jit
    def f(ref):
        traced.append(ref.shape)
        ref[...] += 1.0

    for n in (2, 2, 3):
        f(xpr.new_ref(jnp.zeros(n)))
    assert traced == [(2,), (3,)]


def test_compiled_ahead_of_time():
    outer = xpr.new_ref(jnp.zeros(3))

    @xpr.jit
    def f(ref):
        ref[...] += 1.0
        outer[1] += 5

    compiled = f.lower(xpr.ShapeDtypeStruct((3,), "float32", is_ref=True)).compile()
    ref = xpr.new_ref(jnp.zeros(3))
    compiled(ref)
    compiled(ref)
    holds(ref, jnp.full(3, 2.0))
    holds(outer, np.float32([0, 10, 0]))
    assert repr(xpr.ShapeDtypeStruct((3,), "float32", is_ref=True)) == (
        "ShapeDtypeStruct(shape=(3,), dtype=float32, is_ref=True)"
    )
    with pytest.raises(TypeError, match=r"compiled with Ref\{float32\[3\]\} and called with float32\[3\]"):
        compiled(jnp.zeros(3))


def test_the_reference_backend():
    ref = xpr.new_ref(jnp.zeros(2))
    f = xpr.jit(lambda r, x: (r.addupdate(x), r[...] * 2)[1], backend="reference")
    same(f(ref, 3.0), jnp.full(2, 6.0))
    holds(ref, jnp.full(2, 3.0))


def test_nested_calls_write_the_same_ref():
    outer = xpr.new_ref(0)

    @xpr.jit
    def f():
        @xpr.jit
        def g():
            outer[...] += 1
            lax.scan(lambda c, _: (outer.addupdate(1), c)[::-1], None, None, length=3)

        g()
        g()
        return outer[...]

    assert int(f()) == 8 and int(outer[...]) == 8


def test_vmap_of_refs_with_rows():
    def distance(x, y, out):
        out[...] = jnp.sum((x - y) ** 2)

    xs, out = jnp.arange(12.0).reshape(3, 4), xpr.new_ref(jnp.zeros((3, 3)))
    xpr.vmap(xpr.vmap(distance, (0, None, 0)), (None, 0, 1))(xs, xs, out)
    holds(out, [[0.0, 64, 256], [64, 0, 64], [256, 64, 0]])
    shared = xpr.new_ref(10)
    rows = xpr.new_ref(jnp.zeros(3, int))
    xpr.jit(xpr.vmap(lambda ref, x: ref.set(shared[...] + x)))(rows, jnp.arange(3))
    holds(rows, [10, 11, 12])


@pytest.mark.parametrize("write", [lambda ref, x: ref.addupdate(2), lambda ref, x: ref.set(x)])
def test_vmap_refuses_writes_that_each_row_would_repeat(write):
    ref, x = xpr.new_ref(jnp.int32(0)), jnp.arange(3, dtype=jnp.int32)
    message = r"A Ref of type Ref\{i32\[\]\}, an unbatched array reference, is written by a function that vmap maps"
    refused(message, xpr.vmap(lambda x: write(ref, x)), x)
    refused(message, xpr.vmap(lambda x, ref: write(ref, x), (0, None)), x, ref)
    refused(message, xpr.vmap(xpr.jit(lambda x, ref: write(ref, x)), (0, None)), x, ref)
    refused(message, xpr.jit(xpr.vmap(lambda x: write(ref, x))), x)
    assert int(ref[...]) == 0


def test_gradients_with_plumbing():
    ref = xpr.new_ref(0.0)

    def f(x, ref):
        y = x + x
        ref[...] += lax.stop_gradient(y)
        return y

    assert float(xpr.grad(f)(3.0, ref)) == 2.0 and float(ref[...]) == 6.0
    assert float(xpr.grad(xpr.jit(f))(3.0, ref)) == 2.0 and float(ref[...]) == 12.0
    kept = xpr.new_ref(0.0, kind="no_grad_no_remat")
    assert float(xpr.grad(lambda x: (kept.set(x), x * kept[...])[1])(3.0)) == 3.0 and float(kept[...]) == 3.0


def test_remat_of_a_function_that_counts():
    ref = xpr.new_ref(1.0, kind="no_grad_no_remat")

    @xpr.checkpoint
    def f(y):
        out = jnp.sin(y * ref[...])
        ref[...] += 1
        return out

    close(xpr.grad(f)(2.0), jnp.cos(2.0))
    assert float(ref[...]) == 2.0  # it is computed again, and not written again
    close(xpr.jit(xpr.grad(f))(2.0), 2 * jnp.cos(4.0))
    assert float(ref[...]) == 3.0


@xpr.custom_vjp
def stash_grads(ref, x):
    return x


stash_grads.defvjp(lambda ref, x: (x, ref), lambda ref, g: (ref.set(g), (None, g))[1])


def stashed(ref, x):
    return jnp.sin(stash_grads(ref, jnp.sin(x)))


def stashed_in_a_scan(ref, x):
    return lax.scan(lambda c, _: (stashed(ref, c), None), x, None, length=1)[0]


def stashed_in_a_branch(ref, x):
    return lax.cond(x > 0, lambda x: stashed(ref, x), lambda x: x, x)


STASHES = [
    stashed, xpr.jit(stashed), stashed_in_a_scan, xpr.jit(stashed_in_a_scan), xpr.checkpoint(stashed_in_a_scan),
    stashed_in_a_branch, xpr.jit(stashed_in_a_branch), xpr.jit(xpr.checkpoint(stashed_in_a_branch)),
]  # fmt: skip


@pytest.mark.parametrize("f", STASHES, ids=range(len(STASHES)))
@pytest.mark.parametrize("jit", [False, True])
def test_gradients_from_the_backward_pass(f, jit):
    """The second half of a vjp rule writes the ref, in whatever the function is called."""
    ref = xpr.new_ref(0.0)
    gradient = xpr.grad(f, 1)
    got = (xpr.jit(gradient) if jit else gradient)(ref, 1.0)
    close((got, ref[...]), (jnp.cos(jnp.sin(1.0)) * jnp.cos(1.0), jnp.cos(jnp.sin(1.0))))
    close(f(ref, 1.0), jnp.sin(jnp.sin(1.0)))


@pytest.mark.parametrize("jit", [False, True])
def test_cotangents_are_added_to_refs(jit):
    def accumulated(w, xs):
        total = xpr.new_ref(jnp.zeros_like(w))

        def step(_, x):
            loss, f_vjp = xpr.vjp(lambda w, n: jnp.sum(w * x) * n, w, 2)
            added, returned = f_vjp.with_refs(total, xpr.ad.DontWant())(jnp.ones_like(loss))
            assert isinstance(added, xpr.ad.GradRef) and isinstance(returned, xpr.ad.DidntWant)
            return None, loss

        lax.scan(step, None, xs)
        return xpr.freeze(total)

    xs = jnp.arange(12.0).reshape(4, 3)
    close((xpr.jit(accumulated) if jit else accumulated)(jnp.ones(3), xs), 2 * xs.sum(0))
    _, f_vjp = xpr.vjp(jnp.multiply, 2.0, 3.0)
    ref = xpr.new_ref(10.0)
    assert float(f_vjp.with_refs(xpr.ad.GradValue(), ref)(1.0)[0]) == 3.0 and float(ref[...]) == 12.0
    refused("with_refs: the refs must have the structure of the arguments", f_vjp.with_refs(ref), 1.0, error=ValueError)


@pytest.mark.parametrize("jit", [False, True])
def test_a_custom_rule_for_what_reads_a_ref(jit):
    @xpr.custom_vjp
    def f(ref):
        return ref[...]

    f.defvjp(lambda ref: (f(ref), None), lambda _, g: (g,))
    f = xpr.jit(f) if jit else f
    close(f(xpr.new_ref(3.0)), np.float32(3))
    close(xpr.vjp(lambda x: f(xpr.new_ref(x)), 3.0)[1](1.0), (np.float32(1),))


def test_a_program_writes_in_place():
    f = xpr.jit(lambda ref, i: ref.set(1.0, i))
    x = jnp.zeros(4000)
    ref = xpr.new_ref(x)
    f(ref, 0)
    seen = ref[...]
    address = ref.unsafe_buffer_pointer()
    f(ref, 1)
    assert ref.unsafe_buffer_pointer() != address  # what was read stays
    address = ref.unsafe_buffer_pointer()
    f(ref, 2)
    assert ref.unsafe_buffer_pointer() == address
    assert [int(each.sum()) for each in (x, seen, ref[...])] == [0, 1, 3]


def test_refs_that_were_made_of_one_array():
    x = jnp.ones(3)
    one, two = xpr.new_ref(x), xpr.new_ref(x)
    xpr.jit(lambda one, two, x: (one.set(2 * x), two.set(3 * x)))(one, two, x)
    same((one[...], two[...], x), (2 * jnp.ones(3), 3 * jnp.ones(3), jnp.ones(3)))


# -- Generators of random numbers


def draws(lib):
    rng = importlib.import_module(f"{lib.__name__}.experimental.random").stateful_rng(7)
    f = lib.jit(lambda rng, x: (rng.uniform(0, x), rng.normal(x, 2.0, (2,)), rng.integers(3, 30, 4), rng.integers(5)))
    first, second = f(rng, 3.0), f(rng, 3.0)
    _, rows = lib.lax.scan(lambda c, _: (c, rng.random(2)), None, None, length=3)
    rest = [lib.vmap(lambda rng, x: x + rng.uniform())(rng.split(3), lib.numpy.arange(3.0)), rng.spawn(2)[1].random()]
    return [first, second, rows, rest, lib.random.key_data(rng.key((2, 3)))]


def test_generators_draw_what_jaxs_draw():
    agree(draws, 1e-6)


def test_generators_without_a_seed():
    one, two = random.stateful_rng(), random.stateful_rng()
    assert float(one.random()) != float(two.random())
    refused("When used within transformed code", xpr.jit(lambda: random.stateful_rng().random()), error=TypeError)
    refused(r"array of generators, of shape \(2,\)", one.split(2).random, error=ValueError)
    no_key, key = jnp.zeros(2, "uint32"), xpr.random.key(0)
    refused(r"Expected base_key to be a typed .* u32\[2\]", random.StatefulPRNG, no_key, one._counter, error=ValueError)
    refused("Expected counter to be a scalar integer ref; got 0", random.StatefulPRNG, key, 0, error=ValueError)
    assert random.StatefulPRNG(key, xpr.new_ref(0)).random() < 1


# -- As programs

READS_AND_WRITES = """\
{ lambda a:Ref{f32[3]}; b:Ref{f32[]} c:f32[3]. let
    d:f32[] = get b
    e:f32[3] = mul c d
    _:f32[] = swap b 2.0
    _:f32[3] = swap a e
    f:f32[3] = get a
  in (f,) }"""


def reading_and_writing():
    outer = xpr.new_ref(jnp.zeros(3))

    def f(ref, x):
        y = x * ref[...]
        ref[...] = np.float32(2)
        outer[...] = y
        return outer[...]

    return xpr.make_jaxpr(f)(xpr.new_ref(np.float32(1)), X)


def test_jaxprs_print_parse_and_run():
    closed = reading_and_writing()
    core.check_jaxpr(closed)
    assert str(closed) == READS_AND_WRITES
    assert str(xpr.jaxpr.parse(READS_AND_WRITES)) == READS_AND_WRITES
    assert xpr.jaxpr.equal(xpr.jaxpr.parse(READS_AND_WRITES).jaxpr, closed.jaxpr)
    ref = xpr.new_ref(np.float32(3))
    same(core.jaxpr_as_fun(closed)(ref, X), [jnp.asarray(3 * X)])
    holds(ref, np.float32(2))
    holds(closed.consts[0], 3 * X)


def test_effects_are_on_refs():
    closed = reading_and_writing()
    assert sorted(map(repr, closed.effects)) == ["Read<0>", "Read<1>", "Write<0>", "Write<1>"]
    assert closed.effects == closed.jaxpr.effects and closed.effects >= {core.refs.RefEffect("Read", 0)}
    assert xpr.make_jaxpr(lambda x: x + 1)(1.0).effects == frozenset()
    printing = xpr.make_jaxpr(lambda r: xpr.debug.print("{}", r[...], ordered=True))(xpr.new_ref(1.0))
    assert printing.effects == {"ordered", core.refs.RefEffect("Read", 0)}


def test_types_of_refs_stand_for_refs():
    def f(ref):
        ref[...] += 1
        return ref[...]

    of_type, of_ref = (xpr.make_jaxpr(f)(x) for x in (xpr.ref.AbstractRef(xpr.typeof(1.0)), xpr.new_ref(1.0)))
    assert str(of_type) == str(of_ref) and of_type.effects == of_ref.effects
    assert xpr.eval_shape(f, xpr.typeof(xpr.new_ref(1.0))) == xpr.ShapeDtypeStruct((), "float32", weak_type=True)


def test_passes_keep_reads_and_writes():
    def f(ref, x):
        a = ref[...]
        ref[...] = x
        return a, ref[...], ref[...]

    closed = xpr.make_jaxpr(f)(xpr.new_ref(0.0), 1.0)
    for change in (xpr.jaxpr.cse, xpr.jaxpr.dce, xpr.jaxpr.fold_constants, xpr.jaxpr.inline_calls):
        assert [eqn.primitive.name for eqn in change(closed).eqns] == ["get", "swap", "get", "get"]


def test_discharging():
    jaxpr = core.jaxpr.constvars_to_invars(reading_and_writing())
    uses = uses_of_refs(jaxpr)
    assert uses.valued == uses.written == (True, True, False) and not any(uses.passed)
    pure = discharge(jaxpr, uses.valued, uses.written, (False,) * 3)
    core.check_jaxpr(pure)
    assert str(pure) == ("{ lambda ; a:f32[3] b:f32[] c:f32[3]. let d:f32[3] = mul c b in (d, d, 2.0) }")
    assert uses_of_refs(pure).any is False


@pytest.mark.parametrize("text, message", [
    ("{ lambda ; a:f32[]. let b:f32[] = get a in (b,) }", "the first operand must be a Ref, and is f32"),
    ("{ lambda ; a:Ref{f32[]}. let b:f32[] = sin a in (b,) }", "Expected an array, and got a mutable array"),
    ("{ lambda ; a:Ref{f32[]} b:i32[]. let _:f32[] = swap a b in () }", r"Ref\{f32\[\]\} can't hold i32"),
    ("{ lambda ; a:Ref{f3[]}. let in () }", "there is no dtype `f3`"),
])  # fmt: skip
def test_ill_typed_programs(text, message):
    with pytest.raises(xpr.errors.JaxprSyntaxError, match=message):
        xpr.jaxpr.parse(text)


def test_an_effect_free_program_has_no_refs():
    closed = xpr.make_jaxpr(lambda x: x + 1)(1.0)
    assert not uses_of_refs(closed.jaxpr).any and closed.jaxpr.memo["refs"] is uses_of_refs(closed.jaxpr)


# -- What is refused


def refused(message, fun, *args, error=RefError):
    with pytest.raises(error, match=message):
        fun(*args)


@pytest.mark.parametrize("use", [jnp.sin, lambda r: r + 1, jnp.asarray, np.asarray, lambda r: jnp.ones(3) * r,
                                 xpr.jit(jnp.sin), lax.neg])  # fmt: skip
def test_a_ref_is_no_array(use):
    refused("Read its value first|unsupported operand", use, xpr.new_ref(jnp.ones(3)), error=TypeError)


def test_the_same_ref_twice():
    ref = xpr.new_ref(jnp.zeros(3))
    both = r"Ref\{f32\[3\]\} appeared at both"
    refused(rf"jit: only one reference .* {both} x and y of", xpr.jit(lambda x, y: x[...] + y[...]), ref, ref)
    refused(rf"vmap: .* {both} x and y of", xpr.vmap(lambda x, y: None), ref, ref)
    refused(rf"scan: .* {both} c\[0\] and c\[1\]", lax.scan, lambda c, _: (None, None), (ref, ref), None, 1)
    refused(rf"cond: .* {both} x and y", lax.cond, True, lambda x, y: 1, lambda x, y: 1, ref, ref)
    refused(rf"checkpoint: .* {both} x and y", xpr.checkpoint(lambda x, y: x[...] + y[...]), ref, ref)
    refused(rf"custom_vjp: .* {both} ref and x", stash_grads, ref, ref)


def test_closed_over_and_passed():
    ref = xpr.new_ref(jnp.zeros(3))
    message = r"Ref\{f32\[3\]\} was closed over and passed as the argument x of"
    reads = lambda x: x[...] + ref[...]
    refused(message, xpr.jit(reads), ref)
    refused(message, xpr.jit(xpr.jit(reads)), ref)
    refused(message, xpr.checkpoint(reads), ref)
    refused(message, lax.cond, True, reads, reads, ref)
    refused(message, lax.scan, lambda x, _: (reads(x), None), ref, None, 1)


def test_mapped_and_closed_over():
    ref = xpr.new_ref(jnp.zeros(3))

    def writes(x):
        x[...] += ref[0]

    message = r"only one reference .* Ref\{f32\[3\]\} was closed over and passed as the argument x of writes"
    refused("vmap: " + message, xpr.vmap(writes), ref)
    refused(message, xpr.jit(xpr.vmap(writes)), ref)
    refused("closed over and passed as the argument x", xpr.vmap(xpr.jit(lambda x: x[...] + ref[0])), ref)
    xpr.vmap(lambda x: x.__setitem__(..., 2.0))(ref)  # errors have left it as it was
    close(ref[...], 2 * jnp.ones(3))


def test_messages_say_as_which_argument_a_ref_was_passed_in():
    with pytest.raises(ValueError, match=r"\n\nThe ref was passed in as the argument y\['r'\]\.$"):
        xpr.jit(lambda x, y: y["r"])(1.0, {"r": xpr.new_ref(0.0)})
    with pytest.raises(ValueError, match=r"\n\nThe ref was created on line test_refs.py:\d+ \(<lambda>\): .*empty_ref"):
        xpr.jit(lambda x: {"r": xpr.empty_ref(x)})(1.0)
    with pytest.raises(ValueError, match=r"close over it\.\n\nThe ref was created on line test_refs.py:"):
        xpr.jit(xpr.new_ref)(1.0)


def test_refs_are_not_returned():
    ref = xpr.new_ref(0.0)
    returned = r"returned a mutable array reference of type Ref\{f32\[\]\}, at result"
    refused(returned, xpr.jit(xpr.new_ref), 0.0)
    refused(returned + r"\['hi'\]", xpr.jit(lambda r: {"hi": r}), ref)
    refused(returned, lax.scan, lambda c, _: (xpr.new_ref(c), None), 0.0, None, 1)
    refused(returned, lax.cond, True, lambda: xpr.new_ref(0.0), lambda: xpr.new_ref(1.0))
    refused(returned, xpr.vmap(xpr.new_ref), jnp.zeros(3))
    refused("traced for scan " + returned, lax.scan, lambda c, _: (xpr.new_ref(c), None), 0.0, None, 1)
    refused(r"[0-9] " + returned, xpr.vjp, lambda x: xpr.new_ref(x), 0.0)
    for differentiate in (xpr.grad, xpr.value_and_grad):
        with pytest.raises(TypeError, match=r"must return a scalar array, and returned a Ref of type Ref\{f32\[\]\}"):
            differentiate(lambda x: xpr.new_ref(x))(0.0)

    @xpr.custom_vjp
    def f(x, ref):
        return x

    f.defvjp(lambda x, ref: (x, xpr.new_ref(0.0)), lambda ref, g: (g, None))
    refused("The custom_vjp fwd function .* " + returned + r"\[1\]\[0\]", xpr.grad(f), 3.0, ref)


def test_shard_map_takes_refs():
    ref, mesh = xpr.new_ref(jnp.arange(4.0)), xpr.make_mesh((1,), ("x",))

    def doubled(ref):
        ref[...] *= 2

    xpr.shard_map(doubled, mesh=mesh, in_specs=xpr.P("x"), out_specs=None)(ref)
    assert ref[...].tolist() == [0, 2, 4, 6]


def test_loops_carry_no_refs():
    ref = xpr.new_ref(0.0)
    refused("scan: the carry holds a Ref", lax.scan, lambda c, _: (None, None), ref, None, 1)
    refused("while_loop: the carry holds a Ref", lax.while_loop, lambda c: True, lambda c: None, ref)

    def writing(i):
        ref[...] = 1.0
        return i < 3

    refused("while_loop: the predicate writes to a Ref", lax.while_loop, writing, lambda i: i + 1, 0)


def test_where_refs_can_not_be():
    ref, rows = xpr.new_ref(0.0), xpr.new_ref(jnp.zeros(1))
    taken = "takes or closes over a Ref"
    refused(f"pmap: <lambda> .* {taken}.*Use shard_map", xpr.pmap(lambda r: None), rows)
    refused(f"pmap: <lambda> .* {taken}", xpr.pmap(lambda x: ref.set(x[0])), jnp.zeros((1, 1)))
    stop = lambda c: c > 2
    refused(f"scan: <lambda> .* {taken}", lambda: lax.scan(lambda c, x: (ref[...], c), 0.0, X, until=stop))
    refused(f"scan: <lambda> .* {taken}", lambda: lax.scan(lambda c, x: (c, c), 0.0, X, until=lambda c: ref[...] > c))
    refused("export: <lambda> takes or closes over a Ref", lambda: xpr.export.export(xpr.jit(lambda: ref[...]))())
    refused("reads or writes refs", xpr.jit(lambda: ref[...]).lower().compile().save, "x", error=NotImplementedError)
    writing = lambda x: (ref.set(1.0), 2.0 * x)[1]
    solve = lambda matvec, b: b
    linear = xpr.jit(lambda b: lax.custom_linear_solve(writing, b, solve))
    refused("the matvec of a custom_linear_solve, writes to a Ref", linear, 1.0)


def test_functions_that_only_read_refs():
    factor = xpr.new_ref(np.float32(2))

    def solved(b):
        return lax.custom_linear_solve(lambda x: factor[...] * x, b, lambda f, b: b / factor[...], symmetric=True)

    for f in (solved, xpr.jit(solved), xpr.grad(solved)):
        close(f(np.float32(1)), np.float32(0.5))


def test_values_of_an_inner_transformation():
    ref = xpr.new_ref(0.0)
    refused("A value that is being differentiated is written", xpr.grad(lambda x: (ref.set(x), x)[1]), 1.0)
    refused("A value that is being differentiated", xpr.jvp, lambda x: (ref.set(x), x)[1], (1.0,), (1.0,))
    refused("that is being", lambda: xpr.taylor(lambda x: (ref.set(x), x)[1], (1.0,), ((1.0,),)))


def test_derivatives_by_refs():
    ref = xpr.new_ref(1.0)
    square = lambda ref: ref[...] ** 2
    refused(r"grad: differentiates by arrays, and got a Ref of type Ref\{f32\[\]\}", xpr.grad(square), ref)
    refused("jvp: differentiates by arrays, and got a Ref", xpr.jvp, square, (ref,), (1.0,))
    refused("differentiates by arrays, and got a Ref", xpr.jacfwd(square), ref)


def test_copies_are_refs_of_their_own():
    ref = xpr.new_ref(1.0)
    double = xpr.jit(lambda ref: ref.set(2 * ref[...]))
    double(ref)
    for copied in (copy.copy(ref), copy.deepcopy({"r": ref})["r"], pickle.loads(pickle.dumps(ref))):
        double(copied)
        assert (float(copied[...]), float(ref[...])) == (4.0, 2.0)


def test_donated_refs_remain():
    ref = xpr.new_ref(1.0)
    xpr.jit(lambda ref: ref.set(ref[...] + 1), donate_argnums=0)(ref)
    assert float(xpr.jit(lambda ref: ref[...], donate_argnums=0)(ref)) == float(ref[...]) == 2.0


def test_a_ref_that_escapes():
    kept = []
    xpr.jit(lambda x: (kept.append(xpr.new_ref(x)), x)[1])(1.0)
    xpr.jit(lambda r: (kept.append(r), r[...])[1])(xpr.new_ref(1.0))
    for ref in kept:
        refused("is used outside of the function in which it was made", lambda ref=ref: ref[...])
        refused("is used outside of the function in which it was made", lambda ref=ref: ref.set(1.0))
        refused("can be frozen and freed only in the function", xpr.freeze, ref)
    outer = xpr.new_ref(0.0)
    refused("freeze: a Ref can be frozen", xpr.jit(lambda: xpr.freeze(outer)))
    refused("freeze: a Ref can be frozen", xpr.jit(xpr.freeze), outer)
    refused("free_ref: a Ref can be", xpr.jit(xpr.free_ref), outer)


def test_what_a_ref_can_hold():
    ref = xpr.new_ref(jnp.zeros((2, 3), int))
    refused(r"written with a value of type f32\[\]", ref.set, 1.0, error=ValueError)
    refused(r"a Ref of shape \(2, 3\) can't hold a value of shape \(2,\)", ref.set, jnp.zeros(2, int), error=ValueError)
    refused("a Ref can't hold a Ref", ref.set, xpr.new_ref(0))
    refused("new_ref: a Ref can't hold a Ref", xpr.new_ref, ref)
    refused("takes a Ref, which new_ref makes, and got", xpr.ref.get, jnp.zeros(3), error=ValueError)
    refused("freeze takes a Ref", xpr.freeze, 1.0, error=TypeError)
    refused("there is one memory space", lambda: xpr.new_ref(0, memory_space="host"), error=NotImplementedError)
    refused('kind must be None or "no_grad_no_remat"', lambda: xpr.new_ref(0, kind="x"), error=ValueError)
    refused("out of bounds|out of range", lambda: ref[5], error=IndexError)
    refused("without axes", len, xpr.new_ref(0), error=TypeError)


def test_a_function_with_a_rule_writes_no_refs_itself():
    ref = xpr.new_ref(0.0)

    @xpr.custom_jvp
    def f(x):
        ref[...] = 1.0
        return x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    refused("a function with a custom rule writes to a Ref", xpr.jit(f), 1.0)


def test_cotangents_that_are_not_wanted_are_not_computed():
    x, w = jnp.arange(3.0), jnp.ones(3)
    _, f_vjp = xpr.vjp(lambda x, w: {"y": jnp.sin(x) * w, "x": x + w}, x, w)
    ct = {"y": 2 * x, "x": x}
    expected = f_vjp(ct)
    for first, second in ((True, False), (False, True)):
        wish = [xpr.ad.GradValue() if wanted else xpr.ad.DontWant() for wanted in (first, second)]
        got = f_vjp.with_refs(*wish)(ct)
        for a, b, wanted in zip(got, expected, (first, second)):
            assert (a == b).all() if wanted else a == xpr.ad.DidntWant()
    program = xpr.make_jaxpr(f_vjp.with_refs(xpr.ad.DontWant(), xpr.ad.GradValue()))(ct)
    assert [eqn.primitive.name for eqn in program.eqns] == ["mul", "add_any"]

"""Kernels: blocks of every kind, grids, scratch, aliases, transformations, beside jax; and what is refused."""

import functools
import importlib
import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, same
from tests.peer import agree
from xpr import checkify, lax
from xpr.errors import RefError
from xpr.experimental import pallas as pl
from xpr.experimental.pallas import tpu as pltpu
from xpr.experimental.pallas import triton
from xpr.testing import check_grads

X = np.arange(8, dtype=np.float32)
F8 = xpr.ShapeDtypeStruct((8,), np.float32)
HALVES = pl.BlockSpec((4,), lambda i: (i,))


def double(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def copy(*refs):
    refs[-1][...] = refs[-2][...]


def matmul(x_ref, y_ref, o_ref):
    """A block of a product, of which the grid's last axis sums the parts."""

    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def blocked_matmul(n, b):
    return pl.pallas_call(
        matmul,
        xpr.ShapeDtypeStruct((n, n), np.float32),
        grid=(n // b, n // b, n // b),
        in_specs=[pl.BlockSpec((b, b), lambda i, j, k: (i, k)), pl.BlockSpec((b, b), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((b, b), lambda i, j, k: (i, j)),
    )


def of(lib):
    """The pallas module of a library."""
    return importlib.import_module(f"{lib.__name__}.experimental.pallas")


def call(lib, kernel, shape, *args, dtype="float32", **options):
    """A call of a kernel in a library, or several results where `shape` is a list."""
    shapes = [lib.ShapeDtypeStruct(each, dtype) for each in (shape if isinstance(shape, list) else [shape])]
    out_shape = tuple(shapes) if isinstance(shape, list) else shapes[0]
    return of(lib).pallas_call(kernel, out_shape, interpret=True, **options)(*args)


# -- Blocks


def test_one_program_on_whole_arrays():
    same(pl.pallas_call(double, F8)(X), jnp.asarray(2 * X))
    closed = xpr.make_jaxpr(pl.pallas_call(double, F8))(X)
    assert "scan" not in str(closed) and "dynamic_slice" not in str(closed) and "name=double" in str(closed)


def test_arrays_without_axes():
    spec = pl.BlockSpec((), lambda *_: ())
    for grid in ((), 2):
        f = pl.pallas_call(double, xpr.ShapeDtypeStruct((), np.float32), grid=grid, in_specs=[spec], out_specs=spec)
        same(f(jnp.float32(3)), jnp.float32(6))
    block = pl.BlockSpec((4,), lambda: 1)
    same(pl.pallas_call(double, F8, in_specs=[block], out_specs=block)(X)[4:], jnp.asarray(2 * X[4:]))


def test_blocks_by_a_grid():
    f = pl.pallas_call(double, F8, grid=2, in_specs=[HALVES], out_specs=HALVES)
    same(f(X), jnp.asarray(2 * X))
    assert f.__name__ == "double"
    assert pl.pallas_call(double, F8, name="twice").__name__ == "twice"
    program = str(xpr.make_jaxpr(f)(X))
    assert program.count("scan[") == 1 and "num_consts=1" in program and "num_carry=2" in program  # x is not carried


@pytest.mark.parametrize("shape, block", [((8,), 2), ((8,), 3), ((3,), 8), ((7,), 1)])
def test_blocks_that_reach_beyond_the_array(shape, block):
    def numbers(lib):
        pl = of(lib)

        def kernel(o_ref):
            o_ref[...] = lib.numpy.full(o_ref.shape, pl.program_id(0))

        spec = pl.BlockSpec((block,), lambda i: i)
        return call(lib, kernel, shape, dtype="int32", grid=(pl.cdiv(shape[0], block),), out_specs=spec)

    same(agree(numbers), jnp.arange(shape[0]) // block)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "bfloat16"])
def test_padding_is_what_was_never_written(dtype):
    def copied(lib):
        spec = of(lib).BlockSpec((6,), lambda i: 0)
        return call(lib, copy, (6,), lib.numpy.ones(3, dtype), dtype=dtype, grid=1, in_specs=[spec])

    agree(copied)


def test_elements_that_no_program_writes():
    def partly(lib):
        def kernel(o_ref, n_ref):
            o_ref[1] = 5.0

        return call(lib, kernel, [(3,), (2,)])

    agree(partly)
    floats, integers = pl.pallas_call(lambda *refs: None, (F8, xpr.ShapeDtypeStruct((), np.int32)))()
    assert np.isnan(floats).all() and integers == np.iinfo(np.int32).min
    assert np.isnan(pl.pallas_call(lambda o_ref: None, xpr.ShapeDtypeStruct((1,), np.complex64))()).all()


def test_axes_that_the_kernel_does_not_see():
    def transposed(lib):
        pl = of(lib)

        def kernel(x_ref, o_ref):
            assert x_ref.shape == o_ref.shape == (4,)
            o_ref[...] = x_ref[...]

        x = lib.numpy.arange(12.0).reshape(3, 4)
        row, column = pl.BlockSpec((None, 4), lambda i: (i, 0)), pl.BlockSpec((4, pl.squeezed), lambda i: (0, i))
        return call(lib, kernel, (4, 3), x, grid=3, in_specs=[row], out_specs=column)

    close(agree(transposed), jnp.arange(12.0).reshape(3, 4).T)


def test_blocks_from_any_element():
    def neighbours(lib):
        pl = of(lib)

        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[pl.ds(0, 8)] + x_ref[pl.ds(8, 8)]

        window = pl.BlockSpec((pl.Element(16),), lambda i: (8 * i,))
        spec = pl.BlockSpec((pl.Blocked(8),), lambda i: (i,))
        return call(lib, kernel, (24,), lib.numpy.arange(32.0), grid=3, in_specs=[window], out_specs=spec)

    close(agree(neighbours), jnp.arange(24.0) * 2 + 8)

    def padded(lib):
        spec = of(lib).BlockSpec((of(lib).Element(6, (1, 2)),), lambda i: 0)
        return call(lib, copy, (6,), lib.numpy.ones(3), grid=1, in_specs=[spec])

    agree(padded)


def test_a_block_that_starts_at_the_last_element():  # jax moves it into the array
    spec = pl.BlockSpec((pl.Element(3),), lambda i: (4 * i,))
    out = pl.pallas_call(copy, F8, grid=2, in_specs=[spec], out_specs=spec)(X)
    same(out, jnp.array([0, 1, 2, np.nan, 4, 5, 6, np.nan], np.float32))
    last = pl.pallas_call(copy, F8.update(shape=(3,)), in_specs=[pl.BlockSpec((pl.Element(3),), lambda: (7,))])(X)
    same(last, jnp.array([7, np.nan, np.nan], np.float32))


def test_blocks_of_computed_sizes():
    def kernel(sizes_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + 100 * pl.program_id(0)

    spec = pl.BlockSpec((pl.BoundedSlice(4),), lambda i, sizes: (pl.ds(2 * i, sizes[i]),))
    grid_spec = pltpu.PrefetchScalarGridSpec(1, grid=3, in_specs=[spec], out_specs=spec)
    out = pl.pallas_call(kernel, F8, grid_spec=grid_spec)(jnp.array([2, 1, 4]), X)
    same(out, jnp.array([0, 1, 102, np.nan, 204, 205, 206, 207], np.float32))


def test_pytrees_of_arguments_results_and_scratch():
    def kernel(p_ref, y_ref, o_ref, *, total):
        total[0][...] = p_ref["a"][...] + y_ref[...]
        o_ref["b"][...] = total[0][...]

    scratch = {"total": [pltpu.VMEM((8,), np.float32)]}
    specs = [{"a": HALVES}, pl.no_block_spec]
    f = pl.pallas_call(kernel, {"b": F8}, scratch_shapes=scratch)
    same(f({"a": X}, X)["b"], jnp.asarray(2 * X))
    g = pl.pallas_call(lambda p, y, o: copy(y, o), [F8], grid=2, in_specs=specs)
    same(g({"a": X}, X), (jnp.asarray(X),))


def test_random_keys_are_blocked():
    keys = xpr.random.split(xpr.random.key(0), 4)

    def kernel(key_ref, o_ref):
        o_ref[...] = xpr.random.uniform(key_ref[...], ())

    f = pl.pallas_call(
        kernel,
        xpr.ShapeDtypeStruct((4,), np.float32),
        grid=4,
        in_specs=[pl.BlockSpec((None,), lambda i: i)],
        out_specs=pl.BlockSpec((None,), lambda i: i),
    )
    close(f(keys), xpr.vmap(lambda key: xpr.random.uniform(key, ()))(keys))


# -- Grids


def test_programs_run_in_row_major_order():
    def order(lib):
        pl, jnp = of(lib), lib.numpy

        def kernel(o_ref, n_ref):
            @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0) & (pl.program_id(2) == 0))
            def _():
                n_ref[...] = jnp.zeros_like(n_ref)

            o_ref[pl.program_id(0), pl.program_id(1), pl.program_id(2)] = n_ref[0] + 100 * pl.num_programs(2)
            n_ref[0] += 1

        return call(lib, kernel, [(2, 1, 3), (1,)], dtype="int32", grid=(2, 1, 3))

    agree(order)


def test_results_that_are_visited_again():
    x, y = np.random.default_rng(0).standard_normal((2, 6, 6)).astype(np.float32)
    close(blocked_matmul(6, 2)(x, y), x @ y, 1e-4)

    def product(lib):
        pl = of(lib)

        def kernel(x_ref, y_ref, o_ref):
            @pl.when(pl.program_id(2) == 0)
            def _():
                o_ref[...] = lib.numpy.zeros_like(o_ref)

            o_ref[...] += x_ref[...] @ y_ref[...]

        specs = [pl.BlockSpec((2, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 2), lambda i, j, k: (k, j))]
        out = pl.BlockSpec((2, 2), lambda i, j, k: (i, j))
        return call(lib, kernel, (6, 6), x, y, grid=(3, 3, 3), in_specs=specs, out_specs=out)

    agree(product, tolerance=1e-5)


def test_blocks_that_stay_are_read_and_written_once():
    program = str(xpr.make_jaxpr(blocked_matmul(6, 2))(np.ones((6, 6)), np.ones((6, 6))))
    outer, inner = program.split("scan[")[1:]
    assert "dynamic_update_slice" not in inner[: inner.index("length=3")] and "length=9" in inner
    assert "dynamic_slice[slice_sizes=(2, 2)]" in inner

    spec = pl.BlockSpec((2,), lambda i, j: (i,))

    def accumulated(x_ref, init_ref, o_ref):
        o_ref[...] += x_ref[...] * (pl.program_id(1) + 1)

    for grid in ((4, 3), (4, jnp.int32(3))):
        f = pl.pallas_call(
            accumulated, F8, grid=grid, in_specs=[spec, spec], out_specs=spec, input_output_aliases={1: 0}
        )
        same(f(X, 100 + X), jnp.asarray(100 + 7 * X))


def test_grids_that_are_traced():
    def kernel(o_ref):
        o_ref[pl.program_id(0), pl.program_id(1)] = pl.num_programs(0) + 10 * pl.num_programs(1)

    def f(n):
        return pl.pallas_call(kernel, xpr.ShapeDtypeStruct((4, 2), np.int32), grid=(n, 2))()

    expected = np.full((4, 2), np.iinfo(np.int32).min, np.int32)
    expected[:3] = 23
    for each in (f, xpr.jit(f)):
        same(each(jnp.int32(3)), jnp.asarray(expected))
    same(xpr.vmap(f)(jnp.array([0, 3]))[1], jnp.asarray(expected))


def test_sizes_of_grids_may_be_numpys():
    assert pl.GridSpec((np.int64(2), 3)).grid == (2, 3) and "scan" in str(
        xpr.make_jaxpr(pl.pallas_call(double, F8, grid=np.int32(2)))(X)
    )


def test_index_maps_may_do_anything(capfd):
    def printed(i):
        pl.debug_print("block {}", i)
        return i

    def called_back(i):
        return xpr.pure_callback(lambda i: np.asarray(i), xpr.ShapeDtypeStruct((), np.int32), i)

    for index_map in (printed, called_back):
        spec = pl.BlockSpec((4,), index_map)
        same(pl.pallas_call(double, F8, grid=2, in_specs=[HALVES], out_specs=spec)(X), jnp.asarray(2 * X))
    xpr.effects_barrier()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "block 0", "block 1"]


def test_grids_with_names():
    def kernel(o_ref):
        o_ref[pl.program_id(1)] = lax.axis_size("i") + 10 * lax.axis_size("j")

    f = pl.pallas_call(kernel, xpr.ShapeDtypeStruct((3,), np.int32), grid=(("i", 2), ("j", 3)))
    same(f(), jnp.full(3, 32))


def test_an_empty_grid_and_a_symbolic_one():
    assert np.isnan(pl.pallas_call(double, F8, grid=0)(X)).all()
    assert np.isnan(pl.pallas_call(double, F8, grid=0, in_specs=[HALVES], out_specs=HALVES)(X)).all()

    def f(x):
        return pl.pallas_call(
            double, xpr.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0],),
            in_specs=[pl.BlockSpec((None,), lambda i: i)], out_specs=pl.BlockSpec((None,), lambda i: i),
        )(x)  # fmt: skip

    n = xpr.export.symbolic_shape("n")
    exported = xpr.export.export(xpr.jit(f))(xpr.ShapeDtypeStruct(n, np.float32))
    same(exported.call(X), jnp.asarray(2 * X))


def test_sizes_of_the_grid_are_known_in_functions_that_are_compiled():
    @xpr.jit
    def size():
        return jnp.int32(pl.num_programs(0))

    def kernel(o_ref):
        o_ref[...] = size()

    for n in (2, 3):
        assert pl.pallas_call(kernel, xpr.ShapeDtypeStruct((), np.int32), grid=n)() == n


def test_indices_are_known_in_loops_and_branches():
    def kernel(o_ref):
        def body(k, total):
            return lax.cond(k > 0, lambda: total + pl.program_id(0), lambda: total)

        o_ref[pl.program_id(0)] = lax.fori_loop(0, 4, body, 0)

    same(pl.pallas_call(kernel, xpr.ShapeDtypeStruct((3,), np.int32), grid=3)(), 3 * jnp.arange(3))


# -- Refs in kernels


def test_scratch_keeps_its_values():
    def sums(lib):
        pl = of(lib)

        def kernel(x_ref, o_ref, acc_ref):
            @pl.when(pl.program_id(0) == 0)
            def _():
                acc_ref[...] = lib.numpy.zeros_like(acc_ref)

            acc_ref[...] += x_ref[...]
            o_ref[...] = acc_ref[...]

        spec = pl.BlockSpec((4,), lambda i: (i,))
        options = {"in_specs": [spec], "out_specs": spec, "scratch_shapes": [pl.ANY((4,), "float32")]}
        return call(lib, kernel, (12,), lib.numpy.arange(12.0), grid=3, **options)

    close(agree(sums), jnp.arange(12.0).reshape(3, 4).cumsum(0).ravel())


def test_aliases():
    def added(lib):
        def kernel(x_ref, _, o_ref):
            o_ref[...] += x_ref[...]

        x = lib.numpy.arange(8.0)
        spec = of(lib).BlockSpec((3,), lambda i: (i,))
        options = {"in_specs": [spec, spec], "out_specs": spec, "input_output_aliases": {1: 0}}
        return call(lib, kernel, (8,), x, 10 * x, grid=3, **options)

    close(agree(added), 11 * X)


def test_arguments_that_a_kernel_writes():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        x_ref[...] = x_ref[...] + 1

    f = pl.pallas_call(kernel, F8, grid=3)
    same(f(X), jnp.asarray(X + 2))  # the last program finds what the others wrote


def test_refs_that_a_kernel_closes_over():
    total = xpr.new_ref(jnp.zeros(()))

    def kernel(x_ref, o_ref):
        total[...] += x_ref[...].sum()
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, F8, grid=2, in_specs=[HALVES], out_specs=HALVES)
    for each in (f, xpr.jit(f)):
        each(X)
    assert total[...] == 56


def test_scalars_for_index_maps():
    def rows(lib):
        pl, pltpu = of(lib), importlib.import_module(f"{lib.__name__}.experimental.pallas.tpu")
        grid_spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(3,),
            in_specs=[pl.BlockSpec((1, 4), lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec((1, 4), lambda i, rows: (i, 0)),
        )

        def kernel(rows_ref, x_ref, o_ref):
            o_ref[...] = x_ref[...] + 10 * rows_ref[pl.program_id(0)]

        x = lib.numpy.arange(12).reshape(3, 4)
        return call(lib, kernel, (3, 4), lib.numpy.array([2, 0, 2]), x, dtype="int32", grid_spec=grid_spec)

    same(agree(rows), jnp.arange(12).reshape(3, 4)[jnp.array([2, 0, 2])] + jnp.array([[20], [0], [20]]))


def test_loops_and_refs_for_a_while():
    def kernel(x_ref, o_ref):
        @functools.partial(pl.run_scoped, acc=pl.ANY((), np.float32))
        def total(acc):
            acc[...] = jnp.float32(0)

            @pl.loop(0, 8, step=2)
            def _(i):
                acc[...] += x_ref[i]

            return acc[...]

        @pl.loop(0, 2, init_carry=total)
        def last(i, carry):
            return carry + i

        o_ref[...] = last

    same(pl.pallas_call(kernel, xpr.ShapeDtypeStruct((), np.float32))(X), jnp.float32(13))
    assert pl.loop(jnp.int32(1), jnp.int32(6), init_carry=0, step=2)(lambda i, total: total + i) == 9

    @pl.with_scoped(pl.ANY((2,), np.int32), other=pl.ANY((), np.int32))
    def f(x, ref, other):
        ref[...], other[...] = x, 1
        return ref[...] + other[...]

    same(f(jnp.arange(2)), jnp.arange(1, 3))
    assert pl.run_state(lambda ref: ref.addupdate(1))(jnp.int32(2)) == 3


def test_masks():
    @functools.partial(pl.pallas_call, out_shape=xpr.ShapeDtypeStruct((10,), np.float32), grid=3)
    def add_one(x_ref, o_ref):
        start = 4 * pl.program_id(0)
        mask = start + jnp.arange(4) < 10
        x = triton.load(x_ref.at[pl.ds(start, 4)], mask=mask, other=0.0)
        triton.store(o_ref.at[pl.ds(start, 4)], x + 1, mask=mask)

    same(add_one(jnp.arange(10.0)), jnp.arange(1.0, 11.0))
    ref = xpr.new_ref(jnp.arange(6).reshape(2, 3))
    mask = jnp.array([[True, False], [False, True]])
    view = ref.at[:, pl.ds(jnp.int32(1), 2)]
    same(triton.load(view, mask=mask, other=7), jnp.array([[1, 7], [7, 5]]))
    pltpu.store(view, 9, mask=mask)
    same(ref[...], jnp.array([[0, 9, 2], [3, 4, 9]]))
    same(pltpu.load(ref.at[0]), jnp.array([0, 9, 2]))


def test_atomic_updates():
    ref, mask = xpr.new_ref(jnp.arange(4)), jnp.array([True, False, True, False])
    same(triton.atomic_add(ref, (), 10, mask=mask), jnp.arange(4))
    same(ref[...], jnp.array([10, 1, 12, 3]))
    for function, operation in (
        (triton.atomic_max, np.maximum), (triton.atomic_min, np.minimum), (triton.atomic_and, np.bitwise_and),
        (triton.atomic_or, np.bitwise_or), (triton.atomic_xor, np.bitwise_xor), (triton.atomic_xchg, lambda x, y: y),
    ):  # fmt: skip
        ref = xpr.new_ref(jnp.arange(4))
        assert function(ref, 2, 3) == 2 and ref[2] == operation(2, 3), function
    ref = xpr.new_ref(jnp.int32(1))
    assert triton.atomic_cas(ref, 0, 7) == 1 and ref[...] == 1
    assert triton.atomic_cas(ref, 1, 7) == 1 and ref[...] == 7


def test_elements_that_are_named_several_times():
    index = jnp.array([3, 1, 3, 3])
    for mask, expected in (([True] * 4, [0, 1, 0, 3]), ([True, True, False, False], [0, 1, 0, 1])):
        ref = xpr.new_ref(jnp.zeros(4, np.int32))
        triton.atomic_add(ref, index, 1, mask=jnp.array(mask))
        same(ref[...], jnp.array(expected))
    ref = xpr.new_ref(jnp.arange(6).reshape(2, 3))
    triton.atomic_max(ref.at[1], jnp.array([0, 0, 2]), jnp.array([9, 7, 1]))
    same(ref[...], jnp.array([[0, 1, 2], [9, 4, 5]]))
    triton.store(ref.at[:, jnp.array([1, 1])], 8, mask=jnp.array([[True, False], [False, False]]))
    same(ref[...], jnp.array([[0, 8, 2], [9, 4, 5]]))


def test_prints_and_checks(capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("x {}", x_ref[1])
        pl.debug_check(x_ref[0] > 1, "x is small")
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, F8)
    f(X).block_until_ready()
    xpr.effects_barrier()
    assert capfd.readouterr().out == "x 1.0\n"
    assert checkify.checkify(f)(X)[0].get() is None
    with pl.enable_debug_checks(True):
        assert "x is small" in checkify.checkify(f)(X)[0].get()
    pl.pallas_call(double, F8, debug=True)(X)
    assert re.search(r"double at test_pallas.py.*\n\{ lambda ; a:Ref\{f32\[8\]\}", capfd.readouterr().out)


# -- Transformations


def square(x_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...]) * x_ref[...]


def test_derivatives():
    f = pl.pallas_call(square, F8, grid=2, in_specs=[HALVES], out_specs=HALVES)
    check_grads(f, (X,), order=2, modes=["fwd", "rev"], rtol=2e-2, atol=2e-2)
    close(xpr.grad(lambda x: f(x).sum())(X), jnp.sin(X) + X * jnp.cos(X))
    x, y = np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)
    product = blocked_matmul(4, 2)
    for each in (xpr.grad, lambda f, argnums: xpr.jit(xpr.grad(f, argnums))):
        found = each(lambda x, y: jnp.sin(product(x, y)).sum(), (0, 1))(x, y)
        close(found, xpr.grad(lambda x, y: jnp.sin(x @ y).sum(), (0, 1))(x, y), 1e-4)


@pytest.mark.parametrize(
    "index_map, options, once",
    [
        (lambda i: (i,), {}, True),
        (lambda i: (3 - i,), {}, True),
        (lambda i: (i // 2,), {}, False),
        (lambda i: (i + 1,), {}, False),  # the last one is moved into the array
        (lambda i: (i,), {"input_output_aliases": {0: 0}}, False),
        (lambda i: (i,), {"grid": (jnp.int32(4),)}, False),
    ],
)
def test_cotangents_of_blocks_that_are_written_once_stay_as_they_are(index_map, options, once):
    spec = pl.BlockSpec((2,), lambda i: (i,))
    out_spec = pl.BlockSpec((2,), index_map)
    f = pl.pallas_call(square, F8, **{"grid": 4, "in_specs": [spec], "out_specs": out_spec, **options})
    assert ("_written_once" in str(xpr.make_jaxpr(f)(X))) == once
    blocks = X.reshape(4, 2)

    def expected(x):
        out = jnp.asarray(blocks) if "input_output_aliases" in options else jnp.full((4, 2), np.nan)
        for i in range(4):
            out = out.at[min(index_map(i)[0], 3)].set(jnp.sin(x[i]) * x[i])
        return out

    weights = jnp.arange(1.0, 9.0).reshape(4, 2)
    close(f(X), expected(blocks).ravel())
    if "grid" not in options:
        loss = xpr.grad(lambda x: (jnp.nan_to_num(f(x)).reshape(4, 2) * weights).sum())
        close(loss(X).reshape(4, 2), xpr.grad(lambda x: (jnp.nan_to_num(expected(x)) * weights).sum())(blocks))
        tangents = xpr.jvp(f, (X,), (np.ones_like(X),))[1]
        close(
            jnp.nan_to_num(tangents).reshape(4, 2), jnp.nan_to_num(xpr.jvp(expected, (blocks,), (blocks * 0 + 1,))[1])
        )


def test_jvp_as_in_jax():
    def tangents(lib):
        pl, jnp = of(lib), lib.numpy

        def kernel(x_ref, o_ref):
            o_ref[...] = jnp.sin(x_ref[...]) * x_ref[...]

        spec = pl.BlockSpec((4,), lambda i: (i,))
        f = pl.pallas_call(
            kernel, lib.ShapeDtypeStruct((8,), "float32"), grid=2, in_specs=[spec], out_specs=spec, interpret=True
        )
        return lib.jvp(f, (jnp.arange(8.0),), (jnp.ones(8),))

    agree(tangents)


def test_vmap():
    def mapped(lib):
        pl, vmap = of(lib), lib.vmap

        def kernel(x_ref, y_ref, o_ref):
            o_ref[pl.program_id(0)] = x_ref[pl.program_id(0)] + y_ref[...]

        def f(x, y):
            return call(lib, kernel, (4,), x, y, grid=4)

        x = lib.numpy.arange(24.0).reshape(2, 4, 3)
        return vmap(vmap(f, (1, None)), (0, 0), 1)(x, lib.numpy.arange(2.0))

    agree(mapped)
    x = np.random.default_rng(2).standard_normal((3, 4, 4)).astype(np.float32)
    close(xpr.vmap(blocked_matmul(4, 2), (0, None))(x, x[0]), x @ x[0], 1e-4)
    f = pl.pallas_call(copy, F8, input_output_aliases={0: 0})
    same(xpr.vmap(f, in_axes=1)(np.stack([X, X], 1)), jnp.stack([X, X]))


def test_scalars_for_index_maps_are_mapped():
    spec = pltpu.PrefetchScalarGridSpec(
        1, 2, [pl.BlockSpec((1, 4), lambda i, r: (r[i], 0))], pl.BlockSpec((1, 4), lambda i, r: (i, 0))
    )
    f = pl.pallas_call(copy, xpr.ShapeDtypeStruct((2, 4), np.float32), grid_spec=spec)
    x, rows = X.reshape(2, 4), np.array([[0, 1], [1, 0], [1, 1]])
    same(xpr.vmap(f, (0, None))(rows, x), jnp.asarray(x[rows]))


def test_in_other_functions():
    f = pl.pallas_call(double, F8, grid=2, in_specs=[HALVES], out_specs=HALVES)
    same(lax.scan(lambda x, _: (f(x), None), jnp.asarray(X), None, length=3)[0], jnp.asarray(8 * X))
    same(xpr.checkpoint(f)(jnp.asarray(X)), jnp.asarray(2 * X))
    same(xpr.linearize(f, X)[1](X), jnp.asarray(2 * X))
    with xpr.disable_jit():
        same(f(X), jnp.asarray(2 * X))
    mesh = xpr.make_mesh((1,), ("i",))

    def total(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros(4, np.float32)

        o_ref[...] += x_ref[...]

    halves = pl.pallas_call(total, xpr.ShapeDtypeStruct((4,), np.float32), grid=2, in_specs=[HALVES])
    sharded = xpr.shard_map(halves, mesh=mesh, in_specs=xpr.P("i"), out_specs=xpr.P("i"))
    same(xpr.jit(sharded)(X), jnp.asarray(X[:4] + X[4:]))
    same(xpr.grad(lambda x: sharded(x).sum())(X), jnp.ones(8))


def test_a_kernel_is_traced_once():
    count = 0

    def kernel(x_ref, o_ref):
        nonlocal count
        count += 1
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, F8, grid=2)
    for each in (f, f, xpr.jit(lambda x: f(f(x)))):
        each(X)
    assert count == 1


# -- Sizes, costs and hints


def test_sizes():
    assert [pl.cdiv(8, 2), pl.cdiv(9, 2), pl.cdiv(np.int64(9), 2), pl.align_to(5, 4)] == [4, 5, 5, 8]
    same(pl.cdiv(jnp.int32(9), 2), jnp.int32(5))
    assert [pl.next_power_of_2(n) for n in (0, 1, 2, 5)] == [1, 1, 2, 8]
    assert pl.strides_from_shape((2, 3, 4)) == (12, 4, 1) and pl.strides_from_shape(()) == ()
    with pytest.raises(ValueError, match="must not be negative, and is -1"):
        pl.next_power_of_2(-1)
    assert pl.empty_like(pl.ANY((2,), "int8")).dtype == np.int8
    assert pl.empty_ref_like(F8).shape == (8,)
    with pytest.raises(ValueError, match="takes a pl.MemoryRef or a ShapeDtypeStruct, and got 1"):
        pl.empty_ref_like(1)


def test_costs():
    x = xpr.ShapeDtypeStruct((7, 37, 91), np.float32), xpr.ShapeDtypeStruct((7, 91, 23), np.float32)
    cost = pl.estimate_cost(jnp.matmul, *x)
    assert (cost.flops, cost.transcendentals) == (2 * 7 * 37 * 91 * 23, 0)
    assert cost.bytes_accessed == 4 * 7 * (37 * 91 + 91 * 23 + 37 * 23)
    with pytest.raises(ValueError, match="flops must be an integer, and is 1.5"):
        pl.CostEstimate(1.5, 0, 0)


def test_hints():
    spec = pl.BlockSpec((4,), lambda i: (i,), memory_space=pltpu.VMEM, pipeline_mode=pl.Buffered(2))
    f = pl.pallas_call(
        double, F8, grid=2, in_specs=[spec], out_specs=spec, cost_estimate=pl.CostEstimate(8, 0, 64),
        metadata={"a": "b"}, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)), interpret=True,
    )  # fmt: skip
    same(f(X), jnp.asarray(2 * X))
    assert isinstance(triton.CompilerParams(num_warps=4), pl.CompilerParams)
    assert pltpu.HBM((2,), np.int8).get_ref_aval().shape == pltpu.SMEM.like(jnp.zeros(2)).shape == (2,)
    assert str(pl.MemorySpace.HOST) == "host" and str(pltpu.CMEM) == "cmem"
    assert pltpu.CompilerParams().replace(collective_id=3).collective_id == 3
    same(pltpu.roll(jnp.arange(4), 1, 0), jnp.array([3, 0, 1, 2]))
    with pytest.raises(NotImplementedError, match="`stride` along another axis"):
        pltpu.roll(jnp.ones((2, 2)), 1, 0, stride=1, stride_axis=1)
    with pytest.raises(ValueError, match="axis 2 is out of range for f32"):
        pltpu.roll(jnp.ones((2, 2)), 1, 2)
    with pytest.raises(ValueError, match="must not be negative, and is -1"):
        pltpu.roll(jnp.ones((2, 2)), -1, 0)
    one, two = xpr.new_ref(jnp.ones(2)), xpr.new_ref(jnp.ones(2))
    pltpu.sync_copy([one], [two], add=True)
    same(two[...], jnp.full(2, 2, np.float32))


def test_products():
    x, y = jnp.ones((2, 3)), jnp.ones((4, 3))
    same(triton.dot(x, y, trans_b=True), jnp.full((2, 4), 3, np.float32))
    assert triton.dot(x.astype(np.int8), x.astype(np.int8), True).dtype == np.int32
    with pytest.raises(ValueError, match=r"must have two axes, and they are f32\[3\] and f32\[4,3\]"):
        triton.dot(x[0], y)
    with pytest.raises(ValueError, match="give one of them"):
        triton.dot(x, y, allow_tf32=True, precision="highest")


# -- What is refused


def refused(message, kernel=double, out_shape=F8, args=(X,), **options):
    with pytest.raises(ValueError, match=message):
        pl.pallas_call(kernel, out_shape, **options)(*args)


def test_specs_that_do_not_fit():
    refused(r"`in_specs` must be a tuple or a list, .* is BlockSpec", in_specs=HALVES)
    refused(r"`in_specs` and `inputs` do not match(.|\n)*expected tuple of 1, got tuple of 2", in_specs=[HALVES] * 2)
    refused(r"`out_specs` and `out_shape` do not match(.|\n)*expected a leaf", out_specs=[HALVES])
    wide = pl.BlockSpec((4, 1), lambda i: (i, 0))
    refused(r"Block shape for args\[0\] has 2 dimensions, \(4, 1\), and the array 1", in_specs=[wide], grid=2)
    refused(r"Block shape for outputs has 2 dimensions", out_specs=wide, grid=2)
    refused("unsupported block dimension type, 'x'", in_specs=[pl.BlockSpec(("x",), lambda i: i)], grid=2)
    refused("block shape for outputs is .0,., and the sizes of blocks are 1 or more", out_specs=pl.BlockSpec((0,)))
    refused("block shape for outputs is .-1,., and the sizes", out_specs=pl.BlockSpec((-1,)))
    refused("`out_specs` has 3 of type builtins.int, which is no pl.BlockSpec", out_specs=3)
    with pytest.raises(TypeError, match="pallas_call: Expected a callable value, and got 3"):
        pl.pallas_call(3, xpr.ShapeDtypeStruct((8,), "float32"))
    refused("the grid must be a tuple of integers, .* and has 2.5", grid=(2.5,))
    refused(r"the sizes of a grid can't be negative, and the grid is \(2, -1\)", grid=(2, -1))
    refused("the sizes of a grid can't be negative, and the grid is -1", grid=-1)
    refused("`grid` is part of `grid_spec`, and is given beside it: 3", grid=3, grid_spec=pl.GridSpec(2))
    refused(r"`out_shape`\['a'\] is 3 of type builtins.int, which has no shape", out_shape={"a": 3})
    refused("an element of `scratch_shapes` is 3", scratch_shapes=[3])


def test_index_maps_that_do_not_fit():
    def in_specs(index_map):
        return {"in_specs": [pl.BlockSpec((4,), index_map)], "out_specs": HALVES, "grid": 2}

    def two(i):
        return i, 0

    refused(r"two at test_pallas.py:\d+ for args\[0\] returned 2 values, .* needs 1, one for", **in_specs(two))
    refused(r"must return integer scalars. Output\[0\] has type float32\[\]", **in_specs(lambda i: 1.0 * i))
    refused(r"must return integer scalars. Output\[0\] has type int32\[1\]", **in_specs(lambda i: i[None]))
    refused(r"output\[0\] is Slice.*takes an integer", **in_specs(lambda i: pl.ds(i, 2)))
    table = jnp.arange(2)
    refused(r"for args\[0\] must not capture constants: \[i32\[2\]\]", **in_specs(lambda i: table[i]))
    bounded = pl.BlockSpec((pl.BoundedSlice(4),), lambda i: i)
    refused(r"output\[0\] is .*takes pl.ds\(start, size\)", in_specs=[bounded], grid=2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'j'"):
        pl.pallas_call(double, F8, **in_specs(lambda i, j: i))(X)


def test_kernels_that_do_not_fit():
    refused(r"<lambda> at test_pallas.py:\d+ should return None.* It returned 1 of type", kernel=lambda *refs: 1)
    outside = jnp.asarray(X)
    same(pl.pallas_call(lambda x, o: o.set(x[...][::-1]), F8)(X), jnp.asarray(X[::-1]))
    refused(r"captures constants \[f32\[8\]\]. Arrays from outside", kernel=lambda x, o: o.set(outside))
    with pytest.raises(ValueError, match=r"captures constants \[f32\[\]\]"):
        xpr.jit(lambda s: pl.pallas_call(lambda x, o: o.set(x[...] * s), F8)(X))(2.0)
    refused(r"captures constants \[f32\[8\]\]", kernel=lambda x, o: o.set(x[...] + X))
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        pl.pallas_call(lambda x: None, F8)(X)
    refused(
        r"a Ref of shape \(9,\) can't hold a value of shape \(8,\)", out_shape=xpr.ShapeDtypeStruct((9,), np.float32)
    )
    with pytest.raises(RefError, match="a Ref can't hold a Ref"):
        pl.pallas_call(lambda x, o: o.set(x), F8)(X)
    with pytest.raises(TypeError, match="Expected an array, and got a mutable array of type Ref"):
        pl.pallas_call(lambda x, o: o.set(jnp.sin(x)), F8)(X)


def test_aliases_that_do_not_fit():
    refused(r"mapping '1:0' with input index 1 outside the range \[0, 1\)", input_output_aliases={1: 0})
    refused(r"mapping '0:1' with output index 1 outside the range \[0, 1\)", input_output_aliases={0: 1})
    message = r"the mapping '0:0', and input\[0\] is float32\[8\], output int32\[8\]. What shares memory"
    refused(message, out_shape=xpr.ShapeDtypeStruct((8,), np.int32), input_output_aliases={0: 0})


def test_axes_that_the_grid_does_not_have():
    refused("program_id: axis 1 is out of range for the grid of 1 axes", kernel=lambda *refs: pl.program_id(1), grid=2)
    for function in (pl.program_id, pl.num_programs):
        with pytest.raises(ValueError, match="there is no grid outside of a kernel"):
            function(0)


def test_what_is_about_the_hardware():
    with pytest.raises(AttributeError, match="'SemaphoreType': kernels are compiled by XLA"):
        _ = pltpu.SemaphoreType
    with pytest.raises(NotImplementedError, match="`collective_axes` are of several cores"):
        pl.run_scoped(lambda ref: None, pl.ANY((), np.float32), collective_axes="i")
    with pytest.raises(ValueError, match="a type of a ref is 1 of type builtins.int, which has no shape"):
        pl.run_scoped(lambda ref: None, 1)

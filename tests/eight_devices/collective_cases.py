"""Every collective in all its forms, and its derivative: alike under vmap, pmap and shard_map, and as in jax."""

import numpy as np
import pytest

import xpr
from tests.eight_devices import close
from tests.ops.table import floats
from tests.peer import beside
from xpr import lax
from xpr.sharding import PartitionSpec as P

X = floats(8, 8, 2, 16)
PAIRS = [[0, 2], [3, 1], [4, 5], [7, 6]]
FOURS = [[0, 2, 4, 6], [1, 3, 5, 7]]
UNEVEN = [[0, 1, 2], [3, 4], [5, 6, 7]]

# A function of the library, a row and the name of the axis. For some jax has no groups, and not everywhere a
# derivative of all_to_all.
ONE_AXIS = {
    "psum": lambda L, v, i: L.lax.psum(v, i),
    "psum of numbers": lambda L, v, i: v * L.lax.psum(1, i),
    "pmean": lambda L, v, i: L.lax.pmean(v, i),
    "pmax": lambda L, v, i: v - L.lax.pmax(L.lax.stop_gradient(v), i),
    "pmin": lambda L, v, i: v - L.lax.pmin(L.lax.stop_gradient(v), i),
    "ppermute": lambda L, v, i: L.lax.ppermute(v, i, [(k, (k + 3) % 8) for k in range(6)]),
    "pshuffle": lambda L, v, i: L.lax.pshuffle(v, i, [3, 1, 0, 2, 7, 6, 5, 4]),
    "pswapaxes": lambda L, v, i: L.lax.pswapaxes(v, i, 0),
    "all_gather": lambda L, v, i: L.lax.all_gather(v, i, axis=1),
    "all_gather tiled": lambda L, v, i: L.lax.all_gather(v, i, axis=1, tiled=True),
    "all_to_all": lambda L, v, i: L.lax.all_to_all(v, i, 0, 2),
    "all_to_all tiled": lambda L, v, i: L.lax.all_to_all(v, i, 2, 1, tiled=True),
    "psum_scatter": lambda L, v, i: L.lax.psum_scatter(v, i),
    "psum_scatter tiled": lambda L, v, i: L.lax.psum_scatter(v, i, scatter_dimension=2, tiled=True),
    "axis_index": lambda L, v, i: v * L.lax.axis_index(i),
    "axis_size": lambda L, v, i: v * L.lax.axis_size(i),
    "psum in groups": lambda L, v, i: L.lax.psum(v, i, axis_index_groups=PAIRS),
    "psum in uneven groups": lambda L, v, i: L.lax.psum(v, i, axis_index_groups=UNEVEN),
    "pmean in groups": lambda L, v, i: L.lax.pmean(v, i, axis_index_groups=FOURS),
    "pmax in groups": lambda L, v, i: v - L.lax.pmax(L.lax.stop_gradient(v), i, axis_index_groups=PAIRS),
    "all_gather in groups": lambda L, v, i: L.lax.all_gather(v, i, axis_index_groups=PAIRS),
    "all_gather tiled in groups": lambda L, v, i: L.lax.all_gather(v, i, axis=2, axis_index_groups=FOURS, tiled=True),
    "all_to_all in groups": lambda L, v, i: L.lax.all_to_all(v[:2], i, 0, 1, axis_index_groups=PAIRS),
    "all_to_all tiled in groups": lambda L, v, i: L.lax.all_to_all(v, i, 0, 1, axis_index_groups=FOURS, tiled=True),
    "psum_scatter in groups": lambda L, v, i: L.lax.psum_scatter(v[:2], i, axis_index_groups=PAIRS),
    "psum_scatter tiled in groups": lambda L, v, i: L.lax.psum_scatter(v, i, axis_index_groups=FOURS, tiled=True),
    "pswapaxes in groups": lambda L, v, i: L.lax.pswapaxes(v[:2], i, 0, axis_index_groups=PAIRS),
}
# Of two axes, of sizes 4 and 2.
TWO_AXES = {
    "psum": lambda L, v, i, j: L.lax.psum(v, (i, j)),
    "psum the other way round": lambda L, v, i, j: L.lax.psum(v, (j, i)) * L.lax.axis_index(j),
    "pmean": lambda L, v, i, j: L.lax.pmean(L.lax.psum(v, i), j),
    "pmax": lambda L, v, i, j: v - L.lax.pmax(L.lax.stop_gradient(v), (j, i)),
    "all_gather": lambda L, v, i, j: L.lax.all_gather(v, (i, j)),
    "all_gather tiled": lambda L, v, i, j: L.lax.all_gather(v, (j, i), axis=1, tiled=True),
    "psum_scatter": lambda L, v, i, j: L.lax.psum_scatter(v, (i, j)),
    "psum_scatter tiled": lambda L, v, i, j: L.lax.psum_scatter(v, (j, i), scatter_dimension=2, tiled=True),
    "axis_index": lambda L, v, i, j: v * L.lax.axis_index((j, i)),
    "one after another": lambda L, v, i, j: L.lax.all_to_all(
        L.lax.ppermute(v, j, [(0, 1), (1, 0)]), i, 2, 0, tiled=True
    ),
}


def by_vmap(L, fun):
    return L.vmap(lambda v: fun(L, v, "i"), axis_name="i")


def by_pmap(L, fun):
    return L.pmap(lambda v: fun(L, v, "i"), axis_name="i")


def by_shard_map(L, fun):
    spec = P if L is xpr else L.sharding.PartitionSpec
    mesh = L.sharding.Mesh(np.array(L.devices()), ("i",))
    return L.shard_map(
        lambda x: fun(L, x[0], "i")[None], mesh=mesh, in_specs=spec("i"), out_specs=spec("i"), check_vma=False
    )


def both_ways(L, mapped, x):
    """The value, and the derivative of a function of all rows."""
    return [mapped(x), L.grad(lambda x: L.numpy.sum(L.numpy.sin(mapped(x))))(x)]


def jitted_both_ways(L, mapped, x):
    """As one program: jax compiles each operation of a shard_map that is not jitted."""
    return L.block_until_ready(L.jit(lambda x: both_ways(L, mapped, x))(x))


@pytest.mark.parametrize("name", ONE_AXIS)
def test_along_an_axis(name):
    fun = ONE_AXIS[name]
    expected = both_ways(xpr, by_vmap(xpr, fun), X)
    for way in (by_pmap, by_shard_map):
        close(jitted_both_ways(xpr, way(xpr, fun), X), expected)

    def of(jax):
        for way in (by_pmap, by_shard_map):
            try:
                return jitted_both_ways(jax, way(jax, fun), X)
            except (NotImplementedError, ValueError, AssertionError):
                continue
        return "jax has no such form"

    def compare(theirs):
        if theirs == ["jax has no such form"]:
            assert "group" in name or name == "all_to_all"
        else:
            close(expected, list(map(np.asarray, theirs)))

    beside(of, compare)


@pytest.mark.parametrize("name", TWO_AXES)
def test_along_two_axes(name):
    fun, x = TWO_AXES[name], X.reshape(4, 2, 8, 2, 16)

    def side_by_side(L):
        return L.vmap(L.vmap(lambda v: fun(L, v, "i", "j"), axis_name="j"), axis_name="i")

    def on_devices(L):
        spec = P if L is xpr else L.sharding.PartitionSpec
        mesh = L.sharding.Mesh(np.array(L.devices()).reshape(4, 2), ("i", "j"))
        return L.shard_map(
            lambda x: fun(L, x[0, 0], "i", "j")[None, None], mesh=mesh, in_specs=spec("i", "j"),
            out_specs=spec("i", "j"), check_vma=False,
        )  # fmt: skip

    def mixed(L):
        return L.pmap(L.vmap(lambda v: fun(L, v, "i", "j"), axis_name="j"), axis_name="i")

    expected = both_ways(xpr, side_by_side(xpr), x)
    for way in (on_devices, mixed):
        close(jitted_both_ways(xpr, way(xpr), x), expected)
    beside(
        lambda jax: jitted_both_ways(jax, on_devices(jax), x),
        lambda theirs: close(expected, list(map(np.asarray, theirs))),
    )


def test_products():
    """Which jax has not."""
    rows = floats(8, 3, low=0.5)
    pairs = np.stack([rows[i] * rows[j] for i, j in PAIRS])[[0, 1, 0, 1, 2, 2, 3, 3]]
    for way in (by_vmap, by_pmap, by_shard_map):
        product = way(xpr, lambda L, v, i: L.lax.pprod({"a": v}, i)["a"])
        close(product(rows), np.tile(rows.prod(0), (8, 1)))
        close(xpr.grad(lambda x, f=product: f(x).sum())(rows), 8 * rows.prod(0) / rows)
        close(way(xpr, lambda L, v, i: L.lax.pprod(v, i, axis_index_groups=PAIRS))(rows), pairs)
    close(xpr.vmap(lambda v: lax.pprod(v, "i"), axis_name="i")(np.arange(1, 9)), np.full(8, 40320, np.int32))


def test_all_to_all_along_two_axes_of_a_mesh():
    x = floats(64, 3)
    results = []
    for names in ("k", ("i", "j")):
        mesh = xpr.make_mesh((8,), ("k",)) if names == "k" else xpr.make_mesh((4, 2), ("i", "j"))
        exchange = lambda v, names=names: lax.all_to_all(v, names, 0, 1, tiled=True)
        results.append(xpr.jit(xpr.shard_map(exchange, mesh=mesh, in_specs=P(names), out_specs=P(names)))(x))
    close(*results)

"""pmap on eight devices: it gives what vmap gives, and what jax gives; collectives, derivatives, nesting, donation."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from tests.peer import beside
from tests.test_collectives import MEANINGS
from xpr import checkify, lax
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

X = floats(8, 8, 2, 6)
EIGHT = floats(8, 3, low=0.5)
PAIRS = [[0, 2], [3, 1], [4, 5], [7, 6]]


def test_eight_devices_are_there():
    assert xpr.device_count() == 8


def test_the_index_of_a_row_is_a_carry():
    f = xpr.pmap(lambda x: lax.scan(lambda c, n: (c + n + lax.axis_index("i"), None), 0, x)[0], axis_name="i")
    np.testing.assert_array_equal(f(jnp.ones((8, 10), int)), 10 + 10 * np.arange(8))


def test_operands_are_moved_to_the_devices_of_the_rows():
    x = xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("x",)), P("x")))
    backwards = xpr.pmap(jnp.sin, devices=xpr.devices()[::-1])
    for _ in range(2):
        y = backwards(x)
        close(y, np.sin(X))
        assert y.sharding.mesh.flat == tuple(xpr.devices()[::-1])
    with pytest.raises(ValueError, match="'devices' argument to pmap must be non-empty, or None"):
        xpr.pmap(jnp.sin, devices=[])


FOUR = floats(4, 4, 2, 6)


@pytest.mark.parametrize("name", MEANINGS)
def test_collectives_between_devices(name):
    fun, in_numpy = MEANINGS[name]
    mapped = xpr.pmap(fun, axis_name="i")
    close(mapped(FOUR), in_numpy(FOUR))

    def loss(transformation):
        return lambda x: jnp.sum(jnp.sin(transformation(fun, axis_name="i")(x)))

    close(xpr.grad(loss(xpr.pmap))(FOUR), xpr.grad(loss(xpr.vmap))(FOUR))


GROUPED = {
    "psum": lambda v: lax.psum(v, "i", axis_index_groups=PAIRS),
    "psum of groups of different sizes": lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1, 2], [3, 4], [5, 6, 7]]),
    "pmax": lambda v: lax.pmax(v, "i", axis_index_groups=PAIRS),
    "all_gather": lambda v: lax.all_gather(v, "i", axis_index_groups=PAIRS),
    "psum_scatter": lambda v: lax.psum_scatter(v[:2], "i", axis_index_groups=PAIRS),
    "all_to_all": lambda v: lax.all_to_all(v[:2], "i", 0, 1, axis_index_groups=PAIRS),
    "psum of booleans and integers": lambda v: lax.psum((v > 0, v.astype(int)), "i"),
    "pmin of booleans": lambda v: lax.pmin(v > 0, "i"),
    "psum of complex numbers": lambda v: lax.psum(v * 1j, "i"),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups_and_dtypes(name):
    close(xpr.pmap(GROUPED[name], axis_name="i")(X), xpr.vmap(GROUPED[name], axis_name="i")(X))


def normalized(x):
    return jnp.sin(x) / lax.psum(x * x, "i")


def losses(transformation, fun, **axes):
    return lambda *args: sum(
        jnp.sum(jnp.cos(y)) for y in xpr.tree.leaves(transformation(fun, axis_name="i", **axes)(*args))
    )


def scaled(x, w):
    return {"sum": lax.psum(x * w["a"], "i"), "own": x + w["b"] * lax.axis_index("i")}


W = {"a": floats(3, salt=1), "b": np.float32(2)}
AXES = {"in_axes": (0, None), "out_axes": {"sum": None, "own": 1}}


def test_unmapped_arguments_and_results():
    found = xpr.pmap(scaled, axis_name="i", **AXES)(EIGHT, W)
    close(found["sum"], np.sum(EIGHT * W["a"], 0))
    close(found["own"], (EIGHT + 2 * np.arange(8, dtype=np.float32)[:, None]).T)
    assert found["own"].sharding.spec == P(None, "i") and found["sum"].sharding.spec == P()


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_derivatives_are_those_of_vmap(wrap):
    for_pmap, for_vmap = (losses(t, scaled, **AXES) for t in (xpr.pmap, xpr.vmap))
    close(wrap(xpr.grad(for_pmap, (0, 1)))(EIGHT, W), xpr.grad(for_vmap, (0, 1))(EIGHT, W))
    close(
        wrap(lambda x, t: xpr.jvp(losses(xpr.pmap, normalized), (x,), (t,)))(EIGHT, EIGHT),
        xpr.jvp(losses(xpr.vmap, normalized), (EIGHT,), (EIGHT,)),
    )
    hessian = [wrap(xpr.hessian(losses(t, normalized)))(EIGHT) for t in (xpr.pmap, xpr.vmap)]
    close(*hessian)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap_of_pmap(dim):
    stacked = np.moveaxis(np.stack([EIGHT, 2 * EIGHT]), 0, dim)
    one, other = (
        xpr.vmap(t(normalized, axis_name="i", out_axes=1), in_axes=dim, out_axes=dim)(stacked)
        for t in (xpr.pmap, xpr.vmap)
    )
    close(one, other)


def test_pmap_of_vmap_of_pmap():
    """A pmap inside another one is computed side by side on each device."""

    def nested(outer, inner):
        def row(x):
            return xpr.vmap(inner(lambda y: lax.psum(y, "a") + lax.psum(y, "b"), axis_name="b"))(x)

        return outer(row, axis_name="a")

    close(nested(xpr.pmap, xpr.pmap)(X), nested(xpr.vmap, xpr.vmap)(X))


def test_axes_without_names_are_one():
    traced = []

    @xpr.jit
    def doubled(x):
        traced.append(x)
        return 2 * x

    first, second = (xpr.pmap(lambda x, n=n: x + n) for n in (1, 2))
    assert first(X).sharding == second(X).sharding == (first(X) + second(X)).sharding
    close(doubled(first(X)) + doubled(second(X)), 4 * X + 6)
    assert len(traced) == 1

    def nested(outer, inner):
        return outer(lambda x: xpr.vmap(inner(jnp.sin))(x) * x.sum())(X)

    close(nested(xpr.pmap, xpr.pmap), nested(xpr.vmap, xpr.vmap))


def test_in_the_middle_of_a_program():
    @xpr.jit
    def looped(x):
        return lax.fori_loop(0, 3, lambda i, c: xpr.pmap(normalized, axis_name="i")(c) + i, x) * 2

    expected = EIGHT
    for i in range(3):
        expected = np.asarray(xpr.vmap(normalized, axis_name="i")(expected)) + np.float32(i)
    close(looped(EIGHT), 2 * expected)


def test_results_stay_on_their_devices():
    y = xpr.pmap(jnp.sin)(EIGHT)
    assert len(y.devices()) == 8
    assert [shard.data.shape for shard in y.addressable_shards] == [(1, 3)] * 8
    close(y + y, 2 * np.sin(EIGHT))
    assert (y + y).sharding.spec == y.sharding.spec


def test_many_calls_at_once():
    """They are run one after another: XLA would end the process, see backend/shards.py."""
    mapped = xpr.pmap(normalized, axis_name="i")

    def work():
        y = EIGHT
        for _ in range(60):
            y = mapped(y)
        return np.asarray(y)

    with ThreadPoolExecutor(4) as pool:
        first, *others = [future.result() for future in [pool.submit(work) for _ in range(4)]]
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_static_and_donated_arguments():
    add = xpr.pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1, donate_argnums=0)
    x = xpr.pmap(lambda x: x)(EIGHT)
    close(add(x, 3, EIGHT), 4 * EIGHT)
    assert x.is_deleted()
    close(add(EIGHT, 2, EIGHT), 3 * EIGHT)


def test_devices_by_name():
    chosen = xpr.devices()[:1:-1]
    y = xpr.pmap(lambda x: x + lax.axis_index("i"), axis_name="i", devices=chosen)(np.zeros(6, np.float32))
    assert [shard.device for shard in y.addressable_shards] == chosen
    close(y, np.arange(6, dtype=np.float32))


def test_more_rows_than_devices():
    with pytest.raises(ValueError) as error:
        xpr.pmap(normalized, axis_name="i")(np.ones((9, 2)))
    assert str(error.value).startswith(
        "pmap: normalized is mapped over 9 rows, each on a device of its own, and there are 8: cpu:0"
    )
    assert "a vmap inside the pmap" in str(error.value) and "XPR_NUM_CPU_DEVICES=9" in str(error.value)
    assert xpr.make_jaxpr(xpr.pmap(normalized, axis_name="i"))(np.ones((9, 2))).out_avals[0].shape == (9, 2)


def test_no_rows():
    with pytest.raises(ValueError, match=r"^pmap: <lambda> is mapped over no rows, and runs on a device for each\."):
        xpr.pmap(lambda x: x)(np.ones((0, 2)))


def test_checks_and_dead_results():
    def halves(x, y):
        checkify.check(x.sum() < 3, "{} is too large", x[0])
        return x / 2, jnp.cos(y)

    checked = checkify.checkify(xpr.pmap(halves, axis_name="i", in_axes=(0, None)))
    x = np.repeat(np.arange(8, dtype=np.float32)[:, None], 2, 1)
    for wrap in (lambda f: f, xpr.jit):
        error, outs = wrap(checked)(x, 1.0)
        assert error.get().startswith("2.0 is too large (`check` failed) (pmap_cases.py:")
        close(outs[0], x / 2)
    two = xpr.pmap(lambda x, y: (x + 1, y * 2), in_axes=(0, None))
    (eqn,) = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x, y: two(x, y)[1])(x, 1.0)).jaxpr.eqns
    assert len(eqn.outvars) == 1 and eqn.params["in_axes"] == (None,) and eqn.params["donated_invars"] == (False,)


def test_lowered():
    mapped = xpr.pmap(lambda x, n: x * n / lax.psum(x, "i"), "i", static_broadcasted_argnums=1, donate_argnums=0)
    lowered = mapped.lower(xpr.ShapeDtypeStruct((8, 3), np.float32), 3)
    assert "stablehlo.all_reduce" in lowered.as_text() and lowered.cost_analysis()["flops"] > 0
    compiled = lowered.compile()
    assert "all-reduce" in compiled.as_text() and [each.kind for each in compiled.collectives()] == ["all-reduce"]
    assert compiled.input_shardings[0][0].spec == compiled.output_shardings.spec == P("i")
    assert compiled.memory_analysis().alias_size_in_bytes == 12
    x = xpr.pmap(lambda x: x)(EIGHT)
    close(compiled(x), 3 * EIGHT / EIGHT.sum(0))
    assert x.is_deleted()
    with pytest.raises(ValueError, match="is mapped over 9 rows"):
        mapped.lower(xpr.ShapeDtypeStruct((9, 3), np.float32), 3)


def test_as_jax():
    def fun(library):
        def each(x, w):
            y = library.numpy.tanh(x @ w)
            return y / library.lax.psum(y * y, "i"), library.lax.pmean(y, "i")

        return each

    def loss(library):
        mapped = library.pmap(fun(library), axis_name="i", in_axes=(0, None), out_axes=(0, None))
        return lambda x, w: sum((y**2).sum() for y in mapped(x, w))

    x, w = floats(8, 3, 4), floats(4, 5, salt=2)

    def results(lib):
        return lib.pmap(fun(lib), axis_name="i", in_axes=(0, None))(x, w), lib.grad(loss(lib), (0, 1))(x, w)

    ours = results(xpr)
    beside(results, lambda theirs: close(ours, list(map(np.asarray, theirs))))


@pytest.mark.parametrize("collective", [lax.pmax, lax.pmin])
@pytest.mark.parametrize("index", [0, 3, 7])
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_extremes_of_nan(collective, index, nan):
    x = floats(8)
    x[index] = nan
    x[(index + 1) % 8] = np.inf
    assert np.isnan(xpr.pmap(lambda v: collective(v, "i"), "i")(x)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz"])
def test_extremes_are_one_collective_each(dtype):
    x = np.array([-0.0, 3, -np.inf, 0.5, -7, 0.0, 2, 1]) if "float8" not in dtype else np.arange(8.0) - 5
    with xpr.enable_x64(True):
        x = jnp.asarray(x, dtype)
        extremes = xpr.pmap(lambda v: (lax.pmax(v, "i"), lax.pmin(v, "i")), "i")
        assert extremes.lower(x).as_text().count("all_reduce") == 2
        greatest, least = extremes(x)
    assert greatest.dtype == least.dtype == x.dtype
    assert (np.asarray(greatest) == np.asarray(x).max()).all() and (np.asarray(least) == np.asarray(x).min()).all()

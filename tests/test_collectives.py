"""Collectives over the axes that vmap names: values by hand, derivatives, jit, nesting, printing, and messages."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close
from tests.ops.table import floats
from xpr import lax
from xpr.config_contexts import enable_x64
from xpr.testing import check_grads

X = floats(4, 4, 2, 6)
GROUPS = [[0, 2], [3, 1]]


def mapped(fun, x=X, **kwargs):
    return xpr.vmap(fun, axis_name="i", **kwargs)(x)


def in_every_row(x):
    return np.stack([x] * 4)


# What each comes to, in NumPy: from all the rows, to all the rows.
MEANINGS = {
    "psum": (lambda v: lax.psum(v, "i"), lambda x: in_every_row(x.sum(0))),
    "pmean": (lambda v: lax.pmean(v, "i"), lambda x: in_every_row(x.mean(0))),
    "pmax": (lambda v: lax.pmax(v, "i"), lambda x: in_every_row(x.max(0))),
    "pmin": (lambda v: lax.pmin(v, "i"), lambda x: in_every_row(x.min(0))),
    "index": (lambda v: v * lax.axis_index("i"), lambda x: x * np.arange(4, dtype=np.float32)[:, None, None, None]),
    "size": (lambda v: v * lax.axis_size("i"), lambda x: x * np.float32(4)),
    "all_gather": (lambda v: lax.all_gather(v, "i"), in_every_row),
    "all_gather axis": (lambda v: lax.all_gather(v, "i", axis=-2), lambda x: in_every_row(np.moveaxis(x, 0, 2))),
    "all_gather tiled": (
        lambda v: lax.all_gather(v, "i", axis=1, tiled=True), lambda x: in_every_row(np.concatenate(x, 1)),
    ),
    "psum_scatter": (lambda v: lax.psum_scatter(v, "i"), lambda x: x.sum(0)),
    "psum_scatter tiled": (
        lambda v: lax.psum_scatter(jnp.tile(v, 2), "i", scatter_dimension=2, tiled=True),
        lambda x: np.stack(np.split(np.tile(x.sum(0), 2), 4, 2)),
    ),
    "ppermute": (
        lambda v: lax.ppermute(v, "i", [(0, 1), (1, 3), (3, 0)]), lambda x: np.stack([x[3], x[0], 0 * x[0], x[1]]),
    ),
    "pshuffle": (lambda v: lax.pshuffle(v, "i", [2, 0, 3, 1]), lambda x: x[[2, 0, 3, 1]]),
    "pbroadcast": (lambda v: lax.pbroadcast(v, "i", 2), lambda x: in_every_row(x[2])),
    "all_to_all": (lambda v: lax.all_to_all(v, "i", 0, 1), lambda x: np.moveaxis(x, (0, 1), (2, 0))),
    "all_to_all tiled": (
        lambda v: lax.all_to_all(v, "i", 0, 2, tiled=True),
        lambda x: np.moveaxis(x, (0, 1), (2, 0)).reshape(4, 1, 2, 24),
    ),
    "pswapaxes": (lambda v: lax.pswapaxes(v, "i", 0), lambda x: np.swapaxes(x, 0, 1)),
}  # fmt: skip


@pytest.fixture(params=MEANINGS)
def meaning(request):
    return MEANINGS[request.param]


def test_values(meaning):
    fun, in_numpy = meaning
    close(mapped(fun), in_numpy(X))


def test_over_another_axis_of_the_arguments(meaning):
    fun, in_numpy = meaning
    close(mapped(fun, np.moveaxis(X, 0, 2), in_axes=2), in_numpy(X))


def test_jit_inside_and_outside(meaning):
    fun, in_numpy = meaning
    close(xpr.jit(lambda x: mapped(xpr.jit(fun), x))(X), in_numpy(X))


def test_what_is_the_same_in_all_rows(meaning):
    fun, in_numpy = meaning
    with_rows = xpr.vmap(lambda _, v: fun(v), in_axes=(0, None), axis_name="i")
    close(with_rows(np.zeros(4, np.float32), X[0]), in_numpy(in_every_row(X[0])))


def test_inside_a_map_over_rows_that_do_not_communicate(meaning):
    fun, in_numpy = meaning
    both = np.stack([X, 2 * X])
    expected = np.stack([in_numpy(x) for x in both])
    close(xpr.vmap(mapped_fun(fun))(both), expected)
    across = xpr.vmap(xpr.vmap(fun, in_axes=-1, out_axes=-1), axis_name="i")(np.moveaxis(both, 0, -1))
    close(across, np.moveaxis(expected, 0, -1))


def mapped_fun(fun):
    return lambda x: mapped(fun, x)


def test_derivatives_of_the_whole(meaning):
    fun, in_numpy = meaning
    weights = floats(*in_numpy(X).shape, salt=1)

    def total(x):
        return jnp.sum(weights * jnp.sin(mapped(fun, x)))

    with enable_x64():
        check_grads(total, (X.astype(np.float64),), order=1)


def test_derivatives_in_the_rows(meaning):
    """In each row the derivative of the sum of all rows' losses: the collectives' transposes communicate, too."""
    fun, in_numpy = meaning
    weights = floats(*in_numpy(X).shape, salt=1)

    def loss(v, w):
        return jnp.sum(w * jnp.sin(fun(v)))

    in_rows = xpr.vmap(xpr.grad(loss), axis_name="i")
    of_all = xpr.grad(lambda x: jnp.sum(xpr.vmap(loss, axis_name="i")(x, weights)))(X)
    close(in_rows(X, weights), of_all)
    close(xpr.jit(in_rows)(X, weights), of_all)
    tangents = xpr.vmap(lambda v, w, t: xpr.jvp(lambda v: loss(v, w), (v,), (t,))[1], axis_name="i")
    direction = floats(*X.shape, salt=2)
    close(np.asarray(tangents(X, weights, direction)).sum(), (of_all * direction).sum())


def test_ties_share_the_derivative_of_a_maximum():
    rows = np.array([1.0, 3.0, 3.0], np.float32)
    close(xpr.grad(lambda x: mapped(lambda v: lax.pmax(v, "i"), x)[0])(rows), np.array([0, 0.5, 0.5], np.float32))


# -- Several axes


def test_several_names():
    x = floats(4, 3, 5)

    def twice(fun):
        return xpr.vmap(xpr.vmap(fun, axis_name="j"), axis_name="i")(x)

    everywhere = np.ones((4, 3, 1), np.float32)
    close(twice(lambda v: lax.psum(v, ("i", "j"))), everywhere * x.sum((0, 1)))
    close(twice(lambda v: lax.psum(v, "j")), everywhere * x.sum(1, keepdims=True))
    close(twice(lambda v: lax.pmin(v, ("j", "i"))), everywhere * x.min((0, 1)))
    close(twice(lambda v: lax.axis_index(("i", "j"))), np.arange(12, dtype=np.int32).reshape(4, 3))
    close(twice(lambda v: lax.axis_index(("j", "i"))), np.arange(12, dtype=np.int32).reshape(3, 4).T)
    close(twice(lambda v: lax.all_gather(v, ("i", "j"))), everywhere[..., None] * x.reshape(12, 5))
    close(twice(lambda v: lax.psum_scatter(lax.all_gather(v, ("i", "j")), ("i", "j"))), 12 * x)
    close(twice(lambda v: v * lax.psum(1, ("i", "j"))), 12 * x)
    close(twice(xpr.jit(lambda v: lax.psum(lax.psum(v, "i"), "j"))), everywhere * x.sum((0, 1)))


def test_axes_by_number():
    x = floats(4, 3, 5)
    close(mapped(lambda v: lax.psum(v, (0, "i")), x), in_every_row(x.sum((0, 1))))
    close(lax.psum(x, (0, 2)), x.sum((0, 2)))


def test_an_inner_axis_hides_an_outer_one_of_the_same_name():
    x = floats(4, 3)
    close(mapped(lambda v: mapped(lambda w: lax.psum(w, "i"), v), x), np.repeat(x.sum(1, keepdims=True), 3, 1))


# -- Trees, numbers, dtypes


def test_trees():
    out = mapped(lambda v: lax.psum({"a": v, "b": (v * 2, 3)}, "i"))
    close(out["a"], in_every_row(X.sum(0)))
    close(out["b"][0], in_every_row(2 * X.sum(0)))
    assert out["b"][1].tolist() == [12] * 4
    assert mapped(lambda v: lax.psum((), "i")) == ()


def test_a_number_is_multiplied_by_the_size_of_the_axis():
    sizes = []

    def fun(v):
        sizes.extend([lax.psum(1, "i"), lax.psum(0.5, "i"), lax.psum(True, "i"), lax.pmean(3, "i")])
        return v

    mapped(fun)
    assert sizes == [4, 2.0, 4, 3.0]


def test_dtypes():
    flags = np.array([True, False, True, True])
    close(mapped(lambda v: lax.psum(v, "i"), flags), np.full(4, 3, np.int32))
    close(mapped(lambda v: lax.pmean(v, "i"), np.arange(4, dtype=np.int32)), np.full(4, 1.5, np.float32))
    with pytest.raises(TypeError, match="pmax: takes .* c64"):
        xpr.jit(lambda x: mapped(xpr.jit(lambda v: lax.pmax(v, "i")), x))(np.ones(4, np.complex64))


# -- Groups


def test_groups():
    a, b = X[0] + X[2], X[1] + X[3]
    close(mapped(lambda v: lax.psum(v, "i", axis_index_groups=GROUPS)), np.stack([a, b, a, b]))
    close(mapped(lambda v: lax.pmean(v, "i", axis_index_groups=GROUPS)), np.stack([a, b, a, b]) / 2)
    c = X[0] + X[2] + X[3]
    close(mapped(lambda v: lax.psum(v, "i", axis_index_groups=[[1], [0, 3, 2]])), np.stack([c, X[1], c, c]))
    even, odd = np.stack([X[0], X[2]], 1), np.stack([X[3], X[1]], 1)
    gathered = mapped(lambda v: lax.all_gather(v, "i", axis=1, axis_index_groups=GROUPS))
    close(gathered, np.stack([even, odd, even, odd]))
    scattered = mapped(lambda v: lax.psum_scatter(v, "i", scatter_dimension=1, axis_index_groups=GROUPS))
    close(scattered, np.stack([a[:, 0], b[:, 1], a[:, 1], b[:, 0]]))
    exchanged = mapped(lambda v: lax.all_to_all(v, "i", 1, 1, axis_index_groups=GROUPS))
    rows = [(0, 2, 0), (3, 1, 1), (0, 2, 1), (3, 1, 0)]
    close(exchanged, np.stack([np.stack([X[i][:, k], X[j][:, k]], 1) for i, j, k in rows]))


def test_groups_are_checked():
    with pytest.raises(ValueError, match="every index of the named axis once"):
        mapped(lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1], [2]]))
    with pytest.raises(ValueError, match="of one size"):
        mapped(lambda v: lax.all_gather(v, "i", axis_index_groups=[[0], [1, 2, 3]]))
    with pytest.raises(ValueError, match="differs from row to row"):
        mapped(lambda v: lax.psum(1, "i", axis_index_groups=[[0], [1, 2, 3]]))


# -- Jaxprs and messages


def test_jaxprs():
    def fun(x):
        return lax.psum(x, "rows"), lax.all_gather(x, "rows"), lax.ppermute(x, "rows", [(0, 1), (1, 0)])

    text = str(xpr.make_jaxpr(fun, axis_env=[("rows", 2)])(np.ones(3, np.float32)))
    assert text == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = psum[axes=('rows',) axis_index_groups=None] a\n"
        "    c:f32[2,3] = all_gather[\n"
        "      all_gather_dimension=0\n"
        "      axis_index_groups=None\n"
        "      axis_name=('rows',)\n"
        "      axis_size=2\n"
        "      tiled=False\n"
        "    ] a\n"
        "    d:f32[3] = ppermute[axis_name=('rows',) perm=((0, 1), (1, 0))] a\n"
        "  in (b, c, d) }"
    )


def test_a_jitted_function_is_traced_for_each_size_of_the_axis():
    mean = xpr.jit(lambda v: lax.pmean(v, "i"))
    for n in (2, 3, 2):
        close(mapped(mean, np.arange(n, dtype=np.float32)), np.full(n, (n - 1) / 2, np.float32))


def test_all_gather_takes_the_names_of_types_that_jax_has():
    gathered = lambda to: xpr.vmap(lambda x: lax.all_gather(x, "i", to=to), axis_name="i")(jnp.arange(2.0))
    for to in ("varying", "reduced", "invarying"):
        assert gathered(to).tolist() == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match="to must be 'varying', 'reduced' or 'invarying', and is 'all'"):
        gathered("all")


def test_names_must_be_mapped():
    with pytest.raises(xpr.errors.AxisNameError, match="unbound axis name: j. The axes in scope here are: 'i'"):
        mapped(lambda v: lax.psum(v, "j"))
    for fun in (lax.psum, lax.pmax, lax.all_gather, lax.psum_scatter):
        with pytest.raises(NameError, match="vmap"):
            fun(1.0, "i")
    with pytest.raises(NameError):
        lax.axis_index("i")
    staged = xpr.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 2)])(1.0)
    with pytest.raises(NotImplementedError, match="psum.*named axis"):
        xpr.core.jaxpr_as_fun(staged)(1.0)


def test_arguments_are_checked():
    for perm in ([(0, 1), (2, 1)], [(0, 1), (0, 2)], [(0, 4)]):
        with pytest.raises(ValueError, match="ppermute: perm must name indices along 'i', from 0 to 3"):
            mapped(lambda v, perm=perm: lax.ppermute(v, "i", perm))
    with pytest.raises(ValueError, match="pshuffle"):
        mapped(lambda v: lax.pshuffle(v, "i", [0, 0, 1, 2]))
    with pytest.raises(ValueError, match=r"psum_scatter: axis 1 of f32\[4,2,6\] is dealt out to 4 rows"):
        mapped(lambda v: lax.psum_scatter(v, "i", scatter_dimension=1))
    with pytest.raises(ValueError, match="all_to_all: axis 1 .* is split among 4 rows"):
        mapped(lambda v: lax.all_to_all(v, "i", 1, 0))
    for call in (
        lambda v: lax.all_gather(v, "i", axis=7),
        lambda v: lax.all_gather(v, "i", axis=-5),
        lambda v: lax.psum_scatter(v, "i", scatter_dimension=-4, tiled=True),
        lambda v: lax.all_to_all(v, "i", -4, 0),
        lambda v: lax.all_to_all(v.sum(), "i", -1, 0),
    ):
        with pytest.raises(ValueError, match="out of its range"):
            mapped(call)
    for axis in (3, -4):
        with pytest.raises(ValueError, match=f"axis {axis} is out of bounds for an array of 3 axes"):
            mapped(lambda v, axis=axis: lax.psum(v, ("i", axis)))
    for source in (4, -1):
        with pytest.raises(ValueError, match=f"pbroadcast: source must be .* 'i', from 0 to 3, and is {source}"):
            mapped(lambda v, source=source: lax.pbroadcast(v, "i", source))
    for call in (
        lambda v: lax.ppermute(v, "i", [(0, 1.5)]),
        lambda v: lax.psum(v, "i", axis_index_groups=[[0.5, 1], [2, 3]]),
    ):
        with pytest.raises(TypeError, match="integer"):
            mapped(call)
    with pytest.raises(NotImplementedError, match="runs along the axes .* as one, of which vmap maps"):
        mapped(lambda v: mapped_fun(lambda w: lax.ppermute(w, ("i", "i"), [(0, 1)]))(v))


def test_the_sum_of_a_number_that_is_the_same_in_all_rows():
    jaxpr = xpr.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(2.0).jaxpr
    for number in (2.0, np.float32(2), jnp.asarray(2.0)):
        total = xpr.vmap(lambda x, n=number: xpr.core.eval_jaxpr(jaxpr, [], n)[0], axis_name="i", out_axes=None)
        assert float(total(jnp.arange(4.0))) == 8


class TestRaggedExchange:
    rows, slices = 3, 2  # slices from each row to each

    def sizes(self):
        return np.random.default_rng(0).integers(0, 4, (self.rows, self.rows * self.slices)).astype(np.int32)

    def arguments(self):
        sent = self.sizes()
        by_receiver = sent.reshape(self.rows, self.rows, self.slices).swapaxes(0, 1).reshape(self.rows, -1)
        starts, arrivals = (np.cumsum(x, 1) - x for x in (sent, by_receiver))
        there = arrivals.reshape(self.rows, self.rows, self.slices).swapaxes(0, 1).reshape(self.rows, -1)
        data = np.random.default_rng(1).normal(size=(self.rows, 24, 2)).astype(np.float32)
        return data, np.full((self.rows, 30, 2), -1, np.float32), *map(np.int32, (starts, sent, there, by_receiver))

    def test_slices_arrive(self):
        data, output, starts, sent, there, received = arguments = self.arguments()
        expected = output.copy()
        for row, index in np.ndindex(sent.shape):
            start, size, at = starts[row, index], sent[row, index], there[row, index]
            expected[index // self.slices, at : at + size] = data[row, start : start + size]
        exchange = xpr.vmap(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"), axis_name="i")
        for way in (exchange, xpr.jit(exchange)):
            np.testing.assert_array_equal(way(*arguments), expected)
        given = xpr.grad(lambda x: exchange(x, *arguments[1:]).sum())(data)
        np.testing.assert_array_equal(given[:, :, 0], np.arange(24) < sent.sum(1)[:, None])
        assert (received.sum(1) > 0).all()

    def test_errors(self):
        x, n = jnp.ones((4, 2)), jnp.ones(2, int)
        one_row = lambda *xs: xpr.vmap(
            lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"), axis_name="i", axis_size=2, in_axes=None
        )(*xs)
        for arguments, error, message in [
            ((x, x.astype(int), n, n, n, n), TypeError, "of one dtype"),
            ((x, x[:, :1], n, n, n, n), ValueError, "the same sizes from the second axis on"),
            ((x, x, n, n, n, n[:1]), ValueError, r"vectors of integers of one length, and are i32\[2\], .*i32\[1\]"),
            ((x, x, n, n, n, jnp.ones(2)), ValueError, "vectors of integers"),
            ((x, x, *[jnp.ones(3, int)] * 4), ValueError, "all_to_all"),
        ]:
            with pytest.raises(error, match=message):
                one_row(*arguments)


def test_tokens():
    token = lax.after_all(lax.create_token(), lax.create_token(1.0))
    assert token.shape == (0,) and lax.after_all().shape == (0,)
    assert "optimization_barrier" in str(xpr.make_jaxpr(lax.after_all)(token, token))
    with pytest.raises(TypeError, match=r"takes tokens, which lax.create_token makes, and got f32\[2\]"):
        lax.after_all(token, jnp.ones(2))


@pytest.mark.parametrize("tiled", [False, True])
def test_all_to_all_along_two_axes(tiled):
    """As along one axis of as many rows, with the last name fastest."""
    x = floats(6, 6, 5, 12)
    for axes in ((0, 0), (0, 1), (2, 1) if tiled else (0, 2)):
        one, two = (lambda v, n=n, axes=axes: lax.all_to_all(v, n, *axes, tiled=tiled) for n in ("k", ("i", "j")))
        out = xpr.vmap(xpr.vmap(two, axis_name="j"), axis_name="i")(x.reshape(2, 3, 6, 5, 12))
        close(out.reshape(6, *out.shape[2:]), xpr.vmap(one, axis_name="k")(x))
    exchange = lambda v: lax.all_to_all(v, ("i", "j"), 0, 0, axis_index_groups=((0, 2, 4), (1, 3, 5)))
    with pytest.raises(NotImplementedError, match=r"the axes \('i', 'j'\) as one, of which vmap maps 'j'"):
        xpr.vmap(xpr.vmap(exchange, axis_name="j"), axis_name="i")(jnp.ones((2, 3, 3, 5)))


def test_a_cast_over_no_axes_is_the_value():
    x = jnp.arange(3.0)
    assert lax.pcast(x, (), to="varying") is x
    with pytest.raises(ValueError, match="where 'i' is an axis of the mesh, and nothing is mapped here"):
        lax.pcast(x, "i", to="varying")


@pytest.mark.parametrize("reduce", [lax.psum, lax.pmax, lax.pmin, lax.pmean], ids=lambda f: f.__name__)
def test_positional_axes_must_be_there(reduce):
    for axis in (2, -3, (0, 5)):
        with pytest.raises(ValueError, match="out of bounds for an array of 2 axes"):
            reduce(jnp.ones((2, 3)), axis)
    with pytest.raises(ValueError, match="out of bounds for an array of 0 axes"):
        reduce(jnp.ones(()), 0)


def test_booleans_of_python_are_counted():
    total, mean = xpr.vmap(lambda x: (lax.psum(True, "i"), lax.pmean(False, "i")), axis_name="i")(jnp.ones(3))
    assert total.tolist() == [3] * 3 and total.dtype == np.int32 and not total.weak_type
    assert mean.tolist() == [0.0] * 3 and mean.dtype == np.float32 and not mean.weak_type
    assert xpr.vmap(lambda x: lax.psum(2, "i"), axis_name="i")(jnp.ones(3)).weak_type


# -- Reductions of xpr.numpy and xpr.nn over mapped axes, by name

BY_NAME = {
    "sum": (lambda v, axis: jnp.sum(v, axis), lambda x, axes: x.sum(axes)),
    "sum of booleans": (lambda v, axis: jnp.sum(v > 0, axis), lambda x, axes: (x > 0).sum(axes, dtype=np.int32)),
    "sum with a mask": (lambda v, axis: jnp.sum(v, axis, where=v > 0), lambda x, axes: x.sum(axes, where=x > 0)),
    "sum and initial": (lambda v, axis: jnp.sum(v, axis, initial=2), lambda x, axes: x.sum(axes) + 2),
    "max": (lambda v, axis: jnp.max(v, axis), lambda x, axes: x.max(axes)),
    "min": (lambda v, axis: v.min(axis), lambda x, axes: x.min(axes)),
    "max of complex numbers": (lambda v, axis: jnp.max(1j * v, axis), lambda x, axes: 1j * x.max(axes)),
    "all": (lambda v, axis: jnp.all(v > -1, axis), lambda x, axes: (x > -1).all(axes)),
    "any": (lambda v, axis: jnp.any(v > 1, axis), lambda x, axes: (x > 1).any(axes)),
    "count_nonzero": (
        lambda v, axis: jnp.count_nonzero(v > 0, axis), lambda x, axes: (x > 0).sum(axes, dtype=np.int32),
    ),
    "mean": (lambda v, axis: jnp.mean(v, axis), lambda x, axes: x.mean(axes)),
    "mean with a mask": (lambda v, axis: jnp.mean(v, axis, where=v > 0), lambda x, axes: x.mean(axes, where=x > 0)),
    "var": (lambda v, axis: jnp.var(v, axis), lambda x, axes: x.var(axes)),
    "std": (lambda v, axis: jnp.std(v, axis, ddof=1), lambda x, axes: x.std(axes, ddof=1)),
    "var with a mask": (lambda v, axis: jnp.var(v, axis, where=v > 0), lambda x, axes: x.var(axes, where=x > 0)),
    "ptp": (lambda v, axis: jnp.ptp(v, axis), lambda x, axes: np.ptp(x, axes)),
    "nansum": (lambda v, axis: jnp.nansum(jnp.log(v), axis), lambda x, axes: np.nansum(np.log(x), axes)),
    "nanmax": (lambda v, axis: jnp.nanmax(jnp.log(v), axis), lambda x, axes: np.nanmax(np.log(x), axes)),
    "nanmean": (lambda v, axis: jnp.nanmean(jnp.log(v), axis), lambda x, axes: np.nanmean(np.log(x), axes)),
    "logsumexp": (lambda v, axis: xpr.nn.logsumexp(v, axis), lambda x, axes: np.log(np.exp(x).sum(axes))),
    "logsumexp with factors": (
        lambda v, axis: xpr.nn.logsumexp(v, axis, b=v * v), lambda x, axes: np.log((x * x * np.exp(x)).sum(axes)),
    ),
    "logmeanexp": (lambda v, axis: xpr.nn.logmeanexp(v, axis), lambda x, axes: np.log(np.exp(x).mean(axes))),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of rows without an element
@pytest.mark.parametrize(("axis", "axes"), [("i", 0), (("i", -1), (0, 3)), ([0, "i", 2], (0, 1, 3))])
@pytest.mark.parametrize("name", BY_NAME)
def test_reductions_over_mapped_axes(name, axis, axes):
    fun, meaning = BY_NAME[name]
    with np.errstate(all="ignore"):
        expected = in_every_row(meaning(X, axes))
    close(mapped(lambda v: fun(v, axis)), expected, 1e-5)
    close(xpr.jit(lambda x: mapped(lambda v: fun(v, axis), x))(X), expected, 1e-5)


@pytest.mark.parametrize("axis", ["i", ("i", 1)])
def test_softmax_and_standardize_over_mapped_axes(axis):
    axes = (0,) if axis == "i" else (0, 2)
    weights = np.exp(X) / np.exp(X).sum(axes, keepdims=True)
    close(mapped(lambda v: xpr.nn.softmax(v, axis)), weights, 1e-5)
    close(mapped(lambda v: xpr.nn.log_softmax(v, axis)), np.log(weights), 1e-5)
    centered = X - X.mean(axes, keepdims=True)
    expected = centered / np.sqrt(X.var(axes, keepdims=True) + 1e-5)
    close(mapped(lambda v: xpr.nn.standardize(v, axis)), expected, 1e-4)
    of_rows = xpr.grad(lambda x: jnp.sum(jnp.sin(mapped(lambda v: xpr.nn.softmax(v, axis), x))))(X)
    close(of_rows, xpr.grad(lambda x: jnp.sum(jnp.sin(xpr.nn.softmax(x, axes))))(X), 1e-5)


def test_reductions_over_mapped_axes_keep_those_of_the_array():
    assert mapped(lambda v: jnp.mean(v, ("i", 1), keepdims=True)).shape == (4, 4, 1, 6)
    assert mapped(lambda v: jnp.var(v, "i", keepdims=True)).shape == X.shape


@pytest.mark.parametrize("name", ["sum", "max", "mean", "var", "logsumexp"])
def test_derivatives_of_reductions_over_mapped_axes(name):
    fun, _ = BY_NAME[name]
    by_name = xpr.grad(lambda x: jnp.sum(jnp.sin(mapped(lambda v: fun(v, ("i", 0)), x))))(X)
    close(by_name, xpr.grad(lambda x: 4 * jnp.sum(jnp.sin(fun(x, (0, 1)))))(X), 1e-4)


def test_sizes_of_mapped_axes_are_not_remembered():
    for n in (2, 3):
        for fun in (jnp.mean, jnp.var, jnp.count_nonzero, xpr.nn.logmeanexp):
            result = xpr.vmap(lambda x, fun=fun: fun(jnp.arange(2.0), "i"), axis_name="i")(jnp.ones(n))
            assert result.shape == (n, 2)
        assert xpr.vmap(lambda x: jnp.count_nonzero(jnp.ones(2), "i"), axis_name="i")(jnp.ones(n))[0, 0] == n


def test_reductions_over_the_axes_of_a_mesh():
    mesh = xpr.make_mesh((1,), ("rows",))
    mean = xpr.shard_map(
        lambda x: jnp.mean(x, ("rows", 0)), mesh=mesh, in_specs=xpr.P("rows"), out_specs=xpr.P()
    )  # fmt: skip
    close(mean(X), X.mean((0,)), 1e-5)


def test_messages_of_reductions_over_mapped_axes():
    with pytest.raises(NotImplementedError, match=r"jnp.prod does not reduce mapped axes, and axis names 'i'"):
        mapped(lambda v: jnp.prod(v, "i"))
    with pytest.raises(ValueError, match=r"duplicate value in 'axis': \('i', 'i'\) has a repeated name"):
        mapped(lambda v: jnp.sum(v, ("i", "i")))
    with pytest.raises(NameError, match=r"unbound axis name: j"):
        mapped(lambda v: jnp.sum(v, "j"))

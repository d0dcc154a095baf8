"""x[mask] with a mask of unknown values: reductions, elementwise functions, `.at`; what else asks for a size."""

import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, in_numpy, values_close
from xpr import lax, nn
from xpr.errors import NonConcreteBooleanIndexError

X = jnp.arange(12.0).reshape(4, 3) - 5
ROWS = jnp.array([True, False, True, True])

CASES = {
    "sum": lambda x, m: x[m].sum(),
    "sum of rows": lambda x, m: x[m].sum(axis=0),
    "reductions over other axes": lambda x, m: x[m].mean(1).max(),
    "mean": lambda x, m: x[m].mean(axis=0),
    "max": lambda x, m: x[m].max(),
    "min": lambda x, m: jnp.min(x[m], axis=0),
    "prod": lambda x, m: x[m].prod(),
    "var": lambda x, m: x[m].var(axis=0),
    "std": lambda x, m: jnp.std(x[m], ddof=1),
    "any": lambda x, m: (x[m] > 5).any(axis=0),
    "all": lambda x, m: jnp.all(x[m] > -5),
    "count": lambda x, m: jnp.count_nonzero(x[m]),
    "norm": lambda x, m: jnp.linalg.norm(x[m]),
    "norms of rows": lambda x, m: jnp.linalg.norm(x[m], axis=1).mean(),
    "orders of norms": lambda x, m: jnp.linalg.norm(x[x > 0], ord=1) + jnp.linalg.norm(x[x > 0], ord=jnp.inf),
    "with what is not selected": lambda x, m: jnp.abs(x[m] - x[m].mean(0) + jnp.ones(3)).sum(),
    "a mask of all axes": lambda x, m: x[x > 1].std(),
    "masks of later axes": lambda x, m: x[:, jnp.any(x > 4, axis=0)].sum(1),
    "a mask after ...": lambda x, m: x.T[..., m].mean(-1),
    "slices of other axes": lambda x, m: x[m][:, 0].sum() + x[1:][m[1:]][:, 1:].max(),
    "pairs": lambda x, m: jnp.square(x[m][:, None] - x[m][None]).sum(),
    "products": lambda x, m: ((x[m] @ jnp.ones((3, 2))) ** 2).sum() + (x[m].T @ x[m]).sum(),
    "einsum": lambda x, m: jnp.einsum("ij,ij->i", x[m], x[m]).max(),
    "where": lambda x, m: jnp.where(x[m] > 0, x[m], 0.5).sum(),
    "a mask of what a mask selects": lambda x, m: nested(x),
    "integers": lambda x, m: x.astype(int)[m].sum() + nn.one_hot(jnp.arange(4)[m], 4).sum(0),
    "set": lambda x, m: x.at[m].set(x[m] * 2),
    "set of repeated values": lambda x, m: x.at[m].multiply(x[m][:, :1]),
    "add": lambda x, m: x.at[m].add(x[m].mean(0)),
    "calls": lambda x, m: xpr.jit(lambda y: jnp.sin(y).sum())(x[m]),
    "log_softmax": lambda x, m: nn.log_softmax(x[m]).sum(),
    "logsumexp": lambda x, m: nn.logsumexp(x[m], axis=0),
    "median": lambda x, m: jnp.median(x[m]) + jnp.median(x[m], axis=0),
    "quantiles": lambda x, m: jnp.quantile(x[m], jnp.array([0.2, 0.5, 1.0]), axis=0, keepdims=True),
    "nanmedian": lambda x, m: jnp.nanpercentile(jnp.where(x[m] > 4, jnp.nan, x[m]), 30.0),
    "two masks in turn": lambda x, m: x[m].sum() * x[~m].max(),
}


def nested(x):
    y = x[x > -2]
    return y[y > 0].sum()


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_known_masks(name):
    function = CASES[name]
    expected = function(X, ROWS)
    compiled = xpr.jit(function)(X, ROWS)
    assert compiled.aval == expected.aval
    close(compiled, expected)
    xs, masks = jnp.stack([X, 2 * X]), jnp.stack([ROWS, jnp.roll(ROWS, 1)])
    mapped = [function(X, ROWS), function(2 * X, jnp.roll(ROWS, 1))]
    close(xpr.vmap(function)(xs, masks), jnp.stack(mapped))


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_known_masks(name):
    total = lambda x: jnp.sum(CASES[name](x, ROWS) * 1.0)
    expected = in_numpy(xpr.grad(total))(X)
    close(xpr.jit(xpr.grad(total))(X), expected, 1e-4)
    close(xpr.grad(lambda x: jnp.sum(xpr.jit(CASES[name])(x, ROWS) * 1.0))(X), expected, 1e-4)


def test_elements_that_are_not_selected_have_no_part_in_derivatives():
    def function(x):
        positive = x[x > 0]
        return (jnp.log(positive) + jnp.sqrt(positive)).sum()

    x = jnp.array([-1.0, 0.0, 4.0])
    values_close(xpr.jit(xpr.grad(function))(x), [0.0, 0.0, 0.5])
    values_close(xpr.jit(xpr.grad(function))(-x), [2.0 - 0.5, 0.0, 0.0])
    close(xpr.jit(xpr.grad(function))(jnp.zeros(3)), jnp.zeros(3))  # where none is selected


def test_of_no_elements_reductions_are_neutral():
    x, none = X, jnp.zeros(4, bool)
    run = lambda f: xpr.jit(lambda x, m: f(x[m]))(x, none)
    assert run(jnp.sum) == 0 and run(jnp.prod) == 1 and not run(jnp.any) and run(jnp.all)
    assert run(jnp.max) == -jnp.inf and run(jnp.min) == jnp.inf and jnp.isnan(run(jnp.mean))


def test_a_nan_that_is_selected_makes_the_median_nan():
    x = jnp.array([1.0, jnp.nan, 3.0])
    median = xpr.jit(lambda x, m: jnp.median(x[m]))
    assert jnp.isnan(median(x, jnp.array([True, True, False])))
    assert median(x, jnp.array([True, False, True])) == 2
    assert jnp.isnan(median(x, jnp.zeros(3, bool)))


@xpr.custom_jvp
def by_jvp(x, w):
    return jnp.sin(x) * w, (x * w).sum()


by_jvp.defjvp(
    lambda p, t: (
        by_jvp(*p),
        (2 * jnp.cos(p[0]) * t[0] * p[1] + 7 * t[1], (3 * t[0] * p[1]).sum() + t[1].sum()),
    )
)
by_vjp = xpr.custom_vjp(lambda x, w: (jnp.sin(x) * w, (x * w).sum()))
by_vjp.defvjp(
    lambda x, w: (by_vjp(x, w), (x, w)),
    lambda r, c: (3 * jnp.cos(r[0]) * c[0] * r[1] + c[1], (c[0] * r[0]).sum(0) * 5),
)


@pytest.mark.parametrize("function", [by_jvp, by_vjp], ids=["custom_jvp", "custom_vjp"])
def test_functions_with_derivative_rules_of_their_own(function):
    w = jnp.array([1.0, 2.0, 3.0])

    def loss(x, m, w):
        rows, total = function(x[m], w)
        return (rows**2).sum() + total

    by_mask = xpr.jit(lambda x, w: loss(x, x[:, 0] > -3, w))
    close(xpr.jit(loss)(X, ROWS, w), loss(X, ROWS, w), 1e-4)
    slopes = xpr.grad(loss, (0, 2))(X, ROWS, w)
    close(xpr.jit(xpr.grad(loss, (0, 2)))(X, ROWS, w), slopes, 1e-4)
    close(xpr.grad(lambda x, w: xpr.jit(loss)(x, ROWS, w), (0, 1))(X, w), slopes, 1e-4)
    close(xpr.grad(by_mask)(X, w), xpr.grad(lambda x: loss(x, x[:, 0] > -3, w))(X), 1e-4)
    xs, masks = jnp.stack([X, X + 1]), jnp.stack([ROWS, ~ROWS])
    each = [xpr.grad(loss)(x, m, w) for x, m in zip(xs, masks)]
    close(xpr.jit(xpr.vmap(xpr.grad(loss), (0, 0, None)))(xs, masks, w), jnp.stack(each), 1e-4)


def test_updates_of_refs():
    def function(x, m):
        ref = xpr.new_ref(x)
        ref[m] += 1.0
        ref[m] = ref[m] * 2
        return xpr.freeze(ref)

    close(xpr.jit(function)(X, ROWS), jnp.where(ROWS[:, None], (X + 1) * 2, X))


def test_a_closure_over_what_a_mask_selects():
    def function(x, m):
        y = x[m]
        return xpr.grad(lambda w: (w * y).sum())(2.0)

    close(xpr.jit(function)(X, ROWS), X[ROWS].sum())


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda y: y, "It was returned"),
        (lambda y: len(y), "asked for its size"),
        (lambda y: y.shape, "asked for its size"),
        (lambda y: list(y), "asked for its size"),
        (lambda y: y[0], "given to `slice`"),
        (lambda y: y[5], "the number of selected elements is needed"),
        (lambda y: jnp.sort(y), "given to `sort`"),
        (lambda y: y.reshape(-1), "given to `reshape`"),
        (lambda y: jnp.concatenate([y, y]), "given to `concatenate`"),
        (lambda y: jnp.median(y, axis=1), "reduced over other axes"),
        (lambda y: lax.map(lambda row: row.sum(), y), "asked for its size|given to `scan`|number of selected"),
        (lambda y: xpr.vmap(jnp.sum)(y), "mapped over"),
        (lambda y: y + jnp.arange(float(len(X)))[:, None].at[ROWS].set(y[:, :1]), "of x.at.* with another index"),
        (lambda y: xpr.jit(lambda: y)(), "given to|It was returned"),
        (lambda y: bool(y.any(axis=1)), "asked for a value"),
    ],
)
def test_other_uses_name_the_line_of_the_mask(use, says):
    def function(x, m):
        y = x[m]  # the line
        return use(y)

    with pytest.raises(NonConcreteBooleanIndexError, match=says) as raised:
        xpr.jit(function)(X, ROWS)
    assert "jnp.where(mask, a, b)" in str(raised.value)  # as of any other mask
    assert "test_masked_selection.py:" in str(raised.value)
    assert "y = x[m]  # the line" in str(raised.value)


def test_what_outlives_its_function():
    kept = []
    xpr.jit(lambda x, m: kept.append(x[m]))(X, ROWS)
    with pytest.raises(NonConcreteBooleanIndexError, match="kept"):
        kept[0] + 1


@pytest.mark.parametrize("index", [lambda m: (m, 0), lambda m: m[:2], lambda m: (m, jnp.array([0, 1, 2]))])
def test_masks_beside_integers_or_of_other_sizes_are_as_before(index):
    with pytest.raises(NonConcreteBooleanIndexError, match="jnp.where"):
        xpr.jit(lambda x, m: x[index(m)].sum())(X, ROWS)


SPELLED_OUT = {
    "sum": lambda x: (jnp.sin(x[x > 0]) + x[x > 0] ** 2).sum(),
    "product": lambda x: jnp.vdot(x[x > x.mean()], x[x > x.mean()]),
    "of two": lambda x: (x[(x > -1) & (x < 1)] * x[(x > -1) & (x < 1)]).sum(),
    "at": lambda x: x.at[x > 0].set(x[x > 0] * 2),
    "rows": lambda x: (x[x[:, 0] > 0] - x[x[:, 0] > 0].mean(0)).std(0),
}


@pytest.mark.parametrize("name", SPELLED_OUT)
def test_masks_that_are_computed_alike_are_one(name):
    fun = SPELLED_OUT[name]
    close(xpr.jit(fun)(X), fun(X))
    if name != "rows":
        close(xpr.jit(xpr.vmap(fun))(X), jnp.stack([fun(row) for row in X]))
        close(xpr.vmap(fun)(X), jnp.stack([fun(row) for row in X]))
    total = lambda x: jnp.sum(fun(x))
    close(xpr.jit(xpr.grad(total))(X), xpr.grad(total)(X))
    close(xpr.grad(xpr.jit(total))(X), xpr.grad(total)(X))


def test_masks_of_refs_that_were_written_between_are_different():
    def fun(ref):
        first = ref[...][ref[...] > 0]
        ref[...] = -ref[...]
        return (first + ref[...][ref[...] > 0]).sum()

    with pytest.raises(ValueError, match=r"\(selected,\), \(selected_1,\)"):
        xpr.jit(fun)(xpr.new_ref(X))


def test_different_masks_do_not_go_together():
    with pytest.raises(ValueError, match="selected, 3.*selected_1, 3"):
        xpr.jit(lambda x, m: x[m] + x[~m])(X, ROWS)


def test_the_trace_ends_with_the_function():
    before = xpr.core.interpreter.context.trace
    xpr.jit(lambda x, m: x[m].sum())(X, ROWS)
    xpr.vmap(lambda x, m: x[m].sum())(X, X > 0)
    xpr.grad(lambda x: xpr.vmap(lambda x, m: x[m].sum())(x, X > 0).sum())(X)
    assert xpr.core.interpreter.context.trace is before

"""Reductions, statistics and cumulative functions against the peer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy
from tests.peer import check, close, evaluate
from xpr import lax, nn

X = np.array([[3.0, -1.0, 2.5], [0.0, 4.0, -2.0]], np.float32)
NAMES = {
    "x": X,
    "y": np.array([[[1.5, 2.0], [-3.0, 0.5]], [[4.0, nan := np.nan], [np.inf, -1.0]]], np.float32),
    "n": np.array([[nan, 1.0, 3.0], [2.0, nan, nan], [nan, nan, nan]], np.float32),
    "i": np.array([[3, -1, 7], [0, 4, 100]], np.int32),
    "i8": np.array([[3, -1, 7], [0, 4, 100]], np.int8),
    "u8": np.array([200, 100, 3], np.uint8),
    "b": np.array([[True, False, True], [False, False, True]]),
    "h": X.astype(np.float16),
    "f": X.astype(bfloat16),
    "c": (X + 1j * X[::-1]).astype(np.complex64),
    "mask": X > 0,
    "w": np.array([1.0, 2.0, 0.5], np.float32),
    "empty": np.zeros((0, 3), np.float32),
}

SUMS = """
jnp.sum(x)
jnp.sum(x, axis=0)
jnp.sum(x, axis=-1, keepdims=True)
jnp.sum(x, axis=(0, 1))
jnp.sum(x, axis=(-1, 0), keepdims=True)
jnp.sum(x, axis=())
jnp.sum(y, axis=(0, 2))
jnp.sum(x, initial=2.0, where=mask)
jnp.sum(x, where=mask[:1], axis=0)
jnp.sum(x, dtype=int)
jnp.sum(x, dtype='bfloat16')
jnp.sum(i)
jnp.sum(i8)
jnp.sum(i8, promote_integers=False)
jnp.sum(i8, dtype='int8')
jnp.sum(u8)
jnp.sum(b)
jnp.sum(b, dtype=bool)
jnp.sum(i, initial=1.5)
jnp.sum(h)
jnp.sum(f, axis=1)
jnp.sum(c, axis=1)
jnp.sum(empty, axis=0)
jnp.sum(2.0)
jnp.sum(2)
jnp.sum(True)
jnp.prod(x)
jnp.prod(x, axis=1, keepdims=True, initial=2)
jnp.prod(i8)
jnp.prod(b, axis=0)
jnp.prod(b, dtype=bool)
jnp.prod(x, where=mask)
jnp.prod(f, axis=1)
jnp.prod(c)
jnp.prod(empty)
jnp.count_nonzero(x)
jnp.count_nonzero(x, axis=1, keepdims=True)
jnp.count_nonzero(b, axis=0)
jnp.count_nonzero(3.0)
"""

EXTREMES = """
jnp.max(x)
jnp.max(x, axis=0)
jnp.max(y, axis=2)
jnp.min(y)
jnp.max(x, keepdims=True)
jnp.max(i8)
jnp.max(b)
jnp.min(b, axis=1)
jnp.max(f)
jnp.max(c)
jnp.min(c, axis=0, keepdims=True)
jnp.max(empty, axis=1)
jnp.max(empty, initial=1)
jnp.min(x, axis=0, keepdims=True, where=mask, initial=inf)
jnp.max(x, axis=1, where=mask, initial=-5)
jnp.max(i, initial=2.5)
jnp.max(b, where=mask, initial=False)
jnp.amax(x, 1)
jnp.amin(x, 1)
jnp.max(c, axis=0, initial=0.5j)
jnp.min(c, initial=9, where=c.real > 0)
jnp.max(c, axis=1, initial=-2, where=c.imag > 0, keepdims=True)
jnp.max(2.0)
jnp.any(i)
jnp.any(x, axis=0, keepdims=True)
jnp.any(i, where=mask)
jnp.all(x)
jnp.all(x, axis=0, where=mask)
jnp.all(empty)
jnp.all(1)
jnp.ptp(i8)
jnp.ptp(x, axis=(0, 1), keepdims=True)
jnp.ptp(x, axis=1)
jnp.argmax(x)
jnp.argmax(x, axis=1)
jnp.argmin(x, axis=-2)
jnp.argmin(i8)
jnp.argmax(b, axis=0)
jnp.argmax(y[1, 0])
jnp.argmax(x, keepdims=True)
jnp.argmax(x, axis=1, keepdims=True)
jnp.argmax(f)
jnp.argmax(jnp.array(3.0))
jnp.nanargmax(n[:2], axis=1)
jnp.nanargmin(n, axis=1)
jnp.nanargmax(i, axis=0, keepdims=True)
jnp.nanargmin(n)
"""

MEANS = """
jnp.mean(x)
jnp.mean(x, axis=1)
jnp.mean(x, axis=0, keepdims=True)
jnp.mean(i)
jnp.mean(b, axis=0)
jnp.mean(h)
jnp.mean(f, axis=1)
jnp.mean(c, axis=0)
jnp.mean(i, dtype='int32')
jnp.mean(x, dtype='float16')
jnp.mean(x, where=mask)
jnp.mean(x, axis=0, where=mask, keepdims=True)
jnp.mean(empty)
jnp.mean(empty, axis=1)
jnp.mean(2)
jnp.mean(2.0)
jnp.cov(empty)
jnp.cov(empty, rowvar=False)
jnp.cov(jnp.ones(0))
jnp.cumsum(x, dtype=bool)
jnp.cumulative_prod(x / 8, axis=1, dtype=bool)
jnp.var(x, dtype=complex)
jnp.std(c, dtype=complex)
jnp.var(x)
jnp.var(x, axis=1)
jnp.var(x, axis=0, ddof=1, keepdims=True)
jnp.var(x, ddof=6)
jnp.var(x, ddof=7)
jnp.var(x, ddof=1.5)
jnp.var(x, correction=1)
jnp.var(x, axis=1, mean=jnp.ones((2, 1)))
jnp.var(x, dtype='float16')
jnp.var(x, axis=0, where=mask)
jnp.var(x, axis=1, where=mask, ddof=1)
jnp.var(i)
jnp.var(c)
jnp.var(c, axis=1)
jnp.var(f)
jnp.std(x)
jnp.std(i, axis=0, keepdims=True)
jnp.std(h, axis=1)
jnp.std(x, correction=1, axis=1)
jnp.average(x)
jnp.average(i)
jnp.average(i, returned=True)
jnp.average(x, axis=1, weights=w)
jnp.average(x, axis=1, weights=w, keepdims=True, returned=True)
jnp.average(x, weights=jnp.abs(x), returned=True)
jnp.average(x, axis=0, weights=jnp.arange(6).reshape(2, 3))
jnp.average(y[:1], axis=(2, 1), weights=jnp.arange(4).reshape(2, 2))
jnp.average(h, axis=(0, 1))
jnp.cov(x)
jnp.cov(x, rowvar=False)
jnp.cov(x, bias=True)
jnp.cov(x, ddof=0)
jnp.cov(x[0])
jnp.cov(x[0], x[1])
jnp.cov(x, x * 2)
jnp.cov(i)
jnp.cov(c)
jnp.cov(x, fweights=jnp.array([1, 2, 1]))
jnp.cov(x, aweights=w)
jnp.cov(x, fweights=jnp.array([1, 2, 1]), aweights=w)
jnp.cov(x, fweights=jnp.array([1, 2, 1]), aweights=w, ddof=0)
jnp.corrcoef(x)
jnp.corrcoef(x, rowvar=False)
jnp.corrcoef(x[0])
jnp.corrcoef(c)
"""

WITHOUT_NAN = """
jnp.nansum(n)
jnp.nansum(n, axis=1)
jnp.nansum(i8)
jnp.nanprod(n, axis=0)
jnp.nanmax(n, axis=1)
jnp.nanmax(n)
jnp.nanmin(n, axis=0, keepdims=True)
jnp.nanmax(n, initial=0, axis=1)
jnp.nanmax(i)
jnp.nanmean(n, axis=1)
jnp.nanmean(n, axis=0, keepdims=True)
jnp.nanmean(i)
jnp.nanmean(n, where=n > 1)
jnp.nanvar(n, axis=1)
jnp.nanvar(n, axis=0, ddof=1)
jnp.nanstd(n)
jnp.nanstd(i)
jnp.nanmedian(n, axis=1)
jnp.nanquantile(n, 0.3, axis=0)
jnp.nanquantile(n, 0.3)
jnp.nanquantile(n, jnp.array([0.3, 0.9]), axis=1)
jnp.nanpercentile(n, 30.0, axis=0, keepdims=True)
jnp.nancumsum(n)
jnp.nancumsum(n, axis=1)
jnp.nancumprod(n, axis=0)
jnp.nancumsum(i)
"""

QUANTILES = """
jnp.median(x)
jnp.median(x, axis=0)
jnp.median(i)
jnp.median(f, axis=(0, 1), keepdims=True)
jnp.median(y, axis=2)
jnp.quantile(x, 0.25)
jnp.quantile(i, 0.25)
jnp.quantile(h, 0.25)
jnp.quantile(x, jnp.array([0.25, 0.5]), axis=1)
jnp.quantile(x, jnp.array([0.25, 0.5]), axis=1, keepdims=True)
jnp.quantile(y, 0.3, axis=(0, 2))
jnp.quantile(x, 0.0)
jnp.quantile(x, 1.0)
jnp.quantile(x, 0.35, method='lower')
jnp.quantile(x, 0.35, method='higher')
jnp.quantile(x, 0.35, method='midpoint')
jnp.quantile(x, 0.35, method='nearest')
jnp.quantile(x, 0.5, method='nearest')
jnp.quantile(x, 0.35, method='inverted_cdf')
jnp.quantile(x, jnp.array([0.1, 0.6]), method='inverted_cdf', axis=1)
jnp.quantile(x, 0.3, axis=1, weights=w, method='inverted_cdf')
jnp.quantile(x, jnp.array([0.3, 0.9]), axis=1, weights=w, method='inverted_cdf', keepdims=True)
jnp.percentile(x, 25)
jnp.percentile(x, 25.0, axis=1)
jnp.percentile(i, jnp.array([25, 50]))
vmap(lambda q: jnp.quantile(x, q))(w / 4)
vmap(lambda q: jnp.quantile(x, q, axis=1, method='lower'))(w / 4)
vmap(lambda q: jnp.quantile(y, jnp.stack([q, q / 2]), axis=(0, 2)))(w / 4)
grad(lambda q: jnp.quantile(x, q))(jnp.float32(0.3))
grad(lambda q: jnp.percentile(x, q))(jnp.float32(30.0))
"""

CUMULATIVE = """
jnp.cumsum(x)
jnp.cumsum(x, axis=1)
jnp.cumsum(i8)
jnp.cumsum(i8, axis=-1)
jnp.cumsum(i8, dtype='float16')
jnp.cumsum(b, axis=1)
jnp.cumsum(b, axis=1, dtype=bool)
jnp.cumsum(f, axis=0)
jnp.cumsum(c, axis=0)
jnp.cumsum(2.0)
jnp.cumprod(x, axis=0)
jnp.cumprod(i8)
jnp.cumprod(x, axis=1, dtype='int8')
jnp.cumulative_sum(x, axis=1)
jnp.cumulative_sum(x, axis=0, include_initial=True)
jnp.cumulative_sum(i8, axis=1)
jnp.cumulative_sum(b[0])
jnp.cumulative_prod(w, include_initial=True)
"""

ERRORS = [
    ("jnp.sum(x, axis=2)", ValueError, "axis 2 is out of bounds for an array of 2 axes"),
    ("jnp.sum(x, axis=(0, -2))", ValueError, "duplicate value in 'axis'"),
    ("jnp.sum(x, axis=1.5)", TypeError, "integer"),
    ("jnp.sum([1, 2])", TypeError, "jnp.array"),
    ("jnp.sum(x, out=x)", NotImplementedError, "immutable"),
    ("jnp.sum(x, initial=x, axis=0)", ValueError, "initial value must be a scalar. Got array of shape .2, 3., of type"),
    ("jnp.nanmin(x, initial=0, where=i)", ValueError, "jnp.nanmin: where must be None or a boolean array"),
    ("jnp.nanprod(x, where=i)", ValueError, "jnp.nanprod: where must be None or a boolean array"),
    ("jnp.nansum(x, where=i)", ValueError, "jnp.nansum: where must be None or a boolean array"),
    ("jnp.sum(x, where=i)", ValueError, "jnp.sum: where must be None or a boolean array, and is i32"),
    ("jnp.max(empty)", ValueError, "max of no elements"),
    ("jnp.min(x, where=mask)", ValueError, "needs initial="),
    ("jnp.var(x, ddof=1, correction=1)", ValueError, "ddof and correction"),
    ("jnp.var(c, dtype='float32')", ValueError, "complex"),
    ("jnp.cov(x, dtype=int)", ValueError, "cov: dtype must be a subclass of float or complex, .* and is int32"),
    ("jnp.average(x, weights=w)", ValueError, "give axis="),
    ("jnp.average(x, axis=0, weights=w)", ValueError, "weights have shape"),
    ("jnp.median(c)", ValueError, "not ordered"),
    ("jnp.quantile(x, 0.5, method='weibull')", ValueError, "linear, lower"),
    ("jnp.quantile(x, 0.5, weights=x)", NotImplementedError, "inverted_cdf"),
    ("jnp.quantile(x, x)", ValueError, "scalar or a vector"),
    ("jnp.quantile(x, 1.5)", ValueError, "quantile: q must lie between 0 and 1, and is 1.5"),
    ("jnp.argmax(empty, axis=0)", ValueError, "attempt to get argmax of an empty sequence"),
    ("jnp.argmax(x, axis=2)", ValueError, "out of bounds"),
    ("jnp.cumsum(x, axis=3)", ValueError, "out of bounds"),
    ("jnp.cumulative_sum(x)", ValueError, "axis="),
    ("jnp.cumulative_sum(2.0)", ValueError, "axis"),
    ("jnp.cov(y)", ValueError, "one or two axes"),
    ("jnp.ptp(b)", TypeError, "bool"),
]


def calls(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


@pytest.mark.parametrize("call", calls(SUMS + EXTREMES + MEANS + WITHOUT_NAN + QUANTILES + CUMULATIVE))
def test_like_the_peer(call):
    check(call, NAMES, staged="empty)" not in call or "sum" in call)


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message):
    with pytest.raises(error, match=message.replace("(", r"\(")):
        evaluate(call, xpr, NAMES)


def test_all_axes_of_an_array_of_many():
    assert float(jnp.sum(jnp.full((1,) * 40, 2.0))) == 2.0


def test_a_plain_sum_is_one_equation():
    text = "{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=(0,)] a in (b,) }"
    assert str(xpr.make_jaxpr(jnp.sum)(jnp.ones(3))) == text


def test_half_precision_sums_accumulate_in_float32():
    many = jnp.ones(4096, jnp.bfloat16)
    assert float(jnp.sum(many)) == 4096.0
    assert float(jnp.mean(many)) == 1.0
    for fun in (jnp.sum, jnp.prod, jnp.mean, jnp.nansum):  # in a dtype that is asked for, where it is
        text = str(xpr.make_jaxpr(lambda x, fun=fun: fun(x, dtype=jnp.bfloat16))(many))
        assert "f32" not in text


@pytest.mark.parametrize(
    "call",
    [
        "jnp.sum(x, axis=0)", "jnp.prod(x, axis=1)", "jnp.max(x, axis=1)", "jnp.mean(x)", "jnp.var(x, axis=1)",
        "jnp.std(x)", "jnp.median(x, axis=1)", "jnp.quantile(x, 0.3)", "jnp.cumsum(x, axis=1)", "jnp.ptp(x)",
        "jnp.cumprod(x, axis=0)", "jnp.average(x, axis=1, weights=w)", "jnp.cov(x)", "jnp.corrcoef(x)",
        "jnp.nanmean(x)",
    ],
)  # fmt: skip
def test_derivatives(call):
    check_grads_in_numpy(lambda x: evaluate(call, xpr, {**NAMES, "x": x}), (X,), order=1)


def test_variances_of_too_few_elements_have_derivative_zero_where_they_are_not_used() -> None:
    x = np.array([[1.0, np.nan], [2.0, 4.0]], "f")
    total = lambda x: jnp.nansum(jnp.nanvar(x, axis=1, ddof=1))
    assert xpr.grad(total)(x).tolist() == [[0, 0], [-2, 2]]
    total = lambda y: jnp.nansum(jnp.var(y, axis=1, where=~np.isnan(x), ddof=1))
    assert xpr.grad(total)(x).tolist() == [[0, 0], [-2, 2]]


def test_nan_stays_out_of_the_derivative():
    x = jnp.array([[1.0, np.nan, 3.0], [2.0, 5.0, np.nan]])
    for function in (jnp.nansum, jnp.nanmean, jnp.nanvar, jnp.nanstd, jnp.nanmax):
        slope = xpr.grad(lambda x, f=function: jnp.sum(f(x, axis=1)))(x)
        assert np.isfinite(np.asarray(slope)).all(), function.__name__


def test_ties_share_the_derivative():
    close(xpr.grad(jnp.max)(jnp.array([1.0, 1.0, 0.0])), [0.5, 0.5, 0.0])


def test_jaxprs_hold_strong_results():
    assert not jnp.sum(2.0).weak_type
    assert lax.reduce_sum(jnp.ones(2), (0,)).dtype == jnp.float32


# Programs over rows of numbers, in both namespaces.
SUMS_OF_EXTREMES = {
    "maximum": lambda np, x: np.maximum(x, 0).sum(),
    "maximum of two": lambda np, x: np.maximum(x, x[..., ::-1]).sum(),
    "minimum along rows": lambda np, x: np.minimum(x, 1).sum(-1),
    "nested, along columns": lambda np, x: np.maximum(np.minimum(x, 2), -2).sum(0),
    "clip": lambda np, x: np.clip(x, -1, 1).sum(),
    "scaled": lambda np, x: (3 * np.maximum(-x, 0)).mean(-1),
    "dot": lambda np, x: np.dot(np.maximum(x, 0), x.T),
    "dot of a vector": lambda np, x: np.dot(np.minimum(x, 0), x[0]),
    "max": lambda np, x: x.max(-1).sum(),
    "min": lambda np, x: x.min(),
}


def nan_rows(n: int, dtype: Any) -> np.ndarray:
    """8 rows with n small integers in all, and a nan in the fourth."""
    x = (np.arange(n) % 5 - 2).reshape(8, -1).astype(dtype)
    x[3, n // 16] = np.nan
    return x


@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.float16, np.float64])
def test_sums_of_extremes_keep_nan(dtype):
    """XLA:CPU's fused sums of 4096 elements and more lost it."""

    def ours(x):
        sums = [f(jnp, x) for f in SUMS_OF_EXTREMES.values()]
        pooled = lax.reduce_window(x, -np.inf, lax.max, (1, 4), (1, 4), "VALID").sum(1)
        return sums, xpr.vmap(lambda row: nn.relu(row).sum())(x), pooled

    for n in (4_096, 5_000, 200_000):
        x = nan_rows(n, dtype)
        with xpr.enable_x64(dtype is np.float64):
            sums, *by_row = xpr.jit(ours)(x)
        for name, got in zip(SUMS_OF_EXTREMES, sums):
            want = SUMS_OF_EXTREMES[name](np, x.astype(np.float64))
            assert (np.isnan(np.asarray(got, np.float64)) == np.isnan(want)).all(), (name, n)
        for got in by_row:
            assert np.isnan(np.asarray(got, np.float64)).tolist() == [i == 3 for i in range(8)], n


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_sums_over_one_of_many_axes(dtype):
    """XLA:CPU's fused sums ended the process where an operand of seven axes was broadcast."""
    x, y = np.ones((10, 4, 6, 9, 9, 9, 9), dtype), np.full((10, 4, 6, 1, 1, 1, 1), 2, dtype)
    assert (np.asarray(xpr.jit(lambda x, y: (x * y).sum(2))(x, y), np.float32) == 12).all()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        *((f"jnp.{name}", getattr(jnp, name)) for name in ("mean", "var", "std")),
        *((f"nn.{name}", getattr(nn, name)) for name in ("softmax", "log_softmax", "logsumexp")),
    ],
)
def test_masks_that_do_not_broadcast(name, call):
    with pytest.raises(ValueError, match=rf"{name}: where has shape \(2,\), which does not broadcast to \(3,\)"):
        call(jnp.ones(3), where=jnp.array([True, False]))

"""Attention: softmax(Q K^T / sqrt(d) + bias) V, for many heads at once (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import Any

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.nn.normalizing import logsumexp, softmax
from xpr.numpy.promotion import as_operand, convert
from xpr.primitives import elementwise as e
from xpr.primitives.dot import contract
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape, transpose
from xpr.primitives.slicing import broadcasted_iota, select

__all__ = ["dot_product_attention"]


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Attention, softmax(scale Q K^T + bias) V, for every head.

    B is the batch, T and S are positions, N and K are numbers of heads, H is the number of features.

    Args:
      query: (B, T, N, H) or (T, N, H).
      key: (B, S, K, H) or (S, K, H); N is a multiple of K, and each of its heads serves N / K heads of the query.
      value: as `key`.
      bias: added to the logits; broadcasts to (B, N, T, S). None for 0.
      mask: booleans, True where a key takes part; broadcasts to (B, N, T, S). None for all.
      scale: of the logits; None for 1 / sqrt(H).
      is_causal: whether position t sees only positions up to t.
      query_seq_lengths: integers (B,); positions from there on are padding, for which results are 0. None for T.
      key_value_seq_lengths: integers (B,); positions from there on are padding, and take no part. None for S.
      local_window_size: (left, right): position t sees positions t - left to t + right. An integer is both; None for
        all.
      implementation: "xla" or None.
      return_residual: whether to return the logsumexp of the logits too, (B, T, N) in the dtype of `key`, which has no
        derivative.

    Returns:
      (B, T, N, H) in the dtype of `query`, computed in float32 at least; with `return_residual`
      `(attention, logsumexp)`.

    Raises:
      ValueError: shapes do not fit, or there is no such implementation.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.ones((1, 4, 2, 8))
    >>> xpr.nn.dot_product_attention(x, x, x, is_causal=True).shape
    (1, 4, 2, 8)
    """
    if implementation not in (None, "xla"):
        raise ValueError(f'dot_product_attention: implementation must be "xla" or None, and is {implementation!r}.')
    query, key, value = (as_operand(x) for x in (query, key, value))
    whole = aval_of(query).shape
    query, key, value = (_with_batch(x) for x in (query, key, value))
    _check_shapes(*(aval_of(x).shape for x in (query, key, value)))
    options = {"bias": bias, "mask": mask, "query_lengths": query_seq_lengths, "key_lengths": key_value_seq_lengths}
    if not isinstance(scale, (int, float)):
        scale, options["scale"] = None, scale  # known only when the program runs, or not given
    arrays = {name: as_operand(x) for name, x in options.items() if x is not None}
    window = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size
    out, *residual = _attention(
        query, key, value, *arrays.values(), names=tuple(arrays), scale=scale, is_causal=is_causal,
        window=window, with_residual=return_residual,
    )  # fmt: skip
    out = reshape(out, whole)
    return (out, stop_gradient(reshape(residual[0], whole[:-1]))) if return_residual else out


@compiled
def _attention(
    query: Any,
    key: Any,
    value: Any,
    *arrays: Any,
    names: tuple[str, ...],
    scale: float | None,
    is_causal: bool,
    window: tuple[int, int] | None,
    with_residual: bool,
) -> Any:
    """Attention with a batch axis; `names` are those of the operands after the first three."""
    options = dict(zip(names, arrays))
    batch, targets, _, features = aval_of(query).shape
    sources, key_heads = aval_of(key).shape[1:3]
    groups = aval_of(query).shape[2] // key_heads
    full_shape = (batch, key_heads, groups, targets, sources)

    grouped = reshape(query, (batch, targets, key_heads, groups, features))
    logits = _product(grouped, "btkgh", key, "bskh", "bkgts")
    if "scale" in options:
        logits = e.mul(logits, convert(options["scale"], aval_of(logits).dtype))
    else:
        logits = e.mul(logits, e.scalar(1 / math.sqrt(features) if scale is None else scale, logits))
    if "bias" in options:
        bias = convert(_over_heads(options["bias"], key_heads, groups), aval_of(logits).dtype)
        logits = e.add(logits, broadcast_to(bias, full_shape))
    seen = _visible(full_shape, options, is_causal, window)
    if seen is not None:
        dtype = aval_of(logits).dtype
        hidden = full(full_shape, _LEAST_SHARE * dtypes.finfo(dtype).max, dtype)
        logits = select(broadcast_to(seen, full_shape), logits, hidden)

    weights = convert(softmax(logits, -1), aval_of(key).dtype)
    out = convert(_product(weights, "bkgts", value, "bskh", "btkgh"), aval_of(query).dtype)
    if "query_lengths" in options:
        real = _before(options["query_lengths"], (batch, targets))
        out = e.mul(out, broadcast_in_dim(convert(real, aval_of(out).dtype), aval_of(out).shape, (0, 1)))
    if not with_residual:
        return [out]
    return [out, convert(transpose(logsumexp(logits, -1), (0, 3, 1, 2)), aval_of(key).dtype)]


_LEAST_SHARE = -0.7  # times the greatest float: hidden logits, finite so that softmax gives no nan


def _with_batch(x: Any) -> Any:
    aval = aval_of(x)
    if aval.ndim not in (3, 4):
        raise ValueError(f"dot_product_attention: operands have 3 or 4 axes, and one is {aval.str_short()}.")
    return x if aval.ndim == 4 else reshape(x, (1, *aval.shape))


def _check_shapes(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> None:
    fits = key == value and query[0] == key[0] and query[3] == key[3] and key[2] and query[2] % key[2] == 0
    if not fits:
        raise ValueError(
            f"dot_product_attention: query {query}, key {key} and value {value} do not fit: key and value must "
            "have one shape, with the query's batch and features, and the query's heads must be a multiple of theirs."
        )


def _product(x: Any, x_labels: str, y: Any, y_labels: str, out_labels: str) -> Any:
    wide = aval_of(x).dtype
    wide = wide if wide.itemsize >= 4 else dtypes.float32
    return contract(x, x_labels, y, y_labels, out_labels, precision=None, preferred_element_type=wide)


def _over_heads(x: Any, key_heads: int, groups: int) -> Any:
    """(B, N, T, S), or what broadcasts to it, with the axis of heads split in (K, G)."""
    x = as_operand(x)
    shape = (1,) * (4 - aval_of(x).ndim) + aval_of(x).shape
    split = (1, 1) if shape[1] == 1 else (key_heads, groups)
    return reshape(x, (shape[0], *split, *shape[2:]))


def _before(lengths: Any, shape: tuple[int, int]) -> Any:
    """Whether a position is before the length of its row: boolean, of `shape` (batch, positions)."""
    lengths = broadcast_in_dim(convert(as_operand(lengths), dtypes.int32), shape, (0,))
    return e.lt(broadcasted_iota(dtypes.int32, shape, 1), lengths)


def _visible(shape: tuple[int, ...], options: dict[str, Any], is_causal: bool, window: tuple[int, int] | None) -> Any:
    """The mask of pairs of positions, which broadcasts to `shape` (B, K, G, T, S); None for all."""
    batch, key_heads, groups, targets, sources = shape
    pairs = (targets, sources)
    masks = []
    if "mask" in options:
        if aval_of(options["mask"]).dtype != dtypes.bool_:
            raise ValueError("dot_product_attention: mask must be boolean; what is added to the logits is `bias`.")
        masks.append(_over_heads(options["mask"], key_heads, groups))
    if is_causal or window is not None:
        row, column = (broadcasted_iota(dtypes.int32, pairs, i) for i in (0, 1))
        if is_causal:
            masks.append(e.ge(row, column))
        if window is not None:
            left, right = window
            masks.append(e.bitwise_and(e.le(row, e.add(column, left)), e.ge(row, e.sub(column, right))))
    if "query_lengths" in options:
        masks.append(_of_positions(_before(options["query_lengths"], (batch, targets)), shape, 3))
    if "key_lengths" in options:
        masks.append(_of_positions(_before(options["key_lengths"], (batch, sources)), shape, 4))
    seen = None
    for flags in masks:
        flags = broadcast_to(flags, shape)
        seen = flags if seen is None else e.bitwise_and(seen, flags)
    return seen


def _of_positions(flags: Any, shape: tuple[int, ...], axis: int) -> Any:
    return broadcast_in_dim(flags, shape, (0, axis))

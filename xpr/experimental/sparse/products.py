"""Products of sparse arrays with dense and with sparse ones: elementwise, contractions, convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr import numpy as jnp
from xpr.api.make_jaxpr import ShapeDtypeStruct, eval_shape
from xpr.api.vmap import vmap
from xpr.experimental.sparse.base import over_batch
from xpr.experimental.sparse.coordinates import (
    BCOO,
    bcoo_fromdense,
    bcoo_todense,
    columns,
    like,
    parts,
    split_shape,
    values_at,
)
from xpr.experimental.sparse.layouts import (
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    moved_out,
    within,
)
from xpr.numpy.promotion import promote_dtypes

__all__ = [
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
]  # fmt: skip

DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The stored elements of the product with a dense array.

    Args:
      sp_mat: array.
      v: a number, or an array that broadcasts to the shape of `sp_mat`.

    Returns:
      The data of the product, whose indices are those of `sp_mat`.

    Raises:
      NotImplementedError: the product has another shape than `sp_mat`.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_multiply_dense(sparse.eye(2), jnp.array([2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    v = jnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    if jnp.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        raise NotImplementedError(
            f"bcoo_multiply_dense: the product of a sparse array of shape {sp_mat.shape} with a dense one of shape "
            f"{v.shape} must have the shape of the sparse one."
        )
    v = v.reshape(*[1] * (sp_mat.ndim - v.ndim), *v.shape)
    batch, sparse, _ = split_shape(sp_mat.shape, sp_mat.n_batch, sp_mat.n_sparse)
    v = jnp.broadcast_to(v, (*batch, *v.shape[sp_mat.n_batch :]))

    def product(data: Any, indices: Any, v: Any) -> Any:
        if not sparse:
            return data * v
        at = [0 if n == 1 else i for i, n in zip(columns(indices), v.shape)]
        if all(n == 1 for n in v.shape[: len(sparse)]):
            return data * v[tuple(at)]
        return data * v.at[tuple(at)].get(mode="fill", fill_value=0)

    return over_batch(product, sp_mat.n_batch)(*parts(sp_mat), v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays.

    Args:
      lhs: array.
      rhs: array with as many axes and dense axes, whose shape broadcasts with that of `lhs`.

    Returns:
      The array, of as many stored elements as the operand whose shape it has, or as there are pairs of them.

    Raises:
      TypeError: the arrays differ in their number of axes.
      NotImplementedError: they differ in their number of dense axes.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(f"bcoo_multiply_sparse: shapes {lhs.shape} and {rhs.shape} must have as many axes.")
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: the arrays must have as many dense axes, and have {lhs.n_dense} and {rhs.n_dense}. "
            "Change them by update_layout."
        )
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n_batch) for x in (lhs, rhs))
    batch, sparse, _ = split_shape(shape, n_batch, lhs.n_sparse)
    _, lhs_sparse, _ = split_shape(lhs.shape, n_batch, lhs.n_sparse)
    _, rhs_sparse, _ = split_shape(rhs.shape, n_batch, lhs.n_sparse)

    def product(x: Any, i: Any, y: Any, j: Any) -> Any:
        where = np.array([c for c in range(len(sparse)) if lhs_sparse[c] == rhs_sparse[c]], int)
        inside = within(i, lhs_sparse)[:, None] & within(j, rhs_sparse)[None]
        matching = jnp.all(i[:, None, where] == j[None, :, where], -1) & inside
        ones = [1] * (x.ndim - 1)
        if lhs_sparse == sparse:
            return x * jnp.tensordot(matching.astype(y.dtype), y, 1, precision="highest"), i
        if rhs_sparse == sparse:
            return y * jnp.tensordot(matching.T.astype(x.dtype), x, 1, precision="highest"), j
        products = jnp.where(matching.reshape(*matching.shape, *ones), x[:, None] * y[None], 0)
        pairs = jnp.maximum(i[:, None], j[None])
        pairs = moved_out(pairs, matching, sparse)
        nse = len(i) * len(j)
        return products.reshape(nse, *products.shape[2:]), pairs.reshape(nse, len(sparse))

    arrays = [jnp.broadcast_to(a, (*batch, *a.shape[n_batch:])) for x in (lhs, rhs) for a in parts(x)]
    return BCOO(over_batch(product, n_batch)(*arrays), shape=shape)


def _out_shape(lhs: Any, rhs: Any, dimension_numbers: DimensionNumbers) -> tuple[int, ...]:
    """The shape of a contraction; raises where the operands don't fit."""
    types = [ShapeDtypeStruct(x.shape, np.float32) for x in (lhs, rhs)]
    return tuple(eval_shape(lambda x, y: lax.dot_general(x, y, dimension_numbers), *types).shape)


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """A contraction of arrays, of which one or both are sparse, as `lax.dot_general` does it.

    Args:
      lhs: array.
      rhs: array.
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, axes.
      precision: not used.
      preferred_element_type: the dtype of the result; None for that of the operands.
      out_sharding: not used.

    Returns:
      A sparse array where both are sparse, else a dense one.

    Raises:
      NotImplementedError: both are sparse, and have dense axes, or batch axes of the contraction are not batch axes of
        theirs.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_dot_general(sparse.eye(2), jnp.array([2.0, 3.0]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([2., 3.], dtype=float32)
    """
    contract, batch = ((tuple(a), tuple(b)) for a, b in dimension_numbers)
    numbers: DimensionNumbers = (contract, batch)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        product = _sparse_sparse(lhs, rhs, numbers)
        return product if preferred_element_type is None else like(product, product.data.astype(preferred_element_type))
    if isinstance(lhs, BCOO):
        out = _sparse_dense(lhs, jnp.asarray(rhs), numbers)
    elif isinstance(rhs, BCOO):
        swapped = _sparse_dense(rhs, jnp.asarray(lhs), ((contract[1], contract[0]), (batch[1], batch[0])))
        count, rhs_free = len(batch[0]), rhs.ndim - len(contract[1]) - len(batch[1])
        out = jnp.moveaxis(swapped, range(count, count + rhs_free), range(swapped.ndim - rhs_free, swapped.ndim))
    else:
        return lax.dot_general(lhs, rhs, numbers, preferred_element_type=preferred_element_type)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _sparse_dense(lhs: BCOO, rhs: Any, dimension_numbers: DimensionNumbers) -> Any:
    shape = _out_shape(lhs, rhs, dimension_numbers)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    end = lhs.n_batch + lhs.n_sparse
    if any(a >= end for a in (*lhs_contract, *lhs_batch)):
        dense, rhs = promote_dtypes(bcoo_todense(lhs), rhs)
        return lax.dot_general(dense, rhs, dimension_numbers)
    partner = dict(zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)))
    # Both operands as arrays of labelled axes: axis a of lhs is a, and free axis b of rhs is lhs.ndim + b.
    matched = {b: a for a, b in partner.items()}
    rhs_labels = [matched.get(b, lhs.ndim + b) for b in range(rhs.ndim)]
    data, indices = parts(lhs)
    product, labels = _labelled_product(lhs, data, indices, rhs, rhs_labels, set(lhs_contract))
    free = [a for a in range(lhs.ndim) if a not in partner]
    wanted = [*lhs_batch, *free, *[label for label in rhs_labels if label >= lhs.ndim]]
    return jnp.transpose(product, [labels.index(label) for label in wanted]).reshape(shape)


def _labelled_product(
    lhs: BCOO, data: Any, indices: Any, rhs: Any, rhs_labels: list[int], contracted: set[int]
) -> tuple[Any, list[int]]:
    """The product, and the labels of its axes; maps over the batch axes of `lhs`, which are the leading ones."""
    depth = lhs.n_batch - (indices.ndim - 2)
    if depth < lhs.n_batch:
        axis = rhs_labels.index(depth) if depth in rhs_labels else None
        inner = [label for label in rhs_labels if label != depth]
        labels: list[int] = []

        def row(data: Any, indices: Any, rhs: Any) -> Any:
            product, labels[:] = _labelled_product(lhs, data, indices, rhs, inner, contracted)
            return product

        rows = vmap(row, (0, 0, axis))(data, indices, rhs)
        return (jnp.sum(rows, 0, dtype=rows.dtype), labels) if depth in contracted else (rows, [depth, *labels])
    _, sizes, _ = split_shape(lhs.shape, lhs.n_batch, lhs.n_sparse)
    sparse = range(depth, depth + lhs.n_sparse)
    shared = [a for a in sparse if a in rhs_labels]
    others = [label for label in rhs_labels if label not in shared]
    rhs = jnp.transpose(rhs, [rhs_labels.index(label) for label in (*shared, *others)])
    at = tuple([indices[:, a - depth] for a in shared])
    # A row of `rhs` for each stored element, with axes [nse, *dense axes of lhs, *others].
    read = rhs.at[at].get(mode="fill", fill_value=0) if at else rhs[None]
    read = read.reshape(len(read), *[1] * lhs.n_dense, *read.shape[1:])
    terms = data.reshape(*data.shape, *[1] * len(others)) * read
    kept = [a for a in sparse if a not in contracted]
    inside = within(indices, sizes)
    terms = jnp.where(inside.reshape(-1, *[1] * (terms.ndim - 1)), terms, 0)
    dense = list(range(depth + lhs.n_sparse, lhs.ndim))
    if not kept:
        return jnp.sum(terms, 0, dtype=terms.dtype), [*dense, *others]
    zeros = jnp.zeros((*[lhs.shape[a] for a in kept], *terms.shape[1:]), terms.dtype)
    target = tuple([indices[:, a - depth] for a in kept])
    return zeros.at[target].add(terms, mode="drop"), [*kept, *dense, *others]


def _sparse_sparse(lhs: BCOO, rhs: BCOO, dimension_numbers: DimensionNumbers) -> BCOO:
    shape = _out_shape(lhs, rhs, dimension_numbers)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    count = len(lhs_batch)
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_dot_general: the product of two sparse arrays with dense axes is not there.")
    if any(a >= x.n_batch for x, axes in ((lhs, lhs_batch), (rhs, rhs_batch)) for a in axes):
        raise NotImplementedError(
            f"bcoo_dot_general: the batch axes of the product, {lhs_batch} and {rhs_batch}, must be batch axes of the "
            f"sparse arrays, of which there are {lhs.n_batch} and {rhs.n_batch}."
        )
    lhs, lhs_contract = _batch_axes_first(lhs, lhs_batch, lhs_contract)
    rhs, rhs_contract = _batch_axes_first(rhs, rhs_batch, rhs_contract)
    lhs_free, rhs_free = (
        [a - count for a in range(count, x.ndim) if a not in contract]
        for x, contract in ((lhs, lhs_contract), (rhs, rhs_contract))
    )
    left, right = (np.array([a - count for a in contract], int) for contract in (lhs_contract, rhs_contract))
    lhs_sparse, rhs_sparse = lhs.shape[count:], rhs.shape[count:]
    sparse = shape[count:]

    def product(x: Any, i: Any, y: Any, j: Any) -> Any:
        matching = jnp.all(i[:, None, left] == j[None, :, right], -1)
        matching &= within(i, lhs_sparse)[:, None] & within(j, rhs_sparse)[None]
        nse = len(i) * len(j)
        pairs = [jnp.broadcast_to(i[:, None, np.array(lhs_free, int)], (len(i), len(j), len(lhs_free))),
                 jnp.broadcast_to(j[None, :, np.array(rhs_free, int)], (len(i), len(j), len(rhs_free)))]  # fmt: skip
        indices = moved_out(jnp.concatenate(pairs, -1), matching, sparse)
        return jnp.where(matching, x[:, None] * y[None], 0).reshape(nse), indices.reshape(nse, len(sparse))

    arrays = [a for x in (lhs, rhs) for a in parts(x)]
    pairs = BCOO(over_batch(product, count)(*arrays), shape=shape)
    return bcoo_sum_duplicates(pairs, min(pairs.nse, math.prod(sparse)))


def _batch_axes_first(mat: BCOO, batch: Sequence[int], contract: Sequence[int]) -> tuple[BCOO, list[int]]:
    """The array with some of its batch axes first, which alone stay such, and where axes to contract are in it."""
    axes = [*batch, *[a for a in range(mat.ndim) if a not in batch]]
    if axes != list(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=axes)
    return bcoo_update_layout(mat, n_batch=len(batch)), [axes.index(a) for a in contract]


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: DimensionNumbers) -> Any:
    """A contraction of dense arrays of which only some elements are computed.

    Args:
      A: array.
      B: array.
      indices: of the elements, as those of a BCOO array of the shape of the product: [*batch, nse, n_sparse].
      dimension_numbers: `((A_contracting, B_contracting), (A_batch, B_batch))`, axes.

    Returns:
      The elements, [*batch, nse, *dense].

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> a = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> sparse.bcoo_dot_general_sampled(a, a, jnp.array([[1, 0]]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([15.], dtype=float32)
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    shape = _out_shape(A, B, dimension_numbers)
    (a_contract, b_contract), (a_batch, _) = dimension_numbers
    if not a_batch and indices.ndim == 2 and indices.shape[1] == len(shape):
        a = jnp.moveaxis(A, tuple(a_contract), tuple(range(A.ndim - len(a_contract), A.ndim)))
        b = jnp.moveaxis(B, tuple(b_contract), tuple(range(B.ndim - len(b_contract), B.ndim)))
        count = A.ndim - len(a_contract)
        at = columns(indices)
        products = a.at[at[:count]].get(mode="fill", fill_value=0) * b.at[at[count:]].get(mode="fill", fill_value=0)
        return jnp.sum(products.reshape(len(indices), -1), 1, dtype=products.dtype)
    dense = lax.dot_general(A, B, dimension_numbers)
    n_batch = indices.ndim - 2
    indices = jnp.broadcast_to(indices, (*dense.shape[:n_batch], *indices.shape[n_batch:]))

    return over_batch(values_at, n_batch)(dense, indices)


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
    precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """A convolution along one axis of one signal with one kernel, as `lax.conv_general_dilated` does it.

    Args:
      lhs: sparse or dense array [1, 1, n].
      rhs: sparse or dense array [1, 1, m].
      window_strides: (1,).
      padding: as in `lax.conv_general_dilated`.
      lhs_dilation: None or (1,).
      rhs_dilation: None or (1,).
      dimension_numbers: None, or those that stand for it.
      feature_group_count: 1.
      batch_group_count: 1.
      precision: not used.
      preferred_element_type: not used.
      out_sharding: not used.

    Returns:
      The array [1, 1, k].

    Raises:
      NotImplementedError: another convolution is asked for.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[0.0, 2.0, 0.0]]]))
    >>> y = jnp.array([[[1.0, 10.0]]])
    >>> sparse.bcoo_conv_general_dilated(x, y, window_strides=(1,), padding="VALID").todense()
    Array([[[20.,  2.]]], dtype=float32)
    """
    types = [ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs)]
    shape = eval_shape(
        lambda x, y: lax.conv_general_dilated(
            x, y, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
            batch_group_count,
        ),
        *types,
    ).shape  # fmt: skip
    plain = all(each is None or set(each) <= {1} for each in (window_strides, lhs_dilation, rhs_dilation))
    one = len(shape) == 3 and lhs.shape[:2] == rhs.shape[:2] == (1, 1) and feature_group_count == batch_group_count == 1
    if not plain or not one:
        raise NotImplementedError(
            "bcoo_conv_general_dilated: only the convolution of one signal [1, 1, n] with one kernel [1, 1, m], "
            f"without strides, dilation and groups, is there; the operands have shapes {lhs.shape} and {rhs.shape}."
        )
    (x, i), (y, j) = map(_signal, (lhs, rhs))
    n, m, k = lhs.shape[2], rhs.shape[2], shape[2]
    before = padding[0][0] if not isinstance(padding, str) else lax.padtype_to_pads((n,), (m,), (1,), padding)[0][0]
    position = i[:, None] + before - j[None]
    kept = (i[:, None] < n) & (j[None] < m) & (position >= 0) & (position < k)
    indices = jnp.where(kept, position, k).reshape(1, 1, -1, 1)
    return BCOO((jnp.where(kept, x[:, None] * y[None], 0).reshape(1, 1, -1), indices), shape=shape)


def _signal(mat: Any) -> tuple[Any, Any]:
    """The elements of an array [1, 1, n], and their indices."""
    mat = mat if isinstance(mat, BCOO) else bcoo_fromdense(mat, nse=mat.shape[2], n_batch=2)
    data, indices = parts(bcoo_update_layout(mat, n_batch=2, n_dense=0))
    return data[0, 0], indices[0, 0, :, 0]

"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, random
from xpr import numpy as jnp
from xpr.api.vmap import vmap
from xpr.experimental.sparse.coordinates import BCOO, split_shape
from xpr.experimental.sparse.layouts import bcoo_sort_indices

__all__ = ["random_bcoo"]


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A random sparse array; of one key, that of JAX.

    Args:
      key: random key.
      shape: of the array.
      dtype: of its elements.
      indices_dtype: the dtype of its indices; None for the default integer.
      nse: the number of stored elements, or their fraction of all in the sparse axes, where 0 < nse < 1.
      n_batch: how many of the first axes are batch axes.
      n_dense: how many of the last axes are dense.
      unique_indices: whether indices occur once.
      sorted_indices: whether they are sorted.
      generator: `generator(key, shape, dtype, **kwds)` gives the elements.
      **kwds: for the generator.

    Returns:
      The array.

    Raises:
      ValueError: there is no such array.

    >>> import xpr
    >>> from xpr.experimental import sparse
    >>> sparse.random_bcoo(xpr.random.key(0), (10, 10), nse=7)
    BCOO(float32[10, 10], nse=7)
    """
    shape = tuple(map(operator.index, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"random_bcoo: no {n_batch=}, {n_dense=} for an array of {shape=}.")
    batch, sparse, dense = split_shape(shape, n_batch, n_sparse)
    size = math.prod(sparse)
    if not 0 <= nse < size:
        raise ValueError(f"random_bcoo: nse must be from 0 to below {size}, and is {nse}.")
    count = math.ceil(nse * size) if 0 < nse < 1 else operator.index(nse)  # type: ignore[arg-type]
    index_dtype = np.dtype(indices_dtype) if indices_dtype else dtypes.canonicalize_dtype(np.int64)
    if size > np.iinfo(index_dtype).max:
        raise ValueError(f"random_bcoo: indices of {index_dtype} don't reach {size} elements.")

    def indices(key: Any) -> Any:
        if not sparse:
            return jnp.zeros((count, 0), index_dtype)
        flat = random.choice(key, size, (count,), replace=not unique_indices).astype(index_dtype)
        return jnp.stack(jnp.unravel_index(flat, sparse), 1).astype(index_dtype)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    mat = BCOO((data, vmap(indices)(keys[1:]).reshape(*batch, count, n_sparse)), shape=shape)
    return bcoo_sort_indices(mat) if sorted_indices else mat

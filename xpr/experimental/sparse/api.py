"""Sparse arrays of any format: empty ones, identity matrices, and their dense arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from xpr.experimental.sparse.bcsr import BCSR
from xpr.experimental.sparse.coo import COO
from xpr.experimental.sparse.coordinates import BCOO
from xpr.experimental.sparse.csr import CSC, CSR

__all__ = ["empty", "eye", "todense"]

_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str, sparse_format: str, method: str) -> Any:
    formats = {key: cls for key, cls in _FORMATS.items() if hasattr(cls, method)}
    if sparse_format not in formats:
        known = ", ".join(map(repr, formats))
        raise ValueError(f"sparse.{name}: sparse_format is one of {known}, not {sparse_format!r}.")
    return formats[sparse_format]


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> Any:
    """A sparse array without elements.

    Args:
      shape: of the array.
      dtype: of its elements; None for float32.
      index_dtype: the dtype of its indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      **kwds: `n_batch`, `n_dense` and `nse` (elements of padding) for the first two.

    Returns:
      The array.

    Raises:
      ValueError: there is no such format, or no such array.

    >>> from xpr.experimental import sparse
    >>> sparse.empty((2, 3)).todense()
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    cls = _format("empty", sparse_format, "_empty")
    return cls._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> Any:  # fmt: skip
    """A sparse matrix with ones on a diagonal.

    Args:
      N: the number of rows.
      M: the number of columns; None for N.
      k: which diagonal: 0 is the main one, positive ones are above it.
      dtype: of its elements; None for float32.
      index_dtype: the dtype of its indices.
      sparse_format: "bcoo", "coo", "csr" or "csc".
      **kwds: `n_batch` and `n_dense` for the first one.

    Returns:
      The matrix.

    Raises:
      ValueError: there is no such format.

    >>> from xpr.experimental import sparse
    >>> sparse.eye(2, k=1).todense()
    Array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    rows, columns, diagonal = (operator.index(n) for n in (N, N if M is None else M, k))
    cls = _format("eye", sparse_format, "_eye")
    return cls._eye(rows, columns, diagonal, dtype=dtype, index_dtype=index_dtype, **kwds)


def todense(arr: Any) -> Any:
    """The dense array of a sparse one; an array that is dense already is returned.

    Inside a function given to `sparsify` it makes a sparse argument dense.

    >>> from xpr.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return arr.todense() if hasattr(arr, "todense") else arr

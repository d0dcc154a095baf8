"""Matrix, the base class of matrices in the formats COO, CSR and CSC: rows and columns of their elements, products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.experimental.sparse.base import JAXSparse
from xpr.experimental.sparse.coordinates import BCOO, bcoo_fromdense
from xpr.experimental.sparse.products import bcoo_dot_general
from xpr.numpy.promotion import promote_dtypes


class Matrix(JAXSparse):
    """A sparse matrix that stores `data` [nse]."""

    def to_bcoo(self) -> BCOO:
        """The same matrix as a BCOO array."""
        raise NotImplementedError(type(self))

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return int(self.data.size)

    def todense(self) -> Any:
        """The dense matrix."""
        return self.to_bcoo().todense()

    def __matmul__(self, other: Any) -> Any:
        """The product with a dense vector or matrix."""
        if isinstance(other, JAXSparse):
            raise NotImplementedError("The product of two sparse matrices is there for BCOO alone: see to_bcoo.")
        return product(self, other)


def _not_there(name: str) -> Callable[..., Any]:
    def method(self: Matrix, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}; BCOO arrays have: use x.to_bcoo().")

    return method


for _name in ("sum", "__neg__", "__pos__", "__rmatmul__", "__mul__", "__rmul__", "__add__", "__radd__", "__sub__",
              "__rsub__", "__getitem__"):  # fmt: skip
    setattr(Matrix, _name, _not_there(_name))


def check_matrix(shape: Sequence[int], axes: Sequence[int] | None = None) -> None:
    if len(shape) != 2:
        raise ValueError(f"a matrix has two axes, and a shape {tuple(shape)} has {len(shape)}.")
    if axes is not None and tuple(axes) != (1, 0):
        raise NotImplementedError(f"a matrix can only be transposed, by axes (1, 0), not {tuple(axes)}.")


def product(mat: Matrix, other: Any, transpose: bool = False) -> Any:
    """The product of a matrix, or of its transpose, with a dense vector or matrix."""
    data, other = promote_dtypes(mat.data, jnp.asarray(other))
    if other.ndim not in (1, 2):
        raise NotImplementedError(
            f"{type(mat).__name__} matrices are multiplied with vectors and matrices, not with an array of shape "
            f"{other.shape}; BCOO arrays with others, too: use x.to_bcoo()."
        )
    bcoo = mat.to_bcoo()
    bcoo = BCOO((data, bcoo.indices), shape=bcoo.shape)
    return bcoo_dot_general(bcoo, other, dimension_numbers=(((0 if transpose else 1,), (0,)), ((), ())))


def rows_of(indptr: Any, nse: int) -> Any:
    """The row of each stored element, of pointers [rows + 1]; behind the last one the number of rows."""
    return (jnp.searchsorted(indptr, jnp.arange(nse), side="right") - 1).astype(indptr.dtype)


def pointers_of(rows: Any, count: int) -> Any:
    """The pointers [count + 1] of sorted rows."""
    return jnp.searchsorted(rows, jnp.arange(count + 1)).astype(rows.dtype)


def found_in(mat: Any, nse: int | None, index_dtype: Any) -> tuple[Any, Any, Any]:
    """Data, rows and columns of the elements of a dense matrix that aren't zero."""
    mat = jnp.asarray(mat)
    check_matrix(mat.shape)
    stored = bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return stored.data, stored.indices[:, 0], stored.indices[:, 1]


def diagonal(N: int, M: int, k: int, dtype: Any, index_dtype: Any) -> tuple[Any, Any, Any]:
    """Data, rows and columns of ones on a diagonal."""
    eye = BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)
    return eye.data, eye.indices[:, 0], eye.indices[:, 1]


def nothing(dtype: Any, index_dtype: Any) -> tuple[Any, Any]:
    """Data and indices of no elements."""
    return jnp.zeros(0, dtype), jnp.zeros(0, np.dtype(index_dtype))

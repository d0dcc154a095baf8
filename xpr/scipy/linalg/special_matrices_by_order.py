"""Special matrices that their order alone determines. They are computed in NumPy, with exact integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp


def _order(name: str, n: Any, least: int = 0) -> int:
    n = operator.index(n)
    if n < least:
        raise ValueError(f"{name}: n must be {'a positive integer' if least == 1 else f'{least} or more'}, and is {n}.")
    return n


def _floats(x: np.ndarray) -> Any:
    return jnp.asarray(x.astype(jnp.result_type(float)))


def _of_integers(n: int, element: Callable[[int, int], int]) -> Any:
    """The matrix of integers of any size, rounded to floats at the end."""
    rows = [[float(element(i, j)) for j in range(n)] for i in range(n)]
    return _floats(np.array(rows, np.float64).reshape(n, n))


def hilbert(n: int) -> Any:
    """The Hilbert matrix 1 / (i + j + 1).

    >>> from xpr.scipy import linalg
    >>> linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    i = np.arange(_order("hilbert", n))
    return _floats(1 / (i[:, None] + i + 1))


def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix, of integers.

    Source: M.-D. Choi, Tricks or treats with the Hilbert matrix, American Mathematical Monthly, 1983.

    >>> from xpr.scipy import linalg
    >>> linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = _order("invhilbert", n)

    def element(i: int, j: int) -> int:
        size = (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
        return size * (-1) ** (i + j)

    return _of_integers(n, element)


def pascal(n: int, kind: str | None = None) -> Any:
    """The Pascal matrix of binomial coefficients.

    Args:
      n: the order.
      kind: "symmetric" for the coefficients (i + j over i), "lower" for (i over j), "upper" for (j over i); None for
        "symmetric".

    Returns:
      [n, n], floating.

    Raises:
      ValueError: `n` is negative, or there is no such kind.

    >>> from xpr.scipy import linalg
    >>> linalg.pascal(3, "lower")
    Array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 2., 1.]], dtype=float32)
    """
    n = _order("pascal", n)
    return _of_integers(n, _pascal_element("pascal", kind, lambda i, j: math.comb(i + j, i), math.comb))


def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of the Pascal matrix, of integers.

    Args:
      n: the order.
      kind: as for `pascal`.

    Returns:
      [n, n], floating.

    Raises:
      ValueError: `n` is negative, or there is no such kind.

    >>> from xpr.scipy import linalg
    >>> linalg.invpascal(3, "lower")
    Array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    n = _order("invpascal", n)

    def lower(i: int, j: int) -> int:
        return math.comb(i, j) * (-1) ** (i + j)

    def symmetric(i: int, j: int) -> int:
        return sum(lower(k, i) * lower(k, j) for k in range(max(i, j), n))

    return _of_integers(n, _pascal_element("invpascal", kind, symmetric, lower))


def _pascal_element(
    name: str, kind: str | None, symmetric: Callable[[int, int], int], lower: Callable[[int, int], int]
) -> Callable[[int, int], int]:
    kinds = {None: symmetric, "symmetric": symmetric, "lower": lower, "upper": lambda i, j: lower(j, i)}
    if kind not in kinds:
        raise ValueError(f"{name}: Expected kind to be one of 'symmetric', 'lower' and 'upper', and got {kind!r}.")
    return kinds[kind]


def helmert(n: int, full: bool = False) -> Any:
    """The Helmert matrix: orthonormal rows, each of which compares an element with the mean of those before it.

    Source: H. O. Lancaster, The Helmert matrices, American Mathematical Monthly, 1965.

    Args:
      n: the order, at least 1.
      full: whether to put the row of equal elements first, which makes the matrix orthogonal.

    Returns:
      [n - 1, n], or [n, n], floating.

    Raises:
      ValueError: `n` is not positive.

    >>> from xpr.scipy import linalg
    >>> linalg.helmert(2, full=True)
    Array([[ 0.70710677,  0.70710677],
           [ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _order("helmert", n, least=1)
    k = np.arange(1, n)[:, None]
    rows = np.where(np.arange(n) < k, 1.0, np.where(np.arange(n) == k, -k, 0.0)) / np.sqrt(k * (k + 1))
    return _floats(np.concatenate([np.full((1, n), n**-0.5), rows]) if full else rows)


def hadamard(n: int, dtype: Any = int) -> Any:
    """The Hadamard matrix by Sylvester's construction: orthogonal rows of 1 and -1.

    Args:
      n: the order, a power of 2.
      dtype: of the result.

    Returns:
      [n, n].

    Raises:
      ValueError: `n` is no power of 2.

    >>> from xpr.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard: n must be a positive power of 2, and is {n}.")
    matrix = np.ones((1, 1), np.int8)
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return jnp.asarray(matrix).astype(dtype)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform, exp(-2 pi i j k / n).

    Args:
      n: the order.
      scale: None, "sqrtn" to divide by the square root of n, or "n" to divide by n.
      dtype: a complex dtype of the result; None for the default one.

    Returns:
      [n, n].

    Raises:
      ValueError: there is no such scale, or the dtype is not complex.

    >>> from xpr.scipy import linalg
    >>> linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale must be None, 'sqrtn' or 'n', and is {scale!r}.")
    dtype = jnp.result_type(complex if dtype is None else dtype)
    if dtype not in dtypes.COMPLEX:
        raise ValueError(f"dft: dtype must be complex, and is {dtype.name}.")
    i = np.arange(_order("dft", n))
    turns = np.outer(i, i) % max(n, 1) / max(n, 1)
    divisor = {None: 1, "sqrtn": math.sqrt(n), "n": n}[scale]
    return jnp.asarray((np.exp(-2j * math.pi * turns) / divisor).astype(dtype))

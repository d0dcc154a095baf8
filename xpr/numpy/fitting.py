"""Functions of polynomials that need linear algebra: least-squares fits, and roots as eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.argminmax import argmax
from xpr.numpy.arithmetic import absolute
from xpr.numpy.concatenation import concatenate
from xpr.numpy.concrete import concrete_value
from xpr.numpy.creation import zeros
from xpr.numpy.decompositions import eigvals
from xpr.numpy.flip_roll_tile import roll
from xpr.numpy.linear_equations import inv, lstsq
from xpr.numpy.matrices import eye, vander
from xpr.numpy.polynomials import coefficients
from xpr.numpy.powers import sqrt
from xpr.numpy.promotion import as_operand, asarray_like, promote_inexact
from xpr.numpy.ranges import arange
from xpr.numpy.reductions import sum as summed
from xpr.numpy.reshaping import atleast_1d
from xpr.numpy.sorting import argsort
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import full, reshape
from xpr.primitives.slicing import concatenate as joined
from xpr.primitives.slicing import slice_in_dim


def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with leading coefficient 1 that has given roots, or the characteristic polynomial of a matrix.

        Raises:
    ValueError: the argument is neither a vector of roots nor a square matrix.

        >>> import xpr.numpy as jnp
        >>> jnp.poly(jnp.array([1.0, -2.0]))
        Array([ 1.,  1., -2.], dtype=float32)
    """
    zeros = as_operand(seq_of_zeros)
    zeros = eigvals(zeros) if aval_of(zeros).ndim == 2 else coefficients("poly", zeros)
    (zeros,) = promote_inexact(zeros)
    dtype = aval_of(zeros).dtype
    result: Any = full((1,), 1, dtype)
    for i in range(aval_of(zeros).size):
        root = reshape(slice_in_dim(zeros, i, i + 1), ())
        zero = full((1,), 0, dtype)
        result = e.sub(joined([result, zero], 0), e.mul(joined([zero, result], 0), root))
    return asarray_like(result)


@compiled_eagerly("deg")
def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: bool | str = False
) -> Any:
    """The polynomial of a degree that fits values best, by least squares.

    Args:
      x: the coordinates of the values, [n].
      y: the values, [n], or [n, k] for k polynomials.
      deg: the degree.
      rcond: see `jnp.linalg.lstsq`; None for n times epsilon.
      full: whether to return the residuals, the rank, the singular values and `rcond` too.
      w: the weights of the residuals (not squared), [n]; None for 1.
      cov: whether to return the covariance of the coefficients too; "unscaled" for values of standard deviation 1 / w.

    Returns:
      Coefficients [deg + 1] or [deg + 1, k], the highest power first; with `full` or `cov` a tuple that begins with
      them.

    Raises:
      ValueError: the degree is negative, or there are too few values to scale a covariance.
      TypeError: x or w is not a vector, or sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.polyfit(jnp.array([0., 1., 2.]), jnp.array([1., 3., 5.]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    x, y = promote_inexact(asarray_like(x), asarray_like(y))
    x, y = asarray_like(x), asarray_like(y)
    vectors = [x] if w is None else [x, *promote_inexact(asarray_like(w))]
    if deg < 0:
        raise ValueError(f"polyfit: the degree must not be negative, and is {deg}.")
    if y.aval.ndim not in (1, 2) or any(v.aval.shape != y.aval.shape[:1] for v in vectors) or not x.aval.size:
        types = ", ".join(v.aval.str_short() for v in (*vectors, y))
        raise TypeError(f"polyfit: takes vectors x and w, and y with as many values, at least one; and got {types}.")
    order, n = deg + 1, x.aval.shape[0]
    rcond = n * float(dtypes.finfo(x.aval.dtype).eps) if rcond is None else float(rcond)
    powers, values = vander(x, order), y
    if w is not None:
        powers = powers * vectors[1][:, None]
        values = values * (vectors[1][:, None] if y.aval.ndim == 2 else vectors[1])
    scale = sqrt(summed(powers * powers, 0))
    powers = powers / scale
    scaled, residuals, rank, singular = lstsq(powers, values, rcond)
    solution = scaled / (scale[:, None] if y.aval.ndim == 2 else scale)
    if full:
        return solution, residuals, rank, singular, asarray_like(rcond)
    if not cov:
        return solution
    covariance = inv(powers.T @ powers) / (scale[:, None] * scale)
    factor: Any = np.ones(1, scale.aval.dtype)
    if cov != "unscaled":
        if n <= order:
            raise ValueError(f"polyfit: {n} values are too few to scale the covariance of {order} coefficients.")
        factor = residuals / (n - order)
    return solution, covariance * factor if y.aval.ndim == 1 else covariance[:, :, None] * factor


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial, as eigenvalues of its companion matrix (on CPU only).

    Args:
      p: a vector of coefficients, the highest power first.
      strip_zeros: whether to drop leading zeros, which needs known values; otherwise each gives a nan at the end.

    Returns:
      Complex numbers, in no particular order.

    Raises:
      ValueError: `p` is not a vector.
      ConcretizationTypeError: `p` is traced, and `strip_zeros` is True.

    >>> import xpr.numpy as jnp
    >>> jnp.roots(jnp.array([1., 0., 1.]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    (p,) = promote_inexact(asarray_like(p))
    p = atleast_1d(p)
    if p.aval.ndim != 1:
        raise ValueError(f"roots: takes a vector of coefficients, and got {p.aval.str_short()}.")
    is_zero = e.eq(p, e.scalar(0, p))
    n = p.aval.size
    if strip_zeros:
        known = np.asarray(concrete_value(is_zero, "roots", "Pass strip_zeros=False."))
        leading = n if known.all() else int(np.argmin(known))
        return _roots(p[leading:])
    if n < 2:
        return _roots(p)
    leading = where(is_zero.all(), n, argmax(e.bitwise_not(is_zero)))
    result = _roots(roll(p, -leading))
    result = result[argsort(-absolute(result))]
    return where(arange(n - 1) < n - 1 - leading, result, complex(np.nan, np.nan))


def _roots(p: Any) -> Any:
    """The roots of a polynomial whose first coefficient is not 0."""
    n = aval_of(p).size - 1
    if n < 1:
        return zeros(0, np.result_type(p.aval.dtype, np.complex64))
    first = -(p[1:] / p[0])[None]
    return eigvals(concatenate([first, eye(n - 1, n, dtype=p.aval.dtype)]))

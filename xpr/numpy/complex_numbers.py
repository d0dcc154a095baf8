"""Complex numbers and their parts."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.promotion import as_operand, asarray_like, convert
from xpr.numpy.trigonometric import arctan2, rad2deg
from xpr.numpy.ufunc_builders import alias
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import zeros_like_aval

__all__ = ["angle", "conj", "conjugate", "imag", "real"]


def real(val: Any, /) -> Any:
    """The real part of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    val = as_operand(val)
    return e.real_p.bind(val) if aval_of(val).dtype in dtypes.COMPLEX else asarray_like(val)


def imag(val: Any, /) -> Any:
    """The imaginary part of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    val = as_operand(val)
    aval = aval_of(val)
    return e.imag_p.bind(val) if aval.dtype in dtypes.COMPLEX else asarray_like(zeros_like_aval(aval))


def conjugate(x: Any, /) -> Any:
    """The complex conjugate of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.conjugate(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    x = as_operand(x)
    return e.conj_p.bind(x) if aval_of(x).dtype in dtypes.COMPLEX else asarray_like(x)


conj = alias(conjugate, "conj")


@compiled_eagerly()
def angle(z: Any, deg: bool = False) -> Any:
    """The argument of each element in the complex plane.

    Args:
      z: array of real or complex numbers.
      deg: whether angles are in degrees instead of radians.

    Returns:
      Real floats of the shape of `z`, from -pi to pi (-180 to 180 degrees).

    >>> import xpr.numpy as jnp
    >>> jnp.angle(1j)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    z = as_operand(z)
    aval = aval_of(z)
    if aval.dtype not in dtypes.INEXACT or (aval.dtype in dtypes.FLOATS and not aval.shape):
        z = convert(z, dtypes.of_python(float))
    result = arctan2(imag(z), real(z))
    return rad2deg(result) if deg else result

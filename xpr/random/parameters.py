"""Arguments of the functions that draw random numbers: dtypes, parameters, and shapes that parameters broadcast to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.core.avals import Shape, aval_of
from xpr.dimensions.slices import broadcast_sizes
from xpr.errors import ArgumentError
from xpr.numpy.creation import asarray
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.shapes import broadcast_to, shape_of

FLOATS = frozenset({dtypes.bf16, dtypes.float16, dtypes.float32, dtypes.float64})
_PYTHON_SCALARS = frozenset({bool, int, float})


def float_dtype(dtype: Any, name: str) -> np.dtype:
    """The dtype to draw floats in; the default one for None.

    Raises:
      ArgumentError: it is not one that floats can be drawn in.
    """
    return _dtype(float if dtype is None else dtype, name, FLOATS, "a float dtype of 16 bits or more")


def float_or_complex_dtype(dtype: Any, name: str) -> np.dtype:
    """The dtype to draw floats or complex numbers in; the default float dtype for None."""
    expected = "a complex dtype, or a float dtype of 16 bits or more"
    return _dtype(float if dtype is None else dtype, name, FLOATS | dtypes.COMPLEX, expected)


def integer_dtype(dtype: Any, name: str, allowed: frozenset[np.dtype] = dtypes.INTEGERS) -> np.dtype:
    """The dtype to draw integers in; the default one for None."""
    kind = "an integer dtype" if allowed & dtypes.SIGNED else "an unsigned int dtype"
    expected = kind if allowed is dtypes.INTEGERS else f"{kind}, one of {', '.join(sorted(map(str, allowed)))}"
    return _dtype(int if dtype is None else dtype, name, allowed, expected)


def _dtype(dtype: Any, name: str, allowed: frozenset[np.dtype], expected: str) -> np.dtype:
    dtype = dtypes.requested(dtype)
    if dtype not in allowed:
        raise ArgumentError(f"dtype argument to random.{name} must be {expected}, and is {dtype.name}.")
    return dtype


def parameter(x: Any, dtype: np.dtype) -> Any:
    """A parameter of a distribution as an array of `dtype`.

    Raises:
      ArgumentError: it is complex, and `dtype` is not.
    """
    if type(x) in _PYTHON_SCALARS:
        return _constant(type(x).__name__, x, dtype)  # 1 and 1.0 are equal, and become different constants
    x = asarray(x)
    if x.dtype in dtypes.COMPLEX and dtype not in dtypes.COMPLEX:
        raise ArgumentError(
            f"A parameter of a distribution is {aval_of(x).str_short()}, and numbers are drawn in {dtype.name}: its "
            "imaginary part would be lost. Take x.real."
        )
    return convert_element_type(x, dtype)


@lru_cache(256)
def _constant(kind: str, value: Any, dtype: np.dtype) -> Array:
    return from_host(np.asarray(value, dtype))


def shape_for(name: str, shape: Any, **parameters: Any) -> Shape:
    """The shape to draw: the one asked for, or where that is None the one that the parameters broadcast to.

    Raises:
      ValueError: the parameters don't broadcast to each other, or to the shape.
    """
    shapes = [aval_of(x).shape for x in parameters.values()]
    expected = None if shape is None else shape_of(shape)
    try:
        common = broadcast_sizes(shapes)
        if expected is None or broadcast_sizes([common, expected]) == expected:
            return common if expected is None else expected
    except ValueError:
        pass  # raised below
    listed = ", ".join(f"{what} {s}" for what, s in zip(parameters, shapes))
    requested = "" if expected is None else f", and to the shape {expected} asked for"
    raise ValueError(f"random.{name}: the parameters must broadcast to each other{requested}. Their shapes: {listed}.")


def broadcast(x: Any, shape: Shape) -> Any:
    """A parameter as an operand that broadcasts to `shape`: a scalar as it is, any other array repeated."""
    return broadcast_to(x, shape) if aval_of(x).ndim else x

"""What the drawing functions do to their arguments: dtypes, parameters, and the shape that parameters ask for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.core.avals import Shape, aval_of
from xpr.numpy.creation import asarray, shape_of
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.shapes import broadcast_to

FLOATS = frozenset({dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64})
_PYTHON_SCALARS = frozenset({bool, int, float})


def float_dtype(dtype: Any, name: str) -> np.dtype:
    """The dtype to draw floats in; the default one for None.

    Raises:
      ValueError: it is not one that floats can be drawn in.
    """
    return _dtype(float if dtype is None else dtype, name, FLOATS, "a float dtype of 16 bits or more")


def float_or_complex_dtype(dtype: Any, name: str) -> np.dtype:
    """The same, where complex numbers can be drawn too."""
    wanted = "a complex dtype, or a float dtype of 16 bits or more"
    return _dtype(float if dtype is None else dtype, name, FLOATS | dtypes.COMPLEX, wanted)


def integer_dtype(dtype: Any, name: str, allowed: frozenset[np.dtype] = dtypes.INTEGERS) -> np.dtype:
    """The dtype to draw integers in; the default one for None."""
    wanted = "an integer dtype" if allowed is dtypes.INTEGERS else "a dtype of " + ", ".join(sorted(map(str, allowed)))
    return _dtype(int if dtype is None else dtype, name, allowed, wanted)


def _dtype(dtype: Any, name: str, allowed: frozenset[np.dtype], wanted: str) -> np.dtype:
    dtype = dtypes.canonical(dtype)
    if dtype not in allowed:
        found = dtypes.short_name(dtype)
        raise ValueError(f"random.{name}: draws numbers of {wanted}, and dtype={found} was asked for.")
    return dtype


def parameter(x: Any, dtype: np.dtype) -> Any:
    """A parameter of a distribution as an array of `dtype`."""
    if type(x) in _PYTHON_SCALARS:
        return _constant(type(x).__name__, x, dtype)  # 1 and 1.0 are equal, and become different constants
    return convert_element_type(asarray(x), dtype)


@lru_cache(256)
def _constant(kind: str, value: Any, dtype: np.dtype) -> Array:
    return from_host(np.asarray(value, dtype))


def shape_for(name: str, shape: Any, **parameters: Any) -> Shape:
    """The shape to draw: the one asked for, or where that is None the one that the parameters broadcast to.

    Raises:
      ValueError: the parameters don't broadcast to each other, or to the shape.
    """
    shapes = [aval_of(x).shape for x in parameters.values()]
    wanted = None if shape is None else shape_of(shape)
    try:
        found = np.broadcast_shapes(*shapes)
        if wanted is None or np.broadcast_shapes(found, wanted) == wanted:
            return found if wanted is None else wanted
    except ValueError:
        pass  # told below
    given = ", ".join(f"{what} {s}" for what, s in zip(parameters, shapes))
    asked = "" if wanted is None else f", and to the shape {wanted} asked for"
    raise ValueError(f"random.{name}: the parameters must broadcast to each other{asked}. Their shapes: {given}.")


def spread(x: Any, shape: Shape) -> Any:
    """A parameter as an operand beside numbers of `shape`: a scalar as it is, another array repeated."""
    return broadcast_to(x, shape) if aval_of(x).ndim else x

"""Symbolic dimensions as arrays: an integer that is computed from the shapes of a program's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.avals import ShapedArray, Zero, python_scalar_aval
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions import expressions
from xpr.primitives.elementwise import convert_element_type

__all__ = ["dim_as_value_p"]


def _abstract(avals: Any, *, dim: Any) -> list[ShapedArray]:
    return [python_scalar_aval(int)]


def _reference(values: Any, *, dim: Any) -> list[np.ndarray]:
    return [np.asarray(int(dim), python_scalar_aval(int).dtype)]


def _jvp(primals: Any, tangents: Any, *, dim: Any) -> Any:
    return [dim_as_value(dim)], [Zero(python_scalar_aval(int).to_tangent_aval())]


dim_as_value_p = register(
    Primitive(
        "dim_as_value",
        abstract=_abstract,
        reference=_reference,
        lower=lambda b, operands, avals, *, dim: [b.convert(b.dimension(dim), avals[0].dtype)],
        jvp=_jvp,
        transpose=Unsupported("It has no operands."),
        batch=Unsupported("It has no operands."),
        exact=True,
    )
)


def dim_as_value(dim: Any) -> Any:
    """A dimension as an array."""
    return dim_as_value_p.bind(dim=dim)


def size_as(size: Any, dtype: np.dtype) -> Any:
    """A size as a scalar of a dtype; a symbolic one as an array."""
    if not expressions.is_symbolic_dim(size):
        return dtype.type(size)
    return convert_element_type(dim_as_value(size), dtype)


expressions.as_array.append(dim_as_value)

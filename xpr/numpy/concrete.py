"""Concrete values of arguments that determine the shape of a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.core.interpreter import Tracer
from xpr.errors import ConcretizationTypeError


def concrete_value(x: Any, name: str, way_out: str) -> np.ndarray:
    """The value of an operand, also of one that is being differentiated.

    Raises:
      ConcretizationTypeError: it is traced, and only its type is known.
    """
    if isinstance(x, Tracer):
        x = x._value_for(ConcretizationTypeError, f"jnp.{name}, whose result's shape depends on values,", way_out)
    return x.numbers() if type(x) is Array else np.asarray(x)


def is_known(x: Any) -> bool:
    """Whether the value of an operand is known, so that it can be read on the host."""
    return not isinstance(x, Tracer) or x.concrete() is not None

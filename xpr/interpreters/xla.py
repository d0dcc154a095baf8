"""`jax.interpreters.xla`: applying a primitive by compiling it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xpr.api.jit import jit
from xpr.backend import runtime
from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.numpy.creation import asarray

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers", "pytype_aval_mappings"]

Backend = runtime._jax.Client
# For libraries that add their array types with the handler of NumPy's; xpr itself converts by __array__.
canonicalize_dtype_handlers: dict[type, Any] = {np.ndarray: asarray}
pytype_aval_mappings: dict[type, Any] = {np.ndarray: aval_of}


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The results of an operation, compiled by its lowering rule."""
    return _compiled(prim, *params.items())(*args)


@functools.cache
def _compiled(prim: Primitive, *params: tuple[str, Any]) -> Any:
    return jit(functools.partial(prim.bind, **dict(params)))

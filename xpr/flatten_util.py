"""Pytrees of arrays as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr import tree

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The entries of all arrays of a pytree in one vector, and the function that makes such pytrees of such vectors.

    Args:
      pytree: arrays and numbers. The vector has the dtype that theirs promote to.
    Returns:
      The vector; and a function from vectors of its shape to pytrees. Where the arrays differ in dtype it takes vectors
      of the dtype of the first, and gives each array its own.
    Raises:
      ValueError, TypeError: by that function, for a vector of another shape, or dtype.

    >>> import xpr.numpy as jnp
    >>> from xpr.flatten_util import ravel_pytree
    >>> vector, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
    >>> vector
    Array([1., 1., 3.], dtype=float32)
    >>> unravel(2 * vector)
    {'a': Array([2., 2.], dtype=float32), 'b': Array(6., dtype=float32)}
    """
    leaves, structure = tree.flatten(pytree)
    arrays = [jnp.asarray(x) for x in leaves]
    shapes, dtypes = [x.shape for x in arrays], [x.dtype for x in arrays]
    dtype = jnp.result_type(*arrays) if arrays else None
    is_mixed = any(each != dtype for each in dtypes)
    rows = [jnp.ravel(x.astype(dtype) if is_mixed else x) for x in arrays]
    places = [0]
    for shape in shapes:
        places.append(places[-1] + math.prod(shape))

    def unravel(flat: Any) -> Any:
        found = jnp.shape(flat)
        if found != (places[-1],):
            raise ValueError(f"unravel: expected a vector of shape ({places[-1]},), and got shape {found}.")
        flat = jnp.asarray(flat)
        if is_mixed and flat.dtype != dtype:
            raise TypeError(f"unravel: expected a vector of dtype {dtype}, and got {flat.dtype}.")
        parts = [flat[start:stop].reshape(shape) for start, stop, shape in zip(places, places[1:], shapes)]
        return tree.unflatten(structure, map(_of_dtype, parts, dtypes) if is_mixed else parts)

    return jnp.concatenate(rows) if rows else jnp.zeros(0), unravel


def _of_dtype(x: Any, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    is_real = not jnp.issubdtype(dtype, jnp.complexfloating)
    return (x.real if is_real and jnp.iscomplexobj(x) else x).astype(dtype)

"""Pytrees of arrays flattened into one vector, and back: `ravel_pytree`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct, eval_shape

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All arrays of a pytree flattened into one vector, and the function that makes such pytrees of such vectors.

    Args:
      pytree: a pytree of arrays and numbers; the vector has the dtype to which theirs promote, float32 for the number
        2.0. `ShapeDtypeStruct` may stand for arrays of which the types alone are known.

    Returns:
      `(vector, unravel)`. Where the arrays differ in dtype, `unravel` takes vectors of the vector's dtype, and gives
      each array its own. Of types, `vector` is a type, too.

    Raises:
      ValueError: by `unravel`, for a vector of another shape.
      TypeError: by `unravel`, for a vector of another dtype.

    >>> import xpr.numpy as jnp
    >>> from xpr.flatten_util import ravel_pytree
    >>> vector, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
    >>> vector
    Array([1., 1., 3.], dtype=float32)
    >>> unravel(2 * vector)
    {'a': Array([2., 2.], dtype=float32), 'b': Array(6., dtype=float32)}
    """
    leaves, structure = tree.flatten(pytree)
    if any(isinstance(x, ShapeDtypeStruct) for x in leaves):
        arrays = eval_shape(_arrays, leaves)
        return eval_shape(_vector, arrays), _unravel(structure, arrays)
    arrays = _arrays(leaves)
    return _vector(arrays), _unravel(structure, arrays)


def _arrays(leaves: list[Any]) -> list[Any]:
    return [jnp.asarray(x) for x in leaves]


def _vector(arrays: list[Any]) -> Any:
    if not arrays:
        return jnp.zeros(0)
    dtype = _common_dtype(arrays)
    return jnp.concatenate([jnp.ravel(x if dtype is None else x.astype(dtype)) for x in arrays])


def _unravel(structure: Any, arrays: list[Any]) -> _Unravel:
    shapes, dtypes = tuple(x.shape for x in arrays), tuple(x.dtype for x in arrays)
    return _Unravel(structure, shapes, dtypes, _common_dtype(arrays))


def _common_dtype(arrays: list[Any]) -> Any:
    """The dtype to which the dtypes of arrays promote, weak ones as others; None where they have one dtype."""
    dtypes = {x.dtype for x in arrays}
    return jnp.result_type(*dtypes) if len(dtypes) > 1 else None


class _Unravel:
    """A function from a vector to a pytree; equal to another one that does the same, so that `jit` knows it again."""

    __slots__ = ("_key", "_positions")

    def __init__(self, structure: Any, shapes: tuple[Any, ...], dtypes: tuple[Any, ...], dtype: Any):
        self._key = structure, shapes, dtypes, dtype
        self._positions = [0]
        for shape in shapes:
            self._positions.append(self._positions[-1] + math.prod(shape))

    def __call__(self, flat: Any) -> Any:
        structure, shapes, dtypes, dtype = self._key
        positions, shape = self._positions, jnp.shape(flat)
        if shape != (positions[-1],):
            raise ValueError(f"unravel: expected a vector of shape ({positions[-1]},), and got shape {shape}.")
        flat = jnp.asarray(flat)
        if dtype is not None and flat.dtype != dtype:
            raise TypeError(f"unravel: got a vector of dtype {flat.dtype}, but expected dtype {dtype}.")
        parts = [flat[start:stop].reshape(shape) for start, stop, shape in zip(positions, positions[1:], shapes)]
        return tree.unflatten(structure, parts if dtype is None else map(_of_dtype, parts, dtypes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> Any:
        return _Unravel, self._key


def _of_dtype(x: Any, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    is_real = not jnp.issubdtype(dtype, jnp.complexfloating)
    return (x.real if is_real and jnp.iscomplexobj(x) else x).astype(dtype)

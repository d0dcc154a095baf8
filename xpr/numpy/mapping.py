"""Functions of scalars and vectors, mapped over the axes of arrays: apply_along_axis, fromfunction, vectorize."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from xpr import tree
from xpr.core.avals import aval_of
from xpr.numpy.axes import one_axis
from xpr.numpy.creation import asarray, shape_of
from xpr.numpy.promotion import asarray_like, broadcast_shapes
from xpr.numpy.ranges import arange
from xpr.numpy.reshaping import expand_dims
from xpr.primitives.shapes import mapped_to, move_axis, squeeze
from xpr.transforms.batch import batch_flat
from xpr.transforms.flat import named_like


def mapped(function: Callable[..., Any], args: Sequence[Any], stacks: Sequence[tuple[int, ...]]) -> Any:
    """`function` mapped over the leading axes of its arguments, which broadcast together and lead its results too.

    Args:
      function: gives a pytree of arrays.
      args: arrays.
      stacks: for each, the sizes of the leading axes that it is mapped over.
    """
    depth = max(map(len, stacks), default=0)
    if not depth:
        return function(*args)
    size = next((s[0] for s in stacks if len(s) == depth and s[0] != 1), 1)
    rows, dims, rest = [], [], []
    for x, own in zip(args, stacks):
        here = len(own) == depth
        rows.append(squeeze(x, (0,)) if here and own[0] == 1 else x)
        dims.append(0 if here and own[0] != 1 else None)
        rest.append(own[1:] if here else own)
    structure = None

    def row(*xs: Any) -> list[Any]:
        nonlocal structure
        leaves, structure = tree.flatten(mapped(function, xs, rest))
        return leaves

    outs, out_dims = batch_flat(row, size, rows, dims)
    return tree.unflatten(structure, [mapped_to(out, dim, size) for out, dim in zip(outs, out_dims)])  # type: ignore[arg-type]  # row ran


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to every vector along an axis, which becomes the axes of the function's result.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_along_axis(lambda v: v - v[0], 1, jnp.array([[1, 2], [5, 7]]))
    Array([[0, 1],
           [0, 2]], dtype=int32)
    """
    arr = asarray_like(arr)
    ndim = arr.aval.ndim
    axis = one_axis(axis, ndim)
    vectors = move_axis(arr, axis, ndim - 1)
    result = mapped(lambda v: func1d(v, *args, **kwargs), [vectors], [vectors.aval.shape[:-1]])

    def placed_back(out: Any) -> Any:
        for i in range(aval_of(out).ndim - ndim + 1):
            out = move_axis(out, ndim - 1 + i, axis + i)
        return out

    return tree.map(placed_back, result)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Sequence[int]) -> Any:
    """`func(a, axis)` for one axis after the other; an axis that a result has lost comes back with size 1.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    a = asarray_like(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        result = func(a, axis)
        a = expand_dims(result, axis) if result.ndim == a.ndim - 1 else result
        if a.ndim != result.ndim and a.ndim != result.ndim + 1:
            raise ValueError(f"apply_over_axes: the function gave {result.ndim} axes for an array of {a.ndim}.")
    return a


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """A function of indices at every index: the function is mapped over each axis, and given scalars of `dtype`.

    It may give a pytree, whose leaves then have the axes of the indices in front.

    >>> import xpr.numpy as jnp
    >>> jnp.fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int)
    Array([[ 0,  1],
           [10, 11]], dtype=int32)
    """
    sizes = shape_of(shape)
    stacks = [(n, *(1,) * (len(sizes) - axis - 1)) for axis, n in enumerate(sizes)]
    indices = [arange(n, dtype=dtype).reshape(stack) for n, stack in zip(sizes, stacks)]
    return mapped(lambda *at: tree.map(asarray, function(*at, **kwargs)), indices, stacks)


# -- vectorize

_DIMENSIONS = r"\([^()]*\)"
_SIGNATURE = re.compile(rf"{_DIMENSIONS}(?:,{_DIMENSIONS})*->{_DIMENSIONS}(?:,{_DIMENSIONS})*")
Core = tuple[str, ...]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function of scalars, or of arrays of fewer axes, as one of arrays that broadcast together.

    Args:
      pyfunc: the function.
      excluded: numbers of positional arguments and names of keywords that are handed on as they are.
      signature: the axes that the function itself takes and gives, such as "(n,m),(m)->(n)"; names stand for sizes,
        numbers for themselves. By default it takes and gives scalars.
    Raises:
      ValueError: the signature can't be read, or the arguments don't fit it.

    >>> import xpr.numpy as jnp
    >>> @jnp.vectorize
    ... def larger(a, b):
    ...     return jnp.where(a > b, a, b)
    >>> larger(jnp.arange(3), jnp.array([[1], [2]]))
    Array([[1, 1, 2],
           [2, 2, 2]], dtype=int32)
    """
    takes, gives = _parsed(signature) if signature is not None else (None, None)

    def vectorized(*args: Any, **kwargs: Any) -> Any:
        places = [i for i, x in enumerate(args) if i not in excluded and x is not None]
        arrays = [asarray_like(args[i]) for i in places]
        cores = [()] * len(places) if takes is None else list(takes)
        if len(cores) != len(places):
            raise ValueError(f"vectorize: {signature} takes {len(cores)} arguments, and {len(places)} were given.")
        sizes: dict[str, int] = {}
        stacks = [_stack(x.aval.shape, core, sizes) for x, core in zip(arrays, cores)]
        broadcast_shapes(*stacks)

        def on_rows(*rows: Any) -> Any:
            own = list(args)
            for place, row in zip(places, rows):
                own[place] = row
            return _checked(pyfunc(*own, **kwargs), gives, sizes)

        return mapped(on_rows, arrays, stacks)

    return named_like(vectorized, pyfunc)


def _parsed(signature: str) -> tuple[list[Core], list[Core]]:
    text = signature.replace(" ", "")
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(f'vectorize: {signature!r} is no signature; one is "(n,m),(m)->(n)".')
    takes, gives = ([tuple(c[1:-1].split(",")) if c != "()" else () for c in re.findall(_DIMENSIONS, side)]
                    for side in text.split("->"))  # fmt: skip
    return takes, gives


def _stack(shape: tuple[int, ...], core: Core, sizes: dict[str, int]) -> tuple[int, ...]:
    """The axes of an argument in front of its core axes, whose sizes are written down, or checked."""
    if len(shape) < len(core):
        raise ValueError(f"vectorize: an argument of shape {shape} has not the axes ({','.join(core)}).")
    cut = len(shape) - len(core)
    _settle(shape[cut:], core, sizes)
    return shape[:cut]


def _settle(shape: tuple[int, ...], core: Core, sizes: dict[str, int]) -> None:
    for name, n in zip(core, shape):
        expected = int(name) if name.isdigit() else sizes.setdefault(name, n)
        if n != expected:
            raise ValueError(f"vectorize: axis {name} has the sizes {expected} and {n}.")


def _checked(result: Any, gives: list[Core] | None, sizes: dict[str, int]) -> Any:
    """The result of the function on rows, whose axes must be those of the signature."""
    for out, core in zip(result if isinstance(result, tuple) else (result,), gives or ()):
        if len(out.shape) != len(core):
            raise ValueError(f"vectorize: a result of shape {out.shape} has not the axes ({','.join(core)}).")
        _settle(out.shape, core, sizes)
    return result

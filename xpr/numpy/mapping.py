"""Functions of scalars and vectors, mapped over the axes of arrays: apply_along_axis, fromfunction, vectorize."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from xpr import tree
from xpr.config import settings
from xpr.core.avals import aval_of, describe
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import asarray_like, check_ranks
from xpr.numpy.ranges import arange
from xpr.numpy.reshaping import expand_dims
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.shapes import mapped_to, move_axis, one_axis, shape_of, squeeze
from xpr.transforms.batch import batch_flat
from xpr.transforms.flat import named_like

__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "vectorize"]


def mapped(function: Callable[..., Any], args: Sequence[Any], stacks: Sequence[tuple[int, ...]]) -> Any:
    """A function mapped over the leading axes of its arguments, which broadcast and are those of its results.

    Args:
      function: returns a pytree of arrays.
      args: arrays.
      stacks: for each, the sizes of the leading axes that it is mapped over.
    """
    depth = max(map(len, stacks), default=0)
    if not depth:
        return function(*args)
    size = next((s[0] for s in stacks if len(s) == depth and s[0] != 1), 1)
    rows, dims, inner_stacks = [], [], []
    for x, stack in zip(args, stacks):
        is_mapped = len(stack) == depth
        rows.append(squeeze(x, (0,)) if is_mapped and stack[0] == 1 else x)
        dims.append(0 if is_mapped and stack[0] != 1 else None)
        inner_stacks.append(stack[1:] if is_mapped else stack)
    structure = None

    def row(*xs: Any) -> list[Any]:
        nonlocal structure
        leaves, structure = tree.flatten(mapped(function, xs, inner_stacks))
        return leaves

    outs, out_dims = batch_flat(row, size, rows, dims)
    return tree.unflatten(structure, [mapped_to(out, dim, size) for out, dim in zip(outs, out_dims)])  # type: ignore[arg-type]  # row ran


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to every vector along an axis, which is replaced by the axes of its results.

    Args:
      func1d: a function of a vector.
      axis: the axis of the vectors.
      arr: an array.
      *args: further arguments of the function.
      **kwargs: further arguments of the function.

    Returns:
      An array.

    Raises:
      ValueError: there is no such axis.

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

    def to_axis(out: Any) -> Any:
        for i in range(aval_of(out).ndim - ndim + 1):
            out = move_axis(out, ndim - 1 + i, axis + i)
        return out

    return tree.map(to_axis, result)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Sequence[int]) -> Any:
    """A function `func(a, axis)` applied along one axis after the other; reduced axes are kept with size 1.

    Args:
      func: a function of an array and an axis.
      a: an array.
      axes: the axis or axes.

    Returns:
      An array with as many axes as `a`.

    Raises:
      ValueError: a result has another number of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    a = asarray_like(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        result = func(a, axis)
        if result.ndim not in (a.ndim, a.ndim - 1):
            raise ValueError(
                f"apply_over_axes: the function must keep axis {axis} or drop it, and returned {result.ndim} axes for "
                f"an array of {a.ndim}."
            )
        a = result if result.ndim == a.ndim else expand_dims(result, axis)
    return a


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """A function of indices evaluated at every index of a shape: it is mapped over each axis.

    It may return a pytree, whose leaves then have the axes of the indices in front.

    Args:
      function: a function of as many scalars as there are axes.
      shape: the sizes of the axes.
      dtype: of the indices.
      **kwargs: keyword arguments of the function.

    Returns:
      An array of the shape, or a pytree of them.

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
    """A function of scalars, or of arrays with fewer axes, as a function of arrays that broadcast.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are passed on as they are.
      signature: the axes that the function takes and returns, such as "(n,m),(m)->(n)"; names stand for sizes, numbers
        for themselves. None for scalars.

    Returns:
      A function of arrays.

    Raises:
      TypeError: `excluded` holds other things, or arguments or results are not as many as the signature says.
      ValueError: the signature can't be parsed, arguments or results don't fit it, or `excluded` holds one below 0.

    >>> import xpr.numpy as jnp
    >>> @jnp.vectorize
    ... def larger(a, b):
    ...     return jnp.where(a > b, a, b)
    >>> larger(jnp.arange(3), jnp.array([[1], [2]]))
    Array([[1, 1, 2],
           [2, 2, 2]], dtype=int32)
    """
    _check_excluded(excluded)
    takes, gives = _parsed(signature) if signature is not None else (None, None)

    def vectorized(*args: Any, **kwargs: Any) -> Any:
        positions = [i for i, x in enumerate(args) if i not in excluded and (x is not None or takes is not None)]
        cores = [()] * len(positions) if takes is None else list(takes)
        if len(cores) != len(positions):
            raise TypeError(
                f"vectorize: wrong number of positional arguments: {signature} takes {len(cores)}, and "
                f"{len(positions)} were given."
            )
        missing = {i for i in positions if args[i] is None}
        if missing:
            raise ValueError(
                f"vectorize: Cannot pass None at locations {missing} with signature={signature!r}, which takes arrays "
                "there."
            )
        arrays = [asarray_like(args[i]) for i in positions]
        sizes: dict[str, int] = {}
        stacks = [_stack(x.aval.shape, core, sizes) for x, core in zip(arrays, cores)]
        if settings.numpy_rank_promotion != "allow":
            check_ranks(stacks)
        broadcast_shapes(*stacks)

        def on_rows(*rows: Any) -> Any:
            arguments = list(args)
            for position, row in zip(positions, rows):
                arguments[position] = row
            return _checked(pyfunc(*arguments, **kwargs), gives, sizes)

        return mapped(on_rows, arrays, stacks)

    return named_like(vectorized, pyfunc)


def _check_excluded(excluded: Collection[Any]) -> None:
    """Checks that `excluded` holds positions and names of arguments."""
    if not all(isinstance(each, (int, str)) for each in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude arguments by their positions, integers, and by their names, strings, "
            f"and excluded is {excluded!r}."
        )
    if any(isinstance(each, int) and each < 0 for each in excluded):
        raise ValueError(f"vectorize: excluded={excluded!r} contains negative numbers. Positions count from the front.")


def _parsed(signature: str) -> tuple[list[Core], list[Core]]:
    text = signature.replace(" ", "")
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(f'vectorize: {signature!r} is no signature; one is "(n,m),(m)->(n)".')
    takes, gives = ([tuple(c[1:-1].split(",")) if c != "()" else () for c in re.findall(_DIMENSIONS, side)]
                    for side in text.split("->"))  # fmt: skip
    return takes, gives


def _stack(shape: tuple[int, ...], core: Core, sizes: dict[str, int]) -> tuple[int, ...]:
    """The axes of an argument before its core axes, whose sizes are recorded in `sizes`, or checked."""
    if len(shape) < len(core):
        raise ValueError(
            f"vectorize: an input with shape {shape} does not have enough dimensions: its core axes are "
            f"({','.join(core)})."
        )
    n_stack = len(shape) - len(core)
    _bind_core_sizes(shape[n_stack:], core, sizes)
    return shape[:n_stack]


def _bind_core_sizes(shape: tuple[int, ...], core: Core, sizes: dict[str, int]) -> None:
    for name, n in zip(core, shape):
        expected = int(name) if name.isdigit() else sizes.setdefault(name, n)
        if n != expected:
            raise ValueError(f"vectorize: inconsistent size for core dimension {name!r}: {expected} and {n}.")


def _checked(result: Any, gives: list[Core] | None, sizes: dict[str, int]) -> Any:
    """The result of the function, after a check that it has the core axes of the signature."""
    if gives is None:
        return result
    if len(gives) > 1 and not isinstance(result, (tuple, list)):
        raise TypeError(f"vectorize: the output must be a tuple of {len(gives)} arrays, and is {describe(result)}.")
    outs = result if len(gives) > 1 or isinstance(result, tuple) else (result,)
    if len(outs) != len(gives):
        raise TypeError(
            f"vectorize: wrong number of output arguments: the signature has {len(gives)}, and {len(outs)} came."
        )
    for out, core in zip(outs, gives):
        shape = out.shape if hasattr(out, "shape") else asarray_like(out).shape  # a pytree may have one, too
        if len(shape) != len(core):
            raise ValueError(f"vectorize: output shape {shape} does not match ({','.join(core)}).")
        _bind_core_sizes(shape, core, sizes)
    return result

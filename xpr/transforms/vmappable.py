"""Types that say themselves how `vmap` maps them, as `interpreters.batching.register_vmappable` registers them.

`to_elt(cont, get_index, value, spec)` makes one row of a value, by `cont(array, axis)` for each array in it;
`from_elt(cont, size, row, spec)` puts rows together, by `cont(size, row of an array, axis)`. `vmap` itself maps arrays:
`to_elt` is called to find them with their axes, and to put what is made of them in their positions. `from_elt` is
called while the function is mapped, and may compute with a row; if it computes with what `cont` gives, it is called
again with rows that can't be computed with.

Of other types, such as sparse arrays, all arrays are mapped along one axis, which must be a batch axis of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from xpr import tree
from xpr.core.avals import aval_of
from xpr.primitives.shapes import expand_dims, move_axis
from xpr.primitives.slicing_in_dim import index_in_dim
from xpr.tree_def import PyTreeDef, registered_types


class Handlers(NamedTuple):
    """How values of a type are mapped, along axes of the type `spec`."""

    spec: type
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]


handlers: dict[type, Handlers] = {}
batch_axes: dict[type, Callable[[Any], int]] = {}  # how many leading axes of a value can be mapped, by its type


def check_batch_axes(what: str, values: Any, structure: PyTreeDef, dims: Iterable[Any]) -> None:
    """Checks that values which have batch axes are mapped along these, given the axis of each array.

    Raises:
      ValueError: another axis is mapped.
    """
    if batch_axes.keys().isdisjoint(registered_types(structure)):
        return
    axes = iter(dims)
    for x in tree.leaves(values, is_leaf=lambda x: type(x) in batch_axes):
        for axis in [next(axes) for _ in tree.leaves(x)]:
            count = batch_axes[type(x)](x) if type(x) in batch_axes else None
            if count is not None and axis is not None and not 0 <= axis < count:
                raise ValueError(
                    f"vmap {what}: axis {axis} of {x!r} is none of its {count} batch axes, and these alone can be "
                    "mapped. Give it more batch axes first, by update_layout, or None as its axis."
                )


def is_vmappable(x: Any) -> bool:
    """Whether a value is of a registered type."""
    return type(x) in handlers


def vmap_with_handlers(
    vmap: Callable[..., Any],
    fun: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    args: Any,
    kwargs: Any,
    **options: Any,
) -> Any:
    """`vmap(fun, in_axes, out_axes, **options)(*args, **kwargs)` of arguments and results of registered types."""
    leaves, structure = tree.flatten((args, kwargs), is_leaf=is_vmappable)
    axes = tree.flatten_prefix((in_axes, 0), structure, "vmap in_axes")
    arrays, dims = _arrays(leaves, axes)
    sizes = [aval_of(x).shape[axis] for x, axis in zip(arrays, dims) if axis is not None]
    size = next(iter(sizes), options.get("axis_size"))
    outs: list[Any] = []
    together: list[Any] = []
    rows: list[tuple[Any, Any]] = []  # those that `from_elt` asked to put together, with their axes
    out_tree: Any = None

    def on_rows(*given: Any) -> list[Any]:
        nonlocal out_tree
        args, kwargs = tree.unflatten(structure, _with_rows(leaves, axes, iter(given)))
        outs[:], out_tree = tree.flatten(fun(*args, **kwargs), is_leaf=is_vmappable)
        results: list[Any] = []
        rows.clear()

        def found(row: Any, axis: Any) -> Any:
            results.append(row)
            rows.append((row if axis is None else expand_dims(row, [axis % (aval_of(row).ndim + 1)]), axis))
            return rows[-1][0]

        specs = tree.flatten_prefix(out_axes, out_tree, "vmap out_axes")
        together[:] = _put_together(outs, specs, size, found)
        return results

    mapped = [
        index_in_dim(x, 0, 0, keepdims=False) if axis is None else move_axis(x, 0, axis % aval_of(x).ndim)
        for x, (_, axis) in zip(vmap(on_rows, tuple(dims), 0, **options)(*arrays), rows)
    ]
    specs = tree.flatten_prefix(out_axes, out_tree, "vmap out_axes")
    known = {id(row): x for (row, _), x in zip(rows, mapped)}
    try:
        results = [_replaced(x, axis, known) for x, axis in zip(together, specs)]
    except KeyError:  # `from_elt` computed with what it was given
        given = iter(mapped)
        results = _put_together(outs, specs, size, lambda _, __: next(given))
    return tree.unflatten(out_tree, results)


def _arrays(leaves: Any, axes: Any) -> tuple[list[Any], list[Any]]:
    """The arrays that are mapped, those inside values of registered types included, and their axes."""
    arrays: list[Any] = []
    dims: list[Any] = []

    def found(array: Any, axis: Any) -> Any:
        arrays.append(array)
        dims.append(axis)
        shape = aval_of(array).shape
        return array if axis is None or not shape[axis] else index_in_dim(array, 0, axis, keepdims=False)

    for leaf, axis in zip(leaves, axes):
        if not is_vmappable(leaf):
            found(leaf, axis)
        else:
            handlers[type(leaf)].to_elt(found, None, leaf, axis)
    return arrays, dims


def _with_rows(leaves: Any, axes: Any, rows: Any) -> list[Any]:
    """The leaves with rows in place of their arrays."""
    return [
        handlers[type(leaf)].to_elt(lambda *_: next(rows), None, leaf, axis) if is_vmappable(leaf) else next(rows)
        for leaf, axis in zip(leaves, axes)
    ]


def _replaced(x: Any, axis: Any, known: dict[int, Any]) -> Any:
    """A result of `from_elt` with other arrays in place of those in it, which are known by their `id`.

    Raises:
      KeyError: it has others, or is of a type that is not registered.
    """
    return (
        handlers[type(x)].to_elt(lambda row, _: known[id(row)], None, x, axis) if id(x) not in known else known[id(x)]
    )


def _put_together(outs: Any, axes: Any, size: Any, put: Callable[[Any, Any], Any]) -> list[Any]:
    """The results with `put(row, axis)` in place of their arrays."""
    return [
        handlers[type(out)].from_elt(lambda _, row, axis: put(row, axis), size, out, axis)
        if is_vmappable(out)
        else put(out, axis)
        for out, axis in zip(outs, axes)
    ]

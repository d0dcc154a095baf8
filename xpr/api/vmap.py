"""vmap: vectorizes a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import tree
from xpr.control.activity import affected_outputs
from xpr.control.refs import RefRows, check_aliases
from xpr.core.avals import Zero, aval_of, describe
from xpr.core.explicit import ExplicitSharding
from xpr.core.hi_types import MappingSpec
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import constvars_to_invars, effects
from xpr.core.ref_views import refuse_split_views
from xpr.core.refs import Ref
from xpr.core.source import check_function, describe_function
from xpr.core.specs import axes_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ConcretizationTypeError
from xpr.passes.inline import inline_jaxpr
from xpr.primitives.shapes import mapped_to, with_rows_along
from xpr.primitives.sharding_rules import parts_of
from xpr.primitives.slicing_in_dim import index_in_dim
from xpr.transforms.batch import batch_flat, batch_jaxpr, names_in, row_aval
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, argument_names, as_array, named_like, result_paths, signature_of
from xpr.transforms.stage import stage
from xpr.transforms.vmappable import batch_axes, check_batch_axes, handlers, is_vmappable, vmap_with_handlers

__all__ = ["vmap"]


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """Vectorizes a function: maps it over an axis of its arguments, in one pass over whole arrays.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      in_axes: for each positional argument the axis to map over, or None where it is the same for all rows (such an
        argument may hold any objects, which `fun` gets as they are): an integer for all, or a sequence of pytree
        prefixes of the arguments. Negative axes count from the end. Keyword arguments are mapped over axis 0.
      out_axes: the position of the mapped axis in the results; a pytree prefix of them.
      axis_name: a name for the axis, by which collectives such as `lax.psum` can refer to it.
      axis_size: the size of the axis, needed only where no argument is mapped.
      spmd_axis_name: the axis of a mesh, or several, over which rows are sharded where arrays inside have sharding
        constraints, and by a `shard_map` inside.

    Returns:
      A function of the same arguments and results, each with an additional mapped axis.

    Raises:
      ValueError: sizes differ, an axis is out of range, or `in_axes` doesn't fit the arguments.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(jnp.dot, in_axes=(0, None))(jnp.eye(2), jnp.array([3., 4.]))
    Array([3., 4.], dtype=float32)
    """
    check_function(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    specs = (MappingSpec, *[each.spec for each in handlers.values()])
    if not isinstance(in_axes, (int, tuple, type(None), *specs)):
        raise TypeError(
            "vmap in_axes must be an int or None for all arguments, or a tuple with one of these for each, and is "
            f"{in_axes!r}."
        )
    _check_axes("in_axes", in_axes, (int, *specs))
    _check_axes("out_axes", out_axes, (int, np.integer, *specs))

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if handlers and any(map(is_vmappable, tree.leaves((args, kwargs), is_leaf=is_vmappable))):
            options = {"axis_name": axis_name, "axis_size": axis_size, "spmd_axis_name": spmd_axis_name}
            return vmap_with_handlers(vmap, fun, in_axes, out_axes, args, kwargs, **options)
        leaves, in_tree = tree.flatten((args, kwargs))
        dims = input_dims("vmap", fun, args, kwargs, leaves, in_axes)
        if batch_axes:
            check_batch_axes("in_axes", (args, kwargs), in_tree, dims)
        size = mapped_size("vmap", fun, args, kwargs, leaves, dims, axis_size)
        flat = FlatFunction(fun, in_tree)
        signature = signature_of("vectorized with vmap", fun, args, kwargs)
        rows_of_types = explicit_rows("vmap", fun, args, kwargs, leaves, dims)
        along = _mesh_axes_of_rows(fun, rows_of_types, spmd_axis_name)
        if rows_of_types is not None:
            leaves = [x if d is None else with_rows_along(x, rows_of_types, d) for x, d in zip(leaves, dims)]
        has_refs = Ref in map(type, leaves)
        batch_options = (axis_name, signature, along, rows_of_types)
        if has_refs:
            names = partial(argument_names, fun, args, kwargs)
            check_aliases("vmap", fun, names, leaves, ())
            refuse_split_views("vmap", (args, kwargs), [d is not None for d in dims])
            rows = RefRows("vmap", flat, names, leaves, dims, size)
            outs, out_dims = rows.store(*batch_flat(rows, size, rows.values, dims, *batch_options))
        else:
            outs, out_dims = batch_flat(flat, size, leaves, dims, *batch_options)

        def same() -> set[int]:
            return set() if has_refs else _same_in_all_rows(FlatFunction(fun, in_tree), leaves, dims, axis_name, size)

        moved = _move_mapped_axes(fun, outs, out_dims, flat.out_tree, out_axes, size, rows_of_types, same)
        result = tree.unflatten(flat.out_tree, moved)
        if batch_axes:
            dims = tree.flatten_prefix(out_axes, flat.out_tree, "vmap out_axes")
            check_batch_axes("out_axes", result, flat.out_tree, dims)
        return result

    vectorized = named_like(boundary(mapped), fun)
    vectorized.__doc__ = _documentation(vectorized)
    return vectorized


def _mesh_axes_of_rows(fun: Callable[..., Any], rows: ExplicitSharding | None, spmd_axis_name: Any) -> Any:
    """The axes of the mesh over which the rows are sharded, as the types of arguments or `spmd_axis_name` say.

    Raises:
      ValueError: both say it, and they differ.
    """
    if rows is None:
        return spmd_axis_name
    assert rows.parts is not None  # those of the mapped axis alone
    along = rows.parts[0]
    if spmd_axis_name is not None and rows.named(axes_of(spmd_axis_name)) != axes_of(along):
        raise ValueError(
            "vmap: Only one of spmd_axis_name or arrays sharded on the mapped axis can be used: "
            f"spmd_axis_name is {spmd_axis_name!r}, and arguments of {describe_function(fun)} are partitioned "
            f"over {along!r}."
        )
    return along


def _documentation(vectorized: Any) -> str:
    """The documentation of a vectorized function, which so far has that of the function itself."""
    name, original = vectorized.__name__, vectorized.__doc__
    text = f"Vectorized version of {name}, whose mapped arguments and results have an additional axis each."
    return f"{text}\n\nOriginal documentation:\n\n{original}" if original else text


def input_dims(
    what: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    in_axes: Any,
) -> list[int | None]:
    """For each leaf the axis it is mapped over, counted from the front."""
    if type(in_axes) is int and in_axes == 0:
        axes: list[Any] = [0] * len(leaves)
    else:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"{what}: in_axes has {len(in_axes)} entries and {describe_function(fun)} was called with {len(args)} "
                "positional arguments. Give one entry for each."
            )
        flat_prefix = tree.flatten_prefix(in_axes, tuple(args), f"{what} in_axes")
        axes = [*flat_prefix, *[0] * (len(leaves) - len(flat_prefix))]
    blanks = [0 if axis is None else x for x, axis in zip(leaves, axes)]  # what isn't mapped may be any object
    try:
        avals = list(map(aval_of, blanks))
    except TypeError:
        _check_arrays(what, fun, argument_names(fun, args, kwargs), blanks)
        raise
    for i, (x, aval, axis) in enumerate(zip(leaves, avals, axes)):
        if axis is None or aval.is_high:
            continue
        ndim = aval.ndim
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise TypeError(f"{what} in_axes must be an int, None, or a tree of these, and it holds {axis!r}.")
        if not -ndim <= axis < ndim:
            name = argument_names(fun, args, kwargs)[i]
            raise ValueError(
                f"{what} was requested to map its argument along axis {axis}, which argument {name} of "
                f"{describe_function(fun)}, of type {aval_of(x).str_short()}, doesn't have. Use in_axes=None for what "
                "is the same in all rows."
            )
        if axis < 0:
            axes[i] = axis + ndim
    return axes


def _check_arrays(what: str, fun: Callable[..., Any], names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Raises TypeError if a leaf is not an array, naming it."""
    for name, x in zip(names, leaves):
        try:
            aval_of(x)
        except TypeError as error:
            raise TypeError(
                f"{what}: argument {name} of {describe_function(fun)} has no rows to map over: {error}\n"
                "Use in_axes=None for what is the same in all rows."
            ) from None


def mapped_size(
    what: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> int:
    """The number of rows, which all mapped arguments and `axis_size` agree on.

    Raises:
      ValueError: they don't agree, or there are none.
    """
    mapped = [(x, d) for x, d in zip(leaves, dims) if d is not None and not aval_of(x).is_high]
    sizes = {aval_of(x).shape[d] for x, d in mapped}
    if axis_size is not None:
        if not sizes:
            _check_axis_size(what, axis_size)
        sizes.add(axis_size)
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ValueError(
            f"{what} requires at least one argument with a mapped axis, and {describe_function(fun)} has none, so that "
            "the number of rows is unknown. Map one (an integer in in_axes), or say axis_size=n."
        )
    names = argument_names(fun, args, kwargs)
    lines = [
        f"  {name}   {aval_of(x).str_short()}   {aval_of(x).shape[d]} rows along axis {d}"
        for name, x, d in zip(names, leaves, dims)
        if d is not None and not aval_of(x).is_high
    ]
    last_line = [f"  axis_size={axis_size}"] if axis_size is not None else []
    raise ValueError(
        f"{what} got inconsistent sizes for array axes to be mapped:\n"
        + "\n".join(lines + last_line)
        + f"\nThese are arguments of {describe_function(fun)}. Map axes of one size, or give in_axes=None for "
        "arguments that are the same in all rows."
    )


def _check_axis_size(what: str, axis_size: Any) -> None:
    """Raises an error if an `axis_size` that no argument is compared with is no number of rows."""
    if is_symbolic_dim(axis_size):
        return
    if not isinstance(axis_size, (int, np.integer)):
        raise TypeError(
            f"{what}: axis_size is the number of rows, an integer or a symbolic dimension, and is "
            f"{describe(axis_size)}."
        )
    if axis_size < 0:
        raise ValueError(f"{what}: axis_size is the number of rows, and is {axis_size}.")


def explicit_rows(
    what: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    dims: Sequence[int | None],
) -> Any:
    """How the mapped axes are partitioned over Explicit axes of a mesh, as the sharding of a vector; None if not.

    Raises:
      ValueError: those of two arguments are partitioned differently.
    """
    of_leaves = [(i, aval_of(x), d) for i, (x, d) in enumerate(zip(leaves, dims)) if d is not None]
    mapped = {i: (aval, d) for i, aval, d in of_leaves if not aval.is_high}
    mesh = next((aval.explicit.mesh for aval, _ in mapped.values() if aval.explicit is not None), None)
    if mesh is None:
        return None
    found = {parts_of(aval)[d] for aval, d in mapped.values()}
    if len(found) > 1:
        names = argument_names(fun, tuple(args), kwargs)
        lines = [f"  {names[i]}   {aval.str_short()}   mapped over axis {d}" for i, (aval, d) in mapped.items()]
        raise ValueError(
            f"{what}: the mapped axes of the arguments of {describe_function(fun)} are partitioned differently over "
            "the mesh, and can be partitioned over the same axes only:\n"
            + "\n".join(lines)
            + "\nReshard one of them: xpr.sharding.reshard(x, P(...))."
        )
    (part,) = found
    return None if part is None else ExplicitSharding(mesh, (part,))


def _move_mapped_axes(
    fun: Callable[..., Any],
    outs: Sequence[Any],
    dims: Sequence[int | None],
    out_tree: Any,
    out_axes: Any,
    size: int,
    rows: ExplicitSharding | None,
    same: Callable[[], set[int]],
) -> list[Any]:
    """The results with their mapped axes at `out_axes`; those that get one have it partitioned as `rows`."""
    if type(out_axes) is int:
        targets: list[Any] = [out_axes] * len(outs)
    else:
        targets = tree.flatten_prefix(out_axes, out_tree, "vmap out_axes")
    moved = []
    for i, (x, dim, target) in enumerate(zip(outs, dims, targets)):
        if aval_of(x).is_high:
            moved.append(_of_users(fun, x, dim, target))
            continue
        ndim = aval_of(x).ndim
        if target is None:
            if dim is not None:
                if not size or i not in same():
                    path = result_paths(out_tree)[i]
                    raise ValueError(
                        f"vmap: out_axes is None for a result of {describe_function(fun)} that differs from row to "
                        f"row: at vmap out_axes{path}, for a result of type "
                        f"{aval_of(x).str_short()} with rows along axis {dim}. Give the axis where the rows should go."
                    )
                x = as_array(index_in_dim(x, 0, dim, keepdims=False))
            moved.append(x)
            continue
        ndim += dim is None
        if not -ndim <= target < ndim:
            raise ValueError(
                f"vmap: out_axes={target} is out of range for a result of {describe_function(fun)} with {ndim} axes, "
                "the mapped one included."
            )
        if isinstance(x, Zero):  # a tangent, where a library maps a rule
            rows_of_zeros = list(x.shape)
            rows_of_zeros.insert(target % ndim, size)
            moved.append(Zero(x.aval.update(shape=tuple(rows_of_zeros))))
            continue
        x = as_array(x if dim == target else mapped_to(x, dim, size, target % ndim))
        moved.append(x if dim is not None or rows is None else with_rows_along(x, rows, target % ndim))
    return moved


def _of_users(fun: Callable[..., Any], x: Any, dim: Any, target: Any) -> Any:
    """A result of a type that a user defines, which is mapped as `out_axes` say already.

    Raises:
      ValueError: it is mapped otherwise.
    """
    if dim != target:
        raise ValueError(
            f"vmap: a result of {describe_function(fun)} of type {aval_of(x).str_short()} is mapped as {dim!r}, and "
            f"out_axes say {target!r}. Values of one's own types are not moved: give {dim!r} as out_axes."
        )
    return x


def _check_axes(name: str, axes: Any, kinds: tuple[type, ...]) -> None:
    """Raises TypeError where a leaf of `in_axes` or `out_axes` is no axis."""
    if type(axes) is int:
        return
    for axis in tree.leaves(axes):
        if not isinstance(axis, kinds) or isinstance(axis, bool):
            raise TypeError(f"vmap {name} must be an int, None, or a tree of these, and it holds {axis!r}.")


def _same_in_all_rows(
    flat: FlatFunction, leaves: Sequence[Any], dims: Sequence[int | None], axis_name: Any, size: int
) -> set[int]:
    """Which results surely depend on no mapped argument, though they have rows.

    All results of a function with a custom derivative rule are mapped: the rule's tangent may differ from row to row
    where the result doesn't.
    """
    avals = [row_aval(aval_of(x), d) for x, d in zip(leaves, dims) if d is not None]

    def of_rows(*rows: Any) -> list[Any]:
        remaining = iter(rows)
        return flat(*(x if d is None else next(remaining) for x, d in zip(leaves, dims)))

    try:
        with axes_in_scope(*([] if axis_name is None else [NamedAxis(axis_name, size)])):
            closed = stage(of_rows, avals)
    except ConcretizationTypeError:  # it depends on values
        return set()
    jaxpr = inline_jaxpr(closed.jaxpr)
    if effects(jaxpr):
        return set()
    if axis_name is not None and axis_name in names_in(jaxpr):
        row_dims = (None,) * len(jaxpr.constvars) + (0,) * len(avals)
        _, out_dims = batch_jaxpr(constvars_to_invars(closed.replace(jaxpr=jaxpr)), size, row_dims, axis_name)
        return {i for i, d in enumerate(out_dims) if d is None}
    dependent = affected_outputs(jaxpr, [True] * len(avals), differentiable=False)
    return {i for i, is_dependent in enumerate(dependent) if not is_dependent}

"""auto_axes, explicit_axes: functions in which axes of the current mesh have another type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.api.current_mesh import current_axes, with_mesh
from xpr.backend.sharding import NamedSharding, PartitionSpec, axes_of
from xpr.control.devices.sharding_constraint import reshard
from xpr.core.avals import aval_of
from xpr.core.meshes import AbstractMesh, AxisType
from xpr.core.source import check_function, describe_function
from xpr.errors import ArgumentError
from xpr.primitives.sharding_constraint import reshard_p
from xpr.primitives.sharding_rules import parts_of
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import named_like

__all__ = ["auto_axes", "explicit_axes"]


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    out_sharding: Any = None,
) -> Any:
    """A function inside of which the compiler decides the sharding along axes of the current mesh.

    Inside, types don't name these axes, so that no operation is ambiguous; results get the sharding that is asked for.

    Args:
      f: a function of pytrees of arrays; without it `auto_axes` is a decorator.
      axes: the names of axes of the mesh; None for all.
      out_sharding: a `PartitionSpec` or `NamedSharding`, or a pytree prefix of the result of those; None where each
        call passes it as the argument `out_sharding`.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: there is no `out_sharding`.
      ValueError: the mesh has no such axis.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import AxisType, PartitionSpec as P
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",), (AxisType.Explicit,))):
    ...     product = xpr.sharding.auto_axes(lambda x: x.T @ x, out_sharding=P("x"))
    ...     xpr.typeof(product(xpr.device_put(jnp.ones((2, 2)), P("x"))))
    ShapedArray(float32[2@x,2])
    """
    if f is None:
        return lambda fun: auto_axes(fun, axes=axes, out_sharding=out_sharding)
    check_function(f, "auto_axes")
    fun: Callable[..., Any] = f

    def with_auto_axes(*args: Any, **kwargs: Any) -> Any:
        wanted = _given_shardings("auto_axes", fun, "out_sharding", out_sharding, kwargs)
        outer = _mesh_of(wanted)
        if outer.empty:
            return fun(*args, **kwargs)
        inner = _with_types("auto_axes", outer, axes, AxisType.Auto)
        if inner == outer:
            return fun(*args, **kwargs)
        with with_mesh(inner):
            results = fun(*_over(inner, args), **_over(inner, kwargs))
        with with_mesh(outer):
            return reshard(results, wanted)

    return named_like(boundary(with_auto_axes), fun)


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    in_sharding: Any = None,
) -> Any:
    """A function inside of which the sharding along axes of the current mesh is a part of types.

    Args:
      f: a function of pytrees of arrays; without it `explicit_axes` is a decorator.
      axes: the names of axes of the mesh; None for all.
      in_sharding: a `PartitionSpec` or `NamedSharding`, or a pytree prefix of the tuple of arguments of those; None
        where each call passes it as the argument `in_sharding`.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: there is no `in_sharding`.
      ValueError: no mesh is current, or it has no such axis.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import PartitionSpec as P
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",))):
    ...     f = xpr.sharding.explicit_axes(lambda x: print(xpr.typeof(x)), in_sharding=P("x"))
    ...     f(jnp.ones(2))
    float32[2@x]
    """
    if f is None:
        return lambda fun: explicit_axes(fun, axes=axes, in_sharding=in_sharding)
    check_function(f, "explicit_axes")
    fun: Callable[..., Any] = f

    def with_explicit_axes(*args: Any, **kwargs: Any) -> Any:
        wanted = _given_shardings("explicit_axes", fun, "in_sharding", in_sharding, kwargs)
        outer = current_axes()
        if outer.empty:
            raise ValueError(
                f"explicit_axes: {describe_function(fun)} is called where no mesh is current. Call it in "
                "`with xpr.set_mesh(mesh)`."
            )
        inner = _with_types("explicit_axes", outer, axes, AxisType.Explicit)
        with with_mesh(inner):
            results = fun(*_resharded(args, wanted), **kwargs)
        return _over(outer, results)

    return named_like(boundary(with_explicit_axes), fun)


def _given_shardings(function: str, fun: Callable[..., Any], name: str, value: Any, kwargs: dict[str, Any]) -> Any:
    """The shardings that the decorator or the call was given."""
    if value is None and name not in kwargs:
        of_what = "results" if name == "out_sharding" else "arguments"
        raise TypeError(
            f"{function}: {describe_function(fun)} needs {name}, the sharding of its {of_what}: say "
            f"{function}(f, {name}=P(...)), or pass it with each call."
        )
    return kwargs.pop(name) if value is None else value


def _mesh_of(shardings: Any) -> AbstractMesh:
    """The current mesh; that of the shardings where there is none."""
    current = current_axes()
    leaves = tree.leaves(shardings, is_leaf=lambda x: isinstance(x, (NamedSharding, PartitionSpec)))
    named = next((each.mesh.abstract_mesh for each in leaves if isinstance(each, NamedSharding)), None)
    if named is None or named == current:
        return current
    if current.empty:
        return named
    raise ValueError(f"auto_axes: out_sharding is over {named!r}, and the current mesh is {current!r}. Name one.")


def _with_types(function: str, mesh: AbstractMesh, axes: Any, kind: AxisType) -> AbstractMesh:
    names: Sequence[Any] = mesh.axis_names if axes is None else axes if isinstance(axes, tuple) else (axes,)
    unknown = [name for name in names if name not in mesh.axis_names]
    if unknown:
        raise ValueError(f"{function}: axes has {unknown[0]!r}, and the axes of the current mesh are {mesh.text}.")
    manual = [name for name in names if name in mesh.manual_axes]
    if manual and axes is not None:
        raise NotImplementedError(
            f"{function}: {manual[0]!r} is an axis of the shard_map around, along which there is one device inside. "
            "Going from `Manual` axes to `Auto` or `Explicit` ones is not possible: name other axes."
        )
    return mesh.update_axis_types({name: kind for name in names if name not in manual})


def _over(mesh: AbstractMesh, values: Any) -> Any:
    """Arrays with the types that they have over a mesh with other types of axes."""

    def retyped(x: Any) -> Any:
        explicit = getattr(getattr(x, "aval", None), "explicit", None)
        if explicit is None or explicit.mesh == mesh:
            return x
        kept = [
            tuple([name for name in axes_of(part) if name in mesh.explicit_axes]) or None for part in parts_of(x.aval)
        ]
        return reshard_p.bind(x, sharding=NamedSharding(mesh, PartitionSpec(*kept)))

    return tree.map(retyped, values)


def _resharded(args: tuple[Any, ...], shardings: Any) -> Any:
    if isinstance(shardings, list):
        shardings = tuple(shardings)
    if len(args) == 1 and not isinstance(shardings, (tuple, PartitionSpec, NamedSharding)):
        raise ArgumentError(f"explicit_axes: in_sharding is {shardings!r}, which is no PartitionSpec.")
    for x in tree.leaves(args):
        aval_of(x)  # a TypeError where it is no array
    return reshard(args, shardings)

"""pmap: a function of rows as a function of arrays whose rows lie on several devices, one on each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from xpr import tree
from xpr.api.jit import jit
from xpr.api.known_calls import KnownCalls
from xpr.api.meshes import joined, own_part
from xpr.api.stages import Lowered
from xpr.api.vmap import input_dims, mapped_size, vmap
from xpr.backend import devices as platforms
from xpr.backend import processes
from xpr.backend.mesh import names_of_devices
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec
from xpr.compile.evaluate import EvalTrace
from xpr.compile.partition import buffer_at
from xpr.config import settings
from xpr.control.devices.xla_pmap import pmap_params, pmap_program, xla_pmap_p
from xpr.core.avals import aval_of, describe
from xpr.core.interpreter import NamedAxis, Tracer, axes_in_scope, context
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars
from xpr.core.primitive import told_apart
from xpr.core.source import describe_function, function_name
from xpr.text.parameters import register_parameter
from xpr.transforms.batch import row_aval
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, named_like, positions, signature_of, with_static
from xpr.transforms.stage import stage


class UnnamedAxis(NamedTuple):
    """The axis of a pmap that was given no name."""

    number: int


register_parameter(UnnamedAxis)
_numbers = itertools.count()


class _Staged:
    """A function of rows staged for one signature."""

    __slots__ = ("closed", "out_tree", "out_axes")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, out_axes: Sequence[int | None]):
        self.closed, self.out_tree, self.out_axes = closed, out_tree, out_axes


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Maps a function over an axis of its arguments, with one row on each of several devices, as one program.

    Collectives such as `lax.psum` communicate between the devices. Results stay where they are made. `pmap(f).lower`
    gives the program for arguments, or for their types, as that of a jitted function does. With several
    processes the rows of all are mapped over all devices, and each process gives, and is given, those of its own.

    Args:
      fun: takes and gives pytrees of arrays.
      axis_name: a name for the axis, by which collectives refer to it.
      in_axes, out_axes: as of `vmap`; a result with out_axes None is taken from one device, and is to be the same on
        all.
      static_broadcasted_argnums: positional arguments that are plain Python values, for which it is compiled anew.
      devices: those to use, one for each row; the first of the backend if not given.
      backend: "cpu" or "gpu".
      axis_size: the number of rows, needed only where no argument is mapped.
      donate_argnums: positional arguments whose memory the results may use; they are deleted by the call.
    Raises:
      ValueError: sizes differ, an axis is out of range, there are more rows than devices, or a static argument is not
        hashable.
      NotImplementedError: it runs on several processes and is traced, in `jit` or `grad`; `shard_map` can be.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.pmap(lambda x: x / lax.psum(x, "rows"), axis_name="rows")(jnp.array([[1., 3.]]))
    Array([[1., 1.]], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"pmap maps functions, and got {fun!r}.")
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    name = UnnamedAxis(next(_numbers)) if axis_name is None else axis_name
    asked = None if devices is None else tuple(devices)
    over = partial(
        _pmap, fun, name, in_axes, out_axes, static_broadcasted_argnums, backend=backend, donate_argnums=donate_argnums
    )
    on_this_process = over(asked, axis_size)
    everywhere: list[Callable[..., Any]] = []  # made by the first call, since devices are only then looked for

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if processes.group() is None:
            return on_this_process(*args, **kwargs)
        every = platforms.devices(backend) if asked is None else list(asked)
        mesh = Mesh(every, name)
        if len(mesh.local) == mesh.size:
            return on_this_process(*args, **kwargs)
        if not everywhere:
            everywhere.append(over(tuple(every), mesh.size if axis_size is not None else None))
        static = positions(static_broadcasted_argnums, len(args), "static_broadcasted_argnums")
        return _with_rows_of_all(everywhere[0], fun, mesh, args, kwargs, static, _without(in_axes, static), axis_size)

    entry = named_like(boundary(mapped), fun)
    entry.lower = partial(_lower, entry, static_broadcasted_argnums, donate_argnums)
    return entry


def _lower(
    mapped: Callable[..., Any], static: int | Sequence[int], donated: int | Sequence[int], /, *args: Any, **kwargs: Any
) -> Lowered:
    """What `pmap(f).lower` gives: the program, neither compiled nor run."""
    return jit(mapped, static_argnums=static, donate_argnums=donated).lower(*args, **kwargs)


def _with_rows_of_all(
    mapped: Callable[..., Any], fun: Callable[..., Any], mesh: Mesh, args: tuple[Any, ...], kwargs: dict[str, Any],
    static: Sequence[int], in_axes: Any, axis_size: int | None,
) -> Any:  # fmt: skip
    """Maps the rows of all processes, of which each has its own, and gives each its own rows of the results."""
    dynamic = tuple([x for i, x in enumerate(args) if i not in static])
    leaves, in_tree = tree.flatten((dynamic, kwargs))
    if type(context.trace) is not EvalTrace or any(isinstance(x, Tracer) for x in leaves):
        raise NotImplementedError(
            f"pmap: {describe_function(fun)} runs on devices of several processes, each of which gives its own rows, "
            "and can't be traced so (in jit, grad, vmap). Transform the function inside the pmap, or use shard_map."
        )
    dims = input_dims("pmap", fun, dynamic, kwargs, leaves, in_axes)
    size = mapped_size("pmap", fun, dynamic, kwargs, leaves, dims, axis_size)
    if size != len(mesh.local):
        raise ValueError(
            f"pmap: {describe_function(fun)} is mapped over {size} rows of this process, which has {len(mesh.local)} "
            f"of the {mesh.size} devices. On several processes each gives a row for each of its own devices."
        )
    name = mesh.axis_names[0]
    specs = [PartitionSpec() if d is None else PartitionSpec(*[None] * d, name) for d in dims]
    whole = [joined(leaf, NamedSharding(mesh, spec)) for leaf, spec in zip(leaves, specs)]
    dynamic, kwargs = tree.unflatten(in_tree, whole)
    rest = iter(dynamic)
    outs = mapped(*[x if i in static else next(rest) for i, x in enumerate(args)], **kwargs)
    return tree.map(own_part, outs)


def _pmap(
    fun: Callable[..., Any], name: Any, in_axes: Any, out_axes: Any, static_broadcasted_argnums: int | Sequence[int],
    asked: tuple[Any, ...] | None, axis_size: int | None, *, backend: str | None, donate_argnums: int | Sequence[int],
) -> Callable[..., Any]:  # fmt: skip
    """The function that `pmap` gives, for arguments with all rows."""
    staged_for: dict[Any, _Staged] = {}
    known_calls = KnownCalls()

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if type(context.trace) is EvalTrace:
            given = known_calls.call(args, kwargs)
            if given is not NotImplemented:
                return given
        static = positions(static_broadcasted_argnums, len(args), "static_broadcasted_argnums")
        dynamic = tuple([x for i, x in enumerate(args) if i not in static])
        axes = _without(in_axes, static)
        chosen = with_static(fun, static, args)
        if settings.disable_jit:
            return vmap(chosen, axes, out_axes, name, axis_size)(*dynamic, **kwargs)
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        dims = input_dims("pmap", chosen, dynamic, kwargs, leaves, axes)
        size = mapped_size("pmap", chosen, dynamic, kwargs, leaves, dims, axis_size)
        rows = [aval_of(x) if d is None else row_aval(aval_of(x), d) for x, d in zip(leaves, dims)]
        for i in static:
            _check_hashable(fun, i, args[i])
        values = tuple([told_apart(args[i]) for i in static])
        key = (settings.trace_key, context.axes, in_tree, values, size, *rows)
        staged = staged_for.get(key)
        if staged is None:
            flat = FlatFunction(chosen, in_tree)
            with axes_in_scope(NamedAxis(name, size)):
                closed = stage(flat, rows, signature_of("mapped with pmap", chosen, dynamic, kwargs))
            staged = _Staged(closed, flat.out_tree, _out_axes(fun, closed, flat.out_tree, out_axes))
            if not any(isinstance(c, Tracer) for c in closed.consts):
                staged_for[key] = staged
        closed = staged.closed
        n = len(closed.consts)
        donated = [False] * n + _donated(donate_argnums, static, args, len(leaves))
        operands = [*closed.consts, *leaves]
        params = pmap_params(
            constvars_to_invars(closed), [*[None] * n, *dims], staged.out_axes, donated, n, axis_name=name,
            axis_size=size, backend=backend, devices=None if asked is None else names_of_devices(asked),
            name=function_name(fun),
        )  # fmt: skip
        outs = xla_pmap_p.bind(*operands, **params)
        if type(context.trace) is EvalTrace and not static and not any(donated):
            program = pmap_program(operands, params)
            constants = list(map(buffer_at, closed.consts, program.in_shardings))
            known_calls.remember(args, kwargs, leaves, program, constants, staged.out_tree)
        return tree.unflatten(staged.out_tree, outs)

    return mapped


def _check_hashable(fun: Callable[..., Any], number: int, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise ValueError(
            f"pmap: static argument number {number} of {describe_function(fun)} is {describe(value)}, which can't be "
            "hashed, so calls with it can't be told apart. Pass something hashable (a tuple for a list), or don't name "
            "it in static_broadcasted_argnums."
        ) from None


def _without(in_axes: Any, static: Sequence[int]) -> Any:
    """`in_axes` of the arguments that are not static."""
    if not static or not isinstance(in_axes, tuple):
        return in_axes
    return tuple([axis for i, axis in enumerate(in_axes) if i not in static])


def _donated(argnums: int | Sequence[int], static: Sequence[int], args: Sequence[Any], number: int) -> list[bool]:
    """Which of the leaves are given up."""
    chosen = positions(argnums, len(args), "donate_argnums")
    flags = [i in chosen for i, x in enumerate(args) if i not in static for _ in tree.leaves(x)]
    return flags + [False] * (number - len(flags))


def _out_axes(fun: Callable[..., Any], closed: ClosedJaxpr, out_tree: Any, out_axes: Any) -> list[int | None]:
    """For each leaf of the result the axis at which its rows come together, counted from the front."""
    axes = tree.flatten_prefix(out_axes, out_tree, "pmap out_axes")
    for axis, aval in zip(axes, closed.out_avals):
        if axis is not None and not -aval.ndim - 1 <= axis <= aval.ndim:
            raise ValueError(
                f"pmap: out_axes={axis} is out of range for a result of {describe_function(fun)} with {aval.ndim + 1} "
                "axes, the mapped one included."
            )
    return [axis if axis is None else axis % (aval.ndim + 1) for axis, aval in zip(axes, closed.out_avals)]

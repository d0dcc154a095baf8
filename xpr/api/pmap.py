"""pmap: maps a function over the rows of arrays, with one row on each of several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from xpr import tree
from xpr.api.jit import jit
from xpr.api.stages import Lowered
from xpr.api.vmap import input_dims, mapped_size, vmap
from xpr.backend import devices as platforms
from xpr.backend import processes
from xpr.backend.devices import check_device
from xpr.backend.mesh import names_of_devices
from xpr.backend.sharding import Mesh
from xpr.compile.known_calls import KnownCalls, call_known
from xpr.compile.partition import buffer_at
from xpr.config import settings
from xpr.control.devices.xla_pmap import pmap_params, pmap_program, xla_pmap_p
from xpr.control.refs import refuse_refs
from xpr.core.avals import aval_of
from xpr.core.interpreter import NamedAxis, Tracer, axes_in_scope, context
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars
from xpr.core.source import check_function, describe_function, function_name
from xpr.errors import ArgumentError
from xpr.transforms.batch import row_aval
from xpr.transforms.boundary import boundary
from xpr.transforms.calls import Call
from xpr.transforms.flat import FlatFunction, named_like, positions, signature_of
from xpr.transforms.stage import stage

_UNNAMED = "_internal_pmap_axis_name"  # JAX's; one for all, so that results of different functions are sharded alike


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
    """Maps a function over an axis of its arguments, with a row on each of several devices, as one program.

    Collectives such as `lax.psum` communicate between the devices. Results stay on their devices. `pmap(f).lower`
    returns the program for arguments, or for their types, as that of a jitted function does. With several processes
    the rows of all are mapped over all devices, and each process passes and receives its own rows, also in `jit`,
    `grad` and `vmap`.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      axis_name: a name for the axis, by which collectives refer to it.
      in_axes: as of `vmap`.
      out_axes: as of `vmap`; a result with None is taken from one device, and must be the same on all.
      static_broadcasted_argnums: positions of arguments that are plain Python values; it is compiled anew for each new
        value.
      devices: the devices, one for each row; None for the first ones of the backend.
      backend: "cpu" or "gpu"; None for the default platform.
      axis_size: the number of rows, needed only where no argument is mapped.
      donate_argnums: positions of arguments whose memory the results may use; the call deletes them.

    Returns:
      A function of the same arguments and results, each with an additional mapped axis.

    Raises:
      TypeError: `devices` holds something else than devices.
      ValueError: sizes differ, an axis is out of range, there are more rows than devices, or a static argument is not
        hashable; or processes have different numbers of devices, or other numbers of rows.
      UnsupportedRule: over devices of several processes, it is called in another `pmap` or `shard_map`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.pmap(lambda x: x / lax.psum(x, "rows"), axis_name="rows")(jnp.array([[1., 3.]]))
    Array([[1., 1.]], dtype=float32)
    """
    check_function(fun, "pmap")
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    name = _UNNAMED if axis_name is None else axis_name
    if devices is not None and not isinstance(devices, Iterable):
        raise ArgumentError(f"pmap: devices is a sequence of devices, and is {devices!r}. Write [device].")
    requested = None if devices is None else tuple(devices)
    for i, device in enumerate(requested or ()):
        check_device(f"pmap: devices[{i}]", device)
    if requested == ():
        raise ValueError("'devices' argument to pmap must be non-empty, or None. Name a device for each row.")
    options = _Options(name, in_axes, out_axes, static_broadcasted_argnums, axis_size, backend, donate_argnums)
    on_this_process = _Mapped(fun, options, requested, None).call
    everywhere: list[Callable[..., Any]] = []  # set by the first call, which looks up the devices

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if processes.group() is None:
            return on_this_process(*args, **kwargs)
        if not everywhere:
            line = Mesh(platforms.devices(backend) if requested is None else list(requested), name)
            several = line.is_multi_process
            everywhere.append(_Mapped(fun, options, line.flat, line).call if several else on_this_process)
        return everywhere[0](*args, **kwargs)

    entry = named_like(boundary(mapped), fun)
    entry.lower = partial(_lower, entry, static_broadcasted_argnums, donate_argnums)
    return entry


def _lower(
    mapped: Callable[..., Any], static: int | Sequence[int], donated: int | Sequence[int], /, *args: Any, **kwargs: Any
) -> Lowered:
    """`pmap(f).lower`: the program, neither compiled nor run."""
    return jit(mapped, static_argnums=static, donate_argnums=donated).lower(*args, **kwargs)


_INSTEAD = "Use shard_map, with a spec for the ref."


class _Options(NamedTuple):
    """The arguments of `pmap` but the function and the devices."""

    axis_name: Any
    in_axes: Any
    out_axes: Any
    static_argnums: int | Sequence[int]
    axis_size: int | None
    backend: str | None
    donate_argnums: int | Sequence[int]


class _Mapped:
    """A function mapped over devices of this process, or over those of several, `line`: the calls of a `pmap`.

    `requested` are the devices that the user named; None for the first ones.
    """

    __slots__ = ("fun", "known_calls", "line", "options", "requested", "staged")
    __closes_over__ = ("fun",)

    def __init__(
        self, fun: Callable[..., Any], options: _Options, requested: tuple[Any, ...] | None, line: Mesh | None
    ):
        self.fun, self.options, self.requested, self.line = fun, options, requested, line
        self.staged: dict[Any, _Staged] = {}
        self.known_calls = KnownCalls()

    def __copy__(self) -> _Mapped:
        """A copy that knows no calls, whose function will be replaced, see control/closures.py."""
        return _Mapped(self.fun, self.options, self.requested, self.line)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if context.trace.runs_known_calls:
            results = call_known(self.known_calls, args, kwargs)
            if results is not NotImplemented:
                return results
        options = self.options
        try:
            static = positions(options.static_argnums, len(args), "static_broadcasted_argnums")
        except ArgumentError:
            counted = f"{len(args)} positional argument{'' if len(args) == 1 else 's'}"
            raise ArgumentError(
                f"{describe_function(self.fun)}: pmapped function has static_broadcasted_argnums="
                f"{options.static_argnums} but was called with only {counted}. All static broadcasted arguments must "
                "be passed positionally."
            ) from None
        axes = _without(options.in_axes, static)
        call = Call(args, kwargs, {i: args[i] for i in static})
        chosen, leaves = call.of_dynamic(self.fun), call.leaves
        if settings.disable_jit and self.line is None:
            return vmap(chosen, axes, options.out_axes, options.axis_name, options.axis_size)(
                *call.dynamic[0], **kwargs
            )
        refuse_refs("pmap", self.fun, leaves, _INSTEAD)
        dims = input_dims("pmap", chosen, *call.dynamic, leaves, axes)
        size = mapped_size("pmap", chosen, *call.dynamic, leaves, dims, options.axis_size)
        _check_rows(self.fun, size, self.line)
        call.check_hashable("pmap", self.fun, "don't name it in static_broadcasted_argnums")
        call.typed([aval_of(x) if d is None else row_aval(aval_of(x), d) for x, d in zip(leaves, dims)], size)
        staged = self.staged_for(call, chosen, size)
        consts = staged.closed.consts
        donated = call.flags(positions(options.donate_argnums, len(args), "donate_argnums"))
        operands, params = [*consts, *leaves], self.params(staged, dims, donated, size)
        outs = xla_pmap_p.bind(*operands, **params)
        if context.trace.runs_known_calls and not static and not any(donated):
            program = pmap_program(operands, params)
            constants = list(map(buffer_at, consts, program.in_shardings))
            self.known_calls.remember(call, program, constants, staged.out_tree)
        return tree.unflatten(staged.out_tree, outs)

    def staged_for(self, call: Call, fun: Callable[..., Any], size: int) -> _Staged:
        """`fun`, of the dynamic arguments alone, staged for rows of a call's types."""
        staged = self.staged.get(call.key)
        if staged is not None:
            return staged
        flat = FlatFunction(fun, call.in_tree)
        with axes_in_scope(NamedAxis(self.options.axis_name, size if self.line is None else self.line.size)):
            closed = stage(flat, call.avals, signature_of("mapped with pmap", fun, *call.dynamic))
        refuse_refs("pmap", self.fun, closed.consts, _INSTEAD)
        out_axes = _out_axes(self.fun, closed, flat.out_tree, self.options.out_axes)
        staged = _Staged(closed, flat.out_tree, out_axes)
        if not any(isinstance(c, Tracer) for c in closed.consts):
            self.staged[call.key] = staged
        return staged

    def params(self, staged: _Staged, dims: Sequence[int | None], donated: Sequence[bool], size: int) -> dict[str, Any]:
        """The parameters of the operation, whose operands are the constants and the leaves."""
        n, line = len(staged.closed.consts), self.line
        return pmap_params(
            constvars_to_invars(staged.closed), [*[None] * n, *dims], staged.out_axes, [*[False] * n, *donated], n,
            axis_name=self.options.axis_name, axis_size=size, global_axis_size=None if line is None else line.size,
            backend=self.options.backend, devices=None if self.requested is None else names_of_devices(self.requested),
            name=function_name(self.fun),
        )  # fmt: skip


def _check_rows(fun: Callable[..., Any], size: int, line: Mesh | None) -> None:
    """Raises ValueError where a process has not one row for each of its devices."""
    if line is not None and size != len(line.local):
        raise ValueError(
            f"pmap: {describe_function(fun)} is mapped over {size} rows of this process, which has {len(line.local)} "
            f"of the {line.size} devices. On several processes each gives a row for each of its own devices."
        )


def _without(in_axes: Any, static: Sequence[int]) -> Any:
    """`in_axes` of the arguments that are not static."""
    if not static or not isinstance(in_axes, tuple):
        return in_axes
    return tuple([axis for i, axis in enumerate(in_axes) if i not in static])


def _out_axes(fun: Callable[..., Any], closed: ClosedJaxpr, out_tree: Any, out_axes: Any) -> list[int | None]:
    """For each leaf of the result its mapped axis, counted from the front."""
    axes = tree.flatten_prefix(out_axes, out_tree, "pmap out_axes")
    for axis, aval in zip(axes, closed.out_avals):
        if axis is not None and not -aval.ndim - 1 <= axis <= aval.ndim:
            raise ValueError(
                f"pmap: out_axes={axis} is out of range for a result of {describe_function(fun)} with {aval.ndim + 1} "
                "axes, the mapped one included."
            )
    return [axis if axis is None else axis % (aval.ndim + 1) for axis, aval in zip(axes, closed.out_avals)]

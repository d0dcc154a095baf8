"""xla_pmap: a jaxpr that runs on several devices, one row of its mapped operands on each; the primitive of `pmap`.

`in_axes` has for each operand the axis whose rows go to the devices, None if it is replicated; `out_axes` has the axis
along which the rows of each result are stacked, None if it is replicated: then one of the copies is taken, and in the
derivative each device has an equal share of the result's cotangent.

On devices of several processes `axis_size` is the number of rows of one process, and `global_axis_size` that of all,
over which collectives communicate. Each process has operands and results of its own, and so do derivatives: the
transpose is that of the linear map from the operands of all processes to the results of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import devices as platforms
from xpr.backend.array import Array
from xpr.backend.mesh import PROCESSES, MeshOfProcesses, devices_of_names
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import operation_jaxpr, run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.compile.partition import moved, program_for
from xpr.compile.reference import reference_eval
from xpr.config import settings
from xpr.control.call_family import call_family
from xpr.control.checkify.errors import first_failed
from xpr.control.devices.multi_device_call import MultiDeviceCall
from xpr.control.groups import mask, split_list
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, effects
from xpr.core.regions import whole_call
from xpr.core.source import Call
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import div, scalar
from xpr.primitives.shapes import reduce_sum
from xpr.transforms.batch import batch_jaxpr, row_aval

Axes = Sequence[int | None]


def pmap_params(
    jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, donated: Sequence[bool] = (), constants: int = 0,
    global_axis_size: int | None = None, **common: Any,
) -> dict[str, Any]:  # fmt: skip
    """The parameters of an equation; `common` are axis_name, axis_size, name, backend and devices.

    `constants` is the number of invars for values that the function closes over. Parameters that begin with `global`
    and `donated` are as in JAX's jaxprs; `global_axis_size` is None on devices of one process.
    """
    return {
        **common, "call_jaxpr": jaxpr, "in_axes": tuple(in_axes), "out_axes": tuple(out_axes),
        "donated_invars": tuple(donated) or (False,) * len(jaxpr.invars), "global_axis_size": global_axis_size,
        "global_arg_shapes": (None,) * (len(jaxpr.invars) - constants),
    }  # fmt: skip


def common_params(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a call of another jaxpr on the same devices has, too."""
    return {key: params[key] for key in ("axis_name", "axis_size", "global_axis_size", "name", "backend", "devices")}


def named_axis(params: dict[str, Any]) -> NamedAxis:
    """The axis over which collectives communicate."""
    return NamedAxis(params["axis_name"], params["global_axis_size"] or params["axis_size"])


class MappedCall(MultiDeviceCall):
    """A call for each row, on a separate device; a spec is the axis of the rows, or None."""

    parameter, spec_parameters = "call_jaxpr", ("in_axes", "out_axes")
    stacked = 0

    def replaced(self, jaxpr: Jaxpr, in_specs: Axes, out_specs: Axes) -> dict[str, Any]:
        return pmap_params(jaxpr, in_specs, out_specs, **common_params(self.params))

    def smaller(self, jaxpr: Jaxpr, inputs: Sequence[bool], used: Sequence[bool]) -> dict[str, Any]:
        return {
            **super().smaller(jaxpr, inputs, used),
            "donated_invars": tuple(mask(self.params["donated_invars"], inputs)),
            "global_arg_shapes": self.params["global_arg_shapes"][: len(jaxpr.invars)],
        }

    def in_scope(self) -> axes_in_scope:
        return axes_in_scope(named_axis(self.params))

    def takes(self, avals: Sequence[ShapedArray]) -> bool:
        size = self.params["axis_size"]
        return super().takes(avals) and all(
            axis is None or aval.shape[axis] == size for aval, axis in zip(avals, self.in_specs)
        )

    def argument_avals(self, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
        return [aval if axis is None else row_aval(aval, axis) for aval, axis in zip(avals, self.in_specs)]

    def result_avals(self) -> list[ShapedArray]:
        size = self.params["axis_size"]
        return [_with_rows(aval, axis, size) for aval, axis in zip(self.jaxpr.out_avals, self.out_specs)]

    def mismatch(self, expected: str, actual: str) -> str:
        return (
            f"xla_pmap: {self.params['name']} takes rows ({expected}) and was given ({actual}), of which "
            f"{self.params['axis_size']} rows are along the axes {tuple(self.in_specs)}."
        )

    def called_transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], in_specs: Axes, out_specs: Axes
    ) -> list[Any]:
        size, (_, ct_axes) = self.params["axis_size"], split_list(in_specs, len(known))
        shares = [div(ct, scalar(size, ct)) if axis is None else ct for ct, axis in zip(cts, ct_axes)]
        stacked = self.bind(closed, [*known, *shares], in_specs, [0 if axis is None else axis for axis in out_specs])
        return [reduce_sum(ct, (0,)) if axis is None else ct for ct, axis in zip(stacked, out_specs)]

    def batched(self, axis_name: Any, size: int, values: Sequence[Any], dims: Axes) -> Any:
        """Each device has one of its rows of every row."""
        in_axes = [axis if None in (axis, d) else axis + (axis >= d) for axis, d in zip(self.in_specs, dims)]
        row_dims = [d if None in (axis, d) else d - (axis < d) for axis, d in zip(in_axes, dims)]
        shadowed = axis_name == self.params["axis_name"]
        closed, result_dims = self.derived(batch_jaxpr, size, tuple(row_dims), None if shadowed else axis_name)
        out_axes = [axis if None in (axis, d) else axis + (axis > d) for axis, d in zip(self.out_specs, result_dims)]
        outs = self.bind(closed, values, in_axes, out_axes)
        return outs, [d if None in (axis, d) else d + (axis <= d) for axis, d in zip(out_axes, result_dims)]

    def threaded(self, state: Sequence[Any], thread: Any, values: Sequence[Any]) -> Any:
        """Each device has the state; afterwards it is that of the first one which failed."""
        n, closed = len(state), ClosedJaxpr(self.derived(thread))
        in_axes, out_axes = [*[None] * n, *self.in_specs], [*[0] * n, *self.out_specs]
        outs = self.bind(closed, [*state, *values], in_axes, out_axes)
        states, results = split_list(outs, n)
        return first_failed(states), results


def _with_rows(aval: ShapedArray, axis: int | None, size: int) -> ShapedArray:
    aval = aval.plain  # it has the values of all devices, and varies over none
    return aval if axis is None else aval.with_axis(axis, size)


def pmap_mesh(
    *, axis_name: Any, axis_size: int, name: str, backend: Any, devices: Any, global_axis_size: int | None = None,
    **_: Any,
) -> Mesh:  # fmt: skip
    """The devices in a line: the first of those asked for, or of the backend; those of several processes on a grid.

    Raises:
      ValueError: there are fewer of them than rows, or no rows.
    """
    if axis_size == 0:
        raise ValueError(f"pmap: {name} is mapped over no rows, and runs on a device for each. vmap maps over none.")
    if global_axis_size is not None:
        return MeshOfProcesses(Mesh(devices_of_names(devices), (axis_name,)))
    available = platforms.local_devices(backend=backend) if devices is None else devices_of_names(devices)
    if len(available) < axis_size:
        more = (
            f"set their number before first use, with config.update('num_cpu_devices', {axis_size}) or "
            f"XPR_NUM_CPU_DEVICES={axis_size}"
            if available[0].platform == "cpu" and devices is None
            else "name more devices"
        )
        raise ValueError(
            f"pmap: {name} is mapped over {axis_size} rows, each on a device of its own, and there "
            f"{'is' if len(available) == 1 else 'are'} {len(available)}: {', '.join(map(str, available))}. "
            f"Map {len(available)} rows, and several on each with a vmap inside the pmap; or {more}; or use vmap."
        )
    return Mesh(np.array(available[:axis_size], object), (axis_name,))


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes,
    **params: Any,
) -> list[Value]:  # fmt: skip
    """A manual region in which each device has one row; inside another region the rows are computed on one device."""
    name, mesh = params["axis_name"], pmap_mesh(**params)
    if isinstance(mesh, MeshOfProcesses):
        _check_outermost(b, mesh, params["name"])
    elif b.module.manual:
        return _lower_on_one_device(b, operands, avals, call_jaxpr, in_axes, out_axes, params)

    def body(inner: Builder, parts: list[Value]) -> list[Value]:
        rows = [
            x if d is None else inner.reshape(x, v.aval.shape) for x, d, v in zip(parts, in_axes, call_jaxpr.invars)
        ]
        if isinstance(mesh, MeshOfProcesses):
            inner.module.manual = {name: mesh.line}  # until the end of the region
        outs = lower_eqns(inner, call_jaxpr, rows)
        return [
            x if axis is None else inner.reshape(x, _with_rows(x.aval, axis, 1).shape)
            for x, axis in zip(outs, out_axes)
        ]

    return b.manual_region(
        mesh, [name], operands, [_spec(axis, name) for axis in in_axes], avals,
        [_spec(axis, name) for axis in out_axes], body, ordered="ordered" in effects(call_jaxpr),
    )  # fmt: skip


def _check_outermost(b: Builder, mesh: MeshOfProcesses, name: str) -> None:
    """Raises UnsupportedRule where something around maps the call over devices."""
    if b.module.manual != {PROCESSES: mesh}:
        raise UnsupportedRule(
            f"pmap: {name} runs on devices of several processes, {mesh.line.text}, and is called in another pmap or "
            "shard_map, or beside one over other devices of several processes. Call it outside of them; or use one "
            "shard_map, over a mesh with all the axes."
        )


def _spec(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _on_one_device(jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, params: dict[str, Any]) -> ClosedJaxpr:
    """The jaxpr from whole operands to whole results, on one device; cached with the jaxpr."""
    every_result = (True,) * len(jaxpr.outvars)
    closed, _ = batch_jaxpr(jaxpr, params["axis_size"], tuple(in_axes), params["axis_name"], every_result)
    return closed


def _lower_on_one_device(
    b: Builder, operands: list[Value], avals: list[ShapedArray], jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes,
    params: dict[str, Any],
) -> list[Value]:  # fmt: skip
    closed = _on_one_device(jaxpr, in_axes, out_axes, params)
    outs = lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])
    results = []
    for x, axis, aval in zip(outs, out_axes, avals):
        if axis is None:
            first = b.slice(x, [0] * x.aval.ndim, (1, *aval.shape))
            results.append(b.reshape(first, aval.shape))
        else:
            order = list(range(1, x.aval.ndim))
            order.insert(axis, 0)
            results.append(b.transpose(x, order))
    return results


def _reference(
    values: Sequence[Any], *, call_jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, **params: Any
) -> list[np.ndarray]:
    if params["global_axis_size"] is not None:
        raise NotImplementedError(f"pmap: {params['name']} has rows in other processes, which NumPy knows nothing of.")
    closed = _on_one_device(call_jaxpr, in_axes, out_axes, params)
    outs = reference_eval(closed.jaxpr, closed.consts, *values)
    return [x[0] if axis is None else np.moveaxis(x, 0, axis) for x, axis in zip(outs, out_axes)]


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    keeps = settings.debug_nans or settings.debug_infs  # its operands, for another run
    donated = tuple([i for i, is_donated in enumerate(params["donated_invars"]) if is_donated and not keeps])
    return run_operation(xla_pmap_p, _on_devices(args, params), params, donated)


def pmap_program(args: Sequence[Any], params: dict[str, Any]) -> PartitionedExecutable:
    """The program that evaluates the operation."""
    args = _on_devices(args, params)
    return program_for(operation_jaxpr(xla_pmap_p, args, params), args, "xla_pmap", pmap_mesh(**params))


def _on_devices(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The operands, moved where they are on other devices than the rows, or on these in another order."""
    mesh = pmap_mesh(**params)
    if isinstance(mesh, MeshOfProcesses):
        return list(args)
    return [
        moved(x, NamedSharding(mesh, _spec(axis, params["axis_name"])))
        if type(x) is Array and type(x._device) is NamedSharding and x._device.devices != mesh.flat
        else x
        for x, axis in zip(args, params["in_axes"])
    ]


def _named(params: dict[str, Any]) -> tuple[Any, int]:
    axis = named_axis(params)
    return axis.name, axis.size


xla_pmap_p = call_family(
    "xla_pmap",
    MappedCall,
    params=(
        "call_jaxpr", "axis_name", "axis_size", "global_axis_size", "global_arg_shapes", "in_axes", "out_axes",
        "donated_invars", "devices", "backend", "name",
    ),
    reference=_reference,
    lower=_lower,
    evaluate=_evaluate,
    split=split_results,
    mesh=pmap_mesh,
    regions=lambda call_jaxpr, **params: whole_call(call_jaxpr, devices=(_named(params),)),
    scope=lambda name, **params: Call(f"pmap({name})"),
)  # fmt: skip

"""device_put: the operand in another memory, or on another device.

A program that is compiled runs on the devices of its arguments, and there a memory space alone is asked for. XLA:CPU
has one memory, so nothing is moved: the types say where an array is, and values and programs are the same. On GPUs
arguments, results and what is between are in the memory that their types say; see `memory_kind_on` for buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.sharding import Sharding
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.memory import MemorySpace, kind_of_space, space_of_kind
from xpr.core.primitive import Primitive, register
from xpr.primitives.sharding_rules import parts_of, sums_of_first
from xpr.text.parameters import register_parameter

__all__ = ["device_put_p"]

register_parameter(MemorySpace)


def space_of(device: Any) -> MemorySpace:
    """The memory that a device, a sharding or a memory space stands for."""
    if type(device) is MemorySpace:
        return device
    return space_of_kind(device.memory_kind) if isinstance(device, Sharding) else MemorySpace.Device


# -- device_put: `device` is a memory space; or a device or a sharding, where a function is evaluated at once, and then
# `source` is the sharding that the operand had before, if that is known.


def _bind(x: Any, device: Any, source: Any) -> Any:
    return device_put_p.bind(x, device=device) if source is None else device_put_p.bind(x, device=device, source=source)


def _device_put_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, device: Any, source: Any = None
) -> list[Value]:
    return [placed(b, operands[0], device)] if type(device) is MemorySpace else list(operands)


def placed(b: Builder, x: Value, space: MemorySpace) -> Value:
    """The value in a memory space of the device that the program runs on."""
    if b.platform == "cpu":
        return x
    properties = 'call_target_name = "annotate_device_placement", has_side_effect = true'
    placement = f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{kind_of_space(space)}"}}'
    return b.ops("stablehlo.custom_call", [x], [x.aval], properties, attributes=placement)[0]


def _device_put_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, device: Any, source: Any = None) -> Any:
    """Tangents are where their primals are."""
    (x,), (t,) = primals, tangents
    return [_bind(x, device, source)], [t if type(t) is Zero else _bind(t, device, source)]


def _device_put_transpose(cts: Sequence[Any], operands: Sequence[Any], *, device: Any, source: Any = None) -> list[Any]:
    """The cotangent where the operand was."""
    if source is None:
        return [in_memory(cts[0], operands[0].aval.memory_space)]
    return [_bind(cts[0], source, device)]


device_put_p = register(
    Primitive(
        "device_put",
        abstract=lambda avals, *, device, source=None: [avals[0].in_memory(space_of(device))],
        decides_memory=True,
        reference=lambda values, **params: list(values),
        lower=_device_put_lower,
        jvp=_device_put_jvp,
        transpose=_device_put_transpose,
        batch=lambda size, values, dims, *, device, source=None: ([_bind(values[0], device, source)], list(dims)),
        sharding=lambda avals, outs, *, device, source=None: [
            parts_of(avals[0]) if type(device) is MemorySpace else (None,) * outs[0].ndim
        ],
        sums=sums_of_first,
        optional=["source"],
        fusion="view",
        physical="moved",
    )
)


def in_memory(x: Any, space: MemorySpace) -> Any:
    """An array moved to a memory space; returned unchanged if it is there already."""
    return x if aval_of(x).memory_space is space else _bind(x, space, None)

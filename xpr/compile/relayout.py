"""Arrays with another layout in memory, by a program that returns its argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend import compiler
from xpr.backend.array import Array, layout_of, with_layout
from xpr.backend.layout import AutoLayout, Layout
from xpr.backend.sharding import NamedSharding
from xpr.compile.lower import MainAttributes, lower_jaxpr
from xpr.compile.partition import compile_module
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, Var
from xpr.errors import ArgumentError
from xpr.primitives.layout_constraint import layout_constraint_p
from xpr.transforms.flat import as_array

_programs: dict[Any, Any] = {}  # by the type, where the array is, and its layout


def forget_relayouts() -> None:
    """Forgets the programs that give arrays another layout."""
    _programs.clear()


def relaid(x: Array, layout: Layout | AutoLayout | None, function: str, name: str) -> Array:
    """The array with a layout; None leaves it as it is.

    Args:
      x: an array.
      layout: its layout.
      function, name: what was called, and the name of the argument, for the message.

    Raises:
      ValueError: it is no layout of such an array, or it is left to the compiler.
    """
    if layout is None:
        return x
    if isinstance(layout, AutoLayout):
        raise ValueError(
            f"{function}: sharding and layout of {name} should be concrete, and the layout is AUTO, which leaves it to "
            "the compiler of a function. Give a Layout, such as that of compiled.input_formats."
        )
    target = _checked(layout, x.aval, function, name)
    if target == layout_of(x):
        return x
    if target is None:
        return Array(x.aval, None, x.buffer, x._device)
    program = _program(x.aval, x.device, target)
    return with_layout(x.aval, program.run([x.buffer])[0], x._device, target)


def checked_layout(
    layout: Layout | AutoLayout | None, aval: ShapedArray, function: str, name: str
) -> Layout | AutoLayout | None:
    """The layout that an array is asked to have, as programs say it: None for a row-major one.

    Raises:
      ValueError: arrays of the type can't have it.
    """
    return _checked(layout, aval, function, name) if isinstance(layout, Layout) else layout


def _checked(layout: Layout, aval: ShapedArray, function: str, name: str) -> Layout | None:
    try:
        layout.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ArgumentError(f"{function}: {name}: {error}") from None
    if layout.tiling:
        raise ArgumentError(
            f"{function}: {name} is to have a tiled layout, {layout}. Arrays on CPUs and GPUs are not tiled: leave the "
            "tiling out."
        )
    return None if layout.is_row_major else Layout(layout.major_to_minor, ())


def _evaluate_layout_constraint(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [relaid(as_array(args[0]), params["layout"], "with_layout_constraint", "x")]


layout_constraint_p.evaluate = _evaluate_layout_constraint


def _program(aval: ShapedArray, device: Any, layout: Layout) -> Any:
    key = aval, device, layout
    program = _programs.get(key)
    if program is None:
        variable = Var(aval)
        jaxpr, outputs = Jaxpr([], [variable], [variable], []), (layout,)
        if isinstance(device, NamedSharding):
            attributes = MainAttributes((), [device], [device], out_layouts=outputs)
            module = lower_jaxpr(jaxpr, device.mesh.flat[0].platform, attributes, device.mesh)
            program = compile_module(module, jaxpr, [device], [device], "relaid")
        else:
            module = lower_jaxpr(jaxpr, device.platform, MainAttributes(out_layouts=outputs))
            program = compiler.compile(module.text("relaid"), [aval], device, name="relaid")
        _programs[key] = program
    return program

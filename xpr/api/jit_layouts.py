"""The layouts in memory that `jit` is asked for, of arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.api.options import JitOptions
from xpr.api.stages import Traced
from xpr.backend.array import Array, layout_of
from xpr.backend.layout import AUTO, AutoLayout, Layout, RequestedLayouts
from xpr.compile.relayout import checked_layout
from xpr.control.devices.sharding_constraint import layouts_of, without_layouts
from xpr.core.avals import ShapedArray, is_key
from xpr.core.jaxpr import Jaxpr, Var
from xpr.core.source import describe_function
from xpr.primitives.layout_constraint import layout_constraint_p
from xpr.transforms.flat import argument_names, result_paths

Layouts = list[Layout | AutoLayout | None]


def split_formats(formats: Any, name: str) -> tuple[Any, Any]:
    """The shardings of a pytree of shardings and formats, and its layouts, None if there are none.

    Raises:
      ValueError: there is a layout without a format.
    """
    for leaf in tree.leaves(formats):
        if isinstance(leaf, (Layout, AutoLayout)):
            raise ValueError(
                f"jit: {name} has the layout {leaf!r}, and `jax.jit` does not accept device-local layouts directly. "
                "Give a Format, Format(layout, sharding), or Format(Layout.AUTO)."
            )
    return without_layouts(formats), layouts_of(formats)


def requested_layouts(
    fun: Callable[..., Any], options: JitOptions, traced: Traced, leaves: Sequence[Any], several_devices: bool
) -> RequestedLayouts | None:
    """The layouts of the arguments and results of a call; None if all are row-major.

    Raises:
      ValueError: an array can't have the layout that is asked for, an argument was put on a device with another one,
        or one that is donated has another one than the result that is to use its memory.
    """
    what, jaxpr = f"jit of {describe_function(fun)}", traced.jaxpr
    ins = layouts_of_arguments(fun, options, traced.in_tree, leaves, jaxpr.in_avals)
    outs = _layouts_by_constraints(jaxpr.jaxpr)
    if options.out_layouts is not None:
        asked = tree.flatten_prefix(options.out_layouts, traced.out_tree, "out_shardings", verb=what)
        for i, (layout, path) in enumerate(zip(asked, result_paths(traced.out_tree))):
            if layout is not None:
                outs[i] = checked_layout(layout, jaxpr.out_avals[i], what, f"result{path}")
    if not any(ins) and not any(outs):
        return None
    if not several_devices:
        _check_donated(what, traced, ins, outs)
    inputs, outputs = (
        tuple(map(_where_there_is_a_choice, some, avals))
        for some, avals in ((ins, jaxpr.in_avals), (outs, jaxpr.out_avals))
    )
    return RequestedLayouts(inputs, outputs) if any(inputs) or any(outputs) else None


def _layouts_by_constraints(jaxpr: Jaxpr) -> Layouts:
    """The layouts of results that `with_layout_constraint` gives."""
    constraints = [eqn for eqn in jaxpr.eqns if eqn.primitive is layout_constraint_p]
    constrained = {eqn.outvars[0]: _unless_row_major(eqn.params["layout"]) for eqn in constraints}
    return [constrained.get(v) if isinstance(v, Var) else None for v in jaxpr.outvars]


def layouts_of_arguments(
    fun: Callable[..., Any], options: JitOptions, in_tree: Any, leaves: Sequence[Any], avals: Sequence[ShapedArray]
) -> Layouts:
    """The layouts of the arguments of a call, of these types: those that are asked for, or else their own.

    Raises:
      ValueError: an array can't have the layout that is asked for, or was put on a device with another one.
    """
    layouts = list(map(_layout_of_argument, leaves))
    if options.in_layouts is not None:
        what = f"jit of {describe_function(fun)}"
        args, kwargs = tree.unflatten(in_tree, range(len(leaves)))
        names = argument_names(fun, args, kwargs)
        asked = tree.flatten_prefix(options.in_layouts, tree.structure(args), "in_shardings", verb=what)
        for i, (layout, x) in enumerate(zip(asked, leaves)):
            if layout is not None:
                layouts[i] = checked_layout(layout, avals[i], what, f"argument {names[i]}")
                _check_matches_argument(what, names[i], layouts[i], x)
    return layouts


def _layout_of_argument(x: Any) -> Layout | AutoLayout | None:
    """The layout of an array or a `ShapeDtypeStruct` that is not row-major."""
    layout = x.format.layout if type(x) is ShapeDtypeStruct else layout_of(x)
    return _unless_row_major(layout) if isinstance(layout, Layout) else None


def _unless_row_major(layout: Layout) -> Layout | None:
    return None if layout.is_row_major else Layout(layout.major_to_minor, ())


def _check_matches_argument(what: str, name: str, layout: Layout | AutoLayout | None, x: Any) -> None:
    """Raises a ValueError if an argument was put on a device with another layout than the one that is requested."""
    was_put = x.format.layout is not None if type(x) is ShapeDtypeStruct else type(x) is Array and x.committed
    own = _layout_of_argument(x)
    if was_put and own != layout:
        more = (
            "With AUTO the compiler chooses a layout: lower the function with xpr.ShapeDtypeStruct, and put arrays "
            "where `input_formats` of the compiled program say"
            if layout is AUTO
            else "Put it there before, by xpr.device_put, or leave the layout out"
        )
        raise ValueError(
            f"{what}: Layout passed to jit does not match the layout on the respective arg, {name}, and arrays that "
            "were put on devices are not moved:\n"
            f"  asked for   {_text(layout)}\n  got         {_text(own)}\n{more}."
        )


def _text(layout: Layout | AutoLayout | None) -> str:
    return "row-major" if layout is None else repr(layout)


def _check_donated(what: str, traced: Traced, ins: Layouts, outs: Layouts) -> None:
    """Raises ValueError if the compiler chooses the layout of a donated argument alone, or of its result alone."""
    jaxpr = traced.jaxpr
    free = list(range(len(outs)))
    for i in traced.interface.donated:
        kind = jaxpr.in_avals[i].shape, jaxpr.in_avals[i].dtype
        same = next((j for j in free if (jaxpr.out_avals[j].shape, jaxpr.out_avals[j].dtype) == kind), None)
        if same is None:
            continue
        free.remove(same)
        if (ins[i] is AUTO) != (outs[same] is AUTO):
            other = "output" if ins[i] is AUTO else "input"
            raise ValueError(
                f"{what}: the layout of a donated argument is {_text(ins[i])}, and that of the result which is to use "
                f"its memory {_text(outs[same])}. Did you mean to set the {other} layout to AUTO, too? The compiler "
                "then chooses the same for both."
            )


def _where_there_is_a_choice(layout: Layout | AutoLayout | None, aval: ShapedArray) -> Layout | AutoLayout | None:
    """The layout, but for AUTO where there is no choice: in arrays of fewer than two axes, and of random keys."""
    return None if layout is AUTO and (aval.ndim < 2 or is_key(aval)) else layout

"""Lowering rules that call functions of other libraries, for primitives of users and `mlir.register_lowering`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpr.backend.mlir_bindings import bindings
from xpr.backend.mlir_text import tensor_type
from xpr.control.callback.foreign_call import attribute_of_handler, layout_for_each, layouts_text
from xpr.core.avals import ShapedArray
from xpr.primitives.linalg.library_calls import aliases_text

__all__ = ["build_ffi_lowering_function", "ffi_lowering"]


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    api_version: int = 4,
    has_side_effect: bool = False,
    operand_output_aliases: Mapping[int, int] | None = None,
    result_types: Sequence[Any] | None = None,
) -> Callable[..., Any]:
    """A function that writes the call of a function of another library, registered by `register_ffi_target`.

    Args:
      call_target_name: the name under which it is registered.
      operand_layouts: for each operand its axes from the fastest varying in memory to the slowest, a `Layout`, or None
        for the last axis as the fastest.
      result_layouts: likewise for each result.
      backend_config: attributes of the handler by name, MLIR's or Python's; text for an interface before 4.
      skip_ffi_layout_processing: whether to write no layouts.
      api_version: 4 for handlers of XLA's typed interface.
      has_side_effect: whether it is called also where no result is used.
      operand_output_aliases: {operand: result}, which share memory.
      result_types: MLIR's types of the results; None for those of the primitive's results.

    Returns:
      A function `(ctx, *operands, **attributes)` of a rule's context, MLIR's values and the handler's attributes, to
      call in a lowering rule. It returns MLIR's operation, which has `results`.

    Raises:
      ValueError: when called, attributes don't fit to the interface, or there are more or fewer layouts than values.
      TypeError: when called, an attribute has a type that handlers don't have.

    >>> from xpr import ffi
    >>> from xpr.extend import Primitive
    >>> from xpr.interpreters import mlir
    >>> negative_p = Primitive("negative")
    >>> write = ffi.build_ffi_lowering_function("my_negative", has_side_effect=True)
    >>> mlir.register_lowering(negative_p, lambda ctx, x: write(ctx, x).results)
    """

    def write(ctx: Any, *operands: Any, **attributes: Any) -> Any:
        ir = bindings()
        texts: dict[str, Any] = {
            "call_target_name": ir.StringAttr.get(call_target_name),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), api_version),
            "has_side_effect": ir.BoolAttr.get(has_side_effect),
            "backend_config": _config(backend_config, attributes, api_version),
        }
        types = [ir.Type.parse(tensor_type(aval)) for aval in ctx.avals_out] if result_types is None else result_types
        if not skip_ffi_layout_processing:
            for what, avals, layouts in (
                ("operand", ctx.avals_in, operand_layouts), ("result", ctx.avals_out, result_layouts),
            ):  # fmt: skip
                texts[f"{what}_layouts"] = ir.Attribute.parse(layouts_text(_orders(what, avals, layouts)))
        aliases = aliases_text((operand_output_aliases or {}).items(), len(types))
        texts["output_operand_aliases"] = ir.Attribute.parse(aliases)
        return ir.Operation.create(
            "stablehlo.custom_call", results=list(types), operands=list(operands), attributes=texts
        )

    return write


def ffi_lowering(call_target_name: str, **options: Any) -> Callable[..., Any]:
    """A lowering rule that calls a function of another library, registered by `register_ffi_target`.

    Args:
      call_target_name: the name under which it is registered.
      **options: those of `build_ffi_lowering_function`.

    Returns:
      A rule for `mlir.register_lowering`. The parameters of the primitive are attributes of the handler.

    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import ffi
    >>> from xpr.extend import Primitive, ShapedArray
    >>> from xpr.interpreters import mlir
    >>> factor_p = Primitive("factor", multiple_results=True)
    >>> _ = factor_p.def_abstract_eval(lambda a, *, uplo: [a, ShapedArray((), np.int32)])
    >>> columns = [(0, 1)]  # the first axis is the fastest in memory
    >>> rule = ffi.ffi_lowering("lapack_spotrf_ffi", operand_layouts=columns, result_layouts=[*columns, ()])
    >>> mlir.register_lowering(factor_p, rule)
    >>> xpr.jit(lambda a: factor_p.bind(a, uplo=np.uint8(ord("L")))[0])(4 * jnp.eye(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    write = build_ffi_lowering_function(call_target_name, **options)

    def rule(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        return list(write(ctx, *operands, **params).results)

    return rule


def _config(config: Mapping[str, Any] | str | None, attributes: Mapping[str, Any], api_version: int) -> Any:
    """The attribute `backend_config` in MLIR: the attributes of the handler, or text for an interface before 4."""
    ir = bindings()
    if api_version < 4:
        if attributes or isinstance(config, Mapping):
            names = ", ".join([*attributes, *(config if isinstance(config, Mapping) else ())])
            raise ValueError(
                f"ffi_lowering: handlers have attributes from api_version 4 on, and with {api_version} there are "
                f"{names}. Give backend_config as text."
            )
        return ir.StringAttr.get(config or "")
    if isinstance(config, str):
        raise ValueError("ffi_lowering: backend_config must be a dictionary for an interface from 4 on, and is text.")
    all_attributes = {**(config or {}), **attributes}
    return ir.DictAttr.get(
        {
            name: x if isinstance(x, ir.Attribute) else ir.Attribute.parse(attribute_of_handler(name, x))
            for name, x in all_attributes.items()
        }
    )


def _orders(what: str, avals: Sequence[ShapedArray], layouts: Sequence[Any] | None) -> list[Sequence[int]]:
    """The axes of each value from the fastest varying in memory to the slowest."""
    orders = []
    for aval, layout in zip(avals, layout_for_each("ffi_lowering", what, avals, layouts)):
        slowest_first = range(aval.ndim) if layout is None else getattr(layout, "major_to_minor", None)
        orders.append(layout if slowest_first is None else slowest_first[::-1])
    return orders

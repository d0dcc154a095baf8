"""ffi_call: calls of functions of other libraries from programs, by XLA's foreign function interface.

Operands are the arrays. Layouts are the axes from the fastest varying in memory to the slowest, as XLA has them;
`attributes` are pairs of a name and the text of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.mlir_text import attribute_text, quoted
from xpr.backend.stablehlo import Builder, Value
from xpr.control.callback.callback import VMAP_METHODS, as_rows, declared_aval, rows_of
from xpr.control.scan.mapping import map as map_rows
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.errors import CallbackDerivativeError
from xpr.primitives.bytes_moved import whole
from xpr.primitives.linalg.library_calls import aliases_text, layout_text
from xpr.primitives.shapes import mapped_to
from xpr.transforms.boundary import boundary

__all__ = ["ffi_call", "ffi_call_p"]

_NO_DERIVATIVE = (
    "It calls a function of another library, whose derivative can't be known. Give one: make the function that calls "
    "it a custom_jvp (or custom_vjp) function, and say its derivative with defjvp."
)


def layouts_text(layouts: Sequence[Sequence[int]]) -> str:
    """Layouts as text, each the axes from the fastest varying in memory to the slowest."""
    return f"[{', '.join(map(layout_text, layouts))}]"


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, target_name: str, attributes: Any,
    input_layouts: Any, output_layouts: Any, input_output_aliases: Any, custom_call_api_version: int,
    legacy_backend_config: str | None, has_side_effect: bool, **_: Any,
) -> list[Value]:  # fmt: skip
    config = f"{{{', '.join(f'{quoted(name)} = {text}' for name, text in attributes)}}}"
    if custom_call_api_version < 4:
        config = quoted(legacy_backend_config or "")
    properties = (
        f"call_target_name = {quoted(target_name)}, api_version = {custom_call_api_version} : i32, "
        f"has_side_effect = {str(has_side_effect).lower()}, backend_config = {config}, "
        f"operand_layouts = {layouts_text(input_layouts)}, result_layouts = {layouts_text(output_layouts)}, "
        f"output_operand_aliases = {aliases_text(input_output_aliases, len(avals))}"
    )
    return b.ops("stablehlo.custom_call", operands, avals, properties)


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """One call for all rows, or in a loop one for each."""
    method = params["vmap_method"]
    if method is None or method.startswith("sequential"):
        mapped = [d is not None for d in dims]
        rows = tuple([mapped_to(x, d, size) for x, d in zip(values, dims) if d is not None])

        def call(row: tuple[Any, ...]) -> list[Any]:
            remaining = iter(row)
            return ffi_call_p.bind(*[next(remaining) if m else x for x, m in zip(values, mapped)], **params)

        outs = map_rows(call, rows)
        return outs, [0] * len(outs)
    rows = tuple([as_rows(x, d, size, method) for x, d in zip(values, dims)])
    longer = [aval_of(x).ndim > len(layout) for x, layout in zip(rows, params["input_layouts"])]
    wider = {
        "result_avals": rows_of(size, params["result_avals"]),
        "input_layouts": tuple([_of_rows(x) if more else x for x, more in zip(params["input_layouts"], longer)]),
        "output_layouts": tuple(map(_of_rows, params["output_layouts"])),
    }
    outs = ffi_call_p.bind(*rows, **{**params, **wider})
    return outs, [0] * len(outs)


def _of_rows(layout: Sequence[int]) -> tuple[int, ...]:
    return (*[axis + 1 for axis in layout], 0)


ffi_call_p = register(
    Primitive(
        "ffi_call",
        abstract=lambda avals, *, result_avals, **_: list(result_avals),
        params=(
            "target_name",
            "result_avals",
            "has_side_effect",
            "vmap_method",
            "input_layouts",
            "output_layouts",
            "input_output_aliases",
            "custom_call_api_version",
            "legacy_backend_config",
            "attributes",
        ),
        reference=Unsupported("It is a function of another library."),
        lower=_lower,
        jvp=Unsupported(_NO_DERIVATIVE, CallbackDerivativeError),
        transpose=Unsupported("A function of another library is not known to be linear.", CallbackDerivativeError),
        batch=_batch,
        effects=lambda avals, *, has_side_effect, **_: ("unordered",) * has_side_effect,
        multiple_results=True,
        bytes_moved=whole,
    )
)


def attribute_of_handler(name: str, value: Any) -> str:
    """The text of an attribute of a handler.

    Raises:
      TypeError: handlers have no such attributes.
    """
    try:
        return attribute_text(value)
    except TypeError:
        raise TypeError(
            f"ffi_call: attribute {name} must be a bool, a number, a string, a NumPy array, a dtype, or a dict, tuple "
            f"or list of those, and is {describe(value)}."
        ) from None


def layout_for_each(
    function: str, what: str, avals: Sequence[ShapedArray], layouts: Sequence[Any] | None
) -> Sequence[Any]:
    """A layout for each value, or None where none are given.

    Raises:
      ValueError: there are more or fewer layouts than values; the message names the function.
    """
    if layouts is None:
        return [None] * len(avals)
    if len(layouts) != len(avals):
        raise ValueError(f"{function}: there are {len(avals)} {what}s and {len(layouts)} {what} layouts.")
    return layouts


def _checked_layouts(what: str, avals: Sequence[ShapedArray], layouts: Sequence[Any] | None) -> tuple[Any, ...]:
    """From the axes as users give them, the slowest varying first, to XLA's."""
    orders = []
    for aval, layout in zip(avals, layout_for_each("ffi_call", what, avals, layouts)):
        order = range(aval.ndim) if layout is None else getattr(layout, "major_to_minor", layout)
        if sorted(order) != list(range(aval.ndim)):
            raise ValueError(f"ffi_call: {layout} is no layout of an {what} of type {aval.str_short()}.")
        orders.append(tuple(order)[::-1])
    return tuple(orders)


@boundary
def ffi_call(
    target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None, custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls a function of another library, registered by `register_ffi_target`.

    Args:
      target_name: the name under which it is registered.
      result_shape_dtypes: a `ShapeDtypeStruct` or array, or a sequence of them: the types of the results.
      has_side_effect: whether it is called also where no result is used.
      vmap_method: how `vmap` calls it. "sequential" or None: in a loop, for one row after another. Or once, for all
        rows, its results with a new first axis: "expand_dims" gives arguments that are not mapped a first axis of
        length 1, "broadcast_all" one of the number of rows, "legacy_vectorized" none.
      input_layouts: for each argument its axes from the slowest varying in memory to the fastest, a `Layout`, or None
        for their order.
      output_layouts: likewise for each result; for one result alone its layout.
      input_output_aliases: {argument: result}, which share memory.
      custom_call_api_version: 4 for handlers of XLA's typed interface.
      legacy_backend_config: what functions of an interface before 4 are given.

    Returns:
      A function of the arguments by position, and by name of the handler's attributes: Python numbers are 64-bit.

    Raises:
      ValueError: layouts, aliases or the method don't fit.
      TypeError: when called, an attribute has a type that handlers don't have.

    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import ffi
    >>> matrix = xpr.ShapeDtypeStruct((2, 2), np.float32)
    >>> info = xpr.ShapeDtypeStruct((), np.int32)
    >>> factor = ffi.ffi_call("lapack_spotrf_ffi", (matrix, info), input_layouts=[(1, 0)], output_layouts=[(1, 0), ()])
    >>> factor(4 * jnp.eye(2), uplo=np.uint8(ord("L")))[0]
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(f"ffi_call: vmap_method is one of {VMAP_METHODS} or None, and is {vmap_method!r}.")
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise ValueError("ffi_call: legacy_backend_config is for functions of an interface before 4.")
    several = isinstance(result_shape_dtypes, (tuple, list))
    declared = result_shape_dtypes if several else [result_shape_dtypes]
    result_avals = tuple([declared_aval("ffi_call", x) for x in declared])
    layouts_of_results = output_layouts if several or output_layouts is None else [output_layouts]
    out_layouts = _checked_layouts("output", result_avals, layouts_of_results)

    def call(*args: Any, **kwargs: Any) -> Any:
        avals = [aval_of(x) for x in args]
        in_layouts = _checked_layouts("input", avals, input_layouts)
        aliases = tuple(sorted((input_output_aliases or {}).items()))
        for operand, result in aliases:
            if not (0 <= operand < len(avals) and 0 <= result < len(result_avals)) or (
                (avals[operand].shape, avals[operand].dtype) != (result_avals[result].shape, result_avals[result].dtype)
                or in_layouts[operand] != out_layouts[result]
            ):
                raise ValueError(
                    f"ffi_call: argument {operand} can't share memory with result {result}: both must be there, and "
                    "have one type and layout."
                )
        outs = ffi_call_p.bind(
            *args,
            target_name=target_name,
            result_avals=result_avals,
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_layouts=in_layouts,
            output_layouts=out_layouts,
            input_output_aliases=aliases,
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=tuple([(name, attribute_of_handler(name, value)) for name, value in sorted(kwargs.items())]),
        )
        return (tuple(outs) if isinstance(result_shape_dtypes, tuple) else outs) if several else outs[0]

    return call

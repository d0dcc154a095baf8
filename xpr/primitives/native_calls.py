"""Calls of functions in C (`backend/native.py`) from programs on CPU, which take the rows of an array's last axis."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.backend import native
from xpr.backend.mlir_text import int_array, int_list
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import float32

# Bytes of the largest arrays that are reduced by calls alone, which XLA counts no operations in, so that the thread of
# Python runs them: for some ten milliseconds.
LARGEST = 1 << 28


def are_possible(b: Builder, aval: ShapedArray) -> bool:
    """Whether a function in C may be called for an array: in a program that runs here, on one device."""
    here = b.platform == "cpu" and b.module.mesh is None and not b.module.exported
    return here and not is_symbolic_dim(aval.size) and native.available()


def rows_of(v: Value) -> tuple[int, int]:
    """The number of rows along the last axis, and their length."""
    n = v.aval.shape[-1]
    return v.aval.size // n, n


def moved_last(b: Builder, v: Value, dimension: int) -> Value:
    """The permutation that exchanges a dimension with the last one."""
    axes = list(range(v.aval.ndim))
    axes[dimension], axes[-1] = axes[-1], axes[dimension]
    return v if dimension == v.aval.ndim - 1 else b.transpose(v, axes)


def call(
    b: Builder,
    target: str,
    sizes: Sequence[int],
    operands: list[Value],
    results: list[ShapedArray],
    in_place: bool = False,
) -> list[Value]:
    """Calls a function with the text that its description in C asks for, of the numbers `sizes`.

    `in_place`: the first of several results is written over the first operand, or a copy of it.
    """
    return b.ops("stablehlo.custom_call", operands, results, _properties(target, sizes, operands, results, in_place))


def call_of_elements(
    b: Builder, target: str, operands: list[Value], avals: list[ShapedArray], takes_long: bool = False
) -> list[Value]:
    """Calls a function that computes each element of its results from those of its operands at the same place.

    A call for one result counts as an elementwise operation, and equal ones are one. The second operand may be one
    number.
    """
    sizes = [avals[0].size, *(int(x.aval.ndim == 0) for x in operands[1:])]
    further = [counted(b, operands[0])] if takes_long else []
    values = [*operands, *further]
    properties = _properties(target, sizes, values, avals, False)
    if len(avals) == 1:
        results = [b.op("stablehlo.custom_call", values, avals[0], properties)]
    else:
        results = b.ops("stablehlo.custom_call", values, avals, properties)
    if len(operands) == 1 and operands[0] in b.varied:
        b.varied.update(results)
    return results


_COUNTED = 1024  # additions: programs of fewer than 1,000 operations run in the thread of their caller


def counted(b: Builder, x: Value) -> Value:
    """An operand that a function doesn't read, for which XLA counts some operations, as it does none in the call.

    Has it run the program in the background. It must depend on an operand `x`, or XLA computes it when it compiles.
    """
    first = b.op("stablehlo.slice", [b.reshape(x, (x.aval.size,))], x.aval.update(shape=(1,)), (
        f"start_indices = {int_array([0])}, limit_indices = {int_array([1])}, strides = {int_array([1])}"
    ))  # fmt: skip
    numbers = ShapedArray((_COUNTED,), float32)
    positions = b.op("stablehlo.iota", [], numbers, "iota_dimension = 0 : i64")
    repeated = b.broadcast(b.reshape(b.convert(first, float32), ()), (_COUNTED,), ())
    return b.op("stablehlo.add", [repeated, positions], numbers)


def _properties(
    target: str, sizes: Sequence[int], operands: list[Value], results: Sequence[ShapedArray], in_place: bool
) -> str:
    def layouts(avals: Sequence[ShapedArray]) -> str:
        orders = [int_list(range(aval.ndim)[::-1]) for aval in avals]
        return f"[{', '.join(f'dense<{o}> : tensor<{aval.ndim}xindex>' for o, aval in zip(orders, avals))}]"

    properties = (
        f'call_target_name = "{target}", api_version = 3 : i32, backend_config = "{" ".join(map(str, sizes))}", '
        f"operand_layouts = {layouts([v.aval for v in operands])}, result_layouts = {layouts(results)}"
    )
    if in_place:
        places = "output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []"
        properties += f", output_operand_aliases = [#stablehlo.output_operand_alias<{places}>]"
    return properties

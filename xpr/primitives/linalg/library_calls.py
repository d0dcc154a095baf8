"""Calls of LAPACK on CPU and of NVIDIA's libraries on CUDA, from programs.

Both store matrices by columns, XLA by rows. A call declares the layout, and XLA transposes operands and results; where
a routine can solve the transposed problem instead, nothing is moved. The leading axes of all operands and
results are a stack of problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_list
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.errors import UnsupportedRule
from xpr.primitives.comparison_lowering import lower_comparison

_LETTER = {dtypes.float32: "s", dtypes.float64: "d", dtypes.complex64: "c", dtypes.complex128: "z"}

Attributes = Mapping[str, str | bool | int]  # a text of one letter is LAPACK's character
ON_HOST = {"magma": "off"}  # the choice that routines in backend/hybrid.py have between MAGMA and LAPACK
NONE: Attributes = {}
_NOWHERE: Mapping[int, int] = {}


def lapack(routine: str, dtype: np.dtype) -> str:
    """The name of LAPACK's routine for a dtype."""
    return f"lapack_{_LETTER[dtype]}{routine}_ffi"


def call(
    b: Builder,
    target: str,
    operands: Sequence[Value],
    results: Sequence[ShapedArray],
    stack: int,
    attributes: Attributes = NONE,
    in_place: Mapping[int, int] = _NOWHERE,
) -> list[Value]:
    """A call of a library's routine.

    Args:
      target: the routine's name.
      stack: how many leading axes of operands and results number the problems; where two axes follow, it is a matrix.
      in_place: operands, by number, whose memory a result uses.
    """
    shapes = [b.shape(aval.shape) for aval in results] if any(aval.is_symbolic for aval in results) else []
    layouts = [*[_layout(v.aval, stack) for v in operands], *[_layout(v.aval, 1) for v in shapes]]
    texts = ", ".join(f"{name} = {_attribute(value)}" for name, value in attributes.items())
    properties = (
        f'call_target_name = "{target}", api_version = 4 : i32, backend_config = {{{texts}}}, '
        f"operand_layouts = [{', '.join(layouts)}], "
        f"result_layouts = [{', '.join(_layout(aval, stack) for aval in results)}], "
        f"output_operand_aliases = {aliases_text(in_place.items(), len(results))}"
    )
    attribute = "" if b.module.mesh is None else _partitioning(operands, results, stack)
    if shapes:  # of results; they replace symbolic ones when the dimensions are known
        numbers = int_list(range(len(operands), len(operands) + len(shapes)))
        attribute = f"indices_of_shape_operands = dense<{numbers}> : tensor<{len(shapes)}xi64>"
    return b.ops("stablehlo.custom_call", [*operands, *shapes], results, properties, attributes=attribute)


def _partitioning(operands: Sequence[Value], results: Sequence[ShapedArray], stack: int) -> str:
    """The sharding rule: each device solves its problems, since axes of the stack are the same factors everywhere."""
    sizes: list[str] = []

    def axes(aval: ShapedArray) -> str:
        factors = []
        for axis, size in enumerate(aval.shape):
            if axis >= stack or axis >= len(sizes):
                factors.append(_factor(len(sizes)))
                sizes.append(f"{factors[-1]}={size}")
            else:
                factors.append(_factor(axis))
        return f"[{', '.join(factors)}]"

    operand_axes, result_axes = (", ".join(map(axes, avals)) for avals in ([v.aval for v in operands], results))
    rule = f"#sdy.op_sharding_rule<({operand_axes})->({result_axes}) {{{', '.join(sizes)}}}, custom>"
    return f'mhlo.frontend_attributes = {{num_batch_dims = "{stack}"}}, sdy.sharding_rule = {rule}'


def _factor(number: int) -> str:
    """Shardy names factors i, j, ... z, and then z_1, z_2 ..."""
    letters = "ijklmnopqrstuvwxyz"
    return letters[number] if number < len(letters) else f"z_{number - len(letters) + 1}"


def _attribute(value: str | bool | int) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"{ord(value)} : ui8" if len(value) == 1 else f'"{value}"'
    return f"{value} : i32"


def _layout(aval: ShapedArray, stack: int) -> str:
    """The layout: the axes from the fastest varying in memory to the slowest."""
    order = list(range(aval.ndim))[::-1]
    if aval.ndim == stack + 2:
        order[:2] = order[1::-1]
    return layout_text(order)


def layout_text(order: Sequence[int]) -> str:
    """A layout as text, from the axes from the fastest varying in memory to the slowest."""
    return f"dense<{int_list(order) if order else ''}> : tensor<{len(order)}xindex>"


def aliases_text(pairs: Iterable[tuple[int, int]], num_results: int) -> str:
    """The pairs `(operand, result)` that share memory in a custom call, as text."""
    aliases = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = {int_list([result] if num_results > 1 else [])}, "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for operand, result in pairs
    ]
    return f"[{', '.join(aliases)}]"


def where_solved(b: Builder, info: Value, values: Sequence[Value], or_more: bool = False) -> list[Value]:
    """The values, with nan for each problem that failed: where `info` is not 0, or with `or_more` negative."""
    solved = lower_comparison(b, info, b.constant(0, info.aval), "GE" if or_more else "EQ")
    stack = range(info.aval.ndim)
    return [
        b.op(
            "stablehlo.select",
            [b.broadcast(solved, v.aval.shape, stack), v, b.constant(np.asarray(np.nan, v.aval.dtype)[()], v.aval)],
            v.aval,
        )
        for v in values
    ]


Routine = tuple[str, Attributes]


def routine(b: Builder, what: str, aval: ShapedArray, on_cpu: Routine, on_cuda: Routine | None) -> Routine:
    """The name and the attributes of a routine on the platform of a program: LAPACK's, or one for CUDA.

    Raises:
      UnsupportedRule: there is none.
    """
    if aval.is_symbolic and b.platform != "cpu":
        raise UnsupportedRule(
            f"{what}: routines of libraries take no symbolic dimensions on {b.platform}, and the operand is "
            f"{aval.str_short()}. Export the function for constant shapes, or loop over the first axis with lax.map."
        )
    if b.platform == "cpu":
        return lapack(on_cpu[0], aval.dtype), on_cpu[1]
    if b.platform == "cuda" and on_cuda is not None:
        return on_cuda
    raise UnsupportedRule(
        f"{what}: there is no routine for it on {b.platform}. Have it run on the CPU: `with "
        'xpr.default_device(xpr.devices("cpu")[0])`, with its operands there.'
    )

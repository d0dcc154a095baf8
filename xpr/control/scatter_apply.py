"""scatter_apply: a function applied to elements of an array at computed indices, once for each occurrence of an index.

The function becomes the body of a scatter, so it is traced for one element and may close over no values except
scalars. If all indices are distinct it is the function between a gather and a scatter, and can be differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.tracing import trace_body
from xpr.core.avals import ShapedArray, aval_of, types_of
from xpr.core.jaxpr import Jaxpr, constvars_to_invars
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.regions import Region
from xpr.primitives.bytes_moved import updating_each
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.gather import windows
from xpr.primitives.gather.gather_scatter import gather_p, scatter_batch
from xpr.primitives.gather.lowering import scatter_lowering
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import GatherScatterMode, ScatterDimensionNumbers
from xpr.transforms.boundary import boundary
from xpr.transforms.stage import stage

__all__ = ["scatter_apply", "scatter_apply_p"]


def _abstract(
    avals: Sequence[ShapedArray], *, update_jaxpr: Jaxpr, update_shape: tuple[int, ...], **params: Any
) -> list[ShapedArray]:
    operand, indices = avals
    if update_jaxpr.in_avals != update_jaxpr.out_avals or update_jaxpr.in_avals != [ShapedArray((), operand.dtype)]:
        raise TypeError(f"scatter_apply: the function must map {operand.dtype} scalars to such.")
    updates = ShapedArray(update_shape, operand.dtype)
    return scatter_p.type_of((operand, indices, updates), params)


def _reference(
    values: Sequence[Any], *, dimension_numbers: ScatterDimensionNumbers, update_shape: tuple[int, ...],
    update_jaxpr: Jaxpr, mode: GatherScatterMode, **params: Any,
) -> list[Any]:  # fmt: skip
    operand, indices = np.array(values[0]), windows.signed(values[1])
    numbers, sizes = windows.gather_of(dimension_numbers, operand.shape, update_shape)
    if mode is windows.CLIP:
        indices = windows.clipped(numbers, operand.shape, indices, sizes)
    inside = windows.inside(numbers, operand.shape, indices, sizes)
    ones, none = np.ones(update_shape, np.int32), np.zeros(operand.shape, np.int32)
    counts = windows.write(np.add, none, numbers, indices, sizes, ones, inside)
    for index in np.argwhere(counts):
        for _ in range(counts[tuple(index)]):
            (operand[tuple(index)],) = reference_eval(update_jaxpr, (), operand[tuple(index)])
    return [operand]


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, update_shape: tuple[int, ...],
    update_jaxpr: Jaxpr, **params: Any,
) -> list[Value]:  # fmt: skip
    dtype = avals[0].dtype
    nothing = b.constant(np.zeros((), dtype)[()], ShapedArray(update_shape, dtype))
    rule = scatter_lowering(_body(update_jaxpr))
    return rule(b, [*operands, nothing], avals, **params)


def _body(jaxpr: Jaxpr) -> Callable[[Builder, list[Value]], list[Value]]:
    """The function on one element as a scatter's body; on a whole window, if there is only one, as a map."""

    def combine(inner: Builder, args: list[Value]) -> list[Value]:
        old = args[0]
        if not old.aval.ndim:
            return lower_eqns(inner, jaxpr, [old])
        region = inner.region(jaxpr.in_avals, lambda b, elements: lower_eqns(b, jaxpr, elements))
        axes = f"dimensions = array<i64: {', '.join(map(str, range(old.aval.ndim)))}>"
        return [inner.op("stablehlo.map", [old], old.aval, axes, [region])]

    return combine


def _batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, update_shape: tuple[int, ...], **params: Any
) -> Any:
    operand, indices = values

    def bind(operand: Any, indices: Any, updates: Any, **scatter_params: Any) -> Any:
        return scatter_apply_p.bind(operand, indices, update_shape=aval_of(updates).shape, **scatter_params)

    nothing = np.zeros((size, *update_shape), aval_of(operand).dtype)
    return scatter_batch(bind)(size, [operand, indices, nothing], [*dims, 0], **params)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Compiles the operation as a program that is cached with the function's jaxpr."""
    avals = tuple(map(aval_of, args))
    memo = params["update_jaxpr"].memo
    key = ("scatter_apply", avals, *[(name, value) for name, value in params.items() if name != "update_jaxpr"])
    if key not in memo:
        memo[key] = constvars_to_invars(stage(lambda *xs: [scatter_apply_p.bind(*xs, **params)], avals))
    return run_jaxpr(memo[key], args, "scatter_apply")


_NOT_DIFFERENTIABLE = (
    "How often the function is applied to an element is only known at run time. Say unique_indices=True where no index "
    "occurs twice: then it can be differentiated."
)


def _regions(*, update_jaxpr: Jaxpr, update_shape: tuple[int, ...], **params: Any) -> list[Region]:
    """The function, which runs once for each occurrence of an index."""
    return [Region(update_jaxpr, "loop", (0,), ((0,),), (0,), math.prod(update_shape), (1,))]


def _bytes_moved(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, update_shape: tuple[int, ...], **params: Any
) -> int:
    """The elements, which are read and written, and the indices; counted as those of other scatters."""
    return updating_each([*operands, ShapedArray(update_shape, operands[0].dtype)], results)


scatter_apply_p = register(
    Primitive(
        "scatter_apply",
        abstract=_abstract,
        params=("dimension_numbers", "indices_are_sorted", "unique_indices", "mode", "update_shape", "update_jaxpr"),
        reference=_reference,
        lower=_lower,
        jvp=Unsupported(_NOT_DIFFERENTIABLE),
        transpose=Unsupported(_NOT_DIFFERENTIABLE),
        batch=_batch,
        evaluate=_evaluate,
        regions=_regions,
        bytes_moved=_bytes_moved,
        call=True,
    )
)


def _on_one_element(func: Callable[[Any], Any], dtype: np.dtype) -> Jaxpr:
    """The jaxpr of the function on one element.

    Raises:
      TypeError: the function closes over arrays.
    """

    def converted(x: Any) -> Any:
        return convert_element_type(func(x), dtype)

    avals, in_tree = [ShapedArray((), dtype)], tree.structure(((0,), {}))
    body = trace_body(converted, in_tree, avals, "the function of a scatter_apply", owner=func)
    if body.consts:
        raise TypeError(
            "scatter_apply: where an index may occur twice, the function can use no arrays from outside "
            f"({types_of(body.consts)}). Say unique_indices=True where none does."
        )
    return body.closed.jaxpr


@boundary
def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """Applies an elementwise function to windows of an array; where windows overlap, once for each of them.

    Args:
      operand: an array.
      scatter_indices: integers; the last axis holds, for each window, its starts along `scatter_dims_to_operand_dims`.
      func: a function from a scalar to a scalar; with `unique_indices` it is called with all windows at once.
      dimension_numbers: the roles of axes, `ScatterDimensionNumbers`.
      update_shape: the shape that updates of a `scatter` to the same windows would have.
      indices_are_sorted: a promise that the starts are sorted.
      unique_indices: a promise that no two windows overlap; it makes the operation differentiable.
      mode: for windows that are partly out of bounds, see `GatherScatterMode`; None to leave them unchanged.

    Returns:
      An array of the shape and dtype of `operand`.

    >>> from xpr import lax, numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_apply(jnp.ones(3), jnp.array([[0], [0], [2]]), lambda x: 2 * x, numbers, update_shape=(3,))
    Array([4., 1., 2.], dtype=float32)
    """
    numbers, shape = windows.tupled(dimension_numbers), tuple(update_shape)
    flags: dict[str, Any] = {
        "indices_are_sorted": bool(indices_are_sorted),
        "unique_indices": bool(unique_indices),
        "mode": GatherScatterMode.from_any(mode),
    }
    aval = aval_of(operand)
    if not unique_indices and len(aval_of(scatter_indices).shape) > 1:
        jaxpr = _on_one_element(func, aval.dtype)
        return scatter_apply_p.bind(
            operand, scatter_indices, dimension_numbers=numbers, update_shape=shape, update_jaxpr=jaxpr, **flags
        )
    reading, sizes = windows.gather_of(numbers, aval.shape, shape)
    old = gather_p.bind(operand, scatter_indices, dimension_numbers=reading, slice_sizes=sizes, fill_value=0, **flags)
    new = convert_element_type(func(old), aval.dtype)
    return scatter_p.bind(operand, scatter_indices, new, dimension_numbers=numbers, **flags)

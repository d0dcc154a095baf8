"""x[mask] with a mask of unknown values, for what needs no size: reductions, elementwise functions, `x.at[mask]`.

    jit(lambda x: x[x > 0].mean())

`MaskTrace` is an interpreter whose tracers hold all elements and have the type of those that the mask selects: the
size of their axis is a dimension variable. Elementwise functions act on all elements; reductions over the axis take a
neutral element for those that are not selected; the size, where a mean asks for it, is the number of true elements. Any
other operation is refused with the line of the index. It becomes current where a mask is applied, and remains so until
the function that is being traced returns.

Before an elementwise function is applied, elements that are not selected become a selected one, so that neither values
nor derivatives outside of the function's domain come up: the gradient of `jnp.log(x[x > 0]).sum()` has no nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.stop_gradient import stop_gradient, stop_gradient_p
from xpr.control.xla_call import xla_call_p
from xpr.core import source
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import DependentTrace, Trace, Tracer, context
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.dimensions.expressions import DimExpr, evaluate, is_symbolic_dim, variable
from xpr.dimensions.scope import SymbolicScope
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy.indexing.normalize import is_plain, mask_message
from xpr.passes.cse import have_the_same_value
from xpr.primitives import elementwise as e
from xpr.primitives import special
from xpr.primitives.argminmax import argmax
from xpr.primitives.dimension_values import dim_as_value_p
from xpr.primitives.dot import dot_general_p
from xpr.primitives.reductions import (
    reduce_and_p,
    reduce_max_of_numbers_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from xpr.primitives.shapes import (
    broadcast_in_dim,
    broadcast_in_dim_p,
    full,
    reduce_sum,
    reduce_sum_p,
    reshape,
    reshape_p,
    rev_p,
    squeeze_p,
    transpose_p,
)
from xpr.primitives.slicing import iota_p, select, select_n_p, slice_p
from xpr.primitives.slicing_in_dim import dynamic_slice_in_dim
from xpr.transforms.batch import BatchTracer
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer
from xpr.transforms.stage import StageTracer

Shape = tuple[Any, ...]


class _Scope(SymbolicScope):
    """The scope of the sizes of masked axes: where one has to be known, the error is that of the mask."""

    def inconclusive(self, dimension: DimExpr, message: str) -> Exception:
        trace: Any = context.trace
        while trace is not None:
            for mask in getattr(trace, "masks", ()):
                if mask.dimension.variables() <= dimension.variables():
                    return mask.error("was used where the number of selected elements is needed")
            trace = trace.parent
        return super().inconclusive(dimension, message)


_SCOPE = _Scope()


class Mask:
    """A mask that selects along one axis: the user's, its elements as a vector, and the size of what it selects."""

    __slots__ = ("given", "flat", "dimension", "source", "_count")

    def __init__(self, given: Tracer, flat: Any, dimension: Any, line: Any = None):
        self.given, self.flat, self.dimension = given, flat, dimension
        self.source = line or source.here()
        self._count = None

    def of(self, flat: Any) -> Mask:
        """A copy whose elements are another value, for a function that takes them as an argument."""
        return Mask(self.given, flat, self.dimension, self.source)

    def count(self) -> Any:
        """The number of true elements."""
        if self._count is None:
            self._count = reduce_sum(e.convert_element_type(self.flat, dtypes.of_python(int)), (0,))
        return self._count

    def along(self, axis: int, shape: Shape) -> Any:
        """The mask, repeated to a shape of which it is one axis."""
        return broadcast_in_dim(self.flat, shape, (axis,))

    def error(self, what: str) -> NonConcreteBooleanIndexError:
        """The error for a use of x[mask] for which its size has to be known."""
        return NonConcreteBooleanIndexError(
            f"{mask_message(self.given)}\n"
            f"  x[mask] is at {source.line_with_text(self.source)}\n"
            f"  It {what}. What takes it is elementwise functions, reductions, and x.at[mask] of the same mask."
        )


class MaskedTracer(Tracer):
    """x[mask]: `value` has all elements of the axis.

    It is `safe` where those that are not selected have the value of a selected one.
    """

    __slots__ = ("value", "safe")

    def __init__(self, trace: MaskTrace, aval: ShapedArray, value: Any, safe: bool):
        self._trace, self.aval, self.value, self.safe = trace, aval, value, safe

    def misused(self) -> Exception:
        """The exception where x[mask] is used otherwise than in operations of its interpreter."""
        trace: Any = self._trace
        return trace.masks_of(self.aval)[0][1].error("was returned, kept, mapped over or asked for a value")

    def _unknown(self, *args: Any) -> Any:
        raise self._trace.masks_of(self.aval)[0][1].error("was asked for its size")  # type: ignore[attr-defined]

    shape = size = nbytes = property(_unknown)
    __len__ = __iter__ = _unknown


def _are_equal(x: Any, y: Any) -> bool:
    """Whether two masks are known to be equal, by what computes them."""
    if x is y or type(x) is not type(y):
        return x is y
    if type(x) is Array:
        return np.array_equal(x, y)
    if not isinstance(x, Tracer) or x._trace is not y._trace:
        return False
    if type(x) is StageTracer:
        return have_the_same_value(x._trace.eqns, x.variable, y.variable)  # type: ignore[attr-defined]
    if type(x) is BatchTracer:
        return x.dim == y.dim and _are_equal(x.value, y.value)
    return isinstance(x, (JVPTracer, LinearizeTracer)) and _are_equal(x.primal, y.primal)


class MaskTrace(DependentTrace):
    """Runs operations on selected elements as operations on all of them."""

    __slots__ = ("masks",)

    def __init__(self, parent: Trace, masks: Sequence[Mask] = ()):
        self.parent = parent
        self.masks = list(masks)

    @property
    def alive(self) -> bool:  # type: ignore[override]  # it ends when the function that is being traced returns
        """Whether functions that are traced now may use its tracers: those that close over them."""
        return context.trace is not self and _is_under(self, context.trace)

    def explain(self, tracer: Tracer) -> str:
        return self.parent.explain(tracer)

    def select(self, x: Any, given: Tracer, axis: int) -> MaskedTracer:
        """The elements of `x` that a mask of several axes, from `axis` on, selects."""
        aval = aval_of(x)
        mask = self.mask(given)
        before, after = aval.shape[:axis], aval.shape[axis + given.aval.ndim :]
        value = x.value if self.is_own(x) else x
        value = reshape(value, (*self.sizes(before), mask.flat.aval.shape[0], *self.sizes(after)))
        return MaskedTracer(self, aval.update(shape=(*before, mask.dimension, *after)), value, False)

    def mask(self, given: Tracer) -> Mask:
        """The mask that the user gave, which may be of selected elements itself; one for all masks that are equal."""
        for mask in self.masks:
            if _are_equal(mask.given, given):
                return mask
        if self.is_own(given):
            flat = self.neutral_value(given, (0,), False)  # type: ignore[arg-type]  # it is a MaskedTracer
        else:
            flat = reshape(given, (given.aval.size,))
        number = sum(len(getattr(trace, "masks", ())) for trace in _stack(self))
        self.masks.append(Mask(given, flat, variable(f"selected_{number}" if number else "selected", _SCOPE)))
        return self.masks[-1]

    def masks_of(self, aval: ShapedArray) -> list[tuple[int, Mask]]:
        """The axes whose size is that of what a mask selects, with the mask."""
        return [(axis, mask) for axis, n in enumerate(aval.shape) for mask in self.masks if n == mask.dimension]

    def sizes(self, shape: Shape) -> Shape:
        """The shape of all elements, for that of the selected ones."""
        known = {mask.dimension: mask.flat.aval.shape[0] for mask in self.masks}
        return tuple([known.get(n, n) if is_symbolic_dim(n) else n for n in shape])

    def is_own(self, x: Any) -> bool:
        return type(x) is MaskedTracer and x._trace is self

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        own = [x for x in args if self.is_own(x)]
        if not own and primitive not in _MAKERS:
            return self.parent.process(primitive, args, params)
        if primitive is xla_call_p:
            return eval_jaxpr(params["call_jaxpr"], (), *args)
        before, context.trace = context.trace, self.parent
        try:
            if primitive in CALLS:
                return CALLS[primitive](self, args, params)
            rule = _RULES.get(primitive)
            if rule is None:
                raise self.refusal(primitive, own)
            return [rule(self, primitive, args, params)]
        finally:
            context.trace = before

    def refusal(self, primitive: Primitive, own: Sequence[MaskedTracer]) -> Exception:
        mask = self.masks_of(own[0].aval)[0][1] if own else self.masks[0]
        return mask.error(f"was given to `{primitive}`")

    def result(self, primitive: Primitive, args: Sequence[Any], params: Any, value: Any, safe: bool) -> Any:
        """A result as a tracer with the type that the operation gives; unchanged if no axis of it is masked."""
        (aval,) = primitive.type_of(tuple([aval_of(x) for x in args]), params)
        return self.selected(value, aval, safe)

    def selected(self, value: Any, aval: ShapedArray, safe: bool = True) -> Any:
        """A tracer of the type `aval` that holds all elements; the value itself if no axis of the type is masked."""
        return MaskedTracer(self, aval, value, safe) if self.masks_of(aval) else value

    def safe_value(self, x: Any) -> Any:
        """The elements of an operand, with a selected one in place of those that are not selected; 1 if none is."""
        if not self.is_own(x):
            return x
        if not x.safe:
            for axis, mask in self.masks_of(x.aval):
                shape = aval_of(x.value).shape
                row = stop_gradient(dynamic_slice_in_dim(x.value, argmax(mask.flat, 0, np.int32), 1, axis))
                none = e.bitwise_not(reduce_or(mask.flat, (0,)))
                row = select(_filled(none, row), _filled(aval_of(row).dtype.type(1), row), row)
                row = broadcast_in_dim(row, shape, range(len(shape)))
                x.value = select(mask.along(axis, shape), x.value, row)
            x.safe = True
        return x.value

    def neutral_value(self, x: MaskedTracer, axes: Sequence[int], neutral: Any) -> Any:
        """The elements of an operand, with a neutral one in place of those that are not selected along some axes."""
        value = x.value
        shape, dtype = aval_of(value).shape, aval_of(value).dtype
        for axis, mask in self.masks_of(x.aval):
            if axis in axes:
                value = select(mask.along(axis, shape), value, full(shape, neutral, dtype))
        return value


def _filled(scalar: Any, like: Any) -> Any:
    return broadcast_in_dim(scalar, aval_of(like).shape, ())


def _stack(trace: Any) -> list[Any]:
    stack = []
    while trace is not None:
        stack.append(trace)
        trace = trace.parent
    return stack


def _is_under(trace: Any, top: Any) -> bool:
    return any(each is trace for each in _stack(top))


# Of calls whose functions run on selected elements, in masked_calls.py: rule(trace, args, params) -> results.
CALLS: dict[Primitive, Callable[..., list[Any]]] = {}

# -- What operations do with selected elements: rule(trace, primitive, args, params) -> result


def _elementwise(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    out = primitive.bind(*map(trace.safe_value, args), **params)
    return trace.result(primitive, args, params, out, True)


def _moved(changed: Callable[[MaskTrace, Any, dict[str, Any]], dict[str, Any] | None]) -> Any:
    """The rule of an operation that moves elements: `changed` gives its parameters for all of them, or None."""

    def rule(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        (x,) = args
        own = trace.is_own(x)
        for_all = changed(trace, x, params)
        if for_all is None:
            raise trace.refusal(primitive, [x] if own else [])
        value = primitive.bind(x.value if own else x, **for_all)
        return trace.result(primitive, args, params, value, not own or x.safe)

    return rule


def _broadcast(trace: MaskTrace, x: Any, params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "shape": trace.sizes(params["shape"])}


def _reshaped(trace: MaskTrace, x: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """A reshape that leaves the axes of selected elements alone."""

    def sizes_between(shape: Shape) -> list[Any]:
        """The products of the sizes between such axes, and between those the axes' dimensions."""
        sizes: list[Any] = [1]
        for n in shape:
            sizes = [*sizes, n, 1] if is_symbolic_dim(n) else [*sizes[:-1], sizes[-1] * n]
        return sizes

    if sizes_between(aval_of(x).shape) != sizes_between(params["new_sizes"]):
        return None
    return {**params, "new_sizes": trace.sizes(params["new_sizes"])}


def _sliced(trace: MaskTrace, x: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """A slice of other axes."""
    starts, limits, strides = params["start_indices"], params["limit_indices"], params["strides"]
    for axis, mask in trace.masks_of(x.aval):
        if starts[axis] or limits[axis] != mask.dimension or (strides and strides[axis] != 1):
            return None
    return {**params, "limit_indices": trace.sizes(limits)}


def _reversed(trace: MaskTrace, x: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    return None if any(axis in params["dimensions"] for axis, _ in trace.masks_of(x.aval)) else params


def _unchanged(trace: MaskTrace, x: Any, params: dict[str, Any]) -> dict[str, Any]:
    return params


def _reduction(neutral: Callable[[np.dtype], Any]) -> Any:
    def rule(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        (x,) = args
        value = trace.neutral_value(x, params["axes"], neutral(x.aval.dtype))
        return trace.result(primitive, args, params, primitive.bind(value, **params), x.safe)

    return rule


def _dot(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Products of rows are rows of the product; where selected elements are summed over, the others are 0."""
    contracted = params["dimension_numbers"][0]
    values = [
        trace.neutral_value(x, axes, 0) if trace.is_own(x) else x for x, axes in zip(args, contracted, strict=True)
    ]
    safe = all(x.safe for x in args if trace.is_own(x))
    return trace.result(primitive, args, params, primitive.bind(*values, **params), safe)


def _iota(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    shape = trace.sizes(params["shape"])
    axis = params["dimension"]
    if shape[axis] != params["shape"][axis]:
        raise trace.refusal(primitive, ())
    return trace.result(primitive, args, params, primitive.bind(**{**params, "shape": shape}), True)


def _size(trace: MaskTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    counts: dict[str, Any] = {str(mask.dimension): mask.count() for mask in trace.masks}
    others = {name: variable(name, params["dim"].scope) for name in params["dim"].variables() - counts.keys()}
    return evaluate(params["dim"], counts | others)


_ELEMENTWISE = [p for module in (e, special) for p in vars(module).values() if isinstance(p, Primitive)]
_RULES: dict[Primitive, Callable[..., Any]] = {
    **dict.fromkeys([*_ELEMENTWISE, select_n_p, stop_gradient_p], _elementwise),
    e.convert_element_type_p: _moved(_unchanged),
    broadcast_in_dim_p: _moved(_broadcast),
    reshape_p: _moved(_reshaped),
    squeeze_p: _moved(_unchanged),
    transpose_p: _moved(_unchanged),
    rev_p: _moved(_reversed),
    slice_p: _moved(_sliced),
    reduce_sum_p: _reduction(lambda dtype: 0),
    reduce_prod_p: _reduction(lambda dtype: 1),
    reduce_max_p: _reduction(dtypes.least),
    reduce_max_of_numbers_p: _reduction(dtypes.least),
    reduce_min_p: _reduction(dtypes.greatest),
    reduce_and_p: _reduction(lambda dtype: dtype.type(-1) if dtype != dtypes.bool_ else True),
    reduce_or_p: _reduction(lambda dtype: 0),
    reduce_xor_p: _reduction(lambda dtype: 0),
    dot_general_p: _dot,
    dim_as_value_p: _size,
    iota_p: _iota,
}
_MAKERS = frozenset({broadcast_in_dim_p, dim_as_value_p, iota_p})  # whose parameters may have sizes of selected axes


# -- Indexing


def unknown_mask(index: Any) -> Tracer | None:
    """The mask without a known value that is an index, or the one in a tuple of slices; else None."""
    if type(index) is not tuple:
        return index if isinstance(index, Tracer) and _is_unknown(index) else None
    masks = [i for i in index if isinstance(i, Tracer) and _is_unknown(i)]
    if len(masks) != 1 or not all(i is masks[0] or i is Ellipsis or i is None or type(i) is slice for i in index):
        return None
    return masks[0]


def _is_unknown(x: Tracer) -> bool:
    return x.aval.dtype is dtypes.bool_ and bool(x.aval.ndim) and x.concrete() is None


def all_elements(selected: MaskedTracer, given: Tracer, shape: Shape) -> Any:
    """The elements of which `selected` is a selection by the mask that was given, in the shape of an array it indexes.

    Raises:
      NonConcreteBooleanIndexError: it is a selection by another mask.
    """
    trace: Any = selected._trace
    axes = trace.masks_of(selected.aval)
    if [axis for axis, _ in axes] != [0] or not _are_equal(axes[0][1].given, given):
        raise axes[0][1].error("was given as the values of x.at[...] with another index")
    rows = shape[given.aval.ndim :]
    value = selected.value
    kept = aval_of(value).shape
    value = broadcast_in_dim(value, (kept[0], *rows), (0, *range(1 + len(rows) - (len(kept) - 1), 1 + len(rows))))
    return reshape(value, shape)


def with_unselected_as(selected: MaskedTracer, axes: Sequence[int], value: Any) -> Any:
    """All elements, with a value in place of those that are not selected, for a reduction over axes.

    Raises:
      NonConcreteBooleanIndexError: an axis of selected elements is not among them.
    """
    trace: Any = selected._trace
    for axis, mask in trace.masks_of(selected.aval):
        if axis not in axes:
            raise mask.error("was reduced over other axes than that of the mask")
    return trace.neutral_value(selected, axes, value)


def select_by(x: Any, index: Any, mask: Tracer, sliced: Callable[[Any, Any], Any]) -> MaskedTracer | None:
    """`x[index]`, where `index` holds a mask of unknown values; None where it can't be: then the mask is an error.

    `sliced` is `x[index]` for slices.
    """
    parts = index if type(index) is tuple else (index,)
    at = next(i for i, part in enumerate(parts) if part is mask)
    whole = (slice(None),) * mask.aval.ndim
    plain = (*parts[:at], *whole, *parts[at + 1 :])
    if not is_plain(plain) or not any(trace is mask._trace for trace in _stack(context.trace)):
        return None
    x = sliced(x, plain)
    if Ellipsis in parts[:at]:
        axis = x.aval.ndim - sum(part is not Ellipsis for part in parts[at + 1 :]) - mask.aval.ndim
    else:
        axis = at
    if x.aval.shape[axis : axis + mask.aval.ndim] != mask.aval.shape:
        return None
    current = context.trace
    trace = current if type(current) is MaskTrace else MaskTrace(current)
    context.trace = trace.parent
    try:
        return trace.select(x, mask, axis)
    finally:
        context.trace = trace

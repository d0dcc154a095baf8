"""The lowering rule of a function that is computed by arithmetic on CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import bf16, float16, float32, float64, int32
from xpr.primitives import native_calls
from xpr.primitives.elementwise_rules import repeated
from xpr.primitives.reduction_lowering import lower_reduction
from xpr.primitives.vectorized.expressions import Expression, Formula

Lower = Callable[..., list[Value]]


_MANY = 4096  # elements: a formula takes milliseconds to compile, and nanoseconds less for each element
_SOME = 512  # elements, from which on a call of C is faster than what XLA has: a thousand take 5 us in place of 6 to 30
_LONG = 1 << 16  # elements that C computes in the background, for a tenth of a millisecond and longer
DTYPES = (float32, float64)  # that formulas compute in; 16-bit floats are converted

# By the name of a function and the dtype: its formula, and where that doesn't hold, as `beyond` below.
FORMULAS: dict[str, dict[np.dtype, tuple[Formula, float | Formula | None]]] = {}


def on_cpu(
    name: str,
    elsewhere: str | Lower,
    single: Formula | None,
    double: Formula | None = None,
    beyond: Mapping[np.dtype, float | Formula] = MappingProxyType({}),
    double_from: int = _MANY,
    in_c: Collection[np.dtype] = (),
    has_vector_code: bool = False,
) -> Lower:
    """A lowering rule that writes a formula for CPU, where there are many elements; some are computed by it in C.

    Functions that draw random numbers don't have formulas, since what they draw is JAX's to the last bit.

    Args:
      name: of the function that is written into the module, once for each type of operands, and called.
      elsewhere: the operation, or rule, for other platforms and dtypes, and for few elements.
      single: the formula for float32, and for 16-bit floats, which are converted; None where `elsewhere` is for them.
      double: that for float64, likewise.
      beyond: by dtypes of formulas, the absolute value from which on they don't hold, or a formula that is true where
        they don't. A program looks whether it has any such numbers, and then computes all by `elsewhere`; one on
        several devices does always.
      double_from: the number of elements from which on `double` is written.
      in_c: dtypes of which C computes many elements, too: where it takes XLA longest to compile the formula.
      has_vector_code: whether XLA has vectors of float32 for few elements, too. Then C computes them only where their
        operands are in memory: XLA computes operands in the same loop.
    """
    formulas = {float16: single, bf16: single, float32: single, float64: double}
    of_dtypes = {float32: single, float64: double}
    FORMULAS[name] = {dtype: (formula, beyond.get(dtype)) for dtype, formula in of_dtypes.items() if formula}

    def without(b: Builder, operands: list[Value], aval: ShapedArray, params: dict[str, Any]) -> list[Value]:
        if isinstance(elsewhere, str):
            return [b.op(elsewhere, repeated(b, operands, aval.shape), aval)]
        return elsewhere(b, operands, [aval], **params)

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
        (aval,) = avals
        has_formula = b.platform == "cpu" and not b.draws and not aval.is_symbolic and aval.size >= _SOME
        formula = formulas.get(aval.dtype) if has_formula else None
        if formula is None:
            return without(b, operands, aval, params)
        computed_in, many = _computed_in(aval.dtype), double_from if aval.dtype == float64 else _MANY
        is_fast = has_vector_code and computed_in == float32
        if _is_one_number(b, operands):
            return without(b, operands, aval, params)
        if name in native.ELEMENTWISE and (aval.size < many or computed_in in in_c):
            if native_calls.are_possible(b, aval) and not (is_fast and _are_computed(b, operands)):
                return _computed_in_c(b, name, operands, aval)
        bound = beyond.get(computed_in)
        if aval.size < many or (bound is not None and b.may_be_partitioned):
            return without(b, operands, aval, params)
        operands = repeated(b, operands, aval.shape)
        if bound is None:
            return _called(b, name, formula, operands, aval)
        branches = [
            lambda inner: _called(inner, name, formula, operands, aval),
            lambda inner: without(inner, operands, aval, params),
        ]
        values = [Expression(b, v).to(_computed_in(aval.dtype)) for v in operands]
        return b.case(_is_any_beyond(b, bound, values), branches, [aval])

    return lower


def _computed_in(dtype: np.dtype) -> np.dtype:
    return float64 if dtype == float64 else float32


def _is_one_number(b: Builder, operands: list[Value]) -> bool:
    """Whether the result is one number that is repeated, which XLA computes once."""
    sources = [source[0] if (source := b.broadcast_source(x)) else x for x in operands]
    return all(x.aval.size == 1 for x in sources)


def _are_computed(b: Builder, operands: list[Value]) -> bool:
    """Whether an operation wrote one of the arrays, which XLA may have in its loop without writing it to memory."""
    return any(x.aval.ndim and x in b.definitions for x in operands)


def _computed_in_c(b: Builder, name: str, operands: list[Value], aval: ShapedArray) -> list[Value]:
    """The result of a call; the second of two operands may stay one number."""
    dtype = _computed_in(aval.dtype)
    values = repeated(b, operands[:1], aval.shape)
    for x in operands[1:]:
        source = b.broadcast_source(x)
        number = source[0] if source else x
        values += [b.reshape(number, ())] if number.aval.size == 1 else repeated(b, [x], aval.shape)
    values = [b.convert(x, dtype) for x in values]
    target, result = native.elementwise_target(name, dtype), aval.update(dtype=dtype)
    takes_long = aval.size >= _LONG
    return [b.convert(native_calls.call_of_elements(b, target, values, result, takes_long), aval.dtype)]


def _is_any_beyond(b: Builder, bound: float | Formula, values: list[Expression]) -> Value:
    """1 where one of the numbers is beyond the bound, 0 elsewhere."""
    flags = (abs(values[0]) >= bound if isinstance(bound, float) else bound(*values)).value
    found = lower_reduction(b, flags, flags.aval.update(shape=()), range(flags.aval.ndim), "stablehlo.or", False)
    return b.convert(found, int32)


def _called(b: Builder, name: str, formula: Formula, operands: list[Value], aval: ShapedArray) -> list[Value]:
    """A call of the module's function for the formula, which is written where there is none yet for the type."""
    key = ("vectorized", name, aval.update(weak_type=False), *b.module.manual.items())
    if key not in b.module.shared:

        def body(inner: Builder, arguments: list[Value]) -> list[Value]:
            result = formula(*[Expression(inner, v).to(_computed_in(aval.dtype)) for v in arguments])
            return [result.to(aval.dtype).value]

        b.module.shared[key] = b.module.function(name, [v.aval for v in operands], body)
    results = b.call(b.module.shared[key], operands, [aval])
    if len(operands) == 1 and operands[0] in b.varied:
        b.varied.add(results[0])
    return results

"""The lowering rule of a function that is computed by arithmetic on CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
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


MANY = 4096  # elements: a formula takes milliseconds to compile, and nanoseconds less for each element
SOME = 512  # elements, from which on a call of C is faster than what XLA has: a thousand take 5 us in place of 6 to 30
_LONG = 1 << 16  # elements that C computes in the background, for a tenth of a millisecond and longer
DTYPES = (float32, float64)  # that formulas compute in; 16-bit floats are converted

# By the name of a function and the dtype: its formula, and where that doesn't hold, as `beyond` below.
FORMULAS: dict[str, dict[np.dtype, tuple[Formula, float | Formula | None]]] = {}


@dataclass(frozen=True, eq=False)
class OnCpu:
    """A lowering rule that writes a formula for CPU, where there are many elements; some are computed by it in C.

    Functions that draw random numbers don't have formulas, since what they draw is JAX's to the last bit.

    Attributes:
      name: of the function that is written into the module, once for each type of operands, and called.
      elsewhere: the operation, or rule, for other platforms and dtypes, and for few elements.
      single: the formula for float32, and for 16-bit floats, which are converted; None where `elsewhere` is for them.
      double: that for float64, likewise.
      beyond: by dtypes of formulas, the absolute value from which on they don't hold, or a formula that is true where
        they don't. A program looks whether it has any such numbers, and then computes all by `elsewhere`; one on
        several devices does always.
      many: the number of elements from which on `single` is written.
      many_double: that for `double`.
      in_c: dtypes of which C computes many elements, too: where it takes XLA longest to compile the formula.
      has_vector_code: whether XLA has vectors of float32 for few elements, too. Then C computes them only where their
        operands are in memory: XLA computes operands in the same loop.
    """

    name: str
    elsewhere: str | Lower
    single: Formula | None
    double: Formula | None = None
    beyond: Mapping[np.dtype, float | Formula] = field(default_factory=dict)
    many: int = MANY
    many_double: int = MANY
    in_c: Collection[np.dtype] = ()
    has_vector_code: bool = False

    def __post_init__(self) -> None:
        formulas = {float32: self.single, float64: self.double}
        FORMULAS[self.name] = {dtype: (f, self.beyond.get(dtype)) for dtype, f in formulas.items() if f}

    def _formula(self, b: Builder, operands: list[Value], aval: ShapedArray) -> Formula | None:
        """That which computes the result, in the module or in C, if any does."""
        if b.platform != "cpu" or b.draws or aval.is_symbolic or aval.size < SOME or _is_one_number(b, operands):
            return None
        formulas = {float16: self.single, bf16: self.single, float32: self.single, float64: self.double}
        return formulas.get(aval.dtype)

    def _is_many(self, aval: ShapedArray) -> bool:
        return aval.size >= (self.many_double if aval.dtype == float64 else self.many)

    def is_in_c(self, b: Builder, operands: list[Value], aval: ShapedArray) -> bool:
        """Whether C computes the result."""
        if self.name not in native.ELEMENTWISE or self._formula(b, operands, aval) is None:
            return False
        dtype = computed_in(aval.dtype)
        if not native_calls.are_possible(b, aval) or (self._is_many(aval) and dtype not in self.in_c):
            return False
        return not (self.has_vector_code and dtype == float32 and _are_computed(b, operands))

    def _elsewhere(
        self, b: Builder, operands: list[Value], aval: ShapedArray, params: Mapping[str, Any]
    ) -> list[Value]:
        if isinstance(self.elsewhere, str):
            return [b.op(self.elsewhere, repeated(b, operands, aval.shape), aval)]
        return self.elsewhere(b, operands, [aval], **params)

    def __call__(self, b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
        (aval,) = avals
        if self.is_in_c(b, operands, aval):
            return computed_in_c(b, self.name, operands, aval)
        formula, bound = self._formula(b, operands, aval), self.beyond.get(computed_in(aval.dtype))
        if formula is None or not self._is_many(aval) or (bound is not None and b.may_be_partitioned):
            return self._elsewhere(b, operands, aval, params)
        operands = repeated(b, operands, aval.shape)
        if bound is None:
            return _called(b, self.name, formula, operands, aval)
        branches = [
            lambda inner: _called(inner, self.name, formula, operands, aval),
            lambda inner: self._elsewhere(inner, operands, aval, params),
        ]
        values = [Expression(b, v).to(computed_in(aval.dtype)) for v in operands]
        return b.case(_is_any_beyond(b, bound, values), branches, [aval])


def computed_in(dtype: np.dtype) -> np.dtype:
    return float64 if dtype == float64 else float32


def _is_one_number(b: Builder, operands: list[Value]) -> bool:
    """Whether the result is one number that is repeated, which XLA computes once."""
    sources = [source[0] if (source := b.broadcast_source(x)) else x for x in operands]
    return all(x.aval.size == 1 for x in sources)


def _are_computed(b: Builder, operands: list[Value]) -> bool:
    """Whether an operation wrote one of the arrays, which XLA may have in its loop without writing it to memory."""
    return any(x.aval.ndim and x in b.definitions for x in operands)


def computed_in_c(b: Builder, name: str, operands: list[Value], aval: ShapedArray, count: int = 1) -> list[Value]:
    """The result of a call, or `count` results of one; the second of two operands may stay one number."""
    dtype = computed_in(aval.dtype)
    values = repeated(b, operands[:1], aval.shape)
    for x in operands[1:]:
        source = b.broadcast_source(x)
        number = source[0] if source else x
        values += [b.reshape(number, ())] if number.aval.size == 1 else repeated(b, [x], aval.shape)
    values = [b.convert(x, dtype) for x in values]
    target, avals = native.elementwise_target(name, dtype), count * [aval.update(dtype=dtype)]
    results = native_calls.call_of_elements(b, target, values, avals, takes_long=aval.size >= _LONG)
    return [b.convert(x, aval.dtype) for x in results]


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
            result = formula(*[Expression(inner, v).to(computed_in(aval.dtype)) for v in arguments])
            return [result.to(aval.dtype).value]

        b.module.shared[key] = b.module.function(name, [v.aval for v in operands], body)
    results = b.call(b.module.shared[key], operands, [aval])
    if len(operands) == 1 and operands[0] in b.varied:
        b.varied.add(results[0])
    return results

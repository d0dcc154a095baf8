"""Writes xpr/backend/c/formulas.h, the formulas of xpr/primitives/vectorized/ in C: `python -m tests.formulas_in_c`.

A formula is called with expressions of a builder that writes C in place of StableHLO. Conditions are masks there, all
bits or none, and a choice is made by `and` and `or`: of C's `?:` compilers make branches, and vectorize no loop around
them.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from xpr.backend import native
from xpr.backend.stablehlo import Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import bool_, float32, float64, int32, int64, uint32
from xpr.primitives.vectorized import gamma, remainders
from xpr.primitives.vectorized.exponentials import logarithm
from xpr.primitives.vectorized.expressions import Expression, Formula, select
from xpr.primitives.vectorized.rule import FORMULAS

FILE = Path(native.LIBRARY).with_name("formulas.h")
WIDTH, LONG = 128, 90  # characters of a line, and of an expression that has a name

# Formulas that only C has, by their names there.
FURTHER: dict[str, dict[np.dtype, Formula]] = {
    "lgamma_of_positive": {float32: gamma.lgamma_of_positive, float64: gamma.long_lgamma_of_positive},
    "lgamma_of_small": {float32: gamma.lgamma_of_small},
    "digamma_of_positive": {float32: gamma.digamma_of_positive, float64: gamma.long_digamma_of_positive},
    "rem_of_small_quotient": {float32: remainders.remainder_of_small_quotient},
}

HEAD = """\
/* Elementwise functions, written by `python -m tests.formulas_in_c` from the formulas in xpr/primitives/vectorized/. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
"""
BITS = """
INLINE {to_type} {to}_of_{of}({of_type} x) {{
    {to_type} bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}}
"""
SELECT = """
INLINE {type} select_{name}({mask} condition, {type} x, {type} y) {{
    return {chosen};
}}
"""
TYPES = {float32: "float", float64: "double", int32: "int32_t", int64: "int64_t", uint32: "uint32_t"}
SUFFIXES = {float32: "f", float64: "", int32: "", int64: "LL", uint32: "U"}
COMPARISONS = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}
BINARY = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^", "shift_left": "<<",
    "shift_right_arithmetic": ">>", "shift_right_logical": ">>",
}  # fmt: skip
FUNCTIONS = {"abs": "fabs", "sqrt": "sqrt", "round_nearest_even": "rint", "floor": "floor"}


class Writer:
    """A builder whose values are expressions in C, which have names where they are read several times."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}  # by the expression: those of equal ones are one
        self.expressions: dict[Value, tuple[str, tuple[Value, ...]]] = {}  # a template, and what it reads
        self.masks: dict[Value, np.dtype] = {}  # of bools, the integers that they are

    def _new(self, aval: ShapedArray, template: str, *operands: Value, mask: np.dtype | None = None) -> Value:
        key = f"{aval.dtype} {mask} {template} {' '.join(x.name for x in operands)}"
        if key not in self.values:
            self.values[key] = value = Value(f"v{len(self.values)}", aval)
            self.expressions[value] = template, operands
            if mask is not None:
                self.masks[value] = mask
        return self.values[key]

    def constant(self, number: Any, aval: ShapedArray) -> Value:
        text = repr(number.item()) + SUFFIXES[aval.dtype]
        if aval.dtype in (float32, float64) and not math.isfinite(number):
            text = "NAN" if math.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
        elif number == np.iinfo(int64).min or (aval.dtype == int32 and number == np.iinfo(int32).min):
            text = f"INT{8 * aval.dtype.itemsize}_MIN"
        return self._new(aval, f"({text})" if text.startswith("-") else text)

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        return x if x.aval.dtype == dtype else self._new(x.aval.update(dtype=dtype), f"({TYPES[dtype]}){{}}", x)

    def _mask(self, x: Value, like: np.dtype) -> Value:
        """The flags as integers of the size of a dtype: those of the other size are extended, or cut."""
        mask = int64 if like.itemsize == 8 else int32
        return x if self.masks[x] == mask else self._new(x.aval, f"({TYPES[mask]}){{}}", x, mask=mask)

    def op(self, name: str, operands: list[Value], aval: ShapedArray, properties: str = "") -> Value:
        name, of = name.removeprefix("stablehlo."), operands[-1].aval.dtype
        if name == "compare":
            sign = COMPARISONS[properties.removesuffix(">")[-2:]]
            mask = int64 if of.itemsize == 8 else int32
            return self._new(aval, f"-({TYPES[mask]})({{}} {sign} {{}})", *operands, mask=mask)
        if name == "select":
            condition = self._mask(operands[0], aval.dtype)
            return self._new(aval, f"select_{aval.dtype.name}({{}}, {{}}, {{}})", condition, *operands[1:])
        mask = None
        if aval.dtype == bool_:
            mask = int64 if int64 in map(self.masks.get, operands) else int32
            operands = [self._mask(x, mask) for x in operands]
        if name == "bitcast_convert":
            return (
                operands[0] if of == aval.dtype else self._new(aval, f"{aval.dtype.name}_of_{of.name}({{}})", *operands)
            )
        if name == "log":
            return _log(Expression(self, operands[0])).value
        if name in FUNCTIONS:
            return self._new(aval, f"{FUNCTIONS[name]}{SUFFIXES[of]}({{}})", *operands)
        if name in BINARY:
            return self._new(aval, f"({{}} {BINARY[name]} {{}})", *operands, mask=mask)
        return self._new(aval, {"negate": "-{}", "not": "~{}"}[name], *operands, mask=mask)

    def statements(self, result: Value) -> list[str]:
        """Those that compute a value and return it."""
        readers = dict.fromkeys(self.expressions, 0)
        seen, rest = set(), [result]
        while rest:
            value = rest.pop()
            if value not in seen:
                seen.add(value)
                for each in self.expressions[value][1] if value in self.expressions else ():
                    readers[each] = readers.get(each, 0) + 1
                    rest.append(each)
        texts: dict[Value, str] = {}
        lines: list[str] = []
        for value, (template, operands) in self.expressions.items():
            if value not in seen:
                continue
            parts = [texts.get(x, x.name) for x in operands]
            if re.search(r"\w\({", template):  # arguments of a function
                parts = list(map(_without_parentheses, parts))
            text = template.format(*parts)
            is_plain = not operands or value is result or (readers[value] == 1 and len(text) < LONG)
            if is_plain:
                texts[value] = text
            else:
                texts[value] = name = f"v{len(lines)}"
                kind = TYPES[self.masks.get(value, value.aval.dtype)]
                lines.append(f"const {kind} {name} = {_without_parentheses(text)};")
        return [*lines, f"return {_without_parentheses(texts[result])};"]


def _log(x: Expression) -> Expression:
    """The logarithm of float32 numbers, for which formulas have XLA's operation."""
    result = logarithm(x.to(float64)).to(float32)
    return select(x < 0.0, math.nan, select(x.equals(0), -math.inf, result))


def _without_parentheses(text: str) -> str:
    """The expression without those around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def function(name: str, formula: Formula, dtype: np.dtype) -> str:
    """A function of one element, or of two."""
    writer, aval = Writer(), ShapedArray((), dtype)
    operands = [Value(each, aval) for each in list(inspect.signature(formula).parameters)]
    result = formula(*[Expression(writer, x) for x in operands]).value
    kind = TYPES[writer.masks.get(result, result.aval.dtype)]
    parameters = ", ".join(f"{TYPES[dtype]} {x.name}" for x in operands)
    indented = dict(initial_indent=" " * 4, subsequent_indent=" " * 8, break_long_words=False)
    lines = [part for line in writer.statements(result) for part in textwrap.wrap(line, WIDTH, **indented)]
    return "\n".join([f"\nINLINE {kind} {name}_{dtype.name}({parameters}) {{", *lines, "}", ""])


def _not_below(bound: float) -> Formula:
    return lambda x: abs(x) >= bound


def text() -> str:
    """All of the file."""
    parts = [HEAD]
    for floating, integer in ((float32, int32), (float64, int64)):
        for to, of in ((integer, floating), (floating, integer)):
            parts.append(BITS.format(to=to.name, of=of.name, to_type=TYPES[to], of_type=TYPES[of]))
    parts.append(BITS.format(to="uint32", of="int32", to_type="uint32_t", of_type="int32_t"))
    for dtype in TYPES:
        mask = int64 if dtype.itemsize == 8 else int32
        is_float = dtype in (float32, float64)
        x, y = (f"{mask.name}_of_{dtype.name}({v})" if is_float else v for v in "xy")
        chosen = f"({x} & condition) | ({y} & ~condition)"
        chosen = f"{dtype.name}_of_{mask.name}({chosen})" if is_float else chosen
        parts.append(SELECT.format(type=TYPES[dtype], name=dtype.name, mask=TYPES[mask], chosen=chosen))
    for name in native.ELEMENTWISE:
        for dtype, (formula, beyond) in FORMULAS[name].items():
            parts.append(function(name, formula, dtype))
            if beyond is not None:
                parts.append(function(f"{name}_is_beyond", beyond if callable(beyond) else _not_below(beyond), dtype))
    parts += [function(name, formula, dtype) for name in FURTHER for dtype, formula in FURTHER[name].items()]
    return "".join(parts)


if __name__ == "__main__":
    FILE.write_text(text())

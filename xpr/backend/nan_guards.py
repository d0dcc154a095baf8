"""Exponentials on CPU of what may be a constant nan, in a module's text.

XLA:CPU's code of exp says that its operand is not nan. Where LLVM sees a constant nan on the way to it, as in
`exp(where(mask, x, nan))`, it takes the branch of the nan for one that is never reached, and what was in the memory of
the result before stays there (jaxlib 0.10.2; so in JAX). `select(x == x, exp(x), x)` has no such branch. It makes a
softmax a third slower, so it is written only where a constant nan can reach the operand within one kernel: not through
matrix products, convolutions and calls of libraries, whose results are in memory.

A nan that XLA finds itself when it evaluates constants, such as log(-1), is not seen here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_EXPONENTIALS = frozenset(
    {"stablehlo.exponential", "stablehlo.exponential_minus_one", "stablehlo.logistic", "chlo.cosh"}
)
_KERNEL_ENDS = frozenset(
    {"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.compare"}
)
_CONTROL_FLOW = frozenset({"stablehlo.while", "stablehlo.case", "sdy.manual_computation"})

_OPERATION = re.compile(r'(?:%(?P<result>\w+)(?::\d+)? = )?"(?P<name>[\w.]+)"\((?P<operands>[^)]*)\)')
_CALLEE = re.compile(r"callee = @([\w.]+)")
_VALUE = re.compile(r"%(\w+)")
_FUNCTION = re.compile(r"func\.func \w+ @([\w.]+)\(")
_TYPE = re.compile(r" : \((tensor<[\w?]+>)\) -> ")
_ELEMENT = re.compile(r"b?f(?!64)\d+\w*>$")


def guard_exponentials(functions: Sequence[str], nans: Collection[str]) -> list[str]:
    """The functions of a module, callees before callers, with exponentials that a constant nan reaches guarded.

    Args:
      functions: their texts.
      nans: the names of the constants that hold a nan, `%7`.
    """
    has_nan: dict[str, bool] = {}
    for text in functions:
        calls = any(has_nan.get(callee, True) for callee in _CALLEE.findall(text))
        has_nan[_name(text)] = calls or any(f"\n{nan} = " in text for nan in nans)
    reached: dict[str, set[int]] = {}  # the arguments of each function that a nan reaches, by their positions
    guarded = [_guard(text, nans, has_nan, reached) for text in reversed(functions)]
    return guarded[::-1]


def _name(text: str) -> str:
    match = _FUNCTION.match(text)
    return match[1] if match else ""


def _guard(text: str, nans: Collection[str], has_nan: dict[str, bool], reached: dict[str, set[int]]) -> str:
    """One function, after those that call it; notes which arguments of those that it calls a nan reaches."""
    name = _name(text)
    header, *lines = text.split("\n")
    arguments = _VALUE.findall(header)
    from_outside = [arguments[i] for i in sorted(reached.get(name, ()))]
    if not (has_nan[name] or from_outside):
        return text
    may_be_nan = {nan.removeprefix("%") for nan in nans} | set(from_outside)
    out = [header]
    for line in lines:
        match = _OPERATION.match(line)
        if match is None:
            may_be_nan.update(_VALUE.findall(line))  # the arguments of a region
            out.append(line)
            continue
        operands = _VALUE.findall(match["operands"])
        affected = [i for i, operand in enumerate(operands) if operand in may_be_nan]
        operation = match["name"]
        if operation == "func.call":
            callee = _CALLEE.search(line)
            reached.setdefault(callee[1] if callee else "", set()).update(affected)
            affected = affected or [0] * (callee is None or has_nan.get(callee[1], True))
        if operation in _CONTROL_FLOW or (affected and operation not in _KERNEL_ENDS):
            may_be_nan.add(match["result"])
        out += _guarded(line, match["result"], operands[0]) if affected and operation in _EXPONENTIALS else [line]
    return "\n".join(out)


def _guarded(line: str, result: str, operand: str) -> list[str]:
    """`select(x == x, exp(x), x)` in place of the line of `exp(x)`, but for float64 and complex numbers."""
    found = _TYPE.search(line)
    kind = found[1] if found else ""
    flags = _ELEMENT.sub("i1>", kind)
    if flags == kind:
        return [line]
    x, value, is_number = f"%{operand}", f"%exp{result}", f"%number{result}"
    return [
        line.replace(f"%{result} = ", f"{value} = ", 1),
        f'{is_number} = "stablehlo.compare"({x}, {x}) <{{comparison_direction = '
        f"#stablehlo<comparison_direction EQ>}}> : ({kind}, {kind}) -> {flags}",
        f'%{result} = "stablehlo.select"({is_number}, {value}, {x}) : ({flags}, {kind}, {kind}) -> {kind}',
    ]

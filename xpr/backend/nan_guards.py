"""Guards of exponentials in a module's text, for CPU, where LLVM may see that their operand is nan.

XLA:CPU's code of exp converts a float to an integer, which has no value for a nan: LLVM may then leave out the store
of the result. That happens where LLVM sees, in one kernel, that the operand is nan in some branch, as in
`exp(where(mask, x, nan))` or `exp(where(mask, x, -inf) - where(mask, y, -inf))`; what was in the memory before is the
result (jaxlib 0.10.2; so in JAX). `select(x == x, exp(x), x)` has no such branch. It makes a softmax up to a third
slower, so it is written only where constants can meet to a nan on the way to the operand within one kernel: not
through matrix products, sums and calls of libraries, whose results are in memory.

The analysis finds for each value the constants that it may be in some branch, as a set of classes; the set is empty
for a value that is known at run time alone.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NAN, INFINITE, ZERO, NEGATIVE, POSITIVE = 1, 2, 4, 8, 16
_ANY = INFINITE | ZERO | NEGATIVE | POSITIVE

_EXPONENTIALS = ("stablehlo.exponential", "stablehlo.exponential_minus_one", "stablehlo.logistic", "chlo.cosh")

# Operations whose result is an element of an operand, with the positions of these operands (None: of all).
_CHOICES: dict[str, slice | None] = {
    "stablehlo.select": slice(1, 3), "stablehlo.gather": slice(0, 1), "stablehlo.dynamic_slice": slice(0, 1),
    "stablehlo.dynamic_update_slice": slice(0, 2), "stablehlo.broadcast_in_dim": slice(0, 1),
    "stablehlo.dynamic_broadcast_in_dim": slice(0, 1), "stablehlo.dynamic_reshape": slice(0, 1),
    "stablehlo.pad": None, "stablehlo.concatenate": None, "stablehlo.clamp": None, "stablehlo.maximum": None,
    "stablehlo.minimum": None, "stablehlo.slice": None, "stablehlo.reshape": None, "stablehlo.transpose": None,
    "stablehlo.reverse": None, "stablehlo.convert": None, "stablehlo.reduce_precision": None,
    "stablehlo.optimization_barrier": None, "sdy.sharding_constraint": None,
}  # fmt: skip
_IN_MEMORY = frozenset({"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.fft"})

# Operations that give a nan where each operand is a constant of these classes, and none is a nan.
_INVALID: dict[str, Sequence[tuple[int, ...]]] = {
    "stablehlo.add": [(INFINITE, INFINITE)], "stablehlo.subtract": [(INFINITE, INFINITE)],
    "stablehlo.multiply": [(INFINITE, ZERO), (ZERO, INFINITE)],
    "stablehlo.divide": [(INFINITE, INFINITE), (ZERO, ZERO)],
    "stablehlo.remainder": [(INFINITE, _ANY), (_ANY, ZERO)], "stablehlo.power": [(NEGATIVE | INFINITE, _ANY)],
    **{f"stablehlo.{name}": [(NEGATIVE | INFINITE,)] for name in ("log", "log_plus_one", "sqrt", "rsqrt")},
    **{f"stablehlo.{name}": [(INFINITE,)] for name in ("sine", "cosine", "tan")},
}  # fmt: skip

_OPERATION = re.compile(r'(?:%(?P<result>\w+)(?::\d+)? = )?"(?P<name>[\w.]+)"\((?P<operands>[^)]*)\)')
_FUNCTION = re.compile(r"func\.func \w+ @([\w.]+)\(")
_CALLEE = re.compile(r"callee = @([\w.]+)")
_VALUE = re.compile(r"%(\w+)")
_TYPE = re.compile(r" : \((tensor<[\w?]+>)\) -> ")
_ELEMENT = re.compile(r"b?f(?!64)\d+\w*>$")


@dataclass(slots=True)
class _Operation:
    line: int
    name: str
    result: str
    operands: list[str]
    callee: str = ""
    regions: list[_MlirRegion] = field(default_factory=list)


@dataclass(slots=True)
class _MlirRegion:
    """A function's body or a region: its arguments, operations, and the values that it returns."""

    arguments: list[str]
    operations: list[_Operation] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)


def has_exponentials(functions: Sequence[str]) -> bool:
    return any(f'"{name}"' in text for name in _EXPONENTIALS for text in functions)


def guard_exponentials(functions: Sequence[str], constants: Mapping[str, Any]) -> list[str]:
    """The functions of a module with exponentials guarded whose operands may be a nan that is known.

    Args:
      functions: their texts; `main` is the last.
      constants: the values of the constants in them, by their names (`%7`).
    """
    analysis = _Analysis(functions, {name[1:]: value for name, value in constants.items()})
    analysis.function(list(analysis.functions)[-1], ())
    return [_guarded(text, analysis.guarded) for text in functions]


class _Analysis:
    """Follows the constants of a module from `main` into the functions that it calls."""

    def __init__(self, functions: Sequence[str], constants: Mapping[str, Any]):
        self.functions = dict(map(_parsed, functions))
        self.constants = constants
        self.known: dict[tuple[str, tuple[int, ...]], int] = {}
        self.guarded: set[str] = set()  # the results of the exponentials to guard

    def function(self, name: str, arguments: tuple[int, ...]) -> int:
        """The classes of the results of a function, all together; an unknown one's may be anything."""
        body = self.functions.get(name)
        if body is None:
            return NAN
        key = (name, arguments)
        if key not in self.known:
            self.known[key] = self.region(body, dict(zip(body.arguments, arguments)))
        return self.known[key]

    def region(self, region: _MlirRegion, env: dict[str, int]) -> int:
        """The classes of what a region returns; `env` has those of its arguments, and of the values around it."""
        for operation in region.operations:
            classes = [env.get(name, 0) for name in operation.operands]
            if operation.name in _EXPONENTIALS and classes[0] & NAN:
                self.guarded.add(operation.result)
            env[operation.result] = self.result(operation, classes, env)
        return _union([env.get(name, 0) for name in region.returned])

    def result(self, operation: _Operation, classes: list[int], env: dict[str, int]) -> int:
        """The classes of the results of an operation, from those of its operands."""
        name = operation.name
        if name == "stablehlo.constant":
            return _classes_of(self.constants.get(operation.result))
        if name == "stablehlo.iota":
            return ZERO | POSITIVE
        if operation.callee:
            return self.function(operation.callee, tuple(classes))
        if operation.regions:
            return self.of_regions(operation, classes, env)
        if name in _IN_MEMORY or not classes:
            return 0
        if name in _CHOICES:
            return _union(classes[_CHOICES[name] or slice(None)])
        if _union(classes) & NAN:
            return NAN
        if not all(classes):
            return 0
        is_invalid = any(all(c & bad for c, bad in zip(classes, operands)) for operands in _INVALID.get(name, ()))
        return _ANY | NAN * is_invalid

    def of_regions(self, operation: _Operation, classes: list[int], env: dict[str, int]) -> int:
        """The classes of the result of a loop, a branch or another operation with regions."""
        of_arguments = _union(classes)
        if operation.name == "stablehlo.while":
            of_arguments &= NAN
        while True:
            for region in operation.regions:
                env.update(dict.fromkeys(region.arguments, of_arguments))
            returned = _union([self.region(region, env) for region in operation.regions])
            if operation.name != "stablehlo.while":
                break
            returned &= NAN
            if not returned & ~of_arguments:
                break
            of_arguments |= returned
        if operation.name == "stablehlo.reduce":
            return 0
        return returned | (of_arguments & NAN)


def _union(classes: Sequence[int]) -> int:
    return functools.reduce(operator.or_, classes, 0)


def _classes_of(value: Any) -> int:
    """The classes of the elements of a constant; that of nan for None, which stands for a value that is not known."""
    if value is None:
        return NAN
    array = np.asarray(value)
    if array.dtype.kind in "biu" or np.iscomplexobj(array):
        return POSITIVE
    array = array.astype(np.float64)
    tests = {
        NAN: np.isnan(array), INFINITE: np.isinf(array), ZERO: array == 0, NEGATIVE: array < 0, POSITIVE: array > 0
    }  # fmt: skip
    return _union([kind for kind, elements in tests.items() if np.any(elements)])


def _parsed(text: str) -> tuple[str, _MlirRegion]:
    """The name of a function and its body."""
    header, *lines = text.split("\n")
    named = _FUNCTION.match(header)
    region = _MlirRegion(_VALUE.findall(header))
    _parse(enumerate(lines, 1), region)
    return named[1] if named else "", region


def _parse(lines: Iterator[tuple[int, str]], region: _MlirRegion) -> str:
    """Reads the operations of a region up to the line that ends it, which is returned."""
    for i, line in lines:
        match = _OPERATION.match(line)
        if match is None:
            if line.startswith("^"):
                region.arguments = _VALUE.findall(line)
            elif line.startswith("}"):
                return line
            continue
        operands = _VALUE.findall(match["operands"])
        if match["result"] is None and match["name"].endswith("return"):
            region.returned = operands
            continue
        operation = _Operation(i, match["name"], match["result"] or "", operands)
        if operation.name == "func.call" and (callee := _CALLEE.search(line)):
            operation.callee = callee[1]
        region.operations.append(operation)
        end = line if line.endswith("({") else ""
        while end.endswith("{"):
            operation.regions.append(_MlirRegion([]))
            end = _parse(lines, operation.regions[-1])
    return ""


def _guarded(text: str, results: set[str]) -> str:
    """A function with the exponentials of these names guarded: `select(x == x, exp(x), x)`."""
    if not has_exponentials([text]):
        return text
    out = []
    for line in text.split("\n"):
        match = _OPERATION.match(line)
        if match is None or match["name"] not in _EXPONENTIALS or match["result"] not in results:
            out.append(line)
            continue
        operand_type = _TYPE.search(line)
        floats = operand_type[1] if operand_type else ""
        booleans = _ELEMENT.sub("i1>", floats)
        if booleans == floats:  # float64 and complex numbers, whose code has no such conversion
            out.append(line)
            continue
        result, x = match["result"], match["operands"]
        value, is_number = f"%exp{result}", f"%number{result}"
        out += [
            line.replace(f"%{result} = ", f"{value} = ", 1),
            f'{is_number} = "stablehlo.compare"({x}, {x}) <{{comparison_direction = '
            f"#stablehlo<comparison_direction EQ>}}> : ({floats}, {floats}) -> {booleans}",
            f'%{result} = "stablehlo.select"({is_number}, {value}, {x}) : ({booleans}, {floats}, {floats}) -> {floats}',
        ]
    return "\n".join(out)

"""Programs as data: typed statements that are printed as Python, for either library, and run from that very text.

A statement is a template such as `"jnp.add({0}, {1})"` with the operands' names (or literals) beside it; what it calls
back (the body of a loop, the function that `grad` takes) are functions, which hold statements again. A name stands for
one value in the whole program, so that a statement can be moved, left out or replaced on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

_NAME = re.compile(r"(?<![\w.'])[avxznp]\d+(?!\w)")


@dataclass(frozen=True)
class Type:
    """The type of a value: `weak` as that of a Python scalar is."""

    shape: tuple[int, ...]
    dtype: str
    weak: bool = False

    @property
    def kind(self) -> str:
        """f float, c complex, i signed, u unsigned, b bool."""
        return "f" if "float" in self.dtype else self.dtype[0]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def constant(self) -> str:
        """An expression of this type."""
        if self.weak and not self.shape:
            return {"f": "0.5", "c": "0.5j", "b": "True"}.get(self.kind, "1")
        return f"jnp.full({self.shape}, {0.5 if self.kind in 'fc' else 1}, '{self.dtype}')"


@dataclass(frozen=True)
class Function:
    """What a statement calls back. `opening` unpacks what `signature` names; `closing` is the value that it returns."""

    name: str
    parameters: tuple[str, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    signature: str = ""
    opening: str = ""
    closing: str = ""

    def lines(self) -> list[str]:
        signature = self.signature.format(*self.parameters) if self.signature else ", ".join(self.parameters)
        opening = [self.opening.format(*self.parameters)] if self.opening else []
        closing = self.closing.format(*self.results) if self.closing else ", ".join(self.results)
        body = [*opening, *(line for statement in self.statements for line in statement.lines()), f"return {closing}"]
        return [f"def {self.name}({signature}):", *(f"    {line}" for line in body)]


@dataclass(frozen=True)
class Statement:
    """`target = text`: the operands are {0}, {1} ... of the text and the functions {f0}, {f1} ...; all of its lines but
    the last one stand before the assignment."""

    results: tuple[str, ...]
    text: str
    operands: tuple[str, ...] = ()
    functions: tuple[Function, ...] = ()
    target: str = ""

    def lines(self) -> list[str]:
        named = {f"f{i}": function.name for i, function in enumerate(self.functions)}
        *before, value = self.text.format(*self.operands, **named).split("\n")
        target = self.target.format(*self.results) if self.target else ", ".join(self.results)
        definitions = [line for function in self.functions for line in function.lines()]
        return [*definitions, *before, f"{target} = {value}"]

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names that it takes from outside, those of its functions included."""
        names = {name for x in self.operands for name in _NAME.findall(x)}
        for function in self.functions:
            names |= free_names(function.statements, function.results, function.parameters)
        return frozenset(names)


def free_names(
    statements: tuple[Statement, ...], results: tuple[str, ...], parameters: tuple[str, ...] = ()
) -> set[str]:
    """The names that are read and not defined."""
    names = {name for x in results for name in _NAME.findall(x)}
    for statement in reversed(statements):
        names = (names - set(statement.results)) | statement.reads
    return names - set(parameters)


@dataclass(frozen=True)
class Program:
    """A function of the inputs, each an expression in NumPy, with the types of all of its names."""

    inputs: Mapping[str, str]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    types: Mapping[str, Type] = field(repr=False)
    x64: bool = False

    @cached_property
    def function_text(self) -> str:
        return "\n".join(
            Function("f", tuple(self.inputs), self.statements, self.results, closing=_tuple_of(self)).lines()
        )

    def function(self, library: Any) -> Callable[..., Any]:
        """The program as a function of the library's arrays, which gives a tuple."""
        return compiled(self.function_text, library)["f"]

    def values(self) -> list[Any]:
        """The inputs: NumPy arrays and Python scalars."""
        return [eval(text, {"np": np}) for text in self.inputs.values()]

    def all_statements(self) -> Iterator[Statement]:
        yield from _all_statements(self.statements)

    def source(self, library: str = "xpr") -> str:
        """The program as a file that runs."""
        inputs = "\n".join(f"{name} = {text}" for name, text in self.inputs.items())
        call = f"print(f(*map(jnp.asarray, [{', '.join(self.inputs)}])))"
        x64 = "with lib.enable_x64(True):\n    " if self.x64 else ""
        return (
            f"import numpy as np\nimport {library} as lib\nimport {library}.numpy as jnp\n"
            f"from {library} import lax\n\n\n{self.function_text}\n\n\n{inputs}\n{x64}{call}\n"
        )

    def with_results(self, *results: str) -> Program:
        return replace(self, results=results)


def _tuple_of(program: Program) -> str:
    return "(" + "".join(f"{name}, " for name in program.results).rstrip() + ")"


def _all_statements(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        for function in statement.functions:
            yield from _all_statements(function.statements)


def compiled(text: str, library: Any) -> dict[str, Any]:
    """The names that a text defines, which reads `lib`, `jnp` and `lax` of a library."""
    names = {"np": np, "lib": library, "jnp": library.numpy, "lax": library.lax}
    exec(compile(text, "<fuzz>", "exec"), names)
    return names

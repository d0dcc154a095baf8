"""A program as tables: jaxprs, equations, variables, types and source lines, numbered and ready to be written as JSON.

Each jaxpr is there once, however often it is called, so the tables are as large as the program and not as its calls
written out. Names are those of the printed text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs, used_vars
from xpr.core.lines import with_lines
from xpr.core.primitive import cache_key
from xpr.core.source import Source, line_number, operation_of, text_of
from xpr.inspect.communication import sent_by_equation
from xpr.inspect.weights import live_bytes, weigh
from xpr.primitives.communication import shard_bytes
from xpr.text.literals import literal_text
from xpr.text.parameters import parameter_text
from xpr.text.printer import _Names

Table = list[Any]


def inner_jaxprs(value: Any) -> Iterator[Jaxpr]:
    """The jaxprs in a parameter."""
    for item in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(item, (Jaxpr, ClosedJaxpr)):
            yield item.jaxpr if isinstance(item, ClosedJaxpr) else item


def all_jaxprs(jaxpr: Jaxpr) -> list[Jaxpr]:
    """A jaxpr and those inside it, each once, outer ones first."""
    jaxprs: dict[int, Jaxpr] = {id(jaxpr): jaxpr}
    pending = [jaxpr]
    while pending:
        for eqn in pending.pop().eqns:
            for inner in subjaxprs(eqn):
                if id(inner) not in jaxprs:
                    jaxprs[id(inner)] = inner
                    pending.append(inner)
    return list(jaxprs.values())


class _Index:
    """Numbers for things, in order of first appearance."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.numbers: dict[Any, int] = {}

    def __call__(self, item: Any) -> int:
        number = self.numbers.get(item)
        if number is None:
            number = self.numbers[item] = len(self.items)
            self.items.append(item)
        return number


class Tables:
    """The data of one program for a page.

    An operand is the number of a variable, or -1 less the number of a literal. A parameter is a pair of its name and
    its text, or its name and the list of the jaxprs it holds. `seconds` are measured times of equations, by their `id`.
    """

    def __init__(self, jaxpr: Jaxpr | ClosedJaxpr, seconds: dict[int, float] | None = None):
        self.seconds = seconds
        self.root = with_lines(jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr)
        self.nested = all_jaxprs(self.root)
        self.sent = sent_by_equation(self.root)
        self.name = _Names(set().union(*map(used_vars, self.nested)))
        self.types, self.primitives, self.literals = _Index(), _Index(), _Index()
        self.plain_sets: dict[Any, int] = {}  # parameters that hold no jaxpr
        self.sources: dict[Any, int] = {}
        self.source_lines = _Index()  # file, line, function, the line's text, and whether it is a cotangent's
        self.parameter_sets: Table = []
        self.texts: dict[Any, str] = {}
        self.names: Table = []
        self.var_types: list[int] = []
        self.type_bytes: list[int] = []
        self.var_numbers: dict[Var, int] = {}
        self.jaxpr_numbers: dict[int, int] = {}
        self.jaxprs: Table = []
        self.eqns: Table = []
        self._add(self.root)

    def number_of(self, jaxpr: Jaxpr) -> int:
        return self.jaxpr_numbers[id(jaxpr)]

    def text_of(self, atom: int) -> str:
        return self.names[atom] if atom >= 0 else self.literals.items[-1 - atom][0]

    def typed(self, atom: int) -> str:
        """`a:f32[3]`."""
        kind = self.types.items[self.var_types[atom]] if atom >= 0 else self.literals.items[-1 - atom][1]
        return f"{self.text_of(atom)}:{kind}"

    def as_data(self) -> dict[str, Any]:
        return {
            "jaxprs": self.jaxprs,
            "eqns": self.eqns,
            "names": self.names,
            "varTypes": self.var_types,
            "types": self.types.items,
            "typeBytes": self.type_bytes,
            "literals": self.literals.items,
            "primitives": self.primitives.items,
            "params": self.parameter_sets,
            "sources": self.source_lines.items,
        }

    def _add(self, jaxpr: Jaxpr) -> int:
        """The number of a jaxpr, which is written on first sight: binders, equations, results, as in print."""
        if id(jaxpr) in self.jaxpr_numbers:
            return self.jaxpr_numbers[id(jaxpr)]
        number = self.jaxpr_numbers[id(jaxpr)] = len(self.jaxprs)
        self.jaxprs.append(None)
        constants, arguments = [[self._var(v) for v in group] for group in (jaxpr.constvars, jaxpr.invars)]
        live = live_bytes(jaxpr)
        eqns = [self._equation(eqn, alive) for eqn, alive in zip(jaxpr.eqns, live)]
        first = len(self.eqns)
        self.eqns.extend(eqns)
        self.jaxprs[number] = [constants, arguments, [self._atom(v) for v in jaxpr.outvars], first, len(eqns)]
        return number

    def _equation(self, eqn: JaxprEqn, alive: int) -> Table:
        operands = [self._atom(v, eqn.invars, eqn.outvars) for v in eqn.invars]
        results = [self._var(v, v in self.name.used) for v in eqn.outvars]
        flops, moved = weigh(eqn)
        return [
            self.primitives(eqn.primitive.name),
            operands,
            results,
            self._params(eqn),
            self._line_number(eqn.source),
            flops,
            moved,
            alive,
            round(self.sent.get(id(eqn), 0)),
            *([] if self.seconds is None else [self.seconds.get(id(eqn), 0.0)]),
        ]

    def _atom(self, atom: Any, operands: Sequence[Any] = (), results: Sequence[Any] = ()) -> int:
        if type(atom) is Literal:
            return -1 - self.literals((literal_text(atom, operands, results), atom.aval.str_short()))
        return self._var(atom)

    def _var(self, var: Var, named: bool = True) -> int:
        number = self.var_numbers.get(var)
        if number is None:
            number = self.var_numbers[var] = len(self.names)
            self.names.append(self.name(var) if named else "_")
            kind = self.types(var.aval.str_short())
            if kind == len(self.type_bytes):
                self.type_bytes.append(shard_bytes(var.aval))
            self.var_types.append(kind)
        return number

    def _params(self, eqn: JaxprEqn) -> int:
        if not eqn.params:
            return -1
        if any(True for _ in subjaxprs(eqn)):
            self.parameter_sets.append([[key, self._parameter(value)] for key, value in sorted(eqn.params.items())])
            return len(self.parameter_sets) - 1
        pairs = tuple([(key, self._text(eqn.params[key])) for key in sorted(eqn.params)])
        number = self.plain_sets.get(pairs)
        if number is None:
            number = self.plain_sets[pairs] = len(self.parameter_sets)
            self.parameter_sets.append(pairs)
        return number

    def _parameter(self, value: Any) -> Any:
        items = value if isinstance(value, (tuple, list)) else (value,)
        if any(True for _ in inner_jaxprs(value)):
            inner = [item.jaxpr if isinstance(item, ClosedJaxpr) else item for item in items]
            return [self._add(each) if isinstance(each, Jaxpr) else parameter_text(each) for each in inner]
        return self._text(value)

    def _text(self, value: Any) -> str:
        try:
            key = cache_key(value)
            known = self.texts.get(key)
            if known is None:
                known = self.texts[key] = parameter_text(value)
            return known
        except TypeError:  # it can't be hashed
            return parameter_text(value)

    def _line_number(self, source: Source | None) -> int:
        if source is None:
            return -1
        number = self.sources.get(source)
        if number is None:
            code, line = source[0], line_number(source)
            line_data = (os.path.basename(code.co_filename), line, code.co_name, text_of(source), operation_of(source))
            number = self.sources[source] = self.source_lines(line_data)
        return number

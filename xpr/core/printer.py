"""Text of jaxprs, as in JAX's documents.

A document is laid out in the manner of Wadler's "A prettier printer": a group goes on one line where it fits in the
width, and is broken at its own breaks where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xpr.core import jaxpr as language
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import Primitive

WIDTH = 80

# -- Documents: a str, or one of these.


class _Break:
    """A space, or a new line where its group is broken; `text` is what stands there on one line."""

    __slots__ = ("text",)

    def __init__(self, text: str = " "):
        self.text = text


class _Nest:
    __slots__ = ("indent", "doc")

    def __init__(self, indent: int, doc: Any):
        self.indent, self.doc = indent, doc


class _Group:
    """Laid out on one line if that fits. `flat_width` is worked out once, bottom up."""

    __slots__ = ("doc", "width")

    def __init__(self, doc: Any):
        self.doc = doc
        self.width = _flat_width(doc)


def _flat_width(doc: Any) -> int:
    if isinstance(doc, str):
        return len(doc)
    if isinstance(doc, _Break):
        return len(doc.text)
    if isinstance(doc, list):
        return sum(map(_flat_width, doc))
    return doc.width if isinstance(doc, _Group) else _flat_width(doc.doc)


def _layout(doc: Any, width: int) -> str:
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Any]] = [(0, False, doc)]  # indent, broken, document
    while stack:
        indent, broken, doc = stack.pop()
        if isinstance(doc, str):
            out.append(doc)
            column += len(doc)
        elif isinstance(doc, list):
            stack.extend((indent, broken, part) for part in reversed(doc))
        elif isinstance(doc, _Nest):
            stack.append((indent + doc.indent, broken, doc.doc))
        elif isinstance(doc, _Group):
            stack.append((indent, column + doc.width > width, doc.doc))
        elif broken:
            out.append("\n" + " " * indent)
            column = indent
        else:
            out.append(doc.text)
            column += len(doc.text)
    return "".join(out)


def _join(separator: Any, docs: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for index, doc in enumerate(docs):
        if index:
            joined.append(separator)
        joined.append(doc)
    return joined


# -- Names: a, b, ..., z, ba, bb, ... in order of first appearance, running on into nested jaxprs.


class _Names:
    def __init__(self, used: set[Var]):
        self.names: dict[Var, str] = {}
        self.used = used

    def __call__(self, atom: Any) -> str:
        if isinstance(atom, Literal):
            return literal_text(atom)
        if isinstance(atom, DropVar):
            return "_"
        if atom not in self.names:
            self.names[atom] = letters(len(self.names)) + "_" * isinstance(atom, FillerVar)
        return self.names[atom]

    def bind(self, var: Var) -> str:
        """A binder in an equation: its name and type, `_` where nothing reads it."""
        name = self(var) if var in self.used else "_"
        return f"{name}:{var.aval.str_short()}"

    def argument(self, var: Var) -> str:
        return f"{self(var)}:{var.aval.str_short()}"


def letters(index: int) -> str:
    """0 is a, 25 is z, 26 is ba: the digits of `index` in base 26."""
    digits = ""
    while True:
        index, digit = divmod(index, 26)
        digits = chr(ord("a") + digit) + digits
        if not index:
            return digits


def literal_text(literal: Literal) -> str:
    value = np.asarray(literal.val)
    if value.dtype.kind == "V" or value.dtype.kind not in "biufc":
        return str(value.astype(np.float32)) if value.dtype.kind in "Vf" else str(value)
    return str(value)


# -- Jaxprs


def _all_used(jaxpr: Jaxpr, used: set[Var]) -> set[Var]:
    used |= language.used_vars(jaxpr)
    for eqn in jaxpr.eqns:
        for inner in language.subjaxprs(eqn):
            _all_used(inner, used)
    return used


def _document(jaxpr: Jaxpr, name: _Names) -> Any:
    constants = " ".join(map(name.argument, jaxpr.constvars))
    arguments = " ".join(map(name.argument, jaxpr.invars))
    header = f"{{ lambda {constants}; {arguments}. let"
    eqns = [_equation(eqn, name) for eqn in jaxpr.eqns]
    outs = ", ".join(map(name, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
    body = [_Nest(2, [_Break(), *_join(_Break("; "), eqns)])] if eqns else []
    return _Group([_Nest(2, [header, *body, _Break(), f"in ({outs}) }}"])])


def _equation(eqn: JaxprEqn, name: _Names) -> Any:
    operands = [" " + name(atom) for atom in eqn.invars]
    binders = " ".join(map(name.bind, eqn.outvars))
    params = _parameters(eqn.params, name)
    return [binders, " = " if binders else "= ", eqn.primitive.name, params, "".join(operands)]


def _parameters(params: dict[str, Any], name: _Names) -> Any:
    if not params:
        return ""
    pairs = [[f"{key}=", _value(value, name)] for key, value in sorted(params.items())]
    return _Group(["[", _Nest(2, [_Break(""), *_join(_Break(), pairs)]), _Break(""), "]"])


def _value(value: Any, name: _Names) -> Any:
    if isinstance(value, ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        return _document(value, name)
    if isinstance(value, (tuple, list)) and any(isinstance(item, (Jaxpr, ClosedJaxpr)) for item in value):
        return _Group(["(", _Nest(2, [_Break(), *_join(_Break(), [_value(v, name) for v in value])]), _Break(), ")"])
    return parameter_text(value)


def parameter_text(value: Any) -> str:
    """How a parameter that holds no jaxpr is written."""
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, ShapedArray):
        return value.str_short()
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        inner = ", ".join(repr(item) if type(item) is str else parameter_text(item) for item in value)
        inner += "," if len(value) == 1 and type(value) is tuple else ""
        return f"({inner})" if type(value) is tuple else f"[{inner}]"
    if isinstance(value, (Primitive, str)):
        return str(value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return str(value)


def pformat(jaxpr: Jaxpr | ClosedJaxpr, width: int = WIDTH) -> str:
    """The text of a jaxpr, broken to fit `width` columns where it can."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return _layout(_document(inner, _Names(_all_used(inner, set()))), width)


def format_eqns(jaxpr: Jaxpr) -> Iterator[tuple[JaxprEqn, str]]:
    """The equations of a jaxpr, each with its text, named as in the text of the whole."""
    name = _Names(_all_used(jaxpr, set()))
    for var in [*jaxpr.constvars, *jaxpr.invars]:
        name(var)
    for eqn in jaxpr.eqns:
        yield eqn, _layout(_equation(eqn, name), WIDTH)


def format_eqn(eqn: JaxprEqn) -> str:
    """One equation by itself, named from `a`."""
    name = _Names(set(eqn.outvars))
    for var in eqn.invars:
        name(var)
    return _layout(_equation(eqn, name), WIDTH)


language._printer.update(jaxpr=pformat, eqn=format_eqn)

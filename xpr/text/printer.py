"""Text of jaxprs, as in JAX's documents: `{ lambda constants ; arguments. let equations in (results) }`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core import jaxpr as language
from xpr.core.avals import describe
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, Literal, UnitVar, Var, require_jaxpr
from xpr.core.lines import with_lines
from xpr.core.source import name_stack, summarize, text_of
from xpr.text.explicit import mesh_of_jaxpr, mesh_text
from xpr.text.layout import Break, Comment, Group, Mark, Nest, Styled, layout, separated
from xpr.text.literals import literal_text
from xpr.text.parameters import jaxprs_in, parameter_text, parts_of, primitive_text
from xpr.text.untyped import untyped_text

WIDTH = 80

# -- Names: a, b, ..., z, ba, bb, ... in order of first appearance, running on into nested jaxprs.

_RESERVED = frozenset({"in", "let", "nan", "inf", "lambda"})


class _Names:
    def __init__(self, used: set[Var]):
        self.names: dict[Var, str] = {}
        self.used = used
        self.next = 0

    def __call__(self, var: Var) -> str:
        if var in self.names:
            return self.names[var]
        if isinstance(var, (DropVar, UnitVar)):
            return repr(var)
        while letters(self.next) in _RESERVED:
            self.next += 1
        name = self.names[var] = letters(self.next) + "_" * isinstance(var, FillerVar)
        self.next += 1
        return name

    def bound(self, var: Var) -> str:
        """The name of a result of an equation: `_` if it is unused."""
        return self(var) if var in self.used else "_"


def letters(index: int) -> str:
    """0 is a, 25 is z, 26 is ba: the digits of `index` in base 26."""
    digits = ""
    while True:
        index, digit = divmod(index, 26)
        digits = chr(ord("a") + digit) + digits
        if not index:
            return digits


# -- Styles: how a keyword, a type, a primitive and the name of a parameter are shown.

_COLORS = {"keyword": "1;34", "type": "35", "primitive": "1;32", "parameter": "36"}


def _plain(text: str, what: str) -> Any:
    return text


def _colored(text: str, what: str) -> Any:
    return Styled(text, _COLORS[what])


# -- Documents


class _JaxprWriter:
    """Makes the documents of jaxprs; `style` shows words of each sort, `comment` gives the comment of an equation.

    `marks` gives what stands before an equation to find its place.
    """

    def __init__(
        self,
        used: set[Var],
        style: Callable[[str, str], Any] = _plain,
        comment: Callable[[JaxprEqn], str] = lambda eqn: "",
        marks: Callable[[JaxprEqn], Sequence[Mark]] = lambda eqn: (),
    ):
        self.name, self.style, self.comment, self.marks = _Names(used), style, comment, marks
        self.mesh: Any = None  # the mesh of the types of the jaxpr that is written

    def jaxpr(self, jaxpr: Jaxpr) -> Any:
        constants = separated(" ", [self.binder(v, self.name(v)) for v in jaxpr.constvars])
        arguments = separated(" ", [self.binder(v, self.name(v)) for v in jaxpr.invars])
        keyword, outer_mesh = self.style, self.mesh
        self.mesh = mesh_of_jaxpr(jaxpr) or outer_mesh
        header = [
            "{ ",
            keyword("lambda", "keyword"),
            " " if self.mesh is outer_mesh else f"[{mesh_text(self.mesh)}] ",
            *constants,
            "; ",
            *arguments,
            ". ",
            keyword("let", "keyword"),
        ]
        eqns = [self.equation(eqn) for eqn in jaxpr.eqns]
        self.mesh = outer_mesh
        outs = ", ".join(map(self.atom, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
        body = [Nest(2, [Break(), *separated(Break("; "), eqns)])] if eqns else []
        return Group([Nest(2, [*header, *body, Break(), keyword("in", "keyword"), f" ({outs}) }}"])])

    def binder(self, var: Var, name: str) -> Any:
        if isinstance(var, UnitVar):
            return name
        if self.style is _plain:
            return f"{name}:{var.aval.str_short()}"
        return [f"{name}:", self.style(var.aval.str_short(), "type")]

    def atom(self, atom: Any) -> str:
        return literal_text(atom) if isinstance(atom, Literal) else self.name(atom)

    def equation(self, eqn: JaxprEqn) -> Any:
        operands = [
            f" {literal_text(atom, eqn.invars, eqn.outvars) if isinstance(atom, Literal) else self.name(atom)}"
            for atom in eqn.invars
        ]
        binders = separated(" ", [self.binder(v, self.name.bound(v)) for v in eqn.outvars])
        head = [*binders, " = " if binders else "= ", self.style(primitive_text(eqn.primitive.name), "primitive")]
        text = self.comment(eqn)
        comment = [Comment(text)] if text else []
        return [*self.marks(eqn), *head, *comment, self.parameters(eqn.params), "".join(operands)]

    def parameters(self, params: dict[str, Any]) -> Any:
        if not params:
            return ""
        pairs = [[self.style(key, "parameter"), "=", self.value(value)] for key, value in sorted(params.items())]
        return Group(["[", Nest(2, [Break(""), *separated(Break(), pairs)]), Break(""), "]"])

    def value(self, value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if any(jaxprs_in(value)):
            parts = parts_of(value)
            if parts is None:
                opening, items = "(", [self.value(item) for item in value]  # type: ignore[union-attr]
            else:
                opening = f"{type(value).__name__}("
                items = [[f"{name}=", self.value(item)] for name, item in parts.items()]
            return Group([opening, Nest(2, [Break(), *separated(Break(), items)]), Break(), ")"])
        return parameter_text(value)


def _line(eqn: JaxprEqn) -> str:
    if eqn.source is None:
        return ""
    line = text_of(eqn.source)
    return summarize(eqn.source) + (f": {line}" if line else "")


def _name_stack(eqn: JaxprEqn) -> str:
    return f"[{name_stack(eqn.source)}]"


def _comments(source: bool, names: bool) -> Callable[[JaxprEqn], str]:
    """The function that gives the comment of an equation: its name scopes, its source line, both or nothing."""
    parts = [part for part, wanted in ((_name_stack, names), (_line, source)) if wanted]
    return lambda eqn: " ".join(filter(None, (part(eqn) for part in parts)))


# -- Whole texts


def _all_used(jaxpr: Jaxpr, used: set[Var]) -> set[Var]:
    used |= language.used_vars(jaxpr)
    for eqn in jaxpr.eqns:
        for param in eqn.params.values():
            for inner in jaxprs_in(param):
                _all_used(inner, used)
    return used


def pformat(
    jaxpr: Jaxpr | ClosedJaxpr,
    *,
    types: bool = True,
    source: bool = False,
    names: bool = False,
    color: bool = False,
    width: int | None = None,
) -> str:
    """The text of a jaxpr.

    Args:
      jaxpr: the program; the values of its constants are not shown.
      types: whether variables are shown with their types. Without them the text is laid out as JAX did in 2020, with
        one parameter in a line, at any width, and it can't be read back.
      source: whether the user's line is written behind each equation.
      names: whether the names of the scopes around each equation are written behind it, see `xpr.named_scope`; those
        of equations of an inner jaxpr are the scopes within it.
      color: whether keywords, types, primitives and names of parameters are coloured, by ANSI escape sequences.
      width: the columns to fit in where that can be done; 80 by default.

    Returns:
      The text.

    Raises:
      TypeError: `jaxpr` is not a jaxpr, or `width` not a number.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x: xpr.lax.sin(x) * 2.0)(1.0)
    >>> print(closed.pformat(types=False))
    { lambda  ; a.
      let b = sin a
          c = mul b 2.0
      in (c,) }
    """
    inner = require_jaxpr("pformat", jaxpr)
    inner = with_lines(inner) if source else inner
    if width is not None and not isinstance(width, (int, float)):
        raise TypeError(f"pformat: width is a number of columns, and is {describe(width)}.")
    if not types:
        return untyped_text(inner, _Names, _comments(source, names))
    writer = _JaxprWriter(_all_used(inner, set()), _colored if color else _plain, _comments(source, names))
    return layout(writer.jaxpr(inner), WIDTH if width is None else width)


def text_and_positions(jaxpr: Jaxpr) -> tuple[str, list[tuple[int, int, JaxprEqn]]]:
    """The text of a jaxpr, and the line and column at which each equation begins, counted from 0."""
    writer = _JaxprWriter(_all_used(jaxpr, set()), marks=lambda eqn: [Mark(eqn)])
    positions: list[tuple[int, int, JaxprEqn]] = []
    return layout(writer.jaxpr(jaxpr), WIDTH, positions), positions


def eqns_and_names(jaxpr: Jaxpr, variables: Sequence[Var]) -> tuple[list[tuple[JaxprEqn, str]], list[str]]:
    """The equations of a jaxpr, each with its text, and the names that these variables have there."""
    writer = _JaxprWriter(_all_used(jaxpr, set()))
    for var in [*jaxpr.constvars, *jaxpr.invars]:
        writer.name(var)
    eqns = [(eqn, layout(writer.equation(eqn), WIDTH)) for eqn in jaxpr.eqns]
    return eqns, list(map(writer.name, variables))


def format_eqn(eqn: JaxprEqn) -> str:
    """The text of one equation by itself, whose variables are named from `a`."""
    writer = _JaxprWriter(set(eqn.outvars))
    for var in eqn.invars:
        writer.atom(var)
    return layout(writer.equation(eqn), WIDTH)


language.text_hooks.update(jaxpr=pformat, eqn=format_eqn, eqns_and_names=eqns_and_names)

"""Scopes of dimension variables, with the user's constraints; shapes from text."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from xpr.dimensions.bounds import Bounds, Unsatisfiable, bounds_of
from xpr.dimensions.expressions import OPERATIONS, DimExpr, Factor, Term, max_dim, min_dim, normal, operation, variable
from xpr.errors import InconclusiveDimensionOperation


class SymbolicScope:
    """What dimension variables belong to; those of different scopes can't be in one expression, or one program.

    Args:
      constraints_str: what holds of the variables: `"a >= b"`, `"a <= 8"`, or `"a * b == c"`. The left side of an
        equality is a term, which is replaced by the right side wherever it occurs.

    Raises:
      ValueError: a constraint can't be read, or the constraints contradict each other.

    >>> from xpr import export
    >>> scope = export.SymbolicScope(["a >= 8"])
    >>> a, = export.symbolic_shape("a", scope=scope)
    >>> a >= 5
    True
    """

    def __init__(self, constraints_str: Sequence[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(f"Constraints are a sequence of texts, and are {constraints_str!r}.")
        self.constraints: tuple[str, ...] = ()
        self.inequalities: list[tuple[str, Any]] = []  # of expressions with 0
        self.rules: dict[Term, tuple[int, Any]] = {}  # n * term == expression
        self._bounds: dict[DimExpr, Bounds] = {}
        for text in constraints_str:
            self._add(text)

    def __repr__(self) -> str:
        return f"SymbolicScope({list(self.constraints)})" if self.constraints else f"<SymbolicScope at {id(self):#x}>"

    def _add(self, text: str) -> None:
        match = re.fullmatch(r"(.*?)(==|>=|<=)(.*)", text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"A constraint is two dimensions with '==', '>=' or '<=' between them, and is {text!r}.")
        left, right = [read_dimension(part.strip(), self) for part in (match[1], match[3])]
        kind = match[2]
        difference = right - left if kind == "<=" else left - right
        if not isinstance(difference, DimExpr):
            if difference < 0 or (kind == "==" and difference):
                raise ValueError(f"The constraint {text!r} holds for no values.")
            return
        self.constraints += (text,)
        self.inequalities.append(("==" if kind == "==" else ">=", difference))
        self._bounds.clear()
        try:
            bounds_of(difference, self.inequalities)
        except Unsatisfiable as error:
            raise ValueError(f"The constraint {text!r} holds for no values that satisfy the others: {error}.") from None
        if kind == "==":
            self._add_rule(text, left, right)

    def _add_rule(self, text: str, left: Any, right: Any) -> None:
        if not isinstance(left, DimExpr) or len(left.terms) > 1:
            raise ValueError(f"The left side of an equality is one term, such as 'a*b' or '4*a', and not in {text!r}.")
        ((term, n),) = left.terms
        if term in self.rules:
            raise NotImplementedError(f"There are several equalities with the left side {term}.")
        self.rules[term] = n, right
        factor = term.factor
        if (
            n == 1
            and right == 0
            and factor
            and factor.operation == "mod"
            and not isinstance(factor.operands[1], DimExpr)
        ):
            x, divisor = factor.operands  # then x is a multiple of it, and of its negative
            for y in (divisor, -divisor):
                quotient, remainder = (Term([(Factor("", name, (x, y)), 1)]) for name in ("floordiv", "mod"))
                self.rules.setdefault(quotient, (y, x))
                self.rules.setdefault(remainder, (1, 0))

    def rewritten(self, sums: dict[Term, int]) -> dict[Term, int] | None:
        """A sum in which one of the equalities has replaced a term; None where none applies."""
        for term, n in sums.items():
            for left, (count, right) in self.rules.items():
                quotient = term.over(left)
                if n and quotient is not None and n % count == 0:
                    changed = {t: m for t, m in sums.items() if t != term}
                    factor = normal({quotient: n // count}, _WITHOUT_RULES) if quotient.factors else n // count
                    part = factor * right
                    for t, m in part.terms if isinstance(part, DimExpr) else ((Term(()), part),):
                        changed[t] = changed.get(t, 0) + m
                    return changed
        return None

    def replaced(self) -> dict[str, Any]:
        """The expressions that replace variables which are the left side of an equality."""
        factors = ((term.factor, n, right) for term, (n, right) in self.rules.items())
        return {factor.variable: right for factor, n, right in factors if factor and factor.variable and n == 1}

    def inconclusive(self, dimension: DimExpr, message: str) -> Exception:
        """The error where the value of a dimension has to be known."""
        return InconclusiveDimensionOperation(message)

    def bounds(self, expression: DimExpr) -> Bounds:
        """The least and the greatest value of an expression, as far as they are known."""
        if expression not in self._bounds:
            self._bounds[expression] = bounds_of(expression, self.inequalities)
        return self._bounds[expression]

    def check_same(self, dimension: DimExpr, when: str, from_argument: str = "", argument: str = "") -> None:
        """Raises ValueError if a dimension is of another scope.

        Args:
          dimension: the dimension.
          when: what is done with it, for the message.
          from_argument: the argument that has this scope; "" where it is not of an argument.
          argument: the argument that has the dimension.
        """
        if dimension.scope is not self:
            source, place = f"(from {from_argument}) " * bool(from_argument), f"({argument}) " * bool(argument)
            raise ValueError(
                f"Invalid mixing of symbolic scopes {when}. Expected current {source}scope {self._described()}, "
                f"as before, and found for '{dimension}' {place}scope {dimension.scope._described()}. Make all "
                "dimensions by one call of symbolic_shape, or with one scope=."
            )

    def _described(self) -> str:
        return hex(id(self)) + (f" with constraints {', '.join(self.constraints)}" if self.constraints else "")


class _WithoutRules(SymbolicScope):
    """A scope in which nothing is rewritten, and which mixes with others."""

    def check_same(self, dimension: DimExpr, when: str, from_argument: str = "", argument: str = "") -> None:
        return


_WITHOUT_RULES = _WithoutRules()


# -- Text

_TOKEN = re.compile(r"\s*(?:(\d+)|(\.\.\.)|([^\W\d]\w*)|(.))")


class _Reader:
    """Reads dimensions: sums of products of powers of variables, numbers, and operations in the form of calls."""

    def __init__(self, text: str, scope: Any, what: str):
        self.text, self.scope, self.what = text, scope, what
        self.tokens = [match for match in _TOKEN.finditer(text) if match[0].strip()]
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position][0].strip() if self.position < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def accept(self, *tokens: str) -> str:
        return self.next() if self.peek() in tokens and self.peek() else ""

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r}")

    def error(self, why: str) -> ValueError:
        at = self.tokens[self.position].start() if self.position < len(self.tokens) else len(self.text)
        found = repr(self.peek()) if self.peek() else "the end"
        return ValueError(
            f"{self.what} {self.text!r} can't be read: {why}, and found {found} after {self.text[:at]!r}."
        )

    def sum(self) -> Any:
        sign = -1 if self.accept("-", "+") == "-" else 1
        total = sign * self.product()
        while kind := self.accept("+", "-"):
            total = total + self.product() if kind == "+" else total - self.product()
        return total

    def product(self) -> Any:
        total = self.power()
        while self.accept("*"):
            total = total * self.power()
        return total

    def power(self) -> Any:
        base = self.factor()
        return base ** self.integer(below=1000) if self.accept("^") else base

    def integer(self, below: int = 2**63) -> int:
        if not self.peek().isdecimal() or len(self.peek()) > 19 or int(self.peek()) >= below:
            raise self.error(f"expected an integer{' below 1000' if below == 1000 else ''}")
        return int(self.next())

    def factor(self) -> Any:
        if self.accept("-"):
            return -self.integer()
        name = self.peek()
        if name.isdecimal():
            return self.integer()
        if name == "_" or not name.isidentifier():
            raise self.error("expected a dimension variable or an integer")
        self.next()
        if name not in OPERATIONS:
            return variable(name, self.scope)
        self.expect("(")
        x = self.sum()
        self.expect(",")
        y = self.sum()
        self.expect(")")
        if name in ("max", "min"):
            return (max_dim if name == "max" else min_dim)(x, y)
        if isinstance(y, int) and y == 0:
            raise self.error("expected a divisor that is not zero")
        if isinstance(x, DimExpr) or isinstance(y, DimExpr):
            return operation(name, x, y, self.scope)
        return x // y if name == "floordiv" else x % y


def read_dimension(text: str, scope: SymbolicScope) -> Any:
    """The dimension of a text.

    Raises:
      ValueError: it can't be read.
    """
    reader = _Reader(text, scope, "The dimension")
    value = reader.sum()
    if reader.peek():
        raise reader.error("expected the end")
    return value


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """The shape of a text, whose dimensions may be symbolic.

    Args:
      shape_spec: dimensions with commas between them: integers, variables, sums, products, powers (`a^2`),
        `floordiv(a, 2)`, `mod(a, 2)`, `max(a, b)`, `min(a, b)`; `_` is the dimension of `like` at the same index,
        and `...` all further ones. None means `...`.
      constraints: what holds of the variables, as for `SymbolicScope`.
      scope: the scope of the variables; None for a new one with these constraints.
      like: a shape for placeholders, and for constants to be compared with.

    Returns:
      A tuple of integers and symbolic dimensions.

    Raises:
      TypeError: `scope` is no SymbolicScope.
      ValueError: the text can't be read, a constant is another one than in `like`, a placeholder has nothing to stand
        for, or both constraints and a scope are given.

    >>> from xpr import export
    >>> a, b, n = export.symbolic_shape("a, b, 4*a")
    >>> n + b - a, n // 4 == a, a >= 1
    (b + 3*a, True, True)
    """
    text = "..." if shape_spec is None else shape_spec
    if not isinstance(text, str):
        raise ValueError(f"A symbolic shape is a text or None, and is {shape_spec!r}.")
    if scope is not None and constraints:
        raise ValueError("Give symbolic_shape constraints for a new scope, or a scope, which has its own; not both.")
    if scope is not None and not isinstance(scope, SymbolicScope):
        raise TypeError(f"symbolic_shape: scope is a SymbolicScope, and is {scope!r}.")
    scope = SymbolicScope(constraints) if scope is None else scope
    reader = _Reader(text, scope, "The symbolic shape")
    parenthesized = bool(reader.accept("("))
    dimensions: list[Any] = []
    while reader.peek() not in ("", ")"):
        if reader.peek() in ("_", "..."):
            dimensions += _placeholder(reader, len(dimensions), like)
        else:
            dimensions.append(_checked(reader, reader.sum(), len(dimensions), like))
        if reader.peek() not in ("", ")"):
            reader.expect(",")
    if parenthesized:
        reader.expect(")")
    if reader.peek():
        raise reader.error("expected the end")
    if like is not None and len(like) != len(dimensions):
        raise ValueError(f"The symbolic shape {text!r} has {len(dimensions)} dimensions, and `like` is {tuple(like)}.")
    return tuple(dimensions)


def _placeholder(reader: _Reader, position: int, like: Sequence[int | None] | None) -> list[Any]:
    if like is None:
        raise reader.error("a placeholder needs a shape `like`")
    if reader.peek() == "...":
        sizes = list(like[position:])
    elif position < len(like):
        sizes = [like[position]]
    else:
        raise reader.error(f"`like` has only {len(like)} dimensions")
    if None in sizes:
        raise reader.error(f"the dimension is not known in `like`, {tuple(like)}")
    reader.next()
    return sizes


def _checked(reader: _Reader, dimension: Any, position: int, like: Sequence[int | None] | None) -> Any:
    known = like[position] if like is not None and position < len(like) else None
    if (
        known is not None
        and not isinstance(dimension, DimExpr)
        and not isinstance(known, DimExpr)
        and known != dimension
    ):
        raise reader.error(f"dimension {position} is {known} in `like`, and not {dimension}")
    return dimension


# -- Dimensions among the parameters of jaxprs, read from text


class _Reading(threading.local):
    scope: SymbolicScope | None = None


_reading = _Reading()


def begin_reading() -> SymbolicScope:
    """A new scope, for the dimensions of one program that this thread reads from text."""
    _reading.scope = SymbolicScope()
    return _reading.scope


def dimension_of_text(dim: str) -> Any:
    """The dimension that a parameter of the program is that is being read."""
    return read_dimension(dim, _reading.scope or begin_reading())

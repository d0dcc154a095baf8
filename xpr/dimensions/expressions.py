"""Dimension expressions: polynomials with integer coefficients over dimension variables, floordiv, mod, max and min.

    2*a*b + floordiv(c, 4) - 1

is a sum of terms with coefficients, where a term is a product of powers of factors, and a factor a variable or an
operation. Terms stand in descending order, of their size and then of their text, which makes equal expressions have one
form; an expression without variables is a Python integer. Comparisons are decided by the bounds of a difference, which
the scope of the variables computes (bounds.py). Operations with anything but integers make the dimension an array.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from xpr.errors import UnexpectedDimVar

OPERATIONS = ("floordiv", "mod", "max", "min")
as_array: list[Callable[[Any], Any]] = []  # how a dimension becomes an array; set by primitives/dimension_values.py


class Factor:
    """A dimension variable, or an operation on expressions."""

    __slots__ = ("key", "operands", "operation", "variable")

    def __init__(self, variable: str = "", operation: str = "", operands: tuple[Any, ...] = ()):
        self.variable, self.operation, self.operands = variable, operation, operands
        keys = [_key(each) for each in operands]
        self.key: Any = (1 + sum(key[0] for key in keys), variable, operation, tuple(keys))

    def __str__(self) -> str:
        return self.variable or f"{self.operation}({', '.join(map(_operand_text, self.operands))})"


def _operand_text(value: Any) -> str:
    return str(value) if isinstance(value, DimExpr) or value >= 0 else f"- {-value}"


def _key(value: Any) -> Any:
    """What an operand is sorted by: its size first."""
    return value.key if isinstance(value, DimExpr) else _sum_key(((ONE, int(value)),))


class Term:
    """A product of powers of factors, the greatest factor first; the empty one is 1."""

    __slots__ = ("_hash", "factors", "key")

    def __init__(self, powers: Mapping[Factor, int] | Iterable[tuple[Factor, int]]):
        pairs = dict(powers).items()
        self.factors = tuple(sorted(pairs, key=lambda pair: pair[0].key, reverse=True))
        size = sum(1 + exponent * factor.key[0] for factor, exponent in self.factors)
        self.key: Any = (size, tuple([(factor.key, exponent) for factor, exponent in self.factors]))
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.key == other.key

    def __str__(self) -> str:
        powers = [f"{f}^{n}" if n != 1 else str(f) for f, n in reversed(self.factors)]
        return "*".join(powers)

    def times(self, other: Term) -> Term:
        return self._combined(other, 1)

    def over(self, other: Term) -> Term | None:
        """The quotient; None where it is no term."""
        quotient = self._combined(other, -1)
        return quotient if all(exponent > 0 for _, exponent in quotient.factors) else None

    def _combined(self, other: Term, sign: int) -> Term:
        by_key = {factor.key: factor for factor, _ in (*self.factors, *other.factors)}
        exponents = {factor.key: exponent for factor, exponent in self.factors}
        for factor, exponent in other.factors:
            exponents[factor.key] = exponents.get(factor.key, 0) + sign * exponent
        return Term([(by_key[key], exponent) for key, exponent in exponents.items() if exponent])

    @property
    def factor(self) -> Factor | None:
        """The only factor; None where there are several, or a power."""
        return self.factors[0][0] if len(self.factors) == 1 and self.factors[0][1] == 1 else None


ONE = Term(())


def _sum_key(terms: Iterable[tuple[Term, int]]) -> Any:
    terms = list(terms)
    size = sum(1 + abs(coefficient) * term.key[0] for term, coefficient in terms)
    return size, tuple([(term.key, coefficient) for term, coefficient in terms])


def is_symbolic_dim(p: Any) -> TypeGuard[DimExpr]:
    """Whether a dimension is symbolic.

    >>> from xpr import export
    >>> [export.is_symbolic_dim(n) for n in export.symbolic_shape("a, 3")]
    [True, False]
    """
    return isinstance(p, DimExpr)


def as_size(n: Any) -> Any:
    """A symbolic dimension itself; anything else as an integer, a TypeError if it is none."""
    return n if isinstance(n, DimExpr) else operator.index(n)


def is_constant_dim(d: Any) -> bool:
    """Whether a dimension is a number, not symbolic.

    >>> from xpr import core, export
    >>> [core.is_constant_dim(n) for n in export.symbolic_shape("a, 3")]
    [False, True]
    """
    return not is_symbolic_dim(d)


def is_constant_shape(s: Sequence[Any]) -> bool:
    """Whether a shape has no symbolic dimensions.

    >>> from xpr import core, export
    >>> core.is_constant_shape((2, 3)), core.is_constant_shape(export.symbolic_shape("a, 3"))
    (True, False)
    """
    return not any(map(is_symbolic_dim, s))


def _is_size(value: Any) -> bool:
    return isinstance(value, (DimExpr, int, np.integer))


def _with_arrays(name: str, reflected: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method of sizes one of anything: with other than integers the dimension is an array."""
    apply = getattr(operator, name) if name != "divmod" else divmod

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: DimExpr, other: Any) -> Any:
            if _is_size(other):
                return method(self, other)
            array = as_array[0](self)
            return apply(other, array) if reflected else apply(array, other)

        return wrapper

    return decorate


class DimExpr:
    """A dimension that is known when a program is called: an expression over dimension variables."""

    __slots__ = ("_hash", "key", "scope", "terms")

    __array_priority__ = 1000

    def __init__(self, terms: tuple[tuple[Term, int], ...], scope: Any):
        self.terms, self.scope = terms, scope
        self.key = _sum_key(terms)
        self._hash = hash((self.key, id(scope)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        raise TypeError(f"The dimension {self} can't be pickled or copied; str(dimension) is read by symbolic_shape.")

    def __copy__(self) -> DimExpr:
        return self

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    # -- Text

    def __str__(self) -> str:
        parts = []
        for term, coefficient in self.terms:
            number = abs(coefficient)
            text = str(number) if term is ONE or not term.factors else f"{number}*{term}" if number != 1 else str(term)
            parts.append(f"{'-' if coefficient < 0 else '+'} {text}")
        return " ".join(parts).removeprefix("+ ")

    __repr__ = __str__

    # -- Parts

    def variables(self) -> set[str]:
        """The names of the dimension variables in the expression."""
        names: set[str] = set()
        for term, _ in self.terms:
            for factor, _ in term.factors:
                if factor.variable:
                    names.add(factor.variable)
                for operand in factor.operands:
                    names |= operand.variables() if isinstance(operand, DimExpr) else set()
        return names

    # -- Arithmetic

    def _combined(self, other: Any, sign: int, factor: int = 1) -> Any:
        """`factor * self + sign * other`."""
        sums = {term: factor * coefficient for term, coefficient in self.terms}
        for term, coefficient in terms_of(other, self.scope, "a sum"):
            sums[term] = sums.get(term, 0) + sign * coefficient
        return normal(sums, self.scope)

    @_with_arrays("add")
    def __add__(self, other: Any) -> Any:
        return self._combined(other, 1)

    @_with_arrays("add", reflected=True)
    def __radd__(self, other: Any) -> Any:
        return self._combined(other, 1)

    @_with_arrays("sub")
    def __sub__(self, other: Any) -> Any:
        return self._combined(other, -1)

    @_with_arrays("sub", reflected=True)
    def __rsub__(self, other: Any) -> Any:
        return self._combined(other, 1, factor=-1)

    def __neg__(self) -> Any:
        return self._combined(0, 1, factor=-1)

    def __pos__(self) -> Any:
        return self

    @_with_arrays("mul")
    def __mul__(self, other: Any) -> Any:
        products: dict[Term, int] = {}
        for one, m in self.terms:
            for two, n in terms_of(other, self.scope, "a product"):
                term = one.times(two)
                products[term] = products.get(term, 0) + m * n
        return normal(products, self.scope)

    @_with_arrays("mul", reflected=True)
    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, (int, np.integer)) and power >= 0:
            return functools.reduce(operator.mul, [self] * int(power), 1)
        if isinstance(power, (int, np.integer, DimExpr)):
            raise ValueError(f"Powers of a symbolic dimension are integers from 0 on, and not '{self}' ** {power}.")
        return as_array[0](self) ** power

    def __rpow__(self, base: Any) -> Any:
        return base ** as_array[0](self)

    @_with_arrays("divmod")
    def __divmod__(self, divisor: Any) -> tuple[Any, Any]:
        """The quotient and the remainder as polynomials, where there is a constant remainder; else operations."""
        if not isinstance(divisor, DimExpr) and divisor == 0:
            raise ZeroDivisionError(f"The symbolic dimension '{self}' is divided by zero.")
        divided = _polynomial_division(self, divisor)
        return divided or tuple([operation(name, self, divisor, self.scope) for name in ("floordiv", "mod")])

    @_with_arrays("divmod", reflected=True)
    def __rdivmod__(self, dividend: Any) -> tuple[Any, Any]:
        if dividend == 0:
            return 0, 0
        return operation("floordiv", dividend, self, self.scope), operation("mod", dividend, self, self.scope)

    @_with_arrays("floordiv")
    def __floordiv__(self, divisor: Any) -> Any:
        return divmod(self, divisor)[0]

    @_with_arrays("floordiv", reflected=True)
    def __rfloordiv__(self, dividend: Any) -> Any:
        return divmod(dividend, self)[0]

    @_with_arrays("mod")
    def __mod__(self, divisor: Any) -> Any:
        return divmod(self, divisor)[1]

    @_with_arrays("mod", reflected=True)
    def __rmod__(self, dividend: Any) -> Any:
        return divmod(dividend, self)[1]

    def __truediv__(self, divisor: Any) -> Any:
        return as_array[0](self) / divisor

    def __rtruediv__(self, dividend: Any) -> Any:
        return dividend / as_array[0](self)

    # -- Comparisons

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimExpr) and self.scope is other.scope and self.key == other.key

    def __ge__(self, other: Any) -> bool:
        return _decided(self - other, f"'{self}' >= '{other}'", self.scope)

    def __le__(self, other: Any) -> bool:
        return _decided(other - self, f"'{self}' <= '{other}'", self.scope)

    def __gt__(self, other: Any) -> bool:
        return not _decided(other - self, f"'{self}' > '{other}'", self.scope)

    def __lt__(self, other: Any) -> bool:
        return not _decided(self - other, f"'{self}' < '{other}'", self.scope)

    def __bool__(self) -> bool:
        return self != 0

    # -- Conversions

    def _no_integer(self) -> int:
        raise self.scope.inconclusive(
            self,
            f"The symbolic dimension '{self}' is used where an integer is needed: it is known when the program is "
            "called. Compute with the dimension itself, or make it a constant in the shapes of the arguments.",
        )

    __int__ = __index__ = _no_integer

    def __float__(self) -> float:
        return float(self._no_integer())

    def __jax_array__(self) -> Any:
        return as_array[0](self)

    def dimension_as_value(self) -> Any:
        """The dimension as an array, an integer."""
        return as_array[0](self)


def _decided(difference: Any, comparison: str, scope: Any) -> bool:
    """Whether the difference is at least 0.

    Raises:
      InconclusiveDimensionOperation: it depends on the variables.
    """
    if not isinstance(difference, DimExpr):
        return difference >= 0
    lower, upper = scope.bounds(difference)
    if lower >= 0:
        return True
    if upper < 0:
        return False
    using = f" with the constraints {', '.join(scope.constraints)}" if scope.constraints else ""
    raise scope.inconclusive(
        difference,
        f"Symbolic dimension comparison {comparison} is inconclusive{using}: it holds for some values of the dimension "
        f"variables only. Add it to the constraints of symbolic_shape, use shapes for which it always holds "
        "('b + 15' for at least 16), or core.max_dim and core.min_dim instead of max and min.",
    )


def terms_of(value: Any, scope: Any, what: str) -> Iterable[tuple[Term, int]]:
    """The terms of an expression or an integer.

    Raises:
      ValueError: the expression is of another scope.
    """
    if isinstance(value, DimExpr):
        scope.check_same(value, f"in {what}")
        return value.terms
    return ((ONE, int(value)),)


def normal(sums: dict[Term, int], scope: Any) -> Any:
    """The expression with these coefficients, after the scope's equalities; an integer where it is constant."""
    for _ in range(_MOST_REWRITES):
        rewritten = scope.rewritten(sums) if scope.rules else None
        if rewritten is None:
            break
        sums = rewritten
    terms = [(term, n) for term, n in sums.items() if n]
    if all(not term.factors for term, _ in terms):
        return sum(n for _, n in terms)
    return DimExpr(tuple(sorted(terms, key=lambda pair: pair[0].key, reverse=True)), scope)


_MOST_REWRITES = 100


def variable(name: str, scope: Any) -> Any:
    """The dimension variable of a name."""
    return normal({Term([(Factor(name), 1)]): 1}, scope)


def operation(name: str, x: Any, y: Any, scope: Any) -> Any:
    """An operation on two expressions, as it stands."""
    for each in (x, y):
        terms_of(each, scope, name)
    return normal({Term([(Factor(operation=name, operands=(x, y)), 1)]): 1}, scope)


def _polynomial_division(x: DimExpr, divisor: Any) -> tuple[Any, Any] | None:
    """The quotient and a constant remainder, by long division; None where there is no such quotient."""
    remainder: Any = x
    quotient: Any = 0
    leading_term, leading_coefficient = divisor.terms[0] if isinstance(divisor, DimExpr) else (ONE, int(divisor))
    while isinstance(remainder, DimExpr):
        term, coefficient = remainder.terms[0]
        quotient_term = term.over(leading_term)
        if quotient_term is None or coefficient % leading_coefficient:
            return None
        part = normal({quotient_term: coefficient // leading_coefficient}, x.scope)
        quotient, remainder = quotient + part, remainder - part * divisor
    if isinstance(divisor, DimExpr):
        return (quotient, 0) if remainder == 0 else None
    return quotient + remainder // int(divisor), remainder % int(divisor)


def surely_at_least(size: Any, least: Any) -> bool:
    """Whether a size is at least another; False where they are symbolic and it may be less."""
    difference = size - least
    return difference >= 0 if not isinstance(difference, DimExpr) else difference.scope.bounds(difference)[0] >= 0


def surely_below(size: Any, most: Any) -> bool:
    """Whether a size is less than another; False where they are symbolic and it may be more."""
    difference = size - most
    return difference < 0 if not isinstance(difference, DimExpr) else difference.scope.bounds(difference)[1] < 0


def max_dim(d1: Any, d2: Any) -> Any:
    """The greater of two dimensions, as an expression where it is not known which is.

    Args:
      d1: an integer or a symbolic dimension.
      d2: another one.

    Returns:
      One of them, or the symbolic dimension `max(d1, d2)`.

    >>> from xpr import core, export
    >>> a, b = export.symbolic_shape("a, b")
    >>> core.max_dim(a, b), core.max_dim(a, 0), core.max_dim(2, 3)
    (max(a, b), a, 3)
    """
    return _extreme("max", d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The lesser of two dimensions, as an expression where it is not known which is.

    Args:
      d1: an integer or a symbolic dimension.
      d2: another one.

    Returns:
      One of them, or the symbolic dimension `min(d1, d2)`.

    >>> from xpr import core, export
    >>> a, b = export.symbolic_shape("a, b")
    >>> core.min_dim(a, b), core.min_dim(a, 0), core.min_dim(2, 3)
    (min(a, b), 0, 2)
    """
    return _extreme("min", d1, d2)


def _extreme(name: str, x: Any, y: Any) -> Any:
    if type(x) is int and type(y) is int:
        return max(x, y) if name == "max" else min(x, y)
    difference = x - y
    if isinstance(difference, DimExpr):
        lower, upper = difference.scope.bounds(difference)
    else:
        lower = upper = difference
    if lower >= 0 or upper <= 0:
        return x if (lower >= 0) == (name == "max") else y
    if isinstance(x, DimExpr) and isinstance(y, DimExpr) and y.key < x.key:
        x, y = y, x
    return operation(name, x, y, difference.scope)


def evaluate(expression: Any, values: Mapping[str, Any]) -> Any:
    """The expression for other values of its variables: integers, or dimensions of another scope.

    Raises:
      UnexpectedDimVar: a variable has no value.
    """
    if not isinstance(expression, DimExpr):
        return expression
    return sum(n * _product(_factor(f, values) ** e for f, e in term.factors) for term, n in expression.terms)


def unexpected(name: str, known: Iterable[str]) -> UnexpectedDimVar:
    """The error for a variable that has no value."""
    return UnexpectedDimVar(
        f"Encountered dimension variable '{name}' that is in no shape of an argument, from which its value could be "
        f"computed; those that are: {', '.join(known) or 'none'}. Pass an array of shape (0, {name}), which is empty, "
        "as one more argument."
    )


def _product(values: Iterable[Any]) -> Any:
    return functools.reduce(operator.mul, values, 1)


def _factor(factor: Factor, values: Mapping[str, Any]) -> Any:
    if factor.variable:
        if factor.variable not in values:
            raise unexpected(factor.variable, values)
        return values[factor.variable]
    x, y = [evaluate(each, values) for each in factor.operands]
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "floordiv": operator.floordiv, "mod": operator.mod, "max": max_dim, "min": min_dim
    }  # fmt: skip
    return functions[factor.operation](x, y)

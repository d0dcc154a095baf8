"""Pattern matching on jaxprs: patterns are Python functions, traced to small jaxprs that are searched for in a program.

A traced pattern is a tree of equations above its result. It matches at an equation if its primitives and parameters
agree with that and with those that compute its operands; its arguments match any atom of their type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Literal
from xpr.core.source import describe_function
from xpr.passes.dce import live_jaxpr
from xpr.passes.structure import parameters_key
from xpr.transforms.stage import stage


class Rule(NamedTuple):
    """A pattern, its replacement, and when it applies.

    Attributes:
      pattern: a function of arrays that computes one array. It is traced: its constants must be in the program, too.
      replacement: a function of the same arguments, with a result of the same shape and dtype.
      guard: takes for each argument the atom that matches it, a `core.Var` or `core.Literal`, both with an `aval`, and
        returns whether the rule applies.
    """

    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    guard: Callable[..., bool] | None = None


def arity(fun: Callable[..., Any]) -> int:
    """The number of required positional arguments of a pattern or a replacement.

    Raises:
      TypeError: it is a builtin function without a signature.
    """
    try:
        parameters = inspect.signature(fun).parameters.values()
    except ValueError:
        raise TypeError(
            f"rewrite: Python has no signature of {describe_function(fun)}, which says how many arguments a pattern or "
            "a replacement takes. Write a function that calls it: lambda x, y: ..."
        ) from None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


class TypedRule:
    """A rule traced for some types of its arguments."""

    def __init__(self, rule: Rule, avals: tuple[ShapedArray, ...], pattern: ClosedJaxpr):
        self.rule, self.avals = rule, avals
        jaxpr = live_jaxpr(pattern.jaxpr)
        self.arguments: list[Any] = jaxpr.invars
        self.values = dict(zip(pattern.jaxpr.constvars, pattern.consts))
        self.producers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.result: Any = jaxpr.outvars[0]
        if self.result not in self.producers:
            raise ValueError(f"rewrite: the pattern {describe_function(rule.pattern)} computes nothing to look for.")
        self.root = self.producers[self.result]
        self.result_index = list(self.root.outvars).index(self.result)
        self.free = frozenset(jaxpr.invars)
        self.parameters = {id(eqn): list(parameters_key(eqn)) for eqn in jaxpr.eqns}
        self.above = [self.producers[v].primitive if v in self.producers else None for v in self.root.invars]
        self.replacement: ClosedJaxpr | None = None

    def may_match(self, above: Sequence[Any]) -> bool:
        """A cheap check: whether the primitives that compute the operands match (None for arguments and literals)."""
        for order in (above, above[::-1]) if self.root.primitive.commutative else (above,):
            if all(expected is None or expected is other for expected, other in zip(self.above, order)):
                return True
        return False

    def replaced(self) -> ClosedJaxpr:
        """The replacement, traced when it is needed for the first time."""
        if self.replacement is None:
            closed = stage(one_result(self.rule.replacement), self.avals)
            expected, result = self.result.aval, closed.jaxpr.outvars[0].aval
            if expected.shape != result.shape or expected.dtype != result.dtype:
                arguments = ", ".join(aval.str_short() for aval in self.avals)
                raise TypeError(
                    "rewrite: a replacement must have the type of its pattern.\n"
                    f"  pattern       {expected.str_short()}   {describe_function(self.rule.pattern)}\n"
                    f"  replacement   {result.str_short()}   {describe_function(self.rule.replacement)}\n"
                    f"  for arguments ({arguments})\n"
                    "  Convert or broadcast the result of the replacement, or keep the rule from such with a guard."
                )
            self.replacement = closed
        return self.replacement

    def signatures(self) -> Iterable[Any]:
        """The equations that it may match at, by primitive and types of operands."""
        avals = [v.aval for v in self.root.invars]
        yield self.root.primitive, *avals
        if self.root.primitive.commutative and avals[0] is not avals[1]:
            yield self.root.primitive, *avals[::-1]


def one_result(fun: Callable[..., Any]) -> Callable[..., list[Any]]:
    def flat(*args: Any) -> list[Any]:
        result = fun(*args)
        aval_of(result)  # a TypeError where it is no array
        return [result]

    return flat


# -- Where a rule matches


class Matching:
    """Matches typed rules at equations; `producers` maps variables to their equations, `values` has the constants."""

    def __init__(self, producers: dict[Any, JaxprEqn], values: dict[Any, Any]):
        self.producers, self.values = producers, values

    def at(self, typed: TypedRule, eqn: JaxprEqn) -> list[Atom] | None:
        matched = self.equation(typed, typed.root, eqn, None, {})
        if matched is None:
            return None
        try:
            atoms = [matched[v] for v in typed.arguments]
        except KeyError as error:
            name = list(inspect.signature(typed.rule.pattern).parameters)[typed.arguments.index(error.args[0])]
            raise ValueError(
                f"rewrite: the pattern {describe_function(typed.rule.pattern)} does not use its argument {name}, so "
                "nothing determines its value."
            ) from None
        return atoms if typed.rule.guard is None or typed.rule.guard(*atoms) else None

    def equation(
        self, typed: TypedRule, pattern: JaxprEqn, eqn: JaxprEqn, todo: Any, matched: dict[Any, Any]
    ) -> dict[Any, Any] | None:
        """The matched variables if an equation of the pattern matches `eqn`, and the pairs of `todo` match, too.

        It is `matched`, which is updated also where the result is None.
        """
        if pattern.primitive is not eqn.primitive or len(pattern.invars) != len(eqn.invars):
            return None
        if pattern.params and typed.parameters[id(pattern)] != list(parameters_key(eqn)):
            return None
        matched.update(zip(pattern.outvars, eqn.outvars))
        if not pattern.primitive.commutative:
            for pair in zip(pattern.invars, eqn.invars):
                todo = pair, todo
            return self.pairs(typed, todo, matched)
        (a, b), (x, y) = pattern.invars, eqn.invars
        if x is y:
            return self.pairs(typed, ((a, x), ((b, y), todo)), matched)
        in_order = self.pairs(typed, ((a, x), ((b, y), todo)), dict(matched))
        return self.pairs(typed, ((a, y), ((b, x), todo)), matched) if in_order is None else in_order

    def pairs(self, typed: TypedRule, todo: Any, matched: dict[Any, Any]) -> dict[Any, Any] | None:
        """The matched variables if the pairs of `todo`, a linked list of (operand of the pattern, atom), match."""
        while todo is not None:
            (expected, atom), todo = todo
            if expected in matched:
                if not _same(matched[expected], atom):
                    return None
            elif expected in typed.free:
                if expected.aval is not atom.aval:
                    return None
                matched[expected] = atom
            elif expected in typed.producers:
                eqn = None if type(atom) is Literal else self.producers.get(atom)
                producer = typed.producers[expected]
                if eqn is None or list(eqn.outvars).index(atom) != list(producer.outvars).index(expected):
                    return None
                return self.equation(typed, producer, eqn, todo, matched)
            elif not self.is_constant(typed, expected, atom):
                return None
        return matched

    def is_constant(self, typed: TypedRule, expected: Any, atom: Atom) -> bool:
        """Whether a literal or constant of the pattern is one of the program."""
        value = expected.val if type(expected) is Literal else typed.values[expected]
        other = atom.val if type(atom) is Literal else self.values.get(atom)
        if other is None or expected.aval.strip_weak_type() is not atom.aval.strip_weak_type():
            return False
        if isinstance(value, Tracer) or isinstance(other, Tracer):
            return value is other
        dtype = expected.aval.dtype
        return np.asarray(value, dtype).tobytes() == np.asarray(other, dtype).tobytes()


def _same(a: Atom, b: Atom) -> bool:
    if type(a) is Literal and type(b) is Literal:
        dtype = a.aval.dtype
        return a.aval is b.aval and np.asarray(a.val, dtype).tobytes() == np.asarray(b.val, dtype).tobytes()
    return a is b

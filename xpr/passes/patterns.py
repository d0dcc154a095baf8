"""Patterns: Python functions traced to small jaxprs, and where in a program they are found.

A traced pattern is a tree of equations above its result. It matches at an equation if its primitives and parameters
agree with that and with those that made its operands; its arguments stand for anything of their type.
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
    """What to look for, what to put in its place, and when.

    Attributes:
      pattern: a function of arrays that computes one array. It is traced: its constants must be in the program, too.
      replacement: a function of the same arguments, with a result of the same shape and dtype.
      guard: takes for each argument what it stands for, a `core.Var` or `core.Literal`, both with an `aval`, and says
        whether the rule applies.
    """

    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    guard: Callable[..., bool] | None = None


def arity(fun: Callable[..., Any]) -> int:
    """How many arguments a pattern or a replacement must be given."""
    parameters = inspect.signature(fun).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


class TypedRule:
    """A rule traced for some types of its arguments."""

    def __init__(self, rule: Rule, avals: tuple[ShapedArray, ...], pattern: ClosedJaxpr):
        self.rule, self.avals = rule, avals
        jaxpr = live_jaxpr(pattern.jaxpr)
        self.arguments: list[Any] = jaxpr.invars
        self.values = dict(zip(pattern.jaxpr.constvars, pattern.consts))
        self.makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.result: Any = jaxpr.outvars[0]
        if self.result not in self.makers:
            raise ValueError(f"rewrite: the pattern {describe_function(rule.pattern)} computes nothing to look for.")
        self.root = self.makers[self.result]
        self.place = list(self.root.outvars).index(self.result)
        self.free = frozenset(jaxpr.invars)
        self.parameters = {id(eqn): list(parameters_key(eqn)) for eqn in jaxpr.eqns}
        self.above = [self.makers[v].primitive if v in self.makers else None for v in self.root.invars]
        self.replacement: ClosedJaxpr | None = None

    def may_match(self, above: Sequence[Any]) -> bool:
        """A quick look: whether what makes the operands are the right primitives (None where nothing does)."""
        for order in (above, above[::-1]) if self.root.primitive.commutative else (above,):
            if all(wanted is None or wanted is other for wanted, other in zip(self.above, order)):
                return True
        return False

    def replaced(self) -> ClosedJaxpr:
        """What to put in its place; traced when it is needed for the first time."""
        if self.replacement is None:
            closed = stage(one_result(self.rule.replacement), self.avals)
            wanted, found = self.result.aval, closed.jaxpr.outvars[0].aval
            if wanted.shape != found.shape or wanted.dtype != found.dtype:
                given = ", ".join(aval.str_short() for aval in self.avals)
                raise TypeError(
                    "rewrite: a replacement must have the type of what it stands for.\n"
                    f"  pattern       {wanted.str_short()}   {describe_function(self.rule.pattern)}\n"
                    f"  replacement   {found.str_short()}   {describe_function(self.rule.replacement)}\n"
                    f"  for arguments ({given})\n"
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
    """What the arguments of typed rules stand for at equations, whose operands have `makers`, or are the `values`."""

    def __init__(self, makers: dict[Any, JaxprEqn], values: dict[Any, Any]):
        self.makers, self.values = makers, values

    def at(self, typed: TypedRule, eqn: JaxprEqn) -> list[Atom] | None:
        found = self.equation(typed, typed.root, eqn, None, {})
        if found is None:
            return None
        try:
            atoms = [found[v] for v in typed.arguments]
        except KeyError as error:
            name = list(inspect.signature(typed.rule.pattern).parameters)[typed.arguments.index(error.args[0])]
            raise ValueError(
                f"rewrite: the pattern {describe_function(typed.rule.pattern)} does not use its argument {name}, so "
                "nothing says what it stands for."
            ) from None
        return atoms if typed.rule.guard is None or typed.rule.guard(*atoms) else None

    def equation(
        self, typed: TypedRule, wanted: JaxprEqn, eqn: JaxprEqn, rest: Any, found: dict[Any, Any]
    ) -> dict[Any, Any] | None:
        """What is found if an equation stands for another one, and the `rest` of pairs of operands match.

        It is written into `found`, which nobody reads where there is nothing.
        """
        if wanted.primitive is not eqn.primitive or len(wanted.invars) != len(eqn.invars):
            return None
        if wanted.params and typed.parameters[id(wanted)] != list(parameters_key(eqn)):
            return None
        found.update(zip(wanted.outvars, eqn.outvars))
        if not wanted.primitive.commutative:
            for pair in zip(wanted.invars, eqn.invars):
                rest = pair, rest
            return self.pairs(typed, rest, found)
        (a, b), (x, y) = wanted.invars, eqn.invars
        if x is y:
            return self.pairs(typed, ((a, x), ((b, y), rest)), found)
        given = self.pairs(typed, ((a, x), ((b, y), rest)), dict(found))
        return self.pairs(typed, ((a, y), ((b, x), rest)), found) if given is None else given

    def pairs(self, typed: TypedRule, todo: Any, found: dict[Any, Any]) -> dict[Any, Any] | None:
        """What is found if each operand of the pattern stands for the one beside it; `todo` is a pair and the rest."""
        while todo is not None:
            (wanted, atom), todo = todo
            if wanted in found:
                if not _same(found[wanted], atom):
                    return None
            elif wanted in typed.free:
                if wanted.aval is not atom.aval:
                    return None
                found[wanted] = atom
            elif wanted in typed.makers:
                eqn = None if type(atom) is Literal else self.makers.get(atom)
                maker = typed.makers[wanted]
                if eqn is None or list(eqn.outvars).index(atom) != list(maker.outvars).index(wanted):
                    return None
                return self.equation(typed, maker, eqn, todo, found)
            elif not self.is_constant(typed, wanted, atom):
                return None
        return found

    def is_constant(self, typed: TypedRule, wanted: Any, atom: Atom) -> bool:
        """Whether a literal or constant of the pattern is one of the program."""
        value = wanted.val if type(wanted) is Literal else typed.values[wanted]
        other = atom.val if type(atom) is Literal else self.values.get(atom)
        if other is None or wanted.aval.strip_weak_type() is not atom.aval.strip_weak_type():
            return False
        if isinstance(value, Tracer) or isinstance(other, Tracer):
            return value is other
        dtype = wanted.aval.dtype
        return np.asarray(value, dtype).tobytes() == np.asarray(other, dtype).tobytes()


def _same(a: Atom, b: Atom) -> bool:
    if type(a) is Literal and type(b) is Literal:
        dtype = a.aval.dtype
        return a.aval is b.aval and np.asarray(a.val, dtype).tobytes() == np.asarray(b.val, dtype).tobytes()
    return a is b

"""rewrite : rules -> jaxpr -> jaxpr. Replaces one computation by another, wherever its pattern matches.

A rule is a pair of Python functions of the same arguments. `(lambda x: jnp.log(jnp.exp(x)), lambda x: x)` turns
`{ lambda ; a. let b = exp a; c = log b; d = mul c c in (d,) }` into `{ lambda ; a. let b = mul a a in (b,) }`.

The functions are traced to jaxprs for types that operands have close to each other in the program. What they are traced
to may depend on the types: a sum of arrays of different shapes broadcasts. Equations are matched in order, and the
equations of a replacement are matched again, so that one walk suffices unless it made operands of new types; then there
is another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from operator import attrgetter
from typing import Any

from xpr.core.avals import ShapedArray, describe
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var, require_closed_jaxpr, used_vars, with_subjaxprs
from xpr.core.source import describe_function
from xpr.passes.dce import has_effect, live_jaxpr, without_unused_constants
from xpr.passes.patterns import Matching, Rule, TypedRule, arity, one_result
from xpr.primitives.elementwise import convert_element_type_p
from xpr.transforms.stage import stage

NEAR = 4  # how many equations apart operands of a pattern may be for all their types to be tried together
MOST_TYPES = 4000  # combinations of types that are tried of a rule, the closest first
MOST_STEPS = 100  # how often the result of a replacement is replaced, before rules are said to undo each other

_aval = attrgetter("aval")


def rewrite(rules: Iterable[Rule | Sequence[Callable[..., Any]]]) -> Callable[[ClosedJaxpr], ClosedJaxpr]:
    """A pass that applies rules wherever their patterns match, until there is nothing left to rewrite.

    Operands of commutative operations match in either order; loops, branches and calls are rewritten inside, too. Rules
    that come first are tried first.

    Args:
      rules: each a `Rule`, or a pattern, a replacement and perhaps a guard.

    Returns:
      A function from a closed jaxpr to one.

    Raises:
      TypeError: a rule is no pair of functions of equally many arguments, or its guard is no function; when applied,
        the result of a replacement has another type than its pattern.
      ValueError: when applied, a pattern computes nothing or does not use an argument, or rules undo each other.

    >>> import xpr, xpr.numpy as jnp
    >>> closed = xpr.make_jaxpr(lambda x: jnp.log(jnp.exp(x)) + 1)(2.0)
    >>> xpr.jaxpr.rewrite([(lambda x: jnp.log(jnp.exp(x)), lambda x: x)])(closed)
    { lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }
    """
    if not isinstance(rules, Iterable):
        raise TypeError(f"rewrite takes a list of rules, each a pattern and a replacement, and got {describe(rules)}.")
    checked = [_checked(rule) for rule in rules]

    def rewritten(closed: ClosedJaxpr) -> ClosedJaxpr:
        return _Rewriting(checked).program(require_closed_jaxpr("A pass made by rewrite", closed))

    return rewritten


def _checked(rule: Any) -> Rule:
    if not isinstance(rule, (tuple, list)) or not 2 <= len(rule) <= 3 or not all(map(callable, rule[:2])):
        raise TypeError(f"rewrite: a rule is a pattern and a replacement, two functions; got {rule!r}.")
    parsed = Rule(*rule)
    if not (parsed.guard is None or callable(parsed.guard)):
        raise TypeError(f"rewrite: the guard of a rule is a function of the matched atoms; got {parsed.guard!r}.")
    if arity(parsed.pattern) != arity(parsed.replacement):
        raise TypeError(
            "rewrite: a pattern and its replacement take the same arguments; "
            f"{describe_function(parsed.pattern)} takes {arity(parsed.pattern)}, "
            f"{describe_function(parsed.replacement)} takes {arity(parsed.replacement)}."
        )
    return parsed


# -- The walk


class _Rewriting:
    """The rewriting of a program; `known` has for each primitive and types of operands the typed rules to try."""

    def __init__(self, rules: Sequence[Rule]):
        self.rules = rules
        self.arities = [arity(rule.pattern) for rule in rules]
        self.tried: list[set[Any]] = [set() for _ in rules]
        self.known: dict[Any, list[tuple[int, TypedRule]]] = {}
        self.chosen: dict[Any, list[TypedRule]] = {}  # which of `known` may match, by the operands' primitives too
        self.number = 0  # how many typed rules there are
        self.types: dict[ShapedArray, None] = {}  # the types of operands in the program
        self.near: set[tuple[ShapedArray, ...]] = set()  # the types for which the rules have been traced
        self.done: dict[int, tuple[Jaxpr, Jaxpr]] = {}  # by identity: a jaxpr, and its rewritten form

    def program(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        closed = ClosedJaxpr(live_jaxpr(closed.jaxpr), closed.consts)
        self.trace_rules(closed.jaxpr, closed.jaxpr.eqns)
        for _ in range(MOST_STEPS):
            walk = _RewriteWalk(self, closed)
            closed = walk.result()
            if not walk.rewritten or not self.trace_rules(closed.jaxpr, walk.fresh):
                return closed
        raise _unterminated(walk.last)

    def inside(self, jaxpr: Jaxpr) -> Jaxpr:
        """A jaxpr that an equation holds, rewritten."""
        if id(jaxpr) not in self.done:
            closed = self.program(ClosedJaxpr(jaxpr, [None] * len(jaxpr.constvars)))
            if len(closed.consts) > len(jaxpr.constvars):
                raise ValueError(
                    "rewrite: a replacement closes over an array, and is put into a jaxpr that an equation holds, "
                    "which has no constants. Make the array in the replacement, with jnp.full or jnp.arange, or apply "
                    "inline_calls first."
                )
            self.done[id(jaxpr)] = jaxpr, closed.jaxpr
        return self.done[id(jaxpr)][1]

    def candidates(self, signature: Any, eqn: JaxprEqn, producers: dict[Any, JaxprEqn]) -> list[TypedRule]:
        """The typed rules to try at an equation, by its operands' types and the primitives that compute them."""
        above = tuple([producers[v].primitive if v in producers else None for v in eqn.invars])  # type: ignore[index]
        key = signature, above
        if key not in self.chosen:
            self.chosen[key] = [typed for _, typed in self.known[signature] if typed.may_match(above)]
        return self.chosen[key]

    def trace_rules(self, jaxpr: Jaxpr, new: Sequence[JaxprEqn]) -> bool:
        """Traces the rules for types that operands have close to each other; returns whether there are new ones.

        Of a program that was seen before, `new` are the equations that it did not have.
        """
        self.types.update(dict.fromkeys([v.aval for eqn in new for v in eqn.invars]))
        if all(len(tried) == len(self.types) ** n for tried, n in zip(self.tried, self.arities)):
            return False
        near = [tuple(self.types)] if len(self.types) == 1 else _nearby(jaxpr)
        near = [types for types in near if types not in self.near]
        self.near.update(near)
        before = self.number
        for number, rule in enumerate(self.rules):
            tried = self.tried[number]
            for avals in (each for types in near for each in product(types, repeat=self.arities[number])):
                if len(tried) > MOST_TYPES:
                    break
                if avals not in tried:
                    tried.add(avals)
                    self.trace_rule(number, rule, avals)
        return self.number > before

    def trace_rule(self, number: int, rule: Rule, avals: tuple[ShapedArray, ...]) -> None:
        try:
            pattern = stage(one_result(rule.pattern), avals)
        except (TypeError, ValueError, IndexError):
            return  # the rule does not apply to such types
        typed = TypedRule(rule, avals, pattern)
        self.chosen.clear()
        for signature in typed.signatures():
            self.number += 1
            rules = self.known.setdefault(signature, [])
            rules.append((number, typed))
            rules.sort(key=lambda each: each[0])


def _nearby(jaxpr: Jaxpr) -> list[tuple[ShapedArray, ...]]:
    """Sets of the types of operands near each other: those of an equation, of the equations that feed it, and so on."""
    producers: dict[Any, Any] = {}
    above_of: dict[Any, set[Any]] = {}
    for eqn in jaxpr.eqns:
        signature = (eqn.primitive, *[v.aval for v in eqn.invars])
        above = above_of.setdefault(signature, set())
        above.update([producers[v] for v in eqn.invars if v in producers])  # type: ignore[index]  # literals are not in it
        for v in eqn.outvars:
            producers[v] = signature
    types = {signature: tuple(dict.fromkeys(signature[1:])) for signature in above_of}
    nearby = dict.fromkeys(types.values())
    for _ in range(NEAR):
        types = {
            signature: tuple(dict.fromkeys((*avals, *(aval for other in above_of[signature] for aval in types[other]))))
            for signature, avals in types.items()
        }
        nearby.update(dict.fromkeys(types.values()))
    return list(nearby)


class _RewriteWalk:
    """One walk over the equations of a program."""

    def __init__(self, rewriting: _Rewriting, closed: ClosedJaxpr):
        self.rewriting, self.jaxpr = rewriting, closed.jaxpr
        self.constvars, self.consts = list(closed.jaxpr.constvars), list(closed.consts)
        self.values = dict(zip(self.constvars, self.consts))
        self.env: dict[Any, Atom] = {}
        self.producers: dict[Any, JaxprEqn] = {}
        self.matching = Matching(self.producers, self.values)
        self.eqns: list[JaxprEqn] = []
        self.fresh: list[JaxprEqn] = []  # all equations of replacements
        self.used: set[Any] | None = None  # what the program and replacements read, once `is_read` was asked
        self.rewritten = False
        self.last: Rule | None = None

    def result(self) -> ClosedJaxpr:
        for eqn in self.jaxpr.eqns:
            pending = [(each, 1) for each in reversed(self.visit(eqn, 0))]
            while pending:
                each, steps = pending.pop()
                pending += [(more, steps + 1) for more in reversed(self.visit(each, steps))]
        if not self.rewritten and not self.env:
            eqns = self.eqns
            if all(a is b for a, b in zip(eqns, self.jaxpr.eqns)):
                return ClosedJaxpr(self.jaxpr, self.consts)
        outvars = [self.read(v) for v in self.jaxpr.outvars]
        whole = self.jaxpr.replace(constvars=self.constvars, outvars=outvars, eqns=self.eqns)
        return without_unused_constants(live_jaxpr(whole), self.consts)

    def read(self, atom: Atom) -> Atom:
        while atom in self.env:
            atom = self.env[atom]
        return atom

    def visit(self, eqn: JaxprEqn, steps: int) -> Sequence[JaxprEqn]:
        """Appends an equation; or returns those of its replacement, which the caller has to visit."""
        if not self.env.keys().isdisjoint(eqn.invars):
            invars = [self.read(v) for v in eqn.invars]
            eqn = JaxprEqn(invars, eqn.outvars, eqn.primitive, eqn.params, eqn.source)
        if eqn.primitive.call:
            eqn = with_subjaxprs(eqn, self.rewriting.inside)
        signature = (eqn.primitive, *map(_aval, eqn.invars))
        if signature in self.rewriting.known:
            for typed in self.rewriting.candidates(signature, eqn, self.producers):
                if len(eqn.outvars) > 1 and (not self.is_read(eqn.outvars[typed.result_index]) or has_effect(eqn)):
                    continue
                atoms = self.matching.at(typed, eqn)
                if atoms is not None:
                    if steps > MOST_STEPS:
                        raise _unterminated(typed.rule)
                    self.rewritten, self.last = True, typed.rule
                    return self.replace(eqn, typed, atoms)
        self.eqns.append(eqn)
        for v in eqn.outvars:
            self.producers[v] = eqn
        return ()

    def is_read(self, var: Var) -> bool:
        if self.used is None:
            self.used = used_vars(self.jaxpr).union(self.env.values(), *(eqn.invars for eqn in self.fresh))
        return var in self.used

    def replace(self, eqn: JaxprEqn, typed: TypedRule, atoms: Sequence[Atom]) -> Sequence[JaxprEqn]:
        """The equations of a replacement, whose result is read from now on in place of the matched equation's."""
        closed, old = typed.replaced(), eqn.outvars[typed.result_index]
        names = self.names_of_inputs(closed, atoms)
        out = closed.jaxpr.outvars[0]
        binds_old = type(out) is Var and out not in names and out.aval is old.aval and len(eqn.outvars) == 1
        fresh = []
        for each in closed.jaxpr.eqns:
            invars = [names.get(v, v) for v in each.invars]  # type: ignore[arg-type]  # `names` has no literals
            outvars = [old if binds_old and v is out else Var(v.aval) for v in each.outvars]
            names.update(zip(each.outvars, outvars))
            fresh.append(JaxprEqn(invars, outvars, each.primitive, each.params, eqn.source))
        result = names.get(out, out)  # type: ignore[arg-type]
        if result.aval is not old.aval:  # they differ in weakness alone
            converted = Var(old.aval)
            params = {"new_dtype": old.aval.dtype, "weak_type": old.aval.weak_type}
            fresh.append(JaxprEqn([result], [converted], convert_element_type_p, params, eqn.source))
            result = converted
        self.fresh += fresh
        if self.used is not None:
            self.used.update([result], *(each.invars for each in fresh))
        if len(eqn.outvars) > 1:  # the others may be read
            eqn = eqn.replace(outvars=[Var(v.aval) if v is old else v for v in eqn.outvars])
            self.eqns.append(eqn)
            self.producers.update((v, eqn) for v in eqn.outvars)
        if not binds_old:
            self.env[old] = result
        return fresh

    def names_of_inputs(self, closed: ClosedJaxpr, atoms: Sequence[Atom]) -> dict[Any, Atom]:
        """The atoms for the arguments of a replacement, and new constants of the program for its constants."""
        names: dict[Any, Atom] = dict(zip(closed.jaxpr.invars, atoms))
        for v, value in zip(closed.jaxpr.constvars, closed.consts):
            names[v] = constvar = Var(v.aval)
            self.constvars.append(constvar)
            self.consts.append(value)
            self.values[constvar] = value
        return names


def _unterminated(rule: Rule | None) -> ValueError:
    where = f" {describe_function(rule.pattern)} and {describe_function(rule.replacement)}" if rule else ""
    return ValueError(
        f"rewrite: something is still to rewrite after {MOST_STEPS} steps at one equation, last by the rule{where}. "
        "Rules must not undo each other or match their own results; a guard can prevent it."
    )

"""cse : jaxpr -> jaxpr. Common subexpression elimination: equal operations on equal operands are done once.

`{ lambda ; a b. let c = add a b; d = add b a; e = mul c d in (e,) }` becomes `{ lambda ; a b. let c = add a b; e = mul
c c in (e,) }`. Operations with an effect are all done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    require_closed_jaxpr,
    with_subjaxprs,
)
from xpr.core.source import metadata_of
from xpr.passes.dce import has_effect
from xpr.passes.structure import operand_key, parameters_key


def cse(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with equal operations on equal operands done once, also within loops, branches and calls.

    The operands of a commutative operation may be in either order. What was computed before a loop is computed again
    inside it.

    >>> import xpr
    >>> xpr.jaxpr.cse(xpr.make_jaxpr(lambda x, y: (x + y) * (y + x))(1.0, 2.0))
    { lambda ; a:f32[] b:f32[]. let c:f32[] = add a b; d:f32[] = mul c c in (d,) }
    """
    closed = require_closed_jaxpr("cse", closed)
    return closed.replace(jaxpr=without_repetitions(closed.jaxpr))


def have_the_same_value(eqns: Sequence[JaxprEqn], x: Atom, y: Atom) -> bool:
    """Whether two operands are known to be equal: one value, or results of equal operations on equal operands."""
    producers = {id(v): (eqn, i) for eqn in eqns for i, v in enumerate(eqn.outvars)}
    pairs, compared = [(x, y)], set[tuple[int, int]]()
    while pairs:
        x, y = pairs.pop()
        if x is y or (id(x), id(y)) in compared:
            continue
        compared.add((id(x), id(y)))
        if type(x) is Literal and type(y) is Literal:
            if operand_key(x) != operand_key(y):
                return False
            continue
        if id(x) not in producers or id(y) not in producers:
            return False
        (first, i), (second, j) = producers[id(x)], producers[id(y)]
        if i != j or not _do_the_same(first, second):
            return False
        pairs.extend(zip(first.invars, second.invars))
    return True


def _do_the_same(first: JaxprEqn, second: JaxprEqn) -> bool:
    """Whether two equations without effects do the same to their operands."""
    if first.primitive is not second.primitive or len(first.invars) != len(second.invars):
        return False
    return not has_effect(first) and parameters_key(first) == parameters_key(second)


def without_repetitions(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr with equal operations on equal operands done once; cached with it."""
    if "cse" not in jaxpr.memo:
        smaller = _without_repetitions(jaxpr)
        jaxpr.memo["cse"] = smaller
        smaller.memo["cse"] = None  # itself, which would be a reference cycle
    return jaxpr.memo["cse"] or jaxpr


def _without_repetitions(jaxpr: Jaxpr) -> Jaxpr:
    first: dict[Any, Sequence[Var]] = {}
    env: dict[Any, Atom] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        invars = eqn.invars
        if any(map(env.__contains__, invars)):
            invars = [env.get(v, v) for v in invars]  # type: ignore[arg-type]  # `env` has no literals
            eqn = JaxprEqn(invars, eqn.outvars, eqn.primitive, eqn.params, eqn.source)
        if eqn.primitive.call:
            eqn = with_subjaxprs(eqn, without_repetitions)
        known = _earlier_results(eqn, first)
        if known is None:
            eqns.append(eqn)
        else:
            env.update(zip(eqn.outvars, known))
    outvars = [env.get(v, v) for v in jaxpr.outvars]  # type: ignore[arg-type]
    return jaxpr.replace(outvars=outvars, eqns=eqns)


def _earlier_results(eqn: JaxprEqn, first: dict[Any, Sequence[Var]]) -> Sequence[Var] | None:
    """The results of an earlier equation that does the same; None if none does, and `first` gets those of `eqn`."""
    primitive = eqn.primitive
    if (primitive.effects is not None or primitive.call) and has_effect(eqn):
        return None
    operands = [operand_key(v) if type(v) is Literal else id(v) for v in eqn.invars]
    if primitive.commutative:
        operands.sort(key=hash)
    key: Any = (primitive, *operands)
    if eqn.params:
        key = (key, *parameters_key(eqn))
    metadata = metadata_of(eqn.source)
    if metadata is not None:
        key = (key, metadata)
    try:
        known = first.setdefault(key, eqn.outvars)
    except TypeError:  # a parameter that can't be hashed
        return None
    if known is eqn.outvars:
        return None
    if DropVar in map(type, known):
        first[key] = eqn.outvars
        return None
    return known

"""Variables of jaxprs: which are used, which are unused, and substitution of values for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xpr.core import jaxpr as language
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, Literal, UnitVar, Var, make_literal, require_jaxpr


def used_variables(jaxpr: Jaxpr | ClosedJaxpr) -> set[Var]:
    """The variables that an equation or the result reads; not those of inner jaxprs.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x, y: 2.0 * x)(1.0, 1.0)
    >>> x, y = closed.jaxpr.invars
    >>> x in xpr.jaxpr.used_variables(closed), y in xpr.jaxpr.used_variables(closed)
    (True, False)
    """
    return {v for v in language.used_vars(require_jaxpr("used_variables", jaxpr)) if not isinstance(v, UnitVar)}


def unused_variables(jaxpr: Jaxpr | ClosedJaxpr) -> list[Var]:
    """The variables that are bound and unused, in the order of binding; without those printed as `_`.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x, y: 2.0 * x)(1.0, 1.0)
    >>> xpr.jaxpr.unused_variables(closed) == [closed.jaxpr.invars[1]]
    True
    """
    inner = require_jaxpr("unused_variables", jaxpr)
    used = used_variables(inner)
    bound = [*inner.constvars, *inner.invars, *(v for eqn in inner.eqns for v in eqn.outvars)]
    return [v for v in bound if v not in used and not isinstance(v, (DropVar, UnitVar))]


def effects(jaxpr: Jaxpr | ClosedJaxpr) -> frozenset[str]:
    """The side effects of a program, a subset of "ordered" and "unordered"; also those of inner jaxprs.

    >>> import xpr
    >>> xpr.jaxpr.effects(xpr.make_jaxpr(lambda x: xpr.debug.print("{}", x))(1.0))
    frozenset({'unordered'})
    """
    return language.effects(require_jaxpr("effects", jaxpr))


def substitute(jaxpr: Jaxpr | ClosedJaxpr, values: Mapping[Var | int, Any]) -> ClosedJaxpr:
    """The program with some of its variables replaced by other variables, literals or values.

    Args:
      jaxpr: the program.
      values: for a variable, or the position of an argument: another variable of the program that is bound before the
        first use, a literal, or a value. Scalars become literals, arrays constants. Arguments and constants that are
        replaced are removed; an equation that computes a replaced variable stays, for `dce` to remove.

    Returns:
      A program of the kind of `jaxpr`.

    Raises:
      TypeError: a value has another type than its variable; a variable is not bound in the program.
      IndexError: there is no argument at a position.
      ValueError: a jaxpr with constants is passed without their values, or variables are replaced by each other.

    >>> import xpr
    >>> xpr.jaxpr.substitute(xpr.make_jaxpr(lambda x, y: x * y)(1.0, 1.0), {0: 3.0})
    { lambda ; a:f32[]. let b:f32[] = mul 3.0 a in (b,) }
    """
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(require_jaxpr("substitute", jaxpr))
    inner = closed.jaxpr
    bound = {*inner.constvars, *inner.invars, *(v for eqn in inner.eqns for v in eqn.outvars)}
    replaced: dict[Var, Any] = {}
    constants: list[tuple[Var, Any]] = []
    for key, value in values.items():
        var = _argument(inner, key) if isinstance(key, int) else key
        _check(var, value, bound)
        if isinstance(value, (Var, Literal)):
            replaced[var] = value
        elif not aval_of(value).shape and not isinstance(value, Tracer):
            replaced[var] = make_literal(np.asarray(value)[()], var.aval)
        else:
            replaced[var] = Var(var.aval)
            constants.append((replaced[var], value))

    for var in replaced:
        _check_ends(var, replaced)

    def new(atom: Any) -> Any:
        while atom in replaced:
            atom = replaced[atom]
        return atom

    constants_left = [(v, x) for v, x in zip(inner.constvars, closed.consts) if v not in replaced] + constants
    eqns = [eqn.replace(invars=[new(x) for x in eqn.invars]) for eqn in inner.eqns]
    invars = [v for v in inner.invars if v not in replaced]
    outvars = [new(x) for x in inner.outvars]
    return ClosedJaxpr(Jaxpr([v for v, _ in constants_left], invars, outvars, eqns), [x for _, x in constants_left])


def _argument(jaxpr: Jaxpr, position: int) -> Var:
    if not -len(jaxpr.invars) <= position < len(jaxpr.invars):
        raise IndexError(f"substitute: there is no argument {position}; the program takes {len(jaxpr.invars)}.")
    return jaxpr.invars[position]


def _check_ends(var: Var, replaced: Mapping[Var, Any]) -> None:
    """Raises ValueError where a variable is replaced by itself, or by another one that is replaced by it."""
    atom, seen = replaced[var], {var}
    while atom in replaced and atom not in seen:
        seen.add(atom)
        atom = replaced[atom]
    if atom in seen:
        raise ValueError(
            f"substitute: a variable of type {atom.aval.str_short()} is replaced by itself, directly or by way of "
            "others that are replaced. To exchange two arguments pass them in another order."
        )


def _check(var: Var, value: Any, bound: set[Var]) -> None:
    if var not in bound:
        raise TypeError(f"substitute: {var!r} is no variable of the jaxpr.")
    if isinstance(value, Var) and value not in bound:
        raise TypeError(f"substitute: {value!r} is no variable of the jaxpr.")
    aval = value.aval if isinstance(value, (Var, Literal)) else aval_of(value)
    if (aval.shape, aval.dtype) != (var.aval.shape, var.aval.dtype):
        raise TypeError(f"substitute: a variable of type {var.aval.str_short()} is given {aval.str_short()}.")

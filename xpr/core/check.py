"""The type checker of jaxprs: every variable bound once and before use, every equation well typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import same_type
from xpr.core.interpreter import shardings_decided_later
from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    UnitVar,
    Var,
    require_jaxpr,
    subjaxprs,
    text_hooks,
    unitvar,
)
from xpr.core.source import line_with_text, saved
from xpr.errors import JaxprTypeError


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Checks that a jaxpr, and those inside it, are well formed and well typed.

    Raises:
      JaxprTypeError: a variable is unbound, bound twice, or its type is not the one that its equation has; an equation
        has a parameter that its primitive does not have, or lacks one. The message shows the equation, the user's line
        and the neighbouring equations.

    >>> import xpr
    >>> xpr.core.check_jaxpr(xpr.make_jaxpr(lambda x: x * x)(3.0))
    """
    _check(require_jaxpr("check_jaxpr", jaxpr), set())


def _check(jaxpr: Jaxpr, checked: set[Jaxpr]) -> None:
    """Checks a jaxpr and those inside it, but for those that are `checked` already: a function may be called often."""
    if jaxpr in checked:
        return
    checked.add(jaxpr)
    _check_atoms(jaxpr)
    bound: set[Var] = {unitvar}
    for var in [*jaxpr.constvars, *jaxpr.invars]:
        _bind(var, bound, jaxpr, None)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            _read(atom, bound, jaxpr, eqn)
        _check_types(jaxpr, eqn)
        for inner in subjaxprs(eqn):
            _check(inner, checked)
        for var in eqn.outvars:
            _bind(var, bound, jaxpr, eqn)
    for atom in jaxpr.outvars:
        _read(atom, bound, jaxpr, None)


def _check_atoms(jaxpr: Jaxpr) -> None:
    """Checks that binders are variables, and operands and results variables or literals: only then it has a text."""
    parts: list[tuple[JaxprEqn | None, Sequence[Any], Sequence[Any]]] = [
        (None, [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars),
        *[(eqn, eqn.outvars, eqn.invars) for eqn in jaxpr.eqns],
    ]
    for eqn, binders, atoms in parts:
        for var in binders:
            if not isinstance(var, Var):
                raise _malformed(eqn, f"a binder must be a variable, and this one is {var!r}")
        for atom in atoms:
            if not isinstance(atom, (Var, Literal)):
                raise _malformed(eqn, f"an operand must be a variable or a literal, and this one is {atom!r}")


def _bind(var: Var, bound: set[Var], jaxpr: Jaxpr, eqn: JaxprEqn | None) -> None:
    if var in bound and not isinstance(var, (DropVar, UnitVar)):
        raise _error(jaxpr, eqn, "a variable is bound a second time", [var])
    bound.add(var)


def _read(atom: Atom, bound: set[Var], jaxpr: Jaxpr, eqn: JaxprEqn | None) -> None:
    if isinstance(atom, Literal):
        return
    if atom not in bound:
        raise _error(jaxpr, eqn, "a variable is used before it is bound", [atom])


def _check_types(jaxpr: Jaxpr, eqn: JaxprEqn) -> None:
    avals = tuple(atom.aval for atom in eqn.invars)
    try:
        eqn.primitive.check_params(eqn.params)
    except TypeError as error:
        raise _error(jaxpr, eqn, str(error).rstrip(".")) from None
    try:
        with shardings_decided_later():
            expected = eqn.primitive.type_of(avals, eqn.params)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise _error(jaxpr, eqn, f"the operands don't fit the primitive: {error}") from error
    bound = [var.aval for var in eqn.outvars]
    if len(expected) != len(bound):
        raise _error(jaxpr, eqn, f"{eqn.primitive} gives {len(expected)} results, and {len(bound)} are bound")
    for index, (expected_aval, aval) in enumerate(zip(expected, bound)):
        if not same_type(expected_aval, aval):
            raise _error(
                jaxpr,
                eqn,
                f"result {index} is bound as {aval.str_short()} and {eqn.primitive} gives {expected_aval.str_short()}",
            )


_OUTSIDE_EQUATIONS = "  in the binders or the results of the jaxpr"


def _malformed(eqn: JaxprEqn | None, fault: str) -> JaxprTypeError:
    """The error for a jaxpr that holds something else than variables and literals, so that it has no text."""
    place = _OUTSIDE_EQUATIONS if eqn is None else f"  in an equation of {eqn.primitive}"
    return JaxprTypeError("\n".join([f"check_jaxpr: {fault}.", place, *_user_line(eqn)]))


def _error(jaxpr: Jaxpr, eqn: JaxprEqn | None, fault: str, variables: Sequence[Var] = ()) -> JaxprTypeError:
    """The error for an equation, or for the jaxpr's own binders and results where it is None."""
    lines, names = text_hooks["eqns_and_names"](jaxpr, variables)
    subject = "".join(f" ({name}:{v.aval.str_short()})" for name, v in zip(names, variables))
    at = next((i for i, (e, _) in enumerate(lines) if e is eqn), None)
    if at is None:
        place = [_OUTSIDE_EQUATIONS]
    else:
        near = range(max(0, at - 2), min(len(lines), at + 3))
        place = [f"  {'-> ' if index == at else '   '}{lines[index][1]}" for index in near]
    return JaxprTypeError("\n".join([f"check_jaxpr: {fault}{subject}.", *place, *_user_line(eqn)]))


def _user_line(eqn: JaxprEqn | None) -> list[str]:
    """The line of a message with the user's line that an equation comes from; none where it is not known."""
    known = eqn is not None and saved(eqn.source)
    return [f"  from {line_with_text(eqn.source)}"] if known else []  # type: ignore[union-attr]

"""What equations do, as keys: equal for equations that differ in the names of variables alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from xpr.core.primitive import told_apart


def parameters_key(eqn: JaxprEqn) -> Iterable[Any]:
    """An equation's parameters as a part of a key. Functions among them are equal to themselves alone."""
    if not eqn.primitive.call:
        return eqn.primitive.key_of(eqn.params)
    return [(name, _without_names(value)) for name, value in eqn.params.items()]


def operand_key(atom: Atom) -> Any:
    """What stands for an operand: equal for the same variable, and for literals of equal type and value."""
    return (atom.aval, told_apart(atom.val)) if type(atom) is Literal else atom


def _without_names(value: Any) -> Any:
    """A parameter, with what is left of jaxprs when the names of variables are forgotten."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_without_names, value))
    if isinstance(value, ClosedJaxpr):
        return _without_names(value.jaxpr), *map(id, value.consts)
    if not isinstance(value, Jaxpr):
        return told_apart(value)
    if "without names" not in value.memo:
        numbers: dict[Any, Any] = {v: (v.aval, i) for i, v in enumerate([*value.constvars, *value.invars])}
        lines = []
        for eqn in value.eqns:
            operands = [numbers[v] if v in numbers else operand_key(v) for v in eqn.invars]
            lines.append((eqn.primitive, *operands, *parameters_key(eqn)))
            for v in eqn.outvars:
                numbers[v] = v.aval, len(numbers)
        outs = [numbers[v] if v in numbers else operand_key(v) for v in value.outvars]
        value.memo["without names"] = (len(value.invars), *lines, *outs)
    return value.memo["without names"]

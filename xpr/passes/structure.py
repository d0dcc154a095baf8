"""Structural equality and hashes of jaxprs: equal where they differ in the names of variables only.

Variables are numbered in the order in which they are bound, literals and arrays are bytes, and each value comes
with its type. `xpr.jaxpr.equal` and `hash` compare structures; passes find equal equations by keys, in which operands
are themselves and inner jaxprs are structures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Unit, UnitVar, Var, unitvar
from xpr.core.primitive import cache_key
from xpr.core.refs import Ref
from xpr.core.source import metadata_of
from xpr.dtypes import INEXACT
from xpr.passes.dce import has_effect
from xpr.text.parameters import ConstantHole, parts_of

_UNIT = "unit"
_aval = attrgetter("aval")


def operand_key(atom: Atom) -> Any:
    """The key of an operand: equal for the same variable, and for literals of equal type and value."""
    return (atom.aval, cache_key(atom.val)) if type(atom) is Literal else atom


def parameters_key(eqn: JaxprEqn) -> Iterable[Any]:
    """An equation's parameters as a part of a key. Functions among them are equal to themselves alone."""
    if not eqn.primitive.call:
        return eqn.primitive.key_of(eqn.params)
    return [(name, _value(value, True)) for name, value in eqn.params.items()]


class EquationNumbers:
    """Numbers equations: those that differ in variables and literals alone have the same number.

    An equation with an effect has a number of its own. The jaxpr of a call is compared only if another call has the
    same types.
    """

    def __init__(self) -> None:
        self.numbers: dict[JaxprEqn, int] = {}
        self.keys: dict[Any, int] = {}
        self.alone: dict[Any, JaxprEqn | None] = {}  # by its signature: a call that was the only one so far
        self.of_same: dict[Any, int | None] = {}  # by the identity of parameters; None for those with an effect

    def of(self, eqns: Sequence[JaxprEqn]) -> np.ndarray:
        """The numbers of equations; those that have been numbered before keep theirs."""
        numbers, keys = self.numbers, self.keys
        for eqn in eqns:
            if eqn in numbers:
                continue
            primitive = eqn.primitive
            signature = (primitive, metadata_of(eqn.source), *map(_aval, eqn.invars))
            if primitive.call:
                numbers[eqn] = self.of_call(eqn, signature)
            elif eqn.params or primitive.effects:
                numbers[eqn] = self.by_parameters(eqn, signature)
            else:
                numbers[eqn] = keys.setdefault(signature, len(keys))
        return np.fromiter(map(numbers.__getitem__, eqns), np.int64, len(eqns))

    def of_call(self, eqn: JaxprEqn, signature: Any) -> int:
        if signature not in self.alone:
            self.alone[signature] = eqn
            return self.keys.setdefault(eqn, len(self.keys))
        other, self.alone[signature] = self.alone[signature], None
        if other is not None:
            self.numbers[other] = self.by_parameters(other, signature)
        same = (signature, *eqn.params, *map(id, eqn.params.values()))  # often it is one function that is called
        if same not in self.of_same:
            self.of_same[same] = None if has_effect(eqn) else self.by_parameters(eqn, signature)
        number = self.of_same[same]
        return self.keys.setdefault(eqn, len(self.keys)) if number is None else number

    def by_parameters(self, eqn: JaxprEqn, signature: Any) -> int:
        primitive = eqn.primitive
        acts = (primitive.call or primitive.effects) and has_effect(eqn)
        key = eqn if acts else (*signature, *parameters_key(eqn))
        try:
            return self.keys.setdefault(key, len(self.keys))
        except TypeError:  # a parameter that can't be hashed
            return self.keys.setdefault(eqn, len(self.keys))


class Structure:
    """The structural key of a jaxpr, a tuple: equal for structurally equal ones; its hash is stored."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[Hashable, ...]):
        self.parts, self._hash = parts, hash(parts)

    def __eq__(self, other: object) -> bool:
        return type(other) is Structure and self._hash == other._hash and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash


def structure(jaxpr: Jaxpr | ClosedJaxpr, weak: bool = False) -> Structure:
    """The structural key of a jaxpr: its content without the names of variables.

    Args:
      jaxpr: the program. One without constants is the same as one that is closed over none.
      weak: whether types that differ in weakness alone are different.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return _closed(structure(jaxpr.jaxpr, weak), jaxpr.consts)
    numbers: dict[Var, Any] = {unitvar: _UNIT}
    for var in [*jaxpr.constvars, *jaxpr.invars]:
        numbers.setdefault(var, len(numbers))
    eqns = []
    for eqn in jaxpr.eqns:
        operands = tuple([numbers[v] if v in numbers else _atom(v, weak) for v in eqn.invars])  # type: ignore[index]
        types = []
        for var in eqn.outvars:
            numbers.setdefault(var, len(numbers))
            types.append(_type(var, weak))
        params = tuple([(k, _value(v, weak)) for k, v in sorted(eqn.params.items())]) if eqn.params else ()
        eqns.append((eqn.primitive, params, metadata_of(eqn.source), operands, tuple(types)))
    binders = tuple([_type(v, weak) for v in jaxpr.constvars]), tuple([_type(v, weak) for v in jaxpr.invars])
    outs = tuple([numbers[v] if v in numbers else _atom(v, weak) for v in jaxpr.outvars])  # type: ignore[index]
    return Structure((binders, tuple(eqns), outs))


def _closed(inner: Any, consts: Sequence[Any]) -> Structure:
    return Structure(("closed", inner, *map(_constant, consts))) if consts else inner


def _type(var: Var, weak: bool) -> Hashable:
    if isinstance(var, UnitVar):
        return _UNIT
    # Varying, unreduced and reduced axes follow from the operands' types, and are not part of a jaxpr's text.
    aval = var.aval.with_varying(frozenset()).with_sums(frozenset(), frozenset()).on_mesh(None)
    return aval if weak else aval.strip_weak_type()


def _atom(atom: Any, weak: bool) -> Hashable:
    """A literal, or a variable that is bound nowhere."""
    if type(atom) is not Literal:
        return atom
    value, aval = atom.val, atom.aval
    if isinstance(value, Unit):
        return _UNIT
    array = value if isinstance(value, np.generic) and value.dtype == aval.dtype else np.asarray(value, aval.dtype)
    return aval if weak else aval.dtype, _bytes(array)


def _value(value: Any, weak: bool) -> Hashable:
    """The key of a parameter."""
    kind = type(value)
    if kind in (int, bool, str) or value is None:
        return kind, value
    if kind in (float, complex):
        return kind, _bytes(np.asarray(value))
    if kind is Jaxpr:
        key = "structure", weak
        if key not in value.memo:
            value.memo[key] = structure(value, weak)
        return value.memo[key]
    if kind is ClosedJaxpr:
        return _closed(_value(value.jaxpr, weak), value.consts)
    if isinstance(value, (tuple, list)):
        return kind, tuple([_value(each, weak) for each in value])
    if value is bool or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return _constant(value)
    parts = parts_of(value)
    if parts is not None:
        return kind, tuple([(name, _value(each, weak)) for name, each in parts.items()])
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return value


class _Same:
    """The key of an object that can't be hashed: its identity."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _constant(value: Any) -> Hashable:
    if isinstance(value, ConstantHole):
        return "hole", value.aval.strip_weak_type()
    if isinstance(value, (Tracer, Ref)):  # it has no value, or not always the same one, and is equal to itself
        return _Same(value)
    array = np.asarray(value)
    return array.dtype, array.shape, _bytes(array)


def _bytes(array: Any) -> bytes:
    """The bytes of the elements, with one bit pattern for all nans."""
    if array.dtype in INEXACT:
        numbers = array == array
        if not numbers.all():
            array = np.where(numbers, array, np.asarray(np.nan).astype(array.dtype))
    return array.tobytes()

"""equal, hash : jaxprs up to the names of variables.

A jaxpr's structure is a tuple that two jaxprs share if and only if they are equal: variables are numbered in the order
in which they are bound, literals and arrays are bytes, and each value stands beside what tells its type.
"""

from __future__ import annotations

import builtins
from collections.abc import Hashable
from typing import Any

import numpy as np

from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Unit, UnitVar, Var, unitvar
from xpr.core.parameters import ConstantHole
from xpr.dtypes import INEXACT

_UNIT = "unit"


def equal(a: Jaxpr | ClosedJaxpr, b: Jaxpr | ClosedJaxpr) -> bool:
    """Whether two jaxprs are the same up to the names of variables.

    The same are: the types of variables in shape and dtype (not weakness, which is no part of the text), equations in
    their order, parameters and literals in type and value (-0.0 is not 0.0, and nan is nan), the values of constants.
    Python functions among the parameters must be the same objects, or equal. Source lines don't count. A jaxpr without
    constants is the same as one that is closed over none.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.equal(f, g), xpr.jaxpr.equal(f, xpr.make_jaxpr(lambda x: x * 2.0)(1.0))
    (True, False)
    """
    return a is b or structure(a) == structure(b)


def hash(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """A number that equal jaxprs share. It is of this process alone, like `hash` of a string.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.hash(f) == xpr.jaxpr.hash(g)
    True
    """
    return builtins.hash(structure(jaxpr))


def structure(jaxpr: Jaxpr | ClosedJaxpr) -> Hashable:
    """What is left of a jaxpr without the names of its variables."""
    return _Structures().of(jaxpr)


class _Structures:
    """Makes structures, once for each jaxpr that stands in several places."""

    def __init__(self) -> None:
        self.known: dict[int, Hashable] = {}

    def of(self, jaxpr: Jaxpr | ClosedJaxpr) -> Hashable:
        if isinstance(jaxpr, ClosedJaxpr):
            if not jaxpr.consts:
                return self.of(jaxpr.jaxpr)
            return "closed", self.of(jaxpr.jaxpr), tuple(map(_constant, jaxpr.consts))
        if id(jaxpr) not in self.known:
            self.known[id(jaxpr)] = self.open(jaxpr)
        return self.known[id(jaxpr)]

    def open(self, jaxpr: Jaxpr) -> Hashable:
        numbers: dict[Var, Any] = {unitvar: _UNIT}
        for var in [*jaxpr.constvars, *jaxpr.invars]:
            numbers.setdefault(var, len(numbers))
        eqns = []
        for eqn in jaxpr.eqns:
            operands = tuple([numbers[v] if v in numbers else _atom(v) for v in eqn.invars])
            types = []
            for var in eqn.outvars:
                numbers.setdefault(var, len(numbers))
                types.append(_type(var))
            params = tuple([(k, self.value(v)) for k, v in sorted(eqn.params.items())]) if eqn.params else ()
            eqns.append((eqn.primitive, params, operands, tuple(types)))
        binders = tuple(map(_type, jaxpr.constvars)), tuple(map(_type, jaxpr.invars))
        outs = tuple([numbers[v] if v in numbers else _atom(v) for v in jaxpr.outvars])  # type: ignore[index]
        return "jaxpr", binders, tuple(eqns), outs

    def value(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in (int, bool, str):
            return kind, value
        if kind in (float, complex):
            return kind, _bytes(np.asarray(value))
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            return self.of(value)
        if isinstance(value, (tuple, list)):
            return kind, tuple(map(self.value, value))
        if value is bool or (isinstance(value, type) and issubclass(value, np.generic)):
            return np.dtype(value)
        if isinstance(value, (np.generic, np.ndarray)):
            return _constant(value)
        try:
            builtins.hash(value)
        except TypeError:
            return _Same(value)
        return value


class _Same:
    """Stands for an object that can't be hashed; equal to what stands for the same object."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _type(var: Var) -> Hashable:
    return _UNIT if isinstance(var, UnitVar) else var.aval.strip_weak_type()


def _atom(atom: Any) -> Hashable:
    """A literal, or a variable that is bound nowhere."""
    if isinstance(atom, Literal) and isinstance(atom.val, Unit):
        return _UNIT
    if isinstance(atom, Literal):
        dtype = atom.aval.dtype
        return dtype, _bytes(np.asarray(atom.val).astype(dtype))
    return atom


def _constant(value: Any) -> Hashable:
    if isinstance(value, ConstantHole):
        return "hole", value.aval.strip_weak_type()
    if isinstance(value, Tracer):  # it has no value, and is equal to itself
        return _Same(value)
    array = np.asarray(value)
    return array.dtype, array.shape, _bytes(array)


def _bytes(array: np.ndarray) -> bytes:
    """The entries, with all nans made one."""
    if array.dtype in INEXACT:
        nans = np.isnan(array)
        if nans.any():
            array = np.where(nans, np.asarray(np.nan).astype(array.dtype), array)
    return array.tobytes()

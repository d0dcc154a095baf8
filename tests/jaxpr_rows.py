"""Jaxprs for the laws of text, equality and saving: of every row of the op table, and of random programs."""

import numpy as np

import xpr
from tests.ops import table
from tests.ops.case import Case
from xpr.core import ClosedJaxpr, Jaxpr
from xpr.core.parameters import Hole, build_structure, hole_of, parts_of

ROWS = [row for row in table.ROWS if row.samples]


def jaxprs_of(row):
    """Closed jaxprs in which the row's primitive stands: as it is, and mapped and differentiated where that works."""
    for sample in row.samples:
        case = Case(row, sample)
        yield xpr.make_jaxpr(case)(*case.operands)
    rows = [np.stack([x, x]) for x in case.operands]
    for derived, operands in ((xpr.vmap(case), rows), (tangents(case), case.at(case.active))):
        try:
            yield xpr.make_jaxpr(derived)(*operands)
        except Exception:
            continue  # it has no such rule, which is not what is tested here


def tangents(case):
    return lambda *xs: xpr.jvp(case.of(case.active), xs, xs)


def with_holes(jaxpr):
    """The jaxpr as text holds it: Python functions among the parameters are holes."""
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr.replace(jaxpr=with_holes(jaxpr.jaxpr))
    return jaxpr.replace(eqns=[eqn.replace(params=_holes(eqn.params)) for eqn in jaxpr.eqns])


def _holes(value):
    if isinstance(value, dict):
        return {key: _holes(item) for key, item in value.items()}
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return with_holes(value)
    if type(value) is tuple:
        return tuple(map(_holes, value))
    parts = parts_of(value)
    if parts is not None:
        return build_structure(type(value), _holes(parts))
    is_object = "<" in repr(hole_of(value)) and xpr.core.printer.parameter_text(value) == repr(hole_of(value))
    return hole_of(value) if is_object and not isinstance(value, Hole) else value

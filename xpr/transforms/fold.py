"""fold_constants : jaxpr -> jaxpr. Evaluates what depends on constants and literals alone.

`{ lambda ; a. let b = sin 1.0; c = mul a b in (c,) }` becomes `{ lambda ; a. let b = mul a 0.84147096 in (b,) }`. A
scalar becomes a literal where it is read, an array a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.interpreter import Tracer, at_the_bottom, context
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, make_literal, subjaxprs, with_subjaxprs
from xpr.transforms.batch import named_axes, names_in
from xpr.transforms.dce import has_effect, without_unread_constants

LARGEST = 1 << 22  # entries of a result that is worth keeping instead of the operation that makes it


def fold_constants(closed: ClosedJaxpr, largest: int = LARGEST) -> ClosedJaxpr:
    """The same program with what depends on constants and literals alone evaluated.

    The jaxprs that loops, branches and calls hold have no constants, so that only scalars are evaluated in them; after
    `inline_calls` there is more to do.

    Args:
      closed: the program.
      largest: results of more entries are left to be computed.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda x: x + jnp.sin(jnp.ones(3)))(jnp.zeros(3)))
    { lambda a:f32[3]; b:f32[3]. let c:f32[3] = add b a in (c,) }
    """
    with at_the_bottom():
        return _Folding(closed.jaxpr, closed.consts, largest).result()


def _folded(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without constants, with the scalars in it evaluated; remembered with it."""
    if "folded" not in jaxpr.memo:
        smaller = _Folding(jaxpr, (), 1, arrays=False).result().jaxpr
        jaxpr.memo["folded"] = smaller.memo["folded"] = smaller
    return jaxpr.memo["folded"]


def _names_an_axis(eqn: JaxprEqn) -> bool:
    """Whether what the equation gives depends on where along a mapped axis it is run."""
    if eqn.primitive.batch_named is None:
        return False
    return any(True for _ in named_axes(eqn.params)) or any(map(names_in, subjaxprs(eqn)))


class _Folding:
    """Goes through a jaxpr once, with the value of each variable that has one."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any], largest: int, arrays: bool = True):
        self.jaxpr, self.largest, self.arrays = jaxpr, largest, arrays
        self.constvars, self.consts = list(jaxpr.constvars), list(consts)
        self.values: dict[Any, Any] = {v: x for v, x in zip(jaxpr.constvars, consts) if not isinstance(x, Tracer)}
        self.atoms: dict[Any, Atom] = {v: v for v in self.values}  # what stands for a value where it is read
        self.eqns: list[JaxprEqn] = []

    def result(self) -> ClosedJaxpr:
        for eqn in self.jaxpr.eqns:
            self.visit(eqn)
        context.source = None
        outvars = [self.read(v) for v in self.jaxpr.outvars]
        whole = self.jaxpr.replace(constvars=self.constvars, outvars=outvars, eqns=self.eqns)
        return without_unread_constants(whole, self.consts)

    def visit(self, eqn: JaxprEqn) -> None:
        values = self.values
        is_known = [type(v) is Literal or v in values for v in eqn.invars]
        if all(is_known) and self.is_worth(eqn) and not has_effect(eqn) and not _names_an_axis(eqn):
            context.source = eqn.source
            operands = [v.val if type(v) is Literal else values[v] for v in eqn.invars]
            values.update(zip(eqn.outvars, context.trace.process(eqn.primitive, operands, eqn.params)))
            return
        if any(is_known):
            invars = [self.read(v) for v in eqn.invars]
            eqn = JaxprEqn(invars, eqn.outvars, eqn.primitive, eqn.params, eqn.source)
        self.eqns.append(with_subjaxprs(eqn, _folded) if eqn.primitive.call else eqn)

    def is_worth(self, eqn: JaxprEqn) -> bool:
        avals = [v.aval for v in eqn.outvars]
        return all(aval.size <= self.largest and (self.arrays or not aval.shape) for aval in avals)

    def read(self, atom: Atom) -> Atom:
        """An operand in the new program: a literal for a scalar that is known, a constant for an array."""
        if type(atom) is Literal or atom not in self.values:
            return atom
        if atom not in self.atoms:
            self.atoms[atom] = self.written(atom)  # type: ignore[arg-type]
        return self.atoms[atom]

    def written(self, var: Var) -> Atom:
        value = self.values[var]
        if not var.aval.shape and var.aval.dtype.kind in "biufcV":
            return make_literal(np.asarray(value), var.aval)
        self.constvars.append(var)
        self.consts.append(value)
        return var

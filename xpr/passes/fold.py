"""fold_constants : jaxpr -> jaxpr. Constant folding: evaluates what depends on constants and literals alone.

`{ lambda ; a. let b = sin 1.0; c = mul a b in (c,) }` becomes `{ lambda ; a. let b = mul a 0.84147096 in (b,) }`. A
scalar becomes a literal where it is read, an array a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.interpreter import Tracer, at_the_bottom, context
from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    constvars_to_invars,
    make_literal,
    require_closed_jaxpr,
    subjaxprs,
    with_subjaxprs,
)
from xpr.passes.dce import has_effect, without_unused_constants
from xpr.transforms.batch import named_axes, names_in

LARGEST = 1 << 22  # elements of a result that is worth storing instead of computing


def fold_constants(closed: ClosedJaxpr, largest: int = LARGEST) -> ClosedJaxpr:
    """The same program with what depends on constants and literals alone evaluated.

    In a function that is called, values that are evaluated become leading operands of the call. In loops and branches
    only scalars are evaluated, since their jaxprs have no constants: an array would become an operand, which is in
    memory all the time, instead of an operation that XLA hoists out of the loop by itself.

    Args:
      closed: the program.
      largest: results of more elements are not evaluated.

    Returns:
      A `ClosedJaxpr`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jaxpr.fold_constants(xpr.make_jaxpr(lambda x: x + jnp.sin(jnp.ones(3)))(jnp.zeros(3)))
    { lambda a:f32[3]; b:f32[3]. let c:f32[3] = add b a in (c,) }
    """
    closed = require_closed_jaxpr("fold_constants", closed)
    with at_the_bottom():
        return _Folding(closed.jaxpr, closed.consts, largest, {}).result()


def _folded(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without constants, with the scalars in it evaluated; cached with it."""
    if "folded" not in jaxpr.memo:
        smaller = _Folding(jaxpr, (), 1, None).result().jaxpr
        jaxpr.memo["folded"] = smaller
        smaller.memo["folded"] = None  # itself, which would be a reference cycle
    return jaxpr.memo["folded"] or jaxpr


def _names_an_axis(eqn: JaxprEqn) -> bool:
    """Whether the results of the equation depend on the position along a mapped axis."""
    if eqn.primitive.batch_named is None:
        return False
    return bool(named_axes(eqn.params)) or any(map(names_in, subjaxprs(eqn)))


class _Folding:
    """A pass over the equations of a jaxpr, with the values of the variables that are known.

    `called` has the folded jaxprs of functions that are called, by identity; it is None where only scalars are folded.
    """

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any], largest: int, called: dict[int, ClosedJaxpr] | None):
        self.jaxpr, self.largest, self.called = jaxpr, largest, called
        self.constvars, self.consts = list(jaxpr.constvars), list(consts)
        self.values: dict[Any, Any] = {v: x for v, x in zip(jaxpr.constvars, consts) if not isinstance(x, Tracer)}
        self.atoms: dict[Any, Atom] = {v: v for v in self.values}  # by which a value is read
        self.eqns: list[JaxprEqn] = []
        self.leading: dict[int, Var] = {}  # constants of what is called, by identity

    def result(self) -> ClosedJaxpr:
        for eqn in self.jaxpr.eqns:
            self.visit(eqn)
        context.source = None
        outvars = [self.read(v) for v in self.jaxpr.outvars]
        whole = self.jaxpr.replace(constvars=self.constvars, outvars=outvars, eqns=self.eqns)
        return without_unused_constants(whole, self.consts)

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
        if eqn.primitive.call:
            if self.called is not None and eqn.params.keys() == {"call_jaxpr", "name"}:  # none counts operands
                eqn = self.call(eqn, self.called)
            else:
                eqn = with_subjaxprs(eqn, _folded)
        self.eqns.append(eqn)

    def call(self, eqn: JaxprEqn, called: dict[int, ClosedJaxpr]) -> JaxprEqn:
        """The call of a folded function, whose constants lead the operands."""
        jaxpr = eqn.params["call_jaxpr"]
        if id(jaxpr) not in called:
            called[id(jaxpr)] = _Folding(jaxpr, (), self.largest, called).result()
        closed = called[id(jaxpr)]
        leading = [self.constant(v, x) for v, x in zip(closed.jaxpr.constvars, closed.consts)]
        params = {**eqn.params, "call_jaxpr": constvars_to_invars(closed)}
        return JaxprEqn([*leading, *eqn.invars], eqn.outvars, eqn.primitive, params, eqn.source)

    def constant(self, var: Var, value: Any) -> Var:
        """The variable of a constant of this jaxpr, one for all calls that take it."""
        if id(value) not in self.leading:
            leading = self.leading[id(value)] = Var(var.aval)
            self.constvars.append(leading)
            self.consts.append(value)
        return self.leading[id(value)]

    def is_worth(self, eqn: JaxprEqn) -> bool:
        avals = [v.aval for v in eqn.outvars]
        return all(aval.size <= self.largest and (self.called is not None or not aval.shape) for aval in avals)

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

"""in_place_sums : jaxpr -> jaxpr. Adds arrays that are zero but for a slice, or some rows, to those elements alone.

    { lambda ; a:f32[8] b:f32[2] c:i32[]. let
        d = broadcast_in_dim 0.0; e = dynamic_update_slice d b c; f = add_any a e in (f,) }
    { lambda ; a:f32[8] b:f32[2] c:i32[]. let
        g = dynamic_slice a c; h = add_any g b; f = dynamic_update_slice a h c in (f,) }

Such are the cotangents of arrays of which each step of a loop reads a part. In loops XLA updates these elements in
place, where the sum would read and write all of them in each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.primitives.collectives.varying import pvary_p
from xpr.primitives.dynamic_slices import dynamic_slice_p, dynamic_update_slice_p
from xpr.primitives.elementwise import add_any_p
from xpr.primitives.gather.gather_scatter import scatter_add_p
from xpr.primitives.shapes import broadcast_in_dim_p


class Sums:
    """The sums of a jaxpr, the equations that compute its variables, and how often each variable is read."""

    __slots__ = ("equations", "reads", "roots")

    def __init__(self, jaxpr: Jaxpr):
        self.equations: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.reads = Counter([v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal])
        self.reads.update([v for v in jaxpr.outvars if type(v) is not Literal])
        sums = [eqn for eqn in jaxpr.eqns if eqn.primitive is add_any_p]
        inner = {v for eqn in sums for v in eqn.invars if self.made_by(v, add_any_p)}
        self.roots = [eqn for eqn in sums if eqn.outvars[0] not in inner]  # those that are no terms of another

    def made_by(self, v: Any, *primitives: Any) -> JaxprEqn | None:
        """The equation that computes a variable, if it is of these primitives and is read once."""
        eqn = None if type(v) is Literal else self.equations.get(v)
        return eqn if eqn is not None and eqn.primitive in primitives and self.reads[v] == 1 else None

    def is_zero(self, v: Any) -> bool:
        """Whether a variable is an array of zeros."""
        if type(v) is Literal:
            return bool(v.val == 0)
        eqn = self.equations.get(v)
        return eqn is not None and eqn.primitive in (broadcast_in_dim_p, pvary_p) and self.is_zero(eqn.invars[0])

    def update(self, v: Any) -> JaxprEqn | None:
        """The equation that computes a variable by an update of zeros; None if another one does."""
        eqn = self.made_by(v, dynamic_update_slice_p, scatter_add_p)
        return eqn if eqn is not None and self.is_zero(eqn.invars[0]) else None

    def terms(self, eqn: JaxprEqn) -> tuple[list[Any], list[JaxprEqn]]:
        """The terms of a sum, those of its operands included that are sums which nothing else reads; and these sums."""
        terms: list[Any] = []
        inner: list[JaxprEqn] = []
        pending = list(reversed(eqn.invars))
        while pending:
            v = pending.pop()
            within = self.made_by(v, add_any_p)
            if within is None:
                terms.append(v)
            else:
                inner.append(within)
                pending += reversed(within.invars)
        return terms, inner


def in_place_sums(jaxpr: Jaxpr) -> Jaxpr:
    """The program with sums of updated zeros as updates of the other terms."""
    program = Sums(jaxpr)
    replaced: dict[int, list[JaxprEqn]] = {}  # by the sum that an equation is part of, or replaced by
    for eqn in program.roots:
        terms, inner = program.terms(eqn)
        updates = [update for update in map(program.update, terms) if update is not None]
        others = [v for v in terms if program.update(v) is None]
        if updates and others:
            replaced.update((id(each), []) for each in (*updates, *inner))
            replaced[id(eqn)] = _updated(others, updates, eqn)
    if not replaced:
        return jaxpr
    return jaxpr.replace(eqns=[each for eqn in jaxpr.eqns for each in replaced.get(id(eqn), [eqn])])


def _updated(others: Sequence[Any], updates: Sequence[JaxprEqn], root: JaxprEqn) -> list[JaxprEqn]:
    """The equations that sum terms, and then update the sum; the last result is that of `root`."""
    total, *rest = others
    eqns: list[JaxprEqn] = []

    def add(primitive: Any, operands: Sequence[Any], params: dict[str, Any], aval: Any) -> Var:
        result = Var(aval)
        eqns.append(JaxprEqn(operands, [result], primitive, params, root.source))
        return result

    for term in rest:
        total = add(add_any_p, [total, term], {}, root.outvars[0].aval)
    for update in updates:
        _, *operands = update.invars
        if update.primitive is scatter_add_p:
            total = add(scatter_add_p, [total, *operands], update.params, root.outvars[0].aval)
            continue
        values, *starts = operands
        part = add(dynamic_slice_p, [total, *starts], {"slice_sizes": values.aval.shape}, values.aval)
        total = add(dynamic_update_slice_p, [total, add(add_any_p, [part, values], {}, values.aval), *starts], {},
                    root.outvars[0].aval)  # fmt: skip
    *before, last = eqns
    return [*before, last.replace(outvars=root.outvars)]

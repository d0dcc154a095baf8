"""Which values vary over the devices inside a shard_map, inferred from its jaxpr.

A value varies over those axes of the mesh over which one of its operands does. A sum over an axis, and any other
operation with the same result on all devices, is replicated over it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.custom.replicated_cotangents import of_copies_p
from xpr.control.custom.replicated_vjp import CountedRule
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, make_literal, subjaxprs, with_subjaxprs
from xpr.core.regions import propagate, regions_of
from xpr.core.source import line_with_text
from xpr.primitives.collectives.exchange import all_gather_p, all_to_all_p, ppermute_p, reduce_scatter_p
from xpr.primitives.collectives.reduce import pmax_p, pmin_p, psum_p
from xpr.primitives.collectives.varying import pvary_p
from xpr.primitives.elementwise import div_p, mul_p
from xpr.transforms.batch import named_axes

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def varying_axes(jaxpr: Jaxpr, arguments: Sequence[Axes]) -> list[Axes]:
    """For each result the axes over which it may vary, from those of the arguments."""
    return Replication({}, (psum_p, pmax_p, pmin_p, all_gather_p)).infer(jaxpr, arguments)[1]


def resolve_of_copies(jaxpr: Jaxpr, arguments: Sequence[Axes], sizes: Mapping[Any, int]) -> Jaxpr:
    """The program with `of_copies` replaced by its operations over axes of these sizes.

    `arguments` says for each argument over which of the axes it varies; constants are replicated. Gathered values
    count as varying, as in JAX.
    """
    if not _holds_copies(jaxpr):
        return jaxpr
    return Replication(sizes, (psum_p, pmax_p, pmin_p)).infer(jaxpr, arguments)[0]


def _holds_copies(jaxpr: Jaxpr) -> bool:
    if "copies" not in jaxpr.memo:
        jaxpr.memo["copies"] = any(
            eqn.primitive in (of_copies_p, custom_vjp_call_p) or any(map(_holds_copies, subjaxprs(eqn)))
            for eqn in jaxpr.eqns
        )
    return jaxpr.memo["copies"]


class Replication:
    """Infers the axes over which values vary, through jaxprs, and rebuilds these with `of_copies` replaced."""

    def __init__(self, sizes: Mapping[Any, int], replicating: Sequence[Any]):
        self.sizes, self.replicating = sizes, replicating
        self.known: dict[Any, tuple[Jaxpr, list[Axes]]] = {}

    def infer(self, jaxpr: Jaxpr, arguments: Sequence[Axes]) -> tuple[Jaxpr, list[Axes]]:
        """The jaxpr with `of_copies` replaced, and the axes over which its results vary."""
        key = (jaxpr, *arguments)
        if key not in self.known:
            self.known[key] = self._infer(jaxpr, arguments)
        return self.known[key]

    def _infer(self, jaxpr: Jaxpr, arguments: Sequence[Axes]) -> tuple[Jaxpr, list[Axes]]:
        env: dict[Any, Axes] = dict(zip(jaxpr.invars, arguments))
        aliases: dict[Any, Any] = {}  # of results that are equal to an operand

        def read(atom: Any) -> Axes:
            return _NONE if type(atom) is Literal else env.get(atom, _NONE)

        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            if aliases and not aliases.keys().isdisjoint(v for v in eqn.invars if type(v) is not Literal):
                eqn = eqn.replace(invars=_replaced(eqn.invars, aliases))
            operands = [read(v) for v in eqn.invars]
            if eqn.primitive is of_copies_p:
                replacement, varying = self.replace_of_copies(eqn, operands)
                if not replacement:
                    aliases[eqn.outvars[0]] = eqn.invars[0]
            else:
                replacement, varying = self.equation(eqn, operands)
            eqns += replacement
            env.update(zip(eqn.outvars, varying))
        results = [read(v) for v in jaxpr.outvars]
        if len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns)):
            return jaxpr, results
        return jaxpr.replace(eqns=eqns, outvars=_replaced(jaxpr.outvars, aliases)), results

    def replace_of_copies(self, eqn: JaxprEqn, operands: Sequence[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        """Divides, sums or multiplies over these axes; those of an enclosing shard_map are left to that."""
        (x, *likes), varying, like_varying = eqn.invars, operands[0], _NONE.union(*operands[1:])
        what, axes = eqn.params["what"], eqn.params["over"]
        equal = [name for name, _ in axes if name in self.sizes and name not in like_varying]
        outer_axes = tuple([axis for axis in axes if axis[0] not in self.sizes])
        steps: list[tuple[Any, list[Any], dict[str, Any]]] = []
        if what == "sum" and (summed := tuple([name for name in equal if name in varying])):
            steps.append((psum_p, [], {"axes": summed, "axis_index_groups": None}))
        for name in equal:
            if what == "share" or name not in varying:
                steps.append((div_p if what == "share" else mul_p, [number(self.sizes[name], x.aval)], {}))
        if outer_axes:
            steps.append((of_copies_p, likes, {"what": what, "over": outer_axes}))
        eqns = []
        for i, (primitive, more, params) in enumerate(steps):
            out = eqn.outvars[0] if i == len(steps) - 1 else Var(x.aval)
            eqns.append(JaxprEqn([x, *more], [out], primitive, params, eqn.source))
            x = out
        return eqns, [varying if what == "share" else varying & (like_varying | {name for name, _ in outer_axes})]

    def equation(self, eqn: JaxprEqn, operands: list[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        """Another operation, with `of_copies` replaced in its jaxprs."""
        union = _NONE.union(*operands)
        if not eqn.primitive.call:
            if eqn.primitive is psum_p and self.sizes:
                return self.sums(eqn, operands)
            if eqn.primitive.batch_named is not None:
                named = frozenset(named_axes(eqn.params))
                if eqn.primitive in self.replicating and eqn.params.get("axis_index_groups") is None:
                    return [eqn], [axes - named for axes in operands]
                union |= named
            return [eqn], [union] * len(eqn.outvars)
        changed: dict[Jaxpr, Jaxpr] = {}

        def visit(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            changed[jaxpr], results = self.infer(jaxpr, axes)
            return results

        regions = regions_of(eqn)
        if regions:
            results = propagate(regions, operands, len(eqn.outvars), visit, frozenset.union, _NONE)
        else:
            results = [union] * len(eqn.outvars)
        eqn = with_subjaxprs(eqn, lambda jaxpr: changed.get(jaxpr, jaxpr))
        if eqn.primitive is custom_vjp_call_p and self.sizes:
            eqn = eqn.replace(params={**eqn.params, "fwd": self.counted_rule(operands, results, **eqn.params)})
        return [eqn], results

    def sums(self, eqn: JaxprEqn, operands: Sequence[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        """A psum, which is a multiple of what is the same on all devices along some of its axes."""
        axes: tuple[Any, ...] = eqn.params["axes"]
        if eqn.params["axis_index_groups"] is not None:
            return [eqn], [_NONE.union(axes, *operands)] * len(operands)
        varying = [operand.difference(axes) for operand in operands]
        if all(name in operand or name not in self.sizes for operand in operands for name in axes):
            return [eqn], varying
        eqns = []
        for x, out, each in zip(eqn.invars, eqn.outvars, operands):
            copies = math.prod([self.sizes[name] for name in axes if name in self.sizes and name not in each])
            added = tuple([name for name in axes if name not in self.sizes or name in each])
            if added:
                total = out if copies == 1 else Var(out.aval)
                eqns.append(eqn.replace(invars=[x], outvars=[total], params={**eqn.params, "axes": added}))
                x = total
            if x is not out:
                eqns.append(JaxprEqn([x, number(copies, out.aval)], [out], mul_p, {}, eqn.source))
        return eqns, varying

    def counted_rule(
        self, operands: Sequence[Axes], results: Sequence[Axes], *, fwd: Any, call_jaxpr: Jaxpr, **_: Any
    ) -> CountedRule:
        def varying_axes(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            return Replication({}, self.replicating).infer(jaxpr, axes)[1]

        return CountedRule(fwd, call_jaxpr, operands, results, self.sizes, varying_axes)


class _Divergence(Replication):
    """Looks for branches and loops whose predicates vary over an axis and whose jaxprs communicate over it."""

    def __init__(self) -> None:
        super().__init__({}, (psum_p, pmax_p, pmin_p, all_gather_p))
        self.communicating: list[tuple[JaxprEqn, Any]] = []

    def equation(self, eqn: JaxprEqn, operands: list[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        eqns, results = super().equation(eqn, operands)
        divergent = self.divergent_axes(eqn, operands, results) if eqn.primitive.call else _NONE
        if divergent:
            names = [name for jaxpr in subjaxprs(eqn) for name in _communicated(jaxpr) if name in divergent]
            self.communicating += [(eqn, name) for name in names]
        return eqns, results

    def divergent_axes(self, eqn: JaxprEqn, operands: list[Axes], results: list[Axes]) -> Axes:
        """The axes over which devices may take different branches, or numbers of steps."""
        regions = regions_of(eqn)
        decisions = [region._replace(results=((),) * len(region.results)) for region in regions]

        def visit(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            return self.infer(jaxpr, axes)[1]

        return propagate(decisions, operands, 1, visit, frozenset.union, _NONE)[0] if regions else _NONE


def find_divergence(jaxpr: Jaxpr, arguments: Sequence[Axes]) -> tuple[JaxprEqn, Any] | None:
    """A loop or a cond that devices along an axis may run differently, and that communicates over this axis.

    `arguments` says for each argument over which axes it varies.
    """
    divergence = _Divergence()
    divergence.infer(jaxpr, arguments)
    return divergence.communicating[0] if divergence.communicating else None


_COMMUNICATING = (psum_p, pmax_p, pmin_p, all_gather_p, reduce_scatter_p, ppermute_p, all_to_all_p)


def _communicated(jaxpr: Jaxpr) -> Axes:
    """The axes over which a jaxpr communicates; cached with it."""
    if "communicated" not in jaxpr.memo:
        outer = [frozenset(named_axes(eqn.params)) for eqn in jaxpr.eqns if eqn.primitive in _COMMUNICATING]
        inner = [_communicated(inner_jaxpr) for eqn in jaxpr.eqns for inner_jaxpr in subjaxprs(eqn)]
        jaxpr.memo["communicated"] = _NONE.union(*outer, *inner)
    return jaxpr.memo["communicated"]


def _replaced(atoms: Sequence[Any], aliases: Mapping[Any, Any]) -> list[Any]:
    return [atom if type(atom) is Literal else aliases.get(atom, atom) for atom in atoms]


def number(n: int, aval: ShapedArray) -> Literal:
    scalar = aval.update(shape=())
    return make_literal(scalar.dtype.type(n), scalar)


def of_each_row(jaxpr: Jaxpr, along: tuple[Any, ...], sizes: dict[Any, int]) -> Jaxpr:
    """The program of a shard_map for rows that a vmap shards along axes; cached with the jaxpr.

    No spec names these axes, so that every value is the same along them for each row: a sum over them is a multiple.

    Raises:
      ValueError: there is another communication along them.
    """
    key = ("of each row", along)
    if key not in jaxpr.memo:
        eqns = [new_eqn for eqn in jaxpr.eqns for new_eqn in _of_each_row(eqn, along, sizes)]
        jaxpr.memo[key] = jaxpr.replace(eqns=eqns)
    return jaxpr.memo[key]


def _of_each_row(eqn: JaxprEqn, along: tuple[Any, ...], sizes: dict[Any, int]) -> list[JaxprEqn]:
    if eqn.primitive.call:
        return [with_subjaxprs(eqn, lambda inner: of_each_row(inner, along, sizes))]
    named = named_axes(eqn.params) if eqn.primitive.batch_named is not None else ()
    if eqn.primitive is pvary_p or not set(along).intersection(named):
        return [eqn]
    if eqn.primitive is not psum_p or eqn.params["axis_index_groups"] is not None:
        raise ValueError(
            f"shard_map: vmap spmd_axis_name shards its rows over {along}, and `{eqn.primitive}` in the function "
            f"communicates along {named}, which would mix rows. Map over another axis.\n"
            f"  {eqn.primitive} at {line_with_text(eqn.source)}"
        )
    others = tuple([name for name in named if name not in along])
    count = math.prod([sizes[name] for name in named if name in along])
    eqns, sums = [], list(eqn.invars)
    if others:
        sums = [Var(v.aval) for v in eqn.outvars]
        eqns.append(eqn.replace(outvars=sums, params={**eqn.params, "axes": others}))
    for x, out in zip(sums, eqn.outvars):
        eqns.append(JaxprEqn([x, number(count, x.aval)], [out], mul_p, {}, eqn.source))
    return eqns

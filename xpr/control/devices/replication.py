"""What differs from device to device inside a shard_map, worked out from its jaxpr.

A value differs along those axes of the mesh along which something that it is computed from does. A sum over an axis,
and whatever else gives all devices the same, does not differ along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.custom.replicated_cotangents import of_copies_p
from xpr.control.custom.replicated_vjp import CountedRule
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, make_literal, subjaxprs, with_subjaxprs
from xpr.core.regions import propagate, regions_of
from xpr.primitives.collectives.exchange import all_gather_p, all_to_all_p, ppermute_p, reduce_scatter_p
from xpr.primitives.collectives.reduce import pmax_p, pmin_p, psum_p
from xpr.primitives.elementwise import div_p, mul_p
from xpr.transforms.batch import named_axes

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def differing(jaxpr: Jaxpr, given: Sequence[Axes]) -> list[Axes]:
    """For each result the axes along which it may differ, from those of the arguments."""
    return _Following({}, (psum_p, pmax_p, pmin_p, all_gather_p)).through(jaxpr, given)[1]


def settled(jaxpr: Jaxpr, given: Sequence[Axes], sizes: Mapping[Any, int]) -> Jaxpr:
    """The program with `of_copies` replaced by what it is along axes of these sizes.

    `given` says of each argument along which of the axes it differs; constants differ along none. What is gathered
    counts as differing, as in JAX.
    """
    if not _holds_copies(jaxpr):
        return jaxpr
    return _Following(sizes, (psum_p, pmax_p, pmin_p)).through(jaxpr, given)[0]


def _holds_copies(jaxpr: Jaxpr) -> bool:
    if "copies" not in jaxpr.memo:
        jaxpr.memo["copies"] = any(
            eqn.primitive in (of_copies_p, custom_vjp_call_p) or any(map(_holds_copies, subjaxprs(eqn)))
            for eqn in jaxpr.eqns
        )
    return jaxpr.memo["copies"]


class _Following:
    """Goes through jaxprs, with the axes along which values differ; writes what it settles anew."""

    def __init__(self, sizes: Mapping[Any, int], make_equal: Sequence[Any]):
        self.sizes, self.make_equal = sizes, make_equal
        self.known: dict[Any, tuple[Jaxpr, list[Axes]]] = {}

    def through(self, jaxpr: Jaxpr, given: Sequence[Axes]) -> tuple[Jaxpr, list[Axes]]:
        """The jaxpr with all settled, and what is known of its results."""
        key = (jaxpr, *given)
        if key not in self.known:
            self.known[key] = self._through(jaxpr, given)
        return self.known[key]

    def _through(self, jaxpr: Jaxpr, given: Sequence[Axes]) -> tuple[Jaxpr, list[Axes]]:
        env: dict[Any, Axes] = dict(zip(jaxpr.invars, given))
        instead: dict[Any, Any] = {}  # of results that turned out to be an operand

        def read(atom: Any) -> Axes:
            return _NONE if type(atom) is Literal else env.get(atom, _NONE)

        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            if instead and not instead.keys().isdisjoint(v for v in eqn.invars if type(v) is not Literal):
                eqn = eqn.replace(invars=_replaced(eqn.invars, instead))
            operands = [read(v) for v in eqn.invars]
            if eqn.primitive is of_copies_p:
                made, found = self.copies(eqn, operands)
                if not made:
                    instead[eqn.outvars[0]] = eqn.invars[0]
            else:
                made, found = self.equation(eqn, operands)
            eqns += made
            env.update(zip(eqn.outvars, found))
        results = [read(v) for v in jaxpr.outvars]
        if len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns)):
            return jaxpr, results
        return jaxpr.replace(eqns=eqns, outvars=_replaced(jaxpr.outvars, instead)), results

    def copies(self, eqn: JaxprEqn, given: Sequence[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        """Divides, sums or multiplies along our axes; along those of a shard_map around nothing is settled yet."""
        (x, *likes), differs, like_differs = eqn.invars, given[0], _NONE.union(*given[1:])
        what, axes = eqn.params["what"], eqn.params["over"]
        equal = [name for name, _ in axes if name in self.sizes and name not in like_differs]
        rest = tuple([axis for axis in axes if axis[0] not in self.sizes])
        steps: list[tuple[Any, list[Any], dict[str, Any]]] = []
        if what == "sum" and (apart := tuple([name for name in equal if name in differs])):
            steps.append((psum_p, [], {"axes": apart, "axis_index_groups": None}))
        for name in equal:
            if what == "share" or name not in differs:
                steps.append((div_p if what == "share" else mul_p, [_number(self.sizes[name], x.aval)], {}))
        if rest:
            steps.append((of_copies_p, likes, {"what": what, "over": rest}))
        made = []
        for i, (primitive, more, params) in enumerate(steps):
            out = eqn.outvars[0] if i == len(steps) - 1 else Var(x.aval)
            made.append(JaxprEqn([x, *more], [out], primitive, params, eqn.source))
            x = out
        return made, [differs if what == "share" else differs & (like_differs | {name for name, _ in rest})]

    def equation(self, eqn: JaxprEqn, given: list[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        """Another operation, in whose jaxprs all is settled."""
        together = _NONE.union(*given)
        if not eqn.primitive.call:
            if eqn.primitive.batch_named is not None:
                names = frozenset(named_axes(eqn.params))
                if eqn.primitive in self.make_equal and eqn.params.get("axis_index_groups") is None:
                    return [eqn], [each - names for each in given]
                together |= names
            return [eqn], [together] * len(eqn.outvars)
        changed: dict[Jaxpr, Jaxpr] = {}

        def visit(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            changed[jaxpr], found = self.through(jaxpr, axes)
            return found

        regions = regions_of(eqn)
        if regions:
            found = propagate(regions, given, len(eqn.outvars), visit, frozenset.union, _NONE)
        else:
            found = [together] * len(eqn.outvars)
        eqn = with_subjaxprs(eqn, lambda jaxpr: changed.get(jaxpr, jaxpr))
        if eqn.primitive is custom_vjp_call_p and self.sizes:
            eqn = eqn.replace(params={**eqn.params, "fwd": self.counted_rule(given, found, **eqn.params)})
        return [eqn], found

    def counted_rule(
        self, given: Sequence[Axes], found: Sequence[Axes], *, fwd: Any, call_jaxpr: Jaxpr, **_: Any
    ) -> CountedRule:
        def differing(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            return _Following({}, self.make_equal).through(jaxpr, axes)[1]

        return CountedRule(fwd, call_jaxpr, given, found, self.sizes, differing)


class _Parting(_Following):
    """Looks for choices that differ along an axis along which what is chosen communicates."""

    def __init__(self) -> None:
        super().__init__({}, (psum_p, pmax_p, pmin_p, all_gather_p))
        self.found: list[tuple[JaxprEqn, Any]] = []

    def equation(self, eqn: JaxprEqn, given: list[Axes]) -> tuple[list[JaxprEqn], list[Axes]]:
        made, found = super().equation(eqn, given)
        decided = self.decided(eqn, given, found) if eqn.primitive.call else _NONE
        if decided:
            apart = [name for jaxpr in subjaxprs(eqn) for name in _communicated(jaxpr) if name in decided]
            self.found += [(eqn, name) for name in apart]
        return made, found

    def decided(self, eqn: JaxprEqn, given: list[Axes], found: list[Axes]) -> Axes:
        """The axes along which devices may take different branches, or numbers of steps."""
        regions = regions_of(eqn)
        decisions = [region._replace(results=((),) * len(region.results)) for region in regions]

        def visit(jaxpr: Jaxpr, axes: Sequence[Axes]) -> list[Axes]:
            return self.through(jaxpr, axes)[1]

        return propagate(decisions, given, 1, visit, frozenset.union, _NONE)[0] if regions else _NONE


def parting(jaxpr: Jaxpr, given: Sequence[Axes]) -> tuple[JaxprEqn, Any] | None:
    """A loop or a choice that devices along an axis may go through differently, and in which they wait for each other.

    `given` says of each argument along which axes it differs.
    """
    looked = _Parting()
    looked.through(jaxpr, given)
    return looked.found[0] if looked.found else None


_COMMUNICATING = (psum_p, pmax_p, pmin_p, all_gather_p, reduce_scatter_p, ppermute_p, all_to_all_p)


def _communicated(jaxpr: Jaxpr) -> Axes:
    """The axes along which a jaxpr communicates, remembered with it."""
    if "communicated" not in jaxpr.memo:
        own = [frozenset(named_axes(eqn.params)) for eqn in jaxpr.eqns if eqn.primitive in _COMMUNICATING]
        inner = [_communicated(each) for eqn in jaxpr.eqns for each in subjaxprs(eqn)]
        jaxpr.memo["communicated"] = _NONE.union(*own, *inner)
    return jaxpr.memo["communicated"]


def _replaced(atoms: Sequence[Any], instead: Mapping[Any, Any]) -> list[Any]:
    return [atom if type(atom) is Literal else instead.get(atom, atom) for atom in atoms]


def _number(n: int, aval: ShapedArray) -> Literal:
    scalar = aval.update(shape=())
    return make_literal(scalar.dtype.type(n), scalar)

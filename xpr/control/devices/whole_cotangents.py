"""The transposed program of a checked shard_map, from whole cotangents to whole cotangents.

A transposed program is right where each device gets its share of the cotangent of a replicated result, and a replicated
operand has the sum of what the devices compute (control/custom/replicated_cotangents.py). Division and sum cancel where
a cotangent stays the same on all devices:

    sum over devices of f(ct / n)  =  f(ct)        f linear, with the same value on each of n devices

So division is put off. Each value that cotangents flow into is computed from undivided ones, with the axes over whose
sizes it has still to be divided: its *pending* axes. A sum over pending axes of a value that is the same along them is
the value itself, and no communication; where values with different pending axes meet, they are divided first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xpr.control.devices.replication import Axes, Replication, number
from xpr.control.groups import split_list
from xpr.core.avals import is_differentiable
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import Primitive
from xpr.core.source import Source
from xpr.primitives.collectives.exchange import all_gather_p
from xpr.primitives.collectives.reduce import pmax_p, pmin_p, psum_p
from xpr.primitives.collectives.varying import pvary_p
from xpr.primitives.elementwise import div_p

_NONE: Axes = frozenset()
_FLOWS = object()  # beside axes over which a value varies: that cotangents flow into it


def of_whole_cotangents(
    jaxpr: Jaxpr,
    arguments: Sequence[Axes],
    copied: Sequence[Sequence[Any]],
    summed: Sequence[Sequence[Any]],
    sizes: Mapping[Any, int],
) -> Jaxpr:
    """The program with shares and sums in it; cached with it.

    Args:
      jaxpr: the transposed program on one device, whose last arguments are shares of cotangents.
      arguments: the axes over which each of its arguments varies.
      copied: the axes over which each of the cotangents is replicated, of which each device is to have a share.
      summed: the axes over which each of the results is to be summed.
      sizes: the sizes of all the axes.
    """
    key = ("of whole cotangents", *arguments, None, *copied, None, *summed)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _WholeCotangents(sizes).program(jaxpr, arguments, copied, summed)
    return jaxpr.memo[key]


class _WholeCotangents:
    """Rewrites the equations of one program, from the first to the last."""

    def __init__(self, sizes: Mapping[Any, int]):
        self.sizes = sizes
        self.replication = Replication(sizes, (psum_p, pmax_p, pmin_p, all_gather_p))
        self.eqns: list[JaxprEqn] = []
        self.varying: dict[Any, Axes] = {}
        self.pending: dict[Any, Axes] = {}
        self.renamed: dict[Any, Any] = {}

    def program(
        self, jaxpr: Jaxpr, arguments: Sequence[Axes], copied: Sequence[Sequence[Any]], summed: Sequence[Sequence[Any]]
    ) -> Jaxpr:
        self.varying.update(zip(jaxpr.invars, arguments))
        _, cotangents = split_list(jaxpr.invars, len(jaxpr.invars) - len(copied))
        for v, axes in zip(cotangents, copied):
            self.varying[v] = self.varying[v] | {_FLOWS}
            self.pending[v] = frozenset(axes)
        for eqn in jaxpr.eqns:
            self.equation(eqn.replace(invars=[self.current(v) for v in eqn.invars]))
        outvars = [self.result(self.current(v), frozenset(axes)) for v, axes in zip(jaxpr.outvars, summed)]
        return jaxpr.replace(eqns=self.eqns, outvars=outvars)

    def current(self, atom: Any) -> Any:
        return atom if type(atom) is Literal else self.renamed.get(atom, atom)

    def axes(self, atom: Any) -> Axes:
        return _NONE if type(atom) is Literal else self.varying.get(atom, _NONE)

    def pending_of(self, atom: Any) -> Axes:
        return _NONE if type(atom) is Literal else self.pending.get(atom, _NONE)

    def equation(self, eqn: JaxprEqn) -> None:
        """An equation, linear in the values that cotangents flow into, which it takes with the same pending axes."""
        if eqn.primitive is psum_p and eqn.params["axis_index_groups"] is None:
            for x, out in zip(eqn.invars, eqn.outvars):
                self.renamed[out] = self.sum(x, eqn.params["axes"], eqn.source)
            return
        flowing = [v for v in eqn.invars if _FLOWS in self.axes(v)]
        common = frozenset.intersection(*map(self.pending_of, flowing)) if flowing else _NONE
        invars = [self.divided(v, self.pending_of(v) - common, eqn.source) for v in eqn.invars]
        replacement, varying = self.replication.equation(eqn.replace(invars=invars), list(map(self.axes, invars)))
        self.eqns += replacement
        for v, axes in zip(eqn.outvars, varying):
            self.varying[v] = axes
            if _FLOWS in axes and is_differentiable(v.aval):
                self.pending[v] = common

    def sum(self, x: Any, axes: Sequence[Any], source: Source | None) -> Any:
        """The sum over axes; a value that is the same along pending axes is not summed over those."""
        varying, pending = self.axes(x), self.pending_of(x)
        whole = tuple([name for name in axes if name in pending and name not in varying])
        others = tuple([name for name in axes if name not in whole])
        if whole:
            x = self.step(pvary_p, x, [], {"axes": whole}, pending.difference(whole), source)
        if others:
            out = Var(x.aval)
            summed = JaxprEqn([x], [out], psum_p, {"axes": others, "axis_index_groups": None}, source)
            replacement, (self.varying[out],) = self.replication.sums(summed, [varying])
            self.eqns += replacement
            self.pending[out] = self.pending_of(x)
            x = out
        return x

    def divided(self, x: Any, axes: Axes, source: Source | None) -> Any:
        count = math.prod([self.sizes[name] for name in axes])
        if count == 1:
            return x
        return self.step(div_p, x, [number(count, x.aval)], {}, self.pending_of(x) - axes, source)

    def step(
        self,
        primitive: Primitive,
        x: Any,
        more: list[Any],
        params: dict[str, Any],
        pending: Axes,
        source: Source | None,
    ) -> Any:
        out = Var(x.aval)
        self.eqns.append(JaxprEqn([x, *more], [out], primitive, params, source))
        self.varying[out], self.pending[out] = self.axes(x), pending
        return out

    def result(self, x: Any, axes: Axes) -> Any:
        """A result of the program: summed over axes, and divided by the sizes of others that are pending."""
        pending = self.pending_of(x)
        whole = (axes & pending) - self.axes(x)
        x = self.sum(x, [name for name in self.sizes if name in axes - whole], None)
        return self.divided(x, pending - whole, None)

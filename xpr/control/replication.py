"""What differs from device to device inside a shard_map, worked out from its jaxpr.

A value differs along those axes of the mesh along which something that it is computed from does. A sum over an axis,
and whatever else gives all devices the same, does not differ along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, subjaxprs
from xpr.primitives.collectives import pmax_p, pmin_p, psum_p
from xpr.primitives.exchanges import all_gather_p
from xpr.transforms.batch import named_axes
from xpr.transforms.inline import called_jaxpr

Axes = frozenset[Any]
_MAKE_EQUAL = (psum_p, pmax_p, pmin_p, all_gather_p)
_NONE: Axes = frozenset()


def differing(jaxpr: Jaxpr, given: Sequence[Axes]) -> list[Axes]:
    """For each result the axes along which it may differ, from those of the arguments."""
    env: dict[Any, Axes] = dict(zip(jaxpr.invars, given))

    def read(atom: Any) -> Axes:
        return _NONE if type(atom) is Literal else env.get(atom, _NONE)

    for eqn in jaxpr.eqns:
        env.update(zip(eqn.outvars, _of_equation(eqn, [read(v) for v in eqn.invars])))
    return [read(v) for v in jaxpr.outvars]


def _of_equation(eqn: JaxprEqn, given: list[Axes]) -> list[Axes]:
    together = _NONE.union(*given)
    called = called_jaxpr(eqn)
    if called is not None:
        return differing(called, given)
    if eqn.primitive.batch_named is not None and not eqn.primitive.call:
        names = frozenset(named_axes(eqn.params))
        grouped = eqn.params.get("axis_index_groups") is not None
        together = together - names if eqn.primitive in _MAKE_EQUAL and not grouped else together | names
        return [together] * len(eqn.outvars)
    before = None
    while before != together:  # loops give what they are given
        before = together
        for inner in subjaxprs(eqn):
            together = together.union(*differing(inner, [together] * len(inner.invars)))
    return [together] * len(eqn.outvars)

"""Fusion barriers: values that XLA:CPU must not recompute in each of their readers, see `Builder.fusion_barrier`.

XLA fuses a cheap operation into every operation that reads it. Where sums are added to sums (a residual stream, and the
cotangents that a deep network adds to each other; a simulation written out step by step) each reader recomputes the
whole chain: time to compile and to run grow with the square of its length. Three kinds of values get a barrier, all of
more than one axis and read by several equations:

    cotangents    that accumulate
    streams       sums of which one depends on another; some reader needs each in memory anyway
    long chains   values for which many operations would be recomputed
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.primitive import FUSED
from xpr.core.regions import called_jaxpr
from xpr.primitives.elementwise import add_any_p, add_p, sub_p

_LONG = 48  # operations
_MANY = frozenset(range(-1, -2 - _LONG, -1))  # any set of more than `_LONG` operations


def is_fused(eqn: JaxprEqn) -> bool:
    """Whether XLA computes the results of an equation inside their readers, or they are views."""
    return eqn.primitive.fusion == "view" or eqn.primitive.fusion in FUSED


def is_expensive(eqn: JaxprEqn) -> bool:
    """Whether XLA computes the results of an equation once, even if several equations read them."""
    return eqn.primitive.fusion in ("vectorized", "expensive")


def fusion_barriers(jaxpr: Jaxpr) -> set[Any]:
    """The variables of a jaxpr that are to be computed once, behind a fusion barrier."""
    if len(jaxpr.eqns) < 2:
        return set()
    readers, in_memory = _readers(jaxpr)
    if not any(n > 1 and v.aval.ndim > 1 for v, n in readers.items()):
        return set()
    barriers: set[Any] = set()
    chain: dict[Any, frozenset[int]] = {}  # the operations that a reader would recompute, by number; or _MANY
    last_sum: dict[Any, Any] = {}  # the sum of a stream that a value depends on
    number = 0
    for eqn in jaxpr.eqns:
        weight = _weight(eqn)
        if not weight:
            continue
        operations = _union(range(number, number + weight), [chain[v] for v in eqn.invars if v in chain])
        number += weight
        before = next((last_sum[v] for v in reversed(eqn.invars) if v in last_sum), None)
        primitive = eqn.primitive
        for v in eqn.outvars:
            several = readers[v] > 1
            if several and is_expensive(eqn):
                continue
            is_sum = several and primitive in (add_p, sub_p) and v in in_memory and v.aval.ndim > 1
            if is_sum and before is not None:
                barriers |= {v, before}
                chain.pop(before, None)
            elif several and v.aval.ndim > 1 and (primitive is add_any_p or operations is _MANY):
                barriers.add(v)
            else:
                chain[v] = operations
            if is_sum:
                last_sum[v] = v
            elif before is not None:
                last_sum[v] = before
    return barriers


def _union(new: range, others: list[frozenset[int]]) -> frozenset[int]:
    if any(each is _MANY for each in others):
        return _MANY
    operations = frozenset(new).union(*others)
    return operations if len(operations) <= _LONG else _MANY


def _readers(jaxpr: Jaxpr) -> tuple[Counter[Any], set[Any]]:
    """How many equations read each variable; and those that some reader needs in memory."""
    readers: Counter[Any] = Counter()
    in_memory: set[Any] = {v for v in jaxpr.outvars if type(v) is not Literal}
    for eqn in jaxpr.eqns:
        read = {v for v in eqn.invars if type(v) is not Literal}
        readers.update(read)
        if not _weight(eqn):
            in_memory |= read
    return readers, in_memory


def _weight(eqn: JaxprEqn) -> int:
    """The number of operations of an equation that XLA fuses; 0 if it does not."""
    if is_fused(eqn):
        return 1
    called = called_jaxpr(eqn)
    return 0 if called is None else min(len(called.eqns), _LONG + 1)

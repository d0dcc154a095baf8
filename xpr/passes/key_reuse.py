"""key_uses : jaxpr -> which random keys it consumes. Finds keys that are used twice, and give the same numbers twice.

A key is consumed by the operations that draw numbers from it, and by splitting it; new keys come from seeds, splits,
`fold_in` and `random.clone`. Operations that only move a key give the same key again. A `Uses` describes what an
operation does with the keys among its operands and results. The `Uses` of a jaxpr is derived from its equations, and
cached with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import is_key
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.primitive import Primitive
from xpr.core.regions import Region, regions_of
from xpr.core.source import Source, is_of_call, line_with_text
from xpr.errors import KeyReuseError
from xpr.primitives import elementwise as e
from xpr.primitives import random_keys, shapes, slicing
from xpr.primitives.dynamic_slices import dynamic_slice_p
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.sharding_constraint import sharding_constraint_p

Mask = Any  # which of the keys of an array: a bool, or an array of them


class Uses(NamedTuple):
    """What an operation does with keys.

    Attributes:
      consumed: by the positions of operands, which of their keys it consumes, and the line where it does.
      same: by the positions of results that are the same keys as an operand, the position of the operand.
      used: by the positions of results that are consumed already, which of their keys, and where.
    """

    consumed: dict[int, tuple[Mask, Source | None]]
    same: dict[int, int]
    used: dict[int, tuple[Mask, Source | None]]


_MOVES = frozenset({
    e.copy_p, e.convert_element_type_p, shapes.broadcast_in_dim_p, shapes.reshape_p, shapes.squeeze_p,
    shapes.transpose_p, shapes.rev_p, dynamic_slice_p, gather_p, sharding_constraint_p,
})  # fmt: skip
_ONLY_READ = frozenset({e.eq_p, e.ne_p, random_keys.random_unwrap_p, random_keys.random_fold_in_p})


def touches_keys(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation may consume keys."""
    return primitive.regions is not None or any(is_key(aval) for x in args if (aval := getattr(x, "aval", None)))


def uses_of(eqn: JaxprEqn) -> Uses:
    """What an equation does with keys.

    Raises:
      KeyReuseError: a program in it uses a key twice.
    """
    if eqn.params.get("differentiated"):  # a rematerialized call: its keys were used by the forward pass already
        return Uses({}, {}, {})
    if eqn.primitive.regions is not None:
        return _of_regions(eqn)
    keys = [i for i, v in enumerate(eqn.invars) if is_key(v.aval) and 0 not in v.aval.shape]
    if eqn.primitive in _ONLY_READ or not keys or eqn.primitive.effects is not None:
        return Uses({}, {}, {})
    if eqn.primitive in _MOVES:
        return Uses({}, {0: 0}, {})
    if eqn.primitive is slicing.slice_p:
        return Uses({0: (_sliced(eqn), eqn.source)}, {}, {})
    return Uses(dict.fromkeys(keys, (True, eqn.source)), {}, {})


def _sliced(eqn: JaxprEqn) -> Mask:
    mask = np.zeros(eqn.invars[0].aval.shape, bool)
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * len(starts)
    mask[tuple(map(slice, starts, limits, strides))] = True
    return True if mask.size and mask.all() else mask


def key_uses(jaxpr: Jaxpr) -> Uses:
    """What a program does with the keys among its constants and arguments.

    Raises:
      KeyReuseError: it uses a key twice.
    """
    if "key_uses" not in jaxpr.memo:
        jaxpr.memo["key_uses"] = _Walk(jaxpr).uses()
    return jaxpr.memo["key_uses"]  # type: ignore[no-any-return]  # it was put there above


def overlap(one: Mask, other: Mask) -> bool:
    """Whether two masks may have a key in common; those of different shapes may if both have any."""
    if np.shape(one) != np.shape(other):
        return bool(np.any(one) and np.any(other))
    return bool(np.any(np.logical_and(one, other)))


def union(one: Mask, other: Mask) -> Mask:
    """The keys in either mask."""
    if np.shape(one) != np.shape(other):
        return True if np.ndim(one) and np.ndim(other) else np.logical_or(one, other)
    return np.logical_or(one, other)


def reused(what: str, before: Source | None, now: Source | None) -> KeyReuseError:
    """The error for a key that is used again."""
    lines = [
        f"  {when} at {line_with_text(source)}"
        for when, source in (("first", before), ("again", now))
        if source is not None and not is_of_call(source)
    ]
    return KeyReuseError(
        "\n".join([
            f"{what}: the random key is already consumed, and would give the same numbers again.", *lines,
            "Make new keys with random.split(key) or random.fold_in(key, i), each for one use; random.clone(key) is "
            "for a second use on purpose.",
        ])
    )  # fmt: skip


class _Walk:
    """A pass over the equations of a program, with the state of each key."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.of: dict[Any, Any] = {}  # for a variable that holds the keys of another one: the other one
        self.consumed: dict[Any, tuple[Mask, Source | None]] = {}

    def root(self, v: Any) -> Any:
        while v in self.of:
            v = self.of[v]
        return v

    def uses(self) -> Uses:
        for eqn in self.jaxpr.eqns:
            uses = uses_of(eqn)
            for i, (mask, source) in uses.consumed.items():
                self.consume(eqn, eqn.invars[i], mask, eqn.source or source)
            for out, i in uses.same.items():
                if type(eqn.invars[i]) is not Literal:
                    self.of[eqn.outvars[out]] = eqn.invars[i]
            for out, state in uses.used.items():
                self.consumed[eqn.outvars[out]] = state
        inputs = {v: i for i, v in enumerate([*self.jaxpr.constvars, *self.jaxpr.invars])}
        outs = [self.root(v) if type(v) is not Literal else None for v in self.jaxpr.outvars]
        return Uses(
            {i: self.consumed[v] for v, i in inputs.items() if v in self.consumed},
            {i: inputs[v] for i, v in enumerate(outs) if v in inputs and is_key(v.aval)},
            {i: self.consumed[v] for i, v in enumerate(outs) if v in self.consumed and v not in inputs},
        )

    def consume(self, eqn: JaxprEqn, v: Any, mask: Mask, source: Source | None) -> None:
        v = self.root(v)
        before, at = self.consumed.get(v, (False, None))
        if overlap(before, mask):
            raise reused(f"{eqn.params.get('name', eqn.primitive.name)}", at, source)
        self.consumed[v] = union(before, mask), source


def _of_regions(eqn: JaxprEqn) -> Uses:
    """The uses of an equation that runs programs."""
    regions = [(region, key_uses(region.jaxpr)) for region in regions_of(eqn)]
    consumed: dict[int, tuple[Mask, Source | None]] = {}
    for region, uses in regions:
        for i, (mask, source) in uses.consumed.items():
            operand = region.operands[i]
            if region.kind in ("loop", "predicate"):
                mask = _in_loop(eqn, region, uses, i, source)
            if operand is not None:
                before, at = consumed.get(operand, (False, None))
                if region.kind == "predicate" or (region.kind == "loop" and overlap(before, mask)):
                    raise reused(f"{eqn.primitive.name}, in each step", at or source, source)
                consumed[operand] = union(before, mask), source
    bodies = [(region, uses) for region, uses in regions if region.kind != "predicate"]
    same = [_same(region, uses) for region, uses in bodies if region.kind != "loop"]
    shared = {out: i for out, i in (same[0] if same else {}).items() if all(each.get(out) == i for each in same)}
    used = {
        out: state
        for region, uses in bodies for i, state in uses.used.items() for out in region.results[i]
    }  # fmt: skip
    return Uses(consumed, shared, used)


def _same(region: Region, uses: Uses) -> dict[int, int]:
    found = {}
    for i, argument in uses.same.items():
        operand = region.operands[argument]
        if operand is not None:
            found.update(dict.fromkeys(region.results[i], operand))
    return found


def _in_loop(eqn: JaxprEqn, region: Region, uses: Uses, argument: int, source: Source | None) -> Mask:
    """The keys of a loop's operand that all steps together consume: all of them, since each step needs new ones.

    Raises:
      KeyReuseError: two steps use one key.
    """
    operand = region.operands[argument]
    aval = region.jaxpr.invars[argument].aval
    is_row = operand is not None and eqn.invars[operand].aval.shape != aval.shape
    again = [i for i, carried in enumerate(region.carry) if carried == argument]
    fresh = bool(again) and all(i not in uses.same and i not in uses.used for i in again)
    if not (is_row or fresh or region.times == 1):
        raise reused(f"{eqn.primitive.name}, which runs its body again and again", source, source)
    return True

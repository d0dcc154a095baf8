"""sparsity : (a -> b) -> sets of the entries of a that the entries of b may depend on. Walks a jaxpr forwards.

The carried value is the `IndexSets` of an array, or None where it depends on nothing (or by steps: floor, comparisons).
What moves entries is asked where it moves them by running its `reference` rule on their numbers. Loops go round until
the sets of their carry stop growing, or as often as is known. What is not known here may depend on everything that its
operands depend on, which is always right. Values are followed too where they are known and small in kind (integers,
booleans): places to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.cond.cond import cond_p
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.remat.policies import name_p
from xpr.control.scan.layout import layout_of
from xpr.control.scan.scan import scan_p
from xpr.control.while_.while_loop import Loop, while_p
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, subjaxprs
from xpr.core.primitive import Primitive, Unsupported
from xpr.primitives import cumulative, dynamic_slices, elementwise, reductions, shapes, slicing, special
from xpr.primitives.dot import dot_general_p
from xpr.primitives.gather import gather_scatter, scatter, windows
from xpr.primitives.recurrences import linear_recurrence_p
from xpr.primitives.sorting import sort_p
from xpr.primitives.windows.convolution import conv_general_dilated_p
from xpr.sparsity.index_sets import (
    IndexSets,
    components,
    empty,
    everything,
    grouped,
    joined,
    taken,
    union,
    widened,
)

Sets = IndexSets | None


class Known:
    """What is known of a variable: its type, on what it depends, and perhaps its value."""

    __slots__ = ("aval", "sets", "value")

    def __init__(self, aval: ShapedArray, sets: Sets, value: Any = None):
        self.aval, self.sets, self.value = aval, sets, value


Rule = Callable[[JaxprEqn, list[Known]], list[Sets]]


def propagate(jaxpr: Jaxpr, operands: Sequence[Known]) -> list[Known]:
    """What is known of the results of a jaxpr without constants."""
    env: dict[Any, Known] = dict(zip(jaxpr.invars, operands))

    def read(atom: Any) -> Known:
        return Known(atom.aval, None, np.asarray(atom.val, atom.aval.dtype)) if type(atom) is Literal else env[atom]

    for eqn in jaxpr.eqns:
        known = [read(v) for v in eqn.invars]
        values = _values(eqn, known)
        sets: Sequence[Sets] = [None] * len(eqn.outvars)
        if any(k.sets is not None for k in known):
            sets = RULES.get(eqn.primitive, unknown)(eqn, known)
        for v, s, x in zip(eqn.outvars, sets, values):
            env[v] = Known(v.aval, s if v.aval.dtype in dtypes.INEXACT else None, x)
    return [read(v) for v in jaxpr.outvars]


def _values(eqn: JaxprEqn, known: Sequence[Known]) -> Sequence[Any]:
    """The results where they are integers that can be known."""
    out = [None] * len(eqn.outvars)
    primitive = eqn.primitive
    if primitive.call or isinstance(primitive.reference, Unsupported):
        return out
    if any(v.aval.dtype in dtypes.INEXACT for v in eqn.outvars) or any(k.value is None for k in known):
        return out
    with np.errstate(all="ignore"):
        return primitive.reference([k.value for k in known], **eqn.params)


def concrete(x: Any, aval: ShapedArray, sets: Sets = None) -> Known:
    """A constant: its value is known where it is an integer that is not traced."""
    is_value = not isinstance(x, Tracer) and aval.dtype not in dtypes.INEXACT
    return Known(aval, sets, np.asarray(x) if is_value else None)


def _of(known: Sequence[Known]) -> list[IndexSets]:
    return [k.sets for k in known if k.sets is not None]


def unknown(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """Every result may depend on everything."""
    return [everything(_of(known), v.aval.size) for v in eqn.outvars]


def _nothing(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    return [None] * len(eqn.outvars)


# -- Entry by entry


def _entrywise(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    shape = eqn.outvars[0].aval.shape
    return [union([_stretched(k.sets, k.aval, shape) for k in known if k.sets is not None])]


def _stretched(sets: IndexSets, aval: ShapedArray, shape: tuple[int, ...]) -> IndexSets:
    """The sets of an operand that is repeated to the shape of the result."""
    return sets if aval.shape == shape else taken(sets, np.broadcast_to(_numbers(aval), shape))


def _sign(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """That of a complex number is its direction; that of a real one changes by steps."""
    return _entrywise(eqn, known) if eqn.outvars[0].aval.dtype in dtypes.COMPLEX else _nothing(eqn, known)


def _select(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """One of the cases; the selector changes it by steps."""
    cases = _of(known[1:])
    return [union(cases)] if cases else [None]


# -- Moving entries


def _numbers(aval: ShapedArray) -> np.ndarray:
    return np.arange(aval.size, dtype=np.int64).reshape(aval.shape)


def _moved(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """What takes the entries of its first operand from places that its other operands say."""
    first, *others = known
    if first.sets is None or any(k.value is None for k in others):
        return unknown(eqn, known)
    (places,) = eqn.primitive.reference([_numbers(first.aval), *(k.value for k in others)], **eqn.params)
    return [taken(first.sets, np.asarray(places))]


def _gather(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """Entries beyond the end are marked by a negative number."""
    if known[0].sets is None or known[1].value is None:
        return unknown(eqn, known)
    params = {**eqn.params, "fill_value": -1} if "fill_value" in eqn.params else eqn.params
    (places,) = eqn.primitive.reference([_numbers(known[0].aval), known[1].value], **params)
    return [taken(known[0].sets, np.asarray(places))]


def _concatenate(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """Numbers the entries of all operands one after another, and sees where they go."""
    ends = np.cumsum([k.aval.size for k in known])
    numbered = [
        _numbers(k.aval) + end - k.aval.size if k.sets is not None else np.full(k.aval.shape, -1)
        for k, end in zip(known, ends)
    ]
    (places,) = eqn.primitive.reference(numbered, **eqn.params)
    return [taken(_one_after_another(known), np.asarray(places))]


def _one_after_another(known: Sequence[Known]) -> IndexSets:
    width = _of(known)[0].width
    return joined([empty(k.aval.size, width) if k.sets is None else k.sets for k in known])


def _update_slice(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """Numbers the entries of both arrays, and sees which are left."""
    first, update, *starts = known
    if any(k.value is None for k in starts):
        return [union([_as_all(k, first.aval.size) for k in (first, update) if k.sets is not None])]
    numbers = [_numbers(first.aval), _numbers(update.aval) + first.aval.size]
    (places,) = eqn.primitive.reference([*numbers, *(k.value for k in starts)], **eqn.params)
    return [taken(_one_after_another([first, update]), np.asarray(places))]


def _as_all(known: Known, count: int) -> IndexSets:
    """The sets of an array of that size; of another array, everything for each entry."""
    assert known.sets is not None
    return known.sets if known.aval.size == count else everything([known.sets], count)


def _scatter(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """An entry depends on itself and on all that is written to it."""
    operand, indices, updates = known
    if indices.value is None:
        return [union([_as_all(k, operand.aval.size) for k in (operand, updates) if k.sets is not None])]
    found = [] if operand.sets is None else [operand.sets]
    if updates.sets is not None:
        found.append(grouped(updates.sets, _targets(eqn, operand, indices, updates), operand.aval.size))
    return [union(found)]


def _targets(eqn: JaxprEqn, operand: Known, indices: Known, updates: Known) -> np.ndarray:
    """Where each update goes, -1 for those that are dropped: what a gather of the same windows reads from numbers."""
    numbers, sizes = windows.gather_of(eqn.params["dimension_numbers"], operand.aval.shape, updates.aval.shape)
    (places,) = gather_scatter.gather_p.reference(
        [_numbers(operand.aval), indices.value],
        dimension_numbers=numbers, slice_sizes=sizes, mode=eqn.params["mode"], fill_value=-1,
    )  # fmt: skip
    return np.asarray(places)


# -- Along axes


def _groups(aval: ShapedArray, axes: Sequence[int]) -> np.ndarray:
    """For each entry the number of the line along `axes` that it is in."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(aval.shape))
    numbers = np.arange(int(np.prod(kept))).reshape(kept)
    return np.broadcast_to(numbers, aval.shape)


def _reduced(sets: IndexSets, aval: ShapedArray, axes: Sequence[int]) -> IndexSets:
    groups = _groups(aval, axes)
    return grouped(sets, groups, int(groups.max()) + 1 if groups.size else 0)


def _reduction(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    (x,) = known
    if not x.aval.size:
        return [None]
    return [_reduced(x.sets, x.aval, eqn.params["axes"]) if x.sets is not None else None]


def _along(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """An entry depends on its whole line along the axis, in all operands."""
    aval = eqn.outvars[0].aval
    axis: int = eqn.params["dimension" if "dimension" in eqn.params else "axis"]
    if not aval.size:
        return [None] * len(eqn.outvars)
    groups = _groups(aval, (axis,))
    lines = grouped(union(_of(known)), groups, int(groups.max()) + 1)
    return [taken(lines, groups)] * len(eqn.outvars)


# -- Products


def _dot_general(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """An entry depends on a line of each operand, along the contracted axes."""
    (contracted, batched), aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    if not aval.size or not all(k.aval.size for k in known):
        return [None]
    n_batch, free = len(batched[0]), []
    for k, c, b in zip(known, contracted, batched):
        free.append([i for i in range(k.aval.ndim) if i not in (*c, *b)])
    found = []
    for side, (k, c, b) in enumerate(zip(known, contracted, batched)):
        if k.sets is None:
            continue
        lines = _reduced(k.sets, k.aval, c)
        kept = [i for i in range(k.aval.ndim) if i not in c]
        numbers = np.arange(lines.count).reshape([k.aval.shape[i] for i in kept])
        ordered = np.transpose(numbers, [kept.index(i) for i in (*b, *free[side])])
        before = len(free[0]) if side else 0
        after = 0 if side else len(free[1])
        shape = ordered.shape[:n_batch] + (1,) * before + ordered.shape[n_batch:] + (1,) * after
        found.append(taken(lines, np.broadcast_to(ordered.reshape(shape), aval.shape)))
    return [union(found)]


def _convolution(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """An entry depends on its window of the input, over all channels, and on the kernel."""
    x, kernel = known
    if x.sets is None or kernel.sets is not None or eqn.params["batch_group_count"] != 1:
        return unknown(eqn, known)
    numbers, aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    batch, channel, *spatial = numbers.lhs_spec
    lines = _reduced(x.sets, x.aval, (channel,))
    line_numbers = np.arange(lines.count).reshape([n for i, n in enumerate(x.aval.shape) if i != channel])
    axes = [a - (a > channel) for a in (batch, *spatial)]
    line_numbers = np.transpose(line_numbers, axes)  # batch, then space
    sizes = [kernel.aval.shape[i] for i in numbers.rhs_spec[2:]]
    out_space = [aval.shape[i] for i in numbers.out_spec[2:]]
    found = []
    for offset in np.ndindex(*sizes):
        places, inside = [], []
        for axis, o in enumerate(offset):
            at = np.arange(out_space[axis]) * eqn.params["window_strides"][axis]
            at = at + o * eqn.params["rhs_dilation"][axis] - eqn.params["padding"][axis][0]
            spacing = eqn.params["lhs_dilation"][axis]
            inside.append((at % spacing == 0) & (at >= 0) & (at // spacing < line_numbers.shape[1 + axis]))
            places.append(np.where(inside[-1], at // spacing, 0))
        rows = line_numbers[np.ix_(np.arange(line_numbers.shape[0]), *places)]
        for axis, flags in enumerate(inside, 1):
            rows[(slice(None),) * axis + (~flags,)] = -1
        spread = np.broadcast_to(rows[:, None], (rows.shape[0], aval.shape[numbers.out_spec[1]], *rows.shape[1:]))
        found.append(taken(lines, np.transpose(spread, np.argsort(numbers.out_spec))))
    return [union(found)]


# -- Programs in programs


def _call(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    (jaxpr,) = subjaxprs(eqn)
    return [k.sets for k in propagate(jaxpr, known)]


def _cond(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """What any of the branches depends on."""
    found = [[k.sets for k in propagate(branch, known[1:])] for branch in eqn.params["branches"]]
    return [_either(some) for some in zip(*found)]


def _either(sets: Sequence[Sets]) -> Sets:
    there = [s for s in sets if s is not None]
    return union(there) if there else None


FOLLOWED = 100  # steps of a loop that are gone through one by one, where its predicate is known
PATIENT = 16  # rounds after which what still grows takes all that it is joined with


def _settled(carry: list[Known], step: Callable[[list[Known]], list[Sets]], rounds: float = np.inf) -> list[Known]:
    """The carry with all that it may depend on after any number of rounds; values in it are given up."""
    carry = [Known(k.aval, k.sets) for k in carry]
    done = 0
    while done < rounds:
        grown = [_either(pair) for pair in zip((k.sets for k in carry), step(carry))]
        if all(new == k.sets for new, k in zip(grown, carry)):
            break
        done += 1
        if done >= PATIENT and rounds == np.inf:
            label = components([s for s in grown if s is not None])
            grown = [s if s is None else widened(s, label) for s in grown]
        carry = [Known(k.aval, s) for k, s in zip(carry, grown)]
    return carry


def _while(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """Step by step where integers alone say how many there are; else until nothing grows."""
    loop = Loop.of(known, **eqn.params)
    carry = list(loop.carry)
    for _ in range(FOLLOWED):
        (going,) = propagate(loop.cond, [*loop.cond_consts, *carry])
        if going.value is None:
            break
        if not going.value:
            return [k.sets for k in carry]
        carry = propagate(loop.body, [*loop.body_consts, *carry])
    found = _settled(loop.carry, lambda carry: [k.sets for k in propagate(loop.body, [*loop.body_consts, *carry])])
    return [k.sets for k in found]


def _scan(eqn: JaxprEqn, known: list[Known]) -> list[Sets]:
    """A row of the results depends on its own row of the operands, and on what the carry may depend on."""
    body, layout, length = eqn.params["jaxpr"], layout_of(eqn.params), eqn.params["length"]
    consts, start, xs = layout.operands(known)
    rows = [Known(v.aval, None if x.sets is None else _any_row(x)) for v, x in zip(body.invars[-len(xs) :], xs)]
    rows = rows if xs else []

    def step(carry: list[Known]) -> list[Sets]:
        return [k.sets for k in propagate(body, [*consts, *carry, *rows])][: layout.num_carry]

    carry = _settled(start, step, length)
    last = [k.sets for k in carry]
    n_ys = len(eqn.outvars) - layout.num_carry
    if not n_ys or not length:
        return [*last, *[None] * n_ys]
    if all(x.sets is None for x in xs):
        per_row = [propagate(body, [*consts, *carry, *rows])[layout.num_carry :]] * length
    else:
        per_row = [
            propagate(body, [*consts, *carry, *(_row(v.aval, x, i) for v, x in zip(body.invars[-len(xs) :], xs))])[
                layout.num_carry :
            ]
            for i in range(length)
        ]
    width = _of(known)[0].width
    ys: list[Sets] = []
    for column in zip(*per_row):
        parts = [empty(k.aval.size, width) if k.sets is None else k.sets for k in column]
        ys.append(joined(parts) if any(k.sets is not None for k in column) else None)
    return [*last, *ys]


def _any_row(x: Known) -> IndexSets:
    assert x.sets is not None
    return _reduced(x.sets, x.aval, (0,))


def _row(aval: ShapedArray, x: Known, i: int) -> Known:
    if x.sets is None:
        return Known(aval, None)
    return Known(aval, taken(x.sets, np.arange(i * aval.size, (i + 1) * aval.size)))


def _primitives_of(module: Any) -> list[Primitive]:
    return [p for p in vars(module).values() if isinstance(p, Primitive)]


_STEPS = ["floor_p", "ceil_p", "round_p", "nextafter_p", "bitcast_convert_type_p"]

RULES: dict[Primitive, Rule] = {p: _entrywise for m in (elementwise, special) for p in _primitives_of(m)}
RULES.update({getattr(elementwise, name): _nothing for name in _STEPS})
RULES.update(
    {elementwise.sign_p: _sign, name_p: _entrywise, slicing.select_n_p: _select, slicing.concatenate_p: _concatenate}
)
RULES.update(
    dict.fromkeys(
        [
            shapes.broadcast_in_dim_p, shapes.reshape_p, shapes.squeeze_p, shapes.transpose_p, shapes.rev_p,
            slicing.slice_p, dynamic_slices.dynamic_slice_p,
        ],
        _moved,
    )
)  # fmt: skip
RULES.update({gather_scatter.gather_p: _gather, slicing.pad_p: _concatenate})
RULES.update(
    dict.fromkeys(
        [
            gather_scatter.scatter_add_p, gather_scatter.scatter_sub_p, scatter.scatter_p, scatter.scatter_mul_p,
            scatter.scatter_min_p, scatter.scatter_max_p,
        ],
        _scatter,
    )
)  # fmt: skip
RULES.update(
    dict.fromkeys(
        [
            shapes.reduce_sum_p, reductions.reduce_max_p, reductions.reduce_min_p, reductions.reduce_prod_p,
            reductions.reduce_max_of_numbers_p,
        ],
        _reduction,
    )
)  # fmt: skip
RULES.update(
    dict.fromkeys(
        [
            cumulative.cumsum_p, cumulative.cumprod_p, cumulative.cummax_p, cumulative.cummin_p,
            cumulative.cumlogsumexp_p, linear_recurrence_p, sort_p,
        ],
        _along,
    )
)  # fmt: skip
RULES.update({dynamic_slices.dynamic_update_slice_p: _update_slice, dot_general_p: _dot_general})
RULES.update({conv_general_dilated_p: _convolution})
RULES.update(dict.fromkeys([xla_call_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p], _call))
RULES.update({cond_p: _cond, scan_p: _scan, while_p: _while})

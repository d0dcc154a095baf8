"""sparsity : (a -> b) -> sets of the elements of a that the elements of b may depend on, by a forward walk of a jaxpr.

The propagated value is the `IndexSets` of an array, or None where it is piecewise constant (floor, comparisons).
Operations that rearrange elements run their `reference` rule on the numbers of elements. Loops are iterated until the
sets of their carry stop growing, or for their known length. Operations without a rule may depend on all that their
operands depend on, which is always right. Known values of integers and booleans are propagated, too, for indices.
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
from xpr.control.scan.layout import loop_groups
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
from xpr.primitives.sorting import order_statistics_p, sort_p
from xpr.primitives.windows.convolution import conv_general_dilated_p
from xpr.sparsity.index_sets import (
    IndexSets,
    components,
    dense_sets,
    empty,
    gathered,
    grouped,
    joined,
    union,
    widened,
)

Sets = IndexSets | None


class Dependence:
    """The type of a variable, its dependence sets, and perhaps its value."""

    __slots__ = ("aval", "sets", "value")

    def __init__(self, aval: ShapedArray, sets: Sets, value: Any = None):
        self.aval, self.sets, self.value = aval, sets, value


Rule = Callable[[JaxprEqn, list[Dependence]], list[Sets]]


def propagate(jaxpr: Jaxpr, operands: Sequence[Dependence]) -> list[Dependence]:
    """The dependences of the results of a jaxpr without constants."""
    env: dict[Any, Dependence] = dict(zip(jaxpr.invars, operands))

    def read(atom: Any) -> Dependence:
        return (
            Dependence(atom.aval, None, np.asarray(atom.val, atom.aval.dtype)) if type(atom) is Literal else env[atom]
        )

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        values = _values(eqn, inputs)
        sets: Sequence[Sets] = [None] * len(eqn.outvars)
        if any(x.sets is not None for x in inputs):
            sets = RULES.get(eqn.primitive, dense)(eqn, inputs)
        for v, s, value in zip(eqn.outvars, sets, values):
            env[v] = Dependence(v.aval, s if v.aval.dtype in dtypes.INEXACT else None, value)
    return [read(v) for v in jaxpr.outvars]


def _values(eqn: JaxprEqn, inputs: Sequence[Dependence]) -> Sequence[Any]:
    """The values of results that are integers, if the operands' values are known."""
    out = [None] * len(eqn.outvars)
    primitive = eqn.primitive
    if primitive.call or isinstance(primitive.reference, Unsupported):
        return out
    if any(v.aval.dtype in dtypes.INEXACT for v in eqn.outvars) or any(x.value is None for x in inputs):
        return out
    with np.errstate(all="ignore"):
        return primitive.reference([x.value for x in inputs], **eqn.params)


def concrete(x: Any, aval: ShapedArray, sets: Sets = None) -> Dependence:
    """The dependence of a constant: its value is known if it is an integer that is not traced."""
    is_value = not isinstance(x, Tracer) and aval.dtype not in dtypes.INEXACT
    return Dependence(aval, sets, np.asarray(x) if is_value else None)


def _sets_of(inputs: Sequence[Dependence]) -> list[IndexSets]:
    """The sets of those that are not piecewise constant."""
    return [x.sets for x in inputs if x.sets is not None]


def dense(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Every element of the results may depend on all that the operands depend on."""
    return [dense_sets(_sets_of(inputs), v.aval.size) for v in eqn.outvars]


def _constant(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    return [None] * len(eqn.outvars)


# -- Elementwise


def _elementwise(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    shape = eqn.outvars[0].aval.shape
    return [union([_broadcast(x.sets, x.aval, shape) for x in inputs if x.sets is not None])]


def _broadcast(sets: IndexSets, aval: ShapedArray, shape: tuple[int, ...]) -> IndexSets:
    """The sets of an operand that is repeated to the shape of the result."""
    return sets if aval.shape == shape else gathered(sets, np.broadcast_to(_numbers(aval), shape))


def _sign(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """The sign of a complex number is its direction; that of a real one is piecewise constant."""
    return _elementwise(eqn, inputs) if eqn.outvars[0].aval.dtype in dtypes.COMPLEX else _constant(eqn, inputs)


def _select(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """The union of the cases; the result is piecewise constant in the selector."""
    cases = _sets_of(inputs[1:])
    return [union(cases)] if cases else [None]


# -- Rearranging elements


def _numbers(aval: ShapedArray) -> np.ndarray:
    return np.arange(aval.size, dtype=np.int64).reshape(aval.shape)


def _rearranged(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Operations that read elements of the first operand, at indices that the others determine."""
    first, *others = inputs
    if first.sets is None or any(x.value is None for x in others):
        return dense(eqn, inputs)
    (positions,) = eqn.primitive.reference([_numbers(first.aval), *(x.value for x in others)], **eqn.params)
    return [gathered(first.sets, np.asarray(positions))]


def _gather(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Indices out of bounds are marked by a negative number."""
    if inputs[0].sets is None or inputs[1].value is None:
        return dense(eqn, inputs)
    params = {**eqn.params, "fill_value": -1} if "fill_value" in eqn.params else eqn.params
    (positions,) = eqn.primitive.reference([_numbers(inputs[0].aval), inputs[1].value], **params)
    return [gathered(inputs[0].sets, np.asarray(positions))]


def _concatenate(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Numbers the elements of all operands one after another, and concatenates the numbers."""
    ends = np.cumsum([x.aval.size for x in inputs])
    numbered = [
        _numbers(x.aval) + end - x.aval.size if x.sets is not None else np.full(x.aval.shape, -1)
        for x, end in zip(inputs, ends)
    ]
    (positions,) = eqn.primitive.reference(numbered, **eqn.params)
    return [gathered(_one_after_another(inputs), np.asarray(positions))]


def _one_after_another(inputs: Sequence[Dependence]) -> IndexSets:
    width = _sets_of(inputs)[0].width
    return joined([empty(x.aval.size, width) if x.sets is None else x.sets for x in inputs])


def _update_slice(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Numbers the elements of both arrays, and updates the numbers."""
    first, update, *starts = inputs
    if any(x.value is None for x in starts):
        return [union([_as_all(x, first.aval.size) for x in (first, update) if x.sets is not None])]
    numbers = [_numbers(first.aval), _numbers(update.aval) + first.aval.size]
    (positions,) = eqn.primitive.reference([*numbers, *(x.value for x in starts)], **eqn.params)
    return [gathered(_one_after_another([first, update]), np.asarray(positions))]


def _as_all(x: Dependence, count: int) -> IndexSets:
    """The sets of an array of that size; of another array, dense ones."""
    assert x.sets is not None
    return x.sets if x.aval.size == count else dense_sets([x.sets], count)


def _scatter(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """An element depends on itself and on all that is written to it."""
    operand, indices, updates = inputs
    if indices.value is None:
        return [union([_as_all(x, operand.aval.size) for x in (operand, updates) if x.sets is not None])]
    sets = [] if operand.sets is None else [operand.sets]
    if updates.sets is not None:
        sets.append(grouped(updates.sets, _targets(eqn, operand, indices, updates), operand.aval.size))
    return [union(sets)]


def _targets(eqn: JaxprEqn, operand: Dependence, indices: Dependence, updates: Dependence) -> np.ndarray:
    """The index that each update is written to, -1 if it is dropped, by a gather of element numbers."""
    numbers, sizes = windows.gather_of(eqn.params["dimension_numbers"], operand.aval.shape, updates.aval.shape)
    (positions,) = gather_scatter.gather_p.reference(
        [_numbers(operand.aval), indices.value],
        dimension_numbers=numbers, slice_sizes=sizes, mode=eqn.params["mode"], fill_value=-1,
    )  # fmt: skip
    return np.asarray(positions)


# -- Along axes


def _groups(aval: ShapedArray, axes: Sequence[int]) -> np.ndarray:
    """For each element the number of its line along `axes`."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(aval.shape))
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    return np.broadcast_to(numbers, aval.shape)


def _reduced(sets: IndexSets, aval: ShapedArray, axes: Sequence[int]) -> IndexSets:
    groups = _groups(aval, axes)
    return grouped(sets, groups, int(groups.max()) + 1 if groups.size else 0)


def _reduction(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    (x,) = inputs
    if not x.aval.size:
        return [None]
    return [_reduced(x.sets, x.aval, eqn.params["axes"]) if x.sets is not None else None]


def _along(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """An element depends on its whole line along the axis, in all operands."""
    aval = eqn.outvars[0].aval
    axis: int = eqn.params["dimension" if "dimension" in eqn.params else "axis"]
    if not aval.size:
        return [None] * len(eqn.outvars)
    groups = _groups(eqn.invars[0].aval, (axis,))
    lines = grouped(union(_sets_of(inputs)), groups, int(groups.max()) + 1)
    return [gathered(lines, _groups(aval, (axis,)))] * len(eqn.outvars)


# -- Products


def _dot_general(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """An element depends on a line of each operand, along the contracted axes."""
    (contracted, batched), aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    if not aval.size or not all(x.aval.size for x in inputs):
        return [None]
    n_batch, free = len(batched[0]), []
    for k, c, b in zip(inputs, contracted, batched):
        free.append([i for i in range(k.aval.ndim) if i not in (*c, *b)])
    sets = []
    for side, (k, c, b) in enumerate(zip(inputs, contracted, batched)):
        if k.sets is None:
            continue
        lines = _reduced(k.sets, k.aval, c)
        remaining = [i for i in range(k.aval.ndim) if i not in c]
        numbers = np.arange(lines.count).reshape([k.aval.shape[i] for i in remaining])
        ordered = np.transpose(numbers, [remaining.index(i) for i in (*b, *free[side])])
        before = len(free[0]) if side else 0
        after = 0 if side else len(free[1])
        shape = ordered.shape[:n_batch] + (1,) * before + ordered.shape[n_batch:] + (1,) * after
        sets.append(gathered(lines, np.broadcast_to(ordered.reshape(shape), aval.shape)))
    return [union(sets)]


def _convolution(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """An element depends on its window of the input, over all channels, and on the kernel."""
    x, kernel = inputs
    if x.sets is None or kernel.sets is not None or eqn.params["batch_group_count"] != 1:
        return dense(eqn, inputs)
    numbers, aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    batch, channel, *spatial = numbers.lhs_spec
    lines = _reduced(x.sets, x.aval, (channel,))
    line_numbers = np.arange(lines.count).reshape([n for i, n in enumerate(x.aval.shape) if i != channel])
    axes = [a - (a > channel) for a in (batch, *spatial)]
    line_numbers = np.transpose(line_numbers, axes)  # batch, then space
    sizes = [kernel.aval.shape[i] for i in numbers.rhs_spec[2:]]
    out_space = [aval.shape[i] for i in numbers.out_spec[2:]]
    sets = []
    for offset in np.ndindex(*sizes):
        indices, inside = [], []
        for axis, o in enumerate(offset):
            at = np.arange(out_space[axis]) * eqn.params["window_strides"][axis]
            at = at + o * eqn.params["rhs_dilation"][axis] - eqn.params["padding"][axis][0]
            spacing = eqn.params["lhs_dilation"][axis]
            inside.append((at % spacing == 0) & (at >= 0) & (at // spacing < line_numbers.shape[1 + axis]))
            indices.append(np.where(inside[-1], at // spacing, 0))
        rows = line_numbers[np.ix_(np.arange(line_numbers.shape[0]), *indices)]
        for axis, flags in enumerate(inside, 1):
            rows[(slice(None),) * axis + (~flags,)] = -1
        repeated = np.broadcast_to(rows[:, None], (rows.shape[0], aval.shape[numbers.out_spec[1]], *rows.shape[1:]))
        sets.append(gathered(lines, np.transpose(repeated, np.argsort(numbers.out_spec))))
    return [union(sets)]


# -- Inner jaxprs


def _call(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    (jaxpr,) = subjaxprs(eqn)
    return [x.sets for x in propagate(jaxpr, inputs)]


def _cond(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """The union over the branches."""
    results = [[x.sets for x in propagate(branch, inputs[1:])] for branch in eqn.params["branches"]]
    return [_either(sets) for sets in zip(*results)]


def _either(sets: Sequence[Sets]) -> Sets:
    present = [s for s in sets if s is not None]
    return union(present) if present else None


MAX_STEPS = 100  # steps of a loop that are propagated one by one, where its predicate is known
WIDEN_AFTER = 16  # iterations after which sets that still grow are widened to connected components


def _fixed_point(
    carry: list[Dependence], step: Callable[[list[Dependence]], list[Sets]], iterations: float = np.inf
) -> list[Dependence]:
    """The carry with all that it may depend on after any number of iterations (a fixed point), without values."""
    carry = [Dependence(x.aval, x.sets) for x in carry]
    done = 0
    while done < iterations:
        grown = [_either(pair) for pair in zip((x.sets for x in carry), step(carry))]
        if all(new == k.sets for new, k in zip(grown, carry)):
            break
        done += 1
        if done >= WIDEN_AFTER and iterations == np.inf:
            label = components([s for s in grown if s is not None])
            grown = [s if s is None else widened(s, label) for s in grown]
        carry = [Dependence(k.aval, s) for k, s in zip(carry, grown)]
    return carry


def _while(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """Step by step where integers alone determine the length; else a fixed point."""
    loop = Loop.of(inputs, **eqn.params)
    carry = list(loop.carry)
    for _ in range(MAX_STEPS):
        (condition,) = propagate(loop.cond, [*loop.cond_consts, *carry])
        if condition.value is None:
            break
        if not condition.value:
            return [x.sets for x in carry]
        carry = propagate(loop.body, [*loop.body_consts, *carry])
    carry = _fixed_point(loop.carry, lambda carry: [x.sets for x in propagate(loop.body, [*loop.body_consts, *carry])])
    return [x.sets for x in carry]


def _scan(eqn: JaxprEqn, inputs: list[Dependence]) -> list[Sets]:
    """A row of the results depends on the same row of the operands, and on what the carry may depend on."""
    body, length, (operands, results) = eqn.params["jaxpr"], eqn.params["length"], loop_groups(eqn.params)
    consts, start, xs = operands.split(inputs)
    avals = operands.part("xs", body.in_avals)
    rows = [Dependence(aval, None if x.sets is None else _any_row(x)) for aval, x in zip(avals, xs)]

    def step(carry: list[Dependence]) -> list[Sets]:
        return [x.sets for x in results.part("carry", propagate(body, [*consts, *carry, *rows]))]

    def ys_of(rows: list[Dependence]) -> list[Dependence]:
        return results.part("ys", propagate(body, [*consts, *carry, *rows]))

    carry = _fixed_point(start, step, length)
    last = [x.sets for x in carry]
    n_ys = len(results.positions("ys"))
    if not n_ys or not length:
        return [*last, *[None] * n_ys]
    if all(x.sets is None for x in xs):
        per_row = [ys_of(rows)] * length
    else:
        per_row = [ys_of([_row(aval, x, i) for aval, x in zip(avals, xs)]) for i in range(length)]
    width = _sets_of(inputs)[0].width
    ys: list[Sets] = []
    for column in zip(*per_row):
        parts = [empty(x.aval.size, width) if x.sets is None else x.sets for x in column]
        ys.append(joined(parts) if any(x.sets is not None for x in column) else None)
    return [*last, *ys]


def _any_row(x: Dependence) -> IndexSets:
    assert x.sets is not None
    return _reduced(x.sets, x.aval, (0,))


def _row(aval: ShapedArray, x: Dependence, i: int) -> Dependence:
    if x.sets is None:
        return Dependence(aval, None)
    return Dependence(aval, gathered(x.sets, np.arange(i * aval.size, (i + 1) * aval.size)))


def _primitives_of(module: Any) -> list[Primitive]:
    return [p for p in vars(module).values() if isinstance(p, Primitive)]


_STEPS = ["floor_p", "ceil_p", "round_p", "nextafter_p", "bitcast_convert_type_p"]

RULES: dict[Primitive, Rule] = {p: _elementwise for m in (elementwise, special) for p in _primitives_of(m)}
RULES.update({getattr(elementwise, name): _constant for name in _STEPS})
RULES.update(
    {elementwise.sign_p: _sign, name_p: _elementwise, slicing.select_n_p: _select, slicing.concatenate_p: _concatenate}
)
RULES.update(
    dict.fromkeys(
        [
            shapes.broadcast_in_dim_p, shapes.reshape_p, shapes.squeeze_p, shapes.transpose_p, shapes.rev_p,
            slicing.slice_p, dynamic_slices.dynamic_slice_p,
        ],
        _rearranged,
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
            cumulative.cumlogsumexp_p, linear_recurrence_p, sort_p, order_statistics_p,
        ],
        _along,
    )
)  # fmt: skip
RULES.update({dynamic_slices.dynamic_update_slice_p: _update_slice, dot_general_p: _dot_general})
RULES.update({conv_general_dilated_p: _convolution})
RULES.update(dict.fromkeys([xla_call_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p], _call))
RULES.update({cond_p: _cond, scan_p: _scan, while_p: _while})

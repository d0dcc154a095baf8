"""Checkpoints of a loop whose number of steps is not known before it ends, and iteration over its steps in reverse.

Going forward, `K` slots hold the carries at the multiples of a stride, which doubles when the slots are full, so that
every other checkpoint is dropped: the online checkpointing of Wang, Moin and Iaccarino (2009) and of Stumm and Walther
(2010, "New algorithms for optimal online checkpointing"), in its simplest form. Nothing is moved: with the stride 2**e,
checkpoint number p is in the slot whose number is p with its bits rotated left by e. Doubling the stride turns p into
p / 2 and e into e + 1, which is the same slot.

Going backward, the checkpoints are a stack, the latest step on top. To reach a step, the loop repeats the steps from
the top, and pushes further checkpoints on the stack, as many as there are free slots, at the binomial distances that
take the fewest steps in all: Griewank and Walther (2000), "Algorithm 799: revolve". With K slots, n steps cost no
recomputation up to n = K, one step more each up to about K**2 / 4, two up to about K**3 / 48, and so on.

Stores are arrays with K + 1 rows; the last row takes writes that are to be ignored. Numbers of steps are i32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.config import settings
from xpr.control.groups import mask, split_list
from xpr.control.while_.while_loop import repeat
from xpr.core.avals import aval_of
from xpr.primitives import elementwise as e
from xpr.primitives.composites import iota
from xpr.primitives.dynamic_slices import dynamic_slice_p, dynamic_update_slice_p
from xpr.primitives.shapes import expand_dims, full, reshape
from xpr.primitives.slicing import select

ZERO, ONE = np.int32(0), np.int32(1)
Arrays = Sequence[Any]


def number_of_slots() -> int:
    """The number of slots: the setting `while_checkpoints`, rounded down to a power of two."""
    return 1 << (max(2, settings.while_checkpoints).bit_length() - 1)


# -- Slots


def exponent_at(step: Any, slots: int) -> Any:
    """The exponent e of the stride 2**e when a step has been reached.

    The stride is 1 until all slots are full. From then on it is such that half of them are full, and half are free for
    the checkpoints of the backward pass.
    """
    bits = slots.bit_length() - 1
    length = e.sub(np.int32(32 - bits + 1), e.clz(step))
    return select(e.lt(step, np.int32(slots)), ZERO, length)


def slot_of(number: Any, exponent: Any, slots: int) -> Any:
    """The slot of checkpoint number `number`: a rotation of its bits."""
    bits = np.int32(slots.bit_length() - 1)
    wide = e.shift_left(number, e.rem(exponent, bits))
    return e.bitwise_or(e.bitwise_and(wide, np.int32(slots - 1)), e.shift_right_logical(wide, bits))


def slot_for(step: Any, exponent: Any, slots: int) -> Any:
    """The row for the carry before a step: its slot if the step is a multiple of the stride, else the last row."""
    stride = e.shift_left(ONE, exponent)
    is_multiple = e.eq(e.bitwise_and(step, e.sub(stride, ONE)), ZERO)
    return select(is_multiple, slot_of(e.shift_right_logical(step, exponent), exponent, slots), np.int32(slots))


def empty_stores(values: Arrays, slots: int) -> list[Any]:
    avals = [aval_of(x) for x in values]
    return [full((slots + 1, *a.shape), 0, a.dtype) for a in avals]


def write(stores: Arrays, values: Arrays, slot: Any) -> list[Any]:
    """The stores with one row replaced."""
    return [
        dynamic_update_slice_p.bind(s, expand_dims(x, (0,)), slot, *[ZERO] * aval_of(x).ndim)
        for s, x in zip(stores, values)
    ]


def read(stores: Arrays, slot: Any) -> list[Any]:
    """A row of each store."""
    rows = []
    for store in stores:
        shape = aval_of(store).shape[1:]
        row = dynamic_slice_p.bind(store, slot, *[ZERO] * len(shape), slice_sizes=(1, *shape))
        rows.append(reshape(row, shape))
    return rows


# -- Loops


def run_and_save(
    condition: Callable[..., Any], step: Callable[..., Arrays], carry: Arrays, slots: int, saved: Sequence[bool]
) -> tuple[list[Any], Any, list[Any]]:
    """Runs a loop and saves checkpoints of its carry.

    Args:
      condition: a predicate of the number of steps taken and the carry: whether to take another step.
      step: from the same to the next carry.
      carry: the first carry.
      slots: the number of slots, a power of two.
      saved: which carries are saved.
    Returns:
      The last carry, the number of steps, and the stores of the saved carries.
    """
    n = len(carry)

    def advance(count: Any, *state: Any) -> list[Any]:
        carry, stores = split_list(state, n)
        slot = slot_for(count, exponent_at(count, slots), slots)
        return [e.add(count, ONE), *step(count, *carry), *write(stores, mask(carry, saved), slot)]

    start = [ZERO, *carry, *empty_stores(mask(carry, saved), slots)]
    count, *state = repeat(lambda count, *state: condition(count, *split_list(state, n)[0]), advance, start)
    carry, stores = split_list(state, n)
    return carry, count, stores


def fold_forward(
    step: Callable[..., Arrays], along: Callable[..., Arrays], total: Any, stores: Arrays, state: Arrays
) -> list[Any]:
    """Carries a state along the steps of a loop.

    Args:
      step: from the number of steps taken and the loop's carry to the next carry.
      along: from these and the state to the next state.
      total: the number of steps.
      stores: those that `run_and_save` returned.
      state: the first state.
    """
    n = len(stores)

    def advance(count: Any, *values: Any) -> list[Any]:
        carry, state = split_list(values, n)
        return [e.add(count, ONE), *step(count, *carry), *along(count, *carry, *state)]

    start = [ZERO, *read(stores, ZERO), *state]
    _, state = split_list(repeat(lambda count, *_: e.lt(count, total), advance, start), 1 + n)
    return state


def fold_backward(
    step: Callable[..., Arrays], along: Callable[..., Arrays], total: Any, stores: Arrays, state: Arrays, slots: int
) -> list[Any]:
    """Carries a state along the steps of a loop in reverse; otherwise as `fold_forward`."""
    n = len(stores)
    last = e.sub(total, ONE)
    if not n:
        start = [last, *state]
        _, *state = repeat(lambda at, *_: e.ge(at, ZERO), lambda at, *xs: [e.sub(at, ONE), *along(at, *xs)], start)
        return state
    exponent = exponent_at(last, slots)

    def back(at: Any, top: Any, marks: Any, *values: Any) -> list[Any]:
        stores, state = split_list(values, n)
        top, marks, stores, carry = _restore(step, at, top, marks, stores, exponent, slots)
        state = list(along(at, *carry, *state))
        is_done = e.eq(_mark(marks, top), at)
        return [e.sub(at, ONE), e.sub(top, e.convert_element_type(is_done, np.int32)), marks, *stores, *state]

    marks = e.shift_left(iota(np.int32, slots + 1), exponent)
    start = [last, e.shift_right_arithmetic(last, exponent), marks, *stores, *state]
    _, state = split_list(repeat(lambda at, *_: e.ge(at, ZERO), back, start), 3 + n)
    return state


def _mark(marks: Any, position: Any) -> Any:
    """The step number of the checkpoint at a position of the stack."""
    return read([marks], position)[0]


def _restore(
    step: Callable[..., Arrays], at: Any, top: Any, marks: Any, stores: Arrays, exponent: Any, slots: int
) -> tuple[Any, Any, list[Any], list[Any]]:
    """The carry before step `at`, computed from the top of the stack, and the stack with the new checkpoints."""
    n = len(stores)

    def next_mark(count: Any, top: Any, is_needed: Any) -> Any:
        distance = select(is_needed, e.sub(at, count), ZERO)
        return e.add(count, _distance(distance, e.sub(np.int32(slots - 1), top)))

    def advance(count: Any, target: Any, top: Any, marks: Any, *values: Any) -> list[Any]:
        stores, carry = split_list(values, n)
        carry = list(step(count, *carry))
        count = e.add(count, ONE)
        is_mark = e.bitwise_and(e.eq(count, target), e.lt(count, at))
        top = e.add(top, e.convert_element_type(is_mark, np.int32))
        slot = select(is_mark, slot_of(top, exponent, slots), np.int32(slots))
        (marks,) = write([marks], [count], select(is_mark, top, np.int32(slots)))
        target = select(is_mark, next_mark(count, top, is_mark), target)
        return [count, target, top, marks, *write(stores, carry, slot), *carry]

    first = _mark(marks, top)
    start = [
        first,
        next_mark(first, top, np.bool_(True)),
        top,
        marks,
        *stores,
        *read(stores, slot_of(top, exponent, slots)),
    ]
    _, _, top, marks, *values = repeat(lambda count, *_: e.lt(count, at), advance, start)
    return top, marks, *split_list(values, n)


def _distance(steps: Any, free: Any) -> Any:
    """The number of steps from a checkpoint to the next one, from the numbers of remaining steps and free slots.

    With s slots and r repetitions at most binomial(s + r, s) steps can be reversed; here s includes the checkpoint's
    slot. The numbers are rounded, which costs at most some recomputation.
    """
    has_free = e.gt(free, ZERO)
    s = e.convert_element_type(e.add(e.max(free, ONE), ONE), np.float32)
    wanted = e.convert_element_type(select(has_free, e.add(steps, ONE), ONE), np.float32)
    one = np.float32(1)

    def grow(r: Any, reach: Any) -> list[Any]:
        r = e.add(r, one)
        return [r, e.div(e.mul(reach, e.add(s, r)), r)]

    r, reach = repeat(lambda r, reach: e.lt(reach, wanted), grow, [np.float32(0), one])
    before = e.div(e.mul(reach, r), e.add(s, r))  # binomial(s + r - 1, s)
    beyond = e.div(e.mul(before, s), e.sub(e.add(s, r), one))  # binomial(s + r - 2, s - 1)
    best = e.convert_element_type(e.min(before, e.sub(wanted, beyond)), np.int32)
    return select(has_free, e.min(e.max(best, ONE), steps), steps)

"""Rows of xpr/control/while_/while_loop.py and what its reverse mode is made of."""

import numpy as np

from tests.ops.table import FromTypes, Row, Sample, floats
from xpr.control.while_.fold import while_fold_p
from xpr.control.while_.reverse import while_saving_p
from xpr.control.while_.while_loop import while_p
from xpr.core.avals import aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.elementwise import add, convert_element_type, cos, lt, mul, sin
from xpr.primitives.shapes import reduce_sum
from xpr.transforms.stage import stage


def part(fun, *positions):
    """The jaxpr of a function of some of the operands."""
    return FromTypes(lambda *avals: constvars_to_invars(stage(fun, [avals[i] for i in positions])))


def fewer(limit, count, *carry):
    return [lt(count, limit)]


def turn(c, count, x, y):
    return [add(count, np.int32(1)), add(mul(c, sin(x)), y), mul(cos(y), reduce_sum(x, (0,)))]


def double(count, x):
    return [add(count, np.int32(1)), mul(x, convert_element_type(count, aval_of(x).dtype))]


def forward(c, i, x):
    return [mul(c, sin(x))]


def along(c, i, x, t):
    """The tangent of the carry, with that of the constant left out; i is there to be read."""
    return [mul(mul(c, cos(x)), add(t, mul(t, convert_element_type(i, aval_of(t).dtype))))]


def row(stores, n_stores, fun):
    """The jaxpr of a function of operands, `n_stores` of them from position `stores` on seen as one row of a store."""

    def make(*avals):
        rows = [a.update(shape=a.shape[1:]) for a in avals[stores : stores + n_stores]]
        return constvars_to_invars(stage(fun, [*avals[2:stores], avals[0], *rows, *avals[stores + n_stores :]]))

    return FromTypes(make)


def fold(total, backward):
    def without_state(total, count, c, stores, t):
        return total, count, c, stores

    steps = row(3, 1, along)
    carry = FromTypes(lambda *avals: row(3, 1, forward).make(*without_state(*avals)))
    stores = floats(5, 2, salt=3)
    return Sample(np.int32(total), np.int32(total), floats(2), stores, floats(2, salt=2), forward=carry, step=steps,
                  num_consts=1, slots=4, backward=backward)  # fmt: skip


LIMIT, START = np.int32(3), np.int32(0)
NOT_LINEAR = "sometimes it is of a function that is not linear"
APART = "sometimes rows that end apart save what they have while the others go on"
MADE_UP = "where rows ran apart their stores are made anew, and these are not what a loop has left"

ROWS = [
    Row(while_p, [
        Sample(LIMIT, floats(2), START, floats(2, salt=1), floats(), cond_jaxpr=part(fewer, 0, 2, 3, 4), cond_nconsts=1,
               body_jaxpr=part(turn, 1, 2, 3, 4), body_nconsts=1),
        Sample(LIMIT, START, floats(2), cond_jaxpr=part(fewer, 0, 1, 2), cond_nconsts=1,
               body_jaxpr=part(double, 1, 2), body_nconsts=0),
    ], skip={"transpose": NOT_LINEAR}),
    Row(while_saving_p, [
        Sample(LIMIT, floats(2), START, floats(2, salt=1), floats(), cond_jaxpr=part(fewer, 0, 2, 3, 4), cond_nconsts=1,
               body_jaxpr=part(turn, 1, 2, 3, 4), body_nconsts=1, saved=(False, True, True),
               slots=4),
    ], skip={"transpose": NOT_LINEAR, "vmap": APART, "commute": APART}),
    Row(while_fold_p, [fold(4, False), fold(4, True), fold(0, True)],
        skip={"transpose": "sometimes it is not linear", "vmap": MADE_UP, "commute": "sometimes " + MADE_UP}),
]  # fmt: skip

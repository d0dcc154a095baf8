"""Rows of the choice between programs."""

import numpy as np

from tests.ops.table import FromTypes, Row, Sample, complexes, floats, integers, positive
from xpr.control.cond.cond import cond_p
from xpr.core.avals import aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.elementwise import convert_element_type, cos, exp, mul, neg, sin
from xpr.primitives.shapes import full, reduce_sum
from xpr.transforms.stage import stage


def branches_of(funs):
    """The jaxprs of functions of the operands behind the index."""
    return FromTypes(lambda index, *avals: tuple(constvars_to_invars(stage(fun, avals)) for fun in funs))


def choice(index, funs, *operands, **options):
    return Sample(np.int32(index), *operands, branches=branches_of(funs), linear=(False,) * len(operands), **options)


def sine(x, y):
    return [mul(sin(x), y), reduce_sum(y, (0,))]


def flat(x, y):
    """Nothing of the second result depends on the operands, nothing of the first on y."""
    aval = aval_of(x)
    return [mul(x, x), full(aval.shape[1:], 1.5, aval.dtype)]


def deep(x, y):
    return [exp(mul(sin(cos(x)), exp(y))), reduce_sum(x, (0,))]


def counted(x, n):
    return [mul(x, convert_element_type(n, aval_of(x).dtype)), n]


def uncounted(x, n):
    return [neg(x), mul(n, n)]


def constant(x, n):
    return [full(aval_of(x).shape, 2.0, aval_of(x).dtype), n]


def doubled(x, y):
    return [mul(x, full(aval_of(x).shape, 2.0, aval_of(x).dtype)), y]


def swapped(x, y):
    return [y, neg(x)]


def first(x, y):
    return [x, x]


NOT_LINEAR = "sometimes a branch is not linear"
ROWS = [
    Row(cond_p, [choice(0, [sine, flat], floats(2, 3), floats(2, 3, salt=1)),
                 choice(1, [sine, flat], floats(2, 3), floats(2, 3, salt=1)),
                 choice(2, [sine, flat, deep], floats(2, 3), floats(2, 3, salt=1)),
                 choice(1, [sine, deep, flat], floats(2, 3), floats(2, 3, salt=1), vmap="branch"),
                 choice(1, [sine, deep], complexes(2), complexes(2, salt=1)),
                 choice(0, [counted, uncounted, constant], positive(3), integers(3))],
        skip={"transpose": NOT_LINEAR}),
    Row(cond_p, [choice(1, [doubled, swapped, first], floats(2, 3), floats(2, 3, salt=1)),
                 choice(2, [doubled, swapped, first], floats(3), floats(3, salt=1), vmap="branch")]),
]  # fmt: skip

"""Rows of the loops over rows of arrays."""

import numpy as np

from tests.ops.table import FromTypes, Row, Sample, complexes, floats, integers, positive
from xpr.control.scan.bounded import bounded_scan_p
from xpr.control.scan.scan import scan_p
from xpr.control.scan.until import scan_until_p
from xpr.core.avals import aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.elementwise import add, convert_element_type, cos, ge, gt, mul, sin, tanh
from xpr.primitives.shapes import reduce_sum
from xpr.transforms.stage import stage


def body_of(fun, num_consts, num_carry):
    """The jaxpr of a loop's body, for the types of the loop's operands."""

    def make(*avals):
        first = num_consts + num_carry
        rows = [a.update(shape=a.shape[1:]) for a in avals[first:]]
        return constvars_to_invars(stage(fun, [*avals[:first], *rows]))

    return FromTypes(make)


def loop(fun, *operands, consts=0, carry=1, length, reverse=False, unroll=1):
    return Sample(*operands, jaxpr=body_of(fun, consts, carry), length=length, reverse=reverse, unroll=unroll,
                  linear=(False,) * len(operands), num_consts=consts, num_carry=carry)  # fmt: skip


def cell(w, h, x):
    """A cell with a weight, a state and an input."""
    h = tanh(add(mul(w, h), x))
    return [h, sin(h)]


def crossed(a, b, n, x):
    """Two carries that feed each other, and a counter."""
    return [mul(b, x), add(a, cos(b)), add(n, np.int32(1)), mul(a, convert_element_type(n, aval_of(a).dtype))]


def summed(total, x):
    return [add(total, reduce_sum(x, (0,)))]


def bounded(fun, count, *operands, **layout):
    sample = loop(fun, *operands, **layout)
    body = sample.params["jaxpr"].make
    sample.operands.insert(0, np.int32(count))
    sample.params["jaxpr"] = FromTypes(lambda count, *avals: body(*avals))
    del sample.params["unroll"], sample.params["linear"]
    return sample


def until(stop, consts_of_stop, fun, *operands, **layout):
    """`stop` takes its constants and the carries."""
    sample = loop(fun, *operands, **layout)
    n = len(consts_of_stop)
    k, c = sample.params["num_consts"], sample.params["num_carry"]
    body = sample.params["jaxpr"].make
    sample.operands[:0] = consts_of_stop
    sample.params["jaxpr"] = FromTypes(lambda *avals: body(*avals[n:]))
    sample.params["until"] = FromTypes(
        lambda *avals: constvars_to_invars(stage(stop, [*avals[:n], *avals[n + k : n + k + c]]))
    )
    sample.params["until_nconsts"] = n
    del sample.params["unroll"], sample.params["linear"]
    return sample


def doubling(a, x):
    a = mul(a, x)
    return [a, sin(a)]


def counted_cell(w, n, h, x):
    return [add(n, np.int32(1)), *cell(w, h, x)]


LINEAR = "sometimes it is of a function that is not linear"
ROWS = [
    Row(scan_p, [loop(cell, floats(3), floats(3, salt=1), floats(4, 3), consts=1, length=4),
                 loop(cell, floats(3), floats(3, salt=1), floats(5, 3), consts=1, length=5, reverse=True, unroll=2),
                 loop(crossed, floats(), floats(salt=1), np.int32(0), floats(3), carry=3, length=3),
                 loop(summed, floats(), floats(4, 2), length=4),
                 loop(lambda c, w, x: [mul(c, w), w, mul(x, c)], floats(2), floats(2, salt=1), floats(3, 2), carry=2,
                      length=3),
                 loop(lambda c, x: [mul(c, x), c], complexes(2), complexes(3, 2, salt=1), length=3),
                 loop(lambda x: [sin(x)], floats(3, 2), carry=0, length=3),
                 loop(lambda c: [sin(c)], floats(2), length=3),
                 loop(cell, floats(3), floats(3, salt=1), floats(0, 3), consts=1, length=0)],
        skip={"transpose": LINEAR}),
    Row(bounded_scan_p, [bounded(cell, 2, floats(3), floats(3, salt=1), floats(4, 3), consts=1, length=4),
                         bounded(cell, 3, floats(3), floats(3, salt=1), floats(4, 3), consts=1, length=4, reverse=True),
                         bounded(lambda c, w, x: [mul(c, w), w, mul(x, c)], 0, floats(2), floats(2, salt=1),
                                 floats(3, 2), carry=2, length=3)],
        skip={"transpose": LINEAR}),
    Row(scan_until_p, [until(lambda limit, a: [gt(a, limit)], [np.float32(3)], doubling, positive(),
                             floats(5, low=1.2, high=2.0), length=5),
                       until(lambda n, h: [ge(n, np.int32(2))], [], counted_cell, floats(3), np.int32(0),
                             floats(3, salt=1), floats(4, 3), consts=1, carry=2, length=4)],
        skip={"transpose": LINEAR}),
    Row(scan_p, [loop(lambda n, x: [add(n, x), mul(n, x)], integers(2), integers(3, 2), length=3)]),
]  # fmt: skip

"""Rows of rematerialized calls and of named values."""

from tests.ops.control_rows import jaxpr_of, two_results, with_integers
from tests.ops.table import ANY, Row, Sample, booleans, complexes, floats, integers
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.remat.policies import dots_saveable, everything_saveable, name_p
from xpr.primitives.dot import dot_general
from xpr.primitives.elementwise import neg, sin


def products(x, y):
    numbers = (((1,), (0,)), ((), ()))
    return [sin(dot_general(sin(dot_general(x, y, numbers)), y, numbers))]


def call(*operands, of, policy=None, differentiated=False):
    params = {"policy": policy, "prevent_cse": True, "differentiated": differentiated}
    return Sample(*operands, jaxpr=jaxpr_of(of), **params)


LINEAR = {"transpose": "sometimes it is of a function that is not linear"}

ROWS = [
    Row(checkpoint_p, [call(floats(2, 3), floats(2, 3, salt=1), of=two_results),
                       call(floats(3), integers(3), of=with_integers),
                       call(complexes(2), complexes(2, salt=1), of=two_results, policy=everything_saveable),
                       call(floats(2, 2), floats(2, 2, salt=1), of=products, policy=dots_saveable),
                       call(floats(3), of=lambda x: [neg(x)], differentiated=True)],
        skip=LINEAR),
    Row(name_p, [Sample(floats(2, 3), name="x"), Sample(complexes(2), name="x"), Sample(integers(3), name="x"),
                 Sample(booleans(), name="x")],
        dtypes=ANY),
]  # fmt: skip

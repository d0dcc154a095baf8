"""Rows of xpr/control: operations that hold jaxprs, and those with rules of their own."""

import numpy as np

from tests.ops.table import ANY, FromTypes, Row, Sample, booleans, complexes, floats, integers
from xpr.control.custom_derivatives import custom_jvp_call_p, custom_vjp_call_p
from xpr.control.stop_gradient import stop_gradient_p
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.elementwise import add, convert_element_type, cos, mul, neg, sin
from xpr.primitives.shapes import instantiate, reduce_sum
from xpr.transforms.stage import stage


def jaxpr_of(fun):
    """The jaxpr of a function of flat arguments, for the types of the operands."""
    return FromTypes(lambda *avals: constvars_to_invars(stage(fun, avals)))


def two_results(x, y):
    return [mul(sin(x), y), add(reduce_sum(x, (0,)), reduce_sum(y, (0,)))]


def with_integers(x, n):
    return [mul(x, convert_element_type(n, aval_of(x).dtype)), n, x]


def sine(x):
    return [sin(x)]


def sine_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return [sin(x)], [mul(instantiate(t), cos(x))]


def product(x, y):
    return [mul(x, y)]


def product_jvp(primals, tangents):
    """The rule of products, which keeps symbolic zeros."""
    (x, y), (t, u) = primals, tangents
    terms = [mul(z, t) for z, t in ((y, t), (x, u)) if type(t) is not Zero]
    return product(x, y), [add(*terms) if len(terms) == 2 else terms[0]]


def sine_fwd(primals):
    return sine(*primals), [cos(primals[0])]


def sine_bwd(residuals, cts):
    return [mul(residuals[0], cts[0])]


FORWARD = "a custom_vjp rule says nothing of tangents"

ROWS = [
    Row(xla_call_p, [Sample(floats(2, 3), floats(2, 3, salt=1), call_jaxpr=jaxpr_of(two_results), name="f"),
                     Sample(floats(3), integers(3), call_jaxpr=jaxpr_of(with_integers), name="f"),
                     Sample(complexes(2), complexes(2, salt=1), call_jaxpr=jaxpr_of(two_results), name="f"),
                     Sample(floats(3), call_jaxpr=jaxpr_of(lambda x: [neg(x)]), name="f")],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(custom_jvp_call_p, [Sample(floats(2, 3), call_jaxpr=jaxpr_of(sine), jvp=sine_jvp, name="sine", num_consts=0),
                            Sample(floats(3), floats(3, salt=1), call_jaxpr=jaxpr_of(product), jvp=product_jvp,
                                   name="product", num_consts=0)],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(custom_vjp_call_p, [Sample(floats(2, 3), call_jaxpr=jaxpr_of(sine), fwd=sine_fwd, bwd=sine_bwd, name="sine",
                                   num_consts=0)],
        skip={"jvp": FORWARD, "linearize": FORWARD, "vjp": FORWARD, "order2": FORWARD, "commute": FORWARD,
              "zeros": FORWARD, "transpose": "sometimes it is of a function that is not linear"}),
    Row(stop_gradient_p, [Sample(floats(2, 3)), Sample(complexes(2)), Sample(integers(3)), Sample(booleans())],
        dtypes=ANY, skip={"jvp": "it has no derivative, by design"}),
    Row(stop_gradient_p, [Sample(np.float32([np.inf, np.nan, -0.0]), edges=True)]),
]  # fmt: skip

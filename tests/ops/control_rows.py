"""Rows of xpr/control: operations that hold jaxprs, and those with rules of their own."""

import numpy as np

from tests.ops.table import ANY, FromTypes, Row, Sample, booleans, complexes, floats, integers, positive
from xpr.control.composite import composite_p
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.custom_lin import custom_lin_p
from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.custom.custom_vmap import custom_vmap_call_p
from xpr.control.custom.linear_call import linear_call_p
from xpr.control.custom.linear_solve import Four, custom_linear_solve_p
from xpr.control.hi_types.vjp_primitive import VJPHiPrimitive, call_hi_primitive_p
from xpr.control.stop_gradient import stop_gradient_p
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.elementwise import add, convert_element_type, cos, div, mul, neg, sin
from xpr.primitives.shapes import instantiate, mapped_to, reduce_sum
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


def sine_jvp(constants, primals, tangents):
    (x,), (t,) = primals, tangents
    return [sin(x)], [mul(instantiate(t), cos(x))]


def product(x, y):
    return [mul(x, y)]


def product_jvp(constants, primals, tangents):
    """The rule of products, which keeps symbolic zeros."""
    (x, y), (t, u) = primals, tangents
    terms = [mul(z, t) for z, t in ((y, t), (x, u)) if type(t) is not Zero]
    return product(x, y), [add(*terms) if len(terms) == 2 else terms[0]]


def sine_fwd(constants, primals, active):
    return sine(*primals), [cos(primals[0])], times


def times(residuals, cts):
    """The cotangent of sine's argument, and what multiplication by the residual does to tangents, transposed."""
    return [mul(residuals[0], cts[0])]


def product_rows(size, batched, operands):
    """The vmap rule of products: rows lie along axis 0 of what is batched."""
    return [mul(*(x if b else mapped_to(x, None, size) for x, b in zip(operands, batched)))], [True]


def doubling_and_halving(aval):
    """The four programs of the equation 2 x = b."""
    double, half = (jaxpr_of(lambda x, k=k: [mul(x, k)]).make(aval) for k in (2.0, 0.5))
    return Four(double, double, half, half)


def linear_types(*avals):
    """The types of the results of a `times` of tangents."""
    return avals[1:]


class Times(VJPHiPrimitive):
    """A product, as an operation with rules of its own."""

    def __init__(self, one, two):
        self.in_avals, self.out_aval, self.params = (one, two), one, {}
        super().__init__()

    def expand(self, x, y):
        return mul(x, y)

    def vjp_fwd(self, nzs_in, x, y):
        return self(x, y), (x, y)

    def vjp_bwd_retval(self, residuals, ct):
        x, y = residuals
        return mul(ct, y), mul(ct, x)

    def batch_dim_rule(self, axis_data, dims):
        return dims[1] if dims[0] is None else dims[0]


ROWS = [
    Row(xla_call_p, [Sample(floats(2, 3), floats(2, 3, salt=1), call_jaxpr=jaxpr_of(two_results), name="f"),
                     Sample(floats(3), integers(3), call_jaxpr=jaxpr_of(with_integers), name="f"),
                     Sample(complexes(2), complexes(2, salt=1), call_jaxpr=jaxpr_of(two_results), name="f"),
                     Sample(floats(3), call_jaxpr=jaxpr_of(lambda x: [neg(x)]), name="f")],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(composite_p, [Sample(floats(2, 3), floats(2, 3, salt=1), jaxpr=jaxpr_of(two_results), name="my.two", version=0,
                             attributes=(("k", "3 : i64"),)),
                      Sample(floats(3), jaxpr=jaxpr_of(lambda x: [neg(x)]), name="my.neg", version=1, attributes=())],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(custom_jvp_call_p, [Sample(floats(2, 3), call_jaxpr=jaxpr_of(sine), jvp=sine_jvp, name="sine", num_consts=0),
                            Sample(floats(3), floats(3, salt=1), call_jaxpr=jaxpr_of(product), jvp=product_jvp,
                                   name="product", num_consts=0)],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(custom_vjp_call_p, [Sample(floats(2, 3), call_jaxpr=jaxpr_of(sine), fwd=sine_fwd, name="sine", num_consts=0)],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(custom_lin_p, [Sample(floats(2, 3), floats(2, 3, salt=1), num_res=1, active=(True,), pull=times, name="times",
                              out_avals=FromTypes(linear_types), all_out_avals=FromTypes(linear_types))],
        meaning=lambda residual, tangent, **params: [residual * tangent]),
    Row(call_hi_primitive_p, [Sample(floats(2, 3), floats(2, 3, salt=1), _prim=FromTypes(Times))],
        skip={"transpose": "it is not linear"}),
    Row(custom_vmap_call_p, [Sample(floats(2, 3), floats(2, 3, salt=1), call_jaxpr=jaxpr_of(product),
                                    rule=product_rows, name="product")]),
    Row(linear_call_p, [Sample(positive(3), floats(3), call_jaxpr=jaxpr_of(lambda y, x: [div(x, y)]), num_res=1,
                               transpose=lambda residuals, cts: [div(cts[0], residuals[0])], name="divide")]),
    Row(custom_linear_solve_p, [Sample(floats(3), jaxprs=FromTypes(doubling_and_halving),
                                       const_lengths=Four(0, 0, 0, 0))]),
    Row(stop_gradient_p, [Sample(floats(2, 3)), Sample(complexes(2)), Sample(integers(3)), Sample(booleans())],
        dtypes=ANY, skip={"jvp": "it has no derivative, by design"}),
    Row(stop_gradient_p, [Sample(np.float32([np.inf, np.nan, -0.0]), edges=True)]),
]  # fmt: skip

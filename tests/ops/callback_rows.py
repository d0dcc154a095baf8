"""Rows of xpr/control/callback/callback.py: calls of Python functions, which here compute what NumPy does."""

import numpy as np

from tests.ops.table import FromTypes, Row, Sample, floats, integers
from xpr.control.callback.callback import debug_callback_p, io_callback_p, pure_callback_p
from xpr.control.callback.foreign_call import ffi_call_p
from xpr.control.callback.host_call import HostCall
from xpr.control.checkify.checkify import check_p
from xpr.control.checkify.errors import Check, Checks
from xpr.core.avals import ShapedArray
from xpr.errors import FailedCheckError


class Flat(HostCall):
    """A callback of flat lists of NumPy arrays."""

    __slots__ = ()

    def __init__(self, function):
        super().__init__("callback", function, None, (), None)

    def __call__(self, values, avals):
        return self.function(values, avals)


@Flat
def sine_and_sum(values, avals):
    x, n = values
    return [np.sin(x), (x * n.astype(x.dtype)).sum().astype(x.dtype)]


@Flat
def nothing(values, avals):
    return []


CHECK = Check(FailedCheckError, "'x'", lambda payload: "x", (ShapedArray((), np.dtype(np.float32)),), None)

TYPES = FromTypes(lambda x, n: (x, x.update(shape=())))
OPERANDS = (floats(2, 3), integers(2, 3))

# The matrix that LAPACK factors, its permutation, and whether it is singular.
FACTORS = FromTypes(lambda a: (a, a.update(shape=(3,), dtype=np.dtype("i4")), a.update(shape=(), dtype=np.dtype("i4"))))

ROWS = [
    Row(
        pure_callback_p,
        [Sample(*OPERANDS, callback=sine_and_sum, result_avals=TYPES, vmap_method="sequential")],
        differentiable=False,
    ),
    Row(
        io_callback_p,
        [Sample(*OPERANDS, callback=sine_and_sum, result_avals=TYPES, ordered=False)],
        differentiable=False,
    ),
    Row(
        debug_callback_p, [Sample(*OPERANDS, callback=nothing, ordered=False, partitioned=False)], differentiable=False
    ),
    Row(
        ffi_call_p,
        [
            Sample(
                floats(3, 3),
                target_name=FromTypes(lambda a: f"lapack_{'s' if a.dtype == np.float32 else 'd'}getrf_ffi"),
                result_avals=FACTORS,
                has_side_effect=False,
                vmap_method="sequential",
                input_layouts=((1, 0),),
                output_layouts=((1, 0), (0,), ()),
                input_output_aliases=(),
                custom_call_api_version=4,
                legacy_backend_config=None,
                attributes=(),
            )
        ],
        dtypes=(np.dtype(np.float32), np.dtype(np.float64)),
        differentiable=False,
        skip={"value": "A function of another library has no meaning in NumPy."},
    ),
    Row(
        check_p,
        [Sample(np.int32(0), np.float32(1), checks=Checks([CHECK]), debug=True)],
        differentiable=False,
    ),
]

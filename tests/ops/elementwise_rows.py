"""Rows of what xpr/primitives/elementwise.py gathers."""

import numpy as np

from tests.ops.table import (
    ANY,
    BOOLS,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    Row,
    Sample,
    booleans,
    complexes,
    floats,
    integers,
    positive,
)
from xpr import dtypes
from xpr.primitives import elementwise as e

F32 = np.float32
REALS = INTEGERS + FLOATS
INF, NAN = np.inf, np.nan

ONE = [Sample(floats(2, 3)), Sample(floats())]
BOTH = [*ONE, Sample(complexes(2, 2))]
EDGES = Sample(F32([0.0, -0.0, 1.0, -1.0, 1e-3, 1e6, INF, -INF, NAN]), edges=True)
STRETCHED = (2, 1), (1, 3)  # shapes of operands that are repeated to (2, 3)
TWO = [Sample(floats(*m), floats(*n, salt=1)) for m, n in (((2, 3), (2, 3)), ((3,), ()), ((), (3,)), STRETCHED)]
TWO_COMPLEX = Sample(complexes(2), complexes(2, salt=1))
PAIRS = Sample(*(x.ravel() for x in np.meshgrid(*[F32([0.0, -0.0, 1.5, -2.0, INF, -INF, NAN])] * 2)), edges=True)
INTS = Sample(integers(3, low=-5), integers(3, low=-4, below=5, salt=1), edges=True)
SMALLEST = np.iinfo(np.int32).min
CORNERS = [np.int32(x) for x in ([7, -7, 7, -7, 0, 5, SMALLEST, SMALLEST], [2, 2, -2, -2, 3, 0, -1, 0])]
INSIDE = [Sample(floats(2, 3, low=-0.9, high=0.9)), Sample(complexes(2, 2) / 4)]  # of the unit circle
RIGHT = [Sample(positive(2, 3)), Sample(complexes(2, 2) + 3)]  # of the imaginary axis
HALVES = Sample(F32([-2.5, -1.5, -0.5, -0.49999997, 0.0, 0.3, 0.49999997, 0.5, 1.5, 2.5, 8388609.0]), edges=True)
SPECKLED = F32([1.0, 2.0, 1.0, -1.0])  # equal to some of `SPOTTED`
SPOTTED = F32([1.0, 1.0, 2.0, -1.0])


def unary(primitive, samples, dtypes=INEXACT, edges=EDGES, **more):
    return Row(primitive, [*samples, *([edges] if edges else [])], dtypes=dtypes, **more)


arithmetic = [
    unary(e.neg_p, BOTH, NUMBERS),
    Row(e.add_p, [*TWO, TWO_COMPLEX, PAIRS, INTS], dtypes=ANY),
    Row(e.add_any_p, [*TWO, TWO_COMPLEX], dtypes=ANY),
    Row(e.sub_p, [*TWO, TWO_COMPLEX, PAIRS, INTS], dtypes=NUMBERS),
    Row(e.mul_p, [*TWO, TWO_COMPLEX, PAIRS, INTS], dtypes=ANY),
    Row(e.div_p, [Sample(floats(2, 3), positive(2, 3)), Sample(floats(3), positive()), Sample(floats(), positive(3)),
                  Sample(floats(2, 1), positive(1, 3)), TWO_COMPLEX, PAIRS, Sample(*CORNERS, edges=True)],
        dtypes=NUMBERS),
    Row(e.rem_p, [Sample(floats(2, 3), positive(2, 3)), Sample(floats(3), F32(-0.7)),
                  Sample(floats(2, 1), positive(1, 3)), PAIRS, INTS, Sample(*CORNERS, edges=True)], dtypes=REALS),
    *(Row(p, [*TWO, TWO_COMPLEX, PAIRS, INTS, Sample(booleans(4), booleans(4, salt=1))], dtypes=ANY, signed_zeros=False)
      for p in (e.max_p, e.min_p)),
    unary(e.sign_p, BOTH, NUMBERS),
    unary(e.abs_p, BOTH, NUMBERS),
    unary(e.square_p, BOTH, NUMBERS),
    Row(e.integer_pow_p, [Sample(floats(2, 3), y=3), Sample(complexes(2), y=2), Sample(floats(3), y=0),
                          Sample(positive(3), y=-2)], dtypes=INEXACT),
    Row(e.integer_pow_p, [Sample(integers(3, low=-3, below=4), y=5), Sample(integers(3), y=0)], dtypes=INTEGERS),
    Row(e.pow_p, [Sample(positive(2, 3), floats(2, 3)), Sample(positive(3), floats()), Sample(positive(), floats(3)),
                  Sample(positive(2, 1), floats(1, 3)), Sample(complexes(2) + 3, complexes(2, salt=1)),
                  Sample(positive(3), F32([0, 1, 2])), PAIRS], dtypes=INEXACT),
]  # fmt: skip

rounding = [
    unary(e.floor_p, ONE, FLOATS),
    unary(e.ceil_p, ONE, FLOATS),
    Row(e.floor_p, [HALVES], dtypes=FLOATS),
    Row(e.ceil_p, [HALVES], dtypes=FLOATS),
    *(Row(e.round_p, [Sample(*x.operands, edges=x.edges, rounding_method=m) for x in (*ONE, HALVES, EDGES)],
          dtypes=FLOATS) for m in (0, 1)),
    unary(e.is_finite_p, ONE, FLOATS),
    Row(e.nextafter_p, [*TWO, PAIRS], dtypes=FLOATS,
        skip={"jvp": "it is a step of one unit beside x, whose derivative is taken as zero"}),
]  # fmt: skip

exponentials = [
    unary(e.exp_p, BOTH),
    unary(e.exp2_p, BOTH),
    unary(e.log_p, RIGHT),
    unary(e.expm1_p, BOTH),
    unary(e.log1p_p, RIGHT),
    unary(e.logistic_p, BOTH),
    unary(e.sqrt_p, RIGHT),
    unary(e.rsqrt_p, RIGHT),
    unary(e.cbrt_p, [Sample(positive(2, 3)), Sample(-positive(2))], FLOATS),
]

trigonometry = [
    *(unary(p, BOTH, edges=Sample(F32([0.0, -0.0, 1.0, -3.0, INF, -INF, NAN]), edges=True))
      for p in (e.sin_p, e.cos_p, e.tan_p, e.sinh_p, e.cosh_p, e.tanh_p, e.atan_p, e.asinh_p)),
    *(unary(p, INSIDE, tolerance=128) for p in (e.asin_p, e.acos_p, e.atanh_p)),
    unary(e.acosh_p, [Sample(positive(2, 3) + 1), Sample(complexes(2) + 3)]),
    Row(e.atan2_p, [*TWO, PAIRS], dtypes=FLOATS),
    Row(e.atan2_p, [Sample(complexes(2) + 3, complexes(2, salt=1) + 3)], dtypes=COMPLEX),
]  # fmt: skip

comparisons = [
    *(Row(p, [*TWO, TWO_COMPLEX, PAIRS, INTS, Sample(SPECKLED, SPOTTED)], dtypes=ANY) for p in (e.eq_p, e.ne_p)),
    *(Row(p, [*TWO, PAIRS, INTS, Sample(SPECKLED, SPOTTED, edges=True)], dtypes=REALS + BOOLS)
      for p in (e.lt_p, e.le_p, e.gt_p, e.ge_p)),
]  # fmt: skip

WORDS = np.int32([0, 1, -1, 5, -5, 2**30, SMALLEST, 2**31 - 1])
SHIFTS = np.int32([0, 1, 31, 3, 2, 40, 7, -1])

bits = [
    *(Row(p, [Sample(WORDS, SHIFTS), Sample(booleans(5), booleans(5, salt=1)), Sample(integers(2, 3), integers()),
              Sample(integers(2, 1), integers(1, 3))], dtypes=BOOLS + INTEGERS) for p in (e.and_p, e.or_p, e.xor_p)),
    Row(e.not_p, [Sample(WORDS), Sample(booleans(5))], dtypes=BOOLS + INTEGERS),
    *(Row(p, [Sample(WORDS, SHIFTS), Sample(integers(2, 3), integers()), Sample(integers(2, 1), integers(1, 3))],
          dtypes=INTEGERS)
      for p in (e.shift_left_p, e.shift_right_logical_p, e.shift_right_arithmetic_p)),
    *(Row(p, [Sample(WORDS), Sample(integers())], dtypes=INTEGERS) for p in (e.population_count_p, e.clz_p)),
]  # fmt: skip

complex_parts = [
    *(Row(p, [Sample(complexes(2, 3)), Sample(complexes())], dtypes=COMPLEX) for p in (e.real_p, e.imag_p, e.conj_p)),
    Row(e.complex_p, [*TWO, PAIRS], dtypes=[np.float32, np.float64]),
]

BOUNDS = np.float32([-1.5, -0.5, 0.25]), np.float32([-2.0, 0.1, 0.3]), np.float32([1.0, 0.0625, 0.75])

WIDELY = F32([0.0, -1.5, 2.5, 1e3, -3e9, 1e20, INF, -INF, NAN])

conversions = [
    Row(e.clamp_p, [Sample(F32(-1), floats(2, 3), F32(0.5)), Sample(F32(1.5), floats(2, 3), F32(0.3)),
                    Sample(*BOUNDS), Sample(F32(-1), floats(), F32(1)),
                    Sample(np.int32(2), integers(5), np.int32(7)),
                    Sample(F32(-1), F32([NAN, INF, -INF]), F32(1), edges=True)], dtypes=REALS),
    *(Row(e.convert_element_type_p, [Sample(WIDELY, edges=True, new_dtype=dtype, weak_type=False)],
          dtypes=FLOATS) for dtype in ANY if dtype.itemsize < 8),
    *(Row(e.convert_element_type_p, [Sample(WORDS, edges=True, new_dtype=dtype, weak_type=False)],
          dtypes=BOOLS + INTEGERS) for dtype in ANY if dtype.itemsize < 8),
    Row(e.convert_element_type_p,
        [Sample(floats(2, 3), new_dtype=np.dtype(np.float16), weak_type=False),
         Sample(floats(3), new_dtype=np.dtype(np.complex64), weak_type=False),
         Sample(complexes(3), new_dtype=np.dtype(np.complex64), weak_type=False),
         Sample(floats(), new_dtype=np.dtype(np.float32), weak_type=True),
         Sample(integers(3), new_dtype=np.dtype(np.float32), weak_type=False),
         Sample(floats(3), new_dtype=np.dtype(np.int32), weak_type=False)]),
    Row(e.convert_element_type_p, [Sample(complexes(3), new_dtype=np.dtype(np.float32), weak_type=False),
                                   Sample(complexes(3), new_dtype=np.dtype(bool), weak_type=False, edges=True)]),
    Row(e.bitcast_convert_type_p,
        [Sample(floats(2, 3), new_dtype=np.dtype(np.int32)), Sample(WORDS, new_dtype=np.dtype(np.uint8)),
         Sample(integers(3, 4, dtype=np.uint8), new_dtype=np.dtype(np.uint32)),
         Sample(integers(3, dtype=np.int8), new_dtype=dtypes.int4),
         Sample(integers(2, 2, dtype=np.int8).astype(dtypes.uint4), new_dtype=np.dtype(np.uint8)),
         Sample(floats(3, 2), new_dtype=np.dtype(np.uint16))], differentiable=False),
    Row(e.reduce_precision_p,
        [Sample(floats(2, 3), exponent_bits=8, mantissa_bits=7), Sample(positive(3), exponent_bits=5, mantissa_bits=10),
         Sample(EDGES.operands[0], exponent_bits=4, mantissa_bits=3, edges=True),
         Sample(EDGES.operands[0], exponent_bits=4, mantissa_bits=0, edges=True)],
        skip={"jvp": "rounding is a staircase, and the derivative that of the identity",
              "vjp": "tangents and cotangents are rounded too", "transpose": "linear up to rounding"}),
    Row(e.copy_p, [Sample(floats(2, 3)), Sample(complexes(2)), Sample(integers(3)), Sample(booleans(3))], dtypes=ANY),
]  # fmt: skip

ROWS = [*arithmetic, *rounding, *exponentials, *trigonometry, *comparisons, *bits, *complex_parts, *conversions]

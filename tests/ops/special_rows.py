"""Rows of the special functions, random keys and what is drawn from them, and the loop that is used for it."""

import numpy as np

from tests.ops.table import FLOATS, Row, Sample, floats, integers, positive
from xpr.primitives import elementwise as e
from xpr.primitives import incomplete as i
from xpr.primitives import random_keys as r
from xpr.primitives import smooth as w
from xpr.primitives import special as s
from xpr.primitives.elementwise_while import iterate_p
from xpr.primitives.generators import THREEFRY
from xpr.primitives.random_bits import threefry2x32_p
from xpr.primitives.random_gamma import random_gamma_p
from xpr.primitives.random_poisson import random_poisson_p
from xpr.primitives.rng_bit_generator import RandomAlgorithm, rng_bit_generator_p
from xpr.primitives.rng_uniform import rng_uniform_p

F32 = np.float32
INF, NAN = np.inf, np.nan
LINE = Sample(F32([0.0, 1e-4, -1e-4, 3.0, -3.0, INF, -INF, NAN]), edges=True)
UNIT = Sample(F32([0.0, 1.0, -1.0, 0.999, -0.5, 1.5, NAN]), edges=True)
AXIS = Sample(F32([0.5, 3.0, 30.0, 1e-3, -0.75, -1.25, 0.0, -1.0, INF, NAN]), edges=True)  # away from the roots
GREAT = Sample(F32([0.0, 7.9, 8.1, -8.1, 100.0, -1e4, NAN]), edges=True)
SHAPES = [Sample(positive(2, 3)), Sample(positive())]
TWO = [Sample(positive(2, 3), positive(2, 3, salt=1)), Sample(positive(3), F32(1.7)), Sample(F32(0.6), positive(3)),
       Sample(positive(2, 1), positive(1, 3))]  # fmt: skip
CORNER = F32([0.0, 0.5, 2.0, 20.0, 1000.0, INF, -1.0, NAN])
CORNERS = Sample(*(x.ravel() for x in np.meshgrid(CORNER, CORNER)), edges=True)
ORDERS = F32([1.0, 2.0, 3.0])
NEGATIVE = F32([-20.3, -9.6, -0.4, -2, -2, -3.7, -0.4, 1, 1, 1])
CHANCES = floats(2, 3, low=0.1, high=0.9)
BETA_CORNER = F32([0.0, 0.5, 3.0, INF, -1.0]), F32([0.0, 2.0, INF]), F32([0.0, 0.3, 1.0, 2.0, NAN])
BETA_CORNERS = Sample(*(x.ravel() for x in np.meshgrid(*BETA_CORNER)), edges=True)
SLOPE_CORNERS = Sample(*BETA_CORNERS.operands, 1 - BETA_CORNERS.operands[2], edges=True)
LENGTHS = F32([0.0, 3.0, -4.0, 1e30, INF, -INF, NAN])
WORDS = [integers(3, below=2**31, dtype=np.uint32, salt=n) for n in range(4)]
KEY = [np.uint32(7), np.uint32(11)]
ONE_KEY, THREE_KEYS = np.uint32([7, 11]), integers(3, 2, below=2**31, dtype=np.uint32)
DEFAULT, PHILOX = RandomAlgorithm.RNG_DEFAULT, RandomAlgorithm.RNG_PHILOX

OF_DERIVATIVES = ("typing", "jvp", "zeros", "linearize", "vjp", "order2", "commute")
NOT_BOTH = dict.fromkeys(OF_DERIVATIVES, "it has no derivative in one of its operands")
ONLY_LOWERED = "it stands in what other primitives lower to, and is never mapped"
NEAR_AND_FAR = [Sample(floats(2, 3)), Sample(floats(2, low=8.5, high=20.0)), GREAT]

special = [
    Row(s.erf_p, [Sample(floats(2, 3)), Sample(floats()), LINE], dtypes=FLOATS),
    Row(s.erfc_p, [Sample(floats(2, 3)), LINE], dtypes=FLOATS, tolerance=32),
    Row(s.erf_inv_p, [Sample(floats(2, 3, low=-0.8, high=0.8)), UNIT], dtypes=FLOATS),
    Row(s.lgamma_p, [*SHAPES, AXIS], dtypes=FLOATS, tolerance=64),
    Row(s.digamma_p, [*SHAPES, AXIS], dtypes=FLOATS, tolerance=64),
    Row(s.polygamma_p, [Sample(ORDERS, positive(3)), Sample(ORDERS[:, None], positive(1, 2)),
                        Sample(F32([1, 2, 3, 1, 2, 0, 1.5, -1, INF, NAN]), NEGATIVE, edges=True)],
        dtypes=FLOATS, skip=NOT_BOTH, tolerance=64),
    Row(s.zeta_p, [Sample(ORDERS + F32(1.5), positive(3)), Sample(ORDERS[:, None] + F32(1.5), positive(1, 2)),
                   Sample(F32([2, 3, 4, 7, 2.5, 2, 3, 1, 0.5, NAN]), NEGATIVE, edges=True),
                   Sample(F32([2, 3, 1.5]), F32([1e30, 1e12, 1e30]), edges=True)],
        dtypes=FLOATS, skip=NOT_BOTH, tolerance=64),
    Row(s.bessel_i0e_p, NEAR_AND_FAR, dtypes=FLOATS, tolerance=64),
    Row(s.bessel_i1e_p, NEAR_AND_FAR, dtypes=FLOATS, tolerance=64),
]  # fmt: skip

smooth = [
    Row(w.hypot_p, [*TWO, Sample(*(v.ravel() for v in np.meshgrid(LENGTHS, LENGTHS)), edges=True)], dtypes=FLOATS),
    *(Row(p, [*(Sample(floats(2, 3), order=n) for n in (0, 1, 4)), Sample(floats(3, low=2.5, high=9.0), order=1),
              Sample(F32([0.0, 1e-4, 1.5, -1.5, 12.0, NAN]), order=2, edges=True),
              Sample(F32([0.0, INF, -INF, NAN]), order=0, edges=True)], dtypes=FLOATS, tolerance=256)
      for p in (w.sine_quotient_p, w.expm1_quotient_p, w.bessel_i0_p)),
]  # fmt: skip

incomplete = [
    Row(i.igamma_p, [*TWO, CORNERS], dtypes=FLOATS, tolerance=64, skip={"order2": "the slope in the shape has none"}),
    Row(i.igammac_p, [*TWO, CORNERS], dtypes=FLOATS, tolerance=64, skip={"order2": "the slope in the shape has none"}),
    Row(i.igamma_grad_a_p, [*TWO, CORNERS], dtypes=FLOATS, tolerance=256, skip=NOT_BOTH),
    Row(i.random_gamma_grad_p, [*TWO, CORNERS], dtypes=FLOATS, tolerance=256, skip=NOT_BOTH),
    Row(i.regularized_incomplete_beta_p, [Sample(positive(2, 3), positive(2, 3, salt=1), CHANCES),
                                          Sample(F32(2.0), F32(0.7), CHANCES),
                                          Sample(positive(2, 1), positive(1, 1), CHANCES[:1]), BETA_CORNERS],
        dtypes=FLOATS, tolerance=64, skip={"order2": "the slope in a parameter has none"}),
    Row(i.regularized_incomplete_beta_grad_a_p, [Sample(positive(2, 3), positive(2, 3, salt=1), CHANCES, 1 - CHANCES),
                                                 SLOPE_CORNERS],
        dtypes=FLOATS, tolerance=256, differentiable=False),
]  # fmt: skip


def _above_one(x, n):
    return e.gt(x, e.scalar(1, x))


def _halved(x, n):
    return [e.div(x, e.scalar(2, x)), e.add(n, e.scalar(1, n))]


drawn = [
    Row(threefry2x32_p, [Sample(*WORDS), Sample(*KEY, *WORDS[2:]), Sample(*KEY, *KEY),
                         Sample(*KEY, np.uint32(0), WORDS[0])], differentiable=False),
    Row(r.random_seed_p, [Sample(np.int32(7), impl=THREEFRY), Sample(integers(3), impl=THREEFRY)],
        differentiable=False),
    Row(r.random_split_p, [Sample(ONE_KEY, shape=(3,)), Sample(THREE_KEYS, shape=(2, 2))], keys=[0],
        differentiable=False),
    Row(r.random_fold_in_p, [Sample(ONE_KEY, np.uint32(3)), Sample(THREE_KEYS, integers(3, dtype=np.uint32)),
                             Sample(ONE_KEY, integers(3)), Sample(THREE_KEYS, np.uint32(3))], keys=[0],
        differentiable=False),
    Row(r.random_bits_p, [Sample(ONE_KEY, bit_width=32, shape=(2, 3)), Sample(THREE_KEYS, bit_width=8, shape=(4,)),
                          Sample(ONE_KEY, bit_width=16, shape=())], keys=[0], differentiable=False),
    Row(r.random_wrap_p, [Sample(ONE_KEY, impl=THREEFRY), Sample(THREE_KEYS, impl=THREEFRY)], differentiable=False),
    Row(r.random_unwrap_p, [Sample(ONE_KEY), Sample(THREE_KEYS)], keys=[0], differentiable=False),
    Row(rng_bit_generator_p, [Sample(integers(4, dtype=np.uint32), shape=(2, 3), dtype=np.dtype("uint32"),
                                     algorithm=algorithm) for algorithm in (DEFAULT, PHILOX)], differentiable=False,
        skip={"value": "its bits are XLA's, which differ between platforms",
              "vmap": "as in JAX, all rows draw from the first key"}),
    Row(rng_uniform_p, [Sample(np.int32(3), np.int32(4), shape=(2, 3))], differentiable=False,
        skip={"value": "it has no reference, for its numbers come of no operand", "vmap": "it takes no rows of bounds",
              "commute": "it takes no rows of bounds"}),
    Row(random_gamma_p, [Sample(THREE_KEYS, F32([0.3, 1.0, 5.0]), log_space=False),
                         Sample(ONE_KEY, F32([0.3, 1.0, 5.0]), log_space=True),
                         Sample(ONE_KEY, F32(0.7), log_space=False)],
        keys=[0], tolerance=64,
        skip={"jvp": "the derivative holds a chance fixed, not the proposals", "order2": "it has none"}),
    Row(random_poisson_p, [Sample(ONE_KEY, F32([0.5, 7.0]), rates="small"),
                           Sample(ONE_KEY, F32([10.0, 70.0]), rates="large"),
                           Sample(THREE_KEYS, positive(3, 2) * F32(6), rates="any")], keys=[0],
        differentiable=False),
    Row(iterate_p, [Sample(F32([0.5, 3.0, 100.0]), F32([0, 0, 0]), going=_above_one, step=_halved, rank=1),
                    Sample(F32([0.5, 3.0, 100.0]), F32([0, 0, 0]), going=_above_one, step=_halved, rank=0)],
        differentiable=False, skip={"vmap": ONLY_LOWERED, "commute": ONLY_LOWERED}),
]  # fmt: skip

ROWS = [*special, *smooth, *incomplete, *drawn]

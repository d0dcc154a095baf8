"""Primitives and the functions that apply them, one to one: no promotion, no broadcasting but of scalars."""

from xpr.control.composite import *
from xpr.control.cond.cond import *
from xpr.control.cond.function import *
from xpr.control.cond.platforms import *
from xpr.control.custom.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from xpr.control.custom.custom_lin import *
from xpr.control.custom.custom_root import *
from xpr.control.custom.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from xpr.control.custom.custom_vmap import *
from xpr.control.custom.linear_call import *
from xpr.control.custom.linear_solve import *
from xpr.control.custom.linear_solve import custom_linear_solve_p as _linear_solve_p
from xpr.control.devices.sharding_constraint import *
from xpr.control.reduce import *
from xpr.control.reduce_window import *
from xpr.control.remat.checkpoint import *
from xpr.control.remat.policies import name_p as name_p
from xpr.control.scan.bounded import *
from xpr.control.scan.function import *
from xpr.control.scan.mapping import *
from xpr.control.scan.scan import *
from xpr.control.scan.until import *
from xpr.control.scatter_apply import *
from xpr.control.stop_gradient import *
from xpr.control.while_.fold import *
from xpr.control.while_.fori_loop import *
from xpr.control.while_.function import *
from xpr.control.while_.reverse import *
from xpr.control.while_.while_loop import *
from xpr.control.xla_call import *
from xpr.lax import linalg as linalg
from xpr.lax.ragged_exchange import *
from xpr.primitives.argminmax import *
from xpr.primitives.arithmetic import *
from xpr.primitives.barrier import *
from xpr.primitives.bitwise import *
from xpr.primitives.collectives.exchange import *
from xpr.primitives.collectives.reduce import *
from xpr.primitives.comparisons import *
from xpr.primitives.complex_numbers import *
from xpr.primitives.complex_numbers import complex_ as _complex
from xpr.primitives.composites import *
from xpr.primitives.concatenation import *
from xpr.primitives.conversions import *
from xpr.primitives.cumulative import *
from xpr.primitives.dce_sink import *
from xpr.primitives.device_put import *
from xpr.primitives.dimension_values import *
from xpr.primitives.dot import *
from xpr.primitives.dot_algorithms import *
from xpr.primitives.dynamic_slices import *
from xpr.primitives.elementwise_rules import *
from xpr.primitives.elementwise_while import *
from xpr.primitives.exponentials import *
from xpr.primitives.fft import *
from xpr.primitives.gather.gather_scatter import *
from xpr.primitives.gather.scatter import *
from xpr.primitives.gather.windows import *
from xpr.primitives.incomplete import *
from xpr.primitives.layout_constraint import *
from xpr.primitives.powers import *
from xpr.primitives.precision import *
from xpr.primitives.ragged_dot import *
from xpr.primitives.random_bits import *
from xpr.primitives.random_gamma import *
from xpr.primitives.random_keys import *
from xpr.primitives.recurrences import *
from xpr.primitives.reductions import *
from xpr.primitives.rng_bit_generator import *
from xpr.primitives.rng_uniform import *
from xpr.primitives.rounding import *
from xpr.primitives.scaled_dot import *
from xpr.primitives.shapes import *
from xpr.primitives.shard_alike import *
from xpr.primitives.sharding_constraint import *
from xpr.primitives.slicing import *
from xpr.primitives.slicing import slice_ as _slice
from xpr.primitives.slicing_in_dim import *
from xpr.primitives.smooth import *
from xpr.primitives.sorting import *
from xpr.primitives.special import *
from xpr.primitives.tokens import *
from xpr.primitives.trigonometric import *
from xpr.primitives.windows.convolution import *
from xpr.primitives.windows.convolution_functions import *
from xpr.primitives.windows.convolution_shapes import *
from xpr.primitives.windows.sizes import *
from xpr.primitives.windows.window_reductions import *
from xpr.primitives.xla_metadata import *

complex = _complex
linear_solve_p = _linear_solve_p
slice = _slice

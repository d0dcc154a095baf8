"""Kernels: functions of refs that run for each index of a grid, on blocks of arrays; JAX has them under the same name.

XLA compiles them, on every platform, as the loop over the grid that they are. There is no compiler of its own for them
(Mosaic, Triton), so what is about the hardware, memory spaces and the like, is taken as a hint.
"""

from xpr.core.sized_slices import *
from xpr.experimental.pallas.call import *
from xpr.experimental.pallas.costs import *
from xpr.experimental.pallas.grids import *
from xpr.experimental.pallas.helpers import *
from xpr.experimental.pallas.specs import *

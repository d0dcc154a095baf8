"""Kernels: functions of refs that run for each index of a grid, on blocks of arrays; as JAX's module of this name.

XLA compiles a call of a kernel, on every platform, as a loop over the grid. Mosaic and Triton, which compile JAX's
kernels, are not used, so parameters that are about the hardware, such as memory spaces, are hints and change nothing.
"""

from xpr.core.sized_slices import *
from xpr.experimental.pallas.call import *
from xpr.experimental.pallas.costs import *
from xpr.experimental.pallas.grids import *
from xpr.experimental.pallas.helpers import *
from xpr.experimental.pallas.specs import *

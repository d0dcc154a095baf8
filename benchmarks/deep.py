"""A training step of a residual network of 48 layers that are written out, which XLA takes long to compile.

The gradient of the residual stream is one long sum. XLA:CPU fuses all of it into each of its readers, so that the time
to compile and to run grows with the square of the depth; xpr keeps the sums apart.
"""

from functools import partial

from benchmarks.case import Case, cold, warm
from benchmarks.models import transformer_step

LAYERS = 48
step = partial(transformer_step, layers=LAYERS)

CASES = [
    Case(f"{LAYERS}-layer transformer, first training step", cold(step), target=10),
    Case(f"{LAYERS}-layer transformer, later steps", warm(step), target=2),
]

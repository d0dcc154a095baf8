"""The gradient of a residual network of 48 layers that are written out, which XLA takes long to compile.

The residual stream is one long sum, and so is its gradient. XLA:CPU fuses all of it into each of its readers, so that
the time to compile and to run grows with the square of the depth; xpr keeps the sums apart, and compiles what is alike
in the layers once.
"""

from functools import partial

from benchmarks.case import Case, cold, warm
from benchmarks.models import transformer_gradient, transformer_step

LAYERS = 48
NETWORK = f"{LAYERS}-layer transformer"
gradient = partial(transformer_gradient, layers=LAYERS)
bare_step = partial(transformer_step, layers=LAYERS, bare=True)

CASES = [
    Case(f"{NETWORK}, first gradient", cold(gradient), target=10),
    Case(f"{NETWORK}, later gradients", warm(gradient), target=2),
    Case(f"{NETWORK} without biases, first training step", cold(bare_step), target=10),
    Case(f"{NETWORK} without biases, later steps", warm(bare_step), target=2),
]

"""`jax.experimental.roofline`: what bounds a program's speed, estimated from its types: operations, memory, network.

    flops, bytes to and from memory      of products and what else a compiler fuses into nothing
    unfused_flops, unfused_hbm_bytes     of all operations, as if each read its operands from memory
    ici_bytes, ici_latency               of collectives, on the links along each axis of a mesh

Divided by what a device does in a second, the greatest of them says what the program waits for (Williams, Waterman and
Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009).
"""

from xpr.experimental.roofline.analysis import roofline, roofline_and_grad
from xpr.experimental.roofline.results import RooflineResult, RooflineShape
from xpr.experimental.roofline.rules import RooflineRuleContext, register_roofline, register_standard_roofline

__all__ = [
    "RooflineResult", "RooflineRuleContext", "RooflineShape", "register_roofline", "register_standard_roofline",
    "roofline", "roofline_and_grad",
]  # fmt: skip

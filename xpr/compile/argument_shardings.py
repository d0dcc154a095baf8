"""How values lie on several devices, also those that stand for the arguments of a program that is traced.

A program that was traced by this (`shard_map` without in_specs) holds for arguments that lie so alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.sharding import NamedSharding
from xpr.core.interpreter import Tracer
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer
from xpr.transforms.stage import StageTracer


class ArgumentShardings:
    """How the arguments of a program lie, for those that ask while it is traced.

    `asked` says whether someone did.
    """

    __slots__ = ("values", "asked")

    def __init__(self, values: Sequence[Any]):
        self.values, self.asked = values, False

    def all(self) -> tuple[Any, ...]:
        """`lying` of each, which can be compared."""
        return tuple(map(lying, self.values))


def lying(x: Any) -> tuple[bool, NamedSharding | None]:
    """Whether it is known how a value lies on several devices; and how, None for one that was put nowhere.

    It is known of arrays, of what stands for one while a function is differentiated, and of the arguments of `jit`;
    values that are computed lie as the compiler sees fit.
    """
    while isinstance(x, (JVPTracer, LinearizeTracer)):
        x = x.primal
    if isinstance(x, StageTracer):
        trace: Any = x._trace
        for value, argument in zip(trace.shardings.values if trace.shardings else (), trace.arguments):
            if argument.variable is x.variable:
                trace.shardings.asked = True
                return lying(value)
    if isinstance(x, Tracer):
        return False, None
    sharding = getattr(x, "sharding", None)
    return True, sharding if isinstance(sharding, NamedSharding) else None

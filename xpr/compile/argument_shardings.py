"""Shardings of values, also of the arguments of a program while it is traced.

A program whose trace depends on them (`shard_map` without in_specs) is valid for arguments with these shardings alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding
from xpr.core.interpreter import Tracer
from xpr.transforms.batch import BatchTracer
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer
from xpr.transforms.stage import StageTracer


class ArgumentShardings:
    """The shardings of a program's arguments; `was_read` says whether its trace depends on them."""

    __slots__ = ("values", "was_read")

    def __init__(self, values: Sequence[Any]):
        self.values, self.was_read = values, False

    def all(self) -> tuple[Any, ...]:
        """The known sharding of each argument, in a form that can be compared."""
        return tuple(map(known_sharding, self.values))


def known_device(x: Any) -> Any:
    """The sharding of an array, or of the one that a tracer stands for.

    None for other tracers, and for an array on several devices that `vmap` maps.
    """
    is_mapped = False
    while isinstance(x, (JVPTracer, LinearizeTracer, BatchTracer)):
        is_mapped |= isinstance(x, BatchTracer)
        x = x.value if isinstance(x, BatchTracer) else x.primal
    return x.sharding if type(x) is Array and not (is_mapped and isinstance(x.sharding, NamedSharding)) else None


def known_sharding(x: Any) -> tuple[bool, NamedSharding | None]:
    """Whether the sharding of a value is known; and the sharding, None where the value is not committed to devices.

    It is known for arrays, for primals while a function is differentiated, and for the arguments of `jit`. The compiler
    chooses the shardings of values that a program computes.
    """
    while isinstance(x, (JVPTracer, LinearizeTracer)):
        x = x.primal
    if isinstance(x, StageTracer):
        trace: Any = x._trace
        for value, argument in zip(trace.shardings.values if trace.shardings else (), trace.arguments):
            if argument is x.variable:
                trace.shardings.was_read = True
                return known_sharding(value)
    if isinstance(x, Tracer):
        return False, None
    sharding = getattr(x, "sharding", None)
    return True, sharding if isinstance(sharding, NamedSharding) else None

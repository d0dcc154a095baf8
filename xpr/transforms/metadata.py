"""Metadata of all operations in a block: an interpreter that attaches it to the result of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.config import settings
from xpr.core.interpreter import DependentTrace, Trace, Tracer, context
from xpr.core.primitive import Primitive
from xpr.primitives.xla_metadata import xla_metadata_value_p


class MetadataTrace(DependentTrace):
    """Passes operations on, and attaches the metadata of the setting `xla_metadata` to their results."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        outs = self.parent.process(primitive, args, params)
        if primitive is xla_metadata_value_p or not settings.xla_metadata:
            return outs
        tag = {"xla_metadata_kvs": settings.xla_metadata}
        return [self.parent.process(xla_metadata_value_p, [x], tag)[0] if isinstance(x, Tracer) else x for x in outs]


def with_metadata(trace: Trace) -> Trace:
    """The trace that is to be current while a function is staged by `trace`."""
    return MetadataTrace(trace) if settings.xla_metadata else trace


def attach_from_here() -> None:
    """Attaches metadata to operations that are traced from now on; the caller restores `context.trace`."""
    if context.trace.parent is not None:
        context.trace = MetadataTrace(context.trace)

"""Metadata of all operations in a block: an interpreter that writes it into the lines of their equations.

Equations that are derived from others, such as those of derivatives, have the lines of the others, and so their
metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.config import settings
from xpr.core.interpreter import DependentTrace, Trace, context
from xpr.core.primitive import Primitive
from xpr.core.source import here, with_metadata


class MetadataTrace(DependentTrace):
    """Passes operations on; their equations get the metadata of the setting `xla_metadata`."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        before = context.source
        context.source = with_metadata(settings.xla_metadata, before or here())
        try:
            return self.parent.process(primitive, args, params)
        finally:
            context.source = before


def with_metadata_of_block(trace: Trace) -> Trace:
    """The trace to make current while `trace` stages a function."""
    return MetadataTrace(trace) if settings.xla_metadata else trace


def attach_from_here() -> None:
    """Gives metadata to operations that are traced from now on; the caller restores `context.trace`."""
    if context.trace.parent is not None:
        context.trace = MetadataTrace(context.trace)

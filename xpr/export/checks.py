"""Checks that exporting, or calling what was exported, can leave out."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that `export`, or a call of what it returns, leaves out.

    >>> from xpr import export
    >>> export.DisabledSafetyCheck.custom_call("my_kernel")
    custom_call:my_kernel
    """

    _impl: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Lets a function run on another platform than those that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Lets a function be exported that calls a target outside XLA, whose meaning may change between releases."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target that may be called; None for another check."""
        kind, _, target = self._impl.partition(":")
        return target if kind == "custom_call" and target else None

    def __repr__(self) -> str:
        return self._impl

"""Warnings of functions that are traced, which are counted: what is not traced again would not warn again."""

from __future__ import annotations

import warnings

_count = 0


def warn(message: str | Warning, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Gives a warning, like `warnings.warn`."""
    global _count
    _count += 1
    warnings.warn(message, category, stacklevel=stacklevel + 1)


def notices() -> int:
    """How many warnings there were so far."""
    return _count

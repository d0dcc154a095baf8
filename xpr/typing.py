"""Types for annotations: what functions take as an array, and as a dtype."""

from __future__ import annotations

from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from xpr.backend.array import Array

__all__ = ["ArrayLike", "DTypeLike", "SupportsDType"]


@runtime_checkable
class SupportsDType(Protocol):
    """Anything with a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


# As objects rather than strings, so that isinstance and typing.get_args see their members.
ArrayLike = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007

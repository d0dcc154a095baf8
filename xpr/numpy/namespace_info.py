"""What the namespace can do, as the Python array API standard asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import devices
from xpr.numpy.types import isdtype

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = "2024.12"  # of the standard, that is implemented

_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
          "complex64", "complex128")  # fmt: skip
_MAX_AXES = 64  # as in NumPy, in whose memory arrays are read


class NamespaceInfo:
    """Capabilities, devices and dtypes of `xpr.numpy`.

    >>> import xpr.numpy as jnp
    >>> jnp.__array_namespace_info__().default_dtypes()["indexing"]
    dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether masks are indices and shapes may depend on values, which holds outside of `jit` alone; the most axes.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().capabilities()["data-dependent shapes"]
        False
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": _MAX_AXES}

    def default_device(self) -> None:
        """None: the device that `config.default_device` names, or the first one.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().default_device() is None
        True
        """

    def devices(self) -> list[Any]:
        """All devices, and None for the default one.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().devices()[0] is None
        True
        """
        return [None, *devices.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of arrays of Python numbers, and of indices, by kind.

        Args:
          device: a device, or None; they are the same on all.

        Returns:
          A dict from "real floating", "complex floating", "integral" and "indexing" to dtypes.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().default_dtypes()["real floating"]
        dtype('float32')
        """
        integer = dtypes.of_python(int)
        return {
            "real floating": dtypes.of_python(float),
            "complex floating": dtypes.of_python(complex),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """The dtypes of the standard that arrays have, those of 64 bits only where they are on.

        Args:
          device: a device, or None; they are the same on all.
          kind: a kind such as "real floating" or "integral", several of them, or None for all, see `jnp.isdtype`.

        Returns:
          A dict from names to dtypes.

        Raises:
          ValueError: there is no such kind.

        >>> import xpr.numpy as jnp
        >>> list(jnp.__array_namespace_info__().dtypes(kind="complex floating"))
        ['complex64']
        """
        known = {name: np.dtype(name) for name in _NAMES if not dtypes.is_narrowed(np.dtype(name))}
        return {name: dtype for name, dtype in known.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What `xpr.numpy` can do, for code that is written for the array API standard.

    >>> import xpr.numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="bool"))
    ['bool']
    """
    return NamespaceInfo()

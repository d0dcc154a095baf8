"""Arrays of other libraries in the same memory, by DLPack; other libraries read `xpr.Array`s by its protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.numpy.creation import from_dlpack as _from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]

# Those of NumPy, and bfloat16; integers of fewer than 8 bits are of kind "V".
_OF_NUMPY = {dtype for dtype in dtypes.ANY.difference(dtypes.SMALL_FLOATS) if dtype.kind != "V"}
_SUPPORTED = {*_OF_NUMPY, dtypes.bf16}


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An array of the values of another library's array, whose memory is shared where possible.

    Args:
      external_array: an object with `__dlpack__` and `__dlpack_device__`.
      device: a device or sharding for the result; None for the default device.
      copy: True to copy always; None to share where possible.

    Returns:
      An array; see `jnp.from_dlpack`.

    >>> import numpy as np
    >>> from xpr import dlpack
    >>> dlpack.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype are passed by DLPack.

    Raises:
      TypeError: `dtype` is None.

    >>> from xpr import dlpack
    >>> dlpack.is_supported_dtype("bfloat16"), dlpack.is_supported_dtype("float8_e5m2")
    (True, False)
    """
    if dtype is None:
        raise TypeError("is_supported_dtype: a dtype is needed, and None was given.")
    return np.dtype(dtype) in _SUPPORTED

"""Arrays from bytes, text and files; NumPy's own functions for saving and for print options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import requested_dtype

__all__ = [
    "array_repr", "array_str", "frombuffer", "fromfile", "fromiter", "fromstring", "get_printoptions", "load",
    "printoptions", "save", "savez", "set_printoptions",
]  # fmt: skip

get_printoptions, set_printoptions, printoptions = np.get_printoptions, np.set_printoptions, np.printoptions
save, savez = np.save, np.savez


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """The bytes of a buffer interpreted as numbers.

    Args:
      buffer: bytes, or an object with the buffer protocol.
      dtype: of the numbers.
      count: how many numbers to read; -1 for all.
      offset: where to start, in bytes.

    Returns:
      A vector.

    Raises:
      ValueError: the buffer is too small.

    >>> import xpr.numpy as jnp
    >>> jnp.frombuffer(b"abc", dtype="uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1) -> Array:
    """A vector of the numbers of an iterable.

    Args:
      iter: an iterable of numbers.
      dtype: of the result.
      count: how many numbers to read; -1 for all.

    Returns:
      A vector.

    >>> import xpr.numpy as jnp
    >>> jnp.fromiter((i * i for i in range(3)), int)
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(iter, requested_dtype(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """Numbers parsed from text.

    Args:
      string: the text.
      dtype: of the numbers.
      count: how many numbers to read; -1 for all.
      sep: the separator of the numbers.

    Returns:
      A vector.

    >>> import xpr.numpy as jnp
    >>> jnp.fromstring("1 2 3", dtype=int, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, np.dtype(dtype), count, sep=sep))


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """An array from a file that `jnp.save` wrote, or NumPy arrays by name from one that `jnp.savez` wrote.

    Args:
      file: a path, or a file that is open for reading.
      *args: further arguments of NumPy's `load`.
      **kwargs: further arguments of NumPy's `load`.

    Returns:
      An array, or for `savez` a dictionary of NumPy arrays; pickled Python objects in a NumPy array.

    >>> import io, xpr.numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> _ = file.seek(0)
    >>> jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    loaded = np.load(file, *args, **kwargs)
    if not isinstance(loaded, np.ndarray) or loaded.dtype == object:
        return loaded
    # NumPy writes bfloat16 as two bytes without a name.
    return asarray(loaded.view(dtypes.bf16) if loaded.dtype == np.dtype("V2") else loaded)


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """Numbers read from a file, as NumPy's `fromfile` reads them.

    Args:
      file: a path, or a file that is open for reading.
      dtype: of the numbers.
      count: how many numbers to read; -1 for all.
      sep: the separator of numbers in a text file; "" for a binary file.
      offset: where to start, in bytes.

    Returns:
      A vector.

    >>> import tempfile, xpr.numpy as jnp
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"abc"), file.flush()
    ...     jnp.fromfile(file.name, "uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(np.fromfile(file, np.dtype(dtype), count, sep, offset=offset))


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text of an array, as `repr` writes it.

    Args:
      arr: array or number.
      max_line_width: the greatest length of a line; None for that of `jnp.set_printoptions`.
      precision: digits of floats; None for that of `jnp.set_printoptions`.
      suppress_small: whether numbers close to 0 are written as 0; None for what `jnp.set_printoptions` says.

    Returns:
      The text.

    >>> import xpr.numpy as jnp
    >>> jnp.array_repr(jnp.arange(3))
    'Array([0, 1, 2], dtype=int32)'
    """
    with np.printoptions(linewidth=max_line_width, precision=precision, suppress=suppress_small):
        return repr(arr)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text of an array, as `str` writes it.

    Args:
      a: array or number.
      max_line_width: the greatest length of a line; None for that of `jnp.set_printoptions`.
      precision: digits of floats; None for that of `jnp.set_printoptions`.
      suppress_small: whether numbers close to 0 are written as 0; None for what `jnp.set_printoptions` says.

    Returns:
      The text.

    >>> import xpr.numpy as jnp
    >>> jnp.array_str(jnp.arange(3))
    '[0 1 2]'
    """
    with np.printoptions(linewidth=max_line_width, precision=precision, suppress=suppress_small):
        return str(a)

"""Buffers of small NumPy arguments on CPU, written anew for each call of a program.

jaxlib takes some 5 microseconds to put an array on a device, as long as a small program runs; writing into memory that
a buffer shares takes a tenth of that. It must not happen while a program may still read the buffer. XLA:CPU runs small
programs at once, unless an operand is not there yet, and all results of a program are ready when it has ended: so
buffers may be used again where a result of the program that read them is ready, and are dropped otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from xpr.backend.buffers import Buffer, putter
from xpr.backend.devices import Device
from xpr.core.avals import ShapedArray

_LARGEST = 4096  # bytes; from some 100 KB on, copying takes longer than putting
_ALIGNMENT = 64  # bytes, of memory that buffers can share

Writable: TypeAlias = tuple[np.ndarray, Buffer]  # memory, and the buffer that shares it


def writable_buffers(avals: Sequence[ShapedArray], device: Device) -> list[Writable] | None:
    """A buffer of each type with memory to write its values to; None where copying them is no faster."""
    if device.platform != "cpu" or not all(0 < aval.size * aval.dtype.itemsize <= _LARGEST for aval in avals):
        return None
    pairs = [_writable(aval, device) for aval in avals]
    shares = all(buffer.unsafe_buffer_pointer() == memory.ctypes.data for memory, buffer in pairs)
    return pairs if shares else None


def _writable(aval: ShapedArray, device: Device) -> Writable:
    size = aval.size * aval.dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    memory = memory[start : start + size].view(aval.dtype).reshape(aval.shape)
    return memory, putter(aval, device, copy=False)(memory)

"""Buffers of small NumPy arguments on CPU, written anew for each call of a program.

jaxlib takes some 5 microseconds to put an array on a device, as long as a small program runs; writing into memory that
a buffer shares takes a tenth of that. It must not happen while a program may still read the buffer. XLA:CPU runs small
programs at once, unless an operand is not there yet, and all results of a program are ready when it has ended: so
buffers may be used again where a result of the program that read them is ready, and are dropped otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from xpr.backend.buffers import Buffer, address_of, putter
from xpr.backend.devices import Device
from xpr.core.avals import ShapedArray

_LARGEST = 4096  # bytes; from some 100 KB on, copying takes longer than putting
_ALIGNMENT = 64  # bytes, of memory that buffers can share

Writable: TypeAlias = tuple[np.ndarray, Buffer]  # memory, and the buffer that shares it


def are_writable(avals: Sequence[ShapedArray], device: Device) -> bool:
    """Whether there are such buffers of these types, and writing them is faster than making new ones."""
    return _shares_memory(device) and all(0 < aval.size * aval.dtype.itemsize <= _LARGEST for aval in avals)


def writable_buffers(avals: Sequence[ShapedArray], device: Device) -> list[Writable]:
    """A buffer of each type, with the memory to write its values to."""
    return [_writable(aval, device) for aval in avals]


@functools.cache
def _shares_memory(device: Device) -> bool:
    if device.platform != "cpu":
        return False
    memory, buffer = _writable(ShapedArray((1,), np.dtype(np.float32)), device)
    return address_of(buffer) == memory.ctypes.data


def _writable(aval: ShapedArray, device: Device) -> Writable:
    size = aval.size * aval.dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    memory = memory[start : start + size].view(aval.dtype).reshape(aval.shape)
    return memory, putter(aval, device, copy=False)(memory)

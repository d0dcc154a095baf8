"""The wire format of protocol buffers: fields of bytes and of numbers, written and read.

A message is a sequence of fields (https://protobuf.dev/programming-guides/encoding). Each begins with its number and
kind; then comes a number, or a length and as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_NUMBER, _BYTES = 0, 2  # kinds of fields


# -- Writing


def varint(value: int) -> bytes:
    """A number, in groups of seven bits, the least significant first; the eighth bit says that more follow."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def bytes_field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, such as a text or another message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(number << 3 | _NUMBER) + varint(value)


# -- Reading


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The number and the content of each field of a message: bytes, or a number.

    Raises:
      IndexError: the bytes end within a number.
    """
    position = 0
    while position < len(data):
        tag, position = _varint_at(data, position)
        value, position = _varint_at(data, position)
        if tag & 7 == _BYTES:
            yield tag >> 3, data[position : position + value]
            position += value
        else:
            yield tag >> 3, value


def varints(data: bytes) -> Iterator[int]:
    """The numbers of a packed field."""
    position = 0
    while position < len(data):
        value, position = _varint_at(data, position)
        yield value


def _varint_at(data: bytes, position: int) -> tuple[int, int]:
    """A number, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position

"""Flatbuffers: tables of typed fields as bytes, by a schema that is data.

A schema names the fields of a table in the order of their numbers, each with its type: a scalar (`"uint16"`), a
`"string"`, another table, or `Vector(type)`. A table is a dict of the fields that are not left out. The format
(https://flatbuffers.dev/internals): numbers are little-endian and aligned to their size; a table starts with the
distance back to its vtable, which says where each field is; strings, vectors and tables are reached by offsets from
where these are stored; the bytes start with the offset of the root table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

SCALARS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "uint32": "I"}


@dataclass(frozen=True)
class Vector:
    """The type of a list of scalars (bytes for `int8`), strings or tables."""

    of: Any


class Table(dict[str, Any]):
    """The schema of a table: the types of its fields by name. It may be filled later, so that it can hold itself."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class CorruptBytes(ValueError):
    """Bytes that are no flatbuffer of the schema."""


# -- Writing


def write(schema: Table, table: dict[str, Any]) -> bytearray:
    """The bytes of a table."""
    out = bytearray(4)
    _put_offset(out, 0, _write_table(out, schema, table))
    return out


def _put_offset(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _align(out: bytearray, size: int) -> None:
    out.extend(bytes(-len(out) % size))


def _write_table(out: bytearray, schema: Table, table: dict[str, Any]) -> int:
    """Appends a vtable, its table, and what that refers to; returns the position of the table."""
    offsets: dict[str, int] = {}
    size = 4
    for name in schema:
        if table.get(name) is not None:
            width = _width(schema[name])
            size += -size % width
            offsets[name] = size
            size += width
    entries = [offsets.get(name, 0) for name in schema]
    header = struct.pack(f"<HH{len(entries)}H", 4 + 2 * len(entries), size, *entries)
    out.extend(bytes(-(len(out) + len(header)) % 4))
    start = len(out) + len(header)
    out.extend(header)
    out.extend(struct.pack("<i", len(header)) + bytes(size - 4))
    for name, offset in offsets.items():
        if schema[name] in SCALARS:
            struct.pack_into(f"<{SCALARS[schema[name]]}", out, start + offset, table[name])
        else:
            _put_offset(out, start + offset, _write(out, schema[name], table[name]))
    return start


def _width(kind: Any) -> int:
    return struct.calcsize(SCALARS[kind]) if kind in SCALARS else 4


def _write(out: bytearray, kind: Any, value: Any) -> int:
    """Appends a string, a vector or a table; returns its position."""
    if isinstance(kind, Table):
        return _write_table(out, kind, value)
    if kind == "string":
        data = value.encode()
        return _write_counted(out, len(data), data + b"\0")
    if kind.of == "int8" and isinstance(value, (bytes, bytearray)):
        return _write_counted(out, len(value), value)
    if kind.of in SCALARS:
        return _write_counted(out, len(value), struct.pack(f"<{len(value)}{SCALARS[kind.of]}", *value))
    start = _write_counted(out, len(value), bytes(4 * len(value)))
    for i, item in enumerate(value):
        _put_offset(out, start + 4 + 4 * i, _write(out, kind.of, item))
    return start


def _write_counted(out: bytearray, count: int, data: bytes | bytearray) -> int:
    _align(out, 4)
    start = len(out)
    out.extend(struct.pack("<I", count))
    out.extend(data)
    return start


# -- Reading


def read(schema: Table, data: bytes) -> dict[str, Any]:
    """The fields of a table that are there.

    Raises:
      CorruptBytes: the bytes have no such table.
    """
    try:
        return _read_table(data, schema, _target(data, 0), 0)
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptBytes(f"The bytes are damaged, or no flatbuffer: {error}.") from error


def _target(data: bytes, at: int) -> int:
    return at + struct.unpack_from("<I", data, at)[0]


_DEEPEST = 200


def _read_table(data: bytes, schema: Table, start: int, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise IndexError(f"tables are nested deeper than {_DEEPEST}")
    vtable = start - struct.unpack_from("<i", data, start)[0]
    if vtable < 0:
        raise IndexError("a vtable before the start")
    count = struct.unpack_from("<H", data, vtable)[0] // 2 - 2
    offsets = struct.unpack_from(f"<{max(count, 0)}H", data, vtable + 4)
    found: dict[str, Any] = {}
    for name, offset in zip(schema, offsets):
        if offset:
            found[name] = _read(data, schema[name], start + offset, depth)
    return found


def _read(data: bytes, kind: Any, at: int, depth: int) -> Any:
    if kind in SCALARS:
        return struct.unpack_from(f"<{SCALARS[kind]}", data, at)[0]
    start = _target(data, at)
    if isinstance(kind, Table):
        return _read_table(data, kind, start, depth + 1)
    (count,) = struct.unpack_from("<I", data, start)
    first = start + 4
    if first + count * (_width(kind.of) if kind != "string" else 1) > len(data):
        raise IndexError("a vector or a string ends after the end")
    if kind == "string":
        return bytes(data[first : first + count]).decode()
    if kind.of == "int8":
        return bytes(data[first : first + count])
    if kind.of in SCALARS:
        return list(struct.unpack_from(f"<{count}{SCALARS[kind.of]}", data, first))
    return [_read(data, kind.of, first + 4 * i, depth) for i in range(count)]

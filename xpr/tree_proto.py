"""Structures of plain containers as protocol buffers, in the form in which JAX writes and reads them.

A message has a field 1 for each node, children before their parents, and a field 2 for each string that is a key.
A node has its number of children in field 1, its kind in field 2, and in field 3 the numbers of its keys among the
strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpr.optree_kept import PyTreeKind, optree
from xpr.tree_nodes import NAMESPACE

_KINDS = {
    PyTreeKind.LEAF: 1, PyTreeKind.LIST: 2, PyTreeKind.NONE: 3, PyTreeKind.TUPLE: 4, PyTreeKind.DICT: 5,
}  # fmt: skip


def written(spec: optree.PyTreeSpec) -> bytes:
    """A structure as a message.

    Raises:
      ValueError: a node is no list, tuple, dict or None, or a key of a dict is no string.
    """
    strings: dict[str, int] = {}
    nodes = b"".join(_field(1, node) for node in _nodes(spec, strings))
    return nodes + b"".join(_field(2, each.encode()) for each in strings)


def _nodes(spec: optree.PyTreeSpec, strings: dict[str, int]) -> Iterator[bytes]:
    kind, keys = spec.kind, b""
    if kind not in _KINDS:
        raise ValueError(
            f"serialize_using_proto: {spec.type} is a user-defined node or another that protocol buffers of structures "
            "don't have. Use pickle, or make it a tuple, list or dict."
        )
    for child in spec.children():
        yield from _nodes(child, strings)
    if kind == PyTreeKind.DICT:
        names = spec.entries()
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"serialize_using_proto: the keys of a dict must be strings, and are {names}. Use pickle.")
        numbers = b"".join(_number(strings.setdefault(name, len(strings))) for name in names)
        keys = _field(3, _field(1, numbers)) if names else b""
    arity = b"\x08" + _number(spec.num_children) if spec.num_children else b""
    yield arity + b"\x10" + _number(_KINDS[kind]) + keys


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(content)) + content


def _number(value: int) -> bytes:
    """Seven bits a byte, the least significant ones first; the eighth says that more follow."""
    low = bytearray()
    while value > 127:
        low.append(value & 127 | 128)
        value >>= 7
    return bytes([*low, value])


def read(data: bytes) -> optree.PyTreeSpec:
    """The structure that a message holds.

    Raises:
      ValueError: it holds none.
    """
    try:
        fields = list(_fields(data))
        strings = [content.decode() for number, content in fields if number == 2]
        stack: list[Any] = []
        for _, node in (field for field in fields if field[0] == 1):
            parts = dict(_fields(node))
            first = len(stack) - parts.get(1, 0)
            stack[first:] = [_tree(parts[2], stack[first:], parts.get(3, b""), strings)]
        (tree,) = stack
    except (IndexError, KeyError, TypeError, ValueError):
        raise ValueError("deserialize_using_proto: the bytes are no structure of a pytree.") from None
    return optree.tree_structure(tree, namespace=NAMESPACE)


def _tree(kind: int, children: list[Any], keys: bytes, strings: list[str]) -> Any:
    match kind:
        case 1:
            return 0
        case 2:
            return children
        case 3:
            return None
        case 4:
            return tuple(children)
        case 5:
            numbers = _numbers(dict(_fields(keys)).get(1, b""))
            return dict(zip([strings[n] for n in numbers], children, strict=True))
    raise ValueError(kind)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The number and the content of each field: bytes, or a number."""
    position = 0
    while position < len(data):
        tag, position = _number_at(data, position)
        value, position = _number_at(data, position)
        if tag & 7 == 2:
            yield tag >> 3, data[position : position + value]
            position += value
        else:
            yield tag >> 3, value


def _numbers(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _number_at(data, position)
        yield value


def _number_at(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position

"""Structures of plain containers as protocol buffers, in the form in which JAX writes and reads them.

A message has a field 1 for each node, children before their parents, and a field 2 for each string that is a key.
A node has its number of children in field 1, its kind in field 2, and in field 3 the numbers of its keys among the
strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpr.optree_kept import PyTreeKind, optree
from xpr.protocol_buffers import bytes_field, fields, number_field, varint, varints
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
    nodes = b"".join(bytes_field(1, node) for node in _nodes(spec, strings))
    return nodes + b"".join(bytes_field(2, text.encode()) for text in strings)


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
        numbers = b"".join(varint(strings.setdefault(name, len(strings))) for name in names)
        keys = bytes_field(3, bytes_field(1, numbers)) if names else b""
    arity = number_field(1, spec.num_children) if spec.num_children else b""
    yield arity + number_field(2, _KINDS[kind]) + keys


def read(data: bytes) -> optree.PyTreeSpec:
    """The structure that a message holds.

    Raises:
      ValueError: it holds none.
    """
    try:
        content = list(fields(data))
        strings = [text.decode() for number, text in content if number == 2]
        stack: list[Any] = []
        for node in [node for number, node in content if number == 1]:
            parts = dict(fields(node))
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
            numbers = varints(dict(fields(keys)).get(1, b""))
            return dict(zip([strings[n] for n in numbers], children, strict=True))
    raise ValueError(kind)

"""Pytrees as tables of the schema of exported functions, and back; classes are known by names that users register."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from xpr import tree
from xpr.artifacts.schema import NodeKind
from xpr.core.avals import ShapedArray, describe
from xpr.optree_kept import optree
from xpr.tree_def import PyTreeDef
from xpr.tree_nodes import NAMESPACE

T = TypeVar("T")


class Codec(NamedTuple):
    """How the nodes of a class are written: its name, and its static data as bytes and back."""

    name: str
    nodetype: type
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, Codec] = {}
_by_name: dict[str, Codec] = {}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Registers how nodes of a class are written in exported functions, whose arguments or results they are in.

    Args:
      nodetype: a class that is registered as a pytree node.
      serialized_name: the name by which it is written, and found when it is read.
      serialize_auxdata: `serialize_auxdata(static data)` returns bytes.
      deserialize_auxdata: `deserialize_auxdata(bytes)` returns the static data.
      from_children: `from_children(static data, children)` returns a node, of which only the structure matters; None
        for the function that the class was registered with.

    Returns:
      The class.

    Raises:
      ValueError: the class, or the name, is registered already; or the class is no pytree node.

    >>> import xpr, xpr.export
    >>> class Pair:
    ...     def __init__(self, left, right): self.left, self.right = left, right
    >>> xpr.tree_util.register_pytree_node(Pair, lambda p: ((p.left, p.right), None), lambda _, both: Pair(*both))
    >>> _ = xpr.export.register_pytree_node_serialization(
    ...     Pair, serialized_name="docs.Pair", serialize_auxdata=lambda _: b"", deserialize_auxdata=lambda _: None)
    """
    if nodetype in _by_type:
        raise ValueError(
            f"Duplicate serialization registration for type {nodetype}, which is registered as "
            f"{_by_type[nodetype].name!r}."
        )
    if serialized_name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name {serialized_name!r}, that of "
            f"{_by_name[serialized_name].nodetype}."
        )
    if from_children is None:
        entry = optree.register_pytree_node.get(nodetype, namespace=NAMESPACE)  # type: ignore[attr-defined]
        if entry is None or optree.is_namedtuple_class(nodetype):
            raise ValueError(
                f"If `from_children` is not present, it is that of the registered pytree node, and {nodetype} is none: "
                "you must call tree_util.register_pytree_node first; for a class of namedtuples, "
                "export.register_namedtuple_serialization does all."
            )
        from_children = entry.unflatten_func
    codec = Codec(serialized_name, nodetype, serialize_auxdata, deserialize_auxdata, from_children)
    _by_type[nodetype] = _by_name[serialized_name] = codec
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Registers a namedtuple to be written in exported functions, whose arguments or results it is in.

    Args:
      nodetype: the class.
      serialized_name: the name by which it is written, and found when it is read.

    Returns:
      The class.

    Raises:
      ValueError: the class is no namedtuple, or it or the name is registered already.

    >>> from typing import NamedTuple
    >>> import xpr.export
    >>> class Point(NamedTuple):
    ...     x: float
    ...     y: float
    >>> Point is xpr.export.register_namedtuple_serialization(Point, serialized_name="docs.Point")
    True
    """
    fields: Any = getattr(nodetype, "_fields", None)
    if not issubclass(nodetype, tuple) or fields is None:
        raise ValueError(f"{nodetype} is no namedtuple. Use register_pytree_node_serialization.")
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields).encode(),
        deserialize_auxdata=lambda data: json.loads(data.decode()),
        from_children=lambda names, children: nodetype(**dict(zip(names, children))),
    )


def _keys_as_bytes(keys: Sequence[Any]) -> bytes:
    if not all(isinstance(key, str) for key in keys):
        raise TypeError(
            f"Serialization is supported only for dictionaries with string keys, and an OrderedDict has {list(keys)}."
        )
    return json.dumps(list(keys)).encode()


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=_keys_as_bytes,
    deserialize_auxdata=lambda data: json.loads(data.decode()),
    from_children=lambda keys, children: collections.OrderedDict(zip(keys, children)),
)


# -- Writing


def tree_as_table(treedef: PyTreeDef, avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """A structure as a table.

    Args:
      treedef: the structure.
      avals: the types of its leaves, which classes of nodes may look at.

    Raises:
      ValueError: it has a node of a class that is not registered for serialization.
      TypeError: a dict has keys that are no strings.
    """
    return _node_as_table(tree.unflatten(treedef, avals))


def _node_as_table(node: Any) -> dict[str, Any]:
    kind = type(node)
    if kind is ShapedArray:
        return {"kind": NodeKind.LEAF}
    if node is None:
        return {"kind": NodeKind.NONE}
    level: tuple[Any, ...] = optree.tree_flatten_one_level(node, namespace=NAMESPACE)
    children, data = level[:2]
    table: dict[str, Any] = {"children": list(map(_node_as_table, children)) or None}
    if kind in (tuple, list):
        return {**table, "kind": NodeKind.TUPLE if kind is tuple else NodeKind.LIST}
    if kind is dict:
        names = sorted(node) if all(isinstance(key, str) for key in node) else list(node)
        for key in names:
            if not isinstance(key, str):
                raise TypeError(
                    f"Serialization is supported only for dictionaries with string keys, and {describe(key)} is a key."
                )
        return {**table, "kind": NodeKind.DICT, "children_names": names or None}
    codec = _by_type.get(kind)
    if codec is None:
        raise ValueError(
            f"Cannot serialize nodes of unregistered type {kind}. Call "
            "export.register_pytree_node_serialization, or export.register_namedtuple_serialization, for it first."
        )
    if kind is collections.OrderedDict:
        data = list(node)
    written = codec.serialize(data)
    if not isinstance(written, (bytes, bytearray)):
        raise ValueError(f"serialize_auxdata of {kind} must return bytes, and returned {describe(written)}.")
    return {**table, "kind": NodeKind.CUSTOM, "custom_name": codec.name, "custom_auxdata": bytes(written)}


# -- Reading


def tree_of_table(table: dict[str, Any], leaves: Sequence[Any]) -> PyTreeDef:
    """The structure of a table, with as many leaves as are given; one that is a tree takes the place of its leaf.

    Raises:
      ValueError: a class is not registered under the name by which it was written.
    """
    return tree.structure(_node_of_table(table, iter(leaves)))


def _node_of_table(table: dict[str, Any], leaves: Iterator[Any]) -> Any:
    kind = NodeKind(table.get("kind", 0))
    if kind is NodeKind.LEAF:
        return next(leaves)
    if kind is NodeKind.NONE:
        return None
    children = [_node_of_table(each, leaves) for each in table.get("children", [])]
    if kind is NodeKind.TUPLE:
        return tuple(children)
    if kind is NodeKind.LIST:
        return children
    if kind is NodeKind.DICT:
        return dict(zip(table.get("children_names", []), children))
    codec = _by_name.get(table["custom_name"])
    if codec is None:
        raise ValueError(
            f"The program was written with nodes of a class named {table['custom_name']!r}, which is not registered "
            "here. Call export.register_pytree_node_serialization for it first."
        )
    return codec.from_children(codec.deserialize(table.get("custom_auxdata", b"")), children)

"""Pytree functions under their `tree_*` names, and registration of classes as pytree nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from xpr.optree_kept import optree
from xpr.tree import all as tree_all
from xpr.tree import broadcast as tree_broadcast
from xpr.tree import flatten as tree_flatten
from xpr.tree import flatten_with_path as tree_flatten_with_path
from xpr.tree import leaves as tree_leaves
from xpr.tree import leaves_with_path as tree_leaves_with_path
from xpr.tree import map as tree_map
from xpr.tree import map_with_path as tree_map_with_path
from xpr.tree import reduce as tree_reduce
from xpr.tree import reduce_associative as tree_reduce_associative
from xpr.tree import structure as tree_structure
from xpr.tree import transpose as tree_transpose
from xpr.tree import unflatten as tree_unflatten
from xpr.tree_def import PyTreeDef, treedef_tuple
from xpr.tree_nodes import (
    NAMESPACE,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    SequenceKey,
    keystr,
    open_tree,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every item of an iterable is a leaf by itself.

    Args:
      iterable: items.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A boolean.

    >>> from xpr import tree_util
    >>> tree_util.all_leaves([1, "x"]), tree_util.all_leaves([1, (2,)]), tree_util.all_leaves([None])
    (True, False, False)
    """
    return optree.all_leaves(iterable, is_leaf, namespace=NAMESPACE)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is one node without children: a leaf, `None`, or an empty container.

    >>> from xpr import tree, tree_util
    >>> tree_util.treedef_is_leaf(tree.structure(1)), tree_util.treedef_is_leaf(tree.structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children, in order; none for a leaf.

    >>> from xpr import tree, tree_util
    >>> [child.num_leaves for child in tree_util.treedef_children(tree.structure({"b": 1, "a": (2, 3)}))]
    [2, 1]
    """
    return treedef.children()


def is_tree_node(typ: type) -> bool:
    """Whether instances of a class are nodes, as lists and registered classes are.

    >>> from xpr import tree_util
    >>> tree_util.is_tree_node(dict), tree_util.is_tree_node(int)
    (True, False)
    """
    return optree.register_pytree_node.get(typ, namespace=NAMESPACE) is not None


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node and its static data.

    Raises:
      ValueError: it is a leaf.

    >>> from xpr import tree_util
    >>> tree_util.flatten_one_level({"b": 1, "a": [2]})
    (([2], 1), ('a', 'b'))
    """
    if tree is None:
        return (), None
    if not is_tree_node(type(tree)) and optree.tree_is_leaf(tree, namespace=NAMESPACE):
        raise ValueError(f"flatten_one_level can't tree-flatten type {type(tree).__name__}, which is a leaf.")
    data: Any
    children, data, _, _ = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    if isinstance(data, list):
        data = tuple(data)
    elif isinstance(tree, defaultdict):
        data = data[0], tuple(data[1])
    return tuple(children) if type(tree) in (tuple, dict) else list(children), data


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a node, each with the part of a path that leads to it, and the node's static data.

    Raises:
      ValueError: it is a leaf.

    >>> from xpr import tree_util
    >>> tree_util.flatten_one_level_with_keys({"b": 1, "a": [2]})
    ([(DictKey(key='a'), [2]), (DictKey(key='b'), 1)], ('a', 'b'))
    """
    children, data = flatten_one_level(tree)
    ends = tree_leaves_with_path(tree, is_leaf=lambda x: x is not tree)
    return [(path[0], child) for (path, _), child in zip(ends, children, strict=True)], data


class _Registry:
    """The registered classes: flattening by them and registration, under the names that JAX's registry has."""

    flatten = staticmethod(tree_flatten)
    flatten_with_path = staticmethod(tree_flatten_with_path)
    is_node = staticmethod(is_tree_node)
    register_node = staticmethod(register_pytree_node)
    register_dataclass_node = staticmethod(register_dataclass)

    @staticmethod
    def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any] | None:
        """The children of a node and its static data; None for a leaf."""
        return None if open_tree(tree) is None else flatten_one_level(tree)

    @staticmethod
    def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any] | None:
        """The children of a node, each with its key, and its static data; None for a leaf."""
        return None if open_tree(tree) is None else flatten_one_level_with_keys(tree)


default_registry = _Registry()

"""Trees as nodes of a manifest, and back: by themselves, or matched with those of another tree.

No class is looked up by a name that a file gives. A tree that is read by itself is made of dicts, lists, tuples and
deques; what was a namedtuple or a registered class is then a dict of its fields, or a list where they have no names.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from optree import PyTreeKind

from xpr.errors import CheckpointError
from xpr.tree_nodes import open_tree

_SEQUENCES = {PyTreeKind.TUPLE: "tuple", PyTreeKind.LIST: "list", PyTreeKind.DEQUE: "deque"}
_DICTS = {PyTreeKind.DICT: "dict", PyTreeKind.ORDEREDDICT: "OrderedDict", PyTreeKind.DEFAULTDICT: "dict"}


def number_in_json(value: float) -> Any:
    """A float: text where it is not finite."""
    return value if math.isfinite(value) else str(value)


# -- Writing


def node_of(tree: Any, leaf: Callable[[Any], int]) -> Any:
    """The node for a tree; `leaf` gives each leaf its number, and is asked in the order of `tree.leaves`."""
    level = open_tree(tree)
    if level is None:
        return leaf(tree)
    kind = level.shape.kind
    children = [node_of(child, leaf) for child in level.children]
    if kind == PyTreeKind.NONE:
        return None
    if kind in _DICTS:
        positions = {key.key: position for position, key in enumerate(level.keys)}
        in_order = [children[positions[key]] for key in tree]
        return {"kind": _DICTS[kind], "keys": [_key_in_json(key) for key in tree], "children": in_order}
    if kind == PyTreeKind.DEQUE:
        return {"kind": "deque", "maxlen": tree.maxlen, "children": children}
    if kind in _SEQUENCES:
        return {"kind": _SEQUENCES[kind], "children": children}
    name = f"{type(tree).__module__}.{type(tree).__qualname__}"
    return {"kind": "class", "name": name, "steps": [str(key) for key in level.keys], "children": children}


def _key_in_json(key: Any) -> Any:
    kind = type(key)
    if key is None or kind in (bool, int, str):
        return key
    if kind is float:
        return {"float": number_in_json(key)}
    if kind is tuple:
        return {"tuple": [_key_in_json(item) for item in key]}
    return {"text": repr(key)}


# -- Reading


def tree_of(node: Any, leaf: Callable[[int], Any]) -> Any:
    """The tree of a node, in dicts and the like; `leaf` gives the leaf of a number."""
    if node is None or isinstance(node, int):
        return None if node is None else leaf(node)
    children = [tree_of(child, leaf) for child in node["children"]]
    match node["kind"]:
        case "dict" | "OrderedDict" as kind:
            pairs = dict(zip([_key_of(key) for key in node["keys"]], children))
            if len(pairs) < len(children):
                keys = ", ".join(str(_key_of(key)) for key in node["keys"])
                raise CheckpointError(
                    f"Keys of a dict are written alike in the checkpoint: {keys}. "
                    "Give a `like` with the keys themselves."
                )
            return OrderedDict(pairs) if kind == "OrderedDict" else pairs
        case "tuple":
            return tuple(children)
        case "deque":
            return deque(children, node["maxlen"])
        case "class" if all(step.startswith(".") for step in node["steps"]) and _differ(node["steps"]):
            return {step[1:]: child for step, child in zip(node["steps"], children)}
    return children


def _key_of(key: Any) -> Any:
    if not isinstance(key, dict):
        return key
    ((kind, value),) = key.items()
    if kind == "float":
        return float(value)
    return tuple([_key_of(item) for item in value]) if kind == "tuple" else value


def _steps(node: Any) -> list[str]:
    """The step of a path to each child of a node."""
    if "keys" in node:
        return [f"[{key['text'] if _is_text(key) else repr(_key_of(key))}]" for key in node["keys"]]
    return node["steps"] if "steps" in node else [f"[{i}]" for i in range(len(node["children"]))]


def _is_text(key: Any) -> bool:
    return isinstance(key, dict) and "text" in key


def leaves_of(node: Any, path: str = "") -> Iterator[tuple[int, str]]:
    """The number of each leaf of a node, and its path."""
    if isinstance(node, int):
        yield node, path
    elif node is not None:
        for step, child in zip(_steps(node), node["children"]):
            yield from leaves_of(child, path + step)


# -- Matching


def match_nodes(saved: Any, like: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The path and both nodes wherever two trees have a leaf, as the numbers of the leaves, or differ.

    Where they differ, a node that is no leaf is given as a text that describes it, which is empty if it is missing.
    Nodes of classes agree if the steps to their children do: a class may have been renamed. Dicts agree with
    OrderedDicts.
    """
    if isinstance(saved, int) and isinstance(like, int):
        yield path, saved, like
        return
    if not _match(saved, like):
        yield path, _described(saved), _described(like)
        return
    if saved is None:
        return
    in_saved, in_like = (dict(zip(_identities(node), zip(_steps(node), node["children"]))) for node in (saved, like))
    for key in {**in_saved, **in_like}:
        step, child = in_saved.get(key) or in_like[key]
        if key in in_saved and key in in_like:
            yield from match_nodes(child, in_like[key][1], path + step)
        else:
            described = _described(child)
            yield path + step, described if key in in_saved else "", described if key in in_like else ""


def _match(saved: Any, like: Any) -> bool:
    if not isinstance(saved, dict) or not isinstance(like, dict):
        return saved is None and like is None
    kinds = [{"OrderedDict": "dict"}.get(node["kind"], node["kind"]) for node in (saved, like)]
    return kinds[0] == kinds[1]


def _identities(node: Any) -> list[str]:
    """Keys by which the children of a node differ."""
    keys = [json.dumps(key) for key in node["keys"]] if "keys" in node else _steps(node)
    return keys if _differ(keys) else [str(i) for i in range(len(keys))]


def _differ(names: list[str]) -> bool:
    return len(set(names)) == len(names)


def _described(node: Any) -> Any:
    """The number of a leaf; the text that describes another node."""
    if node is None or isinstance(node, int):
        return "None" if node is None else node
    return f"{node.get('name', node['kind'])} of {len(node['children'])}"

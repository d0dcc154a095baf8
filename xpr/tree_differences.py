"""Two trees compared: every path at which their structures differ, as lines of text, and the error that has them.

A tree is a pytree here, or the structure of one as optree has it.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xpr.errors import TreeMismatch
from xpr.optree_kept import PyTreeKind, optree
from xpr.tree_nodes import NAMESPACE, FlattenedIndexKey, KeyPath, Level, keystr, open_def, open_tree

_DICTS = (PyTreeKind.DICT, PyTreeKind.ORDEREDDICT, PyTreeKind.DEFAULTDICT)
_SEQUENCES = (PyTreeKind.TUPLE, PyTreeKind.LIST, PyTreeKind.DEQUE)


class Difference(NamedTuple):
    """Where two trees differ, and their nodes there as texts; a text is empty where the key is missing."""

    path: str
    left: str
    right: str


def compare(
    path: KeyPath,
    left: Any,
    right: Any,
    open_left: Callable[[Any], Level | None],
    open_right: Callable[[Any], Level | None],
    prefix: bool,
) -> Iterator[Difference]:
    """Walks two trees together. With `prefix`, a leaf on the left stands for any tree on the right."""
    one, two = open_left(left), open_right(right)
    if one is None and (prefix or two is None):
        return
    if one is not None and two is not None and one.shape == two.shape:
        # A structure may have numbered children, where the other tree has named ones.
        keys = two.keys if isinstance(next(iter(one.keys), None), FlattenedIndexKey) else one.keys
        pairs = list(zip(keys, one.children, two.children, strict=True))
    elif one is not None and two is not None and _are_alike_dicts(one, two):
        yield from _compare_keys(path, one, two, open_left, open_right)
        by_key = dict(zip(two.keys, two.children, strict=True))
        pairs = [(key, child, by_key[key]) for key, child in zip(one.keys, one.children, strict=True) if key in by_key]
    else:
        yield Difference(keystr(path), *_describe_both(left, one, right, two))
        return
    for key, child, other in pairs:
        yield from compare((*path, key), child, other, open_left, open_right, prefix)


def _are_alike_dicts(one: Level, two: Level) -> bool:
    """Whether two nodes are dicts of one class with different keys."""
    return one.shape.kind in _DICTS and one.shape.type is two.shape.type and set(one.keys) != set(two.keys)


def _compare_keys(
    path: KeyPath, one: Level, two: Level, open_left: Callable, open_right: Callable
) -> Iterator[Difference]:
    for key, child in zip(one.keys, one.children, strict=True):
        if key not in two.keys:
            yield Difference(keystr((*path, key)), _describe(child, open_left(child)), "")
    for key, child in zip(two.keys, two.children, strict=True):
        if key not in one.keys:
            yield Difference(keystr((*path, key)), "", _describe(child, open_right(child)))


# ---- texts ---------------------------------------------------------------------------------------------------------


def difference_lines(
    expected: Any, got: Any, name: str = "", prefix: bool = False, is_leaf: Callable[[Any], bool] | None = None
) -> list[str]:
    """The paths at which the structures of two trees differ, as lines of text."""
    mismatches = list(compare((), expected, got, _opener(expected, is_leaf), _opener(got, is_leaf), prefix))
    where = [name + path or "the tree itself" for path, _, _ in mismatches]
    width = max(map(len, where), default=0)
    return [f"  {path:{width}}   {_text(*difference[1:])}" for path, difference in zip(where, mismatches, strict=True)]


def _opener(tree: Any, is_leaf: Callable[[Any], bool] | None) -> Callable[[Any], Level | None]:
    return open_def if isinstance(tree, optree.PyTreeSpec) else functools.partial(open_tree, is_leaf=is_leaf)


def _text(expected: str, got: str) -> str:
    if not expected:
        return "not expected"
    return f"expected {expected}, " + (f"got {got}" if got else "missing")


def mismatch_message(what: str, lines: list[str], advice: str = "") -> str:
    """A message: what was asked, the differences, what to do."""
    return "\n".join([f"{what}:", *lines, *([f"  {advice}"] if advice else [])])


def _describe_both(left: Any, one: Level | None, right: Any, two: Level | None) -> tuple[str, str]:
    texts = _describe(left, one), _describe(right, two)
    if texts[0] == texts[1] and one is not None and two is not None:  # so they differ in static data
        return _static_text(one.shape), _static_text(two.shape)
    return texts


def _describe(node: Any, level: Level | None) -> str:
    """`tuple of 2`, `dict with keys 'a', 'b'`, `Point(x, y)`, `a leaf (int)`."""
    if level is None:
        return "a leaf" if isinstance(node, optree.PyTreeSpec) else f"a leaf ({type(node).__name__})"
    kind, name, count = level.shape.kind, _class_name(level.shape), level.shape.num_children
    if kind == PyTreeKind.NONE:
        return "None"
    if kind in _SEQUENCES:
        return f"{name} of {count}"
    if kind in _DICTS:
        keys = ", ".join(repr(key.key) for key in level.keys)
        return f"{name} with keys {keys}" if keys else f"empty {name}"
    if kind in (PyTreeKind.NAMEDTUPLE, PyTreeKind.STRUCTSEQUENCE):
        return f"{name}({', '.join(key.name for key in level.keys)})"
    return f"{name} with {count} {'child' if count == 1 else 'children'}"


def _class_name(shape: optree.PyTreeSpec) -> str:
    return getattr(shape.type, "__qualname__", str(shape.type))


def _static_text(shape: optree.PyTreeSpec) -> str:
    """The text of a node with its static data, from optree's: `Layer[('relu',)]`, `deque([*], maxlen=3)`."""
    text = str(shape).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")
    if text.startswith("CustomTreeNode("):
        text = text.removeprefix("CustomTreeNode(")[: text.rindex(", [") - len("CustomTreeNode(")]
    return text


# ---- a tree that does not begin with a structure -------------------------------------------------------------------


def flatten_up_to(structure: optree.PyTreeSpec, tree: Any, what: str, name: str) -> list[Any]:
    """The subtrees of a tree at the leaves of a structure.

    Raises:
      TreeMismatch: the tree does not begin with the structure.
    """
    try:
        return structure.flatten_up_to(tree)
    except ValueError:
        lines = difference_lines(structure, tree, name, prefix=True)
        if not lines:  # not about structure: an error of a registered class's own
            raise
    raise TreeMismatch(
        mismatch_message(f"{what}: pytree structure error: the trees must have the same structure", lines)
    )


def first_mismatch(structure: optree.PyTreeSpec, tree: Any) -> str:
    """The first node of a tree that is not as in the structure, with its value: `Expected list, got (7,).`"""
    one, two = open_def(structure), open_tree(tree)
    if one is None:
        return ""
    if two is None or not _match(one, two):
        return _mismatch(one, two, reprlib.repr(tree), optree.is_namedtuple_instance(tree))
    others = dict(zip(two.keys, two.children, strict=True)) if one.shape.kind in _DICTS else None
    pairs = zip(one.keys, two.children) if others is None else [(key, others[key]) for key in one.keys]
    texts = (first_mismatch(child, other) for child, (_, other) in zip(one.children, pairs, strict=True))
    return next(filter(None, texts), "")


def _match(one: Level, two: Level) -> bool:
    if one.shape.kind in _DICTS and two.shape.kind in _DICTS:
        return set(one.keys) == set(two.keys)
    if one.shape.kind == two.shape.kind == PyTreeKind.DEQUE:
        return one.shape.num_children == two.shape.num_children
    return one.shape == two.shape


def _mismatch(one: Level, two: Level | None, value: str, is_namedtuple: bool) -> str:
    kind, name = one.shape.kind, _class_name(one.shape)
    other = None if two is None else two.shape.kind
    if two is not None and kind == other and kind in _SEQUENCES:
        counts = f"{two.shape.num_children} != {one.shape.num_children}"
        return f"{name.capitalize()} arity mismatch: {counts}; {name}: {value}."
    if two is not None and kind in _DICTS and other in _DICTS:
        keys = [sorted((key.key for key in each.keys), key=str) for each in (one, two)]
        return f"Dict key mismatch; expected keys: {keys[0]}; got keys: {keys[1]}."
    if kind == PyTreeKind.NAMEDTUPLE and not is_namedtuple:
        return f"Expected named tuple, got {value}."
    if kind == PyTreeKind.NAMEDTUPLE:
        return f"Named tuple type mismatch; expected type: {one.shape.type}; got {value}."
    if kind == PyTreeKind.CUSTOM:
        return f"Custom node type mismatch; expected type: {one.shape.type}; got {value}."
    return f"Expected {'None' if kind == PyTreeKind.NONE else name}, got {value}."

"""Pytrees: nested containers of leaves, flattened, unflattened, mapped and compared.

A tree is flattened into the list of its leaves and a `PyTreeDef`, its structure, which is hashable and comparable and
makes a tree of other leaves. Classes of nodes are registered in tree_nodes.py. `None` is a node without children; a
dict's children are sorted by key. Where trees must agree and do not, `TreeMismatch` names every path that differs.
"""

from __future__ import annotations

import builtins
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from xpr.errors import TreeMismatch
from xpr.optree_kept import PyTreeKind, optree, total_order_sorted
from xpr.tree_nodes import NAMESPACE, FlattenedIndexKey, KeyPath, Level, PyTreeDef, keystr, open_def, open_tree, static

__all__ = [
    "PyTreeDef",
    "all",
    "broadcast",
    "check_same_structure",
    "differences",
    "flatten",
    "flatten_prefix",
    "flatten_up_to",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
    "unflatten_sorted",
]

IsLeaf = Callable[[Any], bool] | None
IsLeafMaybeWithPath = Callable[..., bool] | None
_UNSPECIFIED: Any = object()


# ---- flatten and unflatten -----------------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree and its structure.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      `(list of leaves, PyTreeDef)`.

    >>> from xpr import tree
    >>> leaves, treedef = tree.flatten({"b": (1, 2), "a": [3, None]})
    >>> leaves
    [3, 1, 2]
    >>> tree.unflatten(treedef, "xyz")
    {'b': ('y', 'z'), 'a': ['x', None]}
    """
    try:
        return optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        error.add_note(_too_deep(tree))
        raise


def _too_deep(tree: Any) -> str:
    return (
        f"A pytree, {_start_of(tree)}, has more containers inside each other than can be flattened, some 1000. Keep "
        "what nests in one list, say, with the number of the parent of each."
    )


def _start_of(tree: Any) -> str:
    """`list of list of ...`, following the first children."""
    kinds: list[str] = []
    while len(kinds) < 5 and (level := open_tree(tree)) is not None and level.children:
        kinds.append(type(tree).__name__)
        tree = level.children[0]
    return " of ".join([*kinds, "..."])


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with a given structure and given leaves.

    Args:
      treedef: a tree structure.
      leaves: the leaves, in order; as many as `treedef.num_leaves`.

    Returns:
      A pytree.

    Raises:
      ValueError: there is another number of leaves.

    >>> from xpr import tree
    >>> tree.unflatten(tree.structure((0, [0])), [1, 2])
    (1, [2])
    """
    return treedef.unflatten(leaves)


def unflatten_sorted(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with a given structure and given leaves, whose dicts have their keys in sorted order.

    Transformed functions are called with such trees: structures that differ in the order of keys are equal, so that a
    function traced with one of them also stands for the others.

    Args:
      treedef: a tree structure.
      leaves: the leaves, in order; as many as `treedef.num_leaves`.

    Returns:
      A pytree.

    Raises:
      ValueError: there is another number of leaves.

    >>> from xpr import tree
    >>> tree.unflatten_sorted(tree.structure({"b": 0, "a": 0}), [1, 2])
    {'a': 1, 'b': 2}
    """
    return treedef.traverse(leaves, _with_sorted_keys)


def _with_sorted_keys(node: Any) -> Any:
    kind = type(node)
    if kind is not dict and kind is not defaultdict:
        return node
    keys = list(node)
    try:
        ordered = sorted(keys)
    except TypeError:
        ordered = total_order_sorted(keys)
    if ordered == keys:
        return node
    in_order = {key: node[key] for key in ordered}
    return in_order if kind is dict else defaultdict(node.default_factory, in_order)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A list.

    >>> from xpr import tree
    >>> tree.leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    try:
        return optree.tree_leaves(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        error.add_note(_too_deep(tree))
        raise


def structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree: all of it but the leaves.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A PyTreeDef.

    >>> from xpr import tree
    >>> tree.structure((1, [2])) == tree.structure(("x", ["y"])), tree.structure((1, [2])).num_leaves
    (True, 2)
    """
    try:
        return optree.tree_structure(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        error.add_note(_too_deep(tree))
        raise


def flatten_with_path(
    tree: Any, is_leaf: IsLeafMaybeWithPath = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves of a tree with their paths, and its structure.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.
      is_leaf_takes_path: whether it is called as `is_leaf(path, node)`.

    Returns:
      `(list of (path, leaf), PyTreeDef)`.

    >>> from xpr import tree
    >>> tree.flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    pairs: list[tuple[KeyPath, Any]] = []
    if is_leaf is None:
        _collect((), tree, lambda path, node: False, pairs)
        return pairs, structure(tree)
    answers: list[bool] = []

    def once(path: KeyPath, node: Any) -> bool:
        answers.append(bool(is_leaf(path, node) if is_leaf_takes_path else is_leaf(node)))
        return answers[-1]

    _collect((), tree, once, pairs)
    # optree visits nodes in the order of the walk above, but has no paths: it is given the answers of that walk.
    replay = iter(answers)
    return pairs, structure(tree, lambda _: next(replay))


def _collect(path: KeyPath, node: Any, is_leaf: Callable[[KeyPath, Any], bool], pairs: list) -> None:
    level = None if is_leaf(path, node) else open_tree(node)
    if level is None:
        pairs.append((path, node))
        return
    for key, child in zip(level.keys, level.children, strict=True):
        _collect((*path, key), child, is_leaf, pairs)


def leaves_with_path(
    tree: Any, is_leaf: IsLeafMaybeWithPath = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree with their paths, in order.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.
      is_leaf_takes_path: whether it is called as `is_leaf(path, node)`.

    Returns:
      A list of `(path, leaf)`.

    >>> from xpr import tree, tree_util
    >>> [tree_util.keystr(path) for path, _ in tree.leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def flatten_up_to(treedef: PyTreeDef, tree: Any, what: str = "flatten_up_to", name: str = "tree") -> list[Any]:
    """The subtrees of a tree at the leaves of a structure.

    Any kind of dict matches another, and a deque matches one with another `maxlen`.

    Args:
      treedef: a tree structure.
      tree: a pytree.
      what: begins the message of the error.
      name: the name of the tree in that message.

    Returns:
      A list.

    Raises:
      TreeMismatch: the tree does not begin with the structure.

    >>> from xpr import tree
    >>> tree.flatten_up_to(tree.structure([0, 0]), [1, {"a": 2}])
    [1, {'a': 2}]
    """
    try:
        return treedef.flatten_up_to(tree)
    except ValueError:
        lines = differences(treedef, tree, name=name, prefix=True)
        if not lines:  # not about structure: an error of a registered class's own
            raise
    raise TreeMismatch(_message(f"{what}: the trees must have the same structure", lines))


# ---- over all leaves -----------------------------------------------------------------------------------------------


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """A function applied to each leaf of a tree, or to the corresponding leaves of several trees.

    Where the first tree has a leaf the others may have a subtree, which is passed to `f`.

    Args:
      f: a function of as many arguments as there are trees.
      tree: a pytree.
      *rest: trees that begin with the structure of the first.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A tree of the results, with the structure of the first tree.

    Raises:
      TreeMismatch: the trees differ in structure otherwise.

    >>> from xpr import tree
    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    flat, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in flat])
    return treedef.unflatten([f(*row) for row in zip(flat, *_flatten_rest("tree.map", treedef, rest), strict=True)])


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeafMaybeWithPath = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """A function `f(path, leaf, ...)` applied to each leaf of a tree, or to the corresponding leaves of several trees.

    Args:
      f: a function of a path and as many leaves as there are trees.
      tree: a pytree.
      *rest: trees that begin with the structure of the first.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.
      is_leaf_takes_path: whether it is called as `is_leaf(path, node)`.

    Returns:
      A tree of the results, with the structure of the first tree.

    Raises:
      TreeMismatch: the trees differ in structure; see `map`.

    >>> from xpr import tree, tree_util
    >>> tree.map_with_path(lambda path, x: f"{tree_util.keystr(path)} = {x}", {"a": [1]})
    {'a': ["['a'][0] = 1"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = _flatten_rest("tree.map_with_path", treedef, rest)
    return treedef.unflatten([f(*pair, *row) for pair, *row in zip(pairs, *others, strict=True)])


def _flatten_rest(what: str, treedef: PyTreeDef, rest: tuple[Any, ...]) -> list[list[Any]]:
    return [flatten_up_to(treedef, tree, what, f"tree {index}") for index, tree in enumerate(rest, start=2)]


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves of a tree are true; True for a tree without leaves.

    Args:
      tree: a pytree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A boolean.

    >>> from xpr import tree
    >>> tree.all({"a": True, "b": [1, 0]})
    False
    """
    return builtins.all(leaves(tree, is_leaf))


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _UNSPECIFIED, is_leaf: IsLeaf = None
) -> Any:
    """The leaves of a tree combined from the left by `function(accumulated, leaf)`.

    Args:
      function: a function of two arguments.
      tree: a pytree.
      initializer: the first accumulated value; by default the first leaf.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      The accumulated value.

    Raises:
      TypeError: there are no leaves and no initializer.

    >>> from xpr import tree
    >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)})
    6
    """
    flat = leaves(tree, is_leaf)
    if initializer is not _UNSPECIFIED:
        return functools.reduce(function, flat, initializer)
    if not flat:
        raise TypeError("tree.reduce: the tree has no leaves and there is no `initializer`")
    return functools.reduce(function, flat)


def reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _UNSPECIFIED, is_leaf: IsLeaf = None
) -> Any:
    """The leaves of a tree combined in a balanced way, in logarithmic depth.

    Args:
      operation: an associative function of two leaves.
      tree: a pytree.
      identity: the result for a tree without leaves.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      The combined value.

    Raises:
      TypeError: there are no leaves and no identity.

    >>> from xpr import tree
    >>> tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcd"))
    '((ab)(cd))'
    """
    flat = leaves(tree, is_leaf)
    if flat:
        return _combine(operation, flat)
    if identity is _UNSPECIFIED:
        raise TypeError("tree.reduce_associative: the tree has no leaves and there is no `identity`")
    return identity


def _combine(operation: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return operation(_combine(operation, values[:half]), _combine(operation, values[half:]))


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees with the inner and the outer structure exchanged.

    Args:
      outer_treedef: the outer structure.
      inner_treedef: the inner structure; None for that of the first inner tree.
      pytree_to_transpose: a pytree with the outer structure, of trees with the inner structure.

    Returns:
      A pytree with the inner structure, of trees with the outer structure.

    Raises:
      TreeMismatch: the tree does not have these structures.
      ValueError: the inner structure is None, and the outer one has no leaves.

    >>> from xpr import tree
    >>> tree.transpose(tree.structure([0, 0]), tree.structure({"a": 0, "b": 0}), [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    what = "tree.transpose: the tree must have the outer structure, each leaf replaced by the inner one"
    if inner_treedef is None:
        inner_trees = flatten_up_to(outer_treedef, pytree_to_transpose, "tree.transpose")
        if not inner_trees:
            raise ValueError("tree.transpose: the outer structure has no leaves, so `inner_treedef` must be given")
        inner_treedef = structure(inner_trees[0])
    flat, treedef = flatten(pytree_to_transpose)
    size = inner_treedef.num_leaves
    if treedef.num_leaves != outer_treedef.num_leaves * size or not _has_classes(outer_treedef):
        check_same_structure(outer_treedef.compose(inner_treedef), treedef, what)
    return inner_treedef.unflatten([outer_treedef.unflatten(flat[column::size]) for column in range(size)])


def _has_classes(treedef: PyTreeDef) -> bool:
    """Whether there are nodes of registered classes, whose static data may speak of what they hold."""
    return treedef.kind == PyTreeKind.CUSTOM or any(map(_has_classes, treedef.children()))


# ---- prefixes ------------------------------------------------------------------------------------------------------


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A prefix of a tree expanded to its structure: each leaf of the prefix is repeated for the leaves below it.

    Args:
      prefix_tree: a pytree.
      full_tree: a pytree that begins with the structure of `prefix_tree`.
      is_leaf: a predicate of the prefix's nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A pytree with the structure of `full_tree`.

    Raises:
      TreeMismatch: `prefix_tree` is not a prefix of `full_tree`.

    >>> from xpr import tree
    >>> tree.broadcast({"a": 0, "b": 1}, {"a": (7, 8), "b": [9]})
    {'a': (0, 0), 'b': [1]}
    """
    treedef = structure(full_tree)
    return treedef.unflatten(_flatten_prefix(prefix_tree, treedef, "prefix_tree", is_leaf, none_is_leaf=False))


def flatten_prefix(prefix_tree: Any, full: Any, what: str, is_leaf: IsLeaf = None, verb: str = "") -> list[Any]:
    """For each leaf of a tree, the leaf of a prefix of it; None is a leaf of the prefix, too.

    It reads arguments such as `in_axes`.

    Args:
      prefix_tree: a pytree.
      full: a pytree or a PyTreeDef.
      what: the name of the prefix in the error.
      is_leaf: a predicate of the prefix's nodes; where it is true a node counts as a leaf. None for none.
      verb: the name of the function whose argument it is, in the error.

    Returns:
      A list with an item for each leaf of `full`.

    Raises:
      TreeMismatch: it is not a prefix.

    >>> from xpr import tree
    >>> tree.flatten_prefix((0, {"a": None, "b": 1}), ([7, 8], {"a": 9, "b": 10}), "in_axes")
    [0, 0, None, 1]
    """
    treedef = full if isinstance(full, PyTreeDef) else structure(full)
    return _flatten_prefix(prefix_tree, treedef, what, is_leaf, none_is_leaf=True, verb=verb)


def _flatten_prefix(
    prefix: Any, treedef: PyTreeDef, what: str, is_leaf: IsLeaf, none_is_leaf: bool, verb: str = ""
) -> list[Any]:
    items: list[Any] = []

    def open_prefix(node: Any) -> Level | None:
        return None if none_is_leaf and node is None else open_tree(node, is_leaf)

    if _repeat_leaves(prefix, treedef, items, open_prefix, plain=is_leaf is None):
        return items
    lines = [
        f"  {what}{path}   {_prefix_text(left, right)}"
        for path, left, right in _compare((), prefix, treedef, open_prefix, open_def, prefix=True)
    ]
    head = (
        f"{verb}{' ' if verb else ''}{what} specification must be a tree prefix of the corresponding value; it has the "
        "same containers, down to leaves that hold for all that is below.\n"
        f"Mismatch details ({len(lines)} found):"
    )
    raise TreeMismatch("\n".join([head, *lines]))


def _repeat_leaves(
    prefix: Any, treedef: PyTreeDef, items: list[Any], open_prefix: Callable[[Any], Level | None], plain: bool
) -> bool:
    """Append an item for each leaf of `treedef`; False where the two differ. `plain`: there is no `is_leaf` to ask."""
    kind = type(prefix)
    if plain and (kind is tuple or kind is list):  # nearly every `in_axes`
        children, same = prefix, treedef.type is kind and treedef.num_children == len(prefix)
    else:
        level = None if plain and kind is int else open_prefix(prefix)
        if level is None:
            items.extend([prefix] * treedef.num_leaves)
            return True
        children, same = level.children, level.shape == treedef.one_level()
    return same and builtins.all(
        _repeat_leaves(child, below, items, open_prefix, plain)
        for child, below in zip(children, treedef.children(), strict=True)
    )


def _prefix_text(left: str, right: str) -> str:
    if left and right:
        is_other = left.split()[0] != right.split()[0]
        return f"{'different types:' if is_other else 'is'} {left}, where the tree has {right}"
    return f"is not in the tree ({left})" if left else f"is missing: the tree has {right} there"


# ---- comparison ----------------------------------------------------------------------------------------------------


class _Difference(NamedTuple):
    path: str
    left: str  # the node in each tree; empty where the key is missing
    right: str


def differences(expected: Any, got: Any, *, name: str = "", prefix: bool = False, is_leaf: IsLeaf = None) -> list[str]:
    """The paths at which the structures of two trees differ, as lines of text.

    Args:
      expected: pytrees or PyTreeDefs.
      got: pytrees or PyTreeDefs.
      name: what paths begin with.
      prefix: whether a leaf of `expected` stands for any tree.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      A list of lines; empty where the structures are equal.

    >>> from xpr import tree
    >>> for line in tree.differences({"w": (1, 2), "b": 1}, {"w": [1, 2, 3], "c": 1}): print(line)
      ['b']   expected a leaf (int), missing
      ['c']   not expected
      ['w']   expected tuple of 2, got list of 3
    """
    open_left, open_right = _opener(expected, is_leaf), _opener(got, is_leaf)
    mismatches = list(_compare((), expected, got, open_left, open_right, prefix))
    where = [name + path or "the tree itself" for path, _, _ in mismatches]
    width = max(builtins.map(len, where), default=0)
    return [f"  {path:{width}}   {_text(*difference[1:])}" for path, difference in zip(where, mismatches, strict=True)]


def _opener(tree: Any, is_leaf: IsLeaf) -> Callable[[Any], Level | None]:
    return open_def if isinstance(tree, PyTreeDef) else functools.partial(open_tree, is_leaf=is_leaf)


def check_same_structure(
    expected: Any, got: Any, what: str, *, name: str = "", advice: str = "", is_leaf: IsLeaf = None
) -> None:
    """Raises an error that lists every difference, if the structures of two trees differ.

    Args:
      expected: pytrees or PyTreeDefs.
      got: pytrees or PyTreeDefs.
      what: the first line of the error's message.
      name: what paths begin with.
      advice: the last line of the message.
      is_leaf: a predicate of nodes; where it is true a node counts as a leaf. None for none.

    Returns:
      None.

    Raises:
      TreeMismatch: the structures differ.

    >>> from xpr import tree
    >>> tree.check_same_structure((1, 2), [1, 2], "scan: `body` must return the carry it was given", name="carry")
    Traceback (most recent call last):
    xpr.errors.TreeMismatch: scan: `body` must return the carry it was given:
      carry   expected tuple of 2, got list of 2
    """
    left, right = (tree if isinstance(tree, PyTreeDef) else structure(tree, is_leaf) for tree in (expected, got))
    if left != right:
        raise TreeMismatch(_message(what, differences(expected, got, name=name, is_leaf=is_leaf), advice))


def _message(what: str, lines: list[str], advice: str = "") -> str:
    return "\n".join([f"{what}:", *lines, *([f"  {advice}"] if advice else [])])


def _text(expected: str, got: str) -> str:
    if not expected:
        return "not expected"
    return f"expected {expected}, " + (f"got {got}" if got else "missing")


def _compare(
    path: KeyPath,
    left: Any,
    right: Any,
    open_left: Callable[[Any], Level | None],
    open_right: Callable[[Any], Level | None],
    prefix: bool,
) -> Iterator[_Difference]:
    """Walk two trees together. With `prefix`, a leaf on the left stands for any tree on the right."""
    one, two = open_left(left), open_right(right)
    if one is None and (prefix or two is None):
        return
    if one is not None and two is not None and one.shape == two.shape:
        # A PyTreeDef may have numbered children, where the other tree has named ones.
        keys = two.keys if isinstance(next(iter(one.keys), None), FlattenedIndexKey) else one.keys
        pairs = list(zip(keys, one.children, two.children, strict=True))
    elif one is not None and two is not None and _are_alike_dicts(one, two):
        yield from _compare_keys(path, one, two, open_left, open_right)
        by_key = dict(zip(two.keys, two.children, strict=True))
        pairs = [(key, child, by_key[key]) for key, child in zip(one.keys, one.children, strict=True) if key in by_key]
    else:
        yield _Difference(keystr(path), *_describe_both(left, one, right, two))
        return
    for key, child, other in pairs:
        yield from _compare((*path, key), child, other, open_left, open_right, prefix)


def _are_alike_dicts(one: Level, two: Level) -> bool:
    """Whether two nodes are dicts of one class with different keys."""
    dicts = (PyTreeKind.DICT, PyTreeKind.ORDEREDDICT, PyTreeKind.DEFAULTDICT)
    return one.shape.kind in dicts and one.shape.type is two.shape.type and set(one.keys) != set(two.keys)


def _compare_keys(
    path: KeyPath, one: Level, two: Level, open_left: Callable, open_right: Callable
) -> Iterator[_Difference]:
    for key, child in zip(one.keys, one.children, strict=True):
        if key not in two.keys:
            yield _Difference(keystr((*path, key)), _describe(child, open_left(child)), "")
    for key, child in zip(two.keys, two.children, strict=True):
        if key not in one.keys:
            yield _Difference(keystr((*path, key)), "", _describe(child, open_right(child)))


def _describe_both(left: Any, one: Level | None, right: Any, two: Level | None) -> tuple[str, str]:
    texts = _describe(left, one), _describe(right, two)
    if texts[0] == texts[1] and one is not None and two is not None:  # so they differ in static data
        return _static_text(one.shape), _static_text(two.shape)
    return texts


def _describe(node: Any, level: Level | None) -> str:
    """`tuple of 2`, `dict with keys 'a', 'b'`, `Point(x, y)`, `a leaf (int)`."""
    if level is None:
        return "a leaf" if isinstance(node, PyTreeDef) else f"a leaf ({type(node).__name__})"
    kind, name, count = level.shape.kind, _class_name(level.shape), level.shape.num_children
    if kind == PyTreeKind.NONE:
        return "None"
    if kind in (PyTreeKind.TUPLE, PyTreeKind.LIST, PyTreeKind.DEQUE):
        return f"{name} of {count}"
    if kind in (PyTreeKind.DICT, PyTreeKind.ORDEREDDICT, PyTreeKind.DEFAULTDICT):
        keys = ", ".join(repr(key.key) for key in level.keys)
        return f"{name} with keys {keys}" if keys else f"empty {name}"
    if kind in (PyTreeKind.NAMEDTUPLE, PyTreeKind.STRUCTSEQUENCE):
        return f"{name}({', '.join(key.name for key in level.keys)})"
    return f"{name} with {count} {'child' if count == 1 else 'children'}"


def _class_name(shape: PyTreeDef) -> str:
    return getattr(shape.type, "__qualname__", str(shape.type))


def _static_text(shape: PyTreeDef) -> str:
    """The text of a node with its static data, from optree's: `Layer[('relu',)]`, `deque([*], maxlen=3)`."""
    text = str(shape).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")
    if text.startswith("CustomTreeNode("):
        text = text.removeprefix("CustomTreeNode(")[: text.rindex(", [") - len("CustomTreeNode(")]
    return text

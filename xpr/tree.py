"""Pytrees: nested containers of leaves, taken apart, put together and compared.

A tree is flattened into the list of its leaves and a `PyTreeDef`, which is hashable, comparable and knows how to put
leaves back. What counts as a node is in tree_nodes.py. `None` is a node without children; a dict's children are
sorted by key. Where trees must agree and do not, `TreeMismatch` names every path at which they differ.
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


# ---- flat and back -------------------------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree and its structure; where `is_leaf(node)` is true the node counts as a leaf.

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
    """The tree of a structure with the given leaves; ValueError where their number is another than `num_leaves`.

    >>> from xpr import tree
    >>> tree.unflatten(tree.structure((0, [0])), [1, 2])
    (1, [2])
    """
    return treedef.unflatten(leaves)


def unflatten_sorted(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with the given leaves, its dicts in the order of their sorted keys, that of the leaves.

    What a transformed function is called with: structures that differ in the order of keys are equal, so a function
    that was traced with one of them also stands for the others.

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
    """The `(path, leaf)` pairs of a tree and its structure; `is_leaf_takes_path` makes it `is_leaf(path, node)`.

    >>> from xpr import tree
    >>> tree.flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    pairs: list[tuple[KeyPath, Any]] = []
    if is_leaf is None:
        _collect((), tree, lambda path, node: False, pairs)
        return pairs, structure(tree)
    answers: list[bool] = []

    def asked_once(path: KeyPath, node: Any) -> bool:
        answers.append(bool(is_leaf(path, node) if is_leaf_takes_path else is_leaf(node)))
        return answers[-1]

    _collect((), tree, asked_once, pairs)
    # optree visits the nodes in the order of the walk above, but knows no paths: it is told what was answered there.
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
    """The `(path, leaf)` pairs of a tree, in order.

    >>> from xpr import tree, tree_util
    >>> [tree_util.keystr(path) for path, _ in tree.leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def flatten_up_to(treedef: PyTreeDef, tree: Any, what: str = "flatten_up_to", name: str = "tree") -> list[Any]:
    """The subtrees of `tree` that stand where `treedef` has leaves; TreeMismatch, opened by `what`, where they differ.

    Any kind of dict will do for another, and a deque with another bound.

    >>> from xpr import tree
    >>> tree.flatten_up_to(tree.structure([0, 0]), [1, {"a": 2}])
    [1, {'a': 2}]
    """
    try:
        return treedef.flatten_up_to(tree)
    except ValueError:
        found = differences(treedef, tree, name=name, prefix=True)
        if not found:  # not about structure: an error of a registered class's own
            raise
    raise TreeMismatch(_message(f"{what}: the trees must have the same structure", found))


# ---- over all leaves -----------------------------------------------------------------------------------------------


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `f(leaf, *leaves of the rest)`, with the structure of the first tree.

    Where the first tree has a leaf the others may have a whole subtree, which `f` is handed. Raises TreeMismatch
    (a ValueError) where they differ otherwise.

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
    """The tree of `f(path, leaf, *leaves of the rest)`, with the structure of the first tree; errors as in `map`.

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
    """Whether every leaf is true; so for a tree without leaves.

    >>> from xpr import tree
    >>> tree.all({"a": True, "b": [1, 0]})
    False
    """
    return builtins.all(leaves(tree, is_leaf))


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _UNSPECIFIED, is_leaf: IsLeaf = None
) -> Any:
    """The leaves folded from the left by `function(so far, leaf)`; TypeError for no leaves and no initializer.

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
    """The leaves combined in a balanced way, so that the longest chain is logarithmic in their number.

    `identity` is the answer for a tree without leaves; TypeError where it is needed and missing.

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
    """A tree of trees turned inside out: from outer of inner to inner of outer.

    Without `inner_treedef` it is the structure of the first inner tree. Raises TreeMismatch where the tree is not made
    of the two, ValueError where the inner structure is neither given nor to be seen.

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
    check_same_structure(outer_treedef.compose(inner_treedef), treedef, what)
    size = inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(flat[column::size]) for column in range(size)])


# ---- prefixes ------------------------------------------------------------------------------------------------------


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The full tree's structure, each leaf taken from the place of `prefix_tree` above it; `is_leaf` is for the prefix.

    Raises TreeMismatch where `prefix_tree` does not end above the leaves of `full_tree`.

    >>> from xpr import tree
    >>> tree.broadcast({"a": 0, "b": 1}, {"a": (7, 8), "b": [9]})
    {'a': (0, 0), 'b': [1]}
    """
    treedef = structure(full_tree)
    return treedef.unflatten(_flatten_prefix(prefix_tree, treedef, "prefix_tree", is_leaf, none_is_leaf=False))


def flatten_prefix(prefix_tree: Any, full: Any, what: str, is_leaf: IsLeaf = None, verb: str = "") -> list[Any]:
    """One entry for each leaf of `full` (a tree or a PyTreeDef) from a prefix of it in which None too is an entry.

    For the likes of `in_axes`; `what` is its name in the TreeMismatch raised where it is no prefix, and `verb` that of
    the function it was given to.

    >>> from xpr import tree
    >>> tree.flatten_prefix((0, {"a": None, "b": 1}), ([7, 8], {"a": 9, "b": 10}), "in_axes")
    [0, 0, None, 1]
    """
    treedef = full if isinstance(full, PyTreeDef) else structure(full)
    return _flatten_prefix(prefix_tree, treedef, what, is_leaf, none_is_leaf=True, verb=verb)


def _flatten_prefix(
    prefix: Any, treedef: PyTreeDef, what: str, is_leaf: IsLeaf, none_is_leaf: bool, verb: str = ""
) -> list[Any]:
    entries: list[Any] = []

    def open_prefix(node: Any) -> Level | None:
        return None if none_is_leaf and node is None else open_tree(node, is_leaf)

    if _spread(prefix, treedef, entries, open_prefix, plain=is_leaf is None):
        return entries
    lines = [
        f"  {what}{path}   {_prefix_text(left, right)}"
        for path, left, right in _compare((), prefix, treedef, open_prefix, open_def, prefix=True)
    ]
    raise TreeMismatch(
        "\n".join(
            [
                f"{verb}{': ' if verb else ''}{what} must be a prefix of the tree it is for: "
                "the same containers, down to entries that hold for all that is below",
                *lines,
            ]
        )
    )


def _spread(
    prefix: Any, treedef: PyTreeDef, entries: list[Any], open_prefix: Callable[[Any], Level | None], plain: bool
) -> bool:
    """Append an entry for each leaf of `treedef`; False where the two differ. `plain`: there is no `is_leaf` to ask."""
    kind = type(prefix)
    if plain and (kind is tuple or kind is list):  # nearly every `in_axes`
        children, same = prefix, treedef.type is kind and treedef.num_children == len(prefix)
    else:
        level = None if plain and kind is int else open_prefix(prefix)
        if level is None:
            entries.extend([prefix] * treedef.num_leaves)
            return True
        children, same = level.children, level.shape == treedef.one_level()
    return same and builtins.all(
        _spread(child, below, entries, open_prefix, plain)
        for child, below in zip(children, treedef.children(), strict=True)
    )


def _prefix_text(left: str, right: str) -> str:
    if left and right:
        return f"is {left}, where the tree has {right}"
    return f"is not in the tree ({left})" if left else f"is missing: the tree has {right} there"


# ---- comparison ----------------------------------------------------------------------------------------------------


class _Difference(NamedTuple):
    path: str
    left: str  # what stands there in each tree; empty where the key is missing
    right: str


def differences(expected: Any, got: Any, *, name: str = "", prefix: bool = False, is_leaf: IsLeaf = None) -> list[str]:
    """A line for each path at which two trees (or PyTreeDefs) have different structures; none where they agree.

    `name` stands before each path. With `prefix`, a leaf of `expected` stands for any tree.

    >>> from xpr import tree
    >>> for line in tree.differences({"w": (1, 2), "b": 1}, {"w": [1, 2, 3], "c": 1}): print(line)
      ['b']   expected a leaf (int), missing
      ['c']   not expected
      ['w']   expected tuple of 2, got list of 3
    """
    open_left, open_right = _opener(expected, is_leaf), _opener(got, is_leaf)
    found = list(_compare((), expected, got, open_left, open_right, prefix))
    where = [name + path or "the tree itself" for path, _, _ in found]
    width = max(builtins.map(len, where), default=0)
    return [f"  {place:{width}}   {_text(*difference[1:])}" for place, difference in zip(where, found, strict=True)]


def _opener(tree: Any, is_leaf: IsLeaf) -> Callable[[Any], Level | None]:
    return open_def if isinstance(tree, PyTreeDef) else functools.partial(open_tree, is_leaf=is_leaf)


def check_same_structure(
    expected: Any, got: Any, what: str, *, name: str = "", advice: str = "", is_leaf: IsLeaf = None
) -> None:
    """Raise TreeMismatch where two trees (or PyTreeDefs) differ in structure: `what`, every difference, `advice`.

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
        # A PyTreeDef may know children by number only, where the tree beside it knows their names.
        keys = two.keys if isinstance(next(iter(one.keys), None), FlattenedIndexKey) else one.keys
        pairs = list(zip(keys, one.children, two.children, strict=True))
    elif one is not None and two is not None and _are_alike_dicts(one, two):
        yield from _compare_keys(path, one, two, open_left, open_right)
        there = dict(zip(two.keys, two.children, strict=True))
        pairs = [(key, child, there[key]) for key, child in zip(one.keys, one.children, strict=True) if key in there]
    else:
        yield _Difference(keystr(path), *_describe_both(left, one, right, two))
        return
    for key, child, other in pairs:
        yield from _compare((*path, key), child, other, open_left, open_right, prefix)


def _are_alike_dicts(one: Level, two: Level) -> bool:
    """Two dicts of one class whose keys differ, so that it is the keys that are to blame."""
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
    """What optree prints of one level, less its own words: `Layer[('relu',)]`, `deque([*], maxlen=3)`."""
    text = str(shape).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")
    if text.startswith("CustomTreeNode("):
        text = text.removeprefix("CustomTreeNode(")[: text.rindex(", [") - len("CustomTreeNode(")]
    return text

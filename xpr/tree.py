"""Pytrees: nested containers of leaves, flattened, unflattened, mapped and compared.

A tree is flattened into the list of its leaves and a `PyTreeDef`, its structure, which is hashable and comparable and
makes a tree of other leaves. Classes of nodes are registered in tree_nodes.py. `None` is a node without children; a
dict's children are sorted by key. Where trees must agree and do not, `TreeMismatch` names every path that differs.
"""

from __future__ import annotations

import builtins
import functools
import importlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from xpr import tree_differences
from xpr.config import native_code_wanted
from xpr.errors import TreeMismatch
from xpr.optree_kept import PyTreeKind, optree, total_order_sorted
from xpr.tree_def import PyTreeDef
from xpr.tree_differences import compare, difference_lines, mismatch_message
from xpr.tree_nodes import NAMESPACE, KeyPath, Level, children_with_keys, open_def, open_tree, registered, static
from xpr.tree_nodes import keystr as keystr

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
    if _trees is None:
        return _flatten(tree, is_leaf)
    if is_leaf is not None:
        return _flatten_until(tree, is_leaf)[:2]
    flat = _trees.flatten_exactly(tree)
    if flat is None:
        return _flatten(tree)
    leaves, key = flat
    treedef = _known.get(key)
    if treedef is None:
        _keep(key, treedef := _flatten(tree)[1])
    return leaves, treedef


def _flatten_until(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], PyTreeDef, list[bool]]:
    """The leaves and the structure, and what the predicate, which is called once for each, says of nodes in order."""
    leaves, key, answers = _trees.flatten_until(tree, is_leaf)
    treedef = _known.get(key)
    if treedef is not None:
        return leaves, treedef, answers
    known = iter([*answers])  # to which more are added

    def answer(node: Any) -> bool:
        is_known = next(known, None)
        if is_known is None:  # C has met a class that it doesn't know
            answers.append(is_known := bool(is_leaf(node)))
        return is_known

    leaves, treedef = _flatten(tree, answer)
    # A predicate may have changed the tree since C saw it.
    if key is not None and _trees.flatten_until(tree, _answering(answers))[1] == key:
        _keep(key, treedef)
    return leaves, treedef, answers


def _answering(answers: Iterable[bool]) -> Callable[..., bool]:
    """A predicate of nodes that gives these answers, and False when there are no more."""
    known = iter(answers)
    return lambda *_: next(known, False)


def _keep(key: Any, treedef: PyTreeDef) -> None:
    """Keeps a structure, which C tells by a key."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[key] = treedef


def _flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    try:
        leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except (RuntimeError, TypeError) as error:
        _explain(error, tree)
        raise
    return leaves, PyTreeDef(spec)


def _native() -> Any:
    """The functions of _trees.c; None where they are not built, or not wanted."""
    if not native_code_wanted():
        return None
    try:
        module = importlib.import_module("xpr._trees")
    except ImportError:
        return None
    module.bind(registered, OrderedDict, defaultdict, deque)
    return module


# Flattening in C takes a quarter of the time that optree does. The structures are optree's: those that hold no objects
# are kept here, by what C tells of them.
_trees = _native()
flatten_natively: Any = None if _trees is None else _trees.flatten_plain
_known: dict[Any, PyTreeDef] = {}
_MOST_KNOWN = 4096


def _explain(error: Exception, tree: Any) -> None:
    """Adds a note to the error of a tree that is too deep; raises ValueError for what a class's function returns.

    Raises:
      ValueError: the flatten function of a class doesn't return children and static data.
    """
    if isinstance(error, RecursionError):
        error.add_note(
            f"A pytree, {_start_of(tree)}, has more containers inside each other than can be flattened, some 1000. "
            "Keep what nests in one list, say, with the number of the parent of each."
        )
    elif any(text in str(error) for text in ("PyTree custom flatten function", "is not an instance of 'iterable'")):
        node = _wrongly_flattened(tree)
        if node is not None:
            raise ValueError(
                "The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple, got "
                f"{registered[type(node)].flatten(node)!r}. It is the first function that class "
                f"{type(node).__qualname__} was registered with, and children are what can be iterated over."
            ) from None


def _wrongly_flattened(tree: Any) -> Any:
    """The first node of a registered class whose flatten function fails or returns something else than it should."""
    try:
        level = open_tree(tree)
    except (RuntimeError, TypeError):
        return tree if type(tree) in registered else None
    if level is None:
        return None
    return next((node for node in builtins.map(_wrongly_flattened, level.children) if node is not None), None)


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
    return treedef.spec.traverse(leaves, _with_sorted_keys)


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
    if is_leaf is None and _trees is not None:
        flat = _trees.leaves(tree)
        if flat is not None:
            return flat
    try:
        return optree.tree_leaves(tree, is_leaf, namespace=NAMESPACE)
    except (RuntimeError, TypeError) as error:
        _explain(error, tree)
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
    return flatten(tree, is_leaf)[1]


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
    answers: list[bool] = []
    if is_leaf is not None and (is_leaf_takes_path or _trees is None):

        def ask(path: KeyPath, node: Any) -> bool:
            answers.append(bool(is_leaf(path, node) if is_leaf_takes_path else is_leaf(node)))
            return answers[-1]

        _collect((), tree, ask, pairs)
        # optree visits nodes in the order of the walk above, but has no paths: it is given the answers of that walk.
        return pairs, structure(tree, _answering(answers))
    if is_leaf is None:
        leaves, treedef = flatten(tree)
    else:
        leaves, treedef, answers = _flatten_until(tree, is_leaf)
    if treedef.paths is not None:
        return list(zip(treedef.paths, leaves, strict=True)), treedef
    is_told = _collect((), tree, None if is_leaf is None else _answering(answers), pairs)
    # A structure that is kept is other trees', too: it has no paths of one that a predicate has changed.
    if is_told and (is_leaf is None or _flatten_until(tree, _answering(answers))[1] is treedef):
        treedef.paths = [path for path, _ in pairs]
    return pairs, treedef


def _collect(path: KeyPath, node: Any, is_leaf: Callable[[KeyPath, Any], bool] | None, pairs: list) -> bool:
    """Adds the leaves of a node, with their paths; returns whether its structure alone tells the paths."""
    children = None if is_leaf is not None and is_leaf(path, node) else children_with_keys(node)
    if children is None:
        pairs.append((path, node))
        return True
    registration = registered.get(type(node))
    is_told = registration is None or registration.flatten_with_keys is None
    for key, child in children:
        is_told &= _collect((*path, key), child, is_leaf, pairs)
    return is_told


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
    return tree_differences.flatten_up_to(treedef.spec, tree, what, name)


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
    spec = treedef.spec
    if not rest:
        return spec.unflatten([f(leaf) for leaf in flat])
    return spec.unflatten([f(*row) for row in zip(flat, *_flatten_rest("tree.map", spec, rest), strict=True)])


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
    others = _flatten_rest("tree.map_with_path", treedef.spec, rest)
    return treedef.unflatten([f(*pair, *row) for pair, *row in zip(pairs, *others, strict=True)])


def _flatten_rest(what: str, spec: optree.PyTreeSpec, rest: tuple[Any, ...]) -> list[list[Any]]:
    numbered = enumerate(rest, start=2)
    return [tree_differences.flatten_up_to(spec, tree, what, f"tree {index}") for index, tree in numbered]


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
    what = (
        "tree.transpose: Mismatch of structures: the tree must have the outer one, each leaf replaced by the inner one"
    )
    if inner_treedef is None:
        inner_trees = flatten_up_to(outer_treedef, pytree_to_transpose, "tree.transpose")
        if not inner_trees:
            raise ValueError("tree.transpose: the outer structure has no leaves, so `inner_treedef` must be given")
        inner_treedef = structure(inner_trees[0])
    flat, treedef = flatten(pytree_to_transpose)
    size = inner_treedef.num_leaves
    if treedef.num_leaves != outer_treedef.num_leaves * size or not _has_classes(outer_treedef.spec):
        check_same_structure(outer_treedef.compose(inner_treedef), treedef, what)
    return inner_treedef.unflatten([outer_treedef.unflatten(flat[column::size]) for column in range(size)])


def _has_classes(spec: optree.PyTreeSpec) -> bool:
    """Whether there are nodes of registered classes, whose static data may speak of what they hold."""
    return spec.kind == PyTreeKind.CUSTOM or any(builtins.map(_has_classes, spec.children()))


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
    return treedef.unflatten(
        _flatten_prefix(prefix_tree, treedef, "prefix_tree", is_leaf, False, "tree.broadcast: pytree structure error:")
    )


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

    if _repeat_leaves(prefix, treedef.spec, items, open_prefix, plain=is_leaf is None):
        return items
    lines = [
        f"  {what}{path}   {_prefix_text(left, right)}"
        for path, left, right in compare((), prefix, treedef.spec, open_prefix, open_def, prefix=True)
    ]
    head = (
        f"{verb}{' ' if verb else ''}{what} specification must be a tree prefix of the corresponding value; it has "
        "the same containers, down to leaves that hold for all that is below.\n"
        f"Mismatch details ({len(lines)} found):"
    )
    raise TreeMismatch("\n".join([head, *lines]))


def _repeat_leaves(
    prefix: Any, spec: optree.PyTreeSpec, items: list[Any], open_prefix: Callable[[Any], Level | None], plain: bool
) -> bool:
    """Append an item for each leaf of `spec`; False where the two differ. `plain`: there is no `is_leaf` to ask."""
    kind = type(prefix)
    if plain and (kind is tuple or kind is list):  # nearly every `in_axes`
        children, same = prefix, spec.type is kind and spec.num_children == len(prefix)
    else:
        level = None if plain and kind is int else open_prefix(prefix)
        if level is None:
            items.extend([prefix] * spec.num_leaves)
            return True
        children, same = level.children, level.shape == spec.one_level()
    return same and builtins.all(
        _repeat_leaves(child, below, items, open_prefix, plain)
        for child, below in zip(children, spec.children(), strict=True)
    )


def _prefix_text(left: str, right: str) -> str:
    if left and right:
        is_other = left.split()[0] != right.split()[0]
        return f"{'different types:' if is_other else 'is'} {left}, where the tree has {right}"
    return f"is not in the tree ({left})" if left else f"is missing: the tree has {right} there"


# ---- comparison ----------------------------------------------------------------------------------------------------


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
    return difference_lines(_spec_of(expected), _spec_of(got), name, prefix, is_leaf)


def _spec_of(tree: Any) -> Any:
    return tree.spec if isinstance(tree, PyTreeDef) else tree


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
        raise TreeMismatch(mismatch_message(what, differences(expected, got, name=name, is_leaf=is_leaf), advice))

"""Pytrees: laws over generated trees, every message, and agreement with JAX on a table of trees."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import itertools
import operator
import pickle
import subprocess
import sys
import time
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from xpr import lax, tree, tree_util
from xpr.errors import TreeMismatch
from xpr.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr

pytestmark = pytest.mark.quick


class Point(NamedTuple):
    x: Any
    y: Any


class Size(NamedTuple):
    width: Any
    height: Any


tree_util.register_pytree_node(Size, lambda size: ((size.width,), size.height), lambda h, w: Size(*w, h))


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any = 0
    activation: str = tree.static(default="relu")


@tree_util.register_pytree_node_class
class Plain:
    """A node whose children have no names."""

    def __init__(self, *children: Any) -> None:
        self.children = children

    def __repr__(self) -> str:  # the same in every process, for it is part of a test's name
        return f"Plain{self.children}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.children == other.children

    __hash__ = None

    def tree_flatten(self):
        return self.children, None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@tree_util.register_pytree_with_keys_class
class Named(Plain):
    """A node that can flatten without making its keys."""

    def tree_flatten_with_keys(self):
        return [(GetAttrKey(f"child{index}"), child) for index, child in enumerate(self.children)], None


@tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    name: str


def nodes(children: st.SearchStrategy) -> st.SearchStrategy:
    keyed = st.dictionaries(st.sampled_from("abcd"), children, max_size=3)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        keyed,
        keyed.map(collections.OrderedDict),
        keyed.map(lambda items: collections.defaultdict(list, items)),
        st.lists(children, max_size=3).map(lambda items: collections.deque(items, maxlen=4)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children, st.sampled_from(["relu", "tanh"])),
        st.lists(children, max_size=3).map(lambda items: Plain(*items)),
        st.lists(children, max_size=2).map(lambda items: Named(*items)),
    )


trees = st.recursive(st.one_of(st.integers(), st.none(), st.just(Mode("train"))), nodes, max_leaves=12)
few = settings(max_examples=60, deadline=None)


# ---- laws ----------------------------------------------------------------------------------------------------------


@few
@given(trees)
def test_unflatten_undoes_flatten(value):
    leaves, treedef = tree.flatten(value)
    assert tree.unflatten(treedef, leaves) == value
    assert (leaves, treedef) == (tree.leaves(value), tree.structure(value))
    assert treedef.num_leaves == len(leaves)
    assert hash(treedef) == hash(tree.structure(value))


@few
@given(trees)
def test_map_composes_and_keeps_structure(value):
    assert tree.map(lambda x: x, value) == value
    assert tree.map(str, tree.map(lambda x: x + 1, value)) == tree.map(lambda x: str(x + 1), value)
    assert tree.structure(tree.map(str, value)) == tree.structure(value)
    assert tree.map(lambda x, y: x == y, value, value) == tree.map(lambda _: True, value)


@few
@given(trees)
def test_paths_name_each_leaf_once_in_order(value):
    pairs, treedef = tree.flatten_with_path(value)
    assert ([leaf for _, leaf in pairs], treedef) == tree.flatten(value)
    paths = [path for path, _ in pairs]
    assert len(set(paths)) == len(paths)
    assert tree.leaves_with_path(value) == pairs
    rows = tree.leaves(tree.map_with_path(lambda *row: types.SimpleNamespace(row=row), value, value))
    assert [row.row for row in rows] == [(*pair, pair[1]) for pair in pairs]


@few
@given(trees, st.integers(0, 2))
def test_is_leaf_with_paths_agrees_with_flatten(value, depth):
    by_path, treedef = tree.flatten_with_path(value, lambda path, _: len(path) >= depth, is_leaf_takes_path=True)
    assert all(len(path) <= depth for path, _ in by_path)
    assert tree.unflatten(treedef, [leaf for _, leaf in by_path]) == value
    is_pair = lambda x: isinstance(x, (Point, list)) or x is None
    pairs, treedef = tree.flatten_with_path(value, is_pair)
    assert ([leaf for _, leaf in pairs], treedef) == tree.flatten(value, is_pair)


@few
@given(trees, st.integers(0, 7))
def test_is_leaf_is_asked_once_for_each_node(value, number):
    """Also where optree takes over from C, which has met a class that it doesn't know."""
    asked: list[Any] = []

    def is_leaf(node: Any) -> bool:
        asked.append(node)
        return len(asked) % 8 == number

    flat = tree.flatten(value, is_leaf)
    nodes, asked[:] = list(asked), []
    pairs, treedef = tree.flatten_with_path(value, is_leaf)
    assert len(nodes) == len(asked) and all(map(operator.is_, nodes, asked))
    assert ([leaf for _, leaf in pairs], treedef) == flat
    asked.clear()
    by_path = tree.flatten_with_path(value, lambda path, node: is_leaf(node), is_leaf_takes_path=True)
    assert (pairs, treedef) == by_path and len(nodes) == len(asked)
    assert tree.unflatten(treedef, flat[0]) == value


def test_is_leaf_that_raises_an_error():
    for value in ([1, [2]], (1, collections.OrderedDict(a=[2]))):
        with pytest.raises(ZeroDivisionError):
            tree.flatten(value, lambda node: node == 2 and 1 / 0)
        with pytest.raises(KeyboardInterrupt):
            tree.flatten_with_path(value, lambda node: node == 2 and interrupt())


def test_is_leaf_that_raises_an_error_once():
    for value in ([1, 2], (1, collections.OrderedDict(a=2))):
        calls = itertools.count()
        with pytest.raises(ZeroDivisionError):
            tree.flatten(value, lambda node, calls=calls: next(calls) == 1 and 1 / 0)


def test_is_leaf_that_changes_the_tree():
    """Other trees of the same structure have it still."""
    value = {"changed": 1, "second": 2, "third": 3}
    tree.flatten(value, lambda node: node == 1 and bool(value.pop("changed", None)) and False)
    assert len(value) == 2
    leaves, treedef = tree.flatten({"changed": 1, "second": 2, "third": 3})
    assert leaves == [1, 2, 3] and treedef.num_leaves == 3

    value = {"changed": 1, "second": 2, "third": 3}
    tree.flatten_with_path(value, lambda node: node == 1 and value.update(renamed=value.pop("changed")))
    pairs, _ = tree.flatten_with_path({"changed": 1, "second": 2, "third": 3}, lambda node: False)
    assert [path[0].key for path, _ in pairs] == ["changed", "second", "third"]


def test_is_leaf_that_changes_the_class_of_a_node():
    class Other:
        pass

    def is_leaf(node: Any) -> bool:
        if type(node).__name__ == "Temporary":
            node.__class__ = Other
            gc.collect()
        return False

    for _ in range(20):
        value = type("Temporary", (), {})()
        assert tree.leaves([value], is_leaf) == [value]


def interrupt() -> None:
    raise KeyboardInterrupt


@few
@given(trees, st.randoms(use_true_random=False))
def test_a_prefix_gives_each_leaf_the_value_above_it(value, random):
    """Truncate a tree at random nodes; what a leaf gets is what stands at the longest path above it."""
    numbers = iter(range(1000))
    prefix = tree.map(lambda x: next(numbers), value, is_leaf=lambda x: x is None or random.random() < 0.3)
    entries = tree.flatten_prefix(prefix, value, "in_axes")
    above = dict(tree.leaves_with_path(prefix))
    paths = [path for path, _ in tree.leaves_with_path(value)]
    assert entries == [next(above[p[:n]] for n in range(len(p) + 1) if p[:n] in above) for p in paths]
    assert entries == tree.flatten_prefix(prefix, tree.structure(value), "in_axes")
    assert tree.leaves(tree.broadcast(prefix, value)) == entries


@few
@given(trees, trees)
def test_no_differences_means_equal_structure(one, two):
    for left, right in ((one, two), (tree.structure(one), tree.structure(two)), (one, tree.structure(two))):
        assert (tree.differences(left, right) == []) == (tree.structure(one) == tree.structure(two))
        assert tree.differences(left, left) == []


@few
@given(trees, trees)
def test_transpose_twice_is_the_identity(outer, inner):
    one, two = tree.structure(outer), tree.structure(inner)
    numbers = iter(range(10_000))
    value = tree.map(lambda _: tree.map(lambda _: next(numbers), inner), outer)
    turned = tree.transpose(one, two, value)
    assert tree.structure(turned) == two.compose(one)
    assert tree.transpose(two, one, turned) == value


# ---- single facts --------------------------------------------------------------------------------------------------


def test_none_is_a_node_without_children_unless_is_leaf_says_otherwise():
    assert tree.leaves([None, 1]) == [1]
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree.map(lambda x: x + 1, (None, 1)) == (None, 2)


def test_all_reduce_and_reduce_associative():
    assert tree.all([]) and tree.all((1, {"a": True})) and not tree.all([1, 0])
    assert tree.all([[0]], is_leaf=lambda x: x == [0])
    assert tree.reduce(operator.sub, [10, (1, 2)]) == 7
    assert tree.reduce(operator.add, [], 5) == 5
    assert tree.reduce(lambda total, x: total + len(x), [[1, 2], [3]], 0, is_leaf=lambda x: x in ([1, 2], [3])) == 3
    assert tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcde")) == "((ab)(c(de)))"
    assert tree.reduce_associative(operator.add, [], identity=0) == 0


def test_the_first_tree_decides_how_deep_map_goes():
    assert tree.map(lambda x, y: (x, y), [1, 2], [{"a": 3}, (4, 5)]) == [(1, {"a": 3}), (2, (4, 5))]
    assert tree.map(lambda x, y: (x, y), {"a": 1}, collections.OrderedDict(a=2)) == {"a": (1, 2)}
    assert tree.flatten_up_to(tree.structure((0, [0])), (1, [(2, 3)])) == [1, (2, 3)]


def test_transpose_finds_the_inner_structure():
    rows = [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}]
    assert tree.transpose(tree.structure([0, 0]), None, rows) == {"a": [1, 4], "b": ([2, 5], [3, 6])}
    assert tree.transpose(tree.structure([]), tree.structure((0, 0)), []) == ([], [])


def test_prefixes_with_leaves_that_look_like_nodes():
    spec = ("rows", None)
    assert tree.flatten_prefix([spec, 1], [(1, 2), 3], "in_specs", is_leaf=lambda x: x == spec) == [spec, spec, 1]
    assert tree.flatten_prefix(None, [1, {"a": 2}], "in_axes") == [None, None]
    assert tree.flatten_prefix((0, None), (1, None), "in_axes") == [0]
    assert tree.flatten_prefix({"a": None}, {"a": (1, 2)}, "in_axes") == [None, None]
    assert tree.broadcast((1, None), ([3, 4], None)) == ([1, 1], None)
    assert tree.broadcast(None, [1, 2], is_leaf=lambda x: x is None) == [None, None]


def test_keys():
    keys = (DictKey("a"), SequenceKey(0), GetAttrKey("b"), FlattenedIndexKey(2), DictKey(3))
    assert keystr(keys) == "['a'][0].b[<flat index 2>][3]"
    assert keystr(keys, simple=True, separator="/") == "a/0/b/2/3"
    assert keystr(("raw", 1)) == keystr(("raw", 1), simple=True) == "raw1"
    assert keystr(()) == ""
    assert repr(keys[:3]) == "(DictKey(key='a'), SequenceKey(idx=0), GetAttrKey(name='b'))"
    assert repr(FlattenedIndexKey(2)) == "FlattenedIndexKey(key=2)"
    assert DictKey(0) == DictKey(0) != FlattenedIndexKey(0) and len({*keys, *keys}) == 5


def test_paths_of_registered_classes_with_and_without_the_tree():
    value = [Layer((1,), 2), Named(3), Plain(4)]
    assert [keystr(path) for path, _ in tree.leaves_with_path(value)] == [
        "[0].weight[0]",
        "[0].bias",
        "[1].child0",
        "[2][<flat index 0>]",
    ]
    lines = tree.differences(tree.structure(value), tree.map(lambda x: [x], value))
    assert [line.split()[0] for line in lines] == ["[0].weight[0]", "[0].bias", "[1].child0", "[2][<flat"]
    lines = tree.differences(tree.structure(value), tree.structure(tree.map(lambda x: [x], value)))
    assert lines[2].split()[0] == "[1][<flat"  # structures alone know no keys that are made on demand


def test_struct_sequences_and_keys_that_do_not_compare():
    assert [keystr(path) for path, _ in tree.leaves_with_path(time.gmtime(0))][:2] == [".tm_year", ".tm_mon"]
    mixed = {1: "one", "a": "two"}
    assert tree.map(str.upper, mixed) == {1: "ONE", "a": "TWO"}


def test_treedefs_compare_hash_pickle_and_come_apart():
    treedef = tree.structure({"b": 1, "a": (2, Point(3, None))})
    assert treedef == tree.structure({"a": (0, Point(0, None)), "b": 0})
    assert treedef != tree.structure(collections.OrderedDict(a=(0, Point(0, None)), b=0))
    assert tree.structure(Layer(1)) != tree.structure(Layer(1, activation="tanh"))
    assert tree.structure(Mode("a")) == tree.structure(Mode("a")) != tree.structure(Mode("b"))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert isinstance(treedef, tree_util.PyTreeDef)
    assert tree_util.treedef_children(treedef) == [tree.structure((1, Point(1, None))), tree.structure(0)]
    assert tree_util.treedef_tuple(iter([treedef, tree.structure(Layer(1))])).num_leaves == 5
    assert [tree_util.treedef_is_leaf(tree.structure(value)) for value in (1, None, [1])] == [True, True, False]
    assert tree_util.all_leaves([[1]], is_leaf=lambda x: True)


def test_partial():
    partial = tree_util.Partial(max, 1, 2, key=operator.neg)
    assert partial() == 1 and isinstance(partial, functools.partial)
    assert tree.leaves(partial) == [1, 2, operator.neg]
    again = tree.map(lambda x: x, partial)
    assert type(again) is tree_util.Partial and again(0) == 0
    assert repr(tree_util.Partial(print, 1)).endswith("Partial(<built-in function print>, 1)")
    whole = functools.partial(pow, 2)
    outer = tree_util.Partial(whole, 3)
    assert outer() == 8 and tree.leaves(outer) == [3] and repr(outer.func) == repr(whole)
    assert tree.structure(outer) == tree.structure(tree_util.Partial(whole, 4))
    assert tree.structure(outer) != tree.structure(tree_util.Partial(functools.partial(pow, 2), 3))
    assert len({outer.func, tree_util.Partial(whole).func}) == 1


def test_register_dataclass_with_lists_and_as_decorator():
    @functools.partial(tree_util.register_dataclass, data_fields=["a"], meta_fields=["b"], drop_fields=["c"])
    @dataclasses.dataclass
    class Dropping:
        a: int
        b: int
        c: int = 7

    assert tree.map(lambda x: x + 1, Dropping(1, 2, 3)) == Dropping(2, 2, 7)

    class Ordinary:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree_util.register_dataclass(Ordinary, data_fields=["a"], meta_fields=("b",))
    assert tree.leaves_with_path(Ordinary(1, 2)) == [((GetAttrKey("a"),), 1)]
    assert vars(tree.map(str, Ordinary(1, 2))) == {"a": "1", "b": 2}


def test_static_keeps_other_metadata():
    assert tree.static(metadata={"unit": "m"}).metadata == {"unit": "m", "static": True}


def test_a_namedtuple_class_may_have_rules_of_its_own():
    class Own(NamedTuple):
        data: Any
        name: str

    tree_util.register_pytree_node(Own, lambda own: ((own.data,), own.name), lambda name, data: Own(*data, name))
    assert tree.map(str, Own(1, "n")) == Own("1", "n")


# ---- messages ------------------------------------------------------------------------------------------------------


def fails(kind, call, *args, **kwargs) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_map_names_every_path_that_differs():
    one = {"a": (1, 2), "b": [3], "c": None, "d": Point(1, 2)}
    two = {"a": [1, 2], "b": [{"x": 3}], "c": 3, "d": (1, 2)}
    message = fails(TreeMismatch, tree.map, lambda *leaves: leaves, one, one, two)
    assert (
        message
        == """\
tree.map: pytree structure error: the trees must have the same structure:
  tree 3['a']   expected tuple of 2, got list of 2
  tree 3['c']   expected None, got a leaf (int)
  tree 3['d']   expected Point(x, y), got tuple of 2"""
    )
    message = fails(ValueError, tree.map_with_path, lambda *leaves: leaves, [1, 2], [1])
    assert (
        message
        == """\
tree.map_with_path: pytree structure error: the trees must have the same structure:
  tree 2   expected list of 2, got list of 1"""
    )


def test_an_error_of_the_users_own_flatten_function_is_not_renamed():
    class Fragile:
        broken = False

    def flatten(node):
        if node.broken:
            raise ValueError("not today")
        return (), None

    tree_util.register_pytree_node(Fragile, flatten, lambda _, children: Fragile())
    whole, broken = Fragile(), Fragile()
    broken.broken = True
    assert fails(ValueError, tree.flatten, broken) == "not today"
    assert fails(ValueError, tree.map, operator.add, [whole], [broken]) == "not today"


def test_check_same_structure_lists_all_differences():
    assert tree.check_same_structure({"w": (1, 2)}, tree.structure({"w": (3, 4)}), "f") is None
    message = fails(
        TreeMismatch,
        tree.check_same_structure,
        {"w": [(1, 2)], "b": 1, "n": {}, "p": Plain(1)},
        {"w": [[1, 2, 3]], "c": {"x": 1}, "n": {"y": 1}, "p": Plain(1, 2)},
        "scan: `body` must return the carry it was given",
        name="carry",
        advice="Change `init`.",
    )
    assert (
        message
        == """\
scan: `body` must return the carry it was given:
  carry['b']        expected a leaf (int), missing
  carry['c']        not expected
  carry['n']['y']   not expected
  carry['p']        expected Plain with 1 child, got Plain with 2 children
  carry['w'][0]     expected tuple of 2, got list of 3
  Change `init`."""
    )


@pytest.mark.parametrize(
    "expected, got, text",
    [
        (1, (), "the tree itself   expected a leaf (int), got tuple of 0"),
        ([Layer(1)], [Layer(1, activation="tanh")], "[0]   expected Layer[('relu',)], got Layer[('tanh',)]"),
        (Mode("a"), Mode("b"), "the tree itself   expected Mode[Mode(name='a')], got Mode[Mode(name='b')]"),
        (
            collections.OrderedDict(a=1, b=2),
            collections.OrderedDict(b=2, a=1),
            "the tree itself   expected OrderedDict with keys 'a', 'b', got OrderedDict with keys 'b', 'a'",
        ),
        (
            collections.deque([1], 2),
            collections.deque([1]),
            "the tree itself   expected deque([*], maxlen=2), got deque([*])",
        ),
        (
            collections.defaultdict(int, a=1),
            collections.defaultdict(list, a=1),
            "the tree itself   expected defaultdict(<class 'int'>, {'a': *}), "
            "got defaultdict(<class 'list'>, {'a': *})",
        ),
        ({}, collections.OrderedDict(), "the tree itself   expected empty dict, got empty OrderedDict"),
        ([0, [Named((1,))]], [0, [Named([1])]], "[1][0].child0   expected tuple of 1, got list of 1"),
    ],
)
def test_differences_in_words(expected, got, text):
    assert tree.differences(expected, got) == ["  " + text]


def test_flatten_prefix_names_the_path():
    prefix, full = (0, {"a": (0, 1), "c": 2}), (1, {"a": [1, 2], "b": 2})
    message = fails(TreeMismatch, tree.flatten_prefix, prefix, full, "in_axes")
    assert (
        message
        == """\
in_axes specification must be a tree prefix of the corresponding value; it has the same containers, down to leaves \
that hold for all that is below.
Mismatch details (3 found):
  in_axes[1]['c']   is not in the tree (a leaf (int))
  in_axes[1]['b']   is missing: the tree has a leaf there
  in_axes[1]['a']   different types: tuple of 2, where the tree has list of 2"""
    )
    message = fails(TreeMismatch, tree.flatten_prefix, (0, 1), [1, 2], "out_axes")
    assert message.endswith("\n  out_axes   different types: tuple of 2, where the tree has list of 2")
    message = fails(TreeMismatch, tree.broadcast, (1, None), ([3], 4))
    assert message.endswith("\n  prefix_tree[1]   different types: None, where the tree has a leaf")


def test_transpose_messages():
    pair = tree.structure([0, 0])
    message = fails(TreeMismatch, tree.transpose, pair, tree.structure({"a": 0}), [{"a": 1}, 2])
    assert (
        message
        == """\
tree.transpose: Mismatch of structures: the tree must have the outer one, each leaf replaced by the inner one:
  [1]   expected dict with keys 'a', got a leaf"""
    )
    message = fails(ValueError, tree.transpose, tree.structure([]), None, [])
    assert message == "tree.transpose: the outer structure has no leaves, so `inner_treedef` must be given"
    assert "expected list of 2, got list of 1" in fails(TreeMismatch, tree.transpose, pair, None, [1])


def test_empty_reductions_and_wrong_leaf_counts():
    assert fails(TypeError, tree.reduce, operator.add, []) == (
        "tree.reduce: the tree has no leaves and there is no `initializer`"
    )
    assert fails(TypeError, tree.reduce_associative, operator.add, []) == (
        "tree.reduce_associative: the tree has no leaves and there is no `identity`"
    )
    assert "Too few leaves for PyTreeDef; expected 2, got 1." in fails(
        ValueError, tree.unflatten, tree.structure((1, 2)), [1]
    )
    assert "Too many leaves" in fails(ValueError, tree.unflatten, tree.structure((1, 2)), [1, 2, 3])


def test_registration_messages():
    assert "Layer'> is already registered as a pytree node" in fails(ValueError, tree_util.register_static, Layer)
    assert "<class 'tuple'> is a pytree node of its own accord" in fails(ValueError, tree_util.register_static, tuple)
    assert fails(TypeError, tree_util.register_static, 3) == ("only a class can be registered as a pytree node, got 3")
    assert "has no `tree_flatten` and no `tree_unflatten`" in fails(
        TypeError, tree_util.register_pytree_node_class, types.SimpleNamespace
    )
    assert "register_pytree_with_keys_class" in fails(
        TypeError, tree_util.register_pytree_with_keys_class, types.SimpleNamespace
    )


def test_register_dataclass_messages():
    @dataclasses.dataclass
    class Three:
        x: int
        y: int
        z: int = dataclasses.field(default=0, init=False)

    def message(kind, *args):
        return fails(kind, tree_util.register_dataclass, Three, *args)

    assert "either is specified. Got data_fields=['x'] meta_fields=None." in message(TypeError, ["x"])
    assert "either is specified. Got data_fields=None meta_fields=['x']." in message(TypeError, None, ["x"])
    assert "and no others. Missing fields: {'y'} of" in message(ValueError, ["x"], [])
    assert "must not overlap. Overlapping fields: {'x', 'y'} of" in message(ValueError, ["x", "y"], ["x", "y"])
    assert "Unexpected fields: {'z'} of" in message(ValueError)
    assert "data_fields and meta_fields are required when nodetype is not a dataclass" in fails(
        TypeError, tree_util.register_dataclass, types.SimpleNamespace
    )


# ---- agreement with JAX --------------------------------------------------------------------------------------------


TABLE = [
    0,
    None,
    (),
    [],
    {},
    (1, 2),
    [1, (2, [3])],
    {"b": 1, "a": {"d": 2, "c": None}},
    {3: "x", 1: "y"},
    Point(1, [2]),
    collections.OrderedDict([("z", 1), ("a", (2,))]),
    collections.defaultdict(list, b=1, a=2),
    [Point(None, {"k": ()})],
    [Point, "leaf", 1.5],
    ((), [None], {"a": []}),
]


@pytest.fixture(scope="module")
def peer():
    jax = pytest.importorskip("jax")
    jax.tree_util.register_dataclass(Layer)
    jax.tree_util.register_pytree_node_class(Plain)
    jax.tree_util.register_pytree_with_keys_class(Named)
    return jax


def paths(module, value) -> list[str]:
    return [module.keystr(path) for path, _ in module.tree_leaves_with_path(value)]


@pytest.mark.parametrize("value", [*TABLE, Layer([1], {"a": 2}), (Plain(1, [2]), Plain())], ids=repr)
def test_flattening_is_that_of_jax(peer, value):
    assert tree.leaves(value) == peer.tree.leaves(value)
    assert paths(tree_util, value) == paths(peer.tree_util, value)
    assert [tuple(map(repr, path)) for path, _ in tree.leaves_with_path(value)] == [
        tuple(map(repr, path)) for path, _ in peer.tree.leaves_with_path(value)
    ]
    assert tree.map(lambda x: [x], value) == peer.tree.map(lambda x: [x], value)
    ours, theirs = tree.structure(value), peer.tree.structure(value)
    assert (ours.num_leaves, ours.num_nodes) == (theirs.num_leaves, theirs.num_nodes)


def test_structures_are_equal_where_those_of_jax_are(peer):
    for one in TABLE:
        for two in TABLE:
            theirs = peer.tree.structure(one) == peer.tree.structure(two)
            assert (tree.structure(one) == tree.structure(two)) == theirs


def test_structures_mismatch_where_those_of_jax_do(peer):
    def outcome(module, one, two):
        try:
            return module.map(lambda x, y: (x, y), one, two)
        except ValueError:
            return ValueError

    def only_kinds_of_dict_differ(one, two):  # where ours is the more lenient
        return isinstance(one, dict) and isinstance(two, dict)

    for one in TABLE:
        for two in TABLE:
            if not only_kinds_of_dict_differ(one, two):
                assert outcome(tree, one, two) == outcome(peer.tree, one, two)


def test_named_keys_partials_and_transposes_are_those_of_jax(peer):
    assert paths(tree_util, Named(1, [2])) == [".child0", ".child1[0]"] == paths(peer.tree_util, Named(1, [2]))
    for module in (tree_util, peer.tree_util):
        partial = module.Partial(functools.partial(pow, 2), 3, mod=5)
        assert paths(module, partial) == ["[<flat index 0>][0]", "[<flat index 1>]['mod']"]
        assert module.tree_leaves(partial) == [3, 5]
    rows = [{"a": 1, "b": (2,)}, {"a": 3, "b": (4,)}]
    for inner in (None, rows[0]):
        assert tree.transpose(tree.structure([0, 0]), inner and tree.structure(inner), rows) == peer.tree.transpose(
            peer.tree.structure([0, 0]), inner and peer.tree.structure(inner), rows
        )


@pytest.mark.parametrize(
    "prefix, full",
    [
        (0, (1, [2])),
        ((0, 1), ([1, 2], {"a": 3})),
        ({"a": 0}, {"a": [1, 2]}),
        ((0, None), (1, None)),
        (Point(0, 1), Point([2], 3)),
    ],
)
def test_broadcast_is_that_of_jax(peer, prefix, full):
    assert tree.broadcast(prefix, full) == peer.tree.broadcast(prefix, full)


def test_every_name_of_the_tree_api_is_here(peer):
    theirs = {name for name in dir(peer.tree) if not name.startswith("_")}
    assert theirs <= set(tree.__all__)
    not_ours = {"default_registry", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node"}
    assert {name for name in dir(peer.tree_util) if not name.startswith("_")} - not_ours <= set(tree_util.__all__)


def test_pytrees_in_handlers_of_atexit_registered_before_the_library(tmp_path):
    """optree forgets its containers when Python exits, before such handlers run."""
    script = """
import atexit

def last():
    print(xpr.jit(lambda d: {"b": d["a"] + 1})({"a": 1.0})["b"])

atexit.register(last)
import xpr
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("2.0\n", "")


def test_trees_that_nest_too_deep_are_named():
    deep = 1.0
    for _ in range(5000):
        deep = [deep]
    for call in (tree.leaves, tree.flatten, tree.structure, lambda t: tree.map(abs, t), xpr.jit(lambda t: 0)):
        with pytest.raises(RecursionError) as caught:
            call(deep)
        assert "list of list of list of ..., has more containers inside each other" in "".join(caught.value.__notes__)


# -- The order of dicts


def weighted(d):
    """Looks at the order of keys, as functions should not."""
    return {key: value * 10 + position for position, (key, value) in enumerate(d.items())}


def with_rules(d):
    rule = xpr.custom_jvp(weighted)
    rule.defjvp(lambda primals, tangents: (weighted(*primals), weighted(*tangents)))
    return xpr.jvp(rule, (d,), (d,))[1]


ORDERED = {
    "jit": xpr.jit(weighted),
    "vmap": lambda d: xpr.vmap(weighted)({key: jnp.array([x]) for key, x in d.items()}),
    "grad": xpr.grad(lambda d: sum(x * position for position, x in enumerate(d.values(), start=1))),
    "jvp": lambda d: xpr.jvp(weighted, (d,), (d,))[0],
    "checkpoint": xpr.checkpoint(weighted),
    "cond": lambda d: lax.cond(True, weighted, weighted, d),
    "scan": lambda d: lax.scan(lambda c, _: (weighted(c), None), d, None, 1)[0],
    "scan over": lambda d: lax.scan(lambda c, x: (c, weighted(x)), 0, {key: jnp.array([x]) for key, x in d.items()})[1],
    "fori": lambda d: lax.fori_loop(0, 1, lambda i, c: weighted(c), d),
    "while": lambda d: lax.while_loop(lambda c: c["a"] < 5, weighted, d),
    "callback": lambda d: xpr.pure_callback(weighted, d, d),
    "keywords": lambda d: xpr.jit(lambda **given: weighted(given))(**d),
    "custom rule": with_rules,
}


@pytest.mark.parametrize("name", ORDERED)
def test_functions_see_dicts_with_sorted_keys(name):
    """Whatever the order of the keys, and of what was called before: structures that differ in it are equal."""
    results = []
    for keys in ("ab", "ba", "ab", "ba"):
        given = {key: jnp.float32(number) for key, number in zip(keys, {"ab": (1, 2), "ba": (2, 1)}[keys])}
        results.append(ORDERED[name](given))
    assert [{key: float(jnp.sum(x)) for key, x in sorted(d.items())} for d in results] == [
        {"a": 1.0, "b": 2.0} if name == "grad" else {"a": 10.0, "b": 21.0}
    ] * 4


def test_dicts_of_every_kind_are_sorted_for_functions():
    given = {"b": 1.0, "a": {"d": 2.0, "c": 3.0}, 3: 4.0}
    kinds = dict, functools.partial(collections.defaultdict, list), collections.OrderedDict
    seen = []
    xpr.jit(lambda *ds: seen.extend(list(d) for d in (*ds, ds[0]["a"])) or 0)(*[kind(given) for kind in kinds])
    assert seen == [[3, "a", "b"], [3, "a", "b"], ["b", "a", 3], ["c", "d"]]


class Key:
    """A key that can't be compared with another."""


def test_keys_that_do_not_compare():
    """Leaves are in the order of types, then of keys; keys of one type that have no order stand as they were put in,
    which then makes another structure. (In JAX such dicts are an error.)
    """
    one, other = Key(), Key()
    assert tree.leaves({"b": 1, 3: 2, "a": 3, 1: 4, None: 5}) == [5, 4, 2, 3, 1]
    assert tree.map(lambda x, y: (x, y), {one: 1, other: 2}, {other: 20, one: 10}) == {one: (1, 10), other: (2, 20)}
    assert tree.structure({one: 1, other: 2}) != tree.structure({other: 1, one: 2})
    f = xpr.jit(lambda d: d[one] - d[other])
    assert f({one: 1.0, other: 5.0}) == f({other: 5.0, one: 1.0}) == -4
    assert xpr.grad(lambda d: d[one] * d["a"])({"a": 2.0, one: 3.0}) == {"a": 3.0, one: 2.0}


def test_the_order_of_keys_beside_the_peer():
    """Functions see the same order, and leaves come in it; trees that are mapped keep the order they had."""
    jax = pytest.importorskip("jax")
    for one in ({"b": 1.0, "a": (2.0, None)}, {2: 1.0, 1: 2.0}, collections.OrderedDict(b=1.0, a=2.0)):
        assert tree.leaves(one) == jax.tree.leaves(one)
        orders = []
        for library in (xpr, jax):
            library.jit(lambda d: orders.append([*d]) or 0)(one)  # noqa: B023
        assert orders[0] == orders[1]
        assert list(tree.map(lambda x: x, one)) == list(one)


def test_functions_that_unravel_alike_are_equal():
    from xpr.flatten_util import ravel_pytree

    traces = []

    @functools.partial(xpr.jit, static_argnums=1)
    def run(flat, unravel):
        traces.append(1)
        return unravel(flat + 1)

    for _ in range(2):
        vector, unravel = ravel_pytree({"a": np.ones(2), "b": np.int32(3)})
        assert run(vector, unravel)["b"] == 4
    assert len(traces) == 1 and unravel != ravel_pytree({"a": np.ones(3)})[1]


def test_numbers_count_by_their_dtype_where_trees_are_raveled():
    from xpr.flatten_util import ravel_pytree

    for array, number in ((jnp.ones(2, jnp.bfloat16), 1.5), (np.ones(2, np.int8), 300)):
        vector, unravel = ravel_pytree([array, number])
        assert vector.dtype == jnp.asarray(number).dtype
        assert [(x.dtype, x.tolist()) for x in unravel(vector)] == [(array.dtype, [1, 1]), (vector.dtype, number)]


def test_types_are_raveled_as_arrays_are():
    from xpr.flatten_util import ravel_pytree

    types = {"a": xpr.ShapeDtypeStruct((2, 1), np.float32), "b": xpr.ShapeDtypeStruct((), np.int32), "c": 1}
    vector, unravel = ravel_pytree(types)
    assert (vector.shape, vector.dtype) == ((4,), np.float32)
    assert unravel == ravel_pytree({"a": np.ones((2, 1), np.float32), "b": np.int32(3), "c": 1})[1]
    inside = xpr.jit(lambda x: ravel_pytree(types)[1](x))(np.arange(4, dtype=np.float32))  # as netket's operators do
    assert [(x.shape, x.dtype) for x in tree.leaves(inside)] == [((2, 1), np.float32), ((), np.int32), ((), np.int32)]


def test_transposing_nodes_whose_static_data_describe_their_children():
    @tree_util.register_pytree_node_class
    class Flat:
        def __init__(self, structure, leaves):
            self.structure, self.leaves = structure, leaves

        def tree_flatten(self):
            leaves, inner = tree.flatten(tree.unflatten(self.structure, self.leaves))
            return leaves, inner

        tree_unflatten = classmethod(lambda cls, structure, leaves: cls(structure, list(leaves)))

    flat = Flat(tree.structure({"a": 0, "b": 0}), [[3, 4], [5, 6]])
    outer = tree.structure(Flat(flat.structure, [1, 2]))
    assert [each.leaves for each in tree.transpose(outer, tree.structure([1, 2]), flat)] == [[3, 5], [4, 6]]


def test_static_fields_may_say_that_they_are_not():
    assert tree.static(metadata={"static": False}).metadata == {"static": False}


# ---- PyTreeDef -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, text",
    [
        (1, "*"),
        (None, "None"),
        ((1,), "(*,)"),
        ({"b": [1, None], "a": (2, 3)}, "{'a': (*, *), 'b': [*, None]}"),
        (Point(1, (2,)), "CustomNode(namedtuple[Point], [*, (*,)])"),
        (Layer(1), "CustomNode(Layer[('relu',)], [*, *])"),
        (collections.OrderedDict(b=1, a=2), "CustomNode(OrderedDict[('b', 'a')], [*, *])"),
        (collections.defaultdict(int, b=1), "CustomNode(defaultdict[(<class 'int'>, ('b',))], [*])"),
        (collections.deque([1], maxlen=3), "CustomNode(deque[3], [*])"),
    ],
)
def test_treedefs_print_and_pickle(value, text):
    treedef = tree.structure(value)
    assert str(treedef) == f"PyTreeDef({text})"
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert tree_util.treedef_tuple([treedef] * 2) == tree.structure((value, value))
    assert type(treedef) is tree_util.PyTreeDef and hash(treedef) == hash(tree.structure(value))


def test_treedefs_are_public_everywhere():
    traced = xpr.jit(lambda x: {"y": x}).trace(1.0)
    assert str(traced.in_tree) == "PyTreeDef(((*,), {}))" and str(traced.out_tree) == "PyTreeDef({'y': *})"
    treedef = tree.flatten_with_path([1, {"a": 2}])[1]
    assert [type(each) for each in (treedef, *treedef.children())] == [tree_util.PyTreeDef] * 3
    assert treedef != treedef.spec and tree.leaves(treedef) == [treedef]


def test_static_data_of_nodes():
    assert tree.structure(3).node_data() is None and tree.structure(None).node_data() == (type(None), None)
    assert tree.structure({"b": 1, "a": 2}).node_data() == (dict, ["a", "b"])
    assert tree.structure(Layer(1)).node_data() == (Layer, ("relu",))
    assert tree.structure(Point(1, 2)).node_data() == (Point, None)


def test_walk():
    nodes = []
    treedef = tree.structure({"b": 2, "a": 1, "c": {"b": 2, "a": 1}})
    treedef.walk(lambda children, data: nodes.append((children, data)), None, [1, 2, 3, 4])
    assert nodes == [((3, 4), ["a", "b"]), ((1, 2, None), ["a", "b", "c"])]
    assert treedef.walk(lambda children, _: sum(children), lambda x: 2 * x, [1, 2, 3, 4]) == 20
    assert "has 4 leaves, and 1 are given" in fails(ValueError, treedef.walk, max, None, [1])


@pytest.mark.parametrize(
    "structure, value, phrase",
    [
        ([1], (7,), "Expected list, got (7,)."),
        ({"a": (1,)}, {"a": 7}, "Expected tuple, got 7."),
        (None, 7, "Expected None, got 7."),
        ([1], [1, 2], "List arity mismatch: 2 != 1; list: [1, 2]."),
        ({"a": {"a": 1}}, {"a": {"b": 7}}, "Dict key mismatch; expected keys: ['a']; got keys: ['b']."),
        ([Point(1, 2)], [(1, 2)], "Expected named tuple, got (1, 2)."),
        (
            [Point(1, 2)],
            [Size(1, 2)],
            "Named tuple type mismatch; expected type: <class 'tests.test_tree.Point'>; got Size(width=1, height=2).",
        ),
        (Layer(1), (1, 0), "Custom node type mismatch; expected type: <class 'tests.test_tree.Layer'>; got (1, 0)."),
    ],
)
def test_a_tree_that_does_not_begin_with_a_structure(structure, value, phrase):
    message = fails(TreeMismatch, tree.structure(structure).flatten_up_to, value)
    first, *lines, last = message.splitlines()
    assert first == "flatten_up_to: pytree structure error: the trees must have the same structure:"
    assert all(line.startswith("  tree") for line in lines) and lines
    assert last.strip() == phrase


def test_numbered_keys_of_two_kinds_differ():
    assert hash(FlattenedIndexKey(1)) != hash(SequenceKey(1)) and hash(FlattenedIndexKey(1)) == hash(
        FlattenedIndexKey(1)
    )


@pytest.mark.parametrize("value", [1, None, (), [1], (1, 2), {}, {"b": 4, "a": [1, (2, None)], "zz": {"a": 1}}])
def test_structures_are_protocol_buffers_as_jax_writes_them(peer, value):
    treedef = tree.structure(value)
    data = treedef.serialize_using_proto()
    assert data == peer.tree_util.tree_structure(value).serialize_using_proto()
    assert tree_util.PyTreeDef.deserialize_using_proto(tree_util.default_registry, data) == treedef


def test_messages_of_protocol_buffers():
    assert "is a user-defined node or another" in fails(ValueError, tree.structure(Layer(1)).serialize_using_proto)
    assert "must be strings, and are [1]" in fails(ValueError, tree.structure({1: 2}).serialize_using_proto)
    read = functools.partial(tree_util.PyTreeDef.deserialize_using_proto, tree_util.default_registry)
    for data in (b"", b"\x0a\x02\x10", b"\x0a\x02\x10\x09"):
        assert "the bytes are no structure" in fails(ValueError, read, data)


@pytest.mark.parametrize(
    "value",
    [1, None, (1, 2), [1], {"b": 1, "a": 2}, Point(1, 2), Layer(1), collections.OrderedDict(b=1, a=2),
     collections.defaultdict(int, b=1), collections.deque([1], maxlen=3)],
)  # fmt: skip
def test_structures_are_made_of_node_data_and_children(value):
    treedef = tree.structure(value)
    made = treedef.from_node_data_and_children
    assert made(tree_util.default_registry, treedef.node_data(), treedef.children()) == treedef
    inner = [tree.structure([1, 2])] * len(treedef.children())
    assert made(None, treedef.node_data(), inner).num_leaves == max(2 * len(inner), value == 1)
    with pytest.raises(ValueError, match="is not registered as a pytree node"):
        made(None, (int, None), [])


def test_the_registry_is_of_the_same_functions():
    registry = tree_util.default_registry
    assert registry.flatten([1, 2]) == tree.flatten([1, 2]) and registry.is_node(list)
    assert tree_util.flatten_one_level({"b": 1, "a": [2]}) == (([2], 1), ("a", "b"))
    assert tree_util.flatten_one_level(None) == ((), None) and tree_util.flatten_one_level([1]) == ([1], None)
    assert tree_util.flatten_one_level(collections.OrderedDict(b=1, a=2)) == ([1, 2], ("b", "a"))
    assert tree_util.flatten_one_level(collections.defaultdict(int, a=1)) == ([1], (int, ("a",)))
    assert registry.flatten_one_level([1, [2]]) == tree_util.flatten_one_level([1, [2]])
    assert registry.flatten_one_level_with_keys({"a": 1}) == tree_util.flatten_one_level_with_keys({"a": 1})
    assert registry.flatten_one_level(3) is None and registry.flatten_one_level_with_keys(3) is None


@pytest.mark.parametrize("returned", ["hello", (1, 2, 3, 4), (7, 7)])
def test_flatten_functions_that_return_no_children(returned):
    kind = type("Odd", (), {})
    tree_util.register_pytree_node(kind, lambda node: returned, lambda data, children: kind())
    for function in (tree.flatten, tree.leaves, tree.structure):
        message = fails(ValueError, function, [1, kind()])
        assert f"should return a (children, aux_data) tuple, got {returned!r}. It is the first function" in message

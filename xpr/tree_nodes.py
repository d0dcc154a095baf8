"""Pytree nodes: the keys of their children, registration of classes, and flattening of one level.

Nodes are tuples, lists, dicts (children sorted by key), OrderedDicts, defaultdicts, deques, namedtuples, `None` (no
children), and the classes registered here. Everything else is a leaf, instances of unregistered subclasses included.
The work is optree's; registrations live in one namespace of ours, so nobody else who uses optree in the process sees
them.

Wider than JAX: deques and struct sequences are nodes, and a dict may have keys that do not compare.
"""

from __future__ import annotations

import dataclasses
import functools
import keyword
import operator
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from xpr.optree_kept import optree, total_order_sorted

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Level",
    "Partial",
    "SequenceKey",
    "children_with_keys",
    "keystr",
    "open_def",
    "open_tree",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
]

NAMESPACE = "xpr"

T = TypeVar("T")
Class = TypeVar("Class", bound=type)
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]  # node -> children, static data
FlattenWithKeys = Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]]  # node -> (key, child) pairs, static data
Unflatten = Callable[[Any, Any], Any]  # static data, children -> node


# ---- keys ----------------------------------------------------------------------------------------------------------


# A key in a path: hashable, comparable, and printed as the code that accesses the child. It is a variable of types, as
# in JAX: what checks annotations while programs run takes any object for one.
KeyEntry = TypeVar("KeyEntry", bound=Any)
KeyPath = tuple[KeyEntry, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """An index into a tuple, list or deque: `str(SequenceKey(0))` is `[0]`."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """A key of a dict: `str(DictKey("a"))` is `['a']`."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """An attribute of a namedtuple, a dataclass or another object: `str(GetAttrKey("x"))` is `.x`."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """The n-th child of a registered class that names no keys: `[<flat index 0>]`."""

    key: int

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """The text of a key path.

    Args:
      keys: a path, as `flatten_with_path` returns it.
      simple: whether to leave out brackets, dots and quotes.
      separator: what is between the keys.

    Returns:
      The text.

    >>> path = (DictKey("a"), SequenceKey(0), GetAttrKey("b"))
    >>> keystr(path)
    "['a'][0].b"
    >>> keystr(path, simple=True, separator="/")
    'a/0/b'
    """
    return separator.join(str(_bare(key)) if simple else str(key) for key in keys)


def _bare(key: Any) -> Any:
    match key:
        case SequenceKey(bare) | DictKey(bare) | GetAttrKey(bare) | FlattenedIndexKey(bare):
            return bare
    return key


# ---- registration --------------------------------------------------------------------------------------------------


class _Registration(NamedTuple):
    flatten: Callable[[Any], Any]  # the first two are known to _trees.c
    fields: tuple[Sequence[str], Sequence[str]] | None  # the names of children and static data of a dataclass
    unflatten: Unflatten
    names_keys: bool  # its flatten function hands its keys to optree, so that they are known from a structure alone
    flatten_with_keys: FlattenWithKeys | None  # where they are not: keys are made only when a path is asked for


registered: dict[type, _Registration] = {}


def _register(nodetype: type, entry: _Registration) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"only a class can be registered as a pytree node, got {nodetype!r}")
    if nodetype in registered:
        raise ValueError(f"{nodetype} is already registered as a pytree node; a class is registered once")
    try:
        with warnings.catch_warnings():  # optree warns where a namedtuple class gets rules of its own
            warnings.simplefilter("ignore", UserWarning)
            optree.register_pytree_node(nodetype, entry.flatten, entry.unflatten, namespace=NAMESPACE)
    except ValueError:
        raise ValueError(f"{nodetype} is a pytree node of its own accord and can't be registered") from None
    registered[nodetype] = entry


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Registers a class as a pytree node.

    The static data are part of the structure, so they must be hashable and compare with `==`.

    Args:
      nodetype: the class.
      flatten_func: `flatten_func(node)` returns `(children, static data)`.
      unflatten_func: `unflatten_func(static data, children)` returns a node.
      flatten_with_keys_func: like `flatten_func`, with `(key, child)` pairs instead of children; None for numbered
        keys.

    Returns:
      None.

    Raises:
      ValueError: the class is registered already.

    >>> from xpr import tree, tree_util
    >>> class Pair:
    ...     def __init__(self, left, right): self.left, self.right = left, right
    >>> tree_util.register_pytree_node(Pair, lambda p: ((p.left, p.right), None), lambda _, both: Pair(*both))
    >>> tree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    _register(nodetype, _Registration(flatten_func, None, unflatten_func, False, flatten_with_keys_func))


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Registers a class as a pytree node whose children have named keys.

    Args:
      nodetype: the class.
      flatten_with_keys: `flatten_with_keys(node)` returns `((key, child) pairs, static data)`.
      unflatten_func: `unflatten_func(static data, children)` returns a node.
      flatten_func: `flatten_func(node)` returns `(children, static data)`, used where no path is needed; None to drop
        the keys.

    Returns:
      None.

    Raises:
      ValueError: the class is registered already.

    >>> from xpr import tree, tree_util
    >>> class Pair:
    ...     def __init__(self, left, right): self.left, self.right = left, right
    >>> key = tree_util.GetAttrKey
    >>> tree_util.register_pytree_with_keys(
    ...     Pair, lambda p: (((key("left"), p.left), (key("right"), p.right)), None), lambda _, both: Pair(*both))
    >>> [tree_util.keystr(path) for path, _ in tree.leaves_with_path(Pair(1, [2, 3]))]
    ['.left', '.right[0]', '.right[1]']
    """
    if flatten_func is not None:
        return register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)

    def flatten(node: T) -> tuple[list[Any], Any, tuple[Any, ...]]:
        pairs, data = flatten_with_keys(node)
        pairs = list(pairs)
        return [child for _, child in pairs], data, tuple(key for key, _ in pairs)

    _register(nodetype, _Registration(flatten, None, unflatten_func, True, None))


def register_pytree_node_class(cls: Class) -> Class:
    """A decorator that registers a class with methods `tree_flatten` and `tree_unflatten` as a pytree node.

    `tree_unflatten` is a classmethod of static data and children.

    Raises:
      TypeError: a method is missing.

    >>> from xpr import tree, tree_util
    >>> @tree_util.register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, value, unit): self.value, self.unit = value, unit
    ...     def tree_flatten(self): return (self.value,), self.unit
    ...     @classmethod
    ...     def tree_unflatten(cls, unit, children): return cls(*children, unit)
    >>> tree.map(lambda x: 2 * x, Scaled(3, "m")).value
    6
    """
    _require(cls, "register_pytree_node_class", "tree_flatten", "tree_unflatten")
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys_class(cls: Class) -> Class:
    """A decorator that registers a class with methods `tree_flatten_with_keys` and `tree_unflatten` as a pytree node.

    A method `tree_flatten`, if there is one, is used where no path is needed.

    Raises:
      TypeError: a method is missing.

    >>> from xpr import tree, tree_util
    >>> @tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, content): self.content = content
    ...     def tree_flatten_with_keys(self): return [(tree_util.GetAttrKey("content"), self.content)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, _, children): return cls(*children)
    >>> tree.leaves_with_path(Box(3))
    [((GetAttrKey(name='content'),), 3)]
    """
    _require(cls, "register_pytree_with_keys_class", "tree_flatten_with_keys", "tree_unflatten")
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    with_keys = operator.methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, cls.tree_unflatten, flatten)  # type: ignore[attr-defined]
    return cls


def _require(cls: type, decorator: str, *methods: str) -> None:
    missing = [method for method in methods if not hasattr(cls, method)]
    if missing:
        raise TypeError(f"{decorator}: {cls} has no {' and no '.join(f'`{method}`' for method in missing)}")


def register_static(cls: Class) -> Class:
    """A decorator that registers a class whose instances are nodes without children: part of a tree's structure.

    The class must define `==` and a hash.

    >>> from xpr import tree, tree_util
    >>> @tree_util.register_static
    ... class Mode(str): pass
    >>> tree.leaves([Mode("train"), 1])
    [1]
    """
    register_pytree_node(cls, lambda node: ((), node), lambda node, _: node)
    return cls


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` takes for static data; the arguments are `dataclasses.field`'s.

    Metadata may say `static` itself.

    >>> static(default=3).metadata["static"]
    True
    """
    return dataclasses.field(**{**kwargs, "metadata": {"static": True, **(kwargs.get("metadata") or {})}})


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Registers a dataclass as a pytree node: its data fields are children, its meta fields static data.

    It is also a decorator. Without lists, fields with the metadata `static=True` are meta fields and all others data
    fields. Instances are made by calling the class with the fields by name; `drop_fields` then take their defaults.

    Args:
      nodetype: the class.
      data_fields: the names of the data fields; needed for a class that is not a dataclass.
      meta_fields: the names of the meta fields; needed for a class that is not a dataclass.
      drop_fields: the names of fields that are neither.

    Returns:
      The class.

    Raises:
      TypeError: a list is missing.
      ValueError: the lists overlap, or are not the fields of `__init__`.

    >>> import dataclasses
    >>> from xpr import tree, tree_util
    >>> @tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     activation: str = dataclasses.field(default="relu", metadata={"static": True})
    >>> tree.map(lambda x: 2 * x, Layer(1.5))
    Layer(weight=3.0, activation='relu')
    """
    data, meta = _fields_of(nodetype, data_fields, meta_fields)
    _check_fields(nodetype, data, meta, drop_fields)
    keys = tuple(GetAttrKey(name) for name in data)
    children_of, values_of = _attributes(data), _attributes(meta)

    def flatten(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[GetAttrKey, ...]]:
        return children_of(node), values_of(node), keys

    _register(nodetype, _Registration(flatten, (data, meta), _called_by_name(nodetype, data, meta), True, None))
    return nodetype


def _attributes(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives a tuple of attributes of an object."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda node: tuple([getattr(node, name) for name in names])


def _called_by_name(nodetype: type, data: Sequence[str], meta: Sequence[str]) -> Unflatten:
    """A function that calls a class with static data and children by name.

    It is compiled, as `__init__` of dataclasses is, and takes 0.4 us in place of 1.1.
    """
    by_name = [f"{name}=children[{i}]" for i, name in enumerate(data)]
    by_name += [f"{name}=values[{i}]" for i, name in enumerate(meta)]
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in (*data, *meta)):
        return eval(f"lambda values, children: nodetype({', '.join(by_name)})", {"nodetype": nodetype})  # type: ignore[no-any-return]
    return lambda values, children: nodetype(**dict(zip((*data, *meta), (*children, *values), strict=True)))


def _fields_of(
    nodetype: type, data: Sequence[str] | None, meta: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if data is not None and meta is not None:
        return tuple(data), tuple(meta)
    if data is not None or meta is not None:
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is specified. Got "
            f"data_fields={data} meta_fields={meta}."
        )
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass. Got "
            f"nodetype={nodetype}."
        )
    fields = dataclasses.fields(nodetype)
    is_static = [bool(field.metadata.get("static", False)) for field in fields]
    return (
        tuple(field.name for field, meta in zip(fields, is_static, strict=True) if not meta),
        tuple(field.name for field, meta in zip(fields, is_static, strict=True) if meta),
    )


def _check_fields(nodetype: type, data: Sequence[str], meta: Sequence[str], dropped: Sequence[str]) -> None:
    def complain(names: Iterable[str], what: str) -> None:
        if names:
            listed = ", ".join(map(repr, sorted(names)))
            raise ValueError(f"register_dataclass: {what}: {{{listed}}} of {nodetype}")

    complain(set(data) & set(meta), "data_fields and meta_fields must not overlap. Overlapping fields")
    if not dataclasses.is_dataclass(nodetype):
        return
    known = {field.name for field in dataclasses.fields(nodetype) if field.init}
    named = {*data, *meta}
    all_needed = "data_fields and meta_fields must include all dataclass fields that `__init__` takes, and no others"
    complain(known - named - set(dropped), f"{all_needed}. Missing fields")
    complain(named - known, f"{all_needed}. Unexpected fields")


# ---- Partial -------------------------------------------------------------------------------------------------------


class Partial(functools.partial):
    """`functools.partial` as a node: its arguments are children, its function is static data.

    >>> import operator
    >>> from xpr import tree, tree_util
    >>> add_one = tree_util.Partial(operator.add, 1)
    >>> tree.leaves(add_one), tree.map(lambda x: 10 * x, add_one)(2)
    ([1], 12)
    """

    __module__ = "xpr.tree_util"

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Partial:
        # `functools.partial` would absorb the arguments of a partial, and make children of what was static.
        return super().__new__(cls, _Whole(func) if isinstance(func, functools.partial) else func, *args, **keywords)


class _Whole:
    """A `functools.partial` as static data, with its attributes; equal to it, and where the partials are equal."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name == "function":  # asked for while a copy is being made
            raise AttributeError(name)
        return getattr(self.function, name)

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


register_pytree_node(
    Partial,
    lambda node: ((node.args, node.keywords), node.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


# ---- one level -----------------------------------------------------------------------------------------------------


class Level(NamedTuple):
    """A node flattened by one level."""

    shape: optree.PyTreeSpec  # its structure with a leaf for every child
    keys: tuple[Any, ...]
    children: Sequence[Any]


def open_tree(node: Any, is_leaf: Callable[[Any], bool] | None = None) -> Level | None:
    """The first level of a tree; None for a leaf.

    >>> open_tree({"a": [1, 2]}).children, open_tree(3)
    ([[1, 2]], None)
    """
    if is_leaf is not None and is_leaf(node):
        return None
    children, shape = optree.tree_flatten(node, is_leaf=lambda inner: inner is not node, namespace=NAMESPACE)
    if shape.is_leaf():
        return None
    registration = registered.get(type(node))
    if registration is not None and registration.flatten_with_keys is not None:
        return Level(shape, tuple(key for key, _ in registration.flatten_with_keys(node)[0]), children)
    return Level(shape, _keys(shape), children)


def children_with_keys(node: Any) -> Iterable[tuple[Any, Any]] | None:
    """The children of a node, each after its key; None for a leaf.

    >>> list(children_with_keys({"a": [1, 2]})), children_with_keys(3)
    ([(DictKey(key='a'), [1, 2])], None)
    """
    kind = type(node)
    registration = registered.get(kind)
    if registration is not None:
        if registration.flatten_with_keys is not None:
            return registration.flatten_with_keys(node)[0]
        if registration.names_keys:
            children, _, keys = registration.flatten(node)
            return zip(keys, children, strict=True)
    elif kind is tuple or kind is list:
        return [(SequenceKey(index), child) for index, child in enumerate(node)]
    elif kind is dict:
        return [(DictKey(key), node[key]) for key in total_order_sorted(node)]
    elif optree.is_namedtuple_class(kind):
        return zip(map(GetAttrKey, kind._fields), node, strict=True)
    elif kind not in _OTHER_CONTAINERS and not issubclass(kind, tuple):
        return None
    level = open_tree(node)
    return None if level is None else zip(level.keys, level.children, strict=True)


_OTHER_CONTAINERS = frozenset({OrderedDict, defaultdict, deque, type(None)})  # next to tuples, lists and dicts


def open_def(structure: optree.PyTreeSpec) -> Level | None:
    """The first level of a structure, whose children are structures; None for a leaf."""
    shape = structure.one_level()
    return None if shape is None else Level(shape, _keys(structure), structure.children())


def _keys(structure: optree.PyTreeSpec) -> tuple[Any, ...]:
    """The keys of a structure's children."""
    kind, entries = structure.kind, structure.entries()
    node_type: Any = structure.type
    if kind in (optree.PyTreeKind.DICT, optree.PyTreeKind.ORDEREDDICT, optree.PyTreeKind.DEFAULTDICT):
        return tuple(DictKey(key) for key in entries)
    if kind == optree.PyTreeKind.NAMEDTUPLE:
        return tuple(GetAttrKey(name) for name in optree.namedtuple_fields(node_type))
    if kind == optree.PyTreeKind.STRUCTSEQUENCE:
        return tuple(GetAttrKey(name) for name in optree.structseq_fields(node_type))
    if kind != optree.PyTreeKind.CUSTOM:
        return tuple(SequenceKey(index) for index in entries)
    registration = registered.get(node_type)
    if registration is not None and registration.names_keys:
        return tuple(entries)
    return tuple(FlattenedIndexKey(index) for index in range(structure.num_children))

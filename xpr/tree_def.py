"""`PyTreeDef`, the structure of a pytree as users see it: a thin object around optree's own.

Equality, hash and unflattening are optree's; a comparison or a call costs 50 ns more through it. It prints as
`PyTreeDef({'a': *, 'b': (*, None)})`, and its methods are those that JAX's has. What runs at each call of a jitted
function uses `spec` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xpr import tree_proto
from xpr.errors import TreeMismatch
from xpr.optree_kept import PyTreeKind, optree
from xpr.tree_differences import first_mismatch, flatten_up_to
from xpr.tree_nodes import NAMESPACE

__all__ = ["PyTreeDef", "treedef_tuple"]


class PyTreeDef:
    """The structure of a pytree: all of it but the leaves. It is compared, hashed, printed and pickled.

    Attributes:
      num_leaves: the number of leaves.
      num_nodes: the number of nodes and leaves.

    >>> from xpr import tree
    >>> treedef = tree.structure({"a": 1, "b": (2, None)})
    >>> treedef
    PyTreeDef({'a': *, 'b': (*, None)})
    >>> treedef == tree.structure({"b": ("x", None), "a": "y"}), treedef.num_leaves, treedef.num_nodes
    (True, 2, 5)
    """

    __slots__ = ("_hash", "paths", "spec")
    __module__ = "xpr.tree_util"

    def __init__(self, spec: optree.PyTreeSpec) -> None:
        self.spec, self._hash = spec, 0
        self.paths: list[Any] | None = None  # of the leaves, once they were asked for, and if the structure tells them

    num_leaves = property(lambda self: self.spec.num_leaves)
    num_nodes = property(lambda self: self.spec.num_nodes)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.spec == other.spec if type(other) is PyTreeDef else NotImplemented

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash(self.spec)
        return self._hash

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.spec,)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with this structure and given leaves.

        Args:
          leaves: as many as `num_leaves`, in order.

        Raises:
          ValueError: there is another number of leaves.

        >>> from xpr import tree
        >>> tree.structure((0, [0])).unflatten([1, 2])
        (1, [2])
        """
        try:
            return self.spec.unflatten(leaves)
        except ValueError as error:
            few_or_many = str(error).partition(" leaves for PyTreeSpec")[0]
            if few_or_many not in ("Too few", "Too many"):
                raise
            given = f", got {len(leaves)}" if isinstance(leaves, (list, tuple)) else ""
        raise ValueError(
            f"{few_or_many} leaves for PyTreeDef; expected {self.num_leaves}{given}. The structure is {self}."
        )

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of a tree at the leaves of this structure.

        Args:
          tree: a pytree that begins with this structure.

        Raises:
          TreeMismatch: it does not.

        >>> from xpr import tree
        >>> tree.structure([0, 0]).flatten_up_to([1, {"a": 2}])
        [1, {'a': 2}]
        """
        try:
            return flatten_up_to(self.spec, tree, "flatten_up_to", "tree")
        except TreeMismatch as error:
            raise TreeMismatch(f"{error}\n  {first_mismatch(self.spec, tree)}") from None

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """The structure in which each leaf of this one is replaced by another structure.

        >>> from xpr import tree
        >>> tree.structure([0, 0]).compose(tree.structure((0,)))
        PyTreeDef([(*,), (*,)])
        """
        return PyTreeDef(self.spec.compose(inner.spec))

    def children(self) -> list[PyTreeDef]:
        """The structures of the children, in order; none for a leaf.

        >>> from xpr import tree
        >>> tree.structure({"b": 1, "a": (2, 3)}).children()
        [PyTreeDef((*, *)), PyTreeDef(*)]
        """
        return [PyTreeDef(child) for child in self.spec.children()]

    def node_data(self) -> tuple[Any, Any] | None:
        """The class of the outermost node and its static data, such as the keys of a dict; None for a leaf.

        >>> from xpr import tree
        >>> tree.structure({"b": 1, "a": 2}).node_data(), tree.structure(1).node_data()
        ((<class 'dict'>, ['a', 'b']), None)
        """
        if self.spec.kind == PyTreeKind.LEAF:
            return None
        return self.spec.type, _static_data(self.spec)

    def walk(
        self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Iterable[Any]
    ) -> Any:
        """What functions of nodes and of leaves make of this structure with given leaves, children first.

        Args:
          f_node: `f_node(children, static data)`, called with the tuple of what was made of a node's children.
          f_leaf: a function of a leaf; None to take leaves as they are.
          leaves: as many as `num_leaves`, in order.

        Returns:
          What `f_node` gives for the outermost node.

        Raises:
          ValueError: there is another number of leaves.

        >>> from xpr import tree
        >>> tree.structure({"a": 0, "b": (0, 0)}).walk(lambda children, data: sum(children), None, [1, 2, 3])
        6
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(f"walk: {self} has {self.num_leaves} leaves, and {len(given)} are given.")
        return _walk(self.spec, f_node, f_leaf, iter(given))

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The structure with an outermost node and the structures of its children.

        Args:
          registry: `tree_util.default_registry`, the only one.
          node_data: what `node_data()` gives; None for a leaf.
          children: the children's structures, as `children()` gives them.

        Raises:
          ValueError: the class is not registered.

        >>> from xpr import tree, tree_util
        >>> pair = tree.structure({"a": 1, "b": 2})
        >>> pair.from_node_data_and_children(tree_util.default_registry, pair.node_data(), [pair, tree.structure(0)])
        PyTreeDef({'a': {'a': *, 'b': *}, 'b': *})
        """
        if node_data is None:
            return PyTreeDef(optree.treespec_leaf(namespace=NAMESPACE))
        kind, data = node_data
        entry: Any = optree.register_pytree_node.get(kind, namespace=NAMESPACE)  # type: ignore[attr-defined]
        if entry is None:
            raise ValueError(f"from_node_data_and_children: {kind} is not registered as a pytree node.")
        node = entry.unflatten_func(kind if optree.is_namedtuple_class(kind) else data, [x.spec for x in children])
        return PyTreeDef(optree.treespec_from_collection(node, namespace=NAMESPACE))

    def serialize_using_proto(self) -> bytes:
        """This structure as a protocol buffer, in JAX's form; of lists, tuples, dicts with names as keys, and None.

        Raises:
          ValueError: there is another node, or a key that is no string.

        >>> from xpr import tree, tree_util
        >>> data = tree.structure([1, (2, None)]).serialize_using_proto()
        >>> tree_util.PyTreeDef.deserialize_using_proto(tree_util.default_registry, data)
        PyTreeDef([*, (*, None)])
        """
        return tree_proto.written(self.spec)

    @staticmethod
    def deserialize_using_proto(registry: Any, data: bytes) -> PyTreeDef:
        """The structure that `serialize_using_proto`, or JAX's, has written.

        Args:
          registry: `tree_util.default_registry`, the only one.
          data: the bytes.

        Raises:
          ValueError: they are no structure.
        """
        return PyTreeDef(tree_proto.read(data))


def _walk(spec: optree.PyTreeSpec, f_node: Callable, f_leaf: Callable | None, leaves: Any) -> Any:
    if spec.kind == PyTreeKind.LEAF:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    children = tuple([_walk(child, f_node, f_leaf, leaves) for child in spec.children()])
    return f_node(children, spec.type if spec.kind == PyTreeKind.NAMEDTUPLE else _static_data(spec))


def registered_types(treedef: PyTreeDef) -> list[type | None]:
    """The type of each node, of those that are registered; None for others and for leaves."""
    state: Any = treedef.spec.__getstate__()  # as in `_static_data`; the type is the fifth item of a node
    return [node[4] for node in state[0]]


def _static_data(spec: optree.PyTreeSpec) -> Any:
    kind = spec.kind
    if kind == PyTreeKind.DICT:
        return spec.entries()
    if kind == PyTreeKind.ORDEREDDICT:
        return tuple(spec.entries())
    if kind not in (PyTreeKind.DEFAULTDICT, PyTreeKind.DEQUE, PyTreeKind.CUSTOM):
        return None
    state: Any = spec.__getstate__()  # its nodes, children before their parents, as (kind, arity, static data ...)
    data = state[0][-1][2]
    return (data[0], tuple(data[1])) if kind == PyTreeKind.DEFAULTDICT else data


def _text(treedef: PyTreeDef) -> str:
    spec = treedef.spec
    kind, children = spec.kind, [_text(child) for child in treedef.children()]
    inner = ", ".join(children)
    if kind in (PyTreeKind.LEAF, PyTreeKind.NONE):
        return "*" if kind == PyTreeKind.LEAF else "None"
    if kind == PyTreeKind.TUPLE:
        return f"({inner},)" if len(children) == 1 else f"({inner})"
    if kind == PyTreeKind.LIST:
        return f"[{inner}]"
    if kind == PyTreeKind.DICT:
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(spec.entries(), children, strict=True)) + "}"
    name = getattr(spec.type, "__name__", str(spec.type))
    if kind in (PyTreeKind.NAMEDTUPLE, PyTreeKind.STRUCTSEQUENCE):
        return f"CustomNode(namedtuple[{name}], [{inner}])"
    return f"CustomNode({name}[{_static_data(spec)}], [{inner}])"


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple from the structures of its items.

    >>> from xpr import tree, tree_util
    >>> tree_util.treedef_tuple([tree.structure(1), tree.structure([2])]) == tree.structure((1, [2]))
    True
    """
    return PyTreeDef(optree.treespec_tuple([treedef.spec for treedef in treedefs], namespace=NAMESPACE))

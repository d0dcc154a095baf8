"""Structures of pytrees as data, and results that are still to come."""

from __future__ import annotations

import base64
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from xpr.artifacts import flatbuffers, schema
from xpr.artifacts.trees import register_pytree_node_serialization, tree_as_table, tree_of_table
from xpr.core.avals import ShapedArray
from xpr.dtypes import float32

__all__ = ["PyTreeFuture", "deserialize_pytreedef", "register_pytree_node_serialization", "serialize_pytreedef"]


class PyTreeFuture:
    """The result of a function that runs in another thread, which can be awaited.

    Attributes:
      pytree: the structure of what is written or read, with a type for each array.
    """

    def __init__(self, future: Future[Any]):
        self._future, self.pytree = future, None

    def done(self) -> bool:
        """Whether the result is there."""
        return self._future.done()

    def result(self, *args: Any, **kw: Any) -> Any:
        """The result, which is waited for."""
        return self._future.result(*args, **kw)

    def __await__(self) -> Generator[None, None, Any]:
        while not self.done():
            yield
        return self.result()

    def __repr__(self) -> str:
        return f"PyTreeFuture(done={self.done()}, pytree={self.pytree})"


def serialize_pytreedef(node: Any) -> dict[str, Any]:
    """The structure of a pytree as data that JSON can hold.

    Args:
      node: the structure; its classes of nodes are registered for serialization.

    Returns:
      A dict, which `deserialize_pytreedef` reads.

    Raises:
      ValueError: a class is not registered.

    >>> import xpr
    >>> from xpr.experimental.array_serialization import pytree_serialization_utils as utils
    >>> structure = xpr.tree.structure({"a": 1, "b": (2, 3)})
    >>> utils.deserialize_pytreedef(utils.serialize_pytreedef(structure)) == structure
    True
    """
    table = tree_as_table(node, [_LEAF] * node.num_leaves)
    text = base64.b64encode(bytes(flatbuffers.write(schema.PyTreeDef, table))).decode()
    return {"__treedef_repr": text, "__leaf_ids": list(range(node.num_leaves))}


def deserialize_pytreedef(pytreedef_repr: dict[str, Any]) -> Any:
    """The structure of a pytree that `serialize_pytreedef` wrote.

    Args:
      pytreedef_repr: the dict.

    Returns:
      The structure.

    Raises:
      ValueError: a class of nodes in it is not registered here.

    >>> import xpr
    >>> from xpr.experimental.array_serialization import pytree_serialization_utils as utils
    >>> utils.deserialize_pytreedef(utils.serialize_pytreedef(xpr.tree.structure([1, None])))
    PyTreeDef([*, None])
    """
    table = flatbuffers.read(schema.PyTreeDef, base64.b64decode(pytreedef_repr["__treedef_repr"]))
    return tree_of_table(table, [_LEAF] * len(pytreedef_repr["__leaf_ids"]))


_LEAF = ShapedArray((), float32)

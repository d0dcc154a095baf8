"""The structure of a call's results as bytes.

The static data that are those of the arguments' structure, by identity, are written as their position there, so that
they are those of the call that reads them: classes without `__eq__` compare by identity.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

from xpr.fingerprint.walk import Refused, nodes_of
from xpr.tree_def import PyTreeDef

_BY_VALUE = (int, float, complex, bool, str, bytes, type(None), type)


def written_structure(treedef: PyTreeDef, in_tree: PyTreeDef) -> bytes:
    """The structure of results as bytes, given that of the arguments.

    Raises:
      Refused: it can't be written, or what is read is not equal to it.
    """
    try:
        written = io.BytesIO()
        _Pickler(written, in_tree).dump(treedef)
        is_same = read_structure(written.getvalue(), in_tree) == treedef
    except Exception as error:  # whatever the methods of users' classes raise
        raise Refused(f"the structure of its result can't be written: {error}") from None
    if not is_same:
        raise Refused("the structure of its result holds an object whose copy is not equal to it")
    return written.getvalue()


def read_structure(content: bytes, in_tree: PyTreeDef) -> PyTreeDef:
    """The structure that `written_structure` wrote, given that of the arguments."""
    return _Unpickler(io.BytesIO(content), in_tree).load()  # type: ignore[no-any-return]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, in_tree: PyTreeDef) -> None:
        super().__init__(file)
        self.data = list(_static_data(in_tree))  # kept alive, so that no identity is used twice
        self.positions = {id(each): position for position, each in enumerate(self.data)}

    def persistent_id(self, value: Any) -> int | None:
        return None if isinstance(value, _BY_VALUE) else self.positions.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, in_tree: PyTreeDef) -> None:
        super().__init__(file)
        self.data = list(_static_data(in_tree))

    def persistent_load(self, position: int) -> Any:
        return self.data[position]


def _static_data(treedef: PyTreeDef) -> Iterator[Any]:
    """The objects that a structure holds, those in its tuples too."""
    waiting = [data for _, _, data, *_ in nodes_of(treedef)]
    while waiting:
        each = waiting.pop()
        yield each
        if type(each) is tuple:
            waiting += each

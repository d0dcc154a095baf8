"""The structure of a call's results as bytes.

Objects in it that the walk of the call's key has reached are written as their numbers in its order, which the key
fixes. So static data that comes from the arguments, or from the function's variables, is the very object that it is in
the process that reads the call, as after a trace: such an object may be equal to itself alone.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from xpr.fingerprint.walk import Refused
from xpr.tree_def import PyTreeDef


def written_structure(treedef: PyTreeDef, reached: Sequence[Any]) -> bytes:
    """The structure of results as bytes, given the objects that the walk has reached.

    Raises:
      Refused: it can't be written, or what is read is not equal to it.
    """
    try:
        written = io.BytesIO()
        _Pickler(written, reached).dump(treedef)
        is_same = read_structure(written.getvalue(), reached) == treedef
    except Exception as error:  # whatever the methods of users' classes raise
        raise Refused(f"the structure of its result can't be written: {error}") from None
    if not is_same:
        raise Refused("the structure of its result holds an object whose copy is not equal to it")
    return written.getvalue()


def read_structure(content: bytes, reached: Sequence[Any]) -> PyTreeDef:
    """The structure that `written_structure` wrote, given the objects that the walk has reached in this process."""
    return _Unpickler(io.BytesIO(content), reached).load()  # type: ignore[no-any-return]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, reached: Sequence[Any]) -> None:
        super().__init__(file)
        self.numbers = {id(value): number for number, value in enumerate(reached)}

    def persistent_id(self, value: Any) -> int | None:
        return self.numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, reached: Sequence[Any]) -> None:
        super().__init__(file)
        self.reached = reached

    def persistent_load(self, number: int) -> Any:
        return self.reached[number]

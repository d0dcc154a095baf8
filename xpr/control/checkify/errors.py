"""What `checkify` finds: the places in a program where something can go wrong, and which of them did.

A program with checks carries a state: a code, 0 while all is well and else the number of the place that failed first,
and behind it a payload, the values that the place's message needs. Places whose payloads have the same types share
their room, which is called a slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.backend.array import Array, host_value
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.source import Source, summarize
from xpr.errors import CheckError
from xpr.primitives.argminmax import argmax
from xpr.primitives.elementwise import convert_element_type, ne
from xpr.primitives.slicing_in_dim import dynamic_index_in_dim

Slot = tuple[ShapedArray, ...]
CODE = ShapedArray((), np.dtype(np.int32))
_codes = itertools.count(1)


def first_failed(rows: Sequence[Any]) -> list[Any]:
    """Of states whose rows are along axis 0 the first that tells of an error, the first of all if none does."""
    failed = convert_element_type(ne(rows[0], np.int32(0)), CODE.dtype)
    first = argmax(failed, 0, CODE.dtype)
    return [dynamic_index_in_dim(x, first, 0, keepdims=False) for x in rows]


class Place:
    """A place where something can go wrong: the error it is, what it is called while no payload is known, and its
    message, made from the payload."""

    __slots__ = ("code", "describe", "kind", "slot", "source", "text")

    def __init__(
        self,
        kind: type[CheckError],
        text: str,
        describe: Callable[[Sequence[Any]], str],
        slot: Slot,
        source: Source | None,
    ):
        self.kind, self.text, self.describe, self.slot, self.source = kind, text, describe, slot, source
        self.code = next(_codes)

    def exception(self, payload: Sequence[Any]) -> CheckError:
        return self.kind(f"{self.describe(payload)} ({summarize(self.source)})")


class Places:
    """The places of a program by their codes, and the slots they need, in order."""

    __slots__ = ("by_code", "slots")

    def __init__(self, places: Iterable[Place] = ()):
        self.by_code = {place.code: place for place in places}
        self.slots: tuple[Slot, ...] = tuple(dict.fromkeys(place.slot for place in self.by_code.values() if place.slot))

    def __or__(self, other: Places) -> Places:
        return Places([*self.by_code.values(), *other.by_code.values()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and self.by_code.keys() == other.by_code.keys()

    def __hash__(self) -> int:
        return hash(frozenset(self.by_code))

    def __repr__(self) -> str:
        return f"{len(self.by_code)} places"

    def state_avals(self) -> list[ShapedArray]:
        """The types of the code and of the payloads."""
        return [CODE, *(aval for slot in self.slots for aval in slot)]

    def part(self, slot: Slot) -> slice:
        """Where a slot's payload stands in the state."""
        start = 1
        for each in self.slots:
            if each == slot:
                break
            start += len(each)
        return slice(start, start + len(slot))

    def exception(self, state: Sequence[Any]) -> CheckError | None:
        """The error of a state in NumPy."""
        place = self.by_code.get(int(state[0]))
        return None if place is None else place.exception(state[self.part(place.slot)])


class Error:
    """What a function made by `checkify` found; a pytree, which may go through `jit` and `vmap`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import checkify
    >>> error, out = checkify.checkify(jnp.log, errors=checkify.nan_checks)(jnp.array(1.0))
    >>> error.get() is None
    True
    """

    __slots__ = ("places", "state")

    def __init__(self, state: Sequence[Any], places: Places):
        self.state, self.places = list(state), places

    def _rows(self) -> list[tuple[tuple[int, ...], CheckError]]:
        """The errors, each with its place in the mapped axes."""
        if any(isinstance(x, Tracer) for x in self.state):
            raise TypeError(
                "An Error that is being traced has no value yet. Look at it outside of the transformed function, or "
                "pass it on with checkify.check_error(error)."
            )
        state = [np.asarray(host_value(x, aval_of(x))) for x in self.state]
        found = []
        for row in np.ndindex(state[0].shape):
            error = self.places.exception([_as_array(x[row]) for x in state])
            if error is not None:
                found.append((row, error))
        return found

    def get(self) -> str | None:
        """The message of the first error, of each mapped row where there are such; None where all is well."""
        lines = [
            f"at mapped index {', '.join(map(str, row))}: {error}" if row else str(error) for row, error in self._rows()
        ]
        return "\n".join(lines) or None

    def get_exception(self) -> CheckError | None:
        """The error as an exception: of several mapped rows the first that failed, its message that of all."""
        rows = self._rows()
        if not rows:
            return None
        row, error = rows[0]
        return type(error)(self.get()) if row else error

    def throw(self) -> None:
        """Raises the error, if there is one.

        Raises:
          CheckError: of the kind of what went wrong.
        """
        error = self.get_exception()
        if error is not None:
            raise error

    def __repr__(self) -> str:
        try:
            return f"Error({self.get()})"
        except TypeError:
            return "Error(traced)"


def _as_array(x: Any) -> Any:
    return Array(aval_of(x), np.asarray(x))


tree_util.register_pytree_node(
    Error, lambda error: (error.state, error.places), lambda places, state: Error(state, places)
)

"""The errors of `checkify`: the checks in a program, each a `Check`, and which of them failed.

A program with checks carries a state: a code, 0 if there is no error and else the number of the check that failed
first, followed by a payload, the values in its message. Checks whose payloads have the same types share a slot
of the state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.backend.array import Array
from xpr.backend.operands import host_value
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.source import Code, Source, summarize
from xpr.errors import CheckError
from xpr.primitives.argminmax import argmax
from xpr.primitives.elementwise import convert_element_type, ne
from xpr.primitives.slicing_in_dim import dynamic_index_in_dim

Slot = tuple[ShapedArray, ...]
CODE = ShapedArray((), np.dtype(np.int32))
_numbers = itertools.count(1)
_codes: dict[Any, int] = {}  # by all that errors of a check say, so that a function traced anew is the same program


def first_failed(rows: Sequence[Any]) -> list[Any]:
    """The first row with an error of states whose rows are along axis 0; the first row if none has one."""
    failed = convert_element_type(ne(rows[0], np.int32(0)), CODE.dtype)
    first = argmax(failed, 0, CODE.dtype)
    return [dynamic_index_in_dim(x, first, 0, keepdims=False) for x in rows]


class Check:
    """A check in a program.

    Args:
      kind: the exception of its error.
      text: what is checked, without the values in the message.
      describe: from the payload to the message.
      slot: the types of the payload.
      source: the line of the check.
      form: what `describe` depends on beside `text`.
    """

    __slots__ = ("code", "describe", "kind", "slot", "source", "text")

    def __init__(
        self,
        kind: type[CheckError],
        text: str,
        describe: Callable[[Sequence[Any]], str],
        slot: Slot,
        source: Source | None,
        form: str = "",
    ):
        self.kind, self.text, self.describe, self.slot, self.source = kind, text, describe, slot, source
        key = (kind, text, form, slot, source and (*_place(source[0]), source[1]))
        self.code = _codes.setdefault(key, next(_numbers))

    def exception(self, payload: Sequence[Any]) -> CheckError:
        return self.kind(f"{self.describe(payload)} ({summarize(self.source)})")


def _place(code: Code) -> tuple[str, str, int]:
    """Where the function of a source line is written."""
    return code.co_filename, code.co_name, code.co_firstlineno


class Checks:
    """The checks of a program by their codes, and the slots they need, in order."""

    __slots__ = ("by_code", "slots")

    def __init__(self, checks: Iterable[Check] = ()):
        self.by_code = {check.code: check for check in checks}
        self.slots: tuple[Slot, ...] = tuple(dict.fromkeys(check.slot for check in self.by_code.values() if check.slot))

    def __or__(self, other: Checks) -> Checks:
        return Checks([*self.by_code.values(), *other.by_code.values()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checks) and self.by_code.keys() == other.by_code.keys()

    def __hash__(self) -> int:
        return hash(frozenset(self.by_code))

    def __repr__(self) -> str:
        return f"{len(self.by_code)} checks"

    def state_avals(self) -> list[ShapedArray]:
        """The types of the code and of the payloads."""
        return [CODE, *(aval for slot in self.slots for aval in slot)]

    def part(self, slot: Slot) -> slice:
        """The positions of a slot's payload in the state."""
        start = 1
        for earlier in self.slots:
            if earlier == slot:
                break
            start += len(earlier)
        return slice(start, start + len(slot))

    def exception(self, state: Sequence[Any]) -> CheckError | None:
        """The error of a state in NumPy."""
        check = self.by_code.get(int(state[0]))
        return None if check is None else check.exception(state[self.part(check.slot)])


class Error:
    """The error that a function made by `checkify` returns, if any; a pytree, which may pass through `jit` and `vmap`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import checkify
    >>> error, out = checkify.checkify(jnp.log, errors=checkify.nan_checks)(jnp.array(1.0))
    >>> error.get() is None
    True
    """

    __slots__ = ("checks", "state")

    def __init__(self, state: Sequence[Any], checks: Checks):
        self.state, self.checks = list(state), checks

    def _rows(self) -> list[tuple[tuple[int, ...], CheckError]]:
        """The errors, each with its index along the mapped axes."""
        if any(isinstance(x, Tracer) for x in self.state):
            raise TypeError(
                "An Error that is being traced has no value yet. Look at it outside of the transformed function, or "
                "pass it on with checkify.check_error(error)."
            )
        state = [np.asarray(host_value(x, aval_of(x))) for x in self.state]
        errors = []
        for row in np.ndindex(state[0].shape):
            error = self.checks.exception([_as_array(x[row]) for x in state])
            if error is not None:
                errors.append((row, error))
        return errors

    def get(self) -> str | None:
        """The message of the first error, of each row if it is mapped; None if there is no error."""
        lines = [
            f"at mapped index {', '.join(map(str, row))}: {error}" if row else str(error) for row, error in self._rows()
        ]
        return "\n".join(lines) or None

    def get_exception(self) -> CheckError | None:
        """The error as an exception: for mapped rows, that of the first one that failed, with the messages of all."""
        rows = self._rows()
        if not rows:
            return None
        row, error = rows[0]
        return type(error)(self.get()) if row else error

    def throw(self) -> None:
        """Raises the error, if there is one.

        Raises:
          CheckError: the subclass for this kind of error.
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
    Error, lambda error: (error.state, error.checks), lambda checks, state: Error(state, checks)
)

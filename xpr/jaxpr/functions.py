"""Python functions in saved or printed jaxprs: written as holes, `<function name>`, which are filled on reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xpr.core.avals import describe
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, require_jaxpr
from xpr.core.primitive import Primitive
from xpr.text.parameters import Hole, hole_of, parameter_text, parts_of


def functions(jaxpr: Jaxpr | ClosedJaxpr) -> dict[str, Any]:
    """The Python functions, and other objects, that a program's text shows as `<function name>`, by name.

    It is what `parse` and `loads` take to make the same program again. Where different ones have one name there is a
    list of them: one for each occurrence, in the order of the text.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x: xpr.pure_callback(abs, x, x))(1.0)
    >>> list(xpr.jaxpr.functions(closed))
    ['abs']
    >>> again = xpr.jaxpr.parse(str(closed), functions=xpr.jaxpr.functions(closed))
    >>> xpr.jaxpr.equal(again, closed)
    True
    """
    by_name: dict[str, list[Any]] = {}
    for value in _not_in_text(require_jaxpr("functions", jaxpr)):
        by_name.setdefault(hole_of(value).name, []).append(value)
    known = {name: values for name, values in by_name.items() if not all(isinstance(x, Hole) for x in values)}
    return {name: values[0] if len(_firsts(values)) == 1 else values for name, values in known.items()}


def _firsts(values: list[Any]) -> dict[int, int]:
    """By the ids of objects, the index of the first occurrence of each."""
    return {id(value): index for index, value in reversed(list(enumerate(values)))}


def _not_in_text(value: Any) -> Iterator[Any]:
    """The values that text can't hold, in its order."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        for eqn in value.eqns:
            for _, param in sorted(eqn.params.items()):
                yield from _not_in_text(param)
        return
    parts = parts_of(value)
    if parts is not None or isinstance(value, (tuple, list)):
        for item in value if parts is None else parts.values():
            yield from _not_in_text(item)
    elif not isinstance(value, (str, Primitive)) and parameter_text(value)[0] == "<":
        yield value


def first_occurrences(jaxpr: Jaxpr) -> dict[int, int]:
    """By the ids of objects that share their name with others: the index of the first occurrence of each."""
    lists = [values for values in functions(jaxpr).values() if type(values) is list]
    return {key: index for values in lists for key, index in _firsts(values).items()}


class Filling:
    """The values of holes, by name: an object, or a list of one for each occurrence.

    Raises:
      TypeError: it is no dict.
    """

    def __init__(self, verb: str, functions: Mapping[str, Any] | None):
        if functions is not None and not isinstance(functions, Mapping):
            raise TypeError(f"{verb}: functions is a dict of functions by name, and is {describe(functions)}.")
        self.verb, self.functions = verb, functions or {}
        self.seen: dict[str, set[int]] = {}  # the indices of the occurrences that were read, by name

    def next(self, hole: Hole) -> Any:
        """The value of the next occurrence of a name."""
        return self.at(hole, len(self.seen.get(hole.name, ())))

    def at(self, hole: Hole, index: int) -> Any:
        """The value of an occurrence of a name; the hole itself if there is none for it."""
        self.seen.setdefault(hole.name, set()).add(index)
        value = self.functions.get(hole.name, hole)
        return value if type(value) is not list else value[index] if 0 <= index < len(value) else hole

    def finish(self, only_firsts: bool = False) -> None:
        """Raises TypeError where a list does not fit the occurrences of its name (`only_firsts`: the first ones)."""
        for name, value in self.functions.items():
            if type(value) is not list:
                continue
            seen, indices = self.seen.get(name, set()), range(len(value))
            if seen != set(_firsts(value).values() if only_firsts else indices):
                count = f"{len(seen)} different ones" if only_firsts else f"{len(seen)} occurrences"
                raise TypeError(
                    f"{self.verb}: functions[{name!r}] is a list of {len(value)}, and there are {count} of that name. "
                    "Pass what xpr.jaxpr.functions gives for the program, or one function for all."
                )

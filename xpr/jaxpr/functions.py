"""Python functions in programs. Text and files show them as holes, `<function name>`, which are filled on reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xpr.core.avals import describe
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, given_jaxpr
from xpr.core.primitive import Primitive
from xpr.text.parameters import Hole, hole_of, parameter_text, parts_of


def functions(jaxpr: Jaxpr | ClosedJaxpr) -> dict[str, Any]:
    """The Python functions, and other objects, that a program's text shows as `<function name>`, by name.

    It is what `parse` and `loads` take to make the same program again. Where different ones have one name there is a
    list of them: one for each place, in the order of the text.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x: xpr.pure_callback(abs, x, x))(1.0)
    >>> list(xpr.jaxpr.functions(closed))
    ['abs']
    >>> again = xpr.jaxpr.parse(str(closed), functions=xpr.jaxpr.functions(closed))
    >>> xpr.jaxpr.equal(again, closed)
    True
    """
    found: dict[str, list[Any]] = {}
    for value in _held(given_jaxpr("functions", jaxpr)):
        found.setdefault(hole_of(value).name, []).append(value)
    given = {name: values for name, values in found.items() if not all(isinstance(x, Hole) for x in values)}
    return {name: values[0] if len(_firsts(values)) == 1 else values for name, values in given.items()}


def _firsts(values: list[Any]) -> dict[int, int]:
    """By the ids of objects, the place where each stands first."""
    return {id(value): place for place, value in reversed(list(enumerate(values)))}


def _held(value: Any) -> Iterator[Any]:
    """What text can't hold, in its order."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        for eqn in value.eqns:
            for _, param in sorted(eqn.params.items()):
                yield from _held(param)
        return
    parts = parts_of(value)
    if parts is not None or isinstance(value, (tuple, list)):
        for item in value if parts is None else parts.values():
            yield from _held(item)
    elif not isinstance(value, (str, Primitive)) and parameter_text(value)[0] == "<":
        yield value


def places(jaxpr: Jaxpr) -> dict[int, int]:
    """By the ids of objects of which others have the name, too: the number of the first place where each stands."""
    lists = [values for values in functions(jaxpr).values() if type(values) is list]
    return {key: place for values in lists for key, place in _firsts(values).items()}


class Filling:
    """What is put into holes, by name: an object, or a list of one for each place.

    Raises:
      TypeError: it is no dict.
    """

    def __init__(self, verb: str, given: Mapping[str, Any] | None):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{verb}: functions is a dict of functions by name, and is {describe(given)}.")
        self.verb, self.given = verb, given or {}
        self.seen: dict[str, set[int]] = {}  # the places there were, by name

    def next(self, hole: Hole) -> Any:
        """What stands at the next place of a name."""
        return self.at(hole, len(self.seen.get(hole.name, ())))

    def at(self, hole: Hole, place: int) -> Any:
        """What stands at a place of a name; the hole itself where nothing is given for it."""
        self.seen.setdefault(hole.name, set()).add(place)
        value = self.given.get(hole.name, hole)
        return value if type(value) is not list else value[place] if 0 <= place < len(value) else hole

    def finish(self, only_firsts: bool = False) -> None:
        """Raises TypeError where objects of a list had no place, or places none; `only_firsts`: the first of each."""
        for name, value in self.given.items():
            if type(value) is not list:
                continue
            seen, places = self.seen.get(name, set()), range(len(value))
            if seen != set(_firsts(value).values() if only_firsts else places):
                count = f"{len(seen)} different ones" if only_firsts else f"{len(seen)} places"
                raise TypeError(
                    f"{self.verb}: functions[{name!r}] is a list of {len(value)}, and there are {count} of that name. "
                    "Give what xpr.jaxpr.functions gives for the program, or one function for all."
                )

"""Calls of users' functions, with arguments that are arrays and static ones, flattened for tracing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from xpr import tree
from xpr.config import settings
from xpr.core.avals import ShapedArray, describe
from xpr.core.interpreter import context
from xpr.core.primitive import cache_key
from xpr.core.source import describe_function
from xpr.transforms.flat import argument_names, named_like, with_static


class Call:
    """The arguments of one call, flattened once.

    Attributes:
      args, kwargs: all of them.
      static: those that are plain Python values, by position or name.
      dynamic: the others, the positional and the keyword ones.
      leaves, in_tree: the dynamic ones flat, and their structure.
      avals: the types of the leaves, as the function sees them.
      key: the cache key of the trace, of all that it depends on but the function and its options.
    """

    __slots__ = ("args", "kwargs", "static", "dynamic", "leaves", "in_tree", "avals", "key")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], static: dict[Any, Any]):
        self.args, self.kwargs, self.static = args, kwargs, static
        if static:
            args = tuple([x for i, x in enumerate(args) if i not in static])
            kwargs = {name: x for name, x in kwargs.items() if name not in static} if kwargs else kwargs
        self.dynamic = args, kwargs
        self.leaves, self.in_tree = tree.flatten(self.dynamic)

    def typed(self, avals: Sequence[ShapedArray], *more: Any) -> None:
        """Sets the types of the leaves, and with them the key, of which `more` is a part."""
        self.avals = avals
        static = self.static_key() if self.static else ()
        self.key = (settings.trace_key, context.axes, self.in_tree, static, *more, *avals)

    def static_key(self) -> tuple[Any, ...]:
        """The static arguments as a part of keys."""
        return tuple([(position, cache_key(value)) for position, value in self.static.items()])

    def flags(self, positions: Collection[int], names: Collection[str] = ()) -> list[bool]:
        """For each leaf whether its argument is one of those at some positions, or with some names."""
        args, (_, kwargs) = self.args, self.dynamic
        by_position = [i in positions for i, x in enumerate(args) if i not in self.static for _ in tree.leaves(x)]
        return by_position + [name in names for name in sorted(kwargs) for _ in tree.leaves(kwargs[name])]

    def check_hashable(self, what: str, fun: Callable[..., Any], otherwise: str) -> None:
        """Raises ValueError where a static argument can't be hashed."""
        for position, value in self.static.items():
            try:
                hash(value)
            except TypeError:
                raise ValueError(
                    f"{what}: Non-hashable static arguments are not supported, since they are parts of cache keys. "
                    f"Argument {_position_text(position)} of {describe_function(fun)} is {describe(value)}. Pass "
                    f"something hashable (a tuple for a list), or {otherwise}."
                ) from None

    def refuse_comparison(self, what: str, fun: Callable[..., Any], error: Exception) -> NoReturn:
        """Raises ValueError for an exception that comparing this call with earlier ones has raised."""
        raised = f"{type(error).__name__}: {error}"
        for position, value in self.static.items():
            try:
                bool(value == value)
            except Exception:
                raise ValueError(
                    f"{what}: static arguments should be comparable using __eq__, as they are parts of cache keys. "
                    f"Comparing argument {_position_text(position)} of {describe_function(fun)}, {describe(value)}, "
                    f"raised {raised}"
                ) from error
        raise ValueError(
            f"{what}: Exception raised while checking equality of metadata fields of pytree arguments of "
            f"{describe_function(fun)} with those of earlier calls: {raised} They are compared by ==, which has to "
            "give True or False. Make a field that holds an array a data field."
        ) from error

    def of_dynamic(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """`fun` as a function of the dynamic arguments alone."""
        if not self.static:
            return fun
        positions = [position for position in self.static if isinstance(position, int)]
        by_name = {position: value for position, value in self.static.items() if isinstance(position, str)}
        return with_static(_with_keywords(fun, by_name) if by_name else fun, positions, self.args)

    def names(self, fun: Callable[..., Any]) -> list[str]:
        """A name for each leaf, by the parameters of `fun`, a function of all arguments."""
        blank = [None if i in self.static else x for i, x in enumerate(self.args)]
        return argument_names(fun, blank, self.dynamic[1])


def _position_text(position: int | str) -> str:
    """Where a static argument was passed, in messages: `number 0` or `'mode'`."""
    return f"number {position}" if isinstance(position, int) else repr(position)


def in_range(argnums: Sequence[int], count: int) -> set[int]:
    """The positions of arguments among `count` of them; negative numbers count from the end."""
    return {n % count for n in argnums if -count <= n < count}


def _with_keywords(fun: Callable[..., Any], static: dict[str, Any]) -> Callable[..., Any]:
    return named_like(lambda *args, **kwargs: fun(*args, **kwargs, **static), fun)

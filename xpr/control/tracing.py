"""Users' functions as jaxprs: what every control-flow function does first, and how it says that types don't agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr
from xpr.core.source import describe_function
from xpr.transforms.flat import FlatFunction, argument_names
from xpr.transforms.stage import Signature, stage


class Body:
    """A user's function of pytrees, staged for arguments of some types; its constants are what it closed over."""

    __slots__ = ("closed", "fun", "out_tree")

    def __init__(self, fun: Callable[..., Any], closed: ClosedJaxpr, out_tree: Any):
        self.fun, self.closed, self.out_tree = fun, closed, out_tree

    @property
    def consts(self) -> list[Any]:
        return self.closed.consts

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.closed.out_avals


def trace_body(fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray], verb: str) -> Body:
    """Stages `fun(*args)`.

    Args:
      fun: a function of positional pytrees.
      in_tree: the structure of its arguments, `tree.structure((args, {}))`.
      avals: the types of their leaves.
      verb: what messages say is being done to the function: "the body of a scan".
    Raises:
      TypeError: `fun` is no function, or one of its results is no array.
    """
    if not callable(fun):
        raise TypeError(f"{verb.split()[-1]}: {verb} must be a function, and is {fun!r}.")

    def names() -> list[str]:
        args, kwargs = tree.unflatten(in_tree, [0] * in_tree.num_leaves)
        return argument_names(fun, args, kwargs)

    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, avals, Signature(f"staged as {verb}", fun, names))
    return Body(fun, closed, flat.out_tree)


def join_consts(closed: Sequence[ClosedJaxpr]) -> tuple[list[Any], list[Jaxpr]]:
    """The constants of several jaxprs, each value once, and the jaxprs with all of them as leading arguments."""
    values: dict[int, Any] = {id(c): c for each in closed for c in each.consts}
    if not values:
        return [], [each.jaxpr for each in closed]
    jaxprs = []
    for each in closed:
        own = {id(c): v for v, c in zip(each.jaxpr.constvars, each.consts)}
        leading = [own[key] if key in own else FillerVar(aval_of(value)) for key, value in values.items()]
        jaxprs.append(each.jaxpr.replace(constvars=[], invars=[*leading, *each.jaxpr.invars]))
    return list(values.values()), jaxprs


def same_types(expected: Sequence[ShapedArray], found: Sequence[ShapedArray]) -> bool:
    """Whether types agree in shape and dtype; weakness aside."""
    return len(expected) == len(found) and all(
        a is b or (a.shape == b.shape and a.dtype == b.dtype) for a, b in zip(expected, found)
    )


def type_differences(
    name: str, in_tree: Any, expected: Sequence[ShapedArray], found: Sequence[ShapedArray], words: tuple[str, str]
) -> list[str]:
    """A line for each leaf whose type differs: its path in `name`, and both types, introduced by `words`.

    >>> from xpr import tree
    >>> from xpr.core import ShapedArray
    >>> f32, i32 = ShapedArray((8,), "float32"), ShapedArray((), "int32")
    >>> type_differences("carry", tree.structure({"h": 0, "n": 0}), [f32, i32], [f32, f32], ("in", "out"))
    ["  carry['n']   in i32[]   out f32[8]"]
    """
    blank = tree.unflatten(in_tree, [0] * in_tree.num_leaves)
    paths = [name + tree.keystr(path) for path, _ in tree.leaves_with_path(blank)]
    rows = [
        (path, f"{words[0]} {a.str_short()}", f"{words[1]} {b.str_short()}")
        for path, a, b in zip(paths, expected, found)
        if a.shape != b.shape or a.dtype != b.dtype
    ]
    wide = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    return [f"  {path.ljust(wide[0])}   {one.ljust(wide[1])}   {two}" for path, one, two in rows]


def where_defined(what: str, fun: Callable[..., Any]) -> str:
    """The line of a message that says where a user's function is."""
    return f"  {what} is {describe_function(fun)}"

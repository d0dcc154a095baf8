"""Users' functions as jaxprs: what every control-flow function does first, and how it says that types don't agree.

A function is staged once for each signature, as far as that is sound: it closes over no tracer, and its closure holds
what it held before. What was staged is kept in a weak dictionary by the function.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from xpr import tree
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer, context
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


class Step:
    """A loop's function that was made of the user's, of which messages speak, and by which it is remembered.

    Args:
      what: what the user calls the loop.
      fun: the user's function, all that `step` depends on.
      step: the loop's function.
      arguments: given the arguments of `step`, those of `fun`.
    """

    __slots__ = ("__wrapped__", "arguments", "step", "what")

    def __init__(
        self, what: str, fun: Callable[..., Any], step: Callable[..., Any], arguments: Callable[..., Sequence[Any]]
    ):
        self.what, self.__wrapped__, self.step, self.arguments = what, fun, step, arguments

    def __call__(self, *args: Any) -> Any:
        return self.step(*args)


def trace_body(
    fun: Callable[..., Any],
    in_tree: Any,
    avals: Sequence[ShapedArray],
    verb: str,
    *,
    owner: Callable[..., Any] | None = None,
    static: Any = (),
) -> Body:
    """Stages `fun(*args)`.

    Args:
      fun: a function of positional pytrees.
      in_tree: the structure of its arguments, `tree.structure((args, {}))`.
      avals: the types of their leaves.
      verb: what messages say is being done to the function: "the body of a scan".
      owner: the user's function, where `fun` is made of it.
      static: what `fun` depends on beside `owner`, for functions made of it with the same `verb`.
    Raises:
      TypeError: `fun` is no function, or one of its results is no array.
    """
    if not callable(fun):
        raise TypeError(f"{verb.split()[-1]}: {verb} must be a function, and is {fun!r}.")
    if owner is None:
        owner = fun.__wrapped__ if type(fun) is Step else fun
    key = (in_tree, tuple(avals), verb, static, settings.trace_key, context.axes)
    known, closure = _known(owner, key)
    staged = known.get(key) if known is not None else None
    if staged is not None and staged.is_of(closure):
        return Body(fun, staged.closed, staged.out_tree)

    def names() -> list[str]:
        args, kwargs = tree.unflatten(in_tree, range(in_tree.num_leaves))
        if type(fun) is not Step:
            return argument_names(owner, args, kwargs)
        own = fun.arguments(*args)
        of_leaf = dict(zip(tree.leaves(own), argument_names(owner, own, {})))
        return [of_leaf.get(i, "") for i in range(in_tree.num_leaves)]

    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, avals, Signature(f"staged as {verb}", fun, names))
    if known is not None and not any(isinstance(x, Tracer) for x in (*closure, *closed.consts)):
        known[key] = _Staged(closed, flat.out_tree, closure)
    return Body(fun, closed, flat.out_tree)


class _Staged:
    """A function staged for one signature, and what its closure held then, which it does not keep alive if it can."""

    __slots__ = ("closed", "closure", "out_tree")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, closure: Sequence[Any]):
        self.closed, self.out_tree = closed, out_tree
        self.closure = list(map(_reference, closure))

    def is_of(self, closure: Sequence[Any]) -> bool:
        return len(closure) == len(self.closure) and all(x is ref() for x, ref in zip(closure, self.closure))


_staged: weakref.WeakKeyDictionary[Any, dict[Any, _Staged]] = weakref.WeakKeyDictionary()


def forget_bodies() -> None:
    """Forgets what was staged of users' functions."""
    _staged.clear()


def _known(fun: Callable[..., Any], key: Any) -> tuple[dict[Any, _Staged] | None, list[Any]]:
    """What was staged of a function, None where nothing can be kept; and what its closure holds."""
    if type(fun) is not FunctionType:
        return None, []
    try:
        hash(key)
        closure = [cell.cell_contents for cell in fun.__closure__ or ()]
    except (TypeError, ValueError):  # something static that has no hash; a variable that has no value yet
        return None, []
    return _staged.setdefault(fun, {}), closure


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def join_consts(closed: Sequence[ClosedJaxpr]) -> tuple[list[Any], list[Jaxpr]]:
    """The constants of several jaxprs, each value once, and the jaxprs with all of them as leading arguments."""
    values: dict[int, Any] = {id(c): c for each in closed for c in each.consts}
    if not values:
        return [], [each.jaxpr for each in closed]
    places = {key: i for i, key in enumerate(values)}
    pattern = tuple([tuple([places[id(c)] for c in each.consts]) for each in closed])
    memo, key = closed[0].jaxpr.memo, ("joined", pattern, *(each.jaxpr for each in closed))
    if key not in memo:
        memo[key] = _with_leading(closed, values)
    return list(values.values()), memo[key]


def _with_leading(closed: Sequence[ClosedJaxpr], values: dict[int, Any]) -> list[Jaxpr]:
    jaxprs = []
    for each in closed:
        own = {id(c): v for v, c in zip(each.jaxpr.constvars, each.consts)}
        leading = [own[key] if key in own else FillerVar(aval_of(value)) for key, value in values.items()]
        jaxprs.append(each.jaxpr.replace(constvars=[], invars=[*leading, *each.jaxpr.invars]))
    return jaxprs


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

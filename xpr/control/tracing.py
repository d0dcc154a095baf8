"""Traces users' functions to jaxprs for all control-flow functions, and formats differences between types.

A function is traced once for each signature, if that is sound: it closes over no tracer, and its closure holds the
same values as before. The function holds what is traced of it (core/function_caches.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from xpr import tree
from xpr.config import settings
from xpr.control.refs import with_values_read
from xpr.core.avals import ShapedArray, aval_of, same_kind
from xpr.core.function_caches import cache_of, clear_caches_of_functions, keep_trace, trace_of
from xpr.core.interpreter import Tracer, context, current_type
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr
from xpr.core.refs import Ref
from xpr.core.source import describe_function
from xpr.passes.discharge import uses_of_refs
from xpr.transforms.flat import FlatFunction, argument_names
from xpr.transforms.stage import Signature, stage


class Body:
    """A user's function of pytrees, traced for arguments of some types; its constants are the values it closed over."""

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
    """A loop's function derived from the user's function, which messages name, and which holds what is traced.

    Args:
      what: what the user calls the loop.
      fun: the user's function; `step` depends on nothing but this and `static`.
      step: the loop's function.
      arguments: from the arguments of `step` to those of `fun`.
      static: what else `step` depends on.
    """

    __slots__ = ("__wrapped__", "arguments", "static", "step", "what")

    def __init__(
        self,
        what: str,
        fun: Callable[..., Any],
        step: Callable[..., Any],
        arguments: Callable[..., Sequence[Any]],
        static: Any = (),
    ):
        self.what, self.__wrapped__, self.step, self.arguments, self.static = what, fun, step, arguments, static

    def __call__(self, *args: Any) -> Any:
        return self.step(*args)


class Watched:
    """A loop's function, and what watches its steps, for which the loop carries a state beside the user's carry.

    Args:
      fun: the user's function, or a `Step`.
      initial: the state at the start, a pytree of arrays.
      before: `before(state, total) -> state`, called in each step.
      after: `after(state, total)`, called when the loop has ended.
      total: the number of steps; None for that of the loop.
    """

    __slots__ = ("__wrapped__", "after", "before", "initial", "total")

    def __init__(
        self, fun: Callable[..., Any], initial: Any, before: Callable[..., Any], after: Callable[..., Any], total: Any
    ):
        self.__wrapped__, self.initial, self.before, self.after, self.total = fun, initial, before, after, total

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def of(self, fun: Callable[..., Any], total: Any) -> Watched:
        """A copy that watches another function, for a loop of `total` steps."""
        return Watched(fun, self.initial, self.before, self.after, total if self.total is None else self.total)

    def step(self, what: str, run: Callable[..., Any]) -> Step:
        """The loop's function `run`, whose carry is a pair of the state and the carry of the user's function."""
        fun, names = self.__wrapped__, lambda carry, *rest: (carry[1], *rest)
        static = (self.before, None if hasattr(self.total, "aval") else self.total)
        if type(fun) is Step:
            inner = fun.arguments
            return Step(fun.what, fun.__wrapped__, run, lambda *args: inner(*names(*args)), (*static, fun.static))
        return Step(what, fun, run, names, static)


def trace_body(
    fun: Callable[..., Any],
    in_tree: Any,
    avals: Sequence[ShapedArray],
    role: str,
    *,
    owner: Callable[..., Any] | None = None,
    static: Any = (),
    refs: bool = False,
) -> Body:
    """Traces `fun(*args)` to a `Body`.

    Args:
      fun: a function of positional pytrees.
      in_tree: the structure of its arguments, `tree.structure((args, {}))`.
      avals: the types of their leaves.
      role: what the function is, in messages: "the body of a scan".
      owner: the user's function, if `fun` is derived from it.
      static: other values on which `fun` depends, for functions derived from `owner` with the same `role`.
      refs: whether the caller provides for refs that `fun` closes over. Else it may only read them.
    Raises:
      TypeError: `fun` is not a function, or one of its results is not an array.
    """
    if not callable(fun):
        raise TypeError(f"lax.{role.split()[-1]}: {role} must be callable, and is {fun!r}.")
    if owner is None:
        owner = fun.__wrapped__ if type(fun) is Step else fun
    if type(fun) is Step:
        static = (static, fun.static)
    key = (in_tree, tuple(avals), role, static, settings.trace_key, context.axes)
    known, closure = _known(owner, key)
    staged = trace_of(known, key, owner) if known is not None else None
    if staged is not None and staged.is_of(closure):
        return Body(fun, staged.closed, staged.out_tree)

    def names() -> list[str]:
        args, kwargs = tree.unflatten(in_tree, range(in_tree.num_leaves))
        if type(fun) is not Step:
            return argument_names(fun, args, kwargs)
        user_args = fun.arguments(*args)
        names_by_leaf = dict(zip(tree.leaves(user_args), argument_names(owner, user_args, {})))
        return [names_by_leaf.get(i, "") for i in range(in_tree.num_leaves)]

    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, avals, Signature(f"staged as {role}", fun, names))
    if not refs and uses_of_refs(closed.jaxpr).any:
        closed, known = with_values_read(role, fun, closed), None  # refs may hold other values in the next call
    if known is not None:  # the closure is kept as `fun` leaves it: a counter of traces, say, is no reason for another
        known, closure = _known(owner, key)
    if known is not None and not any(isinstance(x, (Tracer, Ref)) for x in (*closure, *closed.consts)):
        keep_trace(known, key, _Staged(closed, flat.out_tree, closure))
    return Body(fun, closed, flat.out_tree)


class _Staged:
    """A function traced for one signature, and the contents of its closure, held weakly if possible."""

    __slots__ = ("closed", "closure", "out_tree")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, closure: Sequence[Any]):
        self.closed, self.out_tree = closed, out_tree
        self.closure = list(map(_reference, closure))

    def is_of(self, closure: Sequence[Any]) -> bool:
        return len(closure) == len(self.closure) and all(x is ref() for x, ref in zip(closure, self.closure))


def forget_bodies() -> None:
    """Clears the cache of users' traced functions."""
    clear_caches_of_functions("bodies")


def _known(fun: Callable[..., Any], key: Any) -> tuple[dict[Any, _Staged] | None, list[Any]]:
    """The cached traces of a function, None if it can't be cached; and the contents of its closure."""
    if type(fun) is not FunctionType:
        return None, []
    try:
        hash(key)
        closure = [cell.cell_contents for cell in fun.__closure__ or ()]
    except (TypeError, ValueError):  # something static that has no hash; a variable that has no value yet
        return None, []
    return cache_of(fun, "bodies"), closure


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def as_closed(*jaxprs: Jaxpr | ClosedJaxpr | None) -> list[ClosedJaxpr] | None:
    """All the jaxprs closed, if at least one of them is and none is missing; else None."""
    if not any(type(jaxpr) is ClosedJaxpr for jaxpr in jaxprs):
        return None
    closed = [jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr) for jaxpr in jaxprs if jaxpr is not None]
    return closed if len(closed) == len(jaxprs) else None


def refuse_closed(name: str, *jaxprs: Any) -> None:
    """Raises TypeError for a closed jaxpr in an equation, whose jaxprs take all that they use as operands."""
    if as_closed(*jaxprs) is not None:
        raise TypeError(f"{name}: the jaxprs of an equation have no constants, and a ClosedJaxpr was given.")


def join_consts(closed: Sequence[ClosedJaxpr]) -> tuple[list[Any], list[Jaxpr]]:
    """The constants of several jaxprs, each value once, and the jaxprs with all of them as leading arguments."""
    values: dict[int, Any] = {id(c): c for program in closed for c in program.consts}
    jaxprs = [program.jaxpr for program in closed]
    if not values:
        return [], jaxprs
    positions = {key: i for i, key in enumerate(values)}
    pattern = tuple([tuple([positions[id(c)] for c in program.consts]) for program in closed])
    memo, key = jaxprs[0].memo, ("joined", pattern, *jaxprs)
    if key not in memo:
        memo[key] = [_with_leading_constants(program, values) for program in closed]
    return list(values.values()), memo[key]


def _with_leading_constants(closed: ClosedJaxpr, values: dict[int, Any]) -> Jaxpr:
    """The jaxpr with all of `values`, which are keyed by their ids and hold its constants, as leading arguments."""
    variables = {id(c): v for v, c in zip(closed.jaxpr.constvars, closed.consts)}
    leading = [variables[key] if key in variables else FillerVar(aval_of(value)) for key, value in values.items()]
    return closed.jaxpr.replace(constvars=[], invars=[*leading, *closed.jaxpr.invars])


def types_of_leaves(what: str, name: str, structure: Any, leaves: Sequence[Any]) -> list[ShapedArray]:
    """The types of the leaves of a pytree.

    Args:
      what: what the user calls the operation.
      name: the name of the pytree, with which paths begin.
      structure: its structure.
      leaves: its leaves.
    Raises:
      TypeError: a leaf is no array; names its path.

    >>> from xpr import tree
    >>> types_of_leaves("scan", "init", tree.structure({"h": 0}), ["a"])
    Traceback (most recent call last):
    TypeError: scan: at init['h']: Expected an array or a number: 'a' of type <class 'str'> is not a valid JAX type. ...
    """
    avals = []
    for i, leaf in enumerate(leaves):
        try:
            aval = aval_of(leaf)
            avals.append(current_type(leaf) if aval.is_high else aval)
        except TypeError as error:
            path, _ = tree.leaves_with_path(tree.unflatten(structure, range(len(leaves))))[i]
            raise TypeError(f"{what}: at {name}{tree.keystr(path)}: {error}") from None
    return avals


def type_differences(
    name: str, in_tree: Any, expected: Sequence[ShapedArray], actual: Sequence[ShapedArray], words: tuple[str, str],
    same: Callable[[ShapedArray, ShapedArray], bool] = same_kind,
) -> list[str]:  # fmt: skip
    """A line for each leaf whose type differs: its path in `name`, and both types, introduced by `words`.

    `same` says whether two types are alike; by default their shardings and memory spaces may differ.

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
        for path, a, b in zip(paths, expected, actual)
        if not same(a, b)
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    return [f"  {path.ljust(widths[0])}   {one.ljust(widths[1])}   {two}" for path, one, two in rows]


def missing_casts(
    name: str, in_tree: Any, expected: Sequence[ShapedArray], actual: Sequence[ShapedArray], where: str
) -> list[str]:
    """What makes leaves vary over the axes of a `shard_map` over which they are expected to, for messages.

    >>> from xpr import tree
    >>> from xpr.core import ShapedArray
    >>> x = ShapedArray((8,), "float32")
    >>> missing_casts("carry", tree.structure([0]), [x.with_varying(frozenset("i"))], [x], "the initial ")
    ["applying `jax.lax.pcast(..., ('i',), to='varying')` to the initial carry[0]"]
    """
    casts = []
    if any(a is not b and a.varying - b.varying for a, b in zip(expected, actual)):
        blank = tree.unflatten(in_tree, [0] * in_tree.num_leaves)
        for (path, _), a, b in zip(tree.leaves_with_path(blank), expected, actual):
            if names := tuple(sorted(a.varying - b.varying, key=str)):
                cast = f"applying `jax.lax.pcast(..., {names}, to='varying')` to {where}{name}{tree.keystr(path)}"
                casts.append(cast)
    return casts


def advice_on_casts(casts: Sequence[str]) -> str:
    """The lines of a message that say which casts are missing."""
    if len(casts) == 1:
        return f"  This might be fixed by {casts[0]}."
    return "\n".join(["  This might be fixed by:", *[f"  * {cast}" for cast in casts]])


def is_users(fun: Any) -> bool:
    """Whether a function is one that a user has written, and none of the library's."""
    while isinstance(fun, partial):
        fun = fun.func
    module = getattr(fun, "__module__", None)
    return not (isinstance(module, str) and module.partition(".")[0] == "xpr")


def where_defined(what: str, fun: Callable[..., Any]) -> str:
    """The line of a message with the file and line of a user's function."""
    return f"  {what} is {describe_function(fun)}"

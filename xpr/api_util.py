"""JAX's helpers for the arguments of transformations: flattening functions of pytrees, donated and static arguments.

xpr's own transformations have `transforms/flat.py`; these are for programs that use JAX's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import shaped
from xpr.core.avals import ShapedArray
from xpr.core.source import function_name
from xpr.extend.linear_util import WrappedFun, transformation2, transformation_with_aux2

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs",
    "fun_signature", "infer_argnums_and_argnames", "rebase_donate_argnums", "safe_map", "safe_zip",
    "shaped_abstractify",
]  # fmt: skip


@transformation_with_aux2
def flatten_fun(f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any) -> list[Any]:
    """A function of pytrees, positional and keyword, as one from leaves to leaves; the thunk returns their tree."""
    args, kwargs = tree.unflatten(in_tree, leaves)
    outs, out_tree = tree.flatten(f(*args, **kwargs))
    store.store(out_tree)
    return outs


@transformation_with_aux2
def flatten_fun_nokwargs(f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any) -> list[Any]:
    """`flatten_fun` for a function without keyword arguments: the structure is the one of the tuple of arguments."""
    outs, out_tree = tree.flatten(f(*tree.unflatten(in_tree, leaves)))
    store.store(out_tree)
    return outs


@transformation2
def _with_fixed(f: Callable[..., Any], fixed: tuple[Any, ...], *dynamic: Any, **kwargs: Any) -> Any:
    remaining = iter(dynamic)
    return f(*[next(remaining) if x is _DYNAMIC else x.value for x in fixed], **kwargs)


_DYNAMIC = object()


class _Fixed:
    """A fixed argument; equal if the values are equal or the same object."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fixed):
            return False
        same = self.value is other.value
        return same or bool(type(self.value) is type(other.value) and self.value == other.value)


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, list[Any]]:
    """A function of the arguments at some positions, the others fixed, and those arguments.

    Raises:
      ValueError: a fixed argument has to be hashable and is not.
    """
    numbers = {n % len(args) for n in ((dyn_argnums,) if isinstance(dyn_argnums, int) else dyn_argnums)}
    if require_static_args_hashable:
        for i, x in enumerate(args):
            if i not in numbers and not _is_hashable(x):
                raise ValueError(f"Argument {i} is held fixed and is a {type(x).__name__}, which can't be hashed.")
    fixed = tuple([_DYNAMIC if i in numbers else _Fixed(x) for i, x in enumerate(args)])
    return _with_fixed(f, fixed), [x for i, x in enumerate(args) if i in numbers]


def _is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """The axes of each leaf of a structure, from a pytree of axes that is a prefix of it; None counts as an axis.

    Raises:
      ValueError: it is not a prefix.
    """
    whole = tree.unflatten(treedef, [0] * treedef.num_leaves)
    try:
        return tree.leaves(tree.broadcast(axis_tree, whole, is_leaf=_is_none), is_leaf=_is_none)
    except ValueError as error:
        shown = tree.structure(axis_tree)
        raise ValueError(
            f"{name} must be a pytree prefix of the arguments: its structure is {shown}, and theirs is {treedef}."
        ) from error


def _is_none(x: Any) -> bool:
    return x is None


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array, or of anything with a shape and a dtype.

    Raises:
      TypeError: it has no shape and dtype.
    """
    return shaped(x)


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each leaf of the arguments is donated.

    The structure is that of (args, kwargs), or without `kws` that of args.
    """
    whole = tree.unflatten(in_tree, list(range(in_tree.num_leaves)))
    args, kwargs = whole if kws else (whole, {})
    flags = [i in donate_argnums for i, x in enumerate(args) for _ in tree.leaves(x)]
    return (*flags, *(name in donate_argnames for name in sorted(kwargs) for _ in tree.leaves(kwargs[name])))


def rebase_donate_argnums(donate_argnums: Iterable[int], static_argnums: Iterable[int]) -> tuple[int, ...]:
    """The numbers of donated arguments among those that are not static, in order.

    Raises:
      ValueError: an argument is both donated and static.
    """
    static, donated = set(static_argnums), sorted(set(donate_argnums))
    both = [n for n in donated if n in static]
    if both:
        raise ValueError(f"Arguments can't be static and donated: {both} are both.")
    return tuple([n - sum(s < n for s in static) for n in donated])


class DebugInfo:
    """The names of a traced function and of its arguments."""

    def __init__(self, traced_for: str, func_src_info: str, arg_names: tuple[str, ...] | None, result_paths: Any):
        self.traced_for, self.func_src_info = traced_for, func_src_info
        self.arg_names, self.result_paths = arg_names, result_paths

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]

    def _replace(self, **changes: Any) -> DebugInfo:
        return DebugInfo(**{**self.__dict__, **changes})


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: inspect.Signature | None = None,
) -> DebugInfo:
    """The names of a traced function and of its arguments, for messages."""
    names = tuple([f"args[{i}]" for i in range(len(args))] + [f"kwargs[{name!r}]" for name in kwargs])
    return DebugInfo(traced_for, sourceinfo or function_name(fun), names, result_paths_thunk)


def fun_signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    """The function's signature; None if it can't be determined."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of the same arguments, if only one is given."""
    numbers = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if argnums is not None and argnames is not None:
        return numbers, names
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [name for name, p in sig.parameters.items() if p.kind in by_position]
    if argnames is None:
        reached = [positional[n] for n in numbers if -len(positional) <= n < len(positional)]
        return numbers, tuple([n for n in reached if sig.parameters[n].kind is by_position[1]])
    return tuple([i for i, name in enumerate(positional) if name in names]), names


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`map` as a list, over iterables of one length.

    Raises:
      ValueError: the lengths differ.
    """
    lists = list(map(list, args))
    _check_lengths("safe_map", lists)
    return list(map(f, *lists))


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` as a list, of iterables of one length.

    Raises:
      ValueError: the lengths differ.
    """
    lists = list(map(list, args))
    _check_lengths("safe_zip", lists)
    return list(zip(*lists))


def _check_lengths(name: str, lists: Sequence[Sequence[Any]]) -> None:
    lengths = [len(each) for each in lists]
    if len(set(lengths)) > 1:
        raise ValueError(f"{name}: the arguments have different lengths: {lengths}.")

"""Functions of pytrees, as users write them, as functions of flat lists, as interpreters run them."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array, from_host
from xpr.core.avals import array_in, aval_of
from xpr.core.interpreter import Tracer, context
from xpr.core.refs import Ref
from xpr.core.source import describe_function, function_name, line_with_text
from xpr.dtypes import float0
from xpr.errors import ArgumentError, RefError
from xpr.transforms.stage import Signature, StageTrace


def argument_names(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """A name for each leaf of the arguments: `x`, `params['w']`."""
    names: list[str] = []
    for name, arg in [*zip(_positional_names(fun, len(args)), args), *sorted(kwargs.items())]:
        names.extend(name + tree.keystr(path) for path, _ in tree.leaves_with_path(arg))
    return names


def _positional_names(fun: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional arguments of a function, `rest[0]` for those of a parameter `*rest`."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    static = getattr(fun, _STATIC, ())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names += [f"{variadic}[{i}]" for i in range(count + len(static) - len(names))]
    return [name for i, name in enumerate(names) if i not in static][:count]


def signature_of(verb: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Signature:
    """The description of `fun(*args, **kwargs)` for messages; it stores only the structure of the arguments."""
    in_tree = tree.structure((tuple(args), kwargs))

    def names() -> list[str]:
        blank_args, blank_kwargs = tree.unflatten(in_tree, [0] * in_tree.num_leaves)
        return argument_names(fun, blank_args, blank_kwargs)

    return Signature(verb, fun, names)


LEAF = tree.structure(0)  # an array by itself, the result of most functions


@functools.cache
def _of_arrays(count: int) -> Any:
    """The structure of `count` positional arguments that are no containers."""
    return tree.structure(((0,) * count, {}))


def flatten_arguments(args: Sequence[Any]) -> tuple[list[Any], Any]:
    """The leaves of positional arguments, and the structure for a `FlatFunction`."""
    for x in args:
        if type(x) is not Array:
            return tree.flatten((tuple(args), {}))
    return list(args), _of_arrays(len(args))


def as_array(x: Any) -> Any:
    """A result of a transformation as an array; it may be a number or a NumPy array that was passed through."""
    if type(x) is Array or hasattr(x, "aval") or getattr(x, "dtype", None) == float0:
        return x
    aval = aval_of(x)
    return from_host(np.array(x, aval.dtype), aval.weak_type)


class FlatFunction:
    """A function of pytrees as one of flat leaves giving a list; remembers the structure of the last result."""

    __slots__ = ("fun", "in_tree", "out_tree")

    def __init__(self, fun: Callable[..., Any], in_tree: Any):
        self.fun, self.in_tree = fun, in_tree
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        if self.in_tree is _of_arrays(len(leaves)):
            out = self.fun(*leaves)
        else:
            args, kwargs = tree.unflatten_sorted(self.in_tree, leaves)
            out = self.fun(*args, **kwargs)
        if type(out) is Array or isinstance(out, Tracer):
            self.out_tree = LEAF
            return [out]
        out_leaves, self.out_tree = tree.flatten(out)
        check_results(self.fun, out_leaves, self.out_tree)
        return list(map(array_in, out_leaves))


class FunctionWithAux(FlatFunction):
    """A function that gives a pair, of pytrees of arrays and of anything, as one of flat leaves giving one list.

    `out_tree` is the structure of the pair; `count` is how many of the last results belong to its first half.
    """

    __slots__ = ("count",)

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        out = self.fun(*args, **kwargs)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                f"has_aux=True: {describe_function(self.fun)} must return a pair (result, auxiliary data); "
                f"it returned {out!r}."
            )
        out_leaves, self.out_tree = tree.flatten(tuple(out))
        self.count = self.out_tree.children()[0].num_leaves
        check_results(self.fun, out_leaves[: self.count], self.out_tree)
        return out_leaves


def check_results(fun: Callable[..., Any], leaves: Sequence[Any], out_tree: Any, role: str = "") -> None:
    """Checks that the results of a function are arrays; messages have their paths, and the role of the function.

    Raises:
      TypeError: a result is no array.
      RefError: a result is a ref.
    """
    for index, leaf in enumerate(leaves):
        if type(leaf) is Ref:
            _, space, verb = context.trace.verb.rpartition(" ")  # "compiled with jit", or "differentiated"
            raise RefError(
                f"{role}{describe_function(fun)}{f', traced for {verb}' * bool(space)} returned a mutable array "
                f"reference of type {leaf.aval.str_short()}, at result{result_paths(out_tree)[index]}, and refs can't "
                "be returned from traced functions. Return what it holds: ref[...]; or make the ref outside, and close "
                "over it." + _origin(leaf)
            )
        if getattr(leaf, "aval", None) is None:
            try:
                aval_of(leaf)
            except TypeError as error:
                path = result_paths(out_tree)[index]
                component = f", at output component {path}" if path else ""
                raise TypeError(
                    f"function {describe_function(fun)} returned a value of type {type(leaf).__name__}{component}, "
                    f"which is not a valid JAX type. {error}"
                ) from None


def result_paths(out_tree: tree.PyTreeDef) -> list[str]:
    """The path of each leaf of a result with this structure: `['w']`, or empty where the result is an array."""
    return [
        tree.keystr(path) for path, _ in tree.leaves_with_path(tree.unflatten(out_tree, range(out_tree.num_leaves)))
    ]


def _origin(ref: Ref) -> str:
    """The line of a message that says where a ref comes from; empty where that is not known."""
    if ref.source is not None:
        return f"\n\nThe ref was created on line {line_with_text(ref.source)}"
    return ref.owner.passed_in(ref) if type(ref.owner) is StageTrace else ""


def argument_numbers(argnums: Any, what: str) -> int | tuple[int, ...]:
    """`argnums` as a Python integer or a tuple of them; they may also be integers of NumPy, or an iterator.

    Raises:
      TypeError: one is no integer.
    """
    try:
        return operator.index(argnums)
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, argnums))
    except TypeError:
        raise TypeError(f"{what} must be an integer or a sequence of integers, and is {argnums!r}.") from None


def positions(argnums: int | Sequence[int], n_args: int, what: str) -> tuple[int, ...]:
    """Argument numbers as non-negative ones.

    Raises:
      TypeError: one is no integer.
      ArgumentError: one is out of range.
    """
    checked = argument_numbers(argnums, what)
    numbers = (checked,) if isinstance(checked, int) else checked
    if any(not -n_args <= n < n_args for n in numbers):
        raise ArgumentError(
            f"{what}={argnums} is out of range for a function called with {n_args} positional arguments."
        )
    return tuple(n % n_args for n in numbers)


def distinct_positions(argnums: int | Sequence[int], n_args: int, what: str) -> tuple[int, ...]:
    """The numbers of arguments to differentiate by, as non-negative ones.

    Raises:
      TypeError: one is no integer.
      ArgumentError: one is out of range, or names the same argument as another.
    """
    numbers = positions(argnums, n_args, what)
    if len(set(numbers)) != len(numbers):
        raise ArgumentError(f"{what}={argnums} names an argument twice. Name each once.")
    return numbers


def named_like(wrapper: Any, fun: Callable[..., Any]) -> Any:
    """`functools.wraps`, for callables of every kind: the wrapper has the name, the documentation, the annotations and
    the attributes of the function.

    A callable object without a name has that of its class, a `functools.partial` that of its function. Attributes that
    the wrapper has already, by itself or by its class, are not replaced.
    """
    wrapper.__name__ = wrapper.__qualname__ = function_name(fun)
    for attribute in ("__qualname__", "__module__"):
        value = getattr(fun, attribute, None)
        if isinstance(value, str):
            setattr(wrapper, attribute, value)
    wrapper.__doc__ = getattr(fun, "__doc__", None)
    annotations = getattr(fun, "__annotations__", None)
    wrapper.__annotations__ = annotations if isinstance(annotations, dict) else {}
    attributes = getattr(fun, "__dict__", None)
    if attributes and not isinstance(fun, type):
        kind = type(wrapper)
        for key, value in attributes.items():
            if key not in wrapper.__dict__ and not hasattr(kind, key):
                wrapper.__dict__[key] = value
    wrapper.__wrapped__ = fun
    return wrapper


def with_static(fun: Callable[..., Any], static: Sequence[int], args: Sequence[Any]) -> Callable[..., Any]:
    """`fun` as a function of its other arguments, those at `static` being filled in from `args`."""
    if not static:
        return fun

    def partially_applied(*dynamic: Any, **kwargs: Any) -> Any:
        values = iter(dynamic)
        return fun(*(x if i in static else next(values) for i, x in enumerate(args)), **kwargs)

    function = named_like(partially_applied, fun)
    setattr(function, _STATIC, tuple(static))
    return function


_STATIC = "__xpr_static__"  # the attribute of such a function that has the positions of the arguments filled in

"""Python functions as the callbacks of a program: between the user's function of pytrees and flat NumPy arrays.

The function of a callback primitive is called as `callback(values, avals)`, with NumPy arrays that it may keep and the
types of its results, and returns a list of NumPy arrays of these types. `HostCall` is a user's function, `EachRow` the
same function called for one row of mapped arrays after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend.array import Array, from_host, from_words
from xpr.backend.callbacks import callback_error
from xpr.backend.operands import host_value
from xpr.control.tracing import type_differences
from xpr.core.avals import ShapedArray, aval_of, describe, is_key, same_types
from xpr.core.interpreter import Tracer, at_the_bottom
from xpr.core.source import describe_function, function_name
from xpr.errors import TreeMismatch
from xpr.primitives.random_keys import random_unwrap
from xpr.text.parameters import Hole

FlatCallback = Callable[[Sequence[np.ndarray], Sequence[ShapedArray]], list[np.ndarray]]


class HostCall:
    """A user's function; it is called with `xpr.Array`s for those of its `leaves` that are `OPERAND`.

    `verb` is the name of the operation, for messages. `out_tree` is the structure that its result must have, None if
    the result is not used.
    """

    __slots__ = ("__name__", "function", "in_tree", "leaves", "out_tree", "verb")

    def __init__(self, verb: str, function: Callable[..., Any], in_tree: Any, leaves: Sequence[Any], out_tree: Any):
        if not callable(function):
            raise TypeError(f"{verb} takes a callable, and got {describe(function)}.")
        self.verb, self.function, self.in_tree, self.out_tree = verb, function, in_tree, out_tree
        self.leaves = leaves
        self.__name__ = function_name(function)

    def __call__(self, values: Sequence[np.ndarray], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
        arrays = iter(values)
        leaves = [
            from_host(next(arrays)) if leaf is OPERAND
            else from_words(next(arrays), leaf.dtype) if type(leaf) is KeyOperand
            else leaf
            for leaf in self.leaves
        ]  # fmt: skip
        args, kwargs = tree.unflatten_sorted(self.in_tree, leaves)
        try:
            result = self.function(*args, **kwargs)
        except Exception as error:
            raise callback_error(error, f"{type(error).__name__}: {error}") from error
        try:
            return [] if self.out_tree is None else self.checked(result, avals)
        except (TreeMismatch, TypeError) as error:
            raise callback_error(error, str(error)) from None

    def checked(self, result: Any, avals: Sequence[ShapedArray]) -> list[np.ndarray]:
        """The leaves of a result, in NumPy; they are arranged as the declared ones.

        Raises:
          TreeMismatch: it has not as many leaves as were declared.
          TypeError: a leaf has another type than was declared, or is no array.
        """
        leaves, structure = tree.flatten(result)
        if len(leaves) != self.out_tree.num_leaves:
            raise TreeMismatch(
                f"{self.verb}: the callback must give as many arrays as were declared.\n"
                f"  declared   {self.out_tree}\n  given      {structure}\n"
                f"  the callback is {describe_function(self.function)}"
            )
        values = [_as_numpy(x, aval) for x, aval in zip(leaves, avals)]
        actual = [aval_of(x) for x in values]
        if not same_types(avals, actual):
            lines = "\n".join(type_differences("result", self.out_tree, avals, actual, ("declared", "given")))
            raise TypeError(
                f"{self.verb}: the callback must give a result of the types that were declared.\n{lines}\n"
                f"  the callback is {describe_function(self.function)}\n"
                "  Convert the result (np.asarray(x, dtype), x.reshape), or change result_shape_dtypes."
            )
        return values


OPERAND: Any = object()  # stands for an array among the leaves of a call


class KeyOperand:
    """Stands for random keys of a dtype among the leaves of a call; the operand is an array of their words."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any):
        self.dtype = dtype


def _as_numpy(x: Any, aval: ShapedArray) -> np.ndarray:
    """A result in NumPy, of the types that are enabled; a Python number has the declared type."""
    if isinstance(x, Tracer):
        raise TypeError(f"A callback gave {describe(x)}, which has no value.")
    if type(x) is Array:
        return np.asarray(x.host)
    if type(x) in (bool, int, float, complex):
        return np.asarray(x, aval.dtype)
    value = np.asarray(x)
    return value.astype(dtypes.canonical(value.dtype), copy=False)


def flat_callback(callback: Any, num_operands: int, num_results: int) -> FlatCallback:
    """The function of a callback primitive, as a `FlatCallback`.

    A function that the user substituted for a hole of a printed jaxpr is called with the operands as arguments, and
    returns the result, or a tuple of several results.
    """
    if isinstance(callback, (HostCall, EachRow, Hole)):
        return callback
    in_tree = tree.structure(((0,) * num_operands, {}))
    out_tree = tree.structure((0,) * num_results if num_results > 1 else 0) if num_results else None
    return HostCall("callback", callback, in_tree, [OPERAND] * num_operands, out_tree)


class EachRow:
    """A callback called for one row after another of the arrays that are mapped along `dims`."""

    __slots__ = ("__name__", "callback", "dims", "size")

    def __init__(self, callback: FlatCallback, size: int, dims: Sequence[int | None]):
        self.callback, self.size, self.dims = callback, size, tuple(dims)
        self.__name__ = f"{getattr(callback, '__name__', 'callback')} of each row"

    def __call__(self, values: Sequence[np.ndarray], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
        row_avals = [a.update(shape=a.shape[1:]) for a in avals]
        results = [np.zeros(a.shape, a.dtype) for a in avals]
        rows = [x if d is None else np.moveaxis(x, d, 0) for x, d in zip(values, self.dims)]
        for i in range(self.size):
            row_values = [np.array(x if d is None else x[i]) for x, d in zip(rows, self.dims)]
            for result, row in zip(results, self.callback(row_values, row_avals)):
                result[i] = row
        return results


def flatten_call(
    verb: str,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    out_tree: Any,
    is_operand: Callable[[Any], bool],
) -> tuple[HostCall, list[Any]]:
    """A call of a user's function, and its operands: the leaves of the arguments for which `is_operand` holds.

    Of random keys the words are the operands. Other leaves are passed on as they are.
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    flags = [is_operand(x) for x in leaves]
    static_leaves, operands = list(leaves), []
    for i, (x, flag) in enumerate(zip(leaves, flags)):
        if flag:
            is_keys = is_key(aval_of(x))
            static_leaves[i] = KeyOperand(x.dtype) if is_keys else OPERAND
            operands.append(random_unwrap(x) if is_keys else x)
    return HostCall(verb, function, in_tree, static_leaves, out_tree), operands


def anything(x: Any) -> bool:
    """For `flatten_call`: all leaves are operands, and those that are no arrays raise a TypeError."""
    return True


def is_array(x: Any) -> bool:
    """For `flatten_call`: arrays and numbers."""
    try:
        aval_of(x)
    except (TypeError, OverflowError):
        return False
    return True


def call_now(callback: FlatCallback, args: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Array]:
    """The results of a callback on arrays, called in this thread."""
    values = [np.array(host_value(x, aval_of(x))) for x in args]
    with at_the_bottom():
        results = callback(values, avals)
    return [Array(aval, x) for aval, x in zip(avals, results)]

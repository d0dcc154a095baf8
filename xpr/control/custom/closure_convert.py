"""closure_convert and custom_gradient: differentiation rules for functions that close over traced values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.custom.custom_vjp import custom_vjp
from xpr.control.groups import merge, partition, split_list
from xpr.control.tracing import trace_body, type_differences
from xpr.core.avals import aval_of, is_differentiable, same_type, same_types
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.core.source import describe_function
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, named_like
from xpr.transforms.stage import stage
from xpr.tree_nodes import Partial


@boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function that takes as arguments the differentiable values that another function closes over.

    For functions passed to a function with a custom rule: the values that they close over become arguments, which
    the rule can treat. Only traced values of inexact dtype become arguments; all others stay in the closure.

    Args:
      fun: takes and returns pytrees of arrays.
      *example_args: arguments of the types that it will be called with.

    Returns:
      `(function of (*args, *values), values)`.

    Raises:
      TypeError: the function is called with arguments of other types than the examples'.

    >>> import xpr
    >>> def outer(y):
    ...     converted, values = xpr.closure_convert(lambda x: x * y, 1.0)
    ...     return converted(2.0, *[10 * value for value in values])
    >>> xpr.grad(outer)(3.0)
    Array(20., dtype=float32, weak_type=True)
    """
    leaves, args_tree = tree.flatten(example_args)
    avals = [aval_of(x) for x in leaves]
    in_tree = tree.structure((example_args, {}))
    body = trace_body(fun, in_tree, avals, "the function given to closure_convert")
    moved = [isinstance(c, Tracer) and is_differentiable(c.aval) for c in body.consts]
    values, fixed = partition(body.consts, moved)
    jaxpr, count = body.closed.jaxpr, len(example_args)

    def converted(*args: Any) -> Any:
        arguments, consts = split_list(args, count)
        leaves, structure = tree.flatten(tuple(arguments))
        what = f"closure_convert: {describe_function(fun)} must be called with arguments like the examples"
        tree.check_same_structure(args_tree, structure, what, name="args")
        actual_avals = [aval_of(x) for x in leaves]
        if not same_types(avals, actual_avals):
            lines = type_differences("args", args_tree, avals, actual_avals, ("example", "given"), same_type)
            raise TypeError("\n".join([f"{what}:", *lines]))
        if len(args) - count != len(values):
            raise TypeError(
                f"The inputs to the closure produced by closure_convert are the {count} arguments of "
                f"{describe_function(fun)}, and {len(values)} values of what it closed over; {len(args) - count} of "
                "these were given."
            )
        return tree.unflatten(body.out_tree, eval_jaxpr(jaxpr, merge(consts, fixed, moved), *leaves))

    return named_like(converted, fun), values


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function defined by another one that returns its result and its vjp.

    Args:
      fun: returns a pair (result, vjp), where `vjp(ct)` maps a cotangent of the result to a tuple of cotangents, one
        for each argument; for a function of one argument, it may return that cotangent alone.

    >>> import xpr
    >>> @xpr.custom_gradient
    ... def square(x):
    ...     return x**2, lambda ct: (ct * x,)
    >>> xpr.grad(square)(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def primal(*args: Any, **kwargs: Any) -> Any:
        return _pair(fun, args, kwargs)[0]

    def fwd(*args: Any, **kwargs: Any) -> Any:
        out, rule = _pair(fun, args, kwargs)
        avals = [aval_of(x).to_tangent_aval() for x in tree.leaves(out)]
        flat = FlatFunction(rule, tree.structure(((out,), {})))
        closed = stage(flat, avals)
        pull = _Pull(closed.jaxpr, flat.out_tree, len(args))
        return out, Partial(pull, *closed.consts)

    wrapped = custom_vjp(named_like(primal, fun))
    wrapped.defvjp(fwd, lambda pull, ct: pull(ct))
    return wrapped


def _pair(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    pair = fun(*args, **kwargs)
    if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
        raise TypeError(
            f"custom_gradient: {describe_function(fun)} must return (result, function of a cotangent); "
            f"it returned {pair!r}."
        )
    return pair


class _Pull:
    """A vjp as a jaxpr of the values that it closes over and the leaves of a cotangent."""

    __slots__ = ("jaxpr", "out_tree", "count")

    def __init__(self, jaxpr: Jaxpr, out_tree: Any, count: int):
        self.jaxpr, self.out_tree, self.count = jaxpr, out_tree, count

    def __call__(self, *values: Any) -> Any:
        *consts, ct = values
        cts = tree.unflatten(self.out_tree, eval_jaxpr(self.jaxpr, consts, *tree.leaves(ct)))
        return (cts,) if self.count == 1 and not (isinstance(cts, (tuple, list)) and len(cts) == 1) else cts

"""reroll: turns the unrolled layers of a function into a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import trace_function
from xpr.control.reroll.reroll import LEAST
from xpr.control.reroll.reroll import reroll as reroll_jaxpr
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.source import check_function
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import named_like


def reroll(fun: Callable[..., Any], least: int = LEAST) -> Callable[..., Any]:
    """Turns layers that a Python loop unrolled into one `scan`.

    A deep network then compiles as fast as a single layer; so does its gradient, if the function that is differentiated
    is the rerolled one. What the layers don't share, their parameters, is stacked at each call, which copies it. `fun`
    is traced at each call: use it inside `jit`.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays, which must be traceable.
      least: the least number of repetitions for a loop, at least 3.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: `fun` is no function.
      ValueError: when called, `least` is less than 3.

    >>> import xpr, xpr.numpy as jnp
    >>> def f(x):
    ...     for _ in range(48):
    ...         x = jnp.sin(x) + x
    ...     return x
    >>> len(xpr.make_jaxpr(f)(1.0).eqns), len(xpr.make_jaxpr(xpr.reroll(f))(1.0).eqns)
    (96, 1)
    >>> xpr.jit(xpr.reroll(f))(1.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """
    check_function(fun, "reroll")

    def rolled(*args: Any, **kwargs: Any) -> Any:
        closed, out_tree = trace_function(fun, args, kwargs, "rerolled")
        smaller = reroll_jaxpr(closed, least)
        return tree.unflatten(out_tree, eval_jaxpr(smaller.jaxpr, smaller.consts, *tree.leaves((args, kwargs))))

    return named_like(boundary(rolled), fun)

"""fwd_and_bwd: a function's forward and backward pass as two functions that are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.api.grad import vjp
from xpr.api.jit import jit
from xpr.core.source import check_function
from xpr.transforms.flat import argument_numbers, distinct_positions, named_like


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function, each compiled once and used for many arguments.

    `vjp` in a loop, outside of `jit`, gives another function from cotangents in each iteration, which `jit` would
    compile each time; here the residuals are an argument.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      argnums: the positional arguments to differentiate, an integer or a sequence of integers.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      jitted: whether both are compiled with `jit`.

    Returns:
      `(fwd, bwd)`: `fwd(*args)` gives `(result, residuals)`, followed by the auxiliary data with `has_aux`, and
      `bwd(residuals, ct)` the cotangent of the argument `argnums`, a tuple of them for a sequence `argnums`.

    Raises:
      TypeError: `fun` is no function, or `argnums` holds something else than integers.
      ValueError: a number is out of range for a call.

    >>> import xpr, xpr.numpy as jnp
    >>> fwd, bwd = xpr.fwd_and_bwd(lambda x, w: jnp.sin(x) * w, argnums=1)
    >>> y, residuals = fwd(0.0, jnp.ones(2))
    >>> bwd(residuals, jnp.ones(2))
    Array([0., 0.], dtype=float32)
    """
    check_function(fun, "fwd_and_bwd")
    chosen = argument_numbers(argnums, "fwd_and_bwd: argnums")

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        numbers = distinct_positions(chosen, len(args), "fwd_and_bwd: argnums")

        def of_chosen(*xs: Any) -> Any:
            every = list(args)
            for n, x in zip(numbers, xs):
                every[n] = x
            return fun(*every, **kwargs)

        return vjp(of_chosen, *[args[n] for n in numbers], has_aux=has_aux)

    def bwd(residuals: Callable[[Any], Any], ct: Any) -> Any:
        cotangents = residuals(ct)
        return cotangents[0] if isinstance(chosen, int) else cotangents

    fwd = named_like(fwd, fun)
    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)

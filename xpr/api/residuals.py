"""The residuals of a gradient, and the predicted memory of a program, by tracing without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import dtypes, tree
from xpr.api.make_jaxpr import shaped, trace_function
from xpr.control.remat.memory import PredictedMemory, predict_memory
from xpr.control.remat.policies import name_p
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, Literal, used_vars
from xpr.core.lines import with_lines
from xpr.core.regions import called_jaxpr
from xpr.core.source import check_function, summarize_position
from xpr.passes.dce import dce_jaxpr
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, signature_of
from xpr.transforms.linearize import linearize_flat
from xpr.transforms.stage import stage


@boundary
def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapedArray, str]]:
    """The values that differentiating a function stores in the forward pass for the backward pass.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      *args: arrays, or anything with a shape and a dtype; those of inexact dtype are differentiated.
      **kwargs: likewise.

    Returns:
      A list of `(type, source)`: the source is an argument, a constant, or an operation and its line.

    Raises:
      TypeError: `fun` is no function.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.ad_checkpoint import saved_residuals
    >>> weights = jnp.ones(3)
    >>> saved_residuals(lambda x: x * weights, 2.0)
    [(ShapedArray(float32[3]), 'from a constant')]
    """
    check_function(fun, "saved_residuals")
    leaves, in_tree = tree.flatten((args, kwargs))
    avals = [shaped(x) for x in leaves]
    flat = FlatFunction(fun, in_tree)

    def residuals(*xs: Any) -> list[Any]:
        _, linear, _ = linearize_flat(flat, xs, [a.dtype in dtypes.INEXACT for a in avals])
        live, _ = dce_jaxpr(linear.jaxpr, [True] * len(linear.jaxpr.outvars))
        read = used_vars(live)
        return [x for x, v in zip(linear.consts, linear.jaxpr.constvars) if v in read]

    signature = signature_of("linearized by saved_residuals", fun, args, kwargs)
    jaxpr = with_lines(stage(residuals, avals, signature).jaxpr)
    origins: dict[Any, str] = dict.fromkeys(jaxpr.constvars, "from a constant")
    origins.update((v, f"from the argument {name}") for v, name in zip(jaxpr.invars, signature.arguments()))
    order = {v: i for i, v in enumerate([*origins, *(v for eqn in jaxpr.eqns for v in eqn.outvars)])}
    saved = sorted({v for v in jaxpr.outvars if type(v) is not Literal}, key=order.__getitem__)
    producers = _Producers(jaxpr)
    return [(v.aval, origins[v] if v in origins else producers.origin(v)) for v in saved]


@boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints the values that differentiating a function stores: the type and source of each.

    Args:
      f: a function of pytrees of arrays to a pytree of arrays.
      *args: arrays, or anything with a shape and a dtype; those of inexact dtype are differentiated.
      **kwargs: likewise.

    Returns:
      None.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.ad_checkpoint import print_saved_residuals
    >>> def layer(w, x):
    ...     return jnp.sin(w @ x)
    >>> print_saved_residuals(layer, jnp.ones((2, 3)), jnp.ones(3))  # doctest: +ELLIPSIS
    f32[2,3] from the argument w
    f32[3] from the argument x
    f32[2] output of cos from ...
    >>> print_saved_residuals(xpr.checkpoint(layer), jnp.ones((2, 3)), jnp.ones(3))
    f32[2,3] from the argument w
    f32[3] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(aval.str_short(), origin)


class _Producers:
    """The equations of a jaxpr by the variables that they compute, and by those that they name (`checkpoint_name`)."""

    def __init__(self, jaxpr: Jaxpr):
        self.equations = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        named = [eqn for eqn in jaxpr.eqns if eqn.primitive is name_p]
        self.named = {v: eqn for eqn in reversed(named) for v in (*eqn.invars, *eqn.outvars)}
        self.inner: dict[Jaxpr, _Producers] = {}

    def origin(self, var: Any) -> str:
        """The operation that computed a variable, in the jaxpr or in one that it calls, and its line."""
        if var in self.named:
            eqn = self.named[var]
            return f"named {eqn.params['name']!r} from {summarize_position(eqn.source)}"
        eqn = self.equations[var]
        called = called_jaxpr(eqn)
        if called is not None:
            if called not in self.inner:
                self.inner[called] = _Producers(called)
            producers, inner_var = self.inner[called], called.outvars[list(eqn.outvars).index(var)]
            if inner_var in producers.equations:
                return producers.origin(inner_var)
        return f"output of {eqn.primitive.name} from {summarize_position(eqn.source)}"


@boundary
def predicted_memory(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> PredictedMemory:
    """The bytes that the compiled program of `fun` will take, predicted from its jaxpr without compiling it.

    To see what rematerialization does, ask for a gradient: `predicted_memory(xpr.grad(loss), params, batch)`. The
    compiler's own numbers are `jit(...).lower(...).compile().memory_analysis()`. The prediction is a model of XLA's
    fusion on CPU, and is best for networks, whose memory is that of operands of products. Where everything is
    elementwise, XLA may fuse very differently.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      *args: arrays, or anything with a shape and a dtype.
      **kwargs: likewise.

    Returns:
      A `PredictedMemory`: the bytes of arguments, results and temporaries, and `peak`, their sum.

    Raises:
      TypeError: `fun` is no function.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.ad_checkpoint import predicted_memory
    >>> def layer(w, x):
    ...     return jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w) @ w)
    >>> def gradient(layer):
    ...     return xpr.grad(lambda w, x: layer(w, layer(w, layer(w, layer(w, x)))).sum())
    >>> w, x = jnp.ones((8, 8)), jnp.ones((1000, 8))
    >>> print(predicted_memory(gradient(layer), w, x))
    0.449 MB (arguments 0.0323 MB, results 0.000256 MB, temporaries 0.416 MB)
    >>> print(predicted_memory(gradient(xpr.checkpoint(layer)), w, x))
    0.321 MB (arguments 0.0323 MB, results 0.000256 MB, temporaries 0.289 MB)
    """
    check_function(fun, "predicted_memory")
    closed, _ = trace_function(fun, args, kwargs, "staged by predicted_memory")
    return predict_memory(closed.jaxpr)

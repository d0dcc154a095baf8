"""checkpoint (rematerialization): a call that, differentiated, keeps little of its forward pass and computes it again.

Operands are laid out as the jaxpr's invars; it has no constants, whatever the function closed over is among the
operands. Linearizing it splits its jaxpr as that of any call is split; then, instead of handing every residual from the
first half to the second, the second computes them:

    forward:   arguments -> results, saved values
    linear:    arguments, saved values, tangents -> { the residuals again; the linear program } -> tangents

The saved values are those that the policy allows and from which the residuals can be had. The linear half is one
equation of this same primitive (`differentiated=True`), so its transpose computes the residuals right where the
cotangents arrive. Griewank and Walther, "Evaluating Derivatives" (2008), ch. 12, has the theory; Chen et al., "Training
deep nets with sublinear memory cost" (2016), arXiv:1604.06174, what it does for networks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import EvalTrace, reference_eval, run_jaxpr
from xpr.compile.lower import lower_call
from xpr.config import settings
from xpr.control.remat.partial_eval import split_jaxpr
from xpr.control.remat.policies import Policy
from xpr.control.split_results import split_results
from xpr.control.tracing import trace_body
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import Region, whole_call
from xpr.core.source import describe_function
from xpr.passes.dce import dce_call
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import named_like, with_static
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.transpose import transpose_jaxpr

# -- The primitive. Every rule but linearization turns the jaxpr into another and calls that in the same way.


def _bind(closed: ClosedJaxpr, operands: Sequence[Any], like: dict[str, Any]) -> list[Any]:
    return checkpoint_p.bind(*closed.consts, *operands, **{**like, "jaxpr": constvars_to_invars(closed)})


def _abstract(avals: Sequence[ShapedArray], *, jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    wanted = jaxpr.in_avals
    if len(avals) != len(wanted) or any(a.shape != w.shape or a.dtype != w.dtype for a, w in zip(avals, wanted)):
        given, taken = (", ".join(a.str_short() for a in types) for types in (avals, wanted))
        raise TypeError(f"checkpoint: the jaxpr takes ({taken}) and was given ({given}).")
    return jaxpr.out_avals


def _lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    jaxpr: Jaxpr,
    policy: Policy | None,
    prevent_cse: bool,
    differentiated: bool,
) -> list[Value]:
    """A call; one that computes again what the forward pass did is kept apart from it.

    XLA would otherwise find that both compute the same, and keep the results of the first. XLA:CPU removes optimization
    barriers before it looks for that, but does not look into a call that it is told not to inline.
    """
    apart = differentiated and prevent_cse
    if apart and b.platform != "cpu":
        operands = b.ops("stablehlo.optimization_barrier", operands, [v.aval for v in operands])
    return lower_call(b, jaxpr, operands, "checkpoint", inline=not apart or b.platform != "cpu")


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Calls the jvp of the jaxpr."""
    jaxpr = params["jaxpr"]
    closed, out_active = jvp_jaxpr(jaxpr, tuple([type(t) is not Zero for t in tangents]))
    results = _bind(closed, [*primals, *(t for t in tangents if type(t) is not Zero)], params)
    n = len(out_active)
    return results[:n], with_zeros(results[n:], out_active, jaxpr.out_avals)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs the forward half, and writes into the linear program a call that computes the residuals again."""
    jaxpr = params["jaxpr"]
    split = split_jaxpr(jaxpr, tuple([type(t) is not Zero for t in tangents]), params["policy"])
    operands = [*split.constants, *primals]
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if type(trace.parent) is EvalTrace:
            given = run_jaxpr(split.forward, operands, "checkpoint")
        else:
            given = eval_jaxpr(split.forward, (), *operands)
    n = len(jaxpr.outvars)
    outs, saved = given[:n], given[n:]
    if not any(split.active_outs):
        return outs, with_zeros([], split.active_outs, jaxpr.out_avals)
    active = [t for t in tangents if type(t) is not Zero]
    again = {**params, "jaxpr": split.linear, "differentiated": True}
    out_tangents = checkpoint_p.bind(*(operands[i] for i in split.needed), *saved, *active, **again)
    return outs, with_zeros(out_tangents, split.active_outs, jaxpr.out_avals)


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    """Calls the transposed jaxpr, which computes the residuals first."""
    is_linear = tuple([type(x) is Linear for x in operands])
    closed, reached = transpose_jaxpr(params["jaxpr"], is_linear, tuple([type(ct) is not Zero for ct in cts]))
    known = [x for x in operands if type(x) is not Linear]
    given = iter(_bind(closed, [*known, *(ct for ct in cts if type(ct) is not Zero)], params))
    found = iter([next(given) if has else None for has in reached])
    return [next(found) if linear else None for linear in is_linear]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """Calls the mapped jaxpr."""
    closed, out_dims = batch_jaxpr(params["jaxpr"], size, tuple(dims), axis_name)
    return _bind(closed, values, params), out_dims


def _threaded(state: Any, thread: Any, values: Sequence[Any], **params: Any) -> Any:
    outs = checkpoint_p.bind(*state, *values, **{**params, "jaxpr": thread(params["jaxpr"])})
    return outs[: len(state)], outs[len(state) :]


def _regions(*, jaxpr: Jaxpr, prevent_cse: bool, differentiated: bool, **params: Any) -> list[Region]:
    """What is to be computed again, and not to be found equal to what was computed before, stays apart."""
    return whole_call(jaxpr, inlined="never" if differentiated and prevent_cse else "compiled")


checkpoint_p = register(
    Primitive(
        "checkpoint",
        abstract=_abstract,
        params=("jaxpr", "policy", "prevent_cse", "differentiated"),
        reference=lambda values, *, jaxpr, **params: reference_eval(jaxpr, (), *values),
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        linearize=_linearize,
        batch_named=_batch_named,
        evaluate=lambda args, params: run_jaxpr(params["jaxpr"], args, "checkpoint"),
        dce=partial(dce_call, "jaxpr"),
        split=split_results,
        threaded=_threaded,
        multiple_results=True,
        regions=_regions,
        call=True,
    )
)

# -- What users call


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: bool = False,
) -> Callable[..., Any]:
    """`fun`, which when differentiated computes its intermediate values again instead of keeping them.

    Without it, reverse mode keeps from the forward pass whatever the backward pass needs, of every operation. With it
    the arguments of `fun` are kept, and what the policy allows; the rest is computed a second time when the cotangents
    arrive. Values and gradients are the same.

    Args:
      fun: takes and gives pytrees of arrays; it is traced, as `jit` traces.
      prevent_cse: keep the compiler from merging the second computation with the first. Only a loop's body may do
        without: there the two are in different loops anyway. A sequence says it by argument; one True is enough.
      policy: `policy(primitive, *avals, **params) -> bool` says of an operation whether its results may be kept, see
        `checkpoint_policies`. None: nothing may.
      static_argnums: positional arguments to pass on to `fun` as they are.
      static_argnames: keyword arguments to pass on to `fun` as they are.
      concrete: an option that JAX had; only False is possible.
    Returns:
      A function of the same arguments giving the same results.
    Raises:
      NotImplementedError: `concrete` is True.
      ConcretizationTypeError: when called, where `fun` needs the value of an argument that isn't static.

    >>> import xpr, xpr.numpy as jnp
    >>> f = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> xpr.value_and_grad(f)(2.0)
    (Array(0.7890724, dtype=float32, weak_type=True), Array(-0.2556391, dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise TypeError(f"checkpoint takes a function, and got {fun!r}.")
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint: the policy must be a function such as those of xpr.checkpoint_policies, not {policy!r}."
        )
    if concrete:
        raise NotImplementedError(
            "checkpoint: concrete=True is gone, as in JAX. Mark the arguments that Python control flow needs to know "
            "static (static_argnums), or compute what it asks for outside and close over it."
        )
    kept_apart = any(tree.leaves(prevent_cse))
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    if numbers and not names:
        names = _names_of(fun, numbers)

    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        if settings.disable_jit:
            return fun(*args, **kwargs)
        static = _static_positions(fun, numbers, len(args))
        static_kwargs = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        dynamic = tuple([x for i, x in enumerate(args) if i not in static])
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        avals = tuple([aval_of(x) for x in leaves])
        known = (*((i, type(args[i]), args[i]) for i in static), *sorted(static_kwargs.items()))
        of_dynamic = with_static(fun, static, args)
        if static_kwargs:
            of_dynamic = _with_keywords(of_dynamic, static_kwargs)
        body = trace_body(of_dynamic, in_tree, avals, "rematerialized by checkpoint", owner=fun, static=known)
        like = {"differentiated": False, "policy": policy, "prevent_cse": kept_apart}
        return tree.unflatten(body.out_tree, _bind(body.closed, leaves, like))

    return named_like(boundary(rematerialized), fun)


remat = checkpoint


def _static_positions(fun: Callable[..., Any], numbers: Sequence[int], n_args: int) -> list[int]:
    wrong = [n for n in numbers if not isinstance(n, int)]
    if wrong:
        raise TypeError(f"checkpoint: static_argnums are integers, and {wrong[0]!r} is none.")
    if any(n < -n_args for n in numbers):
        raise ValueError(
            f"checkpoint: static_argnums={tuple(numbers)} is out of range for {describe_function(fun)}, called with "
            f"{n_args} positional arguments."
        )
    return [n % n_args for n in numbers if n < n_args]


def _names_of(fun: Callable[..., Any], numbers: Sequence[int]) -> set[str]:
    """The names of static parameters, which may be given by keyword."""
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return set()
    return {parameters[n] for n in numbers if -len(parameters) <= n < len(parameters)}


def _with_keywords(fun: Callable[..., Any], static: dict[str, Any]) -> Callable[..., Any]:
    return named_like(lambda *args, **kwargs: fun(*args, **kwargs, **static), fun)

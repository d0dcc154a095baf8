"""checkpoint (rematerialization): a call whose backward pass recomputes residuals that are otherwise saved.

Linearizing it splits its jaxpr like that of any call; then, instead of passing every residual from the first
half to the second, the second half recomputes them:

    forward:   arguments -> results, saved values
    linear:    arguments, saved values, tangents -> { the residuals again; the linear program } -> tangents

The saved values are those that the policy allows and from which the residuals can be computed. The linear half is one
equation of this same primitive (`differentiated=True`), so its transpose recomputes the residuals where the
cotangents arrive. Griewank and Walther, "Evaluating Derivatives" (2008), ch. 12, has the theory; Chen et al., "Training
deep nets with sublinear memory cost" (2016), arXiv:1604.06174, applies it to networks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.compile.lower import lower_call
from xpr.config import settings
from xpr.control.call_family import NO_SPECS, InOutSpecs, JaxprCall, Specs, call_family
from xpr.control.groups import mask, merge, partition, split_list
from xpr.control.refs import call_on_values, check_aliases
from xpr.control.remat.partial_eval import split_jaxpr
from xpr.control.remat.policies import Policy
from xpr.control.remat.residual_log import log_saved
from xpr.control.split_results import split_results
from xpr.control.tracing import trace_body
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, eval_jaxpr, subjaxprs
from xpr.core.primitive import with_impl
from xpr.core.regions import Region, whole_call
from xpr.core.source import check_function, describe_function
from xpr.passes.discharge import uses_of_refs
from xpr.transforms.boundary import boundary
from xpr.transforms.calls import Call
from xpr.transforms.flat import named_like
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.on_arrays import OnArrays, arrays_in

__all__ = ["checkpoint_p"]

# -- The primitive

Barriers = bool | tuple[bool, ...]  # whether operands are kept apart from the first computation, all alike or each


class _CheckpointCall(JaxprCall):
    """A checkpointed call. Where `prevent_cse` is a tuple, it has a flag for each operand, which specs stand for."""

    def operation(
        self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs = (), out_specs: Specs = ()
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        every, params = super().operation(closed, operands)
        if type(params["prevent_cse"]) is tuple:
            params["prevent_cse"] = (*[True] * len(closed.consts), *(in_specs or params["prevent_cse"]))
        return every, params

    def jvp_specs(self, is_active: Sequence[bool], out_active: Sequence[bool]) -> InOutSpecs:
        flags = self.params["prevent_cse"]
        return ((*flags, *mask(flags, is_active)), ()) if type(flags) is tuple else NO_SPECS

    def transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], is_linear: Sequence[bool],
        has_ct: Sequence[bool], affected: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        flags = self.params["prevent_cse"]
        if type(flags) is tuple:
            flags = (*partition(flags, is_linear)[1], *[True] * len(cts))
            return self.bind(closed, [*known, *cts], flags)
        return self.bind(closed, [*known, *cts])

    def array_specs(self, program: OnArrays) -> InOutSpecs:
        flags = self.params["prevent_cse"]
        if type(flags) is not tuple:
            return NO_SPECS
        return [flag for flag, aval in zip(flags, program.in_avals) for _ in arrays_in([aval])], ()

    def smaller(self, jaxpr: Jaxpr, inputs: Sequence[bool], used: Sequence[bool]) -> dict[str, Any]:
        params, flags = super().smaller(jaxpr, inputs, used), self.params["prevent_cse"]
        return {**params, "prevent_cse": tuple(mask(flags, inputs))} if type(flags) is tuple else params

    def threaded(self, state: Sequence[Any], thread: Any, values: Sequence[Any]) -> Any:
        flags = self.params["prevent_cse"]
        specs = (*[True] * len(state), *flags) if type(flags) is tuple else ()
        return split_list(self.bind(ClosedJaxpr(thread(self.jaxpr)), [*state, *values], specs), len(state))


def _lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    jaxpr: Jaxpr,
    policy: Policy | None,
    prevent_cse: Barriers,
    differentiated: bool,
) -> list[Value]:
    """A call; one that recomputes values of the forward pass must not be merged with it.

    Common subexpression elimination would otherwise replace it by the first results. A barrier prevents that; but
    XLA:CPU removes barriers before that pass, and does not look into a call that must not be inlined.
    """
    flags = prevent_cse if isinstance(prevent_cse, tuple) else (prevent_cse,) * len(operands)
    not_merged = differentiated and any(flags)
    if not_merged:
        apart, others = partition(operands, flags)
        operands = merge(b.ops("stablehlo.optimization_barrier", apart, [v.aval for v in apart]), others, flags)
    return lower_call(b, jaxpr, operands, "checkpoint", inline=not not_merged or b.platform != "cpu")


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs the forward half, and adds to the linear program a call that recomputes the residuals."""
    jaxpr = params["jaxpr"]
    is_active = tuple([type(t) is not Zero for t in tangents])
    split = split_jaxpr(jaxpr, is_active, params["policy"])
    operands = [*split.constants, *primals]
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if trace.parent.runs_known_calls:  # type: ignore[union-attr]  # likewise
            results = _run(split.forward, operands)
        else:
            results = eval_jaxpr(split.forward, (), *operands)
    n = len(jaxpr.outvars)
    outs, saved = split_list(results, n)
    if not any(split.active_outs):
        return outs, with_zeros([], split.active_outs, jaxpr.out_avals)
    log_saved(split.saved_inputs, split.forward, n)
    recomputing = {**params, "jaxpr": split.linear, "differentiated": True}
    arguments = [operands[i] for i in split.needed]
    if type(params["prevent_cse"]) is tuple:
        flags = [True] * len(split.constants) + [*params["prevent_cse"]]
        computed = (True,) * (len(saved) + sum(is_active))
        recomputing["prevent_cse"] = (*[flags[i] for i in split.needed], *computed)
    out_tangents = checkpoint_p.bind(*arguments, *saved, *mask(tangents, is_active), **recomputing)
    return outs, with_zeros(out_tangents, split.active_outs, jaxpr.out_avals)


def _run(jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """The results of a program: compiled, or equation by equation where primitives have evaluations of their own."""
    if with_impl and _any_has_impl(jaxpr):
        return eval_jaxpr(jaxpr, (), *operands)
    return run_jaxpr(jaxpr, operands, "checkpoint")


def _any_has_impl(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive in with_impl or any(map(_any_has_impl, subjaxprs(eqn))) for eqn in jaxpr.eqns)


def _regions(*, jaxpr: Jaxpr, prevent_cse: Barriers, differentiated: bool, **params: Any) -> list[Region]:
    """The jaxpr of the call; passes must not merge a recomputation with the first computation."""
    return whole_call(jaxpr, inlined="never" if differentiated and prevent_cse else "compiled")


checkpoint_p = call_family(
    "checkpoint",
    _CheckpointCall,
    params=("jaxpr", "policy", "prevent_cse", "differentiated"),
    lower=_lower,
    linearize=_linearize,
    evaluate=lambda args, params: _run(params["jaxpr"], args),
    split=split_results,
    regions=_regions,
)

# -- Public functions


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: bool = False,
) -> Callable[..., Any]:
    """A function that, when differentiated, computes its intermediate values again instead of storing them.

    Without it, reverse mode saves from the forward pass all residuals of every operation. With it the arguments of
    `fun` are saved, and the values that the policy allows; others are computed a second time when the cotangents
    arrive. Values and gradients are the same.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays; it is traced, as `jit` traces.
      prevent_cse: keep the compiler from merging the second computation with the first. It may be False only in a
        loop's body, as the two are in different loops anyway. A sequence has a bool, or a prefix of the argument's
        pytree of those, for each positional argument: those with False, as weights, may be read earlier. One True is
        enough.
      policy: `policy(primitive, *avals, **params) -> bool` says of an operation whether its results may be saved, see
        `checkpoint_policies`. None: nothing may.
      static_argnums: positional arguments to pass on to `fun` as they are.
      static_argnames: keyword arguments to pass on to `fun` as they are.
      concrete: must be False.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: the policy is no function, or `static_argnums` has something else than integers.
      NotImplementedError: `concrete` is True.
      ValueError: when called, where a static position is beyond the arguments, and `fun` has no parameter there.
      ConcretizationTypeError: when called, where `fun` needs the value of an argument that isn't static.

    >>> import xpr, xpr.numpy as jnp
    >>> f = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> xpr.value_and_grad(f)(2.0)
    (Array(0.7890724, dtype=float32, weak_type=True), Array(-0.2556391, dtype=float32, weak_type=True))
    """
    check_function(fun, "checkpoint")
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint: the policy must be a function such as those of xpr.checkpoint_policies, not {policy!r}."
        )
    if concrete:
        raise NotImplementedError(
            "checkpoint: concrete=True is gone, as in JAX. Mark the arguments that Python control flow needs to know "
            "static (static_argnums), or compute what it asks for outside and close over it."
        )
    flags = tree.leaves(prevent_cse)
    differ = any(flags) and not all(flags)
    numbers = tuple(static_argnums) if isinstance(static_argnums, Iterable) else (static_argnums,)
    if not all(isinstance(n, int) for n in numbers):
        raise TypeError(f"checkpoint: static_argnums are integers, and are {static_argnums!r}.")
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    parameters = _parameters(fun) if numbers else []
    if not names:  # static parameters may be given by keyword, too
        names = {parameters[n] for n in numbers if -len(parameters) <= n < len(parameters)}

    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        if settings.disable_jit:
            return fun(*args, **kwargs)
        static: dict[int | str, Any] = {i: args[i] for i in _static_positions(fun, numbers, len(args), len(parameters))}
        if names:
            static.update((name, kwargs[name]) for name in sorted(names & kwargs.keys()))
        call = Call(args, kwargs, static)
        body = trace_body(
            call.of_dynamic(fun), call.in_tree, list(map(aval_of, call.leaves)), "rematerialized by checkpoint",
            owner=fun, static=call.static_key(), refs=True,
        )  # fmt: skip
        jaxpr, operands = constvars_to_invars(body.closed), [*body.consts, *call.leaves]
        barriers = (*[True] * len(body.consts), *_flags_of_leaves(prevent_cse, call)) if differ else all(flags)
        params = {"jaxpr": jaxpr, "policy": policy, "prevent_cse": barriers, "differentiated": False}
        if uses_of_refs(jaxpr).any:
            check_aliases("checkpoint", fun, lambda: call.names(fun), call.leaves, body.consts)
        if uses_of_refs(jaxpr).used:
            outs = call_on_values(checkpoint_p, operands, params, "jaxpr")
        else:
            outs = checkpoint_p.bind(*operands, **params)
        return tree.unflatten(body.out_tree, outs)

    return named_like(boundary(rematerialized), fun)


remat = checkpoint


def _flags_of_leaves(prevent_cse: Any, call: Call) -> list[bool]:
    """The flag of each leaf, from those for positional arguments; True for leaves of other arguments."""
    args, kwargs = call.dynamic
    positional = split_list(prevent_cse, len(call.args))[0] if call.kwargs else prevent_cse
    prefix = tuple([flag for i, flag in enumerate(positional) if i not in call.static])
    flags = tree.flatten_prefix(prefix, args, "prevent_cse", verb="checkpoint")
    return [*map(bool, flags), *[True] * len(tree.leaves(kwargs))]


def _static_positions(fun: Callable[..., Any], numbers: Sequence[int], n_args: int, n_parameters: int) -> list[int]:
    """The positions of static arguments among those of a call; other parameters of `fun` may be given by keyword.

    Raises:
      ValueError: a number is out of range.
    """
    if not all(-n_args <= n < max(n_args, n_parameters) for n in numbers):
        raise ValueError(
            f"checkpoint: static_argnums={tuple(numbers)} is out of range for {describe_function(fun)}, called with "
            f"{n_args} positional arguments."
        )
    return [n % n_args for n in numbers if n < n_args]


def _parameters(fun: Callable[..., Any]) -> list[str]:
    """The names of the parameters; none where a function has no signature."""
    try:
        return list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return []

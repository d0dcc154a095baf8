"""custom_jvp and custom_vjp: functions that come with their own derivative rules.

The call of such a function is an operation like any other. Evaluated, it runs the function as it is, so Python control
flow sees values; staged, it is an equation that holds the function's jaxpr and the rule; differentiated, the rule runs.

`call_jaxpr` is the function of flat arguments: a Python callable until it is staged, a `Jaxpr` from then on. Operands
are `constants | arguments`; the first `num_consts` are what the jaxpr closed over and have no tangents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.control.xla_call import call_transpose
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import describe_function
from xpr.dtypes import float0
from xpr.errors import UnsupportedRule
from xpr.primitives.shapes import instantiate, mapped_to, reduce_sum
from xpr.transforms.batch import batch_flat
from xpr.transforms.flat import FlatFunction, named_like
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.lower import lower_eqns
from xpr.transforms.stage import stage

FlatFun = Callable[..., Sequence[Any]]


def _apply(call_jaxpr: Jaxpr | FlatFun, args: Sequence[Any]) -> list[Any]:
    return eval_jaxpr(call_jaxpr, (), *args) if isinstance(call_jaxpr, Jaxpr) else list(call_jaxpr(*args))


def _prepare(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The same call with its function as a jaxpr, what that closes over as leading operands."""
    if isinstance(params["call_jaxpr"], Jaxpr):
        return args, params
    n = params["num_consts"]
    closed = stage(params["call_jaxpr"], [aval_of(x) for x in args])
    operands = [*args[:n], *closed.consts, *args[n:]]
    jaxpr = constvars_to_invars(closed)
    k = len(closed.consts)
    jaxpr = jaxpr.replace(invars=[*jaxpr.invars[k : k + n], *jaxpr.invars[:k], *jaxpr.invars[k + n :]])
    return operands, {**params, "call_jaxpr": jaxpr, "num_consts": n + k}


def _abstract(avals: Sequence[ShapedArray], *, call_jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    return call_jaxpr.out_avals


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, **params: Any
) -> list[Value]:
    return lower_eqns(b, call_jaxpr, operands)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return _apply(params["call_jaxpr"], args)


def _transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, name: str, **params: Any
) -> list[Any]:
    return call_transpose(cts, operands, call_jaxpr=call_jaxpr, name=name)


def _rows_first(fun: FlatFun, size: int, dims: Sequence[int | None]) -> FlatFun:
    """A flat function mapped over `dims`, every result with its mapped axis in front."""

    def mapped(*args: Any) -> list[Any]:
        outs, out_dims = batch_flat(fun, size, args, dims)
        return [mapped_to(x, d, size) for x, d in zip(outs, out_dims)]

    return mapped


def _no_tangent_for_constants(tangents: Sequence[Any], n: int, name: str) -> None:
    if any(type(t) is not Zero for t in tangents[:n]):
        raise UnsupportedRule(
            f"{name}: a function with a custom derivative rule closes over a value that is being differentiated, and "
            "its rule says nothing of that value. Pass it as an argument."
        )


# -- custom_jvp


def _jvp_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    call_jaxpr: Jaxpr | FlatFun,
    jvp: FlatFun,
    name: str,
    num_consts: int,
) -> Any:
    """Runs the rule that the function came with."""
    _no_tangent_for_constants(tangents, num_consts, name)
    if all(type(t) is Zero for t in tangents):
        outs = _apply(call_jaxpr, primals)
        return outs, [Zero(aval_of(x).to_tangent_aval()) for x in outs]
    return jvp(primals[num_consts:], tangents[num_consts:])


def _jvp_batch(
    size: int,
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    call_jaxpr: Jaxpr | FlatFun,
    jvp: FlatFun,
    name: str,
    num_consts: int,
) -> Any:
    """The same call of the function mapped over rows, with the rule mapped over rows."""

    def run(*args: Any) -> list[Any]:
        return _apply(call_jaxpr, args)

    own_dims = list(dims[num_consts:])

    def batched_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        active = [type(t) is not Zero for t in tangents]
        given = [t for t in tangents if type(t) is not Zero]
        given_dims = [d for d, a in zip(own_dims, active) if a]
        zero_out: list[Zero | None] = []

        def rule(*args: Any) -> list[Any]:
            row_primals, rest = args[: len(primals)], iter(args[len(primals) :])
            row_tangents = [
                next(rest) if a else Zero(aval_of(p).to_tangent_aval()) for p, a in zip(row_primals, active)
            ]
            outs, out_tangents = jvp(row_primals, row_tangents)
            zero_out[:] = [t if type(t) is Zero else None for t in out_tangents]
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        results = _rows_first(rule, size, [*own_dims, *given_dims])(*primals, *given)
        n = len(zero_out)
        found = iter(results[n:])
        full = [next(found) if z is None else Zero(aval_of(x).to_tangent_aval()) for z, x in zip(zero_out, results[:n])]
        return results[:n], full

    outs = custom_jvp_call_p.bind(
        *values, call_jaxpr=_rows_first(run, size, dims), jvp=batched_jvp, name=name, num_consts=num_consts
    )
    return outs, [0] * len(outs)


custom_jvp_call_p = register(
    Primitive(
        "custom_jvp_call",
        abstract=_abstract,
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=_lower,
        jvp=_jvp_jvp,
        transpose=_transpose,
        batch=_jvp_batch,
        evaluate=_evaluate,
        prepare=_prepare,
        multiple_results=True,
        call=True,
    )
)


def _bound_arguments(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Positional arguments for a call, keyword arguments and defaults put in their places."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:
        if kwargs:
            raise TypeError(
                f"{describe_function(fun)} has a custom rule, and takes positional arguments only."
            ) from None
        return args
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{describe_function(fun)} has a custom derivative rule, and can't be called with keyword-only arguments "
            f"({', '.join(bound.kwargs)}). Make them positional."
        )
    return bound.args


class _CustomFunction:
    """What custom_jvp and custom_vjp share: splitting static from differentiable arguments, and flattening."""

    __call__: Callable[..., Any]

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        self.fun = fun
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        if nondiff_argnames:
            names = list(inspect.signature(fun).parameters)
            numbers += tuple(names.index(name) for name in nondiff_argnames)
        self.nondiff_argnums = numbers
        named_like(self, fun)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...], Callable[..., Any]]:
        """Static arguments, differentiable ones, and the function of the latter."""
        static = [n % len(args) for n in self.nondiff_argnums]
        if not static:
            return [], args, self.fun
        dynamic = tuple(x for i, x in enumerate(args) if i not in static)

        def of_dynamic(*xs: Any) -> Any:
            given = iter(xs)
            return self.fun(*(x if i in static else next(given) for i, x in enumerate(args)))

        return [args[i] for i in static], dynamic, named_like(of_dynamic, self.fun)


class custom_jvp(_CustomFunction):
    """A function with a jvp rule of its own, which every transformation uses in place of its equations.

    Args:
      fun: takes and gives pytrees of arrays.
      nondiff_argnums: arguments that are passed to the rule as they are, before the primals.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_jvp
    ... def log1pexp(x):
    ...     return jnp.log(1.0 + jnp.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + jnp.exp(x)))
    >>> xpr.grad(log1pexp)(100.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.rule: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (result, its tangent)`.

        With `symbolic_zeros` a tangent that is zero comes as `core.Zero` instead of an array of zeros.
        """
        self.rule, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets a rule for each argument by itself: `(tangent, result, *args) -> tangent`, None for zero."""

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            terms = [rule(t, out, *primals) for rule, t in zip(jvps, tangents) if rule is not None]
            if not terms:
                return out, tree.map(lambda x: instantiate(Zero(aval_of(x).to_tangent_aval())), out)
            return out, tree.map(lambda *ts: sum(ts[1:], ts[0]), *terms)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            raise AttributeError(
                f"{describe_function(self.fun)} has no rule yet. Give it one with @{self.fun.__name__}.defjvp."
            )
        args = _bound_arguments(self.fun, args, kwargs)
        static, dynamic, fun = self._split(args)
        leaves, in_tree = tree.flatten((dynamic, {}))
        flat = FlatFunction(fun, in_tree)
        rule = self.rule
        out_tree: Any = None

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            nonlocal out_tree
            if not self.symbolic_zeros:
                tangents = [instantiate_tangent(t) for t in tangents]
            primal_tree, _ = tree.unflatten(in_tree, primals)
            tangent_tree, _ = tree.unflatten(in_tree, tangents)
            pair = rule(*static, primal_tree, tangent_tree)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"The jvp rule {describe_function(rule)} must return (result, tangent); it returned {pair!r}."
                )
            outs, out_tree = tree.flatten(pair[0])
            out_tangents, tangent_structure = tree.flatten(pair[1])
            if tangent_structure != out_tree:
                tree.check_same_structure(
                    pair[0],
                    pair[1],
                    f"The jvp rule {describe_function(rule)} must give a tangent of the result's structure",
                )
            return outs, [_checked_tangent(x, t, rule) for x, t in zip(outs, out_tangents)]

        results = custom_jvp_call_p.bind(
            *leaves, call_jaxpr=flat, jvp=jvp, name=getattr(self.fun, "__name__", "f"), num_consts=0
        )
        return tree.unflatten(flat.out_tree if flat.out_tree is not None else out_tree, results)


def instantiate_tangent(tangent: Any) -> Any:
    """An array of zeros for a symbolic zero, unless it is a float0 one."""
    return tangent if type(tangent) is Zero and tangent.aval.dtype == float0 else instantiate(tangent)


def _checked_tangent(out: Any, tangent: Any, rule: Callable[..., Any]) -> Any:
    want = aval_of(out).to_tangent_aval()
    if type(tangent) is Zero or want.dtype == float0:
        return Zero(want)
    have = aval_of(tangent)
    if have.shape != want.shape or have.dtype != want.dtype:
        raise TypeError(
            f"The jvp rule {describe_function(rule)} gave a result of type {aval_of(out).str_short()} a tangent of "
            f"type {have.str_short()}; it must be {want.str_short()}."
        )
    return tangent


# -- custom_vjp


def _vjp_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Runs `fwd` now and leaves an operation on the tangents that only transposition can do: it calls `bwd`."""
    num_consts, name = params["num_consts"], params["name"]
    _no_tangent_for_constants(tangents, num_consts, name)
    if all(type(t) is Zero for t in tangents):
        outs = _apply(params["call_jaxpr"], primals)
        return outs, [Zero(aval_of(x).to_tangent_aval()) for x in outs]
    outs, residuals = params["fwd"](primals[num_consts:])
    return outs, _backward_tangents(outs, residuals, tangents[num_consts:], params)


def _vjp_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    num_consts = params["num_consts"]
    _no_tangent_for_constants(tangents, num_consts, params["name"])
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        outs, residuals = params["fwd"](primals[num_consts:])
    return outs, _backward_tangents(outs, residuals, tangents[num_consts:], params)


def _backward_tangents(
    outs: Sequence[Any], residuals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    active = tuple(type(t) is not Zero for t in tangents)
    out_avals = tuple(aval_of(x).to_tangent_aval() for x in outs)
    given = [t for t in tangents if type(t) is not Zero]
    results = custom_lin_p.bind(
        *residuals,
        *given,
        num_res=len(residuals),
        active=active,
        bwd=params["bwd"],
        out_avals=out_avals,
        name=params["name"],
    )
    return [Zero(a) if a.dtype == float0 else t for a, t in zip(out_avals, results)]


def _vjp_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The same call mapped over rows: fwd and bwd are mapped, and cotangents of unmapped arguments are summed."""
    call_jaxpr, fwd, bwd, num_consts = (params[k] for k in ("call_jaxpr", "fwd", "bwd", "num_consts"))
    own_dims = list(dims[num_consts:])

    def run(*args: Any) -> list[Any]:
        return _apply(call_jaxpr, args)

    def batched_fwd(primals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        n_outs = 0

        def both(*args: Any) -> list[Any]:
            nonlocal n_outs
            outs, residuals = fwd(args)
            n_outs = len(outs)
            return [*outs, *residuals]

        results = _rows_first(both, size, own_dims)(*primals)
        return list(results[:n_outs]), list(results[n_outs:])

    def batched_bwd(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        def back(*args: Any) -> list[Any]:
            return [instantiate_tangent(ct) for ct in bwd(args[: len(residuals)], args[len(residuals) :])]

        found, found_dims = batch_flat(back, size, [*residuals, *cts], [0] * (len(residuals) + len(cts)))
        return [_ct_for(ct, d, own, size) for ct, d, own in zip(found, found_dims, own_dims)]

    outs = custom_vjp_call_p.bind(
        *values, **{**params, "call_jaxpr": _rows_first(run, size, dims), "fwd": batched_fwd, "bwd": batched_bwd}
    )
    return outs, [0] * len(outs)


def _ct_for(ct: Any, dim: int | None, argument_dim: int | None, size: int) -> Any:
    if type(ct) is Zero:
        return ct
    if argument_dim is None:
        return ct if dim is None else reduce_sum(ct, (dim,))
    return mapped_to(ct, dim, size, argument_dim)


custom_vjp_call_p = register(
    Primitive(
        "custom_vjp_call",
        abstract=_abstract,
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=_lower,
        jvp=_vjp_jvp,
        transpose=_transpose,
        batch=_vjp_batch,
        linearize=_vjp_linearize,
        evaluate=_evaluate,
        prepare=_prepare,
        multiple_results=True,
        call=True,
    )
)

_FORWARD = (
    "A function with a custom_vjp rule has no forward-mode derivative: its rule only says how cotangents go back. "
    "Differentiate it with grad, vjp or jacrev, or give it a custom_jvp rule."
)


def _lin_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    """Calls the user's `bwd` on the residuals and the cotangents."""
    n, active = params["num_res"], params["active"]
    back = params["bwd"](operands[:n], [instantiate_tangent(ct) for ct in cts])
    return [None] * n + [ct for ct, a in zip(back, active) if a]


def _refuse_forward(*args: Any, **params: Any) -> Any:
    raise UnsupportedRule(_FORWARD)


custom_lin_p = register(
    Primitive(
        "custom_lin",
        abstract=lambda avals, *, out_avals, **params: list(out_avals),
        reference=Unsupported(_FORWARD),
        lower=Unsupported(_FORWARD),
        jvp=Unsupported(_FORWARD),
        transpose=_lin_transpose,
        batch=Unsupported(_FORWARD),
        evaluate=_refuse_forward,
        multiple_results=True,
        call=True,
    )
)


class custom_vjp(_CustomFunction):
    """A function with a vjp rule of its own, given in two halves.

    Args:
      fun: takes and gives pytrees of arrays.
      nondiff_argnums: arguments that are passed to both halves as they are: in place to `fwd`, first to `bwd`.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1, 1),))
    >>> xpr.grad(lambda x: 10 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False) -> None:
        """Sets the rule: `fwd(*args) -> (result, residuals)` and `bwd(*nondiff, residuals, ct) -> cotangents`."""
        if symbolic_zeros:
            raise NotImplementedError("custom_vjp: symbolic_zeros is not supported yet; zeros come as arrays.")
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"{describe_function(self.fun)} has no rule yet. Give it one with .defvjp(fwd, bwd).")
        args = _bound_arguments(self.fun, args, kwargs)
        static, dynamic, fun = self._split(args)
        leaves, in_tree = tree.flatten((dynamic, {}))
        flat = FlatFunction(fun, in_tree)
        user_fwd, user_bwd = self.fwd, self.bwd
        numbers = [n % len(args) for n in self.nondiff_argnums]
        out_tree: Any = None
        residual_tree: Any = None

        def fwd(primals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            nonlocal out_tree, residual_tree
            given = iter(tree.unflatten(in_tree, primals)[0])
            pair = user_fwd(*(x if i in numbers else next(given) for i, x in enumerate(args)))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"{describe_function(user_fwd)} must return (result, residuals); it returned {pair!r}.")
            outs, out_tree = tree.flatten(pair[0])
            residuals, residual_tree = tree.flatten(pair[1])
            return outs, residuals

        def bwd(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            back = user_bwd(*static, tree.unflatten(residual_tree, residuals), tree.unflatten(out_tree, cts))
            return _flat_cotangents(back, dynamic, user_bwd)

        results = custom_vjp_call_p.bind(
            *leaves, call_jaxpr=flat, fwd=fwd, bwd=bwd, name=getattr(self.fun, "__name__", "f"), num_consts=0
        )
        return tree.unflatten(flat.out_tree if flat.out_tree is not None else out_tree, results)


def _flat_cotangents(back: Any, arguments: tuple[Any, ...], bwd: Callable[..., Any]) -> list[Any]:
    """What `bwd` gave, as one cotangent for each leaf of the arguments; None stands for zeros."""
    if not isinstance(back, (tuple, list)) or len(back) != len(arguments):
        count = len(back) if isinstance(back, (tuple, list)) else f"a {type(back).__name__}"
        raise TypeError(
            f"{describe_function(bwd)} must return a tuple with a cotangent for each of the {len(arguments)} "
            f"differentiable arguments; it returned {count}."
        )
    flat: list[Any] = []
    for ct, argument in zip(back, arguments):
        leaves, treedef = tree.flatten(argument)
        avals = [aval_of(x).to_tangent_aval() for x in leaves]
        if ct is None:
            flat.extend(Zero(a) for a in avals)
            continue
        cts = tree.flatten_up_to(treedef, ct, f"the cotangents that {describe_function(bwd)} returned")
        flat.extend(Zero(a) if a.dtype == float0 or c is None else _checked_ct(c, a, bwd) for c, a in zip(cts, avals))
    return flat


def _checked_ct(ct: Any, want: ShapedArray, bwd: Callable[..., Any]) -> Any:
    have = aval_of(ct)
    if have.shape != want.shape or have.dtype != want.dtype:
        raise TypeError(
            f"{describe_function(bwd)} gave a cotangent of type {have.str_short()} for an argument of type "
            f"{want.str_short()}."
        )
    return ct

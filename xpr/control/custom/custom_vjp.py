"""custom_vjp: a function that comes with its own vjp rule, in two halves.

The rule of the operation, `fwd(constants, primals, active) -> (results, residuals, pull)`, takes and gives flat lists;
`active` says which primals have tangents, and `pull(residuals, cts)` is the second half, see custom_lin.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import Pull, batched_pull, tangents_of
from xpr.control.custom.replicated_vjp import counting_copies
from xpr.control.custom.rules import CustomFunction, FlatCall, FlatFun, rows_first, tangent_for_user
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import describe_function
from xpr.dtypes import float0
from xpr.primitives.elementwise_rules import PYTHON_SCALARS
from xpr.primitives.shapes import mapped_to
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array, check_results
from xpr.transforms.linearize import LinearizeTrace


def _forward(primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Results, residuals and the pull of the rule's first half."""
    n = params["num_consts"]
    active = tuple([type(t) is not Zero for t in tangents[n:]])
    outs, residuals, pull = params["fwd"](primals[:n], primals[n:], active)
    rules.check_outs(params["call_jaxpr"], outs, params["name"], "the first result of fwd")
    return outs, *counting_copies(primals[n:], outs, residuals, pull)


def _is_flat(primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether no argument has a tangent; that no constant has one is checked."""
    n = params["num_consts"]
    rules.check_constants(params["call_jaxpr"], primals, tangents, n, params["name"])
    return all(type(t) is Zero for t in tangents[n:])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Runs `fwd`, and leaves what becomes of the tangents to custom_lin."""
    if _is_flat(primals, tangents, params):
        outs = custom_vjp_call_p.bind(*primals, **params)
        return outs, rules.zeros_for(outs)
    outs, residuals, pull = _forward(primals, tangents, params)
    return outs, tangents_of(outs, residuals, tangents[params["num_consts"] :], pull, params["name"])


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs `fwd` below, and writes a custom_lin into the linear program."""
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if _is_flat(primals, tangents, params):
            outs = custom_vjp_call_p.bind(*primals, **params)
            return outs, rules.zeros_for(outs)
        outs, residuals, pull = _forward(primals, tangents, params)
    return outs, tangents_of(outs, residuals, tangents[params["num_consts"] :], pull, params["name"])


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The same call mapped over rows, with both halves of the rule mapped over rows."""
    call_jaxpr, fwd, n = (params[key] for key in ("call_jaxpr", "fwd", "num_consts"))
    if rules.is_unmapped(axis_name, dims, values, params):
        outs = custom_vjp_call_p.bind(*values, **params)
        return outs, [None] * len(outs)

    def run(*args: Any) -> list[Any]:
        return rules.apply(call_jaxpr, args)

    def batched_fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        found: list[Any] = []

        def both(*args: Any) -> list[Any]:
            outs, residuals, pull = fwd(args[:n], args[n:], active)
            found[:] = [len(outs), pull]
            return [*outs, *residuals]

        results, found_dims = batch_flat(both, size, [*constants[:n], *primals], dims, axis_name)
        n_outs, pull = found
        outs = [mapped_to(x, d, size) for x, d in zip(results[:n_outs], found_dims)]
        return outs, results[n_outs:], batched_pull(pull, size, found_dims[n_outs:], dims[n:], axis_name)

    mapped = {"call_jaxpr": rows_first(run, size, dims, axis_name), "fwd": batched_fwd}
    outs = custom_vjp_call_p.bind(*values, **{**params, **mapped})
    return outs, [0] * len(outs)


custom_vjp_call_p = register(
    Primitive(
        "custom_vjp_call",
        abstract=rules.abstract,
        params=("call_jaxpr", "fwd", "name", "num_consts"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=rules.lower,
        jvp=_jvp,
        transpose=rules.transpose,
        batch=_batch,
        batch_named=_batch_named,
        linearize=_linearize,
        evaluate=rules.evaluate,
        prepare=rules.prepare,
        split=split_results,
        threaded=rules.threaded(lambda: custom_vjp_call_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


class CustomVJPPrimal:
    """An argument as `fwd` gets it with `symbolic_zeros=True`: its value, and whether it is being differentiated."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool):
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree_of_primals: Any) -> Any:
    """The values in a pytree of `CustomVJPPrimal`s.

    >>> from xpr import custom_derivatives
    >>> custom_derivatives.custom_vjp_primal_tree_values({"x": custom_derivatives.CustomVJPPrimal(1.0, True)})
    {'x': 1.0}
    """
    return tree.map(lambda leaf: leaf.value, tree_of_primals)


class custom_vjp(CustomFunction):
    """A function with a vjp rule of its own, given in two halves.

    Reverse mode calls the rule. Forward mode transposes its second half, for which that must be linear in the
    cotangent. The function and its rule may close over arrays and traced values, but not over values that are being
    differentiated.

    Args:
      fun: takes and gives pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that are no operands, by position and by name: functions, strings,
        sizes. `fwd` gets them in their places, `bwd` first, in the order of their positions.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1, 1),))
    >>> xpr.grad(lambda x: 10 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    __closes_over__ = ("fun", "fwd", "bwd")

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rule: `fwd(*args) -> (result, residuals)` and `bwd(*nondiff, residuals, ct) -> cotangents`.

        `bwd` gives a tuple with a cotangent for each argument that is an operand, None for zero.

        Args:
          symbolic_zeros: `fwd` gets each leaf of the arguments as a `custom_derivatives.CustomVJPPrimal`, and `bwd` a
            `custom_derivatives.SymbolicZero` for each result that has no cotangent, instead of an array of zeros.
          optimize_remat: has no effect, as there is nothing to gain: a pass that needs no residuals, as the first under
            `checkpoint`, runs the function itself and never `fwd`.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"{describe_function(self.fun)} has no rule yet. Give it one with .defvjp(fwd, bwd).")
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call = FlatCall(self, (self.fwd, self.bwd), args)
        constants = call.constants
        outs = custom_vjp_call_p.bind(
            *constants,
            *call.leaves,
            call_jaxpr=call,
            fwd=_flat_rule(call, self.symbolic_zeros),
            name=self.name,
            num_consts=len(constants),
        )
        return call.result(outs)


def _flat_rule(call: FlatCall, symbolic_zeros: bool) -> FlatFun:
    """The user's rule for one call, on flat lists; what it closes over is among the residuals."""
    n = len(call.constants)

    def fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        _, (user_fwd, _), static = call.around(constants[:n])
        values = list(map(as_array, primals))
        given = list(map(CustomVJPPrimal, values, active)) if symbolic_zeros else values
        pair = user_fwd(*call.arguments(static, given))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{describe_function(user_fwd)} must return (result, residuals); it returned {pair!r}.")
        outs, out_tree = tree.flatten(pair[0])
        residuals, residual_tree = tree.flatten(pair[1])
        check_results(user_fwd, [*outs, *residuals], tree.structure(pair))
        if call.out_tree is None:
            call.out_tree = out_tree
        elif out_tree != call.out_tree:
            what = f"{describe_function(user_fwd)} must give a result of the function's structure"
            tree.check_same_structure(call.out_tree, out_tree, what)
        numbers = [x if type(x) in PYTHON_SCALARS else None for x in residuals]
        held = [*constants[:n], *(x for x, number in zip(residuals, numbers) if number is None)]
        return outs, held, _flat_pull(call, out_tree, residual_tree, numbers, primals, symbolic_zeros)

    return fwd


def _flat_pull(
    call: FlatCall,
    out_tree: Any,
    residual_tree: Any,
    numbers: Sequence[Any],
    primals: Sequence[Any],
    symbolic_zeros: bool,
) -> Pull:
    """The second half of the user's rule on flat lists; `numbers` are the residuals that are no arrays."""
    n = len(call.constants)
    avals = [aval_of(x).to_tangent_aval() for x in primals]

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        _, (_, user_bwd), static = call.around(residuals[:n])
        given = [tangent_for_user(ct, symbolic_zeros) for ct in cts]
        arrays = iter(residuals[n:])
        held = tree.unflatten(residual_tree, [next(arrays) if x is None else x for x in numbers])
        back = user_bwd(*static.values(), held, tree.unflatten(out_tree, given))
        return _flat_cotangents(back, call.in_tree, avals, user_bwd)

    return pull


def _flat_cotangents(back: Any, in_tree: Any, avals: Sequence[ShapedArray], bwd: Callable[..., Any]) -> list[Any]:
    """What `bwd` gave, as one cotangent for each leaf of the arguments; None stands for zeros."""
    args_tree = in_tree.children()[0]
    argument_trees = args_tree.children()
    if not isinstance(back, (tuple, list)) or len(back) != len(argument_trees):
        count = len(back) if isinstance(back, (tuple, list)) else f"a {type(back).__name__}"
        raise TypeError(
            f"{describe_function(bwd)} must return a tuple with a cotangent for each of the {len(argument_trees)} "
            f"differentiable arguments; it returned {count}."
        )
    flat: list[Any] = []
    for ct, treedef in zip(back, argument_trees):
        if ct is None:
            flat.extend([None] * treedef.num_leaves)
        else:
            flat.extend(tree.flatten_up_to(treedef, ct, f"the cotangents that {describe_function(bwd)} returned"))
    return [_checked_ct(ct, aval, bwd) for ct, aval in zip(flat, avals)]


def _checked_ct(ct: Any, want: ShapedArray, bwd: Callable[..., Any]) -> Any:
    if ct is None or type(ct) is Zero or want.dtype == float0:
        return Zero(want)
    try:
        have = aval_of(ct)
    except TypeError as error:
        raise TypeError(
            f"{describe_function(bwd)} gave what is no cotangent for an argument of type {want.str_short()}: {error}"
        ) from None
    if have.shape != want.shape or have.dtype != want.dtype:
        raise TypeError(
            f"{describe_function(bwd)} gave a cotangent of type {have.str_short()} for an argument of type "
            f"{want.str_short()}."
        )
    return ct

"""custom_vjp: a function that comes with its own vjp rule, in two halves.

The rule of the operation, `fwd(constants, primals, active) -> (results, residuals, pull)`, is on flat lists;
`active` says which primals have tangents, and `pull(residuals, cts)` is the second half, see custom_lin.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from xpr import tree
from xpr.config import settings
from xpr.control.activity import is_active
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import Pull, batched_pull, tangents_of
from xpr.control.custom.replicated_vjp import counting_copies
from xpr.control.custom.rules import CustomFunction, FlatCall, FlatFun, rows_first, tangent_for_user
from xpr.control.groups import merge, split_list
from xpr.control.refs import check_aliases
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, Zero, aval_of, is_float0, same_type
from xpr.core.interpreter import Tracer, current
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.refs import Ref
from xpr.core.source import describe_function, function_name
from xpr.dtypes import ANY, COMPLEX
from xpr.errors import ArgumentError, TreeMismatch, UnexpectedTracerError
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.elementwise_rules import PYTHON_SCALARS
from xpr.primitives.shapes import mapped_to
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import argument_names, check_results
from xpr.transforms.linearize import LinearizeTrace
from xpr.tree import map as map_leaves

__all__ = ["custom_vjp"]

T = TypeVar("T")


def _forward(primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Results, residuals and the pull of the rule's first half."""
    constants, arguments = split_list(primals, params["num_consts"])
    outs, residuals, pull = params["fwd"](constants, arguments, is_active(_argument_values(tangents, params)))
    rules.check_outs(params["call_jaxpr"], outs, params["name"], "fwd output")
    return outs, *counting_copies(arguments, outs, residuals, pull)


def _argument_values(values: Sequence[T], params: dict[str, Any]) -> list[T]:
    """Of a list with a value for each operand, `constants | arguments`, those for the arguments."""
    return split_list(values, params["num_consts"])[1]


def _has_no_tangent(primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether no argument has a tangent.

    Raises:
      ClosureDerivativeError: a constant has one, and the function depends on it.
    """
    rules.check_constants(params["call_jaxpr"], primals, tangents, params["num_consts"], params["name"])
    return not any(is_active(_argument_values(tangents, params)))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Runs `fwd`, and applies custom_lin to the tangents."""
    if _has_no_tangent(primals, tangents, params):
        outs = custom_vjp_call_p.bind(*primals, **params)
        return outs, rules.zeros_for(outs)
    outs, residuals, pull = _forward(primals, tangents, params)
    return outs, tangents_of(outs, residuals, _argument_values(tangents, params), pull, params["name"])


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs `fwd` under the outer interpreter, and adds a custom_lin to the linear program."""
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if _has_no_tangent(primals, tangents, params):
            outs = custom_vjp_call_p.bind(*primals, **params)
            return outs, rules.zeros_for(outs)
        outs, residuals, pull = _forward(primals, tangents, params)
    return outs, tangents_of(outs, residuals, _argument_values(tangents, params), pull, params["name"])


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The same call mapped over rows, with both halves of the rule mapped over rows."""
    call_jaxpr, fwd, num_consts = (params[key] for key in ("call_jaxpr", "fwd", "num_consts"))
    if rules.is_unmapped(axis_name, dims, values, params):
        outs = custom_vjp_call_p.bind(*values, **params)
        return outs, [None] * len(outs)

    def run(*args: Any) -> list[Any]:
        return rules.apply(call_jaxpr, args)

    def batched_fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        num_outs, pull = 0, None

        def both(*args: Any) -> list[Any]:
            nonlocal num_outs, pull
            outs, residuals, pull = fwd(*split_list(args, num_consts), active)
            num_outs = len(outs)
            return [*outs, *residuals]

        constants, _ = split_list(constants, num_consts)
        results, result_dims = batch_flat(both, size, [*constants, *primals], dims, axis_name)
        outs, residuals = split_list(results, num_outs)
        out_dims, residual_dims = split_list(result_dims, num_outs)
        outs = [mapped_to(x, d, size) for x, d in zip(outs, out_dims)]
        argument_dims = _argument_values(dims, params)
        return outs, residuals, batched_pull(pull, size, residual_dims, argument_dims, axis_name)  # type: ignore[arg-type]  # `both` has set it

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
        batch=partial(_batch_named, None),
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


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values in a pytree of `CustomVJPPrimal`s.

    >>> from xpr import custom_derivatives
    >>> custom_derivatives.custom_vjp_primal_tree_values({"x": custom_derivatives.CustomVJPPrimal(1.0, True)})
    {'x': 1.0}
    """
    return map_leaves(lambda leaf: leaf.value, tree)


class custom_vjp(CustomFunction):
    """A function with a vjp rule defined by the user, in two halves.

    Reverse mode calls the rule. Forward mode transposes its second half, for which that must be linear in the
    cotangent. The function and its rule may close over arrays and traced values, but not over values that are being
    differentiated.

    Args:
      fun: takes and returns pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that are no operands, by position and by name: functions, strings,
        sizes. `fwd` gets them at their positions, `bwd` as its first arguments. None of them may be traced, though
        functions may close over traced values.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1, 1),))
    >>> xpr.grad(lambda x: 10 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    __closes_over__ = ("fun", "fwd", "bwd")
    __fingerprint__ = ("fun", "fwd", "bwd", "symbolic_zeros", "nondiff_argnums")

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

        `bwd` returns a tuple with a cotangent for each argument that is an operand, None for zero.

        Args:
          symbolic_zeros: `fwd` gets each leaf of the arguments as a `custom_derivatives.CustomVJPPrimal`, and `bwd` a
            `custom_derivatives.SymbolicZero` for each result that has no cotangent, instead of an array of zeros.
          optimize_remat: has no effect: a pass that needs no residuals, such as the first one under `checkpoint`
            without a policy, always runs the function itself instead of `fwd`.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def refuse_traced_static(self, static: Sequence[Any]) -> None:
        """Raises an error if one of the arguments that are no operands is traced, or a pytree with a traced leaf."""
        for leaf in tree.leaves(list(static)):
            if isinstance(leaf, Tracer):
                raise UnexpectedTracerError(
                    f"custom_vjp: an argument of {describe_function(self.fun)} that nondiff_argnums names is traced, "
                    f"of type {leaf.aval.str_short()}. It names what is no array: functions, strings, sizes. Make this "
                    "one an operand, whose cotangent may be None."
                )

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {self.name} using defvjp. Give {describe_function(self.fun)} "
                f"one with {self.name}.defvjp(fwd, bwd)."
            )
        args = self.positional(args, kwargs)
        if self.nondiff_argnums:
            self.refuse_traced_static([args[i] for i in self.static_positions(len(args))])
        if rules.is_plain() and Ref not in map(type, args):
            return self.fun(*args)
        call, leaves = FlatCall.of(self, (self.fwd, self.bwd), args)
        if Ref in map(type, leaves):
            check_aliases("custom_vjp", self.fun, lambda: argument_names(self.fun, args, {}), leaves, ())
        constants = call.constants
        outs = custom_vjp_call_p.bind(
            *constants,
            *leaves,
            call_jaxpr=call,
            fwd=_flat_rule(call, self.symbolic_zeros),
            name=self.name,
            num_consts=len(constants),
        )
        return call.result(outs)


def _flat_rule(call: FlatCall, symbolic_zeros: bool) -> FlatFun:
    """The user's rule for one call, on flat lists; values that it closes over are among the residuals."""
    n = len(call.constants)

    def fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        constants, _ = split_list(constants, n)
        _, (user_fwd, _), static = call.with_constants(constants)
        values = call.for_rule(primals)
        leaves = list(map(CustomVJPPrimal, values, active)) if symbolic_zeros else values
        pair = user_fwd(*call.arguments(static, leaves))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{describe_function(user_fwd)} must return (result, residuals); it returned {pair!r}.")
        outs, out_tree = tree.flatten(pair[0])
        residuals, residual_tree = tree.flatten(pair[1])
        arguments = {id(x) for x in leaves}
        checked = [None if type(x) is Ref and id(x) in arguments else x for x in residuals]
        arrays, structure = [x for x in checked if x is not None], tree.structure((pair[0], checked))
        check_results(user_fwd, [*outs, *arrays], structure, "The custom_vjp fwd function ")
        if call.out_tree is None:
            call.out_tree = out_tree
        elif out_tree != call.out_tree:
            what = (
                f"Custom VJP fwd rule {function_name(user_fwd)} for function {call.name} must produce a pair of a "
                f"result of that function's structure and residuals. It is {describe_function(user_fwd)}"
            )
            tree.check_same_structure(call.out_tree, out_tree, what)
        numbers = [x if type(x) in PYTHON_SCALARS else None for x in residuals]
        rule_residuals = [*constants, *(x for x, number in zip(residuals, numbers) if number is None)]
        return outs, rule_residuals, _flat_pull(call, out_tree, residual_tree, numbers, primals, symbolic_zeros)

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
        constants, arrays = split_list(residuals, n)
        _, (_, user_bwd), static = call.with_constants(constants)
        user_cts = [tangent_for_user(ct, symbolic_zeros) for ct in cts]
        is_array = [x is None for x in numbers]
        leaves = merge(arrays, (x for x in numbers if x is not None), is_array)
        user_residuals = tree.unflatten(residual_tree, leaves)
        back = user_bwd(*static.values(), user_residuals, tree.unflatten(out_tree, user_cts))
        return _flat_cotangents(back, call.in_tree, avals, user_bwd)

    return pull


def _flat_cotangents(back: Any, in_tree: Any, avals: Sequence[ShapedArray], bwd: Callable[..., Any]) -> list[Any]:
    """The result of `bwd` as one cotangent for each leaf of the arguments; None stands for zeros."""
    args_tree = in_tree.children()[0]
    argument_trees = args_tree.children()
    if not isinstance(back, (tuple, list)) or len(back) != len(argument_trees):
        count = len(back) if isinstance(back, (tuple, list)) else f"a {type(back).__name__}"
        raise TypeError(
            f"Custom VJP bwd rule {describe_function(bwd)} must produce a tuple with a cotangent for each of the "
            f"{len(argument_trees)} differentiable arguments; it returned {count}."
        )
    flat: list[Any] = []
    for ct, treedef in zip(back, argument_trees):
        if ct is None:
            flat.extend([None] * treedef.num_leaves)
        else:
            flat.extend(_argument_cotangents(ct, treedef, bwd))
    numbers = [i for i, treedef in enumerate(argument_trees) for _ in range(treedef.num_leaves)]
    return [_checked_ct(ct, aval, bwd, number) for ct, aval, number in zip(flat, avals, numbers)]


def _argument_cotangents(ct: Any, structure: Any, bwd: Callable[..., Any]) -> list[Any]:
    """A cotangent for each leaf of an argument; an array in the place of a subtree, or None, stands for all of it."""
    try:
        return tree.flatten_up_to(structure, ct, f"the cotangents that {describe_function(bwd)} returned")
    except TreeMismatch as mismatch:
        try:
            return tree.flatten_prefix(ct, structure, "bwd")
        except TreeMismatch:
            raise mismatch from None


def _checked_ct(ct: Any, expected: ShapedArray, bwd: Callable[..., Any], number: int) -> Any:
    if ct is None or is_float0(expected):
        return Zero(expected)
    if settings.disable_bwd_checks:
        return ct
    try:
        have = aval_of(ct)
    except TypeError as error:
        raise TypeError(
            f"{describe_function(bwd)} must return a cotangent of type {expected.str_short()}: {error}"
        ) from None
    if have.is_high or expected.is_high:
        if not same_type(expected, have):
            raise ArgumentError(
                f"Custom VJP bwd rule {describe_function(bwd)}: for output[{number}] the bwd rule produced an output "
                f"of type {have.str_short()}, and the cotangent of that argument is of type {expected.str_short()}."
            )
        return ct
    is_narrower = have.dtype in COMPLEX and expected.dtype not in COMPLEX  # an imaginary part would be lost
    if have.shape != expected.shape or is_narrower or have.dtype not in ANY:
        raise ArgumentError(
            f"Custom VJP bwd rule {describe_function(bwd)}: for output[{number}] the bwd rule produced an output of "
            f"type {have.str_short()}, and the cotangent of that argument is of type {expected.str_short()}. Return an "
            "array of this type; for zeros: Consider just returning a None here."
        )
    if type(ct) is Zero:
        return Zero(expected)
    return ct if have.dtype == expected.dtype else convert_element_type(ct, expected.dtype)

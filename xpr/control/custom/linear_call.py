"""linear_call: a function that is linear in some of its arguments, with a transpose defined by the user.

Operands are `residuals | linear`, the first `num_res` being residuals, in which the function need not be linear.
`call_jaxpr` is the function; `transpose(residuals, cts)`, on flat lists, maps a cotangent of each result to one of
each linear operand. It reads only as many residuals as there were when it was created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr import tree
from xpr.control.activity import is_active
from xpr.control.closures import Closures
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import Pull, batched_pull
from xpr.control.custom.rules import zeros_for
from xpr.control.groups import consts_after, split_list, with_unused_arguments
from xpr.control.tracing import trace_body, type_differences, where_defined
from xpr.core.avals import Zero, aval_of, same_type, same_types
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.source import describe_function, function_name
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import add_tangents
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_jaxpr, names_in
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array
from xpr.transforms.linearize import push_forward_in_rule
from xpr.transforms.stage import stage

__all__ = ["linear_call_p"]


def _bind(closed: ClosedJaxpr, operands: Sequence[Any], num_res: int, transpose: Pull, name: str) -> list[Any]:
    """Applies the operation to a function whose constants follow its residuals."""
    residuals, linear = split_list(operands, num_res)
    return linear_call_p.bind(
        *residuals,
        *closed.consts,
        *linear,
        call_jaxpr=consts_after(closed, num_res),
        num_res=num_res + len(closed.consts),
        transpose=transpose,
        name=name,
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The call on the linear tangents, plus the derivative of the function in the residuals that have tangents."""
    (residuals, linear), (moved, moved_linear) = (split_list(xs, params["num_res"]) for xs in (primals, tangents))
    outs = linear_call_p.bind(*primals, **params)
    terms = []
    if any(is_active(moved_linear)):
        terms.append(linear_call_p.bind(*residuals, *map(instantiate, moved_linear), **params))
    if any(is_active(moved)):
        _, by_residuals = push_forward_in_rule(
            lambda *xs: eval_jaxpr(params["call_jaxpr"], (), *xs, *linear), residuals, moved
        )  # fmt: skip
        terms.append(by_residuals)
    if len(terms) == 2:
        return outs, [t if type(u) is Zero else add_tangents(t, u) for t, u in zip(*terms)]
    return outs, terms[0] if terms else zeros_for(outs)


def _transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, num_res: int, transpose: Pull, name: str
) -> list[Any]:
    """A linear call of the transpose, whose transpose is the function."""
    residuals, _ = split_list(operands, num_res)
    if any(map(is_linear, residuals)):
        raise UnsupportedRule(
            f"{name}: linear_call is linear in its linear_args, and not in its residual_args, so it is transposed to "
            "the former alone."
        )
    values = [*residuals, *map(instantiate, cts)]

    def transposed(*args: Any) -> list[Any]:
        return list(map(instantiate, transpose(*split_list(args, num_res))))

    def forth(values: Sequence[Any], linear: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(call_jaxpr, (), *split_list(values, num_res)[0], *linear)

    closed = stage(transposed, list(map(aval_of, values)))
    return [None] * num_res + _bind(closed, values, num_res, forth, name)


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, num_res: int,
    transpose: Pull, name: str,
) -> Any:  # fmt: skip
    """A linear call of the function mapped over rows, its transpose mapped over rows."""
    if all(d is None for d in dims) and axis_name not in names_in(call_jaxpr):
        same = {"call_jaxpr": call_jaxpr, "num_res": num_res, "transpose": transpose, "name": name}
        outs = linear_call_p.bind(*values, **same)
        return outs, [None] * len(outs)
    (residuals, linear), (residual_dims, linear_dims) = (split_list(xs, num_res) for xs in (values, dims))
    linear = [mapped_to(x, d, size) for x, d in zip(linear, linear_dims)]
    zeros = (0,) * len(linear)
    all_batched = (True,) * len(call_jaxpr.outvars)
    closed, _ = batch_jaxpr(call_jaxpr, size, (*residual_dims, *zeros), axis_name, all_batched)
    pull = batched_pull(transpose, size, residual_dims, zeros, axis_name)

    def mapped_transpose(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return pull(split_list(residuals, num_res)[0], cts)

    outs = _bind(closed, [*residuals, *linear], num_res, mapped_transpose, name)
    return outs, [0] * len(outs)


linear_call_p = register(
    Primitive(
        "linear_call",
        abstract=rules.abstract,
        params=("call_jaxpr", "transpose", "name", "num_res"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=rules.lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        evaluate=rules.evaluate,
        threaded=rules.threaded(lambda: linear_call_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


@boundary
def linear_call(
    fun: Callable[[Any, Any], Any], fun_transpose: Callable[[Any, Any], Any], residual_args: Any, linear_args: Any
) -> Any:
    """Calls a function that is linear in its second argument, with a transpose defined by the user.

    That it is linear, and that the transpose is its transpose, is not checked. Derivatives in the residuals are those
    of the function.

    Args:
      fun: `fun(residual_args, linear_args)`, of pytrees.
      fun_transpose: `fun_transpose(residual_args, ct)`, from a cotangent of the result to one of `linear_args`.
      residual_args: a pytree of arrays.
      linear_args: a pytree of arrays.

    Returns:
      The result of `fun`.

    Raises:
      TypeError: the transpose returns something other than a cotangent of `linear_args`.

    >>> import xpr
    >>> from xpr.custom_derivatives import linear_call
    >>> def divide(x, y):
    ...     return linear_call(lambda y, x: x / y, lambda y, ct: ct / y, y, x)
    >>> xpr.grad(divide)(3.0, 4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    if rules.is_plain():
        return tree.map(as_array, fun(residual_args, linear_args))
    closures = Closures(fun_transpose)
    residuals, residual_tree = tree.flatten(residual_args)
    linear, linear_tree = tree.flatten(linear_args)
    in_tree = tree.structure(((residual_args, linear_args), {}))
    linear_avals = list(map(aval_of, linear))
    body = trace_body(fun, in_tree, [*map(aval_of, residuals), *linear_avals], "the function of a linear_call")

    def transpose(values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        tracers, values, _ = split_list(values, len(closures.tracers), len(residuals))
        (user_transpose,) = closures.rebuilt(tracers)
        user_residuals = tree.unflatten(residual_tree, values)
        user_cts = [ct if type(ct) is not Zero else instantiate(ct) for ct in cts]
        linear_cts, ct_tree = tree.flatten(user_transpose(user_residuals, tree.unflatten(body.out_tree, user_cts)))
        what = f"linear_call: the transpose {describe_function(user_transpose)} must give a cotangent of linear_args"
        tree.check_same_structure(linear_tree, ct_tree, what)
        ct_avals = [aval_of(x) for x in linear_cts]
        if not same_types(linear_avals, ct_avals):
            lines = type_differences("linear_args", linear_tree, linear_avals, ct_avals, ("is", "cotangent"), same_type)
            raise TypeError("\n".join([f"{what}:", *lines, where_defined("the transpose", user_transpose)]))
        return linear_cts

    unread = [aval_of(x) for x in closures.tracers]
    closed = body.closed.replace(jaxpr=with_unused_arguments(body.closed.jaxpr, before=unread))
    operands = [*closures.tracers, *residuals, *linear]
    num_res = len(closures.tracers) + len(residuals)
    outs = _bind(closed, operands, num_res, transpose, function_name(fun))
    return tree.unflatten(body.out_tree, outs)

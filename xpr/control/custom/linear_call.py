"""linear_call: a function that is linear in some of its arguments, and comes with its own transpose.

Operands are `residuals | linear`, the first `num_res` being residuals, in which the function need not be linear.
`call_jaxpr` is the function; `transpose(residuals, cts)`, on flat lists, takes a cotangent of each result to one of
each linear operand. It looks only at as many residuals as there were when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.closures import Closures
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import Pull, batched_pull
from xpr.control.custom.rules import consts_behind, zeros_for
from xpr.control.tracing import same_types, trace_body, type_differences, where_defined
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.source import describe_function, function_name
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import add_any
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_jaxpr, names_in
from xpr.transforms.boundary import boundary
from xpr.transforms.jvp import push_forward
from xpr.transforms.stage import stage


def _bind(closed: ClosedJaxpr, operands: Sequence[Any], num_res: int, transpose: Pull, name: str) -> list[Any]:
    """Applies the operation to a function whose constants stand behind its residuals."""
    return linear_call_p.bind(
        *operands[:num_res],
        *closed.consts,
        *operands[num_res:],
        call_jaxpr=consts_behind(closed, num_res),
        num_res=num_res + len(closed.consts),
        transpose=transpose,
        name=name,
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Jaxpr, num_res: int, **params: Any) -> Any:
    """Itself on the linear tangents; where residuals have tangents, what differentiating the function by them adds."""
    rest = {"call_jaxpr": call_jaxpr, "num_res": num_res, **params}
    outs = linear_call_p.bind(*primals, **rest)
    residuals, linear = primals[:num_res], primals[num_res:]
    parts = []
    if any(type(t) is not Zero for t in tangents[num_res:]):
        parts.append(linear_call_p.bind(*residuals, *map(instantiate, tangents[num_res:]), **rest))
    if any(type(t) is not Zero for t in tangents[:num_res]):
        _, found = push_forward(
            lambda *xs: eval_jaxpr(call_jaxpr, (), *xs, *linear), residuals, tangents[:num_res]
        )  # fmt: skip
        parts.append(found)
    if len(parts) == 2:
        return outs, [t if type(u) is Zero else add_any(t, u) for t, u in zip(*parts)]
    return outs, parts[0] if parts else zeros_for(outs)


def _transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, num_res: int, transpose: Pull, name: str
) -> list[Any]:
    """A linear call of the transpose, whose transpose is the function."""
    residuals = operands[:num_res]
    if any(map(is_linear, residuals)):
        raise UnsupportedRule(
            f"{name}: linear_call is linear in its linear_args, and not in its residual_args, so it is transposed to "
            "the former alone."
        )
    given = [instantiate(ct) for ct in cts]

    def back(*args: Any) -> list[Any]:
        return [instantiate(ct) for ct in transpose(args[:num_res], args[num_res:])]

    def forth(values: Sequence[Any], linear: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(call_jaxpr, (), *values[:num_res], *linear)

    closed = stage(back, [aval_of(x) for x in (*residuals, *given)])
    return [None] * num_res + _bind(closed, [*residuals, *given], num_res, forth, name)


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, num_res: int,
    transpose: Pull, name: str,
) -> Any:  # fmt: skip
    """A linear call of the function mapped over rows, its transpose mapped over rows."""
    if all(d is None for d in dims) and axis_name not in names_in(call_jaxpr):
        same = {"call_jaxpr": call_jaxpr, "num_res": num_res, "transpose": transpose, "name": name}
        outs = linear_call_p.bind(*values, **same)
        return outs, [None] * len(outs)
    residual_dims = list(dims[:num_res])
    linear = [mapped_to(x, d, size) for x, d in zip(values[num_res:], dims[num_res:])]
    zeros = (0,) * len(linear)
    everything = (True,) * len(call_jaxpr.outvars)
    closed, _ = batch_jaxpr(call_jaxpr, size, (*residual_dims, *zeros), axis_name, everything)
    pull = batched_pull(transpose, size, residual_dims, zeros, axis_name)

    def mapped_transpose(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return pull(residuals[:num_res], cts)

    outs = _bind(closed, [*values[:num_res], *linear], num_res, mapped_transpose, name)
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
        batch=_batch,
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
    """Calls a function that is linear in its second argument, with a transpose of its own.

    That it is linear, and that the transpose is its transpose, is taken on trust. Differentiated by the residuals, the
    function is differentiated as it is.

    Args:
      fun: `fun(residual_args, linear_args)`, of pytrees.
      fun_transpose: `fun_transpose(residual_args, ct)`, from a cotangent of the result to one of `linear_args`.
      residual_args, linear_args: pytrees of arrays.
    Raises:
      TypeError: the transpose gives something else than a cotangent of `linear_args`.

    >>> import xpr
    >>> from xpr.custom_derivatives import linear_call
    >>> def divide(x, y):
    ...     return linear_call(lambda y, x: x / y, lambda y, ct: ct / y, y, x)
    >>> xpr.grad(divide)(3.0, 4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    if rules.is_plain():
        return fun(residual_args, linear_args)
    closures = Closures(fun_transpose)
    residuals, residual_tree = tree.flatten(residual_args)
    linear, linear_tree = tree.flatten(linear_args)
    in_tree = tree.structure(((residual_args, linear_args), {}))
    avals = [aval_of(x) for x in (*residuals, *linear)]
    body = trace_body(fun, in_tree, avals, "the function of a linear_call")
    n = len(closures.tracers)
    num_res = n + len(residuals)
    linear_avals = avals[len(residuals) :]

    def transpose(values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        (back,) = closures.around(values[:n])
        held = tree.unflatten(residual_tree, values[n:num_res])
        given = [ct if type(ct) is not Zero else instantiate(ct) for ct in cts]
        found, found_tree = tree.flatten(back(held, tree.unflatten(body.out_tree, given)))
        what = f"linear_call: the transpose {describe_function(back)} must give a cotangent of linear_args"
        tree.check_same_structure(linear_tree, found_tree, what)
        found_avals = [aval_of(x) for x in found]
        if not same_types(linear_avals, found_avals):
            lines = type_differences("linear_args", linear_tree, linear_avals, found_avals, ("is", "cotangent"))
            raise TypeError("\n".join([f"{what}:", *lines, where_defined("the transpose", back)]))
        return found

    jaxpr = _leading_unused(body.closed, closures.tracers)
    operands = [*closures.tracers, *residuals, *linear]
    outs = _bind(jaxpr, operands, num_res, transpose, function_name(fun))
    return tree.unflatten(body.out_tree, outs)


def _leading_unused(closed: ClosedJaxpr, values: Sequence[Any]) -> ClosedJaxpr:
    """The same program with further arguments in front, of the types of `values`, that it does not read."""
    unused = [FillerVar(aval_of(x)) for x in values]
    return closed.replace(jaxpr=closed.jaxpr.replace(invars=[*unused, *closed.jaxpr.invars]))

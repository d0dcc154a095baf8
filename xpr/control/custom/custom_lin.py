"""custom_lin: the linear map from tangents to tangents of a custom_vjp function, defined by its transpose `bwd`.

`bwd` maps cotangents of results to cotangents of arguments; for fixed residuals it is a linear map, J^T. Transposing
this operation calls it. Evaluating the operation is forward mode: the map ct -> bwd(residuals, ct) is traced and
transposed to J; so `bwd` must then be linear, and consist of operations that can be transposed.

Operands are `residuals | tangents`, the latter of the arguments that have one (`active`). `pull(residuals, cts)`
is bwd on flat lists: from a cotangent of each result, some of them `Zero`, to one of each argument.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.compile.reference import reference_eval
from xpr.control.activity import affected_outputs, is_active
from xpr.control.custom.rules import row_zero
from xpr.control.groups import mask, merge, partition, split_list, unmask
from xpr.core.avals import ShapedArray, Zero, aval_of, is_float0
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, Literal, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.errors import ConcretizationTypeError, UnsupportedRule
from xpr.passes.dce import dce_jaxpr
from xpr.passes.inline import inline_jaxpr
from xpr.primitives.dynamic_slices import dynamic_update_slice_p
from xpr.primitives.elementwise import add_any_p, add_p, sub_p
from xpr.primitives.gather.gather_scatter import scatter_add_p
from xpr.primitives.shapes import instantiate, mapped_to, reduce_sum
from xpr.primitives.slicing import concatenate_p, pad_p, select_n_p
from xpr.transforms.batch import batch_flat
from xpr.transforms.jvp import push_forward
from xpr.transforms.linearize import linearize_flat
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass

__all__ = ["custom_lin_p"]

Pull = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def tangents_of(
    outs: Sequence[Any], residuals: Sequence[Any], tangents: Sequence[Any], pull: Pull, name: str
) -> list[Any]:
    """The tangents of a custom_vjp function's results, by this operation; those of integers are symbolic zeros."""
    out_avals = tuple([aval_of(x).to_tangent_aval() for x in outs])
    results = custom_lin_p.bind(
        *residuals,
        *(t for t in tangents if type(t) is not Zero),
        num_res=len(residuals),
        active=tuple([type(t) is not Zero for t in tangents]),
        pull=pull,
        out_avals=tuple([a for a in out_avals if not is_float0(a)]),
        all_out_avals=out_avals,
        name=name,
    )
    return _with_float0(results, out_avals)


def _with_float0(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """The values for inexact results, with symbolic zeros for the others."""
    zeros = [Zero(a) for a in avals if is_float0(a)]
    return merge(values, zeros, [not is_float0(a) for a in avals]) if zeros else list(values)


def _pulled(
    residuals: Sequence[Any], cts: Sequence[Any], *, active: tuple[bool, ...], pull: Pull,
    all_out_avals: tuple[ShapedArray, ...], **params: Any,
) -> list[Any]:  # fmt: skip
    """Cotangents of the active arguments, from those of the inexact results."""
    return mask(pull(residuals, _with_float0(cts, all_out_avals)), active)


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, num_res: int, **params: Any) -> list[Any]:
    """Calls the user's `bwd` on the residuals and the cotangents."""
    residuals, _ = split_list(operands, num_res)
    if not any(map(is_linear, residuals)):
        return [None] * num_res + _pulled(residuals, cts, **params)
    flags = list(map(is_linear, operands))  # it is bilinear, and also transposed in the residuals
    closed = stage(lambda *xs: _push(*xs, num_res=num_res, **params), [aval_of(x) for x in operands])
    _, known = partition(operands, flags)
    return unmask(backward_pass(closed.jaxpr, [*closed.consts, *known], cts, flags), flags)


def _push(*operands: Any, num_res: int, name: str, out_avals: tuple[ShapedArray, ...], **params: Any) -> list[Any]:
    """The tangents of the results: `bwd` as a linear function of the cotangents, transposed."""
    residuals, tangents = split_list(operands, num_res)
    program = _Linear(residuals, out_avals, params)
    try:
        values = program.residuals()
        out_tangents = backward_pass(program.linear.jaxpr, values, mask(tangents, program.affected))
    except UnsupportedRule as error:
        raise UnsupportedRule(
            f"{name}: forward mode of a function with a custom_vjp rule transposes its bwd, and this one can't be "
            f"transposed: {error}\n{_WAYS_OUT}"
        ) from None
    except ConcretizationTypeError as error:
        error.add_note(f"This is forward mode of {name}, which traces its bwd to transpose it.\n{_WAYS_OUT}")
        raise
    return list(map(instantiate, out_tangents))


_WAYS_OUT = (
    "Make bwd linear in the cotangent, differentiate in reverse mode (grad, vjp, jacrev), or give the function a "
    "custom_jvp rule."
)


class _Linear:
    """`bwd` linearized: a linear program, whose residuals must not depend on the point of linearization.

    Attributes:
      linear: the program, once `residuals` has staged it.
      affected: which active arguments get a cotangent from it.
    """

    def __init__(self, residuals: Sequence[Any], out_avals: tuple[ShapedArray, ...], params: dict[str, Any]):
        self.residual_values, self.out_avals, self.params = residuals, out_avals, params
        self.affected: list[bool] = []
        self.linear: Any = None

    def residuals(self) -> list[Any]:
        """The values of the linear program's constants.

        Raises:
          UnsupportedRule: one depends on the cotangent, or `bwd` adds a term that doesn't depend on it.
        """
        closed = stage(self.split, self.out_avals)
        must_be_constant = [True] * len(self.linear.consts) + [not affected for affected in self.affected]
        depends = affected_outputs(closed.jaxpr, [True] * len(self.out_avals), differentiable=False)
        if any(map(operator.and_, depends, must_be_constant)):
            raise UnsupportedRule("its derivative depends on the cotangent, so it is not linear.")
        if any(split_list(_may_be_nonzero(closed), len(self.linear.consts))[1]):
            raise UnsupportedRule("it adds something that does not depend on the cotangent, so it is not linear.")
        wanted = [True] * len(self.linear.consts) + [False] * len(self.affected)
        jaxpr, _ = dce_jaxpr(closed.jaxpr, wanted, keep_inputs=True)
        return eval_jaxpr(jaxpr, closed.consts, *(instantiate(Zero(a)) for a in self.out_avals))

    def split(self, *cts: Any) -> list[Any]:
        """Residuals, and the cotangents of the active arguments."""
        outs, self.linear, self.affected = linearize_flat(self.back, cts, [True] * len(cts))
        return [*self.linear.consts, *outs]

    def back(self, *cts: Any) -> list[Any]:
        return [instantiate(ct) for ct in _pulled(self.residual_values, cts, **self.params)]


# Primitives whose result may be nonzero if one of some operands is, and which operands: not predicates and indices.
_TERMS = {primitive: slice(None) for primitive in (add_p, add_any_p, sub_p, concatenate_p, pad_p)}
_TERMS |= {select_n_p: slice(1, None), dynamic_update_slice_p: slice(2), scatter_add_p: slice(0, 3, 2)}


def _may_be_nonzero(closed: ClosedJaxpr) -> list[bool]:
    """Which results of a program may be nonzero when all of its arguments are zero, judged by its equations.

    Known values count as nonzero, except literals and constants that are zero; a product with a zero is zero, a sum
    with a nonzero term is nonzero. The jaxprs of loops and branches are not examined.
    """
    jaxpr = inline_jaxpr(closed.jaxpr)
    nonzero = {v for v, x in zip(jaxpr.constvars, closed.consts) if isinstance(x, Tracer) or np.any(np.asarray(x))}

    def is_nonzero(atom: Any) -> bool:
        return bool(np.any(np.asarray(atom.val))) if type(atom) is Literal else atom in nonzero

    for eqn in jaxpr.eqns:
        terms = _TERMS.get(eqn.primitive)
        if all(map(is_nonzero, eqn.invars)) if terms is None else any(map(is_nonzero, eqn.invars[terms])):
            nonzero.update(eqn.outvars)
    return list(map(is_nonzero, jaxpr.outvars))


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = stage(lambda *xs: _push(*xs, **params), [aval_of(x) for x in values])
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The operation on the tangents of tangents; for tangents of residuals, the derivative of the forward map."""
    (residuals, _), (moved, moved_tangents) = (split_list(xs, params["num_res"]) for xs in (primals, tangents))
    if any(is_active(moved)):
        return push_forward(lambda *xs: _push(*xs, **params), primals, tangents)
    outs = custom_lin_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero(a) for a in params["out_avals"]]
    return outs, custom_lin_p.bind(*residuals, *map(instantiate, moved_tangents), **params)


def batched_pull(
    pull: Pull, size: int, residual_dims: Sequence[int | None], dims: Sequence[int | None], axis_name: Any = None
) -> Pull:
    """`pull` mapped over rows, for cotangents with their rows in front.

    `dims` are the mapped axes of the arguments: if one is not mapped, the cotangents of all rows are summed.
    """

    def batched(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        ct_active = is_active(cts)
        active: list[bool] = []
        zeros: list[Any] = []

        def back(*args: Any) -> list[Any]:
            row_residuals, arrays = split_list(args, len(residuals))
            row_zeros = [row_zero(ct) for ct in cts if type(ct) is Zero]
            row_cts = pull(row_residuals, merge(arrays, row_zeros, ct_active))
            active[:] = is_active(row_cts)
            nonzero, zeros[:] = partition(row_cts, active)
            return nonzero

        arrays = mask(cts, ct_active)
        array_dims = [*residual_dims, *[0] * len(arrays)]
        results, result_dims = batch_flat(back, size, [*residuals, *arrays], array_dims, axis_name)
        active_dims, zero_dims = partition(dims, active)
        summed = [_for_argument(ct, d, dim, size) for ct, d, dim in zip(results, result_dims, active_dims)]
        return merge(summed, [_zero_of_rows(ct, size, dim) for ct, dim in zip(zeros, zero_dims)], active)

    return batched


def _zero_of_rows(zero: Zero, size: int, dim: int | None) -> Zero:
    """The symbolic zero of an argument mapped along `dim`, or not at all, from that of one row."""
    if dim is None:
        return zero
    return Zero(zero.aval.with_axis(dim, size))


def _for_argument(ct: Any, ct_dim: int | None, dim: int | None, size: int) -> Any:
    """The cotangent of an argument, mapped along `dim` or not at all, from those of the rows."""
    ct = mapped_to(ct, ct_dim, size, dim or 0)
    return ct if dim is not None else reduce_sum(ct, (0,))


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The same operation with `bwd` mapped over rows."""
    num_res, active = params["num_res"], params["active"]
    if all(d is None for d in dims):
        outs = custom_lin_p.bind(*values, **params)
        return outs, [None] * len(outs)
    residual_dims, tangent_dims = split_list(dims, num_res)
    argument_dims = unmask(tangent_dims, active)
    rows = {key: tuple([a.with_axis(0, size) for a in params[key]]) for key in ("out_avals", "all_out_avals")}
    pull = batched_pull(params["pull"], size, residual_dims, argument_dims, axis_name)
    outs = custom_lin_p.bind(*values, **{**params, **rows, "pull": pull})
    return outs, [0] * len(outs)


custom_lin_p = register(
    Primitive(
        "custom_lin",
        abstract=lambda avals, *, out_avals, **params: list(out_avals),
        params=("pull", "name", "active", "num_res", "out_avals", "all_out_avals"),
        reference=_reference,
        lower=Unsupported("It is lowered as the transpose of the function that is its transpose."),
        lower_as=_push,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        evaluate=lambda args, params: _push(*args, **params),
        multiple_results=True,
        call=True,
        transposes_zeros=True,
    )
)

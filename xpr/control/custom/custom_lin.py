"""custom_lin: what a custom_vjp function does to tangents, known by its transpose.

`bwd` takes cotangents of results to cotangents of arguments; given the residuals it is a linear map, J^T. Transposing
this operation calls it. Doing the operation is forward mode: the map ct -> bwd(residuals, ct) is staged and transposed,
which gives J; so `bwd` must then be linear, and made of operations that can be transposed.

Operands are `residuals | tangents`, the latter those of the arguments that have one (`active`). `pull(residuals, cts)`
is bwd on flat lists: from a cotangent of each result, some of them `Zero`, to one of each argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.compile.evaluate import reference_eval
from xpr.control.activity import reached_outputs
from xpr.control.custom.rules import row_zero
from xpr.core.avals import ShapedArray, Zero, aval_of
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
        out_avals=tuple([a for a in out_avals if a.dtype != dtypes.float0]),
        all_out_avals=out_avals,
        name=name,
    )
    found = iter(results)
    return [Zero(a) if a.dtype == dtypes.float0 else next(found) for a in out_avals]


def _pulled(
    residuals: Sequence[Any], cts: Sequence[Any], *, active: tuple[bool, ...], pull: Pull,
    all_out_avals: tuple[ShapedArray, ...], **params: Any,
) -> list[Any]:  # fmt: skip
    """Cotangents of the active arguments, from those of the inexact results."""
    given = iter(cts)
    full = [Zero(a) if a.dtype == dtypes.float0 else next(given) for a in all_out_avals]
    return [ct for ct, is_active in zip(pull(residuals, full), active) if is_active]


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, num_res: int, **params: Any) -> list[Any]:
    """Calls the user's `bwd` on the residuals and the cotangents."""
    if not any(map(is_linear, operands[:num_res])):
        return [None] * num_res + _pulled(operands[:num_res], cts, **params)
    flags = list(map(is_linear, operands))  # it is bilinear, and transposed in the residuals as well
    closed = stage(lambda *xs: _push(*xs, num_res=num_res, **params), [aval_of(x) for x in operands])
    known = [x for x, flag in zip(operands, flags) if not flag]
    found = iter(backward_pass(closed.jaxpr, [*closed.consts, *known], cts, flags))
    return [next(found) if flag else None for flag in flags]


def _push(*operands: Any, num_res: int, name: str, out_avals: tuple[ShapedArray, ...], **params: Any) -> list[Any]:
    """The tangents of the results: `bwd` as a linear function of the cotangents, transposed."""
    residuals, tangents = operands[:num_res], operands[num_res:]
    program = _Linear(residuals, out_avals, params)
    try:
        values = program.residuals()
        given = [t for t, is_reached in zip(tangents, program.reached) if is_reached]
        found = backward_pass(program.linear.jaxpr, values, given)
    except UnsupportedRule as error:
        raise UnsupportedRule(
            f"{name}: forward mode of a function with a custom_vjp rule transposes its bwd, and this one can't be "
            f"transposed: {error}\n{_WAYS_OUT}"
        ) from None
    except ConcretizationTypeError as error:
        error.add_note(f"This is forward mode of {name}, which traces its bwd to transpose it.\n{_WAYS_OUT}")
        raise
    return [instantiate(t) for t in found]


_WAYS_OUT = (
    "Make bwd linear in the cotangent, differentiate in reverse mode (grad, vjp, jacrev), or give the function a "
    "custom_jvp rule."
)


class _Linear:
    """`bwd` linearized: a linear program, whose residuals must not depend on where it was linearized.

    `reached` says which active arguments get a cotangent at all.
    """

    def __init__(self, residuals: Sequence[Any], out_avals: tuple[ShapedArray, ...], params: dict[str, Any]):
        self.held, self.out_avals, self.params = residuals, out_avals, params
        self.reached: list[bool] = []
        self.linear: Any = None

    def residuals(self) -> list[Any]:
        """The values of the linear program's constants.

        Raises:
          UnsupportedRule: one depends on the cotangent, or `bwd` adds what doesn't depend on it.
        """
        closed = stage(self.split, self.out_avals)
        is_flat = [True] * len(self.linear.consts) + [not reached for reached in self.reached]
        depends = reached_outputs(closed.jaxpr, [True] * len(self.out_avals), differentiable=False)
        if any(d and flat for d, flat in zip(depends, is_flat)):
            raise UnsupportedRule("its derivative depends on the cotangent, so it is not linear.")
        if any(_left_of_zeros(closed)[len(self.linear.consts) :]):
            raise UnsupportedRule("it adds something that does not depend on the cotangent, so it is not linear.")
        wanted = [True] * len(self.linear.consts) + [False] * len(self.reached)
        jaxpr, _ = dce_jaxpr(closed.jaxpr, wanted, keep_inputs=True)
        return eval_jaxpr(jaxpr, closed.consts, *(instantiate(Zero(a)) for a in self.out_avals))

    def split(self, *cts: Any) -> list[Any]:
        """Residuals, and the cotangents of the active arguments."""
        outs, self.linear, self.reached = linearize_flat(self.back, cts, [True] * len(cts))
        return [*self.linear.consts, *outs]

    def back(self, *cts: Any) -> list[Any]:
        return [instantiate(ct) for ct in _pulled(self.held, cts, **self.params)]


_SUMS = frozenset({add_p, add_any_p, sub_p, concatenate_p, pad_p, select_n_p, dynamic_update_slice_p, scatter_add_p})


def _left_of_zeros(closed: ClosedJaxpr) -> list[bool]:
    """Which results of a program remain, as far as its equations tell, where all of its arguments are zero.

    What the program knows is taken to be no zero, but for literals and constants that are; a product with a zero is
    zero, a sum is not if one part isn't. What loops and branches hold is not looked at.
    """
    jaxpr = inline_jaxpr(closed.jaxpr)
    left = {v for v, x in zip(jaxpr.constvars, closed.consts) if isinstance(x, Tracer) or np.any(np.asarray(x))}

    def remains(atom: Any) -> bool:
        return bool(np.any(np.asarray(atom.val))) if type(atom) is Literal else atom in left

    for eqn in jaxpr.eqns:
        parts = list(map(remains, eqn.invars[1:] if eqn.primitive is select_n_p else eqn.invars))
        if all(parts) or (eqn.primitive in _SUMS and any(parts)):
            left.update(eqn.outvars)
    return list(map(remains, jaxpr.outvars))


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = stage(lambda *xs: _push(*xs, **params), [aval_of(x) for x in values])
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Linear in the tangents, so itself on theirs; where residuals have tangents, the derivative of the forward map."""
    num_res = params["num_res"]
    if any(type(t) is not Zero for t in tangents[:num_res]):
        return push_forward(lambda *xs: _push(*xs, **params), primals, tangents)
    outs = custom_lin_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero(a) for a in params["out_avals"]]
    given = [instantiate(t) for t in tangents[num_res:]]
    return outs, custom_lin_p.bind(*primals[:num_res], *given, **params)


def batched_pull(
    pull: Pull, size: int, residual_dims: Sequence[int | None], dims: Sequence[int | None], axis_name: Any = None
) -> Pull:
    """`pull` mapped over rows, for cotangents with their rows in front.

    `dims` are those of the arguments: where one is not mapped, the cotangents of all rows are added up.
    """

    def batched(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found: list[Any] = []

        def back(*args: Any) -> list[Any]:
            given = iter(args[len(residuals) :])
            row_cts = [row_zero(ct) if type(ct) is Zero else next(given) for ct in cts]
            found[:] = pull(args[: len(residuals)], row_cts)
            return [ct for ct in found if type(ct) is not Zero]

        mapped = [ct for ct in cts if type(ct) is not Zero]
        given_dims = [*residual_dims, *[0] * len(mapped)]
        results = iter(zip(*batch_flat(back, size, [*residuals, *mapped], given_dims, axis_name)))
        return [
            _zero_of_rows(ct, size, dim) if type(ct) is Zero else _for_argument(*next(results), dim, size)
            for ct, dim in zip(found, dims)
        ]

    return batched


def _zero_of_rows(zero: Zero, size: int, dim: int | None) -> Zero:
    if dim is None:
        return zero
    shape = zero.aval.shape
    return Zero(zero.aval.update(shape=(*shape[:dim], size, *shape[dim:])))


def _for_argument(ct: Any, ct_dim: int | None, dim: int | None, size: int) -> Any:
    """A row's cotangents as the argument's, which is mapped along `dim` or not at all."""
    ct = mapped_to(ct, ct_dim, size, dim or 0)
    return ct if dim is not None else reduce_sum(ct, (0,))


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The same operation with `bwd` mapped over rows."""
    num_res, active = params["num_res"], params["active"]
    if all(d is None for d in dims):
        outs = custom_lin_p.bind(*values, **params)
        return outs, [None] * len(outs)
    given = iter(dims[num_res:])
    argument_dims = [next(given) if is_active else None for is_active in active]
    rows = {
        key: tuple([a.update(shape=(size, *a.shape)) for a in params[key]]) for key in ("out_avals", "all_out_avals")
    }
    pull = batched_pull(params["pull"], size, dims[:num_res], argument_dims, axis_name)
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
        batch=_batch,
        batch_named=_batch_named,
        evaluate=lambda args, params: _push(*args, **params),
        multiple_results=True,
        call=True,
    )
)

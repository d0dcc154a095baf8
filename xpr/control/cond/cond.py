"""cond: one of several branches, selected by an index, as one operation.

Operands are laid out `index | operands`: an i32 scalar, which callers of `bind` have clamped, and the arguments of the
branches, beginning with the values that they close over. So `index, *operands = values` is all of the layout.
Every rule turns the branches into other branches, which are cached with them, and selects among those by the same
index.

`linear` says for each operand whether it is a tangent. The user's choice of how the cond is mapped, see
`batching.py`, is an optional parameter `vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from xpr.backend.array import Array
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr, run_operation
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.activity import is_active
from xpr.control.cond.batching import along_rows, guarded, runs_as_select, work
from xpr.control.cond.partial_eval import cond_split
from xpr.control.cond.residuals import SplitBranches, zeros_in
from xpr.control.groups import any_of, mask, merge, split_list, unmask
from xpr.control.refs import RefOperands
from xpr.control.scan.scan import bind_scan
from xpr.control.tracing import as_closed, join_consts, refuse_closed
from xpr.control.xla_call import call, call_transpose, xla_call_p
from xpr.core.avals import ShapedArray, aval_of, same_types, types_of
from xpr.core.hi_types import leave_in_final_states
from xpr.core.interpreter import context, current
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr, JaxprEqn, Var, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import Region
from xpr.dtypes import bool_
from xpr.passes.dce import dce_jaxpr
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.elementwise import convert_element_type, convert_element_type_p, eq, ge
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import select_n_p
from xpr.transforms.batch import batch_jaxpr, names_in
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr
from xpr.transforms.on_arrays import on_arrays
from xpr.transforms.stage import stage
from xpr.transforms.transpose import transpose_jaxpr

__all__ = ["cond_p"]

T = TypeVar("T")
Branches = tuple[Jaxpr, ...]
Flags = tuple[bool, ...]
_INT32 = np.dtype(np.int32)


def bind_cond(
    branches: Branches, index: Any, operands: Sequence[Any], like: dict[str, Any], linear: Sequence[bool] | None = None
) -> list[Any]:
    """Applies a cond of other branches, with the other parameters of `like`."""
    if any(uses_of_refs(branch).used for branch in branches):
        refs = RefOperands(branches, operands)
        outs = bind_cond(tuple(refs.jaxprs), index, [*refs.operands, *refs.passed], like)
        outs, last = split_list(outs, len(branches[0].outvars))
        refs.store(last)
        return outs
    flags = (False,) * len(operands) if linear is None else tuple(linear)
    return cond_p.bind(index, *operands, **{**like, "branches": branches, "linear": flags})


def _branch_at(index: Any, branches: Branches) -> Jaxpr:
    """The branch with that index, or the last one if there is none; its results have the types of the cond's.

    A result is weakly typed where the first branch gives it so, as in JAX; for `lax.cond` that is `false_fun`.
    """
    i = int(index)
    branch = branches[i if 0 <= i < len(branches) else -1]
    weak = _weak_results(branches[0])
    if weak == _weak_results(branch):
        return branch
    return _cached(branches, ("cond branch", branch), lambda: _with_weak_results(branch, weak))


def _weak_results(branch: Jaxpr) -> list[bool]:
    return [v.aval.weak_type for v in branch.outvars]


def _with_weak_results(branch: Jaxpr, weak: Sequence[bool]) -> Jaxpr:
    """The branch with results that are weakly typed where `weak` says so."""
    outvars, eqns = list(branch.outvars), list(branch.eqns)
    for i, v in enumerate(branch.outvars):
        if v.aval.weak_type != weak[i]:
            result = outvars[i] = Var(v.aval.update(weak_type=weak[i]))
            params = {"new_dtype": v.aval.dtype, "weak_type": weak[i]}
            eqns.append(JaxprEqn([v], [result], convert_element_type_p, params))
    return branch.replace(outvars=outvars, eqns=eqns)


def _chosen(index: Any, branches: Branches) -> Jaxpr | None:
    """The branch that is taken, if that is known without waiting: the rules are then those of a call."""
    known = index.is_ready() if type(index) is Array else isinstance(index, (int, np.integer))
    return _branch_at(index, branches) if known else None


def _cached(branches: Branches, key: Any, make: Callable[[], T]) -> T:
    """The result of `make`, cached with the first of the branches."""
    memo = branches[0].memo
    whole = (*key, branches, context.axes)
    if whole not in memo:
        memo[whole] = make()
    return memo[whole]


class _Derived:
    """Branches derived from others, with the constants that they share as leading operands.

    `flags` says which of the optional results they have.
    """

    __slots__ = ("branches", "consts", "flags")

    def __init__(self, closed: Sequence[ClosedJaxpr], flags: Flags):
        self.consts, jaxprs = join_consts(closed)
        self.branches, self.flags = tuple(jaxprs), flags


def _agreeing(
    branches: Branches, key: Any, make: Callable[[Jaxpr, Flags], tuple[ClosedJaxpr, Sequence[bool]]]
) -> _Derived:
    """Branches derived from others, each with all the results that any of them has; cached with them.

    `make(branch, forced)` returns the new branch and which of the optional results it has; it always has those that
    `forced` marks.
    """

    def derive() -> _Derived:
        derived = [make(branch, ()) for branch in branches]
        flags = any_of([present for _, present in derived])
        agreed = [
            closed if tuple(present) == flags else make(branch, flags)[0]
            for branch, (closed, present) in zip(branches, derived)
        ]
        return _Derived(agreed, flags)

    return _cached(branches, key, derive)


# -- Reference semantics and lowering.


def _abstract(avals: Sequence[ShapedArray], *, branches: Branches, **params: Any) -> list[ShapedArray]:
    index, *operands = avals
    if index.shape or index.dtype != np.int32:
        raise TypeError(f"cond: the index must be an i32 scalar, and is {index.str_short()}.")
    if not branches:
        raise TypeError("cond: there are no branches.")
    refuse_closed("cond", *branches)
    results = branches[0].out_avals
    for i, branch in enumerate(branches):
        if not same_types(branch.in_avals, operands):
            raise TypeError(
                f"cond: branch {i} takes ({types_of(branch.in_avals)}), the operands are ({types_of(operands)})."
            )
        if not same_types(branch.out_avals, results):
            raise TypeError(f"cond: branch 0 gives ({types_of(results)}), branch {i} ({types_of(branch.out_avals)}).")
    if any(branch.is_high for branch in branches):
        leave_in_final_states(operands, branches[0].in_avals)
    return results


def _reference(values: Sequence[Any], *, branches: Branches, **params: Any) -> list[np.ndarray]:
    """Runs the selected branch."""
    index, *operands = values
    return reference_eval(_branch_at(index, branches), (), *operands)


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, branches: Branches, **params: Any
) -> list[Value]:
    """A `case` with a region for each branch, which reads the operands from outside; for a known index one branch."""
    index, *values = operands
    if index.name in b.module.constants:
        return lower_eqns(b, _branch_at(b.module.constants[index.name], branches), values)

    def writer(i: int, branch: Jaxpr) -> Callable[[Builder], list[Value]]:
        return lambda inner: lower_eqns(inner, branch, values, f"branch_{i}_fun")

    ordered = any("ordered" in effects(branch) for branch in branches)
    return b.case(index, [writer(i, branch) for i, branch in enumerate(branches)], avals, ordered=ordered)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Runs the selected branch as a separate program; the whole cond if the index is still being computed."""
    index, *operands = args
    if type(index) is Array and not index.is_ready():
        return run_operation(cond_p, args, params)
    return run_jaxpr(_branch_at(index, params["branches"]), operands, "cond")


def _on_arrays(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The choice between branches on arrays, whose results are made values again.

    Raises:
      TypeError: branches leave mutable values with contents of different types.
    """
    index, *operands = args
    programs = list(map(on_arrays, params["branches"]))
    first, *others = [program.last_avals for program in programs]
    for i, last in enumerate(others, 1):
        if last != first:
            states = "\n".join(f"  branch {j}   {[a.qdd for a in each]}" for j, each in ((0, first), (i, last)))
            raise TypeError(f"cond: the branches leave mutable values with contents of different types.\n{states}")
    consts, branches = join_consts([program.jaxpr for program in programs])
    like = {name: value for name, value in params.items() if name == "vmap"}
    outs = bind_cond(tuple(branches), index, [*consts, *programs[0].arguments(operands)], like)
    return programs[0].results(operands, outs)


# -- jvp: branches that return values and tangents.


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (index, *operands), (_, *moved), branches = primals, tangents, params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.jvp(operands, moved, call_jaxpr=chosen, name="cond")
    active = is_active(moved)
    derived = _agreeing(branches, ("cond jvp", active), lambda branch, forced: jvp_jaxpr(branch, active, forced))
    results = bind_cond(derived.branches, index, [*derived.consts, *operands, *mask(moved, active)], params)
    outs, out_tangents = split_list(results, len(derived.flags))
    return outs, with_zeros(out_tangents, derived.flags, [aval_of(x) for x in outs])


# -- linearize: branches that return the values and the residuals, and linear ones that take those.


def _split(branches: Branches, active: Flags) -> tuple[list[Any], Flags, SplitBranches]:
    """The halves of the branches, the constants of the first halves, and which results have tangents."""
    halves = [linearize_jaxpr(branch, active) for branch in branches]
    flags = any_of([half.active_outs for half in halves])
    halves = [
        half if tuple(half.active_outs) == flags else linearize_jaxpr(branch, active, flags)
        for branch, half in zip(branches, halves)
    ]
    consts, firsts = join_consts([half.primal for half in halves])
    positions, seconds = [half.residual_sources for half in halves], [half.linear for half in halves]
    return consts, flags, SplitBranches(firsts, positions, seconds, branches[0].in_avals, len(flags))


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    (index, *operands), (_, *moved), branches = primals, tangents, params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.linearize(trace, operands, moved, {"call_jaxpr": chosen, "name": "cond"})  # type: ignore[misc]  # it has one
    active = is_active(moved)
    consts, flags, split = _cached(branches, ("cond linearize", active), lambda: _split(branches, active))
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        outs, slots = split_list(bind_cond(split.first, index, [*consts, *operands], params), len(flags))
    if not any(flags):
        return outs, with_zeros([], flags, [aval_of(x) for x in outs])
    residuals, moving = split.residuals_among(operands, outs, slots), mask(moved, active)
    linear = [False] * len(residuals) + [True] * len(moving)
    out_tangents = bind_cond(split.second, index, [*residuals, *moving], params, linear)
    return outs, with_zeros(out_tangents, flags, [aval_of(x) for x in outs])


# -- transpose: the transposed branches, selected by the same index.


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (index, *values), branches = operands, params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return [None, *call_transpose(cts, values, call_jaxpr=chosen, name="cond")]
    is_linear, has_ct = tuple([type(x) is Linear for x in values]), is_active(cts)

    def transpose(branch: Jaxpr, forced: Flags) -> tuple[ClosedJaxpr, Sequence[bool]]:
        return transpose_jaxpr(branch, is_linear, has_ct, forced)

    transposed = _agreeing(branches, ("cond transpose", is_linear, has_ct), transpose)
    known = [*transposed.consts, *(x for x in values if type(x) is not Linear)]
    moving = mask(cts, has_ct)
    linear = [False] * len(known) + [True] * len(moving)
    results = bind_cond(transposed.branches, index, [*known, *moving], params, linear)
    return [None, *unmask(unmask(results, transposed.flags), is_linear)]


# -- batch: the mapped branches if the index is not mapped; else one branch for each row, or all and a selection.


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    (index, *operands), (index_dim, *operand_dims), branches = values, dims, params["branches"]
    dims_key = tuple(operand_dims)
    forwards = _forwarded(branches, dims_key) if index_dim is not None else ()
    if any(position is not None for position in forwards):
        return _around_forwarded(forwards, axis_name, size, values, dims, params)
    if index_dim is not None:
        if context.explicit_rows is not None or runs_as_select(branches, params.get("vmap"), axis_name):
            return _select(axis_name, size, index, operands, dims_key, branches)
        return _by_rows(size, index, operands, dims_key, params)
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.batch_named(axis_name, size, operands, dims_key, call_jaxpr=chosen, name="cond")  # type: ignore[misc]  # it has one

    def mapped(branch: Jaxpr, forced: Flags) -> tuple[ClosedJaxpr, Sequence[bool]]:
        rows_first = forced or (False,) * len(branch.outvars)
        closed, out_dims = batch_jaxpr(branch, size, dims_key, axis_name, rows_first)
        return closed, [d is not None for d in out_dims]

    key = ("cond batch", size, dims_key, axis_name, context.rows_along, context.explicit_rows)
    batched = _agreeing(branches, key, mapped)
    outs = bind_cond(batched.branches, index, [*batched.consts, *operands], params)
    return outs, [0 if flag else None for flag in batched.flags]


def _forwarded(branches: Branches, dims: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """For each result the position of the unmapped operand that all branches return for it; None if there is none."""

    def find() -> tuple[int | None, ...]:
        positions = [{v: i for i, v in enumerate(branch.invars) if dims[i] is None} for branch in branches]
        sources = [
            {at.get(v) if type(v) is Var else None for at, v in zip(positions, outs)}
            for outs in zip(*[branch.outvars for branch in branches])
        ]
        return tuple([of_result.pop() if len(of_result) == 1 else None for of_result in sources])

    return _cached(branches, ("cond forwarded", dims), find)


def _around_forwarded(
    forwards: tuple[int | None, ...], axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None],
    params: dict[str, Any],
) -> Any:  # fmt: skip
    """The batching rule where some results are unmapped operands, which the new branches no longer return."""
    computed = [position is None for position in forwards]

    def without() -> Branches:
        return tuple([branch.replace(outvars=mask(branch.outvars, computed)) for branch in params["branches"]])

    branches = _cached(params["branches"], ("cond without", forwards), without)
    outs, out_dims = _batch_named(axis_name, size, values, dims, **{**params, "branches": branches})
    forwarded = [values[1 + position] for position in forwards if position is not None]
    return merge(outs, forwarded, computed), merge(out_dims, [None] * len(forwarded), computed)


def _select(
    axis_name: Any, size: int, index: Any, operands: Sequence[Any], dims: tuple[int | None, ...], branches: Branches
) -> Any:
    """Runs all branches on all rows and selects, as a separate call."""
    n = len(branches[0].outvars)

    def run(index: Any, *operands: Any) -> list[Any]:
        outs_of_branches = []
        for i, branch in enumerate(branches):
            taken = (ge if i == len(branches) - 1 else eq)(index, np.int32(i))
            closed, _ = batch_jaxpr(branch, size, dims, axis_name, (True,) * n)
            stand_in = axis_name is None or axis_name not in names_in(branch)
            rows = [guarded(taken, x, d, stand_in) for x, d in zip(operands, dims)]
            outs_of_branches.append(_run_if_taken(taken, closed, rows))
        selector = convert_element_type(index, bool_) if len(branches) == 2 else index
        return [select_n_p.bind(along_rows(selector, outs[0]), *outs) for outs in zip(*outs_of_branches)]

    avals = [aval_of(x) for x in (index, *operands)]
    key = ("cond select", size, dims, axis_name, tuple(avals), context.rows_along, context.explicit_rows)
    closed = _cached(branches, key, lambda: stage(run, avals))
    return call(closed, [index, *operands], "cond"), [0] * n


def _run_if_taken(taken: Any, closed: ClosedJaxpr, rows: Sequence[Any]) -> list[Any]:
    """Runs a mapped branch; one that may not end is run only if some row takes it."""
    if work(closed.jaxpr) < math.inf:
        return eval_jaxpr(closed.jaxpr, closed.consts, *rows)
    eqns: list[JaxprEqn] = []
    branch = constvars_to_invars(closed)
    zeros = [zeros_in(eqns, aval) for aval in branch.out_avals]
    nothing = Jaxpr([], [FillerVar(aval) for aval in branch.in_avals], zeros, eqns)
    needed = convert_element_type(reduce_or(taken, (0,)), _INT32)
    return bind_cond((nothing, branch), needed, [*closed.consts, *rows], {})


def _by_rows(
    size: int, index: Any, operands: Sequence[Any], dims: tuple[int | None, ...], params: dict[str, Any]
) -> Any:
    """A scan over the rows, whose body is the cond."""
    mapped = tuple([d is not None for d in dims])

    def make() -> Jaxpr:
        branch = params["branches"][0]
        row_index, rows = Var(ShapedArray((), _INT32)), [Var(v.aval) for v in branch.invars]
        outs = [Var(aval) for aval in cond_p.abstract([row_index.aval, *branch.in_avals], **params)]
        consts = mask(rows, [not flag for flag in mapped])
        eqn = JaxprEqn([row_index, *rows], outs, cond_p, params, context.source)
        return Jaxpr([], [*consts, row_index, *mask(rows, mapped)], outs, [eqn])

    body = _cached(params["branches"], ("cond rows", mapped, params["linear"], params.get("vmap")), make)
    consts = [x for x, d in zip(operands, dims) if d is None]
    xs = [index, *(mapped_to(x, d, size) for x, d in zip(operands, dims) if d is not None)]
    outs = bind_scan(body, consts, [], xs, {"length": size, "reverse": False, "unroll": 1})
    return outs, [0] * len(outs)


# -- dce: branches without the results that are not read.


def cond_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    (index, *operands), branches = eqn.invars, eqn.params["branches"]
    needed = any_of([dce_jaxpr(branch, used)[1] for branch in branches])
    smaller = tuple([dce_jaxpr(branch, used, needed)[0] for branch in branches])
    return eqn.replace(
        invars=[index, *mask(operands, needed)],
        outvars=mask(eqn.outvars, used),
        params={**eqn.params, "branches": smaller, "linear": tuple(mask(eqn.params["linear"], needed))},
    )


# -- threaded: branches that take and return the state.


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], *, branches: Branches, **params: Any) -> Any:
    index, *operands = values
    return split_list(bind_cond(tuple(map(thread, branches)), index, [*state, *operands], params), len(state))


def _regions(*, branches: Sequence[Jaxpr], **params: Any) -> list[Region]:
    """The branches, which take the operands of `index | operands`."""
    operands = tuple(range(1, 1 + len(branches[0].invars)))
    results = tuple([(i,) for i in range(len(branches[0].outvars))])
    return [Region(branch, "branch", operands, results, chosen_by=(0,)) for branch in branches]


def _from_jax(args: Sequence[Any], params: dict[str, Any]) -> Any:
    closed = as_closed(*params.get("branches", ()))
    if closed is None:
        return None
    consts, branches = join_consts(closed)
    index, *operands = args
    linear = (*[False] * len(consts), *params.get("linear", [False] * len(operands)))
    return [index, *consts, *operands], {**params, "branches": tuple(branches), "linear": linear}


cond_p = register(
    Primitive(
        "cond",
        abstract=_abstract,
        params=("branches", "linear", "vmap"),
        optional=("vmap",),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        linearize=_linearize,
        batch_named=_batch_named,
        evaluate=_evaluate,
        from_jax=_from_jax,
        dce=cond_dce,
        split=cond_split,
        threaded=_threaded,
        multiple_results=True,
        regions=_regions,
        on_arrays=_on_arrays,
        call=True,
    )
)

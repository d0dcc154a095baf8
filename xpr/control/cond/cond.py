"""cond: one of several programs, picked by a number, as one operation.

Operands are laid out `index | operands`: an i32 scalar, which those who apply it have clamped, and the arguments of the
branches, without the index; what the branches close over comes first. So `index, *operands = values` is all there is to
tell apart. Every rule turns the branches into other branches, which are remembered with them, and picks among those by
the same index.

`linear` says of each operand whether it is a tangent. A user's wish for how the cond is to be mapped, see
`batching.py`, is a parameter `vmap`, which is there only where it was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xpr.backend.array import Array
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_jaxpr, run_operation
from xpr.compile.lower import lower_eqns
from xpr.control.activity import picked
from xpr.control.cond.batching import along_rows, guarded, runs_as_select, work
from xpr.control.cond.partial_eval import cond_split
from xpr.control.cond.residuals import Split, any_of, zeros_in
from xpr.control.scan.scan import bind_scan
from xpr.control.tracing import join_consts
from xpr.control.xla_call import call, call_transpose, xla_call_p
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context, current
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr, JaxprEqn, Var, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import Region
from xpr.dtypes import bool_
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.elementwise import convert_element_type, convert_element_type_p, eq, ge
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import select_n_p
from xpr.transforms.batch import batch_jaxpr, names_in
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.stage import stage
from xpr.transforms.transpose import transpose_jaxpr

T = TypeVar("T")
Branches = tuple[Jaxpr, ...]
Flags = tuple[bool, ...]
_INT32 = np.dtype(np.int32)


def bind_cond(
    branches: Branches, index: Any, operands: Sequence[Any], like: dict[str, Any], linear: Sequence[bool] | None = None
) -> list[Any]:
    """Applies a cond of other branches, its other parameters those of `like`."""
    flags = (False,) * len(operands) if linear is None else tuple(linear)
    return cond_p.bind(index, *operands, **{**like, "branches": branches, "linear": flags})


def _number(index: Any, branches: Branches) -> Jaxpr:
    """The branch of that number, its results as strongly typed as those of the cond; the last one beyond the end."""
    i = int(index)
    branch = branches[i if 0 <= i < len(branches) else -1]
    weak = _weak_results(branches)
    if weak == [v.aval.weak_type for v in branch.outvars]:
        return branch
    return _remembered(branches, ("cond branch", branch), lambda: _strengthened(branch, weak))


def _weak_results(branches: Branches) -> list[bool]:
    """Which results are weakly typed: those that all branches give so."""
    return [all(found) for found in zip(*([v.aval.weak_type for v in branch.outvars] for branch in branches))]


def _strengthened(branch: Jaxpr, weak: Sequence[bool]) -> Jaxpr:
    outvars, eqns = list(branch.outvars), list(branch.eqns)
    for i, v in enumerate(branch.outvars):
        if v.aval.weak_type and not weak[i]:
            strong = outvars[i] = Var(v.aval.strip_weak_type())
            params = {"new_dtype": v.aval.dtype, "weak_type": False}
            eqns.append(JaxprEqn([v], [strong], convert_element_type_p, params))
    return branch.replace(outvars=outvars, eqns=eqns)


def _chosen(index: Any, branches: Branches) -> Jaxpr | None:
    """The branch that is taken, where that is known without waiting: the rules are then those of a call."""
    known = index.is_ready() if type(index) is Array else isinstance(index, (int, np.integer))
    return _number(index, branches) if known else None


def _remembered(branches: Branches, key: Any, make: Callable[[], T]) -> T:
    """What `make` gives, kept with the first of the branches."""
    memo = branches[0].memo
    whole = (*key, branches, context.axes)
    if whole not in memo:
        memo[whole] = make()
    return memo[whole]


class _Derived:
    """Branches made of others: their common constants, which lead their operands, and which results they add."""

    __slots__ = ("branches", "consts", "flags")

    def __init__(self, closed: Sequence[ClosedJaxpr], flags: Flags):
        self.consts, jaxprs = join_consts(closed)
        self.branches, self.flags = tuple(jaxprs), flags


def _agreeing(
    branches: Branches, key: Any, make: Callable[[Jaxpr, Flags], tuple[ClosedJaxpr, Sequence[bool]]]
) -> _Derived:
    """Branches made of others, each giving what any of them gives; remembered with them.

    `make(branch, forced)` gives the new branch and which of the optional results it has; those that `forced` marks it
    has in any case.
    """

    def derive() -> _Derived:
        made = [make(branch, ()) for branch in branches]
        flags = any_of([own for _, own in made])
        agreed = [
            closed if tuple(own) == flags else make(branch, flags)[0] for branch, (closed, own) in zip(branches, made)
        ]
        return _Derived(agreed, flags)

    return _remembered(branches, key, derive)


# -- What it means, and what it becomes.


def _abstract(avals: Sequence[ShapedArray], *, branches: Branches, **params: Any) -> list[ShapedArray]:
    index, *operands = avals
    if index.shape or index.dtype != np.int32:
        raise TypeError(f"cond: the index must be an i32 scalar, and is {index.str_short()}.")
    if not branches:
        raise TypeError("cond: there are no branches.")
    results = branches[0].out_avals
    for i, branch in enumerate(branches):
        if not _same_types(branch.in_avals, operands):
            raise TypeError(
                f"cond: branch {i} takes ({_types(branch.in_avals)}), the operands are ({_types(operands)})."
            )
        if not _same_types(branch.out_avals, results):
            raise TypeError(f"cond: branch 0 gives ({_types(results)}), branch {i} ({_types(branch.out_avals)}).")
    return [a if a.weak_type == w else a.update(weak_type=w) for a, w in zip(results, _weak_results(branches))]


def _same_types(some: Sequence[ShapedArray], others: Sequence[ShapedArray]) -> bool:
    return len(some) == len(others) and all(
        a is b or (a.shape == b.shape and a.dtype == b.dtype) for a, b in zip(some, others)
    )


def _types(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(a.str_short() for a in avals)


def _reference(values: Sequence[Any], *, branches: Branches, **params: Any) -> list[np.ndarray]:
    """Runs the branch that is picked."""
    index, *operands = values
    return reference_eval(_number(index, branches), (), *operands)


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, branches: Branches, **params: Any
) -> list[Value]:
    """A `case` with a region for each branch, which reads the operands where they stand."""
    index, *given = operands

    def writer(branch: Jaxpr) -> Callable[[Builder], list[Value]]:
        return lambda inner: lower_eqns(inner, branch, given)

    ordered = any("ordered" in effects(branch) for branch in branches)
    return b.case(index, list(map(writer, branches)), avals, ordered=ordered)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Runs the branch that is picked, as a program of its own; the whole where the index is still being computed."""
    index, *operands = args
    if type(index) is Array and not index.is_ready():
        return run_operation(cond_p, args, params)
    return run_jaxpr(_number(index, params["branches"]), operands, "cond")


# -- jvp: branches that give the tangents beside the values.


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (index, *operands), given, branches = primals, tangents[1:], params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.jvp(operands, given, call_jaxpr=chosen, name="cond")
    active = _is_active(given)
    made = _agreeing(branches, ("cond jvp", active), lambda branch, forced: jvp_jaxpr(branch, active, forced))
    results = bind_cond(made.branches, index, [*made.consts, *operands, *picked(given, active)], params)
    n = len(made.flags)
    return results[:n], with_zeros(results[n:], made.flags, [aval_of(x) for x in results[:n]])


def _is_active(tangents: Sequence[Any]) -> Flags:
    return tuple([type(t) is not Zero for t in tangents])


# -- linearize: branches that give the values and the residuals, and linear ones that take those.


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    (index, *operands), given, branches = primals, tangents[1:], params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.linearize(trace, operands, given, {"call_jaxpr": chosen, "name": "cond"})  # type: ignore[misc]  # it has one
    active = _is_active(given)
    split = _remembered(branches, ("cond linearize", active), lambda: Split(branches, active))
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        results = bind_cond(split.primal, index, [*split.consts, *operands], params)
    n = len(split.flags)
    outs = results[:n]
    if not any(split.flags):
        return outs, with_zeros([], split.flags, [aval_of(x) for x in outs])
    found = {"operand": operands, "result": outs, "slot": results[n:]}
    residuals = [found[kind][i] for kind, i in split.residuals]
    moving = picked(given, active)
    linear = [False] * len(residuals) + [True] * len(moving)
    out_tangents = bind_cond(split.linear, index, [*residuals, *moving], params, linear)
    return outs, with_zeros(out_tangents, split.flags, [aval_of(x) for x in outs])


# -- transpose: the transposed branches, picked by the same index.


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (index, *given), branches = operands, params["branches"]
    chosen = _chosen(index, branches)
    if chosen is not None:
        return [None, *call_transpose(cts, given, call_jaxpr=chosen, name="cond")]
    is_linear, has_ct = tuple([type(x) is Linear for x in given]), _is_active(cts)

    def transposed(branch: Jaxpr, forced: Flags) -> tuple[ClosedJaxpr, Sequence[bool]]:
        return transpose_jaxpr(branch, is_linear, has_ct, forced)

    made = _agreeing(branches, ("cond transpose", is_linear, has_ct), transposed)
    known = [*made.consts, *(x for x in given if type(x) is not Linear)]
    moving = picked(cts, has_ct)
    linear = [False] * len(known) + [True] * len(moving)
    results = iter(bind_cond(made.branches, index, [*known, *moving], params, linear))
    found = iter([next(results) if has else None for has in made.flags])
    return [None, *(next(found) if flag else None for flag in is_linear)]


# -- batch: the mapped branches where the index is not mapped; else one branch for each row, or all and a selection.


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    (index, *operands), own_dims, branches = values, tuple(dims[1:]), params["branches"]
    if dims[0] is not None:
        if runs_as_select(branches, params.get("vmap"), axis_name):
            return _select(axis_name, size, index, operands, own_dims, branches)
        return _by_rows(size, index, operands, own_dims, params)
    chosen = _chosen(index, branches)
    if chosen is not None:
        return xla_call_p.batch_named(axis_name, size, operands, own_dims, call_jaxpr=chosen, name="cond")  # type: ignore[misc]  # it has one

    def mapped(branch: Jaxpr, forced: Flags) -> tuple[ClosedJaxpr, Sequence[bool]]:
        rows_first = forced or (False,) * len(branch.outvars)
        closed, out_dims = batch_jaxpr(branch, size, own_dims, axis_name, rows_first)
        return closed, [d is not None for d in out_dims]

    made = _agreeing(branches, ("cond batch", size, own_dims, axis_name), mapped)
    outs = bind_cond(made.branches, index, [*made.consts, *operands], params)
    return outs, [0 if flag else None for flag in made.flags]


def _select(
    axis_name: Any, size: int, index: Any, operands: Sequence[Any], dims: tuple[int | None, ...], branches: Branches
) -> Any:
    """Runs all branches on all rows and selects, as a call of its own."""
    n = len(branches[0].outvars)

    def run(index: Any, *operands: Any) -> list[Any]:
        given = []
        for i, branch in enumerate(branches):
            mine = (ge if i == len(branches) - 1 else eq)(index, np.int32(i))
            closed, _ = batch_jaxpr(branch, size, dims, axis_name, (True,) * n)
            stand_in = axis_name is None or axis_name not in names_in(branch)
            rows = [guarded(mine, x, d, stand_in) for x, d in zip(operands, dims)]
            given.append(_where_any(mine, closed, rows))
        which = convert_element_type(index, bool_) if len(branches) == 2 else index
        return [select_n_p.bind(along_rows(which, outs[0]), *outs) for outs in zip(*given)]

    avals = [aval_of(x) for x in (index, *operands)]
    closed = _remembered(branches, ("cond select", size, dims, axis_name), lambda: stage(run, avals))
    return call(closed, [index, *operands], "cond"), [0] * n


def _where_any(mine: Any, closed: ClosedJaxpr, rows: Sequence[Any]) -> list[Any]:
    """A mapped branch, run; one that may not end is run only where some row takes it."""
    if work(closed.jaxpr) < math.inf:
        return eval_jaxpr(closed.jaxpr, closed.consts, *rows)
    eqns: list[JaxprEqn] = []
    branch = constvars_to_invars(closed)
    zeros = [zeros_in(eqns, aval) for aval in branch.out_avals]
    nothing = Jaxpr([], [FillerVar(aval) for aval in branch.in_avals], zeros, eqns)
    needed = convert_element_type(reduce_or(mine, (0,)), _INT32)
    return bind_cond((nothing, branch), needed, [*closed.consts, *rows], {})


def _by_rows(
    size: int, index: Any, operands: Sequence[Any], dims: tuple[int | None, ...], params: dict[str, Any]
) -> Any:
    """A scan over the rows, whose body is the cond."""
    mapped = tuple([d is not None for d in dims])

    def make() -> Jaxpr:
        branch = params["branches"][0]
        here, rows = Var(ShapedArray((), _INT32)), [Var(v.aval) for v in branch.invars]
        outs = [Var(aval) for aval in cond_p.abstract([here.aval, *branch.in_avals], **params)]
        consts = picked(rows, [not flag for flag in mapped])
        eqn = JaxprEqn([here, *rows], outs, cond_p, params, context.source)
        return Jaxpr([], [*consts, here, *picked(rows, mapped)], outs, [eqn])

    body = _remembered(params["branches"], ("cond rows", mapped, params["linear"], params.get("vmap")), make)
    consts = [x for x, d in zip(operands, dims) if d is None]
    xs = [index, *(mapped_to(x, d, size) for x, d in zip(operands, dims) if d is not None)]
    outs = bind_scan(body, consts, [], xs, {"length": size, "reverse": False, "unroll": 1})
    return outs, [0] * len(outs)


# -- dce: branches without the results that nothing reads.


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    branches = eqn.params["branches"]
    needed = any_of([dce_jaxpr(branch, used)[1] for branch in branches])
    smaller = tuple([dce_jaxpr(branch, used, needed)[0] for branch in branches])
    return eqn.replace(
        invars=[eqn.invars[0], *picked(eqn.invars[1:], needed)],
        outvars=picked(eqn.outvars, used),
        params={**eqn.params, "branches": smaller, "linear": tuple(picked(eqn.params["linear"], needed))},
    )


# -- threaded: branches that take and give the state.


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], *, branches: Branches, **params: Any) -> Any:
    index, *operands = values
    outs = bind_cond(tuple(map(thread, branches)), index, [*state, *operands], params)
    return outs[: len(state)], outs[len(state) :]


def _regions(*, branches: Sequence[Jaxpr], **params: Any) -> list[Region]:
    """Of `index | operands`, the branches take the operands."""
    operands = tuple(range(1, 1 + len(branches[0].invars)))
    results = tuple([(i,) for i in range(len(branches[0].outvars))])
    return [Region(branch, "branch", operands, results, chosen_by=(0,)) for branch in branches]


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
        batch=_batch,
        linearize=_linearize,
        batch_named=_batch_named,
        evaluate=_evaluate,
        dce=_dce,
        split=cond_split,
        threaded=_threaded,
        multiple_results=True,
        regions=_regions,
        call=True,
    )
)

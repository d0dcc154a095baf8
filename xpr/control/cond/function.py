"""lax.cond and lax.switch: trace the user's branches and report differences between their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.config import settings
from xpr.control.cond.batching import WAYS
from xpr.control.cond.cond import bind_cond
from xpr.control.refs import check_aliases
from xpr.control.tracing import (
    Body,
    advice_on_casts,
    is_users,
    join_consts,
    missing_casts,
    trace_body,
    type_differences,
    types_of_leaves,
    where_defined,
)
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.effects import control_flow_allowed_effects
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import check_effects
from xpr.core.refs import AbstractRef
from xpr.core.source import describe_function
from xpr.errors import BranchMismatch
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.elementwise import clamp, convert_element_type, ne
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import argument_names

__all__ = ["cond", "switch"]

_INT32 = np.dtype(np.int32)
_NOT_GIVEN: Any = object()


@boundary
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
    vmap: str | None = None,
) -> Any:
    """`true_fun(*operands)` where `pred` is true, else `false_fun(*operands)`, as one operation; both are traced.

    Mapped by `vmap`, a cond whose predicate differs from row to row either runs both branches on all rows and selects,
    or runs one branch for each row. It selects if branches are cheap, on devices other than CPUs, and if a branch has
    a collective over the mapped axis. It runs one branch for each row if a branch has effects, and on CPU if one is
    expensive or holds a `while_loop`, which may not end on rows that do not take the branch.
    `xpr/control/cond/batching.py` has the rule and its numbers.

    Args:
      pred: a boolean scalar, or a number, which is true if not 0.
      true_fun: a function of the operands to a pytree of arrays.
      false_fun: likewise, with results of the same structure and types.
      *operands: pytrees of arrays.
      operand: the operand, instead of `operands`.
      vmap: "select" or "branch", how it is mapped; None to choose by the rule above.

    Returns:
      A pytree of arrays.

    Raises:
      BranchMismatch: the branches' results differ in structure, shape or dtype.
      TypeError: `pred` is not a scalar, or a branch is not a function.

    >>> from xpr import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10)
    Array(11, dtype=int32, weak_type=True)
    """
    if not callable(true_fun) and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        return _with_an_operand_each(pred, true_fun, false_fun, *operands, vmap)
    values = _operands("cond", operands, operand)
    index = _index_of_predicate(pred)
    named = {"true_fun": true_fun, "false_fun": false_fun}
    for name, fun in named.items():
        if not callable(fun):
            raise TypeError(f"lax.cond: {name} must be callable, and is {describe(fun)}.")
    return pick("cond", index, (false_fun, true_fun), values, {"true_fun": 1, "false_fun": 0}, vmap)


@boundary
def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
    vmap: str | None = None,
) -> Any:
    """`branches[index](*operands)`, as one operation; all branches are traced.

    Args:
      index: an integer scalar; it is clipped to the number of branches.
      branches: functions of the operands, whose results have one structure and the same types.
      *operands: pytrees of arrays.
      operand: the operand, instead of `operands`.
      vmap: "select" or "branch", how it is mapped, see `cond`; None to choose.

    Returns:
      A pytree of arrays.

    Raises:
      BranchMismatch: the branches' results differ in structure, shape or dtype.
      TypeError: the index is not an integer scalar, or a branch is not a function.
      ValueError: there are no branches.

    >>> from xpr import lax
    >>> lax.switch(2, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5)
    Array(15, dtype=int32, weak_type=True)
    """
    values = _operands("switch", operands, operand)
    funs = tuple(branches)
    if not funs:
        raise ValueError("switch: there must be at least one branch.")
    for i, fun in enumerate(funs):
        if not callable(fun):
            raise TypeError(f"lax.switch: branches[{i}] must be callable, and is {describe(fun)}.")
    clamped = _clamped(index, len(funs))
    if len(funs) == 1:
        return funs[0](*values)
    return pick("switch", clamped, funs, values, {f"branches[{i}]": i for i in range(len(funs))}, vmap)


def _operands(what: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    """The operands, given by position or as `operand=`.

    Raises:
      TypeError: they are given in both ways.
    """
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            f"{what}: operands were given both by position ({len(operands)}) and by `operand=`. Give them by position."
        )
    return (operand,)


def _with_an_operand_each(
    pred: Any, true_operand: Any, true_fun: Any, false_operand: Any, false_fun: Any, vmap: str | None
) -> Any:
    """The older form `cond(pred, true_operand, true_fun, false_operand, false_fun)`."""
    return cond(
        pred, lambda one, _: true_fun(one), lambda _, two: false_fun(two), true_operand, false_operand, vmap=vmap
    )


# -- The index of the branch: a NumPy scalar if its value is known, else a tracer


def _scalar(what: str, name: str, x: Any, way_out: str) -> ShapedArray:
    """The type of a predicate or an index, which has to be a scalar."""
    if callable(x) and not hasattr(x, "aval"):
        raise TypeError(
            f"{what}: the first argument is {name}, and a function was given, {describe_function(x)}. "
            f"Call it, or mind the order of the arguments: {way_out}."
        )
    if x is None:
        raise TypeError(f"{what} {name.removeprefix('the ')} is None. It must be a scalar.")
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(f"{what}: {name} must be a scalar, and is {describe(x)}.") from None
    if aval.shape:
        raise TypeError(
            f"{what}: {name} must be a scalar, and is {aval.str_short()}. Reduce it to one value; to choose "
            "elementwise, jnp.where and lax.select_n do that, and vmap maps a choice over rows."
        )
    return aval


def _index_of_predicate(pred: Any) -> Any:
    """1 if a predicate holds, else 0, in i32."""
    aval = _scalar("cond", "the predicate", pred, "cond(pred, true_fun, false_fun, *operands)")
    if aval.dtype in dtypes.COMPLEX:
        raise TypeError(f"cond: the predicate must be a boolean or a real number, and is {aval.str_short()}.")
    if not isinstance(pred, Tracer):
        return np.int32(bool(pred))
    return convert_element_type(pred if aval.dtype == dtypes.bool_ else ne(pred, aval.dtype.type(0)), _INT32)


def _clamped(index: Any, n_branches: int) -> Any:
    """The index of a switch in i32, clipped to the number of branches."""
    aval = _scalar("switch", "the index", index, "switch(index, branches, *operands)")
    if aval.dtype not in dtypes.INTEGERS:
        raise TypeError(f"switch: the index must be an integer, and is {aval.str_short()}. Convert it, or use cond.")
    if not isinstance(index, Tracer):
        return np.int32(min(max(int(index), 0), n_branches - 1))
    return clamp(np.int32(0), convert_element_type(index, _INT32), np.int32(n_branches - 1))


# -- The branches


def pick(
    what: str,
    index: Any,
    funs: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    names: dict[str, int],
    vmap: str | None,
) -> Any:
    """Binds the primitive; `names` are the user's names of `funs`, in the order in which messages list them."""
    if vmap not in WAYS:
        raise ValueError(f'{what}: vmap must be "select", "branch" or None, and is {vmap!r}.')
    if settings.disable_jit and not isinstance(index, Tracer):
        return funs[index](*operands)
    leaves, in_tree = tree.flatten((operands, {}))
    avals = types_of_leaves(what, "operands", in_tree.children()[0], leaves)
    if AbstractRef in map(type, avals):
        check_aliases(what, funs[-1], partial(argument_names, funs[-1], operands, {}), leaves, ())
    bodies = [trace_body(fun, in_tree, avals, f"a branch of a {what}", refs=True) for fun in funs]
    _check_results(what, [(name, bodies[i]) for name, i in names.items()])
    consts, branches = join_consts([body.closed for body in bodies])
    for fun, body in zip(funs, bodies):
        check_effects(what, body.closed.jaxpr, control_flow_allowed_effects)
        if uses_of_refs(body.closed.jaxpr).any:
            check_aliases(what, fun, partial(argument_names, fun, operands, {}), leaves, body.consts)
    like = {} if vmap is None else {"vmap": vmap}
    outs = bind_cond(tuple(branches), index, [*consts, *leaves], like)
    return tree.unflatten(bodies[0].out_tree, outs)


def _check_results(what: str, bodies: Sequence[tuple[str, Body]]) -> None:
    """Raises BranchMismatch if the results of branches differ, with all the differences."""
    (name, first), *others = bodies
    lines, definitions, aspect = [], [where_defined(name, first.fun)], "types"
    for other_name, other in others:
        if other.out_tree != first.out_tree:
            aspect = "structure"
            differences = tree.differences(first.out_tree, other.out_tree, name="result")
            differences.insert(0, f"  {other_name}, where that of {name} is expected:")
        else:
            words = (name, other_name)
            differences = type_differences("result", first.out_tree, first.out_avals, other.out_avals, words)
        if differences:
            lines += differences
            definitions.append(where_defined(other_name, other.fun))
    if lines:
        header = f"{what}: the branches must give results of the same {aspect}."
        advice = "  Reshape, convert or regroup inside the branches until they agree."
        raise BranchMismatch("\n".join([header, *lines, *definitions, advice]))
    casts = [
        cast
        for branch, body in bodies
        for _, other in bodies
        for cast in missing_casts(
            "result", first.out_tree, other.out_avals, body.out_avals, f"the output of {branch}: "
        )
    ]
    if casts and all(is_users(body.fun) for _, body in bodies):
        raise BranchMismatch(
            f"{what}: the branches must give results of the same types, and one varies over axes of the shard_map "
            "around, over which another does not.\n"
            + "\n".join([where_defined(branch, body.fun) for branch, body in bodies])
            + f"\n{advice_on_casts(list(dict.fromkeys(casts)))}"
        )

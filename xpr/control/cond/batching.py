"""How a cond with a mapped index runs: all branches on all rows and a selection, or one branch for each row.

The first suits accelerators, and costs least if branches are cheap. The second discards no work, which matters
if a branch is expensive, may not end on rows that do not take it (a `while` inside), or has effects. The rule, in
this order:

* the user's choice, by `lax.cond(..., vmap="select")` or `vmap="branch"`;
* a branch with a collective over the mapped axis needs all rows at once: select;
* a branch with an effect, such as a callback, must run only on the rows that take it: branch;
* on other devices than CPUs: select;
* on CPU: branch if the work that a selection discards for each row is more than `WORTH_A_BRANCH`, else select.

`work` counts elements read and written, and multiplications in products. A loop costs its length times its body's
work; a `while`, whose length is unknown, and the loop that differentiates it, have infinite cost.

In a selection a branch also runs on rows that do not take it. There an infinite derivative times the zero cotangent
of the row would be nan, also in values that all rows share, and a loop might not end. So on those rows the operands
are those of the first row that takes the branch (`guarded`). If there is no such row, no derivative passes, and a
branch that may not end isn't run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import devices
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import shardings_decided_later
from xpr.core.jaxpr import Jaxpr, JaxprEqn, effects
from xpr.core.regions import total_cost
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import INEXACT
from xpr.primitives.argminmax import argmax
from xpr.primitives.flops import operations
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_in_dim
from xpr.primitives.sharding_constraint import constrain_to
from xpr.primitives.slicing import select
from xpr.primitives.slicing_in_dim import dynamic_index_in_dim
from xpr.transforms.batch import names_in

WAYS = (None, "select", "branch")
# Measured on a CPU of two cores with half of the rows taking the expensive one of two branches. Below it a selection is
# faster, or nearly as fast, as it computes several rows at once; above it the branch is, more so the fewer take it.
WORTH_A_BRANCH = 20_000.0


def runs_as_select(branches: Sequence[Jaxpr], wish: str | None, axis_name: Any) -> bool:
    """Whether a cond with a mapped index runs all branches on all rows.

    Args:
      branches: the branches of the cond.
      wish: "select", "branch", or None for the rule above.
      axis_name: the name of the mapped axis, if a branch may name it.
    Raises:
      ValueError: "branch" is asked for, and a branch has a collective over the axis.
    """
    if axis_name is not None and any(axis_name in names_in(branch) for branch in branches):
        if wish == "branch":
            raise ValueError(
                f'cond: vmap="branch" runs row by row, and a branch names the mapped axis {axis_name!r} in a '
                'collective, which needs all rows at once. Leave the choice open, or ask for "select".'
            )
        return True
    if wish is not None:
        return wish == "select"
    if any(effects(branch) for branch in branches):
        return False
    if devices.default_device().platform != "cpu":
        return True
    return wasted(branches) <= WORTH_A_BRANCH


def wasted(branches: Sequence[Jaxpr]) -> float:
    """The work on one row that a selection discards, if all branches are equally likely."""
    costs = list(map(work, branches))
    return sum(costs) * (1 - 1 / len(costs))


def work(jaxpr: Jaxpr) -> float:
    """The cost of running a jaxpr, in elements read and written; cached with it."""
    return total_cost(jaxpr, "work", _work_of, math.inf)


def _work_of(eqn: JaxprEqn) -> float:
    if any(v.aval.is_symbolic for v in (*eqn.invars, *eqn.outvars) if type(v.aval) is ShapedArray):
        return sum(_elements(v.aval) for v in (*eqn.invars, *eqn.outvars))
    # A product has as many multiplications as additions.
    return max(operations(eqn) / 2, sum(v.aval.size for v in (*eqn.invars, *eqn.outvars)))


_MANY = 100  # elements along an axis of symbolic size


def _elements(aval: Any) -> float:
    return math.prod(_MANY if is_symbolic_dim(n) else n for n in aval.shape)


def guarded(taken: Any, x: Any, dim: int | None, stand_in: bool) -> Any:
    """An operand for a branch that is run on all rows.

    Args:
      taken: for each row, whether it takes the branch.
      x: the operand.
      dim: its mapped axis, or None.
      stand_in: whether rows that don't take the branch get the operand of one that does. They must not if the branch
        mixes rows; they then keep their operands, through which no derivative passes.
    """
    if not aval_of(taken).size or ((dim is None or not stand_in) and aval_of(x).dtype not in INEXACT):
        return x
    if dim is None:
        return select(reduce_or(taken, (0,)), x, stop_gradient(x))
    other = x
    if stand_in:
        with shardings_decided_later():
            first = dynamic_index_in_dim(x, argmax(taken, 0, np.int32), dim, allow_negative_indices=False)
            other = constrain_to(broadcast_in_dim(first, aval_of(x).shape, range(aval_of(x).ndim)), aval_of(x))
    return select(along_rows(taken, x, dim), x, stop_gradient(other))


def along_rows(flags: Any, x: Any, dim: int = 0) -> Any:
    """Flags for the rows of `x`, along its axis `dim`, broadcast to its shape."""
    shape = aval_of(x).shape
    return flags if len(shape) == 1 else broadcast_in_dim(flags, shape, (dim,))

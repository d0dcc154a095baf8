"""How a cond runs whose index is mapped: all branches on all rows and a selection, or one branch for each row.

The first is what accelerators are good at, and what costs least where branches are cheap. The second does no work that
is thrown away, which matters where a branch is costly, need not end on rows that are not its own (a `while` inside), or
has effects. The rule, in this order:

* what the user asked for, by `lax.cond(..., vmap="select")` or `vmap="branch"`;
* a branch with a collective over the mapped axis needs all rows at once: select;
* a branch with an effect, such as a callback, must run on its own rows alone: branch;
* elsewhere than on CPU: select;
* on CPU: branch, where the work that a selection throws away for each row is more than `WORTH_A_BRANCH`, else select.

Work is counted in entries read and written, and multiplications in products, by `work`. A loop takes its length times
its body's work; a `while`, of which no one knows, and the loop that differentiates it, take infinitely much.

In a selection a branch runs on rows that are not its own, and must come to no harm there: an infinite derivative times
the zero cotangent of such a row would be a nan, also in what all rows share, and a loop might not end. So in those rows
the branch is given the operands of the first row of its own (`guarded`). Where there is no such row, no derivative
passes, and a branch that may not end isn't run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import devices
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.core.jaxpr import Jaxpr, JaxprEqn, effects
from xpr.core.regions import regions_of
from xpr.dtypes import INEXACT
from xpr.primitives.argminmax import argmax
from xpr.primitives.flops import operations
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_in_dim
from xpr.primitives.slicing import select
from xpr.primitives.slicing_in_dim import dynamic_index_in_dim
from xpr.transforms.batch import names_in

WAYS = (None, "select", "branch")
# Measured on a CPU of two cores with half of the rows taking the costly one of two branches. Below it a selection is
# faster, or nearly as fast, as it computes on several rows at once; above it the branch is, more so the fewer take it.
WORTH_A_BRANCH = 20_000.0


def runs_as_select(branches: Sequence[Jaxpr], wish: str | None, axis_name: Any) -> bool:
    """Whether a cond with a mapped index runs all branches on all rows.

    Args:
      branches: what it picks from.
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
    """The work on one row that a selection throws away, where every branch is as likely as another."""
    costs = list(map(work, branches))
    return sum(costs) * (1 - 1 / len(costs))


def work(jaxpr: Jaxpr) -> float:
    """What running a jaxpr takes, in entries read and written; remembered with it."""
    if "work" not in jaxpr.memo:
        jaxpr.memo["work"] = sum(map(_work_of, jaxpr.eqns), 0.0)
    return jaxpr.memo["work"]


def _work_of(eqn: JaxprEqn) -> float:
    regions = regions_of(eqn)
    if not regions:  # a product multiplies as often as it adds
        return max(operations(eqn) / 2, sum(v.aval.size for v in (*eqn.invars, *eqn.outvars)))
    branches = [work(region.jaxpr) for region in regions if region.kind == "branch"]
    others = [region for region in regions if region.kind != "branch"]
    return max(branches, default=0.0) + sum(
        math.inf if region.times is None else region.times * work(region.jaxpr) for region in others
    )


def guarded(mine: Any, x: Any, dim: int | None, stand_in: bool) -> Any:
    """An operand as a branch sees it that is run on all rows.

    Args:
      mine: for each row, whether it takes the branch.
      x: the operand.
      dim: its mapped axis, or None.
      stand_in: whether rows that don't take the branch are given the operand of one that does. Where rows mix in the
        branch, they must not be; they then keep their own, through which no derivative passes.
    """
    if not aval_of(mine).size or ((dim is None or not stand_in) and aval_of(x).dtype not in INEXACT):
        return x
    if dim is None:
        return select(reduce_or(mine, (0,)), x, stop_gradient(x))
    other = x
    if stand_in:
        first = dynamic_index_in_dim(x, argmax(mine, 0, np.int32), dim, allow_negative_indices=False)
        other = broadcast_in_dim(first, aval_of(x).shape, range(aval_of(x).ndim))
    return select(along_rows(mine, x, dim), x, stop_gradient(other))


def along_rows(flags: Any, x: Any, dim: int = 0) -> Any:
    """Flags for the rows of `x`, along its axis `dim`, in its shape."""
    shape = aval_of(x).shape
    return flags if len(shape) == 1 else broadcast_in_dim(flags, shape, (dim,))

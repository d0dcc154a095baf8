"""How a cond runs whose index is mapped: all branches on all rows and a selection, or one branch for each row.

The first is what accelerators are good at, and what costs least where branches are cheap. The second does no work that
is thrown away, which matters where a branch is costly, need not end on rows that are not its own (a `while` inside), or
has effects. The rule, in this order:

* what the user asked for, by `lax.cond(..., vmap="select")` or `vmap="branch"`;
* a branch with a collective over the mapped axis needs all rows at once: select;
* a branch with an effect, such as a callback, must run on its own rows alone: branch;
* elsewhere than on CPU: select;
* on CPU: branch, where the work that a selection throws away for each row is more than `WORTH_A_BRANCH`, else select.

Work is counted in entries read and written, and multiplications in products, by `work`. A `scan` takes its length times
its body's work; a `while`, of which no one knows, takes infinitely much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend import devices
from xpr.core.jaxpr import Jaxpr, JaxprEqn, effects, subjaxprs
from xpr.transforms.batch import names_in

WAYS = (None, "select", "branch")
WORTH_A_BRANCH = 20_000.0  # entries; a step of a loop with a branch inside costs a few microseconds


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
    special = _SPECIAL.get(eqn.primitive.name)
    if special is not None:
        return special(eqn)
    entries = sum(v.aval.size for v in (*eqn.invars, *eqn.outvars))
    inner = list(subjaxprs(eqn))
    return sum(map(work, inner)) if inner else entries


def _work_of_product(eqn: JaxprEqn) -> float:
    """Every entry of the result is a sum of as many products as one operand has entries along contracted axes."""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    return eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)


def _work_of_convolution(eqn: JaxprEqn) -> float:
    """Every entry of the result is a sum over the kernel of one output feature."""
    kernel = eqn.invars[1].aval
    features = kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    return eqn.outvars[0].aval.size * kernel.size / max(features, 1)


_SPECIAL: dict[str, Callable[[JaxprEqn], float]] = {
    "dot_general": _work_of_product,
    "conv_general_dilated": _work_of_convolution,
    "scan": lambda eqn: eqn.params["length"] * work(eqn.params["jaxpr"]),
    "cond": lambda eqn: max(map(work, eqn.params["branches"])),
    "while": lambda eqn: math.inf,
}

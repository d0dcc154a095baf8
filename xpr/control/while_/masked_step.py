"""One step of a loop that is mapped over rows, some of which are finished and keep their values.

The step is computed for finished rows too and discarded, which is harmless except for derivatives: if the derivative
is infinite there, zero times infinity is nan. So when a step is differentiated, each finished row takes it at the
arguments of a row that is still running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.primitives.argminmax import argmax
from xpr.primitives.shapes import broadcast_in_dim, instantiate
from xpr.primitives.slicing import select
from xpr.primitives.slicing_in_dim import dynamic_slice_in_dim
from xpr.text.parameters import register_parameter
from xpr.transforms.linearize import push_forward_in_rule


def select_rows(running: Any, new: Any, old: Any) -> Any:
    """`new` in the rows where `running` is True, `old` in the others."""
    shape = aval_of(new).shape
    return select(broadcast_in_dim(running, shape, (0,)), new, old)


def step_rows(
    body: Jaxpr, running: Any, args: Sequence[Any], rows: Sequence[bool], olds: Sequence[int | None]
) -> list[Any]:
    """Runs a body that is mapped over rows, for the rows where `running` is True.

    Args:
      body: a jaxpr without constants, mapped over axis 0 of some of its arguments and results.
      running: a boolean for each row.
      args: the arguments.
      rows: which of the arguments have rows.
      olds: for each result that has rows, the position of the argument that finished rows keep; None for the others.
    """

    if all(at is None for at in olds):
        return eval_jaxpr(body, (), *args)

    step = RowStep(body, tuple(rows), tuple(olds))
    return custom_jvp_call_p.bind(running, *args, call_jaxpr=step.run, jvp=step, name="step", num_consts=0)


@register_parameter
@dataclass(frozen=True)
class RowStep:
    """The jvp rule of a step on the rows that are still running; `run` is the step. See `step_rows` for the fields."""

    body: Jaxpr
    rows: tuple[bool, ...]
    olds: tuple[int | None, ...]

    def run(self, running: Any, *args: Any) -> list[Any]:
        return self.keep_finished(running, eval_jaxpr(self.body, (), *args), args)

    def keep_finished(self, running: Any, news: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        return [new if at is None else select_rows(running, new, args[at]) for new, at in zip(news, self.olds)]

    def __call__(self, constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (running, *args), (_, *moved) = primals, tangents
        stand_ins = _with_running_arguments(running, args, self.rows)
        news, new_tangents = push_forward_in_rule(lambda *xs: eval_jaxpr(self.body, (), *xs), stand_ins, moved)
        pairs = [(t, None if at is None else moved[at]) for t, at in zip(new_tangents, self.olds)]
        return self.keep_finished(running, news, args), [
            _keep_finished_tangent(running, new, old) for new, old in pairs
        ]


def _keep_finished_tangent(running: Any, new: Any, old: Any) -> Any:
    if old is None or (type(new) is Zero and type(old) is Zero):
        return new
    return select_rows(running, instantiate(new), instantiate(old))


def _with_running_arguments(running: Any, args: Sequence[Any], rows: Sequence[bool]) -> list[Any]:
    """The arguments, with those of the first running row in place of the finished rows'."""
    if not aval_of(running).size:
        return list(args)
    first = argmax(running, 0, np.int32)

    def moved(x: Any) -> Any:
        row = dynamic_slice_in_dim(x, first, 1, allow_negative_indices=False)
        shape = aval_of(x).shape
        return select_rows(running, x, broadcast_in_dim(row, shape, range(len(shape))))

    return [moved(x) if has else x for x, has in zip(args, rows)]

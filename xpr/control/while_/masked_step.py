"""One step of a loop that is mapped over rows of which some are finished: those keep what they have.

A finished row must not spoil the others. Its step is computed with theirs and thrown away, which is harmless but for
derivatives: where the step has an infinite one, zero times infinity is no zero. So when a step is differentiated, each
finished row takes it where a row that is still going stands.
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
from xpr.transforms.jvp import push_forward


def where_rows(going: Any, new: Any, old: Any) -> Any:
    """`new` in the rows that `going` marks, `old` in the others."""
    shape = aval_of(new).shape
    return select(broadcast_in_dim(going, shape, (0,)), new, old)


def step_rows(
    body: Jaxpr, going: Any, args: Sequence[Any], rows: Sequence[bool], olds: Sequence[int | None]
) -> list[Any]:
    """Runs a body that is mapped over rows, for the rows that `going` marks.

    Args:
      body: a jaxpr without constants, mapped over axis 0 of some of its arguments and results.
      going: a boolean for each row.
      args: the arguments.
      rows: which of the arguments have rows.
      olds: for each result that has rows, the position of the argument that finished rows keep; None for the others.
    """

    if all(at is None for at in olds):
        return eval_jaxpr(body, (), *args)

    step = RowStep(body, tuple(rows), tuple(olds))
    return custom_jvp_call_p.bind(going, *args, call_jaxpr=step.run, jvp=step, name="step", num_consts=0)


@register_parameter
@dataclass(frozen=True)
class RowStep:
    """The jvp rule of a step on those rows that are going; `run` is the step. See `step_rows` for the fields."""

    body: Jaxpr
    rows: tuple[bool, ...]
    olds: tuple[int | None, ...]

    def run(self, going: Any, *args: Any) -> list[Any]:
        return self.kept(going, eval_jaxpr(self.body, (), *args), args)

    def kept(self, going: Any, news: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        return [new if at is None else where_rows(going, new, args[at]) for new, at in zip(news, self.olds)]

    def __call__(self, constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        going, *args = primals
        places = _moved_to_going_rows(going, args, self.rows)
        news, new_tangents = push_forward(lambda *xs: eval_jaxpr(self.body, (), *xs), places, tangents[1:])
        pairs = [(t, None if at is None else tangents[1 + at]) for t, at in zip(new_tangents, self.olds)]
        return self.kept(going, news, args), [_kept_tangent(going, new, old) for new, old in pairs]


def _kept_tangent(going: Any, new: Any, old: Any) -> Any:
    if old is None or (type(new) is Zero and type(old) is Zero):
        return new
    return where_rows(going, instantiate(new), instantiate(old))


def _moved_to_going_rows(going: Any, args: Sequence[Any], rows: Sequence[bool]) -> list[Any]:
    """The arguments with those of the first row that is going in place of the finished rows'."""
    if not aval_of(going).size:
        return list(args)
    first = argmax(going, 0, np.int32)

    def moved(x: Any) -> Any:
        row = dynamic_slice_in_dim(x, first, 1, allow_negative_indices=False)
        shape = aval_of(x).shape
        return where_rows(going, x, broadcast_in_dim(row, shape, range(len(shape))))

    return [moved(x) if has else x for x, has in zip(args, rows)]

"""Rules of custom_vjp functions inside a shard_map that counts replicated values once; see replicated_cotangents.py.

A rule's `bwd` takes and returns cotangents of replicated values, while a program of a shard_map has each device's
share of those. So cotangents are summed before `bwd`, and divided into shares after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpr.control.custom.custom_lin import Pull
from xpr.control.custom.replicated_cotangents import count_copies, shares, sums
from xpr.control.groups import mask, merge, split_list
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.primitives.collectives.reduce import psum_p
from xpr.primitives.elementwise import div, scalar
from xpr.transforms.batch import names_in
from xpr.transforms.stage import stage

Axes = frozenset[Any]


def counting_copies(
    primals: Sequence[Any], outs: Sequence[Any], residuals: Sequence[Any], pull: Pull
) -> tuple[Sequence[Any], Pull]:
    """The residuals and the pull of a rule while the user's function that is differentiated is being traced."""
    if not count_copies():
        return residuals, pull

    def counted(residuals_and_values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        rule_residuals, arguments, results = split_list(residuals_and_values, len(residuals), len(primals))
        primal_cts = pull(rule_residuals, sums(cts, results))
        return shares(primal_cts, list(zip(primal_cts, arguments)))

    return [*residuals, *primals, *outs], counted


class CountedRule:
    """The first half of a rule, in the program of a shard_map that is differentiated from outside.

    Args:
      fwd: the rule, see custom_vjp.py.
      call_jaxpr: the function itself.
      ins, outs: the axes over which the operands, constants included, and the results vary.
      sizes: the sizes of all the axes.
      varying_axes: from the axes over which a jaxpr's arguments vary to those over which its results vary.
    """

    def __init__(
        self, fwd: Callable[..., Any], call_jaxpr: Jaxpr, ins: Sequence[Axes], outs: Sequence[Axes],
        sizes: Mapping[Any, int], varying_axes: Callable[[Jaxpr, Sequence[Axes]], list[Axes]],
    ):  # fmt: skip
        self.fwd, self.call_jaxpr, self.ins, self.outs = fwd, call_jaxpr, ins, outs
        self.sizes, self.varying_axes = sizes, varying_axes

    def __call__(self, constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        outs, residuals, pull = self.fwd(constants, primals, active)
        n, avals = len(constants), [aval_of(x) for x in (*constants, *primals)]

        def pulled(residuals_and_values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            transposed, primal_cts = _staged(pull, residuals_and_values, cts)
            present, nonzero = list(map(_is_present, cts)), list(map(_is_present, primal_cts))
            local = self.sizes.keys().isdisjoint(names_in(transposed.jaxpr) | names_in(self.call_jaxpr))
            if local and all(self.sizes.keys() <= axes for axes in mask(self.outs, present)):
                return pull(residuals_and_values, cts)
            forward = stage(lambda *xs: self.fwd(*split_list(xs, n), active)[1], avals)
            axes_in = [*self.varying_axes(forward.jaxpr, self.ins), *mask(self.outs, present)]
            summed_cts = list(map(self.summed, mask(cts, present), mask(self.outs, present)))
            _, primal_axes = split_list(self.ins, n)
            axes_out = [a | p for a, p in zip(self.varying_axes(transposed.jaxpr, axes_in), mask(primal_axes, nonzero))]
            results = map(
                self.divide,
                eval_jaxpr(transposed.jaxpr, transposed.consts, *residuals_and_values, *summed_cts),
                axes_out,
            )
            return merge(results, (ct for ct in primal_cts if not _is_present(ct)), nonzero)

        return outs, residuals, pulled

    def summed(self, ct: Any, varying: Axes) -> Any:
        axes = tuple([name for name in self.sizes if name not in varying])
        return psum_p.bind(ct, axes=axes, axis_index_groups=None)[0] if axes else ct

    def divide(self, ct: Any, varying: Axes) -> Any:
        copies = math.prod([size for name, size in self.sizes.items() if name not in varying])
        return ct if copies == 1 else div(ct, scalar(copies, ct))


def _is_present(ct: Any) -> bool:
    return ct is not None and type(ct) is not Zero


def _staged(pull: Pull, residuals_and_values: Sequence[Any], cts: Sequence[Any]) -> Any:
    """The jaxpr of a pull from the nonzero cotangents to those that it returns, and its results."""
    primal_cts: list[Any] = []
    present = list(map(_is_present, cts))

    def transposed(*xs: Any) -> list[Any]:
        saved, arrays = split_list(xs, len(residuals_and_values))
        primal_cts[:] = pull(saved, merge(arrays, (ct for ct in cts if not _is_present(ct)), present))
        return list(filter(_is_present, primal_cts))

    return stage(transposed, [aval_of(x) for x in (*residuals_and_values, *mask(cts, present))]), primal_cts

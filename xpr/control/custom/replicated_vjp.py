"""Rules of custom_vjp functions inside a shard_map that counts replicated values once: see replicated_cotangents.py.

A rule's `bwd` takes the cotangent of what devices have in common, and gives such, while a program of a shard_map has
the shares and the copies of those. So cotangents are summed before `bwd`, and shared out after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpr.control.custom.custom_lin import Pull
from xpr.control.custom.replicated_cotangents import count_copies, shares, sums
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
    """The residuals and the pull of a rule, where the user's function that is differentiated is being traced."""
    if not count_copies():
        return residuals, pull
    n, k = len(residuals), len(residuals) + len(primals)

    def counted(kept: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found = pull(kept[:n], sums(cts, kept[k:]))
        return shares(found, list(zip(found, kept[n:k])))

    return [*residuals, *primals, *outs], counted


class CountedRule:
    """The first half of a rule, in the program of a shard_map that is differentiated from outside.

    Args:
      fwd: the rule, see custom_vjp.py.
      call_jaxpr: the function itself.
      ins, outs: along which axes the operands, constants included, and the results differ.
      sizes: of all the axes.
      differing: which results of a jaxpr differ along which axes, from those of its arguments.
    """

    def __init__(
        self, fwd: Callable[..., Any], call_jaxpr: Jaxpr, ins: Sequence[Axes], outs: Sequence[Axes],
        sizes: Mapping[Any, int], differing: Callable[[Jaxpr, Sequence[Axes]], list[Axes]],
    ):  # fmt: skip
        self.fwd, self.call_jaxpr, self.ins, self.outs = fwd, call_jaxpr, ins, outs
        self.sizes, self.differing = sizes, differing

    def __call__(self, constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        outs, residuals, pull = self.fwd(constants, primals, active)
        n, avals = len(constants), [aval_of(x) for x in (*constants, *primals)]

        def pulled(kept: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            back, found = _staged(pull, kept, cts)
            if self.sizes.keys().isdisjoint(names_in(back.jaxpr) | names_in(self.call_jaxpr)):
                return pull(kept, cts)
            forward = stage(lambda *xs: self.fwd(xs[:n], xs[n:], active)[1], avals)
            given = [*self.differing(forward.jaxpr, self.ins), *[a for a, ct in zip(self.outs, cts) if _is_there(ct)]]
            whole = [self.summed(ct, axes) for ct, axes in zip(cts, self.outs) if _is_there(ct)]
            results = iter(
                [self.share(x, a) for x, a in zip(
                    eval_jaxpr(back.jaxpr, back.consts, *kept, *whole),
                    [a | p for a, p in zip(self.differing(back.jaxpr, given), self.of_results(found, n))],
                )]
            )  # fmt: skip
            return [next(results) if _is_there(x) else x for x in found]

        return outs, residuals, pulled

    def of_results(self, found: Sequence[Any], constants: int) -> list[Axes]:
        """Along which axes those primals differ that have a cotangent."""
        return [axes for x, axes in zip(found, self.ins[constants:]) if _is_there(x)]

    def summed(self, ct: Any, differs: Axes) -> Any:
        axes = tuple([name for name in self.sizes if name not in differs])
        return psum_p.bind(ct, axes=axes, axis_index_groups=None)[0] if axes else ct

    def share(self, ct: Any, differs: Axes) -> Any:
        copies = math.prod([size for name, size in self.sizes.items() if name not in differs])
        return ct if copies == 1 else div(ct, scalar(copies, ct))


def _is_there(ct: Any) -> bool:
    return ct is not None and type(ct) is not Zero


def _staged(pull: Pull, kept: Sequence[Any], cts: Sequence[Any]) -> Any:
    """The jaxpr of a pull from those cotangents that are there to those that it gives, and what it gives."""
    found: list[Any] = []

    def back(*xs: Any) -> list[Any]:
        given = iter(xs[len(kept) :])
        found[:] = pull(xs[: len(kept)], [next(given) if _is_there(ct) else ct for ct in cts])
        return [x for x in found if _is_there(x)]

    return stage(back, [aval_of(x) for x in (*kept, *filter(_is_there, cts))]), found

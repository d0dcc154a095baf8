"""The laws of derivatives: jvp, zeros, linearize, vjp, order2, transpose. They compute in 64 bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from tests.ops.case import SHARP, Case, all_close, inner, random_like, run, same_type
from xpr import core, dtypes
from xpr.api.grad import jvp, linear_transpose, vjp
from xpr.api.make_jaxpr import trace_function
from xpr.config_contexts import enable_x64
from xpr.core.avals import Zero, aval_of
from xpr.errors import UnsupportedRule
from xpr.primitives.shapes import instantiate
from xpr.testing import check_jvp
from xpr.transforms.jvp import push_forward
from xpr.transforms.linearize import linearize_flat

DIFFERENCE = 1e-6  # of a derivative and a finite difference


def subsets(positions: Sequence[int], most: int = 3) -> Iterator[tuple[int, ...]]:
    """All non-empty choices where there are few positions, else each alone, all but each, and all."""
    n = len(positions)
    sizes = range(1, n + 1) if n <= most else sorted({1, n - 1, n})
    for size in sizes:
        yield from itertools.combinations(positions, size)


def jvp_law(case: Case) -> None:
    """The tangent is the limit of finite differences."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active, case.inexact), case.at(case.active)
        _check_difference(f, xs, "jvp")


def _check_difference(f: Callable[..., Any], xs: Sequence[Any], what: str) -> None:
    def f_jvp(ps: Any, ts: Any) -> Any:
        return run(lambda p, t: jvp(f, tuple(p), tuple(t)), ps, ts)

    check_jvp(partial(run, f), f_jvp, xs, DIFFERENCE, DIFFERENCE, err_msg=what)


def zeros(case: Case) -> None:
    """Symbolic zeros are zeros, and where all tangents are zero the result's are, symbolically."""
    if not case.row.differentiable:
        return _check_undifferentiable(case)
    with enable_x64():
        case = case.wide()
        trace_function(partial(_check_without_tangents, case), case.operands, {}, "staged by a law")
        for chosen in subsets(case.active):
            _check_zeros(case, chosen)


def _check_without_tangents(case: Case, *xs: Any) -> list[Any]:
    none = [Zero(aval_of(x).to_tangent_aval()) for x in xs]
    outs, tangents = push_forward(case, xs, none) if case.row.along or case.row.of_refs else _rule(case, xs, none)
    if any(type(t) is not Zero for t in tangents):
        raise AssertionError(f"zeros: no operand has a tangent, and the results have {tangents}")
    _check_tangent_types(outs, tangents)
    return []


def _rule(case: Case, xs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return case.primitive.jvp(case.with_keys(xs), tangents, **case.params)


def _check_undifferentiable(case: Case) -> None:
    tangents = [
        np.ones(x.shape, x.dtype) if x.dtype in dtypes.INEXACT else Zero(aval_of(x).to_tangent_aval())
        for x in case.operands
    ]

    def pushed(*xs: Any) -> list[Any]:
        _, out = _rule(case, xs, tangents)
        if any(type(t) is not Zero for t in out):
            raise AssertionError("zeros: the row says differentiable=False, and the jvp rule gives tangents")
        return []

    with suppress(UnsupportedRule):
        trace_function(pushed, case.operands, {}, "staged by a law")


def _check_tangent_types(outs: Sequence[Any], tangents: Sequence[Any]) -> None:
    for x, t in zip(outs, tangents, strict=True):
        want, have = aval_of(x).to_tangent_aval(), aval_of(t)
        if (want.shape, want.dtype) != (have.shape, have.dtype):
            raise AssertionError(f"zeros: the tangent of {aval_of(x).str_short()} is of type {have.str_short()}")


def _check_zeros(case: Case, chosen: tuple[int, ...]) -> None:
    def jvp_with(symbolic: bool, *nonzero: Any) -> list[Any]:
        tangents = [Zero(aval_of(x).to_tangent_aval()) for x in case.operands]
        if not symbolic:
            tangents = [t if t.aval.dtype == dtypes.float0 else instantiate(t) for t in tangents]
        for i, t in zip(chosen, nonzero, strict=True):
            tangents[i] = t
        outs, out_tangents = push_forward(case, case.operands, tangents)
        _check_tangent_types(outs, out_tangents)
        return [instantiate(t) for t in out_tangents if aval_of(t).dtype != dtypes.float0]

    nonzero = random_like(case.at(chosen), 1)
    lazily, plainly = run(partial(jvp_with, True), *nonzero), run(partial(jvp_with, False), *nonzero)
    all_close(lazily, plainly, SHARP, f"zeros: with tangents for the operands {chosen} alone")


def linearize_law(case: Case) -> None:
    """The linear program gives the tangents that jvp gives."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active), case.at(case.active)
        ts = random_like(xs, 2)

        def linearized(*tangents: Any) -> list[Any]:
            outs, linear, is_active = linearize_flat(f, xs, [True] * len(xs))
            core.check_jaxpr(linear)
            nonzero = iter(core.eval_jaxpr(linear.jaxpr, linear.consts, *tangents))
            zeros = [Zero(aval_of(x).to_tangent_aval()) for x in outs]
            return [next(nonzero) if a else instantiate(z) for a, z in zip(is_active, zeros, strict=True) if _has(a, z)]

        def by_jvp(*tangents: Any) -> list[Any]:
            return [t for t in jvp(f, tuple(xs), tangents)[1] if aval_of(t).dtype != dtypes.float0]

        all_close(run(linearized, *ts), run(by_jvp, *ts), SHARP, "linearize: linearize and jvp differ")


def _has(is_active: bool, zero: Zero) -> bool:
    return is_active or zero.aval.dtype != dtypes.float0


def vjp_law(case: Case) -> None:
    """<ct, J v> = <J^T ct, v>, for all operands together and each alone."""
    with enable_x64():
        case = case.wide()
        for chosen in subsets(case.active, most=2):
            f, xs = case.of(chosen, case.inexact), case.at(chosen)
            vs, cts = random_like(xs, 3), random_like(run(f, *xs), 4)
            pushed = run(lambda *ts: jvp(f, tuple(xs), ts)[1], *vs)  # noqa: B023  # called at once
            pulled = run(lambda *cs: vjp(f, *xs)[1]([*cs]), *cts)  # noqa: B023
            for x, ct in zip(xs, pulled, strict=True):
                same_type(ct, x, "vjp: the cotangent is not of its operand's type")
            forward, backward = inner(cts, pushed), inner(pulled, vs)
            if abs(forward - backward) > SHARP * (1 + abs(forward)):
                raise AssertionError(f"vjp: <ct, J v> is {forward} and <J^T ct, v> {backward}, for operands {chosen}")


def order2(case: Case) -> None:
    """The second derivative is the finite difference of the first, and the same by every pair of modes."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active, case.inexact), case.at(case.active)
        vs, ws = random_like(xs, 5), random_like(xs, 6)
        cts = random_like(run(f, *xs), 7)

        def pushed(*ps: Any) -> Any:
            return jvp(f, ps, tuple(vs))[1]

        def pulled(*ps: Any) -> Any:
            return vjp(f, *ps)[1](cts)

        _check_difference(pushed, xs, "order2: jvp of jvp")
        forward_over_reverse = run(lambda *ts: jvp(pulled, tuple(xs), ts)[1], *ws)
        reverse_over_forward = run(lambda *ts: vjp(lambda *ps: jvp(f, ps, ts)[1], *xs)[1](cts), *ws)
        reverse_over_reverse = run(lambda *ts: vjp(pulled, *xs)[1](ts), *ws)
        all_close(reverse_over_forward, forward_over_reverse, SHARP, "order2: reverse over forward")
        all_close(reverse_over_reverse, forward_over_reverse, SHARP, "order2: reverse over reverse")


def transpose(case: Case) -> None:
    """Transposing twice gives the function again, in whichever operands it is linear."""
    if isinstance(case.primitive.transpose, core.Unsupported):
        return
    with enable_x64():
        case = case.wide()
        if not run(case.of(case.active, case.inexact), *case.at(case.active)):
            return
        chosen = [s for s in subsets(case.active) if _is_linear(case, s)]
        if not chosen:
            raise AssertionError("transpose: there is a rule, and the primitive is linear in none of its operands")
        for some in chosen:
            _check_transpose(case, some)


def _is_linear(case: Case, chosen: tuple[int, ...]) -> bool:
    f, xs = case.of(chosen, case.inexact), case.at(chosen)
    ys = random_like(xs, 8)
    mixed = run(f, *(1.75 * x + y for x, y in zip(xs, ys, strict=True)))
    separately = [1.75 * x + y for x, y in zip(run(f, *xs), run(f, *ys), strict=True)]
    return all(np.allclose(x, y, rtol=SHARP, atol=SHARP) for x, y in zip(mixed, separately, strict=True))


def _check_transpose(case: Case, chosen: tuple[int, ...]) -> None:
    f, xs = case.of(chosen, case.inexact), case.at(chosen)
    outs = run(f, *xs)
    cts = random_like(outs, 9)

    def back(*cs: Any) -> list[Any]:
        return list(linear_transpose(f, *xs)([*cs]))

    def forth(*vs: Any) -> list[Any]:
        return list(linear_transpose(back, *outs)([*vs]))

    pulled = run(back, *cts)
    for x, ct in zip(xs, pulled, strict=True):
        same_type(ct, x, "transpose: the cotangent is not of its operand's type")
    if abs(inner(cts, outs) - inner(pulled, xs)) > SHARP * (1 + abs(inner(cts, outs))):
        raise AssertionError(f"transpose: <ct, f x> is not <f^T ct, x>, for operands {chosen}")
    all_close(run(forth, *xs), outs, SHARP, f"transpose: transposed twice, for operands {chosen}")

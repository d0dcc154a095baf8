"""The laws of batches and of pairs of transformations: vmap, commute."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.ops.case import SHARP, Case, all_close, allowed, close, kind_of, random_like, run
from xpr import dtypes
from xpr.api.grad import jvp, vjp
from xpr.api.jit import jit
from xpr.api.vmap import vmap
from xpr.config_contexts import enable_x64
from xpr.core.avals import aval_of

MOST_MAPPINGS = 24


def varied(x: np.ndarray, k: int) -> np.ndarray:
    """Row number `k` of a batch: `x`, and others that are much like it."""
    if x.dtype in dtypes.INEXACT:
        return (x * (1 + k / 16)).astype(x.dtype)
    if x.size != 1:
        return np.roll(x.ravel(), k).reshape(x.shape)
    if x.dtype.kind == "b":
        return x ^ bool(k % 2)
    return np.asarray(x - k if x.item() >= k else x + k, x.dtype)


def stacked(x: np.ndarray, axis: int | None, size: int) -> np.ndarray:
    if axis is None:
        return x
    if not size:
        return np.zeros((*x.shape[:axis], 0, *x.shape[axis:]), x.dtype)
    return np.stack([varied(x, k) for k in range(size)], axis)


def mappings(operands: Sequence[np.ndarray]) -> list[tuple[int | None, ...]]:
    """Choices of an axis, or none, for each operand: all where there are few, else the plain ones and a sample."""
    choices = [[None, *range(x.ndim + 1)] for x in operands]
    every = [axes for axes in itertools.product(*choices) if any(a is not None for a in axes)]
    if len(every) <= MOST_MAPPINGS:
        return every
    n = len(operands)
    plain = [(0,) * n, *(tuple(0 if j == i else None for j in range(n)) for i in range(n))]
    plain.append(tuple(x.ndim for x in operands))
    rest = random.Random(0).sample(every, MOST_MAPPINGS - min(len(plain), MOST_MAPPINGS))
    return list(dict.fromkeys([*plain, *rest]))


def vmap_law(case: Case) -> None:
    """vmap = loop."""
    operands = case.operands
    if not operands:
        return
    n = len(operands)
    rows = Rows(case)
    for number, axes in enumerate(mappings(operands)):
        _check_vmap(rows, axes, 3, number)
    for size in (0, 1):
        for axes in [(0,) * n, *(tuple(0 if j == i else None for j in range(n)) for i in range(n if n > 1 else 0))]:
            _check_vmap(rows, axes, size, size)
    _check_nested_vmap(case, [True] * n, [True] * n)
    if n > 1:
        _check_nested_vmap(case, [True, *[False] * (n - 1)], [False, *[True] * (n - 1)])


class Rows:
    """The results of a case at the rows of a batch, which are the same along whichever axes it is batched."""

    def __init__(self, case: Case):
        self.case = case
        self._known: dict[Any, list[Any]] = {}

    def __call__(self, axes: Sequence[int | None], k: int) -> list[Any]:
        mapped = tuple(axis is not None for axis in axes)
        if (mapped, k) not in self._known:
            operands = zip(self.case.operands, mapped, strict=True)
            self._known[mapped, k] = self.case.run(*[varied(x, k) if varies else x for x, varies in operands])
        return self._known[mapped, k]


def _check_vmap(rows: Rows, axes: tuple[int | None, ...], size: int, number: int) -> None:
    case, first = rows.case, rows(axes, 0)
    out_axis = number % (1 + min((x.ndim for x in first), default=0))
    batch = [stacked(x, axis, size) for x, axis in zip(case.operands, axes, strict=True)]
    got = run(vmap(case, axes, out_axis), *batch)
    if size:
        expected = [np.stack(results, out_axis) for results in zip(*[rows(axes, k) for k in range(size)], strict=True)]
    else:
        expected = [stacked(x, out_axis, 0) for x in first]
    for x, y in zip(got, expected, strict=True):
        close(x, y, 2 * allowed(case, y), f"vmap: in_axes={axes}, out_axes={out_axis}, size {size}")


def _check_nested_vmap(case: Case, inside: Sequence[bool], outside: Sequence[bool]) -> None:
    """The inner mapping over axis 0 of rows, the outer over the last axis of the arrays."""
    batch, in_axes, out_axes = [], [], []
    for x, inner_mapped, outer_mapped in zip(case.operands, inside, outside, strict=True):
        rows = stacked(x, 0, 3) if inner_mapped else x
        batch.append(stacked(rows, rows.ndim, 2) if outer_mapped else rows)
        in_axes.append(0 if inner_mapped else None)
        out_axes.append(-1 if outer_mapped else None)
    got = run(vmap(vmap(case, tuple(in_axes)), tuple(out_axes)), *batch)

    def results_at(i: int, j: int) -> list[np.ndarray]:
        flags = zip(batch, inside, outside, strict=True)
        outer = [(x[..., i] if out else x, into) for x, into, out in flags]
        return case.run(*(x[j] if into else x for x, into in outer))

    found = [[results_at(i, j) for j in range(3)] for i in range(2)]
    for index, x in enumerate(got):
        expected = np.array([[results[index] for results in line] for line in found])
        close(x, expected, 2 * allowed(case, expected), "vmap: vmap of vmap")


# -- Pairs of transformations


def commute(case: Case) -> None:
    """vmap of jvp = jvp of vmap, the same for vjp; jit changes nothing, inside them or around them all."""
    if not case.operands:
        return
    with enable_x64():
        case = case.wide()
        transform = _all_transformations(case)
        plain = run(transform(case), *case.operands)
        all_close(run(transform(jit(case.__call__)), *case.operands), plain, SHARP, "commute: jit inside")
        if _is_first_of_its_kind(case):
            compiled = jit(transform(case))(*case.operands)
            all_close(compiled, plain, max(SHARP, allowed(case)), "commute: jit outside, of all these together")
        for name in ("jvp", "vjp"):
            if name in plain:
                mapped = f"vmap of {name}", f"{name} of vmap"
                all_close(plain[mapped[0]], plain[mapped[1]], SHARP, f"commute: {mapped[0]}, {mapped[1]}")


def _is_first_of_its_kind(case: Case) -> bool:
    """Whether no earlier sample of the row is of its kind of dtype: compiling all transformations takes 0.2 s."""
    others = [s for s in case.row.samples if not s.edges and kind_of(Case(case.row, s)) == kind_of(case)]
    return others[0] is case.sample if others else case.sample is case.row.samples[0]


def _all_transformations(case: Case) -> Callable[[Any], Callable[..., dict[str, Any]]]:
    """From a function with the case's operands, one that transforms it in every way."""
    rows = [stacked(x, 0, 2) for x in case.operands]
    differentiable = case.row.differentiable and case.active and not case.sample.edges
    vs, row_vs = random_like(case.at(case.active), 10), random_like([rows[i] for i in case.active], 11)

    def transform(f: Any) -> Callable[..., dict[str, Any]]:
        def transformed(*xs: Any) -> dict[str, Any]:
            found: dict[str, Any] = {"value": f(*xs), "vmap": vmap(f)(*rows)}
            if not differentiable:
                return found
            g = case.of(case.active, lambda *ys: _inexact_of(f(*ys)))

            def with_integers(others: Sequence[Any]) -> Callable[..., Any]:
                return lambda *ys: _inexact_of(f(*_merged(others, case.active, ys)))

            points = [xs[i] for i in case.active]
            value, found["jvp"] = jvp(g, points, vs)
            if not value:
                return {"value": found["value"], "vmap": found["vmap"]}
            cts = random_like(value, 12)
            found["vjp"] = vjp(g, *points)[1](cts)
            integers = [x for i, x in enumerate(rows) if i not in case.active]
            active = [rows[i] for i in case.active]

            def one_jvp(others: Any, ps: Any, ts: Any) -> Any:
                return jvp(with_integers(others), ps, ts)[1]

            def one_vjp(others: Any, ps: Any, cs: Any) -> Any:
                return vjp(with_integers(others), *ps)[1](cs)

            def of_rows(*ps: Any) -> Any:
                return vmap(lambda others, ys: with_integers(others)(*ys))(integers, list(ps))

            row_cts = random_like(of_rows(*active), 13)
            found["vmap of jvp"] = vmap(one_jvp)(integers, active, row_vs)
            found["jvp of vmap"] = jvp(of_rows, active, row_vs)[1]
            found["vmap of vjp"] = list(vmap(one_vjp)(integers, active, row_cts))
            found["vjp of vmap"] = list(vjp(of_rows, *active)[1](row_cts))
            return found

        return transformed

    return transform


def _inexact_of(values: Iterable[Any]) -> list[Any]:
    return [x for x in values if aval_of(x).dtype in dtypes.INEXACT]


def _merged(others: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """`values` at `positions`, and `others` in order in the rest."""
    rest, at = iter(others), dict(zip(positions, values, strict=True))
    return [at[i] if i in at else next(rest) for i in range(len(others) + len(values))]

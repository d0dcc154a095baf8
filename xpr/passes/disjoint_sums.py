"""disjoint_sums : jaxpr -> jaxpr. Writes sums of many padded arrays whose slices don't overlap as concatenations.

    { lambda ; a:f32[1] b:f32[1] c:f32[1]. let
        d = pad[0, 2] a 0.0; e = pad[1, 1] b 0.0; f = pad[2, 0] c 0.0; g = add_any d e; h = add_any g f in (h,) }
    { lambda ; a:f32[1] b:f32[1] c:f32[1]. let h = concatenate a b c in (h,) }

Such are the cotangents of arrays that a program reads slice by slice, as `split` and `unstack` do. The program of the
sum looks for each element into all slices.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.dimensions.expressions import surely_at_least
from xpr.passes.in_place_sums import Sums
from xpr.primitives.elementwise import add_any_p
from xpr.primitives.slicing import concatenate_p, pad_p

_LEAST = 3  # slices; the program of the sum of two takes no longer
_MANY = 1 << 15  # elements: of the array, or of all terms if one concatenation joins them; see `_is_worth_it`
_WIDTH = 8  # operands of a concatenation; of more, XLA:CPU compiles each by itself, which takes ten times as long


def disjoint_sums(jaxpr: Jaxpr) -> Jaxpr:
    """The program with concatenations, cached with it; the jaxpr itself if there are none."""
    if "disjoint sums" not in jaxpr.memo:
        replaced = _rewritten(jaxpr) if sum(eqn.primitive is pad_p for eqn in jaxpr.eqns) >= _LEAST else jaxpr
        jaxpr.memo["disjoint sums"] = None if replaced is jaxpr else replaced  # itself would be a reference cycle
    return jaxpr.memo["disjoint sums"] or jaxpr


def _rewritten(jaxpr: Jaxpr) -> Jaxpr:
    sums = Sums(jaxpr)
    replaced: dict[int, list[JaxprEqn]] = {}  # by the equation in whose place they are
    for eqn in sums.roots:
        terms, inner = sums.terms(eqn)
        slices = [each for each in (_padded_slice(sums, v) for v in terms) if each is not None]
        rows = [row for row in _rows(slices) if _is_worth_it(row, eqn.outvars[0].aval)]
        if not rows:
            continue
        gone = {id(each) for row in rows for each in row}
        rest = [v for v in terms if id(sums.equations.get(v)) not in gone]
        replaced.update((each, []) for each in (*gone, *map(id, inner)))
        replaced[id(eqn)] = _concatenated(rows, rest, eqn)
    if not replaced:
        return jaxpr
    return jaxpr.replace(eqns=[each for eqn in jaxpr.eqns for each in replaced.get(id(eqn), [eqn])])


def _is_worth_it(row: Sequence[JaxprEqn], aval: ShapedArray) -> bool:
    """Whether concatenating a row is worth it: sums of small arrays are as fast.

    XLA:CPU takes 5 ms more to compile each of many slices in a concatenation than in a sum. With larger arrays some
    hundreds of calls make up for that.
    """
    if len(row) < _LEAST:
        return False
    return surely_at_least(aval.size * len(row) if len(row) <= _WIDTH else aval.size, _MANY)


def _padded_slice(sums: Sums, v: Any) -> JaxprEqn | None:
    """The equation that computes a variable by padding a slice with zeros along one axis; None if another one does."""
    eqn = sums.made_by(v, pad_p)
    if eqn is None or not sums.is_zero(eqn.invars[1]):
        return None
    config = eqn.params["padding_config"]
    is_slice = all(type(n) is int and n >= 0 for each in config for n in each) and not any(n for *_, n in config)
    return eqn if is_slice and sum(map(any, config)) == 1 else None


def _place(eqn: JaxprEqn) -> tuple[int, int, int]:
    """The axis along which an array is padded, and where it starts and ends there."""
    config = eqn.params["padding_config"]
    axis = next(i for i, each in enumerate(config) if any(each))
    low = config[axis][0]
    return axis, low, low + eqn.invars[0].aval.shape[axis]


def _rows(slices: Sequence[JaxprEqn]) -> list[list[JaxprEqn]]:
    """Slices along one axis that don't overlap, in their order; each slice is in the row where it leaves least room."""
    rows: list[list[JaxprEqn]] = []
    ends: dict[int, list[tuple[int, int]]] = {}  # by the axis: where rows end, in this order, and their negative index
    for eqn in sorted(slices, key=_place):
        axis, start, end = _place(eqn)
        of_axis = ends.setdefault(axis, [])
        before = bisect.bisect_right(of_axis, (start, 1))
        if before:
            _, index = of_axis.pop(before - 1)
            rows[-index].append(eqn)
        else:
            index = -len(rows)
            rows.append([eqn])
        bisect.insort(of_axis, (end, index))
    return rows


def _concatenated(rows: Sequence[Sequence[JaxprEqn]], rest: Sequence[Any], root: JaxprEqn) -> list[JaxprEqn]:
    """The equations that concatenate each row, and add the other terms; the last result is that of `root`."""
    aval = root.outvars[0].aval
    eqns: list[JaxprEqn] = []
    terms = list(rest)
    for row in rows:
        axis = _place(row[0])[0]
        starts = [_place(eqn)[1] for eqn in row[1:]]
        parts = []
        for i, (eqn, following) in enumerate(zip(row, [*starts, aval.shape[axis]])):
            _, start, end = _place(eqn)
            padding = (start if i == 0 else 0, following - end, 0)
            parts.append(_padded(eqn, axis, padding, eqns) if any(padding) else eqn.invars[0])
        while len(parts) > 1:
            groups = [parts[i : i + _WIDTH] for i in range(0, len(parts), _WIDTH)]
            parts = [_concatenation(group, axis, root, eqns) for group in groups]
        terms += parts
    total, *others = terms
    for term in others:
        total, operands = Var(aval), [total, term]
        eqns.append(JaxprEqn(operands, [total], add_any_p, {}, root.source))
    *before, last = eqns
    return [*before, last.replace(outvars=root.outvars)]


def _concatenation(parts: Sequence[Any], axis: int, root: JaxprEqn, eqns: list[JaxprEqn]) -> Any:
    """The concatenation of some parts, whose equation is added; a single part itself."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].aval.shape)
    shape[axis] = sum(v.aval.shape[axis] for v in parts)
    out = Var(root.outvars[0].aval.update(shape=tuple(shape)))
    eqns.append(JaxprEqn(parts, [out], concatenate_p, {"dimension": axis}, root.source))
    return out


def _padded(eqn: JaxprEqn, axis: int, padding: tuple[int, int, int], eqns: list[JaxprEqn]) -> Var:
    """The slice that an equation pads, with zeros up to the following slice."""
    slice_aval = eqn.invars[0].aval
    shape = tuple(n + sum(padding) if i == axis else n for i, n in enumerate(slice_aval.shape))
    config = tuple(padding if i == axis else (0, 0, 0) for i in range(len(shape)))
    out = Var(slice_aval.update(shape=shape))
    eqns.append(eqn.replace(outvars=[out], params={"padding_config": config}))
    return out

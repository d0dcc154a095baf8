"""Operations that write at known places, as choices by a mask between what was there and what is written.

    y = dynamic_update_slice x u 1      p = dynamic_update_slice 0 u 1;  y = select_n mask x p;  u = gather p
    y = pad u c                         p = pad u 0;  y = select_n mask c p;  u = gather p
    y = scatter-add x i u               p = scatter 0 i u;  q = select_n mask 0 p;  u = gather p;  y = add x q

All of these equations hold, and cases.py finds x where nothing is written, from which the updates may follow. What is
known is added or multiplied wherever it goes, `q = scatter-add 0 i u; y = add x q`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.inversion.solutions import WRITES, Equations, is_unknown
from xpr.primitives.dynamic_slices import dynamic_update_slice_p
from xpr.primitives.elementwise import add_p, mul_p, sub_p
from xpr.primitives.gather.gather_scatter import gather_p, scatter_add_p, scatter_sub_p
from xpr.primitives.gather.scatter import scatter_mul_p, scatter_p
from xpr.primitives.gather.windows import GatherDimensionNumbers, GatherScatterMode
from xpr.primitives.shapes import broadcast_in_dim_p
from xpr.primitives.slicing import pad_p, select_n_p


class _Combination(NamedTuple):
    """What is made of an array and of updates, where these don't take the place of what was there."""

    primitive: Primitive  # of the array and of one that holds the updates, and is neutral elsewhere
    repeated: Primitive  # makes that one, also of updates that go to one place
    neutral: int


class _Write(NamedTuple):
    """An equation that writes updates into a base: which of its operands are these, and what it does with both.

    `alone` writes the updates in place of what was there.
    """

    base: int
    updates: int
    alone: Primitive
    combination: _Combination | None = None

    def rewritten(self, eqn: JaxprEqn, operands: Sequence[Any]) -> Equations | str:
        others = [x for i, x in enumerate(operands) if i not in (self.base, self.updates)]
        if self.combination and not any(map(is_unknown, (*others, operands[self.updates]))):
            return _known_updates(eqn, self.combination)
        if any(map(is_unknown, others)):
            return "The places that it writes depend on what is not known."
        if any(isinstance(x, Tracer) for x in others):
            return "The places that it writes are traced, and have to be known."
        numbers = self.numbers(eqn, operands)
        written = numbers >= 0
        places = np.flatnonzero(written)[np.argsort(numbers[written], kind="stable")]
        is_whole = np.array_equal(np.sort(numbers[written]), np.arange(eqn.invars[self.updates].aval.size))
        if self.combination and not is_whole:
            return "It writes an entry twice, or one that is not there."
        return self.equations(eqn, written, places if is_whole else None)

    def numbers(self, eqn: JaxprEqn, operands: Sequence[Any]) -> np.ndarray:
        """For each entry of the result, the number of the update that is written there; -1 where none is."""
        values = list(operands)
        base, updates = (eqn.invars[i].aval for i in (self.base, self.updates))
        values[self.base] = np.full(base.shape, -1, np.int32)
        values[self.updates] = np.arange(updates.size, dtype=np.int32).reshape(updates.shape)
        return np.asarray(self.alone.reference(list(map(np.asarray, values)), **eqn.params)[0])

    def equations(self, eqn: JaxprEqn, written: np.ndarray, places: np.ndarray | None) -> Equations:
        (out,), base, updates = eqn.outvars, eqn.invars[self.base], eqn.invars[self.updates]
        values: dict[Var, Any] = {}

        def known(value: np.ndarray) -> Var:
            var = Var(ShapedArray(value.shape, value.dtype))
            values[var] = value
            return var

        def constant(number: Any, aval: ShapedArray) -> Any:
            return known(np.full(aval.shape, number, aval.dtype))

        def write(invars: Sequence[Any], result: Var, primitive: Primitive, params: dict[str, Any]) -> None:
            eqns.append(JaxprEqn(list(invars), [result], primitive, params, eqn.source))

        eqns: list[JaxprEqn] = []
        alone, mask = Var(out.aval), known(written)
        operands = list(eqn.invars)
        operands[self.base] = constant(0, base.aval)
        write(operands, alone, self.alone, eqn.params)
        both = self.combination
        kept = base if both is None else constant(both.neutral, out.aval)
        if kept.aval.shape != out.aval.shape:  # that of a pad
            kept = Var(out.aval)
            write([base], kept, broadcast_in_dim_p, {"shape": out.aval.shape, "broadcast_dimensions": ()})
        chosen = out if both is None else Var(out.aval)
        write([mask, kept, alone], chosen, select_n_p, {})
        if both is not None:
            write([base, chosen], out, both.primitive, {})
        if places is not None and isinstance(updates, Var):
            axes = np.unravel_index(places, written.shape)
            where = np.stack(axes, -1).astype(np.int32).reshape(*updates.aval.shape, written.ndim)
            write([alone, known(where)], updates, gather_p, _entries(written.ndim))
        return Equations(eqns, values)


def _known_updates(eqn: JaxprEqn, both: _Combination) -> Equations:
    """The updates are put together first, wherever they go."""
    aval = eqn.outvars[0].aval
    neutral, updates = Var(aval), Var(aval)
    made = JaxprEqn([neutral, *eqn.invars[1:]], [updates], both.repeated, eqn.params, eqn.source)
    combined = JaxprEqn([eqn.invars[0], updates], eqn.outvars, both.primitive, {}, eqn.source)
    return Equations([made, combined], {neutral: np.full(aval.shape, both.neutral, aval.dtype)})


def _entries(ndim: int) -> dict[str, Any]:
    """The parameters of a gather of single entries."""
    axes = tuple(range(ndim))
    return {
        "dimension_numbers": GatherDimensionNumbers((), axes, axes),
        "slice_sizes": (1,) * ndim,
        "indices_are_sorted": False,
        "unique_indices": True,
        "mode": GatherScatterMode.PROMISE_IN_BOUNDS,
        "fill_value": None,
    }


for _primitive, _write in {
    dynamic_update_slice_p: _Write(0, 1, dynamic_update_slice_p),
    pad_p: _Write(1, 0, pad_p),
    scatter_p: _Write(0, 2, scatter_p),
    scatter_add_p: _Write(0, 2, scatter_p, _Combination(add_p, scatter_add_p, 0)),
    scatter_sub_p: _Write(0, 2, scatter_p, _Combination(sub_p, scatter_add_p, 0)),
    scatter_mul_p: _Write(0, 2, scatter_p, _Combination(mul_p, scatter_mul_p, 1)),
}.items():
    WRITES[_primitive] = _write.rewritten

"""Writes at known indices, as choices by a mask between the old elements and the updates.

    y = dynamic_update_slice x u 1      p = dynamic_update_slice 0 u 1;  y = select_n mask x p;  u = gather p
    y = pad u c                         p = pad u 0;  y = select_n mask c p;  u = gather p
    y = scatter-add x i u               p = scatter 0 i u;  q = select_n mask 0 p;  u = gather p;  y = add x q

All of these equations hold, and cases.py finds x where nothing is written, from which the updates may follow. Known
updates are added or multiplied at any indices, `q = scatter-add 0 i u; y = add x q`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.inversion.solutions import WRITES, EquivalentEquations, is_unknown
from xpr.primitives.dynamic_slices import dynamic_update_slice_p
from xpr.primitives.elementwise import add_p, mul_p, sub_p
from xpr.primitives.gather.gather_scatter import gather_p, scatter_add_p, scatter_sub_p
from xpr.primitives.gather.scatter import scatter_mul_p, scatter_p
from xpr.primitives.gather.windows import GatherDimensionNumbers, GatherScatterMode
from xpr.primitives.shapes import broadcast_in_dim_p
from xpr.primitives.slicing import pad_p, select_n_p


class _Combination(NamedTuple):
    """How a scatter combines updates with the old elements, where it does not replace them."""

    primitive: Primitive  # combines the array with one that has the updates, and the neutral value elsewhere
    repeated: Primitive  # computes that one, also from several updates of one element
    neutral: int


class _Write(NamedTuple):
    """An equation that writes updates into a base: the positions of these operands, and how they are combined.

    `alone` writes the updates over the old elements.
    """

    base: int
    updates: int
    alone: Primitive
    combination: _Combination | None = None

    def rewritten(self, eqn: JaxprEqn, operands: Sequence[Any]) -> EquivalentEquations | str:
        others = [x for i, x in enumerate(operands) if i not in (self.base, self.updates)]
        if self.combination and not any(map(is_unknown, (*others, operands[self.updates]))):
            return _known_updates(eqn, self.combination)
        if any(map(is_unknown, others)):
            return "The indices that it writes to depend on what is not known."
        if any(isinstance(x, Tracer) for x in others):
            return "The indices that it writes to are traced, and have to be known."
        numbers = self.numbers(eqn, operands)
        written = numbers >= 0
        indices = np.flatnonzero(written)[np.argsort(numbers[written], kind="stable")]
        is_whole = np.array_equal(np.sort(numbers[written]), np.arange(eqn.invars[self.updates].aval.size))
        if self.combination and not is_whole:
            return "It writes an element twice, or one that is not there."
        return self.equations(eqn, written, indices if is_whole else None)

    def numbers(self, eqn: JaxprEqn, operands: Sequence[Any]) -> np.ndarray:
        """For each element of the result, the number of the update that is written there; -1 where none is."""
        values = list(operands)
        base, updates = (eqn.invars[i].aval for i in (self.base, self.updates))
        values[self.base] = np.full(base.shape, -1, np.int32)
        values[self.updates] = np.arange(updates.size, dtype=np.int32).reshape(updates.shape)
        return np.asarray(self.alone.reference(list(map(np.asarray, values)), **eqn.params)[0])

    def equations(self, eqn: JaxprEqn, written: np.ndarray, indices: np.ndarray | None) -> EquivalentEquations:
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
        old = base if both is None else constant(both.neutral, out.aval)
        if old.aval.shape != out.aval.shape:  # that of a pad
            old = Var(out.aval)
            write([base], old, broadcast_in_dim_p, {"shape": out.aval.shape, "broadcast_dimensions": ()})
        selected = out if both is None else Var(out.aval)
        write([mask, old, alone], selected, select_n_p, {})
        if both is not None:
            write([base, selected], out, both.primitive, {})
        if indices is not None and isinstance(updates, Var):
            axes = np.unravel_index(indices, written.shape)
            positions = np.stack(axes, -1).astype(np.int32).reshape(*updates.aval.shape, written.ndim)
            write([alone, known(positions)], updates, gather_p, _gather_params(written.ndim))
        return EquivalentEquations(eqns, values)


def _known_updates(eqn: JaxprEqn, both: _Combination) -> EquivalentEquations:
    """The updates are combined with each other first, at any indices."""
    aval = eqn.outvars[0].aval
    neutral, updates = Var(aval), Var(aval)
    combine = JaxprEqn([neutral, *eqn.invars[1:]], [updates], both.repeated, eqn.params, eqn.source)
    combined = JaxprEqn([eqn.invars[0], updates], eqn.outvars, both.primitive, {}, eqn.source)
    return EquivalentEquations([combine, combined], {neutral: np.full(aval.shape, both.neutral, aval.dtype)})


def _gather_params(ndim: int) -> dict[str, Any]:
    """The parameters of a gather of single elements."""
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

"""optimization_barrier: the identity, whose result XLA does not fuse with the computation of its operand.

XLA fuses operations, and recomputes a value in each of the kernels that read it. Mostly that is fine; an expensive
value (a hyperbolic tangent that a dozen sums of products read) is computed once behind a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array, from_host
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import split_each
from xpr.core.primitive import Primitive, register
from xpr.primitives.sharding_rules import unchanged

__all__ = ["optimization_barrier", "optimization_barrier_p"]


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [x if type(x) is Array else from_host(np.array(x, aval_of(x).dtype), aval_of(x).weak_type) for x in args]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    return list(map(b.fusion_barrier, operands))


def _behind_barrier(values: Sequence[Any]) -> list[Any]:
    """Values behind a barrier, symbolic zeros and None as they are."""
    present = [i for i, x in enumerate(values) if x is not None and type(x) is not Zero]
    results = dict(zip(present, optimization_barrier_p.bind(*(values[i] for i in present)) if present else []))
    return [results.get(i, x) for i, x in enumerate(values)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return optimization_barrier_p.bind(*primals), _behind_barrier(tangents)


def _transpose(cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Cotangents get a barrier, too."""
    return _behind_barrier(cotangents)


optimization_barrier_p = register(
    Primitive(
        "optimization_barrier",
        abstract=list,
        params=(),
        sharding=unchanged,
        reference=lambda values: [np.asarray(x) for x in values],
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=lambda size, values, dims: (optimization_barrier_p.bind(*values), list(dims)),
        multiple_results=True,
        physical="moved",
        evaluate=_evaluate,
        split=split_each,
    )
)


def optimization_barrier(operand: Any, /) -> Any:
    """The pytree itself, as a barrier: the compiler does not fuse its computation into that of its readers.

    Args:
      operand: a pytree of arrays, of any shapes and dtypes.

    Returns:
      The same pytree; its leaves are computed once, however many operations read them.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> lax.optimization_barrier({"y": jnp.arange(3)})
    {'y': Array([0, 1, 2], dtype=int32)}
    """
    leaves, structure = tree.flatten(operand)
    return tree.unflatten(structure, optimization_barrier_p.bind(*leaves) if leaves else [])

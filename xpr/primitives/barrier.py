"""The identity, as a barrier: what reads a value behind it is not computed together with what made the value.

XLA fuses operations, and computes what several of its kernels read in each of them. Mostly that is as well; where what
is read is dear (a hyperbolic tangent that a dozen sums of products read), a barrier has it computed once.
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


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [x if type(x) is Array else from_host(np.array(x, aval_of(x).dtype), aval_of(x).weak_type) for x in args]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    return list(map(b.fence, operands))


def _apart(values: Sequence[Any]) -> list[Any]:
    """Values behind a barrier, symbolic zeros and None as they are."""
    kept = [i for i, x in enumerate(values) if x is not None and type(x) is not Zero]
    found = dict(zip(kept, optimization_barrier_p.bind(*(values[i] for i in kept)) if kept else []))
    return [found.get(i, x) for i, x in enumerate(values)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return optimization_barrier_p.bind(*primals), _apart(tangents)


def _transpose(cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Cotangents are kept apart as the values are."""
    return _apart(cotangents)


optimization_barrier_p = register(
    Primitive(
        "optimization_barrier",
        abstract=list,
        params=(),
        reference=lambda values: [np.asarray(x) for x in values],
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=lambda size, values, dims: (optimization_barrier_p.bind(*values), list(dims)),
        multiple_results=True,
        evaluate=_evaluate,
        split=split_each,
    )
)


def optimization_barrier(operand: Any, /) -> Any:
    """The pytree itself, kept by the compiler from being computed together with what reads it.

    Args:
      operand: a pytree of arrays, of any shapes and dtypes.
    Returns:
      The same pytree; what its leaves are computed from is computed once, whoever reads them.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> lax.optimization_barrier({"y": jnp.arange(3)})
    {'y': Array([0, 1, 2], dtype=int32)}
    """
    leaves, structure = tree.flatten(operand)
    return tree.unflatten(structure, optimization_barrier_p.bind(*leaves) if leaves else [])

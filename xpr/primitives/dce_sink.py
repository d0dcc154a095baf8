"""dce_sink: an operation without results that counts as an effect, so that its operands are not dead code."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.elementwise import copy_p

__all__ = ["dce_sink", "dce_sink_p", "stage"]


def _batch(size: int, values: Any, dims: Any) -> Any:
    dce_sink_p.bind(*values)
    return [], []


def _jvp(primals: Any, tangents: Any) -> Any:
    dce_sink_p.bind(*primals)
    return [], []


dce_sink_p = register(
    Primitive(
        "dce_sink",
        abstract=lambda avals: [],
        reference=lambda values: [],
        lower=lambda b, operands, avals: [],
        jvp=_jvp,
        transpose=Unsupported("It has no results."),
        batch=_batch,
        multiple_results=True,
        effect=lambda **params: "unordered",
    )
)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keeps values in programs whose results don't depend on them; the compiler may still remove them.

    Args:
      val: a pytree of arrays.
      prevent_mlir_dce: must be False.

    Returns:
      None.

    Raises:
      NotImplementedError: `prevent_mlir_dce` is True.

    >>> import xpr
    >>> from xpr import lax
    >>> len(xpr.make_jaxpr(lambda x: (lax.dce_sink(lax.sin(x)), x)[1])(1.0).eqns)
    2
    """
    if prevent_mlir_dce:
        raise NotImplementedError("dce_sink: the compiler can't be kept from removing what no result depends on.")
    for x in tree.leaves(val):
        dce_sink_p.bind(x)


def stage(x: Any, /) -> Any:
    """A value as an array, or while a function is traced as the result of an operation.

    Args:
      x: an array, a NumPy array or a number.

    Returns:
      An array of the same type.

    >>> import xpr
    >>> from xpr import lax
    >>> xpr.make_jaxpr(lambda: lax.stage(1.0))()
    { lambda ; . let a:f32[] = copy 1.0 in (a,) }
    """
    return copy_p.bind(x)

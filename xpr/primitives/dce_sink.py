"""dce_sink: an operation without results that counts as an effect, so that its operands are not dead code."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.elementwise import copy_p

__all__ = ["dce_sink", "dce_sink_p", "stage"]


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, prevent_mlir_dce: bool = False
) -> list[Value]:
    """Nothing, or a call of a function of jaxlib's that does nothing, of which the compiler doesn't know that."""
    if prevent_mlir_dce:
        b.ops(
            "stablehlo.custom_call", operands, [],
            'call_target_name = "dce_sink", api_version = 4 : i32, has_side_effect = true, backend_config = {}',
        )  # fmt: skip
    return []


def _batch(size: int, values: Any, dims: Any, **params: Any) -> Any:
    dce_sink_p.bind(*values, **params)
    return [], []


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    dce_sink_p.bind(*primals, **params)
    return [], []


dce_sink_p = register(
    Primitive(
        "dce_sink",
        abstract=lambda avals, *, prevent_mlir_dce=False: [],
        reference=lambda values, **params: [],
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported("It has no results."),
        batch=_batch,
        multiple_results=True,
        effects=lambda avals, **params: ("unordered",),
        optional=["prevent_mlir_dce"],
    )
)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keeps values in programs whose results don't depend on them.

    Args:
      val: a pytree of arrays.
      prevent_mlir_dce: whether the compiler keeps them, too; otherwise it removes them.

    Returns:
      None.

    >>> import xpr
    >>> from xpr import lax
    >>> len(xpr.make_jaxpr(lambda x: (lax.dce_sink(lax.sin(x)), x)[1])(1.0).eqns)
    2
    """
    params = {"prevent_mlir_dce": True} if prevent_mlir_dce else {}
    for x in tree.leaves(val):
        dce_sink_p.bind(x, **params)


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

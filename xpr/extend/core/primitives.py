"""The primitives by JAX's names: those of `xpr.lax` and `xpr.lax.linalg`, and these, whose names differ there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import lax
from xpr.control.custom.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from xpr.control.custom.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.xla_call import call, xla_call_p
from xpr.core.avals import aval_of
from xpr.extend import Primitive
from xpr.extend.linear_util import WrappedFun
from xpr.primitives.elementwise_rules import add_any_p
from xpr.primitives.refs import get_p as get_p
from xpr.primitives.refs import swap_p as swap_p
from xpr.transforms.stage import stage


class CallPrimitive(Primitive):
    """A primitive that calls a function. An equation of such a call is an `xla_call` of the function's jaxpr."""

    __slots__ = ()
    call_primitive = True

    def __init__(self, name: str):
        super().__init__(name, multiple_results=True)

    def bind(self, *args: Any, subfuns: Sequence[WrappedFun], **params: Any) -> list[Any]:  # type: ignore[override]
        """The results of the function, the only one of `subfuns`, which returns a list."""
        (fun,) = subfuns
        closed = stage(fun.call_wrapped, [aval_of(x) for x in args])
        return call(closed, args, params.get("name", fun.__name__))


call_p, closed_call_p = CallPrimitive("call"), CallPrimitive("closed_call")
jit_p = xla_call_p
remat_p = checkpoint_p
add_jaxvals_p = add_any_p


def __getattr__(name: str) -> Any:
    for module in (lax, lax.linalg):
        if name.endswith("_p") and hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'xpr.extend.core.primitives' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for name in (*dir(lax), *dir(lax.linalg)) if name.endswith("_p"))})

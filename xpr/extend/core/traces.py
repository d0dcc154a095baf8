"""Interpreters with JAX's methods: subclasses of `Trace` that define `process_primitive`.

xpr's own interpreters define `process`, which takes the operands and returns a list. A `Trace` of this file converts
between the two: it calls `process_primitive` with the bottom interpreter current, as JAX does, and calls of functions
with a `custom_jvp` rule go to `process_custom_jvp_call`, with the function and the rule as `WrappedFun`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import core
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.rules import apply
from xpr.control.groups import split_list
from xpr.control.xla_call import xla_call_p
from xpr.core.interpreter import context, current
from xpr.core.primitive import Primitive
from xpr.extend.linear_util import WrappedFun, wrap_init
from xpr.primitives.shapes import instantiate


class TraceTag:
    """What the interpreters of one transformation have in common: an object that is compared by identity."""


class bottom_current:
    """`with bottom_current() as trace: ...` evaluates operations, and gives the interpreter that was current."""

    def __enter__(self) -> core.Trace:
        self.before = context.trace
        bottom = self.before
        while bottom.parent is not None:
            bottom = bottom.parent
        context.trace = bottom
        return self.before

    def __exit__(self, *error: Any) -> None:
        context.trace = self.before


class _OfAnyKind(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, core.Trace) if cls is Trace else super().__instancecheck__(instance)


class Trace(core.Trace, metaclass=_OfAnyKind):
    """An interpreter with JAX's methods. All interpreters are instances, as in JAX.

    A subclass sets `parent_trace`, and defines `process_primitive(primitive, tracers, params)`, which returns a tracer,
    or a list of tracers where the primitive has several results.
    """

    def __init__(self) -> None:
        self.alive = True

    @property
    def parent(self) -> Any:  # type: ignore[override]  # a slot there
        """The interpreter below this one."""
        return getattr(self, "parent_trace", None)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive is custom_jvp_call_p:
            with bottom_current():
                return list(self._process_custom_jvp(args, **params))
        if primitive is xla_call_p:
            params = {"jaxpr": params["call_jaxpr"], "name": params["name"], "inline": False}
        with bottom_current():
            outs = self.process_primitive(primitive, args, params)
        return list(outs) if primitive.multiple_results else [outs]

    def process_primitive(self, primitive: Primitive, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
        """The results of an operation."""
        raise NotImplementedError(f"{type(self).__name__} must define process_primitive.")

    def process_custom_jvp_call(
        self, primitive: Primitive, fun: WrappedFun, jvp: WrappedFun, tracers: Sequence[Any], *, symbolic_zeros: bool
    ) -> Any:
        """The results of a function with a rule: `jvp` takes primals, then tangents, and returns both likewise."""
        raise NotImplementedError(
            f"{type(self).__name__} met a function with a custom_jvp rule, and must define process_custom_jvp_call."
        )

    def _process_custom_jvp(self, args: Sequence[Any], *, call_jaxpr: Any, jvp: Any, name: str, num_consts: int) -> Any:
        constants, primals = split_list(args, num_consts)

        def rule(*both: Any) -> list[Any]:
            outs, tangents = jvp(constants, *split_list(both, len(primals)))
            return [*outs, *map(instantiate, tangents)]

        fun = wrap_init(lambda *primals: apply(call_jaxpr, [*constants, *primals]))
        return self.process_custom_jvp_call(custom_jvp_call_p, fun, wrap_init(rule), primals, symbolic_zeros=False)

    def full_raise(self, value: Any) -> Any:
        """The value, which may be one of any interpreter."""
        return value


def bind_with_trace(
    primitive: Primitive, trace: core.Trace, args: Sequence[Any], avals: Any, params: dict[str, Any]
) -> Any:
    """The results of an operation by an interpreter, current or not; `avals` are the types of the operands.

    The parameters of a `custom_jvp_call` may be JAX's: `subfuns`, the function and its rule.
    """
    if "subfuns" in params:
        fun, jvp = params["subfuns"]

        def rule(constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            outs = jvp.call_wrapped(*primals, *map(instantiate, tangents))
            return split_list(outs, len(outs) // 2)

        params = {"call_jaxpr": fun.call_wrapped, "jvp": rule, "name": fun.__name__, "num_consts": 0}
    with current(trace):
        return primitive.bind(*args, **params)


Primitive.bind_with_trace = bind_with_trace  # type: ignore[attr-defined]  # only interpreters with JAX's methods call it


def full_lower(value: Any) -> Any:
    """What a tracer says that it stands for (`full_lower`), or the value itself."""
    return value.full_lower() if isinstance(value, core.Tracer) and hasattr(value, "full_lower") else value

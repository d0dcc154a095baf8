"""`jax.extend.core`: jaxprs and primitives by JAX's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.core import ClosedJaxpr as ClosedJaxpr
from xpr.core import DropVar as DropVar
from xpr.core import Jaxpr as Jaxpr
from xpr.core import JaxprEqn as JaxprEqn
from xpr.core import Literal as Literal
from xpr.core import Trace, Tracer
from xpr.core import Var as Var
from xpr.core import check_jaxpr as check_jaxpr
from xpr.core import jaxpr_as_fun as jaxpr_as_fun
from xpr.core import subjaxprs as subjaxprs
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.effects import Effect as Effect
from xpr.core.effects import no_effects as no_effects
from xpr.core.interpreter import context, current, transformation
from xpr.core.jaxpr import SourceInfo
from xpr.core.jaxpr import jaxprs_in_params as jaxprs_in_params
from xpr.errors import ConcretizationTypeError
from xpr.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from xpr.errors import JaxprTypeError as JaxprTypeError
from xpr.extend import Primitive as Primitive
from xpr.extend.core import primitives as primitives
from xpr.extend.core.primitives import CallPrimitive as CallPrimitive
from xpr.extend.core.traces import TraceTag as TraceTag
from xpr.extend.core.traces import bottom_current
from xpr.extend.core.traces import full_lower as full_lower
from xpr.primitives.tokens import TOKEN


class _Tokens(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Array) and x.aval == TOKEN


class Token(metaclass=_Tokens):
    """The class of the tokens that `lax.create_token` makes: arrays without elements.

    >>> import xpr
    >>> isinstance(xpr.lax.create_token(), xpr.extend.core.Token)
    True
    """


Effects = frozenset
array_types = {Array, np.ndarray, np.bool_, *(d.type for d in dtypes.ANY)}


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one row along an axis; the type itself for axis None."""
    if axis is None:
        return aval
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: Any = None) -> ShapedArray:
    """The type of `size` rows stacked along an axis; the type itself for axis None."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def new_jaxpr_eqn(
    invars: Any,
    outvars: Any,
    primitive: Any,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation. Effects are the primitive's; `source_info` is that of another equation, or its `source`.

    Parameters of JAX's primitive that this one lacks may be among `params`, as None.
    """
    source = source_info.source if isinstance(source_info, SourceInfo) else source_info
    return JaxprEqn(list(invars), list(outvars), primitive, primitive.known_params(params), source)


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """A function from types to new variables."""
    return Var


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of arrays of a dtype: float0 for integers and booleans."""
    return ShapedArray((), primal_dtype).to_tangent_aval().dtype


def valid_jaxtype(x: Any) -> bool:
    """Whether a value is an array, or can be converted to one."""
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)`, or the value itself where `force` is None.

    Raises:
      ConcretizationTypeError: the value is traced.
    """
    if force is not None:
        return force(val)
    if not isinstance(val, Tracer):
        return val
    operation = "Abstract tracer value encountered where concrete value is expected: concrete_or_error"
    return val._value_for(ConcretizationTypeError, operation, context or "Mark the argument that it depends on static.")


def find_top_trace(values: Any) -> Trace:
    """The trace that processes an operation on these values: the current one."""
    return context.trace


def take_current_trace() -> Any:
    """A context manager that returns the current trace, and in which operations are evaluated."""
    return bottom_current()


def set_current_trace(trace: Trace) -> Any:
    """A context manager in which a trace processes operations."""
    return current(trace)


class _TraceState:
    """The trace of the current transformation, or None, to be compared with a later one.

    Scopes of names change nothing; nor do settings and meshes, with which operations are evaluated in another way.
    """

    __slots__ = ("__weakref__", "_trace")

    def __init__(self, trace: Trace | None):
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


_OF_NO_TRANSFORMATION = _TraceState(None)


def get_opaque_trace_state(convention: str | None = None) -> Any:
    """An object equal to that of another call if the same transformation's trace was current then."""
    trace = transformation()
    return _OF_NO_TRANSFORMATION if trace.parent is None else _TraceState(trace)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a program is being traced."""
    return _any_trace("StageTrace")


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether values are being mapped."""
    return _any_trace("BatchTrace")


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the mapped axes in scope."""
    return [axis.name for axis in context.axes]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether a mapped axis is in scope."""
    return bool(context.axes)


def _any_trace(name: str) -> bool:
    trace: Any = context.trace
    while trace is not None and type(trace).__name__ != name:
        trace = trace.parent
    return trace is not None

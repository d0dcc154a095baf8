"""composite: a call of a jaxpr under the name of an operation, which a compiler may know and compute in its own way.

StableHLO's `composite` has the name, a version, attributes, and the function that says what it computes. A derivative
or a batch of the operation is another one, so the rules are those of `xla_call`, and make plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.mlir_text import attribute_text, quoted
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.compile.lower import lower_call, lower_function
from xpr.compile.reference import reference_eval
from xpr.control.call_family import JaxprCall
from xpr.control.tracing import trace_body
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, constvars_to_invars, effects
from xpr.core.primitive import Primitive, register
from xpr.core.regions import whole_call
from xpr.errors import UnexpectedTracerError
from xpr.transforms.flat import named_like

__all__ = ["composite", "composite_p"]

Attributes = tuple[tuple[str, str], ...]  # names, and values as MLIR writes them


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, jaxpr: Jaxpr, name: str, version: int,
    attributes: Attributes,
) -> list[Value]:  # fmt: skip
    if effects(jaxpr):  # an operation that the compiler may replace has none
        return lower_call(b, jaxpr, operands, name)
    properties = f"name = {quoted(name)}, decomposition = @{lower_function(b, jaxpr, name)}"
    if attributes:
        properties += f", composite_attributes = {{{', '.join(f'{key} = {text}' for key, text in attributes)}}}"
    if version:
        properties += f", version = {version} : i32"
    return b.ops("stablehlo.composite", [*b.dimensions.values(), *operands], avals, properties)


def _as_call(rule: Any) -> Callable[..., Any]:
    """A rule of `xla_call` for composites."""

    def of_composite(*args: Any, jaxpr: Jaxpr, name: str, version: int, attributes: Attributes) -> Any:
        return rule(*args, call_jaxpr=jaxpr, name=name)

    return of_composite


def _linearize(trace: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    call = {"call_jaxpr": params["jaxpr"], "name": params["name"]}
    return xla_call_p.linearize(trace, primals, tangents, call)  # type: ignore[misc]  # it has the rule


composite_p = register(
    Primitive(
        "composite",
        abstract=lambda avals, **params: JaxprCall(composite_p, params).types(avals),
        reference=lambda values, **params: reference_eval(params["jaxpr"], (), *values),
        lower=_lower,
        jvp=_as_call(xla_call_p.jvp),
        transpose=_as_call(xla_call_p.transpose),
        batch=_as_call(xla_call_p.batch),
        linearize=_linearize,
        batch_named=_as_call(xla_call_p.batch_named),
        evaluate=lambda args, params: run_jaxpr(params["jaxpr"], args, params["name"]),
        threaded=_as_call(xla_call_p.threaded),
        multiple_results=True,
        regions=lambda jaxpr, **params: whole_call(jaxpr),
        call=True,
        params=("jaxpr", "name", "version", "attributes"),
    )
)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function as an operation of a name, which compilers that know it may compute in their own way.

    Programs hold it as StableHLO's `composite`. Its derivatives and batches are those of the function.

    Args:
      decomposition: the function. Arguments by position are operands, pytrees of arrays; those by keyword are
        attributes of the operation: numbers, texts, dtypes, NumPy arrays, and tuples, lists and dicts of these. None
        is left out.
      name: the name, such as "my.softmax".
      version: the version of the operation.

    Returns:
      A function of the same arguments and results.

    Raises:
      UnexpectedTracerError: when called, where an attribute is traced.
      TypeError: when called, where an attribute is something else.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> double = lax.composite(lambda x, *, times: x * times, "my.scale")
    >>> double(jnp.arange(3), times=2)
    Array([0, 2, 4], dtype=int32)
    >>> "stablehlo.composite" in xpr.jit(lambda x: double(x, times=2)).lower(1.0).as_text()
    True
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        attributes = tuple([(key, _attribute(name, key, x)) for key, x in kwargs.items() if x is not None])
        leaves, in_tree = tree.flatten((args, {}))
        fun = named_like(partial(decomposition, **kwargs), decomposition)
        body = trace_body(fun, in_tree, list(map(aval_of, leaves)), f"the decomposition of the composite {name}")
        jaxpr = constvars_to_invars(body.closed)
        outs = composite_p.bind(*body.consts, *leaves, jaxpr=jaxpr, name=name, version=version, attributes=attributes)
        return tree.unflatten(body.out_tree, outs)

    return named_like(called, decomposition)


def _attribute(name: str, key: str, value: Any) -> str:
    if any(isinstance(x, Tracer) for x in tree.leaves(value)):
        raise UnexpectedTracerError(
            f"composite: the attribute {key} of {name} is traced, and attributes are written into the program. Pass it "
            "by position, as an operand. Note: If you are passing jax arrays as attributes, use numpy arrays instead."
        )
    try:
        return attribute_text(tree.map(lambda x: x.host if type(x) is Array else x, value))
    except TypeError as error:
        raise TypeError(f"composite: the attribute {key} of {name}: {error}") from None

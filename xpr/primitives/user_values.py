"""Operations on values of any users' type.

make_value              the value that consists of some arrays: an object of a user's class that holds traced arrays
                        becomes this operation on them where it is an operand
stop_gradient_of_value  the identity, with no derivative
add_values              the sum of two values of a type of tangents, by its method vspace_add
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import add_tangents
from xpr.primitives.shapes import instantiate

__all__ = ["add_values_p", "make_value_p", "stop_gradient_of_value_p"]

_OF_OBJECTS = "It is one on objects of users' classes, of which programs that are compiled know nothing."
_WITHOUT_RULE = (
    "An object of a user's class was made of arrays that depend on what is differentiated or mapped. Make it by an "
    "operation that has rules for that, a subclass of HiPrimitive or VJPHiPrimitive."
)


def _make(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [params["aval"].raise_val(*args)]


make_value_p = Primitive(
    "make_value",
    abstract=lambda avals, *, aval: [aval],
    reference=Unsupported(_OF_OBJECTS),
    lower=Unsupported(_OF_OBJECTS),
    jvp=Unsupported(_WITHOUT_RULE),
    transpose=Unsupported(_WITHOUT_RULE),
    batch=Unsupported(_WITHOUT_RULE),
    evaluate=_make,
    on_arrays=_make,
    call=True,
)


def _same(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return list(args)


stop_gradient_of_value_p = Primitive(
    "stop_gradient_of_value",
    abstract=lambda avals: list(avals),
    reference=Unsupported(_OF_OBJECTS),
    lower=Unsupported(_OF_OBJECTS),
    jvp=lambda primals, tangents: (
        [stop_gradient_of_value_p.bind(*primals)],
        [Zero.from_primal_value(x) for x in primals],
    ),
    transpose=lambda cts, operands: [stop_gradient_of_value_p.bind(cts[0])],
    batch=lambda size, values, dims: ([stop_gradient_of_value_p.bind(*values)], list(dims)),
    evaluate=_same,
    on_arrays=_same,
    call=True,
)


def _add(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [add_tangents(*args)]


def _add_batch(size: int, values: Sequence[Any], dims: Sequence[Any]) -> Any:
    if dims[0] != dims[1]:
        raise UnsupportedRule(
            f"vmap: two values of type {aval_of(values[0]).str_short()} are added that are mapped differently, as "
            f"{dims[0]!r} and {dims[1]!r}."
        )
    return [add_values_p.bind(*values)], [dims[0]]


add_values_p = Primitive(
    "add_values",
    abstract=lambda avals: [avals[0]],
    reference=Unsupported(_OF_OBJECTS),
    lower=Unsupported(_OF_OBJECTS),
    jvp=lambda primals, tangents: ([add_values_p.bind(*primals)], [add_tangents(*map(instantiate, tangents))]),
    transpose=lambda cts, operands: [cts[0], cts[0]],
    batch=_add_batch,
    evaluate=_add,
    on_arrays=_add,
    call=True,
)

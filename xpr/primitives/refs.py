"""Reading and writing mutable arrays: the equations on refs in programs that take refs from outside.

They read and write whole arrays; indexing is done by the operations on arrays. A program with such equations is never
transformed or lowered: passes/discharge.py turns it into one in which the values of refs are arguments and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import ShapedArray, same_type
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.refs import AbstractRef, Ref

__all__ = ["get_p", "swap_p"]

_DISCHARGED = (
    "A function that is given to an operation reads or writes a Ref from outside, which jit, checkpoint, shard_map, "
    "scan, while_loop, cond and switch provide for, and this operation doesn't. Pass what the ref holds: ref[...]."
)


def _ref_type(name: str, avals: Sequence[Any]) -> ShapedArray:
    if type(avals[0]) is not AbstractRef:
        raise TypeError(f"{name}: the first operand must be a Ref, and is {avals[0].str_short()}.")
    return avals[0].inner_aval


def get_abstract(avals: Sequence[Any]) -> list[ShapedArray]:
    return [_ref_type("get", avals)]


def get_evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    ref: Ref = args[0]
    ref.shared = True
    return [ref.held()]


get_p = register(
    Primitive(
        "get",
        abstract=get_abstract,
        reference=Unsupported(_DISCHARGED),
        lower=Unsupported(_DISCHARGED),
        jvp=Unsupported(_DISCHARGED),
        transpose=Unsupported(_DISCHARGED),
        batch=Unsupported(_DISCHARGED),
        evaluate=get_evaluate,
        effects=lambda avals: ("ordered",),
        takes_refs=True,
    )
)


def swap_abstract(avals: Sequence[Any]) -> list[ShapedArray]:
    inner = _ref_type("swap", avals)
    if not same_type(inner, avals[1]):
        raise TypeError(f"swap: a ref of type {avals[0].str_short()} can't hold {avals[1].str_short()}.")
    return [inner]


def swap_evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    ref: Ref = args[0]
    before, ref.value, ref.shared = ref.held(), args[1], True
    return [before]


swap_p = register(
    Primitive(
        "swap",
        abstract=swap_abstract,
        reference=Unsupported(_DISCHARGED),
        lower=Unsupported(_DISCHARGED),
        jvp=Unsupported(_DISCHARGED),
        transpose=Unsupported(_DISCHARGED),
        batch=Unsupported(_DISCHARGED),
        evaluate=swap_evaluate,
        effects=lambda avals: ("ordered",),
        takes_refs=True,
    )
)

"""of_copies: cotangents inside a shard_map, where a value replicated over devices counts once.

The program of a shard_map is differentiated as a function on each device, where a replicated value is many separate
copies. The wanted derivative is that of the one replicated value. The two agree if each copy of a result has an equal
share of the cotangent, and the copies of an argument have the sum of theirs. control/devices/replication.py infers from
the finished program which values are replicated; so until then these are operations:

    of_copies[what=share] ct like    ct / the number of devices that have the same `like`
    of_copies[what=sum]   ct like    the sum of ct over the devices that have the same `like`

There may be several `like`; then the devices counted are those that have the same values of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive, is_linear, register
from xpr.errors import UnsupportedRule


def _reference(values: Sequence[np.ndarray], *, what: str, over: Sequence[Any]) -> list[np.ndarray]:
    return _along_none(values, over)


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, what: str, over: Sequence[Any]
) -> list[Value]:
    return _along_none(operands, over)


def _along_none(operands: Sequence[Any], over: Sequence[Any]) -> list[Any]:
    if over:
        raise UnsupportedRule(f"of_copies: along {over} it is replaced when the program of a shard_map is there.")
    return [operands[0]]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The jvp rule: linear in the first operand; the others have no derivative."""
    x, *likes = primals
    t = tangents[0]
    return [of_copies_p.bind(x, *likes, **params)], [t if type(t) is Zero else of_copies_p.bind(t, *likes, **params)]


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    likes = [cts[0] if is_linear(like) else like for like in operands[1:]]
    return [of_copies_p.bind(cts[0], *likes, **params), *[None] * len(likes)]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return [of_copies_p.bind(*values, **params)], [dims[0]]


def _varying(every: Sequence[frozenset[Any]], *, what: str, over: Sequence[Any]) -> list[frozenset[Any]]:
    """A sum over devices that have the same `like` varies as that does, as the cotangent of an argument."""
    varying, *likes = every
    if what == "sum":
        varying = varying.difference([name for name, _ in over]).union(*likes)
    return [varying]


of_copies_p = register(
    Primitive(
        "of_copies",
        abstract=lambda avals, **params: [avals[0]],
        params=("what", "over"),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        varying=_varying,
    )
)


def shares(cts: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    """Cotangents of results, divided among the replicas of each result."""
    return _of_copies("share", cts, likes)


def sums(cts: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    """Cotangents of arguments, summed over the replicas of each argument."""
    return _of_copies("sum", cts, likes)


def count_copies() -> bool:
    """Whether replicated values count once, and `shares` and `sums` have an effect: in a shard_map with check_vma."""
    return any(axis.checked for axis in context.axes)


def _of_copies(what: str, cts: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    axes = tuple([(axis.name, axis.size) for axis in context.axes if axis.checked])
    if not axes:
        return list(cts)
    return [
        ct
        if ct is None or type(ct) is Zero
        else of_copies_p.bind(ct, *(like if type(like) is tuple else (like,)), what=what, over=axes)
        for ct, like in zip(cts, likes)
    ]

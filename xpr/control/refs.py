"""Operations that hold jaxprs on refs: the values of refs go in as operands, and come out as results.

Before such an operation is applied the refs that its jaxprs read or write are read, and afterwards those that they
write are written. So the operation itself, and all that is derived from it, is one on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr.control.groups import any_of, mask, split_list
from xpr.core.avals import aval_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars
from xpr.core.primitive import Primitive
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import describe_function
from xpr.errors import RefError
from xpr.passes.discharge import discharge, uses_of_refs
from xpr.primitives.shapes import mapped_to
from xpr.transforms.flat import FlatFunction
from xpr.transforms.refs import current_owner, read, write


class RefOperands:
    """The operands of jaxprs on refs, with the values of the refs that they read or write.

    Attributes:
      jaxprs: the jaxprs on values, with the last values of written refs as further results.
      operands: the operands, the values of refs among them.
      passed: refs that are also passed on to functions with derivative rules; the last operands.
      written: which operands are values of refs that are written.
    """

    __slots__ = ("_refs", "jaxprs", "operands", "passed", "written")

    def __init__(self, jaxprs: Sequence[Jaxpr], operands: Sequence[Any]):
        uses = [uses_of_refs(jaxpr) for jaxpr in jaxprs]
        valued, self.written = any_of([use.valued for use in uses]), any_of([use.written for use in uses])
        is_passed = [v and p for v, p in zip(valued, any_of([use.passed for use in uses]))]
        self.jaxprs = [discharge(jaxpr, valued, self.written, is_passed) for jaxpr in jaxprs]
        self.passed = mask(operands, is_passed)
        self.operands = [read(x) if flag else x for x, flag in zip(operands, valued)]
        self._refs = mask(operands, self.written)

    def store(self, values: Sequence[Any]) -> None:
        """Writes the refs that were written, in the order of the operands."""
        for ref, value in zip(self._refs, values):
            write(ref, value)


def call_on_values(primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], parameter: str) -> list[Any]:
    """Applies an operation that calls a jaxpr on refs, its parameter of that name, with the values of the refs."""
    jaxpr = params[parameter]
    refs = RefOperands([jaxpr], operands)
    outs = primitive.bind(*refs.operands, *refs.passed, **{**params, parameter: refs.jaxprs[0]})
    outs, last = split_list(outs, len(jaxpr.outvars))
    refs.store(last)
    return outs


class RefRows:
    """A function of mapped refs as one of mapped arrays: it gets refs to rows, and also returns their last values."""

    def __init__(
        self,
        what: str,
        fun: FlatFunction,
        names: Callable[[], Sequence[str]],
        leaves: Sequence[Any],
        dims: Sequence[int | None],
        size: int,
    ):
        self.what, self.fun, self.names, self.dims, self.size = what, fun, names, dims, size
        self.refs = [x if type(x) is Ref and d is not None else None for x, d in zip(leaves, dims)]
        self.values = [x if ref is None else read(ref) for x, ref in zip(leaves, self.refs)]

    def __call__(self, *rows: Any) -> list[Any]:
        owner = current_owner()
        arguments = [
            x if ref is None else Ref(AbstractRef(aval_of(x), None, ref.aval.kind), owner, x)
            for x, ref in zip(rows, self.refs)
        ]
        for i, ref in enumerate(self.refs):
            if ref is not None:
                ref.lent = partial(self._used_elsewhere, ref, i)
        try:
            outs = self.fun(*arguments)
        finally:
            for ref in self.refs:
                if ref is not None:
                    ref.lent = None
        return [*outs, *(x.held() for x, ref in zip(arguments, self.refs) if ref is not None)]

    def _used_elsewhere(self, ref: Ref, i: int) -> str:
        how = f"was closed over and passed as the argument {self.names()[i]}"
        return _aliased(self.what, ref, how, self.fun.fun)

    def store(self, outs: Sequence[Any], out_dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
        """Writes the refs; returns the results of the function."""
        mapped = [(ref, d) for ref, d in zip(self.refs, self.dims) if ref is not None and d is not None]
        outs, last = split_list(outs, len(outs) - len(mapped))
        out_dims, last_dims = split_list(out_dims, len(outs))
        for (ref, dim), value, last_dim in zip(mapped, last, last_dims):
            write(ref, mapped_to(value, last_dim, self.size, dim))
        return outs, out_dims


def on_values(what: str, fun: Callable[..., Any], closed: ClosedJaxpr) -> tuple[ClosedJaxpr, Sequence[bool]]:
    """A program whose arguments are refs as a program on their values, and which of its arguments it writes.

    Raises:
      RefError: it closes over a ref.
    """
    if Ref in map(type, closed.consts):
        raise RefError(
            f"{what}: {describe_function(fun)} closes over a Ref, which all devices would share. Pass it as an "
            "argument, with a spec that says what part each device has."
        )
    jaxpr, n = constvars_to_invars(closed), len(closed.consts)
    is_ref = [type(aval) is AbstractRef for aval in jaxpr.in_avals]
    written = uses_of_refs(jaxpr).written
    whole = discharge(jaxpr, is_ref, written, [False] * len(is_ref))
    constvars, invars = split_list(whole.invars, n)
    return ClosedJaxpr(whole.replace(constvars=constvars, invars=invars), closed.consts), split_list(written, n)[1]


def with_values_read(what: str, fun: Callable[..., Any], closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that closes over refs as a program that closes over the values that they hold now.

    Raises:
      RefError: it writes one.
    """
    jaxpr, n = constvars_to_invars(closed), len(closed.consts)
    if any(uses_of_refs(jaxpr).written):
        raise RefError(
            f"{describe_function(fun)}, {what}, writes to a Ref, and may be run any number of times. Refs can be "
            "written in functions that are given to jit, checkpoint, shard_map, scan, while_loop, cond and switch."
        )
    refs = RefOperands([jaxpr], [*closed.consts, *[None] * (len(jaxpr.invars) - n)])
    constvars, invars = split_list(refs.jaxprs[0].invars, n)
    return ClosedJaxpr(refs.jaxprs[0].replace(constvars=constvars, invars=invars), split_list(refs.operands, n)[0])


def refuse_refs(what: str, fun: Callable[..., Any], values: Sequence[Any], instead: str) -> None:
    """Raises RefError if a ref is among the arguments of a function, or what it closes over."""
    if Ref in map(type, values):
        raise RefError(f"{what}: {describe_function(fun)} takes or closes over a Ref, which can't be done. {instead}")


def check_aliases(
    what: str, fun: Callable[..., Any], names: Callable[[], Sequence[str]], leaves: Sequence[Any], consts: Sequence[Any]
) -> None:
    """Checks that a function gets each ref, and each mutable value of a user's type, once.

    Raises:
      RefError: one is passed twice, or passed to a function that closes over it.
    """
    positions: dict[int, int] = {}  # of those among the leaves, by their ids
    closed_over = {id(x) for x in consts if _is_mutable(x)}
    for i, x in enumerate(leaves):
        if not _is_mutable(x):
            continue
        if id(x) in positions:
            name = names()
            raise RefError(_aliased(what, x, f"appeared at both {name[positions[id(x)]]} and {name[i]}", fun))
        if id(x) in closed_over:
            raise RefError(_aliased(what, x, f"was closed over and passed as the argument {names()[i]}", fun))
        positions[id(x)] = i


def _is_mutable(x: Any) -> bool:
    aval = getattr(x, "aval", None)
    return type(x) is Ref or (aval is not None and aval.has_qdd)


def _aliased(what: str, ref: Any, how: str, fun: Callable[..., Any]) -> str:
    """The message for a ref, or a mutable value of a user's type, that a function gets twice."""
    kind, instead = ("a Ref", "ref[...]") if type(ref) is Ref else ("a mutable value", "as box.get() of a Box")
    return (
        f"{what}: only one reference to a mutable array can be passed or closed over, and for {what} {kind} of type "
        f"{ref.aval.str_short()} {how} of {describe_function(fun)}.\nPass it once, or pass what it holds: {instead}."
    )

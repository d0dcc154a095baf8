"""host_memory : jaxpr -> jaxpr. Moves operands from the host's memory to the device's before they are computed with.

The type of `2 * a` has the memory space of `a`. For GPUs XLA compiles programs that read parts of an array in the
host's memory, or move it. Programs fail, or don't compile, where products, loops or branches compute with it there. So
values are in the device's memory from the first operation that computes with them, up to where they leave the program,
become rows of a loop's stacked results, or are moved by `device_put`. A result is in the host's memory only if it is an
argument, or is moved there: XLA leaves others in the device's memory, whatever their type says.

    a:f32<host>[8]               a:f32<host>[8]
    b:f32<host>[8] = mul a 2.0   c:f32[8] = device_put[device=device] a
                                 d:f32[8] = mul c 2.0
                                 b:f32<host>[8] = device_put[device=host] d
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, subjaxprs, with_subjaxprs
from xpr.core.memory import MemorySpace
from xpr.core.regions import Region, regions_of
from xpr.primitives.device_put import device_put_p
from xpr.primitives.dynamic_slices import dynamic_slice_p
from xpr.primitives.shapes import reshape_p, squeeze_p
from xpr.primitives.slicing import slice_p

_DEVICE, _HOST = MemorySpace.Device, MemorySpace.Host
_READS_PARTS = frozenset({slice_p, dynamic_slice_p, reshape_p, squeeze_p})  # which XLA does on arrays in either memory


def computed_on_device(jaxpr: Jaxpr) -> Jaxpr:
    """The program computing in the device's memory alone, cached with it; itself if nothing is on the host."""
    if not has_host_values(jaxpr):
        return jaxpr
    return _rewritten(jaxpr, _spaces(jaxpr.invars), _spaces(jaxpr.outvars), is_body=False)


def has_host_values(jaxpr: Jaxpr) -> bool:
    """Whether a value of the program, at any depth, is in the host's memory; cached with it."""
    if "has_host_values" not in jaxpr.memo:
        jaxpr.memo["has_host_values"] = any(map(_is_on_host, (*jaxpr.constvars, *jaxpr.invars))) or any(
            any(map(_is_on_host, eqn.outvars)) or (eqn.primitive.call and any(map(has_host_values, subjaxprs(eqn))))
            for eqn in jaxpr.eqns
        )
    return jaxpr.memo["has_host_values"]


def _is_on_host(v: Any) -> bool:
    return _space(v) is _HOST


def _space(v: Any) -> MemorySpace:
    return getattr(v.aval, "memory_space", _DEVICE) or _DEVICE  # mutable arrays are in the device's


def _spaces(atoms: Sequence[Any]) -> tuple[MemorySpace, ...]:
    return tuple(map(_space, atoms))


def _rewritten(
    jaxpr: Jaxpr, arguments: tuple[MemorySpace, ...], results: tuple[MemorySpace | None, ...], is_body: bool
) -> Jaxpr:
    """The program for arguments in these memories, with results in these; None where it may be either.

    The arguments of a loop's body are parts of arrays.
    """
    key = ("computed_on_device", arguments, results, is_body)
    known = jaxpr.memo.get(key)
    if known is None:
        known = jaxpr.memo[key] = _Rewriting(jaxpr).run(arguments, results, is_body)
    return known


class _Rewriting:
    """A program that is being rewritten.

    Attributes:
      env: where each variable is now, which may be in other memory than its type says.
      copies: variables in the device's memory, by those in the host's that they are copies of.
      read: those in the host's memory that were not moved there: parts of arrays, and a loop's stacked results.
    """

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.eqns: list[JaxprEqn] = []
        self.env: dict[Any, Any] = {v: v for v in jaxpr.constvars}
        self.copies: dict[Any, Any] = {}
        self.read: set[Any] = set()

    def run(self, arguments: Sequence[MemorySpace], results: Sequence[MemorySpace | None], is_body: bool) -> Jaxpr:
        invars = list(map(_in_memory, self.jaxpr.invars, arguments))
        if is_body:
            self.read.update(filter(_is_on_host, invars))
        self.env.update(zip(self.jaxpr.invars, invars))
        for eqn in self.jaxpr.eqns:
            self.rewrite(eqn)
        outvars = list(map(self.result, self.jaxpr.outvars, results))
        return self.jaxpr.replace(invars=invars, outvars=outvars, eqns=self.eqns)

    def result(self, atom: Any, space: MemorySpace | None) -> Any:
        """The atom in a memory space; None leaves it where it is."""
        if space is _HOST and type(atom) is not Literal and self.env[atom] in self.read:
            self.env[atom] = self.moved(atom, _DEVICE)
        return self.moved(atom, space)

    def now(self, atom: Any) -> Any:
        return atom if type(atom) is Literal else self.env[atom]

    def moved(self, atom: Any, space: MemorySpace | None) -> Any:
        """The atom in a memory space, moved if it is in another one."""
        atom = self.now(atom)
        if type(atom) is Literal or space is None or _space(atom) is space:
            return atom
        copy = self.copies.get(atom) if space is _DEVICE else None
        if copy is None:
            copy = Var(atom.aval.in_memory(space))
            self.eqns.append(JaxprEqn([atom], [copy], device_put_p, {"device": space}))
            if space is _DEVICE:
                self.copies[atom] = copy
        return copy

    def rewrite(self, eqn: JaxprEqn) -> None:
        if not any(map(_is_on_host, (*eqn.invars, *eqn.outvars))):
            invars = list(map(self.now, eqn.invars))
            self.append(with_subjaxprs(eqn, computed_on_device), invars, list(_spaces(eqn.outvars)))
        elif eqn.primitive.decides_memory:
            self.append(eqn, list(map(self.now, eqn.invars)), list(_spaces(eqn.outvars)))
        elif eqn.primitive in _READS_PARTS and _is_on_host(eqn.outvars[0]):
            read, *indices = eqn.invars
            invars = [self.now(read), *[self.moved(i, _DEVICE) for i in indices]]
            self.append(eqn, invars, [_space(invars[0])])
        elif eqn.primitive.regions is not None:
            self.rewrite_regions(eqn, regions_of(eqn))
        else:
            invars = [self.moved(v, _DEVICE) for v in eqn.invars]
            self.append(with_subjaxprs(eqn, computed_on_device), invars, [_DEVICE] * len(eqn.outvars))

    def rewrite_regions(self, eqn: JaxprEqn, regions: Sequence[Region]) -> None:
        """A loop reads its constants and slices where they are, and a call its arguments."""
        is_call = len(regions) == 1 and regions[0].kind == "call"
        is_loop = [region.kind for region in regions if region.kind != "predicate"] == ["loop"]
        requested: list[MemorySpace | None] = [None if is_call or is_loop else _DEVICE] * len(eqn.invars)
        for region in regions:
            for argument in region.carry:
                operand = None if argument is None else region.operands[argument]
                if operand is not None:
                    requested[operand] = _DEVICE
        invars = list(map(self.moved, eqn.invars, requested))
        new: dict[Jaxpr, Jaxpr] = {}
        spaces = [_DEVICE] * len(eqn.outvars)
        for region in regions:
            arguments, results = _spaces_inside(region, _spaces(invars), is_call, is_loop)
            inner = new[region.jaxpr] = _rewritten(region.jaxpr, arguments, results, is_body=is_loop)
            for v, indices in zip(inner.outvars, region.results):
                for index in indices:
                    spaces[index] = _space(v)
        self.append(with_subjaxprs(eqn, lambda inner: new.get(inner, inner)), invars, spaces)

    def append(self, eqn: JaxprEqn, invars: Sequence[Any], spaces: Sequence[MemorySpace]) -> None:
        """The equation with these operands, whose results are in these memories."""
        outvars = list(map(_in_memory, eqn.outvars, spaces))
        if not eqn.primitive.decides_memory:
            self.read.update(filter(_is_on_host, outvars))
        self.env.update(zip(eqn.outvars, outvars))
        self.eqns.append(eqn.replace(invars=list(invars), outvars=outvars))


def _spaces_inside(
    region: Region, operands: Sequence[MemorySpace], is_call: bool, is_loop: bool
) -> tuple[tuple[MemorySpace, ...], tuple[MemorySpace | None, ...]]:
    """The memories of the arguments and results of a region's jaxpr, from those of the equation's operands.

    The results of a call may be in either, None. A loop's stacked results are in the memory that their type says.
    """
    inner = region.jaxpr
    spaces_of_others = _spaces(inner.invars) if is_loop or is_call else (_DEVICE,) * len(inner.invars)
    arguments = [other if i is None else operands[i] for i, other in zip(region.operands, spaces_of_others)]
    results: list[MemorySpace | None] = [None if is_call else _DEVICE] * len(inner.outvars)
    if is_loop and region.kind == "loop":
        results = [_space(v) if again is None else _DEVICE for v, again in zip(inner.outvars, region.carry)]
    return tuple(arguments), tuple(results)


def _in_memory(v: Any, space: MemorySpace) -> Any:
    """The variable, or one of the same type in another memory."""
    return v if _space(v) is space else Var(v.aval.in_memory(space))

"""memory : jaxpr -> bytes. Predicts the memory that a compiled program will need, by liveness over its jaxpr.

Memory holds the arguments, the results and the temporaries, each from the operation that computes it to the last one
that reads it. Which values get memory at all is XLA's choice, which this file models:

* A call that may be inlined is; equal operations on equal operands are done once; unread results aren't computed.
* An elementwise operation is *fused* into its readers: it is computed inside them, element by element, and has no
  memory, but keeps its operands alive. A cheap one is repeated in each reader, an expensive one (`exp`) is in only one.
* Operands and results of a product, a convolution or a call are in memory. A reshape shares its operand's memory.
* An expensive operation whose result is in memory is done when it is first needed.
* An elementwise operation may reuse the memory of an operand of its type that it reads last.

Loops and branches need the memory of their bodies, once. Rematerialized calls need theirs while they run.

On several devices it is the memory of each of them, as far as the program says how values are partitioned: by types
that name Explicit axes of a mesh, and by what `shard_map` and `pmap` take and give. Over Auto axes the compiler
decides, and values that are no operand or result of these count as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xpr.compile.fusion import fusion_barriers, is_expensive
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.primitive import FUSED
from xpr.core.regions import regions_of
from xpr.passes.cse import without_repetitions
from xpr.passes.dce import dce_jaxpr
from xpr.passes.decided_shardings import decided_shardings, decided_type
from xpr.passes.inline import inline_jaxpr
from xpr.primitives.communication import shard_bytes


class PredictedMemory(NamedTuple):
    """The bytes of a program's arguments, results and temporaries, on each device."""

    arguments: int
    results: int
    temporaries: int

    @property
    def peak(self) -> int:
        """The most bytes in use at a time; arguments and results are in use throughout."""
        return self.arguments + self.results + self.temporaries

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {_megabytes(n)}" for name, n in zip(self._fields, self))
        return f"{_megabytes(self.peak)} ({parts})"


def _megabytes(n: int) -> str:
    return f"{n / 1e6:.3g} MB"


def predict_memory(jaxpr: Jaxpr) -> PredictedMemory:
    """The memory that the compiled program of a jaxpr will need, in bytes."""
    size = bytes_held(jaxpr)
    arguments = sum(map(size, (*jaxpr.constvars, *jaxpr.invars)))
    return PredictedMemory(arguments, sum(map(size, jaxpr.outvars)), _temporaries(jaxpr))


def bytes_held(jaxpr: Jaxpr) -> Callable[[Any], int]:
    """The function from a value in a jaxpr to the bytes that each device holds of it."""
    sizes, decided = _of_regions_on_devices(jaxpr), decided_shardings(jaxpr)

    def size(v: Any) -> int:
        return sizes[v] if type(v) is not Literal and v in sizes else shard_bytes(decided_type(v, decided))

    return size


def _of_regions_on_devices(jaxpr: Jaxpr) -> dict[Any, int]:
    """The bytes that each device holds of those values that functions on several devices take or give."""
    if "held" in jaxpr.memo:
        return jaxpr.memo["held"]
    sizes: dict[Any, int] = {}
    for eqn in jaxpr.eqns:
        for region in regions_of(eqn):
            inner, inner_sizes = bytes_held(region.jaxpr), _of_regions_on_devices(region.jaxpr)
            pairs: list[tuple[Any, Any]] = [
                (v, eqn.invars[i]) for v, i in zip(region.jaxpr.invars, region.operands) if i is not None
            ]
            pairs += [(v, eqn.outvars[i]) for v, each in zip(region.jaxpr.outvars, region.results) for i in each]
            for v, outer in pairs:
                if region.devices:
                    sizes[outer] = max(inner(v), sizes.get(outer, 0))
                elif type(v) is not Literal and v in inner_sizes and v.aval.size:  # or its rows, in a loop
                    sizes[outer] = max(inner(v) * outer.aval.size // v.aval.size, sizes.get(outer, 0))
    jaxpr.memo["held"] = sizes
    return sizes


# -- The program that XLA will see


def _inlined(eqn: JaxprEqn) -> Jaxpr | None:
    regions = regions_of(eqn)
    return regions[0].jaxpr if regions and regions[0].inlined != "never" else None


# -- Which values have memory


class _Program:
    """The equations whose results have memory, in order, and for each the positions that keep it alive."""

    def __init__(self, jaxpr: Jaxpr):
        self.eqns, self.barriers = jaxpr.eqns, fusion_barriers(jaxpr)
        self.outvars = {v for v in jaxpr.outvars if type(v) is not Literal}
        self.in_memory: set[Any] = set(self.outvars)  # later also values that are read as a whole
        self.readers: dict[Any, set[int]] = {}  # of a value: the equations with memory that read it, directly or not
        for position in range(len(self.eqns) - 1, -1, -1):
            self._visit(position)

    def _visit(self, position: int) -> None:
        """Decides whether an equation's results have memory, after all of its readers."""
        eqn = self.eqns[position]
        fusion = eqn.primitive.fusion
        operands = {v for v in eqn.invars if type(v) is not Literal}
        if fusion == "view":
            for v in operands:
                self.readers.setdefault(v, set()).update(self.readers.get(eqn.outvars[0], ()))
                for group in (self.in_memory, self.outvars):
                    if eqn.outvars[0] in group:
                        group.add(v)
            return
        if fusion in FUSED and not self._has_memory(eqn):
            by = self.readers.get(eqn.outvars[0], set())
        else:
            by = {position}
            self.in_memory.update(eqn.outvars)
        for v in operands:
            self.readers.setdefault(v, set()).update(by)
        if fusion not in FUSED and fusion != "reduction":
            self.in_memory.update(operands)

    def _has_memory(self, eqn: JaxprEqn) -> bool:
        var = eqn.outvars[0]
        several = len(self.readers.get(var, ())) > 1
        return var in self.in_memory or var in self.barriers or (several and is_expensive(eqn))


def _temporaries(jaxpr: Jaxpr) -> int:
    """The most bytes at a time of values that are neither arguments nor results."""
    if "temporaries" not in jaxpr.memo:
        whole = without_repetitions(inline_jaxpr(jaxpr, _inlined))
        smaller, _ = dce_jaxpr(whole, [True] * len(whole.outvars), keep_inputs=True)
        jaxpr.memo["temporaries"] = _peak(_Program(smaller), bytes_held(smaller))
    return jaxpr.memo["temporaries"]


def _peak(program: _Program, size: Callable[[Any], int]) -> int:
    ends: dict[int, list[int]] = {}  # by position, the sizes of the values that are last read there
    starts: dict[int, int] = {}
    for position, eqn in enumerate(program.eqns):
        if eqn.primitive.fusion == "view":
            continue
        for v in eqn.outvars:
            if v not in program.in_memory or v in program.outvars:
                continue
            readers = program.readers.get(v) or {position}
            start = min(readers) if eqn.primitive.fusion in FUSED else position
            starts[start] = starts.get(start, 0) + size(v)
            ends.setdefault(max(readers), []).append(size(v))
    live = peak = 0
    for position, eqn in enumerate(program.eqns):
        live += starts.get(position, 0)
        ending = ends.get(position, [])
        reused = size(eqn.outvars[0]) if eqn.primitive.fusion in FUSED else -1
        peak = max(peak, live + _inner(eqn) - (reused if reused in ending else 0))
        live -= sum(ending)
    return peak


def _inner(eqn: JaxprEqn) -> int:
    """The bytes that an equation with inner jaxprs needs while it runs, besides its operands and results."""
    sizes = [0]
    for region in regions_of(eqn):
        results = 0 if region.kind == "call" else sum(map(bytes_held(region.jaxpr), region.jaxpr.outvars))
        sizes.append(_temporaries(region.jaxpr) + results)
    return max(sizes)

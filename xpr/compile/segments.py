"""segments : jaxpr -> [Segment]. Splits a program that repeats itself into segments; equal ones are compiled once.

XLA compiles the 48th layer of a network as if it had not seen the 47 before, which are the same equations on other
variables. Split between layers a program is a list of segments, and structurally equal segments share a program: the
gradient of 48 layers is a handful of programs of a few layers each, which run many times.

    order         first equations move so that each layer's are together (order.py)
    boundaries    those of the periods of a repetition (repeats.py), where least memory is live
    live-outs     values that are in memory anyway, or expensive; others are recomputed, as XLA does when it fuses
    last segment  often the gradient of the first layer, which lacks some equations of the others; it runs them all the
                  same, and their results are not used

Starting a segment takes some 50 microseconds, so a segment has several layers where one is short. Each live-out array
of a segment takes some 8 microseconds (measured on networks, whole and in segments): it has its own memory, allocated
and freed in each call. So programs whose layers have many live-out values for their work are not split, such as those
of narrow networks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from xpr.compile.fusion import fusion_barriers, is_fused
from xpr.compile.order import nbytes, ordered
from xpr.compile.repeats import repetitions
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.regions import Region, regions_of
from xpr.passes.dce import has_effect, live_jaxpr
from xpr.passes.inline import inline_jaxpr
from xpr.passes.structure import EquationNumbers, operand_key, structure
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise import copy_p
from xpr.primitives.flops import operations
from xpr.primitives.windows.convolution import conv_general_dilated_p

_FLOPS_PER_NANOSECOND = 4  # of elementwise operations and reductions
_PRODUCT_FLOPS_PER_NANOSECOND = 200  # of matrix products and convolutions
_PRODUCTS = (dot_general_p, conv_general_dilated_p)
_MOST_RECOMPUTED = 16  # equations, for one value
_RECOMPUTABLE = ("view", "cheap", "vectorized")  # fusion classes that are no slower recomputed than read from memory


class Thresholds(NamedTuple):
    """Which programs are split into segments, and how large the segments are.

    Attributes:
      repeats: the fewest segments that share a program.
      equations: the fewest equations of a program that is split.
      shorter: the least ratio of a program's equations to those that are compiled when it is split.
      work: the fewest nanoseconds that a segment takes.
      live_out: the nanoseconds that each array takes which a later segment reads.
      live_out_share: of the work of the whole program, what live-out arrays may take.
      unused_share: of the work of the whole program, what unused results may take, which save compiling a segment.
      periods: the most periods of the program that are one segment.
    """

    repeats: int = 4
    equations: int = 600
    shorter: float = 3
    work: int = 1_000_000
    live_out: int = 8_000
    live_out_share: float = 1 / 6
    unused_share: float = 1 / 32
    periods: int = 1_000_000


thresholds = Thresholds()  # of every program; tests, whose programs are small, take others


class Segment(NamedTuple):
    """A part of a program.

    Attributes:
      jaxpr: its program; the same object in structurally equal segments.
      operands: the atoms of the whole program that are its arguments. A literal is one in which it differs from others.
      results: the variables of the whole program that are its results.
    """

    jaxpr: Jaxpr
    operands: list[Atom]
    results: list[Var]


def split_into_segments(jaxpr: Jaxpr) -> tuple[list[Segment], list[Atom]] | None:
    """The segments of a program that repeats itself, and the variables of its results; None for other programs."""
    if any(map(has_effect, jaxpr.eqns)):
        return None
    flat = inline_jaxpr(jaxpr)
    work = sum(map(_nanoseconds, flat.eqns))
    if sum(map(_count, flat.eqns)) < thresholds.equations or work < thresholds.repeats * thresholds.work:
        return None
    flat = ordered(live_jaxpr(_with_distinct_results(flat)))
    repeated = _find_repeated(flat)
    if not repeated:
        return None
    segments = _critical_path_first(_Segmentation(flat, repeated).segments())
    if _live_outs(segments) * thresholds.live_out > thresholds.live_out_share * work:
        return None
    return segments, flat.outvars


def _critical_path_first(segments: Sequence[Segment]) -> list[Segment]:
    """The segments with their operands and results reordered, since XLA starts operations in the order of those.

    The result that is computed last, for which the next segment mostly waits, must not come after those that only the
    caller reads. So it comes first, and so do the operands farthest from it; networks run 5 to 20 % faster for it.
    """
    orders: dict[Jaxpr, list[int]] = {}
    programs: dict[Jaxpr, Jaxpr] = {}
    for jaxpr in {segment.jaxpr: None for segment in segments}:
        distance: dict[Any, int] = dict.fromkeys(jaxpr.outvars[-1:], 0)
        for eqn in reversed(jaxpr.eqns):
            at = max((distance[v] for v in eqn.outvars if v in distance), default=None)
            if at is not None:
                distance.update({v: max(distance.get(v, 0), at + 1) for v in eqn.invars if type(v) is Var})
        order = sorted(range(len(jaxpr.invars)), key=lambda i: -distance.get(jaxpr.invars[i], -1))
        orders[jaxpr] = order
        programs[jaxpr] = jaxpr.replace(invars=[jaxpr.invars[i] for i in order], outvars=jaxpr.outvars[::-1])
    return [
        Segment(programs[jaxpr], [operands[i] for i in orders[jaxpr]], results[::-1])
        for jaxpr, operands, results in segments
    ]


def _live_outs(segments: Sequence[Segment]) -> int:
    """How many arrays of a segment are read by another one."""
    read = {v for segment in segments for v in segment.operands if type(v) is Var}
    return sum(v in read for segment in segments for v in segment.results)


def _with_distinct_results(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with distinct results that are variables of equations: arrays must not share their memory."""
    bound = {v for eqn in jaxpr.eqns for v in eqn.outvars}
    outvars: list[Atom] = []
    copies = []
    for v in jaxpr.outvars:
        if v in bound:
            bound.discard(v)
            outvars.append(v)
        else:
            copied = Var(v.aval)
            outvars.append(copied)
            copies.append(JaxprEqn([v], [copied], copy_p, {}, jaxpr.eqns[-1].source))
    return jaxpr.replace(outvars=outvars, eqns=[*jaxpr.eqns, *copies]) if copies else jaxpr


def _count(eqn: JaxprEqn) -> int:
    """The number of equations, with those of inner jaxprs."""
    if not eqn.primitive.call:
        return 1
    return 1 + sum(_count(each) for jaxpr in subjaxprs(eqn) for each in jaxpr.eqns)


def _nanoseconds(eqn: JaxprEqn) -> int:
    """An estimate of the time an equation takes."""
    speed = _PRODUCT_FLOPS_PER_NANOSECOND if eqn.primitive in _PRODUCTS else _FLOPS_PER_NANOSECOND
    total = operations(eqn) // speed
    for region in regions_of(eqn):
        total += _least_runs(region) * sum(map(_nanoseconds, region.jaxpr.eqns))
    return total


def _least_runs(region: Region) -> int:
    """How often a region runs; 1 if that is not known before it has run."""
    return 1 if region.times is None else region.times


def may_not_terminate(eqn: JaxprEqn) -> bool:
    """Whether it has a loop whose length depends on values."""
    return any(region.times is None or any(map(may_not_terminate, region.jaxpr.eqns)) for region in regions_of(eqn))


def _read_in_memory(eqn: JaxprEqn) -> list[Atom]:
    """The operands that an equation, which is not fused, needs in memory.

    Those of a matrix product are copied where their batch axes are not the first ones.
    """
    if eqn.primitive is not dot_general_p:
        return list(eqn.invars)
    _, batch = eqn.params["dimension_numbers"]
    return [v for v, axes in zip(eqn.invars, batch) if tuple(axes) == tuple(range(len(axes)))]


class _RepeatedSegments(NamedTuple):
    """Equations from `start` to `end` that repeat every `period` of them; the last segment may be shorter."""

    start: int
    end: int
    period: int

    def ranges(self) -> list[range]:
        return [range(at, min(at + self.period, self.end)) for at in range(self.start, self.end, self.period)]


def _find_repeated(jaxpr: Jaxpr) -> list[_RepeatedSegments]:
    """The repeated segments that have enough work each, which are what a program is split into."""
    work = np.cumsum([0, *map(_nanoseconds, jaxpr.eqns)])
    alive = _bytes_alive(jaxpr)
    repeated: list[_RepeatedSegments] = []
    for start, end, period in repetitions(EquationNumbers().of(jaxpr.eqns), thresholds.repeats):
        if any(each.start < end and start < each.end for each in repeated):
            continue

        def is_whole(period: int, start: int = start, end: int = end) -> bool:
            """Whether the last period is complete, or has hardly less work than the others."""
            remainder = (end - start) % period
            missing = jaxpr.eqns[start + remainder : start + period] if remainder else []
            if any(map(may_not_terminate, missing)):  # it might loop for ever on the values of another layer
                return False
            return sum(map(_nanoseconds, missing)) <= thresholds.unused_share * work[-1]

        repeats = -(-(end - start) // period) if is_whole(period) else (end - start) // period
        per_segment = periods_per_segment(repeats, (work[end] - work[start]) * period / (end - start))
        if per_segment is None:
            continue
        period *= per_segment
        if not is_whole(period):
            times, remainder = divmod(end - start, period)
            start = min(
                range(start, start + remainder + 1), key=lambda at: alive[at : at + times * period : period].sum()
            )
            end = start + times * period
        repeated.append(_RepeatedSegments(start, end, period))
    counts = np.cumsum([0, *map(_count, jaxpr.eqns)])
    saved = sum(counts[each.end] - counts[each.start + each.period] for each in repeated)
    return sorted(repeated) if thresholds.shorter * (counts[-1] - saved) <= counts[-1] else []


def periods_per_segment(repeats: int, nanoseconds: float) -> int | None:
    """How many periods are a segment; None where segments would be too short, or too few.

    Few long segments lose less time between them, and a remainder of periods is compiled, too.
    """
    most = min(repeats // thresholds.repeats, thresholds.periods)
    fewest = math.ceil(thresholds.work / nanoseconds) if nanoseconds else repeats
    choices = range(max(fewest, math.ceil(most / 2), 1), most + 1)
    return min(choices, key=lambda number: (repeats % number, -number), default=None)


def _bytes_alive(jaxpr: Jaxpr) -> np.ndarray:
    """The bytes of values that are read later, before each equation and at the end."""
    end = len(jaxpr.eqns)
    last = {v: index for index, eqn in enumerate(jaxpr.eqns) for v in eqn.invars} | dict.fromkeys(jaxpr.outvars, end)
    changes = np.zeros(end + 2, np.int64)
    for index, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outvars:
            changes[index + 1] += nbytes(v)
            changes[last.get(v, index) + 1] -= nbytes(v)
    return np.cumsum(changes)[: end + 1]


class _Body(NamedTuple):
    """The body of a segment: its equations, and by its variables for those the atoms of the program that it reads."""

    indices: range
    operands: dict[Any, Atom]
    eqns: list[JaxprEqn]


class _Segmentation:
    """A program that is being split into segments, which are ranges of its equations.

    Attributes:
      producers: of a variable, the index of its equation.
      groups: lists of segments; those of one list repeat.
      recomputed: the variables that a segment recomputes rather than reads from another.
      varying: the literals that differ between repeated segments, and so are operands.
    """

    def __init__(self, jaxpr: Jaxpr, repeated: Sequence[_RepeatedSegments]):
        self.jaxpr, self.eqns = jaxpr, jaxpr.eqns
        self.producers: dict[Any, int] = {v: index for index, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
        ends = [0, *(at for each in repeated for at in (each.start, each.end)), len(jaxpr.eqns)]
        between = [[range(start, end)] if start < end else [] for start, end in list(pairwise(ends))[::2]]
        self.groups = [between[0]]
        for each, following in zip(repeated, between[1:]):
            self.groups += [each.ranges(), following]
        self.recomputed, self.varying = self.recomputed_values(), self.varying_literals()

    def recomputed_values(self) -> set[Var]:
        """Values that few cheap equations compute, and that no equation needs in memory.

        They are values that their own segment reads as well. Repeated segments have the same ones, at the same offsets;
        values that are computed from those of the segment before, and so on from the first, are not recomputed.
        """
        in_memory = {v for eqn in self.eqns if not is_fused(eqn) for v in _read_in_memory(eqn)}
        in_memory.update(self.jaxpr.outvars, fusion_barriers(self.jaxpr))
        first_reader: dict[Any, int] = {}
        for index, eqn in enumerate(self.eqns):
            for v in eqn.invars:
                first_reader.setdefault(v, index)
        lengths: dict[Any, int] = {}  # of such values: how many equations recompute them
        for segments in self.groups:
            counts: Counter[int] = Counter()  # by offset, the number of segments whose equation there is recomputed
            for segment, index in [(each, index) for each in segments for index in each]:
                eqn = self.eqns[index]
                recomputed = [v for v in eqn.invars if v in lengths]
                length = 1 + sum(lengths[v] for v in recomputed)
                is_chain = any(segments[0].start <= self.producers[v] < segment.start for v in recomputed)
                if is_chain or length > _MOST_RECOMPUTED or eqn.primitive.fusion not in _RECOMPUTABLE:
                    continue
                (v,) = eqn.outvars
                if v not in in_memory and first_reader.get(v, segment.stop) < segment.stop:
                    lengths[v] = length
                    counts[index - segment.start] += 1
            for offset, count in counts.items():
                same = [segment[offset] for segment in segments if offset < len(segment)]
                if count < len(same):
                    for index in same:
                        lengths.pop(self.eqns[index].outvars[0], None)
        return set(lengths)

    def segments(self) -> list[Segment]:
        """The segments as programs, in order."""
        bodies = [list(map(self.body, segments)) for segments in self.groups]
        read = {v for each in bodies for body in each for v in body.operands.values()} | set(self.jaxpr.outvars)
        programs: dict[Any, Jaxpr] = {}
        segments: list[Segment] = []
        for each in bodies:
            live_outs = {
                (index - body.indices.start, result)
                for body in each
                for index in body.indices
                for result, v in enumerate(self.eqns[index].outvars)
                if v in read
            }
            order = sorted(live_outs)
            for body, before in zip(each, [None, *each]):
                present = [(offset, number) for offset, number in order if offset < len(body.indices)]
                operands, results = list(body.operands.values()), self.results(body, present)
                if before and len(body.indices) < len(before.indices) and self.begins(body, before, present):
                    # The equations that it lacks have the operands of the segment before, and unused results.
                    operands += list(before.operands.values())[len(operands) :]
                    results += [Var(v.aval) for v in self.results(before, order[len(present) :])]
                    jaxpr = segments[-1].jaxpr
                else:
                    program = live_jaxpr(Jaxpr([], list(body.operands), results, body.eqns))
                    jaxpr = programs.setdefault(structure(program), program)
                segments.append(Segment(jaxpr, operands, results))
        return segments

    def begins(self, body: _Body, before: _Body, order: Sequence[tuple[int, int]]) -> bool:
        """Whether a segment with the results `order` equals the beginning of the segment before it."""
        whole, beginning = (
            Jaxpr([], list(each.operands)[: len(body.operands)], self.results(each, order), each.eqns[: len(body.eqns)])
            for each in (body, before)
        )
        return structure(whole) == structure(beginning)

    def results(self, body: _Body, order: Sequence[tuple[int, int]]) -> list[Var]:
        """The results of equations of a segment, by the offset of the equation and the number of the result."""
        return [self.eqns[body.indices[offset]].outvars[number] for offset, number in order]

    def varying_literals(self) -> set[tuple[int, int]]:
        """The literals in which repeated segments differ, by index of the equation and number of the operand."""
        varying: set[tuple[int, int]] = set()
        for segments in self.groups:
            for offset in range(len(segments[0]) if segments else 0):
                same = [segment[offset] for segment in segments if offset < len(segment)]
                for operand, atoms in enumerate(zip(*[self.eqns[index].invars for index in same])):
                    if any(type(v) is Literal for v in atoms) and len(set(map(operand_key, atoms))) > 1:
                        varying.update((index, operand) for index in same)
        return varying

    def body(self, indices: range) -> _Body:
        """The equations of a segment, after those that it recomputes."""
        body = _Body(indices, {}, [])
        outside: dict[Any, Atom] = {}  # by variables of other segments

        def read(v: Atom) -> Atom:
            if type(v) is Literal or self.producers.get(v, -1) in indices:
                return v
            if v not in outside and v in self.recomputed:
                index = self.producers[v]
                outside[v] = recomputed = Var(v.aval)
                body.eqns.append(self.eqns[index].replace(invars=operands_of(index), outvars=[recomputed]))
            elif v not in outside:
                outside[v] = body.operands[v] = v
            return outside[v]

        def operands_of(index: int) -> list[Atom]:
            operands: list[Atom] = []
            for operand, v in enumerate(self.eqns[index].invars):
                if type(v) is Literal and (index, operand) in self.varying:
                    number = Var(v.aval)
                    body.operands[number] = v
                    operands.append(number)
                else:
                    operands.append(read(v))
            return operands

        for index in indices:
            eqn, operands = self.eqns[index], operands_of(index)
            body.eqns.append(eqn if operands == eqn.invars else eqn.replace(invars=operands))
        return body

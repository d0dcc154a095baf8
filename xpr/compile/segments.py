"""pieces : jaxpr -> [Step]. A program cut where it repeats itself, so that what repeats is compiled once.

XLA compiles the 48th layer of a network as if it had not seen the 47 before, which are the same equations on other
variables. Cut between layers a program is a list of steps, and steps that are alike share a program: the gradient of 48
layers is a handful of programs of a few layers each, which run many times.

    order           first equations move so that each layer's are together (order.py)
    where to cut    into the periods of a stretch that repeats (repeats.py), where least memory is alive
    what to pass    what is in memory anyway, or dear; the rest is computed again, as XLA does when it fuses
    the last one    often the first layer's gradient, lacks some of what the others do; it does that, too, for nothing

To start a step takes some 50 microseconds, so steps are of several layers where one is short. Each array that a step
hands on takes some 8 (networks were measured whole and in steps): it has a place of its own in memory, allocated and
freed in each call. So programs whose layers hand on much for what they work stay whole, as those of narrow networks do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from xpr.compile.fusion import is_fused, kept_apart
from xpr.compile.order import nbytes, ordered
from xpr.compile.repeats import stretches
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.regions import Region, regions_of
from xpr.passes.dce import has_effect, live_jaxpr
from xpr.passes.inline import inline_jaxpr
from xpr.passes.structure import Numbers, operand_key, structure
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise import copy_p
from xpr.primitives.flops import operations
from xpr.primitives.windows.convolution import conv_general_dilated_p

_LEAST = 4  # steps that are alike
_LONG = 600  # equations: no program is shorter that is cut
_SHORTER = 3  # times as many equations as are compiled, at least
_STEP = 1_000_000  # nanoseconds of work in each of them, at least
_HANDED_ON = 8_000  # nanoseconds for each array that a later step reads
_SHARE = 1 / 6  # of the work of the whole program: what handing on may take
_NOT_READ = 1 / 32  # of the work of the whole program: what may be done for nothing, so as to compile less
_PER_NANOSECOND = 4  # operations
_PRODUCTS_PER_NANOSECOND = 200  # those of matrix products and convolutions
_PRODUCTS = (dot_general_p, conv_general_dilated_p)
_AGAIN = 16  # equations that are computed again for one value, at most
_QUICK = ("view", "cheap", "vectorized")  # fusion classes that are no slower computed again than read from memory


class Step(NamedTuple):
    """A part of a program.

    Attributes:
      jaxpr: what it does; the same object in steps that are alike.
      operands: what of the whole program its arguments are. A literal is a number in which it differs from others.
      results: what of the whole program its results are.
    """

    jaxpr: Jaxpr
    operands: list[Atom]
    results: list[Var]


def cut(jaxpr: Jaxpr) -> tuple[list[Step], list[Atom]] | None:
    """The steps of a program that repeats itself, and the variables that are its results; None for others."""
    if any(map(has_effect, jaxpr.eqns)):
        return None
    flat = inline_jaxpr(jaxpr)
    work = sum(map(_nanoseconds, flat.eqns))
    if sum(map(_count, flat.eqns)) < _LONG or work < _LEAST * _STEP:
        return None
    flat = ordered(live_jaxpr(_with_own_results(flat)))
    places = _repeated(flat)
    if not places:
        return None
    steps = _urgent_first(_Cutting(flat, places).steps())
    return (steps, flat.outvars) if _handed_on(steps) * _HANDED_ON <= _SHARE * work else None


def _urgent_first(steps: Sequence[Step]) -> list[Step]:
    """The same, with the operands and results of each in another order: XLA starts what it can in the order of those.

    What is computed last, for which the next step mostly waits, must not stand behind what only the caller reads. So
    the last result comes first, and the operands from which it is farthest; networks run 5 to 20 % faster for it.
    """
    orders: dict[Jaxpr, list[int]] = {}
    programs: dict[Jaxpr, Jaxpr] = {}
    for jaxpr in {step.jaxpr: None for step in steps}:
        far: dict[Any, int] = dict.fromkeys(jaxpr.outvars[-1:], 0)
        for eqn in reversed(jaxpr.eqns):
            at = max((far[v] for v in eqn.outvars if v in far), default=None)
            if at is not None:
                far.update({v: max(far.get(v, 0), at + 1) for v in eqn.invars if type(v) is Var})
        order = sorted(range(len(jaxpr.invars)), key=lambda i: -far.get(jaxpr.invars[i], -1))
        orders[jaxpr] = order
        programs[jaxpr] = jaxpr.replace(invars=[jaxpr.invars[i] for i in order], outvars=jaxpr.outvars[::-1])
    return [
        Step(programs[jaxpr], [operands[i] for i in orders[jaxpr]], results[::-1]) for jaxpr, operands, results in steps
    ]


def _handed_on(steps: Sequence[Step]) -> int:
    """How many arrays of a step another one reads."""
    read = {v for step in steps for v in step.operands if type(v) is Var}
    return sum(v in read for step in steps for v in step.results)


def _with_own_results(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr whose results are variables of equations, no two the same: arrays must not share their memory."""
    bound = {v for eqn in jaxpr.eqns for v in eqn.outvars}
    outvars: list[Atom] = []
    copies = []
    for v in jaxpr.outvars:
        if v in bound:
            bound.discard(v)
            outvars.append(v)
        else:
            own = Var(v.aval)
            outvars.append(own)
            copies.append(JaxprEqn([v], [own], copy_p, {}, jaxpr.eqns[-1].source))
    return jaxpr.replace(outvars=outvars, eqns=[*jaxpr.eqns, *copies]) if copies else jaxpr


def _count(eqn: JaxprEqn) -> int:
    """How many equations it is, with those that it holds."""
    if not eqn.primitive.call:
        return 1
    return 1 + sum(_count(each) for jaxpr in subjaxprs(eqn) for each in jaxpr.eqns)


def _nanoseconds(eqn: JaxprEqn) -> int:
    """About how long an equation takes."""
    inside = sum(_times(region) * _nanoseconds(each) for region in regions_of(eqn) for each in region.jaxpr.eqns)
    speed = _PRODUCTS_PER_NANOSECOND if eqn.primitive in _PRODUCTS else _PER_NANOSECOND
    return inside + operations(eqn) // speed


def _times(region: Region) -> int:
    """How often a region runs, at least."""
    return 1 if region.times is None else region.times


def _may_go_on(eqn: JaxprEqn) -> bool:
    """Whether it holds a loop that ends when its values say so."""
    return any(region.times is None or any(map(_may_go_on, region.jaxpr.eqns)) for region in regions_of(eqn))


def _read_as_it_lies(eqn: JaxprEqn) -> list[Atom]:
    """The operands that an equation, which is not fused, needs in memory.

    Those of a matrix product are copied where their batch axes are not the first ones.
    """
    if eqn.primitive is not dot_general_p:
        return list(eqn.invars)
    _, batch = eqn.params["dimension_numbers"]
    return [v for v, axes in zip(eqn.invars, batch) if tuple(axes) == tuple(range(len(axes)))]


class _Periods(NamedTuple):
    """Equations from `start` to `end` that repeat every `period` of them; the last may be the beginning of one."""

    start: int
    end: int
    period: int

    def pieces(self) -> list[range]:
        return [range(at, min(at + self.period, self.end)) for at in range(self.start, self.end, self.period)]


def _repeated(jaxpr: Jaxpr) -> list[_Periods]:
    """Where to cut: into periods that work long enough."""
    work = np.cumsum([0, *map(_nanoseconds, jaxpr.eqns)])
    alive = _bytes_alive(jaxpr)
    found: list[_Periods] = []
    for start, end, period in stretches(Numbers().of(jaxpr.eqns), _LEAST):
        if any(each.start < end and start < each.end for each in found):
            continue

        def is_whole(period: int, start: int = start, end: int = end) -> bool:
            """Whether the last period is, or has hardly less work than the others."""
            rest = (end - start) % period
            missing = jaxpr.eqns[start + rest : start + period] if rest else []
            ends = not any(map(_may_go_on, missing))  # what is made of other layers' values might go on for ever
            return ends and sum(map(_nanoseconds, missing)) <= _NOT_READ * work[-1]

        repeats = -(-(end - start) // period) if is_whole(period) else (end - start) // period
        together = _in_a_step(repeats, (work[end] - work[start]) * period / (end - start))
        if together is None:
            continue
        period *= together
        if not is_whole(period):
            times, rest = divmod(end - start, period)
            start = min(range(start, start + rest + 1), key=lambda at: alive[at : at + times * period : period].sum())
            end = start + times * period
        found.append(_Periods(start, end, period))
    counts = np.cumsum([0, *map(_count, jaxpr.eqns)])
    saved = sum(counts[each.end] - counts[each.start + each.period] for each in found)
    return sorted(found) if _SHORTER * (counts[-1] - saved) <= counts[-1] else []


def _in_a_step(repeats: int, nanoseconds: float) -> int | None:
    """How many periods are a step; None where steps would be too short, or too few.

    Few long steps lose less time between them, and periods that are left over are compiled, too.
    """
    most = repeats // _LEAST
    fewest = math.ceil(_STEP / nanoseconds) if nanoseconds else repeats
    choices = range(max(fewest, math.ceil(most / 2), 1), most + 1)
    return min(choices, key=lambda number: (repeats % number, -number), default=None)


def _bytes_alive(jaxpr: Jaxpr) -> np.ndarray:
    """The bytes that equations have made and later ones, or the caller, read: before each equation, and at the end."""
    end = len(jaxpr.eqns)
    last = {v: index for index, eqn in enumerate(jaxpr.eqns) for v in eqn.invars} | dict.fromkeys(jaxpr.outvars, end)
    changes = np.zeros(end + 2, np.int64)
    for index, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outvars:
            changes[index + 1] += nbytes(v)
            changes[last.get(v, index) + 1] -= nbytes(v)
    return np.cumsum(changes)[: end + 1]


class _Body(NamedTuple):
    """A piece with what it reads: for each of its own variables for that, what of the whole program it is."""

    piece: range
    operands: dict[Any, Atom]
    eqns: list[JaxprEqn]


class _Cutting:
    """A program being cut.

    Attributes:
      producers: of a variable, the place of its equation.
      again: the variables that a piece computes again rather than read them from another.
      different: the numbers that a piece is given, rather than that they are written into its program.
    """

    def __init__(self, jaxpr: Jaxpr, places: Sequence[_Periods]):
        self.jaxpr, self.eqns = jaxpr, jaxpr.eqns
        self.producers: dict[Any, int] = {v: index for index, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
        ends = [0, *(at for each in places for at in (each.start, each.end)), len(jaxpr.eqns)]
        between = [[range(start, end)] if start < end else [] for start, end in list(pairwise(ends))[::2]]
        self.alike = [between[0]]  # lists of pieces
        for each, rest in zip(places, between[1:]):
            self.alike += [each.pieces(), rest]
        self.again, self.different = self.computed_again(), self.different_numbers()

    def computed_again(self) -> set[Var]:
        """What takes few cheap equations, and nothing where it is computed needs in memory, or it alone.

        The same in pieces that are alike: what each of them makes of the one before is not made again from the start.
        """
        in_memory = {v for eqn in self.eqns if not is_fused(eqn) for v in _read_as_it_lies(eqn)}
        in_memory.update(self.jaxpr.outvars, kept_apart(self.jaxpr))
        first: dict[Any, int] = {}
        for index, eqn in enumerate(self.eqns):
            for v in eqn.invars:
                first.setdefault(v, index)
        lengths: dict[Any, int] = {}
        for pieces in self.alike:
            times: Counter[int] = Counter()  # in how many pieces a place has such an equation
            for piece, index in [(each, index) for each in pieces for index in each]:
                eqn = self.eqns[index]
                again = [v for v in eqn.invars if v in lengths]
                length = 1 + sum(lengths[v] for v in again)
                is_chain = any(pieces[0].start <= self.producers[v] < piece.start for v in again)
                if is_chain or length > _AGAIN or eqn.primitive.fusion not in _QUICK:
                    continue
                (v,) = eqn.outvars
                if v not in in_memory and first.get(v, piece.stop) < piece.stop:
                    lengths[v] = length
                    times[index - piece.start] += 1
            for place, number in times.items():
                alike = [piece[place] for piece in pieces if place < len(piece)]
                if number < len(alike):
                    for index in alike:
                        lengths.pop(self.eqns[index].outvars[0], None)
        return set(lengths)

    def steps(self) -> list[Step]:
        """The pieces as programs of their own, in order."""
        bodies = [list(map(self.body, pieces)) for pieces in self.alike]
        read = {v for each in bodies for body in each for v in body.operands.values()} | set(self.jaxpr.outvars)
        programs: dict[Any, Jaxpr] = {}
        found: list[Step] = []
        for each in bodies:
            wanted = {
                (index - body.piece.start, result)
                for body in each
                for index in body.piece
                for result, v in enumerate(self.eqns[index].outvars)
                if v in read
            }
            order = sorted(wanted)
            for body, before in zip(each, [None, *each]):
                own = [(place, number) for place, number in order if place < len(body.piece)]
                operands, results = list(body.operands.values()), self.results(body, own)
                if before and len(body.piece) < len(before.piece) and self.begins(body, before, own):
                    # What goes beyond the piece is done with what the step before did it with, and is not read.
                    operands += list(before.operands.values())[len(operands) :]
                    results += [Var(v.aval) for v in self.results(before, order[len(own) :])]
                    jaxpr = found[-1].jaxpr
                else:
                    program = live_jaxpr(Jaxpr([], list(body.operands), results, body.eqns))
                    jaxpr = programs.setdefault(structure(program), program)
                found.append(Step(jaxpr, operands, results))
        return found

    def begins(self, body: _Body, before: _Body, order: Sequence[tuple[int, int]]) -> bool:
        """Whether a piece, of which `order` has the results, is the beginning of one like the piece before."""
        own, beginning = (
            Jaxpr([], list(each.operands)[: len(body.operands)], self.results(each, order), each.eqns[: len(body.eqns)])
            for each in (body, before)
        )
        return structure(own) == structure(beginning)

    def results(self, body: _Body, order: Sequence[tuple[int, int]]) -> list[Var]:
        """The variables at places of a piece: results of its equations, by place and number."""
        return [self.eqns[body.piece[place]].outvars[number] for place, number in order]

    def different_numbers(self) -> set[tuple[int, int]]:
        """The operands that are literals in which pieces differ, as places of equations and their numbers there."""
        found: set[tuple[int, int]] = set()
        for pieces in self.alike:
            for place in range(len(pieces[0]) if pieces else 0):
                alike = [piece[place] for piece in pieces if place < len(piece)]
                for operand, atoms in enumerate(zip(*[self.eqns[index].invars for index in alike])):
                    if any(type(v) is Literal for v in atoms) and len(set(map(operand_key, atoms))) > 1:
                        found.update((index, operand) for index in alike)
        return found

    def body(self, piece: range) -> _Body:
        """The equations of a piece, after those that it computes again."""
        body = _Body(piece, {}, [])
        own: dict[Any, Atom] = {}  # what stands for variables of other pieces

        def read(v: Atom) -> Atom:
            if type(v) is Literal or self.producers.get(v, -1) in piece:
                return v
            if v not in own and v in self.again:
                index = self.producers[v]
                own[v] = again = Var(v.aval)
                body.eqns.append(self.eqns[index].replace(invars=operands_of(index), outvars=[again]))
            elif v not in own:
                own[v] = body.operands[v] = v
            return own[v]

        def operands_of(index: int) -> list[Atom]:
            operands: list[Atom] = []
            for operand, v in enumerate(self.eqns[index].invars):
                if type(v) is Literal and (index, operand) in self.different:
                    number = Var(v.aval)
                    body.operands[number] = v
                    operands.append(number)
                else:
                    operands.append(read(v))
            return operands

        for index in piece:
            eqn, operands = self.eqns[index], operands_of(index)
            body.eqns.append(eqn if operands == eqn.invars else eqn.replace(invars=operands))
        return body

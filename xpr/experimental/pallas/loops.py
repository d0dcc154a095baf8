"""The loops of a kernel over its grid.

    for i in the first axes of the grid:              outer_step
        read the blocks of the results
        for j in the others:                          inner_step
            read the blocks of the arguments
            run the kernel's program on them
        write the blocks of the results

The first axes are those up to the last one on which a block of a result depends. So a block that is visited by several
programs in turn is read and written once. Each loop carries what the kernel writes: arguments, results (whole, or the
block) and scratch, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from xpr.control.groups import Groups, mask, split_list
from xpr.control.while_.fori_loop import fori_loop
from xpr.control.xla_call import call
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars, eval_jaxpr, used_vars
from xpr.core.refs import AbstractRef
from xpr.experimental.pallas.blocks import Blocks, Position, unwritten_of
from xpr.passes.dce import dce_jaxpr
from xpr.passes.discharge import discharge, uses_of_refs
from xpr.primitives.elementwise import convert_element_type, div, mul, rem

Positions = dict[Any, Position]  # of blocks, by their keys


class Loops:
    """The loops over a grid.

    Args:
      sizes: the sizes of the grid, integers or traced.
      leading: what kernels and index maps take after the indices: traced sizes, and values of refs of scalars.
      ins: the blocks of the arguments.
      outs: the blocks of the results.
      maps: the index maps, by the keys of blocks; None where there is none.
      name: the name of the kernel's program.
    """

    def __init__(
        self,
        sizes: Sequence[Any],
        leading: Sequence[Any],
        ins: Sequence[Blocks],
        outs: Sequence[Blocks],
        maps: dict[Any, ClosedJaxpr | None],
        name: str,
    ):
        self.sizes, self.leading, self.ins, self.outs, self.maps = sizes, leading, ins, outs, maps
        self.name = name

    def run(self, kernel: ClosedJaxpr, arrays: Sequence[Any], is_fresh: Sequence[bool]) -> list[Any]:
        """The results, padded.

        Args:
          kernel: the jaxpr on refs.
          arrays: the arguments, results and scratch at the start.
          is_fresh: the results to which nothing was written.
        """
        self.arrays = arrays
        n_ins, n_outs = len(self.ins), len(self.outs)
        self.groups = Groups(ins=n_ins, outs=n_outs, scratch=len(arrays) - n_ins - n_outs)
        self.program, self.read, self.written = on_values(kernel, len(self.sizes) + len(self.leading))
        self.carried = self.groups.masked(self.written)
        self.out_written = self.groups.part("outs", self.written)
        self.results = mask(self.outs, self.out_written)
        self.read_first = mask(self.groups.part("outs", self.read), self.out_written)
        n_outer = max([self._used_indices(each) for each in self.results], default=0)
        outer_sizes, self.inner_sizes = split_list(self.sizes, n_outer)
        is_static = all(isinstance(size, int) for size in self.inner_sizes)
        self.n_inner = math.prod(self.inner_sizes) if is_static else None
        self.once = [
            fresh and each.are_visited_once(self.maps[each.key], outer_sizes)
            for each, fresh in zip(self.results, mask(is_fresh, self.out_written))
        ]
        last = iter(_looped(outer_sizes, self.outer_step, mask(arrays, self.written)))
        finished = [next(last) if flag else x for flag, x in zip(self.written, arrays)]
        return self.groups.part("outs", finished)

    def _used_indices(self, blocks: Blocks) -> int:
        """The number of the last index that an index map reads, from 1 on; 0 where it reads none."""
        index_map = self.maps[blocks.key]
        if index_map is None:
            return 0
        _, used = dce_jaxpr(index_map.jaxpr, [True] * len(index_map.jaxpr.outvars))
        return max([i + 1 for i, flag in enumerate(used) if flag and i < len(self.sizes)], default=0)

    def position(self, blocks: Blocks, indices: Sequence[Any]) -> Position:
        """Where the block of a program is."""
        return blocks.position(_mapped(self.maps[blocks.key], [*indices, *self.leading]))

    def outer_step(self, outer: Sequence[Any], carry: list[Any]) -> list[Any]:
        """The programs with these first indices."""
        first = [*outer, *[np.int32(0)] * len(self.inner_sizes)]
        positions = {each.key: self.position(each, first) for each in self.results}
        at = [positions[each.key] for each in self.results]
        ins, outs, scratch = self.carried.split(carry)
        parts = list(map(self.first_value, self.results, outs, at, self.read_first))
        step = partial(self.inner_step, outer, positions if self.n_inner == 1 else {})
        last = _looped(self.inner_sizes, step, [*ins, *parts, *scratch])
        ins, parts, scratch = self.carried.split(last)
        written = zip(self.results, outs, at, parts, self.once)
        outs = [blocks.write(out, position, part, once) for blocks, out, position, part, once in written]
        return [*ins, *outs, *scratch]

    def first_value(self, blocks: Blocks, x: Any, where: Position, is_read: bool) -> Any:
        """What the ref of a result holds before the first program; None where nothing needs it."""
        if is_read or not self.n_inner:
            return blocks.read(x, where)
        return None if self.n_inner == 1 else unwritten_of(blocks.ref_aval)

    def inner_step(
        self, outer: Sequence[Any], known: Positions, inner: Sequence[Any], carry: Sequence[Any]
    ) -> list[Any]:
        """One program; `known` has positions of its blocks."""
        indices = [*outer, *inner]
        values = iter(carry)
        now = [next(values) if flag else x for flag, x in zip(self.written, self.arrays)]
        positions = {each.key: self.position(each, indices) for each in self.ins if each.key not in known} | known
        at = [positions[each.key] for each in self.ins]
        operands = [each.read(x, where) for each, x, where in mask(zip(self.ins, now, at), self.read)]
        _, outs, scratch = self.groups.split(now)
        _, outs_read, scratch_read = self.groups.split(self.read)
        for each, x, is_written in mask(zip(self.outs, outs, self.out_written), outs_read):
            operands.append(x if is_written else each.read(x, self.position(each, indices)))
        operands += mask(scratch, scratch_read)
        last = iter(call(self.program, [*indices, *self.leading, *operands], self.name))
        return [
            each.write(x, where, next(last), False) if each else next(last)
            for x, each, where in mask(zip_longest(now, self.ins, at), self.written)
        ]


def _looped(sizes: Sequence[Any], step: Callable[..., list[Any]], carry: list[Any]) -> list[Any]:
    """The carry after a step for each index of some axes of the grid."""
    is_static = all(isinstance(size, int) for size in sizes)
    if is_static and math.prod(sizes) == 1:
        return step([np.int32(0)] * len(sizes), carry)
    total: Any = 1
    for size in sizes:
        total = total * size if is_static else mul(total, size)
    return fori_loop(0, total, lambda i, carry: step(_indices(sizes, i), carry), carry)


def _indices(sizes: Sequence[Any], i: Any) -> list[Any]:
    """The index along each axis, from the number of the step."""
    quotient = convert_element_type(i, np.int32)
    indices: list[Any] = []
    for size in sizes[:0:-1]:
        if isinstance(size, int) and size == 1:
            indices.append(np.int32(0))
            continue
        divisor = np.int32(size) if isinstance(size, int) else size
        indices.append(rem(quotient, divisor))
        quotient = div(quotient, divisor)
    return [quotient, *reversed(indices)]


def on_values(closed: ClosedJaxpr, n_leading: int) -> tuple[ClosedJaxpr, Sequence[bool], Sequence[bool]]:
    """A kernel's jaxpr as one on the values of its refs, with the last values of those that it writes as results.

    Also returns which of the refs of blocks and scratch it reads, whose values it takes, and which it writes. Refs that
    it closes over stay refs. Of the leading arguments, indices and scalars, it takes all, and returns no last values.
    """
    jaxpr, n = constvars_to_invars(closed), len(closed.consts)
    is_ref = [i >= n and type(aval) is AbstractRef for i, aval in enumerate(jaxpr.in_avals)]
    written = [i >= n + n_leading and flag for i, flag in enumerate(uses_of_refs(jaxpr).written)]
    whole = discharge(jaxpr, is_ref, written, [False] * len(is_ref))
    constvars, leading, invars = split_list(whole.invars, n, n_leading)
    used = used_vars(whole)
    read = [v in used for v in invars]
    program = whole.replace(constvars=constvars, invars=[*leading, *mask(invars, read)])
    return ClosedJaxpr(program, closed.consts), read, split_list(written, n + n_leading)[1]


def _mapped(closed: ClosedJaxpr | None, operands: Sequence[Any]) -> list[Any]:
    """The results of an index map, from the values of the refs that it takes."""
    if closed is None:
        return []
    jaxpr = constvars_to_invars(closed)
    is_ref = tuple([type(aval) is AbstractRef for aval in jaxpr.in_avals])
    none = (False,) * len(is_ref)
    return eval_jaxpr(discharge(jaxpr, is_ref, none, none), (), *closed.consts, *operands)

"""The refs that a jitted function takes or closes over: their values go into its compiled program, and come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.groups import mask, partition, split_list
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars
from xpr.core.refs import AbstractRef, Ref
from xpr.numpy.creation import copied
from xpr.passes.discharge import discharge, uses_of_refs
from xpr.transforms.refs import read, write


class RefState:
    """The refs of a traced function, whose values are further arguments and results of its compiled program.

    Attributes:
      program: the jaxpr on values; those of refs that the function closes over are its last arguments.
      closed_over: these refs.
      donated: the arguments of the program that are values of refs that it writes, whose memory it may use.
      written: the same, in the order of the results with their last values.
    """

    __slots__ = ("_n_results", "closed_over", "donated", "program", "written")

    def __init__(self, closed: ClosedJaxpr):
        jaxpr, n = constvars_to_invars(closed), len(closed.consts)
        written = uses_of_refs(jaxpr).written
        is_ref = tuple([type(aval) is AbstractRef for aval in jaxpr.in_avals])
        whole = discharge(jaxpr, is_ref, written, (False,) * len(is_ref))
        of_consts, _ = split_list(is_ref, n)
        variables, arguments = split_list(whole.invars, n)
        closed_over, constvars = partition(variables, of_consts)
        self.closed_over, consts = partition(closed.consts, of_consts)
        self.program = ClosedJaxpr(whole.replace(constvars=constvars, invars=[*arguments, *closed_over]), consts)
        self._n_results = len(jaxpr.outvars)
        written_consts, written_arguments = split_list(written, n)
        flags = [*written_arguments, *mask(written_consts, of_consts)]
        self.donated = tuple([i for i, flag in enumerate(flags) if flag])
        count = sum(written_arguments)  # the program gives the values of constants first
        self.written = [*self.donated[count:], *self.donated[:count]]

    def inputs(self, leaves: Sequence[Any], donated: Sequence[int]) -> list[Any]:
        """The arguments of the program: those of the function, with the values of refs; copies where they are donated
        and others may hold the value, too.
        """
        every = [*leaves, *self.closed_over]
        for i in self.donated:
            ref = every[i]
            if i in donated and ref.shared:
                write(ref, copied(read(ref)))
                ref.shared = False
        return [read_alone(x) if type(x) is Ref else x for x in every]

    def store(self, leaves: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """Writes the refs; returns the results of the function from those of the program."""
        results, last = split_list(outs, self._n_results)
        every = [*leaves, *self.closed_over]
        for i, value in zip(self.written, last):
            write(every[i], value)
            every[i].shared = False
        return results


def read_alone(ref: Ref) -> Any:
    """The value of a ref, for a program, which doesn't hold it afterwards."""
    shared = ref.shared
    value = read(ref)
    ref.shared = shared
    return value

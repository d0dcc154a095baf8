"""The values of users' types that a jitted function takes, returns or closes over: arrays in its compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from xpr.api.ref_state import RefState
from xpr.control.groups import partition, split_list
from xpr.core.hi_types import AvalQDD
from xpr.core.jaxpr import ClosedJaxpr, constvars_to_invars
from xpr.transforms.on_arrays import arrays_in, lowered, on_arrays


class UserValues:
    """The values of a traced function, of which the arrays are arguments and results of its compiled program.

    Attributes:
      program: the jaxpr on arrays; those of mutable values that the function closes over are its last arguments.
      closed_over: these values.
      refs: the refs of the function, whose values are among the arguments and results.
      donated, written: as of `RefState`: none, as a program does not take the memory of such values.
    """

    __slots__ = ("_consts", "_on_arrays", "_state_avals", "closed_over", "program", "refs")

    donated: tuple[int, ...] = ()
    written: tuple[int, ...] = ()

    def __init__(self, closed: ClosedJaxpr, refs: RefState | None):
        self.refs, self._consts = refs, closed.consts
        whole = self._on_arrays = on_arrays(constvars_to_invars(closed))
        of_consts, _ = split_list(whole.in_avals, len(closed.consts))
        is_mutable = [type(aval) is AvalQDD for aval in of_consts]
        self.closed_over, constants = partition(closed.consts, is_mutable)
        self._state_avals, constant_avals = partition(of_consts, is_mutable)
        jaxpr = whole.jaxpr.jaxpr
        variables = iter(jaxpr.invars)
        each = [[next(variables) for _ in arrays_in([aval])] for aval in whole.in_avals]
        of_each_const, arguments = split_list(each, len(closed.consts))
        states, constvars = partition(of_each_const, is_mutable)
        self.program = ClosedJaxpr(
            jaxpr.replace(constvars=[*jaxpr.constvars, *chain(*constvars)], invars=[*chain(*arguments, *states)]),
            [*whole.jaxpr.consts, *lowered(constant_avals, constants)],
        )

    @property
    def in_avals(self) -> list[Any]:
        """The types of the arguments of the function."""
        return self._on_arrays.in_avals[len(self._consts) :]

    def inputs(self, leaves: Sequence[Any], donated: Sequence[int]) -> list[Any]:
        """The arguments of the program, from those of the function."""
        arguments = leaves if self.refs is None else self.refs.inputs(leaves, donated)
        return lowered([*self.in_avals, *self._state_avals], [*arguments, *self.closed_over])

    def store(self, leaves: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """Changes mutable values and writes refs; returns the results of the function from those of the program."""
        arguments = leaves if self.refs is None else [*leaves, *self.refs.closed_over]
        results = self._on_arrays.results([*self._consts, *arguments], outs)
        return results if self.refs is None else self.refs.store(leaves, results)

    def spread(self, requested: Sequence[Any], requested_out: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """What is said of each argument and each result of the function, for each of the program; None for parts."""
        outs = [*self._on_arrays.out_avals, *self._on_arrays.last_avals]
        ins = [*self.in_avals, *self._state_avals]
        return tuple(  # type: ignore[return-value]  # two
            [x if not aval.is_high else None for aval, x in zip_longest(avals, some) for _ in arrays_in([aval])]
            for avals, some in ((ins, requested), (outs, requested_out))
        )


def user_values(closed: ClosedJaxpr, refs: RefState | None) -> UserValues | None:
    """The values of users' types that a program takes, returns or closes over; None if there is none."""
    jaxpr = closed.jaxpr
    variables = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    return UserValues(closed, refs) if any(v.aval.is_high for v in variables) else None

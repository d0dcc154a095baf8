"""on_arrays of a scan over values of users' types: a scan over the arrays that they consist of.

    scan[consts | carry | xs]  ->  scan[arrays of immutable consts | arrays of carry, of mutable consts | arrays of xs]

Mutable values are constants of the loop, and what they hold is carried.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import not_
from typing import Any

from xpr.control.groups import mask, split_list
from xpr.control.scan.layout import Bind, loop_groups
from xpr.core.avals import aval_of
from xpr.core.jaxpr import Jaxpr
from xpr.transforms.on_arrays import lowered, on_arrays, raised


def loop_on_arrays(bind: Bind, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The loop on arrays, whose results are made values again.

    Raises:
      TypeError: the body changes the type of what a mutable value holds.
    """
    program, (operands, results) = on_arrays(params["jaxpr"]), loop_groups(params)
    program.check_states("scan")
    consts, carry, xs = operands.split(args)
    is_mutable = operands.part("consts", program.mutable)
    is_constant = list(map(not_, is_mutable))
    const_avals, carry_avals, _ = operands.split(program.in_avals)
    const_vars, carry_vars, row_vars = operands.split(program.argument_vars)
    next_carry, ys = results.split(program.result_vars)
    constants = lowered(mask(const_avals, is_constant), mask(consts, is_constant))
    states = lowered(mask(const_avals, is_mutable), mask(consts, is_mutable))
    const_invars = [*program.jaxpr.constvars, *chain(*mask(const_vars, is_constant))]
    carry_invars = chain(*carry_vars, *mask(const_vars, is_mutable))
    body = Jaxpr(
        [],
        [*const_invars, *carry_invars, *chain(*row_vars)],
        [*chain(*next_carry, *program.last_vars), *chain(*ys)],
        program.jaxpr.eqns,
    )
    outs = bind(
        body,
        [*program.jaxpr.consts, *constants],
        [*lowered(carry_avals, carry), *states],
        lowered(list(map(aval_of, xs)), xs),
        params,
    )
    last_carry, last_states, rows = split_list(outs, len(outs) - len(states) - len([*chain(*ys)]), len(states))
    program.change(args, last_states)
    carry_out, y_avals = results.split(program.out_avals)
    return raised([*carry_out, *(a.with_axis(0, params["length"]) for a in y_avals)], [*last_carry, *rows])

"""Regions: the inner jaxprs of an equation, how its operands and results map to theirs, and how often they run.

A primitive that holds jaxprs lists them by its rule `regions(**params)`. Analyses of a program at every depth (what a
result depends on, what it costs, what varies between devices) then work on regions, and none knows primitives by their
names or parameters.

    scan[jaxpr=body, length=10, num_consts=1, num_carry=1] c s xs      loop, body of (c, s, x)
      operands (0, 1, 2)    results ((0,), (1,))    carry (1, None)    times 10
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from xpr.core.jaxpr import Jaxpr, JaxprEqn

T = TypeVar("T")
Kind = Literal["call", "branch", "loop", "predicate"]


class Region(NamedTuple):
    """One jaxpr of an equation.

    Attributes:
      jaxpr: the program; its constvars, if it has any, are none of the equation's operands.
      kind: "call" runs once; of all "branch"es one runs; a "loop" runs again on its own results; a "predicate" gives a
        boolean that decides whether the others go on.
      operands: for each argument of the jaxpr the index of the equation's operand that it is, or is a part of; None
        for others, such as a loop's counter.
      results: for each result of the jaxpr the indices of the equation's results that it becomes, or a part of.
      carry: for each result of a loop's jaxpr the argument that it is in the next run, or None.
      times: how often one run of the equation runs it; None where that is known only when it has run.
      devices: the axes, by name and size, along which devices run it, each once for each of these runs.
      chosen_by: the operands of the equation that decide which region runs, or how often.
      inlined: whether its equations may replace the equation: "always"; "lowered" once no transformation
        follows, since the equation has rules of its own; "compiled" only by the compiler; or "never".
      follows: whether results of a transformed equation depend on its operands as those of the jaxpr do. They need not
        where the equation has a rule of the user's.
    """

    jaxpr: Jaxpr
    kind: Kind
    operands: tuple[int | None, ...]
    results: tuple[tuple[int, ...], ...]
    carry: tuple[int | None, ...] = ()
    times: int | None = 1
    chosen_by: tuple[int, ...] = ()
    inlined: Literal["always", "lowered", "compiled", "never"] = "never"
    follows: bool = True
    devices: tuple[tuple[Any, int], ...] = ()


def regions_of(eqn: JaxprEqn) -> Sequence[Region]:
    """The regions of an equation; none if its primitive holds no jaxprs, or has no rule for them.

    >>> import xpr
    >>> from xpr.extend import regions_of
    >>> len(regions_of(xpr.make_jaxpr(xpr.jit(lambda x: x + 1))(1.0).eqns[0]))
    1
    """
    rule = eqn.primitive.regions
    return () if rule is None else rule(**eqn.params)


def whole_call(jaxpr: Jaxpr, **changes: Any) -> list[Region]:
    """The region of a call: the operands and results of the jaxpr are those of the equation."""
    results = tuple([(i,) for i in range(len(jaxpr.outvars))])
    return [Region(jaxpr, "call", tuple(range(len(jaxpr.invars))), results, **changes)]


def called_jaxpr(eqn: JaxprEqn) -> Jaxpr | None:
    """The jaxpr whose equations may replace the equation when it is lowered; None where there is none."""
    return _inlined(eqn, ("always", "lowered"))


def plainly_called_jaxpr(eqn: JaxprEqn) -> Jaxpr | None:
    """The jaxpr of an equation that is merely a call of it; None where the equation has rules of its own."""
    return _inlined(eqn, ("always",))


def _inlined(eqn: JaxprEqn, kinds: tuple[str, ...]) -> Jaxpr | None:
    """The jaxpr of the first region of an equation, if `inlined` of the region is one of these."""
    if eqn.primitive.regions is None:
        return None
    region = eqn.primitive.regions(**eqn.params)[0]
    return region.jaxpr if region.inlined in kinds else None


def total_cost(jaxpr: Jaxpr, name: str, cost: Callable[[JaxprEqn], float], steps: float) -> float:
    """The cost of running a jaxpr, the sum of the costs of its equations; cached with it by a name.

    `cost` is the cost of an equation without regions. Of branches the most expensive one counts. A loop counts as often
    as it runs, `steps` times if that is unknown; a step costs 1 at least.
    """
    if name not in jaxpr.memo:
        jaxpr.memo[name] = sum([_cost_of(eqn, name, cost, steps) for eqn in jaxpr.eqns], 0.0)
    return jaxpr.memo[name]


def _cost_of(eqn: JaxprEqn, name: str, cost: Callable[[JaxprEqn], float], steps: float) -> float:
    regions = regions_of(eqn)
    if not regions:
        return cost(eqn)
    branches, others = 0.0, 0.0
    for region in regions:
        once = total_cost(region.jaxpr, name, cost, steps)
        if region.kind == "branch":
            branches = max(branches, once)
        else:
            others += (steps if region.times is None else region.times) * max(once, 1.0)
    return branches + others


def propagate(
    regions: Sequence[Region],
    operands: Sequence[T],
    n_results: int,
    through: Callable[[Jaxpr, list[T]], Sequence[T]],
    join: Callable[[T, T], T],
    bottom: T,
) -> list[T]:
    """Dataflow analysis of an equation: the lattice elements of its results from those of its operands, a fixed point.

    Args:
      regions: those of the equation.
      operands: an element of a lattice for each of its operands.
      n_results: how many results it has.
      through: from elements for a jaxpr's arguments to those for its results; monotone.
      join: the least upper bound of two elements.
      bottom: the least element.
    """
    elements = list(operands)  # those of carried operands are joined with what the runs give
    results = [bottom] * n_results
    while True:
        control = bottom  # of what decides which regions run, and how often
        before = list(elements)
        for region in regions:
            for index in region.chosen_by:
                control = join(control, elements[index])
            outs = through(region.jaxpr, [bottom if i is None else elements[i] for i in region.operands])
            for position, out in enumerate(outs):
                if region.kind == "predicate":
                    control = join(control, out)
                argument = region.carry[position] if region.carry else None
                carried = None if argument is None else region.operands[argument]
                if carried is not None:
                    elements[carried] = join(elements[carried], out)
                    out = join(out, elements[carried])  # after no run at all it is the operand
                for index in region.results[position]:
                    results[index] = join(results[index], out)
        if elements == before:
            return [join(result, control) for result in results]

"""scalars : jaxpr -> (jaxpr, jaxpr). What a program computes of its scalar arguments alone, and the rest of it.

XLA:CPU computes scalars inside the operations that read them: a learning rate's schedule and an optimizer's bias
corrections in each kernel that updates parameters, and in kernels of their own. As a function that XLA makes one kernel
of they are compiled once, and computed once: the first training step of an MLP by Adam takes 7 % less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr import dtypes
from xpr.compile.fusion import is_fused
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from xpr.core.regions import called_jaxpr
from xpr.passes.cse import without_repetitions
from xpr.passes.dce import has_effect
from xpr.passes.inline import inline_jaxpr

_FEWEST, _FEWEST_OTHERS = 8, 32  # equations; a kernel more is not worth it for fewer
_MOST_READ_APART = 64  # scalars; a kernel with more results takes longer to compile than those that are saved
_DTYPES = frozenset(
    (dtypes.bool_, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64)
)


class Scalars(NamedTuple):
    """A program in two parts.

    Attributes:
      jaxpr: takes scalar arguments of the program.
      rest: the other equations; it takes the results of `jaxpr` before all arguments of the program.
    """

    jaxpr: Jaxpr
    rest: Jaxpr


def split_scalars(jaxpr: Jaxpr) -> Scalars | None:
    """The program in two parts; None where it has few equations."""
    inputs = [v for v in (*jaxpr.constvars, *jaxpr.invars) if _is_scalar(v.aval)]
    if not inputs or len(jaxpr.eqns) < _FEWEST_OTHERS:
        return None
    known: set[Any] = {*inputs}
    scalars: list[JaxprEqn] = []
    others: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        read_here = [v for v in eqn.invars if type(v) is not Literal]  # what is computed of none is a constant
        if read_here and known.issuperset(read_here) and _computes_scalars(eqn):
            scalars.append(eqn)
            known.update(eqn.outvars)
        else:
            others.append(eqn)
    if sum(map(_size, scalars)) < _FEWEST or len(others) < _FEWEST_OTHERS:
        return None
    operands = {v for eqn in scalars for v in eqn.invars if type(v) is not Literal}
    computed = [v for eqn in scalars for v in eqn.outvars]
    once = without_repetitions(inline_jaxpr(Jaxpr([], [v for v in inputs if v in operands], computed, scalars)))
    rest = jaxpr.replace(constvars=[*computed, *jaxpr.constvars], eqns=others)
    results, rest = _reading(rest, dict(zip(computed, once.outvars)))
    return Scalars(once.replace(outvars=results), rest.replace(constvars=[*rest.constvars, *jaxpr.constvars]))


def _reading(rest: Jaxpr, scalars: dict[Any, Atom]) -> tuple[list[Atom], Jaxpr]:
    """What a jaxpr reads of some scalars, in the order of its new constvars.

    If it doesn't read many, each equation has a result of its own. XLA numbers a kernel's operands in the order in
    which it comes upon them, and would come upon a shared one in the first kernel of many that are alike elsewhere than
    in the others: that one would be compiled apart. As XLA can't see that such results are equal, equal equations are
    removed here.
    """
    is_shared = sum(v in scalars for eqn in rest.eqns for v in eqn.invars) > _MOST_READ_APART
    results: list[Atom] = []
    constvars: dict[Any, Var] = {}

    def read(v: Atom) -> Atom:
        if v not in scalars:
            return v
        key = scalars[v] if is_shared else len(results)
        if key not in constvars:
            constvars[key] = Var(v.aval)
            results.append(scalars[v])
        return constvars[key]

    rest = rest if is_shared else without_repetitions(rest)
    eqns = [
        eqn if scalars.keys().isdisjoint(eqn.invars) else eqn.replace(invars=list(map(read, eqn.invars)))
        for eqn in rest.eqns
    ]
    outvars = list(map(read, rest.outvars))
    return results, rest.replace(constvars=list(constvars.values()), eqns=eqns, outvars=outvars)


def _is_scalar(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and not aval.shape and aval.dtype in _DTYPES


def _computes_scalars(eqn: JaxprEqn) -> bool:
    """Whether an equation is elementwise, of scalars, or calls a jaxpr of such equations."""
    if has_effect(eqn) or not all(_is_scalar(v.aval) for v in (*eqn.invars, *eqn.outvars)):
        return False
    called = called_jaxpr(eqn)
    return is_fused(eqn) if called is None else all(map(_computes_scalars, called.eqns))


def _size(eqn: JaxprEqn) -> int:
    called = called_jaxpr(eqn)
    return 1 if called is None else len(called.eqns)

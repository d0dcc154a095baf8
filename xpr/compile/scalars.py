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
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.regions import called_jaxpr
from xpr.passes.cse import without_repetitions
from xpr.passes.dce import has_effect
from xpr.passes.inline import inline_jaxpr

_FEWEST, _FEWEST_OTHERS = 8, 32  # equations; a kernel more is not worth it for fewer
_DTYPES = frozenset(
    (dtypes.bool_, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64)
)


class Scalars(NamedTuple):
    """A program in two parts.

    Attributes:
      jaxpr: takes scalar arguments of the program, and gives each scalar that others read once.
      results: the numbers of the results of `jaxpr` that `rest` takes, before all arguments of the program.
      rest: the other equations.
    """

    jaxpr: Jaxpr
    results: list[int]
    rest: Jaxpr


def split_scalars(jaxpr: Jaxpr) -> Scalars | None:
    """The program in two parts; None where it has few equations."""
    inputs = [v for v in (*jaxpr.constvars, *jaxpr.invars) if _is_scalar(v.aval)]
    if not inputs or len(jaxpr.eqns) < _FEWEST_OTHERS:
        return None
    known: set[Any] = {*inputs}
    scalars: list[JaxprEqn] = []
    rest: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        read_here = [v for v in eqn.invars if type(v) is not Literal]  # what is computed of none is a constant
        if read_here and known.issuperset(read_here) and _computes_scalars(eqn):
            scalars.append(eqn)
            known.update(eqn.outvars)
        else:
            rest.append(eqn)
    if sum(map(_size, scalars)) < _FEWEST or len(rest) < _FEWEST_OTHERS:
        return None
    read = {v for eqn in rest for v in eqn.invars if type(v) is not Literal}
    read |= {v for v in jaxpr.outvars if type(v) is not Literal}
    results = [v for eqn in scalars for v in eqn.outvars if v in read]
    operands = {v for eqn in scalars for v in eqn.invars if type(v) is not Literal}
    once = without_repetitions(inline_jaxpr(Jaxpr([], [v for v in inputs if v in operands], results, scalars)))
    distinct = list(dict.fromkeys(once.outvars))
    return Scalars(
        once.replace(outvars=distinct),
        [distinct.index(v) for v in once.outvars],
        jaxpr.replace(constvars=[*results, *jaxpr.constvars], eqns=rest),
    )


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

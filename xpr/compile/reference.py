"""reference_eval : arrays -> arrays. Runs a jaxpr in NumPy alone: a second definition of the language."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xpr.backend.operands import host_value
from xpr.core.jaxpr import Jaxpr, Literal
from xpr.core.regions import called_jaxpr
from xpr.passes.physical import physical


class _Reference(threading.local):
    """The function that runs the jaxprs that `reference` rules run."""

    run: Callable[[Jaxpr, Sequence[Any]], list[Any]] | None = None


_reference = _Reference()


@contextmanager
def jaxprs_run_by(run: Callable[[Jaxpr, Sequence[Any]], list[Any]] | None) -> Iterator[None]:
    """Makes `run` the function that runs the jaxprs of `reference` rules in this thread; None for `reference_eval`."""
    before = _reference.run
    _reference.run = run
    try:
        yield
    finally:
        _reference.run = before


def reference_eval(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """The results of a jaxpr by its primitives' `reference` rules.

    Random keys among its arguments and results are arrays of their words. Inside `with jaxprs_run_by(run)` the results
    are those of `run(jaxpr, values)`: the rules of loops and branches, which call `reference_eval`, then run each of
    their jaxprs by it.
    """
    if _reference.run is not None:
        return _reference.run(jaxpr, [*consts, *args])
    env: dict[Any, Any] = {}
    jaxpr = physical(jaxpr)
    for var, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]):
        env[var] = np.asarray(host_value(value, var.aval))

    def read(atom: Any) -> Any:
        return env[atom] if type(atom) is not Literal else np.asarray(atom.val, atom.aval.dtype)

    with np.errstate(all="ignore"):
        for eqn in jaxpr.eqns:
            values = [read(v) for v in eqn.invars]
            rule: Callable[..., Any] = eqn.primitive.reference
            called = called_jaxpr(eqn)
            if called is not None:
                outs = reference_eval(called, (), *values)
            else:
                outs = rule(values, **eqn.params)
            env.update((v, np.asarray(out, v.aval.dtype)) for v, out in zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]

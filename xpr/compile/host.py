"""Operations in NumPy: small ones whose `reference` rules give exactly the bits that XLA gives; see evaluate.py."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from xpr.backend import devices
from xpr.backend.array import Array
from xpr.backend.operands import host_value
from xpr.core.avals import ShapedArray, is_key
from xpr.core.jaxpr import Jaxpr, Literal
from xpr.core.primitive import Primitive

HOST_LIMIT = 1 << 14  # elements; beyond it XLA's threads and asynchronous dispatch win


class _WithoutWarnings(threading.local):
    """Runs NumPy without floating-point warnings: inf and nan are values here, as in XLA.

    NumPy stores the error state in a context variable. Running in a context where it is "ignore", one for each thread,
    costs a tenth of entering and leaving `np.errstate`.
    """

    def __init__(self) -> None:
        self.run = copy_context().run
        self.run(np.seterr, all="ignore")


without_warnings = _WithoutWarnings()


def runs_on_host(
    primitive: Primitive, avals: tuple[ShapedArray, ...], out_avals: Sequence[ShapedArray], params: dict[str, Any]
) -> bool:
    """Whether NumPy is to run an exact operation: a small one, or one that NumPy is better at."""
    if _are_small(*avals, *out_avals):
        return True
    return primitive.faster_in_numpy is not None and primitive.faster_in_numpy(avals, **params)


def _are_small(*avals: ShapedArray) -> bool:
    return all(aval.size <= HOST_LIMIT for aval in avals)


def host_values(args: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any] | None:
    """The operands in NumPy; None where one is still being computed."""
    values = []
    for x, aval in zip(args, avals, strict=False):  # the avals are followed by the parameters
        if type(x) is Array:
            value = x._host
            if value is None:
                buffer = x._buffer
                if buffer is not None and not buffer.is_ready():
                    return None
                value = x.host
            values.append(value)
        else:
            values.append(host_value(x, aval))
    return values


class HostProgram:
    """A jaxpr evaluated in NumPy, where its operations would run if each was evaluated eagerly.

    What does not depend on the operands is computed once. `is_small`: no array is larger than what any exact operation
    runs in NumPy for.
    """

    __slots__ = ("_known", "_outs", "_steps", "is_small", "out_avals")

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.is_small = all(_are_small(*[v.aval for v in (*eqn.invars, *eqn.outvars)]) for eqn in jaxpr.eqns)
        self._known: list[Any] = [None] * len(jaxpr.invars)  # the values of literals, and None for variables
        self._steps: list[tuple[Any, list[int], dict[str, Any], list[int]]] = []
        positions = {v: i for i, v in enumerate(jaxpr.invars)}

        def position(atom: Any) -> int:
            if type(atom) is not Literal:
                return positions[atom]
            return self._add(np.asarray(atom.val, atom.aval.dtype))

        for eqn in jaxpr.eqns:
            operands, reference = list(map(position, eqn.invars)), eqn.primitive.reference
            values = [self._known[i] for i in operands]
            is_constant = not any(value is None for value in values)
            outs = without_warnings.run(reference, values, **eqn.params) if is_constant else [None] * len(eqn.outvars)
            results = list(map(self._add, outs))
            positions.update(zip(eqn.outvars, results))
            if not is_constant:
                self._steps.append((reference, operands, eqn.params, results))
        self._outs, self.out_avals = list(map(position, jaxpr.outvars)), jaxpr.out_avals

    def _add(self, value: Any) -> int:
        self._known.append(value)
        return len(self._known) - 1

    def run(self, values: Sequence[Any]) -> list[Array]:
        """The results for operands in NumPy."""
        return list(map(Array, self.out_avals, without_warnings.run(self._evaluate, values)))

    def _evaluate(self, values: Sequence[Any]) -> list[Any]:
        known = [*values, *self._known[len(values) :]]
        for reference, operands, params, results in self._steps:
            for i, value in zip(results, reference([known[i] for i in operands], **params)):
                known[i] = value
        return [known[i] for i in self._outs]


def host_program(jaxpr: Jaxpr) -> HostProgram | None:
    """The program of a jaxpr without constants; None where an operation would not run in NumPy."""
    if devices.default_device().platform != "cpu":
        return None
    for eqn in jaxpr.eqns:
        avals, out_avals = tuple([v.aval for v in eqn.invars]), [v.aval for v in eqn.outvars]
        if eqn.primitive.evaluate is not None or any(map(is_key, (*avals, *out_avals))):
            return None
        if not (eqn.primitive.is_exact(avals) and runs_on_host(eqn.primitive, avals, out_avals, eqn.params)):
            return None
    return HostProgram(jaxpr)

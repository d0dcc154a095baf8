"""evaluate : run each operation now. The bottom of the stack of interpreters.

A small operation whose NumPy meaning gives the very bits that XLA gives runs in NumPy, in about a microsecond and
with nothing to compile. Everything else becomes a program of one operation, compiled once for its operand types and
parameters. Programs that hold jaxprs (`call=True`) are compiled whole.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from xpr.backend import compiler, devices
from xpr.backend.array import Array, buffer_of, host_value
from xpr.backend.stablehlo import Module
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, escaped, install_base
from xpr.core.jaxpr import Jaxpr, Literal
from xpr.core.primitive import Primitive
from xpr.errors import UnexpectedTracerError
from xpr.transforms.lower import lower_jaxpr, lower_operation

HOST_LIMIT = 1 << 14  # entries; beyond it XLA's threads and asynchronous dispatch win


class EvalTrace(Trace):
    """Runs operations."""

    __slots__ = ("host_is_default",)

    def __init__(self) -> None:
        super().__init__(None)
        self.host_is_default: bool | None = None

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        avals = tuple([x.aval if type(x) is Array else _aval(x) for x in args])
        if primitive.evaluate is not None:
            return primitive.evaluate(args, params)
        out_avals = primitive.type_of(avals, params)
        if primitive.exact and self.runs_on_host(primitive, args, avals, out_avals, params):
            values = [x.host if type(x) is Array else host_value(x, aval) for x, aval in zip(args, avals)]
            with np.errstate(all="ignore"):  # inf and nan are values here, as in XLA
                outs = primitive.reference(values, **params)
            return [Array(aval, out) for aval, out in zip(out_avals, outs)]
        return self.run(primitive, args, avals, out_avals, params)

    def runs_on_host(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        avals: tuple[ShapedArray, ...],
        out_avals: Sequence[ShapedArray],
        params: dict[str, Any],
    ) -> bool:
        """Whether NumPy is to run an exact operation: a small one, or one that NumPy is better at."""
        small = True
        for aval in out_avals:
            if aval.size > HOST_LIMIT:
                small = False
        for x in args:
            if type(x) is Array:
                if x._device is not None:
                    return False
                if x.aval.size > HOST_LIMIT:
                    small = False
        if not small and (primitive.faster_in_numpy is None or not primitive.faster_in_numpy(avals, **params)):
            return False
        if self.host_is_default is None:
            self.host_is_default = devices.default_backend() == "cpu"
        return self.host_is_default

    def run(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        avals: tuple[ShapedArray, ...],
        out_avals: list[ShapedArray],
        params: dict[str, Any],
    ) -> list[Any]:
        device = device_of(args)
        key = (avals, device, *params.items())
        try:
            executable = primitive.compiled[key]
        except KeyError:
            executable = primitive.compiled[key] = compile_operation(primitive, avals, out_avals, params, device)
        buffers = [x.buffer if type(x) is Array else buffer_of(x, aval) for x, aval in zip(args, avals)]
        where = None if device is devices.default_device() else device
        return [Array(aval, None, b, where) for aval, b in zip(out_avals, executable.run(buffers))]


def _aval(x: Any) -> ShapedArray:
    if isinstance(x, Tracer):
        raise UnexpectedTracerError(escaped(x))
    return aval_of(x)


def device_of(args: Sequence[Any]) -> Any:
    """The device that committed operands are on, else the default.

    Raises:
      ValueError: operands are committed to different devices.
    """
    found = None
    for x in args:
        if type(x) is Array and x._device is not None and x._device is not found:
            if found is not None:
                raise ValueError(
                    f"Operands are on different devices, {found} and {x._device}. "
                    "Put them on one with xpr.device_put(x, device)."
                )
            found = x._device
    return found or devices.default_device()


def compile_operation(
    primitive: Primitive,
    avals: Sequence[ShapedArray],
    out_avals: list[ShapedArray],
    params: dict[str, Any],
    device: Any,
) -> compiler.Executable:
    """A program of one operation."""
    module = Module(device.platform)
    module.function("main", avals, lambda b, xs: lower_operation(b, primitive, xs, out_avals, params), public=True)
    return compiler.compile(module.text(primitive.name), out_avals, device, name=primitive.name, quick=True)


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any], name: str) -> list[Any]:
    """Runs a jaxpr without constants as one compiled program, kept with the jaxpr."""
    device = device_of(args)
    key = ("executable", device)
    executable = jaxpr.memo.get(key)
    if executable is None:
        text = lower_jaxpr(jaxpr, name, device.platform)
        executable = jaxpr.memo[key] = compiler.compile(text, jaxpr.out_avals, device, name=name)
    buffers = [x.buffer if type(x) is Array else buffer_of(x, _aval(x)) for x in args]
    where = None if device is devices.default_device() else device
    return [Array(v.aval, None, b, where) for v, b in zip(jaxpr.outvars, executable.run(buffers))]


def reference_eval(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Runs a jaxpr in NumPy alone, by its primitives' `reference` rules: the language's second meaning."""
    env: dict[Any, Any] = {}
    for var, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]):
        env[var] = np.asarray(host_value(value, var.aval))

    def read(atom: Any) -> Any:
        return env[atom] if type(atom) is not Literal else np.asarray(atom.val, atom.aval.dtype)

    with np.errstate(all="ignore"):
        for eqn in jaxpr.eqns:
            values = [read(v) for v in eqn.invars]
            rule: Callable[..., Any] = eqn.primitive.reference
            if "call_jaxpr" in eqn.params:
                outs = reference_eval(eqn.params["call_jaxpr"], (), *values)
            else:
                outs = rule(values, **eqn.params)
            env.update((v, np.asarray(out, v.aval.dtype)) for v, out in zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


install_base(EvalTrace())

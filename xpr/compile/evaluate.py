"""evaluate : run each operation now. The bottom of the stack of interpreters.

A small operation whose NumPy meaning gives the very bits that XLA gives runs in NumPy, in about a microsecond and
with nothing to compile. Everything else becomes a program of one operation, compiled once for its operand types and
parameters. Programs that hold jaxprs (`call=True`) are compiled whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from operator import itemgetter
from typing import Any

import numpy as np

from xpr.backend import compiler, devices
from xpr.backend.array import Array, buffer_of, host_value, result
from xpr.backend.sharding import NamedSharding
from xpr.backend.stablehlo import Module
from xpr.compile.lower import lower_jaxpr, lower_operation
from xpr.compile.partition import forget_moves, mesh_of, run_partitioned
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, context, install_base
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.primitive import Primitive, key_of
from xpr.core.regions import called_jaxpr
from xpr.core.source import here

HOST_LIMIT = 1 << 14  # entries; beyond it XLA's threads and asynchronous dispatch win


class _Quietly(threading.local):
    """Runs NumPy without floating-point warnings: inf and nan are values here, as in XLA.

    NumPy keeps what to do about them in a context variable. A context of each thread in which it says "ignore" costs a
    tenth of entering and leaving `np.errstate`.
    """

    def __init__(self) -> None:
        self.run = copy_context().run
        self.run(np.seterr, all="ignore")


_quietly = _Quietly()


class Plan:
    """How an operation runs on operands of some types: in NumPy where `on_host`, else by a program, compiled at need.

    NumPy has to wait for its operands, so an operation on a value that is still being computed runs as a program, and
    stays asynchronous.
    """

    __slots__ = ("on_host", "out_avals", "place", "where", "execute", "handlers")

    def __init__(self, on_host: bool, out_avals: list[ShapedArray], place: Any, where: Any):
        self.on_host, self.out_avals, self.place, self.where = on_host, out_avals, place, where
        self.execute: Any = None
        self.handlers: Any = None

    def compile(self, primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> None:
        module = Module(self.place.platform)
        module.function(
            "main", avals, lambda b, xs: lower_operation(b, primitive, xs, self.out_avals, params), public=True
        )
        text, name = module.text(primitive.name), primitive.name
        executable = compiler.compile(text, self.out_avals, self.place, name=name, quick=True)
        self.execute, self.handlers = executable.raw.execute_sharded, executable.handlers


class EvalTrace(Trace):
    """Runs operations."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive.evaluate is not None:
            for x in args:
                if type(x) is not Array:
                    _aval(x)
            return primitive.evaluate(args, params)
        key: list[Any] = [settings.default_device]
        values: list[Any] | None = []  # the operands in NumPy, as long as each has such a copy
        for x in args:
            if type(x) is Array:
                key.append(x.aval)
                if x._device is not None:
                    key[0] = device_of(args)
                    if type(key[0]) is NamedSharding:
                        return run_on_several(primitive, args, params, key[0])
                if values is not None:
                    value = x._host
                    if value is None:
                        values = None
                    else:
                        values.append(value)
            else:
                key.append(_aval(x))
                values = None
        if params:
            key.extend(key_of(params) if primitive.any_params else params.items())
        try:
            plan = primitive.plans[tuple(key)]
        except (KeyError, TypeError):
            plan = None  # what is raised below is then no consequence of this, in tracebacks
        if plan is None:
            plan = new_plan(primitive, tuple(key), len(args), params)
        if plan.on_host:
            if values is None:
                values = host_values(args, key[1:])
            if values is not None:
                return list(map(Array, plan.out_avals, _quietly.run(primitive.reference, values, **params)))
        if plan.execute is None:
            plan.compile(primitive, key[1 : len(args) + 1], params)
        buffers = []
        for x, aval in zip(args, key[1:]):
            buffer = x._buffer if type(x) is Array else None
            buffers.append(buffer_of(x, aval) if buffer is None else buffer)
        try:
            outs = plan.execute(buffers).consume_with_handlers(plan.handlers)
        except RuntimeError as error:
            here = compiler.moved(buffers, plan.place, error)
            if here is None:
                raise
            outs = plan.execute(here).consume_with_handlers(plan.handlers)
        if plan.where is None:
            return [Array(aval, None, b) for aval, b in zip(plan.out_avals, outs)]
        return [Array(aval, None, b, plan.where) for aval, b in zip(plan.out_avals, outs)]


def new_plan(primitive: Primitive, key: tuple[Any, ...], n_operands: int, params: dict[str, Any]) -> Plan:
    """A plan kept with the primitive, unless a parameter can't be hashed."""
    plan = make_plan(primitive, key[0], key[1 : n_operands + 1], params)
    try:
        primitive.plans[key] = plan
    except TypeError:
        pass
    return plan


def make_plan(primitive: Primitive, device: Any, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Plan:
    """Types the operation, and decides where it is to run."""
    out_avals = primitive.type_of(avals, params)
    default = devices.default_device()
    place = default if device is None or isinstance(device, str) else device
    on_host = device is None and primitive.exact and default.platform == "cpu"
    on_host = on_host and runs_on_host(primitive, avals, out_avals, params)
    return Plan(on_host, out_avals, place, None if place is default else place)


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


def runs_on_host(
    primitive: Primitive, avals: tuple[ShapedArray, ...], out_avals: Sequence[ShapedArray], params: dict[str, Any]
) -> bool:
    """Whether NumPy is to run an exact operation: a small one, or one that NumPy is better at."""
    if all(aval.size <= HOST_LIMIT for aval in (*avals, *out_avals)):
        return True
    return primitive.faster_in_numpy is not None and primitive.faster_in_numpy(avals, **params)


def _aval(x: Any) -> ShapedArray:
    if isinstance(x, Tracer):
        raise x.misused()
    return aval_of(x)


def run_on_several(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], place: NamedSharding
) -> list[Any]:
    """Runs one operation on operands of which some lie on several devices."""
    avals = tuple([x.aval if type(x) is Array else _aval(x) for x in args])
    key = ("several", *avals, *(key_of(params) if primitive.any_params else params.items()))
    jaxpr = primitive.plans.get(key)
    if jaxpr is None:
        jaxpr = primitive.plans[key] = _jaxpr_of(primitive, avals, params)
    return run_partitioned(jaxpr, args, primitive.name, place.mesh)


def device_of(args: Sequence[Any]) -> Any:
    """The device that committed operands are on, a sharding where they lie on several, else the default.

    Raises:
      ValueError: operands are committed to different devices.
    """
    found = None
    for x in args:
        if type(x) is Array and x._device is not None and x._device is not found:
            if found is not None and type(found) is type(x._device) is NamedSharding:
                if found.device_set == x._device.device_set:
                    continue
            if found is not None:
                raise ValueError(
                    f"Operands are on different devices, {found} and {x._device}. "
                    "Put them on one with xpr.device_put(x, device)."
                )
            found = x._device
    return found or devices.default_device()


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any], name: str, donated: tuple[int, ...] = ()) -> list[Any]:
    """Runs a jaxpr without constants as one compiled program, kept with the jaxpr; on several devices it may use the
    memory of the arguments that are `donated`."""
    device = device_of(args)
    mesh = mesh_of(jaxpr)
    if mesh is not None or type(device) is NamedSharding:
        return run_partitioned(jaxpr, args, name, mesh or device.mesh, donated)
    key = ("executable", device)
    executable = jaxpr.memo.get(key)
    if executable is None:
        executable = jaxpr.memo[key] = _compiled(jaxpr, name, device)
    buffers = [x.buffer if type(x) is Array else buffer_of(x, _aval(x)) for x in args]
    where = None if device is devices.default_device() else device
    return [result(v.aval, b, where) for v, b in zip(jaxpr.outvars, executable.run(buffers))]


def _compiled(jaxpr: Jaxpr, name: str, device: Any) -> Any:
    """The program of a jaxpr. A small one that was compiled lately is found again, though its function is made anew."""
    module = lower_jaxpr(jaxpr, device.platform)
    text = module.text(name)
    if len(text) > _RECENT_TEXT or module.callbacks:
        return _program(module, text, jaxpr, name, device)
    key = (text, device, settings.compilation_cache_dir)
    executable = _recent.pop(key, None)
    if executable is None:
        executable = _program(module, text, jaxpr, name, device)
    _recent[key] = executable
    if len(_recent) > _RECENT_PROGRAMS:
        _recent.popitem(last=False)
    return executable


def _program(module: Module, text: str, jaxpr: Jaxpr, name: str, device: Any) -> Any:
    return compiler.compile(
        text, jaxpr.out_avals, device, name=name, unrolled=module.unrolled, callbacks=module.callbacks
    )


_recent: OrderedDict[Any, Any] = OrderedDict()  # small programs by their text, the latest last
_RECENT_PROGRAMS, _RECENT_TEXT = 128, 1 << 16  # how many, and of what length at most


def forget_recent() -> None:
    """Lets the programs go that are kept by their text, and those that move arrays."""
    _recent.clear()
    forget_moves()


def run_operation(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], donated: tuple[int, ...] = ()
) -> list[Any]:
    """Runs an operation that holds jaxprs as a program of its own, kept with the first of those."""
    return run_jaxpr(operation_jaxpr(primitive, args, params), args, primitive.name, donated)


def operation_jaxpr(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Jaxpr:
    """The jaxpr that `run_operation` runs."""
    avals = tuple([x.aval if type(x) is Array else _aval(x) for x in args])
    held = JaxprEqn((), (), primitive, params)
    keeper = next(subjaxprs(held))
    key = ("operation", primitive, avals, *sorted(params.items(), key=itemgetter(0)))
    jaxpr = keeper.memo.get(key)
    if jaxpr is None:
        jaxpr = keeper.memo[key] = _jaxpr_of(primitive, avals, params)
    return jaxpr


def _jaxpr_of(primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Jaxpr:
    """A jaxpr of one operation."""
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in primitive.type_of(avals, params)]
    return Jaxpr([], invars, outvars, [JaxprEqn(invars, outvars, primitive, params, context.source or here(4))])


class _Reference(threading.local):
    """Who runs the jaxprs that `reference` rules run."""

    run: Callable[[Jaxpr, Sequence[Any]], list[Any]] | None = None


_reference = _Reference()


@contextmanager
def jaxprs_run_by(run: Callable[[Jaxpr, Sequence[Any]], list[Any]] | None) -> Iterator[None]:
    """Has `run` run the jaxprs of `reference` rules in this thread; None for `reference_eval` itself."""
    before = _reference.run
    _reference.run = run
    try:
        yield
    finally:
        _reference.run = before


def reference_eval(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Runs a jaxpr in NumPy alone, by its primitives' `reference` rules: the language's second meaning.

    Inside `with jaxprs_run_by(run)` it is `run(jaxpr, values)`, so that the rules of loops and branches show which
    jaxprs they run, one after another.
    """
    if _reference.run is not None:
        return _reference.run(jaxpr, [*consts, *args])
    env: dict[Any, Any] = {}
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


install_base(EvalTrace())

"""evaluate : arrays -> arrays. Runs each operation eagerly; the bottom of the stack of interpreters.

A small operation whose `reference` rule gives exactly the bits that XLA gives runs in NumPy, in about a microsecond and
with nothing to compile. Everything else becomes a program of one operation, compiled once for its operand types and
parameters. Operations that hold jaxprs (`call=True`) are compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from xpr import dtypes
from xpr.backend import compiler, devices
from xpr.backend.array import Array, result
from xpr.backend.buffers import moved
from xpr.backend.operands import host_value, operand_buffer
from xpr.backend.sharding import NamedSharding
from xpr.backend.stablehlo_module import Module
from xpr.backend.waiting import KEEPERS
from xpr.compile.committed import device_of
from xpr.compile.host import HOST_LIMIT, host_values, runs_on_host, without_warnings
from xpr.compile.lower import lower_jaxpr, lower_operation
from xpr.compile.partition import mesh_of, mesh_with_devices, run_partitioned
from xpr.compile.reference import reference_eval
from xpr.compile.tiering import is_operation_tiered, is_tiered
from xpr.config import native_code_wanted, settings
from xpr.core.avals import ShapedArray, aval_of, is_key
from xpr.core.interpreter import Trace, Tracer, context, install_base
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var, constvars_to_invars, jaxprs_in_params
from xpr.core.memory import MemorySpace
from xpr.core.primitive import Primitive, Unsupported, key_of, no_rule
from xpr.core.result_types import with_unreduced
from xpr.core.source import here
from xpr.errors import UnsupportedRule
from xpr.passes.physical import physical
from xpr.transforms.on_arrays import on_arrays, run_on_arrays

try:
    from xpr.compile import _known_operations
except ImportError:
    _known_operations = None  # type: ignore[assignment]  # a module, where it is built


def _aval(x: Any) -> ShapedArray:
    if isinstance(x, Tracer):
        raise x.misused()
    return aval_of(x)


class OperationPlan:
    """The way to run an operation on operands of some types: in NumPy if `on_host`, else by a compiled program.

    NumPy has to wait for its operands, so an operation on a value that is still being computed runs as a program, and
    stays asynchronous.
    """

    __slots__ = (
        "reference", "on_host", "out_avals", "device", "committed_to", "program", "calls_python", "execute", "handlers",
        "keep",
    )  # fmt: skip

    def __init__(
        self, reference: Any, on_host: bool, out_avals: list[ShapedArray], device: Any, committed_to: Any,
        program: Jaxpr | None = None,
    ):  # fmt: skip
        self.reference, self.on_host, self.out_avals = reference, on_host, out_avals
        self.device, self.committed_to = device, committed_to
        # Of keys the operation on their words; of operands in the host's memory, and where it has effects, itself
        self.program = program
        self.calls_python = False  # then it is `program` that runs, and `execute` remains None
        self.execute: Any = None
        self.handlers: Any = None
        # What the first result is given to, if the process is to wait for it before it ends, see backend/waiting.py
        self.keep: Callable[[Any], None] | None = None

    def compile(self, primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> None:
        if self.calls_python:
            return
        if self.program is None:
            module = Module(self.device.platform)
            module.function(
                "main", avals, lambda b, xs: lower_operation(b, primitive, xs, self.out_avals, params), public=True
            )
        else:
            module = lower_jaxpr(self.program, self.device.platform)
        if module.callbacks:
            self.calls_python, self.program = True, self.program or _jaxpr_of(primitive, tuple(avals), params)
            return
        text, name = module.text(primitive.name), primitive.name
        executable = compiler.compile(
            text, self.out_avals, self.device, name=name, codegen=module.codegen_of_operation(),
            is_tiered=is_operation_tiered(self.out_avals),
        )  # fmt: skip
        path = executable.hot_path()
        self.keep = None if path is None else KEEPERS.get(path[2])
        self.execute = executable.raw.execute_sharded if path is None or self.keep is None else path[0]
        self.handlers = executable.handlers


# The results of an operation that has a plan, if no operand was put on a device by name: what `EvalTrace` does with
# most operations, in C. NotImplemented for others, and where a run fails, which is then tried once more.
run_known: Callable[[Primitive, Sequence[Any], dict[str, Any]], Any] | None = None
if _known_operations is not None and native_code_wanted():
    _known_operations.bind(Array, OperationPlan, settings, without_warnings, _aval, host_value, operand_buffer)
    run_known = _known_operations.run_known


class EvalTrace(Trace):
    """Runs operations."""

    __slots__ = ()
    runs_programs: bool = True  # whether the program of a jitted function runs as it is
    runs_known_calls: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(None)

    def check_transfers(self, args: Sequence[Any], shardings: Sequence[Any]) -> None:
        """Nothing: a guard on transfers is another interpreter, `GuardingTrace`."""

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if run_known is not None:
            results = run_known(primitive, args, params)
            if results is not NotImplemented:
                return results
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
                    key[0] = device_of(args, primitive.name)
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
            plan = None  # an error that is raised below is then not chained to this one
        if plan is None:
            plan = new_plan(primitive, tuple(key), len(args), params)
        if plan.on_host:
            if values is None:
                values = host_values(args, key[1:])
            if values is not None:
                return list(map(Array, plan.out_avals, without_warnings.run(plan.reference, values, **params)))
        if plan.execute is None:
            plan.compile(primitive, key[1 : len(args) + 1], params)
            if plan.calls_python:
                return run_jaxpr(plan.program, args, primitive.name)
        buffers = []
        for x, aval in zip(args, key[1:]):
            buffer = x._buffer if type(x) is Array else None
            buffers.append(operand_buffer(x, aval) if buffer is None else buffer)
        try:
            outs = plan.execute(buffers).consume_with_handlers(plan.handlers)
        except RuntimeError as error:
            on_device = moved(buffers, plan.device, error)
            if on_device is None:
                raise
            outs = plan.execute(on_device).consume_with_handlers(plan.handlers)
        if plan.keep is not None:
            plan.keep(outs[0])
        if plan.committed_to is None:
            return [Array(aval, None, b) for aval, b in zip(plan.out_avals, outs)]
        return [Array(aval, None, b, plan.committed_to) for aval, b in zip(plan.out_avals, outs)]


def new_plan(primitive: Primitive, key: tuple[Any, ...], n_operands: int, params: dict[str, Any]) -> OperationPlan:
    """A plan, memoized with the primitive unless a parameter can't be hashed."""
    if isinstance(primitive.abstract, Unsupported) and isinstance(primitive.reference, Unsupported):
        raise UnsupportedRule(f"{no_rule(primitive.name, 'reference')}. {primitive.abstract.why}")
    plan = make_plan(primitive, key[0], key[1 : n_operands + 1], params)
    try:
        primitive.plans[key] = plan
    except TypeError:
        pass
    return plan


def make_plan(
    primitive: Primitive, device: Any, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> OperationPlan:
    """Types the operation, and decides where it is to run."""
    out_avals = primitive.type_of(avals, params)
    default = devices.default_device()
    runs_on = default if device is None or isinstance(device, str) else device
    committed_to = None if runs_on is default else runs_on
    can_be_on_host = device is None and default.platform == "cpu"
    if any(map(is_key, (*avals, *out_avals))):
        words = physical(_jaxpr_of(primitive, avals, params))
        small = all(aval.size <= HOST_LIMIT for aval in (*avals, *out_avals))
        exact = all(eqn.primitive.is_exact([v.aval for v in eqn.invars]) for eqn in words.eqns)
        on_host = can_be_on_host and small and exact
        return OperationPlan(partial(_reference_on_words, words), on_host, out_avals, runs_on, committed_to, words)
    on_host = can_be_on_host and primitive.is_exact(avals) and runs_on_host(primitive, avals, out_avals, params)
    needs_jaxpr = primitive.effects is not None or any(a.memory_space is MemorySpace.Host for a in avals)
    program = _jaxpr_of(primitive, avals, params) if needs_jaxpr else None
    return OperationPlan(primitive.reference, on_host, out_avals, runs_on, committed_to, program)


def _reference_on_words(words: Jaxpr, values: Sequence[Any], **params: Any) -> list[Any]:
    """The `reference` of an operation on random keys, for words of the keys."""
    return reference_eval(words, (), *values)


def run_on_several(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], sharding: NamedSharding
) -> list[Any]:
    """Runs one operation; some of its operands are on several devices."""
    avals = tuple([x.aval if type(x) is Array else _aval(x) for x in args])
    if context.unreduced:
        params = with_unreduced(primitive, avals, params)
    key: Any = ("several", context.decides_later, *avals, *(key_of(params) if primitive.any_params else params.items()))
    try:
        jaxpr = primitive.plans.get(key)
    except TypeError:  # a parameter can't be hashed
        jaxpr = key = None
    if jaxpr is None:
        jaxpr = _jaxpr_of(primitive, avals, params)
        if key is not None:
            primitive.plans[key] = jaxpr
    return run_partitioned(jaxpr, args, primitive.name, sharding.mesh)


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any], name: str, donated: tuple[int, ...] = ()) -> list[Any]:
    """Runs a jaxpr without constants as one compiled program, memoized with the jaxpr.

    On several devices it may use the memory of the arguments that are `donated`.
    """
    recent = jaxpr.memo.get("recent")
    if recent is not None and recent.settings is settings.trace_key:
        buffers = _buffers_on_no_device(args)
        if buffers is not None:
            executable = recent.executable
            return [Array(aval, None, b) for aval, b in zip(executable.out_avals, executable.run(buffers))]
    if jaxpr.is_high:
        program = on_arrays(jaxpr)
        arguments = [*program.jaxpr.consts, *program.arguments(args)]
        return program.results(args, run_jaxpr(constvars_to_invars(program.jaxpr), arguments, name))
    device = device_of(args, name)
    mesh = mesh_with_devices(mesh_of(jaxpr), device)
    if mesh is not None or type(device) is NamedSharding:
        return run_partitioned(jaxpr, args, name, mesh or device.mesh, donated)
    key = ("executable", device)
    executable = jaxpr.memo.get(key)
    if executable is None:
        executable = jaxpr.memo[key] = _compiled(jaxpr, name, device)
    buffers = [x.buffer if type(x) is Array else operand_buffer(x, _aval(x)) for x in args]
    committed_to = None if device is devices.default_device() else device
    if committed_to is None and not any(a.dtype == dtypes.float0 for a in jaxpr.out_avals):
        jaxpr.memo["recent"] = _Recent(settings.trace_key, executable)
    return [result(v.aval, b, committed_to) for v, b in zip(jaxpr.outvars, executable.run(buffers))]


class _Recent(NamedTuple):
    """The program of a jaxpr that ran last on the default device, and the settings then."""

    settings: Any
    executable: compiler.Executable


def recent_program(jaxpr: Jaxpr) -> compiler.Executable | None:
    """The program of a jaxpr that `run_jaxpr` would run on the default device, under the present settings."""
    recent = jaxpr.memo.get("recent")
    return recent.executable if recent is not None and recent.settings is settings.trace_key else None


def _buffers_on_no_device(args: Sequence[Any]) -> list[Any] | None:
    """The buffers of arguments that are committed to no device; None if one is committed."""
    buffers = []
    for x in args:
        if type(x) is not Array:
            buffers.append(operand_buffer(x, _aval(x)))
        elif x._device is None:
            buffer = x._buffer
            buffers.append(x.buffer if buffer is None else buffer)
        else:
            return None
    return buffers


def _compiled(jaxpr: Jaxpr, name: str, device: Any) -> Any:
    module = lower_jaxpr(jaxpr, device.platform)
    return compiler.compile(
        module.text(name), jaxpr.out_avals, device, name=name, codegen=module.codegen, callbacks=module.callbacks,
        calls_expected=module.calls_expected, is_tiered=is_tiered(jaxpr),
    )  # fmt: skip


def run_operation(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], donated: tuple[int, ...] = ()
) -> list[Any]:
    """Runs an operation that holds jaxprs as a program, memoized with the first of those."""
    jaxpr = operation_jaxpr(primitive, args, params)
    return run_on_arrays(primitive, args, params) if jaxpr.is_high else run_jaxpr(jaxpr, args, primitive.name, donated)


def operation_jaxpr(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Jaxpr:
    """The jaxpr that `run_operation` runs."""
    avals = tuple([x.aval if type(x) is Array else _aval(x) for x in args])
    owner = next(jaxprs_in_params(params))
    key = ("operation", primitive, avals, *sorted(params.items(), key=itemgetter(0)))
    jaxpr = owner.memo.get(key)
    if jaxpr is None:
        jaxpr = owner.memo[key] = _jaxpr_of(primitive, avals, params)
    return jaxpr


def _jaxpr_of(primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Jaxpr:
    """A jaxpr of one operation."""
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in primitive.type_of(avals, params)]
    return Jaxpr([], invars, outvars, [JaxprEqn(invars, outvars, primitive, params, context.source or here(4))])


install_base(EvalTrace())

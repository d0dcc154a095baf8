"""Compiles StableHLO text to executable programs; re-exports buffers.py, for their operands and results."""

from __future__ import annotations

import functools
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import jaxlib.version
import numpy as np

from xpr.backend import failing_calls, hybrid, lapack, native, runtime
from xpr.backend.buffers import (
    Buffer,
    Device,
    block,
    delete,
    device_of,
    dlpack_device,
    from_dlpack,
    get,
    handler_for,
    is_deleted,
    moved,
    put,
    sharding_of,
    to_device,
    to_dlpack,
)
from xpr.backend.callbacks import Callback
from xpr.backend.calling import NO_TIMEOUT, CallingPartitionedExecutable, Copies
from xpr.backend.calling_executable import CallingExecutable
from xpr.backend.executable import Executable, StoredProgram, runnable
from xpr.backend.mlir_bindings import parse
from xpr.backend.portable import refined
from xpr.backend.sharding import Mesh, NamedSharding, as_type_says, sharding_from_proto
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.stablehlo_module import POLYMORPHIC, Codegen, Module
from xpr.backend.tiers import TieredProgram
from xpr.backend.waiting import runs_in_background, watched
from xpr.config import settings
from xpr.core import events
from xpr.core.avals import ShapedArray
from xpr.core.memory import kind_of_space
from xpr.core.specs import axes_of

__all__ = [
    "Buffer", "CallingExecutable", "Device", "Executable", "StoredProgram", "block", "compile", "delete", "device_of",
    "dlpack_device", "from_dlpack", "get", "handler_for", "is_deleted", "moved", "put", "runnable", "sharding_of",
    "to_device", "to_dlpack",
]  # fmt: skip

# XLA:CPU compiles a loop whose state is smaller than this into one kernel, at a few nanoseconds a step; other loops
# pay microseconds a step. XLA's default is 1024 bytes; 64 KiB made the gradient of a scan over 60 scalars 20 times
# faster and nothing slower.
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"
#
# The tiled emitter takes three times as long as the loop emitter to write a kernel, and only transposes are faster, 1.3
# to 4 times if they are large. So programs with such ones have it, and first steps of models are 5-10 % sooner without.
_TILED_EMITTER = "xla_cpu_disable_tiled_emitter"
_EXTRA_OPTIONS: dict[str, dict[str, str]] = {"cpu": {_SMALL_LOOP: "65536", _TILED_EMITTER: "true"}}

# For programs that are better compiled so, see `Module.codegen`. Networks run as fast; what is slower otherwise: small
# loops, reductions that combine rows, and stencils, up to 5 times.
_ROLLED_OPTIONS: dict[str, dict[str, str]] = {"cpu": {"xla_cpu_disable_loop_unrolling": "true"}}

_USUAL = Codegen()

# The fusion emitters make better code for models, and take half of the time that programs of few operations compile.
# From jaxlib 0.11 on there is no choice.
_HAS_OTHER_EMITTERS = jaxlib.version.__version_info__ < (0, 11)
_QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"xla_cpu_use_fusion_emitters": False} if _HAS_OTHER_EMITTERS else {}
}

# For programs that an optimized one replaces if they run for long, see tiers.py.
_UNOPTIMIZED = {"xla_backend_optimization_level": 0, **_QUICK_OPTIONS["cpu"]}

# For programs with functions that are written as arithmetic: these take 1 to 1.7 times as long in vectors of the 256
# bits that XLA prefers on machines that have 512. Other elementwise operations are no slower in wide ones.
_WIDE_OPTIONS: dict[str, dict[str, Any]] = {"cpu": {"xla_cpu_prefer_vector_width": 512}}

process_options: dict[str, Any] = {}  # XLA's flags for all programs of this process; the tests' (conftest.py)


def _recorded(compile_program: Callable[..., Any]) -> Callable[..., Any]:
    """Tells listeners of `xpr.monitoring` how long a program was compiled."""

    @functools.wraps(compile_program)
    def recorded(*args: Any, name: str = "program", **options: Any) -> Any:
        start = time.perf_counter()
        program = compile_program(*args, name=name, **options)
        events.call(events.durations, events.COMPILE, time.perf_counter() - start, fun_name=name)
        return program

    return recorded


@_recorded
def compile(
    text: str,
    out_avals: Sequence[ShapedArray],
    device: Device,
    *,
    name: str = "program",
    options: dict[str, Any] | None = None,
    codegen: Codegen = _USUAL,
    callbacks: Sequence[Callback] = (),
    calls_expected: bool = True,
    is_tiered: bool = False,
) -> Executable:
    """Compiles a module whose `@main` has results of the types `out_avals`.

    An argument that the text marks `jax.buffer_donor` is donated: results may use its buffer. `options` are XLA's
    flags by name; `codegen` says what XLA:CPU is to write. `callbacks` are the Python functions that the module calls,
    and `calls_expected` says whether a run is expected to call any; see NOTE [callbacks that are seldom called]. A
    program with callbacks is not cached on disk, but the one without them. With `is_tiered` a program for the CPU that
    calls none is compiled quickly first, see tiers.py.

    Raises:
      ValueError: XLA has no such option, or not with such a value; or the device is another process's.
    """
    text = _linked(text)
    if device.process_index != device.client.process_index():
        raise ValueError(
            f"The program {name} is to run on {device}, a device of process {device.process_index}, and this is "
            f"process {device.client.process_index()}. A program on one device runs in the process that has it."
        )
    if callbacks:

        def compile_for(target: Device) -> Any:
            return compile_text(text, target, _compile_options(target, options, codegen), callbacks)

        without_calls = None
        if device.platform == "cpu" and out_avals and not (calls_expected or failing_calls.has_other_effects(text)):
            compile_options = _compile_options(device, options, codegen)
            failing, stubs = _linked(failing_calls.of(text)), failing_calls.STUBS
            compiled = _tiered_executable if is_tiered and not options else _compiled_executable
            without_calls = compiled(failing, out_avals, device, name, compile_options, stubs)
        return CallingExecutable(compile_for, out_avals, device, name, without_calls)
    if is_tiered and device.platform == "cpu" and not options:
        return _tiered_executable(text, out_avals, device, name, _compile_options(device, options, codegen))
    return _compiled_executable(text, out_avals, device, name, _compile_options(device, options, codegen))


def _compiled_executable(
    text: str, out_avals: Sequence[ShapedArray], device: Device, name: str, compile_options: Any,
    stubs: Sequence[Any] = (),
) -> Executable:  # fmt: skip
    raw, file = _compiled_once(text, device, compile_options, stubs)
    stored = None
    if file is not None:
        calls = tuple(library for library, each in LIBRARIES.items() if each.is_called_by(text))
        stored = StoredProgram(file, compile_options.SerializeAsString(), _LOOP in text, calls)
    return Executable(watched(runnable(raw, out_avals, device), text, device.platform), out_avals, device, name, stored)


def _tiered_executable(
    text: str, out_avals: Sequence[ShapedArray], device: Device, name: str, compile_options: Any,
    stubs: Sequence[Any] = (),
) -> Executable:  # fmt: skip
    """The optimized program where it is known already, and otherwise the quick one, which it may replace."""

    def optimized() -> Executable:
        return _compiled_executable(text, out_avals, device, name, compile_options, stubs)

    key, file = _key_of(text, device, compile_options)
    if key in _recent or _is_stored(file):
        return optimized()
    start = time.perf_counter()
    quick = _compiled_executable(text, out_avals, device, name, _updated(compile_options, _UNOPTIMIZED), stubs)
    seconds = time.perf_counter() - start
    program = TieredProgram(quick.raw, lambda: optimized().raw, seconds, runs_in_background(quick.raw))
    return Executable(program, out_avals, device, name)


def load_stored(
    stored: StoredProgram, out_avals: Sequence[ShapedArray], device: Device, name: str
) -> Executable | None:
    """The program from the cache on disk; None where it is not there any more."""
    for library in stored.calls:
        LIBRARIES[library].register()
    raw, _ = _recent.get((stored.file, device, settings.programs_folder), (None, True))
    if raw is None:
        raw = _disk_cache().load(stored.file, device, runtime._jax.CompileOptions.ParseFromString(stored.options))
    if raw is None:
        return None
    program = watched(runnable(raw, out_avals, device), _LOOP if stored.has_loops else "", device.platform)
    return Executable(program, out_avals, device, name, stored)


LIBRARIES = {"lapack": lapack, "hybrid": hybrid, "native": native, "failing_calls": failing_calls}
_LOOP = "stablehlo.while"

_recent: OrderedDict[Any, Any] = OrderedDict()  # small programs by their text, or their file's name, the latest last
_RECENT_PROGRAMS, _RECENT_TEXT = 256, 1 << 16  # how many, and of what length at most


def forget_recent() -> None:
    """Clears the cache of small programs."""
    _recent.clear()


def _compiled_once(text: str, device: Device, options: Any, stubs: Sequence[Any]) -> tuple[Any, str | None]:
    """A program, the same one for the same text if it is small: a function may be defined and traced anew.

    `stubs` are callbacks that it doesn't call, of a text that no other program has.

    Returns:
      The program, and the name of its file in the cache on disk; None where it isn't there.
    """
    key, file = _key_of(text, device, options)
    known = _recent.pop(key, None)
    if known is None:
        if file is not None:
            known = _disk_cache().load_or_compile(file, text, device, options, compile_text, stubs)
        else:
            known = compile_text(text, device, options, stubs), False
    if len(text) <= _RECENT_TEXT:
        _recent[key] = known
        if len(_recent) > _RECENT_PROGRAMS:
            _recent.popitem(last=False)
    raw, is_stored = known
    return raw, file if is_stored else None


def _disk_cache() -> Any:
    """The module of the cache on disk, whose 10 ms of imports most processes never need."""
    from xpr.backend import cache

    return cache


def _key_of(text: str, device: Device, options: Any) -> tuple[Any, str | None]:
    """The key of a program among the small ones, and the name of its file; None where programs are not kept."""
    if not settings.programs_folder:
        return (text, device, options.SerializeAsString()), None
    file = _disk_cache().key_of(text, device, options)
    return (file, device, settings.programs_folder), file


def _is_stored(file: str | None) -> bool:
    """Whether the cache on disk has a file."""
    if file is None:
        return False
    folder = _disk_cache().folder_in_use()
    return folder is not None and (folder / file).exists()


@_recorded
def compile_partitioned(
    module: Module,
    text: str,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None],
    *,
    name: str = "program",
    options: dict[str, Any] | None = None,
) -> PartitionedExecutable:
    """Compiles a module, with its text, for the devices of its mesh; where a sharding is None the compiler chooses one.

    Raises:
      ValueError: XLA has no such option, or not with such a value.
    """
    mesh: Any = module.mesh
    text, codegen, callbacks = _linked(text), module.codegen, module.callbacks

    def compile_for(target: Mesh, called: Sequence[Any] = ()) -> Any:
        all_options = {**(NO_TIMEOUT if called else {}), **(options or {})}
        compile_options = _over(target, _compile_options(target.flat[0], all_options, codegen))
        build = compile_options.executable_build_options
        # At least one element; one for each argument and result otherwise.
        build.allow_spmd_sharding_propagation_to_parameters = [s is None for s in in_shardings] or [False]
        build.allow_spmd_sharding_propagation_to_output = [s is None for s in out_shardings] or [False]
        try:
            return _compiled(text, target.flat, compile_options, called)
        except RuntimeError as error:
            _raise_if_option(error)
            raise

    copies = Copies(compile_for, mesh, callbacks, module.kept) if callbacks else None
    raw = copies.current().raw if copies else compile_for(mesh)
    chosen_in = _chosen(in_shardings, in_avals, mesh, raw.get_parameter_shardings)
    chosen_out = _chosen(out_shardings, out_avals, mesh, raw.get_output_shardings)
    as_arguments = _as_arguments(chosen_out, out_avals, chosen_in, in_avals)
    chosen_out = [
        as_type_says(named, aval).with_memory_kind(kind_of_space(aval.memory_space)) if asked is None else asked
        for named, asked, aval in zip(as_arguments, out_shardings, out_avals)
    ]
    about = out_avals, mesh.flat, name, chosen_in, chosen_out
    return CallingPartitionedExecutable(copies, *about) if copies else PartitionedExecutable(raw, *about)


def _over(mesh: Mesh, options: Any) -> Any:
    """The options for a program that XLA partitions over devices."""
    ids = np.array([[device.id for device in mesh.flat]], np.int32)
    build = options.executable_build_options
    options.device_assignment = build.device_assignment = runtime._jax.DeviceAssignment.create(ids)
    options.num_partitions = build.num_partitions = mesh.size
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    return options


def _as_arguments(
    chosen: Sequence[NamedSharding], avals: Sequence[ShapedArray],
    arguments: Sequence[NamedSharding], in_avals: Sequence[ShapedArray],
) -> list[NamedSharding]:  # fmt: skip
    """Shardings of results as the compiler chose them, by the specs of the first arguments that are sharded alike.

    Those name axes of size 1, of which the compiler knows nothing, and have the elements None that the user wrote.
    """
    known: dict[Any, NamedSharding] = {}
    for sharding, aval in zip(arguments, in_avals):
        known.setdefault(_partitioned_axes(sharding, aval.ndim), sharding)
    return [known.get(_partitioned_axes(sharding, aval.ndim), sharding) for sharding, aval in zip(chosen, avals)]


def _partitioned_axes(sharding: NamedSharding, rank: int) -> Any:
    """What a sharding says of arrays with `rank` axes, without axes of size 1."""
    spec, sizes = sharding.spec, sharding.mesh.shape
    parts = [tuple([name for name in axes_of(part) if sizes[name] > 1]) for part in spec]
    return rank, sharding.mesh, *parts, *[()] * (rank - len(parts)), spec.unreduced, spec.reduced


def _chosen(
    requested: Sequence[NamedSharding | None], avals: Sequence[ShapedArray], mesh: Mesh, protos_of: Callable[[], Any]
) -> list[NamedSharding]:
    if None not in requested:
        return list(requested)  # type: ignore[arg-type]  # none is None
    protos = protos_of()
    if protos is None or len(protos) != len(requested):  # a single device, on which nothing is partitioned
        chosen = [NamedSharding(mesh)] * len(requested)
    else:
        chosen = [sharding_from_proto(proto, mesh, aval.ndim) for proto, aval in zip(protos, avals)]
    return [
        named.with_memory_kind(kind_of_space(aval.memory_space)) if asked is None else asked
        for asked, named, aval in zip(requested, chosen, avals)
    ]


def compile_text(text: str, device: Device, options: Any, callbacks: Sequence[Callback] = ()) -> Any:
    try:
        return _compiled(text, [device], options, callbacks)
    except RuntimeError as error:
        _raise_if_option(error)
        if "Unknown MLIR failure" not in str(error):
            raise
    # One kernel fused from about 2000 elementwise operations is more than the fusion emitters can take.
    unfused = _QUICK_OPTIONS.get(device.platform) or {"xla_disable_hlo_passes": "fusion"}
    return _compiled(text, [device], _updated(options, unfused), callbacks)


def _compiled(text: str, devices: Sequence[Device], options: Any, callbacks: Sequence[Any]) -> Any:
    client = devices[0].client
    module: Any = refined(text) if POLYMORPHIC in text.partition("\n")[0] else text
    if not callbacks:
        return client.compile_and_load(module, list(devices), options)
    return client.compile_and_load(parse(module), runtime._jax.DeviceList(tuple(devices)), options, list(callbacks))


def _raise_if_option(error: RuntimeError) -> None:
    message = str(error)
    if unknown := re.search(r"No such compile option: '(.*?)'", message):
        raise _option_error()(
            f"No such compile option: {unknown[1]!r}. The options are XLA's flags, spelled like "
            "'xla_cpu_enable_fast_math' and without dashes; see xla.proto's DebugOptions."
        ) from error
    if bad := re.search(r"While setting option (\S+), (.*)", message):
        raise _option_error()(f"The compiler option {bad[1]!r} has a wrong value: {bad[2]}") from error


@functools.cache
def _option_error() -> type[Exception]:
    """A ValueError that is jaxlib's error, too, whose class is not there before jaxlib is imported."""
    return type("CompilerOptionError", (runtime._jax.JaxRuntimeError, ValueError), {"__module__": __name__})


def _linked(text: str) -> str:
    """Makes known to XLA the functions that a program calls; returns its text with their names in this process."""
    if lapack.is_called_by(text):
        lapack.register()
        text = lapack.threaded(text)
    for library in (hybrid, native, failing_calls):
        if library.is_called_by(text):
            library.register()
    return text


# -- Options


def _compile_options(device: Device, overrides: dict[str, Any] | None, codegen: Codegen = _USUAL) -> Any:
    overrides = _checked(overrides or {})
    extra = dict(_EXTRA_OPTIONS.get(device.platform, {}))
    if codegen.tiled:
        extra.pop(_TILED_EMITTER, None)
    if not codegen.unrolled:
        extra.update(_ROLLED_OPTIONS.get(device.platform, {}))
    for option in extra.keys() & overrides.keys():
        extra[option] = str(overrides.pop(option))
    efforts = {name: overrides.pop(name) for name in _EFFORTS if name in overrides}
    chosen = dict(_QUICK_OPTIONS.get(device.platform, {})) if codegen.quick else {}
    if codegen.wide:
        chosen |= _WIDE_OPTIONS.get(device.platform, {})
    flags = {**process_options, **chosen, **overrides}
    options = _updated(_with_extra_options(options_for(device), extra), flags)
    for name, value in efforts.items():
        if not hasattr(options.executable_build_options, name):
            raise ValueError(f"The XLA of jaxlib {jaxlib.version.__version__} has no compiler option {name!r}.")
        setattr(options.executable_build_options, name, value)
    return options


# The compiler options that are no flags of XLA: how hard it is to try. A jaxlib need not have them all.
_EFFORTS = ("exec_time_optimization_effort", "memory_fitting_effort", "memory_fitting_level", "optimization_level")


def options_for(device: Device) -> Any:
    """Options that assign the program to the device: it would otherwise belong to the first one."""
    options = runtime._jax.CompileOptions()
    assignment = runtime._jax.DeviceAssignment.create(
        np.array([[device.id]], np.int32)
    )  # indexed by replica and partition
    options.device_assignment = options.executable_build_options.device_assignment = assignment
    return options


def _checked(flags: dict[str, Any]) -> dict[str, Any]:
    for name, value in flags.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"The compiler option {name!r} must be a bool, a number or a string, not {value!r}.")
    return dict(flags)


def _updated(options: Any, flags: dict[str, Any]) -> Any:
    """A copy of the options with more flags; a flag given twice has its later value."""
    copy = runtime._jax.CompileOptions.ParseFromString(options.SerializeAsString())
    copy.env_option_overrides = list({**dict(copy.env_option_overrides), **flags}.items())
    return copy


def _with_extra_options(options: Any, extra: dict[str, str]) -> Any:
    """The options with items added to `xla_backend_extra_options`, a map that jaxlib gives no access to.

    Protocol buffers merge when their bytes are put one after the other, so a message that holds the map alone is
    appended: CompileOptionsProto.executable_build_options = 3, its .debug_options = 3, its
    .xla_backend_extra_options = 500, and of each item the key = 1 and the value = 2.
    """
    message = options.SerializeAsString()
    for key, value in extra.items():
        item = _field(1, key.encode()) + _field(2, value.encode())
        message += _field(3, _field(3, _field(500, item)))
    return runtime._jax.CompileOptions.ParseFromString(message)


def _field(number: int, payload: bytes) -> bytes:
    """A protocol buffer field that holds bytes: tag, length, payload."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(n: int) -> bytes:
    """An integer in groups of seven bits, the lowest first, with the high bit set on all but the last."""
    groups = []
    while n > 0x7F:
        groups.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*groups, n])

"""Compiles StableHLO text to executable programs, for one device or for the devices of a mesh."""

from __future__ import annotations

import functools
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import failing_calls, hlo_transformations, hybrid, lapack, mappings, native, runtime
from xpr.backend.buffers import Device
from xpr.backend.callbacks import Callback
from xpr.backend.calling import NO_TIMEOUT, CallingPartitionedExecutable, Copies
from xpr.backend.calling_executable import CallingExecutable
from xpr.backend.codegen import Codegen, codegen_of_text
from xpr.backend.compile_options import (
    compile_options,
    plain_emitters,
    unoptimized_options,
    updated,
    with_small_loops_alone,
)
from xpr.backend.executable import Executable, StoredProgram, runnable
from xpr.backend.hlo_shardings import as_type_says, sharding_from_proto
from xpr.backend.mlir_bindings import parse
from xpr.backend.portable import refined
from xpr.backend.sharding import Mesh, NamedSharding
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.stablehlo_module import POLYMORPHIC, Module
from xpr.backend.tiers import TieredProgram
from xpr.backend.waiting import runs_in_background, watched
from xpr.config import settings
from xpr.core import events
from xpr.core.avals import ShapedArray
from xpr.core.memory import kind_of_space
from xpr.core.specs import axes_of

_USUAL = Codegen()


def _recorded(compile_program: Callable[..., Any]) -> Callable[..., Any]:
    """Sees to it that a program can have memory; tells listeners of `xpr.monitoring` how long it was compiled."""

    @functools.wraps(compile_program)
    def recorded(*args: Any, name: str = "program", **options: Any) -> Any:
        mappings.before_compiling()
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
    text, codegen = _linked(text), codegen_of_text(codegen, text)
    if device.process_index != device.client.process_index():
        raise ValueError(
            f"The program {name} is to run on {device}, a device of process {device.process_index}, and this is "
            f"process {device.client.process_index()}. A program on one device runs in the process that has it."
        )
    if callbacks:

        def compile_for(target: Device) -> Any:
            return compile_text(text, target, compile_options(target, options, codegen), callbacks)

        without_calls = None
        if device.platform == "cpu" and out_avals and not (calls_expected or failing_calls.has_other_effects(text)):
            raw_options = compile_options(device, options, codegen)
            failing, stubs = _linked(failing_calls.of(text)), failing_calls.STUBS
            compiled = _tiered_executable if is_tiered and not options else _compiled_executable
            without_calls = compiled(failing, out_avals, device, name, raw_options, stubs)
        return CallingExecutable(compile_for, out_avals, device, name, without_calls)
    if is_tiered and device.platform == "cpu" and not options:
        return _tiered_executable(text, out_avals, device, name, compile_options(device, options, codegen))
    return _compiled_executable(text, out_avals, device, name, compile_options(device, options, codegen))


def _compiled_executable(
    text: str, out_avals: Sequence[ShapedArray], device: Device, name: str, raw_options: Any,
    stubs: Sequence[Any] = (),
) -> Executable:  # fmt: skip
    raw, file, was_read = _compiled_once(text, device, raw_options, stubs)
    has_loops, has_calls, stored = "stablehlo.while" in text, "custom_call" in text, None
    if file is not None:
        calls = tuple(library for library, each in LIBRARIES.items() if each.is_called_by(text))
        stored = StoredProgram(file, raw_options.SerializeAsString(), has_loops, has_calls, calls)
    program = watched(runnable(raw, out_avals, device), has_loops, has_calls, device.platform)
    return Executable(program, out_avals, device, name, stored, was_read)


def _tiered_executable(
    text: str, out_avals: Sequence[ShapedArray], device: Device, name: str, raw_options: Any,
    stubs: Sequence[Any] = (),
) -> Executable:  # fmt: skip
    """The optimized program where it is known already, and otherwise the quick one, which it may replace."""

    def optimized() -> Executable:
        return _compiled_executable(text, out_avals, device, name, raw_options, stubs)

    key, file = _key_of(text, device, raw_options)
    if key in _recent or _is_stored(file):
        return optimized()
    start = time.perf_counter()
    quick = _compiled_executable(
        text, out_avals, device, name, updated(raw_options, unoptimized_options(device.platform)), stubs
    )
    seconds = time.perf_counter() - start
    program = TieredProgram(quick.raw, lambda: optimized().raw, seconds, runs_in_background(quick.raw))
    return Executable(program, out_avals, device, name)


def load_stored(
    stored: StoredProgram, out_avals: Sequence[ShapedArray], device: Device, name: str
) -> Executable | None:
    """The program from the cache on disk; None where it is not there any more, or may be another one."""
    if hlo_transformations.active:
        return None
    for library in stored.calls:
        LIBRARIES[library].register()
    raw, _, was_read = _recent.get((stored.file, device, settings.programs_folder), (None, True, True))
    if raw is None:
        raw = _disk_cache().load(stored.file, device, runtime._jax.CompileOptions.ParseFromString(stored.options))
    if raw is None:
        return None
    program = watched(runnable(raw, out_avals, device), stored.has_loops, stored.has_calls, device.platform)
    return Executable(program, out_avals, device, name, stored, was_read)


LIBRARIES = {"lapack": lapack, "hybrid": hybrid, "native": native, "failing_calls": failing_calls}

_recent: OrderedDict[Any, Any] = OrderedDict()  # small programs by their text, or their file's name, the latest last
_RECENT_PROGRAMS, _RECENT_TEXT = 256, 1 << 16  # how many, and of what length at most


def forget_recent() -> None:
    """Clears the cache of small programs."""
    _recent.clear()


def _compiled_once(text: str, device: Device, options: Any, stubs: Sequence[Any]) -> tuple[Any, str | None, bool]:
    """A program, the same one for the same text if it is small: a function may be defined and traced anew.

    `stubs` are callbacks that it doesn't call, of a text that no other program has.

    Returns:
      The program; the name of its file in the cache on disk, or None where it isn't there; and whether it was read.
    """
    key, file = _key_of(text, device, options)
    known = _recent.pop(key, None)
    if known is None:
        if file is not None:
            known = _disk_cache().load_or_compile(file, text, device, options, compile_text, stubs)
        else:
            known = compile_text(text, device, options, stubs), False, False
    _remember(key, known, text)
    raw, is_stored, was_read = known
    return raw, file if is_stored else None, was_read


def _partitioned_once(text: str, devices: Sequence[Device], options: Any) -> Any:
    """A program on several devices; the same one for the same text if it is small and the devices are of one process.

    Several processes compile a program together, so each has to compile it whenever the others do.
    """
    if len({device.process_index for device in devices}) > 1:
        return _compiled(text, devices, options, ())
    key = text, tuple(devices), options.SerializeAsString()
    raw = _recent.pop(key, None)
    if raw is None:
        raw = _compiled(text, devices, options, ())
    _remember(key, raw, text)
    return raw


def _remember(key: Any, program: Any, text: str) -> None:
    """Keeps a small program as the one that was used last, and drops the one that was not used for longest."""
    if len(text) <= _RECENT_TEXT:
        _recent[key] = program
        if len(_recent) > _RECENT_PROGRAMS:
            _recent.popitem(last=False)


def _disk_cache() -> Any:
    """The module of the cache on disk, whose 10 ms of imports most processes never need."""
    from xpr.backend import cache

    return cache


def _key_of(text: str, device: Device, options: Any) -> tuple[Any, str | None]:
    """The key of a program among the small ones, and the name of its file; None where programs are not kept."""
    if not settings.programs_folder or hlo_transformations.active:
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
    text, codegen, callbacks = _linked(text), codegen_of_text(module.codegen, text), module.callbacks

    def compile_for(target: Mesh, called: Sequence[Any] = ()) -> Any:
        all_options = {**(NO_TIMEOUT if called else {}), **(options or {})}
        raw_options = _over(target, compile_options(target.flat[0], all_options, codegen))
        build = raw_options.executable_build_options
        # At least one element; one for each argument and result otherwise.
        build.allow_spmd_sharding_propagation_to_parameters = [s is None for s in in_shardings] or [False]
        build.allow_spmd_sharding_propagation_to_output = [s is None for s in out_shardings] or [False]
        try:
            if called:
                return _compiled(text, target.flat, raw_options, called)
            return _partitioned_once(text, target.flat, raw_options)
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
    """A key: equal for shardings of arrays with `rank` axes that differ in axes of the mesh of size 1 alone."""
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
    plain = plain_emitters(device.platform)
    return _compiled(text, [device], updated(options, plain or {"xla_disable_hlo_passes": "fusion"}), callbacks)


def _compiled(text: str, devices: Sequence[Device], options: Any, callbacks: Sequence[Any]) -> Any:
    try:
        return _compiled_as_asked(text, devices, options, callbacks)
    except RuntimeError as error:
        if not any(each in str(error) for each in _OF_LARGE_LOOPS):
            raise
    return _compiled_as_asked(text, devices, with_small_loops_alone(options), callbacks)


_OF_LARGE_LOOPS = "Failed to materialize symbols", "verifyModule"  # see `with_small_loops_alone`


def _compiled_as_asked(text: str, devices: Sequence[Device], options: Any, callbacks: Sequence[Any]) -> Any:
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

"""StableHLO text in, an executable program out; and, gathered from buffers.py, what feeds it and reads its results.

The hot path of a call is `executable.run(buffers)`: two calls into jaxlib, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import lapack, runtime
from xpr.backend.allocator import machine_memory
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
from xpr.backend.callbacks import Callback, callback_depth, client_of_depth, kept_exception, parse
from xpr.backend.calling import PATIENT, CallingPartitionedExecutable, Copies
from xpr.backend.sharding import Mesh, NamedSharding, sharding_from_proto
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.waiting import watched
from xpr.config import settings
from xpr.core.avals import ShapedArray

__all__ = [
    "Buffer", "Device", "Executable", "block", "compile", "delete", "device_of", "dlpack_device", "from_dlpack", "get",
    "handler_for", "is_deleted", "moved", "put", "sharding_of", "to_device", "to_dlpack",
]  # fmt: skip

# XLA:CPU compiles a loop whose state is smaller than this into one kernel, at a few nanoseconds a step; other loops
# pay microseconds a step. XLA's default is 1024 bytes; 64 KiB made the gradient of a scan over 60 scalars 20 times
# faster and nothing slower.
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"
#
# The tiled emitter takes three times as long as the loop emitter to write a kernel, which is no faster on the whole:
# transposing a matrix of a million entries takes 1.3 times as long without it, one of 16 million 0.6 times, all else
# the same. First steps of models are 5-10 % sooner without it.
_TILED_EMITTER = "xla_cpu_disable_tiled_emitter"
_EXTRA_OPTIONS: dict[str, dict[str, str]] = {"cpu": {_SMALL_LOOP: "65536", _TILED_EMITTER: "true"}}

# For programs that are better compiled so, see `Module.unrolled`. Networks run as fast; what is slower otherwise: small
# loops, reductions that combine rows, and stencils, up to 5 times.
_ROLLED_OPTIONS: dict[str, dict[str, str]] = {"cpu": {"xla_cpu_disable_loop_unrolling": "true"}}

# The fusion emitters make better code for models and twice the compile time for programs of one operation.
_QUICK_OPTIONS: dict[str, dict[str, Any]] = {"cpu": {"xla_cpu_use_fusion_emitters": False}}
_missing_options: set[str] = set()  # those of the above that turned out not to exist: jaxlib 0.11 has no such choice


class Executable:
    """A compiled program on one device. Callers on the hottest path may use `raw` and `handlers` themselves."""

    __slots__ = ("__weakref__", "device", "handlers", "name", "out_avals", "raw")

    def __init__(self, raw: Any, out_avals: Sequence[ShapedArray], device: Device, name: str):
        self.raw = raw
        self.handlers = [handler_for(aval, device) for aval in out_avals]
        self.out_avals, self.device, self.name = tuple(out_avals), device, name

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.device}>"

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program. Long ones go on in the background, and their errors come up where a result is read.

        Raises:
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: what XLA has to say.
        """
        try:
            return self.raw.execute_sharded(buffers).consume_with_handlers(self.handlers)
        except RuntimeError as error:
            here = moved(buffers, self.device, error)
            if here is None:
                error.add_note(f"In the program {self.name}.")
                raise
        return self.run(here)

    def hot_path(self) -> tuple[Callable[[list[Buffer]], Any], list[Any] | None]:
        """What runs it on buffers that are all there, and the handlers of its results; None if it gives buffers."""
        return self.raw.execute_sharded, self.handlers

    def as_text(self) -> str:
        """The optimized program, in HLO."""
        return "\n\n".join(module.to_string() for module in self.raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """What XLA estimates of the optimized program: flops, bytes accessed, transcendentals."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """The sizes in bytes of arguments, outputs, temporaries, aliases, code and the peak, as attributes."""
        return self.raw.get_compiled_memory_stats()


class _WithoutMemory:
    """What stands for a program that needs more memory than the machine has: it can be looked at, and not run.

    Programs run in the background, so the system would end the process while it writes results.
    """

    __slots__ = ("_needed", "_out_avals", "_raw")

    def __init__(self, raw: Any, needed: int, out_avals: Sequence[ShapedArray]):
        self._raw, self._needed, self._out_avals = raw, needed, out_avals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute_sharded(self, *_: Any, **__: Any) -> Any:
        stats = self._raw.get_compiled_memory_stats()
        sizes = {"arguments": stats.argument_size_in_bytes, "results": stats.output_size_in_bytes,
                 "temporaries": stats.temp_size_in_bytes}  # fmt: skip
        largest = sorted(set(self._out_avals), key=lambda aval: -aval.size * aval.dtype.itemsize)[:3]
        raise runtime._jax.JaxRuntimeError(
            f"RESOURCE_EXHAUSTED: Out of memory: the program needs {_gibibytes(self._needed)} "
            f"({', '.join(f'{name} {_gibibytes(n)}' for name, n in sizes.items())}), and the machine has "
            f"{_gibibytes(machine_memory() or 0)}. Its results are of types "
            f"{', '.join(aval.str_short() for aval in largest)}{', ...' if len(set(self._out_avals)) > 3 else ''}. "
            "Make less at a time, in pieces say; for a gradient, see xpr.checkpoint."
        )


def _gibibytes(n: int) -> str:
    return f"{n / 2**30:,.1f} GiB"


def _runnable(raw: Any, out_avals: Sequence[ShapedArray], device: Device) -> Any:
    """The program, if the machine has the memory that it needs; else what says so when it is run."""
    most = machine_memory() if device.platform == "cpu" else None
    if most is None:
        return raw
    stats = raw.get_compiled_memory_stats()
    needed = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    needed -= stats.alias_size_in_bytes
    return _WithoutMemory(raw, needed, out_avals) if needed > most else raw


class CallingExecutable(Executable):
    """A program that calls Python functions; it is waited for, see NOTE [programs with callbacks]."""

    __slots__ = ("_compile_for", "_programs")

    def __init__(
        self, compile_for: Callable[[Device], Any], out_avals: Sequence[ShapedArray], device: Device, name: str
    ):
        self._compile_for = compile_for
        self._programs: dict[Device, Any] = {}
        super().__init__(self._program_on(_device_for_callbacks()), out_avals, device, name)

    def _program_on(self, device: Device) -> Any:
        if device not in self._programs:
            self._programs[device] = self._compile_for(device)
        return self._programs[device]

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program and waits for it.

        Raises:
          Exception: what a callback raised, as itself.
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: what XLA has to say.
        """
        device = _device_for_callbacks()
        program = self._program_on(device)
        sent = [put(get(b, b.aval), b.aval, device, copy=False) for b in buffers]
        try:
            outs = self._run_on(device, program, sent)
        except RuntimeError as failure:
            error = kept_exception(failure)
            if error is None:
                failure.add_note(f"In the program {self.name}.")
                raise
        else:
            return [put(get(b, aval), aval, self.device, copy=False) for b, aval in zip(outs, self.out_avals)]
        raise error

    def hot_path(self) -> tuple[Callable[[list[Buffer]], Any], list[Any] | None]:
        return self.run, None

    def _run_on(self, device: Device, program: Any, buffers: list[Buffer]) -> list[Buffer]:
        results = program.execute_sharded(buffers, with_tokens=True)
        outs = results.consume_with_handlers([handler_for(aval, device) for aval in self.out_avals])
        results.consume_token().block_until_ready()  # effects that no result depends on
        block(outs)
        return outs


def _device_for_callbacks() -> Device:
    return client_of_depth(callback_depth(), 1).local_devices()[0]


def compile(
    text: str,
    out_avals: Sequence[ShapedArray],
    device: Device,
    *,
    name: str = "program",
    options: dict[str, Any] | None = None,
    quick: bool = False,
    unrolled: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Executable:
    """Compiles a module whose `@main` has results of the types `out_avals`.

    An argument that the text marks `jax.buffer_donor` is donated: results may use its buffer. `options` are XLA's own
    flags by name. `quick` is for programs of one operation, where compiling costs more than running; `unrolled` says
    whether loops are unrolled. `callbacks` are the Python functions that the module calls; a program that has any is
    not kept on disk.

    Raises:
      ValueError: XLA has no such option, or not with such a value; or the device is another process's.
    """
    lapack.register_for(text)
    if device.process_index != device.client.process_index():
        raise ValueError(
            f"The program {name} is to run on {device}, a device of process {device.process_index}, and this is "
            f"process {device.client.process_index()}. A program on one device runs in the process that has it."
        )
    if callbacks:

        def compile_for(place: Device) -> Any:
            return _compile_raw(text, place, _compile_options(place, options, quick, unrolled), callbacks)

        return CallingExecutable(compile_for, out_avals, device, name)
    made_options = _compile_options(device, options, quick, unrolled)
    if settings.compilation_cache_dir:
        from xpr.backend import cache  # 10 ms of imports that most processes never need

        raw = cache.load_or_compile(text, device, made_options, _compile_raw)
    else:
        raw = _compile_raw(text, device, made_options)
    return Executable(watched(_runnable(raw, out_avals, device), text), out_avals, device, name)


def compile_partitioned(
    text: str,
    out_avals: Sequence[ShapedArray],
    mesh: Mesh,
    in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None],
    in_ranks: Sequence[int],
    *,
    name: str = "program",
    options: dict[str, Any] | None = None,
    unrolled: bool = True,
    callbacks: Sequence[Callback] = (),
) -> PartitionedExecutable:
    """Compiles a module for the devices of a mesh; where a sharding is None the compiler chooses one.

    Raises:
      ValueError: XLA has no such option, or not with such a value.
    """
    lapack.register_for(text)

    def compile_for(place: Mesh, called: Sequence[Any] = ()) -> Any:
        own = {**(PATIENT if called else {}), **(options or {})}
        made = _over(place, _compile_options(place.flat[0], own, unrolled=unrolled))
        build = made.executable_build_options
        # At least one entry; one for each argument and result otherwise.
        build.allow_spmd_sharding_propagation_to_parameters = [s is None for s in in_shardings] or [False]
        build.allow_spmd_sharding_propagation_to_output = [s is None for s in out_shardings] or [False]
        try:
            return _compiled(text, place.flat, made, called)
        except RuntimeError as error:
            _raise_if_option(error)
            raise

    copies = Copies(compile_for, mesh, callbacks) if callbacks else None
    raw = copies.here().raw if copies else compile_for(mesh)
    chosen_in = _chosen(in_shardings, in_ranks, mesh, raw.get_parameter_shardings)
    chosen_out = _chosen(out_shardings, [aval.ndim for aval in out_avals], mesh, raw.get_output_shardings)
    about = out_avals, mesh.flat, name, chosen_in, chosen_out
    return CallingPartitionedExecutable(copies, *about) if copies else PartitionedExecutable(raw, *about)


def _over(mesh: Mesh, options: Any) -> Any:
    """The options for a program that XLA cuts into one part for each device."""
    ids = np.array([[device.id for device in mesh.flat]], np.int32)
    build = options.executable_build_options
    options.device_assignment = build.device_assignment = runtime._jax.DeviceAssignment.create(ids)
    options.num_partitions = build.num_partitions = mesh.size
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    return options


def _chosen(
    asked: Sequence[NamedSharding | None], ranks: Sequence[int], mesh: Mesh, found: Callable[[], Any]
) -> list[NamedSharding]:
    if None not in asked:
        return list(asked)  # type: ignore[arg-type]  # none is None
    protos = found()
    if protos is None or len(protos) != len(asked):  # a single device, on which nothing is cut
        return [NamedSharding(mesh) if want is None else want for want in asked]
    return [
        sharding_from_proto(proto, mesh, rank) if want is None else want
        for want, proto, rank in zip(asked, protos, ranks)
    ]


def _compile_raw(text: str, device: Device, options: Any, callbacks: Sequence[Callback] = ()) -> Any:
    try:
        return _compiled(text, [device], options, callbacks)
    except RuntimeError as error:
        if own := _own_option_missing(device, error):
            _missing_options.add(own)
            return _compile_raw(text, device, _without(options, own), callbacks)
        _raise_if_option(error)
        if "Unknown MLIR failure" not in str(error):
            raise
    # One kernel fused from about 2000 elementwise operations is more than the fusion emitters can take.
    unfused = _quick_options(device) or {"xla_disable_hlo_passes": "fusion"}
    return _compiled(text, [device], _updated(options, unfused), callbacks)


def _compiled(text: str, devices: Sequence[Device], options: Any, callbacks: Sequence[Any]) -> Any:
    client = devices[0].client
    if not callbacks:
        return client.compile_and_load(text, list(devices), options)
    return client.compile_and_load(parse(text), runtime._jax.DeviceList(tuple(devices)), options, list(callbacks))


def _own_option_missing(device: Device, error: RuntimeError) -> str | None:
    """The option of our own choosing that this release of XLA doesn't know, if that is what went wrong."""
    unknown = re.search(r"No such compile option: '(.*?)'", str(error))
    return unknown[1] if unknown and unknown[1] in _quick_options(device) else None


def _raise_if_option(error: RuntimeError) -> None:
    message = str(error)
    if unknown := re.search(r"No such compile option: '(.*?)'", message):
        raise ValueError(
            f"XLA has no compiler option {unknown[1]!r}. The options are XLA's flags, spelled like "
            "'xla_cpu_enable_fast_math' and without dashes; see xla.proto's DebugOptions."
        ) from error
    if bad := re.search(r"While setting option (\S+), (.*)", message):
        raise ValueError(f"The compiler option {bad[1]!r} was given a wrong value: {bad[2]}") from error


# -- Options


def _compile_options(
    device: Device, overrides: dict[str, Any] | None, quick: bool = False, unrolled: bool = True
) -> Any:
    overrides = _checked(overrides or {})
    extra = dict(_EXTRA_OPTIONS.get(device.platform, {}))
    if not unrolled:
        extra.update(_ROLLED_OPTIONS.get(device.platform, {}))
    for option in extra.keys() & overrides.keys():
        extra[option] = str(overrides.pop(option))
    flags = {**(_quick_options(device) if quick else {}), **overrides}
    return _updated(_with_extra_options(_options_for(device), extra), flags)


def _quick_options(device: Device) -> dict[str, Any]:
    own = _QUICK_OPTIONS.get(device.platform, {})
    return {name: value for name, value in own.items() if name not in _missing_options}


def _without(options: Any, name: str) -> Any:
    copy = runtime._jax.CompileOptions.ParseFromString(options.SerializeAsString())
    copy.env_option_overrides = [(key, value) for key, value in copy.env_option_overrides if key != name]
    return copy


def _options_for(device: Device) -> Any:
    """Options that place the program on the device: it would otherwise belong to the first one, wherever it is put."""
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
    """The options with entries added to `xla_backend_extra_options`, a map that jaxlib gives no access to.

    Protocol buffers merge when their bytes are put one after the other, so a message that holds the map alone is
    appended: CompileOptionsProto.executable_build_options = 3, its .debug_options = 3, its
    .xla_backend_extra_options = 500, and of each entry the key = 1 and the value = 2.
    """
    message = options.SerializeAsString()
    for key, value in extra.items():
        entry = _field(1, key.encode()) + _field(2, value.encode())
        message += _field(3, _field(3, _field(500, entry)))
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

"""The options that XLA compiles a program with: those the library chooses, and the user's."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.buffers import Device
from xpr.backend.codegen import Codegen
from xpr.backend.processor import CORES, FEATURES
from xpr.protocol_buffers import bytes_field

# XLA:CPU compiles a loop whose state is smaller than this into one kernel, at a few nanoseconds a step; other loops
# pay microseconds a step. XLA's default is 1024 bytes; 64 KiB made the gradient of a scan over 60 scalars 20 times
# faster and nothing slower.
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"

# The tiled emitter takes three times as long as the loop emitter to write a kernel, and makes only transposes faster,
# 1.3 to 4 times if they are large. So only programs with large transposes have it; without it, the first steps of
# models end 5-10 % sooner. A lone `tanh`, or `exp` of float64, takes 7 to 14 % less by it on a machine with AVX2; with
# AVX-512 nothing was faster.
_TILED_EMITTER = "xla_cpu_disable_tiled_emitter"
HAS_AVX512 = FEATURES.get("AVX512F", False)
_EXTRA_OPTIONS: dict[str, dict[str, str]] = {"cpu": {_SMALL_LOOP: "65536", _TILED_EMITTER: "true"}}

# For programs whose loops are not to be unrolled, see codegen.py. Networks run as fast; small loops, reductions
# that combine many rows, and stencils of large arrays would be up to 5 times slower.
_ROLLED_OPTIONS: dict[str, dict[str, str]] = {"cpu": {"xla_cpu_disable_loop_unrolling": "true"}}

# XLA prefers vectors of 256 bits on machines that have 512. In wide ones functions of many elements take 1 to 0.6 times
# as long, programs of many small operations 1 to 0.5 times, and these compile up to twice as fast. Nothing was slower.
# Small programs with short rows have those of 256 bits, see codegen.py.
_VECTOR_WIDTH: dict[str, dict[str, Any]] = {"cpu": {"xla_cpu_prefer_vector_width": 512}}

# A user's list of passes is kept, and where some alone are enabled, XLA aborts the process if others are disabled.
_DISABLED_PASSES, _ENABLED_PASSES = "xla_disable_hlo_passes", "xla_enable_hlo_passes_only"

# XLA divides a kernel among threads where it counts 100,000 operations for each, as if a processor did one at a time:
# the sines of 2000 numbers, which take one thread 3 microseconds. To wake another takes 50 on virtual machines.
_TO_SEVERAL_THREADS = "cpu-parallel-task-assigner"

# Programs of many small operations take 6 to 9 % less to compile without these: XLA's check of a program after each of
# its passes, where it runs on one device and all of it was written here; and its replacements of small types by others.
_VERIFIER = "hlo-verifier"
_SMALL_TYPES = (
    "bf16", "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4", "s4", "u4",
    "f4e2m1fn", "f8e8m0fnu",
)  # fmt: skip
_NORMALIZERS = tuple(f"float-normalization-{name}" for name in _SMALL_TYPES)

process_options: dict[str, Any] = {}  # XLA's flags for all programs of this process; the tests set them (conftest.py)

_USUAL = Codegen()


@cache
def plain_emitters(platform: str) -> dict[str, Any]:
    """The option by which XLA:CPU writes programs without its fusion emitters.

    These generate better code for models, but take half of the time in which a program of few operations is compiled.
    From jaxlib 0.11 on there is no choice.
    """
    is_optional = platform == "cpu" and runtime.jaxlib_version() < (0, 11)
    return {"xla_cpu_use_fusion_emitters": False} if is_optional else {}


@cache
def quick_options(platform: str) -> dict[str, Any]:
    """Options for programs that take more time to compile than to run.

    By default XLA divides what the plain emitters write into 32 modules, which threads compile, and each takes 2 ms
    more than the same code as part of another. With one for each thread, small models are compiled 10 to 25 % sooner.
    """
    split = {"xla_cpu_parallel_codegen_split_count": min(32, CORES)} if platform == "cpu" else {}
    return {**plain_emitters(platform), **split}


def unoptimized_options(platform: str) -> dict[str, Any]:
    """Options for programs that an optimized one replaces if they run for long, see tiers.py."""
    return {"xla_backend_optimization_level": 0, **quick_options(platform)}


def compile_options(device: Device, overrides: dict[str, Any] | None, codegen: Codegen = _USUAL) -> Any:
    """The options of a program on a device, as jaxlib takes them; `overrides` are the user's, by name.

    Raises:
      ValueError: XLA has no such option, or a value is neither a number, a bool nor a string.
    """
    overrides = _checked(overrides or {})
    extra = dict(_EXTRA_OPTIONS.get(device.platform, {}))
    if codegen.tiled or (codegen.lone and not HAS_AVX512):
        extra.pop(_TILED_EMITTER, None)
    if not codegen.unrolled:
        extra.update(_ROLLED_OPTIONS.get(device.platform, {}))
    for option in extra.keys() & overrides.keys():
        extra[option] = str(overrides.pop(option))
    efforts = {name: overrides.pop(name) for name in _EFFORTS if name in overrides}
    quick = quick_options(device.platform) if codegen.quick else {}
    width = {} if codegen.narrow else _VECTOR_WIDTH.get(device.platform, {})
    users = {*process_options, *overrides, *re.findall(r"--(\w+)", os.environ.get("XLA_FLAGS", ""))}
    is_free = device.platform == "cpu" and users.isdisjoint((_DISABLED_PASSES, _ENABLED_PASSES))
    passes = _without_passes(codegen) if is_free else {}
    flags = {**width, **passes, **process_options, **quick, **overrides}
    options = updated(_with_extra_options(options_for(device), extra), flags)
    for name, value in efforts.items():
        if not hasattr(options.executable_build_options, name):
            raise ValueError(
                f"The XLA of jaxlib {'.'.join(map(str, runtime.jaxlib_version()))} has no compiler option {name!r}."
            )
        setattr(options.executable_build_options, name, value)
    return options


def _without_passes(codegen: Codegen) -> dict[str, Any]:
    """The flag that disables XLA's passes which do nothing for a program."""
    passes = [_TO_SEVERAL_THREADS] if codegen.serial else []
    passes += () if codegen.verified else (_VERIFIER,)
    passes += () if codegen.small_types else _NORMALIZERS
    return {_DISABLED_PASSES: ",".join(passes)} if passes else {}


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


def updated(options: Any, flags: dict[str, Any]) -> Any:
    """A copy of the options with more flags; a flag given twice has its later value."""
    copy = runtime._jax.CompileOptions.ParseFromString(options.SerializeAsString())
    copy.env_option_overrides = list({**dict(copy.env_option_overrides), **flags}.items())
    return copy


def with_small_loops_alone(options: Any) -> Any:
    """A copy of the options with which loops of 1 KiB and more are programs that call kernels, as XLA has it.

    In a larger loop that is one kernel XLA may divide an operation among threads, and then write a call of a function
    that it doesn't have ("Failed to materialize symbols"), or code that its own check refuses ("verifyModule").
    """
    return _with_extra_options(options, {_SMALL_LOOP: "1024"})


def _with_extra_options(options: Any, extra: dict[str, str]) -> Any:
    """The options with items added to `xla_backend_extra_options`, a map that jaxlib gives no access to.

    Protocol buffers merge when their bytes are put one after the other, so a message that holds the map alone is
    appended: CompileOptionsProto.executable_build_options = 3, its .debug_options = 3, its
    .xla_backend_extra_options = 500, and of each item the key = 1 and the value = 2.
    """
    message = options.SerializeAsString()
    for key, value in extra.items():
        item = bytes_field(1, key.encode()) + bytes_field(2, value.encode())
        message += bytes_field(3, bytes_field(3, bytes_field(500, item)))
    return runtime._jax.CompileOptions.ParseFromString(message)

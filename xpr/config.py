"""The settings of xpr, each process-wide with a thread-local override.

`config.update("enable_x64", True)` changes a setting everywhere; `with enable_x64(True): ...` (config_contexts.py)
changes it for this thread and block. JAX's spellings with a `jax_` in front are understood too.

Hot paths read `settings.enable_x64` and friends directly: a class attribute holds the process-wide value and an
instance attribute of this thread-local object shadows it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

__all__ = ["config", "make_user_context"]


_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("0", "false", "no", "off", "f", "n", ""), False),
}


def _flag(name: str, default: bool = False) -> bool:
    """The value of an environment variable that is a flag."""
    text = os.environ.get(name, str(int(default)))
    flag = _FLAGS.get(text.strip().lower())
    if flag is None:
        raise ValueError(f"The environment variable {name} is 1 or 0, true or false, and {text!r} was given.")
    return flag


def _number(name: str, default: int) -> int:
    """The value of an environment variable that is an integer."""
    text = os.environ.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"The environment variable {name} is an integer, and {text!r} was given.") from None


def native_code_wanted() -> bool:
    """Whether code in C may be used, where it is installed."""
    return os.environ.get("XPR_NATIVE", "1").strip().lower() not in ("0", "false", "no", "off")


def _frames_shown(value: Any) -> Any:
    """The value of the setting traceback_filtering that a flag says in other words."""
    word = str(value).strip().lower()
    return {"1": "auto", "true": "auto", "yes": "auto", "on": "auto", "0": "off", "false": "off", "no": "off"}.get(
        word, word
    )


# The user's folder for compiled programs, as the XDG Base Directory Specification has it: relative paths are ignored.
_CACHES = os.environ.get("XDG_CACHE_HOME", "")
DEFAULT_CACHE = os.path.join(_CACHES if os.path.isabs(_CACHES) else os.path.join("~", ".cache"), "xpr", "programs")


class Settings(threading.local):
    """The settings of this thread."""

    enable_x64: bool = _flag("XPR_ENABLE_X64")
    disable_jit: bool = _flag("XPR_DISABLE_JIT")
    traceback_filtering: str = _frames_shown(os.environ.get("XPR_TRACEBACK_FILTERING", "auto"))
    debug_nans: bool = _flag("XPR_DEBUG_NANS")
    debug_key_reuse: bool = _flag("XPR_DEBUG_KEY_REUSE")
    debug_infs: bool = _flag("XPR_DEBUG_INFS")
    default_device: Any = None
    mesh: Any = None  # the mesh of partition specs without one, see set_mesh
    context_mesh: Any = None  # that of set_mesh and of what names axes inside, which `with mesh:` alone does not change
    program_mesh: Any = None  # that of set_mesh, on whose devices programs run whose arguments are on none by name
    default_matmul_precision: str | None = os.environ.get("XPR_DEFAULT_MATMUL_PRECISION")
    while_checkpoints: int = 64
    platforms: str | None = os.environ.get("XPR_PLATFORMS")
    enable_compilation_cache: bool = _flag("XPR_ENABLE_COMPILATION_CACHE", True)
    compilation_cache_dir: str | None = os.environ.get("XPR_COMPILATION_CACHE_DIR", DEFAULT_CACHE)  # "", None: none
    tiered_compilation: bool = _flag("XPR_TIERED_COMPILATION")
    numpy_rank_promotion: str = os.environ.get("XPR_NUMPY_RANK_PROMOTION", "allow")
    numpy_dtype_promotion: str = os.environ.get("XPR_NUMPY_DTYPE_PROMOTION", "standard")
    allow_f16_reductions: bool = _flag("XPR_ALLOW_F16_REDUCTIONS", True)
    explicit_x64_dtypes: str = os.environ.get("XPR_EXPLICIT_X64_DTYPES", "warn")
    auto_pcast: bool = _flag("XPR_AUTO_PCAST", True)
    remove_size_one_mesh_axis_from_type: bool = _flag("XPR_REMOVE_SIZE_ONE_MESH_AXIS_FROM_TYPE")
    check_static_indices: bool = _flag("XPR_CHECK_STATIC_INDICES", True)
    check_python_integers: bool = _flag("XPR_CHECK_PYTHON_INTEGERS", True)
    exact_masks: bool = _flag("XPR_EXACT_MASKS", True)  # infinity and nan times False are nan, not 0
    disable_bwd_checks: bool = _flag("XPR_DISABLE_BWD_CHECKS")
    disable_vmap_shmap_error: bool = _flag("XPR_DISABLE_VMAP_SHMAP_ERROR")
    legacy_prng_key: str = os.environ.get("XPR_LEGACY_PRNG_KEY", "allow")
    enable_custom_prng: bool = _flag("XPR_ENABLE_CUSTOM_PRNG")
    default_prng_impl: str = os.environ.get("XPR_DEFAULT_PRNG_IMPL", "threefry2x32")
    random_seed_offset: int = _number("XPR_RANDOM_SEED_OFFSET", 0)
    threefry_partitionable: bool = _flag("XPR_THREEFRY_PARTITIONABLE", True)
    array_tracebacks: bool = _flag("XPR_ARRAY_TRACEBACKS")
    log_compiles: bool = _flag("XPR_LOG_COMPILES")
    log_checkpoint_residuals: bool = _flag("XPR_LOG_CHECKPOINT_RESIDUALS")
    explain_cache_misses: bool = _flag("XPR_EXPLAIN_CACHE_MISSES")
    check_tracer_leaks: bool = _flag("XPR_CHECK_TRACER_LEAKS")
    enable_checks: bool = _flag("XPR_ENABLE_CHECKS")
    no_tracing: bool = _flag("XPR_NO_TRACING")
    no_execution: bool = _flag("XPR_NO_EXECUTION")
    user_contexts: tuple[tuple[Any, Any], ...] = ()  # those of make_user_context, with their values
    xla_metadata: tuple[tuple[str, Any], ...] = ()  # what operations are marked with, see set_xla_metadata
    transfer_guard: str = os.environ.get("XPR_TRANSFER_GUARD", "allow")
    transfer_guard_host_to_device: str = os.environ.get("XPR_TRANSFER_GUARD_HOST_TO_DEVICE", "allow")
    transfer_guard_device_to_device: str = os.environ.get("XPR_TRANSFER_GUARD_DEVICE_TO_DEVICE", "allow")
    transfer_guard_device_to_host: str = os.environ.get("XPR_TRANSFER_GUARD_DEVICE_TO_HOST", "allow")
    export_calling_convention_version: int = _number("XPR_EXPORT_CALLING_CONVENTION_VERSION", 10)
    num_cpu_devices: int | None = _number("XPR_NUM_CPU_DEVICES", 0) or None  # None: XLA's default

    def __reduce__(self) -> str:  # functions that the library makes hold it: in pickles it is that of the process
        return "settings"

    @property
    def programs_folder(self) -> str | None:
        """Where compiled programs are kept: `compilation_cache_dir`, unless `enable_compilation_cache` is off."""
        return self.compilation_cache_dir if self.enable_compilation_cache else None

    # The number of process-wide updates, and `trace_key` at that time; compile/_known_calls.c reads both, too.
    _keyed = (-1, None)

    @property
    def trace_key(self) -> Any:
        """The cache key of all settings that affect tracing or calling a jitted function; read by every call."""
        updates, key = self._keyed
        return key if updates == _updates else self._make_key()

    def _make_key(self) -> Any:
        updates = _updates  # before the values, which another thread may change meanwhile
        values = _values_for_tracing(self)
        key = _trace_keys.setdefault(values, object())  # which hashes in a third of the time
        self.__dict__["_keyed"] = updates, key
        return key

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_keyed", None)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__.pop("_keyed", None)

    @classmethod
    def names(cls) -> list[str]:
        return list(cls.__annotations__)


_FOR_TRACING = (
    "enable_x64", "default_device", "disable_jit", "mesh", "context_mesh", "program_mesh", "while_checkpoints",
    "default_matmul_precision", "numpy_rank_promotion", "numpy_dtype_promotion", "user_contexts", "default_prng_impl",
    "threefry_partitionable", "enable_custom_prng", "explicit_x64_dtypes", "check_static_indices",
    "check_python_integers", "exact_masks", "random_seed_offset", "xla_metadata", "auto_pcast",
    "remove_size_one_mesh_axis_from_type", "disable_bwd_checks", "allow_f16_reductions", "disable_vmap_shmap_error",
)  # fmt: skip
_values_for_tracing: Callable[[Any], tuple[Any, ...]] = attrgetter(*_FOR_TRACING)

_updates = 0  # how often settings of the whole process were changed
_trace_keys: dict[tuple[Any, ...], Any] = {}
settings = Settings()


def changed_settings(key: Any, before: Any) -> list[str]:
    """What differs between the settings of two `trace_key`s, in words."""
    values = {id(each): values for values, each in _trace_keys.items()}
    now, then = values.get(id(key)), values.get(id(before))
    if now is None or then is None:
        return ["different tracing context: settings of xpr.config have changed"]
    changed = [each for each in zip(_FOR_TRACING, now, then) if each[1] != each[2]]
    return [
        f"different tracing context: setting {name}, now {value} and before {then}" for name, value, then in changed
    ]


def forget_trace_keys() -> None:
    """Replaces every `trace_key` by a new one, so that caches miss whatever the old ones stored."""
    global _updates
    _trace_keys.clear()
    _updates += 1


before_update: dict[str, Callable[[Any], None]] = {}  # raises if a value is invalid, or can't be set any more
after_update: dict[str, Callable[[], None]] = {}  # called when a setting is changed for the whole process


_GUARD = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
CHOICES = {
    "traceback_filtering": ("auto", "off", "quiet_remove_frames", "remove_frames", "tracebackhide"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "explicit_x64_dtypes": ("warn", "error", "allow"),
    "legacy_prng_key": ("allow", "warn", "error"),
    "transfer_guard": _GUARD,
    "transfer_guard_host_to_device": _GUARD,
    "transfer_guard_device_to_device": _GUARD,
    "transfer_guard_device_to_host": _GUARD,
    "default_prng_impl": ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"),
}


def _checked(name: str, value: Any) -> Any:
    """The value, in the form in which the setting is kept."""
    kept = _frames_shown(value) if name == "traceback_filtering" else value
    if name in CHOICES and kept not in CHOICES[name]:
        *others, last = map(repr, CHOICES[name])
        raise ValueError(f"The setting {name} is {', '.join(others)} or {last}, and {value!r} was given.")
    return kept


def _check_environment() -> None:
    """Raises ValueError for an environment variable that has none of the values of its setting."""
    for name in CHOICES:
        text = os.environ.get(f"XPR_{name.upper()}")
        if text is not None:
            try:
                _checked(name, text)
            except ValueError as error:
                raise ValueError(f"The environment variable XPR_{name.upper()} is wrong. {error}") from None


_check_environment()

# Flags of JAX that programs set and that change no result: which programs its cache keeps, how hard its compiler tries,
# what it records for tools. They are taken, read back, and have no effect.
_TAKEN: dict[str, Any] = {
    "array_garbage_collection_guard": "allow",
    "compilation_cache_include_metadata_in_key": False,
    "compilation_cache_max_size": -1,
    "compiler_enable_remat_pass": True,
    "cpu_enable_async_dispatch": True,
    "debug_log_modules": "",
    "disable_most_optimizations": False,
    "distributed_debug": False,
    "enable_pgle": False,
    "exec_time_optimization_effort": 0.0,
    "include_full_tracebacks_in_locations": True,
    "logging_level": None,
    "memory_fitting_effort": 0.0,
    "memory_fitting_level": "O2",
    "optimization_level": "UNKNOWN",
    "persistent_cache_enable_xla_caches": "none",
    "persistent_cache_min_compile_time_secs": 1.0,
    "persistent_cache_min_entry_size_bytes": 0,
    "pgle_profiling_runs": 3,
    "raise_persistent_cache_errors": False,
    "softmax_custom_jvp": True,
    "threefry_gpu_kernel_lowering": False,
    "traceback_in_locations_limit": 10,
    "use_shardy_partitioner": True,
}
_OTHER_NAMES = {"platform_name": "platforms"}
_WORDS = {"true": True, "false": False, "none": None}


def _parsed(text: str) -> Any:
    """The value of a setting that is written on the command line."""
    return int(text) if text.isdecimal() else _WORDS.get(text.lower(), text)


def _nothing(*_: Any) -> None:
    """For settings that are read when they are needed."""


class Config:
    """Reads and changes settings by name, or as attributes (`config.enable_x64`)."""

    def update(self, name: str, value: Any) -> None:
        """Sets a setting for the whole process. Some flags of JAX are taken and have no effect here.

        Raises:
          AttributeError: there is no setting of that name.
          RuntimeError: it is too late to change this one.
          ValueError: the setting has no such value.

        >>> import xpr
        >>> xpr.config.update("enable_x64", False)
        """
        short = name.removeprefix("jax_")
        if short in _TAKEN:
            _TAKEN[short] = value
            return
        known = self._known(name)
        value = _checked(known, value)
        before_update.get(known, _nothing)(value)
        global _updates
        setattr(Settings, known, value)
        _updates += 1
        after_update.get(known, _nothing)()

    def read(self, name: str) -> Any:
        """The value of a setting.

        Raises:
          AttributeError: there is no setting of that name.

        >>> import xpr
        >>> xpr.config.read("jax_enable_x64")
        False
        """
        short = name.removeprefix("jax_")
        return _TAKEN[short] if short in _TAKEN else getattr(settings, self._known(name))

    @property
    def values(self) -> dict[str, Any]:
        """The values of all settings in this thread, each under JAX's spelling of its name.

        >>> import xpr
        >>> xpr.config.values["jax_enable_x64"]
        False
        """
        return {f"jax_{name}": self.read(name) for name in (*Settings.names(), *_TAKEN)}

    def config_with_absl(self) -> None:
        """Sets settings from the command line, as `parse_flags_with_absl` does."""
        self.parse_flags_with_absl()

    def parse_flags_with_absl(self) -> None:
        """Sets the settings that arguments of the command line name, as `--jax_enable_x64=true`.

        absl is not needed; where it is imported, its flags can be read from now on.

        Raises:
          AttributeError: there is no such setting.
          ValueError: the setting has no such value.
        """
        for argument in itertools.takewhile(lambda each: each != "--", sys.argv):
            if argument.startswith("--jax_"):
                name, given, value = argument.removeprefix("--").partition("=")
                self.update(name, _parsed(value) if given else True)
        if "absl.flags" in sys.modules:
            sys.modules["absl.flags"].FLAGS.mark_as_parsed()

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are on, as `enable_x64`."""
        return settings.enable_x64

    def __getattr__(self, name: str) -> Any:
        return self.read(name)

    def _known(self, name: str) -> str:
        short = name.removeprefix("jax_")
        short = _OTHER_NAMES.get(short, short)
        if short not in Settings.names():
            raise AttributeError(f"xpr has no setting {name!r}; the settings are {', '.join(Settings.names())}.")
        return short


config = Config()


@contextmanager
def override(name: str, value: Any) -> Iterator[None]:
    """A context manager, or decorator, in which this thread has another value of a setting."""
    value = _checked(name, value)
    shadowed = settings.__dict__.get(name, settings)  # `settings` itself means "not overridden in this thread"
    setattr(settings, name, value)
    try:
        yield
    finally:
        if shadowed is settings:
            delattr(settings, name)
        else:
            setattr(settings, name, shadowed)


def settings_of_thread() -> dict[str, Any]:
    """The overrides of this thread, to be passed to another one."""
    return dict(settings.__dict__)


@contextmanager
def same_settings(overrides: dict[str, Any]) -> Iterator[None]:
    """A context manager in which this thread has the overrides of another."""
    previous = settings_of_thread()
    settings.__dict__.clear()
    settings.__dict__.update(overrides)
    try:
        yield
    finally:
        settings.__dict__.clear()
        settings.__dict__.update(previous)


class UserContext:
    """A value of the user's that jitted functions depend on, see `make_user_context`."""

    def __init__(self, default_value: Any):
        self._default = default_value

    def __repr__(self) -> str:
        return f"<user context with the value {self.value!r}>"

    @property
    def value(self) -> Any:
        """The value in this thread."""
        return dict(settings.user_contexts).get(self, self._default)

    def __call__(self, value: Any) -> Any:
        """A context manager, or decorator, in which this thread has another value, which can be hashed."""
        return override("user_contexts", self._with(settings.user_contexts, value))

    def get_global(self) -> Any:
        """The value of threads that have set none."""
        return dict(Settings.user_contexts).get(self, self._default)

    def set_global(self, value: Any) -> None:
        """Sets the value of threads that have set none."""
        config.update("user_contexts", self._with(Settings.user_contexts, value))

    def _with(self, values: tuple[tuple[Any, Any], ...], value: Any) -> tuple[tuple[Any, Any], ...]:
        hash(value)
        others = tuple([pair for pair in values if pair[0] is not self])
        return others if value is self._default else (*others, (self, value))


def make_user_context(default_value: Any = None) -> UserContext:
    """A value that jitted functions may depend on: they are traced anew for each value that it has.

    Args:
      default_value: the value outside of `with` blocks; it can be hashed.

    Returns:
      An object: `with context(value): ...` sets the value, `context.value` reads it, `get_global` and `set_global` are
      for all threads.

    Raises:
      TypeError: a value can't be hashed.

    >>> import xpr
    >>> scale = xpr.make_user_context(1.0)
    >>> f = xpr.jit(lambda x: x * scale.value)
    >>> with scale(3.0):
    ...     f(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    hash(default_value)
    return UserContext(default_value)


def logger() -> Any:
    """The library's `logging.Logger`."""
    import logging  # 4 ms that most processes never need

    return logging.getLogger("xpr")

"""The CUDA platform: finding jax's plugin wheels, loading them without jax, and creating the client.

The wheels jax-cuda12-plugin (or jax-cuda13-plugin) and their `pjrt` companion hold XLA's CUDA backend and its FFI
targets; neither needs jax, only the wheels' own `__init__` does, so it is never imported.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import sys
from typing import Any, NamedTuple

from xpr.backend import processes, runtime
from xpr.errors import DeviceNotFound


class Toolkit(NamedTuple):
    """A major version of CUDA: the wheels' suffix, and the NVIDIA libraries to load, in an order that resolves them."""

    suffix: str
    libraries: tuple[tuple[str, tuple[str, ...]], ...]  # (folder under `nvidia`, file names)


TOOLKITS = (  # jaxlib's own modules look for cuda13 first, so this does too
    Toolkit("cuda13", (
        ("cu13", ("libcudart.so.13", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcupti.so.13",
                  "libnvJitLink.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12")),
        ("nccl", ("libnccl.so.2",)), ("nvshmem", ("libnvshmem_host.so.3",)), ("cudnn", ("libcudnn.so.9",)),
    )),
    Toolkit("cuda12", (
        ("cuda_runtime", ("libcudart.so.12",)), ("cuda_nvrtc", ("libnvrtc.so.12",)),
        ("cublas", ("libcublasLt.so.12", "libcublas.so.12")), ("nccl", ("libnccl.so.2",)),
        ("cuda_cupti", ("libcupti.so.12",)), ("nvjitlink", ("libnvJitLink.so.12",)),
        ("cusparse", ("libcusparse.so.12",)), ("cusolver", ("libcusolver.so.11",)), ("cufft", ("libcufft.so.11",)),
        ("nvshmem", ("libnvshmem_host.so.3",)), ("cudnn", ("libcudnn.so.9",)),
    )),
)  # fmt: skip

_JAXLIB_MODULES = ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse")  # have registrations() to hand over
_SELF_REGISTERING = ("gpu_rnn", "gpu_triton")  # register their targets when imported
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")  # the driver's, and WSL's

given_up = False
api: Any = None  # jaxlib's handle of the plugin; None before it is loaded, and where jax has loaded it


def is_worth_trying() -> bool:
    """Whether a GPU may be here: a driver, a plugin, and no failure so far. Costs a few look-ups of files."""
    return not given_up and any(map(os.path.exists, DEVICE_FILES)) and find_plugin() is not None


def give_up() -> None:
    """After a failure, keeps the choice of a default platform from trying (and warning) again."""
    global given_up
    given_up = True


def make_client() -> Any:
    """Loads the plugin and makes its client.

    Raises:
      DeviceNotFound: the plugin is not installed, does not load, or finds no GPU.
    """
    location = find_plugin()
    if location is None:
        raise DeviceNotFound(_not_installed_message())
    toolkit, plugin = location
    try:
        load_plugin(toolkit, plugin)
        group = processes.group()
        return _client({}, None) if group is None else group.make_gpu_client(_client)
    except (RuntimeError, ImportError, OSError) as error:
        raise DeviceNotFound(_not_working_message(plugin, error)) from error


def find_plugin() -> tuple[Toolkit, str] | None:
    """The first toolkit whose plugin library is installed, with the library's path."""
    for toolkit in TOOLKITS:
        for root in folders_of("jax_plugins"):
            plugin = os.path.join(root, f"xla_{toolkit.suffix}", "xla_cuda_plugin.so")
            if os.path.isfile(plugin):
                return toolkit, plugin
    return None


def folders_of(package: str) -> list[str]:
    """The folders of a package, without importing it; a namespace package may have several."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def load_plugin(toolkit: Toolkit, plugin: str) -> None:
    _load_nvidia_libraries(toolkit)
    extension = importlib.import_module(f"jax_{toolkit.suffix}_plugin.cuda_plugin_extension")
    if runtime.xc.pjrt_plugin_loaded("cuda"):  # by jax, which has registered everything; loading twice is refused
        _initialize()
        return
    global api
    api = runtime.xc.load_pjrt_plugin_dynamically("cuda", plugin)
    importlib.import_module("jaxlib._profiler").register_plugin_profiler(api)
    _initialize()
    _register_handlers(extension, api)
    _register_targets()


def _initialize() -> None:
    if not runtime.xc.pjrt_plugin_initialized("cuda"):
        runtime.xc.initialize_pjrt_plugin("cuda")


def _load_nvidia_libraries(toolkit: Toolkit) -> None:
    """Loads what is installed as wheels; what is missing is left to the system's loader."""
    for package, names in toolkit.libraries:
        for folder in folders_of("nvidia"):
            for name in names:
                library = os.path.join(folder, package, "lib", name)
                if os.path.isfile(library):
                    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def _register_handlers(extension: Any, api: Any) -> None:
    runtime.xc.register_custom_type_handler("CUDA", functools.partial(extension.register_custom_type, api))
    runtime.xc.register_custom_call_handler("CUDA", functools.partial(extension.register_custom_call_target, api))
    for name, value in extension.ffi_types().items():
        runtime.xc.register_custom_type(name, value, platform="CUDA")
    for name, value in extension.ffi_handlers().items():
        runtime.xc.register_custom_call_target(name, value, platform="CUDA", api_version=1)


def _register_targets() -> None:
    """Registers cuSOLVER's, cuSPARSE's and the random generators' targets; each module finds the wheel by itself."""
    for name in _JAXLIB_MODULES:
        module = importlib.import_module(f"jaxlib.{name}")
        for target, value, version in module.registrations().get("CUDA", ()):
            runtime.xc.register_custom_call_target(target, value, platform="CUDA", api_version=version)
    for name in _SELF_REGISTERING:
        importlib.import_module(f"jaxlib.{name}")


def _client(options: dict[str, Any], distributed_client: Any) -> Any:
    """Memory settings come from the XLA_PYTHON_CLIENT_* variables, as they do for jax."""
    all_options = {**runtime.xc.generate_pjrt_gpu_plugin_options(), **options}
    return runtime.xc.make_c_api_client("cuda", all_options, distributed_client)


def _not_installed_message() -> str:
    folders = folders_of("jax_plugins") or sys.path
    driver = [name for name in DEVICE_FILES if os.path.exists(name)]
    return (
        "Unknown backend 'gpu': the CUDA plugin is not installed.\n"
        f"  looked for  {', '.join(f'jax_plugins/xla_{t.suffix}/xla_cuda_plugin.so' for t in TOOLKITS)}\n"
        f"  in          {', '.join(folder for folder in folders if folder)}\n"
        f"  driver      {', '.join(driver) if driver else 'none found, so there may be no NVIDIA GPU here'}\n"
        'Install it with `pip install "jax-cuda12-plugin[with-cuda]" jax-cuda12-pjrt` in the version of jaxlib, '
        "or set XPR_PLATFORMS=cpu to run on the CPU."
    )


def _not_working_message(plugin: str, error: Exception) -> str:
    return (
        "A GPU was looked for and the CUDA plugin gave none.\n"
        f"  plugin  {plugin}\n"
        f"  error   {error}\n"
        "Check that `nvidia-smi` lists a GPU, that CUDA_VISIBLE_DEVICES does not hide it, and that the plugin has the "
        "version of jaxlib; or set XPR_PLATFORMS=cpu to run on the CPU."
    )

"""doctor: which devices xpr can use on this machine, and why others are missing. For users, and for bug reports."""

from __future__ import annotations

import os
import platform

import numpy as np

from xpr.api.jit import jit
from xpr.backend import devices
from xpr.config import settings
from xpr.errors import DeviceNotFound
from xpr.numpy.creation import ones
from xpr.numpy.reductions import sum as total

_PACKAGES = ("jaxlib", "numpy", "ml_dtypes", "optree", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax")
_VARIABLES = ("XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TF_CPP_MIN_LOG_LEVEL")


def doctor() -> None:
    """Prints versions, platforms and their devices, the settings in use, and whether a small program runs.

    It explains why platforms are missing. `python -m xpr.doctor` does the same.

    >>> import xpr
    >>> xpr.doctor()  # doctest: +ELLIPSIS
    xpr ...
    """
    print(report())


def report() -> str:
    """The text that `doctor` prints.

    >>> from xpr.doctor import report
    >>> "xpr" in report()
    True
    """
    sections = [_versions(), _platform_of("cpu"), _platform_of("gpu"), _default(), _settings(), _trial()]
    return "\n".join(line for section in sections for line in section)


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints what `doctor` prints: versions, platforms and devices, for bug reports.

    Args:
      return_string: whether the text is returned and not printed.

    Returns:
      The text, or None if it was printed.

    >>> import xpr
    >>> "xpr" in xpr.print_environment_info(return_string=True)
    True
    """
    if return_string:
        return report()
    print(report())
    return None


def _versions() -> list[str]:
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    packages = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    return [f"xpr      {_version('xpr') or 'from source'}, {system}", f"packages {', '.join(packages)}"]


def _version(name: str) -> str | None:
    from importlib import metadata  # 5 ms that most processes never need

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _platform_of(name: str) -> list[str]:
    """A platform's devices, or why there are none."""
    try:
        available = devices.local_devices(backend=name)
    except DeviceNotFound as error:
        first, *more_lines = str(error).splitlines()
        return [f"{name:<8} not there: {first}", *(f"         {line}" for line in more_lines)]
    version = available[0].client.platform_version.splitlines()[0]
    kinds = ", ".join(sorted({device.device_kind for device in available}))
    more = " (set their number with XPR_NUM_CPU_DEVICES)" if name == "cpu" else ""
    return [f"{name:<8} {len(available)} device{'s' * (len(available) > 1)}{more}, {kinds}, {version}"]


def _default() -> list[str]:
    platforms = settings.platforms
    why = f"the first of XPR_PLATFORMS={platforms}" if platforms else "chosen by itself: the GPU where there is one"
    try:
        return [f"default  {devices.default_device()}, {why}"]
    except DeviceNotFound as error:
        return [f"default  none: {str(error).splitlines()[0]}"]


def _settings() -> list[str]:
    chosen = {name: value for name, value in os.environ.items() if name.startswith("XPR_") or name in _VARIABLES}
    values = {name: getattr(settings, name) for name in type(settings).names()}
    lines = [f"settings {', '.join(f'{name}={value}' for name, value in values.items())}"]
    return [
        *lines,
        f"environ  {', '.join(f'{name}={value}' for name, value in sorted(chosen.items())) or 'nothing set'}",
    ]


def _trial() -> list[str]:
    """Whether the default platform computes."""
    try:
        value = float(np.asarray(jit(lambda x: total(x * 2))(ones(8))))
    except Exception as error:  # any error is the answer to report
        return [f"trial    failed: {type(error).__name__}: {error}"]
    return [f"trial    a compiled program gave {value:g}, {'as it should' if value == 16 else 'and 16 is right'}"]

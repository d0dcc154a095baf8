"""What all traces depend on besides functions and arguments: settings, and the releases and files of libraries."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpr.backend import compile_options, native
from xpr.config import settings
from xpr.core.source import package_folder
from xpr.fingerprint.pure import library
from xpr.optree_kept import optree

OF_NO_EFFECT = frozenset({"compilation_cache_dir", "enable_compilation_cache", "traceback_filtering"})
# Settings with which each call is to be traced, or runs otherwise; and those whose values have no text of their own.
TRACED = (
    "check_tracer_leaks", "context_mesh", "debug_infs", "debug_key_reuse", "debug_nans", "default_device",
    "enable_checks", "explain_cache_misses", "log_checkpoint_residuals", "log_compiles", "mesh", "no_execution",
    "no_tracing", "program_mesh", "user_contexts", "xla_metadata",
)  # fmt: skip


def setting_in_the_way() -> str | None:
    """The name of a setting that is on and requires each call to be traced anew; None if there is none."""
    return next((name for name in TRACED if getattr(settings, name)), None)


def surroundings() -> list[Any]:
    """What all traces depend on besides `releases` and replaced functions of the library (see pure.py): settings."""
    options = sorted(compile_options.process_options.items())
    return [sys.version, sys.flags.optimize, package_folder(), compared_settings(), options, native.available()]


def compared_settings() -> list[tuple[str, Any]]:
    """The settings that may have other values from one trace to another."""
    return [(name, getattr(settings, name)) for name in settings.names() if name not in {*OF_NO_EFFECT, *TRACED}]


@functools.cache
def releases() -> str:
    """A hash of the installed packages, and of the names, sizes and times of change of the files of xpr."""
    folders = {os.path.dirname(os.path.dirname(str(each.__file__))) for each in (np, optree)}
    installed = [name for folder in sorted(folders) for name in sorted(os.listdir(folder)) if name.endswith("-info")]
    return hashlib.sha256("\n".join([*installed, *sorted(files_of(package_folder()))]).encode()).hexdigest()


def look_ahead() -> threading.Thread | None:
    """A thread that computes `releases` and checks the library for replaced functions; None if that has been done.

    It takes 6 ms, in which the caller may lower and compile.
    """
    if releases.cache_info().currsize:
        return None
    thread = threading.Thread(target=lambda: (releases(), library.check()), name="xpr surroundings", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started
        return None
    return thread


def files_of(folder: str) -> Iterator[str]:
    """The files of a package, each with its size and the time of its last change."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from files_of(entry.path)
            elif entry.name.endswith((".py", ".so")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"

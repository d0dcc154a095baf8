"""LAPACK: the routines that programs on CPU call, registered when a program that calls one is first compiled.

jaxlib brings the calls and finds the routines in SciPy, which it depends on. Where there are functions in C, each
routine is called with as many threads as it can use (see c/lapack.c).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from xpr.backend import native, runtime
from xpr.backend.foreign import pycapsule

_CALL = 'call_target_name = "lapack_'  # in the generic form of text
_THREADED = native.THREADED  # the names of routines begin so that are called with as many threads as they can use
# How the names of targets begin, in the generic form of text and in the pretty one.
_MARKS = '"lapack_', "@lapack_", f'"{_THREADED}lapack_', '"tridiagonal_solve_', "@tridiagonal_solve_"
# From how many rows or columns on several threads are faster than one, in general and for triangular systems.
_LARGE, _LARGE_SOLVES = 512, 256
# For fewer OpenBLAS itself has one thread: in general; in LU decompositions of real and of complex matrices; and in
# real triangular systems with few right sides. To set the number of threads takes a third of a microsecond, 7 % of the
# LU decomposition of 32x32.
_ALONE, _ALONE_SOLVES, _ALONE_LU = 8, 129, {"s": 129, "d": 129, "c": 100, "z": 100}
_lock = threading.Lock()  # several threads may compile at once, and each routine is registered once


def is_called_by(text: str) -> bool:
    """Whether the text of a program, StableHLO or HLO, calls a routine."""
    return any(mark in text for mark in _MARKS)


def threaded(text: str) -> str:
    """The text of a program, where each routine is called with as many threads as it can use."""
    return text.replace(_CALL, _CALL.replace('"', f'"{_THREADED}')) if _openblas() else text


def register() -> None:
    """Makes the routines known to XLA."""
    with _lock:
        _register()


@cache
def _register() -> None:
    """Under their own names, which jax registers too, and as called with as many threads as they can use."""
    registrations = importlib.import_module("jaxlib.lapack").registrations()["cpu"]
    _find_routines()
    handlers = list(registrations)
    if functions := _openblas():
        handlers += _with_threads(registrations, *functions)
    for name, target, version in handlers:
        runtime.xc.register_custom_call_target(name, target, "cpu", api_version=version)
        runtime.xc.register_custom_call_as_batch_partitionable(name)


_OF_SCIPY = ("cython_blas", "cython_lapack")  # the modules of scipy.linalg that jaxlib imports, for their addresses


@cache
def _find_routines() -> None:
    """Has jaxlib take the addresses of the routines from SciPy.

    To import scipy.linalg takes 0.1 to 0.2 s, and two of its modules are needed, which take 20 ms. They are not kept
    among the modules: whoever imports the package finds them as if they had not been loaded.
    """
    lapack = importlib.import_module("jaxlib.cpu._lapack")
    loaded = [] if "scipy.linalg" in sys.modules else [*_modules_of_scipy()]
    try:
        sys.modules.update(loaded)
        lapack.initialize()
    finally:
        for name, _ in loaded:
            del sys.modules[name]


def _modules_of_scipy() -> Iterator[tuple[str, ModuleType]]:
    scipy = importlib.util.find_spec("scipy")
    folders = scipy.submodule_search_locations if scipy else []
    for name in _OF_SCIPY:
        full_name = f"scipy.linalg.{name}"
        spec = PathFinder.find_spec(full_name, [os.path.join(folder, "linalg") for folder in folders or []])
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield full_name, module


def _with_threads(
    registrations: Sequence[tuple[str, Any, int]], get_threads: Any, set_threads: Any
) -> Iterator[tuple[str, Any, int]]:
    library = native.load()
    library.xpr_set_threads(get_threads, set_threads)
    library.xpr_threaded.restype = ctypes.c_void_p
    library.xpr_threaded.argtypes = ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * 3
    for number, (name, target, version) in enumerate(registrations):
        routine = native.pointer_in(target, b"xla._CUSTOM_CALL_TARGET")
        dtype, is_solve = name.removeprefix("lapack_")[0], "trsm" in name
        large = _LARGE_SOLVES if is_solve else _LARGE
        alone = _ALONE_LU[dtype] if "getrf" in name else _ALONE
        alone_with_few = _ALONE_SOLVES if is_solve and dtype in "sd" else 0
        handler = library.xpr_threaded(number, routine, large, alone, alone_with_few)
        yield _THREADED + name, pycapsule(handler), version


@cache
def _openblas() -> tuple[ctypes.c_void_p, ctypes.c_void_p] | None:
    """The functions that get and set OpenBLAS's number of threads; None if SciPy uses another BLAS, or without C."""
    if not native.available():
        return None
    _find_routines()
    try:
        with open("/proc/self/maps") as file:
            maps = file.read()
    except OSError:
        return None
    scipys = [path for path in dict.fromkeys(re.findall(r"/\S*openblas\S*", maps)) if "numpy" not in path]
    for path in scipys:
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas", "openblas"):
            if hasattr(library, f"{prefix}_set_num_threads"):
                get, set_ = (getattr(library, f"{prefix}_{name}_num_threads") for name in ("get", "set"))
                return ctypes.cast(get, ctypes.c_void_p), ctypes.cast(set_, ctypes.c_void_p)
    return None

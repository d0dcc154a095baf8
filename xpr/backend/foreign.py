"""Functions of other libraries that programs call: registered with XLA's foreign function interface, under a name."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from typing import Any

from xpr.backend import runtime

__all__ = [
    "include_dir", "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
]  # fmt: skip


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Registers a function of another library under the name by which `ffi_call` calls it.

    Args:
      name: the name.
      fn: a capsule that holds a pointer to the handler (see `pycapsule`), or a dict of such by stage ("instantiate",
        "prepare", "initialize", "execute").
      platform: "cpu" or "CUDA".
      api_version: 1 for handlers of XLA's typed interface, 0 for functions of the one before.
      **kwargs: passed on to jaxlib.

    Returns:
      Nothing.

    >>> import ctypes
    >>> from xpr import ffi
    >>> library = ctypes.cdll.LoadLibrary("./library.so")      # doctest: +SKIP
    >>> ffi.register_ffi_target("scaled", ffi.pycapsule(library.Scaled))      # doctest: +SKIP
    """
    runtime.xc.register_custom_call_target(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: dict[str, Any], platform: str = "cpu") -> None:
    """Registers a type of objects that handlers keep between calls.

    Args:
      name: a name that no other type has.
      type_registration: {"type_id": capsule, "type_info": capsule}, of which the second one may be left out.
      platform: "cpu" or "CUDA".

    Returns:
      Nothing.

    >>> from xpr import ffi
    >>> ffi.register_ffi_type("counter", {"type_id": capsule})      # doctest: +SKIP
    """
    runtime.xc.register_custom_type(name, type_registration, platform=platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that a function may be called for parts of its leading axes, on several devices.

    >>> from xpr import ffi
    >>> ffi.register_ffi_target_as_batch_partitionable("scaled")      # doctest: +SKIP
    """
    runtime.xc.register_custom_call_as_batch_partitionable(name)


def pycapsule(funcptr: Any) -> Any:
    """A capsule that holds the pointer to a function that `ctypes` loaded.

    >>> import ctypes
    >>> from xpr import ffi
    >>> type(ffi.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, destructor)
    return make(funcptr, None, destructor(0))


def include_dir() -> str:
    """The folder of the headers that handlers in C++ include, `xla/ffi/api/ffi.h`.

    >>> from xpr import ffi
    >>> ffi.include_dir().endswith("include")
    True
    """
    spec = importlib.util.find_spec("jaxlib")
    folders = list(spec.submodule_search_locations or []) if spec else []
    return os.path.join(folders[0], "include")

"""Functions of other libraries, in C++ or CUDA, called from programs: XLA's foreign function interface.

A handler is compiled against the headers in `include_dir()`, registered under a name, and called by `ffi_call`, or by
primitives of users whose lowering rule `ffi_lowering` makes.
"""

from xpr.backend.foreign import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
)
from xpr.control.callback.foreign_call import ffi_call
from xpr.control.callback.foreign_lowering import build_ffi_lowering_function, ffi_lowering

__all__ = [
    "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir", "pycapsule", "register_ffi_target",
    "register_ffi_target_as_batch_partitionable", "register_ffi_type",
]  # fmt: skip

"""Functions of other libraries, in C++ or CUDA, called from programs: XLA's foreign function interface.

A handler is compiled against the headers in `include_dir()`, registered under a name, and called by `ffi_call`.
"""

from xpr.backend.foreign import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
)
from xpr.control.callback.foreign_call import ffi_call

__all__ = [
    "ffi_call", "include_dir", "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
]  # fmt: skip

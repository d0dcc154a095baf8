"""xpr: trace numerical Python into jaxprs; differentiate, vectorize, compile and run them through XLA."""

import importlib
from typing import TYPE_CHECKING, Any

from xpr.garbage_collection import without_collections as _without_collections

with _without_collections():
    from xpr import core as core
    from xpr import dtypes as dtypes
    from xpr import errors as errors
    from xpr import extend as extend
    from xpr import numpy as numpy
    from xpr import tree as tree
    from xpr import tree_util as tree_util
    from xpr.api.grad import *
    from xpr.api.jacobians import *
    from xpr.api.jit import *
    from xpr.api.make_jaxpr import *
    from xpr.api.transfer import *
    from xpr.api.vmap import *
    from xpr.backend.array import *
    from xpr.backend.devices import *
    from xpr.compile.bottom_traces import *
    from xpr.config import *
    from xpr.config_contexts import *
    from xpr.control.custom.custom_jvp import *
    from xpr.control.custom.custom_vjp import *
    from xpr.core.avals import *
    from xpr.core.primitive import vocabulary

if TYPE_CHECKING:  # checkers don't know that a module can be called
    from xpr.control.remat.checkpoint import checkpoint as checkpoint
    from xpr.doctor import CallableModule as _Doctor

    doctor: _Doctor

__version__ = "0.1.0"

# What most programs don't need, or not at once: modules, and functions with the module they are in.
_LOADED_WHEN_ASKED_FOR = (
    "ad", "ad_checkpoint", "api_util", "checkify", "custom_batching", "custom_derivatives", "debug", "distributed",
    "dlpack", "doctor", "experimental", "export", "ffi", "flatten_util", "image", "interpreters", "jaxpr", "lax",
    "memory", "monitoring", "multihost_utils", "nn", "ops", "profiler", "random", "ref", "scipy", "sharding", "stages",
    "storage", "testing", "typing",
)  # fmt: skip

_FUNCTIONS = {
    "Device": "backend.device_class",
    "NamedSharding": "backend.sharding",
    "P": "core.specs",
    "Ref": "numpy.refs",
    "Shard": "backend.sharding",
    "checkpoint": "control.remat.checkpoint",
    "checkpoint_policies": "ad_checkpoint",
    "closure_convert": "control.custom.closure_convert",
    "custom_gradient": "control.custom.closure_convert",
    "ds": "core.sized_slices",
    "effects_barrier": "control.callback.callback",
    "empty_ref": "numpy.refs",
    "ensure_compile_time_eval": "control.scopes",
    "float0": "dtypes",
    "free_ref": "numpy.refs",
    "freeze": "numpy.refs",
    "fwd_and_bwd": "api.forward_backward",
    "inverse": "inversion.inverse",
    "inverse_and_log_det": "inversion.inverse",
    "io_callback": "control.callback.callback",
    "laplacian": "series.laplacian",
    "live_arrays": "api.transfer",
    "load_compiled": "api.compiled_files",
    "make_array_from_callback": "api.meshes",
    "make_array_from_process_local_data": "api.meshes",
    "make_array_from_single_device_arrays": "api.meshes",
    "make_mesh": "api.meshes",
    "named_call": "control.scopes",
    "named_scope": "control.scopes",
    "new_ref": "numpy.refs",
    "pmap": "api.pmap",
    "print_environment_info": "api.doctor",
    "pure_callback": "control.callback.callback",
    "remat": "control.remat.checkpoint",
    "reroll": "api.reroll",
    "reshard": "control.devices.sharding_constraint",
    "set_mesh": "api.current_mesh",
    "shard_map": "api.shard_map",
    "smap": "api.shard_map",
    "sparse_hessian": "sparsity.jacobian",
    "sparse_jacobian": "sparsity.jacobian",
    "taylor": "series.taylor",
}


_REPLACED = {
    "device_put_replicated": "xpr.device_put(x, sharding) with a sharding that partitions no axis",
    "device_put_sharded": "xpr.device_put(xpr.numpy.stack(shards), sharding) with a sharding that partitions axis 0",
    "tree_flatten": "xpr.tree.flatten",
    "tree_leaves": "xpr.tree.leaves",
    "tree_map": "xpr.tree.map",
    "tree_structure": "xpr.tree.structure",
    "tree_unflatten": "xpr.tree.unflatten",
    "xla_computation": "xpr.jit(f).lower(...)",
}


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_ASKED_FOR:
        return importlib.import_module(f"xpr.{name}")
    if name in _FUNCTIONS:
        value = globals()[name] = getattr(importlib.import_module(f"xpr.{_FUNCTIONS[name]}"), name)
        return value
    instead = f": use {_REPLACED[name]}." if name in _REPLACED else ""
    raise AttributeError(f"module 'xpr' has no attribute {name!r}{instead}")


def __dir__() -> list[str]:
    return [*globals(), *_LOADED_WHEN_ASKED_FOR, *_FUNCTIONS]


vocabulary.append(lambda: importlib.import_module("xpr.lax"))  # which gathers all primitives

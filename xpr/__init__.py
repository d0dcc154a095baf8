"""xpr: trace numerical Python into jaxprs; differentiate, vectorize, compile and run them through XLA."""

import importlib
from typing import TYPE_CHECKING, Any

from xpr import core as core
from xpr import dtypes as dtypes
from xpr import errors as errors
from xpr import extend as extend
from xpr import numpy as numpy
from xpr import tree as tree
from xpr import tree_util as tree_util
from xpr.api.grad import grad as grad
from xpr.api.grad import hessian as hessian
from xpr.api.grad import jacfwd as jacfwd
from xpr.api.grad import jacobian as jacobian
from xpr.api.grad import jacrev as jacrev
from xpr.api.grad import jvp as jvp
from xpr.api.grad import linear_transpose as linear_transpose
from xpr.api.grad import linearize as linearize
from xpr.api.grad import value_and_grad as value_and_grad
from xpr.api.grad import vjp as vjp
from xpr.api.jit import clear_caches as clear_caches
from xpr.api.jit import jit as jit
from xpr.api.staging import ShapeDtypeStruct as ShapeDtypeStruct
from xpr.api.staging import eval_shape as eval_shape
from xpr.api.staging import make_jaxpr as make_jaxpr
from xpr.api.transfer import block_until_ready as block_until_ready
from xpr.api.transfer import copy_to_host_async as copy_to_host_async
from xpr.api.transfer import device_get as device_get
from xpr.api.transfer import device_put as device_put
from xpr.api.vmap import vmap as vmap
from xpr.backend.array import Array as Array
from xpr.backend.devices import default_backend as default_backend
from xpr.backend.devices import device_count as device_count
from xpr.backend.devices import devices as devices
from xpr.backend.devices import local_device_count as local_device_count
from xpr.backend.devices import local_devices as local_devices
from xpr.backend.devices import process_count as process_count
from xpr.backend.devices import process_index as process_index
from xpr.compile.check_values import debug_infs as debug_infs
from xpr.compile.check_values import debug_nans as debug_nans
from xpr.config import config as config
from xpr.config import default_device as default_device
from xpr.config import default_matmul_precision as default_matmul_precision
from xpr.config import disable_jit as disable_jit
from xpr.config import enable_x64 as enable_x64
from xpr.config import traceback_filtering as traceback_filtering
from xpr.config import while_checkpoints as while_checkpoints
from xpr.control.custom.custom_jvp import custom_jvp as custom_jvp
from xpr.control.custom.custom_vjp import custom_vjp as custom_vjp
from xpr.core.avals import typeof as typeof
from xpr.core.primitive import vocabulary

if TYPE_CHECKING:  # checkers don't know that a module can be called
    from xpr.checkpoint import CallableModule as _Checkpoint
    from xpr.doctor import CallableModule as _Doctor

    checkpoint: _Checkpoint
    doctor: _Doctor

__version__ = "0.1.0"

# What most programs don't need, or not at once: modules, and functions with the module they are in.
_LOADED_WHEN_ASKED_FOR = (
    "ad_checkpoint", "checkify", "checkpoint", "custom_batching", "custom_derivatives", "debug", "distributed",
    "doctor", "experimental", "flatten_util", "image", "jaxpr", "lax", "multihost_utils", "nn", "ops", "random",
    "scipy", "sharding", "testing",
)  # fmt: skip

_FUNCTIONS = {
    "NamedSharding": "backend.sharding",
    "P": "backend.sharding",
    "checkpoint_policies": "ad_checkpoint",
    "closure_convert": "control.custom.closure_convert",
    "custom_gradient": "control.custom.closure_convert",
    "effects_barrier": "control.callback.callback",
    "ensure_compile_time_eval": "control.scopes",
    "inverse": "inversion.inverse",
    "inverse_and_log_det": "inversion.inverse",
    "io_callback": "control.callback.callback",
    "laplacian": "series.laplacian",
    "make_array_from_callback": "api.meshes",
    "make_array_from_process_local_data": "api.meshes",
    "make_array_from_single_device_arrays": "api.meshes",
    "make_mesh": "api.meshes",
    "named_call": "control.scopes",
    "named_scope": "control.scopes",
    "pmap": "api.pmap",
    "pure_callback": "control.callback.callback",
    "remat": "control.remat.checkpoint",
    "reroll": "api.reroll",
    "reshard": "control.devices.sharding_constraint",
    "set_mesh": "api.current_mesh",
    "shard_map": "api.shard_map",
    "sparse_hessian": "sparsity.jacobian",
    "sparse_jacobian": "sparsity.jacobian",
    "taylor": "series.taylor",
}


_REPLACED = {
    "device_put_replicated": "xpr.device_put(x, sharding) with a sharding that cuts no axis",
    "device_put_sharded": "xpr.device_put(xpr.numpy.stack(shards), sharding) with a sharding that cuts axis 0",
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
        found = globals()[name] = getattr(importlib.import_module(f"xpr.{_FUNCTIONS[name]}"), name)
        return found
    instead = f": use {_REPLACED[name]}." if name in _REPLACED else ""
    raise AttributeError(f"module 'xpr' has no attribute {name!r}{instead}")


def __dir__() -> list[str]:
    return [*globals(), *_LOADED_WHEN_ASKED_FOR, *_FUNCTIONS]


vocabulary.append(lambda: importlib.import_module("xpr.lax"))  # which gathers all primitives

"""xpr: trace numerical Python into jaxprs; differentiate, vectorize, compile and run them through XLA."""

import importlib
from typing import Any

from xpr import ad_checkpoint as ad_checkpoint
from xpr import core as core
from xpr import custom_batching as custom_batching
from xpr import custom_derivatives as custom_derivatives
from xpr import dtypes as dtypes
from xpr import errors as errors
from xpr import extend as extend
from xpr import lax as lax
from xpr import numpy as numpy
from xpr import tree as tree
from xpr import tree_util as tree_util
from xpr.api.doctor import doctor as doctor
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
from xpr.api.meshes import make_array_from_callback as make_array_from_callback
from xpr.api.meshes import make_array_from_single_device_arrays as make_array_from_single_device_arrays
from xpr.api.meshes import make_mesh as make_mesh
from xpr.api.pmap import pmap as pmap
from xpr.api.reroll import reroll as reroll
from xpr.api.shard_map import shard_map as shard_map
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
from xpr.config import config as config
from xpr.config import default_device as default_device
from xpr.config import disable_jit as disable_jit
from xpr.config import enable_x64 as enable_x64
from xpr.config import traceback_filtering as traceback_filtering
from xpr.config import while_checkpoints as while_checkpoints
from xpr.control import checkpoint_policies as checkpoint_policies
from xpr.control.callback import effects_barrier as effects_barrier
from xpr.control.callback import io_callback as io_callback
from xpr.control.callback import pure_callback as pure_callback
from xpr.control.checkpoint import checkpoint as checkpoint
from xpr.control.checkpoint import remat as remat
from xpr.control.closure_convert import closure_convert as closure_convert
from xpr.control.closure_convert import custom_gradient as custom_gradient
from xpr.control.custom_jvp import custom_jvp as custom_jvp
from xpr.control.custom_vjp import custom_vjp as custom_vjp
from xpr.core.avals import typeof as typeof
from xpr.transforms.check_values import debug_infs as debug_infs
from xpr.transforms.check_values import debug_nans as debug_nans

__version__ = "0.1.0"

# Together a twentieth of the time that `import xpr` would take: modules, and functions with the module they are in.
_LOADED_WHEN_ASKED_FOR = ("checkify", "debug", "jaxpr", "nn", "random", "sharding", "testing")

_FUNCTIONS = {
    "inverse": "interpreters.inverse",
    "inverse_and_log_det": "interpreters.inverse",
    "laplacian": "interpreters.laplacian",
    "sparse_hessian": "interpreters.sparse",
    "sparse_jacobian": "interpreters.sparse",
    "taylor": "interpreters.taylor",
}


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_ASKED_FOR:
        return importlib.import_module(f"xpr.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"xpr.{_FUNCTIONS[name]}"), name)
    raise AttributeError(f"module 'xpr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_LOADED_WHEN_ASKED_FOR, *_FUNCTIONS]

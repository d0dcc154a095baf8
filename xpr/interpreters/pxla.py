"""`jax.interpreters.pxla`: names for several devices that JAX still has there."""

from __future__ import annotations

from typing import Any

from xpr.backend.array import Array
from xpr.backend.mesh import Mesh as Mesh

__all__ = ["Mesh", "ShardedDeviceArray", "global_result_handlers", "shard_arg_handlers"]

ShardedDeviceArray = Array
MeshAxisName = Any
global_result_handlers: dict[type, Any] = {}
shard_arg_handlers: dict[type, Any] = {}

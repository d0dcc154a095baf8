"""Events of the library and of the user: lists of functions that are called with them, see `xpr.monitoring`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]

events: list[Listener] = []
durations: list[Listener] = []
spans: list[Listener] = []
scalars: list[Listener] = []

# The names are JAX's, so that programs that count compilations do so here, too.
TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_REQUEST = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"


def call(listeners: list[Listener], *args: Any, **kwargs: Any) -> None:
    """Calls the listeners of one kind."""
    for listener in list(listeners):
        listener(*args, **kwargs)

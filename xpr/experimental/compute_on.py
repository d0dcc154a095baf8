"""`jax.experimental.compute_on`: which unit of a device operations are for, as attributes that XLA reads.

XLA:CPU has one unit, and passes over them; on other platforms operations for the host run there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from xpr.api.jit import jit
from xpr.core.avals import describe
from xpr.experimental.xla_metadata import set_xla_metadata

__all__ = ["compute_on", "compute_on2"]

_TYPES = {"device_host": "host", "device": "dense", "tpu_sparsecore": "sparse"}


def compute_on(compute_type: str) -> AbstractContextManager[None]:
    """A context manager, and decorator, for operations that one unit of the device computes.

    Args:
      compute_type: "device_host" for the host of the device, "device", "tpu_sparsecore", or "gpu_stream:1".

    Returns:
      The context manager.

    Raises:
      TypeError: it is no text.
      ValueError: there is no such unit.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.compute_on import compute_on
    >>> @xpr.jit
    ... def f(x):
    ...     with compute_on("device_host"):
    ...         y = jnp.sin(x)
    ...     return y * 2
    >>> '_xla_compute_type = "host"' in f.lower(1.0).as_text()
    True
    """
    if not isinstance(compute_type, str):
        raise TypeError(f"compute_on: the compute type is a text, and is {describe(compute_type)}.")
    if compute_type.startswith("gpu_stream:"):
        return set_xla_metadata(  # type: ignore[no-any-return]  # it is a context manager
            _xla_stream_annotation=compute_type.removeprefix("gpu_stream:"), inlineable="false"
        )
    if compute_type not in _TYPES:
        raise ValueError(
            f"compute_on: invalid compute type {compute_type!r}. Those that there are: device_host, device, "
            "tpu_sparsecore, and gpu_stream:#."
        )
    return set_xla_metadata(_xla_compute_type=_TYPES[compute_type])  # type: ignore[no-any-return]  # likewise


def compute_on2(
    f: Callable[..., Any] | None = None, *, compute_type: str, out_memory_spaces: Any, compiler_options: Any = None
) -> Any:
    """A function whose operations one unit of the device computes, as one call.

    Args:
      f: the function; None for a decorator.
      compute_type: as for `compute_on`.
      out_memory_spaces: where the results are to be; only None and spaces of the device are taken.
      compiler_options: must be None.

    Returns:
      A function of the same arguments and results.

    Raises:
      NotImplementedError: results are to be in another memory than the device's, or there are options.
      ValueError: there is no such unit.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.compute_on import compute_on2
    >>> compute_on2(jnp.sin, compute_type="device_host", out_memory_spaces=None)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    if f is None:
        return lambda function: compute_on2(
            function, compute_type=compute_type, out_memory_spaces=out_memory_spaces, compiler_options=compiler_options
        )
    if compiler_options is not None:
        raise NotImplementedError("compute_on2: `compiler_options` of a part of a program are not supported.")
    if out_memory_spaces is not None and getattr(out_memory_spaces, "name", "") != "Device":
        raise NotImplementedError("compute_on2: results can be in the device's memory alone.")
    function = jit(f)

    def computed(*args: Any) -> Any:
        with compute_on(compute_type):
            return function(*args)

    return computed

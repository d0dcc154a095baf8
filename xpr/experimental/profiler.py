"""`jax.experimental.profiler`: what XLA's profile-guided optimizations read of traces."""

from __future__ import annotations

from xpr.backend import runtime

__all__ = ["get_profiled_instructions_proto"]


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """The costs of a program's instructions, of a trace that was recorded on an NVIDIA GPU.

    Args:
      tensorboard_dir: a folder `plugins/profile/<run>` that `xpr.profiler.trace` wrote.

    Returns:
      A serialized `ProfiledInstructionsProto`; empty where the trace has none.

    >>> import glob, tempfile, xpr.numpy as jnp
    >>> from xpr import profiler
    >>> from xpr.experimental.profiler import get_profiled_instructions_proto
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with profiler.trace(folder):
    ...         x = jnp.arange(3.0) * 2
    ...     get_profiled_instructions_proto(glob.glob(f"{folder}/plugins/profile/*")[0])
    b''
    """
    return runtime.profiler.get_profiled_instructions_proto(tensorboard_dir)  # type: ignore[no-any-return]

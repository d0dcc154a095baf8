"""`jax.extend.xla`: passes of one's own in XLA's compiler."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xpr.api.jit import clear_caches
from xpr.backend import hlo_transformations
from xpr.backend.devices import clients, default_device
from xpr.core.avals import describe

__all__ = ["PipelineStage", "clear_hlo_module_transformation", "register_hlo_module_transformation"]


class PipelineStage(enum.Enum):
    """When a pass runs: before or after operations are put in the order in which they run."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Adds a pass to XLA's compiler. Programs that were compiled before are forgotten, and compiled again when called.

    Several passes of a stage run in the order in which they were added. While there are any, programs are neither read
    from the cache on disk nor written to it. An operation on a small array that NumPy does is none of XLA's.

    Args:
      callback: takes a serialized `HloModuleProto`, and returns a changed one, or None for no change. An exception that
        it raises makes the compilation fail.
      name: a name, by which it is removed.
      stage: when it runs.
      platforms: the platforms whose programs it is called with; None for all that are in use.

    Raises:
      TypeError: `callback` is no function, or `stage` no `PipelineStage`.
      RuntimeError: the compiler of a platform that is named calls no passes.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.extend import xla
    >>> sizes = []
    >>> xla.register_hlo_module_transformation(lambda program: sizes.append(len(program)), name="sizes")
    >>> xpr.jit(lambda x: jnp.sin(x) + x)(1.0)
    Array(1.841471, dtype=float32, weak_type=True)
    >>> len(sizes), xla.clear_hlo_module_transformation("sizes")
    (1, True)
    """
    if not callable(callback):
        raise TypeError(
            f"register_hlo_module_transformation takes a function from bytes to bytes or None, and got "
            f"{describe(callback)}."
        )
    _check_stage("register_hlo_module_transformation", stage)
    for platform, client in _clients(platforms):
        try:
            hlo_transformations.register(name, stage.value, platform, client, callback)
        except RuntimeError:
            if platforms is not None:
                raise
    clear_caches()


def clear_hlo_module_transformation(
    name: str, stage: PipelineStage = PipelineStage.PRE_SCHEDULER, platforms: Sequence[str] | str | None = None
) -> bool:
    """Removes a pass. Programs that were compiled with it are forgotten.

    Args:
      name: its name.
      stage: when it ran.
      platforms: the platforms from which it is removed; None for all that are in use.

    Returns:
      Whether there was one.

    Raises:
      TypeError: `stage` is no `PipelineStage`.

    >>> from xpr.extend import xla
    >>> xla.clear_hlo_module_transformation("never added")
    False
    """
    _check_stage("clear_hlo_module_transformation", stage)
    found = [hlo_transformations.clear(name, stage.value, platform, client) for platform, client in _clients(platforms)]
    if any(found):
        clear_caches()
    return any(found)


def _check_stage(function: str, stage: Any) -> None:
    if not isinstance(stage, PipelineStage):
        raise TypeError(f"{function}: stage must be a PipelineStage, and is {describe(stage)}.")


def _clients(platforms: Sequence[str] | str | None) -> Iterator[tuple[str, Any]]:
    """The platforms in use among these, with their clients."""
    default_device()
    wanted = [platforms] if isinstance(platforms, str) else platforms
    for platform, client in list(clients.items()):
        if wanted is None or platform in wanted:
            yield platform, client

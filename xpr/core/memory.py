"""Memory spaces: the memory that an array is in, by its name in types and by its names in shardings.

Device   "device"                        the memory that the device computes in
Host     "pinned_host", "unpinned_host"  the memory of the host; types say `Host` of pinned memory alone, as JAX's do
"""

from __future__ import annotations

import enum

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class MemorySpace(enum.Enum):
    """The memory that an array is in, as its type says it: `f32[8]` or `f32<host>[8]`.

    >>> import xpr
    >>> xpr.memory.Space.Host
    MemorySpace.Host
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()  # of no array; the name is there for programs that are written for JAX

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"


def space_of_kind(kind: str | None) -> MemorySpace:
    """The memory space in the types of arrays whose sharding names this kind of memory; None is "device"."""
    return MemorySpace.Host if kind == "pinned_host" else MemorySpace.Device


def kind_of_space(space: MemorySpace) -> str:
    """The kind of memory that an array of such a type is in, unless its sharding names another one."""
    return "pinned_host" if space is MemorySpace.Host else "device"


def checked_kind(kind: str | None, device: str, kinds: tuple[str, ...] = MEMORY_KINDS) -> str:
    """A kind of memory; None is "device". `device`, which has memory of these `kinds`, is for the message, and empty
    where there are no devices.

    Raises:
      ValueError: there is no such kind.
    """
    if kind is None:
        return "device"
    if kind not in kinds:
        if not device:
            raise ValueError(f"Got invalid memory kind: {kind}. The kinds are: {', '.join(kinds)}.")
        raise ValueError(
            f"Could not find memory addressable by device {device}: its kinds are {', '.join(kinds)}, and "
            f"{kind!r} was asked for."
        )
    return kind

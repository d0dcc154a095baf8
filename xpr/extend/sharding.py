"""`jax.extend.sharding`: shardings as XLA has them, and as bytes."""

from __future__ import annotations

from typing import Any

from xpr.backend import runtime

__all__ = [
    "get_hlo_sharding_from_serialized_proto", "get_op_sharding_from_serialized_proto",
    "get_serialized_proto_from_hlo_sharding",
]  # fmt: skip


def get_op_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The `OpSharding` of bytes.

    Args:
      sharding: a serialized `OpSharding`.

    Returns:
      jaxlib's object.

    >>> from xpr.extend import sharding
    >>> sharding.get_op_sharding_from_serialized_proto(b"").type
    OpSharding_Type.REPLICATED
    """
    proto = runtime.xc.OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The `HloSharding` of bytes.

    Args:
      sharding: a serialized `OpSharding`.

    Returns:
      jaxlib's object.

    >>> from xpr.extend import sharding
    >>> sharding.get_hlo_sharding_from_serialized_proto(b"")
    {replicated}
    """
    return runtime.xc.HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: Any) -> bytes:
    """The bytes of an `HloSharding`.

    Args:
      sharding: jaxlib's object.

    Returns:
      A serialized `OpSharding`.

    >>> from xpr.extend import sharding
    >>> sharding.get_serialized_proto_from_hlo_sharding(sharding.get_hlo_sharding_from_serialized_proto(b""))
    b''
    """
    return sharding.to_proto().SerializeToString()  # type: ignore[no-any-return]  # jaxlib's object has no types

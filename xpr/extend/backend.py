"""`jax.extend.backend`: the clients of platforms."""

from __future__ import annotations

from typing import Any

from xpr.api.jit import clear_caches
from xpr.backend.devices import clients, default_device, devices

__all__ = ["backends", "clear_backends", "get_backend", "get_default_device"]


def get_backend(platform: str | None = None) -> Any:
    """The client of a platform, by default that of the default device."""
    return (devices(platform)[0] if platform else default_device()).client


def backends() -> dict[str, Any]:
    """The clients of all platforms in use, that of the default device among them, by the platform's name."""
    default_device()
    return dict(clients)


def get_default_device() -> Any:
    """The device on which programs run by default."""
    return default_device()


def clear_backends() -> None:
    """Forgets all compiled programs; clients stay."""
    clear_caches()

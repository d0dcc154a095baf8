"""`jax.experimental.serialize_executable`: compiled programs as bytes, without the structures of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import tree
from xpr.api.compiled import Compiled
from xpr.artifacts.compiled_programs import read_program, write_program
from xpr.backend import devices

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled program as bytes, which `deserialize_and_load` runs where jaxlib and the processor are the same.

    Args:
      compiled: what `jit(f).lower(...).compile()` returns.

    Returns:
      The bytes, and the structures of `(args, kwargs)` and of the result, whose classes need not be registered for
      serialization.

    Raises:
      NotImplementedError: the program runs in steps or on several devices, or calls Python functions.
      ValueError: it reads or writes refs.

    >>> import xpr
    >>> from xpr.experimental.serialize_executable import deserialize_and_load, serialize
    >>> double = xpr.jit(lambda x: 2 * x).lower(1.0).compile()
    >>> deserialize_and_load(*serialize(double))(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    interface = compiled.interface
    if compiled.state is not None:
        raise ValueError(
            f"One can't serialize with a closed-over Ref, nor with one as an argument, and {interface.name} has some. "
            "Compile a function of what the refs hold, that returns what they are to hold."
        )
    flat = interface._replace(
        in_tree=tree.structure(((*interface.in_avals,), {})), out_tree=tree.structure((*interface.out_avals,))
    )
    return write_program(flat, compiled.executable, compiled.constants), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: str | None = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """The compiled program of bytes that `serialize` returned.

    Args:
      serialized: the bytes. They hold machine code: load them only from where you trust.
      in_tree: the structure of `(args, kwargs)`.
      out_tree: the structure of the result.
      backend: the platform that it is to run on; None for the default one.
      execution_devices: the device that it is to run on, in a list; None for the first of the platform.

    Returns:
      The program.

    Raises:
      ValueError: the bytes are damaged, or were written with another jaxlib, or for another processor or kind of
        device; or there is another number of devices than one.

    >>> import xpr
    >>> from xpr.experimental.serialize_executable import deserialize_and_load, serialize
    >>> data, in_tree, out_tree = serialize(xpr.jit(lambda x: {"y": x}).lower(1.0).compile())
    >>> deserialize_and_load(data, in_tree, out_tree)(3.0)
    {'y': Array(3., dtype=float32, weak_type=True)}
    """
    if execution_devices is not None and len(execution_devices) != 1:
        raise ValueError(
            f"deserialize_and_load: the program is for one device, and execution_devices has {len(execution_devices)}."
        )
    if execution_devices is not None:
        device = execution_devices[0]
    else:
        device = devices.default_device() if backend is None else devices.devices(backend)[0]
    interface, executable, constants = read_program(serialized, device, "serialized")
    return Compiled(interface._replace(in_tree=in_tree, out_tree=out_tree), executable, constants)

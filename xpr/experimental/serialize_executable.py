"""`jax.experimental.serialize_executable`: compiled programs as bytes; `Compiled.save` writes the same to a file.

The bytes hold machine code: load them only from where you trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import tree
from xpr.api.compiled import Compiled
from xpr.artifacts.compiled_programs import read_program, write_program
from xpr.backend import devices

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled program as bytes, and the structures of its arguments and results.

    Args:
      compiled: what `jit(f).lower(...).compile()` gives.

    Returns:
      `(bytes, in_tree, out_tree)`, which `deserialize_and_load` takes.

    Raises:
      NotImplementedError: the program runs in steps or on several devices, calls Python functions, or uses refs.

    >>> import xpr
    >>> from xpr.experimental import serialize_executable
    >>> compiled = xpr.jit(lambda x: 2 * x).lower(1.0).compile()
    >>> serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))(4.0)
    Array(8., dtype=float32, weak_type=True)
    """
    if compiled.refs is not None:
        raise NotImplementedError(f"serialize: {compiled.interface.name} reads or writes refs, which bytes can't hold.")
    interface = compiled.interface
    flat = interface._replace(in_tree=_flat(interface.in_tree), out_tree=_flat(interface.out_tree))
    return write_program(flat, compiled.executable, compiled.constants), interface.in_tree, interface.out_tree


def _flat(structure: Any) -> Any:
    """A structure of as many leaves that is written whatever the classes of the user are; it is replaced on loading."""
    return tree.structure((tuple(range(structure.num_leaves)), {}))


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """The compiled program of bytes that `serialize` gave.

    Args:
      serialized: the bytes.
      in_tree: the structure of the arguments.
      out_tree: the structure of the results.
      backend: the platform; None for the default one.
      execution_devices: the device that is to run it, one in a list; None for the default one.

    Returns:
      The program.

    Raises:
      ValueError: the bytes are damaged, or of another release, processor or kind of device; or there are several
        devices.

    >>> import xpr
    >>> from xpr.experimental import serialize_executable
    >>> compiled = xpr.jit(lambda x: 2 * x).lower(1.0).compile()
    >>> serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled)).in_tree == compiled.in_tree
    True
    """
    if execution_devices is not None and len(execution_devices) != 1:
        raise ValueError(
            f"deserialize_and_load: a program runs on one device, and {len(execution_devices)} were given."
        )
    named = devices.devices(backend)[0] if isinstance(backend, str) else devices.default_device()
    device = execution_devices[0] if execution_devices else named
    interface, executable, constants = read_program(serialized, device, "The program")
    return Compiled(interface._replace(in_tree=in_tree, out_tree=out_tree), executable, constants)

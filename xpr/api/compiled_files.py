"""Compiled programs from files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from xpr.api.compiled import Compiled
from xpr.artifacts.compiled_programs import read_program
from xpr.backend import devices


def load_compiled(path: str | PathLike[str], *, device: Any = None) -> Compiled:
    """The compiled program of a file that `Compiled.save` wrote: neither traced nor compiled again.

    Args:
      path: the file. It holds machine code: load it only from where you trust.
      device: where it is to run; None for the default device.

    Returns:
      The program.

    Raises:
      ValueError: the file is damaged, or was written with another jaxlib, or for another processor or kind of device.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     xpr.jit(lambda x: 2 * x).lower(jnp.zeros(2)).compile().save(f"{folder}/double")
    ...     double = xpr.load_compiled(f"{folder}/double")
    >>> double(jnp.arange(2.0))
    Array([0., 2.], dtype=float32)
    """
    interface, executable, constants = read_program(Path(path).read_bytes(), device or devices.default_device(), path)
    return Compiled(interface, executable, constants)

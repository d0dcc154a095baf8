"""Compiled programs as files: machine code with its constants, types and structures.

A file is a line with the format's name, a hash, and a flatbuffer. It is refused where the code would not run, or run
wrongly: with another jaxlib, processor or kind of device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from xpr.artifacts import flatbuffers, schema
from xpr.artifacts.interface import Interface
from xpr.artifacts.trees import tree_as_table, tree_of_table
from xpr.artifacts.types import aval_as_table, leaf_of_table, leaf_types
from xpr.backend import buffers
from xpr.backend.cache import replace_file as replace_file
from xpr.backend.saved import (
    CIRCUMSTANCES,
    called_libraries,
    circumstances,
    executable_bytes,
    load_executable,
)
from xpr.core.avals import ShapedArray
from xpr.dtypes import float0

_FORMAT = b"xpr-compiled-program-2\n"
_HASH_SIZE = hashlib.sha256().digest_size


def write_program(interface: Interface, executable: Any, constants: Sequence[Any]) -> bytes:
    """The bytes of a file for a compiled program.

    Raises:
      NotImplementedError: it is not one program on one device, or calls Python functions.
      ValueError: a class of pytree nodes is not registered for serialization.
    """
    code = executable_bytes(executable)
    table = {
        "circumstances": circumstances(executable.device),
        "name": interface.name,
        "in_tree": tree_as_table(interface.in_tree, interface.in_avals),
        "out_tree": tree_as_table(interface.out_tree, interface.out_avals),
        "in_avals": list(map(aval_as_table, leaf_types(interface.in_avals))),
        "out_avals": list(map(aval_as_table, leaf_types(interface.out_avals))),
        "weak_inputs": [aval.weak_type for aval in interface.in_avals],
        "weak_outputs": [aval.weak_type for aval in interface.out_avals],
        "names": list(interface.names),
        "donated": list(interface.donated),
        "constants": [_constant(x) for x in constants],
        "executable": code,
        "libraries": called_libraries(executable),
    }
    content = bytes(flatbuffers.write(schema.CompiledProgram, table))
    return _FORMAT + hashlib.sha256(content).digest() + content


def _constant(buffer: Any) -> dict[str, Any]:
    aval = buffer.aval
    value = np.ascontiguousarray(buffers.get(buffer, aval))
    return {
        "aval": aval_as_table(leaf_types([ShapedArray(aval.shape, np.dtype(aval.dtype))])[0]),
        "data": value.tobytes(),
    }


def read_program(data: bytes, device: Any, path: str | PathLike[str]) -> tuple[Interface, Any, list[np.ndarray]]:
    """The interface, the program and the constants of a file.

    Raises:
      ValueError: the bytes are damaged, or the program was compiled in other circumstances.
    """
    start = len(_FORMAT) + _HASH_SIZE
    if not data.startswith(_FORMAT) or hashlib.sha256(data[start:]).digest() != data[len(_FORMAT) : start]:
        raise ValueError(f"{path} is damaged, or no compiled program that this release of xpr writes.")
    table = flatbuffers.read(schema.CompiledProgram, data[start:])
    _check_circumstances(table["circumstances"], device, path)
    in_avals, out_avals = _types(table, "in"), _types(table, "out")
    interface = Interface(
        table["name"], tree_of_table(table["in_tree"], in_avals), tree_of_table(table["out_tree"], out_avals),
        _weak(in_avals, table["weak_inputs"]), _weak(out_avals, table["weak_outputs"]), table["names"],
        tuple(table["donated"]),
    )  # fmt: skip
    libraries = table.get("libraries", ())
    executable = load_executable(table["executable"], interface.out_avals, device, interface.name, libraries)
    return interface, executable, [_value(each) for each in table["constants"]]


def _types(table: dict[str, Any], which: str) -> list[Any]:
    return [leaf_of_table(each) for each in table[f"{which}_avals"]]


def _weak(leaves: list[Any], weak: list[bool]) -> list[ShapedArray]:
    return [aval.update(weak_type=flag) for aval, flag in zip(leaves, weak)]


def _value(table: dict[str, Any]) -> np.ndarray:
    aval = leaf_of_table(table["aval"])
    dtype = np.dtype(bool) if aval.dtype == float0 else aval.dtype
    return np.frombuffer(table["data"], dtype).reshape(aval.shape)


def _check_circumstances(written: Sequence[str], device: Any, path: str | PathLike[str]) -> None:
    here = circumstances(device)
    differences = [
        f"  {what}: compiled {_told(what, was, now, 'for')}, and here {_told(what, now, was, 'it is')}"
        for what, was, now in zip(CIRCUMSTANCES, written, here)
        if was != now
    ]
    if differences:
        raise ValueError(
            "\n".join([
                f"{path} holds a program that can't run here:",
                *differences,
                "Compile the function here, or keep it as a program that is compiled where it runs: see xpr.export.",
            ])
        )  # fmt: skip


def _told(what: str, one: str, other: str, verb: str) -> str:
    """The text of a circumstance that differs from another; of a processor its model, and features that only it has."""
    if what != "processor":
        return f"{verb} {one}"
    model = next((line.partition(":")[2].strip() for line in one.splitlines() if line.startswith("model name")), "")
    features = sorted(set(one.split()) - set(other.split()) - set(model.split()))
    return f"{verb} {model or 'another'}{' with ' + ', '.join(features[:12]) if features else ''}"

"""`jax.tools.jax_to_ir`: a function as a program of XLA, in its binary format (HLO) and as text.

`python -m xpr.tools.jax_to_ir --fn module.function --input_shapes '[("x", "f32[8,2]")]' --ir_dest program.pb`
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpr import dtypes
from xpr.api.jit import jit
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.core.avals import ShapedArray
from xpr.errors import ArgumentError
from xpr.numpy.creation import asarray

__all__ = ["jax_to_hlo", "jax_to_ir", "main", "parse_shape_str"]

Shapes = Sequence[tuple[str, Any]]

_KINDS = {"s": ("int", (1, 2, 4, 8, 16, 32, 64)), "u": ("uint", (1, 2, 4, 8, 16, 32, 64)), "f": ("float", (16, 32, 64)),
          "bf": ("bfloat", (16,)), "c": ("complex", (64, 128))}  # fmt: skip
_DTYPES = {"pred": dtypes.bool_} | {
    f"{letters}{bits}": getattr(dtypes, f"{name}{bits}") for letters, (name, sizes) in _KINDS.items() for bits in sizes
}
_SHAPE = re.compile(r"(\w+)\[\s*(?:(\d+(?:\s*,\s*\d+)*)\s*)?\]")


def parse_shape_str(s: str) -> ShapedArray:
    """The type of an array that XLA writes as `f32[8,2]`.

    Args:
      s: the text: a dtype as XLA names it, and the sizes.

    Returns:
      The type.

    Raises:
      ValueError: it is no such text.

    >>> from xpr.tools.jax_to_ir import parse_shape_str
    >>> parse_shape_str("s8[2, 3]"), parse_shape_str("pred[]")
    (ShapedArray(int8[2,3]), ShapedArray(bool[]))
    """
    match = _SHAPE.fullmatch(s)
    if match is None or match[1] not in _DTYPES:
        raise ValueError(
            f'Invalid shape {s}: it is a dtype and sizes, as "f32[1,2,3]". The dtypes are {", ".join(_DTYPES)}.'
        )
    return ShapedArray(tuple(map(int, match[2].split(","))) if match[2] else (), _DTYPES[match[1]])


def jax_to_ir(
    fn: Callable[..., Any], input_shapes: Shapes, *, constants: Mapping[str, Any] | None = None, format: str
) -> tuple[bytes, str]:
    """A function as a program of XLA.

    Args:
      fn: takes arrays by name.
      input_shapes: the names of arguments with their types, in the order of the program's parameters.
      constants: values of other arguments by name; None for none.
      format: "HLO".

    Returns:
      `(program, text)`: a serialized `HloModuleProto`, and the same to be read.

    Raises:
      ValueError: an argument has a type and a value, or it is another format.

    >>> from xpr.tools.jax_to_ir import jax_to_ir, parse_shape_str
    >>> shapes = [("x", parse_shape_str("f32[8]"))]
    >>> program, text = jax_to_ir(lambda x, scale: x * scale, shapes, constants={"scale": 2.0}, format="HLO")
    >>> "multiply" in text
    True
    """
    if format != "HLO":
        raise ArgumentError(
            f'jax_to_ir: the format is to be "HLO", and is {format!r}. There are no graphs of TensorFlow.'
        )
    known, names = dict(constants or {}), [name for name, _ in input_shapes]
    if both := sorted({*names} & {*known}):
        raise ArgumentError(
            f"jax_to_ir: Arguments appear in both `input_shapes` and `constants`: {', '.join(both)}. Give each of "
            "them a type or a value."
        )

    def in_order(*args: Any) -> Any:
        return fn(**dict(zip(names, args)), **known)

    lowered = jit(in_order).lower(*[ShapeDtypeStruct(aval.shape, aval.dtype) for _, aval in input_shapes])
    computation = lowered.compiler_ir("hlo")
    return computation.as_serialized_hlo_module_proto(), computation.as_hlo_text()


def jax_to_hlo(
    fn: Callable[..., Any], input_shapes: Shapes, *, constants: Mapping[str, Any] | None = None
) -> tuple[bytes, str]:
    """`jax_to_ir` in the format "HLO".

    Args:
      fn: takes arrays by name.
      input_shapes: the names of arguments with their types.
      constants: values of other arguments by name; None for none.

    Returns:
      `(program, text)`.

    Raises:
      ValueError: an argument has a type and a value.

    >>> from xpr.tools.jax_to_ir import jax_to_hlo, parse_shape_str
    >>> len(jax_to_hlo(lambda x: x, [("x", parse_shape_str("f32[]"))]))
    2
    """
    return jax_to_ir(fn, input_shapes, constants=constants, format="HLO")


# -- The command


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the program of a function to files; see `--help`.

    Args:
      arguments: those of the command; None for the process's.

    Returns:
      The exit code, 0.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from xpr.tools.jax_to_ir import main
    >>> path = Path(tempfile.mkdtemp()) / "program.txt"
    >>> main(["--fn", "xpr.nn.sigmoid", "--input_shapes", '[("x", "f32[4]")]', "--ir_human_dest", str(path)])
    0
    >>> "f32[4]" in path.read_text()
    True
    """
    parser = argparse.ArgumentParser("python -m xpr.tools.jax_to_ir", description="A function as a program of XLA.")
    parser.add_argument("--fn", required=True, help="the function, as module.name")
    parser.add_argument("--input_shapes", required=True, help="""its arguments in order: [("x", "f32[8,2]")]""")
    parser.add_argument("--constants", default="{}", help="values of other arguments: {'scale': 2.0}; lists are arrays")
    parser.add_argument("--evaled_constants", default="{}", help="the same, as Python literals in text: {'n': '3'}")
    parser.add_argument("--ir_format", default="HLO", choices=["HLO"])
    parser.add_argument("--ir_dest", type=Path, help="the file for the program")
    parser.add_argument("--ir_human_dest", type=Path, help="the file for the text of it")
    given = parser.parse_args(arguments)
    if given.ir_dest is None and given.ir_human_dest is None:
        parser.error("say where to write it: --ir_dest, --ir_human_dest or both.")
    module, _, name = given.fn.rpartition(".")
    shapes = [(argument, parse_shape_str(text)) for argument, text in literal_eval(given.input_shapes)]
    evaluated = literal_eval(given.evaled_constants)
    evaluated = {k: literal_eval(v) if isinstance(v, str) else v for k, v in evaluated.items()}
    constants = literal_eval(given.constants)
    if both := sorted({*constants} & {*evaluated}):
        parser.error(f"arguments appear in both --constants and --evaled_constants: {', '.join(both)}.")
    values = {k: asarray(v) if isinstance(v, list) else v for k, v in (constants | evaluated).items()}
    function = getattr(importlib.import_module(module), name)
    program, text = jax_to_ir(function, shapes, constants=values, format=given.ir_format)
    if given.ir_dest is not None:
        given.ir_dest.write_bytes(program)
    if given.ir_human_dest is not None:
        given.ir_human_dest.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""dumps : closed jaxpr -> JSON. The format, which loading.py reads:

    {"format": "xpr.jaxpr", "version": [1, 1], "types": [...], "sources": [...], "jaxprs": [...],
     "main": 0, "constants": [...]}

`types` are texts such as "f32[2,3]", with "~" before a weak one; elsewhere a type is an index into this list. `sources`
are [file, line, function], the file relative to a project. `jaxprs` are the programs, each after its inner ones;
`main` is the index of the whole.

    jaxpr     {"constvars": [binder...], "invars": [binder...], "eqns": [equation...], "outvars": [atom...]}
    binder    a type; [type, "_"] where nothing may read it, [type, "m_"] for a filler; "*" for unitvar
    equation  [primitive, [atom...], [binder...], {parameter: value...}], and a source where one is known
    atom      the number of a variable, counted from 0 in each jaxpr in the order of binding; "*" for unit;
              {"literal": number, "type": type}
    number    true, 3, 0.5, "nan", "inf", "-inf"; [real, imaginary]; integers and floats exactly
    value     null, true, 3, "text" as themselves; [...] a tuple;
              {"list": [...]}  {"float": number}  {"complex": number}  {"dtype": "float32"}  {"type": type}
              {"enum": class, or group of functions, "name": member}  {"structure": class, "fields": {...}}
              {"primitive": name}  {"generator": name}
              {"jaxpr": index}  {"closed": index, "constants": [...]}
              {"scalar": number, "dtype": name}  {"array": array}
              {"hole": [kind, name]}; [kind, name, index] where other objects of that name occur before it, with the
              index of its first occurrence among all of them
    array     {"type": type, "data": base64 of the elements, row by row, little-endian}; of random keys, of their words
    constant  an array; {"hole": type} where its value is not known
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.core.avals import ShapedArray, aval_of, describe, is_key
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    FillerVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Unit,
    UnitVar,
    Var,
    require_jaxpr,
    subjaxprs,
)
from xpr.core.primitive import Primitive
from xpr.core.source import Source, saved
from xpr.dtypes import short_name
from xpr.jaxpr.functions import first_occurrences
from xpr.key_types import KeyType, PRNGImpl, implementations
from xpr.text.explicit import type_text
from xpr.text.literals import KINDS
from xpr.text.parameters import DTYPE_NAMES, ConstantHole, hole_of, member_of, parts_of

FORMAT = "xpr.jaxpr"
VERSION = (1, 1)  # a reader of 1.n reads every 1.m with m <= n

_NAME_OF = {dtype: name for name, dtype in DTYPE_NAMES.items()}


def dumps(jaxpr: ClosedJaxpr | Jaxpr, *, project: str | os.PathLike[str] | None = ".") -> str:
    """A jaxpr as JSON, with its constants and source lines, for `loads` to read in any process.

    Python functions among the parameters, such as the rules of a custom_jvp, are saved as holes: the program can be
    loaded, and `loads(..., functions=...)` fills them. Constants without values, which are being traced, can't be
    saved.

    Args:
      jaxpr: the program.
      project: the folder relative to which the files of source lines are named; of files outside of it the name alone
        is saved, without folders. None: no source lines are saved.

    Returns:
      The text, JSON.

    Raises:
      TypeError: a constant has no value, or `project` is no path.

    >>> import xpr
    >>> text = xpr.jaxpr.dumps(xpr.make_jaxpr(lambda x: 2.0 * x)(1.0))
    >>> xpr.jaxpr.loads(text)
    { lambda ; a:f32[]. let b:f32[] = mul 2.0 a in (b,) }
    """
    inner = require_jaxpr("dumps", jaxpr)
    if not (project is None or isinstance(project, (str, os.PathLike))):
        raise TypeError(f"dumps: project is the path of a folder or None, and is {describe(project)}.")
    saver = _Saver(first_occurrences(inner), project)
    main = saver.index_of(inner)
    consts = jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else [ConstantHole(v.aval) for v in inner.constvars]
    constants = [saver.constant(x) for x in consts]
    whole = {
        "format": FORMAT,
        "version": list(VERSION),
        "types": list(saver.types),
        "sources": [list(source) for source in saver.sources],
        "jaxprs": saver.jaxprs,
        "main": main,
        "constants": constants,
    }
    return json.dumps(whole, allow_nan=False, separators=(",", ":"))


class _Saver:
    def __init__(self, holes: dict[int, int], project: str | os.PathLike[str] | None) -> None:
        self.holes = holes
        self.project = None if project is None else os.path.realpath(project)
        self.files: dict[str, str] = {}  # their names in the project
        self.types: dict[str, int] = {}
        self.sources: dict[tuple[str, int, str], int] = {}
        self.jaxprs: list[Any] = []
        self.indices: dict[int, int] = {}  # by the ids of jaxprs, which the whole keeps alive
        self.type_of: dict[ShapedArray, int] = {}

    def index_of(self, jaxpr: Jaxpr) -> int:
        if id(jaxpr) not in self.indices:
            for eqn in jaxpr.eqns:
                for inner in subjaxprs(eqn):
                    self.index_of(inner)
            self.jaxprs.append(self.jaxpr(jaxpr))
            self.indices[id(jaxpr)] = len(self.jaxprs) - 1
        return self.indices[id(jaxpr)]

    def jaxpr(self, jaxpr: Jaxpr) -> dict[str, Any]:
        numbers: dict[Var, int] = {}

        def bind(var: Var) -> Any:
            if isinstance(var, UnitVar):
                return "*"
            numbers[var] = len(numbers)
            type_index = self.type(var.aval)
            marks = "_" if isinstance(var, DropVar) else "m_" if isinstance(var, FillerVar) else None
            return [type_index, marks] if marks else type_index

        def atom(x: Any) -> Any:
            if isinstance(x, UnitVar) or (isinstance(x, Literal) and isinstance(x.val, Unit)):
                return "*"
            if isinstance(x, Literal):
                return {"literal": number_in_json(x.val, x.aval.dtype), "type": self.type(x.aval)}
            return numbers[x]

        def equation(eqn: JaxprEqn) -> list[Any]:
            params = {key: self.value(value) for key, value in sorted(eqn.params.items())}
            operands = [atom(x) for x in eqn.invars]
            whole = [eqn.primitive.name, operands, [bind(v) for v in eqn.outvars], params]
            source = saved(eqn.source)
            return [*whole, self.source(source)] if source and self.project is not None else whole

        binders = {
            "constvars": [bind(v) for v in jaxpr.constvars],
            "invars": [bind(v) for v in jaxpr.invars],
        }
        eqns = [equation(eqn) for eqn in jaxpr.eqns]
        return {**binders, "eqns": eqns, "outvars": [atom(x) for x in jaxpr.outvars]}

    def type(self, aval: ShapedArray) -> int:
        index = self.type_of.get(aval)
        if index is None:
            text = "~" * aval.weak_type + type_text(aval)
            index = self.type_of[aval] = self.types.setdefault(text, len(self.types))
        return index

    def source(self, source: Source) -> int:
        code = source[0]
        file = self.files.get(code.co_filename)
        if file is None:
            file = self.files[code.co_filename] = _in_project(code.co_filename, self.project)  # type: ignore[arg-type]
        return self.sources.setdefault((file, code.co_firstlineno, code.co_name), len(self.sources))

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float or kind is complex:
            return {kind.__name__: number_in_json(value, np.dtype(kind))}
        if isinstance(value, ClosedJaxpr) and value.consts:
            return {"closed": self.index_of(value.jaxpr), "constants": [self.constant(x) for x in value.consts]}
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            return {"jaxpr": self.index_of(value.jaxpr if isinstance(value, ClosedJaxpr) else value)}
        if kind is tuple:
            return [self.value(item) for item in value]
        if kind is list:
            return {"list": [self.value(item) for item in value]}
        parts = parts_of(value)
        if parts is not None:
            fields = {name: self.value(item) for name, item in parts.items()}
            return {"structure": kind.__name__, "fields": fields}
        return self.leaf(value)

    def leaf(self, value: Any) -> Any:
        if isinstance(value, KeyType):
            return {"dtype": value.name}
        if isinstance(value, PRNGImpl) and implementations.get(value.name) == value:
            return {"generator": value.name}
        member = member_of(value)
        if member is not None:
            return {"enum": member[0], "name": member[1]}
        if isinstance(value, ShapedArray):
            return {"type": self.type(value)}
        if isinstance(value, Primitive):
            return {"primitive": value.name}
        if isinstance(value, np.dtype) or value is bool or (isinstance(value, type) and issubclass(value, np.generic)):
            dtype: np.dtype = np.dtype(value)
            if dtype in _NAME_OF:
                return {"dtype": _NAME_OF[dtype]}
        if isinstance(value, np.generic) and value.dtype in KINDS:
            return {"scalar": number_in_json(value, value.dtype), "dtype": short_name(value.dtype)}
        if isinstance(value, np.ndarray) and value.dtype in KINDS:
            return {"array": self.constant(value)}
        hole = hole_of(value)
        index = self.holes.get(id(value), hole.index)
        return {"hole": [hole.kind, hole.name, index] if index else [hole.kind, hole.name]}

    def constant(self, value: Any) -> dict[str, Any]:
        aval = aval_of(value)
        if isinstance(value, ConstantHole):
            return {"hole": self.type(aval)}
        if isinstance(value, Tracer):
            raise TypeError(
                f"A constant of type {aval.str_short()} has no value yet, so it can't be saved: the program was traced "
                "inside another one. Make it an argument."
            )
        is_keys = type(value) is Array and is_key(aval)
        array = np.asarray(value.host if is_keys else value)
        data = base64.b64encode(_little_endian(array)).decode()
        return {"type": self.type(aval if is_keys else aval.update(dtype=array.dtype)), "data": data}


def _in_project(file: str, project: str) -> str:
    """The path of a file relative to a folder, with slashes; its name alone if it is outside."""
    if not os.path.isabs(file):  # it was read from a saved jaxpr, or is none: "<stdin>"
        return file
    path = os.path.realpath(file)
    inside = path.startswith(os.path.join(project, ""))
    return Path(path).relative_to(project).as_posix() if inside else os.path.basename(file)


def _little_endian(array: np.ndarray) -> bytes:
    return array.tobytes() if sys.byteorder == "little" else array.byteswap().tobytes()


def number_in_json(value: Any, dtype: np.dtype) -> Any:
    kind = KINDS[dtype]
    scalar: Any = np.asarray(value)
    if kind == "c":
        return [number_in_json(scalar.real, np.dtype(float)), number_in_json(scalar.imag, np.dtype(float))]
    if kind == "f":
        number = float(scalar)
        return number if np.isfinite(number) else str(number)
    return 0 if kind == "0" else bool(scalar) if kind == "b" else int(scalar)

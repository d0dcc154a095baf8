"""loads : JSON -> closed jaxpr. The format is described in saving.py; reading it runs no code of the file's."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xpr.backend.array import from_host, from_words
from xpr.core.avals import ShapedArray, describe, is_key
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, Literal, Var, unitvar
from xpr.core.memory import MemorySpace
from xpr.core.primitive import Primitive, registered
from xpr.core.source import SavedLine, Source
from xpr.dtypes import INEXACT, bool_, float0, is_narrowed
from xpr.errors import JaxprSyntaxError
from xpr.jaxpr.functions import Filling
from xpr.jaxpr.messages import did_you_mean
from xpr.jaxpr.saving import FORMAT, VERSION, number_in_json
from xpr.key_types import implementations, key_type_of_text
from xpr.text.explicit import HOST, partitioned, split_sums, without_parts
from xpr.text.literals import DTYPES
from xpr.text.parameters import DTYPE_NAMES, STRUCTURES, ConstantHole, Hole, build_structure, member


def loads(text: str | bytes, functions: Mapping[str, Any] | None = None) -> ClosedJaxpr:
    """Reads what `dumps` wrote, by this version of xpr or an earlier one.

    Nothing in the file is executed: values are numbers, texts, and classes and primitives that this process knows by
    name. Python functions are holes, unless `functions` gives them by name, as it does to `parse`.

    Args:
      text: the text, or its bytes.
      functions: Python functions by name, to fill holes; None for none.

    Returns:
      A `ClosedJaxpr`.

    Raises:
      JaxprSyntaxError: the text is no saved jaxpr, or one of a newer format, or it has an unknown name.
      TypeError: `text` is neither text nor bytes, or `functions` has a list for a name, and not as many different ones
        are saved.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0)
    >>> xpr.jaxpr.equal(xpr.jaxpr.loads(xpr.jaxpr.dumps(closed)), closed)
    True
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"loads reads what dumps wrote, and got {describe(text)}.")
    filling = Filling("loads", functions)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JaxprSyntaxError(f"This is no saved jaxpr: it is not JSON ({error}).") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise JaxprSyntaxError(f'This is no saved jaxpr: it has no "format": "{FORMAT}".')
    _check_version(whole.get("version"))
    try:
        closed = _Loader(whole, filling).closed(whole["main"], whole["constants"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, JaxprSyntaxError):
            raise
        why = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise JaxprSyntaxError(f"This saved jaxpr is damaged: {why}.") from error
    filling.finish(only_firsts=True)
    return closed


def _check_version(version: Any) -> None:
    if not (isinstance(version, list) and len(version) == 2 and all(type(n) is int for n in version)):
        raise JaxprSyntaxError(f"This saved jaxpr is damaged: its version is {version!r}.")
    major, minor = VERSION
    if version[0] != major or version[1] > minor:
        age = "a newer" if version > [major, minor] else "an older"
        raise JaxprSyntaxError(
            f"This jaxpr was saved in format {version[0]}.{version[1]}, and this xpr reads {major}.0 to "
            f"{major}.{minor}: {age} xpr is needed."
        )


class _Loader:
    def __init__(self, whole: dict[str, Any], filling: Filling):
        self.filling = filling
        self.types = [_type(text) for text in whole["types"]]
        self.sources: list[Source] = [(SavedLine(str(f), int(n), str(name)), 0) for f, n, name in whole["sources"]]
        self.jaxprs: list[Jaxpr] = []
        for saved in whole["jaxprs"]:
            self.jaxprs.append(self.jaxpr(saved))

    def closed(self, index: int, constants: list[Any]) -> ClosedJaxpr:
        return ClosedJaxpr(_at(self.jaxprs, index), [self.constant(x) for x in constants])

    def jaxpr(self, saved: dict[str, Any]) -> Jaxpr:
        variables: list[Var] = []

        def bind(binder: Any) -> Var:
            if binder == "*":
                return unitvar
            type_index, mark = binder if isinstance(binder, list) else (binder, None)
            var = _BINDERS[mark](_at(self.types, type_index))
            variables.append(var)
            return var

        def atom(x: Any) -> Any:
            if type(x) is int:
                return _at(variables, x)
            return unitvar if x == "*" else self.literal(x)

        def equation(name: str, operands: list[Any], results: list[Any], params: Any, source: Any = None) -> JaxprEqn:
            invars = [atom(x) for x in operands]
            outvars = [bind(x) for x in results]
            values = {key: self.value(value) for key, value in params.items()}
            line = None if source is None else _at(self.sources, source)
            primitive = _primitive(name)
            primitive.check_params(values)
            return JaxprEqn(invars, outvars, primitive, values, line)

        constvars, invars = ([bind(x) for x in saved[part]] for part in ("constvars", "invars"))
        eqns = [equation(*eqn) for eqn in saved["eqns"]]
        return Jaxpr(constvars, invars, [atom(x) for x in saved["outvars"]], eqns)

    def literal(self, saved: dict[str, Any]) -> Literal:
        aval = _at(self.types, saved["type"])
        scalar = _scalar(saved["literal"], aval.dtype)
        return Literal(scalar.item() if aval.weak_type else scalar, aval)

    def value(self, saved: Any) -> Any:
        if saved is None or isinstance(saved, (bool, int, str)):
            return saved
        if isinstance(saved, list):
            return tuple([self.value(item) for item in saved])
        kind = next(iter(saved), None)
        if kind not in _VALUES:
            raise JaxprSyntaxError(f"This saved jaxpr is damaged: a parameter is {saved!r}.")
        return _VALUES[kind](self, **saved)

    def constant(self, saved: dict[str, Any]) -> Any:
        if "hole" in saved:
            return ConstantHole(_at(self.types, saved["hole"]))
        array = self.array(saved)
        aval = _at(self.types, saved["type"])
        if is_key(aval):
            return from_words(array, aval.dtype)
        return array if is_narrowed(array.dtype) else from_host(array)  # also of 64 bits, whatever the setting is now

    def array(self, saved: dict[str, Any]) -> np.ndarray:
        aval = _at(self.types, saved["type"])
        if aval.dtype == float0:
            return np.zeros(aval.shape, float0)
        aval = aval.physical
        array: np.ndarray = np.frombuffer(base64.b64decode(saved["data"], validate=True), aval.dtype)
        if aval.dtype == bool_ and (array.view(np.uint8) > 1).any():
            raise ValueError("an array of booleans holds something else")
        return (array if sys.byteorder == "little" else array.byteswap()).reshape(aval.shape)

    def hole(self, kind: str, name: str, index: int = 0) -> Any:
        return self.filling.at(Hole(str(kind), str(name), index), index)


_BINDERS: dict[Any, type[Var]] = {None: Var, "_": DropVar, "m_": FillerVar}

# How values are read, by their first key.
_VALUES: dict[str, Callable[..., Any]] = {
    "list": lambda self, list: [self.value(item) for item in list],
    "float": lambda self, float: _real(float),
    "complex": lambda self, complex: _complex(complex),
    "dtype": lambda self, dtype: key_type_of_text(dtype) or _known("dtype", DTYPE_NAMES, dtype),
    "generator": lambda self, generator: _known("generator", implementations, generator),
    "type": lambda self, type: _at(self.types, type),
    "enum": lambda self, enum, name: _known("class", STRUCTURES, enum) and member(enum, name),
    "structure": lambda self, structure, fields: build_structure(
        _known("class", STRUCTURES, structure), {key: self.value(value) for key, value in fields.items()}
    ),
    "primitive": lambda self, primitive: _primitive(primitive),
    "jaxpr": lambda self, jaxpr: _at(self.jaxprs, jaxpr),
    "closed": lambda self, closed, constants: self.closed(closed, constants),
    "scalar": lambda self, scalar, dtype: _scalar(scalar, _known("dtype", DTYPES, dtype)),
    "array": lambda self, array: self.array(array),
    "hole": lambda self, hole: self.hole(*hole),
}


def _at(items: Any, index: Any) -> Any:
    if type(index) is not int or not 0 <= index < len(items):
        raise JaxprSyntaxError(f"This saved jaxpr is damaged: {index!r} is no index into {len(items)}.")
    return items[index]


def _type(text: str) -> ShapedArray:
    whole, sums = split_sums(text.lstrip("~").replace(HOST, ""))
    plain, parts, mesh = without_parts(whole)
    dtype, _, shape = plain.rstrip("]").partition("[")
    known = key_type_of_text(dtype) or _known("dtype", DTYPES, dtype)
    aval = ShapedArray([int(n) for n in shape.split(",") if n], known, text[0] == "~")  # type: ignore[arg-type]
    aval = aval.in_memory(MemorySpace.Host if HOST in text else MemorySpace.Device)
    return aval if mesh is None else partitioned(aval, parts, mesh, sums)


def _primitive(name: str) -> Primitive:
    return _known("primitive", registered, name)


def _known(what: str, known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise JaxprSyntaxError(f"There is no {what} `{name}` here{did_you_mean(name, known)} The saved jaxpr needs it.")
    return known[name]


def _real(saved: Any) -> float:
    return float(saved)


def _complex(saved: Any) -> complex:
    return complex(_real(saved[0]), _real(saved[1]))


def _scalar(saved: Any, dtype: np.dtype) -> Any:
    if dtype == float0:
        return np.zeros((), float0)
    value = _complex(saved) if isinstance(saved, list) else _real(saved) if isinstance(saved, str) else saved
    with np.errstate(all="ignore"):
        scalar = np.asarray(value).astype(dtype)[()]
    if not _is_rounded(scalar, value, saved):
        raise ValueError(f"{saved!r} is no {dtype.name}")
    return scalar


def _is_rounded(scalar: Any, value: Any, saved: Any) -> bool:
    """Whether a number of a dtype is the saved one; floats are rounded to it, since weak literals have 64 bits."""
    if scalar.dtype in INEXACT:
        written = isinstance(saved, list) == (scalar.dtype.kind == "c") and not isinstance(saved, bool)
        return written and bool(np.isfinite(scalar) == np.isfinite(value))
    return bool(number_in_json(scalar, scalar.dtype) == saved)

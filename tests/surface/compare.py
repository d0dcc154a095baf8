"""What jax has and xpr lacks or has otherwise, found by importing both.

A module, name or parameter is public where its name and those of the modules that hold it do not begin with `_`. A name
that jax's module holds for its own use, an imported module or a feature of the language, is not.
"""

from __future__ import annotations
import __future__

import enum
import importlib
import inspect
import pkgutil
import re
import types
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Gap:
    """One difference: `jax.lax.foo` or `jax.lax.foo(parameter)`, and what is so of it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def gaps() -> list[Gap]:
    """All differences, in the order of modules and names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_gaps())


def _gaps() -> Iterator[Gap]:
    compared: set[tuple[int, int]] = set()  # functions and classes that several modules have are compared once
    for name in public_modules():
        try:
            theirs = importlib.import_module(name)
        except ImportError:  # of a package that is optional
            continue
        ours = _import_ours(name)
        if ours is None:
            yield Gap(name, "is no module of xpr")
            continue
        for attribute in _public_names(theirs):
            path, value = f"{name}.{attribute}", getattr(theirs, attribute)
            found = getattr(ours, attribute, _ABSENT)
            if found is _ABSENT:
                if not isinstance(value, types.ModuleType):  # whose own line says it
                    yield Gap(path, "is missing")
            elif (id(value), id(found)) not in compared:
                compared.add((id(value), id(found)))
                yield from _compare(path, value, found)


_ABSENT = object()


def public_modules() -> Iterator[str]:
    """The names of jax's public modules, with jax first."""
    jax = importlib.import_module("jax")
    yield "jax"
    found = pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None)
    for name in sorted(module.name for module in found if _is_public(module.name)):
        if not name.startswith(_NOT_OF_THE_LIBRARY):
            yield name


# Scripts, tests and the set-up of machines.
_NOT_OF_THE_LIBRARY = (
    "jax.tools", "jax.collect_profile", "jax.cloud_tpu_init", "jax.version", "jax.test_util",
    # They import packages that jax does not depend on.
    "jax.experimental.sparse.test_util", "jax.experimental.roofline", "jax.experimental.source_mapper",
)  # fmt: skip


def _is_public(path: str) -> bool:
    return not any(part.startswith("_") for part in path.split("."))


def _import_ours(name: str) -> Any:
    """xpr's module or namespace of jax's name, or None."""
    path = "xpr" + name.removeprefix("jax")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
    return None


def _public_names(module: types.ModuleType) -> list[str]:
    if (listed := getattr(module, "__all__", None)) is not None:
        return sorted(listed)
    return [name for name in dir(module) if not name.startswith("_") and _is_its_own(module, getattr(module, name))]


def _is_its_own(module: types.ModuleType, value: Any) -> bool:
    """Whether a name of a module is offered by it, and not one that it imported for its own use."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("jax.") and _is_public(value.__name__)
    if isinstance(value, (type(__future__.annotations), typing.TypeVar)) or value is typing.TYPE_CHECKING:
        return False
    return getattr(value, "__module__", None) not in _MODULES_OF_THE_LANGUAGE or value is module


_MODULES_OF_THE_LANGUAGE = {"typing", "functools", "collections", "collections.abc", "dataclasses", "contextlib",
                            "itertools", "types", "enum", "abc", "builtins", "typing_extensions"}  # fmt: skip

# -- Functions and classes


def _compare(path: str, theirs: Any, ours: Any) -> Iterator[Gap]:
    if isinstance(theirs, type):
        for name in _members(theirs):
            if not hasattr(ours, name):
                yield Gap(f"{path}.{name}", "is missing")
            elif inspect.isfunction(member := inspect.getattr_static(theirs, name)):
                yield from _compare_parameters(f"{path}.{name}", member, inspect.getattr_static(ours, name))
        if isinstance(theirs, enum.EnumMeta) or issubclass(theirs, (BaseException, np.generic)):
            return
    if callable(theirs):
        yield from _compare_parameters(path, theirs, ours)


def _members(cls: type) -> list[str]:
    """The public attributes that classes of jax define for a class."""
    its_own = [base for base in cls.__mro__ if base.__module__.startswith("jax")]
    return sorted({name for base in its_own for name in vars(base) if not name.startswith("_")})


def _compare_parameters(path: str, theirs: Any, ours: Any) -> Iterator[Gap]:
    expected = _parameters(theirs)
    if expected is None:
        return
    if not callable(ours):
        yield Gap(path, "is no function")
        return
    found = _parameters(ours)
    if found is None or _takes_anything(expected) or _takes_anything(found):
        return
    any_name = any(each.kind is each.VAR_KEYWORD for each in found.values())
    for name, parameter in expected.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name == "self":
            continue
        if name in found:
            yield from _compare_parameter(f"{path}({name})", parameter, found[name])
        elif not (
            (any_name and parameter.kind is parameter.KEYWORD_ONLY)
            or (parameter.kind is parameter.POSITIONAL_ONLY and _at(found, expected, name))
        ):
            yield Gap(f"{path}({name})", "is missing")
    yield from _compare_order(path, expected, found)


def _parameters(fun: Any) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(fun).parameters)
    except (TypeError, ValueError):  # written in C
        return None


def _takes_anything(parameters: dict[str, inspect.Parameter]) -> bool:
    return all(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters.values())


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _positional(parameters: dict[str, inspect.Parameter]) -> list[str]:
    return [name for name, parameter in parameters.items() if parameter.kind in _BY_POSITION]


def _at(found: dict[str, inspect.Parameter], expected: dict[str, inspect.Parameter], name: str) -> str | None:
    """The parameter of ours that stands where `name` stands in theirs; `*args` stands everywhere."""
    number, names = _positional(expected).index(name), _positional(found)
    if number < len(names):
        return names[number]
    return next((each for each, parameter in found.items() if parameter.kind is parameter.VAR_POSITIONAL), None)


def _compare_parameter(path: str, theirs: inspect.Parameter, ours: inspect.Parameter) -> Iterator[Gap]:
    if theirs.kind in _BY_NAME and ours.kind not in _BY_NAME:
        yield Gap(path, "can't be given by name")
    elif theirs.kind in _BY_POSITION and ours.kind not in _BY_POSITION:
        yield Gap(path, "can't be given by position")
    elif theirs.default is theirs.empty:
        return  # a default where jax has none takes more calls
    elif ours.default is ours.empty:
        yield Gap(path, f"has no default, and {theirs.default!r} in jax")
    elif not _is_placeholder(theirs.default) and _written(theirs.default) != _written(ours.default):
        yield Gap(path, f"is {ours.default!r} by default, and {theirs.default!r} in jax")


def _is_placeholder(default: Any) -> bool:
    """Whether a default is an object that stands for "not given"."""
    return type(default).__repr__ is object.__repr__ or "specified" in repr(default) or "Deprecated" in repr(default)


def _written(default: Any) -> str:
    """A default as text that is the same for what means the same in both libraries."""
    if callable(default) and hasattr(default, "__name__"):
        return str(default.__name__)
    if isinstance(default, enum.Enum):
        return default.name
    if isinstance(default, (int, float, np.number)):
        return repr(float(default))
    if isinstance(default, (set, frozenset, tuple)) and not default:
        return "()"
    return re.sub(r"\bjax\b(\._src)?", "xpr", repr(default))


def _compare_order(
    path: str, expected: dict[str, inspect.Parameter], found: dict[str, inspect.Parameter]
) -> Iterator[Gap]:
    theirs, ours = (
        [name for name in _positional(each) if name in expected and name in found] for each in (expected, found)
    )
    order = [name for name in theirs if name in ours]
    for name, other in zip(order, [name for name in ours if name in theirs], strict=True):
        if name != other:
            yield Gap(f"{path}({name})", f"stands where {other!r} stands in xpr")
            return
    # What xpr adds must not take the position of a parameter of jax's.
    leading = _positional(found)[: len(_positional(expected))]
    for name in leading:
        if name not in expected and not _stands_for_another(name, found, expected):
            yield Gap(f"{path}", f"has {name!r} at a position of another parameter")
            return


def _stands_for_another(name: str, found: dict[str, inspect.Parameter], expected: dict[str, inspect.Parameter]) -> bool:
    theirs = _positional(expected)[_positional(found).index(name)]
    return expected[theirs].kind is inspect.Parameter.POSITIONAL_ONLY or theirs not in found

"""Parameters of equations as text, written so that the type of each value can be read back.

None, True, 3, -0.5, nan, 1j    themselves; NumPy scalars with their dtype, `0.5:f32`
int32  f32[2,3]                 a dtype; the type of an array
fry                             a generator of random bits, by the tag of its dtype of keys, key<fry>
inner  'two words'              a string: quoted where it is no plain word, or where the word means something else
(1, 2)  [1, 2]                  tuples and lists, in which all strings are quoted
Precision.HIGHEST               a member of an enumeration, by the name of its class
Window(strides=(1,))            a named tuple, or a registered dataclass, by the name of its class
policies.everything_saveable    a function of the library, or another one that is known by name
<primitive ge>                  a primitive
<function relu>                 a Python function, or another object that text can't hold: it is read as a `Hole`
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr
from xpr.core.primitive import Primitive
from xpr.dtypes import float0, short_name
from xpr.errors import HoleError
from xpr.key_types import KeyType, PRNGImpl, of_tag
from xpr.text.literals import KINDS, scalar_text

Class = TypeVar("Class", bound=type)

STRUCTURES: dict[str, Any] = {}  # the classes of enumerations and structures that parameters may be, by name;
# and by the name of a group of functions the dict of those
_GROUPS: dict[FunctionType, str] = {}
_PARTS: dict[type, tuple[Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {}
DTYPE_NAMES: dict[str, np.dtype] = {dtype.name: dtype for dtype in KINDS if dtype != float0} | {"float0": float0}
RESERVED = frozenset({"None", "True", "False", "nan", "inf"})

_PLAIN = re.compile(r"[A-Za-z_][\w-]*|<lambda>")
_PRIMITIVE = re.compile(r"[A-Za-z_][\w.-]*")
_INTERNAL_NAME = re.compile(r"[A-Za-z_]\w*|<lambda>")


def register_parameter(
    cls: Class, parts: Callable[[Any], dict[str, Any]] | None = None, build: Callable[..., Any] | None = None
) -> Class:
    """Registers a class whose objects are parameters by its name, so that text of jaxprs can be read back.

    An `Enum`, a `NamedTuple` or a dataclass needs no more. For objects of any other class `parts(value)` gives a dict
    of values that text can hold, and `build(**parts)`, by default the class itself, makes the object again.

    Args:
      cls: the class.
      parts: `parts(value)` returns a dictionary of values that text can hold; None for an `Enum`, a `NamedTuple` or a
        dataclass.
      build: `build(**parts)` makes the object; None for the class itself.

    Returns:
      The class.

    Raises:
      ValueError: another class of that name is known.

    >>> from typing import NamedTuple
    >>> from xpr.extend import register_parameter
    >>> @register_parameter
    ... class Margin(NamedTuple):
    ...     width: int
    """
    known = STRUCTURES.setdefault(cls.__name__, cls)
    if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"{cls.__name__} is the name of {known.__module__}.{known.__qualname__}; choose another one.")
    STRUCTURES[cls.__name__] = cls
    if parts is None and dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        _PARTS[cls] = (lambda value: {name: getattr(value, name) for name in names}), cls
    elif parts is not None:
        _PARTS[cls] = parts, build or cls
    return cls


def register_functions(group: str, *functions: Callable[..., Any]) -> None:
    """Registers functions that are parameters, by the name of their group and their `__name__`."""
    STRUCTURES[group] = {function.__name__: function for function in functions}
    _GROUPS.update((function, group) for function in functions)  # type: ignore[misc]  # all are functions


def member(name: str, member: str) -> Any:
    """The member of an enumeration or of a group of functions.

    Raises:
      KeyError: there is none of that name, or the first name is that of something else.
    """
    known = STRUCTURES[name]
    if not isinstance(known, (dict, enum.EnumMeta)):
        raise KeyError(member)
    return known[member]  # type: ignore[index, return-value]


def member_of(value: Any) -> tuple[str, str] | None:
    """The names by which a member of an enumeration, or a function of a group, is read back; None for all else."""
    if isinstance(value, enum.Enum):
        return type(value).__name__, value.name
    group = _GROUPS.get(value) if type(value) is FunctionType else None
    return (group, value.__name__) if group else None


def parts_of(value: Any) -> dict[str, Any] | None:
    """The named parts of a parameter that is a structure; None if it isn't one."""
    if type(value) in _PARTS:
        return _PARTS[type(value)][0](value)
    return dict(zip(type(value)._fields, value)) if is_named_tuple(value) else None


def build_structure(cls: Any, parts: dict[str, Any]) -> Any:
    """The structure with these parts.

    Raises:
      TypeError: it has others.
    """
    if isinstance(cls, (dict, enum.EnumMeta)):
        raise TypeError("it has members, and is no structure")
    if cls in _PARTS:
        return _PARTS[cls][1](**parts)
    fields = getattr(cls, "_fields", ())
    if set(parts) != set(fields):
        raise TypeError(f"`{cls.__name__}` has the fields {', '.join(fields) or 'none'}")
    return cls(**parts)


class Hole:
    """A placeholder for something that text can't hold: a function, or another Python object.

    Calling it, reading its attributes and making an array of it raise `HoleError`. Two holes are equal if their
    text is; in a saved program `index` is that of its object's first occurrence among those of its name.
    """

    __slots__ = ("kind", "name", "index")

    def __init__(self, kind: str, name: str, index: int = 0):
        self.kind, self.name, self.index = kind, name, index

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name if _INTERNAL_NAME.fullmatch(self.name) else repr(self.name)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hole) and (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def _fail(self) -> HoleError:
        return HoleError(
            f"{self!r} is a hole: this program was read from text or a file, which can't hold Python objects. "
            f"Give it when reading: functions={{{self.name!r}: ...}}."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._fail()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._fail()


class ConstantHole:
    """A constant whose value is not known, with its type.

    Raises:
      HoleError: its value is asked for.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"<constant {self.aval.str_short()}>"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise HoleError(
            f"A constant of type {self.aval.str_short()} has no value: this program was read from text, which holds "
            "no arrays. Give the constants when reading: parse(text, constants=[...])."
        )


def jaxprs_in(value: Any) -> Iterator[Jaxpr]:
    """The jaxprs that a parameter is or holds, in the order they are printed.

    `subjaxprs` gives those that its equation runs; derivative rules may hold others.
    """
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        yield value.jaxpr if isinstance(value, ClosedJaxpr) else value
    elif isinstance(value, (tuple, list)) or type(value) in _PARTS:
        for item in parts_of(value).values() if type(value) in _PARTS else value:  # type: ignore[union-attr]
            yield from jaxprs_in(item)


def is_named_tuple(value: Any) -> bool:
    """Whether a parameter is a named tuple."""
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def primitive_text(name: str) -> str:
    """The name of a primitive in an equation: quoted where it is no plain word."""
    return name if _PRIMITIVE.fullmatch(name) else repr(name)


def string_text(text: str) -> str:
    """A string as a parameter: unquoted where that can't be read as anything else."""
    plain = _PLAIN.fullmatch(text) and text not in RESERVED and text not in DTYPE_NAMES and of_tag(text) is None
    return text if plain else repr(text)


def parameter_text(value: Any) -> str:
    """The text of a parameter without inner jaxprs."""
    return string_text(value) if type(value) is str else _item_text(value)


def _item_text(value: Any) -> str:
    kind = type(value)
    if kind is tuple:
        return f"({', '.join(map(_item_text, value))}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(map(_item_text, value))}]"
    if value is None or kind in (bool, int, float, complex, str, Hole):
        return repr(value)
    if isinstance(value, ShapedArray):
        return value.str_short()
    if isinstance(value, (np.dtype, type)):
        return _dtype_text(value)
    if isinstance(value, KeyType):
        return value.name
    if isinstance(value, PRNGImpl) and of_tag(value.tag) == value:
        return value.tag
    if isinstance(value, Primitive):
        return f"<primitive {value.name if _INTERNAL_NAME.fullmatch(value.name) else repr(value.name)}>"
    member = member_of(value)
    if member is not None:
        return ".".join(member)
    parts = parts_of(value)
    if parts is not None:
        return f"{kind.__name__}({', '.join(f'{name}={_item_text(item)}' for name, item in parts.items())})"
    if isinstance(value, np.generic) and value.dtype in KINDS:
        return f"{scalar_text(value, value.dtype)}:{short_name(value.dtype)}"
    return repr(hole_of(value))


def _dtype_text(value: Any) -> str:
    try:
        dtype = (
            np.dtype(value) if value is bool or not isinstance(value, type) or issubclass(value, np.generic) else None
        )
    except TypeError:
        dtype = None
    if dtype is None or dtype not in KINDS:
        return repr(Hole("type", value.__name__ if isinstance(value, type) else str(value)))
    return "float0" if dtype == float0 else dtype.name


def hole_of(value: Any) -> Hole:
    """The hole that replaces an object where a program is written as text."""
    if isinstance(value, Hole):
        return value
    if callable(value):
        return Hole("function", str(getattr(value, "__name__", type(value).__name__)))
    return Hole(type(value).__name__, str(value))

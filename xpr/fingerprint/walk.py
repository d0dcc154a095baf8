"""The fingerprint of a function: a hash of its code and of all that the code reaches, or the reason why there is none.

The walk follows global and free variables through functions, classes and their instances, modules and containers, to
constants, arrays, and what `pure.py` lists. Modules are not followed as a whole: of a module that code uses as a value
(passes to a function, say) every attribute counts whose name is read of any value that isn't known.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]  # the registered subclasses of abstract classes are only there
import collections
import dataclasses
import enum
import hashlib
import inspect
import operator
import reprlib
import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from enum import Enum, EnumType
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.core.function_caches import CACHES
from xpr.fingerprint.code import CONSTRUCTORS, SPECIAL, VIEW_READERS, facts_of
from xpr.fingerprint.pure import (
    ATTRIBUTES,
    DUNDERS,
    WITH_EFFECTS,
    foreign_name,
    is_builtin,
    is_library,
    is_pure_module,
    library_name,
)
from xpr.transforms.vmappable import handlers as vmappable
from xpr.tree_def import PyTreeDef
from xpr.tree_nodes import registered

LARGEST = 1 << 22  # bytes of arrays that are hashed
MOST = 20_000  # objects that are looked at
_MISSING: Any = object()
_SCALARS = (int, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
# What a class has that code reads only by names with underscores, which aren't followed.
_NOT_FOLLOWED = frozenset(
    """
    __abstractmethods__ __annotations__ __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __firstlineno__
    __match_args__ __module__ __orig_bases__ __parameters__ __qualname__ __replace__ __slots__ __static_attributes__
    __weakref__ _abc_impl __annotate__ __annotate_func__ __annotations_cache__
    """.split()
)


class Refused(Exception):
    """The reason why a function has no fingerprint."""


class Walk:
    """Hashes values and all that they reach.

    Attributes:
      classes: the users' classes that were reached, by module and name.
      reached: the objects that were visited, in order, but numbers and texts. Walks of one digest have the same order.

    Raises:
      Refused: in `visit` and `digest`, where something can't be known.
    """

    def __init__(self) -> None:
        self.classes: dict[tuple[str, str], type] = {}
        self._parts: list[bytes] = []  # the bytes to be hashed, each part after its length
        self._seen: dict[int, int] = {}
        self.reached: list[Any] = []  # which keeps them alive, so that no identity is used twice
        self._namespaces: dict[int, Any] = {}  # modules, and the library's objects and functions, that code reads
        self._attributes: dict[str, str] = {}  # attributes of unknown values, each with the line of one use
        self._names: set[str] = set()  # attributes of users' classes and their instances
        self._resolved: set[tuple[int, str]] = set()
        self._nbytes = 0  # of all arrays that were hashed

    def digest(self) -> bytes:
        """The hash of all that was visited."""
        while self._resolve_attributes():
            pass
        for name, where in self._attributes.items():
            if name in WITH_EFFECTS:
                raise Refused(f"{where} reads the attribute {name!r}, which may have an effect outside")
            known = name in ATTRIBUTES or name in DUNDERS or name in self._names
            if not known and not any((key, name) in self._resolved for key in self._namespaces):
                raise Refused(f"{where} reads the attribute {name!r} of a value that is not known beforehand")
        return hashlib.sha256(b"".join(self._parts)).digest()

    def token(self, *parts: Any) -> None:
        """Adds texts, bytes and numbers to the hash."""
        for part in parts:
            data = part if type(part) is bytes else str(part).encode("utf-8", "surrogatepass")
            self._parts += (len(data).to_bytes(8, "little"), data)

    def visit(self, value: Any, where: str) -> None:
        """Adds a value and all that it reaches; `where` says who reads it."""
        kind = type(value)
        if kind in _SCALARS:
            self.token(kind.__name__, hex(value) if kind is int else value)  # Python writes no large one in decimals
            return
        if kind is float or kind is complex:
            self.token(kind.__name__, repr(value))  # which tells -0.0 from 0.0, and reads back as the same number
            return
        seen = self._seen.get(id(value))
        if seen is not None:
            self.token("seen", seen)
            return
        self._seen[id(value)] = len(self._seen)
        self.reached.append(value)
        if len(self.reached) > MOST:
            raise Refused(f"it reaches more than {MOST:,} objects, at last where {where} reads them")
        visitor = _VISITORS.get(kind)
        if visitor is not None:
            visitor(self, value, where)
        else:
            self._object(value, where)

    def has_visited(self, value: Any) -> bool:
        """Whether an object, and not an equal one, was visited."""
        return id(value) in self._seen

    # -- Containers and arrays

    def _sequence(self, value: Any, where: str) -> None:
        self.token(type(value).__name__, len(value))
        for each in value:
            self.visit(each, where)

    def _dict(self, value: Any, where: str) -> None:
        self.token(type(value).__name__, len(value))
        for key, each in list(value.items()):
            self.visit(key, where)
            self.visit(each, where)

    def _range(self, value: Any, where: str) -> None:
        self.token(type(value).__name__)
        for each in (value.start, value.stop, value.step):
            self.visit(each, where)

    def _ndarray(self, value: np.ndarray, where: str) -> None:
        self.token(value.strides)  # which decide the order of `ravel("K")`
        self._elements(value, where)

    def _elements(self, value: np.ndarray, where: str) -> None:
        self._nbytes += value.nbytes
        if value.dtype.hasobject or self._nbytes > LARGEST:
            what = "an array of objects" if value.dtype.hasobject else f"arrays of more than {LARGEST:,} bytes"
            raise Refused(f"{where} reads {what}")
        self._dtype(value.dtype, where)
        self.token("ndarray", value.shape, value.tobytes())

    def _array(self, value: Array, where: str) -> None:
        aval = value.aval
        if not isinstance(aval.dtype, np.dtype) or value._device is not None or value.is_deleted():
            raise Refused(f"{where} reads an array that is deleted, of random keys, or put on devices")
        self.token("Array", aval.weak_type)
        try:
            elements = np.asarray(value)
        except RuntimeError as error:
            raise Refused(f"{where} reads an array whose computation failed: {error}") from None
        self._elements(elements, where)

    def _dtype(self, value: np.dtype, where: str) -> None:
        if value.hasobject or value.metadata:
            raise Refused(f"{where} reads a dtype of objects, or one with metadata")
        self.token("dtype", value.descr, value.name)

    # -- Functions

    def _function(self, value: FunctionType, where: str) -> None:
        if is_library(value):
            name = library_name(value)
            if name is not None:
                self.token("library", name)
                if not all(attribute.startswith("__") for attribute in vars(value)):
                    self._namespaces[id(value)] = value  # a user may have set attributes
                return
            if "<locals>" not in value.__code__.co_qualname or not _is_pure_closure(value):
                raise Refused(f"{where} uses xpr's {value.__qualname__}, whose calls may differ")
            code = value.__code__
            self.token("closure of the library", value.__globals__["__name__"], code.co_qualname, code.co_code)
            for cell in value.__closure__ or ():
                self.visit(_sorted(_content(cell)), where)
        else:
            name = foreign_name(value)
            if name is not None:
                self.token("foreign", name)
                return
            cells = dict(zip(value.__code__.co_freevars, value.__closure__ or ()))
            self.token("function", value.__name__, value.__qualname__)
            self._code(value.__code__, value.__globals__, cells)
        self.visit(value.__defaults__, where)
        self.visit(value.__kwdefaults__, where)
        for name, attribute in list(vars(value).items()):  # other threads may set CACHES
            if name != CACHES:
                self.token("attribute", name)
                self.visit(attribute, where)

    def _code(self, code: CodeType, global_values: dict[str, Any], cells: dict[str, CellType]) -> None:
        """Adds the code and what it reads; `cells` are those that exist already."""
        facts = facts_of(code)
        if facts.refusal is not None:
            raise Refused(f"{_line(code, facts.refusal[1])}: {facts.refusal[0]}")
        for name, line in facts.stored.items():
            if name in cells:
                raise Refused(f"{_line(code, line)}: it assigns to {name!r}, a variable of an outer function")
        self.token("code", *_code_parts(code))
        for constant in code.co_consts:
            if type(constant) is not CodeType:
                self._constant(constant)
        for read in facts.reads:
            where = _line(code, read.line)
            if read.is_free:
                if read.name not in cells:  # a variable of a function that runs while this is traced
                    self._unknown(read.path, where)
                    continue
                value = _content(cells[read.name])
            else:
                value = _global(read.name, global_values)
                if read.name in VIEW_READERS and not is_builtin(read.name, value):
                    raise Refused(f"{where}: {read.name!r} is not the builtin of that name")
            self.token("read", read.name, *read.path)
            if value is object and read.path == ("__setattr__",) and code.co_name in CONSTRUCTORS:
                continue  # a frozen dataclass sets its fields in this way
            if read.is_attribute and is_builtin(read.name, value):
                continue
            if read.name in ("hash", "repr") and code.co_name in SPECIAL and is_builtin(read.name, value):
                continue
            self._read(value, read.path, where)
        for name, line in facts.attributes.items():
            self._unknown((name,), _line(code, line))
        self._names.update(facts.set_attributes)
        for inner in facts.inner:
            free = {name: cells[name] for name in inner.co_freevars if name in cells and name not in code.co_cellvars}
            self._code(inner, global_values, free)

    def _constant(self, constant: Any) -> None:
        """Adds a constant of a code object."""
        if type(constant) is frozenset:
            self.token("frozenset", sorted(map(repr, constant)))
        elif type(constant) is tuple:
            self.token("tuple", len(constant))
            for each in constant:
                self._constant(each)
        else:
            self.visit(constant, "")

    def _read(self, value: Any, path: tuple[str, ...], where: str) -> None:
        """Adds a variable's value, of which the attributes `path` are read."""
        for i, name in enumerate(path):
            if isinstance(value, type) and name in vars(value) and not name.startswith("_") and library_name(value):
                self._unknown(path[i + 1 :], where)  # what is read of an attribute of a class of xpr
                break
            if not isinstance(value, ModuleType):
                self._unknown(path[i:], where)
                break
            value = _attribute(value, name, where)
        self.visit(value, where)

    def _unknown(self, path: tuple[str, ...], where: str) -> None:
        for name in path:
            if name.startswith("__") and name not in DUNDERS:
                raise Refused(f"{where} reads the attribute {name!r}")
            self._attributes.setdefault(name, where)

    def _resolve_attributes(self) -> bool:
        """Adds the attributes of modules that are used as values; whether there were new ones."""
        changed = False
        for key, space in list(self._namespaces.items()):
            for name, where in list(self._attributes.items()):
                if (
                    name not in DUNDERS
                    and (key, name) not in self._resolved
                    and (name in vars(space) or _loads_lazily(space, name))
                ):
                    self._resolved.add((key, name))
                    self.token("attribute", name)
                    self.visit(_attribute(space, name, where), where)
                    changed = True
        return changed

    def _module(self, value: ModuleType, where: str) -> None:
        self.token("module", value.__name__)
        self._namespaces[id(value)] = value

    def _structure(self, value: PyTreeDef, where: str) -> None:
        self.structure_of_arguments(value, where)
        for *_, keys_in_order in nodes_of(value):
            self.visit(keys_in_order and tuple(keys_in_order), where)

    def structure_of_arguments(self, value: PyTreeDef, where: str) -> None:
        """Adds the structure of a call's arguments, whose dicts a traced function sees with their keys sorted."""
        self.token("structure")
        for kind, arity, data, _, node_type, *_ in nodes_of(value):
            self.token(kind, arity)
            self.visit(data, where)
            self.visit(node_type, where)

    def _signature(self, value: inspect.Signature, where: str) -> None:
        self.token("signature")
        for each in value.parameters.values():
            self.token(each.name, each.kind.name)
            self.visit(None if each.default is each.empty else (each.default,), where)

    def _method(self, value: MethodType, where: str) -> None:
        self.token("method")
        self.visit(value.__func__, where)
        self.visit(value.__self__, where)

    def _partial(self, value: partial[Any], where: str) -> None:
        self.token("partial")
        for each in (value.func, value.args, value.keywords, vars(value)):
            self.visit(each, where)

    # -- Classes and objects

    def _object(self, value: Any, where: str) -> None:
        if type(value).__module__.startswith("xpr.") and hasattr(type(value), "__fingerprint__"):
            self.token("object of the library", type(value).__module__, type(value).__qualname__)
            for attribute in type(value).__fingerprint__:
                self.visit(_sorted(getattr(value, attribute)), where)
            self._namespaces[id(value)] = value  # a user may have set attributes
        elif (name := library_name(value) or foreign_name(value)) is not None:
            self.token("known", name)
            if isinstance(value, type) and not is_library(value):
                self._registrations(value, where)
        elif isinstance(value, ModuleType):
            self._module(value, where)
        elif isinstance(value, type):
            self._class(value, where)
        elif isinstance(value, np.dtype):
            self._dtype(value, where)
        elif isinstance(value, operator.methodcaller | operator.attrgetter):
            self._reader(value, where)
        elif isinstance(value, np.generic) and not isinstance(value, np.void | np.object_):
            self.token("scalar", type(value).__name__, value.dtype.str, value.tobytes())
        elif isinstance(value, Enum):
            self.token("enum", value.name)
            self.visit(value._value_, where)  # flags may have one without a name
            self.visit(type(value), where)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self.visit(type(value), where)
            self._sequence(tuple(value), where)
            self._state(value, where)
        else:
            self._instance(value, where)

    def _class(self, value: type, where: str) -> None:
        if is_library(value) or type(value).__module__ not in ("builtins", "abc", "enum"):
            raise Refused(f"{where} uses the class {value.__qualname__}, which is not known to be pure")
        self.token("class", value.__module__, value.__qualname__)
        if issubclass(value, tuple):
            self.visit((getattr(value, "_fields", ()), getattr(value, "_field_defaults", {})), where)
        for field in getattr(value, "__dataclass_fields__", {}).values():
            self.token("field", field.name, field.init, field.kw_only)
            for default in (field.default, field.default_factory):
                self.visit(None if default is dataclasses.MISSING else (default,), where)
        if isinstance(value, EnumType):
            self._names.update(("name", "value"))
            members: dict[str, Any] = dict(value.__members__)
            self.visit({name: _attributes_of(member) for name, member in members.items()}, where)
        self._registrations(value, where)
        for base in value.__mro__[:-1]:
            if base.__module__ in ("abc", "typing", "enum") or base in (tuple, int, str):
                self.token("base", base.__module__, base.__qualname__)
                continue
            if "_abc_impl" in vars(base):
                self.token(*sorted(f"{each.__module__}.{each.__qualname__}" for each in _registered_with(base)))
            if not _is_of_python(base):
                raise Refused(f"{where} uses the class {base.__qualname__}, which is not written in Python")
            self.classes[base.__module__, base.__qualname__] = base
            self._names.update(name for name in vars(base) if name not in _NOT_FOLLOWED)
            self._names.update(getattr(base, "__annotations__", ()))
            for name, member in list(vars(base).items()):
                if name not in _NOT_FOLLOWED and not _is_generated(base, name, member):
                    self.token("member", name)
                    self._member(member, f"{where}, in the class {base.__qualname__},")

    def _registrations(self, value: type, where: str) -> None:
        """Adds the functions that make a class a pytree node, and those that map its instances."""
        if value in registered:
            self.visit(tuple(registered[value]), where)
        if value in vmappable:
            self.visit(tuple(vmappable[value]), where)

    def _reader(self, value: operator.methodcaller | operator.attrgetter[Any], where: str) -> None:
        """Adds what `operator` made, which reads attributes of its argument."""
        reduced: Any = value.__reduce__()
        make, arguments = reduced
        if isinstance(make, partial):  # of a method with keyword arguments
            arguments = (*make.args, *arguments)
            self.visit(make.keywords, where)
        self.token(type(value).__name__)
        self.visit(arguments, where)
        for name in arguments if isinstance(value, operator.attrgetter) else arguments[:1]:
            self._unknown(tuple(name.split(".")), where)

    def _member(self, member: Any, where: str) -> None:
        if isinstance(member, (staticmethod, classmethod)):
            self.token(type(member).__name__)
            self.visit(member.__func__, where)
        elif type(member) is property:
            self.token("property")
            for each in (member.fget, member.fset, member.fdel):
                self.visit(each, where)
        elif type(member) in _SLOTS:
            index = member.__reduce__()[1][:1] if type(member) is _TUPLE_GETTER else member.__name__
            self.token("slot", index)  # which a class may have under several names
        else:
            self.visit(member, where)

    def _instance(self, value: Any, where: str) -> None:
        kind = type(value)
        if not all(map(_is_of_python, kind.__mro__[:-1])):
            raise Refused(f"{where} uses {_shown(value)}, which is not known to be pure")
        special = {"__getattr__", "__getattribute__", "__setattr__"} & {n for c in kind.__mro__[:-1] for n in vars(c)}
        if special - ({"__setattr__"} if hasattr(kind, "__dataclass_params__") else set()):
            raise Refused(f"{where} reads an object of {kind.__qualname__}, whose class has {min(special)}")
        try:
            self.visit(kind, where)
        except Refused as error:
            raise Refused(f"{where} uses {_shown(value)}: {error}") from None
        self._state(value, where)

    def _state(self, value: Any, where: str) -> None:
        """Adds the attributes of an instance."""
        state = dict(getattr(value, "__dict__", ()))
        for base in type(value).__mro__[:-1]:
            for name, member in list(vars(base).items()):
                if type(member) is types.MemberDescriptorType:
                    state[name] = getattr(value, name, _MISSING)
        self.token("instance", len(state))
        self._names.update(state)
        for name, each in state.items():
            self.token(name)
            if each is not _MISSING:
                self.visit(each, where)


_TUPLE_GETTER: Any = type(vars(namedtuple("_Pair", "left"))["left"])
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, _TUPLE_GETTER)
_OF_DATACLASSES = frozenset("__delattr__ __hash__ __repr__ __setattr__".split())
_OF_ENUMS = frozenset(
    """
    __new__ _generate_next_value_ _hashable_values_ _member_map_ _member_names_ _member_type_ _new_member_
    _unhashable_values_ _unhashable_values_map_ _use_args_ _value2member_map_ _value_repr_
    """.split()
)
_OF_MEMBERS = frozenset({"__objclass__", "_inverted_", "_name_", "_sort_order_"})  # `_inverted_` is set when it is read
_OF_NAMEDTUPLES = frozenset("__repr__ __new__ _make _replace _asdict __getnewargs__".split())
_VISITORS: dict[type, Callable[[Walk, Any, str], None]] = {
    tuple: Walk._sequence, list: Walk._sequence, dict: Walk._dict, OrderedDict: Walk._dict,
    range: Walk._range, slice: Walk._range, np.ndarray: Walk._ndarray, Array: Walk._array,
    FunctionType: Walk._function, MethodType: Walk._method, partial: Walk._partial,
    ModuleType: Walk._module, inspect.Signature: Walk._signature,
    PyTreeDef: Walk._structure,
}  # fmt: skip


def nodes_of(treedef: PyTreeDef) -> Any:
    """The nodes of a structure, children before their parents, as optree pickles them.

    Each is a tuple (kind, number of children, static data, entries, class of a registered node ...).
    """
    state: Any = treedef.spec.__getstate__()
    return state[0]


def _registered_with(kind: type) -> Iterator[type]:
    """The classes that were registered as subclasses of an abstract one, or of a subclass of it."""
    waiting, seen = [kind], {kind}
    while waiting:
        each = waiting.pop()
        if "_abc_impl" in vars(each):
            classes = [reference() for reference in _abc._get_dump(each)[0]]
            yield from (other for other in classes if other is not None)
        children: list[type] = type.__subclasses__(each)
        waiting += [child for child in children if child not in seen]
        seen.update(children)


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_name, code.co_exceptiontable,
        len(code.co_consts),
    )  # fmt: skip


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NotImplemented  # a variable without a value, whose use raises an error


def _sorted(value: Any) -> Any:
    """A set of numbers or of texts as a tuple; xpr's functions don't depend on its order."""
    if type(value) in (set, frozenset) and all(type(each) in (int, str) for each in value):
        return type(value).__name__, *sorted(value, key=repr)
    return value


def _attributes_of(member: Enum) -> dict[str, Any]:
    """The value of a member of an enumeration, and what other attributes it was given."""
    return {name: each for name, each in vars(member).items() if name not in _OF_MEMBERS}


def _global(name: str, values: dict[str, Any]) -> Any:
    if name in values:
        return values[name]
    known = values.get("__builtins__", {})
    known = vars(known) if isinstance(known, ModuleType) else known
    return known.get(name, NotImplemented)


def _attribute(space: Any, name: str, where: str) -> Any:
    """An attribute of a module or of an object of the library, without running a function of the user's."""
    if name in vars(space):
        return vars(space)[name]
    if _loads_lazily(space, name):
        return getattr(space, name)
    raise Refused(f"{where} reads {space.__name__}.{name}, which is not there")


def _loads_lazily(space: Any, name: str) -> bool:
    """Whether a module of xpr loads something when it is asked for."""
    if not isinstance(space, ModuleType):
        return False
    return space.__name__.partition(".")[0] == "xpr" and "__getattr__" in vars(space) and hasattr(space, name)


def _is_pure_closure(value: FunctionType) -> bool:
    return is_pure_module(str(value.__globals__.get("__name__")))


def _is_of_python(kind: type) -> bool:
    """Whether instances of a class have no other state than their attributes."""
    slots = vars(kind).get("__slots__", ())
    own = len((slots,) if isinstance(slots, str) else tuple(slots)) + 2
    inherited = max((base.__basicsize__ for base in kind.__bases__), default=0)
    is_class = "__module__" in vars(kind) and kind.__flags__ & (1 << 9)  # a class that was made by a class statement
    return (
        bool(is_class)
        and kind.__basicsize__ <= inherited + 8 * own
        and (kind.__itemsize__ == 0 or issubclass(kind, tuple))
    )


def _is_generated(kind: type, name: str, member: Any) -> bool:
    """Whether Python wrote a method of a namedtuple or of a dataclass, from what else the fingerprint has of it."""
    if issubclass(kind, tuple) and name in ("_fields", "_field_defaults"):
        return True
    function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
    if isinstance(kind, EnumType) and (name in _OF_ENUMS or isinstance(member, kind)):
        return type(function) is not FunctionType or function.__code__.co_filename == enum.__file__
    if type(function) is not FunctionType:
        return False
    code, module = function.__code__, str(function.__globals__.get("__name__"))
    if issubclass(kind, tuple) and name in _OF_NAMEDTUPLES:
        return code.co_filename == collections.__file__ or module.startswith("namedtuple_")
    if name not in _OF_DATACLASSES or not hasattr(kind, "__dataclass_params__"):
        return False
    return "__create_fn__" in code.co_qualname or code.co_filename in (dataclasses.__file__, reprlib.__file__)


def _shown(value: Any) -> str:
    if "__name__" in vars(type(value)):  # functions of all kinds
        return str(value.__name__)
    return f"an object of {type(value).__qualname__}"


def _line(code: CodeType, line: int) -> str:
    return f"{code.co_name} at {code.co_filename}:{line}"

"""Types of values, and the classes from which users derive types of their own, beside those of arrays.

A value of a registered class consists of arrays, as one of a pytree class does, but is one value to the program: it has
one variable in a jaxpr, one tangent of a type that its own type chooses, and operations of its own (`HiPrimitive`,
`VJPHiPrimitive`). Before a program is compiled such values become the arrays that they consist of, see
transforms/on_arrays.py. Registration gives the class the attribute `aval` that arrays have, so that nothing has to look
for such values.

A mutable value has a *state*: what of its type may change, such as the types of what it holds. A variable that stands
for one has the type with the state (`AvalQDD`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, ClassVar, NoReturn

from xpr.core.memory import MemorySpace

_NO_AXES: frozenset[Any] = frozenset()
_preparations: list[Callable[[], None]] = []


def at_first_use(prepare: Callable[[], None]) -> None:
    """Registers a function to be called when the process first meets a value of a type of one's own.

    It does what only such values need, and what would make the tracing of all programs slower.
    """
    _preparations.append(prepare)


def in_use() -> None:
    """Calls the functions registered by `at_first_use`, once; called where types of one's own appear."""
    while _preparations:
        _preparations.pop()()


class AbstractValue:
    """The base of the types of values: of arrays, of refs, and of what users define.

    >>> import xpr
    >>> from xpr.experimental.hijax import AbstractValue
    >>> isinstance(xpr.typeof(1.0), AbstractValue)
    True
    """

    __slots__ = ()
    is_high: ClassVar[bool] = False  # whether it is a type that users define
    has_qdd: bool = False  # whether its values are mutable

    @property
    def current(self) -> Any:
        """The type with the state that it has now, for one that is mutable; else the type itself."""
        return self

    @property
    def at_start(self) -> Any:
        """The type with the state that it had first, as one of another variable; else the type itself."""
        return self

    def str_short(self, short_dtypes: bool = True) -> str:
        """The type as jaxprs print it."""
        return repr(self)


class _OfUsers(AbstractValue):
    """What types that users define have in common: they say nothing of devices, of memory and of weakness."""

    __slots__ = ()
    is_high: ClassVar[bool] = True
    explicit: ClassVar[None] = None
    varying: ClassVar[frozenset[Any]] = _NO_AXES
    vma: ClassVar[frozenset[Any]] = _NO_AXES
    sums: ClassVar[None] = None
    mesh: ClassVar[None] = None
    memory_space: ClassVar[MemorySpace] = MemorySpace.Device
    weak_type: ClassVar[bool] = False
    is_symbolic: ClassVar[bool] = False

    @property
    def plain(self) -> Any:
        """The type without what is said of devices: itself."""
        return self

    @property
    def dual(self) -> Any:
        """The type of cotangents of tangents of this type."""
        return self.to_ct_aval()

    def str_short(self, short_dtypes: bool = False, **options: Any) -> str:
        """The type as jaxprs print it."""
        return str(self)

    def named(self) -> str:
        """The type as the texts of tracers show it."""
        return self.str_short()

    def strip_weak_type(self) -> Any:
        """The type, which is not weak."""
        return self

    def normalize(self) -> Any:
        """The type without the weakness of the types in it, by which types are compared."""
        return self

    def to_tangent_aval(self) -> Any:
        """The type of tangents, one of the user's or of arrays."""
        missing(self, "to_tangent_aval", "its values have tangents")

    def to_ct_aval(self) -> Any:
        """The type of cotangents: that of tangents, unless a subclass says otherwise."""
        return self.to_tangent_aval()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def missing(kind: Any, method: str, use: str) -> NoReturn:
    """Raises NotImplementedError where a method is needed that a user's class does not define."""
    raise NotImplementedError(
        f"The class {type(kind).__name__} must define {method}: {use}. See the page on types of one's own."
    )


class HiType(_OfUsers):
    """A type of immutable values that consist of arrays, to derive classes from.

    Subclasses are hashable and comparable (a frozen dataclass is both), and define `lo_ty`, `lower_val` and
    `raise_val`. Other methods are needed where they are used: `to_tangent_aval`, `vspace_zero` and `vspace_add` by
    derivatives, `dec_rank` and `inc_rank` by `vmap` and `scan`, `leading_axis_spec` by `scan`, `shard` and `unshard` by
    `shard_map`, `normalize` where a type has types of arrays in it, which may be weak.

    >>> from dataclasses import dataclass
    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.hijax import HiType, register_hitype
    >>> @dataclass(frozen=True)
    ... class Celsius:
    ...     degrees: xpr.Array
    >>> @dataclass(frozen=True)
    ... class CelsiusType(HiType):
    ...     def lo_ty(self): return [xpr.core.ShapedArray((), "float32")]
    ...     def lower_val(self, value): return [value.degrees]
    ...     def raise_val(self, degrees): return Celsius(degrees)
    >>> register_hitype(Celsius, lambda value: CelsiusType())
    >>> xpr.jit(lambda t: t)(Celsius(jnp.float32(20)))
    Celsius(degrees=Array(20., dtype=float32))
    """

    __slots__ = ()

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that a value consists of."""
        missing(self, "lo_ty", "its values become arrays in programs that are compiled")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value consists of."""
        missing(self, "lower_val", "its values become arrays in programs that are compiled")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that consists of these arrays."""
        missing(self, "raise_val", "its values become arrays in programs that are compiled")

    def vspace_zero(self) -> Any:
        """The zero of a type of tangents."""
        missing(self, "vspace_zero", "it is a type of tangents, and a zero of it is needed")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two values of a type of tangents."""
        missing(self, "vspace_add", "it is a type of tangents, of which two are added")

    def dec_rank(self, size: int | None, spec: Any) -> Any:
        """The type of a row of a value that is mapped as `spec` says; `size` is the number of rows, None if unknown."""
        missing(self, "dec_rank", "vmap and scan take rows of its values")

    def inc_rank(self, size: int | None, spec: Any) -> Any:
        """The type of a value with `size` rows of this type, along the axes that `spec` says."""
        missing(self, "inc_rank", "vmap and scan put rows of this type together")

    def leading_axis_spec(self) -> Any:
        """The `MappingSpec` of values that are mapped along the first axes of their arrays, for `scan`."""
        missing(self, "leading_axis_spec", "scan goes over the first axes")

    def shard(self, mesh: Any, manual_axes: frozenset[Any], check_vma: bool, spec: Any) -> Any:
        """The type of the part of a value that each device has in a `shard_map`."""
        missing(self, "shard", "shard_map gives each device a part of its values")

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> Any:
        """The type of the value of which each device has a part of this type in a `shard_map`."""
        missing(self, "unshard", "shard_map puts the parts of all devices together")

    def without_axis(self, axis: Any) -> Any:
        """The type of a row; 0 stands for the first axes of all arrays."""
        return self.dec_rank(None, self._spec(axis))

    def with_axis(self, axis: Any, size: Any, part: Any = None) -> Any:
        """The type of a value with `size` rows; 0 stands for the first axes of all arrays."""
        return self.inc_rank(size, self._spec(axis))

    def _spec(self, axis: Any) -> Any:
        return self.leading_axis_spec() if type(axis) is int and axis == 0 else axis


class MutableHiType(_OfUsers):
    """A type of mutable values that consist of arrays, to derive classes from.

    What of a value's type can change is its state, which is compared and hashed: `value.cur_qdd()`. The methods turn a
    value of a state into arrays and back. Programs take the arrays that their mutable arguments consist of, and give
    those that they consist of at the end.
    """

    __slots__ = ()
    has_qdd: bool = True

    def lo_ty_qdd(self, state: Any) -> list[Any]:
        """The types of the arrays that a value in a state consists of."""
        missing(self, "lo_ty_qdd", "its values become arrays in programs that are compiled")

    def new_from_loval(self, state: Any, *lo_vals: Any) -> Any:
        """A new value in a state that consists of these arrays."""
        missing(self, "new_from_loval", "its values become arrays in programs that are compiled")

    def read_loval(self, state: Any, value: Any) -> list[Any]:
        """The arrays that a value consists of."""
        missing(self, "read_loval", "its values become arrays in programs that are compiled")

    def update_from_loval(self, state: Any, value: Any, *lo_vals: Any) -> None:
        """Changes a value to one in a state that consists of these arrays."""
        missing(self, "update_from_loval", "its values become arrays in programs that are compiled")


class MappingSpec:
    """Base class of what says how `vmap` maps a value of a type of one's own, for `in_axes` and `out_axes`.

    Subclasses are comparable, as frozen dataclasses are.
    """


class HiPspec:
    """Base class of what says how `shard_map` shards a value of a type of one's own.

    Subclasses are hashable and comparable, as frozen dataclasses are.
    """

    def to_lo(self) -> Sequence[Any]:
        """The `PartitionSpec` of each array that the value consists of."""
        missing(self, "to_lo", "shard_map shards the arrays of its values")


class State:
    """The state of a mutable variable while a program is traced: `init_val` as it was first, `cur_val` as it is now."""

    __slots__ = ("cur_val", "init_val")

    def __init__(self, value: Any):
        self.init_val = self.cur_val = value

    def update(self, value: Any) -> None:
        """Changes the state, as typing rules of operations that mutate do."""
        self.cur_val = value


_OF_ARRAYS = ("shape", "dtype", "ndim", "size")


class AvalQDD(_OfUsers):
    """A mutable type with a state: the type of a variable.

    Args:
      aval: the type, a `MutableHiType`.
      qdd: the state of the variable's value where it is defined.
      value: the value itself, where the type is looked at in order to compute with the array that it makes of itself.
    """

    __slots__ = ("_value", "aval", "mutable_qdd", "qdd")
    has_qdd: bool = True

    def __init__(self, aval: Any, qdd: Any, value: Any = None):
        self.aval, self.qdd, self.mutable_qdd, self._value = aval, qdd, State(qdd), value

    def __getattr__(self, name: str) -> Any:
        """The shape, dtype and the like of the array that the value makes of itself."""
        if name not in _OF_ARRAYS:
            return object.__getattribute__(self, name)  # which raises the error
        if hasattr(type(self._value), "__jax_array__"):
            return getattr(self._value.__jax_array__().aval, name)
        raise AttributeError(f"A value of type {self.aval.str_short()} is no array, and has no {name}.")

    @property
    def current(self) -> AvalQDD:
        return AvalQDD(self.aval, self.mutable_qdd.cur_val)

    @property
    def at_start(self) -> AvalQDD:
        return AvalQDD(self.aval, self.qdd)

    @property
    def final(self) -> Any:
        """The state in which a program that was traced leaves the variable's value."""
        return self.mutable_qdd.cur_val

    def __eq__(self, other: object) -> bool:
        return type(other) is AvalQDD and self.aval == other.aval and self.qdd == other.qdd

    def __hash__(self) -> int:
        return hash((self.aval, self.qdd))

    def __repr__(self) -> str:
        return f"AvalQDD({self.aval!r}, {self.qdd!r})"

    def str_short(self, short_dtypes: bool = False, **options: Any) -> str:
        return self.aval.str_short(short_dtypes)

    def to_tangent_aval(self) -> AvalQDD:
        return AvalQDD(self.aval.to_tangent_aval(), self.qdd and self.qdd.to_tangent_qdd())

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that the value consists of first."""
        return self.aval.lo_ty_qdd(self.qdd)


def at_end(aval: Any) -> Any:
    """The type of a variable with the state in which the program leaves it, if it is mutable."""
    return AvalQDD(aval.aval, aval.final) if type(aval) is AvalQDD else aval


def leave_in_final_states(operands: Sequence[Any], arguments: Sequence[Any]) -> None:
    """Changes the states of operands to those in which a program leaves its arguments."""
    for operand, argument in zip(operands, arguments):
        if type(operand) is AvalQDD and type(argument) is AvalQDD:
            operand.mutable_qdd.update(argument.final)


class aval_method:
    """Marks a function of a type's class as a method of traced values of the type.

    Args:
      fun: the function, which gets the value first.
    """

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """Marks a function of a type's class as a property of traced values of the type.

    Args:
      fget: the function of the value.
    """

    def __init__(self, fget: Callable[[Any], Any]):
        self.fget = fget


def attribute_of(value: Any, aval: Any, name: str) -> Any:
    """The attribute of a traced value that its type, one that a user defines, has for it.

    Raises:
      AttributeError: the type has none of that name.
    """
    kind = aval.aval if type(aval) is AvalQDD else aval
    found = getattr(kind, name)
    if isinstance(found, aval_method):
        return MethodType(found.fun, value)
    return found.fget(value) if isinstance(found, aval_property) else found


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Makes the instances of a class values of programs, with a type of one's own.

    Args:
      val_cls: the class, which gets the property `aval`.
      typeof_fn: the function from an instance to its type, a `HiType` or a `MutableHiType`.

    Raises:
      TypeError: the class has an attribute `aval` already, as that of arrays.

    >>> from xpr.experimental.hijax import register_hitype
    >>> register_hitype(int, lambda value: None)
    Traceback (most recent call last):
      ...
    TypeError: register_hitype: the class int can't be given the property `aval`, by which values have types: ...
    """

    def aval(value: Any) -> Any:
        in_use()
        kind = typeof_fn(value)
        return AvalQDD(kind, value.cur_qdd(), value) if kind.has_qdd else kind

    known = getattr(val_cls, "aval", None)
    if known is not None and getattr(getattr(known, "fget", None), "__module__", None) != __name__:
        raise TypeError(
            f"register_hitype: {val_cls.__name__} has an attribute `aval`, which is what gives values their types. "
            "Rename it, or register another class."
        )
    try:
        setattr(val_cls, "aval", property(aval))  # noqa: B010  # the class declares no such attribute
    except TypeError as error:
        raise TypeError(
            f"register_hitype: the class {val_cls.__name__} can't be given the property `aval`, by which values have "
            f"types: {error}. Register a class of your own."
        ) from None

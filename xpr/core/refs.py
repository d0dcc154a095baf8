"""Refs: mutable arrays, and their types.

The interpreter that was current where a `Ref` was made owns it: the ref holds a value of that interpreter, an array or
a tracer, which writing replaces. An argument of a program that is being staged holds none: its owner stages reads and
writes as equations on its variable. transforms/refs.py says what happens when another interpreter is current.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from xpr.core.avals import ShapedArray
from xpr.core.hi_types import AbstractValue
from xpr.core.interpreter import Trace
from xpr.dtypes import float0
from xpr.errors import RefError


class AbstractRef(AbstractValue):
    """The type of a `Ref`: the type of the array that it holds. Interned, as that one is.

    Args:
      inner_aval: the type of the array.
      memory_space: must be None; the argument is there for programs that are written for JAX.
      kind: None, or "no_grad_no_remat" for refs that hold no derivatives.

    >>> import xpr
    >>> xpr.typeof(xpr.new_ref(xpr.numpy.zeros(3)))
    Ref{f32[3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind", "__weakref__")
    inner_aval: ShapedArray
    memory_space: None
    kind: str | None

    _interned: ClassVar[dict[Any, AbstractRef]] = {}

    def __new__(cls, inner_aval: ShapedArray, memory_space: Any = None, kind: str | None = None) -> AbstractRef:
        if memory_space is not None:
            raise NotImplementedError(f"new_ref: there is one memory space, None, and {memory_space!r} was asked for.")
        if kind not in (None, "no_grad_no_remat"):
            raise ValueError(f'new_ref: kind must be None or "no_grad_no_remat", and is {kind!r}.')
        known = cls._interned.get((inner_aval, kind))
        if known is None:
            made = object.__new__(cls)
            made.inner_aval, made.memory_space, made.kind = inner_aval, None, kind
            known = cls._interned.setdefault((inner_aval, kind), made)
        return known

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)
    size = property(lambda self: self.inner_aval.size)
    weak_type = property(lambda self: self.inner_aval.weak_type)
    is_symbolic = property(lambda self: self.inner_aval.is_symbolic)
    sharding = property(lambda self: self.inner_aval.sharding)
    explicit = property(lambda self: self.inner_aval.explicit)
    varying = property(lambda self: self.inner_aval.varying)
    sums = property(lambda self: self.inner_aval.sums)
    mesh = property(lambda self: self.inner_aval.mesh)
    dual = property(lambda self: AbstractRef(self.inner_aval.dual, None, self.kind))
    plain = property(lambda self: AbstractRef(self.inner_aval.plain, None, self.kind))

    def __reduce__(self) -> Any:
        return AbstractRef, (self.inner_aval, None, self.kind)

    def str_short(self, short_dtypes: bool = True) -> str:
        """The type as jaxprs print it, `Ref{f32[3]}`; `Ref{float32[3]}` without `short_dtypes`."""
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    __repr__ = str_short

    def __str__(self) -> str:
        return f"Ref{{{self.inner_aval}}}"

    def update(self, **changes: Any) -> AbstractRef:
        """The type of a ref of arrays with another shape, dtype or weak type."""
        inner = changes.pop("inner_aval", self.inner_aval)
        kind = changes.pop("kind", self.kind)
        return AbstractRef(inner.update(**changes), None, kind)

    def with_explicit(self, explicit: Any) -> AbstractRef:
        """The type of a ref of arrays that are partitioned so over Explicit axes of a mesh."""
        return AbstractRef(self.inner_aval.with_explicit(explicit), None, self.kind)

    def with_varying(self, axes: frozenset[Any]) -> AbstractRef:
        """The type of a ref of arrays that may differ between the devices along these axes."""
        return AbstractRef(self.inner_aval.with_varying(axes), None, self.kind)

    def with_sums(self, unreduced: frozenset[Any], reduced: frozenset[Any]) -> AbstractRef:
        """The type of a ref of arrays that are unreduced and reduced over these manual axes."""
        return AbstractRef(self.inner_aval.with_sums(unreduced, reduced), None, self.kind)

    def on_mesh(self, mesh: Any) -> AbstractRef:
        """The same type with its arrays on a mesh whose axes are all Auto."""
        return AbstractRef(self.inner_aval.on_mesh(mesh), None, self.kind)

    def in_memory(self, space: Any) -> AbstractRef:
        """The type of a ref of arrays in that memory."""
        return AbstractRef(self.inner_aval.in_memory(space), None, self.kind)

    def with_axis(self, axis: int, size: Any, part: Any = None) -> AbstractRef:
        """The type of a ref of arrays with one more axis."""
        return AbstractRef(self.inner_aval.with_axis(axis, size, part), None, self.kind)

    def without_axis(self, axis: int) -> AbstractRef:
        """The type of a ref of arrays without one axis."""
        return AbstractRef(self.inner_aval.without_axis(axis), None, self.kind)

    def strip_weak_type(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.strip_weak_type(), None, self.kind)

    def to_tangent_aval(self) -> ShapedArray:
        """A ref itself has no tangent; the arrays that it holds have."""
        return ShapedArray(self.inner_aval.shape, float0)


class Ref:
    """A mutable array: `ref[...]` reads it, `ref[...] = x` writes it, by NumPy's rules of indexing.

    `new_ref` makes one. It is no array: functions of arrays take what is read from it.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> ref[1] += 10
    >>> ref
    Ref([ 0, 11,  2,  3], dtype=int32)
    """

    __slots__ = ("aval", "lent", "owner", "shared", "source", "value", "variable", "__weakref__")
    aval: AbstractRef
    owner: Trace | None  # None for the bottom, which evaluates
    value: Any  # of its owner; None if it is frozen, or a variable
    shared: bool  # whether others may hold the value, too, so that its memory can't be given away
    variable: Any  # of a program that its owner stages, or None
    source: Any  # where it was made, if that was while a function was traced
    lent: Callable[[], str] | None  # while a function has refs to its rows: the message of the error of using this one

    def __init__(
        self, aval: AbstractRef, owner: Trace | None, value: Any = None, variable: Any = None, source: Any = None
    ):
        self.aval, self.owner, self.value, self.variable, self.shared = aval, owner, value, variable, True
        self.source, self.lent = source, None

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    sharding = property(lambda self: self.aval.sharding if self.variable is not None else self.held().sharding)
    committed = property(lambda self: self.held().committed)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory that holds the value now."""
        return self.held().unsafe_buffer_pointer()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a Ref without axes.")
        return self.shape[0]

    def __copy__(self) -> Ref:
        """Another ref that holds the same value now."""
        self.shared = True
        return Ref(self.aval, self.owner, self.held())

    def __deepcopy__(self, memo: Any) -> Ref:
        return self.__copy__()

    def __repr__(self) -> str:
        if self.variable is not None:
            return f"JitTracer({self.aval})"
        return f"Ref{repr(self.value)[5:]}" if type(self.value).__name__ == "Array" else f"Ref({self.value!r})"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(not_an_array(self.aval))

    def held(self) -> Any:
        """The value that the ref holds, one of its owner.

        Raises:
          RefError: it was frozen or freed; or it is an argument of a program that is being staged.
        """
        if self.variable is not None:
            raise RefError(
                f"A Ref of type {self.aval.str_short()} is an argument of a function that is being traced, where it "
                "holds no array yet. Read it, ref[...], or do this outside of the function."
            )
        if self.value is None:
            raise RefError(
                f"A Ref of type {self.aval.str_short()} is used after it was frozen or freed. Read it before, or use "
                "what freeze returned."
            )
        return self.value


@dataclass(frozen=True, slots=True)
class RefEffect:
    """What a program does to a ref: reads it (`Read<0>`) or writes it (`Write<0>`).

    Attributes:
      name: "Read" or "Write".
      input: the position of the ref among the constants and arguments of the program.
    """

    name: str
    input: int

    def __repr__(self) -> str:
        return f"{self.name}<{self.input}>"


def not_an_array(aval: Any) -> str:
    """The message where an array is needed and a ref is given."""
    return f"Expected an array, and got a mutable array of type {aval.str_short()}. Read its value first: ref[...]."

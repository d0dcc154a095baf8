"""Abstract values (avals): the types of arrays, which are all that is known of a value while it is traced.

A `ShapedArray` is interned: two with the same shape, dtype and weak type are one object, so comparing and hashing
are pointer operations, and caches keyed by avals cost one dictionary look-up.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.config import settings
from xpr.core.explicit import ExplicitSharding, dimension_text, explicit_sharding, sums_text
from xpr.core.hi_types import AbstractValue, AvalQDD
from xpr.core.memory import MemorySpace, space_of_kind
from xpr.core.meshes import AbstractMesh
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import float0, short_name
from xpr.key_types import KeyType

__all__ = ["typeof"]

Shape = tuple[int, ...]


_NO_AXES: frozenset[Any] = frozenset()


class ManualAxisType(NamedTuple):
    """The manual mesh axes in a type: those over which the value varies, is unreduced, or is reduced.

    >>> from xpr.sharding import ManualAxisType
    >>> ManualAxisType(varying=frozenset("x"))
    ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset(), reduced=frozenset())
    """

    varying: frozenset[Any] = _NO_AXES
    unreduced: frozenset[Any] = _NO_AXES
    reduced: frozenset[Any] = _NO_AXES

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """The manual axes of a mesh over which the value is replicated: none of those three."""
        return frozenset(mesh.manual_axes).difference(*self)

    @property
    def vur(self) -> frozenset[Any]:
        """The axes of all three."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether it names no axis."""
        return not self.vur

    def update(self, **changes: Any) -> ManualAxisType:
        """A copy with some of the sets, given by name, replaced."""
        return self._replace(**changes)

    def to_ct_mat(self) -> ManualAxisType:
        """The type of cotangents over manual axes: unreduced where values are reduced, and the other way round."""
        return ManualAxisType(self.varying, self.reduced, self.unreduced)


class ShapedArray(AbstractValue):
    """The type of an array: its shape and dtype, and whether the dtype is weak (came from a Python scalar).

    Five more attributes have their defaults in nearly all types:

    * `explicit`: how the array is partitioned over the Explicit axes of a mesh, or None. `sharding`, which the
      constructor takes, is the same as a `NamedSharding` (backend/sharding.py).
    * `memory_space`: the memory that the array is in. `f32<host>[8]` is in the host's, other types in the device's.
    * `varying`: inside a `shard_map`, the mesh axes over which the value may differ between devices.
    * `sums`: inside a `shard_map`, the axes over which the value is unreduced (a subset of `varying`), and those over
      which it is reduced; or None.
    * `mesh`: the mesh that the array is on, if all its axes are Auto; or None.

    Like weakness, `varying`, `sums` and `mesh` propagate from operands to results, and types that differ in them alone
    are compatible. Whether a program is right in the former two is inferred from the whole of it
    (control/devices/replication.py).

    >>> from xpr import core
    >>> core.ShapedArray((2, 3), "float32")
    ShapedArray(float32[2,3])
    """

    __slots__ = (
        "shape", "dtype", "weak_type", "ndim", "size", "is_symbolic", "explicit", "varying", "memory_space", "sums",
        "mesh", "plain", "physical", "__weakref__",
    )  # fmt: skip
    shape: Shape
    dtype: np.dtype
    weak_type: bool
    ndim: int
    size: int
    is_symbolic: bool  # whether a dimension is a `DimExpr`
    explicit: ExplicitSharding | None
    varying: frozenset[Any]
    memory_space: MemorySpace
    sums: tuple[frozenset[Any], frozenset[Any]] | None
    mesh: AbstractMesh | None
    plain: ShapedArray  # the type with the defaults of explicit, varying, memory_space, sums and mesh
    physical: ShapedArray  # the type of the buffer: for keys that of their words, for float0 bool, else itself

    _interned: ClassVar[dict[Any, ShapedArray]] = {}

    def __new__(
        cls, shape: Shape, dtype: Any, weak_type: bool = False, *, sharding: Any = None,
        memory_space: MemorySpace | None = None,
    ) -> ShapedArray:  # fmt: skip
        if sharding is not None:
            explicit = explicit_sharding(sharding.mesh, sharding.spec, len(shape))
            if explicit is not None:
                explicit.check(tuple(shape))
            space = memory_space or space_of_kind(sharding.memory_kind)
            mesh = sharding.mesh.if_auto
            return cls._intern(shape, dtype, weak_type, explicit, memory_space=space, mesh=mesh)
        if memory_space is not None:
            return cls._intern(shape, dtype, weak_type, memory_space=memory_space)
        try:
            return cls._interned[shape, dtype, weak_type]
        except (KeyError, TypeError):
            return cls._intern(shape, dtype, weak_type)

    @classmethod
    def _intern(
        cls, shape: Any, dtype: Any, weak_type: bool, explicit: ExplicitSharding | None = None,
        varying: frozenset[Any] = _NO_AXES, memory_space: MemorySpace = MemorySpace.Device,
        sums: tuple[frozenset[Any], frozenset[Any]] | None = None, mesh: AbstractMesh | None = None,
    ) -> ShapedArray:  # fmt: skip
        shape, weak_type = tuple(map(_dimension, shape)), bool(weak_type)
        dtype = dtype if type(dtype) is KeyType else np.dtype(dtype)
        is_plain = not varying and memory_space is MemorySpace.Device and explicit is sums is mesh is None
        key: Any = (shape, dtype, weak_type)
        if not is_plain:
            key = (*key, explicit, varying, memory_space, sums, mesh)
        if key in cls._interned:
            return cls._interned[key]
        self = object.__new__(cls)
        size = 1
        for n in shape:
            size *= n
        is_symbolic = any(type(n) is not int for n in shape)
        values = (shape, dtype, weak_type, len(shape), size, is_symbolic, explicit, varying, memory_space, sums,
                  mesh)  # fmt: skip
        for name, value in zip(cls.__slots__, values):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "plain", self if is_plain else cls(shape, dtype, weak_type))
        object.__setattr__(self, "physical", self._in_memory())
        return cls._interned.setdefault(key, self)

    def _in_memory(self) -> ShapedArray:
        dtype: Any = self.dtype
        if type(dtype) is KeyType:
            words = ShapedArray((*self.shape, *dtype.key_shape), dtypes.uint32)
            explicit = self.explicit
            if explicit is not None and explicit.parts is not None:
                explicit = explicit.with_parts([*explicit.parts, *[None] * len(dtype.key_shape)])
            return self._like(words, explicit)
        return ShapedArray(self.shape, dtypes.bool_) if dtype == float0 else self

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable; use .update({name}=...).")

    def __reduce__(self) -> Any:
        if self.plain is self:
            return ShapedArray, (self.shape, self.dtype, self.weak_type)
        return ShapedArray._intern, (
            self.shape, self.dtype, self.weak_type, self.explicit, self.varying, self.memory_space, self.sums,
            self.mesh,
        )  # fmt: skip

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short(short_dtypes=False)}{weak})"

    def __str__(self) -> str:
        if not self.varying:
            return self.named()
        names = ",".join(sorted(map(str, self.varying)))
        return f"{self.named()}{{V:{names if len(self.varying) == 1 else f'({names})'}}}"

    def named(self) -> str:
        """The type with the whole name of its dtype, `float32[2,3]`; after `~` if it is weak."""
        return f"{'~' * self.weak_type}{self.str_short(short_dtypes=False)}"

    def str_short(self, short_dtypes: bool = True) -> str:
        """The type as jaxprs print it, `f32[2,3]` or `f32[2@x,3]`; `float32[2,3]` without `short_dtypes`."""
        dtype = short_name(self.dtype) if short_dtypes or is_float0(self) else self.dtype.name
        return f"{dtype}{self._space_text()}{self._shape_text()}"

    def _space_text(self) -> str:
        return "" if self.memory_space is MemorySpace.Device else f"<{self.memory_space.name.lower()}>"

    def _shape_text(self) -> str:
        if self.explicit is None:
            return f"[{','.join(map(str, self.shape))}]"
        parts = self.explicit.parts or ("?",) * self.ndim
        return f"[{','.join(map(dimension_text, self.shape, parts))}]{sums_text(self.explicit)}"

    def update(self, **changes: Any) -> ShapedArray:
        """The same type with some of shape, dtype, weak_type, sharding and memory_space changed.

        With another shape it is not partitioned, unless a sharding is given.
        """
        shape = changes.get("shape", self.shape)
        changed = ShapedArray(
            shape,
            changes.get("dtype", self.dtype),
            changes.get("weak_type", self.weak_type),
            sharding=changes.get("sharding"),
            memory_space=changes.get("memory_space"),
        )
        if self.plain is self:
            return changed
        if self.explicit is not None and "sharding" not in changes and changed.shape == self.shape:
            changed = changed.with_explicit(self.explicit)
        if "memory_space" not in changes and changes.get("sharding") is None:
            changed = changed.in_memory(self.memory_space)
        if changed.explicit is None and changes.get("sharding") is None:
            changed = changed.on_mesh(self.mesh)
        return changed._changed(varying=self.varying, sums=self.sums)

    def _changed(self, **parts: Any) -> ShapedArray:
        """The same type with some of explicit, varying, memory_space, sums and mesh changed."""
        same = {name: getattr(self, name) for name in ("explicit", "varying", "memory_space", "sums", "mesh")}
        return ShapedArray._intern(self.shape, self.dtype, self.weak_type, **{**same, **parts})

    def with_explicit(self, explicit: ExplicitSharding | None) -> ShapedArray:
        """The same type with this sharding over Explicit axes."""
        if explicit is self.explicit:
            return self
        return self._changed(explicit=explicit, mesh=self.mesh if explicit is None else None)

    def on_mesh(self, mesh: AbstractMesh | None) -> ShapedArray:
        """The same type with its arrays on a mesh whose axes are all Auto."""
        return self if mesh is self.mesh else self._changed(mesh=mesh)

    def with_varying(self, axes: frozenset[Any]) -> ShapedArray:
        """The same type, of values that may differ between the devices along these axes."""
        return self if axes == self.varying else self._changed(varying=axes)

    def with_sums(self, unreduced: frozenset[Any], reduced: frozenset[Any]) -> ShapedArray:
        """The same type, of values that are unreduced and reduced over these manual axes."""
        sums = (unreduced, reduced) if unreduced or reduced else None
        return self if sums == self.sums else self._changed(sums=sums)

    def in_memory(self, space: MemorySpace) -> ShapedArray:
        """The same type, of arrays in that memory."""
        return self if space is self.memory_space else self._changed(memory_space=space)

    def _like(self, aval: ShapedArray, explicit: ExplicitSharding | None) -> ShapedArray:
        """The type `aval` with a sharding, and with the varying axes, memory space, sums and mesh of this type."""
        return aval._changed(
            explicit=explicit, varying=self.varying, memory_space=self.memory_space, sums=self.sums, mesh=self.mesh
        )

    @property
    def vma(self) -> frozenset[Any]:
        """JAX's name of `varying`."""
        return self.varying

    @property
    def mat(self) -> ManualAxisType:
        """`varying` and `sums` as JAX has them: the manual axes, those of the enclosing `shard_map`s."""
        unreduced, reduced = self.sums or (_NO_AXES, _NO_AXES)
        return ManualAxisType(self.varying - unreduced, unreduced, reduced)

    manual_axis_type = mat

    def with_axis(self, axis: int, size: Any, part: Any = None) -> ShapedArray:
        """The type with one more axis, at `axis`, which the mesh axes `part` partition if the type has a sharding."""
        aval = ShapedArray((*self.shape[:axis], size, *self.shape[axis:]), self.dtype, self.weak_type)
        if self.plain is self:
            return aval
        return self._like(aval, self.explicit and self.explicit.with_axis(axis, part))

    def without_axis(self, axis: int) -> ShapedArray:
        """The type without one axis."""
        aval = ShapedArray(self.shape[:axis] + self.shape[axis + 1 :], self.dtype, self.weak_type)
        if self.plain is self:
            return aval
        return self._like(aval, self.explicit and self.explicit.without_axis(axis))

    def strip_weak_type(self) -> ShapedArray:
        """The same type, not weak."""
        return ShapedArray(self.shape, self.dtype, False) if self.plain is self else self.update(weak_type=False)

    normalize = strip_weak_type

    def to_tangent_aval(self) -> ShapedArray:
        """The type of this value's tangents: itself for inexact dtypes, float0 for the others."""
        if self.dtype in dtypes.INEXACT:
            return self
        return ShapedArray(self.shape, float0, False)

    at_least_vspace = to_tangent_aval

    @property
    def dual(self) -> ShapedArray:
        """The type of cotangents of tangents of this type: unreduced where it is reduced, and the other way round."""
        dual = self if self.explicit is None else self.with_explicit(self.explicit.dual)
        return dual if self.sums is None else dual.with_sums(self.sums[1], self.sums[0])

    # As types that users define have them, which consist of arrays and of one another. Zeros and sums of arrays are
    # computed in primitives/shapes.py, parts of shards in control/devices.

    def to_ct_aval(self) -> ShapedArray:
        """The type of this value's cotangents."""
        return self.to_tangent_aval().dual

    def lo_ty(self) -> list[ShapedArray]:
        """The types of the arrays that a value consists of: this one."""
        return [self]

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value consists of: itself."""
        return [hi_val]

    def raise_val(self, lo_val: Any) -> Any:
        """The value that consists of an array: itself."""
        return lo_val

    def leading_axis_spec(self) -> int:
        """How a value is mapped along its first axis."""
        return 0

    def dec_rank(self, size: int | None, spec: int | None) -> ShapedArray:
        """The type of a row of an array that is mapped along the axis `spec`, None where it is not mapped."""
        return self if spec is None else self.without_axis(spec)

    def inc_rank(self, size: int, spec: int | None) -> ShapedArray:
        """The type of an array with `size` rows of this type along the axis `spec`, None where it is not mapped."""
        return self if spec is None else self.with_axis(spec, size)


def _dimension(n: Any) -> int:
    """A dimension as an integer; a symbolic one as it is.

    Raises:
      TypeError: it is no integer.
    """
    if is_symbolic_dim(n):
        return n  # type: ignore[return-value]  # it stands for an integer
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, and {n!r} is none. Convert it with int()."
        )
    return operator.index(n)


def is_key(aval: ShapedArray) -> bool:
    """Whether a type is that of random keys."""
    return type(aval.dtype) is KeyType  # type: ignore[comparison-overlap]  # the one dtype that is not NumPy's


def same_type(expected: ShapedArray, actual: ShapedArray) -> bool:
    """Whether two types agree in shape, dtype, sharding and memory; weakness, varying axes and the mesh may differ.

    Types that users define agree if they are equal up to weakness, mutable ones whatever their state.
    """
    if expected is actual:
        return True
    if expected.is_high or actual.is_high:
        expected, actual = without_state(expected), without_state(actual)
        return bool(expected == actual or expected.normalize() == actual.normalize())
    return (
        expected.shape == actual.shape
        and expected.dtype == actual.dtype
        and expected.explicit is actual.explicit
        and expected.memory_space is actual.memory_space
    )


def same_kind(expected: Any, actual: Any) -> bool:
    """Whether two types agree in shape and dtype; those that users define as `same_type` compares them."""
    if expected.is_high or actual.is_high:
        return same_type(expected, actual)
    return bool(expected.shape == actual.shape and expected.dtype == actual.dtype)


def without_state(aval: Any) -> Any:
    """The type itself of one with the state of a mutable value; another type as it is."""
    return aval.aval if type(aval) is AvalQDD else aval


def is_differentiable(aval: Any) -> bool:
    """Whether values of a type may have tangents: of inexact dtypes, or of a type that a user defines."""
    return aval.is_high or aval.dtype in dtypes.INEXACT


def is_float0(aval: Any) -> bool:
    """Whether a type of tangents is that of values which have none."""
    return not aval.is_high and aval.dtype == float0


def same_types(expected: Sequence[ShapedArray], actual: Sequence[ShapedArray]) -> bool:
    """Whether two lists of types are equally long and agree pairwise, as `same_type` compares them."""
    return [*expected] == [*actual] or (len(expected) == len(actual) and all(map(same_type, expected, actual)))


class Zero:
    """A tangent or cotangent known to be zero, of type `aval`, that is never materialized as an array.

    The rules of custom_jvp and custom_vjp functions see it as `custom_derivatives.SymbolicZero`.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(aval_of(value).to_tangent_aval())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"A symbolic zero of type {self.aval.str_short()} is no array. A rule with symbolic_zeros=True asks with "
            "isinstance(t, custom_derivatives.SymbolicZero) and leaves such out, or makes jnp.zeros(t.shape, t.dtype)."
        )

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


def python_scalar_aval(kind: type) -> ShapedArray:
    """The type of a Python scalar of a class, weak unless it is `bool`."""
    return _python_scalar_aval(kind, settings.enable_x64)


@cache
def _python_scalar_aval(kind: type, is_wide: bool) -> ShapedArray:
    return ShapedArray((), dtypes.of_python(kind), kind is not bool)


_PYTHON_SCALARS = frozenset({bool, int, float, complex})

# NumPy scalars of at most 32 bits, whose type is the same under every setting.
TYPED_SCALARS: dict[type, ShapedArray] = {
    dtype.type: ShapedArray((), dtype)
    for dtype in (
        dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint8, dtypes.uint16, dtypes.uint32,
        dtypes.float16, dtypes.bf16, dtypes.float32, dtypes.complex64,
    )
}  # fmt: skip


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of an array, a tracer, a NumPy array or scalar, or a Python scalar.

    Raises:
      TypeError: `x` is none of these.
      ValueError: `x` is a masked array of NumPy's.

    >>> from xpr.core import aval_of
    >>> aval_of(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    aval = getattr(x, "aval", None) or TYPED_SCALARS.get(type(x))
    if aval is not None:
        return aval
    if type(x) in _PYTHON_SCALARS:
        return python_scalar_aval(type(x))
    if isinstance(x, (np.ndarray, np.generic)):
        if hasattr(x, "filled"):  # np.ma.MaskedArray
            raise ValueError("numpy masked arrays are not supported: the mask would be lost. Take x.filled(0).")
        if x.dtype == float0:
            return ShapedArray(x.shape, float0)
        if x.dtype in dtypes.ANY:
            narrow = dtypes.narrows_arrays(x.dtype) if isinstance(x, np.generic) else dtypes.is_narrowed(x.dtype)
            return ShapedArray(x.shape, dtypes.canonical(x.dtype) if narrow else x.dtype)
        raise TypeError(
            f"A NumPy array of dtype {x.dtype} is not a valid JAX type. Convert it to numbers or booleans first."
        )
    for kind in (bool, int, float, complex):
        if isinstance(x, kind):
            return python_scalar_aval(kind)
    if is_symbolic_dim(x):
        return python_scalar_aval(int)
    for method in ("__xpr_array__", "__jax_array__"):
        if hasattr(type(x), method):
            return aval_of(getattr(x, method)())
    raise TypeError(
        f"Expected an array or a number: {shortened(x)} of type {type(x)} is not a valid JAX type. "
        "Lists and tuples are converted with jnp.array; other objects have to be turned into arrays first."
    )


def check_truth(aval: ShapedArray) -> None:
    """Raises ValueError unless an array has exactly one element, so that it has a truth value."""
    if not aval.is_symbolic and aval.size != 1:
        which = "an array with more than one element" if aval.size else "an empty array"
        raise ValueError(f"The truth value of {which} is ambiguous. It is {aval.str_short()}; use .any() or .all().")


def check_index(aval: ShapedArray) -> None:
    """Raises TypeError unless an array is an integer scalar, which Python can use as an index."""
    if aval.ndim or aval.dtype.kind not in "iub":
        raise TypeError(
            f"Only integer scalar arrays can be converted to a scalar index; this one is {aval.str_short()}."
        )


def check_number(aval: ShapedArray) -> None:
    """Raises TypeError unless an array is a scalar, which converts to a Python number."""
    if aval.ndim:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; this one is {aval.str_short()}. Take an element, "
            "as by x[0], or x.item() of an array that has one."
        )


def types_of(values: Iterable[Any]) -> str:
    """The types of values, or types themselves, as messages list them: `f32[2,3], i32[]`."""
    return ", ".join([(x if isinstance(x, AbstractValue) else aval_of(x)).str_short() for x in values])


class ConvertibleArrayError(TypeError):
    """An operand has a method `__jax_array__`, which makes an array of it: `bind` tries again with that array."""


def array_in(x: Any) -> Any:
    """The array that `__jax_array__` of an object returns; anything else, values of users' types too, unchanged."""
    return x.__jax_array__() if hasattr(type(x), "__jax_array__") and not is_of_users(x) else x


def array_made_of(x: Any) -> Any:
    """The array that `__jax_array__` of an object returns, or of a traced value of a user's type; others unchanged."""
    if hasattr(type(x), "__jax_array__"):
        return x.__jax_array__()
    is_traced_user_value = getattr(x, "aval", None) is not None and x.aval.is_high
    return x.__jax_array__() if is_traced_user_value and hasattr(x, "__jax_array__") else x


def is_type_alone(x: Any) -> bool:
    """Whether an operand stands for an array of its type, and has no value, as a ShapeDtypeStruct."""
    if not hasattr(x, "aval") or hasattr(x, "__array__") or hasattr(type(x), "__jax_array__"):
        return False
    return not is_of_users(x)


def is_of_users(x: Any) -> bool:
    """Whether a value is one of a class that a user has registered."""
    return type(getattr(type(x), "aval", None)) is property and isinstance(x.aval, AbstractValue) and x.aval.is_high


def refuse_without_value(x: Any) -> None:
    """Raises an error where an operand is no array, although `aval_of` knows its type.

    Raises:
      ConvertibleArrayError: it is an object with a method `__jax_array__`.
      TypeError: it is a type alone, as a ShapeDtypeStruct is.
    """
    if hasattr(type(x), "__jax_array__"):
        kind = type(x).__qualname__
        raise ConvertibleArrayError(
            f"A {kind} is no array, but can be made one: give jnp.asarray(x), which calls its __jax_array__."
        )
    if is_type_alone(x):
        raise TypeError(
            f"A {type(x).__name__} does not have a value, and an array is needed to compute with: {x!r} is only the "
            "type of one. Functions are traced with types by eval_shape, make_jaxpr, and the methods lower and trace "
            "of a jitted function."
        )


def typeof(x: Any) -> Any:
    """The type of anything array-like: its shape, dtype and weakness; or the type of a value of a user's class.

    Raises:
      TypeError: `x` is no array.

    >>> import xpr
    >>> xpr.typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return without_state(aval_of(x))


def describe(x: Any) -> str:
    """A value in messages: `3 of type builtins.int`."""
    return f"{shortened(x)} of type {full_name(type(x))}"


def full_name(kind: type) -> str:
    """The name of a class, with that of its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def shortened(x: Any) -> str:
    """The repr of a value, of 60 characters at most."""
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def integer(x: int, dtype: np.dtype) -> Any:
    """A Python integer as a value of an integer dtype; for another dtype the integer itself.

    Raises:
      OverflowError: the dtype can't represent it.
    """
    if dtype not in dtypes.INTEGERS:
        return x
    try:
        return dtype.type(x)
    except OverflowError:
        raise overflow(x, dtype) from None


def overflow(x: Any, dtype: np.dtype) -> OverflowError:
    """The exception for a Python integer that a dtype can't represent."""
    way_out = ""
    if dtype == dtypes.int32:
        way_out = ' Switch 64-bit types on with xpr.config.update("enable_x64", True), or give a float.'
    fault = "too large to convert to" if x > 0 else "too small for"
    return OverflowError(f"Python int {x} {fault} {dtype.name}.{way_out}")

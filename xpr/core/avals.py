"""Abstract values: what is known of a value while it is traced.

A `ShapedArray` is interned: two with the same shape, dtype and weak type are one object, so comparing and hashing
are pointer operations, and caches keyed by avals cost one dictionary look-up.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from xpr import dtypes
from xpr.dtypes import float0, short_name

Shape = tuple[int, ...]


class ShapedArray:
    """The type of an array: its shape and dtype, and whether the dtype is weak (came from a Python scalar).

    >>> from xpr import core
    >>> core.ShapedArray((2, 3), "float32")
    ShapedArray(float32[2,3])
    """

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "__weakref__")
    shape: Shape
    dtype: np.dtype
    weak_type: bool
    ndim: int
    size: int

    _interned: ClassVar[dict[tuple[Shape, np.dtype, bool], ShapedArray]] = {}

    def __new__(cls, shape: Shape, dtype: Any, weak_type: bool = False) -> ShapedArray:
        try:
            return cls._interned[shape, dtype, weak_type]
        except (KeyError, TypeError):
            return cls._intern(shape, dtype, weak_type)

    @classmethod
    def _intern(cls, shape: Any, dtype: Any, weak_type: bool) -> ShapedArray:
        shape, dtype, weak_type = tuple(int(n) for n in shape), np.dtype(dtype), bool(weak_type)
        key = (shape, dtype, weak_type)
        if key in cls._interned:
            return cls._interned[key]
        self = object.__new__(cls)
        size = 1
        for n in shape:
            size *= n
        for name, value in zip(
            ("shape", "dtype", "weak_type", "ndim", "size"), (shape, dtype, weak_type, len(shape), size)
        ):
            object.__setattr__(self, name, value)
        return cls._interned.setdefault(key, self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable; use .update({name}=...).")

    def __reduce__(self) -> Any:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"ShapedArray({self.dtype.name}[{shape}]{', weak_type=True' if self.weak_type else ''})"

    def __str__(self) -> str:
        return self.str_short()

    def str_short(self) -> str:
        """The type as jaxprs print it, `f32[2,3]`."""
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def update(self, **changes: Any) -> ShapedArray:
        """The same type with some of shape, dtype and weak_type changed."""
        return ShapedArray(
            changes.get("shape", self.shape),
            changes.get("dtype", self.dtype),
            changes.get("weak_type", self.weak_type),
        )

    def strip_weak_type(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype, False)

    def to_tangent_aval(self) -> ShapedArray:
        """The type of this value's tangents: itself for inexact dtypes, float0 for the others."""
        if self.dtype in dtypes.INEXACT:
            return self
        return ShapedArray(self.shape, float0, False)


class Zero:
    """A tangent or cotangent known to be zero, of type `aval`, that is never made into an array.

    Rules of custom_jvp and custom_vjp functions meet it as `custom_derivatives.SymbolicZero`.
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
    return ShapedArray((), dtypes.of_python(kind), kind is not bool)


_PYTHON_SCALARS = frozenset({bool, int, float, complex})

# NumPy scalars of at most 32 bits, whose type is the same under every setting.
TYPED_SCALARS: dict[type, ShapedArray] = {
    dtype.type: ShapedArray((), dtype)
    for dtype in (
        dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint8, dtypes.uint16, dtypes.uint32,
        dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.complex64,
    )
}  # fmt: skip


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of an array, a tracer, a NumPy array or scalar, or a Python scalar.

    Raises:
      TypeError: `x` is none of these.
    """
    aval = getattr(x, "aval", None) or TYPED_SCALARS.get(type(x))
    if aval is not None:
        return aval
    if type(x) in _PYTHON_SCALARS:
        return python_scalar_aval(type(x))
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype == float0 or x.dtype in dtypes.ANY:
            return ShapedArray(x.shape, dtypes.canonical(x.dtype) if x.dtype != float0 else float0)
        raise TypeError(
            f"A NumPy array of dtype {x.dtype} is not a numeric array. Convert it to numbers or booleans first."
        )
    for kind in (bool, int, float, complex):
        if isinstance(x, kind):
            return python_scalar_aval(kind)
    for method in ("__xpr_array__", "__jax_array__"):
        if hasattr(type(x), method):
            return aval_of(getattr(x, method)())
    raise TypeError(
        f"Expected an array or a number, and got {describe(x)}. "
        "Lists and tuples are converted with jnp.array; other objects have to be turned into arrays first."
    )


class HeldArrayError(TypeError):
    """An operand is an object whose `__jax_array__` gives the array: `bind` then takes that in its place."""


def array_in(x: Any) -> Any:
    """What `__jax_array__` of an object gives; anything else as it is."""
    return x.__jax_array__() if hasattr(type(x), "__jax_array__") else x


def refuse_held(x: Any) -> None:
    """Raises HeldArrayError where an operand is an object that gives an array by `__jax_array__`."""
    if hasattr(type(x), "__jax_array__"):
        kind = type(x).__qualname__
        raise HeldArrayError(
            f"A {kind} is no array, but can be made one: give jnp.asarray(x), which calls its __jax_array__."
        )


def typeof(x: Any) -> ShapedArray:
    """The type of anything array-like: its shape, dtype and weakness.

    Raises:
      TypeError: `x` is no array.

    >>> import xpr
    >>> xpr.typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return aval_of(x)


def describe(x: Any) -> str:
    text = repr(x)
    return f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(x).__module__}.{type(x).__qualname__}"

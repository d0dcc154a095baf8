"""dtypes as users name them: `jnp.float32` and its kin, the abstract kinds above them, and questions about them.

`jnp.float32` is a `ScalarType`: it is called to make an array of its dtype, taken wherever a dtype is, and equal to the
`np.dtype` it stands for and to NumPy's scalar type of the same name.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.creation import asarray


class ScalarType:
    """A dtype that makes arrays when called.

    >>> import xpr.numpy as jnp
    >>> jnp.float32(3)
    Array(3., dtype=float32)
    >>> jnp.arange(2).dtype == jnp.int32
    True
    """

    __slots__ = ("__name__", "dtype")
    dtype: np.dtype

    def __init__(self, dtype: Any):
        self.dtype = np.dtype(dtype)
        self.__name__ = self.dtype.name

    @property
    def type(self) -> type:
        """NumPy's scalar type."""
        return self.dtype.type

    def __call__(self, x: Any = 0) -> Any:
        return asarray(x, self.dtype)

    def __repr__(self) -> str:
        return f"jnp.{self.__name__}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ScalarType, np.dtype)):
            return self.dtype == getattr(other, "dtype", other)
        return self.dtype.type is other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __instancecheck__(self, instance: object) -> bool:
        """Whether it is a NumPy scalar of this dtype; arrays are not."""
        return isinstance(instance, self.dtype.type)

    def __reduce__(self) -> Any:
        return ScalarType, (self.dtype,)


# -- The dtypes

bool_ = ScalarType(np.bool_)
int2, int4, uint2, uint4 = map(ScalarType, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4))
int8, int16, int32, int64 = map(ScalarType, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(ScalarType, ("uint8", "uint16", "uint32", "uint64"))
float16, bfloat16, float32, float64 = map(ScalarType, ("float16", ml_dtypes.bfloat16, "float32", "float64"))
float8_e4m3fn, float8_e4m3fnuz = map(ScalarType, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz))
float8_e5m2, float8_e5m2fnuz = map(ScalarType, (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz))
float8_e4m3b11fnuz = ScalarType(ml_dtypes.float8_e4m3b11fnuz)
complex64, complex128 = map(ScalarType, ("complex64", "complex128"))
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128

# -- The kinds above them, for issubdtype

generic, number, inexact, integer = np.generic, np.number, np.inexact, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning

# -- Constants

pi, e, euler_gamma = math.pi, math.e, 0.5772156649015329
inf, nan = math.inf, math.nan
newaxis = None

# -- Questions


def _typed(x: Any) -> tuple[np.dtype, bool]:
    """The dtype of a dtype, its name, a Python type, an array or a number; and whether it is weak."""
    if isinstance(x, type) and x in (int, float, complex):
        return dtypes.of_python(x), True
    if isinstance(x, (str, type, np.dtype, ScalarType)):
        return np.dtype(getattr(x, "dtype", x) if not isinstance(x, type) else x), False
    aval = aval_of(x)
    return aval.dtype, aval.weak_type


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype that two dtypes promote to; Python's types yield to the others.

    Raises:
      TypeError: they have none in common.

    >>> import xpr.numpy as jnp
    >>> jnp.promote_types("int32", "bfloat16")
    dtype(bfloat16)
    """
    return dtypes.promote_types(*_typed(a), *_typed(b))[0]


def result_type(*args: Any) -> np.dtype:
    """The dtype that arrays, numbers and dtypes promote to together.

    >>> import xpr.numpy as jnp
    >>> jnp.result_type(jnp.int8(1), 2.0)
    dtype('float32')
    """
    if not args:
        raise ValueError("result_type: takes at least one array or dtype.")
    return dtypes.canonical(dtypes.promote_all([_typed(x) for x in args])[0])


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether NumPy would cast between two dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.can_cast(jnp.int32, jnp.float64)
    True
    """
    return np.can_cast(np.dtype(from_), np.dtype(to), casting=casting)  # type: ignore[arg-type]  # it checks the string


_KINDS: dict[str, frozenset[np.dtype]] = {
    "bool": dtypes.BOOL, "signed integer": dtypes.SIGNED, "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGERS, "real floating": dtypes.FLOATS, "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.NUMBERS,
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, or of one of several.

    Args:
      dtype: a dtype, its name, or an object that has one.
      kind: a dtype; or "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating"
        or "numeric"; or a tuple of these.

    >>> import xpr.numpy as jnp
    >>> jnp.isdtype(jnp.bfloat16, "real floating")
    True
    """
    own = np.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return own in _KINDS[kind]
    try:
        return own == np.dtype(kind)
    except TypeError:
        known = ", ".join(map(repr, _KINDS))
        raise ValueError(f"isdtype: {kind!r} is neither a dtype nor one of the kinds {known}.") from None


def isscalar(element: Any) -> bool:
    """Whether this is a number, or an array without axes.

    >>> import xpr.numpy as jnp
    >>> jnp.isscalar(jnp.float32(1)), jnp.isscalar(jnp.ones(1))
    (True, False)
    """
    return element.ndim == 0 if hasattr(element, "ndim") else np.isscalar(element)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex, whatever the values.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplexobj(jnp.array([1 + 0j]))
    True
    """
    return (x.dtype if hasattr(x, "dtype") else asarray(x).dtype) in dtypes.COMPLEX


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    >>> import xpr.numpy as jnp
    >>> jnp.isrealobj(jnp.array([1.0]))
    True
    """
    return not iscomplexobj(x)


bool = bool_
